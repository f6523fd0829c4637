"""State of an entity: generalized coordinates and velocities, base pose, activations; forward and inverse kinematics.

Coordinates have the layout of MuJoCo's qpos: quaternions (w, x, y, z) of free and ball joints occupy four coordinates
but three dofs.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.core import (
    KinemaError,
    multiply_quaternions,
    quaternions_from_rotation_vectors,
    rotation_vectors_from_quaternions,
)
from kinema.model import Model, PrimitiveJointType
from kinema.runtime import find_device

from .arguments import IndexArray, as_batch, boolean, resolve_envs, resolve_indices
from .built_scene import BuiltScene
from .entity_parameters import EntityParametersMixin

if TYPE_CHECKING:
    from kinema.kinematics import BatchedKinematics, IKSolver

# ---------------------------------------------------------------------------------- coordinates and velocities


class EntityStateMixin(EntityParametersMixin):
    """Part of `Entity`: coordinates, velocities, base pose, actuator controls and activations."""

    joints: list[Any]

    @property
    def actuator_names(self) -> list[str]:
        """Names of the actuators, in the order of `control`."""
        return list(self._entity_model.actuators.names)

    # ---------------------------------------------------------------------------------------------- coordinates

    def get_qpos(self, envs_idx: Any = None, qs_idx: Any = None) -> Any:
        """Generalized coordinates [m, rad], quaternions (w, x, y, z), (n_envs, n_qs).

        Args:
            envs_idx: environments by index, slice or mask; None for all.
            qs_idx: coordinates by index, slice or mask; None for all.
        """
        rows = self.info.q_start + self._q_indices(qs_idx, "get_qpos") if qs_idx is not None else self._q_slice
        return self._read_state("qpos", rows, envs_idx)

    def get_qvel(self, envs_idx: Any = None) -> Any:
        """Generalized velocities [m/s, rad/s], (n_envs, n_dofs).

        Args:
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._read_state("vel", slice(self.info.dof_start, self.info.dof_end), envs_idx)

    def set_qpos(self, qpos: Any, envs_idx: Any = None, qs_idx: Any = None, *, zero_velocity: bool = False) -> None:
        """Set generalized coordinates; quaternions are normalised.

        NaN and infinity are accepted; the next step flags the environment as failed. A quaternion of length 0 raises
        `KinemaError`.

        Args:
            qpos: coordinates [m, rad], (n_envs, n), or (n,) for all environments.
            envs_idx: environments by index, slice or mask; None for all.
            qs_idx: coordinates by index; whole quaternions only. None for all.
            zero_velocity: also set all velocities of the entity to zero; default False.
        """
        coordinates = self._q_indices(qs_idx, "set_qpos")
        built, envs = self._built_scene, self._built_scene.outputs.resolve_envs(envs_idx)
        quaternions = _quaternion_columns(self._entity_model, coordinates)
        rows = self.info.q_start + coordinates
        if built.outputs.is_gpu_tensor(qpos):
            built.arrays.write_tensor("qpos", rows, _normalize_quaternions_torch(qpos, quaternions), envs)
        else:
            q, envs = self._to_batch(qpos, len(coordinates), envs_idx, "set_qpos")
            built.arrays.write("qpos", rows, _normalize_quaternions(q, quaternions), envs)
        if boolean(zero_velocity, "zero_velocity"):
            self.zero_all_dofs_velocity(envs_idx)

    def set_qvel(self, qvel: Any, envs_idx: Any = None) -> None:
        """Set all generalized velocities [m/s, rad/s].

        Args:
            qvel: velocities, (n_envs, n_dofs), or (n_dofs,) or a scalar for all environments.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_velocity(qvel, None, envs_idx, "set_qvel")

    def get_dofs_position(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Joint position of dofs [m, rad], (n_envs, n).

        For a ball or free joint the rotation vector of its quaternion [rad].

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        dofs = self._dof_indices(dofs_idx, "get_dofs_position")
        built, coordinates = self._built_scene, self._entity_model.dofs.q_idx[dofs].astype(np.intp)
        if (coordinates >= 0).all():
            return self._read_state("qpos", self.info.q_start + coordinates, envs_idx)
        if not built.outputs.returns_copies:
            source = built.engine.fields.dofs_state.pos
            return built.outputs.select(source, self.info.dof_start + dofs, built.outputs.resolve_envs(envs_idx))
        return dof_positions(self._entity_model, self.get_qpos(envs_idx))[:, dofs]

    def get_dofs_velocity(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Velocities of dofs [m/s, rad/s], (n_envs, n).

        Args:
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        return self._read_state("vel", self.info.dof_start + self._dof_indices(dofs_idx, "get_dofs_velocity"), envs_idx)

    def set_dofs_position(
        self, position: Any, dofs_idx: Any = None, envs_idx: Any = None, *, zero_velocity: bool = False
    ) -> None:
        """Set the joint positions of dofs at once (no control) [m, rad].

        The three dofs of a quaternion are set together, as a rotation vector [rad].

        Args:
            position: positions, (n_envs, n), or (n,) or a scalar for all environments.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
            zero_velocity: also set all velocities of the entity to zero; default False.
        """
        label = "set_dofs_position"
        dofs = self._dof_indices(dofs_idx, label)
        coordinates, built = self._entity_model.dofs.q_idx[dofs].astype(np.intp), self._built_scene
        scalar = coordinates >= 0
        if built.outputs.is_gpu_tensor(position) and scalar.all():
            envs = built.outputs.resolve_envs(envs_idx)
            built.arrays.write_tensor("qpos", self.info.q_start + coordinates, position, envs)
        else:
            values, envs = self._to_batch(position, len(dofs), envs_idx, label)
            built.arrays.write("qpos", self.info.q_start + coordinates[scalar], values[:, scalar], envs)
            for rows, columns in _ball_joint_columns(self._entity_model, dofs, label):
                built.arrays.write(
                    "qpos", self.info.q_start + rows, quaternions_from_rotation_vectors(values[:, columns]), envs
                )
        if boolean(zero_velocity, "zero_velocity"):
            self.zero_all_dofs_velocity(envs_idx)

    def set_dofs_velocity(self, velocity: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the velocities of dofs at once (no control) [m/s, rad/s].

        Args:
            velocity: velocities, (n_envs, n), or (n,) or a scalar for all environments.
            dofs_idx: dofs by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_velocity(velocity, dofs_idx, envs_idx, "set_dofs_velocity")

    def zero_all_dofs_velocity(self, envs_idx: Any = None) -> None:
        """Set all velocities of the entity to zero.

        Args:
            envs_idx: environments by index, slice or mask; None for all.
        """
        self._set_velocity(0.0, None, envs_idx, "zero_all_dofs_velocity")

    def _set_velocity(self, velocity: Any, dofs_idx: Any, envs_idx: Any, label: str) -> None:
        """Write velocities of the selected dofs and environments to the state, from host values or a CUDA tensor."""
        dofs, built = self._dof_indices(dofs_idx, label), self._built_scene
        rows = self.info.dof_start + dofs
        if built.outputs.is_gpu_tensor(velocity):
            built.arrays.write_tensor("vel", rows, velocity, built.outputs.resolve_envs(envs_idx))
        else:
            values, envs = self._to_batch(velocity, len(dofs), envs_idx, label)
            built.arrays.write("vel", rows, values, envs)

    # ------------------------------------------------------------------------------------------------ base pose

    def set_pos(self, pos: Any, envs_idx: Any = None, *, zero_velocity: bool = False, relative: bool = False) -> None:
        """Set the position of a floating base [m].

        Args:
            pos: world position, (n_envs, 3), or (3,) for all environments.
            envs_idx: environments by index, slice or mask; None for all.
            zero_velocity: also set all velocities of the entity to zero; default False.
            relative: add `pos` to the initial position of the base; default False.
        """
        self._set_base_pose(pos, slice(0, 3), envs_idx, zero_velocity, relative, "set_pos")

    def set_quat(self, quat: Any, envs_idx: Any = None, *, zero_velocity: bool = False, relative: bool = False) -> None:
        """Set the orientation of a floating base.

        Args:
            quat: world orientation (w, x, y, z), (n_envs, 4), or (4,) for all environments; normalised.
            envs_idx: environments by index, slice or mask; None for all.
            zero_velocity: also set all velocities of the entity to zero; default False.
            relative: multiply `quat` from the left to the initial orientation of the base; default False.
        """
        self._set_base_pose(quat, slice(3, 7), envs_idx, zero_velocity, relative, "set_quat")

    def _set_base_pose(
        self, pose_values: Any, components: slice, envs_idx: Any, zero_velocity: bool, relative: bool, label: str
    ) -> None:
        """Set position or orientation of the free joint of the entity; raises `KinemaError` if it has none.

        Args:
            pose_values: position (n_envs, 3) or quaternion (n_envs, 4).
            components: slice of the seven coordinates of the free joint that is set.
            envs_idx: environments; None for all.
            zero_velocity: also set all velocities of the entity to zero.
            relative: interpret the values relative to the initial pose of the model.
            label: name of the calling method for error messages.
        """
        joint = next((j for j in self.joints if j.kind == "free"), None)
        if joint is None:
            raise KinemaError(f'{label}: the base of "{self.name}" is fixed: only a floating base can be moved')
        coordinates = np.arange(*components.indices(7)) + joint.qs_idx[0]
        if boolean(relative, "relative"):
            values, _ = self._to_batch(pose_values, len(coordinates), envs_idx, label)
            initial = self._built_scene.model.qpos0[self.info.q_start + coordinates]
            pose_values = initial + values if len(coordinates) == 3 else multiply_quaternions(values, initial)
        self.set_qpos(pose_values, envs_idx, coordinates, zero_velocity=zero_velocity)

    # ------------------------------------------------------------------------------------------- actuator states

    def get_activations(self, actuators_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Activations of the actuators (MuJoCo's `act`), (n_envs, n); 0 for actuators without activation state.

        Args:
            actuators_idx: actuators by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        actuators = self._actuator_indices(actuators_idx, "get_activations")
        built = self._built_scene
        envs = resolve_envs(envs_idx, built.n_envs)
        if not built.model.actuators.has_activation.any():
            return np.zeros((built.n_envs if envs is None else len(envs), len(actuators)), built.arrays.dtype)
        return built.arrays.read("act", self.info.actuator_start + actuators, envs)

    def set_activations(self, activations: Any, actuators_idx: Any = None, envs_idx: Any = None) -> None:
        """Set the activations of actuators (MuJoCo's `act`); actuators without activation state are ignored.

        Args:
            activations: activations, (n_envs, n), or (n,) or a scalar for all environments.
            actuators_idx: actuators by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        actuators = self._actuator_indices(actuators_idx, "set_activations")
        values, envs = self._to_batch(activations, len(actuators), envs_idx, "set_activations")
        has_activation = self._entity_model.actuators.has_activation[actuators]
        if has_activation.any():
            rows = self.info.actuator_start + actuators[has_activation]
            self._built_scene.arrays.write("act", rows, values[:, has_activation], envs)

    def get_control(self, actuators_idx: Any = None, envs_idx: Any = None) -> Any:
        """Current controls of the actuators (MuJoCo's `ctrl`), (n_envs, n).

        Args:
            actuators_idx: actuators by index, name, pattern, slice or mask; None for all.
            envs_idx: environments by index, slice or mask; None for all.
        """
        actuators = self._actuator_indices(actuators_idx, "get_control")
        return self._read_state("ctrl", self.info.actuator_start + actuators, envs_idx)

    def get_control_range(self, actuators_idx: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """Lower and upper bounds of actuator controls, (n,) each; controls are clamped to them.

        Args:
            actuators_idx: actuators by index, name, pattern, slice or mask; None for all.
        """
        actuators, info = self._actuator_indices(actuators_idx, "get_control_range"), self._entity_model.actuators
        return info.ctrl_lower[actuators].copy(), info.ctrl_upper[actuators].copy()

    # ----------------------------------------------------------------------------------------------------- helpers

    def _actuator_indices(self, actuators_idx: Any, label: str) -> IndexArray:
        return resolve_indices(actuators_idx, self.actuator_names, f"{label}: actuators_idx", "actuators")

    @property
    def _q_slice(self) -> slice:
        return slice(self.info.q_start, self.info.q_end)

    def _q_indices(self, qs_idx: Any, label: str) -> IndexArray:
        names = [str(i) for i in range(self._entity_model.n_qs)]
        return resolve_indices(qs_idx, names, f"{label}: qs_idx", "coordinates")

    def _read_state(self, name: str, rows: slice | IndexArray, envs_idx: Any) -> Any:
        """Rows of a state or control array for the selected environments, in the output type, (environments, rows)."""
        built: BuiltScene = self._built_scene
        if not built.outputs.returns_copies:
            built.engine.mark_modified()  # the caller may write to the returned memory
        return built.outputs.select(built.arrays.source(name), rows, built.outputs.resolve_envs(envs_idx))

    def _to_batch(self, values: Any, count: int, envs_idx: Any, label: str) -> tuple[np.ndarray, IndexArray | None]:
        """User values as an array (environments or 1, count), and the selected environment indices (None for all)."""
        built = self._built_scene
        envs = resolve_envs(envs_idx, built.n_envs)
        n_envs = built.n_envs if envs is None else len(envs)
        return as_batch(values, n_envs, (count,), built.arrays.dtype, label), envs


def _quaternion_columns(model: Model, q_indices: IndexArray) -> list[IndexArray]:
    """Columns of each quaternion among the selected coordinates: list of four positions in `q_indices` (w, x, y, z).

    Raises `KinemaError` if a quaternion is selected only in part.
    """
    frames, quaternions = model.frames, []
    for start in frames.q_start[frames.joint_type == PrimitiveJointType.BALL]:
        columns = np.flatnonzero((q_indices >= start) & (q_indices < start + 4))
        if len(columns) not in (0, 4):
            raise KinemaError(f"set_qpos: coordinates {start} to {start + 3} are a quaternion: set all four or none")
        if len(columns):
            quaternions.append(columns[np.argsort(q_indices[columns])])
    return quaternions


def _normalize_quaternions(qpos: np.ndarray, quaternion_columns: list[IndexArray]) -> np.ndarray:
    """Copy of coordinates (environments, n) with normalised quaternion columns; length 0 raises `KinemaError`."""
    if not quaternion_columns:
        return qpos
    qpos = np.array(qpos)
    for columns in quaternion_columns:
        with np.errstate(all="ignore"):  # NaN and infinity are accepted
            length = np.linalg.norm(qpos[:, columns].astype(np.float64), axis=1, keepdims=True)
        if (length == 0.0).any():
            raise KinemaError(f"set_qpos: coordinates {columns[0]} to {columns[-1]} are a quaternion of length 0")
        with np.errstate(all="ignore"):
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


# ------------------------------------------------------------------------------- forward and inverse kinematics


class EntityKinematicsMixin(EntityStateMixin):
    """Part of `Entity`: forward and inverse kinematics with separate programs.

    The state of the scene is not changed.
    """

    _ik_solver: IKSolver | None = None
    _fk_solver: BatchedKinematics | None = None

    def inverse_kinematics(
        self, link: Any = None, pos: Any = None, quat: Any = None, *, return_error: bool = False, **options: Any
    ) -> Any:
        """Coordinates at which a link reaches a target pose, (n_envs, n_qs), by numerical inverse kinematics.

        The scene is not changed; pass the result to `set_qpos` or to position control.

        Args:
            link: `EntityLink`, or name or index of a link; None if only other objectives (`com`, `posture`) are given.
            pos: target world position of the link origin [m], (3,) or (n_envs, 3); None for any.
            quat: target world orientation (w, x, y, z), (4,) or (n_envs, 4); None for any.
            return_error: return an `IKSolutions` record (`qpos`, `solved`, `pos_error`, `rot_error`, ...) instead of
                the coordinates; default False.
            options: `init_qpos` (initial guess; default the current coordinates), `dofs_idx`, `envs_idx`, `point` of
                the link [m], and the options of `kinema.Kinematics.inverse_kinematics`: `pos_mask`, `rot_mask`,
                `look_at`, `com`, `posture`, `method`, `pos_tol`, `rot_tol`, `max_samples`, ...
        """
        links, point = ([] if link is None else [link]), options.pop("point", None)
        points = None if point is None else [point]
        targets = ([pos], [quat]) if links else ([], [])
        return self._solve_ik(links, *targets, return_error, points=points, **options)

    def inverse_kinematics_multilink(
        self,
        links: Sequence[Any],
        poss: Sequence[Any] | None = None,
        quats: Sequence[Any] | None = None,
        *,
        return_error: bool = False,
        **options: Any,
    ) -> Any:
        """Coordinates at which several links reach target poses, (n_envs, n_qs), by numerical inverse kinematics.

        Args:
            links: `EntityLink`, name or index of each link.
            poss: target world position of each link origin [m], (3,) or (n_envs, 3); None for any.
            quats: target world orientation of each link (w, x, y, z), (4,) or (n_envs, 4); None for any.
            return_error: return an `IKSolutions` record instead of the coordinates; default False.
            options: see `inverse_kinematics`; `points` instead of `point`.
        """
        poss, quats = (x if x is not None else [None] * len(links) for x in (poss, quats))
        return self._solve_ik(list(links), list(poss), list(quats), return_error, **options)

    def _solve_ik(
        self,
        links: list[Any],
        poss: list[Any],
        quats: list[Any],
        return_error: bool,
        *,
        init_qpos: Any = None,
        dofs_idx: Any = None,
        envs_idx: Any = None,
        **options: Any,
    ) -> Any:
        """Solve inverse kinematics for lists of links and targets; creates the solver on first use.

        Args:
            links: target links.
            poss: target positions [m], one per link, None for any.
            quats: target orientations (w, x, y, z), one per link, None for any.
            return_error: return the whole `IKSolutions` record instead of its coordinates.
            init_qpos: initial guess, (n_envs, n_qs); None for the current coordinates.
            dofs_idx: dofs that may move; None for all.
            envs_idx: environments of the current coordinates used as initial guess; None for all.
            options: further options of `IKSolver.solve`.
        """
        built = self._built_scene
        initial = self.get_qpos(envs_idx) if init_qpos is None else init_qpos
        dofs = None if dofs_idx is None else [int(d) for d in self._dof_indices(dofs_idx, "inverse_kinematics")]
        if self._ik_solver is None:
            from kinema.kinematics import IKSolver

            engine = built.engine
            self._ik_solver = IKSolver(self._entity_model, engine.device.name, engine.precision, engine.threads)
        solutions = self._ik_solver.solve(links, poss, quats, initial, dofs=dofs, **options)
        return solutions if return_error else solutions.qpos.astype(built.arrays.dtype)

    def forward_kinematics(
        self, qpos: Any, links_idx: Any = None, envs_idx: Any = None
    ) -> tuple[np.ndarray, np.ndarray]:
        """World poses of links at given coordinates (forward kinematics); the scene is not changed.

        Args:
            qpos: coordinates, (n, n_qs) or (n_qs,).
            links_idx: links by index, name, pattern, slice or mask; None for all.
            envs_idx: rows of `qpos` to use, if it has one row per environment; None for all.

        Returns:
            Positions of the link origins [m], (n, n_links, 3), and quaternions (w, x, y, z), (n, n_links, 4).
        """
        from kinema.kinematics import BatchedKinematics, validate_rows

        coordinates = validate_rows(qpos, self._entity_model.n_qs, "forward_kinematics: qpos")
        envs = resolve_envs(envs_idx, self._built_scene.n_envs)
        coordinates = coordinates if envs is None or len(coordinates) == 1 else coordinates[envs]
        if self._fk_solver is None:
            engine = self._built_scene.engine
            self._fk_solver = BatchedKinematics(
                self._entity_model, find_device(engine.device.name), engine.precision, engine.threads
            )
        links = self._link_indices(links_idx, "forward_kinematics")
        pos, quat = self._fk_solver.link_poses(coordinates)
        return pos[:, links], quat[:, links]
