"""Cameras on a device: what renderers share."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.backend import warp
from kinema.foundation import KinemaError, Pose

from .cameras import Camera, Projection, projection_of
from .placed import Placed

MOST_PIXELS = 2**31 - 1
"""Of all images together: kernels count them in 32 bits."""


class Viewing:
    """Cameras in all environments, with images of one size.

    Args:
        placed: what they see.
        cameras: fixed, or on links.
        resolution: width and height of the images [pixels].
        per_env: whether lenses and places of cameras may differ between environments.
    """

    def __init__(
        self, placed: Placed, cameras: Sequence[Camera], resolution: tuple[int, int], *, per_env: bool = False
    ) -> None:
        from .kernels.records import View

        if not cameras:
            raise KinemaError("there is no camera")
        width, height = (int(n) for n in resolution)
        if width < 1 or height < 1:
            raise KinemaError(f"an image of {width} x {height} pixels cannot be made")
        for camera in cameras:
            if not -1 <= camera.link < placed.stage.n_links:
                raise KinemaError(f"camera {camera.name!r}: there is no link {camera.link}")
        self.placed, self.cameras, self.width, self.height = placed, list(cameras), width, height
        wp, n, n_envs = warp(), len(cameras), placed.n_envs
        self._rows = n_envs if per_env else 1
        self._mounts = placed.mounts([(c.link, c.pose) for c in cameras])
        if per_env:
            for name in ("position", "rotation"):
                array = getattr(self._mounts, name)
                setattr(self._mounts, name, placed.array(np.repeat(array.numpy(), n_envs, axis=0), array.dtype))
        view = View()
        view.width, view.height, view.n_cameras, view.n_envs, view.first_env = width, height, n, n_envs, 0
        kinds = [list(Projection).index(projection_of(c.projection)) for c in cameras]
        view.kind = placed.array(kinds, wp.int32)
        view.position, view.last_position = (placed.zeros((n, n_envs), wp.vec3) for _ in range(2))
        view.rotation, view.last_rotation = (placed.zeros((n, n_envs), wp.vec4) for _ in range(2))
        view.lens = self._row([c.lens(width, height) for c in cameras], wp.vec4)
        view.aperture = self._row([(c.aperture, c.focus) for c in cameras], wp.vec2)
        view.clip = self._row([c.clip for c in cameras], wp.vec2)
        self.view = view
        if self.n_pixels > MOST_PIXELS:
            raise KinemaError(f"{self.n_pixels:,} pixels at a time are too many: {MOST_PIXELS:,} are the most")
        self._is_placed = False

    def _row(self, values: Sequence[Any], dtype: Any) -> Any:
        return self.placed.array(np.repeat(np.array([values], np.float32), self._rows, axis=0), dtype)

    @property
    def n_pixels(self) -> int:
        """Of all images together."""
        return self.width * self.height * len(self.cameras) * self.placed.n_envs

    @property
    def shape(self) -> tuple[int, int, int, int]:
        """Environments, cameras, rows, columns."""
        return self.placed.n_envs, len(self.cameras), self.height, self.width

    @property
    def lens(self) -> Any:
        """Focal lengths and centres [pixels], a Warp array (environments or 1, n_cameras) that may be written to."""
        return self.view.lens

    @property
    def mounts(self) -> Any:
        """`position` and `rotation` of cameras on their links, likewise."""
        return self._mounts

    def mount(self, poses: Sequence[Pose]) -> None:
        """Put the first camera somewhere else on its link, in each environment; nothing changes for no poses."""
        if not poses:
            return
        position, rotation = self._mounts.position.numpy(), self._mounts.rotation.numpy()
        position[:, 0] = [pose.position for pose in poses]
        rotation[:, 0] = [pose.quaternion for pose in poses]
        self._mounts.position.assign(position)
        self._mounts.rotation.assign(rotation)

    def place(self) -> None:
        """Put the cameras where their links are now; where they were before is kept."""
        view, wp = self.view, warp()
        view.position, view.last_position = view.last_position, view.position
        view.rotation, view.last_rotation = view.last_rotation, view.rotation
        self.placed.put(self._mounts, len(self.cameras), view.position, view.rotation)
        if not self._is_placed:
            wp.copy(view.last_position, view.position)
            wp.copy(view.last_rotation, view.rotation)
        self._is_placed = True
