"""Poses and rotations, against scipy and their own laws."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given, strategies as st
from scipy.spatial.transform import Rotation

from kinema.core import (
    Pose,
    axis_angle_to_matrix,
    matrix_to_quaternion,
    matrix_to_rpy,
    quaternion_to_matrix,
    rotation_aligning_z,
    rpy_to_matrix,
    skew,
)

number = st.floats(-10, 10)
vector3 = st.tuples(number, number, number)
quaternion = st.tuples(number, number, number, number).filter(lambda q: np.linalg.norm(q) > 1e-3)
angle = st.one_of(st.floats(-7, 7), st.sampled_from([0.0, math.pi / 2, -math.pi / 2, math.pi, -math.pi]))


@st.composite
def poses(draw: st.DrawFn) -> Pose:
    return Pose.from_quaternion(draw(vector3), draw(quaternion))


@given(quaternion)
def test_quaternion_to_matrix_agrees_with_scipy(q: tuple[float, ...]) -> None:
    w, x, y, z = q
    np.testing.assert_allclose(quaternion_to_matrix(q), Rotation.from_quat([x, y, z, w]).as_matrix(), atol=1e-14)


@given(quaternion)
def test_quaternion_round_trip_up_to_sign(q: tuple[float, ...]) -> None:
    back = matrix_to_quaternion(quaternion_to_matrix(q))
    unit = np.array(q) / np.linalg.norm(q)
    assert back[0] >= 0
    assert min(np.abs(back - unit).max(), np.abs(back + unit).max()) < 1e-12


@pytest.mark.parametrize("scale", [1e-300, 1e-160, 1.0, 1e160, 1e300])
def test_quaternion_of_any_length_is_normalised(scale: float) -> None:
    """Neither tiny nor huge quaternions lose digits."""
    expected = quaternion_to_matrix([1, 2, 3, 4])
    np.testing.assert_allclose(quaternion_to_matrix(np.array([1.0, 2, 3, 4]) * scale), expected, atol=1e-14)


def test_zero_quaternion_is_the_identity() -> None:
    np.testing.assert_array_equal(quaternion_to_matrix([0, 0, 0, 0]), np.eye(3))


@given(angle, angle, angle)
def test_rpy_is_fixed_axis_xyz(roll: float, pitch: float, yaw: float) -> None:
    expected = Rotation.from_euler("xyz", [roll, pitch, yaw]).as_matrix()
    np.testing.assert_allclose(rpy_to_matrix([roll, pitch, yaw]), expected, atol=1e-14)


@given(angle, angle, angle)
def test_rpy_round_trip_gives_the_same_rotation_even_in_gimbal_lock(roll: float, pitch: float, yaw: float) -> None:
    matrix = rpy_to_matrix([roll, pitch, yaw])
    np.testing.assert_allclose(rpy_to_matrix(matrix_to_rpy(matrix)), matrix, atol=1e-9)


@given(quaternion.map(lambda q: np.array(q[1:])).filter(lambda a: np.linalg.norm(a) > 1e-3), angle)
def test_axis_angle_agrees_with_scipy(axis: np.ndarray, turn: float) -> None:
    unit = axis / np.linalg.norm(axis)
    np.testing.assert_allclose(
        axis_angle_to_matrix(unit, turn), Rotation.from_rotvec(unit * turn).as_matrix(), atol=1e-13
    )


@given(quaternion.map(lambda q: np.array(q[1:])).filter(lambda a: np.linalg.norm(a) > 1e-3))
def test_rotation_aligning_takes_z_to_the_axis(axis: np.ndarray) -> None:
    unit = axis / np.linalg.norm(axis)
    rotation = rotation_aligning_z(unit)
    np.testing.assert_allclose(rotation @ [0, 0, 1], unit, atol=1e-13)
    np.testing.assert_allclose(rotation @ rotation.T, np.eye(3), atol=1e-13)
    assert np.linalg.det(rotation) == pytest.approx(1)


@given(vector3, vector3)
def test_skew_is_the_cross_product(a: tuple[float, ...], b: tuple[float, ...]) -> None:
    np.testing.assert_allclose(skew(a) @ b, np.cross(a, b), atol=1e-12)


@given(poses(), poses())
def test_composition_is_the_product_of_matrices(a: Pose, b: Pose) -> None:
    np.testing.assert_allclose((a @ b).matrix, a.matrix @ b.matrix, atol=1e-12)


@given(poses())
def test_inverse_undoes_a_pose(a: Pose) -> None:
    assert (a @ a.inverse()).is_close(Pose(), 1e-12)
    assert (a.inverse() @ a).is_close(Pose(), 1e-12)


@given(poses(), vector3)
def test_apply_maps_points(a: Pose, point: tuple[float, ...]) -> None:
    np.testing.assert_allclose(a.apply([point])[0], (a.matrix @ [*point, 1])[:3], atol=1e-12)


@given(st.floats(1e-9, 3.1))
def test_distance_measures_small_and_large_angles(turn: float) -> None:
    metres, radians = Pose().distance(Pose(np.array([3.0, 0, 4.0]), axis_angle_to_matrix([0, 1, 0], turn)))
    assert metres == pytest.approx(5)
    assert radians == pytest.approx(turn, rel=1e-9)


@pytest.mark.parametrize("angle_", [math.nan, math.inf, -math.inf])
def test_angles_that_are_no_numbers_give_rotations_that_are_none(angle_: float) -> None:
    """No exception: where they come from is for the checks to say."""
    assert np.isnan(axis_angle_to_matrix([0, 0, 1], angle_)).all()
    assert np.isnan(rpy_to_matrix([0, angle_, 0])).all()
