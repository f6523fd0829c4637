"""Interactive posing of a robot without simulation: slider coordinates, mimic joints and closed loops.

Loops are closed by damped least squares. Quaternion coordinates appear on sliders as a rotation vector.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, Pose, axis_angle_to_matrix, matrix_to_quaternion, quaternion_to_matrix
from kinema.description import (
    AxisMotion,
    Constraint,
    ConstraintKind,
    Joint,
    JointKind,
    Robot,
    joint_coordinates,
    joint_transform,
)

# --------------------------------------------------------------------------------------------------- slider coordinates

UNLIMITED_SLIDER_RANGE = {AxisMotion.ROTATION: math.pi, AxisMotion.TRANSLATION: 1.0}
"""How far sliders of joints without limits go [rad or m]."""
_QUATERNION_JOINTS = (JointKind.SPHERICAL, JointKind.FREE)


@dataclass(frozen=True, slots=True, eq=False)
class SliderDof:
    """One degree of freedom of a joint on a slider."""

    joint: str
    """The joint's name, unique among all that is shown."""
    index: int
    label: str
    lower: float
    upper: float
    is_angle: bool
    mimicked_joint: str
    """The joint that it mimics; empty where it moves by itself."""


def joint_sliders(name: str, joint: Joint) -> list[SliderDof]:
    """Slider degrees of freedom of a joint; those without limits get a range around the initial position."""
    start = to_slider_values(joint, joint.start)
    result = []
    for i, axis in enumerate(joint.moving_axes):
        label = name if joint.n_dofs == 1 else f"{name}[{i}]"
        reach = UNLIMITED_SLIDER_RANGE[axis.motion]
        lower, upper = axis.lower, axis.upper
        if joint.kind in _QUATERNION_JOINTS and axis.motion is AxisMotion.ROTATION:
            lower, upper = -math.pi, math.pi
        lower = lower if math.isfinite(lower) else min(start[i] - reach, upper - 2 * reach)
        upper = upper if math.isfinite(upper) else max(start[i] + reach, lower + 2 * reach)
        if not (math.isfinite(lower) and math.isfinite(upper) and lower <= upper):
            lower, upper = -reach, reach
        followed = axis.mimic.joint if axis.mimic is not None else ""
        result.append(SliderDof(name, i, label, lower, upper, axis.motion is AxisMotion.ROTATION, followed))
    return result


def to_slider_values(joint: Joint, q: Array) -> Array:
    """Joint coordinates as one value per degree of freedom; quaternions become rotation vectors."""
    if joint.kind not in _QUATERNION_JOINTS:
        return np.array(q, dtype=np.float64)
    return np.concatenate([q[:-4], matrix_to_rotation_vector(quaternion_to_matrix(q[-4:]))])


def from_slider_values(joint: Joint, values: Array) -> Array:
    """Joint coordinates of slider values; the inverse of `to_slider_values`."""
    if joint.kind not in _QUATERNION_JOINTS:
        return np.array(values, dtype=np.float64)
    return np.concatenate([values[:-3], matrix_to_quaternion(rotation_vector_to_matrix(values[-3:]))])


def rotation_vector_to_matrix(vector: Array) -> Array:
    """Rotation matrix of a rotation vector [rad]."""
    angle = float(np.linalg.norm(vector))
    return axis_angle_to_matrix(vector / angle, angle) if angle > 1e-12 else np.eye(3)


def matrix_to_rotation_vector(matrix: Array) -> Array:
    """Rotation vector of a rotation matrix [rad]."""
    q = matrix_to_quaternion(matrix)
    sine = float(np.linalg.norm(q[1:]))
    return q[1:] * (2.0 * math.atan2(sine, q[0]) / sine if sine > 1e-12 else 2.0)


# ------------------------------------------------------------------------------------- configuration without simulation

_MAX_ITERATIONS = 40
_CLOSURE_TOLERANCE = 1e-7
"""Maximum residual of a closed loop [m, rad]."""
_FINITE_DIFFERENCE_STEP = 1e-6
"""Step of the finite-difference Jacobian [m, rad]."""

_RANK_TOLERANCE = 1e-5
"""Smallest singular value of independent constraints."""

Residual = Callable[[Mapping[str, Pose], Mapping[str, Array]], Array]
LoopResidual = tuple[Array, dict[str, Array], dict[str, Array]]
"""Residual of loops, and the coordinates of joints of the tree and of loop joints at which it was evaluated."""


class Mechanism:
    """Kinematics of one robot: spanning tree, loop closures and joint coordinates."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.tree = robot.tree()
        self.joints_by_name = {joint.name: joint for joint in robot.joints}
        self._moved_coordinates: dict[str, Array] = {}
        """Coordinates of joints that are not where the file shows them."""
        self.loop_joint_coordinates = {
            joint.name: joint.start for joint in self.tree.loops if joint.kind is not JointKind.DISTANCE
        }
        """Coordinates of the joints that close loops, as far as they are known."""
        self.residuals = [
            *(_loop_joint_residual(joint) for joint in self.tree.loops),
            *(r for c in robot.constraints if c.active and (r := _constraint_residual(c, robot)) is not None),
        ]

    @property
    def coordinates(self) -> dict[str, Array]:
        """Coordinates of all joints by name."""
        return joint_coordinates(self.robot.joints, self._moved_coordinates)

    def reset(self) -> None:
        """Reset to the initial configuration of the file."""
        self._moved_coordinates = {}

    def link_poses(self) -> dict[str, Pose]:
        """World poses of all links by name."""
        return self._link_poses_at(self.coordinates)

    def _link_poses_at(self, values: dict[str, Array]) -> dict[str, Pose]:
        links, base = {link.name: link for link in self.robot.links}, self.robot.pose
        result = {root: base @ (links[root].pose or Pose()) for root in self.tree.roots}
        with np.errstate(all="ignore"):  # what is wrong in a file is told by the checks
            for edge in self.tree.edges:
                parent = base if edge.parent is None else result[edge.parent]
                result[edge.child] = parent @ edge.pose(values)
        return result

    def move_joints(self, moved: Mapping[str, Array]) -> bool:
        """Move joints and close loops; returns False and changes nothing if loops cannot be closed."""
        before = dict(self._moved_coordinates)
        known = {name: q for name, q in moved.items() if name in self.joints_by_name}
        self._moved_coordinates |= known
        if self.residuals and not self._close_loops(set(known)):
            self._moved_coordinates = before
            return False
        return True

    def set_coordinates(self, values: Mapping[str, Array]) -> None:
        """Set joint coordinates without closing loops."""
        self._moved_coordinates = {name: np.array(q) for name, q in values.items() if name in self.joints_by_name}

    # --------------------------------------------------------------------------------------------------- loops

    def _close_loops(self, fixed_joints: set[str]) -> bool:
        """Close loops by damped least squares (Levenberg-Marquardt) over the loop joints; False without convergence.

        Joints in `fixed_joints` do not move. The Jacobian is computed by finite differences.
        """
        unknown, residual_at = self._loop_system([name for name in self._loop_joints() if name not in fixed_joints])
        error, tree, closing = residual_at(unknown)
        damping = 1e-6
        for _ in range(_MAX_ITERATIONS):
            size = float(np.abs(error).max(initial=0.0))
            if size < _CLOSURE_TOLERANCE:
                break
            jacobian = _residual_jacobian(residual_at, unknown)
            normal_matrix = jacobian.T @ jacobian + damping * np.eye(len(unknown))
            step = np.linalg.lstsq(normal_matrix, -jacobian.T @ error, rcond=None)[0]
            step *= min(1.0, 0.5 / max(float(np.abs(step).max(initial=0.0)), 1e-12))  # half a radian at most
            trial = residual_at(unknown + step)
            if np.linalg.norm(trial[0]) < np.linalg.norm(error):
                unknown, (error, tree, closing), damping = unknown + step, trial, max(damping / 10.0, 1e-9)
            else:
                damping *= 10.0
        if not np.abs(error).max(initial=0.0) < 1e3 * _CLOSURE_TOLERANCE:
            return False
        self._moved_coordinates |= tree
        self.loop_joint_coordinates |= closing
        return True

    def _loop_system(self, names: Sequence[str]) -> tuple[Array, Callable[[Array], LoopResidual]]:
        """Slider values of some joints of the tree and of the loop joints, and the residual of the loops at them."""
        loops = list(self.loop_joint_coordinates)
        values = self.coordinates
        x = [to_slider_values(self.joints_by_name[n], values[n]) for n in names] + [
            to_slider_values(self.joints_by_name[n], self.loop_joint_coordinates[n]) for n in loops
        ]
        ends = np.cumsum([len(part) for part in x]) if x else np.zeros(0, dtype=np.int64)
        unknown = np.concatenate(x) if x else np.zeros(0)

        def residual_at(u: Array) -> LoopResidual:
            parts = np.split(u, ends[:-1]) if len(ends) else []
            tree = {n: from_slider_values(self.joints_by_name[n], p) for n, p in zip(names, parts, strict=False)}
            closing = {
                n: from_slider_values(self.joints_by_name[n], p)
                for n, p in zip(loops, parts[len(names) :], strict=True)
            }
            everything = joint_coordinates(self.robot.joints, {**self._moved_coordinates, **tree})
            poses = self._link_poses_at(everything)
            return np.concatenate([r(poses, {**everything, **closing}) for r in self.residuals]), tree, closing

        return unknown, residual_at

    def dependent_joints(self) -> set[str]:
        """Joints whose motion follows from that of others: mimic joints, and joints of loops, those near the base last.

        The rank of the constraint Jacobian at the present coordinates decides.
        """
        result = {joint.name for joint in self.robot.joints if any(a.mimic is not None for a in joint.moving_axes)}
        on_loops = set(self._loop_joints()) if self.residuals else set()
        names = [joint.name for edge in self.tree.edges for joint in edge.joints if joint.name in on_loops]
        unknown, residual_at = self._loop_system(names)
        jacobian = _residual_jacobian(residual_at, unknown) if names else np.zeros((0, 0))
        widths = [len(to_slider_values(self.joints_by_name[name], self.coordinates[name])) for name in names]
        starts = np.cumsum([0, *widths])
        columns = list(range(int(starts[-1]), len(unknown)))  # of loop joints, which always follow
        rank = _rank(jacobian[:, columns])
        for i in reversed(range(len(names))):
            own = list(range(int(starts[i]), int(starts[i + 1])))
            if _rank(jacobian[:, [*columns, *own]]) == rank + len(own):
                columns, rank = [*columns, *own], rank + len(own)
                result.add(names[i])
        return result

    def _loop_joints(self) -> list[str]:
        """Joints of the tree on a loop or between the ends of a constraint, without mimic and free joints."""
        pairs = [(joint.parent, joint.child) for joint in self.tree.loops]
        names: dict[str, None] = {}
        for constraint in (c for c in self.robot.constraints if c.active):
            if constraint.kind is ConstraintKind.JOINT:
                names |= {end: None for end in (constraint.a, constraint.b) if end in self.joints_by_name}
            else:
                pairs.append((constraint.a, constraint.b))
        for a, b in pairs:
            above = [self.joints_to_base(a), self.joints_to_base(b)]
            names |= {name: None for name in (*above[0], *above[1]) if (name in above[0]) != (name in above[1])}
        follows = {j.name for j in self.robot.joints if any(a.mimic is not None for a in j.moving_axes)}
        free = {j.name for j in self.robot.joints if j.kind is JointKind.FREE}
        return [name for name in names if self.joints_by_name[name].n_dofs and name not in follows | free]

    def joints_to_base(self, link: str | None) -> list[str]:
        """Joints of the tree between a link and the base."""
        edges = self.tree.edge_by_child()
        names: list[str] = []
        while link in edges:
            names += [joint.name for joint in edges[link].joints]
            link = edges[link].parent
        return names


def _residual_jacobian(residual_at: Callable[[Array], LoopResidual], unknown: Array) -> Array:
    """Jacobian of the residual of loops, by forward differences."""
    error = residual_at(unknown)[0]
    columns = [
        (residual_at(unknown + _FINITE_DIFFERENCE_STEP * e)[0] - error) / _FINITE_DIFFERENCE_STEP
        for e in np.eye(len(unknown))
    ]
    return np.stack(columns, axis=1) if columns else np.zeros((len(error), 0))


def _rank(matrix: Array) -> int:
    """Rank of a matrix of finite differences."""
    return int(np.linalg.matrix_rank(matrix, tol=_RANK_TOLERANCE)) if matrix.size else 0


def _loop_joint_residual(joint: Joint) -> Residual:
    """Residual of a loop joint: deviation of its frames from the joint transform, or distance violation."""

    def residual(poses: Mapping[str, Pose], values: Mapping[str, Array]) -> Array:
        parent = (poses[joint.parent] if joint.parent is not None else Pose()) @ joint.parent_pose
        child = (poses[joint.child] if joint.child is not None else Pose()) @ joint.child_pose
        between = parent.inverse() @ child
        if joint.kind is JointKind.DISTANCE:
            apart = float(np.linalg.norm(between.position))
            return np.array([apart - min(max(apart, joint.distance[0]), joint.distance[1])])
        return _pose_difference(joint_transform(joint, values[joint.name]), between)

    return residual


def _constraint_residual(constraint: Constraint, robot: Robot) -> Residual | None:
    """Residual of a connect, weld or joint constraint; None for other kinds, which only the simulation enforces."""
    c, links = constraint, {link.name for link in robot.links}
    if c.kind in (ConstraintKind.CONNECT, ConstraintKind.WELD):
        if any(end is not None and end not in links for end in (c.a, c.b)):
            return None
        rows = 3 if c.kind is ConstraintKind.CONNECT else 6

        def pose_residual(poses: Mapping[str, Pose], _: Mapping[str, Array]) -> Array:
            a, b = ((poses[end] if end is not None else Pose()) for end in (c.a, c.b))
            return _pose_difference(a @ c.pose_a, b @ c.pose_b)[:rows]

        return pose_residual
    joints = {joint.name: joint for joint in robot.joints}
    if c.kind is not ConstraintKind.JOINT or c.a not in joints or (c.b is not None and c.b not in joints):
        return None

    def coordinate_residual(_: Mapping[str, Pose], values: Mapping[str, Array]) -> Array:
        def moved(name: str, axis: int) -> float:
            return float(values[name][axis]) - joints[name].moving_axes[axis].reference

        leader = moved(c.b, c.axis_b) if c.b is not None else 0.0
        assert c.a is not None  # it is a joint's name
        return np.array([moved(c.a, c.axis_a) - sum(k * leader**i for i, k in enumerate(c.polynomial))])

    return coordinate_residual


def _pose_difference(a: Pose, b: Pose) -> Array:
    """Position difference and rotation vector between two frames, (6,) [m, rad]."""
    return np.concatenate([b.position - a.position, matrix_to_rotation_vector(a.rotation.T @ b.rotation)])
