"""Programs run in arenas of numbers: as compiled for the CPU, and by the interpreter."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.ir import UNIFORM, ArenaOffset, Program, interpret_in_place
from kinema.runtime import Arena, ArenaLayout, Kernel, LaunchArguments, find_device

ARENAS = ("state", "controls", "out", UNIFORM)
Numbers = dict[str, np.ndarray]
"""By arena: rows by environments; `controls` has those of all steps, and what environments share one column."""


@dataclass(frozen=True)
class Memory:
    """The arrays of each arena, and how many elements they have."""

    state: Sequence[tuple[str, int]] = ()
    controls: Sequence[tuple[str, int]] = ()
    out: Sequence[tuple[str, int]] = ()
    uniform: Sequence[tuple[str, int]] = ()

    def layout(self, arena: str) -> ArenaLayout:
        return ArenaLayout.from_sizes(arena, getattr(self, arena))

    def places(self) -> dict[str, ArenaOffset]:
        return {array: place for arena in ARENAS for array, place in self.layout(arena).offsets().items()}

    def n_rows(self, arena: str) -> int:
        return self.layout(arena).n_rows

    def whole(self, numbers: Mapping[str, np.ndarray], n_envs: int, steps: int = 1) -> Numbers:
        """Copies of the numbers that are given, and zeros for the rest."""
        times = {"controls": steps}
        made = {a: np.zeros((self.n_rows(a) * times.get(a, 1), 1 if a == UNIFORM else n_envs)) for a in ARENAS}
        for arena, values in numbers.items():
            made[arena][:] = values
        return made


def kernel(program: Program, memory: Memory, lanes: int | None, precision: str = "double", **how: Any) -> Kernel:
    return Kernel(program, memory.places(), find_device("cpu"), precision, lanes=lanes, **how)


def launched(
    made: Kernel, memory: Memory, numbers: Numbers, n_envs: int, steps: int = 1, threads: int | None = None
) -> Numbers:
    """What is in the arenas after some steps of a compiled program, in one launch."""
    arenas: dict[str, Arena] = {}
    for name in ARENAS:
        count = memory.n_rows(name) * (steps if name == "controls" else 1)
        arenas[name] = Arena(ArenaLayout.from_sizes(name, [("all", count)]), n_envs, made.device, made._precision)
        if count:
            arenas[name].view("all").assign(numbers[name])
    arguments = LaunchArguments(
        arenas["state"],
        arenas["controls"].data,
        arenas["out"],
        arenas[UNIFORM],
        steps=steps,
        input_rows_per_step=memory.n_rows("controls"),
        max_threads=threads,
    )
    made.prepare_launch(arguments)()
    return {name: arena.view("all").numpy().copy() for name, arena in arenas.items()}


def compiled(
    program: Program, memory: Memory, numbers: Mapping[str, np.ndarray], n_envs: int, *, lanes: int, steps: int = 1
) -> Numbers:
    """The same from a program, in double precision."""
    return launched(kernel(program, memory, lanes), memory, memory.whole(numbers, n_envs, steps), n_envs, steps)


def interpreted(
    program: Program, memory: Memory, numbers: Mapping[str, np.ndarray], n_envs: int, steps: int = 1, runs: int = 1
) -> Numbers:
    """What the interpreter makes of it, step by step."""
    arenas = memory.whole(numbers, n_envs, steps)
    controls, advance = arenas["controls"], memory.n_rows("controls")
    with np.errstate(all="ignore"):  # environments that take no part may compute anything
        for step in range(steps):
            own = {**arenas, "controls": controls[step * advance : (step + 1) * advance]}
            interpret_in_place(program, own, memory.places(), runs)
    return arenas


def same_bits(a: Numbers, b: Numbers) -> None:
    """Not one bit differs: of a NaN neither, nor the sign of a zero."""
    for arena, values in a.items():
        kind = np.uint64 if values.dtype == np.float64 else np.uint32
        np.testing.assert_array_equal(
            np.ascontiguousarray(values).view(kind), np.ascontiguousarray(b[arena]).view(kind), arena
        )
