"""Kinds of parts, and the numbers that the rows of a kind have: all that the code of a part may ask for."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

import numpy as np

from kinema.model import Model
from kinema.trace import Value

from .tree import WORLD, Node, principal_axes


@dataclass(frozen=True, slots=True)
class FrameKind:
    """What decides which code a frame runs."""

    motion: int
    axis: tuple[float, ...]
    inverted: bool
    n_qs: int
    n_dofs: int
    bodied: bool
    """Whether it has mass of its own."""
    sprung: bool
    per_inertia: bool
    limit_power: int
    held_by_world: bool
    pulled_by: tuple[str, ...]
    """Which kinds of cords act on it."""
    bears_weight: bool = False

    @classmethod
    def of(cls, node: Node, pulled_by: tuple[str, ...] = ()) -> FrameKind:
        """The kind of a frame."""
        return cls(
            motion=node.motion,
            axis=tuple(node.axis),
            inverted=node.inverted,
            n_qs=len(node.qs),
            n_dofs=len(node.dofs),
            bodied=bool(node.links),
            sprung=node.sprung,
            per_inertia=node.per_inertia,
            limit_power=node.limit_power,
            held_by_world=node.parent == WORLD,
            pulled_by=pulled_by,
            bears_weight=node.bears_weight,
        )


@dataclass(frozen=True, slots=True)
class LinkKind:
    """What decides which code a link runs."""

    moves: bool
    lifted: bool
    massive: bool
    held: bool
    """Whether it hangs on another link."""
    jointed: bool
    """Whether it moves against that one, or the world."""


class FrameNumbers:
    """The constants of the frames of a model, whose tables are read once for all of them."""

    def __init__(self, model: Model) -> None:
        self._cones, self._springs = model.frames.cone.tolist(), model.frames.spring_quat.tolist()
        self._of_dofs: dict[str, list[list[float]]] = {}
        for f in fields(model.dofs):
            values = getattr(model.dofs, f.name)
            if isinstance(values, np.ndarray) and values.dtype == np.float64:
                self._of_dofs[f.name] = values.reshape(len(values), -1).tolist() if len(values) else []

    def of(self, node: Node, *, pose_only: bool = False) -> dict[str, Sequence[Value]]:
        """Those of a frame and of its degrees of freedom, or those alone that say where it is."""
        inertia, matrix = node.inertia, node.inertia.matrix
        result: dict[str, Sequence[Value]] = {
            "rotation": [x for row in node.rotation for x in row],
            "position": list(node.position),
            "pitch": [node.pitch],
            "reference": [node.reference],
        }
        if pose_only:
            return result
        result["inertia"] = [inertia.mass, *inertia.moment, *(matrix[i][j] for i in range(3) for j in range(i, 3))]
        result["cone"] = self._cones[node.index]
        result["spring_quat"] = self._springs[node.index]
        for name, values in self._of_dofs.items():
            result[name] = [x for dof in node.dofs for x in values[dof]]
        return result


def link_numbers(model: Model, link: int) -> dict[str, Sequence[float]]:
    """The constants of a link."""
    links = model.links
    mass = float(links.inertial_mass[link])
    return {
        "rotation": links.rot[link].ravel().tolist(),
        "position": links.pos[link].tolist(),
        "mass": [mass],
        "per mass": [1.0 / mass if mass else 0.0],
        "center": links.inertial_pos[link].tolist(),
        "inertia": links.inertial_i[link].ravel().tolist(),
        "principal": principal_axes(links.inertial_i[link]).ravel().tolist(),
        "gravity_scale": [float(links.gravity_scale[link])],
    }
