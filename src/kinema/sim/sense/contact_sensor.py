"""Contacts between two things, as MuJoCo's contact sensor tells them: some of them, the worst one, or their sum."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import SCRATCH, RowCode, Value

from ..collide.branches import where
from ..collide.planned import SetKind
from ..collide.touches import Contact, Layout
from ..fields.situation import Situation
from ..rigid.kinematics import origin_of
from ..sweeps.maths import add, cross, dot, scale, sub
from .ray_solids import inside
from .readings import HERE, ReadingKind, Readings, pose_of, tell
from .spots import unrotated
from .touching import contacts_of, no_sums, wrench_of

KINDS = ("contact",)
FIELDS = {"force": 3, "torque": 3, "dist": 1, "pos": 3, "normal": 3, "tangent": 3}
"""What is told of a contact after whether it was found, and how many numbers each has."""
WIDTH = sum(FIELDS.values())
COUNT, BEST, SLOTS = 0, 1, 2
"""Where sums hold how many contacts there are, how bad the worst is, and the contacts that are told."""
NET_WEIGHT, NET_PLACE, NET_FORCE, NET_TORQUE = 1, 2, 5, 8
"""Where they hold, if contacts are added up, sums of the sizes of forces, of places times these, forces, torques."""
NET_WIDTH = 11
FAR = 1e15


def contact_sensors(now: Situation, readings: Readings, which: list[int]) -> None:
    """All of them."""
    s = now.s
    most = max(int(readings.info.numbers[i][0]) for i in which)
    sums = no_sums(now, which, max(SLOTS + most * WIDTH, NET_WIDTH))
    near = now.near_frames

    def one(code: RowCode, contact: Contact, weight: Value, kind: SetKind) -> None:
        reading, _ = code.kind  # type: ignore[misc]
        volume = str(reading.words[2])
        if not volume:
            _take(code, contact, weight, kind, str(reading.words[1]))
            return
        seen = unrotated(pose_of(code, near, HERE), contact.read(Layout.POINT, 3))
        there = inside(volume, seen, code.numbers("numbers")[1:])
        take = str(reading.words[1])
        where(code.recorder, "in the volume", 0.5, there, lambda: _take(code, contact, weight, kind, take))

    contacts_of(now, readings, which, sums, one)
    origin = s.take_fixed(3)
    s.recorder.write(SCRATCH, origin_of(s), origin.row)
    own = {"origin": origin}
    counts = {i: int(readings.info.numbers[i][0]) for i in which}
    rows = [readings.row(i, {**own, "sum": sums[i]}, None, None, counts[i]) for i in which]
    s.loop("contacts, measured", rows, _tell)


def _take(code: RowCode, contact: Contact, weight: Value, kind: SetKind, reduce: str) -> None:
    """A contact that matches: `weight` says which way its normal goes."""
    recorder, point = code.recorder, contact.read(Layout.POINT, 3)
    wrench = wrench_of(contact, kind)
    force, torque = wrench[3:], sub(wrench[:3], cross(point, wrench[3:]))
    size = trace.sqrt(dot(force, force))
    count = code.read("sum", COUNT)
    if reduce == "netforce":
        own = [1.0, size, *scale(size, point), *scale(weight, force), *scale(weight, wrench[:3])]
        code.write("sum", add(code.array("sum", NET_WIDTH), own))
        return
    normal, tangent = contact.read(Layout.FRAME, 3), contact.read(Layout.FRAME + 3, 3)
    other = cross(normal, tangent)
    distance = contact.read(Layout.DISTANCE)[0]
    record = [
        *(dot(force, normal), dot(force, tangent), weight * dot(force, other)),
        *(dot(torque, normal), dot(torque, tangent), weight * dot(torque, other)),
        distance,
        *point,
        *scale(weight, normal),
        *scale(weight, tangent),
    ]
    code.write("sum", [count + 1.0])
    if reduce == "none":
        room = code.number("numbers")
        where(recorder, "room", count, room, lambda: recorder.write("sum", record, SLOTS, count * float(WIDTH)))
        return
    badness = size if reduce == "maxforce" else -distance
    best = trace.select(count, 0.5, -FAR, code.read("sum", BEST))

    def replace() -> None:
        recorder.write("sum", [badness], BEST)
        recorder.write("sum", record, SLOTS)

    where(recorder, "the worst", best, badness, replace)


def _tell(code: RowCode) -> None:
    kind = code.kind
    assert isinstance(kind, ReadingKind)
    spec, reduce, n = set(str(kind.words[0]).split()), str(kind.words[1]), int(kind.words[-1])  # type: ignore[call-overload]
    found = code.read("sum", COUNT)
    told: list[Value] = []
    for slot in range(n):
        record = _net(code) if reduce == "netforce" else _kept(code, slot)
        told += _chosen(spec, found, record, float(slot))
    tell(code, told)


def _kept(code: RowCode, slot: int) -> list[Value]:
    record = [code.read("sum", SLOTS + slot * WIDTH + k) for k in range(WIDTH)]
    return [*record[:7], *add(record[7:10], code.array("origin", 3)), *record[10:]]


def _chosen(spec: set[str], found: Value, record: Sequence[Value], slot: float) -> list[Value]:
    """What is asked for of a contact; nothing where there is none."""
    told: list[Value] = [found] if "found" in spec else []
    start = 0
    for name, width in FIELDS.items():
        told += record[start : start + width] if name in spec else []
        start += width
    return [trace.select(slot, found, x, 0.0) for x in told]


def _net(code: RowCode) -> list[Value]:
    """One contact that does what all do together, at the middle of their forces, along the axes of the world."""
    flat = code.array("sum", NET_WIDTH)
    place = scale(1.0 / trace.maximum(flat[NET_WEIGHT], 1e-15), flat[NET_PLACE:NET_FORCE])
    force = flat[NET_FORCE:NET_TORQUE]
    torque = sub(flat[NET_TORQUE:], cross(place, force))
    return [*force, *torque, 0.0, *add(place, code.array("origin", 3)), 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
