"""What is measured: a scene as all simulators get it, states of a wild run to start from, and random commands."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema.compile import Part, compile_model
from kinema.foundation import KinemaError
from kinema.model import Model
from kinema.read import read
from kinema.sim import Integrator, Settings

from .scenes import Place, compiled, scene_file

STEPS = 20
"""Steps in one rollout; each has random commands of its own."""
FALL = 0.8
"""Time of random commands before anything is measured, in which robots fall over and things come down [s]."""
STARTS, FEWER_STARTS, MANY_DOFS = 64, 16, 60
"""Different states to start from; fewer for scenes of many degrees of freedom, whose steps take long."""
PUSH = 0.05
"""How fast what no actuator moves is pushed about after that [m/s and rad/s], at random."""
DROP = 0.25
"""How far above its file's place a robot is let go over terrain [m]."""


@dataclass(slots=True, eq=False)
class TouchCase:
    """A scene under test."""

    name: str
    model: Model
    settings: Settings
    peer: Any
    """The same scene as an `mjModel`, from the same file."""
    qpos: np.ndarray
    """Coordinates to start from, (states, coordinates)."""
    qvel: np.ndarray
    """Velocities likewise, (states, degrees of freedom)."""
    _exact: Any = field(default=None)

    @property
    def n_starts(self) -> int:
        """How many different states there are to start from."""
        return len(self.qpos)

    def starts(self, n_envs: int) -> tuple[np.ndarray, np.ndarray]:
        """Coordinates and velocities of all environments to start from, (environments, ...)."""
        rows = np.arange(n_envs) % self.n_starts
        return self.qpos[rows], self.qvel[rows]

    def commands(self, n_envs: int, steps: int = STEPS, seed: int = 0) -> np.ndarray:
        """Anything within the range of each actuator, anew at each step, (steps, actuators, environments)."""
        return random_commands(self.peer, n_envs, steps, seed)

    def exact(self) -> Any:
        """MuJoCo's model again, solved as well as can be."""
        if self._exact is None:
            import copy

            self._exact = copy.copy(self.peer)
            self._exact.opt.tolerance, self._exact.opt.iterations, self._exact.opt.ls_iterations = 1e-15, 300, 100
        return self._exact


def load_touching(place: Place, robot: Path | None, fall: float = FALL) -> TouchCase:
    """A scene as a case, for this simulator and for MuJoCo."""
    with scene_file(place, robot) as file:
        peer = _peer(file)
        name, model, settings = _ours(file, place, robot, float(peer.opt.timestep))
    if (model.n_qs, model.n_dofs, model.n_actuators) != (peer.nq, peer.nv, peer.nu):
        raise KinemaError(f"{name}: the two models differ: {model.n_dofs} and {peer.nv} degrees of freedom")
    qpos, qvel = fallen(peer, fall, DROP if place is Place.TERRAIN else 0.0)
    return TouchCase(name, model, settings, peer, qpos, qvel)


def load_our_side(place: Place, robot: Path | None) -> tuple[str, Model, Settings]:
    """The same without MuJoCo's side."""
    with scene_file(place, robot) as file:
        return _ours(file, place, robot, float(_peer(file).opt.timestep))


def random_commands(peer: Any, n_envs: int, steps: int, seed: int) -> np.ndarray:
    """Commands within the ranges of a MuJoCo model's actuators, (steps, actuators, environments)."""
    limited = peer.actuator_ctrllimited.astype(bool)[:, None]
    lower, upper = np.where(limited, peer.actuator_ctrlrange, (-1.0, 1.0)).T
    drawn = np.random.default_rng(seed).uniform(size=(steps, peer.nu, n_envs))
    return (lower[:, None] + (upper - lower)[:, None] * drawn).astype(np.float32)


def fallen(peer: Any, seconds: float, drop: float) -> tuple[np.ndarray, np.ndarray]:
    """Coordinates and velocities after a while of random commands, by MuJoCo: all simulators start from these."""
    import mujoco
    from mujoco import rollout

    count = STARTS if peer.nv < MANY_DOFS else FEWER_STARTS
    data = mujoco.MjData(peer)
    if peer.nkey:
        mujoco.mj_resetDataKeyframe(peer, data, 0)
    free = peer.jnt_qposadr[peer.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
    data.qpos[free + 2] += drop
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    state = np.zeros(mujoco.mj_stateSize(peer, kind))
    mujoco.mj_getState(peer, data, state, kind)
    steps = max(1, round(seconds / peer.opt.timestep))
    told = np.ascontiguousarray(random_commands(peer, count, steps, seed=1).transpose(2, 0, 1), dtype=np.float64)
    states, _ = rollout.rollout(peer, data, np.tile(state, (count, 1)), told)
    last = states[:, -1]
    qpos, qvel = last[:, 1 : 1 + peer.nq].copy(), last[:, 1 + peer.nq : 1 + peer.nq + peer.nv].copy()
    return qpos, qvel if peer.nu else qvel + PUSH * np.random.default_rng(3).normal(size=qvel.shape)


def _peer(file: Path) -> Any:
    import mujoco

    model = compiled(file)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.iterations, model.opt.ls_iterations = 100, 50  # MuJoCo's own; files for other purposes cut it short
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MULTICCD)
    return model


def _ours(file: Path, place: Place, robot: Path | None, dt: float) -> tuple[str, Model, Settings]:
    described = read(file)
    model = compile_model([Part(name=described.name, description=described)], contacts=True)
    model.options = replace(model.options, multiccd=False)  # as on MuJoCo's side: the same points
    name = place.value if robot is None else robot.stem if robot.stem not in NAMELESS else robot.parent.name
    if place in (Place.TERRAIN, Place.CUBE):
        name += f", {place.value}"
    settings = Settings(dt=dt, integrator=Integrator.IMPLICIT, limits=True, constraints=True, contacts=True)
    return name, model, settings


NAMELESS = ("right_hand", "left_hand", "scene", "robot")
"""Names of files that say less than those of their folders."""
