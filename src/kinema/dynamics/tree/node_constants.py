"""Specialization keys and constants of loop iterations over frames and links.

Loop bodies are traced once per specialization; loop iterations hold the constants of the individual frame or link, some
of which are read per environment from the array of per-environment parameters.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any, Protocol

import numpy as np

from kinema.core import Array
from kinema.ir import ArenaOffset, PerEnvParameters, Value
from kinema.model import Model

from ..arrays import PER_ENV_PARAMETER_ARRAY as ARRAY
from .kinematic_tree import WORLD, FrameNode, principal_axes


@dataclass(frozen=True, slots=True)
class FrameSpecialization:
    """Specialization key of a frame: everything that changes the code traced for the frame."""

    joint_type: int
    axis: tuple[float, ...]
    inverted: bool
    n_qs: int
    n_dofs: int
    has_inertia: bool
    """Whether links are fixed to the frame and forces move it."""
    has_spring: bool
    has_acceleration_drive: bool
    limit_power: int
    is_root: bool
    transmissions: tuple[str, ...]
    """Names of the transmission groups that act on the joint of the frame."""
    has_actuator_gravcomp: bool = False

    @classmethod
    def from_node(cls, node: FrameNode, transmissions: tuple[str, ...] = ()) -> FrameSpecialization:
        """Specialization key of a frame's generated code: joint type, axis, sizes and flags of the frame.

        `transmissions` are the names of the transmissions that act on the frame's joint.
        """
        return cls(
            joint_type=node.joint_type,
            axis=tuple(node.axis),
            inverted=node.inverted,
            n_qs=len(node.qs),
            n_dofs=len(node.dofs),
            has_inertia=bool(node.links and node.dofs),
            has_spring=node.has_spring,
            has_acceleration_drive=node.has_acceleration_drive,
            limit_power=node.limit_power,
            is_root=node.parent == WORLD,
            transmissions=transmissions,
            has_actuator_gravcomp=node.has_actuator_gravcomp,
        )


@dataclass(frozen=True, slots=True)
class LinkSpecialization:
    """Specialization key of a link: everything that changes the code traced for the link."""

    in_moving_frame: bool
    has_gravcomp: bool
    has_mass: bool
    has_parent: bool
    """Whether the link has a parent link."""
    has_joint: bool
    """Whether the link moves relative to its parent link or, for a root link, to the world."""


class FrameConstants:
    """Table constants of the frames of a model."""

    def __init__(self, model: Model) -> None:
        self._frames = model.frames
        self._dof_fields: dict[str, Array] = {}
        for f in fields(model.dofs):
            values = getattr(model.dofs, f.name)
            if isinstance(values, np.ndarray) and values.dtype == np.float64:
                self._dof_fields[f.name] = values

    def of_frame(self, node: FrameNode, *, pose_only: bool = False) -> dict[str, Sequence[Value]]:
        """Constants of a frame's iteration: pose in parent, pitch, reference, inertia, limits and its dofs' parameters.

        With `pose_only` only the constants that determine the pose.
        """
        result: dict[str, Sequence[Value]] = {
            "rotation": [x for row in node.rotation for x in row],
            "position": list(node.position),
            "pitch": [node.pitch],
            "reference": [node.reference],
        }
        if pose_only:
            return result
        result["inertia"] = packed_inertia(node)
        result["cone"] = self._frames.cone[node.index].tolist()
        result["spring_quat"] = self._frames.spring_quat[node.index].tolist()
        for name, values in self._dof_fields.items():
            result[name] = values[node.dofs.start : node.dofs.stop].ravel().tolist()
        return result


def packed_inertia(node: FrameNode) -> list[Value]:
    """Spatial inertia of a frame: mass, first moment and the upper triangle of the rotational inertia."""
    inertia, matrix = node.inertia, node.inertia.rotational
    return [inertia.mass, *inertia.first_moment, *(matrix[i][j] for i in range(3) for j in range(i, 3))]


def link_constants(model: Model, link: int) -> dict[str, Sequence[float]]:
    """Constants of a link's iteration: pose in its frame, mass and inverse, centre of mass, inertia, gravity scale.

    Also the rotation matrix of the principal axes of inertia.
    """
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


class HasArrayOffsets(Protocol):
    """A model with the arena offsets of its arrays."""

    model: Model
    array_offsets: Mapping[str, ArenaOffset]


def with_per_env_parameters(
    ctx: HasArrayOffsets, table: str, element: int | str, constants: Mapping[str, Any]
) -> dict[str, Any]:
    """Replace constants that differ between environments by references to the array of per-environment parameters.

    `constants` of row `element` of table `table` are looked up by name in the per-environment parameter table of the
    model; without such a table or array the constants are returned unchanged.
    """
    result = dict(constants)
    parameters, array_offset = ctx.model.derived.per_env_parameters, ctx.array_offsets.get(ARRAY)
    if parameters is None or array_offset is None:
        return result
    for name in result:
        entry = parameters.entries.get((table, element, name))
        if entry is not None:
            result[name] = PerEnvParameters(
                ArenaOffset(array_offset.arena, array_offset.row + entry.start), entry.folded
            )
    return result
