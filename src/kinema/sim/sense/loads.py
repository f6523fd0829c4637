"""What a link bears of all that hangs on it: the force and torque that it gets from what holds it."""

from __future__ import annotations

from kinema.trace import SCRATCH, RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import Contact
from ..fields.situation import Situation
from ..rigid.kinematics import origin_of
from ..rigid.links import moved_wrench
from ..sweeps.maths import add, scale, sub, unrotate
from ..sweeps.tree import link_ref, root_of
from .readings import HERE, THERE, ReadingKind, Readings, pose_of, tell
from .strands import add_tendons
from .tables import LOADS as KINDS
from .ties import add_ties
from .touching import contacts_of, no_sums, wrench_of

__all__ = ["KINDS", "loads"]
OWN, ROOT = link_ref("own "), link_ref("root ")


def loads(now: Situation, readings: Readings, which: list[int]) -> None:
    """Forces and torques between links, at a place on one of them.

    What contacts, ties, tendons and the user do to what is carried is taken off.
    """
    s, info, frames, centers = now.s, readings.info, now.frames, now.centers
    _ = now.velocity, now.felt
    borne = s.links_inward("loads of links", now.load)
    sums = no_sums(now, which, 6)

    def one(code: RowCode, contact: Contact, weight: Value, kind: SetKind) -> None:
        code.write("sum", add(code.array("sum", 6), scale(weight, wrench_of(contact, kind))))

    contacts_of(now, readings, which, sums, one)
    origin = s.take_fixed(3)
    s.recorder.write(SCRATCH, origin_of(s), origin.row)
    add_ties(now, readings, which, sums, origin)
    add_tendons(now, readings, which, sums, origin)
    rows = []
    for i in (i for i in which if info.item[i] >= 0):
        link = int(info.item[i])
        targets = {"own ": link_ref(link), "root ": link_ref(root_of(s.model, link))}
        rows.append(readings.row(i, {"sum": sums[i], "origin": origin}, targets))

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        at, total = pose_of(code, frames, HERE), borne[OWN]
        moved = moved_wrench(sub(centers[ROOT], at.position), total.torque, total.force)
        flat = code.array("sum", 6)
        touched = moved_wrench(sub(code.array("origin", 3), at.position), flat[:3], flat[3:])
        told = sub(moved.force, touched.force) if kind.name == "force" else sub(moved.torque, touched.torque)
        axes = pose_of(code, frames, THERE).rotation if kind.relative else at.rotation
        sign = code.numbers("numbers")
        seen = unrotate(axes, told)
        tell(code, scale(sign[0], seen) if sign else seen)

    s.loop("loads that are measured", rows, body)
