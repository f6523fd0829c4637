"""A folder of episodes: Parquet or Arrow files, a record for each, and a manifest once all of them are there."""

from __future__ import annotations

import hashlib
import json
import os
import uuid
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

from kinema.foundation import KinemaError, ReadError, require

from .ledger import Ledger
from .shards import unpacked
from .stores import Store

VERSION = 2
"""Of what is written: since 2 the content is known by other digests."""
HEAD, MANIFEST, RECORDS = "head.json", "manifest.json", "records"
"""What the folder holds beside them: what it is, what is in it, and what was done so far."""


def part_name(group: int) -> str:
    """What the file of a group is called."""
    return f"part-{group:06d}"


@dataclass(frozen=True, slots=True)
class DataSet:
    """Episodes that were played and written. `open_dataset` finds one again."""

    place: str
    """The folder, or its address."""
    content: str
    """A digest of all that is in it: equal for equal episodes, whoever played them."""
    episodes: int
    rows: int
    head: dict[str, Any]
    """What was asked for."""
    parts: tuple[dict[str, Any], ...]
    """The files, with their episodes, rows, digests and sizes [bytes]."""

    def table(self) -> Any:
        """All of it as one Arrow table, sorted by episode and step: only for what fits into memory."""
        pyarrow: Any = require("pyarrow", purpose="Parquet", extra="cluster")
        return pyarrow.concat_tables(list(self.tables()))

    def tables(self) -> Iterator[Any]:
        """One Arrow table after the other."""
        store = Store(self.place)
        for part in self.parts:
            content = store.read(part["file"])
            if content is None:
                raise ReadError(f"{self.place}: {part['file']} is missing")
            yield unpacked(content, part["file"])


class Draft:
    """A data set that is being written, perhaps for the second time.

    Args:
        place: the folder, or its address.
        head: what is asked for; a folder that was begun with something else is refused.
        groups: how many files there will be.
    """

    def __init__(self, place: str | os.PathLike[str], head: dict[str, Any], groups: int) -> None:
        self.store = Store(place)
        self.groups = groups
        self.head = {"kinema_rollouts": VERSION, **head}
        _refuse_other(self.store, self.head)
        self.store.write(HEAD, json.dumps(self.head, indent=1, sort_keys=True).encode())
        self._ledger = Ledger(self.store, RECORDS)
        self.sign = "" if self.store.url else f".sign-{uuid.uuid4().hex}"
        """A file in the folder while it is written to: whoever sees it sees this very folder. An address has none."""
        if self.sign:
            self._sweep()
            self.store.write(self.sign, b"", to_disk=False)

    def has(self, group: int) -> bool:
        """Whether a group is done: its file is there, as it was noted."""
        record = self._ledger.get(part_name(group))
        return record is not None and self.store.size(record["file"]) == record["bytes"]

    def note(self, group: int, record: dict[str, Any]) -> None:
        """A group is done, and its file is written."""
        self._ledger.note(part_name(group), record)

    def close(self) -> None:
        """Nobody writes any more."""
        if self.sign:
            self._sweep()

    def _sweep(self) -> None:
        """Remove what drivers and workers that died have left: signs, and drafts of files."""
        for name in self.store.names():
            if name.startswith((".sign-", ".part-")):
                self.store.remove(name)

    def finish(self) -> DataSet:
        """Write the manifest."""
        parts, content = [], hashlib.sha256()
        for group in range(self.groups):
            record = self._ledger.get(part_name(group))
            if record is None:
                raise KinemaError(f"{self.store.place}: {part_name(group)} is missing")
            parts.append(record)
            content.update(record["digest"].encode())
        whole = {"head": self.head, "content": content.hexdigest(), "parts": parts}
        self.store.write(MANIFEST, json.dumps(whole, indent=1, sort_keys=True).encode())
        return _data_set(self.store, whole)


def open_dataset(place: str | os.PathLike[str]) -> DataSet:
    """The data set in a folder."""
    store = Store(place)
    try:
        whole = json.loads(store.read(MANIFEST) or b"")
        return _data_set(store, whole)
    except (ValueError, KeyError, TypeError):
        raise ReadError(f"{store.place}: there is no data set of rollouts, or it is not finished") from None


def _data_set(store: Store, whole: dict[str, Any]) -> DataSet:
    parts = whole["parts"]
    episodes, rows = (sum(part[name] for part in parts) for name in ("episodes", "rows"))
    return DataSet(store.place, whole["content"], episodes, rows, whole["head"], tuple(parts))


def _refuse_other(store: Store, head: dict[str, Any]) -> None:
    before = store.read(HEAD)
    if before is None:
        return
    try:
        old = json.loads(before)
    except ValueError:
        old = None
    if not isinstance(old, dict):
        raise KinemaError(f"{store.place}: {HEAD} is of something else; take another folder")
    wrong = [name for name in sorted({*head, *old}) if head.get(name) != old.get(name)]
    if wrong:
        name = wrong[0]
        shown = f"{name} {old.get(name)!r}, not {head.get(name)!r}" if name != "recipe" else "another recipe or policy"
        raise KinemaError(f"{store.place}: what is there was made with {shown:.300}; take another folder")
