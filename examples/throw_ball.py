"""Throw a ball into a bin by way of the floor: the throw is found by the gradient through the bounce.

    python examples/throw_ball.py [--short] [--picture throw.png]

The distance of the ball from the opening of the bin at a given time is a function of its initial velocity. One backward
pass through the trajectory, contact included, gives the gradient (`kinema.gradients.rollout`), and BFGS the velocity.
Then the ball is thrown, and has to stay in the bin. The floor is elastic: a contact lasts for several steps, so that
the time of the impact is differentiated as well.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from photos import photograph
from scipy.optimize import minimize

import kinema as km
from kinema.description import PhysicsMaterial, SolverParameters

DT, FLIGHT = 0.002, 0.9
"""Time of a step, and from the throw to the bin [s]."""
START, RADIUS = np.array([0.0, 0.0, 0.6]), 0.06
"""Where the ball is thrown, and its radius [m]."""
BIN, WIDTH, DEPTH, BOARD = np.array([1.8, 0.3]), 0.36, 0.45, 0.02
"""Place of the bin, inner width, height, and thickness of its walls [m]."""
GUESS = np.array([1.6, 0.0, -4.0])
"""First velocity: it misses by 0.6 m [m/s]."""
ELASTIC = PhysicsMaterial(priority=1, solver=SolverParameters(solref=(-20000.0, -20.0)))
"""Stiffness and damping of the floor by mass, as `solref` with negative numbers."""
ORANGE = (0.85, 0.4, 0.2)


def furnished() -> km.Scene:
    """A floor and a bin."""
    scene = km.Scene(dt=DT, precision="double", quiet=True)
    scene.add(km.Plane(), material=ELASTIC)
    off = (WIDTH + BOARD) / 2
    for x, y in ((off, 0.0), (-off, 0.0), (0.0, off), (0.0, -off)):
        size = (BOARD if x else WIDTH, BOARD if y else WIDTH + 2 * BOARD, DEPTH)
        scene.add(km.Box(size), fixed=True, pos=(BIN[0] + x, BIN[1] + y, DEPTH / 2), color=(0.35, 0.5, 0.65))
    scene.add(km.Box((WIDTH, WIDTH, BOARD)), fixed=True, pos=(*BIN, BOARD / 2), material=PhysicsMaterial(priority=2))
    return scene


def find_throw() -> tuple[np.ndarray, np.ndarray, int]:
    """The initial velocity [m/s], centres of the ball from the throw until it rests [m], and evaluations needed."""
    scene = furnished()
    ball = scene.add(km.Sphere(RADIUS), density=300, pos=START)
    scene.build()
    target, controls = np.array([*BIN, DEPTH]), np.zeros((round(FLIGHT / DT), 0))

    def distance(velocity: np.ndarray) -> tuple[float, np.ndarray]:
        """Square of the final distance [m²], and its gradient."""
        state = {"qpos": [*START, 1.0, 0.0, 0.0, 0.0], "qvel": [*velocity, 0.0, 0.0, 0.0]}
        trajectory, pullback = km.gradients.rollout(scene, control=controls, state=state)
        away = trajectory.qpos[-1, 0, :3] - target
        weights = np.zeros_like(trajectory.qpos)
        weights[-1, 0, :3] = 2.0 * away
        return float(away @ away), pullback(qpos=weights)["state"]["qvel"][0, :3]

    found = minimize(distance, GUESS, jac=True, method="BFGS", options={"gtol": 1e-3})
    scene.reset()
    ball.set_dofs_velocity([*found.x, 0.0, 0.0, 0.0])
    places = [START]
    for _ in range(round(3.0 / DT / 10)):
        scene.step(10)
        places.append(ball.get_pos()[0])
    return found.x, np.array(places), found.nfev


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the same: the example is short")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    start = time.perf_counter()
    velocity, places, evaluations = find_throw()
    print(f"velocity {velocity.round(3)} m/s after {evaluations} gradients, in {time.perf_counter() - start:.1f} s")
    bounce = places[np.argmin(places[:40, 2])]
    print(f"the ball bounces at {bounce[0]:.2f} m and comes to rest at {places[-1].round(3)} m")
    if options.picture:
        scene = furnished()
        for place in places[: round(FLIGHT / DT / 10) + 2 : 3]:
            scene.add(km.Sphere(RADIUS), fixed=True, collision=False, pos=place, color=ORANGE)
        scene.build()
        photograph(scene, options.picture, (0.2, -3.2, 1.5), (0.95, 0.0, 0.45), width=640)
    assert np.abs(places[-1, :2] - BIN).max() < WIDTH / 2, "the ball is in the bin"
    assert places[-1, 2] < DEPTH, "it stays there"


if __name__ == "__main__":
    main()
