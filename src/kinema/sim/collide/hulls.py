"""How programs find the faces of convex meshes in the array that all of them share: see `kinema.model.hulls`."""

from __future__ import annotations

from kinema.model import FACE
from kinema.trace import Value

from ..sweeps.maths import Vector
from .solid import Hull


def normal_of(hull: Hull, face: Value) -> Vector:
    """The outward normal of a face."""
    return [hull.read(_face(hull, face) + float(i)) for i in range(3)]


def list_of(hull: Hull, face: Value) -> tuple[Value, Value]:
    """How many corners a face has, and where in the array their numbers are."""
    at = _face(hull, face)
    return hull.read(at + 3.0), hull.first + hull.read(at + 4.0)


def _face(hull: Hull, face: Value) -> Value:
    return hull.first + 3.0 * hull.n_corners + float(FACE) * face
