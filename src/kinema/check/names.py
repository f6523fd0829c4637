"""Rules about names."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from kinema.description import Node, World
from kinema.foundation import Severity, clean_name

from .context import Context
from .rule import Finding, rule
from .words import kind_of, label


def _repeated(nodes: Sequence[Node], key: Callable[[str], str] = str) -> Iterable[tuple[Node, Node]]:
    """Each named node whose name was seen before, and the first that has it."""
    first: dict[str, Node] = {}
    for node in nodes:
        if node.name and first.setdefault(key(node.name), node) is not node:
            yield node, first[key(node.name)]


def _duplicates(nodes: Sequence[Node]) -> Iterable[Finding]:
    for node, _ in _repeated(nodes):
        message = f'more than one {kind_of(node)} is called "{node.name}"'
        yield Finding(node, message, "give each a name of its own")


@rule("names.empty", Severity.ERROR)
def nameless(context: Context) -> Iterable[Finding]:
    """A link or joint has no name, so nothing can refer to it."""
    for node in (*context.links, *context.joints):
        if not node.name:
            yield Finding(node, f"a {kind_of(node)} has no name", "give it one")


@rule("names.duplicate-link", Severity.ERROR)
def duplicate_link(context: Context) -> Iterable[Finding]:
    """Two links of a robot have the same name: joints that name it could mean either."""
    yield from _duplicates(context.links)


@rule("names.duplicate-joint", Severity.ERROR)
def duplicate_joint(context: Context) -> Iterable[Finding]:
    """Two joints of a robot have the same name: a command for it could mean either."""
    yield from _duplicates(context.joints)


@rule("names.duplicate-robot", Severity.ERROR)
def duplicate_robot(context: Context) -> Iterable[Finding]:
    """Two robots of a world have the same name."""
    if isinstance(context.assembly, World):
        yield from _duplicates(context.assembly.robots)


@rule("names.duplicate-part", Severity.WARNING)
def duplicate_part(context: Context) -> Iterable[Finding]:
    """Two actuators, tendons, sensors, frames, cameras, keyframes or constraints have the same name."""
    a = context.assembly
    for nodes in (a.actuators, a.tendons, a.sensors, a.frames, a.cameras, a.keyframes, a.constraints):
        yield from _duplicates(nodes)


@rule("names.duplicate-shape", Severity.NOTE)
def duplicate_shape(context: Context) -> Iterable[Finding]:
    """Two collision shapes of one link have the same name: a collision rule that names it means both."""
    groups = [link.collisions for link in context.links]
    if isinstance(context.assembly, World):
        groups.append([s for s in context.assembly.shapes if s.collision])
    for shapes in groups:
        yield from _duplicates(shapes)


@rule("names.differ-in-case", Severity.NOTE)
def differ_in_case(context: Context) -> Iterable[Finding]:
    """Two names differ only in upper and lower case: easily confused, and the same file on some systems."""
    for nodes in (context.links, context.joints):
        for node, other in _repeated(nodes, str.casefold):
            if node.name != other.name:
                message = f"{label(node)} and {label(other)} differ only in upper and lower case"
                yield Finding(node, message, "rename one")


@rule("names.clash-when-cleaned", Severity.NOTE)
def clash_when_cleaned(context: Context) -> Iterable[Finding]:
    """Two names are the same once spaces and special characters are replaced.

    USD and some other formats accept only letters, digits and underscores. When the robot is written to one, a
    number is added to the second name.
    """
    for nodes in (context.links, context.joints):
        for node, other in _repeated(nodes, clean_name):
            if node.name != other.name:
                message = f'{label(node)} and {label(other)} both become "{clean_name(node.name)}" in strict formats'
                yield Finding(node, message, "rename one, with letters, digits and underscores only")
