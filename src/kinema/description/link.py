"""Links (rigid bodies), their inertial properties, and mass properties computed from shapes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema import geometry as geo
from kinema.core import Array, Pose

from .node import Node
from .shape import Box, Capsule, Cone, Cylinder, Ellipsoid, Geometry, Mesh, Plane, Shape, Sphere
from .tessellation import mesh_data, tessellate


def _zeros3() -> Array:
    return np.zeros(3)


@dataclass(frozen=True, slots=True, eq=False)
class Inertial:
    """Mass, centre of mass and rotational inertia of a link."""

    mass: float
    """Mass [kg]."""
    center: Array
    """Centre of mass in the link frame [m], (3,)."""
    inertia: Array
    """Inertia tensor about the centre of mass, along the axes of the link frame [kg m2], (3, 3)."""


@dataclass(kw_only=True, slots=True, eq=False)
class Link(Node):
    """A rigid body with its shapes."""

    inertial: Inertial | None = None
    """None for a link without mass (a frame)."""
    inertial_is_computed: bool = False
    """Whether `inertial` was computed from shapes and densities because the file gives none."""
    density: float | None = None
    """Density for the computation of the inertia [kg/m3]."""
    shapes: list[Shape] = field(default_factory=list)
    pose: Pose | None = None
    """Authored pose in the robot frame, at the authored configuration; None if only joints place the link."""
    nested_in: str | None = None
    """Name of the link that contains this one, in formats that nest links."""
    enabled: bool = True
    kinematic: bool = False
    """Moved by the user instead of forces (USD kinematic bodies, MJCF mocap, SDFormat kinematic)."""
    continuous_collision: bool = False
    """Whether contacts are found along the motion in a step (USD `physxRigidBody:enableCCD`)."""
    starts_asleep: bool = False
    gravity_scale: float = 1.0
    """1 for full gravity, 0 for none."""
    self_collide: bool | None = None
    """Whether the link may collide with other links of its robot (one of the two suffices); None for the setting of the
    robot."""
    linear_velocity: Array = field(default_factory=_zeros3)
    """Initial velocity of the link origin in the world [m/s], (3,)."""
    angular_velocity: Array = field(default_factory=_zeros3)
    """Initial angular velocity in the world [rad/s], (3,)."""

    @property
    def visuals(self) -> list[Shape]:
        """Visual shapes."""
        return [s for s in self.shapes if s.visual]

    @property
    def collisions(self) -> list[Shape]:
        """Collision shapes."""
        return [s for s in self.shapes if s.collision]


# --------------------------------------------------------------------------------------- mass properties of shapes


def geometry_mass_properties(geometry: Geometry, density: float) -> geo.MassProperties | None:
    """Mass, centre of mass and inertia of a solid geometry in its own frame; None if it has no volume.

    Exact for primitives and closed meshes; an open, inside-out or flat mesh is replaced by its convex hull.

    Args:
        geometry: the geometry.
        density: density [kg/m3].
    """
    match geometry:
        case Box():
            return geo.box_mass_properties(geometry.size, density)
        case Sphere():
            return geo.sphere_mass_properties(geometry.radius, density)
        case Ellipsoid():
            return geo.ellipsoid_mass_properties(geometry.radii, density)
        case Capsule():
            return geo.capsule_mass_properties(geometry.radius, geometry.length, density)
        case Cylinder():
            return geo.cylinder_mass_properties(geometry.radius, geometry.length, density)
        case Cone():
            return geo.cone_mass_properties(geometry.radius, geometry.length, density)
        case Plane():
            return None
    mesh = mesh_data(geometry) if isinstance(geometry, Mesh) else tessellate(geometry)
    return None if mesh is None else _mesh_or_hull_mass_properties(mesh, density)


def encloses_volume(mesh: geo.MeshData) -> bool:
    """Whether a mesh is closed, oriented outwards and has positive volume."""
    quality = geo.measure_mesh_quality(mesh)
    return quality.is_closed and not quality.is_inside_out and quality.volume > 0


def _mesh_or_hull_mass_properties(mesh: geo.MeshData, density: float) -> geo.MassProperties | None:
    """Mass properties of a mesh if it encloses a volume, else of its convex hull; None if flat or empty."""
    try:
        return geo.mesh_mass_properties(mesh if encloses_volume(mesh) else geo.convex_hull(mesh), density)
    except geo.GeometryError:
        return None  # flat or empty


def combine_inertials(posed_masses: Sequence[tuple[geo.MassProperties, Pose]]) -> Inertial | None:
    """Total mass, centre of mass and inertia of several posed bodies in their common frame; None without mass."""
    posed = [geo.transform_mass_properties(p, pose.rotation, pose.position) for p, pose in posed_masses if p.mass > 0]
    if not posed:
        return None
    total = geo.combine_mass_properties(posed)
    return Inertial(total.mass, total.center, total.inertia)
