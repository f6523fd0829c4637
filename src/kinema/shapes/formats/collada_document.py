"""A COLLADA document: its elements by id, its arrays of numbers, and notes about what was skipped."""

from __future__ import annotations

from pathlib import Path
from xml.etree.ElementTree import Element

from kinema.shapes.formats.numbers import parse_floats
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import FloatArray, MeshError


class ColladaDocument:
    """The XML with its elements by id, and notes about what was skipped."""

    def __init__(self, root: Element, limits: MeshLimits, folder: Path | None = None) -> None:
        self.root = root
        self.limits = limits
        self.folder = folder
        self._by_id: dict[str, Element] = {}
        self._notes: dict[str, None] = {}
        self._unseen: dict[str, None] = {}
        for element in root.iter():
            if "id" in element.attrib:
                self._by_id.setdefault(element.attrib["id"], element)

    def target(self, element: Element, attribute: str, *tags: str) -> Element:
        """The element that `attribute` of `element` refers to; it must have one of `tags`."""
        reference = element.get(attribute, "")
        if not reference.startswith("#"):
            raise MeshError(f"The COLLADA refers to '{reference[:80]}', which is outside the file and is not opened.")
        found = self._by_id.get(reference[1:])
        if found is None or found.tag not in tags:
            raise MeshError(f"The COLLADA refers to a <{tags[0]}> '{reference[:80]}', which does not exist.")
        return found

    def find(self, element: Element | None, attribute: str, *tags: str) -> Element | None:
        """As `target`, but None where it leads nowhere."""
        found = None if element is None else self._by_id.get(element.get(attribute, "").removeprefix("#"))
        return found if found is not None and found.tag in tags else None

    def note(self, sentence: str) -> None:
        """Remember `sentence`, once."""
        self._notes[sentence] = None

    def note_unseen(self, sentence: str) -> None:
        """The same for what is laid on the triangles."""
        self._unseen[sentence] = None

    def unseen(self) -> tuple[str, ...]:
        """Every sentence noted about that, in order."""
        return tuple(self._unseen)

    def notes(self) -> tuple[str, ...]:
        """Every sentence noted, in order."""
        return tuple(self._notes)


def read_floats(document: ColladaDocument, source: Element, width: int) -> FloatArray:
    """The vectors of a source, shape (n, width or more)."""
    accessor = source.find("technique_common/accessor")
    if accessor is None:
        raise MeshError("A COLLADA source has no accessor.")
    array = document.target(accessor, "source", "float_array")
    values = parse_floats((array.text or "").encode())
    count, stride, start = (int(accessor.get(key, default)) for key, default in _ACCESSOR_DEFAULTS)
    if stride < width or count < 0 or start < 0:
        raise MeshError("A COLLADA accessor does not describe positions, normals or the like.")
    if start + count * stride > len(values):
        present = len(values) // stride
        raise MeshError(f"The COLLADA numbers are cut short: {count} vectors are declared, {present} are there.")
    document.limits.check_counts(count, 0)
    return values[start : start + count * stride].reshape(count, stride)


_ACCESSOR_DEFAULTS = (("count", "0"), ("stride", "1"), ("offset", "0"))
