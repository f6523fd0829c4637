"""XML parser for untrusted files: bounded size, depth and count, no entities, line numbers per element.

Document type declarations are rejected (hence no entity expansion and no external files). Names keep their prefixes as
written, because robot files use undeclared prefixes.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from .diagnostics import Origin, ReadError

MAX_XML_BYTES = 64 * 2**20
MAX_XML_DEPTH = 500
MAX_XML_ELEMENTS = 250_000
MAX_XML_ITEMS = 1_000_000
"""Elements and attributes."""


@dataclass(slots=True, eq=False)
class XmlElement:
    """XML element with its location and byte range in the document."""

    tag: str
    attributes: dict[str, str]
    line: int
    file: str
    text: str = ""
    """Text directly inside the element, stripped."""
    children: list[XmlElement] = field(default_factory=list)
    source: bytes = b""
    """Bytes of the whole document; shared, not copied."""
    start: int = 0
    end: int = 0

    @property
    def origin(self) -> Origin:
        """File and line."""
        return Origin(self.file, self.line)

    @property
    def verbatim(self) -> str:
        """The element's source text, from its opening to its closing tag."""
        return self.source[self.start : self.end].decode("utf-8", "replace")

    def find(self, path: str) -> XmlElement | None:
        """First descendant at a path of tags such as `a/b`, or None."""
        if "/" not in path:
            return next((c for c in self.children if c.tag == path), None)
        return next(iter(self.find_all(path)), None)

    def find_all(self, path: str) -> list[XmlElement]:
        """Descendants at a path of tags such as `a/b`, in document order."""
        found: list[XmlElement] = [self]
        for tag in path.split("/"):
            found = [c for element in found for c in element.children if c.tag == tag]
        return found

    def find_text(self, path: str) -> str:
        """Text of the first descendant at a path; empty if there is none."""
        found = self.find(path)
        return "" if found is None else found.text

    def get(self, name: str, default: str = "") -> str:
        """Attribute value."""
        return self.attributes.get(name, default)

    def iterate(self) -> Iterator[XmlElement]:
        """The element and its descendants in document order (preorder)."""
        stack: list[XmlElement] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))


def parse_xml(
    data: bytes,
    file: str,
    *,
    max_bytes: int = MAX_XML_BYTES,
    max_elements: int = MAX_XML_ELEMENTS,
    max_items: int = MAX_XML_ITEMS,
) -> XmlElement:
    """Root element of an XML document; raises `ReadError` with file and line if it is malformed or exceeds a limit.

    Args:
        data: the document.
        file: file name for origins and errors.
        max_bytes: maximum length of `data`.
        max_elements: maximum number of elements.
        max_items: maximum number of elements and attributes.
    """
    if len(data) > max_bytes:
        raise ReadError(f"{file}: the file has {len(data)} bytes; at most {max_bytes} are read")
    return _TreeBuilder(data, file, max_elements, max_items).build()


class _TreeBuilder:
    def __init__(self, data: bytes, file: str, max_elements: int, max_items: int) -> None:
        if not data.strip():
            raise ReadError(f"{file}: the file is empty")
        if b"\x00" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ReadError(f"{file}: this is a binary file, not XML")
        self.data, self.file = _as_utf8(data, file), file
        self.root: XmlElement | None = None
        self.stack: list[XmlElement] = []
        self.texts: list[list[str]] = []
        self.max_elements, self.max_items = max_elements, max_items
        self.n_elements = self.n_items = 0
        self.parser = expat.ParserCreate("utf-8")
        self.parser.buffer_text = True
        self.parser.StartElementHandler = self._start
        self.parser.EndElementHandler = self._end
        self.parser.CharacterDataHandler = self._characters
        self.parser.StartDoctypeDeclHandler = self._doctype
        self.parser.EntityDeclHandler = self._doctype

    def build(self) -> XmlElement:
        try:
            self.parser.Parse(self.data, True)
        except expat.ExpatError as error:
            message = expat.errors.messages[error.code]
            raise self._read_error(f"not well-formed XML: {message}", error.lineno) from None
        assert self.root is not None  # expat reports an error for a document without an element
        return self.root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        """Expat handler of a start tag: append an element with its line and byte position; check the limits."""
        self.n_elements += 1
        self.n_items += 1 + len(attributes)
        if len(self.stack) >= MAX_XML_DEPTH:
            raise self._read_error(f"elements are nested more than {MAX_XML_DEPTH} deep")
        if self.n_elements > self.max_elements:
            raise self._read_error(f"the file has more than {self.max_elements} elements")
        if self.n_items > self.max_items:
            raise self._read_error(f"the file has more than {self.max_items} elements and attributes")
        element = XmlElement(tag, attributes, self.parser.CurrentLineNumber, self.file, source=self.data)
        element.start = self.parser.CurrentByteIndex
        if self.stack:
            self.stack[-1].children.append(element)
        else:
            self.root = element
        self.stack.append(element)
        self.texts.append([])

    def _end(self, tag: str) -> None:
        element = self.stack.pop()
        element.text = "".join(self.texts.pop()).strip()
        closing = self.parser.CurrentByteIndex
        was_empty_tag = not element.children and not element.text and self.data.endswith(b"/>", 0, closing)
        # the position is after an empty tag `<a/>`, but before a closing tag `</a>`
        element.end = closing if was_empty_tag else self.data.index(b">", closing) + 1

    def _characters(self, text: str) -> None:
        if self.texts:
            self.texts[-1].append(text)

    def _doctype(self, *_: object) -> None:
        raise self._read_error("document type declarations and entities are not accepted")

    def _read_error(self, message: str, line: int | None = None) -> ReadError:
        return ReadError(f"{self.file}:{line or self.parser.CurrentLineNumber}: {message}")


def _as_utf8(data: bytes, file: str) -> bytes:
    """Re-encode a document from its declared encoding to UTF-8.

    Expat reports byte offsets in UTF-8, which then index the returned bytes.
    """
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        encoding = "utf-16"
    else:
        head = data[:200].split(b"?>")[0]
        encoding = "utf-8-sig"
        if head.lstrip(b"\xef\xbb\xbf \t\r\n").startswith(b"<?xml") and b"encoding" in head:
            declared = head.split(b"encoding", 1)[1].lstrip(b" =\t").strip()
            encoding = declared[1:].split(declared[:1])[0].decode("ascii", "replace") or encoding
    try:
        return data.decode("utf-8-sig" if encoding.lower().replace("-", "") == "utf8" else encoding).encode()
    except LookupError:
        raise ReadError(f"{file}:1: unknown text encoding {encoding!r}") from None
    except (UnicodeError, ValueError) as error:
        line = data[: getattr(error, "start", 0)].count(b"\n") + 1
        raise ReadError(f"{file}:{line}: the text is not {encoding}") from None
