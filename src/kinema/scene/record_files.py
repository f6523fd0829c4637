"""Recordings as arrays: `.npz`, and Parquet with a row for each frame and environment."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import require
from kinema.model import Model

from .record_frames import Frames, Source

VERSION = 1
"""Of all recordings."""
COLUMNS = {"qpos": "q", "qvel": "v", "ctrl": "u", "act": "a", "sensordata": "s"}
"""Arrays that are columns of a table, and what their names start with."""


def arrow() -> Any:
    """Apache Arrow's Parquet, which a plain install does not bring."""
    return require("pyarrow.parquet", purpose="Parquet", extra="record")


def names_of(model: Model) -> dict[str, list[str]]:
    """What the numbers of each array are called."""
    joints, info = model.joints, model.sensors
    qpos = [""] * model.n_qs
    for name, start, end in zip(joints.names, joints.q_start, joints.q_end, strict=True):
        for k in range(start, end):
            qpos[k] = name if end - start == 1 else f"{name}[{k - start}]"
    sensors = []
    for name, start, end in zip(info.names, info.start, info.end, strict=True):
        sensors += [name] if end - start == 1 else [f"{name}[{k}]" for k in range(end - start)]
    actuators = list(model.actuators.names)
    return {"qpos": qpos, "qvel": list(model.dofs.names), "ctrl": actuators, "act": actuators, "sensordata": sensors}


def about_recording(source: Source, envs: np.ndarray) -> dict[str, Any]:
    """What else a file says."""
    model = source.running.model
    return {
        "kinema_recording": VERSION,
        "names": names_of(model),
        "links": list(model.links.names),
        "environments": [int(e) for e in envs],
    }


def write_npz(path: Path, source: Source, frames: Frames, envs: np.ndarray) -> None:
    """`time` (frames,), and `qpos`, `qvel`, `ctrl`, `link_pos`, `link_quat`, ... (frames, environments, ...)."""
    about = np.array(json.dumps(about_recording(source, envs)))
    with path.open("wb") as file:
        np.savez_compressed(file, about=about, **frames.stacked())  # type: ignore[arg-type]


def write_parquet(path: Path, source: Source, frames: Frames, envs: np.ndarray) -> None:
    """Columns `frame`, `time`, `env`, and `q.<coordinate>`, `v.<dof>`, `u.<actuator>`, `s.<sensor>`."""
    parquet = arrow()
    pyarrow = require("pyarrow", purpose="Parquet", extra="record")
    stacked, names = frames.stacked(), names_of(source.running.model)
    n = len(stacked["time"])
    columns: dict[str, np.ndarray] = {
        "frame": np.repeat(np.arange(n), len(envs)),
        "time": np.repeat(stacked["time"], len(envs)),
        "env": np.tile(envs, n),
    }
    for array, letter in COLUMNS.items():
        if array in stacked:
            rows = stacked[array].reshape(n * len(envs), -1)
            columns |= {f"{letter}.{name}": rows[:, k] for k, name in enumerate(names[array])}
    table = pyarrow.table(columns).replace_schema_metadata({"kinema": json.dumps(about_recording(source, envs))})
    parquet.write_table(table, path)


def load_npz(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """What a recording says of itself, and its arrays."""
    with np.load(path, allow_pickle=False) as stored:
        arrays = {name: stored[name] for name in stored.files}
    return json.loads(str(arrays.pop("about"))), arrays


def load_parquet(path: Path) -> tuple[dict[str, Any], dict[str, np.ndarray]]:
    """Likewise."""
    table = arrow().read_table(path)
    about = json.loads((table.schema.metadata or {}).get(b"kinema", b"{}"))
    envs = len(about["environments"])
    frames = table.num_rows // envs
    arrays = {"time": table.column("time").to_numpy().reshape(frames, envs)[:, 0]}
    for array, letter in COLUMNS.items():
        wanted = [f"{letter}.{name}" for name in about["names"][array]]
        if wanted and set(wanted) <= set(table.column_names):
            rows = np.column_stack([table.column(name).to_numpy() for name in wanted])
            arrays[array] = rows.reshape(frames, envs, len(wanted))
    return about, arrays
