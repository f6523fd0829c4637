"""Steps with contacts in the text that a GPU gets, run thread by thread on this machine: what NumPy makes of them."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.backend.team_room import room_of_team
from kinema.trace import N_HEAD, SCRATCH, Part, Room, Target, emit_gpu, emit_team, optimise, team_tables, whole
from kinema.trace.given import offset
from kinema.trace.interpret import interpret_part
from kit.choosing import combinations

from ..trace.gpu_on_host import WARP, run_on_host, run_team_on_host
from .test_team_steps import CONES, N_ENVS, PYRAMIDS, Launches, run_in_parts

STRIDE = WARP


class Common:
    """The scratch memory of threads, as it lies in the memory of a GPU."""

    def __init__(self, parts: list[Part], kind: type) -> None:
        self.n_rows = max(part.program.n_scratch for part in parts if not part.is_team)
        self.n_given = max(part.given.end for part in parts)
        self.memory = np.full(self.n_rows * WARP, np.nan, kind)

    def places(self, row: int) -> np.ndarray:
        """Where a row's numbers are, of each environment."""
        envs = np.arange(N_ENVS)
        return offset(row, WARP) + 8 * envs if row < self.n_given else row * WARP + envs

    def rows(self) -> np.ndarray:
        return np.array([self.memory[self.places(row)] for row in range(self.n_rows)], np.float64)

    def put(self, rows: np.ndarray) -> None:
        for row, values in enumerate(rows):
            self.memory[self.places(row)] = values


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(("name", "precision"), combinations(["cones", "pyramids"], ["double", "single"], strength=1))
def test_a_step_as_a_gpu_is_told_it(name: str, precision: str, tmp_path: Path) -> None:
    text, near = {"cones": CONES, "pyramids": PYRAMIDS}[name], 2e-5 if precision == "single" else 1e-9
    made, kind = Launches.of(text, tmp_path), np.float32 if precision == "single" else np.float64
    expected = {name: x.copy() for name, x in made.start.items()}
    run_in_parts(made.parts, expected, made.engine.places)
    common, places = Common(made.parts, kind), made.engine.places
    target = Target(precision, gpu=True, n_scratch=common.n_rows, n_given=common.n_given)
    numbers = {name: x.astype(kind) for name, x in made.start.items()}
    arrays: dict[str, Any] = {name: np.pad(numbers[name], ((0, 1), (0, STRIDE - N_ENVS))) for name in ("state", "told")}
    arrays |= {"told_start": arrays["told"], "out": np.zeros((1, STRIDE), kind), "uniform": numbers["uniform"]}
    arrays[SCRATCH] = common.memory
    for part in made.parts:
        if part.spread is not None:
            rows, seen = common.rows(), {name: arrays[name][:-1, :N_ENVS] for name in ("state", "told")}
            interpret_part(part.program, {**seen, "uniform": numbers["uniform"], SCRATCH: rows}, places)
            common.put(rows)
        elif part.is_team:
            own = room_of_team(replace(part, program=optimise(part.program)), target.bytes).part
            room = Room(WARP, whole(own.program.n_scratch), whole(own.n_far))
            ints, floats = team_tables(own, target, WARP)
            arrays |= {"ints": ints, "floats": floats.astype(kind)}
            arrays["memory"] = np.full(N_HEAD + room.n_memory, np.nan, kind)
            run_team_on_host(emit_team(own, places, target, room), arrays, (STRIDE, 1, 0, N_ENVS), WARP)
        else:
            ints, floats = part.program.tables()
            arrays |= {"ints": ints, "floats": floats.astype(kind)}
            own_text = emit_gpu((optimise(part.program),), places, target)
            run_on_host(own_text, arrays, (STRIDE, 1, 0, N_ENVS), n_blocks=1, shape=(1, N_ENVS))
    row, n = made.row("vel"), made.engine.model.n_dofs
    found, known = (x["state"][row : row + n, :N_ENVS] for x in (arrays, expected))
    np.testing.assert_allclose(found, known, rtol=near, atol=near * np.abs(known).max())
