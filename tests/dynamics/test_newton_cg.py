"""Newton-CG, the solver of scenes of many bodies, finds the forces that the factorised Hessian gives."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.apps.bench.heap import HeapKind, heap_mjcf, residual_force
from kinema.dynamics.solver import newton_cg

N_BODIES = 12


def settle(
    file: Path, precision: str, steps: int, cone: str | None = None
) -> tuple[np.ndarray, np.ndarray, np.ndarray]:
    """Positions and velocities of a heap after some steps, and the velocities after one more."""
    scene = km.Scene(quiet=True, precision=precision, cone=cone, codegen="loops")
    entity = scene.add(km.read(file))
    scene.build(n_envs=1)
    scene.step(steps)
    qpos, qvel = entity.get_qpos()[0], entity.get_qvel()[0]
    scene.step()
    return [qpos, qvel, entity.get_qvel()[0]]


@pytest.mark.parametrize(
    ("kind", "cone"),
    [(HeapKind.BOXES, "pyramidal"), pytest.param(HeapKind.MIXED, "elliptic", marks=pytest.mark.exhaustive)],
)
@pytest.mark.usefixtures("no_program_cache")
def test_same_motion_as_with_a_factorisation(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, kind: HeapKind, cone: str
) -> None:
    """In double precision, a falling and colliding heap moves as with the direct method."""
    file = tmp_path / "heap.xml"
    file.write_text(heap_mjcf(N_BODIES, kind, 3), encoding="utf-8")
    direct = settle(file, "double", 40, cone)
    monkeypatch.setattr(newton_cg, "MIN_BODIES", 4)
    iterative = settle(file, "double", 40, cone)
    assert np.abs(direct[1]).max() > 0.1
    for a, b in zip(direct, iterative, strict=True):
        np.testing.assert_allclose(a, b, rtol=0.0, atol=1e-6)


@pytest.mark.usefixtures("no_program_cache")
def test_residual_in_single_precision(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """MuJoCo's inverse dynamics finds the equations of motion satisfied, to 2e-3 of the constraint forces."""
    file = tmp_path / "heap.xml"
    file.write_text(heap_mjcf(N_BODIES, HeapKind.SPHERES, 3), encoding="utf-8")
    monkeypatch.setattr(newton_cg, "MIN_BODIES", 4)
    qpos, qvel, next_qvel = settle(file, "single", 200)
    assert max(residual_force(file, qpos, qvel, next_qvel)) < 2e-3
