"""Texture coordinates of triangles that come with none, where a format says how an image is laid on them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from kinema.shapes.appearance import Appearance, CornerValues
from kinema.shapes.cube_images import cube_reach, in_image, on_sides, sides_of
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshData
from kinema.shapes.subdivide import cut_faces

Row = tuple[float, float, float, float]
_ROUNDS = 6
"""How often faces are cut."""
_MOST_TIMES, _MOST_MORE = 4, 20_000
"""How many faces there may be in the end: so many times as many, or so many more."""
_MOST_PIXELS = 2**16
_PIXELS_OFF = 0.25
"""How far the image may be off in the middle of an edge."""


@dataclass(frozen=True, slots=True)
class Projection:
    """An image that is laid on a mesh along a direction, as a slide is thrown on a screen."""

    u: Row
    """A factor for each coordinate of a point of the mesh before its scale, and what is added."""
    v: Row
    """The same for the second coordinate of the image, which counts upwards."""

    def laid(self, mesh: MeshData, appearance: Appearance) -> tuple[MeshData, Appearance]:
        """The mesh and its appearance with the point of the image at each corner."""
        rows = np.array([self.u, self.v])
        values = mesh.vertices @ rows[:, :3].T + rows[:, 3]
        layer = CornerValues(values, np.asarray(mesh.faces, dtype=np.int64))
        return mesh, replace(appearance, coordinates=(layer,))


@dataclass(frozen=True, slots=True)
class CubeProjection:
    """Six images around a mesh: a point shows what is seen in its direction; they are one image (`unfolded_cube`)."""

    x: Row
    """A factor for each coordinate of a point of the mesh before its scale, and what is added: its direction."""
    y: Row
    z: Row
    pixels: int
    """Along a side."""

    def laid(self, mesh: MeshData, appearance: Appearance) -> tuple[MeshData, Appearance]:
        """The mesh and its appearance with the point of the image at each corner.

        An image runs along a face evenly, and does not end within it. Faces that reach from side to side, or far over
        the edge of one, or into the depth, are cut into smaller ones.
        """
        most = max(_MOST_TIMES * mesh.n_faces, mesh.n_faces + _MOST_MORE)
        for _ in range(_ROUNDS):
            directions, sides = self._seen(mesh)
            is_off = self._is_off(directions, sides)
            if not is_off.any() or mesh.n_faces + 4 * int(is_off.sum()) > most:
                break
            mesh, appearance = cut_faces(mesh, appearance, is_off)
        return mesh, replace(appearance, coordinates=(self.coordinates(mesh),))

    def coordinates(self, mesh: MeshData) -> CornerValues:
        """The point of the image at each corner of faces as they are."""
        directions, sides = self._seen(mesh)
        of_corner = np.repeat(sides[:, None], 3, axis=1)
        values = in_image(on_sides(directions, of_corner), of_corner, cube_reach(self.pixels)).reshape(-1, 2)
        kept, numbers = np.unique(values, axis=0, return_inverse=True)
        return CornerValues(kept, numbers.reshape(-1, 3))

    @property
    def numbers(self) -> list[float]:
        """All that it is, for files."""
        return [*self.x, *self.y, *self.z, float(self.pixels)]

    @classmethod
    def of_numbers(cls, numbers: Sequence[float]) -> CubeProjection | None:
        """The projection that a file has the numbers of; None where they are not those of one."""
        values = np.asarray(numbers, dtype=np.float64)
        if values.shape != (13,) or not np.isfinite(values).all() or not 1 <= values[12] <= _MOST_PIXELS:
            return None
        x, y, z = map(_row, values[:12].reshape(3, 4))
        return cls(x, y, z, int(values[12]))

    def under(self, linear: FloatArray) -> CubeProjection:
        """The same for a mesh whose points were mapped by a matrix."""
        rows = np.array([self.x, self.y, self.z])
        rows[:, :3] = rows[:, :3] @ np.linalg.inv(linear)
        x, y, z = map(_row, rows)
        return CubeProjection(x, y, z, self.pixels)

    def _seen(self, mesh: MeshData) -> tuple[FloatArray, IntArray]:
        """The directions of all corners, and the side that is in the direction of the middle of each face."""
        rows = np.array([self.x, self.y, self.z])
        directions = (mesh.vertices @ rows[:, :3].T + rows[:, 3])[mesh.faces]
        return directions, sides_of(directions.mean(axis=1))

    def _is_off(self, directions: FloatArray, sides: IntArray) -> np.ndarray:
        of_corner = np.repeat(sides[:, None], 3, axis=1)
        places = on_sides(directions, of_corner)
        is_beyond = np.abs(places).max(axis=(1, 2)) > cube_reach(self.pixels)
        after = (1, 2, 0)
        middles = on_sides(0.5 * (directions + directions[:, after]), of_corner)
        off = np.abs(middles - 0.5 * (places + places[:, after])).max(axis=(1, 2))
        return is_beyond | (off * self.pixels / 2.0 > _PIXELS_OFF)


def _row(numbers: FloatArray) -> Row:
    x, y, z, offset = numbers.tolist()
    return x, y, z, offset
