"""What couples joints and tendons: one follows a polynomial of another. Mimic joints are of that kind."""

from __future__ import annotations

from kinema.model import Model
from kinema.trace import Place, Row, RowCode, Value

from ..arrays import Owner
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .rows import Block, Known, Law, Rows


def coupling_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each coupling of joints that these frames have."""
    info, moved = model.couplings, {d for node in nodes for d in node.dofs}
    blocks = []
    for i in range(len(info.names)):
        dofs = [int(d) for d in (info.moment_a[i] != 0.0).nonzero()[0]]
        dofs = sorted({*dofs, *(int(d) for d in (info.moment_b[i] != 0.0).nonzero()[0])})
        if dofs and moved.issuperset(dofs):
            soft, hard = (info.solref[i].tolist(), info.solimp[i].tolist()), bool(info.hard[i])
            own = {"of": (Owner.COUPLING, i), "called": "coupling", "holder": int(info.tie_idx[i])}
            weights, told = [float(info.weight[i])], {"coupling": i}
            blocks.append(Block(Law.EQUALITY, dofs, 1, weights, *soft, hard=hard, tells=told, **own))
    return blocks


def fill_couplings(known: Known, rows: Rows) -> None:
    """How far a follower is from where it should be, and what moves it."""
    s = known.s
    found = [(i, int(b.tells["coupling"])) for i, b in enumerate(rows.blocks) if "coupling" in b.tells]  # type: ignore[call-overload]
    info = s.model.couplings
    lengths = {i: s.take(3) for i, _ in found}
    """Of each: the follower's length, the leader's, and how fast the polynomial rises there."""
    s.loop("couplings, to begin with", [_start(known, c, lengths[i]) for i, c in found], _begin)
    levers = [_lever(known, c, dof, rows.entry(i, 0, dof), lengths[i]) for i, c in found for dof in rows.blocks[i].dofs]
    s.loop("lengths of couplings", [row for row in levers if "qpos" in row.places], _gather)
    table = [
        Row("coupling", {**rows.places[i], "lengths": lengths[i]}, {"polynomial": info.polynomial[c].tolist()})
        for i, c in found
    ]
    s.loop("couplings", table, _write)
    s.loop("jacobian of couplings", levers, _columns)


def _start(known: Known, coupling: int, lengths: Place) -> Row:
    """Of a coupling what its two lengths start from: minus their references, and the lengths of paths."""
    info, along = known.s.model.couplings, known.lengths.lengths
    paths = {"a": int(info.path_a[coupling]), "b": int(info.path_b[coupling])}
    places = {side: along[path] for side, path in paths.items() if path >= 0}
    references = [float(info.reference_a[coupling]), float(info.reference_b[coupling])]
    return Row("".join(places), {"lengths": lengths, **places}, {"reference": references})


def _begin(code: RowCode) -> None:
    sides = zip("ab", code.numbers("reference"), strict=True)
    code.write("lengths", [(code.read(x) if x in str(code.kind) else 0.0) - zero for x, zero in sides] + [0.0])


def _lever(known: Known, coupling: int, dof: int, entry: Place, lengths: Place) -> Row:
    """Of a coupling and a degree of freedom: how both lengths change with it, a number or the moment of a path."""
    s, info, moments = known.s, known.s.model.couplings, known.lengths.moments
    places, levers = {"entry": entry, "lengths": lengths}, []
    for side, path, moment in (("a", info.path_a, info.moment_a), ("b", info.path_b, info.moment_b)):
        levers.append(float(moment[coupling, dof]))
        if path[coupling] >= 0 and levers[-1]:
            places[side] = moments[int(path[coupling])][dof]
    summed = [x for x, path in zip("ab", (info.path_a, info.path_b), strict=True) if path[coupling] < 0]
    if s.model.dofs.q_idx[dof] >= 0 and any(levers["ab".index(x)] for x in summed):
        places["qpos"] = s.arrays_of_dof(dof)["qpos"]
    return Row(("".join(x for x in "ab" if x in places), "".join(summed)), places, {"levers": levers})


def _gather(code: RowCode) -> None:
    _, summed = code.kind  # type: ignore[misc]
    sides = zip("ab", code.array("lengths", 2), code.numbers("levers"), strict=True)
    code.write("lengths", [x + lever * code.read("qpos") if side in summed else x for side, x, lever in sides])


def _columns(code: RowCode) -> None:
    along, _ = code.kind  # type: ignore[misc]
    sides = zip("ab", code.numbers("levers"), strict=True)
    a, b = (lever * code.read(side) if side in along else lever for side, lever in sides)
    code.write("entry", [a - code.read("lengths", 2) * b])


def _write(code: RowCode) -> None:
    follower, leader = code.array("lengths", 2)
    terms = code.numbers("polynomial")
    value: Value = 0.0
    rise: Value = 0.0
    for power in reversed(range(5)):
        value, rise = value * leader + terms[power], rise * leader + value
    code.write("position", [follower - value])
    code.write("lengths", [rise], 2)


def write_errors(s: Sweeps, rows: Rows) -> None:
    """The array `error`: how far each follower is off."""
    start = s.places[s.prefix + "error"]
    table = []
    for block, places in zip(rows.blocks, rows.places, strict=True):
        number = int(block.tells["coupling"])  # type: ignore[call-overload]
        table.append(Row("coupling", {**places, "out": Place(start.arena, start.row + number)}))
    s.loop("errors of couplings", table, lambda code: code.write("out", [code.read("position")]))
