"""Recording the states of a scene to a file during stepping, and replaying a recording."""

from __future__ import annotations

import zipfile
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import KinemaError, ReadError, WriteError, check_writable

from .arguments import resolve_envs
from .built_scene import HasBuiltScene
from .presence import presence_of_entities, set_entity_presence
from .recording_formats import (
    RECORDING_VERSION,
    RecordedFrames,
    RecordedScene,
    element_names,
    import_mcap,
    import_parquet,
    load_mcap,
    load_npz,
    load_parquet,
    write_mcap,
    write_npz,
    write_parquet,
)

# -------------------------------------------------------------------------------------------------- recording

FORMAT_OF_SUFFIX = {
    ".npz": "npz",
    ".parquet": "parquet",
    ".mcap": "mcap",
    ".usda": "usd",
    ".usdc": "usd",
    ".usd": "usd",
}
"""File formats of recordings by file suffix."""


class Recording:
    """An open recording: stores frames during stepping until `close()` or the end of a `with` block writes the file."""

    def __init__(
        self, recorded: RecordedScene, path: Path, *, every: int, envs_idx: Any, sensors: bool, spacing: float
    ) -> None:
        """Start a recording with the current state as first frame.

        Args:
            recorded: the scene to record.
            path: file to write; its suffix selects the format.
            every: number of steps between frames.
            envs_idx: environments to record; None for all.
            sensors: whether sensor readings are recorded.
            spacing: distance of the environments in USD files [m].
        """
        self.path = path
        """Path of the file; it is written by `close`."""
        self.format = _recording_format(self.path)
        self.is_open = True
        self._recorded = recorded
        self._every, self._steps = every, 0
        built = recorded.built
        selected = resolve_envs(envs_idx, built.n_envs)
        self.envs = np.arange(built.n_envs) if selected is None else np.asarray(selected)
        """Indices of the recorded environments."""
        self._sensors = sensors
        self._spacing = spacing
        self._start_time, self._last_time = 0.0, 0.0
        self.frames = RecordedFrames()
        self._append_frame()

    def __enter__(self) -> Recording:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def __repr__(self) -> str:
        state = "open" if self.is_open else "closed"
        return f"<Recording {self.path}: {len(self.frames.times)} frames of {len(self.envs)} environments, {state}>"

    def on_step(self) -> None:
        """Append a frame every `every` steps; called by the scene after each step."""
        self._steps += 1
        if self._steps % self._every == 0:
            self._append_frame()

    def _append_frame(self) -> None:
        """Append the current state as a frame: copies of arrays (environments, ...), and the simulated time [s].

        The arrays are qpos, qvel, command (targets of the dofs), ctrl, act, poses of kinematic bodies and sensor data
        (not for USD), link poses (not for Parquet), and the presence of entities if they can be removed. The recorded
        time does not go back if the scene is reset.
        """
        built, arrays = self._recorded.built, {}
        if self.format != "usd":
            model = built.model
            arrays |= {"qpos": built.arrays.read("qpos", slice(None), self.envs)}
            arrays |= {"qvel": built.arrays.read("vel", slice(None), self.envs)}
            if built.arrays.has("command"):
                arrays |= {"command": built.arrays.read("command", slice(None), self.envs)}
            if model.n_actuators:
                arrays |= {"ctrl": built.arrays.read("ctrl", slice(None), self.envs)}
            if model.actuators.has_activation.any():
                arrays |= {"act": built.arrays.read("act", slice(None), self.envs)}
            if model.kinematic_frames:
                arrays |= {"kinematic_pose": built.arrays.read("kinematic_pose", slice(None), self.envs)}
            if self._sensors:
                arrays |= {"sensordata": self._recorded.read_sensors()[self.envs]}
        if built.engine.settings.presence:
            arrays |= {"present": presence_of_entities(built.arrays, self.envs)}
        if self.format != "parquet" and built.model.n_links:
            links = built.engine.fields.links_state
            for name in ("pos", "quat"):
                rows = np.asarray(getattr(links, name).numpy())[:, self.envs]
                arrays[f"link_{name}"] = np.array(np.moveaxis(rows, 0, 1), np.float64)
        time = built.engine.sim_time
        if time < self._last_time:  # reset: frames go on after the previous one
            self._start_time += self._last_time
        self._last_time = time
        self.frames.times.append(self._start_time + time)
        for name, values in arrays.items():
            self.frames.arrays.setdefault(name, []).append(np.array(values))

    def close(self) -> None:
        """Write the file in the format of its suffix and end the recording; a second call has no effect."""
        if not self.is_open:
            return
        self.is_open = False
        try:
            self._write()
        except OSError as error:
            raise WriteError(f"{self.path}: {error.strerror or error}") from None

    def _write(self) -> None:
        """Write the recorded frames in the format of the file."""
        if self.format == "usd":
            from .recording_usd import write_usd

            write_usd(self.path, self._recorded, self.frames, self.envs, self._spacing)
        else:
            writers = {"mcap": write_mcap, "npz": write_npz, "parquet": write_parquet}
            writers[self.format](self.path, self._recorded, self.frames, self.envs)


def _recording_format(path: Path) -> str:
    """Format of a recording by file suffix.

    Creates the folder of the recording. Raises an error if the format is unknown, its package is missing or the file
    cannot be written.
    """
    file_format = FORMAT_OF_SUFFIX.get(path.suffix.lower())
    if file_format is None:
        formats = ", ".join((*FORMAT_OF_SUFFIX, ".mp4"))
        raise KinemaError(f"{path}: recordings are written as {formats}, not {path.suffix!r}")
    check_writable(path)
    if file_format == "parquet":
        import_parquet()  # fail early if the package is missing
    if file_format == "mcap":
        import_mcap("writer")
    return file_format


# --------------------------------------------------------------------------------------------------- replay

REPLAYED_ARRAYS = {"qpos": "qpos", "qvel": "vel", "ctrl": "ctrl", "act": "act", "kinematic_pose": "kinematic_pose"}
"""Arrays of a recording that a replay restores, and their names in the engine."""

PRESENT = "present"
"""Array of the presence of entities."""

LOADERS = {".npz": load_npz, ".parquet": load_parquet, ".mcap": load_mcap}
"""Functions that load a recording, by file suffix."""


def load_recording(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Load and check a recording: metadata, and arrays by name, (frames, environments, ...) except `time` (frames,).

    Raises `ReadError` if the file is missing, of another version, incomplete or no recording.
    """
    if not path.is_file():
        raise ReadError(f"{path}: there is no such file")
    loader = LOADERS.get(path.suffix.lower())
    if loader is None:
        raise ReadError(f"{path}: recordings are replayed from {', '.join(LOADERS)}, not {path.suffix!r}")
    try:
        metadata, arrays = loader(path)
        frames, envs = len(arrays["time"]), len(metadata["environments"])
        is_complete = all(array.shape[:2] == (frames, envs) for name, array in arrays.items() if name != "time")
    except KinemaError:
        raise
    except (OSError, ValueError, KeyError, TypeError, EOFError, zipfile.BadZipFile) as error:
        raise ReadError(f"{path}: not a recording, or incomplete: {error}") from None
    if metadata.get("kinema_recording") != RECORDING_VERSION or not is_complete:
        raise ReadError(f"{path}: not a recording of this version, or incomplete")
    return metadata, arrays


class Replay:
    """Replay of a recording in a scene: iteration sets the state of each frame and yields its time [s]."""

    def __init__(self, scene: HasBuiltScene, path: str | Path) -> None:
        """Load a recording and check that its elements match the built scene."""
        self.path = Path(path)
        self._scene = scene
        self.metadata, self.arrays = load_recording(self.path)
        """Metadata of the recording, and arrays by name, (frames, environments, ...)."""
        self.times: np.ndarray = self.arrays["time"]
        """Times of the frames [s], (frames,)."""
        self._envs = self._target_envs()

    def __len__(self) -> int:
        return len(self.times)

    def __iter__(self) -> Iterator[float]:
        for frame in range(len(self)):
            self.set_frame(frame)
            yield float(self.times[frame])

    def set_frame(self, frame: int) -> None:
        """Set the coordinates, velocities, controls, activations, kinematic bodies and presence of a frame.

        The time is not set.
        """
        if not -len(self) <= frame < len(self):
            raise KinemaError(f"{self.path} has {len(self)} frames: frame {frame} does not exist")
        for name, array in REPLAYED_ARRAYS.items():
            if name in self.arrays:
                self._scene.built.arrays.write(
                    array, slice(None), self.arrays[name][frame][: len(self._envs)], self._envs
                )
        if PRESENT in self.arrays:
            present = self.arrays[PRESENT][frame][: len(self._envs)]
            for number in range(present.shape[1]):
                set_entity_presence(self._scene.built.arrays, number, present[:, number], self._envs)

    def _target_envs(self) -> np.ndarray:
        """Indices of the environments to replay into: the recorded ones if they exist, else the first ones.

        Raises `KinemaError` if coordinates, dofs or actuators of recording and scene have different names.
        """
        recorded, own_names = self.metadata["names"], element_names(self._scene.built.model)
        if PRESENT in self.arrays and not self._scene.built.engine.settings.presence:
            raise KinemaError(
                f"{self.path} is of a scene whose entities can be removed: use scene.build(room=...) as there"
            )
        for name in (*REPLAYED_ARRAYS, PRESENT):
            if name in self.arrays and recorded.get(name) != own_names[name]:
                raise KinemaError(
                    f"{self.path} is of another scene: {_describe_mismatch(recorded.get(name, []), own_names[name])}"
                )
        envs = np.array(self.metadata["environments"], dtype=np.intp)
        n_envs = self._scene.built.n_envs
        return envs if len(envs) and envs.max() < n_envs else np.arange(min(n_envs, len(envs)))


def _describe_mismatch(recorded: list[str], own: list[str]) -> str:
    """First difference of two lists of names as text."""
    for own_name, recorded_name in zip(own, recorded, strict=False):
        if own_name != recorded_name:
            return f'it has "{recorded_name}" where this scene has "{own_name}"'
    return f"it has {len(recorded)} values where this scene has {len(own)}"
