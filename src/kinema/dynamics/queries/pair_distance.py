"""Signed distances and closest points of pairs of posed geoms, by the contact functions of the narrow phase.

A program is compiled for each pair of geom types: one lane (environment of the program) is one pair of geoms, and the
poses, sizes and offsets of packed data are inputs. The programs are thus independent of the model: compiled once, they
are loaded from the cache for every scene.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kinema.core import Array, KinemaError
from kinema.model import GEOM_TYPES, PLANAR_GEOM_TYPES, GeomsInfo
from kinema.runtime import Device, ProgramSource

from ..arrays import MAX_RADIUS
from ..extensions import program_key
from .lane_program import GEOM_DATA, LANE_INPUT, LANE_OUTPUT, LaneProgram, shared_geom_data

if TYPE_CHECKING:
    from kinema.ir import Program, Tracer

    from ..collision.collision_types import CollisionGeom

# ---------------------------------------------------------------------------------------------------- traced programs

GEOM_SIZE = 19
"""Input values of a geom: position (3), rotation matrix (9), size (3), packed data (start, two counts, radius)."""
PAIR_INPUT_SIZE, PAIR_OUTPUT_SIZE = 2 * GEOM_SIZE + 1, 7
"""Input: both geoms and the largest distance of interest. Output: signed distance, closest points on both geoms."""


def trace_pair_distance(geom_types: tuple[str, str], *, needs_depth: bool) -> Program:
    """Trace the signed distance and the closest points of two geoms of given types, ordered as in `GEOM_TYPES`.

    Distances above the largest distance of interest are clamped to it.
    """
    from kinema.ir import Tracer

    from ..collision.closest_points import keep_closest_points

    tracer = Tracer()
    first, second = (_read_geom(tracer, GEOM_SIZE * i, geom_type) for i, geom_type in enumerate(geom_types))
    max_distance = tracer.read(LANE_INPUT, 2 * GEOM_SIZE)
    result = tracer.allocate_local(PAIR_OUTPUT_SIZE)
    tracer.write(result, [max_distance, *[0.0] * 6])
    tracer.new_basic_block()
    keep_closest_points(tracer, geom_types, (first, second), result, max_distance, needs_depth=needs_depth)
    tracer.write(LANE_OUTPUT, [tracer.read(result, i) for i in range(PAIR_OUTPUT_SIZE)])
    return tracer.build()


def _read_geom(tracer: Tracer, start: int, geom_type: str) -> CollisionGeom:
    """Read a geom of the pair from the inputs that begin at `start`."""
    from ..collision.closest_points import geom_with_packed_data
    from ..collision.collision_types import CollisionGeom

    flat = [tracer.read(LANE_INPUT, start + i) for i in range(GEOM_SIZE)]
    geom = CollisionGeom(flat[:3], [flat[3 * i : 3 * i + 3] for i in range(1, 4)], flat[12:15])
    return geom_with_packed_data(geom, geom_type, tracer, GEOM_DATA, flat[15:])


# ------------------------------------------------------------------------------------------------------- posed geoms


@dataclass(frozen=True, slots=True, eq=False)
class PosedGeoms:
    """Geoms of any types with their world poses; one row per geom."""

    types: np.ndarray
    """Index in `GEOM_TYPES`, (n,)."""
    size: Array
    """Size as in `GeomsInfo.size` [m], (n, 3)."""
    data: Array
    """Start and two counts of the packed data, radius about the origin of the geom [m], (n, 4)."""
    position: Array
    """World position [m], (n, 3)."""
    rotation: Array
    """Rotation matrix, (n, 3, 3)."""


def geom_type_indices(types: Sequence[str]) -> np.ndarray:
    """Indices of geom types in `GEOM_TYPES`."""
    return np.array([GEOM_TYPES.index(x) for x in types], np.intp)


def packed_data_headers(geoms: GeomsInfo) -> Array:
    """Start and counts of the packed data of each geom, and the radius about its origin [m], (n, 4)."""
    radius = np.minimum(geoms.radius + np.linalg.norm(geoms.center, axis=1), MAX_RADIUS)
    return np.column_stack([geoms.data_start, geoms.data_counts, radius]).astype(np.float64)


@dataclass(frozen=True, slots=True, eq=False)
class ClosestPoints:
    """Signed distances and closest points of pairs of geoms."""

    distance: Array
    """Signed distance [m], negative for penetration, (n,); at most the largest distance of interest."""
    point_a: Array
    point_b: Array
    """World positions of the closest points on both geoms [m], (n, 3); meaningless at the largest distance."""


# ---------------------------------------------------------------------------------------------------------- evaluation


class PairDistances:
    """Signed distances of batches of geom pairs; a program per pair of geom types is compiled on first use.

    Args:
        geom_data: packed data of meshes, height fields and signed distance fields (`GeomsInfo.data`).
        device: CPU or GPU.
        precision: `single` or `double`.
        threads: maximum number of CPU threads; None for all cores.
        needs_depth: whether penetration depths are computed; otherwise distances of penetrating convex geoms are some
            value <= 0, and no penetration algorithm (EPA) runs.
    """

    def __init__(
        self,
        geom_data: Array,
        device: Device,
        precision: str = "single",
        threads: int | None = None,
        *,
        needs_depth: bool = True,
    ) -> None:
        self._threads = threads
        self._needs_depth = needs_depth
        self._geom_data = shared_geom_data(geom_data, device, precision)
        self._programs: dict[tuple[int, int], LaneProgram] = {}

    def closest_points(self, a: PosedGeoms, b: PosedGeoms, max_distance: float | Array) -> ClosestPoints:
        """Signed distances and closest points of n pairs of geoms.

        Args:
            a: first geom of each pair, n rows.
            b: second geom of each pair, n rows.
            max_distance: distance above which the exact distance is not needed [m], one for each pair or for all.
        """
        n = len(a.types)
        limits = np.broadcast_to(np.asarray(max_distance, np.float64), (n,))
        distance, points = np.array(limits), np.zeros((2, n, 3))
        swapped = a.types > b.types
        keys = np.where(swapped, b.types * len(GEOM_TYPES) + a.types, a.types * len(GEOM_TYPES) + b.types)
        for key in np.unique(keys):
            rows = np.flatnonzero(keys == key)
            types = divmod(int(key), len(GEOM_TYPES))
            if all(GEOM_TYPES[t] in PLANAR_GEOM_TYPES for t in types):
                continue
            flip = swapped[rows, None]
            flat_a, flat_b = _flatten(a, rows), _flatten(b, rows)
            first, second = np.where(flip, flat_b, flat_a), np.where(flip, flat_a, flat_b)
            origin = np.array(second[:, :3])  # positions are relative to the second geom: no loss of precision
            first[:, :3] -= origin
            second[:, :3] = 0.0
            out = self._program(types).run(np.column_stack([first, second, limits[rows]]).T)
            distance[rows] = out[0]
            points[0, rows] = np.where(flip, out[4:7].T, out[1:4].T) + origin
            points[1, rows] = np.where(flip, out[1:4].T, out[4:7].T) + origin
        return ClosestPoints(distance, points[0], points[1])

    def _program(self, types: tuple[int, int]) -> LaneProgram:
        """Program of a pair of geom types; traced and compiled on first use, or loaded from the cache."""
        if types not in self._programs:
            names = GEOM_TYPES[types[0]], GEOM_TYPES[types[1]]
            key = program_key("pair distance", names, self._needs_depth)
            source = ProgramSource(
                lambda: trace_pair_distance(names, needs_depth=self._needs_depth), key, "pair_distance"
            )
            self._programs[types] = LaneProgram(
                source, PAIR_INPUT_SIZE, PAIR_OUTPUT_SIZE, self._geom_data, self._threads
            )
        return self._programs[types]


def _flatten(geoms: PosedGeoms, rows: np.ndarray) -> Array:
    """Input values of geoms, (n, GEOM_SIZE)."""
    if not len(rows):
        raise KinemaError("no pairs of geoms are given")
    return np.column_stack(
        [geoms.position[rows], geoms.rotation[rows].reshape(-1, 9), geoms.size[rows], geoms.data[rows]]
    )
