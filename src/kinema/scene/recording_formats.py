"""File formats of recordings: reading and writing of .npz, Parquet and MCAP.

MCAP (for Foxglove and similar tools) has two topics per environment with JSON messages: `/env_0/state` with `qpos`,
`qvel`, `ctrl`, `act` and `sensors` by name, and `/env_0/tf` with the link poses as `foxglove.FrameTransforms` in the
frame `env_0`.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Pose, ReadError, import_optional, unique_name
from kinema.description import Robot, World
from kinema.model import Model, PrimitiveJointType

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
    **{"kinematic_pose": "k", "sensordata": "s", "present": "p"},
}
"""Arrays stored as columns of a Parquet table, and the prefix of their column names."""
NAMES_SUFFIX = "_names"
"""Suffix of the names of arrays of element names in .npz files."""


def import_parquet() -> Any:
    """Module `pyarrow.parquet`, an optional dependency."""
    return import_optional("pyarrow.parquet", purpose="Parquet", extra="record")


def element_names(model: Model) -> dict[str, list[str]]:
    """Unique names of the elements along the last axis of recorded arrays, by recorded array.

    A name that several entities have is prefixed with its entity (`arm_1/elbow`). Components of elements with several
    values are numbered (`ball[3]`); components of sensors have their names (`imu.angular_velocity[0]`).
    """
    sensors, entities = model.sensors, model.entities
    joints = _unique_names(model, model.joints.names, [(e.joint_start, e.joint_end) for e in entities])
    dofs = _unique_names(model, model.dofs.names, [(e.dof_start, e.dof_end) for e in entities])
    actuators = _unique_names(model, model.actuators.names, [(e.actuator_start, e.actuator_end) for e in entities])
    links = link_names(model)
    qpos = [""] * model.n_qs
    for name, start, end in zip(joints, model.joints.q_start.tolist(), model.joints.q_end.tolist(), strict=True):
        qpos[start:end] = _component_names(name, end - start)
    bodies = [links[model.links.frame_idx.tolist().index(frame)] for frame in model.kinematic_frames]
    columns = []
    for name, start, end, channels in zip(
        _numbered(sensors.names), sensors.start.tolist(), sensors.end.tolist(), sensors.channels, strict=True
    ):
        own = _component_names(name, end - start)
        for channel, (first, last) in channels:
            own[first:last] = _component_names(f"{name}.{channel}", last - first)
        columns += own
    return {
        **{"qpos": _numbered(qpos), "qvel": dofs, "command": dofs, "ctrl": actuators, "act": actuators},
        "kinematic_pose": [f"{body}[{k}]" for body in bodies for k in range(7)],
        "sensordata": columns,
        "present": [entity.name for entity in entities],
    }


def link_names(model: Model) -> list[str]:
    """Unique names of all links; a name that several entities have is prefixed with its entity (`arm_1/hand`)."""
    return _unique_names(model, model.links.names, [(e.link_start, e.link_end) for e in model.entities])


def _unique_names(model: Model, names: Sequence[str], ranges: Sequence[tuple[int, int]]) -> list[str]:
    """Unique names of elements: repeated names are prefixed with the name of the entity, then numbered.

    Args:
        model: the model.
        names: names of the elements.
        ranges: first and last (exclusive) element of each entity.
    """
    counts, result = Counter(names), list(names)
    for entity, (start, end) in zip(model.entities, ranges, strict=True):
        for k in range(start, end):
            if counts[names[k]] > 1:
                result[k] = f"{entity.name}/{names[k]}"
    return _numbered(result)


def _numbered(names: Sequence[str]) -> list[str]:
    """Names with a number appended to repeated ones: `a`, `a_1`, ..."""
    taken: set[str] = set()
    return [unique_name(name, taken) for name in names]


def _component_names(name: str, count: int) -> list[str]:
    """Names of the values of an element: its own name for one value, else numbered from zero."""
    return [name] if count == 1 else [f"{name}[{k}]" for k in range(count)]


def element_units(model: Model) -> dict[str, list[str]]:
    """SI units of coordinates, velocities and poses of kinematic bodies, by recorded array ("1" for quaternions)."""
    qpos, qvel = [""] * model.n_qs, [""] * model.n_dofs
    for frame, joint_type in enumerate(model.frames.joint_type.tolist()):
        is_slide, is_ball = joint_type == PrimitiveJointType.SLIDE, joint_type == PrimitiveJointType.BALL
        for k in model.frame_q_range(frame):
            qpos[k] = "m" if is_slide else "1" if is_ball else "rad"
        for k in model.frame_dof_range(frame):
            qvel[k] = "m/s" if is_slide else "rad/s"
    return {"qpos": qpos, "qvel": qvel, "kinematic_pose": [*["m"] * 3, *["1"] * 4] * len(model.kinematic_frames)}


def recording_metadata(recorded: RecordedScene, envs: np.ndarray) -> dict[str, Any]:
    """Metadata of a recording: version, element names, link names and environment indices."""
    model = recorded.built.model
    return {
        "kinema_recording": RECORDING_VERSION,
        "names": element_names(model),
        "links": link_names(model),
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
    `s.<sensor>`, `c.<dof>` (command), `k.<kinematic body>`, `p.<entity>` (presence); the metadata of a column has its
    `unit` where it is known.
    """
    parquet = import_parquet()
    pyarrow = import_optional("pyarrow", purpose="Parquet", extra="record")
    stacked, model = frames.stacked(), recorded.built.model
    names, units = element_names(model), element_units(model)
    n_frames = len(stacked["time"])
    columns: dict[str, np.ndarray] = {
        "frame": np.repeat(np.arange(n_frames), len(envs)),
        "time": np.repeat(stacked["time"], len(envs)),
        "env": np.tile(envs, n_frames),
    }
    column_units = {"time": "s"}
    for array, prefix in COLUMN_PREFIXES.items():
        if array in stacked:
            rows = stacked[array].reshape(n_frames * len(envs), -1)
            own = [f"{prefix}.{name}" for name in names[array]]
            columns |= {name: rows[:, k] for k, name in enumerate(own)}
            column_units |= dict(zip(own, units.get(array, ()), strict=False))
    table = pyarrow.table(columns)
    fields = [
        column.with_metadata({"unit": column_units[column.name]}) if column.name in column_units else column
        for column in table.schema
    ]
    metadata = {"kinema": json.dumps(recording_metadata(recorded, envs))}
    parquet.write_table(table.cast(pyarrow.schema(fields, metadata)), path)


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
    "present": "present",
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
    names, links = element_names(model), link_names(model)
    entity_of_link = [i for i, entity in enumerate(model.entities) for _ in range(entity.link_start, entity.link_end)]
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
                    "tf": _transforms_message(frame_arrays, links, seconds, f"env_{env}", entity_of_link),
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
        key: dict(zip(names[array], frame_arrays[array].astype(float).tolist(), strict=True))
        for array, key in MESSAGE_FIELDS.items()
        if array in frame_arrays
    }


def _transforms_message(
    frame_arrays: Mapping[str, np.ndarray],
    links: list[str],
    seconds: float,
    parent_frame: str,
    entity_of_link: Sequence[int],
) -> dict[str, Any]:
    """Message `foxglove.FrameTransforms` with the poses of the links of present entities, in one environment.

    Args:
        frame_arrays: arrays of the frame; `link_pos` [m] and `link_quat` (w, x, y, z) are used.
        links: names of the links.
        seconds: simulated time [s].
        parent_frame: name of the environment's frame and prefix of the link frames.
        entity_of_link: index of the entity of each link.
    """
    present = frame_arrays.get("present", np.ones(max(entity_of_link, default=-1) + 1))
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
            for name, pos, quat, entity in zip(
                links, frame_arrays["link_pos"], frame_arrays["link_quat"], entity_of_link, strict=True
            )
            if present[entity]
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
        elements = metadata["names"].get(array, ())
        if elements and all(key in message for messages in rows.values() for message in messages):
            columns = [
                [[message[key][name] for name in elements] for message in messages] for messages in rows.values()
            ]
            arrays[array] = np.moveaxis(np.array(columns), 0, 1)
    return metadata, arrays
