"""Symmetric matrices over degrees of freedom, in loops: of each a row of entries, from the world's end of its path.

A matrix with the sparsity of the tree has an entry for each degree of freedom and one that moves it, as far along the
row as that one is along the path. So a row of a mover is the beginning of the rows of all that it moves, and
elimination runs along rows. Where something couples branches, rows have entries of these as well, and of what
elimination fills in; all that is known when the program is made.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from copy import copy as copy_of
from typing import Any, Protocol

from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from .cords import Cords, lever_product
from .loops import Loops
from .quantities import Quantity
from .rows import FrameKind
from .tree import WORLD, Node, frame_ref


class Entries(Protocol):
    """A symmetric matrix over degrees of freedom that can be added to."""

    def between(self, a: int, b: int) -> Place:
        """Where the entry of two is, whichever comes first."""
        ...


class TreeMatrix:
    """A symmetric matrix over degrees of freedom, as sparse as the tree or nearly so, in the scratch memory."""

    def __init__(self, loops: Loops, name: str, paths: Mapping[int, list[int]], *, may_go: bool = False) -> None:
        self.may_go = may_go
        """Whether its factors may take its place."""
        self.loops = loops
        self.name = name
        self.paths = paths
        """Of each degree of freedom those that have entries with it, from the world on, and itself."""
        self.order = {dof: i for i, dof in enumerate(paths)}
        self.columns = {dof: {mover: i for i, mover in enumerate(path)} for dof, path in paths.items()}
        self.starts = {dof: loops.take(len(path)).row for dof, path in paths.items()}

    def entry(self, dof: int, mover: int) -> Place:
        """Where an entry is."""
        return Place(SCRATCH, self.starts[dof] + self.columns[dof][mover])

    def between(self, a: int, b: int) -> Place:
        """Where the entry of two is, whichever comes first."""
        return self.entry(a, b) if self.order[a] >= self.order[b] else self.entry(b, a)

    def starts_like(self, mover: int, dof: int) -> bool:
        """Whether the row of one begins as all of the other's."""
        path = self.paths[mover]
        places = ([self.columns[x][y] for y in path] for x in (dof, mover))
        return self.paths[dof][: len(path)] == path and all(p == list(range(len(path))) for p in places)

    def fill(
        self,
        own: Callable[[Node], tuple[Any, list[list[Value]]]],
        up: Callable[[Node, Node, Any], tuple[Any, list[list[Value]]]],
        *,
        adding: bool = False,
    ) -> None:
        """Compute all entries, or add to them; see `Sweeps.matrix`."""
        loops = self.loops
        carried = loops.quantity(f"{self.name} on its way")

        def put(code: RowCode, rows: list[list[Value]]) -> None:
            for k, row in enumerate(rows):
                before = code.array(f"row {k}", len(row)) if adding else []
                code.write(f"row {k}", [a + b for a, b in zip(before, row, strict=True)] if adding else row)

        def begin(code: RowCode) -> None:
            node = loops.node(code)
            on, rows = own(node)
            carried.put(node.here, on)
            put(code, rows)

        loops.loop(f"{self.name}, by itself", [self._own_row(node) for node in loops.nodes], begin)

        def climb(code: RowCode) -> None:
            below, above = loops.node(code, "below "), loops.node(code, "to ")
            here = frame_ref("")
            before = carried[here]
            on, rows = up(below, above, before)
            if on is not before:
                carried.put(here, on)
            put(code, rows)

        loops.loop(f"{self.name}, on the way up", list(self._way_up()), climb)

    def _own_row(self, node: Node) -> Row:
        row = self.loops.frame_row(node)
        row.places.update({f"row {k}": self.entry(d, node.dofs[0]) for k, d in enumerate(node.dofs)})
        return row

    def _way_up(self) -> Sequence[Row]:
        loops, rows = self.loops, []
        for node in loops.nodes:
            below = node
            while below.parent != WORLD:
                above = loops.tree.nodes[below.parent]
                kind = (("dofs", len(node.dofs)), ("below ", _bare(below)), ("to ", _bare(above)))
                targets = {"": node.here, "below ": below.here, "to ": above.here}
                own = {f"row {k}": self.entry(d, above.dofs[0]) for k, d in enumerate(node.dofs)}
                own |= loops.mark_of(node.index)
                constants = loops.numbers_of(below, "below ") | loops.numbers_of(above, "to ")
                rows.append(loops.row(kind, targets, own, constants))
                below = above
        return rows

    def touches(self, node: Node) -> bool:
        """No frame is another kind for it."""
        return False

    def places_of(self, node: Node) -> Mapping[str, Place]:
        """Where a frame finds its diagonal entries."""
        return {f"diagonal {k} of {self.name}": self.entry(d, d) for k, d in enumerate(node.dofs)}

    def diagonal(self, node: Node) -> list[Value]:
        """The entries of a frame's degrees of freedom with themselves."""
        return [self.loops.code.read(f"diagonal {k} of {self.name}") for k in range(len(node.dofs))]

    def plus(
        self,
        name: str,
        more: Callable[[Node], list[Value]],
        cords: Sequence[Cords] = (),
        times: Callable[[], Value] = float,
    ) -> TreeMatrix:
        """With something added on the diagonal, and `times` the slopes of cords between those that share one.

        Two degrees of freedom that share a cord but do not move each other have no place in the tree: they are left
        out.
        """
        loops = self.loops
        copy = self.copied(name)

        def on_diagonal(node: Node) -> None:
            for k, (old, new) in enumerate(zip(copy.diagonal(node), more(node), strict=True)):
                loops.code.write(f"diagonal {k} of {copy.name}", [old + new])

        rows_of = [loops.frame_row(node) for node in loops.nodes]
        loops.loop(f"{name}, on the diagonal", rows_of, lambda code: on_diagonal(loops.node(code)))
        for made in cords:

            def couple(code: RowCode) -> None:
                slope = code.read("pair", 1)
                code.write("entry", [code.read("entry") + times() * lever_product(code) * slope])

            loops.loop(f"{name}, {made.name} between joints", made.couplings(copy.entry), couple)
        return copy

    def copied(self, name: str) -> TreeMatrix:
        """Another matrix with the same entries, which nobody else looks at."""
        return self.widened(name, self.paths)

    def widened(self, name: str, paths: Mapping[int, list[int]]) -> TreeMatrix:
        """Likewise, with more entries."""
        copy = TreeMatrix(self.loops, f"{name} {len(self.loops.found)}", paths, may_go=True)
        self.loops.found.append(copy)
        copy._take(self)
        return copy

    def seen(self, paths: Mapping[int, list[int]]) -> TreeMatrix:
        """The same matrix where all other entries are zero."""
        view = copy_of(self)
        view.paths = paths
        return view

    def _take(self, other: TreeMatrix) -> None:
        """All entries of another matrix."""
        rows: list[Row] = []
        marks = self.loops.marks_of_dofs()
        for dof, path in self.paths.items():
            if path == other.paths[dof] and not self.loops.recorder.in_team:
                places = {"from": other.entry(dof, path[0]), "to": self.entry(dof, path[0]), **marks[dof]}
                rows.append(Row("row", places, {"count": [float(len(path))]}))
                continue
            for mover in path:
                known = {"from": other.entry(dof, mover)} if mover in other.columns[dof] else {}
                places = {**known, "to": self.entry(dof, mover), **marks[dof]}
                rows.append(Row("entry" if known else "zero", places))

        def body(code: RowCode) -> None:
            recorder = code.recorder

            def along(turn: Value) -> None:
                recorder.write("to", [recorder.read("from", 0, turn)], index=turn)

            if code.kind == "row":
                recorder.count("along the row", code.number("count"), along, uniform=True)
            else:
                code.write("to", [code.read("from") if code.kind == "entry" else 0.0])

        self.loops.loop(f"{self.name}, copied", rows, body)

    def times(self, name: str, x: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """The product with a vector."""
        result: Quantity[list[Value]] = self.loops.quantity(name)
        self.loops.each_dofs(f"{name}, to begin with", lambda node: result.put(node.here, [0.0] * len(node.dofs)))
        to, of = (self.loops.places_of_dofs(q) for q in (result, x))
        rows, marks = [], self.loops.marks_of_dofs()
        for dof, path in self.paths.items():
            for mover in path:
                own = {"entry": self.entry(dof, mover), **marks[dof]}
                rows.append(Row("pair", {"to": to[dof], "of": of[mover], **own}))
                if mover != dof:
                    rows.append(Row("pair", {"to": to[mover], "of": of[dof], **own}))

        def body(code: RowCode) -> None:
            code.write("to", [code.read("to") + code.read("entry") * code.read("of")])

        self.loops.loop(name, rows, body)
        return result

    def store(self, array: str) -> None:
        """All of it into an array of degrees of freedom by degrees of freedom."""
        n, start = self.loops.model.n_dofs, self.loops.places[self.loops.prefix + array]
        rows = [
            Row(
                "entry",
                {
                    "entry": self.entry(i, j),
                    "out": Place(start.arena, start.row + i * n + j),
                    "mirrored": Place(start.arena, start.row + j * n + i),
                },
            )
            for i, path in self.paths.items()
            for j in path
        ]

        def body(code: RowCode) -> None:
            code.write("out", [code.read("entry")])
            code.write("mirrored", [code.read("entry")])

        self.loops.loop(f"{self.name}, stored", rows, body)


def _bare(node: Node) -> FrameKind:
    """The kind of a frame, but for what only forces ask for."""
    kind = FrameKind.of(node)
    return FrameKind(kind.motion, kind.axis, kind.inverted, kind.n_qs, kind.n_dofs, False, False, False, 0, False, ())
