"""Mass properties of bodies, by the schema's precedence.

A body's own mass overrides everything; without one, each collider brings its own mass, or its volume times the first
density among the collider's, the body's, its material's and 1000 kg/m3. Zero (and, for the centre, -infinity) means
unset. What is authored of centre and inertia, on the body or on a collider, overrides what is computed there.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema import shapes
from kinema.description import Inertial, Mesh, geometry_mass, is_solid
from kinema.foundation import Array, Pose, quaternion_to_matrix, vector
from kinema.words import newton, ours, physics

from . import pxr
from .gf_values import floats
from .own_names import weightless
from .own_settings import own
from .polar import Affine, polar
from .shapes_on_links import StageShape
from .stage_index import Body, StageIndex

DEFAULT_DENSITY = 1000.0
"""[kg/m3]"""
_MOMENTS = frozenset({physics.CENTER_OF_MASS, physics.DIAGONAL_INERTIA, physics.PRINCIPAL_AXES, newton.INERTIA})
STAND_IN_RADIUS = 0.1
"""Radius [m] of the ball whose inertia stands in for one that is neither authored nor to be computed: OpenUSD's."""


def body_density(index: StageIndex, body: Body) -> float | None:
    """The density [kg/m3] that the body asks for."""
    density = index.positive(body.prim, physics.DENSITY) if physics.MASS_API in index.schemas(body.prim) else None
    return None if density is None else density * index.units.density


def body_inertial(
    index: StageIndex, body: Body, parts: Sequence[StageShape], density: float | None
) -> tuple[Inertial | None, bool]:
    """The body's mass, centre and inertia in its link's frame, and whether shapes had a part in it."""
    if own(index, body.prim, ours.MASSLESS):
        return weightless(index, body.prim), False
    has_api = physics.MASS_API in index.schemas(body.prim)
    own_mass = index.positive(body.prim, physics.MASS) if has_api else None
    into_link = Affine(body.scale, np.zeros(3))
    center, inertia = _authored_moments(index, body.prim, into_link) if has_api else (None, None)
    if own_mass is not None and center is not None and inertia is not None:
        was_computed = bool(own(index, body.prim, ours.INERTIA_IS_COMPUTED))
        return Inertial(own_mass * index.units.mass, center, inertia), was_computed
    computed = _from_shapes(index, parts, density)
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
            f"body {body.prim.GetName()!r} has a mass but no inertia, and no collider to compute one from; it gets that"
            f" of a ball of {STAND_IN_RADIUS} m radius",
            hint="author physics:diagonalInertia",
            origin=index.origin(body.prim),
        )
        inertia = 0.4 * mass * STAND_IN_RADIUS**2 * np.eye(3)
    return Inertial(mass, np.zeros(3) if center is None else center, inertia), False


def _override(computed: Inertial, center: Array | None, inertia: Array | None) -> Inertial:
    """The computed moments with what is authored in their place."""
    if center is not None:
        # an authored centre is where the body's mass is said to be: the tensor follows by the parallel axis theorem
        computed = Inertial(computed.mass, center, _about(computed, center))
    return computed if inertia is None else Inertial(computed.mass, computed.center, inertia)


def _authored_moments(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> tuple[Array | None, Array | None]:
    """The centre in the link's frame [m], and the inertia along its axes [kg m2], where they are authored.

    Args:
        index: the stage.
        prim: a body or a collider.
        into_link: from the prim's own coordinates into its link's frame.
    """
    if _MOMENTS.isdisjoint(index.values.facts(prim).authored):
        return None, None
    center: Array | None = None
    point = index.value(prim, physics.CENTER_OF_MASS)
    if point is not None and np.isfinite(np.array(point)).all():
        # a point of the prim like any other: its scale applies to it
        center = into_link.linear @ vector(point) + into_link.offset
    inertia = _authored_inertia(index, prim)
    if inertia is not None:
        turn = polar(into_link.linear)[0]
        inertia = turn @ inertia @ turn.T
    return center, inertia


def _authored_inertia(index: StageIndex, prim: pxr.Prim) -> Array | None:
    full = index.authored(prim, newton.INERTIA)
    if full is not None and len(full) == 6:
        xx, yy, zz, xy, xz, yz = (float(v) for v in full)
        return np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]) * index.units.inertia
    diagonal = index.value(prim, physics.DIAGONAL_INERTIA)
    quaternion = index.value(prim, physics.PRINCIPAL_AXES)
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
    axes = _rotation(quaternion)
    return (axes * vector(diagonal)) @ axes.T * index.units.inertia


def _rotation(quaternion: Any) -> Array:
    """A USD quaternion as a matrix; the zero quaternion, which means unset, is the identity."""
    if quaternion is None:
        return np.eye(3)
    return quaternion_to_matrix([quaternion.GetReal(), *floats(quaternion.GetImaginary())])


def _from_shapes(index: StageIndex, parts: Sequence[StageShape], density: float | None) -> Inertial | None:
    colliders = [part for part in parts if part.shape.collision and part.shape.enabled]
    pieces = [_collider_mass(index, part, density) for part in colliders]
    return _combined([piece for piece in pieces if piece is not None])


def _collider_mass(index: StageIndex, part: StageShape, body_density: float | None) -> Inertial | None:
    """What one collider brings, in its link's frame."""
    mass = part.shape.mass
    computed = _from_geometry(index, part, body_density)
    if mass is not None:
        if computed is None:  # it has no volume, so that its mass is in a point
            computed = Inertial(mass, part.into_link.offset, np.zeros((3, 3)))
        else:
            computed = Inertial(mass, computed.center, computed.inertia * (mass / computed.mass))
    if computed is None or physics.MASS_API not in index.schemas(part.prim):
        return computed
    return _override(computed, *_authored_moments(index, part.prim, part.into_link))


def _from_geometry(index: StageIndex, part: StageShape, body_density: float | None) -> Inertial | None:
    """A collider's volume filled with the density that applies; None where it has none."""
    material = part.shape.surface.density if part.shape.surface is not None else None
    density = part.shape.density or body_density or material or DEFAULT_DENSITY
    properties = geometry_mass(part.shape.geometry, density)
    if properties is None or properties.mass <= 0:
        return None
    _warn_of_open_mesh(index, part)
    return _posed(properties, part.shape.pose)


def _posed(properties: shapes.MassProperties, pose: Pose) -> Inertial:
    turned = pose.rotation @ properties.inertia @ pose.rotation.T
    return Inertial(properties.mass, pose.apply(properties.center), (turned + turned.T) / 2)


def _combined(pieces: Sequence[Inertial]) -> Inertial | None:
    """All pieces together; None for none."""
    if len(pieces) < 2:
        return pieces[0] if pieces else None
    mass = sum(piece.mass for piece in pieces)
    center = np.add.reduce([piece.mass * piece.center for piece in pieces]) / mass
    inertia = np.add.reduce([_about(piece, center) for piece in pieces])
    return Inertial(mass, center, inertia)


def _about(piece: Inertial, point: Array) -> Array:
    """The inertia of a piece about a point (the parallel axis theorem)."""
    x, y, z = (piece.center - point).tolist()
    m = piece.mass
    offset = [[y * y + z * z, -x * y, -x * z], [-x * y, x * x + z * z, -y * z], [-x * z, -y * z, x * x + y * y]]
    return piece.inertia + m * np.array(offset)


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
