"""The named parts of mesh files, and shapes of SDFormat that are one of them."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from kinema import geometry
from kinema.description import Mesh, mesh_data
from kinema.read import read
from kinema.write import FORMATS, write
from kit.diagnostics import ClaimedDiagnostics

OBJ = """
o left
v 0 0 0
v 1 0 0
v 0 1 0
v 0 0 1
f 1 2 3 4
g lid shared
f 1 2 4
o right
g shared
v 5 0 0
f 5 2 3
"""
TRIANGLE = """<geometry id="{0}-mesh" name="{0}_mesh"><mesh>
<source id="{0}-p"><float_array id="{0}-a" count="9">{1} 0 0 {1} 1 0 {1} 0 1</float_array>
<technique_common><accessor source="#{0}-a" count="3" stride="3"/></technique_common></source>
<vertices id="{0}-v"><input semantic="POSITION" source="#{0}-p"/></vertices>
<triangles count="1"><input semantic="VERTEX" source="#{0}-v" offset="0"/><p>0 1 2</p></triangles>
</mesh></geometry>"""
NODE = """<node id="{0}-id" name="{0}"><translate>0 0 {2}</translate><instance_geometry url="#{1}-mesh"/></node>"""
COLLADA = f"""<COLLADA xmlns="http://www.collada.org/2005/11/COLLADASchema" version="1.4.1">
<asset><unit meter="0.1"/></asset>
<library_geometries>{TRIANGLE.format("one", 1)}{TRIANGLE.format("two", 2)}</library_geometries>
<library_visual_scenes><visual_scene id="scene">
{NODE.format("first", "one", 0)}{NODE.format("second", "two", 10)}{NODE.format("third", "two", 20)}
</visual_scene></library_visual_scenes>
<scene><instance_visual_scene url="#scene"/></scene></COLLADA>"""


def load(folder: Path, name: str, text: str) -> geometry.LoadedMesh:
    (folder / name).write_text(text)
    return geometry.load_mesh_with_metadata(folder / name)


def test_objects_and_groups_of_an_obj(tmp_path: Path) -> None:
    """Polygons are several triangles; an object ends with the next object, a group with the next group."""
    loaded = load(tmp_path, "a.obj", OBJ)
    assert {name: list(ranges) for name, ranges in loaded.parts.items()} == {
        "left": [(0, 3)],
        "right": [(3, 4)],
        "lid shared": [(2, 3)],
        "lid": [(2, 3)],
        "shared": [(2, 3), (3, 4)],
    }
    part = loaded.part_mesh("right")
    assert part is not None
    np.testing.assert_array_equal(part.triangles(), [[[5, 0, 0], [1, 0, 0], [0, 1, 0]]])
    assert loaded.part_mesh("nothing") is None


@pytest.mark.parametrize("letter", ["o", "g"])
def test_an_obj_may_have_the_one_or_the_other(letter: str, tmp_path: Path) -> None:
    """Only objects, only groups, or nothing of the kind."""
    loaded = load(tmp_path, "a.obj", f"v 0 0 0\nv 1 0 0\nv 0 1 0\n{letter} it\nf 1 2 3\n")
    assert loaded.parts == {"it": [(0, 1)]}
    assert load(tmp_path, "b.obj", "v 0 0 0\nv 1 0 0\nv 0 1 0\nf 1 2 3\n").parts == {}


def test_nodes_and_geometries_of_a_scene(tmp_path: Path) -> None:
    """A part is called by the name of its node, of its geometry, or by their identifiers; it is where it is placed."""
    loaded = load(tmp_path, "a.dae", COLLADA)
    assert loaded.mesh.n_faces == 3
    second = loaded.part_mesh("second")
    assert second is not None
    np.testing.assert_allclose(second.vertices, [[0.2, 0, 1.0], [0.2, 0.1, 1.0], [0.2, 0, 1.1]])
    both = loaded.part_mesh("two_mesh")
    assert both is not None
    assert both.n_faces == 2
    assert loaded.part_mesh("one-mesh") is not None


def test_nodes_of_gltf(tmp_path: Path) -> None:
    """The same of glTF."""
    data = np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0]], "<f4").tobytes()
    (tmp_path / "a.bin").write_bytes(data)
    document = {
        "asset": {"version": "2.0"},
        "buffers": [{"uri": "a.bin", "byteLength": len(data)}],
        "bufferViews": [{"buffer": 0, "byteLength": len(data)}],
        "accessors": [{"bufferView": 0, "componentType": 5126, "count": 3, "type": "VEC3"}],
        "meshes": [{"name": "triangle", "primitives": [{"attributes": {"POSITION": 0}}]}],
        "nodes": [{"name": "here", "mesh": 0}, {"name": "there", "mesh": 0, "translation": [0, 0, 3]}],
    }
    loaded = load(tmp_path, "a.gltf", json.dumps(document))
    there = loaded.part_mesh("there")
    assert there is not None
    np.testing.assert_array_equal(there.vertices[:, 2], 3)
    assert {name: len(ranges) for name, ranges in loaded.parts.items()} == {"here": 1, "there": 1, "triangle": 2}


def test_a_part_is_centred_and_scaled(tmp_path: Path) -> None:
    """The middle of its bounding box goes to the origin; the scale comes after."""
    (tmp_path / "a.dae").write_text(COLLADA)
    mesh = Mesh(path=str(tmp_path / "a.dae"), submesh="second", center_submesh=True, scale=np.array([1.0, 2.0, 10.0]))
    data = mesh_data(mesh)
    assert data is not None
    np.testing.assert_allclose(data.vertices, [[0, -0.1, -0.5], [0, 0.1, -0.5], [0, -0.1, 0.5]], atol=1e-12)


SDF = """<sdf version="1.9"><model name="m"><link name="l"><visual name="v"><geometry><mesh><uri>a.dae</uri>
<submesh><name>{}</name></submesh></mesh></geometry></visual></link></model></sdf>"""


def test_a_part_that_is_not_there_is_a_warning(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """All of the mesh is used then."""
    (tmp_path / "a.dae").write_text(COLLADA)
    (tmp_path / "m.sdf").write_text(SDF.format("nothing"))
    for item in read(tmp_path / "m.sdf").diagnostics:
        diagnostics.items.append(item)
    assert "no part of that name" in diagnostics.claim("sdf.submesh").message


@pytest.mark.parametrize("format", FORMATS)
def test_only_the_part_is_written(format: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """In every format, nothing is lost, and what comes back has the triangles of the part."""
    (tmp_path / "a.dae").write_text(COLLADA)
    (tmp_path / "m.sdf").write_text(SDF.format("second"))
    robot = read(tmp_path / "m.sdf")
    diagnostics.items += robot.diagnostics.items
    out = tmp_path / "out"
    out.mkdir()
    report = write(robot, out / f"m{FORMATS[format][0]}")
    assert [str(x) for x in report if "part" in x.what] == []
    (shape,) = (s for link in read(out / f"m{FORMATS[format][0]}").links for s in link.shapes)
    assert isinstance(shape.geometry, Mesh)
    data = mesh_data(shape.geometry)
    assert data is not None
    seen = shape.pose.apply(data.vertices)
    # MuJoCo's meshes are never quite flat
    np.testing.assert_allclose([seen.min(axis=0), seen.max(axis=0)], [[0.2, 0, 1.0], [0.2, 0.1, 1.1]], atol=1e-3)
