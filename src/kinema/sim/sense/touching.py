"""Contacts, as sensors feel them: those of a sensor's links, one by one."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

from kinema import trace
from kinema.trace import Place, Row, RowCode, Value

from ..collide.branches import where
from ..collide.planned import SetKind
from ..collide.touches import Contact, Layout, each_contact
from ..constrain.cones import push
from ..constrain.levers import levers_of
from ..fields.situation import Situation
from ..sweeps.maths import Vector, dot, scale
from .ray_solids import HIT, RAYS, Ray
from .readings import HERE, ReadingKind, Readings, pose_of, tell
from .tables import first_weight, weights_of

WEIGHTS = "touch_weights"
OfContact = Callable[[RowCode, Contact, Value, SetKind], None]
"""Told of a contact, and with which sign its force counts."""


def contacts_of(
    now: Situation, readings: Readings, which: Sequence[int], sums: Mapping[int, Place], one: OfContact
) -> None:
    """Each contact that matters to each of some readings, whose sums the code finds as `sum`."""
    s, touches, _ = now.s, now.touches, now.constraint_force
    if touches is None:
        return
    model, rows = s.model, []
    for i in which:
        weights = weights_of(model, i)
        for touch in touches.sets:
            if not weights[touch.plan.pairs].any():
                continue
            own = touches.row(touch)
            more = {"sum": sums[i], WEIGHTS: s.places[WEIGHTS]}
            row = readings.row(i, {**own.places, **more}, own.targets, {"first": [float(first_weight(model, i))]})
            rows.append(s.row((row.kind, touch.kind), row.targets, row.places, row.numbers))

    def body(code: RowCode) -> None:
        _, kind = code.kind  # type: ignore[misc]

        def each(contact: Contact) -> None:
            pair = trace.absolute(contact.read(Layout.PAIR)[0]) - 1.0
            weight = code.recorder.read(WEIGHTS, 0, pair + code.number("first"))
            where(code.recorder, "felt", 0.5, trace.absolute(weight), lambda: one(code, contact, weight, kind))

        where(code.recorder, "touching", 0.5, code.read("count"), lambda: each_contact(code, kind.dimension, each))

    with s.staying():
        s.loop("contacts that are felt", rows, body)


def no_sums(now: Situation, which: Sequence[int], width: int) -> dict[int, Place]:
    """A place for the sums of each reading, with nothing in it."""
    s = now.s
    sums = {i: s.take(width) for i in which}
    s.loop("nothing felt", [Row("sum", {"sum": x}) for x in sums.values()], lambda c: c.write("sum", [0.0] * width))
    return sums


def wrench_of(contact: Contact, kind: SetKind) -> list[Value]:
    """What a contact does to the second frame: torque about the origin of all contacts, and force."""
    slope = push(contact.residual, *contact.law, elliptic=kind.elliptic).slope
    return [-dot(slope, own) for own in zip(*levers_of(contact), strict=True)]


def touch(now: Situation, readings: Readings, which: list[int]) -> None:
    """The sum of normal forces on a link, of contacts whose outward normal meets the volume of the sensor."""
    s, near = now.s, now.near_frames
    sums = no_sums(now, which, 1)

    def one(code: RowCode, contact: Contact, weight: Value, kind: SetKind) -> None:
        reading, _ = code.kind  # type: ignore[misc]
        assert isinstance(reading, ReadingKind)
        normal: Vector = contact.read(Layout.FRAME, 3)
        force = dot(wrench_of(contact, kind)[3:], normal)
        at = pose_of(code, near, HERE)
        ray = Ray.seen(at, contact.read(Layout.POINT, 3), scale(-weight, normal))
        distance = RAYS[str(reading.words[0])](ray, code.numbers("numbers"))
        counts = trace.select(distance, HIT, trace.maximum(force, 0.0), 0.0)
        code.write("sum", [code.read("sum") + counts])

    contacts_of(now, readings, which, sums, one)
    rows = [readings.plain(i, {"sum": sums[i]}) for i in which]
    s.loop("touch, measured", rows, lambda code: tell(code, [code.read("sum")]))
