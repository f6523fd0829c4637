"""Made-up meshes with everything that can be laid on one, and files of them in each format, written by hand."""

from __future__ import annotations

import struct
import zlib
from pathlib import Path

import numpy as np

from kinema.geometry import (
    Appearance,
    CornerAttribute,
    MapRole,
    MeshData,
    PbrMaterial,
    Texture,
    TextureMapping,
    WrapMode,
    box,
)

BOX = box((1.0, 2.0, 0.5))
RED, BLUE = (200, 40, 30), (10, 60, 220)


def picture(path: Path, *colors: tuple[int, ...]) -> Path:
    """A PNG with a row of pixels, made without our own code."""
    pixels = bytes([0]) + bytes(value for color in colors for value in color)
    depth = 6 if len(colors[0]) == 4 else 2
    head = struct.pack(">IIBBBBB", len(colors), 1, 8, depth, 0, 0, 0)
    chunks = ((b"IHDR", head), (b"IDAT", zlib.compress(pixels)), (b"IEND", b""))
    body = b"".join(
        struct.pack(">I", len(d)) + kind + d + struct.pack(">I", zlib.crc32(kind + d)) for kind, d in chunks
    )
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(b"\x89PNG\r\n\x1a\n" + body)
    return path


def face_normals(mesh: MeshData) -> CornerAttribute:
    """The directions in which faces look, for each of their corners."""
    a, b, c = (mesh.triangles()[:, i] for i in range(3))
    across = np.cross(b - a, c - a)
    unit = across / np.linalg.norm(across, axis=1, keepdims=True)
    return CornerAttribute(unit, np.repeat(np.arange(mesh.n_faces)[:, None], 3, axis=1))


def seamed_coordinates(mesh: MeshData) -> CornerAttribute:
    """Texture coordinates that differ between the faces at one vertex; exact in single precision."""
    number = np.arange(3 * mesh.n_faces)
    values = np.column_stack([(number % 8) / 8.0, (number // 8) / 8.0])
    return CornerAttribute(values, number.reshape(-1, 3))


def two_materials(folder: Path) -> tuple[PbrMaterial, PbrMaterial]:
    """One with a texture and many numbers, one of plain metal."""
    paint = PbrMaterial(
        name="paint",
        color=(0.5, 0.75, 0.25, 1.0),
        texture=str(picture(folder / "paint.png", RED, BLUE)),
        roughness=0.25,
        metallic=0.125,
        emission=(0.0, 0.5, 0.25),
    )
    steel = PbrMaterial(name="steel", color=(0.25, 0.25, 0.5, 0.5), metallic=1.0, roughness=0.5)
    return paint, steel


def everything(folder: Path) -> PbrMaterial:
    """A material that says all there is to say."""
    shared = str(picture(folder / "orm.png", (255, 128, 0), (250, 64, 255)))
    place = TextureMapping(wrap=(WrapMode.CLAMP, WrapMode.MIRROR), scale=(2.0, 0.5), offset=(0.25, 0.125), rotation=0.5)
    return PbrMaterial(
        name="everything",
        color=(0.5, 0.25, 0.75, 0.5),
        texture=str(picture(folder / "base.png", (*RED, 255), (*BLUE, 100))),
        texture_mapping=place,
        emission=(0.125, 0.25, 0.5),
        specular=0.25,
        metallic=0.75,
        roughness=0.125,
        reflectance=0.5,
        clearcoat=0.5,
        clearcoat_roughness=0.25,
        opacity_threshold=0.5,
        double_sided=True,
        maps={
            MapRole.NORMAL: Texture(file=str(picture(folder / "normal.png", (128, 128, 255))), strength=0.5),
            MapRole.OCCLUSION: Texture(file=shared, channel="r", strength=0.75),
            MapRole.ROUGHNESS: Texture(file=shared, channel="g"),
            MapRole.METALLIC: Texture(file=shared, channel="b"),
            MapRole.EMISSION: Texture(file=str(picture(folder / "glow.png", (9, 8, 7)))),
        },
    )


def dressed_box(*materials: PbrMaterial) -> tuple[MeshData, Appearance]:
    """A box with normals, seams, and the materials on equal shares of its faces."""
    numbers = np.arange(BOX.n_faces) * len(materials) // BOX.n_faces if len(materials) > 1 else None
    return BOX, Appearance(
        normals=face_normals(BOX),
        texture_coordinates=(seamed_coordinates(BOX),),
        materials=tuple(materials),
        face_material_indices=numbers,
    )


# -- files ------------------------------------------------------------------------------------------------------------


def obj_with_library(folder: Path) -> Path:
    """An OBJ of the box with two materials, its library, and an image."""
    paint, steel = two_materials(folder)
    mesh, appearance = dressed_box(paint, steel)
    assert appearance.normals is not None
    uv, normals = appearance.texture_coordinates[0], appearance.normals
    lines = ["mtllib box.mtl", *(f"v {x} {y} {z}" for x, y, z in mesh.vertices)]
    lines += [f"vt {u} {v}" for u, v in uv.values] + [f"vn {x} {y} {z}" for x, y, z in normals.values]
    for number, face in enumerate(mesh.faces):
        if number in (0, 6):
            lines.append(f"usemtl {'paint' if number == 0 else 'steel'}")
        corners = zip(face, uv.indices[number], normals.indices[number], strict=True)
        lines.append("f " + " ".join(f"{v + 1}/{t + 1}/{n + 1}" for v, t, n in corners))
    (folder / "box.obj").write_text("\n".join(lines))
    (folder / "box.mtl").write_text(
        """# a library
newmtl paint
Kd 0.5 0.75 0.25
Ke 0 0.5 0.25
Pr 0.25
Pm 0.125
map_Kd paint.png
newmtl steel
Kd 0.25 0.25 0.5
d 0.5
Pm 1
Pr 0.5
"""
    )
    return folder / "box.obj"


_DAE = """<?xml version="1.0"?>
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="0.5"/><up_axis>Z_UP</up_axis></asset>
<library_images><image id="i"><init_from>paint.png</init_from></image></library_images>
<library_effects>
<effect id="e1"><profile_COMMON>
<newparam sid="s"><surface type="2D"><init_from>i</init_from></surface></newparam>
<newparam sid="t"><sampler2D><source>s</source><wrap_s>CLAMP</wrap_s></sampler2D></newparam>
<technique sid="c"><phong><emission><color>0 0.5 0.25 1</color></emission>
<diffuse><texture texture="t" texcoord="UV"/></diffuse>
<specular><color>0.25 0.25 0.25 1</color></specular><shininess><float>30</float></shininess></phong></technique>
</profile_COMMON></effect>
<effect id="e2"><profile_COMMON><technique sid="c"><lambert><diffuse><color>0.25 0.25 0.5 1</color></diffuse>
<transparent opaque="A_ONE"><color>1 1 1 1</color></transparent><transparency><float>0.5</float></transparency>
</lambert></technique></profile_COMMON></effect>
</library_effects>
<library_materials><material id="m1" name="paint"><instance_effect url="#e1"/></material>
<material id="m2" name="steel"><instance_effect url="#e2"/></material></library_materials>
<library_geometries><geometry id="g"><mesh>
{sources}
<vertices id="v"><input semantic="POSITION" source="#p"/></vertices>
{triangles}
</mesh></geometry></library_geometries>
<library_visual_scenes><visual_scene id="all"><node><rotate>0 0 1 90</rotate>
<instance_geometry url="#g"><bind_material><technique_common>
<instance_material symbol="one" target="#m1"><bind_vertex_input semantic="UV" input_semantic="TEXCOORD" input_set="0"/>
</instance_material><instance_material symbol="two" target="#m2"/></technique_common></bind_material>
</instance_geometry></node></visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#all"/></scene></COLLADA>"""


def dae_with_effects(folder: Path) -> Path:
    """A COLLADA file of the box with two materials in half metres, turned by a quarter."""
    mesh, appearance = dressed_box(*two_materials(folder))
    assert appearance.normals is not None
    uv, normals = appearance.texture_coordinates[0], appearance.normals
    layers = {"p": (mesh.vertices, "XYZ"), "n": (normals.values, "XYZ"), "u": (uv.values, "ST")}
    sources = "".join(_source(name, values, axes) for name, (values, axes) in layers.items())
    table = np.stack([mesh.faces, normals.indices, uv.indices], axis=-1)
    triangles = "".join(
        f'<triangles material="{symbol}" count="6"><input semantic="VERTEX" source="#v" offset="0"/>'
        '<input semantic="NORMAL" source="#n" offset="1"/><input semantic="TEXCOORD" source="#u" offset="2" set="0"/>'
        f"<p>{' '.join(map(str, part.reshape(-1).tolist()))}</p></triangles>"
        for symbol, part in (("one", table[:6]), ("two", table[6:]))
    )
    path = folder / "box.dae"
    path.write_text(_DAE.format(sources=sources, triangles=triangles))
    return path


def _source(name: str, values: np.ndarray, axes: str) -> str:
    params = "".join(f'<param name="{axis}" type="float"/>' for axis in axes)
    return (
        f'<source id="{name}"><float_array id="{name}a" count="{values.size}">'
        f"{' '.join(map(str, values.reshape(-1).tolist()))}</float_array><technique_common>"
        f'<accessor source="#{name}a" count="{len(values)}" stride="{values.shape[1]}">{params}'
        "</accessor></technique_common></source>"
    )
