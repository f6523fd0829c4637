"""From the references in a file (`package://`, `model://`, relative paths) to files, never outside the allowed roots.

Allowed are the folder of the file being read, the package it lies in (the nearest folder above with a `package.xml`
or `model.config`), and whatever search paths the user gives or `ROS_PACKAGE_PATH`, `AMENT_PREFIX_PATH`,
`GZ_SIM_RESOURCE_PATH` and `SDF_PATH` name. Because many robot descriptions are laid out that way, a mesh or texture
may also lie up to two folders above (`../meshes/arm.stl`, `../../common/wheel.stl`) and another description one above
(`../hands/left.xml`), each known by its suffix. Within a Python package, as which many collections of robots are
installed, they may lie anywhere. A package that is nowhere to be found may be the folder that the file lies in, under
another name: if the mesh or texture is there, it is taken, and that is said.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

from kinema.foundation import Diagnostics, Origin

_MARKERS = ("package.xml", "model.config")
_PYTHON_MARKER = "__init__.py"
_ENVIRONMENT = ("ROS_PACKAGE_PATH", "AMENT_PREFIX_PATH", "GZ_SIM_RESOURCE_PATH", "GAZEBO_MODEL_PATH", "SDF_PATH")
_OUTSIDE = "it lies outside the folders that may be read; give its folder as a search path"
_MAX_CLIMB = 16
_MESH_SUFFIXES = {".stl", ".obj", ".dae", ".ply", ".off", ".glb", ".gltf", ".msh", ".bin"}
_IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".tga", ".bmp", ".tif", ".tiff", ".hdr", ".exr", ".ktx", ".ktx2"}
ASSET_SUFFIXES = frozenset(_MESH_SUFFIXES | _IMAGE_SUFFIXES)
DESCRIPTION_SUFFIXES = frozenset({".xml", ".mjcf", ".urdf", ".xacro", ".sdf", ".usd", ".usda", ".usdc", ".usdz"})
_LEVELS_UP = ((ASSET_SUFFIXES, 2), (DESCRIPTION_SUFFIXES, 1))
"""How far above the file's own folder files of a kind may be reached."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """What a reference leads to: a file, or the reason why not."""

    path: Path | None
    reason: str = ""
    """Why there is no file; or, where there is one, why it may be another than the one that is meant."""
    refused: bool = False
    """Whether it is there, and may not be read."""

    def __bool__(self) -> bool:
        return self.path is not None


@dataclass(slots=True)
class Resolver:
    """Finds referenced files."""

    search_paths: Sequence[Path | str] = ()
    """Folders that are packages or hold packages or models; also allowed roots."""
    use_environment: bool = True
    extra_roots: list[Path] = field(default_factory=list)
    """Folders that may be read beside those the rule allows."""
    _homes: dict[Path, Path] = field(default_factory=dict, init=False, repr=False, compare=False)
    """The folders of files that others were referenced from."""

    def resolve(self, uri: str, from_file: str | Path) -> Resolved:
        """The file a reference names, as seen from the file it stands in."""
        uri = uri.strip()
        if not uri:
            return Resolved(None, "the reference is empty")
        if "\x00" in uri:
            return Resolved(None, "the reference holds a NUL character")
        scheme, separator, rest = uri.partition("://")
        if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
            return self._relative(uri, Path(from_file))
        match scheme.lower():
            case "package" | "model":
                return self._package(unquote(rest).lstrip("/"), Path(from_file))
            case "file":
                return self._relative(unquote(rest.removeprefix("localhost")), Path(from_file))
            case _:
                return Resolved(None, f"{scheme}:// references are not fetched")

    def roots(self, from_file: Path) -> list[Path]:
        """The folders that files may be read from, for a file at that place."""
        home = self._home(from_file)
        candidates = [home, *self.extra_roots, *self._searched()]
        package = _enclosing_package(home)
        if package is not None:
            candidates.append(package)
        return [_real(Path(c)) for c in candidates]

    def is_allowed(self, path: Path, from_file: Path) -> bool:
        """Whether a file may be read when it is referenced from another."""
        real, home = _real(path), self._home(from_file)
        if real.is_relative_to(home) or any(real.is_relative_to(root) for root in self.roots(from_file)):
            return True
        above = list(_climb(home))[1:]
        python = _python_package(home)
        return any(
            real.suffix.lower() in suffixes
            and any(real.is_relative_to(folder) for folder in (*above[:levels], *python))
            for suffixes, levels in _LEVELS_UP
        )

    def _home(self, file: Path) -> Path:
        """The folder of a file, without symbolic links."""
        if file not in self._homes:
            self._homes[file] = _real(file).parent
        return self._homes[file]

    def _searched(self) -> Iterator[Path]:
        yield from (Path(p) for p in self.search_paths)
        if self.use_environment:
            for variable in _ENVIRONMENT:
                for entry in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                    yield Path(entry)
                    if variable == "AMENT_PREFIX_PATH":
                        yield Path(entry) / "share"

    def _relative(self, reference: str, from_file: Path) -> Resolved:
        path = Path(reference)
        candidates = [from_file.parent / path]
        if not path.is_absolute():
            candidates += [root / path for root in self._searched()]
        return self._first(((c, None) for c in candidates), from_file, reference)

    def _package(self, reference: str, from_file: Path) -> Resolved:
        package, _, inside = reference.partition("/")
        if package in ("", ".", ".."):
            return Resolved(None, f"{package!r} is not a package name")
        candidates = [(folder / inside, folder) for folder in self._package_folders(package, from_file)]
        if not candidates:
            return self._under_another_name(package, inside, from_file)
        return self._first(candidates, from_file, reference)

    def _under_another_name(self, package: str, inside: str, from_file: Path) -> Resolved:
        """A mesh or texture of a package that is missing, where the file's own folders have one at that place."""
        whole = f"{package}/{inside}".rstrip("/")
        if Path(whole).suffix.lower() in ASSET_SUFFIXES:
            for folder in folders_around(from_file):
                if inside and (found := self._first([(folder / inside, None)], from_file, inside)):
                    return Resolved(found.path, stand_in_words(package, folder))
                if found := self._first([(folder / whole, None)], from_file, whole):  # package://wheel.obj
                    return Resolved(found.path, stand_in_words(package, (folder / whole).parent))
        return Resolved(None, f"package {package!r} was not found; give its folder as a search path")

    def _package_folders(self, package: str, from_file: Path) -> Iterator[Path]:
        """Where a package may lie: search paths, then the folders around the file."""
        for root in self._searched():
            if root.name == package or _package_name(root) == package:
                yield root
            if (root / package).is_dir():
                yield root / package
        home = _real(from_file).parent
        if (home / package).is_dir():
            yield home / package
        for folder in _climb(home):
            if folder.name == package or _package_name(folder) == package:
                yield folder
            # a folder beside that merely has the right name could be anything (/etc), a marked one is a package
            if _is_marked(folder / package):
                yield folder / package

    def _first(self, candidates: Iterable[tuple[Path, Path | None]], from_file: Path, reference: str) -> Resolved:
        """The first candidate that exists and may be read; each comes with the package it was looked up in."""
        refused = False
        for candidate, package in candidates:
            try:
                if not candidate.exists():
                    continue
            except (OSError, ValueError):
                return Resolved(None, f"{reference!r} is not a usable path")
            if self.is_allowed(candidate, from_file) or (package is not None and _belongs_to(candidate, package)):
                return Resolved(_real(candidate))
            refused = True
        if refused:
            return Resolved(None, _OUTSIDE, refused=True)
        return Resolved(None, "there is no such file")


def folders_around(file: Path) -> list[Path]:
    """The folders that may be the package a file belongs to: the marked one it lies in, then its own and two above."""
    home = _real(file).parent
    package = _enclosing_package(home)
    return [*([] if package is None else [package]), *list(_climb(home))[:3]]


def stand_in_words(package: str, folder: Path) -> str:
    """What is said where a folder stands in for a package that is missing."""
    return f"package {package!r} was not found; the folder {folder.name!r} around the file stands in"


def warn_of_stand_in(found: Resolved, diagnostics: Diagnostics, format: str, origin: Origin) -> None:
    """Say, once for each package, that the file behind a reference may be another than the one that is meant."""
    code = f"{format}.package-stand-in"
    is_said = any(d.code == code and d.message == found.reason for d in diagnostics.items)
    if found.path is not None and found.reason and not is_said:
        hint = "give the folder of the package as a search path if that is another one"
        diagnostics.warning(code, found.reason, hint=hint, origin=origin)


def _belongs_to(candidate: Path, package: Path) -> bool:
    """Whether a file lies in its package; in a folder without a manifest only meshes and textures do."""
    real = _real(candidate)
    return real.is_relative_to(_real(package)) and (_is_marked(package) or real.suffix.lower() in ASSET_SUFFIXES)


def _is_marked(folder: Path) -> bool:
    return any((folder / marker).is_file() for marker in _MARKERS)


def _climb(folder: Path) -> Iterator[Path]:
    """The folder and those above it, without the root of the file system."""
    for i, candidate in enumerate([folder, *folder.parents]):
        if i > _MAX_CLIMB or candidate == candidate.parent:
            return
        yield candidate


def _real(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _enclosing_package(folder: Path) -> Path | None:
    return next((f for f in _climb(folder) if _is_marked(f)), None)


def _python_package(folder: Path) -> list[Path]:
    """The outermost Python package around a folder, which need not be one itself; none where there is none."""
    nearest = next((f for f in _climb(folder) if (f / _PYTHON_MARKER).is_file()), None)
    if nearest is None:
        return []
    return list(takewhile(lambda f: (f / _PYTHON_MARKER).is_file(), _climb(nearest)))[-1:]


def _package_name(folder: Path) -> str:
    """The name a folder's `package.xml` declares."""
    manifest = folder / "package.xml"
    try:
        text = manifest.read_bytes()[:65536]
    except OSError:
        return ""
    found = re.search(rb"<name>\s*([^<\s]+)\s*</name>", text)
    return found.group(1).decode("utf-8", "replace") if found else ""
