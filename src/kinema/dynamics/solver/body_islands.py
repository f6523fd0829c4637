"""Islands of bodies in contact: connected components by union-find, and a loop that solves one after the other.

Solved by itself, an island takes its own step lengths and number of iterations: its result does not depend on other
islands, bit for bit, and a body that lies on the ground by itself takes a single iteration of conjugate gradients.
Bodies and pairs in contact are sorted by island (counting sort); loops of the solver visit those of one island.
All articulated trees count as one body, the last one, which is always solved, as limits and other constraint rows may
be active; loops over their frames are skipped for other islands.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, Tracer, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBufferFilter
from ..collision.contact_slots import ContactSlots, PairLoop
from ..tree.joined_columns import RecordRange
from ..tree.loop_context import tree_index_of_frames
from ..tree.per_tree import PerFrameArray, PerTreeArray
from ..tree.trace_context import TraceContext


class BodyIslands:
    """Islands of the bodies of a context whose nodes are free bodies, then frames of articulated trees."""

    def __init__(self, ctx: TraceContext, slots: ContactSlots) -> None:
        self.ctx, self.slots, self.articulated = ctx, slots, ctx.articulated
        frames = [node.index for node in ctx.body_nodes]
        self.n_free = len(frames)
        self.n_bodies = self.n_free + (self.articulated is not None)
        self._body_of_frame = np.full(ctx.model.n_frames, self.n_free)
        self._body_of_frame[frames] = np.arange(self.n_free)
        if self.articulated is None:
            trees = tree_index_of_frames(ctx.model)
            assert [trees[frame] for frame in frames] == list(range(self.n_free)), "a node is a tree"
        self.islands = self._array()
        """Island of each body: the smallest index of its bodies."""
        self._in_contact, self._numbers = self._array(), self._array()
        """Whether a body is in contact, and the number of the island among those in contact, at its first body."""
        self._n_islands = ctx.allocate(1)

    def _array(self) -> PerTreeArray | PerFrameArray:
        """A scalar per body."""
        if self.articulated is None:
            return PerTreeArray(self.ctx)
        return PerFrameArray(self.ctx, 1, self._body_of_frame, self.n_bodies)

    # ---------------------------------------------------------------------------------------------------------- finding

    def find(self) -> None:
        """Trace the search of the islands; bodies without contact are islands of their own.

        Union-find: the entry of a body is a body of the same island with a smaller index, or itself. Both roots of a
        pair in contact become the smaller one of them.
        """
        tracer, islands, n = self.ctx.tracer, self.islands.start.row, float(self.n_bodies)

        def clear(body: Value) -> None:
            tracer.write(SCRATCH, [body], islands, body)
            tracer.write(SCRATCH, [0.0], self._in_contact.start.row, body)

        tracer.counted_loop("bodies as islands", n, clear)

        def join(iteration: IterationContext, specialization: ContactSpecialization) -> None:
            iteration.write("in contact b", [1.0])
            if specialization.involves_world:
                return
            iteration.write("in contact a", [1.0])
            a, b = (_find_root(iteration.tracer, iteration.read(f"island {side}"), self.n_bodies) for side in "ab")
            root = ir.minimum(a, b)
            iteration.tracer.write("islands", [root], 0, ir.maximum(a, b))
            iteration.tracer.new_basic_block()
            for side in "ab":
                iteration.write(f"island {side}", [root])

        arrays = {f"{name} {side}": x for side in "ab" for name, x in self._arrays_of_bodies().items()}
        loops = self.slots.loops(extra={**arrays, "islands": self.islands.start})
        self.slots.for_each_active_buffer("join islands", join, loops)
        tracer.write(SCRATCH, [0.0], self._n_islands.row)
        if self.articulated is not None:
            tracer.write(SCRATCH, [1.0], self._in_contact.start.row + self.n_free)

        def number(body: Value) -> None:
            root = tracer.read(SCRATCH, islands, tracer.read(SCRATCH, islands, body))
            count = tracer.read(SCRATCH, self._n_islands.row)
            is_first = ir.select(root + 0.5, body, 0.0, tracer.read(SCRATCH, self._in_contact.start.row, body))
            tracer.write(SCRATCH, [root], islands, body)
            tracer.write(SCRATCH, [count], self._numbers.start.row, body)
            tracer.write(SCRATCH, [count + is_first], self._n_islands.row)

        tracer.counted_loop("numbers of islands", n, number)

    def _arrays_of_bodies(self) -> dict[str, PerTreeArray | PerFrameArray]:
        return {"island": self.islands, "in contact": self._in_contact}

    # ---------------------------------------------------------------------------------------------------------- solving

    def for_each(self, name: str, solve: Callable[[], None]) -> None:
        """Trace a loop over the islands in contact; loops in `solve` visit the nodes and pairs of one island.

        Afterwards loops visit the nodes and pairs that they did before.
        """
        ctx, tracer = self.ctx, self.ctx.tracer
        bodies, bounds = self._sort_bodies(), ctx.allocate(2)
        n_frames = len(ctx.nodes) - self.n_free
        active, nodes = (ctx.allocate(n + 1) for n in (self.n_free, len(ctx.nodes) if n_frames else 0))
        is_articulated = ctx.allocate(1)
        lists = [self._sort_pairs(loop) for loop in self.slots.loops()]

        def visit(island: Value) -> None:
            for sorting in (bodies, *lists):
                first, end = (tracer.read(SCRATCH, sorting.starts.row + i, island) for i in range(2))
                tracer.write(SCRATCH, [first, end - first], (bounds if sorting is bodies else sorting.bounds).row)
            first, end = (tracer.read(SCRATCH, bodies.starts.row + i, island) for i in range(2))
            count: Value = end - first
            has_trees: Value = 0.0
            if n_frames:
                last = tracer.read(SCRATCH, bodies.order.row, end - 1.0)
                has_trees = ir.select(self.n_free - 0.5, last, 1.0, 0.0)
                count = count - has_trees
                tracer.write(SCRATCH, [has_trees], is_articulated.row)
                tracer.write(SCRATCH, [count + has_trees * float(n_frames)], nodes.row)
            tracer.write(SCRATCH, [count], active.row)

            def list_body(i: Value) -> None:
                body = tracer.read(SCRATCH, bodies.order.row, tracer.read(SCRATCH, bounds.row) + i)
                for target in (active, nodes) if n_frames else (active,):
                    tracer.write(SCRATCH, [body], target.row + 1, i)

            def list_frame(i: Value) -> None:
                tracer.write(SCRATCH, [float(self.n_free) + i], nodes.row + 1, tracer.read(SCRATCH, active.row) + i)

            tracer.counted_loop("bodies of the island", count, list_body)
            if n_frames:
                tracer.counted_loop("frames of the island", float(n_frames) * has_trees, list_frame)
            solve()

        before = ctx.active_nodes, ctx.active_bodies
        ctx.active_nodes, ctx.active_bodies = nodes if n_frames else active, active
        if self.articulated is not None:
            self.articulated.run_condition = is_articulated
        self.slots.selected = {
            loop.pool.pairs[loop.involves_world].offset: RecordRange(sorting.order, sorting.bounds)
            for loop, sorting in zip(self.slots.loops(), lists, strict=True)
        }
        tracer.counted_loop(name, tracer.read(SCRATCH, self._n_islands.row), visit)
        ctx.active_nodes, ctx.active_bodies = before
        if self.articulated is not None:
            self.articulated.run_condition = None
        self.slots.selected = {}

    def _sort_bodies(self) -> _Sorting:
        """Trace the counting sort of the bodies in contact by the number of their island."""
        tracer, sorting = self.ctx.tracer, _Sorting(self.ctx, self.n_bodies, self.n_bodies)

        def island_of(body: Value) -> Value:
            root = tracer.read(SCRATCH, self.islands.start.row, body)
            return tracer.read(SCRATCH, self._numbers.start.row, root)

        def is_sorted(body: Value) -> Value:
            return tracer.read(SCRATCH, self._in_contact.start.row, body)

        n = float(self.n_bodies)
        n_islands = tracer.read(SCRATCH, self._n_islands.row)
        sorting.clear(n_islands)
        tracer.counted_loop("bodies by island", n, lambda i: sorting.count(island_of(i), is_sorted(i)))
        sorting.accumulate(n_islands)
        tracer.counted_loop("bodies in order of islands", n, lambda i: sorting.place(n - 1.0 - i, island_of, is_sorted))
        return sorting

    def _sort_pairs(self, loop: PairLoop) -> _Sorting:
        """Trace the counting sort of the pairs of a loop by the number of their island."""
        ctx, tracer, records = self.ctx, self.ctx.tracer, loop.pool.pairs[loop.involves_world]
        sorting, numbers = _Sorting(ctx, self.n_bodies, records.capacity), ctx.allocate(records.capacity)
        arrays = {"counts": sorting.starts, "pair islands": numbers, "numbers": self._numbers.start}
        n_islands = tracer.read(SCRATCH, self._n_islands.row)
        sorting.clear(n_islands)

        def count(iteration: IterationContext, _: ContactSpecialization) -> None:
            number = iteration.tracer.read("numbers", 0, iteration.read("island b"))
            iteration.tracer.write("pair islands", [number], 0, iteration.read("record index"))
            iteration.tracer.write("counts", [iteration.tracer.read("counts", 0, number) + 1.0], 0, number)

        with_world = ContactBufferFilter.WITH_WORLD if loop.involves_world else ContactBufferFilter.BETWEEN_FRAMES
        counting = PairLoop(loop.pool, loop.involves_world, {**arrays, "island b": self.islands})
        self.slots.for_each_active_buffer("pairs by island", count, [counting], with_world)
        sorting.accumulate(n_islands)
        n_pairs = records.length(ctx)
        last = ctx.allocate(1)
        tracer.write(SCRATCH, [n_pairs - 1.0], last.row)

        def place(i: Value) -> None:
            index = tracer.read(SCRATCH, last.row) - i
            sorting.place(index, lambda x: tracer.read(SCRATCH, numbers.row, x), lambda _: 1.0)

        tracer.counted_loop("pairs in order of islands", n_pairs, place)
        return sorting


def _find_root(tracer: Tracer, body: Value, n_bodies: int) -> Value:
    """Trace the search of the root that the entries of an array `islands` lead to from a body."""

    def step(state: list[Value]) -> tuple[list[Value], Value, Value]:
        following = tracer.read("islands", 0, state[0])
        return [following], 0.5, state[0] - following

    return tracer.while_loop("root", step, [body], n_bodies + 1)[0]  # type: ignore[arg-type]


class _Sorting:
    """Counting sort of elements by island: their order, and where each island starts."""

    def __init__(self, ctx: TraceContext, n_islands: int, n_elements: int) -> None:
        self.tracer = ctx.tracer
        self.order = ctx.allocate(n_elements)
        self.starts = ctx.allocate(n_islands + 1)
        """First entry of each island, and the number of entries; until the elements are placed, the end of each."""
        self.bounds: ArenaOffset = ctx.allocate(2)
        """First entry and number of entries of the island that is solved."""

    def clear(self, n_islands: Value) -> None:
        """Clear the number of elements of each island."""
        write = self.tracer.write
        self.tracer.counted_loop("clear counts", n_islands + 1.0, lambda i: write(SCRATCH, [0.0], self.starts.row, i))

    def count(self, island: Value, number: Value) -> None:
        """Add elements of an island."""
        before = self.tracer.read(SCRATCH, self.starts.row, island)
        self.tracer.write(SCRATCH, [before + number], self.starts.row, island)

    def accumulate(self, n_islands: Value) -> None:
        """Sum the numbers of elements over the islands before each."""
        tracer, starts = self.tracer, self.starts.row

        def add(i: Value) -> None:
            tracer.write(
                SCRATCH, [tracer.read(SCRATCH, starts, i) + tracer.read(SCRATCH, starts + 1, i)], starts + 1, i
            )

        tracer.counted_loop("ends of islands", n_islands, add)

    def place(self, element: Value, island_of: Callable[[Value], Value], is_sorted: Callable[[Value], Value]) -> None:
        """Enter an element in the order, from the last element to the first one, if it is to be sorted."""

        def enter() -> list[Value]:
            island = island_of(element)
            start = self.tracer.read(SCRATCH, self.starts.row, island) - 1.0
            self.tracer.write(SCRATCH, [start], self.starts.row, island)
            self.tracer.write(SCRATCH, [element], self.order.row, start)
            return []

        self.tracer.if_less("is sorted", 0.5, is_sorted(element), enter, [])
