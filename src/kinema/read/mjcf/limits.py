"""How big a model may become, found out before MuJoCo sees it.

A few bytes of MJCF can ask for millions of bodies (`replicate`, `attach`), for gigabytes (`hfield`, `size`, sensors)
or for hours (`lengthrange`), and MuJoCo runs in this very process. So what a file asks for is estimated from above,
and refused in one sentence where it is out of all proportion.
"""

from __future__ import annotations

import math
from collections.abc import Iterator
from dataclasses import dataclass, field

from kinema.foundation import ReadError
from kinema.read.cursor import parse_float
from kinema.read.xml_text import MAX_DEPTH, XmlElement
from kinema.words import mjcf

from .sources import Document

MAX_EXPANDED_ELEMENTS = 30_000
MAX_BODIES = 5_000
MAX_DOFS = 6_000
MAX_INERTIA_CELLS = 400_000
"""Non-zeros of the joint-space inertia: a chain of n joints has n (n + 1) / 2."""
MAX_NUMBERS = 10_000_000
"""Numbers that height fields, sensor data, histories, meshes made from parameters, ... may take together."""
MAX_SIDE = 100_000
"""Largest single count of anything."""
MAX_GENERATED_MESHES = 20
"""Meshes that plugins compute: about a second each."""

_DOFS = {"free": 6, "ball": 3, "slide": 1, "hinge": 1}


def check_size(document: Document) -> None:
    """Raise a `ReadError` where the model is too large, too deep, or asks for too much memory."""
    documents = document.all_documents()
    for part in documents:
        _check_depth(part)
    _Growth().document(document)
    _check_numbers(documents)


def _check_depth(document: Document) -> None:
    stack = [(document.root, 1)]
    while stack:
        element, depth = stack.pop()
        if depth > MAX_DEPTH:
            raise ReadError(f"{element.origin}: elements are nested more than {MAX_DEPTH} deep")
        stack.extend((child, depth + 1) for child in element.children)


# -- what replicate and attach make of a model ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _Size:
    elements: int = 0
    bodies: int = 0
    dofs: int = 0
    cells: int = 0

    def __add__(self, other: _Size) -> _Size:
        return _Size(
            self.elements + other.elements,
            self.bodies + other.bodies,
            self.dofs + other.dofs,
            self.cells + other.cells,
        )

    def times(self, count: int) -> _Size:
        return _Size(self.elements * count, self.bodies * count, self.dofs * count, self.cells * count)

    def below(self, dofs: int) -> _Size:
        """The size where it hangs on a chain with so many degrees of freedom."""
        return _Size(self.elements, self.bodies, self.dofs, self.cells + dofs * self.dofs)


@dataclass(slots=True, eq=False)
class _Growth:
    known: dict[int, _Size] = field(default_factory=dict)
    """`id` of a document -> its size."""

    def document(self, document: Document) -> _Size:
        if id(document) not in self.known:
            for below in document.models.values():
                self.document(below)
            count = _Count(self, document, joint_dofs=_largest_default_joint(document))
            self.known[id(document)] = count.element(document.root, 0)
        return self.known[id(document)]


@dataclass(slots=True, eq=False)
class _Count:
    """The size of one document; an attachment within it is at most as large as what stands before it."""

    growth: _Growth
    document: Document
    joint_dofs: int
    named: dict[str, _Size] = field(default_factory=dict)
    total: _Size = _Size()

    def element(self, element: XmlElement, dofs_above: int) -> _Size:
        if element.tag == "attach":
            return self._counted(self._attached(element).below(dofs_above), element)
        own = self._own_dofs(element)
        size = self._counted(_Size(1, int(element.tag == mjcf.BODY), own, own * (own + dofs_above)), element)
        for child in element.children:
            size += self.element(child, dofs_above + own)
        if element.tag == "replicate":
            size += self._counted(size.times(max(1, _count(element, "count", 1)) - 1), element)
        name = element.attributes.get("name")
        if name and element.tag in (mjcf.BODY, mjcf.FRAME):
            self.named[name] = size
        return size

    def _own_dofs(self, element: XmlElement) -> int:
        if element.tag != mjcf.BODY:
            return 0
        result = 0
        # joints may also stand in frames inside the body
        stack = list(element.children)
        while stack:
            child = stack.pop()
            if child.tag == mjcf.FREEJOINT:
                result += 6
            elif child.tag == mjcf.JOINT:
                result += _DOFS.get(child.attributes.get("type", ""), self.joint_dofs)
            elif child.tag == mjcf.FRAME:
                stack.extend(child.children)
        return result

    def _attached(self, element: XmlElement) -> _Size:
        model = element.attributes.get("model")
        if model is None:
            name = element.attributes.get("body") or element.attributes.get("frame") or ""
            return self.named.get(name, self.total)
        for asset in self.document.root.find_all(mjcf.ASSET):
            for candidate in asset.find_all(mjcf.MODEL):
                found = self.document.models.get(id(candidate))
                if found is None:
                    continue
                if model in (candidate.attributes.get("name"), found.root.attributes.get("model")):
                    return self.growth.document(found)
        return _Size()

    def _counted(self, size: _Size, element: XmlElement) -> _Size:
        self.total += size
        for number, limit, what in (
            (self.total.elements, MAX_EXPANDED_ELEMENTS, "elements"),
            (self.total.bodies, MAX_BODIES, "bodies"),
            (self.total.dofs, MAX_DOFS, "degrees of freedom"),
            (self.total.cells, MAX_INERTIA_CELLS, "entries in its inertia matrix"),
        ):
            if number > limit:
                raise ReadError(f"{element.origin}: the model has more than {limit} {what}; that many are not read")
        return size


def _largest_default_joint(document: Document) -> int:
    """Degrees of freedom of a joint that does not say its type: a default may say it."""
    defaults = (d for d in document.root.find_all(mjcf.DEFAULT) for d in d.iterate())
    return max((_DOFS.get(d.attributes.get("type", ""), 1) for d in defaults if d.tag == mjcf.JOINT), default=1)


# -- what single elements ask for -------------------------------------------------------------------------------------


def _check_numbers(documents: list[Document]) -> None:
    total = 0
    generated = 0
    n_elements = sum(1 for d in documents for _ in d.root.iterate())
    for document in documents:
        pixels = max((_product(e, "resolution") for e in document.root.iterate() if e.tag == mjcf.CAMERA), default=0)
        for element, in_default in _with_defaults(document.root):
            _check_sides(element)
            # what a default class says may be asked for by every element
            total += _numbers(element, pixels) * (n_elements if in_default else 1)
            if total > MAX_NUMBERS:
                message = f"<{element.tag}> asks for more memory than is given to a model ({MAX_NUMBERS} numbers)"
                raise ReadError(f"{element.origin}: {message}")
            generated += element.tag == mjcf.MESH and element.find(mjcf.PLUGIN) is not None
            if generated > MAX_GENERATED_MESHES:
                raise ReadError(f"{element.origin}: more than {MAX_GENERATED_MESHES} meshes are made by plugins")


def _with_defaults(root: XmlElement) -> Iterator[tuple[XmlElement, bool]]:
    for section in root.children:
        for element in section.iterate():
            yield element, section.tag == mjcf.DEFAULT


_SIDES = {"nrow", "ncol", "count", "cellcount", "dim", "num", "nsample", "actdim", "nkey", "resolution", "params"}


def _check_sides(element: XmlElement) -> None:
    for attribute in element.attributes:
        limit = MAX_SIDE if attribute in _SIDES else 100 if attribute.startswith("nuser_") else 0
        if limit and any(value > limit for value in _values(element, attribute)):
            raise ReadError(f"{element.origin}: {attribute!r} of <{element.tag}> is larger than {limit}")


def _numbers(element: XmlElement, pixels: int) -> int:
    """How many numbers an element makes MuJoCo store beyond those in its text, from above."""
    history = max(1, _count(element, "nsample"))
    match element.tag:
        case mjcf.HFIELD:
            return _count(element, "nrow") * _count(element, "ncol")
        case mjcf.FLEXCOMP:
            return 100 * (_product(element, "count") + _product(element, "cellcount"))
        case mjcf.MESH:
            return _builtin_vertices(element)
        case mjcf.SIZE:
            return 1000 * _count(element, "nkey")
        case "rangefinder":
            return 10 * history * (max(1, pixels) if "camera" in element.attributes else 1)
        case mjcf.CONTACT:
            return 20 * history * max(1, _count(element, "num"))
        case mjcf.USER:
            return _count(element, "dim")
    return (history - 1) * 20 + _count(element, "actdim")


def _builtin_vertices(element: XmlElement) -> int:
    """From above: a grid of the parameters, or the first one squared for shapes of revolution."""
    if "builtin" not in element.attributes:
        return 0
    sides = [max(1.0, value) for value in _values(element, "params")] or [1.0]
    return 10 * int(max(math.prod(sides[:3]), sides[0] ** 2))


def _product(element: XmlElement, attribute: str) -> int:
    values = _values(element, attribute)
    return int(math.prod(max(1.0, v) for v in values)) if values else 0


def _count(element: XmlElement, attribute: str, default: int = 0) -> int:
    values = _values(element, attribute)
    return max(0, int(values[0])) if values else default


def _values(element: XmlElement, attribute: str) -> list[float]:
    """The attribute's numbers; what is none is left for MuJoCo to complain about."""
    words = element.attributes.get(attribute, "").split()[:16]
    numbers = (parse_float(word) for word in words)
    return [min(n, 1e15) for n in numbers if n is not None and not math.isnan(n)]
