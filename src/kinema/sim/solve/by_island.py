"""Newton's method for each island by itself: it goes as far as it likes, and is left alone once it has arrived.

So what an island does is the same, bit for bit, whatever others do, and what is solved costs nothing any more.
"""

from __future__ import annotations

from typing import Any

from kinema import trace
from kinema.trace import SCRATCH, RowCode, Value

from ..sweeps.maths import dot
from ..sweeps.trees import PerTree, each_busy_tree, each_tree, tree_totals
from .arriving import ROUGH
from .newton import Newton
from .of_rows import along_direction, changed_rows, costs_of_rows
from .ready import OfDofs
from .search import LONGEST, NEAR, closer


class ByIsland(Newton):
    """One solution; `islands` are the numbers of the islands that trees belong to."""

    def __init__(self, *what: Any, islands: PerTree) -> None:
        super().__init__(*what)
        s = self.s
        self.islands = islands
        self.lengths = self._length = PerTree(s)
        self._gathered = PerTree(s, 3)
        self._left = s.take_fixed(1)
        self._before = PerTree(s)
        assert s.idle is not None
        self._idle = s.idle
        each_tree(
            s,
            "who is idle to begin with",
            lambda t: {"from": self._idle.of(t), "to": self._before.of(t)},
            lambda code: code.write("to", [code.read("from")]),
        )

    def _gather(self, own: PerTree) -> None:
        """Let all trees of an island have the sum of what they have."""
        s, n, width = self.s, own.width, float(self._gathered.width)
        places = {"own": own, "island": self.islands}
        all_ = self._gathered.first

        def clear(code: RowCode) -> None:
            code.write("sum", [0.0] * n)

        def add(code: RowCode) -> None:
            at = code.read("island") * width
            before = [code.recorder.read("sums", i, at) for i in range(n)]
            code.recorder.write("sums", [a + b for a, b in zip(before, code.array("own", n), strict=True)], 0, at)

        def take(code: RowCode) -> None:
            at = code.read("island") * width
            code.write("own", [code.recorder.read("sums", i, at) for i in range(n)])

        each_busy_tree(s, "no sums of islands", {"sum": self._gathered}, clear)
        each_busy_tree(s, "sums of islands", {**places, "sums": all_}, add)
        each_busy_tree(s, "sums of islands, for all", {**places, "sums": all_}, take)

    def _arrived(self) -> None:
        each_tree(
            self.s,
            "who was idle before",
            lambda t: {"from": self._before.of(t), "to": self._idle.of(t)},
            lambda code: code.write("to", [code.read("from")]),
        )

    # ---------------------------------------------------------------------------------------------------- the start

    def _start_as_before(self) -> None:
        s = self.s
        before: OfDofs = s.quantity("what was added before")
        s.each_frame("what was added before", lambda node: before.put(node.here, s.of("push", node)))
        heavy = self._go_along(before)
        square, costs = PerTree(s), [PerTree(s, 2) for _ in range(2)]
        tree_totals(s, "cost of what was added", square, lambda node: [dot(before[node.here], heavy[node.here])])
        self._gather(square)
        for length, cost in enumerate(costs):
            each_busy_tree(
                s, "so far", {"length": self._length}, lambda code, x=float(length): code.write("length", [x])
            )
            self._sum_up(f"costs at {length}", costs_of_rows, "costs", cost)

        def choose(code: RowCode) -> None:
            there = code.read("there") + 0.5 * code.read("square")
            code.write("length", [trace.select(there, code.read("here"), 1.0, 0.0)])

        places = {"length": self._length, "square": square, "here": costs[0], "there": costs[1]}
        each_busy_tree(s, "where to begin", places, choose)
        self._go(before, heavy)

    def _sum_up(self, name: str, of_rows: Any, of_contacts: str, to: PerTree) -> None:
        """What rows and contacts add up to somewhere along the direction, by islands."""
        each_busy_tree(self.s, f"{name}, none yet", {"total": to}, lambda code: code.write("total", [0.0] * 2))

        def add(code: RowCode) -> None:
            found = of_rows(code)
            code.write("total", [a + b for a, b in zip(code.array("total", 2), found, strict=True)])

        self.rows.each(name, add, {"length": self._length, "total": to})
        if self.contacts is not None:
            getattr(self.contacts, of_contacts)(self._length, to)
        self._gather(to)

    # ------------------------------------------------------------------------------------------------------ one step

    def _step(self) -> tuple[Value, Value]:
        s, recorder = self.s, self.s.recorder
        along = self._direction()
        heavy = self._go_along(along)
        self._search_each(along, heavy)
        hard = any(block.hard for block in self.rows.blocks)
        changed = PerTree(s, 2)
        if not hard:
            self._sum_up("what changes", changed_rows, "changed", changed)
        self._go(along, heavy)
        self._look_downhill()
        recorder.write(SCRATCH, [recorder.read(SCRATCH, self.taken.row) + 1.0], self.taken.row)
        off = PerTree(s, 2)

        def squares(node: Any) -> list[Value]:
            return [dot(x[node.here], x[node.here]) for x in (self.downhill, self.weight)]

        tree_totals(s, "what is left", off, squares)
        self._gather(off)
        recorder.write(SCRATCH, [0.0], self._left.row)

        def look(code: RowCode) -> None:
            left, forces = code.array("off", 2)
            share = 0.0 if hard else trace.select(0.5, code.read("changed"), 0.0, ROUGH)
            share = trace.maximum(share, s.settings.tolerance)
            goes_on = trace.select(share * share * forces, left, 1.0, 0.0)
            code.write("mark", [1.0 - goes_on])
            code.write("left", [code.read("left") + goes_on])

        idle = self._idle
        places = {"off": off, "changed": changed, "left": self._left}
        each_tree(
            s,
            "who has arrived",
            lambda t: {
                **{name: x.of(t) if isinstance(x, PerTree) else x for name, x in places.items()},
                "mark": idle.of(t),
                "idle": idle.of(t),
            },
            look,
        )
        return 0.5, recorder.read(SCRATCH, self._left.row)

    def _search_each(self, along: OfDofs, heavy: OfDofs) -> None:
        s, recorder = self.s, self.s.recorder
        known, sums, low, high = PerTree(s, 3), PerTree(s, 2), PerTree(s), PerTree(s)

        def products(node: Any) -> list[Value]:
            return [dot(along[node.here], x[node.here]) for x in (self.weight, heavy, self.downhill)]

        tree_totals(s, "the search", known, products)
        self._gather(known)

        def begin(code: RowCode) -> None:
            for name, value in (("length", 1.0), ("low", 0.0), ("high", LONGEST)):
                code.write(name, [value])

        places = {"length": self._length, "low": low, "high": high}
        each_busy_tree(s, "the search begins", places, begin)

        def look(code: RowCode) -> None:
            linear, square, start = code.array("known", 3)
            length, before, after = (code.read(name) for name in ("length", "low", "high"))
            slope, curve = code.array("sums", 2)
            slope, curve = slope + linear + length * square, curve + square
            inside, lowest, highest = closer(length, before, after, slope, curve)
            missing, near = trace.absolute(slope), NEAR * trace.absolute(start)
            code.write("length", [trace.select(near, missing, inside, length)])
            code.write("low", [lowest])
            code.write("high", [highest])
            code.write("left", [code.read("left") + trace.select(near, missing, 1.0, 0.0)])

        def trial() -> tuple[Value, Value]:
            self._sum_up("slope along the direction", along_direction, "slopes", sums)
            recorder.write(SCRATCH, [0.0], self._left.row)
            each_busy_tree(s, "trial", {**places, "known": known, "sums": sums, "left": self._left}, look)
            return 0.5, recorder.read(SCRATCH, self._left.row)

        s.repeat("search", trial, s.settings.trials)
