"""Nothing is lost silently: what a description says is in the file, or the report names it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import kinema
from kinema.description import Axis, CollisionRules, Joint, JointKind, Link, Mesh, Node, Robot, Shape, VisualMaterial
from kit.written.urdf import Written, check_urdf

from .urdf_differences import differences
from .urdf_full_robot import full_robot

OTHERWISE = {
    "Node.name_is_generated": "every element of URDF has a name",
    "Node.origin": "where it was read from is no part of it",
    "Robot.format": "where it was read from is no part of it",
    "Robot.source": "where it was read from is no part of it",
    "Robot.diagnostics": "where it was read from is no part of it",
    "Robot.pose": "the joint to the link `world`",
    "Robot.base": "the joint to the link `world`",
    "Robot.root": "the order of the tree",
    "Robot.links": "each by itself",
    "Robot.joints": "each by itself",
    "Robot.collision": "each rule by itself",
    "Link.shapes": "each by itself",
    "Link.nested_in": "the order of the tree",
    "Shape.geometry": "each by itself",
    "Shape.material": "each by itself",
    "Shape.visual": "a shape that is both is written as one of each",
    "Shape.collision": "a shape that is both is written as one of each",
    "Joint.kind": "see the tests of joints",
    "Joint.parent": "see the tests of joints",
    "Joint.child": "see the tests of joints",
    "Joint.axes": "each by itself",
    "Joint.parent_pose": "the links are where they were: see the random robots",
    "Joint.child_pose": "the links are where they were: see the random robots",
    "Joint.implicit": "the order of the tree",
    "Joint.pitch": "a following joint: see the tests of joints",
    "Axis.direction": "the links are where they were: see the random robots",
    "Axis.reference": "the links are where they were: see the random robots",
    "Axis.locked": "a joint without this axis",
    "Mesh.vertices": "a mesh file: see the tests of shapes",
    "Mesh.faces": "a mesh file: see the tests of shapes",
    "Mesh.scale": "a mesh file: see the tests of shapes",
}
"""What need not come back as it was, and why nothing is lost."""
WORDS = {
    "VisualMaterial.texture_mapping": "placement of its texture",
    "Node.name": "chain",
    "Axis.motion": "chain",
    "Robot.static": "never moves",
    "Robot.options": "settings",
    "CollisionRules.groups": "group",
    "CollisionRules.pairs": "never collide",
    "CollisionRules.self_collide": "do not collide",
    "CollisionRules.neighbours_collide": "may collide",
    "Link.inertial_is_computed": "computed",
    "Link.enabled": "disabled",
    "Link.kinematic": "moved by the user",
    "Link.starts_asleep": "asleep",
    "Link.continuous_collision": "along its motion",
    "Link.gravity_scale": "gravity",
    "Link.self_collide": "collides",
    "Link.linear_velocity": "velocity",
    "Link.angular_velocity": "velocity",
    "Link.pose": "shown",
    "Shape.enabled": "disabled",
    "Joint.initial": "starts",
    "Joint.state": "shown",
    "Joint.stacked": "several joints",
    "Joint.enabled": "disabled",
    "Joint.closes_loop": "loop",
    "Joint.collision_enabled": "may collide",
    "Joint.break_force": "force",
    "Joint.break_torque": "torque",
    "Axis.mimic": "follows",
    "Axis.stiffness": "spring",
    "Axis.spring_reference": "spring",
    "Axis.limit_solver": "solver parameters of its limits",
    "Axis.friction_solver": "solver parameters of its friction",
    "VisualMaterial.maps": "normal map",
    "Mesh.approximation": "approximation",
    "Mesh.max_hull_vertices": "hull",
    "Mesh.submesh": "part",
    "Mesh.center_submesh": "part",
}
"""How the report calls a field, where it is not by its name."""


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """The file of a robot that has everything."""
    return Written.make(full_robot(), tmp_path_factory.mktemp("full"))


def _parts(robot: Robot) -> Iterator[tuple[str, Any]]:
    """Every part of a robot, with the name of the node it belongs to."""
    yield robot.name, robot
    yield robot.name, robot.collision
    for link in robot.links:
        yield link.name, link
        for shape in link.shapes:
            yield shape.name, shape
            if isinstance(shape.geometry, Mesh):
                yield shape.name, shape.geometry
            if shape.material is not None:
                yield shape.material.name, shape.material
    for joint in robot.joints:
        yield joint.name, joint
        for axis in joint.axes:
            yield joint.name, axis


def _set_fields(part: Any) -> Iterator[str]:
    """The fields of a part that are not what they are when nothing is said."""
    for field in dataclasses.fields(part):
        if field.default is not dataclasses.MISSING:
            default: Any = field.default
        elif field.default_factory is not dataclasses.MISSING:
            default = field.default_factory()
        else:
            yield field.name  # it must be given
            continue
        if list(differences(default, getattr(part, field.name))):
            yield field.name


def _key(part: Any, field: str) -> str:
    own = f"{type(part).__name__}.{field}"
    inherited = isinstance(part, Node) and field in {f.name for f in dataclasses.fields(Node)}
    return f"Node.{field}" if inherited else own


def test_the_robot_has_everything() -> None:
    """No field of any part is at its default everywhere: a new one has to be thought of here too."""
    robot = full_robot()
    seen = {_key(part, field) for _, part in _parts(robot) for field in _set_fields(part)}
    for kind in (Robot, Link, Shape, VisualMaterial, Joint, Axis, Mesh, CollisionRules):
        sample = next(part for _, part in _parts(robot) if type(part) is kind)
        missing = {_key(sample, f.name) for f in dataclasses.fields(kind)} - seen
        files = {"VisualMaterial.texture", "Mesh.uri", "Mesh.path", "Mesh.appearance"}  # see other tests
        files |= {"VisualMaterial.mean_texture_color", "Mesh.projection"}  # of textures
        assert missing <= {*files, "Node.order", "Mesh.sdf_resolution"}  # that is said of meshes in scenes alone


def test_every_field_comes_back_or_is_named(written: Written) -> None:
    """Each field that is set is read again from the file, or the report names its node and says which field it is."""
    again = kinema.read(written.file)
    assert isinstance(again, Robot)
    found = [(name, part) for name, part in _parts(again)]
    lost: list[str] = []
    for name, part in _parts(written.robot):
        for field in _set_fields(part):
            key = _key(part, field)
            same = (p for n, p in found if n == name and type(p) is type(part))
            if key in OTHERWISE or any(not list(differences(getattr(p, field), getattr(part, field))) for p in same):
                continue
            words = WORDS.get(key, field if field not in ("extras", "attributes") else "settings of its own format")
            dropped = (f"the {part.kind.value} joint" if isinstance(part, Joint) else "the shape",)
            if not any(w in loss for loss in _said_of(written, name, part, field) for w in (words, *dropped)):
                lost.append(f"{key} of {name}: {written.losses(name)}")
    assert not lost, "\n".join(lost)


def _said_of(written: Written, name: str, part: Any, field: str) -> list[str]:
    """What the report says of a part; of lists, what it says of each item."""
    value = getattr(part, field)
    if isinstance(value, list) and all(isinstance(x, Node) or hasattr(x, "name") for x in value):
        said = [written.losses(item.name) for item in value]
        assert all(said), f"{field}: {said}"
        return [" ".join([field, *s]) for s in said]
    return written.losses(name)


def test_the_file_of_everything_is_a_good_one(written: Written) -> None:
    """With all that, ROS finds no fault."""
    check_urdf(written.file)


def test_what_is_dropped_is_not_in_the_file(written: Written) -> None:
    """Joints that are no part of the tree, and shapes that are off."""
    again = kinema.read(written.file)
    assert not {"loop", "disabled", "dangling"} & {j.name for j in again.joints}
    assert not {"off", "neither"} & {s.name for link in again.links for s in link.shapes}


def test_the_report_names_pairs_of_links_that_collide_otherwise(tmp_path: Path) -> None:
    """Self-collision is off in the description, which URDF cannot say."""
    robot = full_robot()
    robot.links[2].shapes = [Shape(name="s", geometry=robot.links[1].shapes[1].geometry)]
    robot.links[4].shapes = [Shape(name="t", geometry=robot.links[1].shapes[1].geometry)]
    written = Written.make(robot, tmp_path)
    assert any('it may collide with "finger" here' in x for x in written.losses("wrist"))


def test_a_plain_robot_loses_nothing(tmp_path: Path) -> None:
    """The report of a robot that is all URDF is empty."""
    robot = Robot(name="plain", links=[Link(name="a"), Link(name="b")])
    robot.joints = [Joint(name="j", kind=JointKind.FIXED, parent="a", child="b")]
    assert list(Written.make(robot, tmp_path).report) == []
