"""Random robots: arbitrary link and joint frames, every kind of joint, in either direction, on any base."""

from __future__ import annotations

import math

import numpy as np
from hypothesis import strategies as st

from kinema.description import (
    Axis,
    Base,
    Inertial,
    Joint,
    JointKind,
    Link,
    Mimic,
    Robot,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.foundation import Array, Pose

KINDS = [k for k in JointKind if k not in (JointKind.DISTANCE, JointKind.FREE)]
_QUARTER = math.pi / 2
_ANGLES = st.one_of(
    st.sampled_from([0.0, _QUARTER, -_QUARTER, math.pi, _QUARTER - 1e-9, _QUARTER - 3e-13]),
    st.floats(-math.pi, math.pi),
)
_LENGTHS = st.one_of(st.just(0.0), st.floats(-2.0, 2.0))


@st.composite
def poses(draw: st.DrawFn) -> Pose:
    """Any pose; gimbal lock, and nearly so, are likely."""
    if draw(st.booleans()):
        return Pose.from_rpy([draw(_LENGTHS) for _ in range(3)], [draw(_ANGLES) for _ in range(3)])
    return draw(st.sampled_from([Pose(), Pose.translation((0.0, 0.0, 0.5)), Pose.translation((0.3, 0.0, 0.0))]))


@st.composite
def directions(draw: st.DrawFn) -> Array:
    """Any unit vector."""
    if draw(st.booleans()):
        return np.eye(3)[draw(st.integers(0, 2))] * draw(st.sampled_from([1.0, -1.0]))
    v = np.array([draw(st.floats(-1, 1)) for _ in range(3)])
    return v / np.linalg.norm(v) if np.linalg.norm(v) > 1e-3 else np.array([0.6, 0.0, 0.8])


@st.composite
def _settings(draw: st.DrawFn, axis: Axis) -> Axis:
    axis.reference = draw(st.sampled_from([0.0, 0.0, 0.7]))
    if draw(st.booleans()):
        axis.lower, axis.upper = -draw(st.floats(0, 3)), draw(st.floats(0, 3))
    if draw(st.booleans()):
        axis.effort, axis.velocity = 3.0, 4.0
    axis.damping = draw(st.sampled_from([0.0, 0.1]))
    return axis


@st.composite
def _axes(draw: st.DrawFn, kind: JointKind) -> list[Axis]:
    d = draw(directions())
    across = np.cross(d, np.eye(3)[int(np.argmin(np.abs(d)))])
    across /= np.linalg.norm(across)
    match kind:
        case JointKind.FIXED:
            return []
        case JointKind.REVOLUTE | JointKind.CONTINUOUS | JointKind.SCREW:
            axes = [rotation(d)]
        case JointKind.PRISMATIC:
            axes = [translation(d)]
        case JointKind.SPHERICAL:
            return spherical_axes()
        case JointKind.CYLINDRICAL:
            axes = [rotation(d), translation(d)]
        case JointKind.PLANAR:
            if draw(st.booleans()):
                return [translation((1, 0, 0)), translation((0, 1, 0)), rotation((0, 0, 1))]
            axes = [translation(across), translation(np.cross(d, across)), rotation(d)]
        case JointKind.UNIVERSAL:
            axes = [rotation(d), rotation(across)]
        case _:
            axes = [translation(e) for e in np.eye(3)] + [rotation(e) for e in np.eye(3)]
            for axis in axes:
                axis.locked = draw(st.booleans())
    return [draw(_settings(axis)) for axis in axes]


def body(name: str, number: int = 1) -> Link:
    """A link with a mass of its own."""
    return Link(name=name, inertial=Inertial(1.0 + number, np.array([0.1, 0.0, 0.2]), np.diag([0.2, 0.3, 0.4])))


@st.composite
def robots(draw: st.DrawFn) -> Robot:
    """A tree of links, listed and joined in any direction, now and then with several joints between two links."""
    count = draw(st.integers(2, 6))
    robot = Robot(name="random", links=[body(f"l{i}", i) for i in range(count)], root="l0")
    for i in range(1, count):
        kind = draw(st.sampled_from(KINDS))
        ends = (f"l{draw(st.integers(0, i - 1))}", f"l{i}")
        parent, child = ends if draw(st.integers(0, 2)) else ends[::-1]
        joint = Joint(name=f"j{i}", kind=kind, parent=parent, child=child)
        joint.parent_pose, joint.child_pose, joint.axes = draw(poses()), draw(poses()), draw(_axes(kind))
        joint.pitch = draw(st.sampled_from([0.0, 0.3, -2.0])) if kind is JointKind.SCREW else 0.0
        robot.joints.append(joint)
        if kind in (JointKind.REVOLUTE, JointKind.PRISMATIC) and draw(st.booleans()):
            more = Joint(name=f"j{i}b", kind=JointKind.REVOLUTE, parent=parent, child=child, stacked=True)
            more.child_pose, more.axes = draw(poses()), draw(_axes(JointKind.REVOLUTE))
            robot.joints.append(more)
    _follow(draw, robot)
    _stand(draw, robot)
    return robot


def _follow(draw: st.DrawFn, robot: Robot) -> None:
    """One joint follows another, now and then."""
    leaders = [j for j in robot.joints if j.moving_axes and j.kind is not JointKind.SPHERICAL]
    if len(leaders) > 1 and draw(st.booleans()):
        leader, follower = leaders[0], leaders[-1]
        coordinate = len(leader.moving_axes) - 1
        follower.moving_axes[0].mimic = Mimic(
            joint=leader.name, axis=coordinate, multiplier=-0.5, offset=0.2, reference=draw(st.sampled_from([0.0, 0.4]))
        )


def _stand(draw: st.DrawFn, robot: Robot) -> None:
    """On the ground, in the air, or joined to the world, somewhere."""
    robot.pose = draw(poses())
    match draw(st.integers(0, 3)):
        case 0:
            robot.base, robot.links[0].pose = draw(st.sampled_from(list(Base))), draw(poses())
        case 1:
            kind = draw(st.sampled_from(KINDS))
            joint = Joint(name="ground", kind=kind, parent=None, child="l0", axes=draw(_axes(kind)))
            joint.parent_pose, joint.child_pose = draw(poses()), draw(poses())
            robot.joints.insert(0, joint)
        case 2:
            joint = Joint(name="float", kind=JointKind.FREE, parent=None, child="l0", axes=free_axes())
            start = draw(poses())
            joint.initial = np.concatenate([start.position, start.quaternion])
            robot.joints.insert(0, joint)
