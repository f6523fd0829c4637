"""Directions that the narrow phase keeps from step to step: they change the time of a search, not its result."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.core import quaternion_to_matrix
from kinema.dynamics.arrays import DIRECTION_ARRAY, DIRECTION_STEP_ARRAY, DIRECTIONS_PER_GEOM
from kinema.dynamics.collision.initial_directions import DIRECTION, MAX_PARTNERS, STAMP

N_BODIES = 21


def heap_file(folder: Path) -> Path:
    """Hulls and ellipsoids that fall on each other."""
    random = np.random.default_rng(3)
    points = random.normal(size=(14, 3))
    points *= 0.1 / np.linalg.norm(points, axis=1)[:, None]
    shapes = (
        'type="mesh" mesh="hull"',
        'type="ellipsoid" size="0.1 0.08 0.06"',
    )
    bodies = ""
    for i in range(N_BODIES):
        x, y, z = 0.15 * (i % 3), 0.15 * (i // 3 % 3), 0.12 + 0.19 * (i // 9)
        quaternion = " ".join(f"{v:.4f}" for v in random.normal(size=4))
        bodies += (
            f'<body pos="{x:g} {y:g} {z:g}" quat="{quaternion}"><freejoint/><geom {shapes[i % 2]} mass="1"/></body>'
        )
    (folder / "heap.xml").write_text(
        f'<mujoco model="heap"><option timestep="0.004"/><asset><mesh name="hull" vertex="'
        f'{" ".join(f"{v:.5f}" for v in points.ravel())}"/></asset>'
        f'<worldbody><geom type="plane" size="0 0 1"/>{bodies}</worldbody></mujoco>'
    )
    return folder / "heap.xml"


Heap = tuple[km.Scene, km.scene.Entity]


def make_scene(file: Path, precision: str) -> Heap:
    scene = km.Scene(quiet=True, precision=precision)
    entity = scene.add(km.read(file))
    scene.build()
    return scene, entity


@pytest.fixture(scope="module")
def heap(tmp_path_factory: pytest.TempPathFactory) -> Heap:
    """The heap in single precision."""
    return make_scene(heap_file(tmp_path_factory.mktemp("heap")), "single")


def deepest_by_pair(scene: km.Scene) -> dict[tuple[int, int], tuple[float, np.ndarray]]:
    """Depth and normal of the deepest contact of each pair of geoms."""
    contacts = scene.get_contacts()
    found: dict[tuple[int, int], tuple[float, np.ndarray]] = {}
    for i in range(int(contacts.n[0])):
        pair = int(contacts.geom_a[0, i]), int(contacts.geom_b[0, i])
        depth = float(contacts.penetration[0, i])
        if pair not in found or depth > found[pair][0]:
            found[pair] = depth, np.array(contacts.normal[0, i])
    return found


def compare_with_search_from_scratch(heap: Heap, tolerance: float) -> int:
    """Compare the depths of a heap that falls with those of the same states without directions; number of pairs."""
    scene, entity = heap
    scene.reset()
    n_compared = 0
    for _ in range(6):
        scene.step(20)
        warm, state = deepest_by_pair(scene), scene.get_state()
        qpos = entity.get_qpos()
        scene.reset()
        entity.set_qpos(qpos)
        assert not scene.built.engine.array_view(DIRECTION_ARRAY).numpy().any()
        cold = deepest_by_pair(scene)
        scene.set_state(state)
        assert scene.built.engine.array_view(DIRECTION_STEP_ARRAY).numpy().all()
        for pair in warm.keys() | cold.keys():
            if pair not in warm or pair not in cold:  # touches by rounding
                assert (warm | cold)[pair][0] < tolerance
                continue
            n_compared += 1
            assert warm[pair][0] == pytest.approx(cold[pair][0], abs=tolerance)
    return n_compared


def test_depths_are_those_of_a_search_without_directions(heap: Heap) -> None:
    assert compare_with_search_from_scratch(heap, 2e-6) > 100


@pytest.mark.exhaustive
def test_depths_in_double_precision(tmp_path: Path) -> None:
    assert compare_with_search_from_scratch(make_scene(heap_file(tmp_path), "double"), 1e-9) > 100


def test_directions_are_the_normals_of_the_last_step(heap: Heap) -> None:
    scene, entity = heap
    scene.reset()
    scene.step(80)
    pairs = {pair: normal for pair, (_, normal) in deepest_by_pair(scene).items() if pair[0] > 0}  # 0 is the plane
    rotations = [np.eye(3), *map(quaternion_to_matrix, entity.get_qpos()[0].reshape(-1, 7)[:, 3:])]
    scene.step()  # finds the contacts at these poses
    engine = scene.built.engine
    lists = engine.array_view(DIRECTION_ARRAY).numpy()[:, 0].reshape(-1, DIRECTIONS_PER_GEOM)
    step = engine.array_view(DIRECTION_STEP_ARRAY).numpy()[0, 0]
    for (a, b), normal in pairs.items():
        entries = [
            (owner, i)
            for owner, partner in ((a, b), (b, a))
            for i in range(MAX_PARTNERS)
            if lists[owner, 1 + i] == partner + 1
        ]
        ((owner, i),) = entries
        assert lists[owner, STAMP + i] == step
        direction = lists[owner, DIRECTION + 3 * i : DIRECTION + 3 * i + 3]  # in the axes of one of both
        assert max(abs(rotations[geom] @ direction @ normal) for geom in (a, b)) > 0.999
    assert len(pairs) > 5
