"""What is there to be seen: shapes on links, lights, the sky. Arrays on a device are made of it by `Placed`."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Diagnostics, KinemaError, Pose

from .geometry import Geometry
from .surfaces import Surface

Color = tuple[float, float, float]
LAMPS = ("directional", "point", "spot")
WORLD = -1
"""In place of a link."""


@dataclass(kw_only=True, eq=False)
class Instance:
    """A geometry on a link."""

    geometry: Geometry
    surface: Surface | None = None
    """None where its faces have their own; those that have none are grey."""
    link: int = WORLD
    """Its row among the links; -1 for the world."""
    pose: Pose = field(default_factory=Pose)
    """In the link."""
    entity: int = 0
    shape: int = 0
    """What segmentation calls it."""
    name: str = ""


@dataclass(kw_only=True, eq=False)
class Lamp:
    """A light; it shines along -z of its own frame."""

    kind: str = "directional"
    link: int = WORLD
    pose: Pose = field(default_factory=Pose)
    color: Color = (1.0, 1.0, 1.0)
    """White paint that faces a lamp of this colour is seen in this colour; at a metre, where light falls off."""
    radius: float = 0.02
    """Of the bulb [m]; of a directional one, of the disc that is seen of it [rad]. The path tracer's shadows are as
    soft as that."""
    falloff: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """The light is divided by a + b r + c r^2 at a distance r [m]."""
    cone: tuple[float, float] = (np.pi / 4, 0.0)
    """Of a spot: half the angle [rad], and the power of the cosine by which it fades."""
    casts_shadow: bool = True


@dataclass(kw_only=True, eq=False)
class Sky:
    """What is around everything; light itself, so that (1, 1, 1) all around shows white paint as white."""

    zenith: Color = (0.62, 0.72, 0.86)
    horizon: Color = (0.93, 0.95, 0.97)
    ground: Color = (0.46, 0.45, 0.44)
    ambient: float = 0.5
    """How much of it reaches surfaces in images that are not path-traced."""
    panorama: np.ndarray | None = None
    """An image of all directions instead, (rows, columns, 3), for the path tracer: the first row is up, x in the
    middle."""


@dataclass(kw_only=True, eq=False)
class Stage:
    """Everything that can be seen."""

    instances: list[Instance] = field(default_factory=list)
    lamps: list[Lamp] = field(default_factory=list)
    sky: Sky = field(default_factory=Sky)
    n_links: int = 0
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """What could not be shown."""

    def bounds(self, link_poses: Sequence[Pose] = ()) -> tuple[np.ndarray, np.ndarray]:
        """The box around everything that has an end, with the links at these places [m]."""
        corners = []
        for instance in self.instances:
            if instance.geometry.is_endless:
                continue
            low, high = instance.geometry.bounds()
            box = np.array(np.meshgrid(*zip(low, high, strict=True), indexing="ij")).reshape(3, -1).T
            place = instance.pose if instance.link < 0 else link_poses[instance.link] @ instance.pose
            corners.append(place.apply(box))
        if not corners:
            return np.full(3, -0.5), np.full(3, 0.5)
        points = np.concatenate(corners)
        return points.min(axis=0), points.max(axis=0)


def check_stage(stage: Stage) -> None:
    """One clear error for what cannot be drawn."""
    for lamp in stage.lamps:
        if lamp.kind not in LAMPS:
            raise KinemaError(f"a lamp is {', '.join(LAMPS)}, not {lamp.kind!r}")
    for thing in (*stage.instances, *stage.lamps):
        if not -1 <= thing.link < stage.n_links:
            raise KinemaError(f"there is no link {thing.link}: the stage has {stage.n_links}")
