"""Recordings, played again in a scene of the same entities."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import KinemaError, ReadError

from .record_files import VERSION, load_npz, load_parquet, names_of
from .record_mcap import load_mcap
from .running import Running

STATE = {"qpos": "qpos", "qvel": "vel", "ctrl": "ctrl", "act": "act"}
"""Arrays of a recording that are put back, and what the engine calls them."""

LOADERS = {".npz": load_npz, ".parquet": load_parquet, ".mcap": load_mcap}
"""What reads a recording, by its suffix."""


def load(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a recording says of itself, and its arrays, frames and environments first."""
    if not path.is_file():
        raise ReadError(f"{path}: there is no such file")
    loader = LOADERS.get(path.suffix.lower())
    if loader is None:
        raise ReadError(f"{path}: recordings are played from {', '.join(LOADERS)}, not from {path.suffix!r}")
    try:
        about, arrays = loader(path)
        frames, envs = len(arrays["time"]), len(about["environments"])
        whole = all(a.shape[:2] == (frames, envs) for name, a in arrays.items() if name != "time")
    except KinemaError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ReadError(f"{path}: this is no recording, or not a whole one: {error}") from None
    if about.get("kinema_recording") != VERSION or not whole:
        raise ReadError(f"{path}: this is no recording of this version, or not a whole one")
    return about, arrays


class Replay:
    """The frames of a recording: a loop over it puts the scene through all of them, and tells the time of each [s]."""

    def __init__(self, running: Running, path: str | Path) -> None:
        self.path = Path(path)
        self._running = running
        self.about, self.arrays = load(self.path)
        """What the recording says of itself, and its arrays by name, (frames, environments, ...)."""
        self.times: np.ndarray = self.arrays["time"]
        """[s]"""
        self._envs = self._checked()

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[float]:
        for frame in range(len(self)):
            self.show(frame)
            yield float(self.times[frame])

    def show(self, frame: int) -> None:
        """Put the scene into the state of a frame; its time stays what it is."""
        if not -len(self) <= frame < len(self):
            raise KinemaError(f"{self.path} has {len(self)} frames, and no frame {frame}")
        for name, array in STATE.items():
            if name in self.arrays:
                self._running.memory.write(array, slice(None), self.arrays[name][frame][: len(self._envs)], self._envs)

    def _checked(self) -> np.ndarray:
        """The environments that are played into: those that were recorded, else the first ones."""
        recorded, ours = self.about["names"], names_of(self._running.model)
        for name in STATE:
            if name in self.arrays and recorded.get(name) != ours[name]:
                raise KinemaError(f"{self.path} is of another scene: {_differing(recorded.get(name, []), ours[name])}")
        envs = np.array(self.about["environments"], dtype=np.intp)
        n = self._running.n_envs
        return envs if len(envs) and envs.max() < n else np.arange(min(n, len(envs)))


def _differing(recorded: list[str], ours: list[str]) -> str:
    for here, there in zip(ours, recorded, strict=False):
        if here != there:
            return f'it has "{there}" where this one has "{here}"'
    return f"it has {len(recorded)} numbers where this one has {len(ours)}"
