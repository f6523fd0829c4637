"""What `mesh_quality` finds."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from kinema.geometry import (
    MeshData,
    apply_affine,
    box,
    measure_mesh_quality,
    merge_meshes,
    plane,
    sphere,
    weld_vertices,
)


def soup(mesh: MeshData) -> MeshData:
    """The same triangles with no shared vertices, as in an STL."""
    return MeshData(mesh.triangles().reshape(-1, 3), np.arange(3 * mesh.n_faces).reshape(-1, 3))


def test_triangle_soup_counts_as_welded() -> None:
    quality = measure_mesh_quality(soup(sphere(1.0)))
    assert quality.is_closed
    assert quality.encloses_volume
    assert quality.n_components == 1
    assert quality.n_degenerate_faces == 0


def test_minus_zero_is_zero() -> None:
    mesh = soup(plane(1.0, 1.0))
    vertices = mesh.vertices.copy()
    vertices[::2, 2] = -0.0
    assert measure_mesh_quality(MeshData(vertices, mesh.faces)).n_boundary_edges == 4


def test_a_missing_face_opens_the_mesh() -> None:
    mesh = box((1, 1, 1))
    quality = measure_mesh_quality(MeshData(mesh.vertices, mesh.faces[1:]))
    assert not quality.is_closed
    assert not quality.encloses_volume
    assert quality.n_boundary_edges == 3


def test_a_turned_face_is_seen() -> None:
    mesh = box((1, 1, 1))
    faces = mesh.faces.copy()
    faces[0] = faces[0, ::-1]
    quality = measure_mesh_quality(MeshData(mesh.vertices, faces))
    assert quality.n_misoriented_edges == 3
    assert quality.n_boundary_edges == 0
    assert not quality.is_closed
    assert not quality.encloses_volume


def test_inside_out() -> None:
    mesh = box((1, 2, 3))
    quality = measure_mesh_quality(MeshData(mesh.vertices, mesh.faces[:, ::-1]))
    assert quality.is_inside_out
    assert quality.is_closed
    assert quality.volume == pytest.approx(-6.0)


def test_two_boxes_that_touch_along_an_edge_still_bound_a_volume() -> None:
    both = merge_meshes([box((1, 1, 1)), apply_affine(box((1, 1, 1)), np.eye(3), (1, 1, 0))])
    quality = measure_mesh_quality(both)
    assert not quality.is_closed
    assert quality.encloses_volume
    assert quality.n_nonmanifold_edges == 1
    assert quality.n_components == 1
    assert quality.volume == pytest.approx(2.0)


def test_components_and_extents() -> None:
    apart = merge_meshes([box((1, 1, 1)), apply_affine(sphere(0.5), np.eye(3), (3, 0, 0))])
    unused = MeshData(np.concatenate([apart.vertices, [[9, 9, 9]]]), apart.faces)
    quality = measure_mesh_quality(unused)
    assert quality.n_components == 2
    np.testing.assert_allclose(quality.extents, [4, 1, 1])
    assert quality.is_closed


def test_degenerate_faces_are_counted_and_do_not_open_the_mesh() -> None:
    mesh = box((1, 1, 1))
    faces = np.concatenate([mesh.faces, [[0, 0, 1], [2, 2, 2]]])
    quality = measure_mesh_quality(MeshData(mesh.vertices, faces))
    assert quality.n_degenerate_faces == 2
    assert quality.is_closed
    line = MeshData(np.array([[0.0, 0, 0], [1, 1, 1], [3, 3, 3]]), np.array([[0, 1, 2]]))
    assert measure_mesh_quality(line).n_degenerate_faces == 1
    assert not measure_mesh_quality(line).is_closed


def test_nan_is_reported_and_nothing_else() -> None:
    mesh = box((1, 1, 1))
    vertices = mesh.vertices.copy()
    vertices[0, 0] = np.nan
    quality = measure_mesh_quality(MeshData(vertices, mesh.faces))
    assert quality.has_nan
    assert not quality.is_closed


def test_an_empty_mesh_has_no_quality() -> None:
    quality = measure_mesh_quality(merge_meshes([]))
    assert not quality.has_nan
    assert not quality.is_closed
    assert quality.n_components == 0


@pytest.mark.parametrize("seed", range(5))
def test_agrees_with_trimesh_on_random_soup(seed: int) -> None:
    random = np.random.default_rng(seed)
    mesh = weld_vertices(MeshData(random.normal(size=(12, 3)), random.integers(0, 12, (30, 3))))
    other = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    quality = measure_mesh_quality(mesh)
    assert quality.is_closed == (other.is_watertight and other.is_winding_consistent)
    assert quality.n_boundary_edges == len(trimesh.grouping.group_rows(other.edges_sorted, require_count=1))
    assert quality.area == pytest.approx(other.area)
