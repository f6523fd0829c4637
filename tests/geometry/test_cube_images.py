"""Six images around a mesh as one image, and faces cut so that it lies on them as it should."""

from __future__ import annotations

import numpy as np
import pytest

from kinema import geometry
from kinema.geometry import Appearance, CornerAttribute, CubeMapProjection, MeshData, cube_map_atlas
from kinema.geometry.texture_projection import subdivide_faces

PLAIN = ((1.0, 0.0, 0.0, 0.0), (0.0, 1.0, 0.0, 0.0), (0.0, 0.0, 1.0, 0.0))


def shown(image: np.ndarray, coordinates: np.ndarray) -> np.ndarray:
    """The pixels at texture coordinates."""
    rows, columns = image.shape[:2]
    down, across = (1.0 - coordinates[:, 1]) * rows, coordinates[:, 0] * columns
    return image[np.clip(down.astype(int), 0, rows - 1), np.clip(across.astype(int), 0, columns - 1)]


@pytest.mark.parametrize("mesh", [geometry.box([1.0, 1.0, 1.0]), geometry.sphere(0.7), geometry.box([3.0, 0.4, 1.0])])
def test_each_direction_shows_its_side(mesh: MeshData) -> None:
    """Sides of one colour each: away from their edges every point has that of the axis it is nearest to."""
    colors = np.arange(10, 190, 30, dtype=np.uint8)
    image = cube_map_atlas(np.broadcast_to(colors[:, None, None, None], (6, 16, 16, 3)))
    laid, appearance = CubeMapProjection(*PLAIN, 16).apply(mesh, Appearance())
    weights = np.random.default_rng(0).dirichlet(np.ones(3), (4, laid.n_faces))
    for row in weights:
        points = np.einsum("fc,fcx->fx", row, laid.triangles())
        there = np.einsum("fc,fcx->fx", row, appearance.texture_coordinates[0].expanded())
        heights = np.sort(np.abs(points), axis=1)
        is_inside = heights[:, 2] > 1.1 * heights[:, 1]
        axis = np.abs(points).argmax(axis=1)
        side = 2 * axis + (points[np.arange(len(points)), axis] < 0)
        np.testing.assert_array_equal(shown(image, there)[is_inside, 0], colors[side][is_inside])


def test_a_cube_of_its_own_needs_no_cuts() -> None:
    box = geometry.box([2.0, 2.0, 2.0])
    laid, _ = CubeMapProjection(*PLAIN, 64).apply(box, Appearance())
    assert laid.n_faces == box.n_faces


def test_cut_faces_are_the_same_surface() -> None:
    """Volume and area stay, no edge is left open, and what is laid on the corners goes along evenly."""
    mesh = geometry.sphere(0.5)
    faces = np.asarray(mesh.faces, dtype=np.int64)
    layer = CornerAttribute(mesh.vertices[:, :2].copy(), faces)
    parts = np.arange(mesh.n_faces) % 3
    is_cut = np.random.default_rng(1).random(mesh.n_faces) < 0.2
    own = Appearance(
        texture_coordinates=(layer,), normals=CornerAttribute(mesh.vertices / 0.5, faces), face_material_indices=parts
    )
    cut, appearance = subdivide_faces(mesh, own, is_cut)
    assert cut.n_faces > mesh.n_faces + 3 * is_cut.sum() - 1
    assert geometry.measure_mesh_quality(cut).is_closed
    np.testing.assert_allclose(geometry.signed_volume(cut), geometry.signed_volume(mesh), rtol=1e-12)
    np.testing.assert_allclose(
        appearance.texture_coordinates[0].expanded(), cut.triangles()[..., :2], rtol=0, atol=1e-15
    )
    assert appearance.normals is not None
    np.testing.assert_allclose(np.linalg.norm(appearance.normals.values, axis=1), 1.0, rtol=1e-12)
    assert appearance.face_material_indices is not None
    assert len(appearance.face_material_indices) == cut.n_faces
