"""Opens untrusted USD stages: usdz archives and layers are validated and copied before composition.

OpenUSD keeps the layers of a process in a global registry and opens references by itself. Layers are therefore copied
to anonymous layers that refer only to other such copies; references to disallowed files are removed before composition.
A damaged binary layer can crash OpenUSD, and a small layer can refer to itself and expand to an unbounded number of
prims, so both are checked first. OpenUSD's messages become diagnostics.
"""

from __future__ import annotations

import posixpath
import re
import zipfile
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np

from kinema.core import Diagnostics, Origin, ReadError

from ..resolve import Resolver
from . import pxr

# -- usdz archives -----------------------------------------------------------------------------------------------------

MAX_ARCHIVE_FILES = 10_000


def archive_member_sizes(file: Path) -> dict[str, int]:
    """Member name -> size of a usdz archive, in order; raises `ValueError` if unsafe.

    Compressed members, paths out of the archive and too many members are rejected.
    """
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError, NotImplementedError) as error:
        raise ValueError(f"not a usdz archive: {error}") from None
    if len(entries) > MAX_ARCHIVE_FILES:
        raise ValueError(f"the archive holds {len(entries)} files; at most {MAX_ARCHIVE_FILES} are read")
    for entry in entries:
        parts = entry.filename.replace("\\", "/").split("/")
        if entry.filename.startswith(("/", "\\")) or ".." in parts or ":" in parts[0]:
            raise ValueError(f"the archive holds {entry.filename!r}, a path that leads out of it")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ValueError(f"{entry.filename!r} is compressed, which a usdz may not be")
    return {entry.filename: entry.file_size for entry in entries}


def read_archive_member(file: Path, name: str) -> bytes:
    """Bytes of a member of a validated archive; raises `ValueError` if damaged."""
    try:
        with zipfile.ZipFile(file) as archive:
            return archive.read(name)
    except (zipfile.BadZipFile, OSError, ValueError, RuntimeError, EOFError) as error:
        raise ValueError(f"{name!r} in the archive cannot be read: {error}") from None


# -- validation of layers ----------------------------------------------------------------------------------------------

_ARC_FIELDS = {
    "references": "referenceList",
    "payload": "payloadList",
    "inheritPaths": "inheritPathList",
    "specializes": "specializesList",
}
_PrimId = tuple[str, str]
"""Layer identifier and prim path."""


@dataclass(slots=True, eq=False)
class LayerSurvey:
    """Prim specs of one layer."""

    layer: Any
    prims: list[tuple[Any, list[Any]]] = field(default_factory=list)
    """Prim specs, each with its children, including those in variants; the first is the pseudo-root."""
    prims_with_arcs: list[Any] = field(default_factory=list)
    """Prim specs with references, payloads, inherits or specializes."""
    prims_with_clips: list[Any] = field(default_factory=list)
    """Prim specs with value clips."""

    def children(self) -> dict[str, list[str]]:
        """Path -> paths of its children."""
        return {str(spec.path): [str(child.path) for child in below] for spec, below in self.prims}


def survey_layer(layer: Any, max_depth: int) -> LayerSurvey:
    """Traverse a layer; raises `ValueError` if it is damaged or nested too deeply."""
    result = LayerSurvey(layer)
    todo: list[tuple[Any, int]] = [(layer.pseudoRoot, 0)]
    while todo:
        spec, depth = todo.pop()
        if depth > max_depth:
            raise ValueError(f"its prims are nested more than {max_depth} levels deep")
        keys = spec.ListInfoKeys()
        below = list(spec.nameChildren.values())
        if not _ARC_FIELDS.keys().isdisjoint(keys):
            result.prims_with_arcs.append(spec)
        if "clips" in keys:
            result.prims_with_clips.append(spec)
        if "variantSetNames" in keys:
            below += _variant_prims(spec)
        if below:
            if not all(below):
                raise ValueError(f"it is damaged: prims that {spec.path} lists are missing")
            result.prims.append((spec, below))
            todo += [(child, depth + 1) for child in below]
    return result


def _variant_prims(spec: Any) -> list[Any]:
    """Prim specs of the variants of a prim."""
    sets = list(spec.variantSets.values())
    return [variant.primSpec if variant else None for one in sets if one for variant in one.variants.values()]


def count_prims(surveys: Mapping[str, LayerSurvey], root: str, limit: int) -> int:
    """Upper bound on the number of prims of a stage, all variants included; saturates above the limit.

    Args:
        surveys: surveys of all layers by identifier.
        root: identifier of the root layer.
        limit: maximum count.
    """
    sizes: dict[_PrimId, int] = {}
    children = {identifier: s.children() for identifier, s in surveys.items()}
    sublayers = {identifier: [str(p) for p in s.layer.subLayerPaths] for identifier, s in surveys.items()}
    brought = {
        (i, str(spec.path)): list(_arc_targets(i, spec, surveys))
        for i, s in surveys.items()
        for spec in s.prims_with_arcs
    }
    todo: list[_PrimId] = [(root, "/")]
    while todo:
        identifier, path = prim = todo[-1]
        parts = [(identifier, child) for child in children.get(identifier, {}).get(path, ())]
        parts += brought.get(prim, ())
        if path == "/":
            parts += [(sublayer, "/") for sublayer in sublayers.get(identifier, ())]
        if prim not in sizes:
            sizes[prim] = 1  # provisional; a cycle counts once, as in OpenUSD
            todo += [part for part in parts if part not in sizes]
            continue
        sizes[prim] = min(1 + sum(sizes.get(part, 0) for part in parts), limit + 1)
        todo.pop()
    return sizes[root, "/"]


def _arc_targets(identifier: str, spec: Any, surveys: Mapping[str, LayerSurvey]) -> Iterator[_PrimId]:
    """Targets (layer, path) of the composition arcs of a prim."""
    for attribute in _ARC_FIELDS.values():
        for item in getattr(spec, attribute).GetAddedOrExplicitItems():
            layer = getattr(item, "assetPath", "") or identifier
            path = str(getattr(item, "primPath", item))
            if not path and layer in surveys:
                path = f"/{surveys[layer].layer.defaultPrim}"
            yield layer, path


# -- copies of layers --------------------------------------------------------------------------------------------------

MAX_LAYER_BYTES = 128 * 2**20
MAX_TOTAL_BYTES = 512 * 2**20
MAX_LAYERS = 2_000
MAX_NESTING = 1_000
"""Maximum nesting of brackets in a text layer and of prims: OpenUSD's parsers are recursive."""
USD_SUFFIXES = (".usd", ".usda", ".usdc", ".usdz")
_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+.-]*:")
_ARC_KEYWORDS = (b"references", b"payload", b"inherits", b"specializes", b"variantSet", b"subLayers", b"clips")
_BRACKETS = ((b"{", b"}"), (b"(", b")"), (b"[", b"]"))


class LayerLocation(NamedTuple):
    """Location of a layer: a file, or a member of an archive."""

    file: Path
    archive_member: str = ""

    def __str__(self) -> str:
        return f"{self.file}[{self.archive_member}]" if self.archive_member else str(self.file)

    @property
    def layer_tag(self) -> str:
        """Tag of the anonymous copy; OpenUSD evaluates its suffix."""
        return f"{self.file}/{self.archive_member}" if self.archive_member else str(self.file)


class _ReferenceRefused(Exception):
    """A reference that is not followed, with the diagnostic code."""

    def __init__(self, reason: str, code: str = "usd.reference-refused") -> None:
        super().__init__(reason)
        self.code = code


def _missing_reference(reason: str) -> _ReferenceRefused:
    return _ReferenceRefused(reason, "usd.reference-missing")


def _unreadable_reference(reason: str) -> _ReferenceRefused:
    return _ReferenceRefused(reason, "usd.reference-unreadable")


def layer_location(layer: Any) -> str:
    """Path, or `archive[member]`, from which an anonymous layer was copied."""
    outer, inside, inner = str(layer.GetDisplayName()).partition(".usdz/")
    return f"{outer}.usdz[{inner}]" if inside else outer


def anchor_path(location: str, path: str) -> str:
    """Asset path in a layer made absolute with the layer's folder or archive."""
    if path.startswith("/") or _SCHEME.match(path):
        return path
    outer, inner = pxr.Ar.SplitPackageRelativePathOuter(location)
    if inner:
        return f"{outer}[{posixpath.normpath(posixpath.join(posixpath.dirname(inner), path))}]"
    return posixpath.normpath(posixpath.join(posixpath.dirname(location), path))


class LayerLoader:
    """Loads, validates and copies the layers of a stage."""

    def __init__(self, file: Path, resolve: Resolver, diagnostics: Diagnostics) -> None:
        self.file = file
        self._resolve = resolve
        self._diagnostics = diagnostics
        self._open: dict[LayerLocation, Any] = {}
        self._plain: set[LayerLocation] = set()
        self._surveys: dict[str, LayerSurvey] = {}
        self._archives: dict[Path, dict[str, int]] = {}
        self._bytes = 0
        try:
            self.root = self._read_layer(self._archive_root_layer(LayerLocation(Path(file).absolute())))
        except _ReferenceRefused as reason:
            raise ReadError(f"{file}: {reason}") from None
        self._redirect_all_references()

    def check_prim_count(self, max_prims: int) -> None:
        """Raise `ReadError` if the stage would expand to more than `max_prims` prims."""
        if not any(s.prims_with_arcs for s in self._surveys.values()):
            return
        if count_prims(self._surveys, self.root.identifier, max_prims) > max_prims:
            raise ReadError(f"{self.file}: its references unfold to more than {max_prims} prims")

    # -- single layers --

    def _read_layer(self, location: LayerLocation) -> Any:
        """Anonymous copy of a layer (cached); raises `_ReferenceRefused` if unreadable."""
        if location in self._open:
            return self._open[location]
        if len(self._open) >= MAX_LAYERS:
            raise ReadError(f"{self.file}: the stage is composed of more than {MAX_LAYERS} layers")
        is_plain = self._check_bytes(location)
        try:
            layer = pxr.Sdf.Layer.OpenAsAnonymous(str(location), False, location.layer_tag)
        except pxr.Tf.ErrorException as error:
            raise _unreadable_reference(first_message(error)) from None
        if not layer:
            raise _unreadable_reference("OpenUSD cannot open this file")
        if is_plain:
            self._plain.add(location)
        if self._open or not is_plain:  # a single text layer without arcs needs no survey
            try:
                found = self._surveys[layer.identifier] = survey_layer(layer, MAX_NESTING)
            except ValueError as error:
                raise _unreadable_reference(str(error)) from None
            self._drop_clips(location, found)
        self._open[location] = layer
        return layer

    def _check_bytes(self, location: LayerLocation) -> bool:
        """Check the size and encoding of a layer; returns whether it is text without composition arcs."""
        size = (
            self._archive_members(location.file)[location.archive_member]
            if location.archive_member
            else _file_size(location.file)
        )
        if size > MAX_LAYER_BYTES:
            raise _ReferenceRefused(f"the file has {size} bytes; at most {MAX_LAYER_BYTES} are read")
        if size == 0:
            raise _unreadable_reference("the file is empty")
        self._bytes += size
        if self._bytes > MAX_TOTAL_BYTES:
            raise ReadError(f"{self.file}: the stage's layers have more than {MAX_TOTAL_BYTES} bytes together")
        try:
            data = (
                read_archive_member(location.file, location.archive_member)
                if location.archive_member
                else location.file.read_bytes()
            )
        except (OSError, ValueError) as error:
            raise _unreadable_reference(getattr(error, "strerror", None) or str(error)) from None
        if not data.startswith(b"#usda"):
            return False  # binary: checked by the survey
        try:
            data.decode("utf-8")
        except UnicodeDecodeError as error:
            line = data.count(b"\n", 0, error.start) + 1
            raise _unreadable_reference(
                f"line {line} holds the byte {data[error.start]:#04x}, which is not UTF-8"
            ) from None
        if _bracket_depth(data) > MAX_NESTING:
            raise _unreadable_reference(f"it is nested more than {MAX_NESTING} levels deep")
        return not any(word in data for word in _ARC_KEYWORDS)

    # -- references --

    def _drop_clips(self, location: LayerLocation, found: LayerSurvey) -> None:
        """Remove value clips, which OpenUSD would open when it reads values, with an error."""
        for spec in found.prims_with_clips:
            spec.ClearInfo("clips")
            origin = Origin(str(location), None, str(spec.path))
            message = f"the animation of {spec.path} lies in other files (value clips), which are not read"
            self._diagnostics.error("usd.value-clips", message, origin=origin)

    def _redirect_all_references(self) -> None:
        done: set[LayerLocation] = set()
        while len(done) < len(self._open):
            for place, layer in list(self._open.items()):
                if place not in done:
                    done.add(place)
                    if place not in self._plain:
                        self._redirect_references(place, layer)

    def _redirect_references(self, location: LayerLocation, layer: Any) -> None:
        """Redirect the references of a layer to anonymous copies; refused ones are reported and removed."""
        for reference in filter(None, layer.GetCompositionAssetDependencies()):
            identifier = ""
            try:
                target = self._resolve_reference(str(reference), location)
                identifier = self._read_layer(target).identifier
            except _ReferenceRefused as reason:
                where = str(self.file) if layer is self.root else str(location)
                self._diagnostics.error(reason.code, f"{reference} is not read: {reason}", origin=Origin(where))
            layer.UpdateCompositionAssetDependency(reference, identifier)

    def _resolve_reference(self, reference: str, location: LayerLocation) -> LayerLocation:
        """Location of a referenced layer; raises `_ReferenceRefused` if it may not be read."""
        path, _ = pxr.Sdf.Layer.SplitIdentifier(reference)
        if path.startswith("`"):
            raise _ReferenceRefused("variable expressions are not evaluated")
        if _SCHEME.match(path):
            raise _ReferenceRefused("references to other machines are not fetched")
        outer, inner = pxr.Ar.SplitPackageRelativePathOuter(path) if pxr.Ar.IsPackageRelativePath(path) else (path, "")
        if location.archive_member:
            return self._resolve_in_archive(outer, inner, location)
        # checked relative to the stage file, because chains of layers could lead anywhere
        folders = [location.file.parent, *map(Path, self._resolve.search_paths)]
        tries = [self._resolve.resolve(str((folder / outer).absolute()), self.file) for folder in folders]
        found = next((one for one in tries if one), tries[0])
        if found.path is None:
            raise (
                _missing_reference(found.reason) if "no such file" in found.reason else _ReferenceRefused(found.reason)
            )
        return self._archive_root_layer(LayerLocation(found.path, inner))

    def _archive_root_layer(self, location: LayerLocation) -> LayerLocation:
        """The location itself, or the first member of an archive."""
        suffix = location.file.suffix.lower()
        if suffix not in USD_SUFFIXES:
            raise _ReferenceRefused(f"layers end in {', '.join(USD_SUFFIXES)}")
        if suffix != ".usdz":
            if location.archive_member:
                raise _ReferenceRefused("only a .usdz holds other files")
            return location
        return self._check_archive_member(
            LayerLocation(
                location.file, location.archive_member or next(iter(self._archive_members(location.file)), "")
            )
        )

    def _archive_members(self, file: Path) -> dict[str, int]:
        """Member name -> size of an archive (cached)."""
        if file not in self._archives:
            if _file_size(file) > MAX_LAYER_BYTES:
                raise _ReferenceRefused(f"the file has {_file_size(file)} bytes; at most {MAX_LAYER_BYTES} are read")
            try:
                self._archives[file] = archive_member_sizes(file)
            except ValueError as error:
                raise _unreadable_reference(str(error)) from None
        return self._archives[file]

    def _resolve_in_archive(self, outer: str, inner: str, location: LayerLocation) -> LayerLocation:
        """Location of a reference from within an archive, which must stay in that archive."""
        path = posixpath.normpath(posixpath.join(posixpath.dirname(location.archive_member), outer))
        if inner or path.startswith(("/", "..")):
            raise _ReferenceRefused("it leads out of the archive")
        return self._check_archive_member(LayerLocation(location.file, path))

    def _check_archive_member(self, location: LayerLocation) -> LayerLocation:
        if location.archive_member not in self._archive_members(location.file):
            raise _missing_reference(
                "the archive has no such file" if location.archive_member else "the archive is empty"
            )
        if Path(location.archive_member).suffix.lower() not in USD_SUFFIXES[:-1]:
            raise _ReferenceRefused(f"layers in an archive end in {', '.join(USD_SUFFIXES[:-1])}")
        return location


def _file_size(file: Path) -> int:
    try:
        if not file.is_file():
            raise _missing_reference("this is not a file" if file.exists() else "there is no such file")
        return file.stat().st_size
    except OSError as error:
        raise _unreadable_reference(error.strerror or "it cannot be read") from None


def _bracket_depth(data: bytes) -> int:
    """Upper bound on the nesting of brackets in a text, including strings and comments."""
    text = np.frombuffer(data, dtype=np.uint8)
    deepest = 0
    for opening, closing in _BRACKETS:
        n_opening = data.count(opening)
        if n_opening <= MAX_NESTING:  # fast path
            deepest = max(deepest, n_opening)
            continue
        found = text[(text == opening[0]) | (text == closing[0])]
        steps = np.where(found == opening[0], 1, -1)
        deepest = max(deepest, int(np.cumsum(steps).max(initial=0)))
    return deepest


def first_message(error: Exception) -> str:
    """First message of an OpenUSD error, without its source location."""
    try:
        text = str(error)
    except UnicodeDecodeError:  # it quotes bytes of a binary layer
        return "OpenUSD cannot read it"
    quoted = re.search(r": '(.*?)'\s*(?:\n|$)", text, re.DOTALL)
    return to_one_line(quoted.group(1) if quoted else text)


def to_one_line(text: str) -> str:
    """A message of OpenUSD on one line, with layers named by their files."""
    return " ".join(re.sub(r"anon:0x[0-9a-f]+:", "", text).split())


# -- opening of stages -------------------------------------------------------------------------------------------------

MAX_PRIMS = 1_000_000
_PRIM_IN_MESSAGE = re.compile(r"[(<]/[^)>]*[)>]")


def open_stage(
    file: Path, resolve: Resolver, diagnostics: Diagnostics, variants: Mapping[str, Mapping[str, str]] | None = None
) -> pxr.Stage:
    """Open and compose a stage from validated copies of its layers.

    Args:
        file: the root layer.
        resolve: resolves the files that may be read.
        diagnostics: receives unresolved references and composition errors.
        variants: prim path -> {variant set: variant}, overrides the selections of the stage.
    """
    layers = LayerLoader(file, resolve, diagnostics)
    layers.check_prim_count(MAX_PRIMS)
    try:
        stage = pxr.Usd.Stage.Open(layers.root, pxr.Usd.Stage.LoadAll)
    except pxr.Tf.ErrorException as error:
        raise ReadError(f"{file}: {first_message(error)}") from None
    # outer prims first: their variants define the inner ones
    for path, choices in sorted((variants or {}).items(), key=lambda item: item[0].count("/")):
        _select_variants(stage, path, choices, file)
    if any(not layer.anonymous for layer in stage.GetUsedLayers(True)):
        raise ReadError(f"{file}: the stage brings in files that could not be looked at before")
    for message in _group_messages(to_one_line(str(error)) for error in stage.GetCompositionErrors()):
        diagnostics.error("usd.composition", message, origin=Origin(str(file)))
    return stage


@contextmanager
def capture_openusd_messages(file: Path, diagnostics: Diagnostics) -> Iterator[None]:
    """Context manager that turns messages of OpenUSD into warnings, grouped if they differ only in the prim."""
    collector = pxr.UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        for message in _group_messages(map(_message_text, collector.TakeUncoalescedDiagnostics())):
            diagnostics.warning("usd.openusd", f"OpenUSD says: {message}", origin=Origin(str(file)))


def _message_text(item: Any) -> str:
    try:
        return to_one_line(str(item.commentary))
    except UnicodeDecodeError:
        return "something that quotes bytes which are no text"


def _group_messages(messages: Iterable[str]) -> Iterator[str]:
    """One message per group of messages that differ only in prim paths, with the number of others."""
    groups: dict[str, list[str]] = {}
    for message in messages:
        groups.setdefault(_PRIM_IN_MESSAGE.sub("(...)", message), []).append(message)
    for alike in groups.values():
        yield alike[0] + (f" (and {len(alike) - 1} more like it)" if len(alike) > 1 else "")


def _select_variants(stage: pxr.Stage, path: str, choices: Mapping[str, str], file: Path) -> None:
    """Select variants of a prim in the session layer; raises `ReadError` for unknown names."""
    prim = stage.GetPrimAtPath(path)
    if not prim:
        raise ReadError(f"{file}: there is no prim {path!r} to choose a variant of")
    with pxr.Usd.EditContext(stage, stage.GetSessionLayer()):
        while prim.IsInstanceProxy():  # a prim inside an instance cannot be edited: break up the instance
            instance = prim.GetParent()
            while instance.IsInstanceProxy():
                instance = instance.GetParent()
            instance.SetInstanceable(False)
            prim = stage.GetPrimAtPath(path)
        for name, choice in choices.items():
            sets = prim.GetVariantSets().GetNames()
            if name not in sets:
                there = f"there are: {', '.join(sets)}" if sets else "it has none"
                raise ReadError(f"{file}: {path} has no variant set {name!r}; {there}")
            variant_set = prim.GetVariantSet(name)
            known = variant_set.GetVariantNames()
            if choice not in known:
                raise ReadError(f"{file}: {path} has no variant {choice!r} of {name!r}; there are: {', '.join(known)}")
            variant_set.SetVariantSelection(choice)
