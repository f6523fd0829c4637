"""Pairs of kinds that no formula is known for, or is not worth it: all by the same search."""

from __future__ import annotations

from functools import partial

from kinema.model import SHAPE_KINDS

from . import height_field, manifold, plane_mesh
from .convex import emit_one, meet
from .features import FEATURES
from .most_points import OF_FACES, OF_PLANE_AND_MESH, OF_TERRAIN
from .near_part import near_part
from .solid import PairKind, Solid, Work
from .support import CORES


def touch_convex(work: Work, a: Solid, b: Solid, *, kinds: tuple[str, str], several: bool) -> None:
    """Where two convex shapes touch: in one point, or in the corners of what their faces have in common.

    Of a box that is very large, a floor perhaps, only what is near the other shape matters.
    """
    cores = CORES[kinds[0]](work.recorder, a), CORES[kinds[1]](work.recorder, b)
    if kinds[0] == "box":
        a = near_part(work, a, b, cores[1].size)
    if kinds[1] == "box":
        b = near_part(work, b, a, cores[0].size)
    meeting = meet(work, kinds, a, b)
    if several:
        manifold.emit_several(work, kinds, meeting, a, b)
    else:
        emit_one(work, meeting, b)


def convex_pairs(*, several: bool) -> dict[tuple[str, str], PairKind]:
    """By their kinds, in the order of `SHAPE_KINDS`.

    Several points are made where both shapes have faces or edges, if that is wanted, as MuJoCo does with `multiccd`.
    """
    pairs = {("plane", "mesh"): PairKind(plane_mesh.plane_mesh, OF_PLANE_AND_MESH)}
    for kind in CORES:
        touch_field = partial(height_field.touch_field, kind=kind)
        pairs["height field", kind] = PairKind(touch_field, OF_TERRAIN)
    convex = [kind for kind in SHAPE_KINDS if kind in CORES]
    for i, first in enumerate(convex):
        for second in convex[i:]:
            if (first, second) in ROUND:
                continue
            many = several and first in FEATURES and second in FEATURES
            touch = partial(touch_convex, kinds=(first, second), several=many)
            pairs[first, second] = PairKind(touch, OF_FACES + 1 if many else 1)
    return pairs


ROUND = {("sphere", "sphere"), ("sphere", "capsule"), ("capsule", "capsule")}
"""Pairs whose difference has no inside but for its radius: nothing that the search could find."""
