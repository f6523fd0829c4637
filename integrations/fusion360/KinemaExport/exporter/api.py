"""Reading the API's objects: collections and vectors, properties that raise, matrices and points as lists."""

from __future__ import annotations

from typing import Any

IDENTITY = [1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0, 0.0, 1.0]


def items(collection: Any) -> list[Any]:
    """The things in a collection (`count` and `item(i)`) or a vector (only iterable); nothing for null."""
    if collection is None:
        return []
    count = getattr(collection, "count", None)
    if isinstance(count, int):
        return [collection.item(i) for i in range(count)]
    return list(collection)


def attribute(thing: Any, name: str, default: Any = None) -> Any:
    """A property; the default where it is null, where this version of Fusion has none, or where reading it raises.

    Some properties raise RuntimeError (InternalValidationError) instead of giving null: `occurrenceTwo` of a joint to
    the root component, `isSuppressed` of a rigid group.
    """
    try:
        value = getattr(thing, name)
    except (RuntimeError, AttributeError):
        return default
    return default if value is None else value


def same(a: Any, b: Any) -> bool:
    """Whether two API objects are the same entity: each access makes a new wrapper, which compares equal."""
    return a is not None and b is not None and (a is b or a == b)


def native(thing: Any) -> Any:
    """The object in its own component, of a proxy; the object itself where it is no proxy."""
    return attribute(thing, "nativeObject", thing)


def point(p: Any) -> list[float]:
    """A Point3D or Vector3D as three numbers."""
    return [float(p.x), float(p.y), float(p.z)]


def matrix(m: Any) -> list[float]:
    """A Matrix3D as 16 numbers, row by row."""
    return [float(v) for v in m.asArray()]


def frame(origin: list[float], x: list[float], y: list[float], z: list[float]) -> list[float]:
    """The matrix of a coordinate system."""
    cells: list[float] = []
    for i in range(3):
        cells += [x[i], y[i], z[i], origin[i]]
    return [*cells, 0.0, 0.0, 0.0, 1.0]


def multiply(a: list[float], b: list[float]) -> list[float]:
    """The product of two 4x4 matrices."""
    return [sum(a[4 * r + k] * b[4 * k + c] for k in range(4)) for r in range(4) for c in range(4)]


def turn(m: list[float], v: list[float]) -> list[float]:
    """A direction, turned by a matrix."""
    return [sum(m[4 * r + k] * v[k] for k in range(3)) for r in range(3)]


def place(m: list[float], p: list[float]) -> list[float]:
    """A point, placed by a matrix."""
    turned = turn(m, p)
    return [turned[r] + m[4 * r + 3] for r in range(3)]


def difference(a: list[float], b: list[float]) -> float:
    """The largest difference between two lists of numbers."""
    return max(abs(x - y) for x, y in zip(a, b))
