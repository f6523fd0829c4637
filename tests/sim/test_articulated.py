"""Articulated bodies: the same accelerations as by the mass matrix, in less work for long chains."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.description import Base
from kinema.sim.articulated import articulated_solve, remaining_inertias
from kinema.sim.dynamics import bias_forces, factorise, inertial_force, mass_matrix
from kinema.sim.kinematics import accelerations, offsets, subspaces
from kinema.sim.tree import grow
from kit.robots.configurations import model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot


@pytest.mark.parametrize("case", CASES, ids=str)
@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
def test_equal_to_the_mass_matrix(case: Case, base: Base) -> None:
    """Every kind of joint: the solution of (M + D) x = f - bias, and what is left of each inertia on the way."""
    model = model_of(robot(case, base))
    generator = np.random.default_rng(8)
    tree = grow(model)
    where = offsets(tree, model_coordinates(model, generator, 1)[:, 0].tolist())
    subspace = subspaces(tree, where)
    own = (model.dofs.armature + generator.uniform(0, 0.1, model.n_dofs)).tolist()
    v, force = (generator.uniform(-2, 2, model.n_dofs).tolist() for _ in range(2))
    matrix = mass_matrix(tree, where, subspace, own)
    moving = accelerations(tree, where, subspace, v, None, model.gravity.tolist())
    bias = bias_forces(tree, where, subspace, moving)
    expected = factorise(matrix).solve([f - b for f, b in zip(force, bias, strict=True)])
    on_frames = {n.index: inertial_force(n.inertia, moving[0][n.index], moving[1][n.index]) for n in tree.nodes}
    found = articulated_solve(tree, where, subspace, own, force, on_frames)
    np.testing.assert_allclose(found, expected, rtol=1e-9, atol=1e-9)  # type: ignore[arg-type]
    diagonal, left = remaining_inertias(tree, where, subspace, own, 1e-12)
    np.testing.assert_allclose(diagonal, [matrix.at(i, i) for i in range(model.n_dofs)], rtol=1e-10)  # type: ignore[arg-type]
    inverse = factorise(matrix).inverse_diagonal
    np.testing.assert_allclose(left, [1.0 / inverse[i] for i in range(model.n_dofs)], rtol=1e-9)  # type: ignore[arg-type]
