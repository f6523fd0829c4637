"""Mesh files that are damaged, lie, or mean harm: one plain error each, at once and without much memory."""

from __future__ import annotations

import contextlib
import json
import os
import re
import struct
import time
import tracemalloc
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.geometry import MESH_SUFFIXES, MeshData, MeshError, MeshLimits, box, load_mesh, parse_mesh

from . import mesh_writers as write

EXAMPLES = 30

PART = box((1.0, 2.0, 0.5))
FILES: dict[str, tuple[str, bytes]] = {
    "stl binary": (".stl", write.stl_binary(PART)),
    "stl ascii": (".stl", write.stl_ascii(PART)),
    "obj": (".obj", write.obj(PART)),
    "off": (".off", write.off(PART)),
    "ply ascii": (".ply", write.ply_ascii(PART)),
    "ply binary": (".ply", write.ply_binary(PART)),
    "msh": (".msh", write.msh(PART)),
    "glb": (".glb", write.glb(PART)),
    "gltf": (".gltf", write.gltf_embedded(PART)),
    "dae": (".dae", write.dae(PART)),
}


def refusal(data: bytes, suffix: str, *, seconds: float = 1.0, mebibytes: float = 16.0) -> str:
    """The reason `data` is refused, which must take little time and memory."""
    tracemalloc.start()
    start = time.process_time()
    try:
        with pytest.raises(MeshError) as caught:
            parse_mesh(data, suffix)
    finally:
        elapsed = time.process_time() - start
        _, peak = tracemalloc.get_traced_memory()
        tracemalloc.stop()
    assert elapsed < seconds
    assert peak < len(data) * 4 + mebibytes * 2**20
    reason = caught.value.reason
    assert re.fullmatch(r"[A-Z][^\n]{5,300}\.", reason), reason
    return reason


# Paths ----------------------------------------------------------------------------------------------------------------


def test_paths_that_are_no_mesh_file(tmp_path: Path) -> None:
    (tmp_path / "empty.stl").touch()
    (tmp_path / "folder.stl").mkdir()
    os.mkfifo(tmp_path / "pipe.stl")
    (tmp_path / "part.step").write_text("ISO-10303-21;")
    (tmp_path / "pointer.obj").write_text("version https://git-lfs.github.com/spec/v1\noid sha256:0\nsize 9\n")
    reasons = {
        "missing.stl": "does not exist",
        "empty.stl": "is empty",
        "folder.stl": "not a file",
        "pipe.stl": "not a file",
        "part.step": "'.step' cannot be read",
        "pointer.obj": "Git LFS",
        "nul\0.stl": "null|not exist",
    }
    for name, reason in reasons.items():
        with pytest.raises(MeshError, match=reason):
            load_mesh(tmp_path / name)


def test_a_file_that_is_too_large_is_not_parsed(tmp_path: Path) -> None:
    with (tmp_path / "huge.stl").open("wb") as file:
        file.truncate(2**33)  # sparse
    start = time.process_time()
    with pytest.raises(MeshError, match="larger than"):
        load_mesh(tmp_path / "huge.stl", limits=MeshLimits(file_bytes=1000))
    assert time.process_time() - start < 1.0


def test_a_file_without_permission_is_an_error_of_its_own(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "part.stl").write_bytes(write.stl_binary(PART))

    def denied(*_: Any, **__: Any) -> Any:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "open", denied)
    with pytest.raises(MeshError, match="Permission denied"):
        load_mesh(tmp_path / "part.stl")


# Damage ---------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", FILES)
def test_truncated_files_are_refused(name: str) -> None:
    suffix, data = FILES[name]
    for fraction in (0.02, 0.3, 0.7, 0.9):
        refused = data[: int(len(data) * fraction)]
        # A list of faces may end anywhere without the format noticing.
        if name == "obj" and fraction > 0.5:
            continue
        refusal(refused, suffix)


@pytest.mark.parametrize("suffix", MESH_SUFFIXES)
@pytest.mark.parametrize("content", [b"x", b"\0" * 1000, b"<html></html>", b"{}", b"\xff" * 1000, b" " * 10**6, b"\n"])
def test_other_content_is_refused(suffix: str, content: bytes) -> None:
    refusal(content, suffix)


@pytest.mark.parametrize("suffix", MESH_SUFFIXES)
@settings(max_examples=EXAMPLES)
@given(content=st.binary(min_size=1, max_size=400))
def test_random_bytes_are_a_mesh_or_a_mesh_error(suffix: str, content: bytes) -> None:
    with contextlib.suppress(MeshError):
        parse_mesh(content, suffix)


@pytest.mark.parametrize("name", FILES)
@settings(max_examples=EXAMPLES)
@given(changes=st.lists(st.tuples(st.floats(0, 1), st.binary(min_size=1, max_size=4)), min_size=1, max_size=4))
def test_changed_bytes_give_a_mesh_or_a_mesh_error(name: str, changes: list[tuple[float, bytes]]) -> None:
    suffix, data = FILES[name]
    damaged = bytearray(data)
    for place, change in changes:
        at = int(place * len(damaged))
        damaged[at : at + len(change)] = change
    try:
        loaded = parse_mesh(bytes(damaged), suffix)
    except MeshError:
        return
    assert np.isfinite(loaded.mesh.vertices).all()
    assert loaded.mesh.faces.min() >= 0
    assert loaded.mesh.faces.max() < loaded.mesh.n_vertices


@pytest.mark.parametrize("value", ["nan", "inf", "1e300", "word", ""])
def test_bad_numbers_are_refused(value: str) -> None:
    for name in ("obj", "off", "ply ascii", "stl ascii", "dae"):
        suffix, data = FILES[name]
        refusal(data.replace(b"0.25", value.encode()), suffix)


@pytest.mark.parametrize("name", ["obj", "off", "ply ascii", "ply binary", "msh", "glb", "gltf", "dae"])
@pytest.mark.parametrize("index", [8, 60000])
def test_indices_out_of_range_are_refused(name: str, index: int) -> None:
    faces = PART.faces.copy()
    faces[3, 1] = index
    wrong = MeshData(PART.vertices, faces)
    special = {"ply ascii": "ply_ascii", "ply binary": "ply_binary", "gltf": "gltf_embedded"}
    writer = getattr(write, special.get(name, name))
    assert str(index) in refusal(writer(wrong), FILES[name][0])


# Lies about sizes -----------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("header", [b"binary", b"solid"])
def test_stl_with_four_billion_triangles(header: bytes) -> None:
    data = header.ljust(80, b"\0") + struct.pack("<I", 2**32 - 1) + bytes(50 * 10)
    assert "4294967295 triangles" in refusal(data, ".stl")


@pytest.mark.parametrize("encoding", ["ascii", "binary_little_endian", "binary_big_endian"])
@pytest.mark.parametrize("element", ["vertex", "face", "other"])
def test_ply_with_a_million_million_rows(encoding: str, element: str) -> None:
    data = write.ply_ascii(PART) if encoding == "ascii" else write.ply_binary(PART)
    data = data.replace(b"binary_little_endian", encoding.encode())
    row = b"element other 1000000000000\nproperty float a\nelement vertex"
    data = data.replace(b"element vertex", row) if element == "other" else data
    data = re.sub(rb"element %s \d+" % element.encode(), b"element %s 1000000000000" % element.encode(), data)
    assert "1000000000000" in refusal(data, ".ply")


@pytest.mark.parametrize(
    "lines",
    [
        ["element vertex 1000000000000", "end_header"],
        ["element vertex -1", "property float x", "end_header"],
        ["element vertex 3", "property list uint float x", "end_header"],
        ["element face 1", "property list uint int vertex_indices", "end_header", "\xff\xff\xff\xff"],
        ["element face 1", "property list int int vertex_indices", "end_header", "\xff\xff\xff\xff"],
        ["property float x", "end_header"],
        ["element vertex " + "9" * 5000, "property float x", "end_header"],
        ["comment " + "x" * 100_000],
    ],
)
def test_ply_headers_that_make_no_sense(lines: list[str]) -> None:
    text = "\n".join(["ply", "format binary_little_endian 1.0", *lines, ""])
    refusal(text.encode("latin-1") + bytes(100), ".ply")


def test_off_and_msh_with_huge_counts() -> None:
    assert "needs" in refusal(b"OFF\n1000000000000 1 0\n0 0 0\n", ".off")
    assert "needs" in refusal(b"OFF\n3 1000000000000 0\n0 0 0\n", ".off")
    assert "needs" in refusal(struct.pack("<4i", 2**31 - 1, 0, 0, 2**31 - 1) + bytes(100), ".msh")
    assert "negative" in refusal(struct.pack("<4i", 8, -8, 0, 12) + bytes(1000), ".msh")


def test_gmsh_is_named() -> None:
    assert "Gmsh" in refusal(b"$MeshFormat\n4.1 0 8\n$EndMeshFormat\n", ".msh")


def changed_glb(**changes: Any) -> bytes:
    document, binary = write.gltf_document(PART)
    document |= changes
    return write.glb_container(document, binary)


@pytest.mark.parametrize("count", [2**40, 2**70, 1000, -1, 1.5, "8", None, True, []])
@pytest.mark.parametrize("accessor", [0, 1])
def test_gltf_accessors_that_lie(count: Any, accessor: int) -> None:
    document, binary = write.gltf_document(PART)
    document["accessors"][accessor]["count"] = count
    refusal(write.glb_container(document, binary), ".glb")


@pytest.mark.parametrize(
    ("kind", "change"),
    [
        ("bufferViews", {"byteOffset": 2**40}),
        ("bufferViews", {"byteLength": 2**40}),
        ("bufferViews", {"byteStride": 2**62}),
        ("bufferViews", {"byteStride": 0}),
        ("bufferViews", {"buffer": 7}),
        ("bufferViews", {"buffer": "0"}),
        ("accessors", {"bufferView": -1}),
        ("accessors", {"byteOffset": 2**40}),
        ("accessors", {"type": "MAT4"}),
        ("accessors", {"componentType": 9}),
        ("accessors", {"sparse": {"count": 2**40}}),
        ("buffers", {"byteLength": 2**40}),
        ("nodes", {"mesh": 5}),
        ("nodes", {"mesh": [0]}),
        ("nodes", {"children": [0]}),
        ("nodes", {"children": "abc"}),
        ("nodes", {"matrix": [1, 2, 3]}),
        ("nodes", {"rotation": [0, 0, 0, 0]}),
        ("nodes", {"scale": [float("inf"), 1, 1]}),
        ("meshes", {"primitives": 5}),
        ("meshes", {"primitives": [{"attributes": {}}]}),
        ("meshes", {"primitives": []}),
        ("scenes", {"nodes": [9]}),
    ],
)
def test_gltf_documents_that_make_no_sense(kind: str, change: dict[str, Any]) -> None:
    document, binary = write.gltf_document(PART)
    document[kind][0] |= change
    refusal(write.glb_container(document, binary), ".glb")


def test_gltf_containers_that_lie() -> None:
    data = write.glb(PART)
    for damaged in (
        data[:8] + struct.pack("<I", 2**32 - 1) + data[12:],
        data[:12] + struct.pack("<I", 2**32 - 1) + data[16:],
        data[:4] + struct.pack("<I", 1) + data[8:],
        data[:12],
    ):
        refusal(damaged, ".glb")


def test_gltf_compression_is_named() -> None:
    reason = refusal(changed_glb(extensionsRequired=["KHR_draco_mesh_compression"]), ".glb")
    assert "KHR_draco_mesh_compression" in reason


def test_gltf_json_bombs() -> None:
    refusal(b'{"asset":{"version":"2.0"},"x":' + b"[" * 100_000 + b"]" * 100_000 + b"}", ".gltf")
    assert "JSON values" in refusal(b"[" + b"[]," * 2_500_000 + b"1]", ".gltf")


def test_gltf_that_reads_one_array_many_times() -> None:
    """A small file that would be many triangles, by placing a mesh often, or by reading its arrays often."""
    document, binary = write.gltf_document(PART)
    placed = dict(document, nodes=[{"mesh": 0} for _ in range(500)], scenes=[{"nodes": list(range(500))}])
    primitives = document["meshes"][0]["primitives"] * 500
    repeated = dict(document, meshes=[{"primitives": primitives}])
    for bomb in (placed, repeated):
        with pytest.raises(MeshError, match="triangles, more than"):
            parse_mesh(write.glb_container(bomb, binary), ".glb", limits=MeshLimits(faces=12 * 100))
        assert parse_mesh(write.glb_container(bomb, binary), ".glb").mesh.n_faces == 12 * 500


# XML ------------------------------------------------------------------------------------------------------------------


def test_dae_entity_bombs() -> None:
    tenfold = [f"&l{n};" * 10 for n in range(9)]
    laughs = "".join(f'<!ENTITY l{n + 1} "{value}">' for n, value in enumerate(tenfold))
    bombs = [
        f'<!DOCTYPE COLLADA [<!ENTITY l0 "ha">{laughs}]>',
        '<!DOCTYPE COLLADA [<!ENTITY secret SYSTEM "file:///etc/passwd">]>',
        '<!DOCTYPE COLLADA SYSTEM "http://localhost/collada.dtd">',
        "<!DOCTYPE COLLADA>",
    ]
    for prolog in bombs:
        assert "document type" in refusal(write.dae(PART, prolog=prolog, unit="&l9;"), ".dae")


def test_dae_nesting_and_element_count() -> None:
    deep = "<node>" * 600 + '<instance_geometry url="#part"/>' + "</node>" * 600
    assert "nested more than" in refusal(write.dae(PART, nodes=deep), ".dae")
    many = write.dae(PART, nodes="<node/>" * 5000)
    with pytest.raises(MeshError, match="elements"):
        parse_mesh(many, ".dae", limits=MeshLimits(markup_items=5000))
    attributes = " ".join(f'a{n}=""' for n in range(5000))
    with pytest.raises(MeshError, match="elements"):
        parse_mesh(write.dae(PART, nodes=f"<node {attributes}/>"), ".dae", limits=MeshLimits(markup_items=5000))


def test_dae_nodes_that_multiply() -> None:
    """Thirty nodes, each placing the one before twice: a thousand million parts."""
    nodes = '<node id="n0"><instance_geometry url="#part"/></node>'
    for level in range(1, 31):
        twice = f'<instance_node url="#n{level - 1}"/>' * 2
        nodes += f'<node id="n{level}">{twice}</node>'
    with pytest.raises(MeshError, match="more than"):
        parse_mesh(write.dae(PART, nodes=nodes), ".dae", limits=MeshLimits(faces=20_000))
    empty = nodes.replace('<instance_geometry url="#part"/>', "")
    with pytest.raises(MeshError, match="more than"):
        parse_mesh(write.dae(PART, nodes=empty), ".dae", limits=MeshLimits(markup_items=20_000))


@pytest.mark.parametrize(
    ("old", "new", "reason"),
    [
        ("#part", "other.dae#part", "outside the file"),
        ("#part", "#missing", "does not exist"),
        ("#part", "#places", "does not exist"),
        ("#places", "#corners", "does not exist"),
        ('count="8" stride="3"', 'count="9999999999" stride="3"', "truncated"),
        ('count="8" stride="3"', 'count="8" stride="1"', "invalid count, stride"),
        ('count="8" stride="3"', 'count="8" stride="0"', "invalid count, stride"),
        ('offset="1"', 'offset="999999999"', "consecutive"),
        ('offset="1"', 'offset="-4"', "consecutive"),
        ('meter="1"', 'meter="0"', "unit"),
        ('meter="1"', 'meter="nan"', "unit"),
        ('meter="1"', 'meter="metre"', "not a valid"),
        ("<COLLADA", "<COLLADA x=", "not well-formed XML"),
        ('semantic="VERTEX"', 'semantic="COLOR"', "no vertex positions"),
        ("<instance_geometry", "<skew>1 2 3</skew><instance_geometry", "skew"),
        ("<instance_geometry", "<matrix>1 2 3</matrix><instance_geometry", "numbers instead of"),
        ("<instance_geometry", "<rotate>0 0 0 90</rotate><instance_geometry", "not finite"),
    ],
)
def test_dae_that_makes_no_sense(old: str, new: str, reason: str) -> None:
    data = write.dae(PART).decode()
    assert old in data
    assert reason in refusal(data.replace(old, new, 1 if old == "<COLLADA" else -1).encode(), ".dae")


def test_dae_node_that_places_itself() -> None:
    loop = '<node id="a"><instance_geometry url="#part"/><instance_node url="#a"/></node>'
    assert "nested deeper" in refusal(write.dae(PART, nodes=loop), ".dae")


# Text that is hard to search ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".off", ".ply", ".gltf", ".dae"])
@pytest.mark.parametrize("pattern", [b" ", b"\n", b"vertex ", b"v ", b"f /", b"9", b"solid facet endfacet vertex 1 "])
def test_repeated_text_takes_linear_time(suffix: str, pattern: bytes) -> None:
    start = {".stl": b"solid\n", ".off": b"OFF 1 1 ", ".ply": b"ply\nformat ascii 1.0\n", ".obj": b"v 0 0 0\n"}
    data = start.get(suffix, b"") + pattern * (1_000_000 // len(pattern))
    began = time.process_time()
    with pytest.raises(MeshError):
        parse_mesh(data, suffix)
    assert time.process_time() - began < 2.0


def test_gltf_data_that_is_not_base64() -> None:
    document, _ = write.gltf_document(PART)
    for uri in ("data:text/plain,hello", "data:application/octet-stream;base64,####"):
        document["buffers"][0]["uri"] = uri
        refusal(json.dumps(document).encode(), ".gltf")
