"""Equality constraints."""

from __future__ import annotations

from typing import Any

from kinema.description import Constraint, ConstraintKind
from kinema.foundation import Pose
from kinema.words import mjcf

from .engine import mujoco
from .reading import Reading, floats, pose_of, solver_parameters
from .tendons import bodies_of_tendon


def constraints(reading: Reading) -> list[tuple[set[int], Constraint]]:
    """Every equality constraint with the bodies it holds."""
    return [(bodies_of_equality(reading.model, e), _constraint(reading, e)) for e in range(reading.model.neq)]


def _constraint(reading: Reading, number: int) -> Constraint:
    model, kinds = reading.model, mujoco().mjtEq
    constraint = Constraint(
        **reading.node(mjcf.EQUALITY, "equalities", number),
        kind=ConstraintKind.OTHER,
        active=bool(model.eq_active0[number]),
        solver=solver_parameters(model.eq_solref[number], model.eq_solimp[number]),
    )
    data = floats(model.eq_data[number])
    first, second = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
    match int(model.eq_type[number]):
        case kinds.mjEQ_CONNECT:
            constraint.kind = ConstraintKind.CONNECT
            _between_bodies(reading, number, constraint, Pose.translation(data[0:3]), Pose.translation(data[3:6]))
        case kinds.mjEQ_WELD:
            constraint.kind = ConstraintKind.WELD
            constraint.torque_scale = data[10]
            # the weld point in body 1 with the relative rotation, and the same point (the anchor) in body 2
            _between_bodies(reading, number, constraint, pose_of(data[3:6], data[6:10]), Pose.translation(data[0:3]))
        case kinds.mjEQ_JOINT:
            constraint.kind = ConstraintKind.JOINT
            constraint.a, constraint.b = reading.name(mjcf.JOINT, first), reading.name(mjcf.JOINT, second) or None
            constraint.polynomial = data[:5]  # type: ignore[assignment]  # ty: ignore[invalid-assignment]
        case kinds.mjEQ_TENDON:
            constraint.kind = ConstraintKind.TENDON
            constraint.a, constraint.b = reading.name(mjcf.TENDON, first), reading.name(mjcf.TENDON, second) or None
            constraint.polynomial = data[:5]  # type: ignore[assignment]  # ty: ignore[invalid-assignment]
        case other:
            _keep(reading, number, constraint, other)
    return constraint


def _between_bodies(reading: Reading, number: int, constraint: Constraint, pose_a: Pose, pose_b: Pose) -> None:
    """The two links and frames; sites are frames on their bodies already."""
    model = reading.model
    first, second = int(model.eq_obj1id[number]), int(model.eq_obj2id[number])
    if int(model.eq_objtype[number]) == int(mujoco().mjtObj.mjOBJ_SITE):
        pose_a = pose_of(model.site_pos[first], model.site_quat[first])
        pose_b = pose_of(model.site_pos[second], model.site_quat[second])
        constraint.attributes[mjcf.key(mjcf.SITES)] = (reading.name(mjcf.SITE, first), reading.name(mjcf.SITE, second))
        first, second = int(model.site_bodyid[first]), int(model.site_bodyid[second])
    constraint.a, constraint.b = reading.link(first), reading.link(second)
    constraint.pose_a, constraint.pose_b = pose_a, pose_b


def _keep(reading: Reading, number: int, constraint: Constraint, kind: int) -> None:
    model = reading.model
    name = mujoco().mjtEq(kind).name.split("_", 1)[1].lower()
    constraint.attributes |= {mjcf.key(mjcf.TYPE): name, mjcf.key(mjcf.DATA): floats(model.eq_data[number])}
    if model.nflex:
        constraint.attributes[mjcf.key(mjcf.FLEX)] = reading.name(mjcf.FLEX, int(model.eq_obj1id[number]))
    message = f'the equality constraint "{constraint.name}" of a deformable body is kept, but not understood'
    reading.warning("deformable-constraint", message, constraint.origin)


def bodies_of_equality(model: Any, number: int) -> set[int]:
    """The bodies a constraint holds, the world among them."""
    kinds, objects = mujoco().mjtEq, mujoco().mjtObj
    numbers = [int(i) for i in (model.eq_obj1id[number], model.eq_obj2id[number]) if i >= 0]
    match int(model.eq_type[number]):
        case kinds.mjEQ_CONNECT | kinds.mjEQ_WELD:
            if int(model.eq_objtype[number]) == int(objects.mjOBJ_SITE):
                return {int(model.site_bodyid[s]) for s in numbers}
            return set(numbers)
        case kinds.mjEQ_JOINT:
            return {int(model.jnt_bodyid[j]) for j in numbers}
        case kinds.mjEQ_TENDON:
            return {b for t in numbers for b in bodies_of_tendon(model, t)}
    return bodies_of_flex(model, int(model.eq_obj1id[number])) if model.nflex else set()


def bodies_of_flex(model: Any, flex: int) -> set[int]:
    """The bodies that carry a deformable body's points."""
    first, count = int(model.flex_vertadr[flex]), int(model.flex_vertnum[flex])
    bodies = {int(b) for b in model.flex_vertbodyid[first : first + count]}
    if hasattr(model, "flex_nodebodyid"):
        first, count = int(model.flex_nodeadr[flex]), int(model.flex_nodenum[flex])
        bodies |= {int(b) for b in model.flex_nodebodyid[first : first + count]}
    return {b for b in bodies if b >= 0}
