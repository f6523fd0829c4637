"""Elements as text with one element to a line, so that a line number of MuJoCo's names exactly one element."""

from __future__ import annotations

import re
from dataclasses import dataclass, field

from kinema.read.xml_text import XmlElement

from .prepare import Prepared

_ESCAPED = str.maketrans(
    {"&": "&amp;", "<": "&lt;", ">": "&gt;", '"': "&quot;", "\n": "&#10;", "\r": "&#13;", "\t": "&#9;"}
)
_INFO = re.compile(r"line\D{0,3}(\d+)")


@dataclass(slots=True, eq=False)
class Text:
    """The model and those it attaches, each as one text; their lines are numbered through."""

    main: str = ""
    attached: dict[str, bytes] = field(default_factory=dict)
    elements: dict[int, XmlElement] = field(default_factory=dict)
    """Line -> the element that begins there."""

    def element_at(self, info: str) -> XmlElement | None:
        """The element that MuJoCo means when it says `line 12`, last of all in its message."""
        lines = _INFO.findall(info)
        return self.elements.get(int(lines[-1])) if lines else None


def quoted(text: str) -> str:
    """A text as the value of an attribute; `xml.sax.saxutils` does the same, but imports an HTTP client."""
    return f'"{text.translate(_ESCAPED)}"'


def write_text(prepared: Prepared) -> Text:
    """The prepared model as text for MuJoCo."""
    result = Text()
    next_line = 1
    for document in prepared.document.all_documents():
        lines: list[str] = []
        _write(document.root, prepared, lines, next_line, result.elements)
        # every document starts below the lines of those before it
        text = "\n" * (next_line - 1) + "\n".join(lines)
        next_line += len(lines)
        if document is prepared.document:
            result.main = text
        else:
            result.attached[prepared.models[id(document)]] = text.encode()
    return result


def _write(
    root: XmlElement, prepared: Prepared, lines: list[str], first_line: int, elements: dict[int, XmlElement]
) -> None:
    stack: list[XmlElement | str] = [root]
    while stack:
        item = stack.pop()
        if isinstance(item, str):
            lines.append(item)
            continue
        if id(item) in prepared.removed:
            continue
        elements[first_line + len(lines)] = item
        attributes = "".join(f" {name}={quoted(text)}" for name, text in prepared.attributes_of(item).items())
        if item.children:
            lines.append(f"<{item.tag}{attributes}>")
            stack.append(f"</{item.tag}>")
            stack.extend(reversed(item.children))
        else:
            lines.append(f"<{item.tag}{attributes}/>")
