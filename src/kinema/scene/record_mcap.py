"""Recordings as MCAP, which robotics tools such as Foxglove open: states by name, and where links are.

Of each environment there are two topics: `/env_0/state` has `qpos`, `qvel`, `ctrl`, `act` and `sensors`, all by name;
`/env_0/tf` has the places of links as `foxglove.FrameTransforms`, in a frame called `env_0`.
"""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import ReadError, require

from .record_files import about_recording, names_of
from .record_frames import Frames, Source

WORDS = {"qpos": "qpos", "qvel": "qvel", "ctrl": "ctrl", "act": "act", "sensordata": "sensors"}
"""Arrays of a recording, and what they are called in a message."""
STATE = {"type": "object", "properties": {word: {"type": "object"} for word in WORDS.values()}}
_NUMBER, _WHOLE = {"type": "number"}, {"type": "integer"}
_TIME = {"type": "object", "title": "time", "properties": {"sec": _WHOLE, "nsec": _WHOLE}}
_PLACE = {
    "type": "object",
    "title": "foxglove.FrameTransform",
    "properties": {
        "timestamp": _TIME,
        "parent_frame_id": {"type": "string"},
        "child_frame_id": {"type": "string"},
        "translation": {"type": "object", "properties": dict.fromkeys("xyz", _NUMBER)},
        "rotation": {"type": "object", "properties": dict.fromkeys("xyzw", _NUMBER)},
    },
}
PLACES = {
    "type": "object",
    "title": "foxglove.FrameTransforms",
    "properties": {"transforms": {"type": "array", "items": _PLACE}},
}


def library(name: str) -> Any:
    """A module of the MCAP library, which a plain install does not bring."""
    return require(f"mcap.{name}", purpose="MCAP", extra="record")


def write_mcap(path: Path, source: Source, frames: Frames, envs: np.ndarray) -> None:
    """One message for each topic and frame; its time is the scene's [ns]."""
    stacked, model = frames.stacked(), source.running.model
    names = names_of(model)
    with path.open("wb") as file:
        writer = library("writer").Writer(file)
        writer.start(profile="", library="kinema")
        writer.add_metadata("kinema", {"about": json.dumps(about_recording(source, envs))})
        schemas = {
            name: writer.register_schema(name=name, encoding="jsonschema", data=json.dumps(schema).encode())
            for name, schema in (("kinema.State", STATE), ("foxglove.FrameTransforms", PLACES))
        }
        topics = {"state": schemas["kinema.State"], "tf": schemas["foxglove.FrameTransforms"]}
        channels = {
            (int(env), topic): writer.register_channel(
                topic=f"/env_{env}/{topic}", message_encoding="json", schema_id=own
            )
            for env in envs
            for topic, own in topics.items()
        }
        for frame, seconds in enumerate(stacked["time"].tolist()):
            for column, env in enumerate(envs.tolist()):
                now = {name: values[frame, column] for name, values in stacked.items() if name != "time"}
                messages = {"state": _state(now, names), "tf": _places(now, model.links.names, seconds, f"env_{env}")}
                for topic, message in messages.items():
                    data, time = json.dumps(message).encode(), round(seconds * 1e9)
                    writer.add_message(
                        channels[env, topic], log_time=time, publish_time=time, sequence=frame, data=data
                    )
        writer.finish()


def _state(now: Mapping[str, np.ndarray], names: Mapping[str, list[str]]) -> dict[str, dict[str, float]]:
    return {
        word: dict(zip(_unique(names[array]), now[array].astype(float).tolist(), strict=True))
        for array, word in WORDS.items()
        if array in now
    }


def _unique(names: Sequence[str]) -> list[str]:
    """The same, with a number behind those that several entities have."""
    seen: dict[str, int] = {}
    result = []
    for name in names:
        seen[name] = seen.get(name, 0) + 1
        result.append(name if seen[name] == 1 else f"{name} ({seen[name]})")
    return result


def _places(now: Mapping[str, np.ndarray], links: list[str], seconds: float, frame: str) -> dict[str, Any]:
    if "link_pos" not in now:
        return {"transforms": []}
    nanoseconds = round(seconds * 1e9)
    stamp = {"sec": nanoseconds // 10**9, "nsec": nanoseconds % 10**9}
    return {
        "transforms": [
            {
                "timestamp": stamp,
                "parent_frame_id": frame,
                "child_frame_id": f"{frame}/{name}",
                "translation": dict(zip("xyz", pos.tolist(), strict=True)),
                "rotation": dict(zip("wxyz", quat.tolist(), strict=True)),
            }
            for name, pos, quat in zip(_unique(links), now["link_pos"], now["link_quat"], strict=True)
        ]
    }


def load_mcap(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a recording says of itself, and its arrays, frames and environments first."""
    exceptions = library("exceptions")
    try:
        with path.open("rb") as file:
            reader = library("reader").make_reader(file)
            about = next(json.loads(m.metadata["about"]) for m in reader.iter_metadata() if m.name == "kinema")
            rows: dict[str, list[dict[str, Any]]] = {f"/env_{env}/state": [] for env in about["environments"]}
            times = []
            for _, channel, message in reader.iter_messages(topics=list(rows)):
                times += [message.log_time * 1e-9] if channel.topic == next(iter(rows)) else []
                rows[channel.topic].append(json.loads(message.data))
    except (exceptions.McapError, StopIteration) as error:
        raise ReadError(f"{path}: this is no recording, or not a whole one: {error}") from None
    arrays = {"time": np.array(times)}
    for array, word in WORDS.items():
        wanted = _unique(about["names"][array])
        if wanted and all(word in message for own in rows.values() for message in own):
            columns = [[[message[word][name] for name in wanted] for message in own] for own in rows.values()]
            arrays[array] = np.moveaxis(np.array(columns), 0, 1)
    return about, arrays
