"""Fields of contacts: each has a place of its own, whether it is taken or not."""

from __future__ import annotations

from kinema import trace
from kinema.model import Model
from kinema.trace import SCRATCH, RowCode, Value

from ..arrays import Owner
from ..collide.touches import Contact, Layout, SetKind, each_contact, planned_sets
from ..constrain.laws import Law
from ..constrain.levers import levers_of
from ..rigid.kinematics import origin_of
from ..step import Step
from ..sweeps.maths import Vector, add, dot, scale
from ..sweeps.quantities import PartRow

WIDTHS = {"active": 1, "position": 3, "normal": 3, "penetration": 1, "force": 3, "pair": 1}
"""Numbers of each field."""


def n_places(model: Model) -> int:
    """For how many contacts there is room."""
    return sum(plan.capacity for plan in planned_sets(model))


def contacts(now: Step) -> None:
    """Where things touch, and how hard."""
    s, touches, _ = now.s, now.touches, now.constraint_force
    if touches is None:
        return
    law = Law() if now.contacts is None else now.contacts.law
    origin = s.take_fixed(3)
    s.recorder.write(SCRATCH, origin_of(s), origin.row)
    rows, first = [], 0
    for touch in touches.sets:
        row = touches.row(touch, {**s.arrays_of(Owner.CONTACT, first), "origin": origin})
        rows.append(PartRow(touch.kind, row.places, {"room": [float(touch.plan.capacity)]}, targets=row.targets))
        first += touch.plan.capacity

    def write(code: RowCode, name: str, values: Vector, turn: Value) -> None:
        code.recorder.write(s.prefix + name, values, 0, turn * float(WIDTHS[name]))

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, SetKind)

        def nothing(turn: Value) -> None:
            for name, width in WIDTHS.items():
                write(code, name, [-1.0 if name == "pair" else 0.0] * width, turn)

        def one(contact: Contact) -> None:
            pair = contact.read(Layout.PAIR)[0]
            sign = trace.select(pair, 0.0, -1.0, 1.0)
            slope = law.push(contact, kind, contact.residual).slope
            force = [-dot(slope, own) for own in list(zip(*levers_of(contact), strict=True))[3:]]
            for name, values in (
                ("active", [1.0]),
                ("position", add(contact.read(Layout.POINT, 3), code.array("origin", 3))),
                ("normal", scale(sign, contact.read(Layout.FRAME, 3))),
                ("penetration", [-contact.read(Layout.DISTANCE)[0]]),
                ("force", scale(sign, force)),
                ("pair", [trace.absolute(pair) - 1.0]),
            ):
                write(code, name, values, contact.turn)

        code.recorder.count("room", code.number("room"), nothing, uniform=True)
        each_contact(code, kind.dimension, one)

    with s.staying():
        s.loop("contacts, stored", rows, body)
