"""Rules of collision give the pairs, contacts and motion that a table of geom pairs gives."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.core import KinemaError
from kinema.read import read
from kit.choosing import representatives

SHAPES = (
    'size=".05"',
    'type="capsule" size=".03 .04"',
    'type="box" size=".05 .03 .04"',
    'type="cylinder" size=".04 .03"',
)
N_MOVING = 9
"""Bodies of the heap that is simulated: tests of one heap share its programs."""
FILTERS = ('contype="1" conaffinity="3"', 'contype="2" conaffinity="3"', 'contype="0" conaffinity="1"', "", "")


def scene(seed: int, count: int = 14) -> str:
    """Shapes of several kinds in a heap, with bit masks, excluded and explicit pairs, margins and two materials."""
    rng = np.random.default_rng(seed)
    at = 0.105 * np.stack(np.unravel_index(np.arange(count), (9, 3, 3))[::-1], axis=1)[rng.permutation(count)]
    at += rng.uniform(0.0, 0.02, (count, 3))
    at[:, 2] += 0.06
    bodies = ""
    for i, (x, y, z) in enumerate(at):
        more = '<geom size=".02" pos=".03 0 0" friction=".4 .01 .001" condim="4"/>' if rng.random() < 0.3 else ""
        bodies += (
            f'<body name="b{i}" pos="{x:.4f} {y:.4f} {z:.4f}"><freejoint/><geom name="g{i}" {rng.choice(SHAPES)} '
            f'{rng.choice(FILTERS)} margin="{0.002 * (i % 2)}"/>{more}</body>'
        )
    return f"""<mujoco><worldbody><geom type="plane" size="1 1 1"/><geom type="box" size=".5 .01 .3" pos="0 -.1 .3"/>
    <geom name="ball" size=".05" pos=".3 .3 .05"/>{bodies}</worldbody><contact><exclude body1="b1" body2="b2"/>
    <exclude body1="b0" body2="b5"/><pair geom1="g3" geom2="g4" condim="1"/><pair geom1="g6" geom2="ball"/>
    </contact></mujoco>"""


def written(folder: Path, text: str) -> Path:
    """The text in a file."""
    (folder / "scene.xml").write_text(text, encoding="utf-8")
    return folder / "scene.xml"


def named_pairs(model: Any) -> set[frozenset[str]]:
    """Pairs of geoms that may collide, by their poses and names, as both models number geoms in their own order."""
    columns = zip(model.geoms.names, model.geoms.frame_idx, model.geoms.pos, strict=True)
    names = [f"{name} {frame} {position.tolist()}" for name, frame, position in columns]
    return {frozenset((names[a], names[b])) for a, b in model.geom_pairs().tolist()}


@pytest.mark.parametrize("seed", representatives(range(200), 20))
def test_rules_admit_the_pairs_of_the_table(tmp_path: Path, seed: int) -> None:
    """Bit masks, excluded and explicit pairs, geoms of one body and of the world."""
    spec = EntitySpec(name="heap", description=read(written(tmp_path, scene(seed))))
    table = build_model([spec], with_contacts=True)
    rules = build_model([spec], with_contacts=True, min_ruled_geoms=0)
    assert rules.has_pair_rules
    assert not table.has_pair_rules
    assert named_pairs(rules) == named_pairs(table)


@pytest.mark.parametrize("min_ruled_geoms", [0, None])
def test_links_that_share_a_shape(tmp_path: Path, min_ruled_geoms: int | None) -> None:
    """A shape in the lists of several links is a geom of each."""
    world: Any = read(written(tmp_path, scene(0, 3)))
    for robot in world.robots[1:]:
        robot.links[0].shapes = world.robots[0].links[0].shapes[:1]
    spec = EntitySpec(name="heap", description=world)
    model = build_model([spec], with_contacts=True, min_ruled_geoms=min_ruled_geoms)
    assert set(model.geoms.frame_idx.tolist()) == {-1, 3, 7, 11}


def test_entities_of_their_own_collide_by_bit_masks() -> None:
    """Objects and a floor, each an entity."""
    box, ball = km.Box((0.1, 0.1, 0.1)), km.Sphere(0.05)
    scene = km.Scene(quiet=True, broad_phase="cells")
    for i in range(4):
        scene.add(box if i % 2 else ball, pos=(0.3 * i, 0.0, 1.0))
    scene.add(km.Plane())
    scene.build(n_envs=1)
    model = scene.built.model
    assert model.has_pair_rules
    assert len(model.geom_pairs()) == 4 + 6


def stepped(file: Path, broad_phase: str, steps: int = 40) -> tuple[np.ndarray, list[tuple[str, str, float]]]:
    """Coordinates after some steps, and the contacts by geom names and depth."""
    scene = km.Scene(quiet=True, broad_phase=broad_phase, precision="double", codegen="loops")
    entity = scene.add(km.read(file))
    scene.build(n_envs=2)
    rng = np.random.default_rng(0)
    entity.set_qvel(0.3 * rng.normal(size=entity.get_qvel().shape))
    scene.step(steps)
    assert scene.built.model.has_pair_rules is (broad_phase == "cells")
    contacts = scene.get_contacts()
    found = []
    for i in np.flatnonzero(contacts.valid_mask[0]):
        names = sorted((str(contacts.geom_name_a[0, i]), str(contacts.geom_name_b[0, i])))
        found.append((*names, float(contacts.penetration[0, i])))
    forces = entity.get_links_net_contact_force()
    assert np.isfinite(forces).all()
    return np.concatenate([entity.get_qpos(), entity.get_qvel(), forces.reshape(2, -1)], axis=1), sorted(found)


@pytest.mark.slow("compiles two scenes in which all kinds of shapes touch")
@pytest.mark.parametrize("seed", representatives(range(6), 1))
def test_same_motion_and_contacts(tmp_path: Path, seed: int) -> None:
    """Two environments of a heap that falls: contacts by name, coordinates, velocities and forces on links."""
    file = written(tmp_path, scene(seed, N_MOVING))
    ruled, tabled = stepped(file, "cells"), stepped(file, "all")
    assert len(tabled[1]) > 5
    assert [x[:2] for x in ruled[1]] == [x[:2] for x in tabled[1]]
    np.testing.assert_allclose([x[2] for x in ruled[1]], [x[2] for x in tabled[1]], rtol=0.0, atol=1e-7)
    np.testing.assert_allclose(ruled[0], tabled[0], rtol=1e-4, atol=1e-6)


def test_invalid_environment_leaves_others_alone(tmp_path: Path) -> None:
    """A body at a position that is not a number has no effect on another environment."""
    file, found = written(tmp_path, scene(0, N_MOVING)), []
    for is_invalid in (False, True):
        built = km.Scene(quiet=True, broad_phase="cells", precision="double", codegen="loops")
        entity = built.add(km.read(file))
        built.build(n_envs=2)
        state = np.array(built.built.engine.array_view("qpos").numpy())
        state[:3, 0] = np.nan if is_invalid else 0.0
        built.built.engine.array_view("qpos").assign(state)
        built.step(20)
        found.append(entity.get_qpos()[1])
        assert built.get_error_envs_mask().tolist() == [is_invalid, False]
    np.testing.assert_array_equal(*found)


def test_scenes_that_need_a_table_have_one(tmp_path: Path) -> None:
    """What rules of collision are not supported for is simulated with a table of pairs."""
    file = written(tmp_path, scene(0))
    for options in ({"noslip_iterations": 2}, {"solver": "cg"}, {"integrator": "rk4"}):
        built = km.Scene(quiet=True, broad_phase="cells", **options)
        built.add(km.read(file))
        built.build(n_envs=1)
        assert not built.built.model.has_pair_rules


@pytest.mark.slow("compiles two scenes in which all kinds of shapes touch")
def test_arrays(tmp_path: Path) -> None:
    """Arrays of contacts and AABB pairs are those of a scene with a table."""
    file, found = written(tmp_path, scene(0, N_MOVING)), []
    for method in ("cells", "all"):
        built = km.Scene(quiet=True, broad_phase=method, precision="double", codegen="loops")
        built.add(km.read(file))
        built.build(n_envs=1)
        solver = built.sim.rigid_solver
        contacts = solver.contacts
        order = np.lexsort((contacts.pos.numpy()[:, 0, 0], ~contacts.active.numpy()[:, 0]))
        n = int(contacts.n_contacts.numpy()[0])
        values = [contacts.friction.numpy()[order[:n], 0], contacts.penetration.numpy()[order[:n], 0]]
        found.append([solver.broad_phase.n_broad_pairs.numpy()[0], n, *values])
    assert found[0][1] > 0
    for a, b in zip(*found, strict=True):
        np.testing.assert_allclose(a, b, atol=1e-9)


def test_states_and_rays() -> None:
    """A heap continues from a saved state with the same bits; rays and distances are those with a table of pairs."""
    scenes = []
    for broad_phase in ("cells", "all"):
        scene = km.Scene(quiet=True, broad_phase=broad_phase)
        scene.add(km.Plane())
        bodies = [scene.add(km.Box((0.1, 0.08, 0.06)), pos=(0.02 * i, 0.0, 0.05 + 0.09 * i)) for i in range(5)]
        scene.build(n_envs=2)
        scenes.append((scene, bodies))
    scene, bodies = scenes[0]
    assert scene.built.model.has_pair_rules
    scene.step(20)
    saved = scene.get_state()
    scene.step(20)
    expected = [body.get_qpos() for body in bodies]
    assert scene.get_contacts().n.min() > 0
    scene.set_state(saved)
    scene.step(20)
    np.testing.assert_array_equal([body.get_qpos() for body in bodies], expected)
    table, same_bodies = scenes[1]
    for body, same in zip(bodies, same_bodies, strict=True):
        same.set_qpos(body.get_qpos())
    rays = ([[-1.0, 0.0, z] for z in (0.03, 0.1, 0.2, 2.0)], [[1.0, 0.0, 0.0]] * 4)
    hits, same_hits = scene.cast_rays(*rays), table.cast_rays(*rays)
    assert np.isfinite(hits.distance[0]).any()
    np.testing.assert_allclose(hits.distance, same_hits.distance, rtol=1e-5)
    assert hits.entity_name.tolist() == same_hits.entity_name.tolist()
    distances = [x.distance(ends[0], ends[4]).distance for x, ends in scenes]
    np.testing.assert_allclose(*distances, rtol=1e-4)


def test_unknown_method() -> None:
    """The message lists the methods."""
    with pytest.raises(KinemaError, match=r"broad_phase.*all.*list"):
        km.Scene(broad_phase="magic")
