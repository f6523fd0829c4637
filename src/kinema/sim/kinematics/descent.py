"""Inverse kinematics as a program: damped steps towards all goals, from one start after the other.

A lane has a list of targets, and takes the next one as soon as it is done with one, so that lanes do not wait for each
other. A step minimises |J x - e|^2 + damping |x|^2, with what is missing e and its Jacobian J. The damping has a part
that shrinks with what is missing: far away that is a gradient step, which is safe, near by it is Gauss and Newton's,
which is fast. Degrees of freedom at a limit that are pushed against it are left out. What a posture asks for enters
with the damping as its weight: it acts where the goals leave freedom, and nowhere else.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from kinema import trace
from kinema.trace import Program, Recorder, Value

from ..sweeps.maths import dot
from .chain import Chain, Posture
from .goals import Goal

TASKS, RESTARTS = "tasks", "restarts"
INPUTS = ("n_targets", "n_steps", "n_attempts", "pos_tol", "rot_tol", "damping", "slope", "max_step", "posture_gain")
"""Numbers that all lanes share."""
FAR = 1e10
"""What counts as the error of a target that nothing was tried for."""
MOST = 2**30
STALLED = 0.95
"""A step that leaves more than this of the cost has gained nothing."""
PATIENCE = 4.0
"""Steps without a gain after which another start is tried."""
TINY = 1e-20
SETTLED = 2e-3
"""The largest shift of a step [rad or m] after which a posture counts as reached."""
Matrix = dict[tuple[int, int], Value]
"""The entries below the diagonal, and on it, of what is not zero."""


@dataclass(slots=True, eq=False)
class Record:
    """Where the numbers of one target lie: what is wanted, where to start (later: where it ended), and how well."""

    chain: Chain
    goals: Sequence[Goal]
    posture: bool
    """Whether each target has coordinates that free ones tend to."""
    starts: list[int] = field(default_factory=list)
    """Where the numbers of each goal begin."""

    def __post_init__(self) -> None:
        self.starts = [sum(g.size for g in self.goals[:i]) for i in range(len(self.goals))]

    @property
    def q(self) -> int:
        """Where its coordinates begin."""
        return sum(g.size for g in self.goals)

    @property
    def errors(self) -> int:
        """Where its two errors are, how many starts and how many steps it took."""
        return self.q + len(self.chain.qs)

    @property
    def wished(self) -> int:
        """Where the posture of the free degrees of freedom begins."""
        return self.errors + 4

    @property
    def size(self) -> int:
        """How many numbers it has."""
        return self.wished + (len(self.chain.free) if self.posture else 0)


def descent_program(record: Record) -> Program:
    """The program of all targets of a lane."""
    return _Descent(record).program()


class _Descent:
    """The program, while it is recorded."""

    def __init__(self, record: Record) -> None:
        self.record = record
        self.chain = record.chain
        self.recorder = Recorder()

    def program(self) -> Program:
        recorder, record = self.recorder, self.record
        start = [recorder.read(TASKS, record.q + i) for i in range(len(self.chain.qs))]
        recorder.repeat("all targets", self._turn, [0.0, 0.0, 0.0, FAR, 0.0, 0.0, *start], MOST)
        return recorder.finish()

    def _shared(self, name: str) -> Value:
        return self.recorder.read(name)

    def _turn(self, state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        """One step towards one target."""
        number, taken, attempt, before, idle, steps, *q = state
        at, first = Posture(self.chain, q), number * float(self.record.size)
        matrix, slope, cost, errors = self._normal_equations(at, first)
        shift = self._shift(at, matrix, slope, cost, taken, first)
        arrived = self._arrived(errors, taken, shift)
        after = at.advanced(shift, *self._bounds())
        idle = trace.select(STALLED * before, cost, idle + 1.0, 0.0)
        stuck = trace.select(taken, self._shared("n_steps"), 0.0, 1.0)
        if not self.record.posture:  # which takes its time beside the goals
            stuck = trace.select(idle, PATIENCE, stuck, 1.0)
        going = [number, taken + 1.0, attempt, cost, idle, steps + 1.0, *after]
        ended = self.recorder.where(
            "an attempt ends",
            0.5,
            arrived + stuck,
            lambda: self._next(number, attempt, steps + 1.0, q, errors, first),
            going,
        )
        return ended, ended[0], self._shared("n_targets")

    def _next(
        self, number: Value, attempt: Value, steps: Value, q: Sequence[Value], errors: Sequence[Value], first: Value
    ) -> list[Value]:
        """Keep what is better, and begin anew: with the same target, or with the next one."""
        recorder, record = self.recorder, self.record
        old = [recorder.read(TASKS, record.errors + i, first) for i in range(2)]
        best = [recorder.read(TASKS, record.q + i, first) for i in range(len(q))]
        worse, better = self._badness(old), self._badness(errors)
        kept = [trace.select(better, worse, x, y) for x, y in zip([*q, *errors], [*best, *old], strict=True)]
        recorder.write(TASKS, [*kept, attempt + 1.0, steps], record.q, first)
        good = trace.select(better, 1.0, 1.0, trace.select(attempt + 1.5, self._shared("n_attempts"), 0.0, 1.0))
        further = first + float(record.size)
        restart = attempt * float(len(q))
        again = self.recorder.where(
            "the next target",
            0.5,
            good,
            lambda: [recorder.read(TASKS, record.q + i, further) for i in range(len(q))],
            [x if keep else self.recorder.read(RESTARTS, i, restart) for i, (x, keep) in enumerate(self._kept(kept))],
        )
        return [
            number + good,
            0.0,
            trace.select(0.5, good, 0.0, attempt + 1.0),
            FAR,
            0.0,
            trace.select(0.5, good, 0.0, steps),
            *again,
        ]

    def _kept(self, q: Sequence[Value]) -> list[tuple[Value, bool]]:
        """Coordinates, and whether they stay where they are when another start is tried."""
        return [(x, i not in restarted(self.chain)) for i, x in zip(self.chain.qs, q, strict=False)]

    def _badness(self, errors: Sequence[Value]) -> Value:
        """The larger of the two errors, each against what may be left."""
        return trace.maximum(errors[0] / self._shared("pos_tol"), errors[1] / self._shared("rot_tol"))

    def _arrived(self, errors: Sequence[Value], taken: Value, shift: dict[int, Value]) -> Value:
        """1 where all goals are reached; with a posture, only once that is, too."""
        reached = trace.select(self._badness(errors), 1.0, 1.0, 0.0)
        if not self.record.posture:
            return reached
        largest: Value = 0.0
        for x in shift.values():
            largest = trace.maximum(largest, trace.absolute(x))
        return trace.select(largest, SETTLED, reached, 0.0)

    # ------------------------------------------------------------------------------------------------------- a step

    def _normal_equations(self, at: Posture, first: Value) -> tuple[Matrix, dict[int, Value], Value, list[Value]]:
        """J^T J and J^T e, the cost, and the largest errors of places and of angles."""
        matrix: Matrix = {}
        slope: dict[int, Value] = dict.fromkeys(self.chain.free, 0.0)
        cost: Value = 0.0
        squares: list[Value] = [0.0, 0.0]
        for goal, start in zip(self.record.goals, self.record.starts, strict=True):
            told = [self.recorder.read(TASKS, start + i, first) for i in range(goal.size)]
            off = goal.off(at, told)
            square = dot(off.missing, off.missing)
            squares[goal.turns] = _larger(squares[goal.turns], square)
            cost = cost + goal.weight * square
            heavy = [goal.weight * x for x in off.missing]
            dofs = sorted(off.columns)
            for k, i in enumerate(dofs):
                slope[i] = slope[i] + dot(off.columns[i], heavy)
                column = [goal.weight * x for x in off.columns[i]]
                for j in dofs[: k + 1]:
                    matrix[i, j] = matrix.get((i, j), 0.0) + dot(column, off.columns[j])
        return matrix, slope, cost, [trace.sqrt(x) for x in squares]

    def _bounds(self) -> tuple[dict[int, Value], dict[int, Value]]:
        free = self.chain.free
        lower, upper = ({d: self.recorder.read(name, i) for i, d in enumerate(free)} for name in ("lower", "upper"))
        return lower, upper

    def _shift(
        self, at: Posture, matrix: Matrix, slope: dict[int, Value], cost: Value, taken: Value, first: Value
    ) -> dict[int, Value]:
        """How far each free degree of freedom goes."""
        damping = self._shared("damping") + self._shared("slope") * cost
        if self.record.posture:
            left = trace.maximum(1.0 - taken / self._shared("n_steps"), 0.0)  # in the end only the goals count
            slope = self._with_posture(at, slope, damping * left * self._shared("posture_gain"), first)
        lower, upper = self._bounds()
        moves = {d: self._moves(at, d, slope[d], lower[d], upper[d]) for d in self.chain.free}
        masked = {(i, j): x if i == j else x * (moves[i] * moves[j]) for (i, j), x in matrix.items()}
        pushed = {d: moves[d] * x for d, x in slope.items()}
        found = solved(masked, pushed, damping)
        largest: Value = 0.0
        for x in found.values():
            largest = trace.maximum(largest, trace.absolute(x))
        most = self._shared("max_step")
        shorter = trace.select(most, largest, most / trace.maximum(largest, TINY), 1.0)
        return {d: shorter * x for d, x in found.items()}

    def _moves(self, at: Posture, dof: int, slope: Value, lower: Value, upper: Value) -> Value:
        """0 for what stands at a limit and is pushed against it, else 1."""
        place = int(self.chain.model.dofs.q_idx[dof])
        if place < 0:
            return 1.0
        q = at.q[place]
        below = trace.select(lower, q, 1.0, trace.select(slope, 0.0, 0.0, 1.0))
        return trace.select(q, upper, below, trace.select(0.0, slope, 0.0, below))

    def _with_posture(self, at: Posture, slope: dict[int, Value], pull: Value, first: Value) -> dict[int, Value]:
        """What the posture asks for, beside the goals."""
        result = dict(slope)
        for i, dof in enumerate(self.chain.free):
            place = int(self.chain.model.dofs.q_idx[dof])
            if place >= 0:
                wished = self.recorder.read(TASKS, self.record.wished + i, first)
                result[dof] = result[dof] + pull * (wished - at.q[place])
        return result


def _larger(a: Value, b: Value) -> Value:
    return b if isinstance(a, float) and a == 0.0 else trace.maximum(a, b)


def restarted(chain: Chain) -> set[int]:
    """The coordinates that are drawn anew for another start: turns and what has limits; not where a base is."""
    found = set()
    lower, upper = chain.bounds()
    for dof, low, high in zip(chain.free, lower, upper, strict=True):
        place, node = int(chain.model.dofs.q_idx[dof]), chain.tree.node_of(dof)
        slides = any(node.axis) and node.motion == 1
        if place >= 0 and not (slides and high - low > 1e6):
            found.add(place)
    return found


def solved(matrix: Matrix, right: dict[int, Value], damping: Value) -> dict[int, Value]:
    """Solve (A + damping) x = b for a symmetric A, given below its diagonal.

    The last rows are eliminated first: between branches of a tree there is nothing, and so it stays.
    """
    order = sorted(right, reverse=True)
    a = dict(matrix)
    b = dict(right)
    inverse: dict[int, Value] = {}
    factors: dict[int, list[tuple[int, Value]]] = {}
    for i in order:
        inverse[i] = 1.0 / (a.get((i, i), 0.0) + damping)
        above = [j for j in order if j < i and (i, j) in a]
        factors[i] = [(j, a[i, j] * inverse[i]) for j in above]
        for j, factor in factors[i]:
            b[j] = b[j] - factor * b[i]
            for k in above:
                if k <= j:
                    a[j, k] = a.get((j, k), 0.0) - factor * a[i, k]
    found: dict[int, Value] = {}
    for i in reversed(order):
        found[i] = b[i] * inverse[i] - sum((factor * found[j] for j, factor in factors[i]), start=0.0)
    return found
