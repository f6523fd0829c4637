"""Numbers as the API of Fusion hands them out: points, matrices that invert in place, collections, vectors."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

Matrix = np.ndarray
"""Shape (4, 4), centimetres."""


class Point3D:
    """Also what the fake uses for Vector3D."""

    def __init__(self, xyz: Sequence[float] | np.ndarray) -> None:
        self.x, self.y, self.z = (float(v) for v in xyz)


class Matrix3D:
    """A matrix of its own: changing it changes nothing in the design."""

    def __init__(self, matrix: Matrix) -> None:
        self._m = np.array(matrix, dtype=float)

    def asArray(self) -> tuple[float, ...]:
        return tuple(self._m.ravel().tolist())

    def getCell(self, row: int, column: int) -> float:
        return float(self._m[row, column])

    def copy(self) -> Matrix3D:
        return Matrix3D(self._m)

    def invert(self) -> bool:
        self._m = np.linalg.inv(self._m)
        return True

    def transformBy(self, other: Matrix3D) -> bool:
        self._m = other._m @ self._m
        return True

    @property
    def translation(self) -> Point3D:
        return Point3D(self._m[:3, 3])


class Collection:
    """Has `count` and `item`, and is not iterable."""

    __iter__ = None

    def __init__(self, things: Sequence[Any]) -> None:
        self._things = list(things)

    @property
    def count(self) -> int:
        return len(self._things)

    def item(self, index: int) -> Any:
        return self._things[index] if 0 <= index < len(self._things) else None


class VectorOf:
    """Can be iterated over, and has neither `count` nor `item`."""

    def __init__(self, things: Sequence[Any]) -> None:
        self._things = list(things)

    def __iter__(self) -> Iterator[Any]:
        return iter(self._things)


class Parameter:
    """A ModelParameter."""

    def __init__(self, value: float) -> None:
        self.value = value


def turn(axis: Sequence[float] | np.ndarray, angle: float) -> Matrix:
    """A rotation, by Rodrigues' formula."""
    x, y, z = np.asarray(axis, dtype=float)
    k = np.array([[0, -z, y], [z, 0, -x], [-y, x, 0]])
    m = np.eye(4)
    m[:3, :3] = np.eye(3) + np.sin(angle) * k + (1 - np.cos(angle)) * (k @ k)
    return m


def shift(offset: Sequence[float] | np.ndarray) -> Matrix:
    """A translation."""
    m = np.eye(4)
    m[:3, 3] = offset
    return m


def inverse(m: Matrix) -> Matrix:
    """The inverse of a matrix; not by transposing, which would make rounding errors grow from drive to drive."""
    return np.linalg.inv(m)
