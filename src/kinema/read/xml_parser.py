"""XML parser for untrusted files: bounded size and depth, no entities, line numbers per element.

Document type declarations are rejected (hence no entity expansion and no external files). Names keep their prefixes as
written, because robot files use undeclared prefixes. Malformed XML that the parsers of MuJoCo, ROS and Gazebo accept
(missing spaces between attributes, double dashes in comments, bare ampersands, blank lines or comments before `<?xml
...?>`) is repaired in memory, with line numbers preserved, but only after the strict parser has rejected the text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from xml.parsers import expat

from kinema.core import Diagnostics, Origin, ReadError

# -- strict parser -----------------------------------------------------------------------------------------------------

MAX_BYTES = 64 * 2**20
MAX_DEPTH = 500
MAX_ELEMENTS = 250_000


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

    def find(self, tag: str) -> XmlElement | None:
        """First child with the given tag, or None."""
        return next((c for c in self.children if c.tag == tag), None)

    def find_all(self, tag: str) -> list[XmlElement]:
        """Children with the given tag."""
        return [c for c in self.children if c.tag == tag]

    def iterate(self) -> Iterator[XmlElement]:
        """The element and its descendants in document order (preorder)."""
        stack: list[XmlElement] = [self]
        while stack:
            element = stack.pop()
            yield element
            stack.extend(reversed(element.children))


def parse_xml(data: bytes, file: str) -> XmlElement:
    """Root element of an XML document; raises `ReadError` with file and line if it is malformed."""
    return _TreeBuilder(data, file).build()


class _TreeBuilder:
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
            raise self._read_error(f"not well-formed XML: {message}", error.lineno) from None
        assert self.root is not None  # expat reports an error for a document without an element
        return self.root

    def _start(self, tag: str, attributes: dict[str, str]) -> None:
        self.count += 1
        if len(self.stack) >= MAX_DEPTH:
            raise self._read_error(f"elements are nested more than {MAX_DEPTH} deep")
        if self.count > MAX_ELEMENTS:
            raise self._read_error(f"the file has more than {MAX_ELEMENTS} elements")
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
    """Re-encode a document to UTF-8 from its declared encoding, so that parser offsets index the returned bytes."""
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


# -- tolerant parser ---------------------------------------------------------------------------------------------------

_START_TAG = re.compile(rb"""<[A-Za-z_][^\s<>/"'=]*(?:[^<>"']|"[^"]*"|'[^']*')*>""")
_ATTRIBUTE_VALUE = re.compile(rb"""=(\s*)("[^"]*"|'[^']*')(?=([A-Za-z_:])?)""")
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)")
_LATE_DECLARATION = re.compile(rb"\A(\s+)(<\?xml\s.*?\?>)", re.DOTALL)
_ERROR_LOCATION = re.compile(r":(\d+): not well-formed XML: (.*)$", re.DOTALL)


def parse_xml_tolerant(data: bytes, file: str, diagnostics: Diagnostics, format: str) -> XmlElement:
    """Parse an XML document; malformed XML that simulators accept is repaired with a warning.

    Raises `ReadError` if the repaired text is malformed too.

    Args:
        data: the document.
        file: file name for diagnostics.
        diagnostics: receives the warning.
        format: `urdf`, `sdf` or `mjcf`, the prefix of the diagnostic code.
    """
    try:
        return parse_xml(data, file)
    except ReadError as error:
        location = _ERROR_LOCATION.search(str(error))
        if location is None:
            raise
        try:
            root = parse_xml(_repair(data), file)
        except ReadError:
            raise error from None
    message = f"the text is not well-formed XML ({location.group(2)}); it is read as it was meant"
    hint = "put a space between attributes, no '--' into comments, nothing before '<?xml', and write '&' as '&amp;'"
    diagnostics.warning(f"{format}.not-well-formed", message, hint=hint, origin=Origin(file, int(location.group(1))))
    return root


def _repair(data: bytes) -> bytes:
    """Repair malformed XML: blank comments, separate attributes, escape values; line numbers are preserved."""
    text = _LATE_DECLARATION.sub(rb"\2\1", _without_comments(data).removeprefix(b"\xef\xbb\xbf"), count=1)
    return _START_TAG.sub(lambda found: _repair_tag(found.group()), text)


def _without_comments(data: bytes) -> bytes:
    kept: list[bytes] = []
    position = 0
    while (start := data.find(b"<!--", position)) >= 0 and (end := data.find(b"-->", start + 4)) >= 0:
        kept += [data[position:start], b"\n" * data.count(b"\n", start, end)]
        position = end + 3
    return b"".join([*kept, data[position:]])


def _repair_tag(tag: bytes) -> bytes:
    def repaired(match: re.Match[bytes]) -> bytes:
        separator = b" " if match.group(3) else b""
        return b"=" + match.group(1) + _escape_value(match.group(2)) + separator

    return _ATTRIBUTE_VALUE.sub(repaired, tag)


def _escape_value(value: bytes) -> bytes:
    return _BARE_AMPERSAND.sub(b"&amp;", value).replace(b"<", b"&lt;")
