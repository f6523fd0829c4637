"""Tables of entities, links, joints, moving frames and degrees of freedom.

Also polynomial springs and dampers of MJCF, and the reflected inertia and damping of actuators.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from operator import attrgetter

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

from .context import BuildContext, JointRecord, LinkRecord, all_elements, find_joint, range_starts
from .joints import PlacedPrimitiveJoint, PrimitiveJoint, axis_limits, limit_solver_parameters, limit_spring

# --------------------------------------------------------------------------------------- polynomial springs and dampers


def polynomial_coefficients(node: Node, name: str) -> Array:
    """Quadratic and cubic coefficients of a spring or damper (MJCF `stiffnesspoly`, `dampingpoly`), shape (2,)."""
    values = node.attributes and node.attributes.get(mjcf.attribute_key(name))
    return np.array(values, np.float64) if values else np.zeros(N_POLYNOMIAL_COEFFICIENTS)


def spring_yield_distance(node: Node) -> float:
    """Deflection at which a spring yields plastically (MJCF `springyield`); infinite by default."""
    return float(node.attributes.get(mjcf.attribute_key(mjcf.SPRINGYIELD)) or np.inf)


def joint_spring_damper_polynomials(ctx: BuildContext) -> tuple[Array, Array, Array]:
    """Nonlinear spring and damper coefficients per dof: damping (n, 2), stiffness (n, 2), and yield displacement (n,).

    MJCF's polynomial coefficients beyond the linear term; zeros where a joint has none. The yield displacement is
    infinite for elastic springs.
    """
    n_dofs = [joint.n_dofs for joint in ctx.joints]
    dampers = [polynomial_coefficients(joint.description, mjcf.DAMPINGPOLY) for joint in ctx.joints]
    springs = [_joint_stiffness_polynomial(ctx, joint) for joint in ctx.joints]
    yields = [spring_yield_distance(joint.description) for joint in ctx.joints]
    return (
        np.repeat(np.array(dampers, np.float64).reshape(-1, 2), n_dofs, axis=0),
        np.repeat(np.array(springs, np.float64).reshape(-1, 2), n_dofs, axis=0),
        np.repeat(np.array(yields, np.float64), n_dofs),
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
                slice(joint.dof_start, joint.dof_start + joint.n_dofs),
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
    starts = [(_coordinate_start(link), link) for link in links]
    geoms = np.cumsum([0, *(len(link.description.collisions) for link in links)])
    return LinksInfo(
        names=[link.name for link in links],
        parent_idx=_int_array(-1 if link.parent is None else link.parent.index for link in links),
        entity_idx=_int_array(link.entity for link in links),
        is_fixed=np.array([link.frame_idx == -1 for link in links], dtype=np.bool_),
        q_start=_int_array(start for (start, _), _ in starts),
        q_end=_int_array(start + sum(j.n_qs for j in link.joints) for (start, _), link in starts),
        dof_start=_int_array(start for (_, start), _ in starts),
        dof_end=_int_array(start + sum(j.n_dofs for j in link.joints) for (_, start), link in starts),
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
        q_end=_int_array(joint.q_start + joint.n_qs for joint in joints),
        dof_start=_int_array(joint.dof_start for joint in joints),
        dof_end=_int_array(joint.dof_start + joint.n_dofs for joint in joints),
    )


def pack_frames(ctx: BuildContext) -> FramesInfo:
    """Table of moving frames, one per primitive joint of the kinematic tree.

    Parent, pose, joint type, axis, pitch, reference, spring rest orientation, cone limit, and first coordinate and dof.
    """
    frames = ctx.frames
    placed, row_of_frame = _distinct_placed_joints(ctx)
    primitives = [x.primitive for x in placed]
    joints = [ctx.joints[joint_idx] if joint_idx >= 0 else None for _, _, joint_idx in frames]

    def of_frames(values: npt.NDArray) -> npt.NDArray:
        return values[row_of_frame]

    joint_type = of_frames(_int_array(int(x.type) for x in primitives))
    spring_quat = np.tile(IDENTITY_QUATERNION, (len(frames), 1))
    for i in np.flatnonzero(joint_type == PrimitiveJointType.BALL).tolist():
        joint = joints[i]
        if joint is not None:
            spring_quat[i] = _spring_quaternion(frames[i][1].primitive, joint.initial_q)
    return FramesInfo(
        parent_idx=_int_array(parent for parent, _, _ in frames),
        joint_type=joint_type,
        pos=of_frames(_float_table([x.pose.position for x in placed], (3,))),
        rot=of_frames(_float_table([x.pose.rotation for x in placed], (3, 3))),
        axis=of_frames(_float_table([x.axis for x in primitives], (3,))),
        pitch=of_frames(np.array([x.pitch for x in primitives], np.float64)),
        reference=of_frames(np.array([x.reference for x in primitives], np.float64)),
        inverted=of_frames(np.array([x.inverted for x in primitives], dtype=np.bool_)),
        spring_quat=spring_quat,
        cone=of_frames(_float_table([_cone_angles(x) for x in primitives], (2,))),
        cone_axis=of_frames(_int_array(x.joint.cone.axis if x.joint.cone else 0 for x in primitives)),
        q_start=_int_array(
            0 if joint is None else joint.q_start + x.primitive.q_offset
            for joint, (_, x, _) in zip(joints, frames, strict=True)
        ),
        dof_start=_int_array(
            0 if joint is None else joint.dof_start + x.primitive.dof_offset
            for joint, (_, x, _) in zip(joints, frames, strict=True)
        ),
    )


def _distinct_placed_joints(ctx: BuildContext) -> tuple[list[PlacedPrimitiveJoint], npt.NDArray[np.intp]]:
    """Primitive joints of distinct rows of the table of frames, and the index of the row of each frame, (n_frames,).

    Bodies of equal structure share poses and axes (`place_primitive_joints`), by whose identity rows are compared.
    """
    placed, index = list[PlacedPrimitiveJoint](), list[int]()
    row_of_key: dict[tuple, int] = {}
    for _, x, _ in ctx.frames:
        primitive = x.primitive
        settings = (primitive.type, primitive.pitch, primitive.reference, primitive.inverted)
        row = row_of_key.setdefault((id(x.pose), id(primitive.axis), id(primitive.joint.cone), settings), len(placed))
        if row == len(placed):
            placed.append(x)
        index.append(row)
    return placed, np.array(index, np.intp)


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


_AXIS_SETTINGS = attrgetter(
    *("armature", "damping", "stiffness", "spring_reference", "friction", "lower", "upper", "effort"),
    *("drive", "limit_solver", "friction_solver"),
)
"""Settings of an axis of a free joint on which its row in the table of dofs depends."""


def _distinct_axes(ctx: BuildContext) -> tuple[list[tuple[Joint, Axis]], npt.NDArray[np.intp]]:
    """Joints and axes of distinct rows of the table of dofs, and the index of the row of each dof, (n_dofs,).

    Free joints have equal rows if the settings of their axes are equal, so that the columns of many free bodies are
    computed for one of them; every dof of other joints has a row of its own.
    """
    rows, index = list[tuple[Joint, Axis]](), list[int]()
    row_of_settings: dict[tuple, int] = {}
    rows_of_joint: dict[int, list[int]] = {}
    for record in ctx.joints:
        joint = record.description
        if joint.kind is not JointKind.FREE or joint.attributes:
            index += range(len(rows), len(rows) + record.n_dofs)
            rows += ((joint, axis) for axis in record.moving_axes)
            continue
        if id(joint) not in rows_of_joint:
            own = rows_of_joint[id(joint)] = []
            for axis in record.moving_axes:
                own.append(row_of_settings.setdefault(_AXIS_SETTINGS(axis), len(rows)))
                if own[-1] == len(rows):
                    rows.append((joint, axis))
        index += rows_of_joint[id(joint)]
    return rows, np.array(index, np.intp)


def pack_dofs(ctx: BuildContext) -> DofsInfo:
    """Table of degrees of freedom: passive forces, limits, friction, effort limits, and the drives given by files."""
    rows, row_of_dof = _distinct_axes(ctx)
    axes = [axis for _, axis in rows]
    drives = [axis.drive for axis in axes]
    efforts = np.array([_effort_limits(joint, axis) for joint, axis in rows]).reshape(-1, 2)
    limits = np.array([_dof_limits(ctx, joint, axis) for joint, axis in rows]).reshape(-1, 2)
    damping_poly, stiffness_poly, spring_yield = joint_spring_damper_polynomials(ctx)
    limit_solvers = [limit_solver_parameters(joint, axis) for joint, axis in rows]
    max_drive_force = np.array([axis.drive.max_force if axis.drive else np.inf for axis in axes], dtype=np.float64)

    def of_dofs(values: npt.NDArray) -> npt.NDArray:
        return values[row_of_dof]

    def column(name: str) -> Array:
        return of_dofs(np.array([getattr(axis, name) for axis in axes], dtype=np.float64))

    def drive_column(name: str) -> Array:
        return of_dofs(np.array([0.0 if x is None else getattr(x, name) for x in drives], dtype=np.float64))

    def table(values: list, width: int) -> Array:
        return of_dofs(np.array(values, dtype=np.float64).reshape(len(rows), width))

    return DofsInfo(
        names=[dof_name for joint in ctx.joints for dof_name in _dof_names(joint)],
        frame_idx=_frames_of_dofs(ctx),
        q_idx=_int_array(q for joint in ctx.joints for q in _dof_coordinates(joint)),
        armature=column("armature"),
        damping=column("damping"),
        damping_poly=damping_poly,
        stiffness=column("stiffness"),
        stiffness_poly=stiffness_poly,
        spring_yield=spring_yield,
        spring_ref=column("spring_reference"),
        frictionloss=column("friction"),
        lower=of_dofs(limits[:, 0]),
        upper=of_dofs(limits[:, 1]),
        limit_solref=table([solver.solref or DEFAULT_SOLREF for solver in limit_solvers], 2),
        limit_solimp=table([solver.solimp or DEFAULT_SOLIMP for solver in limit_solvers], 5),
        limit_spring=table([limit_spring(joint, axis) for joint, axis in rows], 2),
        friction_solref=table([axis.friction_solver.solref or DEFAULT_SOLREF for axis in axes], 2),
        friction_solimp=table([axis.friction_solver.solimp or DEFAULT_SOLIMP for axis in axes], 5),
        limit_margin=of_dofs(np.array([axis.limit_solver.margin for axis in axes], dtype=np.float64)),
        effort_lower=of_dofs(efforts[:, 0]),
        effort_upper=of_dofs(efforts[:, 1]),
        kp=drive_column("stiffness"),
        kv=drive_column("damping"),
        force_lower=of_dofs(np.maximum(efforts[:, 0], -max_drive_force)),
        force_upper=of_dofs(np.minimum(efforts[:, 1], max_drive_force)),
        target_pos=drive_column("target_position"),
        target_vel=drive_column("target_velocity"),
        acceleration_drive=of_dofs(
            np.array([x is not None and x.type.value == "acceleration" for x in drives], dtype=np.bool_)
        ),
        actuator_gravcomp=of_dofs(np.array([_has_actuator_gravcomp(joint) for joint, _ in rows], dtype=np.bool_)),
    )


def _frames_of_dofs(ctx: BuildContext) -> npt.NDArray[np.int32]:
    """Moving frame of each degree of freedom, (n_dofs,)."""
    result = np.zeros(ctx.n_dofs, np.int32)
    for i, (_, placed, joint) in enumerate(ctx.frames):
        if joint >= 0:
            start = ctx.joints[joint].dof_start + placed.primitive.dof_offset
            result[start : start + PRIMITIVE_JOINT_SIZES[placed.primitive.type][1]] = i
    return result


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


def _dof_names(joint: JointRecord) -> list[str]:
    return [joint.name] if joint.n_dofs == 1 else [f"{joint.name}[{i}]" for i in range(joint.n_dofs)]


def _dof_coordinates(joint: JointRecord) -> Sequence[int]:
    """Index of the coordinate of each dof of a joint; -1 for dofs whose coordinates are a quaternion."""
    start, kind = joint.q_start, joint.description.kind
    if kind is JointKind.FREE:
        return (start, start + 1, start + 2, -1, -1, -1)
    if kind is JointKind.SPHERICAL:
        return (-1, -1, -1)
    return range(start, start + joint.n_dofs)


def pack_entities(ctx: BuildContext, actuator_entities: list[int]) -> list[EntityInfo]:
    """Names and index ranges of links, joints, coordinates, dofs and actuators of each entity in the model's tables."""
    n_entities = len(ctx.entities)
    joint_entities = [joint.entity for joint in ctx.joints]
    links = range_starts([link.entity for link in ctx.links], n_entities)
    joints = range_starts(joint_entities, n_entities)
    qs = range_starts(joint_entities, n_entities, [joint.n_qs for joint in ctx.joints])
    dofs = range_starts(joint_entities, n_entities, [joint.n_dofs for joint in ctx.joints])
    actuators = range_starts(actuator_entities, n_entities)
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


def initial_coordinates(ctx: BuildContext) -> Array:
    """Initial coordinates qpos0 of the scene, shape (n_qs,)."""
    return np.concatenate([np.zeros(0), *(joint.initial_q for joint in ctx.joints)])
