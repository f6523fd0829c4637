"""Scene description for rendering: geometry instances on links, lights, sky."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Diagnostics, KinemaError, Pose

from .geometry import Geometry
from .surfaces import Surface

Color = tuple[float, float, float]
LIGHT_KINDS = ("directional", "point", "spot")
WORLD = -1
"""Link index that stands for the world."""


@dataclass(kw_only=True, eq=False)
class Instance:
    """A geometry placed on a link."""

    geometry: Geometry
    surface: Surface | None = None
    """Surface of the whole instance; None for per-face surfaces, with the default surface where there is none."""
    link: int = WORLD
    """Link index; -1 for the world."""
    pose: Pose = field(default_factory=Pose)
    """Pose in the link frame."""
    entity: int = 0
    entity_link: int | None = None
    """Index of the link in its entity; None for `link`."""
    shape: int = 0
    """Entity, link and shape are the labels of the segmentation image."""
    name: str = ""


@dataclass(kw_only=True, eq=False)
class LightSource:
    """A light source that emits along -z of its frame."""

    kind: str = "directional"
    """`directional`, `point` or `spot`."""
    link: int = WORLD
    pose: Pose = field(default_factory=Pose)
    color: Color = (1.0, 1.0, 1.0)
    """Intensity: colour of a white diffuse surface facing the light (at 1 m, with falloff)."""
    radius: float = 0.02
    """Radius of the source [m], or angular radius of a directional light [rad]; softens shadows of the path tracer."""
    falloff: tuple[float, float, float] = (0.0, 0.0, 1.0)
    """Coefficients (a, b, c) of the attenuation 1 / (a + b r + c r^2) at distance r [m]."""
    cone: tuple[float, float] = (np.pi / 4, 0.0)
    """Half angle of a spot [rad], and the exponent of its cosine falloff."""
    casts_shadow: bool = True


@dataclass(kw_only=True, eq=False)
class Sky:
    """Environment light as a gradient or an environment map; radiance 1 all around shows a white surface as white."""

    zenith: Color = (0.62, 0.72, 0.86)
    horizon: Color = (0.93, 0.95, 0.97)
    ground: Color = (0.46, 0.45, 0.44)
    ambient: float = 0.5
    """Fraction of the sky light that reaches surfaces in ray-cast images."""
    environment_map: np.ndarray | None = None
    """Equirectangular radiance map (rows, columns, 3) for the path tracer; row 0 is up, +x in the centre column."""


@dataclass(kw_only=True, eq=False)
class RenderScene:
    """Geometry instances, lights and sky to be rendered."""

    instances: list[Instance] = field(default_factory=list)
    lights: list[LightSource] = field(default_factory=list)
    sky: Sky = field(default_factory=Sky)
    n_links: int = 0
    """Number of links whose poses are supplied to the renderer."""
    diagnostics: Diagnostics = field(default_factory=Diagnostics)
    """Warnings on content that cannot be rendered."""

    def bounds(
        self, link_poses: Sequence[Pose] = (), hidden_links: Container[int] = ()
    ) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper corner of the AABB of all bounded instances [m].

        Links are at `link_poses`, without those that are hidden. A unit cube about the origin if there are no bounded
        instances.
        """
        corners = []
        for instance in self.instances:
            if instance.geometry.is_infinite or instance.link in hidden_links:
                continue
            low, high = instance.geometry.bounds()
            box = np.array(np.meshgrid(*zip(low, high, strict=True), indexing="ij")).reshape(3, -1).T
            pose = instance.pose if instance.link < 0 else link_poses[instance.link] @ instance.pose
            corners.append(pose.apply(box))
        if not corners:
            return np.full(3, -0.5), np.full(3, 0.5)
        points = np.concatenate(corners)
        return points.min(axis=0), points.max(axis=0)


def validate_render_scene(render_scene: RenderScene) -> None:
    """Raise `KinemaError` for unknown light types and link indices out of range."""
    for light in render_scene.lights:
        if light.kind not in LIGHT_KINDS:
            raise KinemaError(f"unknown light type {light.kind!r}; supported are {', '.join(LIGHT_KINDS)}")
    for item in (*render_scene.instances, *render_scene.lights):
        if not -1 <= item.link < render_scene.n_links:
            raise KinemaError(
                f"link index {item.link} is out of range: the render scene has {render_scene.n_links} links"
            )
