"""Inverse kinematics, compiled and run: many targets at a time, on a CPU or GPU."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from kinema.backend import Arena, Arguments, Device, Kernel, Layout, n_threads, synchronise
from kinema.foundation import Array, KinemaError
from kinema.model import Model, Motion
from kinema.trace import UNIFORM

from .chain import Chain, chain_to, follow
from .descent import FAR, INPUTS, RESTARTS, TASKS, Record, descent_program, restarted
from .goals import Goal

N_RESTARTS = 100
"""Other starts that there are."""
PER_LANE = 48
"""Targets of a lane, where there are enough: so that lanes end at about the same time."""
GPU_LANES = 16_384
"""Lanes that keep a GPU busy."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Search:
    """How inverse kinematics goes about it."""

    pos_tol: float = 1e-4
    """What may be left of places [m], in the largest of them."""
    rot_tol: float = 1e-3
    """What may be left of angles [rad]."""
    max_solver_iters: int = 30
    """Steps from one start."""
    max_samples: int = 50
    """Starts, the given one among them."""
    damping: float = 1e-3
    """Of every step: its square is the weight of |step|^2 beside the squares of what is missing."""
    slope: float = 0.1
    """The part of the damping that shrinks as the squares of what is missing do."""
    max_step_size: float = 1.0
    """How far one degree of freedom goes in one step [rad or m]."""
    posture_gain: float = 0.3
    """Which part of the way to the posture is taken in a step."""
    respect_joint_limit: bool = True
    seed: int = 0
    """Of the other starts."""


METHODS: dict[str, dict[str, float]] = {
    "lm": {},
    "dls": {"damping": 3e-2, "slope": 0.0},
    "gauss-newton": {"damping": 3e-4, "slope": 0.0, "max_step_size": 0.5},
}
"""Levenberg and Marquardt's, with a damping that shrinks; damped least squares, with one that stays; and none."""


@dataclass(frozen=True, slots=True)
class Solutions:
    """What inverse kinematics found, a row for each target."""

    qpos: Array
    """(n, n_qs)"""
    solved: np.ndarray
    """(n,)"""
    pos_error: Array
    """The largest of what is left of places [m], (n,)."""
    rot_error: Array
    """The largest of what is left of angles [rad], (n,)."""
    attempts: np.ndarray
    """Starts that were tried, (n,)."""
    steps: np.ndarray
    """Steps that were taken, of all starts, (n,)."""


class InverseKinematics:
    """A program that finds coordinates at which some goals are reached; `solve` runs it for many targets at a time."""

    def __init__(
        self,
        model: Model,
        goals: Sequence[Goal],
        device: Device,
        *,
        dofs: Sequence[int] | None = None,
        posture: bool = False,
        precision: str = "single",
        threads: int | None = None,
    ) -> None:
        if not goals:
            raise KinemaError("inverse kinematics: nothing is asked for")
        links = [g.link_idx for g in goals if g.link_idx >= 0]
        self.model = model
        self.device = device
        self.precision = precision
        self.threads = threads
        self.chain: Chain = chain_to(model, links, dofs, whole=any(g.whole for g in goals))
        self.record = Record(self.chain, goals, posture)
        n, free = len(self.chain.qs), len(self.chain.free)
        shared = [*((name, 1) for name in INPUTS), ("lower", free), ("upper", free), (RESTARTS, n * (N_RESTARTS + 1))]
        self._uniform = Arena(Layout.of(UNIFORM, shared), 1, device, precision)
        self._nothing = Arena(Layout("out"), 1, device, precision)
        self._told = Arena(Layout("told"), 1, device, precision)
        places = {**self._uniform.layout.places(), **Layout.of("state", [(TASKS, 0)]).places()}
        self.kernel = Kernel(descent_program(self.record), places, device, precision)
        self._memory: Arena | None = None
        self._restarts: tuple[int, Array] | None = None

    def solve(self, targets: Sequence[Array], qpos: Array, search: Search, posture: Array | None = None) -> Solutions:
        """Coordinates for each target.

        Args:
            targets: of each goal its numbers, (n, size).
            qpos: where to start, (n, n_qs).
            search: how to go about it.
            posture: coordinates that those tend to which the goals leave free, (n, n_qs), if that was asked for.
        """
        n = len(qpos)
        lanes, turns = self._divide(n)
        qpos = self._within(qpos) if search.respect_joint_limit else qpos
        tasks = self._tasks(targets, qpos, posture, lanes * turns)
        memory = self._arena(lanes, turns + 1)
        size = self.record.size
        grid = np.zeros((turns + 1, size, lanes), memory.dtype)
        grid[:turns] = tasks.reshape(turns, lanes, size).transpose(0, 2, 1)
        rows = (turns + 1) * size
        memory.field(TASKS).assign(grid.reshape(rows, lanes))
        self._tell(search, turns)
        self.kernel.record(Arguments(memory, self._told.data, self._nothing, self._uniform, threads=self.threads))()
        synchronise(self.device)
        found = memory.field(TASKS).numpy().reshape(turns + 1, size, lanes)[:turns]
        return self._found(found.transpose(0, 2, 1).reshape(turns * lanes, size)[:n], qpos, search)

    def _divide(self, n: int) -> tuple[int, int]:
        """How many lanes, and how many targets to each."""
        if self.device.is_cpu:
            width = self.kernel.lanes * (self.threads or n_threads())
            turns = min(PER_LANE, max(1, n // width))
        else:
            turns = min(PER_LANE, max(1, n // GPU_LANES))
        return -(-n // turns), turns

    def _within(self, qpos: Array) -> Array:
        """Coordinates within the limits of what is free."""
        places, result = self.model.dofs.q_idx[self.chain.free], np.array(qpos, np.float64)
        lower, upper = (x[places >= 0] for x in self.chain.bounds())
        result[:, places[places >= 0]] = np.clip(result[:, places[places >= 0]], lower, upper)
        return result

    def _tasks(self, targets: Sequence[Array], qpos: Array, posture: Array | None, count: int) -> Array:
        """A record for each target; where lanes have room for more, the last one again."""
        n, chain = len(qpos), self.chain
        parts = [*targets, qpos[:, chain.qs], np.tile([FAR, FAR, 0.0, 0.0], (n, 1))]
        if self.record.posture:
            wished = qpos if posture is None else posture
            places = chain.model.dofs.q_idx[chain.free]
            parts.append(np.where(places >= 0, wished[:, places], 0.0))
        tasks = np.concatenate(parts, axis=1)
        return tasks if count == n else np.concatenate([tasks, np.repeat(tasks[-1:], count - n, axis=0)])

    def _arena(self, lanes: int, turns: int) -> Arena:
        layout = Layout.of("state", [(TASKS, turns * self.record.size)])
        if self._memory is None or (self._memory.n_envs, self._memory.layout.n_rows) != (lanes, layout.n_rows):
            self._memory = Arena(layout, lanes, self.device, self.precision)
        return self._memory

    def _tell(self, search: Search, turns: int) -> None:
        values = {
            "n_targets": turns,
            "n_steps": search.max_solver_iters,
            "n_attempts": min(search.max_samples, N_RESTARTS + 1),
            "pos_tol": search.pos_tol,
            "rot_tol": search.rot_tol,
            "damping": search.damping**2,
            "slope": search.slope,
            "max_step": search.max_step_size,
            "posture_gain": search.posture_gain,
        }
        lower, upper = self.chain.bounds()
        if not search.respect_joint_limit:
            lower, upper = np.full_like(lower, -1e30), np.full_like(upper, 1e30)
        if self._restarts is None or self._restarts[0] != search.seed:
            self._restarts = search.seed, self._drawn(search.seed)
        arrays = {**values, "lower": lower, "upper": upper, RESTARTS: self._restarts[1].ravel()}
        flat = np.concatenate([np.atleast_1d(np.asarray(arrays[name], float)) for name in self._uniform.layout.rows])
        if self.device.is_cpu:
            self._uniform.data[:] = flat
        else:
            self._uniform.data.assign(flat.astype(self._uniform.dtype))

    def _drawn(self, seed: int) -> Array:
        """Other starts, between the limits: (N_RESTARTS + 1, n)."""
        rng, chain = np.random.default_rng(seed), self.chain
        starts = np.tile(self.model.qpos0[chain.qs], (N_RESTARTS + 1, 1))
        lower, upper = chain.bounds()
        drawn = restarted(chain)
        for dof, low, high in zip(chain.free, lower, upper, strict=True):
            place = int(self.model.dofs.q_idx[dof])
            if place not in drawn:
                continue
            if high - low > 1e6 or (high - low > 2 * np.pi and chain.tree.node_of(dof).motion == Motion.HINGE):
                middle = float(np.clip(self.model.qpos0[place], low + np.pi, high - np.pi))
                low, high = middle - np.pi, middle + np.pi
            starts[:, chain.qs.index(place)] = rng.uniform(low, high, N_RESTARTS + 1)
        return starts

    def _found(self, tasks: Array, qpos: Array, search: Search) -> Solutions:
        record = self.record
        q = np.array(qpos, np.float64)
        q[:, self.chain.qs] = tasks[:, record.q : record.errors]
        pos, rot, attempts, steps = tasks[:, record.errors : record.errors + 4].T.astype(np.float64)
        solved = (pos < search.pos_tol) & (rot < search.rot_tol)
        return Solutions(follow(self.model, q), solved, pos, rot, attempts.astype(int), steps.astype(int))
