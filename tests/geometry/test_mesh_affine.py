"""Mesh data, mapping, joining and welding."""

from __future__ import annotations

import subprocess
import sys

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    GeometryError,
    MeshData,
    MeshError,
    apply_affine,
    box,
    measure_mesh_quality,
    merge_meshes,
    signed_volume,
    sphere,
    validate_mesh,
    weld_vertices,
)

EXAMPLES = 30


def test_mesh_arrays_are_float64_int64_and_read_only() -> None:
    mesh = MeshData(np.zeros((3, 3), dtype=np.float32), np.array([[0, 1, 2]], dtype=np.uint16))  # pyright: ignore[reportArgumentType]
    assert mesh.vertices.dtype == np.float64
    assert mesh.faces.dtype == np.int64
    with pytest.raises(ValueError, match="read-only"):
        mesh.vertices[0, 0] = 1.0


def test_making_a_mesh_leaves_the_callers_array_writable() -> None:
    vertices = np.zeros((3, 3))
    MeshData(vertices, np.array([[0, 1, 2]]))
    vertices[0, 0] = 1.0


@pytest.mark.parametrize(
    ("vertices", "faces"),
    [(np.zeros((3, 2)), [[0, 1, 2]]), (np.zeros((3, 3)), [[0, 1]]), (np.zeros((3, 3)), [[0.0, 1.0, 2.0]])],
)
def test_wrong_shapes_are_refused(vertices: np.ndarray, faces: list[list[float]]) -> None:
    with pytest.raises(GeometryError):
        MeshData(vertices, np.array(faces))


@pytest.mark.parametrize(
    ("vertices", "faces", "reason"),
    [
        (np.zeros((3, 3)), np.zeros((0, 3), dtype=int), "no triangles"),
        (np.zeros((0, 3)), [[0, 1, 2]], "no vertices"),
        (np.zeros((3, 3)), [[0, 1, 3]], "vertex 3"),
        (np.zeros((3, 3)), [[0, 1, -1]], "vertex -1"),
        ([[0, 0, np.nan]] * 3, [[0, 1, 2]], "not a finite number"),
        ([[0, 0, 1e300]] * 3, [[0, 1, 2]], "larger than"),
    ],
)
def test_check_mesh_says_what_is_wrong(vertices: object, faces: object, reason: str) -> None:
    mesh = MeshData(np.array(vertices, dtype=float), np.array(faces))
    with pytest.raises(MeshError, match=reason):
        validate_mesh(mesh)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10**6))
def test_a_linear_map_multiplies_the_volume_and_keeps_faces_outward(seed: int) -> None:
    matrix = np.random.default_rng(seed).normal(size=(3, 3))
    mapped = apply_affine(box((1, 1, 1)), matrix, (1, 2, 3))
    np.testing.assert_allclose(signed_volume(mapped), abs(np.linalg.det(matrix)), rtol=1e-9)
    np.testing.assert_allclose(mapped.vertices.mean(axis=0), (1, 2, 3), atol=1e-12)


def test_bad_maps_are_refused() -> None:
    with pytest.raises(GeometryError):
        apply_affine(box((1, 1, 1)), np.eye(4))
    with pytest.raises(GeometryError):
        apply_affine(box((1, 1, 1)), np.full((3, 3), np.inf))


def test_merge_keeps_order_and_shifts_indices() -> None:
    both = merge_meshes([box((1, 1, 1)), sphere(1.0, 8)])
    assert both.n_faces == 12 + sphere(1.0, 8).n_faces
    assert both.faces[12:].min() == 8
    assert measure_mesh_quality(both).n_components == 2


def test_weld_restores_shared_vertices_in_first_order() -> None:
    mesh = box((1, 2, 3))
    soup = MeshData(mesh.triangles().reshape(-1, 3), np.arange(36).reshape(-1, 3))
    welded = weld_vertices(soup)
    assert welded.n_vertices == 8
    np.testing.assert_array_equal(welded.triangles(), mesh.triangles())
    np.testing.assert_array_equal(welded.vertices[0], soup.vertices[0])
    np.testing.assert_array_equal(weld_vertices(welded).vertices, welded.vertices)


@settings(max_examples=EXAMPLES)
@given(seed=st.integers(0, 10**6))
def test_weld_with_a_tolerance_joins_noisy_copies(seed: int) -> None:
    """Also where two copies lie on either side of what a rounding grid would call the same place."""
    random = np.random.default_rng(seed)
    mesh = apply_affine(sphere(1.0, 8), np.eye(3), random.normal(size=3))
    soup = mesh.triangles().reshape(-1, 3)
    noisy = MeshData(soup + random.uniform(-1e-7, 1e-7, soup.shape), np.arange(len(soup)).reshape(-1, 3))
    welded = weld_vertices(noisy, 1e-6)
    assert welded.n_vertices == mesh.n_vertices
    assert measure_mesh_quality(welded).is_closed


def test_weld_drops_collapsed_faces() -> None:
    vertices = np.array([[0.0, 0, 0], [1e-9, 0, 0], [0, 1, 0], [1, 1, 0]])
    mesh = MeshData(vertices, np.array([[0, 1, 2], [0, 2, 3]]))
    assert weld_vertices(mesh).n_faces == 2
    assert weld_vertices(mesh, 1e-6).n_faces == 1
    with pytest.raises(GeometryError):
        weld_vertices(mesh, -1.0)


def test_importing_shapes_imports_no_heavy_library() -> None:
    code = "import sys, kinema.geometry; print(sorted({'scipy', 'trimesh', 'collada', 'mujoco'} & set(sys.modules)))"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert result.stdout.strip() == "[]"
