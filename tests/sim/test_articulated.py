"""Articulated bodies: the same accelerations as by the mass matrix, in less work for long chains."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.description import Base
from kinema.sim import Settings
from kinema.sim.rigid.aba import articulated_accelerations, remaining_inertias
from kinema.sim.rigid.rnea import inertial_wrench
from kinema.sim.step import Step
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot

from .arrays_for_tests import by_dof, of_dofs, on_floats


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
def test_equal_to_the_mass_matrix(case: Case, base: Base) -> None:
    """Every kind of joint: the solution of (M + D) x = f - bias, and what is left of each inertia on the way."""
    model = model_of(robot(case, base))
    generator = np.random.default_rng(8)
    q = model_coordinates(model, generator, 1)[:, 0]
    model.dofs.armature[:] += generator.uniform(0, 0.1, model.n_dofs)
    v, force = (generator.uniform(-2, 2, model.n_dofs) for _ in range(2))
    sweeps = on_floats(model, Settings(), {"qpos": q, "vel": v})
    step = Step(sweeps)
    factors = step.mass.factorised()
    expected = by_dof(sweeps, factors.solve("x", of_dofs(sweeps, force - by_dof(sweeps, step.bias))))
    found = articulated_accelerations(
        sweeps,
        step.where,
        lambda node: sweeps.of("armature", node),
        lambda node: [float(force[dof]) for dof in node.dofs],
        lambda node: inertial_wrench(node.inertia, step.motion[node.here]),
    )
    np.testing.assert_allclose(by_dof(sweeps, found), expected, rtol=1e-9, atol=1e-9)
    diagonal, left = remaining_inertias(sweeps, step.where, 1e-12)
    entries = step.mass.entries  # type: ignore[attr-defined]
    np.testing.assert_allclose(diagonal, [entries[i, i] for i in range(model.n_dofs)], rtol=1e-10)
    inverse = factors.inverse  # type: ignore[attr-defined]
    np.testing.assert_allclose(left, [1.0 / inverse[i] for i in range(model.n_dofs)], rtol=1e-9)


@pytest.mark.parametrize("case", CASES, ids=str)
def test_a_whole_step(case: Case) -> None:
    """With springs, dampers and gravity: implicit and explicit accelerations, by bodies and by the matrix.

    Bodies that fly alone are never stepped by articulated bodies: there the base is fixed.
    """
    model = model_of(robot(case, Base.FIXED if case.kind == "free" else Base.FREE))
    generator = np.random.default_rng(9)
    arrays = {"qpos": model_coordinates(model, generator, 1), "vel": generator.uniform(-2, 2, (model.n_dofs, 1))}
    found = []
    for articulated in (False, True):
        sweeps = on_floats(model, Settings(), arrays)
        step = Step(sweeps, articulated)
        found.append((by_dof(sweeps, step.acceleration), by_dof(sweeps, step.implicit_acceleration())))
    for by_matrix, by_bodies in zip(*found, strict=True):
        np.testing.assert_allclose(by_bodies, by_matrix, rtol=1e-9, atol=1e-9)
