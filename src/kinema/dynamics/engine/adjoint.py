"""Adjoint of a simulation: gradients of a function of a trajectory by initial state and controls, in reverse mode.

The forward pass records the state before every step where the memory is small, and else a checkpoint every so many
steps, about the square root of their number. The backward pass repeats the steps of one interval after the other from
its checkpoint, which gives the same bits, and runs the adjoint of each step from the last to the first.
"""

from __future__ import annotations

import math
import weakref
from collections.abc import Callable, Collection, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.core import Array
from kinema.ir import ADJOINT_PREFIX, UNIFORM, ArenaOffset
from kinema.runtime import Arena, ArenaLayout, ArraySeries, copy_rows, row_filler

from ..arrays import ARRAYS, ArrayUse
from ..lowering.derivative_programs import (
    COTANGENT_PREFIX,
    MAX_NORM_ARRAY,
    OVERFLOW_ARRAY,
    STAGE_TANGENTS,
    STATE_TANGENTS,
    UNCONVERGED_ARRAY,
    adjoint_arena_arrays,
    differentiated_state,
    needs_solution,
    needs_solution_of_sensors,
    sensor_adjoint_arrays,
    solution_settings,
    trace_clipping,
    trace_cotangent_sum,
    trace_sensor_adjoint,
    trace_sensor_values,
    trace_step_adjoint,
)
from ..queries.fields import OUTPUT_PREFIX
from ..sensors.sensor_outputs import SENSOR_OUTPUT_ARRAY
from .parameter_inputs import ParameterInputs
from .solved_step import ARENAS, CONTROL_ARRAYS, DerivativeProgram, SolvedStep, new_arena

if TYPE_CHECKING:
    from kinema.ir import Program

    from ..settings import Settings
    from .engine import Engine
    from .parameter_values import ParameterValues

STATE_ARRAYS = {"qpos": "qpos", "qvel": "vel", "act": "act"}
"""Name of a part of the state in gradients -> array."""
MAX_RECORDED_BYTES = 64 * 2**20
"""Memory of the states of a trajectory [bytes] up to which all are recorded instead of repeated from checkpoints."""


# ------------------------------------------------------------------------------------------------------------- programs


class SensorPrograms:
    """Compiled programs of all sensor values at a state, and of their adjoint, with their memory."""

    def __init__(self, programs: AdjointPrograms) -> None:
        engine, settings = programs.engine, programs.settings
        model, loops = programs.model, engine.uses_loops
        self.n_values = n = model.sensors.n_values
        self.needs_solution = needs_solution_of_sensors(model, settings)
        """Whether the values depend on the solution of the constraint solver."""
        self.values = new_arena(engine, "out", [(OUTPUT_PREFIX + SENSOR_OUTPUT_ARRAY, n)], engine.n_envs)
        """Sensor values."""
        self.measure = DerivativeProgram(
            engine,
            "sensor_values",
            {**programs.step.arenas, "out": self.values},
            lambda offsets: trace_sensor_values(model, settings, offsets, loops=loops),
            settings,
            programs.key,
        )
        self.adjoints = new_arena(engine, "out", sensor_adjoint_arrays(model), engine.n_envs)
        """Sensor values, their adjoints and the overflow flag of the adjoint program."""
        self._programs = programs

    @cached_property
    def adjoint(self) -> DerivativeProgram:
        """Adjoint program: adds to the adjoints of state and inputs."""
        settings = self._programs.settings
        return self._programs.adjoint_program(
            "sensor_adjoint", trace_sensor_adjoint, self.adjoints, settings, is_of_sensors=True
        )


class AdjointPrograms:
    """Compiled step of an engine, its adjoint, and the memory of both, which all simulations of the engine share.

    Programs are compiled, or loaded from the cache, when they are first needed.
    """

    def __init__(self, engine: Engine, by: str, smoothing: float = 0.0, parameters: Collection[str] = ()) -> None:
        """Compile the step.

        Args:
            engine: engine whose step is differentiated.
            by: kind of controls, a key of `CONTROL_ARRAYS`.
            smoothing: distance [m] over which contacts begin gradually in the adjoint of the step.
            parameters: names of the model parameters that are inputs (`MODEL_PARAMETERS`).
        """
        self.engine, self.control_array, self._smoothing = engine, CONTROL_ARRAYS[by], smoothing
        model, settings = engine.model, solution_settings(engine.settings, external_forces=by == "force")
        self.parameters = ParameterInputs(engine, settings, parameters) if parameters else None
        """Constants that depend on model parameters; None if no parameters are inputs."""
        if self.parameters is not None:
            model, settings = self.parameters.model, self.parameters.settings
        self.model, self.settings = model, settings
        self.step = SolvedStep(engine, settings, engine.n_envs, self.parameters)
        sizes = {a: adjoint_arena_arrays(a, model, settings) for a in ARENAS}
        self.arenas = {a: new_arena(engine, a, sizes[a], engine.n_envs) for a in ARENAS}
        """State, inputs and their adjoints."""
        self.n_rows = {name: arena.layout.n_rows for name, arena in self.step.arenas.items()}
        """Number of rows of an arena; the adjoints follow in `arenas`."""
        rows = self.step.arenas["state"].layout.rows
        ends = [sum(rows[i.name]) for i in ARRAYS if i.use is ArrayUse.STATE and i.name in rows]
        self.n_state_rows = max(ends, default=0)
        """Rows of the arena `state` up to the last one that a step writes; behind them are parameters."""
        self.control_arena = "controls" if self.control_array in self.step.arenas["controls"].layout.rows else "state"
        self.solution_rows = (0, 0)
        """First row and number of rows of solution and iterations of the solver in the arena `state`."""
        if needs_solution(settings) and rows["warm_start"][1]:
            self.solution_rows = (rows["warm_start"][0], sum(rows["n_iterations"]) - rows["warm_start"][0])
        self.flags = new_arena(engine, "out", [(OVERFLOW_ARRAY, 1), (UNCONVERGED_ARRAY, 1)], engine.n_envs)
        """Flags of the adjoint program of the step."""
        state = self.arenas["state"]
        self.fill_adjoints = {
            name: row_filler(arena.data, self.n_rows[name], self.n_rows[name]) for name, arena in self.arenas.items()
        }
        """Functions that set all adjoints of an arena."""
        names = (*STATE_TANGENTS, *STAGE_TANGENTS, self.control_array, *self.parameter_arrays)
        tracked = {ADJOINT_PREFIX + name for name in names}
        self.fill_others = [row_filler(state.data, *rows) for rows in _untracked_rows(state.layout, tracked)]
        """Functions that set adjoints of state arrays without derivatives, which programs leave undefined."""
        self.differentiated = differentiated_state(model, settings)
        """Sizes of the state arrays with derivatives between steps, by name."""
        parts = [(COTANGENT_PREFIX + x, self.differentiated.get(x, 0)) for x in STATE_ARRAYS.values()]
        self.cotangents = new_arena(engine, "controls", [*parts, (MAX_NORM_ARRAY, 1)], engine.n_envs)
        """Gradients that are added to the adjoints of the state, and the largest norm of these."""
        self._free: list[ArraySeries] = []
        """Memory of states that no simulation uses: new memory is slow at its first use."""

    @cached_property
    def adjoint(self) -> DerivativeProgram:
        """Adjoint program of a step, or of a Runge-Kutta stage."""
        settings = replace(self.settings, contact_smoothing=self._smoothing)
        return self.adjoint_program("adjoint", trace_step_adjoint, self.flags, settings)

    def adjoint_program(
        self,
        name: str,
        trace_adjoint: Callable[..., Program],
        output: Arena,
        settings: Settings,
        *,
        is_of_sensors: bool = False,
    ) -> DerivativeProgram:
        """Compile an adjoint program by inputs and parameters, traced by a function, with an arena of outputs."""
        parameters, loops = self.parameters, self.engine.uses_loops

        def trace(offsets: Mapping[str, ArenaOffset]) -> Program:
            if parameters is not None:
                parameters.check_program(sensors=is_of_sensors)
            return trace_adjoint(self.model, settings, offsets, self.parameter_arrays, loops=loops)

        arenas = {**self.arenas, "out": output}
        partitioning = self.engine.partitioning(self.engine.settings.n_partitions)
        return DerivativeProgram(self.engine, name, arenas, trace, settings, self.key, partitioning)

    @property
    def key(self) -> object:
        """Part of the cache keys of all programs, which depend on the memory of the parameters."""
        return () if self.parameters is None else self.parameters.key

    @property
    def parameter_arrays(self) -> list[str]:
        """Arrays of the state that hold model parameters and constants that depend on them."""
        return [] if self.parameters is None else self.parameters.arrays

    @cached_property
    def add_cotangents(self) -> DerivativeProgram:
        """Program that adds the cotangents to the adjoints of the state."""
        sizes = {x: self.differentiated[x] for x in STATE_ARRAYS.values() if x in self.differentiated}
        arenas = {"state": self.arenas["state"], "controls": self.cotangents}
        return DerivativeProgram(
            self.engine, "cotangents", arenas, lambda _: trace_cotangent_sum(sizes), self.settings, self.key
        )

    @cached_property
    def clip(self) -> DerivativeProgram:
        """Program that clips the norm of the adjoint of the state."""
        arenas = {"state": self.arenas["state"], "controls": self.cotangents}
        sizes = self.differentiated
        return DerivativeProgram(
            self.engine, "clipping", arenas, lambda _: trace_clipping(sizes), self.settings, self.key
        )

    @cached_property
    def sensors(self) -> SensorPrograms:
        """Programs of the sensors."""
        return SensorPrograms(self)

    def borrow_snapshots(self, n_times: int) -> ArraySeries:
        """Memory for states at so many times, with values of an earlier use: to be returned by `give_back`."""
        for i, series in enumerate(self._free):
            if series.n_times >= n_times:
                return self._free.pop(i)
        return new_series(n_times, self.n_state_rows, self.step.arenas["state"])

    def give_back(self, series: ArraySeries) -> None:
        """Keep borrowed memory for another simulation."""
        self._free = [*self._free[-1:], series]

    def adjoint_row(self, arena: str, array: str) -> int:
        """First row of the adjoint of an array in an arena of `arenas`."""
        return self.arenas[arena].layout.rows[ADJOINT_PREFIX + array][0]


def _untracked_rows(layout: ArenaLayout, tracked: set[str]) -> Iterator[tuple[int, int]]:
    """Ranges (first row, number of rows) of the adjoints in a layout that are not tracked, adjacent ones merged."""
    start = end = 0
    for name, (row, n) in layout.rows.items():
        if name in tracked or not name.startswith(ADJOINT_PREFIX) or not n:
            continue
        if row != end:
            if end > start:
                yield start, end - start
            start = row
        end = row + n
    if end > start:
        yield start, end - start


# ----------------------------------------------------------------------------------------------------------- simulation


@dataclass(frozen=True, slots=True, eq=False)
class AdjointGradients:
    """Gradients by initial state and controls."""

    state: dict[str, ArraySeries]
    """Gradients by the parts of the initial state, (1, values, n_envs)."""
    control: ArraySeries
    """Gradients by the controls, (n_controls, n, n_envs)."""
    parameters: dict[str, Array]
    """Gradients by the arrays that hold model parameters, (values, n_envs) each."""
    failures: ArraySeries
    """Flags that are not zero in environments in which a loop of collision detection had more iterations than can be
    recorded, or the constraint solver did not converge, (1, n_flags, n_envs)."""


class Simulation:
    """A simulated trajectory of an engine with a sequence of controls, and its adjoint."""

    def __init__(
        self,
        programs: AdjointPrograms,
        controls: Any,
        n_steps_per_control: int,
        *,
        sensors: bool,
        parameters: ParameterValues | None = None,
    ) -> None:
        """Simulate from the present state of the engine, whose state advances.

        Args:
            programs: compiled programs of the engine.
            controls: controls, (n_controls, n_envs, n), a NumPy array or a PyTorch tensor.
            n_steps_per_control: number of steps for which each control is applied.
            sensors: whether to measure the sensors after each control.
            parameters: values of the model parameters that are inputs of the programs.
        """
        self.programs, engine, step = programs, programs.engine, programs.step
        self._n_controls = n = len(controls)
        self._n_runs = n_steps_per_control * step.n_stages
        """Runs of the step program per control."""
        engine.update_derived_parameters()
        step.load_all()
        state = step.arenas["state"]
        if parameters is not None:
            parameters.assign(state)
        self._controls = new_series(n, int(controls.shape[2]), state)
        self._controls.assign(controls)
        self._inputs = _saved(programs.n_rows["controls"], step.arenas["controls"], 0)
        self._parameters = _saved(programs.n_rows["state"] - programs.n_state_rows, state, programs.n_state_rows)
        self._uniform = _saved(engine.uniform.layout.n_rows, engine.uniform, 0)
        rows = state.layout.rows
        self.trajectory = {name: new_series(n, rows[x][1], state) for name, x in STATE_ARRAYS.items()}
        """Parts of the state after each control, by name; and `sensors`, if they are measured."""
        if sensors:
            self.trajectory["sensors"] = new_series(n, programs.sensors.n_values, state)
        n_bytes = n * self._n_runs * programs.n_state_rows * engine.state.stride * engine.state.dtype.itemsize
        is_recorded = n_bytes <= MAX_RECORDED_BYTES
        n_runs = n * self._n_runs
        self._interval = n if is_recorded else max(1, math.isqrt(n_runs) // self._n_runs)
        """Number of controls between checkpoints."""
        self._checkpoints = new_series(0 if is_recorded else -(-n // self._interval), programs.n_state_rows, state)
        self._snapshots = None
        """States before each run of the step program, and after the last one; None if they are repeated."""
        if is_recorded:
            self._snapshots = programs.borrow_snapshots(n_runs + 1)
            weakref.finalize(self, programs.give_back, self._snapshots).atexit = False
        self._simulate(n_steps_per_control)

    # -------------------------------------------------------------------------------------------------------- forward

    def _simulate(self, n_steps_per_control: int) -> None:
        """Take the steps of all controls, record the trajectory, and copy the final state to the engine."""
        programs, engine, step = self.programs, self.programs.engine, self.programs.step
        state = step.arenas["state"].data
        launch = step.program.prepared(self._n_runs)
        parts = [
            (series, state, step.arenas["state"].layout.rows[STATE_ARRAYS[name]][0])
            for name, series in self.trajectory.items()
            if name in STATE_ARRAYS and series.n_rows
        ]
        copies_at_end = self._snapshots is not None and engine.device.is_cpu
        records = [] if copies_at_end else parts[:]
        measure = None
        if "sensors" in self.trajectory:
            measure = programs.sensors.measure.launch
            records.append((self.trajectory["sensors"], programs.sensors.values.data, 0))
        for t in range(self._n_controls):
            if self._snapshots is not None:
                self._take_steps(t, self._snapshots, t * self._n_runs)
            else:
                if t % self._interval == 0:
                    self._checkpoints.store(t // self._interval, state, 0)
                self._set_control(step.arenas, t)
                launch()
            engine.advance_clock(n_steps_per_control)
            if measure is not None:
                measure()
            for series, source, row in records:
                series.store(t, source, row)
        for series, _, row in parts if copies_at_end else ():
            series.data.reshape(self._n_controls, series.n_rows, -1)[:] = self._after_controls(row, series.n_rows)
        step.store_all()

    def _after_controls(self, row: int, n_rows: int) -> np.ndarray:
        """View of rows of the recorded states after each control, (n_controls, n_rows, stride), on a CPU."""
        assert self._snapshots is not None
        snapshots = self._snapshots.data.reshape(-1, self._snapshots.n_rows, self._snapshots.data.shape[1])
        after = snapshots[self._n_runs : self._n_controls * self._n_runs + 1 : self._n_runs]
        return after[:, row : row + n_rows]

    def _set_control(self, arenas: Mapping[str, Arena], t: int) -> None:
        if self._controls.n_rows:
            arena = arenas[self.programs.control_arena]
            self._controls.load(t, arena.data, arena.layout.rows[self.programs.control_array][0])

    def _take_steps(self, t: int, snapshots: ArraySeries, first: int) -> None:
        """Take the steps of a control; store the states before each run of the program, and after the last one."""
        step = self.programs.step
        state, launch = step.arenas["state"].data, step.program.launch
        self._set_control(step.arenas, t)
        if not first:
            snapshots.store(0, state, 0)
        for i in range(first + 1, first + self._n_runs + 1):
            launch()
            snapshots.store(i, state, 0)

    # ------------------------------------------------------------------------------------------------------- backward

    def pullback(self, cotangents: Mapping[str, ArraySeries], max_norm: float | None = None) -> AdjointGradients:
        """Gradient of a function of the trajectory by initial state and controls.

        Args:
            cotangents: gradient of the function by the parts of the state, and by the sensor values, after each
                control, by name.
            max_norm: the gradient by the state before each step is scaled down to this norm, separately in each
                environment; None to change nothing.
        """
        programs = self.programs
        sensor_cotangents = cotangents.get("sensors")
        sums = [
            (series, programs.cotangents.layout.rows[COTANGENT_PREFIX + STATE_ARRAYS[name]][0])
            for name, series in cotangents.items()
            if name in STATE_ARRAYS and series.n_rows
        ]
        gradient = new_series(self._n_controls, self._controls.n_rows, programs.arenas["state"])
        repeated: ArraySeries | None = None
        with self._inputs_of_rollout():
            self._prepare(sums, max_norm, sensor_cotangents)
            for start in reversed(range(0, self._n_controls, self._interval)):
                end = min(start + self._interval, self._n_controls)
                snapshots = self._snapshots
                if snapshots is None:
                    snapshots = repeated = repeated or programs.borrow_snapshots(self._interval * self._n_runs + 1)
                    self._repeat(start, end, snapshots)
                for t in reversed(range(start, end)):
                    programs.fill_adjoints["controls"](0.0)
                    for series, row in sums:
                        series.load(t, programs.cotangents.data, row)
                    if sums:
                        programs.add_cotangents.launch()
                    last = (t + 1 - start) * self._n_runs
                    if sensor_cotangents is not None:
                        self._pull_back_sensors(t, snapshots, last, sensor_cotangents)
                    self._pull_back_steps(t, snapshots, last, clips=max_norm is not None)
                    self._store_control_gradient(t, gradient)
            failures = self._failures(with_sensors=sensor_cotangents is not None)
        if repeated is not None:
            programs.give_back(repeated)
        parts = {}
        for name, array in STATE_ARRAYS.items():
            row, n = programs.arenas["state"].layout.rows[ADJOINT_PREFIX + array]
            parts[name] = _saved(n, programs.arenas["state"], row)
        state = programs.arenas["state"]
        by_array = {x: np.array(state.view(ADJOINT_PREFIX + x).numpy(), np.float64) for x in programs.parameter_arrays}
        return AdjointGradients(parts, gradient, by_array, failures)

    def _prepare(
        self, sums: list[tuple[ArraySeries, int]], max_norm: float | None, sensor_cotangents: ArraySeries | None
    ) -> None:
        """Clear the adjoints and flags, load inputs and parameters of the simulation, and set the largest norm."""
        programs = self.programs
        programs.fill_adjoints["state"](0.0)
        row_filler(programs.flags.data, 0, 2)(0.0)
        for arenas in (programs.step.arenas, programs.arenas):
            self._inputs.load(0, arenas["controls"].data, 0)
            self._parameters.load(0, arenas["state"].data, programs.n_state_rows)
        if sums:
            row_filler(programs.cotangents.data, 0, programs.cotangents.layout.n_rows)(0.0)
        if max_norm is not None:
            row_filler(programs.cotangents.data, *programs.cotangents.layout.rows[MAX_NORM_ARRAY])(max_norm)
        if sensor_cotangents is not None:
            sensors = programs.sensors.adjoints
            row_filler(sensors.data, 0, sensors.layout.n_rows)(0.0)

    def _repeat(self, start: int, end: int, snapshots: ArraySeries) -> None:
        """Repeat the steps of an interval of controls; store the states before and after each run of the program."""
        self._checkpoints.load(start // self._interval, self.programs.step.arenas["state"].data, 0)
        for t in range(start, end):
            self._take_steps(t, snapshots, (t - start) * self._n_runs)

    def _load_state(self, t: int, snapshots: ArraySeries, time: int, arenas: Mapping[str, Arena]) -> None:
        """Load a recorded state, and a control, which is part of the state if it is a force on the dofs."""
        snapshots.load(time, arenas["state"].data, 0)
        self._set_control(arenas, t)

    def _pull_back_steps(self, t: int, snapshots: ArraySeries, last: int, *, clips: bool) -> None:
        """Run the adjoint of the steps of a control, which end at the state `last`, from the last to the first."""
        programs, n_stages = self.programs, self.programs.step.n_stages
        state, n_rows = programs.arenas["state"].data, snapshots.n_rows
        row, n_solution_rows = programs.solution_rows
        adjoint = programs.adjoint.launch
        for i in range(last - 1, last - 1 - self._n_runs, -1):
            self._load_state(t, snapshots, i, programs.arenas)
            if n_solution_rows:
                copy_rows(state, row, snapshots.data, (i + 1) * n_rows + row, n_solution_rows)
            adjoint()
            for fill in programs.fill_others:
                fill(0.0)
            if clips and (i % n_stages == 0):
                programs.clip.launch()

    def _pull_back_sensors(self, t: int, snapshots: ArraySeries, last: int, cotangents: ArraySeries) -> None:
        """Add the gradient by the sensor values after a control, at the state `last`, to the adjoints."""
        programs, sensors = self.programs, self.programs.sensors
        state = programs.arenas["state"].data
        self._load_state(t, snapshots, last, programs.arenas)
        if sensors.needs_solution:
            step, (row, n) = programs.step, programs.solution_rows
            self._load_state(t, snapshots, last, step.arenas)
            step.program.launch()
            copy_rows(state, row, step.arenas["state"].data, row, n)
        cotangents.load(t, sensors.adjoints.data, sensors.n_values)
        sensors.adjoint.launch()
        for fill in programs.fill_others:
            fill(0.0)

    def _store_control_gradient(self, t: int, gradient: ArraySeries) -> None:
        programs = self.programs
        if not gradient.n_rows:
            return
        data = programs.arenas[programs.control_arena].data
        row = programs.adjoint_row(programs.control_arena, programs.control_array)
        gradient.store(t, data, row)
        if programs.control_arena == "state":  # a constant input of the step, but stored with the state
            row_filler(data, row, gradient.n_rows)(0.0)

    def _failures(self, *, with_sensors: bool) -> ArraySeries:
        """Flags of the adjoint programs."""
        programs = self.programs
        failures = new_series(1, 3, programs.flags)
        copy_rows(failures.data, 0, programs.flags.data, 0, 2)
        if with_sensors:
            sensors = programs.sensors.adjoints
            copy_rows(failures.data, 2, sensors.data, sensors.layout.rows[OVERFLOW_ARRAY][0], 1)
        return failures

    @contextmanager
    def _inputs_of_rollout(self) -> Iterator[None]:
        """Context in which the parameters that all environments share are those of the forward pass."""
        uniform = self.programs.engine.uniform
        if uniform.device.is_cpu and np.array_equal(self._uniform.data, _as_rows(uniform)):
            yield
            return
        present = _saved(uniform.layout.n_rows, uniform, 0)
        self._uniform.load(0, _as_rows(uniform), 0)
        try:
            yield
        finally:
            present.load(0, _as_rows(uniform), 0)


def new_series(n_times: int, n_rows: int, arena: Arena) -> ArraySeries:
    """Series of zeros of so many rows, with the environments of an arena."""
    return ArraySeries(n_times, n_rows, arena, f"the trajectories of {arena.n_envs:,} environments")


def _saved(n_rows: int, arena: Arena, row: int) -> ArraySeries:
    """Copy of rows of an arena, at a single time."""
    series = new_series(1, n_rows, arena)
    series.store(0, _as_rows(arena), row)
    return series


def _as_rows(arena: Arena) -> Any:
    """Data of an arena as a device array (rows, stride)."""
    return arena.data.reshape((-1, 1)) if arena.layout.name == UNIFORM else arena.data
