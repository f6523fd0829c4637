"""What lines leave to a team: all of it gets there, four numbers at a time, whoever computes it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.codegen import (
    WARP_MEMORY_HEADER,
    Target,
    WarpRegionConfig,
    emit_thread_kernel,
    emit_warp_kernel,
    warp_region_tables,
)
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    KernelPart,
    MemoryLocation,
    Program,
    Tracer,
    cos,
    optimise,
    partition_basic_block,
    round_up_to_4,
    sin,
    split_into_kernels,
)
from kinema.ir.scratch_layout import ROW_GROUP, VECTOR_WIDTH
from kinema.runtime import CACHE_ENV_VARIABLE

from .arenas import Memory, Numbers, interpreted
from .gpu_on_host import WARP_SIZE, run_on_host, run_warp_on_host

N_ENVS, STRIDE, SIZE, N_LIMBS, N_NUMBERS = 35, 64, 4, 2, 3
"""Environments of two warps, of which the second has few."""
MEMORY = Memory(state=[("x", N_LIMBS * N_NUMBERS), ("y", 2)])


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_ENV_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


def leaving(sizes: list[int], seed: int, limbs: list[int] | None = None) -> Program:
    """A line that leaves pieces of such sizes to a team, which adds up: of `limbs`, or of any or all of them."""
    rng, recorder = np.random.default_rng(seed), Tracer()
    x = [recorder.read("x", i) for i in range(N_LIMBS * N_NUMBERS)]
    starts = np.concatenate([[0], np.cumsum(sizes)]).tolist()
    rows = [*range(starts[-1])]
    for piece, (start, size) in enumerate(zip(starts, sizes, strict=False)):
        limb = limbs[piece] if limbs else int(rng.integers(N_LIMBS + 1))
        own = x if limb == N_LIMBS else x[limb * N_NUMBERS : (limb + 1) * N_NUMBERS]
        for row in range(start, start + size):
            a, b = (own[int(i)] for i in rng.integers(len(own), size=2))
            values = [a * b + float(row), sin(a), cos(a), float(row)]
            recorder.write(SCRATCH, [values[0 if limbs else int(rng.choice(4, p=[0.6, 0.15, 0.15, 0.1]))]], row)
    with recorder.warp_region("all"):
        found = [recorder.read(SCRATCH, row) for row in rows]
        total = found[0]
        for i, value in enumerate(found[1:]):
            total = total + float(i + 2) * value
        recorder.write("y", [total])
        recorder.new_basic_block()
        recorder.write(SCRATCH, [2.0 * recorder.read(SCRATCH, rows[-1])], starts[-1])
    recorder.write("y", [recorder.read(SCRATCH, starts[-1])], 1)
    return recorder.build(n_scratch=starts[-1] + 1, allocation_starts=starts)


def on_host(parts: list[KernelPart], numbers: Numbers, *, roles: bool) -> np.ndarray:
    """The state after all launches."""
    common = max(part.program.n_scratch for part in parts if not part.is_warp_region)
    n_given = max(part.handoff.end_row for part in parts)
    target = Target("double", is_gpu=True, n_scratch=common, n_handoff_rows=n_given)
    arrays: dict[str, Any] = {name: np.zeros((1, STRIDE)) for name in ("controls_start", "out", UNIFORM)}
    arrays[SCRATCH] = np.full((common, STRIDE), np.nan)
    arrays["state"] = np.pad(numbers["state"], ((0, 0), (0, STRIDE - N_ENVS)), constant_values=np.nan)
    for part in parts:
        own = replace(part, program=optimise(part.program)) if part.is_warp_region else part
        if part.is_warp_region:
            arrays["ints"], arrays["floats"] = warp_region_tables(own, target, SIZE)
            room = WarpRegionConfig(SIZE, round_up_to_4(max(own.program.n_scratch, 1)), round_up_to_4(own.n_global))
            arrays["memory"] = np.zeros(WARP_MEMORY_HEADER + N_ENVS * room.n_device_memory)
            text = emit_warp_kernel(own, MEMORY.places(), target, room)
            run_warp_on_host(text, arrays, (STRIDE, 2, 0, N_ENVS), SIZE)
            continue
        arrays["ints"], arrays["floats"] = own.program.pack_tables()
        programs = (
            partition_basic_block(own.program.basic_block, role_of, N_LIMBS) if roles else (optimise(own.program),)
        )
        text = emit_thread_kernel(programs, MEMORY.places(), target)
        run_on_host(
            text, arrays, (STRIDE, 1, 0, N_ENVS), n_blocks=STRIDE // WARP_SIZE, shape=(len(programs), WARP_SIZE)
        )
    return arrays["state"][:, :N_ENVS]


def role_of(location: MemoryLocation) -> int | None:
    return location.element // N_NUMBERS if location.array == "x" else None


@pytest.mark.parametrize("roles", [False, True])
@settings(max_examples=8)
@given(sizes=st.lists(st.integers(1, 19), min_size=1, max_size=12), seed=st.integers(0, 99))
def test_a_team_finds_what_lines_left(roles: bool, sizes: list[int], seed: int) -> None:
    program = leaving(sizes, seed)
    parts = split_into_kernels(program, SIZE)
    warp_part = next(part for part in parts if part.is_warp_region)
    assert not warp_part.copy_in
    assert len(warp_part.handoff.vector_targets) <= sum(sizes) // VECTOR_WIDTH + len(sizes) + 1
    assert all(part.program.n_scratch >= warp_part.handoff.end_row for part in parts if not part.is_warp_region)
    numbers = MEMORY.whole({"state": np.random.default_rng(seed).uniform(-1, 1, (8, N_ENVS))}, N_ENVS)
    wanted = interpreted(program, MEMORY, numbers, N_ENVS, 1)["state"]
    np.testing.assert_allclose(on_host(parts, numbers, roles=roles), wanted, rtol=1e-12)


def test_four_numbers_go_at_once() -> None:
    parts = split_into_kernels(leaving([ROW_GROUP] * 4, 3, [0, 1, 0, 1]), SIZE)
    n_given = max(part.handoff.end_row for part in parts)
    assert n_given == 4 * ROW_GROUP
    target = Target("single", is_gpu=True, n_scratch=parts[0].program.n_scratch, n_handoff_rows=n_given)
    text = emit_thread_kernel(
        partition_basic_block(parts[0].program.basic_block, role_of, N_LIMBS), MEMORY.places(), target
    )
    assert text.count("store <4 x float>") == 4 * ROW_GROUP // VECTOR_WIDTH
