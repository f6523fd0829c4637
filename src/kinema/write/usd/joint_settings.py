"""Joint settings that UsdPhysics does not have, in the namespaces that others have made for them."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import NamedTuple

from kinema.description import AxisMotion, Joint, SolverParameters
from kinema.words import mjc, newton, ours

from ..report import Action
from .draft import PrimDraft
from .plan import RobotPlan
from .writing import Writing

DEGREE = math.pi / 180


class _Setting(NamedTuple):
    field: str
    """Of `Axis`."""
    unset: float
    attribute: str
    """Empty where nobody has one: then it goes into Kinema's own."""
    in_usd: Callable[[float, bool], float] = lambda value, turns: value
    """The value in USD's unit, for an axis that turns or one that slides."""


def _speed(value: float, turns: bool) -> float:
    return value / DEGREE if turns else value


def _per_speed(value: float, turns: bool) -> float:
    return value * DEGREE if turns else value


_SETTINGS = (
    _Setting("armature", 0.0, newton.ARMATURE),
    _Setting("damping", 0.0, newton.DAMPING, _per_speed),
    _Setting("friction", 0.0, newton.FRICTION),
    _Setting("velocity", math.inf, newton.VELOCITY_LIMIT, _speed),
    _Setting("effort", math.inf, newton.EFFORT_LIMIT),
    _Setting("stiffness", 0.0, mjc.STIFFNESS),
    _Setting("spring_reference", 0.0, mjc.SPRING_REF, _speed),
    _Setting("acceleration", math.inf, ""),
    _Setting("deceleration", math.inf, ""),
    _Setting("jerk", math.inf, ""),
)


def author_settings(writing: Writing, joint: Joint, prim: PrimDraft) -> None:
    """Passive dynamics and limits of speed and effort."""
    axes = joint.axes
    for setting in _SETTINGS:
        values = [getattr(a, setting.field) for a in axes]
        if all(v == setting.unset for v in values):
            continue
        in_usd = {setting.in_usd(v, a.motion is AxisMotion.ROTATION) for v, a in zip(values, axes, strict=True)}
        if setting.attribute and len(in_usd) == 1:
            _one_for_all(prim, setting.attribute, in_usd.pop())
            how = f"it is in {setting.attribute}, which is no part of UsdPhysics"
        else:
            kept = ours.axis(setting.field)
            prim.keep(kept, values)
            how = f"it is in {kept.name}, which other tools do not know"
        writing.lose(Action.EXTENSION, joint, setting.field.replace("_", " "), how)
    _solver(writing, joint, prim)


def _one_for_all(prim: PrimDraft, attribute: str, value: float) -> None:
    if attribute.startswith(newton.NAMESPACE):
        prim.apply(newton.JOINT_API)
        prim.number(attribute, "float", value)
    else:
        prim.apply(mjc.JOINT_API)
        prim.set(attribute, "double", value, uniform=True)


def _solver(writing: Writing, joint: Joint, prim: PrimDraft) -> None:
    """MuJoCo's soft limits and friction."""
    default = SolverParameters()
    for field, names in (("limit_solver", mjc.LIMIT_SOLVER), ("friction_solver", mjc.FRICTION_SOLVER)):
        solvers = {getattr(a, field) for a in joint.axes} - {default}
        if not solvers:
            continue
        prim.apply(mjc.JOINT_API)
        if len({getattr(a, field) for a in joint.axes}) > 1:
            writing.lose(Action.DROPPED, joint, f"{field.replace('_', ' ')} parameters", "they differ between its axes")
            continue
        solver = solvers.pop()
        author_solver(prim, solver, names)
        how = f"they are in {names[0]} and {names[1]}, which MuJoCo knows"
        writing.lose(Action.EXTENSION, joint, f"{field.replace('_', ' ')} parameters", how)


def author_solver(prim: PrimDraft, solver: SolverParameters, names: Sequence[str]) -> None:
    """MuJoCo's parameters of a limit or of friction; `names` are those of reference, impedance and, perhaps, margin."""
    if solver.solref is not None:
        prim.set(names[0], "double[]", solver.solref, uniform=True)
    if solver.solimp is not None:
        prim.set(names[1], "double[]", solver.solimp, uniform=True)
    if solver.margin and len(names) > 2:
        prim.set(names[2], "double", solver.margin, uniform=True)


def author_mimic(writing: Writing, parts: RobotPlan, joint: Joint, prim: PrimDraft) -> None:
    """A joint that follows another: `joint = coef0 + coef1 * leader`, in degrees."""
    for number, axis in enumerate(joint.axes):
        mimic = axis.mimic
        if mimic is None:
            continue
        leader = parts.joint_by_name.get(mimic.joint)
        if leader is None or id(leader) not in parts.joints:
            writing.lose(Action.DROPPED, joint, "that it follows another", f'there is no joint "{mimic.joint}"')
            continue
        if number > 0 or mimic.axis > 0 or len(leader.axes) != 1:
            how = "only joints of one axis can follow each other in NewtonMimicAPI"
            writing.lose(Action.DROPPED, joint, f'that it follows "{mimic.joint}"', how)
            continue
        turns = axis.motion is AxisMotion.ROTATION
        prim.apply(newton.MIMIC_API)
        prim.relate(newton.MIMIC_JOINT, [parts.joints[id(leader)]])
        offset = mimic.offset - mimic.multiplier * mimic.reference
        if offset:
            prim.number(newton.MIMIC_OFFSET, "float", _speed(offset, turns))
        prim.number(newton.MIMIC_FACTOR, "float", mimic.multiplier)
        how = "it is in NewtonMimicAPI, which is no part of UsdPhysics"
        if leader.axes[0].motion is not axis.motion:
            how += "; the factor is in metres and radians, as the schema gives no unit where one turns and one slides"
        writing.lose(Action.EXTENSION, joint, f'that it follows "{mimic.joint}"', how)
