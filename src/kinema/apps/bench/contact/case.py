"""Benchmark case with contacts: Kinema model, mjModel, initial states after a random rollout, and random controls."""

from __future__ import annotations

from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.core import KinemaError
from kinema.dynamics import Integrator, Settings
from kinema.model import Model
from kinema.read import read

from .scenes import ContactScene, load_mujoco_model, scene_file

ROLLOUT_STEPS = 20
"""Steps of a rollout; each has its own random controls."""
WARMUP_TIME = 0.8
"""Duration of the random rollout that generates the initial states [s]."""
N_INITIAL_STATES, N_INITIAL_STATES_MANY_DOFS, MANY_DOFS = 64, 16, 60
"""Number of initial states; fewer for scenes with many degrees of freedom."""
VELOCITY_NOISE = 0.05
"""Standard deviation of random initial velocities in scenes without actuators [m/s and rad/s]."""
DROP_HEIGHT = 0.25
"""Height above its initial position from which a robot is dropped on terrain [m]."""


@dataclass(slots=True, eq=False)
class ContactCase:
    """A scene with the models of Kinema and MuJoCo, and initial states."""

    name: str
    model: Model
    settings: Settings
    mujoco_model: Any
    """The same scene as an `mjModel`, from the same file."""
    qpos: np.ndarray
    """Initial positions, shape (states, n_qs)."""
    qvel: np.ndarray
    """Initial velocities, shape (states, n_dofs)."""
    _converged_mujoco_model: Any = field(default=None)

    @property
    def n_initial_states(self) -> int:
        """Number of initial states."""
        return len(self.qpos)

    def initial_states(self, n_envs: int) -> tuple[np.ndarray, np.ndarray]:
        """Initial positions and velocities of all environments, (environments, ...); states repeat cyclically."""
        rows = np.arange(n_envs) % self.n_initial_states
        return self.qpos[rows], self.qvel[rows]

    def random_controls(self, n_envs: int, steps: int = ROLLOUT_STEPS, seed: int = 0) -> np.ndarray:
        """Random controls within the control ranges, shape (steps, actuators, environments)."""
        return random_controls(self.mujoco_model, n_envs, steps, seed)

    def converged_mujoco_model(self) -> Any:
        """MuJoCo model with solver settings for convergence to machine precision."""
        if self._converged_mujoco_model is None:
            import copy

            self._converged_mujoco_model = copy.copy(self.mujoco_model)
            (
                self._converged_mujoco_model.opt.tolerance,
                self._converged_mujoco_model.opt.iterations,
                self._converged_mujoco_model.opt.ls_iterations,
            ) = 1e-15, 300, 100
        return self._converged_mujoco_model


def load_contact_case(scene: ContactScene, robot: Path | None, warmup_time: float = WARMUP_TIME) -> ContactCase:
    """Load a scene as a benchmark case, with a Kinema model, an mjModel and initial states."""
    with scene_file(scene, robot) as file:
        peer = _build_mujoco_model(file)
        name, model, settings = _build_kinema_model(file, scene, robot, float(peer.opt.timestep))
    if (model.n_qs, model.n_dofs, model.n_actuators) != (peer.nq, peer.nv, peer.nu):
        raise KinemaError(f"{name}: the two models differ: {model.n_dofs} and {peer.nv} degrees of freedom")
    qpos, qvel = simulate_initial_states(peer, warmup_time, DROP_HEIGHT if scene is ContactScene.TERRAIN else 0.0)
    return ContactCase(name, model, settings, peer, qpos, qvel)


def load_contact_kinema_model(scene: ContactScene, robot: Path | None) -> tuple[str, Model, Settings]:
    """Name, Kinema model and settings of a scene."""
    with scene_file(scene, robot) as file:
        return _build_kinema_model(file, scene, robot, float(_build_mujoco_model(file).opt.timestep))


def random_controls(mujoco_model: Any, n_envs: int, steps: int, seed: int) -> np.ndarray:
    """Random controls within the control ranges of an mjModel, shape (steps, actuators, environments)."""
    limited = mujoco_model.actuator_ctrllimited.astype(bool)[:, None]
    lower, upper = np.where(limited, mujoco_model.actuator_ctrlrange, (-1.0, 1.0)).T
    drawn = np.random.default_rng(seed).uniform(size=(steps, mujoco_model.nu, n_envs))
    return (lower[:, None] + (upper - lower)[:, None] * drawn).astype(np.float32)


def simulate_initial_states(mujoco_model: Any, seconds: float, drop_height: float) -> tuple[np.ndarray, np.ndarray]:
    """Positions and velocities after a random rollout by MuJoCo; all simulators start from these states."""
    import mujoco
    from mujoco import rollout

    count = N_INITIAL_STATES if mujoco_model.nv < MANY_DOFS else N_INITIAL_STATES_MANY_DOFS
    data = mujoco.MjData(mujoco_model)
    if mujoco_model.nkey:
        mujoco.mj_resetDataKeyframe(mujoco_model, data, 0)
    free = mujoco_model.jnt_qposadr[mujoco_model.jnt_type == mujoco.mjtJoint.mjJNT_FREE]
    data.qpos[free + 2] += drop_height
    kind = mujoco.mjtState.mjSTATE_FULLPHYSICS
    state = np.zeros(mujoco.mj_stateSize(mujoco_model, kind))
    mujoco.mj_getState(mujoco_model, data, state, kind)
    steps = max(1, round(seconds / mujoco_model.opt.timestep))
    told = np.ascontiguousarray(
        random_controls(mujoco_model, count, steps, seed=1).transpose(2, 0, 1), dtype=np.float64
    )
    states, _ = rollout.rollout(mujoco_model, data, np.tile(state, (count, 1)), told)
    last = states[:, -1]
    qpos, qvel = (
        last[:, 1 : 1 + mujoco_model.nq].copy(),
        last[:, 1 + mujoco_model.nq : 1 + mujoco_model.nq + mujoco_model.nv].copy(),
    )
    return qpos, qvel if mujoco_model.nu else qvel + VELOCITY_NOISE * np.random.default_rng(3).normal(size=qvel.shape)


def _build_mujoco_model(file: Path) -> Any:
    import mujoco

    model = load_mujoco_model(file)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.iterations, model.opt.ls_iterations = 100, 50  # MuJoCo's defaults, whatever the file says
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MULTICCD)
    return model


def _build_kinema_model(file: Path, scene: ContactScene, robot: Path | None, dt: float) -> tuple[str, Model, Settings]:
    described = read(file)
    model = build_model([EntitySpec(name=described.name, description=described)], with_contacts=True)
    model.options = replace(model.options, multiccd=False)  # as in the mjModel, for equal contact points
    name = scene.value if robot is None else robot.stem if robot.stem not in GENERIC_FILE_STEMS else robot.parent.name
    if scene in (ContactScene.TERRAIN, ContactScene.CUBE):
        name += f", {scene.value}"
    settings = Settings(dt=dt, integrator=Integrator.IMPLICIT, limits=True, constraints=True, contacts=True)
    return name, model, settings


GENERIC_FILE_STEMS = ("right_hand", "left_hand", "scene", "robot")
"""File names that are replaced by the name of their folder."""
