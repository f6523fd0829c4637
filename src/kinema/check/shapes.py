"""Rules about sizes and materials of shapes, and about mesh files and mesh quality."""

from __future__ import annotations

import math
from collections.abc import Hashable, Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

import numpy as np

from kinema.core import Severity
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Link,
    Mesh,
    Plane,
    Shape,
    Sphere,
)

from .context import CheckContext
from .hulls import MeshAnalysis
from .messages import format_length, format_names, format_number, label, pluralize, shape_label
from .rule import Finding, rule

# -------------------------------------------------------------------------------------------------- sizes and materials


@rule("shapes.size", Severity.ERROR)
def nonpositive_size(context: CheckContext) -> Iterable[Finding]:
    """A size of a shape is zero or negative.

    It is a warning on a shape that is only seen. A mesh's scale may be negative, which mirrors it, but not zero.
    """
    for shape, link in context.shapes:
        for what, value in _nonpositive_sizes(shape.geometry):
            severity = None if shape.collision else Severity.WARNING
            message = f"{shape_label(shape, link)} has a {what} of {format_number(value)}"
            yield Finding(shape, message, "give a size above zero", severity)


def _nonpositive_sizes(geometry: Geometry) -> list[tuple[str, float]]:
    match geometry:
        case Box():
            sizes = [("size", v) for v in geometry.size]
        case Sphere():
            sizes = [("radius", geometry.radius)]
        case Ellipsoid():
            sizes = [("radius", v) for v in geometry.radii]
        case Capsule():
            # a capsule without a straight part is a sphere, and fine
            length = [("length", geometry.length)] if geometry.length != 0 else []
            sizes = [("radius", geometry.radius), *length]
        case Cylinder() | Cone():
            sizes = [("radius", geometry.radius), ("length", geometry.length)]
        case Plane():
            sizes = [("size", v) for v in geometry.size or ()]
        case HeightField():
            sizes = [("size", v) for v in geometry.size]
        case Mesh():
            return [("scale", float(v)) for v in geometry.scale if v == 0]
    return [(what, float(v)) for what, v in sizes if v <= 0]


@rule("shapes.terrain", Severity.ERROR)
def invalid_height_field(context: CheckContext) -> Iterable[Finding]:
    """A height field has fewer than two rows or columns, or reaches below its own base."""
    for shape, link in context.shapes:
        field = shape.geometry
        if not isinstance(field, HeightField):
            continue
        if field.heights.ndim != 2 or min(field.heights.shape) < 2:
            message = f"{shape_label(shape, link)} has {' x '.join(map(str, field.heights.shape))} heights"
            yield Finding(shape, message, "give at least two rows and two columns")
        elif np.isfinite(field.heights).all() and not -field.base < float(field.heights.min()):
            lowest, base = format_number(float(field.heights.min())), format_number(-field.base)
            message = f"{shape_label(shape, link)} has its lowest point, {lowest} m, not above its base, {base} m"
            yield Finding(shape, message, "make the base thicker", Severity.WARNING)


@rule("shapes.no-collision", Severity.NOTE)
def moving_links_without_collision(context: CheckContext) -> Iterable[Finding]:
    """Moving links can be seen but not touched: neither they nor what is fixed to them has a collision shape."""
    if not any(link.collisions for link in context.links):
        return  # shapes.visual-only says it
    found = [
        body.links[0]
        for body in context.rigid_bodies
        if body.is_movable and any(x.visuals for x in body.links) and not any(x.collisions for x in body.links)
    ]
    if found:
        count = pluralize(len(found), "moving link has", "moving links have")
        message = f"{count} no collision shape: {format_names([link.name for link in found])}"
        yield Finding(found[0], message, "add one to each that should touch anything")


@rule("shapes.visual-only", Severity.NOTE)
def robot_without_collision(context: CheckContext) -> Iterable[Finding]:
    """The whole robot can be seen but not touched."""
    seen = sum(len(link.visuals) for link in context.links)
    if context.robot is not None and seen and not any(link.collisions for link in context.links):
        message = (
            f"{label(context.robot)} has {pluralize(seen, 'visual shape')} but no collision shape: it falls "
            "through floors"
        )
        yield Finding(context.robot, message, "add collision shapes, if it should touch anything")


@rule("shapes.friction", Severity.WARNING)
def invalid_friction_or_restitution(context: CheckContext) -> Iterable[Finding]:
    """A coefficient of friction, or a restitution, is negative, or the restitution is above one."""
    for shape, link in context.shapes:
        surface = shape.surface
        if surface is None:
            continue
        values = {
            "static friction": surface.static_friction,
            "dynamic friction": surface.dynamic_friction,
            "restitution": surface.restitution,
        }
        for what, value in values.items():
            most = 1.0 if what == "restitution" else math.inf
            if value is not None and (value < 0 or value > most):
                message = f"{shape_label(shape, link)} has a {what} of {format_number(value)}"
                yield Finding(shape, message, "give a value of zero or more" + ", up to one" * (most == 1.0))


# ----------------------------------------------------------------------------------------------------------- mesh files


class _MeshUse(NamedTuple):
    """A mesh and the shapes that use it."""

    mesh: Mesh
    analysis: MeshAnalysis
    shapes: list[tuple[Shape, Link | None]]

    @property
    def collides(self) -> bool:
        return any(s.collision for s, _ in self.shapes)

    @property
    def subject(self) -> Shape:
        return self.shapes[0][0]

    @property
    def label(self) -> str:
        """Label of the mesh by its file and first user."""
        shape, link = self.shapes[0]
        others = len(self.shapes) - 1
        users = (f" and {pluralize(others, 'other shape')}") * bool(others)
        where = (f"on {label(link)}" if link is not None else "in the world") + users
        name = self.mesh.uri or PurePath(self.mesh.path).name
        return f'mesh "{name}" {where}' if name else shape_label(shape, link) + users


def _mesh_uses(context: CheckContext) -> Iterator[_MeshUse]:
    uses: dict[Hashable, _MeshUse] = {}
    for shape, link in context.shapes:
        mesh = shape.geometry
        if isinstance(mesh, Mesh) and not (mesh.scale == 0).any():
            key = context.hulls.geometry_key(mesh) if mesh.path or mesh.vertices is not None else mesh.uri
            use = uses.setdefault(key, _MeshUse(mesh, context.hulls.analyze_mesh(mesh), []))
            use.shapes.append((shape, link))
    # what collides is named first: it matters more
    for use in uses.values():
        use.shapes.sort(key=lambda item: not item[0].collision)
        yield use


@rule("meshes.missing", Severity.ERROR)
def missing_mesh_file(context: CheckContext) -> Iterable[Finding]:
    """A mesh file was not found. Where the mesh is only seen it is a warning."""
    for use in _mesh_uses(context):
        if use.analysis.data is None and not use.analysis.error:
            hint = "put the file there, or say where its package is (--search-path)"
            severity = None if use.collides else Severity.WARNING
            yield Finding(use.subject, f"{use.label} was not found", hint, severity)


@rule("meshes.unreadable", Severity.ERROR)
def unreadable_mesh_file(context: CheckContext) -> Iterable[Finding]:
    """A mesh file is damaged, empty or of a kind that cannot be read. Where the mesh is only seen it is a warning."""
    for use in _mesh_uses(context):
        if use.analysis.error and not _has_nonfinite_values(use.mesh):
            reason = use.analysis.error.rstrip(".")
            severity = None if use.collides else Severity.WARNING
            yield Finding(use.subject, f"{use.label} cannot be used: {reason}", "export the mesh again", severity)


def _has_nonfinite_values(mesh: Mesh) -> bool:
    """Whether mesh data in the description is not finite (reported by other rules)."""
    import numpy as np

    given = mesh.vertices is None or bool(np.isfinite(mesh.vertices).all())
    return not (given and bool(np.isfinite(mesh.scale).all()))


@rule("meshes.flat", Severity.WARNING)
def planar_collision_mesh(context: CheckContext) -> Iterable[Finding]:
    """A collision mesh on a robot has no thickness: all of its points lie in one plane, and it has no convex hull."""
    for use in _mesh_uses(context):
        if use.analysis.data is None or not use.collides or context.is_static:
            continue
        solid = context.hulls.convex_hull(use.mesh)
        if solid is not None and solid.is_planar and use.mesh.approximation is not Approximation.NONE:
            yield Finding(use.subject, f"{use.label} is flat", "give it thickness, or use a thin box")


@rule("meshes.degenerate", Severity.NOTE)
def degenerate_triangles(context: CheckContext) -> Iterable[Finding]:
    """Triangles of a mesh have no area. More than a tenth of all is a warning."""
    for use in _mesh_uses(context):
        quality, data = use.analysis.quality, use.analysis.data
        if quality is None or data is None or not quality.n_degenerate_faces:
            continue
        share = quality.n_degenerate_faces / data.n_faces
        message = f"{use.label} has {pluralize(quality.n_degenerate_faces, 'triangle')} without area, of {data.n_faces}"
        yield Finding(use.subject, message, "clean the mesh", Severity.WARNING if share > 0.1 else None)


@rule("meshes.inside-out", Severity.WARNING)
def inward_facing_mesh(context: CheckContext) -> Iterable[Finding]:
    """The faces of a closed mesh point inward: its volume, and an inertia computed from it, are negative.

    For a mesh that is only seen it is a note: renderers may leave its faces out.
    """
    for use in _mesh_uses(context):
        quality = use.analysis.quality
        if quality is not None and quality.encloses_volume and quality.is_inside_out:
            severity = None if use.collides else Severity.NOTE
            message = f"the faces of {use.label} point inward"
            yield Finding(use.subject, message, "reverse the order of the corners of its triangles", severity)


@rule("meshes.open", Severity.NOTE)
def open_collision_mesh(context: CheckContext) -> Iterable[Finding]:
    """A collision mesh on a robot is not closed: it has holes, or faces that disagree about which side is out.

    As its convex hull it collides all the same. Where an inertia is computed from it, or its signed distance is needed,
    this is a warning: it encloses no definite volume.
    """
    for use in _mesh_uses(context):
        quality = use.analysis.quality
        if quality is None or quality.encloses_volume or not use.collides or context.is_static:
            continue
        computed = any(link is not None and link.inertial_is_computed for s, link in use.shapes if s.mass is None)
        needed = computed or use.mesh.approximation is Approximation.SDF
        edges = quality.n_boundary_edges + quality.n_misoriented_edges + quality.n_nonmanifold_edges
        message = f"{use.label} is not closed: {pluralize(edges, 'edge')} without exactly two agreeing triangles"
        yield Finding(use.subject, message, "close the holes, or use primitives", Severity.WARNING if needed else None)


@rule("meshes.size", Severity.WARNING)
def implausible_mesh_size(context: CheckContext) -> Iterable[Finding]:
    """A mesh on a robot is larger than 50 m or smaller than 0.1 mm.

    Mesh files carry no unit. CAD programs mostly write millimetres, and then the scale must be 0.001.
    """
    if context.is_static:
        return
    for use in _mesh_uses(context):
        quality = use.analysis.quality
        largest = float(quality.extents.max()) if quality is not None else 0.0
        if largest > 50:
            hint = "if it is in millimetres, scale it by 0.001"
            yield Finding(use.subject, f"{use.label} is {format_length(largest)} large", hint)
        elif 0 < largest < 1e-4:
            hint = "if it was scaled from millimetres without need, leave the scale out"
            yield Finding(use.subject, f"{use.label} is only {format_length(largest)} large", hint)
