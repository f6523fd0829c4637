"""Symmetric matrices over degrees of freedom, factorised: what solves equations with them."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from .matrix import TreeMatrix
from .patterns import gimbals
from .quantities import Quantity

LEAST_SINGLE, LEAST_DOUBLE = 1e-7, 1e-14
"""The share of its inertia that is left of a degree of freedom at least when others move as well: in a gimbal's lock,
where two move the same, it would be nothing, and accelerations none. It is what the digits of a number are worth."""
LOCKED = 100.0
"""So many times that share is left of a hinge in a gimbal, against what there was before its other hinges moved: what
is left there is taken from all that move it, divided by itself, and has to have digits of its own."""


def factorised(matrix: TreeMatrix, least: Factors | None = None) -> Factors:
    """As L^T D L, with ones on L's diagonal and L as sparse as the matrix; no D below that of `least`.

    What is left of a matrix to which something positive was added is never less than what is left of the matrix
    itself: where rounding says otherwise, no factorisation can fail.
    """
    return Factors(matrix if matrix.may_go else matrix.copied(f"{matrix.name} in factors"), least)


class Factors:
    """L in the place of the matrix, and the inverses of D beside it."""

    def __init__(self, matrix: TreeMatrix, least: Factors | None) -> None:
        self.matrix = matrix
        self.loops = matrix.loops
        first = self.loops.take(len(matrix.paths)).row
        self.inverses = {dof: Place(SCRATCH, first + i) for i, dof in enumerate(matrix.paths)}
        self.least = least
        self.marks = self.loops.marks_of_dofs()
        self.divided = not self.loops.recorder.in_team
        """Whether rows are divided by their diagonal entries; teams divide whenever they need it, and wait less."""
        rows: list[Row] = []
        if self.divided and least is None:
            own = [self._inversion(dof, "least", share=self._least_share()) for dof in matrix.paths]
            self.loops.loop(f"{matrix.name}, least", own, _note_least)
        self._locked = gimbals(self.loops) if self.divided else {}
        for dof in reversed(list(matrix.paths)):
            rows += [self._lock(d) for d in self._locked.get(dof, ())]
            rows += [self._inversion(dof)] if self.divided else []
            for mover in reversed(matrix.paths[dof][:-1]):
                rows += self._elimination(dof, mover)
        rows += [] if self.divided else [self._inversion(dof, "plain") for dof in matrix.paths]
        self.loops.loop(f"{matrix.name}, factorised", rows, _eliminate)

    def _inversion(self, dof: int, kind: str = "invert", share: float = 0.0) -> Row:
        places, bound = self._own(dof), {} if self.least is None else {"most": self.least.inverses[dof]}
        if bound:
            kind = "invert a locked one and bound" if self._is_locked(dof) else "invert and bound"
        return Row(kind, places | bound, {"share": [share]} if share else {})

    def _lock(self, dof: int) -> Row:
        """Where the inverse of a hinge in a gimbal will be, what is to be left of it at least: of what there is now."""
        kind = "lock" if self.least is None else "lock and bound"
        return Row(kind, self._own(dof), {"share": [LOCKED * self._least_share()]})

    def _is_locked(self, dof: int) -> bool:
        return any(dof in before for before in self._locked.values())

    def _own(self, dof: int) -> dict[str, Place]:
        return {"diagonal": self.matrix.entry(dof, dof), "inverse": self.inverses[dof], **self.marks[dof]}

    def _least_share(self) -> float:
        return LEAST_SINGLE if self.loops.settings.is_coarse else LEAST_DOUBLE

    def _elimination(self, dof: int, mover: int) -> list[Row]:
        """Take a row from that of a mover: along it, or entry by entry where the mover's has others in between."""
        matrix = self.matrix
        places = {"inverse": self.inverses[dof], "entry": matrix.entry(dof, mover), **self.marks[dof]}
        others = [x for x in matrix.paths[dof] if matrix.order[x] <= matrix.order[mover]]
        if not self.divided:
            known = {k: p for k, p in self._inversion(dof).places.items() if k != "inverse"} | {
                "entry": places["entry"]
            }
            kind = "one entry, bound" if self.least else "one entry, divided"
            return [Row(kind, {**known, "its": matrix.entry(mover, x), "mine": matrix.entry(dof, x)}) for x in others]
        if matrix.starts_like(mover, dof):
            along = {"row": Place(SCRATCH, matrix.starts[dof]), "row of mover": Place(SCRATCH, matrix.starts[mover])}
            kind = "eliminate if coupled" if self.loops.stays else "eliminate"
            return [Row(kind, {**places, **along}, {"count": [float(len(matrix.paths[mover]))]})]
        rows = [
            Row("one entry", {**places, "its": matrix.entry(mover, x), "mine": matrix.entry(dof, x)}) for x in others
        ]
        return [*rows, Row("divide", places)]

    def _pairs(self) -> list[tuple[int, int]]:
        return [(dof, mover) for dof, path in self.matrix.paths.items() for mover in reversed(path[:-1])]

    def solve(self, name: str, right: Quantity[list[Value]]) -> Quantity[list[Value]]:
        """The x of (L^T D L) x = right."""
        loops, matrix = self.loops, self.matrix
        x = loops.vector(name)
        loops.each_dofs(f"{name}, the right-hand side", lambda node: x.put(node.here, right[node.here]))
        of_dof = loops.places_of_dofs(x)

        def subtract(code: RowCode) -> None:
            entry = code.read("entry") if self.divided else code.read("entry") * code.read("inverse")
            code.write("to", [code.read("to") - entry * code.read("from")])

        def rows(pairs: Sequence[tuple[int, int]]) -> list[Row]:
            result = []
            for t, f in pairs:
                places = {"to": of_dof[t], "from": of_dof[f], "entry": matrix.between(t, f), **self.marks[t]}
                moved = t if matrix.order[t] >= matrix.order[f] else f
                result.append(Row("pair", places if self.divided else {**places, "inverse": self.inverses[moved]}))
            return result

        inwards = [(mover, dof) for dof in reversed(list(matrix.paths)) for mover in reversed(matrix.paths[dof][:-1])]
        loops.loop(f"{name}, inwards", rows(inwards), subtract)
        scaled = [Row("dof", {"x": of_dof[d], "inverse": self.inverses[d], **self.marks[d]}) for d in matrix.paths]
        loops.loop(f"{name}, scaled", scaled, lambda code: code.write("x", [code.read("x") * code.read("inverse")]))
        outwards = sorted(self._pairs(), key=lambda pair: matrix.order[pair[1]])  # what is known goes to all at once
        loops.loop(f"{name}, outwards", rows(outwards), subtract)
        return x

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


def _note_least(code: RowCode) -> None:
    """Where the inverse will be, what is to be left at least."""
    code.write("inverse", [code.number("share") * code.read("diagonal")])


def _eliminate(code: RowCode) -> None:
    """Divide by a diagonal entry; take a row, times a factor, from the row of one that moves it."""
    if code.kind == "invert":
        code.write("inverse", [1.0 / trace.maximum(code.read("diagonal"), code.read("inverse"))])
        return
    if code.kind == "lock":
        code.write("inverse", [trace.maximum(code.read("inverse"), code.number("share") * code.read("diagonal"))])
        return
    if code.kind == "lock and bound":
        _note_least(code)
        return
    if code.kind in ("plain", "invert and bound"):
        code.write("inverse", [_inverse(code, bound=code.kind != "plain")])
        return
    if code.kind == "invert a locked one and bound":
        left = trace.maximum(code.read("diagonal"), code.read("inverse"))
        code.write("inverse", [trace.minimum(1.0 / left, code.read("most"))])
        return
    if code.kind in ("one entry, divided", "one entry, bound"):
        factor = code.read("entry") * _inverse(code, bound=code.kind != "one entry, divided")
        code.write("its", [code.read("its") - factor * code.read("mine")])
        return
    factor = code.read("entry") * code.read("inverse")
    if code.kind == "divide":
        code.write("entry", [factor])
        return
    if code.kind == "one entry":
        code.write("its", [code.read("its") - factor * code.read("mine")])
        return
    recorder = code.recorder

    def along(turn: Value) -> None:
        mine, its = recorder.read("row", 0, turn), recorder.read("row of mover", 0, turn)
        recorder.write("row of mover", [its - factor * mine], index=turn)

    def row() -> list[Value]:
        recorder.count("along the row", code.number("count"), along, uniform=True)
        return []

    if code.kind == "eliminate":
        row()
    else:  # there is room for whatever may touch, and little of it does
        recorder.where("coupled", 0.0, trace.absolute(factor), row, [])
    code.write("entry", [factor])


def _inverse(code: RowCode, *, bound: bool) -> Value:
    """Of a diagonal entry; no larger than it may be."""
    diagonal = code.read("diagonal")
    if not bound:
        return 1.0 / diagonal
    most = code.read("most")
    return trace.select(1.0, most * diagonal, 1.0 / diagonal, most)
