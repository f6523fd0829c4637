"""Rules of collision on a GPU: which scenes have them, and their step in the code of a GPU, run on this machine."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.codegen import Target, emit_thread_kernel
from kinema.dynamics import Settings, supports_pair_rules
from kinema.dynamics.lowering.step_program import trace_step
from kinema.ir import SCRATCH, UNIFORM, optimise
from kinema.ir.passes import gpu_passes, run_passes
from kinema.read import read

from ...ir.gpu_on_host import WARP_SIZE, run_on_host

N_ENVS = 3
HEAP = """<mujoco><option timestep="0.004"/><worldbody><geom type="plane" size="5 5 .1"/>
<body pos="0 0 .049"><freejoint/><geom type="box" size=".05 .05 .05" mass="1"/></body>
<body pos=".02 .01 .138"><freejoint/><geom size=".04"/></body>
<body pos=".3 0 .08"><freejoint/><geom type="capsule" size=".03 .04"/></body></worldbody></mujoco>"""


@pytest.mark.parametrize(
    ("n_bodies", "n_envs", "sleep", "expected"),
    [
        (64, 4096, 0.0, False),
        (64, 4096, 1e-3, True),
        (65, 1024, 0.0, False),
        (65, 1025, 0.0, True),
        (65, 1, 1e-3, True),
        (256, 1, 0.0, False),
        (257, 1, 0.0, True),
    ],
)
def test_scenes_of_more_bodies_than_a_warp_solves(
    n_bodies: int, n_envs: int, sleep: float, expected: bool, tmp_path: Path
) -> None:
    """A warp finds the contacts of a table of pairs; on a CPU all scenes may have rules."""
    bodies = "".join(f'<body pos="{0.3 * i} 0 1"><freejoint/><geom size=".1"/></body>' for i in range(n_bodies))
    path = tmp_path / "row.xml"
    path.write_text(f'<mujoco><worldbody><geom type="plane" size="5 5 .1"/>{bodies}</worldbody></mujoco>')
    model = build_model([EntitySpec(name="row", description=read(path))], with_contacts=True, min_ruled_geoms=0)
    settings = Settings(sleep_tolerance=sleep)
    assert supports_pair_rules(model, settings, is_cpu=False, n_envs=n_envs) is expected
    assert supports_pair_rules(model, settings, is_cpu=True, n_envs=n_envs)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")
def test_the_step_of_a_thread_is_that_of_a_cpu(tmp_path: Path) -> None:
    """A kernel of one thread per environment, from scratch memory without initial values: two steps in contact."""
    path = tmp_path / "heap.xml"
    path.write_text(HEAP)
    scene = km.Scene(precision="double", quiet=True, broad_phase="cells")
    heap = scene.add(path)
    scene.build(n_envs=N_ENVS)
    engine = scene.built.engine
    assert engine.model.has_pair_rules
    heap.set_qvel(0.2 * np.random.default_rng(0).normal(size=heap.get_qvel().shape))
    scene.step(12)
    arenas = {"state": engine.state, "controls": engine.controls}
    arrays = {name: _padded(np.array(arena.data, copy=True)) for name, arena in arenas.items()}
    arrays["controls_start"] = arrays.pop("controls")
    arrays["out"] = np.zeros((1, WARP_SIZE))
    arrays[UNIFORM] = np.array(engine.uniform.data, copy=True).reshape(-1, 1)
    program = trace_step(engine.model, engine.settings, engine.array_offsets, loops=True)
    parts = run_passes(program, gpu_passes(WARP_SIZE, 1500), verify_each=True)
    n_scratch = max(part.program.n_scratch for part in parts)
    arrays[SCRATCH] = np.full(n_scratch * WARP_SIZE, np.nan)
    target = Target("double", is_gpu=True, n_scratch=n_scratch)
    texts = [emit_thread_kernel((optimise(part.program),), engine.array_offsets, target) for part in parts]
    for _ in range(2):
        for part, text in zip(parts, texts, strict=True):
            ints, floats = part.program.pack_tables()
            run_on_host(text, {**arrays, "ints": ints, "floats": floats}, (WARP_SIZE, 1, 0, N_ENVS), 1, (1, N_ENVS))
    scene.step(2)
    assert int(scene.get_contacts().n.min()) >= 4
    expected = engine.state.data[:, :N_ENVS]
    np.testing.assert_allclose(arrays["state"][: len(expected), :N_ENVS], expected, rtol=1e-9, atol=1e-11)


def _padded(values: np.ndarray) -> np.ndarray:
    """Rows of the environments with the stride of a warp, and a row more."""
    return np.pad(values[:, :N_ENVS], ((0, 1), (0, WARP_SIZE - N_ENVS)))
