"""Shapes that touch each other, as the model packs them."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import Array, Pose
from kinema.model import PackedHulls, SampledField


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """One shape that touches others."""

    kind: str
    size: tuple[float, float, float]
    radius: float
    """Of a sphere around it."""
    center: Array = field(default_factory=lambda: np.zeros(3))
    """Of that sphere."""
    pose: Pose = field(default_factory=Pose)
    """In the frame of the shape that it stands for."""
    hull: PackedHulls | None = None
    """Of a convex mesh."""
    heights: Array | None = None
    distances: SampledField | None = None


def three_of(values: Array) -> tuple[float, float, float]:
    """The three numbers of a size."""
    x, y, z = (float(v) for v in values)
    return x, y, z


def pieces_to_values(pieces: Sequence[Piece]) -> dict[str, Any]:
    """Pieces of a mesh as the values of an entry of the cache; they have no heights."""
    values: dict[str, Any] = {"pieces": []}
    for i, piece in enumerate(pieces):
        about: dict[str, Any] = {"kind": piece.kind, "size": piece.size, "radius": piece.radius}
        arrays = {"center": piece.center, "position": piece.pose.position, "rotation": piece.pose.rotation}
        hull, grid = piece.hull, piece.distances
        if hull is not None:
            about["hull"] = [hull.first, hull.n_corners, hull.n_faces, hull.radius]
            arrays["numbers"] = hull.numbers
        if grid is not None:
            about["grid"] = [grid.res, grid.cell_size]
            arrays |= {name: getattr(grid, name) for name in _OF_GRID}
        values["pieces"].append(about)
        values |= {f"{i} {name}": np.asarray(x) for name, x in arrays.items()}
    return values


def pieces_from_values(values: Mapping[str, Any]) -> list[Piece]:
    """Pieces from such values."""
    pieces = []
    for i, about in enumerate(values["pieces"]):
        hull = grid = None
        if "hull" in about:
            hull = PackedHulls(values[f"{i} numbers"], *(tuple(x) for x in about["hull"]))
        if "grid" in about:
            res, cell_size = about["grid"]
            grid = SampledField(tuple(res), cell_size, *(values[f"{i} {name}"] for name in _OF_GRID))
        pose = Pose(values[f"{i} position"], values[f"{i} rotation"])
        size, center = tuple(about["size"]), values[f"{i} center"]
        pieces.append(Piece(about["kind"], size, about["radius"], center, pose, hull, distances=grid))
    return pieces


_OF_GRID = ("origin", "values", "gradients", "nearest", "points")
