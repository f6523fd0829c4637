"""Kinematic bodies: bodies that the user moves, whose velocity contacts see (MJCF mocap, USD kinematicEnabled).

The engine moves a kinematic body at a constant velocity until it is at its target pose (`KINEMATIC_ARRAYS`).
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import (
    KinemaError,
    conjugate_quaternions,
    matrix_to_quaternion,
    multiply_quaternions,
    rotation_vectors_from_quaternions,
)
from kinema.model import PrimitiveJointType

from .arguments import IndexArray, Selection, nonnegative_float
from .arrays import component_rows
from .entity_index import EntityIndex
from .sleep import wake_all

POSITION, QUATERNION = slice(0, 3), slice(3, 7)
"""Components of a pose."""


def kinematic_body(index: EntityIndex, link: str | int | None, label: str) -> int | None:
    """Index of the kinematic body in the scene that a link of an entity is, None if it is none; None: the base link."""
    model = index.built.model
    row = index.info.link_start + (index.base_link if link is None else int(index.links(link, label)[0]))
    frame = int(model.links.frame_idx[row])
    is_own = frame >= 0 and model.frames.joint_type[frame] == PrimitiveJointType.KINEMATIC
    return model.kinematic_frames.index(frame) if is_own and model.links.parent_idx[row] < 0 else None


def set_target_pose(
    index: EntityIndex, pos: Any, quat: Any, duration: float, link: str | int | None, envs_idx: Selection
) -> None:
    """Move a kinematic body to a pose at constant linear and angular velocity; arguments as `Entity.set_target_pose`.

    The motion takes a whole number of steps, at least one.
    """
    label, built = "set_target_pose", index.built
    body = kinematic_body(index, link, label)
    if body is None:
        name = index.model.links.names[index.base_link] if link is None else link
        raise KinemaError(
            f'{label}: link "{name}" of "{index.name}" is not kinematic: use scene.add(..., kinematic=True), mocap in '
            "MJCF or kinematicEnabled in USD"
        )
    engine, rows = built.engine, np.array([body], np.intp)
    n_steps = max(1.0, float(round(nonnegative_float(duration, f"{label}: duration") / engine.dt)))
    target, envs = _target_pose(index, body, pos, quat, envs_idx, label)
    present = built.arrays.read("kinematic_pose", component_rows(rows, 7), envs).astype(np.float64)
    turn = multiply_quaternions(target[:, QUATERNION], conjugate_quaternions(present[:, QUATERNION]))
    velocity = np.concatenate(
        [target[:, POSITION] - present[:, POSITION], rotation_vectors_from_quaternions(turn)], axis=1
    ) / (n_steps * engine.dt)
    built.arrays.write("kinematic_target", component_rows(rows, 7), target, envs)
    built.arrays.write("kinematic_velocity", component_rows(rows, 6), velocity, envs)
    built.arrays.write("kinematic_steps", rows, np.full((1, 1), n_steps), envs)


def _target_pose(
    index: EntityIndex, body: int, pos: Any, quat: Any, envs_idx: Selection, label: str
) -> tuple[np.ndarray, IndexArray | None]:
    """Target poses (environments, 7) with normalised quaternions, and the environments; None keeps a present value."""
    arrays, outputs = index.built.arrays, index.built.outputs
    values = [x.cpu().numpy() if outputs.is_gpu_tensor(x) else x for x in (pos, quat)]
    batches = [
        (part, *arrays.to_finite_batch(x, (part.stop - part.start,), envs_idx, label))
        for part, x in zip((POSITION, QUATERNION), values, strict=True)
        if x is not None
    ]
    if not batches:
        raise KinemaError(f"{label}: expected a position, an orientation or both")
    envs = batches[0][2]
    target = arrays.read("kinematic_pose", component_rows(np.array([body], np.intp), 7), envs).astype(np.float64)
    for part, batch, _ in batches:
        target[:, part] = batch
    lengths = np.linalg.norm(target[:, QUATERNION], axis=1, keepdims=True)
    if (lengths == 0.0).any():
        raise KinemaError(f"{label}: a quaternion has the length 0")
    target[:, QUATERNION] /= lengths
    return target, envs


def set_kinematic_pose(
    index: EntityIndex, body: int, values: Any, components: slice, envs_idx: Selection, *, relative: bool, label: str
) -> None:
    """Place a kinematic body at a position (n_envs, 3) or orientation (n_envs, 4) at once and at rest.

    With `relative` the values are relative to the initial pose.
    """
    built, rows = index.built, np.array([body], np.intp)
    pos, quat = (values, None) if components == POSITION else (None, values)
    pose, envs = _target_pose(index, body, pos, quat, envs_idx, label)
    if relative:
        initial = built.model.frames.pos[built.model.kinematic_frames[body]]
        if components == POSITION:
            pose[:, POSITION] += initial
        else:
            rotation = built.model.frames.rot[built.model.kinematic_frames[body]]
            pose[:, QUATERNION] = multiply_quaternions(pose[:, QUATERNION], matrix_to_quaternion(rotation))
    for name, width, new in (
        ("kinematic_pose", 7, pose),
        ("kinematic_target", 7, pose),
        ("kinematic_velocity", 6, np.zeros((1, 6))),
        ("kinematic_steps", 1, np.zeros((1, 1))),
    ):
        built.arrays.write(name, component_rows(rows, width), new, envs)
    wake_all(built.arrays, envs)
