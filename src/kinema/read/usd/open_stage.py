"""Opening a stage from a stranger: sizes and archives are checked first, and what OpenUSD complains of is collected."""

from __future__ import annotations

import re
import zipfile
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path

from kinema.foundation import Diagnostics, Origin, ReadError
from kinema.read.resolve import Resolver

from . import pxr

MAX_LAYER_BYTES = 128 * 2**20
MAX_ARCHIVE_FILES = 10_000
MAX_LAYERS = 5_000
_PRIM_IN_MESSAGE = re.compile(r"[(<]/[^)>]*[)>]")


def open_stage(
    file: Path, resolve: Resolver, diagnostics: Diagnostics, variants: Mapping[str, Mapping[str, str]] | None = None
) -> pxr.Stage:
    """The composed stage.

    Args:
        file: the root layer.
        resolve: which other files may be read.
        diagnostics: where unresolved references and the like are reported.
        variants: prim path -> {variant set: variant}, chosen in memory.
    """
    _check_size(file)
    if file.suffix.lower() == ".usdz":
        _check_archive(file)
    layer = _open_layer(file)
    _check_dependencies(layer, file, resolve, diagnostics)
    try:
        stage = pxr.Usd.Stage.Open(layer, pxr.Usd.Stage.LoadAll)
    except pxr.Tf.ErrorException as error:
        raise ReadError(f"{file}: {_first_message(error)}") from None
    for path, choices in (variants or {}).items():
        _choose(stage, path, choices, file)
    for error in stage.GetCompositionErrors():
        diagnostics.error("usd.composition", _one_line(str(error)), origin=Origin(str(file)))
    return stage


@contextmanager
def openusd_messages(file: Path, diagnostics: Diagnostics) -> Iterator[None]:
    """What OpenUSD would print becomes diagnostics, messages that differ only in their prim as one."""
    collector = pxr.UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        said: dict[str, list[str]] = {}
        for item in collector.TakeUncoalescedDiagnostics():
            message = _one_line(str(item.commentary))
            said.setdefault(_PRIM_IN_MESSAGE.sub("(...)", message), []).append(message)
        for messages in said.values():
            more = f" (and {len(messages) - 1} more like it)" if len(messages) > 1 else ""
            diagnostics.warning("usd.openusd", f"OpenUSD says: {messages[0]}{more}", origin=Origin(str(file)))


def _open_layer(file: Path) -> object:
    try:
        layer = pxr.Sdf.Layer.FindOrOpen(str(file))
    except pxr.Tf.ErrorException as error:
        raise ReadError(f"{file}: {_first_message(error)}") from None
    if not layer:
        raise ReadError(f"{file}: OpenUSD cannot open this file")
    # another stage of this process may have changed it in memory
    layer.Reload()
    return layer


def _check_size(file: Path) -> None:
    size = file.stat().st_size
    if size > MAX_LAYER_BYTES:
        raise ReadError(f"{file}: the file has {size} bytes; at most {MAX_LAYER_BYTES} are read")
    if size == 0:
        raise ReadError(f"{file}: the file is empty")


def _check_archive(file: Path) -> None:
    """A usdz is a zip of stored files with plain names; anything else is refused before it is opened."""
    try:
        with zipfile.ZipFile(file) as archive:
            entries = archive.infolist()
    except (zipfile.BadZipFile, OSError, ValueError) as error:
        raise ReadError(f"{file}: not a usdz archive: {error}") from None
    if len(entries) > MAX_ARCHIVE_FILES:
        raise ReadError(f"{file}: the archive holds {len(entries)} files; at most {MAX_ARCHIVE_FILES} are read")
    for entry in entries:
        parts = entry.filename.replace("\\", "/").split("/")
        if entry.filename.startswith("/") or ".." in parts or ":" in parts[0]:
            raise ReadError(f"{file}: the archive holds {entry.filename!r}, a path that leads out of it")
        if entry.compress_type != zipfile.ZIP_STORED or entry.file_size != entry.compress_size:
            raise ReadError(f"{file}: {entry.filename!r} is compressed, which a usdz may not be")


def _check_dependencies(root: object, file: Path, resolve: Resolver, diagnostics: Diagnostics) -> None:
    """Follow the layers that the root composes; those that may not be read are taken out in memory."""
    todo, seen = [root], set()
    while todo:
        layer = todo.pop()
        identifier = str(layer.identifier)  # type: ignore[attr-defined]
        if identifier in seen or layer.anonymous:  # type: ignore[attr-defined]
            continue
        seen.add(identifier)
        if len(seen) > MAX_LAYERS:
            raise ReadError(f"{file}: the stage is composed of more than {MAX_LAYERS} layers")
        for reference in filter(None, layer.GetCompositionAssetDependencies()):  # type: ignore[attr-defined]
            reason = _refusal(layer, str(reference), file, resolve)
            if reason:
                diagnostics.error(
                    "usd.reference-refused", f"{reference} is not read: {reason}", origin=Origin(identifier)
                )
                layer.UpdateCompositionAssetDependency(reference, "")  # type: ignore[attr-defined]
                continue
            opened = _try_open(layer, str(reference))
            if opened is not None:
                todo.append(opened)


def _refusal(layer: object, reference: str, file: Path, resolve: Resolver) -> str:
    """Why a layer may not be read; empty where it may, or where it is missing (OpenUSD says so itself)."""
    if "[" in reference or "[" in str(layer.identifier):  # type: ignore[attr-defined]
        return ""  # inside an archive, which was checked as a whole
    if re.match(r"[A-Za-z][A-Za-z0-9+.-]*://", reference):
        return "references to other machines are not fetched"
    path = Path(pxr.Sdf.ComputeAssetPathRelativeToLayer(layer, reference))
    if not path.exists():
        return ""
    if not (resolve.is_allowed(path, file) or resolve.is_allowed(path, Path(str(layer.realPath)))):  # type: ignore[attr-defined]
        return "it lies outside the folders that may be read; give its folder as a search path"
    if path.is_file() and path.stat().st_size > MAX_LAYER_BYTES:
        return f"it has {path.stat().st_size} bytes; at most {MAX_LAYER_BYTES} are read"
    return ""


def _try_open(layer: object, reference: str) -> object | None:
    try:
        return pxr.Sdf.Layer.FindOrOpenRelativeToLayer(layer, reference) or None
    except pxr.Tf.ErrorException:
        return None  # composing the stage reports it, with its place


def _choose(stage: pxr.Stage, path: str, choices: Mapping[str, str], file: Path) -> None:
    prim = stage.GetPrimAtPath(path)
    if not prim:
        raise ReadError(f"{file}: there is no prim {path} to choose a variant of")
    with pxr.Usd.EditContext(stage, stage.GetSessionLayer()):
        for name, choice in choices.items():
            variant_set = prim.GetVariantSet(name)
            known = variant_set.GetVariantNames()
            if choice not in known:
                raise ReadError(f"{file}: {path} has no variant {choice!r} of {name!r}; there are: {', '.join(known)}")
            variant_set.SetVariantSelection(choice)


def _first_message(error: Exception) -> str:
    """The first thing OpenUSD says, without where in OpenUSD it was said."""
    quoted = re.search(r": '(.*?)'\s*(?:\n|$)", str(error), re.DOTALL)
    return _one_line(quoted.group(1) if quoted else str(error))


def _one_line(text: str) -> str:
    return " ".join(text.split())
