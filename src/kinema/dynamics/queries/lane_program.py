"""Programs over independent elements, one per lane: batches of any size run in padded memory on a CPU or GPU."""

from __future__ import annotations

import numpy as np

from kinema.core import Array
from kinema.ir import UNIFORM, ArenaOffset
from kinema.runtime import Arena, ArenaLayout, Device, Kernel, LaunchArguments, ProgramSource, synchronise

LANE_INPUT, LANE_OUTPUT, GEOM_DATA = "lane input", "lane output", "geom_data"
"""Arrays of a program: values of an element, results of an element, and packed data of geoms that all elements
share."""
RAY_INPUT_SIZE, RAY_OUTPUT_SIZE = 13, 4
"""Input of an intersection: origin (3) and direction (3) of the ray, size (3) and packed data (4) of the geom. Output:
distance, outward normal (3)."""
RAY_RANGE = 1e6
"""Distance from which on a ray misses [m]."""
MIN_CAPACITY = 64
"""Smallest number of elements that memory is allocated for."""


def shared_geom_data(geom_data: Array, device: Device, precision: str) -> Arena:
    """Arena of the packed data of meshes, height fields and signed distance fields (`GeomsInfo.data`)."""
    values = np.concatenate([geom_data, np.zeros(1)])  # never empty
    arena = Arena(ArenaLayout.from_sizes(UNIFORM, [(GEOM_DATA, len(values))]), 1, device, precision)
    arena.view(GEOM_DATA).assign(values[:, None])
    return arena


class LaneProgram:
    """A program that maps the input values of each of n elements to output values, compiled once for all n.

    Args:
        source: program that reads `LANE_INPUT` and `GEOM_DATA`, and writes `LANE_OUTPUT`.
        n_inputs: input values of an element.
        n_outputs: output values of an element.
        geom_data: packed data of geoms (`shared_geom_data`).
        threads: maximum number of CPU threads; None for all cores.
    """

    def __init__(
        self, source: ProgramSource, n_inputs: int, n_outputs: int, geom_data: Arena, threads: int | None
    ) -> None:
        self._sizes = n_inputs, n_outputs
        self._geom_data = geom_data
        self._device, self._precision, self._threads = geom_data.device, geom_data.precision, threads
        names = ((LANE_INPUT, "state"), (LANE_OUTPUT, "out"), (GEOM_DATA, UNIFORM))
        offsets = {array: ArenaOffset(arena, 0) for array, arena in names}
        self._kernel = Kernel(source, offsets, self._device, self._precision)
        self._controls = self._arena("controls", "", 0, 1)
        self._memory: dict[int, tuple[Arena, Arena]] = {}

    def run(self, inputs: Array) -> Array:
        """Outputs (n_outputs, n) for inputs (n_inputs, n)."""
        n = inputs.shape[1]
        capacity = MIN_CAPACITY
        while capacity < n:
            capacity *= 2
        if capacity not in self._memory:
            self._memory[capacity] = (
                self._arena("state", LANE_INPUT, self._sizes[0], capacity),
                self._arena("out", LANE_OUTPUT, self._sizes[1], capacity),
            )
        state, out = self._memory[capacity]
        padded = np.zeros((self._sizes[0], capacity), state.dtype)
        padded[:, :n] = inputs
        padded[:, n:] = padded[:, n - 1 : n]
        state.view(LANE_INPUT).assign(padded)
        arguments = LaunchArguments(state, self._controls.data, out, self._geom_data, max_threads=self._threads)
        self._kernel.prepare_launch(arguments)()
        synchronise(self._device)
        return np.asarray(out.view(LANE_OUTPUT).numpy()[:, :n], np.float64)

    def _arena(self, name: str, array: str, size: int, capacity: int) -> Arena:
        return Arena(ArenaLayout.from_sizes(name, [(array, size)]), capacity, self._device, self._precision)
