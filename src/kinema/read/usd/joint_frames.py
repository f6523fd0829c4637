"""Joint frames on both bodies, and joint coordinates derived from the poses of the bodies.

Poses in the stage take precedence over `PhysicsJointStateAPI`, which only contributes the number of whole turns; a
stage in which the two disagree is diagnosed. Both joint frames are kept as authored. If they do not coincide along an
axis that the joint does not free, the offset is diagnosed; along a free axis the offset is the joint coordinate.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinema.core import (
    Array,
    Pose,
    arc_sine,
    arc_tangent,
    axis_angle_to_matrix,
    matrix_to_quaternion,
    quaternion_to_matrix,
    reproducible_norm,
    reproducible_product,
    sine_cosine,
)
from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.tokens import kinema_usd, usd, usd_physics

from . import pxr
from .prim_values import to_floats
from .shapes import transform_into_link
from .stage_index import Body, StageIndex
from .transforms import DEGREE, Affine, is_reflection, polar_decomposition_batch

# -- joint coordinates -------------------------------------------------------------------------------------------------

_FULL_TURN = 2 * math.pi
_ROUNDING_TOLERANCE = 1e-12
_STATE_TOLERANCE = 1e-3
"""Tolerance [rad or m] between the authored joint state and the poses of the bodies."""


def set_joint_state(index: StageIndex, prim: pxr.Prim, joint: Joint, gap: Pose) -> None:
    """Set the joint coordinates from the relative pose of its frames; warns about the residual offset."""
    state, metres, radians = _coordinates_from_gap(joint, gap)
    joint.state = None if state is None else _unwrapped_state(index, prim, joint, state)
    if metres > 1e-5 or radians > 1e-4:
        index.diagnostics.warning(
            "usd.joint-frames-apart",
            f"the two frames of joint {joint.name!r} are {metres:.3g} m and {math.degrees(radians):.3g} degrees apart",
            hint="make localPos/localRot of both sides agree with where the bodies are",
            origin=joint.origin,
        )


# -- authored joint state ----------------------------------------------------------------------------------------------


def _unwrapped_state(index: StageIndex, prim: pxr.Prim, joint: Joint, state: Array) -> Array:
    """Coordinates from the poses plus the whole turns given by the authored state or required by the limits."""
    if joint.kind is JointKind.SPHERICAL:
        return state
    stated = _stated_coordinates(index, prim, joint)
    result = np.array([0.0 if abs(value) < _ROUNDING_TOLERANCE else value for value in state])
    for i, (axis, value) in enumerate(zip(joint.moving_axes, result, strict=True)):
        if axis.motion is AxisMotion.ROTATION:
            result[i] = _unwrap_angle(axis, float(value), stated.get(i))
        if i in stated and not abs(result[i] - stated[i]) <= _STATE_TOLERANCE:
            index.diagnostics.warning(
                "usd.joint-state",
                f"PhysicsJointStateAPI puts joint {joint.name!r} at {stated[i]:.4g}, but the bodies are posed at "
                f"{result[i]:.4g} (rad or m), which is taken",
                hint="pose the bodies where the joints are",
                origin=joint.origin,
            )
    return result


def _stated_coordinates(index: StageIndex, prim: pxr.Prim, joint: Joint) -> dict[int, float]:
    """Index of a moving axis -> authored joint coordinate [rad or m]."""
    stored = index.custom_value(prim, kinema_usd.INITIAL_STATE)
    if stored is not None and len(stored) == joint.n_dofs:
        return {i: float(value) for i, value in enumerate(stored)}
    result: dict[int, float] = {}
    for i, axis in enumerate(joint.moving_axes):
        is_rotation = axis.motion is AxisMotion.ROTATION
        for token in _state_tokens(joint, axis):
            value = index.authored(prim, usd_physics.state_attribute(token, usd_physics.STATE_POSITION))
            if value is not None and math.isfinite(value):
                result[i] = float(value) * (DEGREE if is_rotation else index.units.length)
            velocity = index.authored(prim, usd_physics.state_attribute(token, usd_physics.STATE_VELOCITY))
            if velocity:
                message = f"joint {joint.name!r} moves at the start, says PhysicsJointStateAPI; that is only kept"
                index.diagnostics.note("usd.joint-velocity", message, origin=joint.origin)
    return result


def _state_tokens(joint: Joint, axis: Axis) -> list[str]:
    """Instance names of `PhysicsJointStateAPI` for an axis."""
    is_rotation = axis.motion is AxisMotion.ROTATION
    if len(joint.axes) == 1:
        return [usd_physics.ANGULAR if is_rotation else usd_physics.LINEAR]
    axis_index = int(np.argmax(np.abs(axis.direction)))
    return [usd_physics.DOF_TOKENS[axis_index + (3 if is_rotation else 0)]]


def _unwrap_angle(axis: Axis, value: float, stated: float | None) -> float:
    """Angle shifted by whole turns to the authored value, or into the limits."""
    if stated is not None:
        return value + _FULL_TURN * round((stated - value) / _FULL_TURN)
    if axis.lower - 1e-6 <= value <= axis.upper + 1e-6 or not axis.lower <= axis.upper:
        return value
    nearest = axis.lower if value < axis.lower else axis.upper
    turned = value + _FULL_TURN * (math.ceil if value < axis.lower else math.floor)((nearest - value) / _FULL_TURN)
    return turned if axis.lower <= turned <= axis.upper else value


# -- coordinates from poses --------------------------------------------------------------------------------------------


def _coordinates_from_gap(joint: Joint, gap: Pose) -> tuple[Array | None, float, float]:
    """Joint coordinates that best explain the relative pose, and the residual [m] and [rad].

    Coordinates are None for kinds without them.
    """
    if joint.kind is JointKind.DISTANCE:
        return None, 0.0, 0.0
    if joint.kind is JointKind.SPHERICAL:
        return gap.quaternion, reproducible_norm(gap.position), 0.0
    left_position, left_rotation = gap.position.copy(), gap.rotation
    state: list[float] = []
    rotation_axes = [a for a in joint.moving_axes if a.motion is AxisMotion.ROTATION]
    for axis in joint.moving_axes:
        if axis.motion is AxisMotion.TRANSLATION:
            value = float((axis.direction * left_position).sum())
            left_position -= value * axis.direction
            state.append(value + axis.reference)
    if len(rotation_axes) == 3:
        state += [a.reference + value for a, value in zip(rotation_axes, _xyz_angles(left_rotation), strict=True)]
        angle = 0.0
    else:
        q = matrix_to_quaternion(left_rotation).tolist()
        for axis in rotation_axes:
            value, q = _remove_twist(q, axis.direction.tolist())
            state.append(value + axis.reference)
        angle = 2 * arc_tangent(reproducible_norm(q[1:]), abs(q[0]))
    if joint.kind is JointKind.CYLINDRICAL:
        state.reverse()  # rotation comes first
    return (np.array(state) if state else None), reproducible_norm(left_position), angle


def _remove_twist(q: list[float], axis: list[float]) -> tuple[float, list[float]]:
    """Swing-twist decomposition: twist angle about an axis and the remaining swing quaternion."""
    w, x, y, z = q
    a, b, d = axis
    along = a * x + b * y + d * z
    half = arc_tangent(along, w)
    s, c = sine_cosine(half)
    # the inverse twist (c, -s axis) times q
    left = [
        c * w + s * along,
        c * x - s * (a * w + b * z - d * y),
        c * y - s * (b * w + d * x - a * z),
        c * z - s * (d * w + a * y - b * x),
    ]
    return 2 * half, left


def _xyz_angles(r: Array) -> tuple[float, float, float]:
    """Euler angles of R = Rx Ry Rz."""
    (a, b, sine), (_, _, c), (_, _, d) = r.tolist()
    return arc_tangent(-c, d), arc_sine(max(-1.0, min(1.0, sine))), arc_tangent(-b, a)


# -- joint frames ------------------------------------------------------------------------------------------------------

AXIS_INDEX = {letter: number for number, letter in enumerate(usd.AXIS_TOKENS)}
_ZERO, _IDENTITY, _NO_ROTATION = np.zeros(3), np.eye(3), (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class JointSide:
    """One side of a joint: the body and the joint frame on it."""

    body: Body | None
    """Body, or None for the world."""
    frame: Pose
    """Joint frame in the link, or in the world."""


class JointSides(NamedTuple):
    """Both sides of a joint."""

    first: JointSide
    second: JointSide
    gap: Pose
    """Pose of the second frame in the first, in the stage's configuration."""


class JointTargetError(Exception):
    """Invalid target of a joint side."""


class _SideSpec(NamedTuple):
    """Authored data of a joint side."""

    body: Body | None
    transform: Affine
    """Map from the target's coordinates to the link, or to the world."""
    point: Any
    quaternion: Any
    axis: int | None


def read_joint_sides(
    index: StageIndex, joints: Sequence[tuple[pxr.Prim, int | None]]
) -> list[JointSides | JointTargetError]:
    """Joint frames on both sides of many joints, computed in one batch for speed.

    Args:
        index: the stage.
        joints: prim of each joint, and the index of the frame axis that must be exact under shear, or None.

    Returns:
        For each joint its sides, or the error.
    """
    ends: list[_SideSpec] = []
    failures: dict[int, JointTargetError] = {}
    for i, (prim, axis) in enumerate(joints):
        try:
            ends += [_read_side(index, prim, number, axis) for number in (0, 1)]
        except JointTargetError as error:
            failures[i] = error
    positions, rotations = _side_frames(ends)
    _match_handedness(ends, rotations)
    gap_positions, gap_rotations = _gaps(ends, positions, rotations)
    finite = np.isfinite(positions).all(axis=1) & np.isfinite(rotations).all(axis=(1, 2))
    non_finite = {int(i) for i in np.flatnonzero(~finite)}
    result: list[JointSides | JointTargetError] = []
    k = 0
    for i in range(len(joints)):
        if i in failures:
            result.append(failures[i])
            continue
        a, b = 2 * k, 2 * k + 1
        if a not in non_finite and b not in non_finite:
            first, second = (JointSide(ends[e].body, Pose(positions[e], rotations[e])) for e in (a, b))
            result.append(JointSides(first, second, Pose(gap_positions[k], gap_rotations[k])))
        else:
            result.append(JointTargetError(f"its frame on body{0 if a in non_finite else 1} holds NaN or infinity"))
        k += 1
    return result


def _read_side(index: StageIndex, joint: pxr.Prim, side: int, axis: int | None) -> _SideSpec:
    body, place = _body_and_transform(index, joint, side)
    point = index.value(joint, usd_physics.LOCAL_POSITIONS[side])
    return _SideSpec(body, place, point, index.value(joint, usd_physics.LOCAL_ROTATIONS[side]), axis)


def _body_and_transform(index: StageIndex, joint: pxr.Prim, side: int) -> tuple[Body | None, Affine]:
    """Body of a joint side, and the map from the target's coordinates to its link (or the world)."""
    targets = index.targets(joint, usd_physics.BODIES[side])
    if not targets:
        return None, Affine(index.units.length * index.units.up, _ZERO)
    body = index.bodies.get(str(targets[0]))
    if body is None or len(targets) > 1:
        target = _side_target(index, joint, side, targets)
        body = index.owner_body(target)
        if body is None:
            return None, index.world_transform(target)
        if body.path != index.values.facts(target).path:
            return body, transform_into_link(index.world_transform(target), body)
    return body, Affine(body.scale, _ZERO)


def _side_frames(ends: Sequence[_SideSpec]) -> tuple[Array, Array]:
    """Positions, shape (n, 3), and rotations, shape (n, 3, 3), of the joint frame on each side."""
    linears = np.array([end.transform.linear for end in ends]).reshape(-1, 3, 3)
    offsets = np.array([end.transform.offset for end in ends]).reshape(-1, 3)
    points = np.array([end.point for end in ends], dtype=np.float64).reshape(-1, 3)
    turns = np.array([_quaternion_to_rotation(end.quaternion) for end in ends]).reshape(-1, 3, 3)
    positions = reproducible_product(linears, points[:, :, None])[:, :, 0] + offsets
    rotations = np.full_like(linears, np.nan)
    finite = np.isfinite(linears).all(axis=(1, 2))
    polar_rotations, scales = polar_decomposition_batch(linears[finite])
    rotations[finite] = reproducible_product(polar_rotations, turns[finite])
    # under uniform scale the rotation maps every axis exactly
    is_uniform = np.abs(scales - scales[:, :1, :1] * np.eye(3)).max(axis=(1, 2), initial=0.0) == 0
    for i in np.flatnonzero(finite)[~(is_uniform & (scales[:, 0, 0] > 0))]:
        axis = ends[i].axis
        if axis is not None:
            rotations[i] = _align_axis(rotations[i], reproducible_product(linears[i], turns[i][:, axis]), axis)
    return positions, rotations


def _match_handedness(ends: Sequence[_SideSpec], rotations: Array) -> None:
    """If one side of a joint is mirrored, replace its frame by the right-handed frame closest to the other side.

    A mirrored frame is left-handed and corresponds to several right-handed frames. The special axis is preserved; the
    choice makes the joint coordinate zero if both sides are authored alike. Modifies `rotations` in place.
    """
    linears = np.array([end.transform.linear for end in ends]).reshape(-1, 3, 3)
    mirrored = np.array([is_reflection(linear) for linear in linears], bool)
    for k in np.flatnonzero(mirrored[0::2] != mirrored[1::2]).tolist():
        left, right = (2 * k, 2 * k + 1) if mirrored[2 * k] else (2 * k + 1, 2 * k)
        relative = reproducible_product(_body_rotation(ends[left].body).T, _body_rotation(ends[right].body))
        target = reproducible_product(relative, rotations[right])
        axis = ends[left].axis
        half_turns = [
            _IDENTITY,
            *(2 * np.outer(_IDENTITY[i], _IDENTITY[i]) - _IDENTITY for i in ((0, 1, 2) if axis is None else (axis,))),
        ]
        candidates = [reproducible_product(rotations[left], half) for half in half_turns]
        rotations[left] = max(candidates, key=lambda r, target=target: float(np.sum(r * target)))


def _body_rotation(body: Body | None) -> Array:
    return _IDENTITY if body is None else body.pose.rotation


def _gaps(ends: Sequence[_SideSpec], positions: Array, rotations: Array) -> tuple[Array, Array]:
    """Relative positions and rotations of the second frame in the first, in the stage's configuration."""
    bodies = [end.body for end in ends]
    body_positions = np.array([_ZERO if b is None else b.pose.position for b in bodies]).reshape(-1, 3)
    body_rotations = np.array([_body_rotation(b) for b in bodies]).reshape(-1, 3, 3)
    world_positions = reproducible_product(body_rotations, positions[:, :, None])[:, :, 0] + body_positions
    world_rotations = reproducible_product(body_rotations, rotations)
    back = np.swapaxes(world_rotations[0::2], 1, 2)
    relative = (world_positions[1::2] - world_positions[0::2])[:, :, None]
    return reproducible_product(back, relative)[:, :, 0], reproducible_product(back, world_rotations[1::2])


def _side_target(index: StageIndex, joint: pxr.Prim, side: int, targets: Sequence[Any]) -> pxr.Prim:
    """Target prim of a joint side; raises `JointTargetError` if it is invalid."""
    if len(targets) > 1:
        index.diagnostics.error(
            "usd.joint-several-targets",
            f"body{side} of joint {joint.GetName()!r} names {len(targets)} prims; the first counts",
            origin=index.origin(joint),
        )
    prim = index.stage.GetPrimAtPath(targets[0])
    if not prim:
        raise JointTargetError(
            f"its body{side} is {targets[0]}, which does not exist{_target_suggestion(index, targets[0])}"
        )
    if not prim.IsActive():
        raise JointTargetError(f"its body{side} is {targets[0]}, which is inactive")
    if not index.values.facts(prim).kind.is_xformable:
        raise JointTargetError(f"its body{side} is {targets[0]}, which has no place in the world")
    if _is_prototype(index, prim):
        raise JointTargetError(f"its body{side} is {targets[0]}, a prototype: only its instances are in the world")
    if index.owner_body(prim) is None:
        _report_static_target(index, joint, side, prim)
    return prim


def _is_prototype(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether a prim is a prototype below a point instancer, which is not part of the scene."""
    if index.instances.prototype_path(index.values.facts(prim).path):
        return False
    while prim := prim.GetParent():
        if index.values.facts(prim).kind.is_instancer:
            return True
    return False


def _target_suggestion(index: StageIndex, target: Any) -> str:
    """Hint for a relative path that is one level too deep, as in the nested-bodies proposal."""
    above = target.GetParentPath().GetParentPath()
    wanted = above.AppendChild(target.name) if not above.isEmpty else above
    if above.isEmpty or not index.stage.GetPrimAtPath(wanted):
        return ""
    return f" (a relative path starts at the joint itself: <..> is the prim around it; was {wanted} meant?)"


def _report_static_target(index: StageIndex, joint: pxr.Prim, side: int, prim: pxr.Prim) -> None:
    """Report a static joint target: a warning for a disabled body, a note for scenery."""
    name = joint.GetName()
    disabled = prim
    while disabled and usd_physics.RIGID_BODY_API not in index.schemas(disabled):
        disabled = disabled.GetParent()
    if disabled:
        what = "a disabled body" if disabled == prim else f"a part of the disabled body {disabled.GetPath()}"
        index.diagnostics.warning(
            "usd.joint-to-disabled-body",
            f"body{side} of joint {name!r} is {prim.GetPath()}, {what}: it is fixed to the world there",
            hint="enable the body, or point the joint elsewhere",
            origin=index.origin(joint),
        )
    else:
        message = f"body{side} of joint {name!r} is {prim.GetPath()}, which is no body: it is fixed to the world there"
        index.diagnostics.note("usd.joint-to-static", message, origin=index.origin(joint))


def _align_axis(frame: Array, target: Array, axis: int) -> Array:
    """Rotate a frame by the smallest angle so that one of its axes coincides with the mapped axis."""
    length = reproducible_norm(target)
    if not 0 < length < math.inf:
        return frame
    target = target / length
    if (target * frame[:, axis]).sum() < 0:  # reflection: half turn about the next axis first
        frame = reproducible_product(axis_angle_to_matrix(frame[:, (axis + 1) % 3], math.pi), frame)
    return reproducible_product(_shortest_rotation(frame[:, axis], target), frame)


def _shortest_rotation(a: Array, b: Array) -> Array:
    """Rotation of least angle that maps unit vector a to unit vector b, less than pi apart."""
    cross = np.cross(a, b)
    sine = reproducible_norm(cross)
    if sine < 1e-300:
        return np.eye(3)
    return axis_angle_to_matrix(cross / sine, arc_tangent(sine, float((a * b).sum())))


def _quaternion_to_rotation(value: Any) -> Array:
    if value.GetReal() == 1 and value.GetImaginary() == _NO_ROTATION:
        return _IDENTITY
    # iterating over a Gf vector is slow
    return quaternion_to_matrix([value.GetReal(), *to_floats(value.GetImaginary())])
