"""Files that mesh files refer to: material libraries and textures."""

from __future__ import annotations

import re
from pathlib import Path
from urllib.parse import unquote

_REFERENCES = {
    ".obj": (rb"^[ \t]*mtllib[ \t]+(.+?)[ \t]*\r?$",),
    ".mtl": (rb"^[ \t]*(?:map_\w+|bump|disp|decal|refl|norm)[ \t]+(?:-\w+[ \t]+\S+[ \t]+)*(.+?)[ \t]*\r?$",),
    ".dae": (rb"<init_from>\s*([^<#]+?)\s*</init_from>", rb"<ref>\s*([^<#]+?)\s*</ref>"),
}


def sidecars(mesh: Path) -> list[str]:
    """The files beside a mesh file that it needs to look as it should, relative to it and in a fixed order.

    Only files in its own folder or below are named: a reference that leads out of it is none of ours to follow.
    """
    found: list[str] = []
    waiting = [mesh]
    while waiting:
        for name in _referred(waiting.pop()):
            path = mesh.parent / name
            if name not in found and _is_below(path, mesh.parent):
                found.append(name)
                waiting.append(path)
    return found


def _referred(file: Path) -> list[str]:
    patterns = _REFERENCES.get(file.suffix.lower(), ())
    try:
        data = file.read_bytes() if patterns else b""
    except OSError:
        return []
    return [
        unquote(m.decode("utf-8", "replace")).replace("\\", "/")
        for p in patterns
        for m in re.findall(p, data, re.MULTILINE)
    ]


def _is_below(path: Path, folder: Path) -> bool:
    try:
        return path.is_file() and path.resolve().is_relative_to(folder.resolve())
    except (OSError, ValueError):
        return False
