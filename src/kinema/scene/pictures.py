"""Pictures and films of a description, without simulating it: in a studio, or with the lights of its file."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.backend import Device, find_device
from kinema.description import Robot, World
from kinema.foundation import KinemaError, Pose
from kinema.render import (
    STUDIO_EXPOSURE,
    Camera,
    PathTracer,
    Placed,
    Renderer,
    Stage,
    auto_exposure,
    developed,
    framing,
    furnish,
    look_at,
)

from .seen import link_rows
from .visual_lights import cameras_of
from .visuals import Shown, stage_of

LinkPoses = Mapping[str, Pose]
"""Where links are, as `link_poses` of a robot or world gives it."""
FOV = math.radians(34.0)
CHUNK = 8
"""Pictures of a film that are made at a time, side by side like environments."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Style:
    """How a picture is taken."""

    resolution: tuple[int, int] = (960, 720)
    """Width and height [pixels]."""
    pathtrace: bool = False
    """Follow all light, instead of one ray for each pixel and light."""
    samples: int = 64
    """Paths for each pixel; else rays, of which there are at most 16."""
    seconds: float | None = None
    """No more paths are begun after this time."""
    lights: str = "studio"
    """`studio`, or `file` for those of the description."""
    camera: str = ""
    """The name of one that the description has; empty for one that sees everything."""
    azimuth: float = math.radians(-50.0)
    """Where that one stands around z, from +x [rad]."""
    elevation: float = math.radians(19.0)
    """How high above the horizon [rad]."""
    kind: str = "visual"
    """`visual`, or `collision` for the shapes that touch."""
    device: str = "cpu"
    exposure: float | None = None
    """What light is multiplied by; that of the studio when not given, or chosen by the picture."""
    denoise: bool | str = True
    """Whether noise is taken away, and by what: see `PathTracer.trace`."""


class Portrait:
    """A description that pictures are taken of.

    Args:
        description: the robot or world.
        poses: where its links are, one for each picture.
        style: how.
        turntable: whether the camera goes around once during the pictures.
    """

    def __init__(
        self, description: Robot | World, poses: Sequence[LinkPoses], style: Style, *, turntable: bool = False
    ) -> None:
        if style.lights not in ("studio", "file"):
            raise KinemaError(f"lights are 'studio' or 'file', not {style.lights!r}")
        self.style, self._poses, self._turntable = style, list(poses), turntable
        if not self._poses:
            raise KinemaError("there is nothing to take a picture of: no place of any link")
        self._names = list(self._poses[0])
        shown = Shown(description=description, links={name: i for i, name in enumerate(self._names)})
        self.stage: Stage = stage_of([shown], kind=style.kind)
        """What is seen, and in `diagnostics` what is not."""
        if not self.stage.instances:
            raise KinemaError("there is nothing to be seen: no shape has a geometry")
        self._low, self._high = self._bounds()
        furnish(self.stage, self._low, self._high, traced=style.pathtrace, lights=style.lights == "studio")
        self._camera = self._chosen_camera(shown)
        self._exposure = STUDIO_EXPOSURE if style.exposure is None and style.lights == "studio" else style.exposure

    def _row(self, poses: LinkPoses) -> list[Pose]:
        return [poses[name] for name in self._names]

    def _bounds(self) -> tuple[np.ndarray, np.ndarray]:
        some = self._poses[:: max(1, len(self._poses) // 24)]
        boxes = [self.stage.bounds(self._row(p)) for p in some]
        return np.min([low for low, _ in boxes], axis=0), np.max([high for _, high in boxes], axis=0)

    def _chosen_camera(self, shown: Shown) -> Camera:
        wanted = self.style.camera
        if not wanted:
            return Camera(name="portrait", pose=self._view(0.0), fov=FOV)
        cameras = {c.name: c for c in cameras_of(shown.description, shown.links, shown.base)}
        if wanted not in cameras:
            raise KinemaError(f"there is no camera {wanted!r}; the file has: {', '.join(cameras) or 'none'}")
        return cameras[wanted]

    def _view(self, turn: float) -> Pose:
        """A view of everything, from where the camera stands when it has gone around by an angle."""
        style = self.style
        aspect = style.resolution[0] / style.resolution[1]
        low, high = self._low, self._high
        pose = framing(low, high, fov=FOV, aspect=aspect, azimuth=style.azimuth + turn, elevation=style.elevation)
        if not self._turntable:
            return pose
        # as far away as from where the box is widest, so that the camera does not breathe
        middle = 0.5 * (low + high)
        views = [
            framing(low, high, fov=FOV, aspect=aspect, azimuth=a, elevation=style.elevation)
            for a in np.linspace(0.0, np.pi, 9)
        ]
        far = max(float(np.linalg.norm(v.position - middle)) for v in views)
        towards = (pose.position - middle) / np.linalg.norm(pose.position - middle)
        return look_at(middle + far * towards, middle)

    def pictures(self, progress: Callable[[int, int], None] | None = None) -> Iterator[np.ndarray]:
        """All pictures, (rows, columns, 3) of 8 bits each; `progress` is told how much is done, and of how much."""
        device, count = find_device(self.style.device), len(self._poses)
        size = min(CHUNK, count)
        placed = Placed(self.stage, size, device)
        take = self._traced(placed, progress) if self.style.pathtrace else self._cast(placed)
        for start in range(0, count, size):
            numbers = [min(start + k, count - 1) for k in range(size)]
            self._place(placed, numbers, device)
            images = take(self._mounts(numbers))
            yield from images[: count - start]
            if progress is not None and not self.style.pathtrace:
                progress(min(start + size, count), count)

    def _place(self, placed: Placed, numbers: Sequence[int], device: Device) -> None:
        if not self._names:
            placed.place()
            return
        placed.place(*link_rows([self._row(self._poses[n]) for n in numbers], device.name))

    def _mounts(self, numbers: Sequence[int]) -> list[Pose]:
        if not self._turntable or self.style.camera:
            return []
        return [self._view(2.0 * math.pi * n / len(self._poses)) for n in numbers]

    def _cast(self, placed: Placed) -> Callable[[list[Pose]], np.ndarray]:
        edge = max(1, min(4, round(math.sqrt(self.style.samples))))
        renderer = Renderer(placed, [self._camera], self.style.resolution, images=("rgb",), samples=edge, per_env=True)

        def take(mounts: list[Pose]) -> np.ndarray:
            renderer.viewing.mount(mounts)
            return renderer.render()["rgb"].numpy()[:, 0].copy()

        return take

    def _traced(
        self, placed: Placed, progress: Callable[[int, int], None] | None
    ) -> Callable[[list[Pose]], np.ndarray]:
        style = self.style
        tracer = PathTracer(placed, [self._camera], style.resolution, per_env=True)

        def take(mounts: list[Pose]) -> np.ndarray:
            tracer.viewing.mount(mounts)
            traced = tracer.trace(style.samples, seconds=style.seconds, denoise=style.denoise, progress=progress)
            if self._exposure is None:  # the same for all pictures
                self._exposure = auto_exposure(traced.light[0, 0])
            return developed(traced.light[:, 0], self._exposure)

        return take
