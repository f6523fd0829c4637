"""Looking at a scene: programs of what is asked for, traced once and run by NumPy."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.sim import observing_program
from kinema.trace import Program, interpret

from .memory import Memory


class Observer:
    """Remembers the programs."""

    def __init__(self, memory: Memory) -> None:
        self.memory = memory
        self._programs: dict[object, Program] = {}

    def __call__(self, what: str, links: Sequence[int] = ()) -> np.ndarray:
        """One of `kinema.sim.observe.OBSERVABLES`, (items, environments)."""
        engine = self.memory.engine
        key: tuple[object, ...] = (what, tuple(links))
        if what.startswith("dofs"):  # which depend on who controls what, and how stiffly
            key += (engine.settings, engine.model.dofs.kp.tobytes(), engine.model.dofs.kv.tobytes())
        program = self._programs.get(key)
        if program is None:
            program = self._programs[key] = observing_program(engine.model, engine.settings, what, links)
        arrays = {name: self.memory.all(name) for name in ("qpos", *program.inputs)}
        with np.errstate(all="ignore"):  # environments that went wrong are no news here
            return interpret(program, arrays)["out"]
