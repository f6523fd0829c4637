"""Steps on a CPU with commands that change, in one launch that keeps what comes of each."""

from __future__ import annotations

import numpy as np

from kinema.backend import Arena

from .engine import Engine

SEEN = ("qpos", "vel")
"""What is kept after each turn."""


class InTurn:
    """Turns of a few steps each: made once, run as often as asked.

    Between turns no thread waits for the others, and nothing is done in Python but to note what came of them.
    """

    def __init__(self, engine: Engine, turns: int, steps: int) -> None:
        self.turns, self.steps = turns, steps
        self._engine = engine
        self._rows = engine.told.layout.n_rows
        self.told: Arena = engine.sequence(turns)
        self.seen: dict[str, np.ndarray] = {}
        """By name (turns, items, environments), of the last run."""
        parts = [self.told.data[t * self._rows : (t + 1) * self._rows] for t in range(turns)]
        self._kernel = engine._kernel()
        self._launch = self._kernel.in_turn([engine._told(part, steps) for part in parts], self._note)

    def fits(self, engine: Engine, turns: int, steps: int) -> bool:
        """Whether it is what is wanted: so many turns of so many steps, by the program that the engine runs now."""
        return (engine, engine._kernel(), turns, steps) == (self._engine, self._kernel, self.turns, self.steps)

    def run(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Take all turns: values (turns, items, environments) of an array of the commands; all others stay."""
        engine = self._engine
        start, _ = engine.told.layout.rows[name]
        told = self.told.data.reshape(self.turns, self._rows, -1)
        told[:] = engine.told.data
        told[:, start + rows, : engine.n_envs] = values
        self.seen = {n: np.zeros((self.turns, *engine.field(n).shape), self.told.dtype) for n in SEEN}
        self._now = {n: engine.field(n).numpy() for n in SEEN}
        engine.settle()
        self._launch()
        engine.count(self.turns * self.steps)
        engine.told.data[:] = told[-1]
        engine.touch()

    def _note(self, turn: int, envs: slice) -> None:
        for name, seen in self.seen.items():
            seen[turn, :, envs] = self._now[name][:, envs]
