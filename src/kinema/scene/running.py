"""What a scene has once it is built."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, Protocol

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

    def on_device(self, values: Any) -> bool:
        """Whether these are a tensor on the GPU that the scene is on."""
        return bool(getattr(values, "is_cuda", False)) and not self.engine.device.is_cpu


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
