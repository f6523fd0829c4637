"""What looks at a scene while it runs: sensors with times of their own, and recordings."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np

from kinema.compile import Part

from .arguments import amount, flag, whole
from .entity import Entity
from .record_frames import Source
from .recording import Recording
from .replaying import Replay
from .running import Built
from .sensing import Sensors


class Watching(Built):
    """The part of a scene that is looked at after each step, where somebody asks for it."""

    substeps: int
    entities: list[Entity]
    _parts: list[Part]
    _watched: Sensors | None = None
    _recordings: tuple[Recording, ...] | list[Recording] = ()

    @property
    def sensors(self) -> Sensors:
        """The sensors of all files, by name: `scene.sensors["imu"].read()`; see `docs/sensors.md`."""
        if self._watched is None:
            self._watched = Sensors(self.running)
        return self._watched

    def record(
        self,
        path: str | os.PathLike[str],
        *,
        every: int = 1,
        envs_idx: Any = None,
        sensors: bool = False,
        env_spacing: float = 2.0,
    ) -> Recording:
        """Record what happens from now on, the present state first; `close()`, or the end of a `with`, writes the file.

        Args:
            path: a `.npz` (arrays), a `.parquet` (a table) or an `.mcap` (for Foxglove and its like; extra `record` for
                both), or a `.usda`, `.usdc` or `.usd`: what everything looks like, and where it is at each time, for
                any viewer.
            every: how many steps there are from frame to frame.
            envs_idx: which environments; None for all.
            sensors: whether what sensors tell is recorded as well; in USD there is no place for it.
            env_spacing: how far environments are apart in USD [m].
        """
        chosen = {"every": whole(every, "record", "step"), "envs_idx": envs_idx, "sensors": flag(sensors, "sensors")}
        looks = [((e.description,) if e._mixed is None else e._mixed.shown, e.variant_idx) for e in self.entities]
        entities = [(p.description, p.pose) for p in self._parts]
        source = Source(self.running, entities, lambda: self.sensors.data, looks)
        made = Recording(source, Path(path), **chosen, spacing=amount(env_spacing, "env_spacing"))  # type: ignore[arg-type]
        self._recordings = [r for r in self._recordings if r.is_open] + [made]
        return made

    def replay(self, path: str | os.PathLike[str]) -> Replay:
        """A recording of the same entities (`.npz`, `.parquet`, `.mcap`): `for time in scene.replay(path)` plays it."""
        return Replay(self.running, Path(path))

    def _listeners(self) -> list[Callable[[], None]]:
        """What is called after each step."""
        sensors = self._watched
        timed = [sensors._samples.look] if sensors is not None and sensors.is_timed else []
        return timed + [r.look for r in self._recordings if r.is_open]

    def _advance(self, n: int) -> None:
        """Take steps: in one launch, or one by one where each of them is looked at."""
        listeners = self._listeners()
        for _ in range(n) if listeners else range(1):
            self._launch(1 if listeners else n)
            for listener in listeners:
                listener()

    def _launch(self, n: int) -> None:
        running = self.running
        if running.model.n_dofs:
            running.engine.step(n * self.substeps)
        else:
            running.engine.count(n * self.substeps)

    @property
    def _is_timed(self) -> bool:
        """Whether some sensor remembers what it measured."""
        return self._watched is not None and self._watched.is_timed

    def _was_reset(self, envs: np.ndarray | None) -> None:
        """Forget what was measured before."""
        if self._watched is not None and self._watched.is_timed:
            self._watched._samples.look(start=envs is None, envs=envs)
