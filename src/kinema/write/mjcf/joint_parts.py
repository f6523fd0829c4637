"""Joints as MuJoCo has them: hinges, slides and balls on the child body, one after the other.

The motion of every kind of joint is a chain of these, with the same coordinates. A joint that stands the other way
round in the tree is the chain of inverse motions, backwards. MuJoCo applies each of a body's joints in the frame the
ones before it have moved the body to, so that a body's pose in its parent is `B @ A1 @ m1 @ A1^-1 @ A2 @ m2 @ ...`:
B is the pose of the body at the reference configuration and A1, A2, ... are the joint frames in the body.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import NamedTuple

import numpy as np

from kinema.description import Axis, AxisMotion, Joint, JointKind, TreeEdge
from kinema.foundation import Array, Pose, axis_angle_to_matrix, quaternion_to_matrix

from ..chains import NO_START

MAX_DOFS = 6
"""Of one body of MuJoCo's."""


@dataclass(slots=True, eq=False)
class JointPart:
    """One joint of MuJoCo's, and which coordinates of the description it has."""

    joint: Joint
    kind: str
    """`hinge`, `slide`, `ball` or `free`."""
    number: int
    """The first of the joint's coordinates that it moves by."""
    axis: Axis | None = None
    """Limits, damping and the rest, of a hinge or slide; None where the joint's axes have it, or nothing does."""
    direction: Array | None = None
    """In the body's frame."""
    place: Pose = Pose()  # noqa: RUF009  a pose is never changed
    """The joint's frame in the body."""
    inverted: bool = False
    """Whether the coordinate turns a ball backwards; hinges and slides have their axes negated."""
    travel: float | None = None
    """Of a screw's slide: its travel for a radian of the joint's coordinate [m]."""
    name: str = ""
    """Its name in the file; empty where it has none."""
    free_pose: FreePose | None = None
    """Of a free joint."""
    reference: float = 0.0
    """Of a hinge or slide: its coordinate at the reference configuration, MuJoCo's `ref`. It is where the joint starts:
    MuJoCo starts there."""

    @property
    def shift(self) -> float:
        """How far the reference configuration is from where the joint's frames coincide."""
        if self.axis is None:
            return self.reference
        return self.reference - self.axis.reference

    @property
    def n_dofs(self) -> int:
        """Degrees of freedom."""
        return {"ball": 3, "free": 6}.get(self.kind, 1)

    @property
    def keeps_coordinates(self) -> bool:
        """Whether its coordinates are the description's own numbers."""
        if self.kind == "free":
            return self.free_pose is not None and self.free_pose.is_plain
        if self.kind == "ball":
            return not self.inverted and bool(np.abs(self.place.rotation - np.eye(3)).max() < 1e-15)
        return self.travel is None

    def positions(self, q: Array) -> list[float]:
        """MuJoCo's coordinates of this part, at coordinates of the description's joint."""
        if self.kind == "free":
            assert self.free_pose is not None
            if self.free_pose.is_plain:
                return q.tolist()
            pose = self.free_pose.at(q)
            return [*pose.position.tolist(), *pose.quaternion.tolist()]
        if self.kind == "ball":
            w, *v = q[self.number : self.number + 4].tolist()
            turned = self.place.rotation @ np.array(v) if not self.keeps_coordinates else np.array(v)
            return [w, *(-turned if self.inverted else turned).tolist()]
        value = float(q[self.number])
        if self.travel is not None:
            return [self.travel * (value - self.joint.moving_axes[self.number].reference)]
        return [value]

    def velocities(self, q: Array, v: Array) -> list[float]:
        """MuJoCo's velocities of this part, at coordinates and velocities of the description's joint."""
        if self.kind == "free":
            assert self.free_pose is not None
            return self.free_pose.velocity(q, v)
        if self.kind == "ball":
            spin = v[self.number : self.number + 3]
            if self.inverted:
                spin = -quaternion_to_matrix(q[self.number : self.number + 4]) @ spin
            return (spin if self.keeps_coordinates else self.place.rotation @ spin).tolist()
        return [float(v[self.number]) * (1.0 if self.travel is None else self.travel)]


@dataclass(frozen=True, slots=True, eq=False)
class FreePose:
    """Where a free joint puts its body in the world: `before @ motion(q) @ after`, or the inverse of the motion."""

    before: Pose
    after: Pose
    inverted: bool = False

    @property
    def is_plain(self) -> bool:
        """Whether that is the joint's own motion."""
        identity = Pose()
        return not self.inverted and self.before.is_close(identity, 0.0) and self.after.is_close(identity, 0.0)

    def at(self, q: Array) -> Pose:
        """The pose at coordinates."""
        motion = Pose.from_quaternion(q[:3], q[3:7])
        return self.before @ (motion.inverse() if self.inverted else motion) @ self.after

    def velocity(self, q: Array, v: Array) -> list[float]:
        """MuJoCo's velocity: of the body's origin along the world's axes, and its spin about its own."""
        motion = Pose.from_quaternion(q[:3], q[3:7])
        linear, spin = v[:3], v[3:6]
        if self.inverted:
            # of the inverse motion: its origin is -R' p, its spin about its own axes -R w
            linear = -motion.rotation.T @ linear + np.cross(spin, motion.rotation.T @ motion.position)
            spin = -motion.rotation @ spin
            motion = motion.inverse()
        lever = motion.rotation @ np.cross(spin, self.after.position)
        return [*(self.before.rotation @ (linear + lever)).tolist(), *(self.after.rotation.T @ spin).tolist()]


class _Atom(NamedTuple):
    """A part before it is placed."""

    kind: str
    number: int
    axis: Axis | None
    direction: Array | None
    travel: float | None = None


def _atoms(joint: Joint) -> list[_Atom]:
    """The simple motions of a joint, in order."""
    match joint.kind:
        case JointKind.SPHERICAL:
            return [_Atom("ball", 0, None, None)]
        case JointKind.FREE:
            return [*(_Atom("slide", i, None, e) for i, e in enumerate(np.eye(3))), _Atom("ball", 3, None, None)]
        case JointKind.SCREW if joint.moving_axes:
            axis = joint.moving_axes[0]
            travel = joint.pitch / (2 * math.pi)
            return [_Atom("slide", 0, None, axis.direction, travel), _Atom("hinge", 0, axis, axis.direction)]
    return [
        _Atom("hinge" if axis.motion is AxisMotion.ROTATION else "slide", i, axis, axis.direction)
        for i, axis in enumerate(joint.moving_axes)
    ]


def edge_parts(edge: TreeEdge, starts: Mapping[str, Array]) -> tuple[Pose, list[JointPart]]:
    """The pose of an edge's child in its parent at the reference configuration, and the joints that move it.

    Args:
        edge: the edge.
        starts: where the joints start, by name.
    """
    return joint_parts(edge.joints, starts, backwards=edge.reversed)


def joint_parts(
    joints: Sequence[Joint], starts: Mapping[str, Array], *, backwards: bool = False
) -> tuple[Pose, list[JointPart]]:
    """The same for joints between two links; `backwards` where the body that hangs is their parent link."""
    pose, parts = _unmoved(joints, backwards=backwards)
    for part in parts:
        part.reference = _reference(part, starts.get(part.joint.name))
    # B C1 m1 C2 m2 ..., with constant motions C up to the start, is B C1 C2 ... m1' m2' ... in frames moved by those C
    after = Pose()
    for part in reversed(parts):
        if part.shift and part.direction is not None:
            back = after.inverse()
            constant = _moved(part)
            part.place, part.direction = back @ part.place, back.rotation @ part.direction
            after = constant @ after
        elif not _is_identity(after):
            back = after.inverse()
            part.place = back @ part.place
            part.direction = None if part.direction is None else back.rotation @ part.direction
    return (pose if _is_identity(after) else pose @ after), parts


def _reference(part: JointPart, start: Array | None) -> float:
    """The coordinate of a hinge or slide where its joint starts, if that is not where its frames coincide anyway."""
    here = 0.0 if part.axis is None else part.axis.reference
    if part.kind not in ("hinge", "slide") or start is None:
        return here
    if start.shape != (part.joint.n_qs,) or not np.isfinite(start).all():
        return here
    wanted = part.positions(start)[0]
    return wanted if abs(wanted - here) > NO_START else here


def _moved(part: JointPart) -> Pose:
    """The motion of a hinge or slide from where its frames coincide to the reference configuration, in its body."""
    assert part.direction is not None  # hinges and slides have one
    if part.kind == "slide":
        return Pose.translation(part.shift * part.direction)
    around = Pose.translation(part.place.position)
    return around @ Pose(rotation=axis_angle_to_matrix(part.direction, part.shift)) @ around.inverse()


def _is_identity(pose: Pose) -> bool:
    return not pose.position.any() and bool((pose.rotation == np.eye(3)).all())


def _unmoved(joints: Sequence[Joint], *, backwards: bool) -> tuple[Pose, list[JointPart]]:
    """Parts and pose where the frames of all joints coincide."""
    first = joints[0]
    pose = first.parent_pose @ first.child_pose.inverse()
    parts: list[JointPart] = []
    for joint in joints:
        place = pose @ joint.child_pose if backwards else joint.child_pose
        if joint is first and backwards:
            place = joint.parent_pose
        parts += [_placed(joint, atom, place, backwards) for atom in _atoms(joint)]
    if backwards:
        parts.reverse()
        pose = first.child_pose @ first.parent_pose.inverse()
    return pose, parts


def _placed(joint: Joint, atom: _Atom, place: Pose, backwards: bool) -> JointPart:
    direction = None
    if atom.direction is not None:
        direction = place.rotation @ atom.direction * (-1.0 if backwards else 1.0)
    return JointPart(joint, atom.kind, atom.number, atom.axis, direction, place, backwards, atom.travel)


def runs(parts: Sequence[JointPart]) -> list[list[JointPart]]:
    """The parts, split where MuJoCo asks for another body: more than six freedoms, or a turn after a ball."""
    result: list[list[JointPart]] = [[]]
    for part in parts:
        current = result[-1]
        after_ball = any(p.kind == "ball" for p in current) and part.kind != "slide"
        if after_ball or sum(p.n_dofs for p in current) + part.n_dofs > MAX_DOFS:
            result.append([])
        result[-1].append(part)
    return result


def part_suffixes(parts: Sequence[JointPart]) -> list[str]:
    """What to add to a joint's name for each of its parts; nothing where it is one, or the one that leads a screw."""
    if len(parts) == 1:
        return [""]
    result: list[str] = []
    for part in parts:
        if part.travel is not None:
            suffix = "_travel"
        elif part.joint.kind is JointKind.SCREW:
            suffix = ""
        elif part.kind == "ball":
            suffix = "_ball"
        else:
            suffix = f"_{'r' if part.kind == 'hinge' else ''}{_letter(part)}"
        result.append(suffix)
    return result


def _letter(part: JointPart) -> str:
    """x, y or z where the axis lies along one of them, else its number."""
    own = part.axis.direction if part.axis is not None else np.eye(3)[part.number]
    along = int(np.argmax(np.abs(own)))
    return "xyz"[along] if abs(abs(float(own[along])) - 1) < 1e-12 else str(part.number + 1)
