"""Iterative linear-quadratic regulator (iLQR, Li and Todorov 2004) with the derivatives of a scene.

All knots of a trajectory are linearized in one call, an environment per knot, and the step lengths of the line search
are tried in one rollout, an environment per length.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np

import kinema as km

Array = np.ndarray
LENGTHS = 0.5 ** np.arange(10)
"""Step lengths of the line search."""


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


def difference(states: Array, others: Array, n_dofs: int) -> Array:
    """Tangent vectors from other states (qpos, qvel) to some states; a free joint comes first where there is one."""
    n_qs = states.shape[-1] - n_dofs
    found = states - others
    if n_qs == n_dofs:
        return found
    (w, x, y, z), (a, b, c, d) = np.moveaxis(others[..., 3:7], -1, 0), np.moveaxis(states[..., 3:7], -1, 0)
    turn = np.stack([w * b - x * a - y * d + z * c, w * c + x * d - y * a - z * b, w * d - x * c + y * b - z * a], -1)
    turn *= np.where(w * a + x * b + y * c + z * d < 0, -2.0, 2.0)[..., None]  # small angles
    return np.concatenate([found[..., :3], turn, found[..., 7:]], axis=-1)


@dataclass
class Tracking:
    """Half the sum of squared, weighted distances of states and controls from references."""

    states: Array
    """(knots + 1, n_qs + n_dofs)"""
    weights: Array
    """(knots + 1, 2 n_dofs)"""
    controls: Array
    """(knots, n_u)"""
    control_weights: Array
    """(n_u,)"""


class Ilqr:
    """Trajectory of a robot, the first entity of a scene, that minimises a tracking cost."""

    def __init__(
        self,
        build: Callable[[int], tuple[km.Scene, km.Entity]],
        start: Array,
        goal: Tracking,
        servos: slice | None = None,
    ) -> None:
        """Build the scenes.

        Args:
            build: makes the scene with a number of environments.
            start: initial state, (n_qs + n_dofs,).
            goal: cost.
            servos: dofs whose position targets are the controls; None for the controls of the actuators.
        """
        self.start, self.goal, self.servos = start, goal, servos
        self.knots, self.search = build(len(goal.controls)), build(len(LENGTHS))
        self.n_qs, self.n_dofs = self.search[1].n_qs, self.search[1].n_dofs
        self.damping = 1e-2

    def control(self, robot: km.Entity, controls: Array) -> None:
        """Set the controls of all environments."""
        if self.servos is None:
            robot.control(controls)
        else:
            robot.control_dofs_position(controls, self.servos)

    def simulate(self, states: Array, controls: Array, changes: Array, gains: Array) -> tuple[Array, Array]:
        """States and controls of the closed loop by step length, (knots + 1, lengths, n), (knots, lengths, n_u)."""
        scene, robot = self.search
        x = np.repeat(self.start[None], len(LENGTHS), axis=0)
        robot.set_qpos(x[:, : self.n_qs])
        robot.set_qvel(x[:, self.n_qs :])
        found, used = [x], []
        for k in range(len(controls)):
            u = controls[k] + LENGTHS[:, None] * changes[k] + difference(x, states[k], self.n_dofs) @ gains[k].T
            self.control(robot, u)
            scene.step()
            x = np.concatenate([robot.get_qpos(), robot.get_qvel()], axis=1)
            found.append(x)
            used.append(u)
        return np.array(found), np.array(used)

    def costs(self, states: Array, controls: Array) -> Array:
        """Costs of several trajectories, (lengths,)."""
        away = self.goal.weights[:, None] * difference(states, self.goal.states[:, None], self.n_dofs)
        more = self.goal.control_weights * (controls - self.goal.controls[:, None])
        return 0.5 * (np.square(away).sum((0, 2)) + np.square(more).sum((0, 2)))

    def linearize(self, states: Array, controls: Array) -> tuple[Array, Array]:
        """Jacobians A and B of all knots."""
        scene, robot = self.knots
        robot.set_qpos(states[:-1, : self.n_qs])
        robot.set_qvel(states[:-1, self.n_qs :])
        self.control(robot, controls)
        if self.servos is None:
            lin = scene.linearize()
            return lin.A, lin.B
        lin = scene.linearize(by="position")
        return lin.A, lin.B[:, :, self.servos]

    def iterate(self, controls: Array) -> Iterator[tuple[float, Array, Array, Array]]:
        """Cost, states, controls and gains after each iteration, until no step decreases the cost."""
        goal, n, (knots, m) = self.goal, 2 * self.n_dofs, controls.shape
        tried, used = self.simulate(goal.states, controls, 0 * controls, np.zeros((knots, m, n)))
        states, cost = tried[:, 0], self.costs(tried, used)[0]
        by_state, by_controls = np.square(goal.weights), np.square(goal.control_weights)
        while self.damping < 1e9:
            A, B = self.linearize(states, controls)
            away = by_state * difference(states, goal.states, self.n_dofs)
            quadratic = Quadratic(
                x=away[:-1],
                u=by_controls * (controls - goal.controls),
                xx=by_state[:-1, None] * np.eye(n),
                ux=np.zeros((knots, m, n)),
                uu=np.tile(np.diag(by_controls), (knots, 1, 1)),
            )
            costs, gains = np.array([cost]), np.zeros((knots, m, n))
            while not costs.min() < cost and self.damping < 1e9:
                changes, gains = backward_pass(A, B, quadratic, away[-1], np.diag(by_state[-1]), self.damping)
                tried, used = self.simulate(states, controls, changes, gains)
                costs = np.nan_to_num(self.costs(tried, used), nan=np.inf)
                self.damping *= 0.25 if costs[:3].min() < cost else 8.0
            if costs.min() < cost:
                best = int(costs.argmin())
                states, controls, cost = tried[:, best], used[:, best], float(costs[best])
                yield cost, states, controls, gains
