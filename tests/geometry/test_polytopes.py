"""Convex solids with planar faces, against MuJoCo's convex hulls and by what makes a polytope one."""

from __future__ import annotations

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    GeometryError,
    MeshData,
    MeshError,
    Polytope,
    apply_affine,
    box,
    capsule,
    cone,
    convex_hull,
    convex_polytope,
    cylinder,
    load_mesh,
    plane,
    signed_volume,
    sphere,
)
from kit.assets import assets

from .mesh_writers import random_turn

NO_FACES = np.zeros((0, 3), dtype=np.int64)


def assert_sound(solid: Polytope) -> None:
    """Euler's rule, planes that hold everything, edges between two faces each, counter-clockwise corners."""
    size = np.ptp(solid.vertices, axis=0).max()
    corners = np.unique(solid.polygons)
    assert len(corners) - len(solid.edges) + solid.n_faces == 2
    assert (solid.vertices @ solid.normals.T - solid.offsets).max() <= 2e-6 * size
    np.testing.assert_allclose(np.linalg.norm(solid.normals, axis=1), 1.0, atol=1e-12)
    volume = surface = 0.0
    for face in range(solid.n_faces):
        loop = solid.face_vertices(face)
        at = solid.vertices[loop]
        assert len(loop) == len(set(loop.tolist())) >= 3
        assert np.abs(at @ solid.normals[face] - solid.offsets[face]).max() <= 4e-6 * size
        area = np.cross(at - at[0], np.roll(at, -1, axis=0) - at[0]).sum(axis=0) @ solid.normals[face] / 2
        assert area > 0
        surface += area
        volume += area * (solid.offsets[face] - solid.vertices.mean(axis=0) @ solid.normals[face]) / 3
    assert volume == pytest.approx(signed_volume(solid.to_mesh()), rel=1e-4, abs=4e-6 * size * surface)
    for (a, b), (left, right) in zip(solid.edges.tolist(), solid.edge_faces.tolist(), strict=True):
        loop = solid.face_vertices(left).tolist()
        assert loop[(loop.index(a) + 1) % len(loop)] == b
        loop = solid.face_vertices(right).tolist()
        assert loop[(loop.index(b) + 1) % len(loop)] == a


def climb(solid: Polytope, direction: np.ndarray) -> int:
    """The farthest vertex, by going to a better neighbour as long as there is one."""
    at = 0
    while True:
        around = np.unique(solid.triangles[(solid.triangles == at).any(axis=1)])
        best = int(around[(solid.vertices[around] @ direction).argmax()])
        if solid.vertices[best] @ direction <= solid.vertices[at] @ direction:
            return at
        at = best


@pytest.mark.parametrize(
    ("mesh", "n_faces", "n_edges"),
    [
        (box((1, 2, 3)), 6, 12),
        (cylinder(0.1, 1.0, 24), 26, 72),
        (cone(0.5, 1.0, 12), 13, 24),
        (sphere(0.3, 16), 128, 240),
        (capsule(0.1, 0.5, 16), 144, 272),
    ],
)
@pytest.mark.parametrize("size", [1e-4, 1e3])
def test_faces_of_known_solids(mesh: MeshData, n_faces: int, n_edges: int, size: float) -> None:
    """Triangles of one plane are one face, however large the solid is, wherever it is, and rounded as in files."""
    turned = apply_affine(mesh, size * random_turn(3), np.array([1.0, -2.0, 0.5]) * size)
    rounded = turned.vertices.astype(np.float32).astype(np.float64)
    for solid in (convex_polytope(turned), convex_polytope(MeshData(rounded, turned.faces))):
        assert_sound(solid)
        assert (solid.n_faces, len(solid.edges)) == (n_faces, n_edges)


@settings(max_examples=40)
@given(seed=st.integers(0, 10**6), count=st.integers(4, 50), coarse=st.booleans(), stretch=st.floats(-5, 0))
def test_random_solids(seed: int, count: int, coarse: bool, stretch: float) -> None:
    """Points on a coarse grid have many planes, lines and slivers in common; stretched solids are thin plates."""
    random = np.random.default_rng(seed)
    points = random.normal(size=(count, 3))
    points = (np.round(points) if coarse else points) * [1.0, 1.0, 10.0**stretch] @ random_turn(seed).T
    try:
        solid = convex_polytope(MeshData(points, NO_FACES))
    except MeshError:
        assert coarse or count == 4
        return
    assert_sound(solid)
    for direction in random.normal(size=(5, 3)):
        assert solid.vertices[climb(solid, direction)] @ direction == pytest.approx((points @ direction).max())


def compiled(mesh: MeshData, limit: int) -> mujoco.MjModel:
    spec = mujoco.MjSpec()
    asset = spec.add_mesh(name="mesh", maxhullvert=limit)
    asset.uservert = mesh.vertices.reshape(-1).tolist()
    asset.userface = mesh.faces.reshape(-1).tolist()
    spec.worldbody.add_geom(type=mujoco.mjtGeom.mjGEOM_MESH, meshname="mesh")
    return spec.compile()


def mujoco_hull(mesh: MeshData, limit: int) -> np.ndarray:
    """Positions of the vertices of MuJoCo's hull, sorted."""
    model = compiled(mesh, limit)
    n_vertices = int(model.mesh_graph[0])
    chosen = model.mesh_graph[2 + n_vertices : 2 + 2 * n_vertices]
    return np.unique(mesh.vertices[chosen], axis=0)


@pytest.mark.parametrize("limit", [-1, 4, 7, 30, 64])
@pytest.mark.parametrize("kind", ["round", "part of a robot"])
def test_mjcf_hulls_have_the_vertices_that_mujoco_takes(kind: str, limit: int) -> None:
    """Also with `maxhullvert`, by MuJoCo's own rule for which of them stay."""
    if kind == "round":
        points = np.random.default_rng(0).normal(size=(300, 3))
        cloud = points / np.linalg.norm(points, axis=1)[:, None] * [0.3, 0.2, 0.1] + 0.2
        mesh = convex_hull(MeshData(cloud, NO_FACES))
    else:
        mesh = load_mesh(assets("mjcf/wonik_allegro/assets/link_2.0.stl"))
    hull = convex_hull(mesh, limit if limit > 0 else None)
    np.testing.assert_array_equal(np.unique(hull.vertices, axis=0), mujoco_hull(mesh, limit))
    assert limit < 0 or hull.n_vertices <= limit


@pytest.mark.parametrize("mesh", [box((0.2, 0.4, 0.6)), cylinder(0.1, 0.3, 16), cone(0.2, 0.3, 9)])
def test_polygons_are_those_of_mujoco(mesh: MeshData) -> None:
    model = compiled(mesh, -1)
    theirs = sorted(int(n) for n in model.mesh_polyvertnum)
    solid = convex_polytope(mesh)
    assert sorted(np.diff(solid.polygon_start).tolist()) == theirs


def test_a_flat_mesh_and_a_limit_that_no_solid_can_have_are_refused() -> None:
    with pytest.raises(MeshError, match="plane"):
        convex_polytope(plane(1, 1))
    with pytest.raises(GeometryError, match="at least 4"):
        convex_hull(box((1, 1, 1)), 3)
