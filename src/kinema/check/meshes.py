"""Rules about mesh files and what is in them. Each mesh is reported once, with how many shapes use it."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Iterator
from pathlib import PurePath
from typing import NamedTuple

from kinema.description import Approximation, Link, Mesh, Shape
from kinema.foundation import Severity

from .context import Context
from .rule import Finding, rule
from .solids import LoadedMesh
from .words import label, length, plural, shape_label


class _Use(NamedTuple):
    """A mesh and the shapes that are made of it."""

    mesh: Mesh
    loaded: LoadedMesh
    shapes: list[tuple[Shape, Link | None]]

    @property
    def collides(self) -> bool:
        return any(s.collision for s, _ in self.shapes)

    @property
    def place(self) -> Shape:
        return self.shapes[0][0]

    @property
    def label(self) -> str:
        """The mesh by its file and first user."""
        shape, link = self.shapes[0]
        others = len(self.shapes) - 1
        users = (f" and {plural(others, 'other shape')}") * bool(others)
        where = (f"on {label(link)}" if link is not None else "in the world") + users
        name = self.mesh.uri or PurePath(self.mesh.path).name
        return f'mesh "{name}" {where}' if name else shape_label(shape, link) + users


def _uses(context: Context) -> Iterator[_Use]:
    uses: dict[Hashable, _Use] = {}
    for shape, link in context.shapes:
        mesh = shape.geometry
        if isinstance(mesh, Mesh) and not (mesh.scale == 0).any():
            key = context.solids.key(mesh) if mesh.path or mesh.vertices is not None else mesh.uri
            use = uses.setdefault(key, _Use(mesh, context.solids.mesh(mesh), []))
            use.shapes.append((shape, link))
    # what collides is named first: it matters more
    for use in uses.values():
        use.shapes.sort(key=lambda item: not item[0].collision)
        yield use


@rule("meshes.missing", Severity.ERROR)
def missing(context: Context) -> Iterable[Finding]:
    """A mesh file was not found. Where the mesh is only seen it is a warning."""
    for use in _uses(context):
        if use.loaded.data is None and not use.loaded.problem:
            hint = "put the file there, or say where its package is (--search-path)"
            severity = None if use.collides else Severity.WARNING
            yield Finding(use.place, f"{use.label} was not found", hint, severity)


@rule("meshes.unreadable", Severity.ERROR)
def unreadable(context: Context) -> Iterable[Finding]:
    """A mesh file is damaged, empty or of a kind that cannot be read. Where the mesh is only seen it is a warning."""
    for use in _uses(context):
        if use.loaded.problem and not _has_bad_numbers(use.mesh):
            reason = use.loaded.problem.rstrip(".")
            severity = None if use.collides else Severity.WARNING
            yield Finding(use.place, f"{use.label} cannot be used: {reason}", "export the mesh again", severity)


def _has_bad_numbers(mesh: Mesh) -> bool:
    """Whether numbers in the description itself are bad, which the rules on numbers say."""
    import numpy as np

    given = mesh.vertices is None or bool(np.isfinite(mesh.vertices).all())
    return not (given and bool(np.isfinite(mesh.scale).all()))


@rule("meshes.flat", Severity.WARNING)
def flat(context: Context) -> Iterable[Finding]:
    """A collision mesh on a robot has no thickness: all of its points lie in one plane, and it has no convex hull."""
    for use in _uses(context):
        if use.loaded.data is None or not use.collides or context.is_scenery:
            continue
        solid = context.solids.solid(use.mesh)
        if solid is not None and solid.is_flat and use.mesh.approximation is not Approximation.NONE:
            yield Finding(use.place, f"{use.label} is flat", "give it thickness, or use a thin box")


@rule("meshes.degenerate", Severity.NOTE)
def degenerate(context: Context) -> Iterable[Finding]:
    """Triangles of a mesh have no area. More than a tenth of all is a warning."""
    for use in _uses(context):
        quality, data = use.loaded.quality, use.loaded.data
        if quality is None or data is None or not quality.n_degenerate:
            continue
        share = quality.n_degenerate / data.n_faces
        message = f"{use.label} has {plural(quality.n_degenerate, 'triangle')} without area, of {data.n_faces}"
        yield Finding(use.place, message, "clean the mesh", Severity.WARNING if share > 0.1 else None)


@rule("meshes.inside-out", Severity.WARNING)
def inside_out(context: Context) -> Iterable[Finding]:
    """The faces of a closed mesh point inward: its volume, and an inertia computed from it, are negative.

    For a mesh that is only seen it is a note: renderers may leave its faces out.
    """
    for use in _uses(context):
        quality = use.loaded.quality
        if quality is not None and quality.is_balanced and quality.is_inside_out:
            severity = None if use.collides else Severity.NOTE
            message = f"the faces of {use.label} point inward"
            yield Finding(use.place, message, "reverse the order of the corners of its triangles", severity)


@rule("meshes.open", Severity.NOTE)
def is_open(context: Context) -> Iterable[Finding]:
    """A collision mesh on a robot is not closed: it has holes, or faces that disagree about which side is out.

    As its convex hull it collides all the same. Where an inertia is computed from it, or its signed distance is needed,
    this is a warning: it encloses no definite volume.
    """
    for use in _uses(context):
        quality = use.loaded.quality
        if quality is None or quality.is_balanced or not use.collides or context.is_scenery:
            continue
        computed = any(link is not None and link.inertial_is_computed for s, link in use.shapes if s.mass is None)
        needed = computed or use.mesh.approximation is Approximation.SDF
        edges = quality.n_boundary_edges + quality.n_misoriented_edges + quality.n_nonmanifold_edges
        message = f"{use.label} is not closed: {plural(edges, 'edge')} without exactly two agreeing triangles"
        yield Finding(use.place, message, "close the holes, or use primitives", Severity.WARNING if needed else None)


@rule("meshes.size", Severity.WARNING)
def mesh_size(context: Context) -> Iterable[Finding]:
    """A mesh on a robot is larger than 50 m or smaller than 0.1 mm.

    Mesh files carry no unit. CAD programs mostly write millimetres, and then the scale must be 0.001.
    """
    if context.is_scenery:
        return
    for use in _uses(context):
        quality = use.loaded.quality
        largest = float(quality.extents.max()) if quality is not None else 0.0
        if largest > 50:
            hint = "if it is in millimetres, scale it by 0.001"
            yield Finding(use.place, f"{use.label} is {length(largest)} large", hint)
        elif 0 < largest < 1e-4:
            hint = "if it was scaled from millimetres without need, leave the scale out"
            yield Finding(use.place, f"{use.label} is only {length(largest)} large", hint)
