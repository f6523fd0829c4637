"""Actuators that pull a link to whatever touches it: their force is shared out evenly over its contacts."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinema import trace
from kinema.trace import Place, Row, RowCode, Value

from ..collide.branches import where
from ..collide.planned import SetKind
from ..collide.touch_sets import TouchSet
from ..collide.touches import Contact, Layout, Touches, each_contact
from ..rigid.kinematics import Pose
from ..rigid.rnea import Wrench
from ..sweeps.columns import PartRow
from ..sweeps.cords import Cords
from ..sweeps.maths import Vector, cross, scale, sub, unrotate
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import frame_ref


@dataclass(frozen=True, slots=True)
class StickyKind:
    """What decides which code a set runs for an actuator."""

    set: SetKind
    every: bool
    """Whether all contacts of the set are with the link."""


def adhere(
    s: Sweeps, actuators: Cords, touches: Touches | None, frames: Quantity[Pose], wrenches: Quantity[Wrench] | None
) -> None:
    """Add to the wrenches on frames what actuators that stick do; `frames` are about the origin of all contacts."""
    sticky = [a for a in actuators.moments if s.model.actuators.link_idx[a] >= 0]
    if touches is None or wrenches is None or not sticky:
        return
    counts = {a: s.take(1) for a in sticky}
    rows = [row for a in sticky for touch in touches.sets for row in _rows(s, touches, touch, a, counts[a], actuators)]
    with s.staying():
        s.loop("nothing sticks yet", [Row("count", {"count": x}) for x in counts.values()], _clear)
        s.loop("contacts that stick", rows, _count)
        s.loop("what sticks", rows, lambda code: _pull(code, frames, wrenches))


def _rows(s: Sweeps, touches: Touches, touch: TouchSet, actuator: int, count: Place, actuators: Cords) -> list[PartRow]:
    """A row of a set for an actuator whose link is among what touches there."""
    geoms, pairs, link = s.model.geoms, s.model.pairs, s.model.actuators.link_idx[actuator]
    own = [p for p in touch.plan.pairs if link in (geoms.link_idx[pairs.geom_a[p]], geoms.link_idx[pairs.geom_b[p]])]
    if not own:
        return []
    more = {"sticking": count, "force": actuators.pairs[actuator]}
    row = touches.row(touch, more)
    kind = StickyKind(touch.kind, len(own) == len(touch.plan.pairs))
    return [replace(row, kind=kind, inside={"pairs": [Row("pair", {}, {"pair": [float(p + 1)]}) for p in own]})]


def _clear(code: RowCode) -> None:
    code.write("count", [0.0])


def _count(code: RowCode) -> None:
    def one(contact: Contact) -> None:
        code.write("sticking", [code.read("sticking") + _is_own(code, contact)])

    each_contact(code, _kind(code).set.dimension, one)


def _is_own(code: RowCode, contact: Contact) -> Value:
    """1 where a contact is one of the link's, else 0."""
    if _kind(code).every:
        return 1.0
    pair = trace.absolute(contact.read(Layout.PAIR)[0])
    own = code.recorder.local(2)
    code.recorder.write(own, [0.0, pair])

    def look(inner: RowCode) -> None:
        found, asked = (inner.recorder.read(own, i) for i in range(2))
        same = trace.select(trace.absolute(asked - inner.number("pair")), 0.5, 1.0, 0.0)
        inner.recorder.write(own, [found + same])

    code.each("pairs", look)
    return code.recorder.read(own)


def _pull(code: RowCode, frames: Quantity[Pose], wrenches: Quantity[Wrench]) -> None:
    kind = _kind(code).set

    def one(contact: Contact) -> None:
        share = code.read("force") * _is_own(code, contact) / code.read("sticking")
        force = scale(-share, contact.read(Layout.FRAME, 3))
        point = contact.read(Layout.POINT, 3)
        ends: Sequence[tuple[str, float]] = (("b ", 1.0),) if kind.on_world else (("b ", 1.0), ("a ", -1.0))
        for word, sign in ends:
            wrenches.add(frame_ref(word), _felt(frames[frame_ref(word)], point, scale(sign, force)))

    def all_of_them() -> None:
        each_contact(code, kind.dimension, one)

    where(code.recorder, "anything sticks", 0.5, code.read("sticking"), all_of_them)


def _felt(at: Pose, point: Vector, force: Vector) -> Wrench:
    """A force on a point as a wrench about a frame's origin, along the frame's axes."""
    own = unrotate(at.rotation, force)
    return Wrench(cross(unrotate(at.rotation, sub(point, at.position)), own), own)


def _kind(code: RowCode) -> StickyKind:
    assert isinstance(code.kind, StickyKind)
    return code.kind
