"""Reverse mode for the Jacobian of a step: a direction for each next velocity and activation, in SIMD lanes.

On a CPU the adjoint program is split into a uniform part, which is executed once per environment by scalar code, and a
varying part, which is executed for all directions (`ir/uniform_split.py`). Elsewhere, and where it cannot be split, all
directions execute the whole program.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, NamedTuple

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.ir import ADJOINT_PREFIX, ArenaOffset
from kinema.runtime import (
    ENV_ALIGNMENT,
    Arena,
    ArenaLayout,
    Kernel,
    LaunchArguments,
    ProgramSource,
    n_threads,
    padded_stride,
    run_in_threads,
)

from ..extensions import program_key
from ..lowering.derivative_programs import (
    OVERFLOW_ARRAY,
    STATE_ADJOINTS,
    UNCONVERGED_ARRAY,
    adjoint_arena_arrays,
    trace_step_adjoint,
    trace_step_adjoint_split,
)
from ..lowering.jacobian_assembly import ASSEMBLY_OFFSETS, AssemblyLayout, trace_jacobian_assembly
from .solved_step import ARENAS, DerivativeProgram, IndexArray, SolvedStep, compile_derivative, new_arena
from .tangent_space import TangentSpace

if TYPE_CHECKING:
    from kinema.ir import SplitProgram

BoolArray = npt.NDArray[np.bool_]
NEXT_VELOCITIES = "velocities after the step"
"""Rows of memory for the next velocities of one environment, side by side."""
FLAGS = [(OVERFLOW_ARRAY, 1), (UNCONVERGED_ARRAY, 1)]


class DirectionLanes:
    """Memory of a derivative program with several directions per environment: arrays and their derivatives.

    The directions of an environment are side by side, and have the same state and inputs.
    """

    def __init__(self, step: SolvedStep, prefix: str, sizes: Mapping[str, list[tuple[str, int]]], n: int) -> None:
        """Allocate the memory.

        Args:
            step: the step that is differentiated, with a number of environments.
            prefix: prefix of the names of the arrays of derivatives.
            sizes: names and sizes of all arrays of each arena: those of the step, then their derivatives.
            n: number of directions of each environment.
        """
        self.n_envs, self.n_directions, self._prefix, self._step = step.arenas["state"].n_envs, n, prefix, step
        self.arenas = {a: new_arena(step.engine, a, sizes[a], self.n_envs * n) for a in ARENAS}
        self._values: dict[str, tuple[Arena, Arena, np.ndarray, np.ndarray]] = {}
        """Arena -> that of the step, that of the lanes, and values and derivatives on the host, (rows, n_envs, n)."""
        for name, arena in self.arenas.items():
            n_rows, source = step.arenas[name].layout.n_rows, step.arenas[name]
            data = (
                arena.data if isinstance(arena.data, np.ndarray) else np.zeros((2 * n_rows, arena.stride), arena.dtype)
            )
            lanes = data[: 2 * n_rows, : self.n_envs * n].reshape(2 * n_rows, self.n_envs, n)
            self._values[name] = source, arena, lanes[:n_rows], lanes[n_rows:]
        self._initial = {name: np.zeros_like(x[3][:, 0]) for name, x in self._values.items()}
        """Initial derivatives of all arrays of an arena, (rows, n)."""

    def set_initial_derivatives(self, arena: str, array: str, derivatives: Array) -> None:
        """Set the derivatives that an array gets with each `load`, (elements, n_directions)."""
        row, n = self._step.arenas[arena].layout.rows[array]
        self._initial[arena][row : row + n] = derivatives

    def load(self) -> None:
        """Copy state and inputs of the step to all directions, and set the initial derivatives."""
        for name, (source, _, values, derivatives) in self._values.items():
            if len(values):
                values[:] = source.rows(0, len(values)).numpy()[:, :, None]
                derivatives[:] = self._initial[name][:, None, :]

    def load_solution(self) -> None:
        """Copy the solution of the constraint solver, after a stage of the step, to all directions."""
        if self._step.solution is None:
            return
        _, arena, values, _ = self._values["state"]
        for name in ("warm_start", "n_iterations"):
            row, n = self._step.arenas["state"].layout.rows[name]
            values[row : row + n] = self._step.arenas["state"].view(name).numpy()[:, :, None]
            if not isinstance(arena.data, np.ndarray):
                arena.rows(row, n).assign(values[row : row + n].reshape(n, -1))

    def upload(self) -> None:
        """Copy all that was loaded to the device, unless it shares the memory of the host."""
        for _, arena, values, derivatives in self._values.values():
            if len(values) and not isinstance(arena.data, np.ndarray):
                both = np.concatenate([values, derivatives])
                arena.rows(0, len(both)).assign(both.reshape(len(both), -1))

    def derivatives(self, arena: str, array: str) -> Array:
        """Derivatives of an array before the program runs, to be changed before `upload`, (elements, n_envs, n)."""
        row, n = self._step.arenas[arena].layout.rows[array]
        return self._values[arena][3][row : row + n]

    def result(self, arena: str, array: str) -> Array:
        """Derivatives of an array after the program has run, (elements, n_envs, n_directions)."""
        data = self.arenas[arena].data
        if not isinstance(data, np.ndarray):
            view = self.arenas[arena].view(self._prefix + array).numpy()
            return view.reshape(len(view), self.n_envs, self.n_directions)
        return self.derivatives(arena, array)

    def values(self, array: str) -> Array:
        """Values of a state array, (elements, n_envs)."""
        view = self.arenas["state"].view(array).numpy()
        return np.array(view[:, :: self.n_directions], np.float64)


class StateJacobian(NamedTuple):
    """Jacobian of the next state of several environments."""

    by_state: Array
    """(n_envs, n_state, n_state)."""
    by_controls: Array
    """(n_envs, n_state, n_controls)."""
    finite: BoolArray
    """Whether all entries are finite, (n_envs,)."""
    converged: BoolArray
    """Whether the constraint solver converged in fewer than its maximum of iterations, (n_envs,)."""

    @classmethod
    def from_packed(cls, matrices: Array, converged: BoolArray) -> StateJacobian:
        """Jacobian from matrices (n_envs, n_state, n_state + n_controls)."""
        n_state = matrices.shape[1]
        return cls(matrices[:, :, :n_state], matrices[:, :, n_state:], are_finite(matrices), converged)


def are_finite(matrices: Array) -> BoolArray:
    """Whether all entries of each matrix (n, rows, columns) are finite: otherwise their sum is not."""
    return np.asarray(np.isfinite(matrices.reshape(len(matrices), -1).sum(axis=1)))


class AdjointDirections:
    """Directions of the reverse mode: next velocities and activations, and the rows of their Jacobian."""

    def __init__(self, step: SolvedStep, activations: IndexArray, control_array: str) -> None:
        """Find the rows; `activations` are the actuators with a state."""
        self.step, self.activations = step, activations
        model, self.space = step.engine.model, TangentSpace(step.engine.model)
        self.n = max(model.n_dofs + len(activations), 1)
        """Number of directions."""
        self.n_results = model.n_dofs + len(activations)
        self.control_array = control_array
        self.control_arena = "controls" if control_array in step.arenas["controls"].layout.rows else "state"
        self.n_controls = step.arenas[self.control_arena].layout.rows.get(control_array, (0, 0))[1]

    def initial_derivatives(self) -> dict[str, Array]:
        """Adjoints of state arrays after the step, (elements, n)."""
        model, directions = self.step.engine.model, np.eye(self.n)
        initial = {"vel": directions[: model.n_dofs]}
        if len(self.activations):
            seeds = np.zeros((model.n_actuators, self.n))
            seeds[self.activations] = directions[model.n_dofs :]
            initial["act"] = seeds
        return initial

    def jacobian(self, qpos: Array, result: Callable[[str, str], Array]) -> StateJacobian:
        """Jacobian of the next state by state and controls.

        Args:
            qpos: coordinates before the step, (n_qs, n_envs).
            result: function from arena and array to its adjoints, (elements, n_envs, n).
        """
        space, by_qpos = self.space, result("state", "qpos")
        positions = np.zeros((space.n_dofs, *by_qpos.shape[1:]))
        positions[space.scalar_dofs] = by_qpos[space.scalar_qs]
        if len(space.ball_qs):
            positions[space.ball_dofs] = np.einsum("ebij,bier->bjer", space.ball_bases(qpos), by_qpos[space.ball_qs])
        parts = [positions, result("state", "vel")]
        if len(self.activations):
            parts.append(result("state", "act")[self.activations])
        if self.n_controls:
            parts.append(result(self.control_arena, self.control_array))
        rows = np.concatenate(parts).transpose(1, 2, 0)[:, : self.n_results]
        velocity = np.array(self.step.arenas["state"].view("vel").numpy(), np.float64)
        by_velocity = space.integration_jacobian(velocity, self.step.settings.dt, rows[:, : space.n_dofs])
        matrices = np.concatenate([by_velocity, rows], axis=1)
        return StateJacobian.from_packed(matrices, self.step.converged)


class StepAdjoints:
    """Adjoint program of a step that all directions execute as environments of their own."""

    def __init__(self, directions: AdjointDirections) -> None:
        """Compile the program."""
        self._directions, self.step = directions, directions.step
        engine, settings, n = self.step.engine, self.step.settings, directions.n
        model, loops = engine.model, engine.uses_loops
        sizes = {a: adjoint_arena_arrays(a, model, settings) for a in ARENAS}
        self._lanes = DirectionLanes(self.step, ADJOINT_PREFIX, sizes, n)
        for array, values in directions.initial_derivatives().items():
            self._lanes.set_initial_derivatives("state", array, values)
        self._flags = new_arena(engine, "out", FLAGS, self.step.arenas["state"].n_envs * n)
        self._qpos = np.zeros((model.n_qs, self.step.arenas["state"].n_envs))
        """Coordinates before the step."""
        self._program = DerivativeProgram(
            engine,
            "adjoint",
            {**self._lanes.arenas, "out": self._flags},
            lambda offsets: trace_step_adjoint(model, settings, offsets, loops=loops),
            settings,
        )

    def load(self) -> None:
        """Copy state and inputs before the step."""
        self._lanes.load()
        self._lanes.upload()
        self._qpos = np.array(self.step.arenas["state"].view("qpos").numpy(), np.float64)

    def run(self) -> StateJacobian | None:
        """Jacobian of the next state after the step has run; None if a loop had more iterations than the tape holds."""
        self._lanes.load_solution()
        overflow = self._flags.view(OVERFLOW_ARRAY)
        overflow.assign(np.zeros(overflow.shape))
        self._program.run()
        return None if overflow.numpy().any() else self._directions.jacobian(self._qpos, self._lanes.result)


class SplitStepAdjoints:
    """Uniform and varying part of the adjoint program of a step, executed for one environment after the other."""

    def __init__(self, directions: AdjointDirections) -> None:
        """Compile the programs."""
        self.directions, self.step = directions, directions.step
        engine, settings = self.step.engine, self.step.settings
        sizes = {a: adjoint_arena_arrays(a, engine.model, settings) for a in ARENAS}
        sizes["state"] += [
            (STATE_ADJOINTS, directions.space.n_dofs + directions.n_results),
            (NEXT_VELOCITIES, -(-directions.space.n_dofs // ENV_ALIGNMENT) or 1),
        ]
        n_envs = self.step.arenas["state"].n_envs
        self._inputs = {a: new_arena(engine, a, sizes[a], n_envs) for a in ARENAS}
        """State and inputs of the uniform part."""
        self._flags = new_arena(engine, "out", FLAGS, n_envs)
        arenas = {**self._inputs, "out": self._flags}
        traced: list[SplitProgram] = []

        def split(offsets: Mapping[str, ArenaOffset]) -> SplitProgram:
            """Both parts of the program, traced once."""
            if not traced:
                traced.append(trace_step_adjoint_split(engine.model, settings, offsets, loops=engine.uses_loops))
            return traced[0]

        self.uniform = compile_derivative(
            engine, "adjoint_uniform", arenas, lambda offsets: split(offsets).uniform, settings, lanes=1
        )
        self.is_split = self.uniform.n_instructions > 0
        """Whether the program could be split."""
        if not self.is_split:
            return
        lanes = engine.device.lanes(engine.precision, directions.n, 1)
        self.varying = compile_derivative(
            engine, "adjoint_varying", arenas, lambda offsets: split(offsets).varying, settings, lanes=lanes
        )
        self.layout = self._assembly_layout(sizes)
        n = self.layout.n_state
        source = ProgramSource(
            lambda: trace_jacobian_assembly(self.layout),
            program_key("jacobian_assembly", self.layout),
            f"{engine.name}_jacobian_assembly",
        )
        self.assembly = Kernel(source, ASSEMBLY_OFFSETS, engine.device, engine.precision, lanes=1, n_envs=1, wait=True)
        dtype = self.step.arenas["state"].dtype
        self.jacobians = np.zeros((n_envs, self.layout.size), dtype)
        """Memory for the results of `trace_jacobian_assembly`."""
        n_workers = max(1, min(engine.threads or n_threads(), n_envs))
        launches = LaunchArguments(self._inputs["state"], self._inputs["controls"].data, self._flags, engine.uniform)
        self._copies = [
            (arena.data[: len(self.step.arenas[name].data)], self.step.arenas[name].data)
            for name, arena in self._inputs.items()
        ]
        """State and inputs: memory of the uniform part and of the step."""
        first, end = self.step.solution_rows
        self._solution = self._inputs["state"].data[first:end], self.step.arenas["state"].data[first:end]
        """Solution of the constraint solver: memory of the uniform part and of the step."""
        self._flag_values = self._flags.data[: len(FLAGS), :n_envs]
        self._all_converged = np.ones(n_envs, np.bool_)
        self._shapes = (n_envs, n, n), (n_envs, n, self.layout.n_controls)
        """Shapes of the matrices A and B."""
        workers = [_AdjointWorker(self, sizes, launches, range(i, n_envs, n_workers)) for i in range(n_workers)]
        self._tasks = [worker.run for worker in workers]

    def load(self) -> None:
        """Copy state and inputs before the step."""
        for target, source in self._copies:
            target[:] = source

    def run(self) -> StateJacobian | None:
        """Jacobian of the next state, as of `StepAdjoints.run`."""
        target, source = self._solution
        target[:] = source
        self._flags.data.fill(0.0)
        run_in_threads(self._tasks)
        overflow, unconverged = self._flag_values.tolist()
        if any(overflow):
            return None
        converged = np.array(unconverged) == 0.0 if any(unconverged) else self._all_converged
        results, (of_states, of_controls) = self.jacobians.copy(), self._shapes
        end = of_states[1] * of_states[2]
        by_state, by_controls = results[:, :end].reshape(of_states), results[:, end:-1].reshape(of_controls)
        return StateJacobian(by_state, by_controls, np.isfinite(results[:, -1]), converged)

    def _assembly_layout(self, sizes: Mapping[str, list[tuple[str, int]]]) -> AssemblyLayout:
        """Layout of the program that assembles the results."""
        directions, space = self.directions, self.directions.space
        stride = padded_stride(directions.n, self.step.engine.device, is_scalar=self.step.engine.is_scalar)
        rows = {a: ArenaLayout.from_sizes(a, sizes[a]).rows for a in ARENAS}
        controls = rows[directions.control_arena].get(ADJOINT_PREFIX + directions.control_array, (0, 0))
        return AssemblyLayout(
            n_dofs=space.n_dofs,
            n_results=directions.n_results,
            n_controls=directions.n_controls,
            ball_dofs=tuple(space.ball_dofs[:, 0].tolist()),
            dt=self.step.settings.dt,
            row_stride=stride,
            first_adjoint=rows["state"][STATE_ADJOINTS][0] * stride,
            first_control_adjoint=controls[0] * stride,
            first_velocity=rows["state"][NEXT_VELOCITIES][0] * stride,
        )


class _AdjointWorker:
    """Thread that executes both parts of the adjoint program for some environments, with memory of its own."""

    def __init__(
        self,
        owner: SplitStepAdjoints,
        sizes: Mapping[str, list[tuple[str, int]]],
        launches: LaunchArguments,
        envs: range,
    ) -> None:
        """Allocate the memory; `launches` are the arguments of the uniform part for all environments."""
        engine, directions = owner.step.engine, owner.directions
        layout = ArenaLayout.from_sizes("scratch", [("values", owner.uniform.n_scratch)])
        precomputed = Arena(layout, 1, engine.device, engine.precision, is_scalar=True)
        self._uniform = [owner.uniform.host_shard(launches, range(env, env + 1), precomputed.data) for env in envs]
        arenas = {a: new_arena(engine, a, sizes[a], directions.n) for a in ARENAS}
        arguments = LaunchArguments(arenas["state"], arenas["controls"].data, precomputed, engine.uniform)
        vectors = range(-(-directions.n // owner.varying.lanes))
        self._varying = owner.varying.host_shard(arguments, vectors, owner.varying.new_scratch_memory())
        sizes_of_step = {name: arena.layout.n_rows for name, arena in owner.step.arenas.items()}
        self._adjoints = [arena.data[n : 2 * n] for arena in arenas.values() if (n := sizes_of_step[arena.layout.name])]
        """Adjoints of each arena."""
        values = np.zeros_like(arenas["state"].data)
        for array, derivatives in directions.initial_derivatives().items():
            row, n = arenas["state"].layout.rows[ADJOINT_PREFIX + array]
            values[row : row + n, : directions.n] = derivatives
        self._initial, self._ones = arenas["state"].data.reshape(-1), np.flatnonzero(values)
        """Memory of the state, and the adjoints in it that are 1 initially; all others are 0."""
        state = arenas["state"].data.reshape(-1)
        first, n_dofs = owner.layout.first_velocity, directions.space.n_dofs
        velocities = owner.step.arenas["state"].view("vel").numpy()
        self._velocity, self._velocities = state[first : first + n_dofs], [velocities[:, env] for env in envs]
        """Memory of the next velocities of an environment, and those of each environment."""
        results = Arena(ArenaLayout.from_sizes("state", []), 1, engine.device, engine.precision, is_scalar=True)
        arguments = LaunchArguments(results, arenas[directions.control_arena].data, precomputed, arenas["state"])
        shard = owner.assembly.host_shard(arguments, range(1), owner.assembly.new_scratch_memory())
        address, size = owner.jacobians.ctypes.data, owner.jacobians.strides[0]
        self._assembly = [replace(shard, arguments=(address + env * size, *shard.arguments[1:])) for env in envs]
        """Assembly of the results of each environment."""

    def run(self) -> None:
        """Compute the Jacobians of next velocities and activations of the environments."""
        for velocity, uniform, assembly in zip(self._velocities, self._uniform, self._assembly, strict=True):
            for adjoints in self._adjoints:
                adjoints.fill(0.0)
            self._initial[self._ones] = 1.0
            self._velocity[:] = velocity
            uniform()
            self._varying()
            assembly()
