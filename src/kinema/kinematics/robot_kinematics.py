"""Kinematics and dynamics of one robot for batches of configurations, without a scene.

Integration and differences of configurations, forward kinematics, Jacobians, mass matrix, inverse dynamics,
operational-space control and inverse kinematics. Rotations of ball joints are in the moved frame's axes.
"""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.core import (
    Array,
    Diagnostics,
    KinemaError,
    conjugate_quaternions,
    multiply_quaternions,
    quaternions_from_rotation_vectors,
    rotation_vectors_from_quaternions,
)
from kinema.description import Robot, World
from kinema.model import Model, PrimitiveJointType
from kinema.runtime import find_device

from .arguments import broadcast_length, resolve_index, validate_rows
from .batched_kinematics import BatchedKinematics
from .ik_program import IKSolutions
from .inverse_kinematics import IKSolver

# ------------------------------------------------------------------------------------------------------- configurations


def integrate_configuration(model: Model, qpos: Array, change: Array) -> Array:
    """Configurations (n, n_qs) after a displacement (n, n_dofs) in the tangent space.

    Scalar coordinates are added; quaternions of ball joints are multiplied by the exponential of the rotation vector in
    the moved frame, and normalised.
    """
    result = np.array(np.broadcast_to(qpos, (max(len(qpos), len(change)), model.n_qs)))
    scalar_dofs = np.flatnonzero(model.dofs.q_idx >= 0)
    result[:, model.dofs.q_idx[scalar_dofs]] += change[:, scalar_dofs]
    for q, dofs in _ball_joint_slices(model):
        rotated = multiply_quaternions(
            result[:, q], quaternions_from_rotation_vectors(np.broadcast_to(change[:, dofs], (len(result), 3)))
        )
        result[:, q] = rotated / np.linalg.norm(rotated, axis=1, keepdims=True)
    return result


def configuration_difference(model: Model, before: Array, after: Array) -> Array:
    """Displacement (n, n_dofs) in the tangent space that leads from `before` to `after`, (n, n_qs) each.

    The inverse of `integrate_configuration`: differences of scalar coordinates, rotation vectors of relative
    quaternions.
    """
    before, after = np.broadcast_arrays(before, after)
    result = np.zeros((len(before), model.n_dofs))
    scalar_dofs = np.flatnonzero(model.dofs.q_idx >= 0)
    q_indices = model.dofs.q_idx[scalar_dofs]
    result[:, scalar_dofs] = after[:, q_indices] - before[:, q_indices]
    for q, dofs in _ball_joint_slices(model):
        result[:, dofs] = rotation_vectors_from_quaternions(
            multiply_quaternions(conjugate_quaternions(before[:, q]), after[:, q])
        )
    return result


def _ball_joint_slices(model: Model) -> list[tuple[slice, slice]]:
    """Coordinate slice (quaternion) and dof slice of each ball joint."""
    frames = model.frames
    starts = [
        (int(frames.q_start[f]), int(frames.dof_start[f]))
        for f in np.flatnonzero(frames.joint_type == PrimitiveJointType.BALL)
    ]
    return [(slice(q, q + 4), slice(dof, dof + 3)) for q, dof in starts]


# ---------------------------------------------------------------------------------------------------- operational space


def operational_space_forces(
    jacobian: Array,
    bias_acceleration: Array,
    mass_matrix: Array,
    bias_force: Array,
    desired_acceleration: Array,
    mask: np.ndarray,
    posture_force: Array | None,
    damping: float,
) -> Array:
    """Khatib's operational-space control: tau = J^T L (a - dJ/dt v) + bias, with L = (J M^-1 J^T)^-1.

    A posture force is projected by the dynamically consistent null-space projector I - J^T L J M^-1, so that it does
    not accelerate the link.

    Args:
        jacobian: (n, 6, n_dofs).
        bias_acceleration: dJ/dt v, (n, 6).
        mass_matrix: M, (n, n_dofs, n_dofs).
        bias_force: gravity, Coriolis and centrifugal forces, (n, n_dofs).
        desired_acceleration: a, (n, 6).
        mask: controlled components of the six, (6,).
        posture_force: secondary joint forces, (n, n_dofs); None for none.
        damping: regularisation of J M^-1 J^T, relative to its mean diagonal.

    Returns:
        joint forces, (n, n_dofs).
    """
    j, acceleration = jacobian[:, mask], (desired_acceleration - bias_acceleration)[:, mask]
    inverse_mass_jt = np.linalg.solve(mass_matrix, np.swapaxes(j, 1, 2))  # M^-1 J^T
    inverse_inertia = j @ inverse_mass_jt
    mean_diagonal = np.trace(inverse_inertia, axis1=1, axis2=2)[:, None, None] / len(inverse_inertia[0])
    task_inertia = np.linalg.inv(inverse_inertia + damping * mean_diagonal * np.eye(len(inverse_inertia[0])))
    force = np.einsum("nij,nj->ni", task_inertia, acceleration)
    result = np.einsum("nij,ni->nj", j, force) + bias_force
    if posture_force is None:
        return result
    removed = np.einsum(
        "nij,nj->ni",
        task_inertia,
        np.einsum("nji,nj->ni", inverse_mass_jt, np.broadcast_to(posture_force, bias_force.shape)),
    )
    return result + posture_force - np.einsum("nij,ni->nj", j, removed)


# --------------------------------------------------------------------------------------------------------------- robots

PRECISIONS = ("single", "double")


class Kinematics:
    """Kinematics and dynamics of a robot by programs compiled for the robot.

    Coordinates are laid out as in a scene: in the order of the description's joints; a free base has x, y, z and a
    quaternion (w, x, y, z). Arrays have one row for each configuration; a single row without the batch axis is
    accepted.

    Args:
        robot: a description, or the path of a file.
        fixed: whether the base is fixed to the world; None for the setting of the file, or fixed if the file has none.
        device: `cpu`, `cuda:0`, ...
        precision: `single` (32 bits) or `double`.
        threads: maximum number of CPU threads; None for the number of cores.
    """

    def __init__(
        self,
        robot: Robot | World | str | os.PathLike[str],
        *,
        fixed: bool | None = None,
        device: str = "cpu",
        precision: str = "single",
        threads: int | None = None,
    ) -> None:
        """Read the robot if given as a path, and build its model; programs are compiled on first use."""
        if precision not in PRECISIONS:
            raise KinemaError(f"precision: {precision!r} is none of {', '.join(PRECISIONS)}")
        description = robot if isinstance(robot, Robot | World) else _read_description(robot)
        self.diagnostics = Diagnostics()
        spec = EntitySpec(name=description.name or "robot", description=description, pose=None, fixed=fixed)
        self.model: Model = build_model([spec], diagnostics=self.diagnostics)
        self._batched = BatchedKinematics(self.model, find_device(device), precision, threads)
        self._ik_solver = IKSolver(self.model, device, precision, threads)

    @property
    def link_names(self) -> list[str]:
        """Names of the links, in the order of `forward_kinematics`."""
        return list(self.model.links.names)

    @property
    def dof_names(self) -> list[str]:
        """Names of the degrees of freedom, in the order of velocities."""
        return list(self.model.dofs.names)

    @property
    def n_qs(self) -> int:
        """Number of coordinates."""
        return self.model.n_qs

    @property
    def n_dofs(self) -> int:
        """Number of degrees of freedom."""
        return self.model.n_dofs

    @property
    def limits(self) -> tuple[Array, Array]:
        """Lower and upper limit of each degree of freedom [m or rad]; infinite if unlimited."""
        return np.array(self.model.dofs.lower), np.array(self.model.dofs.upper)

    @property
    def qpos0(self) -> Array:
        """Initial configuration of the file, (n_qs,)."""
        return np.array(self.model.qpos0)

    # ----------------------------------------------------------------------------------------------- configurations

    def integrate(self, qpos: Any, qvel: Any, dt: float = 1.0) -> Array:
        """Configurations after moving with velocity `qvel` for time `dt` [s], (n, n_qs): MuJoCo's `mj_integratePos`."""
        q, velocity = self._validate_qpos(qpos), validate_rows(qvel, self.n_dofs, "integrate: qvel")
        broadcast_length([q, velocity], "integrate")
        return integrate_configuration(self.model, q, dt * velocity)

    def difference(self, before: Any, after: Any, dt: float = 1.0) -> Array:
        """Velocity from one configuration to another in time `dt` [s], (n, n_dofs): MuJoCo's `mj_differentiatePos`."""
        first, second = self._validate_qpos(before), self._validate_qpos(after)
        broadcast_length([first, second], "difference")
        return configuration_difference(self.model, first, second) / dt

    # ---------------------------------------------------------------------------------------- kinematics and dynamics

    def forward_kinematics(self, qpos: Any) -> tuple[Array, Array]:
        """World positions [m], (n, n_links, 3), and quaternions (w, x, y, z), (n, n_links, 4), of all links."""
        return self._batched.link_poses(self._validate_qpos(qpos))

    def jacobian(self, qpos: Any, link: str | int) -> Array:
        """Jacobian of a link at its origin, (n, 6, n_dofs): linear, then angular velocity rows, in world axes."""
        return self._batched.jacobian_and_bias(self._validate_qpos(qpos), self._link_index(link))[0]

    def mass_matrix(self, qpos: Any) -> Array:
        """Mass matrix (joint-space inertia) [kg, kg m, kg m2], (n, n_dofs, n_dofs)."""
        return self._batched.mass_matrix(self._validate_qpos(qpos))

    def center_of_mass(self, qpos: Any) -> Array:
        """Centre of mass of the whole robot in the world [m], (n, 3)."""
        return self._batched.center_of_mass(self._validate_qpos(qpos))

    def inverse_dynamics(self, qpos: Any, qvel: Any, qacc: Any) -> Array:
        """Actuator forces for the given accelerations [N, N m], (n, n_dofs): MuJoCo's `mj_inverse` without contacts.

        M qacc plus gravity, Coriolis and centrifugal forces minus passive forces of springs, dampers and fluid.
        """
        return self._batched.inverse_dynamics(*self._validate_states(qpos, qvel, qacc))

    def gravity_compensation(self, qpos: Any) -> Array:
        """Joint forces that hold the robot's weight at rest [N, N m], (n, n_dofs); joint springs are not included."""
        return self._batched.bias_forces(self._validate_qpos(qpos))

    def operational_space(
        self,
        qpos: Any,
        qvel: Any,
        link: str | int,
        acceleration: Any,
        *,
        mask: Sequence[bool] = (True,) * 6,
        posture_force: Any = None,
        damping: float = 1e-12,
    ) -> Array:
        """Joint forces that give a link a desired acceleration [N, N m], (n, n_dofs), by operational-space control.

        Args:
            qpos: configurations.
            qvel: velocities.
            link: the link whose origin is controlled.
            acceleration: linear [m/s2], then angular [rad/s2] acceleration in world axes, (n, 6).
            mask: which of the six components are controlled.
            posture_force: joint forces that act in the null space of the controlled acceleration, (n, n_dofs).
            damping: regularisation that keeps forces finite at singular configurations.
        """
        q, v = self._validate_states(qpos, qvel)
        desired = validate_rows(acceleration, 6, "operational_space: acceleration", len(q) if len(q) > 1 else None)
        secondary = (
            None
            if posture_force is None
            else validate_rows(posture_force, self.n_dofs, "operational_space: posture_force")
        )
        jacobian, bias_acceleration = self._batched.jacobian_and_bias(q, self._link_index(link), v)
        mass_matrix, bias_force = self._batched.mass_matrix(q), self._batched.bias_forces(q, v)
        return operational_space_forces(
            jacobian, bias_acceleration, mass_matrix, bias_force, desired, np.asarray(mask, bool), secondary, damping
        )

    # ------------------------------------------------------------------------------------------- inverse kinematics

    def inverse_kinematics(
        self,
        link: str | int | Sequence[str | int] | None = None,
        pos: Any = None,
        quat: Any = None,
        *,
        init_qpos: Any = None,
        dofs: Sequence[str | int] | None = None,
        point: Any = None,
        **options: Any,
    ) -> IKSolutions:
        """Configurations at which links reach targets, for a batch of targets.

        Args:
            link: a link, or several.
            pos: target position of the link's origin in the world [m], (3,) or (n, 3); a list for several links, with
                None for no target.
            quat: target orientation (w, x, y, z), (4,) or (n, 4); a list for several links, with None for no target.
            init_qpos: initial configuration, (n_qs,) or (n, n_qs); None for that of the file.
            dofs: joints or degrees of freedom that may move; None for all that move the links.
            point: point in link coordinates [m] to which `pos` refers; a list for several links.
            options: any of `pos_mask` and `rot_mask` (world axes; with one rotation axis only that link axis is
                aligned), `look_at=(link, position)` and `look_axis`, `com` and `com_mask`, `posture` (configuration for
                the null space of the targets), `method` (`lm`, `dls` or `gauss-newton`), `pos_tol`, `rot_tol`,
                `max_solver_iters`, `max_samples`, `damping`, `max_step_size`, `respect_joint_limit`, `seed`.

        Returns:
            `qpos`, `solved`, `pos_error`, `rot_error`, `attempts` and `iterations`, one row for each target; for a
            target that was not reached, the configuration
            with the smallest error.
        """
        several = isinstance(link, list | tuple)
        links = [] if link is None else list(link) if several else [link]  # type: ignore[arg-type]
        positions, quaternions = (
            self._per_link(x, len(links), several, name) for x, name in ((pos, "pos"), (quat, "quat"))
        )
        points = None if point is None else (list(point) if several else [point])
        start = self.qpos0 if init_qpos is None else init_qpos
        dof_indices = None if dofs is None else self.dof_indices(dofs)
        return self._ik_solver.solve(links, positions, quaternions, start, points=points, dofs=dof_indices, **options)

    def dof_indices(self, references: Sequence[str | int]) -> list[int]:
        """Indices of degrees of freedom given by index, name, or name of their joint."""
        joints, indices = self.model.joints, list[int]()
        for reference in [references] if isinstance(references, str | int) else references:
            if isinstance(reference, str) and reference in joints.names:
                joint = joints.names.index(reference)
                indices += range(int(joints.dof_start[joint]), int(joints.dof_end[joint]))
            else:
                indices.append(resolve_index(reference, self.model.dofs.names, "dofs", "degrees of freedom"))
        return indices

    # --------------------------------------------------------------------------------------------------- arguments

    def _link_index(self, link: str | int) -> int:
        return resolve_index(link, self.model.links.names, "link", "links")

    def _validate_qpos(self, qpos: Any) -> Array:
        return validate_rows(qpos, self.n_qs, "qpos")

    def _validate_states(self, qpos: Any, *others: Any) -> list[Array]:
        """Validate configurations and velocities or accelerations, and broadcast them to a common number of rows."""
        arrays = [
            self._validate_qpos(qpos),
            *(validate_rows(x, self.n_dofs, "velocities and accelerations") for x in others),
        ]
        n = broadcast_length(arrays, "coordinates and velocities")
        return [np.broadcast_to(x, (n, x.shape[1])) for x in arrays]

    @staticmethod
    def _per_link(values: Any, count: int, several: bool, label: str) -> list[Any]:
        """Normalise a user argument to a list with one entry per link; None for each link if it is not given.

        With `several` links the argument must be a sequence of `count` values; otherwise it is the single value. Raises
        `KinemaError` with `label`.
        """
        if values is None:
            return [None] * count
        if not several:
            return [values]
        if len(values) != count:
            raise KinemaError(
                f"inverse kinematics: {label}: expected one entry for each of {count} links, not {len(values)}"
            )
        return list(values)


def ik(
    robot: Robot | World | Kinematics | str | os.PathLike[str],
    link: str | int | Sequence[str | int],
    pos: Any = None,
    quat: Any = None,
    **options: Any,
) -> IKSolutions:
    """Inverse kinematics of a robot's link in one call; see `Kinematics.inverse_kinematics`.

    For repeated calls create a `Kinematics` object, which compiles each set of goals only once.
    """
    kinematics = robot if isinstance(robot, Kinematics) else Kinematics(robot)
    return kinematics.inverse_kinematics(link, pos, quat, **options)


def _read_description(path: str | os.PathLike[str]) -> Robot | World:
    from kinema.read import read

    if not isinstance(path, str | os.PathLike):
        raise KinemaError(f"expected a robot, a world or a file path, not {path!r}")
    return read(Path(path))
