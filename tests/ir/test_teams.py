"""Teams: threads that share the rows of loops do what one does that runs them in order, to the last bit."""

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
    ArenaOffset,
    ForEachLoop,
    IterationContext,
    KernelPart,
    LoopIteration,
    Program,
    Tracer,
    interpret_in_place,
    optimise,
    round_up_to_4,
    split_into_kernels,
    trace_for_each_loop,
)
from kinema.ir.program import WarpRegion
from kinema.ir.scratch_layout import ROW_GROUP
from kinema.runtime import CACHE_ENV_VARIABLE
from kinema.runtime.cuda_driver import compile_ptx

from .arenas import Memory, Numbers, interpreted
from .gpu_on_host import run_on_host, run_warp_on_host
from .random_programs import MEMORY, random_numbers, recorded, some_tree, trees
from .test_random_programs import agree

N_ENVS, STRIDE, SIZE = 2, 32, 4


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_ENV_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


def as_team(program: Program) -> Program:
    """The whole of it as the work of a team."""
    return replace(program, body=(WarpRegion("all", program.body),))


def scheduled(part: KernelPart) -> KernelPart:
    return replace(part, program=optimise(part.program)) if part.is_warp_region else part


def on_host(parts: list[KernelPart], memory: Memory, numbers: Numbers, size: int = SIZE) -> Numbers:
    """What is in the arenas after all launches, each thread a thread of this machine."""
    common = max([part.program.n_scratch for part in parts if not part.is_warp_region], default=1)
    arrays: dict[str, Any] = {SCRATCH: np.full((common, STRIDE), np.nan)}
    for arena, values in numbers.items():
        wide = np.full((max(len(values), 1), 1 if arena == UNIFORM else STRIDE), np.nan)
        wide[: len(values), : values.shape[1]] = values
        arrays["controls_start" if arena == "controls" else arena] = wide
    integers = (STRIDE, 1, 0, N_ENVS)
    n_given = max(part.handoff.end_row for part in parts)
    for part in parts:
        target = Target("double", is_gpu=True, n_scratch=common, n_handoff_rows=n_given)
        if part.is_warp_region:
            arrays["ints"], arrays["floats"] = warp_region_tables(part, target, size)
            room = WarpRegionConfig(size, round_up_to_4(max(part.program.n_scratch, 1)), round_up_to_4(part.n_global))
            # some of these programs read what nobody wrote: a team for each environment
            arrays["memory"] = np.zeros(WARP_MEMORY_HEADER + N_ENVS * room.n_device_memory)
            run_warp_on_host(
                emit_warp_kernel(part, memory.places(), target, room), arrays, (STRIDE, N_ENVS, 0, N_ENVS), size
            )
        else:
            arrays["ints"], arrays["floats"] = part.program.pack_tables()
            text = emit_thread_kernel((optimise(part.program),), memory.places(), target)
            run_on_host(text, arrays, integers, n_blocks=1, shape=(1, N_ENVS))
    result: Numbers = {}
    for arena, values in numbers.items():
        found = arrays["controls_start" if arena == "controls" else arena]
        assert np.isnan(found[:, values.shape[1] :]).all(), "it has written beside its environments"
        result[arena] = found[: len(values), : values.shape[1]]
    return result


@settings(max_examples=25)
@given(tree=trees(), seed=st.integers(0, 5))
def test_a_team_does_what_the_interpreter_does(tree: tuple[Any, ...], seed: int) -> None:
    numbers = random_numbers(seed, N_ENVS, 1)
    program = recorded(tree)
    (part,) = split_into_kernels(as_team(program), SIZE)
    assert part.is_warp_region
    agree(on_host([scheduled(part)], MEMORY, numbers), interpreted(program, MEMORY, numbers, N_ENVS, 1))


def above(i: int) -> int:
    """The parent of a number."""
    return (i - 1) // 3 if i else -1


def chain(n: int, order: list[int]) -> Program:
    """Each of some numbers is the sum of its own and its parent's, in any order that has parents first; and a total."""
    recorder = Tracer()
    scratch = {i: ArenaOffset(SCRATCH, 2 * i) for i in range(-1, n)}
    scratch[-1] = ArenaOffset(SCRATCH, 2 * n)
    total = ArenaOffset(SCRATCH, 2 * n + 2)
    recorder.write(SCRATCH, [1.0], 2 * n)
    with recorder.warp_region("all"):
        recorder.write(SCRATCH, [0.0], total.row)
        rows = [
            LoopIteration(
                "link", {"own": scratch[i], "above": scratch[above(i)], "x": ArenaOffset("x", i), "total": total}
            )
            for i in order
        ]

        def body(code: IterationContext) -> None:
            here = code.read("above") + code.read("x")
            code.write("own", [here])
            code.write("total", [code.read("total") + here])

        trace_for_each_loop(recorder, "sweep", rows, body)
    recorder.write("x", [recorder.read(SCRATCH, 2 * i) for i in range(n)])
    recorder.write("x", [recorder.read(SCRATCH, total.row)], n)
    return recorder.build(n_scratch=2 * n + 3, allocation_starts=[0])


@given(st.permutations(range(4)))
@settings(max_examples=5)
def test_rows_wait_for_what_they_read(leaves: list[int]) -> None:
    """The levels of a tree are its rounds; what all rows add to makes no one wait."""
    n = 13
    program = chain(n, [0, *range(1, 4), *range(4, n - 4), *(n - 4 + i for i in leaves)])
    before, warp_part, after = split_into_kernels(program, SIZE)
    assert (before.is_warp_region, warp_part.is_warp_region, after.is_warp_region) == (False, True, False)
    assert warp_part.copy_in
    assert {row for _, row in warp_part.copy_out} <= set(range(after.program.n_scratch))
    own = scheduled(warp_part)
    (loop,) = [block for block in own.program.body if isinstance(block, ForEachLoop)]
    assert [x.n_rows for x in loop.schedule] == [1, 3, 4, 4, 1]
    assert len(loop.reductions) == 1
    memory = Memory(state=[("x", n + 1)])
    x = np.random.default_rng(0).normal(size=(n + 1, N_ENVS))
    expected = x.copy()
    interpret_in_place(program, {"state": expected}, memory.places())
    found = on_host([before, own, after], memory, memory.whole({"state": x}, N_ENVS))["state"]
    np.testing.assert_allclose(found[:n], expected[:n], rtol=0, atol=0)
    np.testing.assert_allclose(found[n], expected[n], rtol=1e-14)


@pytest.mark.parametrize("n", [9, 43, 75])  # some rounds, more than there are at once, and twice as many
def test_rows_that_wait_for_none_go_together(n: int) -> None:
    """Round after round is read before any is stored, where no row looks at another's."""
    recorder, order = Tracer(), np.random.default_rng(n).permutation(n).tolist()
    recorder.write(SCRATCH, [recorder.read("x", i) for i in range(n)])
    with recorder.warp_region("all"):
        rows = [
            LoopIteration(
                "scaled" if i % 3 else "none",
                {"from": ArenaOffset(SCRATCH, i), "to": ArenaOffset(SCRATCH, n + j)},
                {"by": [i]},
            )
            for i, j in enumerate(order)
        ]

        def body(code: IterationContext) -> None:
            code.write("to", [code.constant("by") * code.read("from") if code.specialization == "scaled" else 0.0])

        trace_for_each_loop(recorder, "moved", rows, body)
    recorder.write("x", [recorder.read(SCRATCH, n + i) for i in range(n)])
    program = recorder.build(n_scratch=2 * n, allocation_starts=range(2 * n))
    before, warp_part, after = split_into_kernels(program, SIZE)
    memory, x = Memory(state=[("x", n)]), np.random.default_rng(0).normal(size=(n, N_ENVS))
    expected = np.zeros_like(x)
    for i, j in enumerate(order):
        expected[j] = i * x[i] if i % 3 else 0.0
    found = on_host([before, scheduled(warp_part), after], memory, memory.whole({"state": x}, N_ENVS))["state"]
    np.testing.assert_array_equal(found, expected)


def test_each_part_has_only_the_memory_it_touches() -> None:
    recorder = Tracer()
    recorder.write(SCRATCH, [recorder.read("x")], 5)
    with recorder.warp_region("all"):
        recorder.write(SCRATCH, [2.0 * recorder.read(SCRATCH, 5)], 900)
        recorder.new_basic_block()
        recorder.write(SCRATCH, [3.0 * recorder.read(SCRATCH, 900)], 7)
    recorder.write("x", [recorder.read(SCRATCH, 7)])
    parts = split_into_kernels(recorder.build(n_scratch=1000, allocation_starts=range(1000)), SIZE)
    # one takes the place of another, one is nowhere; what a line leaves to the team is a group of its own
    assert [part.program.n_scratch for part in parts] == [ROW_GROUP + 1, 3, ROW_GROUP + 1]
    memory = Memory(state=[("x", 1)])
    numbers = memory.whole({"state": np.ones((1, N_ENVS))}, N_ENVS)
    found = on_host([scheduled(part) for part in parts], memory, numbers)
    assert found["state"].tolist() == [[6.0] * N_ENVS]


def test_a_team_shares_no_values() -> None:
    recorder = Tracer()
    outside = recorder.read("x")
    with pytest.raises(AssertionError, match="no values"), recorder.warp_region("all"):
        recorder.write(SCRATCH, [outside])


@pytest.mark.parametrize("precision", ["single", "double"])
def test_the_compiler_takes_teams(precision: str) -> None:
    for seed in range(4):
        (part,) = split_into_kernels(as_team(recorded(some_tree(seed))), SIZE)
        room = WarpRegionConfig(
            SIZE, part.program.n_scratch, part.n_global, uses_shared_memory=True, groups_per_block=2
        )
        code = compile_ptx(
            emit_warp_kernel(scheduled(part), MEMORY.places(), Target(precision, is_gpu=True), room), 64
        ).decode()
        assert "bar.warp.sync" in code
