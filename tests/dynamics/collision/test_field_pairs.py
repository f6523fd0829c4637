"""Bodies with hollows: distance fields with every other kind of shape, beside closed forms and exact distances."""

from __future__ import annotations

from dataclasses import replace
from functools import cache

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.collision.collision_types import CollisionGeom, HeightFieldData, PackedHull, SdfData
from kinema.dynamics.collision.sdf_pairs import SDF_COLLISION_TABLE, SDF_TYPE
from kinema.geometry import MeshData, build_signed_distance_field, contact_sample_points, signed_distances
from kinema.ir import Tracer, interpret
from kinema.model import Polyhedron, SampledSdf, pack_hulls, pack_sdf
from kit.choosing import representatives
from kit.hollow_meshes import tray

from .convex_driver import box_corners, polyhedron
from .driver import Poses, points_of, program_of
from .poses import rotations
from .surfaces import beyond_surface

SHARED = "shared"
HALF, HOLE, FLOOR = (0.5, 0.4, 0.3), (0.3, 0.2), 0.2
"""A tray: its half extents, those of its hole, and how thick its floor is [m]."""
CELL = 1.0 / 20.0


@cache
def tray_mesh() -> MeshData:
    return MeshData(*tray(HALF, HOLE, FLOOR))


@cache
def tray_field() -> SampledSdf:
    field = build_signed_distance_field(tray_mesh(), resolution=20)
    x, y, z = (int(n) for n in field.n_nodes)
    assert field.cell_size == pytest.approx(CELL)
    points = contact_sample_points(tray_mesh(), 60)
    return SampledSdf(
        (x, y, z), field.cell_size, field.origin, field.values, field.gradients, field.closest_vertices, points
    )


def found_points(
    kind: str, poses: Poses, *, hull: Polyhedron | None = None, heights: Array | None = None
) -> list[Array]:
    """Where shapes touch the tray, by the interpreter; `poses.b` is the tray."""
    packed = pack_sdf(tray_field())
    other, counts, radius = np.zeros(0), (0, 0), 0.0
    if hull is not None:
        meshes = pack_hulls([hull])
        other, counts, radius = meshes.data, (meshes.n_vertices[0], meshes.n_faces[0]), meshes.bounding_radii[0]
    elif heights is not None:
        other, counts = heights.ravel(), heights.shape
    numbers, n_points = np.concatenate([packed, other]), float(len(tray_field().contact_sample_points))
    extent = float(np.linalg.norm(HALF))

    def add(name: str, recorder: Tracer, solid: CollisionGeom) -> CollisionGeom:
        def read(index: object) -> object:
            return recorder.read(SHARED, 0, index)  # type: ignore[arg-type]

        start, (one, two) = float(len(packed)), (float(n) for n in counts)
        if name == "b" or kind == SDF_TYPE:
            return replace(solid, sdf=SdfData(read, 0.0, n_points, extent))  # type: ignore[arg-type]
        if hull is not None:
            return replace(solid, hull=PackedHull(read, start, one, two, radius))  # type: ignore[arg-type]
        return solid if heights is None else replace(solid, height_field=HeightFieldData(read, start, one, two))  # type: ignore[arg-type]

    rows = {**poses.rows(), SHARED: np.repeat(numbers[:, None], len(poses), axis=1)}
    with np.errstate(all="ignore"):  # environments that take no part may compute anything
        found = interpret(program_of(SDF_COLLISION_TABLE[kind, SDF_TYPE], add), rows)
    return points_of(found["count"][0], found["points"])


def around(seed: int, count: int, size: tuple[float, float]) -> Poses:
    """Shapes of sizes between two, anywhere about the tray and in its hole, both anyhow turned."""
    generator = np.random.default_rng(seed)
    sizes = generator.uniform(*size, (count, 3))
    places = generator.uniform(-1.0, 1.0, (count, 3)) * (np.array(HALF) + 0.15)
    turns = rotations(generator, count)
    shift = generator.normal(size=(count, 3))
    shapes = (shift + np.einsum("nij,nj->ni", turns, places), rotations(generator, count), sizes)
    return Poses(shapes, (shift, turns, np.zeros((count, 3))), np.full(count, 0.02))


def to_tray(poses: Poses, i: int, points: Array) -> Array:
    return (points - poses.b[0][i]) @ poses.b[1][i]


@pytest.mark.parametrize(
    "kind",
    representatives(["sphere", "capsule", "ellipsoid", "cylinder", "cone", "box"], lambda x: x in ("sphere", "box")),
)
def test_points_are_on_both_surfaces(kind: str) -> None:
    """Half the distance along the normal is the shape's surface one way, and the tray's the other way.

    To the error of a grid near edges, for what is not deep inside.
    """
    poses = around(1, 40, (0.05, 0.15))
    seen = 0
    for i, points in enumerate(found_points(kind, poses)):
        assert np.isfinite(points).all()
        assert len(points) <= SDF_COLLISION_TABLE[kind, SDF_TYPE].max_contacts
        near = points[points[:, 0] > -0.6 * CELL]
        if not len(near):
            continue
        seen += len(near)
        half = 0.5 * near[:, :1] * near[:, 4:7]
        on_shape = ((near[:, 1:4] - half) - poses.a[0][i]) @ poses.a[1][i]
        on_tray = to_tray(poses, i, near[:, 1:4] + half)
        sizes = 0.05 if kind == "ellipsoid" else 1.0  # of which the oracle is no length
        assert np.abs(beyond_surface(kind, poses.a[2][i], on_shape)).max() * sizes < 0.4 * CELL
        assert np.abs(signed_distances(tray_mesh(), on_tray)).max() < 0.5 * CELL
    assert seen > 10


def test_a_ball_beside_flat_sides_is_exact() -> None:
    """In the hole, near one wall: the distance of a sphere from a plane, and its normal, to rounding."""
    generator = np.random.default_rng(2)
    count, radius = 40, 0.06
    gaps = generator.uniform(-0.02, 0.01, count)
    places = np.column_stack(
        [HOLE[0] - radius - gaps, generator.uniform(-0.05, 0.05, count), generator.uniform(0.0, 0.1, count)]
    )
    turns, sizes = rotations(generator, count), np.full((count, 3), radius)
    shapes = (np.einsum("nij,nj->ni", turns, places), turns, sizes)
    poses = Poses(shapes, (np.zeros((count, 3)), turns, sizes), np.full(count, 0.02))
    for i, points in enumerate(found_points("sphere", poses)):
        deepest = points[points[:, 0].argmin()]
        assert deepest[0] == pytest.approx(gaps[i], abs=1e-9)
        np.testing.assert_allclose(deepest[4:7] @ turns[i], [1.0, 0.0, 0.0], atol=1e-6)
        np.testing.assert_allclose(to_tray(poses, i, deepest[1:4])[0], HOLE[0] - 0.5 * gaps[i], atol=1e-9)


@pytest.mark.parametrize("kind", ["box", "cylinder", "mesh"])
def test_what_stands_in_the_hole_has_its_corners_on_the_floor(kind: str) -> None:
    """At least three points, all as deep as it stands, that span most of what it stands on."""
    generator = np.random.default_rng(3)
    size, count = np.array([0.1, 0.08, 0.05]), 10
    height = size[1] if kind == "cylinder" else size[2]
    places = np.column_stack(
        [generator.uniform(-0.08, 0.08, (count, 2)), np.full(count, FLOOR - HALF[2] + height - 1e-3)]
    )
    c, s = np.cos(generator.uniform(-3, 3, count)), np.sin(generator.uniform(-3, 3, count))
    zero, turns = np.zeros(count), np.tile(np.eye(3), (count, 1, 1))
    about_z = np.moveaxis(np.array([[c, -s, zero], [s, c, zero], [zero, zero, zero + 1.0]]), -1, 0)
    about_z = about_z / np.linalg.norm(about_z, axis=1, keepdims=True)
    poses = Poses(
        (places, about_z, np.tile(size, (count, 1))), (np.zeros((count, 3)), turns, turns[:, 0]), np.zeros(count)
    )
    hull = polyhedron(box_corners(tuple(size))) if kind == "mesh" else None  # type: ignore[arg-type]
    for points in found_points(kind, poses, hull=hull):
        assert 3 <= len(points) <= 5
        np.testing.assert_allclose(points[:, 0], -1e-3, atol=1e-9)
        np.testing.assert_allclose(points[:, 4:7], np.tile([0.0, 0.0, -1.0], (len(points), 1)), atol=1e-9)
        assert np.ptp(points[:, 1:3], axis=0).min() > 0.1


def test_a_thin_wall_pushes_back_to_where_the_shape_is() -> None:
    """A ball that is most of the way through a wall, its middle not: out it goes the way it came."""
    count, radius = 5, 0.12
    wall = HALF[0] - HOLE[0]
    depth = np.linspace(0.3, 0.9, count) * wall
    places = np.column_stack([HOLE[0] - radius + depth, np.zeros(count), np.full(count, 0.05)])
    turns, sizes = np.tile(np.eye(3), (count, 1, 1)), np.full((count, 3), radius)
    poses = Poses((places, turns, sizes), (np.zeros((count, 3)), turns, sizes), np.zeros(count))
    for i, points in enumerate(found_points("sphere", poses)):
        deepest = points[points[:, 0].argmin()]
        if radius > depth[i]:
            assert deepest[4] > 0.99
            assert deepest[0] == pytest.approx(-depth[i], abs=1e-6)


def test_planes_and_terrain_meet_the_lowest_points() -> None:
    """Of a tray anyhow turned: as deep as its lowest corner, with the ground's own normal."""
    generator = np.random.default_rng(4)
    count = 20
    turns, tilt = rotations(generator, count), np.tile(np.eye(3), (count, 1, 1))
    lowest = (tray_mesh().vertices @ np.swapaxes(turns, 1, 2))[..., 2].min(axis=1)
    places = np.column_stack([generator.uniform(-1, 1, (count, 2)), -lowest - 0.01])
    ground = np.tile([4.0, 4.0, 1.0], (count, 1))
    poses = Poses((np.zeros((count, 3)), tilt, ground), (places, turns, ground), np.zeros(count))
    for kind, heights in (("plane", None), ("height field", np.zeros((9, 9)))):
        for points in found_points(kind, poses, heights=heights):
            deepest = points[points[:, 0].argmin()]
            assert deepest[0] == pytest.approx(-0.01, abs=1e-9)
            np.testing.assert_allclose(deepest[4:7], [0.0, 0.0, 1.0], atol=1e-9)


def test_two_trays() -> None:
    """One on the other: as deep as it stands, at points that are far apart; none is deeper, but edges are blunt."""
    turns = np.tile(np.eye(3), (4, 1, 1))
    places = np.tile([0.05, 0.02, 2.0 * HALF[2] - 2e-3], (4, 1))
    poses = Poses((places, turns, turns[:, 0]), (np.zeros((4, 3)), turns, turns[:, 0]), np.zeros(4))
    for points in found_points(SDF_TYPE, poses):
        lower = points[np.abs(points[:, 6]) > 0.9]
        assert len(lower) >= 3
        assert lower[:, 0].min() == pytest.approx(-2e-3, abs=1e-9)
        assert (lower[:, 6] < -0.9).all()
        assert np.ptp(lower[:, 1:3], axis=0).min() > 0.5
