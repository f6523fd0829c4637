"""Made-up robot files, one for each thing that a format can say of how a robot looks, written by hand."""

from __future__ import annotations

import importlib
import re
import struct
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from .dressed_meshes import BOX, dae_with_effects, obj_with_library, picture, seamed_coordinates
from .dressed_stages import (
    usd_display_color,
    usd_face_colors,
    usd_materialx,
    usd_mdl,
    usd_point_colors,
    usd_preview,
    usd_subsets,
)

trimesh: Any = importlib.import_module("trimesh")

_MESH = 'vertex="0 0 0 1 0 0 0 1 0 0 0 1" face="0 2 1 0 1 3 0 3 2 1 2 3" texcoord="0 0 1 0 0 1 1 1"'
_MASS = '<inertial><mass value="1"/><inertia ixx="1" ixy="0" ixz="0" iyy="1" iyz="0" izz="1"/></inertial>'


# -- URDF: a colour, a texture, and whatever the mesh's file says ------------------------------------------------------


def _urdf(folder: Path, visual: str, materials: str = "") -> Path:
    text = f'<robot name="r">{materials}<link name="arm">{_MASS}<visual name="v">{visual}</visual></link></robot>'
    (folder / "r.urdf").write_text(text)
    return folder / "r.urdf"


def _mesh_of(file: Path) -> str:
    return f'<geometry><mesh filename="{file.name}" scale="0.5 0.5 2"/></geometry>'


def urdf_color(folder: Path) -> Path:
    """A colour that is defined for the whole file, over a mesh with materials of its own."""
    mesh = obj_with_library(folder)
    materials = '<material name="m"><color rgba="0.1 0.2 0.3 0.5"/></material>'
    return _urdf(folder, _mesh_of(mesh) + '<material name="m"/>', materials)


def urdf_texture(folder: Path) -> Path:
    """A texture on a mesh that has coordinates."""
    mesh = obj_with_library(folder)
    return _urdf(folder, _mesh_of(mesh) + '<material name="m"><texture filename="paint.png"/></material>')


def urdf_dae(folder: Path) -> Path:
    return _urdf(folder, _mesh_of(dae_with_effects(folder)))


def urdf_glb(folder: Path) -> Path:
    """A GLB with images inside, written by trimesh."""
    return _urdf(folder, _mesh_of(_trimesh_gltf(folder, "box.glb")))


def urdf_gltf(folder: Path) -> Path:
    """The same with its buffers and images beside it."""
    return _urdf(folder, _mesh_of(_trimesh_gltf(folder, "box.gltf")))


def urdf_ply(folder: Path) -> Path:
    """Colours of vertices."""
    colors = np.column_stack([np.arange(8) * 30, np.arange(8)[::-1] * 30, np.full(8, 128), np.full(8, 255)])
    mesh: Any = trimesh.Trimesh(BOX.vertices, BOX.faces, vertex_colors=colors.astype(np.uint8), process=False)
    mesh.export(folder / "box.ply")
    return _urdf(folder, _mesh_of(folder / "box.ply"))


def urdf_stl(folder: Path) -> Path:
    """Colours of faces, as some programs put them into binary STL."""
    rows = b"".join(
        struct.pack("<12fH", 0, 0, 0, *corners.reshape(-1).tolist(), 0x8000 | (31 << 10 if number % 2 else 31))
        for number, corners in enumerate(BOX.triangles())
    )
    (folder / "box.stl").write_bytes(b"colours".ljust(80, b"\0") + struct.pack("<I", BOX.n_faces) + rows)
    return _urdf(folder, _mesh_of(folder / "box.stl"))


def _trimesh_gltf(folder: Path, name: str) -> Path:
    """Two parts by trimesh: one with a texture, one without."""
    images: Any = importlib.import_module("PIL.Image")
    image = images.open(picture(folder / "paint.png", (200, 40, 30), (10, 60, 220)))
    pbr = trimesh.visual.material.PBRMaterial
    paint = pbr(name="paint", baseColorTexture=image, roughnessFactor=0.25, metallicFactor=0.5, doubleSided=True)
    steel = pbr(name="steel", baseColorFactor=(64, 64, 128, 255), metallicFactor=1.0, roughnessFactor=0.5)
    corners = BOX.triangles().reshape(-1, 3)
    scene = trimesh.Scene()
    for number, material in enumerate((paint, steel)):
        own = slice(18 * number, 18 * (number + 1))
        visual = trimesh.visual.TextureVisuals(
            uv=seamed_coordinates(BOX).expanded().reshape(-1, 2)[own], material=material
        )
        part: Any = trimesh.Trimesh(corners[own], np.arange(18).reshape(-1, 3), visual=visual, process=False)
        scene.add_geometry(part, node_name=f"part{number}", geom_name=f"part{number}")
    if name.endswith(".glb"):
        (folder / name).write_bytes(scene.export(file_type="glb"))
    else:
        for file, data in scene.export(file_type="gltf").items():
            (folder / file.replace("model.gltf", name)).write_bytes(data)
    return folder / name


# -- SDFormat: Phong's colours, scripts, and physically based blocks ---------------------------------------------------


def _sdf(folder: Path, mesh: Path, material: str, more: str = "") -> Path:
    (folder / "r.sdf").write_text(
        f'<sdf version="1.9"><model name="r"><link name="arm"><visual name="v">{more}<geometry><mesh>'
        f"<uri>{mesh.name}</uri></mesh></geometry><material>{material}</material></visual></link></model></sdf>"
    )
    return folder / "r.sdf"


def sdf_phong(folder: Path) -> Path:
    colors = (
        "<ambient>0.1 0.2 0.3 1</ambient><diffuse>0.4 0.5 0.6 1</diffuse><specular>0.25 0.25 0.25 1</specular>"
        "<emissive>0 0.5 0.25 1</emissive><shininess>20</shininess><double_sided>true</double_sided>"
    )
    return _sdf(folder, obj_with_library(folder), colors, "<transparency>0.25</transparency>")


def sdf_pbr(folder: Path) -> Path:
    """Everything a metal block has."""
    mesh = obj_with_library(folder)
    for name in ("rough", "metal", "normal", "glow", "shade"):
        picture(folder / f"{name}.png", (128, 128, 255))
    maps = {"albedo": "paint", "normal": "normal", "roughness": "rough", "metalness": "metal", "emissive": "glow"}
    text = "".join(f"<{word}_map>{file}.png</{word}_map>" for word, file in maps.items())
    text += (
        "<ambient_occlusion_map>shade.png</ambient_occlusion_map><metalness>0.75</metalness><roughness>0.25</roughness>"
    )
    return _sdf(folder, mesh, f"<diffuse>1 1 1 1</diffuse><pbr><metal>{text}</metal></pbr>")


def sdf_mesh(folder: Path) -> Path:
    """No material but the mesh's own."""
    mesh = dae_with_effects(folder)
    return _sdf(folder, mesh, "")


# -- MJCF: materials, textures of all kinds ----------------------------------------------------------------------------


def _mjcf(folder: Path, assets: str, geom: str) -> Path:
    (folder / "r.xml").write_text(
        f'<mujoco><asset>{assets}<mesh name="b" {_MESH}/></asset><worldbody><body name="arm">'
        f'<geom name="v" type="mesh" mesh="b" {geom}/></body></worldbody></mujoco>'
    )
    return folder / "r.xml"


def mjcf_color(folder: Path) -> Path:
    return _mjcf(folder, "", 'rgba="0.25 0.5 0.75 0.5"')


def mjcf_material(folder: Path) -> Path:
    numbers = 'rgba="0.25 0.5 0.75 1" specular="0.75" shininess="0.25" reflectance="0.125" emission="0.5"'
    return _mjcf(folder, f'<material name="m" {numbers} metallic="0.5" roughness="0.25"/>', 'material="m"')


def _textured(folder: Path, texture: str) -> Path:
    return _mjcf(folder, f'<texture name="t" {texture}/><material name="m" texture="t"/>', 'material="m"')


def mjcf_checker(folder: Path) -> Path:
    return _textured(folder, 'type="2d" builtin="checker" rgb1="1 0 0" rgb2="0 0 1" width="8" height="8" mark="edge"')


def mjcf_gradient(folder: Path) -> Path:
    return _textured(folder, 'type="2d" builtin="gradient" rgb1="1 0 0" rgb2="0 0 1" width="8" height="8"')


def mjcf_file(folder: Path) -> Path:
    picture(folder / "paint.png", (200, 40, 30), (10, 60, 220))
    return _textured(folder, 'type="2d" file="paint.png"')


def mjcf_cube(folder: Path) -> Path:
    """A texture that lies around its geom, and one that lies around everything."""
    sky = '<texture name="s" type="skybox" builtin="gradient" rgb1="0 0 0" rgb2="1 1 1" width="8" height="48"/>'
    cube = '<texture name="t" type="cube" builtin="flat" rgb1="1 0 0" rgb2="0 0 1" width="8" height="48"/>'
    return _mjcf(folder, f'{sky}{cube}<material name="m" texture="t" rgba="0.5 0.5 1 1"/>', 'material="m"')


def mjcf_around(folder: Path) -> Path:
    """The same on a mesh without texture coordinates, where MuJoCo shows it."""
    return _without_coordinates(mjcf_cube(folder))


def mjcf_repeated(folder: Path) -> Path:
    file = mjcf_file(folder)
    file.write_text(file.read_text().replace('texture="t"/>', 'texture="t" texrepeat="3 2"/>'))
    return file


def mjcf_laid(folder: Path) -> Path:
    """An image on a mesh without texture coordinates."""
    return _without_coordinates(mjcf_repeated(folder))


def _without_coordinates(file: Path) -> Path:
    file.write_text(re.sub(r'texcoord="[^"]*"', "", file.read_text()))
    return file


def mjcf_layers(folder: Path) -> Path:
    picture(folder / "paint.png", (200, 40, 30), (10, 60, 220))
    picture(folder / "orm.png", (255, 128, 0), (250, 64, 255))
    picture(folder / "n.png", (128, 128, 255))
    files = (("a", "paint"), ("o", "orm"), ("n", "n"))
    textures = "".join(f'<texture name="{name}" type="2d" file="{file}.png"/>' for name, file in files)
    layers = '<layer role="rgb" texture="a"/><layer role="orm" texture="o"/><layer role="normal" texture="n"/>'
    return _mjcf(folder, f'{textures}<material name="m">{layers}</material>', 'material="m"')


FILES: dict[str, tuple[str, Callable[[Path], Path]]] = {
    make.__name__: (make.__name__.partition("_")[0], make)
    for make in (
        *(urdf_color, urdf_texture, urdf_dae, urdf_glb, urdf_gltf, urdf_ply, urdf_stl),
        *(sdf_phong, sdf_pbr, sdf_mesh),
        *(mjcf_color, mjcf_material, mjcf_checker, mjcf_gradient, mjcf_file, mjcf_cube, mjcf_layers),
        *(mjcf_around, mjcf_repeated, mjcf_laid),
        *(usd_display_color, usd_face_colors, usd_point_colors, usd_preview, usd_subsets),
        *(usd_mdl, usd_materialx),
    )
}
"""Name -> its format, and what makes the file in a folder."""
