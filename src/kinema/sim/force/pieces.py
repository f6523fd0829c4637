"""The pieces that paths are made of: how long each is, and how it pulls on its ends at unit force."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

from kinema import trace
from kinema.trace import Recorder, Value

from ..rigid.kinematics import Pose
from ..sweeps.maths import (
    ZERO,
    Vector,
    add,
    cross,
    dot,
    matrix_quaternion,
    product,
    rotate,
    rotation_vector,
    scale,
    sub,
    transpose,
    unrotate,
)
from .loop_axes import LOOP_AXES, loop_axis
from .wrap import way_around

SMALLEST = 1e-15


@dataclass(frozen=True, slots=True)
class Pulled:
    """What an end feels: forces at points of it, and a torque, all in the world."""

    forces: Sequence[tuple[Vector, Vector]]
    torque: Vector = ZERO


@dataclass(frozen=True, slots=True)
class Measured:
    """A piece: its length, and what each end would feel if the length were pushed apart at unit force."""

    length: Value
    ends: Sequence[Pulled]


def _unit(v: Vector) -> tuple[Vector, Value]:
    size = trace.sqrt(dot(v, v))
    return scale(1.0 / trace.maximum(size, SMALLEST), v), size


def _straight(ends: Sequence[Pose], numbers: Sequence[Value], kind: str, recorder: Recorder) -> Measured:
    a, b = ends[0].position, ends[1].position
    along, size = _unit(sub(b, a))
    return Measured(size, [Pulled([(scale(-1.0, along), a)]), Pulled([(along, b)])])


def _wrapped(ends: Sequence[Pose], numbers: Sequence[Value], kind: str, recorder: Recorder) -> Measured:
    """Straight to a shape, around it, and straight on; or past it."""
    a, b, shape, radius = ends[0].position, ends[1].position, ends[2], numbers[0]
    locals_ = [unrotate(shape.rotation, sub(p.position, shape.position)) for p in (*ends[:2], *ends[3:])]
    way = way_around(kind, locals_[0], locals_[1], radius, locals_[2] if len(locals_) > 2 else None, recorder)
    first, last = (add(shape.position, rotate(shape.rotation, p)) for p in (way.first, way.last))
    (there, near), (on, far), (past, direct) = _unit(sub(first, a)), _unit(sub(b, last)), _unit(sub(b, a))

    def either(x: Value, y: Value) -> Value:
        return trace.select(0.5, way.wraps, x, y)

    out = [either(x, y) for x, y in zip(there, past, strict=True)]
    back = [either(x, y) for x, y in zip(on, past, strict=True)]
    held = [([either(x, 0.0) for x in there], first), ([either(-x, 0.0) for x in on], last)]
    length = either(near + way.length + far, direct)
    return Measured(length, [Pulled([(scale(-1.0, out), a)]), Pulled([(back, b)]), Pulled(held)])


def _crank(ends: Sequence[Pose], numbers: Sequence[Value], kind: str, recorder: Recorder) -> Measured:
    """How far a slider is along its axis, which a rod holds at the end of a crank."""
    crank, slider = ends[0].position, ends[1].position
    axis, out, rod = [row[2] for row in ends[1].rotation], sub(crank, slider), numbers[0]
    along = dot(out, axis)
    square = along * along + rod * rod - dot(out, out)
    root = trace.sqrt(trace.maximum(square, SMALLEST))
    share = trace.select(0.0, square, 1.0 / root, 0.0)
    length = along - trace.select(0.0, square, root, 0.0)
    by_axis = scale(1.0 - along * share, out)
    by_place = add(scale(1.0 - along * share, axis), scale(share, out))
    return Measured(
        length, [Pulled([(by_place, crank)]), Pulled([(scale(-1.0, by_place), slider)], cross(axis, by_axis))]
    )


def _between(ends: Sequence[Pose], numbers: Sequence[Value], kind: str, recorder: Recorder) -> Measured:
    """A force and a torque between two frames, along the axes of the second (`pose`, `push`) or the first.

    The length is how far the first frame is from the second along them, and how far it is turned; or nothing.
    """
    one, other = ends[0], ends[1]
    axes = other.rotation if kind in ("pose", "push") else one.rotation
    force, torque = rotate(axes, numbers[:3]), rotate(axes, numbers[3:])
    length: Value = 0.0
    if kind in ("pose", "turn"):
        place = unrotate(other.rotation, sub(one.position, other.position))
        turn = rotation_vector(matrix_quaternion(product(transpose(other.rotation), one.rotation)))
        length = dot(place, numbers[:3]) + dot(turn, numbers[3:])
    pulls = [
        (f, end.position, t) for f, end, t in ((force, one, torque), (scale(-1.0, force), other, scale(-1.0, torque)))
    ]
    return Measured(length, [Pulled([(f, at)], t) for f, at, t in pulls])


def _of_loop(ends: Sequence[Pose], numbers: Sequence[Value], kind: str, recorder: Recorder) -> Measured:
    """A coordinate of a joint that closes a loop; its force acts on both where the child's frame is."""
    at = ends[0].position
    length, force, torque = loop_axis(ends, numbers, kind)
    back = Pulled([(scale(-1.0, force), at)], scale(-1.0, torque))
    return Measured(length, [Pulled([(force, at)], torque), back])


Measure = Callable[[Sequence[Pose], Sequence[Value], str, Recorder], Measured]
PIECES: dict[str, tuple[int, Measure]] = {
    "straight": (2, _straight),
    "crank": (2, _crank),
    **dict.fromkeys(("pose", "turn", "push", "thrust"), (2, _between)),
    **dict.fromkeys(LOOP_AXES, (2, _of_loop)),
    **dict.fromkeys(("sphere", "cylinder"), (3, _wrapped)),
    **{f"{x} {side}": (4, _wrapped) for x in ("sphere", "cylinder") for side in ("beside", "inside", "either")},
}
"""Every kind of piece: how many ends it has, and how it is measured. A fourth end is only looked at."""
