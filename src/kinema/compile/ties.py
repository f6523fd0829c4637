"""What holds links and joints together beside the tree: constraints of the files, mimics, joints that close loops."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

import numpy as np

from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Robot, SolverParameters, Tendon
from kinema.foundation import Array, Pose
from kinema.model import CouplingsInfo, TiesInfo

from .draft import Body, Draft, DraftJoint
from .find import all_of, find_joint
from .options import switches_of
from .pack import DEFAULT_SOLIMP, DEFAULT_SOLREF
from .tendons import tendon_moment

HARD = SolverParameters(solref=(1e-9, 1.0), solimp=(0.999, 0.999, 0.001, 0.5, 2.0))
"""As hard as a step can carry (a time constant is never below two steps): mimics and loops of formats that know
nothing of softness. Its impedance does not rise with distance: what cannot be reached would pull joints apart."""
LOOPS: dict[JointKind, tuple[str, ...]] = {
    JointKind.FIXED: ("point", "rotation"),
    JointKind.REVOLUTE: ("point", "axis"),
    JointKind.CONTINUOUS: ("point", "axis"),
    JointKind.PRISMATIC: ("line", "rotation"),
    JointKind.CYLINDRICAL: ("line", "axis"),
    JointKind.SPHERICAL: ("point",),
    JointKind.PLANAR: ("plane", "axis"),
    JointKind.UNIVERSAL: ("point", "cross"),
}
"""What each kind of joint holds where it closes a loop."""


@dataclass(frozen=True, slots=True, eq=False)
class _Tie:
    name: str
    parts: tuple[str, ...]
    a: Body | None
    b: Body | None
    pose_a: Pose
    pose_b: Pose
    solver: SolverParameters
    torque_scale: float = 1.0


@dataclass(frozen=True, slots=True, eq=False)
class _Coupling:
    name: str
    moments: tuple[Array, Array]
    references: tuple[float, float]
    polynomial: tuple[float, ...]
    solver: SolverParameters


def pack_ties(draft: Draft) -> TiesInfo:
    """One row for each pair of links that are held together."""
    ties = [tie for entity in range(len(draft.parts)) for tie in _ties(draft, entity)]
    n = len(ties)

    def ends(side: str) -> tuple[list[int], list[int], Array, Array]:
        bodies, poses = [getattr(t, side) for t in ties], [getattr(t, f"pose_{side}") for t in ties]
        placed = [p if b is None else b.place @ p for b, p in zip(bodies, poses, strict=True)]
        return (
            [-1 if b is None else b.index for b in bodies],
            [-1 if b is None else b.frame for b in bodies],
            np.array([p.position for p in placed], np.float64).reshape(n, 3),
            np.array([p.rotation for p in placed], np.float64).reshape(n, 3, 3),
        )

    (link_a, frame_a, pos_a, rot_a), (link_b, frame_b, pos_b, rot_b) = ends("a"), ends("b")
    return TiesInfo(
        names=[t.name for t in ties],
        parts=[t.parts for t in ties],
        link_a=np.array(link_a, np.int32),
        link_b=np.array(link_b, np.int32),
        frame_a=np.array(frame_a, np.int32),
        frame_b=np.array(frame_b, np.int32),
        pos_a=pos_a,
        pos_b=pos_b,
        rot_a=rot_a,
        rot_b=rot_b,
        torque_scale=np.array([t.torque_scale for t in ties], np.float64),
        solref=np.array([t.solver.solref or DEFAULT_SOLREF for t in ties], np.float64).reshape(n, 2),
        solimp=np.array([t.solver.solimp or DEFAULT_SOLIMP for t in ties], np.float64).reshape(n, 5),
        hard=np.array([t.solver is HARD for t in ties], np.bool_),
        weight=np.ones((n, 2)),
    )


def pack_couplings(draft: Draft) -> CouplingsInfo:
    """One row for each joint or tendon that follows another."""
    found = [c for entity in range(len(draft.parts)) for c in _couplings(draft, entity)]
    n = len(found)
    return CouplingsInfo(
        names=[c.name for c in found],
        moment_a=np.array([c.moments[0] for c in found], np.float64).reshape(n, draft.n_dofs),
        moment_b=np.array([c.moments[1] for c in found], np.float64).reshape(n, draft.n_dofs),
        reference_a=np.array([c.references[0] for c in found], np.float64),
        reference_b=np.array([c.references[1] for c in found], np.float64),
        polynomial=np.array([c.polynomial for c in found], np.float64).reshape(n, 5),
        solref=np.array([c.solver.solref or DEFAULT_SOLREF for c in found], np.float64).reshape(n, 2),
        solimp=np.array([c.solver.solimp or DEFAULT_SOLIMP for c in found], np.float64).reshape(n, 5),
        hard=np.array([c.solver is HARD for c in found], np.bool_),
        weight=np.ones(n),
    )


# ------------------------------------------------------------------------------------------------------------- links


def _ties(draft: Draft, entity: int) -> Iterator[_Tie]:
    description = draft.parts[entity].description
    kinds = {ConstraintKind.CONNECT: ("point",), ConstraintKind.WELD: ("point", "rotation")}
    for constraint in _active(draft, entity):
        if constraint.kind in kinds:
            a, b = (_end(draft, entity, name) for name in (constraint.a, constraint.b))
            pose_a, pose_b = (
                _in_world(draft, entity, end, p) for end, p in ((a, constraint.pose_a), (b, constraint.pose_b))
            )
            parts, weight = kinds[constraint.kind], constraint.torque_scale
            yield _Tie(constraint.name, parts, a, b, pose_a, pose_b, constraint.solver, weight)
    robots = [description] if isinstance(description, Robot) else description.robots
    for robot in robots:
        for joint in robot.tree().loops:
            tie = _loop(draft, entity, joint)
            if tie is not None:
                yield tie


def _active(draft: Draft, entity: int) -> list[Constraint]:
    description = draft.parts[entity].description
    if not switches_of(description).equality:
        return []
    return [c for c in all_of(description, "constraints") if c.active]


def _end(draft: Draft, entity: int, name: str | None) -> Body | None:
    return next((b for b in draft.bodies if b.entity == entity and name in (b.name, b.link.name)), None)


def _in_world(draft: Draft, entity: int, end: Body | None, pose: Pose) -> Pose:
    """What is fixed in the world of a file stands where the file's things were put."""
    part = draft.parts[entity]
    if end is not None or part.pose is None:
        return pose
    own = part.description.pose if isinstance(part.description, Robot) else Pose()
    return part.pose @ own.inverse() @ pose


def _loop(draft: Draft, entity: int, joint: Joint) -> _Tie | None:
    if joint.kind not in LOOPS or not joint.enabled:
        if joint.kind is not JointKind.FREE and joint.enabled:
            draft.diagnostics.warning(
                "sim.loop",
                f'joint "{joint.name}" ({joint.kind.value}) closes a loop, which is not simulated for this kind yet',
                origin=joint.origin,
            )
        return None
    if any(np.isfinite((a.lower, a.upper)).any() or a.drive or a.stiffness or a.damping for a in joint.moving_axes):
        draft.diagnostics.warning(
            "sim.loop-axis",
            f'limits, springs and drives of joint "{joint.name}" are left out: it closes a loop',
            origin=joint.origin,
        )
    a, b = (_end(draft, entity, name) for name in (joint.parent, joint.child))
    turn_a, turn_b = _turned(joint)
    poses = [_in_world(draft, entity, end, p) for end, p in ((a, joint.parent_pose), (b, joint.child_pose))]
    return _Tie(joint.name, LOOPS[joint.kind], a, b, poses[0] @ turn_a, poses[1] @ turn_b, HARD)


def _turned(joint: Joint) -> tuple[Pose, Pose]:
    """Frames whose first axis is the one that matters; the second, of the child, for a universal joint."""
    axes = [np.asarray(a.direction, np.float64) for a in joint.axes]
    if not axes or joint.kind is JointKind.SPHERICAL:
        return Pose(), Pose()
    turn = _with_axis(axes[-1] if joint.kind is JointKind.PLANAR else axes[0], 0)
    return turn, _with_axis(axes[1], 1) if joint.kind is JointKind.UNIVERSAL else turn


def _with_axis(direction: Array, place: int) -> Pose:
    """A frame one of whose axes is that direction."""
    main = direction / np.linalg.norm(direction)
    other = np.eye(3)[int(np.argmin(np.abs(main)))]
    side = np.cross(main, other)
    side /= np.linalg.norm(side)
    columns = [main, side, np.cross(main, side)]
    return Pose(rotation=np.roll(np.stack(columns, axis=1), place, axis=1))


# ------------------------------------------------------------------------------------------------------------ joints


def _couplings(draft: Draft, entity: int) -> Iterator[_Coupling]:
    for constraint in _active(draft, entity):
        coupling = None
        if constraint.kind is ConstraintKind.JOINT:
            coupling = _of_joints(draft, entity, constraint)
        elif constraint.kind is ConstraintKind.TENDON:
            coupling = _of_tendons(draft, entity, constraint)
        elif constraint.kind in (ConstraintKind.CONNECT, ConstraintKind.WELD):
            continue
        if coupling is not None:
            yield coupling
        else:
            draft.diagnostics.warning(
                "sim.constraint",
                f'constraint "{constraint.name}" ({constraint.kind.value}) is not simulated yet',
                origin=constraint.origin,
            )
    for joint in (j for j in draft.joints if j.entity == entity):
        yield from _mimics(draft, joint)


def _unit(draft: Draft, joint: DraftJoint | None, axis: int) -> tuple[Array, float] | None:
    """The moment of one axis of a joint, and the coordinate that counts as zero."""
    moment = np.zeros(draft.n_dofs)
    if joint is None or joint.joint.n_qs != joint.joint.n_dofs:
        return None
    moving = joint.joint.moving_axes
    at = next((i for i, a in enumerate(moving) if a is joint.joint.axes[axis]), None)
    if at is None:
        return None
    moment[joint.dof_start + at] = 1.0
    return moment, float(joint.joint.axes[axis].reference)


def _of_joints(draft: Draft, entity: int, constraint: Constraint) -> _Coupling | None:
    a = _unit(draft, find_joint(draft, entity, constraint.a or ""), constraint.axis_a)
    b = (np.zeros(draft.n_dofs), 0.0)
    if constraint.b is not None:
        found = _unit(draft, find_joint(draft, entity, constraint.b), constraint.axis_b)
        if found is None:
            return None
        b = found
    if a is None:
        return None
    return _Coupling(constraint.name, (a[0], b[0]), (a[1], b[1]), constraint.polynomial, constraint.solver)


def _of_tendons(draft: Draft, entity: int, constraint: Constraint) -> _Coupling | None:
    ends: list[tuple[Array, float]] = []
    tendons: dict[str, Tendon] = {t.name: t for t in all_of(draft.parts[entity].description, "tendons")}
    for name in (constraint.a, constraint.b):
        if name is None:
            ends.append((np.zeros(draft.n_dofs), 0.0))
            continue
        if name not in tendons or not tendons[name].is_fixed:
            return None
        moment = tendon_moment(draft, entity, tendons[name])
        ends.append((moment, float(moment @ _references(draft))))
    (a, zero_a), (b, zero_b) = ends
    return _Coupling(constraint.name, (a, b), (zero_a, zero_b), constraint.polynomial, constraint.solver)


def _references(draft: Draft) -> Array:
    return np.array([axis.reference for j in draft.joints for axis in j.joint.moving_axes], np.float64)


def _mimics(draft: Draft, follower: DraftJoint) -> Iterator[_Coupling]:
    for i, axis in enumerate(follower.joint.axes):
        mimic = axis.mimic
        if mimic is None or axis.locked:
            continue
        own, lead = _unit(draft, follower, i), _unit(draft, find_joint(draft, follower.entity, mimic.joint), mimic.axis)
        if own is None or lead is None:
            draft.diagnostics.warning(
                "sim.mimic",
                f'joint "{follower.name}" does not follow "{mimic.joint}": there is no such coordinate',
                origin=follower.joint.origin,
            )
            continue
        polynomial = (mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0)
        yield _Coupling(follower.name, (own[0], lead[0]), (0.0, mimic.reference), polynomial, HARD)
