"""Steps of a model beside MuJoCo's, with controls that change every step."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

from kinema.core import Diagnostics
from kinema.dynamics import Engine, Integrator
from kinema.runtime import find_device
from kit.mjcf_side import INTEGRATORS, Pair, load

from .arrays_for_tests import mjcf_settings

WAYS = [
    (Integrator.EULER, "unrolled"),
    (Integrator.IMPLICITFAST, "unrolled"),
    (Integrator.IMPLICITFAST, "loops"),
    (Integrator.RK4, "loops"),
]
"""Every integrator, and both forms of programs."""
N_STEPS = 200


def loaded_text(folder: Path, text: str) -> Pair:
    """A text on both sides, of which nothing is left out."""
    file = folder / "model.xml"
    file.write_text(text, encoding="utf-8")
    diagnostics = Diagnostics()
    pair = load(file, diagnostics)
    assert not pair.left_out
    assert not diagnostics.items, [str(d) for d in diagnostics]
    return pair


def worst_difference(
    pair: Pair,
    way: tuple[Integrator, str],
    *,
    precision: str = "double",
    steps: int = N_STEPS,
    begin: Callable[[Any], None] = lambda data: None,
) -> float:
    """The greatest difference of any coordinate, velocity or activation on the way, from a random state on."""
    pair.theirs.opt.integrator = INTEGRATORS[way[0]]
    engine = Engine(pair.ours, mjcf_settings(pair, way[0]), 1, find_device("cpu"), precision=precision, codegen=way[1])
    generator = np.random.default_rng(3)
    data = pair.random_state(generator, speed=2.0)
    begin(data)
    theirs = pair.arrays([data])
    names = [name for name in ("qpos", "vel", "act") if theirs[name].size]
    for name in names:
        engine.array_view(name).assign(theirs[name])
    worst = 0.0
    for _ in range(steps):
        data.ctrl[:] = generator.uniform(-0.5, 1.5, pair.theirs.nu)
        if pair.theirs.nu:
            engine.array_view("ctrl").assign(pair.arrays([data])["ctrl"])
        mujoco.mj_step(pair.theirs, data)
        engine.step()
        theirs = pair.arrays([data])
        worst = max(worst, *(float(np.abs(engine.array_view(name).numpy() - theirs[name]).max()) for name in names))
    assert np.abs(data.qvel).max() < 1e2, "what blows up is compared with nothing"
    return worst
