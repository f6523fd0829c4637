"""Every mesh format is read as it is written."""

from __future__ import annotations

import importlib
import io
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh
from scipy.spatial.transform import Rotation

from kinema.geometry import (
    MeshData,
    MeshError,
    MeshLimits,
    apply_affine,
    box,
    convex_hull,
    load_mesh,
    measure_mesh_quality,
    merge_meshes,
    parse_mesh,
    weld_vertices,
)
from kit.assets import SHARED_ASSETS

from . import mesh_writers as write

mujoco: Any = importlib.import_module("mujoco")  # its types are in a compiled module that checkers cannot read

# Coordinates that single precision holds exactly, so that every format can give them back bit for bit.
PART = apply_affine(box((1.0, 2.0, 0.5)), np.eye(3), (0.25, -3.0, 8.0))

WRITERS: dict[str, tuple[str, Callable[[MeshData], bytes]]] = {
    "stl binary": (".stl", write.stl_binary),
    "stl binary that starts with solid": (".STL", lambda mesh: write.stl_binary(mesh, b"solid from cad")),
    "stl ascii": (".stl", write.stl_ascii),
    "stl ascii upper case": (".stl", lambda mesh: write.stl_ascii(mesh).upper()),
    "stl ascii with carriage returns": (".stl", lambda mesh: write.stl_ascii(mesh).replace(b"\n", b"\r\n")),
    "obj": (".obj", write.obj),
    "obj with carriage returns": (".OBJ", lambda mesh: write.obj(mesh).replace(b"\n", b"\r\n")),
    "off": (".off", write.off),
    "ply ascii": (".ply", write.ply_ascii),
    "ply little endian": (".ply", write.ply_binary),
    "ply big endian": (".ply", lambda mesh: write.ply_binary(mesh, ">")),
    "msh": (".msh", write.msh),
    "glb": (".glb", write.glb),
    "gltf": (".gltf", write.gltf_embedded),
    "dae": (".dae", write.dae),
}


@pytest.mark.parametrize("name", WRITERS)
def test_a_mesh_comes_back_exactly(name: str, tmp_path: Path) -> None:
    suffix, writer = WRITERS[name]
    path = tmp_path / f"part{suffix}"
    path.write_bytes(writer(PART))
    mesh = load_mesh(path)
    np.testing.assert_array_equal(mesh.triangles(), PART.triangles())
    if suffix.lower() != ".stl":
        np.testing.assert_array_equal(mesh.vertices, PART.vertices)
    assert measure_mesh_quality(mesh).is_closed


@pytest.mark.parametrize("suffix", [".stl", ".obj", ".off", ".ply", ".glb", ".gltf", ".dae"])
def test_agrees_with_trimesh_on_what_trimesh_writes(suffix: str, tmp_path: Path) -> None:
    source = trimesh.creation.icosphere(subdivisions=2, radius=0.3)
    source.apply_translation([1.0, 2.0, 3.0])
    path = tmp_path / f"ball{suffix}"
    if suffix == ".gltf":
        files = source.scene().export(file_type="gltf")
        assert isinstance(files, dict)
        for name, data in files.items():
            (tmp_path / ("ball.gltf" if name == "model.gltf" else name)).write_bytes(data)
    else:
        source.export(path)
    mesh = weld_vertices(load_mesh(path))
    assert measure_mesh_quality(mesh).is_closed
    np.testing.assert_allclose(measure_mesh_quality(mesh).volume, source.volume, rtol=1e-5)
    np.testing.assert_allclose(np.sort(mesh.vertices, axis=0), np.sort(source.vertices, axis=0), atol=1e-6)


def test_reading_twice_gives_the_same_bits(tmp_path: Path) -> None:
    path = tmp_path / "part.glb"
    path.write_bytes(write.glb(PART, [{"mesh": 0, "rotation": [0.1, 0.2, 0.3, 0.9]}]))
    assert load_mesh(path).vertices.tobytes() == load_mesh(path).vertices.tobytes()


# Text formats ---------------------------------------------------------------------------------------------------------


def test_obj_polygons_relative_indices_and_continued_lines() -> None:
    text = b"""# comment
        v 0 0 0 1.0
        v 1 0 0 # note
        v 1 1 0 0.5 0.5 0.5
        f -3 -2 -1
        v 0 1 0
        f 1/1 2/1 \\
          3/1 4/1
        l 1 2
        f 1 2
    """
    loaded = parse_mesh(text, ".obj")
    np.testing.assert_array_equal(loaded.mesh.faces, [[0, 1, 2], [0, 1, 2], [0, 2, 3]])
    assert loaded.mesh.n_vertices == 4
    assert "fewer than three corners" in loaded.notes[0]


def test_off_variants() -> None:
    text = b"COFF\n4 1 0\n0 0 0 255 0 0 255\n\n1 0 0 0 0 0 0\n1 1 0 0 0 0 0\n0 1 0 0 0 0 0\n4 0 1 2 3\n"
    mesh = parse_mesh(text, ".off").mesh
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 2], [0, 2, 3]])
    assert parse_mesh(b"OFF4 1 0\n0 0 0\n1 0 0\n1 1 0\n0 1 0\n3 0 1 2", ".off").mesh.n_faces == 1


def test_ply_with_mixed_polygons_and_other_elements() -> None:
    header = b"""ply
format binary_little_endian 1.0
element camera 1
property float focal
property list uchar uchar name
element vertex 5
property float x
property float y
property float z
element face 2
property uchar flags
property list uchar int vertex_indices
property list uchar float texcoord
end_header
"""
    vertices = np.array([[0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0], [2, 2, 2]], dtype="<f4").tobytes()
    camera = np.float32(1).tobytes() + b"\x03cam"
    triangle = b"\x07\x03" + np.array([0, 1, 4], dtype="<i4").tobytes() + b"\x00"
    square = b"\x07\x04" + np.array([0, 1, 2, 3], dtype="<i4").tobytes() + b"\x01" + bytes(4)
    mesh = parse_mesh(header + camera + vertices + triangle + square, ".ply").mesh
    np.testing.assert_array_equal(mesh.faces, [[0, 1, 4], [0, 1, 2], [0, 2, 3]])


def test_stl_with_bytes_after_the_last_triangle_says_so() -> None:
    loaded = parse_mesh(write.stl_binary(PART) + b"colour", ".stl")
    assert loaded.mesh.n_faces == 12
    assert loaded.notes == ("6 bytes after the last triangle were ignored.",)


def test_stl_text_without_an_end_says_so() -> None:
    assert "endsolid" in parse_mesh(write.stl_ascii(PART).replace(b"endsolid part", b""), ".stl").notes[0]


# MuJoCo's format ------------------------------------------------------------------------------------------------------


def test_msh_is_what_mujoco_reads(tmp_path: Path) -> None:
    (tmp_path / "part.msh").write_bytes(write.msh(PART))
    model = mujoco.MjModel.from_xml_string(
        f"""<mujoco><compiler meshdir="{tmp_path}"/><asset><mesh name="part" file="part.msh" inertia="exact"/></asset>
        <worldbody><body><freejoint/><geom type="mesh" mesh="part" density="1"/></body></worldbody></mujoco>"""
    )
    mesh = load_mesh(tmp_path / "part.msh")
    assert model.body_mass[1] == pytest.approx(measure_mesh_quality(mesh).volume)
    np.testing.assert_allclose(model.body_ipos[1], mesh.vertices.mean(axis=0), atol=1e-6)


def test_msh_without_faces_is_a_hull() -> None:
    cloud = MeshData(PART.vertices, np.zeros((0, 3), dtype=np.int64))
    loaded = parse_mesh(write.msh(cloud), ".msh")
    assert measure_mesh_quality(loaded.mesh).volume == pytest.approx(measure_mesh_quality(convex_hull(PART)).volume)
    assert loaded.notes


# Scenes ---------------------------------------------------------------------------------------------------------------

TURN = Rotation.from_euler("z", 90, degrees=True)


def test_gltf_places_nodes() -> None:
    quaternion = TURN.as_quat().tolist()
    nodes = [
        {"children": [1, 2], "translation": [1, 2, 3]},
        {"mesh": 0, "rotation": quaternion, "scale": [2, 1, 1]},
        {"mesh": 0, "matrix": [-1, 0, 0, 0, 0, 1, 0, 0, 0, 0, 1, 0, 5, 0, 0, 1]},
    ]
    loaded = parse_mesh(write.glb(PART, nodes), ".glb")
    first = apply_affine(PART, TURN.as_matrix() @ np.diag([2, 1, 1]), (1, 2, 3))
    second = apply_affine(PART, np.diag([-1, 1, 1]), (6, 2, 3))
    np.testing.assert_allclose(loaded.mesh.triangles(), merge_meshes([first, second]).triangles(), atol=1e-12)
    assert not measure_mesh_quality(loaded.mesh).is_inside_out  # the mirror turned the winding too
    assert loaded.up_axis == "Y_UP"


def test_gltf_shares_vertices_between_materials_and_skips_lines() -> None:
    document, binary = write.gltf_document(PART)
    primitive = document["meshes"][0]["primitives"][0]
    document["meshes"][0]["primitives"] = [primitive, dict(primitive, material=1), dict(primitive, mode=1)]
    loaded = parse_mesh(write.glb_container(document, binary), ".glb")
    assert loaded.mesh.n_vertices == 8
    assert loaded.mesh.n_faces == 24
    assert loaded.notes == ("Points and lines were skipped.",)


def test_gltf_strips_fans_and_quantised_positions() -> None:
    square = MeshData(np.array([[0.0, 0, 0], [1, 0, 0], [0, 1, 0], [1, 1, 0]]), np.array([[0, 1, 2]]))
    document, binary = write.gltf_document(square)
    primitive = document["meshes"][0]["primitives"][0]
    del primitive["indices"]
    primitive["mode"] = 5
    strip = parse_mesh(write.glb_container(document, binary), ".glb").mesh
    np.testing.assert_array_equal(strip.faces, [[0, 1, 2], [1, 3, 2]])
    primitive["mode"] = 6
    fan = parse_mesh(write.glb_container(document, binary), ".glb").mesh
    np.testing.assert_array_equal(fan.faces, [[0, 1, 2], [0, 2, 3]])
    document["accessors"][0] |= {"componentType": 5122, "normalized": True}
    document["bufferViews"][0] = {"buffer": 0, "byteLength": 32, "byteStride": 8}
    values = np.array([[0, 0, 0, 0], [32767, 0, 0, 0], [0, 32767, 0, 0], [-32768, 0, 0, 0]], dtype="<i2")
    quantised = parse_mesh(write.glb_container(document, values.tobytes() + binary), ".glb").mesh
    np.testing.assert_array_equal(quantised.vertices, [[0, 0, 0], [1, 0, 0], [0, 1, 0], [-1, 0, 0]])


def test_gltf_opens_buffers_beside_it_and_nothing_else(tmp_path: Path) -> None:
    document, binary = write.gltf_document(PART)
    folder = tmp_path / "robot"
    (folder / "data").mkdir(parents=True)
    (folder / "data" / "part 1.bin").write_bytes(binary)
    (tmp_path / "outside.bin").write_bytes(binary)
    (folder / "link.bin").symlink_to(tmp_path / "outside.bin")

    def load(uri: str) -> MeshData:
        document["buffers"][0]["uri"] = uri
        (folder / "part.gltf").write_text(json.dumps(document))
        return load_mesh(folder / "part.gltf")

    assert load("data/part%201.bin").n_faces == 12
    addresses = ["../outside.bin", str(tmp_path / "outside.bin"), "link.bin", "%2e%2e/outside.bin", "data"]
    for address in [*addresses, "http://localhost/part.bin", "file:///etc/passwd", "missing.bin"]:
        with pytest.raises(MeshError, match="buffer"):
            load(address)
    load("data/part%201.bin")
    almost = MeshLimits(file_bytes=(folder / "part.gltf").stat().st_size + len(binary) - 1)
    with pytest.raises(MeshError, match="larger than"):
        load_mesh(folder / "part.gltf", limits=almost)


def test_dae_applies_the_unit_and_keeps_the_axes() -> None:
    loaded = parse_mesh(write.dae(PART, unit="0.001", up_axis="Y_UP"), ".dae")
    np.testing.assert_allclose(loaded.mesh.vertices, PART.vertices * 0.001, rtol=1e-15)
    assert loaded.up_axis == "Y_UP"


def test_dae_places_nodes_in_order() -> None:
    nodes = """
      <node id="arm"><translate>1 2 3</translate><rotate>0 0 1 90</rotate><scale>2 1 1</scale>
        <node><matrix>1 0 0 5  0 1 0 0  0 0 1 0  0 0 0 1</matrix><instance_geometry url="#part"/></node></node>
      <node><scale>-1 1 1</scale><instance_node url="#arm"/></node>
      <node><lookat>0 0 5 0 0 0 0 1 0</lookat><instance_camera url="#eye"/></node>"""
    mesh = parse_mesh(write.dae(PART, nodes=nodes, unit="0.5"), ".dae").mesh
    first = apply_affine(apply_affine(PART, np.eye(3), (5, 0, 0)), TURN.as_matrix() @ np.diag([2, 1, 1]), (1, 2, 3))
    both = apply_affine(merge_meshes([first, apply_affine(first, np.diag([-1, 1, 1]))]), 0.5 * np.eye(3))
    np.testing.assert_allclose(mesh.triangles(), both.triangles(), atol=1e-12)


def test_dae_polygons_of_every_kind() -> None:
    square = MeshData(np.array([[0.0, 0, 0], [1, 0, 0], [1, 1, 0], [0, 1, 0]]), np.array([[0, 1, 2]]))
    quad, strip = "0 0 1 0 2 0 3 0", "0 0 1 0 3 0 2 0"
    primitives = f"""
      <polylist count="1">{write.DAE_INPUTS}<vcount>4</vcount><p>{quad}</p></polylist>
      <polygons count="2">{write.DAE_INPUTS}<p>{quad}</p><p>0 0 1 0 2 0</p></polygons>
      <trifans count="1">{write.DAE_INPUTS}<p>{quad}</p></trifans>
      <tristrips count="1">{write.DAE_INPUTS}<p>{strip}</p></tristrips>
      <lines count="1">{write.DAE_INPUTS}<p>0 0 1 0</p></lines>"""
    node = '<node><instance_geometry url="#part"/></node>'
    loaded = parse_mesh(write.dae_document(square, primitives, node), ".dae")
    fan = [[0, 1, 2], [0, 2, 3]]
    np.testing.assert_array_equal(loaded.mesh.faces, [*fan, *fan, [0, 1, 2], *fan, [0, 1, 3], [1, 2, 3]])
    assert loaded.mesh.n_vertices == 4
    assert loaded.notes == ("Lines were skipped.",)
    with_trimesh = trimesh.load(
        io.BytesIO(write.dae_document(square, primitives, node)), file_type="dae", force="mesh", process=False
    )
    assert isinstance(with_trimesh, trimesh.Trimesh)
    np.testing.assert_array_equal(np.sort(loaded.mesh.triangles(), axis=1), np.sort(with_trimesh.triangles, axis=1))


def test_dae_skin_is_taken_as_modelled() -> None:
    text = write.dae(PART, nodes='<node><instance_controller url="#skin"/></node>').replace(
        b"<library_visual_scenes>",
        b"""<library_controllers><controller id="skin"><skin source="#part">
        <bind_shape_matrix>1 0 0 7 0 1 0 0 0 0 1 0 0 0 0 1</bind_shape_matrix></skin></controller>
        </library_controllers><library_visual_scenes>""",
    )
    loaded = parse_mesh(text, ".dae")
    np.testing.assert_allclose(loaded.mesh.vertices, PART.vertices + np.array([7, 0, 0]))
    assert "skinned" in loaded.notes[0]


def test_dae_without_a_scene_gives_its_geometries() -> None:
    text = write.dae(PART)
    start, end = text.index(b"<library_visual_scenes>"), text.index(b"</COLLADA>")
    loaded = parse_mesh(text[:start] + text[end:], ".dae")
    np.testing.assert_array_equal(loaded.mesh.triangles(), PART.triangles())
    assert "no scene" in loaded.notes[0]


def test_real_robot_meshes_match_trimesh() -> None:
    """Whatever meshes the shared assets hold, where they are at hand."""
    assets = SHARED_ASSETS
    paths = sorted(assets.rglob("*.dae")) + sorted(assets.rglob("*.obj"))[:8] + sorted(assets.rglob("*.stl"))[:8]
    if not paths:
        pytest.skip("no shared assets here")
    for path in paths:
        mesh = load_mesh(path)
        other = trimesh.load(path, force="mesh", process=False, skip_materials=True)
        assert isinstance(other, trimesh.Trimesh)
        np.testing.assert_allclose(np.sort(mesh.triangles(), axis=None), np.sort(other.triangles, axis=None), atol=1e-6)
