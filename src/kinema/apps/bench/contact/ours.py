"""This simulator, with things that touch."""

from __future__ import annotations

import time
from collections.abc import Callable
from dataclasses import replace
from functools import cached_property

import numpy as np

from kinema.backend import find_device, synchronise
from kinema.sim import Engine

from .case import STEPS, TouchCase
from .figures import Counts, device_bytes

EXACT, MOST_ITERATIONS = 1e-14, 300
"""How well, and in how many steps at most, a solution in double precision is found."""


class Ours:
    """An engine on one core of a CPU or on a GPU."""

    def __init__(self, case: TouchCase, n_envs: int, device: str) -> None:
        self.case, self.n_envs = case, n_envs
        before, began = device_bytes(device), time.perf_counter()
        found = find_device(device)
        self.engine = Engine(case.model, case.settings, n_envs, found, threads=1 if found.is_cpu else None)
        self.engine.prepare()
        self.build_seconds = time.perf_counter() - began
        self.commands = case.commands(n_envs)
        self.counts = self.counted()
        rows = self.engine.state.layout.n_rows + self.engine.told.layout.n_rows
        used = device_bytes(device) - before
        self.bytes_per_env = rows * 4.0 if self.engine.device.is_cpu else used / n_envs
        self.sequence = self.engine.sequence(STEPS)
        for t in range(STEPS):
            if case.model.n_actuators:
                self.sequence.field(f"ctrl {t}").assign(self.commands[t])

    def start(self) -> None:
        """All environments into the states to start from."""
        _put(self.engine, self.case)

    @cached_property
    def own_error(self) -> float:
        """Of velocities after one step, against their change, from those in double precision; median."""
        case, n = self.case, min(self.n_envs, self.case.n_starts)
        settings = replace(case.settings, tolerance=EXACT, iterations=MOST_ITERATIONS)
        exact = Engine(case.model, settings, n, find_device("cpu"), precision="double", threads=1)
        _put(exact, case)
        if case.model.n_actuators:
            exact.field("ctrl").assign(np.ascontiguousarray(self.commands[0][:, :n]))
        exact.step()
        velocities = np.array(exact.field("vel").numpy()).T
        change = np.abs(velocities - case.starts(n)[1]).max(axis=1)
        return float(np.median(np.abs(self.counts.first[:n] - velocities).max(axis=1) / np.maximum(change, 1e-9)))

    def counted(self) -> Counts:
        """One rollout, step by step."""
        found, engine = Counts(), self.engine
        self.start()
        for t in range(STEPS):
            if self.case.model.n_actuators:
                engine.field("ctrl").assign(self.commands[t])
            engine.step()
            found.contacts.append(float(engine.field("n_contacts").numpy().mean()))
            found.iterations.append(float(engine.field("n_iterations").numpy().mean()))
            if t == 0:
                found.first = np.array(engine.field("vel").numpy(), dtype=np.float64).T
        found.overflows = int((engine.field("most_wanted").numpy() > 0).sum())
        found.most_contacts = int(engine.field("most_contacts").numpy().max())
        return found

    def is_finite(self) -> bool:
        """Whether it is, and nothing was flagged."""
        engine = self.engine
        return bool(np.isfinite(engine.field("qpos").numpy()).all() and not engine.field("error").numpy().any())


def _put(engine: Engine, case: TouchCase) -> None:
    """All environments of an engine into the states to start from."""
    qpos, qvel = case.starts(engine.n_envs)
    engine.reset()
    engine.field("qpos").assign(np.ascontiguousarray(qpos.T))
    engine.field("vel").assign(np.ascontiguousarray(qvel.T))
    synchronise(engine.device)


class OurRollout:
    """One way of running an engine: all steps in one launch, or a launch for each."""

    def __init__(self, ours: Ours, *, one_launch: bool) -> None:
        self.ours, self.n_envs = ours, ours.n_envs
        self.bytes_per_env, self.build_seconds = ours.bytes_per_env, ours.build_seconds
        self.counts = ours.counts
        self.name = "Kinema, rollout" if one_launch else "Kinema, step by step"
        self.name += ", one core" if ours.engine.device.is_cpu else ""
        self._launch: Callable[[], None] = ours.engine.rollout(ours.sequence, one_launch=one_launch)

    def start(self) -> None:
        """The engine's."""
        self.ours.start()

    def run(self) -> None:
        """One rollout, to its end."""
        self._launch()
        synchronise(self.ours.engine.device)

    def is_finite(self) -> bool:
        """The engine's."""
        return self.ours.is_finite()
