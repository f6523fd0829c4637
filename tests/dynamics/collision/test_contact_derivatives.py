"""Derivatives of contacts by the motion of the shapes, against closed forms and against differences."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

from kinema.core import Array
from kinema.dynamics.collision.collision_table import convex_collision_table, get_collision_table
from kinema.dynamics.collision.collision_types import (
    CollisionGeom,
    CollisionTableEntry,
    HeightFieldData,
    PackedHull,
    SdfData,
)
from kinema.ir import TANGENT_PREFIX, Tracer, Value, interpret, jvp
from kinema.ir.program import WhileLoop, memory_accesses, walk
from kinema.model import Polyhedron, pack_hulls, pack_sdf
from kit.choosing import representatives

from .contact_oracles import (
    Oracle,
    capsule_ellipsoid,
    derivative,
    ellipsoid_ellipsoid,
    ellipsoid_on_corner,
    ellipsoid_on_face,
    ellipsoid_support,
    moved,
    rim_on_face,
    side_on_edge,
    sphere_ellipsoid,
    sphere_on_plane,
    unit,
)
from .convex_driver import polyhedron, stone
from .driver import INPUTS, SPARE, WIDTH, Poses, program_of
from .poses import nearly_on_a_grid, rotations, somewhere
from .test_field_pairs import FLOOR, HALF, tray_field

COUNT, DEPTH = 8, 0.01
SHARED = "shared"
Kinds = tuple[str, str]


class Differentiated:
    """A pair with the derivatives of its contacts, by the interpreter."""

    def __init__(
        self,
        kinds: Kinds,
        entry: CollisionTableEntry,
        hulls: list[Polyhedron] | None = None,
        heights: Array | None = None,
    ) -> None:
        self.kinds, self.entry = kinds, entry
        hulls = hulls or [polyhedron(stone(i)) for i in range(kinds.count("mesh"))]
        self._hulls = pack_hulls(hulls) if hulls else None
        self._heights = heights
        parts = {
            "mesh": lambda: self._hulls.data if self._hulls is not None else np.zeros(0),
            "height field": lambda: np.zeros(0) if heights is None else heights.ravel(),
            "distance field": lambda: pack_sdf(tray_field()),
        }
        self._shared = next((parts[kind]() for kind in kinds if kind in parts), np.zeros(1))
        self.program = program_of(entry, self._add, refines=True)
        cells = [(f"{s} {p}", i) for s in "ab" for p, n in INPUTS.items() if p != "size" for i in range(n)]
        self.derivative = jvp(program_of(entry, self._add, differentiable=True), cells)

    def _add(self, name: str, recorder: Tracer, solid: CollisionGeom) -> CollisionGeom:
        def read(index: Value) -> Value:
            return recorder.read(SHARED, 0, index)

        kind = self.kinds["ab".index(name)]
        if kind == "mesh":
            assert self._hulls is not None
            i, packed = self.kinds[: "ab".index(name)].count("mesh"), self._hulls
            counts = float(packed.n_vertices[i]), float(packed.n_faces[i])
            hull = PackedHull(read, float(packed.starts[i]), *counts, packed.bounding_radii[i])
            return replace(solid, hull=hull)
        if kind == "height field":
            assert self._heights is not None
            n_rows, n_columns = self._heights.shape
            return replace(solid, height_field=HeightFieldData(read, 0.0, float(n_rows), float(n_columns)))
        if kind == "distance field":
            n_points = float(len(tray_field().contact_sample_points))
            return replace(solid, sdf=SdfData(read, 0.0, n_points, float(np.linalg.norm(HALF))))
        return solid

    def _run(self, poses: Poses, tangents: dict[str, Array] | None = None) -> tuple[Array, dict[str, Array]]:
        rows = {**poses.rows(), **(tangents or {})}
        rows[SHARED] = np.repeat(self._shared[:, None], len(poses), axis=1)
        with np.errstate(all="ignore"):  # environments that take no part may compute anything
            found = interpret(self.program if tangents is None else self.derivative, rows)
        return found["count"][0].astype(int), found

    def _rows(self, values: Array, n: int) -> Array:
        """Numbers of a result as distance, point and normal of each contact, (n, contacts, 7)."""
        full = np.zeros((WIDTH * (self.entry.max_contacts + SPARE), n))
        full[: len(values)] = values
        return full.reshape(-1, WIDTH, n).transpose(2, 0, 1)[:, :, :7]

    def contacts(self, poses: Poses) -> tuple[Array, Array]:
        """Number of contacts and contacts of each pose."""
        count, found = self._run(poses)
        return count, self._rows(found["points"], len(poses))

    def tangents(self, poses: Poses, motion: Array) -> tuple[Array, Array, Array]:
        """Number of contacts, contacts, and their derivatives by the time at twists of both shapes, (n, 2, 6)."""
        tangents = {}
        for k, (name, solid) in enumerate((("a", poses.a), ("b", poses.b))):
            turns = np.cross(motion[:, k, 3:, None], solid[1], axis=1)
            tangents[f"t {name} position"] = motion[:, k, :3].T
            tangents[f"t {name} rotation"] = turns.reshape(len(poses), -1).T
        count, found = self._run(poses, tangents)
        return count, self._rows(found["points"], len(poses)), self._rows(found["t points"], len(poses))


def random_motion(seed: int, n: int) -> Array:
    return np.random.default_rng(seed).normal(size=(n, 2, 6))


def assert_equals(pair: Differentiated, poses: Poses, oracle: Oracle, *, tolerance: float = 1e-6) -> None:
    """The deepest contact of each pose and its derivative are those of an oracle."""
    motion = random_motion(1, len(poses))
    count, contacts, tangents = pair.tangents(poses, motion)
    assert (count > 0).all()
    for i, (found, tangent) in enumerate(zip(contacts, tangents, strict=True)):
        deepest = found[: count[i], 0].argmin()
        a, b = (tuple(x[i] for x in solid) for solid in (poses.a, poses.b))
        np.testing.assert_allclose(found[deepest], oracle(a, b), rtol=0, atol=1e-9)
        expected = derivative(oracle, a, b, motion[i])
        assert np.abs(tangent[deepest] - expected).max() < tolerance * (1.0 + np.abs(expected).max())


def posed(a: list[tuple[Array, Array, Array]], b: list[tuple[Array, Array, Array]], reach: float = 0.0) -> Poses:
    def stacked(solids: list[tuple[Array, Array, Array]]) -> tuple[Array, Array, Array]:
        positions, rotations, sizes = (np.array(x) for x in zip(*solids, strict=True))
        return positions, rotations, sizes

    return Poses(stacked(a), stacked(b), np.full(len(a), reach))


def sphere_poses(*, aligned: bool = False) -> Poses:
    """Spheres on ellipsoids; `aligned`: on the longest axis, where two coordinates of the closest point are zero."""
    generator, a, b = np.random.default_rng(2), [], []
    for rotation in rotations(generator, COUNT):
        size = np.sort(generator.uniform(0.1, 0.3, 3))
        x = size * (np.array([0.0, 0.0, 1.0]) if aligned else unit(generator.normal(size=3)))
        position = generator.normal(size=3)
        centre = position + rotation @ (x + (0.1 - DEPTH) * unit(x / size**2))
        a.append((centre, np.eye(3), np.array([0.1, 0.0, 0.0])))
        b.append((position, rotation, size))
    return posed(a, b)


def capsule_poses() -> Poses:
    """Capsules whose axes are nearly perpendicular to the normals of ellipsoids."""
    spheres, generator, a = sphere_poses(), np.random.default_rng(3), []
    for i in range(COUNT):
        normal = sphere_ellipsoid(*(tuple(x[i] for x in solid) for solid in (spheres.a, spheres.b)))[4:]  # type: ignore[arg-type]
        axis = unit(np.cross(normal, generator.normal(size=3)) + 0.05 * normal)
        beside = unit(np.cross(axis, [0.3, 0.5, 0.8]))
        rotation = np.stack([beside, np.cross(axis, beside), axis], axis=1)
        a.append((spheres.a[0][i] + generator.uniform(-0.05, 0.05) * axis, rotation, np.array([0.1, 0.15, 0.0])))
    return replace(spheres, a=tuple(np.array(x) for x in zip(*a, strict=True)))


def ellipsoid_poses() -> Poses:
    """Ellipsoids that touch each other, or nearly."""
    generator, a, b = np.random.default_rng(4), [], []
    for first, second in zip(rotations(generator, COUNT), rotations(generator, COUNT), strict=True):
        one = (generator.normal(size=3), first, generator.uniform(0.6, 1.0, 3) / 4.0)
        other = (np.zeros(3), second, generator.uniform(0.6, 1.0, 3) / 4.0)
        normal = unit(generator.normal(size=3))
        place = ellipsoid_support(one, normal) - ellipsoid_support(other, -normal) - DEPTH * normal
        a.append(one)
        b.append((place + 0.01 * generator.normal(size=3), second, other[2]))
    return posed(a, b, 0.1)


def rim_poses(*, on_plane: bool = False) -> Poses:
    """Tilted cylinders on boxes, or on planes."""
    generator, a, b = np.random.default_rng(5), [], []
    for rotation, start in zip(rotations(generator, COUNT), generator.normal(size=(COUNT, 3)), strict=True):
        tilt, turn, size = generator.uniform(0.2, 0.8), generator.uniform(0.0, 6.0), np.array([0.1, 0.15, 0.0])
        axis = np.array([np.sin(tilt) * np.cos(turn), np.sin(tilt) * np.sin(turn), np.cos(tilt)])
        beside = unit(np.cross(axis, [0.3, 0.5, 0.1]))
        height = size[1] * np.cos(tilt) + size[0] * np.sin(tilt) - DEPTH
        half = np.array([0.5, 0.4, 0.0 if on_plane else 0.2])
        place = np.array([*generator.uniform(-0.1, 0.1, 2), half[2] + height])
        local = np.stack([beside, np.cross(axis, beside), axis], axis=1)
        a.append((start + rotation @ place, rotation @ local, size))
        b.append((start, rotation, half))
    poses = posed(a, b)
    return replace(poses, a=poses.b, b=poses.a) if on_plane else poses


def side_poses() -> Poses:
    """Lateral surfaces of cylinders on edges of boxes."""
    generator, a, b = np.random.default_rng(6), [], []
    for rotation in rotations(generator, COUNT):
        half, size = np.array([0.3, 0.4, 0.2]), np.array([0.1, 0.3, 0.0])
        angle, crossing = generator.uniform(0.3, 1.2), generator.uniform(0.5, 2.5)
        outward = np.array([np.cos(angle), 0.0, np.sin(angle)])
        axis = np.cos(crossing) * np.array([0.0, 1.0, 0.0]) + np.sin(crossing) * np.cross(outward, [0.0, 1.0, 0.0])
        place = half * [1.0, generator.uniform(-0.2, 0.2), 1.0] + (size[0] - DEPTH) * outward
        beside = unit(np.cross(axis, outward))
        local = np.stack([beside, np.cross(axis, beside), axis], axis=1)
        a.append((rotation @ (place + generator.uniform(-0.1, 0.1) * axis), rotation @ local, size))
        b.append((np.zeros(3), rotation, half))
    return posed(a, b)


MESH = polyhedron(stone(7))


def mesh_poses(local_point: Array, outward: Array) -> Poses:
    """Ellipsoids on a point of a mesh."""
    generator, a, b = np.random.default_rng(8), [], []
    for first, second in zip(rotations(generator, COUNT), rotations(generator, COUNT), strict=True):
        other = (np.zeros(3), first, generator.uniform(0.6, 1.0, 3) / 5.0)
        normal, start = second @ outward, generator.normal(size=3)
        place = start + second @ local_point - DEPTH * normal - ellipsoid_support(other, -normal)
        a.append((place, *other[1:]))
        b.append((start, second, np.ones(3)))
    return posed(a, b)


def mesh_corner() -> tuple[Array, Array]:
    """A vertex of the mesh and the mean normal of its faces."""
    vertex = int(MESH.vertices[:, 2].argmax())
    normals = [normal for face, normal in zip(MESH.faces, MESH.normals, strict=True) if vertex in face]
    return MESH.vertices[vertex], unit(np.mean([unit(n) for n in normals], axis=0))


def mesh_face() -> tuple[Array, Array]:
    """Three vertices of the largest face of the mesh, and its normal."""
    corners = [MESH.vertices[face[:3]] for face in MESH.faces]
    largest = int(np.argmax([np.linalg.norm(np.cross(q - p, r - p)) for p, q, r in corners]))
    return corners[largest], unit(MESH.normals[largest])


def test_sphere_on_ellipsoid() -> None:
    """Anywhere, and on the axis of symmetry."""
    pair = Differentiated(("sphere", "ellipsoid"), get_collision_table(multiccd=True)["sphere", "ellipsoid"])
    assert_equals(pair, sphere_poses(), sphere_ellipsoid)
    assert_equals(pair, sphere_poses(aligned=True), sphere_ellipsoid)


def convex_pair(*kinds: str, hulls: list[Polyhedron] | None = None) -> Differentiated:
    return Differentiated((kinds[0], kinds[1]), convex_collision_table(multiccd=False)[kinds[0], kinds[1]], hulls)


def test_capsule_on_ellipsoid() -> None:
    assert_equals(convex_pair("capsule", "ellipsoid"), capsule_poses(), capsule_ellipsoid)


def test_the_search_is_not_differentiated() -> None:
    """The loops of GJK and EPA have no tangents, only the refinement has."""
    loops = {s.name: s for s in walk(convex_pair("capsule", "ellipsoid").derivative.body) if isinstance(s, WhileLoop)}

    def has_tangents(name: str) -> bool:
        statements = walk(loops[name].body)
        arrays = [location.array for s in statements for location, _ in memory_accesses(s)]
        return any(array.startswith(TANGENT_PREFIX) for array in arrays)

    assert {"nearest", "deepest", "settle", "slide", "refine contact"} <= loops.keys()
    assert [name for name in loops if has_tangents(name)] == ["refine contact"]


def test_ellipsoid_on_ellipsoid() -> None:
    assert_equals(convex_pair("ellipsoid", "ellipsoid"), ellipsoid_poses(), ellipsoid_ellipsoid)


def test_cylinder_on_box() -> None:
    """With its rim on a face, and with its lateral surface on an edge."""
    pair = convex_pair("cylinder", "box")
    assert_equals(pair, rim_poses(), rim_on_face)
    assert_equals(pair, side_poses(), side_on_edge)


def test_ellipsoid_on_mesh() -> None:
    """On a vertex and on a face."""
    pair, (corner, outward), (corners, normal) = (
        convex_pair("ellipsoid", "mesh", hulls=[MESH]),
        mesh_corner(),
        mesh_face(),
    )
    assert_equals(pair, mesh_poses(corner, outward), ellipsoid_on_corner(corner))
    assert_equals(pair, mesh_poses(corners.mean(axis=0), normal), ellipsoid_on_face(corners))


def flipped(oracle: Oracle) -> Oracle:
    """The oracle of the shapes in reverse order."""

    def reverse(a: tuple[Array, Array, Array], b: tuple[Array, Array, Array]) -> Array:
        found = oracle(b, a)
        return np.concatenate([found[:4], -found[4:]])

    return reverse


def test_rim_of_a_cylinder_on_a_plane() -> None:
    pair = Differentiated(("plane", "cylinder"), get_collision_table(multiccd=True)["plane", "cylinder"])
    assert_equals(pair, rim_poses(on_plane=True), flipped(rim_on_face))


def test_sphere_on_a_height_field() -> None:
    """On one triangle of a tilted plane."""
    nodes = np.linspace(-1.0, 1.0, 6)
    slope, normal = np.array([0.2, -0.1]), unit(np.array([-0.2, 0.1, 1.0]))
    heights = 0.3 + slope[0] * nodes[None, :] + slope[1] * nodes[:, None]
    generator, a, b = np.random.default_rng(9), [], []
    for rotation, start in zip(rotations(generator, COUNT), generator.normal(size=(COUNT, 3)), strict=True):
        x, y = nodes[generator.integers(0, 5, 2)] + [0.27, 0.13]  # in a triangle, far from its edges
        place = np.array([x, y, 0.3 + slope @ [x, y]]) + (0.1 - 0.001) * normal
        a.append((start, rotation, np.array([1.0, 1.0, 0.2])))
        b.append((start + rotation @ place, np.eye(3), np.array([0.1, 0.0, 0.0])))
    entry = get_collision_table(multiccd=True)["height field", "sphere"]
    pair = Differentiated(("height field", "sphere"), entry, heights=heights)
    assert_equals(pair, posed(a, b), sphere_on_plane(normal, 0.3 * normal[2]))


def test_sphere_on_a_distance_field() -> None:
    """On the flat bottom of a tray, where distances are linear."""
    generator, a, b = np.random.default_rng(10), [], []
    for rotation, start in zip(rotations(generator, COUNT), generator.normal(size=(COUNT, 3)), strict=True):
        place = np.array([*generator.uniform(-0.1, 0.1, 2), -HALF[2] - 0.1 + DEPTH])
        a.append((start + rotation @ place, np.eye(3), np.array([0.1, 0.0, 0.0])))
        b.append((start, rotation, np.zeros(3)))
    assert FLOOR > 2.0 * DEPTH
    pair = Differentiated(("sphere", "distance field"), get_collision_table(multiccd=True)["sphere", "distance field"])
    assert_equals(pair, posed(a, b), flipped(sphere_on_plane(np.array([0.0, 0.0, -1.0]), HALF[2])))


# ------------------------------------------------------------------------------------------------ all pairs, anywhere

STEPS = (1e-4, 1e-6)


def errors(pair: Differentiated, poses: Poses, motion: Array) -> Array:
    """Smallest differences of derivatives and fourth-order differences over some distances, (n,).

    Relative to the derivatives, in units of the size of the shapes; only of poses with contacts.
    """
    count, _, tangents = pair.tangents(poses, motion)
    used = np.arange(tangents.shape[1])[None, :, None] < count[:, None, None]
    best = np.full(len(poses), np.inf)
    for h in STEPS:
        found = {k: pair.contacts(moved_poses(poses, motion, k * h)) for k in (-2, -1, 1, 2)}
        differences = (8.0 * (found[1][1] - found[-1][1]) - (found[2][1] - found[-2][1])) / (12.0 * h)
        error = np.abs(np.where(used, differences - tangents, 0.0)).max(axis=(1, 2))
        same = np.all([n == count for n, _ in found.values()], axis=0)
        best = np.fmin(best, np.where(same, error, np.inf))
    return np.asarray((best / (1.0 + np.abs(np.where(used, tangents, 0.0)).max(axis=(1, 2))))[count > 0])


def moved_poses(poses: Poses, motion: Array, time: float) -> Poses:
    solids = []
    for k, solid in enumerate((poses.a, poses.b)):
        parts = [moved((p, r, s), motion[i, k], time) for i, (p, r, s) in enumerate(zip(*solid, strict=True))]
        solids.append(tuple(np.array(x) for x in zip(*parts, strict=True)))
    return Poses(solids[0], solids[1], poses.reach)


CONVEX = [kinds for kinds in convex_collision_table(multiccd=True) if kinds[0] not in ("plane", "height field")]


@pytest.mark.parametrize("kinds", representatives(CONVEX, lambda kinds: kinds == ("sphere", "mesh")), ids="-".join)
def test_pairs_anywhere(kinds: Kinds) -> None:
    """Contacts and manifolds of random poses, close and deep, at which the derivative is continuous."""
    poses = replace(somewhere(11, 40), reach=np.full(40, 100.0))
    found = errors(Differentiated(kinds, convex_collision_table(multiccd=True)[kinds]), poses, random_motion(2, 40))
    assert len(found) > 35
    assert (found < 1e-6).mean() >= 0.95


@pytest.mark.parametrize("kinds", representatives(CONVEX, lambda kinds: kinds == ("capsule", "mesh")), ids="-".join)
def test_derivatives_are_finite_for_aligned_shapes(kinds: Kinds) -> None:
    """Parallel faces and edges, equal sizes: normals that many features determine."""
    poses = replace(nearly_on_a_grid(12, 60, least=1e-14), reach=np.full(60, 100.0))
    count, contacts, tangents = Differentiated(kinds, convex_collision_table(multiccd=True)[kinds]).tangents(
        poses, random_motion(3, 60)
    )
    assert (count > 0).all()
    assert np.isfinite(contacts).all()
    assert np.isfinite(tangents).all()
