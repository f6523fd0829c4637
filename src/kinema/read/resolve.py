"""Resolves references in files (`package://`, `model://`, relative paths) to files within the allowed root folders.

Allowed roots are the folder of the file, the package around it (nearest parent folder with a `package.xml` or
`model.config`), and the search paths given by the user or by `ROS_PACKAGE_PATH`, `AMENT_PREFIX_PATH`,
`GZ_SIM_RESOURCE_PATH` and `SDF_PATH`. A mesh or texture (known by its suffix) may also lie up to two folders above
(`../meshes/arm.stl`, `../../common/wheel.stl`), another description one folder above (`../hands/left.xml`), and
anywhere within an enclosing Python package. If a package is not found, its
meshes and textures are looked up in the folders around the file instead; a match is reported.
"""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field
from itertools import takewhile
from pathlib import Path
from urllib.parse import unquote

from kinema.core import MAX_XML_BYTES, Diagnostics, Origin, ReadError

from .observations import observed

# -- reading of files --------------------------------------------------------------------------------------------------


def read_bytes(file: str | os.PathLike[str], *, limit: int = MAX_XML_BYTES) -> bytes:
    """Content of a regular file of at most `limit` bytes; raises `ReadError` if it cannot be read."""
    path = observed(Path(file))
    try:
        if not path.exists():
            raise ReadError(f"{path}: there is no such file")
        if not path.is_file():  # a folder, a pipe or a device: reading it could fail or never end
            raise ReadError(f"{path}: this is not a file")
        size = path.stat().st_size
        if size > limit:
            raise ReadError(f"{path}: the file has {size} bytes; at most {limit} are read")
        return path.read_bytes()
    except (OSError, ValueError) as error:
        reason = error.strerror if isinstance(error, OSError) and error.strerror else str(error)
        raise ReadError(f"{path}: {reason}") from None


# -- resolution of references ------------------------------------------------------------------------------------------

_PACKAGE_MANIFESTS = ("package.xml", "model.config")
_PYTHON_PACKAGE_FILE = "__init__.py"
ENVIRONMENT_VARIABLES = (
    "ROS_PACKAGE_PATH",
    "AMENT_PREFIX_PATH",
    "GZ_SIM_RESOURCE_PATH",
    "GAZEBO_MODEL_PATH",
    "SDF_PATH",
)
_OUTSIDE_MESSAGE = "it lies outside the folders that may be read; give its folder as a search path"
_MAX_ANCESTORS = 16
_MESH_SUFFIXES = {".stl", ".obj", ".dae", ".ply", ".off", ".glb", ".gltf", ".msh", ".bin"}
_IMAGE_SUFFIXES = {".png", ".jpg", ".jpeg", ".tga", ".bmp", ".tif", ".tiff", ".hdr", ".exr", ".ktx", ".ktx2"}
ASSET_SUFFIXES = frozenset(_MESH_SUFFIXES | _IMAGE_SUFFIXES)
DESCRIPTION_SUFFIXES = frozenset({".xml", ".mjcf", ".urdf", ".xacro", ".sdf", ".usd", ".usda", ".usdc", ".usdz"})
_MAX_LEVELS_UP = ((ASSET_SUFFIXES, 2), (DESCRIPTION_SUFFIXES, 1))
"""(suffixes, number of folder levels above the folder of the file in which such files may be read)."""


@dataclass(frozen=True, slots=True)
class Resolved:
    """Result of resolving a reference: a file, or the reason for the failure."""

    path: Path | None
    reason: str = ""
    """Reason for the failure; or, with a path, why the file may not be the intended one."""
    refused: bool = False
    """Whether the file exists but may not be read."""

    def __bool__(self) -> bool:
        return self.path is not None


@dataclass(slots=True)
class Resolver:
    """Resolves references to files within the allowed root folders."""

    search_paths: Sequence[Path | str] = ()
    """Folders that are packages or contain packages or models; also allowed roots."""
    use_environment: bool = True
    extra_roots: list[Path] = field(default_factory=list)
    """Additional allowed root folders."""
    _file_folders: dict[Path, Path] = field(default_factory=dict, init=False, repr=False, compare=False)
    """Cache: referencing file -> its folder, without symbolic links."""

    def resolve(self, uri: str, from_file: str | Path) -> Resolved:
        """Resolve a reference (`package://`, `model://`, `file://` or a path) in `from_file` to a readable file."""
        uri = uri.strip()
        if not uri:
            return Resolved(None, "the reference is empty")
        if "\x00" in uri:
            return Resolved(None, "the reference holds a NUL character")
        scheme, separator, rest = uri.partition("://")
        if not separator or not re.fullmatch(r"[A-Za-z][A-Za-z0-9+.-]*", scheme):
            return self._resolve_relative(uri, Path(from_file))
        match scheme.lower():
            case "package" | "model":
                return self._resolve_package(unquote(rest).lstrip("/"), Path(from_file))
            case "file":
                return self._resolve_relative(unquote(rest.removeprefix("localhost")), Path(from_file))
            case _:
                return Resolved(None, f"{scheme}:// references are not fetched")

    def allowed_roots(self, from_file: Path) -> list[Path]:
        """Folders from which files referenced in `from_file` may be read, without symbolic links."""
        home = self._folder_of(from_file)
        candidates = [home, *self.extra_roots, *self._search_folders()]
        package = _enclosing_package(home)
        if package is not None:
            candidates.append(package)
        return [_realpath(Path(c)) for c in candidates]

    def is_allowed(self, path: Path, from_file: Path) -> bool:
        """Whether a file may be read if it is referenced in `from_file`."""
        real, home = _realpath(path), self._folder_of(from_file)
        if real.is_relative_to(home) or any(real.is_relative_to(root) for root in self.allowed_roots(from_file)):
            return True
        above = list(_ancestor_folders(home))[1:]
        python = _python_package(home)
        return any(
            real.suffix.lower() in suffixes
            and any(real.is_relative_to(folder) for folder in (*above[:levels], *python))
            for suffixes, levels in _MAX_LEVELS_UP
        )

    def _folder_of(self, file: Path) -> Path:
        """The folder of a file, without symbolic links."""
        if file not in self._file_folders:
            self._file_folders[file] = _realpath(file).parent
        return self._file_folders[file]

    def _search_folders(self) -> Iterator[Path]:
        yield from (Path(p) for p in self.search_paths)
        if self.use_environment:
            for variable in ENVIRONMENT_VARIABLES:
                for entry in filter(None, os.environ.get(variable, "").split(os.pathsep)):
                    yield Path(entry)
                    if variable == "AMENT_PREFIX_PATH":
                        yield Path(entry) / "share"

    def _resolve_relative(self, reference: str, from_file: Path) -> Resolved:
        path = Path(reference)
        candidates = [from_file.parent / path]
        if not path.is_absolute():
            candidates += [root / path for root in self._search_folders()]
        return self._first_readable(((c, None) for c in candidates), from_file, reference)

    def _resolve_package(self, reference: str, from_file: Path) -> Resolved:
        package, _, inside = reference.partition("/")
        if package in ("", ".", ".."):
            return Resolved(None, f"{package!r} is not a package name")
        candidates = [(folder / inside, folder) for folder in self._package_folders(package, from_file)]
        if not candidates:
            return self._resolve_in_substitute_package(package, inside, from_file)
        return self._first_readable(candidates, from_file, reference)

    def _resolve_in_substitute_package(self, package: str, inside: str, from_file: Path) -> Resolved:
        """Look up an asset of a missing package in the folders around the referencing file."""
        whole = f"{package}/{inside}".rstrip("/")
        if Path(whole).suffix.lower() in ASSET_SUFFIXES:
            for folder in candidate_package_folders(from_file):
                if inside and (found := self._first_readable([(folder / inside, None)], from_file, inside)):
                    return Resolved(found.path, substitute_package_message(package, folder))
                if found := self._first_readable([(folder / whole, None)], from_file, whole):  # package://wheel.obj
                    return Resolved(found.path, substitute_package_message(package, (folder / whole).parent))
        return Resolved(None, f"package {package!r} was not found; give its folder as a search path")

    def _package_folders(self, package: str, from_file: Path) -> Iterator[Path]:
        """Candidate folders of a package: search paths first, then the folders around the file."""
        for root in self._search_folders():
            if root.name == package or _package_name(root) == package:
                yield root
            if observed(root / package).is_dir():
                yield root / package
        home = _realpath(from_file).parent
        if observed(home / package).is_dir():
            yield home / package
        for folder in _ancestor_folders(home):
            if folder.name == package or _package_name(folder) == package:
                yield folder
            # a sibling folder with the right name may be anything (/etc): it must have a manifest
            if _has_manifest(folder / package):
                yield folder / package

    def _first_readable(
        self, candidates: Iterable[tuple[Path, Path | None]], from_file: Path, reference: str
    ) -> Resolved:
        """First candidate (path, package folder) that exists and may be read."""
        refused = False
        for candidate, package in candidates:
            try:
                if not observed(candidate).exists():
                    continue
            except (OSError, ValueError):
                return Resolved(None, f"{reference!r} is not a usable path")
            if self.is_allowed(candidate, from_file) or (package is not None and _belongs_to(candidate, package)):
                return Resolved(_realpath(candidate))
            refused = True
        if refused:
            return Resolved(None, _OUTSIDE_MESSAGE, refused=True)
        return Resolved(None, "there is no such file")


def candidate_package_folders(file: Path) -> list[Path]:
    """Folders that may be the package of a file: folder with a manifest, own folder, two levels above."""
    home = _realpath(file).parent
    package = _enclosing_package(home)
    return [*([] if package is None else [package]), *list(_ancestor_folders(home))[:3]]


def substitute_package_message(package: str, folder: Path) -> str:
    """Text of the warning for a folder that is used in place of a missing package."""
    return f"package {package!r} was not found; the folder {folder.name!r} around the file stands in"


def warn_about_substitute_package(resolved: Resolved, diagnostics: Diagnostics, format: str, origin: Origin) -> None:
    """Warn once per package that a reference was resolved in a substitute package."""
    code = f"{format}.package-stand-in"
    is_reported = any(d.code == code and d.message == resolved.reason for d in diagnostics.items)
    if resolved.path is not None and resolved.reason and not is_reported:
        hint = "give the folder of the package as a search path if that is another one"
        diagnostics.warning(code, resolved.reason, hint=hint, origin=origin)


def _belongs_to(candidate: Path, package: Path) -> bool:
    """Whether a file lies in its package; without a package manifest only meshes and textures count."""
    real = _realpath(candidate)
    return real.is_relative_to(_realpath(package)) and (_has_manifest(package) or real.suffix.lower() in ASSET_SUFFIXES)


def _has_manifest(folder: Path) -> bool:
    return any(observed(folder / marker).is_file() for marker in _PACKAGE_MANIFESTS)


def _ancestor_folders(folder: Path) -> Iterator[Path]:
    """The folder and its ancestors, without the file system root."""
    for i, candidate in enumerate([folder, *folder.parents]):
        if i > _MAX_ANCESTORS or candidate == candidate.parent:
            return
        yield candidate


def _realpath(path: Path) -> Path:
    return Path(os.path.realpath(path))


def _enclosing_package(folder: Path) -> Path | None:
    return next((f for f in _ancestor_folders(folder) if _has_manifest(f)), None)


def _python_package(folder: Path) -> list[Path]:
    """The outermost Python package around a folder, as a list of at most one element."""
    nearest = next((f for f in _ancestor_folders(folder) if observed(f / _PYTHON_PACKAGE_FILE).is_file()), None)
    if nearest is None:
        return []
    return list(takewhile(lambda f: observed(f / _PYTHON_PACKAGE_FILE).is_file(), _ancestor_folders(nearest)))[-1:]


def _package_name(folder: Path) -> str:
    """Name declared in the `package.xml` of a folder; empty if there is none."""
    manifest = observed(folder / "package.xml")
    try:
        text = manifest.read_bytes()[:65536]
    except OSError:
        return ""
    found = re.search(rb"<name>\s*([^<\s]+)\s*</name>", text)
    return found.group(1).decode("utf-8", "replace") if found else ""
