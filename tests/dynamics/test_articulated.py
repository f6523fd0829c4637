"""Articulated bodies: the same accelerations as by the mass matrix, in less work for long chains."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.description import Base
from kinema.dynamics import Settings, compute_mass_matrix_conditioning
from kinema.dynamics.pipeline import compute
from kinema.dynamics.rigid.aba import aba_accelerations
from kinema.dynamics.rigid.rnea import inertial_wrench
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.kinematic_tree import build_tree
from kinema.dynamics.tree.trace_context import TraceContext
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot

from .arrays_for_tests import Found, computed, input_quantity


@pytest.mark.wide
@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
def test_equal_to_the_mass_matrix(case: Case, base: Base) -> None:
    """Every kind of joint: the solution of (M + D) x = f - bias, and what is left of each inertia on the way."""
    model = model_of(robot(case, base))
    generator = np.random.default_rng(8)
    q = model_coordinates(model, generator, 1)[:, 0]
    model = model.with_columns("dofs", armature=model.dofs.armature + generator.uniform(0, 0.1, model.n_dofs))
    v, force = (generator.uniform(-2, 2, model.n_dofs) for _ in range(2))

    def run(ctx: TraceContext) -> Found:
        step, push = StepData(ctx), input_quantity(ctx, "force")
        compute(step, "mass_matrix", "qfrc_bias")
        motion = step.bias_accelerations
        found = aba_accelerations(
            ctx,
            step.local_poses,
            lambda node: ctx.read_node("armature", node),
            lambda node: push[node.ref],
            lambda node: inertial_wrench(node.inertia, motion[node.ref]),
        )
        return {"found": found, "mass": step.mass_matrix, "bias": step.qfrc_bias}

    known = {"qpos": q, "vel": v}
    result = computed(model, Settings(), known, run, given={"force": force})
    mass = result["mass"]
    expected = np.linalg.solve(mass, force - result["bias"])
    np.testing.assert_allclose(result["found"], expected, rtol=1e-9, atol=1e-9)
    (inertias,) = compute_mass_matrix_conditioning(model, q)
    np.testing.assert_allclose(inertias.diagonal, np.diag(mass), rtol=1e-10)
    # what elimination leaves of each is what is left of it when those it moves give way
    left, rest = np.zeros(model.n_dofs), mass
    for n in reversed([dof for node in build_tree(model).nodes for dof in node.dofs]):
        left[n] = rest[n, n]
        rest = rest - np.outer(rest[:, n], rest[n, :]) / rest[n, n]
    np.testing.assert_allclose(inertias.pivots, left, rtol=1e-9)


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

        def run(ctx: TraceContext, articulated: bool = articulated) -> Found:
            step = StepData(ctx, articulated)
            compute(step, "constrained_acceleration", "qacc")
            return {"explicit": step.constrained_acceleration, "implicit": step.qacc}

        found.append(computed(model, Settings(), arrays, run).values())
    for by_matrix, by_bodies in zip(*found, strict=True):
        np.testing.assert_allclose(by_bodies, by_matrix, rtol=1e-9, atol=1e-9)
