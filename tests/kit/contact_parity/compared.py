"""Both sides of a robot on a floor, in the same states."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema.apps.bench import BenchmarkCase, ContactScene, load_case
from kinema.core import Array
from kinema.dynamics import Engine, InputMode
from kinema.runtime import find_device

from ..constraint_parity import act, of_rows, put
from ..mjcf_side import Pair, correspondence
from ..mujoco_models import quiet
from .states import poses_near_floor, wild_run
from .touching import ContactLaw, Key, Touching, matched, ours_of, theirs_of

SAME = 1e-6
"""Depths [m] that differ by less are the same."""
FIELDS = ("position", "normal", "depth", "force", "frame", "D", "aref", "J")
STRAY, PERTURBED = 1e-4, 3e-8
"""How far a run may stray from another [rad, m], and by how much the other one is perturbed at its start."""


@dataclass(slots=True)
class TouchParity:
    """How a robot on a floor compares; errors of forces and qacc are relative to the largest of their state."""

    name: str
    n_dofs: int
    n_states: int = 0
    n_analytic: int = 0
    """States in which all that touches is of kinds that both sides have formulas for."""
    n_contacts: int = 0
    other_counts: int = 0
    """Analytic states with another number of contacts."""
    other_rows: int = 0
    """Analytic states with another number of rows."""
    contact_errors: dict[str, float] = field(default_factory=dict)
    """The largest, of analytic states."""
    row_errors: dict[str, float] = field(default_factory=dict)
    """Largest errors of the rows of limits, friction and equalities, of analytic states (`of_rows`)."""
    qacc: list[float] = field(default_factory=list)
    """Of analytic states."""
    single: list[float] = field(default_factory=list)
    """Likewise, in single precision."""
    searched_qacc: list[float] = field(default_factory=list)
    """Of the other states."""
    depths: Counter[str] = field(default_factory=Counter)
    """Of two bodies and kinds in the other states: how the deepest point compares (`same`, `less`, `deeper`,
    `ours only`, `theirs only`)."""
    deeper: list[tuple[str, str, float]] = field(default_factory=list)
    """Kinds, and by how much ours is deeper [m]."""
    horizon: int = 0
    """Steps until a perturbed run of MuJoCo strays."""
    survived: int = 0
    """Steps until ours strays from MuJoCo's."""
    odd: list[int] = field(default_factory=list)
    """Analytic states with other counts, or accelerations that differ by more than 1e-6."""

    def share(self, errors: list[float], within: float) -> float:
        """Of all states [%]."""
        return 100.0 * float(np.mean(np.array(errors) <= within)) if errors else 100.0


def touch_parity(file: Path, n_run: int = 50, n_poses: int = 300, n_steps: int = 500) -> TouchParity:
    """Compare a robot, with a floor where its file has none."""
    case = load_case(file, ContactScene.FLOOR, warmup_time=0.002)
    model, pair = case.converged_mujoco_model(), _pair(case)
    model.opt.ccd_tolerance, model.opt.ccd_iterations = 1e-12, 100
    found = TouchParity(case.name, case.model.n_dofs)
    states = [*wild_run(case.mujoco_model, n_run), *poses_near_floor(case.mujoco_model, n_poses)]
    with quiet():
        for data in states:
            mujoco.mj_forward(model, data)
    engine = _engine(case, len(states), "double")
    put(engine, pair, states)
    ours, theirs = ours_of(engine, case.model, pair.body, model, states), [theirs_of(model, d) for d in states]
    analytic = np.array([a.is_analytic and b.is_analytic for a, b in zip(ours, theirs, strict=True)])
    qacc, n_rows = engine.fields.constraints.qacc.numpy(), engine.fields.constraints.n_rows.numpy()
    off = _relative(qacc, pair, states)
    found.n_states, found.n_analytic = len(states), int(analytic.sum())
    found.qacc, found.searched_qacc = off[analytic].tolist(), off[~analytic].tolist()
    for env, data in enumerate(states):
        found.n_contacts += len(theirs[env].keys)
        if not analytic[env]:
            _look_at_depths(found, ours[env], theirs[env])
            continue
        other = len(ours[env].keys) != len(theirs[env].keys)
        found.other_counts += other
        found.other_rows += int(n_rows[env]) != data.nefc
        if other or off[env] > 1e-6:
            found.odd.append(env)
        if not other:
            _look_at_contacts(found, ours[env], theirs[env])
    found.row_errors = of_rows(pair, engine, states, analytic)
    single = _engine(case, len(states), "single")
    put(single, pair, states)
    found.single = _relative(single.fields.constraints.qacc.numpy(), pair, states)[analytic].tolist()
    found.horizon, found.survived = _runs(case, pair, n_steps)
    return found


def _pair(case: BenchmarkCase) -> Pair:
    return Pair(
        case.converged_mujoco_model(), case.model, *correspondence(case.converged_mujoco_model(), case.model), []
    )


def _engine(case: BenchmarkCase, n_envs: int, precision: str) -> Engine:
    drive = InputMode.ACTUATORS if case.model.n_actuators else InputMode.COMMANDS
    settings = replace(case.settings, input_mode=drive, iterations=100, ls_iterations=50, tolerance=1e-13)
    return Engine(case.model, settings, n_envs, find_device("cpu"), precision=precision, codegen="loops")


def _relative(qacc: Array, pair: Pair, states: list[Any]) -> Array:
    theirs = np.array([d.qacc[pair.dof] for d in states]).T
    scale = np.maximum(1e-9, np.abs(theirs).max(axis=0))
    return np.abs(np.asarray(qacc, np.float64) - theirs).max(axis=0) / scale


def _look_at_contacts(found: TouchParity, ours: Touching, theirs: Touching) -> None:
    if not theirs.keys:
        return
    own = matched(ours, theirs)
    push = max(1e-9, float(np.abs(theirs.force).max()))
    errors = (
        np.abs(ours.point[own] - theirs.point).max(),
        np.abs(ours.normal[own] - theirs.normal).max(),
        np.abs(ours.depth[own] - theirs.depth).max(),
        np.abs(ours.force[own] - theirs.force).max() / push,
        *of_laws([ours.laws[i] for i in own], theirs.laws),
    )
    for name, error in zip(FIELDS, errors, strict=True):
        found.contact_errors[name] = max(found.contact_errors.get(name, 0.0), float(error))


def of_laws(ours: list[ContactLaw], theirs: list[ContactLaw]) -> list[float]:
    """The largest errors of frames, hardness, wanted accelerations (relative to the largest) and Jacobians."""
    pairs = list(zip(ours, theirs, strict=True))
    wanted = max(1.0, *(float(np.abs(b.wanted).max()) for b in theirs))
    return [
        max(float(np.abs(a.frame - b.frame).max()) for a, b in pairs),
        max(abs(a.hard / b.hard - 1.0) for a, b in pairs),
        max(float(np.abs(a.wanted - b.wanted).max()) for a, b in pairs) / wanted,
        max(float(np.abs(a.jacobian - b.jacobian).max()) for a, b in pairs),
    ]


def _look_at_depths(found: TouchParity, ours: Touching, theirs: Touching) -> None:
    """The true depth is the smallest of all directions: of two that differ, the smaller one is nearer to it."""
    own, other = ours.deepest(), theirs.deepest()
    for key in sorted({*own, *other}):
        found.depths[_compared(found, key, own.get(key), other.get(key))] += 1


def _compared(found: TouchParity, key: Key, own: float | None, other: float | None) -> str:
    if own is None or other is None:
        barely = abs(own if own is not None else other or 0.0) < SAME
        return "same" if barely else "theirs only" if own is None else "ours only"
    if abs(own - other) < SAME:
        return "same"
    if own < other:
        return "less"
    found.deeper.append((key[2], key[3], own - other))
    return "deeper"


def _runs(case: BenchmarkCase, pair: Pair, n_steps: int) -> tuple[int, int]:
    """From the file's start, with other commands every 20 steps: MuJoCo, MuJoCo perturbed, and ours."""
    model, rng = case.converged_mujoco_model(), np.random.default_rng(2)
    both = [mujoco.MjData(model) for _ in range(2)]
    if model.nkey:
        for data in both:
            mujoco.mj_resetDataKeyframe(model, data, 0)
    mujoco.mj_integratePos(model, both[1].qpos, PERTURBED * rng.choice([-1.0, 1.0], model.nv), 1.0)
    engine = _engine(case, 1, "double")
    put(engine, pair, both[:1])
    horizon = survived = n_steps
    for i in range(n_steps):
        if i % 20 == 0:
            act(model, both[0], rng)
            both[1].ctrl[:] = both[0].ctrl
            put(engine, pair, both[:1], "ctrl")
        with quiet():
            for data in both:
                mujoco.mj_step(model, data)
        engine.step()
        far = [
            np.abs(q - both[0].qpos[pair.q]).max()
            for q in (both[1].qpos[pair.q], engine.array_view("qpos").numpy()[:, 0])
        ]
        horizon = min(horizon, i if far[0] > STRAY else n_steps)
        survived = min(survived, i if not far[1] <= STRAY else n_steps)
        if horizon < n_steps and survived < n_steps:
            break
    return horizon, survived
