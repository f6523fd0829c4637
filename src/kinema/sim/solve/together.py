"""Newton's method by a team of threads: each has a degree of freedom, a contact, or a row of the curvature.

The method is the same; what differs is who does what. The curvature is one full matrix, as contacts may couple any two
degrees of freedom, and each thread has a row of it in its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema.trace import SCRATCH, Place, Row, Slot, Solve, Value, whole

from ..collide.listing import Lists
from ..constrain.contacts import Axes
from ..constrain.gathered import Gathered
from ..constrain.own_rows import OwnRows
from ..settings import Solver
from ..sweeps.maths import dot, sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from .newton import Newton, OfDofs
from .of_rows import row_force

MOST_DOFS = 64
"""Degrees of freedom of which a team keeps a full matrix."""


def fits_team(s: Sweeps) -> bool:
    """Whether a team keeps all of the matrix in its registers."""
    pairs = s.model.pairs
    lively = bool(pairs.restitution.any() or (pairs.stick > 1.0).any())  # what touches changes by how it moves
    few = sum(len(node.dofs) for node in s.nodes) <= MOST_DOFS
    return s.settings.team and s.settings.solver is Solver.NEWTON and few and not lively


class FullMatrix:
    """A symmetric matrix over all degrees of freedom, by rows, in the scratch memory."""

    def __init__(self, s: Sweeps) -> None:
        dofs = [dof for node in s.nodes for dof in node.dofs]
        self.position = {dof: i for i, dof in enumerate(dofs)}
        self.n = len(dofs)
        self.pitch = self.n | 1
        """Odd, so that threads that look at a column find it in different banks of memory."""
        self.start = s.take(self.n * self.pitch).row

    def entry(self, i: int, j: int) -> Place:
        """Where an entry is."""
        return Place(SCRATCH, self.start + i * self.pitch + j)

    def between(self, a: int, b: int) -> Place:
        """Where the entry of two degrees of freedom is, in the lower half."""
        i, j = sorted((self.position[a], self.position[b]), reverse=True)
        return self.entry(i, j)


class Together(Newton):
    """One solution by a team."""

    def take_contacts(self, lists: Lists | None, axes: Quantity[Axes] | None) -> None:
        """What touches, as threads have found and listed it."""
        s = self.s
        self.gathered = None if lists is None or axes is None else Gathered(s, lists, axes)
        self.contacts = self.gathered  # type: ignore[assignment]
        self.own = OwnRows(s, self.rows)
        self.all_rows, self.rows = self.rows, self.own.rest
        self.diagonal = self._vector("stiffness of rows of single joints")
        self.inertia = FullMatrix(s)
        self._fill_inertia()

    def _look_at_rows(self) -> None:
        """What rows miss while nothing pushes."""
        super()._look_at_rows()
        self.own.fill(self.all_rows, self.free)

    def _look_at_contacts(self) -> None:
        """What contacts miss while nothing pushes."""
        if self.gathered is None:
            return
        s, velocity = self.s, self._vector("velocities")
        s.each_frame("velocities", lambda node: velocity.put(node.here, s.of("vel", node)))
        self.gathered.set_targets(velocity, self.free)

    def _fill_inertia(self) -> None:
        """All of the matrix, from its half that is as sparse as the tree."""
        full, rows, known = self.inertia, [], {}
        for dof, path in self.mass.paths.items():
            for mover in path:
                i, j = full.position[dof], full.position[mover]
                known[i, j] = known[j, i] = self.mass.entry(dof, mover)
        for i in range(full.n):
            for j in range(full.n):
                places = {"to": full.entry(i, j)}
                if (i, j) in known:
                    places["from"] = known[i, j]
                rows.append(Row("entry" if (i, j) in known else "zero", places))
        self.s.loop(
            "all of the inertia",
            rows,
            lambda code: code.write("to", [code.read("from") if code.kind == "entry" else 0.0]),
        )

    def _see_along(self, along: OfDofs) -> None:
        if self.gathered is not None:
            self.gathered.product(along)

    def _direction(self) -> OfDofs:
        """From the slope and all of the curvature."""
        s, full = self.s, self.inertia
        if self.rows.blocks:
            full = FullMatrix(s)
            self._copy(full)
            self.rows.add_stiffness(full)
        along = self._vector("direction")
        most = self.factors.inverses[next(iter(self.mass.paths))]
        s.recorder.add(
            Solve(
                "direction",
                full.n,
                Slot(SCRATCH, full.start),
                full.pitch,
                Slot(SCRATCH, s.start_of(self.diagonal)),
                Slot(SCRATCH, most.row),
                Slot(SCRATCH, s.start_of(self.downhill)),
                Slot(SCRATCH, s.start_of(along)),
                Slot(SCRATCH, s.take(2 * whole(full.n)).row),
                () if self.gathered is None else self.gathered.terms(),
                lower=full is not self.inertia,
            ),
            {},
        )
        return along

    def _forces(self, name: str) -> OfDofs:
        """What all that pushes does to joints; and how stiff rows of single joints make these."""
        parts = [] if self.gathered is None else [self.gathered.joint_forces(f"{name}, by contacts")]
        if self.rows.blocks:
            self.rows.each(f"{name} of rows", row_force)
            parts.append(self.rows.joint_forces(f"{name}, by rows"))
        total = self._vector(name)

        def one(dof: Value) -> list[Value]:
            force, stiff = self.own.pushes(dof)
            self._put(self.diagonal, dof, stiff)
            return self._put(total, dof, sum_of([force, *(self._get(part, dof) for part in parts)]))

        self._each(name, one)
        return total

    def _go(self, along: OfDofs, heavy: OfDofs) -> None:
        """Go as far as was found best."""
        super()._go(along, heavy)
        length = self.s.recorder.read(SCRATCH, self.length.row)

        def one(dof: Value) -> list[Value]:
            self.own.advance(dof, self._get(along, dof), length)
            return []

        self._each("what rows of single joints miss then", one)

    # ------------------------------------------------------------------------------------------- along the direction

    def costs_at(self, length: float, along: OfDofs | None = None) -> Value:
        """What all that pushes costs so far along the direction."""
        assert along is not None
        (own,) = self._each("costs of rows", lambda dof: [self.own.costs(dof, self._get(along, dof), length)], 1)
        return super().costs_at(length) + own

    def _slopes(self, along: OfDofs) -> tuple[Value, Value]:
        length = self.s.recorder.read(SCRATCH, self.length.row)
        own = self._each("slopes of rows", lambda dof: self.own.slopes(dof, self._get(along, dof), length), 2)
        slope, curve = super()._slopes(along)
        return slope + own[0], curve + own[1]

    def _changed(self, along: OfDofs) -> Value:
        length = self.s.recorder.read(SCRATCH, self.length.row)
        (own,) = self._each("changes of rows", lambda dof: [self.own.changed(dof, self._get(along, dof), length)], 1)
        return super()._changed(along) + own

    # ----------------------------------------------------------------------------------------------------- the matrix

    def _copy(self, to: FullMatrix) -> None:
        """The inertia, to be added to."""
        recorder, start = self.s.recorder, self.inertia.start

        def one(turn: Value) -> list[Value]:
            recorder.write(SCRATCH, [recorder.read(SCRATCH, start, turn)], to.start, turn)
            return []

        recorder.share("the inertia, to be added to", float(to.n * to.pitch), one)

    # ----------------------------------------------------------------------------------------------------- of vectors

    def _vector(self, name: str) -> OfDofs:
        return self.s.vector(name)

    def _each(self, name: str, body: Callable[[Value], Sequence[Value]], n_sums: int = 0) -> list[Value]:
        return self.s.recorder.share(name, float(sum(len(n.dofs) for n in self.s.nodes)), body, n_sums)

    def _get(self, vector: OfDofs, dof: Value) -> Value:
        return self.s.recorder.read(SCRATCH, self.s.start_of(vector), dof)

    def _put(self, vector: OfDofs, dof: Value, value: Value) -> list[Value]:
        self.s.recorder.write(SCRATCH, [value], self.s.start_of(vector), dof)
        return []

    def _clear(self, vector: OfDofs) -> None:
        self._each("nothing yet", lambda dof: self._put(vector, dof, 0.0))

    def _set_sum(self, to: OfDofs, a: OfDofs, b: OfDofs, sign: float) -> None:
        self._each(to.name, lambda dof: self._put(to, dof, self._get(a, dof) + sign * self._get(b, dof)))

    def _products(self, name: str, pairs: Sequence[tuple[OfDofs, OfDofs]]) -> list[Value]:
        return self._each(name, lambda dof: [self._get(a, dof) * self._get(b, dof) for a, b in pairs], len(pairs))

    def _heavy(self, name: str, x: OfDofs) -> OfDofs:
        result, recorder, full = self._vector(name), self.s.recorder, self.inertia
        first = self.s.start_of(x)

        def one(dof: Value) -> list[Value]:
            row = [recorder.read(SCRATCH, full.start + j, dof * float(full.pitch)) for j in range(full.n)]
            return self._put(result, dof, dot(row, [recorder.read(SCRATCH, first + j) for j in range(full.n)]))

        self._each(name, one)
        return result

    def _advance(self, quantity: OfDofs, direction: OfDofs) -> None:
        length = self.s.recorder.read(SCRATCH, self.length.row)

        def one(dof: Value) -> list[Value]:
            return self._put(quantity, dof, self._get(quantity, dof) + length * self._get(direction, dof))

        self._each("along the direction", one)
