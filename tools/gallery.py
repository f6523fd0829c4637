"""Pictures of robots for docs/gallery.md: path-traced in a dark studio with two soft lamps.

    python tools/gallery.py [NAME ...] [--samples 192] [--seconds 30] [--size 800x600] [--device cuda:0]

The robots are those of ../shared/assets (their licences are named in docs/gallery.md) and the examples. Noise is taken
away by Open Image Denoise where it is installed (pip install 'kinema[denoise]').
"""

from __future__ import annotations

import argparse
import math
import time
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from pathlib import Path

import numpy as np
from PIL import Image

import kinema as km
from kinema.core import Pose, rpy_to_matrix
from kinema.geometry import MeshData
from kinema.render import (
    Camera,
    DeviceScene,
    Geometry,
    GeometryKind,
    Instance,
    PathTracer,
    RenderScene,
    Sky,
    Surface,
    frame_box_pose,
    look_at,
)
from kinema.render.geometry import crease_normals
from kinema.runtime import find_device
from kinema.scene import VisualEntity, build_render_scene, link_pose_arrays

ROOT = Path(__file__).resolve().parents[1]
MJCF, URDF = ROOT.parent / "shared" / "assets" / "mjcf", ROOT.parent / "shared" / "assets" / "urdf"
EXAMPLES = ROOT / "examples" / "robots"
FOV = math.radians(30.0)
SLATE, SAND, SAGE, DUSK = (0.40, 0.43, 0.48), (0.62, 0.52, 0.42), (0.42, 0.50, 0.45), (0.36, 0.36, 0.47)
WHITEST, EXPOSURE = 0.88, 1.1
SMOOTHING_ANGLE = math.radians(60.0)
"""Dihedral angle up to which edges are shaded smooth [rad]: the shared meshes are coarse."""
UP = Pose(rotation=rpy_to_matrix((0.0, -math.pi / 2, 0.0)))


@dataclass(frozen=True, slots=True)
class Sitting:
    """One robot, and how it is shown."""

    file: Path
    posture: Mapping[str, float] = field(default_factory=dict)
    placed: Pose = field(default_factory=Pose)
    azimuth: float = -50.0
    """Where the camera stands [degrees]."""
    elevation: float = 16.0
    near: float = 0.93
    """How much nearer the camera stands than where everything fits in for sure."""
    color: tuple[float, float, float, float] | None = None
    """Paint for files that have none."""
    images: bool = True
    """Whether to show images on surfaces: those of some shared robots no longer fit meshes that were made coarser."""
    floor: tuple[float, float, float] = SLATE


def _legs(names: tuple[str, ...], **angles: float) -> dict[str, float]:
    return {f"{leg}_{joint}": angle for leg in names for joint, angle in angles.items()}


_GO2 = _legs(("FL", "FR", "RL", "RR"), thigh_joint=0.9, calf_joint=-1.8)
_FINGERS = {
    f"rh_{f}J{k}": a
    for f, s in (("FF", 0.2), ("MF", 0.9), ("RF", 1.0), ("LF", 1.0))
    for k, a in ((1, 0.6 * s), (2, 1.1 * s), (3, 0.9 * s))
}
SITTINGS = {
    "anymal": Sitting(MJCF / "anybotics_anymal_c/anymal_c.xml", azimuth=-38.0, images=False, floor=SAND),
    "cassie": Sitting(MJCF / "agility_cassie/cassie.xml", azimuth=-35.0, elevation=17.0, images=False, floor=SAGE),
    "panda": Sitting(MJCF / "franka_emika_panda/panda.xml", azimuth=-60.0, floor=DUSK),
    "talos": Sitting(MJCF / "pal_talos/talos_position.xml", azimuth=-30.0, elevation=17.0),
    "g1": Sitting(
        MJCF / "unitree_g1/g1_mjx.xml",
        {
            "left_shoulder_pitch_joint": -0.5,
            "left_shoulder_roll_joint": 1.9,
            "left_elbow_joint": 0.2,
            "right_elbow_joint": 0.7,
            "left_hip_pitch_joint": -0.3,
            "left_knee_joint": 0.55,
            "left_ankle_pitch_joint": -0.25,
            "right_hip_pitch_joint": 0.1,
            "waist_yaw_joint": 0.25,
        },
        azimuth=-25.0,
        elevation=17.0,
    ),
    "humanoid": Sitting(
        MJCF / "mujoco_humanoid/humanoid.xml",
        {
            "hip_y_right": -1.3,
            "knee_right": -1.5,
            "hip_y_left": 0.35,
            "knee_left": -0.6,
            "abdomen_y": -0.25,
            "shoulder1_right": 0.9,
            "shoulder2_right": 0.6,
            "elbow_right": -1.2,
            "shoulder1_left": -0.8,
            "shoulder2_left": -0.7,
            "elbow_left": -1.1,
        },
        azimuth=-60.0,
        elevation=17.0,
        floor=SAGE,
    ),
    "hand": Sitting(
        MJCF / "shadow_hand/right_hand.xml", _FINGERS | {"rh_THJ4": 0.9, "rh_THJ1": 0.5}, UP, azimuth=200.0
    ),
    "go2": Sitting(MJCF / "unitree_go2/go2_scene.xml", _GO2, color=(0.86, 0.87, 0.9, 1.0), azimuth=-40.0, floor=DUSK),
    "arm": Sitting(
        EXAMPLES / "arm/arm.urdf", {"shoulder_lift_joint": -0.7, "elbow_joint": 1.3, "wrist_pitch_joint": 0.8}
    ),
    "gripper": Sitting(EXAMPLES / "gripper/gripper.sdf", floor=SAND),
}


def smooth(geometry: Geometry) -> Geometry:
    """A mesh with normals that are smooth across all but sharp edges, its vertices merged by position."""
    triangles = geometry.triangles
    if triangles is None:
        return geometry
    vertices, index = np.unique(np.round(triangles.vertices, 7), axis=0, return_inverse=True)
    normals = crease_normals(MeshData(vertices, index.reshape(-1)[triangles.faces]), SMOOTHING_ANGLE)
    corners = triangles.faces.reshape(-1)
    return replace(
        geometry,
        triangles=replace(
            triangles,
            vertices=triangles.vertices[corners],
            faces=np.arange(len(corners)).reshape(-1, 3),
            normals=normals.values[normals.indices.reshape(-1)],
            uvs=triangles.uvs[corners],
            colors=triangles.colors[corners],
        ),
    )


def softbox(place: np.ndarray, target: np.ndarray, size: float, light: tuple[float, float, float]) -> Instance:
    """A square lamp that shines at something."""
    pose = look_at(place, target)
    turned = Pose(pose.position, pose.rotation @ np.diag([1.0, -1.0, -1.0]))  # its outer side is where z points
    lamp = Surface(color=(0, 0, 0, 1), specular=0.0, emission=light)
    return Instance(geometry=Geometry(GeometryKind.PLANE, (size, size, 0.0)), surface=lamp, pose=turned, entity=-1)


def repaint(stage: RenderScene, sitting: Sitting) -> None:
    """White as white paint is, and images as their mean colour where they are not to be shown."""
    own = [i.geometry.triangles.surfaces if i.geometry.triangles else [i.surface] for i in stage.instances]
    for surface in {id(s): s for surfaces in own for s in surfaces if s is not None}.values():
        red, green, blue, opacity = surface.color
        if "color" in surface.maps and not sitting.images:
            pixels = np.asarray(Image.open(surface.maps["color"].file).convert("RGB"), dtype=float) / 255.0
            red, green, blue = pixels.reshape(-1, 3).mean(axis=0)
            surface.maps = {}
        surface.color = (WHITEST * red, WHITEST * green, WHITEST * blue, opacity)


def studio(sitting: Sitting) -> tuple[RenderScene, list[Pose], Camera]:
    """The robot between its lamps, the places of its links, and the camera."""
    robot = km.read(sitting.file)
    angles = dict(robot.keyframes[0].positions) if robot.keyframes else {}
    poses = {n: sitting.placed @ p for n, p in robot.link_poses({**angles, **sitting.posture}).items()}
    stage = build_render_scene([VisualEntity(description=robot, link_rows={name: i for i, name in enumerate(poses)})])
    stage.instances = [i for i in stage.instances if not i.geometry.is_infinite]
    shared: dict[int, Geometry] = {}
    for instance in stage.instances:
        instance.geometry = shared.setdefault(id(instance.geometry), smooth(instance.geometry))
    if sitting.color is not None:
        for instance in stage.instances:
            instance.surface = Surface(color=sitting.color, roughness=0.35)
    repaint(stage, sitting)
    low, high = stage.bounds(list(poses.values()))
    middle, far = 0.5 * (low + high), float(np.linalg.norm(high - low))
    height = float(low[2]) - 1e-3 * far
    ground = Surface(name="floor", color=(*sitting.floor, 1.0), roughness=0.38, specular=0.35)
    stage.instances.append(
        Instance(
            geometry=Geometry(GeometryKind.PLANE), surface=ground, pose=Pose.translation([0.0, 0.0, height]), entity=-1
        )
    )
    turn = math.radians(sitting.azimuth)
    front, side = np.array([math.cos(turn), math.sin(turn), 0.0]), np.array([-math.sin(turn), math.cos(turn), 0.0])
    up = np.array([0.0, 0.0, 1.0])
    key = middle + far * (1.0 * front - 1.3 * side + 1.7 * up)
    rim = middle + far * (-1.5 * front + 1.1 * side + 1.3 * up)
    stage.instances += [
        softbox(key, middle, 0.55 * far, (26.0, 23.6, 20.5)),
        softbox(rim, middle, 0.40 * far, (13.0, 16.0, 21.0)),
    ]
    stage.lights = []
    stage.sky = Sky(zenith=(0.16, 0.18, 0.22), horizon=(0.10, 0.11, 0.13), ground=(0.1, 0.1, 0.1))
    view = frame_box_pose(low, high, fov=FOV, aspect=4 / 3, azimuth=turn, elevation=math.radians(sitting.elevation))
    eye = middle + sitting.near * (view.position - middle)
    focus = float(np.linalg.norm(eye - middle))
    return (
        stage,
        list(poses.values()),
        Camera(pose=look_at(eye, middle), fov=FOV, aperture=0.004 * far, focus_distance=focus),
    )


def picture(sitting: Sitting, size: tuple[int, int], options: argparse.Namespace) -> np.ndarray:
    stage, poses, camera = studio(sitting)
    placed = DeviceScene(stage, 1, find_device(options.device))
    placed.update_poses(*link_pose_arrays([poses], options.device))
    tracer = PathTracer(placed, [camera], size, max_bounces=6)
    return tracer.trace(options.samples, time_limit=options.seconds).tone_mapped(EXPOSURE)[0, 0]


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("names", nargs="*", help=f"of {', '.join(SITTINGS)}; all when none is given")
    parser.add_argument("--samples", type=int, default=192)
    parser.add_argument("--size", default="800x600")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--seconds", type=float, help="of tracing for each picture, at most")
    parser.add_argument("--folder", type=Path, default=ROOT / "docs" / "pictures" / "gallery")
    options = parser.parse_args()
    width, _, height = options.size.partition("x")
    options.folder.mkdir(parents=True, exist_ok=True)
    for name in options.names or SITTINGS:
        if not SITTINGS[name].file.exists():
            print(f"{name}: {SITTINGS[name].file} is not there")
            continue
        began = time.perf_counter()
        file = options.folder / f"{name}.webp"
        Image.fromarray(picture(SITTINGS[name], (int(width), int(height)), options)).save(file, quality=88)
        print(f"{file}: {file.stat().st_size // 1000} kB, {time.perf_counter() - began:.0f} s", flush=True)


if __name__ == "__main__":
    main()
