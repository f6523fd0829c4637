"""From layers in memory to files: text with relative targets, crate, a package, or several layers."""

from __future__ import annotations

import shutil
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import BinaryIO

from kinema.foundation import WriteError

from ..textures import FOLDER as TEXTURES
from . import pxr
from .layers import split_layers
from .writing import Writing

_PLACEHOLDER = "/__kinema_relative_"
_PIECE = 2**20
"""How much of a text [bytes] is looked at together."""
_LONGEST = 64
"""No stand-in of a target is longer [bytes]."""


def export(writing: Writing, file: Path) -> None:
    """Write the stage, and what it loads, into the file's folder."""
    suffix = file.suffix.lower()
    if writing.meshes.library is not None:
        name, layer = writing.meshes.library
        _save(layer, file.parent / name)
    if suffix == ".usdz":
        _pack(writing, file)
    elif writing.options.layered:
        for name, layer in split_layers(writing, file.name).items():
            (file.parent / name).parent.mkdir(parents=True, exist_ok=True)
            _save(layer, file.parent / name)
    elif suffix == ".usda":
        _save_text(writing, file)
    else:
        _save(writing.draft.layer, file)


def _save(layer: pxr.Layer, file: Path) -> None:
    try:
        done = layer.Export(str(file))
    except pxr.Tf.ErrorException as error:
        raise WriteError(f"{file.name}: OpenUSD cannot write it: {' '.join(str(error).split())}") from None
    if not done:
        raise WriteError(f"{file.name}: OpenUSD cannot write it")


def _save_text(writing: Writing, file: Path) -> None:
    """OpenUSD stores every target as an absolute path; in the text, joints name their bodies from where they are."""
    layer = writing.draft.layer
    relative: list[str] = []
    with pxr.Sdf.ChangeBlock():
        for prim, name, target in writing.draft.relative_targets:
            spec = writing.draft.prims[prim].spec.relationships[name]
            spec.targetPathList.explicitItems = [f"{_PLACEHOLDER}{len(relative)}"]
            relative.append(str(pxr.Sdf.Path(target).MakeRelativePath(pxr.Sdf.Path(prim))))
    absolute = file.with_name(f"{file.name}.absolute.usda")
    _save(layer, absolute)
    with absolute.open("rb") as text, file.open("wb") as output:
        output.writelines(_with_targets(text, [target.encode() for target in relative]))
    absolute.unlink()


def _with_targets(text: BinaryIO, targets: Sequence[bytes]) -> Iterator[bytes]:
    """The text with targets in the place of their stand-ins, piece by piece: meshes make it long."""
    start, rest = f"<{_PLACEHOLDER}".encode(), b""
    while piece := text.read(_PIECE):
        whole = rest + piece
        begun = whole.rfind(b"<", -_LONGEST)  # what may go on in the next piece
        cut = begun if begun >= 0 and b">" not in whole[begun:] else len(whole)
        whole, rest = whole[:cut], whole[cut:]
        first, *others = whole.split(start)
        yield first
        for other in others:
            number, _, after = other.partition(b">")
            yield b"<%b>%b" % (targets[int(number)], after)
    yield rest


def _pack(writing: Writing, file: Path) -> None:
    inner = file.with_suffix(".usdc")
    _save(writing.draft.layer, inner)
    try:
        done = pxr.UsdUtils.CreateNewUsdzPackage(str(inner), str(file))
    finally:
        inner.unlink(missing_ok=True)
        shutil.rmtree(file.parent / TEXTURES, ignore_errors=True)  # they are in the package
    if not done:
        raise WriteError(f"{file.name}: OpenUSD cannot pack it")
