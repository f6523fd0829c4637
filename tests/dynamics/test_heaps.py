"""Heaps: environments that run side by side do not know of each other."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Engine, Settings
from kinema.read import read
from kinema.runtime import find_device

BALLS = 5
HEAP = f"""<mujoco><option timestep="0.002"/><worldbody><geom type="plane" size="5 5 .1"/>
{"".join(f'<body pos="0 0 {0.1 + 0.199 * i}"><freejoint/><geom size=".1"/></body>' for i in range(BALLS))}
</worldbody></mujoco>"""


def test_it_does_not_matter_who_is_first(tmp_path: Path) -> None:
    """Of those side by side the first has nothing that touches, at first, and then other things than the others."""
    (tmp_path / "heap.xml").write_text(HEAP)
    model = build_model([EntitySpec(name="heap", description=read(tmp_path / "heap.xml"))], with_contacts=True)
    settings, cpu = Settings(dt=0.002, limits=True, constraints=True, contacts=True), find_device("cpu")
    found = []
    for lanes in (1, 4):
        engine = Engine(model, settings, 4, cpu, precision="double", lanes=lanes, codegen="loops")
        qpos = np.array(engine.array_view("qpos").numpy())
        for i in range(BALLS):
            qpos[7 * i, 0], qpos[7 * i + 2, 0] = 0.05 * i, 0.13 + 0.25 * i  # in the air, and each beside that below
            qpos[7 * i, 1:] = 0.3 * i * np.array([0.0, 1.0, 0.1])  # a tower, all on the floor, one that falls over
        engine.array_view("qpos").assign(qpos)
        engine.step(60)
        found.append(np.vstack([engine.array_view(name).numpy() for name in ("qpos", "vel", "n_contacts")]))
    assert found[0][-1].min() > 0.0
    np.testing.assert_allclose(found[1], found[0], rtol=1e-9, atol=1e-9)
