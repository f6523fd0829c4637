"""Derivatives of wrenches by twists: 6x6 matrices in blocks, their transformation, and symmetric and other parts."""

from __future__ import annotations

from dataclasses import dataclass

from ..vector_math import Matrix, Vector, add, matmul, matrix_add, matrix_scale, rotate, skew, transpose
from .aba import ArticulatedInertia, pack_symmetric
from .kinematics import Twist
from .rnea import Wrench


@dataclass(frozen=True, slots=True)
class WrenchDerivative:
    """Derivative of a wrench by a twist: a 6x6 matrix in four 3x3 blocks."""

    torque_by_angular: Matrix
    torque_by_linear: Matrix
    force_by_angular: Matrix
    force_by_linear: Matrix


ZERO_MATRIX: Matrix = ((0.0,) * 3,) * 3
ZERO_DERIVATIVE = WrenchDerivative(ZERO_MATRIX, ZERO_MATRIX, ZERO_MATRIX, ZERO_MATRIX)


def transform_derivative(derivative: WrenchDerivative, rotation: Matrix, position: Vector) -> WrenchDerivative:
    """Transform a wrench derivative from a body's axes and origin to a frame, given the body's pose in the frame."""
    arm, inverse = skew(position), transpose(rotation)
    torque_angular, torque_linear, force_angular, force_linear = (
        matmul(matmul(rotation, x), inverse)
        for x in (
            derivative.torque_by_angular,
            derivative.torque_by_linear,
            derivative.force_by_angular,
            derivative.force_by_linear,
        )
    )
    force_by_angular = _matrix_subtract(
        force_angular, matmul(force_linear, arm)
    )  # a rotation of the frame moves the point by omega x position
    return WrenchDerivative(
        matrix_add(_matrix_subtract(torque_angular, matmul(torque_linear, arm)), matmul(arm, force_by_angular)),
        matrix_add(torque_linear, matmul(arm, force_linear)),
        force_by_angular,
        force_linear,
    )


def subtract_derivatives(a: WrenchDerivative, b: WrenchDerivative) -> WrenchDerivative:
    """Difference of two wrench derivatives."""
    return WrenchDerivative(
        _matrix_subtract(a.torque_by_angular, b.torque_by_angular),
        _matrix_subtract(a.torque_by_linear, b.torque_by_linear),
        _matrix_subtract(a.force_by_angular, b.force_by_angular),
        _matrix_subtract(a.force_by_linear, b.force_by_linear),
    )


def symmetric_part(derivative: WrenchDerivative) -> ArticulatedInertia:
    """Symmetric part of a wrench derivative, in the form of an articulated inertia."""
    coupling = matrix_scale(0.5, matrix_add(derivative.torque_by_linear, transpose(derivative.force_by_angular)))
    return ArticulatedInertia(
        pack_symmetric(_symmetrize(derivative.torque_by_angular)),
        coupling,
        pack_symmetric(_symmetrize(derivative.force_by_linear)),
    )


def antisymmetric_part(derivative: WrenchDerivative) -> WrenchDerivative:
    """Antisymmetric part of a wrench derivative."""
    coupling = matrix_scale(0.5, _matrix_subtract(derivative.torque_by_linear, transpose(derivative.force_by_angular)))
    return WrenchDerivative(
        matrix_scale(0.5, _matrix_subtract(derivative.torque_by_angular, transpose(derivative.torque_by_angular))),
        coupling,
        matrix_scale(-1.0, transpose(coupling)),
        matrix_scale(0.5, _matrix_subtract(derivative.force_by_linear, transpose(derivative.force_by_linear))),
    )


def apply_derivative(derivative: WrenchDerivative, twist: Twist) -> Wrench:
    """Change of the wrench for a change of the twist: the matrix-vector product."""
    return Wrench(
        add(rotate(derivative.torque_by_angular, twist.angular), rotate(derivative.torque_by_linear, twist.linear)),
        add(rotate(derivative.force_by_angular, twist.angular), rotate(derivative.force_by_linear, twist.linear)),
    )


def _symmetrize(a: Matrix) -> Matrix:
    return matrix_scale(0.5, matrix_add(a, transpose(a)))


def _matrix_subtract(a: Matrix, b: Matrix) -> Matrix:
    return matrix_add(a, matrix_scale(-1.0, b))
