"""Joints of the model: decomposition into primitive joints (hinge, slide, screw, ball), breakable joints, limits."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass, replace
from functools import lru_cache

import numpy as np

from kinema.core import (
    Array,
    Diagnostics,
    KinemaError,
    Pose,
    arc_sine,
    exponential,
    reproducible_product,
    rotation_aligning_z,
)
from kinema.description import (
    Axis,
    AxisMotion,
    Joint,
    JointKind,
    KinematicTree,
    Robot,
    SolverParameters,
    TreeEdge,
    spanning_tree,
)
from kinema.model import PrimitiveJointType
from kinema.tokens import newton, physx, sdf, usd, usd_physics

# ------------------------------------------------------------------------------------------- chains of primitive joints

Z_AXIS = np.array([0.0, 0.0, 1.0])
ROUNDING_TOLERANCE = 1e-14
"""Rounding error of sines and cosines of right angles; exact zeros and ones are folded by the optimiser."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PrimitiveJoint:
    """A hinge, slide, screw or ball that a joint is composed of."""

    type: PrimitiveJointType
    joint: Joint
    axis: Array
    """Unit axis, (3,)."""
    pitch: float = 0.0
    """Translation per rotation of a screw [m/rad]."""
    reference: float = 0.0
    """Coordinate of zero displacement."""
    inverted: bool = False
    """Whether the quaternion of a ball is the orientation of the parent in the child."""
    q_offset: int = 0
    """Index of its first coordinate within the joint."""
    dof_offset: int = 0
    """Index of its first degree of freedom within the joint."""


JointChain = list["Pose | PrimitiveJoint"]
"""Constant transforms and primitive joints from a parent to a child frame."""


def joint_chain(edge: TreeEdge) -> JointChain:
    """Chain of constant poses and primitive joints from the parent link to the child link of a tree edge."""
    chain: JointChain = []
    for i, joint in enumerate(edge.joints):
        start = joint.parent_pose if i == 0 else joint.child_pose
        chain += [start, *primitive_joints(joint), joint.child_pose.inverse()]
    return reverse_chain(chain) if edge.reversed else chain


def primitive_joints(joint: Joint) -> list[PrimitiveJoint]:
    """Primitive joints (hinge, slide, screw, ball) that a joint is composed of, in the joint frame.

    A free joint is three slides and a ball; other joints have one hinge, slide, screw or ball per unlocked axis. Raises
    KinemaError for a spherical joint with locked axes.
    """
    match joint.kind:
        case JointKind.FREE:
            slides = [
                PrimitiveJoint(type=PrimitiveJointType.SLIDE, joint=joint, axis=direction, q_offset=i, dof_offset=i)
                for i, direction in enumerate(np.eye(3))
            ]
            return [
                *slides,
                PrimitiveJoint(type=PrimitiveJointType.BALL, joint=joint, axis=Z_AXIS, q_offset=3, dof_offset=3),
            ]
        case JointKind.SPHERICAL:
            if joint.n_dofs != 3:
                raise KinemaError(
                    f"{joint.origin}: spherical joint {joint.name!r} with locked axes cannot be simulated"
                )
            return [PrimitiveJoint(type=PrimitiveJointType.BALL, joint=joint, axis=Z_AXIS)]
        case JointKind.SCREW:
            axis = joint.axes[0]
            pitch = joint.pitch / (2 * math.pi)
            screw = PrimitiveJoint(
                type=PrimitiveJointType.SCREW, joint=joint, axis=axis.direction, pitch=pitch, reference=axis.reference
            )
            return [] if axis.locked else [screw]
    type_of_motion = {AxisMotion.ROTATION: PrimitiveJointType.HINGE, AxisMotion.TRANSLATION: PrimitiveJointType.SLIDE}
    return [
        PrimitiveJoint(
            type=type_of_motion[axis.motion],
            joint=joint,
            axis=axis.direction,
            reference=axis.reference,
            q_offset=i,
            dof_offset=i,
        )
        for i, axis in enumerate(joint.moving_axes)
    ]


def kinematic_joint(link: str) -> PrimitiveJoint:
    """Joint of a kinematic body, which has no coordinates and degrees of freedom."""
    joint = Joint(name=link, kind=JointKind.FIXED, parent=None, child=link)
    return PrimitiveJoint(type=PrimitiveJointType.KINEMATIC, joint=joint, axis=Z_AXIS)


def reverse_chain(chain: JointChain) -> JointChain:
    """Inverse of a joint chain, from the child to the parent, with the same coordinates."""
    return [
        element.inverse() if isinstance(element, Pose) else _reverse_primitive_joint(element)
        for element in reversed(chain)
    ]


def _reverse_primitive_joint(primitive: PrimitiveJoint) -> PrimitiveJoint:
    """Primitive joint with the inverse transform for the same coordinate: negated axis, or an inverted ball."""
    return PrimitiveJoint(
        type=primitive.type,
        joint=primitive.joint,
        axis=-primitive.axis,
        pitch=primitive.pitch,  # rotation and translation both change sign with the axis
        reference=primitive.reference,
        inverted=not primitive.inverted if primitive.type is PrimitiveJointType.BALL else False,
        q_offset=primitive.q_offset,
        dof_offset=primitive.dof_offset,
    )


@dataclass(frozen=True, slots=True, eq=False)
class PlacedPrimitiveJoint:
    """A primitive joint and its pose in the preceding moving frame."""

    pose: Pose
    primitive: PrimitiveJoint


def place_primitive_joints(
    start_pose: Pose, chain: Sequence[Pose | PrimitiveJoint]
) -> tuple[list[PlacedPrimitiveJoint], Pose]:
    """Place the primitive joints of a chain that starts at `start_pose` in the parent's moving frame.

    Constant poses between primitive joints are multiplied together. Each moving frame is rotated so that the joint axis
    is a coordinate axis, which makes the joint transform cheaper. Returns the placed joints and the pose of the end of
    the chain in the last moving frame.
    """
    primitives = [element for element in chain if isinstance(element, PrimitiveJoint)]
    key = tuple(
        (x.rotation.tobytes(), x.position.tobytes()) if isinstance(x, Pose) else (x.type, x.axis.tobytes())
        for x in (start_pose, *chain)
    )
    if key not in _placements:
        if len(_placements) >= MAX_PLACEMENTS:
            _placements.clear()
        _placements[key] = _place_axes(start_pose, chain)
    poses, axes = _placements[key]
    placed = [
        PlacedPrimitiveJoint(pose, _with_axis(primitive, axis))
        for pose, primitive, axis in zip(poses[:-1], primitives, axes, strict=True)
    ]
    return placed, poses[-1]


MAX_PLACEMENTS = 4096
_placements: dict[tuple, tuple[list[Pose], list[Array]]] = {}
"""Results of `_place_axes`, by the values of its arguments: the bodies of a heap have equal chains."""


def _place_axes(start_pose: Pose, chain: Sequence[Pose | PrimitiveJoint]) -> tuple[list[Pose], list[Array]]:
    """Poses of the moving frames of a chain and of its end, each in the preceding frame, and the joint axes."""
    poses, axes = list[Pose](), list[Array]()
    pose = start_pose
    for element in chain:
        if isinstance(element, Pose):
            pose = pose @ element
            continue
        align = _axis_alignment(element)
        poses.append(snap_pose(pose @ Pose(rotation=align)))
        axes.append(_nearest_coordinate_axis(reproducible_product(align.T, element.axis)))
        pose = Pose(rotation=align.T)
    return [*poses, snap_pose(pose)], axes


def _axis_alignment(primitive: PrimitiveJoint) -> Array:
    """Rotation matrix of a frame whose z axis is the joint axis.

    Identity for a ball, and if the joint axis is a coordinate axis already.
    """
    largest = max(map(abs, primitive.axis.tolist()))
    if primitive.type is PrimitiveJointType.BALL or largest > 1.0 - ROUNDING_TOLERANCE:
        return np.eye(3)
    return rotation_aligning_z(primitive.axis)


def _nearest_coordinate_axis(axis: Array) -> Array:
    """Signed coordinate axis nearest to a unit axis."""
    values, exact = axis.tolist(), np.zeros(3)
    k = max(range(3), key=lambda i: abs(values[i]))
    exact[k] = math.copysign(1.0, values[k])
    return exact


def _with_axis(primitive: PrimitiveJoint, axis: Array) -> PrimitiveJoint:
    """Copy of a primitive joint with another axis."""
    return PrimitiveJoint(
        type=primitive.type,
        joint=primitive.joint,
        axis=axis,
        pitch=primitive.pitch,
        reference=primitive.reference,
        inverted=primitive.inverted,
        q_offset=primitive.q_offset,
        dof_offset=primitive.dof_offset,
    )


def snap_pose(pose: Pose) -> Pose:
    """Pose with entries that differ from 0, 1 or -1 by rounding only set to these values."""
    position = [0.0 if abs(x) < ROUNDING_TOLERANCE else x for x in pose.position.tolist()]
    rotation = [[_snap_entry(x) for x in row] for row in pose.rotation.tolist()]
    return Pose(np.array(position), np.array(rotation))


def _snap_entry(value: float) -> float:
    """Entry of a rotation matrix, exactly 0, 1 or -1 if it differs from that by rounding only."""
    if abs(value) < ROUNDING_TOLERANCE:
        return 0.0
    return math.copysign(1.0, value) if abs(abs(value) - 1.0) < ROUNDING_TOLERANCE else value


# ----------------------------------------------------------------------------------------------------- breakable joints
#
# A breakable joint is simulated as an equality constraint: joints of the kinematic tree cannot be removed at run time.

UNBREAKABLE_FORCE = 1e30
"""Break forces from this value on count as infinite: single-precision formats write the largest float."""


def is_breakable(joint: Joint) -> bool:
    """Whether a joint has a finite break force or torque; free joints do not break."""
    return min(joint.break_force, joint.break_torque) < UNBREAKABLE_FORCE and joint.kind is not JointKind.FREE


def shares_links_with_stacked_joint(robot: Robot, joint: Joint) -> bool:
    """Whether another joint in series connects the same two links (stacked joints, whose motions add up).

    A breakable joint of that kind remains in the tree.
    """
    links = (joint.parent, joint.child)
    return any(other.stacked for other in robot.joints if (other.parent, other.child) == links)


def tree_without_breakable_joints(robot: Robot) -> KinematicTree:
    """Spanning tree of a robot in which breakable joints are loop joints, so that they become equality constraints.

    Breakable joints that share their links with another joint stay in the tree.
    """
    breakable = [
        joint
        for joint in robot.joints
        if joint.enabled
        and is_breakable(joint)
        and not robot.static
        and not shares_links_with_stacked_joint(robot, joint)
    ]
    if not breakable:
        return robot.tree()
    breakable_ids = {id(joint) for joint in breakable}
    joints = [replace(joint, closes_loop=True) if id(joint) in breakable_ids else joint for joint in robot.joints]
    return spanning_tree(robot.links, joints, robot.root)


def breakable_tree_joints(robot: Robot) -> list[Joint]:
    """Breakable joints that would be part of the spanning tree if they were unbreakable."""
    if not any(map(is_breakable, robot.joints)):
        return []
    return [j for edge in robot.tree().edges for j in edge.joints if is_breakable(j)]


# --------------------------------------------------------------------------------------------------------------- limits
#
# Limits are soft constraints (solref, solimp), or explicit spring-dampers where a file gives a stiffness.

RESTITUTION_TIME_CONSTANT = 0.02
"""Time constant of a limit with restitution [s] (contact time divided by pi): MuJoCo's default."""
RESTITUTION_SOLIMP = (0.95, 0.95, 0.001, 0.5, 2.0)
MIN_DAMPING_RATIO = 1e-3
"""Damping ratio for a coefficient of restitution of 1."""


def axis_limits(joint: Joint, axis: Axis, diagnostics: Diagnostics) -> tuple[float, float]:
    """Lower and upper limit of a joint axis; infinite, with a warning, if the lower limit exceeds the upper one."""
    if axis.lower <= axis.upper:
        return axis.lower, axis.upper
    message = (
        f'the limits of joint "{joint.name}" are left out: the lower one, {axis.lower:g}, is above the upper one, '
    )
    diagnostics.warning(
        "sim.reversed-limits", f"{message}{axis.upper:g}", hint="swap or remove the limits", origin=joint.origin
    )
    return -math.inf, math.inf


def limit_spring(joint: Joint, axis: Axis) -> tuple[float, float]:
    """Stiffness and damping of the limits of a joint axis [N/m, N s/m or N m/rad, N m s/rad].

    From USD limit attributes (Newton, PhysX; per degree) or SDFormat limits. Zeros if the file gives MuJoCo's solref or
    no finite positive stiffness.
    """
    if axis.limit_solver.solref is not None or not joint.attributes:
        return 0.0, 0.0
    degree = math.pi / 180.0 if axis.motion is AxisMotion.ROTATION else 1.0
    for attributes in _usd_limit_attributes(joint, axis):
        stiffness, damping = (_usd_attribute(joint, name) for name in attributes[:2])
        if stiffness is not None and 0.0 < stiffness < math.inf:
            return stiffness / degree, (damping or 0.0) / degree
    axis_idx = next((i for i, a in enumerate(joint.axes) if a is axis), 0)
    if axis_idx < len(sdf.AXES):
        values = [
            joint.attributes.get(sdf.attribute_key(sdf.axis_key(sdf.AXES[axis_idx], sdf.limit_key(setting))))
            for setting in sdf.LIMIT_SETTINGS
        ]
        if values[0] is not None and 0.0 < values[0] < math.inf:
            return float(values[0]), float(values[1] or 0.0)
    return 0.0, 0.0


def limit_solver_parameters(joint: Joint, axis: Axis) -> SolverParameters:
    """Solver parameters (solref, solimp) of the limits of a joint axis.

    The parameters of the file, or parameters that reproduce the coefficient of restitution given in USD.
    """
    solver = axis.limit_solver
    if solver.solref is not None or solver.solimp is not None or not joint.attributes:
        return solver
    for attributes in _usd_limit_attributes(joint, axis):
        restitution = _usd_attribute(joint, attributes[2])
        if restitution is not None and restitution > 0.0:
            ratio = damping_ratio_from_restitution(min(restitution, 1.0))
            return SolverParameters(
                solref=(RESTITUTION_TIME_CONSTANT / ratio, ratio), solimp=RESTITUTION_SOLIMP, margin=solver.margin
            )
    return solver


@lru_cache(maxsize=256)
def damping_ratio_from_restitution(restitution: float) -> float:
    """Damping ratio z of a linear spring-damper contact with a given coefficient of restitution, by bisection.

    Inverts e = exp(-z / sqrt(1 - z^2) (pi - 2 asin z)).
    """
    low, high = MIN_DAMPING_RATIO, 1.0
    for _ in range(60):
        z = 0.5 * (low + high)
        value = exponential(-z / math.sqrt(1.0 - z * z) * (math.pi - 2.0 * arc_sine(z)))
        low, high = (z, high) if value > restitution else (low, z)
    return 0.5 * (low + high)


def _usd_limit_attributes(joint: Joint, axis: Axis) -> list[tuple[str, str, str]]:
    """Names of the USD attributes for stiffness, damping and restitution of the limits of a joint axis.

    First those of Newton, then those of PhysX for the joint kind and axis.
    """
    axis_idx = next((i for i, a in enumerate(joint.axes) if a is axis), 0)
    tokens = {
        JointKind.REVOLUTE: [usd_physics.ANGULAR],
        JointKind.CONTINUOUS: [usd_physics.ANGULAR],
        JointKind.PRISMATIC: [usd_physics.LINEAR],
        JointKind.SPHERICAL: [physx.CONE_LIMIT],
        JointKind.SIX_AXIS: [usd_physics.DOF_TOKENS[axis_idx % len(usd_physics.DOF_TOKENS)]],
    }.get(joint.kind, [])
    properties = (physx.LIMIT_STIFFNESS, physx.LIMIT_DAMPING, physx.LIMIT_RESTITUTION)
    physx_attributes = [tuple(physx.limit_attribute(token, name) for name in properties) for token in tokens]
    return [(newton.LIMIT_STIFFNESS, newton.LIMIT_DAMPING, ""), *physx_attributes]  # type: ignore[list-item]  # ty: ignore[invalid-explicit-return]


def _usd_attribute(joint: Joint, name: str) -> float | None:
    _, value = joint.attributes.get(usd.PRESERVED_PREFIX + name, ("", None))
    return float(value) if isinstance(value, int | float) else None
