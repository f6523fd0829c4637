"""Wipe a table with a Panda by model-predictive control: circles of a sponge, pressed with a constant force.

    python examples/wipe_table.py [--panda panda.xml] [--short] [--picture wipe.png]

Real-time iteration (Diehl et al. 2005): in each tick the last plan is simulated from the measured state, its knots are
linearized in one call (`scene.linearize`, an environment per knot), and a Riccati recursion solves the problem of least
squares. The outputs in the cost, pose of the sponge and contact force, are sensors: C and D of the linearization.

The plant has smaller steps and twice the friction. The filtered error of the predicted force is added to predictions.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from ilqr import least_squares, solve
from panda_at_table import HEIGHT, MOTORS, PANDA, build_panda
from photos import photograph

TICK, KNOTS, FORCE, FRICTION = 0.005, 12, 15.0, 0.2
"""Time between controls [s], controls that are planned, force on the table [N], and coefficient of friction."""
WEIGHTS = np.array([1e3, 1e3, 300.0, *[200.0] * 4, *[30.0] * 3, *[3.0] * 3, 1.0])
POSTURE = np.repeat([1.0, 0.1], 9)
"""Weights of position [1/m], orientation, velocity, angular velocity and force [1/N]; of squared coordinates."""


def reference(t: np.ndarray) -> np.ndarray:
    """Outputs at some times: circles of 10 cm, 4 s each, after half a second; upright, with a constant force."""
    rate = np.where(t > 0.5, np.pi / 2, 0.0)
    c, s, zero = 0.1 * np.cos(rate * (t - 0.5)), 0.1 * np.sin(rate * (t - 0.5)), 0.0 * t
    pose = [0.45 + c, s, zero + HEIGHT + 0.026, zero, zero + 1.0, zero, zero]
    return np.column_stack([*pose, -rate * s, rate * c, zero, zero, zero, zero, zero + FORCE])


class Controller:
    """Plans torques of the arm's seven joints."""

    def __init__(self, panda: Path) -> None:
        self.line, self.arm = build_panda(panda, 1, TICK, FRICTION)
        self.knots, self.arms = build_panda(panda, KNOTS, TICK, FRICTION)
        self.start = np.append(self.arm.get_qpos()[0], np.zeros(self.arm.n_dofs))
        self.plan, self.offset = self.arms.get_dofs_bias_force()[:, MOTORS], 0.0

    def decide(self, t: float, q: np.ndarray, v: np.ndarray, force: float) -> np.ndarray:
        """Torques from a measured state on, and the force that the last torques cause in it."""
        self.arm.set_qpos(q)
        self.arm.set_qvel(v)
        self.arm.control_dofs_force(self.plan[:1], MOTORS)
        self.offset += 0.1 * (force - self.line.sensors.data[0, -1] - self.offset)
        self.plan = np.concatenate([self.plan[1:], self.plan[-1:]])
        path = self.line.rollout(self.arm, force=self.plan, idx=MOTORS)
        states = np.column_stack([np.vstack([q, path.qpos[:-1, 0]]), np.vstack([v, path.qvel[:-1, 0]])])
        self.arms.set_qpos(states[:, :9])
        self.arms.set_qvel(states[:, 9:])
        self.arms.control_dofs_force(self.plan, MOTORS)
        errors = self.knots.sensors.data - reference(t + TICK * np.arange(KNOTS))
        errors[:, -1] += self.offset
        lin, weights = self.knots.linearize(by="force"), WEIGHTS[:, None]
        cost = least_squares(WEIGHTS * errors, weights * lin.C, weights * lin.D[:, :, MOTORS])
        cost.x += POSTURE * (states - self.start)
        cost.xx += np.diag(POSTURE)
        self.plan += solve(lin.A, lin.B[:, :, MOTORS], cost, 5.0 * cost.x[-1], 5.0 * cost.xx[-1], damping=0.005)
        return self.plan[0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--panda", type=Path, default=PANDA, help="MJCF of MuJoCo Menagerie")
    parser.add_argument("--short", action="store_true", help="1 s instead of 5 s")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    controller = Controller(options.panda)
    plant, arm = build_panda(options.panda, 1, 0.001, 2 * FRICTION)
    errors, places, took = [], [], []
    for t in TICK * np.arange(round((1.0 if options.short else 5.0) / TICK)):
        measured = plant.sensors.data[0]
        errors.append(measured - reference(np.array([t]))[0])
        places.append(arm.get_qpos()[0])
        start = time.process_time()
        torques = controller.decide(t, places[-1], arm.get_qvel()[0], measured[-1])
        took.append(time.process_time() - start)
        arm.control_dofs_force(torques, MOTORS)
        plant.step(round(TICK / 0.001))
    usual, slow = 1e3 * np.quantile(took, [0.5, 0.95])
    print(f"decisions take {usual:.2f} ms of one core, 95 of 100 within {slow:.2f} ms: {1e3 / usual:.0f} Hz")
    settled = np.array(errors)[round(0.8 / TICK) :]
    away, force = 1e3 * np.linalg.norm(settled[:, :2], axis=1), np.abs(settled[:, -1])
    print(f"position within {away.max():.2f} mm, force of {FORCE:g} N within {force.max():.2f} N")
    if options.picture:
        controller.arms.set_qpos(np.array(places)[np.linspace(0, len(places) - 1, KNOTS).astype(int)])
        photograph(controller.knots, options.picture, (1.5, -1.0, 1.0), (0.3, 0.0, 0.45), envs=(2, 5, 8), width=360)
    assert usual < 10.0, "at least 100 decisions per second on one core"
    assert max(away.max(), force.max()) < 1.0, "the sponge follows the circle, and presses as commanded"


if __name__ == "__main__":
    main()
