"""Default classes: what all joints, or all geoms of a class, say alike is said once."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.foundation import unique_name
from kinema.words import mjcf

from ..text import Element
from .writing import Writing

MAIN = "main"
"""What MuJoCo calls the class of everything that has no other."""

_GEOM = (
    *("type", "contype", "conaffinity", "condim", "group", "priority", "friction", "solmix", "solref", "solimp"),
    *("margin", "gap", "material", "rgba", "density", "mass", "fluidshape", "fluidcoef", "shellinertia"),
)
_JOINT = (
    *("type", "axis", "pos", "range", "ref", "springref", "damping", "armature", "frictionloss", "stiffness"),
    *("actuatorfrcrange", "margin", "group", "solreflimit", "solimplimit", "solreffriction", "solimpfriction"),
)
_SITE = ("type", "size", "rgba", "material", "group")
_SHARED = {mjcf.GEOM: _GEOM, mjcf.JOINT: _JOINT, mjcf.SITE: _SITE}
"""Element -> attributes that a class may say for all its members."""
_OF_ALL_JOINTS = ("damping", "armature", "frictionloss", "stiffness", "solreflimit", "solimplimit", "margin")
"""What is said in the main class where every joint has it."""


@dataclass(slots=True, eq=False)
class _Class:
    members: dict[str, list[Element]] = field(default_factory=lambda: defaultdict(list))
    """Tag -> the elements of this class."""


def write_defaults(writing: Writing) -> None:
    """Move what members of a class share into the `<default>` section; bodies may name the class of what they hold."""
    world = writing.section(mjcf.WORLDBODY)
    classes: dict[str, _Class] = defaultdict(_Class)
    for element in _iterate(world):
        if element.tag in _SHARED:
            classes[element.attributes.get(mjcf.CLASS, "")].members[element.tag].append(element)
        elif mjcf.CHILDCLASS in element.attributes:
            _ = classes[element.attributes[mjcf.CHILDCLASS]]  # it exists, even if nothing is in it
    main = _main(classes)
    named = Element(mjcf.DEFAULT)
    for label, group in classes.items():
        if label and (section := _class_element(label, group)) is not None:
            named.children.append(section)
    kept = {child.attributes[mjcf.CLASS] for child in named.children if isinstance(child, Element)}
    _name_classes(world, kept)
    section = writing.section(mjcf.DEFAULT)
    section.children += [*main, *named.children, *_tendon_classes(writing, set(classes))]


def _tendon_classes(writing: Writing, taken: set[str]) -> Iterator[Element]:
    """The classes that only say what tendons look like."""
    for look, label in writing.tendon_classes.items():
        own = unique_name(label, taken)
        yield Element(mjcf.DEFAULT, {mjcf.CLASS: own}, [Element(mjcf.TENDON, dict(look))])
        for element in writing.section(mjcf.TENDON).children:
            if isinstance(element, Element) and element.attributes.get(mjcf.CLASS) == label:
                element.attributes[mjcf.CLASS] = own


def _iterate(world: Element) -> Iterator[Element]:
    stack = [world]
    while stack:
        element = stack.pop()
        yield element
        stack += [child for child in reversed(element.children) if isinstance(child, Element)]


def _main(classes: dict[str, _Class]) -> list[Element]:
    """What every joint of the file says alike."""
    joints = [e for group in classes.values() for e in group.members.get(mjcf.JOINT, ())]
    shared = _move(joints, _OF_ALL_JOINTS)
    return [Element(mjcf.JOINT, shared)] if shared else []


def _class_element(label: str, group: _Class) -> Element | None:
    """A class with what its members share; None for one that only we have made up and that says nothing."""
    section = Element(mjcf.DEFAULT, {mjcf.CLASS: label})
    for tag, elements in group.members.items():
        shared = _move(elements, _SHARED[tag])
        if shared:
            section.children.append(Element(tag, shared))
    return section


def _move(elements: list[Element], names: tuple[str, ...]) -> dict[str, str]:
    """Take attributes that are the same in all of several elements out of them."""
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


def _name_classes(world: Element, kept: set[str]) -> None:
    """Leave out the class where the body around says it, and say `main` where it does not hold."""
    stack = [(world, "")]
    while stack:
        holder, around = stack.pop()
        for child in holder.children:
            if not isinstance(child, Element):
                continue
            if child.tag == mjcf.BODY:
                own = child.attributes.get(mjcf.CHILDCLASS, "")
                inner = own if own in kept else around
                if own and inner == around:
                    del child.attributes[mjcf.CHILDCLASS]
                stack.append((child, inner))
            elif child.tag in _SHARED:
                _name_class(child, around, kept)


def _name_class(element: Element, around: str, kept: set[str]) -> None:
    label = element.attributes.pop(mjcf.CLASS, "")
    label = label if label in kept else ""
    if label != around:
        # first of all attributes, but for the name, which comes last of all steps
        element.attributes = {mjcf.CLASS: label or MAIN, **element.attributes}
