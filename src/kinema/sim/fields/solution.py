"""Fields of what the solver of constraints and contacts arrives at, and of its way there."""

from __future__ import annotations

from kinema import trace
from kinema.trace import SCRATCH, Row, RowCode, Value

from ..collide.planned import SetKind
from ..collide.touches import Touches
from ..solve.newton import Newton
from ..step import Step
from ..sweeps.maths import dot, sum_of
from ..sweeps.tree import Forest, Node
from .rows import solved

OF_SOLVER = ("cost", "gauss", "gradient", "n_iterations", "n_rows")


def solution(now: Step) -> None:
    """Accelerations, forces and costs."""
    s, solver = now.s, solved(now)
    held, qacc = now.constraint_force, now.acceleration
    mass = now.mass if solver is None else solver.mass
    heavy = mass.times("M qacc", qacc)
    left = None if solver is None else solver.factors.solve("what is left, eased", solver.downhill)

    def body(node: Node) -> None:
        none: list[Value] = [0.0] * len(node.dofs)
        s.write("qacc", node, qacc[node.here])
        s.write("qfrc_constraint", node, none if held is None else held[node.here])
        s.write("Ma", node, heavy[node.here])
        s.write("Mgrad", node, none if left is None else [-x for x in left[node.here]])

    s.each_frame("solution", body)
    numbers = [0.0] * len(OF_SOLVER) if solver is None else _statistics(now, solver)
    for name, number in zip(OF_SOLVER, numbers, strict=True):
        s.write(name, None, [number])


def _statistics(now: Step, solver: Newton) -> list[Value]:
    s, qacc = now.s, now.acceleration

    def squares(node: Node) -> tuple[Value, Value]:
        change = [a - b for a, b in zip(qacc[node.here], solver.free[node.here], strict=True)]
        slope = solver.downhill[node.here]
        return dot(change, solver.weight[node.here]), dot(slope, slope)

    moved, slope = s.total("costs of motion", Forest.FRAMES, (0.0, 0.0), squares)
    acting = solver.rows.total("rows that act", _acting, {})[0]
    if now.touches is not None:
        acting = acting + _of_contacts(now.touches)
    taken = s.recorder.read(SCRATCH, solver.taken.row)
    return [0.5 * moved + solver.costs_at(0.0), 0.5 * moved, trace.sqrt(slope), taken, acting]


def _acting(code: RowCode) -> list[Value]:
    hard = code.array("stiffness", code.kind.n_rows)  # type: ignore[attr-defined]
    return [sum_of([trace.select(0.0, x, 1.0, 0.0) for x in hard]), 0.0]


def _of_contacts(touches: Touches) -> Value:
    """How many rows MuJoCo would make of all contacts."""
    s, total = touches.s, touches.s.take_fixed(1)
    s.recorder.write(SCRATCH, [0.0], total.row)
    rows = [Row(_n_rows(x.kind), {"count": x.count, "total": total}) for x in touches.sets]

    def add(code: RowCode) -> None:
        code.write("total", [code.read("total") + float(code.kind) * code.read("count")])  # type: ignore[arg-type]

    with s.staying():
        s.loop("rows of contacts", rows, add)
    return s.recorder.read(SCRATCH, total.row)


def _n_rows(kind: SetKind) -> int:
    return kind.dimension if kind.elliptic or kind.dimension == 1 else 2 * (kind.dimension - 1)
