"""Nothing is lost silently: every field that is set comes back from the file, or the report names it."""

from __future__ import annotations

import dataclasses
import enum
import inspect
import math
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Pose, collect
from kinema.description import Constraint, Joint, JointKind, Light, Node, Robot, Shape, World, tessellate
from kinema.read import read
from kinema.write.loss_report import LossReport
from kit.written.mjcf import assert_collisions, assert_joints, assert_masses, assert_poses, random_coordinates, write

from .full_description import full_world

IGNORED = {
    # what a description is, not what it says
    *("origin", "name_is_generated", "diagnostics", "source", "format", "uri", "path", "nested_in"),
    # frames of a joint: its point and axis are compared
    *("parent_pose", "child_pose", "direction"),
    # where the tree begins follows from the joints
    "root",
    # who may collide: the pairs themselves are compared
    *("collision_enabled", "self_collide", "contype", "conaffinity"),
}
WORDS: dict[tuple[str, str], str] = {
    # (node, field) -> words of the loss that stands for it
    ("World", "options"): "option",
    ("Robot", "name"): "name",
    ("Robot", "base"): "base",
    ("Robot", "pose"): "base",
    ("Link", "inertial"): "",
    ("Link", "inertial_is_computed"): "computed",
    ("Link", "density"): "density",
    ("Link", "starts_asleep"): "how it sleeps",
    ("Link", "continuous_collision"): "along its motion",
    ("Link", "kinematic"): "moved by the user",
    ("Link", "enabled"): "switched off",
    ("Link", "linear_velocity"): "velocity",
    ("Link", "angular_velocity"): "velocity",
    ("Shape", "geometry"): "",
    ("Shape", "enabled"): "switched off",
    ("Shape", "collision"): "switched off",
    ("Joint", "kind"): "joint",
    ("Joint", "axes"): "",
    ("Joint", "break_force"): "breaks",
    ("Joint", "break_torque"): "breaks",
    ("Joint", "pitch"): "screw",
    ("Joint", "cone"): "cone",
    ("Joint", "distance"): "distance",
    ("Joint", "child"): "closes a loop",
    ("Joint", "closes_loop"): "closes a loop",
    ("Constraint", "solver"): "margin",
    ("Camera", "clip"): "near and far",
    ("Sensor", "pose"): "pose",
}


def test_every_field_comes_back_or_is_reported(tmp_path: Path) -> None:
    """A walk over a description that has everything."""
    world = full_world()
    written = write(world, tmp_path)
    again = read(written.path, policy=collect)
    assert isinstance(again, World)
    problems = list(_walk(world, again, written.report))
    assert problems == []


def test_it_is_the_same_robot(tmp_path: Path) -> None:
    """The same description is where it should be, too."""
    written = write(full_world(), tmp_path)
    assert_poses(written, random_coordinates(written, np.random.default_rng(0)))
    assert_masses(written)
    assert_joints(written)
    assert_collisions(written)


# -- the walk ---------------------------------------------------------------------------------------------------------

LISTS = (
    "links",
    "joints",
    "constraints",
    "actuators",
    "tendons",
    "sensors",
    "frames",
    "cameras",
    "lights",
    "keyframes",
)


def _walk(world: World, again: World, report: LossReport) -> Iterator[str]:
    found = {(type(n).__name__, n.name): n for n in _nodes(again)}
    for node in _nodes(world):
        kind = type(node).__name__
        other = found.get((kind, node.name))
        if other is None:
            if not _reported(report, node, ""):
                yield f"{kind} {node.name!r} is not in the file, and not in the report"
            continue
        for field in dataclasses.fields(node):
            if field.name in IGNORED or (kind == "Link" and field.name == "pose"):
                continue
            one: Any = getattr(node, field.name)
            two: Any = getattr(other, field.name)
            if isinstance(node, Light) and field.name == "pose":
                one, two = ((p.position, p.rotation[:, 2]) for p in (one, two))
            if field.name in ("geometry", "pose") and _same_solid(node, other):
                continue
            if field.name in (*LISTS, "shapes", "robots", "collision"):
                continue  # their parts are visited
            if _is_default(field, one) or _equal(one, two):
                continue
            if isinstance(node, Joint) and field.name in ("initial", "state") and _starts_alike(node, other):
                continue
            if isinstance(one, dict):
                yield from _entries(kind, node, field.name, one, two, report)
            elif field.name == "extras":
                yield from (f"{node.name}: <{e.tag}>" for e in one if not _reported(report, node, f"<{e.tag}>"))
            elif not _excused(report, node, kind, field.name, one, two):
                yield f"{kind} {node.name!r}: {field.name} is {two!r}, not {one!r}"


def _starts_alike(joint: Joint, other: Node) -> bool:
    """Whether both start at the same coordinates; MuJoCo's reference configuration says where."""
    return isinstance(other, Joint) and _equal(joint.start, other.start)


def _same_solid(a: Node, b: Node) -> bool:
    """Whether two nodes are shapes of the same triangles in the same place."""
    if not (isinstance(a, Shape) and isinstance(b, Shape)):
        return False
    meshes = [tessellate(s.geometry) for s in (a, b)]
    if any(m is None for m in meshes):
        return False
    one, two = (s.pose.apply(m.vertices) for s, m in zip((a, b), meshes, strict=True) if m is not None)
    return one.shape == two.shape and bool(np.allclose(one, two, atol=1e-6))


def _nodes(world: World) -> Iterator[Node]:
    yield world
    for home in (world, *world.robots):
        if isinstance(home, Robot):
            yield home
        for kind in LISTS[2:]:
            yield from getattr(home, kind)
    for robot in world.robots:
        yield from robot.joints
        yield from robot.links
    yield from (s for shapes in (world.shapes, *(x.shapes for x in world.links)) for s in shapes)


def _reported(report: LossReport, node: Node, words: str) -> bool:
    kind = type(node).__name__.lower()
    return any(x.kind == kind and x.name == node.name and words in x.what for x in report)


def _excused(report: LossReport, node: Node, kind: str, field: str, one: object, two: object) -> bool:
    if (kind, field) in WORDS and _reported(report, node, WORDS[kind, field]):
        return True
    if _is_equivalent(field, one, two) or _is_other_form(report, node):
        return True
    parts = {"surface", "material", "axes"}
    return field in parts and all(_part_excused(report, node, name) for name in _unequal(one, two))


def _is_equivalent(field: str, one: Any, two: Any) -> bool:
    """What the file says in other words that mean the same."""
    if isinstance(one, JointKind):
        return {one, two} == {JointKind.REVOLUTE, JointKind.CONTINUOUS}  # a hinge without limits is both
    return field in ("pose_a", "pose_b") and bool(np.allclose(one.position, two.position, atol=1e-9))


def _is_other_form(report: LossReport, node: Node) -> bool:
    """Whether it is reported that an element became another one, of which nothing is compared here."""
    if not isinstance(node, Constraint):
        return False
    split = {x.name for x in report if x.kind == "joint" and x.what.endswith("joint")}
    return _reported(report, node, f"a {node.kind.value} constraint") or bool({node.a, node.b} & split)


PART_WORDS = {
    # field of an axis, a surface or a material -> words of the loss on its joint, shape or itself
    "velocity": "velocity limit",
    "acceleration": "acceleration limit",
    "deceleration": "deceleration limit",
    "jerk": "jerk limit",
    "static_friction": "static friction",
    "dynamic_friction2": "second direction",
    "restitution": "restitution",
    "contact_stiffness": "contact stiffness",
    "contact_damping": "contact stiffness",
    "texture": "texture",
    "texture_mapping": "edges of its texture",
    "maps": "bump map",
    "clearcoat": "clearcoat",
    "clearcoat_roughness": "clearcoat",
    "opacity_threshold": "from which opacity on",
    "double_sided": "both sides",
    "emission": "light it gives off",
    "lower": "limits",
    "upper": "limits",
    "drive": None,  # an actuator: see the tests of drives
    "mimic": None,  # an equality constraint: see the tests of mimicry
    "density": None,  # the shape's own
    "name": "name of its surface",
}


def _part_excused(report: LossReport, node: Node, field: str) -> bool:
    if field not in PART_WORDS:
        return False
    words = PART_WORDS[field]
    owners = [node, getattr(node, "material", None)]
    return words is None or any(_reported(report, owner, words) for owner in owners if owner is not None)


def _unequal(one: Any, two: Any) -> Iterator[str]:
    """The fields in which two parts, or two lists of them, differ."""
    if isinstance(one, list):
        for a, b in zip(one, two, strict=True):
            yield from _unequal(a, b)
    elif not dataclasses.is_dataclass(two):
        yield f"missing {type(one).__name__}"
    else:
        for field in dataclasses.fields(one):
            a, b = getattr(one, field.name), getattr(two, field.name)
            if field.name not in IGNORED and not _is_default(field, a) and not _equal(a, b):
                yield field.name


def _entries(
    kind: str, node: Node, field: str, one: dict[str, Any], two: dict[str, Any], report: LossReport
) -> Iterator[str]:
    for name, value in one.items():
        if not _equal(value, two.get(name)) and not _named(report, node, name):
            yield f"{kind} {node.name!r}: {field}[{name!r}] is {two.get(name)!r}, not {value!r}"


def _named(report: LossReport, node: Node, name: str) -> bool:
    return any(name in x.what for x in report if x.name in (node.name, name))


def _is_default(field: dataclasses.Field[Any], value: object) -> bool:
    if field.default is not dataclasses.MISSING:
        return _equal(value, field.default)
    return field.default_factory is not dataclasses.MISSING and _equal(value, field.default_factory())


def _equal(a: Any, b: Any) -> bool:
    if isinstance(a, Pose) and isinstance(b, Pose):
        return max(a.distance(b)) < 1e-9
    if isinstance(a, enum.Enum) or isinstance(b, enum.Enum) or isinstance(a, str):
        return a == b
    if isinstance(a, np.ndarray) or isinstance(b, np.ndarray):
        one, two = (np.asarray(v) for v in (a, b))
        return one.shape == two.shape and bool(np.allclose(one, two, rtol=1e-6, atol=1e-9))
    if isinstance(a, float | int) and isinstance(b, float | int):
        return math.isclose(a, b, rel_tol=1e-6, abs_tol=1e-9)
    if isinstance(a, list | tuple) and isinstance(b, list | tuple):
        trimmed = list(b[: len(a)]) if isinstance(a, tuple) else list(b)
        return len(a) == len(trimmed) and all(_equal(x, y) for x, y in zip(a, trimmed, strict=True))
    if dataclasses.is_dataclass(a) and type(a) is type(b):
        return all(
            _equal(getattr(a, f.name), getattr(b, f.name)) for f in dataclasses.fields(a) if f.name not in IGNORED
        )
    return a == b


# -- the tests themselves ---------------------------------------------------------------------------------------------


def test_the_walk_can_fail(tmp_path: Path) -> None:
    """Without the report, everything that is not in the file is found."""
    world = full_world()
    written = write(world, tmp_path)
    again = read(written.path, policy=collect)
    assert isinstance(again, World)
    assert len(list(_walk(world, again, LossReport()))) > 30


UNSET = {
    # what is said elsewhere, or cannot be said together with the rest
    *("Node.origin", "Node.name_is_generated", "Node.order", "Extra.origin"),
    *("Assembly.format", "Assembly.source", "Assembly.diagnostics"),
    *("Link.nested_in", "Joint.stacked", "Robot.static", "Keyframe.kinematic_poses", "Actuator.length_range"),
    *("Mesh.uri", "Mesh.path", "Mesh.submesh", "Mesh.center_submesh", "HeightField.path", "Mimic.axis"),
    *("CollisionGroup.between", "CollisionGroup.invert", "CollisionGroup.merge", "CollisionPair.between"),
    *("CollisionPair.collide", "CollisionPair.surface", "CollisionPair.origin", "CollisionRules.self_collide"),
    *("CollisionRules.neighbours_collide", "Tendon.armature", "ConeLimit.total", "Constraint.gear_axis_a"),
    *("Constraint.gear_axis_b", "Axis.locked", "Camera.settings", "Light.settings"),
    *("Mesh.projection", "PbrMaterial.mean_texture_color"),  # of textures, which are said
    "Mesh.sdf_resolution",  # of meshes that are added to a scene: no file says it
    *(
        "Appearance.texture_coordinates",
        "Appearance.colors",
        "Appearance.materials",
        "Appearance.face_material_indices",
    ),
    *("TextureMapping.scale", "TextureMapping.offset", "TextureMapping.rotation", "TextureMapping.texcoord_set"),
    "Texture.mapping",
}


def test_the_description_has_everything() -> None:
    """Every field of every part of a description is set somewhere in the full one, but for those named above."""
    seen: dict[type, set[str]] = {}
    _visit(full_world(), seen, set())
    every = {f"{_owner(kind, f.name)}.{f.name}" for kind in seen for f in dataclasses.fields(kind)}
    found = {f"{_owner(kind, field)}.{field}" for kind, fields in seen.items() for field in fields}
    assert {x for x in every - found if not x.startswith("Origin.")} - UNSET == set()


def _owner(kind: type, field: str) -> str:
    """The class that declares a field."""
    return next(c.__name__ for c in reversed(kind.__mro__) if field in inspect.get_annotations(c))


def _visit(value: Any, seen: dict[type, set[str]], done: set[int]) -> None:
    if isinstance(value, list | tuple):
        for item in value:
            _visit(item, seen, done)
    elif isinstance(value, dict):
        _visit(list(value.values()), seen, done)
    elif dataclasses.is_dataclass(value) and not isinstance(value, type | Pose) and id(value) not in done:
        done.add(id(value))
        own = seen.setdefault(type(value), set())
        for field in dataclasses.fields(value):
            inner = getattr(value, field.name)
            if field.name != "diagnostics":
                _visit(inner, seen, done)
            if not _is_default(field, inner):
                own.add(field.name)
