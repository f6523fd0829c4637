"""Table of keyframes: named states of the files as rows of qpos, qvel, ctrl and act of the scene."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from kinema.core import Array, Pose, reproducible_norm, reproducible_product
from kinema.description import SCOPE, JointKind, Keyframe, Robot, World, joint_coordinates
from kinema.model import SERVO_STATES, ActuatorsInfo, KeyframesInfo
from kinema.tokens import mjcf

from .context import BuildContext, JointRecord
from .servo_parameters import SERVO_KINDS


def pack_keyframes(
    ctx: BuildContext, initial_q: Array, actuators: ActuatorsInfo, actuator_entities: list[int]
) -> KeyframesInfo:
    """Table of keyframes: one row of qpos, qvel, ctrl and act of the whole scene per keyframe of each entity.

    Coordinates of other entities have their initial values.

    Args:
        ctx: the build context, with numbered joints.
        initial_q: initial coordinates of the scene, (n_qs,).
        actuators: the table of simulated actuators.
        actuator_entities: entity index of each row of that table.
    """
    rows = [
        _keyframe_row(ctx, entity, keyframe, initial_q, actuators, actuator_entities)
        for entity, spec in enumerate(ctx.entities)
        for keyframe in _all_keyframes(spec.description)
    ]
    n = len(rows)
    return KeyframesInfo(
        names=[row.name for row in rows],
        entity_idx=np.array([row.entity for row in rows], dtype=np.int32),
        qpos=np.array([row.qpos for row in rows]).reshape(n, ctx.n_qs),
        qvel=np.array([row.qvel for row in rows]).reshape(n, ctx.n_dofs),
        ctrl=np.array([row.ctrl for row in rows]).reshape(n, len(actuators.names)),
        act=np.array([row.act for row in rows]).reshape(n, len(actuators.names)),
        servo_state=np.array([row.servo_state for row in rows]).reshape(n, len(actuators.names), len(SERVO_STATES)),
        kinematic_pose=np.array([row.kinematic_pose for row in rows]).reshape(n, len(kinematic_poses(ctx)), 7),
        unsupported=[", ".join(row.unsupported) for row in rows],
    )


def _all_keyframes(description: Robot | World) -> Iterator[Keyframe]:
    yield from description.keyframes
    if isinstance(description, World):
        for robot in description.robots:
            yield from robot.keyframes


class _KeyframeRow:
    """One row of the table of keyframes, and the parts of the keyframe that are not supported."""

    def __init__(self, name: str, entity: int, qpos: Array, n_dofs: int, n_actuators: int) -> None:
        """Row at given coordinates, with zero velocities, controls and activations."""
        self.name = name
        self.entity = entity
        self.qpos = qpos.copy()
        self.qvel = np.zeros(n_dofs)
        self.ctrl = np.zeros(n_actuators)
        self.act = np.zeros(n_actuators)
        self.servo_state = np.zeros((n_actuators, len(SERVO_STATES)))
        self.kinematic_pose = np.zeros((0, 7))
        self.unsupported: list[str] = []


def _keyframe_row(
    ctx: BuildContext,
    entity: int,
    keyframe: Keyframe,
    initial_q: Array,
    actuators: ActuatorsInfo,
    actuator_entities: list[int],
) -> _KeyframeRow:
    """State of the whole scene (qpos, qvel, ctrl, act) at a keyframe of one entity; other entities keep initial values.

    Values that cannot be applied (controls or activations of actuators that are not simulated, plastic springs, poses
    of kinematic links on moving ones) are listed in `unsupported` of the row.
    """
    row = _KeyframeRow(keyframe.name, entity, initial_q, ctx.n_dofs, len(actuators.names))
    entity_joints = [record for record in ctx.joints if record.entity == entity]
    for robot in {id(record.robot): record.robot for record in entity_joints}.values():
        file_positions = _joint_values_of_robot(
            robot, keyframe.positions, {record.name: record.n_qs for record in robot.joints}
        )
        velocities = _joint_values_of_robot(
            robot, keyframe.velocities, {record.name: record.n_dofs for record in robot.joints}
        )
        positions = joint_coordinates(robot.joints, file_positions)
        for joint in (record for record in entity_joints if record.robot is robot):
            if joint.name in positions:  # else a generated free joint of the base, which keeps its initial coordinates
                _set_joint_state(row, joint, positions[joint.name], velocities.get(joint.name))
    actuator_idx = {
        actuators.names[i]: i for i, actuator_entity in enumerate(actuator_entities) if actuator_entity == entity
    }
    for name, value in keyframe.controls.items():
        if name in actuator_idx:
            row.ctrl[actuator_idx[name]] = value
    servo_idx = _servo_rows(actuators, actuator_idx)
    vector_controls: dict[str, tuple[float, ...]] = keyframe.attributes.get(mjcf.attribute_key(mjcf.CONTROLS), {})
    unknown = [name for name, value in keyframe.controls.items() if name not in actuator_idx and value]
    unknown += [
        name
        for name, values in vector_controls.items()
        if not _set_servo_controls(row.ctrl, name, values, servo_idx)
        and not _set_orientation_servo(row.ctrl, name, values, actuator_idx)
        and any(values)
    ]
    if unknown:
        row.unsupported.append("controls of actuators that are not simulated")
    states_set = _set_servo_states(row, keyframe, actuators, servo_idx)
    activations = {name: values for name, values in keyframe.activations.items() if name not in states_set}
    if _set_activations(
        row, activations, {name: i for name, i in actuator_idx.items() if actuators.dynamics[i] != "none"}
    ):
        row.unsupported.append("activations of actuators that are not simulated (act)")
    if keyframe.attributes.get(mjcf.attribute_key(mjcf.PLASTIC)):
        row.unsupported.append("rest lengths of yielded springs (plastic)")
    if not _set_kinematic_poses(ctx, entity, keyframe, row):
        row.unsupported.append("poses of kinematic links on moving ones")
    return row


def kinematic_poses(ctx: BuildContext) -> Array:
    """Initial positions and quaternions of all kinematic bodies in the world, (n_bodies, 7)."""
    poses = [placed.pose for _, placed, joint_idx in ctx.frames if joint_idx < 0]
    return np.array([[*pose.position, *pose.quaternion] for pose in poses]).reshape(-1, 7)


def _set_kinematic_poses(ctx: BuildContext, entity: int, keyframe: Keyframe, row: _KeyframeRow) -> bool:
    """Write the poses of kinematic bodies to a keyframe row; False if some links are not bodies of their own.

    Poses in the world of the file are moved with the base of the entity.
    """
    row.kinematic_pose = kinematic_poses(ctx)
    bodies = [i for i, (_, _, joint_idx) in enumerate(ctx.frames) if joint_idx < 0]
    placed = {link.name: link for link in ctx.links if link.entity == entity and link.frame_idx in bodies}
    for name, pose in keyframe.kinematic_poses.items():
        if name in placed and placed[name].parent is None:
            link = placed[name]
            body = bodies.index(link.frame_idx)
            start = Pose.from_quaternion(row.kinematic_pose[body, :3], row.kinematic_pose[body, 3:])
            in_file = link.robot.link_poses(joint_coordinates(link.robot.joints, {}))[link.description.name]
            moved = start @ in_file.inverse() @ pose
            row.kinematic_pose[body] = [*moved.position, *moved.quaternion]
    return not ctx.has_kinematic_bodies or placed.keys() >= keyframe.kinematic_poses.keys()


def _servo_rows(actuators: ActuatorsInfo, actuator_idx: Mapping[str, int]) -> dict[str, list[int]]:
    """Rows of the controls of each PID controller and DC motor of an entity, by the name of the actuator."""
    rows = {}
    for name, i in actuator_idx.items():
        if actuators.kinds[i] in SERVO_KINDS:
            inputs = actuators.control_inputs[i]
            own_name = name.removesuffix(f" {inputs[0]}") if len(inputs) > 1 else name
            rows[own_name] = list(range(i, i + max(len(inputs), 1)))
    return rows


def _set_servo_controls(
    target: Array, name: str, values: Sequence[float], servo_idx: Mapping[str, Sequence[int]]
) -> bool:
    """Write the controls of a PID controller or DC motor to its rows of `target`; False if it has not as many."""
    rows = servo_idx.get(name, ())
    if len(rows) != len(values):
        return False
    target[list(rows)] = values
    return True


def _set_servo_states(
    row: _KeyframeRow, keyframe: Keyframe, actuators: ActuatorsInfo, servo_idx: Mapping[str, Sequence[int]]
) -> set[str]:
    """Write the states of PID controllers and DC motors to a keyframe row; returns the names of these actuators."""
    found = set()
    for name, rows in servo_idx.items():
        states, values = actuators.servo_states[rows[0]], np.atleast_1d(keyframe.activations.get(name, ()))
        if len(states) == len(values):
            row.servo_state[rows[0], [SERVO_STATES.index(state) for state in states]] = values
            found.add(name)
    return found


def _set_activations(row: _KeyframeRow, activations: Mapping[str, Any], actuator_idx: Mapping[str, int]) -> bool:
    """Write activations of a keyframe to `row.act`; True if nonzero activations of unknown actuators are dropped.

    Of several activations of one actuator the last one is used, as it determines the force.
    """
    dropped = False
    for name, values in activations.items():
        if name in actuator_idx:
            row.act[actuator_idx[name]] = np.atleast_1d(values)[-1]  # the last one determines the force
        elif not _set_orientation_servo(row.act, name, np.atleast_1d(values).tolist(), actuator_idx):
            dropped = dropped or bool(np.any(values))
    return dropped


def _set_orientation_servo(target: Array, name: str, values: Sequence[float], actuator_idx: Mapping[str, int]) -> bool:
    """Write the 3 or 4 values of an orientation servo to its rows `<name> [wxyz]` of `target`, in place.

    False if there is no orientation servo of that name with as many rows.
    """
    rows = [actuator_idx.get(f"{name} {axis}", -1) for axis in "wxyz"[-len(values) :]]
    if len(values) < len("xyz") or min(rows) < 0:
        return False
    target[rows] = values
    return True


def _joint_values_of_robot(robot: Robot, values: Mapping[str, Array], sizes: Mapping[str, int]) -> dict[str, Array]:
    """Values of a keyframe for the joints of one robot, by joint name without the scope of the robot.

    Values whose size differs from `sizes` are dropped.
    """
    by_name = {name.removeprefix(f"{robot.name}{SCOPE}"): np.atleast_1d(value) for name, value in values.items()}
    return {name: value for name, value in by_name.items() if value.shape == (sizes.get(name, -1),)}


def _set_joint_state(row: _KeyframeRow, joint: JointRecord, q: Array, v: Array | None) -> None:
    """Write coordinates and velocities of one joint to `qpos` and `qvel` of a keyframe row.

    Quaternions are normalised; coordinates of a free joint are transformed from the frame of the file to the world.
    """
    q, v = q.copy(), np.zeros(joint.description.n_dofs) if v is None else v.copy()
    if joint.description.kind in (JointKind.FREE, JointKind.SPHERICAL):
        length = reproducible_norm(q[-4:])
        q[-4:] = q[-4:] / length if length > 0 else (1.0, 0.0, 0.0, 0.0)
    if joint.file_frame is not None:
        pose = joint.file_frame @ Pose.from_quaternion(q[:3], q[3:])
        q = np.concatenate([pose.position, pose.quaternion])
        v[:3] = reproducible_product(joint.file_frame.rotation, v[:3])
    row.qpos[joint.q_start : joint.q_start + joint.description.n_qs] = q
    row.qvel[joint.dof_start : joint.dof_start + joint.description.n_dofs] = v
