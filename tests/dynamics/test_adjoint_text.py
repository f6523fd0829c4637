"""The adjoint of a step in the code that a GPU gets, run thread by thread on this machine: what a CPU makes of it."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.codegen import Target, emit_thread_kernel
from kinema.codegen.cuda import thread_kernel
from kinema.dynamics import Engine
from kinema.dynamics.engine import adjoint
from kinema.dynamics.lowering.derivative_programs import solution_settings, trace_step_adjoint
from kinema.dynamics.settings import Settings
from kinema.ir import SCRATCH, UNIFORM, Program, basic_blocks, optimise, partition_basic_block
from kinema.ir.effects import allocation_start
from kinema.ir.passes import gpu_passes, run_passes
from kinema.runtime.compilation import _extend_to_scratch

from ..ir.gpu_on_host import WARP_SIZE, run_on_host

LEGS = """<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .1"><freejoint/><geom size=".03"/>
<body pos=".1 0 0"><joint axis="0 1 0"/><geom type="capsule" size=".02" fromto="0 0 0 .1 0 -.08"/></body>
<body pos="-.1 0 0"><joint axis="0 1 0" range="-1 1"/><geom type="capsule" size=".02" fromto="0 0 0 -.1 0 -.08"/></body>
</body></worldbody></mujoco>"""
N_ENVS = 3


@pytest.mark.slow("compiles a step and its adjoint, and interprets their kernels in NumPy")
@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_adjoints_as_a_gpu_is_told_them(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """In kernels that share memory without initial values, of one or two threads per environment, with warps."""

    def settings_of_gpu(settings: Settings, *, external_forces: bool = False) -> Settings:
        return replace(solution_settings(settings, external_forces=external_forces), always_solve=True)

    monkeypatch.setattr(adjoint, "solution_settings", settings_of_gpu)
    monkeypatch.setattr(thread_kernel, "MIN_GUARDED_ROWS", 2)
    path = tmp_path / "legs.xml"
    path.write_text(LEGS)
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(path)
    scene.build(n_envs=N_ENVS)
    robot.set_qpos([0.0, 0.0, 0.0955, 1.0, 0.0, 0.0, 0.0, 0.0, 0.1], envs_idx=[0])
    robot.set_qpos([0.0, 0.0, 0.3, 1.0, 0.0, 0.0, 0.0, 0.0, 1.2], envs_idx=[1])
    scene.step(3)
    trajectory, pullback = km.gradients.rollout(scene, control=np.ones((1, N_ENVS, 0)))
    engine, programs = scene.built.engine, scene._linearization.adjoint_programs(scene.built.engine, "ctrl", 0.0)
    arenas, before = {**programs.arenas, "out": programs.flags}, {}
    launch = programs.adjoint.launch

    def launch_and_compare() -> None:
        before.update({name: np.array(arena.data, copy=True) for name, arena in arenas.items()})
        launch()

    monkeypatch.setattr(programs.adjoint, "launch", launch_and_compare)
    weights = np.random.default_rng(0).normal(size=trajectory.qvel.shape)
    pullback(qvel=weights, qpos=np.ones_like(trajectory.qpos))
    state = run_kernels(engine, programs, before)
    for name in ("qpos", "vel"):
        row, n = programs.arenas["state"].layout.rows[f"d {name}"]
        expected = programs.arenas["state"].data[row : row + n, :N_ENVS]
        np.testing.assert_allclose(
            state[row : row + n, :N_ENVS], expected, rtol=1e-9, atol=1e-9 * np.abs(expected).max()
        )


def run_kernels(engine: Engine, programs: adjoint.AdjointPrograms, before: dict[str, np.ndarray]) -> np.ndarray:
    """State and adjoints after the kernels of the adjoint program, which start from the arenas in `before`."""
    layouts = [engine.uniform.layout, *(arena.layout for arena in programs.arenas.values()), programs.flags.layout]
    offsets = {name: offset for layout in layouts for name, offset in layout.offsets().items()}
    program = trace_step_adjoint(programs.model, programs.settings, offsets, loops=False)
    parts = run_passes(program, gpu_passes(WARP_SIZE, 1500), verify_each=True)
    partitioning = engine.partitioning(2)
    assert partitioning is not None
    partition_of = _extend_to_scratch(partitioning, parts).partition_of
    n_scratch = max(part.program.n_scratch for part in parts)
    target = Target("double", is_gpu=True, n_scratch=n_scratch)
    arrays = {"controls_start" if name == "controls" else name: _padded(x) for name, x in before.items()}
    arrays |= {UNIFORM: engine.uniform.data.reshape(-1, 1), SCRATCH: np.full(n_scratch * WARP_SIZE, np.nan)}
    n_partitioned = n_guarded = 0
    for part in parts:
        assert_within_allocations(part.program)
        threads = (optimise(part.program),)
        if part.program.is_straight_line and part.program.n_instructions > 1000:
            threads = partition_basic_block(part.program.basic_block, partition_of, 2)
            n_partitioned += 1
        text = emit_thread_kernel(threads, offsets, target)
        n_guarded += "row_list" in text
        ints, floats = part.program.pack_tables()
        shape = len(threads), N_ENVS
        run_on_host(text, {**arrays, "ints": ints, "floats": floats}, (WARP_SIZE, 1, 0, N_ENVS), 1, shape)
    assert n_partitioned >= 2
    assert n_guarded >= 2
    return arrays["state"]


def assert_within_allocations(program: Program) -> None:
    """Allocations are moved one by one: what lies at a constant distance from another cell must be in the same one."""
    for loop in program.for_each_loops:
        indices = loop.specialization_indices()
        for i, specialization in enumerate(loop.specializations):
            elements: dict[str, set[int]] = {}
            for location in (x for block in basic_blocks(specialization.body) for x in block.locations()):
                elements.setdefault(location.array, set()).add(location.element)
            for array, (arena, column) in specialization.array_columns.items():
                rows = loop.ints[indices == i, column].tolist() if arena == SCRATCH and array in elements else []
                for row in rows:
                    last = row + max(elements[array])
                    assert allocation_start(program, row) == allocation_start(program, last), (loop.name, array)


def _padded(values: np.ndarray) -> np.ndarray:
    """Rows of the environments with the stride of a warp, and a row more."""
    return np.pad(values[:, :N_ENVS], ((0, 1), (0, WARP_SIZE - N_ENVS)))
