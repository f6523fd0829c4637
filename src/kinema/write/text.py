"""Numbers and XML as a person would write them, and as a machine reads them back without loss."""

from __future__ import annotations

import re
import sys
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from xml.sax.saxutils import escape, quoteattr

_NOT_IN_XML = re.compile("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
_TO_ESCAPE = re.compile('[&<>"\n\r\t]')
"""What texts or attributes cannot hold as it is; most have nothing of it, and finding that out is quick."""
_SMALLEST = sys.float_info.min


def xml_name(name: str) -> str:
    """The name without characters that no XML file can hold."""
    return _NOT_IN_XML.sub("_", name)


def number(value: float) -> str:
    """The shortest text that reads back as the same float64; whole numbers without a point, no minus zero.

    Subnormal numbers are zero: libsdformat refuses a file that has one, and no robot does.
    """
    value = float(value)
    size = abs(value)
    if size < _SMALLEST:
        return "0"
    return str(int(value)) if size < 1e16 and value.is_integer() else repr(value)


def numbers(values: Iterable[float]) -> str:
    """Several numbers, with spaces between."""
    return " ".join([number(v) for v in values])


@dataclass(slots=True, eq=False)
class Element:
    """An XML element to be written; attributes keep the order in which they were given."""

    tag: str
    attributes: dict[str, str] = field(default_factory=dict)
    children: list[Element | Verbatim | Comment] = field(default_factory=list)
    text: str = ""

    def child(self, tag: str, text: str = "", /, **attributes: str | None) -> Element:
        """Add a child; attributes that are None are left out, and a trailing underscore keeps words free: `class_`."""
        element = Element(tag, {k.rstrip("_"): v for k, v in attributes.items() if v is not None}, text=text)
        self.children.append(element)
        return element

    def set(self, values: Mapping[str, str | None]) -> None:
        """Set attributes whose names are no Python names; those that are None are left out."""
        self.attributes.update({k: v for k, v in values.items() if v is not None})

    def verbatim(self, text: str) -> None:
        """Add source text as it is."""
        self.children.append(Verbatim(text))

    def comment(self, text: str) -> None:
        """Add a comment."""
        self.children.append(Comment(text))


@dataclass(frozen=True, slots=True)
class Verbatim:
    """Kept source text, given back unchanged."""

    text: str


@dataclass(frozen=True, slots=True)
class Comment:
    """A comment."""

    text: str


def to_xml(root: Element, *, declaration: bool = True) -> str:
    """The document with two-space indentation."""
    lines = ['<?xml version="1.0" encoding="utf-8"?>'] if declaration else []
    _write(root, 0, lines)
    return "\n".join(lines) + "\n"


def _write(node: Element | Verbatim | Comment, depth: int, lines: list[str]) -> None:
    indent = "  " * depth
    if isinstance(node, Comment):
        lines.append(f"{indent}<!-- {node.text.replace('--', '- -')} -->")
        return
    if isinstance(node, Verbatim):
        lines.append(indent + node.text.strip())
        return
    attributes = "".join([f" {name}={_quoted(value)}" for name, value in node.attributes.items()])
    if node.children:
        lines.append(f"{indent}<{node.tag}{attributes}>")
        for child in node.children:
            _write(child, depth + 1, lines)
        lines.append(f"{indent}</{node.tag}>")
    elif node.text:
        lines.append(f"{indent}<{node.tag}{attributes}>{_escaped(node.text)}</{node.tag}>")
    else:
        lines.append(f"{indent}<{node.tag}{attributes}/>")


def _quoted(value: str) -> str:
    return quoteattr(value) if _TO_ESCAPE.search(value) else f'"{value}"'


def _escaped(text: str) -> str:
    return escape(text) if _TO_ESCAPE.search(text) else text
