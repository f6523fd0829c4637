"""What was read from an SDFormat file without having a meaning here goes back to where it stood."""

from __future__ import annotations

import re
from collections.abc import Collection

from kinema.description import Extra, Node
from kinema.words import sdf

from ..bookkeeping import missed
from ..text import Element
from .writing import Writing, plain_text

_NAME = re.compile(r"""<[^<>]*?\sname\s*=\s*("[^"]*"|'[^']*')""")


def give_back(
    writing: Writing,
    node: Node,
    element: Element | None,
    *,
    said: Collection[str] = (),
    skip: Collection[str] = (),
    simple: Collection[str] = (),
) -> None:
    """Put a node's own extras and settings into its element; report the rest.

    Args:
        writing: the run.
        node: whose extras.
        element: its element; None where it has none.
        said: the settings that are written elsewhere, without `sdf:`.
        skip: the tags of extras that are written elsewhere.
        simple: the settings that are children with just a value.
    """
    lost = [
        f"{extra.format} {extra.tag}"
        for extra in node.extras
        if not (extra.format == sdf.FORMAT and (extra.tag in skip or _place(extra, element)))
    ]
    left = []
    for key, value in node.attributes.items():
        format, _, name = key.partition(":")
        if format == sdf.FORMAT and name in simple and element is not None:
            element.child(name, plain_text(value))
        elif format != sdf.FORMAT or name not in said:
            left.append(key)
    lost += missed(left)
    if lost:
        shown = ", ".join(dict.fromkeys(lost))
        writing.drop(node, f"settings of its own format: {shown}", "SDFormat has no place for them here")


def _place(extra: Extra, element: Element | None) -> bool:
    if element is None:
        return False
    if not extra.tag.startswith("@"):
        element.verbatim(extra.text)
        return True
    name = extra.tag[1:]
    if name in element.attributes:
        return False
    element.attributes[name] = extra.text
    return True


def names_of(extras: Collection[Extra], *tags: str) -> set[str]:
    """The names that kept elements with these tags define."""
    found = (_NAME.match(e.text) for e in extras if e.tag in tags and e.format == sdf.FORMAT)
    return {match[1][1:-1] for match in found if match}


def setting(node: Node, name: str) -> object:
    """A setting of the format itself; None where there is none."""
    return node.attributes.get(sdf.key(name))
