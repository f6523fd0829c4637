"""Distances to meshes and grids of them, against closed forms, trimesh, and every triangle in turn."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
import trimesh

from kinema.core import CACHE_ENV_VARIABLE
from kinema.geometry import (
    GeometryError,
    MeshData,
    MeshError,
    SignedDistanceField,
    apply_affine,
    box,
    build_signed_distance_field,
    capsule,
    cylinder,
    load_mesh,
    merge_meshes,
    signed_distances,
    sphere,
)
from kinema.geometry.distance import signed_distance_field as field_module
from kinema.geometry.distance.bvh import build_triangle_bvh, triangle_solid_angles, winding_numbers
from kit.assets import assets

from .mesh_writers import random_turn

HALF = np.array([0.5, 1.0, 1.5])


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path))
    return tmp_path


def box_distance(points: np.ndarray, half: np.ndarray = HALF) -> np.ndarray:
    beyond = np.abs(points) - half
    return np.linalg.norm(np.maximum(beyond, 0), axis=1) + np.minimum(beyond.max(axis=1), 0)


def torus() -> MeshData:
    made = trimesh.creation.torus(1.0, 0.3, major_sections=32, minor_sections=16)
    return MeshData(made.vertices, made.faces)


def around(mesh: MeshData, count: int, seed: int = 0) -> np.ndarray:
    low, high = mesh.vertices.min(axis=0), mesh.vertices.max(axis=0)
    return (low + high) / 2 + np.random.default_rng(seed).uniform(-0.7, 0.7, (count, 3)) * (high - low)


@pytest.mark.parametrize(("size", "offset"), [(1.0, 0.0), (1e-4, 0.0), (1e3, 0.0), (1.0, 1e3)])
def test_distances_to_a_box_are_exact(size: float, offset: float) -> None:
    turn = random_turn(5)
    points = np.random.default_rng(0).uniform(-2, 2, (500, 3))
    moved = apply_affine(box(2 * HALF), size * turn, np.full(3, offset))
    found = signed_distances(moved, size * points @ turn.T + offset)
    np.testing.assert_allclose(found, size * box_distance(points), rtol=0, atol=1e-13 * max(size, offset))


def test_points_on_the_surface() -> None:
    """One at a time, so that nothing but rounding is left of the bounds."""
    ball = apply_affine(sphere(1.0, 12), random_turn(4), (0.1, 0.2, 0.3))
    for point in np.concatenate([ball.vertices[::9], ball.triangles().mean(axis=1)[::17]]):
        assert abs(signed_distances(ball, point[None])[0]) < 1e-15


@pytest.mark.parametrize("kind", ["torus", "long triangles", "part of a robot"])
def test_distances_agree_with_trimesh_and_with_every_triangle(kind: str) -> None:
    """Trimesh rounds in places, and its distances are then a little too long; none is shorter than ours."""
    if kind == "torus":
        mesh = torus()
    elif kind == "long triangles":
        mesh = apply_affine(cylinder(0.02, 2.0, 24), random_turn(1))
    else:
        mesh = load_mesh(assets("mjcf/wonik_allegro/assets/link_2.0.stl"))
    size = float(np.ptp(mesh.vertices, axis=0).max())
    points = around(mesh, 150)
    theirs = trimesh.Trimesh(mesh.vertices, mesh.faces, process=False)
    _, distances, _ = trimesh.proximity.closest_point(theirs, points)
    found = signed_distances(mesh, points)
    assert (np.abs(found) <= distances + 1e-14 * size).all()
    np.testing.assert_allclose(np.abs(found), distances, rtol=0, atol=1e-3 * size)
    winding = triangle_solid_angles(points, mesh.triangles()).sum(axis=1) / (4 * np.pi)
    np.testing.assert_array_equal(found < 0, winding > 0.5)
    np.testing.assert_allclose(winding_numbers(build_triangle_bvh(mesh), points), winding, atol=0.05)


def test_the_field_of_a_box() -> None:
    field = build_signed_distance_field(box(2 * HALF), resolution=12)
    nodes = field.node_positions()
    np.testing.assert_allclose(field.values, box_distance(nodes), rtol=0, atol=1e-14)
    np.testing.assert_allclose(np.linalg.norm(field.gradients, axis=1), 1.0, atol=1e-12)
    # A step against the gradient, as far as the distance, ends on the surface.
    np.testing.assert_allclose(box_distance(nodes - field.values[:, None] * field.gradients), 0.0, atol=1e-12)
    corners = box(2 * HALF).vertices
    nearest = np.linalg.norm(nodes[:, None] - corners, axis=2)
    np.testing.assert_allclose(nearest[np.arange(len(nodes)), field.closest_vertices], nearest.min(axis=1))
    places = np.c_[nodes, np.ones(len(nodes))] @ field.T_mesh_to_sdf.T
    np.testing.assert_allclose(places[:, :3], np.array(list(np.ndindex(*field.n_nodes))), atol=1e-9)
    assert field.max_distance == np.abs(field.values).max()


@pytest.mark.parametrize(("radius", "length"), [(0.5, 0.0), (0.25, 0.5)])
def test_fields_of_round_solids_between_nodes(radius: float, length: float) -> None:
    """To within the facets (0.009 of the radius) and what a straight line between nodes leaves out."""
    mesh = capsule(radius, length, 24)
    field = build_signed_distance_field(mesh, resolution=12)
    points = around(mesh, 1000)
    axis = np.zeros_like(points)
    axis[:, 2] = np.clip(points[:, 2], -length / 2, length / 2)
    away = np.linalg.norm(points - axis, axis=1)
    value, slope = field.sample(points)
    assert (
        np.abs(points - field.origin - field.cell_size * (field.n_nodes - 1) / 2) > 0.6 * np.ptp(mesh.vertices)
    ).any()
    clear = away > 0.15  # on the axis, distances have a crease
    np.testing.assert_allclose(value[clear], (away - radius)[clear], atol=0.015)
    assert (np.einsum("ij,ij->i", slope[clear], (points - axis)[clear]) > 0.9 * away[clear]).all()


def test_parts_may_overlap_and_small_holes_do_not_matter() -> None:
    overlapping = merge_meshes([box((1, 1, 1)), apply_affine(box((1, 1, 1)), np.eye(3), (0.5, 0.3, 0.2))])
    points = around(overlapping, 200)
    inside = (np.abs(points) < 0.5).all(axis=1) | (np.abs(points - [0.5, 0.3, 0.2]) < 0.5).all(axis=1)
    np.testing.assert_array_equal(signed_distances(overlapping, points) < 0, inside)
    ball = sphere(1.0, 24)
    leaky = build_signed_distance_field(MeshData(ball.vertices, ball.faces[3:]), resolution=6)
    radius = np.linalg.norm(leaky.node_positions(), axis=1)
    clear = np.abs(radius - 1.0) > 0.1
    np.testing.assert_array_equal((leaky.values < 0)[clear], (radius < 1)[clear])


def test_fields_are_kept_and_damaged_ones_made_again(cache: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    mesh = box((1, 1, 2))
    made: list[int] = []
    make = field_module._compute_field_arrays
    monkeypatch.setattr(field_module, "_compute_field_arrays", lambda *given: made.append(1) or make(*given))
    first = build_signed_distance_field(mesh, resolution=4)
    (file,) = cache.rglob("*.gsd")
    assert same(build_signed_distance_field(mesh, resolution=4), first)
    assert len(made) == 1
    whole = file.read_bytes()
    for damage in (whole[: len(whole) // 2], b"\x80\x04nonsense", whole[:400] + b"xxxx" + whole[404:]):
        file.write_bytes(damage)
        assert same(build_signed_distance_field(mesh, resolution=4), first)
        assert file.read_bytes() == whole
    assert len(made) == 4
    file.write_bytes(b"KINEMA-CACHE-0" + whole[14:])  # one of another time
    assert same(build_signed_distance_field(mesh, resolution=4), first)
    assert list(cache.rglob("*")) == [file.parent, file]  # no temporary files are left
    build_signed_distance_field(mesh, resolution=5)
    build_signed_distance_field(box((1, 1, 3)), resolution=4)
    assert len(list(cache.rglob("*.gsd"))) == 3


def same(first: SignedDistanceField, second: SignedDistanceField) -> bool:
    names = ("n_nodes", "origin", "values", "gradients", "closest_vertices")
    return first.cell_size == second.cell_size and all(
        np.array_equal(getattr(first, name), getattr(second, name)) for name in names
    )


def test_a_field_of_another_mesh_is_not_believed(cache: Path) -> None:
    """The file is whole, but has the name of another one."""
    mesh = box((1, 1, 2))
    first = build_signed_distance_field(mesh, resolution=4)
    (file,) = cache.rglob("*.gsd")
    build_signed_distance_field(sphere(1.0, 8), resolution=4)
    (other,) = {*cache.rglob("*.gsd")} - {file}
    file.write_bytes(other.read_bytes())
    assert same(build_signed_distance_field(mesh, resolution=4), first)


def test_where_nothing_can_be_kept_fields_are_made_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(CACHE_ENV_VARIABLE, "/proc/nowhere")
    assert build_signed_distance_field(box((1, 1, 1)), resolution=4).values.min() == pytest.approx(-0.5)


def test_progress_is_told_and_what_cannot_be_measured_is_refused() -> None:
    log: list[tuple[str, float]] = []
    build_signed_distance_field(box((1, 1, 1)), resolution=4, progress=lambda what, share: log.append((what, share)))
    assert {what for what, _ in log} == {"computing distances", "computing winding numbers"}
    assert all(0 <= share <= 1 for _, share in log)
    with pytest.raises(GeometryError, match="between 2 and 500 cells"):
        build_signed_distance_field(box((1, 1, 1)), resolution=1)
    with pytest.raises(MeshError, match="no surface"):
        build_signed_distance_field(MeshData(np.zeros((3, 3)), np.array([[0, 1, 2]])))
