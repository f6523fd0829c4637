"""The text for GPUs, without a GPU: a small machine runs it, and NVIDIA's compiler takes it."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.trace import (
    SCRATCH,
    UNIFORM,
    Program,
    Slot,
    Tape,
    Target,
    emit_llvm,
    emit_ptx,
    finish,
    interpret_in,
    optimise,
    sin,
    split,
)
from kinema.trace.blocks import lines

from .arenas import Memory, Numbers, interpreted
from .ptx_machine import Machine
from .random_programs import MEMORY, N_SCRATCH, random_numbers, recorded, some_tree, trees
from .test_random_programs import agree
from .test_split import limbs_program, role_of

N_ENVS, STRIDE, STEPS = 3, 5, 2
KINDS = ("count", "repeat", "condition", "table", "index", "scratch", "uniform")
TREES = 12


def on_the_machine(
    roles: tuple[Program, ...], memory: Memory, numbers: Numbers, n_envs: int, steps: int = 1, runs: int = 1
) -> Numbers:
    """What is in the arenas after the text has run; beside the environments there is nothing."""
    text = emit_ptx(roles, memory.places(), Target("double"), runs)
    ints, floats = roles[0].tables()
    arrays = {SCRATCH: np.full((max(roles[0].n_scratch, 1), STRIDE), np.nan), "ints": ints, "floats": floats}
    for arena, values in numbers.items():
        wide = np.full((max(len(values), 1), 1 if arena == UNIFORM else STRIDE), np.nan)
        wide[: len(values), : values.shape[1]] = values
        arrays["told_start" if arena == "told" else arena] = wide
    Machine(text, arrays, STRIDE, steps, memory.n_rows("told")).run(range(n_envs))
    result: Numbers = {}
    for arena, values in numbers.items():
        whole = arrays["told_start" if arena == "told" else arena]
        assert np.isnan(whole[:, values.shape[1] :]).all(), "it has written beside its environments"
        result[arena] = whole[: len(values), : values.shape[1]]
    return result


@settings(max_examples=100)
@given(tree=trees(), seed=st.integers(0, 5))
def test_the_text_does_what_the_interpreter_does(tree: tuple[Any, ...], seed: int) -> None:
    numbers = random_numbers(seed, N_ENVS, STEPS)
    program = recorded(tree)
    found = on_the_machine((optimise(program),), MEMORY, numbers, N_ENVS, STEPS)
    agree(found, interpreted(program, MEMORY, numbers, N_ENVS, STEPS))


def test_several_runs_to_a_step() -> None:
    """What is told moves on from step to step, not from run to run."""
    numbers = random_numbers(0, N_ENVS, STEPS)
    program = recorded(some_tree(3))
    found = on_the_machine((program,), MEMORY, numbers, N_ENVS, STEPS, runs=2)
    agree(found, interpreted(program, MEMORY, numbers, N_ENVS, STEPS, runs=2))


@pytest.mark.parametrize("n_limbs", [2, 3, 4])
def test_threads_that_share_an_environment(n_limbs: int) -> None:
    """They exchange what they need, and none reads a state that another has already written."""
    rng = np.random.default_rng(n_limbs)
    program = limbs_program(n_limbs, rng)
    memory = Memory(state=[("state", 3 * n_limbs), ("trunk", 1)])
    numbers = memory.whole({"state": rng.uniform(-0.5, 0.5, (3 * n_limbs + 1, N_ENVS))}, N_ENVS)
    roles = split(program.line, role_of, n_limbs)
    found = on_the_machine(roles, memory, numbers, N_ENVS, steps=2)["state"]
    arenas = {"state": numbers["state"].copy()}
    interpret_in(program, arenas, memory.places(), runs=2)
    np.testing.assert_allclose(found, arenas["state"], rtol=1e-12, atol=1e-12)


def test_the_text_is_the_same_every_time() -> None:
    """For a CPU and for a GPU, whatever was emitted before: what was compiled once is found again."""
    for seed in range(TREES):
        texts = {
            (
                emit_llvm(program, MEMORY.places(), Target("double", 4)),
                emit_ptx((program,), MEMORY.places(), Target("single")),
            )
            for program in (optimise(recorded(some_tree(seed))) for _ in range(2))
        }
        assert len(texts) == 1


# ------------------------------------------------------------------------------------------------------------ for real

_KERNEL = """
__global__ void {name}({scalar}* state, const {scalar}* told_start, {scalar}* out, const {scalar}* uniform,
    {scalar}* scratch, const int* ints, const {scalar}* floats, int stride, int steps, int advance) {{
const int e = blockIdx.x * 32 + threadIdx.x % 32;
{text}}}
"""


def kernels(programs: list[tuple[Program, ...]], memory: Memory, precision: str) -> str:
    """One file with all of them: starting the compiler takes longer than its work."""
    target = Target(precision)
    return "".join(
        _KERNEL.format(name=f"kernel{i}", scalar=target.scalar, text=emit_ptx(roles, memory.places(), target, runs))
        for i, roles in enumerate(programs)
        for runs in [1 + i % 2]
    )


def compile_with_nvcc(text: str, folder: Path) -> None:
    compiler = shutil.which("nvcc")
    if compiler is None:
        pytest.skip("there is no nvcc on the PATH")
    source = folder / "kernels.cu"
    source.write_text(text, encoding="utf-8")
    done = subprocess.run(
        [compiler, "-arch=sm_90", "-c", "-o", str(folder / "kernels.o"), str(source)],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stdout + done.stderr


def features(program: Program) -> set[str]:
    """Which kinds of blocks a program has."""
    text = str(program)
    slots = [slot for line in lines(program.blocks) for slot in line.slots()]
    found = {
        name for word, name in ((" turns of ", "count"), ("repeat ", "repeat"), ("if ", "condition")) if word in text
    }
    found |= {"table"} if program.loops else set()
    found |= {"index"} if any(slot.index is not None for slot in slots) else set()
    found |= {"scratch"} if any(slot.array == SCRATCH for slot in slots) else set()
    return found | ({"uniform"} if any(slot.array == "g" for slot in slots) else set())


@pytest.mark.parametrize("precision", ["single", "double"])
def test_nvidias_compiler_takes_every_kind_of_blocks(precision: str, tmp_path: Path) -> None:
    programs = [optimise(recorded(some_tree(seed))) for seed in range(TREES)]
    assert set(KINDS) == set().union(*map(features, programs))
    assert all(program.n_scratch == N_SCRATCH for program in programs)
    compile_with_nvcc(kernels([(program,) for program in programs], MEMORY, precision), tmp_path)


@pytest.mark.parametrize("precision", ["single", "double"])
def test_nvidias_compiler_takes_roles(precision: str, tmp_path: Path) -> None:
    memory = Memory(state=[("state", 12), ("trunk", 1)])
    programs = [split(limbs_program(n, np.random.default_rng(n)).line, role_of, n) for n in (2, 4)]
    compile_with_nvcc(kernels(programs, memory, precision), tmp_path)


def test_a_role_that_has_nothing_to_give(tmp_path: Path) -> None:
    """Limbs that have nothing to do with each other exchange nothing, and meet all the same."""
    tape = Tape()
    a, b = tape.inputs("x", 2)
    program = finish(tape, {"x": [sin(a), 2.0 * b]})

    def own(slot: Slot) -> int:
        return slot.item

    memory = Memory(state=[("x", 2)])
    roles = split(program.line, own, 2)
    numbers = memory.whole({"state": np.array([[0.1, 0.2, 0.3], [1.0, 2.0, 3.0]])}, N_ENVS)
    found = on_the_machine(roles, memory, numbers, N_ENVS)["state"]
    np.testing.assert_allclose(found, np.array([np.sin([0.1, 0.2, 0.3]), [2.0, 4.0, 6.0]]), atol=1e-15)
    compile_with_nvcc(kernels([roles], memory, "double"), tmp_path)
