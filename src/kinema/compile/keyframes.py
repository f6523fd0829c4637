"""Keyframes: states that files name, as rows of coordinates, velocities, controls and activations of the scene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np

from kinema.description import SCOPE, JointKind, Keyframe, Robot, World, coordinates
from kinema.foundation import Array, Pose
from kinema.model import ActuatorsInfo, KeyframesInfo
from kinema.words import mjcf

from .draft import Draft, DraftJoint


def pack_keyframes(draft: Draft, start: Array, actuators: ActuatorsInfo, owners: list[int]) -> KeyframesInfo:
    """One row for each keyframe of each part, in the order of the files.

    Args:
        draft: the scene.
        start: the coordinates that it starts from.
        actuators: those that are simulated.
        owners: the entity of each of them.
    """
    rows = [
        _row(draft, entity, keyframe, start, actuators, owners)
        for entity, part in enumerate(draft.parts)
        for keyframe in _keyframes(part.description)
    ]
    n = len(rows)
    return KeyframesInfo(
        names=[r.name for r in rows],
        entity_idx=np.array([r.entity for r in rows], dtype=np.int32),
        qpos=np.array([r.qpos for r in rows]).reshape(n, draft.n_qs),
        qvel=np.array([r.qvel for r in rows]).reshape(n, draft.n_dofs),
        ctrl=np.array([r.ctrl for r in rows]).reshape(n, len(actuators.names)),
        act=np.array([r.act for r in rows]).reshape(n, len(actuators.names)),
        left_out=[", ".join(r.left_out) for r in rows],
    )


def _keyframes(description: Robot | World) -> Iterator[Keyframe]:
    yield from description.keyframes
    if isinstance(description, World):
        for robot in description.robots:
            yield from robot.keyframes


class _Row:
    def __init__(self, name: str, entity: int, qpos: Array, n_dofs: int, n_actuators: int) -> None:
        self.name = name
        self.entity = entity
        self.qpos = qpos.copy()
        self.qvel = np.zeros(n_dofs)
        self.ctrl = np.zeros(n_actuators)
        self.act = np.zeros(n_actuators)
        self.left_out: list[str] = []


def _row(
    draft: Draft, entity: int, keyframe: Keyframe, start: Array, actuators: ActuatorsInfo, owners: list[int]
) -> _Row:
    row = _Row(keyframe.name, entity, start, draft.n_dofs, len(actuators.names))
    own = [j for j in draft.joints if j.entity == entity]
    for robot in {id(j.robot): j.robot for j in own}.values():
        given = _of_robot(robot, keyframe.positions, {j.name: j.n_qs for j in robot.joints})
        speeds = _of_robot(robot, keyframe.velocities, {j.name: j.n_dofs for j in robot.joints})
        positions = coordinates(robot.joints, given)
        for joint in (j for j in own if j.robot is robot):
            if joint.name in positions:  # else it was made up to let the base move, and stays where it starts
                _place(row, joint, positions[joint.name], speeds.get(joint.name))
    numbers = {actuators.names[i]: i for i, owner in enumerate(owners) if owner == entity}
    for name, value in keyframe.controls.items():
        if name in numbers:
            row.ctrl[numbers[name]] = value
    several: dict[str, tuple[float, ...]] = keyframe.attributes.get(mjcf.key(mjcf.CONTROLS), {})
    unknown = [name for name, value in keyframe.controls.items() if name not in numbers and value]
    unknown += [
        name for name, values in several.items() if not _spread(row.ctrl, name, values, numbers) and any(values)
    ]
    if unknown:
        row.left_out.append("controls of actuators that are not simulated")
    if _activate(row, keyframe, {name: i for name, i in numbers.items() if actuators.dynamics[i] != "none"}):
        row.left_out.append("activations of actuators that are not simulated (act)")
    if keyframe.attributes.get(mjcf.key(mjcf.PLASTIC)):
        row.left_out.append("where springs rest that have given way (plastic)")
    if keyframe.kinematic_poses:
        row.left_out.append("poses of bodies that the user moves (mocap)")
    return row


def _activate(row: _Row, keyframe: Keyframe, numbers: Mapping[str, int]) -> bool:
    """Take the activations of actuators that have one; whether any others are left out."""
    left_out = False
    for name, values in keyframe.activations.items():
        if name in numbers:
            row.act[numbers[name]] = np.atleast_1d(values)[-1]  # the last is what pulls
        elif not _spread(row.act, name, np.atleast_1d(values).tolist(), numbers):
            left_out = left_out or bool(np.any(values))
    return left_out


def _spread(to: Array, name: str, values: Sequence[float], numbers: Mapping[str, int]) -> bool:
    """Give an orientation servo, whose rows are called after its axes, its numbers; whether there is such a one."""
    rows = [numbers.get(f"{name} {axis}", -1) for axis in "wxyz"[-len(values) :]]
    if len(values) < len("xyz") or min(rows) < 0:
        return False
    to[rows] = values
    return True


def _of_robot(robot: Robot, values: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """What a keyframe says of one robot's joints, which may be called by their scoped names."""
    named = {name.removeprefix(f"{robot.name}{SCOPE}"): np.atleast_1d(value) for name, value in values.items()}
    return {name: value for name, value in named.items() if value.shape == (sizes.get(name, -1),)}


def _place(row: _Row, joint: DraftJoint, q: Array, v: Array | None) -> None:
    q, v = q.copy(), np.zeros(joint.joint.n_dofs) if v is None else v.copy()
    if joint.joint.kind in (JointKind.FREE, JointKind.SPHERICAL):
        length = float(np.linalg.norm(q[-4:]))
        q[-4:] = q[-4:] / length if length > 0 else (1.0, 0.0, 0.0, 0.0)
    if joint.base is not None:
        pose = joint.base @ Pose.from_quaternion(q[:3], q[3:])
        q = np.concatenate([pose.position, pose.quaternion])
        v[:3] = joint.base.rotation @ v[:3]
    row.qpos[joint.q_start : joint.q_start + joint.joint.n_qs] = q
    row.qvel[joint.dof_start : joint.dof_start + joint.joint.n_dofs] = v
