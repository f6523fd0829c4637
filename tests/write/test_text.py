"""Numbers, XML and mesh files that read back without loss."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema import geometry
from kinema.core import parse_xml
from kinema.description import Mesh
from kinema.write.mesh_files import MeshStore
from kinema.write.obj_file import obj_text
from kinema.write.xml_document import Element, NameTable, format_number, to_xml


@given(st.floats(allow_nan=False, allow_subnormal=False))
def test_numbers_read_back_exactly(value: float) -> None:
    assert float(format_number(value)) == value


@pytest.mark.parametrize(("value", "text"), [(1.0, "1"), (-0.0, "0"), (0.1, "0.1"), (1e-9, "1e-09"), (1e300, "1e+300")])
def test_numbers_are_short(value: float, text: str) -> None:
    assert format_number(value) == text
    assert format_number(math.inf) == "inf"
    assert format_number(5e-324) == "0"  # libsdformat refuses a file with a subnormal number


texts = st.text(st.characters(codec="utf-8", exclude_categories=["Cc", "Cs"]), max_size=20)


@given(st.lists(st.tuples(texts, texts), max_size=4))
def test_any_text_survives_xml(pairs: list[tuple[str, str]]) -> None:
    root = Element("robot")
    for name, text in pairs:
        root.add_child("x", text, name=name)
    back = parse_xml(to_xml(root).encode(), "f")
    assert [(c.attributes["name"], c.text) for c in back.children] == [(n, t.strip()) for n, t in pairs]


def test_kept_blocks() -> None:
    root = Element("robot", {"name": "a"})
    root.add_verbatim('<gazebo reference="x"><mu>1</mu></gazebo>')
    assert parse_xml(to_xml(root).encode(), "f").find("gazebo") is not None


def test_names_stay_unique_and_changes_are_recorded() -> None:
    table = NameTable(sanitize=lambda n: n.replace(" ", "_"))
    assert [table.add(n) for n in ("a b", "a_b", "c")] == ["a_b", "a_b_1", "c"]
    assert table.renamed == {"a b": "a_b", "a_b": "a_b_1"}


def tetrahedron() -> geometry.MeshData:
    vertices = np.random.default_rng(0).normal(size=(4, 3))
    return geometry.MeshData(vertices, np.array([[0, 2, 1], [0, 1, 3], [1, 2, 3], [0, 3, 2]]))


def test_baked_meshes_keep_every_digit_and_are_written_once(tmp_path: Path) -> None:
    store = MeshStore(tmp_path, {".stl"})
    data = tetrahedron()
    mesh = Mesh(vertices=data.vertices, faces=data.faces, scale=np.array([1.0, -2.0, 3.0]))
    first, again = store.place_mesh(mesh, "tetra"), store.place_mesh(mesh, "other")
    assert first is not None
    assert again is not None
    assert first[0] == again[0] == "meshes/tetra.obj"
    np.testing.assert_array_equal(first[1], [1, 1, 1])
    back = geometry.load_mesh(tmp_path / first[0])
    np.testing.assert_array_equal(back.vertices, data.vertices * [1, -2, 3])
    assert np.sign(geometry.signed_volume(back)) == np.sign(geometry.signed_volume(data))  # the mirror turned the faces


def test_files_the_target_reads_are_copied_with_their_scale(tmp_path: Path) -> None:
    source = tmp_path / "src"
    source.mkdir()
    (source / "part one.obj").write_text(obj_text(tetrahedron()))
    mesh = Mesh(path=str(source / "part one.obj"), scale=np.array([2.0, 2.0, 2.0]))
    out = tmp_path / "out"
    placed = MeshStore(out, {".obj"}).place_mesh(mesh, "x")
    assert placed is not None
    assert placed[0] == "meshes/part_one.obj"
    np.testing.assert_array_equal(placed[1], mesh.scale)
    assert (out / placed[0]).read_text() == (source / "part one.obj").read_text()
    assert MeshStore(out, {".obj"}, mode="reference").place_mesh(mesh, "x") == (mesh.path, mesh.scale)


def test_a_mesh_that_was_not_found_has_no_file(tmp_path: Path) -> None:
    assert MeshStore(tmp_path, {".stl"}).place_mesh(Mesh(uri="package://nowhere/a.stl"), "a") is None
