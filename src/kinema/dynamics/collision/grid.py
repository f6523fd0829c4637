"""Broad phase by a grid of cells of several sizes: all pairs of geoms with overlapping AABBs that may collide.

Geoms of similar size form a level, whose cells are as wide as two of its largest geoms: geoms that overlap a geom of
the level, and are not larger, are in its cell or in one of the 26 cells around. A geom is looked up at its own level
and at coarser ones. Grids are periodic: cells a multiple of the grid size apart share a linked list, and the test of
the AABBs rejects geoms that are far apart. Levels with few geoms, and geoms without bounds, are tested against all
others.

Time grows with the number of geoms and of overlapping pairs, the code does not depend on either. Candidates are listed
by kind of pair, in an order that depends on the levels and the order of the geoms only.
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
        self._found = ctx.allocate(1 + n_geoms)

    def list_offsets(self) -> dict[str, ArenaOffset]:
        """Arrays that `append_candidate` writes."""
        return {"lists": self._lists, "lost": self.lost}

    def _offsets(self) -> dict[str, ArenaOffset]:
        names = [GEOM_ARRAY, CLASS_ARRAY, *([EXCLUDED_ARRAY] if self.has_excluded else [])]
        arrays = {name: self.ctx.array_offsets[name] for name in names}
        return {**arrays, **self.list_offsets(), "aabbs": self.aabbs, "found": self._found}

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
        heads = self.ctx.allocate(max(level.size**3 for level in self.levels))
        nexts, cells = self.ctx.allocate(n), self.ctx.allocate(3 * n)
        rows = []
        for level in self.levels:
            offsets = {**self._offsets(), "heads": heads, "nexts": nexts, "cells": cells}
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
        """Code of a level: clear its cells, insert its geoms, look up these and all smaller geoms."""
        tracer, first, end = level.tracer, level.constant("first"), level.constant("end")
        tracer.counted_loop("cells", level.constant("n cells"), lambda i: tracer.write("heads", [0.0], 0, i))

        def insert(i: Value) -> None:
            position = end - 1.0 - i  # in reverse order, so that the linked lists are sorted
            cell = self._cell_of(level, position)
            tracer.write("cells", cell, 0, 3.0 * position)
            index = _cell_index(level, cell)
            tracer.write("nexts", [tracer.read("heads", 0, index)], 0, position)
            tracer.write("heads", [position + 1.0], 0, index)

        tracer.counted_loop("geoms of the level", end - first, insert)
        tracer.counted_loop("geoms up to the level", end, lambda position: self._look_up(level, position))

    def _cell_of(self, level: IterationContext, position: Value) -> list[Value]:
        """Coordinates of the cell of a geom in the grid of a level; of a position that is not finite, of some cell."""
        scale, coordinates = level.constant("inverse width"), []
        for i in range(3):
            x = level.tracer.read("aabbs", i, float(AABB_SIZE) * position) * scale
            x = ir.maximum(-MAX_CELL_COORDINATE, ir.minimum(MAX_CELL_COORDINATE, x))
            coordinates.append(_wrap(level, ir.floor(x)))
        return coordinates

    def _look_up(self, level: IterationContext, position: Value) -> None:
        """Find the geoms of a level that overlap a geom, and come after it in the order of the broad phase."""
        tracer, state = level.tracer, level.tracer.allocate_local(9 + AABB_SIZE + 3)
        aabb = [tracer.read("aabbs", i, float(AABB_SIZE) * position) for i in range(AABB_SIZE)]
        terms: list[Value] = []
        factor: Value = 1.0
        for coordinate in self._cell_of(level, position):
            terms += [_wrap(level, coordinate + delta) * factor for delta in (-1.0, 0.0, 1.0)]
            factor = factor * level.constant("size")
        tracer.write(state, [*terms, *aabb, position + 1.0])
        tracer.write("found", [0.0])

        def visit_row(row: Value) -> None:
            z = ir.floor((row + 0.5) * (1.0 / 3.0))
            start = tracer.read(state, 3, row - 3.0 * z) + tracer.read(state, 6, z)
            tracer.write(state, [start], 9 + AABB_SIZE + 1)
            tracer.counted_loop("cells of a row", 3.0, visit_cell)

        def visit_cell(x: Value) -> None:
            head = tracer.read("heads", 0, tracer.read(state, 9 + AABB_SIZE + 1) + tracer.read(state, 0, x))
            if_less(tracer, "cell with geoms", 0.5, head, lambda: visit_list(head))

        def visit_list(head: Value) -> None:
            tracer.while_loop("geoms of a cell", visit_geom, [head], self.n_geoms)

        def visit_geom(step: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
            other = step[0]
            offset = float(AABB_SIZE) * (other - 1.0)
            own = [tracer.read(state, 9 + i) for i in range(AABB_SIZE)]
            separation = aabb_separation(own, [tracer.read("aabbs", i, offset) for i in range(AABB_SIZE)])
            separation = ir.select(tracer.read(state, 9 + AABB_SIZE), other, separation, 1.0)
            if_less(tracer, "overlap", separation, 0.0, lambda: _insert_sorted(level, other - 1.0, self.n_geoms))
            following = tracer.read("nexts", 0, other - 1.0)
            return [following], 0.5, following

        tracer.counted_loop("rows of cells", 9.0, visit_row)
        tracer.write(state, [position], 9 + AABB_SIZE + 2)
        tracer.new_basic_block()

        def emit(i: Value) -> None:
            self._emit(level, tracer.read(state, 9 + AABB_SIZE + 2), tracer.read("found", 1, i))

        tracer.counted_loop("overlapping geoms", tracer.read("found"), emit)

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


def _cell_index(level: IterationContext, cell: Sequence[Value]) -> Value:
    """Index of a cell in the array of the heads of the linked lists."""
    size = level.constant("size")
    return cell[0] + size * (cell[1] + size * cell[2])


def _insert_sorted(iteration: IterationContext, value: Value, max_length: int) -> None:
    """Insert a value into the ascending list `found` (its length, then its elements)."""
    tracer = iteration.tracer
    count = tracer.read("found")

    def shift(state: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
        previous = tracer.read("found", 0, state[0])
        is_greater = ir.select(state[0], 0.5, 0.0, ir.select(value, previous, 1.0, 0.0))
        tracer.write("found", [ir.select(0.5, is_greater, previous, value)], 0, state[0] + 1.0)
        return [state[0] - is_greater], 0.5, is_greater

    tracer.while_loop("sorted insertion", shift, [count], max_length)
    tracer.write("found", [count + 1.0])
