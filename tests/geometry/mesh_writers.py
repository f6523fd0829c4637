"""Small writers of every mesh format, and random rotations, for tests."""

from __future__ import annotations

import base64
import json
import struct
from typing import Any

import numpy as np
from scipy.spatial.transform import Rotation

from kinema.geometry import MeshData

Numbers = Any


def random_turn(seed: int) -> np.ndarray:
    """A 3x3 rotation matrix, any with equal probability."""
    return Rotation.from_quat(np.random.default_rng(seed).normal(size=4)).as_matrix()


def stl_binary(mesh: MeshData, header: bytes = b"binary") -> bytes:
    triangles = np.zeros(mesh.n_faces, dtype=[("normal", "<f4", 3), ("corners", "<f4", (3, 3)), ("attribute", "<u2")])
    triangles["corners"] = mesh.triangles()
    return header.ljust(80)[:80] + struct.pack("<I", mesh.n_faces) + triangles.tobytes()


def stl_ascii(mesh: MeshData) -> bytes:
    lines = ["solid part with vertices"]
    for triangle in mesh.triangles():
        lines += ["facet normal 0 0 0", " outer loop"]
        lines += [f"  vertex {_text(corner)}" for corner in triangle]
        lines += [" endloop", "endfacet"]
    return "\n".join([*lines, "endsolid part", ""]).encode()


def obj(mesh: MeshData) -> bytes:
    lines = ["mtllib missing.mtl", *[f"v {_text(vertex)}" for vertex in mesh.vertices], "vn 0 0 1", "vt 0 0"]
    lines += [f"f {a + 1}/1/1 {b + 1}//1 {c + 1}" for a, b, c in mesh.faces]
    return "\n".join(lines).encode()


def off(mesh: MeshData) -> bytes:
    lines = ["OFF # comment", f"{mesh.n_vertices} {mesh.n_faces} 0", *map(_text, mesh.vertices)]
    lines += [f"3 {_text(face)} 255 0 0" for face in mesh.faces]
    return "\n".join(lines).encode()


def ply_ascii(mesh: MeshData) -> bytes:
    lines = ["ply", "format ascii 1.0", "comment made by hand", f"element vertex {mesh.n_vertices}"]
    lines += ["property uchar red", "property double x", "property double y", "property double z"]
    lines += [f"element face {mesh.n_faces}", "property list uchar int vertex_indices", "end_header"]
    lines += [f"7 {_text(vertex)}" for vertex in mesh.vertices] + [f"3 {_text(face)}" for face in mesh.faces]
    return "\n".join(lines).encode()


def ply_binary(mesh: MeshData, order: str = "<") -> bytes:
    name = {"<": "binary_little_endian", ">": "binary_big_endian"}[order]
    lines = ["ply", f"format {name} 1.0", f"element vertex {mesh.n_vertices}"]
    lines += ["property double x", "property double y", "property double z", "property uchar alpha"]
    lines += [f"element face {mesh.n_faces}", "property list uchar uint vertex_index", "property float quality"]
    body = b"".join(struct.pack(order + "dddB", *vertex, 9) for vertex in mesh.vertices)
    body += b"".join(struct.pack(order + "BIIIf", 3, *face, 0.5) for face in mesh.faces)
    return "\n".join([*lines, "end_header", ""]).encode() + body


def msh(mesh: MeshData) -> bytes:
    header = struct.pack("<4i", mesh.n_vertices, mesh.n_vertices, mesh.n_vertices, mesh.n_faces)
    extra = np.zeros(5 * mesh.n_vertices, dtype="<f4").tobytes()
    return header + mesh.vertices.astype("<f4").tobytes() + extra + mesh.faces.astype("<i4").tobytes()


def gltf_document(mesh: MeshData, nodes: list[dict[str, Any]] | None = None) -> tuple[dict[str, Any], bytes]:
    """A glTF document without buffer address, and its buffer: interleaved positions, then 16-bit indices."""
    interleaved = np.zeros((mesh.n_vertices, 6), dtype="<f4")
    interleaved[:, :3] = mesh.vertices
    indices = mesh.faces.astype("<u2").tobytes()
    binary = interleaved.tobytes() + indices
    views = [
        {"buffer": 0, "byteLength": interleaved.nbytes, "byteStride": 24},
        {"buffer": 0, "byteOffset": interleaved.nbytes, "byteLength": len(indices)},
    ]
    document = {
        "asset": {"version": "2.0"},
        "scene": 0,
        "scenes": [{"nodes": [0]}],
        "nodes": nodes or [{"mesh": 0}],
        "meshes": [{"primitives": [{"attributes": {"POSITION": 0}, "indices": 1}]}],
        "accessors": [
            {"bufferView": 0, "componentType": 5126, "count": mesh.n_vertices, "type": "VEC3"},
            {"bufferView": 1, "componentType": 5123, "count": 3 * mesh.n_faces, "type": "SCALAR"},
        ],
        "bufferViews": views,
        "buffers": [{"byteLength": len(binary)}],
    }
    return document, binary


def gltf_embedded(mesh: MeshData, nodes: list[dict[str, Any]] | None = None) -> bytes:
    document, binary = gltf_document(mesh, nodes)
    document["buffers"][0]["uri"] = "data:application/octet-stream;base64," + base64.b64encode(binary).decode()
    return json.dumps(document).encode()


def glb(mesh: MeshData, nodes: list[dict[str, Any]] | None = None) -> bytes:
    return glb_container(*gltf_document(mesh, nodes))


def glb_container(document: dict[str, Any], binary: bytes) -> bytes:
    text = json.dumps(document).encode()
    text += b" " * (-len(text) % 4)
    binary += b"\0" * (-len(binary) % 4)
    chunks = struct.pack("<I", len(text)) + b"JSON" + text + struct.pack("<I", len(binary)) + b"BIN\0" + binary
    return b"glTF" + struct.pack("<II", 2, 12 + len(chunks)) + chunks


def dae(mesh: MeshData, *, unit: str = "1", up_axis: str = "Z_UP", nodes: str = "", prolog: str = "") -> bytes:
    """A COLLADA with one geometry `part`; corners also carry a (shared) normal index."""
    corners = " ".join(f"{index} 0" for index in mesh.faces.reshape(-1))
    return dae_document(
        mesh,
        f"""<triangles count="{mesh.n_faces}">{DAE_INPUTS}<p>{corners}</p></triangles>""",
        nodes or '<node><instance_geometry url="#part"/></node>',
        unit=unit,
        up_axis=up_axis,
        prolog=prolog,
    )


DAE_INPUTS = (
    '<input semantic="VERTEX" source="#corners" offset="0"/><input semantic="NORMAL" source="#normals" offset="1"/>'
)


def dae_document(
    mesh: MeshData, primitives: str, nodes: str, *, unit: str = "1", up_axis: str = "Z_UP", prolog: str = ""
) -> bytes:
    return f"""<?xml version="1.0" encoding="utf-8"?>{prolog}
<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
  <asset><unit name="unit" meter="{unit}"/><up_axis>{up_axis}</up_axis></asset>
  <library_geometries><geometry id="part"><mesh>
    <source id="places"><float_array id="numbers" count="{3 * mesh.n_vertices}">
      {" ".join(map(_text, mesh.vertices))}</float_array>
      <technique_common><accessor source="#numbers" count="{mesh.n_vertices}" stride="3">
        <param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/>
      </accessor></technique_common></source>
    <source id="normals"><float_array id="ups" count="3">0 0 1</float_array>
      <technique_common><accessor source="#ups" count="1" stride="3">
        <param name="X" type="float"/><param name="Y" type="float"/><param name="Z" type="float"/>
      </accessor></technique_common></source>
    <vertices id="corners"><input semantic="POSITION" source="#places"/></vertices>
    {primitives}
  </mesh></geometry></library_geometries>
  <library_visual_scenes><visual_scene id="all">{nodes}</visual_scene></library_visual_scenes>
  <scene><instance_visual_scene url="#all"/></scene>
</COLLADA>""".encode()


def _text(numbers: Numbers) -> str:
    return " ".join(repr(number) for number in np.asarray(numbers).tolist())
