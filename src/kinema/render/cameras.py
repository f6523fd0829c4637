"""Cameras (pinhole, fisheye, orthographic), their poses, and batches of cameras on a device."""

from __future__ import annotations

import enum
from collections.abc import Sequence
from dataclasses import dataclass, field
from numbers import Real
from typing import Any

import numpy as np

from kinema.core import Array, ArrayLike, KinemaError, Pose, float64_array
from kinema.runtime import warp

from .device_scene import DeviceScene
from .render_scene import WORLD


class Projection(enum.StrEnum):
    """Camera projection, in the order of the kernel constants."""

    PINHOLE = "pinhole"
    FISHEYE = "fisheye"
    """Equidistant fisheye: the distance from the principal point is proportional to the angle."""
    ORTHOGRAPHIC = "orthographic"


@dataclass(kw_only=True, eq=False)
class Camera:
    """A camera that looks along -z of its frame with +y up."""

    name: str = ""
    link: Any = WORLD
    """Link that carries the camera: -1 for the world, its row in the poses of a render scene, or for the cameras of a
    simulated scene a link of an entity (`kinema.scene.SceneCameras`)."""
    pose: Pose = field(default_factory=Pose)
    """Pose in the frame of the link or the world."""
    projection: Projection | str = Projection.PINHOLE
    fov: float = 0.785398163397
    """Vertical field of view [rad]."""
    orthographic_height: float = 1.0
    """Height of the view volume of an orthographic camera [m]."""
    intrinsics: tuple[float, float, float, float] | None = None
    """Focal lengths in x and y and principal point [pixels]; None to derive them from the field of view."""
    aperture: float = 0.0
    """Lens radius [m]; depth of field in the path tracer if positive."""
    focus_distance: float = 1.0
    """Distance of the focal plane [m]."""
    clip_range: tuple[float, float] = (1e-3, 1e4)
    """Near and far clipping distance along the ray [m]."""

    def pixel_intrinsics(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Focal lengths (x, y) and principal point (x, y) [pixels] for the given image size."""
        if self.intrinsics is not None:
            return self.intrinsics
        self.check_field_of_view()
        projection = parse_projection(self.projection)
        if projection is Projection.ORTHOGRAPHIC:
            focal = height / self.orthographic_height
        elif projection is Projection.FISHEYE:
            focal = height / self.fov
        else:
            focal = 0.5 * height / np.tan(0.5 * self.fov)
        return focal, focal, 0.5 * width, 0.5 * height

    def check_field_of_view(self) -> None:
        """Raise `KinemaError` unless the field of view of a pinhole camera is between 0 and pi."""
        if parse_projection(self.projection) is not Projection.PINHOLE or self.intrinsics is not None:
            return
        if not isinstance(self.fov, Real) or not 0.0 < float(self.fov) < np.pi:
            camera = f"camera {self.name!r}" if self.name else "camera"
            raise KinemaError(f"{camera}: the field of view must be between 0 and pi, got {self.fov!r} rad")


def parse_projection(name: Projection | str) -> Projection:
    """Projection of the given name; `KinemaError` for an unknown name."""
    try:
        return Projection(name)
    except ValueError:
        names = ", ".join(p.value for p in Projection)
        raise KinemaError(f"unknown camera projection {name!r}; supported are {names}") from None


def look_at(eye: ArrayLike, target: ArrayLike, up: ArrayLike = (0.0, 0.0, 1.0)) -> Pose:
    """Pose of a camera at `eye` whose optical axis passes through `target`; `KinemaError` if they coincide."""
    position = float64_array(eye)
    back = position - float64_array(target)
    length = float(np.linalg.norm(back))
    if not length > 0.0:
        raise KinemaError("the eye and the target of a camera must differ")
    back = back / length
    right = np.cross(float64_array(up), back)
    if np.linalg.norm(right) < 1e-9:  # looking along the up axis
        right = np.cross([0.0, 1.0, 0.0], back)
    right = right / np.linalg.norm(right)
    return Pose(position, np.column_stack([right, np.cross(back, right), back]))


def frame_box_pose(lower: Array, upper: Array, *, fov: float, aspect: float, azimuth: float, elevation: float) -> Pose:
    """Pose of a pinhole camera that looks at the centre of a box and shows all of it with a margin of 8 %.

    Args:
        lower: lower corner of the box [m].
        upper: upper corner of the box [m].
        fov: vertical field of view [rad].
        aspect: image width over height.
        azimuth: angle of the camera about z from +x [rad].
        elevation: angle of the camera above the horizon [rad].
    """
    center = 0.5 * (lower + upper)
    direction = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    rotation = look_at(center + direction, center).rotation
    corners = np.array(np.meshgrid(*zip(lower - center, upper - center, strict=True), indexing="ij")).reshape(3, -1).T
    camera_corners = corners @ rotation
    tan_half = np.tan(0.5 * fov)
    distances = (
        np.maximum(np.abs(camera_corners[:, 1]) / tan_half, np.abs(camera_corners[:, 0]) / (tan_half * aspect))
        + camera_corners[:, 2]
    )
    return look_at(center + direction * 1.08 * max(float(distances.max()), 1e-3), center)


# Camera batches -------------------------------------------------------------------------------------------------------

MAX_PIXELS = 2**31 - 1
"""Maximum number of pixels of all images, which kernels index with 32 bits."""


class CameraBatch:
    """Cameras of all environments on a device, with images of equal size.

    Args:
        device_scene: scene to render.
        cameras: cameras fixed in the world or on links.
        resolution: width and height of the images [pixels].
        per_env: whether intrinsics and mounting poses may differ between environments.
    """

    def __init__(
        self,
        device_scene: DeviceScene,
        cameras: Sequence[Camera],
        resolution: tuple[int, int],
        *,
        per_env: bool = False,
    ) -> None:
        """Validate the cameras and allocate their device arrays (intrinsics, mounts, world poses)."""
        from .kernels.structs import CameraArrays

        if not cameras:
            raise KinemaError("at least one camera is required")
        width, height = (int(n) for n in resolution)
        if width < 1 or height < 1:
            raise KinemaError(f"invalid image size of {width} x {height} pixels")
        for camera in cameras:
            if not -1 <= camera.link < device_scene.render_scene.n_links:
                raise KinemaError(f"camera {camera.name!r}: link index {camera.link} is out of range")
        self.device_scene, self.cameras, self.width, self.height = device_scene, list(cameras), width, height
        wp, n, n_envs = warp(), len(cameras), device_scene.n_envs
        self._n_rows = n_envs if per_env else 1
        self._mounts = device_scene.make_mounts([(c.link, c.pose) for c in cameras])
        if per_env:
            for name in ("position", "rotation"):
                array = getattr(self._mounts, name)
                setattr(self._mounts, name, device_scene.array(np.repeat(array.numpy(), n_envs, axis=0), array.dtype))
        view = CameraArrays()
        view.width, view.height, view.n_cameras, view.n_envs, view.first_env = width, height, n, n_envs, 0
        projections = [list(Projection).index(parse_projection(c.projection)) for c in cameras]
        view.kind = device_scene.array(projections, wp.int32)
        view.position, view.previous_position = (device_scene.zeros((n, n_envs), wp.vec3) for _ in range(2))
        view.rotation, view.previous_rotation = (device_scene.zeros((n, n_envs), wp.vec4) for _ in range(2))
        view.intrinsics = self._per_env_array([c.pixel_intrinsics(width, height) for c in cameras], wp.vec4)
        view.aperture = self._per_env_array([(c.aperture, c.focus_distance) for c in cameras], wp.vec2)
        view.clip_range = self._per_env_array([c.clip_range for c in cameras], wp.vec2)
        self.view = view
        if self.n_pixels > MAX_PIXELS:
            raise KinemaError(f"{self.n_pixels:,} pixels exceed the maximum of {MAX_PIXELS:,}")
        self._has_poses = False

    def _per_env_array(self, values: Sequence[Any], dtype: Any) -> Any:
        return self.device_scene.array(np.repeat(np.array([values], np.float32), self._n_rows, axis=0), dtype)

    @property
    def n_pixels(self) -> int:
        """Number of pixels of all images."""
        return self.width * self.height * len(self.cameras) * self.device_scene.n_envs

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Numbers of environments, cameras, rows and columns."""
        return self.device_scene.n_envs, len(self.cameras), self.height, self.width

    @property
    def intrinsics(self) -> Any:
        """Focal lengths and principal points [pixels]: writable Warp array (n_envs or 1, n_cameras) of vec4."""
        return self.view.intrinsics

    @property
    def mounts(self) -> Any:
        """Poses of the cameras on their links: struct of writable Warp arrays `position` and `rotation`."""
        return self._mounts

    def set_first_camera_poses(self, poses: Sequence[Pose]) -> None:
        """Set the mounting pose of the first camera in each environment; an empty sequence changes nothing."""
        if not poses:
            return
        position, rotation = self._mounts.position.numpy(), self._mounts.rotation.numpy()
        position[:, 0] = [pose.position for pose in poses]
        rotation[:, 0] = [pose.quaternion for pose in poses]
        self._mounts.position.assign(position)
        self._mounts.rotation.assign(rotation)

    def update_poses(self) -> None:
        """Update world poses of the cameras from the current link poses and keep the previous ones for optical flow."""
        view, wp = self.view, warp()
        view.position, view.previous_position = view.previous_position, view.position
        view.rotation, view.previous_rotation = view.previous_rotation, view.rotation
        self.device_scene.compute_world_poses(self._mounts, len(self.cameras), view.position, view.rotation)
        if not self._has_poses:
            wp.copy(view.previous_position, view.position)
            wp.copy(view.previous_rotation, view.rotation)
        self._has_poses = True
