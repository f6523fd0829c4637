"""Recordings: what a scene does, step by step, in files that others read."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import KinemaError, WriteError

from .batches import environments
from .record_files import arrow, write_npz, write_parquet
from .record_frames import Frames, Source
from .record_mcap import library, write_mcap

SUFFIXES = {".npz": "npz", ".parquet": "parquet", ".mcap": "mcap", ".usda": "usd", ".usdc": "usd", ".usd": "usd"}
"""Which files can be written."""


class Recording:
    """A file that is being written: each step from now on, until `close()` or the end of a `with`."""

    def __init__(self, source: Source, path: Path, *, every: int, envs_idx: Any, sensors: bool, spacing: float) -> None:
        self.path = path
        """The file; it appears when the recording is closed."""
        self.format = _format(self.path)
        self.is_open = True
        self._source = source
        self._every, self._steps = every, 0
        running = source.running
        chosen = environments(envs_idx, running.n_envs)
        self.envs = np.arange(running.n_envs) if chosen is None else np.asarray(chosen)
        """Which environments are recorded."""
        self._sensors = sensors
        self._spacing = spacing
        self.frames = Frames()
        self._take()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Recording {self.path}: {len(self.frames.times)} frames of {len(self.envs)} environments, {state}>"

    def look(self) -> None:
        """Take a frame, if its step has come: called by the scene after each step."""
        self._steps += 1
        if self._steps % self._every == 0:
            self._take()

    def _take(self) -> None:
        running, found = self._source.running, {}
        if self.format != "usd":
            model = running.model
            found |= {"qpos": running.memory.read("qpos", slice(None), self.envs)}
            found |= {"qvel": running.memory.read("vel", slice(None), self.envs)}
            if model.n_actuators:
                found |= {"ctrl": running.memory.read("ctrl", slice(None), self.envs)}
            if model.actuators.has_activation.any():
                found |= {"act": running.memory.read("act", slice(None), self.envs)}
            if self._sensors:
                found |= {"sensordata": self._source.sensors()[self.envs]}
        if self.format != "parquet" and running.model.n_links:
            links = running.engine.fields.links_state
            for name in ("pos", "quat"):
                rows = np.asarray(getattr(links, name).numpy())[:, self.envs]
                found[f"link_{name}"] = np.array(np.moveaxis(rows, 0, 1), np.float64)
        self.frames.times.append(running.engine.seconds)
        for name, values in found.items():
            self.frames.arrays.setdefault(name, []).append(np.array(values))

    def close(self) -> None:
        """Write the file; nothing is recorded from now on."""
        if not self.is_open:
            return
        self.is_open = False
        if self.format == "usd":
            from .record_usd import write_usd

            write_usd(self.path, self._source, self.frames, self.envs, self._spacing)
        elif self.format == "mcap":
            write_mcap(self.path, self._source, self.frames, self.envs)
        elif self.format == "npz":
            write_npz(self.path, self._source, self.frames, self.envs)
        else:
            write_parquet(self.path, self._source, self.frames, self.envs)


def _format(path: Path) -> str:
    found = SUFFIXES.get(path.suffix.lower())
    if found is None:
        raise KinemaError(f"{path}: recordings are written to {', '.join(SUFFIXES)}, not to {path.suffix!r}")
    if not path.parent.is_dir():
        raise WriteError(f"{path}: there is no folder {path.parent}; make it first")
    if found == "parquet":
        arrow()  # say at once that it is missing
    if found == "mcap":
        library("writer")
    return found
