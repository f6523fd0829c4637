"""Kinematic bodies, moved by the user; their velocity enters contacts (MJCF mocap, USD kinematicEnabled).

The engine moves a kinematic body at a constant velocity until it is at its target pose (`KINEMATIC_ARRAYS`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from kinema.core import (
    KinemaError,
    Pose,
    conjugate_quaternions,
    matrix_to_quaternion,
    multiply_quaternions,
    rotation_vectors_from_quaternions,
)
from kinema.model import Model, PrimitiveJointType
from kinema.tokens import usd

from .arguments import IndexArray, Selection, nonnegative_float
from .arrays import component_rows
from .built_scene import BuiltScene, KinematicMotion
from .entity_index import EntityIndex
from .sleep import wake_all

POSITION, QUATERNION = slice(0, 3), slice(3, 7)
"""Components of a pose."""


def kinematic_body(index: EntityIndex, link: Any, label: str) -> int | None:
    """Index of the kinematic body in the scene that a link of an entity is, None if it is none; None: the base link."""
    local = index.link(link, label)
    return _body_of_link(index.built.model, index.info.link_start + local)


def _body_of_link(model: Model, row: int) -> int | None:
    """Index of the kinematic body that a link of the scene is; None if it is none."""
    frame = int(model.links.frame_idx[row])
    is_own = frame >= 0 and model.frames.joint_type[frame] == PrimitiveJointType.KINEMATIC
    return model.kinematic_frames.index(frame) if is_own and model.links.parent_idx[row] < 0 else None


def set_target_pose(index: EntityIndex, pos: Any, quat: Any, duration: float, link: Any, envs_idx: Selection) -> None:
    """Move a kinematic body to a pose at constant linear and angular velocity; arguments as `Entity.set_target_pose`.

    The motion takes a whole number of steps, at least one.
    """
    label, built = "set_target_pose", index.built
    body = kinematic_body(index, link, label)
    if body is None:
        name = index.model.links.names[index.link(link, label)]
        raise KinemaError(
            f'{label}: link "{name}" of "{index.name}" is not kinematic: use scene.add(..., kinematic=True), mocap in '
            "MJCF or kinematicEnabled in USD"
        )
    n_steps = max(1, round(nonnegative_float(duration, f"{label}: duration") / built.engine.dt))
    target, envs = _target_pose(index, body, pos, quat, envs_idx, label)
    stop_motion(built, body)
    _move_body(built, body, target, n_steps, envs)


def _move_body(built: BuiltScene, body: int, target: np.ndarray, n_steps: int, envs: IndexArray | None) -> None:
    """Set velocity and target poses (environments or 1, 7) of a kinematic body for a number of engine steps."""
    rows = np.array([body], np.intp)
    present = built.arrays.read("kinematic_pose", component_rows(rows, 7), envs).astype(np.float64)
    turn = multiply_quaternions(target[:, QUATERNION], conjugate_quaternions(present[:, QUATERNION]))
    velocity = np.concatenate(
        [target[:, POSITION] - present[:, POSITION], rotation_vectors_from_quaternions(turn)], axis=1
    ) / (n_steps * built.engine.dt)
    built.arrays.write("kinematic_target", component_rows(rows, 7), target, envs)
    built.arrays.write("kinematic_velocity", component_rows(rows, 6), velocity, envs)
    built.arrays.write("kinematic_steps", rows, np.full((1, 1), float(n_steps)), envs)


def _target_pose(
    index: EntityIndex, body: int, pos: Any, quat: Any, envs_idx: Selection, label: str
) -> tuple[np.ndarray, IndexArray | None]:
    """Target poses (environments, 7) with normalised quaternions, and the environments; None for the current value."""
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
    stop_motion(built, body)
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


# --------------------------------------------------------------------------------------------- motions given by files


def find_motions(built: BuiltScene, indices: Sequence[EntityIndex]) -> list[KinematicMotion]:
    """Motions of all kinematic bodies that have time samples in their file, beginning at their initial pose."""
    model, motions = built.model, list[KinematicMotion]()
    for index in indices:
        for i, link in enumerate(index.description.links):
            rows, body = link.attributes.get(usd.MOTION), _body_of_link(model, index.info.link_start + i)
            if rows and body is not None:
                frame = model.kinematic_frames[body]
                start, table = Pose(model.frames.pos[frame], model.frames.rot[frame]), np.array(rows, np.float64)
                poses = [start @ Pose.from_quaternion(row[1:4], row[4:]) for row in table]
                values = np.array([[*pose.position, *pose.quaternion] for pose in poses])
                motions.append(KinematicMotion(body, table[:, 0], values))
    return motions


def stop_motion(built: BuiltScene, body: int) -> None:
    """End the motion of a kinematic body that its file gives."""
    built.motions = [motion for motion in built.motions if motion.body != body]


def motion_segments(built: BuiltScene, n_steps: int) -> Iterator[int]:
    """Numbers of engine steps up to the next pose of any motion given by a file, `n_steps` in total.

    Before each, the bodies are given their next pose as target, so that they pass every pose at its time.
    """
    if not built.motions:
        yield n_steps
        return
    dt = built.engine.dt
    first, end = round(built.engine.sim_time / dt), round(built.engine.sim_time / dt) + n_steps
    while first < end:
        last = end
        for motion in built.motions:
            steps = np.round(motion.times / dt).astype(np.intp)
            following = np.flatnonzero(steps > first)
            if len(following):
                _move_body(built, motion.body, motion.poses[following[:1]], int(steps[following[0]]) - first, None)
                last = min(last, int(steps[following[0]]))
        yield last - first
        first = last
