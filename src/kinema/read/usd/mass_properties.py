"""Mass properties of bodies, by the precedence rules of UsdPhysics.

The mass of a body overrides all else. Without one, each collider contributes its mass, or its volume times the first
density given by the collider, the body, the material, or 1000 kg/m3. Zero (for the centre of mass: -infinity) means
unset. Authored centres of mass and inertias, on the body or a collider, override computed values.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema import geometry as geo
from kinema.core import Array, Pose, float64_array, quaternion_to_matrix, reproducible_product, rotate_tensor
from kinema.description import Inertial, Mesh, encloses_volume, geometry_mass_properties
from kinema.tokens import kinema_usd, newton, usd_physics

from . import pxr
from .kinema_attributes import massless_inertial
from .prim_values import to_floats
from .shapes import StageShape
from .stage_index import Body, StageIndex
from .transforms import Affine, polar_decomposition

DEFAULT_DENSITY = 1000.0
"""Default density [kg/m3]."""
_MASS_ATTRIBUTES = frozenset(
    {usd_physics.CENTER_OF_MASS, usd_physics.DIAGONAL_INERTIA, usd_physics.PRINCIPAL_AXES, newton.INERTIA}
)
DEFAULT_INERTIA_RADIUS = 0.1
"""Radius [m] of the ball that gives the default inertia, as in OpenUSD."""


def body_density(index: StageIndex, body: Body) -> float | None:
    """Authored density of a body [kg/m3]; None if unset."""
    density = (
        index.positive_value(body.prim, usd_physics.DENSITY)
        if usd_physics.MASS_API in index.schemas(body.prim)
        else None
    )
    return None if density is None else density * index.units.density


def body_inertial(
    index: StageIndex, body: Body, stage_shapes: Sequence[StageShape], density: float | None
) -> tuple[Inertial | None, bool]:
    """Mass, centre of mass and inertia of a body in its link frame, and whether shapes contributed."""
    if index.custom_value(body.prim, kinema_usd.MASSLESS):
        return massless_inertial(index, body.prim), False
    has_api = usd_physics.MASS_API in index.schemas(body.prim)
    body_mass = index.positive_value(body.prim, usd_physics.MASS) if has_api else None
    into_link = Affine(body.scale, np.zeros(3))
    center, inertia = _authored_moments(index, body.prim, into_link) if has_api else (None, None)
    if body_mass is not None and center is not None and inertia is not None:
        was_computed = bool(index.custom_value(body.prim, kinema_usd.INERTIA_IS_COMPUTED))
        return Inertial(body_mass * index.units.mass, center, inertia), was_computed
    computed = _inertial_from_shapes(index, stage_shapes, density)
    if body_mass is not None:
        return _inertial_with_mass(index, body, body_mass * index.units.mass, computed, center, inertia)
    if computed is None:
        index.diagnostics.warning(
            "usd.no-mass",
            f"body {body.prim.GetName()!r} has neither a mass nor a collider to compute one from",
            hint="apply PhysicsMassAPI with a mass and a diagonalInertia",
            origin=index.origin(body.prim),
        )
        return None, False
    return _override_moments(computed, center, inertia), True


def _inertial_with_mass(
    index: StageIndex, body: Body, mass: float, computed: Inertial | None, center: Array | None, inertia: Array | None
) -> tuple[Inertial, bool]:
    """Inertial of a body with authored mass: shapes only give the distribution."""
    if computed is not None:
        ratio = mass / computed.mass
        scaled = Inertial(mass, computed.center, computed.inertia * ratio)
        return _override_moments(scaled, center, inertia), True
    if inertia is None:
        index.diagnostics.warning(
            "usd.no-inertia",
            f"body {body.prim.GetName()!r} has a mass but no inertia, and no collider to compute one from; it gets that"
            f" of a ball of {DEFAULT_INERTIA_RADIUS} m radius",
            hint="author physics:diagonalInertia",
            origin=index.origin(body.prim),
        )
        inertia = 0.4 * mass * DEFAULT_INERTIA_RADIUS**2 * np.eye(3)
    return Inertial(mass, np.zeros(3) if center is None else center, inertia), False


def _override_moments(computed: Inertial, center: Array | None, inertia: Array | None) -> Inertial:
    """Computed inertial with authored centre and inertia in place of computed values."""
    if center is not None:
        # the tensor follows an authored centre by the parallel axis theorem
        computed = Inertial(computed.mass, center, _inertia_about(computed, center))
    return computed if inertia is None else Inertial(computed.mass, computed.center, inertia)


def _authored_moments(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> tuple[Array | None, Array | None]:
    """Authored centre of mass [m] and inertia [kg m2] of a prim in its link frame; None where unset.

    Args:
        index: the stage.
        prim: a body or a collider.
        into_link: map from the prim's coordinates to the link frame.
    """
    if _MASS_ATTRIBUTES.isdisjoint(index.values.facts(prim).authored):
        return None, None
    center: Array | None = None
    point = index.value(prim, usd_physics.CENTER_OF_MASS)
    if point is not None and np.isfinite(np.array(point)).all():
        # the scale of the prim applies to the point
        center = reproducible_product(into_link.linear, float64_array(point)) + into_link.offset
    inertia = _authored_inertia(index, prim)
    if inertia is not None:
        inertia = rotate_tensor(polar_decomposition(into_link.linear)[0], inertia)
    return center, inertia


def _authored_inertia(index: StageIndex, prim: pxr.Prim) -> Array | None:
    """Authored inertia tensor in the prim's axes [kg m2]; None if unset."""
    full = index.authored(prim, newton.INERTIA)
    if full is not None and len(full) == 6:
        xx, yy, zz, xy, xz, yz = (float(v) for v in full)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) * index.units.inertia
    diagonal = index.value(prim, usd_physics.DIAGONAL_INERTIA)
    quaternion = index.value(prim, usd_physics.PRINCIPAL_AXES)
    if diagonal is None or not np.any(np.array(diagonal)):
        if quaternion is not None and quaternion.GetLength() > 0:
            index.diagnostics.warning(
                "usd.axes-without-inertia",
                f"principalAxes of {prim.GetName()!r} say nothing without a diagonalInertia; they are ignored",
                hint="author physics:diagonalInertia as well",
                origin=index.origin(prim),
            )
        return None
    if quaternion is None or quaternion.GetLength() == 0:
        index.diagnostics.note(
            "usd.inertia-without-axes",
            f"the diagonalInertia of {prim.GetName()!r} comes without principalAxes; it is taken along the prim's own",
            hint="author physics:principalAxes, (1, 0, 0, 0) for the prim's own: OpenUSD calls it invalid otherwise",
            origin=index.origin(prim),
        )
    axes = _quaternion_matrix(quaternion)
    return reproducible_product(axes * float64_array(diagonal), axes.T) * index.units.inertia


def _quaternion_matrix(quaternion: Any) -> Array:
    """Rotation matrix of a USD quaternion; identity for the zero quaternion (unset)."""
    if quaternion is None:
        return np.eye(3)
    return quaternion_to_matrix([quaternion.GetReal(), *to_floats(quaternion.GetImaginary())])


def _inertial_from_shapes(
    index: StageIndex, stage_shapes: Sequence[StageShape], density: float | None
) -> Inertial | None:
    colliders = [part for part in stage_shapes if part.shape.collision and part.shape.enabled]
    inertials = [_collider_inertial(index, part, density) for part in colliders]
    return _combine_inertials([piece for piece in inertials if piece is not None])


def _collider_inertial(index: StageIndex, stage_shape: StageShape, body_density: float | None) -> Inertial | None:
    """Inertial of one collider in its link frame; None without mass."""
    mass = stage_shape.shape.mass
    computed = _inertial_from_geometry(index, stage_shape, body_density)
    if mass is not None:
        if computed is None:  # no volume: point mass
            computed = Inertial(mass, stage_shape.into_link.offset, np.zeros((3, 3)))
        else:
            computed = Inertial(mass, computed.center, computed.inertia * (mass / computed.mass))
    if computed is None or usd_physics.MASS_API not in index.schemas(stage_shape.prim):
        return computed
    return _override_moments(computed, *_authored_moments(index, stage_shape.prim, stage_shape.into_link))


def _inertial_from_geometry(index: StageIndex, stage_shape: StageShape, body_density: float | None) -> Inertial | None:
    """Inertial of a collider filled with the applicable density; None without volume."""
    material = stage_shape.shape.surface.density if stage_shape.shape.surface is not None else None
    density = stage_shape.shape.density or body_density or material or DEFAULT_DENSITY
    properties = geometry_mass_properties(stage_shape.shape.geometry, density)
    if properties is None or properties.mass <= 0:
        return None
    _warn_open_mesh(index, stage_shape)
    return _transformed_inertial(properties, stage_shape.shape.pose)


def _transformed_inertial(properties: geo.MassProperties, pose: Pose) -> Inertial:
    turned = rotate_tensor(pose.rotation, properties.inertia)
    return Inertial(properties.mass, pose.apply(properties.center), (turned + turned.T) / 2)


def _combine_inertials(inertials: Sequence[Inertial]) -> Inertial | None:
    """Combined inertial; None for an empty sequence."""
    if len(inertials) < 2:
        return inertials[0] if inertials else None
    mass = float(np.sum([piece.mass for piece in inertials]))  # sum() rounds otherwise since Python 3.12
    center = np.add.reduce([piece.mass * piece.center for piece in inertials]) / mass
    inertia = np.add.reduce([_inertia_about(piece, center) for piece in inertials])
    return Inertial(mass, center, inertia)


def _inertia_about(inertial: Inertial, point: Array) -> Array:
    """Inertia of a body about a point (parallel axis theorem)."""
    x, y, z = (inertial.center - point).tolist()
    m = inertial.mass
    offset = [[y * y + z * z, -x * y, -x * z], [-x * y, x * x + z * z, -y * z], [-x * z, -y * z, x * x + y * y]]
    return inertial.inertia + m * np.array(offset)


def _warn_open_mesh(index: StageIndex, stage_shape: StageShape) -> None:
    """Warn if a mesh does not enclose a volume, so that its convex hull is used."""
    geometry = stage_shape.shape.geometry
    if not isinstance(geometry, Mesh) or geometry.vertices is None or geometry.faces is None:
        return
    if not encloses_volume(geo.MeshData(geometry.vertices, geometry.faces)):
        index.diagnostics.warning(
            "usd.open-mesh",
            f"mesh {stage_shape.shape.name!r} is open or inside out; its mass is that of its convex hull",
            hint="close the mesh, or author mass and inertia",
            origin=index.origin(stage_shape.prim),
        )
