"""What is measured of a link and all that hangs on it: centre of mass, velocity and angular momentum of that."""

from __future__ import annotations

from dataclasses import dataclass

from kinema import trace
from kinema.trace import SCRATCH, RowCode, Value

from ..fields.situation import Situation
from ..rigid.kinematics import Twist
from ..sweeps.maths import ZERO, Vector, add, cross, rotate, scale, sub
from ..sweeps.records import numbers
from ..sweeps.tree import Forest, Link, link_ref
from .readings import ReadingKind, Readings, tell

KINDS = ("subtreecom", "subtreelinvel", "subtreeangmom")
WHOLE = -1
TREE = link_ref("tree ")


@dataclass(frozen=True, slots=True)
class Carried:
    """Mass, its first moment, linear and angular momentum about the world's origin."""

    mass: Value
    moment: Vector
    linear: Vector
    angular: Vector


def subtrees(now: Situation, readings: Readings, which: list[int]) -> None:
    """Of some links, or of everything."""
    s, info, bodies, _ = now.s, readings.info, now.bodies, now.velocity
    first = {int(info.item[i]) for i in which} - {WHOLE}

    def own(link: Link) -> Carried:
        body = bodies[link.here]
        motion: Twist = now.twist(link.frame, body.center)
        linear = scale(body.mass, motion.linear)
        angular = add(rotate(body.inertia, motion.angular), cross(body.center, linear))
        return Carried(body.mass, scale(body.mass, body.center), linear, angular)

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        tree = carried[TREE] if kind.words == () else _read(code)
        some = trace.select(0.0, tree.mass, tree.mass, 1.0)
        nowhere = bodies[TREE].center if kind.words == () else ZERO
        center = [trace.select(0.0, tree.mass, m / some, x) for m, x in zip(tree.moment, nowhere, strict=True)]
        match kind.name:
            case "subtreecom":
                tell(code, center)
            case "subtreelinvel":
                tell(code, scale(1.0 / some, tree.linear))
            case _:
                tell(code, sub(tree.angular, cross(center, tree.linear)))

    rows = []
    if first:
        carried = s.links_inward("what links carry", own)
    if len(first) < len({int(info.item[i]) for i in which}):
        total = s.total("what there is", Forest.LINKS, Carried(0.0, ZERO, ZERO, ZERO), own)
        place = s.take_fixed(len(numbers(total)))
        s.recorder.write(SCRATCH, numbers(total), place.row)
        rows += [readings.row(i, {"total": place}, {}, None, "all") for i in which if info.item[i] == WHOLE]
    rows += [readings.row(i, targets={"tree ": link_ref(int(info.item[i]))}) for i in which if info.item[i] != WHOLE]
    s.loop("trees that are measured", rows, body)


def _read(code: RowCode) -> Carried:
    flat = code.array("total", 10)
    return Carried(flat[0], flat[1:4], flat[4:7], flat[7:10])
