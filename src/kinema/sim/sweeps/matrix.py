"""Matrices along the tree, in loops: a row of entries for each degree of freedom, from the world's end of its path.

The entry of a degree of freedom and one that moves it is as far along the row as that one is along the path. So a row
of a mover is the beginning of the rows of all that it moves, and elimination runs along rows.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from .cords import Cords
from .loops import Loops, Quantity
from .rows import FrameKind
from .tree import WORLD, Node, frame_ref


def paths_of(loops: Loops) -> dict[int, list[int]]:
    """Of each degree of freedom those that move it, from the world on, and itself."""
    paths: dict[int, list[int]] = {}
    for node in loops.nodes:
        above = [] if node.parent == WORLD else paths[loops.tree.nodes[node.parent].dofs[-1]]
        for k, dof in enumerate(node.dofs):
            paths[dof] = [*above, *node.dofs[: k + 1]]
    return paths


class TreeMatrix:
    """A symmetric matrix over degrees of freedom with the sparsity of the tree, in the scratch memory."""

    def __init__(self, loops: Loops, name: str, paths: Mapping[int, list[int]], *, may_go: bool = False) -> None:
        self.may_go = may_go
        """Whether its factors may take its place."""
        self.loops = loops
        self.name = name
        self.paths = paths
        """Of each degree of freedom those that move it, from the world on, and itself."""
        self.starts = {dof: loops.take(len(path)).row for dof, path in paths.items()}

    def entry(self, dof: int, mover: int) -> Place:
        """Where an entry is."""
        return Place(SCRATCH, self.starts[dof] + self.rank(mover))

    def rank(self, dof: int) -> int:
        """How far along its own path a degree of freedom is."""
        return len(self.paths[dof]) - 1

    def fill(
        self,
        own: Callable[[Node], tuple[Any, list[list[Value]]]],
        up: Callable[[Node, Node, Any], tuple[Any, list[list[Value]]]],
    ) -> None:
        """Compute all entries; see `Sweeps.matrix`."""
        loops = self.loops
        carried = loops.quantity(f"{self.name} on its way")

        def begin(code: RowCode) -> None:
            node = loops.node(code)
            on, rows = own(node)
            carried.put(node.here, on)
            for k, row in enumerate(rows):
                code.write(f"row {k}", row)

        loops.loop(f"{self.name}, by itself", [self._own_row(node) for node in loops.nodes], begin)

        def climb(code: RowCode) -> None:
            below, above = loops.node(code, "below "), loops.node(code, "to ")
            here = frame_ref("")
            on, rows = up(below, above, carried[here])
            carried.put(here, on)
            for k, row in enumerate(rows):
                code.write(f"row {k}", row)

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
        copy = self._copied(name)

        def on_diagonal(node: Node) -> None:
            for k, (old, new) in enumerate(zip(copy.diagonal(node), more(node), strict=True)):
                loops.code.write(f"diagonal {k} of {copy.name}", [old + new])

        rows_of = [loops.frame_row(node) for node in loops.nodes]
        loops.loop(f"{name}, on the diagonal", rows_of, lambda code: on_diagonal(loops.node(code)))
        for made in cords:
            rows = [
                loops.row("coupling", {}, {"entry": copy.entry(d, m), "pair": made.pairs[i]}, {"levers": [levers]})
                for i, d, m, levers in made.couplings()
            ]

            def couple(code: RowCode) -> None:
                slope = code.read("pair", 1)
                code.write("entry", [code.read("entry") + times() * code.number("levers") * slope])

            loops.loop(f"{name}, {made.name} between joints", rows, couple)
        return copy

    def _copied(self, name: str) -> TreeMatrix:
        """Another matrix with the same entries, which nobody else looks at."""
        copy = TreeMatrix(self.loops, f"{name} {len(self.loops.found)}", self.paths, may_go=True)
        self.loops.found.append(copy)
        copy._take(self)
        return copy

    def _take(self, other: TreeMatrix) -> None:
        """All entries of another matrix."""
        rows = [
            Row("row", {"from": other.entry(d, path[0]), "to": self.entry(d, path[0])}, {"count": [float(len(path))]})
            for d, path in self.paths.items()
        ]

        def body(code: RowCode) -> None:
            recorder = code.recorder

            def along(turn: Value) -> None:
                recorder.write("to", [recorder.read("from", 0, turn)], index=turn)

            recorder.count("along the row", code.number("count"), along, uniform=True)

        self.loops.loop(f"{self.name}, copied", rows, body)

    def factorised(self) -> Factors:
        """As L^T D L, with ones on L's diagonal and L as sparse as the matrix."""
        return Factors(self if self.may_go else self._copied(f"{self.name} in factors"))

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


class Factors:
    """L in the place of the matrix, and the inverses of D beside it."""

    def __init__(self, matrix: TreeMatrix) -> None:
        self.matrix = matrix
        self.loops = matrix.loops
        self.inverses = {dof: self.loops.take(1) for dof in matrix.paths}
        rows: list[Row] = []
        for dof in reversed(list(matrix.paths)):
            rows.append(Row("invert", {"diagonal": matrix.entry(dof, dof), "inverse": self.inverses[dof]}))
            for mover in reversed(matrix.paths[dof][:-1]):
                places = {
                    "inverse": self.inverses[dof],
                    "entry": matrix.entry(dof, mover),
                    "row": Place(SCRATCH, matrix.starts[dof]),
                    "row of mover": Place(SCRATCH, matrix.starts[mover]),
                }
                rows.append(Row("eliminate", places, {"count": [matrix.rank(mover) + 1.0]}))
        self.loops.loop(f"{matrix.name}, factorised", rows, _eliminate)

    def _pairs(self) -> list[tuple[int, int]]:
        return [(dof, mover) for dof, path in self.matrix.paths.items() for mover in reversed(path[:-1])]

    def _entry(self, a: int, b: int) -> Place:
        """Of two degrees of freedom, one of which moves the other."""
        moved, mover = (a, b) if self.matrix.rank(a) > self.matrix.rank(b) else (b, a)
        return self.matrix.entry(moved, mover)

    def solve(self, name: str, right: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """The x of (L^T D L) x = right."""
        loops, matrix = self.loops, self.matrix
        x: Quantity[list[Value]] = loops.quantity(name)
        rows_of = [loops.frame_row(node) for node in loops.nodes]
        loops.loop(f"{name}, the right-hand side", rows_of, lambda code: self._copy(loops.node(code), x, right))
        of_dof = {
            dof: Place(SCRATCH, x.places[node.here].row + k) for node in loops.nodes for k, dof in enumerate(node.dofs)
        }

        def subtract(code: RowCode) -> None:
            code.write("to", [code.read("to") - code.read("entry") * code.read("from")])

        def rows(pairs: Sequence[tuple[int, int]]) -> list[Row]:
            return [Row("pair", {"to": of_dof[t], "from": of_dof[f], "entry": self._entry(t, f)}) for t, f in pairs]

        inwards = [(mover, dof) for dof in reversed(list(matrix.paths)) for mover in reversed(matrix.paths[dof][:-1])]
        loops.loop(f"{name}, inwards", rows(inwards), subtract)
        scaled = [Row("dof", {"x": of_dof[d], "inverse": self.inverses[d]}) for d in matrix.paths]
        loops.loop(f"{name}, scaled", scaled, lambda code: code.write("x", [code.read("x") * code.read("inverse")]))
        loops.loop(f"{name}, outwards", rows(self._pairs()), subtract)
        return x

    @staticmethod
    def _copy(node: Node, to: Quantity[list[Value]], of: Quantity[list[Value]]) -> None:
        to.put(node.here, of[node.here])

    def store(self, lower: str, inverse: str) -> None:
        """L and 1 / D into arrays."""
        loops, matrix, n = self.loops, self.matrix, self.loops.model.n_dofs
        start, diagonal = (loops.places[loops.prefix + name] for name in (lower, inverse))

        def place(i: int, j: int) -> Place:
            return Place(start.arena, start.row + i * n + j)

        rows = [Row("lower", {"out": place(i, j), "entry": matrix.entry(i, j)}) for i, j in self._pairs()]
        for i, own in self.inverses.items():
            rows.append(Row("inverse", {"out": Place(diagonal.arena, diagonal.row + i), "entry": own}))
        loops.loop(f"{matrix.name}, factors stored", rows, lambda code: code.write("out", [code.read("entry")]))
        ones = [Row("one", {"out": place(i, i)}) for i in matrix.paths]
        loops.loop(f"{matrix.name}, ones stored", ones, lambda code: code.write("out", [1.0]))


def _eliminate(code: RowCode) -> None:
    """Divide by a diagonal entry; take a row, times a factor, from the row of one that moves it."""
    if code.kind == "invert":
        code.write("inverse", [1.0 / code.read("diagonal")])
        return
    factor = code.read("entry") * code.read("inverse")
    recorder = code.recorder

    def along(turn: Value) -> None:
        mine, its = recorder.read("row", 0, turn), recorder.read("row of mover", 0, turn)
        recorder.write("row of mover", [its - factor * mine], index=turn)

    recorder.count("along the row", code.number("count"), along, uniform=True)
    code.write("entry", [factor])
