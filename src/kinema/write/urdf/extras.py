"""What was read from a URDF file without having a meaning here goes back to where it stood."""

from __future__ import annotations

import re

from kinema.description import Extra, Node
from kinema.words import urdf

from ..bookkeeping import missed
from ..text import Element
from .writing import Writing


def give_back(writing: Writing, node: Node, element: Element | None, root: Element) -> None:
    """Put a node's URDF extras into its element, and what refers to it by name into the root; report the rest.

    Args:
        writing: the run.
        node: whose extras.
        element: its element; None where it has none.
        root: the `<robot>` element.
    """
    lost = [
        f"{extra.format} {extra.tag}"
        for extra in node.extras
        if not (extra.format == urdf.FORMAT and _place(extra, element, root))
    ]
    # what is kept of URDF itself is put into elements of its own
    lost += [key for key in missed(node.attributes) if key not in urdf.KEYS]
    if lost:
        shown = ", ".join(dict.fromkeys(lost))
        writing.drop(node, f"settings of its own format: {shown}", "URDF has no place for them")


def _place(extra: Extra, element: Element | None, root: Element) -> bool:
    """Whether there was a place for an extra."""
    *path, last = extra.tag.split("/")
    if not path and last == "gazebo" and element is not root and _refers(extra.text):
        root.verbatim(extra.text)
        return True
    holder = _inside(element, path)
    if holder is None:
        return False
    if last.startswith("@"):
        if last[1:] in holder.attributes:
            return False
        holder.attributes[last[1:]] = extra.text
    else:
        holder.verbatim(extra.text)
    return True


def _inside(element: Element | None, path: list[str]) -> Element | None:
    for tag in path:
        if element is None:
            return None
        element = next((c for c in element.children if isinstance(c, Element) and c.tag == tag), None)
    return element


def _refers(text: str) -> bool:
    """Whether an element says by name what it is about; then it stands beside that, not in it."""
    return re.match(r"<[^<>]*\sreference\s*=", text) is not None


def names_of(extras: list[Extra], tag: str) -> set[str]:
    """The names that kept elements with that tag define."""
    found = (re.match(r"""<[^<>]*\sname\s*=\s*("[^"]*"|'[^']*')""", e.text) for e in extras if e.tag == tag)
    return {match[1][1:-1] for match in found if match}
