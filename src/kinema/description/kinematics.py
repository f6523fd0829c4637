"""Where every link is, at given joint coordinates."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np

from kinema.foundation import Array, ArrayLike, KinemaError, Pose, vector

from .joint import Joint
from .link import Link
from .tree import KinematicTree

Configuration = Mapping[str, ArrayLike]
"""Joint name -> a number for a one-dof joint, a sequence for more."""


def coordinates(joints: Sequence[Joint], configuration: Configuration) -> dict[str, Array]:
    """The coordinates of every joint: as given, else following its leader, else the zero configuration."""
    by_name = {j.name: j for j in joints}
    for name in configuration:
        if name not in by_name:
            raise KinemaError(f"there is no joint {name!r}; the joints are: {', '.join(by_name) or 'none'}")
    values = {name: _given(by_name[name], value) for name, value in configuration.items()}
    for joint in joints:
        _follow(joint, by_name, values, set())
    return values


def _given(joint: Joint, value: ArrayLike) -> Array:
    q = np.atleast_1d(vector(value))
    if q.shape != (joint.n_qs,):
        raise KinemaError(f"joint {joint.name!r} ({joint.kind.value}) takes {joint.n_qs} coordinate(s), not {q.size}")
    return q


def _follow(joint: Joint, by_name: Mapping[str, Joint], values: dict[str, Array], asking: set[str]) -> Array:
    """The joint's coordinates, its leaders' first; a circle of mimics stays at the zero configuration."""
    if joint.name in values:
        return values[joint.name]
    q = joint.rest.copy()
    for i, axis in enumerate(joint.moving_axes):
        mimic = axis.mimic
        if mimic is None or mimic.joint not in by_name or mimic.joint in asking:
            continue
        leader = _follow(by_name[mimic.joint], by_name, values, asking | {joint.name})
        if mimic.axis < leader.size:
            q[i] = mimic.multiplier * (leader[mimic.axis] - mimic.reference) + mimic.offset
    if not asking:
        values[joint.name] = q  # inside a chain the value may still depend on where a circle was cut
    return q


def link_poses(links: Sequence[Link], tree: KinematicTree, base: Pose, values: dict[str, Array]) -> dict[str, Pose]:
    """World poses of all links by name, for a robot placed at `base`."""
    by_name = {link.name: link for link in links}
    poses: dict[str, Pose] = {}
    for root in tree.roots:
        own = by_name[root].pose
        poses[root] = base if own is None else base @ own
    for edge in tree.edges:
        parent = base if edge.parent is None else poses[edge.parent]
        poses[edge.child] = parent @ edge.pose(values)
    return poses
