"""Meshes with what is laid on them as OBJ files with a material library.

Beside Phong's numbers the library has those of the physically based extension (`Pr`, `Pm`, `Pc`, `norm`), which newer
readers take. What neither has a word for is handed back as a list.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Sequence

import numpy as np

from kinema import shapes
from kinema.foundation import unique_name
from kinema.shapes import Appearance, CornerValues, Look, MapRole, MeshData, Placement, Wrap

from .text import number, numbers
from .textures import Losses, NoImage

_MAPS = {
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


_DECIMAL = "%.15g"
"""The shortest text of numbers that have no more digits; seventeen are enough for every number, and take half the time
that looking for the shortest does."""
_PIECE = 4096
"""So many vertices are written alike."""


def dressed_obj(mesh: MeshData, appearance: Appearance, library: str, names: Sequence[str]) -> str:
    """The mesh as an OBJ file; positions read back exactly, the rest to nine digits.

    Args:
        mesh: the triangles.
        appearance: what is laid on them.
        library: the file of materials; empty for none.
        names: what the materials of the appearance are called in it.
    """
    vertices, colors, faces = _colored(mesh, appearance.colors)
    pieces = [f"mtllib {library}\n"] if library else []
    pieces.append(vertex_lines(vertices if colors is None else np.column_stack([vertices, colors])))
    columns = [faces + 1]
    uv, normals = (appearance.coordinates or (None,))[0], appearance.normals
    if uv is not None:
        pieces.append(rows("vt %.9g %.9g\n", uv.values))
        columns.append(uv.corners + 1)
    if normals is not None:
        pieces.append(rows("vn %.9g %.9g %.9g\n", normals.values))
        columns.append(normals.corners + 1)
    corner = "%d//%d" if uv is None and normals is not None else "/".join(["%d"] * len(columns))
    form = "f " + " ".join([corner] * 3) + "\n"
    table = np.stack(columns, axis=-1).reshape(len(faces), -1)
    for name, group in _groups(appearance, names, len(faces)):
        if name:
            pieces.append(f"usemtl {name}\n")
        pieces.append(rows(form, table[group]))
    return "".join(pieces)


def obj_text(mesh: MeshData) -> str:
    """The mesh as an OBJ file without anything on it; numbers read back exactly."""
    return vertex_lines(mesh.vertices) + rows("f %d %d %d\n", mesh.faces + 1)


def vertex_lines(table: np.ndarray) -> str:
    """A line for each vertex; numbers read back exactly, and those too small for other readers are zero."""
    plain = np.where(np.abs(table) < sys.float_info.min, 0.0, table)
    return "".join(_vertex_piece(plain[i : i + _PIECE]) for i in range(0, len(plain), _PIECE))


def _vertex_piece(table: np.ndarray) -> str:
    if all(float(_DECIMAL % value) == value for value in table[0].tolist()):
        text = rows("v" + f" {_DECIMAL}" * table.shape[1] + "\n", table)
        if np.array_equal(np.array(text.replace("v", "").split(), dtype=np.float64), table.reshape(-1)):
            return text
    return rows("v" + " %.17g" * table.shape[1] + "\n", table)


def rows(form: str, table: np.ndarray) -> str:
    """A line for each row of a table; all at once, which takes a fifth of the time."""
    return (form * len(table)) % tuple(table.reshape(-1).tolist())


def _groups(appearance: Appearance, names: Sequence[str], n_faces: int) -> Iterator[tuple[str, np.ndarray]]:
    """Faces in their order, cut where the material changes; those without one come first, since a material lasts."""
    of_face = appearance.material_of_face
    if of_face is None:
        yield names[0] if names else "", np.arange(n_faces)
        return
    numbers_of_faces = np.where(of_face < len(names), of_face, -1)
    order = np.argsort(numbers_of_faces >= 0, kind="stable")
    ordered = numbers_of_faces[order]
    for group in np.split(order, np.flatnonzero(np.diff(ordered)) + 1):
        chosen = int(numbers_of_faces[group[0]]) if len(group) else -1
        yield names[chosen] if chosen >= 0 else "", group


def _colored(mesh: MeshData, colors: CornerValues | None) -> tuple[np.ndarray, np.ndarray | None, np.ndarray]:
    """Vertices with a colour each; one that has several is there several times."""
    if colors is None:
        return mesh.vertices, None, mesh.faces
    pairs = np.stack([mesh.faces, colors.corners], axis=-1).reshape(-1, 2)
    used, numbers_of_pairs = np.unique(pairs, axis=0, return_inverse=True)
    faces = numbers_of_pairs.reshape(-1, 3)
    return mesh.vertices[used[:, 0]], colors.values[used[:, 1], :3], faces


# -- materials --------------------------------------------------------------------------------------------------------


def material_names(materials: Sequence[Look]) -> list[str]:
    """What materials are called in a library: names without blanks, each once."""
    taken: set[str] = set()
    return [unique_name("_".join(look.name.split()) or "material", taken) for look in materials]


def material_library(
    materials: Sequence[Look], names: Sequence[str], place: Callable[[str], str], losses: Losses
) -> str:
    """The text of a library.

    Args:
        materials: the materials.
        names: what they are called.
        place: puts an image beside the library and says where; `NoImage` where it cannot.
        losses: where to put what cannot be said.
    """
    blocks = ["\n".join(_material(look, name, place, losses)) for look, name in zip(materials, names, strict=True)]
    return "\n\n".join(blocks) + "\n"


def _material(look: Look, name: str, place: Callable[[str], str], losses: Losses) -> Iterator[str]:
    yield f"newmtl {name}"
    red, green, blue, alpha = look.color or (1.0, 1.0, 1.0, 1.0)
    if look.color is not None or look.texture:
        yield f"Kd {numbers((red, green, blue))}"
        yield f"d {number(alpha)}"
    if look.emission is not None:
        yield f"Ke {numbers(look.emission)}"
    if look.specular is not None:
        yield f"Ks {numbers((look.specular,) * 3)}"
    if look.roughness is not None:
        yield f"Ns {number(round(shapes.exponent_of_roughness(look.roughness), 6))}"
    for word, value in (
        ("Pr", look.roughness),
        ("Pm", look.metallic),
        ("Pc", look.clearcoat),
        ("Pcr", look.clearcoat_roughness),
    ):
        if value is not None:
            yield f"{word} {number(value)}"
    if look.texture:
        yield from _image("map_Kd", look.texture, look.placement, "", 1.0, name, place, losses)
    for role, texture in look.maps.items():
        word = _MAPS[MapRole(role)]
        yield from _image(word, texture.file, texture.placement, texture.channel, texture.strength, name, place, losses)
    losses += [(name, words, "material libraries have no word for it") for words in _unsaid(look)]


def _image(
    word: str,
    file: str,
    placement: Placement,
    channel: str,
    strength: float,
    material: str,
    place: Callable[[str], str],
    losses: Losses,
) -> Iterator[str]:
    try:
        reference = place(file)
    except NoImage as error:
        losses.append((material, "a texture", str(error)))
        return
    options: list[str] = []
    if placement.scale != (1.0, 1.0):
        options.append(f"-s {numbers(placement.scale)} 1")
    if placement.offset != (0.0, 0.0):
        options.append(f"-o {numbers(placement.offset)} 0")
    if placement.wrap == (Wrap.CLAMP, Wrap.CLAMP):
        options.append("-clamp on")
    if channel:
        options.append(f"-imfchan {'m' if channel == 'a' else channel}")
    if strength != 1.0:
        options.append(f"-bm {number(strength)}")
    yield " ".join([word, *options, reference])
    if placement.rotation or placement.coordinates or placement.wrap not in (_REPEAT, (Wrap.CLAMP, Wrap.CLAMP)):
        what = "how a texture lies (its turn, its set of coordinates, or what is beyond its edges)"
        losses.append((material, what, "material libraries have no word for it"))


_REPEAT = (Wrap.REPEAT, Wrap.REPEAT)


def _unsaid(look: Look) -> list[str]:
    return [
        words
        for words, there in (
            ("its reflectance", look.reflectance is not None),
            ("that it is seen from both sides", bool(look.double_sided)),
            ("from which opacity on it is there", look.opacity_threshold is not None),
        )
        if there
    ]
