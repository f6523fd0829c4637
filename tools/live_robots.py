"""Publish the robots that the gallery of the documentation embeds: python tools/live_robots.py [build/site/live]."""

from __future__ import annotations

import argparse
from pathlib import Path

import kinema as km

ROBOTS = Path(__file__).parents[1] / "examples" / "robots"
N_STAIRS, TREAD, RISE = 5, 0.3, 0.05


def arm() -> km.Scene:
    """The arm, with a box on the floor that it can push."""
    scene = km.Scene(precision="double", quiet=True)
    robot = scene.add(ROBOTS / "arm/arm.urdf", fixed=True)
    scene.add(km.Plane())
    scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0.5, 0.0, 0.1))
    scene.build(external_forces=True)
    pose = {"shoulder_lift_joint": 0.6, "elbow_joint": 1.0, "wrist_pitch_joint": 0.8}
    for joint, angle in pose.items():
        robot.set_dofs_position([[angle]], robot.dofs_of(joint))
    robot.control_dofs_position(robot.get_dofs_position())
    return scene


def quadruped() -> km.Scene:
    """The quadruped, dropped on stairs."""
    scene = km.Scene(precision="double", quiet=True)
    scene.add(km.Plane())
    for i in range(N_STAIRS):
        height = RISE * (i + 1)
        scene.add(km.Box((TREAD, 3.0, height)), pos=(0.1 + TREAD * i, 0.0, height / 2), fixed=True)
    robot = scene.add(ROBOTS / "quadruped/quadruped.xml")
    scene.build(external_forces=True)
    scene.reset(keyframe="home")
    q = robot.get_qpos()
    q[:, 2] += 0.3
    robot.set_qpos(q)
    return scene


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("out", type=Path, nargs="?", default=Path("build/site/live"))
    out = parser.parse_args().out
    sites = [
        km.publish(arm(), out / "arm", title="Arm"),
        km.publish(quadruped(), out / "quadruped", title="Quadruped on stairs"),
        km.publish(ROBOTS / "gripper/gripper.sdf", out / "gripper", title="Gripper with closed loops", fixed=True),
        km.publish(None, out / "walk", title="Learnt to walk", task="walk", policy=ROBOTS / "quadruped/walk.npz"),
    ]
    for site in sites:
        print(f"{site.page}: {sum(path.stat().st_size for path in site.files.values()):,} bytes")


if __name__ == "__main__":
    main()
