"""What couples joints and tendons: one follows a polynomial of another. Mimic joints are of that kind."""

from __future__ import annotations

from kinema.model import Model
from kinema.trace import Row, RowCode, Value

from ..sweeps.tree import Node
from .rows import Block, HasSweeps, Law, Rows


def coupling_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each coupling of joints that these frames have."""
    info, own = model.couplings, {d for node in nodes for d in node.dofs}
    blocks = []
    for i in range(len(info.names)):
        dofs = [int(d) for d in (info.moment_a[i] != 0.0).nonzero()[0]]
        dofs = sorted({*dofs, *(int(d) for d in (info.moment_b[i] != 0.0).nonzero()[0])})
        if dofs and own.issuperset(dofs):
            solref, solimp = info.solref[i].tolist(), info.solimp[i].tolist()
            blocks.append(Block(Law.EQUALITY, dofs, 1, [float(info.weight[i])], solref, solimp, tells={"coupling": i}))
    return blocks


def fill_couplings(step: HasSweeps, rows: Rows) -> None:
    """How far a follower is from where it should be, and what moves it."""
    s = step.s
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
