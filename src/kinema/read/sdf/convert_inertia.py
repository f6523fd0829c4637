"""Mass, centre and inertia of a link: as written, the format's default, or computed from its collisions."""

from __future__ import annotations

import numpy as np

from kinema.description import (
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    Inertial,
    Mesh,
    Shape,
    Sphere,
    mesh_data,
)
from kinema.foundation import Diagnostics
from kinema.shapes import (
    MassProperties,
    ShapeError,
    box_mass,
    capsule_mass,
    combine,
    cone_mass,
    cylinder_mass,
    ellipsoid_mass,
    mesh_mass_properties,
    mesh_quality,
    sphere_mass,
    transform,
)
from kinema.words import sdf

from .elements import InertialElement, LinkElement

WATER = 1000.0
"""Density [kg/m3] of a collision that does not say."""


def written_inertial(element: InertialElement) -> Inertial:
    """As the file says, with the tensor turned into the link's axes."""
    turn = element.pose.rotation
    tensor = turn @ element.inertia @ turn.T
    return Inertial(element.mass, element.pose.position.copy(), (tensor + tensor.T) / 2.0)


def default_inertial() -> Inertial:
    """What a link without `<inertial>` has."""
    return Inertial(1.0, np.zeros(3), np.eye(3))


def computed_inertial(link: LinkElement, collisions: list[Shape], diagnostics: Diagnostics) -> Inertial:
    """From the densities of the collisions; a mass that the file gives is kept and the rest scaled to it."""
    element = link.inertial
    assert element is not None
    pieces: list[MassProperties] = []
    for shape in collisions:
        density = next(d for d in (shape.density, element.density, WATER) if d is not None)
        try:
            piece = _mass(shape.geometry, density)
        except ShapeError as error:
            problem = f'collision "{shape.name}" of link "{link.name}" adds nothing to the computed inertia: {error}'
            diagnostics.error(f"{sdf.FORMAT}.auto-inertia", problem, origin=shape.origin)
            continue
        if piece is None:
            problem = f'collision "{shape.name}" of link "{link.name}" has no volume and adds no mass'
            diagnostics.warning(f"{sdf.FORMAT}.auto-inertia", problem, origin=shape.origin)
            continue
        _report_open_mesh(link, shape, diagnostics)
        pieces.append(transform(piece, shape.pose.rotation, shape.pose.position))
    total = combine(pieces)
    if not total.mass > 0.0:
        problem = f'link "{link.name}" asks for a computed inertia, but its collisions have no mass'
        hint = "1 kg and 1 kg m2 about every axis are assumed"
        diagnostics.error(f"{sdf.FORMAT}.auto-inertia", problem, hint=hint, origin=element.origin)
        return default_inertial()
    scale = element.mass / total.mass if element.mass_is_given else 1.0
    return Inertial(total.mass * scale, total.center, total.inertia * scale)


def _mass(geometry: Geometry, density: float) -> MassProperties | None:
    match geometry:
        case Box():
            return box_mass(geometry.size, density)
        case Sphere():
            return sphere_mass(geometry.radius, density)
        case Ellipsoid():
            return ellipsoid_mass(geometry.radii, density)
        case Capsule():
            return capsule_mass(geometry.radius, geometry.length, density)
        case Cylinder():
            return cylinder_mass(geometry.radius, geometry.length, density)
        case Cone():
            return cone_mass(geometry.radius, geometry.length, density)
        case Mesh():
            return _mesh_mass(geometry, density)
        case _:
            return None


def _mesh_mass(geometry: Mesh, density: float) -> MassProperties | None:
    """Of what the mesh encloses; faces that point inward enclose it all the same."""
    data = mesh_data(geometry)
    if data is None:
        return None
    solid = mesh_mass_properties(data, density)
    return solid if solid.mass >= 0.0 else MassProperties(-solid.mass, solid.center, -solid.inertia)


def _report_open_mesh(link: LinkElement, shape: Shape, diagnostics: Diagnostics) -> None:
    if not isinstance(shape.geometry, Mesh):
        return
    data = mesh_data(shape.geometry)
    if data is not None and not mesh_quality(data).is_balanced:
        problem = f'the mesh of collision "{shape.name}" of link "{link.name}" is not closed; its mass is a guess'
        diagnostics.warning(f"{sdf.FORMAT}.auto-inertia", problem, origin=shape.origin)
