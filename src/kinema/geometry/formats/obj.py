"""Wavefront OBJ reader with MTL material libraries (including PBR extensions).

MTL: `Kd`, `d` and `Ke` are base colour, opacity and emission; `Pr`, `Pm`, `Pc` and `Pcr` roughness, metallic, clearcoat
and clearcoat roughness. Without `Pr`, the roughness is derived from the Phong exponent `Ns`; the mean of `Ks` is the
specular weight.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np

from ..appearance import (
    Appearance,
    CornerAttribute,
    MapRole,
    PbrMaterial,
    Texture,
    TextureMapping,
    WrapMode,
    normalize_normals,
    roughness_from_phong_exponent,
    to_rgba,
    validated_corner_attribute,
)
from ..mesh import FloatArray, IntArray, MeshData, MeshError
from .image_files import find_image_file, read_bounded_bytes
from .loaded_mesh import LoadedMesh, MeshSource
from .parsing import parse_columns, parse_ints, triangulate_polygons

# MTL material libraries -----------------------------------------------------------------------------------------------

MAX_LIBRARY_BYTES = 1 << 24
_MAX_MATERIALS = 1 << 16
_MAP_ROLES = {
    "map_d": MapRole.OPACITY,
    "map_pm": MapRole.METALLIC,
    "map_pr": MapRole.ROUGHNESS,
    "map_ke": MapRole.EMISSION,
    "map_ks": MapRole.SPECULAR,
    "map_pc": MapRole.CLEARCOAT,
    "map_bump": MapRole.BUMP,
    "bump": MapRole.BUMP,
    "norm": MapRole.NORMAL,
    "map_ao": MapRole.OCCLUSION,
    "map_kn": MapRole.NORMAL,
}
_OPTION_ARGUMENT_COUNTS = {"-s": 3, "-o": 3, "-t": 3, "-mm": 2, "-bm": 1, "-clamp": 1, "-imfchan": 1, "-texres": 1}
_OPTION_ARGUMENT_COUNTS |= {"-blendu": 1, "-blendv": 1, "-boost": 1, "-cc": 1, "-type": 1}
_IGNORED_KEYWORDS = {
    "newmtl",
    "illum",
    "ka",
    "map_ka",
    "ni",
    "tf",
    "sharpness",
    "aniso",
    "anisor",
    "ps",
    "map_ps",
    "map_ns",
}
"""Known MTL keywords without counterpart in `PbrMaterial`."""


def read_mtl(data: bytes, folder: Path | None, note: Callable[[str], object]) -> dict[str, PbrMaterial]:
    """Parse an MTL library: material name -> material.

    Args:
        data: content of the library.
        folder: folder in which images are searched.
        note: called with a sentence for each image that is not found.
    """
    materials: dict[str, PbrMaterial] = {}
    exponents: dict[str, float] = {}
    material: PbrMaterial | None = None
    for line in data.decode("utf-8", "replace").replace("\\\n", " ").splitlines():
        keyword, _, rest = line.strip().partition(" ")
        keyword, rest = keyword.lower(), rest.strip()
        if keyword == "newmtl" and len(materials) < _MAX_MATERIALS:
            material = materials.setdefault(rest, PbrMaterial(name=rest))
        elif material is not None and not keyword.startswith("#"):
            if keyword == "ns" and (values := _parse_finite_floats(rest)):
                exponents[material.name] = values[0]
            elif keyword == "map_kd" or keyword in _MAP_ROLES:
                _set_texture(material, keyword, rest, folder, note)
            elif keyword not in _IGNORED_KEYWORDS:
                _set_value(material, keyword, _parse_finite_floats(rest))
    for name, exponent in exponents.items():
        if materials[name].roughness is None:
            materials[name].roughness = roughness_from_phong_exponent(exponent)
    return materials


def _parse_finite_floats(text: str) -> list[float]:
    """White-space separated floats; empty if one is invalid or not finite."""
    try:
        values = [float(word) for word in text.split()]
    except ValueError:
        return []
    return values if all(math.isfinite(v) for v in values) else []


def _set_value(material: PbrMaterial, keyword: str, values: list[float]) -> None:
    """Set the parameter of `material` that an MTL keyword (lower case) stands for; unknown keywords are ignored."""
    if not values:
        return
    color = material.color or (1.0, 1.0, 1.0, 1.0)
    red, green, blue = values[:3] if len(values) >= 3 else (values[0],) * 3
    match keyword:
        case "kd":
            material.color = (red, green, blue, color[3])
        case "d":
            material.color = (*color[:3], values[0])
        case "tr":
            material.color = (*color[:3], 1.0 - values[0])
        case "ke" if any(values):
            material.emission = (red, green, blue)
        case "ks":
            material.specular = (red + green + blue) / 3
        case "pr":
            material.roughness = values[0]
        case "pm":
            material.metallic = values[0]
        case "pc":
            material.clearcoat = values[0]
        case "pcr":
            material.clearcoat_roughness = values[0]


def _set_texture(
    material: PbrMaterial, keyword: str, rest: str, folder: Path | None, note: Callable[[str], object]
) -> None:
    """Set the texture of `material` given by an MTL map keyword and its options; a missing image is noted."""
    mapping, strength, channel, name = _parse_texture_options(rest)
    file = find_image_file(folder, name)
    if not file:
        note(f"The image '{name[:80]}' of the material '{material.name[:80]}' was not found.")
        return
    if keyword == "map_kd":
        material.texture, material.texture_mapping = file, mapping
        return
    role = _MAP_ROLES[keyword]
    material.maps[role] = Texture(file=file, channel=channel, strength=strength, mapping=mapping)


def _parse_texture_options(text: str) -> tuple[TextureMapping, float, str, str]:
    """Parse the arguments of an MTL map: texture mapping, bump strength, channel and file name."""
    tokens = text.split()
    mapping, strength, channel, position = TextureMapping(), 1.0, "", 0
    while position < len(tokens) and tokens[position].lower() in _OPTION_ARGUMENT_COUNTS:
        option = tokens[position].lower()
        arguments: list[str] = []
        while len(arguments) < _OPTION_ARGUMENT_COUNTS[option] and position + 1 + len(arguments) < len(tokens):
            argument = tokens[position + 1 + len(arguments)]
            if option in ("-s", "-o", "-t", "-mm", "-bm") and not _parse_finite_floats(argument):
                break  # the second and third value are optional
            arguments.append(argument)
        position += 1 + len(arguments)
        values = _parse_finite_floats(" ".join(arguments))
        if option == "-s" and values:
            mapping = replace(mapping, scale=(values[0], values[1] if len(values) > 1 else 1.0))
        elif option == "-o" and values:
            mapping = replace(mapping, offset=(values[0], values[1] if len(values) > 1 else 0.0))
        elif option == "-clamp" and arguments and arguments[0].lower() == "on":
            mapping = replace(mapping, wrap=(WrapMode.CLAMP, WrapMode.CLAMP))
        elif option == "-bm" and values:
            strength = values[0]
        elif option == "-imfchan" and arguments:
            channel = (
                arguments[0].lower()
                if arguments[0].lower() in ("r", "g", "b")
                else {"m": "a"}.get(arguments[0].lower(), "")
            )
    return mapping, strength, channel, " ".join(tokens[position:])


# Attributes and materials ---------------------------------------------------------------------------------------------

_TEXCOORD_LINE = re.compile(rb"^[ \t]*vt[ \t]+([^\n#]*)", re.MULTILINE)
_NORMAL_LINE = re.compile(rb"^[ \t]*vn[ \t]+([^\n#]*)", re.MULTILINE)
_USEMTL_LINE = re.compile(rb"^[ \t]*usemtl[ \t]+([^\n]*)", re.MULTILINE)
_MTLLIB_LINE = re.compile(rb"^[ \t]*mtllib[ \t]+([^\n]*)", re.MULTILINE)
_MAX_USEMTL_LINES = 1 << 20
_MAX_LIBRARIES = 64
_CORNER_LINES_PER_BLOCK = 1 << 16


class ObjDocument:
    """Normalised text of an OBJ with the parsed corner indices of all faces."""

    def __init__(self, text: bytes, vertex_pattern: re.Pattern[bytes], face_pattern: re.Pattern[bytes]) -> None:
        self.text = text
        self.vertex_pattern = vertex_pattern
        self.face_pattern = face_pattern
        self.corner_table, self.face_sizes = self._parse_corners()
        """Position, texture coordinate and normal index of each corner as written (0 for none), shape (n, 3), and the
        number of corners of each face."""

    def _parse_corners(self) -> tuple[IntArray, IntArray]:
        """Parse all `f` lines in blocks: corner table (n, 3) and number of corners of each face."""
        tables, counts = [np.zeros((0, 3), dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
        matches = self.face_pattern.finditer(self.text)
        while bodies := [match.group(1) for match in islice(matches, _CORNER_LINES_PER_BLOCK)]:
            tables.append(_parse_corner_table(b" ".join(bodies)))
            counts.append(np.array([len(body.split()) for body in bodies], dtype=np.int64))
        return np.concatenate(tables), np.concatenate(counts)

    def line_offsets(self, pattern: re.Pattern[bytes]) -> IntArray:
        """Byte offset of each match of a line pattern."""
        return np.array([match.start() for match in pattern.finditer(self.text)], dtype=np.int64)


def read_obj_appearance(
    source: MeshSource, obj: ObjDocument, faces: IntArray, note: Callable[[str], object]
) -> Appearance:
    """Normals, texture coordinates, vertex colours and materials of an OBJ.

    Args:
        source: the file, whose folder is searched for material libraries.
        obj: the parsed document.
        faces: triangulated vertex indices, shape (m, 3).
        note: called with a sentence for each omission.
    """
    corners = triangulate_polygons(np.arange(len(obj.corner_table)), obj.face_sizes)
    materials, material_indices = _face_materials(source, obj, note)
    texcoords = _corner_attribute(obj, 1, corners, _TEXCOORD_LINE, (0, 1))
    normals = _corner_attribute(obj, 2, corners, _NORMAL_LINE, (0, 1, 2))
    return Appearance(
        normals=normalize_normals(normals),
        texture_coordinates=() if texcoords is None else (texcoords,),
        colors=_vertex_colors(obj, faces),
        materials=materials,
        face_material_indices=material_indices,
    )


def _parse_corner_table(text: bytes) -> IntArray:
    """Parse face corners `v`, `v/vt`, `v//vn` or `v/vt/vn` to index triples (0 for none), shape (n, 3)."""
    n_corners, slashes, doubles = len(text.split()), text.count(b"/"), text.count(b"//")
    result = np.zeros((n_corners, 3), dtype=np.int64)
    if slashes == 0:
        result[:, 0] = parse_ints(text)
    elif slashes == 2 * n_corners and doubles == n_corners:
        result[:, ::2] = parse_ints(text.replace(b"//", b" ")).reshape(n_corners, 2)
    elif slashes == 2 * n_corners and doubles == 0:
        result[:] = parse_ints(text.replace(b"/", b" ")).reshape(n_corners, 3)
    elif slashes == n_corners and doubles == 0:
        result[:, :2] = parse_ints(text.replace(b"/", b" ")).reshape(n_corners, 2)
    else:  # mixed forms
        for i, corner in enumerate(text.split()):
            fields = [*corner.split(b"/"), b"", b""]
            result[i] = [int(field or 0) for field in fields[:3]]
    return result


def _corner_attribute(
    obj: ObjDocument, column: int, corners: IntArray, pattern: re.Pattern[bytes], value_columns: tuple[int, ...]
) -> CornerAttribute | None:
    """Corner attribute of an index column of the corner table; None if an index is missing or the data is invalid.

    Args:
        obj: the parsed document.
        column: column of the corner table (1 texture coordinates, 2 normals).
        corners: corner indices of each triangle, shape (m, 3).
        pattern: pattern of the value lines (`vt`, `vn`).
        value_columns: columns of the value lines.
    """
    indices = obj.corner_table[:, column]
    if len(indices) == 0 or (indices == 0).any():
        return None  # corners without index have no sensible default
    if (indices < 0).any():
        n_preceding = np.repeat(
            np.searchsorted(obj.line_offsets(pattern), obj.line_offsets(obj.face_pattern)), obj.face_sizes
        )
        indices = np.where(indices > 0, indices, indices + n_preceding + 1)
    try:
        values = parse_columns((match.group(1) for match in pattern.finditer(obj.text)), value_columns)
    except ValueError:
        return None
    return validated_corner_attribute(values, (indices - 1)[corners], len(value_columns))


def _vertex_colors(obj: ObjDocument, faces: IntArray) -> CornerAttribute | None:
    """Vertex colours from `v` lines with 6 values (x y z r g b) or 7 (x y z w r g b); None for other widths."""
    first = obj.vertex_pattern.search(obj.text)
    width = 0 if first is None else len(first.group(1).split())
    if width not in (6, 7):
        return None
    try:
        values = parse_columns(
            (m.group(1) for m in obj.vertex_pattern.finditer(obj.text)), tuple(range(width - 3, width))
        )
    except ValueError:
        return None
    return validated_corner_attribute(to_rgba(values), faces, 4)


def _face_materials(
    source: MeshSource, obj: ObjDocument, note: Callable[[str], object]
) -> tuple[tuple[PbrMaterial, ...], IntArray | None]:
    """Materials selected by `usemtl` lines, and the material index of each triangle (-1 for none).

    The indices are None if there is a single material for all faces. Missing materials are noted.
    """
    usemtl_lines = [
        (m.start(), _decode_name(m.group(1))) for m in islice(_USEMTL_LINE.finditer(obj.text), _MAX_USEMTL_LINES)
    ]
    if not usemtl_lines:
        return (), None
    library = _load_material_libraries(source, obj.text, note)
    names = list(dict.fromkeys(name for _, name in usemtl_lines))
    missing = [name for name in names if name not in library]
    if missing:
        note(f"The material '{missing[0][:80]}' is in none of the OBJ's libraries that could be read.")
    materials = tuple(library[name] for name in names if name in library)
    if not materials:
        return (), None
    first = obj.face_pattern.search(obj.text)
    if len(usemtl_lines) == 1 and first is not None and usemtl_lines[0][0] < first.start():
        return materials, None
    index = {material.name: i for i, material in enumerate(materials)}
    active_line = (
        np.searchsorted(np.array([offset for offset, _ in usemtl_lines]), obj.line_offsets(obj.face_pattern)) - 1
    )
    face_indices = np.array([*(index.get(name, -1) for _, name in usemtl_lines), -1], dtype=np.int64)[active_line]
    triangle_indices = np.repeat(face_indices, np.maximum(obj.face_sizes - 2, 0))
    return materials, None if len(materials) == 1 and (triangle_indices == 0).all() else triangle_indices


def _load_material_libraries(source: MeshSource, text: bytes, note: Callable[[str], object]) -> dict[str, PbrMaterial]:
    """All materials of the `mtllib` libraries inside the folder of the OBJ; inaccessible libraries are noted."""
    materials: dict[str, PbrMaterial] = {}
    for match in islice(_MTLLIB_LINE.finditer(text), _MAX_LIBRARIES):
        name = _decode_name(match.group(1)).replace("\\", "/")
        path = _library_path(source.folder, name)
        if path is None:
            note(f"The material library '{name[:80]}' is not a file in the folder of the OBJ.")
            continue
        materials |= read_mtl(read_bounded_bytes(path, MAX_LIBRARY_BYTES), path.parent, note)
    return materials


def _library_path(folder: Path | None, name: str) -> Path | None:
    """Path of an existing .mtl file inside `folder`; None otherwise."""
    if folder is None or "\0" in name:
        return None
    path = folder / name
    try:
        is_inside = path.resolve().is_relative_to(folder.resolve())
        return path if is_inside and path.is_file() and path.suffix.lower() == ".mtl" else None
    except OSError:
        return None


def _decode_name(text: bytes) -> str:
    return text.strip().decode("utf-8", "replace")


# Document -------------------------------------------------------------------------------------------------------------

_VERTEX_LINE = re.compile(rb"^[ \t]*v[ \t]+([^\n#]*)", re.MULTILINE)
_GROUP_LINE = re.compile(rb"^[ \t]*[og][ \t]+([^\n#]*)", re.MULTILINE)
_FACE_LINE = re.compile(rb"^[ \t]*f[ \t]+([^\n#]*)", re.MULTILINE)
# texture coordinate and normal index of a corner
_AFTER_POSITION = re.compile(rb"/\S*")
_FACE_LINES_PER_BLOCK = 1 << 16
_MAX_GROUPS = 1 << 16


def read_obj(source: MeshSource) -> LoadedMesh:
    """Read an OBJ file: positions, triangulated faces, objects and groups as named parts, appearance on demand."""
    text = _normalize_lines(source.data)
    vertices = _read_vertices(text)
    obj = ObjDocument(text, _VERTEX_LINE, _FACE_LINE) if source.with_appearance else None
    corners, counts = _read_position_indices(text) if obj is None else (obj.corner_table[:, 0], obj.face_sizes)
    notes = ()
    if (counts < 3).any():
        notes = (f"{np.count_nonzero(counts < 3)} faces with fewer than three corners were skipped.",)
    source.limits.check_counts(len(vertices), int(np.maximum(counts - 2, 0).sum()))
    indices = _resolve_indices(text, corners, counts)
    mesh = MeshData(vertices, triangulate_polygons(indices, counts))
    appearance, appearance_notes = None, dict[str, None]()
    if obj is not None:
        appearance = read_obj_appearance(source, obj, mesh.faces, appearance_notes.setdefault)
    return LoadedMesh(mesh, None, notes, _group_face_ranges(text, counts), appearance, tuple(appearance_notes))


def _group_face_ranges(text: bytes, face_sizes: IntArray) -> dict[str, list[tuple[int, int]]]:
    """Triangle ranges of each object (`o`) and group (`g`) by name, each valid until the next line of its kind.

    A `g` line may name several groups.
    """
    groups = [
        (m.start(), m.group(0).split(None, 1)[0], m.group(1)) for m in islice(_GROUP_LINE.finditer(text), _MAX_GROUPS)
    ]
    if not groups:
        return {}
    face_offsets = np.array([match.start() for match in _FACE_LINE.finditer(text)], dtype=np.int64)
    triangle_start = np.concatenate([[0], np.cumsum(np.maximum(face_sizes - 2, 0))])
    result: dict[str, list[tuple[int, int]]] = {}
    for keyword in (b"o", b"g"):
        lines = [(start, name) for start, line_keyword, name in groups if line_keyword == keyword]
        ends = [*(start for start, _ in lines), len(text)][1:]
        for (start, name), end in zip(lines, ends, strict=True):
            first, last = (int(triangle_start[i]) for i in np.searchsorted(face_offsets, [start, end]))
            # a `g` line may name several groups
            names = {name.strip(), *(name.split() if keyword == b"g" else ())}
            for group_name in sorted(names):
                if group_name and last > first:
                    result.setdefault(group_name.decode("utf-8", "replace"), []).append((first, last))
    return result


def _normalize_lines(data: bytes) -> bytes:
    """Remove a byte order mark, convert line endings to LF and join lines continued with a backslash."""
    text = data.removeprefix(b"\xef\xbb\xbf").replace(b"\r\n", b"\n").replace(b"\r", b"\n")
    return text.replace(b"\\\n", b" ")


def _read_vertices(text: bytes) -> FloatArray:
    """Positions of all `v` lines, shape (n, 3); a following weight or colour is ignored."""
    vertices = parse_columns(match.group(1) for match in _VERTEX_LINE.finditer(text))
    if len(vertices) == 0:
        raise MeshError("The file has no vertices ('v' lines), so it is not an OBJ mesh.")
    return vertices


def _read_position_indices(text: bytes) -> tuple[IntArray, IntArray]:
    """Position index of every face corner as written, and the number of corners of every face."""
    corners, counts = [np.zeros(0, dtype=np.int64)], [np.zeros(0, dtype=np.int64)]
    matches = _FACE_LINE.finditer(text)
    while bodies := [match.group(1) for match in islice(matches, _FACE_LINES_PER_BLOCK)]:
        corners.append(parse_ints(_AFTER_POSITION.sub(b"", b" ".join(bodies))))
        counts.append(np.array([len(body.split()) for body in bodies], dtype=np.int64))
        if len(corners[-1]) != counts[-1].sum():
            raise MeshError("A face line ('f') is not a list of corners.")
    return np.concatenate(corners), np.concatenate(counts)


def _resolve_indices(text: bytes, corners: IntArray, face_sizes: IntArray) -> IntArray:
    """Zero-based indices from OBJ indices, which start at 1; negative ones count back from the vertices read so far."""
    if (corners == 0).any():
        raise MeshError("A face refers to vertex 0, but OBJ counts from 1.")
    if (corners > 0).all():
        return corners - 1
    vertex_offsets = np.array([match.start() for match in _VERTEX_LINE.finditer(text)])
    face_offsets = np.array([match.start() for match in _FACE_LINE.finditer(text)])
    n_preceding = np.repeat(np.searchsorted(vertex_offsets, face_offsets), face_sizes)
    return np.where(corners > 0, corners - 1, corners + n_preceding)
