"""How much memory a team has near at hand, and how much is left for the cache."""

from __future__ import annotations

import pytest

from kinema.ir import SCRATCH, MemoryLocation, SharedMemoryStaging, Tracer, split_into_kernels
from kinema.runtime import cuda_driver
from kinema.runtime.compilation import MAX_SHARED_BYTES, plan_occupancy
from kinema.runtime.cuda_driver import CARVEOUT_STEPS, blocks_fitting

WIDTH, CAPACITY = 184, 40


def with_list(own: int, most: int = 8, fewest: int | None = 5) -> tuple[int, int, int | None]:
    """Of a team with so many numbers, and a list of which some are near: all numbers there, elements of it, teams."""
    recorder = Tracer()
    with recorder.warp_region("all"):
        recorder.write(SCRATCH, [0.0], own - 1)
        first, used = MemoryLocation(SCRATCH, own), MemoryLocation(SCRATCH, 0)
        recorder.add_statement(SharedMemoryStaging("list", first, CAPACITY * WIDTH, WIDTH, used, most, fewest), {})
        recorder.parallel_loop(
            "items", 3.0, lambda turn: recorder.write(SCRATCH, [1.0], own, turn * float(WIDTH)) or []
        )
    program = recorder.build(n_scratch=own + CAPACITY * WIDTH, allocation_starts=[0, own], oversized_lists=[own])
    (part,) = split_into_kernels(program, cuda_driver.WARP_SIZE)
    found = plan_occupancy(part, 4)
    (choose,) = (block for block in found.part.program.body if isinstance(block, SharedMemoryStaging))
    assert not found.config.uses_shared_memory or choose.shared_offset + choose.staged_size <= found.config.n_shared
    return found.config.n_shared, choose.max_staged, found.min_blocks_per_sm


def test_fewer_items_are_near_where_the_cache_would_be_small() -> None:
    """As many teams as without, on the step before the last."""
    near, most, n_groups = with_list(2720)
    assert (most, n_groups) == (6, 12)
    assert blocks_fitting(4 * near, CARVEOUT_STEPS[-2]) >= 12 > blocks_fitting(4 * (near + WIDTH), CARVEOUT_STEPS[-2])


@pytest.mark.parametrize(("own", "fewest"), [(1044, 5), (2720, None), (2720, 7)])
def test_all_are_near_where_that_changes_nothing(own: int, fewest: int | None) -> None:
    """Where there are many teams, where a list is not to be shortened, and where shortening it would not be enough."""
    _, most, n_groups = with_list(own, fewest=fewest)
    assert most == 8
    assert n_groups == (20 if own == 1044 else 12)


def test_a_team_that_is_too_large_has_nothing_near() -> None:
    near, most, n_groups = with_list(MAX_SHARED_BYTES // 4)
    assert (most, n_groups) == (8, None)
    assert near > MAX_SHARED_BYTES // 4


@pytest.mark.parametrize(
    ("own", "registers", "step"),
    [(9680, 96, 196), (15296, 166, 196), (8288, 80, 228), (16624, 127, 228), (6000, 96, 132), (100, 32, 64)],
)
def test_the_cache_gets_what_few_blocks_need(own: int, registers: int, step: int) -> None:
    """A step less where that costs a tenth of the blocks, or fewer; asked for by a little more than the step before."""
    percent = cuda_driver._carveout_percent(own, cuda_driver._warps_fitting(registers))
    before = [s for s in (0, *CARVEOUT_STEPS) if 100 * s < percent * CARVEOUT_STEPS[-1]][-1]
    assert next(s for s in CARVEOUT_STEPS if s > before) == 1024 * step
    assert 100 * before / CARVEOUT_STEPS[-1] < percent < 100 * 1024 * step / CARVEOUT_STEPS[-1]


@pytest.mark.parametrize(
    ("registers", "warps"), [(32, 32), (96, 20), (97, 16), (128, 16), (130, 12), (168, 12), (179, 8), (255, 8)]
)
def test_warps_run_in_quarters(registers: int, warps: int) -> None:
    """Measured on an H200: a quarter's registers are for its own warps."""
    assert cuda_driver._warps_fitting(registers) == warps
