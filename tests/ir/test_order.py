"""Teams take environments with most to do first."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

from kinema.codegen import (
    WARP_MEMORY_HEADER,
    Target,
    WarpRegionConfig,
    emit_binning_kernel,
    emit_warp_kernel,
    env_bins_size,
    warp_region_tables,
)
from kinema.codegen.cuda.environment_binning import BIN_THRESHOLDS, N_BINS
from kinema.ir import SCRATCH, UNIFORM, KernelPart, MemoryLocation, Tracer, optimise, split_into_kernels
from kinema.runtime.cuda_driver import compile_ptx

from .arenas import Memory
from .gpu_on_host import WARP_SIZE, run_warp_on_host, run_work_queue_on_host

N_ENVS, STRIDE = 41, 64
MEMORY = Memory(state=[("x", 2), ("turn", 1), ("y", 1)])
COUNTS = (0, 1)
"""Rows of the scratch memory that say how much there is to do."""


def parts() -> list[KernelPart]:
    """A team that adds one to a number, for as many contacts as two counters say."""
    recorder = Tracer()
    recorder.write(SCRATCH, [recorder.read("x", i) for i in range(2)])
    with recorder.warp_region("turns", [MemoryLocation(SCRATCH, row) for row in COUNTS]):
        recorder.write("y", [recorder.read(SCRATCH, 0) + recorder.read(SCRATCH, 1) + 1.0])
    return split_into_kernels(recorder.build(n_scratch=2), 4)


def on_host(numbers: np.ndarray) -> tuple[dict[str, Any], KernelPart, Target]:
    """The order that is found, in the memory of teams."""
    _, part = parts()
    assert len(part.workload_offsets) == len(COUNTS)
    target = Target("double", is_gpu=True, n_scratch=2)
    common = np.full((STRIDE // WARP_SIZE, 2, WARP_SIZE), np.nan)
    common[:, part.workload_offsets, :] = (
        np.pad(numbers, ((0, 0), (0, STRIDE - N_ENVS))).reshape(2, -1, WARP_SIZE).swapaxes(0, 1)
    )
    arrays: dict[str, Any] = {name: np.zeros((5, STRIDE)) for name in ("state", "controls_start", "out")}
    arrays |= {SCRATCH: common, UNIFORM: np.zeros(1)}
    arrays["ints"], arrays["floats"] = warp_region_tables(part, target, 4)
    arrays["memory"] = np.zeros(
        WARP_MEMORY_HEADER + env_bins_size(STRIDE) + 4 * WarpRegionConfig(4, 8, 0).n_device_memory
    )
    run_work_queue_on_host(emit_binning_kernel(part, target), arrays, (STRIDE, 1, 0, N_ENVS), 1, STRIDE // WARP_SIZE)
    return arrays, part, target


def lists_of(memory: np.ndarray) -> list[list[int]]:
    whole = memory.view(np.int32)[WARP_MEMORY_HEADER:]
    lists = whole[N_BINS : N_BINS * (1 + STRIDE)].reshape(N_BINS, STRIDE)
    return [own[:count].tolist() for own, count in zip(lists, whole[:N_BINS], strict=True)]


@pytest.mark.parametrize("most", [1, 4, 30])
def test_each_environment_is_in_the_list_for_what_it_has_to_do(most: int) -> None:
    numbers = np.random.default_rng(0).integers(0, most, (2, N_ENVS)).astype(float)
    arrays, _, _ = on_host(numbers)
    wanted = np.searchsorted(BIN_THRESHOLDS, numbers.sum(0), side="right")
    found = lists_of(arrays["memory"])
    assert [sorted(own) for own in found] == [np.flatnonzero(wanted == i).tolist() for i in range(N_BINS)]


def test_teams_go_through_the_lists_and_leave_them_empty() -> None:
    numbers = np.random.default_rng(0).integers(0, 12, (2, N_ENVS)).astype(float)
    arrays, part, target = on_host(numbers)
    own = replace(part, program=optimise(part.program))
    text = emit_warp_kernel(own, MEMORY.places(), target, WarpRegionConfig(4, 8, 0), binned=True)
    run_warp_on_host(text, arrays, (STRIDE, 1, 0, N_ENVS), 4)
    np.testing.assert_array_equal(arrays["state"][3, :N_ENVS], numbers.sum(0) + 1.0)
    assert lists_of(arrays["memory"]) == [[]] * N_BINS
    assert "atom" in compile_ptx(emit_binning_kernel(part, target), 64).decode()


def test_lists_are_emptied_once_all_is_found() -> None:
    _, part = parts()
    arrays, _, target = on_host(np.zeros((2, N_ENVS)))
    arrays["controls_start"] = np.arange(1, 6, dtype=np.int32)
    run_work_queue_on_host(emit_binning_kernel(part, target, 3), arrays, (STRIDE, 1, 0, N_ENVS), 1, STRIDE // WARP_SIZE)
    assert arrays["controls_start"].tolist() == [0, 0, 0, 4, 5]
