"""State of an entity: generalized coordinates and velocities, base pose, actuator controls and activations.

Coordinates have the layout of MuJoCo's qpos: quaternions (w, x, y, z) of free and ball joints occupy four coordinates
but three dofs.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.core import (
    KinemaError,
    multiply_quaternions,
    quaternions_from_rotation_vectors,
    rotation_vectors_from_quaternions,
)
from kinema.model import SERVO_STATES, Model, PrimitiveJointType

from .arguments import IndexArray, Selection, boolean, resolve_envs
from .arrays import component_rows
from .entity_index import EntityIndex
from .kinematic_bodies import kinematic_body, set_kinematic_pose


class EntityState:
    """Reads and writes the coordinates, velocities, actuator controls and activations of an entity."""

    def __init__(self, index: EntityIndex) -> None:
        self._index = index

    def read(self, name: str, rows: slice | IndexArray, envs_idx: Selection) -> Any:
        """Rows of a state or control array for the selected environments, in the output type, (environments, rows)."""
        built = self._index.built
        if not built.outputs.returns_copies:
            built.engine.mark_modified()  # the caller may write to the returned memory
        return built.outputs.select(built.arrays.source(name), rows, built.outputs.resolve_envs(envs_idx))

    # -------------------------------------------------------------------------------- coordinates and velocities

    def qpos(self, envs_idx: Selection, qs_idx: Selection) -> Any:
        """Generalized coordinates, (n_envs, n)."""
        info = self._index.info
        if qs_idx is None:
            return self.read("qpos", slice(info.q_start, info.q_end), envs_idx)
        return self.read("qpos", info.q_start + self._index.coordinates(qs_idx, "get_qpos"), envs_idx)

    def set_qpos(
        self, qpos: Any, envs_idx: Selection, qs_idx: Selection, *, zero_velocity: bool, label: str = "set_qpos"
    ) -> None:
        """Set generalized coordinates with normalised quaternions, from host values or a CUDA tensor."""
        index, built = self._index, self._index.built
        coordinates = index.coordinates(qs_idx, label)
        quaternions = _quaternion_columns(index.model, coordinates, label)
        rows = index.info.q_start + coordinates
        if built.outputs.is_gpu_tensor(qpos):
            envs = built.outputs.resolve_envs(envs_idx)
            built.arrays.write_tensor("qpos", rows, _normalize_quaternions_torch(qpos, quaternions), envs)
        else:
            values, envs = built.arrays.to_finite_batch(qpos, (len(coordinates),), envs_idx, label)
            built.arrays.write("qpos", rows, _normalize_quaternions(values, quaternions, label), envs)
        self._zero_velocity_if(zero_velocity, envs_idx)

    def dof_positions(self, dofs_idx: Selection, envs_idx: Selection) -> Any:
        """Joint positions of dofs, (n_envs, n): coordinates, and rotation vectors of quaternions."""
        index, built = self._index, self._index.built
        dofs = index.dofs(dofs_idx, "get_dofs_position")
        coordinates = index.model.dofs.q_idx[dofs].astype(np.intp)
        if (coordinates >= 0).all():
            return self.read("qpos", index.info.q_start + coordinates, envs_idx)
        if not built.outputs.returns_copies:
            source = built.engine.fields.dofs_state.pos
            return built.outputs.select(source, index.info.dof_start + dofs, built.outputs.resolve_envs(envs_idx))
        return dof_positions(index.model, self.qpos(envs_idx, None))[:, dofs]

    def set_dof_positions(
        self, position: Any, dofs_idx: Selection, envs_idx: Selection, *, zero_velocity: bool
    ) -> None:
        """Set joint positions of dofs; quaternions are set from the rotation vector of their three dofs."""
        index, built, label = self._index, self._index.built, "set_dofs_position"
        dofs = index.dofs(dofs_idx, label)
        coordinates = index.model.dofs.q_idx[dofs].astype(np.intp)
        scalar, first = coordinates >= 0, index.info.q_start
        if built.outputs.is_gpu_tensor(position) and scalar.all():
            envs = built.outputs.resolve_envs(envs_idx)
            built.arrays.write_tensor("qpos", first + coordinates, position, envs)
        else:
            values, envs = built.arrays.to_finite_batch(position, (len(dofs),), envs_idx, label)
            built.arrays.write("qpos", first + coordinates[scalar], values[:, scalar], envs)
            for rows, columns in _ball_joint_columns(index.model, dofs, label):
                quaternions = quaternions_from_rotation_vectors(values[:, columns])
                built.arrays.write("qpos", first + rows, quaternions, envs)
        self._zero_velocity_if(zero_velocity, envs_idx)

    def set_velocity(self, velocity: Any, dofs_idx: Selection, envs_idx: Selection, label: str) -> None:
        """Set velocities of dofs, from host values or a CUDA tensor."""
        rows, built = self._index.dof_rows(dofs_idx, label), self._index.built
        if built.outputs.is_gpu_tensor(velocity):
            built.arrays.write_tensor("vel", rows, velocity, built.outputs.resolve_envs(envs_idx))
        else:
            built.arrays.write("vel", rows, *built.arrays.to_finite_batch(velocity, (len(rows),), envs_idx, label))

    def _zero_velocity_if(self, zero_velocity: bool, envs_idx: Selection) -> None:
        if boolean(zero_velocity, "zero_velocity"):
            self.set_velocity(0.0, None, envs_idx, "zero_all_dofs_velocity")

    def set_base_pose(
        self,
        pose_values: Any,
        components: slice,
        envs_idx: Selection,
        *,
        zero_velocity: bool,
        relative: bool,
        label: str,
    ) -> None:
        """Set position or orientation of the free joint of the base link, or of a kinematic base.

        Raises `KinemaError` for other bases.

        Args:
            pose_values: position (n_envs, 3) or quaternion (n_envs, 4).
            components: slice of the seven coordinates of the free joint to set.
            envs_idx: environments; None for all.
            zero_velocity: also set all velocities of the entity to zero.
            relative: interpret the values relative to the initial pose of the model.
            label: name of the calling method for error messages.
        """
        index, joints = self._index, self._index.model.joints
        base = index.base_link
        body = kinematic_body(index, None, label)
        if body is not None:
            is_relative = boolean(relative, "relative")
            set_kinematic_pose(index, body, pose_values, components, envs_idx, relative=is_relative, label=label)
            return
        joint = next((i for i, kind in enumerate(joints.kinds) if kind == "free" and joints.link_idx[i] == base), None)
        if joint is None:
            free = [name for name, kind in zip(index.joint_names, joints.kinds, strict=True) if kind == "free"]
            hint = f"; move others with set_qpos(..., qs_idx=entity.get_joint({free[0]!r}).qs_idx)" if free else ""
            name = f'the base of "{index.name}", link "{index.model.links.names[base]}",'
            raise KinemaError(f"{label}: {name} is fixed: only a floating base can be moved{hint}")
        coordinates = np.arange(*components.indices(7)) + int(joints.q_start[joint])
        if boolean(relative, "relative"):
            values, _ = index.built.arrays.to_finite_batch(pose_values, (len(coordinates),), envs_idx, label)
            initial = index.built.model.qpos0[index.info.q_start + coordinates]
            pose_values = initial + values if len(coordinates) == 3 else multiply_quaternions(values, initial)
        self.set_qpos(pose_values, envs_idx, coordinates, zero_velocity=zero_velocity, label=label)

    # ------------------------------------------------------------------------------------------- actuator states

    def activations(self, actuators_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """Activations of actuators, (n_envs, n); 0 for actuators without activation state."""
        rows, built = self._index.actuator_rows(actuators_idx, "get_activations"), self._index.built
        envs = resolve_envs(envs_idx, built.n_envs)
        if not built.model.actuators.has_activation.any():
            return np.zeros((built.n_envs if envs is None else len(envs), len(rows)), built.arrays.dtype)
        return built.arrays.read("act", rows, envs)

    def set_activations(self, activations: Any, actuators_idx: Selection, envs_idx: Selection) -> None:
        """Set activations of actuators; actuators without activation state are ignored."""
        index, label = self._index, "set_activations"
        actuators = index.actuators(actuators_idx, label)
        values, envs = index.built.arrays.to_finite_batch(activations, (len(actuators),), envs_idx, label)
        has_activation = index.model.actuators.has_activation[actuators]
        if has_activation.any():
            rows = index.info.actuator_start + actuators[has_activation]
            index.built.arrays.write("act", rows, values[:, has_activation], envs)

    def servo_states(self, actuators_idx: Selection, envs_idx: Selection) -> np.ndarray:
        """States of PID controllers and DC motors, (n_envs, n, 5); zeros for other actuators."""
        rows, built = self._index.actuator_rows(actuators_idx, "get_servo_states"), self._index.built
        envs, width = resolve_envs(envs_idx, built.n_envs), len(SERVO_STATES)
        n_envs = built.n_envs if envs is None else len(envs)
        if not any(built.model.actuators.servo_states):
            return np.zeros((n_envs, len(rows), width), built.arrays.dtype)
        return built.arrays.read("servo_state", component_rows(rows, width), envs).reshape(n_envs, len(rows), width)

    def set_servo_states(self, states: Any, actuators_idx: Selection, envs_idx: Selection) -> None:
        """Set the states of PID controllers and DC motors; states that an actuator lacks are ignored."""
        index, label, width = self._index, "set_servo_states", len(SERVO_STATES)
        actuators = index.actuators(actuators_idx, label)
        values, envs = index.built.arrays.to_finite_batch(states, (len(actuators), width), envs_idx, label)
        present = [index.model.actuators.servo_states[i] for i in actuators]
        mask = np.array([name in names for names in present for name in SERVO_STATES], np.bool_)
        if mask.any():
            rows = component_rows(index.info.actuator_start + actuators, width)[mask]
            index.built.arrays.write("servo_state", rows, values.reshape(len(values), -1)[:, mask], envs)


# ------------------------------------------------------------------------------- coordinates of ball joints


def _quaternion_columns(model: Model, q_indices: IndexArray, label: str) -> list[IndexArray]:
    """Columns of each quaternion among the selected coordinates: list of four positions in `q_indices` (w, x, y, z).

    Raises `KinemaError` if a quaternion is selected only in part.
    """
    frames, quaternions = model.frames, []
    for start in frames.q_start[frames.joint_type == PrimitiveJointType.BALL]:
        columns = np.flatnonzero((q_indices >= start) & (q_indices < start + 4))
        if len(columns) not in (0, 4):
            raise KinemaError(f"{label}: coordinates {start} to {start + 3} are a quaternion: set all four or none")
        if len(columns):
            quaternions.append(columns[np.argsort(q_indices[columns])])
    return quaternions


def _normalize_quaternions(qpos: np.ndarray, quaternion_columns: list[IndexArray], label: str) -> np.ndarray:
    """Copy of coordinates (environments, n) with normalised quaternion columns; length 0 raises `KinemaError`."""
    if not quaternion_columns:
        return qpos
    qpos = np.array(qpos)
    for columns in quaternion_columns:
        length = np.linalg.norm(qpos[:, columns].astype(np.float64), axis=1, keepdims=True)
        if (length == 0.0).any():
            raise KinemaError(f"{label}: coordinates {columns[0]} to {columns[-1]} are a quaternion of length 0")
        qpos[:, columns] = qpos[:, columns] / length
    return qpos


def _normalize_quaternions_torch(qpos: Any, quaternion_columns: list[IndexArray]) -> Any:
    """Coordinates tensor (environments, n) with the given quaternion columns normalised; not checked for length 0."""
    qpos = qpos.clone() if quaternion_columns else qpos
    for columns in quaternion_columns:
        quaternion = qpos[:, int(columns[0]) : int(columns[0]) + 4]
        qpos[:, int(columns[0]) : int(columns[0]) + 4] = quaternion / quaternion.norm(dim=1, keepdim=True)
    return qpos


def _ball_joint_columns(model: Model, dofs: IndexArray, label: str) -> list[tuple[IndexArray, IndexArray]]:
    """Ball joints among the selected dofs: list of (four quaternion coordinates, columns of the three dofs in `dofs`).

    Raises `KinemaError` if only some of the three dofs of a ball joint are selected.
    """
    frames, joints = model.frames, []
    for frame in np.flatnonzero(frames.joint_type == PrimitiveJointType.BALL):
        dof_start = int(frames.dof_start[frame])
        columns = np.flatnonzero((dofs >= dof_start) & (dofs < dof_start + 3))
        if len(columns) not in (0, 3):
            raise KinemaError(
                f'{label}: "{model.dofs.names[dof_start]}" is one of the three dofs of a ball joint: set all three'
            )
        if len(columns):
            joints.append((int(frames.q_start[frame]) + np.arange(4), columns[np.argsort(dofs[columns])]))
    return joints


@np.errstate(all="ignore")
def dof_positions(model: Model, qpos: np.ndarray) -> np.ndarray:
    """Joint positions (environments, n_dofs) from coordinates (environments, n_qs); quaternions as rotation vectors."""
    frames, dofs = model.frames, model.dofs
    result = np.zeros((len(qpos), model.n_dofs), qpos.dtype)
    scalar = dofs.q_idx >= 0
    result[:, scalar] = qpos[:, dofs.q_idx[scalar]]
    for frame in np.flatnonzero(frames.joint_type == PrimitiveJointType.BALL):
        q, dof = int(frames.q_start[frame]), int(frames.dof_start[frame])
        result[:, dof : dof + 3] = rotation_vectors_from_quaternions(qpos[:, q : q + 4])
    return result
