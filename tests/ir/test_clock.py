"""Programs with a clock between their blocks: the same numbers, and ticks for each block."""

from __future__ import annotations

import platform

import llvmlite.binding as llvm
import numpy as np
import pytest

from kinema.codegen import Target, emit_cpu_modules, timed_statement_names
from kinema.ir import UNIFORM, Program, Tracer, Value
from kinema.runtime import Arena, ArenaLayout, LaunchArguments

from .arenas import Memory, kernel

N, N_ENVS = 64, 5
MEMORY = Memory(state=[("x", N), ("y", 1)])


def program() -> Program:
    """A line, a condition with a line and a long loop in it, a line."""
    recorder = Tracer()
    recorder.write("x", [recorder.read("x", i) + 1.0 for i in range(N)])

    def again(state: object) -> tuple[list[Value], Value, Value]:
        (left,) = state  # type: ignore[misc]
        recorder.write("y", [recorder.read("y") * 1.01])
        return [left - 1.0], 1.5, left

    def then() -> list[Value]:
        recorder.write("y", [recorder.read("y") + 1.0])
        recorder.while_loop("often", again, [500.0], 500)
        return []

    recorder.if_less("some", 2.0, recorder.read("x", 0), then, [])
    recorder.write("x", [recorder.read("x", 1) * recorder.read("y")], 1)
    return recorder.build()


def run(lanes: int, *, timed: bool) -> tuple[np.ndarray, np.ndarray]:
    """The state after three steps, and the ticks."""
    made = kernel(program(), MEMORY, lanes, timed=timed)
    names = timed_statement_names(program().body)
    state = Arena(ArenaLayout.from_sizes("state", [("x", N), ("y", 1)]), N_ENVS, made.device, "double")
    state.view("x").assign(np.arange(N * N_ENVS, dtype=np.float64).reshape(N, N_ENVS))
    out = Arena(ArenaLayout.from_sizes("out", [("ticks", len(names) + 1)]), 1, made.device, "double")
    controls, uniform = (
        Arena(ArenaLayout.from_sizes(name, []), 1, made.device, "double") for name in ("controls", UNIFORM)
    )
    made.prepare_launch(LaunchArguments(state, controls.data, out, uniform, 3, 0, 1))()
    return np.array(state.data), out.data.view(np.int64).ravel()[: len(names)].copy()


def test_blocks_of_conditions_are_named_one_by_one() -> None:
    names = timed_statement_names(program().body)
    assert [name for name in names if name] == ["often", "some"]
    assert names[0] == names[-1] == ""


@pytest.mark.parametrize("lanes", [1, 2, 4])
def test_the_numbers_are_the_same_and_the_long_loop_takes_longest(lanes: int) -> None:
    plain, nothing = run(lanes, timed=False)
    timed, ticks = run(lanes, timed=True)
    np.testing.assert_array_equal(plain, timed)
    assert not nothing.any()
    names = timed_statement_names(program().body)
    assert (ticks >= 0).all()
    assert ticks[names.index("often")] > 0.5 * ticks.sum()


@pytest.mark.parametrize("machine", ["aarch64", "x86_64", "riscv64", platform.machine()])
def test_the_text_is_valid_for_every_processor(machine: str) -> None:
    (text,) = emit_cpu_modules(program(), MEMORY.places(), Target("single", 1), timer_machine=machine)
    llvm.parse_assembly(text).verify()
    assert ("cntvct_el0" in text) == (machine in ("aarch64", "arm64"))
    assert ("lfence" in text) == (machine in ("x86_64", "AMD64"))


@pytest.mark.parametrize(("machine", "instruction"), [("x86_64", "rdtsc"), ("riscv64", "rdcycle")])
def test_processors_have_the_instruction(machine: str, instruction: str) -> None:
    (text,) = emit_cpu_modules(program(), MEMORY.places(), Target("single", 1), timer_machine=machine)
    llvm.initialize_all_targets()
    llvm.initialize_all_asmprinters()
    target = llvm.Target.from_triple(f"{machine}-unknown-linux-gnu").create_target_machine()
    assert instruction in target.emit_assembly(llvm.parse_assembly(text))
