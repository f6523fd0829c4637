"""XML elements and serialization, exact number formatting, and tables of the names that a file uses."""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

from kinema.core import unique_name

# ------------------------------------------------------------------------------------------------------ numbers and XML

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TO_ESCAPE = re.compile('[&<>"\n\r\t]')
"""Characters that must be escaped in texts or attributes; the search is a fast check for the common case of none."""
_MIN_NORMAL = sys.float_info.min


def xml_safe_name(name: str) -> str:
    """The name with characters that XML cannot represent replaced by underscores."""
    return _NOT_IN_XML.sub("_", name)


def format_number(value: float) -> str:
    """Shortest text that parses to the same float64; integers without a decimal point, no negative zero.

    Subnormal numbers become 0: libsdformat refuses files that contain one.
    """
    value = float(value)
    size = abs(value)
    if size < _MIN_NORMAL:
        return "0"
    return str(int(value)) if size < 1e16 and value.is_integer() else repr(value)


def format_numbers(values: Iterable[float]) -> str:
    """Numbers formatted by `format_number`, separated by blanks."""
    return " ".join([format_number(v) for v in values])


@dataclass(slots=True, eq=False)
class Element:
    """XML element of an output document; attributes keep their insertion order."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | Verbatim] = field(default_factory=list)
    text: str = ""

    def add_child(self, tag: str, text: str = "", /, **attributes: str | None) -> Element:
        """Append a child element and return it; None attributes are omitted, trailing underscores stripped."""
        element = Element(tag, {k.rstrip("_"): v for k, v in attributes.items() if v is not None}, text=text)
        self.children.append(element)
        return element

    def set_attributes(self, values: Mapping[str, str | None]) -> None:
        """Set attributes from a mapping; values that are None are omitted."""
        self.attributes.update({k: v for k, v in values.items() if v is not None})

    def add_verbatim(self, text: str) -> None:
        """Append source text without escaping."""
        self.children.append(Verbatim(text))


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Preserved source text, written without changes."""

    text: str


def to_xml(root: Element, *, declaration: bool = True) -> str:
    """XML text of a document with two-space indentation."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>'] if declaration else []
    _write_node(root, 0, lines)
    return "\n".join(lines) + "\n"


def _write_node(node: Element | Verbatim, depth: int, lines: list[str]) -> None:
    """Append the XML lines of an element or verbatim text and its descendants to `lines`."""
    indent = "  " * depth
    if isinstance(node, Verbatim):
        lines.append(indent + node.text.strip())
        return
    attributes = "".join([f" {name}={_quoted(value)}" for name, value in node.attributes.items()])
    if node.children:
        lines.append(f"{indent}<{node.tag}{attributes}>")
        for child in node.children:
            _write_node(child, depth + 1, lines)
        lines.append(f"{indent}</{node.tag}>")
    elif node.text:
        lines.append(f"{indent}<{node.tag}{attributes}>{_escaped(node.text)}</{node.tag}>")
    else:
        lines.append(f"{indent}<{node.tag}{attributes}/>")


def _quoted(value: str) -> str:
    return quoteattr(value) if _TO_ESCAPE.search(value) else f'"{value}"'


def _escaped(text: str) -> str:
    return escape(text) if _TO_ESCAPE.search(text) else text


# ---------------------------------------------------------------------------------------------------------------- names


@dataclass(slots=True, eq=False)
class NameTable:
    """Unique names of one kind of element in a file, after sanitization for the format."""

    sanitize: Callable[[str], str] = str
    """Conversion of a name to the format's syntax; the identity if the format accepts any name."""
    written_names: dict[str, str] = field(default_factory=dict)
    """Name in the description -> name in the file."""
    taken_names: set[str] = field(default_factory=set)

    def add(self, name: str) -> str:
        """Register a new element and return its unique name in the file."""
        written = unique_name(self.sanitize(name) or "_", self.taken_names)
        self.written_names.setdefault(name, written)
        return written

    def __getitem__(self, name: str) -> str:
        """Name in the file of a registered element."""
        return self.written_names[name]

    def __contains__(self, name: str) -> bool:
        return name in self.written_names

    @property
    def renamed(self) -> dict[str, str]:
        """Names in the description -> names in the file, for names that changed."""
        return {name: written for name, written in self.written_names.items() if name != written}
