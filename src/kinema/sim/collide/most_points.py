"""How many contacts two kinds of shapes make at most: what memory is planned by before anything is traced."""

from __future__ import annotations

from functools import cache

from kinema.model import SHAPE_KINDS

OF_FACES = 8
"""Of two convex shapes whose faces or edges meet, beside the deepest point."""
OF_PLANE_AND_MESH = 4
OF_TERRAIN = 50
"""As many as MuJoCo makes of one height field and one shape."""
WAYS = 6
"""Of a distance field: normals are told apart by the axis, and its side, that they are nearest to."""
SLOTS = 5
"""Points that are kept for each of these: the deepest, and the farthest in four directions across the normal."""
OF_FIELD = WAYS * SLOTS
CONVEX = ("sphere", "capsule", "ellipsoid", "cylinder", "cone", "box", "mesh")
FACETED = ("capsule", "cylinder", "cone", "box", "mesh")
"""Kinds that can touch with more than a point; the others are round everywhere."""
FIELD = "distance field"
FORMULAS = {
    ("plane", "sphere"): 1,
    ("plane", "capsule"): 2,
    ("plane", "ellipsoid"): 1,
    ("plane", "cylinder"): 4,
    ("plane", "cone"): 4,
    ("plane", "box"): 4,
    ("sphere", "sphere"): 1,
    ("sphere", "capsule"): 1,
    ("sphere", "ellipsoid"): 1,
    ("sphere", "cylinder"): 1,
    ("sphere", "cone"): 1,
    ("sphere", "box"): 1,
    ("capsule", "capsule"): 2,
    ("capsule", "box"): 2,
    ("box", "box"): 8,
}
"""Of pairs that a formula is known for."""


@cache
def most_points(*, several: bool) -> dict[tuple[str, str], int]:
    """By kinds, in the order of `SHAPE_KINDS`; kinds that are not among them pass through each other.

    Args:
        several: whether the general search for convex shapes is for all points, or for the deepest only.
    """
    found = {("plane", "mesh"): OF_PLANE_AND_MESH, **{("height field", kind): OF_TERRAIN for kind in CONVEX}}
    convex = [kind for kind in SHAPE_KINDS if kind in CONVEX]
    for i, first in enumerate(convex):
        for second in convex[i:]:
            found[first, second] = OF_FACES + 1 if several and {first, second} <= set(FACETED) else 1
    found |= {(kind, FIELD): OF_FIELD for kind in ("plane", "height field", *CONVEX, FIELD)}
    return {**found, **FORMULAS}
