"""Placement of links, joints and geoms of a model: poses relative to their parents, and models with other poses.

All poses are those of the reference configuration, in which the displacements of all joints are zero.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from functools import reduce
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import (
    Array,
    matrix_to_quaternion,
    quaternion_to_matrix,
    reproducible_norm,
    reproducible_product as product,
)
from kinema.model import Model, PrimitiveJointType

from .topology import WORLD

Mask = npt.NDArray[np.bool_]
Indices = npt.NDArray[np.intp]

# -------------------------------------------------------------------------------------------------------------- poses


def _transform(rotation: Array, position: Array) -> Array:
    """Homogeneous transform (4, 4)."""
    result = np.eye(4)
    result[:3, :3], result[:3, 3] = rotation, position
    return result


def _inverse(transform: Array) -> Array:
    rotation = transform[:3, :3].T
    return _transform(rotation, -product(rotation, transform[:3, 3]))


def _frame_transform(model: Model, frame: int) -> Array:
    """Pose of a moving frame in its parent frame."""
    return _transform(model.frames.rot[frame], model.frames.pos[frame])


def _link_in_frame(model: Model, link: int) -> Array:
    """Pose of a link in its moving frame; the identity for the world."""
    return np.eye(4) if link < 0 else _transform(model.links.rot[link], model.links.pos[link])


def _frames_of_link(model: Model, link: int) -> list[int]:
    """Moving frames between the frame of the parent of a link and its own frame, from the parent on."""
    parent, frame, result = int(model.links.parent_idx[link]), int(model.links.frame_idx[link]), list[int]()
    end = WORLD if parent < 0 else int(model.links.frame_idx[parent])
    while frame not in (end, WORLD):
        result.insert(0, frame)
        frame = int(model.frames.parent_idx[frame])
    return result


def _link_in_parent_frame(model: Model, link: int) -> Array:
    """Pose of a link in the moving frame of its parent."""
    result = np.eye(4)
    for frame in _frames_of_link(model, link):
        result = product(result, _frame_transform(model, frame))
    return product(result, _link_in_frame(model, link))


# -------------------------------------------------------------------------------------------------------------- links


def jointed_links(model: Model) -> Mask:
    """Links that joints, but no free ones, connect to their parent or to the world."""
    result = np.array([bool(_frames_of_link(model, link)) for link in range(model.n_links)], np.bool_)
    free = [int(model.joints.link_idx[i]) for i, kind in enumerate(model.joints.kinds) if kind == "free"]
    result[free] = False
    return result & ~np.isin(model.links.frame_idx, model.kinematic_frames)


def link_positions(model: Model) -> Array:
    """Positions of all links in their parents [m], (n_links, 3)."""
    return np.array([_link_in_parent(model, x)[:3, 3] for x in range(model.n_links)]).reshape(-1, 3)


def link_quaternions(model: Model) -> Array:
    """Orientations of all links in their parents as quaternions (w, x, y, z), (n_links, 4)."""
    found = [matrix_to_quaternion(_link_in_parent(model, x)[:3, :3]) for x in range(model.n_links)]
    return np.array(found).reshape(-1, 4)


def _link_in_parent(model: Model, link: int) -> Array:
    parent = int(model.links.parent_idx[link])
    return product(_inverse(_link_in_frame(model, parent)), _link_in_parent_frame(model, link))


def with_link_positions(model: Model, positions: Array) -> Model:
    """Model with other positions of links in their parents; links without joints keep theirs."""
    return _with_link_poses(model, positions, [None] * model.n_links)


def with_link_quaternions(model: Model, quaternions: Array) -> Model:
    """Model with other orientations of links in their parents, quaternions of any norm."""
    rotations = [quaternion_to_matrix(x) for x in quaternions]
    return _with_link_poses(model, link_positions(model), rotations)


def _with_link_poses(model: Model, positions: Array, rotations: Sequence[Array | None]) -> Model:
    """Model with other poses of links with joints: their first moving frame moves with all that follows."""
    pos, rot = np.array(model.frames.pos), np.array(model.frames.rot)
    for link in np.flatnonzero(jointed_links(model)).tolist():
        old, first = _link_in_parent(model, link), _frames_of_link(model, link)[0]
        rotation = rotations[link]
        new = _transform(old[:3, :3] if rotation is None else rotation, positions[link])
        parent = _link_in_frame(model, int(model.links.parent_idx[link]))
        chain = (new, _inverse(old), _inverse(parent), _frame_transform(model, first))
        moved = reduce(product, chain, parent)
        pos[first], rot[first] = moved[:3, 3], moved[:3, :3]
    return model.with_columns("frames", pos=pos, rot=rot)


# ------------------------------------------------------------------------------------------------------------- joints


def _joint_frame(model: Model, joint: int) -> int:
    """The only moving frame of a joint; -1 if it has none or several."""
    dofs = range(model.joints.dof_start[joint], model.joints.dof_end[joint])
    frames = {int(model.dofs.frame_idx[dof]) for dof in dofs}
    return frames.pop() if len(frames) == 1 else WORLD


def _joints_of_types(model: Model, *types: PrimitiveJointType) -> Mask:
    frames = [_joint_frame(model, i) for i in range(len(model.joints.names))]
    return np.array([x != WORLD and int(model.frames.joint_type[x]) in types for x in frames], np.bool_)


def joints_with_anchor(model: Model) -> Mask:
    """Hinges, screws and ball joints."""
    return _joints_of_types(model, PrimitiveJointType.HINGE, PrimitiveJointType.SCREW, PrimitiveJointType.BALL)


def joints_with_axis(model: Model) -> Mask:
    """Hinges, slides and screws."""
    return _joints_of_types(model, PrimitiveJointType.HINGE, PrimitiveJointType.SLIDE, PrimitiveJointType.SCREW)


def _joint_in_link(model: Model, joint: int) -> Array:
    """Pose of the moving frame of a joint in the link that it moves."""
    link, frame, result = int(model.joints.link_idx[joint]), _joint_frame(model, joint), np.eye(4)
    if frame == WORLD:
        return result
    frames = _frames_of_link(model, link)
    for other in frames[frames.index(frame) + 1 :]:
        result = product(result, _frame_transform(model, other))
    return _inverse(product(result, _link_in_frame(model, link)))


def joint_positions(model: Model) -> Array:
    """Anchors of all joints in the link that they move [m], (n_joints, 3); zero for joints of several frames."""
    return np.array([_joint_in_link(model, i)[:3, 3] for i in range(len(model.joints.names))]).reshape(-1, 3)


def joint_axes(model: Model) -> Array:
    """Unit axes of all joints in the link that they move, (n_joints, 3); zero for those without an axis."""
    result = np.zeros((len(model.joints.names), 3))
    for i in np.flatnonzero(joints_with_axis(model)).tolist():
        result[i] = product(_joint_in_link(model, i)[:3, :3], model.frames.axis[_joint_frame(model, i)])
    return result


def with_joint_positions(model: Model, positions: Array) -> Model:
    """Model with other anchors of joints, and all links, geoms and so on where they are."""
    moved = model
    for i in np.flatnonzero(joints_with_anchor(model)).tolist():
        offset = product(_inverse(_joint_in_link(moved, i)), np.array([*positions[i], 1.0]))
        if offset[:3].any():
            moved = _with_moved_frame(moved, _joint_frame(model, i), _transform(np.eye(3), offset[:3]))
    return moved


def with_joint_axes(model: Model, axes: Array) -> Model:
    """Model with other axes of joints, of any length, and all links, geoms and so on where they are."""
    moved = model
    for i in np.flatnonzero(joints_with_axis(model)).tolist():
        frame = _joint_frame(model, i)
        axis = product(_joint_in_link(moved, i)[:3, :3].T, axes[i] / reproducible_norm(axes[i]))
        rotation = _rotation_between(model.frames.axis[frame], axis)
        if (rotation != np.eye(3)).any():
            moved = _with_moved_frame(moved, frame, _transform(rotation, np.zeros(3)))
    return moved


def _rotation_between(a: Array, b: Array) -> Array:
    """Rotation by the smallest angle that maps a unit vector a to b, by Rodrigues' formula."""
    x, y, z = np.cross(a, b)
    cosine, matrix = float((a * b).sum()), np.array([[0.0, -z, y], [z, 0.0, -x], [-y, x, 0.0]])
    if cosine < -1.0 + 1e-12:  # any axis perpendicular to a
        other = np.cross(a, np.eye(3)[int(np.argmin(np.abs(a)))])
        other /= reproducible_norm(other)
        return np.asarray(2.0 * np.outer(other, other) - np.eye(3), np.float64)
    return np.eye(3) + matrix + product(matrix, matrix) / (1.0 + cosine)


def _with_moved_frame(model: Model, frame: int, move: Array) -> Model:
    """Model with a moving frame at another pose, `move` in its own axes, and all that it carries at the same place."""
    moved, inverse = product(_frame_transform(model, frame), move), _inverse(move)
    pos, rot = np.array(model.frames.pos), np.array(model.frames.rot)
    pos[frame], rot[frame] = moved[:3, 3], moved[:3, :3]
    children = model.frames.parent_idx == frame
    pos[children], rot[children] = _carried(inverse, pos[children], rot[children])
    tables: dict[str, Any] = {"frames": replace(model.frames, pos=pos, rot=rot)}
    for name in ("links", "geoms", "path_segments", "fluid"):
        tables[name] = _with_carried(getattr(model, name), "frame_idx", "pos", "rot", frame, inverse)
    for side in "ab":
        equalities = tables.get("equalities", model.equalities)
        columns = f"frame_{side}", f"pos_{side}", f"rot_{side}"
        tables["equalities"] = _with_carried(equalities, *columns, frame, inverse)
    sensors = {
        name: _with_carried(getattr(model.sensors, name), "frame_idx", "pos", "rot", frame, inverse)
        for name in ("outputs", "ray_geoms", "distance_geoms")
    }
    tables["sensors"] = replace(model.sensors, **sensors)
    tables["suction_cups"] = _with_carried_axes(model.suction_cups, frame, inverse)
    tables["actuators"] = _with_moved_wrenches(model.actuators, frame, inverse)
    return model.with_tables(**tables)


def _carried(inverse: Array, pos: Array, rot: Array) -> tuple[Array, Array]:
    """Poses (..., 3), (..., 3, 3) in a frame that has moved, by the inverse of its motion."""
    return product(pos, inverse[:3, :3].T) + inverse[:3, 3], product(inverse[:3, :3], rot)


def _with_carried(table: Any, index: str, pos_name: str, rot_name: str, frame: int, inverse: Array) -> Any:
    """Table with the poses of the elements on a frame that has moved."""
    on_frame = getattr(table, index) == frame
    if not on_frame.any():
        return table
    pos, rot = np.array(getattr(table, pos_name)), np.array(getattr(table, rot_name))
    pos[on_frame], rot[on_frame] = _carried(inverse, pos[on_frame], rot[on_frame])
    return replace(table, **{pos_name: pos, rot_name: rot})


def _with_carried_axes(cups: Any, frame: int, inverse: Array) -> Any:
    """Suction cups with the positions and axes of those on a frame that has moved."""
    on_frame = cups.frame_idx == frame
    pos, axis = np.array(cups.pos), np.array(cups.axis)
    pos[on_frame] = product(pos[on_frame], inverse[:3, :3].T) + inverse[:3, 3]
    axis[on_frame] = product(axis[on_frame], inverse[:3, :3].T)
    return replace(cups, pos=pos, axis=axis)


def _with_moved_wrenches(actuators: Any, frame: int, inverse: Array) -> Any:
    """Actuators with the wrenches of those that act on a frame that has moved, about its origin."""
    on_frame = actuators.frame_idx == frame
    force, torque = np.array(actuators.frame_force), np.array(actuators.frame_torque)
    force[on_frame] = product(force[on_frame], inverse[:3, :3].T)
    torque[on_frame] = product(torque[on_frame], inverse[:3, :3].T) + np.cross(inverse[:3, 3], force[on_frame])
    return replace(actuators, frame_force=force, frame_torque=torque)


# -------------------------------------------------------------------------------------------------------------- geoms


def _geom_in_link(model: Model, geom: int) -> Array:
    frame = _link_in_frame(model, int(model.geoms.link_idx[geom]))
    return product(_inverse(frame), _transform(model.geoms.rot[geom], model.geoms.pos[geom]))


def geom_positions(model: Model) -> Array:
    """Positions of all collision geoms in their links, or in the world [m], (n_geoms, 3)."""
    return np.array([_geom_in_link(model, i)[:3, 3] for i in range(len(model.geoms.names))]).reshape(-1, 3)


def geom_quaternions(model: Model) -> Array:
    """Orientations of all collision geoms in their links, or in the world, (w, x, y, z), (n_geoms, 4)."""
    found = [matrix_to_quaternion(_geom_in_link(model, i)[:3, :3]) for i in range(len(model.geoms.names))]
    return np.array(found).reshape(-1, 4)


def with_geom_positions(model: Model, positions: Array) -> Model:
    """Model with other positions of collision geoms in their links."""
    links = [_link_in_frame(model, link) for link in model.geoms.link_idx.tolist()]
    pos = [product(link, np.array([*x, 1.0]))[:3] for link, x in zip(links, positions, strict=True)]
    return model.with_columns("geoms", pos=np.array(pos).reshape(-1, 3))


def with_geom_quaternions(model: Model, quaternions: Array) -> Model:
    """Model with other orientations of collision geoms in their links, quaternions of any norm."""
    links = [_link_in_frame(model, link) for link in model.geoms.link_idx.tolist()]
    rot = [product(link[:3, :3], quaternion_to_matrix(x)) for link, x in zip(links, quaternions, strict=True)]
    return model.with_columns("geoms", rot=np.array(rot).reshape(-1, 3, 3))
