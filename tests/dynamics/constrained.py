"""Helpers for constraints: MuJoCo with all of them but contacts, solved to the end, and ours switched on."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array
from kinema.dynamics import ControlMode, Engine, InputMode, Integrator, Settings
from kinema.model import Model
from kinema.runtime import find_device
from kit.constraint_parity import load_constrained
from kit.mjcf_side import INTEGRATORS, Pair

CODEGENS = ("unrolled", "loops")


def loaded_text(folder: Path, text: str) -> Pair:
    """The text of an MJCF file on both sides."""
    file = folder / "model.xml"
    file.write_text(text, encoding="utf-8")
    return load_constrained(file)


def constrained_engine(
    model: Model,
    n_envs: int = 1,
    *,
    dt: float = 1e-3,
    precision: str = "double",
    codegen: str = "loops",
    control: ControlMode | None = None,
    **settings: Any,
) -> Engine:
    """A model with all of its constraints, told forces unless it is told otherwise."""
    return Engine(
        model,
        Settings(dt=dt, limits=True, constraints=True, **settings),
        n_envs,
        find_device("cpu"),
        precision=precision,
        codegen=codegen,
        control_modes=[ControlMode.FORCE if control is None else control] * model.n_dofs,
    )


def beside_mujoco(
    pair: Pair,
    states: list[Any],
    codegen: str = "loops",
    integrator: Integrator = Integrator.IMPLICITFAST,
    **more: Any,
) -> Engine:
    """Ours in the states of MuJoCo, an environment each, moved by the file's actuators."""
    pair.theirs.opt.integrator = INTEGRATORS[integrator]
    settings = Settings(
        dt=pair.theirs.opt.timestep,
        integrator=integrator,
        input_mode=InputMode.ACTUATORS,
        limits=True,
        constraints=True,
        **more,
    )
    engine = Engine(pair.ours, settings, len(states), find_device("cpu"), precision="double", codegen=codegen, lanes=1)
    assign(engine, {name: pair.arrays(states)[name] for name in ("qpos", "vel", "ctrl")})
    return engine


def assign(engine: Engine, arrays: Mapping[str, Array]) -> None:
    """Write some arrays, those that are not empty."""
    for name, values in arrays.items():
        if values.size:
            engine.array_view(name).assign(values)


def worst(ours: Array, theirs: Array) -> float:
    """The greatest difference of velocities, relative to the greatest of each state, or to one."""
    assert ours.shape == theirs.shape
    assert np.isfinite(ours).all()
    scale = np.maximum(1.0, np.abs(theirs).max(axis=0, initial=0.0))
    return float((np.abs(ours - theirs) / scale).max(initial=0.0))
