"""World transforms of prims from their transform operations, with the same bits on every processor.

OpenUSD composes transforms too, but its builds for different processors round differently, and constants of compiled
programs must not depend on the machine. Each matrix is compared with OpenUSD's, which is taken where they disagree:
for perspectives, operations of an unknown type and values of the wrong one.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from itertools import permutations
from typing import Any, TypeAlias

import numpy as np

from kinema.core import Array, quaternion_to_matrix, reproducible_inverse, sine_cosine
from kinema.tokens import usd

from . import pxr
from .prim_values import PrimValues, to_floats

_TOLERANCE = 1e-9
"""Largest difference from OpenUSD's matrix, relative to the largest entry of its linear part or offset."""
_MIN_AXIS_LENGTH = 1e-10
"""Length of the imaginary part of a quaternion below which OpenUSD takes it for the identity."""

Matrix: TypeAlias = list[list[float]]
"""Affine map of column vectors: three rows of four."""

_IDENTITY: Matrix = [[1.0, 0.0, 0.0, 0.0], [0.0, 1.0, 0.0, 0.0], [0.0, 0.0, 1.0, 0.0]]


class WorldTransforms:
    """World transforms of the prims of a stage at one time code, in stage units."""

    def __init__(self, time: Any, values: PrimValues) -> None:
        self.n_differences = 0
        """Number of transforms that were taken from OpenUSD because the computed ones differ."""
        self._time = time
        self._values = values
        self._cache = pxr.UsdGeom.XformCache(time)
        self._known: dict[str, Matrix | None] = {}

    def matrix(self, prim: pxr.Prim) -> Array:
        """Local-to-world matrix of row vectors, (4, 4); raises `Tf.ErrorException` if an operation is malformed."""
        result = self._openusd_matrix(prim)
        own = self._local_to_world(prim)
        if own is not None:
            columns = np.array(own)
            difference = np.abs(columns - result[:, :3].T)
            size = np.abs(result)
            if (difference[:, :3].max() <= _TOLERANCE * size[:3].max()) and (
                difference[:, 3].max() <= _TOLERANCE * max(size[3].max(), size[:3].max())
            ):
                result[:, :3] = columns.T
                return result
        self.n_differences += bool(np.isfinite(result).all())
        return result

    def _openusd_matrix(self, prim: pxr.Prim) -> Array:
        return np.array(self._cache.GetLocalToWorldTransform(prim), np.float64)

    def _local_to_world(self, prim: pxr.Prim) -> Matrix | None:
        """Transform of a prim; None if an operation is not supported."""
        if not prim or prim.IsPseudoRoot():
            return _IDENTITY
        facts = self._values.facts(prim)
        if facts.path not in self._known:
            local: Matrix | None = _IDENTITY
            inherits = True
            if facts.kind.is_xformable and usd.XFORM_OP_ORDER in facts.authored:
                local, inherits = self._local(prim)
            parent = self._local_to_world(prim.GetParent()) if inherits else _IDENTITY
            self._known[facts.path] = None if local is None or parent is None else compose(parent, local)
        return self._known[facts.path]

    def _local(self, prim: pxr.Prim) -> tuple[Matrix | None, bool]:
        """Transform of a prim in its parent, and whether it inherits that of the parent."""
        xformable = pxr.UsdGeom.Xformable(prim)
        result = _IDENTITY
        for operation in xformable.GetOrderedXformOps():
            matrix = operation_matrix(operation, self._time)
            if matrix is None:
                return None, True
            result = compose(result, matrix)
        return result, not xformable.GetResetXformStack()


def compose(a: Matrix, b: Matrix) -> Matrix:
    """The affine map b followed by a."""
    if b is _IDENTITY:
        return a
    if a is _IDENTITY:
        return b
    result = []
    for x, y, z, offset in a:
        row = [x * p + y * q + z * r for p, q, r in zip(*b, strict=True)]
        row[3] += offset
        result.append(row)
    return result


# -- operations --------------------------------------------------------------------------------------------------------


def operation_matrix(operation: Any, time: Any) -> Matrix | None:
    """Transform of an operation; None for an unknown type or value. Operations without value do nothing."""
    value = operation.GetAttr().Get(time)
    if value is None:
        return _IDENTITY
    kind, inverse = operation.GetOpType(), operation.IsInverseOp()
    reader = _readers().get(kind)
    if reader is None:
        return None
    try:
        return reader(value, inverse)
    except (TypeError, ValueError, AttributeError, OverflowError):
        return None


def _translation(x: float, y: float, z: float, inverse: bool) -> Matrix:
    sign = -1.0 if inverse else 1.0
    return [[1.0, 0.0, 0.0, sign * x], [0.0, 1.0, 0.0, sign * y], [0.0, 0.0, 1.0, sign * z]]


def _scale(x: float, y: float, z: float, inverse: bool) -> Matrix | None:
    if inverse:
        if x == 0.0 or y == 0.0 or z == 0.0:
            return None
        x, y, z = 1.0 / x, 1.0 / y, 1.0 / z
    return [[x, 0.0, 0.0, 0.0], [0.0, y, 0.0, 0.0], [0.0, 0.0, z, 0.0]]


def _axis_rotation(axis: int, degrees: float, inverse: bool) -> Matrix:
    """Rotation about a coordinate axis; exact for quarter turns."""
    angle = math.fmod(degrees, 360.0)
    quarters = angle / 90.0
    if quarters == int(quarters):
        sine, cosine = ((0.0, 1.0), (1.0, 0.0), (0.0, -1.0), (-1.0, 0.0))[int(quarters) % 4]
    else:
        sine, cosine = sine_cosine(angle * (math.pi / 180.0))
    if inverse:
        sine = -sine
    j, k = (axis + 1) % 3, (axis + 2) % 3
    result = [list(row) for row in _IDENTITY]
    result[j][j] = result[k][k] = cosine
    result[j][k], result[k][j] = -sine, sine
    return result


def _euler_rotation(order: str, angles: list[float], inverse: bool) -> Matrix:
    """Rotations about fixed axes in an order of letters, with the angles of x, y and z [degrees]."""
    result = _IDENTITY
    for letter in order if not inverse else reversed(order):
        axis = usd.AXIS_TOKENS.index(letter)
        result = compose(_axis_rotation(axis, angles[axis], inverse), result)
    return result


def _orientation(real: float, imaginary: list[float], inverse: bool) -> Matrix:
    """Rotation of a quaternion: as in OpenUSD, its real part alone gives the angle."""
    x, y, z = imaginary
    length = math.sqrt(x * x + y * y + z * z)
    if not length > _MIN_AXIS_LENGTH:
        return _IDENTITY if math.isfinite(length) else [[math.nan] * 4] * 3
    cosine = max(-1.0, min(1.0, real))
    sine = math.sqrt((1.0 - cosine) * (1.0 + cosine)) * (-1.0 if inverse else 1.0)
    rotation = quaternion_to_matrix([cosine, sine * (x / length), sine * (y / length), sine * (z / length)])
    return [[*row, 0.0] for row in rotation.tolist()]


def _general(rows: Array, inverse: bool) -> Matrix | None:
    """A matrix of row vectors; None with a perspective, or without inverse."""
    if rows[:, 3].tolist() != [0.0, 0.0, 0.0, 1.0]:
        return None
    linear, offset = rows[:3, :3].T, rows[3, :3]
    if inverse:
        linear = reproducible_inverse(linear)
        if not np.isfinite(linear).all():
            return None
        offset = -(linear * offset).sum(axis=1)
    return [[*row, x] for row, x in zip(linear.tolist(), offset.tolist(), strict=True)]


_known_readers: dict[Any, Callable[[Any, bool], Matrix | None]] = {}


def _readers() -> dict[Any, Callable[[Any, bool], Matrix | None]]:
    """Type of an operation -> its transform from a value, inverted or not."""
    if not _known_readers:
        op = pxr.UsdGeom.XformOp
        table: dict[str, Callable[[Any, bool], Matrix | None]] = {
            "Translate": lambda v, inverse: _translation(*to_floats(v), inverse),  # type: ignore[misc]
            "TranslateX": lambda v, inverse: _translation(float(v), 0.0, 0.0, inverse),
            "TranslateY": lambda v, inverse: _translation(0.0, float(v), 0.0, inverse),
            "TranslateZ": lambda v, inverse: _translation(0.0, 0.0, float(v), inverse),
            "Scale": lambda v, inverse: _scale(*to_floats(v), inverse),  # type: ignore[misc]
            "ScaleX": lambda v, inverse: _scale(float(v), 1.0, 1.0, inverse),
            "ScaleY": lambda v, inverse: _scale(1.0, float(v), 1.0, inverse),
            "ScaleZ": lambda v, inverse: _scale(1.0, 1.0, float(v), inverse),
            "RotateX": lambda v, inverse: _axis_rotation(0, float(v), inverse),
            "RotateY": lambda v, inverse: _axis_rotation(1, float(v), inverse),
            "RotateZ": lambda v, inverse: _axis_rotation(2, float(v), inverse),
            "Orient": lambda v, inverse: _orientation(float(v.GetReal()), to_floats(v.GetImaginary()), inverse),
            "Transform": lambda v, inverse: _general(np.array(v, np.float64), inverse),
        }
        for order in map("".join, permutations(usd.AXIS_TOKENS)):
            table["Rotate" + order] = lambda v, inverse, order=order: _euler_rotation(  # type: ignore[misc]
                order, to_floats(v), inverse
            )
        _known_readers.update({getattr(op, f"Type{n}"): f for n, f in table.items() if hasattr(op, f"Type{n}")})
    return _known_readers
