"""Distances, normals and nearest points of pairs of shapes beside those of coal.

Who is right where the two differ is decided by what both must obey: along any direction shapes overlap by no less than
they are deep in each other, so that of two directions the one along which they overlap less is nearer to the truth.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from itertools import combinations_with_replacement
from typing import Any

import numpy as np

from kinema.core import Array
from kinema.dynamics.collision.analytic_pairs import ANALYTIC_COLLISION_TABLE
from kinema.dynamics.collision.collision_table import convex_collision_table

from .convex_driver import Compiled, depth_along, polyhedron, reach_along, stone
from .driver import Poses
from .poses import nearly_on_a_grid, on_a_grid, somewhere
from .surfaces import beyond_surface

CONVEX = ("sphere", "capsule", "ellipsoid", "cylinder", "cone", "box", "mesh")
KINDS = [*(("plane", kind) for kind in CONVEX), *combinations_with_replacement(CONVEX, 2)]
TOLERANCE = 1e-6
"""[m], of shapes that are about as large as a metre."""
FARTHEST = 100.0
BY_SEARCH = (("capsule", "box"), ("box", "box"))
"""Pairs whose formula is MuJoCo's: of those that are deep in each other it has another depth on purpose."""


def meshes_of(kinds: tuple[str, str]) -> dict[str, Array]:
    """Corners of those of a pair that are meshes."""
    return {name: stone(seed) for name, kind, seed in (("a", kinds[0], 1), ("b", kinds[1], 2)) if kind == "mesh"}


def all_poses(seed: int, count: int) -> Poses:
    """Anywhere, and a third of them where something is parallel, concentric or just touching, or nearly so."""
    parts = [somewhere(seed, count - 2 * (count // 6)), on_a_grid(seed, count // 6), nearly_on_a_grid(seed, count // 6)]
    a, b = (tuple(np.concatenate(x) for x in zip(*(getattr(p, side) for p in parts), strict=True)) for side in "ab")
    return Poses(a, b, np.full(sum(len(p) for p in parts), FARTHEST))  # type: ignore[arg-type]


@dataclass(frozen=True)
class Found:
    """Signed distances [m], (n,), and normals from the first to the second, (n, 3)."""

    distances: Array
    normals: Array
    midpoints: Array
    """Between the nearest points, (n, 3)."""


def ours(kinds: tuple[str, str], poses: Poses) -> Found:
    """The deepest point of each pose, in double precision."""
    search = convex_collision_table(multiccd=False)
    pair = search[kinds] if kinds in BY_SEARCH else ANALYTIC_COLLISION_TABLE.get(kinds) or search[kinds]
    contacts = Compiled(pair, meshes=meshes_of(kinds)).points(poses)
    best = np.array([p[p[:, 0].argmin()] if len(p) else np.full(13, np.nan) for p in contacts])
    return Found(best[:, 0], best[:, 4:7], best[:, 1:4])


def theirs(kinds: tuple[str, str], poses: Poses) -> Found:
    """Those of coal, searched for longer than usual."""
    coal: Any = importlib.import_module("coal")
    request = coal.DistanceRequest()
    request.gjk_tolerance = request.epa_tolerance = 1e-9
    request.gjk_max_iterations, request.epa_max_iterations = 500, 500
    corners = meshes_of(kinds)
    fixed = {name: _hull(coal, points) for name, points in corners.items()}
    result = coal.DistanceResult()
    distances, normals, midpoints = np.zeros(len(poses)), np.zeros((len(poses), 3)), np.zeros((len(poses), 3))
    for i in range(len(poses)):
        shapes = [
            fixed.get(name) or _shape(coal, kind, solid[2][i])
            for name, kind, solid in zip("ab", kinds, (poses.a, poses.b), strict=True)
        ]
        first, second = (coal.Transform3s(s[1][i], s[0][i]) for s in (poses.a, poses.b))
        result.clear()
        distances[i] = coal.distance(shapes[0], first, shapes[1], second, request, result)
        normals[i] = result.normal
        midpoints[i] = 0.5 * (result.getNearestPoint1() + result.getNearestPoint2())
    return Found(distances, normals, midpoints)


def _shape(coal: Any, kind: str, size: Array) -> Any:
    match kind:
        case "plane":
            return coal.Halfspace(np.array([0.0, 0.0, 1.0]), 0.0)
        case "sphere":
            return coal.Sphere(size[0])
        case "capsule" | "cylinder" | "cone":
            return getattr(coal, kind.capitalize())(size[0], 2.0 * size[1])
        case "ellipsoid":
            return coal.Ellipsoid(*size)
        case "box":
            return coal.Box(*(2.0 * size))
    raise AssertionError(kind)


def _hull(coal: Any, corners: Array) -> Any:
    points = coal.StdVec_Vec3s()
    for corner in corners:
        points.append(corner)
    triangles = coal.StdVec_Triangle()
    for face in polyhedron(corners).faces:
        for i in range(1, len(face) - 1):
            triangles.append(coal.Triangle(face[0], face[i], face[i + 1]))
    return coal.Convex(points, triangles)


@dataclass(frozen=True)
class Beside:
    """How a kind of pair compares."""

    kinds: tuple[str, str]
    count: int
    same: int
    """Distances within the tolerance."""
    off: list[int]
    """Poses for which ours is farther from the truth than the tolerance."""
    worst: float
    """By how much, at most [m]."""
    off_apart: int
    """How many of these are of shapes that are apart."""
    theirs_off: int
    """Poses for which coal's is."""
    turned: int
    """Of shapes that are apart and whose distances are the same: those whose ways to each other differ by more than
    the tolerance, and along whose direction of ours they are not as far apart as is said, within 1e-9 m."""
    beside_surface: float
    """How far a nearest point of ours is from its surface, at most [m]."""


def compared(kinds: tuple[str, str], poses: Poses) -> Beside:
    """Ours and coal's, pose by pose."""
    own, other = ours(kinds, poses), theirs(kinds, poses)
    assert np.isfinite(own.distances).all()
    apart = np.abs(own.distances - other.distances)
    same = apart <= TOLERANCE
    off, worst, theirs_off = [], 0.0, 0
    for i in np.flatnonzero(~same):
        mine, foreign = _errors(kinds, poses, int(i), own, other)
        theirs_off += foreign > TOLERANCE
        if mine > TOLERANCE:
            off.append(int(i))
            worst = max(worst, mine)
    clear = same & (own.distances > 1e-3)
    turned = 0
    for i in np.flatnonzero(clear):
        ways = own.distances[i] * own.normals[i] - other.distances[i] * other.normals[i]
        if np.linalg.norm(ways) > TOLERANCE and _errors(kinds, poses, int(i), own, own)[0] > 1e-9:
            turned += 1
    off_apart = int(np.count_nonzero(own.distances[off] > 0.0))
    beside_surface = _beside_surfaces(kinds, poses, own)
    return Beside(kinds, len(poses), int(same.sum()), off, worst, off_apart, theirs_off, turned, beside_surface)


def _errors(kinds: tuple[str, str], poses: Poses, i: int, own: Found, other: Found) -> tuple[float, float]:
    """How far each is from the better of the two directions [m], and from what its own direction says."""
    if kinds[0] == "plane":
        exact = -depth_of_plane(kinds[1], poses, i)
        return abs(own.distances[i] - exact), abs(other.distances[i] - exact)
    meshes = meshes_of(kinds)
    along = [-depth_along(kinds, poses, i, _unit(f.normals[i]), meshes) for f in (own, other)]
    best = max(along)
    return abs(own.distances[i] - best), abs(other.distances[i] - best)


def _unit(a: Array) -> Array:
    size = float(np.linalg.norm(a))
    return a / size if size > 0.5 else np.array([1.0, 0.0, 0.0])


def depth_of_plane(kind: str, poses: Poses, i: int) -> float:
    """How deep a shape is below a plane."""
    up = poses.a[1][i][:, 2]
    corners = meshes_of(("plane", kind)).get("b")
    reach = reach_along(kind, poses.b[2][i], -up @ poses.b[1][i], corners)
    return reach - float(up @ (poses.b[0][i] - poses.a[0][i]))


def _beside_surfaces(kinds: tuple[str, str], poses: Poses, own: Found) -> float:
    """How far the two points of each pose are from their surfaces, at most; not of meshes and ellipsoids."""
    worst = 0.0
    for kind, solid, side in ((kinds[0], poses.a, -0.5), (kinds[1], poses.b, 0.5)):
        if kind in ("mesh", "ellipsoid", "plane"):
            continue
        points = own.midpoints + side * own.distances[:, None] * own.normals
        inside = np.einsum("nji,nj->ni", solid[1], points - solid[0])
        off = [abs(float(beyond_surface(kind, size, p[None])[0])) for size, p in zip(solid[2], inside, strict=True)]
        apart = own.distances > 0.0
        worst = max(worst, float(np.max(np.array(off)[apart], initial=0.0)))
    return worst
