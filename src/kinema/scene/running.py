"""What a scene has once it is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol

from kinema.model import Model
from kinema.sim import Engine

from .controls import Controls
from .memory import Memory
from .outputs import Outputs


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

    @property
    def n_envs(self) -> int:
        """Environments."""
        return self.engine.n_envs


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
