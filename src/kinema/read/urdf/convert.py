"""What a URDF file means, in the terms of the description."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field

from kinema.description import (
    Approximation,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    Geometry,
    Joint,
    Link,
    Mesh,
    Node,
    Robot,
    Shape,
    Sphere,
)
from kinema.foundation import Diagnostics, Origin
from kinema.read.resolve import warn_of_stand_in
from kinema.words import urdf

from .context import extra_of
from .elements import (
    BoxElement,
    CapsuleElement,
    CylinderElement,
    EllipsoidElement,
    GeometryElement,
    JointElement,
    LinkElement,
    MeshElement,
    RobotElement,
    ShapeElement,
    SphereElement,
)
from .joints import JointConverter
from .materials import Materials
from .placement import inertial_of, pose_of
from .references import References


def convert_robot(element: RobotElement, references: References, diagnostics: Diagnostics, fallback: str) -> Robot:
    """The description of a robot; `fallback` is its name where the file gives none."""
    return _Converter(element, references, diagnostics).convert(fallback)


@dataclass(slots=True, eq=False)
class _Converter:
    element: RobotElement
    references: References
    diagnostics: Diagnostics
    materials: Materials = field(init=False)
    robot: Robot = field(init=False)

    def __post_init__(self) -> None:
        self.materials = Materials(self.diagnostics, self.references)

    def convert(self, fallback: str) -> Robot:
        element = self.element
        self.robot = Robot(
            name=element.name or fallback,
            name_is_generated=not element.name,
            origin=element.place,
            extras=list(element.extras),
            format=urdf.FORMAT,
            diagnostics=self.diagnostics,
        )
        if element.version is not None:
            self.robot.attributes[urdf.VERSION] = element.version
        self.materials.define(element.materials, element.links)
        self._links()
        self._joints()
        self._keep_unused_materials()
        self._keep_referring()
        if not self.robot.links:
            self.diagnostics.error(f"{urdf.FORMAT}.no-links", "the robot has no links", origin=element.place)
        return self.robot

    # -- links ----------------------------------------------------------------------------------------------------

    def _links(self) -> None:
        names = _Names("link", self.element.links)
        first: dict[str, Origin] = {}
        for element in self.element.links:
            if element.name in first:
                # joints mean the first link of that name: a second one would hang in the air
                self._duplicate("link", element.name, element.place, first[element.name], "is left out")
                self.robot.extras.append(extra_of(element.source))
                continue
            link = self._link(element)
            link.name_is_generated = not element.name
            link.name = element.name or names.unused()
            if element.name:
                first[element.name] = element.place
            self.robot.links.append(link)

    def _link(self, element: LinkElement) -> Link:
        link = Link(name=element.name, origin=element.place, extras=list(element.extras))
        if element.inertial is not None:
            link.inertial = inertial_of(element.inertial)
        for shape in element.shapes:
            geometry = None if shape.geometry is None else self._geometry(shape.geometry, element.name, shape.is_visual)
            if geometry is None:
                link.extras.append(extra_of(shape.source))
            else:
                link.shapes.append(self._shape(shape, geometry))
        return link

    def _shape(self, element: ShapeElement, geometry: Geometry) -> Shape:
        return Shape(
            name=element.name,
            origin=element.place,
            extras=list(element.extras),
            geometry=geometry,
            pose=pose_of(element.placement),
            visual=element.is_visual,
            collision=not element.is_visual,
            material=None if element.material is None else self.materials.of(element.material),
        )

    def _geometry(self, element: GeometryElement, link: str, is_visual: bool) -> Geometry:
        match element:
            case BoxElement():
                return Box(element.size)
            case SphereElement():
                return Sphere(element.radius)
            case CylinderElement():
                return Cylinder(element.radius, element.length)
            case CapsuleElement():
                return Capsule(element.radius, element.length)
            case EllipsoidElement():
                return Ellipsoid(element.radii)
            case MeshElement():
                return self._mesh(element, link, is_visual)

    def _mesh(self, element: MeshElement, link: str, is_visual: bool) -> Mesh:
        found = self.references.find(element.filename)
        if not found:
            use, report = ("visual", self.diagnostics.warning) if is_visual else ("collision", self.diagnostics.error)
            message = f'link "{link}": the {use} mesh {element.filename!r} was not found: {found.reason}'
            hint = "" if "://" not in element.filename else "give the folder of the package as a search path"
            report(f"{urdf.FORMAT}.missing-mesh", message, hint=hint, origin=element.place)
        warn_of_stand_in(found, self.diagnostics, urdf.FORMAT, element.place)
        return Mesh(
            uri=element.filename,
            path=str(found.path or ""),
            scale=element.scale,
            approximation=Approximation.CONVEX_HULL if element.convex else None,
        )

    # -- joints ---------------------------------------------------------------------------------------------------

    def _joints(self) -> None:
        converter = JointConverter(self.diagnostics, self.element.has_12_limits)
        names = _Names("joint", self.element.joints)
        first: dict[str, Origin] = {}
        for element in self.element.joints:
            if not element.parent or not element.child:  # reported when they were not found
                self.robot.extras.append(extra_of(element.source))
                continue
            joint = converter.convert(element)
            if not element.name:
                joint.name, joint.name_is_generated = names.unused(), True
            elif element.name in first:
                # it may hold a link that would be lost without it
                joint.name = names.unused(element.name)
                self._duplicate("joint", element.name, element.place, first[element.name], f'is called "{joint.name}"')
            else:
                first[element.name] = element.place
            self.robot.joints.append(joint)

    def _duplicate(self, what: str, name: str, place: Origin, first: Origin, consequence: str) -> None:
        message = f'{what} "{name}" is defined again after line {first.line}; this one {consequence}'
        self.diagnostics.error(f"{urdf.FORMAT}.duplicate-name", message, origin=place)

    # -- the rest -------------------------------------------------------------------------------------------------

    def _keep_unused_materials(self) -> None:
        for element in self.element.materials:
            if element.name not in self.materials.used:
                self.robot.extras.append(extra_of(element.source))
            else:
                self.materials.named[element.name][1].extras += element.extras

    def _keep_referring(self) -> None:
        owners: dict[str, Link | Joint] = {}
        owners.update((joint.name, joint) for joint in self.robot.joints)
        owners.update((link.name, link) for link in self.robot.links)
        for element in self.element.referring:
            owner: Node | None = self.robot
            if element.reference:
                owner = owners.get(element.reference)
                if owner is None:
                    message = f'<gazebo> refers to "{element.reference}", which is neither a link nor a joint'
                    self.diagnostics.warning(f"{urdf.FORMAT}.unknown-reference", message, origin=element.place)
                    owner = self.robot
            owner.extras.append(element.content)


class _Names:
    """Names that the file does not use; searching for them takes no longer when there are many."""

    def __init__(self, what: str, elements: Sequence[LinkElement] | Sequence[JointElement]) -> None:
        self.what = what
        self.taken = {e.name for e in elements}
        self.count: Counter[str] = Counter()

    def unused(self, wanted: str = "") -> str:
        """The wanted name, or what the thing is, with the first number that makes it new."""
        stem = wanted or self.what
        while True:
            self.count[stem] += 1
            name = f"{stem}_{self.count[stem]}"
            if name not in self.taken:
                self.taken.add(name)
                return name
