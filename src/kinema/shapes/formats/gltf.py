"""glTF 2.0, as text (.gltf) or in its binary container (.glb): triangles with their node transforms.

glTF is in metres and defines +Y as up. The coordinates are left as written and `up_axis` says "Y_UP": whether to turn
them is the business of the robot format that refers to the file.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kinema.shapes.affine import merge
from kinema.shapes.appearance import Appearance, merge_appearances
from kinema.shapes.formats.gltf_data import AccessorReader, document_item
from kinema.shapes.formats.gltf_looks import GltfLooks
from kinema.shapes.formats.numbers import require_bytes
from kinema.shapes.formats.polygons import triangulate, triangulate_strips
from kinema.shapes.formats.scene import SceneBuilder, checked_part, quaternion_matrix, scale_matrix, translation_matrix
from kinema.shapes.formats.source import LoadedMesh, MeshSource
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData, MeshError

_TRIANGLES, _STRIP, _FAN = 4, 5, 6
_UNDERSTOOD = {"KHR_mesh_quantization", "KHR_texture_transform", "KHR_materials_unlit"}
_GLB_MAGIC, _JSON_CHUNK, _BINARY_CHUNK = b"glTF", b"JSON", b"BIN\0"


def read_gltf(source: MeshSource) -> LoadedMesh:
    """Read a .gltf or .glb; which of the two is told by the content."""
    text, binary = _split_container(source.data)
    document = _parse_json(text, source.limits)
    _check_supported(document)
    accessors = AccessorReader(document, binary, source)
    notes: list[str] = []
    scene = SceneBuilder(source.limits)
    unseen: dict[str, None] = {}
    looks = GltfLooks(document, accessors, source, unseen.setdefault) if source.looks else None
    meshes: dict[int, tuple[MeshData, Appearance | None]] = {}
    for node, pose in _placed_meshes(document, scene):
        mesh_index = node["mesh"]
        mesh = document_item(document, "meshes", mesh_index)
        if mesh_index not in meshes:
            meshes[mesh_index] = _read_mesh(mesh, accessors, notes, looks)
        data, appearance = meshes[mesh_index]
        scene.place(data, pose, [str(item.get("name", "")) for item in (node, mesh)], appearance)
    if document.get("skins") or document.get("animations"):
        notes.append("Skins and animations were ignored.")
    return LoadedMesh(
        scene.build(),
        up_axis="Y_UP",
        notes=tuple(dict.fromkeys(notes)),
        parts=scene.parts,
        appearance=None if looks is None else scene.appearance(),
        unseen=tuple(unseen),
    )


def read_image(data: bytes, number: int, folder: Path | None) -> bytes:
    """An image that is inside of a .gltf or .glb, by its number."""
    text, binary = _split_container(data)
    source = MeshSource(data, MeshLimits(), folder)
    document = _parse_json(text, source.limits)
    image = document_item(document, "images", number)
    accessors = AccessorReader(document, binary, source)
    uri = image.get("uri")
    return accessors.data_of(uri) if isinstance(uri, str) else accessors.view_bytes(image.get("bufferView"))


# Container and document -----------------------------------------------------------------------------------------------


def _split_container(data: bytes) -> tuple[bytes, bytes | None]:
    """The JSON text, and the binary chunk of a .glb."""
    if not data.startswith(_GLB_MAGIC):
        return data, None
    if len(data) < 20 or int.from_bytes(data[4:8], "little") != 2:
        raise MeshError("The file is not a glTF 2.0 binary.")
    require_bytes(int.from_bytes(data[8:12], "little"), len(data), "the glTF binary")
    chunks: dict[bytes, bytes] = {}
    at = 12
    while at + 8 <= len(data):
        length = int.from_bytes(data[at : at + 4], "little")
        require_bytes(length, len(data) - at - 8, "a chunk of the glTF binary")
        chunks.setdefault(data[at + 4 : at + 8], data[at + 8 : at + 8 + length])
        at += 8 + length
    if _JSON_CHUNK not in chunks:
        raise MeshError("The glTF binary has no JSON chunk.")
    return chunks[_JSON_CHUNK], chunks.get(_BINARY_CHUNK)


def _parse_json(text: bytes, limits: MeshLimits) -> dict[str, Any]:
    # Every value but the last is followed by one of these; base64 data contains none of them.
    n_values = text.count(b",") + text.count(b"[") + text.count(b"{")
    if n_values > limits.markup_items:
        raise MeshError(f"The glTF has {n_values} JSON values, more than the {limits.markup_items} allowed.")
    try:
        document = json.loads(text.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        raise MeshError("The file is not valid JSON, so it is not a glTF mesh.") from None
    if not isinstance(document, dict) or not isinstance(document.get("asset"), dict):
        raise MeshError("The JSON does not describe a glTF asset.")
    return document


def _check_supported(document: dict[str, Any]) -> None:
    version = str(document["asset"].get("version"))
    if not version.startswith("2."):
        raise MeshError(f"The file is glTF {version}; only glTF 2 can be read.")
    unknown = sorted(set(document.get("extensionsRequired", [])) - _UNDERSTOOD)
    # Materials do not matter here; what may change the geometry (compression, above all) does.
    needed = [name for name in unknown if not name.startswith(("KHR_materials_", "KHR_texture_", "EXT_texture_"))]
    if needed:
        raise MeshError(f"The glTF requires the extension {needed[0]}, which is not supported.")


# Scene ----------------------------------------------------------------------------------------------------------------


def _placed_meshes(document: dict[str, Any], scene: SceneBuilder) -> list[tuple[dict[str, Any], FloatArray]]:
    """Every node with a mesh and its 4x4 pose, depth first, in file order."""
    placed: list[tuple[dict[str, Any], FloatArray]] = []
    seen: set[int] = set()
    pending = [(index, np.eye(4), 1) for index in reversed(_root_nodes(document))]
    while pending:
        index, parent_pose, depth = pending.pop()
        node = document_item(document, "nodes", index)
        if index in seen:
            raise MeshError(f"The glTF node {index} has two parents, or is its own ancestor.")
        seen.add(index)
        scene.visit_node(depth)
        pose = parent_pose @ _node_matrix(node)
        if "mesh" in node:
            placed.append((node, pose))
        pending += [(child, pose, depth + 1) for child in reversed(node.get("children", []))]
    return placed


def _root_nodes(document: dict[str, Any]) -> list[int]:
    if document.get("scenes"):
        return list(document_item(document, "scenes", document.get("scene", 0)).get("nodes", []))
    nodes = document.get("nodes", [])
    children = {child for node in nodes for child in node.get("children", [])}
    return [index for index in range(len(nodes)) if index not in children]


def _node_matrix(node: dict[str, Any]) -> FloatArray:
    if "matrix" in node:
        return np.array(node["matrix"], dtype=np.float64).reshape(4, 4).T
    *vector, scalar = np.array(node.get("rotation", [0, 0, 0, 1]), dtype=np.float64).reshape(4)
    move = translation_matrix(np.array(node.get("translation", [0, 0, 0]), dtype=np.float64).reshape(3))
    scale = scale_matrix(np.array(node.get("scale", [1, 1, 1]), dtype=np.float64).reshape(3))
    return move @ quaternion_matrix(np.array(vector), float(scalar)) @ scale


# Geometry -------------------------------------------------------------------------------------------------------------


def _read_mesh(
    mesh: dict[str, Any], accessors: AccessorReader, notes: list[str], looks: GltfLooks | None
) -> tuple[MeshData, Appearance | None]:
    # Primitives that differ in material only share their vertices: one block per set of positions.
    blocks: dict[int, FloatArray] = {}
    faces: dict[int, list[IntArray]] = {}
    dressed: dict[int, list[tuple[MeshData, Appearance | None]]] = {}
    for primitive in mesh["primitives"]:
        mode = primitive.get("mode", _TRIANGLES)
        if mode not in (_TRIANGLES, _STRIP, _FAN):
            notes.append("Points and lines were skipped.")
            continue
        if primitive.get("targets"):
            notes.append("Morph targets were ignored.")
        block = primitive["attributes"]["POSITION"]
        if block not in blocks:
            blocks[block] = accessors.positions(block)
        corners = accessors.corners(primitive.get("indices"), len(blocks[block]))
        faces.setdefault(block, []).append(_faces(corners, mode))
        if looks is not None:
            part = checked_part(blocks[block], faces[block][-1])
            dressed.setdefault(block, []).append((part, looks.of(primitive, part)))
    merged = merge([checked_part(vertices, np.concatenate(faces[block])) for block, vertices in blocks.items()])
    parts = [part for block in blocks for part in dressed.get(block, [])]
    return merged, merge_appearances(parts) if parts else None


def _faces(corners: IntArray, mode: int) -> IntArray:
    counts = np.array([len(corners)])
    if mode == _STRIP:
        return triangulate_strips(corners, counts)
    if mode == _FAN:
        return triangulate(corners, counts)
    if len(corners) % 3:
        raise MeshError(f"The glTF lists {len(corners)} triangle corners, which is not a multiple of three.")
    return corners.reshape(-1, 3)
