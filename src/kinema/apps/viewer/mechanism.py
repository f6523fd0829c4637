"""Where the links of a robot are while nothing is simulated: sliders move joints, mimics follow, loops stay closed."""

from __future__ import annotations

from collections.abc import Callable, Mapping

import numpy as np

from kinema.description import Constraint, ConstraintKind, Joint, JointKind, Robot, coordinates, joint_motion
from kinema.foundation import Array, Pose

from .coordinates import flat, rotation_vector, unflat

_STEPS = 40
_CLOSED = 1e-7
"""Loops count as closed when nothing is further off [m, rad]."""
_PUSH = 1e-6
"""By how much a joint is moved to see what it does."""

Residual = Callable[[Mapping[str, Pose], Mapping[str, Array]], Array]


class Mechanism:
    """One robot: its tree, its loops, and the coordinates it is at."""

    def __init__(self, robot: Robot) -> None:
        self.robot = robot
        self.tree = robot.tree()
        self.by_name = {joint.name: joint for joint in robot.joints}
        self._moved: dict[str, Array] = {}
        """Coordinates of joints that are not where the file shows them."""
        self.loops = {joint.name: joint.start for joint in self.tree.loops if joint.kind is not JointKind.DISTANCE}
        """Coordinates of the joints that close loops, as far as they are known."""
        self.residuals = [
            *(_loop(joint) for joint in self.tree.loops),
            *(r for c in robot.constraints if c.active and (r := _equality(c, robot)) is not None),
        ]

    @property
    def values(self) -> dict[str, Array]:
        """The coordinates of all joints."""
        return coordinates(self.robot.joints, self._moved)

    def reset(self) -> None:
        """Back to where the file shows it."""
        self._moved = {}

    def poses(self) -> dict[str, Pose]:
        """World poses of all links by name."""
        return self._poses(self.values)

    def _poses(self, values: dict[str, Array]) -> dict[str, Pose]:
        links, base = {link.name: link for link in self.robot.links}, self.robot.pose
        result = {root: base @ (links[root].pose or Pose()) for root in self.tree.roots}
        with np.errstate(all="ignore"):  # what is wrong in a file is told by the checks
            for edge in self.tree.edges:
                parent = base if edge.parent is None else result[edge.parent]
                result[edge.child] = parent @ edge.pose(values)
        return result

    def move(self, moved: Mapping[str, Array]) -> bool:
        """Put joints somewhere; those in loops with them follow. False, and nothing moves, where loops cannot close."""
        before = dict(self._moved)
        known = {name: q for name, q in moved.items() if name in self.by_name}
        self._moved |= known
        if self.residuals and not self._close(set(known)):
            self._moved = before
            return False
        return True

    def show(self, values: Mapping[str, Array]) -> None:
        """Be where somebody else says, loops and all."""
        self._moved = {name: np.array(q) for name, q in values.items() if name in self.by_name}

    # --------------------------------------------------------------------------------------------------- loops

    def _close(self, held: set[str]) -> bool:
        """Damped least squares over the joints in loops, held ones left where they are."""
        names = [name for name in self._in_loops() if name not in held]
        loops = list(self.loops)
        values = self.values
        x = [flat(self.by_name[n], values[n]) for n in names] + [flat(self.by_name[n], self.loops[n]) for n in loops]
        ends = np.cumsum([len(part) for part in x]) if x else np.zeros(0, dtype=np.int64)
        unknown = np.concatenate(x) if x else np.zeros(0)

        def off(u: Array) -> tuple[Array, dict[str, Array], dict[str, Array]]:
            parts = np.split(u, ends[:-1]) if len(ends) else []
            tree = {n: unflat(self.by_name[n], p) for n, p in zip(names, parts, strict=False)}
            closing = {n: unflat(self.by_name[n], p) for n, p in zip(loops, parts[len(names) :], strict=True)}
            everything = coordinates(self.robot.joints, {**self._moved, **tree})
            poses = self._poses(everything)
            return np.concatenate([r(poses, {**everything, **closing}) for r in self.residuals]), tree, closing

        error, tree, closing = off(unknown)
        damping = 1e-6
        for _ in range(_STEPS):
            size = float(np.abs(error).max(initial=0.0))
            if size < _CLOSED:
                break
            columns = [(off(unknown + _PUSH * e)[0] - error) / _PUSH for e in np.eye(len(unknown))]
            slope = np.stack(columns, axis=1) if columns else np.zeros((len(error), 0))
            step = np.linalg.lstsq(slope.T @ slope + damping * np.eye(len(unknown)), -slope.T @ error, rcond=None)[0]
            step *= min(1.0, 0.5 / max(float(np.abs(step).max(initial=0.0)), 1e-12))  # half a radian at most
            tried = off(unknown + step)
            if np.linalg.norm(tried[0]) < np.linalg.norm(error):
                unknown, (error, tree, closing), damping = unknown + step, tried, max(damping / 10.0, 1e-9)
            else:
                damping *= 10.0
        if not np.abs(error).max(initial=0.0) < 1e3 * _CLOSED:
            return False
        self._moved |= tree
        self.loops |= closing
        return True

    def _in_loops(self) -> list[str]:
        """Joints of the tree that move one end of a loop or constraint against the other, but no followers."""
        pairs = [(joint.parent, joint.child) for joint in self.tree.loops]
        names: dict[str, None] = {}
        for constraint in (c for c in self.robot.constraints if c.active):
            if constraint.kind is ConstraintKind.JOINT:
                names |= {end: None for end in (constraint.a, constraint.b) if end in self.by_name}
            else:
                pairs.append((constraint.a, constraint.b))
        for a, b in pairs:
            above = [self._carriers(a), self._carriers(b)]
            names |= {name: None for name in (*above[0], *above[1]) if (name in above[0]) != (name in above[1])}
        follows = {j.name for j in self.robot.joints if any(a.mimic is not None for a in j.moving_axes)}
        free = {j.name for j in self.robot.joints if j.kind is JointKind.FREE}
        return [name for name in names if self.by_name[name].n_dofs and name not in follows | free]

    def _carriers(self, link: str | None) -> list[str]:
        """The joints of the tree between a link and the base."""
        edges = self.tree.edge_to()
        names: list[str] = []
        while link in edges:
            names += [joint.name for joint in edges[link].joints]
            link = edges[link].parent
        return names


def _loop(joint: Joint) -> Residual:
    """How far the frames of a joint that closes a loop are from what its coordinates say."""

    def off(poses: Mapping[str, Pose], values: Mapping[str, Array]) -> Array:
        parent = (poses[joint.parent] if joint.parent is not None else Pose()) @ joint.parent_pose
        child = (poses[joint.child] if joint.child is not None else Pose()) @ joint.child_pose
        between = parent.inverse() @ child
        if joint.kind is JointKind.DISTANCE:
            apart = float(np.linalg.norm(between.position))
            return np.array([apart - min(max(apart, joint.distance[0]), joint.distance[1])])
        return _apart(joint_motion(joint, values[joint.name]), between)

    return off


def _equality(constraint: Constraint, robot: Robot) -> Residual | None:
    """How far a constraint is from being kept; None for kinds that are left to the simulation."""
    c, links = constraint, {link.name for link in robot.links}
    if c.kind in (ConstraintKind.CONNECT, ConstraintKind.WELD):
        if any(end is not None and end not in links for end in (c.a, c.b)):
            return None
        rows = 3 if c.kind is ConstraintKind.CONNECT else 6

        def ends_apart(poses: Mapping[str, Pose], _: Mapping[str, Array]) -> Array:
            a, b = ((poses[end] if end is not None else Pose()) for end in (c.a, c.b))
            return _apart(a @ c.pose_a, b @ c.pose_b)[:rows]

        return ends_apart
    joints = {joint.name: joint for joint in robot.joints}
    if c.kind is not ConstraintKind.JOINT or c.a not in joints or (c.b is not None and c.b not in joints):
        return None

    def coordinates_apart(_: Mapping[str, Pose], values: Mapping[str, Array]) -> Array:
        def moved(name: str, axis: int) -> float:
            return float(values[name][axis]) - joints[name].moving_axes[axis].reference

        leader = moved(c.b, c.axis_b) if c.b is not None else 0.0
        assert c.a is not None  # it is a joint's name
        return np.array([moved(c.a, c.axis_a) - sum(k * leader**i for i, k in enumerate(c.polynomial))])

    return coordinates_apart


def _apart(a: Pose, b: Pose) -> Array:
    """Position and rotation from one frame to the other [m, rad]."""
    return np.concatenate([b.position - a.position, rotation_vector(a.rotation.T @ b.rotation)])
