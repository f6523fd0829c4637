"""Pick a robot and shake it: each copy at another frequency, to see where it resonates.

    python examples/shake_robot.py [FILE] [--envs 256] [--short] [--picture shaken.svg]

The base is shaken up and down by 2 m/s2. Seen from the base that is gravity that changes, which each environment has
its own of. Joints are held where they are; how far the tip moves against the base shows how stiff that is.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from photos import plot

import kinema as km

ARM = Path(__file__).parent / "robots" / "arm" / "arm.urdf"
AMPLITUDE = 2.0
"""Of the base's acceleration [m/s2]."""


def shake(file: Path = ARM, n_envs: int = 256, seconds: float = 2.0) -> tuple[np.ndarray, np.ndarray]:
    """Frequencies [Hz], and how far the tip of a robot moves at each [m]."""
    scene = km.Scene(dt=0.004, contacts=False, quiet=True)
    robot = scene.add(file, fixed=True)
    scene.build(n_envs, per_env=("gravity",))
    frequency = np.geomspace(0.5, 20.0, n_envs)
    start = np.tile(0.5, robot.n_dofs)
    robot.set_qpos(start)
    robot.set_dofs_kp(800.0)
    robot.set_dofs_kv(8.0)
    robot.control_dofs_position(start)
    steps, heights = round(seconds / scene.dt), []
    for step in range(steps):
        push = AMPLITUDE * np.sin(2 * np.pi * frequency * scene.dt * step)
        robot.set_gravity(np.stack([0 * push, 0 * push, -9.81 - push], axis=1))
        scene.step()
        if step > steps // 2:  # what it began with is gone
            heights.append(robot.get_links_pos()[:, -1, 2])
    return frequency, np.ptp(heights, axis=0) / 2


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", nargs="?", type=Path, default=ARM)
    parser.add_argument("--envs", type=int, default=256)
    parser.add_argument("--short", action="store_true", help="few copies, for a moment")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    few = {"n_envs": 16, "seconds": 1.0} if options.short else {"n_envs": options.envs, "seconds": 4.0}
    frequency, moved = shake(options.file, **few)
    worst = int(np.argmax(moved))
    print(f"{options.file.name}: {len(moved)} frequencies from {frequency[0]:g} to {frequency[-1]:g} Hz")
    slow, fast = moved[0] * 1e3, moved[worst] * 1e3
    print(f"slowly shaken it gives way by {slow:.2f} mm, at {frequency[worst]:.1f} Hz by {fast:.2f} mm")
    if options.picture:
        plot(options.picture, {"tip against base": (frequency, moved * 1e3)}, "frequency [Hz]", "motion [mm]")
    assert np.isfinite(moved).all(), "nothing may break"
    assert moved[-1] < moved[0] / 2, "what is shaken fast stays where it is"


if __name__ == "__main__":
    main()
