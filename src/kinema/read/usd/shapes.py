"""Converts gprims to the shapes of links and of the world."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator, Sequence

import numpy as np

from kinema.core import reproducible_product
from kinema.description import Geometry, Mesh, Plane, Shape, VisualMaterial
from kinema.tokens import kinema_usd, mjc, newton, usd, usd_physics

from . import pxr
from .geometry import PlacedGeometry, PrimGeometryError, read_approximation, read_geometry
from .materials import MaterialBindings, check_bindings
from .mesh_appearance import MeshAppearances, restore_cube_map_projection
from .stage_index import Body, StageIndex
from .transforms import Affine, is_singular
from .vendor_schemas import apply_shape_attributes

SITE_SCHEMAS = frozenset({mjc.SITE_API, newton.SITE_API})
"""Schemas of shapes that represent frames, neither visible nor colliding."""
_VISIBLE_PURPOSES = ("default", "render")
"""Purposes of visible geometry (`proxy` substitutes `render`, `guide` is for authoring)."""


@dataclasses.dataclass(slots=True, eq=False)
class StageShape:
    """A shape with its prim and body."""

    shape: Shape
    prim: pxr.Prim
    body: Body | None
    into_link: Affine
    """Map from the prim's coordinates to the link frame (the world for scenery)."""


def read_shapes(index: StageIndex) -> list[StageShape]:
    """All shapes of the stage."""
    result: list[StageShape] = []
    check_bindings(index)
    materials = MaterialBindings(index, index.gprims)
    appearances = MeshAppearances(index, materials)
    owners = [index.owner_body(prim) for prim in index.gprims]
    for prim, body, into_link in zip(index.gprims, owners, _transforms_into_links(index, owners), strict=True):
        found = read_shape(index, prim, body, into_link, appearances)
        if found is not None:
            result.append(found)
    return result


def read_shape(
    index: StageIndex, prim: pxr.Prim, body: Body | None, into_link: Affine, appearances: MeshAppearances
) -> StageShape | None:
    """Convert a gprim to a shape; None for sites, hidden non-colliders and unsupported geometry.

    Args:
        index: the stage.
        prim: a Gprim.
        body: body of the prim; None for scenery.
        into_link: map from the prim's coordinates to the link frame (the world for scenery).
        appearances: appearances of meshes.
    """
    schemas = index.schemas(prim)
    is_collider = usd_physics.COLLISION_API in schemas
    is_visible = _is_visible(index, prim)
    if schemas & SITE_SCHEMAS or not (is_collider or is_visible or _is_wrapped_by_tendon(index, prim)):
        return None
    placed = _read_placed_geometry(index, prim, into_link, is_collider)
    if placed is None:
        return None
    geometry = placed.geometry
    approximation = read_approximation(index, prim)
    if isinstance(geometry, Mesh) and approximation is not None:
        geometry = dataclasses.replace(geometry, approximation=approximation)
    if is_visible and isinstance(geometry, Mesh) and index.values.facts(prim).kind.type == usd.MESH:
        geometry = dataclasses.replace(geometry, appearance=appearances.appearance(prim, into_link))
    material = appearances.materials.visual_material(prim)
    if is_visible and isinstance(geometry, Mesh) and material is not None and material.mean_texture_color is not None:
        geometry, material = restore_cube_map_projection(index, prim, geometry, material, into_link)
    if is_visible and index.authored(prim, usd.DOUBLE_SIDED):
        material, geometry = _as_double_sided(material, geometry)
    enabled = is_collider and index.value(prim, usd_physics.COLLISION_ENABLED) is not False
    shape = Shape(
        origin=index.origin(prim),
        geometry=geometry,
        pose=placed.pose,
        visual=is_visible,
        collision=is_collider,
        enabled=enabled or not is_collider,
        material=material,
        surface=appearances.materials.physics_material(prim) if is_collider else None,
    )
    if is_collider and usd_physics.MASS_API in schemas:
        mass, density = index.positive_value(prim, usd_physics.MASS), index.positive_value(prim, usd_physics.DENSITY)
        shape.mass = None if mass is None else mass * index.units.mass
        shape.density = None if density is None else density * index.units.density
    apply_shape_attributes(index, prim, shape)
    if isinstance(geometry, Plane) and body is not None and is_collider:
        index.diagnostics.warning(
            "usd.plane-on-body",
            f"collider {prim.GetName()!r} is an infinite plane on a moving body",
            origin=index.origin(prim),
        )
    return StageShape(shape, prim, body, into_link)


def _as_double_sided(material: VisualMaterial | None, geometry: Geometry) -> tuple[VisualMaterial | None, Geometry]:
    """Material and geometry with all materials double-sided (in USD a property of the shape)."""
    if material is not None:
        material = dataclasses.replace(material, double_sided=True)
    if isinstance(geometry, Mesh) and geometry.appearance is not None and geometry.appearance.materials:
        materials = tuple(dataclasses.replace(look, double_sided=True) for look in geometry.appearance.materials)
        appearance = dataclasses.replace(geometry.appearance, materials=materials)
        geometry = dataclasses.replace(geometry, appearance=appearance)
    return material, geometry


def _transforms_into_links(index: StageIndex, owners: Sequence[Body | None]) -> Iterator[Affine]:
    """Maps from the coordinates of each gprim to its link frame (the world for scenery)."""
    linears, offsets = index.world_transforms(index.gprims)
    identity, zero = np.eye(3), np.zeros(3)
    rotations = np.array([identity if body is None else body.pose.rotation for body in owners]).reshape(-1, 3, 3)
    positions = np.array([zero if body is None else body.pose.position for body in owners]).reshape(-1, 3)
    linears = reproducible_product(np.swapaxes(rotations, 1, 2), linears)
    offsets = reproducible_product((offsets - positions)[:, None, :], rotations)[:, 0, :]
    return map(Affine, linears, offsets)


def transform_into_link(world_transform: Affine, body: Body | None) -> Affine:
    """Map from a prim's coordinates to its link frame (the world for scenery)."""
    if body is None:
        return world_transform
    back = body.pose.rotation.T
    offset = reproducible_product(back, world_transform.offset - body.pose.position)
    return Affine(reproducible_product(back, world_transform.linear), offset)


def _read_placed_geometry(
    index: StageIndex, prim: pxr.Prim, into_link: Affine, is_collider: bool
) -> PlacedGeometry | None:
    """Geometry and pose of a prim in its link frame; None with a diagnostic if invalid or unsupported."""
    facts = index.values.facts(prim)
    name, kind = facts.path.rpartition("/")[2], facts.kind.type
    if not into_link.is_finite:
        _report_error(index, prim, "usd.transform-not-finite", f"the transform of shape {name!r} holds NaN or infinity")
        return None
    if is_singular(into_link.linear):
        _report_error(index, prim, "usd.zero-scale", f"shape {name!r} is scaled to nothing in some direction")
        return None
    try:
        placed = read_geometry(index, prim, into_link)
    except PrimGeometryError as error:
        _report_error(index, prim, "usd.bad-geometry", f"shape {name!r} ({kind}) is left out: {error}")
        return None
    if placed is None:
        report = index.diagnostics.warning if is_collider else index.diagnostics.note
        message = f"{name!r} is a {kind}, which has no place in the description; it is left out"
        report("usd.unsupported-geometry", message, origin=index.origin(prim))
    elif placed.became_mesh:
        message = f"{placed.became_mesh} {name!r} is scaled so that it is none any more; it becomes a mesh"
        index.diagnostics.note("usd.primitive-to-mesh", message, origin=index.origin(prim))
    return placed


def _report_error(index: StageIndex, prim: pxr.Prim, code: str, message: str) -> None:
    index.diagnostics.error(code, message, origin=index.origin(prim))


def _is_wrapped_by_tendon(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether an invisible non-collider is kept, because a tendon wraps around it or Kinema marked it."""
    return (
        bool(index.custom_value(prim, kinema_usd.NON_VISUAL_NON_COLLISION))
        or index.values.facts(prim).path in index.tendon_wrapped_paths
    )


def _is_visible(index: StageIndex, prim: pxr.Prim) -> bool:
    if not index.values.may_be_hidden(prim):
        return True
    imageable = pxr.UsdGeom.Imageable(prim)
    if str(imageable.ComputePurpose()) not in _VISIBLE_PURPOSES:
        return False
    return str(imageable.ComputeVisibility(index.time)) != "invisible"
