"""The code for GPUs, without a GPU: the host runs what is emitted for one, and NVIDIA's assembler takes it."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.codegen import Target, emit_cpu_modules, emit_thread_kernel
from kinema.ir import (
    SCRATCH,
    UNIFORM,
    MemoryLocation,
    Program,
    Tape,
    Tracer,
    absolute,
    interpret_in_place,
    optimise,
    partition_basic_block,
    program_from_tape,
    sin,
    sqrt,
)
from kinema.ir.program import basic_blocks
from kinema.runtime import CACHE_ENV_VARIABLE
from kinema.runtime.compilation import choose_envs_per_warp
from kinema.runtime.cuda_driver import compile_ptx
from kit.choosing import representatives

from .arenas import Memory, Numbers, interpreted
from .gpu_on_host import WARP_SIZE, run_on_host
from .random_programs import MEMORY, N_SCRATCH, random_numbers, recorded, some_tree, trees
from .test_random_programs import agree
from .test_split import limbs_program, role_of

N_ENVS, STRIDE, STEPS = 3, 64, 2
KINDS = ("count", "repeat", "condition", "table", "index", "scratch", "uniform")
TREES = 12


@pytest.fixture(autouse=True, scope="module")
def _own_cache(tmp_path_factory: pytest.TempPathFactory) -> Iterator[None]:
    """What random programs leave behind is of no use to anybody."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv(CACHE_ENV_VARIABLE, str(tmp_path_factory.mktemp("cache")))
        yield


def on_host(
    roles: tuple[Program, ...], memory: Memory, numbers: Numbers, n_envs: int, steps: int = 1, runs: int = 1
) -> Numbers:
    """What is in the arenas after the threads of a GPU have run; one alone writes nothing beside its environment."""
    target = Target("double", is_gpu=True, n_scratch=roles[0].n_scratch)
    text = emit_thread_kernel(roles, memory.places(), target, runs)
    ints, floats = roles[0].pack_tables()
    arrays = {SCRATCH: np.full((max(roles[0].n_scratch, 1), STRIDE), np.nan), "ints": ints, "floats": floats}
    for arena, values in numbers.items():
        wide = np.full((max(len(values), 1), 1 if arena == UNIFORM else STRIDE), np.nan)
        wide[: len(values), : values.shape[1]] = values
        arrays["controls_start" if arena == "controls" else arena] = wide
    arguments = (STRIDE, steps, memory.n_rows("controls"), n_envs)
    if len(roles) == 1:
        run_on_host(text, arrays, arguments, n_blocks=-(-n_envs // 2), shape=(1, 2))
    else:
        run_on_host(text, arrays, arguments, n_blocks=1, shape=(len(roles), n_envs))
    result: Numbers = {}
    for arena, values in numbers.items():
        whole = arrays["controls_start" if arena == "controls" else arena]
        assert np.isnan(whole[:, values.shape[1] :]).all(), "it has written beside its environments"
        result[arena] = whole[: len(values), : values.shape[1]]
    return result


@settings(max_examples=40)
@given(tree=trees(), seed=st.integers(0, 5))
def test_the_text_does_what_the_interpreter_does(tree: tuple[Any, ...], seed: int) -> None:
    numbers = random_numbers(seed, N_ENVS, STEPS)
    program = recorded(tree)
    found = on_host((optimise(program),), MEMORY, numbers, N_ENVS, STEPS)
    agree(found, interpreted(program, MEMORY, numbers, N_ENVS, STEPS))


def test_environments_of_several_warps_have_scratch_memory_of_their_own() -> None:
    """That of 32 lies together, row by row."""
    n_envs, n_rows, memory = 35, 3, Memory(state=[("x", 1)])
    recorder = Tracer()
    recorder.write(SCRATCH, [recorder.read("x") + float(i) for i in range(n_rows)])
    program = recorder.build(n_scratch=n_rows)
    text = emit_thread_kernel((program,), memory.places(), Target("double", is_gpu=True, n_scratch=n_rows))
    nothing, scratch = np.zeros((1, STRIDE)), np.full((n_rows, STRIDE), np.nan)
    x = 10.0 * np.arange(STRIDE)[None]
    arrays = {"state": x, "controls_start": nothing, "out": nothing, UNIFORM: nothing, SCRATCH: scratch}
    arrays |= {"ints": np.zeros(1, np.int32), "floats": np.zeros(1)}
    run_on_host(text, arrays, (STRIDE, 1, 0, n_envs), n_blocks=n_envs, shape=(1, 1))
    rows = scratch.reshape(-1, n_rows, WARP_SIZE).transpose(1, 0, 2).reshape(n_rows, -1)[:, :n_envs]
    np.testing.assert_array_equal(rows, x[:, :n_envs] + np.arange(n_rows)[:, None])


def test_warps_with_few_environments() -> None:
    """The other threads of a warp leave the environments of the next one alone."""
    memory, recorder = Memory(state=[("x", 1)]), Tracer()
    recorder.write("x", [recorder.read("x") + 1.0])
    text = emit_thread_kernel((recorder.build(),), memory.places(), Target("double", is_gpu=True), envs_per_warp=2)
    nothing, x = np.zeros((1, STRIDE)), np.zeros((1, STRIDE))
    arrays = {"state": x, "controls_start": nothing, "out": nothing, UNIFORM: nothing, SCRATCH: nothing}
    arrays |= {"ints": np.zeros(1, np.int32), "floats": np.zeros(1)}
    run_on_host(text, arrays, (STRIDE, 1, 0, N_ENVS), n_blocks=2, shape=(1, 4))
    np.testing.assert_array_equal(x[0], np.arange(STRIDE) < N_ENVS)


@pytest.mark.parametrize(
    ("branches", "n_envs", "expected"),
    [(False, 256, 32), (True, 1, 1), (True, 256, 1), (True, 4096, 8), (True, 1 << 20, 32)],
)
def test_few_environments_share_a_warp_where_branches_differ(branches: bool, n_envs: int, expected: int) -> None:
    recorder = Tracer()
    x = recorder.read("x")
    (x,) = recorder.if_less("near", x, 1.0, lambda: [x + 1.0], [x]) if branches else [x]
    recorder.write("x", [x])
    assert choose_envs_per_warp((recorder.build(),), n_envs, 132) == expected


def test_several_runs_to_a_step() -> None:
    """What is told moves on from step to step, not from run to run."""
    numbers = random_numbers(0, N_ENVS, STEPS)
    program = recorded(some_tree(3))
    found = on_host((program,), MEMORY, numbers, N_ENVS, STEPS, runs=2)
    agree(found, interpreted(program, MEMORY, numbers, N_ENVS, STEPS, runs=2))


@pytest.mark.parametrize("n_limbs", [2, 3, 4])
def test_threads_that_share_an_environment(n_limbs: int) -> None:
    """They exchange what they need, and none reads a state that another has already written."""
    rng = np.random.default_rng(n_limbs)
    program = limbs_program(n_limbs, rng)
    memory = Memory(state=[("state", 3 * n_limbs), ("trunk", 2)])
    numbers = memory.whole({"state": rng.uniform(-0.5, 0.5, (3 * n_limbs + 2, N_ENVS))}, N_ENVS)
    roles = partition_basic_block(program.basic_block, role_of, n_limbs)
    found = on_host(roles, memory, numbers, N_ENVS, steps=2)["state"]
    arenas = {"state": numbers["state"].copy()}
    interpret_in_place(program, arenas, memory.places(), n_runs=2)
    np.testing.assert_allclose(found, arenas["state"], rtol=1e-12, atol=1e-12)


def test_the_text_is_the_same_every_time() -> None:
    """For a CPU and for a GPU, whatever was emitted before: what was compiled once is found again."""
    for seed in range(TREES):
        texts = {
            (
                emit_cpu_modules(program, MEMORY.places(), Target("double", 4)),
                emit_thread_kernel((program,), MEMORY.places(), Target("single", is_gpu=True)),
            )
            for program in (optimise(recorded(some_tree(seed))) for _ in range(2))
        }
        assert len(texts) == 1


# ------------------------------------------------------------------------------------------------------------ for real


def assembled(roles: tuple[Program, ...], memory: Memory, precision: str, folder: Path) -> str:
    """What the compiler makes of it, which NVIDIA's assembler has taken."""
    text = emit_thread_kernel(roles, memory.places(), Target(precision, is_gpu=True), runs_per_step=2)
    code = compile_ptx(text, 32 * len(roles))
    assembler = shutil.which("ptxas")
    if assembler is None:
        pytest.skip("there is no ptxas on the PATH")
    source = folder / "kernel.ptx"
    source.write_bytes(code)
    done = subprocess.run(
        [assembler, "-arch=sm_90", "-o", str(folder / "kernel.cubin"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr
    return code.decode()


def features(program: Program) -> set[str]:
    """Which kinds of blocks a program has."""
    text = str(program)
    locations = [location for line in basic_blocks(program.body) for location in line.locations()]
    found = {
        name
        for word, name in ((" iterations of ", "count"), ("do-while ", "repeat"), ("if ", "condition"))
        if word in text
    }
    found |= {"table"} if program.for_each_loops else set()
    found |= {"index"} if any(location.index is not None for location in locations) else set()
    found |= {"scratch"} if any(location.array == SCRATCH for location in locations) else set()
    return found | ({"uniform"} if any(location.array == "g" for location in locations) else set())


@pytest.mark.parametrize("precision", representatives(["single", "double"], 1))
def test_nvidias_assembler_takes_every_kind_of_blocks(precision: str, tmp_path: Path) -> None:
    """As does LLVM's; what lies in arenas is read from there, and not from wherever it may be."""
    programs = [optimise(recorded(some_tree(seed))) for seed in range(TREES)]
    assert set(KINDS) == set().union(*map(features, programs))
    assert all(program.n_scratch == N_SCRATCH for program in programs)
    for program in programs:
        code = assembled((program,), MEMORY, precision, tmp_path)
        assert ".maxntid 32" in code
        assert not [word for word in code.split() if word.startswith(("ld.b", "st.b"))], "it does not know the memory"


@pytest.mark.parametrize("precision", ["single", "double"])
def test_nvidias_assembler_takes_roles(precision: str, tmp_path: Path) -> None:
    memory = Memory(state=[("state", 12), ("trunk", 2)])
    for n in (2, 4):
        roles = partition_basic_block(limbs_program(n, np.random.default_rng(n)).basic_block, role_of, n)
        code = assembled(roles, memory, precision, tmp_path)
        assert code.count("bar.sync") == 2 * n
        assert "ld.shared" in code
        assert "ld.local" not in code, "what a role keeps is in registers"


def test_each_operation_rounds_as_it_says() -> None:
    """Nothing is fused, approximated or flushed to zero but the first guess of a reciprocal in single precision."""
    tape = Tape()
    a, b = tape.inputs("x", 2)
    program = program_from_tape(tape, {"x": [a * b + a, 1.0 / (a - b)], "y": [sqrt(a), absolute(b)]})
    places = Memory(state=[("x", 2)], out=[("y", 2)]).places()
    for precision, own in (("single", ["rcp.approx.ftz.f32"]), ("double", ["rcp.rn.f64"])):
        code = compile_ptx(emit_thread_kernel((program,), places, Target(precision, is_gpu=True)), 64).decode()
        f = "f32" if precision == "single" else "f64"
        words = {word for word in code.split() if word.endswith(f".{f}")}
        newton = {"fma.rn.f32", "neg.f32"} if precision == "single" else set()
        assert words == {f"mul.rn.{f}", f"add.rn.{f}", f"sub.rn.{f}", f"sqrt.rn.{f}", f"abs.{f}", *own, *newton}


def test_a_role_that_has_nothing_to_give(tmp_path: Path) -> None:
    """Limbs that have nothing to do with each other exchange nothing, and meet all the same."""
    tape = Tape()
    a, b = tape.inputs("x", 2)
    program = program_from_tape(tape, {"x": [sin(a), 2.0 * b]})

    def own(location: MemoryLocation) -> int:
        return location.element

    memory = Memory(state=[("x", 2)])
    roles = partition_basic_block(program.basic_block, own, 2)
    numbers = memory.whole({"state": np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]])}, N_ENVS)
    found = on_host(roles, memory, numbers, N_ENVS)["state"]
    np.testing.assert_allclose(found, np.array([np.sin([0.1, 0.2, 0.3]), [2.0, 4.0, 6.0]]), atol=1e-15)
    assembled(roles, memory, "double", tmp_path)
