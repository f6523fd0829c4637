"""Where the links of the file stand: at the zero configuration, unless loops are closed elsewhere."""

from __future__ import annotations

import numpy as np

from kinema.description import AxisMotion, Constraint, Joint, JointKind, KinematicTree, Robot, coordinates
from kinema.foundation import Array, Pose

CLOSED = 1e-9
"""How far [m, rad] apart the two frames of a joint that closes a loop may be."""


def start_of(robot: Robot, tree: KinematicTree) -> dict[str, Array]:
    """The coordinates at which the links are posed: zero, or where loops are closed if that is elsewhere."""
    zero: dict[str, Array] = {}
    joined = [c for c in robot.constraints if c.active and c.kind.value in ("connect", "weld")]
    if not (tree.loops or joined):
        return zero
    candidates = [zero, _references(robot), _starts(robot)]
    gaps = [_gap(robot, tree, c, joined) for c in candidates]
    return candidates[next((i for i, gap in enumerate(gaps) if gap <= CLOSED), 0)]


def _references(robot: Robot) -> dict[str, Array]:
    found = {j.name: np.array([a.reference for a in j.moving_axes]) for j in robot.joints if _is_plain(j)}
    return {name: q for name, q in found.items() if q.any()}


def _starts(robot: Robot) -> dict[str, Array]:
    starts = coordinates(robot.joints, {})
    return {j.name: starts[j.name] for j in robot.joints if _is_plain(j) and starts[j.name].any()}


def _is_plain(joint: Joint) -> bool:
    return joint.kind not in (JointKind.SPHERICAL, JointKind.FREE, JointKind.DISTANCE)


def _gap(robot: Robot, tree: KinematicTree, start: dict[str, Array], joined: list[Constraint]) -> float:
    poses = poses_at(robot, tree, start)

    def at(link: str | None) -> Pose:
        return Pose() if link is None else poses.get(link, Pose())

    gaps = [0.0]
    for joint in tree.loops:
        if joint.kind is not JointKind.DISTANCE:
            a, b = at(joint.parent) @ joint.parent_pose, at(joint.child) @ joint.child_pose
            slides = any(x.motion is AxisMotion.TRANSLATION for x in joint.moving_axes)
            gaps.append(0.0 if slides else a.distance(b)[0])
    gaps += [(at(c.a) @ c.pose_a).distance(at(c.b) @ c.pose_b)[0] for c in joined]
    return max(gaps)


def poses_at(robot: Robot, tree: KinematicTree, start: dict[str, Array]) -> dict[str, Pose]:
    """Poses of all links in the model; free joints are where they start, followers at zero like all others."""
    by_name = {link.name: link for link in robot.links}
    poses = {root: by_name[root].pose or Pose() for root in tree.roots}
    for edge in tree.edges:
        values = {j.name: _value(j, start) for j in edge.joints}
        poses[edge.child] = (Pose() if edge.parent is None else poses[edge.parent]) @ edge.pose(values)
    return poses


def _value(joint: Joint, start: dict[str, Array]) -> Array:
    if joint.name in start:
        return start[joint.name]
    if joint.kind is JointKind.SPHERICAL:
        return np.array([1.0, 0.0, 0.0, 0.0])
    return joint.start if joint.kind is JointKind.FREE else np.zeros(joint.n_qs)
