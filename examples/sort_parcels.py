"""Parcels are sorted: a belt carries them, a paddle pushes every second one onto a lift, the others reach a turntable.

    python examples/sort_parcels.py [--envs 4] [--short] [--picture sort.png]

The belt and the turntable have a surface velocity; that of the belt differs between the environments. Paddle and lift
are kinematic bodies: contacts see their velocity, so that the paddle pushes and the lift carries.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import kinema as km

SPEEDS = (0.3, 0.4)
"""Lowest and highest speed of the belt [m/s]."""
SPIN = 0.8
"""Angular velocity of the turntable [rad/s]."""
PADDLE, STROKE = np.array([0.1, 0.27, 0.37]), 0.5
"""Rest position of the paddle and length of its stroke [m]."""
LIFT, RAISED = np.array([0.1, -0.42, 0.285]), np.array([0.1, -0.62, 0.6])
"""Positions of the lift [m]."""
TABLE, RADIUS = np.array([1.48, 0.0]), 0.45
SIZE = 0.12
"""Edge length of the parcels [m]."""
TICK = 0.02
"""Time between decisions [s]."""


def main() -> None:
    """Sort the parcels in all environments and check where they are."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=4, help="number of environments, each with another belt speed")
    parser.add_argument("--short", action="store_true", help="two environments only")
    parser.add_argument("--picture", type=Path, help="write a picture of the first environment")
    options = parser.parse_args()
    n_envs = 2 if options.short else options.envs

    scene = km.Scene(dt=0.004, quiet=True, cone="elliptic")
    scene.add(km.Plane(), color=(0.55, 0.57, 0.6))
    belt = scene.add(km.Box((2.0, 0.4, 0.1)), fixed=True, pos=(0, 0, 0.25), color=(0.12, 0.13, 0.15))
    table = scene.add(km.Cylinder(RADIUS, 0.1), fixed=True, pos=(*TABLE, 0.25), color=(0.35, 0.4, 0.45))
    paddle = scene.add(km.Box((0.24, 0.03, 0.12)), kinematic=True, pos=PADDLE, color=(0.8, 0.2, 0.15))
    lift = scene.add(km.Box((0.36, 0.4, 0.03)), kinematic=True, pos=LIFT, color=(0.85, 0.65, 0.2))
    colors = ((0.25, 0.5, 0.7), (0.75, 0.55, 0.35))
    parcels = [
        scene.add(km.Box((SIZE, SIZE, SIZE)), pos=(x, 0, 0.3 + SIZE / 2), mass=0.5, color=colors[i % 2], friction=0.6)
        for i, x in enumerate((0.05, -0.35, -0.93))
    ]
    scene.build(n_envs=n_envs, per_env=("surface_velocity",))
    speeds = np.linspace(*SPEEDS, n_envs)
    scene.set_surface_velocity(belt, np.stack([speeds, 0 * speeds, 0 * speeds], axis=1))
    scene.set_surface_velocity(table, angular=(0, 0, SPIN))

    pushes_at = np.full(n_envs, np.inf)
    lifted = np.zeros(n_envs, bool)
    taken = False
    while scene.time < 7.5:
        scene.step(round(TICK / scene.dt))
        x = parcels[1].get_pos()[:, 0]
        starts = (x > PADDLE[0] - 0.2 * speeds) & np.isinf(pushes_at)
        if starts.any():
            paddle.set_target_pose(PADDLE - [0, STROKE, 0], duration=0.6, envs_idx=starts)
            pushes_at[starts] = scene.time
        returns = (scene.time > pushes_at + 0.7) & ~lifted
        if returns.any():
            paddle.set_target_pose(PADDLE, duration=0.4, envs_idx=returns)
            lift.set_target_pose(RAISED, duration=1.0, envs_idx=returns)
            lifted |= returns
        if options.picture and not taken and scene.time > pushes_at[0] + 1.6:
            scene.render(options.picture, res=(960, 540), pos=(0.9, -2.5, 1.7), lookat=(0.5, -0.05, 0.25), fov=0.7)
            taken = True

    pushed, passed = parcels[1].get_pos(), [parcels[i].get_pos() for i in (0, 2)]
    print(f"belt speeds {speeds.round(2)} m/s; lifted parcels at", pushed.round(3).tolist())
    assert np.allclose(pushed[:, 2], RAISED[2] + 0.015 + SIZE / 2, atol=5e-3), "a parcel is not on the lift"
    for pos in passed:
        assert (np.linalg.norm(pos[:, :2] - TABLE, axis=1) < RADIUS).all(), "a parcel is not on the turntable"
    print(f"{n_envs} environments: every second parcel was lifted, the others are on the turntable")


if __name__ == "__main__":
    main()
