"""Dry friction in joints: it holds them at rest, up to a bound."""

from __future__ import annotations

from kinema.model import Model
from kinema.trace import Row, RowCode

from ..arrays import Owner
from ..sweeps.tree import Node
from .rows import Block, Known, Law, Rows


def friction_blocks(model: Model, nodes: list[Node]) -> list[Block]:
    """A row for each degree of freedom that rubs."""
    dofs = model.dofs
    return [
        Block(
            Law.FRICTION,
            [dof],
            1,
            [float(dofs.invweight[dof])],
            dofs.friction_solref[dof].tolist(),
            dofs.friction_solimp[dof].tolist(),
            bound=float(dofs.frictionloss[dof]),
            of=(Owner.DOF, dof),
            called="friction",
            tells={"friction": dof},
        )
        for node in nodes
        for dof in node.dofs
        if dofs.frictionloss[dof] > 0.0
    ]


def fill_friction(known: Known, rows: Rows) -> None:
    """It is never off: it only brakes."""
    s = known.s
    table = [Row("dof", rows.places[i]) for i, block in enumerate(rows.blocks) if "friction" in block.tells]

    def body(code: RowCode) -> None:
        code.write("position", [0.0])
        code.write("jacobian 0", [1.0])

    s.loop("dry friction", table, body)
