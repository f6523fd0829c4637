"""Mesh files as triangles with what is on them, read once for all shapes that show them, in bounded memory."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Callable
from dataclasses import dataclass, field

from kinema.description import Mesh, dressed_mesh
from kinema.shapes import LoadedMesh

_MOST_BYTES = 16 * 2**20
"""Of meshes that are kept beside the one that was read last."""


@dataclass(slots=True, eq=False)
class LoadedMeshes:
    """The meshes that were asked for last; robots show the same few on many links."""

    load: Callable[[Mesh], LoadedMesh | None] = dressed_mesh
    _kept: OrderedDict[tuple[object, ...], tuple[LoadedMesh | None, int]] = field(default_factory=OrderedDict)
    _bytes: int = 0

    def get(self, mesh: Mesh) -> LoadedMesh | None:
        """The triangles before their scale with what is on them; None where there are none."""
        if mesh.vertices is not None:
            return self.load(mesh)
        key = (mesh.path, mesh.submesh, mesh.center_submesh, mesh.projection)
        if key in self._kept:
            self._kept.move_to_end(key)
            return self._kept[key][0]
        loaded = self.load(mesh)
        self._kept[key] = (loaded, _size(loaded))
        self._bytes += self._kept[key][1]
        while self._bytes > _MOST_BYTES and len(self._kept) > 1:
            self._bytes -= self._kept.popitem(last=False)[1][1]
        return loaded


def _size(loaded: LoadedMesh | None) -> int:
    """How much memory [bytes] a mesh takes, roughly."""
    if loaded is None:
        return 0
    size = loaded.mesh.vertices.nbytes + loaded.mesh.faces.nbytes
    looks = loaded.appearance
    if looks is not None:
        layers = [layer for layer in (looks.normals, *looks.coordinates, looks.colors) if layer is not None]
        size += sum(layer.values.nbytes + layer.corners.nbytes for layer in layers)
    return size
