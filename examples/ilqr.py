"""Iterative linear-quadratic regulator (iLQR, Li and Todorov 2004) with the derivatives of a scene.

All knots of a trajectory are linearized in one call, an environment per knot, and the step lengths of the line search
are tried in one rollout, an environment per length.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

Array = np.ndarray


@dataclass
class Quadratic:
    """Second-order expansion of the costs of knots by state and controls, with the knot as the first axis."""

    x: Array
    u: Array
    xx: Array
    ux: Array
    uu: Array


def least_squares(residuals: Array, by_state: Array, by_controls: Array) -> Quadratic:
    """Gauss-Newton expansion of half the sums of squared residuals, (knots, n), with their Jacobians."""
    C, D = by_state, by_controls
    Ct, Dt = C.transpose(0, 2, 1), D.transpose(0, 2, 1)
    return Quadratic((Ct @ residuals[..., None])[..., 0], (Dt @ residuals[..., None])[..., 0], Ct @ C, Dt @ C, Dt @ D)


def backward_pass(
    A: Array, B: Array, cost: Quadratic, final_x: Array, final_xx: Array, damping: float
) -> tuple[Array, Array]:
    """Riccati recursion; returns changes of the controls (knots, n_u) and feedback gains (knots, n_u, n_x)."""
    Vx, Vxx = final_x, final_xx
    changes, gains = np.zeros_like(cost.u), np.zeros_like(cost.ux)
    for k in reversed(range(len(A))):
        VA, VB = Vxx @ A[k], Vxx @ B[k]
        Qx, Qu = cost.x[k] + A[k].T @ Vx, cost.u[k] + B[k].T @ Vx
        Qxx, Qux, Quu = cost.xx[k] + A[k].T @ VA, cost.ux[k] + B[k].T @ VA, cost.uu[k] + B[k].T @ VB
        solved = np.linalg.solve(Quu + damping * np.eye(len(Quu)), np.column_stack([Qu, Qux]))
        changes[k], gains[k] = -solved[:, 0], -solved[:, 1:]
        Vx, Vxx = Qx + Qux.T @ changes[k], Qxx + Qux.T @ gains[k]
        Vxx = 0.5 * (Vxx + Vxx.T)
    return changes, gains


def solve(A: Array, B: Array, cost: Quadratic, final_x: Array, final_xx: Array, damping: float) -> Array:
    """Changes of the controls that minimise the quadratic cost of a linear system, (knots, n_u)."""
    changes, gains = backward_pass(A, B, cost, final_x, final_xx, damping)
    x = np.zeros_like(final_x)
    for k, change in enumerate(changes):
        change += gains[k] @ x
        x = A[k] @ x + B[k] @ change
    return changes
