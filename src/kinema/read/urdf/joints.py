"""What URDF joints mean."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np

from kinema.description import (
    Axis,
    Joint,
    JointKind,
    Mimic,
    free_axes,
    rotation,
    spherical_axes,
    translation,
)
from kinema.foundation import Array, Diagnostics, axis_angle_to_matrix, vector
from kinema.words import urdf

from .context import extra_of
from .elements import JointElement, LimitElement
from .placement import pose_of

_KINDS = {
    "revolute": JointKind.REVOLUTE,
    "continuous": JointKind.CONTINUOUS,
    "prismatic": JointKind.PRISMATIC,
    "fixed": JointKind.FIXED,
    "floating": JointKind.FREE,
    "planar": JointKind.PLANAR,
    "spherical": JointKind.SPHERICAL,
}
_DRAKE_KINDS = {
    "ball": JointKind.SPHERICAL,
    "planar": JointKind.PLANAR,
    "screw": JointKind.SCREW,
    "universal": JointKind.UNIVERSAL,
}
_NO_LIMIT = 1e16
"""From here on a limit stands for none, as in SDFormat: URDF 1.0 wants numbers, and other readers refuse infinity."""
_ONE_AXIS = (JointKind.REVOLUTE, JointKind.CONTINUOUS, JointKind.PRISMATIC, JointKind.SCREW)


@dataclass(slots=True, eq=False)
class JointConverter:
    """Turns joint elements into joints; `has_12_limits` says by which version's rules absent limits are read."""

    diagnostics: Diagnostics
    has_12_limits: bool

    def convert(self, element: JointElement) -> Joint:
        """The joint, with the name as the file gives it."""
        joint = Joint(
            name=element.name,
            origin=element.place,
            extras=list(element.extras),
            kind=self._kind(element),
            parent=element.parent,
            child=element.child,
            parent_pose=pose_of(element.placement),
        )
        if joint.kind is JointKind.SCREW:
            joint.pitch = self._thread_pitch(element)
        joint.axes = self._axes(joint.kind, element)
        if joint.kind in _ONE_AXIS:
            self._limit(joint, element)
            self._mimic(joint.axes[0], element)
        self._dynamics(joint, element)
        self._ignore(joint, element)
        if element.safety:
            joint.attributes[urdf.SAFETY_CONTROLLER] = element.safety
        if element.calibration:
            joint.attributes[urdf.CALIBRATION] = element.calibration
        return joint

    # -- kinds and axes -------------------------------------------------------------------------------------------

    def _kind(self, element: JointElement) -> JointKind:
        kinds = _DRAKE_KINDS if element.is_drake else _KINDS
        if element.type in kinds:
            return kinds[element.type]
        if element.type:  # a missing type was reported when it was not found
            message = f'joint "{element.name}" has the unknown type {element.type!r}; it is read as fixed'
            hint = f"the types are {', '.join(kinds)}"
            self.diagnostics.error(f"{urdf.FORMAT}.unknown-joint-type", message, hint=hint, origin=element.place)
        return JointKind.FIXED

    def _axes(self, kind: JointKind, element: JointElement) -> list[Axis]:
        match kind:
            case JointKind.REVOLUTE | JointKind.CONTINUOUS | JointKind.SCREW:
                return [rotation(self._direction(element))]
            case JointKind.PRISMATIC:
                return [translation(self._direction(element))]
            case JointKind.PLANAR:
                x, y, normal = plane_axes(self._direction(element))
                return [translation(x), translation(y), rotation(normal)]
            case JointKind.UNIVERSAL:
                return [rotation((1, 0, 0)), rotation((0, 1, 0))]
            case JointKind.SPHERICAL:
                return spherical_axes()
            case JointKind.FREE:
                return free_axes()
            case _:
                return []

    def _direction(self, element: JointElement) -> Array:
        """The joint's axis as a unit vector."""
        if element.axis is None:
            return vector((1, 0, 0))
        largest = float(np.abs(element.axis).max())
        if largest == 0:
            message = f'joint "{element.name}": its axis is zero; 1 0 0 is assumed'
            self.diagnostics.error(f"{urdf.FORMAT}.zero-axis", message, origin=element.place)
            return vector((1, 0, 0))
        scaled = element.axis / largest  # so that squaring neither under- nor overflows
        length = largest * float(np.linalg.norm(scaled))
        # an axis that is only rounded in the file is no mistake
        if abs(length - 1) > 1e-6:
            report = self.diagnostics.warning if abs(length - 1) > 1e-2 else self.diagnostics.note
            message = f'joint "{element.name}": its axis has length {length:g}; it is normalised'
            report(f"{urdf.FORMAT}.axis-not-unit", message, origin=element.place)
        return scaled / np.linalg.norm(scaled)

    def _thread_pitch(self, element: JointElement) -> float:
        if element.thread_pitch is None:
            message = f'joint "{element.name}" is a screw without <drake:screw_thread_pitch>; zero is assumed'
            self.diagnostics.error(f"{urdf.FORMAT}.missing-element", message, origin=element.place)
        return element.thread_pitch or 0.0

    # -- limits ---------------------------------------------------------------------------------------------------

    def _limit(self, joint: Joint, element: JointElement) -> None:
        limit, axis = element.limit, joint.axes[0]
        is_bounded = joint.kind in (JointKind.REVOLUTE, JointKind.PRISMATIC)
        if limit is None:
            if is_bounded:
                message = f'{element.type} joint "{element.name}" has no <limit>; it is read as unlimited'
                hint = "give it a <limit>, or make it continuous"
                self.diagnostics.error(f"{urdf.FORMAT}.missing-limit", message, hint=hint, origin=element.place)
            return
        if joint.kind is JointKind.CONTINUOUS:
            self._set_aside(joint, limit)
        else:
            axis.lower, axis.upper = self._range(joint, element, limit, is_bounded)
        if not self.has_12_limits and not element.is_drake:
            missing = [n for n in ("effort", "velocity") if getattr(limit, n) is None]
            if missing:
                names = " and ".join(repr(n) for n in missing)
                message = f'joint "{element.name}": its <limit> has no {names}; infinity is assumed'
                self.diagnostics.error(f"{urdf.FORMAT}.missing-limit", message, origin=limit.place)
        axis.effort = _or_infinity(limit.effort)
        axis.velocity = _or_infinity(limit.velocity)
        axis.acceleration = _or_infinity(limit.acceleration)
        axis.deceleration = axis.acceleration if limit.deceleration is None else _or_infinity(limit.deceleration)
        axis.jerk = _or_infinity(limit.jerk)

    def _range(self, joint: Joint, element: JointElement, limit: LimitElement, is_bounded: bool) -> tuple[float, float]:
        """Lower and upper limit, by the rules of the file's version."""
        missing = [n for n in ("lower", "upper") if getattr(limit, n) is None]
        if self.has_12_limits or not is_bounded:
            if missing and is_bounded:
                names = " and ".join(repr(n) for n in missing)
                message = f'{element.type} joint "{joint.name}": its <limit> has no {names}; infinity is assumed'
                self.diagnostics.error(f"{urdf.FORMAT}.missing-limit", message, origin=limit.place)
            return -_or_infinity(None if limit.lower is None else -limit.lower), _or_infinity(limit.upper)
        if len(missing) == 2:
            message = f"{element.type} joint \"{joint.name}\" cannot move: its <limit> has neither 'lower' nor 'upper'"
            hint = "both are zero then; write them, or make the joint fixed or continuous"
            self.diagnostics.warning(f"{urdf.FORMAT}.frozen-joint", message, hint=hint, origin=limit.place)
        elif missing:
            message = f'{element.type} joint "{joint.name}": its <limit> has no {missing[0]!r}, which means zero'
            self.diagnostics.note(f"{urdf.FORMAT}.limit-default", message, origin=limit.place)
        return -_or_infinity(-(limit.lower or 0.0)), _or_infinity(limit.upper or 0.0)

    def _set_aside(self, joint: Joint, limit: LimitElement) -> None:
        """A continuous joint has no lower and upper limit: keep what is written, but not as a limit."""
        written = {n: v for n, v in (("lower", limit.lower), ("upper", limit.upper)) if v is not None}
        if written:
            joint.attributes[urdf.LIMIT] = written
            message = f'continuous joint "{joint.name}" has a lower or upper limit, which is ignored'
            hint = "make the joint revolute if it is meant"
            self.diagnostics.warning(f"{urdf.FORMAT}.continuous-limit", message, hint=hint, origin=limit.place)

    # -- mimic, dynamics ------------------------------------------------------------------------------------------

    def _mimic(self, axis: Axis, element: JointElement) -> None:
        if element.mimic is not None:
            mimic = element.mimic
            axis.mimic = Mimic(joint=mimic.joint, multiplier=mimic.multiplier, offset=mimic.offset)

    def _dynamics(self, joint: Joint, element: JointElement) -> None:
        """Damping and friction, the same for all axes of a joint that has several."""
        if element.dynamics is None:
            return
        damping = element.dynamics.damping
        for i, axis in enumerate(joint.axes):
            axis.damping = float(damping[i if damping.size == len(joint.axes) else 0])
            axis.friction = element.dynamics.friction

    def _ignore(self, joint: Joint, element: JointElement) -> None:
        """Keep the children that mean nothing for this kind of joint, and say so."""
        harmless: Iterable[str] = ()
        lost: Iterable[str] = ()
        match joint.kind:
            case JointKind.FIXED:
                harmless = ("axis", "limit", "dynamics", "mimic")
            case JointKind.FREE | JointKind.SPHERICAL | JointKind.UNIVERSAL:
                harmless, lost = ("axis",), ("limit", "mimic")
            case JointKind.PLANAR:
                lost = ("limit", "mimic")
        for tags, report in ((harmless, self.diagnostics.note), (lost, self.diagnostics.warning)):
            found = [t for t in tags if t in element.children]
            if found:
                joint.extras += [extra_of(element.children[t]) for t in found]
                names = ", ".join(f"<{t}>" for t in found)
                message = f'{joint.kind.value} joint "{joint.name}" keeps {names} as written, without any effect'
                report(f"{urdf.FORMAT}.ignored-element", message, origin=element.place)


def plane_axes(normal: Array) -> tuple[Array, Array, Array]:
    """Two directions in the plane with that unit normal, and the normal.

    They are x and y after the shortest rotation that takes z to the normal, which is also what MuJoCo and Drake
    choose. For -z, where all half turns are equally short, it is the one about x.
    """
    sine = math.hypot(normal[0], normal[1])
    about = vector((1, 0, 0)) if sine < 1e-10 else np.array([-normal[1], normal[0], 0.0]) / sine
    turn = axis_angle_to_matrix(about, math.atan2(sine, float(normal[2])))
    return turn[:, 0], turn[:, 1], normal


def _or_infinity(value: float | None) -> float:
    """The value; infinity where there is none, or one so large that it stands for none."""
    return math.inf if value is None or value >= _NO_LIMIT else value
