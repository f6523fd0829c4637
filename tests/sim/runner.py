"""One environment on plain numbers: for tests that follow a trajectory."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import Array
from kinema.model import Model
from kinema.sim import Control, Integrator, Settings, step_program
from kinema.sim.field_programs import GROUPS
from kinema.sim.inputs import Inputs
from kinema.sim.programs import STAGES

from .straight import Arrays, function_of, roll

NUMBERS: dict[str, Any] = {"single": np.float32, "double": float}


class Runner:
    """A model in one precision, told a constant force on each degree of freedom."""

    def __init__(self, model: Model, dt: float, integrator: Integrator, precision: str = "double") -> None:
        self.model = model
        self.settings = Settings(dt=dt, integrator=integrator, control=(Control.FORCE,) * model.n_dofs)
        self.number = NUMBERS[precision]
        self.runs = STAGES if integrator is Integrator.RK4 else 1
        self.function = function_of(step_program(model, self.settings), precision)
        n_qs, n_dofs = model.n_qs, model.n_dofs
        self.state: Arrays = {"qpos": model.qpos0.tolist(), "vel": [0.0] * n_dofs, "command": [0.0] * n_dofs}
        self.state |= {"error": [0.0], "phase": [0.0], "stage_qpos": [0.0] * n_qs}
        self.state |= {f"stage_{name}": [0.0] * n_dofs for name in ("vel", "shift", "sum_vel", "sum_acc")}

    def set(self, **arrays: Any) -> Runner:
        """Coordinates, velocities or forces."""
        self.state |= {name: [float(x) for x in values] for name, values in arrays.items()}
        return self

    def run(self, steps: int) -> list[Arrays]:
        """The states after each step."""
        self.state = {name: [self.number(x) for x in values] for name, values in self.state.items()}
        states = roll(self.function, self.state, steps * self.runs)[self.runs - 1 :: self.runs]
        self.state = states[-1]
        return states

    def follow(self, steps: int, name: str, item: int = 0) -> Array:
        """One number after each step."""
        return np.array([state[name][item] for state in self.run(steps)], dtype=float)

    def system(self, state: Arrays | None = None) -> dict[str, Array]:
        """Energy, momentum and so on, in double precision, by the algorithms on plain floats."""
        own = self.state if state is None else state
        inputs = Inputs(self.model, self.settings, lambda array, item: float(own[array][item]))
        return {name: np.array(values, dtype=float) for name, values in GROUPS["system"](inputs).items()}

    def energy(self, state: Arrays | None = None) -> float:
        """Kinetic and potential energy."""
        found = self.system(state)
        return float(found["kinetic_energy"][0] + found["potential_energy"][0])
