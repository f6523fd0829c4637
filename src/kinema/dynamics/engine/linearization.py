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
from functools import cached_property
from typing import TYPE_CHECKING, NamedTuple

import numpy as np

from kinema.core import Array
from kinema.ir import TANGENT_PREFIX
from kinema.runtime import Arena

from ..lowering.derivative_programs import (
    derivative_arena_arrays,
    sensor_arena_arrays,
    solution_settings,
    trace_sensor_tangents,
    trace_step_tangents,
)
from ..sensors.sensor_outputs import SENSOR_OUTPUT_ARRAY
from ..settings import Integrator
from .solved_step import ARENAS, CONTROL_ARRAYS, DerivativeProgram, IndexArray, SolvedStep, new_arena
from .step_adjoints import (
    AdjointDirections,
    BoolArray,
    DirectionLanes,
    SplitStepAdjoints,
    StateJacobian,
    StepAdjoints,
    are_finite,
)
from .tangent_space import TangentSpace

if TYPE_CHECKING:
    from kinema.ir import Program

    from .engine import Engine

MAX_LANES = 4096
"""Number of directions of all environments that one launch evaluates at most."""


class StepJacobians(NamedTuple):
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
    converged: BoolArray
    """Whether the constraint solver converged in fewer than its maximum of iterations, (n_envs,)."""
    finite: BoolArray
    """Whether all entries are finite, (n_envs,)."""


# ---------------------------------------------------------------------------------------------------- tangent programs


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
        parts = []
        for start in range(0, len(envs), per_launch):
            part = envs[start : start + per_launch]
            n_part = len(part)
            if n_part < per_launch:
                part = np.concatenate([part, np.repeat(part[-1:], per_launch - n_part)])
            found = self._jacobian.compute(part)
            parts.append(found if n_part == per_launch else StepJacobians(*(x[:n_part] for x in found)))
        if len(parts) == 1:
            return parts[0]
        return StepJacobians(*map(np.concatenate, zip(*parts, strict=True)))

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
        self._space = TangentSpace(linearizer.engine.model)
        self._no_sensors = np.zeros((n_envs, 0, linearizer.n_state + linearizer.n_controls))

    @cached_property
    def _adjoints(self) -> StepAdjoints | SplitStepAdjoints:
        directions = AdjointDirections(self.step, self.linearizer.activations, self.linearizer.control_array)
        if self.linearizer.engine.device.is_cpu:
            split = SplitStepAdjoints(directions)
            if split.is_split:
                return split
        return StepAdjoints(directions)

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

    def compute(self, envs: IndexArray) -> StepJacobians:
        """Jacobians of next state and of sensor values by state and controls."""
        has_sensors = self.linearizer.engine.model.sensors.n_values > 0
        jacobians = self._compute(envs, adjoints=self.linearizer.uses_reverse_mode, sensors=has_sensors)
        if jacobians is None:
            jacobians = self._compute(envs, adjoints=False, sensors=has_sensors)
            assert jacobians is not None
        return jacobians

    def _compute(self, envs: IndexArray, *, adjoints: bool, sensors: bool) -> StepJacobians | None:
        """Jacobians in reverse or forward mode; None if the tape of the reverse mode is too small."""
        linearizer, step, n_state = self.linearizer, self.step, self.linearizer.n_state
        step.load(envs)
        if adjoints:
            self._adjoints.load()
        if sensors or not adjoints:
            self._load_tangents(np.array(step.arenas["state"].view("qpos").numpy(), np.float64))
        step.run_stage()
        of_sensors = self._tangents.run_sensors() if sensors else self._no_sensors
        if adjoints:
            found = self._adjoints.run()
            if found is None:
                return None
            converged = found.converged
        else:
            converged = step.converged
            self._tangents.run_stage()
            for _ in range(linearizer.n_steps * step.n_stages - 1):
                step.run_stage()
                converged = converged & step.converged
                self._tangents.run_stage()
            found = StateJacobian.from_packed(self._tangent_states(), converged)
        finite = found.finite & are_finite(of_sensors) if sensors else found.finite
        by_values = of_sensors[:, :, :n_state], of_sensors[:, :, n_state:]
        return StepJacobians(found.by_state, found.by_controls, *by_values, converged, finite)

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
