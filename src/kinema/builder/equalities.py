"""Tables of equality constraints: connects, welds and loop joints between links, and polynomial couplings.

A row of the table of equalities constrains components (position, orientation, ...) of two frames on links. A row of the
table of couplings constrains a scalar length (joint coordinate, tendon or transmission path length, distance, gear
angle) to a quartic polynomial of another one.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kinema.core import Array, Pose, reproducible_norm, reproducible_product
from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Robot, SolverParameters, Tendon, World
from kinema.model import CouplingsInfo, EqualitiesInfo, PrimitiveJointType

from .attachments import ATTACHMENT_COMPONENTS, attached_links
from .context import BuildContext, JointRecord, LinkRecord, all_elements, find_joint
from .joints import UNBREAKABLE_FORCE, is_breakable
from .kinematic_tables import DEFAULT_SOLIMP, DEFAULT_SOLREF
from .loop_joints import (
    LoopJoint,
    attachment_frame,
    axis_path_idx,
    distance_path_idx,
    find_link,
    find_loop_joint,
    loop_joints,
    resolve_world_pose,
)
from .options import option_flags
from .paths import add_path, path_dof_mask, tendon_path_idx
from .tendons import fixed_tendon_moment

# --------------------------------------------------------------------------------------------- equalities between links

RIGID = SolverParameters(solref=(1e-9, 1.0), solimp=(0.9999, 0.9999, 0.001, 0.5, 2.0))
"""Parameters of the stiffest constraint that a time step allows (the time constant is never below two time steps): for
mimics and loop joints of formats without soft constraints. The impedance is constant, as one that rises with the
violation would let an unreachable target pull joints apart."""


@dataclass(frozen=True, slots=True, eq=False)
class _Equality:
    """One row of the table of equalities: constrained components of frame a on one link and frame b on another."""

    name: str
    components: tuple[str, ...]
    """Constrained components, such as `point`, `rotation`, `axis x` (see `EqualitiesInfo.components`)."""
    a: LinkRecord | None
    b: LinkRecord | None
    """Links; None for the world."""
    pose_a: Pose
    pose_b: Pose
    """Constrained frames, relative to the links."""
    solver: SolverParameters
    torque_scale: float = 1.0
    """Weight of rotation against translation [m]."""
    pitch: float = 0.0
    """Pitch of a screw joint [m/rad]."""
    break_limits: tuple[float, float] = (np.inf, np.inf)
    """Force [N] and torque [N m] at which the constraint breaks."""
    active: bool = True


def pack_equalities(ctx: BuildContext) -> EqualitiesInfo:
    """Table of equality constraints between two links: connects, welds and loop-closing joints of all entities.

    Attachments reserved for run time come last. Also records the row indices of breakable joints in
    `ctx.breakable_equality_idx`.
    """
    by_entity = [
        (entity, equality) for entity in range(len(ctx.entities)) for equality in _entity_equalities(ctx, entity)
    ]
    ctx.breakable_equality_idx = {
        (e, equality.name): i for i, (e, equality) in enumerate(by_entity) if min(equality.break_limits) < np.inf
    }
    rows = [equality for _, equality in by_entity]
    rows += [
        _Equality(name, ATTACHMENT_COMPONENTS[spec.kind], a, b, Pose(), Pose(), SolverParameters(), active=False)
        for spec, name, a, b in attached_links(ctx)
    ]
    n = len(rows)

    def ends(side: str) -> tuple[list[int], list[int], Array, Array]:
        """Link index, moving frame, position and rotation in that frame of side `a` or `b` of all rows."""
        links, poses = [getattr(row, side) for row in rows], [getattr(row, f"pose_{side}") for row in rows]
        poses_in_frame = [
            pose if link is None else link.pose_in_frame @ pose for link, pose in zip(links, poses, strict=True)
        ]
        return (
            [-1 if link is None else link.index for link in links],
            [-1 if link is None else link.frame_idx for link in links],
            np.array([pose.position for pose in poses_in_frame], np.float64).reshape(n, 3),
            np.array([pose.rotation for pose in poses_in_frame], np.float64).reshape(n, 3, 3),
        )

    (link_a, frame_a, pos_a, rot_a), (link_b, frame_b, pos_b, rot_b) = ends("a"), ends("b")
    return EqualitiesInfo(
        names=[row.name for row in rows],
        components=[row.components for row in rows],
        link_a=np.array(link_a, np.int32),
        link_b=np.array(link_b, np.int32),
        frame_a=np.array(frame_a, np.int32),
        frame_b=np.array(frame_b, np.int32),
        pos_a=pos_a,
        pos_b=pos_b,
        rot_a=rot_a,
        rot_b=rot_b,
        torque_scale=np.array([row.torque_scale for row in rows], np.float64),
        pitch=np.array([row.pitch for row in rows], np.float64),
        solref=np.array([row.solver.solref or DEFAULT_SOLREF for row in rows], np.float64).reshape(n, 2),
        solimp=np.array([row.solver.solimp or DEFAULT_SOLIMP for row in rows], np.float64).reshape(n, 5),
        is_rigid=np.array([row.solver is RIGID for row in rows], np.bool_),
        active=np.array([row.active for row in rows], np.bool_),
        break_force=np.array([row.break_limits[0] for row in rows], np.float64),
        break_torque=np.array([row.break_limits[1] for row in rows], np.float64),
    )


def _entity_equalities(ctx: BuildContext, entity: int) -> Iterator[_Equality]:
    """Equality constraints of an entity: connects and welds of its description, then its loop joints."""
    components_of_kind = {ConstraintKind.CONNECT: ("point",), ConstraintKind.WELD: ("point", "rotation")}
    for constraint in active_constraints(ctx, entity):
        if constraint.kind in components_of_kind:
            a, b = (find_link(ctx, entity, name) for name in (constraint.a, constraint.b))
            pose_a, pose_b = (
                resolve_world_pose(ctx, entity, link, pose)
                for link, pose in ((a, constraint.pose_a), (b, constraint.pose_b))
            )
            components, torque_scale = components_of_kind[constraint.kind], constraint.torque_scale
            solver, active = constraint.solver, constraint.active
            yield _Equality(constraint.name, components, a, b, pose_a, pose_b, solver, torque_scale, active=active)
    for loop in loop_joints(ctx, entity):
        yield from _loop_joint_equalities(ctx, loop)


def active_constraints(ctx: BuildContext, entity: int) -> list[Constraint]:
    """Constraints of an entity that are initially active, or all of them if constraints can be switched.

    Empty if equality constraints are disabled by a flag of the file.
    """
    description = ctx.entities[entity].description
    if not option_flags(description).equality:
        return []
    return [c for c in all_elements(description, "constraints") if c.active or ctx.switchable_equalities]


def disabled_equalities(description: Robot | World) -> list[tuple[str, Array]]:
    """Name and parameters (solref and solimp, (7,)) of each constraint that its file disables, in file order."""
    if not option_flags(description).equality:
        return []
    disabled = [c for c in all_elements(description, "constraints") if not c.active]
    return [
        (c.name, np.array([*(c.solver.solref or DEFAULT_SOLREF), *(c.solver.solimp or DEFAULT_SOLIMP)], np.float64))
        for c in disabled
    ]


def _loop_joint_equalities(ctx: BuildContext, loop: LoopJoint) -> Iterator[_Equality]:
    """Rigid equality constraint of a loop-closing joint, with break force and torque.

    None for an unbreakable joint that constrains nothing. Warns if the free axes of the joint are not orthogonal, so
    that the joint cannot be represented.
    """
    joint = loop.joint
    if loop.components is None:
        ctx.diagnostics.warning(
            "sim.loop",
            f'joint "{joint.name}" ({joint.kind.value}) does not close its loop: its free axes are not '
            "orthogonal to each other",
            origin=joint.origin,
        )
    if loop.components or (loop.components is not None and is_breakable(joint)):
        break_limits = [x if x < UNBREAKABLE_FORCE else np.inf for x in (joint.break_force, joint.break_torque)]
        yield _Equality(
            joint.name,
            loop.components,
            *loop.links,
            *loop.poses,
            RIGID,
            pitch=loop.pitch,
            break_limits=(break_limits[0], break_limits[1]),
        )


# ---------------------------------------------------------------------------------------------------------------- gears

PARALLEL_TOLERANCE = 1e-9
"""Tolerance of the test whether a hinge axis is parallel to the gear axis."""


def gear_moment(ctx: BuildContext, link: LinkRecord | None, reference: LinkRecord | None, axis: Array) -> Array | None:
    """Moment arms, shape (n_dofs,), of the rotation angle of a link about `axis` relative to a reference link.

    The angle is the signed sum of the hinge coordinates between both links, so that complete turns are counted. None if
    anything but hinges parallel to the axis moves the links relative to each other.
    """
    link_frames, reference_frames = (
        _frame_and_ancestors(ctx, -1 if record is None else record.frame_idx) for record in (link, reference)
    )
    shared = set(link_frames) & set(reference_frames)
    moment = np.zeros(ctx.n_dofs)
    direction = (
        np.asarray(axis, np.float64) if link is None else reproducible_product(link.pose_in_frame.rotation, axis)
    )
    for frame in (f for f in link_frames if f not in shared):
        if not _add_hinge_moment(ctx, frame, direction, 1.0, moment):
            return None
        direction = reproducible_product(ctx.frames[frame][1].pose.rotation, direction)
    for frame in (f for f in reversed(reference_frames) if f not in shared):
        direction = reproducible_product(ctx.frames[frame][1].pose.rotation.T, direction)
        if not _add_hinge_moment(ctx, frame, direction, -1.0, moment):
            return None
    return moment


def _frame_and_ancestors(ctx: BuildContext, frame_idx: int) -> list[int]:
    """Indices of a moving frame and of its ancestors, up to the root."""
    frames = []
    while frame_idx != -1:
        frames.append(frame_idx)
        frame_idx = ctx.frames[frame_idx][0]
    return frames


def _add_hinge_moment(ctx: BuildContext, frame_idx: int, direction: Array, sign: float, moment: Array) -> bool:
    """Add +1 or -1, times `sign`, to the moment arm of a frame's hinge; False if it is no hinge about `direction`.

    `direction` is in the coordinates of the frame; the arm is +1 if the hinge axis points along it, -1 if opposite.
    `moment` (n_dofs,) is changed in place.
    """
    _, placed, joint = ctx.frames[frame_idx]
    along = float((placed.primitive.axis * direction).sum())
    if (
        placed.primitive.type is not PrimitiveJointType.HINGE
        or abs(abs(along) - reproducible_norm(direction)) > PARALLEL_TOLERANCE
    ):
        return False
    moment[ctx.joints[joint].dof_start + placed.primitive.dof_offset] += sign * np.sign(along)
    return True


# ------------------------------------------------------------------------------------------------------------ couplings


@dataclass(frozen=True, slots=True, eq=False)
class _CoupledLength:
    """Follower or leader of a coupling: a linear function of coordinates, or the length of a transmission path."""

    moment: Array
    """Derivative with respect to the dofs, (n_dofs,); for a path, ones for the dofs that change it."""
    reference: float = 0.0
    """Value subtracted from the length; NaN for the initial length of a path."""
    path_idx: int = -1
    """Path; -1 for a linear function of coordinates."""


@dataclass(frozen=True, slots=True, eq=False)
class _Coupling:
    """One row of the table of couplings: follower = polynomial(leader)."""

    name: str
    follower: _CoupledLength
    leader: _CoupledLength
    polynomial: tuple[float, ...]
    """Five coefficients, constant first."""
    solver: SolverParameters
    equality_idx: int = -1
    """Breakable equality that the coupling is disabled with; -1 for none."""
    active: bool = True


def pack_couplings(ctx: BuildContext) -> CouplingsInfo:
    """Table of polynomial couplings a = p(b) of two coordinates or lengths (MuJoCo's joint and tendon equalities).

    Rows come from joint, tendon, distance and gear constraints, mimic joints, and loop joints of fixed distance.
    """
    rows = [row for entity in range(len(ctx.entities)) for row in _entity_couplings(ctx, entity)]
    n = len(rows)
    followers, leaders = [row.follower for row in rows], [row.leader for row in rows]
    return CouplingsInfo(
        names=[row.name for row in rows],
        moment_a=np.array([length.moment for length in followers], np.float64).reshape(n, ctx.n_dofs),
        moment_b=np.array([length.moment for length in leaders], np.float64).reshape(n, ctx.n_dofs),
        path_a=np.array([length.path_idx for length in followers], np.int32),
        path_b=np.array([length.path_idx for length in leaders], np.int32),
        reference_a=np.array([length.reference for length in followers], np.float64),
        reference_b=np.array([length.reference for length in leaders], np.float64),
        polynomial=np.array([row.polynomial for row in rows], np.float64).reshape(n, 5),
        solref=np.array([row.solver.solref or DEFAULT_SOLREF for row in rows], np.float64).reshape(n, 2),
        solimp=np.array([row.solver.solimp or DEFAULT_SOLIMP for row in rows], np.float64).reshape(n, 5),
        is_rigid=np.array([row.solver is RIGID for row in rows], np.bool_),
        active=np.array([row.active for row in rows], np.bool_),
        equality_idx=np.array([row.equality_idx for row in rows], np.int32),
    )


def _entity_couplings(ctx: BuildContext, entity: int) -> Iterator[_Coupling]:
    """Polynomial couplings of an entity: constraints of its description, mimic joints, fixed distances.

    Warns of constraints that cannot be simulated. Couplings of a breakable loop joint refer to its equality constraint.
    """
    for constraint in active_constraints(ctx, entity):
        if constraint.kind in (ConstraintKind.CONNECT, ConstraintKind.WELD):
            continue
        coupling = {
            ConstraintKind.JOINT: _joint_coupling,
            ConstraintKind.TENDON: _tendon_coupling,
            ConstraintKind.DISTANCE: _distance_coupling,
            ConstraintKind.GEAR: _gear_coupling,
        }.get(constraint.kind, _unsupported_coupling)(ctx, entity, constraint)
        if coupling is not None:
            yield replace(coupling, active=constraint.active)
        else:
            ctx.diagnostics.warning(
                "sim.constraint",
                f'constraint "{constraint.name}" ({constraint.kind.value}) is not simulated: '
                + _UNSUPPORTED_REASONS[constraint.kind],
                origin=constraint.origin,
            )
    for joint in ctx.joints_of_entity.get(entity, ()):
        yield from _mimic_couplings(ctx, entity, joint.description)
    for loop in loop_joints(ctx, entity):
        equality_idx = ctx.breakable_equality_idx.get((entity, loop.joint.name), -1)
        for coupling in _mimic_couplings(ctx, entity, loop.joint):
            yield replace(coupling, equality_idx=equality_idx)
        min_distance, max_distance = loop.joint.distance
        if loop.joint.kind in (JointKind.DISTANCE, JointKind.SIX_AXIS) and min_distance == max_distance > 0.0:
            path = distance_path_idx(ctx, loop)
            yield _Coupling(
                loop.joint.name,
                _path_length(ctx, path),
                _zero_length(ctx),
                (min_distance, 0.0, 0.0, 0.0, 0.0),
                RIGID,
                equality_idx,
            )


_UNSUPPORTED_REASONS = {
    ConstraintKind.JOINT: "it refers to a joint coordinate that does not exist",
    ConstraintKind.TENDON: "the path of a tendon cannot be resolved",
    ConstraintKind.DISTANCE: "its distance is not positive (use a connect constraint)",
    ConstraintKind.GEAR: "its links do not rotate relative to the reference link by hinges about the gear axes only",
    ConstraintKind.OTHER: "this kind of constraint is not supported",
}
"""Reason, by constraint kind, why a coupling cannot be simulated."""


def _zero_length(ctx: BuildContext) -> _CoupledLength:
    return _CoupledLength(np.zeros(ctx.n_dofs))


def _path_length(ctx: BuildContext, path_idx: int, reference: float = 0.0) -> _CoupledLength:
    """Length of a transmission path relative to `reference` (NaN: its initial length), as one side of a coupling."""
    return _CoupledLength(path_dof_mask(ctx, path_idx), reference, path_idx)


def _unsupported_coupling(ctx: BuildContext, entity: int, constraint: Constraint) -> None:
    return None


# ------------------------------------------------------------------------------------------------------------ joints


def _joint_coordinate(ctx: BuildContext, entity: int, name: str, axis_idx: int) -> _CoupledLength | None:
    """Coordinate of one axis of a named joint, of the tree or closing a loop, as one side of a coupling.

    None if the coordinate does not exist.
    """
    joint = find_joint(ctx, entity, name)
    if joint is not None:
        return _tree_joint_coordinate(ctx, joint, axis_idx)
    loop = find_loop_joint(ctx, entity, name)
    if loop is None or axis_idx >= len(loop.joint.axes) or loop.joint.kind is JointKind.SPHERICAL:
        return None
    path = axis_path_idx(ctx, loop, axis_idx)
    return None if path is None else _path_length(ctx, path, float(loop.joint.axes[axis_idx].reference))


def _tree_joint_coordinate(ctx: BuildContext, joint: JointRecord, axis_idx: int) -> _CoupledLength | None:
    """Coordinate of one axis of a tree joint, as one side of a coupling: unit moment arm and reference.

    None for a locked axis, an axis that does not exist, or a joint with quaternion coordinates.
    """
    moment, axes = np.zeros(ctx.n_dofs), joint.description.axes
    if joint.description.n_qs != joint.description.n_dofs or axis_idx >= len(axes):
        return None
    dof_offset = next(
        (i for i, moving_axis in enumerate(joint.description.moving_axes) if moving_axis is axes[axis_idx]), None
    )
    if dof_offset is None:
        return None
    moment[joint.dof_start + dof_offset] = 1.0
    return _CoupledLength(moment, float(axes[axis_idx].reference))


def _joint_coupling(ctx: BuildContext, entity: int, constraint: Constraint) -> _Coupling | None:
    """Coupling of two joint coordinates (MJCF equality `joint`); of one with a constant if `constraint.b` is None."""
    a = _joint_coordinate(ctx, entity, constraint.a or "", constraint.axis_a)
    b = _zero_length(ctx) if constraint.b is None else _joint_coordinate(ctx, entity, constraint.b, constraint.axis_b)
    if a is None or b is None:
        return None
    return _Coupling(constraint.name, a, b, constraint.polynomial, constraint.solver)


def _mimic_couplings(ctx: BuildContext, entity: int, follower: Joint) -> Iterator[_Coupling]:
    """Rigid couplings of the mimic axes of a joint: q_follower = offset + multiplier * (q_leader - reference).

    Warns if either coordinate does not exist.
    """
    for i, axis in enumerate(follower.axes):
        mimic = axis.mimic
        if mimic is None or axis.locked:
            continue
        follower_length = _joint_coordinate(ctx, entity, follower.name, i)
        leader_length = _joint_coordinate(ctx, entity, mimic.joint, mimic.axis)
        if follower_length is None or leader_length is None:
            ctx.diagnostics.warning(
                "sim.mimic",
                f'joint "{follower.name}" does not mimic "{mimic.joint}": the joint coordinate does not exist',
                origin=follower.origin,
            )
            continue
        follower_length, leader_length = (
            _CoupledLength(follower_length.moment, 0.0, follower_length.path_idx),
            _CoupledLength(leader_length.moment, mimic.reference, leader_length.path_idx),
        )
        yield _Coupling(
            follower.name, follower_length, leader_length, (mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0), RIGID
        )


# ------------------------------------------------------------------------------------------------- tendons and links


def _tendon_coupling(ctx: BuildContext, entity: int, constraint: Constraint) -> _Coupling | None:
    """Coupling of the lengths of two tendons (MJCF equality `tendon`), or of one with a constant.

    None if a tendon does not exist or its path cannot be resolved.
    """
    ends: list[_CoupledLength] = []
    tendons: dict[str, Tendon] = {t.name: t for t in all_elements(ctx.entities[entity].description, "tendons")}
    for name in (constraint.a, constraint.b):
        if name is None:
            ends.append(_zero_length(ctx))
            continue
        if name not in tendons:
            return None
        if tendons[name].is_fixed:
            moment = fixed_tendon_moment(ctx, entity, tendons[name])
            ends.append(_CoupledLength(moment, float((moment * _dof_references(ctx)).sum())))
            continue
        path = tendon_path_idx(ctx, entity, tendons[name])
        if path is None:
            return None
        ends.append(_path_length(ctx, path, np.nan))
    return _Coupling(constraint.name, ends[0], ends[1], constraint.polynomial, constraint.solver)


def _dof_references(ctx: BuildContext) -> Array:
    return np.array([axis.reference for j in ctx.joints for axis in j.description.moving_axes], np.float64)


def _distance_coupling(ctx: BuildContext, entity: int, constraint: Constraint) -> _Coupling | None:
    """Coupling that keeps the distance of two points on links constant; None unless the distance is positive."""
    if constraint.distance <= 0.0:
        return None
    named = ((constraint.a, constraint.pose_a), (constraint.b, constraint.pose_b))
    links = [(find_link(ctx, entity, name), pose) for name, pose in named]
    attachments = [attachment_frame(link, resolve_world_pose(ctx, entity, link, pose)) for link, pose in links]
    path = add_path(ctx, [("straight", attachments, 1.0, ())])
    polynomial = (constraint.distance, 0.0, 0.0, 0.0, 0.0)
    return _Coupling(
        constraint.name, _path_length(ctx, path), _zero_length(ctx), polynomial, _solver_parameters_or_rigid(constraint)
    )


def _gear_coupling(ctx: BuildContext, entity: int, constraint: Constraint) -> _Coupling | None:
    """Coupling of a gear: angle_b = -ratio * angle_a, each measured about its gear axis relative to the reference link.

    None if an angle is not a sum of hinge coordinates.
    """
    reference = find_link(ctx, entity, constraint.reference)
    ends = ((constraint.a, constraint.gear_axis_a), (constraint.b, constraint.gear_axis_b))
    links = [(find_link(ctx, entity, name), np.asarray(axis, np.float64)) for name, axis in ends]
    moments = [gear_moment(ctx, link, reference, axis / reproducible_norm(axis)) for link, axis in links]
    a, b = (
        None
        if moment is None or not moment.any()
        else _CoupledLength(moment, float((moment * _dof_references(ctx)).sum()))
        for moment in moments
    )
    if a is None or b is None:
        return None
    return _Coupling(
        constraint.name, b, a, (0.0, -constraint.ratio, 0.0, 0.0, 0.0), _solver_parameters_or_rigid(constraint)
    )


def _solver_parameters_or_rigid(constraint: Constraint) -> SolverParameters:
    """Solver parameters of a constraint; `RIGID` if it has neither solref nor solimp."""
    return RIGID if constraint.solver.solref is None and constraint.solver.solimp is None else constraint.solver
