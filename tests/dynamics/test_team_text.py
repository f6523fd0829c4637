"""Steps with contacts in the text that a GPU gets, run thread by thread on this machine: what NumPy makes of them."""

from __future__ import annotations

import itertools
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.codegen import (
    WARP_MEMORY_HEADER,
    Target,
    WarpRegionConfig,
    emit_thread_kernel,
    emit_warp_kernel,
    warp_region_tables,
)
from kinema.ir import SCRATCH, KernelPart, optimise, round_up_to_4
from kinema.ir.interpreter import interpret_kernel_part
from kinema.ir.scratch_layout import handoff_offset
from kinema.runtime.compilation import plan_occupancy
from kit.choosing import representative_tuples

from ..ir.gpu_on_host import WARP_SIZE as WARP, run_on_host, run_warp_on_host
from .test_team_steps import CONES, N_ENVS, PYRAMIDS, TRAY, Launches, run_kernels

STRIDE = WARP
TEXTS = {"cones": CONES, "pyramids": PYRAMIDS, "tray": TRAY}


class Common:
    """The scratch memory of threads, as it lies in the memory of a GPU."""

    def __init__(self, parts: list[KernelPart], kind: type) -> None:
        self.n_rows = max(part.program.n_scratch for part in parts if not part.is_warp_region)
        self.n_given = max(part.handoff.end_row for part in parts)
        self.memory = np.full(self.n_rows * WARP, np.nan, kind)

    def places(self, row: int) -> np.ndarray:
        """Where a row's numbers are, of each environment."""
        envs = np.arange(N_ENVS)
        return handoff_offset(row, WARP) + 8 * envs if row < self.n_given else row * WARP + envs

    def rows(self) -> np.ndarray:
        return np.array([self.memory[self.places(row)] for row in range(self.n_rows)], np.float64)

    def put(self, rows: np.ndarray) -> None:
        for row, values in enumerate(rows):
            self.memory[self.places(row)] = values


def _absent() -> Launches:
    """Three boxes on each other, of which each environment has another one removed."""
    scene = km.Scene(quiet=True, precision="double", cone="elliptic")
    scene.add(km.Plane())
    bodies = [scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0.02 * i, 0, 0.049 + 0.09 * i)) for i in range(3)]
    return Launches.of_scene(scene, lambda: [scene.remove(bodies[1 - i], i) for i in range(2)], room=0)


@pytest.mark.slow("interprets each instruction of a kernel in NumPy")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
@pytest.mark.parametrize(
    ("name", "precision"),
    representative_tuples(
        itertools.product([*TEXTS, "absent"], ["double", "single"]),
        lambda case: case in {("tray", "double"), ("pyramids", "single")},
    ),
)
def test_a_step_as_a_gpu_is_told_it(name: str, precision: str, tmp_path: Path) -> None:
    near, kind = (2e-5, np.float32) if precision == "single" else (1e-9, np.float64)
    made = _absent() if name == "absent" else Launches.of(TEXTS[name], tmp_path)
    expected = {name: x.copy() for name, x in made.start.items()}
    run_kernels(made.parts, expected, made.engine.array_offsets)
    common, places = Common(made.parts, kind), made.engine.array_offsets
    target = Target(precision, is_gpu=True, n_scratch=common.n_rows, n_handoff_rows=common.n_given)
    numbers = {name: x.astype(kind) for name, x in made.start.items()}
    arrays: dict[str, Any] = {
        name: np.pad(numbers[name], ((0, 1), (0, STRIDE - N_ENVS))) for name in ("state", "controls")
    }
    arrays |= {"controls_start": arrays["controls"], "out": np.zeros((1, STRIDE), kind), "uniform": numbers["uniform"]}
    arrays[SCRATCH] = common.memory
    for part in made.parts:
        if part.work_queue_loop is not None:
            rows, seen = common.rows(), {name: arrays[name][:-1, :N_ENVS] for name in ("state", "controls")}
            interpret_kernel_part(part.program, {**seen, "uniform": numbers["uniform"], SCRATCH: rows}, places)
            common.put(rows)
        elif part.is_warp_region:
            own = plan_occupancy(replace(part, program=optimise(part.program)), target.scalar_bytes).part
            room = WarpRegionConfig(WARP, round_up_to_4(own.program.n_scratch), round_up_to_4(own.n_global))
            ints, floats = warp_region_tables(own, target, WARP)
            arrays |= {"ints": ints, "floats": floats.astype(kind)}
            arrays["memory"] = np.full(WARP_MEMORY_HEADER + room.n_device_memory, np.nan, kind)
            run_warp_on_host(emit_warp_kernel(own, places, target, room), arrays, (STRIDE, 1, 0, N_ENVS), WARP)
        else:
            ints, floats = part.program.pack_tables()
            arrays |= {"ints": ints, "floats": floats.astype(kind)}
            own_text = emit_thread_kernel((optimise(part.program),), places, target)
            run_on_host(own_text, arrays, (STRIDE, 1, 0, N_ENVS), n_blocks=1, shape=(1, N_ENVS))
    row, n = made.row("vel"), made.engine.model.n_dofs
    found, known = (x["state"][row : row + n, :N_ENVS] for x in (arrays, expected))
    np.testing.assert_allclose(found, known, rtol=near, atol=near * np.abs(known).max())
