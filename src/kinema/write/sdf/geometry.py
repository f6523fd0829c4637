"""Geometry to `<geometry>`; what SDFormat has no shape for becomes a mesh."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema import shapes
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cone,
    Cylinder,
    Ellipsoid,
    Geometry,
    HeightField,
    Mesh,
    Plane,
    Shape,
    Sphere,
    tessellate,
)
from kinema.words import sdf

from ..text import Element, number, numbers
from .extras import setting
from .writing import WITH_MIMIC, Writing, finite, plain_text

SUFFIXES = (".stl", ".obj", ".dae", ".glb")
_DRAWN_PLANE = (100.0, 100.0)
_OPTIMIZATIONS = {
    Approximation.CONVEX_HULL: "convex_hull",
    Approximation.CONVEX_DECOMPOSITION: "convex_decomposition",
}


def geometry_of(writing: Writing, shape: Shape, *, seen: bool) -> Element | None:
    """The `<geometry>` of a shape; None, and a loss on record, where there is nothing to write.

    Args:
        writing: this run.
        shape: the shape.
        seen: whether it is for a visual, so that what is laid on a mesh counts.
    """
    element = Element("geometry")
    made = _fill(writing, element, shape, shape.geometry, seen=seen)
    return element if made else None


def _fill(writing: Writing, element: Element, shape: Shape, geometry: Geometry, *, seen: bool) -> bool:
    owner = f'shape "{shape.name}"'

    def say(tag: str, **values: float) -> bool:
        made = element.child(tag)
        for name, value in values.items():
            made.child(name, number(finite(value, owner, name)))
        return True

    match geometry:
        case Box(size=size):
            element.child("box").child("size", numbers(finite(x, owner, "size") for x in size.tolist()))
        case Sphere(radius=radius):
            say("sphere", radius=radius)
        case Ellipsoid(radii=radii):
            element.child("ellipsoid").child("radii", numbers(finite(x, owner, "radii") for x in radii.tolist()))
        case Capsule(radius=radius, length=length):
            say("capsule", radius=radius, length=length)
        case Cylinder(radius=radius, length=length):
            say("cylinder", radius=radius, length=length)
        case Cone(radius=radius, length=length) if writing.has(WITH_MIMIC):
            say("cone", radius=radius, length=length)
        case Plane(size=size):
            if size is None:
                how = f"it is drawn {_DRAWN_PLANE[0]:g} m wide; what collides has no end all the same"
                writing.approximate(shape, "that it has no end", how)
            plane = element.child("plane")
            plane.child("normal", "0 0 1")
            plane.child("size", numbers(finite(x, owner, "size") for x in size or _DRAWN_PLANE))
        case Mesh():
            return _mesh(writing, element, shape, geometry, seen=seen)
        case Cone() | HeightField():
            return _tessellated(writing, element, shape, geometry)
    return True


def _tessellated(writing: Writing, element: Element, shape: Shape, geometry: Geometry) -> bool:
    try:
        data = tessellate(geometry)
    except shapes.ShapeError as error:
        writing.drop(shape, f"the {shape.kind}", f"it cannot be made into triangles: {error}")
        return False
    if data is None:
        return False
    writing.approximate(shape, f"the {shape.kind}", f"it is a mesh of {len(data.faces)} triangles")
    return _mesh(writing, element, shape, Mesh(vertices=data.vertices, faces=data.faces))


def _mesh(writing: Writing, element: Element, shape: Shape, mesh: Mesh, *, seen: bool = False) -> bool:
    owner = f'shape "{shape.name}"'
    whole = replace(mesh, submesh="")
    # a part is named beside the file; of a new file made of that one it is the whole
    is_made = (
        bool(mesh.path)
        and mesh.vertices is None
        and not writing.meshes.keeps_file(whole, seen_on=shape if seen else None)
    )
    named, whole = ("", mesh) if is_made else (mesh.submesh, whole)
    placed = writing.meshes.place(whole, shape.name, seen_on=shape if seen else None)
    if placed is None and not mesh.uri:
        writing.drop(shape, "the mesh", "there is no file with its triangles, or it cannot be read")
        return False
    if placed is None:
        how = f"the file {mesh.uri!r} was not found or cannot be read; the reference is written as it was"
        writing.approximate(shape, "the mesh", how)
        placed, named = (mesh.uri, mesh.scale), mesh.submesh
    made = element.child("mesh")
    uri, scale = placed
    made.child("uri", uri)
    if not (scale == 1).all():
        made.child("scale", numbers(finite(x, owner, "scale") for x in np.asarray(scale).tolist()))
    if named:
        part = made.child("submesh")
        part.child("name", named)
        if mesh.center_submesh:
            part.child("center", "true")
    _approximation(writing, made, shape, mesh)
    return True


def _approximation(writing: Writing, made: Element, shape: Shape, mesh: Mesh) -> None:
    hulls = setting(shape, sdf.MAX_CONVEX_HULLS)
    if mesh.approximation is not None:
        word = _OPTIMIZATIONS.get(mesh.approximation)
        if word is not None and writing.has(WITH_MIMIC):
            made.set({"optimization": word})
        else:
            how = f"SDFormat {writing.version} has no word for it"
            writing.drop(shape, f"the approximation {mesh.approximation.value}", how)
            hulls = None
    if hulls is not None and writing.has(WITH_MIMIC):
        made.child("convex_decomposition").child("max_convex_hulls", plain_text(hulls))
    if mesh.max_hull_vertices is not None:
        writing.drop(shape, "the bound on its hull's vertices")
