"""Intersections of batches of rays with posed collision geoms: distances and surface normals.

A program is compiled for each geom type: one lane is one ray and one geom, in the axes of the geom. As in
`pair_distance.py`, the programs are independent of the model.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kinema.core import Array
from kinema.model import GEOM_TYPES
from kinema.runtime import Device, ProgramSource

from ..extensions import program_key
from .lane_program import RAY_INPUT_SIZE, RAY_OUTPUT_SIZE, RAY_RANGE, LaneProgram, shared_geom_data
from .pair_distance import PosedGeoms

if TYPE_CHECKING:
    from kinema.ir import Program


START_MARGIN = 1.1
"""Distance from the centre of a geom at which rays start, in bounding radii: with 1.0, rounding puts the start inside
of a sphere, or of a capsule on whose axis a ray lies, and the far side is hit."""


@dataclass(frozen=True, slots=True, eq=False)
class SurfaceHits:
    """Intersections of rays with geoms."""

    distance: Array
    """Distance along each ray [m], (n,); infinite for a miss."""
    normal: Array
    """Outward unit normal of the surface in the world, (n, 3); meaningless for a miss."""


class RayIntersections:
    """Intersections of batches of rays with geoms; a program per geom type is compiled on first use.

    Args:
        geom_data: packed data of meshes, height fields and signed distance fields (`GeomsInfo.data`).
        device: CPU or GPU.
        precision: `single` or `double`.
        threads: maximum number of CPU threads; None for all cores.
    """

    def __init__(self, geom_data: Array, device: Device, precision: str = "single", threads: int | None = None) -> None:
        self._geom_data, self._threads = shared_geom_data(geom_data, device, precision), threads
        self._programs: dict[int, LaneProgram] = {}

    def cast(self, origin: Array, direction: Array, geoms: PosedGeoms) -> SurfaceHits:
        """Intersection of each of n rays with one geom.

        Args:
            origin: start of each ray in the world [m], (n, 3).
            direction: unit vector, (n, 3).
            geoms: the geom of each ray, n rows.
        """
        n = len(origin)
        distance, normal = np.full(n, np.inf), np.zeros((n, 3))
        for geom_type in np.unique(geoms.types):
            rows = np.flatnonzero(geoms.types == geom_type)
            to_geom = np.swapaxes(geoms.rotation[rows], 1, 2)
            local = [(to_geom @ x[..., None])[..., 0] for x in (origin[rows] - geoms.position[rows], direction[rows])]
            # rays start near the geom, so that single precision is enough
            skipped = np.maximum(np.linalg.norm(local[0], axis=1) - START_MARGIN * geoms.data[rows, 3], 0.0)
            skipped = np.where(GEOM_TYPES[int(geom_type)] == "plane", 0.0, skipped)
            start = local[0] + skipped[:, None] * local[1]
            out = self._program(int(geom_type)).run(
                np.column_stack([start, local[1], geoms.size[rows], geoms.data[rows]]).T
            )
            distance[rows] = np.where(out[0] < RAY_RANGE, out[0] + skipped, np.inf)
            normal[rows] = (geoms.rotation[rows] @ out[1:].T[..., None])[..., 0]
        return SurfaceHits(distance, normal)

    def _program(self, geom_type: int) -> LaneProgram:
        """Program of a geom type; traced and compiled on first use, or loaded from the cache."""
        if geom_type not in self._programs:
            name = GEOM_TYPES[geom_type]
            source = ProgramSource(lambda: _trace(name), program_key("ray intersection", name), "ray_intersection")
            self._programs[geom_type] = LaneProgram(
                source, RAY_INPUT_SIZE, RAY_OUTPUT_SIZE, self._geom_data, self._threads
            )
        return self._programs[geom_type]


def _trace(geom_type: str) -> Program:
    from .ray_programs import trace_ray_intersection  # not needed if the program is cached

    return trace_ray_intersection(geom_type)
