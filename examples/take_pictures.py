"""Take pictures: a sheet of four robots with all the light there is, and a film of an arm.

    python examples/take_pictures.py [--folder build/demo] [--samples 24] [--size 400x300] [--device cpu] [FILE...]

Three robots are the examples in URDF, SDFormat and MJCF; the fourth, a rover of metal, rubber and glass, is made here.
Other files may be given instead.
"""

from __future__ import annotations

import argparse
import math
import time
from pathlib import Path

import numpy as np

import kinema as km
from kinema.apps.animation import sweep_link_poses
from kinema.core import Pose, rpy_to_matrix
from kinema.description import (
    Box,
    Capsule,
    Cylinder,
    Joint,
    JointKind,
    Link,
    Robot,
    Shape,
    Sphere,
    VisualMaterial,
    World,
)
from kinema.render import can_write_mp4, write_png, write_video
from kinema.scene import DescriptionRenderer, PictureOptions

ROBOTS = Path(__file__).parent / "robots"
FILES = [ROBOTS / "arm" / "arm.urdf", ROBOTS / "gripper" / "gripper.sdf", ROBOTS / "quadruped" / "quadruped.xml"]
ARM = {"shoulder_lift_joint": -0.7, "elbow_joint": 1.3, "wrist_pitch_joint": 0.8}
GAP = 6
"""Pixels between the pictures of a sheet."""


def rover() -> Robot:
    """Four wheels, a body of brushed metal, a mast with a camera, a glass dome."""
    orange = VisualMaterial(name="orange", color=(0.95, 0.42, 0.08, 1.0), roughness=0.35)
    steel = VisualMaterial(name="steel", color=(0.80, 0.81, 0.84, 1.0), metallic=1.0, roughness=0.28)
    rubber = VisualMaterial(name="rubber", color=(0.08, 0.08, 0.09, 1.0), roughness=0.85)
    glass = VisualMaterial(name="glass", color=(0.95, 0.98, 1.0, 0.1), roughness=0.02)
    brass = VisualMaterial(name="brass", color=(0.86, 0.68, 0.32, 1.0), metallic=1.0, roughness=0.3)

    def shape(geometry, x=0.0, y=0.0, z=0.0, rpy=(0.0, 0.0, 0.0), material=steel) -> Shape:
        return Shape(geometry=geometry, pose=Pose(np.array([x, y, z]), rpy_to_matrix(rpy)), material=material)

    body = Link(
        name="body",
        shapes=[
            shape(Box(np.array([0.62, 0.34, 0.10])), z=0.19),
            shape(Box(np.array([0.50, 0.30, 0.06])), x=-0.02, z=0.27, material=orange),
            shape(Cylinder(0.016, 0.30), x=0.20, z=0.44),
            shape(Box(np.array([0.07, 0.15, 0.06])), x=0.21, z=0.60, material=orange),
            shape(Cylinder(0.022, 0.03), x=0.255, y=0.035, z=0.60, rpy=(0, math.pi / 2, 0), material=rubber),
            shape(Cylinder(0.022, 0.03), x=0.255, y=-0.035, z=0.60, rpy=(0, math.pi / 2, 0), material=rubber),
            shape(Sphere(0.085), x=-0.10, z=0.385, material=glass),
            shape(Sphere(0.032), x=-0.10, z=0.34, material=brass),
            shape(Cylinder(0.06, 0.02), x=-0.10, z=0.305, material=brass),
            shape(Capsule(0.006, 0.22), x=-0.26, y=0.12, z=0.40, material=rubber),
        ],
    )
    links, joints = [body], []
    for x in (-0.22, 0.22):
        for side in (-1.0, 1.0):
            name = f"{'front' if x > 0 else 'rear'} {'left' if side > 0 else 'right'} wheel"
            wheel = Link(
                name=name,
                shapes=[
                    shape(Cylinder(0.12, 0.08), rpy=(math.pi / 2, 0, 0), material=rubber),
                    shape(Cylinder(0.075, 0.084), rpy=(math.pi / 2, 0, 0)),
                    shape(Cylinder(0.03, 0.09), rpy=(math.pi / 2, 0, 0), material=brass),
                ],
            )
            place = Pose.translation([x, 0.23 * side, 0.12])
            joints.append(
                Joint(name=f"{name} axle", kind=JointKind.FIXED, parent="body", child=name, parent_pose=place)
            )
            links.append(wheel)
    return Robot(name="rover", links=links, joints=joints)


def posed(robot: Robot | World) -> dict:
    """Where its file shows it; arms that stand straight are bent."""
    known = {joint.name for joint in robot.joints}
    if robot.keyframes:
        return dict(robot.keyframes[0].positions)
    return {name: value for name, value in ARM.items() if name in known}


def sheet(robots: list[Robot | World], style: PictureOptions) -> np.ndarray:
    """The robots side by side, two in a row."""
    images = []
    for robot in robots:
        began = time.perf_counter()
        portrait = DescriptionRenderer(robot, [robot.link_poses(posed(robot))], style)
        images.append(next(portrait.render_frames()))
        print(f"  {robot.name}: {time.perf_counter() - began:.1f} s")
    if len(images) % 2:
        images.append(np.full_like(images[0], 255))
    rows, columns, _ = images[0].shape
    lines = len(images) // 2
    page = np.full((lines * rows + (lines - 1) * GAP, 2 * columns + GAP, 3), 255, np.uint8)
    for number, image in enumerate(images):
        top, left = number // 2 * (rows + GAP), number % 2 * (columns + GAP)
        page[top : top + rows, left : left + columns] = image
    return page


def pixels(text: str) -> tuple[int, int]:
    """Width and height of a text like 400x300."""
    width, height = text.split("x")
    return int(width), int(height)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("files", nargs="*", type=Path)
    parser.add_argument("--folder", type=Path, default=Path("build/demo"))
    parser.add_argument("--samples", type=int, default=24)
    parser.add_argument("--size", type=pixels, default=(400, 300), help="of each picture")
    parser.add_argument("--film", type=pixels, default=(320, 240), help="size of the film")
    parser.add_argument("--seconds", type=float, default=5.0)
    parser.add_argument("--budget", type=float, help="seconds for each picture")
    parser.add_argument("--device", default="auto")
    options = parser.parse_args()
    robots = [km.read(file) for file in options.files or FILES] + ([] if options.files else [rover()])
    rate = 20.0
    arm = robots[0]
    poses = sweep_link_poses(arm, posed(arm), round(options.seconds * rate))
    film = options.folder / ("arm.mp4" if can_write_mp4() else "arm.apng")
    quick = PictureOptions(resolution=options.film, samples=4, device=options.device)
    count = write_video(film, DescriptionRenderer(arm, poses, quick).render_frames(), rate)
    print(f"{film}: {count} pictures, {count / rate:g} s")
    style = PictureOptions(
        resolution=options.size, pathtrace=True, samples=options.samples, seconds=options.budget, device=options.device
    )
    page = options.folder / "robots.png"
    write_png(page, sheet(robots, style))
    print(f"{page}: {len(robots)} robots")


if __name__ == "__main__":
    main()
