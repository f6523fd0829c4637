"""What a CAD joint lets move: its frame on the parent, and the axes along which the child moves.

Everything is in the root component's frame, where the assembly stands in the snapshot. A joint's frame has its z along
the axis of rotation (or of the slide, where nothing turns), and x as near as can be to the CAD program's own x.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Axis, AxisMotion, JointKind, rotation, translation
from kinema.foundation import Array, Diagnostics, Pose, axis_angle_to_matrix

from .elements import JointElement
from .schema import FORMAT, MOTIONS

_SQUARE = 1e-9
"""Cosine of the angle between two axes below which they are square to each other."""


@dataclass(slots=True, eq=False)
class JointModel:
    """The motion of a joint: a product over its axes, in order."""

    kind: JointKind
    turn: Array
    """Rotation of the joint's frame on the parent."""
    origins: list[Array]
    """Where that frame may lie on the parent; the first where nothing speaks for another."""
    names: list[str] = field(default_factory=list)
    """The motion that each axis is."""
    axes: list[Axis] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    """Where each motion stands in the snapshot."""
    stacked: bool = False
    """Whether each axis has to be a joint of its own."""
    pitch: float = 0.0
    """Travel of a screw [m per revolution]."""
    must_agree: Array = field(default_factory=lambda: np.eye(3))
    """Projects onto the directions in which the origins must agree."""

    @property
    def frame(self) -> Pose:
        """The joint's frame on the parent."""
        return Pose(self.origins[0], self.turn)

    def motion(self, values: Mapping[str, float] | None = None) -> Pose:
        """Pose of the joint's frame on the child in that on the parent; motions not named stand as in the snapshot."""
        moved = {**self.values, **(values or {})}
        pose = Pose()
        for name, axis in zip(self.names, self.axes, strict=True):
            if axis.motion is AxisMotion.ROTATION:
                pose = pose @ Pose(rotation=axis_angle_to_matrix(axis.direction, moved[name]))
            else:
                pose = pose @ Pose.translation(moved[name] * axis.direction)
        return pose

    def disagreement(self) -> float:
        """How far [m] the possible origins are apart, along what the joint does not leave open."""
        return max(float(np.linalg.norm(self.must_agree @ (o - self.origins[0]))) for o in self.origins)


def model_joint(element: JointElement, child: Pose, diagnostics: Diagnostics, *, by_angles: bool = False) -> JointModel:
    """The motion of a joint whose child stands at `child`.

    Args:
        element: the joint.
        child: where occurrence one is.
        diagnostics: where to report.
        by_angles: whether a ball joint's pitch, yaw and roll must each be a coordinate, because something follows them.
    """
    model = _moving(element, child, diagnostics, by_angles) if _may_move(element, diagnostics) else None
    if model is None:
        frame = element.frame2 or element.frame1 or child
        return JointModel(JointKind.FIXED, frame.rotation, [frame.position])
    model.values = {name: element.motions[name].value for name in model.names}
    for name, axis in zip(model.names, model.axes, strict=True):
        _limit(element, name, axis, diagnostics)
    return model


def _may_move(element: JointElement, diagnostics: Diagnostics) -> bool:
    """Whether the joint moves and everything is there that has to be known of it."""
    label = f'joint "{element.name}"'
    if element.type == "inferred":
        message = f"{label} is inferred from other relations, and the snapshot does not say how it moves: it is fixed"
        hint = "replace it by a joint of a definite type in the CAD program"
        diagnostics.warning(f"{FORMAT}.inferred-joint", message, hint=hint, origin=element.place)
        return False
    if element.locked and MOTIONS[element.type]:
        message = f"{label} ({element.type}) is locked in the CAD program: it is fixed"
        hint = "unlock it before the export if it should move"
        diagnostics.warning(f"{FORMAT}.locked-joint", message, hint=hint, origin=element.place)
        return False
    without = [n for n in MOTIONS[element.type] if n not in element.motions or element.motions[n].axis is None]
    if without:
        message = f"{label} ({element.type}) has no direction for: {', '.join(without)}; it is fixed"
        diagnostics.error(f"{FORMAT}.no-axis", message, origin=element.place)
        return False
    if MOTIONS[element.type] and element.type != "slider" and element.frame1 is None and element.frame2 is None:
        message = f"{label} ({element.type}) has no frame, so that nothing says where its axis lies; it is fixed"
        diagnostics.error(f"{FORMAT}.no-joint-frame", message, origin=element.place)
        return False
    return bool(MOTIONS[element.type])


def _moving(element: JointElement, child: Pose, diagnostics: Diagnostics, by_angles: bool) -> JointModel | None:
    axes = {name: motion.axis for name, motion in element.motions.items() if motion.axis is not None}
    frames = [f for f in (element.frame2, element.frame1) if f is not None] or [child]
    match element.type:
        case "revolute" | "slider":
            return _single(element, axes, frames)
        case "cylindrical":
            return _cylindrical(element, axes, frames, diagnostics)
        case "pin_slot":
            return _pin_slot(element, axes, frames)
        case "planar":
            return _planar(element, axes, diagnostics)
        case "ball":
            return _ball(element, axes, frames, by_angles)
    return None


def _single(element: JointElement, axes: dict[str, Array], frames: list[Pose]) -> JointModel:
    (name,) = axes
    turn = _upright(axes[name], frames[0].rotation[:, 0])
    if element.type == "slider":
        return JointModel(JointKind.PRISMATIC, turn, [frames[0].position], [name], [translation((0, 0, 1))])
    motion = element.motions[name]
    kind = JointKind.CONTINUOUS if motion.lower is None and motion.upper is None else JointKind.REVOLUTE
    origins = [f.position for f in frames]
    return JointModel(kind, turn, origins, [name], [rotation((0, 0, 1))], must_agree=_across(axes[name]))


def _cylindrical(
    element: JointElement, axes: dict[str, Array], frames: list[Pose], diagnostics: Diagnostics
) -> JointModel:
    z = axes["rotation"]
    turn = _upright(z, frames[0].rotation[:, 0])
    along = float(axes["slide"] @ z)
    off = float(np.linalg.norm(np.cross(axes["slide"], z)))
    if off > 1e-6:
        message = f'joint "{element.name}" (cylindrical) slides {off:.3g} rad off its axis of rotation, which counts'
        diagnostics.error(f"{FORMAT}.axes-disagree", message, origin=element.place)
    moved = [rotation((0, 0, 1)), translation((0, 0, math.copysign(1.0, along)))]
    origins = [f.position for f in frames]
    return JointModel(JointKind.CYLINDRICAL, turn, origins, ["rotation", "slide"], moved, must_agree=_across(z))


def _pin_slot(element: JointElement, axes: dict[str, Array], frames: list[Pose]) -> JointModel:
    """A translation fixed in the parent, then a rotation: a six-axis joint with four axes locked.

    A slot that is not square to the pin needs two joints, since a six-axis joint's axes are square to each other.
    """
    z, slide = axes["rotation"], axes["slide"]
    origins = _centres(element, axes)
    if abs(float(slide @ z)) > _SQUARE:
        turn = _upright(z, frames[0].rotation[:, 0])
        moved = [translation(turn.T @ slide), rotation((0, 0, 1))]
        model = JointModel(JointKind.PRISMATIC, turn, origins, ["slide", "rotation"], moved, stacked=True)
    else:
        moved = [translation((1, 0, 0)), rotation((0, 0, 1))]
        model = JointModel(JointKind.SIX_AXIS, _upright(z, slide), origins, ["slide", "rotation"], moved)
    model.must_agree = _across(z)
    return model


def _planar(element: JointElement, axes: dict[str, Array], diagnostics: Diagnostics) -> JointModel:
    z, first, second = (axes[n] for n in ("rotation", "primary_slide", "secondary_slide"))
    turn = _upright(z, first)
    directions = [turn.T @ first, turn.T @ second]
    if max(abs(float(z @ first)), abs(float(z @ second)), abs(float(first @ second))) <= _SQUARE:
        directions = [d.round() for d in directions]
    else:
        message = f'joint "{element.name}" (planar): its two slides and its normal are not square to each other'
        diagnostics.warning(f"{FORMAT}.axes-not-square", message, origin=element.place)
    moved = [translation(directions[0]), translation(directions[1]), rotation((0, 0, 1))]
    names = ["primary_slide", "secondary_slide", "rotation"]
    return JointModel(JointKind.PLANAR, turn, _centres(element, axes), names, moved, must_agree=_across(z))


def _ball(element: JointElement, axes: dict[str, Array], frames: list[Pose], by_angles: bool) -> JointModel:
    """Any rotation; where pitch, yaw and roll have limits, three rotations one after the other."""
    x, y, z = (axes[n] for n in ("pitch", "yaw", "roll"))
    normal = np.cross(x, y)
    length = float(np.linalg.norm(normal))
    turn = _upright(normal / length, x) if length > 1e-6 else frames[0].rotation
    directions = [turn.T @ a for a in (x, y, z)]
    if max(abs(float(x @ y)), abs(float(y @ z)), abs(float(x @ z))) <= _SQUARE:
        directions = [d.round() for d in directions]
    limited = any(m.lower is not None or m.upper is not None for m in element.motions.values())
    kind = JointKind.SIX_AXIS if limited or by_angles else JointKind.SPHERICAL
    origins = [f.position for f in frames]
    return JointModel(kind, turn, origins, ["pitch", "yaw", "roll"], [rotation(d) for d in directions])


def _centres(element: JointElement, axes: dict[str, Array]) -> list[Array]:
    """Where the pin may be at rest, for joints that slide and then turn about the pin.

    The pin is at the child's joint frame. An as-built joint has one frame, which may be the parent's or the child's.
    """
    slid = sum((m.value * axes[n] for n, m in element.motions.items() if "slide" in n), np.zeros(3))
    pins = [element.frame1.position] if element.frame1 is not None else []
    if element.frame2 is not None:
        pins.append(element.frame2.position + slid)
        if element.kind == "as_built":
            pins.append(element.frame2.position)
    return [pin - slid for pin in pins]


def _upright(z: Array, x: Array) -> Array:
    """A rotation with that z, and x as near to the given one as can be."""
    side = x - (x @ z) * z
    if float(np.linalg.norm(side)) < 1e-6:
        side = np.eye(3)[int(np.argmin(np.abs(z)))]
        side = side - (side @ z) * z
    side = side / np.linalg.norm(side)
    return np.column_stack([side, np.cross(z, side), z])


def _across(z: Array) -> Array:
    return np.eye(3) - np.outer(z, z)


def _limit(element: JointElement, name: str, axis: Axis, diagnostics: Diagnostics) -> None:
    motion = element.motions[name]
    axis.lower = -math.inf if motion.lower is None else motion.lower
    axis.upper = math.inf if motion.upper is None else motion.upper
    slack = 1e-6
    if not axis.lower - slack <= motion.value <= axis.upper + slack:
        message = f'joint "{element.name}": its {name.replace("_", " ")} stands at {motion.value:g}, outside its limits'
        hint = "drive the joint into its limits before the export, or correct them"
        diagnostics.warning(f"{FORMAT}.value-outside-limits", message, hint=hint, origin=motion.place)
