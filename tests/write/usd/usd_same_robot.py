"""Whether two descriptions are of the same robot, part by part."""

from __future__ import annotations

import math

import numpy as np

from kinema.description import Axis, ConstraintKind, Inertial, Joint, Link, Mesh, Robot, Shape, tessellate
from kit.robots.same import assert_same_motion, assert_same_pose, colliding_links

TIGHT = 1e-9


def assert_same_robot(
    a: Robot, b: Robot, *, tolerance: float = TIGHT, collisions: bool = True, shape_names: bool = True
) -> None:
    """Same links, joints, shapes, motion and, by its own rules, collisions."""
    assert b.name == a.name
    assert [x.name for x in b.links] == [x.name for x in a.links]
    assert [x.name for x in b.joints] == [x.name for x in a.joints]
    for one, other in zip(a.links, b.links, strict=True):
        assert_same_link(one, other, tolerance)
        if shape_names:
            assert [s.name for s in other.shapes] == [s.name for s in one.shapes]
    for one, other in zip(a.joints, b.joints, strict=True):
        assert_same_joint(one, other, tolerance)
    assert_same_motion(a, b, tolerance, 3)
    if collisions:
        assert colliding_links(b) == colliding_links(a)
    assert b.base is a.base or b.base.value in ("free", "unspecified")
    kinds = {k.value for k in (ConstraintKind.CONNECT, ConstraintKind.WELD, ConstraintKind.DISTANCE)}
    carried = [sorted(c.kind.value for c in x.constraints if c.kind.value in kinds) for x in (a, b)]
    assert carried[0] == carried[1]


def assert_same_link(a: Link, b: Link, tolerance: float) -> None:
    assert (a.kinematic, a.starts_asleep, a.name_is_generated) == (b.kinematic, b.starts_asleep, b.name_is_generated)
    assert a.continuous_collision == b.continuous_collision
    _same_inertial(a.inertial, b.inertial, tolerance, a.name)
    np.testing.assert_allclose(b.linear_velocity, a.linear_velocity, atol=tolerance)
    np.testing.assert_allclose(b.angular_velocity, a.angular_velocity, atol=tolerance)
    np.testing.assert_allclose(b.gravity_scale, a.gravity_scale, atol=tolerance)
    for one, other in zip(a.shapes, b.shapes, strict=True):
        assert_same_shape(one, other, tolerance)


def _same_inertial(a: Inertial | None, b: Inertial | None, tolerance: float, name: str) -> None:
    assert (a is None) == (b is None), name
    if a is not None and b is not None:
        assert math.isclose(b.mass, a.mass, rel_tol=tolerance)
        np.testing.assert_allclose(b.center, a.center, atol=tolerance)
        np.testing.assert_allclose(b.inertia, a.inertia, atol=tolerance * max(1.0, float(np.abs(a.inertia).max())))


def assert_same_shape(a: Shape, b: Shape, tolerance: float) -> None:
    """The same solid in the same place, of the same kind where it is no mirrored mesh."""
    assert b.kind == a.kind
    enabled = a.enabled and (bool(a.contype or a.conaffinity) or not a.collision)
    assert (b.visual, b.collision, b.enabled) == (a.visual, a.collision, enabled or not a.collision)
    one, other = tessellate(a.geometry), tessellate(b.geometry)
    assert (one is None) == (other is None)
    if one is not None and other is not None:
        np.testing.assert_allclose(b.pose.apply(other.vertices), a.pose.apply(one.vertices), atol=tolerance)
        if not isinstance(a.geometry, Mesh):
            assert_same_pose(a.pose, b.pose, 2 * tolerance, a.name)
        np.testing.assert_array_equal(other.faces, one.faces)
    if isinstance(a.geometry, Mesh) and isinstance(b.geometry, Mesh):
        assert b.geometry.approximation is a.geometry.approximation
    if a.surface is not None:
        assert b.surface is not None
        for field in ("static_friction", "dynamic_friction", "restitution"):
            assert getattr(b.surface, field) == getattr(a.surface, field) or math.isclose(
                getattr(b.surface, field), getattr(a.surface, field), rel_tol=tolerance
            )
    if a.material is not None and a.material.color is not None:
        assert b.material is not None
        assert b.material.color is not None
        assert b.material.name == a.material.name
        np.testing.assert_allclose(b.material.color, a.material.color, rtol=1e-6)


def assert_same_joint(a: Joint, b: Joint, tolerance: float) -> None:
    what = f"{a.kind.value} {a.name!r}"
    assert (b.kind, b.parent, b.child) == (a.kind, a.parent, a.child), what
    if not a.stacked:
        assert_same_pose(a.parent_pose, b.parent_pose, 2 * tolerance, what)
    assert_same_pose(a.child_pose, b.child_pose, 2 * tolerance, what)
    assert (b.enabled, b.closes_loop, b.stacked, b.implicit) == (a.enabled, a.closes_loop, a.stacked, a.implicit), what
    assert len(b.axes) == len(a.axes), what
    for one, other in zip(a.axes, b.axes, strict=True):
        _same_axis(one, other, tolerance, what)
    np.testing.assert_allclose(
        [b.pitch, b.break_force, b.break_torque], [a.pitch, a.break_force, a.break_torque], rtol=tolerance
    )
    if a.kind.value == "distance":
        np.testing.assert_allclose(b.distance, a.distance, rtol=tolerance)
    assert (a.cone is None) == (b.cone is None), what
    if a.cone is not None and b.cone is not None:
        assert (b.cone.axis, b.cone.total) == (a.cone.axis, a.cone.total)
        np.testing.assert_allclose([b.cone.angle_y, b.cone.angle_z], [a.cone.angle_y, a.cone.angle_z], rtol=tolerance)


_AXIS_NUMBERS = (
    *("lower", "upper", "velocity", "effort", "acceleration", "reference", "stiffness", "spring_reference"),
    *("damping", "friction", "armature"),
)


def _same_axis(a: Axis, b: Axis, tolerance: float, what: str) -> None:
    assert (b.motion, b.locked) == (a.motion, a.locked), what
    np.testing.assert_allclose(b.direction, a.direction, atol=tolerance, err_msg=what)
    for field in _AXIS_NUMBERS:
        np.testing.assert_allclose(
            getattr(b, field), getattr(a, field), rtol=tolerance, atol=tolerance, err_msg=f"{what}: {field}"
        )
    assert (a.drive is None) == (b.drive is None), what
    if a.drive is not None and b.drive is not None:
        assert b.drive.type is a.drive.type
        for field in ("stiffness", "damping", "target_position", "target_velocity", "max_force"):
            np.testing.assert_allclose(getattr(b.drive, field), getattr(a.drive, field), rtol=tolerance, err_msg=what)
    assert (a.mimic is None) == (b.mimic is None), what
    if a.mimic is not None and b.mimic is not None:
        assert b.mimic.joint == a.mimic.joint
        np.testing.assert_allclose(b.mimic.multiplier, a.mimic.multiplier, rtol=tolerance)
        expected = a.mimic.offset - a.mimic.multiplier * a.mimic.reference
        np.testing.assert_allclose(b.mimic.offset, expected, atol=tolerance)
