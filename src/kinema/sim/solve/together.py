"""Newton's method by a team of threads: each has a degree of freedom, a contact, or a row of the curvature.

The method is the same; what differs is who does what. The curvature is one full matrix, as contacts may couple any two
degrees of freedom, and each thread has a row of it in its registers.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import reduce

from kinema import trace
from kinema.trace import SCRATCH, Row, Slot, Solve, Value, whole

from ..collide.branches import where
from ..collide.listing import Lists
from ..constrain.contacts import Axes
from ..constrain.gathered import Gathered, Motion
from ..constrain.own_rows import OwnRows
from ..constrain.taking import Group, InRecord, InRow, Kept
from ..constrain.wide_rows import WideRows
from ..sweeps.maths import dot, sum_of
from ..sweeps.quantities import Quantity
from .full_matrix import FullMatrix
from .limbs import TEAM, find_split, with_contacts
from .newton import Newton
from .of_rows import advance_rows, along_direction, changed_rows, costs_of_rows, row_force
from .ready import OfDofs

OfOne = Callable[[Value], Sequence[Value]]
OfContact = Callable[[InRecord], Sequence[Value]]
Part = tuple[str, Value, OfOne]
"""What is done with each of so many things."""


class Together(Newton):
    """One solution by a team."""

    def take_contacts(self, lists: Lists | None, axes: Quantity[Axes] | None) -> None:
        """What touches, as threads have found and listed it."""
        s = self.s
        self.gathered = None if lists is None or axes is None else Gathered(s, lists, axes)
        self.contacts = self.gathered  # type: ignore[assignment]
        self.inertia = FullMatrix(s)
        self.most = self.factors.inverses[next(iter(self.mass.paths))].row
        """Inverses of pivots, one behind the other: those of all curvature are no larger."""
        self.own = OwnRows(s, self.rows, self.inertia.position, self.inertia.n)
        self.wide = WideRows(s, self.own.rest)
        self.all_rows, self.rows = self.rows, self.wide.rest
        self.diagonal = self._vector("stiffness of rows of single joints")
        self.pushed = False
        """Whether rows and contacts push as they do where they are."""
        self.left = s.take_fixed(3)
        """Squares of the slope and of the forces, and the work of what is moved."""
        self._fill_inertia()
        split = find_split(s, [block.dofs for block in self.all_rows.blocks])
        self.limbs = None if split is None else with_contacts(split, s, lists, self.gathered)

    def _look_at_rows(self) -> None:
        """What rows miss while nothing pushes."""
        super()._look_at_rows()
        self.own.fill(self.all_rows, self.free)
        self.wide.fill(self.free)

    def _look_at_contacts(self) -> None:
        """What contacts miss while nothing pushes, and how much moves then."""
        if self.gathered is None:
            return
        self.s.recorder.write(SCRATCH, self._each("work of free motion", self._work, 1), self.work.row)
        s, velocity = self.s, self._vector("velocities")
        s.each_frame("velocities", lambda node: velocity.put(node.here, s.of("vel", node)))
        self.gathered.set_targets(velocity, self.free)

    def _work(self, dof: Value) -> list[Value]:
        """Of what accelerates a joint, as if it moved by itself."""
        x = self._get(self.free, dof)
        return [x * x / self.s.recorder.read(SCRATCH, self.most, dof)]

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

    def _go_along(self, along: OfDofs) -> OfDofs:
        return self._look_along(along)[0]

    def _look_along(self, along: OfDofs) -> tuple[OfDofs, list[Value]]:
        """Each thread has a row of the inertia, a row of several joints, and a row of a contact."""
        self.rows.product(along, "change")
        heavy, motion = self._vector("inertia times the direction"), self._motion(along)

        def of_dof(dof: Value) -> list[Value]:
            own, weighed = self._get(along, dof), self._row_times(dof, motion)
            self._put(heavy, dof, weighed)
            return [own * x for x in (self._get(self.weight, dof), weighed, self._get(self.downhill, dof))]

        def of_row(row: Value) -> list[Value]:
            self.wide.see(row, motion.values)
            return []

        def of_contact(row: InRow) -> list[Value]:
            assert self.gathered is not None
            row.write(row.group.kept.change, self.gathered.seen(row, motion))
            return []

        parts = self._parts(of_dof, of_row) + self._of_contacts_rows(of_contact)
        return heavy, self._sums("what a direction changes", parts, 3)

    def _move(self, along: OfDofs, heavy: OfDofs, *, looks: bool) -> Value | None:
        length = self.s.recorder.read(SCRATCH, self.length.row)
        changed = self._of_rows("rows that start or stop to push", changed_rows)[0] if looks else 0.0
        self.rows.each("what is missing then", advance_rows, {"length": self.lengths})

        def of_dof(dof: Value) -> list[Value]:
            own = self._get(along, dof)
            changed = [self.own.changed(dof, own, length)] if looks else []
            self.own.advance(dof, own, length)
            for quantity, by in ((self.weight, self._get(heavy, dof)), (self.x, own)):
                self._put(quantity, dof, self._get(quantity, dof) + length * by)
            return changed

        def of_row(row: Value) -> list[Value]:
            changed = [self.wide.changed(row, length)] if looks else []
            self.wide.advance(row, length)
            return changed

        def of_contact(record: InRecord) -> list[Value]:
            after = record.moved(length)
            changed = [record.changed(after)] if looks else []
            record.write(Kept.RESIDUAL, after)
            Gathered.push(record, after)
            return changed

        parts = self._parts(of_dof, of_row, of_contact)
        found = self._sums("along the direction", parts, int(looks))
        self.pushed = True
        return changed + found[0] if looks else None

    def _direction(self) -> OfDofs:
        """From the slope and all of the curvature."""
        s, full = self.s, self.inertia
        if self.rows.blocks:
            full = self.inertia.copied()
            self.rows.add_stiffness(full)
        along, limbs = self._vector("direction"), self.limbs
        n_work = max(2 * whole(full.n), 0 if limbs is None else limbs.n_work(TEAM))
        s.recorder.add(
            Solve(
                "direction",
                full.n,
                Slot(SCRATCH, full.start),
                full.pitch,
                Slot(SCRATCH, s.start_of(self.diagonal)),
                Slot(SCRATCH, self.most),
                Slot(SCRATCH, s.start_of(self.downhill)),
                Slot(SCRATCH, s.start_of(along)),
                Slot(SCRATCH, s.take(n_work).row),
                (*self.wide.terms(), *(() if self.gathered is None else self.gathered.terms())),
                lower=full is not self.inertia,
                limbs=limbs,
                n_work=n_work,
            ),
            {},
        )
        return along

    def _forces(self) -> OfDofs:
        """What all that pushes does to joints: what is left downhill, and what it moves."""
        total = self._vector("what pushes")
        self._set_sum(total, self.downhill, self.weight, 1.0)
        return total

    def _look_downhill(self) -> None:
        force = self._pushing("what pushes")

        def one(dof: Value) -> list[Value]:
            weight = self._get(self.weight, dof)
            down = force(dof) - weight
            self._put(self.downhill, dof, down)
            return [down * down, weight * weight, self._get(self.x, dof) * weight]

        found = self._each("downhill", one, 3)
        self.s.recorder.write(SCRATCH, found, self.left.row)
        self.s.recorder.new_line()  # whoever reads it, reads it now

    def _squares(self, *, moved: bool) -> list[Value]:
        return [self.s.recorder.read(SCRATCH, self.left.row + i) for i in range(3 if moved else 2)]

    def _pushing(self, name: str) -> Callable[[Value], Value]:
        """What all that pushes does to a joint, and how stiff rows of its own make that."""
        gathered, parts = self.gathered, []
        if not self.pushed and (gathered is not None or self.wide.count):
            self._sums(f"{name}, each", self._parts(None, self._push_row, self._push_contact), 0)
        if self.rows.blocks:
            self.rows.each(f"{name} of rows", row_force)
            parts.append(self.rows.joint_forces(f"{name}, by rows"))

        def force(dof: Value) -> Value:
            own, stiff = self.own.pushes(dof)
            self._put(self.diagonal, dof, stiff)
            pulled = [] if gathered is None else [gathered.pulled(dof)]
            pulled += [self.wide.pulled(dof)] if self.wide.count else []
            return sum_of([own, *pulled, *(self._get(part, dof) for part in parts)])

        return force

    def _push_row(self, row: Value) -> list[Value]:
        self.wide.push(row)
        return []

    def _push_contact(self, record: InRecord) -> list[Value]:
        Gathered.push(record, record.residual)
        return []

    def _go(self, along: OfDofs, heavy: OfDofs) -> None:
        self._move(along, heavy, looks=False)

    # ------------------------------------------------------------------------------------------- along the direction

    def costs_at(self, length: float, along: OfDofs | None = None) -> Value:  # ty: ignore[lost-keyword-for-regular-parameter]
        """What all that pushes costs so far along the direction."""
        assert along is not None
        self._set_length(length)
        rows = self._of_rows(f"costs at {length:g}", costs_of_rows)[0]
        parts = self._parts(
            lambda dof: [self.own.costs(dof, self._get(along, dof), length)],
            lambda row: [self.wide.cost(row, length)],
            lambda record: [record.cost(length)],
        )
        (both,) = self._sums(f"all costs at {length:g}", parts, 1)
        return rows + both

    def _slopes(self, along: OfDofs) -> tuple[Value, Value]:  # ty: ignore[lost-keyword-for-regular-parameter]
        length = self.s.recorder.read(SCRATCH, self.length.row)
        rows = self._of_rows("slope along the direction", along_direction)
        parts = self._parts(
            lambda dof: self.own.slopes(dof, self._get(along, dof), length),
            lambda row: self.wide.slopes(row, length),
            lambda record: record.slopes(length),
        )
        both = self._sums("slopes", parts, 2)
        return rows[0] + both[0], rows[1] + both[1]

    def _parts(
        self,
        of_dof: OfOne | None,
        of_row: OfOne,
        of_contact: OfContact | None = None,
    ) -> list[Part]:
        """What there is to be done with all degrees of freedom, rows and contacts."""
        parts = list[Part]()
        if of_dof is not None:
            parts.append(("joints", float(self._n), of_dof))
        if self.wide.count:
            parts.append(("rows of several joints", float(self.wide.count), of_row))
        for group in self.gathered.groups if self.gathered is not None and of_contact is not None else ():
            assert self.gathered is not None
            assert of_contact is not None

            def of_turn(turn: Value, group: Group = group, of_contact: OfContact = of_contact) -> Sequence[Value]:
                return of_contact(InRecord(self.s, group, turn))

            parts.append(("contacts", self.gathered.count(group), of_turn))
        return parts

    def _of_contacts_rows(self, of_row: Callable[[InRow], Sequence[Value]]) -> list[Part]:
        """Likewise with the rows of contacts."""
        parts = list[Part]()
        for group in () if self.gathered is None else self.gathered.groups:
            assert self.gathered is not None

            def of_turn(turn: Value, group: Group = group) -> Sequence[Value]:
                return of_row(InRow(self.s, group, turn))

            parts.append(("rows of contacts", self.gathered.n_rows(group), of_turn))
        return parts

    def _sums(self, name: str, parts: Sequence[Part], count: int) -> list[Value]:
        """Of what all parts give: a thread has one of each, and all add up once."""
        recorder = self.s.recorder
        if len(parts) == 1:
            return recorder.share(name, parts[0][1], parts[0][2], count)
        sums = recorder.local(max(count, 1))

        def one(turn: Value) -> list[Value]:
            recorder.write(sums, [0.0] * count)

            def add(found: Sequence[Value]) -> None:
                if found:
                    recorder.write(sums, [recorder.read(sums, i) + x for i, x in enumerate(found)])

            for part, number, body in parts:
                where(recorder, part, turn, number, lambda body=body: add(body(turn)))
            return [recorder.read(sums, i) for i in range(count)]

        return recorder.share(name, reduce(trace.maximum, [number for _, number, _ in parts]), one, count)

    # ----------------------------------------------------------------------------------------------------- of vectors

    @property
    def _n(self) -> int:
        """Numbers of a vector."""
        return sum(len(node.dofs) for node in self.s.nodes)

    def _motion(self, x: OfDofs) -> Motion:
        """A vector, for rows that see it."""
        start = self.s.start_of(x)
        return Motion(start, [self.s.recorder.read(SCRATCH, start + i) for i in range(self._n)])

    def _vector(self, name: str) -> OfDofs:
        return self.s.vector(name)

    def _each(self, name: str, body: Callable[[Value], Sequence[Value]], n_sums: int = 0) -> list[Value]:
        return self.s.recorder.share(name, float(self._n), body, n_sums)

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

    def _row_times(self, dof: Value, x: Motion) -> Value:
        """A row of the inertia times a vector."""
        return dot(self.inertia.row(dof), x.values)
