"""Links, shapes, meshes, names, worlds and kept text."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

import kinema
from kinema.core import Pose, WriteError
from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Extra,
    Frame,
    Geometry,
    HeightField,
    Inertial,
    Joint,
    JointKind,
    Light,
    Link,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    World,
    rotation,
    tessellate,
)
from kinema.geometry import box
from kinema.write.obj_file import obj_text
from kit.written.sdf import Written, libsdformat_accepts


def _link(name: str, *shapes: Shape) -> Link:
    return Link(name=name, inertial=Inertial(1.0, np.zeros(3), np.eye(3)), shapes=list(shapes))


def _read(written: Written) -> Robot:
    (robot,) = written.read()
    return robot


CUBE = box((0.5, 1.0, 2.0))
GEOMETRIES: list[Geometry] = [
    Box(np.array([1.0, 2.0, 3.0])),
    Sphere(0.5),
    Ellipsoid(np.array([0.1, 0.2, 0.3])),
    Capsule(0.1, 0.4),
    Cylinder(0.2, 0.5),
    Cone(0.2, 0.5),
    Plane((3.0, 4.0)),
    Plane(),
    Mesh(vertices=CUBE.vertices, faces=CUBE.faces, scale=np.array([1.0, -2.0, 3.0])),
    HeightField(heights=np.array([[0.1, 0.2], [0.3, 0.4]]), size=(2.0, 2.0), base=0.5),
]


@pytest.mark.parametrize("geometry", GEOMETRIES, ids=lambda g: type(g).__name__)
def test_shapes_keep_their_form_and_place(geometry: Geometry, tmp_path: Path) -> None:
    """A shape that is seen and collides comes back as one of each, with the same triangles in the same place."""
    pose = Pose.from_rpy((0.1, 0.2, 0.3), (0.4, np.pi / 2, 0.6))
    written = Written.make(Robot(name="r", links=[_link("a", Shape(name="s", geometry=geometry, pose=pose))]), tmp_path)
    libsdformat_accepts(written)
    shapes = _read(written).links[0].shapes
    assert [(s.visual, s.collision, s.name) for s in shapes] == [(False, True, "s"), (True, False, "s")]
    if isinstance(geometry, Plane) and geometry.size is None:
        assert written.losses("s")
        return
    expected = tessellate(geometry)
    assert expected is not None
    for shape in shapes:
        made = tessellate(shape.geometry)
        assert made is not None
        np.testing.assert_allclose(shape.pose.apply(made.vertices), pose.apply(expected.vertices), atol=1e-12)
    assert bool(written.losses("s")) == isinstance(geometry, HeightField)


def test_a_cone_is_a_mesh_in_old_versions(tmp_path: Path) -> None:
    """Version 1.9 has no cone: it is triangles there, and the report says so."""
    robot = Robot(name="r", links=[_link("a", Shape(name="s", geometry=Cone(0.2, 0.5)))])
    written = Written.make(robot, tmp_path, version="1.9")
    assert _read(written).links[0].shapes[0].kind == "mesh"
    assert "triangles" in written.losses("s")[0]


@pytest.mark.parametrize("mode", ["copy", "bake", "reference"])
def test_mesh_files(mode: str, tmp_path: Path) -> None:
    """Copied with their scale beside, baked, or referred to where they lie; the triangles are the same."""
    source = tmp_path / "part.obj"
    source.write_text(obj_text(CUBE), encoding="ascii")
    mesh = Mesh(uri="part.obj", path=str(source), scale=np.array([2.0, 2.0, 2.0]))
    written = Written.make(
        Robot(name="r", links=[_link("a", Shape(name="s", geometry=mesh))]), tmp_path / "out", meshes=mode
    )
    assert (tmp_path / "out" / "meshes").exists() == (mode != "reference")
    shape = _read(written).links[0].shapes[0]
    assert isinstance(shape.geometry, Mesh)
    made = tessellate(shape.geometry)
    assert made is not None
    np.testing.assert_array_equal(made.vertices, 2 * CUBE.vertices)
    assert (shape.geometry.scale[0] == 1) == (mode == "bake")


def test_a_link_without_mass_gets_next_to_none(tmp_path: Path) -> None:
    """The format's default would be 1 kg; the report says what was written."""
    written = Written.make(Robot(name="r", links=[Link(name="ghost")]), tmp_path)
    inertial = _read(written).links[0].inertial
    assert inertial is not None
    assert 0 < inertial.mass < 1e-5
    assert "that it has no mass" in " ".join(written.losses("ghost"))
    libsdformat_accepts(written)


def test_impossible_inertias_are_named(tmp_path: Path) -> None:
    """They are written as they are, and the report warns of them."""
    link = Link(name="odd", inertial=Inertial(1.0, np.zeros(3), np.diag([1.0, 1.0, 5.0])))
    written = Written.make(Robot(name="r", links=[link]), tmp_path)
    assert "no body can have them" in " ".join(written.losses("odd"))


def test_names_follow_the_rules_and_changes_are_named(tmp_path: Path) -> None:
    """Reserved and scoped names change, links, joints and frames share one set of names, references follow."""
    names = ["world", "__model__", "a::b", "same", " padded "]
    robot = Robot(name="a::model", links=[_link(n) for n in names])
    for i, child in enumerate(names[1:]):
        joint = Joint(name=f"j{i}", kind=JointKind.REVOLUTE, parent="world", child=child, axes=[rotation((0, 0, 1))])
        robot.joints.append(joint)
    robot.joints[0].name = "same"
    robot.frames = [Frame(name="same", link="a::b")]
    written = Written.make(robot, tmp_path)
    libsdformat_accepts(written)
    again = _read(written)
    assert [x.name for x in again.links] == ["world_1", "__model___1", "a_b", "same", "padded"]
    assert again.joints[0].name == "same_1"
    assert {j.parent for j in again.joints} == {"world_1"}
    assert (again.frames[0].name, again.frames[0].link) == ("same_2", "a_b")
    for name in ("world", "__model__", "a::b", " padded ", "same", "a::model"):
        assert any("its name" in loss for loss in written.losses(name)), name


def test_bit_masks_come_back(tmp_path: Path) -> None:
    """Categories and what they collide with, for shapes where the two differ and where they do not."""
    shapes = [Shape(name=f"s{i}", geometry=Sphere(1.0), visual=False) for i in range(3)]
    for shape, masks in zip(shapes, ((1, 1), (2, 4), (6, 6)), strict=True):
        shape.contype, shape.conaffinity = masks
    written = Written.make(Robot(name="r", links=[_link("a", *shapes)]), tmp_path)
    again = _read(written).links[0].shapes
    assert [(s.contype, s.conaffinity) for s in again] == [(1, 1), (2, 4), (6, 6)]
    libsdformat_accepts(written)


def test_own_extras_go_back_to_their_owner_and_others_are_named(tmp_path: Path) -> None:
    """A plugin of SDFormat is in the file as it was, one of another format is not."""
    robot = Robot(name="r", links=[_link("a")], format="sdf")
    plugin = '<plugin name="p" filename="lib.so"><x a="1">&lt;</x></plugin>'
    robot.extras = [Extra("sdf", "plugin", plugin), Extra("urdf", "gazebo", "<gazebo/>")]
    written = Written.make(robot, tmp_path)
    assert plugin in written.text
    assert "urdf gazebo" in written.losses("r")[-1]
    assert [e.text for e in _read(written).extras] == [plugin]


def test_textures_are_copied(tmp_path: Path) -> None:
    """The texture lies beside the file, and colours that are no colours are cut off and named."""
    source = tmp_path / "wood.png"
    source.write_bytes(b"\x89PNG\r\n")
    material = VisualMaterial(texture=str(source), color=(0.5, 2.0, 0.0, 1.0))
    shape = Shape(name="s", geometry=Sphere(1.0), collision=False, material=material)
    written = Written.make(Robot(name="r", links=[_link("a", shape)]), tmp_path / "out")
    again = _read(written).links[0].shapes[0].material
    assert again is not None
    assert Path(again.texture).read_bytes() == source.read_bytes()
    assert again.color == (0.5, 1.0, 0.0, 1.0)
    assert "its colour" in " ".join(written.losses("s"))


def _world() -> World:
    ground = Shape(name="ground", geometry=Plane((10.0, 10.0)))
    first, second = (Robot(name="box", links=[_link("a", Shape(name="s", geometry=Sphere(0.1)))]) for _ in range(2))
    second.pose = Pose.translation((0, 0, 1))
    lights = [Light(name="sun", kind="directional", link=None, pose=Pose.from_rpy((0, 0, 3), (0.5, 0.2, 0)))]
    world = World(name="yard", robots=[first, second], shapes=[ground], lights=lights)
    world.frames = [Frame(name="gate", link=None, pose=Pose.translation((1, 2, 3)))]
    world.gravity, world.options = np.array([0.0, 0.0, -1.6]), {"timestep": 0.002}
    return world


def test_a_world_comes_back(tmp_path: Path) -> None:
    """Robots, scenery, light, gravity, time step and frames; two robots of one name are told apart."""
    world = _world()
    written = Written.make(world, tmp_path)
    libsdformat_accepts(written)
    again = kinema.read(written.file)
    assert isinstance(again, World)
    assert [r.name for r in again.robots] == ["box", "box_1", "scenery"]
    assert again.robots[2].static
    np.testing.assert_allclose(again.robots[1].pose.position, [0, 0, 1])
    assert again.gravity is not None
    np.testing.assert_array_equal(again.gravity, [0, 0, -1.6])
    assert again.options["timestep"] == 0.002
    assert again.lights[0].pose.is_close(world.lights[0].pose)
    assert again.frames[0].pose.is_close(world.frames[0].pose)
    assert "scenery" in written.losses("ground")[0]


def test_a_robot_without_links_is_refused_and_options_are_checked(tmp_path: Path) -> None:
    """One sentence that names the file, and nothing is left behind."""
    with pytest.raises(WriteError, match=r"robot\.sdf: .*has no links"):
        Written.make(Robot(name="r"), tmp_path)
    with pytest.raises(WriteError, match=r"robot\.sdf: the option 'version' is '1\.2'"):
        Written.make(Robot(name="r"), tmp_path, version="1.2")
    assert not list(tmp_path.iterdir())


def test_it_is_found_by_its_suffix(tmp_path: Path) -> None:
    """`kinema.write` knows the format, and writes the same text every time."""
    robot = Robot(name="r", links=[_link("a", Shape(name="s", geometry=Box(np.full(3, 0.1))))])
    kinema.write(robot, tmp_path / "a.sdf")
    kinema.write(robot, tmp_path / "b.sdf")
    text = (tmp_path / "a.sdf").read_text(encoding="utf-8")
    assert text == (tmp_path / "b.sdf").read_text(encoding="utf-8")
    assert re.search(r"<size>0\.1 0\.1 0\.1</size>", text)
