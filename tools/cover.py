"""The cover picture of README.md: robots in one simulated scene, path-traced.

    python tools/cover.py [--samples 256] [--size 1600x640] [--device cuda:0] [--out docs/pictures/cover.jpg]

ANYmal C stands on stairs, a Panda on a table reaches for objects that have fallen there, and a Shadow Hand holds a
ball. All of it is simulated for two seconds with contacts; the picture shows the last state. The robots are those of
../shared/assets (licences: docs/gallery.md).
"""

from __future__ import annotations

import argparse
import math
import tempfile
import time
from pathlib import Path

import numpy as np
from gallery import smooth, softbox
from PIL import Image

import kinema as km
from kinema.core import Pose, axis_angle_to_matrix, quaternion_to_matrix
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
    look_at,
)
from kinema.render.geometry import TriangleMesh
from kinema.render.surfaces import TextureMap
from kinema.runtime import find_device
from kinema.scene import VisualEntity, build_render_scene, link_pose_arrays

ROOT = Path(__file__).resolve().parents[1]
MJCF = ROOT.parent / "shared" / "assets" / "mjcf"
TABLE, STEP_HEIGHT, STEP_DEPTH = 0.62, 0.08, 0.40
PANDA = [-0.25, 0.45, -0.1, -1.95, 0.1, 2.45, 0.75, 0.04, 0.04]
SECONDS = 2.0
EYE, TARGET, FOV = (0.70, -4.5, 1.60), (-0.10, 0.0, 0.56), math.radians(20.5)
GRASP = {f"rh_A_{f}J{k}": a for f in ("FF", "MF", "RF", "LF") for k, a in ((3, 0.75), (0, 1.3))}
GRASP |= {"rh_A_THJ5": 0.5, "rh_A_THJ4": 1.15, "rh_A_THJ2": 0.3, "rh_A_THJ1": 0.6}
OBJECTS = (
    (km.Box((0.065, 0.065, 0.065)), (0.09, 0.32, 0.62)),
    (km.Box((0.065, 0.065, 0.065)), (0.82, 0.28, 0.12)),
    (km.Box((0.10, 0.06, 0.05)), (0.88, 0.66, 0.18)),
    (km.Sphere(0.04), (0.72, 0.10, 0.14)),
    (km.Sphere(0.033), (0.13, 0.48, 0.33)),
    (km.Cylinder(0.032, 0.10), (0.9, 0.9, 0.88)),
    (km.Cylinder(0.032, 0.10), (0.12, 0.15, 0.2)),
    (km.Capsule(0.026, 0.09), (0.45, 0.22, 0.55)),
)


HAND = Pose.translation([1.40, -0.85, 0.84]) @ Pose(rotation=axis_angle_to_matrix((0, 0, 1), 2.7))


def simulated_entities() -> list:
    """The entities to be drawn, of a scene that was simulated for `SECONDS`."""
    scene = km.Scene(dt=0.002, precision="double", quiet=True)
    scene.add(km.Plane(), name="floor")
    fixed = {"table": ((1.05, 1.0, 0.05), (0.42, 0.0, TABLE - 0.025))}
    for k, (x, y) in enumerate(((-0.05, -0.44), (-0.05, 0.44), (0.89, -0.44), (0.89, 0.44))):
        fixed[f"leg {k}"] = (0.05, 0.05, TABLE - 0.05), (x, y, TABLE / 2 - 0.025)
    for k in range(3):
        height = STEP_HEIGHT * (k + 1)
        fixed[f"step {k}"] = (STEP_DEPTH, 1.3, height), (-1.62 + STEP_DEPTH * k, 0.15, height / 2)
    fixed["stand"] = (0.16, 0.16, 0.765), (*(HAND.position[:2] + 0.1 * HAND.rotation[:2, 0]), 0.3825)
    drawn = [scene.add(km.Box(size), fixed=True, pos=place, name=name) for name, (size, place) in fixed.items()]
    panda = scene.add(MJCF / "franka_emika_panda/panda.xml", pos=(0.12, 0.1, TABLE), name="panda")
    anymal = scene.add(
        MJCF / "anybotics_anymal_c/anymal_c.xml", pos=(-1.22, 0.15, 0.76), euler=(0, -0.20, 0), name="anymal"
    )
    hand = scene.add(MJCF / "shadow_hand/right_hand.xml", pos=HAND.position, euler=(0, 0, 2.7), name="hand")
    rng, objects = np.random.default_rng(5), []
    for k, (shape, color) in enumerate(OBJECTS):
        place = (0.55 + 0.3 * rng.uniform(), -0.38 + 0.42 * rng.uniform(), TABLE + 0.08 + 0.09 * k)
        tilt = tuple(rng.uniform(-0.6, 0.6, 3))
        objects.append(scene.add(shape, pos=place, euler=tilt, density=500, name=f"object {k}", color=color))
    place = HAND @ Pose.translation([0.335, -0.005, 0.065])
    ball = scene.add(km.Sphere(0.036), pos=place.position, name="ball", density=300, color=(0.85, 0.42, 0.06))
    scene.build()
    panda.set_qpos(PANDA)
    panda.control_dofs_position(PANDA)
    legs = anymal.dofs_of(*(f"{leg}_{joint}" for leg in ("LF", "RF", "LH", "RH") for joint in ("HAA", "HFE", "KFE")))
    anymal.set_dofs_kp(600.0, legs)
    anymal.set_dofs_kv(20.0, legs)
    anymal.control_dofs_position(np.zeros(len(legs)), legs)
    hand.control([GRASP.get(name, 0.0) for name in hand.actuator_names])
    scene.step(int(SECONDS / scene.dt))
    return [*drawn, panda, anymal, hand, *objects, ball]


def wood(folder: Path) -> Path:
    """Texture of wooden boards."""
    rng, (h, w) = np.random.default_rng(3), (768, 768)
    y, x = np.mgrid[0:h, 0:w] / h
    board = np.floor(y * 7).astype(int)
    phase, shade = rng.uniform(0, 10, 8)[board], rng.uniform(-1, 1, 8)[board]
    rings = np.sin(30 * (y * 7 % 1) + 2.5 * np.sin(2.2 * x + phase) + 6 * phase) * 0.5 + 0.5
    fibres = np.repeat(rng.normal(size=(h, w // 24)), 24, axis=1)
    tone = (0.78 + 0.10 * rings + 0.025 * fibres + 0.09 * shade) * np.where((y * 7 % 1) < 0.015, 0.55, 1.0)
    pixels = np.clip(tone[..., None] * np.array([0.80, 0.62, 0.43]) * 255, 0, 255).astype(np.uint8)
    Image.fromarray(pixels).save(folder / "wood.png")
    return folder / "wood.png"


def stage_of(entities: list, folder: Path) -> tuple[RenderScene, list[Pose]]:
    """Everything to be drawn, with lights and a floor, and the poses of its links."""
    visuals, poses = [], []
    for entity in entities:
        description = entity.description_for_env(0)
        names = [link.name for link in entity.links]
        positions, quaternions = entity.get_links_pos()[0], entity.get_links_quat()[0]
        visuals.append(
            VisualEntity(
                description=description, pose=Pose(positions[0], quaternion_to_matrix(quaternions[0])),
                link_rows={name: len(poses) + i for i, name in enumerate(names)},
            )
        )  # fmt: skip
        poses += [Pose(p, quaternion_to_matrix(q)) for p, q in zip(positions, quaternions, strict=True)]
    stage = build_render_scene(visuals)
    stage.instances = [i for i in stage.instances if not i.geometry.is_infinite]
    shared: dict[int, Geometry] = {}
    for instance in stage.instances:
        instance.geometry = shared.setdefault(id(instance.geometry), smooth(instance.geometry))
    dress(stage, [entity.name for entity in entities], wood(folder))
    return stage, poses


def dress(stage: RenderScene, names: list[str], texture: Path) -> None:
    """Materials of the furniture, paint that is not quite white, a floor and lamps."""
    boards = TextureMap(file=str(texture))
    table = Surface(name="wood", color=(1, 1, 1, 1), roughness=0.35, clearcoat=0.3, maps={"color": boards})
    metal = Surface(name="steel", color=(0.32, 0.33, 0.35, 1), metallic=1.0, roughness=0.35)
    concrete = Surface(name="concrete", color=(0.60, 0.59, 0.57, 1), roughness=0.8)
    furniture = {"table": table, "leg": metal, "stand": concrete, "step": concrete}
    for instance in stage.instances:
        kind = names[instance.entity].split()[0]
        if kind in furniture:
            instance.surface = furniture[kind]
        elif kind in ("object", "ball") and instance.surface is not None:
            instance.surface.roughness, instance.surface.clearcoat = 0.35, 0.4
        if kind == "table":
            instance.geometry = textured_box(instance.geometry.size)
        own = instance.geometry.triangles.surfaces if instance.geometry.triangles else []
        for surface in {id(x): x for x in (*own, instance.surface) if x is not None}.values():
            if kind == "anymal" and "color" in surface.maps:  # images of the original meshes do not fit the coarse ones
                pixels = np.asarray(Image.open(surface.maps["color"].file).convert("RGB"), dtype=float) / 255.0
                surface.color, surface.maps = (*pixels.reshape(-1, 3).mean(axis=0), 1.0), {}
            red, green, blue, opacity = surface.color
            surface.color = (min(red, 0.86), min(green, 0.86), min(blue, 0.86), opacity)
    floor = Surface(name="floor", color=(0.47, 0.49, 0.52, 1.0), roughness=0.32, specular=0.35)
    stage.instances.append(Instance(geometry=Geometry(GeometryKind.PLANE), surface=floor, entity=-1))
    target = np.array([0.0, 0.0, 0.5])
    stage.instances += [
        softbox(np.array([1.8, -3.6, 4.0]), target, 1.1, (19.0, 17.2, 15.0)),
        softbox(np.array([-4.4, -1.5, 3.2]), target, 0.9, (9.0, 10.5, 13.0)),
        softbox(np.array([0.5, 4.6, 3.4]), target, 0.9, (11.0, 12.5, 15.0)),
    ]
    stage.lights = []
    stage.sky = Sky(zenith=(0.20, 0.22, 0.26), horizon=(0.13, 0.14, 0.17), ground=(0.1, 0.1, 0.1))


def textured_box(half: tuple[float, float, float]) -> Geometry:
    """A box as a mesh whose texture covers every face."""
    corners, faces, uvs, normals = [], [], [], []
    for axis in range(3):
        u, v = np.eye(3)[(axis + 1) % 3], np.eye(3)[(axis + 2) % 3]
        for sign in (-1.0, 1.0):
            normal, start = sign * np.eye(3)[axis], len(corners)
            for a, b in ((-1, -1), (1, -1), (1, 1), (-1, 1)):
                corners.append((normal + a * u + b * sign * v) * half)
                uvs.append(((a + 1) / 2, (b + 1) / 2))
                normals.append(normal)
            faces += [(start, start + 1, start + 2), (start, start + 2, start + 3)]
    return Geometry(
        GeometryKind.MESH,
        triangles=TriangleMesh(
            np.array(corners), np.array(faces), np.array(normals), np.array(uvs), np.ones((len(corners), 4))
        ),
    )


def main() -> None:
    """Simulate, trace and save the picture."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--samples", type=int, default=256)
    parser.add_argument("--size", default="1600x640")
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--out", type=Path, default=ROOT / "docs" / "pictures" / "cover.jpg")
    options = parser.parse_args()
    width, _, height = options.size.partition("x")
    began = time.perf_counter()
    entities = simulated_entities()
    with tempfile.TemporaryDirectory() as folder:
        stage, poses = stage_of(entities, Path(folder))
        placed = DeviceScene(stage, 1, find_device(options.device))
        placed.update_poses(*link_pose_arrays([poses], options.device))
        camera = Camera(pose=look_at(EYE, TARGET), fov=FOV, aperture=0.006, focus_distance=math.dist(EYE, TARGET))
        image = PathTracer(placed, [camera], (int(width), int(height)), max_bounces=6).trace(options.samples)
    Image.fromarray(image.tone_mapped(1.0)[0, 0]).save(options.out, quality=92)
    print(f"{options.out}: {options.out.stat().st_size // 1000} kB, {time.perf_counter() - began:.0f} s")


if __name__ == "__main__":
    main()
