"""What ties two links together: points, frames and axes that are to coincide, and the joints that close loops.

A tie is made of parts: a point on a point, on a line or on a plane; all axes along all axes, or one along one, or
across one; a turn along with a travel. Each row of it is a pair of wrenches, one on each link, about a point of the
second: the Jacobian is their power in the motion of each degree of freedom.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

from kinema import trace
from kinema.model import Model
from kinema.trace import Place, Row, RowCode, Value

from ..arrays import Owner
from ..force.wrap import angle_of
from ..rigid.kinematics import Pose, Twist, twist_at, twists
from ..rigid.links import acceleration_at
from ..rigid.rnea import Wrench, power
from ..sweeps.maths import (
    IDENTITY,
    ZERO,
    Vector,
    add,
    cross,
    dot,
    matrix_quaternion,
    product,
    rotate,
    scale,
    sub,
    transpose,
    unrotate,
)
from ..sweeps.quantities import Quantity
from ..sweeps.rows import FrameKind
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Node, frame_ref
from .rows import Block, Known, Law, Rows

SIDES = ("a ", "b ")


@dataclass(frozen=True, slots=True)
class End:
    """One of two tied frames in the world: where it is, how it moves, and how it accelerates if no coordinate does."""

    pose: Pose
    velocity: Twist
    acceleration: Twist

    def axis(self, number: int) -> list[Vector]:
        """One of its axes, and the first two derivatives of that."""
        u = [row[number] for row in self.pose.rotation]
        change = cross(self.velocity.angular, u)
        return [u, change, add(cross(self.acceleration.angular, u), cross(self.velocity.angular, change))]


@dataclass(frozen=True, slots=True)
class TieRow:
    """How far off, and what a unit force does: on a at one point and on b, the other way, at another, with a torque."""

    off: Value
    drift: Value
    """How the speed of that changes while no coordinate accelerates."""
    force: Vector
    at_a: Vector
    at_b: Vector
    torque: Vector


@dataclass(frozen=True, slots=True)
class Numbers:
    """What parts may be told."""

    weight: Value
    """Of rotation against translation [m]."""
    pitch: Value
    """Of a screw [m/rad]."""


def _gap(a: End, b: End) -> list[Vector]:
    """From one origin to the other, and the first two derivatives."""
    return [
        sub(a.pose.position, b.pose.position),
        sub(a.velocity.linear, b.velocity.linear),
        sub(a.acceleration.linear, b.acceleration.linear),
    ]


def _twice(x: Sequence[Vector], y: Sequence[Vector]) -> Value:
    """The second derivative of the product of two vectors, from those of each."""
    return dot(x[0], y[2]) + 2.0 * dot(x[1], y[1]) + dot(x[2], y[0])


def _point(a: End, b: End, numbers: Numbers) -> list[TieRow]:
    gap = _gap(a, b)
    return [TieRow(gap[0][i], gap[2][i], u, a.pose.position, b.pose.position, ZERO) for i, u in enumerate(IDENTITY)]


def _across(a: End, b: End, which: Sequence[int]) -> list[TieRow]:
    """B's origin stays where some axes of a have no length."""
    gap, at = _gap(a, b), b.pose.position
    # the axes turn with a: what counts is how a moves where b is
    return [TieRow(dot(u[0], gap[0]), _twice(u, gap), u[0], at, at, ZERO) for u in map(a.axis, which)]


def _rotation(a: End, b: End, numbers: Numbers) -> list[TieRow]:
    """All axes along all axes: by the vector part of the quaternion between them."""
    weight = numbers.weight
    w, *v = matrix_quaternion(product(transpose(b.pose.rotation), a.pose.rotation))
    turn = sub(a.velocity.angular, b.velocity.angular)
    change = sub(sub(a.acceleration.angular, b.acceleration.angular), cross(b.velocity.angular, turn))
    turn, change = (unrotate(b.pose.rotation, x) for x in (turn, change))
    drift = add(scale(0.5, add(scale(w, change), cross(change, v))), scale(-0.25 * dot(turn, turn), v))
    rows = []
    for i, unit in enumerate(IDENTITY):
        torque = scale(0.5 * weight, rotate(b.pose.rotation, add(scale(w, unit), cross(v, unit))))
        rows.append(TieRow(weight * v[i], weight * drift[i], ZERO, ZERO, ZERO, torque))
    return rows


def _axes(a: End, b: End, of_b: int, across: Sequence[int]) -> list[TieRow]:
    """An axis of b stays across some axes of a."""
    axis = b.axis(of_b)
    return [
        TieRow(dot(axis[0], u[0]), _twice(axis, u), ZERO, ZERO, ZERO, cross(u[0], axis[0])) for u in map(a.axis, across)
    ]


def _screw(a: End, b: End, numbers: Numbers) -> list[TieRow]:
    """B travels along the first axis of a as it turns about it; from thread to thread is no way off."""
    gap, axis, at = _gap(a, b), a.axis(0), b.pose.position
    pitch, turning = numbers.pitch, sub(b.velocity.angular, a.velocity.angular)
    turn = product(transpose(a.pose.rotation), b.pose.rotation)
    travel = dot(axis[0], gap[0]) / pitch
    sin, cos = trace.sin(travel), trace.cos(travel)
    s, c = turn[2][1] - turn[1][2], turn[1][1] + turn[2][2]
    sine, cosine = sin * c + cos * s, cos * c - sin * s
    angle = angle_of(cosine, trace.absolute(sine))
    bent = dot(axis[1], turning) + dot(axis[0], sub(b.acceleration.angular, a.acceleration.angular))
    off, drift = pitch * trace.select(sine, 0.0, -angle, angle), _twice(axis, gap) + pitch * bent
    return [TieRow(off, drift, axis[0], at, at, scale(-pitch, axis[0]))]


Rowed = Callable[[End, End, Numbers], list[TieRow]]
LETTERS = "xyz"


def _parts_of_axes() -> dict[str, tuple[int, Rowed]]:
    """What is said of single axes, for each of them."""
    found: dict[str, tuple[int, Rowed]] = {}
    for k, x in enumerate(LETTERS):
        others = [i for i in range(3) if i != k]
        found[f"line {x}"] = (2, lambda a, b, _, others=others: _across(a, b, others))
        found[f"plane {x}"] = (1, lambda a, b, _, k=k: _across(a, b, [k]))
        found[f"axis {x}"] = (2, lambda a, b, _, k=k, others=others: _axes(a, b, k, others))
        for j in range(k + 1, 3):
            found[f"cross {x}{LETTERS[j]}"] = (1, lambda a, b, _, k=k, j=j: _axes(a, b, j, [k]))
    return found


PARTS: dict[str, tuple[int, Rowed]] = {
    "point": (3, _point),
    "rotation": (3, _rotation),
    "screw": (1, _screw),
    **_parts_of_axes(),
}
"""What ties are made of: how many rows each part has, and what these are. `line x` leaves b free to move along the x of
a, `plane x` across it, `axis x` free to turn about it; `cross xy` keeps the x of a and the y of b across each other."""


def is_turn(part: str) -> bool:
    """Whether a part holds axes, not points."""
    return part.partition(" ")[0] in ("rotation", "axis", "cross")


def tie_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A block for each tie whose links these frames move."""
    ties, moved = model.ties, {node.index for node in nodes}
    blocks = []
    for i, parts in enumerate(ties.parts):
        both = int(ties.frame_a[i]), int(ties.frame_b[i])
        frames = [f for f in both if f != WORLD]
        # what sits in one frame cannot be moved apart or together: all that would be left is rounding
        if parts and both[0] != both[1] and moved.issuperset(frames):
            weights = [float(ties.weight[i, int(is_turn(p))]) for p in parts for _ in range(PARTS[p][0])]
            dofs = sorted({d for f in frames for n in _path(model, f) for d in model.dofs_of_frame(n)})
            soft = ties.solref[i].tolist(), ties.solimp[i].tolist()
            own = {"of": (Owner.TIE, i), "called": "tie", "holder": i if ties.breakable[i] else -1}
            blocks.append(Block(Law.EQUALITY, dofs, len(weights), weights, *soft, drifts=True, tells={"tie": i}, **own))
    return blocks


def _path(model: Model, frame: int) -> Iterator[int]:
    """The frames that move one, and itself."""
    while frame != WORLD:
        yield frame
        frame = int(model.frames.parent_idx[frame])


def fill_ties(known: Known, rows: Rows) -> None:
    """How far off each tie is, and its Jacobian."""
    s, where, frames = known.s, known.where, known.frames
    ties = [(i, int(b.tells["tie"])) for i, b in enumerate(rows.blocks) if "tie" in b.tells]  # type: ignore[call-overload]
    own = {i: {side: s.take(6 * rows.blocks[i].n_rows) for side in SIDES} | {"about": s.take(3)} for i, _ in ties}
    for i, _ in ties:
        rows.places[i] |= {"on a": own[i]["a "], "on b": own[i]["b "], "about": own[i]["about"]}
        if rows.blocks[i].holder >= 0:
            rows.places[i]["wrenches"] = own[i]["b "]
    info, table = s.model.ties, []
    for i, tie in ties:
        targets = {"a ": frame_ref(int(info.frame_a[tie])), "b ": frame_ref(int(info.frame_b[tie]))}
        numbers = {
            f"{what} {side}": getattr(info, f"{what}_{side}")[tie].ravel().tolist()
            for what in ("pos", "rot")
            for side in "ab"
        }
        numbers |= {name: [float(getattr(info, name)[tie])] for name in ("torque_scale", "pitch")}
        table.append(s.row(tuple(info.parts[tie]), targets, {**rows.places[i], **own[i]}, numbers))
    s.loop("ties", table, lambda code: _write_tie(code, known))
    jacobian = [row for i, tie in ties for row in _jacobian_rows(s, rows, i, tie, own[i])]
    s.loop("jacobian of ties", jacobian, lambda code: _write_columns(s, code, where, frames))


def _write_tie(code: RowCode, known: Known) -> None:
    a, b = (_end(code, side, known) for side in SIDES)
    parts: tuple[str, ...] = code.kind  # type: ignore[assignment]
    numbers = Numbers(code.number("torque_scale"), code.number("pitch"))
    found = [row for part in parts for row in PARTS[part][1](a, b, numbers)]
    about = b.pose.position
    code.write("about", about)
    code.write("position", [row.off for row in found])
    code.write("drift", [row.drift for row in found])
    for r, row in enumerate(found):
        torques = [add(row.torque, cross(sub(at, about), row.force)) for at in (row.at_a, row.at_b)]
        code.write("a ", [*torques[0], *row.force], 6 * r)
        code.write("b ", [-x for x in (*torques[1], *row.force)], 6 * r)


def _end(code: RowCode, side: str, known: Known) -> End:
    flat, own = code.numbers(f"rot {side.strip()}"), code.numbers(f"pos {side.strip()}")
    ref = frame_ref(side)
    frame, velocity, motion = known.frames[ref], known.velocity[ref], known.motion[ref]
    point = add(frame.position, rotate(frame.rotation, own))
    axes = product(frame.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
    return End(Pose(axes, point), twist_at(frame, velocity, point), acceleration_at(frame, motion, point))


def _jacobian_rows(s: Sweeps, rows: Rows, number: int, tie: int, own: dict) -> Iterator[Row]:
    """A row for each frame on the way of each side; what both ways share is added up."""
    seen: set[int] = set()
    block = rows.blocks[number]
    for side, frame in zip(SIDES, (int(s.model.ties.frame_a[tie]), int(s.model.ties.frame_b[tie])), strict=True):
        for index in _path(s.model, frame):
            node = s.tree.nodes[index]
            plain = s.frame_row(node)
            assert isinstance(plain.kind, FrameKind)
            kind = (("", plain.kind), ("rows", block.n_rows), ("again", index in seen))
            seen.add(index)
            columns = [(r, k, dof) for r in range(block.n_rows) for k, dof in enumerate(node.dofs)]
            entries = {f"entry {r} {k}": rows.entry(number, r, dof) for r, k, dof in columns}
            places = {**plain.places, **entries, "wrenches": own[side], "about": own["about"]}
            yield s.row(kind, plain.targets, places, plain.numbers)


def _write_columns(s: Sweeps, code: RowCode, where: Quantity[Pose], frames: Quantity[Pose]) -> None:
    told: dict[str, Any] = dict(code.kind)  # type: ignore[call-overload]
    node = s.node(code)
    about = code.array("about", 3)
    for k, twist in enumerate(twists(node, where[node.here])):
        motion = twist_at(frames[node.here], twist, about)
        for r in range(told["rows"]):
            flat = [code.read("wrenches", 6 * r + i) for i in range(6)]
            entry = power(motion, Wrench(flat[:3], flat[3:]))
            before = code.read(f"entry {r} {k}") if told["again"] else 0.0
            code.write(f"entry {r} {k}", [before + entry])


def write_gaps(s: Sweeps, rows: Rows) -> None:
    """The arrays `gap` and `turn`: how far points and axes are off."""
    gap, turn = (s.places[s.prefix + name] for name in ("gap", "turn"))
    table = []
    for block, places in zip(rows.blocks, rows.places, strict=True):
        tie = int(block.tells["tie"])  # type: ignore[call-overload]
        out = {"gap": Place(gap.arena, gap.row + tie), "turn": Place(turn.arena, turn.row + tie)}
        table.append(Row(tuple(s.model.ties.parts[tie]), {**places, **out}))

    def body(code: RowCode) -> None:
        squares: dict[str, Value] = {"gap": 0.0, "turn": 0.0}
        rest = iter(code.array("position", sum(PARTS[part][0] for part in code.kind)))  # type: ignore[attr-defined]
        for part in code.kind:  # type: ignore[attr-defined]
            for _ in range(PARTS[part][0]):
                what, x = "turn" if is_turn(part) else "gap", next(rest)
                squares[what] = squares[what] + x * x
        for what, square in squares.items():
            code.write(what, [trace.sqrt(square)])

    s.loop("gaps of ties", table, body)
