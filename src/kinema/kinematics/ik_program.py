"""Batched inverse kinematics by Levenberg-Marquardt with random restarts: the traced program and the compiled solver.

Each lane has a list of tasks (targets) and proceeds to the next task as soon as one is finished, so that lanes do not
wait for each other. An iteration minimises |J x - e|^2 + damping |x|^2 with the weighted residual e and its Jacobian J.
The damping has a part proportional to the cost: a gradient step far from the solution, a Gauss-Newton step near it.
Dofs at a limit that would be moved beyond it are left out of the step. A posture is a secondary objective whose weight
is the damping, so that it acts in the null space of the goals.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema import ir
from kinema.core import Array, KinemaError
from kinema.dynamics.vector_math import dot
from kinema.ir import UNIFORM, Program, Tracer, Value
from kinema.model import Model, PrimitiveJointType
from kinema.runtime import Arena, ArenaLayout, Device, Kernel, LaunchArguments, n_threads, synchronise

from .chain import ChainState, KinematicChain, apply_mimic_dofs, build_chain, mimic_dofs
from .goals import Goal

# ------------------------------------------------------------------------------------------------------- traced program

TASK_ARRAY, RESTART_ARRAY = "tasks", "restarts"
SHARED_INPUTS = (
    "n_targets",
    "n_steps",
    "n_attempts",
    "pos_tol",
    "rot_tol",
    "damping",
    "error_damping",
    "max_step",
    "posture_gain",
)
"""Scalar inputs shared by all lanes."""
UNTRIED_ERROR = 1e10
"""Error of a task before its first attempt."""
MAX_ITERATIONS = 2**30
"""Iteration bound of the loop over all tasks of a lane."""
STALL_RATIO = 0.95
"""An iteration counts as stalled if the cost is above this factor of the previous cost."""
MAX_STALLED_STEPS = 4.0
"""Consecutive stalled iterations after which an attempt ends."""
EPSILON = 1e-20
POSTURE_STEP_TOLERANCE = 2e-3
"""Largest step of a dof [rad or m] below which the posture objective counts as converged."""
LowerTriangle = dict[tuple[int, int], Value]
"""Nonzero entries (i, j) with j <= i of a symmetric matrix, by dof indices."""


@dataclass(slots=True, eq=False)
class TaskLayout:
    """Memory layout of one task: goal targets, coordinates (start, later result), errors and counters, posture."""

    chain: KinematicChain
    goals: Sequence[Goal]
    has_posture: bool
    """Whether each task has a posture for the free dofs."""
    goal_offsets: list[int] = field(default_factory=list)
    """Offset of the target values of each goal."""

    def __post_init__(self) -> None:
        self.goal_offsets = [sum(g.target_size for g in self.goals[:i]) for i in range(len(self.goals))]

    @property
    def q_offset(self) -> int:
        """Offset of the coordinates of the chain."""
        return sum(g.target_size for g in self.goals)

    @property
    def error_offset(self) -> int:
        """Offset of position error, orientation error, number of attempts and number of iterations."""
        return self.q_offset + len(self.chain.q_indices)

    @property
    def posture_offset(self) -> int:
        """Offset of the posture of the free dofs."""
        return self.error_offset + 4

    @property
    def size(self) -> int:
        """Number of values of a task."""
        return self.posture_offset + (len(self.chain.free_dofs) if self.has_posture else 0)


TARGET_ARRAY = "target"
"""Name of the input arrays of the targets of a single task, followed by the index of the goal."""


def trace_levenberg_marquardt(layout: TaskLayout) -> Program:
    """Trace the program that solves all tasks of a lane by Levenberg-Marquardt with restarts."""
    return _LevenbergMarquardt(layout).trace()


class _LevenbergMarquardt:
    """Builder of the traced Levenberg-Marquardt program."""

    def __init__(self, layout: TaskLayout) -> None:
        self.layout = layout
        self.chain = layout.chain
        self.tracer = Tracer()

    def trace(self) -> Program:
        """Trace the loop over all iterations of all tasks of a lane."""
        self._solve_tasks(MAX_ITERATIONS)
        return self.tracer.build()

    def _solve_tasks(self, max_iterations: int) -> None:
        tracer, layout = self.tracer, self.layout
        start = [tracer.read(TASK_ARRAY, layout.q_offset + i) for i in range(len(self.chain.q_indices))]
        tracer.while_loop(
            "all tasks", self._iteration, [0.0, 0.0, 0.0, UNTRIED_ERROR, 0.0, 0.0, *start], max_iterations
        )

    def trace_single_task(self, max_iterations: int) -> Program:
        """Trace the solution of one task whose targets are the arrays `target 0`, ...; the task is a local array.

        The array `q` holds all coordinates of the model, the start and then the solution, with mimic dofs applied; the
        array `result` gets position error, orientation error, attempts and iterations.
        """
        tracer, layout, chain = self.tracer, self.layout, self.chain
        tracer.locals[TASK_ARRAY] = 2 * layout.size  # the second task is read after the first one has ended
        targets: list[Value] = []
        for i, goal in enumerate(layout.goals):
            target = [tracer.read(f"{TARGET_ARRAY} {i}", k) for k in range(goal.target_size)]
            if goal.is_angular:
                inverse_norm = 1.0 / ir.sqrt(dot(target, target))
                target = [x * inverse_norm for x in target]
            targets += target
        lower, upper = self._limits()
        limits = {int(chain.model.dofs.q_idx[d]): (lower[d], upper[d]) for d in chain.free_dofs}
        start = [tracer.read("q", i) for i in chain.q_indices]
        start = [ir.clamp(x, *limits[i]) if i in limits else x for i, x in zip(chain.q_indices, start, strict=True)]
        tracer.write(TASK_ARRAY, [*targets, *start, UNTRIED_ERROR, UNTRIED_ERROR, 0.0, 0.0])
        tracer.write(TASK_ARRAY, [0.0] * layout.size, layout.size)
        tracer.new_basic_block()
        self._solve_tasks(max_iterations)
        solved = {i: tracer.read(TASK_ARRAY, layout.q_offset + k) for k, i in enumerate(chain.q_indices)}
        for dof, mimic in mimic_dofs(chain.model).items():
            leader = int(chain.model.dofs.q_idx[mimic.leader])
            position = solved[leader] if leader in solved else tracer.read("q", leader)
            solved[int(chain.model.dofs.q_idx[dof])] = mimic.position_and_slope(position)[0]
        for i, value in solved.items():
            tracer.write("q", [value], i)
        tracer.write("result", [tracer.read(TASK_ARRAY, layout.error_offset + i) for i in range(4)])
        return tracer.build()

    def _shared_input(self, name: str) -> Value:
        return self.tracer.read(name)

    def _iteration(self, state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        """One iteration on the current task: evaluate goals, take a damped step, end a converged or stalled attempt.

        The loop state is (task index, iterations of the attempt, attempt index, previous cost, stalled iterations,
        iterations of the task, coordinates). Returns the new state, and the two values compared by the loop condition
        (task index < n_targets).
        """
        task, n_iterations, attempt, previous_cost, n_stalled, total_iterations, *q = state
        chain_state, task_offset = ChainState(self.chain, q), task * float(self.layout.size)
        matrix, gradient, cost, errors = self._normal_equations(chain_state, task_offset)
        step = self._damped_step(chain_state, matrix, gradient, cost, n_iterations, task_offset)
        converged = self._converged(errors, n_iterations, step)
        new_q = chain_state.stepped_coordinates(step, *self._limits())
        n_stalled = ir.select(STALL_RATIO * previous_cost, cost, n_stalled + 1.0, 0.0)
        is_stuck = ir.select(n_iterations, self._shared_input("n_steps"), 0.0, 1.0)
        if not self.layout.has_posture:  # the posture converges after the goals
            is_stuck = ir.select(n_stalled, MAX_STALLED_STEPS, is_stuck, 1.0)
        next_state = [task, n_iterations + 1.0, attempt, cost, n_stalled, total_iterations + 1.0, *new_q]
        new_state = self.tracer.if_less(
            "attempt finished",
            0.5,
            converged + is_stuck,
            lambda: self._finish_attempt(task, attempt, total_iterations + 1.0, q, errors, task_offset),
            next_state,
        )
        return new_state, new_state[0], self._shared_input("n_targets")

    def _finish_attempt(
        self, task: Value, attempt: Value, steps: Value, q: Sequence[Value], errors: Sequence[Value], task_offset: Value
    ) -> list[Value]:
        """Store the result of an attempt if it is the best so far, and return the loop state of the next attempt.

        The next attempt restarts the same task (target) from a random configuration, or starts the next task if the
        goals are reached or no attempts are left.
        """
        tracer, layout = self.tracer, self.layout
        old_errors = [tracer.read(TASK_ARRAY, layout.error_offset + i, task_offset) for i in range(2)]
        old_q = [tracer.read(TASK_ARRAY, layout.q_offset + i, task_offset) for i in range(len(q))]
        old_error, new_error = self._relative_error(old_errors), self._relative_error(errors)
        best = [
            ir.select(new_error, old_error, x, y) for x, y in zip([*q, *errors], [*old_q, *old_errors], strict=True)
        ]
        tracer.write(TASK_ARRAY, [*best, attempt + 1.0, steps], layout.q_offset, task_offset)
        is_done = ir.select(new_error, 1.0, 1.0, ir.select(attempt + 1.5, self._shared_input("n_attempts"), 0.0, 1.0))
        next_offset = task_offset + float(layout.size)
        restart_offset = attempt * float(len(q))
        next_q = self.tracer.if_less(
            "next task",
            0.5,
            is_done,
            lambda: [tracer.read(TASK_ARRAY, layout.q_offset + i, next_offset) for i in range(len(q))],
            [
                x if keep else self.tracer.read(RESTART_ARRAY, i, restart_offset)
                for i, (x, keep) in enumerate(self._coordinates_to_keep(best))
            ],
        )
        return [
            task + is_done,
            0.0,
            ir.select(0.5, is_done, 0.0, attempt + 1.0),
            UNTRIED_ERROR,
            0.0,
            ir.select(0.5, is_done, 0.0, steps),
            *next_q,
        ]

    def _coordinates_to_keep(self, q: Sequence[Value]) -> list[tuple[Value, bool]]:
        """Pairs (coordinate, whether it keeps its value in a restart)."""
        return [(x, i not in restart_coordinates(self.chain)) for i, x in zip(self.chain.q_indices, q, strict=False)]

    def _relative_error(self, errors: Sequence[Value]) -> Value:
        """Larger of position error and orientation error, each divided by its tolerance."""
        return ir.maximum(errors[0] / self._shared_input("pos_tol"), errors[1] / self._shared_input("rot_tol"))

    def _converged(self, errors: Sequence[Value], n_steps: Value, step: dict[int, Value]) -> Value:
        """1 if all goals are within tolerance and, with a posture, the step is small, else 0."""
        reached = ir.select(self._relative_error(errors), 1.0, 1.0, 0.0)
        if not self.layout.has_posture:
            return reached
        largest: Value = 0.0
        for x in step.values():
            largest = ir.maximum(largest, ir.absolute(x))
        return ir.select(largest, POSTURE_STEP_TOLERANCE, reached, 0.0)

    # ---------------------------------------------------------------------------------------------------- iteration

    def _normal_equations(
        self, state: ChainState, task_offset: Value
    ) -> tuple[LowerTriangle, dict[int, Value], Value, list[Value]]:
        """Weighted normal equations of all goals: J^T W J (lower triangle), J^T W e, cost e^T W e, and errors.

        The errors are the largest norm of the residuals of position-type goals [m] and of angular goals [rad].
        """
        matrix: LowerTriangle = {}
        gradient: dict[int, Value] = dict.fromkeys(self.chain.free_dofs, 0.0)
        cost: Value = 0.0
        squares: list[Value] = [0.0, 0.0]
        for goal, start in zip(self.layout.goals, self.layout.goal_offsets, strict=True):
            target = [self.tracer.read(TASK_ARRAY, start + i, task_offset) for i in range(goal.target_size)]
            evaluation = goal.evaluate(state, target)
            square = dot(evaluation.residual, evaluation.residual)
            squares[goal.is_angular] = _larger_or_first(squares[goal.is_angular], square)
            cost = cost + goal.weight * square
            weighted_residual = [goal.weight * x for x in evaluation.residual]
            dofs = sorted(evaluation.jacobian)
            for k, i in enumerate(dofs):
                gradient[i] = gradient[i] + dot(evaluation.jacobian[i], weighted_residual)
                column = [goal.weight * x for x in evaluation.jacobian[i]]
                for j in dofs[: k + 1]:
                    matrix[i, j] = matrix.get((i, j), 0.0) + dot(column, evaluation.jacobian[j])
        return matrix, gradient, cost, [ir.sqrt(x) for x in squares]

    def _limits(self) -> tuple[dict[int, Value], dict[int, Value]]:
        free = self.chain.free_dofs
        lower, upper = ({d: self.tracer.read(name, i) for i, d in enumerate(free)} for name in ("lower", "upper"))
        return lower, upper

    def _damped_step(
        self,
        state: ChainState,
        matrix: LowerTriangle,
        gradient: dict[int, Value],
        cost: Value,
        n_steps: Value,
        task_offset: Value,
    ) -> dict[int, Value]:
        """Levenberg-Marquardt step of each free dof, with limited dofs masked out and scaled to the maximum step size.

        Solves (J^T W J + damping I) x = J^T W e, plus the posture term. Dofs at a limit get x = 0 if the right-hand
        side points beyond the limit.
        """
        damping = self._shared_input("damping") + self._shared_input("error_damping") * cost
        if self.layout.has_posture:
            posture_factor = ir.maximum(
                1.0 - n_steps / self._shared_input("n_steps"), 0.0
            )  # fades out over the iterations
            gradient = self._add_posture_gradient(
                state, gradient, damping * posture_factor * self._shared_input("posture_gain"), task_offset
            )
        lower, upper = self._limits()
        mask = {d: self._limit_mask(state, d, gradient[d], lower[d], upper[d]) for d in self.chain.free_dofs}
        masked = {(i, j): x if i == j else x * (mask[i] * mask[j]) for (i, j), x in matrix.items()}
        masked_gradient = {d: mask[d] * x for d, x in gradient.items()}
        step = solve_damped_ldl(masked, masked_gradient, damping)
        largest: Value = 0.0
        for x in step.values():
            largest = ir.maximum(largest, ir.absolute(x))
        max_step = self._shared_input("max_step")
        scale = ir.select(max_step, largest, max_step / ir.maximum(largest, EPSILON), 1.0)
        return {d: scale * x for d, x in step.items()}

    def _limit_mask(self, state: ChainState, dof: int, gradient: Value, lower: Value, upper: Value) -> Value:
        """0 for a dof at or beyond a limit whose right-hand side `gradient` points further beyond it, else 1."""
        q_index = int(self.chain.model.dofs.q_idx[dof])
        if q_index < 0:
            return 1.0
        q = state.q[q_index]
        below = ir.select(lower, q, 1.0, ir.select(gradient, 0.0, 0.0, 1.0))
        return ir.select(q, upper, below, ir.select(0.0, gradient, 0.0, below))

    def _add_posture_gradient(
        self, state: ChainState, gradient: dict[int, Value], gain: Value, task_offset: Value
    ) -> dict[int, Value]:
        """Right-hand side J^T W e plus gain times (posture - coordinate), for each free scalar dof."""
        result = dict(gradient)
        for i, dof in enumerate(self.chain.free_dofs):
            q_index = int(self.chain.model.dofs.q_idx[dof])
            if q_index >= 0:
                desired = self.tracer.read(TASK_ARRAY, self.layout.posture_offset + i, task_offset)
                result[dof] = result[dof] + gain * (desired - state.q[q_index])
        return result


def _larger_or_first(a: Value, b: Value) -> Value:
    return b if isinstance(a, float) and a == 0.0 else ir.maximum(a, b)


def restart_coordinates(chain: KinematicChain) -> set[int]:
    """Indices of the coordinates that are drawn at random in a restart: free scalar dofs except unlimited slides.

    Unlimited slides are base positions.
    """
    coordinates = set()
    lower, upper = chain.free_dof_limits()
    for dof, low, high in zip(chain.free_dofs, lower, upper, strict=True):
        q_index, node = int(chain.model.dofs.q_idx[dof]), chain.tree.frame_of_dof(dof)
        is_slide = any(node.axis) and node.joint_type == 1
        if q_index >= 0 and not (is_slide and high - low > 1e6):
            coordinates.add(q_index)
    return coordinates


def solve_damped_ldl(matrix: LowerTriangle, right_hand_side: dict[int, Value], damping: Value) -> dict[int, Value]:
    """Solve (A + damping I) x = b for a symmetric sparse A given by its lower triangle, by LDL factorisation.

    Rows are eliminated from last to first, so that entries between different branches of the kinematic tree stay zero
    (no fill-in).
    """
    order = sorted(right_hand_side, reverse=True)
    a = dict(matrix)
    b = dict(right_hand_side)
    inverse: dict[int, Value] = {}
    factors: dict[int, list[tuple[int, Value]]] = {}
    for i in order:
        inverse[i] = 1.0 / (a.get((i, i), 0.0) + damping)
        neighbors = [j for j in order if j < i and (i, j) in a]
        factors[i] = [(j, a[i, j] * inverse[i]) for j in neighbors]
        for j, factor in factors[i]:
            b[j] = b[j] - factor * b[i]
            for k in neighbors:
                if k <= j:
                    a[j, k] = a.get((j, k), 0.0) - factor * a[i, k]
    solution: dict[int, Value] = {}
    for i in reversed(order):
        solution[i] = b[i] * inverse[i] - sum((factor * solution[j] for j, factor in factors[i]), start=0.0)
    return solution


# ------------------------------------------------------------------------------------------------------- shared inputs

N_RESTARTS = 100
"""Number of random restart configurations."""
MAX_TARGETS_PER_LANE = 48
"""Maximum number of targets per lane: enough for lanes to finish at about the same time."""
GPU_LANES = 16_384
"""Number of lanes that fills a GPU."""


@dataclass(frozen=True, kw_only=True, slots=True)
class IKOptions:
    """Options of inverse kinematics."""

    pos_tol: float = 1e-4
    """Tolerance of the largest position error [m]."""
    rot_tol: float = 1e-3
    """Tolerance of the largest orientation error [rad]."""
    max_solver_iters: int = 30
    """Maximum iterations per attempt."""
    max_samples: int = 50
    """Maximum number of attempts, the one from the given start included."""
    damping: float = 1e-3
    """Constant damping; its square is the weight of |step|^2 relative to the squared residuals."""
    error_damping: float = 0.1
    """Factor of the damping part that is proportional to the cost."""
    max_step_size: float = 1.0
    """Maximum step of a dof in one iteration [rad or m]."""
    posture_gain: float = 0.3
    """Fraction of the difference to the posture that one iteration removes."""
    respect_joint_limit: bool = True
    """Whether solutions stay within joint limits."""
    seed: int = 0
    """Seed of the random restarts."""


IK_METHODS: dict[str, dict[str, float]] = {
    "lm": {},
    "dls": {"damping": 3e-2, "error_damping": 0.0},
    "gauss-newton": {"damping": 3e-4, "error_damping": 0.0, "max_step_size": 0.5},
}
"""Method -> options: Levenberg-Marquardt, damped least squares (constant damping), Gauss-Newton (almost no damping)."""


def shared_input_sizes(chain: KinematicChain) -> list[tuple[str, int]]:
    """Names and sizes of the inputs that all lanes share, in memory order."""
    n_free = len(chain.free_dofs)
    restarts = (RESTART_ARRAY, len(chain.q_indices) * (N_RESTARTS + 1))
    return [*((name, 1) for name in SHARED_INPUTS), ("lower", n_free), ("upper", n_free), restarts]


def shared_input_values(chain: KinematicChain, options: IKOptions, n_targets: int, restarts: Array) -> Array:
    """Values of the inputs that all lanes share: options, joint limits and restart configurations, flat.

    Args:
        chain: the kinematic chain.
        options: options of the solver.
        n_targets: targets per lane.
        restarts: restart configurations (`draw_restarts`).
    """
    values = {
        "n_targets": n_targets,
        "n_steps": options.max_solver_iters,
        "n_attempts": min(options.max_samples, N_RESTARTS + 1),
        "pos_tol": options.pos_tol,
        "rot_tol": options.rot_tol,
        "damping": options.damping**2,
        "error_damping": options.error_damping,
        "max_step": options.max_step_size,
        "posture_gain": options.posture_gain,
    }
    lower, upper = chain.free_dof_limits()
    if not options.respect_joint_limit:
        lower, upper = np.full_like(lower, -1e30), np.full_like(upper, 1e30)
    arrays = {**values, "lower": lower, "upper": upper, RESTART_ARRAY: restarts.ravel()}
    return np.concatenate([np.atleast_1d(np.asarray(arrays[name], float)) for name, _ in shared_input_sizes(chain)])


def draw_restarts(chain: KinematicChain, seed: int) -> Array:
    """Random restart configurations of a chain, (N_RESTARTS + 1, n_qs of the chain), uniform between limits.

    Unlimited hinges, and hinges with a range above 2 pi, are drawn within +-pi of qpos0 and within their limits;
    unlimited slides, quaternions and fixed coordinates keep qpos0. The last row pads the table.
    """
    rng, model = np.random.default_rng(seed), chain.model
    starts = np.tile(model.qpos0[chain.q_indices], (N_RESTARTS + 1, 1))
    lower, upper = chain.free_dof_limits()
    sampled = restart_coordinates(chain)
    for dof, low, high in zip(chain.free_dofs, lower, upper, strict=True):
        q_index = int(model.dofs.q_idx[dof])
        if q_index not in sampled:
            continue
        if high - low > 1e6 or (
            high - low > 2 * np.pi and chain.tree.frame_of_dof(dof).joint_type == PrimitiveJointType.HINGE
        ):
            center = float(np.clip(model.qpos0[q_index], low + np.pi, high - np.pi))
            low, high = center - np.pi, center + np.pi
        starts[:, chain.q_indices.index(q_index)] = rng.uniform(low, high, N_RESTARTS + 1)
    return starts


@dataclass(frozen=True, slots=True, eq=False)
class SingleTaskIK:
    """Inverse kinematics of one target at a time, for compiled libraries: the program and its shared inputs."""

    program: Program
    parameters: ArenaLayout
    """Layout of the shared inputs."""
    values: Array
    """Values of the shared inputs."""


def trace_single_task_ik(model: Model, goals: Sequence[Goal], options: IKOptions) -> SingleTaskIK:
    """Trace inverse kinematics of one target of each goal (`_LevenbergMarquardt.trace_single_task`)."""
    chain = build_chain(model, [goal.link_idx for goal in goals], None, whole_model=False)
    n_attempts = min(options.max_samples, N_RESTARTS + 1)
    solver = _LevenbergMarquardt(TaskLayout(chain, goals, has_posture=False))
    program = solver.trace_single_task(n_attempts * (options.max_solver_iters + 1))
    values = shared_input_values(chain, options, 1, draw_restarts(chain, options.seed))
    return SingleTaskIK(program, ArenaLayout.from_sizes(UNIFORM, shared_input_sizes(chain)), values)


# ------------------------------------------------------------------------------------------------------ compiled solver


@dataclass(frozen=True, slots=True)
class IKSolutions:
    """Solutions of inverse kinematics, one row for each target."""

    qpos: Array
    """Configurations, (n, n_qs); the best found if a target was not reached."""
    solved: np.ndarray
    """Whether both errors are below their tolerances, (n,)."""
    pos_error: Array
    """Largest position error [m], (n,)."""
    rot_error: Array
    """Largest orientation error [rad], (n,)."""
    attempts: np.ndarray
    """Number of attempts, (n,)."""
    iterations: np.ndarray
    """Iterations of all attempts, (n,)."""


class CompiledIK:
    """Compiled inverse kinematics for a fixed set of goals; `solve` runs it for a batch of targets."""

    def __init__(
        self,
        model: Model,
        goals: Sequence[Goal],
        device: Device,
        *,
        dofs: Sequence[int] | None = None,
        has_posture: bool = False,
        precision: str = "single",
        threads: int | None = None,
    ) -> None:
        """Build the kinematic chain of the goals, trace and compile the Levenberg-Marquardt program.

        Args:
            model: the model.
            goals: the goals.
            device: CPU or GPU.
            dofs: dofs that may move; None for all that move the links of the goals.
            has_posture: whether each target has a posture.
            precision: `single` or `double`.
            threads: maximum number of CPU threads; None for all cores.
        """
        if not goals:
            raise KinemaError("inverse kinematics: no goals are given")
        links = [g.link_idx for g in goals if g.link_idx >= 0]
        self.model = model
        self.device = device
        self.precision = precision
        self.threads = threads
        self.chain: KinematicChain = build_chain(model, links, dofs, whole_model=any(g.uses_whole_model for g in goals))
        self.task_layout = TaskLayout(self.chain, goals, has_posture)
        self._uniform = Arena(ArenaLayout.from_sizes(UNIFORM, shared_input_sizes(self.chain)), 1, device, precision)
        self._empty_output = Arena(ArenaLayout("out"), 1, device, precision)
        self._empty_controls = Arena(ArenaLayout("controls"), 1, device, precision)
        array_offsets = {
            **self._uniform.layout.offsets(),
            **ArenaLayout.from_sizes("state", [(TASK_ARRAY, 0)]).offsets(),
        }
        self.kernel = Kernel(trace_levenberg_marquardt(self.task_layout), array_offsets, device, precision)
        self._task_memory: Arena | None = None
        self._restarts: tuple[int, Array] | None = None

    def solve(
        self, targets: Sequence[Array], qpos: Array, options: IKOptions, posture: Array | None = None
    ) -> IKSolutions:
        """Solve inverse kinematics for a batch of n targets.

        Args:
            targets: target values of each goal, (n, target_size).
            qpos: initial configurations, (n, n_qs).
            options: options of the solver.
            posture: configurations that the null space of the goals tends to, (n, n_qs); None for the initial ones.
        """
        n = len(qpos)
        n_lanes, targets_per_lane = self._split_targets(n)
        qpos = self._clamp_to_limits(qpos) if options.respect_joint_limit else qpos
        tasks = self._pack_tasks(targets, qpos, posture, n_lanes * targets_per_lane)
        memory = self._memory_for(n_lanes, targets_per_lane + 1)
        size = self.task_layout.size
        grid = np.zeros((targets_per_lane + 1, size, n_lanes), memory.dtype)
        grid[:targets_per_lane] = tasks.reshape(targets_per_lane, n_lanes, size).transpose(0, 2, 1)
        rows = (targets_per_lane + 1) * size
        memory.view(TASK_ARRAY).assign(grid.reshape(rows, n_lanes))
        self._write_shared_inputs(options, targets_per_lane)
        self.kernel.prepare_launch(
            LaunchArguments(
                memory, self._empty_controls.data, self._empty_output, self._uniform, max_threads=self.threads
            )
        )()
        synchronise(self.device)
        solved = memory.view(TASK_ARRAY).numpy().reshape(targets_per_lane + 1, size, n_lanes)[:targets_per_lane]
        return self._unpack_solutions(
            solved.transpose(0, 2, 1).reshape(targets_per_lane * n_lanes, size)[:n], qpos, options
        )

    def _split_targets(self, n_targets: int) -> tuple[int, int]:
        """Number of lanes, and number of targets per lane."""
        if self.device.is_cpu:
            width = self.kernel.lanes * (self.threads or n_threads())
            targets_per_lane = min(MAX_TARGETS_PER_LANE, max(1, n_targets // width))
        else:
            targets_per_lane = min(MAX_TARGETS_PER_LANE, max(1, n_targets // GPU_LANES))
        return -(-n_targets // targets_per_lane), targets_per_lane

    def _clamp_to_limits(self, qpos: Array) -> Array:
        """Configurations with the free scalar coordinates clamped to their limits."""
        q_indices, result = self.model.dofs.q_idx[self.chain.free_dofs], np.array(qpos, np.float64)
        lower, upper = (x[q_indices >= 0] for x in self.chain.free_dof_limits())
        result[:, q_indices[q_indices >= 0]] = np.clip(result[:, q_indices[q_indices >= 0]], lower, upper)
        return result

    def _pack_tasks(self, targets: Sequence[Array], qpos: Array, posture: Array | None, n_tasks: int) -> Array:
        """Input array of the solver, (n_tasks, task size): targets, initial configurations, errors and postures.

        Padded with copies of the last task.
        """
        n, chain = len(qpos), self.chain
        parts = [*targets, qpos[:, chain.q_indices], np.tile([UNTRIED_ERROR, UNTRIED_ERROR, 0.0, 0.0], (n, 1))]
        if self.task_layout.has_posture:
            desired = qpos if posture is None else posture
            q_indices = chain.model.dofs.q_idx[chain.free_dofs]
            parts.append(np.where(q_indices >= 0, desired[:, q_indices], 0.0))
        tasks = np.concatenate(parts, axis=1)
        return tasks if n_tasks == n else np.concatenate([tasks, np.repeat(tasks[-1:], n_tasks - n, axis=0)])

    def _memory_for(self, lanes: int, targets_per_lane: int) -> Arena:
        """Arena for the tasks of all lanes, reused if its size is unchanged."""
        layout = ArenaLayout.from_sizes("state", [(TASK_ARRAY, targets_per_lane * self.task_layout.size)])
        if self._task_memory is None or (self._task_memory.n_envs, self._task_memory.layout.n_rows) != (
            lanes,
            layout.n_rows,
        ):
            self._task_memory = Arena(layout, lanes, self.device, self.precision)
        return self._task_memory

    def _write_shared_inputs(self, options: IKOptions, targets_per_lane: int) -> None:
        """Write options, joint limits and restart configurations to the arrays shared by all SIMD lanes."""
        if self._restarts is None or self._restarts[0] != options.seed:
            self._restarts = options.seed, draw_restarts(self.chain, options.seed)
        flat = shared_input_values(self.chain, options, targets_per_lane, self._restarts[1])
        if self.device.is_cpu:
            self._uniform.data[:] = flat
        else:
            self._uniform.data.assign(flat.astype(self._uniform.dtype))

    def _unpack_solutions(self, tasks: Array, qpos: Array, options: IKOptions) -> IKSolutions:
        """Convert solved tasks to `IKSolutions`: full configurations with mimic dofs applied, errors and counters."""
        layout = self.task_layout
        q = np.array(qpos, np.float64)
        q[:, self.chain.q_indices] = tasks[:, layout.q_offset : layout.error_offset]
        pos, rot, attempts, iterations = tasks[:, layout.error_offset : layout.error_offset + 4].T.astype(np.float64)
        solved = (pos < options.pos_tol) & (rot < options.rot_tol)
        return IKSolutions(
            apply_mimic_dofs(self.model, q), solved, pos, rot, attempts.astype(int), iterations.astype(int)
        )
