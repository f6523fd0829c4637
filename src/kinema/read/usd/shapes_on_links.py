"""From gprims to the shapes of links and of the world."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from kinema.description import Geometry, Mesh, Plane, Shape, VisualMaterial
from kinema.words import mjc, newton, ours, physics, usd

from . import pxr
from .around import with_images_around
from .geometry import GeometryError, Placed, approximation, place_geometry
from .materials import Materials, check_bindings
from .mesh_looks import MeshLooks
from .own_settings import own
from .polar import Affine, is_singular
from .stage_index import Body, StageIndex
from .vendor import apply_shape_settings

SITE_SCHEMAS = frozenset({mjc.SITE_API, newton.SITE_API})
"""Marks of a shape that stands for a frame and is neither seen nor touched."""
_SEEN_PURPOSES = ("default", "render")
"""Purposes that are meant to be looked at; `proxy` stands in for `render`, `guide` helps the author."""


@dataclasses.dataclass(slots=True, eq=False)
class StageShape:
    """A shape with the prim it comes from and the body it belongs to."""

    shape: Shape
    prim: pxr.Prim
    body: Body | None
    into_link: Affine
    """From the prim's own coordinates into its link's frame (the world's, for scenery)."""


def read_shapes(index: StageIndex) -> list[StageShape]:
    """Every shape of the stage."""
    result: list[StageShape] = []
    check_bindings(index)
    materials = Materials(index, index.gprims)
    looks = MeshLooks(index, materials)
    owners = [index.owner(prim) for prim in index.gprims]
    for prim, body, into_link in zip(index.gprims, owners, _into_links(index, owners), strict=True):
        found = read_shape(index, prim, body, into_link, looks)
        if found is not None:
            result.append(found)
    return result


def read_shape(
    index: StageIndex, prim: pxr.Prim, body: Body | None, into_link: Affine, looks: MeshLooks
) -> StageShape | None:
    """One shape; None, with a diagnostic where that is worth one, for what cannot be one.

    Args:
        index: the stage.
        prim: a Gprim.
        body: the body it belongs to; None for scenery.
        into_link: from the prim's own coordinates into its link's frame (the world's, for scenery).
        looks: those of the stage's meshes.
    """
    schemas = index.schemas(prim)
    is_collider = physics.COLLISION_API in schemas
    seen = _is_seen(index, prim)
    if schemas & SITE_SCHEMAS or not (is_collider or seen or _is_used(index, prim)):
        return None
    placed = _place(index, prim, into_link, is_collider)
    if placed is None:
        return None
    geometry = placed.geometry
    wanted = approximation(index, prim)
    if isinstance(geometry, Mesh) and wanted is not None:
        geometry = dataclasses.replace(geometry, approximation=wanted)
    if seen and isinstance(geometry, Mesh) and index.values.facts(prim).kind.type == usd.MESH:
        geometry = dataclasses.replace(geometry, appearance=looks.of(prim, into_link))
    material = looks.materials.look(prim)
    if seen and isinstance(geometry, Mesh) and material is not None and material.image_color is not None:
        geometry, material = with_images_around(index, prim, geometry, material, into_link)
    if seen and index.authored(prim, usd.DOUBLE_SIDED):
        material, geometry = _on_both_sides(material, geometry)
    enabled = is_collider and index.value(prim, physics.COLLISION_ENABLED) is not False
    shape = Shape(
        origin=index.origin(prim),
        geometry=geometry,
        pose=placed.pose,
        visual=seen,
        collision=is_collider,
        enabled=enabled or not is_collider,
        material=material,
        surface=looks.materials.surface(prim) if is_collider else None,
    )
    if is_collider and physics.MASS_API in schemas:
        mass, density = index.positive(prim, physics.MASS), index.positive(prim, physics.DENSITY)
        shape.mass = None if mass is None else mass * index.units.mass
        shape.density = None if density is None else density * index.units.density
    apply_shape_settings(index, prim, shape)
    if isinstance(geometry, Plane) and body is not None and is_collider:
        index.diagnostics.warning(
            "usd.plane-on-body",
            f"collider {prim.GetName()!r} is an infinite plane on a moving body",
            origin=index.origin(prim),
        )
    return StageShape(shape, prim, body, into_link)


def _on_both_sides(material: VisualMaterial | None, geometry: Geometry) -> tuple[VisualMaterial | None, Geometry]:
    """A shape's materials as those of a surface that is seen from both sides, which USD says of the shape."""
    if material is not None:
        material = dataclasses.replace(material, double_sided=True)
    if isinstance(geometry, Mesh) and geometry.appearance is not None and geometry.appearance.materials:
        looks = tuple(dataclasses.replace(look, double_sided=True) for look in geometry.appearance.materials)
        appearance = dataclasses.replace(geometry.appearance, materials=looks)
        geometry = dataclasses.replace(geometry, appearance=appearance)
    return material, geometry


def _into_links(index: StageIndex, owners: Sequence[Body | None]) -> Iterator[Affine]:
    """For each gprim of the stage: from its coordinates into its link's frame (the world's, for scenery)."""
    linears, offsets = index.worlds(index.gprims)
    upright, centre = np.eye(3), np.zeros(3)
    turns = np.array([upright if body is None else body.pose.rotation for body in owners]).reshape(-1, 3, 3)
    places = np.array([centre if body is None else body.pose.position for body in owners]).reshape(-1, 3)
    linears = np.swapaxes(turns, 1, 2) @ linears
    offsets = ((offsets - places)[:, None, :] @ turns)[:, 0, :]
    return map(Affine, linears, offsets)


def into_link(world: Affine, body: Body | None) -> Affine:
    """From a prim's coordinates into its link's frame (the world's, for scenery)."""
    if body is None:
        return world
    back = body.pose.rotation.T
    return Affine(back @ world.linear, back @ (world.offset - body.pose.position))


def _place(index: StageIndex, prim: pxr.Prim, into_link: Affine, is_collider: bool) -> Placed | None:
    facts = index.values.facts(prim)
    name, kind = facts.path.rpartition("/")[2], facts.kind.type
    if not into_link.is_finite:
        _complain(index, prim, "usd.transform-not-finite", f"the transform of shape {name!r} holds NaN or infinity")
        return None
    if is_singular(into_link.linear):
        _complain(index, prim, "usd.zero-scale", f"shape {name!r} is scaled to nothing in some direction")
        return None
    try:
        placed = place_geometry(index, prim, into_link)
    except GeometryError as error:
        _complain(index, prim, "usd.bad-geometry", f"shape {name!r} ({kind}) is left out: {error}")
        return None
    if placed is None:
        report = index.diagnostics.warning if is_collider else index.diagnostics.note
        message = f"{name!r} is a {kind}, which has no place in the description; it is left out"
        report("usd.unsupported-geometry", message, origin=index.origin(prim))
    elif placed.became_mesh:
        message = f"{placed.became_mesh} {name!r} is scaled so that it is none any more; it becomes a mesh"
        index.diagnostics.note("usd.primitive-to-mesh", message, origin=index.origin(prim))
    return placed


def _complain(index: StageIndex, prim: pxr.Prim, code: str, message: str) -> None:
    index.diagnostics.error(code, message, origin=index.origin(prim))


def _is_used(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether something that is neither seen nor touched is there for a purpose: a tendon that wraps around it."""
    return bool(own(index, prim, ours.UNSEEN)) or index.values.facts(prim).path in index.wrapped


def _is_seen(index: StageIndex, prim: pxr.Prim) -> bool:
    if not index.values.may_be_hidden(prim):
        return True
    imageable = pxr.UsdGeom.Imageable(prim)
    if str(imageable.ComputePurpose()) not in _SEEN_PURPOSES:
        return False
    return str(imageable.ComputeVisibility(index.time)) != "invisible"
