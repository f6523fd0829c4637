"""Which kinds of shapes touch, and how that is found out."""

from __future__ import annotations

from .box_box import box_box
from .boxes import sphere_box
from .capsule_box import capsule_box
from .capsules import capsule_capsule, sphere_capsule
from .cones import sphere_cone
from .convex_pairs import convex_pairs
from .cylinders import sphere_cylinder
from .ellipsoids import sphere_ellipsoid
from .field_pairs import FIELD_PAIRS
from .plane import plane_box, plane_capsule, plane_cone, plane_cylinder, plane_ellipsoid, plane_sphere
from .solid import PairKind
from .spheres import sphere_sphere

FORMULAS: dict[tuple[str, str], PairKind] = {
    ("plane", "sphere"): PairKind(plane_sphere, 1),
    ("plane", "capsule"): PairKind(plane_capsule, 2),
    ("plane", "ellipsoid"): PairKind(plane_ellipsoid, 1),
    ("plane", "cylinder"): PairKind(plane_cylinder, 4),
    ("plane", "cone"): PairKind(plane_cone, 4),
    ("plane", "box"): PairKind(plane_box, 4),
    ("sphere", "sphere"): PairKind(sphere_sphere, 1),
    ("sphere", "capsule"): PairKind(sphere_capsule, 1),
    ("sphere", "ellipsoid"): PairKind(sphere_ellipsoid, 1),
    ("sphere", "cylinder"): PairKind(sphere_cylinder, 1),
    ("sphere", "cone"): PairKind(sphere_cone, 1),
    ("sphere", "box"): PairKind(sphere_box, 1),
    ("capsule", "capsule"): PairKind(capsule_capsule, 2),
    ("capsule", "box"): PairKind(capsule_box, 2),
    ("box", "box"): PairKind(box_box, 8),
}
"""By their kinds, in the order of `SHAPE_KINDS`."""

_PAIRS = {several: {**convex_pairs(several=several), **FIELD_PAIRS, **FORMULAS} for several in (True, False)}


def pairs_of(*, several: bool) -> dict[tuple[str, str], PairKind]:
    """Likewise, with the general search where there is no formula, and bodies with hollows.

    Args:
        several: whether that search is for all points, or for the deepest only.
    """
    return _PAIRS[several]
