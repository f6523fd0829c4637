"""What is done already, by the content of what it was done to: work that was interrupted goes on where it was."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import Any

from .stores import Store, digest_of


class Ledger:
    """Records in a folder of a store, one small file for each: written when something is done, and not before.

    Args:
        store: where.
        folder: in which folder of it.
    """

    def __init__(self, store: Store, folder: str) -> None:
        self._store, self._folder = store, folder
        self._known = set(store.names(folder))

    def get(self, key: str) -> dict[str, Any] | None:
        """What was noted; nothing where that is not whole."""
        if f"{key}.json" not in self._known:
            return None
        content = self._store.read(f"{self._folder}/{key}.json")
        try:
            found = json.loads(content or b"")
        except ValueError:
            return None
        return found if isinstance(found, dict) else None

    def note(self, key: str, record: dict[str, Any]) -> None:
        """Something is done. A record that is lost with the machine's power costs doing that again, and no more."""
        content = json.dumps(record, sort_keys=True).encode()
        self._store.write(f"{self._folder}/{key}.json", content, to_disk=False)
        self._known.add(f"{key}.json")


def key_of(*parts: Any) -> str:
    """What values are known by; they must have a `repr` that says all of them."""
    return hashlib.sha256(repr(parts).encode()).hexdigest()[:32]


def unchanged(digests: dict[str, str]) -> bool:
    """Whether files are still what they were."""
    try:
        return all(digest_of(Path(name)) == digest for name, digest in digests.items())
    except OSError:
        return False
