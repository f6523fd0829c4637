"""The layers of a stage from a stranger, each read by us from a file that may be read, into copies that are ours alone.

OpenUSD keeps the layers of a process in one table and opens what they refer to by itself. A copy without an identity
in that table can be changed without anybody noticing, always has what is on the disk, and refers to nothing but
other such copies: references that may not be followed are taken out before the stage is composed.
"""

from __future__ import annotations

import posixpath
import re
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinema.foundation import Diagnostics, Origin, ReadError
from kinema.read.resolve import Resolver

from . import pxr
from .archive import archive_sizes, archived_bytes
from .layer_survey import Survey, count_prims, survey

MAX_LAYER_BYTES = 128 * 2**20
MAX_TOTAL_BYTES = 512 * 2**20
MAX_LAYERS = 2_000
MAX_DEPTH = 1_000
"""Levels of brackets in a text layer and of prims in any: the parsers of OpenUSD and its paths are recursive."""
SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ARCS = (b"references", b"payload", b"inherits", b"specializes", b"variantSet", b"subLayers", b"clips")
_BRACKETS = ((b"{", b"}"), (b"(", b")"), (b"[", b"]"))


class Place(NamedTuple):
    """Where a layer is: a file, or a file in an archive."""

    file: Path
    inner: str = ""

    def __str__(self) -> str:
        return f"{self.file}[{self.inner}]" if self.inner else str(self.file)

    @property
    def tag(self) -> str:
        """What the copy is called; OpenUSD looks at how a name ends."""
        return f"{self.file}/{self.inner}" if self.inner else str(self.file)


class _Refused(Exception):
    """Why a reference is not followed."""

    def __init__(self, reason: str, code: str = "usd.reference-refused") -> None:
        super().__init__(reason)
        self.code = code


def _missing(reason: str) -> _Refused:
    return _Refused(reason, "usd.reference-missing")


def _broken(reason: str) -> _Refused:
    return _Refused(reason, "usd.reference-unreadable")


def place_of(layer: Any) -> str:
    """The file, or `archive[file]`, that a layer of ours was read from."""
    outer, inside, inner = str(layer.GetDisplayName()).partition(".usdz/")
    return f"{outer}.usdz[{inner}]" if inside else outer


def beside(place: str, path: str) -> str:
    """A path that stands in a layer, seen from nowhere: with the layer's folder, or archive, before it."""
    if path.startswith("/") or _SCHEME.match(path):
        return path
    outer, inner = pxr.Ar.SplitPackageRelativePathOuter(place)
    if inner:
        return f"{outer}[{posixpath.normpath(posixpath.join(posixpath.dirname(inner), path))}]"
    return posixpath.normpath(posixpath.join(posixpath.dirname(place), path))


class Layers:
    """A stage's layers."""

    def __init__(self, file: Path, resolve: Resolver, diagnostics: Diagnostics) -> None:
        self.file = file
        self._resolve = resolve
        self._diagnostics = diagnostics
        self._open: dict[Place, Any] = {}
        self._plain: set[Place] = set()
        self._surveys: dict[str, Survey] = {}
        self._archives: dict[Path, dict[str, int]] = {}
        self._bytes = 0
        try:
            self.root = self._read(self._in_archive(Place(Path(file).absolute())))
        except _Refused as reason:
            raise ReadError(f"{file}: {reason}") from None
        self._follow_all()

    def check_extent(self, max_prims: int) -> None:
        """Refuse a stage of too many prims before they are made."""
        if not any(s.bringing for s in self._surveys.values()):
            return
        if count_prims(self._surveys, self.root.identifier, max_prims) > max_prims:
            raise ReadError(f"{self.file}: its references unfold to more than {max_prims} prims")

    # -- one layer --

    def _read(self, place: Place) -> Any:
        """A layer, read once and kept; `_Refused` where that cannot be."""
        if place in self._open:
            return self._open[place]
        if len(self._open) >= MAX_LAYERS:
            raise ReadError(f"{self.file}: the stage is composed of more than {MAX_LAYERS} layers")
        is_plain = self._check_bytes(place)
        try:
            layer = pxr.Sdf.Layer.OpenAsAnonymous(str(place), False, place.tag)
        except pxr.Tf.ErrorException as error:
            raise _broken(first_message(error)) from None
        if not layer:
            raise _broken("OpenUSD cannot open this file")
        if is_plain:
            self._plain.add(place)
        if self._open or not is_plain:  # a text that brings nothing in is the whole stage: there is nothing to count
            try:
                found = self._surveys[layer.identifier] = survey(layer, MAX_DEPTH)
            except ValueError as error:
                raise _broken(str(error)) from None
            self._drop_clips(place, found)
        self._open[place] = layer
        return layer

    def _check_bytes(self, place: Place) -> bool:
        """Whether the layer is a text that brings in and copies no prims; `_Refused` where it is too much."""
        size = self._members(place.file)[place.inner] if place.inner else _size(place.file)
        if size > MAX_LAYER_BYTES:
            raise _Refused(f"the file has {size} bytes; at most {MAX_LAYER_BYTES} are read")
        if size == 0:
            raise _broken("the file is empty")
        self._bytes += size
        if self._bytes > MAX_TOTAL_BYTES:
            raise ReadError(f"{self.file}: the stage's layers have more than {MAX_TOTAL_BYTES} bytes together")
        try:
            data = archived_bytes(place.file, place.inner) if place.inner else place.file.read_bytes()
        except (OSError, ValueError) as error:
            raise _broken(getattr(error, "strerror", None) or str(error)) from None
        if not data.startswith(b"#usda"):
            return False  # binary, which the survey looks through
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise _broken(f"line {line} holds the byte {data[error.start]:#04x}, which is not UTF-8") from None
        if _depth(data) > MAX_DEPTH:
            raise _broken(f"it is nested more than {MAX_DEPTH} levels deep")
        return not any(word in data for word in _ARCS)

    # -- what layers refer to --

    def _drop_clips(self, place: Place, found: Survey) -> None:
        """Value clips are files that OpenUSD opens when it looks for values; none of them gets that far."""
        for spec in found.clipped:
            spec.ClearInfo("clips")
            origin = Origin(str(place), None, str(spec.path))
            message = f"the animation of {spec.path} lies in other files (value clips), which are not read"
            self._diagnostics.error("usd.value-clips", message, origin=origin)

    def _follow_all(self) -> None:
        done: set[Place] = set()
        while len(done) < len(self._open):
            for place, layer in list(self._open.items()):
                if place not in done:
                    done.add(place)
                    if place not in self._plain:
                        self._follow(place, layer)

    def _follow(self, place: Place, layer: Any) -> None:
        """Let the layer refer to copies of ours; what cannot be followed is reported and taken out."""
        for reference in filter(None, layer.GetCompositionAssetDependencies()):
            identifier = ""
            try:
                target = self._target(str(reference), place)
                identifier = self._read(target).identifier
            except _Refused as reason:
                where = str(self.file) if layer is self.root else str(place)
                self._diagnostics.error(reason.code, f"{reference} is not read: {reason}", origin=Origin(where))
            layer.UpdateCompositionAssetDependency(reference, identifier)

    def _target(self, reference: str, place: Place) -> Place:
        """The file that a reference names, if it may be read."""
        path, _ = pxr.Sdf.Layer.SplitIdentifier(reference)
        if path.startswith("`"):
            raise _Refused("variable expressions are not evaluated")
        if _SCHEME.match(path):
            raise _Refused("references to other machines are not fetched")
        outer, inner = pxr.Ar.SplitPackageRelativePathOuter(path) if pxr.Ar.IsPackageRelativePath(path) else (path, "")
        if place.inner:
            return self._inside(outer, inner, place)
        # seen from the stage, not from the layer: step by step, layers could lead anywhere
        folders = [place.file.parent, *map(Path, self._resolve.search_paths)]
        tries = [self._resolve.resolve(str((folder / outer).absolute()), self.file) for folder in folders]
        found = next((one for one in tries if one), tries[0])
        if found.path is None:
            raise _missing(found.reason) if "no such file" in found.reason else _Refused(found.reason)
        return self._in_archive(Place(found.path, inner))

    def _in_archive(self, place: Place) -> Place:
        """The place itself, or that of the layer which an archive has first."""
        suffix = place.file.suffix.lower()
        if suffix not in SUFFIXES:
            raise _Refused(f"layers end in {', '.join(SUFFIXES)}")
        if suffix != ".usdz":
            if place.inner:
                raise _Refused("only a .usdz holds other files")
            return place
        return self._member(Place(place.file, place.inner or next(iter(self._members(place.file)), "")))

    def _members(self, file: Path) -> dict[str, int]:
        """The files in an archive, with their sizes."""
        if file not in self._archives:
            if _size(file) > MAX_LAYER_BYTES:
                raise _Refused(f"the file has {_size(file)} bytes; at most {MAX_LAYER_BYTES} are read")
            try:
                self._archives[file] = archive_sizes(file)
            except ValueError as error:
                raise _broken(str(error)) from None
        return self._archives[file]

    def _inside(self, outer: str, inner: str, place: Place) -> Place:
        """What a layer in an archive refers to has to be in that archive."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(place.inner), outer))
        if inner or path.startswith(("/", "..")):
            raise _Refused("it leads out of the archive")
        return self._member(Place(place.file, path))

    def _member(self, place: Place) -> Place:
        if place.inner not in self._members(place.file):
            raise _missing("the archive has no such file" if place.inner else "the archive is empty")
        if Path(place.inner).suffix.lower() not in SUFFIXES[:-1]:
            raise _Refused(f"layers in an archive end in {', '.join(SUFFIXES[:-1])}")
        return place


def _size(file: Path) -> int:
    try:
        if not file.is_file():
            raise _missing("this is not a file" if file.exists() else "there is no such file")
        return file.stat().st_size
    except OSError as error:
        raise _broken(error.strerror or "it cannot be read") from None


def _depth(data: bytes) -> int:
    """How deep brackets of one kind are nested in a text, or more; those in strings and comments included."""
    text = np.frombuffer(data, dtype=np.uint8)
    deepest = 0
    for opening, closing in _BRACKETS:
        n_opening = data.count(opening)
        if n_opening <= MAX_DEPTH:  # in most files, and counting is quick
            deepest = max(deepest, n_opening)
            continue
        found = text[(text == opening[0]) | (text == closing[0])]
        steps = np.where(found == opening[0], 1, -1)
        deepest = max(deepest, int(np.cumsum(steps).max(initial=0)))
    return deepest


def first_message(error: Exception) -> str:
    """The first thing OpenUSD says, without where in OpenUSD it was said."""
    try:
        text = str(error)
    except UnicodeDecodeError:  # it quotes bytes of a binary layer
        return "OpenUSD cannot read it"
    quoted = re.search(r": '(.*?)'\s*(?:\n|$)", text, re.DOTALL)
    return one_line(quoted.group(1) if quoted else text)


def one_line(text: str) -> str:
    """A message of OpenUSD as one line that names layers by their files."""
    return " ".join(re.sub(r"anon:0x[0-9a-f]+:", "", text).split())
