"""Cameras: where they are and how they see."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, ArrayLike, KinemaError, Pose, vector

from .stage import WORLD


class Projection(enum.StrEnum):
    """How directions become pixels; in the order of the kernels."""

    PINHOLE = "pinhole"
    FISHEYE = "fisheye"
    """The distance from the centre of the image is in proportion to the angle."""
    ORTHOGRAPHIC = "orthographic"


@dataclass(kw_only=True, eq=False)
class Camera:
    """A camera looks along -z of its own frame, with +y up."""

    name: str = ""
    link: int = WORLD
    """The row of the link that it is on; -1 for the world."""
    pose: Pose = field(default_factory=Pose)
    """In that link, or the world."""
    projection: Projection | str = Projection.PINHOLE
    fov: float = 0.785398163397
    """The vertical angle of the image [rad]."""
    height: float = 1.0
    """What an orthographic one sees from the lower to the upper edge [m]."""
    intrinsics: tuple[float, float, float, float] | None = None
    """Focal lengths in x and y, and the centre [pixels], instead of what the angle says."""
    aperture: float = 0.0
    """The radius of the lens [m]; with more than none, what is not in focus blurs (path tracer)."""
    focus: float = 1.0
    """The distance that is sharp [m]."""
    clip: tuple[float, float] = (1e-3, 1e4)
    """Nearest and farthest that is seen, along the ray [m]."""

    def lens(self, width: int, height: int) -> tuple[float, float, float, float]:
        """Focal lengths and centre for an image of that many pixels."""
        if self.intrinsics is not None:
            return self.intrinsics
        kind = projection_of(self.projection)
        if kind is Projection.ORTHOGRAPHIC:
            focal = height / self.height
        elif kind is Projection.FISHEYE:
            focal = height / self.fov
        else:
            if not 0.0 < self.fov < np.pi:
                raise KinemaError(f"camera {self.name!r}: a field of view of {self.fov} rad is not within 0 and pi")
            focal = 0.5 * height / np.tan(0.5 * self.fov)
        return focal, focal, 0.5 * width, 0.5 * height


def projection_of(word: Projection | str) -> Projection:
    """The projection of that name."""
    try:
        return Projection(word)
    except ValueError:
        names = ", ".join(p.value for p in Projection)
        raise KinemaError(f"a camera's projection is {names}, not {word!r}") from None


def look_at(eye: ArrayLike, target: ArrayLike, up: ArrayLike = (0.0, 0.0, 1.0)) -> Pose:
    """The pose of a camera at `eye` that sees `target` in the middle of its image."""
    place = vector(eye)
    back = place - vector(target)
    length = float(np.linalg.norm(back))
    if not length > 0.0:
        raise KinemaError("a camera cannot look at the place where it is")
    back = back / length
    right = np.cross(vector(up), back)
    if np.linalg.norm(right) < 1e-9:  # straight up or down
        right = np.cross([0.0, 1.0, 0.0], back)
    right = right / np.linalg.norm(right)
    return Pose(place, np.column_stack([right, np.cross(back, right), back]))


def framing(low: Array, high: Array, *, fov: float, aspect: float, azimuth: float, elevation: float) -> Pose:
    """The pose of a camera that sees all of a box.

    Args:
        low: the box's lower corner [m].
        high: its upper corner [m].
        fov: the vertical angle of the image [rad].
        aspect: its width over its height.
        azimuth: where it stands around z, from +x [rad].
        elevation: how high it stands above the horizon [rad].
    """
    middle = 0.5 * (low + high)
    towards = np.array([np.cos(elevation) * np.cos(azimuth), np.cos(elevation) * np.sin(azimuth), np.sin(elevation)])
    turned = look_at(middle + towards, middle).rotation
    corners = np.array(np.meshgrid(*zip(low - middle, high - middle, strict=True), indexing="ij")).reshape(3, -1).T
    seen = corners @ turned
    tangent = np.tan(0.5 * fov)
    need = np.maximum(np.abs(seen[:, 1]) / tangent, np.abs(seen[:, 0]) / (tangent * aspect)) + seen[:, 2]
    return look_at(middle + towards * 1.08 * max(float(need.max()), 1e-3), middle)
