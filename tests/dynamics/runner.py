"""One environment on plain numbers: for tests that follow a trajectory."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import Array
from kinema.dynamics import Integrator, Settings, trace_unrolled_step
from kinema.ir import interpret
from kinema.model import Model

from .arrays_for_tests import Modes, arrays_for, fields_on_floats, fields_program, forced, runs_of
from .straight import Arrays, function_of, roll

NUMBERS: dict[str, Any] = {"single": np.float32, "double": float}


class Runner:
    """A model in one precision, told a constant force on each degree of freedom, unless it is told otherwise."""

    def __init__(
        self, model: Model, dt: float, integrator: Integrator, precision: str = "double", modes: Modes | None = None
    ) -> None:
        self.model = model
        self.settings = Settings(dt=dt, integrator=integrator)
        self.number = NUMBERS[precision]
        self.runs = runs_of(self.settings)
        self.function = function_of(trace_unrolled_step(model, self.settings), precision)
        arrays = arrays_for(model, self.settings, forced(model) if modes is None else modes)
        self.state: Arrays = {name: values[:, 0].tolist() for name, values in arrays.items()}

    def set(self, **arrays: Any) -> Runner:
        """Coordinates, velocities or forces."""
        assert all(len(values) == len(self.state[name]) for name, values in arrays.items())
        self.state |= {name: [float(x) for x in values] for name, values in arrays.items()}
        return self

    def run(self, steps: int) -> list[Arrays]:
        """The states after each step."""
        self.state = {name: [self.number(x) for x in values] for name, values in self.state.items()}
        states = roll(self.function, self.state, steps * self.runs)[self.runs - 1 :: self.runs]
        self.state = states[-1]
        return states

    def follow(self, steps: int, name: str, element: int = 0) -> Array:
        """One number after each step."""
        return np.array([state[name][element] for state in self.run(steps)], dtype=float)

    def system(self, state: Arrays | None = None) -> dict[str, Array]:
        """Energy, momentum and so on, in double precision, by the algorithms on plain floats."""
        return fields_on_floats(self.model, self.settings, self.state if state is None else state, "system")

    def energies(self, states: list[Arrays]) -> Array:
        """Kinetic and potential energy of several states at once, by the interpreter."""
        arrays = {name: np.array([state[name] for state in states], dtype=float).T for name in self.state}
        found = interpret(fields_program(self.model, self.settings, "system"), arrays)
        return (found["system.kinetic_energy"] + found["system.potential_energy"])[0]

    def energy(self, state: Arrays | None = None) -> float:
        """Kinetic and potential energy."""
        found = self.system(state)
        return float(found["kinetic_energy"][0] + found["potential_energy"][0])
