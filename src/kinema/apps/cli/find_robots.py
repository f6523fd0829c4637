"""The robot descriptions in a folder."""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path

from kinema.foundation import ReadError
from kinema.read import FORMATS, detect_format

_USD_SUFFIXES = {".usd", ".usda", ".usdc", ".usdz"}
SUFFIXES = {".urdf", ".xacro", ".sdf", ".world", ".xml", ".mjcf", *_USD_SUFFIXES}
"""Of the files that are looked into."""
_NOT_ROBOTS = {"package.xml"}


def find_robots(folder: Path) -> list[Path]:
    """The robot descriptions in a folder and all below it, sorted: what a reader would be given.

    XML files that are something else are left out, and so are USD layers that another stage in the folder loads, and
    whatever lies in hidden folders.
    """
    found = [file for file in sorted(folder.rglob("*")) if _is_robot(file) and not _is_hidden(file, folder)]
    parts = _loaded_layers(file for file in found if file.suffix.lower() in _USD_SUFFIXES)
    return [file for file in found if file.resolve() not in parts]


def _is_robot(file: Path) -> bool:
    if file.suffix.lower() not in SUFFIXES or file.name in _NOT_ROBOTS or not file.is_file():
        return False
    try:
        return detect_format(file.read_bytes(), file) in FORMATS
    except (ReadError, OSError):
        return False


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _loaded_layers(stages: Iterable[Path]) -> set[Path]:
    """The files that these stages load, directly; a stage that cannot be opened loads none."""
    result: set[Path] = set()
    for stage in stages:
        place = stage.resolve()
        loaded = {(place.parent / reference).resolve() for reference in _references(stage)}
        result |= loaded - {place}
    return result


def _references(stage: Path) -> list[str]:
    try:
        from pxr import Sdf, Tf
    except ImportError:  # there are platforms without it; the reader will say so of each stage
        return []
    try:
        layer = Sdf.Layer.OpenAsAnonymous(str(stage))
        return [] if layer is None else [r for r in layer.GetCompositionAssetDependencies() if r]
    except Tf.ErrorException:
        return []
