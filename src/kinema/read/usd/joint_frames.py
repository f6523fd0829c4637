"""Joint frames: the world axis and position through each body, then into that body's link.

The two sides are kept as authored. Where they do not meet along an axis on which the joint cannot move, the gap is
diagnosed with its size; along an axis on which it can, the gap is the joint's coordinate in the file.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind
from kinema.foundation import (
    Array,
    Pose,
    axis_angle_to_matrix,
    matrix_to_quaternion,
    quaternion_to_matrix,
    vector,
)

from . import pxr
from .polar import Affine, polar, similarity
from .shapes_on_links import into_link
from .stage_index import Body, StageIndex

AXES = {"X": 0, "Y": 1, "Z": 2}


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a joint: what it is attached to, and its frame there."""

    body: Body | None
    """None for the world."""
    frame: Pose
    """The joint's frame in the link, or in the world."""
    world: Pose
    """The joint's frame in the world, as the stage shows it."""


class JointTargetError(Exception):
    """A side of a joint that leads nowhere."""


def read_side(index: StageIndex, joint: pxr.Prim, number: int, axis: int | None) -> Side:
    """The side `body0` or `body1` of a joint.

    Args:
        index: the stage.
        joint: the joint's prim.
        number: 0 or 1.
        axis: which axis of the joint's frame has to be exact under shear; None where none is special.
    """
    target = _target(index, joint, number)
    body, place = _place(index, target)
    point = vector(index.value(joint, f"physics:localPos{number}"))
    turn = _quaternion(index.value(joint, f"physics:localRot{number}"))
    frame = Pose(place.linear @ point + place.offset, _frame(place.linear, turn, axis))
    if not frame.is_finite:
        raise JointTargetError(f"its frame on body{number} holds NaN or infinity")
    return Side(body, frame, frame if body is None else body.pose @ frame)


def _place(index: StageIndex, target: pxr.Prim | None) -> tuple[Body | None, Affine]:
    """The body that a side is on, and the map from the target's coordinates into that body's link."""
    if target is None:
        return None, Affine(index.units.length * index.units.up, np.zeros(3))
    body = index.owner(target)
    if body is None:
        return None, index.world(target)
    if body.path == index.values.facts(target).path:
        return body, Affine(body.scale, np.zeros(3))
    return body, into_link(index.world(target), body)


def _target(index: StageIndex, joint: pxr.Prim, number: int) -> pxr.Prim | None:
    """The prim a side points at; None where it points at nothing, which is the world."""
    targets = index.targets(joint, f"physics:body{number}")
    if not targets:
        return None
    if len(targets) > 1:
        index.diagnostics.error(
            "usd.joint-several-targets",
            f"body{number} of joint {joint.GetName()!r} names {len(targets)} prims; the first counts",
            origin=index.origin(joint),
        )
    prim = index.stage.GetPrimAtPath(targets[0])
    if not prim:
        raise JointTargetError(f"its body{number} is {targets[0]}, which does not exist")
    if not prim.IsActive():
        raise JointTargetError(f"its body{number} is {targets[0]}, which is inactive")
    if not index.values.facts(prim).kind.is_xformable:
        raise JointTargetError(f"its body{number} is {targets[0]}, which has no place in the world")
    if index.owner(prim) is None:
        _say_static(index, joint, number, prim)
    return prim


def _say_static(index: StageIndex, joint: pxr.Prim, number: int, prim: pxr.Prim) -> None:
    """A target that does not move: a disabled body deserves a warning, scenery a note."""
    name = joint.GetName()
    if "PhysicsRigidBodyAPI" in index.schemas(prim):
        index.diagnostics.warning(
            "usd.joint-to-disabled-body",
            f"body{number} of joint {name!r} is {prim.GetPath()}, a disabled body: it is fixed to the world there",
            hint="enable the body, or point the joint elsewhere",
            origin=index.origin(joint),
        )
    else:
        message = (
            f"body{number} of joint {name!r} is {prim.GetPath()}, which is no body: it is fixed to the world there"
        )
        index.diagnostics.note("usd.joint-to-static", message, origin=index.origin(joint))


def _frame(linear: Array, turn: Array, axis: int | None) -> Array:
    """The rotation of a joint's frame that is turned so in coordinates which are mapped linearly.

    The map's rotation carries it. Scale and shear leave an axis where the map takes it, so the frame is turned the
    shortest way to put its special axis there.
    """
    size = similarity(linear)
    if size > 0:
        return linear @ turn / size
    if not math.isfinite(float(linear.sum())):
        return linear  # which is found out by who asked
    frame = polar(linear)[0] @ turn
    if axis is None:
        return frame
    wanted = linear @ turn[:, axis]
    length = math.sqrt(float(wanted @ wanted))
    if not 0 < length < math.inf:
        return frame
    wanted /= length
    if wanted @ frame[:, axis] < 0:  # a mirror: turn around first, about the next axis, so that the rest is small
        frame = axis_angle_to_matrix(frame[:, (axis + 1) % 3], math.pi) @ frame
    if np.abs(wanted - frame[:, axis]).max() < 1e-15:
        return frame
    return _shortest_turn(frame[:, axis], wanted) @ frame


def _shortest_turn(a: Array, b: Array) -> Array:
    """The rotation of least angle that takes unit vector a to unit vector b, less than a half turn away."""
    cross = np.cross(a, b)
    sine = math.sqrt(float(cross @ cross))
    if sine < 1e-300:
        return np.eye(3)
    return axis_angle_to_matrix(cross / sine, math.atan2(sine, float(a @ b)))


def _quaternion(value: Any) -> Array:
    # a Gf vector is iterated over far slower than it is copied
    return quaternion_to_matrix([value.GetReal(), *np.array(value.GetImaginary()).tolist()])


# -- do the two sides meet? -------------------------------------------------------------------------------------------


def settle(index: StageIndex, joint: Joint, first: Side, second: Side) -> None:
    """Find the coordinates at which the stage shows the joint; say how far its sides are apart beyond them."""
    gap = first.world.inverse() @ second.world
    state, metres, radians = _explain(joint, gap)
    joint.state = state
    if metres > 1e-5 or radians > 1e-4:
        index.diagnostics.warning(
            "usd.joint-frames-apart",
            f"the two frames of joint {joint.name!r} are {metres:.3g} m and {math.degrees(radians):.3g} degrees apart",
            hint="make localPos/localRot of both sides agree with where the bodies are",
            origin=joint.origin,
        )


def _explain(joint: Joint, gap: Pose) -> tuple[Array | None, float, float]:
    """The joint's coordinates that explain the gap best, and what is left of it: metres and radians."""
    if joint.kind is JointKind.DISTANCE:
        return None, 0.0, 0.0
    if joint.kind is JointKind.SPHERICAL:
        return gap.quaternion, float(np.linalg.norm(gap.position)), 0.0
    left_position, left_rotation = gap.position.copy(), gap.rotation
    state: list[float] = []
    turns = [a for a in joint.moving_axes if a.motion is AxisMotion.ROTATION]
    for axis in joint.moving_axes:
        if axis.motion is AxisMotion.TRANSLATION:
            value = float(axis.direction @ left_position)
            left_position -= value * axis.direction
            state.append(value + axis.reference)
    if len(turns) == 3:
        state += list(_xyz_angles(left_rotation))
        angle = 0.0
    else:
        q = matrix_to_quaternion(left_rotation).tolist()
        for axis in turns:
            value, q = _untwist(q, axis.direction.tolist())
            state.append(value + axis.reference)
        angle = 2 * math.atan2(math.hypot(*q[1:]), abs(q[0]))
    return (np.array(state) if state else None), math.sqrt(float(left_position @ left_position)), angle


def _untwist(q: list[float], axis: list[float]) -> tuple[float, list[float]]:
    """The angle about an axis that takes most of a rotation away, and the quaternion that is left after it."""
    w, x, y, z = q
    a, b, d = axis
    along = a * x + b * y + d * z
    half = math.atan2(along, w)
    c, s = math.cos(half), math.sin(half)
    # the inverse twist (c, -s axis) times q
    left = [
        c * w + s * along,
        c * x - s * (a * w + b * z - d * y),
        c * y - s * (b * w + d * x - a * z),
        c * z - s * (d * w + a * y - b * x),
    ]
    return 2 * half, left


def _xyz_angles(r: Array) -> tuple[float, float, float]:
    """Angles of R = Rx Ry Rz."""
    return (math.atan2(-r[1, 2], r[2, 2]), math.asin(max(-1.0, min(1.0, r[0, 2]))), math.atan2(-r[0, 1], r[0, 0]))
