"""Fields of contacts: each has a place of its own, whether it is taken or not."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from kinema import trace
from kinema.trace import SCRATCH, Place, RowCode, Value

from ..arrays import Owner
from ..collide.planned import SetKind
from ..collide.touches import Contact, Layout, Touches, each_contact
from ..constrain.cones import SMALLEST
from ..constrain.laws import Law
from ..constrain.levers import between, levers_of, seen_by
from ..rigid.kinematics import origin_of
from ..step import Step
from ..sweeps.columns import PartRow
from ..sweeps.maths import Vector, add, dot, scale
from ..sweeps.sweeps import Sweeps
from .rows import solved

Told = dict[str, Vector]
"""Fields of a contact."""

WIDTHS = {"active": 1, "position": 3, "normal": 3, "penetration": 1, "force": 3, "pair": 1}
"""Numbers of each field."""
OF_LAWS = {"frame": 9, "efc_D": 1, "efc_aref": 6}
"""Likewise of what forces are made of."""


def contacts(now: Step) -> None:
    """Where things touch, and how hard."""
    s, touches, _ = now.s, now.touches, now.constraint_force
    if touches is None:
        return
    law = Law() if now.contacts is None else now.contacts.law
    origin = s.take_fixed(3)
    s.recorder.write(SCRATCH, origin_of(s), origin.row)

    def told(code: RowCode, contact: Contact, kind: SetKind) -> Told:
        pair = contact.read(Layout.PAIR)[0]
        sign = trace.select(pair, 0.0, -1.0, 1.0)
        slope = law.push(contact, kind, contact.residual).slope
        force = [-dot(slope, own) for own in list(zip(*levers_of(contact), strict=True))[3:]]
        return {
            "active": [1.0],
            "position": add(contact.read(Layout.POINT, 3), code.array("origin", 3)),
            "normal": scale(sign, contact.read(Layout.FRAME, 3)),
            "penetration": [-contact.read(Layout.DISTANCE)[0]],
            "force": scale(sign, force),
            "pair": [trace.absolute(pair) - 1.0],
        }

    _store(s, touches, WIDTHS, told, {"origin": origin})


def laws_of_contacts(now: Step) -> None:
    """What the forces of contacts are made of, as MuJoCo's rows have it."""
    touches, _ = now.touches, solved(now)
    if touches is None or now.contacts is None:
        return
    speeds = now.contacts.moved("velocities at contacts")

    def told(_: RowCode, contact: Contact, kind: SetKind) -> Told:
        sign = trace.select(contact.read(Layout.PAIR)[0], 0.0, -1.0, 1.0)
        sizes = contact.read(Layout.SCALE, kind.dimension)
        speed = seen_by(contact, between(speeds, kind))
        damping = [*contact.read(Layout.DAMPING), *contact.read(Layout.SLIDING) * (kind.dimension - 1)]
        back = [*contact.read(Layout.BACK), *[0.0] * (kind.dimension - 1)]
        parts = zip(speed, damping, back, sizes, strict=True)
        wanted = [-(v * d + more) / trace.maximum(size, SMALLEST) for v, d, more, size in parts]
        return {
            "frame": scale(sign, contact.read(Layout.FRAME, 9)),
            "efc_D": [contact.law[0] * sizes[0] * sizes[0]],
            "efc_aref": [*wanted, *[0.0] * (OF_LAWS["efc_aref"] - kind.dimension)],
        }

    _store(now.s, touches, OF_LAWS, told, {})


def _store(
    s: Sweeps,
    touches: Touches,
    widths: Mapping[str, int],
    told: Callable[[RowCode, Contact, SetKind], Told],
    more: Mapping[str, Place],
) -> None:
    """What is told of each contact into its place; zero where there is none."""
    rows, first = [], 0
    for touch in touches.sets:
        row = touches.row(touch, {**s.arrays_of(Owner.CONTACT, first), **more})
        rows.append(PartRow(touch.kind, row.places, {"room": [float(touch.plan.capacity)]}, targets=row.targets))
        first += touch.plan.capacity

    def write(code: RowCode, name: str, values: Vector, turn: Value) -> None:
        code.recorder.write(s.prefix + name, values, 0, turn * float(widths[name]))

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, SetKind)

        def nothing(turn: Value) -> None:
            for name, width in widths.items():
                write(code, name, [-1.0 if name == "pair" else 0.0] * width, turn)

        def one(contact: Contact) -> None:
            for name, values in told(code, contact, kind).items():
                write(code, name, values, contact.turn)

        code.recorder.count("room", code.number("room"), nothing, uniform=True)
        each_contact(code, kind.dimension, one)

    with s.staying():
        s.loop("contacts, stored", rows, body)
