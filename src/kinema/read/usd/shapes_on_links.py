"""From gprims to the shapes of links and of the world."""

from __future__ import annotations

import dataclasses

from kinema.description import Mesh, Plane, Shape

from . import pxr
from .geometry import GeometryError, Placed, approximation, place_geometry
from .materials import Materials
from .polar import Affine, is_singular
from .stage_index import Body, StageIndex

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
    materials = Materials(index, index.gprims)
    for prim in index.gprims:
        found = read_shape(index, prim, index.owner(prim), index.world(prim), materials)
        if found is not None:
            result.append(found)
    return result


def read_shape(
    index: StageIndex, prim: pxr.Prim, body: Body | None, world: Affine, materials: Materials
) -> StageShape | None:
    """One shape; None, with a diagnostic where that is worth one, for what cannot be one."""
    schemas = index.schemas(prim)
    is_collider = "PhysicsCollisionAPI" in schemas
    seen = _is_seen(index, prim)
    if not is_collider and not seen:
        return None
    into_link = _into_link(world, body)
    placed = _place(index, prim, into_link, is_collider)
    if placed is None:
        return None
    geometry = placed.geometry
    wanted = approximation(index, prim)
    if isinstance(geometry, Mesh) and wanted is not None:
        geometry = dataclasses.replace(geometry, approximation=wanted)
    enabled = is_collider and index.value(prim, "physics:collisionEnabled") is not False
    shape = Shape(
        origin=index.origin(prim),
        geometry=geometry,
        pose=placed.pose,
        visual=seen,
        collision=is_collider,
        enabled=enabled or not is_collider,
        material=materials.look(prim),
        surface=materials.surface(prim) if is_collider else None,
    )
    if is_collider and "PhysicsMassAPI" in schemas:
        mass, density = index.positive(prim, "physics:mass"), index.positive(prim, "physics:density")
        shape.mass = None if mass is None else mass * index.units.mass
        shape.density = None if density is None else density * index.units.density
    if isinstance(geometry, Plane) and body is not None and is_collider:
        index.diagnostics.warning(
            "usd.plane-on-body",
            f"collider {prim.GetName()!r} is an infinite plane on a moving body",
            origin=index.origin(prim),
        )
    return StageShape(shape, prim, body, into_link)


def _into_link(world: Affine, body: Body | None) -> Affine:
    """From the prim's coordinates into its link's frame (the world's, for scenery)."""
    if body is None:
        return world
    back = body.pose.inverse()
    return Affine(back.rotation, back.position) @ world


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


def _is_seen(index: StageIndex, prim: pxr.Prim) -> bool:
    if not index.values.some_hidden:
        return True
    imageable = pxr.UsdGeom.Imageable(prim)
    if str(imageable.ComputePurpose()) not in _SEEN_PURPOSES:
        return False
    return str(imageable.ComputeVisibility(index.time)) != "invisible"
