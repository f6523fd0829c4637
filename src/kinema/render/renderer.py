"""Images of many cameras in many environments, by one ray for each pixel and light."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from kinema.backend import warp
from kinema.foundation import KinemaError

from .cameras import Camera
from .launching import launch
from .placed import Placed
from .viewing import Viewing

IMAGES = ("rgb", "depth", "normal", "segmentation", "flow")
"""What there is to make."""


class Image:
    """One kind of image of all cameras: (n_envs, n_cameras, rows, columns, ...). It changes with the next render."""

    def __init__(self, data: Any) -> None:
        self._data = data

    @property
    def warp(self) -> Any:
        """The Warp array."""
        return self._data

    def numpy(self) -> Any:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        return self._data.numpy()

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory."""
        try:
            import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
        except ImportError:
            raise KinemaError("to_torch() needs PyTorch: pip install torch") from None
        return warp().to_torch(self._data)

    def __dlpack__(self, **keywords: Any) -> Any:
        """For any library that speaks DLPack, without a copy."""
        return self._data.__dlpack__(**keywords)

    def __dlpack_device__(self) -> Any:
        """Where it lies."""
        return self._data.__dlpack_device__()


class Renderer:
    """Cameras that see a stage in all environments.

    Args:
        placed: what they see.
        cameras: fixed, or on links.
        resolution: width and height of the images [pixels].
        images: what to make, of `IMAGES`: `rgb` (8 bits each), `depth` (along the view, of a fisheye along the ray [m];
            infinite where there is nothing), `normal` (of the surface, in the world, towards the camera),
            `segmentation` (entity, link, shape; -1 for nothing), `flow` (how far what is seen has moved in the image
            since the last one [pixels]).
        shadows: whether lights cast them.
        samples: rays along each edge of a pixel, for smooth edges of `rgb`.
        per_env: whether lenses and places of cameras may differ between environments.
    """

    block = 128
    """Threads that a GPU starts together."""

    def __init__(
        self,
        placed: Placed,
        cameras: Sequence[Camera],
        resolution: tuple[int, int],
        *,
        images: Sequence[str] = ("rgb", "depth"),
        shadows: bool = True,
        samples: int = 1,
        per_env: bool = False,
    ) -> None:
        from .kernels.cast import Wanted, cast_kernel

        wrong = [name for name in images if name not in IMAGES]
        if wrong:
            raise KinemaError(f"there are no images {', '.join(wrong)}; there are {', '.join(IMAGES)}")
        self.placed = placed
        self.viewing = Viewing(placed, cameras, resolution, per_env=per_env)
        wp = warp()
        kinds = {"rgb": wp.vec3ub, "depth": wp.float32, "normal": wp.vec3, "segmentation": wp.vec3i, "flow": wp.vec2}
        wanted, shape = Wanted(), self.viewing.shape
        self._images: dict[str, Image] = {}
        for name in IMAGES:
            data = placed.zeros(shape if name in images else 0, kinds[name])
            setattr(wanted, name, data.flatten())
            if name in images:
                self._images[name] = Image(data)
        labels = [(i.entity, i.link, i.shape) for i in placed.stage.instances] or [(-1, -1, -1)]
        wanted.labels = placed.array(labels, wp.vec3i)
        wanted.shadows, wanted.samples = int(shadows), max(1, int(samples)) if "rgb" in images else 1
        wanted.more = int(any(name != "rgb" for name in images))
        self._wanted = wanted
        plain = not placed.device.is_cpu and wanted.samples == 1 and placed.looks.layers == 1
        self.plain = plain
        self.kernel = cast_kernel(placed.traits, plain=plain)

    def render(self) -> dict[str, Image]:
        """The images of what is where it was placed last (`Placed.place`), by name."""
        placed, viewing = self.placed, self.viewing
        viewing.place()
        placed.looks.linear = 0
        inputs = [viewing.view, placed.world, placed.looks, placed.lamps, self._wanted]
        launch(self.kernel, viewing.n_pixels, inputs, placed.device, block=self.block)
        return self._images
