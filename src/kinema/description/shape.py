"""Shapes on a link: geometry, placement, look and feel."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.foundation import Array, Pose
from kinema.shapes import Appearance, CubeProjection, Projection

from .material import PhysicsMaterial, VisualMaterial
from .node import Node


@dataclass(frozen=True, slots=True, eq=False)
class Box:
    """A box centred at the shape's frame."""

    size: Array
    """Full edge lengths [m], shape (3,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Sphere:
    """A sphere centred at the shape's frame."""

    radius: float
    """Radius [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid:
    """An ellipsoid centred at the shape's frame."""

    radii: Array
    """Half axes [m], shape (3,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Capsule:
    """A capsule along z, centred at the shape's frame."""

    radius: float
    length: float
    """Length of the cylindrical part, without the caps [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class Cylinder:
    """A cylinder along z, centred at the shape's frame."""

    radius: float
    length: float


@dataclass(frozen=True, slots=True, eq=False)
class Cone:
    """A cone along z with its apex at +length/2 and its base at -length/2."""

    radius: float
    length: float


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A plane through the shape's frame with normal +z; collision is with the infinite half space below it."""

    size: tuple[float, float] | None = None
    """Edge lengths [m] of the drawn rectangle; None for infinite."""


class Approximation(enum.StrEnum):
    """What a mesh asks to be replaced by for collision."""

    NONE = "none"
    CONVEX_HULL = "convexHull"
    CONVEX_DECOMPOSITION = "convexDecomposition"
    BOUNDING_CUBE = "boundingCube"
    BOUNDING_SPHERE = "boundingSphere"
    MESH_SIMPLIFICATION = "meshSimplification"
    SDF = "sdf"


def _ones3() -> Array:
    return np.ones(3)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Mesh:
    """A triangle mesh, from a file or given in place."""

    uri: str = ""
    """The reference as the file writes it."""
    path: str = ""
    """The file it was resolved to; empty when it was not found or the mesh is given in place."""
    scale: Array = field(default_factory=_ones3)
    """Scale of each axis, shape (3,), applied to the file's vertices before the shape's pose; may mirror."""
    vertices: Array | None = None
    """Vertices given in place [m before scale], shape (n, 3)."""
    faces: np.ndarray | None = None
    """Triangles given in place, shape (m, 3)."""
    appearance: Appearance | None = None
    """What is laid on the triangles given in place; that of a file is read with the file (see `dressed_mesh`)."""
    projection: Projection | CubeProjection | None = None
    """How images are laid on triangles without texture coordinates (MJCF); None where the format has no such rule."""
    submesh: str = ""
    """Only this part of the file (SDFormat): a node or mesh of a scene, a group of an OBJ."""
    center_submesh: bool = False
    """Whether the middle of that part's bounding box is moved to the origin."""
    approximation: Approximation | None = None
    """The collision approximation asked for; None where the format has its own default."""
    max_hull_vertices: int | None = None
    field_resolution: int | None = None
    """Cells of its distance field along the longest side, where it touches as one; None for the default."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeightField:
    """A terrain over a rectangle centred at the shape's frame."""

    heights: Array
    """Heights [m] above the frame, shape (rows, columns); row 0 is at -y, column 0 at -x."""
    size: tuple[float, float]
    """Full extent in x and y [m]."""
    base: float = 0.0
    """Thickness below height zero [m]."""
    path: str = ""


Geometry = Box | Sphere | Ellipsoid | Capsule | Cylinder | Cone | Plane | Mesh | HeightField


@dataclass(kw_only=True, slots=True, eq=False)
class Shape(Node):
    """A geometry placed on a link, to be seen, to collide, or both."""

    geometry: Geometry
    pose: Pose = field(default_factory=Pose)
    """Pose in the link's frame, or in the world for a static shape."""
    visual: bool = True
    collision: bool = True
    material: VisualMaterial | None = None
    surface: PhysicsMaterial | None = None
    mass: float | None = None
    """Mass [kg] this shape brings where the link's inertia is computed from its shapes."""
    density: float | None = None
    """Density [kg/m3], likewise."""
    contype: int = 1
    """Two shapes may collide if the contype of one shares a bit with the conaffinity of the other."""
    conaffinity: int = 1
    group: int = 0
    """Display group (MJCF)."""
    enabled: bool = True

    @property
    def kind(self) -> str:
        """The geometry's name in lower case: `box`, `sphere`, ..., `heightfield`."""
        return type(self.geometry).__name__.lower()
