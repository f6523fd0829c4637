"""Texture coordinates by planar and cube-map projection, with adaptive subdivision of faces, and cube-map atlases.

A cube map has six square faces in the order +x, -x, +y, -y, +z, -z with the axes of OpenGL. `cube_map_atlas` packs the
faces into one image of 2 rows and 3 columns. Every face has a border of pixels sampled from its neighbours, so that the
texture coordinates of a triangle may extend slightly over the edge of the face it is assigned to.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from .appearance import Appearance, CornerAttribute
from .mesh import FloatArray, IntArray, MeshData

# Cube-map atlas -------------------------------------------------------------------------------------------------------

_BORDER_DIVISOR = 8
"""Width of a cube face divided by the width of its border."""
_ATLAS_COLUMNS, _ATLAS_ROWS = 3, 2
_MAX_FACE_PIXELS = 1024
"""Maximum width of a cube face [pixels]."""
_FACE_RIGHT = np.array([[0, 0, -1], [0, 0, 1], [1, 0, 0], [1, 0, 0], [1, 0, 0], [-1, 0, 0]], dtype=np.float64)
_FACE_DOWN = np.array([[0, -1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1], [0, -1, 0], [0, -1, 0]], dtype=np.float64)
_FACE_NORMAL = np.array([[1, 0, 0], [-1, 0, 0], [0, 1, 0], [0, -1, 0], [0, 0, 1], [0, 0, -1]], dtype=np.float64)
"""Axes of the six cube faces: direction of increasing columns, direction of increasing rows, and outward normal."""


def cube_face_extent(face_pixels: int) -> float:
    """Half width of a bordered cube face relative to the half width of the face itself (slightly above 1).

    Args:
        face_pixels: width of a cube face [pixels].
    """
    face_pixels = min(face_pixels, _MAX_FACE_PIXELS)
    return (face_pixels + 2 * _border_pixels(face_pixels)) / face_pixels


def cube_map_atlas(faces: np.ndarray) -> np.ndarray:
    """Pack the six faces of a cube map, uint8 (6, width, width, channels), into one atlas image with borders.

    Faces wider than the maximum are downsampled first. The atlas has 2 rows and 3 columns of bordered faces.
    """
    faces = _limit_resolution(faces)
    width = faces.shape[1]
    border = _border_pixels(width)
    coordinates = (np.arange(-border, width + border) + 0.5) / width * 2.0 - 1.0
    rows = []
    for row in range(_ATLAS_ROWS):
        tiles = [_bordered_face(faces, row * _ATLAS_COLUMNS + column, coordinates) for column in range(_ATLAS_COLUMNS)]
        rows.append(np.concatenate(tiles, axis=1))
    return np.concatenate(rows, axis=0)


def cube_map_faces(directions: FloatArray) -> IntArray:
    """Index of the cube-map face (+x, -x, +y, -y, +z, -z) hit by each direction (n, 3); shape (n,)."""
    axis = np.abs(directions).argmax(axis=1)
    return 2 * axis + (directions[np.arange(len(axis)), axis] < 0)


def project_to_cube_faces(directions: FloatArray, faces: IntArray) -> FloatArray:
    """Perspective projection of directions onto the planes of given cube-map faces.

    Returns column and row coordinates, shape (..., 2), which are within [-1, 1] on the face itself.

    Args:
        directions: shape (..., 3). Directions nearly parallel to or facing away from the plane project far outside.
        faces: face indices, shape (...).
    """
    depth = np.maximum(
        (directions * _FACE_NORMAL[faces]).sum(axis=-1), 1e-9 * np.abs(directions).max(axis=-1, initial=0.0)
    )
    depth = np.where(depth > 0, depth, 1.0)
    column, row = (directions * _FACE_RIGHT[faces]).sum(axis=-1), (directions * _FACE_DOWN[faces]).sum(axis=-1)
    return np.stack([column, row], axis=-1) / depth[..., None]


def atlas_coordinates(face_coordinates: FloatArray, faces: IntArray, extent: float) -> FloatArray:
    """Texture coordinates (u, v) in the atlas of positions on cube-map faces, v upwards; shape (..., 2).

    Args:
        face_coordinates: coordinates on the faces as returned by `project_to_cube_faces`, shape (..., 2).
        faces: face indices, shape (...).
        extent: half width of a bordered face, see `cube_face_extent`; coordinates are clipped to it.
    """
    tile = 0.5 + 0.5 * np.clip(face_coordinates / extent, -1.0, 1.0)
    u = (faces % _ATLAS_COLUMNS + tile[..., 0]) / _ATLAS_COLUMNS
    v_down = (faces // _ATLAS_COLUMNS + tile[..., 1]) / _ATLAS_ROWS
    return np.stack([u, 1.0 - v_down], axis=-1)


def _border_pixels(face_pixels: int) -> int:
    return -(-face_pixels // _BORDER_DIVISOR)


def _bordered_face(faces: np.ndarray, face: int, coordinates: FloatArray) -> np.ndarray:
    """Resample one face of a cube map including its border, shape (n, n, channels).

    Args:
        faces: all six faces, shape (6, width, width, channels).
        face: index of the face.
        coordinates: column and row coordinates of the output pixels, shape (n,); outside [-1, 1] the pixels are fetched
            from the neighbouring faces by nearest-neighbour lookup.
    """
    row, column = np.meshgrid(coordinates, coordinates, indexing="ij")
    directions = (
        _FACE_NORMAL[face] + column[..., None] * _FACE_RIGHT[face] + row[..., None] * _FACE_DOWN[face]
    ).reshape(-1, 3)
    hit_faces = cube_map_faces(directions)
    width = faces.shape[1]
    pixels = np.clip(((project_to_cube_faces(directions, hit_faces) + 1.0) / 2.0 * width).astype(int), 0, width - 1)
    return faces[hit_faces, pixels[:, 1], pixels[:, 0]].reshape(len(coordinates), len(coordinates), -1)


def _limit_resolution(faces: np.ndarray) -> np.ndarray:
    """Downsample cube-map faces (6, width, width, channels) to at most `_MAX_FACE_PIXELS` by nearest neighbour."""
    width = faces.shape[1]
    if width <= _MAX_FACE_PIXELS:
        return faces
    selected = ((np.arange(_MAX_FACE_PIXELS) + 0.5) * width / _MAX_FACE_PIXELS).astype(int)
    return faces[:, selected][:, :, selected]


# Subdivision ----------------------------------------------------------------------------------------------------------

_NEXT_CORNER = (1, 2, 0)
_SPLIT_PATTERNS: dict[int, tuple[tuple[int, int, int], ...]] = {
    0b000: ((0, 1, 2),),
    0b001: ((0, 3, 2), (3, 1, 2)),
    0b010: ((0, 1, 4), (0, 4, 2)),
    0b100: ((0, 1, 5), (5, 1, 2)),
    0b011: ((3, 1, 4), (0, 3, 4), (0, 4, 2)),
    0b110: ((4, 2, 5), (0, 1, 4), (0, 4, 5)),
    0b101: ((0, 3, 5), (3, 1, 2), (3, 2, 5)),
    0b111: ((0, 3, 5), (3, 1, 4), (5, 4, 2), (3, 4, 5)),
}
"""Bit mask of split edges (edge 0 in the lowest bit) -> child triangles; slots 0 to 2 are the corners, 3 to 5 the edge
midpoints."""


def subdivide_faces(mesh: MeshData, appearance: Appearance, split_mask: np.ndarray) -> tuple[MeshData, Appearance]:
    """Split selected triangles into four at their edge midpoints, and their neighbours conformingly.

    Neighbours are split into two to four triangles so that no T-junctions arise. Normals, texture coordinates and
    colours are interpolated, normals are renormalised and material indices inherited. Returns the new mesh and
    appearance.

    Args:
        mesh: the triangles.
        appearance: per-corner attributes and materials of the triangles.
        split_mask: for each face, whether it is split into four, shape (n_faces,).
    """
    faces = np.asarray(mesh.faces, dtype=np.int64)
    ends = np.sort(np.stack([faces, faces[:, _NEXT_CORNER]], axis=-1), axis=-1)
    keys = ends[..., 0] * mesh.n_vertices + ends[..., 1]
    split_edges = np.isin(keys, keys[split_mask])
    parents, slots = _child_triangles(split_edges)
    corners, midpoint_ends = _split_corner_indices(faces, split_edges, parents, slots, mesh.n_vertices)
    vertices = np.concatenate([mesh.vertices, _midpoints(mesh.vertices, midpoint_ends)])
    normals, colors, materials = appearance.normals, appearance.colors, appearance.face_material_indices
    new_appearance = replace(
        appearance,
        normals=None
        if normals is None
        else _normalize_attribute(_subdivide_attribute(normals, split_edges, parents, slots)),
        texture_coordinates=tuple(
            _subdivide_attribute(c, split_edges, parents, slots) for c in appearance.texture_coordinates
        ),
        colors=None if colors is None else _subdivide_attribute(colors, split_edges, parents, slots),
        face_material_indices=None if materials is None else materials[parents],
    )
    return MeshData(vertices, corners), new_appearance


def _child_triangles(split_edges: np.ndarray) -> tuple[IntArray, IntArray]:
    """Child triangles of all faces for a mask of split edges (n_faces, 3).

    Returns the parent face of each child, shape (n,), in ascending order, and the slots of its corners, shape (n, 3): 0
    to 2 are the corners of the parent, 3 to 5 its edge midpoints.
    """
    patterns = split_edges @ np.array([1, 2, 4])
    parent_lists, slot_lists = [], []
    for pattern, children in _SPLIT_PATTERNS.items():
        faces = np.flatnonzero(patterns == pattern)
        parent_lists.append(np.repeat(faces, len(children)))
        slot_lists.append(np.tile(np.array(children), (len(faces), 1)))
    parents = np.concatenate(parent_lists)
    order = np.argsort(parents, kind="stable")
    return parents[order], np.concatenate(slot_lists)[order]


def _split_corner_indices(
    corners: IntArray, split_edges: np.ndarray, parents: IntArray, slots: IntArray, n_values: int
) -> tuple[IntArray, IntArray]:
    """Value indices at the corners of child triangles, adding one new value per split edge.

    Args:
        corners: value index of each corner before subdivision, shape (n_faces, 3).
        split_edges: whether each edge is split, shape (n_faces, 3).
        parents: parent face of each child triangle, shape (n,).
        slots: corner and midpoint slots of each child triangle, shape (n, 3).
        n_values: number of values before subdivision; midpoints are numbered from here.

    Returns:
        indices of the child corners, shape (n, 3), and the two values that each midpoint averages, shape (n_new, 2).
    """
    ends = np.sort(np.stack([corners, corners[:, _NEXT_CORNER]], axis=-1), axis=-1)
    midpoint_ends, midpoint_indices = np.unique(ends[split_edges], axis=0, return_inverse=True)
    midpoints = np.zeros(corners.shape, dtype=np.int64)
    midpoints[split_edges] = n_values + midpoint_indices.reshape(-1)
    return np.take_along_axis(np.hstack([corners, midpoints])[parents], slots, axis=1), midpoint_ends


def _subdivide_attribute(
    attribute: CornerAttribute, split_edges: np.ndarray, parents: IntArray, slots: IntArray
) -> CornerAttribute:
    corners, midpoint_ends = _split_corner_indices(
        np.asarray(attribute.indices, dtype=np.int64), split_edges, parents, slots, len(attribute.values)
    )
    return CornerAttribute(np.concatenate([attribute.values, _midpoints(attribute.values, midpoint_ends)]), corners)


def _midpoints(values: np.ndarray, pairs: IntArray) -> np.ndarray:
    return 0.5 * (values[pairs[:, 0]] + values[pairs[:, 1]])


def _normalize_attribute(normals: CornerAttribute) -> CornerAttribute:
    lengths = np.linalg.norm(normals.values, axis=1, keepdims=True)
    return CornerAttribute(normals.values / np.where(lengths > 0, lengths, 1.0), normals.indices)


# Projections ----------------------------------------------------------------------------------------------------------

AffineRow = tuple[float, float, float, float]
"""One row of an affine map of a point (x, y, z): three factors and an offset."""
_MAX_SUBDIVISIONS = 6
"""Maximum number of subdivision passes."""
_MAX_FACE_FACTOR, _MAX_EXTRA_FACES = 4, 20_000
"""Limits of the subdivided face count: a multiple of the original count, or an absolute number of additional faces."""
_MAX_PIXELS = 2**16
"""Largest face width accepted in stored parameters [pixels]."""
_MAX_PIXEL_ERROR = 0.25
"""Tolerated error of the interpolated texture position at edge midpoints [pixels]."""


@dataclass(frozen=True, slots=True)
class PlanarProjection:
    """Parallel (planar) projection of an image onto a mesh."""

    u: AffineRow
    """Affine map from a vertex position, before scaling of the mesh, to u."""
    v: AffineRow
    """Affine map from a vertex position, before scaling of the mesh, to v (upwards)."""

    def apply(self, mesh: MeshData, appearance: Appearance) -> tuple[MeshData, Appearance]:
        """Mesh (unchanged) and appearance with texture coordinates replaced by this projection of the vertices."""
        rows = np.array([self.u, self.v])
        values = mesh.vertices @ rows[:, :3].T + rows[:, 3]
        layer = CornerAttribute(values, np.asarray(mesh.faces, dtype=np.int64))
        return mesh, replace(appearance, texture_coordinates=(layer,))


@dataclass(frozen=True, slots=True)
class CubeMapProjection:
    """Cube-map texture coordinates of a mesh: every point shows the atlas (`cube_map_atlas`) in its direction."""

    x: AffineRow
    """Affine maps from a vertex position, before scaling of the mesh, to x, y and z of its direction."""
    y: AffineRow
    z: AffineRow
    face_pixels: int
    """Width of a cube face [pixels]."""

    def apply(self, mesh: MeshData, appearance: Appearance) -> tuple[MeshData, Appearance]:
        """Mesh and appearance with texture coordinates by cube-map projection, with adaptive subdivision.

        Texture coordinates are linear within a triangle, but the projection is perspective and changes between cube
        faces. Triangles that leave the bordered cube face of their centroid or exceed the pixel error are subdivided,
        up to `_MAX_SUBDIVISIONS` times and within the limit on the number of faces.
        """
        max_faces = max(_MAX_FACE_FACTOR * mesh.n_faces, mesh.n_faces + _MAX_EXTRA_FACES)
        for _ in range(_MAX_SUBDIVISIONS):
            directions, cube_faces = self._corner_directions(mesh)
            split_mask = self._needs_subdivision(directions, cube_faces)
            if not split_mask.any() or mesh.n_faces + 4 * int(split_mask.sum()) > max_faces:
                break
            mesh, appearance = subdivide_faces(mesh, appearance, split_mask)
        return mesh, replace(appearance, texture_coordinates=(self.texture_coordinates(mesh),))

    def texture_coordinates(self, mesh: MeshData) -> CornerAttribute:
        """Atlas coordinates (u, v) of all face corners of `mesh` without subdivision, duplicates merged."""
        directions, cube_faces = self._corner_directions(mesh)
        corner_faces = np.repeat(cube_faces[:, None], 3, axis=1)
        values = atlas_coordinates(
            project_to_cube_faces(directions, corner_faces), corner_faces, cube_face_extent(self.face_pixels)
        ).reshape(-1, 2)
        unique_values, indices = np.unique(values, axis=0, return_inverse=True)
        return CornerAttribute(unique_values, indices.reshape(-1, 3))

    @property
    def parameters(self) -> list[float]:
        """The 13 parameters for storage in a file: rows x, y, z and the face width."""
        return [*self.x, *self.y, *self.z, float(self.face_pixels)]

    @classmethod
    def from_parameters(cls, parameters: Sequence[float]) -> CubeMapProjection | None:
        """Inverse of `parameters`; None if the values are not 13 finite numbers with a valid face width."""
        values = np.asarray(parameters, dtype=np.float64)
        if values.shape != (13,) or not np.isfinite(values).all() or not 1 <= values[12] <= _MAX_PIXELS:
            return None
        x, y, z = map(_affine_row, values[:12].reshape(3, 4))
        return cls(x, y, z, int(values[12]))

    def transformed(self, matrix: FloatArray) -> CubeMapProjection:
        """Equivalent projection for a mesh whose vertices were mapped by the 3x3 `matrix`."""
        rows = np.array([self.x, self.y, self.z])
        rows[:, :3] = rows[:, :3] @ np.linalg.inv(matrix)
        x, y, z = map(_affine_row, rows)
        return CubeMapProjection(x, y, z, self.face_pixels)

    def _corner_directions(self, mesh: MeshData) -> tuple[FloatArray, IntArray]:
        """Directions of all face corners, shape (n_faces, 3, 3), and cube-map face of each centroid, (n_faces,)."""
        rows = np.array([self.x, self.y, self.z])
        directions = (mesh.vertices @ rows[:, :3].T + rows[:, 3])[mesh.faces]
        return directions, cube_map_faces(directions.mean(axis=1))

    def _needs_subdivision(self, directions: FloatArray, faces: IntArray) -> np.ndarray:
        """Mask of triangles whose linear texture coordinates are a poor fit of the projection, shape (n,).

        A triangle is marked if a corner lies outside the bordered cube face, or if the interpolated position at an edge
        midpoint deviates from the projected one by more than `_MAX_PIXEL_ERROR` pixels.

        Args:
            directions: directions of the corners, shape (n, 3, 3).
            faces: cube-map face of each triangle, shape (n,).
        """
        corner_faces = np.repeat(faces[:, None], 3, axis=1)
        projected = project_to_cube_faces(directions, corner_faces)
        is_outside = np.abs(projected).max(axis=(1, 2)) > cube_face_extent(self.face_pixels)
        next_corner = (1, 2, 0)
        midpoints = project_to_cube_faces(0.5 * (directions + directions[:, next_corner]), corner_faces)
        error = np.abs(midpoints - 0.5 * (projected + projected[:, next_corner])).max(axis=(1, 2))
        return is_outside | (error * self.face_pixels / 2.0 > _MAX_PIXEL_ERROR)


def _affine_row(coefficients: FloatArray) -> AffineRow:
    x, y, z, offset = coefficients.tolist()
    return x, y, z, offset
