"""The parts of a build123d assembly as occurrences: where they are, what they weigh and what they look like.

build123d works in millimetres. A part's own frame is the frame that its `location` moves.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import Array, Diagnostics, Pose, unique_name
from kinema.shapes import MeshData, inertia_from_second_moment

from .elements import BodyElement, MeshElement, OccurrenceElement, PhysicalElement
from .schema import FORMAT, ROOT

MM = 1e-3
"""Metres in build123d's unit of length."""
DENSITY = 1000.0
"""[kg/m3], of parts of which nothing is known: that of water, and MuJoCo's default."""
TOLERANCE = 1e-4
ANGULAR_TOLERANCE = 0.2
_MAX_DEPTH = 90


@dataclass(frozen=True, kw_only=True, slots=True)
class SolidOptions:
    """How solids become bodies."""

    density: float = DENSITY
    """Density [kg/m3] of parts that have no material."""
    densities: Mapping[str, float] = field(default_factory=dict)
    """Label or path of a part, or name of a material -> density [kg/m3]."""
    tolerance: float = TOLERANCE
    """How far [m] triangles may be from the surface."""
    angular_tolerance: float = ANGULAR_TOLERANCE
    """How far [rad] neighbouring triangles may be turned against each other."""


@dataclass(frozen=True, slots=True, eq=False)
class Part:
    """A shape of the assembly and its place in the snapshot."""

    shape: Any
    occurrence: OccurrenceElement


@dataclass(slots=True, eq=False)
class PartList:
    """Walks an assembly; `parts` holds it outside in."""

    options: SolidOptions
    diagnostics: Diagnostics
    parts: list[Part] = field(default_factory=list)
    _taken: set[str] = field(default_factory=set)
    _meshes: dict[int, tuple[Any, MeshData | None]] = field(default_factory=dict)
    """id of a geometry -> itself (so that the id stays its own) and its triangles: repeated parts share them."""
    _used: set[str] = field(default_factory=set)
    _without_material: int = 0

    def add_all(self, shape: Any) -> None:
        """Add a shape and everything inside it, and say what was assumed."""
        if shape.wrapped is not None:
            name = _name(shape)
            # the assembly itself must not take a path from its parts, which do not repeat its name
            self._add(shape, name, f"{name}+" if shape.children else name, Pose(), ROOT)
        if self._without_material:
            message = f"{self._without_material} parts have no material: they get {self.options.density:g} kg/m3"
            hint = "give them a material, or give a density"
            self.diagnostics.note(f"{FORMAT}.default-density", message, hint=hint)
        for name in sorted(set(self.options.densities) - self._used):
            message = f"there is no part or material {name!r:.80}, for which a density is given"
            self.diagnostics.warning(f"{FORMAT}.unknown-part", message)

    def _add(self, shape: Any, name: str, path: str, around: Pose, parent: str) -> None:
        path = unique_name(path, self._taken)
        occurrence = OccurrenceElement(path=path, name=name, parent=parent, component=name)
        occurrence.pose = around @ pose_of(shape.location)
        self.parts.append(Part(shape, occurrence))
        if not shape.children:
            self._fill(shape, occurrence)
        elif path.count("+") >= _MAX_DEPTH:
            message = f'"{name}" is nested more than {_MAX_DEPTH} deep; what is inside is left out'
            self.diagnostics.error(f"{FORMAT}.nesting", message)
        else:
            self._add_children(shape, occurrence)

    def _add_children(self, shape: Any, occurrence: OccurrenceElement) -> None:
        """Add what is inside a shape; parts of the same name are numbered."""
        children = [(child, _name(child)) for child in shape.children if child.wrapped is not None]
        count = Counter(name for _, name in children)
        number: Counter[str] = Counter()
        prefix = f"{occurrence.path}+" if occurrence.parent != ROOT else ""
        for child, name in children:
            number[name] += 1
            own = f"{name}_{number[name]}" if count[name] > 1 else name
            self._add(child, name, prefix + own, occurrence.pose, occurrence.path)

    def _fill(self, shape: Any, occurrence: OccurrenceElement) -> None:
        """Give a part its body."""
        mesh = self._mesh(shape)
        if mesh is None:
            message = f'"{occurrence.name}" ({type(shape).__name__}) has no surface; it has no body'
            self.diagnostics.note(f"{FORMAT}.no-solid", message)
            return
        body = BodyElement(name=occurrence.name, mesh=MeshElement(triangles=mesh))
        material = shape.material
        body.material = "" if material is None else _plain(str(material.material.name))
        body.physical = self._physical(shape, occurrence, body.material)
        color = shape.color
        if color is not None:
            red, green, blue, alpha = (min(max(float(c), 0.0), 1.0) for c in color)
            body.color = (red, green, blue, alpha)
        occurrence.bodies.append(body)

    def _mesh(self, shape: Any) -> MeshData | None:
        geometry = shape.wrapped.TShape()
        if id(geometry) not in self._meshes:
            self._meshes[id(geometry)] = (geometry, self._tessellated(shape))
        return self._meshes[id(geometry)][1]

    def _tessellated(self, shape: Any) -> MeshData | None:
        """Triangles in the part's own frame [m]."""
        if not shape.faces():
            return None
        corners, faces = shape.tessellate(self.options.tolerance / MM, self.options.angular_tolerance)
        # each face of the solid comes with corners of its own; those on common edges are the same to the last digit
        vertices, index = np.unique([tuple(c) for c in corners], axis=0, return_inverse=True)
        triangles = index.reshape(-1)[np.array(faces, dtype=np.int64).reshape(-1, 3)]
        is_flat = (triangles == np.roll(triangles, 1, axis=1)).any(axis=1)
        if is_flat.all():
            return None
        home = pose_of(shape.location)
        return MeshData((vertices * MM - home.position) @ home.rotation, triangles[~is_flat])

    def _physical(self, shape: Any, occurrence: OccurrenceElement, material: str) -> PhysicalElement | None:
        """Mass properties in the part's own frame."""
        volume = float(shape.volume) * MM**3
        if not volume > 0:
            return None  # a sheet, or inside out: the description gets a warning that there is no mass
        mass = volume * self._density(shape, occurrence, material)
        center, about_center = _moments(shape)
        about_center *= mass / volume
        about_origin = about_center + inertia_from_second_moment(mass * np.outer(center, center))
        principal = np.asarray(np.linalg.eigvalsh(about_center), dtype=np.float64)
        return PhysicalElement(mass=mass, center=center, inertia=about_origin, principal=principal, frame="component")

    def _density(self, shape: Any, occurrence: OccurrenceElement, material: str) -> float:
        for name in (occurrence.path, occurrence.name, material):
            if name in self.options.densities:
                self._used.add(name)
                return self.options.densities[name]
        stated = shape.material and shape.material.material.density
        if stated:
            return float(stated)
        self._without_material += 1
        return self.options.density


def _moments(shape: Any) -> tuple[Array, Array]:
    """Centre of mass [m], and inertia about it for a density of 1 kg/m3 [kg m2], in the part's own frame."""
    from build123d import CenterOf  # pyright: ignore[reportMissingImports]

    home = pose_of(shape.location)
    center = np.array(tuple(shape.center(CenterOf.MASS)), dtype=np.float64) * MM
    inertia = np.array(shape.matrix_of_inertia, dtype=np.float64) * MM**5
    return home.inverse().apply(center), home.rotation.T @ inertia @ home.rotation


def pose_of(location: Any) -> Pose:
    """A build123d location in metres."""
    moved = location.wrapped.Transformation()
    cells = np.array([[moved.Value(row, column) for column in range(1, 5)] for row in range(1, 4)])
    return Pose(cells[:, 3] * MM, cells[:, :3].copy())


def _name(shape: Any) -> str:
    return _plain(shape.label) or "part"


def _plain(label: str) -> str:
    return label.encode("utf-8", "replace").decode()
