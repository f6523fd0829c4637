"""Motions that can be written down: falls, throws, pendulums, tops, springs, constant forces."""

from __future__ import annotations

import math
from itertools import pairwise

import numpy as np
import pytest

from kinema.core import Array, Pose, axis_angle_to_matrix, quaternion_to_matrix
from kinema.description import Joint, JointKind, Robot, free_axes, rotation, spherical_axes, translation
from kinema.dynamics import Integrator
from kinema.model import Model
from kit.choosing import alternating
from kit.robots.each_joint import ball_of, lumpy_link, model_of, one_joint, simple_body

from .runner import Runner

DT = 1e-3
G = 10.0
DOWN = (0.0, 0.0, -G)
SINGLE_STAGE = [Integrator.EULER, Integrator.IMPLICITFAST]
every = pytest.mark.parametrize("integrator", list(Integrator), ids=lambda i: i.value)
precisions = pytest.mark.parametrize("precision", ["single", "double"])


def free_body(moments: tuple[float, float, float] = (0.02, 0.03, 0.04), gravity: tuple[float, ...] = DOWN) -> Model:
    return model_of(one_joint(JointKind.FREE, simple_body(1.0, moments), axes=free_axes()), gravity=gravity)


def pendulum(length: float = 1.0, mass: float = 1.0, **axis: float) -> Model:
    """A point mass below a hinge."""
    body = simple_body(mass, (0.0, 0.0, 0.0), (0.0, 0.0, -length))
    return model_of(one_joint(JointKind.REVOLUTE, body, axes=[rotation((0, 1, 0), **axis)]), gravity=DOWN)


def sliding(mass: float = 2.0, **axis: float) -> Model:
    body = simple_body(mass, (0.1, 0.1, 0.1))
    return model_of(one_joint(JointKind.PRISMATIC, body, axes=[translation((1, 0, 0), **axis)]), gravity=DOWN)


@every
@precisions
def test_free_fall_and_throw(integrator: Integrator, precision: str) -> None:
    """Half a second: off by at most what one step at the wrong velocity makes; straight to the sides."""
    steps, t = 500, 0.5
    thrown = np.array([1.0, -2.0, 3.0])
    runner = Runner(free_body(), DT, integrator, precision).set(vel=[*thrown, 0, 0, 0])
    state = runner.run(steps)[-1]
    expected = thrown * t + 0.5 * np.array(DOWN) * t * t
    assert abs(state["qpos"][2] - expected[2]) <= 2 * (0.5 * G * DT * t)
    assert abs(state["vel"][2] - (thrown[2] - G * t)) <= G * DT
    np.testing.assert_allclose(np.array(state["qpos"][:2], dtype=float), expected[:2], atol=1e-4)
    np.testing.assert_allclose(np.array(state["qpos"][3:], dtype=float), [1, 0, 0, 0], atol=1e-6)


@pytest.mark.parametrize("integrator", SINGLE_STAGE, ids=lambda i: i.value)
@precisions
def test_energy_of_a_falling_sphere(integrator: Integrator, precision: str) -> None:
    """The semi-implicit closed form v = n g dt, z = h - g dt^2 n (n + 1) / 2, to 1e-9 or 5e-5."""
    height, n, tolerance = 1.0, 400, {"single": 5e-5, "double": 1e-9}[precision]
    model = model_of(one_joint(JointKind.FREE, ball_of(), axes=free_axes()), gravity=DOWN)
    runner = Runner(model, DT, integrator, precision).set(qpos=[0, 0, height, 1, 0, 0, 0])
    runner.run(n)
    found = runner.system()
    kinetic = 0.5 * (n * G * DT) ** 2
    potential = G * (height - G * DT**2 * n * (n + 1) / 2)
    assert float(found["kinetic_energy"][0]) == pytest.approx(kinetic, rel=tolerance)
    assert float(found["potential_energy"][0]) == pytest.approx(potential, abs=tolerance * G)


@every
def test_small_swings(integrator: Integrator) -> None:
    """0.05 rad for 3.5 periods: within 1 % of the amplitude on average."""
    amplitude, omega = 0.05, math.sqrt(G / 1.0)
    steps = int(3.5 * 2 * math.pi / omega / DT)
    angles = Runner(pendulum(), DT, integrator).set(qpos=[amplitude]).follow(steps, "qpos")
    expected = amplitude * np.cos(omega * DT * np.arange(1, steps + 1))
    assert np.abs(angles - expected).mean() < 0.01 * amplitude


def test_period_of_large_swings() -> None:
    """4 sqrt(l / g) K(sin(amplitude / 2)), to 1e-7."""
    from scipy.special import ellipk

    amplitude, length = 2.0, 0.7
    period = 4 * math.sqrt(length / G) * float(ellipk(math.sin(amplitude / 2) ** 2))
    steps = 4000
    states = Runner(pendulum(length), period / steps, Integrator.RK4).set(qpos=[amplitude]).run(steps)
    assert states[-1]["qpos"][0] == pytest.approx(amplitude, abs=1e-9)
    assert states[-1]["vel"][0] == pytest.approx(0.0, abs=1e-7)
    assert states[steps // 2 - 1]["qpos"][0] == pytest.approx(-amplitude, abs=1e-9)


@every
def test_energy_of_large_swings(integrator: Integrator) -> None:
    """1 rad for 2 s: energy within 0.5 % of what can be exchanged, and no drift over many periods."""
    runner = Runner(pendulum(), DT, integrator).set(qpos=[1.0])
    start = runner.energy()
    energies = runner.energies(runner.run(2000)[::10])
    assert np.abs(energies - start).max() < 0.005 * G * (1 - math.cos(1.0))


@every
@pytest.mark.parametrize("turning", [True, False], ids=["hinge", "slide"])
def test_constant_force(integrator: Integrator, turning: bool) -> None:
    """Acceleration force / inertia, to what one step makes: rotors count."""
    axis = {"armature": 0.5}
    body = simple_body(2.0, (0.1, 0.2, 0.3))
    kind = JointKind.REVOLUTE if turning else JointKind.PRISMATIC
    axes = [rotation((0, 1, 0), **axis)] if turning else [translation((0, 1, 0), **axis)]
    model = model_of(one_joint(kind, body, axes=axes), gravity=DOWN)
    force, t = 3.0, 1.0
    acceleration = force / ((0.2 if turning else 2.0) + 0.5)
    runner = Runner(model, DT, integrator).set(command=[force])
    runner.run(round(t / DT))
    assert runner.state["vel"][0] == pytest.approx(acceleration * t, rel=1e-12)
    tolerance = 1e-12 if integrator is Integrator.RK4 else acceleration * DT * t
    assert runner.state["qpos"][0] == pytest.approx(0.5 * acceleration * t * t, abs=tolerance)


def oscillation(mass: float, stiffness: float, damping: float, x0: float, v0: float, t: Array) -> Array:
    """The closed form of m x'' + c x' + k x = 0."""
    decay, squared = damping / (2 * mass), stiffness / mass - (damping / (2 * mass)) ** 2
    if abs(squared) < 1e-12:
        return (x0 + (v0 + decay * x0) * t) * np.exp(-decay * t)
    root = np.sqrt(complex(squared))
    return np.real(np.exp(-decay * t) * (x0 * np.cos(root * t) + (v0 + decay * x0) / root * np.sin(root * t)))


@every
@pytest.mark.parametrize("ratio", [0.0, 0.1, 1.0, 3.0], ids=["undamped", "under", "critical", "over"])
def test_spring_and_damper(integrator: Integrator, ratio: float) -> None:
    """A mass on a spring: RK4 to 1e-9, the others to first order in the step."""
    mass, stiffness = 2.0, 50.0
    damping = ratio * 2 * math.sqrt(stiffness * mass)
    model = sliding(mass, stiffness=stiffness, damping=damping, spring_reference=0.2)
    steps = 2000
    found = Runner(model, DT, integrator).set(qpos=[0.7], vel=[-1.0]).follow(steps, "qpos")
    expected = 0.2 + oscillation(mass, stiffness, damping, 0.5, -1.0, np.linspace(DT, steps * DT, steps))
    assert np.abs(found - expected).max() < (1e-9 if integrator is Integrator.RK4 else 5 * DT)


def test_spherical_spring() -> None:
    """A ball joint's spring turns the shortest way back, as hard as the angle is large."""
    body = simple_body(1.0, (0.2, 0.2, 0.2))
    axes = [rotation(e, stiffness=3.0) for e in np.eye(3)]
    model = model_of(one_joint(JointKind.SPHERICAL, body, axes=axes), gravity=(0, 0, 0))
    axis, angle, omega = np.array([2.0, -1.0, 2.0]) / 3, 1.3, math.sqrt(3.0 / 0.2)
    steps = 500
    start = [math.cos(angle / 2), *(math.sin(angle / 2) * axis)]
    state = Runner(model, DT, Integrator.RK4).set(qpos=start).run(steps)[-1]
    turned = angle * math.cos(omega * steps * DT)
    expected = [math.cos(turned / 2), *(math.sin(turned / 2) * axis)]
    np.testing.assert_allclose(np.array(state["qpos"]) * np.sign(state["qpos"][0]), expected, atol=1e-9)


def top_attitude(moments: tuple[float, float], spin: Array, t: float) -> Array:
    """A free symmetric top: it precesses about its angular momentum and spins about its axis (Kane and Levinson)."""
    across, along = moments
    momentum = np.array([across, across, along]) * spin
    rate = float(np.linalg.norm(momentum)) / across
    precession = axis_angle_to_matrix(momentum / np.linalg.norm(momentum), rate * t)
    return precession @ axis_angle_to_matrix([0, 0, 1], spin[2] * (1 - along / across) * t)


@pytest.mark.parametrize("kind", [JointKind.FREE, JointKind.SPHERICAL, JointKind.SIX_AXIS], ids=lambda k: k.value)
@pytest.mark.parametrize("moments", [(0.3, 0.1), (0.1, 0.18)], ids=["cylinder", "plate"])
def test_symmetric_top(kind: JointKind, moments: tuple[float, float]) -> None:
    """Attitude and angular velocity of a torque-free axisymmetric body, for a second, whatever joint lets it turn."""
    across, along = moments
    body = simple_body(1.5, (across, across, along))
    axes = spherical_axes() if kind is JointKind.SPHERICAL else free_axes()
    model = model_of(one_joint(kind, body, axes=axes), gravity=(0, 0, 0))
    spin = np.array([1.0, 0.5, 3.0])
    steps, dt = 1000, 1e-3
    runner = Runner(model, dt, Integrator.RK4)
    runner.set(vel=[*([0.0] * (model.n_dofs - 3)), *spin])
    state = runner.run(steps)[-1]
    expected = top_attitude(moments, spin, steps * dt)
    if kind is JointKind.SIX_AXIS:
        x, y, z = state["qpos"][3:]
        turned = np.eye(3)
        for axis, angle in zip(np.eye(3), (x, y, z), strict=True):
            turned = turned @ axis_angle_to_matrix(axis, angle)
    else:
        turned = quaternion_to_matrix(state["qpos"][-4:])
        rate = (along - across) / across * spin[2] * steps * dt
        c, s = math.cos(rate), math.sin(rate)
        precessed = [c * spin[0] - s * spin[1], s * spin[0] + c * spin[1], spin[2]]
        np.testing.assert_allclose(state["vel"][-3:], precessed, atol=1e-8)
    np.testing.assert_allclose(turned, expected, atol=1e-8)


def test_torque_free_body_on_six_axes() -> None:
    """20 steps of 0.01: angular momentum within 0.5 %, by every integrator."""
    body = simple_body(1.0, (0.02, 0.03, 0.04))
    model = model_of(one_joint(JointKind.SIX_AXIS, body, axes=free_axes()), gravity=(0, 0, 0))
    for integrator in Integrator:
        runner = Runner(model, 0.01, integrator).set(vel=[0, 0, 0, 0.5, 0.3, 0.4])
        before = runner.system()["angular_momentum"]
        runner.run(20)
        change = np.linalg.norm(runner.system()["angular_momentum"] - before)
        assert change < 5e-3 * np.linalg.norm(before)


@pytest.mark.parametrize(("integrator", "precision"), alternating(Integrator, ["single", "double"]))
def test_momentum_of_four_bodies(integrator: Integrator, precision: str) -> None:
    """Four boxes that tumble freely for a second keep linear and angular momentum to 5e-4."""
    generator = np.random.default_rng(9)
    links = [lumpy_link(f"box{i}", generator) for i in range(4)]
    joints = [
        Joint(name=f"j{i}", kind=JointKind.FREE, parent=None, child=f"box{i}", axes=free_axes()) for i in range(4)
    ]
    for i, link in enumerate(links):
        assert link.inertial is not None
        link.inertial.center[:] = 0.0
        joints[i].initial = np.array([i, 0.0, 0.0, 1.0, 0.0, 0.0, 0.0])
    model = model_of(Robot(name="boxes", links=links, joints=joints), gravity=(0, 0, 0))
    runner = Runner(model, DT, integrator, precision).set(vel=generator.uniform(-0.2, 0.2, 24))
    before = runner.system()
    runner.run(1000)
    after = runner.system()
    for name in ("linear_momentum", "angular_momentum"):
        np.testing.assert_allclose(after[name], before[name], atol=5e-4)


def double_pendulum() -> Model:
    """A ball joint, and a hinge on it that is nowhere special."""
    generator = np.random.default_rng(3)
    links = [lumpy_link(name, generator) for name in ("upper", "lower")]
    ball = Joint(name="ball", kind=JointKind.SPHERICAL, parent=None, child="upper", axes=spherical_axes())
    hinge = Joint(
        name="hinge",
        kind=JointKind.REVOLUTE,
        parent="upper",
        child="lower",
        parent_pose=Pose.translation((0.1, 0.2, -0.3)),
        axes=[rotation((1, 1, 0))],
    )
    return model_of(Robot(name="double", links=links, joints=[ball, hinge]), gravity=DOWN)


@pytest.mark.parametrize("case", ["pendulum", "top", "double pendulum"])
def test_order_of_convergence(case: str) -> None:
    """Half the step, a sixteenth of the error: RK4 is of fourth order, on rotations too; the others of first."""
    model, v = {
        "pendulum": lambda: (pendulum(), [3.0]),
        "top": lambda: (free_body(gravity=(0, 0, 0)), [0, 0, 0, 2.0, 3.0, 1.0]),
        "double pendulum": lambda: (double_pendulum(), [1.0, 2.0, -1.0, 0.5]),
    }[case]()

    def after(integrator: Integrator, steps: int) -> Array:
        state = Runner(model, 0.5 / steps, integrator).set(vel=v).run(steps)[-1]
        return np.array([*state["qpos"], *state["vel"]])

    exact = after(Integrator.RK4, 1280)
    errors = [float(np.abs(after(Integrator.RK4, n) - exact).max()) for n in (20, 40, 80)]
    for coarse, fine in pairwise(errors):
        assert 3.8 < math.log2(coarse / fine) < 4.3
    first = [float(np.abs(after(Integrator.IMPLICITFAST, n) - exact).max()) for n in (160, 320)]
    assert 0.9 < math.log2(first[0] / first[1]) < 1.1
