"""How much a mesh file from a stranger may ask for."""

from __future__ import annotations

from dataclasses import dataclass

from kinema.shapes.mesh_data import MAX_COORDINATE, MeshError

MEBIBYTE = 1 << 20


@dataclass(frozen=True)
class MeshLimits:
    """Upper bounds that are checked before the memory they stand for is used."""

    file_bytes: int = 256 * MEBIBYTE
    """Size of the file, and of all files it refers to together [bytes]."""
    vertices: int = 24_000_000
    """Vertices of the result; a binary STL of `file_bytes` has 16 million."""
    faces: int = 8_000_000
    """Triangles of the result; a binary STL of `file_bytes` has 5.4 million."""
    markup_items: int = 1_000_000
    """XML elements and attributes, or JSON values: each costs far more memory than its text."""
    depth: int = 500
    """Nesting of XML elements, JSON values and scene nodes."""
    coordinate: float = MAX_COORDINATE
    """Largest coordinate [m]."""

    def check_counts(self, vertices: int, faces: int) -> None:
        """Raise `MeshError` when a mesh with so many vertices and triangles would be too large."""
        if vertices > self.vertices:
            raise MeshError(f"The mesh has {vertices} vertices, more than the {self.vertices} allowed.")
        if faces > self.faces:
            raise MeshError(f"The mesh has {faces} triangles, more than the {self.faces} allowed.")
