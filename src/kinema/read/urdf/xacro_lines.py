"""Where the elements of an expansion stood before: in which file, and on which line.

Xacro copies attributes as they are, so each element is given one that says where it stands before the expansion, and it
is taken away after it. Elements of xacro itself get none: their attributes are arguments.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

from kinema.read.xml_text import XmlElement, parse_xml

_MARK = "kinema-line"
_WRITTEN = re.compile(rf' {_MARK}="\d+:\d+"')
_VALUE = re.compile(r"(\d+):(\d+)")


def marked(root: XmlElement, file_number: int) -> str:
    """The text of a document in which every element says where it stands."""
    source = root.source
    pieces: list[bytes] = []
    done = 0
    for element in root.iterate():
        if element.tag.startswith("xacro:") or _MARK in element.attributes:
            continue
        place = element.start + 1 + len(element.tag.encode())
        pieces += [source[done:place], f' {_MARK}="{file_number}:{element.line}"'.encode()]
        done = place
    return b"".join([*pieces, source[done:]]).decode("utf-8", "replace")


def placed(text: str, files: list[str], label: str) -> XmlElement:
    """The root of an expansion whose elements are where they stood before it; `label` is what errors call its file."""
    with_marks = parse_xml(text.encode(), label)
    root = parse_xml(_WRITTEN.sub("", text).encode(), label)
    around: dict[int, XmlElement] = {id(c): e for e in root.iterate() for c in e.children}
    for element, twin in zip(root.iterate(), with_marks.iterate(), strict=True):
        found = _VALUE.fullmatch(twin.attributes.get(_MARK, ""))
        number = int(found[1]) if found else len(files)
        if found and number < len(files):
            element.file, element.line = files[number], int(found[2])
        elif id(element) in around:
            outer = around[id(element)]
            element.file, element.line = outer.file, outer.line
    return root


def place_of(element: object, roots: Sequence[XmlElement]) -> str:
    """The file and line of an element that could not be expanded; empty where that is not known.

    Args:
        element: what the worker says of it: its tag, its attributes, and the mark that is nearest to it.
        roots: the documents before the expansion, by the numbers in marks.
    """
    said = element if isinstance(element, dict) else {}
    found = _VALUE.fullmatch(str(said.get("mark", "")))
    if found is None or int(found[1]) >= len(roots):
        return ""
    root, line = roots[int(found[1])], int(found[2])
    given = said.get("attributes")
    if isinstance(given, dict) and _MARK not in given:  # xacro's own, which has no mark: the next that is like it
        alike = (e for e in root.iterate() if (e.tag, e.attributes) == (said.get("tag"), given) and e.line >= line)
        line = next((e.line for e in alike), line)
    return f"{root.file}:{line}"
