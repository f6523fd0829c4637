"""Cameras of many environments beside MuJoCo Warp's renderer: how fast, and how far the images are apart.

    python tools/cameras.py ROBOT.xml [--device cuda:0] [--envs 4096] [--edge 64] [--seconds 2] [--still STILL.xml]

The robot, in a different posture in each environment, stands on a floor under one lamp far away; both renderers make
colours and depth of one camera, without and with shadows, and are timed in turn, putting everything in its place
included. Then the images are compared where the two mean the same: neither gloss nor light from all around. `--still`
times one path-traced picture of a robot at 1920 x 1080 with 256 samples and denoising. Needs mujoco-warp.
"""

from __future__ import annotations

import argparse
import json
import math
import time
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import mujoco
import numpy as np

import kinema as km
from kinema.apps.bench import shortest_times
from kinema.render import (
    Camera,
    DeviceScene,
    Geometry,
    GeometryKind,
    Instance,
    LightSource,
    Renderer,
    RenderScene,
    Sky,
    Surface,
    look_at,
)
from kinema.render.geometry import TriangleMesh
from kinema.runtime import find_device, synchronise, warp
from kinema.scene import DescriptionRenderer, PictureOptions, VisualEntity, build_render_scene

EYE, TARGET, FOV = (1.15, -1.0, 0.9), (0.2, 0.0, 0.42), 0.8
SUN = (-1.0, 0.7, -1.6)
"""Where the lamp shines."""
BRIGHT = (0.9, 0.9, 0.9)
FLOOR = (0.5, 0.55, 0.6, 1.0)
DARK = (0.0, 0.0, 0.0)


class Posed:
    """A robot of MuJoCo's in many postures, and where everything is."""

    def __init__(self, file: Path, n_envs: int, *, matt: bool) -> None:
        spec = mujoco.MjSpec.from_file(str(file))
        for light in spec.lights:
            light.active = False
        spec.visual.map.zfar = 1.0e4
        floor = spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_PLANE, size=[0, 0, 1], rgba=FLOOR, name="floor")
        floor.material = ""
        light = spec.worldbody.add_light(type=mujoco.mjtLightType.mjLIGHT_DIRECTIONAL, pos=[0, 0, 3], dir=SUN)
        light.diffuse, light.ambient, light.specular, light.castshadow = BRIGHT, DARK, DARK if matt else BRIGHT, True
        pose = look_at(EYE, TARGET)
        spec.worldbody.add_camera(pos=EYE, quat=pose.quaternion, fovy=np.degrees(FOV), resolution=[64, 64])
        spec.visual.headlight.active = 0
        self.model = spec.compile()
        data = mujoco.MjData(self.model)
        draw = np.random.default_rng(0)
        names = ("xpos", "xquat", "geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir")
        rows: dict[str, list[np.ndarray]] = {name: [] for name in names}
        home = self.model.key_qpos[0] if self.model.nkey else self.model.qpos0
        low, high = self.model.jnt_range.T
        for _ in range(n_envs):
            data.qpos[:] = home
            for j in np.flatnonzero(self.model.jnt_limited):
                width = 0.15 * (high[j] - low[j])
                at = self.model.jnt_qposadr[j]
                data.qpos[at] = np.clip(data.qpos[at] + draw.uniform(-width, width), low[j], high[j])
            mujoco.mj_kinematics(self.model, data)
            mujoco.mj_comPos(self.model, data)
            mujoco.mj_camlight(self.model, data)
            for name in names:
                rows[name].append(np.array(getattr(data, name), np.float32))
        self.where = {name: np.stack(row) for name, row in rows.items()}


class Theirs:
    """MuJoCo Warp's renderer."""

    def __init__(self, posed: Posed, n_envs: int, edge: int, shadows: bool, device: str, *, matt: bool) -> None:
        import mujoco_warp as mjw  # pyright: ignore[reportMissingImports]

        self.mjw, wp = mjw, warp()
        data = mujoco.MjData(posed.model)
        mujoco.mj_forward(posed.model, data)
        with wp.ScopedDevice(device):
            self.model = mjw.put_model(posed.model)
            self.data = mjw.put_data(posed.model, data, nworld=n_envs)
            for name in ("geom_xpos", "geom_xmat", "cam_xpos", "cam_xmat", "light_xpos", "light_xdir"):
                array, values = getattr(self.data, name), posed.where[name]
                array.assign(values.reshape(n_envs, -1, *array.dtype._shape_))
            self.context = mjw.create_render_context(
                posed.model,
                nworld=n_envs,
                cam_res=(edge, edge),
                render_rgb=True,
                render_depth=True,
                use_shadows=shadows,
                shadow_light_fraction=0.0,
                enable_vertex_normals=not matt,
                enable_specular=not matt,
            )
        self.n_envs, self.edge, self.device = n_envs, edge, device

    def render(self) -> None:
        with warp().ScopedDevice(self.device):
            self.mjw.refit_bvh(self.model, self.data, self.context)
            self.mjw.render(self.model, self.data, self.context)

    def images(self) -> tuple[np.ndarray, np.ndarray]:
        shape = (self.n_envs, self.edge, self.edge)
        packed = self.context.rgb_data.numpy().reshape(shape)
        rgb = np.stack([(packed >> shift) & 255 for shift in (16, 8, 0)], axis=-1).astype(np.uint8)
        return rgb, self.context.depth_data.numpy().reshape(shape)


class Ours:
    """Kinema's, with the same places."""

    def __init__(
        self, file: Path, posed: Posed, n_envs: int, edge: int, shadows: bool, device: str, *, matt: bool
    ) -> None:
        robot = km.read(file)
        names = [mujoco.mj_id2name(posed.model, mujoco.mjtObj.mjOBJ_BODY, b) for b in range(posed.model.nbody)]
        links = {name: names.index(name) for name in robot.link_poses()}
        stage: RenderScene = build_render_scene(
            [VisualEntity(description=robot, link_rows={n: i for i, n in enumerate(links)})]
        )
        stage.instances.append(
            Instance(geometry=Geometry(GeometryKind.PLANE), surface=Surface(color=FLOOR, specular=0.0))
        )
        stage.lights = [LightSource(pose=look_at(-np.array(SUN), (0, 0, 0)), color=BRIGHT)]
        stage.sky = Sky(zenith=DARK, horizon=DARK, ground=DARK, ambient=0.0)
        if matt:
            for instance in stage.instances:
                own = instance.geometry.triangles
                if own is not None:
                    instance.geometry = Geometry(GeometryKind.MESH, triangles=flat(own))
                for surface in [instance.surface] if instance.surface else (own.surfaces if own else []):
                    surface.specular = 0.0
        self.faces = sum(len(i.geometry.triangles.faces) for i in stage.instances if i.geometry.triangles)
        self.device = find_device(device)
        self.placed = DeviceScene(stage, n_envs, self.device)
        rows = [posed.where[name][:, list(links.values())].reshape(n_envs, -1) for name in ("xpos", "xquat")]
        self.rows = [warp().array(np.ascontiguousarray(r.T), dtype=warp().float32, device=device) for r in rows]
        camera = Camera(pose=look_at(EYE, TARGET), fov=FOV)
        self.renderer = Renderer(self.placed, [camera], (edge, edge), images=("rgb", "depth"), shadows=shadows)

    def render(self) -> None:
        self.placed.update_poses(*self.rows)
        self.made = self.renderer.render()

    def images(self) -> tuple[np.ndarray, np.ndarray]:
        depth = self.made["depth"].numpy()[:, 0]
        return self.made["rgb"].numpy()[:, 0], np.where(np.isfinite(depth), depth, 0.0)


def flat(mesh: TriangleMesh) -> TriangleMesh:
    """With the normals of its faces: files without any leave it to readers what they are at vertices."""
    kept = mesh.faces.ravel()
    corners = mesh.vertices[mesh.faces]
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    normals /= np.maximum(np.linalg.norm(normals, axis=1, keepdims=True), 1e-30)
    return replace(
        mesh,
        vertices=mesh.vertices[kept],
        faces=np.arange(len(kept)).reshape(-1, 3),
        normals=np.repeat(normals, 3, axis=0),
        uvs=mesh.uvs[kept],
        colors=mesh.colors[kept],
    )


def rates(renders: dict[str, Callable[[], None]], n_images: int, seconds: float, device: str) -> dict[str, float]:
    """Images per second of each renderer in its fastest repetition; renderers alternate, on a CPU by CPU time."""
    where = find_device(device)

    def render_and_wait(render: Callable[[], None]) -> None:
        render()
        synchronise(where)

    calls = [partial(render_and_wait, render) for render in renders.values()]
    for call in calls:
        call()
    times = shortest_times(calls, seconds, time.process_time if device == "cpu" else time.perf_counter)
    return {name: n_images / took for name, took in zip(renders, times, strict=True)}


def differences(a: tuple[np.ndarray, np.ndarray], b: tuple[np.ndarray, np.ndarray]) -> dict[str, float]:
    """How far two sets of images are apart, but for pixels at edges, where a ray may meet either of two things."""
    off = np.abs(a[0].astype(int) - b[0].astype(int)).max(axis=-1)
    depth = np.abs(a[1] - b[1])
    inner = depth < 2e-3
    return {
        "pixels on edges [%]": round(100 * float((~inner).mean()), 3),
        "colours that differ by more than 1 of 255 [%]": round(100 * float((off[inner] > 1).mean()), 3),
        "colour, 99.9th percentile [of 255]": float(np.percentile(off[inner], 99.9)),
        "depth, 99.9th percentile [m]": float(f"{np.percentile(depth[inner], 99.9):.2g}"),
    }


def variants(device: str, chosen: list[str]) -> dict[str, dict[str, Any]]:
    """Ways to compile our kernel, to see which is best."""
    return {"as it is": {}} | {v: json.loads(v) for v in chosen} if device != "cpu" else {"as it is": {}}


def still(file: Path, device: str) -> None:
    robot = km.read(file)
    home = robot.link_poses()
    style = PictureOptions(resolution=(1920, 1080), pathtrace=True, samples=256, device=device)
    for turn in ("first, kernels compiled", "again"):
        began = time.perf_counter()
        image = next(DescriptionRenderer(robot, [home], style).render_frames())
        seconds = time.perf_counter() - began
        print(f"still of {file.stem}, 1920 x 1080, 256 samples, {turn}: {seconds:.2f} s", flush=True)
    assert image.shape == (1080, 1920, 3)
    from kinema.render import write_png

    write_png(Path("still.png"), image)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robot", type=Path)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--edge", type=int, default=64)
    parser.add_argument("--seconds", type=float, default=2.0)
    parser.add_argument("--variant", action="append", default=[], help="of our kernel: '{\"registers\": 64}'")
    parser.add_argument("--still", type=Path)
    parser.add_argument("--alone", action="store_true", help="without MuJoCo Warp")
    options = parser.parse_args()
    n, edge, device = options.envs, options.edge, options.device
    shiny = Posed(options.robot, n, matt=False)
    for shadows in (False, True):
        theirs = None if options.alone else Theirs(shiny, n, edge, shadows, device, matt=False)
        ours = Ours(options.robot, shiny, n, edge, shadows, device, matt=False)
        for name, changes in variants(device, options.variant).items():
            both = {"ours": changed(ours, changes)} | ({"theirs": theirs.render} if theirs else {})
            found = rates(both, n, options.seconds, device)
            speed, other = found["ours"], found.get("theirs", math.nan)
            print(
                f"{n} environments, {ours.faces:,} faces, {edge} x {edge}, {'with' if shadows else 'without'} shadows, "
                f"{name}: {speed:,.0f} images/s, MuJoCo Warp {other:,.0f}, {speed / other:.2f} times",
                flush=True,
            )
    if not options.alone:
        few = min(n, 16)
        matt = Posed(options.robot, few, matt=True)
        for shadows in (False, True):
            a = Ours(options.robot, matt, few, edge, shadows, device, matt=True)
            b = Theirs(matt, few, edge, shadows, device, matt=True)
            for renderer in (a, b):
                renderer.render()
            print("images", "with" if shadows else "without", "shadows:", differences(a.images(), b.images()))
    if options.still:
        still(options.still, device)


def changed(ours: Ours, changes: dict[str, Any]) -> Callable[[], None]:
    """Our renderer with its kernel compiled in another way."""
    from kinema.render.kernels.ray_casting import ray_casting_kernel

    kept = dict(changes)
    ours.renderer.block_size = kept.pop("block", type(ours.renderer).block_size)
    made = {"plain": ours.renderer.single_opaque_ray} | kept
    ours.renderer.kernel = ray_casting_kernel(ours.renderer.device_scene.kernel_features, **made)
    return ours.render


if __name__ == "__main__":
    main()
