"""From layers in memory to files: text with relative targets, crate, a package, or several layers."""

from __future__ import annotations

import shutil
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from kinema.foundation import WriteError

from ..textures import FOLDER as TEXTURES
from . import pxr
from .layers import split_layers
from .long_lists import BEGIN, END, LongLists
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
    relative: list[tuple[bytes]] = []
    with pxr.Sdf.ChangeBlock():
        for prim, name, target in writing.draft.relative_targets:
            spec = writing.draft.prims[prim].spec.relationships[name]
            spec.targetPathList.explicitItems = [f"{_PLACEHOLDER}{len(relative)}"]
            relative.append((f"<{pxr.Sdf.Path(target).MakeRelativePath(pxr.Sdf.Path(prim))}>".encode(),))
    targets = _StandIns(f"<{_PLACEHOLDER}".encode(), b">", relative)
    lists = LongLists(list(writing.draft.long_lists.values()))
    numbers = _StandIns(BEGIN, END, lists)
    with pxr.Sdf.ChangeBlock():
        lists.stand_in()
    if not (_save_with(layer, file, [targets, numbers]) and numbers.count == len(lists)):
        with pxr.Sdf.ChangeBlock():  # the robot itself has numbers that look like a stand-in
            lists.put_back()
        _save_with(layer, file, [targets])


def _save_with(layer: pxr.Layer, file: Path, all_stand_ins: Sequence[_StandIns]) -> bool:
    """Write a text with what its stand-ins stand for; whether it has no others."""
    made = file.with_name(f"{file.name}.made.usda")
    _save(layer, made)
    with made.open("rb") as text, file.open("wb") as output:
        pieces: Iterable[bytes] = iter(lambda: text.read(_PIECE), b"")
        for stand_ins in all_stand_ins:
            pieces = stand_ins.replaced(pieces)
        try:
            output.writelines(pieces)
        except (LookupError, ValueError):
            return False
    made.unlink()
    return True


class _Texts(Protocol):
    """What numbered stand-ins stand for."""

    def __getitem__(self, number: int, /) -> Iterable[bytes]: ...


@dataclass
class _StandIns:
    """What is in a text for something else: a beginning, a number, an end."""

    begin: bytes
    end: bytes
    texts: _Texts
    count: int = 0
    """How many have been found."""

    def replaced(self, pieces: Iterable[bytes]) -> Iterator[bytes]:
        """A text with what they stand for, piece by piece: meshes make it long."""
        rest = b""
        for piece in pieces:
            whole = rest + piece
            begun = whole.rfind(self.begin[:1], -_LONGEST)  # what may go on in the next piece
            cut = begun if begun >= 0 and self.end not in whole[begun:] else len(whole)
            whole, rest = whole[:cut], whole[cut:]
            first, *others = whole.split(self.begin)
            yield first
            for other in others:
                number, _, after = other.partition(self.end)
                yield from self.texts[int(number.partition(b",")[0].rstrip(b")"))]
                yield after
                self.count += 1
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
