"""A grid of cells that says who is near whom: what touches, and all that follows, is the same to the last bit."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.dynamics import Engine, Settings
from kinema.dynamics.collision.broad_phase import resolve_broad_phase
from kinema.dynamics.collision.spatial_hash import (
    build_pair_table,
    hashed_pair_mask,
    is_hash_worthwhile,
    select_hashed_geoms,
)
from kinema.dynamics.settings import BroadPhase
from kinema.model import Model
from kinema.read import read
from kinema.runtime import find_device
from kit.choosing import representatives

SHAPES = ('size=".05"', 'type="capsule" size=".03 .04"', 'type="box" size=".05 .03 .04"')
CPU = find_device("cpu")
BASE = Settings(dt=0.002, limits=True, constraints=True, contacts=True)
WIDTH = 2 * 1.01 * np.linalg.norm([0.05, 0.03, 0.04])
"""About that of a cell."""


def scene(seed: int, count: int = 14, more: str = "") -> str:
    """Shapes in a heap, in any order, among them a large one; some pass through each other."""
    rng = np.random.default_rng(seed)
    at = 0.105 * np.stack(np.unravel_index(np.arange(count), (9, 3, 3))[::-1], axis=1)[rng.permutation(count)]
    at += rng.uniform(0.0, 0.02, (count, 3))
    at[:, 2] += 0.06
    bodies = [
        f'<body name="b{i}" pos="{x:.4f} {y:.4f} {z:.4f}"><freejoint/>'
        f'<geom {SHAPES[rng.integers(3)]} contype="{rng.integers(1, 4)}" conaffinity="3" margin="{0.002 * (i % 2)}"/>'
        "</body>"
        for i, (x, y, z) in enumerate(at)
    ]
    large = '<body pos=".1 .1 .9"><freejoint/><geom type="box" size=".4 .4 .03"/></body>'
    bodies.insert(int(rng.integers(count)), large)
    return f"""<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="box" size=".5 .01 .3" pos="0 -.1 .3"/>
    <geom size=".05" pos=".3 .3 .05"/>{"".join(bodies)}</worldbody>
    <contact><exclude body1="b1" body2="b2"/><exclude body1="b0" body2="b5"/></contact>{more}</mujoco>"""


def model_of(folder: Path, text: str) -> Model:
    """A scene, compiled."""
    (folder / "scene.xml").write_text(text, encoding="utf-8")
    return build_model([EntitySpec(name="heap", description=read(folder / "scene.xml"))], with_contacts=True)


def stepped(
    model: Model, broad: BroadPhase, seed: int, n_envs: int = 2, steps: int = 80, shift: float = 0.0
) -> np.ndarray:
    """Where everything is after a while, and how many contacts there were; environments are no vector."""
    engine = Engine(model, replace(BASE, broad_phase=broad), n_envs, CPU, precision="double", lanes=1, codegen="loops")
    assert engine.settings.broad_phase is broad
    rng = np.random.default_rng(seed)
    engine.array_view("vel").assign(0.3 * rng.normal(size=engine.array_view("vel").numpy().shape))
    qpos = np.array(engine.array_view("qpos").numpy())
    qpos[0::7] += shift * (np.arange(len(qpos[0::7])) // 8)[:, None]
    engine.array_view("qpos").assign(qpos)
    found = []
    for _ in range(4):
        engine.step(steps // 4)
        found.append(np.vstack([engine.array_view(x).numpy() for x in ("qpos", "vel", "n_contacts")]))
    assert max(x[-1].max() for x in found) > 4.0
    return np.stack(found)


def test_two_pairs_of_the_same_shapes_keep_the_list(tmp_path: Path) -> None:
    """The table of cells has room for one of them."""
    model = model_of(tmp_path, scene(0))
    a, b = model.pairs.geom_a.copy(), model.pairs.geom_b.copy()
    a[-1], b[-1] = b[-2], a[-2]
    twice = model.with_columns("pairs", geom_a=a, geom_b=b)
    asked = replace(BASE, broad_phase=BroadPhase.CELLS)
    assert resolve_broad_phase(model, asked, scalar_envs=True).broad_phase is BroadPhase.CELLS
    assert resolve_broad_phase(twice, asked, scalar_envs=True).broad_phase is BroadPhase.LIST


@pytest.mark.parametrize("seed", representatives(range(4), 1))
def test_the_same_to_the_last_bit(tmp_path: Path, seed: int) -> None:
    """Heaps that fall, in any order of bodies, with pairs that are excluded and a shape too large for cells."""
    model = model_of(tmp_path, scene(seed))
    assert 0 < np.count_nonzero(~hashed_pair_mask(model)) < len(model.pairs.geom_a) / 2
    cells, every, listed = (stepped(model, how, seed) for how in (BroadPhase.CELLS, BroadPhase.ALL, BroadPhase.LIST))
    np.testing.assert_array_equal(cells, every)
    np.testing.assert_array_equal(cells, listed)


@pytest.mark.parametrize("shift", [16 * WIDTH, 1e3 * WIDTH, 1e5 * WIDTH])
def test_cells_that_share_a_list(tmp_path: Path, shift: float) -> None:
    """Bodies that are whole grids apart, and beyond the farthest cells, meet none but those beside them."""
    model = model_of(tmp_path, scene(7))
    cells, every = (stepped(model, how, 3, shift=float(shift), steps=40) for how in (BroadPhase.CELLS, BroadPhase.ALL))
    np.testing.assert_array_equal(cells, every)


def test_what_is_not_a_number_is_anywhere(tmp_path: Path) -> None:
    """A body that is nowhere changes nothing for other environments."""
    model = model_of(tmp_path, scene(5))
    found = []
    for broad in (BroadPhase.CELLS, BroadPhase.ALL):
        engine = Engine(model, replace(BASE, broad_phase=broad), 2, CPU, precision="double", lanes=1, codegen="loops")
        qpos = np.array(engine.array_view("qpos").numpy())
        qpos[:3, 0] = np.nan
        engine.array_view("qpos").assign(qpos)
        engine.step(20)
        found.append(np.array(engine.array_view("qpos").numpy())[:, 1])
    assert np.isfinite(found[0]).all()
    np.testing.assert_array_equal(*found)


def test_vectors_of_environments_make_a_list(tmp_path: Path) -> None:
    """Cells are an environment's own: where several run side by side, all pairs are gone through; so it is on a GPU."""
    model = model_of(tmp_path, scene(1))

    asked = replace(BASE, broad_phase=BroadPhase.CELLS)
    found = []
    for lanes in (1, 4):
        engine = Engine(model, asked, 4, CPU, precision="double", lanes=lanes, codegen="loops")
        assert engine.settings.broad_phase is (BroadPhase.CELLS if lanes == 1 else BroadPhase.LIST)
        engine.step(60)
        found.append(np.array(engine.array_view("qpos").numpy()))
    np.testing.assert_allclose(found[0], found[1], rtol=1e-9, atol=1e-9)
    assert resolve_broad_phase(model, asked, scalar_envs=False).broad_phase is BroadPhase.LIST
    assert resolve_broad_phase(model, replace(asked, use_warps=True), scalar_envs=True).broad_phase is BroadPhase.LIST
    assert (
        resolve_broad_phase(model, replace(BASE, broad_phase=BroadPhase.ALL), scalar_envs=True).broad_phase
        is BroadPhase.ALL
    )


def test_few_pairs_keep_what_they_have(tmp_path: Path) -> None:
    """Cells are for very many pairs."""
    few = model_of(tmp_path, scene(1))
    assert not is_hash_worthwhile(few)
    assert resolve_broad_phase(few, BASE, scalar_envs=True).broad_phase is BroadPhase.AUTO
    balls = "".join(f'<body pos="{i} 0 1"><freejoint/><geom size=".1"/></body>' for i in range(150))
    many = model_of(tmp_path, f'<mujoco><worldbody><geom type="plane" size="1 1 1"/>{balls}</worldbody></mujoco>')
    assert is_hash_worthwhile(many)
    assert resolve_broad_phase(many, BASE, scalar_envs=True).broad_phase is BroadPhase.CELLS


def test_the_table_is_that_of_the_pairs(tmp_path: Path) -> None:
    """Each pair of shapes in cells is found from either side; what does not touch is not there."""
    model = model_of(tmp_path, scene(2))
    shapes = select_hashed_geoms(model)
    table = build_pair_table(model).reshape(len(shapes), len(shapes))
    found = {(shapes[i], shapes[j]): int(p) for (i, j), p in np.ndenumerate(table) if p >= 0}
    pairs = zip(model.pairs.geom_a.tolist(), model.pairs.geom_b.tolist(), strict=True)
    wanted = {pair: p for p, pair in enumerate(pairs) if set(pair) <= set(shapes)}
    assert found == wanted | {(b, a): p for (a, b), p in wanted.items()}
