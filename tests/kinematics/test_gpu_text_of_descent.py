"""What inverse kinematics is for a GPU: the emitted function, called on the host for each thread, and made PTX."""

from __future__ import annotations

import numpy as np

import kinema as km
from kinema.codegen import Target, emit_thread_kernel
from kinema.ir import optimise
from kinema.kinematics import CompiledIK, IKOptions, PositionGoal
from kinema.kinematics.ik_program import TASK_ARRAY, trace_levenberg_marquardt
from kinema.runtime import ArenaLayout, find_device
from kinema.runtime.cuda_driver import compile_ptx
from kit.robots.small_robots import reacher

from ..ir.gpu_on_host import run_on_host


def test_threads_find_what_lanes_find() -> None:
    model = km.Kinematics(reacher(), precision="double").model
    solver = CompiledIK(model, [PositionGoal(link_idx=3)], find_device("cpu"), precision="double", threads=1)
    rng = np.random.default_rng(3)
    targets, start = rng.uniform(-0.5, 0.5, (6, 3)) * [1.0, 0.0, 1.0], np.tile([0.1, 0.4, 0.0], (6, 1))
    found = solver.solve([targets], start, IKOptions())
    assert found.solved.all()
    size, record = solver.task_layout.size, solver.task_layout
    tasks = np.zeros((4, size, 2))  # two threads with three targets each
    tasks[:3] = solver._pack_tasks([targets], start, None, 6).reshape(3, 2, size).transpose(0, 2, 1)
    state = np.ascontiguousarray(tasks.reshape(4 * size, 2))
    solver._write_shared_inputs(IKOptions(), 3)
    places = {**solver._uniform.layout.offsets(), **ArenaLayout.from_sizes("state", [(TASK_ARRAY, 0)]).offsets()}
    text = emit_thread_kernel([optimise(trace_levenberg_marquardt(record))], places, Target("double", is_gpu=True))
    nothing = np.zeros(8)
    arrays = {
        "state": state,
        "controls_start": nothing,
        "out": nothing,
        "uniform": solver._uniform.data,
        "scratch": nothing,
    }
    run_on_host(text, {**arrays, "ints": nothing.astype(np.int32), "floats": nothing}, (2, 1, 0, 2), 1, (1, 2))
    q = state.reshape(4, size, 2)[:3, record.q_offset : record.error_offset].transpose(0, 2, 1).reshape(6, 3)
    np.testing.assert_array_equal(q, found.qpos)
    assert b".entry" in compile_ptx(text, 64)
