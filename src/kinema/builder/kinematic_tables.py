"""Tables of entities, links, joints, moving frames and degrees of freedom.

Also polynomial springs and dampers of MJCF, and the reflected inertia and damping of actuators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from itertools import accumulate

import numpy as np
import numpy.typing as npt

from kinema.core import Array
from kinema.description import Actuator, Axis, Joint, JointKind, Node, Transmission
from kinema.model import (
    PRIMITIVE_JOINT_SIZES,
    DofsInfo,
    EntityInfo,
    FramesInfo,
    JointsInfo,
    LinksInfo,
    PrimitiveJointType,
)
from kinema.tokens import mjcf

from .context import BuildContext, JointRecord, LinkRecord, all_elements, find_joint
from .joints import PrimitiveJoint, axis_limits, limit_solver_parameters, limit_spring

# --------------------------------------------------------------------------------------- polynomial springs and dampers


def polynomial_coefficients(node: Node, name: str) -> Array:
    """Quadratic and cubic coefficients of a spring or damper (MJCF `stiffnesspoly`, `dampingpoly`), shape (2,)."""
    return np.array(node.attributes.get(mjcf.attribute_key(name)) or (0.0, 0.0), np.float64)


def spring_yield_distance(node: Node) -> float:
    """Deflection at which a spring yields plastically (MJCF `springyield`); infinite by default."""
    return float(node.attributes.get(mjcf.attribute_key(mjcf.SPRINGYIELD)) or np.inf)


def joint_spring_damper_polynomials(ctx: BuildContext) -> tuple[Array, Array, Array]:
    """Nonlinear spring and damper coefficients per dof: damping (n, 2), stiffness (n, 2), and yield displacement (n,).

    MJCF's polynomial coefficients beyond the linear term; zeros where a joint has none. The yield displacement is
    infinite for elastic springs.
    """
    joint_of_dof = [joint for joint in ctx.joints for _ in joint.description.moving_axes]
    dampers = [polynomial_coefficients(joint.description, mjcf.DAMPINGPOLY) for joint in joint_of_dof]
    springs = {id(joint): _joint_stiffness_polynomial(ctx, joint) for joint in ctx.joints}
    return (
        np.array(dampers, np.float64).reshape(-1, 2),
        np.array([springs[id(joint)] for joint in joint_of_dof], np.float64).reshape(-1, 2),
        np.array([spring_yield_distance(joint.description) for joint in joint_of_dof], np.float64),
    )


def _joint_stiffness_polynomial(ctx: BuildContext, joint: JointRecord) -> Array:
    """Stiffness polynomial of a joint, shape (2,); zeros, with a warning, for a free joint, whose spring is linear."""
    coefficients = polynomial_coefficients(joint.description, mjcf.STIFFNESSPOLY)
    if joint.description.kind is not JointKind.FREE or not coefficients.any():
        return coefficients
    message = f'the spring of the free joint "{joint.name}" is simulated as linear'
    ctx.diagnostics.warning("sim.polynomial", message, origin=joint.description.origin)
    return np.zeros(2)


# ---------------------------------------------------------------------------------------------------- reflected inertia

N_POLYNOMIAL_COEFFICIENTS = 2
"""Coefficients of a damping polynomial beyond the linear term."""


def _zero_polynomial() -> Array:
    return np.zeros(N_POLYNOMIAL_COEFFICIENTS)


@dataclass(slots=True, eq=False)
class ReflectedInertia:
    """Armature and damping that actuators add to one joint or tendon, reflected through their gear."""

    armature: float = 0.0
    damping: float = 0.0
    damping_poly: Array = field(default_factory=_zero_polynomial)
    """Quadratic and cubic damping coefficients, (2,)."""

    def add(self, actuator: Actuator) -> None:
        """Add the armature and damping of an actuator, multiplied by the square of its gear ratio."""
        settings, gear_squared = actuator.settings, actuator.gear[0] ** 2
        self.armature += gear_squared * settings.get(mjcf.ARMATURE, 0.0)
        self.damping += gear_squared * settings.get(mjcf.DAMPING, 0.0)
        self.damping_poly = self.damping_poly + gear_squared * np.array(
            settings.get(mjcf.DAMPINGPOLY, (0.0,) * N_POLYNOMIAL_COEFFICIENTS)
        )


def has_reflected_inertia(actuator: Actuator) -> bool:
    """Whether an actuator has armature or damping."""
    return any(np.any(actuator.settings.get(name, 0.0)) for name in (mjcf.ARMATURE, mjcf.DAMPING, mjcf.DAMPINGPOLY))


def reflected_inertia_of_tendons(ctx: BuildContext, entity: int) -> dict[str, ReflectedInertia]:
    """Armature and damping that the actuators of an entity add to its tendons, by tendon name."""
    result: dict[str, ReflectedInertia] = {}
    for actuator in all_elements(ctx.entities[entity].description, "actuators"):
        if actuator.transmission is Transmission.TENDON and has_reflected_inertia(actuator):
            result.setdefault(actuator.target, ReflectedInertia()).add(actuator)
    return result


def with_reflected_inertia(ctx: BuildContext, dofs: DofsInfo) -> DofsInfo:
    """Table of dofs with armature (reflected rotor inertia) and damping of joint actuators added to their dofs."""
    armature, damping, damping_poly = dofs.armature.copy(), dofs.damping.copy(), dofs.damping_poly.copy()
    for entity, spec in enumerate(ctx.entities):
        for actuator in all_elements(spec.description, "actuators"):
            if not has_reflected_inertia(actuator):
                continue
            joint = find_joint(ctx, entity, actuator.target)
            if actuator.transmission not in (Transmission.JOINT, Transmission.JOINT_IN_PARENT) or joint is None:
                continue
            reflected, joint_dofs = (
                ReflectedInertia(),
                slice(joint.dof_start, joint.dof_start + joint.description.n_dofs),
            )
            reflected.add(actuator)
            armature[joint_dofs] += reflected.armature
            damping[joint_dofs] += reflected.damping
            damping_poly[joint_dofs] += reflected.damping_poly
    return replace(dofs, armature=armature, damping=damping, damping_poly=damping_poly)


# --------------------------------------------------------------------------------------------------------------- tables

IDENTITY_QUATERNION = np.array([1.0, 0.0, 0.0, 0.0])
DEFAULT_SOLREF = (0.02, 1.0)
DEFAULT_SOLIMP = (0.9, 0.95, 0.001, 0.5, 2.0)
"""MuJoCo's default solref and solimp."""


def _int_array(values: object) -> npt.NDArray[np.int32]:
    return np.array(list(values), dtype=np.int32)  # type: ignore[call-overload]


def _float_table(values: list[Array], row_shape: tuple[int, ...]) -> Array:
    return np.array(values, dtype=np.float64).reshape((len(values), *row_shape))


def pack_links(ctx: BuildContext) -> LinksInfo:
    """Table of links: parent, moving frame and pose in it, inertia, and ranges of coordinates, dofs and geoms."""
    links = ctx.links
    inertials = [link.description.inertial for link in links]
    geoms = np.cumsum([0, *(len(link.description.collisions) for link in links)])
    return LinksInfo(
        names=[link.name for link in links],
        parent_idx=_int_array(-1 if link.parent is None else link.parent.index for link in links),
        entity_idx=_int_array(link.entity for link in links),
        is_fixed=np.array([link.frame_idx == -1 for link in links], dtype=np.bool_),
        q_start=_int_array(_coordinate_start(link)[0] for link in links),
        q_end=_int_array(_coordinate_start(link)[0] + sum(j.description.n_qs for j in link.joints) for link in links),
        dof_start=_int_array(_coordinate_start(link)[1] for link in links),
        dof_end=_int_array(
            _coordinate_start(link)[1] + sum(j.description.n_dofs for j in link.joints) for link in links
        ),
        frame_idx=_int_array(link.frame_idx for link in links),
        pos=_float_table([link.pose_in_frame.position for link in links], (3,)),
        rot=_float_table([link.pose_in_frame.rotation for link in links], (3, 3)),
        inertial_mass=np.array([0.0 if inertial is None else inertial.mass for inertial in inertials]),
        inertial_pos=_float_table(
            [np.zeros(3) if inertial is None else inertial.center for inertial in inertials], (3,)
        ),
        inertial_i=_float_table(
            [np.zeros((3, 3)) if inertial is None else inertial.inertia for inertial in inertials], (3, 3)
        ),
        gravity_scale=np.array([link.description.gravity_scale for link in links]),
        is_simple_slider=np.array([_is_simple_slider(link) for link in links], dtype=np.bool_),
        sleep=[_sleep_policy(link) for link in links],
        geom_start=_int_array(geoms[:-1]),
        geom_end=_int_array(geoms[1:]),
    )


def _is_simple_slider(link: LinkRecord) -> bool:
    """Whether MuJoCo's diagonal approximation of a simple slider body applies to a link.

    The file marks the link so, its joints are all prismatic, and its parent is static.
    """
    kinds = {j.description.kind for j in link.joints}
    has_static_parent = link.parent is None or link.parent.frame_idx == -1
    return (
        bool(link.description.attributes.get(mjcf.attribute_key(mjcf.SIMPLE_SLIDER_BODY)))
        and has_static_parent
        and kinds == {JointKind.PRISMATIC}
    )


def _sleep_policy(link: LinkRecord) -> str:
    """Sleep policy of a link in its file (MJCF `sleep`), `init` if it starts asleep, else empty."""
    policy = str(link.description.attributes.get(mjcf.attribute_key(mjcf.SLEEP), ""))
    return policy or ("init" if link.description.starts_asleep else "")


def _coordinate_start(link: LinkRecord) -> tuple[int, int]:
    """First coordinate and first dof of the joints of a link, or of its nearest ancestor with joints.

    (0, 0) for none.
    """
    if link.joints:
        return min(j.q_start for j in link.joints), min(j.dof_start for j in link.joints)
    return (0, 0) if link.parent is None else _coordinate_start(link.parent)


def pack_joints(ctx: BuildContext) -> JointsInfo:
    """Table of the joints of the kinematic tree: kind, link, ranges of coordinates and dofs."""
    joints = ctx.joints
    return JointsInfo(
        names=[joint.name for joint in joints],
        kinds=[joint.description.kind.value for joint in joints],
        link_idx=_int_array(-1 if joint.link is None else joint.link.index for joint in joints),
        q_start=_int_array(joint.q_start for joint in joints),
        q_end=_int_array(joint.q_start + joint.description.n_qs for joint in joints),
        dof_start=_int_array(joint.dof_start for joint in joints),
        dof_end=_int_array(joint.dof_start + joint.description.n_dofs for joint in joints),
    )


def pack_frames(ctx: BuildContext) -> FramesInfo:
    """Table of moving frames, one per primitive joint of the kinematic tree.

    Parent, pose, joint type, axis, pitch, reference, spring rest orientation, cone limit, and first coordinate and dof.
    """
    frames = ctx.frames
    return FramesInfo(
        parent_idx=_int_array(parent for parent, _, _ in frames),
        joint_type=_int_array(int(placed.primitive.type) for _, placed, _ in frames),
        pos=_float_table([placed.pose.position for _, placed, _ in frames], (3,)),
        rot=_float_table([placed.pose.rotation for _, placed, _ in frames], (3, 3)),
        axis=_float_table([placed.primitive.axis for _, placed, _ in frames], (3,)),
        pitch=np.array([placed.primitive.pitch for _, placed, _ in frames]),
        reference=np.array([placed.primitive.reference for _, placed, _ in frames]),
        inverted=np.array([placed.primitive.inverted for _, placed, _ in frames], dtype=np.bool_),
        spring_quat=_float_table(
            [
                IDENTITY_QUATERNION
                if joint_idx < 0
                else _spring_quaternion(placed.primitive, ctx.joints[joint_idx].initial_q)
                for _, placed, joint_idx in frames
            ],
            (4,),
        ),
        cone=_float_table([_cone_angles(placed.primitive) for _, placed, _ in frames], (2,)),
        cone_axis=_int_array(
            placed.primitive.joint.cone.axis if placed.primitive.joint.cone else 0 for _, placed, _ in frames
        ),
        q_start=_int_array(
            0 if joint_idx < 0 else ctx.joints[joint_idx].q_start + placed.primitive.q_offset
            for _, placed, joint_idx in frames
        ),
        dof_start=_int_array(
            0 if joint_idx < 0 else ctx.joints[joint_idx].dof_start + placed.primitive.dof_offset
            for _, placed, joint_idx in frames
        ),
    )


def _cone_angles(primitive: PrimitiveJoint) -> Array:
    """Cone limit angles [rad] of a ball, shape (2,).

    Infinite without a cone or if it limits the total rotation angle.
    """
    cone = primitive.joint.cone
    if cone is None or cone.total or primitive.type is not PrimitiveJointType.BALL:
        return np.full(2, np.inf)
    return np.array([cone.angle_y, cone.angle_z])


def _dof_limits(ctx: BuildContext, joint: Joint, axis: Axis) -> tuple[float, float]:
    """Lower and upper limit of a dof; for a ball with a limited total rotation angle, 0 and that angle."""
    if joint.kind is JointKind.SPHERICAL and joint.cone is not None and joint.cone.total:
        return 0.0, joint.cone.angle_y
    return axis_limits(joint, axis, ctx.diagnostics)


def _spring_quaternion(primitive: PrimitiveJoint, initial_q: Array) -> Array:
    """Rest orientation of the spring of a ball as a quaternion, as in MuJoCo.

    The identity for a spherical joint; the initial orientation for a free joint with a spring.
    """
    if (
        primitive.joint.kind is JointKind.FREE
        and primitive.type is PrimitiveJointType.BALL
        and any(axis.stiffness for axis in primitive.joint.axes)
    ):
        return initial_q[3:7]
    return IDENTITY_QUATERNION


def pack_dofs(ctx: BuildContext) -> DofsInfo:
    """Table of degrees of freedom: passive forces, limits, friction, effort limits, and the drives given by files."""
    axes = [axis for joint in ctx.joints for axis in joint.description.moving_axes]
    frame_of = {}
    for i, (_, placed, joint) in enumerate(ctx.frames):
        for component in range(PRIMITIVE_JOINT_SIZES[placed.primitive.type][1]):
            frame_of[ctx.joints[joint].dof_start + placed.primitive.dof_offset + component] = i
    drives = [axis.drive for axis in axes]
    efforts = np.array(
        [_effort_limits(joint.description, axis) for joint in ctx.joints for axis in joint.description.moving_axes]
    ).reshape(-1, 2)
    limits = np.array(
        [_dof_limits(ctx, joint.description, axis) for joint in ctx.joints for axis in joint.description.moving_axes]
    )
    limits = limits.reshape(-1, 2)
    damping_poly, stiffness_poly, spring_yield = joint_spring_damper_polynomials(ctx)
    limit_solvers = [
        limit_solver_parameters(joint.description, axis)
        for joint in ctx.joints
        for axis in joint.description.moving_axes
    ]
    max_drive_force = np.array(
        [dof_axis.drive.max_force if dof_axis.drive else np.inf for dof_axis in axes], dtype=np.float64
    )

    def column(name: str) -> Array:
        return np.array([getattr(dof_axis, name) for dof_axis in axes], dtype=np.float64)

    def drive_column(name: str) -> Array:
        return np.array([0.0 if drive is None else getattr(drive, name) for drive in drives], dtype=np.float64)

    return DofsInfo(
        names=[dof_name for joint in ctx.joints for dof_name in _dof_names(joint.description)],
        frame_idx=_int_array(frame_of[i] for i in range(len(axes))),
        q_idx=_int_array(q for joint in ctx.joints for q in _dof_coordinates(joint.description, joint.q_start)),
        armature=column("armature"),
        damping=column("damping"),
        damping_poly=damping_poly,
        stiffness=column("stiffness"),
        stiffness_poly=stiffness_poly,
        spring_yield=spring_yield,
        spring_ref=column("spring_reference"),
        frictionloss=column("friction"),
        lower=limits[:, 0],
        upper=limits[:, 1],
        limit_solref=_float_table([np.array(solver.solref or DEFAULT_SOLREF) for solver in limit_solvers], (2,)),
        limit_solimp=_float_table([np.array(solver.solimp or DEFAULT_SOLIMP) for solver in limit_solvers], (5,)),
        limit_spring=_float_table(
            [
                np.array(limit_spring(joint.description, dof_axis))
                for joint in ctx.joints
                for dof_axis in joint.description.moving_axes
            ],
            (2,),
        ),
        friction_solref=_float_table(
            [np.array(dof_axis.friction_solver.solref or DEFAULT_SOLREF) for dof_axis in axes], (2,)
        ),
        friction_solimp=_float_table(
            [np.array(dof_axis.friction_solver.solimp or DEFAULT_SOLIMP) for dof_axis in axes], (5,)
        ),
        limit_margin=np.array([dof_axis.limit_solver.margin for dof_axis in axes], dtype=np.float64),
        effort_lower=efforts[:, 0],
        effort_upper=efforts[:, 1],
        kp=drive_column("stiffness"),
        kv=drive_column("damping"),
        force_lower=np.maximum(efforts[:, 0], -max_drive_force),
        force_upper=np.minimum(efforts[:, 1], max_drive_force),
        target_pos=drive_column("target_position"),
        target_vel=drive_column("target_velocity"),
        acceleration_drive=np.array(
            [drive is not None and drive.type.value == "acceleration" for drive in drives], dtype=np.bool_
        ),
        actuator_gravcomp=np.array(
            [_has_actuator_gravcomp(joint.description) for joint in ctx.joints for _ in joint.description.moving_axes],
            dtype=np.bool_,
        ),
    )


def _has_actuator_gravcomp(joint: Joint) -> bool:
    return bool(joint.attributes.get(mjcf.attribute_key(mjcf.ACTUATORGRAVCOMP)))


def _effort_limits(joint: Joint, axis: Axis) -> tuple[float, float]:
    """Lower and upper bound of the total actuator force on a dof [N or N m].

    MuJoCo's possibly asymmetric `actuatorfrcrange`, unless the effort of the axis was changed since; else +-effort.
    """
    force_range = joint.attributes.get(mjcf.attribute_key(mjcf.ACTUATORFRCRANGE), ())
    if len(force_range) == 2 and max(map(abs, force_range)) == axis.effort:  # unless the effort was changed since
        return float(force_range[0]), float(force_range[1])
    return -axis.effort, axis.effort


def _dof_names(joint: Joint) -> list[str]:
    axes: list[Axis] = joint.moving_axes
    return [joint.name] if len(axes) == 1 else [f"{joint.name}[{i}]" for i in range(len(axes))]


def _dof_coordinates(joint: Joint, q_start: int) -> list[int]:
    """Index of the coordinate of each dof of a joint; -1 for dofs whose coordinates are a quaternion."""
    if joint.kind is JointKind.FREE:
        return [q_start, q_start + 1, q_start + 2, -1, -1, -1]
    if joint.kind is JointKind.SPHERICAL:
        return [-1, -1, -1]
    return list(range(q_start, q_start + joint.n_dofs))


def pack_entities(ctx: BuildContext, actuator_entities: list[int]) -> list[EntityInfo]:
    """Names and index ranges of links, joints, coordinates, dofs and actuators of each entity in the model's tables."""
    n_entities = len(ctx.entities)
    joint_entities = [joint.entity for joint in ctx.joints]
    links = _range_starts([link.entity for link in ctx.links], n_entities)
    joints = _range_starts(joint_entities, n_entities)
    qs = _range_starts(joint_entities, n_entities, [joint.description.n_qs for joint in ctx.joints])
    dofs = _range_starts(joint_entities, n_entities, [joint.description.n_dofs for joint in ctx.joints])
    actuators = _range_starts(actuator_entities, n_entities)
    return [
        EntityInfo(
            name=spec.name,
            link_start=links[i],
            link_end=links[i + 1],
            joint_start=joints[i],
            joint_end=joints[i + 1],
            q_start=qs[i],
            q_end=qs[i + 1],
            dof_start=dofs[i],
            dof_end=dofs[i + 1],
            actuator_start=actuators[i],
            actuator_end=actuators[i + 1],
        )
        for i, spec in enumerate(ctx.entities)
    ]


def _range_starts(entities: Sequence[int], n_entities: int, sizes: Sequence[int] | None = None) -> list[int]:
    """First index of each entity, and the end of the last one, in a table whose rows are sorted by entity.

    Args:
        entities: entity of each row, or of each group of rows.
        n_entities: number of entities.
        sizes: number of rows of each group; None for one each.
    """
    counts = [0] * (n_entities + 1)
    for entity, size in zip(entities, [1] * len(entities) if sizes is None else sizes, strict=True):
        counts[entity + 1] += size
    return list(accumulate(counts))


def initial_coordinates(ctx: BuildContext) -> Array:
    """Initial coordinates qpos0 of the scene, shape (n_qs,)."""
    return np.concatenate([np.zeros(0), *(joint.initial_q for joint in ctx.joints)])
