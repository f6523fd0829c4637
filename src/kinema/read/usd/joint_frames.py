"""Joint frames: the world axis and position through each body, then into that body's link.

The two sides are kept as authored. Where they do not meet along an axis on which the joint cannot move, the gap is
diagnosed with its size; along an axis on which it can, the gap is the joint's coordinate in the file.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from kinema.foundation import (
    Array,
    Pose,
    axis_angle_to_matrix,
    quaternion_to_matrix,
)
from kinema.words import physics, usd

from . import pxr
from .gf_values import floats
from .polar import Affine, polar_many
from .shapes_on_links import into_link
from .stage_index import Body, StageIndex

AXES = {letter: number for number, letter in enumerate(usd.XYZ)}
_ZERO, _ONE, _NO_TURN = np.zeros(3), np.eye(3), (0.0, 0.0, 0.0)


@dataclass(frozen=True, slots=True, eq=False)
class Side:
    """One side of a joint: what it is attached to, and its frame there."""

    body: Body | None
    """None for the world."""
    frame: Pose
    """The joint's frame in the link, or in the world."""


class Sides(NamedTuple):
    """Both sides of a joint."""

    first: Side
    second: Side
    gap: Pose
    """The second frame in the first, as the stage shows them."""


class JointTargetError(Exception):
    """A side of a joint that leads nowhere."""


class _End(NamedTuple):
    """What a side says, before anything is computed from it."""

    body: Body | None
    place: Affine
    """From the target's coordinates into the link, or into the world."""
    point: Any
    quaternion: Any
    axis: int | None


def read_sides(index: StageIndex, joints: Sequence[tuple[pxr.Prim, int | None]]) -> list[Sides | JointTargetError]:
    """The sides of many joints, which are computed together: that is much quicker than one by one.

    Args:
        index: the stage.
        joints: each joint's prim, with the axis of its frame that has to be exact under shear; None where none is
            special.

    Returns:
        For each joint its sides, or why there are none.
    """
    ends: list[_End] = []
    failures: dict[int, JointTargetError] = {}
    for i, (prim, axis) in enumerate(joints):
        try:
            ends += [_end(index, prim, number, axis) for number in (0, 1)]
        except JointTargetError as error:
            failures[i] = error
    positions, rotations = _frames(ends)
    _choose_hands(ends, rotations)
    gap_positions, gap_rotations = _gaps(ends, positions, rotations)
    finite = np.isfinite(positions).all(axis=1) & np.isfinite(rotations).all(axis=(1, 2))
    unsound = {int(i) for i in np.flatnonzero(~finite)}
    result: list[Sides | JointTargetError] = []
    k = 0
    for i in range(len(joints)):
        if i in failures:
            result.append(failures[i])
            continue
        a, b = 2 * k, 2 * k + 1
        if a not in unsound and b not in unsound:
            first, second = (Side(ends[e].body, Pose(positions[e], rotations[e])) for e in (a, b))
            result.append(Sides(first, second, Pose(gap_positions[k], gap_rotations[k])))
        else:
            result.append(JointTargetError(f"its frame on body{0 if a in unsound else 1} holds NaN or infinity"))
        k += 1
    return result


def _end(index: StageIndex, joint: pxr.Prim, number: int, axis: int | None) -> _End:
    body, place = _place(index, joint, number)
    point = index.value(joint, physics.LOCAL_POSITIONS[number])
    return _End(body, place, point, index.value(joint, physics.LOCAL_ROTATIONS[number]), axis)


def _place(index: StageIndex, joint: pxr.Prim, number: int) -> tuple[Body | None, Affine]:
    """The body that a side is on, and the map from the target's coordinates into that body's link."""
    targets = index.targets(joint, physics.BODIES[number])
    if not targets:
        return None, Affine(index.units.length * index.units.up, _ZERO)
    body = index.bodies.get(str(targets[0]))
    if body is None or len(targets) > 1:
        target = _target(index, joint, number, targets)
        body = index.owner(target)
        if body is None:
            return None, index.world(target)
        if body.path != index.values.facts(target).path:
            return body, into_link(index.world(target), body)
    return body, Affine(body.scale, _ZERO)


def _frames(ends: Sequence[_End]) -> tuple[Array, Array]:
    """Positions (n, 3) and rotations (n, 3, 3) of the joint's frame on each end."""
    linears = np.array([end.place.linear for end in ends]).reshape(-1, 3, 3)
    offsets = np.array([end.place.offset for end in ends]).reshape(-1, 3)
    points = np.array([end.point for end in ends], dtype=np.float64).reshape(-1, 3)
    turns = np.array([_quaternion(end.quaternion) for end in ends]).reshape(-1, 3, 3)
    positions = (linears @ points[:, :, None])[:, :, 0] + offsets
    rotations = np.full_like(linears, np.nan)
    sound = np.isfinite(linears).all(axis=(1, 2))
    upright, scales = polar_many(linears[sound])
    rotations[sound] = upright @ turns[sound]
    # where lengths are scaled alike, the map's rotation takes every axis to where the map takes it
    alike = np.abs(scales - scales[:, :1, :1] * np.eye(3)).max(axis=(1, 2), initial=0.0) == 0
    for i in np.flatnonzero(sound)[~(alike & (scales[:, 0, 0] > 0))]:
        axis = ends[i].axis
        if axis is not None:
            rotations[i] = _aligned(rotations[i], linears[i] @ turns[i][:, axis], axis)
    return positions, rotations


def _choose_hands(ends: Sequence[_End], rotations: Array) -> None:
    """Where one side of a joint is mirrored, give it the frame that is next to the other side's.

    A mirrored frame is left-handed, and several right-handed ones stand for it: without one of its axes, or without
    all three. The special axis stays where it is. What the stage shows tells which is meant, so that a joint is at
    rest where both sides are authored alike.
    """
    linears = np.array([end.place.linear for end in ends]).reshape(-1, 3, 3)
    mirrored = np.linalg.det(linears) < 0
    for k in np.flatnonzero(mirrored[0::2] != mirrored[1::2]).tolist():
        left, right = (2 * k, 2 * k + 1) if mirrored[2 * k] else (2 * k + 1, 2 * k)
        wanted = _turn(ends[left].body).T @ _turn(ends[right].body) @ rotations[right]
        axis = ends[left].axis
        halves = [_ONE, *(2 * np.outer(_ONE[i], _ONE[i]) - _ONE for i in ((0, 1, 2) if axis is None else (axis,)))]
        rotations[left] = max((rotations[left] @ half for half in halves), key=lambda r: float(np.sum(r * wanted)))


def _turn(body: Body | None) -> Array:
    return _ONE if body is None else body.pose.rotation


def _gaps(ends: Sequence[_End], positions: Array, rotations: Array) -> tuple[Array, Array]:
    """Where the second frame of each joint is in its first, in the world that the stage shows."""
    bodies = [end.body for end in ends]
    places = np.array([_ZERO if b is None else b.pose.position for b in bodies]).reshape(-1, 3)
    turns = np.array([_turn(b) for b in bodies]).reshape(-1, 3, 3)
    world_positions = (turns @ positions[:, :, None])[:, :, 0] + places
    world_rotations = turns @ rotations
    back = np.swapaxes(world_rotations[0::2], 1, 2)
    apart = (back @ (world_positions[1::2] - world_positions[0::2])[:, :, None])[:, :, 0]
    return apart, back @ world_rotations[1::2]


def _target(index: StageIndex, joint: pxr.Prim, number: int, targets: Sequence[Any]) -> pxr.Prim:
    """The prim a side points at."""
    if len(targets) > 1:
        index.diagnostics.error(
            "usd.joint-several-targets",
            f"body{number} of joint {joint.GetName()!r} names {len(targets)} prims; the first counts",
            origin=index.origin(joint),
        )
    prim = index.stage.GetPrimAtPath(targets[0])
    if not prim:
        raise JointTargetError(f"its body{number} is {targets[0]}, which does not exist{_meant(index, targets[0])}")
    if not prim.IsActive():
        raise JointTargetError(f"its body{number} is {targets[0]}, which is inactive")
    if not index.values.facts(prim).kind.is_xformable:
        raise JointTargetError(f"its body{number} is {targets[0]}, which has no place in the world")
    if _is_prototype(index, prim):
        raise JointTargetError(f"its body{number} is {targets[0]}, a prototype: only its instances are in the world")
    if index.owner(prim) is None:
        _say_static(index, joint, number, prim)
    return prim


def _is_prototype(index: StageIndex, prim: pxr.Prim) -> bool:
    """Whether a prim lies in a point instancer, which copies it but does not show it."""
    if index.copies.source(index.values.facts(prim).path):
        return False
    while prim := prim.GetParent():
        if index.values.facts(prim).kind.is_instancer:
            return True
    return False


def _meant(index: StageIndex, target: Any) -> str:
    """What a relative path one level too deep was meant to be: the nested-bodies proposal writes its own like that."""
    above = target.GetParentPath().GetParentPath()
    wanted = above.AppendChild(target.name) if not above.isEmpty else above
    if above.isEmpty or not index.stage.GetPrimAtPath(wanted):
        return ""
    return f" (a relative path starts at the joint itself: <..> is the prim around it; was {wanted} meant?)"


def _say_static(index: StageIndex, joint: pxr.Prim, number: int, prim: pxr.Prim) -> None:
    """A target that does not move: a disabled body, or a part of one, deserves a warning, scenery a note."""
    name = joint.GetName()
    disabled = prim
    while disabled and physics.RIGID_BODY_API not in index.schemas(disabled):
        disabled = disabled.GetParent()
    if disabled:
        what = "a disabled body" if disabled == prim else f"a part of the disabled body {disabled.GetPath()}"
        index.diagnostics.warning(
            "usd.joint-to-disabled-body",
            f"body{number} of joint {name!r} is {prim.GetPath()}, {what}: it is fixed to the world there",
            hint="enable the body, or point the joint elsewhere",
            origin=index.origin(joint),
        )
    else:
        message = (
            f"body{number} of joint {name!r} is {prim.GetPath()}, which is no body: it is fixed to the world there"
        )
        index.diagnostics.note("usd.joint-to-static", message, origin=index.origin(joint))


def _aligned(frame: Array, wanted: Array, axis: int) -> Array:
    """The frame, turned the shortest way so that one of its axes lies where the map takes it.

    The map's rotation carries a joint's frame. Scale and shear leave an axis elsewhere.
    """
    length = math.sqrt(float(wanted @ wanted))
    if not 0 < length < math.inf:
        return frame
    wanted = wanted / length
    if wanted @ frame[:, axis] < 0:  # a mirror: turn around first, about the next axis, so that the rest is small
        frame = axis_angle_to_matrix(frame[:, (axis + 1) % 3], math.pi) @ frame
    return _shortest_turn(frame[:, axis], wanted) @ frame


def _shortest_turn(a: Array, b: Array) -> Array:
    """The rotation of least angle that takes unit vector a to unit vector b, less than a half turn away."""
    cross = np.cross(a, b)
    sine = math.sqrt(float(cross @ cross))
    if sine < 1e-300:
        return np.eye(3)
    return axis_angle_to_matrix(cross / sine, math.atan2(sine, float(a @ b)))


def _quaternion(value: Any) -> Array:
    if value.GetReal() == 1 and value.GetImaginary() == _NO_TURN:
        return _ONE
    # a Gf vector is iterated over far slower than it is copied
    return quaternion_to_matrix([value.GetReal(), *floats(value.GetImaginary())])
