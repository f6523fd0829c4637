"""Thread kernels of the baseline tier: partitions as separate kernels, and PTX without LLVM's optimisations."""

from __future__ import annotations

import re
import threading
from collections import Counter
from concurrent.futures import Future
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.codegen import Target, emit_thread_kernel
from kinema.core import load_entry
from kinema.dynamics import Settings
from kinema.dynamics.engine import engine
from kinema.ir import (
    EXCHANGE,
    LIVE_ACROSS_BARRIER,
    SCRATCH,
    SEPARATED_EXCHANGE,
    UNIFORM,
    Program,
    Tape,
    exchange_size,
    optimise,
    partition_basic_block,
    program_from_tape,
    separate_partitions,
)
from kinema.runtime import CACHE_ENV_VARIABLE, Device, Kernel, compilation, executables, ptx_assembler
from kinema.runtime.compilation import GpuCompiler, ptx_level
from kinema.runtime.compiled_program import (
    CompiledKernel,
    CompileOptions,
    GpuCompilation,
    GpuImage,
    Partitioning,
    ProgramSource,
)
from kinema.runtime.cuda_driver import compile_ptx
from kinema.runtime.executables import GpuExecutable
from kinema.runtime.llvm_compiler import OptLevel
from kinema.runtime.ptx_assembler import JitLevel
from kit.assets import EXAMPLES

from .arenas import Memory
from .gpu_on_host import WARP_SIZE, run_on_host
from .random_programs import recorded, some_tree
from .test_split import limbs_program, role_of

STRIDE, N_ENVS = 64, 5


def run(programs: tuple[Program, ...], memory: Memory, arrays: dict[str, np.ndarray], n_scratch: int) -> None:
    """Run one kernel of a program or of several partitions on the host, in place."""
    text = emit_thread_kernel(programs, memory.places(), Target("double", is_gpu=True, n_scratch=n_scratch))
    shape = (1, 2) if len(programs) == 1 else (len(programs), N_ENVS)
    n_blocks = -(-N_ENVS // 2) if len(programs) == 1 else 1
    run_on_host(text, arrays, (STRIDE, 1, 0, N_ENVS), n_blocks=n_blocks, shape=shape)


@settings(deadline=None, max_examples=15)
@given(n_limbs=st.integers(2, 4), seed=st.integers(0, 99), leaves=st.booleans())
def test_separated_partitions_give_the_same_bits(n_limbs: int, seed: int, leaves: bool) -> None:
    """One kernel per basic block, in order, beside one kernel whose warps meet at a barrier."""
    rng = np.random.default_rng(seed)
    program = limbs_program(n_limbs, rng, leaves=leaves)
    partitions = partition_basic_block(program.basic_block, role_of, n_limbs)
    separated, n_exchanged = separate_partitions(partitions)
    memory = Memory(state=[("state", 3 * n_limbs), ("trunk", 2)], out=[(SEPARATED_EXCHANGE, n_exchanged)])
    state = rng.uniform(-0.5, 0.5, (3 * n_limbs + 2, STRIDE))
    results = []
    for kernels in ([partitions], [(block,) for block in separated]):
        arrays = {"state": state.copy(), "out": np.full((n_exchanged + 1, STRIDE), np.nan)}
        arrays |= {SCRATCH: np.full((2 * n_limbs + 1, STRIDE), np.nan), UNIFORM: np.zeros((1, 1))}
        arrays |= {"controls_start": np.zeros((1, STRIDE)), "ints": np.zeros(1, np.int32), "floats": np.zeros(1)}
        for programs in kernels:
            run(tuple(programs), memory, arrays, 2 * n_limbs)
        results.append((arrays["state"][:, :N_ENVS], arrays[SCRATCH].ravel()))
    assert not np.array_equal(results[0][0], state[:, :N_ENVS])
    for whole, apart in zip(*results, strict=True):
        np.testing.assert_array_equal(whole, apart)
    assert np.isfinite(results[1][1]).sum() == 2 * n_limbs * N_ENVS * leaves


def test_separated_partitions_have_all_first_blocks_before_the_second() -> None:
    """Nothing is lost, nothing is computed twice, and what one kernel takes another has given before."""
    partitions = partition_basic_block(limbs_program(3, np.random.default_rng(0)).basic_block, role_of, 3)
    separated, n_exchanged = separate_partitions(partitions)
    assert n_exchanged == exchange_size(partitions) + sum(p.locals[LIVE_ACROSS_BARRIER] for p in partitions)
    blocks = [program.basic_block for program in separated]
    in_order = [p.body[i] for i in range(2) for p in partitions]
    assert [[i[:3] for i in block.instructions] for block in blocks] == [
        [i[:3] for i in block.instructions]  # type: ignore[union-attr]
        for block in in_order
    ]
    given: set[object] = set()
    for number, block in enumerate(blocks):
        arrays = {location.array for location in block.locations()}
        assert not arrays & {EXCHANGE, LIVE_ACROSS_BARRIER}
        taken = {i.location for i in block.instructions if i.location and i.location.array == SEPARATED_EXCHANGE}
        assert taken <= given
        assert bool(taken) == (number >= 3)
        given |= {s.location for s in block.stores if s.location.array == SEPARATED_EXCHANGE}
    assert len(given) == n_exchanged
    memory = Memory(state=[("state", 9), ("trunk", 2)], out=[(SEPARATED_EXCHANGE, n_exchanged)])
    text = emit_thread_kernel(separated[:1], memory.places(), Target(is_gpu=True))
    assert "barrier" not in text.split("define")[1]


# ----------------------------------------------------------------------------------------------------- level of LLVM


def long_program(length: int) -> Program:
    """A straight line of so many multiplications and additions, and some divisions and square roots."""
    tape = Tape()
    x, y = tape.inputs("x", 2)
    for i in range(length // 2):
        x = x * y + float(i % 7) if i % 50 else 1.0 / (x * x + 2.0)
    return program_from_tape(tape, {"x": [x, y]})


def arithmetic(ptx: bytes) -> Counter[str]:
    return Counter(re.findall(r"^\s+((?:add|sub|mul|fma|div|sqrt|rcp|neg|abs)\.[a-z.]*f(?:32|64))", ptx.decode(), re.M))


def test_long_straight_lines_are_not_optimised_before_they_are_assembled() -> None:
    """The arithmetic of the PTX is the same; loops, and lines so short that it does not matter, are optimised."""
    long, short = optimise(long_program(1200)), optimise(long_program(100))
    loops = next(
        program for program in (optimise(recorded(some_tree(seed))) for seed in range(20)) if program.for_each_loops
    )
    assert ptx_level((long,)) is OptLevel.BASELINE
    assert ptx_level((long, long)) is OptLevel.BASELINE
    assert ptx_level((short,)) is OptLevel.OPTIMISED
    assert ptx_level((loops,)) is OptLevel.OPTIMISED
    assert ptx_level((Program((*long.body, *[short.body[0]] * 20)),)) is OptLevel.OPTIMISED
    assert ptx_level((Program(()),)) is OptLevel.OPTIMISED
    places = Memory(state=[("x", 2)]).places()
    for precision in ("single", "double"):
        text = emit_thread_kernel((long,), places, Target(precision, is_gpu=True))
        plain, best = (arithmetic(compile_ptx(text, 64, None, level)) for level in OptLevel)
        assert plain == best
        assert plain.total() > 600


# ----------------------------------------------------------------------------------------------------------- two tiers


@pytest.fixture
def assembled(monkeypatch: pytest.MonkeyPatch, tmp_path: Any) -> list[tuple[int, JitLevel]]:
    """PTX sizes and levels that are handed to the assembler ahead of use; there are tiers, and a cache of its own."""
    started: list[tuple[int, JitLevel]] = []

    def assemble(ptx: bytes, device: Device, level: JitLevel) -> Future[bytes]:
        started.append((len(ptx), level))
        return Future()

    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    monkeypatch.setenv("KINEMA_TIER", "tiered")
    monkeypatch.setattr(compilation, "start_gpu_compilers", lambda *_: None)
    monkeypatch.setattr(compilation, "assemble_async", assemble)
    monkeypatch.setattr(Device, "n_multiprocessors", 132)
    monkeypatch.setattr(Device, "architecture", "sm_90")
    return started


def compiled(*, wait: bool, longest: int, monkeypatch: pytest.MonkeyPatch) -> GpuCompilation:
    """A program of three limbs for a GPU, where kernels above a number of instructions are separated."""
    monkeypatch.setattr(compilation, "MAX_KERNEL_INSTRUCTIONS", longest)
    program = limbs_program(3, np.random.default_rng(0))
    memory = Memory(state=[("state", 9), ("trunk", 2)])
    options = CompileOptions(Device("cuda:0"), "single", 1, 1, 4096)
    compiler = GpuCompiler(memory.places(), options, Partitioning(3, role_of), wait=wait)
    return compiler.compile(ProgramSource(lambda: program, name="limbs_step"))


def test_a_long_kernel_of_partitions_starts_as_separate_blocks(
    assembled: list[tuple[int, JitLevel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """Its final code is the same as without tiers, and is assembled after the scene has begun to step."""
    found = compiled(wait=False, longest=10, monkeypatch=monkeypatch)
    assert found.get_final is not None
    final = found.get_final()
    assert len(assembled) == len(found.first.modules) == 6
    assert [m.label for m in found.first.modules] == ["thread_block"] * 6
    assert {m.n_partitions for m in found.first.modules} == {1}
    assert {m.block_dim for m in found.first.modules} == {64}
    (exchanged,) = {m.n_exchanged for m in found.first.modules}
    assert exchanged > 0
    (module,) = final.modules
    assert (module.n_partitions, module.block_dim, module.n_exchanged) == (3, 3 * WARP_SIZE, 0)
    assert sum(m.n_operations for m in found.first.modules) == module.n_operations
    assert final.n_scratch == found.first.n_scratch
    assert final.tables is found.first.tables
    for how in ({"wait": True, "longest": 10}, {"wait": False, "longest": 8000}):
        whole = compiled(**how, monkeypatch=monkeypatch)  # type: ignore[arg-type]
        assert whole.get_final is None
        assert [m.ptx for m in whole.first.modules] == [module.ptx]
    monkeypatch.setenv("KINEMA_TIER", "optimised")
    assert compiled(wait=False, longest=10, monkeypatch=monkeypatch).get_final is None


def test_programs_and_kernels_are_dumped(
    assembled: list[tuple[int, JitLevel]], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """The program once, and LLVM IR and PTX of the kernels of both tiers."""
    monkeypatch.setenv("KINEMA_DUMP", str(tmp_path / "dump"))
    found = compiled(wait=False, longest=10, monkeypatch=monkeypatch)
    assert found.get_final is not None
    found.get_final()
    files = Counter(file.name.split("-")[0] + file.suffix for file in (tmp_path / "dump").iterdir())
    kernels = {
        f"limbs_step_{name}.{kind}": n for name, n in (("thread_block", 6), ("thread", 1)) for kind in ("ll", "ptx")
    }
    assert files == {"limbs_step.ir": 1, **kernels}


def test_the_cache_has_the_final_kernels(
    assembled: list[tuple[int, JitLevel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """They are stored when they are compiled; the scene does not wait for that."""
    found = compiled(wait=False, longest=10, monkeypatch=monkeypatch)
    executables._store_gpu_image("key", found)
    executables.finish_storing()
    entry = load_entry("programs", "key")
    assert entry is not None
    assert found.get_final is not None
    assert GpuImage.from_cache_entry(entry).modules[0].ptx == found.get_final().modules[0].ptx
    assert len(entry["modules"]) == 1


def test_the_tier_is_switched_between_two_launches(
    assembled: list[tuple[int, JitLevel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """The first launch runs the separate blocks, a later one the final kernel; the optimiser replaces them."""
    found = compiled(wait=False, longest=10, monkeypatch=monkeypatch)
    assert found.get_final is not None
    final, may_end, levels = found.get_final(), threading.Event(), list[JitLevel]()
    found = replace(found, get_final=lambda: final if may_end.wait(60) else None)  # type: ignore[arg-type]

    def assemble(ptx_modules: list[bytes], device: Device, wanted: list[JitLevel]) -> list[bytes]:
        levels.extend(wanted)
        return [b"cubin"] * len(ptx_modules)

    monkeypatch.setattr(executables, "assemble", assemble)
    monkeypatch.setattr(executables, "discard_assembled", lambda *_: None)
    monkeypatch.setattr(Device, "upload", lambda self, values: values)
    loaded = SimpleNamespace(carveout_percent=25, max_resident_blocks=1)
    monkeypatch.setattr(executables, "GpuFunction", lambda code, device, block_dim, name: loaded)
    executable = executables._load_for_gpu(found, "limbs_step", Device("cuda:0"), wait=False)
    first = executable.kernels
    assert executable.level is OptLevel.BASELINE
    assert list(executable.active_since) == [OptLevel.BASELINE]
    may_end.set()
    assert executable.optimised.wait(60)
    assert executable.level is OptLevel.OPTIMISED
    assert list(executable.active_since) == [OptLevel.BASELINE, OptLevel.OPTIMISED]
    kernel = Kernel.__new__(Kernel)
    kernel.device, kernel._gpu, kernel._requested_at = Device("cuda:0"), executable, 0.0
    assert list(kernel.tier_seconds) == ["baseline", "optimised"]
    assert [len(first), len(executable.kernels)] == [6, 1]
    assert levels[-1:] == [JitLevel.OPTIMISED]
    assert len(levels) == 7


def test_separated_kernels_get_memory_of_their_own(monkeypatch: pytest.MonkeyPatch) -> None:
    """In place of the output arena, until the final kernel is active; an exchange that is longer gets more."""
    given: list[Any] = []
    monkeypatch.setattr(Device, "zeros", lambda self, shape, precision, purpose: np.zeros(shape))
    monkeypatch.setattr("kinema.runtime.kernels.is_capturing", lambda device: False)
    monkeypatch.setattr(
        "kinema.runtime.kernels.repeat_launches", lambda device, launches, count: lambda: [x() for x in launches]
    )
    code: Any = SimpleNamespace(prepare_launch=lambda n, arrays, ints: given.append(arrays[2]) or (lambda: None))
    kernel = Kernel.__new__(Kernel)
    kernel.device, kernel.n_scratch, kernel.lanes, kernel._runs_per_step = Device("cuda:0"), 0, 1, 1
    kernel._n_reset_queues, kernel._precision, kernel._retired_memory = 0, "single", []
    kernel._scratch = {0: np.zeros((1, 96))}
    blocks = [CompiledKernel(code, "block", (None, None), 0, 64, n_exchanged=n) for n in (7, 7, 9)]
    kernel._gpu = GpuExecutable(blocks, 0, 0, 0, OptLevel.BASELINE)
    arena = SimpleNamespace(data="output", n_envs=77, stride=96)
    arguments: Any = SimpleNamespace(state=arena, inputs=None, out=arena, uniform=arena, steps=1, input_rows_per_step=0)
    launch = kernel._prepare_gpu_launch(arguments)
    launch()
    assert [array.shape for array in given] == [(7, 96), (7, 96), (9, 96)]
    assert given[0] is given[1]
    kernel._gpu.kernels = [CompiledKernel(code, "whole", (None, None), 0, 32)]
    kernel._gpu.level = OptLevel.OPTIMISED
    launch()
    assert given[3] == "output"
    assert "exchange" not in kernel._scratch


def test_workers_are_started_ahead_of_use(
    assembled: list[tuple[int, JitLevel]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """When a program is compiled, and before, when the constants of a model are not in the cache: once for a GPU."""
    started: list[Device] = []
    monkeypatch.setattr(compilation, "start_gpu_compilers", started.append)
    compiled(wait=True, longest=10, monkeypatch=monkeypatch)
    assert started == [Device("cuda:0")]
    started.clear()
    monkeypatch.setattr(engine, "start_gpu_compilers", started.append)
    robot = km.read(EXAMPLES / "arm" / "arm.urdf")
    models = [build_model([EntitySpec(name="arm", description=robot)])]
    for device, expected in (("cpu", 0), ("cuda:0", 0), ("cuda:0", 0)):
        engine._derive_model_constants(models, Settings(), "single", "1", Device(device))
        assert len(started) == expected
    engine._derive_model_constants(models, Settings(), "single", "2", Device("cuda:0"))
    assert started == [Device("cuda:0")]


def test_as_many_workers_as_cores(monkeypatch: pytest.MonkeyPatch) -> None:
    """Up to a limit, as each process of the assembler holds memory of the GPU."""
    counts: list[int] = []
    pool = SimpleNamespace(start=counts.append)
    monkeypatch.setattr(ptx_assembler, "FOREGROUND", pool)
    monkeypatch.setattr(ptx_assembler, "_pool_of", lambda device: nullcontext(pool))
    for cores, expected in ((2, 2), (16, 6)):
        monkeypatch.setattr(ptx_assembler, "n_threads", lambda cores=cores: cores)
        ptx_assembler.start_gpu_compilers(Device("cuda:0"))
        assert counts == [expected, expected]
        counts.clear()
