"""Groups of episodes as Parquet, and what their content is known by."""

from __future__ import annotations

import hashlib
import io
from typing import Any

import numpy as np

from kinema.foundation import require

from .stage import Played

KEEP = ("steps", "episodes")
"""A row for each step, or one for each episode."""
Columns = dict[str, np.ndarray]


def columns(played: Played, keep: str, every: int = 1) -> Columns:
    """What is kept of a group: arrays with a row each, (rows,) or (rows, k)."""
    if keep == "steps":
        chosen = played.step % every == 0
        names = ("episode", "step", "obs", "action", "reward", "done", "broken")
        return {name: getattr(played, name)[chosen] for name in names}
    starts = np.flatnonzero(played.step == 0)
    ends = np.append(starts[1:], len(played.step)) - 1
    return {
        "episode": played.episode[starts],
        "length": (ends - starts + 1).astype(np.int32),
        "return": played.returns(),
        "done": played.done[ends],
        "broken": played.broken[ends],
        "last_obs": played.obs[ends],
    }


def digest(found: Columns) -> str:
    """What the content is known by: names, kinds, shapes and all bits."""
    taken = hashlib.sha256()
    for name, values in found.items():
        plain = np.ascontiguousarray(values)
        taken.update(f"{name} {plain.dtype.str} {plain.shape};".encode())
        taken.update(plain.tobytes())
    return taken.hexdigest()


def arrow() -> Any:
    """Apache Arrow, which a plain install does not bring."""
    return require("pyarrow", purpose="Parquet", extra="cluster")


def parquet(found: Columns) -> bytes:
    """The file: rows of several numbers are lists of that size."""
    library = arrow()
    files: Any = require("pyarrow.parquet", purpose="Parquet", extra="cluster")
    arrays = {}
    for name, values in found.items():
        if values.ndim == 1:
            arrays[name] = library.array(values)
        elif values.shape[1]:
            flat = library.array(np.ascontiguousarray(values).reshape(-1))
            arrays[name] = library.FixedSizeListArray.from_arrays(flat, values.shape[1])
    stream = io.BytesIO()
    few = [name for name, values in found.items() if values.ndim == 1]  # dictionaries of measurements only cost time
    files.write_table(library.table(arrays), stream, compression="zstd", use_dictionary=few)
    return stream.getvalue()
