"""Bodies that fly alone, implicitly: the derivative of their gyroscopic forces joins the implicit step.

A body that tumbles freely gains energy under a step that takes these forces at its start. For a body on a free joint
of its own the matrix with their slopes is small and separate, so that it can be solved by itself.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence

from kinema.model import Motion
from kinema.trace import RowCode, Value

from ..sweeps.columns import PartRow
from ..sweeps.maths import IDENTITY, Vector, add, cross, dot, rotate, unrotate
from ..sweeps.matrix import TreeMatrix
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Node, frame_ref
from .kinematics import Pose


def lone_accelerations(
    s: Sweeps,
    implicit: TreeMatrix,
    where: Quantity[Pose],
    force: Quantity[list[Value]],
    coupled: Collection[int] = (),
    odd: Callable[[Node, Sequence[Vector]], list[list[Value]]] | None = None,
) -> Quantity[list[Value]] | None:
    """The accelerations of lone free bodies, with the slopes of their gyroscopic forces; None where there are none.

    Degrees of freedom that the matrix couples with those of others belong to no lone body. `odd` gives further slopes
    that have no place in a symmetric matrix, from the axes of a body's slides.
    """
    found: Quantity[list[Value]] = s.quantity("lone bodies")
    rows = [_row(s, implicit, slides, ball) for slides, ball in lone_bodies(s.nodes, coupled)]

    def body(code: RowCode) -> None:
        ball = s.node(code)
        matrix = [[code.read(f"entry {max(i, j)} {min(i, j)}") for j in range(6)] for i in range(6)]
        axes = [unrotate(where[ball.here].rotation, code.numbers(f"axis {k}")) for k in range(3)]
        slopes = _bias_slopes(ball, axes, s.of("vel", ball))
        for row, more in zip(matrix, slopes, strict=True):
            row[3:] = [a + s.dt * b for a, b in zip(row[3:], more, strict=True)]
        for row, extra in zip(matrix, [] if odd is None else odd(ball, axes), strict=odd is not None):
            row[:] = [a - s.dt * b for a, b in zip(row, extra, strict=True)]
        right = [x for ref in (*SLIDES, ball.here) for x in force[ref]]
        solved = solve_dense(matrix, right)
        for ref, x in zip(SLIDES, solved, strict=False):
            found.put(ref, [x])
        found.put(ball.here, solved[3:])

    s.loop("lone bodies", rows, body)
    return found if rows else None


def correct_lone_bodies(
    s: Sweeps, better: Quantity[list[Value]], change: Quantity[list[Value]], coupled: Collection[int] = ()
) -> None:
    """Put their accelerations in the place of others."""
    own = [node.index for slides, ball in lone_bodies(s.nodes, coupled) for node in (*slides, ball)]
    s.each_frame("lone bodies corrected", lambda node: change.put(node.here, better[node.here]), only=own)


SLIDES = [frame_ref(f"slide {k} ") for k in range(3)]
"""The frames above a lone ball, as the code of its row names them."""


def _row(s: Sweeps, implicit: TreeMatrix, slides: list[Node], ball: Node) -> PartRow:
    """A row of the ball that finds its slides, and the entries of all six."""
    row = s.frame_row(ball)
    dofs = [*(node.dofs[0] for node in slides), *ball.dofs]
    entries = {f"entry {i} {j}": implicit.entry(dofs[i], dofs[j]) for i in range(6) for j in range(i + 1)}
    targets = {**row.targets, **{str(ref.index): node.here for ref, node in zip(SLIDES, slides, strict=True)}}
    axes = {f"axis {k}": [float(x) for x in node.axis] for k, node in enumerate(slides)}
    return s.row(row.kind, targets, {**row.places, **entries}, {**row.numbers, **axes})


def lone_bodies(nodes: Sequence[Node], coupled: Collection[int] = ()) -> list[tuple[list[Node], Node]]:
    """The three slides and the ball of each free joint that nothing else hangs on."""
    children = Counter(node.parent for node in nodes)
    known = {node.index: node for node in nodes}
    result = []
    for ball in nodes:
        slides: list[Node] = []
        above = ball.parent
        while above != WORLD and known[above].motion == Motion.SLIDE:
            slides.insert(0, known[above])
            above = known[above].parent
        alone = children[ball.index] == 0 and all(children[s.index] == 1 for s in slides)
        alone = alone and not any(dof in coupled for node in (*slides, ball) for dof in node.dofs)
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
