"""Our own script in the page, before the library's."""

from __future__ import annotations

import gzip
from functools import lru_cache
from pathlib import Path
from typing import Any

_HEAD = b"<head>"


def with_script(response: Any, *, smooth: bool) -> Any:
    """The answer to a request, with our script in it where it is the page; all others as they are.

    Args:
        response: what the library's server answers.
        smooth: whether edges are smoothed even where a CPU draws, which doubles the time of a frame.
    """
    if "text/html" not in response.headers.get("Content-Type", ""):
        return response
    zipped = response.headers.get("Content-Encoding") == "gzip"
    response.body = _joined(response.body, zipped, smooth)
    del response.headers["Content-Length"]
    response.headers["Content-Length"] = str(len(response.body))
    response.headers["Cache-Control"] = "no-store"
    return response


@lru_cache(maxsize=4)
def _joined(body: bytes, zipped: bool, smooth: bool) -> bytes:
    own = Path(__file__).with_name("page.js").read_text(encoding="utf-8")
    script = f"<script>window.kinemaSmooth={str(smooth).lower()};{own}</script>".encode()
    text = gzip.decompress(body) if zipped else body
    text = text.replace(_HEAD, _HEAD + script, 1)
    return gzip.compress(text, 6) if zipped else text
