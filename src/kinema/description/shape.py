"""Shapes on links: geometry (primitives, meshes, height fields), pose, material and collision masks."""

from __future__ import annotations

import enum
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array, Pose
from kinema.geometry import Appearance, CubeMapProjection, PlanarProjection

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
    """Semi-axes [m], (3,)."""


@dataclass(frozen=True, slots=True, eq=False)
class Capsule:
    """A capsule along z, centred at the shape's frame."""

    radius: float
    """Radius [m]."""
    length: float
    """Length of the cylindrical part, without the hemispheres [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class Cylinder:
    """A cylinder along z, centred at the shape's frame."""

    radius: float
    """Radius [m]."""
    length: float
    """Length [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class Cone:
    """A cone along z with its apex at +length/2 and its base at -length/2."""

    radius: float
    """Radius of the base [m]."""
    length: float
    """Height [m]."""


@dataclass(frozen=True, slots=True, eq=False)
class Plane:
    """A plane through the origin of the shape with normal +z; collides as the infinite half space below it."""

    size: tuple[float, float] | None = None
    """Edge lengths of the rendered rectangle [m]; None for infinite."""


class Approximation(enum.StrEnum):
    """Collision geometry that replaces a mesh (UsdPhysics mesh approximations)."""

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
    """A triangle mesh, from a file or from arrays."""

    uri: str = ""
    """Reference as written in the file."""
    path: str = ""
    """Resolved path of the mesh file; empty if it was not found or if arrays are given."""
    scale: Array = field(default_factory=_ones3)
    """Scale of each axis, (3,), applied to the vertices of the file before the pose of the shape; may be negative."""
    vertices: Array | None = None
    """Vertices [m before scale], (n, 3), instead of a file."""
    faces: np.ndarray | None = None
    """Triangles as vertex indices, (m, 3), instead of a file."""
    appearance: Appearance | None = None
    """Materials and texture coordinates of a mesh given as arrays; those of a file are loaded with it
    (`load_textured_mesh`)."""
    projection: PlanarProjection | CubeMapProjection | None = None
    """Projection of textures onto triangles without texture coordinates (MJCF); None if the format has none."""
    submesh: str = ""
    """Part of the file to use (SDFormat): a node or mesh of a scene, a group of an OBJ; empty for all."""
    center_submesh: bool = False
    """Whether the centre of the submesh's bounding box is moved to the origin."""
    approximation: Approximation | None = None
    """Collision approximation; None for the default of the format."""
    max_hull_vertices: int | None = None
    """Maximum number of vertices of the convex hull; None for no limit."""
    sdf_resolution: int | None = None
    """Cells of the signed distance field along its longest side; None for the default."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class HeightField:
    """A height field over a rectangle centred at the origin of the shape."""

    heights: Array
    """Heights [m], (rows, columns); row 0 is at -y, column 0 at -x."""
    size: tuple[float, float]
    """Full extent in x and y [m]."""
    base: float = 0.0
    """Depth of the solid below height zero [m]."""
    path: str = ""


Geometry = Box | Sphere | Ellipsoid | Capsule | Cylinder | Cone | Plane | Mesh | HeightField


@dataclass(kw_only=True, slots=True, eq=False)
class Shape(Node):
    """A geometry attached to a link or to the world, for rendering, collision, or both."""

    geometry: Geometry
    pose: Pose = field(default_factory=Pose)
    """Pose in the link frame, or in the world for a static shape."""
    visual: bool = True
    collision: bool = True
    material: VisualMaterial | None = None
    surface: PhysicsMaterial | None = None
    mass: float | None = None
    """Mass [kg], if the inertia of the link is computed from its shapes."""
    density: float | None = None
    """Density [kg/m3], if the inertia of the link is computed from its shapes."""
    contype: int = 1
    """Bit mask: two shapes may collide if the contype of one and the conaffinity of the other have a common bit."""
    conaffinity: int = 1
    """Bit mask; see `contype`."""
    group: int = 0
    """Rendering group (MJCF)."""
    enabled: bool = True

    @property
    def kind(self) -> str:
        """Name of the geometry type in lower case: `box`, `sphere`, ..., `heightfield`."""
        return type(self.geometry).__name__.lower()
