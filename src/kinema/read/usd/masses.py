"""Mass properties of bodies, by the schema's precedence.

A body's own mass overrides everything; without one, each collider brings its own mass, or its volume times the first
density among the collider's, the body's, its material's and 1000 kg/m3. Zero (and, for the centre, -infinity) means
unset. What is authored of centre and inertia overrides what is computed.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema import shapes
from kinema.description import Inertial, Mesh, combined_inertial, geometry_mass, is_solid
from kinema.foundation import Array, Pose, quaternion_to_matrix, vector

from . import pxr
from .shapes_on_links import StageShape
from .stage_index import Body, StageIndex

DEFAULT_DENSITY = 1000.0
"""[kg/m3]"""


def body_inertial(index: StageIndex, body: Body, parts: Sequence[StageShape]) -> tuple[Inertial | None, bool]:
    """The body's mass, centre and inertia in its link's frame, and whether shapes had a part in it."""
    has_api = "PhysicsMassAPI" in body.prim.GetAppliedSchemas()
    own_mass = _authored_positive(index, body.prim, "physics:mass") if has_api else None
    own_density = _authored_positive(index, body.prim, "physics:density") if has_api else None
    center, inertia = _authored_moments(index, body) if has_api else (None, None)
    if own_mass is not None and center is not None and inertia is not None:
        return Inertial(own_mass * index.units.mass, center, inertia), False
    computed = _from_shapes(index, parts, own_density)
    if own_mass is not None:
        return _with_mass(index, body, own_mass * index.units.mass, computed, center, inertia)
    if computed is None:
        index.diagnostics.warning(
            "usd.no-mass",
            f"body {body.prim.GetName()!r} has neither a mass nor a collider to compute one from",
            hint="apply PhysicsMassAPI with a mass and a diagonalInertia",
            origin=index.origin(body.prim),
        )
        return None, False
    return _override(computed, center, inertia), True


def _with_mass(
    index: StageIndex, body: Body, mass: float, computed: Inertial | None, center: Array | None, inertia: Array | None
) -> tuple[Inertial, bool]:
    """A body whose mass is given: shapes say only how it is distributed."""
    if computed is not None:
        ratio = mass / computed.mass
        scaled = Inertial(mass, computed.center, computed.inertia * ratio)
        return _override(scaled, center, inertia), True
    if inertia is None:
        index.diagnostics.warning(
            "usd.no-inertia",
            f"body {body.prim.GetName()!r} has a mass but no inertia, and no collider to compute one from",
            hint="author physics:diagonalInertia",
            origin=index.origin(body.prim),
        )
    zero = np.zeros(3)
    return Inertial(mass, zero if center is None else center, np.zeros((3, 3)) if inertia is None else inertia), False


def _override(computed: Inertial, center: Array | None, inertia: Array | None) -> Inertial:
    """The computed moments with what is authored in their place."""
    if center is not None:
        away = center - computed.center
        # an authored centre is where the body's mass is said to be: the tensor follows by the parallel axis theorem
        moved = computed.inertia + computed.mass * (away @ away * np.eye(3) - np.outer(away, away))
        computed = Inertial(computed.mass, center, moved)
    return computed if inertia is None else Inertial(computed.mass, computed.center, inertia)


def _authored_moments(index: StageIndex, body: Body) -> tuple[Array | None, Array | None]:
    """The centre in the link's frame [m], and the inertia along its axes [kg m2], where they are authored."""
    center: Array | None = None
    point = index.value(body.prim, "physics:centerOfMass")
    if point is not None and np.isfinite(np.array(point)).all():
        # a point of the body like any other: the body's scale applies to it
        center = body.pose.inverse().apply(body.affine.linear @ vector(point) + body.affine.offset)
    return center, _authored_inertia(index, body.prim)


def _authored_inertia(index: StageIndex, prim: pxr.Prim) -> Array | None:
    full = index.authored(prim, "newton:inertia")
    if full is not None and len(full) == 6:
        xx, yy, zz, xy, xz, yz = (float(v) for v in full)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) * index.units.inertia
    diagonal = index.value(prim, "physics:diagonalInertia")
    if diagonal is None or not np.any(np.array(diagonal)):
        return None
    axes = _rotation(index.value(prim, "physics:principalAxes"))
    return (axes * vector(diagonal)) @ axes.T * index.units.inertia


def _rotation(quaternion: Any) -> Array:
    """A USD quaternion as a matrix; the zero quaternion, which means unset, is the identity."""
    if quaternion is None:
        return np.eye(3)
    return quaternion_to_matrix([quaternion.GetReal(), *quaternion.GetImaginary()])


def _from_shapes(index: StageIndex, parts: Sequence[StageShape], body_density: float | None) -> Inertial | None:
    pieces: list[tuple[shapes.MassProperties, Pose]] = []
    for part in parts:
        if not (part.shape.collision and part.shape.enabled):
            continue
        piece = _collider_mass(index, part, body_density)
        if piece is not None:
            pieces.append((piece, part.shape.pose))
    return combined_inertial(pieces)


def _collider_mass(index: StageIndex, part: StageShape, body_density: float | None) -> shapes.MassProperties | None:
    """What one collider brings, in its own frame."""
    own_mass = _authored_positive(index, part.prim, "physics:mass")
    own_density = _authored_positive(index, part.prim, "physics:density")
    unit = index.units.density
    material = part.shape.surface.density if part.shape.surface is not None else None
    if own_density is not None:
        density = own_density * unit
    elif body_density is not None:
        density = body_density * unit
    else:
        density = material or DEFAULT_DENSITY
    properties = geometry_mass(part.shape.geometry, density)
    if properties is None or properties.mass <= 0:
        return None
    _warn_of_open_mesh(index, part)
    if own_mass is not None:
        ratio = own_mass * index.units.mass / properties.mass
        properties = shapes.MassProperties(properties.mass * ratio, properties.center, properties.inertia * ratio)
    return _with_authored_moments(index, part, properties)


def _with_authored_moments(
    index: StageIndex, part: StageShape, properties: shapes.MassProperties
) -> shapes.MassProperties:
    """A collider may say its own inertia; its centre is a point in its own, scaled, coordinates."""
    if "PhysicsMassAPI" not in part.prim.GetAppliedSchemas():
        return properties
    inertia = _authored_inertia(index, part.prim)
    return properties if inertia is None else shapes.MassProperties(properties.mass, properties.center, inertia)


def _warn_of_open_mesh(index: StageIndex, part: StageShape) -> None:
    geometry = part.shape.geometry
    if not isinstance(geometry, Mesh) or geometry.vertices is None or geometry.faces is None:
        return
    if not is_solid(shapes.MeshData(geometry.vertices, geometry.faces)):
        index.diagnostics.warning(
            "usd.open-mesh",
            f"mesh {part.shape.name!r} is open or inside out; its mass is that of its convex hull",
            hint="close the mesh, or author mass and inertia",
            origin=index.origin(part.prim),
        )


def _authored_positive(index: StageIndex, prim: pxr.Prim, name: str) -> float | None:
    """A mass or density; zero means unset, a negative one is an error and means the same."""
    value = index.value(prim, name)
    if value is None or value == 0:
        return None
    if not np.isfinite(value) or value < 0:
        index.diagnostics.error(
            "usd.bad-mass",
            f"{name.removeprefix('physics:')} of {prim.GetName()!r} is {value:g}; it is taken as not given",
            origin=index.origin(prim),
        )
        return None
    return float(value)
