"""Entities that are placed in environments and removed from them: room, motion, what sees them, states, recordings."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps.aot import compile_library
from kinema.dynamics.lowering.step_program import trace_step
from kinema.ir import interpret_in_place, split_into_kernels
from kit.choosing import representatives
from kit.spawned import compare_random_scene, without_folding

from ..dynamics.test_team_steps import Launches, run_kernels

N_SEEDS = 32
"""Random scenes of 32 environments each."""
Bin = tuple[km.Scene, Any, Any]
"""A scene with a plane, a crate, of which there are two copies, and a ball."""


@pytest.fixture(scope="module")
def built() -> Bin:
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(km.Plane())
    crate = scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0, 0, 0.1), name="crate")
    ball = scene.add(km.Sphere(0.1), pos=(1, 0, 0.1), name="ball")
    scene.build(2, room={crate: 2})
    return scene, crate, ball


@pytest.fixture
def filled(built: Bin) -> Bin:
    """The scene at its start."""
    built[0].reset()
    return built


def test_room_is_filled_in_order(filled: Bin) -> None:
    scene, crate, _ = filled
    assert [entity.name for entity in scene.entities] == ["plane", "crate", "ball", "crate.1", "crate.2"]
    assert scene.get_room(crate).tolist() == [2, 2]
    first = scene.spawn(crate, pos=(0, 0, 0.5), envs_idx=[1])
    assert first is scene.get_entity("crate.1")
    assert first.is_present().tolist() == [False, True]
    assert scene.get_room(crate).tolist() == [2, 1]
    second = scene.spawn(crate, pos=[(0, 1, 0.5), (0, 2, 0.5)], quat=(2, 0, 0, 0), vel=(0, 0, 1), ang=(1, 0, 0))
    assert second.name == "crate.2"  # the first that is absent in both
    assert second.get_pos()[:, 1].tolist() == [1.0, 2.0]
    assert second.get_vel().tolist() == [[0, 0, 1]] * 2
    np.testing.assert_allclose(second.get_ang(), [[1, 0, 0]] * 2)
    assert scene.spawn(first, envs_idx=0) is first  # a copy by itself
    np.testing.assert_array_equal(first.get_pos(0), [[0, 0, np.float32(0.1)]])
    scene.remove(crate, [True, False])
    assert scene.spawn(crate, envs_idx=0) is crate


def test_what_cannot_be_placed_or_removed_is_named(filled: Bin) -> None:
    scene, crate, ball = filled
    scene.remove(ball, 1)
    scene.remove(ball, 1)  # is absent already
    for message, act in {
        'no room for another "ball" in environment 0': lambda: scene.spawn(ball),
        'spawn: no room for another "crate" in environment 1': lambda: [scene.spawn(crate, envs_idx=1) for _ in "123"],
        "is fixed to the world or kinematic": lambda: scene.remove(scene.entities[0]),
        "expected an entity of this scene": lambda: scene.spawn(3),
        "index 2 is out of range": lambda: scene.spawn(ball, envs_idx=[2]),
        "spawn: pos: expected values of shape": lambda: scene.spawn(crate, pos=(1, 2), envs_idx=0),
        "not all zero": lambda: scene.spawn(crate, quat=(0, 0, 0, 0), envs_idx=0),
        "finite": lambda: scene.spawn(crate, vel=(np.nan, 0, 0), envs_idx=0),
        "build it without room": scene.linearize,
    }.items():
        with pytest.raises(km.KinemaError, match=message):
            act()


@pytest.mark.parametrize(
    ("message", "room"),
    [
        ("expected a number of copies", -1),
        ("expected a number of copies", {"crate": 1}),
        ("expected an entity of this scene", {"other": 2}),
        ('"plane" is fixed', {"plane": 1}),
        ('"kinds" has variants', {"kinds": 1}),
        ('"tray" is fixed to the world or kinematic', {"tray": 1}),
    ],
)
def test_room_for_what_cannot_be_placed_is_named(message: str, room: Any) -> None:
    scene = km.Scene(quiet=True)
    parts = {
        "plane": scene.add(km.Plane()),
        "crate": scene.add(km.Box((0.1, 0.1, 0.1))),
        "kinds": scene.add([km.Sphere(0.1), km.Sphere(0.2)], name="kinds"),
        "tray": scene.add(km.Box((1, 1, 0.1)), kinematic=True, name="tray"),
    }
    if isinstance(room, dict):
        room = {parts.get(key, key): -1 if key == "crate" else count for key, count in room.items()}
    with pytest.raises(km.KinemaError, match=message):
        scene.build(2, room=room)
    assert len(scene.entities) == 4
    scene.build(2, room=2)  # of single free bodies without variants
    assert [entity.name for entity in scene.entities[4:]] == ["box.1", "box.2"]


def test_removed_bodies_neither_move_nor_act(filled: Bin) -> None:
    scene, crate, ball = filled
    upper = scene.spawn(crate, pos=(0, 0, 0.3))
    scene.step(20)
    energy, place = scene.get_energy()[1], crate.get_pos()
    scene.remove(crate, 0)
    np.testing.assert_allclose(energy - scene.get_energy()[1], [9.81 * crate.links[0].mass * place[0, 2], 0], rtol=1e-5)
    assert scene.get_contacts().n.tolist() == [1, 9]  # the ball; both crates
    scene.step(300)
    np.testing.assert_array_equal(crate.get_pos(0), place[:1])
    assert not crate.get_vel(0).any()
    np.testing.assert_allclose(upper.get_pos()[:, 2], [0.1, 0.3], atol=2e-3)  # one fell through
    scene.step(200)
    kept = ball.get_pos()
    scene.remove(ball)
    crate.set_pos(kept)  # a removed body may be moved, too
    scene.step()
    assert "ball" not in {*scene.get_contacts().entity_name_a.ravel(), *scene.get_contacts().entity_name_b.ravel()}


@pytest.mark.slow("compiles kernels of images")
def test_removed_bodies_are_not_seen(filled: Bin) -> None:
    scene, crate, ball = filled
    camera = scene.add_camera(pos=(0, -2, 0.1), lookat=(0, 0, 0.1), res=(8, 8))

    def rays() -> list[float]:
        return scene.cast_rays((0, 0, 3), (0, 0, -1)).distance[:, 0].tolist()

    def depth() -> np.ndarray:
        return np.array(camera.read("depth"))[:, 3, 4]

    assert rays() == pytest.approx([2.8, 2.8])
    near = depth()
    np.testing.assert_allclose(near, 1.9, rtol=1e-2)
    scene.remove(crate, 1)
    assert rays() == pytest.approx([2.8, 3.0])
    assert depth()[0] == near[0]
    assert depth()[1] > 3.0
    assert scene.distance(crate, ball).distance.tolist() == pytest.approx([0.8, np.inf])
    assert scene.overlaps(km.Sphere(0.3), (0, 0, 0.5)).n.tolist() == [1, 0]
    scene.spawn(crate, envs_idx=1)
    np.testing.assert_array_equal(depth(), near)


def test_states_and_resets_have_the_presence(filled: Bin, tmp_path: Path) -> None:
    scene, crate, _ = filled
    scene.remove(crate, 1)
    placed = scene.spawn(crate, pos=(0, 0, 0.4), envs_idx=0)
    scene.step(3)
    scene.get_state().save(tmp_path / "state.npz")
    scene.step(10)
    after = placed.get_qpos()
    scene.reset()
    assert [entity.is_present().all() for entity in scene.entities] == [True, True, True, False, False]
    assert not placed.is_present().any()
    scene.set_state(km.SceneState.load(tmp_path / "state.npz"))
    assert (crate.is_present().tolist(), placed.is_present().tolist()) == ([True, False], [True, False])
    scene.step(10)
    np.testing.assert_array_equal(placed.get_qpos(), after)
    scene.reset(0)
    assert (crate.is_present().tolist(), placed.is_present().tolist()) == ([True, False], [False, False])


def test_recordings_have_the_presence(filled: Bin, tmp_path: Path) -> None:
    scene, crate, _ = filled
    usd = pytest.importorskip("pxr.Usd")
    geom = pytest.importorskip("pxr.UsdGeom")
    with scene.record(tmp_path / "a.npz"), scene.record(tmp_path / "a.usda"):
        scene.step()
        placed = scene.spawn(crate, pos=(0, 0, 1), envs_idx=1)
        scene.step()
        scene.remove(placed)
        scene.step()
    replay = scene.replay(tmp_path / "a.npz")
    assert [placed.is_present(1)[0] for _ in replay] == [False, False, True, False]
    stage = usd.Stage.Open(str(tmp_path / "a.usda"))
    codes = [stage.GetTimeCodesPerSecond() * time for time in replay.times]
    seen = {
        name: [geom.Imageable(stage.GetPrimAtPath(f"/World/env_1/{name}")).ComputeVisibility(code) for code in codes]
        for name in ("crate", "crate_1")
    }
    assert seen["crate"] == ["inherited"] * 4
    assert seen["crate_1"] == ["invisible", "invisible", "inherited", "invisible"]
    other = km.Scene(quiet=True, codegen="loops")
    other.add(km.Plane())
    for source in (km.Box((0.2, 0.2, 0.2)), km.Sphere(0.1)):
        other.add(source)
    other.build(2)
    with pytest.raises(km.KinemaError, match="whose entities can be removed"):
        other.replay(tmp_path / "a.npz")


def test_a_scene_without_room_is_compiled_once_more() -> None:
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(km.Plane())
    box, ball = scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0, 0, 1)), scene.add(km.Sphere(0.1), pos=(1, 0, 1))
    scene.build(2)
    scene.step(5)
    before = ball.get_qpos()
    assert not scene.built.engine.settings.presence
    with pytest.raises(km.KinemaError, match="no copies"):
        scene.spawn(box)
    scene.remove(box, 1)
    assert box.is_present().tolist() == [True, False]
    np.testing.assert_array_equal(ball.get_qpos(), before)
    assert any(d.code == "scene.recompiled" for d in scene.diagnostics)
    scene.step()
    assert (box.get_pos()[0] != box.get_pos()[1]).any()
    assert scene.spawn(box, envs_idx=1) is box
    scene.reset()
    assert box.is_present().all()


def test_attachments_end_with_the_body() -> None:
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(km.Plane())
    holder = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 2), name="holder")
    held = scene.add(km.Sphere(0.05), pos=(0, 0, 1.9), name="held")
    scene.reserve_attachments(holder, targets=[held])
    scene.reserve_attachments(None, targets=[holder])
    scene.build(2, room=0)
    scene.attach(None, holder)
    weld = scene.attach(holder, held)
    scene.step(20)
    np.testing.assert_allclose(held.get_pos()[:, 2], 1.9, atol=1e-3)
    scene.remove(holder, 1)
    assert weld.is_attached().tolist() == [True, False]
    scene.step(50)
    np.testing.assert_allclose(held.get_pos(0)[:, 2], 1.9, atol=1e-3)
    np.testing.assert_allclose(held.get_pos(1)[:, 2], 1.9 - 0.5 * 9.81 * 0.1**2, atol=5e-3)
    scene.spawn(holder, pos=(0, 0, 2), envs_idx=1)
    assert weld.is_attached().tolist() == [True, False]


def test_what_rests_on_a_body_wakes_when_it_is_removed() -> None:
    scene = km.Scene(quiet=True, sleep=True)
    scene.add(km.Plane())
    lower = scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0, 0, 0.1))
    upper = scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 0.25))
    scene.build(2, room=0)
    for _ in range(40):
        scene.step(25)
        if upper.is_asleep().all():
            break
    assert upper.is_asleep().all()
    scene.remove(lower, 0)
    assert upper.is_asleep().tolist() == [False, True]
    scene.step(300)
    np.testing.assert_allclose(upper.get_pos()[:, 2], [0.05, 0.25], atol=2e-3)
    assert lower.get_pos(0)[0, 2] > 0.09


def test_sensors_do_not_see_removed_bodies() -> None:
    scene = km.Scene(quiet=True, codegen="loops")
    scene.add(km.Plane())
    box = scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0.5, 0, 0.5), name="box")
    probe = scene.add(km.Sphere(0.05), pos=(0, 0, 0.5), name="probe")
    fan = scene.add_sensor(km.RayFan(link=probe.links[0]))
    gap = scene.add_sensor(km.DistanceSensor(link=probe.links[0], other=box.links[0], max_distance=5.0))
    scene.build(2, room=0)
    scene.remove(box, 1)
    assert np.ravel(fan.read()).tolist() == pytest.approx([0.4, np.inf])
    np.testing.assert_allclose(np.ravel(gap.read("distance")), [0.35, 5.0], atol=1e-5)


@pytest.mark.parametrize("sleep", representatives([True, False], 1))
def test_the_grid_leaves_absent_bodies_out(sleep: bool) -> None:
    """Of a scene with rules of collision, every second body is removed; the others move as without them."""
    places = [(0.25 * (i % 4), 0.25 * (i // 4), 0.1 + 0.02 * i) for i in range(8)]
    sources = [km.Box((0.1, 0.1, 0.1)), km.Sphere(0.06)]

    def made(kept: Callable[[int], bool], **how: Any) -> tuple[km.Scene, list[Any]]:
        scene = km.Scene(quiet=True, broad_phase="cells", sleep=sleep)
        scene.add(km.Plane())
        bodies = [scene.add(sources[i % 2], pos=place) for i, place in enumerate(places) if kept(i)]
        scene.build(1, **how)
        assert scene.built.model.has_pair_rules
        return scene, bodies

    scene, bodies = made(lambda _: True, room=1)
    for body in bodies[::2]:
        scene.remove(body)
    scene.step(150)
    direct, others = made(lambda i: i % 2 == 1)
    direct.step(150)
    assert scene.get_contacts().n.tolist() == direct.get_contacts().n.tolist()
    assert scene.get_contacts().n.min() > 3
    for body, other in zip(bodies[1::2], others, strict=True):
        np.testing.assert_allclose(body.get_qpos(), other.get_qpos(), atol=1e-5)


@pytest.mark.parametrize("warps", representatives([True, False], 1))
@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy computes what others leave out
def test_launches_of_a_gpu_leave_absent_bodies_out(warps: bool) -> None:
    scene = km.Scene(quiet=True, precision="double", cone="elliptic")
    scene.add(km.Plane())
    bodies = [scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0.02 * i, 0, 0.049 + 0.09 * i)) for i in range(3)]

    def remove() -> None:
        scene.remove(bodies[1], 0)
        scene.remove(bodies[0], 1)

    made = Launches.of_scene(scene, remove, room=0)
    engine = made.engine
    one, other = ({name: x.copy() for name, x in made.start.items()} for _ in range(2))
    alone = trace_step(engine.model, engine.settings, engine.array_offsets, loops=False)
    interpret_in_place(alone, one, engine.array_offsets)
    parts = made.parts
    if not warps:
        parts = split_into_kernels(
            trace_step(engine.model, replace(engine.settings, use_warps=False), engine.array_offsets, loops=False), 32
        )
    run_kernels(parts, other, engine.array_offsets)
    rows = [i for i in range(len(one["state"])) if i != made.row("n_iterations")]
    np.testing.assert_allclose(other["state"][rows], one["state"][rows], rtol=1e-9, atol=1e-9)
    place, velocity = made.row("qpos"), made.row("vel")
    for env, body in ((0, 1), (1, 0)):
        for row, count in ((place, 7), (velocity, 6)):
            own = slice(row + count * body, row + count * (body + 1))
            np.testing.assert_array_equal(one["state"][own, env], made.start["state"][own, env])
    assert one["state"][made.row("n_contacts")].tolist() == [4.0, 4.0]


def test_a_library_is_refused(tmp_path: Path) -> None:
    scene = km.Scene(quiet=True)
    scene.add(km.Sphere(0.1))
    scene.build(room=0)
    with pytest.raises(km.KinemaError, match="build it without room"):
        compile_library(scene, tmp_path)


@pytest.mark.slow("compiles scenes of other bodies")
@pytest.mark.parametrize("seed", representatives(range(N_SEEDS), lambda seed: seed == 2))
def test_the_present_move_as_in_a_scene_of_them(seed: int, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A history of changes, and scenes built directly with the entities that are left: equal bit for bit."""
    monkeypatch.setenv("KINEMA_TIER", "baseline")
    with without_folding(tmp_path / "cache"):
        compared = compare_random_scene(seed)
    assert not compared.differing
    assert compared.n_contacts
