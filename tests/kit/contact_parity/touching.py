"""Contacts of a state on both sides, in one form."""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array
from kinema.dynamics import Engine
from kinema.model import Model

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
class ContactLaw:
    """What the force of a contact is made of, from its first shape to its second."""

    frame: Array
    """Its normal and two directions across, by rows."""
    hard: float
    """MuJoCo's D of the normal; of pyramids that of the edges."""
    wanted: Array
    """The accelerations that it wants in these directions; of the normal alone where there is no friction."""
    jacobian: Array
    """Of these directions by degrees of freedom."""

    def turned(self) -> ContactLaw:
        """From its second shape to its first: the first direction across is the same, whichever way the normal is."""
        seen = len(self.wanted)
        ways = np.array([1.0, -1.0, 1.0])[:seen]
        frame = self.frame * np.array([-1.0, 1.0, -1.0])[:, None]
        return replace(self, frame=frame, wanted=ways * self.wanted, jacobian=ways[:, None] * self.jacobian)


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
    laws: list[ContactLaw]
    """Not turned around by the numbers of bodies."""

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


def _made(rows: list[tuple[int, int, str, str, Array, Array, float, Array, ContactLaw]]) -> Touching:
    keys, point, normal, depth, force = [], [], [], [], []
    for a, b, kind_a, kind_b, where, axis, deep, push, _ in rows:
        first, second = sorted((kind_a, kind_b), key=KIND_ORDER.index)
        keys.append((min(a, b), max(a, b), first, second))
        sign = 1.0 if a <= b else -1.0
        point.append(where)
        normal.append(sign * axis)
        depth.append(deep)
        force.append(sign * push)
    shaped = [np.array(x, float).reshape(-1, 3) for x in (point, normal, force)]
    laws = [row[-1] if row[0] <= row[1] else row[-1].turned() for row in rows]
    return Touching(keys, shaped[0], shaped[1], np.array(depth, float), shaped[2], laws)


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
        law = _their_law(model, data, contact)
        rows.append((*bodies, *kinds, contact.pos.copy(), frame[0].copy(), -float(contact.dist), push, law))
    return _made(rows)


def _their_law(model: Any, data: Any, contact: Any) -> ContactLaw:
    """From the rows of a contact: the edges of a pyramid are the normal with friction added, and taken away."""
    first, n, frame = int(contact.efc_address), int(contact.dim), contact.frame.reshape(3, 3).copy()
    elliptic = model.opt.cone == mujoco.mjtCone.mjCONE_ELLIPTIC
    count = n if n == 1 or elliptic else 2 * (n - 1)
    rows = np.column_stack([_jacobian_rows(model, data, first, count), data.efc_aref[first : first + count]])
    if n > 1 and not elliptic:
        plus, minus = rows[0:4:2], rows[1:4:2]
        rows = np.concatenate([(plus[:1] + minus[:1]) / 2, (plus - minus) / (2 * contact.friction[:2, None])])
    return ContactLaw(frame, float(data.efc_D[first]), rows[:3, -1], rows[:3, :-1])


def _jacobian_rows(model: Any, data: Any, first: int, count: int) -> Array:
    rows = np.zeros((count, model.nv))
    for i in range(count):
        unit = np.zeros(data.nefc)
        unit[first + i] = 1.0
        mujoco.mj_mulJacTVec(model, data, rows[i], unit)
    return rows


def ours_of(engine: Engine, model: Model, bodies: Ints, theirs: Any, states: list[Any]) -> list[Touching]:
    """Of each environment; `bodies` are MuJoCo's numbers of our links. How bodies move is told by MuJoCo."""
    space = engine.fields.contacts
    names = ("active", "pair", "position", "normal", "penetration", "force", "frame", "efc_D", "efc_aref")
    found = {name: np.asarray(getattr(space, name).numpy(), np.float64) for name in names}
    result = []
    for env, data in enumerate(states):
        rows = []
        for i in np.flatnonzero(found["active"][:, env] > 0.5).tolist():
            pair = int(found["pair"][i, env])
            geoms = [int(side[pair]) for side in (model.pairs.geom_a, model.pairs.geom_b)]
            links = [int(model.geoms.link_idx[g]) for g in geoms]
            on = [0 if link < 0 else int(bodies[link]) for link in links]
            kinds = [model.geoms.types[g] for g in geoms]
            vectors = [found[name][i, env] for name in ("position", "normal", "force")]
            frame, seen = found["frame"][i, env].reshape(3, 3), int(model.pairs.condim[pair] > 1) * 2 + 1
            a, b = (_moved(theirs, data, body, vectors[0]) for body in on)
            law = ContactLaw(
                frame, float(found["efc_D"][i, env]), found["efc_aref"][i, env][:seen], frame[:seen] @ (b - a)
            )
            rows.append((*on, *kinds, vectors[0], vectors[1], float(found["penetration"][i, env]), vectors[2], law))
        result.append(_made(rows))
    return result


def _moved(model: Any, data: Any, body: int, point: Array) -> Array:
    """How degrees of freedom move a point of a body."""
    found = np.zeros((3, model.nv))
    mujoco.mj_jac(model, data, found, None, point, body)
    return found


def matched(ours: Touching, theirs: Touching) -> list[int]:
    """Which of ours is which of theirs: of the same bodies and kinds, by where they are and how deep."""
    chosen: list[int] = []
    for i, key in enumerate(theirs.keys):
        far = np.abs(ours.point - theirs.point[i]).max(axis=1) + np.abs(ours.depth - theirs.depth[i])
        far += np.array([0.0 if own == key else 1e3 for own in ours.keys])
        far[chosen] = np.inf
        chosen.append(int(far.argmin()))
    return chosen
