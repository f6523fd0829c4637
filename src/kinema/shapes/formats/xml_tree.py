"""XML from strangers as a tree, without what XML lets them do."""

from __future__ import annotations

from typing import NoReturn
from xml.etree.ElementTree import Element, TreeBuilder
from xml.parsers import expat

from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import MeshError


def parse_xml(data: bytes, limits: MeshLimits) -> Element:
    """Root element, tags without namespace prefixes.

    Refused are document types and with them all entity declarations (they can grow a kilobyte into gigabytes, and can
    name other files), deep nesting, and more elements and attributes than the limits allow.
    """
    parser = expat.ParserCreate()
    tree = _LimitedTree(limits)
    parser.buffer_text = True
    parser.StartElementHandler = tree.start
    parser.EndElementHandler = tree.end
    parser.CharacterDataHandler = tree.text
    parser.StartDoctypeDeclHandler = _refuse_declarations
    parser.EntityDeclHandler = _refuse_declarations
    try:
        parser.Parse(data, True)
    except expat.ExpatError as error:
        raise MeshError(f"The file is not valid XML: {error}.") from None
    return tree.builder.close()


class _LimitedTree:
    """Expat handlers that build a tree and count."""

    def __init__(self, limits: MeshLimits) -> None:
        self.builder = TreeBuilder()
        self.text = self.builder.data
        self._limits = limits
        self._depth = 0
        self._items = 0

    def start(self, tag: str, attributes: dict[str, str]) -> None:
        self._depth += 1
        self._items += 1 + len(attributes)
        if self._depth > self._limits.depth:
            raise MeshError(f"The XML is nested deeper than the {self._limits.depth} levels allowed.")
        if self._items > self._limits.markup_items:
            raise MeshError(f"The XML has more than the {self._limits.markup_items} elements allowed.")
        self.builder.start(_local_name(tag), attributes)

    def end(self, tag: str) -> None:
        self._depth -= 1
        self.builder.end(_local_name(tag))


def _local_name(tag: str) -> str:
    return tag.rpartition(":")[2]


def _refuse_declarations(*_: object) -> NoReturn:
    raise MeshError("The XML declares a document type or entities, which is not allowed in a mesh file.")
