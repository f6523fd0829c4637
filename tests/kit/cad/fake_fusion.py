"""A stand-in for the API of Fusion 360 that behaves as the real one is known to behave, awkward corners included.

Lengths are centimetres. A component may stand in the assembly many times; what the API hands out for one place is a
proxy, made anew at each access, that compares equal to others of the same thing. Joints can be driven, and take the
parts that hang on them along. `FakeDesign.quirks` switches on behaviour that differs between versions and objects.
"""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.geometry import (
    MassProperties,
    MeshData,
    combine_mass_properties,
    inertia_from_second_moment,
    mesh_mass_properties,
    transform_mass_properties,
)

from .fake_joints import FakeJoint, JointData
from .fake_math import Collection, Matrix, Matrix3D, Point3D, VectorOf, inverse

Path = tuple[str, ...]
"""Names of occurrences from some component down; () is the component itself."""


# -- what the design is made of ---------------------------------------------------------------------------------------


@dataclass(eq=False)
class BodyData:
    name: str
    mesh: MeshData
    """In the component's frame [cm]."""
    density: float = 0.001
    """[kg/cm3]"""
    color: tuple[int, int, int, int] | None = (200, 100, 50, 255)
    visible: bool = True
    solid: bool = True

    def mass(self) -> MassProperties:
        """In kg, cm and kg cm2."""
        return mesh_mass_properties(self.mesh, self.density)


@dataclass(eq=False)
class OccurrenceData:
    name: str
    component: ComponentData
    pose: Matrix
    """In the component that holds it."""
    grounded: bool = False
    ground_to_parent: bool = False
    visible: bool = True
    rides: bool = False
    """Whether it moves with the component that holds it."""


@dataclass(eq=False)
class GroupData:
    name: str
    members: list[Path]
    suppressed: bool = False


@dataclass(eq=False)
class LinkData:
    name: str
    one: JointData
    motion_one: int
    value_one: float
    two: JointData | None
    motion_two: int
    value_two: float
    reversed: bool = False


@dataclass(eq=False)
class ComponentData:
    name: str
    id: str
    bodies: list[BodyData] = field(default_factory=list)
    occurrences: list[OccurrenceData] = field(default_factory=list)
    joints: list[JointData] = field(default_factory=list)
    groups: list[GroupData] = field(default_factory=list)
    links: list[LinkData] = field(default_factory=list)

    def add(self, component: ComponentData, pose: Matrix, **settings: Any) -> Path:
        """Place a component in this one; the path from here."""
        number = 1 + sum(o.component is component for o in self.occurrences)
        name = f"{component.name}:{number}"
        self.occurrences.append(OccurrenceData(name, component, np.array(pose, dtype=float), **settings))
        return (name,)

    def find(self, path: Path) -> OccurrenceData:
        """The occurrence at a path from here."""
        found = next(o for o in self.occurrences if o.name == path[0])
        return found if len(path) == 1 else found.component.find(path[1:])

    def pose_of(self, path: Path) -> Matrix:
        """Where an occurrence stands in this component, as built."""
        if not path:
            return np.eye(4)
        own = self.find(path[:1])
        return own.pose @ own.component.pose_of(path[1:])

    def group(self, name: str, *members: Path, **settings: Any) -> None:
        """Make a rigid group."""
        self.groups.append(GroupData(name, list(members), **settings))


class FakeDesign:
    """A design: `rootComponent` is what the API sees, `root` what tests build."""

    def __init__(self, name: str = "robot v1", *quirks: str) -> None:
        self.quirks = set(quirks)
        self._ids = itertools.count()
        self.root = self.component(name)
        self.positions: dict[Path, Matrix] = {}
        """Where each occurrence is now, in the root component: Fusion too moves all parts in the root's frame."""
        self.values: dict[tuple[int, Path], dict[str, float]] = {}
        """(id of a joint, where its component stands) -> the joint's values."""
        self.snapshots = FakeSnapshots(self)
        self.drives = 0
        """How often a joint was driven."""

    def component(self, name: str, *bodies: BodyData) -> ComponentData:
        """A new component."""
        return ComponentData(name, f"id{next(self._ids)}", list(bodies))

    # -- the API --------------------------------------------------------------------------------------------------

    @property
    def rootComponent(self) -> FakeComponent:
        return FakeComponent(self, self.root)

    # -- places ---------------------------------------------------------------------------------------------------

    def paths(self) -> list[Path]:
        """All occurrences, outer ones first."""
        found: list[Path] = []

        def visit(component: ComponentData, path: Path) -> None:
            for occurrence in component.occurrences:
                found.append((*path, occurrence.name))
                visit(occurrence.component, found[-1])

        visit(self.root, ())
        return found

    def contexts(self) -> list[tuple[Path, ComponentData]]:
        """Where components stand."""
        return [((), self.root)] + [(p, self.root.find(p).component) for p in self.paths()]

    def pose(self, path: Path) -> Matrix:
        """Where an occurrence is now."""
        if not path:
            return np.eye(4)
        if path not in self.positions:
            self.positions.update({p: self.root.pose_of(p) for p in self.paths() if p not in self.positions})
        return self.positions[path]

    # -- motion ---------------------------------------------------------------------------------------------------

    def values_of(self, joint: JointData, context: Path) -> dict[str, float]:
        """A joint's values at one place."""
        return self.values.setdefault((id(joint), context), dict(joint.values))

    def drive(self, joint: JointData, context: Path, motion: str, value: float) -> None:
        """Set one value; what hangs on the joint moves, and so do joints that are linked to it."""
        self.drives += 1
        if "stuck" in self.quirks:
            return
        if "frozen" in self.quirks:
            self.values_of(joint, context)[motion] = value
            return
        if "raises_when_driven" in self.quirks and self.drives > 2:
            raise RuntimeError("3 : the joint cannot be driven")
        change = value - self.values_of(joint, context)[motion]
        self._set(joint, context, motion, value)
        component = self.root if not context else self.root.find(context).component
        for link in component.links:
            for here, there, ratio in _ends(link):
                if here == (joint, motion):
                    start = self.values_of(there[0], context)[there[1]]
                    self._set(there[0], context, there[1], start + ratio * change)

    def _set(self, joint: JointData, context: Path, motion: str, value: float) -> None:
        one, two = (*context, *(joint.one or ())), (*context, *(joint.two or ()))
        values = self.values_of(joint, context)
        for path in self.paths():
            self.pose(path)
        values[motion] = value
        wanted = self.pose(two) @ joint.frame2 @ joint.motion(values) @ inverse(joint.frame1)
        moving = self._side(one, joint, context)
        step = wanted @ inverse(self.pose(one))
        if () in moving or (any(self._is_held(p) for p in moving) and two not in moving):
            # what is held stays, and the other side gives way
            moving = self._side(two, joint, context)
            step = inverse(step)
        if two in moving and one in moving:
            moving = {one}  # a loop: Fusion would solve it, this only moves the part itself
            step = wanted @ inverse(self.pose(one))
        for path in moving - {()}:
            self.positions[path] = step @ self.positions[path]
        self.snapshots.hasPendingSnapshot = True

    def _is_held(self, path: Path) -> bool:
        return path == () or self.root.find(path).grounded

    def _side(self, start: Path, without: JointData, context: Path) -> set[Path]:
        """Everything that holds together with a part when a joint is taken away."""
        neighbours: dict[Path, set[Path]] = {}

        def tie(a: Path, b: Path) -> None:
            neighbours.setdefault(a, set()).add(b)
            neighbours.setdefault(b, set()).add(a)

        for at, component in self.contexts():
            for joint in component.joints:
                if not joint.suppressed and not (joint is without and at == context):
                    tie((*at, *(joint.one or ())), (*at, *(joint.two or ())))
            for group in (g for g in component.groups if not g.suppressed):
                for a, b in itertools.pairwise(group.members):
                    tie((*at, *a), (*at, *b))
        for path in self.paths():
            if self.root.find(path).rides or self.root.find(path).ground_to_parent:
                tie(path[:-1], path)
        found, waiting = {start}, [start]
        while waiting:
            for other in neighbours.get(waiting.pop(), set()) - found:
                found.add(other)
                waiting.append(other)
        return found


def _ends(link: LinkData) -> list[tuple[tuple[JointData, str], tuple[JointData, str], float]]:
    names = ["pitch", "roll", "yaw", "rotation", "slide", "rotation", "slide", "rotation"]
    names += ["primary_slide", "secondary_slide", "rotation", "slide"]
    ratio = link.value_two / link.value_one * (-1 if link.reversed else 1)
    first = (link.one, names[link.motion_one])
    second = (link.two or link.one, names[link.motion_two])
    return [(first, second, ratio), (second, first, 1 / ratio)]


class FakeSnapshots:
    """Positions that the user has not captured yet."""

    def __init__(self, design: FakeDesign) -> None:
        self.design = design
        self.hasPendingSnapshot = False
        self.reverts = 0

    def revertPendingSnapshot(self) -> bool:
        self.reverts += 1
        self.hasPendingSnapshot = False
        return True


# -- what the API hands out -------------------------------------------------------------------------------------------


class Wrapper:
    """Compares equal to other wrappers of the same thing."""

    _key: tuple[Any, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Wrapper) and self._key == other._key

    def __hash__(self) -> int:
        return hash(self._key)


class FakeComponent(Wrapper):
    def __init__(self, design: FakeDesign, data: ComponentData) -> None:
        self._design, self._data = design, data
        self._key = ("component", data.id)
        self.name, self.id = data.name, data.id

    @property
    def allOccurrences(self) -> Collection:
        assert self._data is self._design.root, "the add-in asks the root component"
        return Collection([FakeOccurrence(self._design, p) for p in self._design.paths()])

    @property
    def bRepBodies(self) -> Collection:
        return Collection([FakeBody(self._design, self._data, b, None) for b in self._data.bodies])

    @property
    def meshBodies(self) -> Collection:
        return Collection([])

    def _joints(self, kind: str) -> Collection:
        return Collection([FakeJoint(self._design, j, None) for j in self._data.joints if j.kind == kind])

    @property
    def joints(self) -> Collection:
        return self._joints("joint")

    @property
    def asBuiltJoints(self) -> Collection:
        return self._joints("as_built")

    @property
    def rigidGroups(self) -> Collection:
        return Collection([FakeRigidGroup(self._design, self._data, g, None) for g in self._data.groups])

    @property
    def motionLinks(self) -> Collection:
        if "old_api" in self._design.quirks:
            raise AttributeError("motionLinks")
        return Collection([FakeMotionLink(self._design, link) for link in self._data.links])


class FakeOccurrence(Wrapper):
    """An occurrence seen from the root component, or (with `home`) from a component inside."""

    def __init__(self, design: FakeDesign, path: Path, home: Path = ()) -> None:
        self._design, self._path, self._home = design, path, home
        self._key = ("occurrence", path, home)
        self._data = design.root.find(path)
        self.name = self._data.name
        self.fullPathName = "+".join(path[len(home) :])
        self.isGrounded = self._data.grounded
        self.isLightBulbOn = self._data.visible
        if "old_api" not in design.quirks:
            self.isGroundToParent = self._data.ground_to_parent

    @property
    def component(self) -> FakeComponent:
        return FakeComponent(self._design, self._data.component)

    @property
    def transform(self) -> Matrix3D:
        return Matrix3D(self._data.pose)  # wrong for nested occurrences, as in Fusion

    @property
    def transform2(self) -> Matrix3D:
        return Matrix3D(inverse(self._design.pose(self._home)) @ self._design.pose(self._path))

    @property
    def assemblyContext(self) -> FakeOccurrence | None:
        return FakeOccurrence(self._design, self._path[:-1]) if len(self._path) > 1 else None

    @property
    def childOccurrences(self) -> Collection:
        return Collection(
            [FakeOccurrence(self._design, (*self._path, o.name)) for o in self._data.component.occurrences]
        )

    @property
    def bRepBodies(self) -> Collection:
        component = self._data.component
        return Collection([FakeBody(self._design, component, b, self._path) for b in component.bodies])

    def getPhysicalProperties(self, accuracy: int = 0) -> FakePhysicalProperties:
        """Of its bodies and those of all occurrences nested in it, in the root component's frame."""
        parts = [b._mass() for b in self._all_bodies()]
        return FakePhysicalProperties(combine_mass_properties(parts), accuracy, self._design.quirks)

    def _all_bodies(self) -> list[FakeBody]:
        bodies: list[FakeBody] = [self.bRepBodies.item(i) for i in range(self.bRepBodies.count)]
        for i in range(self.childOccurrences.count):
            bodies += self.childOccurrences.item(i)._all_bodies()
        return bodies


class FakePhysicalProperties:
    def __init__(self, mass: MassProperties, accuracy: int, quirks: set[str]) -> None:
        self._mass = mass
        self.mass = mass.mass
        self.centerOfMass = Point3D(mass.center)
        self.accuracy = accuracy
        self._sign = -1 if "product_sign" in quirks else 1

    def getXYZMomentsOfInertia(self) -> tuple[bool, float, float, float, float, float, float]:
        """About the origin; the order is xx, yy, zz, xy, yz, xz."""
        shift = inertia_from_second_moment(self._mass.mass * np.outer(self._mass.center, self._mass.center))
        i = (self._mass.inertia + shift).tolist()
        s = self._sign
        return True, i[0][0], i[1][1], i[2][2], s * i[0][1], s * i[1][2], s * i[0][2]

    def getPrincipalMomentsOfInertia(self) -> tuple[bool, float, float, float]:
        a, b, c = np.linalg.eigvalsh(self._mass.inertia).tolist()
        return True, b, c, a  # in no particular order


class FakeBody(Wrapper):
    """A body in its component (`path` is None), or a proxy of it at one place."""

    def __init__(self, design: FakeDesign, component: ComponentData, data: BodyData, path: Path | None) -> None:
        self._design, self._component, self._data, self._path = design, component, data, path
        self._key = ("body", id(data), path)
        self.name, self.isLightBulbOn, self.isSolid = data.name, data.visible, data.solid

    @property
    def nativeObject(self) -> FakeBody | None:
        return None if self._path is None else FakeBody(self._design, self._component, self._data, None)

    @property
    def material(self) -> Any:
        return type("Material", (), {"name": "Steel"})()

    @property
    def appearance(self) -> Any:
        return FakeAppearance(self._data.color)

    @property
    def meshManager(self) -> Any:
        return self

    def createMeshCalculator(self) -> Any:
        return FakeCalculator(self._data.mesh, self._frame())

    def _frame(self) -> Matrix:
        return np.eye(4) if self._path is None else self._design.pose(self._path)

    def _mass(self) -> MassProperties:
        return transform_mass_properties(self._data.mass(), self._frame()[:3, :3], self._frame()[:3, 3])

    def getPhysicalProperties(self, accuracy: int = 0) -> FakePhysicalProperties:
        return FakePhysicalProperties(self._mass(), accuracy, self._design.quirks)


class FakeCalculator:
    def __init__(self, mesh: MeshData, frame: Matrix) -> None:
        self._mesh, self._frame = mesh, frame
        self._quality: int | None = None

    def setQuality(self, quality: int) -> bool:
        assert quality in (8, 11, 13, 15)
        self._quality = quality
        return True

    def calculate(self) -> Any:
        assert self._quality is not None
        placed = self._mesh.vertices @ self._frame[:3, :3].T + self._frame[:3, 3]
        return FakeMesh(placed.ravel().tolist(), self._mesh.faces.ravel().tolist())


class FakeMesh:
    def __init__(self, coordinates: list[float], indices: list[int]) -> None:
        self.nodeCoordinatesAsDouble = VectorOf(coordinates)
        self.nodeIndices = VectorOf(indices)


class FakeAppearance:
    """Holds a plain colour among other properties, or a texture."""

    def __init__(self, color: tuple[int, int, int, int] | None) -> None:
        names = ("red", "green", "blue", "opacity")
        plain = None if color is None else type("Color", (), dict(zip(names, color, strict=True)))()
        other = type("Color", (), dict.fromkeys(names, 7))()
        entry = {"objectType": "adsk::core::ColorProperty"}
        self.appearanceProperties = Collection(
            [
                type("Float", (), {"objectType": "adsk::core::FloatProperty", "id": "roughness", "value": 0.5})(),
                type("Tint", (), {**entry, "id": "common_Tint", "value": other if color is not None else None})(),
                type("Main", (), {**entry, "id": "opaque_albedo", "value": plain})(),
            ]
        )


class FakeRigidGroup(Wrapper):
    def __init__(self, design: FakeDesign, component: ComponentData, data: GroupData, context: Path | None) -> None:
        self._design, self._component, self._data, self._context = design, component, data, context
        self._key = ("group", id(data), context)
        self.name = data.name

    @property
    def isSuppressed(self) -> bool:
        if not self._data.suppressed:
            raise RuntimeError("3 : InternalValidationError")
        return True

    @property
    def occurrences(self) -> Collection:
        home = home_of(self._design, self._component)
        context = home if self._context is None else self._context
        native = self._context is None or "native_paths" in self._design.quirks
        return Collection(
            [FakeOccurrence(self._design, (*context, *m), context if native else ()) for m in self._data.members]
        )

    def createForAssemblyContext(self, occurrence: FakeOccurrence) -> FakeRigidGroup:
        return FakeRigidGroup(self._design, self._component, self._data, occurrence._path)


class FakeMotionLink(Wrapper):
    def __init__(self, design: FakeDesign, data: LinkData) -> None:
        self._design, self._data = design, data
        self._key = ("link", id(data))
        self.name = data.name
        self.motionOne, self.motionTwo = data.motion_one, data.motion_two
        self.isReversed = data.reversed
        self.valueOne = type("Parameter", (), {"value": data.value_one})()
        self.valueTwo = type("Parameter", (), {"value": data.value_two})()

    @property
    def jointOne(self) -> Any:
        return FakeJoint(self._design, self._data.one, None)

    @property
    def jointTwo(self) -> Any:
        return None if self._data.two is None else FakeJoint(self._design, self._data.two, None)


def home_of(design: FakeDesign, component: ComponentData) -> Path:
    """The first place where a component stands."""
    return next(path for path, data in design.contexts() if data is component)


def box_body(name: str, size: Sequence[float], at: Matrix, **settings: Any) -> BodyData:
    """A box [cm] placed in its component."""
    from kinema.geometry import box

    mesh = box(size)
    placed = mesh.vertices @ at[:3, :3].T + at[:3, 3]
    return BodyData(name, MeshData(placed, mesh.faces), **settings)
