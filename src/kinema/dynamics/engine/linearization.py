"""Linearisation of a step: Jacobians of next state and sensor values by state and controls.

Each direction is an environment of its own with the same state, so that directions are evaluated in the lanes of SIMD
vectors. A derivative consists of two programs: the step itself, which stores the solution of the constraint solver, and
a derivative program, which reads this solution (`lowering/derivative_programs.py`).

Reverse mode has a direction for each row of the Jacobian: next velocities and activations, as next positions follow
from the next velocities by the rule of integration. Forward mode has a direction for each column: state and controls.
It is used for sensors, for Runge-Kutta steps, for several steps, and where the tape of the reverse mode is too small.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.ir import ADJOINT_PREFIX, TANGENT_PREFIX
from kinema.runtime import Arena

from ..lowering.derivative_programs import (
    OVERFLOW_ARRAY,
    UNCONVERGED_ARRAY,
    adjoint_arena_arrays,
    derivative_arena_arrays,
    sensor_arena_arrays,
    solution_settings,
    trace_sensor_tangents,
    trace_step_adjoint,
    trace_step_tangents,
)
from ..sensors.sensor_outputs import SENSOR_OUTPUT_ARRAY
from ..settings import Integrator
from .solved_step import ARENAS, CONTROL_ARRAYS, DerivativeProgram, IndexArray, SolvedStep, new_arena
from .tangent_space import TangentSpace

if TYPE_CHECKING:
    from kinema.ir import Program

    from .engine import Engine

MAX_LANES = 4096
"""Number of directions of all environments that one launch evaluates at most."""


@dataclass(frozen=True, slots=True, eq=False)
class StepJacobians:
    """Jacobians of one step, (n_envs, rows, columns), in the order of MuJoCo's `mjd_transitionFD`.

    The state is (position, velocity, activations) with positions in the tangent space of the coordinates, dimension
    2 n_dofs + n_activations.
    """

    A: Array
    """Next state by state."""
    B: Array
    """Next state by controls."""
    C: Array
    """Sensor values by state."""
    D: Array
    """Sensor values by controls."""
    converged: npt.NDArray[np.bool_]
    """Whether the constraint solver converged in fewer than its maximum of iterations, (n_envs,)."""


# ---------------------------------------------------------------------------------------------------- tangent programs


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


class StepTangents:
    """Compiled programs that propagate tangents through a step: forward mode."""

    def __init__(self, step: SolvedStep, n_directions: int) -> None:
        """Allocate the memory; `step` is that of the environments of a launch."""
        self.step, engine, settings = step, step.engine, step.settings
        sizes = {a: derivative_arena_arrays(a, engine.model, settings) for a in ARENAS}
        self.lanes = DirectionLanes(step, TANGENT_PREFIX, sizes, n_directions)
        """State, controls and their tangents."""
        self.sensors = new_arena(
            engine, "out", sensor_arena_arrays(engine.model), step.arenas["state"].n_envs * n_directions
        )
        """Sensor values and their tangents."""

    @cached_property
    def _program(self) -> DerivativeProgram:
        return self._compile("tangents", self.lanes.arenas, trace_step_tangents)

    @cached_property
    def _sensor_program(self) -> DerivativeProgram:
        return self._compile("sensor_tangents", {**self.lanes.arenas, "out": self.sensors}, trace_sensor_tangents)

    def _compile(self, name: str, arenas: Mapping[str, Arena], trace: Callable[..., Program]) -> DerivativeProgram:
        engine, settings = self.step.engine, self.step.settings
        model, loops = engine.model, engine.uses_loops
        return DerivativeProgram(
            engine, name, arenas, lambda offsets: trace(model, settings, offsets, loops=loops), settings
        )

    def run_sensors(self) -> Array:
        """Tangents of the sensors before the step, (n_envs, n_values, n_directions), after the step has run."""
        self.lanes.load_solution()
        self._sensor_program.run()
        view = self.sensors.view(TANGENT_PREFIX + SENSOR_OUTPUT_ARRAY).numpy().astype(np.float64)
        return view.reshape(len(view), self.lanes.n_envs, -1).transpose(1, 0, 2)

    def run_stage(self) -> None:
        """Propagate the tangents through a stage of the step, after this stage of the step has run."""
        self.lanes.load_solution()
        self._program.run()


class StepAdjoints:
    """Compiled adjoint program of a step with a direction per next velocity and activation: reverse mode."""

    def __init__(self, step: SolvedStep, activations: IndexArray, control_array: str) -> None:
        """Compile the program; `activations` are the actuators with a state."""
        self.step, self.activations, self.control_array = step, activations, control_array
        engine, settings = step.engine, step.settings
        model, loops = engine.model, engine.uses_loops
        n = max(model.n_dofs + len(activations), 1)
        sizes = {a: adjoint_arena_arrays(a, model, settings) for a in ARENAS}
        self.lanes = DirectionLanes(step, ADJOINT_PREFIX, sizes, n)
        """State, controls and their adjoints."""
        directions = np.eye(n)
        self.lanes.set_initial_derivatives("state", "vel", directions[: model.n_dofs])
        if len(activations):
            seeds = np.zeros((model.n_actuators, n))
            seeds[activations] = directions[model.n_dofs :]
            self.lanes.set_initial_derivatives("state", "act", seeds)
        flags = [(OVERFLOW_ARRAY, 1), (UNCONVERGED_ARRAY, 1)]
        self._flags = new_arena(engine, "out", flags, step.arenas["state"].n_envs * n)
        self._program = DerivativeProgram(
            engine,
            "adjoint",
            {**self.lanes.arenas, "out": self._flags},
            lambda offsets: trace_step_adjoint(model, settings, offsets, loops=loops),
            settings,
        )
        self._tangent_space = TangentSpace(model)
        self._control_arena = "controls" if control_array in step.arenas["controls"].layout.rows else "state"

    def run(self, qpos: Array) -> Array | None:
        """Jacobian of next velocities and activations by state and controls, after the step has run.

        Args:
            qpos: coordinates before the step, (n_qs, n_envs).

        Returns:
            (n_envs, n_dofs + n_activations, n_state + n_controls); None if a loop had more iterations than the tape
                holds.
        """
        lanes, space = self.lanes, self._tangent_space
        lanes.load_solution()
        overflow = self._flags.view(OVERFLOW_ARRAY)
        overflow.assign(np.zeros(overflow.shape))
        self._program.run()
        if overflow.numpy().any():
            return None
        by_qpos = lanes.result("state", "qpos")
        positions = np.zeros((space.n_dofs, *by_qpos.shape[1:]))
        positions[space.scalar_dofs] = by_qpos[space.scalar_qs]
        if len(space.ball_qs):
            positions[space.ball_dofs] = np.einsum("ebij,bier->bjer", space.ball_bases(qpos), by_qpos[space.ball_qs])
        parts = [positions, lanes.result("state", "vel")]
        if len(self.activations):
            parts.append(lanes.result("state", "act")[self.activations])
        controls = self.step.arenas[self._control_arena].layout.rows.get(self.control_array, (0, 0))
        if controls[1]:
            parts.append(lanes.result(self._control_arena, self.control_array))
        return np.concatenate(parts).transpose(1, 2, 0)[:, : space.n_dofs + len(self.activations)]


# ---------------------------------------------------------------------------------------------------------- Jacobians


class Linearizer:
    """Jacobians of the step of an engine by state and controls."""

    def __init__(self, engine: Engine, by: str, n_steps: int = 1, *, reverse: bool = True) -> None:
        """Choose the directions.

        Args:
            engine: engine whose step is differentiated.
            by: kind of controls, a key of `CONTROL_ARRAYS`.
            n_steps: number of steps of the engine in a step of the scene.
            reverse: whether the next state is differentiated in reverse mode where that is possible.
        """
        self.engine, self.control_array, self.n_steps = engine, CONTROL_ARRAYS[by], n_steps
        self.uses_reverse_mode = reverse and n_steps == 1 and engine.settings.integrator is not Integrator.RK4
        """Whether the next state is differentiated in reverse mode, unless the tape is too small."""
        self.settings = solution_settings(engine.settings, external_forces=by == "force")
        model = engine.model
        self.activations = np.flatnonzero(model.actuators.has_activation)
        """Actuators with an activation, which is a state."""
        self._tangent_space = TangentSpace(model)
        self.n_state = 2 * model.n_dofs + len(self.activations)
        self.n_controls = model.n_actuators if by == "ctrl" else model.n_dofs
        self._jacobian: _BatchJacobian | None = None

    def compute(self, envs: IndexArray) -> StepJacobians:
        """Jacobians A, B, C, D of next state and sensors by state and controls, at the present state of environments.

        In several launches for many environments; the engine's state is not changed.
        """
        self.engine.update_derived_parameters()
        n = max(self.n_state + self.n_controls, 1)
        per_launch = max(1, min(len(envs), MAX_LANES // n))
        if self._jacobian is None or self._jacobian.n_envs != per_launch:
            self._jacobian = _BatchJacobian(self, per_launch)
        states, sensors, converged = [], [], []
        for start in range(0, len(envs), per_launch):
            part = envs[start : start + per_launch]
            padded = np.concatenate([part, np.repeat(part[-1:], per_launch - len(part))])
            of_states, of_sensors = self._jacobian.compute(padded)
            states.append(of_states[: len(part)])
            sensors.append(of_sensors[: len(part)])
            converged.append(self._jacobian.converged[: len(part)])
        of_states, of_sensors = (x[0] if len(x) == 1 else np.concatenate(x) for x in (states, sensors))
        m = self.n_state
        parts = of_states[:, :, :m], of_states[:, :, m:], of_sensors[:, :, :m], of_sensors[:, :, m:]
        return StepJacobians(*parts, np.concatenate(converged or [np.zeros(0, np.bool_)]))

    # --------------------------------------------------------------------------------------------- finite differences

    def differences(self, envs: IndexArray, step: float) -> tuple[Array, Array]:
        """Forward and backward differences of the next state by state and controls, (n_envs, n_state, n_directions).

        The directions are those of `compute`: state, then controls. Runs the step from perturbed copies of the present
        state, with positions perturbed in the tangent space.
        """
        n, model, n_dofs = self.n_state + self.n_controls, self.engine.model, self.engine.model.n_dofs
        solved = SolvedStep(self.engine, self.settings, len(envs) * (2 * n + 1))
        solved.load(np.repeat(envs, 2 * n + 1))
        offsets = np.tile(np.concatenate([np.zeros((1, n)), np.eye(n), -np.eye(n)]) * step, (len(envs), 1))
        state, controls = solved.arenas["state"], solved.arenas["controls"]
        qpos = np.array(state.view("qpos").numpy(), np.float64)
        state.view("qpos").assign(self._tangent_space.move(qpos, offsets[:, :n_dofs].T))
        state.view("vel").assign(state.view("vel").numpy() + offsets[:, n_dofs : 2 * n_dofs].T)
        if len(self.activations):
            values = np.array(state.view("act").numpy())
            values[self.activations] += offsets[:, 2 * n_dofs : self.n_state].T
            state.view("act").assign(values)
        if self.n_controls:
            arena = controls if self.control_array in controls.layout.rows else state
            view = arena.view(self.control_array)
            view.assign(view.numpy() + offsets[:, self.n_state :].T)
        for _ in range(self.n_steps * solved.n_stages):
            solved.run_stage()
        n_copies = 2 * n + 1
        after = np.array(state.view("qpos").numpy(), np.float64).reshape(model.n_qs, len(envs), n_copies)
        rest = [state.view("vel").numpy()]
        rest += [state.view("act").numpy()[self.activations]] if len(self.activations) else []
        others = np.concatenate(rest).astype(np.float64).reshape(self.n_state - n_dofs, len(envs), n_copies)
        moved = np.moveaxis(after[:, :, 1:] - after[:, :, :1], 1, 0)
        positions = self._tangent_space.project(after[:, :, 0], moved)  # of quaternions: projected secants
        changes = np.concatenate([positions, np.moveaxis(others[:, :, 1:] - others[:, :, :1], 1, 0)], axis=1) / step
        return changes[:, :, :n], -changes[:, :, n:]


class _BatchJacobian:
    """Memory and programs for the Jacobians of a number of environments."""

    def __init__(self, linearizer: Linearizer, n_envs: int) -> None:
        """Allocate the memory; programs are compiled, or loaded from the cache, when they are first needed."""
        self.linearizer, self.n_envs = linearizer, n_envs
        self.step = SolvedStep(linearizer.engine, linearizer.settings, n_envs)
        self.converged = np.ones(n_envs, np.bool_)
        """Whether the constraint solver converged in all stages of the last step, (n_envs,)."""
        self._space = TangentSpace(linearizer.engine.model)

    @cached_property
    def _adjoints(self) -> StepAdjoints:
        return StepAdjoints(self.step, self.linearizer.activations, self.linearizer.control_array)

    @cached_property
    def _tangents(self) -> StepTangents:
        """Tangent programs with a direction for each element of state and controls."""
        model, n_state = self.linearizer.engine.model, self.linearizer.n_state
        n_dofs, n = model.n_dofs, max(n_state + self.linearizer.n_controls, 1)
        tangents, directions = StepTangents(self.step, n), np.eye(n)
        positions = np.zeros((model.n_qs, n))
        positions[self._space.scalar_qs] = directions[self._space.scalar_dofs]
        tangents.lanes.set_initial_derivatives("state", "qpos", positions)
        tangents.lanes.set_initial_derivatives("state", "vel", directions[n_dofs : 2 * n_dofs])
        if len(self.linearizer.activations):
            activations = np.zeros((model.n_actuators, n))
            activations[self.linearizer.activations] = directions[2 * n_dofs : n_state]
            tangents.lanes.set_initial_derivatives("state", "act", activations)
        if self.linearizer.n_controls:
            array = self.linearizer.control_array
            arena = "controls" if array in self.step.arenas["controls"].layout.rows else "state"
            tangents.lanes.set_initial_derivatives(arena, array, directions[n_state:])
        return tangents

    def compute(self, envs: IndexArray) -> tuple[Array, Array]:
        """Jacobians of next state and of sensor values by state and controls, (n_envs, rows, n_state + n_controls)."""
        has_sensors = self.linearizer.engine.model.sensors.n_values > 0
        states = self._compute(envs, adjoints=self.linearizer.uses_reverse_mode, sensors=has_sensors)
        if states is None:
            states = self._compute(envs, adjoints=False, sensors=has_sensors)
            assert states is not None
        return states

    def _compute(self, envs: IndexArray, *, adjoints: bool, sensors: bool) -> tuple[Array, Array] | None:
        """Jacobians in reverse or forward mode; None if the tape of the reverse mode is too small."""
        n_columns = self.linearizer.n_state + self.linearizer.n_controls
        self.step.load(envs)
        qpos = np.array(self.step.arenas["state"].view("qpos").numpy(), np.float64)
        if adjoints:
            self._adjoints.lanes.load()
            self._adjoints.lanes.upload()
        if sensors or not adjoints:
            self._load_tangents(qpos)
        self.step.run_stage()
        self.converged = self.step.converged
        of_sensors = self._tangents.run_sensors() if sensors else np.zeros((self.n_envs, 0, n_columns))
        if adjoints:
            rows = self._adjoints.run(qpos)
            return None if rows is None else (self._integrate(rows), of_sensors)
        self._tangents.run_stage()
        for _ in range(self.linearizer.n_steps * self.step.n_stages - 1):
            self.step.run_stage()
            self.converged = self.converged & self.step.converged
            self._tangents.run_stage()
        return self._tangent_states(), of_sensors

    def _load_tangents(self, qpos: Array) -> None:
        lanes = self._tangents.lanes
        lanes.load()
        space = self._space
        if len(space.ball_qs):
            seeds, bases = lanes.derivatives("state", "qpos"), space.ball_bases(qpos)
            for basis, qs, dofs in zip(bases.swapaxes(0, 1), space.ball_qs, space.ball_dofs, strict=True):
                seeds[qs[0] : qs[0] + 4, :, dofs[0] : dofs[0] + 3] = basis.transpose(1, 0, 2)
        lanes.upload()

    def _tangent_states(self) -> Array:
        """Jacobian of the next state from the tangents after the step."""
        lanes, n_dofs = self._tangents.lanes, self._space.n_dofs
        states = np.zeros((self.n_envs, self.linearizer.n_state, lanes.n_directions))
        changes = lanes.result("state", "qpos").transpose(1, 0, 2)
        states[:, :n_dofs] = self._space.project(lanes.values("qpos"), changes)
        states[:, n_dofs : 2 * n_dofs] = lanes.result("state", "vel").transpose(1, 0, 2)
        if len(self.linearizer.activations):
            activations = lanes.result("state", "act")[self.linearizer.activations]
            states[:, 2 * n_dofs :] = activations.transpose(1, 0, 2)
        return states

    def _integrate(self, rows: Array) -> Array:
        """Jacobian of the next state from that of next velocities and activations: positions are integrated."""
        n_dofs = self._space.n_dofs
        velocity = np.array(self.step.arenas["state"].view("vel").numpy(), np.float64)
        positions = self._space.integration_jacobian(velocity, self.linearizer.settings.dt, rows[:, :n_dofs])
        return np.concatenate([positions, rows], axis=1)
