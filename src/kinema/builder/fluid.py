"""Table of fluid interaction: density, viscosity and wind of the medium, and the bodies that it acts on.

As in MuJoCo, fluid forces act on ellipsoids that approximate the geoms of a link, or else on its inertia box (the box
of equal mass and inertia).
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.core import Array, Pose, determinant3, float64_array, quaternion_to_matrix, rotate_tensor, symmetric_eigen
from kinema.description import Box, Capsule, Cylinder, Ellipsoid, Geometry, Shape, Sphere
from kinema.model import FluidInfo, empty_fluid
from kinema.tokens import mjcf

from .context import BuildContext, LinkRecord, shape_label
from .options import merged_options, option_flags

MIN_MASS = MINVAL = 1e-15
"""Links of smaller mass [kg] experience no fluid forces; also the lower bound of squared box sizes."""
OFF_DIAGONAL_TOLERANCE = 1e-12
"""Relative size below which products of inertia count as zero."""
MEDIUM_PROPERTIES = ("density", "viscosity", "wind")


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Medium:
    """Properties of the fluid that override the values of the files; None for the value of the file."""

    density: float | None = None
    """[kg/m^3]"""
    viscosity: float | None = None
    """[Pa s]"""
    wind: Array | None = None
    """Velocity of the medium [m/s], (3,)."""


MEDIUM_FROM_FILES = Medium()


@dataclass(frozen=True, slots=True, eq=False)
class _FluidRow:
    """One row of the table: an `ellipsoid` or inertia `box` of a link."""

    kind: str
    link: LinkRecord
    pose: Pose
    """Pose in the link."""
    size: Array
    """Semi-axes of the ellipsoid or edge lengths of the box [m], (3,)."""
    fluid_params: Array
    """MuJoCo's geom_fluid, (12,): interaction flag, five coefficients, added mass (3), added inertia (3)."""


def pack_fluid(ctx: BuildContext, override: Medium = MEDIUM_FROM_FILES) -> FluidInfo:
    """Density, viscosity and wind of the fluid, and a table with one row per ellipsoid or inertia box that it acts on.

    No rows if the files define no medium and `override` sets neither density nor viscosity.
    """
    medium = _medium_from_files(ctx)
    for name in MEDIUM_PROPERTIES:
        if getattr(override, name) is not None:
            medium[name] = getattr(override, name)
    is_overridden = override.density is not None or override.viscosity is not None
    if not (medium["density"] or medium["viscosity"] or is_overridden):
        return empty_fluid()
    rows = [
        fluid_row
        for link in ctx.links
        if link.frame_idx >= 0 and not link.is_on_kinematic_body and _is_affected_by_fluid(ctx, link)
        for fluid_row in _fluid_rows_of_link(ctx, link)
    ]
    n = len(rows)
    poses = [row.link.pose_in_frame @ row.pose for row in rows]
    params = np.array([row.fluid_params for row in rows], np.float64).reshape(n, 12)
    return FluidInfo(
        density=float(medium["density"]),
        viscosity=float(medium["viscosity"]),
        wind=float64_array(medium["wind"]).copy(),
        kinds=[row.kind for row in rows],
        link_idx=np.array([row.link.index for row in rows], np.int32),
        frame_idx=np.array([row.link.frame_idx for row in rows], np.int32),
        pos=np.array([pose.position for pose in poses], np.float64).reshape(n, 3),
        rot=np.array([pose.rotation for pose in poses], np.float64).reshape(n, 3, 3),
        size=np.array([row.size for row in rows], np.float64).reshape(n, 3),
        coefficients=params[:, 1:6],
        added_mass=params[:, 6:9],
        added_inertia=params[:, 9:12],
    )


def _medium_from_files(ctx: BuildContext) -> dict[str, Any]:
    """Density, viscosity and wind of the first entity whose file defines a medium; warns if files disagree."""
    medium: dict[str, Any] | None = None
    vacuum = {"density": 0.0, "viscosity": 0.0, "wind": np.zeros(3)}
    for spec in ctx.entities:
        options = merged_options(spec.description)
        entity_medium = {name: options.get(name, vacuum[name]) for name in MEDIUM_PROPERTIES}
        if not (entity_medium["density"] or entity_medium["viscosity"]):
            continue
        if medium is None:
            medium = entity_medium
        elif any(not np.array_equal(entity_medium[name], medium[name]) for name in MEDIUM_PROPERTIES):
            ctx.diagnostics.warning(
                "sim.fluid",
                f'the file of "{spec.name}" defines another medium than the rest of the scene',
                hint="Scene(density=..., viscosity=..., wind=...) to choose",
                origin=spec.description.origin,
            )
    return medium or vacuum


def _is_affected_by_fluid(ctx: BuildContext, link: LinkRecord) -> bool:
    """Whether the fluid acts on a link: it has mass, and passive forces are enabled for its entity."""
    inertial = link.description.inertial
    passive = option_flags(ctx.entities[link.entity].description).passive_forces
    return passive and inertial is not None and inertial.mass >= MIN_MASS


def _fluid_rows_of_link(ctx: BuildContext, link: LinkRecord) -> list[_FluidRow]:
    """Ellipsoids of the geoms of a link with enabled fluid interaction, or else its inertia box.

    Warns of geoms without an equivalent ellipsoid (meshes, planes).
    """
    shape_params = [(shape, _fluid_params(shape)) for shape in link.description.shapes]
    ellipsoids = [(shape, params) for shape, params in shape_params if params[0] > 0.0]
    if not ellipsoids:
        return [_inertia_box(link)]
    rows = []
    for shape, params in ellipsoids:
        radii = _ellipsoid_radii(shape.geometry)
        if radii is not None:
            rows.append(_FluidRow("ellipsoid", link, shape.pose, radii, params))
            continue
        ctx.diagnostics.warning(
            "sim.fluid",
            f"the medium does not act on {shape_label(ctx, shape, link)}: only primitives have an equivalent ellipsoid",
            origin=shape.origin,
        )
    return rows


def _fluid_params(shape: Shape) -> Array:
    params = shape.attributes.get(mjcf.attribute_key(mjcf.FLUID), ())
    return np.array(params, np.float64) if len(params) == 12 else np.zeros(12)


def _ellipsoid_radii(geometry: Geometry) -> Array | None:
    """Semi-axes [m], shape (3,), of the ellipsoid that approximates a primitive; None for other geometries."""
    match geometry:
        case Sphere():
            return np.full(3, geometry.radius)
        case Ellipsoid():
            return np.array(geometry.radii, np.float64)
        case Capsule():
            return np.array([geometry.radius, geometry.radius, 0.5 * geometry.length + geometry.radius])
        case Cylinder():
            return np.array([geometry.radius, geometry.radius, 0.5 * geometry.length])
        case Box():
            return 0.5 * np.array(geometry.size, np.float64)
    return None


def _inertia_box(link: LinkRecord) -> _FluidRow:
    """Inertia box of a link: the solid box that has the mass and principal moments of inertia of the link.

    The row holds its edge lengths [m] and the pose of the principal axes.
    """
    inertial = link.description.inertial
    assert inertial is not None
    file_axes = link.description.attributes.get(mjcf.attribute_key(mjcf.INERTIA_AXES))
    axes = _principal_axes(inertial.inertia) if file_axes is None else quaternion_to_matrix(file_axes)
    moments = np.diag(rotate_tensor(axes.T, inertial.inertia))
    edge_lengths = np.sqrt(6.0 / inertial.mass * np.maximum(moments.sum() - 2.0 * moments, MINVAL))
    return _FluidRow("box", link, Pose(inertial.center, axes), edge_lengths, np.zeros(12))


def _principal_axes(inertia: Array) -> Array:
    """Principal axes of an inertia tensor as columns of a rotation matrix.

    Identity if the tensor is diagonal up to rounding.
    """
    off = np.abs(inertia - np.diag(np.diag(inertia))).max()
    if off <= OFF_DIAGONAL_TOLERANCE * np.abs(inertia).max():
        return np.eye(3)
    axes = symmetric_eigen(inertia)[1]
    return -axes if determinant3(axes) < 0 else axes
