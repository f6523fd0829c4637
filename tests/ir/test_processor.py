"""How a CPU is used: how many environments at a time, and numbers that it would be slow with."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinema.codegen import Target, emit_cpu_modules
from kinema.codegen.ir_builder import MAX_BLOCK_LINES
from kinema.core import KinemaError
from kinema.dynamics import Engine, Settings
from kinema.ir import SCRATCH, Tracer, Value
from kinema.runtime import cpu_features, find_device
from kinema.runtime.cpu_features import choose_lanes, has_scatter, is_x86

from ..dynamics.rolling import zoo
from .arenas import Memory, kernel, launched, same_bits

SMALL = np.float32(1e-40)
"""Fewer digits than others have: a hundred times as slow, on x86."""


@pytest.mark.parametrize(
    ("bits", "n_envs", "threads", "expected"),
    [(512, 4096, 2, 16), (512, 17, 2, 16), (512, 16, 2, 8), (512, None, 2, 8), (256, 4096, 2, 8), (128, 3, 2, 4)],
)
def test_vectors_are_wide_where_there_is_enough_for_all_threads(
    monkeypatch: pytest.MonkeyPatch, bits: int, n_envs: int | None, threads: int, expected: int
) -> None:
    monkeypatch.setattr(cpu_features, "simd_width_bits", lambda: bits)
    assert choose_lanes(32, n_envs, threads) == expected
    assert choose_lanes(64, n_envs and -(-n_envs // 2), threads) == expected // 2


@pytest.mark.skipif(not is_x86(), reason="other processors are as fast with small numbers")
@pytest.mark.parametrize("width", [1, 4, 8])
def test_what_is_too_small_becomes_zero_in_programs_and_nowhere_else(width: int) -> None:
    recorder = Tracer()
    recorder.write("x", [0.5 * recorder.read("x")])
    memory = Memory(state=[("x", 1)])
    made = kernel(recorder.build(), memory, width, "single")
    numbers = memory.whole({"state": np.array([[SMALL, 1.0, 2.0 * np.finfo(np.float32).tiny]])}, 3)
    found = launched(made, memory, numbers, 3, threads=1)["state"][0]
    assert found.tolist() == [0.0, 0.5, float(np.finfo(np.float32).tiny)]
    assert SMALL * np.float32(0.5) > 0.0  # the thread is as it was


def test_the_environment_limits_vectors(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(cpu_features, "cpuinfo", lambda: "flags: sse2 avx2 avx512f")
    widths = []
    for bits in ("128", "256", "512", ""):
        monkeypatch.setenv("KINEMA_VECTOR_BITS", bits)
        widths.append((choose_lanes(64, 4096, 2), choose_lanes(32)))
    assert widths == [(2, 4), (4, 8), (8, 8), (8, 8)]
    monkeypatch.setenv("KINEMA_VECTOR_BITS", "96")
    with pytest.raises(KinemaError, match="KINEMA_VECTOR_BITS: expected 128, 256, 512, not '96'"):
        choose_lanes(32)


def test_one_environment_is_no_vector() -> None:
    assert choose_lanes(32, 1) == choose_lanes(64, 1) == 1
    cpu, model = find_device("cpu"), zoo()
    assert Engine(model, Settings(), 1, cpu).lanes == 1
    assert Engine(model, Settings(), 2, cpu).lanes == cpu.lanes("single", 2) > 1


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("is_used", [True, False])
@pytest.mark.usefixtures("no_program_cache")
def test_indices_that_differ_between_environments(
    monkeypatch: pytest.MonkeyPatch, precision: str, is_used: bool
) -> None:
    """With and without instructions for gather and scatter, in all memory; some environments take no part."""
    monkeypatch.setenv("KINEMA_VECTOR_BITS", "512")
    if is_used and not has_scatter():
        pytest.skip("the processor has no such instructions")
    memory = Memory(state=[("x", 4), ("index", 1), ("takes_part", 1)], out=[("y", 5)], uniform=[("shared", 4)])
    tracer = Tracer()
    local = tracer.allocate_local(4)
    for array in (SCRATCH, local):
        tracer.write(array, [tracer.read("x", i) for i in range(4)])
    tracer.new_basic_block()

    def access() -> list[Value]:
        index = tracer.read("index")
        values = [tracer.read(array, 0, index) for array in ("x", SCRATCH, local, "shared")]
        tracer.write("y", [values[0] + 3.0 * values[1]], 0, index)
        tracer.write(SCRATCH, [7.0 * values[3] + tracer.read(SCRATCH, 1, index)], 0, index)
        tracer.write(local, [values[2] - tracer.read(local, 1, index)], 0, index)
        return [values[3]]

    tracer.write("y", tracer.if_less("some", 0.5, tracer.read("takes_part"), access, [1.0]), 4)
    tracer.new_basic_block()
    for array in (SCRATCH, local):
        tracer.write("y", [tracer.read("y", i) + tracer.read(array, i) for i in range(4)])
        tracer.new_basic_block()
    program, generator = tracer.build(n_scratch=4), np.random.default_rng(0)
    state = generator.normal(size=(6, 21))
    state[4], state[5] = generator.integers(0, 3, 21), np.arange(21) % 3 != 1
    state[4, state[5] == 0] = 1e30  # of no meaning there
    numbers = {"state": state, "uniform": generator.normal(size=(4, 1))}
    monkeypatch.setattr("kinema.runtime.compilation.has_scatter", lambda: False)
    expected = launched(kernel(program, memory, 1, precision), memory, memory.whole(numbers, 21), 21, threads=1)
    monkeypatch.setattr("kinema.runtime.compilation.has_scatter", lambda: is_used)
    for width in (4, 8):
        made = kernel(program, memory, width, precision)
        same_bits(launched(made, memory, memory.whole(numbers, 21), 21, threads=1), expected)
    assert np.abs(expected["out"]).min() > 0.0


@pytest.mark.parametrize("width", [1, 4])
def test_long_blocks_are_split_where_that_is_wanted(width: int) -> None:
    """Without another result: a derivative, whose code is compiled in half the time then."""
    memory = Memory(state=[("x", 3)], out=[("y", 3)])
    tracer = Tracer()
    x = [tracer.read("x", i) for i in range(3)]
    for i in range(3 * MAX_BLOCK_LINES):
        x = [x[1], x[2], x[0] * x[1] - 0.5 * (i % 3)]
    tracer.write("y", x)
    program, target = tracer.build(), Target("double", width)
    short = replace(program, has_short_blocks=True)
    texts = [emit_cpu_modules(x, memory.places(), target) for x in (program, short)]
    assert [max(_block_lengths(text)) > 2 * MAX_BLOCK_LINES for (text,) in texts] == [True, False]
    numbers = memory.whole({"state": np.random.default_rng(0).uniform(-1.0, 1.0, (3, 9))}, 9)
    found = [launched(kernel(x, memory, width), memory, numbers, 9, threads=1) for x in (program, short)]
    same_bits(*found)
    assert np.isfinite(found[0]["out"]).all()


def _block_lengths(module: str) -> list[int]:
    """Numbers of lines of the basic blocks of a module."""
    starts = [i for i, line in enumerate(module.splitlines()) if not line.startswith(" ")]
    return np.diff(starts).tolist()
