"""Whether two robots, or parts of them, are the same."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping

import numpy as np

from kinema.core import Array, Pose
from kinema.description import Robot, World, colliding_pairs

from .configurations import random_coordinates


def agree(theirs: Mapping[str, Array], ours: Mapping[str, Array], tolerance: float) -> None:
    """Whoever else has every link where the description has it."""
    for name, pose in ours.items():
        np.testing.assert_allclose(theirs[name], pose, rtol=0, atol=tolerance, err_msg=name)


def assert_same_pose(a: Pose, b: Pose, tolerance: float, what: str) -> None:
    """In metres and radians."""
    metres, radians = a.distance(b)
    assert max(metres, radians) <= tolerance, f"{what}: {metres} m, {radians} rad"


def assert_same_motion(a: Robot, b: Robot, tolerance: float, count: int = 20) -> None:
    """The same place of every link, at zero and at random configurations, in which followers follow by themselves."""
    rng = np.random.default_rng(0)
    leading = {j.name for e in a.tree().edges for j in e.joints if j.n_qs and not any(axis.mimic for axis in j.axes)}
    for moved in range(count + 1):
        q = {name: values for name, values in random_coordinates(a, rng).items() if moved and name in leading}
        agree(b.forward_kinematics(q), a.forward_kinematics(q), tolerance)


def colliding_links(described: Robot | World) -> Counter[frozenset[str]]:
    """How many pairs of shapes may collide, by the names of their links, or the world's."""
    return Counter(frozenset((a.link or "world", b.link or "world")) for a, b in colliding_pairs(described))
