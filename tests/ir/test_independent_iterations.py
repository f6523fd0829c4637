"""Loops over independent bodies become kernels with a thread per environment and body, with the same results."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.codegen import Target, emit_thread_kernel
from kinema.dynamics.lowering.step_program import trace_step
from kinema.ir import (
    SCRATCH,
    BasicBlock,
    ForEachLoop,
    Instruction,
    KernelPart,
    MemoryLocation,
    Program,
    Store,
    interpret_in_place,
    split_into_kernels,
)
from kinema.ir.independent_iterations import MIN_COMPONENTS, parallelise_loops
from kinema.ir.interpreter import interpret_kernel_part
from kinema.ir.program import LoopSpecialization

N_BODIES, N_ENVS = 20, 2
BODY = '<body pos="{x} 0 {z}"><freejoint/><geom type="box" size=".05 .04 .03"/>{more}</body>'
HINGE = '<body pos=".1 0 0"><joint axis="0 1 0" stiffness="3" damping=".1"/><geom size=".02"/></body>'


@pytest.fixture
def scene(tmp_path: Path) -> km.Scene:
    """Free bodies, some of them with a hinge, at different positions and velocities."""
    bodies = "".join(BODY.format(x=0.3 * i, z=0.1 * i, more=HINGE * (i % 3 == 0)) for i in range(N_BODIES))
    path = tmp_path / "bodies.xml"
    path.write_text(f"<mujoco><worldbody>{bodies}</worldbody></mujoco>")
    scene = km.Scene(precision="double", quiet=True, contacts=False)
    scene.add(path)
    scene.build(n_envs=N_ENVS)
    return scene


def step_program(scene: km.Scene) -> Program:
    engine = scene.built.engine
    return trace_step(engine.model, engine.settings, engine.array_offsets, loops=True, min_copies=2 * N_BODIES)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy computes both sides of every branch
def test_kernels_of_bodies_take_the_same_step(scene: km.Scene) -> None:
    engine, program = scene.built.engine, step_program(scene)
    parts = split_into_kernels(program, 32)
    loops = [part.parallel_loop for part in parts if part.parallel_loop is not None]
    assert loops
    assert sum(len(loop.ints) for loop in loops) >= N_BODIES
    arenas = {"state": engine.state, "controls": engine.controls, "uniform": engine.uniform}
    start = {name: np.array(arena.data, copy=True) for name, arena in arenas.items()}
    start = {name: x.reshape(-1, 1) if x.ndim == 1 else x[:, :N_ENVS] for name, x in start.items()}
    row, n = engine.array_offsets["vel"].row, engine.model.n_dofs
    start["state"][row : row + n] = np.random.default_rng(0).normal(size=(n, N_ENVS))
    whole, split = ({name: x.copy() for name, x in start.items()} for _ in range(2))
    interpret_in_place(program, whole, engine.array_offsets)
    memory = np.full((max(part.program.n_scratch for part in parts), N_ENVS), np.nan)
    for part in parts:
        run_in_reverse(part, {**split, SCRATCH: memory}, scene)
    assert np.abs(whole["state"] - start["state"]).max() > 0.0
    np.testing.assert_array_equal(split["state"], whole["state"])


def run_in_reverse(part: KernelPart, arenas: dict[str, np.ndarray], scene: km.Scene) -> None:
    """Run a kernel, iterations of a parallel loop in reverse order: threads run in any order."""
    loop, program = part.parallel_loop, part.program
    if loop is not None:
        reverse = replace(loop, ints=loop.ints[::-1].copy(), floats=loop.floats[::-1].copy())
        program = replace(program, body=(reverse,))
    interpret_kernel_part(program, arenas, scene.built.engine.array_offsets)


def test_sums_over_all_bodies_are_added_afterwards(scene: km.Scene) -> None:
    """The sum that reveals an invalid state does not make the iterations of the last loop depend on each other."""
    body = parallelise_loops(step_program(scene)).body
    names = [x.name for x in body if isinstance(x, ForEachLoop) and x.parallel]
    assert any(name.endswith("next state") for name in names)
    assert "add sums" in [x.name for x in body if isinstance(x, ForEachLoop) and not x.parallel]


def test_a_tree_remains_a_loop(tmp_path: Path) -> None:
    """Links of one tree depend on each other."""
    depth = MIN_COMPONENTS + 4
    path = tmp_path / "chain.xml"
    link = '<body pos=".1 0 0"><joint axis="0 1 0"/><geom size=".02"/>'
    path.write_text(f"<mujoco><worldbody>{link * depth}{'</body>' * depth}</worldbody></mujoco>")
    scene = km.Scene(quiet=True, contacts=False)
    scene.add(path)
    scene.build()
    program = step_program(scene)
    assert "articulated bodies" in [x.name for x in program.body if isinstance(x, ForEachLoop)]
    parallel = [x for x in parallelise_loops(program).body if isinstance(x, ForEachLoop) and x.parallel]
    assert "articulated bodies" not in {y.name for x in parallel for y in x.specializations[0].body}


def test_a_thread_takes_its_iteration_from_the_block_index(scene: km.Scene) -> None:
    part = next(part for part in split_into_kernels(step_program(scene), 32) if part.parallel_loop is not None)
    target = Target("single", is_gpu=True, n_scratch=part.program.n_scratch)
    text = emit_thread_kernel((part.program,), scene.built.engine.array_offsets, target)
    assert "%iteration = udiv i32 %ctaid, %env_blocks" in text
    assert "phi i32 [ %iteration, " in text


@pytest.mark.parametrize("writes_state", [False, True])
def test_arrays_by_name_may_be_those_of_a_loop(writes_state: bool) -> None:
    """A block that writes an array of the state stays behind a loop that reads the state; others move before it."""
    columns = {"x": ("state", 0), "y": (SCRATCH, 1)}
    copy = BasicBlock((Instruction(0, "input", (), MemoryLocation("x", 0)),), (Store(MemoryLocation("y", 0), 0),))
    rows = np.arange(2 * MIN_COMPONENTS, dtype=np.int32).reshape(2, -1).T
    loop = ForEachLoop("copy", (LoopSpecialization("", (copy,), columns, {}),), rows, np.zeros((len(rows), 0)))
    target = MemoryLocation("error", 0) if writes_state else MemoryLocation(SCRATCH, 0)
    block = BasicBlock((), (Store(target, 1.0),))
    body = parallelise_loops(Program((loop, block), n_scratch=2 * MIN_COMPONENTS + 1)).body
    assert [isinstance(x, ForEachLoop) and x.parallel for x in body] == (
        [True, False] if writes_state else [False, True]
    )
