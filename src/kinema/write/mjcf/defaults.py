"""Default classes: attributes shared by all elements of a class are written once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.core import unique_name
from kinema.tokens import mjcf

from ..xml_document import Element
from .context import MjcfContext

MAIN_CLASS = "main"
"""MuJoCo's name of the default class of elements without class."""

_GEOM_ATTRIBUTES = (
    *("type", "contype", "conaffinity", "condim", "group", "priority", "friction", "solmix", "solref", "solimp"),
    *("margin", "gap", "material", "rgba", "density", "mass", "fluidshape", "fluidcoef", "shellinertia"),
)
_JOINT_ATTRIBUTES = (
    *("type", "axis", "pos", "range", "ref", "springref", "damping", "armature", "frictionloss", "stiffness"),
    *("actuatorfrcrange", "margin", "group", "solreflimit", "solimplimit", "solreffriction", "solimpfriction"),
)
_SITE_ATTRIBUTES = ("type", "size", "rgba", "material", "group")
_SHAREABLE_ATTRIBUTES = {mjcf.GEOM: _GEOM_ATTRIBUTES, mjcf.JOINT: _JOINT_ATTRIBUTES, mjcf.SITE: _SITE_ATTRIBUTES}
"""Tag -> attributes that a default class may set."""
_MAIN_CLASS_JOINT_ATTRIBUTES = (
    "damping",
    "armature",
    "frictionloss",
    "stiffness",
    "solreflimit",
    "solimplimit",
    "margin",
)
"""Joint attributes that the main class sets if all joints share them."""


@dataclass(slots=True, eq=False)
class _DefaultClass:
    """Members of one default class."""

    members: dict[str, list[Element]] = field(default_factory=lambda: defaultdict(list))
    """Tag -> elements of the class."""


def write_defaults(ctx: MjcfContext) -> None:
    """Move attributes shared by all members of a class to the `<default>` section, and assign classes to elements."""
    world = ctx.section(mjcf.WORLDBODY)
    classes: dict[str, _DefaultClass] = defaultdict(_DefaultClass)
    for element in _iterate_elements(world):
        if element.tag in _SHAREABLE_ATTRIBUTES:
            classes[element.attributes.get(mjcf.CLASS, "")].members[element.tag].append(element)
        elif mjcf.CHILDCLASS in element.attributes:
            _ = classes[element.attributes[mjcf.CHILDCLASS]]  # it exists, even if nothing is in it
    main = _main_class_elements(classes)
    named = Element(mjcf.DEFAULT)
    for label, group in classes.items():
        if label and (section := _class_element(label, group)) is not None:
            named.children.append(section)
    kept = {child.attributes[mjcf.CLASS] for child in named.children if isinstance(child, Element)}
    _assign_classes(world, kept)
    section = ctx.section(mjcf.DEFAULT)
    section.children += [*main, *named.children, *_tendon_class_elements(ctx, set(classes))]


def _tendon_class_elements(ctx: MjcfContext, taken: set[str]) -> Iterator[Element]:
    """Default classes that set width and colour of fixed tendons; renames the tendons' classes if taken."""
    for look, label in ctx.tendon_classes.items():
        own = unique_name(label, taken)
        yield Element(mjcf.DEFAULT, {mjcf.CLASS: own}, [Element(mjcf.TENDON, dict(look))])
        for element in ctx.section(mjcf.TENDON).children:
            if isinstance(element, Element) and element.attributes.get(mjcf.CLASS) == label:
                element.attributes[mjcf.CLASS] = own


def _iterate_elements(world: Element) -> Iterator[Element]:
    stack = [world]
    while stack:
        element = stack.pop()
        yield element
        stack += [child for child in reversed(element.children) if isinstance(child, Element)]


def _main_class_elements(classes: dict[str, _DefaultClass]) -> list[Element]:
    """Elements of the main class: joint attributes shared by all joints."""
    joints = [e for group in classes.values() for e in group.members.get(mjcf.JOINT, ())]
    shared = _extract_shared_attributes(joints, _MAIN_CLASS_JOINT_ATTRIBUTES)
    return [Element(mjcf.JOINT, shared)] if shared else []


def _class_element(label: str, group: _DefaultClass) -> Element | None:
    """Default element of a class with the attributes shared by its members."""
    section = Element(mjcf.DEFAULT, {mjcf.CLASS: label})
    for tag, elements in group.members.items():
        shared = _extract_shared_attributes(elements, _SHAREABLE_ATTRIBUTES[tag])
        if shared:
            section.children.append(Element(tag, shared))
    return section


def _extract_shared_attributes(elements: list[Element], names: tuple[str, ...]) -> dict[str, str]:
    """Remove attributes with equal values in all (at least two) elements and return them."""
    if len(elements) < 2:
        return {}
    first = elements[0].attributes
    shared = {
        name: first[name]
        for name in names
        if name in first and all(e.attributes.get(name) == first[name] for e in elements)
    }
    for element in elements:
        for name in shared:
            del element.attributes[name]
    return shared


def _assign_classes(world: Element, defined_classes: set[str]) -> None:
    """Omit class attributes that a body's `childclass` implies, and set `main` where it does not apply."""
    stack = [(world, "")]
    while stack:
        holder, around = stack.pop()
        for child in holder.children:
            if not isinstance(child, Element):
                continue
            if child.tag == mjcf.BODY:
                own = child.attributes.get(mjcf.CHILDCLASS, "")
                inner = own if own in defined_classes else around
                if own and inner == around:
                    del child.attributes[mjcf.CHILDCLASS]
                stack.append((child, inner))
            elif child.tag in _SHAREABLE_ATTRIBUTES:
                _assign_class(child, around, defined_classes)


def _assign_class(element: Element, inherited_class: str, defined_classes: set[str]) -> None:
    label = element.attributes.pop(mjcf.CLASS, "")
    label = label if label in defined_classes else ""
    if label != inherited_class:
        # first of all attributes, but for the name, which comes last of all steps
        element.attributes = {mjcf.CLASS: label or MAIN_CLASS, **element.attributes}
