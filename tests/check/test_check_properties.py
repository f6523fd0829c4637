"""What must hold of the rules for any robot, and for no robot at all."""

from __future__ import annotations

import copy
import dataclasses
import math
import re
import sys
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.check import check
from kinema.check.frames import fit_joint_coordinates
from kinema.check.hulls import HullCache, PlacedHull, penetration_depth
from kinema.core import Pose, Severity
from kinema.description import (
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mimic,
    Robot,
    Sphere,
    World,
    joint_transform,
    rotation,
    translation,
)

from . import shape_cases  # noqa: F401  registers its cases
from .robots_to_check import arm, codes, placed
from .rule_cases import CASES, make

ROBOT_CASES = [code for code in CASES if isinstance(make(code).bad, Robot)]
_NAMED_THINGS = ("unknown", "references.", "names.", "structure.")
"""Faults in which names are the fault."""
MOVABLE = [c for c in ROBOT_CASES if not c.startswith("structure.")]
RENAMABLE = [c for c in ROBOT_CASES if not any(word in c for word in _NAMED_THINGS)]

angles = st.floats(-math.pi, math.pi)
lengths = st.floats(-5, 5)


def poses() -> st.SearchStrategy[Pose]:
    return st.builds(Pose.from_rpy, st.tuples(lengths, lengths, lengths), st.tuples(angles, angles, angles))


# -- what must not matter ----------------------------------------------------------------------------------------------


@given(code=st.sampled_from(MOVABLE), pose=poses())
@settings(max_examples=40)
def test_where_the_robot_stands_does_not_matter(code: str, pose: Pose) -> None:
    """The codes are the same wherever the robot is put."""
    robot = make(code).bad
    before = codes(robot)
    assert isinstance(robot, Robot)
    robot.pose = pose
    assert codes(robot) == before


def _rename(described: object, change: Callable[[str], str], seen: set[int]) -> None:
    """Change every name, and every reference to one, in place."""
    if id(described) in seen or not dataclasses.is_dataclass(described):
        return
    seen.add(id(described))
    for field in dataclasses.fields(described):
        value = getattr(described, field.name)
        if field.name in ("format", "kind", "target_kind", "uri", "path", "source"):
            continue
        if isinstance(value, str) and value and type(value) is str:
            object.__setattr__(described, field.name, change(value))
        elif isinstance(value, dict):
            object.__setattr__(described, field.name, {change(k): v for k, v in value.items()})
        else:
            for item in value if isinstance(value, list) else [value]:
                _rename(item, change, seen)


@given(code=st.sampled_from(RENAMABLE), prefix=st.text("abcXYZ/ é-_0123", min_size=1, max_size=8))
@settings(max_examples=40)
def test_what_things_are_called_does_not_matter(code: str, prefix: str) -> None:
    """The codes are the same under other names, as long as they stay different."""
    robot = make(code).bad
    before = codes(robot)
    _rename(robot, lambda name: prefix + name, set())
    assert codes(robot) == before


@given(code=st.sampled_from(RENAMABLE), seed=st.integers(0, 1000))
@settings(max_examples=40)
def test_the_order_of_joints_does_not_matter(code: str, seed: int) -> None:
    """The codes are the same however the joints are listed."""
    robot = make(code).bad
    assert isinstance(robot, Robot)
    before = codes(robot)
    np.random.default_rng(seed).shuffle(robot.joints)  # type: ignore[arg-type]
    assert codes(robot) == before


@pytest.mark.wide
@pytest.mark.parametrize("code", CASES)
def test_checking_changes_nothing(code: str) -> None:
    """A second check finds the same, in the same order."""
    described = make(code).bad
    assert list(map(str, check(described))) == list(map(str, check(described)))


# -- units -------------------------------------------------------------------------------------------------------------


def _scaled(robot: Robot, factor: float) -> Robot:
    """The robot with its lengths in another unit, masses and inertias left as they are."""
    for joint in robot.joints:
        joint.parent_pose = Pose(joint.parent_pose.position * factor, joint.parent_pose.rotation)
    for link in robot.links:
        for shape in link.shapes:
            assert isinstance(shape.geometry, Box)
            shape.geometry = Box(shape.geometry.size * factor)
            shape.pose = Pose(shape.pose.position * factor, shape.pose.rotation)
        if link.inertial is not None:
            own = link.inertial
            link.inertial = Inertial(own.mass, own.center * factor, own.inertia)
    return robot


@given(factor=st.sampled_from([1000.0, 39.37, 1e-3, 1e-4]))
@settings(max_examples=30)
def test_a_wrong_unit_of_length_smells(factor: float) -> None:
    """Millimetres or inches for metres, or the reverse, are found, as warnings and not as errors."""
    found = check(_scaled(arm(), factor))
    assert {d.severity for d in found} == {Severity.WARNING}
    assert {d.code for d in found} & {"units.robot-size", "units.density", "inertia.implausible"}


@given(factor=st.floats(0.2, 5.0))
@settings(max_examples=30)
def test_a_robot_of_another_size_does_not_smell(factor: float) -> None:
    """Robots are small and large."""
    robot = _scaled(arm(), factor)
    for link in robot.links:
        if link.inertial is not None:
            own = link.inertial
            link.inertial = Inertial(own.mass * factor**3, own.center, own.inertia * factor**5)
    assert check(robot) == []


# -- inertia -----------------------------------------------------------------------------------------------------------


@given(
    points=st.lists(st.tuples(lengths, lengths, lengths), min_size=5, max_size=20, unique=True),
    turn=st.tuples(angles, angles, angles),
)
@settings(max_examples=30)
def test_what_real_masses_add_up_to_is_never_impossible(points: list, turn: tuple[float, float, float]) -> None:
    """Point masses anywhere, with a little size of their own, have a possible inertia in any frame."""
    at = Pose.from_rpy((0, 0, 0), turn).apply(np.array(points))
    at = at - at.mean(axis=0)
    second = at.T @ at + 1e-3 * np.eye(3)
    inertia = np.trace(second) * np.eye(3) - second
    robot = arm()
    robot.link("upper").inertial = Inertial(float(len(points)), np.array([0, 0, 0.1]), inertia)
    assert not codes(robot) & {"inertia.triangle", "inertia.not-positive", "inertia.not-symmetric", "inertia.zero"}


@given(
    moments=st.tuples(st.floats(1e-4, 1e-2), st.floats(1e-4, 1e-2)),
    excess=st.floats(1.02, 10),
    turn=st.tuples(angles, angles, angles),
)
@settings(max_examples=30)
def test_an_impossible_inertia_is_found_in_any_frame(
    moments: tuple[float, float], excess: float, turn: tuple[float, float, float]
) -> None:
    """The rule looks at principal moments, not at the diagonal."""
    frame = Pose.from_rpy((0, 0, 0), turn).rotation
    inertia = frame @ np.diag([*moments, sum(moments) * excess]) @ frame.T
    robot = arm()
    robot.link("upper").inertial = Inertial(0.5, np.array([0, 0, 0.1]), (inertia + inertia.T) / 2)
    assert "inertia.triangle" in codes(robot)


# -- frames ------------------------------------------------------------------------------------------------------------

_AXES = {
    JointKind.REVOLUTE: [rotation((0, 1, 1))],
    JointKind.PRISMATIC: [translation((1, 2, 3))],
    JointKind.CYLINDRICAL: [rotation((0, 0, 1)), translation((0, 0, 1))],
    JointKind.PLANAR: [translation((1, 0, 0)), translation((0, 1, 0)), rotation((0, 0, 1))],
    JointKind.UNIVERSAL: [rotation((1, 0, 0)), rotation((0, 1, 0))],
    JointKind.SCREW: [rotation((0, 1, 0))],
    JointKind.SIX_AXIS: [translation((1, 0, 0)), rotation((1, 0, 0)), rotation((0, 0, 1))],
}


@given(kind=st.sampled_from(sorted(_AXES)), values=st.lists(st.floats(-1.4, 1.4), min_size=3, max_size=3))
@settings(max_examples=30)
def test_the_nearest_motion_is_the_motion_itself_where_there_is_one(kind: JointKind, values: list[float]) -> None:
    """Whatever position a joint is in, it is recognised as one of its positions."""
    joint = Joint(name="j", kind=kind, parent="a", child="b", axes=copy.deepcopy(_AXES[kind]), pitch=0.01)
    q = np.array(values[: joint.n_qs])
    nearest = fit_joint_coordinates(joint, joint_transform(joint, q))
    assert max(nearest.position_error, nearest.angle_error) < 1e-9
    np.testing.assert_allclose(nearest.coordinates, q, atol=1e-8)


@given(pose=poses(), gap=st.floats(2e-3, 0.9))
@settings(max_examples=30)
def test_a_gap_is_measured_as_what_it_is(pose: Pose, gap: float) -> None:
    """Across a hinge the distance found is the one that was put there, wherever the robot is."""
    robot = placed(arm())
    for link in robot.links:
        assert link.pose is not None
        aside = Pose.translation((0, gap, 0)) if link.name != "base" else Pose()
        link.pose = pose @ aside @ link.pose
    (found,) = [d for d in check(robot) if d.code == "frames.disagree"]
    measured = re.search(r'"shoulder" are ([\d.]+) mm apart', found.message)
    assert measured is not None
    assert float(measured[1]) == pytest.approx(gap * 1e3, rel=6e-3)


# -- overlaps ----------------------------------------------------------------------------------------------------------

sizes = st.floats(0.02, 0.3)


def geometries() -> st.SearchStrategy[Geometry]:
    return st.one_of(
        st.builds(lambda x, y, z: Box(np.array([x, y, z])), sizes, sizes, sizes),
        st.builds(Sphere, sizes),
        st.builds(lambda x, y, z: Ellipsoid(np.array([x, y, z])), sizes, sizes, sizes),
        st.builds(Capsule, sizes, sizes),
        st.builds(Cylinder, sizes, sizes),
    )


def _mujoco_geom(geometry: Geometry, pose: Pose) -> str:
    kind, size = {
        Box: lambda g: ("box", g.size / 2),
        Sphere: lambda g: ("sphere", [g.radius]),
        Ellipsoid: lambda g: ("ellipsoid", g.radii),
        Capsule: lambda g: ("capsule", [g.radius, g.length / 2]),
        Cylinder: lambda g: ("cylinder", [g.radius, g.length / 2]),
    }[type(geometry)](geometry)
    numbers = [" ".join(map(repr, map(float, v))) for v in (size, pose.position, pose.quaternion)]
    return f'<geom type="{kind}" size="{numbers[0]}" pos="{numbers[1]}" quat="{numbers[2]}"/>'


@given(a=geometries(), b=geometries(), turn=poses(), offset=st.tuples(*[st.floats(-0.4, 0.4)] * 3))
@settings(max_examples=60)
def test_overlaps_are_those_that_mujoco_finds(
    a: Geometry, b: Geometry, turn: Pose, offset: tuple[float, float, float]
) -> None:
    """Apart or overlapping, and about how deep, as MuJoCo's exact shapes say."""
    mujoco = pytest.importorskip("mujoco")
    pose = Pose(np.array(offset), turn.rotation)
    xml = f"<mujoco><worldbody>{_mujoco_geom(a, Pose())}{_mujoco_geom(b, pose)}</worldbody></mujoco>"
    model = mujoco.MjModel.from_xml_string(xml)
    data = mujoco.MjData(model)
    mujoco.mj_kinematics(model, data)
    distance = mujoco.mj_geomDistance(model, data, 0, 1, 10.0, None)
    solids = [HullCache().convex_hull(g) for g in (a, b)]
    assert solids[0] is not None
    assert solids[1] is not None
    depth = penetration_depth(PlacedHull(solids[0], Pose()), PlacedHull(solids[1], pose), 1e-3)
    round_off = 5e-3  # round shapes are tessellated, from inside
    if distance > 1e-3:
        assert depth == 0
    elif distance < -2 * round_off:
        assert depth > 0
        # MuJoCo reports the depth along one direction, which need not be the least
        assert depth >= 0.2 * -distance - round_off


# -- anything at all ---------------------------------------------------------------------------------------------------

ODD_NUMBERS = [math.nan, math.inf, -math.inf, 0.0, -0.0, -1.0, 1e300, -1e300, 1e-300, 5e-324, 1e18]
ODD_NAMES = ["", "base", "nowhere", "world", "é ☃", "a::b", "elbow", "x" * 300]


_NAMES = {"root", "nested_in", "parent", "child", "a", "b", "link", "reference"}
"""Fields that hold a name or None."""


def _odd(value: object, draw: Callable[[st.SearchStrategy], Any]) -> object:
    """Something else that a field of the same type could hold."""
    if isinstance(value, bool):
        return not value
    if isinstance(value, float):
        return draw(st.sampled_from(ODD_NUMBERS))
    if isinstance(value, np.ndarray) and value.dtype.kind == "f":
        return np.where(draw(st.booleans()), draw(st.sampled_from(ODD_NUMBERS)), value) * np.ones_like(value)
    if type(value) is str:
        return draw(st.sampled_from(ODD_NAMES))
    if isinstance(value, list):
        return draw(st.sampled_from([[], value * 2, value[::-1], value[:1]]))
    if isinstance(value, tuple) and value and isinstance(value[0], float):
        return tuple(draw(st.sampled_from(ODD_NUMBERS)) for _ in value)
    if isinstance(value, JointKind | Mimic):
        return draw(st.sampled_from(list(JointKind))) if isinstance(value, JointKind) else None
    return value


def _holders(thing: object, found: list[object]) -> list[object]:
    if dataclasses.is_dataclass(thing) and not isinstance(thing, type):
        found.append(thing)
        for field in dataclasses.fields(thing):
            if field.name not in ("diagnostics", "origin"):
                _holders(getattr(thing, field.name), found)
    elif isinstance(thing, list | tuple):
        for item in thing:
            _holders(item, found)
    return found


@given(data=st.data(), code=st.sampled_from(sorted(CASES)))
@settings(max_examples=150)
def test_no_description_makes_a_rule_fail(data: st.DataObject, code: str) -> None:
    """NaN, infinities, huge and tiny numbers, doubled and missing parts, wrong names: findings, never a failure."""
    described = copy.deepcopy(make(code).bad)  # a copy of all: some parts are defaults that every description shares
    holders = _holders(described, [])
    for _ in range(data.draw(st.integers(1, 6))):
        holder = data.draw(st.sampled_from(holders))
        fields = [f.name for f in dataclasses.fields(holder) if f.name not in ("diagnostics", "origin", "extras")]  # type: ignore[arg-type]
        if not fields:
            continue
        name = data.draw(st.sampled_from(fields))
        value = getattr(holder, name)
        value = "" if value is None and name in _NAMES else value
        object.__setattr__(holder, name, _odd(value, data.draw))
    failures = [str(d) for d in check(described) if d.code == "check.failed"]
    assert not failures


def test_a_world_of_broken_robots_is_checked() -> None:
    """All spoiled robots together: every fault that a robot has alone is still found."""
    robots = []
    for i, code in enumerate(MOVABLE):
        robot = make(code).bad
        assert isinstance(robot, Robot)
        robot.name, robot.pose = f"robot{i}", Pose.translation((1000.0 * i, 0, 0))
        robots.append(robot)
    found = codes(World(name="hospital", robots=robots))
    # names of other robots can be referred to, so a dangling one may find a home
    assert {c for c in MOVABLE if not c.startswith("references.")} <= found


def test_long_chains_of_followers_take_no_time() -> None:
    """Each joint is looked at once, however many ways lead to it and however deep they go."""
    n = 100 + sys.getrecursionlimit()
    robot = Robot(name="centipede", links=[Link(name=f"l{i}") for i in range(n)])
    for i in range(1, n):
        axes = [rotation((1, 0, 0)), rotation((0, 1, 0))]
        for k, axis in enumerate(axes):
            axis.mimic = Mimic(joint=f"j{i - 1}", axis=k) if i > 1 else None
        joint = Joint(name=f"j{i}", kind=JointKind.UNIVERSAL, parent=f"l{i - 1}", child=f"l{i}", axes=axes)
        robot.joints.append(joint)
    assert codes(robot) == {"mimic.chain", "inertia.massless-robot"}
