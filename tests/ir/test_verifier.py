"""Rules of programs: kept by all passes on robots and scenes, and a fault of each kind is found."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

import kinema as km
from kinema.core import InternalError
from kinema.dynamics import Engine
from kinema.dynamics.lowering.step_program import should_use_warps, trace_step
from kinema.ir import (
    CPU_PASSES,
    SCRATCH,
    WARP_GLOBAL,
    BasicBlock,
    If,
    Instruction,
    LoopIteration,
    MemoryLocation,
    Program,
    Store,
    Tracer,
    gpu_passes,
    optimise,
    run_passes,
    trace_for_each_loop,
    verify,
)
from kinema.ir.memory import ArenaOffset
from kit.choosing import representatives

ROBOTS = Path(__file__).parents[2] / "examples" / "robots"


def boxes(scene: km.Scene) -> None:
    for i in range(8):
        scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0.12 * (i % 2), 0.0, 0.06 + 0.12 * (i // 2)))


SCENES: dict[str, Callable[[km.Scene], object]] = {
    "arm": lambda scene: scene.add(ROBOTS / "arm" / "arm.urdf"),
    "gripper": lambda scene: scene.add(ROBOTS / "gripper" / "gripper.sdf", pos=(0, 0, 0.5)),
    "boxes": boxes,
}


def engine_of(name: str) -> Engine:
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    SCENES[name](scene)
    scene.build(n_envs=1)
    return scene.built.engine


@pytest.mark.parametrize("name", representatives(SCENES, lambda name: name == "gripper"))
def test_every_pass_keeps_the_rules(name: str) -> None:
    """Looped and unrolled programs of a CPU, and kernels of a GPU."""
    engine = engine_of(name)
    warps = replace(engine.settings, use_warps=should_use_warps(engine.model, engine.settings))
    for settings, loops in ((engine.settings, engine.uses_loops), (warps, False)):
        program = trace_step(engine.model, settings, engine.array_offsets, loops=loops)
        verify(program)
        verify(optimise(run_passes(program, CPU_PASSES)))
        if program.has_cooperative_regions:
            for part in run_passes(program, gpu_passes(32), verify_each=True):
                verify(optimise(part.program), {WARP_GLOBAL: part.n_global})


def block(*instructions: Instruction, store: Store | None = None) -> Program:
    return Program((BasicBlock(instructions, () if store is None else (store,)),), {"local": 2}, n_scratch=3)


def load(result: int, index: int | None = None) -> Instruction:
    return Instruction(result, "input", (), MemoryLocation("x", 0, index))


def counted(count: float) -> Program:
    tracer = Tracer()
    tracer.counted_loop("count", tracer.read("x") * tracer.read("x") * 0.0 + count, lambda _: tracer.write("y", [1.0]))
    return tracer.build()


def table(row: int) -> Program:
    tracer = Tracer()
    rows = [LoopIteration("kind", {"to": ArenaOffset(SCRATCH, start)}) for start in (0, row)]
    trace_for_each_loop(tracer, "rows", rows, lambda code: code.write("to", [1.0, 2.0]))
    return tracer.build(n_scratch=4)


def condition(value: float) -> Program:
    store = BasicBlock((), (Store(MemoryLocation("local", 0), value),))
    return Program((store, If("branch", MemoryLocation("local", 0), ())), {"local": 1})


FAULTS = {
    "uses undefined values": block(Instruction(1, "neg", (0,))),
    "is defined twice": block(load(0), load(0)),
    "2 operands": block(load(0), Instruction(1, "neg", (0, 0))),
    "squared with 1": block(load(0), Instruction(1, "squared", (0,))),
    "loop_index with 0": block(Instruction(0, "loop_index", ())),
    "store to x": block(store=Store(MemoryLocation("x", 0), 1)),
    "outside of 'local'": block(store=Store(MemoryLocation("local", 2), 1.0)),
    "outside of 'scratch'": block(store=Store(MemoryLocation(SCRATCH, 3), 1.0)),
    "not an integer": block(load(0), Instruction(1, "sin", (0,)), load(2, index=1)),
    "rows, block 0: to": table(3),
    "must be of type bool": condition(2.0),
}


@pytest.mark.parametrize("message", FAULTS)
def test_a_fault_is_found(message: str) -> None:
    with pytest.raises(InternalError, match=message):
        verify(FAULTS[message])


def test_lawful_programs_have_no_fault() -> None:
    """The neighbours of those with faults."""
    for program in (table(2), condition(1.0), counted(3.0)):
        verify(program)
    verify(block(load(0), Instruction(1, "floor", (0,)), load(2, index=1), store=Store(MemoryLocation("local", 1), 2)))
