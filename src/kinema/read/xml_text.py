"""XML text to a tree of elements that know their line, safely: files come from strangers.

A document type declaration is refused (no entities, so no entity bombs and no external files), and size, depth and
number of elements are bounded. Names keep their prefixes as written: robot files use undeclared ones.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from kinema.foundation import Origin, ReadError

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 500
MAX_ELEMENTS = 250_000


@dataclass(slots=True, eq=False)
class XmlElement:
    """An element with its place in the file."""

    tag: str
    attributes: dict[str, str]
    line: int
    file: str
    text: str = ""
    """The text directly inside it, stripped."""
    children: list[XmlElement] = field(default_factory=list)
    source: bytes = b""
    """The whole document; shared, not copied."""
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

    def find(self, tag: str) -> XmlElement | None:
        """The first child with that tag."""
        return next((c for c in self.children if c.tag == tag), None)

    def find_all(self, tag: str) -> list[XmlElement]:
        """The children with that tag."""
        return [c for c in self.children if c.tag == tag]

    def iterate(self) -> Iterator[XmlElement]:
        """This element and all below it, in document order."""
        stack: list[XmlElement] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))


def parse_xml(data: bytes, file: str) -> XmlElement:
    """The root element of a document, or a `ReadError` that says what is wrong and where."""
    return _Builder(data, file).build()


class _Builder:
    def __init__(self, data: bytes, file: str) -> None:
        if len(data) > MAX_BYTES:
            raise ReadError(f"{file}: the file has {len(data)} bytes; at most {MAX_BYTES} are read")
        if not data.strip():
            raise ReadError(f"{file}: the file is empty")
        if b"\x00" in data[:4096] and not data.startswith((b"\xff\xfe", b"\xfe\xff")):
            raise ReadError(f"{file}: this is a binary file, not XML")
        self.data, self.file = _as_utf8(data, file), file
        self.root: XmlElement | None = None
        self.stack: list[XmlElement] = []
        self.texts: list[list[str]] = []
        self.count = 0
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
            raise self._refusal(f"not well-formed XML: {message}", error.lineno) from None
        assert self.root is not None  # expat reports an error for a document without an element
        return self.root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if len(self.stack) >= MAX_DEPTH:
            raise self._refusal(f"elements are nested more than {MAX_DEPTH} deep")
        if self.count > MAX_ELEMENTS:
            raise self._refusal(f"the file has more than {MAX_ELEMENTS} elements")
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
        # the parser stands behind an empty tag `<a/>`, but before a closing tag `</a>`
        element.end = closing if was_empty_tag else self.data.index(b">", closing) + 1

    def _characters(self, text: str) -> None:
        if self.texts:
            self.texts[-1].append(text)

    def _doctype(self, *_: object) -> None:
        raise self._refusal("document type declarations and entities are not accepted")

    def _refusal(self, message: str, line: int | None = None) -> ReadError:
        return ReadError(f"{self.file}:{line or self.parser.CurrentLineNumber}: {message}")


def _as_utf8(data: bytes, file: str) -> bytes:
    """The document in UTF-8, whatever it declares, so that byte offsets are offsets into what was parsed."""
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
