"""Texture coordinates of triangles that come with none, where a format says how an image is laid on them."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from kinema.shapes.appearance import CornerValues
from kinema.shapes.mesh_data import MeshData

Row = tuple[float, float, float, float]


@dataclass(frozen=True, slots=True)
class Projection:
    """An image that is laid on a mesh along a direction, as a slide is thrown on a screen."""

    u: Row
    """A factor for each coordinate of a point of the mesh before its scale, and what is added."""
    v: Row
    """The same for the second coordinate of the image, which counts upwards."""

    def coordinates(self, mesh: MeshData) -> CornerValues:
        """The point of the image at each corner of the mesh's faces."""
        rows = np.array([self.u, self.v])
        return CornerValues(mesh.vertices @ rows[:, :3].T + rows[:, 3], np.asarray(mesh.faces, dtype=np.int64))
