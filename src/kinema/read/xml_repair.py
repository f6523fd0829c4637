"""XML parsing with repair of malformed text that the parsers of MuJoCo, ROS and Gazebo accept.

Missing spaces between attributes, double dashes in comments, bare ampersands, and blank lines or comments before `<?xml
...?>` are repaired in memory, with line numbers preserved, but only after the strict parser has rejected the text.
"""

from __future__ import annotations

import re

from kinema.core import Diagnostics, Origin, ReadError, XmlElement, parse_xml

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
