"""Where every link is, at given joint coordinates."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence, Set

import numpy as np

from kinema.foundation import Array, ArrayLike, KinemaError, Pose, vector

from .joint import Joint
from .link import Link
from .tree import KinematicTree

Configuration = Mapping[str, ArrayLike]
"""Joint name -> a number for a one-dof joint, a sequence for more."""


def coordinates(joints: Sequence[Joint], configuration: Configuration) -> dict[str, Array]:
    """The coordinates of every joint: as given, else following its leader, else where its file shows it.

    A follower that the file shows somewhere stays there as long as nothing that it follows is moved.
    """
    by_name = {j.name: j for j in joints}
    for name in configuration:
        if name not in by_name:
            raise KinemaError(f"there is no joint {name!r}; the joints are: {', '.join(by_name) or 'none'}")
    values = {name: _given(by_name[name], value) for name, value in configuration.items()}
    moved = set(values)
    for joint in joints:
        if joint.name not in values:
            for one in _leaders_first(joint, by_name, values):
                values[one.name] = _followed(one, values, moved)
                if not moved.isdisjoint(_leaders(one)):
                    moved.add(one.name)
    return values


def zero_coordinates(joints: Sequence[Joint]) -> dict[str, Array]:
    """The zero configuration: free joints are where their files put them, and followers follow."""
    leading = [j for j in joints if not any(a.mimic is not None for a in j.moving_axes)]
    return coordinates(joints, {j.name: j.rest for j in leading})


def _given(joint: Joint, value: ArrayLike) -> Array:
    q = np.atleast_1d(vector(value))
    if q.shape != (joint.n_qs,):
        raise KinemaError(f"joint {joint.name!r} ({joint.kind.value}) takes {joint.n_qs} coordinate(s), not {q.size}")
    return q


def _leaders_first(joint: Joint, by_name: Mapping[str, Joint], done: Mapping[str, Array]) -> list[Joint]:
    """The joint after all that it follows and that is not done; a circle of mimics is cut where it closes."""
    order: list[Joint] = []
    entered = {joint.name}
    waiting = [(joint, _leaders(joint))]
    while waiting:
        current, leaders = waiting[-1]
        name = next(leaders, None)
        if name is None:
            order.append(current)
            waiting.pop()
        elif name in by_name and name not in done and name not in entered:
            entered.add(name)
            waiting.append((by_name[name], _leaders(by_name[name])))
    return order


def _leaders(joint: Joint) -> Iterator[str]:
    return iter([a.mimic.joint for a in joint.moving_axes if a.mimic is not None])


def _followed(joint: Joint, values: Mapping[str, Array], moved: Set[str]) -> Array:
    """The joint's coordinates where its leaders are; its own start where they are not known, or did not move."""
    q = joint.start.copy()
    for i, axis in enumerate(joint.moving_axes):
        mimic = axis.mimic
        if mimic is None or (joint.is_shown and mimic.joint not in moved):
            continue
        leader = values.get(mimic.joint)
        if leader is not None and 0 <= mimic.axis < leader.size:
            q[i] = mimic.multiplier * (leader[mimic.axis] - mimic.reference) + mimic.offset
    return q


def link_poses(links: Sequence[Link], tree: KinematicTree, base: Pose, values: dict[str, Array]) -> dict[str, Pose]:
    """World poses of all links by name, for a robot placed at `base`."""
    by_name = {link.name: link for link in links}
    poses: dict[str, Pose] = {}
    for root in tree.roots:
        own = by_name[root].pose
        poses[root] = base if own is None else base @ own
    with np.errstate(all="ignore"):  # absurd numbers give absurd poses, which the checks report
        for edge in tree.edges:
            parent = base if edge.parent is None else poses[edge.parent]
            poses[edge.child] = parent @ edge.pose(values)
    return poses
