"""How trees of bodies sleep; MuJoCo refuses a file where one may that a springy tendon ties to another."""

from __future__ import annotations

from collections.abc import Iterator

from kinema.description import Link
from kinema.words import mjcf

from ..text import Element
from .bodies import all_bodies
from .body_plan import BodyPlan
from .writing import Writing

NEVER = "never"
Named = tuple[str, str]
"""The element and the name of something that a tendon's path may speak of."""


def sleep_of(writing: Writing, body: BodyPlan, link: Link) -> str | None:
    """How a body sleeps, as MuJoCo says it; what it would refuse is dropped."""
    sleep = writing.take(link, mjcf.SLEEP, "") or ("init" if link.starts_asleep else "")
    if sleep and not (body.parts and (body.parent is None or body.parent.weld is None)):
        writing.drop(link, "how it sleeps", "MuJoCo asks that of the first moving body of a tree only")
        return None
    return sleep or None


def keep_tied_trees_awake(writing: Writing) -> None:
    """Drop the sleep of trees that springs or dampers in tendons tie to others; all names have to be in the file."""
    sleeping = [b for b in all_bodies(writing) if b.element and b.element.attributes.get(mjcf.SLEEP, NEVER) != NEVER]
    if not sleeping:
        return
    tree_of = {thing: id(tree) for tree in _trees(writing) for thing in _named_in(tree)}
    tied: set[int] = set()
    for tendon in writing.section(mjcf.TENDON).children:
        if isinstance(tendon, Element) and _is_springy(tendon):
            trees = {tree_of[thing] for thing in _path(tendon) if thing in tree_of}
            tied |= trees if len(trees) > 1 else set()
    for body in sleeping:
        assert body.element is not None  # or it would not be in the list
        assert body.link is not None  # only links are told how to sleep
        if id(body.element) in tied:
            del body.element.attributes[mjcf.SLEEP]
            writing.drop(body.link, "how it sleeps", "MuJoCo lets nothing sleep that a springy tendon ties to others")


def _trees(writing: Writing) -> Iterator[Element]:
    """The first moving body of each tree."""
    stack = list(writing.bodies)
    while stack:
        body = stack.pop()
        if body.parts and body.element is not None:
            yield body.element
        else:
            stack += body.children


def _named_in(element: Element) -> Iterator[Named]:
    stack = [element]
    while stack:
        inside = [child for child in stack.pop().children if isinstance(child, Element)]
        yield from ((child.tag, child.attributes["name"]) for child in inside if "name" in child.attributes)
        stack += inside


def _path(tendon: Element) -> Iterator[Named]:
    """What a tendon runs along: `<site site="name"/>` and the like."""
    for item in tendon.children:
        if isinstance(item, Element) and item.tag in item.attributes:
            yield item.tag, item.attributes[item.tag]


def _is_springy(tendon: Element) -> bool:
    """Whether it has a spring or a damper, of any order."""
    texts = (tendon.attributes.get(name, "") for name in ("stiffness", mjcf.DAMPING))
    return any(float(number) != 0.0 for text in texts for number in text.split())
