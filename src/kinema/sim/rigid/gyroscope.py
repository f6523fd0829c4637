"""Bodies that fly alone, implicitly: the derivative of their gyroscopic forces joins the implicit step.

A body that tumbles freely gains energy under a step that takes these forces at its start. For a body on a free joint
of its own the matrix with their slopes is small and separate, so that it can be solved by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from kinema.model import Motion
from kinema.trace import Value

from .kinematics import Pose
from .maths import IDENTITY, Vector, add, cross, dot, rotate, unrotate
from .straight_matrix import StraightMatrix
from .sweeps import Quantity, Sweeps, TreeMatrix
from .tree import WORLD, Node, Tree


def correct_lone_bodies(
    s: Sweeps,
    implicit: TreeMatrix,
    where: Quantity[Pose],
    force: Quantity[list[Value]],
    change: Quantity[list[Value]],
) -> None:
    """Solve the accelerations of lone free bodies again, with the slopes of their gyroscopic forces."""
    if not isinstance(implicit, StraightMatrix):
        return  # loops over tables are never given such bodies
    dt = s.dt
    for slides, ball in lone_bodies(implicit.tree):
        dofs = [*(node.dofs[0] for node in slides), *ball.dofs]
        matrix = [[implicit.entries.get((max(i, j), min(i, j)), 0.0) for j in dofs] for i in dofs]
        axes = [unrotate(where[ball.here].rotation, node.axis) for node in slides]
        slopes = _bias_slopes(ball, axes, s.of("vel", ball))
        for row, more in zip(matrix, slopes, strict=True):
            row[3:] = [a + dt * b for a, b in zip(row[3:], more, strict=True)]
        right = [x for node in (*slides, ball) for x in force[node.here]]
        solved = solve_dense(matrix, right)
        for node, x in zip(slides, solved, strict=False):
            change.put(node.here, [x])
        change.put(ball.here, solved[3:])


def lone_bodies(tree: Tree) -> list[tuple[list[Node], Node]]:
    """The three slides and the ball of each free joint that nothing else hangs on."""
    children = Counter(node.parent for node in tree.nodes)
    result = []
    for ball in tree.nodes:
        slides: list[Node] = []
        above = ball.parent
        while above != WORLD and tree.nodes[above].motion == Motion.SLIDE:
            slides.insert(0, tree.nodes[above])
            above = tree.nodes[above].parent
        alone = children[ball.index] == 0 and all(children[s.index] == 1 for s in slides)
        if ball.motion == Motion.BALL and not ball.inverted and len(slides) == 3 and above == WORLD and alone:
            straight = all(list(map(list, s.rotation)) == list(map(list, IDENTITY)) for s in slides[1:])
            if straight:
                result.append((slides, ball))
    return result


def _bias_slopes(ball: Node, axes: Sequence[Vector], w: Vector) -> list[list[Value]]:
    """How the bias forces of slides and ball change with each component of the angular velocity."""
    moment, matrix = ball.inertia.moment, ball.inertia.matrix
    columns: list[list[Value]] = []
    for unit in IDENTITY:
        pull = add(cross(unit, cross(w, moment)), cross(w, cross(unit, moment)))
        twist = add(cross(unit, rotate(matrix, w)), cross(w, rotate(matrix, unit)))
        columns.append([*(dot(axis, pull) for axis in axes), *twist])
    return [[column[row] for column in columns] for row in range(6)]


def solve_dense(matrix: Sequence[Sequence[Value]], right: Sequence[Value]) -> list[Value]:
    """The x of A x = b by elimination without exchanges: A's symmetric part is positive."""
    n = len(right)
    a = [list(row) for row in matrix]
    x = list(right)
    for k in range(n):
        inverse = 1.0 / a[k][k]
        for i in range(k + 1, n):
            factor = a[i][k] * inverse
            for j in range(k + 1, n):
                a[i][j] = a[i][j] - factor * a[k][j]
            x[i] = x[i] - factor * x[k]
    for k in reversed(range(n)):
        for j in range(k + 1, n):
            x[k] = x[k] - a[k][j] * x[j]
        x[k] = x[k] * (1.0 / a[k][k])
    return x
