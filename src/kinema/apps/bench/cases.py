"""Benchmark cases: a scene with the models of Kinema and MuJoCo, initial states and random controls.

A robot without a contact scene has no shapes and starts at its initial position. With a contact scene, all simulators
start from the states at the end of a random rollout by MuJoCo.
"""

from __future__ import annotations

import copy
import math
import tempfile
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any, TypeVar

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, KinemaError
from kinema.description import Actuator, Robot, Transmission, World
from kinema.dynamics import Integrator, Settings, compute_mass_matrix_conditioning
from kinema.model import CouplingsInfo, EqualitiesInfo, Model
from kinema.read import read
from kinema.write import write

from .scenes import ContactScene, load_mujoco_model, scene_file

Constraints = TypeVar("Constraints", EqualitiesInfo, CouplingsInfo)
ROLLOUT_STEPS = 20
"""Steps of a rollout; each has its own random controls."""
DT = 0.002
"""Time step of cases without contacts [s]."""
WARMUP_TIME = 0.8
"""Duration of the random rollout that generates the initial states [s]."""
N_INITIAL_STATES, N_INITIAL_STATES_MANY_DOFS, MANY_DOFS = 64, 16, 60
"""Number of initial states; fewer for scenes with many degrees of freedom."""
VELOCITY_NOISE = 0.05
"""Standard deviation of random initial velocities in scenes without actuators [m/s and rad/s]."""
DROP_HEIGHT = 0.25
"""Height above its initial position from which a robot is dropped on terrain [m]."""
CONVERGED_CCD_TOLERANCE, CONVERGED_CCD_ITERATIONS = 1e-10, 200
"""Tolerance of MuJoCo's collision detection of convex shapes [m], and its maximum iterations, as a reference."""
MUJOCO_SOLREF, MUJOCO_SOLIMP = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's default compliance of equality constraints."""
GENERIC_FILE_STEMS = ("right_hand", "left_hand", "scene", "robot")
"""File names that are replaced by the name of their folder."""


@dataclass(slots=True, eq=False)
class BenchmarkCase:
    """A scene with the models of Kinema and MuJoCo, initial states and controls."""

    name: str
    model: Model
    settings: Settings
    mujoco_model: Any
    """The same scene as an `mjModel`."""
    qpos: Array
    """Initial positions, shape (states, n_qs)."""
    qvel: Array
    """Initial velocities, shape (states, n_dofs)."""
    draw_controls: Callable[[int, int, int], Array]
    """Random controls for environments, steps and a seed, shape (steps, actuators, environments)."""
    _converged_mujoco_model: Any = field(default=None)

    @property
    def has_contacts(self) -> bool:
        """Whether contacts are simulated."""
        return self.settings.contacts

    @property
    def n_initial_states(self) -> int:
        """Number of initial states."""
        return len(self.qpos)

    def initial_states(self, n_envs: int) -> tuple[Array, Array]:
        """Initial positions and velocities of all environments, (environments, ...); states repeat cyclically."""
        rows = np.arange(n_envs) % self.n_initial_states
        return self.qpos[rows], self.qvel[rows]

    def random_controls(self, n_envs: int, steps: int = ROLLOUT_STEPS, seed: int = 0) -> Array:
        """Random controls within the control ranges, shape (steps, actuators, environments)."""
        return self.draw_controls(n_envs, steps, seed)

    def converged_mujoco_model(self) -> Any:
        """MuJoCo model with settings for convergence of solver and collision detection to machine precision.

        With its default tolerance, MuJoCo's EPA ends up to 1 um above the smallest depth, with normals that are off by
        0.02 rad: forces of a contact then differ by one percent from those at the exact normal.
        """
        if self._converged_mujoco_model is None:
            self._converged_mujoco_model = copy.copy(self.mujoco_model)
            options = self._converged_mujoco_model.opt
            options.tolerance, options.iterations, options.ls_iterations = 1e-15, 300, 100
            options.ccd_tolerance, options.ccd_iterations = CONVERGED_CCD_TOLERANCE, CONVERGED_CCD_ITERATIONS
        return self._converged_mujoco_model


def load_case(
    robot: Path | None,
    scene: ContactScene | None = None,
    *,
    unconstrained: bool = False,
    warmup_time: float = WARMUP_TIME,
) -> BenchmarkCase:
    """Load a robot, a contact scene or a robot in a contact scene as a benchmark case.

    Args:
        robot: robot file; None for scenes without a robot.
        scene: contact scene; None for a robot without contacts.
        unconstrained: whether joint limits and constraints are disabled; without a contact scene.
        warmup_time: duration of the random rollout that generates the initial states of a contact scene [s].
    """
    if scene is None:
        assert robot is not None
        described = _read_without_shapes(robot)
        peer = _build_free_mujoco_model(described, unconstrained)
        name, model, settings = _build_free_kinema_model(robot, described, unconstrained)
        peer.opt.gravity[:] = model.gravity
    else:
        with scene_file(scene, robot) as file:
            peer = _build_contact_mujoco_model(file)
            name, model, settings = _build_contact_kinema_model(file, scene, robot, float(peer.opt.timestep))
    if (model.n_qs, model.n_dofs, model.n_actuators) != (peer.nq, peer.nv, peer.nu):
        raise KinemaError(f"{name}: the two models differ: {model.n_dofs} and {peer.nv} degrees of freedom")
    if scene is None:
        qpos, qvel = np.array(model.qpos0)[None], np.zeros((1, model.n_dofs))

        def draw_controls(n_envs: int, steps: int, seed: int) -> Array:
            return _free_controls(model, n_envs, steps, seed, unconstrained=unconstrained)
    else:
        qpos, qvel = _simulate_initial_states(peer, warmup_time, DROP_HEIGHT if scene is ContactScene.TERRAIN else 0.0)

        def draw_controls(n_envs: int, steps: int, seed: int) -> Array:
            return _uniform_controls(peer, n_envs, steps, seed)

    return BenchmarkCase(name, model, settings, peer, qpos, qvel, draw_controls)


def load_kinema_model(
    robot: Path | None, scene: ContactScene | None, *, unconstrained: bool = False
) -> tuple[str, Model, Settings]:
    """Name, Kinema model and settings of a benchmark case."""
    if scene is None:
        assert robot is not None
        return _build_free_kinema_model(robot, _read_without_shapes(robot), unconstrained)
    with scene_file(scene, robot) as file:
        return _build_contact_kinema_model(file, scene, robot, float(_build_contact_mujoco_model(file).opt.timestep))


# ---------------------------------------------------------------------------------------------- robots without contacts


def _read_without_shapes(file: Path) -> Robot | World:
    """Read a robot without shapes and simulation options; position servos are added if it has no actuators."""
    described = read(file)
    robots = described.robots if isinstance(described, World) else [described]
    described.options = {}
    for robot in robots:
        robot.options = {}
        for link in robot.links:
            link.shapes = []
    if isinstance(described, World):
        described.shapes = []
    if not any(owner.actuators for owner in (described, *robots)):
        for robot in robots:
            robot.actuators = _position_servos(robot)
    return described


def _position_servos(robot: Robot) -> list[Actuator]:
    """A position servo for every joint of one degree of freedom."""
    return [
        Actuator(
            name=f"{joint.name}_servo",
            transmission=Transmission.JOINT,
            target=joint.name,
            gain=(100.0,),
            bias_type="affine",
            bias=(0.0, -100.0, -10.0),
            control_range=(max(joint.moving_axes[0].lower, -math.pi), min(joint.moving_axes[0].upper, math.pi)),
        )
        for joint in robot.joints
        if joint.n_dofs == 1
    ]


def _build_free_kinema_model(
    file: Path, description: Robot | World, unconstrained: bool
) -> tuple[str, Model, Settings]:
    """Name, model and settings for Kinema; raises `KinemaError` for dofs without inertia.

    Rigid equality constraints and mimic joints get the compliance that MuJoCo gives them, so that errors compare equal
    models.
    """
    model = build_model([EntitySpec(name=description.name, description=description)])
    impossible = compute_mass_matrix_conditioning(model, model.qpos0)[0].singular_dofs()
    if impossible:
        raise KinemaError(
            f"{file}: {model.dofs.names[impossible[0]]!r} has no inertia to move, and cannot be simulated"
        )
    model = replace(
        model,
        equalities=_with_mujoco_compliance(model.equalities),
        couplings=_with_mujoco_compliance(model.couplings),
    )
    held = not unconstrained
    return file.stem, model, Settings(dt=DT, integrator=Integrator.IMPLICITFAST, limits=held, constraints=held)


def _with_mujoco_compliance(table: Constraints) -> Constraints:
    """Table of constraints in which rigid ones have MuJoCo's default solref and solimp."""
    rigid = table.is_rigid
    return replace(
        table,
        solref=np.where(rigid[:, None], MUJOCO_SOLREF, table.solref),
        solimp=np.where(rigid[:, None], MUJOCO_SOLIMP, table.solimp),
        is_rigid=np.zeros_like(rigid),
    )


def _build_free_mujoco_model(description: Robot | World, unconstrained: bool) -> Any:
    """Compile the robot with MuJoCo, with contacts disabled, and all constraints if `unconstrained`."""
    import mujoco

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        write(description, path)
        model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT if unconstrained else mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.opt.disableflags |= int(off)
    model.opt.integrator, model.opt.timestep = mujoco.mjtIntegrator.mjINT_IMPLICITFAST, DT
    return model


def _free_controls(model: Model, n_envs: int, steps: int, seed: int, *, unconstrained: bool) -> np.ndarray:
    """Random controls around the middle of the control ranges; with a constant offset if limits are to be reached."""
    rng = np.random.default_rng(seed)
    lower, upper = model.actuators.ctrl_lower, model.actuators.ctrl_upper
    bounded = np.isfinite(lower) & np.isfinite(upper)
    middle = np.where(bounded, 0.5 * (np.where(bounded, lower, 0) + np.where(bounded, upper, 0)), 0.0)
    reach = np.where(bounded, 0.25 * (np.where(bounded, upper, 0) - np.where(bounded, lower, 0)), 0.5)
    shape = (steps, model.n_actuators, n_envs)
    if unconstrained:
        return (middle[:, None] + np.minimum(reach, 0.5)[:, None] * rng.uniform(-1, 1, shape)).astype(np.float32)
    offset = 1.5 * rng.uniform(-1, 1, shape[1:])
    whole = np.clip(offset + 0.5 * rng.uniform(-1, 1, shape), -1, 1)
    return (middle[:, None] + 1.2 * reach[:, None] * whole).astype(np.float32)


# ------------------------------------------------------------------------------------------------------- contact scenes


def _build_contact_mujoco_model(file: Path) -> Any:
    import mujoco

    model = load_mujoco_model(file)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    model.opt.iterations, model.opt.ls_iterations = 100, 50  # MuJoCo's defaults, whatever the file says
    model.opt.disableflags |= int(mujoco.mjtDisableBit.mjDSBL_MULTICCD)
    return model


def _build_contact_kinema_model(
    file: Path, scene: ContactScene, robot: Path | None, dt: float
) -> tuple[str, Model, Settings]:
    described = read(file)
    model = build_model([EntitySpec(name=described.name, description=described)], with_contacts=True)
    options = replace(model.options, multiccd=False)  # as in the mjModel, for equal contact points
    model = model.with_tables(options=options)
    name = scene.value if robot is None else robot.stem if robot.stem not in GENERIC_FILE_STEMS else robot.parent.name
    if scene in (ContactScene.TERRAIN, ContactScene.CUBE):
        name += f", {scene.value}"
    settings = Settings(dt=dt, integrator=Integrator.IMPLICITFAST, limits=True, constraints=True, contacts=True)
    return name, model, settings


def _uniform_controls(mujoco_model: Any, n_envs: int, steps: int, seed: int) -> Array:
    """Uniform random controls within the control ranges of an mjModel, shape (steps, actuators, environments)."""
    limited = mujoco_model.actuator_ctrllimited.astype(bool)[:, None]
    lower, upper = np.where(limited, mujoco_model.actuator_ctrlrange, (-1.0, 1.0)).T
    drawn = np.random.default_rng(seed).uniform(size=(steps, mujoco_model.nu, n_envs))
    return (lower[:, None] + (upper - lower)[:, None] * drawn).astype(np.float32)


def _simulate_initial_states(mujoco_model: Any, seconds: float, drop_height: float) -> tuple[Array, Array]:
    """Positions and velocities after a random rollout by MuJoCo."""
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
    controls = _uniform_controls(mujoco_model, count, steps, seed=1).transpose(2, 0, 1)
    states, _ = rollout.rollout(
        mujoco_model, data, np.tile(state, (count, 1)), np.ascontiguousarray(controls, dtype=np.float64)
    )
    qpos, qvel = np.split(states[:, -1, 1 : 1 + mujoco_model.nq + mujoco_model.nv].copy(), [mujoco_model.nq], axis=1)
    return qpos, qvel if mujoco_model.nu else qvel + VELOCITY_NOISE * np.random.default_rng(3).normal(size=qvel.shape)
