"""The path tracer beside Mitsuba 3: the same scenes, how far the pictures are apart.

    python tools/light.py --mitsuba PYTHON [--samples 4096] [--block 2] [--references 8] [--robot FILE]

Mitsuba runs in a Python of its own (`pip install mitsuba`). One picture of ours is held against the mean of several of
Mitsuba's (`--references`; 3, and 12 with glass, light through which Mitsuba finds by chance), each of as many samples
and with other random numbers, so that the judge has less noise than the judged; they are kept under `build/light` for
the next time. Pictures are compared in blocks of 2 x 2 pixels: the mean difference, and the 99th percentile, each
against the brightness there. How much of it is noise is seen beside it: one more picture of Mitsuba's, compared in the
same way. With `--own` it is the mean of several, of ours and of those.
Fails where a scene is beyond 2 % in the mean or 5 % at the 99th percentile.
"""

from __future__ import annotations

import argparse
import math
from pathlib import Path

import numpy as np
from mitsuba_pictures import pictures

import kinema as km
from kinema.core import Pose, rpy_to_matrix
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
    write_png,
)
from kinema.runtime import find_device
from kinema.scene import VisualEntity, build_render_scene, link_pose_arrays

BOUNCES = 12
MADE = Path(__file__).parents[1] / "build" / "light"
REFERENCES = {"glass sphere": 12}
"""Pictures of Mitsuba that are averaged, so that the judge has less noise than the judged; of other scenes three."""
MARKS = (2.0, 5.0)
"""How far pictures may be apart, in the mean and at the 99th percentile [%]."""
DARK = (0.0, 0.0, 0.0)


def display(light: tuple[float, float, float]) -> tuple[float, float, float, float]:
    """A colour of ours that reflects that much."""
    values = [12.92 * c if c <= 0.0031308 else 1.055 * c ** (1 / 2.4) - 0.055 for c in light]
    return (*values, 1.0)  # type: ignore[return-value]


def paint(*light: float) -> Surface:
    return Surface(color=display(light), specular=0.0)  # type: ignore[arg-type]


def wall(surface: Surface, position: tuple[float, ...], rpy: tuple[float, ...], half: float = 1.0) -> Instance:
    pose = Pose(np.array(position, dtype=float), rpy_to_matrix(rpy))
    return Instance(geometry=Geometry(GeometryKind.PLANE, (half, half, 0.0)), surface=surface, pose=pose)


def cornell(*inside: Instance) -> RenderScene:
    """A box of two metres with a red and a green wall, and a square lamp under its ceiling."""
    white, quarter = paint(0.73, 0.73, 0.73), math.pi / 2
    lamp = Surface(color=(0, 0, 0, 1), specular=0.0, emission=(12.0, 10.0, 7.0))
    return RenderScene(
        sky=Sky(zenith=DARK, horizon=DARK, ground=DARK),
        instances=[
            wall(white, (0, 0, -1), (0, 0, 0)),
            wall(white, (0, 0, 1), (math.pi, 0, 0)),
            wall(white, (0, 1, 0), (quarter, 0, 0)),
            wall(paint(0.63, 0.065, 0.05), (-1, 0, 0), (0, quarter, 0)),
            wall(paint(0.14, 0.45, 0.09), (1, 0, 0), (0, -quarter, 0)),
            wall(lamp, (0, 0, 0.98), (math.pi, 0, 0), 0.35),
            *inside,
        ],
    )


def ball(surface: Surface, x: float, y: float, z: float, radius: float) -> Instance:
    return Instance(
        geometry=Geometry(GeometryKind.SPHERE, (radius, 0.0, 0.0)), surface=surface, pose=Pose.translation([x, y, z])
    )


def scenes(robot: Path | None) -> dict[str, tuple[RenderScene, Camera]]:
    front = Camera(pose=look_at((0.0, -3.4, 0.0), (0.0, 0.0, 0.0)), fov=0.75)
    white, grey = paint(0.73, 0.73, 0.73), (0.8, 0.8, 0.8)
    metal = Surface(color=display((0.7, 0.7, 0.7)), metallic=1.0, roughness=0.25)
    glossy = RenderScene(
        sky=Sky(zenith=grey, horizon=grey, ground=grey),
        instances=[
            wall(metal, (0, 0, 0), (0, 0, 0), 3.0),
            ball(paint(0.6, 0.2, 0.1), -0.6, 0.0, 0.5, 0.5),
            ball(paint(0.1, 0.2, 0.6), 0.6, 0.3, 0.4, 0.4),
        ],
    )
    found = {
        "Cornell box": (cornell(ball(white, -0.4, 0.2, -0.6, 0.4), ball(white, 0.45, -0.2, -0.7, 0.3)), front),
        "glass sphere": (cornell(ball(Surface(color=(1, 1, 1, 1), ior=1.5), 0.0, 0.0, -0.45, 0.5)), front),
        "glossy floor": (glossy, Camera(pose=look_at((0.3, -3.0, 1.2), (0.0, 0.0, 0.3)), fov=0.7)),
    }
    if robot is not None:
        found["textured robot"] = textured(robot)
    return found


def textured(file: Path) -> tuple[RenderScene, Camera]:
    """A robot on a floor under an even sky, matt all over; its links as they are in the file."""
    described = km.read(file)
    poses = described.link_poses()
    names = list(poses)
    stage = build_render_scene(
        [VisualEntity(description=described, link_rows={name: i for i, name in enumerate(names)})]
    )
    for instance in stage.instances:  # into the world, so that both renderers get the same
        instance.pose = poses[names[instance.link]] @ instance.pose if instance.link >= 0 else instance.pose
        instance.link = -1
        own = instance.geometry.triangles
        for surface in [instance.surface] if instance.surface else (own.surfaces if own else []):
            surface.specular, surface.metallic = 0.0, 0.0
    stage.n_links = 0
    low, high = stage.bounds()
    middle, far = 0.5 * (low + high), float(np.linalg.norm(high - low))
    stage.instances.append(wall(paint(0.5, 0.5, 0.5), (*middle[:2], low[2]), (0, 0, 0), 3 * far))
    stage.lights, stage.sky = [], Sky(zenith=(1.0, 1.0, 1.0), horizon=(1.0, 1.0, 1.0), ground=(1.0, 1.0, 1.0))
    return stage, Camera(pose=look_at(middle + far * np.array([0.9, -1.0, 0.6]), middle), fov=0.7)


def ours(
    stage: RenderScene, camera: Camera, edge: int, samples: int, *, single: bool = False, seed: int = 1
) -> np.ndarray:
    """Our picture; `single` leaves out what facets of metal throw at each other."""
    placed = DeviceScene(stage, 1, find_device("cpu"))
    placed.update_poses(*(link_pose_arrays([[]], "cpu") if stage.n_links else (None, None)))
    tracer = PathTracer(
        placed, [camera], (edge, edge), max_bounces=BOUNCES, indirect_clamp=0.0, roulette_start=BOUNCES, seed=seed
    )
    if single:  # as if facets reflected everything at once, so that there is nothing left to come back
        table = tracer._albedo_tables.table
        alone = np.tile(np.array([1.0, 0.0], np.float32), (*table.shape, 1))
        tracer._albedo_tables.table = placed.array(alone, table.dtype)
    return tracer.trace(samples, denoise=False).radiance[0, 0]


def blocks(light: np.ndarray, edge: int) -> np.ndarray:
    """Mean brightness of squares of pixels."""
    n = light.shape[0] // edge
    return light.mean(axis=2)[: n * edge, : n * edge].reshape(n, edge, n, edge).mean(axis=(1, 3))


def apart(a: np.ndarray, b: np.ndarray) -> float:
    """The 99th percentile of how far two pictures are apart, in percent of the brightness there."""
    return 100 * float(np.percentile(np.abs(a - b) / np.maximum(b, 0.1 * b.mean()), 99))


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--mitsuba", required=True)
    parser.add_argument("--samples", type=int, default=4096)
    parser.add_argument("--edge", type=int, default=64)
    parser.add_argument("--block", type=int, nargs="*", default=[2])
    parser.add_argument("--references", type=int, help="pictures of Mitsuba that are averaged")
    parser.add_argument("--own", type=int, default=1, help="pictures of ours that are averaged")
    parser.add_argument("--robot", type=Path)
    parser.add_argument("--only", default="")
    parser.add_argument("--keep", type=Path, help="where pictures go")
    parser.add_argument("--made", type=Path, default=MADE, help="where Mitsuba's are kept for the next time")
    options = parser.parse_args()
    print("| scene | blocks | mean difference | 99th percentile | Mitsuba beside that |\n|---|---|---|---|---|")
    missed = []
    for name, (stage, camera) in scenes(options.robot).items():
        if options.only in name:
            missed += compared(name, stage, camera, options)
    if missed:
        raise SystemExit(f"beyond {MARKS[0]} % in the mean or {MARKS[1]} % at the 99th percentile: {', '.join(missed)}")


def compared(name: str, stage: RenderScene, camera: Camera, options: argparse.Namespace) -> list[str]:
    """Print the rows of one scene; what of it misses the marks."""
    edge, samples, n = options.edge, options.samples, options.references or REFERENCES.get(name, 3)
    a = np.mean([ours(stage, camera, edge, samples, seed=k) for k in range(1, options.own + 1)], axis=0)
    single = ours(stage, camera, edge, samples, single=True) if "glossy" in name else None
    made = pictures(options.mitsuba, stage, camera, BOUNCES, edge, samples, n + options.own, options.made)
    b, again = made[:n].mean(axis=0), made[n:].mean(axis=0)
    if options.keep:
        from kinema.render import tone_map

        write_png(options.keep / f"{name}.png", np.concatenate([tone_map(x, 0.8) for x in (a, b)], axis=1))
    missed = []
    for block in options.block:
        other, noise = blocks(b, block), apart(blocks(again, block), blocks(b, block))
        for light, what in ((a, name), (single, f"{name}, no light between facets")):
            if light is None:
                continue
            one = blocks(light, block)
            found = 100 * abs(one.mean() / other.mean() - 1), apart(one, other)
            missed += [what] if any(x > mark for x, mark in zip(found, MARKS, strict=True)) else []
            texts = (what, f"{block} x {block}", *(f"{x:.2f} %" for x in (*found, noise)))
            print(f"| {' | '.join(texts)} |", flush=True)
    return missed


if __name__ == "__main__":
    main()
