"""Adjoint of a simulation: gradients of a function of a trajectory by initial state and controls, in reverse mode.

The forward pass keeps a checkpoint of the state every so many steps, about the square root of their number. The
backward pass repeats the steps of one interval after the other from its checkpoint, which gives the same bits, keeps
all states of the interval, and runs the adjoint of each step from the last to the first.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from kinema.core import Array
from kinema.ir import ADJOINT_PREFIX
from kinema.runtime import Arena

from ..lowering.derivative_programs import (
    OVERFLOW_ARRAY,
    STAGE_TANGENTS,
    STATE_TANGENTS,
    adjoint_arena_arrays,
    solution_settings,
    trace_step_adjoint,
)
from .linearization import ARENAS, CONTROL_ARRAYS, DerivativeProgram, SolvedStep, new_arena

if TYPE_CHECKING:
    from .engine import Engine

STATE_ARRAYS = {"qpos": "qpos", "qvel": "vel", "act": "act"}
"""Name of a part of the state in gradients -> array."""


@dataclass(frozen=True, slots=True, eq=False)
class _Stage:
    """Memory of a step or Runge-Kutta stage: state before it, and the constraint accelerations found by it."""

    state: Array
    solution: Array | None


class Simulation:
    """A simulated trajectory of an engine with a sequence of controls, and its adjoint."""

    def __init__(self, engine: Engine, by: str, n_steps_per_control: int) -> None:
        """Compile the step and its adjoint.

        Args:
            engine: engine whose step is simulated; its present state is the initial state.
            by: kind of controls, a key of `CONTROL_ARRAYS`.
            n_steps_per_control: number of steps for which each control is applied.
        """
        self.engine, self.control_array, self.hold = engine, CONTROL_ARRAYS[by], n_steps_per_control
        model, loops = engine.model, engine.uses_loops
        self.settings = settings = solution_settings(engine.settings, external_forces=by == "force")
        self._step = SolvedStep(engine, settings, engine.n_envs)
        sizes = {a: adjoint_arena_arrays(a, model, settings) for a in ARENAS}
        self._arenas = {a: new_arena(engine, a, sizes[a], engine.n_envs) for a in ARENAS}
        self._flags = new_arena(engine, "out", [(OVERFLOW_ARRAY, 1)], engine.n_envs)
        self._adjoint = DerivativeProgram(
            engine,
            "adjoint",
            {**self._arenas, "out": self._flags},
            lambda offsets: trace_step_adjoint(model, settings, offsets, loops=loops),
            settings,
        )
        is_input = self.control_array in self._step.arenas["controls"].layout.rows
        self._control_arena = "controls" if is_input else "state"
        tracked = {ADJOINT_PREFIX + name for name in (*STATE_TANGENTS, *STAGE_TANGENTS, self.control_array)}
        self._other_adjoints = [
            self._arenas["state"].view(name)
            for name, (_, n) in self._arenas["state"].layout.rows.items()
            if n and name.startswith(ADJOINT_PREFIX) and name not in tracked
        ]
        """Adjoints of state arrays without derivatives, which are undefined after the adjoint program."""
        self._controls = np.zeros((0, 0, 0))
        self._checkpoints: dict[int, Array] = {}
        self._interval = 1

    # -------------------------------------------------------------------------------------------------------- forward

    def run(self, controls: Array) -> dict[str, Array]:
        """Simulate from the present state of the engine, whose state advances; (n_controls, n_envs, n) controls.

        Returns the parts of the state after each control by name, (n_controls, n_envs, values).
        """
        engine = self.engine
        engine.update_derived_parameters()
        self._step.load(np.arange(engine.n_envs))
        self._controls, self._checkpoints = controls, {}
        self._interval = max(1, math.isqrt(len(controls)))
        recorded: dict[str, list[Array]] = {name: [] for name in STATE_ARRAYS}
        for t in range(len(controls)):
            if t % self._interval == 0:
                self._checkpoints[t] = self._read_state()
            self._apply(t)
            for name, array in STATE_ARRAYS.items():
                recorded[name].append(np.array(self._step.arenas["state"].view(array).numpy().T, np.float64))
        self._write_back()
        return {name: np.array(values) for name, values in recorded.items()}

    def _apply(self, t: int) -> list[_Stage]:
        """Take the steps of a control; returns what the adjoint of each stage needs."""
        self._set_control(self._step.arenas, t)
        stages = []
        for _ in range(self.hold * self._step.n_stages):
            state = self._read_state()
            self._step.run_stage()
            solution = self._step.solution
            stages.append(_Stage(state, None if solution is None else solution.copy()))
        return stages

    def _set_control(self, arenas: Mapping[str, Arena], t: int) -> None:
        if self._controls.shape[2]:
            arenas[self._control_arena].view(self.control_array).assign(self._controls[t].T)

    def _read_state(self) -> Array:
        arena = self._step.arenas["state"]
        return np.array(arena.rows(0, arena.layout.n_rows).numpy())

    def _write_back(self) -> None:
        """Copy the final state and the last control to the engine."""
        engine = self.engine
        for name, arena in self._step.arenas.items():
            for array, (_, n) in arena.layout.rows.items():
                if n and array in engine.array_offsets and engine.array_offsets[array].arena == name:
                    engine.array_view(array).assign(arena.view(array).numpy())
        for _ in self._controls:
            engine.advance_clock(self.hold)

    # ------------------------------------------------------------------------------------------------------- backward

    def pullback(self, cotangents: Mapping[str, Array]) -> tuple[dict[str, Array], Array, Array]:
        """Gradient of a function of the trajectory by initial state and controls.

        Args:
            cotangents: gradient of the function by the parts of the state after each control, by name, (n_controls,
                n_envs, values).

        Returns:
            Gradients by the parts of the initial state by name, (n_envs, values); by the controls, (n_controls, n_envs,
            n); and a mask of the environments whose gradients are valid, (n_envs,): finite, and no loop of collision
            detection had more iterations than can be recorded.
        """
        step_state = self._step.arenas["state"]
        n_rows, final = step_state.layout.n_rows, self._read_state()
        self._arenas["state"].rows(n_rows, n_rows).assign(0.0)
        self._flags.view(OVERFLOW_ARRAY).assign(0.0)
        gradients = np.zeros_like(self._controls)
        for start in sorted(self._checkpoints, reverse=True):
            step_state.rows(0, n_rows).assign(self._checkpoints[start])
            times = range(start, min(start + self._interval, len(self._controls)))
            stages = [self._apply(t) for t in times]
            for t in reversed(times):
                self._add_cotangents({name: values[t] for name, values in cotangents.items()})
                gradients[t] = self._pull_back_control(t, stages[t - start])
        step_state.rows(0, n_rows).assign(final)
        state_gradients = {name: self._adjoint_of("state", array).T.copy() for name, array in STATE_ARRAYS.items()}
        is_valid = self._flags.view(OVERFLOW_ARRAY).numpy()[0] < 0.5
        for values in (*state_gradients.values(), *gradients):
            is_valid &= np.isfinite(values).all(axis=1)
        return state_gradients, gradients, is_valid

    def _pull_back_control(self, t: int, stages: list[_Stage]) -> Array:
        """Run the adjoint of the steps of a control from the last; returns the gradient by the control, (n_envs, n)."""
        arenas, n_rows = self._arenas, self._step.arenas["state"].layout.n_rows
        n_controls = self._step.arenas["controls"].layout.n_rows
        if n_controls:
            arenas["controls"].rows(n_controls, n_controls).assign(0.0)
            arenas["controls"].rows(0, n_controls).assign(self._step.arenas["controls"].rows(0, n_controls).numpy())
        self._set_control(arenas, t)
        for stage in reversed(stages):
            arenas["state"].rows(0, n_rows).assign(stage.state)
            if stage.solution is not None:
                arenas["state"].view("warm_start").assign(stage.solution)
            self._adjoint.run()
            for view in self._other_adjoints:
                view.assign(0.0)
        if not self._controls.shape[2]:
            return np.zeros(self._controls.shape[1:])
        gradient = self._adjoint_of(self._control_arena, self.control_array).T.copy()
        if self._control_arena == "state":  # a constant input of the step, but stored with the state
            arenas["state"].view(ADJOINT_PREFIX + self.control_array).assign(0.0)
        return gradient

    def _add_cotangents(self, cotangents: Mapping[str, Array]) -> None:
        for name, values in cotangents.items():
            view = self._arenas["state"].view(ADJOINT_PREFIX + STATE_ARRAYS[name])
            view.assign(view.numpy() + values.T)

    def _adjoint_of(self, arena: str, array: str) -> Array:
        """Adjoint of an array, (values, n_envs)."""
        return np.asarray(self._arenas[arena].view(ADJOINT_PREFIX + array).numpy(), np.float64)
