"""What ties do to what a link carries: connects, welds and joints that close loops."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

from kinema.trace import Place, RowCode

from ..constrain.rows import BlockKind, Rows, pushes
from ..constrain.ties import fill_ties, tie_blocks
from ..fields.situation import Situation
from ..sweeps.maths import add, cross, scale, sub
from .readings import Readings
from .tables import hanging_on


def add_ties(
    now: Situation, readings: Readings, which: Sequence[int], sums: Mapping[int, Place], origin: Place
) -> None:
    """Add the torque about an origin, and the force, of ties between what each reading's link carries and the rest."""
    s, crossing = now.s, _crossing(now, readings, which)
    if not crossing:
        return
    wanted = {tie for _, tie, _ in crossing}
    blocks = [b for b in tie_blocks(s.model, s.nodes) if b.tells["tie"] in wanted]
    acceleration = now.acceleration
    rows = Rows(s, blocks)
    fill_ties(now.known, rows)
    rows.set_targets()
    rows.product(acceleration, "residual")
    rows.each("forces of ties, measured", row_forces)
    number = {b.tells["tie"]: i for i, b in enumerate(blocks)}
    table = []
    for i, tie, side in crossing:
        if tie in number:
            found = rows.places[number[tie]]
            own = {"sum": sums[i], "origin": origin, "wrench": found[f"on {side}"]}
            own |= {name: found[name] for name in ("about", "force")}
            table.append(s.row(blocks[number[tie]].n_rows, {}, own, {}))
    s.loop("ties that are felt", table, _add_wrench)


def _crossing(now: Situation, readings: Readings, which: Sequence[int]) -> list[tuple[int, int, str]]:
    """Readings, the ties that hold something of what each carries to the rest, and which end of those it carries."""
    s, info, ties = now.s, readings.info, now.s.model.ties
    if not s.settings.constraints:
        return []
    result = []
    for i in (i for i in which if info.item[i] >= 0):
        own = hanging_on(s.model, int(info.item[i]))
        for tie, (a, b) in enumerate(zip(ties.link_a.tolist(), ties.link_b.tolist(), strict=True)):
            first, second = a >= 0 and bool(own[a]), b >= 0 and bool(own[b])
            if first != second:
                result.append((i, tie, "a" if first else "b"))
    return result


def row_forces(code: RowCode) -> None:
    """The forces of a block, at accelerations whose product with its Jacobian is known."""
    kind = code.kind
    assert isinstance(kind, BlockKind)
    missing = zip(code.array("residual", kind.n_rows), code.array("wanted", kind.n_rows), strict=True)
    code.write("force", [force for force, _ in pushes(code, [a - b for a, b in missing])])


def _add_wrench(code: RowCode) -> None:
    n = int(code.kind)  # type: ignore[call-overload]
    total = code.array("sum", 6)
    arm = sub(code.array("about", 3), code.array("origin", 3))
    for r, force in enumerate(code.array("force", n)):
        wrench = [code.read("wrench", 6 * r + k) for k in range(6)]
        moved = [*add(wrench[:3], cross(arm, wrench[3:])), *wrench[3:]]
        total = add(total, scale(force, moved))
    code.write("sum", total)
