"""Fast bodies: thin bodies stop them at any speed, by closed forms; slow scenes are not changed by a bit."""

from __future__ import annotations

import itertools
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import Array
from kinema.description import PhysicsMaterial
from kinema.dynamics.lowering.step_program import trace_step
from kinema.ir import interpret_in_place
from kit.choosing import combinations, representative_tuples, representatives

from .test_team_steps import Launches, run_kernels

PLATE = (1.0, 1.0, 0.005)
BODIES: dict[str, Any] = {
    "ball": km.Sphere(0.005),
    "box": km.Box((0.02, 0.03, 0.04)),
    "capsule": km.Capsule(0.005, 0.04),
    "cylinder": km.Cylinder(0.01, 0.03),
    "ellipsoid": km.Ellipsoid((0.01, 0.015, 0.02)),
}
HALF_EXTENT = {"ball": 0.005, "box": 0.01, "capsule": 0.005, "cylinder": 0.01, "ellipsoid": 0.01}


def empty(**options: Any) -> km.Scene:
    """A scene without gravity, in double precision."""
    return km.Scene(**({"precision": "double", "quiet": True, "gravity": (0, 0, 0), "dt": 0.002} | options))


def thrown(body: Any, speeds: Any, *, fast: Any = True, height: float = 0.113, **options: Any) -> tuple[Array, Array]:
    """Heights and vertical speeds of a body after each step, thrown downwards at a plate, (n_steps, n_envs)."""
    scene = empty(**options)
    scene.add(km.Box(PLATE), fixed=True)
    entity = scene.add(body, pos=(0.01, 0.02, height), fast=fast)
    scene.build(n_envs=len(speeds))
    entity.set_dofs_velocity(np.outer(speeds, [0, 0, -1, 0, 0, 0]))
    heights, velocities = [], []
    for _ in range(round(0.08 / scene.dt)):
        scene.step()
        heights.append(entity.get_pos()[:, 2])
        velocities.append(entity.get_dofs_velocity()[:, 2])
    return np.array(heights, np.float64), np.array(velocities, np.float64)


@pytest.mark.parametrize(
    ("dt", "precision", "codegen"),
    [
        *combinations([0.002, 0.01], ["double", "single"], ["loops", "unrolled"], strength=1),
        pytest.param(0.0005, "double", "loops", marks=pytest.mark.exhaustive),
    ],
)
def test_a_plate_stops_a_ball(dt: float, precision: str, codegen: str) -> None:
    """A ball of 1 cm at up to 50 m/s on 5 mm: a quarter of the half thickness deep, once, and hardly a rebound."""
    speeds = np.array([2.0, 5.0, 20.0, 50.0])
    heights, velocities = thrown(BODIES["ball"], speeds, dt=dt, precision=precision, codegen=codegen)
    softness = {"double": 2e-4, "single": 4e-3}[precision]  # of a rigid contact, relative to the impact
    assert heights.min() > 0.0075 - 0.25 * 0.0025 - softness * speeds.max() * dt
    assert (np.abs(velocities[-1]) < 0.06).all()
    free = thrown(BODIES["ball"], speeds, dt=dt, precision=precision, codegen=codegen, fast=None)[0]
    assert free[-1, -1] < -1.0, "without it, the ball passes through"


@pytest.mark.parametrize(
    ("cone", "precision"), representative_tuples(itertools.product(["elliptic", "pyramidal"], ["single", "double"]), 1)
)
def test_a_sheet_stops_a_bullet(cone: str, precision: str) -> None:
    """A bullet of 1 mm at 300 m/s on 1 mm, from 0.7 m away within one step of 5 ms."""
    scene = empty(dt=0.005, precision=precision, cone=cone)
    scene.add(km.Box((1, 1, 0.001)), fixed=True)
    bullet = scene.add(km.Sphere(0.0005), pos=(0, 0, 0.7), fast=True)
    scene.build()
    bullet.set_dofs_velocity([0, 0, -300, 0, 0, 0])
    heights = []
    for _ in range(10):
        scene.step()
        heights.append(bullet.get_pos()[0, 2])
    assert min(heights) > 0.0005
    assert np.abs(bullet.get_vel()[0]).max() < 1.5


def test_before_the_impact_nothing_changes() -> None:
    """The last step before the plate ends where the ball touches it, and all others are free flight."""
    heights, velocities = thrown(BODIES["ball"], [20.0])
    np.testing.assert_allclose(heights[:2, 0], 0.113 - 0.04 * np.array([1, 2]), atol=1e-12)
    assert velocities[1, 0] == -20.0
    np.testing.assert_allclose(heights[2, 0], 0.0075 - 0.25 * 0.0025, atol=1e-5)


@pytest.mark.parametrize("name", representatives(BODIES, lambda name: name == "cylinder"))
def test_tumbling_bodies_stop(name: str) -> None:
    """All shapes from all sides, spinning; kinetic energy never increases, although they start to roll."""
    rng, n = np.random.default_rng(7), 32
    scene = empty()
    scene.add(km.Box(PLATE), fixed=True)
    entity = scene.add(BODIES[name], fast=True, mass=0.01)
    scene.build(n_envs=n)
    rotations = rng.normal(size=(n, 4))
    entity.set_pos(rng.uniform((-0.2, -0.2, 0.1), (0.2, 0.2, 0.3), (n, 3)))
    entity.set_quat(rotations / np.linalg.norm(rotations, axis=1, keepdims=True))
    velocity = rng.normal(size=(n, 6)) * (3, 3, 0, 20, 20, 20)
    velocity[:, 2] = -rng.uniform(5.0, 40.0, n)
    entity.set_dofs_velocity(velocity)
    lowest, energies = np.full(n, np.inf), [kinetic_energy(entity)]
    for _ in range(40):
        scene.step()
        lowest = np.minimum(lowest, entity.get_pos()[:, 2])
        energies.append(kinetic_energy(entity))
    assert lowest.min() > 0.9 * HALF_EXTENT[name] + 0.0025 - 0.25 * 0.0025 - 2e-3
    assert np.diff(energies, axis=0).max() < 5e-4 * np.max(energies), "soft contacts give back what they have stored"
    assert (energies[-1] < 0.5 * energies[0]).all()


def kinetic_energy(*bodies: Any) -> Array:
    """Kinetic energy of free bodies in each environment, (n_envs,)."""
    pairs = [(body.get_mass_mat(), body.get_dofs_velocity()) for body in bodies]
    return np.sum([0.5 * np.einsum("bi,bij,bj->b", v, mass, v) for mass, v in pairs], axis=0)


def test_two_fast_bodies_collide() -> None:
    """Momentum is kept, energy is not made; only one of both is marked."""
    scene = empty()
    one = scene.add(km.Sphere(0.005), fast=True, mass=0.01)
    other = scene.add(km.Sphere(0.005), pos=(0.111, 0.001, 0.002), mass=0.02)
    scene.build()
    one.set_dofs_velocity([30, 0, 0, 0, 0, 0])
    other.set_dofs_velocity([-30, 0, 0, 0, 0, 0])
    energies = [kinetic_energy(one, other)]
    for _ in range(10):
        scene.step()
        energies.append(kinetic_energy(one, other))
    momentum = 0.01 * one.get_vel()[0] + 0.02 * other.get_vel()[0]
    np.testing.assert_allclose(momentum, [-0.3, 0, 0], atol=1e-12)
    assert np.diff(energies, axis=0).max() < 1e-12
    assert one.get_vel()[0, 0] < 0.0 < 30.0 + other.get_vel()[0, 0]


@pytest.mark.parametrize("gap", representatives([1e-4, 1e-3], 1))
def test_what_flies_past_is_not_touched(gap: float) -> None:
    """A ball that misses the edge of a plate by 0.1 mm keeps its velocity to the last bit; one that hits does not."""
    scene = empty()
    scene.add(km.Box((0.2, 0.2, 0.005)), fixed=True)
    balls = [scene.add(km.Sphere(0.005), pos=(0.105 + x, y, 0.1), fast=True) for x, y in ((gap, 0.05), (-1e-3, -0.05))]
    scene.build()
    for ball in balls:
        ball.set_dofs_velocity([0, 0, -20, 0, 0, 0])
    scene.step(20)
    np.testing.assert_array_equal(balls[0].get_dofs_velocity()[0], [0, 0, -20, 0, 0, 0])
    assert balls[1].get_dofs_velocity()[0, 2] > -19.0


def test_restitution_of_fast_bodies() -> None:
    """Newton's law of impact holds for speculative contacts."""
    material = PhysicsMaterial(restitution=0.8)
    scene = empty()
    scene.add(km.Box(PLATE), fixed=True, material=material)
    ball = scene.add(km.Sphere(0.005), pos=(0, 0, 0.113), fast=True, material=material)
    scene.build(n_envs=2)
    ball.set_dofs_velocity([[0, 0, -20, 0, 0, 0], [0, 0, -7, 0, 0, 0]])
    scene.step(20)
    np.testing.assert_allclose(ball.get_dofs_velocity()[:, 2], [16.0, 5.6], rtol=2e-3)


def test_a_rod_and_a_kinematic_bat(tmp_path: Path) -> None:
    """A rod on a joint at 150 rad/s stops at a thin wall; a bat of 5 mm at 20 m/s takes a ball along."""
    path = tmp_path / "rod.xml"
    path.write_text(
        """<mujoco><worldbody><geom type="box" size=".0025 .2 .2" pos="0 .3 0"/><body><joint axis="0 0 1"/>
        <geom type="capsule" fromto=".05 0 0 .4 0 0" size=".005"/></body></worldbody></mujoco>"""
    )
    scene = empty()
    rod = scene.add(path, fast=True)
    bat = scene.add(km.Box((0.005, 0.3, 0.3)), kinematic=True, fast=True, pos=(-0.5, 5, 0))
    ball = scene.add(km.Sphere(0.005), pos=(0, 5, 0))
    scene.build()
    rod.set_dofs_velocity([150.0])
    bat.set_target_pose((0.5, 5, 0), duration=0.05)
    angles = []
    for _ in range(25):
        scene.step()
        angles.append(rod.get_dofs_position()[0, 0])
    assert 1.5 < max(angles) + 0.02 < 0.5 * np.pi
    np.testing.assert_allclose(ball.get_pos()[0], [0.5075, 5, 0], atol=2e-3)
    np.testing.assert_allclose(ball.get_vel()[0, 0], 20.0, atol=0.05)


SLOW = """<mujoco><option timestep="0.002"><flag speculative="{flag}"/></option>
<asset><mesh name="wedge" vertex="0 0 0 .1 0 0 .1 .08 0 0 .08 0 0 0 .06 .1 0 .06"/></asset><worldbody>
<geom type="plane" size="5 5 .1" conaffinity="3"/>
<body pos="0 0 .06"><freejoint/><geom type="box" size=".05 .05 .05"/></body>
<body pos=".01 .02 .14" euler="5 3 0"><freejoint/><geom type="mesh" mesh="wedge"/></body>
<body pos=".2 0 .06"><freejoint/><geom size=".05" condim="6" contype="2" conaffinity="2"/></body>
</worldbody></mujoco>"""


def test_slow_scenes_are_equal_to_the_last_bit(tmp_path: Path) -> None:
    """A pile of several kinds of shapes, with and without the flag of the file; `fast=False` takes the flag away."""
    states = []
    for flag, fast in (("disable", None), ("enable", None), ("enable", False)):
        path = tmp_path / f"{flag}.xml"
        path.write_text(SLOW.format(flag=flag))
        scene = km.Scene(precision="double", quiet=True)
        pile = scene.add(path, fast=fast)
        scene.build()
        assert bool(scene.built.model.geoms.fast.any()) == (flag == "enable" and fast is None)
        assert "sim.solver-options" not in scene.diagnostics.codes()
        scene.step(150)
        states.append(np.concatenate([pile.get_qpos()[0], pile.get_qvel()[0]]))
    np.testing.assert_array_equal(states[1], states[0])
    np.testing.assert_array_equal(states[2], states[0])


def test_broad_phases_find_the_same_contacts() -> None:
    """A ball shot into others that lie about, to the last bit."""
    results = []
    for broad_phase in ("all", "list", "cells"):
        scene = empty(broad_phase=broad_phase, codegen="loops")
        scene.add(km.Plane())
        others = [scene.add(km.Sphere(0.025), pos=(0.1 * (i % 3), 0.1 * (i // 3), 0.03)) for i in range(6)]
        ball = scene.add(km.Sphere(0.01), pos=(-0.5, 0.011, 0.03), fast=True)
        scene.build()
        ball.set_dofs_velocity([40, 1, 0, 0, 0, 0])
        scene.step(25)
        assert ball.get_vel()[0, 0] < 20.0
        results.append(np.concatenate([x.get_vel()[0] for x in (*others, ball)]))
    np.testing.assert_array_equal(results[1], results[0])
    np.testing.assert_array_equal(results[2], results[0])


def test_sleeping_bodies_are_hit() -> None:
    """A ball at 30 m/s wakes a plate that sleeps, and pushes it as it does one that is awake."""
    velocities = []
    for sleep in (True, False):
        scene = km.Scene(precision="double", quiet=True, sleep=sleep)
        scene.add(km.Plane())
        plate = scene.add(km.Box((0.005, 0.2, 0.2)), pos=(0, 0, 0.1), mass=0.5)
        ball = scene.add(km.Sphere(0.005), pos=(-8.0, 0, 0.35), fast=True, mass=0.05)
        scene.build()
        ball.set_dofs_velocity([30, 0, 0, 0, 0, 0])
        scene.step(125)
        assert plate.is_asleep()[0] == sleep
        scene.step(20)
        velocities.append(plate.get_vel()[0])
    assert velocities[0][0] > 0.5
    np.testing.assert_allclose(velocities[0], velocities[1], rtol=1e-3, atol=1e-3)


@pytest.mark.filterwarnings("ignore::RuntimeWarning")  # NumPy computes what others leave out
@pytest.mark.parametrize(
    ("cone", "names"), combinations(["elliptic", "pyramidal"], [("ball", "box"), ("ball",)], strength=0)
)
def test_a_step_in_launches(cone: str, names: tuple[str, ...]) -> None:
    """The contact lists of a GPU hold the contacts that a thread alone finds."""
    scene = empty(cone=cone)
    scene.add(km.Box(PLATE), fixed=True)
    bodies = [scene.add(BODIES[name], pos=(0.1 * i, 0, 0.05), fast=True) for i, name in enumerate(names)]

    def prepare() -> None:
        for body in bodies:
            body.set_dofs_velocity([0, 0, -30, 1, 2, 3])

    made = Launches.of_scene(scene, prepare)
    engine = made.engine
    alone = trace_step(engine.model, engine.settings, engine.array_offsets, loops=False)
    one, other = ({name: x.copy() for name, x in made.start.items()} for _ in range(2))
    for _ in range(2):
        interpret_in_place(alone, one, engine.array_offsets)
        run_kernels(made.parts, other, engine.array_offsets)
    assert one["state"][made.row("n_contacts")].min() > 0.0, "nothing touches"
    assert one["state"][made.row("vel") + 2].min() > -1.0, "the ball is not stopped"
    rows = [i for i in range(len(one["state"])) if i != made.row("n_iterations")]
    np.testing.assert_allclose(other["state"][rows], one["state"][rows], rtol=1e-9, atol=1e-9)


def test_where_motion_cannot_be_swept() -> None:
    """A warning names the integrator, or the types of geoms; unknown links are an error in one line."""
    scene = empty(integrator="rk4")
    scene.add(km.Plane())
    scene.add(km.Sphere(0.1), pos=(0, 0, 1), fast=True)
    scene.build()
    assert [x.message for x in scene.diagnostics if x.code == "sim.fast"] == [
        "contacts of fast bodies are found at the start of each step only: the integrator is rk4"
    ]
    scene = empty()
    scene.add(km.Terrain(np.zeros((5, 5)), (4.0, 4.0)))
    scene.add(km.Sphere(0.1), pos=(0, 0, 1), fast=True)
    scene.build()
    (found,) = [x.message for x in scene.diagnostics if x.code == "sim.fast"]
    assert found.endswith("for these types of geoms: height field and sphere")
    scene = empty()
    with pytest.raises(km.KinemaError, match=r"fast: there is no 'wing'; the links are: sphere"):
        scene.add(km.Sphere(0.1), fast="wing")
    with pytest.raises(km.KinemaError, match="fast: expected True, False or names of links, not 3"):
        scene.add(km.Sphere(0.1), fast=3)  # type: ignore[arg-type]
