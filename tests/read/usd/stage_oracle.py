"""What OpenUSD itself says of a stage: where prims are, straight from its `XformCache`, in metres with Z up."""

from __future__ import annotations

from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Array


class Map(NamedTuple):
    """x -> linear @ x + offset."""

    linear: Array
    offset: Array

    def apply(self, points: Array) -> Array:
        """Points (..., 3) in the world."""
        return points @ self.linear.T + self.offset

    def solve(self, points: Array) -> Array:
        """Points (..., 3) of the world in the prim."""
        return np.asarray(np.linalg.solve(self.linear, (points - self.offset).T).T, dtype=np.float64)


class Oracle:
    """A stage, opened by OpenUSD alone."""

    def __init__(self, file: Path) -> None:
        from pxr import Usd, UsdGeom

        self.stage = Usd.Stage.Open(str(file))
        self.cache = UsdGeom.XformCache(Usd.TimeCode.Default())
        unit = UsdGeom.GetStageMetersPerUnit(self.stage)
        self.unit = unit
        self.turn = np.eye(3)
        if UsdGeom.GetStageUpAxis(self.stage) == "Y":  # x stays, y becomes z, z becomes -y
            self.turn = np.array([[1.0, 0.0, 0.0], [0.0, 0.0, -1.0], [0.0, 1.0, 0.0]])

    def world(self, path: str) -> Map:
        """From a prim's own coordinates, in the stage's units, to the world; the stage's origin for no path."""
        matrix = np.eye(4)
        if path:
            matrix = np.array(self.cache.GetLocalToWorldTransform(self.stage.GetPrimAtPath(path)))
        return Map(self.unit * self.turn @ matrix[:3, :3].T, self.unit * self.turn @ matrix[3, :3])

    def attribute(self, path: str, name: str) -> Any:
        """An attribute's value."""
        return self.stage.GetPrimAtPath(path).GetAttribute(name).Get()


def quaternion_matrix(q: Any) -> Array:
    """A USD quaternion as a matrix, by conjugation of the basis vectors: not the reader's way to do it."""
    from pxr import Gf

    turn = Gf.Quatd(q).GetNormalized()
    return np.array([turn.Transform(Gf.Vec3d(*e)) for e in np.eye(3).tolist()]).T
