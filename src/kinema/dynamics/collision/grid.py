"""Broad phase by a grid of cells of several sizes: all pairs of geoms with overlapping AABBs that may collide.

Geoms of similar size form a level, whose cells are as wide as two of its largest geoms: geoms that overlap a geom of
the level, and are not larger, are in its cell or in one of the 26 cells around. A geom is looked up at its own level
and at coarser ones. The index of a cell in a table is x + a y + b z modulo the size of the table, which is proportional
to the number of geoms: few cells share an index whatever the shape of the scene, and the test of the AABBs rejects
geoms that are far apart. The geoms of a level are sorted by cells. Levels with few geoms, and geoms without bounds, are
tested against all others.

Time grows with the number of geoms and of overlapping pairs, the code does not depend on either. Candidates are listed
by kind of pair, in an order that follows from the positions alone.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..tree.joined_columns import RecordList
from ..tree.loop_context import LoopContext
from ..vector_math import sum_values
from .aabbs import AABB_SIZE, aabb_separation
from .grid_plan import CLASS_ARRAY, EXCLUDED_ARRAY, GEOM_ARRAY, N_CELLS_OF_ROW, GridLevel
from .pair_kinds import FIRST_LOWER, FIRST_OTHER, FRAME_FIELD, N_CLASS_FIELDS, N_GEOM_FIELDS, find_pair_kinds
from .vector_math import if_less

MAX_CELL_COORDINATE = 3.0e4
"""Limit of cell coordinates; geoms farther from the origin share the last cell."""
CELL_WIDTH_FACTOR = 1.01
"""Safety factor of the cell width against rounding at cell borders."""
OWN_ROW = 4
"""Index of the row of cells along x of a geom among the nine rows around it."""
SPLIT = 128.0
"""Cell coordinates are multiplied in two parts, so that products are exact in single precision."""
AABB, OWN_POSITION, IS_OWN, COLUMN, IS_AWAKE, AFTER = 6, 12, 13, 14, 15, 16
"""Positions in the local memory of a look-up, after the index of the three rows of cells along y and the steps to the
three layers along z: AABB, position in the order, whether the geom is of the level, index of the first cell along x,
whether its body is awake, and the position after which geoms are tested, with the start of their range, and for SIMD
code their number."""
N_LOOK_UP_VALUES = 19
N_TESTED_TOGETHER = 4
"""Number of geoms that SIMD code tests at once."""
CANDIDATE_SIZE = 3
"""Values of a candidate: the two geoms, and the row of the contact parameters."""


class GridBroadPhase:
    """Traces the search of candidate pairs, from AABBs in the order of the broad phase to lists by kind of pair."""

    def __init__(
        self,
        ctx: LoopContext,
        aabbs: ArenaOffset,
        levels: Sequence[GridLevel],
        n_geoms: int,
        awake_frames: ArenaOffset | None = None,
    ) -> None:
        """Args beyond the AABBs: flags of frames at index 1 + frame, of which a pair needs one; None for all pairs."""
        self.awake_frames = awake_frames
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
        self._uses_lanes = ctx.settings.uses_superwords and awake_frames is None
        """Whether several geoms are tested at once."""
        self._awake_before = ctx.allocate(0 if awake_frames is None else n_geoms + 1)
        self.lost = ctx.allocate(1)
        """Number of candidates that did not fit."""

    def list_offsets(self) -> dict[str, ArenaOffset]:
        """Arrays that `append_candidate` writes."""
        return {"lists": self._lists, "lost": self.lost}

    def _offsets(self) -> dict[str, ArenaOffset]:
        names = [GEOM_ARRAY, CLASS_ARRAY, *([EXCLUDED_ARRAY] if self.has_excluded else [])]
        arrays = {name: self.ctx.array_offsets[name] for name in names}
        if self.awake_frames is not None:
            arrays["awake frames"] = self.awake_frames
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
        ends = self.ctx.allocate(max(level.n_cells for level in self.levels) + 2)
        cells, in_order = self.ctx.allocate(n), self.ctx.allocate(n)
        components = [self.ctx.allocate(n + N_TESTED_TOGETHER) for _ in range(AABB_SIZE if self._uses_lanes else 0)]
        rows = []
        for level in self.levels:
            offsets = {**self._offsets(), "starts": ends, "cells": cells, "in order": in_order}
            offsets |= {f"aabbs in order {k}": x for k, x in enumerate(components)}
            if self.awake_frames is not None:
                offsets["awake before"] = self._awake_before
            along_y, along_z = level.steps
            constants = {
                "first": [float(level.first)],
                "end": [float(level.end)],
                "n cells": [float(level.n_cells)],
                "inverse n cells": [1.0 / level.n_cells],
                "inverse width": [0.5 / (level.half_extent * CELL_WIDTH_FACTOR)],
                "step y": [float(along_y), float(along_y * int(SPLIT) % level.n_cells)],
                "step z": [float(along_z), float(along_z * int(SPLIT) % level.n_cells)],
            }
            rows.append(LoopIteration("level", offsets, constants))
        self.ctx.for_each("pairs of the levels of the grid", rows, self._search_level)

    def _search_level(self, level: IterationContext) -> None:
        """Code of a level: sort its geoms by cells, look up these and all smaller geoms."""
        tracer = level.tracer
        self._sort_by_cells(level)
        if self.awake_frames is not None:
            self._count_awake(level)

        def look_up_unless_asleep(position: Value) -> None:
            if self.awake_frames is None:
                self._look_up(level, position)
                return
            # a sleeping geom of the level is found by those that are awake
            is_of_level = ir.select(level.constant("first") - 0.5, position, 1.0, 0.0)
            looks_up = 1.0 - is_of_level * (1.0 - self._is_awake(tracer, position))
            if_less(tracer, "looks up", 0.5, looks_up, lambda: self._look_up(level, position))

        def look_up(position: Value) -> None:
            if not self.ctx.settings.presence:
                look_up_unless_asleep(position)
                return
            half_extent = tracer.read("aabbs", 3, float(AABB_SIZE) * position)  # negative if the body is absent
            if_less(tracer, "present", 0.0, half_extent, lambda: look_up_unless_asleep(position))

        tracer.counted_loop("geoms up to the level", level.constant("end"), look_up)

    def _sort_by_cells(self, level: IterationContext) -> None:
        """Counting sort of the geoms of a level by their cells.

        Afterwards, the geoms of cell c are those from `starts[c + 1]` to `starts[c + 2]` in the array `in order`. For
        SIMD code their AABBs are copied in this order, an array for each component.
        """
        tracer, first, end = level.tracer, level.constant("first"), level.constant("end")
        count = end - first
        tracer.counted_loop("cells", level.constant("n cells") + 2.0, lambda i: tracer.write("starts", [0.0], 0, i))

        def add(i: Value) -> None:
            position = first + i
            x, y, z = self._cell_of(level, position)
            index = _wrap(level, _wrap(level, x) + _row_index(level, y, z))
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
            for k in range(AABB_SIZE if self._uses_lanes else 0):
                component = tracer.read("aabbs", k, float(AABB_SIZE) * position)
                tracer.write(f"aabbs in order {k}", [component], 0, start)

        tracer.counted_loop("geoms by cells", count, add)
        tracer.counted_loop("ends of cells", level.constant("n cells"), accumulate)
        tracer.write("starts", [count], 1, level.constant("n cells"))
        tracer.counted_loop("geoms in order", count, place)

    def _count_awake(self, level: IterationContext) -> None:
        """Number of geoms of awake bodies before each in the order of the cells."""
        tracer = level.tracer
        tracer.write("awake before", [0.0])

        def add(i: Value) -> None:
            before = tracer.read("awake before", 0, i)
            position = tracer.read("in order", 0, i)
            tracer.write("awake before", [before + self._is_awake(tracer, position)], 1, i)

        tracer.counted_loop("awake geoms", level.constant("end") - level.constant("first"), add)

    def _is_awake(self, tracer: ir.Tracer, position: Value) -> Value:
        """Whether the body of the geom at a position of the order is awake."""
        frame = tracer.read(GEOM_ARRAY, FRAME_FIELD, float(N_GEOM_FIELDS) * position)
        return tracer.read("awake frames", 1, frame)

    def _cell_of(self, level: IterationContext, position: Value) -> list[Value]:
        """Coordinates of the cell of a geom of a level; of a position that is not finite, of some cell."""
        scale, coordinates = level.constant("inverse width"), []
        for i in range(3):
            x = level.tracer.read("aabbs", i, float(AABB_SIZE) * position) * scale
            coordinates.append(ir.floor(ir.maximum(-MAX_CELL_COORDINATE, ir.minimum(MAX_CELL_COORDINATE, x))))
        return coordinates

    def _look_up(self, level: IterationContext, position: Value) -> None:
        """Find the geoms of a level that overlap a geom.

        Cells along x are consecutive, so that three neighbours are one range, and a second one at the end of the table.
        Of two geoms of the level, one is found from the other: in the rows of cells that follow its own row in the
        order of y and z, and after it in its own row. With sleep, geoms of awake bodies also find those of sleeping
        bodies in the other rows. Of a sleeping body, which finds geoms of other levels only, rows without awake bodies
        are skipped.
        """
        tracer, state = level.tracer, level.tracer.allocate_local(N_LOOK_UP_VALUES)
        aabb = [tracer.read("aabbs", i, float(AABB_SIZE) * position) for i in range(AABB_SIZE)]
        x, y, z = self._cell_of(level, position)
        n_cells, step_y, step_z = (level.constant(name) for name in ("n cells", "step y", "step z"))
        is_own = ir.select(level.constant("first") - 0.5, position, 1.0, 0.0)
        row = _row_index(level, y, z)
        rows, layers = [row + n_cells - step_y, row, row + step_y], [n_cells - step_z, 0.0, step_z]
        is_awake = 1.0 if self.awake_frames is None else self._is_awake(tracer, position)
        tracer.write(state, [*rows, *layers, *aabb, position, is_own, _wrap(level, x - 1.0), is_awake])

        def visit_row(i: Value) -> None:
            row = i + float(OWN_ROW) * tracer.read(state, IS_OWN) if self.awake_frames is None else i
            layer = ir.floor((row + 0.5) * (1.0 / 3.0))
            start = tracer.read(state, 0, row - 3.0 * layer) + tracer.read(state, 3, layer)
            start = _wrap(level, start + tracer.read(state, COLUMN))
            n_cells, last = level.constant("n cells"), float(N_CELLS_OF_ROW - 1)
            first = tracer.read("starts", 1, start)
            end = tracer.read("starts", 2, ir.minimum(start + last, n_cells - 1.0))
            n_beyond = tracer.read("starts", 1, ir.maximum(start + (last + 1.0) - n_cells, 0.0))
            # in its own row, a geom of the level is tested with those that follow it
            after = ir.select(ir.absolute(row - float(OWN_ROW)), 0.5, tracer.read(state, IS_OWN), 0.0)
            after = ir.select(0.5, after, tracer.read(state, OWN_POSITION), -1.0)
            if self.awake_frames is not None:
                is_before = ir.select(row, OWN_ROW - 0.5, tracer.read(state, IS_OWN), 0.0)
                after = ir.select(0.5, is_before, float(self.n_geoms), after)
            ranges = {"geoms of neighbouring cells": (first, end), "geoms beyond the end": (0.0, n_beyond)}
            for name, (start, stop) in ranges.items():
                n_tested = self._n_tested(tracer, state, row, start, stop)
                if not self._uses_lanes:
                    tracer.write(state, [after, start], AFTER)
                    tracer.counted_loop(name, n_tested, visit)
                    continue
                tracer.write(state, [after, start, n_tested], AFTER)
                n = float(N_TESTED_TOGETHER)
                tracer.counted_loop(
                    name, ir.floor((n_tested + (n - 0.5)) * (1.0 / n)), partial(self._test_lanes, level, state)
                )

        def visit(i: Value) -> None:
            other = tracer.read("in order", 0, tracer.read(state, AFTER + 1) + i)
            own = [tracer.read(state, AABB + k) for k in range(AABB_SIZE)]
            separation = aabb_separation(
                own, [tracer.read("aabbs", k, float(AABB_SIZE) * other) for k in range(AABB_SIZE)]
            )
            is_tested = ir.select(tracer.read(state, AFTER), other, 1.0, 0.0)
            if self.awake_frames is not None:
                is_other = ir.select(0.5, ir.absolute(other - tracer.read(state, OWN_POSITION)), 1.0, 0.0)
                is_tested = ir.maximum(is_tested, is_other * (1.0 - self._is_awake(tracer, other)))
            separation = ir.select(0.5, is_tested, separation, 1.0)
            if_less(
                tracer, "overlap", separation, 0.0, lambda: self._emit(level, tracer.read(state, OWN_POSITION), other)
            )

        n_rows = 9.0 - float(OWN_ROW) * is_own if self.awake_frames is None else 9.0
        tracer.counted_loop("rows of cells", n_rows, visit_row)

    def _test_lanes(self, level: IterationContext, state: str, group: Value) -> None:
        """Test the AABBs of a group of geoms of the current range against that of the geom that is looked up.

        Lanes after the end of the range are other geoms, or padding, and are not listed.
        """
        tracer = level.tracer
        n, flags = N_TESTED_TOGETHER, tracer.allocate_local(N_TESTED_TOGETHER)
        place = tracer.read(state, AFTER + 1) + float(n) * group
        own = [tracer.read(state, AABB + k) for k in range(AABB_SIZE)]
        for lane in range(n):
            other = [tracer.read(f"aabbs in order {k}", lane, place) for k in range(AABB_SIZE)]
            is_after = ir.select(
                tracer.read(state, AFTER), tracer.read("in order", lane, place), aabb_separation(own, other), 1.0
            )
            is_listed = ir.select(float(n) * group + float(lane), tracer.read(state, AFTER + 2), is_after, 1.0)
            tracer.write(flags, [ir.select(is_listed, 0.0, 1.0, 0.0)], lane)
        tracer.new_basic_block()

        def emit(lane: Value) -> None:
            other = tracer.read("in order", 0, tracer.read(state, AFTER + 1) + float(n) * group + lane)
            own_position = tracer.read(state, OWN_POSITION)
            overlaps = tracer.read(flags, 0, lane)
            if_less(tracer, "overlap", 0.5, overlaps, lambda: self._emit(level, own_position, other))

        n_overlapping = sum_values([tracer.read(flags, lane) for lane in range(n)])
        any_overlaps: Callable[[], None] = lambda: tracer.counted_loop("lanes", float(n), emit)  # noqa: E731
        if_less(tracer, "any overlaps", 0.5, n_overlapping, any_overlaps)

    def _n_tested(self, tracer: ir.Tracer, state: str, row: Value, first: Value, end: Value) -> Value:
        """Number of geoms of a range in a row of cells that are tested: 0 if sleep leaves no candidates."""
        if self.awake_frames is None:
            return end - first
        n_awake = tracer.read("awake before", 0, end) - tracer.read("awake before", 0, first)
        # in the rows before its own one, a geom of the level finds those of sleeping bodies only
        is_before = ir.select(row, OWN_ROW - 0.5, tracer.read(state, IS_OWN), 0.0)
        n_wanted = ir.select(0.5, is_before, end - first - n_awake, tracer.read(state, IS_AWAKE) + n_awake)
        return ir.select(0.5, n_wanted, end - first, 0.0)

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
        if self.awake_frames is not None:
            n_awake = [tracer.read("awake frames", 1, frame) for frame in (frame_a, frame_b)]
            moves = ir.select(0.5, n_awake[0] + n_awake[1], moves, -1.0)
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


def _wrap(level: IterationContext, index: Value) -> Value:
    """Index modulo the number of cells."""
    return index - level.constant("n cells") * ir.floor(index * level.constant("inverse n cells"))


def _row_index(level: IterationContext, y: Value, z: Value) -> Value:
    """Index of the cell (0, y, z)."""
    total: Value = 0.0
    for coordinate, name in ((y, "step y"), (z, "step z")):
        step, step_of_split = level.constants(name)
        high = ir.floor(coordinate * (1.0 / SPLIT))
        total = total + _wrap(level, (coordinate - SPLIT * high) * step) + _wrap(level, high * step_of_split)
    return _wrap(level, total)
