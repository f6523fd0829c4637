"""OBJ mesh files and MTL material libraries, with the physically based MTL extension.

The library has both Phong coefficients and the properties of the physically based extension (`Pr`, `Pm`, `Pc`, `norm`).
Material properties that neither can represent are appended to a list of losses.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kinema import geometry
from kinema.core import unique_name
from kinema.geometry import Appearance, CornerAttribute, MapRole, MeshData, PbrMaterial, TextureMapping, WrapMode

from .textures import ImageUnavailableError, LossEntries
from .xml_document import format_number, format_numbers

_MAP_KEYWORDS = {
    MapRole.OPACITY: "map_d",
    MapRole.METALLIC: "map_Pm",
    MapRole.ROUGHNESS: "map_Pr",
    MapRole.EMISSION: "map_Ke",
    MapRole.SPECULAR: "map_Ks",
    MapRole.CLEARCOAT: "map_Pc",
    MapRole.NORMAL: "norm",
    MapRole.BUMP: "map_Bump",
    MapRole.OCCLUSION: "map_AO",
}


_SHORT_FORMAT = "%.15g"
"""Number format tried first; `%.17g` represents every float64 and takes half the time of the shortest text."""
_VERTICES_PER_BLOCK = 4096
"""Number of vertices that share one number format."""


def textured_obj_text(mesh: MeshData, appearance: Appearance, library: str, names: Sequence[str]) -> str:
    """OBJ text of a mesh with texture coordinates, normals, vertex colours and materials.

    Positions are exact in float64; other numbers have nine digits.

    Args:
        mesh: the triangles.
        appearance: vertex attributes and materials.
        library: file name of the MTL library; empty for none.
        names: names of the appearance's materials in the library.
    """
    vertices, colors, faces = _split_colored_vertices(mesh, appearance.colors)
    pieces = [f"mtllib {library}\n"] if library else []
    pieces.append(vertex_lines(vertices if colors is None else np.column_stack([vertices, colors])))
    columns = [faces + 1]
    uv, normals = (appearance.texture_coordinates or (None,))[0], appearance.normals
    if uv is not None:
        pieces.append(format_rows("vt %.9g %.9g\n", uv.values))
        columns.append(uv.indices + 1)
    if normals is not None:
        pieces.append(format_rows("vn %.9g %.9g %.9g\n", normals.values))
        columns.append(normals.indices + 1)
    corner = "%d//%d" if uv is None and normals is not None else "/".join(["%d"] * len(columns))
    form = "f " + " ".join([corner] * 3) + "\n"
    table = np.stack(columns, axis=-1).reshape(len(faces), -1)
    for name, group in _faces_by_material_name(appearance, names, len(faces)):
        if name:
            pieces.append(f"usemtl {name}\n")
        pieces.append(format_rows(form, table[group]))
    return "".join(pieces)


def obj_text(mesh: MeshData) -> str:
    """OBJ text of the bare triangles of a mesh; positions are exact in float64."""
    return vertex_lines(mesh.vertices) + format_rows("f %d %d %d\n", mesh.faces + 1)


def vertex_lines(table: np.ndarray) -> str:
    """OBJ vertex lines of positions and colours (n, 3 or 6), exact in float64; subnormal numbers become 0."""
    plain = np.where(np.abs(table) < sys.float_info.min, 0.0, table)
    return "".join(
        _format_vertices(plain[i : i + _VERTICES_PER_BLOCK]) for i in range(0, len(plain), _VERTICES_PER_BLOCK)
    )


def _format_vertices(table: np.ndarray) -> str:
    """OBJ vertex lines with 15 digits if they are exact for all numbers of the table, else with 17 digits."""
    if all(float(_SHORT_FORMAT % value) == value for value in table[0].tolist()):
        text = format_rows("v" + f" {_SHORT_FORMAT}" * table.shape[1] + "\n", table)
        if np.array_equal(np.array(text.replace("v", "").split(), dtype=np.float64), table.reshape(-1)):
            return text
    return format_rows("v" + " %.17g" * table.shape[1] + "\n", table)


def format_rows(row_format: str, table: np.ndarray) -> str:
    """Text of a table with one formatted line per row; formatting all rows at once is five times as fast."""
    return (row_format * len(table)) % tuple(table.reshape(-1).tolist())


def _faces_by_material_name(
    appearance: Appearance, names: Sequence[str], n_faces: int
) -> Iterator[tuple[str, np.ndarray]]:
    """Runs of faces with equal material, as material name and face indices; faces without material come first."""
    of_face = appearance.face_material_indices
    if of_face is None:
        yield names[0] if names else "", np.arange(n_faces)
        return
    numbers_of_faces = np.where(of_face < len(names), of_face, -1)
    order = np.argsort(numbers_of_faces >= 0, kind="stable")
    ordered = numbers_of_faces[order]
    for group in np.split(order, np.flatnonzero(np.diff(ordered)) + 1):
        chosen = int(numbers_of_faces[group[0]]) if len(group) else -1
        yield names[chosen] if chosen >= 0 else "", group


def _split_colored_vertices(
    mesh: MeshData, colors: CornerAttribute | None
) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Vertices duplicated so that each has one colour.

    Returns:
        Positions (n, 3), colours (n, 3) or None, faces (m, 3).
    """
    if colors is None:
        return mesh.vertices, None, mesh.faces
    pairs = np.stack([mesh.faces, colors.indices], axis=-1).reshape(-1, 2)
    used, numbers_of_pairs = np.unique(pairs, axis=0, return_inverse=True)
    faces = numbers_of_pairs.reshape(-1, 3)
    return mesh.vertices[used[:, 0]], colors.values[used[:, 1], :3], faces


# ------------------------------------------------------------------------------------------------------------ materials


def material_names(materials: Sequence[PbrMaterial]) -> list[str]:
    """Unique names without blanks for the materials of an MTL library."""
    taken: set[str] = set()
    return [unique_name("_".join(look.name.split()) or "material", taken) for look in materials]


def mtl_text(
    materials: Sequence[PbrMaterial], names: Sequence[str], place_image: Callable[[str], str], losses: LossEntries
) -> str:
    """Text of an MTL material library.

    Args:
        materials: the materials.
        names: their names in the library.
        place_image: places an image beside the library and returns its reference; raises `ImageUnavailableError`.
        losses: receives properties that MTL cannot represent.
    """
    blocks = [
        "\n".join(_material_lines(look, name, place_image, losses)) for look, name in zip(materials, names, strict=True)
    ]
    return "\n\n".join(blocks) + "\n"


def _material_lines(
    material: PbrMaterial, name: str, place_image: Callable[[str], str], losses: LossEntries
) -> Iterator[str]:
    """MTL lines of one material: Phong coefficients, physically based properties and texture maps."""
    yield f"newmtl {name}"
    red, green, blue, alpha = material.color or (1.0, 1.0, 1.0, 1.0)
    if material.color is not None or material.texture:
        yield f"Kd {format_numbers((red, green, blue))}"
        yield f"d {format_number(alpha)}"
    if material.emission is not None:
        yield f"Ke {format_numbers(material.emission)}"
    if material.specular is not None:
        yield f"Ks {format_numbers((material.specular,) * 3)}"
    if material.roughness is not None:
        yield f"Ns {format_number(round(geometry.phong_exponent_from_roughness(material.roughness), 6))}"
    for word, value in (
        ("Pr", material.roughness),
        ("Pm", material.metallic),
        ("Pc", material.clearcoat),
        ("Pcr", material.clearcoat_roughness),
    ):
        if value is not None:
            yield f"{word} {format_number(value)}"
    if material.texture:
        yield from _map_line("map_Kd", material.texture, material.texture_mapping, "", 1.0, name, place_image, losses)
    for role, texture in material.maps.items():
        word = _MAP_KEYWORDS[MapRole(role)]
        yield from _map_line(
            word, texture.file, texture.mapping, texture.channel, texture.strength, name, place_image, losses
        )
    losses += [(name, words, "material libraries have no word for it") for words in _unsupported_properties(material)]


def _map_line(
    keyword: str,
    file: str,
    mapping: TextureMapping,
    channel: str,
    strength: float,
    material_name: str,
    place_image: Callable[[str], str],
    losses: LossEntries,
) -> Iterator[str]:
    """MTL line of one texture map with its options (scale, offset, clamp, channel, strength); none if unavailable."""
    try:
        reference = place_image(file)
    except ImageUnavailableError as error:
        losses.append((material_name, "a texture", str(error)))
        return
    options: list[str] = []
    if mapping.scale != (1.0, 1.0):
        options.append(f"-s {format_numbers(mapping.scale)} 1")
    if mapping.offset != (0.0, 0.0):
        options.append(f"-o {format_numbers(mapping.offset)} 0")
    if mapping.wrap == (WrapMode.CLAMP, WrapMode.CLAMP):
        options.append("-clamp on")
    if channel:
        options.append(f"-imfchan {'m' if channel == 'a' else channel}")
    if strength != 1.0:
        options.append(f"-bm {format_number(strength)}")
    yield " ".join([keyword, *options, reference])
    if mapping.rotation or mapping.texcoord_set or mapping.wrap not in (_REPEAT_BOTH, (WrapMode.CLAMP, WrapMode.CLAMP)):
        what = "how a texture lies (its turn, its set of coordinates, or what is beyond its edges)"
        losses.append((material_name, what, "material libraries have no word for it"))


_REPEAT_BOTH = (WrapMode.REPEAT, WrapMode.REPEAT)


def _unsupported_properties(material: PbrMaterial) -> list[str]:
    return [
        words
        for words, there in (
            ("its reflectance", material.reflectance is not None),
            ("that it is seen from both sides", bool(material.double_sided)),
            ("from which opacity on it is there", material.opacity_threshold is not None),
        )
        if there
    ]
