"""Bodies as triangles, in their component's frame and in centimetres, one STL file for each body of each component."""

from __future__ import annotations

import math
import os
import re
import struct
import unicodedata
from typing import Any

from .api import attribute

UNIT = "cm"


class MeshFiles:
    """Writes the mesh of each native body once, however often its component stands in the assembly."""

    def __init__(self, folder: str, quality: int, notes: list[str]) -> None:
        self.folder = folder
        self.quality = quality
        self.notes = notes
        self.written: dict[tuple[str, str], MeshFile | None] = {}
        self.names: set[str] = set()

    @property
    def count(self) -> int:
        """How many files there are."""
        return sum(m is not None for m in self.written.values())

    def write(self, component: Any, number: int, body: Any) -> MeshFile | None:
        """The file with a native body's triangles; None where there are none."""
        key = (str(component.id), f"{number} {body.name}")
        if key not in self.written:
            self.written[key] = self._write(component, body)
        return self.written[key]

    def _write(self, component: Any, body: Any) -> MeshFile | None:
        name = f"{component.name} / {body.name}"
        try:
            mesh = triangle_mesh(body, self.quality)
        except RuntimeError as error:
            self.notes.append(f"{name}: its triangles could not be computed ({error})")
            return None
        if mesh is None:
            self.notes.append(f"{name}: it has no triangles")
            return None
        coordinates, indices = mesh
        if not all(math.isfinite(v) for v in coordinates):
            self.notes.append(f"{name}: its triangles are not all finite")
            return None
        relative = f"meshes/{self._file_name(component.name, body.name)}.stl"
        path = os.path.join(self.folder, *relative.split("/"))
        os.makedirs(os.path.dirname(path), exist_ok=True)
        with open(path, "wb") as file:
            file.write(stl_bytes(coordinates, indices))
        low = [min(coordinates[i::3]) for i in range(3)]
        high = [max(coordinates[i::3]) for i in range(3)]
        return MeshFile(relative, low, high)

    def _file_name(self, component: str, body: str) -> str:
        wanted = safe_name(f"{component}_{body}")
        name, number = wanted, 1
        while name.lower() in self.names:  # some file systems do not tell upper from lower case
            number += 1
            name = f"{wanted}_{number}"
        self.names.add(name.lower())
        return name


class MeshFile:
    """A file, and the box around its triangles in the component's frame."""

    def __init__(self, file: str, low: list[float], high: list[float]) -> None:
        self.file = file
        self.low = low
        self.high = high

    def describe(self) -> dict[str, Any]:
        """The mesh as the snapshot has it."""
        return {"file": self.file, "unit": UNIT, "frame": "component"}


def safe_name(text: str) -> str:
    """A name that every file system takes."""
    plain = unicodedata.normalize("NFKD", text).encode("ascii", "ignore").decode()
    return re.sub(r"[^A-Za-z0-9_-]+", "_", plain).strip("_")[:80] or "unnamed"


def triangle_mesh(body: Any, quality: int) -> tuple[list[float], list[int]] | None:
    """Coordinates and corners of a body's triangles; None where it has none."""
    display = attribute(body, "displayMesh")  # a MeshBody is made of triangles already
    if display is None:
        calculator = body.meshManager.createMeshCalculator()
        calculator.setQuality(quality)
        display = calculator.calculate()
    if display is None:
        return None
    coordinates = [float(v) for v in display.nodeCoordinatesAsDouble]
    indices = [int(v) for v in display.nodeIndices]
    return (coordinates, indices) if indices else None


def stl_bytes(coordinates: list[float], indices: list[int]) -> bytes:
    """A binary STL file."""
    pack = struct.Struct("<12fH").pack
    parts = [b"Kinema mesh, centimetres".ljust(80), struct.pack("<I", len(indices) // 3)]
    for t in range(0, len(indices) - 2, 3):
        a, b, c = (coordinates[3 * i : 3 * i + 3] for i in indices[t : t + 3])
        parts.append(pack(*_normal(a, b, c), *a, *b, *c, 0))
    return b"".join(parts)


def _normal(a: list[float], b: list[float], c: list[float]) -> list[float]:
    u = [b[i] - a[i] for i in range(3)]
    v = [c[i] - a[i] for i in range(3)]
    n = [u[1] * v[2] - u[2] * v[1], u[2] * v[0] - u[0] * v[2], u[0] * v[1] - u[1] * v[0]]
    length = math.sqrt(sum(x * x for x in n))
    return [x / length for x in n] if length > 0 else [0.0, 0.0, 0.0]
