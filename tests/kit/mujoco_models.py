"""What MuJoCo makes of a file: loaded without its log, at random positions, its mass matrix and colliding geoms."""

from __future__ import annotations

import warnings
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import combinations
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array


@contextmanager
def quiet() -> Iterator[None]:
    """Without MuJoCo's warnings, which would go to a log file in the working folder."""
    previous = mujoco.get_mju_user_warning()
    mujoco.set_mju_user_warning(lambda _: None)
    try:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            yield
    finally:
        mujoco.set_mju_user_warning(previous)


def load(path: Path) -> Any:
    """The compiled file."""
    with quiet():
        return mujoco.MjModel.from_xml_path(str(path))


def random_positions(model: Any, generator: np.random.Generator) -> Array:
    """A configuration: any angle, any rotation."""
    q = generator.uniform(-1.5, 1.5, model.nq)
    for joint in range(model.njnt):
        address = int(model.jnt_qposadr[joint])
        if model.jnt_type[joint] == mujoco.mjtJoint.mjJNT_FREE:
            address += 3
        elif model.jnt_type[joint] != mujoco.mjtJoint.mjJNT_BALL:
            continue
        q[address : address + 4] /= np.linalg.norm(q[address : address + 4])
    return q


def full_mass_matrix(model: Any, data: Any) -> Array:
    """M(q), dense, of a state whose inertias are computed."""
    matrix = np.zeros((model.nv, model.nv))
    for column, unit in zip(matrix, np.eye(model.nv), strict=True):
        mujoco.mj_mulM(model, data, column, unit)
    return matrix


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
