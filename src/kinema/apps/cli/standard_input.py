"""The standard input as a file: readers take files only, and nobody who reads what they say shall see that."""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from kinema.foundation import ReadError

STANDARD = Path("-")
"""What the standard input and output are called on the command line."""
_SHOWN = "<stdin>"
_FOLDER, _STEM = "kinema-stdin-", "stdin"
_COPY = re.compile(rf"[^\s\"'<>()]*{_FOLDER}\w+[/\\]+{_STEM}\.\w+")
_MOST_BYTES = 512 * 2**20
_BEGINNINGS = {
    b"#usda": ".usda",
    b"PXR-USDC": ".usdc",
    b"PK\x03\x04": ".usdz",
    b"ISO-10303-21": ".step",
    b"{": ".json",
}


@contextmanager
def standard_input() -> Iterator[Path]:
    """A file with what the standard input holds, as long as it is needed."""
    data = sys.stdin.buffer.read(_MOST_BYTES + 1)
    if len(data) > _MOST_BYTES:
        raise ReadError(f"the standard input has more than {_MOST_BYTES} bytes, which are not read")
    if not data.strip():
        raise ReadError("the standard input is empty")
    begin = data.lstrip()
    suffix = next((s for word, s in _BEGINNINGS.items() if begin.startswith(word)), ".xml")
    if suffix == ".xml" and b"xacro:" in data:
        suffix = ".xacro"
    with tempfile.TemporaryDirectory(prefix=_FOLDER) as folder:
        copy = Path(folder) / f"{_STEM}{suffix}"
        copy.write_bytes(data)
        yield copy


def shown(text: str) -> str:
    """A text for people or programs: the file that the standard input was copied to is called `<stdin>`."""
    return _COPY.sub(_SHOWN, text) if _FOLDER in text else text
