"""Plain bodies to add to a scene: `scene.add(km.Box((0.1, 0.1, 0.1)), pos=(0, 0, 1))`. Lengths are in m."""

from __future__ import annotations

import math
import os
from abc import ABC, abstractmethod
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema import description, shapes
from kinema.description import Approximation, Geometry
from kinema.foundation import Array, ArrayLike, KinemaError, Pose, rotation_aligning

from .arguments import choice, numbers, whole


class Morph(ABC):
    """A body of one shape, made of one stuff."""

    moves = True
    """Whether it falls unless it is fixed."""

    @property
    def kind(self) -> str:
        """What its link is called."""
        return type(self).__name__.lower()

    @property
    def pose(self) -> Pose:
        """Where its shape is in its link."""
        return Pose()

    @abstractmethod
    def geometry(self, scale: Array) -> Geometry:
        """Its shape, made so much larger along each of its axes."""


@dataclass(frozen=True, slots=True, eq=False)
class Box(Morph):
    """A box about its middle."""

    size: ArrayLike
    """Full edge lengths [m]."""

    def geometry(self, scale: Array) -> Geometry:
        """Its shape."""
        size = numbers(self.size, "Box: size", "three")
        return description.Box(_positive(size, "Box: size", self.size) * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Sphere(Morph):
    """A ball about its middle."""

    radius: float
    """[m]"""

    def geometry(self, scale: Array) -> Geometry:
        """Its shape; an ellipsoid where it is scaled unevenly."""
        radius = _length(self.radius, "Sphere: radius")
        return description.Sphere(radius * scale[0]) if _even(scale) else description.Ellipsoid(radius * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Ellipsoid(Morph):
    """An ellipsoid about its middle."""

    radii: ArrayLike
    """Half axes [m]."""

    def geometry(self, scale: Array) -> Geometry:
        """Its shape."""
        radii = numbers(self.radii, "Ellipsoid: radii", "three")
        return description.Ellipsoid(_positive(radii, "Ellipsoid: radii", self.radii) * scale)


@dataclass(frozen=True, slots=True, eq=False)
class Capsule(Morph):
    """A cylinder along z about its middle, with a half ball on each end."""

    radius: float
    """[m]"""
    length: float
    """Of the cylinder, without the half balls [m]."""

    def geometry(self, scale: Array) -> Geometry:
        """Its shape."""
        if not _even(scale):
            raise KinemaError("scale: a capsule is scaled evenly, by one number")
        radius, length = _length(self.radius, "Capsule: radius"), _length(self.length, "Capsule: length")
        return description.Capsule(radius * float(scale[0]), length * float(scale[2]))


@dataclass(frozen=True, slots=True, eq=False)
class Cylinder(Morph):
    """A cylinder along z about its middle."""

    radius: float
    """[m]"""
    length: float
    """[m]"""

    def geometry(self, scale: Array) -> Geometry:
        """Its shape."""
        if scale[0] != scale[1]:
            raise KinemaError("scale: a cylinder stays round: x and y are scaled alike")
        radius, length = _length(self.radius, "Cylinder: radius"), _length(self.length, "Cylinder: length")
        return description.Cylinder(radius * float(scale[0]), length * float(scale[2]))


@dataclass(frozen=True, slots=True, eq=False)
class Plane(Morph):
    """The ground: everything below a plane through its origin is solid."""

    normal: ArrayLike = (0.0, 0.0, 1.0)
    """The way up."""
    moves = False

    @property
    def pose(self) -> Pose:
        """Turned so that z is its normal."""
        normal = numbers(self.normal, "Plane: normal", "three")
        if not normal.any():
            raise KinemaError("Plane: normal: expected a direction, not zeros")
        unit = normal / np.linalg.norm(normal)
        return Pose() if unit[2] == 1.0 else Pose(rotation=rotation_aligning(unit))

    def geometry(self, scale: Array) -> Geometry:
        """Its shape, which is as large as ever."""
        return description.Plane()


@dataclass(frozen=True, slots=True, eq=False)
class Mesh(Morph):
    """A body with the shape of a mesh: STL, OBJ, PLY, glTF, COLLADA, MSH."""

    file: str | os.PathLike[str] = ""
    """Where its triangles are, in metres or scaled by `scale`; empty where they are given in place."""
    vertices: ArrayLike | None = None
    """Those given in place [m], (n, 3)."""
    faces: Any = None
    """Their triangles, (m, 3)."""
    approximation: str = "convexHull"
    """What it touches as: `convexHull`, `convexDecomposition`, `boundingCube`, `boundingSphere`, or with all its
    hollows as a distance field: `sdf`; `none` takes that where the mesh has any, and `meshSimplification` of fewer
    triangles."""
    resolution: int | None = None
    """Cells of a distance field along its longest side, 2 to 500; None for 64."""

    def geometry(self, scale: Array) -> Geometry:
        """Its shape."""
        how = choice(self.approximation, "Mesh: approximation", [a.value for a in Approximation])
        given: dict[str, Any] = {"scale": scale, "approximation": Approximation(how)}
        if self.resolution is not None:
            given["field_resolution"] = whole(self.resolution, "Mesh: resolution", "cell")
        if self.vertices is None:
            path = Path(self.file)
            if not self.file or not path.is_file():
                raise KinemaError(f"Mesh: there is no file {str(self.file)!r}")
            mesh = description.Mesh(uri=str(path), path=str(path), **given)
        else:
            vertices, faces = np.asarray(self.vertices, np.float64), np.asarray(self.faces, np.int64)
            mesh = description.Mesh(vertices=vertices, faces=faces, **given)
        try:
            shapes.check_mesh(description.mesh_data(mesh) or shapes.MeshData(np.zeros((0, 3)), np.zeros((0, 3), int)))
        except (shapes.ShapeError, TypeError, ValueError) as error:
            raise KinemaError(f"Mesh: {self.file or 'the one given in place'} cannot be used: {error}") from None
        return mesh


@dataclass(frozen=True, slots=True, eq=False)
class Terrain(Morph):
    """Uneven ground over a rectangle about its origin; `kinema.shapes` makes slopes, stairs and rough ground."""

    heights: Any
    """[m], (rows, columns): row 0 is at -y, column 0 at -x; or a `kinema.shapes.Terrain`, which needs no more."""
    size: tuple[float, float] | None = None
    """Full extent in x and y [m]."""
    base: float = 1.0
    """How far the ground reaches below height zero [m]."""
    moves = False

    def geometry(self, scale: Array) -> Geometry:
        """Its shape."""
        try:
            given = self.heights
            ground = given if isinstance(given, shapes.Terrain) else shapes.Terrain(given, self.size or (), self.base)  # type: ignore[arg-type]
            x, y = ground.size
        except (shapes.ShapeError, TypeError, ValueError) as error:
            raise KinemaError(f"Terrain: {error}") from None
        extent = (float(x * scale[0]), float(y * scale[1]))
        return description.HeightField(heights=ground.heights * scale[2], size=extent, base=ground.base * scale[2])


def _even(scale: Array) -> bool:
    return bool((scale == scale[0]).all())


def _length(value: Any, what: str) -> float:
    if isinstance(value, bool | str) or not np.isscalar(value) or not 0.0 < float(value) < math.inf:  # type: ignore[arg-type]
        raise KinemaError(f"{what}: expected a length in metres that is more than none, not {value!r}")
    return float(value)  # type: ignore[arg-type]


def _positive(values: Array, what: str, said: Any) -> Array:
    if not (values > 0.0).all():
        raise KinemaError(f"{what}: expected three lengths that are more than none, not {said!r}")
    return values
