"""Ray-casting renderer: colour, depth, normal, segmentation and optical-flow images of all cameras and environments."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinema.core import KinemaError
from kinema.runtime import warp

from .cameras import Camera, CameraBatch
from .device_scene import DeviceScene
from .kernel_launch import launch_over_items

IMAGES = ("rgb", "depth", "normal", "segmentation", "flow")
"""Names of the image types."""


class Image:
    """One image type of all cameras, shape (n_envs, n_cameras, rows, columns, ...); overwritten by the next render."""

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def warp(self) -> Any:
        """The Warp array."""
        return self._data

    def numpy(self) -> Any:
        """NumPy array: a view of the memory on a CPU, a copy from a GPU."""
        return self._data.numpy()

    def to_torch(self) -> Any:
        """PyTorch tensor that shares the memory."""
        try:
            import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise KinemaError("to_torch() needs PyTorch: pip install torch") from None
        return warp().to_torch(self._data)

    def __dlpack__(self, **keywords: Any) -> Any:
        """DLPack capsule, without a copy."""
        return self._data.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        """DLPack device of the memory."""
        return self._data.__dlpack_device__()


class Renderer:
    """Ray-casting renderer of all cameras in all environments.

    Args:
        device_scene: scene to render.
        cameras: cameras fixed in the world or on links.
        resolution: width and height of the images [pixels].
        images: image types of `IMAGES`: `rgb` (8 bits), `depth` (along the optical axis, for a fisheye along the ray
            [m]; infinite for the sky), `normal` (world normal facing the camera), `segmentation` (entity, link, shape;
            -1 for the sky), `flow` (motion in the image since the previous render [pixels]).
        shadows: whether lights cast shadows.
        samples: rays along each edge of a pixel, for antialiasing of `rgb`.
        per_env: whether intrinsics and mounting poses of cameras may differ between environments.
    """

    block_size = 128
    """Threads per block on a GPU."""

    def __init__(
        self,
        device_scene: DeviceScene,
        cameras: Sequence[Camera],
        resolution: tuple[int, int],
        *,
        images: Sequence[str] = ("rgb", "depth"),
        shadows: bool = True,
        samples: int = 1,
        per_env: bool = False,
    ) -> None:
        """Allocate the requested images and specialize the kernel for the scene."""
        from .kernels.ray_casting import ImageBuffers, ray_casting_kernel

        unknown = [name for name in images if name not in IMAGES]
        if unknown:
            raise KinemaError(f"unknown images {', '.join(unknown)}; supported are {', '.join(IMAGES)}")
        self.device_scene = device_scene
        self.camera_batch = CameraBatch(device_scene, cameras, resolution, per_env=per_env)
        wp = warp()
        dtypes = {"rgb": wp.vec3ub, "depth": wp.float32, "normal": wp.vec3, "segmentation": wp.vec3i, "flow": wp.vec2}
        buffers, shape = ImageBuffers(), self.camera_batch.shape
        self._images: dict[str, Image] = {}
        for name in IMAGES:
            data = device_scene.zeros(shape if name in images else 0, dtypes[name])
            setattr(buffers, name, data.flatten())
            if name in images:
                self._images[name] = Image(data)
        labels = [
            (i.entity, i.link if i.entity_link is None else i.entity_link, i.shape)
            for i in device_scene.render_scene.instances
        ] or [(-1, -1, -1)]
        buffers.labels = device_scene.array(labels, wp.vec3i)
        buffers.shadows, buffers.samples = int(shadows), max(1, int(samples)) if "rgb" in images else 1
        buffers.has_auxiliary = int(any(name != "rgb" for name in images))
        self._buffers = buffers
        single_opaque_ray = (
            not device_scene.device.is_cpu and buffers.samples == 1 and device_scene.surfaces.max_layers == 1
        )
        self.single_opaque_ray = single_opaque_ray
        self.kernel = ray_casting_kernel(device_scene.kernel_features, single_opaque_ray=single_opaque_ray)

    def render(self) -> dict[str, Image]:
        """Render the scene at the poses of its last update (`DeviceScene.update_poses`); image type -> image."""
        self.camera_batch.update_poses()
        return self.draw()

    def draw(self) -> dict[str, Image]:
        """Render the scene at the last poses of links and cameras (`CameraBatch.update_poses`); image type -> image."""
        scene, cameras = self.device_scene, self.camera_batch
        scene.surfaces.linear_colors = 0
        inputs = [cameras.view, scene.bodies, scene.surfaces, scene.lights, self._buffers]
        launch_over_items(self.kernel, cameras.n_pixels, inputs, scene.device, block_size=self.block_size)
        return self._images
