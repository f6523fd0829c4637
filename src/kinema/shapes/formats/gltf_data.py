"""The arrays of a glTF: accessors into views into buffers, every step checked against what is really there."""

from __future__ import annotations

import base64
import binascii
from pathlib import Path
from typing import Any
from urllib.parse import unquote

import numpy as np

from kinema.shapes.formats.numbers import require_bytes, to_float64
from kinema.shapes.formats.source import MeshSource
from kinema.shapes.mesh_data import FloatArray, IntArray, MeshError

_COMPONENTS = {5120: "<i1", 5121: "<u1", 5122: "<i2", 5123: "<u2", 5125: "<u4", 5126: "<f4"}
_MOST_ATTRIBUTES = 8
"""For how many numbers or vectors beside its position there is room per vertex, on average."""
_WIDTHS = {"SCALAR": 1, "VEC2": 2, "VEC3": 3, "VEC4": 4}


class AccessorReader:
    """Reads positions and indices; buffers are opened when first needed."""

    def __init__(self, document: dict[str, Any], binary: bytes | None, source: MeshSource) -> None:
        self._document = document
        self._binary = binary
        self._source = source
        self._buffers: dict[int, bytes] = {}
        # Many primitives may read the same bytes, so what is read in all is bounded, not only each piece.
        self._n_vertices = 0
        self._n_corners = 0
        self._n_attributes = 0
        self._attributes: dict[int, FloatArray] = {}
        self._bytes_left = source.limits.file_bytes - len(source.data)

    def positions(self, accessor_index: int) -> FloatArray:
        """Positions, shape (n, 3)."""
        accessor = document_item(self._document, "accessors", accessor_index)
        self._n_vertices += _natural(accessor.get("count"))
        self._check_counts()
        return self._floats(accessor, "VEC3")

    def attribute(self, accessor_index: object, n_vertices: int) -> FloatArray:
        """Numbers that vertices have beside their position, shape (n, width); read once however often it is used."""
        accessor = document_item(self._document, "accessors", accessor_index)
        kind = accessor.get("type")
        if kind not in _WIDTHS or _natural(accessor.get("count")) != n_vertices:
            raise MeshError("A glTF attribute does not fit its positions.")
        assert isinstance(accessor_index, int)
        if accessor_index not in self._attributes:
            self._n_attributes += n_vertices
            self._source.limits.check_counts(self._n_attributes // _MOST_ATTRIBUTES, 0)
            self._attributes[accessor_index] = self._floats(accessor, kind)
        return self._attributes[accessor_index]

    def _floats(self, accessor: dict[str, Any], kind: str) -> FloatArray:
        raw = self._read(accessor, kind)
        values = to_float64(raw)
        if accessor.get("normalized") and raw.dtype.kind in "iu":
            # Quantised numbers; a signed type maps both -max and -max - 1 to -1.
            values = np.maximum(values / np.iinfo(raw.dtype).max, -1.0)
        return values

    def view_bytes(self, index: object) -> bytes:
        """The bytes of a buffer view as they are: an image."""
        view = document_item(self._document, "bufferViews", index)
        assert isinstance(index, int)
        found, _ = self._view(index, 1) if "byteStride" not in view else (memoryview(b""), 1)
        return bytes(found)

    def corners(self, accessor_index: int | None, n_vertices: int) -> IntArray:
        """Vertex indices, shape (n,); without an accessor every vertex is a corner, in order."""
        if accessor_index is None:
            self._n_corners += n_vertices
            self._check_counts()
            return np.arange(n_vertices)
        accessor = document_item(self._document, "accessors", accessor_index)
        self._n_corners += _natural(accessor.get("count"))
        self._check_counts()
        raw = self._read(accessor, "SCALAR")
        if raw.dtype.kind != "u":
            raise MeshError("The glTF indices are not unsigned integers.")
        return raw.reshape(-1).astype(np.int64)

    def _check_counts(self) -> None:
        self._source.limits.check_counts(self._n_vertices, self._n_corners // 3)

    def _read(self, accessor: dict[str, Any], kind: str) -> np.ndarray:
        """The values of an accessor of type `kind`, shape (count, width); a view into the buffer."""
        if accessor.get("type") != kind or accessor.get("componentType") not in _COMPONENTS:
            raise MeshError(f"A glTF accessor is not of type {kind}.")
        if "sparse" in accessor or "bufferView" not in accessor:
            raise MeshError("The glTF uses sparse accessors, which are not supported.")
        count = _natural(accessor.get("count"))
        dtype = np.dtype(_COMPONENTS[accessor["componentType"]])
        width = _WIDTHS[kind]
        view, stride = self._view(accessor["bufferView"], dtype.itemsize * width)
        start = _natural(accessor.get("byteOffset", 0))
        needed = start + (count - 1) * stride + dtype.itemsize * width if count else 0
        require_bytes(needed, len(view), f"a glTF accessor of {count} items")
        return np.ndarray((count, width), dtype, view, start, (stride, dtype.itemsize))

    def _view(self, index: int, item_bytes: int) -> tuple[memoryview, int]:
        """The bytes of a buffer view, and the step from one item to the next."""
        view = document_item(self._document, "bufferViews", index)
        stride = _natural(view.get("byteStride", item_bytes))
        if stride < item_bytes:
            raise MeshError("A glTF buffer view has items that overlap.")
        start, length = _natural(view.get("byteOffset", 0)), _natural(view.get("byteLength"))
        data = self._buffer(view.get("buffer"))
        require_bytes(start + length, len(data), "a glTF buffer view")
        return memoryview(data)[start : start + length], stride

    def _buffer(self, index: object) -> bytes:
        buffer = document_item(self._document, "buffers", index)
        assert isinstance(index, int)
        if index not in self._buffers:
            data = self._open(buffer.get("uri"))
            require_bytes(_natural(buffer.get("byteLength")), len(data), "a glTF buffer")
            self._buffers[index] = data
        return self._buffers[index]

    def _open(self, uri: object) -> bytes:
        if uri is None:
            if self._binary is None:
                raise MeshError("The glTF refers to binary data that is not there.")
            return self._binary
        if not isinstance(uri, str):
            raise MeshError("A glTF buffer has no usable address.")
        return self.data_of(uri)

    def data_of(self, uri: str) -> bytes:
        """What an address leads to: data in the address itself, or a file beside this one."""
        if uri.startswith("data:"):
            return _decode_data_uri(uri)
        return self._read_neighbour(uri)

    def _read_neighbour(self, uri: str) -> bytes:
        """Another file, but only below the folder of this one, and only as large as the limits leave room for."""
        if self._source.folder is None or ":" in uri:
            raise MeshError(f"The glTF buffer '{uri[:80]}' is outside the file and is not opened.")
        folder = self._source.folder.resolve()
        path = (folder / unquote(uri)).resolve()
        if not path.is_relative_to(folder) or not path.is_file():
            raise MeshError(f"The glTF buffer '{uri[:80]}' is not a file beside the glTF.")
        return self._read_bounded(path)

    def _read_bounded(self, path: Path) -> bytes:
        with path.open("rb") as file:
            data = file.read(max(self._bytes_left, 0) + 1)
        self._bytes_left -= len(data)
        if self._bytes_left < 0:
            raise MeshError(f"The glTF with its buffers is larger than {self._source.limits.file_bytes} bytes.")
        return data


def document_item(document: dict[str, Any], kind: str, index: object) -> dict[str, Any]:
    """`document[kind][index]`, or `MeshError` when there is no such object."""
    items = document.get(kind, [])
    if not isinstance(index, int) or not 0 <= index < len(items) or not isinstance(items[index], dict):
        raise MeshError(f"The glTF refers to {kind}[{index!r:.40}], which does not exist.")
    return items[index]


def _natural(value: object) -> int:
    if not isinstance(value, int) or isinstance(value, bool) or value < 0:
        raise MeshError(f"The glTF has {value!r:.40} where a count or an offset should be.")
    return value


def _decode_data_uri(uri: str) -> bytes:
    head, _, payload = uri.partition(",")
    if not head.endswith(";base64"):
        raise MeshError("A glTF buffer is embedded in an unknown way.")
    try:
        return base64.b64decode(payload, validate=True)
    except binascii.Error:
        raise MeshError("A glTF buffer is not valid base64.") from None
