"""A file in a scene and in MuJoCo, at the same states, with all that they measure."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema import Scene, read
from kinema.core import Array, collect

from .mjcf_side import correspondence
from .mujoco_models import load


@dataclass(frozen=True)
class Side:
    """A scene of as many environments as there are states, and MuJoCo's data of each."""

    scene: Scene
    theirs: Any
    states: list[Any]

    @property
    def ours(self) -> Array:
        """What our sensors tell, (states, numbers)."""
        return self.scene.sensors.data

    @property
    def expected(self) -> Array:
        """What MuJoCo's tell."""
        return np.array([d.sensordata for d in self.states])

    def pick(self, name: str) -> tuple[Array, Array]:
        """Both of one sensor."""
        sensor = self.theirs.sensor(name)
        where = slice(int(sensor.adr[0]), int(sensor.adr[0] + sensor.dim[0]))
        return self.scene.sensors[name].read(), self.expected[:, where]


def side(file: Path, states: list[Any] | None = None, n: int = 3, seed: int = 0, settle: int = 0, **how: Any) -> Side:
    """A file on both sides, at random states, or some steps of MuJoCo after them."""
    theirs = converging(load(file))
    if states is None:
        states = [random_state(theirs, np.random.default_rng(seed + i), settle) for i in range(n)]
    described = read(file, policy=collect)
    scene = Scene(dt=float(theirs.opt.timestep), precision="double", quiet=True, **how)
    scene.add(described, name="it")
    scene.build(n_envs=len(states))
    put(scene, theirs, states)
    return Side(scene, theirs, states)


def converging(theirs: Any) -> Any:
    """MuJoCo's solver goes on until it has arrived: some files stop it early, which is no property of sensors."""
    theirs.opt.iterations, theirs.opt.ls_iterations, theirs.opt.tolerance = 200, 200, 1e-14
    return theirs


def random_state(theirs: Any, generator: np.random.Generator, settle: int = 0) -> Any:
    """Coordinates about the start, velocities and controls."""
    data = mujoco.MjData(theirs)
    shift = 0.2 * generator.uniform(-1, 1, theirs.nv)
    mujoco.mj_integratePos(theirs, data.qpos, shift, 1.0)
    data.qvel[:] = generator.uniform(-1, 1, theirs.nv)
    data.ctrl[:] = generator.uniform(-1, 1, theirs.nu)
    mujoco.mj_step(theirs, data, settle)
    mujoco.mj_forward(theirs, data)
    return data


def put(scene: Scene, theirs: Any, states: list[Any]) -> None:
    """The states into the environments of a scene."""
    model, memory = scene.built.model, scene.built.arrays
    _, q, dof, actuator = correspondence(theirs, model)
    every = slice(None)
    memory.write("qpos", every, np.array([d.qpos[q] for d in states]))
    memory.write("vel", every, np.array([d.qvel[dof] for d in states]))
    if theirs.nu:
        memory.write("ctrl", every, np.array([d.ctrl[actuator] for d in states]))
    if theirs.na:
        address = theirs.actuator_actadr[actuator]
        memory.write("act", every, np.array([np.where(address >= 0, d.act[address], 0.0) for d in states]))
