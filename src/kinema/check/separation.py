"""How deep two convex solids are in each other."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array, Pose

from .solids import Solid


class PlacedSolid:
    """A convex solid in the world."""

    def __init__(self, solid: Solid, pose: Pose) -> None:
        self.points = pose.apply(solid.points)
        self.normals = solid.normals @ pose.rotation.T
        self.offsets = solid.offsets + self.normals @ pose.position
        self.low = self.points.min(axis=0)
        self.high = self.points.max(axis=0)
        self.center = self.points.mean(axis=0)
        """A point inside [m], shape (3,)."""

    @property
    def is_usable(self) -> bool:
        """Whether it has an inside, and no number in it is too large to compute with."""
        return len(self.normals) > 0 and bool(np.isfinite(self.points).all()) and bool(np.isfinite(self.offsets).all())


def depth_below_plane(solid: PlacedSolid, plane: Pose) -> float:
    """How far a solid reaches below a plane through the pose's origin with normal z [m]."""
    normal = plane.rotation[:, 2]
    return float((plane.position @ normal - solid.points @ normal).max())


def penetration(a: PlacedSolid, b: PlacedSolid, negligible: float) -> float:
    """About how far one has to move to be free of the other [m]; 0 where they overlap by no more than `negligible`.

    Faces' normals and the line between the centres are tried as directions to part along: the least overlap among them
    bounds the depth from above. Where none parts the two, two edges may still pass each other: if neither centre is in
    the other solid, a linear program looks for a ball inside both.
    """
    depth = np.inf
    # the cheapest first: most pairs part along the line between their centres
    for overlap in (lambda: _overlap_along(b.center - a.center, a, b), lambda: _least_overlap(a, b)):
        depth = min(depth, overlap())
        if depth <= negligible:
            return 0.0
    depth = min(depth, _least_overlap(b, a))
    if depth <= negligible:
        return 0.0
    ball = negligible / 8
    if _holds(a, b.center, ball) or _holds(b, a.center, ball) or _common_radius(a, b) > ball:
        return depth
    return 0.0


def _holds(solid: PlacedSolid, point: Array, margin: float) -> bool:
    """Whether a point, taken from inside another solid, is inside this one too."""
    return bool((solid.normals @ point < solid.offsets - margin).all())


def _least_overlap(a: PlacedSolid, b: PlacedSolid) -> float:
    """The least overlap along the normals of a's faces."""
    return float((a.offsets - (a.normals @ b.points.T).min(axis=1)).min())


def _overlap_along(direction: Array, a: PlacedSolid, b: PlacedSolid) -> float:
    length = float(np.linalg.norm(direction))
    if length == 0:
        return np.inf
    unit = direction / length
    return float((a.points @ unit).max() - (b.points @ unit).min())


def _common_radius(a: PlacedSolid, b: PlacedSolid) -> float:
    """The radius of the largest ball inside both [m]; not positive where there is none."""
    from scipy.optimize import linprog

    # far from the origin the program would lose digits
    low, high = np.maximum(a.low, b.low), np.minimum(a.high, b.high)
    middle = (low + high) / 2
    scale = max(float((high - low).max()), 1e-9)
    rows, bounds = [], []
    for solid in (a, b):
        offsets = (solid.offsets - solid.normals @ middle) / scale
        # planes that do not cut the box in which the two may meet say nothing
        reach = np.abs(solid.normals) @ ((high - low) / 2) / scale
        cuts = offsets < reach + 1.0
        rows.append(solid.normals[cuts])
        bounds.append(offsets[cuts])
    normals, limits = np.concatenate(rows), np.concatenate(bounds)
    if not len(normals):
        return scale
    table = np.column_stack([normals, np.ones(len(normals))])
    box = [(-1.0, 1.0)] * 3 + [(-1.0, 1.0)]
    result = linprog([0.0, 0.0, 0.0, -1.0], A_ub=table, b_ub=limits, bounds=box, method="highs")
    # two solids that no ball of radius -scale fits are far apart
    return float(result.x[3]) * scale if result.status == 0 else -scale
