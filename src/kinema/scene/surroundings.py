"""What a whole scene is in: gravity, and the medium that everything moves through."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.compile import Medium
from kinema.foundation import KinemaError

from .arguments import amount, numbers
from .batches import environments
from .entity import Entity
from .views import not_built


def medium_of(density: Any, viscosity: Any, wind: Any) -> Medium:
    """What the user asks for; None for what the files say."""
    return Medium(
        density=None if density is None else amount(density, "density"),
        viscosity=None if viscosity is None else amount(viscosity, "viscosity"),
        wind=None if wind is None else numbers(wind, "wind", "three"),
    )


class Surroundings:
    """The part of a scene that sets them, once it is built."""

    entities: list[Entity]

    def set_gravity(self, gravity: Any, envs_idx: Any = None) -> None:
        """Gravity [m/s2], three numbers; with `build(per_env=("gravity",))` those of each environment, (n_envs, 3)."""
        self._first.set_gravity(gravity, envs_idx)

    def get_gravity(self, envs_idx: Any = None) -> np.ndarray:
        """Gravity [m/s2], (n_envs, 3)."""
        running = self._first._running
        return running.memory.read("gravity", slice(None), environments(envs_idx, running.n_envs))

    def set_wind(self, wind: Any, envs_idx: Any = None) -> None:
        """How the medium moves [m/s], three numbers; with `build(per_env=("wind",))` those of each environment."""
        self._set_medium("wind", (3,), wind, envs_idx)

    def set_density(self, density: Any, envs_idx: Any = None) -> None:
        """The density of the medium [kg/m3]; with `build(per_env=("density",))` one for each environment."""
        self._set_medium("density", (1,), density, envs_idx)

    def set_viscosity(self, viscosity: Any, envs_idx: Any = None) -> None:
        """The viscosity of the medium [Pa s]; with `build(per_env=("viscosity",))` one for each environment."""
        self._set_medium("viscosity", (1,), viscosity, envs_idx)

    def _set_medium(self, name: str, shape: tuple[int, ...], values: Any, envs_idx: Any) -> None:
        first = self._first
        if not first._running.model.fluid.kinds:
            raise KinemaError(
                f"set_{name}: the program has no place for a medium; use Scene(density=...), which may be zero"
            )
        first._set_parameter(name, slice(None), shape, values, envs_idx, f"set_{name}")

    @property
    def _first(self) -> Entity:
        if not self.entities:
            raise not_built()
        return self.entities[0]
