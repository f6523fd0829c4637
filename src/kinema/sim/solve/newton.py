"""The forces of constraints: Newton's method on a convex cost, with an exact search along each step.

With x = a - a0, the change of the accelerations from those without constraints, the cost is 1/2 x^T M x and, of each
row, half its stiffness times the square of what is missing where it pushes. That is quadratic as long as no row starts
or stops to push: once a step leaves all of them as they were, it has arrived.
"""

from __future__ import annotations

from collections.abc import Sequence

from kinema import trace
from kinema.trace import SCRATCH, Place, RowCode, Value

from ..constrain.rows import BlockKind, Rows, pushes
from ..sweeps.loops import Quantity
from ..sweeps.maths import dot
from ..sweeps.matrix import Factors, TreeMatrix, coupled
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Forest, Node

NEAR = 1e-2
"""A search along a step is good enough when the slope of the cost is this small against that at its start."""
LARGE, SMALLEST = 1e30, 1e-30


def newton(
    s: Sweeps, rows: Rows, mass: TreeMatrix, factors: Factors, free: Quantity[list[Value]]
) -> Quantity[list[Value]]:
    """What the rows do to the joints; `free` is the acceleration without them."""
    weight: Quantity[list[Value]] = s.quantity("inertia times x")
    s.each_frame("no change yet", lambda node: weight.put(node.here, [0.0] * len(node.dofs)))
    rows.product(free, "residual")
    rows.each("what is missing", _missing)
    pattern = coupled(mass.paths, [block.dofs for block in rows.blocks])

    def step() -> tuple[Value, Value]:
        rows.each("forces of constraints", _force)
        pushed = rows.joint_forces("what constraints do to joints")
        matrix = mass.widened("inertia with constraints", pattern)
        rows.add_stiffness(matrix)
        downhill: Quantity[list[Value]] = s.quantity("downhill")

        def slope(node: Node) -> None:
            pairs = zip(pushed[node.here], weight[node.here], strict=True)
            downhill.put(node.here, [a - b for a, b in pairs])

        s.each_frame("downhill", slope)
        along = matrix.factorised(factors).solve("direction", downhill)
        heavy = mass.times("inertia times the direction", along)
        rows.product(along, "change")
        length = _search(s, rows, along, heavy, weight, downhill)
        changed = rows.total("rows that start or stop to push", _changed, {"length": length})[0]
        rows.each("what is missing then", _advance_rows, {"length": length})
        _advance(s, length, weight, heavy)
        return 0.5, changed

    s.repeat("Newton's method", step, s.settings.iterations)
    rows.each("forces of constraints in the end", _force)
    return rows.joint_forces("constraint forces")


def _missing(code: RowCode) -> None:
    kind: BlockKind = code.kind  # type: ignore[assignment]
    pairs = zip(code.array("residual", kind.n_rows), code.array("wanted", kind.n_rows), strict=True)
    code.write("residual", [a - b for a, b in pairs])


def _force(code: RowCode) -> None:
    kind: BlockKind = code.kind  # type: ignore[assignment]
    code.write("force", [force for force, _ in pushes(code, code.array("residual", kind.n_rows))])


def _moved(code: RowCode) -> list[Value]:
    """What is missing of each row somewhere along the direction."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    pairs = zip(code.array("residual", kind.n_rows), code.array("change", kind.n_rows), strict=True)
    return [x + code.read("length") * v for x, v in pairs]


def _advance_rows(code: RowCode) -> None:
    code.write("residual", _moved(code))


def _changed(code: RowCode) -> list[Value]:
    kind: BlockKind = code.kind  # type: ignore[assignment]
    before, after = (pushes(code, x) for x in (code.array("residual", kind.n_rows), _moved(code)))
    total: Value = 0.0
    for (force, a), (other, b) in zip(before, after, strict=True):
        held = trace.select(0.0, a + b, 0.0, trace.absolute(force - other))  # friction at its other bound
        total = total + trace.select(0.0, trace.absolute(a - b) + held, 1.0, 0.0)
    return [total, 0.0]


def _along_direction(code: RowCode) -> list[Value]:
    """The slope of a block's cost along the direction, and how that changes."""
    kind: BlockKind = code.kind  # type: ignore[assignment]
    slope: Value = 0.0
    curve: Value = 0.0
    for (force, stiff), v in zip(pushes(code, _moved(code)), code.array("change", kind.n_rows), strict=True):
        slope, curve = slope - force * v, curve + stiff * (v * v)
    return [slope, curve]


def _search(
    s: Sweeps,
    rows: Rows,
    along: Quantity[list[Value]],
    heavy: Quantity[list[Value]],
    weight: Quantity[list[Value]],
    downhill: Quantity[list[Value]],
) -> Place:
    """Where along the direction the cost is least: Newton's method within brackets. Most often that is at 1."""
    place = s.take_fixed(1)

    def products(node: Node) -> tuple[Value, Value, Value]:
        return tuple(dot(along[node.here], x[node.here]) for x in (weight, heavy, downhill))  # type: ignore[return-value]

    linear, square, start = s.total("the search", Forest.FRAMES, (0.0, 0.0, 0.0), products)
    near = NEAR * trace.absolute(start)

    def trial(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        length, low, high = state
        s.recorder.write(SCRATCH, [length], place.row)
        slope, curve = rows.total("slope along the direction", _along_direction, {"length": place})
        slope, curve = slope + linear + length * square, curve + square
        low, high = trace.select(slope, 0.0, length, low), trace.select(slope, 0.0, high, length)
        middle = trace.select(high, LARGE, 0.5 * (low + high), 2.0 * length)
        better = length - slope / trace.maximum(curve, SMALLEST)
        inside = trace.select(low, better, trace.select(better, high, better, middle), middle)
        missing = trace.absolute(slope)
        return [trace.select(near, missing, inside, length), low, high], near, missing

    length, _, _ = s.recorder.repeat("search", trial, [1.0, 0.0, LARGE], s.settings.ls_iterations)
    s.recorder.write(SCRATCH, [length], place.row)
    return place


def _advance(s: Sweeps, length: Place, quantity: Quantity[list[Value]], direction: Quantity[list[Value]]) -> None:
    """Go along a direction."""
    rows = []
    for node in s.nodes:
        rows.append(s.frame_row(node))
        rows[-1].places["length"] = length

    def body(code: RowCode) -> None:
        here = s.node(code).here
        moved = zip(quantity[here], direction[here], strict=True)
        quantity.put(here, [x + code.read("length") * d for x, d in moved])

    s.loop("along the direction", rows, body)
