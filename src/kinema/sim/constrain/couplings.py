"""What couples joints and tendons: one follows a polynomial of another. Mimic joints are of that kind."""

from __future__ import annotations

from kinema.model import Model
from kinema.trace import Place, Row, RowCode, Value

from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Node
from .rows import Block, Known, Law, Rows


def coupling_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each coupling of joints that these frames have."""
    info, own = model.couplings, {d for node in nodes for d in node.dofs}
    blocks = []
    for i in range(len(info.names)):
        dofs = [int(d) for d in (info.moment_a[i] != 0.0).nonzero()[0]]
        dofs = sorted({*dofs, *(int(d) for d in (info.moment_b[i] != 0.0).nonzero()[0])})
        if dofs and own.issuperset(dofs):
            soft, hard = (info.solref[i].tolist(), info.solimp[i].tolist()), bool(info.hard[i])
            weights, told = [float(info.weight[i])], {"coupling": i}
            blocks.append(Block(Law.EQUALITY, dofs, 1, weights, *soft, hard=hard, tells=told))
    return blocks


def fill_couplings(known: Known, rows: Rows) -> None:
    """How far a follower is from where it should be, and what moves it."""
    s = known.s
    found = [(i, int(b.tells["coupling"])) for i, b in enumerate(rows.blocks) if "coupling" in b.tells]  # type: ignore[call-overload]
    info = s.model.couplings
    lengths = {i: s.take(3) for i, _ in found}
    """Of each: the follower's length, the leader's, and how fast the polynomial rises there."""
    first = [
        s.row(
            "start",
            {},
            {"lengths": lengths[i]},
            {"reference": [-float(info.reference_a[c]), -float(info.reference_b[c])]},
        )
        for i, c in found
    ]
    s.loop("couplings, to begin with", first, lambda code: code.write("lengths", [*code.numbers("reference"), 0.0]))
    levers = []
    for i, c in found:
        for dof in rows.blocks[i].dofs:
            own = {"entry": rows.entry(i, 0, dof), "lengths": lengths[i], "qpos": s.arrays_of_dof(dof)["qpos"]}
            numbers = {"levers": [float(info.moment_a[c, dof]), float(info.moment_b[c, dof])]}
            levers.append(Row("lever", own, numbers))

    def gather(code: RowCode) -> None:
        pairs = zip(code.array("lengths", 2), code.numbers("levers"), strict=True)
        code.write("lengths", [x + lever * code.read("qpos") for x, lever in pairs])

    s.loop("lengths of couplings", levers, gather)
    table = [
        Row("coupling", {**rows.places[i], "lengths": lengths[i]}, {"polynomial": info.polynomial[c].tolist()})
        for i, c in found
    ]
    s.loop("couplings", table, _write)

    def columns(code: RowCode) -> None:
        a, b = code.numbers("levers")
        code.write("entry", [a - code.read("lengths", 2) * b])

    s.loop("jacobian of couplings", levers, columns)


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
