"""There and back: a description written in another format, read, written in its own and read again.

`round_trips` makes the trip; each of `structure`, `poses`, `inertias`, `limits` and `collisions` compares one aspect of
the two ends. They yield what differs, each with the entry of the loss reports that names the very element it is about;
a difference without such an entry is a defect.
"""

from __future__ import annotations

import math
import re
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property
from pathlib import Path

import numpy as np

from kinema.core import Array, Pose, collect
from kinema.description import Inertial, Joint, JointKind, Link, Robot, World, colliding_pairs
from kinema.read import read
from kinema.write import FORMATS, Loss, LossReport, write
from kinema.write.loss_report import with_report_name

N_CONFIGURATIONS = 20
POSE_TOLERANCE = 1e-7
"""[m] and [rad]."""
TOLERANCE = 1e-6
"""Of masses, centres, inertias and limits, relative."""
WORLD = "world"
_STATIC_BODY = -1
_SUFFIX = {**{format: suffixes[0] for format, suffixes in FORMATS.items()}, "usd": ".usdc"}

_QUOTED = re.compile(r'"([^"]+)"|\'([^\']+)\'')
_RENAMED = re.compile(r"it is called (?:\"(.*)\"|'(.*?)' in the file)")
_BASE = re.compile(r"\b(base|root)\b")
_OF_ANOTHER_FORMAT = re.compile(r"^(settings? of its own format|the setting|<|its name$)")
_OF_OTHER_MATTERS = {
    "pose": r"velocit|effort|damp|friction|armature|drive|stiff|spring|solver|surface|mass|inertia|limit|gravity|colli",
    "inertia": r"surface|friction|gravity|velocit|colour|texture|material|collide|solver|drawn",
    "limit": r"damp|friction|armature|spring|stiffness|solver|break|inertia",
    "collision": r"^(?!.*(collide|pair|mask|the shape|the static shape|the plane|the mesh|joint|its kind|disabled)).*$",
}
"""What a loss may be about, of an element, that cannot be why this aspect of it differs."""
_OTHER_KINDS = {"robot", "world", "actuator", "sensor", "frame", "camera", "light", "keyframe", "option"}
"""Losses of elements that are not compared, which may have the name of one that is."""


@dataclass(frozen=True)
class Difference:
    """One thing that is not as it was."""

    aspect: str
    text: str
    loss: Loss | None
    """The entry of the reports that names it; None for a defect."""

    def __str__(self) -> str:
        return f"{self.aspect}: {self.text}"


@dataclass
class Side:
    """A description at one end of the trip, its parts by names that are unique in it."""

    described: Robot | World
    links: dict[str, Link] = field(default_factory=dict)
    joints: dict[str, Joint] = field(default_factory=dict)
    link_of: dict[tuple[str, str], str] = field(default_factory=dict)
    """(robot, link) -> the unique name."""
    above: dict[str, tuple[str | None, tuple[str, ...]]] = field(default_factory=dict)
    """What each link hangs on in the tree, None for the world, and by which joints."""
    robot_of: dict[str, Robot] = field(default_factory=dict)

    def __post_init__(self) -> None:
        described = self.described
        robots = described.robots if isinstance(described, World) else [described]
        shared = {kind: _repeated(described, kind) for kind in ("links", "joints")}
        for robot in robots:

            def unique(kind: str, name: str, owner: Robot = robot) -> str:
                return f"{owner.name}::{name}" if name in shared[kind] else name

            for link in robot.links:
                name = unique("links", link.name)
                self.links[name] = link
                self.link_of[robot.name, link.name] = name
                self.robot_of[name] = robot
                self.above[name] = (None, ())
            for joint in robot.joints:
                self.joints[unique("joints", joint.name)] = joint
            for edge in robot.tree().edges:
                parent = None if edge.parent is None else unique("links", edge.parent)
                held_by = tuple(unique("joints", joint.name) for joint in edge.joints)
                self.above[unique("links", edge.child)] = (parent, held_by)

    def poses(self, configuration: Mapping[str, Array]) -> dict[str, Pose]:
        """World poses of the links."""
        return self.described.link_poses(configuration)


def _repeated(described: Robot | World, kind: str) -> set[str]:
    return {name for name, count in Counter(x.name for x in getattr(described, kind)).items() if count > 1}


@dataclass
class RoundTrip:
    """Both ends of a trip, and what the two writings said."""

    before: Side
    after: Side
    there: LossReport
    back: LossReport

    @cached_property
    def links(self) -> dict[str, str]:
        """The link of each name at the end, by its name at the start; without those that are gone."""
        return self._matched("link", self.before.links, self.after.links)

    @cached_property
    def joints(self) -> dict[str, str]:
        """The same of the joints."""
        return self._matched("joint", self.before.joints, self.after.joints)

    def _matched(self, kind: str, before: Mapping[str, Link | Joint], after: Iterable[str]) -> dict[str, str]:
        left = dict.fromkeys(after)
        result: dict[str, str] = {}
        later = []
        alike = Counter(node.name for node in before.values())
        for unique, node in before.items():
            alike[node.name] -= 1
            first_names = _renamed(self.there, kind, node.name)
            if 0 <= alike[node.name] < len(first_names) - 1:  # of several that were called alike, the last ones change
                first_names = [first_names[-2 - alike[node.name]]]
            elif len(first_names) > 1:
                first_names = [node.name]
            names = [n for first in first_names for n in _renamed(self.back, kind, first)]
            is_renamed = set(names) != {node.name}
            if is_renamed or not self._take(unique, [unique, node.name], left, result):
                later.append((unique, names))
        for unique, names in later:
            scope = unique.rpartition("::")[0]
            self._take(unique, [n for x in names for n in (f"{scope}::{x}", x)], left, result)
        return result

    @staticmethod
    def _take(unique: str, names: Iterable[str], left: dict[str, None], result: dict[str, str]) -> bool:
        found = next((name for name in names if name in left), None)
        if found is not None:
            del left[found]
            result[unique] = found
        return found is not None

    @cached_property
    def _named(self) -> dict[str, list[Loss]]:
        """The losses, by every name that they mention."""
        result: dict[str, list[Loss]] = {}
        for loss in (*self.there, *self.back):
            if loss.action.value == "extension" or _OF_ANOTHER_FORMAT.match(loss.what):
                continue  # our own reader knows the extensions; names are followed; the rest is not compared
            quoted = {a or b for a, b in _QUOTED.findall(f"{loss.what} {loss.how}")}
            for name in {loss.name, *quoted}:
                result.setdefault(name, []).append(loss)
        return result

    def loss_of(self, aspect: str, names: Iterable[str | None], kinds: Sequence[str] = ()) -> Loss | None:
        """The first loss that names one of these elements and may be why this aspect of it differs."""
        unrelated = re.compile(_OF_OTHER_MATTERS[aspect])
        for name in filter(None, names):
            middle = {n for kind in ("link", "joint", "shape") for n in _renamed(self.there, kind, name)}
            for called in {name, name.rpartition("::")[2], *middle}:
                for loss in self._named.get(called, ()):
                    is_quoted = loss.name != called
                    may_be_of = loss.kind in kinds if kinds else is_quoted or loss.kind not in _OTHER_KINDS
                    if may_be_of and not unrelated.search(loss.what):
                        return loss
        return None

    def base_loss(self) -> Loss | None:
        """The loss that is about what holds a robot's base."""
        return next((x for x in (*self.there, *self.back) if x.kind == "robot" and _BASE.search(x.what)), None)


def _renamed(report: LossReport, kind: str, name: str) -> list[str]:
    """What elements of that name may be called in the file: as they were, where the report says nothing else."""
    found = [
        match[1] or match[2]
        for loss in report
        if loss.kind == kind and loss.name == name and loss.what == "its name" and (match := _RENAMED.search(loss.how))
    ]
    return [*found, name]


def _former(report: LossReport, name: str) -> list[str]:
    """What was called otherwise before a writer gave it this name."""
    plain = name.rpartition("::")[2]
    called = [(loss, _RENAMED.search(loss.how)) for loss in report if loss.what == "its name"]
    return [loss.name for loss, match in called if match and plain in (match[1], match[2])]


# -- the trip ---------------------------------------------------------------------------------------------------------


def round_trips(source: Path, target: str, folder: Path) -> Iterator[RoundTrip]:
    """Read a file, write it as `target`, read that, write it in the file's own format and read it again.

    A world of several robots makes a trip to URDF with each of them.
    """
    described = read(source, policy=collect)
    robots = [r for r in described.robots if r.links] if isinstance(described, World) else []
    if target != "urdf" or len(robots) < 2:
        yield _trip(described, described, target, folder)
        return
    for i, robot in enumerate(robots):
        yield _trip(described, robot, target, folder / str(i), robot=robot.name)


def _trip(whole: Robot | World, part: Robot | World, target: str, folder: Path, robot: str = "") -> RoundTrip:
    middle, end = folder / "there" / f"robot{_SUFFIX[target]}", folder / "back" / f"robot{_SUFFIX[whole.format]}"
    for file in (middle, end):
        file.parent.mkdir(parents=True)
    there = write(whole, middle, robot=robot, meshes="copy")
    back = write(read(middle, policy=collect), end, meshes="copy")
    return RoundTrip(Side(part), Side(read(end, policy=collect)), there, back)


def differences(trip: RoundTrip) -> Iterator[Difference]:
    """Everything that is not as it was."""
    for aspect in (structure, poses, inertias, limits, collisions):
        yield from aspect(trip)


# -- the aspects ------------------------------------------------------------------------------------------------------


def structure(trip: RoundTrip) -> Iterator[Difference]:
    """Links and moving joints that are gone, and links that came in addition."""
    for name in trip.before.links:
        if name not in trip.links:
            yield Difference("structure", f'the link "{name}" is gone', trip.loss_of("pose", [name]))
    for name, joint in trip.before.joints.items():
        if joint.n_dofs and name not in trip.joints:
            loss = trip.loss_of("pose", [name])
            if loss is None and WORLD in (joint.parent or WORLD, joint.child or WORLD):
                loss = trip.base_loss()
            yield Difference("structure", f'the joint "{name}" is gone', loss)
    for name in trip.after.links.keys() - set(trip.links.values()):
        loss = trip.loss_of("pose", [name, *_former(trip.back, name), trip.after.robot_of[name].name])
        yield Difference("structure", f'the link "{name}" came in addition', loss)


def poses(trip: RoundTrip) -> Iterator[Difference]:
    """Links that are elsewhere, seen from the link they hang on, at random configurations of the joints."""
    generator = np.random.default_rng(4)
    worst: dict[str, tuple[float, float]] = {}
    drift: dict[str, tuple[float, float]] = {}
    for _ in range(N_CONFIGURATIONS):
        one, other = _configurations(trip, generator)
        before, after = trip.before.poses(one), trip.after.poses(other)
        for name, there in trip.links.items():
            parent = _carrier(trip, name)
            a, b = before[name], after[there]
            drift[name] = _greater(drift.get(name), a.distance(b))
            if parent is not None:
                a, b = before[parent].inverse() @ a, after[trip.links[parent]].inverse() @ b
            worst[name] = _greater(worst.get(name), a.distance(b))
    moved = {name: far for name, far in worst.items() if not max(far) <= POSE_TOLERANCE}
    for name, far in moved.items():
        parent = _carrier(trip, name)
        loss = trip.loss_of("pose", _between(trip, name, parent)) or (trip.base_loss() if parent is None else None)
        yield Difference("pose", f'the link "{name}" is {_far(far)} away', loss)
    for name, far in drift.items():
        if not moved and not max(far) <= POSE_TOLERANCE:
            yield Difference("pose", f'the link "{name}" is {_far(far)} away in the world', None)


def inertias(trip: RoundTrip) -> Iterator[Difference]:
    """Links with another mass, centre or inertia."""
    for name, there in trip.links.items():
        link = trip.before.links[name]
        text = _inertial_difference(link.inertial, trip.after.links[there].inertial)
        if text:
            loss = trip.loss_of("inertia", [name, *(s.name for s in link.shapes)], ("link", "shape"))
            yield Difference("inertia", f'link "{name}": {text}', loss)


def limits(trip: RoundTrip) -> Iterator[Difference]:
    """Joints with another range, or other limits of speed and effort."""
    for name, there in trip.joints.items():
        one, other = trip.before.joints[name].moving_axes, trip.after.joints[there].moving_axes
        found = [] if len(one) == len(other) else [f"{len(one)} axes are {len(other)}"]
        for a, b in zip(one, other, strict=False):
            found += [] if a.motion is b.motion else [f"{a.motion.value} is {b.motion.value}"]
            for limit in ("lower", "upper", "velocity", "effort"):
                was, now = getattr(a, limit), getattr(b, limit)
                if not math.isclose(was, now, rel_tol=TOLERANCE, abs_tol=1e-9):
                    found.append(f"{limit} {was:.9g} is {now:.9g}")
        if found:
            yield Difference("limit", f'joint "{name}": {", ".join(found)}', trip.loss_of("limit", [name]))


def collisions(trip: RoundTrip) -> Iterator[Difference]:
    """Pairs of links that may collide at one end only."""
    kept = set(trip.links)
    before = _pairs(trip.before, {name: name for name in kept})
    after = _pairs(trip.after, {there: name for name, there in trip.links.items()})
    for pair in sorted(before.symmetric_difference(after), key=sorted):
        names = sorted(pair)
        loss = trip.loss_of("collision", [*names, *_shapes(trip, names)], ("link", "shape", "collisionpair", "pair"))
        loss = loss or trip.loss_of("collision", _joints_between(trip, names), ("joint",))
        if loss is None and any(_is_held(trip, name) for name in names):
            loss = trip.base_loss()
        what = "may collide no more" if pair in before else "may collide now"
        yield Difference("collision", f"{' and '.join(names)} {what}", loss)


# -- poses ------------------------------------------------------------------------------------------------------------


def _configurations(trip: RoundTrip, generator: np.random.Generator) -> tuple[dict[str, Array], dict[str, Array]]:
    """Random coordinates for both ends: of the joints that move links in the tree and have the same coordinates."""
    one: dict[str, Array] = {}
    other: dict[str, Array] = {}
    for name in (joint for _, joints in trip.before.above.values() for joint in joints):
        joint, there = trip.before.joints[name], trip.joints.get(name)
        q = _random_coordinates(joint, generator)
        follows = any(axis.mimic is not None for axis in joint.moving_axes)
        if there is not None and q.size and not follows and _same_coordinates(joint, trip.after.joints[there]):
            one[name] = other[there] = q
    return one, other


def _same_coordinates(a: Joint, b: Joint) -> bool:
    return a.n_qs == b.n_qs and a.n_dofs == b.n_dofs


def _random_coordinates(joint: Joint, generator: np.random.Generator) -> Array:
    if joint.kind in (JointKind.FREE, JointKind.SPHERICAL):
        turn = generator.normal(size=4)
        place = generator.normal(size=3) if joint.kind is JointKind.FREE else np.zeros(0)
        return np.concatenate([place, turn / np.linalg.norm(turn)])
    ranges = [(max(axis.lower, -math.pi), min(axis.upper, math.pi)) for axis in joint.moving_axes]
    return np.array([generator.uniform(low, high) if low < high else low for low, high in ranges])


def _carrier(trip: RoundTrip, name: str) -> str | None:
    """The nearest link below in the tree that is still there."""
    parent = trip.before.above[name][0]
    while parent is not None and parent not in trip.links:
        parent = trip.before.above[parent][0]
    return parent


def _between(trip: RoundTrip, name: str, carrier: str | None) -> Iterator[str]:
    """The link, and the joints and links between it and the one that carries it."""
    here: str | None = name
    while here is not None and here != carrier:
        yield here
        parent, joints = trip.before.above[here]
        yield from joints
        here = parent


def _greater(a: tuple[float, float] | None, b: tuple[float, float]) -> tuple[float, float]:
    return b if a is None or not max(b) <= max(a) else a


def _far(far: tuple[float, float]) -> str:
    return f"{far[0]:.2g} m, {far[1]:.2g} rad"


# -- inertias ---------------------------------------------------------------------------------------------------------


def _inertial_difference(a: Inertial | None, b: Inertial | None) -> str:
    if a is None or b is None:
        rest = a or b
        return "" if rest is None or not (rest.mass or rest.inertia.any()) else f"{_mass(a)} is {_mass(b)}"
    if not math.isclose(a.mass, b.mass, rel_tol=TOLERANCE):
        return f"{_mass(a)} is {_mass(b)}"
    if not np.linalg.norm(a.center - b.center) <= TOLERANCE * np.linalg.norm(a.center) + 1e-9:
        return f"its centre {a.center} is {b.center}"
    if not np.abs(a.inertia - b.inertia).max() <= TOLERANCE * np.abs(a.inertia).max() + 1e-15:
        return f"its inertia {a.inertia.tolist()} is {b.inertia.tolist()}"
    return ""


def _mass(inertial: Inertial | None) -> str:
    return "no mass" if inertial is None else f"{inertial.mass:.9g} kg"


# -- collisions -------------------------------------------------------------------------------------------------------


def _pairs(side: Side, names: Mapping[str, str]) -> set[frozenset[str]]:
    """The pairs of links that may collide; what never moves and has no counterpart is the world."""
    result = set()
    for pair in colliding_pairs(side.described):
        ends = set()
        for collider in pair:
            own = WORLD if collider.link is None else side.link_of[collider.robot, collider.link]
            ends.add(names.get(own, WORLD if collider.body == _STATIC_BODY else own))
        result.add(frozenset(ends))
    return result


def _shapes(trip: RoundTrip, names: Sequence[str]) -> list[str]:
    """The names of the shapes of links, or of the world."""
    loose = trip.before.described.shapes if isinstance(trip.before.described, World) else []
    links = [trip.before.links[name] for name in names if name in trip.before.links]
    of_links = [with_report_name(link, s) for link in links for s in link.shapes]
    return [s.name for s in (*of_links, *(loose if WORLD in names else [])) if s.collision]


def _joints_between(trip: RoundTrip, names: Sequence[str]) -> list[str]:
    ends = {name.rpartition("::")[2] for name in names}
    return [name for name, joint in trip.before.joints.items() if {joint.parent or WORLD, joint.child or WORLD} == ends]


def _is_held(trip: RoundTrip, name: str) -> bool:
    """Whether nothing moves between a link and the world, at one end at least."""
    if name not in trip.before.above:
        return True
    here: str | None = name
    while here is not None:
        parent, joints = trip.before.above[here]
        if any(trip.before.joints[j].n_dofs for j in joints) and parent is not None:
            return False
        here = parent
    return True
