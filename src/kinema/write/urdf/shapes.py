"""Shapes to `<visual>` and `<collision>`; what URDF has no geometry for becomes a union of what it has, or a mesh."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path

import numpy as np

from kinema import shapes
from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    Link,
    Mesh,
    Plane,
    Shape,
    Sphere,
    mesh_part,
    tessellate,
)
from kinema.foundation import Pose

from ..losing import named_shape
from ..meshes import has_parts
from ..report import Action
from ..text import Element, number, numbers, xml_name
from .extras import give_back
from .materials import Materials
from .placing import add_origin
from .writing import Writing, finite

VISUAL_SUFFIXES = (".stl", ".obj", ".dae")
COLLISION_SUFFIXES = (".stl", ".obj")
"""What every program that reads URDF can load."""
_SLAB = (100.0, 1.0)
"""Edge length and thickness [m] of the box that stands for the half space under an infinite plane."""


@dataclass(slots=True, eq=False)
class ShapeWriter:
    """Writes the shapes of all links."""

    writing: Writing
    materials: Materials
    root: Element
    has_relative_meshes: bool = False
    """Whether the file refers to mesh files beside it."""
    uses_drake: bool = False

    def add(self, element: Element, link: Link, shape: Shape) -> None:
        """The shape's elements, in the element of its link."""
        called = named_shape(link, shape)
        uses = [use for use, is_wanted in (("visual", shape.visual), ("collision", shape.collision)) if is_wanted]
        if not shape.enabled:
            self.writing.drop(called, "the shape", "it is disabled, and URDF has no disabled shapes")
            uses = []
        elif not uses:
            self.writing.drop(called, "the shape", "it is neither seen nor does it collide")
        first: Element | None = None
        for use in uses:
            for part in self._parts(called, shape, use):
                made = self._element(element, shape, use, part)
                first = first or made
        if xml_name(shape.name) != shape.name:
            self.writing.approximate(called, "its name", f'it is called "{xml_name(shape.name)}"')
        give_back(self.writing, called, first, self.root)

    def _element(self, element: Element, shape: Shape, use: str, part: _Part) -> Element:
        name = f"{xml_name(shape.name)}{part.suffix}" if shape.name else None
        made = element.child(use, name=name)
        add_origin(made, shape.pose @ part.pose, f'shape "{shape.name}"', computed=part.suffix != "")
        self._geometry(made.child("geometry"), part.geometry, part.file, shape)
        if use == "visual" and shape.material is not None and not has_parts(shape):
            self.materials.add(made, shape.material, is_in_mesh=part.is_dressed)
        return made

    # -- geometry -------------------------------------------------------------------------------------------------

    def _parts(self, called: Shape, shape: Shape, use: str) -> Iterator[_Part]:
        """What a shape is made of in URDF's terms; nothing, and a loss on record, where there are none."""
        match shape.geometry:
            case Box() | Sphere() | Cylinder():
                yield _Part(shape.geometry)
            case Capsule(radius=radius, length=length):
                yield from self._capsule(radius, length)
            case Ellipsoid(radii=radii) if radii[0] == radii[1] == radii[2]:
                yield _Part(Sphere(float(radii[0])))
            case Plane() if use == "collision":
                yield self._slab(called, shape.geometry)
            case Mesh():
                yield from self._mesh(called, shape, shape.geometry, use)
            case _:
                yield from self._tessellated(called, shape.geometry)

    def _capsule(self, radius: float, length: float) -> Iterator[_Part]:
        """A cylinder and two spheres are exactly a capsule, which URDF has from version 1.1 on."""
        if self.writing.version != "1.0":
            yield _Part(Capsule(radius, length))
            return
        if length == 0:
            yield _Part(Sphere(radius))
            return
        yield _Part(Cylinder(radius, length))
        for i, side in enumerate((0.5, -0.5)):
            yield _Part(Sphere(radius), Pose.translation((0, 0, side * length)), suffix=f"_end_{i + 1}")

    def _slab(self, called: Shape, plane: Plane) -> _Part:
        width, thickness = _SLAB
        x, y = plane.size or (width, width)
        how = f"it is the top of a box of {x:g} x {y:g} x {thickness:g} m"
        self.writing.approximate(called, "the plane", how)
        return _Part(Box(np.array([x, y, thickness])), Pose.translation((0, 0, -thickness / 2)))

    def _tessellated(self, called: Shape, geometry: Geometry) -> Iterator[_Part]:
        kind = type(geometry).__name__.lower()
        try:
            data = tessellate(geometry)
        except shapes.ShapeError as error:
            self.writing.drop(called, f"the {kind}", f"it cannot be made into triangles: {error}")
            return
        if data is not None:
            self.writing.approximate(called, f"the {kind}", f"it is a mesh of {len(data.faces)} triangles")
            yield from self._file(Mesh(vertices=data.vertices, faces=data.faces), called.name, "collision")

    def _mesh(self, called: Shape, shape: Shape, mesh: Mesh, use: str) -> Iterator[_Part]:
        self._report(called, mesh)
        made = list(self._file(mesh, called.name, use, shape))
        if made:
            yield from made
        elif mesh.uri:
            how = f"the file {mesh.uri!r} was not found; the reference is written as it was"
            self.writing.approximate(called, "the mesh", how)
            yield _Part(mesh, file=(xml_name(mesh.uri), mesh.scale))
        else:
            self.writing.drop(called, "the mesh", "there is no file with its triangles, or it cannot be read")

    def _file(self, mesh: Mesh, name: str, use: str, shape: Shape | None = None) -> Iterator[_Part]:
        if self.writing.keeps(mesh.uri):
            yield _Part(mesh, file=(xml_name(mesh.uri), mesh.scale))
            return
        suffixes = VISUAL_SUFFIXES if use == "visual" else COLLISION_SUFFIXES
        if use != "visual" and _is_text_stl(mesh):
            suffixes = ()  # MuJoCo reads the binary form only
        placed = self.writing.meshes.place(mesh, name, suffixes, seen_on=shape if use == "visual" else None)
        if placed is not None:
            reference = self.writing.reference(placed[0])
            self.has_relative_meshes |= reference == placed[0] and not Path(reference).is_absolute()
            is_dressed = placed[0] in self.writing.meshes.dressed
            yield _Part(mesh, file=(reference, placed[1]), is_dressed=is_dressed)

    def _report(self, called: Shape, mesh: Mesh) -> None:
        if mesh.approximation is Approximation.CONVEX_HULL:
            how = "it is in <drake:declare_convex>, which only some readers know"
            self.writing.lose(Action.EXTENSION, called, "that it collides as its convex hull", how)
        elif mesh.approximation is not None:
            self.writing.drop(called, f"the approximation {mesh.approximation.value}", "URDF leaves it to the reader")
        if mesh.max_hull_vertices is not None:
            self.writing.drop(called, "the bound on its hull's vertices", "URDF leaves it to the reader")
        if mesh.submesh and mesh_part(mesh) is None:
            self.writing.approximate(called, f"the part {mesh.submesh!r} of its mesh", "the whole mesh is written")

    def _geometry(
        self, element: Element, geometry: Geometry, file: tuple[str, np.ndarray] | None, shape: Shape
    ) -> None:
        owner = f'shape "{shape.name}"'
        match geometry:
            case Box(size=size):
                element.child("box", size=numbers(finite(x, owner, "size") for x in size.tolist()))
            case Sphere(radius=radius):
                element.child("sphere", radius=number(finite(radius, owner, "radius")))
            case Cylinder(radius=radius, length=length) | Capsule(radius=radius, length=length):
                sizes = {
                    "radius": number(finite(radius, owner, "radius")),
                    "length": number(finite(length, owner, "length")),
                }
                element.child(type(geometry).__name__.lower(), **sizes)
            case Mesh() if file is not None:
                filename, scale = file
                given = None if (scale == 1).all() else numbers(finite(x, owner, "scale") for x in scale.tolist())
                made = element.child("mesh", filename=filename, scale=given)
                if geometry.approximation is Approximation.CONVEX_HULL:
                    made.child("drake:declare_convex")
                    self.uses_drake = True
            case _:
                raise AssertionError(type(geometry))  # the parts are of no other kind


@dataclass(frozen=True, slots=True, eq=False)
class _Part:
    """One geometry of URDF that a shape is made of."""

    geometry: Geometry
    pose: Pose = field(default_factory=Pose)
    suffix: str = ""
    file: tuple[str, np.ndarray] | None = None
    """The reference and scale of a mesh."""
    is_dressed: bool = False
    """Whether the mesh's file has the shape's material."""


def _is_text_stl(mesh: Mesh) -> bool:
    """Whether a mesh is an STL file in the text form: a binary one has 50 bytes per triangle after 84."""
    path = Path(mesh.path)
    if not mesh.path or path.suffix.lower() != ".stl":
        return False
    with path.open("rb") as file:
        head = file.read(84)
    return len(head) < 84 or path.stat().st_size != 84 + 50 * int.from_bytes(head[80:], "little")
