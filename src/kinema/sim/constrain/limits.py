"""Limits of joints: hinges, slides and screws stop at both ends, a ball at an angle from where it does not turn."""

from __future__ import annotations

import numpy as np

from kinema import trace
from kinema.model import Model, Motion
from kinema.trace import SCRATCH, RowCode, Value

from ..arrays import Owner
from ..rigid.ball_limits import FAR, beyond_angle, swing
from ..sweeps.columns import PartRow
from ..sweeps.maths import quaternion_matrix
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .rows import Block, Known, Law, Rows


def limit_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each limited joint; two where both limits may be near at once, or a ball is limited in two ways."""
    blocks = []
    for node in nodes:
        first = node.dofs.start
        weights = [float(model.dofs.invweight[first])]
        soft = model.dofs.limit_solref[first].tolist(), model.dofs.limit_solimp[first].tolist()
        margin = float(model.dofs.limit_margin[first])
        for side in _sides(model, node, margin):
            told = {"limit": node.index, "side": side}
            of = (Owner.DOF, first)
            own = {"spring": model.dofs.limit_spring[first].tolist(), "of": of, "called": "limit"}
            blocks += [Block(Law.LIMIT, list(node.dofs), 1, weights, *soft, margin, **own, tells=told)]
    return blocks


def _sides(model: Model, node: Node, margin: float) -> list[str]:
    """Which limits a joint has, each a row."""
    lower, upper = (float(x[node.dofs.start]) for x in (model.dofs.lower, model.dofs.upper))
    if node.motion == Motion.BALL:
        swing = np.isfinite(model.frames.cone[node.index]).any()
        return ["angle"] * bool(np.isfinite(upper)) + [f"cone {model.frames.cone_axis[node.index]}"] * bool(swing)
    if not (np.isfinite(lower) or np.isfinite(upper)):
        return []
    return ["lower", "upper"] if upper - lower <= 2.0 * margin else ["nearer"]


def fill_limits(known: Known, rows: Rows) -> None:
    """How far each joint is from its limits, and which way it is pushed."""
    s = known.s

    def body(code: RowCode) -> None:
        distance, levers = distance_from_limit(s, s.node(code), str(dict(code.kind)["side"]))  # type: ignore[arg-type]
        code.write("position", [distance])
        code.write("jacobian 0", levers)

    s.loop("limits", [_row(s, rows, i) for i, b in enumerate(rows.blocks) if "limit" in b.tells], body)


def limits_near(known: Known, blocks: list[Block]) -> Value:
    """How many limits are near enough to act."""
    s = known.s
    place = s.take_fixed(1)
    s.recorder.write(SCRATCH, [0.0], place.row)
    table = []
    for block in blocks:
        row = _frame_row(s, block)
        row.places["near"] = place
        table.append(row)

    def body(code: RowCode) -> None:
        node = s.node(code)
        distance, _ = distance_from_limit(s, node, str(dict(code.kind)["side"]))  # type: ignore[arg-type]
        (margin, *_) = s.of("limit_margin", node)
        code.write("near", [code.read("near") + trace.select(distance, margin, 1.0, 0.0)])

    s.loop("limits that are near", table, body)
    return s.recorder.read(SCRATCH, place.row)


def _frame_row(s: Sweeps, block: Block) -> PartRow:
    node = s.tree.nodes[int(block.tells["limit"])]  # type: ignore[call-overload]
    row = s.frame_row(node)
    kind = (("", row.kind), ("side", block.tells["side"]))
    return s.row(kind, row.targets, row.places, row.numbers)


def _row(s: Sweeps, rows: Rows, number: int) -> PartRow:
    row = _frame_row(s, rows.blocks[number])
    row.places.update(rows.places[number])
    return row


def distance_from_limit(s: Sweeps, node: Node, side: str) -> tuple[Value, list[Value]]:
    """Of the nearer limit, or the named one: how far it is, and how that changes with each degree of freedom."""
    lower, upper = s.of("lower", node), s.of("upper", node)
    q = s.of("qpos", node)
    if side == "angle":
        return beyond_angle(q, upper[0])
    if side.startswith("cone"):
        return swing(quaternion_matrix(q), s.of("cone", node), int(side.split()[1]))
    above, below = q[0] - trace.maximum(lower[0], -FAR), trace.minimum(upper[0], FAR) - q[0]
    if side == "lower":
        return above, [1.0]
    if side == "upper":
        return below, [-1.0]
    return trace.minimum(above, below), [trace.select(above, below, 1.0, -1.0)]
