"""The curvature of a contact's cost in few numbers is the whole of it."""

from __future__ import annotations

import numpy as np
from hypothesis import given, strategies as st

from kinema.sim.constrain.cones import along, bend, cost, push

NUMBERS = st.floats(-3.0, 3.0)


@given(st.sampled_from((3, 4, 6)).flatmap(lambda n: st.lists(NUMBERS, min_size=n, max_size=n)), st.floats(0.05, 2.0))
def test_few_numbers_say_the_same(residual: list[float], bound: float) -> None:
    n, stiffness = len(residual), 2.5
    curve = push(residual, stiffness, bound, elliptic=True).curve
    whole = np.array([[curve[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)], float)
    few = bend(residual, stiffness, bound)
    outward = np.array([0.0, *few.outward], float)
    steep = np.eye(n)[0] - bound * outward
    found = np.diag(few.weights) + few.soft * np.outer(steep, steep) - few.less * np.outer(outward, outward)  # type: ignore[arg-type]
    np.testing.assert_allclose(found, whole, rtol=1e-12, atol=1e-12 * np.abs(whole).max())


@given(st.sampled_from((1, 3, 4, 6)).flatmap(lambda n: st.lists(NUMBERS, min_size=2 * n, max_size=2 * n)))
def test_pyramids_along_a_direction(both: list[float]) -> None:
    """Edge by edge it is the slope and the curvature of the whole."""
    n = len(both) // 2
    residual, change = np.array(both[:n]), np.array(both[n:])
    whole = push(both[:n], 2.5, 1.0, elliptic=False)
    curve = np.array([[whole.curve[max(i, j)][min(i, j)] for j in range(n)] for i in range(n)], float)
    slope, square = (float(x) for x in along(both[:n], both[n:], 2.5, 1.0, elliptic=False))  # type: ignore[arg-type]
    np.testing.assert_allclose(slope, change @ np.array(whole.slope, float), rtol=1e-9, atol=1e-9)
    np.testing.assert_allclose(square, change @ curve @ change, rtol=1e-9, atol=1e-9)
    costs = float(cost(both[:n], 2.5, 1.0, elliptic=False))  # type: ignore[arg-type]
    np.testing.assert_allclose(costs, 0.5 * residual @ np.array(whole.slope, float), atol=1e-9)
