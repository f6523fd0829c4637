"""States of a robot on a floor: those of a wild run, and anyhow bent near the floor."""

from __future__ import annotations

from typing import Any

import mujoco
import numpy as np

from ..constraint_parity import act, copied
from ..mujoco_models import quiet

EVERY = 15
"""Steps of the wild run between two states."""
KICK = 0.5
"""How fast what has no actuators is kicked, and how fast poses move [m/s and rad/s]."""
DEEP, HIGH = 0.008, 0.003
"""Between how deep in the floor and how high above it the lowest point of a pose is [m]."""
FREE, BALL, SLIDE = (int(getattr(mujoco.mjtJoint, f"mjJNT_{kind}")) for kind in ("FREE", "BALL", "SLIDE"))


def wild_run(model: Any, count: int, seed: int = 0) -> list[Any]:
    """From a run with other random commands at every step."""
    rng, data, states = np.random.default_rng(seed), mujoco.MjData(model), []
    if model.nkey:
        mujoco.mj_resetDataKeyframe(model, data, 0)
    for _ in range(count):
        if not model.nu:
            data.qvel[:] += KICK * rng.normal(size=model.nv)
        for _ in range(EVERY):
            act(model, data, rng)
            with quiet():
                mujoco.mj_step(model, data)
        states.append(copied(model, data))
    return states


def poses_near_floor(model: Any, count: int, seed: int = 1) -> list[Any]:
    """Joints anywhere within their limits, free bodies anyhow turned, with their lowest points about the floor."""
    rng, states = np.random.default_rng(seed), []
    for _ in range(count):
        data = mujoco.MjData(model)
        _bend(model, data, rng)
        mujoco.mj_kinematics(model, data)
        for joint in np.flatnonzero(model.jnt_type == FREE).tolist():
            lift = rng.uniform(-DEEP, HIGH) - _lowest(model, data, int(model.jnt_bodyid[joint]))
            data.qpos[model.jnt_qposadr[joint] + 2] += lift
        data.qvel[:] = KICK * rng.normal(size=model.nv)
        act(model, data, rng)
        states.append(data)
    return states


def _bend(model: Any, data: Any, rng: np.random.Generator) -> None:
    for joint in range(model.njnt):
        at, kind = int(model.jnt_qposadr[joint]), int(model.jnt_type[joint])
        if kind in (FREE, BALL):
            turn = rng.normal(size=4)
            place = at + 3 if kind == FREE else at
            data.qpos[place : place + 4] = turn / np.linalg.norm(turn)
            if kind == FREE:
                data.qpos[at : at + 3] += rng.uniform(-0.3, 0.3, 3)
        elif model.jnt_limited[joint]:
            data.qpos[at] = rng.uniform(*np.sort(model.jnt_range[joint]))
        else:
            data.qpos[at] = rng.uniform(-0.1, 0.1) if kind == SLIDE else rng.uniform(-np.pi, np.pi)


def _lowest(model: Any, data: Any, body: int) -> float:
    """How far all of a free body's tree is above the floor, by MuJoCo [m]."""
    planes = np.flatnonzero(model.geom_type == mujoco.mjtGeom.mjGEOM_PLANE)
    touching = (model.geom_contype | model.geom_conaffinity) != 0
    own = touching & (model.body_rootid[model.geom_bodyid] == body)
    if not len(planes) or not own.any():
        return 0.0
    return min(
        mujoco.mj_geomDistance(model, data, int(planes[0]), int(geom), 10.0, None) for geom in np.flatnonzero(own)
    )
