"""One MJCF file in MuJoCo and in Kinema, and how the numbers of the two correspond."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import numpy.typing as npt

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, collect
from kinema.dynamics import Integrator
from kinema.model import Model
from kinema.read import read

from . import mujoco_models

INTEGRATORS = {
    Integrator.EULER: mujoco.mjtIntegrator.mjINT_EULER,
    Integrator.IMPLICITFAST: mujoco.mjtIntegrator.mjINT_IMPLICITFAST,
    Integrator.IMPLICIT: mujoco.mjtIntegrator.mjINT_IMPLICIT,
    Integrator.RK4: mujoco.mjtIntegrator.mjINT_RK4,
}
Ints = npt.NDArray[np.intp]
Disable, Enable = mujoco.mjtDisableBit, mujoco.mjtEnableBit


@dataclass(frozen=True)
class Pair:
    """Both models, and index arrays: ours[i] is theirs[index[i]]."""

    theirs: Any
    ours: Model
    body: Ints
    q: Ints
    dof: Ints
    actuator: Ints
    left_out: list[str]
    """Actuators that Kinema does not simulate, without force in MuJoCo too."""

    def random_state(self, generator: np.random.Generator, speed: float = 1.0) -> Any:
        """MuJoCo's data at random coordinates, velocities and controls."""
        data = mujoco.MjData(self.theirs)
        data.qpos[:] = mujoco_models.random_positions(self.theirs, generator)
        data.qvel[:] = speed * generator.uniform(-1, 1, self.theirs.nv)
        data.ctrl[:] = generator.uniform(-1, 1, self.theirs.nu)
        return data

    def push(self, data: Any, generator: np.random.Generator) -> None:
        """Forces and torques on all bodies, as large as their weights."""
        data.xfrc_applied[:] = generator.uniform(-5, 5, (self.theirs.nbody, 6)) * self.theirs.body_mass[:, None]

    def arrays(self, states: list[Any]) -> dict[str, Array]:
        """MuJoCo's states as inputs of our programs: (items, states)."""
        return {
            "qpos": np.array([d.qpos[self.q] for d in states]).reshape(len(states), -1).T,
            "vel": np.array([d.qvel[self.dof] for d in states]).reshape(len(states), -1).T,
            "ctrl": np.array([d.ctrl[self.actuator] for d in states]).reshape(len(states), -1).T,
            "act": np.array([self._activations(d) for d in states]).reshape(len(states), -1).T,
            "error": np.zeros((1, len(states))),
            "cfrc_applied_vel": np.array([d.xfrc_applied[self.body, :3].ravel() for d in states]).T,
            "cfrc_applied_ang": np.array([d.xfrc_applied[self.body, 3:].ravel() for d in states]).T,
        }

    def _activations(self, data: Any) -> Array:
        """Of each actuator, 0 for those that have none; nothing where nobody has one."""
        if not self.theirs.na:
            return np.zeros(0)
        address = self.theirs.actuator_actadr[self.actuator]
        return np.where(address >= 0, data.act[address], 0.0)


def load(file: Path, diagnostics: Diagnostics | None = None) -> Pair:
    """The file on both sides: without constraints."""
    described = read(file, policy=collect)
    ours = build_model([EntitySpec(name="it", description=described)], diagnostics=diagnostics)
    theirs = mujoco_models.load(file)
    theirs.opt.disableflags |= int(Disable.mjDSBL_CONSTRAINT)
    theirs.opt.enableflags |= int(Enable.mjENBL_ENERGY)
    body, q, dof, actuator = correspondence(theirs, ours)
    left_out = sorted(set(range(theirs.nu)) - set(actuator.tolist()))
    theirs.actuator_gainprm[left_out] = 0.0
    theirs.actuator_biasprm[left_out] = 0.0
    return Pair(theirs, ours, body, q, dof, actuator, [theirs.actuator(i).name for i in left_out])


def correspondence(theirs: Any, ours: Model) -> tuple[Ints, Ints, Ints, Ints]:
    """Index arrays of bodies, coordinates, degrees of freedom and actuators: ours[i] is theirs[index[i]]."""
    body = np.array([_body(theirs, name) for name in ours.links.names], dtype=np.intp)
    return body, *_coordinates(theirs, ours, body), _actuators(theirs, ours)


def _body(theirs: Any, name: str) -> int:
    number = mujoco.mj_name2id(theirs, mujoco.mjtObj.mjOBJ_BODY, name)
    return number if number >= 0 else int(name.removeprefix("body_"))


def _coordinates(theirs: Any, ours: Model, body: Ints) -> tuple[Ints, Ints]:
    q: list[int] = []
    dof: list[int] = []
    seen: Counter[int] = Counter()
    for link, q_start, q_end, dof_start, dof_end in zip(
        ours.joints.link_idx.tolist(),
        ours.joints.q_start.tolist(),
        ours.joints.q_end.tolist(),
        ours.joints.dof_start.tolist(),
        ours.joints.dof_end.tolist(),
        strict=True,
    ):
        joint = int(theirs.body_jntadr[body[link]]) + seen[link]
        seen[link] += 1
        q += range(theirs.jnt_qposadr[joint], theirs.jnt_qposadr[joint] + q_end - q_start)
        dof += range(theirs.jnt_dofadr[joint], theirs.jnt_dofadr[joint] + dof_end - dof_start)
    assert sorted(q) == list(range(theirs.nq))
    assert sorted(dof) == list(range(theirs.nv))
    return np.array(q, dtype=np.intp), np.array(dof, dtype=np.intp)


def _actuators(theirs: Any, ours: Model) -> Ints:
    named = [mujoco.mj_name2id(theirs, mujoco.mjtObj.mjOBJ_ACTUATOR, name) for name in ours.actuators.names]
    unnamed = iter([i for i in range(theirs.nu) if not theirs.actuator(i).name])
    return np.array([i if i >= 0 else next(unnamed) for i in named], dtype=np.intp)
