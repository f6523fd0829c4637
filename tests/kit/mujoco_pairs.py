"""Which geoms MuJoCo lets collide."""

from __future__ import annotations

from itertools import combinations
from typing import Any

import mujoco


def movable(model: Any, body: int) -> bool:
    """Whether a force can move the body."""
    weld = int(model.body_weldid[body])
    return weld != 0 and model.body_mocapid[weld] < 0


def mujoco_pairs(model: Any) -> set[frozenset[int]]:
    """MuJoCo's static filter, from the fields of the compiled model."""
    excluded = {(int(s) >> 16, int(s) & 0xFFFF) for s in model.exclude_signature}
    parents_touch = bool(model.opt.disableflags & int(mujoco.mjtDisableBit.mjDSBL_FILTERPARENT))

    def allowed(g: int, h: int) -> bool:
        a, b = int(model.geom_bodyid[g]), int(model.geom_bodyid[h])
        weld_a, weld_b = int(model.body_weldid[a]), int(model.body_weldid[b])
        parent_a = int(model.body_weldid[model.body_parentid[weld_a]])
        parent_b = int(model.body_weldid[model.body_parentid[weld_b]])
        if weld_a == weld_b or (a, b) in excluded or (b, a) in excluded:
            return False
        if not parents_touch and weld_a and weld_b and (weld_a == parent_b or weld_b == parent_a):
            return False
        return bool(
            model.geom_contype[g] & model.geom_conaffinity[h] or model.geom_contype[h] & model.geom_conaffinity[g]
        )

    pairs = {frozenset(p) for p in combinations(range(model.ngeom), 2) if allowed(*p)}
    pairs |= {frozenset((int(g), int(h))) for g, h in zip(model.pair_geom1, model.pair_geom2, strict=True)}
    return {p for p in pairs if any(movable(model, int(model.geom_bodyid[g])) for g in p)}
