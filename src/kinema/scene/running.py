"""What a scene has once it is built."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Protocol

import numpy as np

from kinema.model import Model
from kinema.sim import Engine, may_lose_contacts, room_for_contacts

from .controls import Controls
from .memory import Memory
from .outputs import Outputs
from .views import not_built


@dataclass(slots=True, eq=False)
class Running:
    """A model, the engine that steps it, its arrays, and who controls what."""

    model: Model
    engine: Engine
    memory: Memory
    controls: Controls
    outputs: Outputs
    key: str
    """Of the model's content."""
    of_geoms: dict[str, np.ndarray] = field(default_factory=dict)
    """What of shapes was set for each environment, (n_envs, n_geoms, numbers)."""
    starts: dict[tuple[object, int], list[tuple[Any, Any]]] = field(default_factory=dict)
    """What environments begin with on a GPU: memory and numbers, by keyframe and control."""
    _rooms: dict[int | None, tuple[int, bool]] = field(default_factory=dict)

    @property
    def n_envs(self) -> int:
        """Environments."""
        return self.engine.n_envs

    @property
    def may_lose_contacts(self) -> bool:
        """Whether there can be more contacts than there is room for."""
        return self._room[1]

    @property
    def room_for_contacts(self) -> int:
        """For how many contacts there is room: between any two bodies, or of a whole environment where teams solve."""
        return self._room[0]

    @property
    def _room(self) -> tuple[int, bool]:
        asked, settings = self.model.pairs.room, self.engine.settings
        if asked not in self._rooms:
            loses = settings.contacts and may_lose_contacts(self.model, team=settings.team)
            self._rooms[asked] = room_for_contacts(self.model, team=settings.team), loses
        return self._rooms[asked]


class Built:
    """What all parts of a scene know of it: what there is once it is built."""

    _running: Running | None = None

    @property
    def running(self) -> Running:
        """What there is once the scene is built; an error before."""
        if self._running is None:
            raise not_built()
        return self._running

    @property
    def is_built(self) -> bool:
        """Whether `build` was called."""
        return self._running is not None

    @property
    def n_envs(self) -> int:
        """Environments."""
        return self.running.n_envs


class HasRunning(Protocol):
    """What entities know of their scene."""

    @property
    def running(self) -> Running:
        """What there is once the scene is built; an error before."""
        ...

    @property
    def n_envs(self) -> int:
        """Environments."""
        ...
