"""What each kind of joint does, against closed forms written out by hand."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st

from kinema.core import Pose, axis_angle_to_matrix, quaternion_to_matrix
from kinema.description import (
    Joint,
    JointKind,
    can_reverse,
    free_axes,
    joint_transform,
    reverse_joint,
    rotation,
    spherical_axes,
    translation,
)

X, Y, Z = np.eye(3)
TILTED = np.array([1.0, 2.0, 2.0]) / 3
value = st.floats(-3, 3)


def joint(kind: JointKind, *axes, **settings) -> Joint:
    return Joint(name="j", kind=kind, parent="a", child="b", axes=list(axes), **settings)


def check(actual: Pose, rotation_matrix: np.ndarray, position) -> None:
    np.testing.assert_allclose(actual.rotation, rotation_matrix, atol=1e-14)
    np.testing.assert_allclose(actual.position, position, atol=1e-14)


def turn(axis, angle: float) -> np.ndarray:
    return axis_angle_to_matrix(axis, angle)


@given(value)
def test_revolute_turns_about_its_axis(q: float) -> None:
    check(joint_transform(joint(JointKind.REVOLUTE, rotation(3 * TILTED)), np.array([q])), turn(TILTED, q), [0, 0, 0])


@given(value)
def test_prismatic_slides_along_its_axis(q: float) -> None:
    check(joint_transform(joint(JointKind.PRISMATIC, translation(TILTED)), np.array([q])), np.eye(3), q * TILTED)


@given(value, value)
def test_reference_is_the_coordinate_where_the_frames_coincide(q: float, reference: float) -> None:
    moved = joint(JointKind.REVOLUTE, rotation(Z, reference=reference))
    check(joint_transform(moved, np.array([q])), turn(Z, q - reference), [0, 0, 0])


@given(value, value)
def test_cylindrical_turns_about_and_slides_along_one_line(a: float, s: float) -> None:
    j = joint(JointKind.CYLINDRICAL, rotation(TILTED), translation(TILTED))
    check(joint_transform(j, np.array([a, s])), turn(TILTED, a), s * TILTED)


@given(value)
def test_screw_travels_its_pitch_per_revolution(a: float) -> None:
    j = joint(JointKind.SCREW, rotation(TILTED), pitch=0.02)
    check(joint_transform(j, np.array([a])), turn(TILTED, a), 0.02 * a / (2 * math.pi) * TILTED)


@given(value, value)
def test_universal_second_axis_is_carried_by_the_first(a: float, b: float) -> None:
    j = joint(JointKind.UNIVERSAL, rotation(X), rotation(Y))
    check(joint_transform(j, np.array([a, b])), turn(X, a) @ turn(Y, b), [0, 0, 0])


@given(value, value, value)
def test_planar_slides_in_its_plane_then_turns(x: float, y: float, a: float) -> None:
    j = joint(JointKind.PLANAR, translation(X), translation(Y), rotation(Z))
    check(joint_transform(j, np.array([x, y, a])), turn(Z, a), [x, y, 0])


def test_spherical_takes_a_quaternion() -> None:
    q = np.array([0.5, 0.5, -0.5, 0.5])
    check(joint_transform(joint(JointKind.SPHERICAL, *spherical_axes()), q), quaternion_to_matrix(q), [0, 0, 0])


def test_free_takes_a_position_and_a_quaternion() -> None:
    q = np.array([1, 2, 3, 0.5, 0.5, -0.5, 0.5])
    check(joint_transform(joint(JointKind.FREE, *free_axes()), q), quaternion_to_matrix(q[3:]), [1, 2, 3])


@given(value, value, value)
def test_six_axis_moves_only_its_unlocked_axes(y: float, a: float, c: float) -> None:
    axes = [translation(X), translation(Y), translation(Z), rotation(X), rotation(Y), rotation(Z)]
    for i in (0, 2, 4):
        axes[i].locked = True
    j = joint(JointKind.SIX_AXIS, *axes)
    assert j.n_dofs == j.n_qs == 3
    check(joint_transform(j, np.array([y, a, c])), turn(X, a) @ turn(Z, c), [0, y, 0])


REVERSIBLE = [
    joint(JointKind.FIXED),
    joint(JointKind.REVOLUTE, rotation(TILTED, reference=0.3)),
    joint(JointKind.CONTINUOUS, rotation(X)),
    joint(JointKind.PRISMATIC, translation(TILTED)),
    joint(JointKind.CYLINDRICAL, rotation(TILTED), translation(TILTED)),
    joint(JointKind.SCREW, rotation(TILTED), pitch=-0.03),
    joint(JointKind.UNIVERSAL, rotation(X), rotation(TILTED)),
]


@pytest.mark.parametrize("original", REVERSIBLE, ids=lambda j: j.kind.value)
def test_a_reversed_joint_is_the_inverse_motion_at_the_same_coordinates(original: Joint) -> None:
    q = np.array([0.7, -0.4])[: original.n_qs]
    original.parent_pose = Pose.from_rpy([1, 2, 3], [0.1, 0.2, 0.3])
    original.child_pose = Pose.from_rpy([-1, 0, 1], [0.3, -0.2, 0.5])
    back = reverse_joint(original)
    assert (back.parent, back.child) == ("b", "a")
    reversed_q = q[::-1] if original.kind is JointKind.UNIVERSAL else q
    there = original.parent_pose @ joint_transform(original, q) @ original.child_pose.inverse()
    again = back.parent_pose @ joint_transform(back, reversed_q) @ back.child_pose.inverse()
    assert (there @ again).is_close(Pose(), 1e-14)


def test_joints_that_cannot_be_reversed_say_so() -> None:
    j = joint(JointKind.PLANAR, translation(X), translation(Y), rotation(Z))
    assert not can_reverse(j)
    with pytest.raises(ValueError, match="planar"):
        reverse_joint(j)
