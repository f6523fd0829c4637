"""Articulated bodies: the same accelerations as by the mass matrix, in less work for long chains."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.description import Base
from kinema.sim import Settings, dof_inertias
from kinema.sim.rigid.aba import articulated_accelerations
from kinema.sim.rigid.rnea import inertial_wrench
from kinema.sim.step import Step
from kinema.sim.sweeps.sweeps import Sweeps
from kinema.sim.sweeps.tree import grow
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot

from .arrays_for_tests import Found, computed, given_quantity


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
def test_equal_to_the_mass_matrix(case: Case, base: Base) -> None:
    """Every kind of joint: the solution of (M + D) x = f - bias, and what is left of each inertia on the way."""
    model = model_of(robot(case, base))
    generator = np.random.default_rng(8)
    q = model_coordinates(model, generator, 1)[:, 0]
    model.dofs.armature[:] += generator.uniform(0, 0.1, model.n_dofs)
    v, force = (generator.uniform(-2, 2, model.n_dofs) for _ in range(2))

    def run(sweeps: Sweeps) -> Found:
        step, push = Step(sweeps), given_quantity(sweeps, "force")
        motion = step.motion
        found = articulated_accelerations(
            sweeps,
            step.where,
            lambda node: sweeps.of("armature", node),
            lambda node: push[node.here],
            lambda node: inertial_wrench(node.inertia, motion[node.here]),
        )
        return {"found": found, "mass": step.mass, "bias": step.bias}

    known = {"qpos": q, "vel": v}
    result = computed(model, Settings(), known, run, given={"force": force})
    mass = result["mass"]
    expected = np.linalg.solve(mass, force - result["bias"])
    np.testing.assert_allclose(result["found"], expected, rtol=1e-9, atol=1e-9)
    (inertias,) = dof_inertias(model, q)
    np.testing.assert_allclose(inertias.diagonal, np.diag(mass), rtol=1e-10)
    # what elimination leaves of each is what is left of it when those it moves give way
    left, rest = np.zeros(model.n_dofs), mass
    for n in reversed([dof for node in grow(model).nodes for dof in node.dofs]):
        left[n] = rest[n, n]
        rest = rest - np.outer(rest[:, n], rest[n, :]) / rest[n, n]
    np.testing.assert_allclose(inertias.remaining, left, rtol=1e-9)


@pytest.mark.wide
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

        def run(sweeps: Sweeps, articulated: bool = articulated) -> Found:
            step = Step(sweeps, articulated)
            return {"explicit": step.acceleration, "implicit": step.implicit_acceleration()}

        found.append(computed(model, Settings(), arrays, run).values())
    for by_matrix, by_bodies in zip(*found, strict=True):
        np.testing.assert_allclose(by_bodies, by_matrix, rtol=1e-9, atol=1e-9)
