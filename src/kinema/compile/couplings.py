"""What couples joints, tendons and links beside the tree: one length follows a polynomial of another."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, replace

import numpy as np

from kinema.description import Constraint, ConstraintKind, Joint, JointKind, SolverParameters, Tendon
from kinema.foundation import Array
from kinema.model import CouplingsInfo

from .draft import Draft, DraftJoint
from .find import all_of, find_joint
from .gears import gear_moment
from .loops import axis_path, find_end, find_loop, in_world, loops_of, spot_of, straight_path
from .pack import DEFAULT_SOLIMP, DEFAULT_SOLREF
from .paths import new_path, path_pattern, tendon_path
from .tendons import tendon_moment
from .ties import HARD, active_constraints


@dataclass(frozen=True, slots=True, eq=False)
class _Length:
    """Of a follower or a leader: how it follows from coordinates, or along which path; and what counts as zero."""

    moment: Array
    zero: float = 0.0
    path: int = -1


@dataclass(frozen=True, slots=True, eq=False)
class _Coupling:
    name: str
    follower: _Length
    leader: _Length
    polynomial: tuple[float, ...]
    solver: SolverParameters
    holder: int = -1
    active: bool = True


def pack_couplings(draft: Draft) -> CouplingsInfo:
    """One row for each joint, tendon or distance that follows another, or stays as it is."""
    found = [c for entity in range(len(draft.parts)) for c in _couplings(draft, entity)]
    n = len(found)
    followers, leaders = [c.follower for c in found], [c.leader for c in found]
    return CouplingsInfo(
        names=[c.name for c in found],
        moment_a=np.array([x.moment for x in followers], np.float64).reshape(n, draft.n_dofs),
        moment_b=np.array([x.moment for x in leaders], np.float64).reshape(n, draft.n_dofs),
        path_a=np.array([x.path for x in followers], np.int32),
        path_b=np.array([x.path for x in leaders], np.int32),
        reference_a=np.array([x.zero for x in followers], np.float64),
        reference_b=np.array([x.zero for x in leaders], np.float64),
        polynomial=np.array([c.polynomial for c in found], np.float64).reshape(n, 5),
        solref=np.array([c.solver.solref or DEFAULT_SOLREF for c in found], np.float64).reshape(n, 2),
        solimp=np.array([c.solver.solimp or DEFAULT_SOLIMP for c in found], np.float64).reshape(n, 5),
        hard=np.array([c.solver is HARD for c in found], np.bool_),
        weight=np.ones(n),
        active=np.array([c.active for c in found], np.bool_),
        tie_idx=np.array([c.holder for c in found], np.int32),
    )


def _couplings(draft: Draft, entity: int) -> Iterator[_Coupling]:
    for constraint in active_constraints(draft, entity):
        if constraint.kind in (ConstraintKind.CONNECT, ConstraintKind.WELD):
            continue
        made = {
            ConstraintKind.JOINT: _of_joints,
            ConstraintKind.TENDON: _of_tendons,
            ConstraintKind.DISTANCE: _of_distance,
            ConstraintKind.GEAR: _of_gear,
        }.get(constraint.kind, _of_nothing)(draft, entity, constraint)
        if made is not None:
            yield replace(made, active=constraint.active)
        else:
            draft.diagnostics.warning(
                "sim.constraint",
                f'constraint "{constraint.name}" ({constraint.kind.value}) is not simulated: '
                + _REASONS[constraint.kind],
                origin=constraint.origin,
            )
    for joint in (j for j in draft.joints if j.entity == entity):
        yield from _mimics(draft, entity, joint.joint)
    for loop in loops_of(draft, entity):
        holder = draft.breakable.get((entity, loop.joint.name), -1)
        for made in _mimics(draft, entity, loop.joint):
            yield replace(made, holder=holder)
        least, most = loop.joint.distance
        if loop.joint.kind in (JointKind.DISTANCE, JointKind.SIX_AXIS) and least == most > 0.0:
            path = straight_path(draft, loop)
            yield _Coupling(
                loop.joint.name, _along(draft, path), _nothing(draft), (least, 0.0, 0.0, 0.0, 0.0), HARD, holder
            )


_REASONS = {
    ConstraintKind.JOINT: "there is no such coordinate",
    ConstraintKind.TENDON: "the path of a tendon cannot be followed",
    ConstraintKind.DISTANCE: "a distance of nothing is no distance, but a connection",
    ConstraintKind.GEAR: "its links do not turn against their reference by hinges about the gear's axes alone",
    ConstraintKind.OTHER: "there is nothing of that kind in this simulation",
}


def _nothing(draft: Draft) -> _Length:
    return _Length(np.zeros(draft.n_dofs))


def _along(draft: Draft, path: int, zero: float = 0.0) -> _Length:
    """The length of a path; NaN for one that counts from where it starts."""
    return _Length(path_pattern(draft, path), zero, path)


def _of_nothing(draft: Draft, entity: int, constraint: Constraint) -> None:
    return None


# ------------------------------------------------------------------------------------------------------------ joints


def _coordinate(draft: Draft, entity: int, name: str, axis: int) -> _Length | None:
    """One axis of a joint, in the tree or closing a loop."""
    joint = find_joint(draft, entity, name)
    if joint is not None:
        return _in_tree(draft, joint, axis)
    loop = find_loop(draft, entity, name)
    if loop is None or axis >= len(loop.joint.axes) or loop.joint.kind is JointKind.SPHERICAL:
        return None
    path = axis_path(draft, loop, axis)
    return None if path is None else _along(draft, path, float(loop.joint.axes[axis].reference))


def _in_tree(draft: Draft, joint: DraftJoint, axis: int) -> _Length | None:
    """The moment of one axis of a joint, and the coordinate that counts as zero."""
    moment, axes = np.zeros(draft.n_dofs), joint.joint.axes
    if joint.joint.n_qs != joint.joint.n_dofs or axis >= len(axes):
        return None
    at = next((i for i, a in enumerate(joint.joint.moving_axes) if a is axes[axis]), None)
    if at is None:
        return None
    moment[joint.dof_start + at] = 1.0
    return _Length(moment, float(axes[axis].reference))


def _of_joints(draft: Draft, entity: int, constraint: Constraint) -> _Coupling | None:
    a = _coordinate(draft, entity, constraint.a or "", constraint.axis_a)
    b = _nothing(draft) if constraint.b is None else _coordinate(draft, entity, constraint.b, constraint.axis_b)
    if a is None or b is None:
        return None
    return _Coupling(constraint.name, a, b, constraint.polynomial, constraint.solver)


def _mimics(draft: Draft, entity: int, follower: Joint) -> Iterator[_Coupling]:
    for i, axis in enumerate(follower.axes):
        mimic = axis.mimic
        if mimic is None or axis.locked:
            continue
        own = _coordinate(draft, entity, follower.name, i)
        lead = _coordinate(draft, entity, mimic.joint, mimic.axis)
        if own is None or lead is None:
            draft.diagnostics.warning(
                "sim.mimic",
                f'joint "{follower.name}" does not follow "{mimic.joint}": there is no such coordinate',
                origin=follower.origin,
            )
            continue
        own, lead = _Length(own.moment, 0.0, own.path), _Length(lead.moment, mimic.reference, lead.path)
        yield _Coupling(follower.name, own, lead, (mimic.offset, mimic.multiplier, 0.0, 0.0, 0.0), HARD)


# ------------------------------------------------------------------------------------------------- tendons and links


def _of_tendons(draft: Draft, entity: int, constraint: Constraint) -> _Coupling | None:
    ends: list[_Length] = []
    tendons: dict[str, Tendon] = {t.name: t for t in all_of(draft.parts[entity].description, "tendons")}
    for name in (constraint.a, constraint.b):
        if name is None:
            ends.append(_nothing(draft))
            continue
        if name not in tendons:
            return None
        if tendons[name].is_fixed:
            moment = tendon_moment(draft, entity, tendons[name])
            ends.append(_Length(moment, float(moment @ _references(draft))))
            continue
        path = tendon_path(draft, entity, tendons[name])
        if path is None:
            return None
        ends.append(_along(draft, path, np.nan))
    return _Coupling(constraint.name, ends[0], ends[1], constraint.polynomial, constraint.solver)


def _references(draft: Draft) -> Array:
    return np.array([axis.reference for j in draft.joints for axis in j.joint.moving_axes], np.float64)


def _of_distance(draft: Draft, entity: int, constraint: Constraint) -> _Coupling | None:
    if constraint.distance <= 0.0:
        return None
    named = ((constraint.a, constraint.pose_a), (constraint.b, constraint.pose_b))
    ends = [(find_end(draft, entity, name), pose) for name, pose in named]
    spots = [spot_of(end, in_world(draft, entity, end, pose)) for end, pose in ends]
    path = new_path(draft, [("straight", spots, 1.0, ())])
    polynomial = (constraint.distance, 0.0, 0.0, 0.0, 0.0)
    return _Coupling(constraint.name, _along(draft, path), _nothing(draft), polynomial, _hardness(constraint))


def _of_gear(draft: Draft, entity: int, constraint: Constraint) -> _Coupling | None:
    reference = find_end(draft, entity, constraint.reference)
    ends = ((constraint.a, constraint.gear_axis_a), (constraint.b, constraint.gear_axis_b))
    links = [(find_end(draft, entity, name), np.asarray(axis, np.float64)) for name, axis in ends]
    moments = [gear_moment(draft, link, reference, axis / np.linalg.norm(axis)) for link, axis in links]
    a, b = (None if m is None or not m.any() else _Length(m, float(m @ _references(draft))) for m in moments)
    if a is None or b is None:
        return None
    return _Coupling(constraint.name, b, a, (0.0, -constraint.ratio, 0.0, 0.0, 0.0), _hardness(constraint))


def _hardness(constraint: Constraint) -> SolverParameters:
    """Of kinds that only formats without softness have."""
    return HARD if constraint.solver.solref is None and constraint.solver.solimp is None else constraint.solver
