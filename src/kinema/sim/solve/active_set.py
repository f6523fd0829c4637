"""The forces of constraints on single degrees of freedom, by Newton's method on the rows that push.

The accelerations minimise 1/2 (a - a0)^T M (a - a0) and 1/2 the sum of stiffness (reference - lever a)^2 over the rows
that fall short. With a guess of which rows these are, the minimum solves (M + diagonal) a = forces; then the guess is
made again, until it holds.
"""

from __future__ import annotations

from collections.abc import Callable

from kinema import trace
from kinema.trace import Value

from ..constrain.rows import ConstraintKind
from ..sweeps.loops import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import Forest, Node

MOST = 20
"""Guesses at the most."""
Solve = Callable[[Callable[[Node], list[Value]], Callable[[Node], list[Value]]], Quantity[list[Value]]]
"""Accelerations with something added to the diagonal of the inertia, and to the forces."""
Row = tuple[Value, Value, Value]


def constraint_forces(
    s: Sweeps, kinds: list[ConstraintKind], free: Quantity[list[Value]], solve: Solve
) -> Quantity[list[Value]]:
    """What the rows of constraints do to each degree of freedom; `free` is the acceleration without them."""
    rows: Quantity[list[list[Row]]] = s.quantity("rows")
    guess: Quantity[list[Value]] = s.quantity("accelerations with constraints")

    def begin(node: Node) -> None:
        of_kinds = [kind.rows(s, node) for kind in kinds]
        rows.put(node.here, [[row for own in of_kinds for row in own[k]] for k in range(len(node.dofs))])
        guess.put(node.here, free[node.here])

    s.each_frame("rows of constraints", begin)

    def diagonal(node: Node) -> list[Value]:
        return [_sum([x[0] * x[0] * x[2] for x in own]) for own in _pushing(rows[node.here], guess[node.here])]

    def push(node: Node) -> list[Value]:
        return [_sum([x[0] * x[1] * x[2] for x in own]) for own in _pushing(rows[node.here], guess[node.here])]

    def again() -> tuple[Value, Value]:
        better = solve(diagonal, push)

        def flips(node: Node) -> Value:
            before, after = (_pushing(rows[node.here], x[node.here]) for x in (guess, better))
            changes = [
                trace.select(0.0, trace.absolute(a[2] - b[2]), 1.0, 0.0)
                for old, new in zip(before, after, strict=True)
                for a, b in zip(old, new, strict=True)
            ]
            return _sum(changes)

        changed = s.total("rows that changed", Forest.FRAMES, 0.0, flips)
        s.each_frame("the next guess", lambda node: guess.put(node.here, better[node.here]))
        return 0.5, changed

    s.repeat("active set", again, MOST)
    forces: Quantity[list[Value]] = s.quantity("constraint forces")

    def force(node: Node) -> None:
        pushing = _pushing(rows[node.here], guess[node.here])
        pairs = zip(pushing, guess[node.here], strict=True)
        forces.put(node.here, [_sum([x[0] * x[2] * (x[1] - x[0] * a) for x in own]) for own, a in pairs])

    s.each_frame("constraint forces", force)
    return forces


def _pushing(rows: list[list[Row]], accelerations: list[Value]) -> list[list[Row]]:
    """The rows, those that do not push without stiffness."""
    return [
        [(lever, aim, trace.select(lever * a, aim, d, 0.0)) for lever, aim, d in own]
        for own, a in zip(rows, accelerations, strict=True)
    ]


def _sum(parts: list[Value]) -> Value:
    total: Value = 0.0
    for part in parts:
        total = total + part
    return total
