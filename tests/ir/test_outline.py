"""Outlined loops, cases and lines compute the same as within the function around them, bit by bit."""

from __future__ import annotations

import gc
import re
from dataclasses import replace
from itertools import islice
from pathlib import Path

import numpy as np
import pytest

from kinema.codegen import Target, emit_cpu_modules
from kinema.ir import (
    ArenaOffset,
    IterationContext,
    LoopIteration,
    Program,
    Tracer,
    Value,
    optimise,
    outline,
    outline_functions,
    trace_for_each_loop,
)
from kinema.runtime import CACHE_ENV_VARIABLE, llvm_compiler

from .arenas import Memory, compiled, interpreted, kernel, launched, same_bits
from .random_programs import MEMORY as RANDOM_MEMORY, random_numbers, recorded, some_tree

N = 6
MEMORY = Memory(state=[("x", N), ("y", N)])
N_ENVS = 11  # no whole number of vectors
NEVER = 1 << 60


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    return tmp_path


def add_rows(recorder: Tracer, factor: float, shared: str = "") -> None:
    """Each of the rows of `y` gets a factor times that of `x`, by a local array, its own or one of others too."""
    rows = [
        LoopIteration(
            "row", {"from": ArenaOffset("state", i), "to": ArenaOffset("state", N + i)}, {"factor": [factor + i]}
        )
        for i in range(N)
    ]

    def body(code: IterationContext) -> None:
        sums = shared or code.tracer.allocate_local(1)
        code.tracer.write(sums, [code.constant("factor") * code.read("from")])
        code.tracer.new_basic_block()
        code.write("to", [code.read("to") + code.tracer.read(sums)])

    trace_for_each_loop(recorder, "sums", rows, body)


def several_loops() -> Program:
    """One for all environments, one for some of them, one that is repeated as often as each of them likes."""
    recorder = Tracer()
    add_rows(recorder, 2.0)

    def then() -> list[Value]:
        add_rows(recorder, 3.0)
        return []

    def again(state: object) -> tuple[list[Value], Value, Value]:
        (left,) = state  # type: ignore[misc]
        add_rows(recorder, 0.5)
        return [left - 1.0], 1.5, left

    recorder.if_less("some", recorder.read("x", 0), 0.0, then, [])
    recorder.while_loop("often", again, [recorder.read("x", 1) * 2.0], 9)
    return recorder.build()


@pytest.mark.parametrize("lanes", [1, 2, 8])
def test_the_same_numbers(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    state = np.random.default_rng(0).normal(size=(2 * N, N_ENVS))
    found = []
    for least in (NEVER, 0):
        monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", least)
        texts = emit_cpu_modules(outline_functions(several_loops()), MEMORY.places(), Target("double", lanes))
        assert len(texts) == (1 if least else 4)
        found.append(compiled(several_loops(), MEMORY, {"state": state}, N_ENVS, lanes=lanes, steps=3))
    same_bits(*found)
    assert (found[0]["state"][N:] != state[N:]).any()


@pytest.mark.parametrize("lanes", [1, 4])
def test_loops_of_derivatives_may_share_local_arrays(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Which the function around them holds for all: two loops and code between them that use the same one."""
    state = np.random.default_rng(0).normal(size=(2 * N, N_ENVS))
    tracer = Tracer()
    shared = tracer.allocate_local(1)
    add_rows(tracer, 2.0, shared)
    tracer.write("y", [tracer.read("y", 1) - 0.5 * tracer.read(shared)], 1)
    add_rows(tracer, 3.0)
    add_rows(tracer, 0.5, shared)
    tracer.write("y", [tracer.read("y", 2) + tracer.read(shared)], 2)
    program = replace(tracer.build(), has_short_blocks=True)
    found = []
    for least, n_modules in ((NEVER, 1), (0, 4)):
        monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", least)
        texts = emit_cpu_modules(outline_functions(program), MEMORY.places(), Target("double", lanes))
        assert len(texts) == n_modules
        found.append(compiled(program, MEMORY, {"state": state}, N_ENVS, lanes=lanes, steps=2))
    same_bits(*found)
    same_bits(found[0], interpreted(program, MEMORY, {"state": state}, N_ENVS, steps=2))
    assert len(outline_functions(replace(program, has_short_blocks=False)).outlined) == 1


def test_functions_are_called_after_their_loops(monkeypatch: pytest.MonkeyPatch) -> None:
    """Symbols are unique within a program; nothing of the model is in the text."""
    monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", 0)
    main, *others = emit_cpu_modules(outline_functions(several_loops()), MEMORY.places(), Target("double", 4))
    symbols = [text.partition("@kinema_loop_")[2].partition("(")[0] for text in others]
    assert len(set(symbols)) == len(symbols) == 3
    assert all(re.fullmatch(r"sums(_\d+)?", symbol) for symbol in symbols)
    assert all(f"call void @kinema_loop_{symbol}(" in main for symbol in symbols)


def test_random_programs(monkeypatch: pytest.MonkeyPatch) -> None:
    """Loops among all other kinds of blocks, and in vectors."""
    monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", 0)
    made_of = (recorded(some_tree(seed)) for seed in range(1000))
    for number, program in enumerate(islice((p for p in made_of if outline.find_outlined(p)), 3)):
        numbers, found = random_numbers(number, N_ENVS, 2), []
        for least in (NEVER, 0):
            monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", least)
            made = kernel(program, RANDOM_MEMORY, 4)
            found.append(launched(made, RANDOM_MEMORY, numbers, N_ENVS, 2))
            assert (len(made._code.digests) > 1) == (least == 0)
        same_bits(*found)


def test_a_local_array_of_others_keeps_a_loop_where_it_is(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", 0)
    recorder = Tracer()
    shared = recorder.allocate_local(1)
    recorder.write(shared, [0.0])
    add_rows(recorder, 2.0, shared)
    recorder.write("x", [recorder.read(shared)])
    add_rows(recorder, 3.0)
    program = recorder.build()
    (own,) = outline.find_outlined(program).values()
    assert shared not in own
    assert len(emit_cpu_modules(outline_functions(program), MEMORY.places(), Target("double", 4))) == 2


def several_cases() -> Program:
    """A loop of three kinds of rows, each with a local array of its own."""
    recorder = Tracer()
    rows = [
        LoopIteration(
            f"times {i % 3}",
            {"from": ArenaOffset("state", i), "to": ArenaOffset("state", N + i)},
            {"factor": [1.5 + i]},
        )
        for i in range(N)
    ]

    def body(code: IterationContext) -> None:
        own = code.tracer.allocate_local(1)
        code.tracer.write(own, [code.constant("factor") * code.read("from")])
        code.tracer.new_basic_block()
        again = code.tracer.read(own) * code.read("to")
        code.write("to", [again + 1.0 if code.specialization == "times 1" else again])

    trace_for_each_loop(recorder, "sums", rows, body)
    return recorder.build()


@pytest.mark.parametrize("lanes", [1, 4])
def test_cases_of_a_loop(lanes: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each is a module; the loop that calls them is one too."""
    state, found = np.random.default_rng(1).normal(size=(2 * N, N_ENVS)), []
    for least in (NEVER, 0):
        monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", 0)
        monkeypatch.setattr(outline, "MIN_VARIANT_INSTRUCTIONS", least)
        texts = emit_cpu_modules(outline_functions(several_cases()), MEMORY.places(), Target("double", lanes))
        assert len(texts) == (2 if least else 5)
        found.append(compiled(several_cases(), MEMORY, {"state": state}, N_ENVS, lanes=lanes, steps=3))
    same_bits(*found)
    assert (found[0]["state"][N:] != state[N:]).any()


def lines_in_frames() -> Program:
    """Lines that hand values on, among them in a loop that environments run through as often as they like."""
    recorder = Tracer()
    sums = recorder.allocate_local(3)
    recorder.write(sums, [recorder.read("x", i) + recorder.read("y", i) for i in range(3)])
    recorder.new_basic_block()
    recorder.write(sums, [recorder.read(sums, 1) * recorder.read(sums, 2)])
    recorder.new_basic_block()

    def again(state: object) -> tuple[list[Value], Value, Value]:
        (left,) = state  # type: ignore[misc]
        recorder.write(sums, [recorder.read(sums, 0) * 0.5 + left, recorder.read(sums, 0)])
        recorder.new_basic_block()
        return [left - 1.0], recorder.read(sums, 1) - 9.0, left

    (left,) = recorder.while_loop("often", again, [recorder.read("x", 3) * 3.0], 7)
    recorder.write("y", [recorder.read(sums, i) for i in range(3)] + [left])
    return recorder.build()


@pytest.mark.parametrize("lanes", [1, 4])
@pytest.mark.parametrize("optimised", [False, True])
def test_lines_share_local_arrays(lanes: int, optimised: bool, monkeypatch: pytest.MonkeyPatch) -> None:
    state, found = np.random.default_rng(2).normal(size=(2 * N, N_ENVS)), []
    program = optimise(lines_in_frames()) if optimised else lines_in_frames()
    for least in (NEVER, 1):
        monkeypatch.setattr(outline, "MIN_BLOCK_INSTRUCTIONS", least)
        outlined = outline_functions(program)
        assert bool(outlined.outlined) == (least == 1)
        assert bool(outline.frame_layout(outlined)) == (least == 1)
        found.append(compiled(program, MEMORY, {"state": state}, N_ENVS, lanes=lanes, steps=3))
    same_bits(*found)
    assert (found[0]["state"][N:] != state[N:]).any()


def test_random_programs_with_everything_outlined(monkeypatch: pytest.MonkeyPatch) -> None:
    numbers = random_numbers(7, N_ENVS, 2)
    for seed in range(8):
        program, found = recorded(some_tree(seed)), []
        for least in (NEVER, 0):
            for name in ("MIN_LOOP_INSTRUCTIONS", "MIN_VARIANT_INSTRUCTIONS", "MIN_BLOCK_INSTRUCTIONS"):
                monkeypatch.setattr(outline, name, least)
            kernels = [kernel(program, RANDOM_MEMORY, lanes) for lanes in (1, 4)]
            found.append([launched(made, RANDOM_MEMORY, numbers, N_ENVS, 2) for made in kernels])
        for inline, apart in zip(*found, strict=True):
            same_bits(inline, apart)


@pytest.mark.parametrize("threads", ["1", "3"])
def test_modules_are_found_in_the_cache(threads: str, cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Each by itself, however many threads compile them; a failure of one is a failure."""
    monkeypatch.setenv("KINEMA_THREADS", threads)
    monkeypatch.setattr(outline, "MIN_LOOP_INSTRUCTIONS", 0)
    kernel(several_loops(), MEMORY, 4)
    assert len(list((cache / "code").iterdir())) == 4

    def fail(*_: object, **__: object) -> bytes:
        raise AssertionError("compiled again")

    monkeypatch.setattr(llvm_compiler.FOREGROUND, "compile", fail)
    kernel(several_loops(), MEMORY, 4)
    gc.collect()  # or the code that is loaded would serve once more
    next(file for file in (cache / "code").iterdir() if b"kinema_loop" in file.read_bytes()).unlink()
    with pytest.raises(AssertionError, match="compiled again"):
        kernel(several_loops(), MEMORY, 4)
