"""Linearisation of a step: Jacobians of next state and sensor values by state and controls, in forward mode.

Each direction is an environment of its own with the same state and another tangent, so that directions are evaluated in
the lanes of SIMD vectors. A derivative consists of two programs: the step itself, which stores the solution of the
constraint solver, and its tangent program, which reads this solution (`lowering/derivative_programs.py`).
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.ir import TANGENT_PREFIX, ArenaOffset
from kinema.runtime import (
    Arena,
    ArenaLayout,
    Kernel,
    LaunchArguments,
    ProgramSource,
    copy_rows,
    row_filler,
    synchronise_unless_shared,
)

from ..arrays import arena_arrays
from ..extensions import program_key
from ..lowering.derivative_programs import (
    derivative_arena_arrays,
    needs_solution,
    sensor_arena_arrays,
    solution_settings,
    trace_sensor_tangents,
    trace_step_tangents,
)
from ..sensors.sensor_outputs import SENSOR_OUTPUT_ARRAY
from ..settings import RK4_STAGES, Integrator, Settings
from .tangent_space import TangentSpace, quaternion_basis

if TYPE_CHECKING:
    from kinema.ir import Program

    from .engine import Engine
    from .parameter_inputs import ParameterInputs

IndexArray = npt.NDArray[np.intp]
MAX_LANES = 4096
"""Number of directions of all environments that one launch evaluates at most."""
CONTROL_ARRAYS = {"ctrl": "ctrl", "position": "command", "force": "dof_force_applied"}
"""Kind of control -> array that the derivatives are taken by."""
ARENAS = ("state", "controls")


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


# ---------------------------------------------------------------------------------------------------- tangent programs


class DerivativeProgram:
    """A compiled program of a derivative, with arenas of its own in the layout of the engine's."""

    def __init__(
        self,
        engine: Engine,
        name: str,
        arenas: Mapping[str, Arena],
        trace: Callable[[Mapping[str, ArenaOffset]], Program],
        settings: Settings,
        key: object = (),
    ) -> None:
        """Compile a program, or load it from the cache.

        Args:
            engine: engine whose step is differentiated.
            name: name of the program in profilers, and part of its cache key.
            arenas: arenas of the program; `uniform` is that of the engine, and `out` is optional.
            trace: traces the program from the offsets of all arrays.
            settings: settings of the step.
            key: everything else that determines the program.
        """
        self.engine, self.arenas = engine, arenas
        layouts = [engine.uniform.layout, *(arena.layout for arena in arenas.values())]
        offsets = {array: offset for layout in layouts for array, offset in layout.offsets().items()}
        source = ProgramSource(
            lambda: trace(offsets),
            program_key(name, engine.digest, settings, engine.uses_loops, key),
            f"{engine.name}_{name}",
        )
        n_envs = arenas["state"].n_envs
        with engine.progress(f"compiling the {name.replace('_', ' ')} of a step"):
            kernel = Kernel(
                source, offsets, engine.device, engine.precision, n_envs=n_envs, wait=engine.wait_for_optimised
            )
        self._kernel = kernel
        self._output = arenas["out"] if "out" in arenas else new_arena(engine, "out", [], 1)
        self._launches: dict[int, Callable[[], None]] = {}
        self.launch = self.prepared(1)
        """Runs the program once; on a GPU it returns when the program is launched."""

    def prepared(self, count: int) -> Callable[[], None]:
        """Function that launches `count` runs of the program, one after the other."""
        if count not in self._launches:
            state, inputs, threads = self.arenas["state"], self.arenas["controls"].data, self.engine.threads
            self._launches[count] = self._kernel.prepare_launch(
                LaunchArguments(state, inputs, self._output, self.engine.uniform, count, max_threads=threads)
            )
        return self._launches[count]

    def run(self) -> None:
        """Run the program once."""
        self.launch()
        synchronise_unless_shared(self.engine.device)


def new_arena(engine: Engine, name: str, sizes: list[tuple[str, int]], n_envs: int) -> Arena:
    """Arena on the device of an engine, from the names and sizes of its arrays."""
    return Arena(ArenaLayout.from_sizes(name, sizes), n_envs, engine.device, engine.precision)


class SolvedStep:
    """The step of an engine on memory of its own, with the solution of the constraint solver in `warm_start`."""

    def __init__(
        self, engine: Engine, settings: Settings, n_envs: int, parameters: ParameterInputs | None = None
    ) -> None:
        """Compile the step.

        Args:
            engine: engine whose step it is.
            settings: `solution_settings` of the engine's; with parameters, their settings.
            n_envs: number of environments.
            parameters: model parameters that are inputs; None if there are none.
        """
        self.engine, self.settings = engine, settings
        model = engine.model if parameters is None else parameters.model
        self._own_arrays = () if parameters is None else parameters.arrays
        """Arrays that are not those of the engine."""
        self.n_stages = RK4_STAGES if settings.integrator is Integrator.RK4 else 1
        """Runs of the program per step."""
        self.arenas = {a: new_arena(engine, a, arena_arrays(a, model, settings), n_envs) for a in ARENAS}

        def trace(offsets: Mapping[str, ArenaOffset]) -> Program:
            from ..lowering.step_program import trace_step

            return trace_step(model, settings, offsets, loops=engine.uses_loops)

        key = () if parameters is None else parameters.key
        self.program = DerivativeProgram(engine, "solution", self.arenas, trace, settings, key)
        self._shared_rows = {name: list(self._find_shared_rows(name)) for name in ARENAS}
        """Arena -> ranges of rows that the engine has too: first row here, first row there, number of rows."""

    def _find_shared_rows(self, name: str) -> Iterator[tuple[int, int, int]]:
        """Ranges of rows of an arena that the arena of the engine has too, adjacent arrays merged."""
        current = (0, 0, 0)
        for array, (row, n) in self.arenas[name].layout.rows.items():
            offset = self.engine.array_offsets.get(array)
            if not n or offset is None or offset.arena != name or array in self._own_arrays:
                continue
            start, engine_start, count = current
            if count and (row, offset.row) == (start + count, engine_start + count):
                current = (start, engine_start, count + n)
                continue
            if count:
                yield current
            current = (row, offset.row, n)
        if current[2]:
            yield current

    def load(self, envs: IndexArray) -> None:
        """Copy the present state and inputs of environments of the engine."""
        for name, ranges in self._shared_rows.items():
            for row, engine_row, n in ranges:
                values = self._engine_arena(name).rows(engine_row, n).numpy()
                self.arenas[name].rows(row, n).assign(values[:, envs])

    def load_all(self) -> None:
        """Copy the present state and inputs of all environments of the engine; arrays that it has not are zero."""
        for name, arena in self.arenas.items():
            row_filler(arena.data, 0, arena.layout.n_rows)(0.0)
            for row, engine_row, n in self._shared_rows[name]:
                copy_rows(arena.data, row, self._engine_arena(name).data, engine_row, n)

    def store_all(self) -> None:
        """Copy state and inputs of all environments to the engine."""
        self.engine.mark_modified()
        for name, ranges in self._shared_rows.items():
            for row, engine_row, n in ranges:
                copy_rows(self._engine_arena(name).data, engine_row, self.arenas[name].data, row, n)

    def _engine_arena(self, name: str) -> Arena:
        return self.engine.state if name == "state" else self.engine.controls

    def run_stage(self) -> None:
        """Run the step, or the next stage of a Runge-Kutta step."""
        self.program.run()

    @property
    def solution(self) -> Array | None:
        """Constraint accelerations of the last stage, (n_dofs, n_envs); None if there are no constraints."""
        has_solution = needs_solution(self.settings) and self.arenas["state"].layout.rows["warm_start"][1]
        return self.arenas["state"].view("warm_start").numpy() if has_solution else None


class StepTangents:
    """Compiled programs that propagate tangents through a step, for a number of environments and directions."""

    def __init__(self, engine: Engine, settings: Settings, n_envs: int, n_directions: int) -> None:
        """Compile the programs, or load them from the cache, and allocate their memory.

        Args:
            engine: engine whose step is differentiated.
            settings: settings of the step that stores its solution (`solution_settings`).
            n_envs: number of environments of a launch.
            n_directions: number of directions of each environment.
        """
        self.n_envs, self.n_directions = n_envs, n_directions
        model, loops = engine.model, engine.uses_loops
        self.step = SolvedStep(engine, settings, n_envs)
        lanes = n_envs * n_directions
        self.lanes = {a: new_arena(engine, a, derivative_arena_arrays(a, model, settings), lanes) for a in ARENAS}
        """State, controls and their tangents; the directions of an environment are side by side."""
        self._initial = {
            name: np.zeros((arena.layout.n_rows, lanes), arena.dtype) for name, arena in self.step.arenas.items()
        }
        """Initial tangents of all arrays of an arena."""
        self.sensors = new_arena(engine, "out", sensor_arena_arrays(model), lanes)
        """Sensor values and their tangents."""
        self._program = DerivativeProgram(
            engine,
            "tangents",
            self.lanes,
            lambda offsets: trace_step_tangents(model, settings, offsets, loops=loops),
            settings,
        )
        self._sensor_program = (
            DerivativeProgram(
                engine,
                "sensor_tangents",
                {**self.lanes, "out": self.sensors},
                lambda offsets: trace_sensor_tangents(model, settings, offsets, loops=loops),
                settings,
            )
            if model.sensors.n_values
            else None
        )

    def load(self, envs: IndexArray) -> None:
        """Copy state and inputs of environments of the engine to all directions, and set the initial tangents."""
        self.step.load(envs)
        for name, arena in self.step.arenas.items():
            n_rows = arena.layout.n_rows
            if n_rows:
                values = np.repeat(arena.rows(0, n_rows).numpy(), self.n_directions, axis=1)
                self.lanes[name].rows(0, 2 * n_rows).assign(np.concatenate([values, self._initial[name]]))

    def set_initial_tangents(self, arena: str, array: str, tangents: Array) -> None:
        """Set the tangents that an array gets with each `load`, (elements, n_directions)."""
        row, n = self.step.arenas[arena].layout.rows[array]
        self._initial[arena][row : row + n] = np.tile(tangents, self.n_envs)

    def set_tangents(self, array: str, row: int, tangents: Array) -> None:
        """Set the tangents of elements of a state array from `row` on, (n_envs, elements, n_directions)."""
        n = tangents.shape[1]
        flat = tangents.transpose(1, 0, 2).reshape(n, self.n_envs * self.n_directions)
        start, _ = self.lanes["state"].layout.rows[TANGENT_PREFIX + array]
        self.lanes["state"].rows(start + row, n).assign(flat)

    def values(self, array: str) -> Array:
        """Values of a state array, (elements, n_envs)."""
        return self.lanes["state"].view(array).numpy()[:, :: self.n_directions].astype(np.float64)

    def tangents(self, array: str) -> Array:
        """Tangents of a state array or of the sensor values, (n_envs, elements, n_directions)."""
        arena = self.sensors if array == SENSOR_OUTPUT_ARRAY else self.lanes["state"]
        view = arena.view(TANGENT_PREFIX + array)
        values = view.numpy().astype(np.float64).reshape(view.shape[0], self.n_envs, self.n_directions)
        return values.transpose(1, 0, 2)

    def run(self, n_steps: int) -> None:
        """Propagate the loaded tangents through some steps, and compute the tangents of the sensors before them.

        Each integrator stage first runs the step itself for the solution of the constraint solver, at which the tangent
        program differentiates.
        """
        for stage in range(n_steps * self.step.n_stages):
            self.step.run_stage()
            solution = self.step.solution
            if solution is not None:
                self.lanes["state"].view("warm_start").assign(np.repeat(solution, self.n_directions, axis=1))
            if stage == 0 and self._sensor_program is not None:
                self._sensor_program.run()
            self._program.run()


# ---------------------------------------------------------------------------------------------------------- Jacobians


class Linearizer:
    """Jacobians of the step of an engine by state and controls."""

    def __init__(self, engine: Engine, by: str, n_steps: int = 1) -> None:
        """Choose the directions.

        Args:
            engine: engine whose step is differentiated.
            by: kind of controls, a key of `CONTROL_ARRAYS`.
            n_steps: number of steps of the engine in a step of the scene.
        """
        self.engine, self.control_array, self.n_steps = engine, CONTROL_ARRAYS[by], n_steps
        self.settings = solution_settings(engine.settings, external_forces=by == "force")
        model = engine.model
        self.activations = np.flatnonzero(model.actuators.has_activation)
        """Actuators with an activation, which is a state."""
        self._tangent_space = TangentSpace(model)
        self.n_state = 2 * model.n_dofs + len(self.activations)
        self.n_controls = model.n_actuators if by == "ctrl" else model.n_dofs
        self._tangents: StepTangents | None = None

    def compute(self, envs: IndexArray) -> StepJacobians:
        """Jacobians A, B, C, D of next state and sensors by state and controls, at the present state of environments.

        By forward-mode differentiation, in several launches for many environments; the engine's state is not changed.
        """
        self.engine.update_derived_parameters()
        n = max(self.n_state + self.n_controls, 1)
        per_launch = max(1, min(len(envs), MAX_LANES // n))
        if self._tangents is None or self._tangents.n_envs != per_launch:
            self._tangents = self._new_tangents(per_launch)
        parts = []
        for start in range(0, len(envs), per_launch):
            part = envs[start : start + per_launch]
            padded = np.concatenate([part, np.repeat(part[-1:], per_launch - len(part))])
            parts.append([x[: len(part)] for x in self._compute(self._tangents, padded)])
        return StepJacobians(*(np.concatenate(x) for x in zip(*parts, strict=True)))

    def _compute(self, tangents: StepTangents, envs: IndexArray) -> list[Array]:
        """Jacobians A, B, C and D at the present state of `envs`, by one launch of the tangent programs."""
        model, n_dofs, n_state = self.engine.model, self.engine.model.n_dofs, self.n_state
        tangents.load(envs)
        qpos = tangents.values("qpos")
        for q, dofs in self._tangent_space.balls:
            seeds = np.zeros((len(envs), 4, n_state + self.n_controls))
            seeds[:, :, dofs] = quaternion_basis(qpos[q : q + 4])
            tangents.set_tangents("qpos", q, seeds)
        tangents.run(self.n_steps)
        states = np.zeros((len(envs), n_state, n_state + self.n_controls))
        states[:, :n_dofs] = self._tangent_space.project(tangents.values("qpos"), tangents.tangents("qpos"))
        states[:, n_dofs : 2 * n_dofs] = tangents.tangents("vel")
        if len(self.activations):
            states[:, 2 * n_dofs :] = tangents.tangents("act")[:, self.activations]
        sensors = (
            tangents.tangents(SENSOR_OUTPUT_ARRAY)
            if model.sensors.n_values
            else np.zeros((len(envs), 0, states.shape[2]))
        )
        return [states[:, :, :n_state], states[:, :, n_state:], sensors[:, :, :n_state], sensors[:, :, n_state:]]

    def _new_tangents(self, n_envs: int) -> StepTangents:
        """Tangent programs with a direction for each element of state and controls."""
        n_dofs, n_state, n = self.engine.model.n_dofs, self.n_state, max(self.n_state + self.n_controls, 1)
        tangents, directions = StepTangents(self.engine, self.settings, n_envs, n), np.eye(n)
        positions = np.zeros((self.engine.model.n_qs, n))
        positions[self._tangent_space.scalar_qs] = directions[self._tangent_space.scalar_dofs]
        tangents.set_initial_tangents("state", "qpos", positions)
        tangents.set_initial_tangents("state", "vel", directions[n_dofs : 2 * n_dofs])
        if len(self.activations):
            activations = np.zeros((self.engine.model.n_actuators, n))
            activations[self.activations] = directions[2 * n_dofs : n_state]
            tangents.set_initial_tangents("state", "act", activations)
        if self.n_controls:
            arena = "controls" if self.control_array in tangents.lanes["controls"].layout.rows else "state"
            tangents.set_initial_tangents(arena, self.control_array, directions[n_state:])
        return tangents

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
        after = np.array(state.view("qpos").numpy(), np.float64).reshape(model.n_qs, len(envs), -1)
        rest = [state.view("vel").numpy()]
        rest += [state.view("act").numpy()[self.activations]] if len(self.activations) else []
        others = np.concatenate(rest).astype(np.float64).reshape(self.n_state - n_dofs, len(envs), -1)
        moved = np.moveaxis(after[:, :, 1:] - after[:, :, :1], 1, 0)
        positions = self._tangent_space.project(after[:, :, 0], moved)  # of quaternions: projected secants
        changes = np.concatenate([positions, np.moveaxis(others[:, :, 1:] - others[:, :, :1], 1, 0)], axis=1) / step
        return changes[:, :, :n], -changes[:, :, n:]
