"""Kinematic models of CAD joints (joint frame on the parent, motion axes), checked against measured poses.

All quantities are in the frame of the root component, at the configuration stored in the snapshot. The z axis of a
joint frame lies along the axis of rotation (or of translation if the joint does not rotate); its x axis is as close as
possible to the x axis that the CAD program reports.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from itertools import permutations

import numpy as np

from kinema.core import Array, Diagnostics, Pose, axis_angle_to_matrix
from kinema.description import Axis, AxisMotion, JointKind, rotation, translation

from .elements import FORMAT, JOINT_MOTIONS, JointElement, PoseSampleElement

# -- joint models ------------------------------------------------------------------------------------------------------

_ORTHOGONAL_TOLERANCE = 1e-9
"""Cosine below which two axes are treated as orthogonal."""


@dataclass(slots=True, eq=False)
class JointModel:
    """Kinematic model of a joint: the product of the transforms of its axes, in order."""

    kind: JointKind
    rotation: Array
    """Orientation of the joint frame on the parent."""
    origins: list[Array]
    """Candidate origins of the joint frame; the first is the default."""
    motion_names: list[str] = field(default_factory=list)
    """Name of the motion of each axis."""
    axes: list[Axis] = field(default_factory=list)
    values: dict[str, float] = field(default_factory=dict)
    """Motion -> coordinate in the snapshot."""
    stacked: bool = False
    """Whether each axis becomes a separate joint."""
    pitch: float = 0.0
    """Pitch of a screw [m per revolution]."""
    agreement_projection: Array = field(default_factory=lambda: np.eye(3))
    """Projection, shape (3, 3), on the directions in which the candidate origins must agree."""

    @property
    def frame(self) -> Pose:
        """Joint frame on the parent."""
        return Pose(self.origins[0], self.rotation)

    def relative_pose(self, values: Mapping[str, float] | None = None) -> Pose:
        """Pose of the child's joint frame in the parent's joint frame; other motions as in the snapshot."""
        moved = {**self.values, **(values or {})}
        pose = Pose()
        for name, axis in zip(self.motion_names, self.axes, strict=True):
            if axis.motion is AxisMotion.ROTATION:
                pose = pose @ Pose(rotation=axis_angle_to_matrix(axis.direction, moved[name]))
            else:
                pose = pose @ Pose.translation(moved[name] * axis.direction)
        return pose

    def origin_disagreement(self) -> float:
        """Maximum distance [m] between the candidate origins, projected on the constrained directions."""
        return max(float(np.linalg.norm(self.agreement_projection @ (o - self.origins[0]))) for o in self.origins)


def build_joint_model(
    element: JointElement, child: Pose, diagnostics: Diagnostics, *, as_three_rotations: bool = False
) -> JointModel:
    """Build the kinematic model of a CAD joint; a fixed joint if its motion is unknown or locked.

    Args:
        element: the joint.
        child: pose of occurrence one.
        diagnostics: where to report.
        as_three_rotations: whether pitch, yaw and roll of a ball joint must be separate coordinates for mimics.
    """
    model = (
        _movable_model(element, child, diagnostics, as_three_rotations) if _is_movable(element, diagnostics) else None
    )
    if model is None:
        frame = element.frame2 or element.frame1 or child
        return JointModel(JointKind.FIXED, frame.rotation, [frame.position])
    model.values = {name: element.motions[name].value for name in model.motion_names}
    for name, axis in zip(model.motion_names, model.axes, strict=True):
        _apply_limits(element, name, axis, diagnostics)
    return model


def _is_movable(element: JointElement, diagnostics: Diagnostics) -> bool:
    """Whether the joint has motions with known axes and frame and is not locked; reports problems."""
    label = f'joint "{element.name}"'
    if element.type == "inferred":
        message = f"{label} is inferred from other relations, and the snapshot does not say how it moves: it is fixed"
        hint = "replace it by a joint of a definite type in the CAD program"
        diagnostics.warning(f"{FORMAT}.inferred-joint", message, hint=hint, origin=element.origin)
        return False
    if element.locked and JOINT_MOTIONS[element.type]:
        message = f"{label} ({element.type}) is locked in the CAD program: it is fixed"
        hint = "unlock it before the export if it should move"
        diagnostics.warning(f"{FORMAT}.locked-joint", message, hint=hint, origin=element.origin)
        return False
    without = [n for n in JOINT_MOTIONS[element.type] if n not in element.motions or element.motions[n].axis is None]
    if without:
        message = f"{label} ({element.type}) has no direction for: {', '.join(without)}; it is fixed"
        diagnostics.error(f"{FORMAT}.no-axis", message, origin=element.origin)
        return False
    if JOINT_MOTIONS[element.type] and element.type != "slider" and element.frame1 is None and element.frame2 is None:
        message = f"{label} ({element.type}) has no frame, so that nothing says where its axis lies; it is fixed"
        diagnostics.error(f"{FORMAT}.no-joint-frame", message, origin=element.origin)
        return False
    return bool(JOINT_MOTIONS[element.type])


def _movable_model(
    element: JointElement, child: Pose, diagnostics: Diagnostics, as_three_rotations: bool
) -> JointModel | None:
    """Dispatch to the model builder of the joint type; None for types without motion."""
    axes = {name: motion.axis for name, motion in element.motions.items() if motion.axis is not None}
    frames = [f for f in (element.frame2, element.frame1) if f is not None] or [child]
    match element.type:
        case "revolute" | "slider":
            return _single_axis_model(element, axes, frames)
        case "cylindrical":
            return _cylindrical_model(element, axes, frames, diagnostics)
        case "pin_slot":
            return _pin_slot_model(element, axes, frames)
        case "planar":
            return _planar_model(element, axes, diagnostics)
        case "ball":
            return _ball_model(element, axes, frames, as_three_rotations)
    return None


def _single_axis_model(element: JointElement, axes: dict[str, Array], frames: list[Pose]) -> JointModel:
    """Model of a revolute, continuous or prismatic joint."""
    (name,) = axes
    turn = _rotation_from_z_and_x(axes[name], frames[0].rotation[:, 0])
    if element.type == "slider":
        return JointModel(JointKind.PRISMATIC, turn, [frames[0].position], [name], [translation((0, 0, 1))])
    motion = element.motions[name]
    kind = JointKind.CONTINUOUS if motion.lower is None and motion.upper is None else JointKind.REVOLUTE
    origins = [f.position for f in frames]
    return JointModel(
        kind, turn, origins, [name], [rotation((0, 0, 1))], agreement_projection=_perpendicular(axes[name])
    )


def _cylindrical_model(
    element: JointElement, axes: dict[str, Array], frames: list[Pose], diagnostics: Diagnostics
) -> JointModel:
    """Model of a cylindrical joint: rotation about and translation along z."""
    z = axes["rotation"]
    turn = _rotation_from_z_and_x(z, frames[0].rotation[:, 0])
    along = float(axes["slide"] @ z)
    off = float(np.linalg.norm(np.cross(axes["slide"], z)))
    if off > 1e-6:
        message = f'joint "{element.name}" (cylindrical) slides {off:.3g} rad off its axis of rotation, which counts'
        diagnostics.error(f"{FORMAT}.axes-disagree", message, origin=element.origin)
    moved = [rotation((0, 0, 1)), translation((0, 0, math.copysign(1.0, along)))]
    origins = [f.position for f in frames]
    return JointModel(
        JointKind.CYLINDRICAL, turn, origins, ["rotation", "slide"], moved, agreement_projection=_perpendicular(z)
    )


def _pin_slot_model(element: JointElement, axes: dict[str, Array], frames: list[Pose]) -> JointModel:
    """Model of a pin-slot joint: a translation fixed in the parent followed by a rotation about the pin.

    A six-axis joint with four locked axes if slot and pin are orthogonal, otherwise two stacked joints, because the
    axes of a six-axis joint are orthogonal.
    """
    z, slide = axes["rotation"], axes["slide"]
    origins = _pin_origins(element, axes)
    if abs(float(slide @ z)) > _ORTHOGONAL_TOLERANCE:
        turn = _rotation_from_z_and_x(z, frames[0].rotation[:, 0])
        moved = [translation(turn.T @ slide), rotation((0, 0, 1))]
        model = JointModel(JointKind.PRISMATIC, turn, origins, ["slide", "rotation"], moved, stacked=True)
    else:
        moved = [translation((1, 0, 0)), rotation((0, 0, 1))]
        model = JointModel(JointKind.SIX_AXIS, _rotation_from_z_and_x(z, slide), origins, ["slide", "rotation"], moved)
    model.agreement_projection = _perpendicular(z)
    return model


def _planar_model(element: JointElement, axes: dict[str, Array], diagnostics: Diagnostics) -> JointModel:
    """Model of a planar joint: two translations followed by a rotation about the normal."""
    z, first, second = (axes[n] for n in ("rotation", "primary_slide", "secondary_slide"))
    turn = _rotation_from_z_and_x(z, first)
    directions = [turn.T @ first, turn.T @ second]
    if max(abs(float(z @ first)), abs(float(z @ second)), abs(float(first @ second))) <= _ORTHOGONAL_TOLERANCE:
        directions = [d.round() for d in directions]
    else:
        message = f'joint "{element.name}" (planar): its two slides and its normal are not square to each other'
        diagnostics.warning(f"{FORMAT}.axes-not-square", message, origin=element.origin)
    moved = [translation(directions[0]), translation(directions[1]), rotation((0, 0, 1))]
    names = ["primary_slide", "secondary_slide", "rotation"]
    return JointModel(
        JointKind.PLANAR, turn, _pin_origins(element, axes), names, moved, agreement_projection=_perpendicular(z)
    )


def _ball_model(
    element: JointElement, axes: dict[str, Array], frames: list[Pose], as_three_rotations: bool
) -> JointModel:
    """Model of a ball joint: spherical, or three successive rotations if angles are limited or mimicked."""
    x, y, z = (axes[n] for n in ("pitch", "yaw", "roll"))
    normal = np.cross(x, y)
    length = float(np.linalg.norm(normal))
    turn = _rotation_from_z_and_x(normal / length, x) if length > 1e-6 else frames[0].rotation
    directions = [turn.T @ a for a in (x, y, z)]
    if max(abs(float(x @ y)), abs(float(y @ z)), abs(float(x @ z))) <= _ORTHOGONAL_TOLERANCE:
        directions = [d.round() for d in directions]
    limited = any(m.lower is not None or m.upper is not None for m in element.motions.values())
    kind = JointKind.SIX_AXIS if limited or as_three_rotations else JointKind.SPHERICAL
    origins = [f.position for f in frames]
    return JointModel(kind, turn, origins, ["pitch", "yaw", "roll"], [rotation(d) for d in directions])


def _pin_origins(element: JointElement, axes: dict[str, Array]) -> list[Array]:
    """Candidate pin positions at zero translation, for joints that translate and then rotate about the pin.

    The pin is at the child's joint frame. An as-built joint has one frame, which may belong to the parent or the child.
    """
    slid = sum((m.value * axes[n] for n, m in element.motions.items() if "slide" in n), np.zeros(3))
    pins = [element.frame1.position] if element.frame1 is not None else []
    if element.frame2 is not None:
        pins.append(element.frame2.position + slid)
        if element.kind == "as_built":
            pins.append(element.frame2.position)
    return [pin - slid for pin in pins]


def _rotation_from_z_and_x(z: Array, x: Array) -> Array:
    """Rotation matrix with the given z axis and the x axis closest to the given one."""
    side = x - (x @ z) * z
    if float(np.linalg.norm(side)) < 1e-6:
        side = np.eye(3)[int(np.argmin(np.abs(z)))]
        side = side - (side @ z) * z
    side = side / np.linalg.norm(side)
    return np.column_stack([side, np.cross(z, side), z])


def _perpendicular(z: Array) -> Array:
    return np.eye(3) - np.outer(z, z)


def _apply_limits(element: JointElement, name: str, axis: Axis, diagnostics: Diagnostics) -> None:
    """Copy the limits of a motion to its axis; warns if the current value violates them."""
    motion = element.motions[name]
    axis.lower = -math.inf if motion.lower is None else motion.lower
    axis.upper = math.inf if motion.upper is None else motion.upper
    slack = 1e-6
    if not axis.lower - slack <= motion.value <= axis.upper + slack:
        message = f'joint "{element.name}": its {name.replace("_", " ")} stands at {motion.value:g}, outside its limits'
        hint = "drive the joint into its limits before the export, or correct them"
        diagnostics.warning(f"{FORMAT}.value-outside-limits", message, hint=hint, origin=motion.origin)


# -- comparison with measured poses ------------------------------------------------------------------------------------

POSE_SAMPLE_TOLERANCE = 1e-5
"""Tolerance [m and rad] of a measured pose."""
_PREFERENCE_MARGIN = 1e-9
"""Error difference [m and rad] required to prefer a later candidate origin."""
_FRAME_TOLERANCE = 1e-6
"""Tolerance [m] between the joint frames reported by the CAD program."""


def check_pose_samples(
    element: JointElement, model: JointModel, one: Pose, two: Pose, diagnostics: Diagnostics
) -> None:
    """Select the joint origin that fits the measured poses, and report measurements that disagree with the model.

    Args:
        element: the joint and its measurements.
        model: kinematic model; its origins are reduced to the best fit.
        one: pose of occurrence one in the snapshot.
        two: pose of occurrence two in the snapshot.
        diagnostics: where to report.
    """
    moved = [p for p in element.pose_samples if _has_moved(p, one, two)]
    for pose_sample in element.pose_samples:
        if pose_sample not in moved and _driven_distance(model, pose_sample) > POSE_SAMPLE_TOLERANCE:
            message = f'joint "{element.name}" did not move when it was driven, so that it could not be checked'
            hint = "it may be held by other joints, grounded parts or contact sets"
            diagnostics.warning(f"{FORMAT}.probe-stuck", message, hint=hint, origin=pose_sample.origin)
            break
    if moved and _select_origin_and_order(element, model, moved, one, two, diagnostics):
        return
    if model.origin_disagreement() > _FRAME_TOLERANCE and not moved:
        message = (
            f'joint "{element.name}" ({element.type}): its frames on the two occurrences are '
            f"{model.origin_disagreement():.3g} m apart across its axis"
        )
        hint = "export with the check of the joints, which settles where the axis is"
        diagnostics.warning(f"{FORMAT}.frames-apart", message, hint=hint, origin=element.origin)
    for pose_sample in moved:
        metres, radians = _pose_error(model, model.origins[0], pose_sample, one, two)
        if max(metres, radians) > POSE_SAMPLE_TOLERANCE:
            _report_mismatch(element, model, pose_sample, one, two, diagnostics)
            break


def _select_origin_and_order(
    element: JointElement,
    model: JointModel,
    pose_samples: list[PoseSampleElement],
    one: Pose,
    two: Pose,
    diagnostics: Diagnostics,
) -> bool:
    """Select the origin and, for a ball joint, the axis order that fit all pose samples; False if none fits."""
    for order in _candidate_axis_orders(model):
        trial = replace(model, motion_names=[model.motion_names[i] for i in order], axes=[model.axes[i] for i in order])
        errors = [max(max(_pose_error(trial, o, p, one, two)) for p in pose_samples) for o in model.origins]
        if min(errors) > POSE_SAMPLE_TOLERANCE:
            continue
        best = next(o for o, e in zip(model.origins, errors, strict=True) if e <= min(errors) + _PREFERENCE_MARGIN)
        if trial.motion_names != model.motion_names:
            message = f'joint "{element.name}" was measured to turn by {", then ".join(trial.motion_names)}'
            diagnostics.note(f"{FORMAT}.order-of-angles", message, origin=element.origin)
        model.motion_names, model.axes, model.origins = trial.motion_names, trial.axes, [best]
        return True
    return False


def _candidate_axis_orders(model: JointModel) -> list[tuple[int, ...]]:
    """Candidate axis orders; all permutations for a ball joint, whose order the CAD program does not document."""
    if model.motion_names == ["pitch", "yaw", "roll"]:
        return list(permutations(range(3)))
    return [tuple(range(len(model.motion_names)))]


def _pose_in_parent(one: Pose, two: Pose) -> Pose:
    return two.inverse() @ one


def _has_moved(pose_sample: PoseSampleElement, one: Pose, two: Pose) -> bool:
    return max(_pose_in_parent(pose_sample.pose1, pose_sample.pose2).distance(_pose_in_parent(one, two))) > 1e-9


def _driven_distance(model: JointModel, pose_sample: PoseSampleElement) -> float:
    return max((abs(v - model.values.get(name, v)) for name, v in pose_sample.values.items()), default=0.0)


def _predicted_pose(model: JointModel, origin: Array, values: dict[str, float], one: Pose, two: Pose) -> Pose:
    """Pose of occurrence one relative to occurrence two predicted by the model at `values`."""
    frame = Pose(origin, model.rotation)
    moved = frame @ model.relative_pose(values) @ model.relative_pose().inverse() @ frame.inverse() @ one
    return _pose_in_parent(moved, two)


def _pose_error(
    model: JointModel, origin: Array, pose_sample: PoseSampleElement, one: Pose, two: Pose
) -> tuple[float, float]:
    values = {name: value for name, value in pose_sample.values.items() if name in model.values}
    return _predicted_pose(model, origin, values, one, two).distance(
        _pose_in_parent(pose_sample.pose1, pose_sample.pose2)
    )


def _report_mismatch(
    element: JointElement,
    model: JointModel,
    pose_sample: PoseSampleElement,
    one: Pose,
    two: Pose,
    diagnostics: Diagnostics,
) -> None:
    """Report a pose sample that deviates from the model, with a likely cause."""
    metres, radians = _pose_error(model, model.origins[0], pose_sample, one, two)
    driven = ", ".join(f"{n.replace('_', ' ')} {v:g}" for n, v in pose_sample.values.items())
    message = (
        f'joint "{element.name}" ({element.type}), driven to {driven}, was measured {metres:.3g} m and '
        f"{radians:.3g} rad from where its frames and axes put it"
    )
    hint = _mismatch_cause(model, pose_sample, one, two)
    diagnostics.error(f"{FORMAT}.probe-disagrees", message, hint=hint, origin=pose_sample.origin)


def _mismatch_cause(model: JointModel, pose_sample: PoseSampleElement, one: Pose, two: Pose) -> str:
    """Likely cause of a deviating pose sample: reversed axis, wrong unit, or wrong frame."""
    if not model.motion_names:
        return "the snapshot says that it does not move"
    measured = _pose_in_parent(pose_sample.pose1, pose_sample.pose2)
    backwards = {n: 2 * model.values[n] - v for n, v in pose_sample.values.items() if n in model.values}
    if any(
        max(_predicted_pose(model, o, backwards, one, two).distance(measured)) <= POSE_SAMPLE_TOLERANCE
        for o in model.origins
    ):
        return "its axis points the other way"
    if len(pose_sample.values) == 1:
        (name,) = pose_sample.values
        ratio = _measured_ratio(model, name, pose_sample.values[name], measured, one, two)
        if ratio is not None and abs(ratio - 1) > 1e-3:
            return f"it moved {ratio:.4g} times as far as it should: a unit is wrong"
    return "its frame or its axis is wrong, or it is held by another joint"


def _measured_ratio(model: JointModel, name: str, value: float, measured: Pose, one: Pose, two: Pose) -> float | None:
    """Measured displacement divided by the driven displacement of one motion; None if undefined."""
    step = abs(value - model.values[name])
    axis = model.axes[model.motion_names.index(name)]
    metres, radians = measured.distance(_pose_in_parent(one, two))
    moved = radians if axis.motion is AxisMotion.ROTATION else metres
    return moved / step if step > 0 and math.isfinite(moved) and np.isfinite(step) else None
