"""The triangle mesh every function of this package takes and returns."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import ArrayLike, NDArray

FloatArray = NDArray[np.float64]
IntArray = NDArray[np.int64]

# A metre-scale robot drawn in micrometres stays below 1e7; anything past this is noise read as numbers, and would
# overflow the fifth-order integrals of the mass properties.
MAX_COORDINATE = 1e12


class ShapeError(ValueError):
    """A shape cannot be made or measured as asked (a negative radius, a matrix that is not 3x3, ...)."""


class MeshError(ShapeError):
    """A mesh, or the file it should come from, is not usable; `reason` is one plain sentence for the user."""

    def __init__(self, reason: str) -> None:
        super().__init__(reason)
        self.reason = reason


@dataclass(frozen=True, eq=False)
class MeshData:
    """Triangles in some frame of the caller's; counter-clockwise seen from outside.

    The arrays are read-only: meshes are shared between links and caches. Copy before writing.
    """

    vertices: FloatArray
    """Positions [m], shape (n, 3)."""
    faces: IntArray
    """Vertex indices, shape (m, 3)."""

    def __post_init__(self) -> None:
        object.__setattr__(self, "vertices", _read_only(_as_vertices(self.vertices)))
        object.__setattr__(self, "faces", _read_only(_as_faces(self.faces)))

    @property
    def n_vertices(self) -> int:
        """Number of vertices, whether a face uses them or not."""
        return len(self.vertices)

    @property
    def n_faces(self) -> int:
        """Number of triangles."""
        return len(self.faces)

    def triangles(self) -> FloatArray:
        """Corner positions of every face [m], shape (m, 3 corners, 3)."""
        return self.vertices[self.faces]


def check_mesh(mesh: MeshData, *, max_coordinate: float = MAX_COORDINATE) -> MeshData:
    """Return `mesh` unchanged, or raise `MeshError` when a consumer could not use it.

    It must have triangles, finite coordinates no larger than `max_coordinate` [m] and indices within range.
    """
    if mesh.n_faces == 0:
        raise MeshError("The mesh has no triangles.")
    if mesh.n_vertices == 0:
        raise MeshError("The mesh has no vertices.")
    lowest, highest = int(mesh.faces.min()), int(mesh.faces.max())
    if lowest < 0 or highest >= mesh.n_vertices:
        wrong = lowest if lowest < 0 else highest
        raise MeshError(f"A face refers to vertex {wrong}, but there are only {mesh.n_vertices} vertices.")
    if not np.isfinite(mesh.vertices).all():
        raise MeshError("A vertex coordinate is not a finite number.")
    largest = float(np.abs(mesh.vertices).max())
    if largest > max_coordinate:
        raise MeshError(f"A vertex coordinate is {largest:.3g}, larger than the {max_coordinate:.3g} allowed.")
    return mesh


def float_vector(value: ArrayLike, length: int, what: str) -> FloatArray:
    """`value` as a float64 array of shape (length,), or `ShapeError` naming `what`."""
    return _float_array(value, (length,), what)


def float_matrix(value: ArrayLike, what: str) -> FloatArray:
    """`value` as a float64 array of shape (3, 3), or `ShapeError` naming `what`."""
    return _float_array(value, (3, 3), what)


def _float_array(value: ArrayLike, shape: tuple[int, ...], what: str) -> FloatArray:
    array = np.asarray(value, dtype=np.float64)
    if array.shape != shape or not np.isfinite(array).all():
        raise ShapeError(f"The {what} must be finite numbers of shape {shape}, got shape {array.shape}.")
    return array


def _as_vertices(value: ArrayLike) -> FloatArray:
    array = np.ascontiguousarray(value, dtype=np.float64)
    if array.size == 0:
        return np.zeros((0, 3))
    if array.ndim != 2 or array.shape[1] != 3:
        raise ShapeError(f"Mesh vertices must have shape (n, 3), got {array.shape}.")
    return array


def _as_faces(value: ArrayLike) -> IntArray:
    array = np.asarray(value)
    if array.size == 0:
        return np.zeros((0, 3), dtype=np.int64)
    if array.ndim != 2 or array.shape[1] != 3:
        raise ShapeError(f"Mesh faces must have shape (m, 3), got {array.shape}.")
    # Converting floats would silently truncate what is more likely vertices passed in the wrong place.
    if array.dtype.kind not in "iu":
        raise ShapeError(f"Mesh faces must be integers, got {array.dtype}.")
    return np.ascontiguousarray(array, dtype=np.int64)


def _read_only(array: NDArray[Any]) -> NDArray[Any]:
    # A view, so that the caller's own array keeps its flag.
    view = array.view()
    view.flags.writeable = False
    return view
