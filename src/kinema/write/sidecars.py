"""Files that mesh files refer to: material libraries and textures."""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from urllib.parse import unquote

from kinema.shapes import IMAGE_SUFFIXES

_MTL_OPTIONS = rb"(?:-\w+(?:[ \t]+(?:on|off|[rgbmlz]|[-+]?[\d.]+(?:[eE][-+]?\d+)?))*[ \t]+)*"
_REFERENCES = {
    ".obj": (rb"^[ \t]*mtllib[ \t]+(.+?)[ \t]*\r?$",),
    ".mtl": (rb"^[ \t]*(?:map_\w+|bump|disp|decal|refl|norm)[ \t]+" + _MTL_OPTIONS + rb"(.+?)[ \t]*\r?$",),
    ".gltf": (rb'"uri"\s*:\s*"((?!data:)[^"]+)"',),
    ".dae": (rb"<init_from>\s*([^<#]+?)\s*</init_from>", rb"<ref>\s*([^<#]+?)\s*</ref>"),
}


def sidecars(mesh: Path) -> tuple[list[str], list[str]]:
    """The files that a mesh file needs to look as it should, relative to it and in a fixed order.

    First those that go along with it: files in its own folder or below, and images in the folder above
    (`../textures/a.png`), which keep their place against the mesh. Then the images that lie too far away for that.
    """
    along, away = [], []
    for name in _all_referred(mesh):
        if _can_go_along(mesh, name):
            along.append(name)
        elif Path(name).suffix.lower() in IMAGE_SUFFIXES and (mesh.parent / name).is_file():
            away.append(name)
    return along, away


def _all_referred(mesh: Path) -> list[str]:
    found: list[str] = []
    waiting = [mesh]
    while waiting:
        for name in _referred(waiting.pop()):
            if name not in found:
                found.append(name)
                if _can_go_along(mesh, name):
                    waiting.append(mesh.parent / name)
    return found


def _can_go_along(mesh: Path, name: str) -> bool:
    path = mesh.parent / name
    if _is_below(path, mesh.parent):
        return True
    is_near = posixpath.normpath(name).count("..") == 1 and not posixpath.isabs(name)
    return is_near and path.suffix.lower() in IMAGE_SUFFIXES and _is_below(path, mesh.parent.parent)


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
