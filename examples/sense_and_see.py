"""Sense and see: an arm with an IMU, a force-torque sensor and a camera on its hand swings over boxes beside a lidar.

    python examples/sense_and_see.py [--picture build/sense.png] [--video build/sense.mp4] [--short]

The picture shows the scene, the lidar's map, and what the camera on the hand sees: colours, depth, entities and the
speed of the image.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np

import kinema as km
from kinema.render import write_picture

ARM = Path(__file__).parent / "robots" / "arm" / "arm.urdf"
SIZE = (280, 210)
"""Width and height of the images of the hand [pixels]."""


def room() -> km.Scene:
    """An arm on a floor, and boxes on a circle around it."""
    scene = km.Scene(contacts=False)
    scene.add(km.Plane(), color=(0.55, 0.57, 0.6))
    scene.add(ARM, fixed=True, name="arm")
    for i in range(6):
        angle = i * np.pi / 3
        pos = (0.9 * np.cos(angle), 0.9 * np.sin(angle), 0.1 + 0.03 * i)
        color = (0.9 - 0.12 * i, 0.3, 0.2 + 0.12 * i)
        scene.add(km.Box((0.2, 0.2, 0.2 + 0.06 * i)), pos=pos, euler=(0, 0, angle), color=color, fixed=True)
    return scene


def false_colors(values: np.ndarray, lower: float, upper: float) -> np.ndarray:
    """Values from lower (dark blue) to upper (yellow) as 8-bit colours."""
    x = np.clip((np.nan_to_num(values, posinf=upper) - lower) / (upper - lower), 0.0, 1.0)[..., None]
    return (255 * ((1 - x) * [0.1, 0.1, 0.4] + x * [1.0, 0.9, 0.2])).astype(np.uint8)


def lidar_map(ranges: np.ndarray, reach: float = 1.4) -> np.ndarray:
    """Hits of a level lidar from above, within its reach [m]."""
    image = np.full((SIZE[1], SIZE[0], 3), 25, np.uint8)
    angles = np.linspace(-np.pi, np.pi, len(ranges), endpoint=False)
    hits = np.isfinite(ranges)
    scale = 0.5 * SIZE[1] / reach
    columns = (0.5 * SIZE[0] + scale * ranges[hits] * np.cos(angles[hits])).astype(int)
    rows = (0.5 * SIZE[1] - scale * ranges[hits] * np.sin(angles[hits])).astype(int)
    inside = (columns >= 0) & (columns < SIZE[0]) & (rows >= 0) & (rows < SIZE[1])
    image[rows[inside], columns[inside]] = (120, 255, 140)
    return image


def main() -> None:
    """Add sensors and cameras, swing the arm, print readings, and write the picture and the video."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--picture", type=Path, help="file of the picture")
    parser.add_argument("--video", type=Path, help="file of a video of the swing")
    parser.add_argument("--short", action="store_true", help="a short swing")
    arguments = parser.parse_args()

    scene = room()
    arm = scene.get_entity("arm")
    hand = arm.get_link("hand_link")
    imu = scene.add_sensor(km.Imu(link=hand, noise={"angular_velocity": 0.002}))
    wrist = scene.add_sensor(km.ForceTorque(link=hand))
    lidar = scene.add_sensor(km.Lidar(pos=(0.3, 0.3, 0.15), n_rays=720, angle=2 * np.pi * 719 / 720))
    wide = scene.add_camera(pos=(1.7, -1.3, 1.3), lookat=(0.1, 0, 0.25), res=SIZE, samples=3)
    on_hand = scene.add_camera(
        link=hand, pos=(0.12, 0, 0), lookat=(0.12, 0, 1), up=(-1, 0, 0), fov=1.1, res=SIZE, samples=2
    )
    scene.build()
    target = arm.get_dofs_position()
    target[:, arm.dofs_of("shoulder_lift_joint", "elbow_joint", "wrist_pitch_joint")] = (-0.5, 1.6, 1.0)
    arm.control_dofs_position(target)
    recording = scene.record(arguments.video, camera=wide) if arguments.video else None
    scene.step(300)
    target[:, 0] = 1.2
    arm.control_dofs_position(target)
    scene.step(20 if arguments.short else 120)
    on_hand.read("flow")
    scene.step(5)
    images = {name: image[0] for name, image in on_hand.read().items()}
    if recording is not None:
        recording.close()

    rates, force = imu.read("angular_velocity")[0], wrist.read("force")[0]
    ranges = lidar.read()[0]
    print(f"the hand turns at {np.linalg.norm(rates):.2f} rad/s, its wrist carries {np.linalg.norm(force):.2f} N")
    print(f"{np.isfinite(ranges).mean():.0%} of the lidar's rays hit something, the nearest at {ranges.min():.2f} m")
    assert np.linalg.norm(rates) > 0.05, "the hand turns"
    assert 0.0 < ranges.min() < 1.0, "the lidar sees the boxes"
    assert np.abs(images["flow"]).max() > 0.1, "the image moves"
    if arguments.picture:
        labels = false_colors(images["segmentation"][..., 0], -1, len(scene.entities))
        speed = np.linalg.norm(images["flow"], axis=-1)
        rows = [
            [wide.read("rgb")[0], images["rgb"], false_colors(images["depth"], 0.2, 2.5)],
            [lidar_map(ranges), labels, false_colors(speed, 0.0, float(speed.max()))],
        ]
        write_picture(arguments.picture, np.concatenate([np.concatenate(row, axis=1) for row in rows], axis=0))


if __name__ == "__main__":
    main()
