"""Rows of one degree of freedom each, by a team: limits and dry friction of joints, with the thread that has the joint.

What a row may do lies between two bounds: a limit pushes, friction pushes and pulls up to a bound, an equality as much
as it takes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..sweeps.maths import sum_of
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from .rows import Law, Rows

UNBOUNDED = 1e30
FIELDS = ("residual", "stiffness", "low", "high", "entry")
"""What each row has: what is missing, how hard it is, between which bounds its force is, and its Jacobian."""


def bounds_of(law: Law, bound: Value) -> tuple[Value, Value]:
    """Between which its force is, by the law that a row obeys and the bound of friction."""
    bounds: dict[Law, tuple[Value, Value]] = {
        Law.LIMIT: (0.0, UNBOUNDED),
        Law.EQUALITY: (-UNBOUNDED, UNBOUNDED),
        Law.FRICTION: (-bound, bound),
    }
    return bounds[law]


@dataclass(frozen=True, slots=True)
class OwnRow:
    """One row, in code for all: of one degree of freedom, or with what it sees of a direction for its entry."""

    residual: Value
    stiffness: Value
    low: Value
    high: Value
    entry: Value

    def push(self, residual: Value) -> tuple[Value, Value]:
        """Its force, and how much that falls as the residual grows."""
        whole = -(self.stiffness * residual)
        inside = trace.select(self.low, whole, trace.select(whole, self.high, self.stiffness, 0.0), 0.0)
        return trace.clamp(whole, self.low, self.high), inside

    def cost(self, residual: Value) -> Value:
        """What it costs: beyond its bounds that grows no faster than they are."""
        force, _ = self.push(residual)
        within = force / trace.maximum(self.stiffness, 1.0 / UNBOUNDED)
        return -(force * (residual + 0.5 * within))

    def moved(self, along: Value, length: Value) -> Value:
        """What is missing so far along a direction."""
        return self.residual + length * self.entry * along

    def slopes(self, along: Value, length: Value) -> tuple[Value, Value]:
        """The slope of its cost along a direction, and how that changes."""
        change = self.entry * along
        force, stiff = self.push(self.residual + length * change)
        return -(force * change), stiff * (change * change)

    def changed(self, along: Value, length: Value) -> Value:
        """Whether it starts or stops to push, or slides."""
        (force, a), (other, b) = (self.push(self.moved(along, x)) for x in (0.0, length))
        held = trace.select(0.0, a + b, 0.0, trace.absolute(force - other))  # friction at its other bound
        return trace.select(0.0, trace.absolute(a - b) + held, 1.0, 0.0)


class OwnRows:
    """All rows that act on one degree of freedom only, and are not to hold at the end of a step: `rest` are others."""

    def __init__(self, s: Sweeps, rows: Rows, position: Mapping[int, int], n: int) -> None:
        self.s = s
        self.position = position
        """Of each degree of freedom where it is in vectors, which have so many numbers."""
        self.n = n
        chosen = [b.n_rows == 1 and len(b.dofs) == 1 and not b.hard and b.holder < 0 for b in rows.blocks]
        kept = [(b, p) for b, p, own in zip(rows.blocks, rows.places, chosen, strict=True) if not own]
        self.rest = Rows(s, [b for b, _ in kept], [p for _, p in kept])
        self.rows = [(b, p) for b, p, own in zip(rows.blocks, rows.places, chosen, strict=True) if own]
        slots: dict[int, int] = {}
        self.slot_of: list[int] = []
        for block, _ in self.rows:
            self.slot_of.append(slots.get(block.dofs[0], 0))
            slots[block.dofs[0]] = self.slot_of[-1] + 1
        self.starts = [{name: s.take(n).row for name in FIELDS} for _ in range(max(slots.values(), default=0))]
        """Of each row that degrees of freedom may have, where its numbers are."""

    def fill(self, rows: Rows, free: Quantity[list[Value]]) -> None:
        """What is missing while nothing pushes, and the rest."""
        s, recorder, first = self.s, self.s.recorder, self.s.start_of(free)

        def none(dof: Value) -> list[Value]:
            for starts in self.starts:
                for row in starts.values():
                    recorder.write(SCRATCH, [0.0], row, dof)
            return []

        recorder.share("no rows yet", float(self.n), none)
        table = []
        for (block, places), slot in zip(self.rows, self.slot_of, strict=True):
            at = self.position[block.dofs[0]]
            own = {name: Place(SCRATCH, row + at) for name, row in self.starts[slot].items()}
            known = {f"its {name}": places[name] for name in ("wanted", "stiffness", "jacobian 0")}
            bound = rows.own_places(block).get("bound")
            known |= {} if bound is None else {"own bound": bound}
            table.append(
                Row(
                    (block.law, bound is not None),
                    {**own, **known, "free": Place(SCRATCH, first + at)},
                    {"bound": [block.bound]},
                )
            )
        s.loop("rows of single joints", table, _fill)

    def of(self, dof: Value) -> list[OwnRow]:
        """Those of one degree of freedom."""
        read = self.s.recorder.read
        return [OwnRow(*(read(SCRATCH, starts[name], dof) for name in FIELDS)) for starts in self.starts]

    def slopes(self, dof: Value, along: Value, length: Value) -> tuple[Value, Value]:
        """The slope of their cost along a direction, and how that changes."""
        found = [row.slopes(along, length) for row in self.of(dof)]
        return sum_of([slope for slope, _ in found]), sum_of([curve for _, curve in found])

    def changed(self, dof: Value, along: Value, length: Value) -> Value:
        """How many start or stop to push, or slide."""
        return sum_of([row.changed(along, length) for row in self.of(dof)])

    def costs(self, dof: Value, along: Value, length: Value) -> Value:
        """What they cost somewhere along a direction."""
        return sum_of([row.cost(row.moved(along, length)) for row in self.of(dof)])

    def advance(self, dof: Value, along: Value, length: Value) -> None:
        """Go along a direction."""
        for row, starts in zip(self.of(dof), self.starts, strict=True):
            self.s.recorder.write(SCRATCH, [row.moved(along, length)], starts["residual"], dof)

    def pushes(self, dof: Value) -> tuple[Value, Value]:
        """What they do to their degree of freedom, and how stiff they make it."""
        force: Value = 0.0
        stiff: Value = 0.0
        for row in self.of(dof):
            own, slope = row.push(row.residual)
            force, stiff = force + row.entry * own, stiff + row.entry * row.entry * slope
        return force, stiff


def _fill(code: RowCode) -> None:
    law, differs = code.kind  # type: ignore[misc]
    entry = code.read("its jacobian 0")
    bound = code.read("own bound") if differs else code.number("bound")
    found: Sequence[Value] = (entry * code.read("free") - code.read("its wanted"), code.read("its stiffness"))
    for name, value in zip(FIELDS, (*found, *bounds_of(law, bound), entry), strict=True):
        code.write(name, [value])
