"""The curvature of a contact's cost in few numbers is the whole of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from kinema.dynamics.constraints.friction_cone import (
    cone_hessian,
    contact_cost,
    contact_cost_derivatives,
    contact_line_derivatives,
)

NUMBERS = st.floats(-3.0, 3.0)


@given(st.sampled_from((3, 4, 6)).flatmap(lambda n: st.lists(NUMBERS, min_size=n, max_size=n)), st.floats(0.05, 2.0))
def test_few_numbers_say_the_same(residual: list[float], bound: float) -> None:
    n, stiffness = len(residual), 2.5
    curve = contact_cost_derivatives(residual, stiffness, bound, elliptic=True).hessian
    whole = np.array([[curve[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)], float)
    few = cone_hessian(residual, stiffness, bound)
    outward = np.array([0.0, *few.tangent], float)
    steep = np.eye(n)[0] - bound * outward
    found = np.diag(np.array(few.diagonal, float)) + few.cone_weight * np.outer(steep, steep)
    found -= few.tangent_weight * np.outer(outward, outward)
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12 * np.abs(whole).max())


@given(st.sampled_from((1, 3, 4, 6)).flatmap(lambda n: st.lists(NUMBERS, min_size=2 * n, max_size=2 * n)))
def test_pyramids_along_a_direction(both: list[float]) -> None:
    """Edge by edge it is the slope and the curvature of the whole."""
    n = len(both) // 2
    residual, change = np.array(both[:n]), np.array(both[n:])
    whole = contact_cost_derivatives(both[:n], 2.5, 1.0, elliptic=False)
    curve = np.array([[whole.hessian[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)], float)
    derivative, square = (float(x) for x in contact_line_derivatives(both[:n], both[n:], 2.5, 1.0, elliptic=False))  # type: ignore[arg-type]
    np.testing.assert_allclose(derivative, change @ np.array(whole.gradient, float), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(square, change @ curve @ change, rtol=1e-9, atol=1e-9)
    costs = float(contact_cost(both[:n], 2.5, 1.0, elliptic=False))  # type: ignore[arg-type]
    np.testing.assert_allclose(costs, 0.5 * residual @ np.array(whole.gradient, float), atol=1e-9)
