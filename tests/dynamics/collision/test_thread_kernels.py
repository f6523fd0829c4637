"""Steps with contacts in kernels with one thread per environment, as derivatives on a GPU have them."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

import kinema as km
from kinema.dynamics import BroadPhase
from kinema.dynamics.lowering.step_program import trace_step
from kinema.ir import split_into_kernels
from kinema.ir.interpreter import interpret_kernel_part
from kinema.ir.memory import SCRATCH


def test_a_kernel_of_a_scene_with_a_candidate_list() -> None:
    """Kernels have a layout of scratch memory of their own: it keeps together what a loop fills element by element."""
    scene = km.Scene(precision="double", quiet=True)
    scene.add(km.Plane())
    for i in range(5):
        scene.add(km.Sphere(0.1), pos=(0.19 * (i % 3), 0.19 * (i // 3), 0.098))
    scene.build(n_envs=2)
    engine = scene.built.engine
    settings = replace(engine.settings, use_warps=False, broad_phase=BroadPhase.LIST)
    program = trace_step(engine.model, settings, engine.array_offsets, loops=False)
    (part,) = split_into_kernels(program, 32)
    assert "mark all frame pairs near" in str(program)
    arenas = {"state": engine.state, "controls": engine.controls, "uniform": engine.uniform}
    arrays = {name: np.array(arena.data).reshape(len(arena.data), -1)[:, :2] for name, arena in arenas.items()}
    arrays["uniform"] = np.repeat(arrays["uniform"][:, :1], 2, axis=1)
    arrays["out"] = np.zeros((1, 2))
    arrays[SCRATCH] = np.full((part.program.n_scratch, 2), np.nan)
    interpret_kernel_part(part.program, arrays, engine.array_offsets)
    scene.step()
    row, n = engine.array_offsets["vel"].row, engine.model.n_dofs
    expected = np.array(engine.state.data)[row : row + n, :2]
    np.testing.assert_allclose(arrays["state"][row : row + n], expected, rtol=0, atol=1e-10)
