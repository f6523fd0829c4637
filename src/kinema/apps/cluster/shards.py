"""Groups of episodes as Parquet, and what their content is known by."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.foundation import require

from .nodes import own_version
from .parquet_files import parquet_file
from .played import Played

KEEP = ("steps", "episodes")
"""A row for each step, or one for each episode."""
Columns = dict[str, np.ndarray]


def columns(played: Played, keep: str, every: int = 1) -> Columns:
    """What is kept of a group: arrays with a row each, (rows,) or (rows, k)."""
    if keep == "steps":
        chosen = slice(None) if every == 1 else played.step % every == 0
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


def not_empty(found: Columns) -> Columns:
    """Those with numbers in their rows: of robots that nobody moves there are no actions."""
    return {name: values for name, values in found.items() if values.ndim == 1 or values.shape[1]}


def digest(found: Columns) -> str:
    """What the content is known by: names, kinds, shapes and all bits.

    Where a processor has no instructions for SHA-256, BLAKE2 takes 40 % less time.
    """
    taken = hashlib.blake2b(digest_size=32)
    for name, values in found.items():
        plain = np.ascontiguousarray(values)
        taken.update(f"{name} {plain.dtype.str} {plain.shape};".encode())
        taken.update(plain.reshape(-1).view(np.uint8).data)
    return taken.hexdigest()


def arrow() -> Any:
    """Apache Arrow, which a plain install does not bring."""
    return require("pyarrow", purpose="Parquet", extra="cluster")


def schema(found: Columns) -> Any:
    """What Arrow calls them: rows of several numbers are lists of that size, and nothing is ever missing."""
    library = arrow()
    fields = []
    for name, values in found.items():
        kind = library.from_numpy_dtype(values.dtype)
        if values.ndim > 1:
            kind = library.list_(library.field("element", kind, nullable=False), values.shape[1])
        fields.append(library.field(name, kind, nullable=False))
    return library.schema(fields)


def table(found: Columns) -> Any:
    """An Arrow table of columns that are not empty."""
    library, about = arrow(), schema(found)
    arrays = []
    for name, values in found.items():
        plain = library.array(np.ascontiguousarray(values).reshape(-1))
        kind = about.field(name).type
        arrays.append(plain if values.ndim == 1 else library.FixedSizeListArray.from_arrays(plain, type=kind))
    return library.Table.from_arrays(arrays, schema=about)


def parquet(found: Columns) -> bytes:
    """A file of Parquet."""
    there = not_empty(found)
    return parquet_file(there, schema(there), arrow(), f"kinema version {own_version()}")


def feather(found: Columns) -> bytes:
    """A file of Arrow's own, mapped into memory by whoever reads it."""
    ipc: Any = require("pyarrow.ipc", purpose="Arrow files", extra="cluster")
    rows, stream = table(not_empty(found)), arrow().BufferOutputStream()
    with ipc.new_file(stream, rows.schema, options=ipc.IpcWriteOptions(compression="lz4")) as writer:
        writer.write_table(rows)
    return stream.getvalue().to_pybytes()


def unpacked(content: bytes, name: str) -> Any:
    """The Arrow table of a file, by how its name ends."""
    if name.endswith(".arrow"):
        ipc: Any = require("pyarrow.ipc", purpose="Arrow files", extra="cluster")
        return ipc.open_file(content).read_all()
    files: Any = require("pyarrow.parquet", purpose="Parquet", extra="cluster")
    return files.read_table(io.BytesIO(content))


FORMATS: dict[str, Callable[[Columns], bytes]] = {"parquet": parquet, "arrow": feather}
"""What files of a data set may be, by how their names end."""
