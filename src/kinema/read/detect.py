"""Which format a file is in, from its first bytes, then from its suffix."""

from __future__ import annotations

import re
from pathlib import Path

from kinema.foundation import ReadError

_BY_ROOT = {"robot": "urdf", "sdf": "sdf", "gazebo": "sdf", "mujoco": "mjcf", "mujocoinclude": "mjcf"}
_BY_SUFFIX = {
    ".urdf": "urdf",
    ".xacro": "urdf",
    ".sdf": "sdf",
    ".world": "sdf",
    ".mjcf": "mjcf",
    ".step": "step",
    ".stp": "step",
}
_USD_SUFFIXES = {".usd", ".usda", ".usdc", ".usdz"}
_BEFORE_ROOT = re.compile(rb"\s+|<\?.*?\?>|<!--.*?-->|<!DOCTYPE[^\[>]*(\[.*?\]\s*)?>", re.DOTALL)
_ROOT = re.compile(rb"<([A-Za-z_][\w.:-]*)")
_SNAPSHOT = re.compile(rb'"kinema"\s*:\s*"cad-snapshot"')


def detect_format(data: bytes, file: Path) -> str:
    """`urdf`, `sdf`, `mjcf`, `usd`, `cad` or `step`; a `ReadError` that names the formats where it is none of them."""
    if data.startswith((b"#usda", b"PXR-USDC")) or file.suffix.lower() in _USD_SUFFIXES:
        return "usd"
    is_json = data.removeprefix(b"\xef\xbb\xbf").lstrip()[:1] == b"{"
    if is_json and _SNAPSHOT.search(data):
        return "cad"
    if data.removeprefix(b"\xef\xbb\xbf").lstrip().startswith(b"ISO-10303-21"):
        return "step"
    root = _root_tag(data)
    if root in _BY_ROOT:
        return _BY_ROOT[root]
    if file.suffix.lower() in _BY_SUFFIX:
        return _BY_SUFFIX[file.suffix.lower()]  # its reader says what is wrong with it
    if not data.strip():
        raise ReadError(f"{file}: the file is empty")
    if is_json:
        raise ReadError(f'{file}: this is JSON, but no CAD snapshot: it has no field "kinema": "cad-snapshot"')
    what = f"its root element is <{root}>" if root else "it is not XML"
    raise ReadError(f"{file}: this is no robot description: {what}; expected <robot> (URDF), <sdf> or <mujoco> (MJCF)")


def _root_tag(data: bytes) -> str:
    """The name of the first element."""
    if data.startswith((b"\xff\xfe", b"\xfe\xff")):
        data = data.decode("utf-16", "replace").encode()
    position = 3 if data.startswith(b"\xef\xbb\xbf") else 0
    while skipped := _BEFORE_ROOT.match(data, position):
        position = skipped.end()
    found = _ROOT.match(data, position)
    return found.group(1).decode() if found else ""
