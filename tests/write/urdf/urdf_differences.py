"""What differs between two descriptions, field by field."""

from __future__ import annotations

import dataclasses
import math
from collections.abc import Iterator
from typing import Any

import numpy as np

from kinema.core import Pose
from kinema.description import Mesh, mesh_data

_ELSEWHERE = ("origin", "source", "diagnostics")
"""Where a description comes from is no part of it."""


def differences(a: Any, b: Any, path: str = "", tolerance: float = 1e-12) -> Iterator[str]:
    """The paths of the fields in which two parts of descriptions differ."""
    if type(a) is not type(b):
        yield f"{path}: {a!r} is {b!r}"
    elif isinstance(a, Mesh):
        yield from _meshes(a, b, path, tolerance)
    elif isinstance(a, Pose):
        if not a.is_close(b, tolerance):
            yield f"{path}: {a} is {b}"
    elif dataclasses.is_dataclass(a):
        for field in dataclasses.fields(a):
            if field.name not in _ELSEWHERE:
                one, other = getattr(a, field.name), getattr(b, field.name)
                yield from differences(one, other, f"{path}.{field.name}", tolerance)
    elif isinstance(a, np.ndarray):
        if a.shape != b.shape or not np.allclose(a, b, rtol=tolerance, atol=1e-15):
            yield f"{path}: {a} is {b}"
    elif isinstance(a, list | tuple):
        yield from _sequences(a, b, path, tolerance)
    elif isinstance(a, dict):
        for key in sorted(a.keys() | b.keys()):
            yield from differences(a.get(key), b.get(key), f"{path}[{key}]", tolerance)
    elif not (math.isclose(a, b, rel_tol=tolerance, abs_tol=1e-15) if isinstance(a, float) else a == b):
        yield f"{path}: {a!r} is {b!r}"


def _sequences(a: Any, b: Any, path: str, tolerance: float) -> Iterator[str]:
    if len(a) != len(b):
        yield f"{path}: {len(a)} items are {len(b)}"
        return
    for i, (one, other) in enumerate(zip(a, b, strict=True)):
        yield from differences(one, other, f"{path}[{getattr(one, 'name', '') or i}]", tolerance)


def _meshes(a: Mesh, b: Mesh, path: str, tolerance: float) -> Iterator[str]:
    """Meshes are what their triangles are, wherever these lie."""
    one, other = mesh_data(a), mesh_data(b)
    if one is None or other is None:
        if not (one is other and a.uri == b.uri and np.array_equal(a.scale, b.scale)):
            yield f"{path}: the mesh {a.uri!r} is {b.uri!r}"
    elif one.vertices.shape != other.vertices.shape or not np.allclose(one.vertices, other.vertices, rtol=1e-6):
        yield f"{path}: other vertices"
    elif not np.array_equal(one.faces, other.faces):
        yield f"{path}: other triangles"
    for field in ("approximation", "max_hull_vertices", "submesh", "center_submesh"):
        yield from differences(getattr(a, field), getattr(b, field), f"{path}.{field}", tolerance)
