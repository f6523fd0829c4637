"""Contacts of a state on both sides, in one form."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import mujoco
import numpy as np

from kinema.foundation import Array
from kinema.model import Model
from kinema.sim import Engine

from ..mjcf_side import Ints

NAMES = {
    "PLANE": "plane",
    "HFIELD": "height field",
    "SPHERE": "sphere",
    "CAPSULE": "capsule",
    "ELLIPSOID": "ellipsoid",
    "CYLINDER": "cylinder",
    "BOX": "box",
    "MESH": "mesh",
    "SDF": "distance field",
}
THEIR_KINDS = {int(getattr(mujoco.mjtGeom, f"mjGEOM_{theirs}")): ours for theirs, ours in NAMES.items()}
KIND_ORDER = list(NAMES.values())
ROUND, FLAT = ("sphere", "capsule", "ellipsoid"), ("box", "cylinder")
ANALYTIC = {
    *(frozenset(("plane", kind)) for kind in (*ROUND, *FLAT)),
    *(frozenset(("sphere", kind)) for kind in ("sphere", "capsule", "cylinder", "box")),
    *(frozenset(("capsule", kind)) for kind in ("capsule", "box")),
    frozenset(("box",)),
}
"""Pairs that both sides have formulas for, by which points are to be the same."""
Key = tuple[int, int, str, str]


@dataclass(frozen=True, slots=True)
class Touching:
    """All contacts of one state, a row each."""

    keys: list[Key]
    """MuJoCo's two bodies, smaller first, and the kinds of the two shapes."""
    point: Array
    normal: Array
    """To the body of larger number."""
    depth: Array
    force: Array
    """On that body [N]."""

    @property
    def is_analytic(self) -> bool:
        """Whether all are between shapes that both sides have formulas for."""
        return all(frozenset(key[2:]) in ANALYTIC for key in self.keys)

    def deepest(self) -> dict[Key, float]:
        """Of all contacts of two bodies and two kinds."""
        found: dict[Key, float] = {}
        for key, depth in zip(self.keys, self.depth.tolist(), strict=True):
            found[key] = max(depth, found.get(key, -np.inf))
        return found


def _made(rows: list[tuple[int, int, str, str, Array, Array, float, Array]]) -> Touching:
    keys, point, normal, depth, force = [], [], [], [], []
    for a, b, kind_a, kind_b, where, axis, deep, push in rows:
        first, second = sorted((kind_a, kind_b), key=KIND_ORDER.index)
        keys.append((min(a, b), max(a, b), first, second))
        sign = 1.0 if a <= b else -1.0
        point.append(where)
        normal.append(sign * axis)
        depth.append(deep)
        force.append(sign * push)
    shaped = [np.array(x, float).reshape(-1, 3) for x in (point, normal, force)]
    return Touching(keys, shaped[0], shaped[1], np.array(depth, float), shaped[2])


def theirs_of(model: Any, data: Any) -> Touching:
    """MuJoCo's that are not held back by a gap."""
    rows, wrench = [], np.zeros(6)
    for i in range(data.ncon):
        contact = data.contact[i]
        if contact.efc_address < 0:
            continue
        mujoco.mj_contactForce(model, data, i, wrench)
        frame = contact.frame.reshape(3, 3)
        bodies = [int(model.geom_bodyid[g]) for g in contact.geom]
        kinds = [THEIR_KINDS[int(model.geom_type[g])] for g in contact.geom]
        push = frame.T @ wrench[:3]
        rows.append((*bodies, *kinds, contact.pos.copy(), frame[0].copy(), -float(contact.dist), push))
    return _made(rows)


def ours_of(engine: Engine, model: Model, bodies: Ints, count: int) -> list[Touching]:
    """Of each environment; `bodies` are MuJoCo's numbers of our links."""
    space = engine.fields.contacts
    names = ("active", "pair", "position", "normal", "penetration", "force")
    found = {name: np.asarray(getattr(space, name).numpy(), np.float64) for name in names}
    result = []
    for env in range(count):
        rows = []
        for i in np.flatnonzero(found["active"][:, env] > 0.5).tolist():
            pair = int(found["pair"][i, env])
            geoms = [int(side[pair]) for side in (model.pairs.geom_a, model.pairs.geom_b)]
            links = [int(model.geoms.link_idx[g]) for g in geoms]
            on = [0 if link < 0 else int(bodies[link]) for link in links]
            kinds = [model.geoms.kinds[g] for g in geoms]
            vectors = [found[name][i, env] for name in ("position", "normal", "force")]
            rows.append((*on, *kinds, vectors[0], vectors[1], float(found["penetration"][i, env]), vectors[2]))
        result.append(_made(rows))
    return result


def matched(ours: Touching, theirs: Touching) -> list[int]:
    """Which of ours is which of theirs: of the same bodies and kinds, by where they are and how deep."""
    chosen: list[int] = []
    for i, key in enumerate(theirs.keys):
        far = np.abs(ours.point - theirs.point[i]).max(axis=1) + np.abs(ours.depth - theirs.depth[i])
        far += np.array([0.0 if own == key else 1e3 for own in ours.keys])
        far[chosen] = np.inf
        chosen.append(int(far.argmin()))
    return chosen
