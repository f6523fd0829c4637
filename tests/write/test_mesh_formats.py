"""The mesh files that URDF and SDFormat are given: OBJ, COLLADA or glTF, each before a foreign reader."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import trimesh

import kinema
from kinema.core import WriteError
from kinema.description import Mesh, Robot
from kinema.geometry import load_mesh_with_metadata
from kit.dressed_meshes import BOX, everything, face_normals, picture, seamed_coordinates
from kit.dressed_robots import ROBOTS
from kit.foreign_looks import foreign_parts
from kit.oracles import OracleMissing, gltf_validator
from kit.seen import differences, seen, unexplained

collada: Any = importlib.import_module("collada")

KINDS = ("obj", "dae", "glb")
FORMATS = ("urdf", "sdf")


def written(name: str, kind: str, format: str, folder: Path, **how: Any) -> tuple[Robot, Any, Robot]:
    """A made-up robot, the loss report, and what came back."""
    robot = ROBOTS[name](folder / "source")
    (folder / "out").mkdir(exist_ok=True)
    file = folder / "out" / f"r.{format}"
    report = kinema.write(robot, file, mesh_format=kind, **how)
    again = kinema.read(file)
    assert isinstance(again, Robot)
    return robot, report, again


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("name", ROBOTS)
def test_there_and_back(name: str, kind: str, tmp_path: Path) -> None:
    """The same is seen, or the report says what is not; every mesh is of the kind that was asked for."""
    robot, report, again = written(name, kind, "urdf", tmp_path)
    assert unexplained(differences(seen(robot), seen(again)), report) == set()
    meshes = [s.geometry for link in again.links for s in link.shapes if s.visual and isinstance(s.geometry, Mesh)]
    assert {Path(mesh.path).suffix for mesh in meshes} == {f".{kind}"}


@pytest.mark.parametrize("format", FORMATS)
def test_a_glb_says_nearly_everything(format: str, tmp_path: Path) -> None:
    """Two materials with a texture, seams and light of their own come back whole."""
    robot, _, again = written("parts", "glb", format, tmp_path)
    assert differences(seen(robot), seen(again)) == set()
    assert not list((tmp_path / "out").rglob("*.png"))  # they are inside


def test_a_glb_of_everything(tmp_path: Path) -> None:
    """What one file cannot say of a material that says everything: its reflectance."""
    from kinema.geometry import Appearance, glb_chunks

    look, losses = everything(tmp_path), []
    uv, normals = seamed_coordinates(BOX), face_normals(BOX)
    appearance = Appearance(normals=normals, texture_coordinates=(uv,), materials=(look,))
    (tmp_path / "all.glb").write_bytes(b"".join(glb_chunks(BOX, appearance, "all", losses)))
    assert [what for _, what, _ in losses] == ["its reflectance"]
    found = load_mesh_with_metadata(tmp_path / "all.glb", with_appearance=True)
    assert found.appearance_notes == ()
    assert found.appearance is not None
    (again,) = found.appearance.materials
    for field in ("color", "emission", "specular", "metallic", "roughness", "clearcoat", "clearcoat_roughness"):
        np.testing.assert_allclose(getattr(again, field), getattr(look, field), atol=1e-12)
    assert (again.opacity_threshold, again.double_sided) == (0.5, True)
    assert again.texture_mapping.wrap == look.texture_mapping.wrap
    np.testing.assert_allclose(again.texture_mapping.offset, look.texture_mapping.offset, atol=1e-12)
    np.testing.assert_allclose(again.texture_mapping.scale, look.texture_mapping.scale)
    assert set(look.maps) <= set(again.maps)
    assert {role: again.maps[role].strength for role in look.maps} == {r: t.strength for r, t in look.maps.items()}


# -- foreign judges ----------------------------------------------------------------------------------------------------


def test_the_validator_of_gltf_finds_no_fault(tmp_path: Path) -> None:
    """Khronos' own, on files of every made-up robot."""
    files: list[Path] = []
    for name in ROBOTS:
        written(name, "glb", "urdf", tmp_path / name if (tmp_path / name).mkdir() is None else tmp_path)
        files += (tmp_path / name).rglob("out/**/*.glb")
    assert len(files) >= len(ROBOTS)
    try:
        found = gltf_validator(files)
    except OracleMissing as missing:
        pytest.skip(str(missing))
    assert dict(zip([f.name for f in files], found, strict=True)) == {f.name: [] for f in files}


def test_trimesh_reads_a_glb(tmp_path: Path) -> None:
    written("parts", "glb", "sdf", tmp_path)
    (path,) = tmp_path.rglob("meshes/*.glb")
    scene: Any = trimesh.load(path, process=False)
    parts = {str(g.visual.material.name): g for g in scene.geometry.values()}
    assert set(parts) == {"paint", "steel"}
    paint = parts["paint"]
    np.testing.assert_allclose(paint.vertices[paint.faces], BOX.triangles()[:6], atol=1e-7)
    np.testing.assert_allclose(paint.visual.uv[paint.faces], seamed_coordinates(BOX).expanded()[:6], atol=1e-6)
    np.testing.assert_allclose(paint.vertex_normals[paint.faces], face_normals(BOX).expanded()[:6], atol=1e-6)
    assert paint.visual.material.baseColorTexture.size == (2, 1)
    np.testing.assert_allclose(paint.visual.material.emissiveFactor, (0, 0.5, 0.25), atol=1e-6)
    assert parts["steel"].visual.material.metallicFactor == 1.0
    assert parts["steel"].visual.material.alphaMode == "BLEND"


@pytest.mark.filterwarnings("ignore::PendingDeprecationWarning")
def test_pycollada_reads_a_dae(tmp_path: Path) -> None:
    """Triangles, normals and coordinates of each material; the image; what Phong's model says."""
    written("parts", "dae", "urdf", tmp_path)
    (path,) = tmp_path.rglob("meshes/*.dae")
    document = collada.Collada(str(path))
    assert document.errors == []
    (bound,) = document.scene.objects("geometry")
    sets = {primitive.material.name: primitive for primitive in bound.primitives()}
    assert set(sets) == {"paint", "steel"}
    paint = sets["paint"]
    np.testing.assert_allclose(paint.vertex[paint.vertex_index], BOX.triangles()[:6], atol=1e-7)
    np.testing.assert_allclose(paint.normal[paint.normal_index], face_normals(BOX).expanded()[:6], atol=1e-7)
    uv = paint.texcoordset[0][paint.texcoord_indexset[0]]
    np.testing.assert_allclose(uv, seamed_coordinates(BOX).expanded()[:6], atol=1e-7)
    image = paint.material.effect.diffuse.sampler.surface.image
    assert (path.parent / image.path).read_bytes() == (tmp_path / "source" / "paint.png").read_bytes()
    np.testing.assert_allclose(paint.material.effect.emission, (0, 0.5, 0.25, 1))
    np.testing.assert_allclose(sets["steel"].material.effect.diffuse, (0.25, 0.25, 0.5, 1))
    assert sets["steel"].material.effect.transparency == 0.5


def test_foreign_readers_see_the_same_from_all_formats(tmp_path: Path) -> None:
    """Triangles, colours and images by trimesh and OpenUSD; tools/pictures.py draws them."""
    robot = ROBOTS["parts"](tmp_path / "source")
    poses = robot.forward_kinematics({})
    found = {}
    for file in ("r.urdf", "r.sdf", "r.usda"):
        (tmp_path / file[2:]).mkdir()
        place = tmp_path / file[2:] / file
        kinema.write(robot, place, mesh_format="glb")
        found[file] = sorted(foreign_parts(place, poses), key=lambda part: part.color[3])
    for parts in found.values():
        assert [part.image is not None for part in parts] == [False, True]
        for part, wanted in zip(parts, found["r.usda"], strict=True):
            np.testing.assert_allclose(part.color, wanted.color, atol=2e-2)
            np.testing.assert_allclose(part.corners, wanted.corners, atol=1e-6)
            assert part.normals is not None
            np.testing.assert_allclose(part.normals, wanted.normals, atol=1e-6)
        assert parts[1].coordinates is not None
        np.testing.assert_allclose(parts[1].coordinates, seamed_coordinates(BOX).expanded()[:6], atol=1e-6)
        assert parts[1].image.size == (2, 1)


# -- what is asked for -------------------------------------------------------------------------------------------------


def test_what_only_collides_stays_as_it_is(tmp_path: Path) -> None:
    """The choice is about looks: a collision mesh keeps its digits."""
    robot = ROBOTS["colliding_parts"](tmp_path)
    kinema.write(robot, tmp_path / "r.urdf", mesh_format="glb")
    text = (tmp_path / "r.urdf").read_text()
    assert text.count(".glb") == 1
    assert text.count(".obj") == 1


def test_references_to_packages_give_way(tmp_path: Path) -> None:
    """URDF to URDF leaves `package://` alone, unless a kind of mesh file is asked for."""
    package = tmp_path / "bot"
    ROBOTS["obj_file"](package / "meshes")
    (package / "package.xml").write_text("<package><name>bot</name></package>")
    (package / "bot.urdf").write_text(
        '<robot name="b"><link name="l"><visual><geometry><mesh filename="package://bot/meshes/box.obj"/></geometry>'
        "</visual></link></robot>"
    )
    robot = kinema.read(package / "bot.urdf")
    (tmp_path / "out").mkdir()
    kinema.write(robot, tmp_path / "out" / "a.urdf")
    assert "package://bot/meshes/box.obj" in (tmp_path / "out" / "a.urdf").read_text()
    kinema.write(robot, tmp_path / "out" / "b.urdf", mesh_format="dae")
    assert 'filename="meshes/box.dae"' in (tmp_path / "out" / "b.urdf").read_text()
    assert differences(seen(robot), seen(kinema.read(tmp_path / "out" / "b.urdf"))) <= {
        "metallic",
        "color",
    }  # Phong's model


def test_parts_of_files_become_files(tmp_path: Path) -> None:
    """A submesh of SDFormat is the whole of a new file."""
    scene = trimesh.Scene()
    scene.add_geometry(trimesh.creation.box((1, 1, 1)), geom_name="one", node_name="one")
    scene.add_geometry(trimesh.creation.box((3, 1, 1)), geom_name="two", node_name="two")
    scene.export(tmp_path / "both.obj")
    (tmp_path / "m.sdf").write_text(
        '<sdf version="1.9"><model name="m"><link name="l"><visual name="v"><geometry><mesh><uri>both.obj</uri>'
        "<submesh><name>two</name></submesh></mesh></geometry></visual></link></model></sdf>"
    )
    robot = kinema.read(tmp_path / "m.sdf")
    (tmp_path / "out").mkdir()
    kinema.write(robot, tmp_path / "out" / "m.sdf", mesh_format="glb")
    assert "submesh" not in (tmp_path / "out" / "m.sdf").read_text()
    ((_, _, before, _),) = robot.posed_meshes({}, kind="visual")
    ((_, _, after, _),) = kinema.read(tmp_path / "out" / "m.sdf").posed_meshes({}, kind="visual")
    np.testing.assert_allclose([after.min(axis=0), after.max(axis=0)], [before.min(axis=0), before.max(axis=0)])


def test_what_is_none_of_them(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match="'obj', 'dae', 'glb'"):
        kinema.write(ROBOTS["parts"](tmp_path), tmp_path / "r.urdf", mesh_format="fbx")


def test_images_of_other_kinds_are_converted_inside(tmp_path: Path) -> None:
    """GlTF holds PNG and JPEG; another image is converted, and one that is none is on record."""
    images: Any = importlib.import_module("PIL.Image")
    robot = ROBOTS["parts"](tmp_path / "source")
    mesh = robot.links[1].shapes[0].geometry
    assert isinstance(mesh, Mesh)
    assert mesh.appearance is not None
    images.open(picture(tmp_path / "p.png", (1, 2, 3), (4, 5, 6))).save(tmp_path / "p.bmp")
    mesh.appearance.materials[0].texture = str(tmp_path / "p.bmp")
    kinema.write(robot, tmp_path / "r.urdf", mesh_format="glb")
    (path,) = tmp_path.rglob("meshes/*.glb")
    scene: Any = trimesh.load(path, process=False)
    found = [g.visual.material.baseColorTexture for g in scene.geometry.values()]
    (image,) = [i for i in found if i is not None]
    assert [image.getpixel((x, 0)) for x in (0, 1)] == [(1, 2, 3), (4, 5, 6)]
    (tmp_path / "p.bmp").write_bytes(b"BM nothing")
    report = kinema.write(robot, tmp_path / "r.urdf", mesh_format="glb")
    assert any("its texture" in str(loss) and "converted" in str(loss) for loss in report)
