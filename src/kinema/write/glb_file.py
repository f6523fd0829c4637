"""A binary glTF file in the making: its document, and the bytes that it refers to."""

from __future__ import annotations

import json
import struct
from collections.abc import Iterator
from typing import Any

import numpy as np

_FLOAT, _UNSIGNED = 5126, 5125
_WIDTHS = {1: "SCALAR", 2: "VEC2", 3: "VEC3", 4: "VEC4"}
_VERTICES, _CORNERS = 34962, 34963


class GlbFile:
    """The file."""

    def __init__(self) -> None:
        self.document: dict[str, Any] = {"asset": {"version": "2.0", "generator": "Kinema"}}
        self._pieces: list[bytes] = []
        self._length = 0

    def add(self, kind: str, item: dict[str, Any]) -> int:
        """Put an item into one of the document's lists; its number."""
        items = self.document.setdefault(kind, [])
        items.append(item)
        return len(items) - 1

    def view(self, data: bytes, target: int | None = None) -> int:
        """Bytes that something refers to; the number of their view."""
        found = {"buffer": 0, "byteOffset": self._length, "byteLength": len(data)}
        padding = b"\0" * (-len(data) % 4)
        self._pieces += [data, padding]
        self._length += len(data) + len(padding)
        return self.add("bufferViews", found if target is None else {**found, "target": target})

    def numbers(self, values: np.ndarray, *, bounds: bool = False) -> int:
        """An accessor of numbers: corners where they are whole, else something of vertices."""
        is_whole = values.dtype.kind in "iu"
        plain = np.ascontiguousarray(values, dtype=np.uint32 if is_whole else np.float32)
        accessor: dict[str, Any] = {
            "bufferView": self.view(plain.tobytes(), _CORNERS if is_whole else _VERTICES),
            "componentType": _UNSIGNED if is_whole else _FLOAT,
            "count": len(plain),
            "type": _WIDTHS[1 if plain.ndim == 1 else plain.shape[1]],
        }
        if bounds:
            accessor |= {"min": plain.min(axis=0).tolist(), "max": plain.max(axis=0).tolist()}
        return self.add("accessors", accessor)

    def use(self, extension: str) -> None:
        """Say that an extension is used."""
        used = self.document.setdefault("extensionsUsed", [])
        if extension not in used:
            used.append(extension)

    def pieces(self) -> Iterator[bytes]:
        """The file."""
        if self._length:
            self.document["buffers"] = [{"byteLength": self._length}]
        text = json.dumps(self.document, separators=(",", ":")).encode()
        text += b" " * (-len(text) % 4)
        chunks = 8 + len(text) + (8 + self._length if self._length else 0)
        yield struct.pack("<4sIII4s", b"glTF", 2, 12 + chunks, len(text), b"JSON") + text
        if self._length:
            yield struct.pack("<I4s", self._length, b"BIN\0")
            yield from self._pieces
