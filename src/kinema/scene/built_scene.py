"""The built scene: model, engine, arrays, controls and conversion of outputs."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import Engine, contact_capacity, may_lose_contacts
from kinema.model import Model

from .arrays import OutputConverter, SceneArrays
from .control import DofControl


def not_built_error() -> KinemaError:
    """Exception for access to a scene that is not built yet."""
    return KinemaError("the scene is not built yet: call scene.build() first")


@dataclass(frozen=True, slots=True, eq=False)
class KinematicMotion:
    """Motion of a kinematic body that a file gives (USD time samples)."""

    body: int
    """Index of the kinematic body."""
    times: np.ndarray
    """Times of the poses [s], ascending, (n,)."""
    poses: np.ndarray
    """Positions and quaternions in the world, (n, 7)."""


@dataclass(slots=True, eq=False)
class BuiltScene:
    """Everything that exists once a scene is built: model, engine, arrays, dof control and output conversion."""

    engine: Engine
    arrays: SceneArrays
    controls: DofControl
    outputs: OutputConverter
    model_key: str
    """Digest of models, precision and settings; states are compatible if it is equal."""
    disabled_equalities: list[tuple[str, np.ndarray]]
    """Names and parameters (7,) of the equality constraints that their file disables and the program leaves out."""
    geom_overrides: dict[str, np.ndarray] = field(default_factory=dict)
    """Geom parameters set per environment by parameter name (friction, solref, solimp, size), (n_envs, n_geoms,
    components)."""
    reset_tensors: dict[tuple[object, int], list[tuple[Any, Any]]] = field(default_factory=dict)
    """Cache of `reset_on_gpu`: pairs of target tensor and initial values, by keyframe and version of the control
    modes."""
    motions: list[KinematicMotion] = field(default_factory=list)
    """Motions of kinematic bodies that files give (USD time samples)."""
    _contact_capacities: dict[int | None, tuple[int, bool]] = field(default_factory=dict)

    @property
    def model(self) -> Model:
        """Model of the first variant combination, with derived constants."""
        return self.engine.model

    @property
    def n_envs(self) -> int:
        """Number of environments."""
        return self.engine.n_envs

    @property
    def contacts_may_overflow(self) -> bool:
        """Whether the number of contacts can exceed the capacity of the contact buffers."""
        return self._contact_capacity[1]

    @property
    def contact_capacity(self) -> int:
        """Contact capacity per pair of bodies, or per environment if each is solved by one warp (GPU)."""
        return self._contact_capacity[0]

    @property
    def _contact_capacity(self) -> tuple[int, bool]:
        requested, settings = self.model.derived.max_contacts_per_frame_pair, self.engine.settings
        if requested not in self._contact_capacities:
            loses = settings.contacts and may_lose_contacts(self.model, use_warps=settings.use_warps)
            self._contact_capacities[requested] = contact_capacity(self.model, use_warps=settings.use_warps), loses
        return self._contact_capacities[requested]


class HasBuiltScene(Protocol):
    """Interface of `Scene` for its components, which look up the built scene at each use: it may be built again."""

    @property
    def built(self) -> BuiltScene:
        """The built scene; raises `KinemaError` before `build`."""
        ...

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        ...
