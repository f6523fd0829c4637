"""Tessellated primitives are what they claim to be."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    GeometryError,
    MeshData,
    box,
    capsule,
    cone,
    cylinder,
    ellipsoid,
    height_field,
    measure_mesh_quality,
    mesh_mass_properties,
    plane,
    sphere,
)

EXAMPLES = 30

ROUND: dict[str, Callable[[int], MeshData]] = {
    "sphere": lambda n: sphere(0.7, n),
    "ellipsoid": lambda n: ellipsoid((0.3, 0.5, 1.1), n),
    "capsule": lambda n: capsule(0.2, 0.9, n),
    "cylinder": lambda n: cylinder(0.4, 1.3, n),
    "cone": lambda n: cone(0.5, 1.2, n),
}
EXTENTS = {
    "sphere": (1.4, 1.4, 1.4),
    "ellipsoid": (0.6, 1.0, 2.2),
    "capsule": (0.4, 0.4, 1.3),
    "cylinder": (0.8, 0.8, 1.3),
    "cone": (1.0, 1.0, 1.2),
}


@pytest.mark.parametrize("segments", [3, 4, 7, 32])
@pytest.mark.parametrize("shape", ROUND)
def test_round_solids_are_closed_and_face_outward(shape: str, segments: int) -> None:
    quality = measure_mesh_quality(ROUND[shape](segments))
    assert quality.is_closed
    assert not quality.is_inside_out
    assert quality.n_degenerate_faces == 0
    assert quality.n_components == 1


@pytest.mark.parametrize("shape", ROUND)
def test_round_solids_have_exact_extents_and_convex_faces(shape: str) -> None:
    mesh = ROUND[shape](32)
    assert np.array_equal(mesh.vertices.max(axis=0), -mesh.vertices.min(axis=0))
    np.testing.assert_allclose(measure_mesh_quality(mesh).extents, EXTENTS[shape], rtol=1e-15)
    corners = mesh.triangles()
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    heights = normals @ mesh.vertices.T - np.einsum("ij,ij->i", normals, corners[:, 0])[:, None]
    assert heights.max() < 1e-12  # no vertex is in front of any face


@settings(max_examples=EXAMPLES)
@given(size=st.lists(st.floats(1e-3, 1e3), min_size=3, max_size=3))
def test_box_has_its_size_and_volume(size: list[float]) -> None:
    quality = measure_mesh_quality(box(size))
    assert quality.is_closed
    np.testing.assert_allclose(quality.extents, size, rtol=1e-15)
    np.testing.assert_allclose(quality.volume, np.prod(size), rtol=1e-12)


def test_plane_is_an_upward_rectangle() -> None:
    mesh = plane(2.0, 3.0)
    corners = mesh.triangles()
    normals = np.cross(corners[:, 1] - corners[:, 0], corners[:, 2] - corners[:, 0])
    np.testing.assert_array_equal(normals, [[0, 0, 6], [0, 0, 6]])
    assert measure_mesh_quality(mesh).n_boundary_edges == 4


def test_cone_points_up() -> None:
    mesh = cone(0.5, 2.0)
    np.testing.assert_array_equal(mesh.vertices[mesh.vertices[:, 2] > 0], [[0, 0, 1]])


@settings(max_examples=EXAMPLES)
@given(
    shape=st.tuples(st.integers(2, 6), st.integers(2, 6)),
    seed=st.integers(0, 1000),
)
def test_height_field_is_a_closed_solid_of_the_right_volume(shape: tuple[int, int], seed: int) -> None:
    """The volume under a grid cut into triangles is the mean height of each triangle times its area."""
    rows, cols = shape
    heights = np.random.default_rng(seed).uniform(-0.1, 1.0, shape)
    mesh = height_field(heights, 2.0, 3.0, base=0.25)
    quality = measure_mesh_quality(mesh)
    assert quality.is_closed
    lower = (heights[:-1, :-1] + heights[:-1, 1:] + heights[1:, 1:]) / 3 + 0.25
    upper = (heights[:-1, :-1] + heights[1:, 1:] + heights[1:, :-1]) / 3 + 0.25
    expected = (lower + upper).sum() * 6.0 / ((rows - 1) * (cols - 1)) / 2
    np.testing.assert_allclose(quality.volume, expected, rtol=1e-12)


def test_height_field_rows_run_along_y_and_columns_along_x() -> None:
    heights = np.zeros((3, 2))
    heights[2, 0] = 1.0
    mesh = height_field(heights, 2.0, 6.0, base=0.5)
    np.testing.assert_array_equal(mesh.vertices[mesh.vertices[:, 2] == 1.0], [[-1, 3, 1]])
    assert mesh_mass_properties(mesh, 1.0).center[1] > 0


@pytest.mark.parametrize(
    "make",
    [
        lambda: box((1, 1)),
        lambda: box((1, 0, 1)),
        lambda: box((1, -1, 1)),
        lambda: sphere(0.0),
        lambda: sphere(float("nan")),
        lambda: sphere(1.0, 2),
        lambda: ellipsoid((1, 1, -1)),
        lambda: capsule(1.0, -1.0),
        lambda: cylinder(1.0, 0.0),
        lambda: cone(0.0, 1.0),
        lambda: plane(0.0, 1.0),
        lambda: height_field([[0.0, 1.0]], 1, 1, 1),
        lambda: height_field([[0.0, 0.0], [0.0, 0.0]], 1, 1, 0.0),
    ],
)
def test_impossible_sizes_are_refused(make: Callable[[], MeshData]) -> None:
    with pytest.raises(GeometryError):
        make()
