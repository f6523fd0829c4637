"""Contacts in single precision, whatever the state: heaps of shapes, deep in each other, tiny and huge, far away."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kit.choosing import representatives

SHAPES = (
    'type="sphere" size="0.1"',
    'type="capsule" size="0.05 0.1"',
    'type="box" size="0.1 0.05 0.2"',
    'type="cylinder" size="0.1 0.05"',
    'type="sphere" size="0.02" density="1e6"',
    'type="box" size="1 1 0.001" density="1"',
)
CONES = {"pyramidal": SHAPES[:4], "elliptic": SHAPES}
N = 48


def heap(cone: str) -> str:
    """A floor, and one of each."""
    bodies = "".join(
        f'<body><freejoint/><geom {shape} condim="{3 + i % 2}"/></body>' for i, shape in enumerate(CONES[cone])
    )
    floor = '<geom type="plane" size="9 9 .1"/>'
    return f'<mujoco><option cone="{cone}"/><worldbody>{floor}{bodies}</worldbody></mujoco>'


@pytest.mark.parametrize("cone", representatives(CONES, 1))
def test_heaps(cone: str, tmp_path: Path) -> None:
    """150 steps from anywhere, half of them about one point: finite, and no faster than they could have fallen."""
    file = tmp_path / "heap.xml"
    file.write_text(heap(cone), encoding="utf-8")
    scene = km.Scene(quiet=True, codegen="loops")
    entity = scene.add(file)
    scene.build(n_envs=N)
    rng = np.random.default_rng(0)
    q = np.zeros((N, 7 * len(CONES[cone])))
    for i in range(len(CONES[cone])):
        spread = np.where(np.arange(N) < N // 2, 0.0, 0.3)[:, None]
        q[:, 7 * i : 7 * i + 3] = spread * rng.normal(size=(N, 3)) + [0.0, 0.0, 0.2]
        turn = rng.normal(size=(N, 4))
        q[:, 7 * i + 3 : 7 * i + 7] = turn / np.linalg.norm(turn, axis=1, keepdims=True)
    q[::3, ::7] += 1000.0
    entity.set_qpos(q)
    for _ in range(150):
        scene.step()
    assert not scene.get_error_envs_mask().any()
    positions, speeds = entity.get_qpos(), entity.get_dofs_velocity()
    assert np.isfinite(positions).all()
    assert np.isfinite(speeds).all()
    assert np.abs(speeds.reshape(N, -1, 6)[:, :, :3]).max() < 300.0
    assert scene.built.engine.array_view("n_lost_contacts").numpy().max() == 0.0
