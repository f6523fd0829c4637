"""What the rows of constraints miss, push and cost, in code for all blocks of a kind."""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import RowCode, Value

from ..constrain.rows import BlockKind, pushes
from ..sweeps.maths import sum_of
from .search import SMALLEST


def miss_rows(code: RowCode) -> None:
    """What is missing of each row, from what there is."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    pairs = zip(code.array("residual", kind.n_rows), code.array("wanted", kind.n_rows), strict=True)
    code.write("residual", [a - b for a, b in pairs])


def row_force(code: RowCode) -> None:
    """What each row pushes."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    code.write("force", [force for force, _ in pushes(code, code.array("residual", kind.n_rows))])


def _moved(code: RowCode) -> list[Value]:
    """What is missing of each row somewhere along the direction."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    pairs = zip(code.array("residual", kind.n_rows), code.array("change", kind.n_rows), strict=True)
    return [x + code.read("length") * v for x, v in pairs]


def advance_rows(code: RowCode) -> None:
    """What is missing of each row, once they have gone along the direction."""
    code.write("residual", _moved(code))


def changed_rows(code: RowCode) -> list[Value]:
    """How many rows of a block start or stop to push along the direction."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    before, after = (pushes(code, x) for x in (code.array("residual", kind.n_rows), _moved(code)))
    total: Value = 0.0
    for (force, a), (other, b) in zip(before, after, strict=True):
        held = trace.select(0.0, a + b, 0.0, trace.absolute(force - other))  # friction at its other bound
        total = total + trace.select(0.0, trace.absolute(a - b) + held, 1.0, 0.0)
    return [total, 0.0]


def costs_of_rows(code: RowCode) -> list[Value]:
    """What the rows of a block cost somewhere along the direction."""
    return [sum_of(row_costs(code, _moved(code))), 0.0]


def row_costs(code: RowCode, residuals: Sequence[Value]) -> list[Value]:
    """What each row of a block costs, by what it misses."""
    stiff, found = code.array("stiffness", len(residuals)), pushes(code, residuals)
    # where friction slips, its cost grows no faster than its bound
    within = [force / trace.maximum(d, SMALLEST) for d, (force, _) in zip(stiff, found, strict=True)]
    return [-(force * (x + 0.5 * w)) for x, w, (force, _) in zip(residuals, within, found, strict=True)]


def along_direction(code: RowCode) -> list[Value]:
    """The slope of a block's cost along the direction, and how that changes."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    slope: Value = 0.0
    curve: Value = 0.0
    before: list[Value] = [0.0] * kind.n_rows
    if kind.held:  # by how much it differs from where it starts
        before = [force for force, _ in pushes(code, code.array("residual", kind.n_rows))]
    found = zip(pushes(code, _moved(code)), before, code.array("change", kind.n_rows), strict=True)
    for (force, stiff), old, v in found:
        slope, curve = slope - (force - old) * v, curve + stiff * (v * v)
    return [slope, curve]
