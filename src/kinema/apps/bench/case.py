"""What is measured: a robot, as all simulators get it, and the commands they are given."""

from __future__ import annotations

import math
import tempfile
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.compile import Part, compile_model
from kinema.description import Actuator, Robot, Transmission, World
from kinema.foundation import KinemaError
from kinema.model import Model
from kinema.read import read
from kinema.sim import Integrator, Settings, dof_inertias
from kinema.write import write

STEPS = 20
"""Steps in one rollout; each has random commands of its own."""


@dataclass(slots=True, eq=False)
class Case:
    """A robot under test."""

    name: str
    model: Model
    settings: Settings
    peer: Any
    """The same robot as an `mjModel`."""
    free: bool = False
    """Whether nothing limits or holds it."""

    def commands(self, n_envs: int, seed: int = 0) -> np.ndarray:
        """Random targets for each step, actuator and environment, (steps, actuators, environments)."""
        rng = np.random.default_rng(seed)
        lower, upper = self.model.actuators.ctrl_lower, self.model.actuators.ctrl_upper
        bounded = np.isfinite(lower) & np.isfinite(upper)
        middle = np.where(bounded, 0.5 * (np.where(bounded, lower, 0) + np.where(bounded, upper, 0)), 0.0)
        reach = np.where(bounded, 0.25 * (np.where(bounded, upper, 0) - np.where(bounded, lower, 0)), 0.5)
        shape = (STEPS, self.model.n_actuators, n_envs)
        if self.free:
            return (middle[:, None] + np.minimum(reach, 0.5)[:, None] * rng.uniform(-1, 1, shape)).astype(np.float32)
        lean = 1.5 * rng.uniform(-1, 1, shape[1:])  # to one side for long enough to come to the limits
        whole = np.clip(lean + 0.5 * rng.uniform(-1, 1, shape), -1, 1)
        return (middle[:, None] + 1.2 * reach[:, None] * whole).astype(np.float32)


def load(file: Path, dt: float = 0.002, *, free: bool = False) -> Case:
    """A robot file as a case, for this simulator and for MuJoCo."""
    described = _prepared(file)
    peer = _peer(described, free)
    peer.opt.timestep = dt
    name, model, settings = _compiled(file, described, dt, free)
    peer.opt.gravity[:] = model.gravity
    if (model.n_qs, model.n_dofs, model.n_actuators) != (peer.nq, peer.nv, peer.nu):
        raise KinemaError(f"{file}: the two models differ: {model.n_dofs} and {peer.nv} degrees of freedom")
    return Case(name, model, settings, peer, free)


def load_ours(file: Path, dt: float = 0.002, *, free: bool = False) -> tuple[str, Model, Settings]:
    """The same without MuJoCo's side."""
    return _compiled(file, _prepared(file), dt, free)


def _prepared(file: Path) -> Robot | World:
    """The robot without its shapes and its file's simulation settings; where nothing drives its joints, with servos."""
    described = read(file)
    robots = described.robots if isinstance(described, World) else [described]
    described.options = {}
    for robot in robots:
        robot.options = {}
        for link in robot.links:
            link.shapes = []
    if isinstance(described, World):
        described.shapes = []
    if not _actuators(described):
        for robot in robots:
            robot.actuators = _servos(robot)
    return described


def _compiled(file: Path, described: Robot | World, dt: float, free: bool) -> tuple[str, Model, Settings]:
    model = compile_model([Part(name=described.name, description=described)])
    impossible = dof_inertias(model, model.qpos0)[0].impossible()
    if impossible:
        raise KinemaError(
            f"{file}: {model.dofs.names[impossible[0]]!r} has no inertia to move, and cannot be simulated"
        )
    for table in (model.ties, model.couplings):  # as soft as MuJoCo has them, so that both have the same robot
        table.solref[table.hard], table.solimp[table.hard] = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
        table.hard[:] = False
    held = not free
    return file.stem, model, Settings(dt=dt, integrator=Integrator.IMPLICIT, limits=held, constraints=held)


def _actuators(described: Robot | World) -> list[Actuator]:
    own = list(described.actuators)
    return own + [a for r in described.robots for a in r.actuators] if isinstance(described, World) else own


def _servos(robot: Robot) -> list[Actuator]:
    """A position servo on every joint of one degree of freedom."""
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


def _peer(world: Robot | World, free: bool) -> Any:
    """The robot as MuJoCo compiles it, without contacts, and without constraints where it is to be free."""
    import mujoco

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        write(world, path)
        model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT if free else mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.opt.disableflags |= int(off)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return model
