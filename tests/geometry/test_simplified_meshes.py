"""Meshes with fewer triangles."""

from __future__ import annotations

import numpy as np
import pytest
import trimesh

from kinema.geometry import (
    GeometryError,
    MeshData,
    apply_affine,
    box,
    capsule,
    load_mesh,
    measure_mesh_quality,
    plane,
    signed_distances,
    simplify_mesh,
    sphere,
    weld_vertices,
)
from kit.assets import assets

from .mesh_writers import random_turn


def torus() -> MeshData:
    made = trimesh.creation.torus(1.0, 0.3, major_sections=32, minor_sections=16)
    return MeshData(made.vertices, made.faces)


@pytest.mark.parametrize(
    ("mesh", "off", "size"),
    [
        (sphere(1.0, 32), 0.03, 1.0),
        pytest.param(sphere(1.0, 32), 0.03, 1e3, marks=pytest.mark.exhaustive),
        (torus(), 0.03, 1e-4),
        pytest.param(torus(), 0.03, 1.0, marks=pytest.mark.exhaustive),
        (capsule(0.2, 2.0, 32), 0.01, 1.0),
    ],
)
def test_closed_surfaces_stay_closed_and_close(mesh: MeshData, off: float, size: float) -> None:
    """Every vertex stays near the surface, nothing turns inside out, and size and place do not matter."""
    moved = apply_affine(mesh, size * random_turn(2), np.full(3, 5 * size))
    fewer = simplify_mesh(moved, 200)
    quality, before = measure_mesh_quality(fewer), measure_mesh_quality(mesh)
    assert fewer.n_faces <= 200
    assert quality.is_closed
    assert quality.n_components == 1
    assert fewer.n_vertices - fewer.n_faces / 2 == mesh.n_vertices - mesh.n_faces / 2  # as many holes as before
    assert quality.volume == pytest.approx(before.volume * size**3, rel=0.05)
    assert np.abs(signed_distances(moved, fewer.vertices)).max() < off * size


def test_flat_faces_lose_nothing() -> None:
    made = trimesh.Trimesh(box((1, 2, 3)).vertices, box((1, 2, 3)).faces).subdivide().subdivide().subdivide()
    fewer = simplify_mesh(MeshData(made.vertices, made.faces), 12)
    assert fewer.n_faces == 12
    assert measure_mesh_quality(fewer).volume == pytest.approx(6.0, rel=1e-6)
    np.testing.assert_allclose(measure_mesh_quality(fewer).extents, [1, 2, 3], rtol=1e-6)


def test_the_border_of_an_open_surface_stays() -> None:
    made = trimesh.Trimesh(plane(2, 1).vertices, plane(2, 1).faces).subdivide().subdivide().subdivide()
    fewer = simplify_mesh(MeshData(made.vertices, made.faces), 4)
    assert fewer.n_faces <= 4
    assert measure_mesh_quality(fewer).area == pytest.approx(2.0, rel=1e-6)


def test_the_part_of_a_robot() -> None:
    """Not closed, and not welded in its file."""
    mesh = load_mesh(assets("mjcf/wonik_allegro/assets/link_2.0.stl"))
    fewer = simplify_mesh(mesh, 300)
    assert fewer.n_faces <= 300 < mesh.n_faces
    np.testing.assert_allclose(measure_mesh_quality(fewer).extents, measure_mesh_quality(mesh).extents, rtol=0.03)
    assert measure_mesh_quality(fewer).area == pytest.approx(measure_mesh_quality(mesh).area, rel=0.05)


def test_a_small_mesh_is_only_welded_and_the_result_is_the_same_each_time() -> None:
    mesh = box((1, 1, 1))
    np.testing.assert_array_equal(simplify_mesh(mesh, 12).faces, weld_vertices(mesh).faces)
    first, second = simplify_mesh(sphere(1.0, 24), 60), simplify_mesh(sphere(1.0, 24), 60)
    np.testing.assert_array_equal(first.vertices, second.vertices)
    with pytest.raises(GeometryError, match="at least 4"):
        simplify_mesh(mesh, 3)
