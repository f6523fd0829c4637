"""Finding contacts: where shapes are, which may be near each other, and where those touch.

All positions are about the first robot's own, wherever that is in the world: far from the origin nothing gets coarser.
"""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, Place, RowCode, Value

from ..arrays import UNLIMITED
from ..constrain.impedance import hardest, impedance, reference, sound
from ..rigid.kinematics import Pose
from ..sweeps.maths import Vector, add, product, rotate, scale
from ..sweeps.own import with_own
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, frame_ref
from .branches import where
from .broad import list_near
from .culling import look_at_frames
from .frame import tangents
from .listing import Listed, Lists
from .near import both_solids, by_shapes, by_spheres, is_near, kind_of, own_numbers
from .numbers import geom_numbers
from .pair_rows import LookKind, Wanted, pair_rows
from .pairs import FORMULAS, pairs_of
from .solid import Work
from .touches import Layout, Touches

FEW = 64
"""Shapes that are placed in a straight line, if all else is: as a loop, one thread would go through them."""


@dataclass(frozen=True, slots=True)
class GeomKind:
    """What decides how a shape is placed."""

    on_world: bool
    round: bool
    """Whether it matters not how it is turned."""


def find_contacts(s: Sweeps, touches: Touches, frames: Quantity[Pose]) -> Place | None:
    """Fill the sets with what touches; the list of pairs that were looked at (`list_near`), or None for all.

    `frames` are about the origin of all contacts.
    """
    for total in (touches.lost, touches.wanted):
        s.recorder.write(SCRATCH, [0.0], total.row)
    with s.staying():
        places = _place_geoms(s, frames)
        look_at_frames(s, touches, frames)
        near = list_near(s, [touch.plan for touch in touches.sets], places)
        wanted = [
            Wanted(
                touch.plan,
                {
                    **{"contacts": touch.contacts, "count": touch.count, "near": touch.near, "own lost": touch.lost},
                    **{"lost": touches.lost, "wanted": touches.wanted},
                },
                {"capacity": [float(touch.plan.capacity)]},
            )
            for touch in touches.sets
        ]
        s.loop("narrowphase", pair_rows(s, wanted, places), _look, near)
    return near


def list_contacts(s: Sweeps, lists: Lists, frames: Quantity[Pose]) -> None:
    """Fill lists with what touches, in any order."""
    with s.staying(len(s.model.geoms.names) > FEW):
        places = _place_geoms(s, frames)
    wanted = [Wanted(plan, lists.places(plan), lists.numbers(plan)) for plan in lists.plans]
    rows = pair_rows(s, wanted, places, listed=True)
    s.spread("narrowphase", rows, [by_spheres, by_shapes], lambda code: _touch(code, kind_of(code)))


def _place_geoms(s: Sweeps, frames: Quantity[Pose]) -> list[Place]:
    """Where all shapes are: position and rotation of each."""
    geoms = s.model.geoms
    places = [s.take(12) for _ in geoms.names]
    rows = []
    for i, kind in enumerate(geoms.kinds):
        frame = int(geoms.frame_idx[i])
        own = GeomKind(frame == WORLD, kind == "sphere")
        numbers = with_own(s, "geom", i, geom_numbers(s.model, i))
        rows.append(s.row(own, {"frame ": frame_ref(frame)}, {"geom": places[i]}, numbers))

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, GeomKind)
        at = frames[frame_ref("frame ")]
        flat = code.numbers("rotation")
        own = [flat[3 * i : 3 * i + 3] for i in range(3)]
        offset = code.numbers("position") if kind.on_world else rotate(at.rotation, code.numbers("position"))
        rotation = own if kind.on_world else product(at.rotation, own)
        code.write("geom", add(at.position, offset))
        if not kind.round:
            code.write("geom", [x for row in rotation for x in row], 3)

    s.loop("where shapes are", rows, body)
    return places


def _weight(code: RowCode, kind: LookKind, friction: Value, bound: Value) -> Value:
    """What the inverse stiffness is proportional to, in the directions that are scaled by friction."""
    own = code.number("weight")
    if kind.dimension == 1:
        return own
    scaled = own * bound * bound
    return scaled if kind.elliptic else 2.0 * scaled * (1.0 + friction * friction)


def _look(code: RowCode) -> None:
    """A pair: by what is around both, then closely.

    Few environments come to a search, and each searches in its own way: there they go one after the other.
    """
    kind, recorder = kind_of(code), code.recorder

    def by_spheres() -> None:
        where(recorder, "near", *is_near(code), lambda: _touch(code, kind), alone=kind.kinds not in FORMULAS)

    where(recorder, "near frames", 0.5, code.read("near"), by_spheres)


def _touch(code: RowCode, kind: LookKind) -> None:
    """Where two shapes touch, into their set."""
    recorder, margin = code.recorder, code.number("margin")

    def emit(distance: Value, point: Vector, normal: Vector, along: Vector | None = None) -> None:
        def keep() -> None:
            record = _record(code, kind, distance, point, normal, along)
            if kind.listed:
                _list(code, kind, record)
            elif kind.full:
                _keep_deepest(code, kind, distance, record)
            else:
                _append(code, kind, record)

        where(recorder, "touching", distance, margin, keep)

    pairs_of(several=kind.several)[kind.kinds].touch(Work(recorder, margin, emit), *both_solids(code, kind))


def _record(
    code: RowCode, kind: LookKind, distance: Value, point: Vector, normal: Vector, along: Vector | None
) -> list[Value]:
    """All that the force of a contact is made of."""
    sign = code.number("sign")
    axes = [scale(sign, axis) for axis in (normal, *tangents(normal, along))]
    solimp = [*own_numbers(code, "solimp", 5)[:4], code.numbers("solimp")[4]]
    friction = own_numbers(code, "friction", 5)
    bound = friction[0] * code.number("per ratio")
    weight = _weight(code, kind, friction[0], bound)
    off = distance - code.number("force margin")
    hard = impedance(solimp, kind.power, off)
    spring, damper = reference(sound(own_numbers(code, "solref", 2)), solimp[1], code.read("dt"), safe=kind.safe)
    sliding = damper
    if kind.own_sliding:
        _, sliding = reference(code.numbers("solref of sliding"), solimp[1], code.read("dt"), safe=kind.safe)
    first = bound if kind.elliptic else 1.0
    stiffness = trace.select(off, 0.0, trace.minimum(hard / ((1.0 - hard) * weight), code.number("hardest")), 0.0)
    return [
        *point,
        *(x for axis in axes for x in axis),
        distance,
        sign * code.number("pair"),
        stiffness,
        bound,
        first * spring * hard * off,
        damper,
        sliding,
        first,
        *friction[: kind.dimension - 1],
        *([trace.minimum(hardest(weight), code.number("hardest")), *code.numbers("lively")] if kind.lively else []),
    ]


def _append(code: RowCode, kind: LookKind, record: list[Value]) -> None:
    """A contact at the end of its set."""
    number = code.read("count")
    code.recorder.write("contacts", record, 0, number * float(Layout(kind.dimension).width))
    code.recorder.write("count", [number + 1.0])


def _list(code: RowCode, kind: LookKind, record: list[Value]) -> None:
    """A contact into its list, if there is room."""
    recorder, layout = code.recorder, Listed(kind.dimension)
    number = recorder.next_number("count")

    def put() -> None:
        at = number * float(layout.width)
        recorder.write("contacts", layout.shortened(record), 0, at)
        recorder.write("contacts", code.numbers("frames"), layout.place(layout.frames), at)

    where(recorder, "room", number, code.number("capacity"), put)


def _keep_deepest(code: RowCode, kind: LookKind, distance: Value, record: list[Value]) -> None:
    """At the end, or in the place of the shallowest where there is no room; what is lost is counted."""
    recorder, width, room = code.recorder, float(Layout(kind.dimension).width), code.number("capacity")
    full = trace.select(code.read("count"), room, 0.0, 1.0)
    where(recorder, "room", full, 0.5, lambda: _append(code, kind, record))

    def replace_shallowest() -> None:
        found = recorder.local(2)
        recorder.write(found, [0.0, -UNLIMITED])

        def look(turn: Value) -> None:
            own, most = recorder.read("contacts", Layout.DISTANCE, turn * width), recorder.read(found, 1)
            recorder.write(
                found, [trace.select(most, own, x, recorder.read(found, i)) for i, x in enumerate((turn, own))]
            )

        recorder.count("shallowest", room, look, uniform=True)
        own = code.read("own lost") + 1.0
        code.write("own lost", [own])
        code.write("lost", [code.read("lost") + 1.0])
        code.write("wanted", [trace.maximum(code.read("wanted"), room + own)])
        at = recorder.read(found, 0) * width
        where(recorder, "deeper", distance, recorder.read(found, 1), lambda: recorder.write("contacts", record, 0, at))

    where(recorder, "no room", 0.5, full, replace_shallowest)
