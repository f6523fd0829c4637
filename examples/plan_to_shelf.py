"""An arm puts a box from a table into a shelf: the planned motion keeps arm and box clear of everything.

    python examples/plan_to_shelf.py [--short] [--picture shelf.png]

The box is attached to the hand and moves with it in the plan. The picture shows the arm at several times of the motion.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from photos import photograph

import kinema as km

ARM = Path(__file__).parent / "robots/arm/arm.urdf"
BOX = np.array([0.05, 0.05, 0.12])
GRASP = 0.14
"""Distance of the middle of the box from the origin of the hand, along the z axis of the hand [m]."""
TABLE, HEIGHT = np.array([0.34, -0.34]), 0.15
"""Place and height of the table [m]."""
SHELF, BOTTOM, OPENING = np.array([0.2, 0.5]), 0.1, 0.32
"""Place of the middle of the shelf, height of its lowest board and of its compartments [m]."""
PADDING = 0.01
"""Distance that arm and box keep from everything [m]."""
WOOD, ORANGE = (0.75, 0.65, 0.5), (0.85, 0.4, 0.2)


def furnished_scene(n_arms: int) -> tuple[km.Scene, list[km.Entity], list[km.Entity]]:
    """A table, a shelf of two compartments, and arms with their boxes, all arms at the same place."""
    scene = km.Scene(quiet=True)
    scene.add(km.Plane(), name="floor")
    scene.add(km.Box((0.4, 0.4, 0.04)), fixed=True, pos=(*TABLE, HEIGHT - 0.02), color=WOOD)
    for i in range(3):
        scene.add(km.Box((0.6, 0.28, 0.02)), fixed=True, pos=(*SHELF, BOTTOM + i * OPENING), color=WOOD)
    for x in (-0.3, 0.3):
        pos = (SHELF[0] + x, SHELF[1], BOTTOM + OPENING)
        scene.add(km.Box((0.02, 0.28, 2 * OPENING)), fixed=True, pos=pos, color=WOOD)
    arms = [scene.add(ARM, fixed=True) for _ in range(n_arms)]
    boxes = [scene.add(km.Box(BOX), color=ORANGE) for _ in range(n_arms)]
    scene.build()
    return scene, arms, boxes


def set_state(arm: km.Entity, box: km.Entity, qpos: np.ndarray) -> None:
    """Put the arm at some coordinates and the box into its hand."""
    arm.set_qpos(qpos)
    hand = arm.get_link("hand_link")
    pos, (w, x, y, z) = hand.get_pos()[0], hand.get_quat()[0]
    axis = np.array([2 * (x * z + w * y), 2 * (y * z - w * x), 1 - 2 * (x * x + y * y)])
    box.set_pos(pos + GRASP * axis)
    box.set_quat((w, x, y, z))


def carry(picture: Path | None = None) -> tuple[float, float, float]:
    """Planning time [s], duration of the motion [s], and smallest distance of arm and box from the furniture [m]."""
    scene, (arm,), (box,) = furnished_scene(1)
    above = (*TABLE, HEIGHT + BOX[2] / 2 + GRASP + 2 * PADDING)
    found = arm.inverse_kinematics("hand_link", above, (0.0, 1.0, 0.0, 0.0), return_error=True)
    assert found.solved.all(), "the hand reaches the box"
    set_state(arm, box, found.qpos[0])
    inside = (SHELF[0], SHELF[1] - 0.06 - GRASP, BOTTOM + 1.5 * OPENING)
    forward = (np.sqrt(0.5), -np.sqrt(0.5), 0.0, 0.0)  # the hand points into the shelf
    (plan,) = arm.plan_path(
        link="hand_link", pos=inside, quat=forward, attached={box: "hand_link"}, padding=PADDING, return_plans=True
    )
    path = plan.trajectory.position
    furniture = [x for x in scene.entities if x not in (arm, box) and x.name != "floor"]
    distances = []
    for qpos in path[:: max(len(path) // 50, 1)]:
        set_state(arm, box, qpos)
        distances += [scene.distance(x, y, max_distance=0.2).distance[0] for x in (arm, box) for y in furniture]
    if picture:
        exposures = path[np.linspace(0, len(path) - 1, 6).astype(int)]
        shown, arms, boxes = furnished_scene(len(exposures))
        for copy, load, qpos in zip(arms, boxes, exposures, strict=True):
            set_state(copy, load, qpos)
        photograph(shown, picture, (1.6, -1.4, 1.1), (0.2, 0.0, 0.42), width=720)
    return plan.planning_time, float(plan.trajectory.time[-1]), float(np.min(distances))


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--short", action="store_true", help="the same: the example is short")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    seconds, duration, distance = carry(options.picture)
    print(f"planned in {seconds:.2f} s: a motion of {duration:.2f} s, at least {1e3 * distance:.1f} mm from everything")
    assert distance > 0.999 * PADDING, "arm and box keep their distance"
