"""Opening a stage from a stranger: its layers are looked through first, and what OpenUSD complains of is collected."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from kinema.foundation import Diagnostics, Origin, ReadError
from kinema.read.resolve import Resolver

from . import pxr
from .layers import Layers, first_message, one_line

MAX_PRIMS = 1_000_000
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
    layers = Layers(file, resolve, diagnostics)
    layers.check_extent(MAX_PRIMS)
    try:
        stage = pxr.Usd.Stage.Open(layers.root, pxr.Usd.Stage.LoadAll)
    except pxr.Tf.ErrorException as error:
        raise ReadError(f"{file}: {first_message(error)}") from None
    # outer prims first: their variants bring in the inner ones
    for path, choices in sorted((variants or {}).items(), key=lambda item: item[0].count("/")):
        _choose(stage, path, choices, file)
    if any(not layer.anonymous for layer in stage.GetUsedLayers(True)):
        raise ReadError(f"{file}: the stage brings in files that could not be looked at before")
    for message in _grouped(one_line(str(error)) for error in stage.GetCompositionErrors()):
        diagnostics.error("usd.composition", message, origin=Origin(str(file)))
    return stage


@contextmanager
def openusd_messages(file: Path, diagnostics: Diagnostics) -> Iterator[None]:
    """What OpenUSD would print becomes diagnostics, messages that differ only in their prim as one."""
    collector = pxr.UsdUtils.CoalescingDiagnosticDelegate()
    try:
        yield
    finally:
        for message in _grouped(map(_commentary, collector.TakeUncoalescedDiagnostics())):
            diagnostics.warning("usd.openusd", f"OpenUSD says: {message}", origin=Origin(str(file)))


def _commentary(item: Any) -> str:
    try:
        return one_line(str(item.commentary))
    except UnicodeDecodeError:
        return "something that quotes bytes which are no text"


def _grouped(messages: Iterable[str]) -> Iterator[str]:
    """One of each kind of message, with the number of others that differ only in the prims they name."""
    said: dict[str, list[str]] = {}
    for message in messages:
        said.setdefault(_PRIM_IN_MESSAGE.sub("(...)", message), []).append(message)
    for alike in said.values():
        yield alike[0] + (f" (and {len(alike) - 1} more like it)" if len(alike) > 1 else "")


def _choose(stage: pxr.Stage, path: str, choices: Mapping[str, str], file: Path) -> None:
    prim = stage.GetPrimAtPath(path)
    if not prim:
        raise ReadError(f"{file}: there is no prim {path!r} to choose a variant of")
    with pxr.Usd.EditContext(stage, stage.GetSessionLayer()):
        while prim.IsInstanceProxy():  # instances share what is in them; one that is to differ cannot be one
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
