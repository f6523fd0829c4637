"""File formats of recordings: reading and writing of .npz, Parquet and MCAP.

MCAP (for Foxglove and similar tools) has two topics per environment with JSON messages: `/env_0/state` with `qpos`,
`qvel`, `ctrl`, `act` and `sensors` by name, and `/env_0/tf` with the link poses as `foxglove.FrameTransforms` in the
frame `env_0`.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Pose, ReadError, import_optional
from kinema.description import Robot, World
from kinema.model import Model

from .built_scene import BuiltScene, HasBuiltScene

# --------------------------------------------------------------------------------------------- recorded data


@dataclass(frozen=True, slots=True, eq=False)
class RecordedScene:
    """The scene that a recording belongs to."""

    scene: HasBuiltScene
    entities: Sequence[tuple[Robot | World, Pose | None]]
    """Description of each entity, and the pose it was added at (None for the authored pose)."""
    read_sensors: Callable[[], np.ndarray]
    """Returns the current readings of all sensors, (n_envs, values)."""
    variants: Sequence[tuple[Sequence[Robot | World], np.ndarray]]
    """Descriptions of the variants of each entity, and the variant index of each environment, (n_envs,)."""

    @property
    def built(self) -> BuiltScene:
        """The built scene."""
        return self.scene.built


@dataclass(slots=True, eq=False)
class RecordedFrames:
    """Frames of a recording in memory."""

    times: list[float] = field(default_factory=list)
    """Simulated time of each frame [s]."""
    arrays: dict[str, list[np.ndarray]] = field(default_factory=dict)
    """Array (environments, ...) of each frame, by name."""

    def stacked(self) -> dict[str, np.ndarray]:
        """All arrays by name, (frames, environments, ...), and `time` (frames,)."""
        result = {"time": np.array(self.times)}
        return result | {name: np.stack(rows) for name, rows in self.arrays.items()}


# ------------------------------------------------------------------------------------------- .npz and Parquet

RECORDING_VERSION = 1
"""Version of the metadata of recordings."""
COLUMN_PREFIXES = {
    **{"qpos": "q", "qvel": "v", "command": "c", "ctrl": "u", "act": "a"},
    **{"kinematic_pose": "k", "sensordata": "s"},
}
"""Arrays stored as columns of a Parquet table, and the prefix of their column names."""
NAMES_SUFFIX = "_names"
"""Suffix of the names of arrays of element names in .npz files."""


def import_parquet() -> Any:
    """Module `pyarrow.parquet`, an optional dependency."""
    return import_optional("pyarrow.parquet", purpose="Parquet", extra="record")


def element_names(model: Model) -> dict[str, list[str]]:
    """Names of the elements along the last axis of recorded arrays, by recorded array."""
    joints, sensor_info = model.joints, model.sensors
    qpos = [""] * model.n_qs
    for name, start, end in zip(joints.names, joints.q_start, joints.q_end, strict=True):
        for k in range(start, end):
            qpos[k] = name if end - start == 1 else f"{name}[{k - start}]"
    sensors = []
    for name, start, end in zip(sensor_info.names, sensor_info.start, sensor_info.end, strict=True):
        sensors += [name] if end - start == 1 else [f"{name}[{k}]" for k in range(end - start)]
    dofs, actuators = list(model.dofs.names), list(model.actuators.names)
    names = {"qpos": qpos, "qvel": dofs, "command": dofs, "ctrl": actuators, "act": actuators}
    bodies = [f"{model.frame_names[frame]}[{k}]" for frame in model.kinematic_frames for k in range(7)]
    return {**names, "kinematic_pose": bodies, "sensordata": sensors}


def recording_metadata(recorded: RecordedScene, envs: np.ndarray) -> dict[str, Any]:
    """Metadata of a recording: version, element names, link names and environment indices."""
    model = recorded.built.model
    return {
        "kinema_recording": RECORDING_VERSION,
        "names": element_names(model),
        "links": list(model.links.names),
        "environments": [int(e) for e in envs],
    }


def write_npz(path: Path, recorded: RecordedScene, frames: RecordedFrames, envs: np.ndarray) -> None:
    """Write a recording as a compressed .npz file.

    Arrays: `time` (frames,), `qpos`, `qvel`, `command`, `ctrl`, `link_pos`, `link_quat`, ... (frames, environments,
    ...), the names of their elements (`qpos_names`, ..., `link_names`), and `about`, the metadata as JSON.
    """
    metadata, arrays = recording_metadata(recorded, envs), frames.stacked()
    names = {
        **{name: metadata["names"][name] for name in metadata["names"] if name in arrays},
        "link": metadata["links"],
    }
    arrays |= {f"{name}{NAMES_SUFFIX}": np.array(values, np.str_) for name, values in names.items()}
    with path.open("wb") as file:
        np.savez_compressed(file, about=np.array(json.dumps(metadata)), **arrays)  # type: ignore[arg-type]


def write_parquet(path: Path, recorded: RecordedScene, frames: RecordedFrames, envs: np.ndarray) -> None:
    """Write a recording as a Parquet table with one row per frame and environment; metadata as JSON in the schema.

    Columns: `frame`, `time`, `env`, `q.<coordinate>`, `v.<dof>`, `u.<actuator>`, `a.<actuator>` (activation),
    `s.<sensor>`, `c.<dof>` (command), `k.<kinematic body>`.
    """
    parquet = import_parquet()
    pyarrow = import_optional("pyarrow", purpose="Parquet", extra="record")
    stacked, names = frames.stacked(), element_names(recorded.built.model)
    n_frames = len(stacked["time"])
    columns: dict[str, np.ndarray] = {
        "frame": np.repeat(np.arange(n_frames), len(envs)),
        "time": np.repeat(stacked["time"], len(envs)),
        "env": np.tile(envs, n_frames),
    }
    for array, prefix in COLUMN_PREFIXES.items():
        if array in stacked:
            rows = stacked[array].reshape(n_frames * len(envs), -1)
            columns |= {f"{prefix}.{name}": rows[:, k] for k, name in enumerate(names[array])}
    table = pyarrow.table(columns).replace_schema_metadata({"kinema": json.dumps(recording_metadata(recorded, envs))})
    parquet.write_table(table, path)


def load_npz(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and arrays by name, (frames, environments, ...), of a recording in .npz format."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files if not name.endswith(NAMES_SUFFIX)}
    return json.loads(str(arrays.pop("about"))), arrays


def load_parquet(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and arrays by name, (frames, environments, ...), of a recording in Parquet format."""
    table = import_parquet().read_table(path)
    metadata = json.loads((table.schema.metadata or {}).get(b"kinema", b"{}"))
    envs = len(metadata["environments"])
    frames = table.num_rows // envs
    arrays = {"time": table.column("time").to_numpy().reshape(frames, envs)[:, 0]}
    for array, prefix in COLUMN_PREFIXES.items():
        columns = [f"{prefix}.{name}" for name in metadata["names"].get(array, ())]
        if columns and set(columns) <= set(table.column_names):
            rows = np.column_stack([table.column(name).to_numpy() for name in columns])
            arrays[array] = rows.reshape(frames, envs, len(columns))
    return metadata, arrays


# ------------------------------------------------------------------------------------------------------ MCAP

MESSAGE_FIELDS = {
    "qpos": "qpos",
    "qvel": "qvel",
    "command": "command",
    "ctrl": "ctrl",
    "act": "act",
    "kinematic_pose": "kinematic_pose",
    "sensordata": "sensors",
}
"""Arrays of a recording, and their names in state messages."""
STATE_SCHEMA = {"type": "object", "properties": {name: {"type": "object"} for name in MESSAGE_FIELDS.values()}}
_NUMBER_SCHEMA, _INTEGER_SCHEMA = {"type": "number"}, {"type": "integer"}
_TIME_SCHEMA = {"type": "object", "title": "time", "properties": {"sec": _INTEGER_SCHEMA, "nsec": _INTEGER_SCHEMA}}
_TRANSFORM_SCHEMA = {
    "type": "object",
    "title": "foxglove.FrameTransform",
    "properties": {
        "timestamp": _TIME_SCHEMA,
        "parent_frame_id": {"type": "string"},
        "child_frame_id": {"type": "string"},
        "translation": {"type": "object", "properties": dict.fromkeys("xyz", _NUMBER_SCHEMA)},
        "rotation": {"type": "object", "properties": dict.fromkeys("xyzw", _NUMBER_SCHEMA)},
    },
}
TRANSFORMS_SCHEMA = {
    "type": "object",
    "title": "foxglove.FrameTransforms",
    "properties": {"transforms": {"type": "array", "items": _TRANSFORM_SCHEMA}},
}


def import_mcap(submodule: str) -> Any:
    """Submodule of the `mcap` package, an optional dependency."""
    return import_optional(f"mcap.{submodule}", purpose="MCAP", extra="record")


def write_mcap(path: Path, recorded: RecordedScene, frames: RecordedFrames, envs: np.ndarray) -> None:
    """Write a recording as an MCAP file: one state message and one transforms message per frame and environment.

    Topics are `/env_<i>/state` and `/env_<i>/tf`; message times are simulated times [ns]; messages are JSON.
    """
    stacked, model = frames.stacked(), recorded.built.model
    names = element_names(model)
    with path.open("wb") as file:
        writer = import_mcap("writer").Writer(file)
        writer.start(profile="", library="kinema")
        writer.add_metadata("kinema", {"about": json.dumps(recording_metadata(recorded, envs))})
        schemas = {
            name: writer.register_schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
            for name, schema in (("kinema.State", STATE_SCHEMA), ("foxglove.FrameTransforms", TRANSFORMS_SCHEMA))
        }
        topics = {"state": schemas["kinema.State"], "tf": schemas["foxglove.FrameTransforms"]}
        channels = {
            (int(env), topic): writer.register_channel(
                topic=f"/env_{env}/{topic}", message_encoding="json", schema_id=schema_id
            )
            for env in envs
            for topic, schema_id in topics.items()
        }
        for frame, seconds in enumerate(stacked["time"].tolist()):
            for column, env in enumerate(envs.tolist()):
                frame_arrays = {name: values[frame, column] for name, values in stacked.items() if name != "time"}
                messages = {
                    "state": _state_message(frame_arrays, names),
                    "tf": _transforms_message(frame_arrays, model.links.names, seconds, f"env_{env}"),
                }
                for topic, message in messages.items():
                    data, time = json.dumps(message).encode(), round(seconds * 1e9)
                    writer.add_message(
                        channels[env, topic], log_time=time, publish_time=time, sequence=frame, data=data
                    )
        writer.finish()


def _state_message(
    frame_arrays: Mapping[str, np.ndarray], names: Mapping[str, list[str]]
) -> dict[str, dict[str, float]]:
    """State message of one frame and environment: values by element name for each recorded array."""
    return {
        key: dict(zip(_unique_names(names[array]), frame_arrays[array].astype(float).tolist(), strict=True))
        for array, key in MESSAGE_FIELDS.items()
        if array in frame_arrays
    }


def _unique_names(names: Sequence[str]) -> list[str]:
    """Names with a number appended to repeated ones: `a`, `a (2)`, ..."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result


def _transforms_message(
    frame_arrays: Mapping[str, np.ndarray], link_names: list[str], seconds: float, parent_frame: str
) -> dict[str, Any]:
    """Message `foxglove.FrameTransforms` with the link poses of one frame and environment.

    Args:
        frame_arrays: arrays of the frame; `link_pos` [m] and `link_quat` (w, x, y, z) are used.
        link_names: names of the links.
        seconds: simulated time [s].
        parent_frame: name of the environment's frame and prefix of the link frames.
    """
    if "link_pos" not in frame_arrays:
        return {"transforms": []}
    nanoseconds = round(seconds * 1e9)
    stamp = {"sec": nanoseconds // 10**9, "nsec": nanoseconds % 10**9}
    return {
        "transforms": [
            {
                "timestamp": stamp,
                "parent_frame_id": parent_frame,
                "child_frame_id": f"{parent_frame}/{name}",
                "translation": dict(zip("xyz", pos.tolist(), strict=True)),
                "rotation": dict(zip("wxyz", quat.tolist(), strict=True)),
            }
            for name, pos, quat in zip(
                _unique_names(link_names), frame_arrays["link_pos"], frame_arrays["link_quat"], strict=True
            )
        ]
    }


def load_mcap(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Metadata and arrays by name, (frames, environments, ...), of a recording in MCAP format.

    Link transforms are not read. Raises `ReadError` if the file is no recording or incomplete.
    """
    exceptions = import_mcap("exceptions")
    try:
        with path.open("rb") as file:
            reader = import_mcap("reader").make_reader(file)
            metadata = next(json.loads(m.metadata["about"]) for m in reader.iter_metadata() if m.name == "kinema")
            rows: dict[str, list[dict[str, Any]]] = {f"/env_{env}/state": [] for env in metadata["environments"]}
            times = []
            for _, channel, message in reader.iter_messages(topics=list(rows)):
                times += [message.log_time * 1e-9] if channel.topic == next(iter(rows)) else []
                rows[channel.topic].append(json.loads(message.data))
    except (exceptions.McapError, StopIteration) as error:
        raise ReadError(f"{path}: not a recording, or incomplete: {error}") from None
    arrays = {"time": np.array(times)}
    for array, key in MESSAGE_FIELDS.items():
        elements = _unique_names(metadata["names"].get(array, ()))
        if elements and all(key in message for messages in rows.values() for message in messages):
            columns = [
                [[message[key][name] for name in elements] for message in messages] for messages in rows.values()
            ]
            arrays[array] = np.moveaxis(np.array(columns), 0, 1)
    return metadata, arrays
