"""What inverse kinematics is for a GPU: the emitted function, called on the host for each thread, and made PTX."""

from __future__ import annotations

import numpy as np

import kinema as km
from kinema.backend import Layout, find_device
from kinema.backend.gpu_code import ptx
from kinema.sim import InverseKinematics, PositionGoal, Search
from kinema.sim.kinematics.descent import TASKS, descent_program
from kinema.trace import Target, emit_gpu, optimise
from kit.robots.small_robots import reacher

from ..trace.gpu_on_host import run_on_host


def test_threads_find_what_lanes_find() -> None:
    model = km.Kinematics(reacher(), precision="double").model
    solver = InverseKinematics(model, [PositionGoal(link_idx=3)], find_device("cpu"), precision="double", threads=1)
    rng = np.random.default_rng(3)
    targets, start = rng.uniform(-0.5, 0.5, (6, 3)) * [1.0, 0.0, 1.0], np.tile([0.1, 0.4, 0.0], (6, 1))
    found = solver.solve([targets], start, Search())
    assert found.solved.all()
    size, record = solver.record.size, solver.record
    tasks = np.zeros((4, size, 2))  # two threads with three targets each
    tasks[:3] = solver._tasks([targets], start, None, 6).reshape(3, 2, size).transpose(0, 2, 1)
    state = np.ascontiguousarray(tasks.reshape(4 * size, 2))
    solver._tell(Search(), 3)
    places = {**solver._uniform.layout.places(), **Layout.of("state", [(TASKS, 0)]).places()}
    text = emit_gpu([optimise(descent_program(record))], places, Target("double", gpu=True))
    nothing = np.zeros(8)
    arrays = {
        "state": state,
        "told_start": nothing,
        "out": nothing,
        "uniform": solver._uniform.data,
        "scratch": nothing,
    }
    run_on_host(text, {**arrays, "ints": nothing.astype(np.int32), "floats": nothing}, (2, 1, 0, 2), 1, (1, 2))
    q = state.reshape(4, size, 2)[:3, record.q : record.errors].transpose(0, 2, 1).reshape(6, 3)
    np.testing.assert_array_equal(q, found.qpos)
    assert b".entry" in ptx(text, 64)
