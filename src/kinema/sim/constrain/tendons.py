"""Limits and dry friction of tendons: rows whose Jacobian is the tendon's moment."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema import trace
from kinema.model import Model
from kinema.trace import SCRATCH, Place, Row, RowCode, Value

from ..rigid.ball_limits import FAR
from ..sweeps.tree import Node
from .rows import Block, Known, Law, Rows


def tendon_limit_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each limited tendon; two where both limits may be near at once."""
    info, blocks = model.tendons, []
    for i, dofs in _on(model, nodes):
        lower, upper, margin = (float(x[i]) for x in (info.lower, info.upper, info.limit_margin))
        if not (np.isfinite(lower) or np.isfinite(upper)):
            continue
        soft = info.limit_solref[i].tolist(), info.limit_solimp[i].tolist()
        for side in ("lower", "upper") if upper - lower <= 2.0 * margin else ("nearer",):
            told, holder = {"tendon limit": i, "side": side}, int(info.tie_idx[i])
            own = {"spring": info.limit_spring[i].tolist(), "holder": holder, "patient": bool(info.patient[i])}
            blocks.append(Block(Law.LIMIT, dofs, 1, [float(info.weight[i])], *soft, margin, **own, tells=told))
    return blocks


def tendon_friction_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each tendon that rubs."""
    info = model.tendons
    return [
        Block(
            Law.FRICTION,
            dofs,
            1,
            [float(info.weight[i])],
            info.friction_solref[i].tolist(),
            info.friction_solimp[i].tolist(),
            bound=float(info.frictionloss[i]),
            holder=int(info.tie_idx[i]),
            tells={"tendon friction": i},
        )
        for i, dofs in _on(model, nodes)
        if info.frictionloss[i] > 0.0
    ]


def _on(model: Model, nodes: list[Node]) -> list[tuple[int, list[int]]]:
    """The tendons that act on these frames alone, and the degrees of freedom that change them."""
    own = {d for node in nodes for d in node.dofs}
    dofs_of = [(i, [int(d) for d in moment.nonzero()[0]]) for i, moment in enumerate(model.tendons.moment)]
    return [(i, dofs) for i, dofs in dofs_of if dofs and own.issuperset(dofs)]


def fill_tendon_limits(known: Known, rows: Rows) -> None:
    """How far each tendon is from its limits, and which way it is pushed."""
    found = _told(rows, "tendon limit")
    lengths = _lengths(known, [rows.blocks[i] for i, _ in found])
    signs = {i: known.s.take(1) for i, _ in found}
    table = []
    for i, tendon in found:
        row = _distance_row(known, rows.blocks[i], lengths[tendon])
        rows.places[i]["sign"] = signs[i]
        row.places.update({"position": rows.places[i]["position"], "sign": signs[i]})
        table.append(row)

    def body(code: RowCode) -> None:
        distance, sign = _distance(code)
        code.write("position", [distance])
        code.write("sign", [sign])

    known.s.loop("limits of tendons", table, body)
    _fill_moments(known, rows, found, signs)


def fill_tendon_friction(known: Known, rows: Rows) -> None:
    """It is never off: it only brakes."""
    found = _told(rows, "tendon friction")
    table = [Row("tendon", {"position": rows.places[i]["position"]}) for i, _ in found]
    known.s.loop("friction of tendons", table, lambda code: code.write("position", [0.0]))
    _fill_moments(known, rows, found, {})


def tendon_limits_near(known: Known, blocks: list[Block]) -> Value:
    """How many limits are near enough to act."""
    s = known.s
    place = s.take_fixed(1)
    s.recorder.write(SCRATCH, [0.0], place.row)
    lengths, table = _lengths(known, blocks), []
    for block in blocks:
        row = _distance_row(known, block, lengths[int(block.tells["tendon limit"])])  # type: ignore[call-overload]
        row.places["near"] = place
        table.append(row)

    def body(code: RowCode) -> None:
        near = trace.select(_distance(code)[0], code.number("margin"), 1.0, 0.0)
        code.write("near", [code.read("near") + near])

    s.loop("limits of tendons that are near", table, body)
    return s.recorder.read(SCRATCH, place.row)


def _told(rows: Rows, word: str) -> list[tuple[int, int]]:
    """The blocks of a kind, and the tendon of each."""
    return [(i, int(b.tells[word])) for i, b in enumerate(rows.blocks) if word in b.tells]  # type: ignore[call-overload]


def _lengths(known: Known, blocks: Sequence[Block]) -> dict[int, Place]:
    """Where the lengths of these blocks' tendons are."""
    s, info, along = known.s, known.s.model.tendons, known.lengths.lengths
    tendons = sorted({int(b.tells["tendon limit"]) for b in blocks})  # type: ignore[call-overload]
    lengths = {i: along[int(info.path_idx[i])] for i in tendons if info.path_idx[i] >= 0}
    sums = {i: s.take(1) for i in tendons if i not in lengths}
    s.loop("no lengths yet", [Row("sum", {"to": x}) for x in sums.values()], lambda code: code.write("to", [0.0]))
    levers = [(i, int(d)) for i in sums for d in info.moment[i].nonzero()[0]]
    table = [
        Row("lever", {"to": sums[i], "qpos": s.arrays_of_dof(d)["qpos"]}, {"lever": [float(info.moment[i, d])]})
        for i, d in levers
    ]

    def gather(code: RowCode) -> None:
        code.write("to", [code.read("to") + code.number("lever") * code.read("qpos")])

    s.loop("lengths of tendons with limits", table, gather)
    return lengths | sums


def _distance_row(known: Known, block: Block, length: Place) -> Row:
    info, i = known.s.model.tendons, int(block.tells["tendon limit"])  # type: ignore[call-overload]
    numbers = {name: [float(getattr(info, name)[i])] for name in ("lower", "upper")}
    return Row(str(block.tells["side"]), {"length": length}, {**numbers, "margin": [block.margin]})


def _distance(code: RowCode) -> tuple[Value, Value]:
    """From the nearer limit, or the named one, and the sign with which that changes with the length."""
    length, lower, upper = code.read("length"), code.number("lower"), code.number("upper")
    above, left = length - trace.maximum(lower, -FAR), trace.minimum(upper, FAR) - length
    if code.kind == "lower":
        return above, 1.0
    if code.kind == "upper":
        return left, -1.0
    return trace.minimum(above, left), trace.select(above, left, 1.0, -1.0)


def _fill_moments(known: Known, rows: Rows, found: list[tuple[int, int]], signs: dict[int, Place]) -> None:
    """The moments of tendons as Jacobians, times signs where there are any."""
    info, moments, table = known.s.model.tendons, known.lengths.moments, []
    for i, tendon in found:
        for dof in rows.blocks[i].dofs:
            places = {"entry": rows.entry(i, 0, dof)}
            if i in signs:
                places["sign"] = signs[i]
            if info.path_idx[tendon] >= 0:
                places["moment"] = moments[int(info.path_idx[tendon])][dof]
            table.append(Row(tuple(sorted(places)), places, {"lever": [float(info.moment[tendon, dof])]}))

    def body(code: RowCode) -> None:
        value = code.number("lever")
        for name in ("moment", "sign"):
            if name in code.kind:  # type: ignore[operator]
                value = value * code.read(name)
        code.write("entry", [value])

    known.s.loop("jacobian of tendons", table, body)
