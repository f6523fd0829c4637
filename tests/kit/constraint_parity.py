"""Constraints of an MJCF file in MuJoCo and in Kinema, field by field; contacts are off on both sides."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array, Diagnostics
from kinema.dynamics import Engine, InputMode, Integrator, Settings
from kinema.runtime import find_device

from .mjcf_side import INTEGRATORS, Disable, Pair, load
from .mujoco_models import quiet

SAME_ROW = 1e-6
"""Largest difference of two Jacobian rows that are the same row."""
OF_ROWS = ("efc_D", "efc_aref", "efc_force")


@dataclass(frozen=True, slots=True)
class Parity:
    """Errors, each relative to the largest number of its field and state, or to one."""

    n_dofs: int
    n_rows: int
    """That act at most."""
    errors: dict[str, float]


def load_constrained(file: Path, diagnostics: Diagnostics | None = None) -> Pair:
    """The file on both sides, with constraints but for contacts, solved to the end."""
    pair = load(file, diagnostics)
    options = pair.theirs.opt
    options.disableflags &= ~int(Disable.mjDSBL_CONSTRAINT)
    options.disableflags |= int(Disable.mjDSBL_CONTACT)
    options.solver, options.integrator = mujoco.mjtSolver.mjSOL_NEWTON, INTEGRATORS[Integrator.IMPLICITFAST]
    options.tolerance, options.iterations = 0.0, 40
    options.ls_tolerance, options.ls_iterations = 1e-6, 100
    return pair


def wild_states(pair: Pair, count: int) -> list[Any]:
    """From a run with random controls and kicks."""
    rng = np.random.default_rng(0)
    model, data, states = pair.theirs, mujoco.MjData(pair.theirs), []
    for _ in range(count):
        act(model, data, rng)
        data.qvel[:] += rng.normal(size=model.nv)
        with quiet():
            mujoco.mj_step(model, data, 15)
        states.append(copied(model, data))
    return states


def act(model: Any, data: Any, rng: np.random.Generator) -> None:
    """Random commands within the ranges of actuators."""
    limited = model.actuator_ctrllimited.astype(bool)
    bounds = np.where(limited[:, None], np.sort(model.actuator_ctrlrange, axis=1), [[-1.0, 1.0]])
    data.ctrl[:] = rng.uniform(*bounds.T)


def copied(model: Any, data: Any) -> Any:
    """A state again."""
    copy = mujoco.MjData(model)
    for name in ("qpos", "qvel", "ctrl", "act"):
        getattr(copy, name)[:] = getattr(data, name)
    return copy


def engine_of(pair: Pair, states: list[Any], precision: str) -> Engine:
    """Ours in the states of MuJoCo, an environment each."""
    settings = Settings(dt=pair.theirs.opt.timestep, input_mode=InputMode.ACTUATORS, limits=True, constraints=True)
    engine = Engine(pair.ours, settings, len(states), find_device("cpu"), precision=precision, codegen="loops")
    put(engine, pair, states)
    return engine


def put(engine: Engine, pair: Pair, states: list[Any], *names: str) -> None:
    """Some of MuJoCo's arrays, or all of the state."""
    arrays = pair.arrays(states)
    for name in names or ("qpos", "vel", "ctrl", "act"):
        if arrays[name].size:
            engine.array_view(name).assign(arrays[name])


def parity(file: Path, n_states: int = 50, n_steps: int = 200) -> Parity | None:
    """All of it; None where nothing moves."""
    pair = load_constrained(file)
    if pair.ours.n_dofs == 0:
        return None
    states = wild_states(pair, n_states)
    engine = engine_of(pair, states, "double")
    with quiet():
        for data in states:
            mujoco.mj_forward(pair.theirs, data)
    errors = of_rows(pair, engine, states)
    qacc = np.array([d.qacc[pair.dof] for d in states]).T
    errors["qacc"] = worst(engine.fields.constraints.qacc.numpy(), qacc)
    errors |= _of_steps(pair, engine, states)
    errors |= _of_runs(pair, engine, n_steps)
    return Parity(pair.ours.n_dofs, max(d.nefc for d in states), errors)


def worst(ours: Array, theirs: Array) -> float:
    """The largest difference, relative to the largest number of each state, or to one."""
    scale = np.maximum(1.0, np.abs(theirs).max(axis=0, initial=0.0))
    return float((np.abs(ours - theirs) / scale).max(initial=0.0))


def of_rows(pair: Pair, engine: Engine, states: list[Any], compared: Array | None = None) -> dict[str, float]:
    """Largest errors of the active constraint rows without contacts; infinite if their number is not MuJoCo's.

    Equality rows are compared up to their sign: `J a = aref` and `-J a = -aref` are the same constraint, and the
    rotational residual of a weld changes its sign with that of its quaternion. `compared` is a mask of states.
    """
    errors: dict[str, float] = dict.fromkeys(("jac", *OF_ROWS), 0.0)
    if not engine.fields.constraints_info.kinds:
        return errors
    fields, n = engine.fields.constraints, pair.theirs.nv
    ours = {name: getattr(fields, name).numpy() for name in ("jac", *OF_ROWS)}
    for env, data in enumerate(states):
        if compared is not None and not compared[env]:
            continue
        own, count = np.flatnonzero(ours["efc_D"][:, env] > 0.0), data.ne + data.nf + data.nl
        if len(own) != count:
            return dict.fromkeys(errors, np.inf)
        jacobian = np.zeros((count, n))
        for i in range(count):
            unit = np.zeros(data.nefc)
            unit[i] = 1.0
            mujoco.mj_mulJacTVec(pair.theirs, data, jacobian[i], unit)
        theirs = np.column_stack([jacobian[:, pair.dof], 1e-3 * data.efc_aref[:count]])
        rows, sign = matching_rows(
            np.column_stack([ours["jac"][own, :, env], 1e-3 * ours["efc_aref"][own, env]]), theirs, data.ne
        )
        own = own[rows]
        errors["jac"] = max(errors["jac"], worst(sign[:, None] * ours["jac"][own, :, env], jacobian[:, pair.dof]))
        for name in OF_ROWS:
            signed = ours[name][own, env] * (1.0 if name == "efc_D" else sign)
            errors[name] = max(errors[name], worst(signed, getattr(data, name)[:count]))
    return errors


def matching_rows(ours: Array, theirs: Array, n_equalities: int) -> tuple[list[int], Array]:
    """Our row for each of MuJoCo's rows, by Jacobian and reference acceleration, and its sign.

    The sign is -1 for equality rows that match when negated only.
    """
    chosen: list[int] = []
    signs = np.ones(len(theirs))
    for i, row in enumerate(theirs):
        distance, negated = (np.abs(ours - sign * row).max(axis=1) for sign in (1.0, -1.0))
        distance[chosen] = negated[chosen] = np.inf
        if i < n_equalities and distance.min() > SAME_ROW > negated.min():
            distance, signs[i] = negated, -1.0
        chosen.append(int(distance.argmin()))
    return chosen, signs


def _of_steps(pair: Pair, engine: Engine, states: list[Any]) -> dict[str, float]:
    """The change of velocities in one step: the largest error in double, that of the median state in single."""
    single = engine_of(pair, states, "single")
    before = np.array([d.qvel[pair.dof] for d in states]).T
    copies = [copied(pair.theirs, data) for data in states]
    with quiet():
        for data in copies:
            mujoco.mj_step(pair.theirs, data)
    after = np.array([d.qvel[pair.dof] for d in copies]).T
    engine.step()
    single.step()
    change = np.maximum(np.abs(after - before).max(axis=0), 1e-6)
    off = np.abs(np.asarray(single.array_view("vel").numpy(), np.float64) - after).max(axis=0) / change
    return {"step": worst(engine.array_view("vel").numpy(), after), "single": float(np.median(off))}


def _of_runs(pair: Pair, engine: Engine, n_steps: int) -> dict[str, float]:
    """A run from the start, with other controls every 20 steps: the same in all environments."""
    rng, data, error = np.random.default_rng(1), mujoco.MjData(pair.theirs), 0.0
    engine.reset()
    put(engine, pair, [data] * engine.n_envs)
    for i in range(n_steps):
        if i % 20 == 0:
            act(pair.theirs, data, rng)
            put(engine, pair, [data] * engine.n_envs, "ctrl")
        with quiet():
            mujoco.mj_step(pair.theirs, data)
        engine.step()
        error = max(error, worst(engine.array_view("vel").numpy()[:, :1], data.qvel[pair.dof][:, None]))
    return {"run": error}
