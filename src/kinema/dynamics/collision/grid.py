"""Broad phase by a grid of cells of several sizes: all pairs of geoms with overlapping AABBs that may collide.

Geoms of similar size form a level, whose cells are as wide as two of its largest geoms: geoms that overlap a geom of
the level, and are not larger, are in its cell or in one of the 26 cells around. A geom is looked up at its own level
and at coarser ones. Grids are periodic: cells a multiple of the grid size apart are one cell, and the test of the AABBs
rejects geoms that are far apart. The geoms of a level are sorted by cells. Levels with few geoms, and geoms without
bounds, are tested against all others.

Time grows with the number of geoms and of overlapping pairs, the code does not depend on either. Candidates are listed
by kind of pair, in an order that follows from the positions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..tree.joined_columns import RecordList
from ..tree.loop_context import LoopContext
from .aabbs import AABB_SIZE, aabb_separation
from .grid_plan import CLASS_ARRAY, EXCLUDED_ARRAY, GEOM_ARRAY, GridLevel
from .pair_kinds import FIRST_LOWER, FIRST_OTHER, N_CLASS_FIELDS, N_GEOM_FIELDS, find_pair_kinds
from .vector_math import if_less

MAX_CELL_COORDINATE = 3.0e4
"""Limit of cell coordinates; geoms farther from the origin share the last cell."""
CELL_WIDTH_FACTOR = 1.01
"""Safety factor of the cell width against rounding at cell borders."""
OWN_ROW = 4
"""Index of the row of cells along x of a geom among the nine rows around it."""
AABB, OWN_POSITION, IS_OWN, RANGE, AFTER = 6, 12, 13, 14, 17
"""Positions in the local memory of a look-up, after the rows and layers of cells: AABB, position in the order, whether
the geom is of the level, first and last cell along x and the cell beyond the border or -1, and the position after which
geoms are tested, with the start of their range."""
N_LOOK_UP_VALUES = 19
CANDIDATE_SIZE = 3
"""Values of a candidate: the two geoms, and the row of the contact parameters."""


class GridBroadPhase:
    """Traces the search of candidate pairs, from AABBs in the order of the broad phase to lists by kind of pair."""

    def __init__(self, ctx: LoopContext, aabbs: ArenaOffset, levels: Sequence[GridLevel], n_geoms: int) -> None:
        self.ctx, self.aabbs, self.levels, self.n_geoms = ctx, aabbs, levels, n_geoms
        self.n_classes = len(ctx.model.pair_rules.row_of_classes)
        self.has_excluded = bool(len(ctx.model.pair_rules.excluded))
        n_kinds = len(find_pair_kinds(ctx.model).kinds)
        capacity = CANDIDATES_PER_GEOM * n_geoms
        self.stride = 1 + CANDIDATE_SIZE * capacity
        self.capacity = capacity
        self._lists = ctx.allocate(self.stride * n_kinds)
        self.candidates = [
            RecordList(ArenaOffset(SCRATCH, self._lists.row + self.stride * k), CANDIDATE_SIZE, capacity)
            for k in range(n_kinds)
        ]
        """Candidates of each kind of pair."""
        self.lost = ctx.allocate(1)
        """Number of candidates that did not fit."""

    def list_offsets(self) -> dict[str, ArenaOffset]:
        """Arrays that `append_candidate` writes."""
        return {"lists": self._lists, "lost": self.lost}

    def _offsets(self) -> dict[str, ArenaOffset]:
        names = [GEOM_ARRAY, CLASS_ARRAY, *([EXCLUDED_ARRAY] if self.has_excluded else [])]
        arrays = {name: self.ctx.array_offsets[name] for name in names}
        return {**arrays, **self.list_offsets(), "aabbs": self.aabbs}

    def list_candidates(self) -> None:
        """Trace the search of all pairs with overlapping AABBs that may collide."""
        ctx = self.ctx
        for records in self.candidates:
            records.clear(ctx)
        ctx.tracer.write(SCRATCH, [0.0], self.lost.row)
        with ctx.without_unrolling():
            if self.levels:
                self._trace_levels()
            first = self.levels[-1].end if self.levels else 0
            if first < self.n_geoms:
                constants = {"first": [float(first)], "count": [float(self.n_geoms - first)]}
                rows = [LoopIteration("direct", self._offsets(), constants)]
                ctx.for_each("pairs with geoms outside of the grid", rows, self._test_directly)

    # ------------------------------------------------------------------------------------------------------------ grid

    def _trace_levels(self) -> None:
        n = max(level.end for level in self.levels)
        ends = self.ctx.allocate(max(level.size**3 for level in self.levels) + 2)
        cells, in_order = self.ctx.allocate(n), self.ctx.allocate(n)
        rows = []
        for level in self.levels:
            offsets = {**self._offsets(), "starts": ends, "cells": cells, "in order": in_order}
            constants = {
                "first": [float(level.first)],
                "end": [float(level.end)],
                "size": [float(level.size)],
                "inverse size": [1.0 / level.size],
                "n cells": [float(level.size**3)],
                "inverse width": [0.5 / (level.half_extent * CELL_WIDTH_FACTOR)],
            }
            rows.append(LoopIteration("level", offsets, constants))
        self.ctx.for_each("pairs of the levels of the grid", rows, self._search_level)

    def _search_level(self, level: IterationContext) -> None:
        """Code of a level: sort its geoms by cells, look up these and all smaller geoms."""
        tracer = level.tracer
        self._sort_by_cells(level)
        tracer.counted_loop(
            "geoms up to the level", level.constant("end"), lambda position: self._look_up(level, position)
        )

    def _sort_by_cells(self, level: IterationContext) -> None:
        """Counting sort of the geoms of a level by their cells.

        Afterwards, the geoms of cell c are those from `starts[c + 1]` to `starts[c + 2]` in the array `in order`.
        """
        tracer, first, end = level.tracer, level.constant("first"), level.constant("end")
        count = end - first
        tracer.counted_loop("cells", level.constant("n cells") + 2.0, lambda i: tracer.write("starts", [0.0], 0, i))

        def add(i: Value) -> None:
            position = first + i
            cell = self._cell_of(level, position)
            index = cell[0] + level.constant("size") * (cell[1] + level.constant("size") * cell[2])
            tracer.write("cells", [index], 0, position)
            tracer.write("starts", [tracer.read("starts", 1, index) + 1.0], 1, index)

        def accumulate(cell: Value) -> None:
            tracer.write("starts", [tracer.read("starts", 0, cell) + tracer.read("starts", 1, cell)], 1, cell)

        def place(i: Value) -> None:
            position = end - 1.0 - i  # in reverse order, so that the geoms of a cell keep their order
            index = tracer.read("cells", 0, position)
            start = tracer.read("starts", 1, index) - 1.0
            tracer.write("starts", [start], 1, index)
            tracer.write("in order", [position], 0, start)

        tracer.counted_loop("geoms by cells", count, add)
        tracer.counted_loop("ends of cells", level.constant("n cells"), accumulate)
        tracer.write("starts", [count], 1, level.constant("n cells"))
        tracer.counted_loop("geoms in order", count, place)

    def _cell_of(self, level: IterationContext, position: Value) -> list[Value]:
        """Coordinates of the cell of a geom in the grid of a level; of a position that is not finite, of some cell."""
        scale, coordinates = level.constant("inverse width"), []
        for i in range(3):
            x = level.tracer.read("aabbs", i, float(AABB_SIZE) * position) * scale
            x = ir.maximum(-MAX_CELL_COORDINATE, ir.minimum(MAX_CELL_COORDINATE, x))
            coordinates.append(_wrap(level, ir.floor(x)))
        return coordinates

    def _look_up(self, level: IterationContext, position: Value) -> None:
        """Find the geoms of a level that overlap a geom.

        Cells along x are consecutive, so that three neighbours are one range, and a second one at the border of the
        grid. Of two geoms of the level, one is found from the other: in the rows of cells that follow its own row in
        the order of y and z, and after it in its own row.
        """
        tracer, state = level.tracer, level.tracer.allocate_local(N_LOOK_UP_VALUES)
        aabb = [tracer.read("aabbs", i, float(AABB_SIZE) * position) for i in range(AABB_SIZE)]
        x, y, z = self._cell_of(level, position)
        size = level.constant("size")
        is_own = ir.select(level.constant("first") - 0.5, position, 1.0, 0.0)
        rows = [_wrap(level, y + delta) * size for delta in (-1.0, 0.0, 1.0)]
        layers = [_wrap(level, z + delta) * (size * size) for delta in (-1.0, 0.0, 1.0)]
        low, high = ir.maximum(x - 1.0, 0.0), ir.minimum(x + 1.0, size - 1.0)
        beyond = ir.select(x, 0.5, size - 1.0, ir.select(size - 1.5, x, 0.0, -1.0))
        tracer.write(state, [*rows, *layers, *aabb, position, is_own, low, high, beyond])

        def visit_row(i: Value) -> None:
            row = i + float(OWN_ROW) * tracer.read(state, IS_OWN)
            layer = ir.floor((row + 0.5) * (1.0 / 3.0))
            start = tracer.read(state, 0, row - 3.0 * layer) + tracer.read(state, 3, layer)
            low, high, beyond = (tracer.read(state, RANGE + k) for k in range(3))
            first, end = tracer.read("starts", 1, start + low), tracer.read("starts", 2, start + high)
            # in its own row, a geom of the level is tested with those that follow it
            after = ir.select(ir.absolute(row - float(OWN_ROW)), 0.5, tracer.read(state, IS_OWN), 0.0)
            after = ir.select(0.5, after, tracer.read(state, OWN_POSITION), -1.0)
            tracer.write(state, [after, first], AFTER)
            other = start + ir.maximum(beyond, 0.0)
            bounds = [tracer.read("starts", k, other) for k in (1, 2)]
            tracer.counted_loop("geoms of neighbouring cells", end - first, visit)
            tracer.write(state, [bounds[0]], AFTER + 1)
            n_beyond = ir.select(-0.5, beyond, bounds[1] - bounds[0], 0.0)
            tracer.counted_loop("geoms beyond the border", n_beyond, visit)

        def visit(i: Value) -> None:
            other = tracer.read("in order", 0, tracer.read(state, AFTER + 1) + i)
            own = [tracer.read(state, AABB + k) for k in range(AABB_SIZE)]
            separation = aabb_separation(
                own, [tracer.read("aabbs", k, float(AABB_SIZE) * other) for k in range(AABB_SIZE)]
            )
            separation = ir.select(tracer.read(state, AFTER), other, separation, 1.0)
            if_less(
                tracer, "overlap", separation, 0.0, lambda: self._emit(level, tracer.read(state, OWN_POSITION), other)
            )

        tracer.counted_loop("rows of cells", 9.0 - float(OWN_ROW) * is_own, visit_row)

    # ---------------------------------------------------------------------------------------------------- other geoms

    def _test_directly(self, iteration: IterationContext) -> None:
        """Code of the geoms outside of the grid: test each against all geoms before it in the order."""
        tracer, outer = iteration.tracer, iteration.tracer.allocate_local(1 + AABB_SIZE)

        def visit(i: Value) -> None:
            position = iteration.constant("first") + i
            aabb = [tracer.read("aabbs", k, float(AABB_SIZE) * position) for k in range(AABB_SIZE)]
            tracer.write(outer, [position, *aabb])
            tracer.counted_loop("geoms before", position, test)

        def test(other: Value) -> None:
            own = [tracer.read(outer, 1 + k) for k in range(AABB_SIZE)]
            separation = aabb_separation(
                own, [tracer.read("aabbs", k, float(AABB_SIZE) * other) for k in range(AABB_SIZE)]
            )
            if_less(tracer, "overlap", separation, 0.0, lambda: self._emit(iteration, other, tracer.read(outer)))

        tracer.counted_loop("geoms outside of the grid", iteration.constant("count"), visit)

    # ----------------------------------------------------------------------------------------------------- candidates

    def _emit(self, iteration: IterationContext, a: Value, b: Value) -> None:
        """Append the pair of the geoms at two positions to the list of its kind, if the rules let them collide."""
        tracer = iteration.tracer
        (geom_a, class_a, frame_a), (geom_b, class_b, frame_b) = (
            [tracer.read(GEOM_ARRAY, i, float(N_GEOM_FIELDS) * position) for i in range(N_GEOM_FIELDS)]
            for position in (a, b)
        )
        entry = float(N_CLASS_FIELDS) * (class_a * float(self.n_classes) + class_b)
        kind, row, order = (tracer.read(CLASS_ARRAY, i, entry) for i in range(N_CLASS_FIELDS))
        moves = ir.select(0.5, ir.absolute(frame_a - frame_b), kind, -1.0)
        in_order = ir.select(order, FIRST_LOWER + 0.5, ir.select(geom_a, geom_b, 1.0, 0.0), FIRST_OTHER - order)
        first, second = ir.select(0.5, in_order, geom_a, geom_b), ir.select(0.5, in_order, geom_b, geom_a)

        def append() -> None:
            append_candidate(tracer, self.capacity, self.stride * kind, [first, second, row])

        def append_unless_excluded() -> None:
            found = tracer.allocate_local(1)
            tracer.write(found, [0.0])

            def compare(i: Value) -> None:
                partner = tracer.read(EXCLUDED_ARRAY, 0, tracer.read(EXCLUDED_ARRAY, 0, 2.0 * first) + i)
                same = ir.select(ir.absolute(partner - second), 0.5, 1.0, 0.0)
                tracer.write(found, [ir.maximum(tracer.read(found), same)])

            tracer.counted_loop("excluded pairs", tracer.read(EXCLUDED_ARRAY, 1, 2.0 * first), compare)
            if_less(tracer, "not excluded", tracer.read(found), 0.5, append)

        if_less(tracer, "may collide", -0.5, moves, append_unless_excluded if self.has_excluded else append)


CANDIDATES_PER_GEOM = 16
"""Capacity of the list of candidates of each kind of pair, per geom."""


def append_candidate(tracer: ir.Tracer, capacity: int, start: Value, record: Sequence[Value]) -> None:
    """Append a candidate to the list at an offset in the array `lists`, or count it in `lost`."""
    count = tracer.read("lists", 0, start)

    def append() -> None:
        tracer.write("lists", record, 1, start + float(CANDIDATE_SIZE) * count)
        tracer.write("lists", [count + 1.0], 0, start)

    if_less(tracer, "has room", count, float(capacity), append)
    overflows: Callable[[], None] = lambda: tracer.write("lost", [tracer.read("lost") + 1.0])  # noqa: E731
    if_less(tracer, "is full", float(capacity) - 0.5, count, overflows)


def _wrap(level: IterationContext, coordinate: Value) -> Value:
    """Cell coordinate modulo the size of the grid."""
    return coordinate - level.constant("size") * ir.floor(coordinate * level.constant("inverse size"))
