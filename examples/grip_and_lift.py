"""An arm grips boxes with a gripper of closed loops and lifts them: another box in each environment.

    python examples/grip_and_lift.py [--envs 64] [--short] [--picture lifted.png]

The arm is the example of URDF, the gripper that of SDFormat, put together here. The boxes are eight sizes from 30 to 50
mm; the hand goes where inverse kinematics says, the fingers close by force, and nothing but friction holds the box.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from holding import ARM, ARM_JOINTS, GRASP, HARD, close, on_arm
from photos import photograph

import kinema as km

PLACE, TABLE = np.array([0.4, 0.0]), 0.1
"""Where boxes stand, and how high the table is [m]."""
LIFT = 0.12
"""How far they are lifted [m]."""
DOWN = (0.0, 1.0, 0.0, 0.0)


def angles(heights: list[float]) -> list[np.ndarray]:
    """Those of the arm that bring what it would hold to some heights above the table."""
    arm, seed = km.Kinematics(ARM), None
    found = []
    for height in heights:
        hand = [*PLACE, TABLE + height + GRASP]
        way = arm.inverse_kinematics("hand_link", hand, DOWN, **({} if seed is None else {"init_qpos": seed}))
        assert way.solved.all(), "the hand gets there"
        seed = way.qpos[0]
        found.append(way.qpos[0, : len(ARM_JOINTS)])
    return found


def lift(n_envs: int, sizes: np.ndarray, picture: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """How far boxes were lifted, and how far they slipped in the hand meanwhile [m]."""
    scene = km.Scene(quiet=True)
    scene.add(km.Box((0.4, 0.4, TABLE)), fixed=True, pos=(*PLACE, TABLE / 2), color=(0.75, 0.7, 0.6))
    robot = scene.add(on_arm(), fixed=True)
    boxes = [km.Box((size, 0.04, 0.08)) for size in sizes]
    box = scene.add(boxes, density=700, material=HARD, pos=(*PLACE, TABLE + 0.041), color=(0.85, 0.4, 0.2), name="box")
    scene.build(n_envs)
    arm = robot.dofs_of(*ARM_JOINTS)
    robot.set_dofs_kp(3000.0, arm)
    robot.set_dofs_kv(150.0, arm)
    low, high = angles([0.055, 0.055 + LIFT])
    start = np.zeros(robot.n_qs)
    start[arm] = low
    robot.set_qpos(start)
    robot.control_dofs_position(low, arm)
    close(scene, robot)
    held = box.get_pos()[:, 2] - robot.get_links_pos(["palm"])[:, 0, 2]
    before = box.get_pos()[:, 2]
    for share in np.linspace(0.0, 1.0, 25):
        way = low + (high - low) * (3 * share**2 - 2 * share**3)
        robot.control_dofs_position(way, arm)
        scene.step(24)
    scene.step(150)
    if picture:
        photograph(scene, picture, (1.15, -0.75, 0.65), (0.35, 0.0, 0.3), envs=range(min(3, n_envs)), width=360)
    slipped = box.get_pos()[:, 2] - robot.get_links_pos(["palm"])[:, 0, 2] - held
    return box.get_pos()[:, 2] - before, slipped


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--short", action="store_true", help="three boxes")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    sizes = np.linspace(0.03, 0.05, 3 if options.short else 8)
    lifted, slipped = lift(3 if options.short else options.envs, sizes, options.picture)
    print(f"{len(lifted)} arms, {len(sizes)} boxes: lifted by {lifted.min() * 1e3:.1f} to {lifted.max() * 1e3:.1f} mm")
    print(f"they moved in the hand by {np.abs(slipped).max() * 1e3:.2f} mm at most")
    assert (np.abs(lifted - LIFT) < 0.015).all(), "all boxes are lifted"
    assert (np.abs(slipped) < 0.015).all(), "none slips out of the hand"


if __name__ == "__main__":
    main()
