"""Fields of the rows of constraints: their Jacobian, what they want, and the forces that the solver finds.

Every row that may ever act has a place, whether it acts now or not: equalities first, then dry friction, then limits,
in MuJoCo's order. Contacts come and go, and have fields of their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from types import SimpleNamespace

from kinema import trace
from kinema.model import Model
from kinema.trace import SCRATCH, Place, Row, RowCode

from ..arrays import Owner
from ..constrain.kinds import kinds_and_blocks
from ..constrain.rows import Block, BlockKind, Law, Rows
from ..settings import Settings
from ..solve.newton import Newton
from ..solve.of_rows import row_costs
from ..solve.ready import OfDofs
from ..step import Step
from ..sweeps.tree import grow

ORDER = (Law.EQUALITY, Law.FRICTION, Law.LIMIT)


def rows_info(model: Model, settings: Settings) -> SimpleNamespace:
    """Of each row its kind (`limits`, `ties`, ...), its law, and what it is of: a joint, tendon or equality."""
    found = [(kind.name, block) for kind, own in kinds_and_blocks(model, settings, grow(model).nodes) for block in own]
    blocks = [block for _, block in found]
    chosen = [found[i] for i in _order(blocks) for _ in range(blocks[i].n_rows)]
    return SimpleNamespace(
        kinds=[kind for kind, _ in chosen],
        laws=[str(block.law) for _, block in chosen],
        names=[_name(model, block) for _, block in chosen],
    )


def _order(blocks: Sequence[Block]) -> list[int]:
    return sorted(range(len(blocks)), key=lambda i: ORDER.index(blocks[i].law))


def _name(model: Model, block: Block) -> str:
    """What a block belongs to, as its file calls it."""
    lists = {"tie": model.ties.names, "coupling": model.couplings.names, "friction": model.dofs.names}
    lists |= dict.fromkeys(("tendon limit", "tendon friction"), model.tendons.names)
    for word, names in lists.items():
        if word in block.tells:
            return names[int(block.tells[word])]  # type: ignore[call-overload]
    return model.dofs.names[block.dofs[0]]


def solved(now: Step) -> Newton | None:
    """The constraints and contacts, solved whether they act or not; None where there are none."""
    now.always_solves = True
    _ = now.constraint_force
    return now.solver


def rows(now: Step) -> None:
    """What rows are about, and what they do."""
    solver = solved(now)
    if solver is None:
        return
    s, own = now.s, solver.rows
    for number, first in _firsts(own):
        own.places[number] |= s.arrays_of(Owner.ROW, first)
    own.product(solver.free, "change")

    def body(code: RowCode) -> None:
        kind: BlockKind = code.kind  # type: ignore[assignment]
        known = {name: code.array(name, kind.n_rows) for name in ("position", "speed", "stiffness", "wanted", "force")}
        gained, missing = (code.array(name, kind.n_rows) for name in ("change", "residual"))
        for field, values in (
            ("efc_pos", known["position"]),
            ("efc_vel", known["speed"]),
            ("efc_D", known["stiffness"]),
            ("efc_aref", known["wanted"]),
            ("efc_b", [a - b for a, b in zip(gained, known["wanted"], strict=True)]),
            ("efc_force", known["force"]),
            ("quad", row_costs(code, missing)),
        ):
            code.write(s.prefix + field, values)

    own.each("rows, stored", body)
    table = [
        Row("entry", {"entry": own.entry(number, r, dof), "out": _at(now, "jac", first + r, dof, s.model.n_dofs)})
        for number, first in _firsts(own)
        for r in range(own.blocks[number].n_rows)
        for dof in own.blocks[number].dofs
    ]
    s.loop("Jacobian, stored", table, lambda code: code.write("out", [code.read("entry")]))


def _firsts(own: Rows) -> list[tuple[int, int]]:
    """Blocks in the order of fields, and the first row of each."""
    result, first = [], 0
    for number in _order(own.blocks):
        result.append((number, first))
        first += own.blocks[number].n_rows
    return result


def _at(now: Step, field: str, row: int, column: int, width: int) -> Place:
    start = now.s.places[now.s.prefix + field]
    return Place(start.arena, start.row + row * width + column)


def rows_against_rows(now: Step) -> None:
    """How the force of each row accelerates each other."""
    solver = solved(now)
    if solver is None:
        return
    s, own = now.s, solver.rows
    each = [(number, r) for number, _ in _firsts(own) for r in range(own.blocks[number].n_rows)]
    for i, one in enumerate(each):
        moved = s.places_of_dofs(_moved_by(now, solver, *one))
        table: list[Row] = []
        for j, (number, r) in enumerate(each[: i + 1]):
            out = {"out": _at(now, "efc_AR", i, j, len(each)), "mirrored": _at(now, "efc_AR", j, i, len(each))}
            for k, dof in enumerate(own.blocks[number].dofs):
                entry = {"entry": own.entry(number, r, dof), "of": moved[dof]}
                table.append(Row("next" if k else "first", {**out, **entry}))
        stiffness = Place(SCRATCH, own.places[one[0]]["stiffness"].row + one[1])
        table.append(Row("soft", {"out": _at(now, "efc_AR", i, i, len(each)), "stiffness": stiffness}))
        s.loop("rows against rows", table, _against)


def _moved_by(now: Step, solver: Newton, number: int, row: int) -> OfDofs:
    """What a unit force of a row does to the accelerations."""
    s, own = now.s, solver.rows
    right: OfDofs = s.quantity("a row")
    s.each_frame("no row", lambda node: right.put(node.here, [0.0] * len(node.dofs)))
    places = s.places_of_dofs(right)
    table = [Row("entry", {"entry": own.entry(number, row, dof), "to": places[dof]}) for dof in own.blocks[number].dofs]
    s.loop("a row", table, lambda code: code.write("to", [code.read("entry")]))
    return solver.factors.solve("moved by a row", right)


def _against(code: RowCode) -> None:
    if code.kind == "soft":
        stiffness = code.read("stiffness")
        inverse = 1.0 / trace.select(0.0, stiffness, stiffness, 1.0)
        code.write("out", [code.read("out") + trace.select(0.0, stiffness, inverse, 0.0)])
        return
    term = code.read("entry") * code.read("of")
    total = term if code.kind == "first" else code.read("out") + term
    code.write("out", [total])
    code.write("mirrored", [total])
