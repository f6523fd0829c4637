"""Pairs of convex shapes in compiled code, and what is known of them without a search."""

from __future__ import annotations

import numpy as np
from scipy.spatial import ConvexHull

from kinema.core import Array
from kinema.dynamics.collision.analytic_pairs import AnalyticPair
from kinema.dynamics.collision.collision_types import CollisionGeom, CollisionTableEntry, HeightFieldData, PackedHull
from kinema.ir import UNIFORM, Tracer
from kinema.model import Polyhedron, pack_hulls

from ...ir.arenas import Memory, kernel, launched
from .driver import INPUTS, SPARE, WIDTH, Poses, points_of, program_of

SHARED = "shared"
"""The array of corners and faces, or of heights."""


def polyhedron(corners: Array) -> Polyhedron:
    """The hull of points that are all corners of it."""
    hull = ConvexHull(corners)
    planes = np.round(hull.equations, 7)
    faces, normals = [], []
    for plane in np.unique(planes, axis=0):
        numbers = np.unique(hull.simplices[(planes == plane).all(axis=1)])
        normal = plane[:3] / np.linalg.norm(plane[:3])
        first = np.cross(normal, np.eye(3)[np.abs(normal).argmin()])
        spokes = corners[numbers] - corners[numbers].mean(axis=0)
        turns = np.arctan2(spokes @ np.cross(normal, first), spokes @ first)
        faces.append(numbers[np.argsort(turns)].tolist())
        normals.append(normal)
    return Polyhedron(corners, faces, np.array(normals))


def box_corners(half: tuple[float, float, float]) -> Array:
    return np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) * np.array(half)


def stone(seed: int, count: int = 16) -> Array:
    """Points on an ellipsoid: all are corners of their hull."""
    points = np.random.default_rng(seed).normal(size=(count, 3))
    return points / np.linalg.norm(points, axis=1, keepdims=True) * np.array([0.5, 0.4, 0.3])


class Compiled:
    """A pair, with a mesh for each of its solids that is one, or heights."""

    def __init__(
        self,
        pair: CollisionTableEntry | AnalyticPair,
        precision: str = "double",
        *,
        meshes: dict[str, Array] | None = None,
    ) -> None:
        names = list(meshes or {})
        packed = pack_hulls([polyhedron(corners) for corners in (meshes or {}).values()])
        self.shared = packed.data

        def add(name: str, recorder: Tracer, solid: CollisionGeom) -> CollisionGeom:
            if name not in names:
                return solid
            i = names.index(name)
            hull = PackedHull(
                lambda index: recorder.read(SHARED, 0, index),
                float(packed.starts[i]),
                float(packed.n_vertices[i]),
                float(packed.n_faces[i]),
                packed.bounding_radii[i],
            )
            return CollisionGeom(solid.position, solid.rotation, solid.size, hull)

        self._compile(pair, precision, add)

    def _compile(self, pair: CollisionTableEntry | AnalyticPair, precision: str, add: object) -> None:
        inputs = [(f"{solid} {part}", count) for solid in "ab" for part, count in INPUTS.items()]
        self.memory = Memory(
            state=[*inputs, ("reach", 1)],
            out=[("count", 1), ("points", WIDTH * (pair.max_contacts + SPARE))],
            uniform=[(SHARED, len(self.shared))],
        )
        self.kernel = kernel(program_of(pair, add), self.memory, None, precision)  # type: ignore[arg-type]

    def points(self, poses: Poses) -> list[Array]:
        """Of each pose."""
        rows = poses.rows()
        state = np.concatenate([rows[name] for name, _ in self.memory.state])
        numbers = self.memory.whole({"state": state, UNIFORM: self.shared[:, None]}, len(poses))
        out = launched(self.kernel, self.memory, numbers, len(poses))["out"].astype(float)
        return points_of(out[0], out[1:])


class CompiledField(Compiled):
    """A pair of a height field and something else."""

    def __init__(self, pair: CollisionTableEntry, heights: Array) -> None:
        self.shared = heights.ravel()
        n_rows, n_columns = (float(n) for n in heights.shape)

        def add(name: str, recorder: Tracer, solid: CollisionGeom) -> CollisionGeom:
            grid = HeightFieldData(lambda index: recorder.read(SHARED, 0, index), 0.0, n_rows, n_columns)
            return CollisionGeom(solid.position, solid.rotation, solid.size, None, grid if name == "a" else None)

        self._compile(pair, "double", add)


def reach_along(kind: str, size: Array, direction: Array, corners: Array | None = None) -> float:
    """How far a shape goes in a direction that is given in its axes."""
    out = float(np.hypot(direction[0], direction[1]))
    match kind:
        case "sphere":
            return float(size[0])
        case "capsule":
            return float(size[0] + size[1] * abs(direction[2]))
        case "ellipsoid":
            return float(np.linalg.norm(size * direction))
        case "cylinder":
            return float(size[0] * out + size[1] * abs(direction[2]))
        case "cone":
            return float(max(size[1] * direction[2], size[0] * out - size[1] * direction[2]))
        case "box":
            return float(np.abs(direction) @ size)
        case "mesh":
            assert corners is not None
            return float((corners @ direction).max())
    raise AssertionError(kind)


def depth_along(
    kinds: tuple[str, str], poses: Poses, i: int, normal: Array, meshes: dict[str, Array] | None = None
) -> float:
    """How deep two shapes are in each other along a normal from the first to the second: it is no less in truth."""
    total = float((poses.a[0][i] - poses.b[0][i]) @ normal)
    for name, kind, solid, towards in (("a", kinds[0], poses.a, normal), ("b", kinds[1], poses.b, -normal)):
        total += reach_along(kind, solid[2][i], towards @ solid[1][i], (meshes or {}).get(name))
    return total
