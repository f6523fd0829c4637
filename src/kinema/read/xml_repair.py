"""XML as the parser of MuJoCo, ROS and Gazebo takes it: a little more than XML allows.

Real robot files have attributes without a space between them, dashes in comments, bare ampersands, and blank lines or a
comment before `<?xml ...?>`. They are mended in memory, line by line where they stand, and only after a strict parser
has refused the text.
"""

from __future__ import annotations

import re

from kinema.foundation import Diagnostics, Origin, ReadError

from .xml_text import XmlElement, parse_xml

_START_TAG = re.compile(rb"""<[A-Za-z_][^\s<>/"'=]*(?:[^<>"']|"[^"]*"|'[^']*')*>""")
_VALUE = re.compile(rb"""=(\s*)("[^"]*"|'[^']*')(?=([A-Za-z_:])?)""")
_BARE_AMPERSAND = re.compile(rb"&(?!(?:amp|lt|gt|quot|apos|#\d+|#x[0-9a-fA-F]+);)")
_LATE_DECLARATION = re.compile(rb"\A(\s+)(<\?xml\s.*?\?>)", re.DOTALL)
_PLACE = re.compile(r":(\d+): not well-formed XML: (.*)$", re.DOTALL)


def parse_tolerant(data: bytes, file: str, diagnostics: Diagnostics, format: str) -> XmlElement:
    """The root element; a warning where the text is no XML but simulators take it, a `ReadError` otherwise.

    Args:
        data: the text.
        file: its name.
        diagnostics: where to warn.
        format: `urdf`, `sdf` or `mjcf`, for the code of the warning.
    """
    try:
        return parse_xml(data, file)
    except ReadError as error:
        refused = _PLACE.search(str(error))
        if refused is None:
            raise
        try:
            root = parse_xml(_mend(data), file)
        except ReadError:
            raise error from None
    message = f"the text is not well-formed XML ({refused.group(2)}); it is read as it was meant"
    hint = "put a space between attributes, no '--' into comments, nothing before '<?xml', and write '&' as '&amp;'"
    diagnostics.warning(f"{format}.not-well-formed", message, hint=hint, origin=Origin(file, int(refused.group(1))))
    return root


def _mend(data: bytes) -> bytes:
    """The text with comments blanked, attributes kept apart and values escaped; every line stays where it was."""
    text = _LATE_DECLARATION.sub(rb"\2\1", _without_comments(data).removeprefix(b"\xef\xbb\xbf"), count=1)
    return _START_TAG.sub(lambda found: _mend_tag(found.group()), text)


def _without_comments(data: bytes) -> bytes:
    kept: list[bytes] = []
    position = 0
    while (start := data.find(b"<!--", position)) >= 0 and (end := data.find(b"-->", start + 4)) >= 0:
        kept += [data[position:start], b"\n" * data.count(b"\n", start, end)]
        position = end + 3
    return b"".join([*kept, data[position:]])


def _mend_tag(tag: bytes) -> bytes:
    def mended(found: re.Match[bytes]) -> bytes:
        separator = b" " if found.group(3) else b""
        return b"=" + found.group(1) + _escape(found.group(2)) + separator

    return _VALUE.sub(mended, tag)


def _escape(value: bytes) -> bytes:
    return _BARE_AMPERSAND.sub(b"&amp;", value).replace(b"<", b"&lt;")
