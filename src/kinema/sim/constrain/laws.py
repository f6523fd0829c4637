"""What a contact does where it is: softly in all directions, or with friction that holds while the normal is given."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import Value

from ..collide.planned import SetKind
from ..collide.touches import Contact, n_held
from ..sweeps.maths import dot
from .cones import SMALLEST, Bend, Push, along, bend, differs, push

Numbers = Sequence[Value]
HARDER = 10.0
"""How much harder springs of friction are than soft friction: what slips becomes less by about as much each time."""


class Law:
    """Soft contacts, as `cones.py` has them."""

    def push(self, contact: Contact, kind: SetKind, residual: Numbers) -> Push:
        """The slope of the cost, and its curvature."""
        return push(residual, *contact.law, elliptic=kind.elliptic)

    def bend(self, contact: Contact, kind: SetKind) -> Bend | None:
        """The curvature in fewer numbers, where that is known."""
        cone = kind.elliptic and kind.dimension > 1
        return bend(contact.residual, *contact.law) if cone else None

    def along(self, contact: Contact, kind: SetKind, residual: Numbers, change: Numbers) -> tuple[Value, Value]:
        """Both along a direction."""
        return along(residual, change, *contact.law, elliptic=kind.elliptic)

    def differs(self, contact: Contact, kind: SetKind, before: Numbers, after: Numbers) -> Value:
        """Above zero unless the cost is the same square function at both."""
        return differs(before, after, *contact.law, elliptic=kind.elliptic)


class Holding(Law):
    """Normal forces as they were found, and friction within what they allow, that gives way to nothing but that.

    Along a cone the whole of friction is bounded by the normal force; of a pyramid each direction by what its two edges
    carry. Friction is a spring about the force that it had (the method of multipliers): once it has the force that it
    needs, nothing slips.
    """

    def __init__(self) -> None:
        self.hopes = False
        """Whether steps are taken as if all friction would hold, also where it cannot yet."""

    def keep_normals(self, contact: Contact, kind: SetKind) -> None:
        """Keep the normal force, what it allows, and the friction that there is."""
        residual, (stiffness, bound) = contact.residual, contact.law
        slope = push(residual, stiffness, bound, elliptic=kind.elliptic).slope
        bounds: list[Value] = []
        if kind.elliptic:
            bounds = [-(bound * slope[0])] * (kind.dimension - 1)
        else:
            for x in residual[1:]:
                edges = [trace.minimum(residual[0] + sign * x, 0.0) for sign in (1.0, -1.0)]
                bounds.append(-(stiffness * (edges[0] + edges[1])))
        self._write(contact, kind, [slope[0], *bounds, *slope[1:]], 0)

    def keep_friction(self, contact: Contact, kind: SetKind) -> None:
        """Let the friction that there is be what its springs are about."""
        self._write(contact, kind, self.push(contact, kind, contact.residual).slope[1:], kind.dimension)

    def push(self, contact: Contact, kind: SetKind, residual: Numbers) -> Push:
        """The slope of the cost, and its curvature."""
        normal, bounds, hard, sought = self._situation(contact, kind, residual)
        curve: list[list[Value]] = [[0.0] * (i + 1) for i in range(kind.dimension)]
        if kind.elliptic:
            length, sticks = _ball(sought, bounds[0])
            share = trace.select(0.5, sticks, 1.0, bounds[0] / length)
            turned = trace.select(0.5, sticks, 0.0, hard * share / (length * length))
            for i, x in enumerate(sought, 1):
                for j, y in enumerate(sought[:i], 1):
                    slides = (hard * share if i == j else 0.0) - turned * x * y
                    curve[i][j] = (hard if i == j else 0.0) if self.hopes else slides
            return Push([normal, *(share * x for x in sought)], curve)
        for k, (x, bound) in enumerate(zip(sought, bounds, strict=True), 1):
            curve[k][k] = hard if self.hopes else trace.select(trace.absolute(x), bound, hard, 0.0)
        return Push([normal, *(trace.clamp(x, -b, b) for x, b in zip(sought, bounds, strict=True))], curve)

    def bend(self, contact: Contact, kind: SetKind) -> Bend | None:
        """Not known."""
        return None

    def along(self, contact: Contact, kind: SetKind, residual: Numbers, change: Numbers) -> tuple[Value, Value]:
        """By how much the slope along a direction differs from where it starts, and the curvature.

        Only the difference is exact in single precision: what pushes as it did is large, and falls out of it.
        """
        before, found = (self.push(contact, kind, x) for x in (contact.residual, residual))
        square: Value = 0.0
        for i, row in enumerate(found.curve):
            for j, x in enumerate(row):
                square = square + (1.0 if i == j else 2.0) * (x * (change[i] * change[j]))
        pairs = zip(found.slope[1:], before.slope[1:], strict=True)
        return dot([a - b for a, b in pairs], change[1:]), square

    def differs(self, contact: Contact, kind: SetKind, before: Numbers, after: Numbers) -> Value:
        """Never the same: springs have not arrived before what they are about has."""
        return 1.0

    def _situation(
        self, contact: Contact, kind: SetKind, residual: Numbers
    ) -> tuple[Value, list[Value], Value, list[Value]]:
        """Normal force, bounds, how hard friction is, and the friction that would hold."""
        n, at = kind.dimension, contact.turn * float(n_held(kind))
        normal, *rest = [contact.recorder.read("held", i, at) for i in range(n_held(kind))]
        hard = (HARDER if kind.elliptic else 2.0 * HARDER) * contact.law[0]
        sought = [p + hard * x for p, x in zip(rest[n - 1 :], residual[1:], strict=True)]
        return normal, rest[: n - 1], hard, sought

    def _write(self, contact: Contact, kind: SetKind, values: Numbers, item: int) -> None:
        contact.recorder.write("held", values, item, contact.turn * float(n_held(kind)))


def _ball(sought: Numbers, bound: Value) -> tuple[Value, Value]:
    """How much friction would hold, and 1 where it can."""
    length = trace.sqrt(trace.maximum(dot(sought, sought), SMALLEST))
    return length, trace.select(length, bound, 1.0, 0.0)
