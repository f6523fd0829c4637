"""What is measured of a place: where it is and how it moves, from the world or from another place; IMUs."""

from __future__ import annotations

from collections.abc import Callable

from kinema import trace
from kinema.model import Motion
from kinema.trace import RowCode, Value

from ..fields.situation import Situation
from ..rigid.kinematics import Pose, Twist
from ..rigid.links import acceleration_at
from ..sweeps.maths import (
    Vector,
    dot,
    matrix_quaternion,
    quaternion_product,
    scale,
    sub,
    unrotate,
)
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .readings import HERE, THERE, ReadingKind, Readings, pose_of, tell

AXES = {"framexaxis": 0, "frameyaxis": 1, "framezaxis": 2}
PLACED = ("framepos", *AXES, "magnetometer", "height", "camprojection")
MOVING = ("gyro", "velocimeter", "framelinvel", "frameangvel", "speed of height")
FELT = ("accelerometer", "framelinacc", "frameangacc")
TURNED = ("framequat",)


def _column(at: Pose, k: int) -> Vector:
    return [row[k] for row in at.rotation]


def _half(angle: Value) -> tuple[Value, Value]:
    return trace.cos(0.5 * angle), trace.sin(0.5 * angle)


def turns(s: Sweeps) -> Quantity[Vector]:
    """The rotation of each frame as a quaternion, which goes on smoothly past half a turn."""

    def body(node: Node, above: Vector) -> Vector:
        start = quaternion_product(above, matrix_quaternion(node.rotation))
        q = s.of("qpos", node)
        if node.motion == Motion.SLIDE:
            return start
        if node.motion == Motion.BALL:
            own = [q[0], *scale(-1.0, q[1:])] if node.inverted else q
            return quaternion_product(start, own)
        c, sine = _half(q[0] - node.reference)
        return quaternion_product(start, [c, *scale(sine, node.axis)])

    return s.outward("turns", (1.0, 0.0, 0.0, 0.0), body)


def placed(now: Situation, readings: Readings, which: list[int]) -> None:
    """Where something is."""
    s, frames = now.s, now.frames
    field = {"field": s.model.sensors.magnetic_field.tolist()}

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        at = pose_of(code, frames, HERE)
        if kind.name == "magnetometer":
            tell(code, unrotate(at.rotation, code.numbers("field")))
        elif kind.name == "height":
            tell(code, [at.position[2]])
        elif kind.name == "camprojection":
            tell(code, _projected(code, unrotated(pose_of(code, frames, THERE), at.position)))
        elif kind.name == "framepos":
            tell(code, unrotated(pose_of(code, frames, THERE), at.position) if kind.relative else at.position)
        else:
            axis = _column(at, AXES[kind.name])
            tell(code, unrotate(pose_of(code, frames, THERE).rotation, axis) if kind.relative else axis)

    s.loop("where sensors are", [readings.row(i, numbers=field) for i in which], body)


def unrotated(place: Pose, point: Vector) -> Vector:
    """A point of the world as seen from a place."""
    return unrotate(place.rotation, sub(point, place.position))


def _projected(code: RowCode, seen: Vector) -> Vector:
    """Where a camera, which looks along its -z, has a point in its picture [pixels]; y goes down."""
    focal_x, focal_y, shift_x, shift_y, width, height = code.numbers("numbers")
    x = 0.5 * width + (shift_x - focal_x * (seen[0] / seen[2]))
    y = 0.5 * height + (shift_y + focal_y * (seen[1] / seen[2]))
    return [x, y]


def turned(now: Situation, readings: Readings, which: list[int]) -> None:
    """How something is turned."""
    s, known = now.s, turns(now.s)

    def of(code: RowCode, word: str) -> Vector:
        flat = code.numbers(f"{word} rot")
        own = matrix_quaternion([flat[3 * i : 3 * i + 3] for i in range(3)])
        return quaternion_product(known[HERE if word == "here" else THERE], own)

    def body(code: RowCode) -> None:
        own = of(code, "here")
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        if kind.relative:
            w, *xyz = of(code, "there")
            own = quaternion_product([w, *scale(-1.0, xyz)], own)
        tell(code, scale(1.0 / _length(own), own))

    s.loop("how sensors are turned", [readings.row(i) for i in which], body)


def _length(q: Vector) -> Value:
    return trace.sqrt(dot(q, q))


def moving(now: Situation, readings: Readings, which: list[int]) -> None:
    """How something moves."""
    s, frames, _ = now.s, now.frames, now.velocity

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        at = pose_of(code, frames, HERE)
        motion = now.twist(HERE, at.position)
        if kind.relative:
            seen_from = pose_of(code, frames, THERE)
            carried = now.twist(THERE, at.position)
            motion = _seen(seen_from, Twist(*map(sub, _both(motion), _both(carried))))
        tell(code, MOTIONS[kind.name](at, motion))

    s.loop("how sensors move", [readings.row(i) for i in which], body)


def _both(motion: Twist) -> tuple[Vector, Vector]:
    return motion.angular, motion.linear


def _seen(place: Pose, motion: Twist) -> Twist:
    return Twist(unrotate(place.rotation, motion.angular), unrotate(place.rotation, motion.linear))


MOTIONS: dict[str, Callable[[Pose, Twist], Vector]] = {
    "gyro": lambda at, motion: unrotate(at.rotation, motion.angular),
    "velocimeter": lambda at, motion: unrotate(at.rotation, motion.linear),
    "framelinvel": lambda at, motion: motion.linear,
    "frameangvel": lambda at, motion: motion.angular,
    "speed of height": lambda at, motion: [motion.linear[2]],
    "accelerometer": lambda at, motion: unrotate(at.rotation, motion.linear),
    "framelinacc": lambda at, motion: motion.linear,
    "frameangacc": lambda at, motion: motion.angular,
}
"""What is told of a motion along the world's axes, or of an acceleration as it is felt."""


def felt(now: Situation, readings: Readings, which: list[int]) -> None:
    """How something accelerates, as felt: at rest, against gravity."""
    s, frames, moved = now.s, now.frames, now.felt

    def body(code: RowCode) -> None:
        kind = code.kind
        assert isinstance(kind, ReadingKind)
        at = pose_of(code, frames, HERE)
        tell(code, MOTIONS[kind.name](at, acceleration_at(frames[HERE], moved[HERE], at.position)))

    s.loop("what sensors feel", [readings.row(i) for i in which], body)
