"""Upper bounds on the size of an MJCF model (bodies, dofs, inertia nonzeros, values), checked before compilation.

A few bytes of MJCF can expand to millions of bodies (`replicate`, `attach`), gigabytes (`hfield`, `size`, sensors) or
hours of computation (`lengthrange`), and MuJoCo runs in this process. The size of a model is therefore estimated from
above, and oversized models are rejected.
"""

from __future__ import annotations

import math
from collections.abc import Iterator, Set
from dataclasses import dataclass, field

from kinema.core import MAX_XML_DEPTH, ReadError, XmlElement
from kinema.tokens import mjcf

from ..cursor import parse_float
from .documents import ModelDocument

MAX_EXPANDED_ELEMENTS = 30_000
MAX_BODIES = 5_000
MAX_DOFS = 30_000
MAX_INERTIA_NONZEROS = 400_000
"""Maximum number of nonzeros of the joint-space inertia matrix; a chain of n dofs has n (n + 1) / 2."""
MAX_STORED_VALUES = 10_000_000
"""Maximum number of values of height fields, sensor data, histories and generated meshes together."""
MAX_COUNT = 100_000
"""Maximum value of a count attribute."""
MAX_GENERATED_MESHES = 20
"""Maximum number of meshes computed by plugins (about one second each)."""

_DOFS_BY_JOINT_TYPE = {"free": 6, "ball": 3, "slide": 1, "hinge": 1}


def check_model_size(document: ModelDocument, copied: Set[int] = frozenset()) -> None:
    """Raise `ReadError` if the model is too large, too deep, or needs too much memory.

    Bodies that are copied instead of compiled (`copied`, by `id` of the element) do not count.
    """
    documents = document.all_documents()
    for part in documents:
        _check_depth(part)
    _SizeEstimator(copied).document_size(document)
    _check_stored_values(documents)


def _check_depth(document: ModelDocument) -> None:
    stack = [(document.root, 1)]
    while stack:
        element, depth = stack.pop()
        if depth > MAX_XML_DEPTH:
            raise ReadError(f"{element.origin}: elements are nested more than {MAX_XML_DEPTH} deep")
        stack.extend((child, depth + 1) for child in element.children)


# -- expansion by replicate and attach ---------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class _ModelSize:
    """Numbers of elements, bodies, dofs and inertia nonzeros of a model part."""

    elements: int = 0
    bodies: int = 0
    dofs: int = 0
    inertia_nonzeros: int = 0

    def __add__(self, other: _ModelSize) -> _ModelSize:
        return _ModelSize(
            self.elements + other.elements,
            self.bodies + other.bodies,
            self.dofs + other.dofs,
            self.inertia_nonzeros + other.inertia_nonzeros,
        )

    def repeated(self, count: int) -> _ModelSize:
        return _ModelSize(self.elements * count, self.bodies * count, self.dofs * count, self.inertia_nonzeros * count)

    def below_chain(self, dofs: int) -> _ModelSize:
        """Size if attached below a chain with the given number of dofs."""
        return _ModelSize(self.elements, self.bodies, self.dofs, self.inertia_nonzeros + dofs * self.dofs)


@dataclass(slots=True, eq=False)
class _SizeEstimator:
    """Sizes of documents, each estimated once."""

    copied: Set[int]
    document_sizes: dict[int, _ModelSize] = field(default_factory=dict)
    """`id` of a document -> its size."""

    def document_size(self, document: ModelDocument) -> _ModelSize:
        if id(document) not in self.document_sizes:
            for below in document.attached_models.values():
                self.document_size(below)
            count = _DocumentCounter(self, document, joint_dofs=_max_default_joint_dofs(document))
            self.document_sizes[id(document)] = count.element_size(document.root, 0)
        return self.document_sizes[id(document)]


@dataclass(slots=True, eq=False)
class _DocumentCounter:
    """Size estimate of one document; an attachment within it is at most as large as the preceding content."""

    estimator: _SizeEstimator
    document: ModelDocument
    joint_dofs: int
    named_sizes: dict[str, _ModelSize] = field(default_factory=dict)
    total: _ModelSize = _ModelSize()

    def element_size(self, element: XmlElement, dofs_above: int) -> _ModelSize:
        """Upper bound on the size of an element with descendants, below `dofs_above` dofs."""
        if id(element) in self.estimator.copied:
            return _ModelSize()
        if element.tag == "attach":
            return self._add_to_total(self._attached_size(element).below_chain(dofs_above), element)
        dofs = self._element_dofs(element)
        size = self._add_to_total(
            _ModelSize(1, int(element.tag == mjcf.BODY), dofs, dofs * (dofs + dofs_above)), element
        )
        for child in element.children:
            size += self.element_size(child, dofs_above + dofs)
        if element.tag == "replicate":
            size += self._add_to_total(size.repeated(max(1, _integer_attribute(element, "count", 1)) - 1), element)
        name = element.attributes.get("name")
        if name and element.tag in (mjcf.BODY, mjcf.FRAME):
            self.named_sizes[name] = size
        return size

    def _element_dofs(self, element: XmlElement) -> int:
        """Number of dofs of the joints of a body, including joints inside of frames."""
        if element.tag != mjcf.BODY:
            return 0
        result = 0
        # joints may be inside of frames of the body
        stack = list(element.children)
        while stack:
            child = stack.pop()
            if child.tag == mjcf.FREEJOINT:
                result += 6
            elif child.tag == mjcf.JOINT:
                result += _DOFS_BY_JOINT_TYPE.get(child.attributes.get("type", ""), self.joint_dofs)
            elif child.tag == mjcf.FRAME:
                stack.extend(child.children)
        return result

    def _attached_size(self, element: XmlElement) -> _ModelSize:
        """Size of the content that an `<attach>` element inserts."""
        model = element.attributes.get("model")
        if model is None:
            name = element.attributes.get("body") or element.attributes.get("frame") or ""
            return self.named_sizes.get(name, self.total)
        for asset in self.document.root.find_all(mjcf.ASSET):
            for candidate in asset.find_all(mjcf.MODEL):
                found = self.document.attached_models.get(id(candidate))
                if found is None:
                    continue
                if model in (candidate.attributes.get("name"), found.root.attributes.get("model")):
                    return self.estimator.document_size(found)
        return _ModelSize()

    def _add_to_total(self, size: _ModelSize, element: XmlElement) -> _ModelSize:
        """Add a size to the total; raises `ReadError` if a limit is exceeded."""
        self.total += size
        for number, limit, what in (
            (self.total.elements, MAX_EXPANDED_ELEMENTS, "elements"),
            (self.total.bodies, MAX_BODIES, "bodies"),
            (self.total.dofs, MAX_DOFS, "degrees of freedom"),
            (self.total.inertia_nonzeros, MAX_INERTIA_NONZEROS, "entries in its inertia matrix"),
        ):
            if number > limit:
                raise ReadError(f"{element.origin}: the model has more than {limit} {what}; that many are not read")
        return size


def _max_default_joint_dofs(document: ModelDocument) -> int:
    """Maximum number of dofs of a joint without explicit type, from the default classes."""
    defaults = (d for d in document.root.find_all(mjcf.DEFAULT) for d in d.iterate())
    return max(
        (_DOFS_BY_JOINT_TYPE.get(d.attributes.get("type", ""), 1) for d in defaults if d.tag == mjcf.JOINT), default=1
    )


# -- sizes of single elements ------------------------------------------------------------------------------------------


def _check_stored_values(documents: list[ModelDocument]) -> None:
    """Raise `ReadError` if generated data exceeds the limits."""
    total = 0
    generated = 0
    n_elements = sum(1 for d in documents for _ in d.root.iterate())
    for document in documents:
        pixels = max(
            (_attribute_product(e, "resolution") for e in document.root.iterate() if e.tag == mjcf.CAMERA), default=0
        )
        for element, in_default in _with_defaults(document.root):
            _check_counts(element)
            # a default class may apply to every element
            total += _stored_values(element, pixels) * (n_elements if in_default else 1)
            if total > MAX_STORED_VALUES:
                message = f"<{element.tag}> asks for more memory than is given to a model ({MAX_STORED_VALUES} numbers)"
                raise ReadError(f"{element.origin}: {message}")
            generated += element.tag == mjcf.MESH and element.find(mjcf.PLUGIN) is not None
            if generated > MAX_GENERATED_MESHES:
                raise ReadError(f"{element.origin}: more than {MAX_GENERATED_MESHES} meshes are made by plugins")


def _with_defaults(root: XmlElement) -> Iterator[tuple[XmlElement, bool]]:
    for section in root.children:
        for element in section.iterate():
            yield element, section.tag == mjcf.DEFAULT


_COUNT_ATTRIBUTES = {
    "nrow",
    "ncol",
    "count",
    "cellcount",
    "dim",
    "num",
    "nsample",
    "actdim",
    "nkey",
    "resolution",
    "params",
}


def _check_counts(element: XmlElement) -> None:
    for attribute in element.attributes:
        limit = MAX_COUNT if attribute in _COUNT_ATTRIBUTES else 100 if attribute.startswith("nuser_") else 0
        if limit and any(value > limit for value in _attribute_numbers(element, attribute)):
            raise ReadError(f"{element.origin}: {attribute!r} of <{element.tag}> is larger than {limit}")


def _stored_values(element: XmlElement, pixels: int) -> int:
    """Upper bound on the number of values that MuJoCo allocates for an element beyond its text."""
    history = max(1, _integer_attribute(element, "nsample"))
    match element.tag:
        case mjcf.HFIELD:
            return _integer_attribute(element, "nrow") * _integer_attribute(element, "ncol")
        case mjcf.FLEXCOMP:
            return 100 * (_attribute_product(element, "count") + _attribute_product(element, "cellcount"))
        case mjcf.MESH:
            return _builtin_vertices(element)
        case mjcf.SIZE:
            return 1000 * _integer_attribute(element, "nkey")
        case "rangefinder":
            return 10 * history * (max(1, pixels) if "camera" in element.attributes else 1)
        case mjcf.CONTACT:
            return 20 * history * max(1, _integer_attribute(element, "num"))
        case mjcf.USER:
            return _integer_attribute(element, "dim")
    return (history - 1) * 20 + _integer_attribute(element, "actdim")


def _builtin_vertices(element: XmlElement) -> int:
    """Upper bound on the values of a builtin mesh from its parameters."""
    if "builtin" not in element.attributes:
        return 0
    sides = [max(1.0, value) for value in _attribute_numbers(element, "params")] or [1.0]
    return 10 * int(max(math.prod(sides[:3]), sides[0] ** 2))


def _attribute_product(element: XmlElement, attribute: str) -> int:
    values = _attribute_numbers(element, attribute)
    return int(math.prod(max(1.0, v) for v in values)) if values else 0


def _integer_attribute(element: XmlElement, attribute: str, default: int = 0) -> int:
    values = _attribute_numbers(element, attribute)
    return max(0, int(values[0])) if values else default


def _attribute_numbers(element: XmlElement, attribute: str) -> list[float]:
    """Numbers of an attribute; malformed words are skipped and left to MuJoCo."""
    words = element.attributes.get(attribute, "").split()[:16]
    numbers = (parse_float(word) for word in words)
    return [min(n, 1e15) for n in numbers if n is not None and not math.isnan(n)]
