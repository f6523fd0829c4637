"""Rendering: images of a scene in all environments (SceneCameras), pictures of a description (DescriptionRenderer).

`SceneCameras` renders the current link poses of a built scene, all environments in one batch. `DescriptionRenderer`
renders a robot or world at given link poses without simulation, several frames of a video in one batch.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any

import numpy as np

from kinema.core import KinemaError, Pose
from kinema.description import Robot, World
from kinema.render import (
    STUDIO_EXPOSURE,
    Camera,
    DeviceScene,
    Image,
    PathTracedImages,
    PathTracer,
    Renderer,
    RenderScene,
    auto_exposure,
    frame_box_pose,
    look_at,
    set_up_studio,
    tone_map,
)
from kinema.runtime import Device, find_device, warp

from .cameras import RenderedScene, camera_link_row
from .render_scene import VisualEntity, build_render_scene, cameras_of_description
from .scene import Scene

# ------------------------------------------------------------------------------------------ cameras of a scene


class SceneCameras:
    """Cameras that render a built scene in all environments at once.

    Args:
        scene: the built scene.
        cameras: `kinema.render.Camera` objects, or names of cameras of the files; None for all cameras of the files.
            `Camera.link` is an `EntityLink`, a pair of entity and link name or index, the name of a link that no other
            entity has, or -1 for the world; with a single entity also the index of a link.
        resolution: width and height of the images [pixels]; default (64, 64).
        images: image types: `rgb`, `depth`, `normal`, `segmentation`, `flow`; see `kinema.render.Renderer`. Default
            `rgb` and `depth`.
        shadows: whether lights cast shadows; default True.
        samples: rays along each edge of a pixel, for antialiasing of `rgb`; default 1.
        per_env: what may differ between environments: `cameras` (`camera_batch`), and the surface and light parameters
            `color`, `finish`, `emission`, `lamp_color` of `kinema.render.DeviceScene`.
        kind: `visual` (default) or `collision` shapes.
    """

    def __init__(
        self,
        scene: Scene,
        cameras: Sequence[Camera | str] | None = None,
        resolution: tuple[int, int] = (64, 64),
        *,
        images: Sequence[str] = ("rgb", "depth"),
        shadows: bool = True,
        samples: int = 1,
        per_env: Sequence[str] = (),
        kind: str = "visual",
    ) -> None:
        """Build the render scene of all entities, upload it to the device and create the renderer (see the class)."""
        self.scene = scene
        self._rendered = rendered = RenderedScene(scene, kind=kind, per_env=[p for p in per_env if p != "cameras"])
        self.render_scene, self.device_scene = rendered.render_scene, rendered.device_scene
        if cameras is None:
            selected = list(rendered.file_cameras.values())
        else:
            selected = [
                rendered.file_camera(c) if isinstance(c, str) else replace(c, link=camera_link_row(scene, c))
                for c in cameras
            ]
        self.renderer = Renderer(
            self.device_scene,
            selected,
            resolution,
            images=images,
            shadows=shadows,
            samples=samples,
            per_env="cameras" in per_env,
        )
        self._cameras, self._resolution = selected, resolution

    @property
    def camera_batch(self) -> Any:
        """Camera parameters of the renderer, a `CameraBatch`."""
        return self.renderer.camera_batch

    def render(self) -> dict[str, Image]:
        """Images of the current state by type, (n_envs, n_cameras, rows, columns, ...).

        Overwritten by the next call.
        """
        self._rendered.update_poses(motion_blur=False)
        return self.renderer.render()

    def trace(self, samples: int = 64, *, motion_blur: bool = False, **options: Any) -> PathTracedImages:
        """Render the current state by path tracing.

        Args:
            samples: paths per pixel; default 64.
            motion_blur: whether the exposure lasts from the last image to now, which blurs moving objects; default
                False.
            options: options of `PathTracer.trace`.
        """
        self._rendered.update_poses(motion_blur=motion_blur)
        return PathTracer(self.device_scene, self._cameras, self._resolution).trace(samples, **options)


def link_pose_arrays(poses: Sequence[Sequence[Pose]], device: str) -> tuple[Any, Any]:
    """Link positions (3 n_links, n_envs) and quaternions (4 n_links, n_envs) for `DeviceScene.update_poses`.

    Args:
        poses: poses of all links for each environment, (n_envs, n_links).
        device: name of the device of the returned Warp arrays.
    """
    wp = warp()
    positions = np.array([[p.position for p in row] for row in poses], np.float32)
    quaternions = np.array([[p.quaternion for p in row] for row in poses], np.float32)
    rows = (np.ascontiguousarray(x.reshape(len(poses), -1).T) for x in (positions, quaternions))
    position_array, quaternion_array = (wp.array(x, dtype=wp.float32, device=device) for x in rows)
    return position_array, quaternion_array


# ----------------------------------------------------------------------------- images and videos of a description

LinkPoses = Mapping[str, Pose]
"""World poses of links by name, as returned by `link_poses` of a robot or world."""
DEFAULT_FOV = math.radians(34.0)
"""Vertical field of view of the default camera [rad]."""
FRAMES_PER_BATCH = 8
"""Frames of a video that are rendered in one batch, as environments of a render scene."""


@dataclass(frozen=True, kw_only=True, slots=True)
class PictureOptions:
    """Options of pictures of a description."""

    resolution: tuple[int, int] = (960, 720)
    """Width and height [pixels]."""
    pathtrace: bool = False
    """Path tracing instead of ray casting."""
    samples: int = 64
    """Paths per pixel; with ray casting rays per pixel, at most 16."""
    seconds: float | None = None
    """Time limit of path tracing [s]; None for none."""
    lights: str = "studio"
    """`studio` lights, or `file` for those of the description."""
    camera: str = ""
    """Name of a camera of the description; empty for a camera that frames the whole description."""
    azimuth: float = math.radians(-50.0)
    """Azimuth of the framing camera about z, from +x [rad]."""
    elevation: float = math.radians(19.0)
    """Elevation of the framing camera above the horizon [rad]."""
    kind: str = "visual"
    """`visual` or `collision` shapes."""
    device: str = "cpu"
    exposure: float | None = None
    """Exposure factor; None for that of the studio, or automatic exposure with lights of the file."""
    denoise: bool = True
    """Whether path-traced images are denoised, if Open Image Denoise is installed."""


class DescriptionRenderer:
    """Renders pictures of a robot or world at given link poses, without simulation.

    Args:
        description: the robot or world.
        poses: world poses of the links by name, one mapping per frame.
        options: resolution, camera, lights and quality.
        turntable: whether the camera makes one revolution about the description during the frames; default False.
    """

    def __init__(
        self,
        description: Robot | World,
        poses: Sequence[LinkPoses],
        options: PictureOptions,
        *,
        turntable: bool = False,
    ) -> None:
        """Build the render scene, its bounding box, studio, lights and camera; arguments: see the class."""
        if options.lights not in ("studio", "file"):
            raise KinemaError(f"lights are 'studio' or 'file', not {options.lights!r}")
        self.options, self._poses, self._turntable = options, list(poses), turntable
        if not self._poses:
            raise KinemaError("there is nothing to render: no link poses are given")
        self._link_names = list(self._poses[0])
        visual = VisualEntity(description=description, link_rows={name: i for i, name in enumerate(self._link_names)})
        self.render_scene: RenderScene = build_render_scene([visual], kind=options.kind)
        """Render scene; its `diagnostics` list shapes that are not shown."""
        if not self.render_scene.instances:
            raise KinemaError("there is nothing to render: no shape has a geometry")
        self._bounds_min, self._bounds_max = self._bounds()
        set_up_studio(
            self.render_scene,
            self._bounds_min,
            self._bounds_max,
            path_traced=options.pathtrace,
            replace_lights=options.lights == "studio",
        )
        self._camera = self._select_camera(visual)
        self._exposure = (
            STUDIO_EXPOSURE if options.exposure is None and options.lights == "studio" else options.exposure
        )

    def _ordered_poses(self, poses: LinkPoses) -> list[Pose]:
        return [poses[name] for name in self._link_names]

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        """Bounding box of the render scene over the frames (a sample of about 24): minimum, maximum [m]."""
        sampled = self._poses[:: max(1, len(self._poses) // 24)]
        boxes = [self.render_scene.bounds(self._ordered_poses(p)) for p in sampled]
        return np.min([low for low, _ in boxes], axis=0), np.max([high for _, high in boxes], axis=0)

    def _select_camera(self, visual: VisualEntity) -> Camera:
        """Camera of the description with the name in the options, else a camera that frames the whole description."""
        name = self.options.camera
        if not name:
            return Camera(name="portrait", pose=self._camera_pose(0.0), fov=DEFAULT_FOV)
        cameras = {c.name: c for c in cameras_of_description(visual.description, visual.link_rows, visual.base)}
        if name not in cameras:
            raise KinemaError(f"there is no camera {name!r}; the file has: {', '.join(cameras) or 'none'}")
        return cameras[name]

    def _camera_pose(self, angle: float) -> Pose:
        """Pose of the camera that frames the description, rotated by an angle about the vertical axis [rad].

        If the camera moves around the description (turntable), the distance is the largest that any direction needs, so
        that it stays constant.
        """
        options = self.options
        aspect = options.resolution[0] / options.resolution[1]
        low, high = self._bounds_min, self._bounds_max
        pose = frame_box_pose(
            low, high, fov=DEFAULT_FOV, aspect=aspect, azimuth=options.azimuth + angle, elevation=options.elevation
        )
        if not self._turntable:
            return pose
        center = 0.5 * (low + high)
        views = [
            frame_box_pose(low, high, fov=DEFAULT_FOV, aspect=aspect, azimuth=azimuth, elevation=options.elevation)
            for azimuth in np.linspace(0.0, np.pi, 9)
        ]
        distance = max(float(np.linalg.norm(view.position - center)) for view in views)
        direction = (pose.position - center) / np.linalg.norm(pose.position - center)
        return look_at(center + distance * direction, center)

    def render_frames(self, progress: Callable[[int, int], None] | None = None) -> Iterator[np.ndarray]:
        """Render all frames in batches and yield images, uint8 (rows, columns, 3).

        Args:
            progress: called with the amount done and the total: frames, or samples of a path-traced batch.
        """
        device, count = find_device(self.options.device), len(self._poses)
        batch_size = min(FRAMES_PER_BATCH, count)
        device_scene = DeviceScene(self.render_scene, batch_size, device)
        render_batch = (
            self._make_path_tracer(device_scene, progress)
            if self.options.pathtrace
            else self._make_ray_caster(device_scene)
        )
        for start in range(0, count, batch_size):
            frame_indices = [min(start + k, count - 1) for k in range(batch_size)]
            self._update_poses(device_scene, frame_indices, device)
            images = render_batch(self._camera_poses(frame_indices))
            yield from images[: count - start]
            if progress is not None and not self.options.pathtrace:
                progress(min(start + batch_size, count), count)

    def _update_poses(self, device_scene: DeviceScene, frame_indices: Sequence[int], device: Device) -> None:
        """Set the link poses of the given frames in the render scene, one frame per environment."""
        if not self._link_names:
            device_scene.update_poses()
            return
        device_scene.update_poses(
            *link_pose_arrays([self._ordered_poses(self._poses[n]) for n in frame_indices], device.name)
        )

    def _camera_poses(self, frame_indices: Sequence[int]) -> list[Pose]:
        """Camera pose of each given frame on a turntable; [] if the camera does not move."""
        if not self._turntable or self.options.camera:
            return []
        return [self._camera_pose(2.0 * math.pi * n / len(self._poses)) for n in frame_indices]

    def _make_ray_caster(self, device_scene: DeviceScene) -> Callable[[list[Pose]], np.ndarray]:
        """Function that ray casts one batch at given camera poses.

        It returns images, uint8 (batch, rows, columns, 3).
        """
        samples_per_edge = max(1, min(4, round(math.sqrt(self.options.samples))))
        renderer = Renderer(
            device_scene,
            [self._camera],
            self.options.resolution,
            images=("rgb",),
            samples=samples_per_edge,
            per_env=True,
        )

        def render_batch(camera_poses: list[Pose]) -> np.ndarray:
            renderer.camera_batch.set_first_camera_poses(camera_poses)
            return renderer.render()["rgb"].numpy()[:, 0].copy()

        return render_batch

    def _make_path_tracer(
        self, device_scene: DeviceScene, progress: Callable[[int, int], None] | None
    ) -> Callable[[list[Pose]], np.ndarray]:
        """Function that path traces one batch at given camera poses; it returns uint8 images (batch, rows, columns, 3).

        Automatic exposure is determined once, from the first frame.
        """
        options = self.options
        tracer = PathTracer(device_scene, [self._camera], options.resolution, per_env=True)

        def render_batch(camera_poses: list[Pose]) -> np.ndarray:
            tracer.camera_batch.set_first_camera_poses(camera_poses)
            traced = tracer.trace(
                options.samples, time_limit=options.seconds, denoise=options.denoise, progress=progress
            )
            if self._exposure is None:  # one exposure for all frames
                self._exposure = auto_exposure(traced.radiance[0, 0])
            return tone_map(traced.radiance[:, 0], self._exposure)

        return render_batch
