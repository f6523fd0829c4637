"""A sensor on its way into the model: what it measures, and where what it looks at is."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

import numpy as np

from kinema.description import Camera, Frame, Link, Mesh, Robot, Sensor, Shape, World
from kinema.foundation import Array, Pose
from kinema.model import ActuatorsInfo
from kinema.words import mjcf

from .draft import Body, Draft, Spot
from .find import all_of

IN_WORLD = Spot(-1, Pose())


@dataclass(slots=True, eq=False)
class Flaw:
    """What is wrong with the numbers of a sensor."""

    noise: float = 0.0
    bias_mean: float = 0.0
    bias_std: float = 0.0
    resolution: float = 0.0


@dataclass(slots=True, eq=False)
class DraftReading:
    """One thing that is measured: what `ReadingsInfo` has a row for."""

    kind: str
    width: int
    at: Spot = IN_WORLD
    seen_from: Spot | None = None
    item: int = -1
    numbers: tuple[float, ...] = ()
    words: tuple[str, ...] = ()
    about: tuple[str, ...] = ()
    positive: bool = False
    part: str = ""
    """What users call it, of a sensor that measures several things."""
    flaws: Sequence[Flaw] = ()
    """Of each of its numbers, or one for all."""


@dataclass(slots=True, eq=False)
class Place:
    """Where something is, and on which link."""

    spot: Spot
    body: Body | None
    """None for the world."""
    approximated: str = ""
    """In what it is not quite where its file has it."""

    @property
    def link(self) -> int:
        """The number of its link, -1 for the world."""
        return -1 if self.body is None else self.body.index


@dataclass(slots=True, eq=False)
class Looking:
    """A sensor, and where to find what it looks at."""

    draft: Draft
    entity: int
    sensor: Sensor
    actuators: ActuatorsInfo
    actuator_owners: list[int]
    directions: list[Array] = field(default_factory=list)
    """Of all rays so far, (n, 3) each."""

    @property
    def description(self) -> Robot | World:
        """What the sensor belongs to."""
        return self.draft.parts[self.entity].description

    def named(self, what: str, name: str) -> tuple[object, Robot | World] | None:
        """The frame, camera or link of that name, and whose it is."""
        whole = self.description
        owners = [whole, *(whole.robots if isinstance(whole, World) else [])]
        for owner in owners:
            for thing in getattr(owner, what, ()):
                if thing.name == name:
                    return thing, owner
        return None

    def body(self, name: str, owner: Robot | World | None = None) -> Body | None:
        """The link of that name."""
        own = [b for b in self.draft.bodies if b.entity == self.entity and name in (b.link.name, b.name)]
        return next((b for b in own if b.robot is owner), own[0] if own else None)

    def target(self) -> Place | None:
        """What the sensor looks at."""
        own = self.sensor
        return self.place(own.target_kind, own.target, str(own.settings.get(mjcf.OBJTYPE, "")))

    def reference(self) -> Place | None:
        """What it is seen from; None where nothing is named, or not found."""
        own = self.sensor
        return self.place(own.reference_kind, own.reference, str(own.settings.get(mjcf.REFTYPE, "")))

    def place(self, kind: str, name: str, objtype: str = "") -> Place | None:
        """Where something is: a link, a frame, a shape or a camera."""
        match kind:
            case "link":
                body = self.body(name)
                if body is None:
                    return Place(IN_WORLD, None) if name == "world" else None
                return _of_body(body, at_mass=objtype == mjcf.BODY)
            case "frame" | "camera":
                found = self.named(f"{kind}s", name)
                if found is None:
                    return None
                thing, owner = found
                assert isinstance(thing, Frame | Camera)
                return self._on(owner, thing.link, thing.pose)
            case "shape":
                return self._shape(name)
        return None

    def _on(self, owner: Robot | World, link: str | None, pose: Pose) -> Place | None:
        if link is None:
            return Place(Spot(-1, self._base(owner) @ pose), None)
        body = self.body(link, owner)
        return None if body is None else Place(Spot(body.frame, body.place @ pose), body)

    def _base(self, owner: Robot | World) -> Pose:
        part = self.draft.parts[self.entity]
        own = owner.pose if isinstance(owner, Robot) else Pose()
        if part.pose is None:
            return own
        return part.pose if isinstance(part.description, Robot) else part.pose @ own

    def _shape(self, name: str) -> Place | None:
        for owner, link, shape in self.shapes():
            if shape.name == name:
                place = self._on(owner, None if link is None else link.name, shape.pose)
                if place is not None and isinstance(shape.geometry, Mesh):
                    place.approximated = "the frame of a mesh is that of its file, not of its mass"
                return place
        return None

    def shapes(self) -> list[tuple[Robot | World, Link | None, Shape]]:
        """All shapes of what the sensor belongs to."""
        whole = self.description
        found: list[tuple[Robot | World, Link | None, Shape]] = []
        if isinstance(whole, World):
            found += [(whole, None, shape) for shape in whole.shapes]
        robots = whole.robots if isinstance(whole, World) else [whole]
        return found + [(robot, link, shape) for robot in robots for link in robot.links for shape in link.shapes]

    def tendon(self) -> object | None:
        """The tendon that it looks at."""
        return next((t for t in all_of(self.description, "tendons") if t.name == self.sensor.target), None)

    def links_of_tendons(self) -> list[set[int]]:
        """Of each spatial tendon the links that it goes along."""
        tendons = [t for t in all_of(self.description, "tendons") if not t.is_fixed]
        places = [[self.place("frame", item.target) for item in tendon.path] for tendon in tendons]
        return [{place.link for place in own if place is not None} for own in places]

    def actuator(self, name: str) -> int | None:
        """The number of an actuator."""
        named = (i for i, n in enumerate(self.actuators.names) if n == name and self.actuator_owners[i] == self.entity)
        return next(named, None)


def _of_body(body: Body, *, at_mass: bool) -> Place:
    """A link, or its centre of mass with the principal axes of its inertia."""
    if not at_mass:
        return Place(Spot(body.frame, body.place), body)
    inertial = body.link.inertial
    if inertial is None:
        return Place(Spot(body.frame, body.place), body)
    told = body.link.attributes.get(mjcf.key(mjcf.INERTIA_AXES))
    own = Pose.from_quaternion(inertial.center, told) if told else Pose(inertial.center, _axes(inertial.inertia))
    return Place(Spot(body.frame, body.place @ own), body)


def _axes(inertia: Array) -> Array:
    """Principal axes, the largest moment first, as MuJoCo sorts them."""
    values, axes = np.linalg.eigh(inertia)
    axes = axes[:, np.argsort(-values, kind="stable")]
    return axes if np.linalg.det(axes) > 0 else -axes
