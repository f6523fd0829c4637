"""Free bodies that differ by name and pose only: MuJoCo compiles two of each kind, and the others are copies of them.

The time of MuJoCo's compiler grows with the square of the number of bodies (1,000 boxes: 0.3 s, 10,000: half a minute),
and most of the time of the conversion is spent on the bodies.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Callable, Hashable, Mapping, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from typing import Any

import numpy as np

from kinema.core import Diagnostics, Origin, XmlElement
from kinema.description import JointKind, Node, Robot
from kinema.tokens import mjcf

from ..cursor import parse_float
from .documents import ModelDocument
from .placements import normalize

MIN_REPEATED_BODIES = 16
"""Number of bodies from which on copies are made."""
N_COMPILED = 2
"""Bodies of each kind that MuJoCo compiles; two, so that the result is always a world."""

_PLAIN_WORLD_TAGS = frozenset({mjcf.BODY, mjcf.GEOM, mjcf.SITE, mjcf.CAMERA, mjcf.LIGHT})
_PLAIN_BODY_TAGS = frozenset({mjcf.FREEJOINT, mjcf.JOINT, mjcf.GEOM, "inertial"})
_ORIENTATIONS = frozenset({"axisangle", "xyaxes", "zaxis", "euler"})
_GLOBAL_SETTINGS = ("fusestatic", "settotalmass", "discardvisual")
"""Settings of the compiler with which bodies are not independent of each other."""


@dataclass(frozen=True, slots=True, eq=False)
class RepeatedBody:
    """A free body that is not compiled, but copied."""

    element: XmlElement
    original: XmlElement
    """Compiled body that differs by name and pose only."""
    coordinates: tuple[float, ...]
    """Position and unit quaternion in the world, (7,)."""


@dataclass(slots=True, eq=False)
class RepeatedBodies:
    """Bodies on the world of a model, and those among them that are copied."""

    bodies: list[XmlElement]
    """All bodies on the world, in file order."""
    copies: dict[int, RepeatedBody]
    """Copied bodies by `id` of the element."""
    origins: set[Origin] = field(default_factory=set)
    """Origins of the elements of compiled bodies of which there are copies."""


class NotRepeatableError(Exception):
    """The bodies of a model cannot be copied: it has to be compiled as a whole."""


# --------------------------------------------------------------------------------------------------------- search


def find_repeated_bodies(document: ModelDocument) -> RepeatedBodies | None:
    """Free bodies of a model that differ by name and pose only; None if there are few, or the model depends on all.

    Bodies to which other elements refer by name are compiled.
    """
    root = document.root
    if document.attached_models or any(key.find(mjcf.KEY) for key in root.find_all(mjcf.KEYFRAME)):
        return None
    if any(name in compiler.attributes for compiler in root.find_all(mjcf.COMPILER) for name in _GLOBAL_SETTINGS):
        return None
    children = [child for world in root.find_all(mjcf.WORLDBODY) for child in world.children]
    if not all(child.tag in _PLAIN_WORLD_TAGS for child in children):
        return None
    bodies = [child for child in children if child.tag == mjcf.BODY]
    coordinates = {id(body): values for body in bodies if (values := _free_body_coordinates(body)) is not None}
    if len(coordinates) < MIN_REPEATED_BODIES:
        return None
    names = _names_in_use(root, coordinates)
    by_kind: dict[Hashable, list[XmlElement]] = {}
    for body in bodies:
        if id(body) in coordinates and not any(names[x] > 1 for x in _names_of_body(body)):
            by_kind.setdefault(_kind_of_body(body), []).append(body)
    result = RepeatedBodies(bodies, {})
    for members in by_kind.values():
        for body in members[N_COMPILED:]:
            result.copies[id(body)] = RepeatedBody(body, members[0], coordinates[id(body)])
        if len(members) > N_COMPILED:
            result.origins |= {element.origin for body in members[:N_COMPILED] for element in body.iterate()}
    return result if len(result.copies) >= MIN_REPEATED_BODIES else None


def _names_in_use(root: XmlElement, free_bodies: Mapping[int, object]) -> Counter[str]:
    """Number of uses of each name: as name of a free body or its elements, or as a word in any attribute elsewhere."""
    names: Counter[str] = Counter()
    stack = [root]
    while stack:
        element = stack.pop()
        if id(element) in free_bodies:
            names.update(_names_of_body(element))
            continue
        for text in element.attributes.values():
            names.update({text, *text.split()})
        stack += element.children
    return names


def _names_of_body(body: XmlElement) -> list[str]:
    return [name for element in (body, *body.children) if (name := element.attributes.get("name"))]


def _free_body_coordinates(body: XmlElement) -> tuple[float, ...] | None:
    """Coordinates of the free joint of a body with geoms only; None for other bodies."""
    if any(child.tag not in _PLAIN_BODY_TAGS or child.children for child in body.children):
        return None
    joints = [child for child in body.children if child.tag in (mjcf.FREEJOINT, mjcf.JOINT)]
    if len(joints) != 1 or (joints[0].tag == mjcf.JOINT and joints[0].attributes.get("type") != "free"):
        return None
    attributes = body.attributes
    if not _ORIENTATIONS.isdisjoint(attributes) or attributes.get("mocap", "false") != "false":
        return None
    position, quaternion = (
        _numbers(attributes.get(name, default)) for name, default in (("pos", "0 0 0"), ("quat", "1 0 0 0"))
    )
    if len(position) != 3 or len(quaternion) != 4 or not any(quaternion):
        return None
    return (*position, *normalize(quaternion))


def _numbers(text: str) -> list[float]:
    """Finite numbers of an attribute; empty if there is anything else."""
    numbers = [parse_float(word) for word in text.split()]
    return [x for x in numbers if x is not None] if all(x is not None and math.isfinite(x) for x in numbers) else []


def _kind_of_body(body: XmlElement) -> Hashable:
    """All that the file says about a body, but for names and the pose of the body."""
    own = tuple(item for item in body.attributes.items() if item[0] not in ("name", "pos", "quat"))
    return own, tuple(
        (child.tag, tuple(item for item in child.attributes.items() if item[0] != "name")) for child in body.children
    )


# --------------------------------------------------------------------------------------------------------- numbering


@dataclass(frozen=True, slots=True)
class NumberedObject:
    """An object of the whole model."""

    given: str
    """Name in the file; empty for none."""
    body: int
    """Number of its body in the whole model; of a body itself its own number."""
    compiled: int
    """Index in the compiled model; -1 for an object of a copied body."""
    element: int = 0
    """`id` of the element of an object of a copied body."""


_TAGS_OF_KIND = {mjcf.JOINT: (mjcf.JOINT, mjcf.FREEJOINT), mjcf.GEOM: (mjcf.GEOM,)}


def _elements_of_kind(body: XmlElement, kind: str) -> list[XmlElement]:
    """Elements of a copied body that are objects of a kind."""
    tags = _TAGS_OF_KIND.get(kind, ())
    return [body] if kind == mjcf.BODY else [child for child in body.children if child.tag in tags]


# ------------------------------------------------------------------------------------------------------------ copies


class BodyCopies:
    """Numbers and names of the objects of a whole model of which some bodies are copied.

    Args:
        repeated: the copied bodies.
        model: model compiled without them.
    """

    def __init__(self, repeated: RepeatedBodies, model: Any) -> None:
        self.repeated = repeated
        self.body_numbers = [0] * model.nbody
        """Number of each compiled body in the whole model."""
        self.numbers: dict[int, int] = {}
        """Number of each copied body in the whole model, by `id` of its element."""
        self.names: dict[int, tuple[str, bool]] = {}
        """Name of each object of a copied body, and whether it is generated, by `id` of its element."""
        self._copiers: dict[int, Callable[[], Any]] = {}
        """Function that copies each original robot, by its `id`."""
        parents = model.body_parentid.tolist()
        first = [body for body in range(1, model.nbody) if parents[body] == 0]
        if len(first) + len(repeated.copies) != len(repeated.bodies):
            raise NotRepeatableError
        compiled, number = zip(first, [*first[1:], model.nbody], strict=True), 1
        for element in repeated.bodies:
            if id(element) in repeated.copies:
                self.numbers[id(element)] = number
                number += 1
                continue
            for body in range(*next(compiled)):
                self.body_numbers[body] = number
                number += 1

    def objects(self, kind: str, given: Sequence[str], bodies: Sequence[int]) -> list[NumberedObject]:
        """Objects of a kind in the whole model, in the order of MuJoCo.

        Args:
            kind: the kind.
            given: names in the compiled model, empty for none.
            bodies: body of each of these objects in the compiled model.
        """
        result = [NumberedObject(name, self.body_numbers[bodies[i]], i) for i, name in enumerate(given)]
        for key, copy in self.repeated.copies.items():
            for element in _elements_of_kind(copy.element, kind):
                name = element.attributes.get("name", "")
                result.append(NumberedObject(name, self.numbers[key], -1, id(element)))
        return sorted(result, key=lambda item: item.body)

    def add_robots(
        self, robots: Sequence[Robot], bodies: Sequence[Sequence[int]], elements: Sequence[XmlElement | None]
    ) -> list[Robot]:
        """Robots of the whole model: those of the compiled bodies, and copies, in file order.

        Args:
            robots: robots of the compiled model.
            bodies: bodies of each of them in the compiled model.
            elements: element of the first body of each.
        """
        listed = [body for members in bodies for body in members]
        if listed != sorted(listed):  # the descriptions contain numbers of bodies
            raise NotRepeatableError
        robot_of = {id(element): robot for element, robot in zip(elements, robots, strict=True)}
        numbered = [(self.body_numbers[members[0]], robot) for members, robot in zip(bodies, robots, strict=True)]
        for key, copy in self.repeated.copies.items():
            robot = robot_of.get(id(copy.original))
            if robot is None or len(robot.links) != 1 or len(robot.joints) != 1:
                raise NotRepeatableError
            numbered.append((self.numbers[key], self._copy_robot(robot, copy)))
        return [robot for _, robot in sorted(numbered, key=lambda item: item[0])]

    def _copy_robot(self, original: Robot, copy: RepeatedBody) -> Robot:
        """Robot of a copied body."""
        if id(original) not in self._copiers:
            copier = description_copier(original)
            assert copier is not None
            self._copiers[id(original)] = copier
        result: Robot = self._copiers[id(original)]()
        (link,), (joint,) = result.links, result.joints
        self._rename(link, copy.element)
        self._rename(joint, *_elements_of_kind(copy.element, mjcf.JOINT))
        geoms = _elements_of_kind(copy.element, mjcf.GEOM)
        if len(geoms) != len(link.shapes) or joint.kind is not JointKind.FREE:
            raise NotRepeatableError
        for shape, element in zip(link.shapes, geoms, strict=True):
            self._rename(shape, element)
        result.name, result.name_is_generated, result.origin = link.name, link.name_is_generated, link.origin
        joint.child, joint.initial = link.name, np.array(copy.coordinates)
        return result

    def _rename(self, node: Node, element: XmlElement) -> None:
        node.name, node.name_is_generated = self.names[id(element)]
        node.origin = element.origin


def description_copier(value: Any) -> Callable[[], Any] | None:
    """Function that makes a copy of elements of a description, which shares their immutable values; None for these.

    The elements are examined once for all copies. They must not change between these.
    """
    if isinstance(value, np.ndarray):
        return value.copy
    if isinstance(value, list):
        return _sequence_copier(value)
    if isinstance(value, dict):
        keys, copy_values = list(value), _sequence_copier(list(value.values()))
        return lambda: dict(zip(keys, copy_values(), strict=True))
    kind = type(value)
    names = _mutable_fields(kind)
    if names is None:
        return None
    shared: list[tuple[str, Any]] = []
    copied: list[tuple[str, Callable[[], Any]]] = []
    for name in names:
        item = getattr(value, name)
        copier = description_copier(item)
        if copier is None:
            shared.append((name, item))
        else:
            copied.append((name, copier))

    def copy() -> Any:
        result = kind.__new__(kind)
        for name, item in shared:
            setattr(result, name, item)
        for name, make in copied:
            setattr(result, name, make())
        return result

    return copy


def _sequence_copier(values: list[Any]) -> Callable[[], list[Any]]:
    """Function that makes a list of copies of values, which shares the immutable ones."""
    copiers = [description_copier(item) for item in values]
    if not any(copiers):
        return values.copy
    pairs = list(zip(copiers, values, strict=True))
    return lambda: [item if make is None else make() for make, item in pairs]


@cache
def _mutable_fields(kind: Any) -> tuple[str, ...] | None:
    """Names of the fields of a dataclass that is not frozen; None for other types."""
    if not is_dataclass(kind) or kind is Diagnostics or kind.__dataclass_params__.frozen:
        return None
    return tuple(f.name for f in fields(kind))
