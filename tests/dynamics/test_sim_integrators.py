"""How integrators treat energy and damping, and that inertia is the same however it is computed."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.builder import EntitySpec, build_model
from kinema.core import Array, Diagnostics, collect
from kinema.description import JointKind, free_axes, rotation
from kinema.dynamics import Integrator, Settings
from kinema.dynamics.rigid.crba import mass_matrix
from kinema.dynamics.rigid.kinematics import poses_in_parents, spatial_accelerations
from kinema.dynamics.rigid.rnea import bias_forces
from kinema.dynamics.tree.trace_context import TraceContext
from kinema.model import Model
from kinema.read import read
from kit.assets import EXAMPLES, assets
from kit.choosing import representatives
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, one_joint, robot, simple_body

from .arrays_for_tests import Found, computed_in_all, input_quantity
from .runner import Runner


def tumbling(moments: tuple[float, float, float] = (0.1, 0.2, 0.3)) -> Model:
    body = simple_body(1.0, moments)
    return model_of(one_joint(JointKind.FREE, body, axes=free_axes()), gravity=(0, 0, 0))


def spun(integrator: Integrator, spin: tuple[float, ...], precision: str = "double", dt: float = 0.01) -> Runner:
    return Runner(tumbling(), dt, integrator, precision).set(vel=[0, 0, 0, *spin])


def test_energy_of_the_integrators() -> None:
    """After 500 steps of a tumbling body: |RK4| < |implicit| < |Euler|."""
    change = {}
    for integrator in Integrator:
        runner = spun(integrator, (1.0, 2.0, 0.5))
        before = runner.energy()
        runner.run(500)
        change[integrator] = abs(runner.energy() - before)
    assert change[Integrator.RK4] < change[Integrator.IMPLICITFAST] < change[Integrator.EULER]


@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-9), ("single", 1e-4)])
def test_a_tumbling_body_never_gains_energy(precision: str, tolerance: float) -> None:
    """500 implicit steps of 0.01: energy never rises, little is lost, angular momentum stays."""
    runner = spun(Integrator.IMPLICITFAST, (1.0, 2.0, 0.5), precision)
    before = runner.system()
    energies = np.array([runner.energy(), *runner.energies(runner.run(500)[::8])])
    assert (np.diff(energies) <= tolerance * energies[0]).all()
    assert energies[-1] > 0.7 * energies[0]
    assert np.linalg.norm(runner.system()["angular_momentum"] - before["angular_momentum"]) < 0.05


@pytest.mark.parametrize(
    "spin", representatives([(0.1, 20.0, 0.1), (0.01, 2.0, 0.0), (20.0, 0.1, 0.1)], 1), ids=["both", "middle", "fast"]
)
def test_spinning_for_long(spin: tuple[float, ...]) -> None:
    """100 s about the middle axis, or at 20 rad/s: the implicit step never gains 1 %."""
    runner = spun(Integrator.IMPLICITFAST, spin)
    before = runner.energy()
    assert runner.energies(runner.run(10_000)[::250]).max() < 1.01 * before


def test_explicit_steps_gain_energy() -> None:
    """What the implicit step is there for."""
    runner = spun(Integrator.EULER, (1.0, 5.0, 0.5))
    before = runner.energy()
    runner.run(1000)
    assert runner.energy() > 1.01 * before


@pytest.mark.wide
@pytest.mark.parametrize("case", [c for c in CASES if "free" not in c.kind], ids=str)
@pytest.mark.parametrize(("precision", "tolerance"), [("double", 1e-14), ("single", 1e-6)])
def test_damping_is_implicit_in_both(case: Case, precision: str, tolerance: float) -> None:
    """Where only joints damp, the semi-implicit step and the implicit one are the same."""
    model = model_of(robot(case))
    generator = np.random.default_rng(2)
    q, v = model_coordinates(model, generator, 1)[:, 0], generator.uniform(-1, 1, model.n_dofs)
    ends = []
    for integrator in (Integrator.EULER, Integrator.IMPLICITFAST):
        state = Runner(model, 2e-3, integrator, precision).set(qpos=q, vel=v).run(5)[-1]
        ends.append(np.array([*state["qpos"], *state["vel"]], dtype=float))
    np.testing.assert_allclose(*ends, rtol=0, atol=tolerance * np.abs(ends[0]).max())


@pytest.mark.parametrize("integrator", [Integrator.EULER, Integrator.IMPLICITFAST], ids=lambda i: i.value)
def test_limits_of_damping(integrator: Integrator) -> None:
    """No damping leaves a spinning wheel alone; any amount stops it without a swing to the other side."""
    for damping in (0.0, 1e-6, 1.0, 1e3, 1e9):
        body = simple_body(1.0, (0.1, 0.1, 0.1))
        model = model_of(one_joint(JointKind.REVOLUTE, body, axes=[rotation((0, 0, 1), damping=damping)]))
        speeds = Runner(model, 0.01, integrator).set(vel=[2.0]).follow(50, "vel")
        expected = 2.0 * np.exp(-np.arange(1, 51) * np.log1p(0.01 * damping / 0.1))
        np.testing.assert_allclose(speeds, expected, rtol=1e-12, atol=1e-15)


def inverse_dynamics_matrix(model: Model, q: Array) -> tuple[Array, Array]:
    """M by composite bodies, and column by column by inverse dynamics of unit accelerations."""
    units = np.eye(model.n_dofs)
    still = {"qpos": np.tile(q[:, None], len(units)), "vel": 0.0 * units, "gravity": np.zeros((3, 1))}
    model = model.with_columns("dofs", armature=np.zeros(model.n_dofs))

    def run(ctx: TraceContext) -> Found:
        where = poses_in_parents(ctx)
        unit = input_quantity(ctx, "unit")
        return {
            "mass": mass_matrix(ctx, where),
            "column": bias_forces(ctx, where, spatial_accelerations(ctx, where, unit)),
        }

    found = computed_in_all(model, Settings(), still, run, given={"unit": units})
    return found[0]["mass"], np.array([each["column"] for each in found])


@pytest.mark.parametrize("name", ["arm", "mjcf/kuka_iiwa_14/iiwa14.xml", "mjcf/mujoco_humanoid/humanoid.xml"])
def test_two_ways_to_the_mass_matrix(name: str) -> None:
    """Composite bodies and inverse dynamics agree to rounding."""
    file: Path = EXAMPLES / "arm" / "arm.urdf" if name == "arm" else assets(name)
    described = read(file, policy=collect)
    model = build_model([EntitySpec(name="it", description=described)], diagnostics=Diagnostics())
    q = model_coordinates(model, np.random.default_rng(1), 1)[:, 0]
    composite, inverse = inverse_dynamics_matrix(model, q)
    assert np.abs(composite - inverse).max() <= 10 * np.finfo(float).eps * np.abs(composite).max() * len(composite)
    np.testing.assert_allclose(inverse, inverse.T, atol=1e-14 * np.abs(composite).max() * len(composite))
