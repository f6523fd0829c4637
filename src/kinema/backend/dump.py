"""`KINEMA_DUMP`: a folder into which models, programs, LLVM IR and machine code are written as they are compiled.

Files are called after what they are about and a digest of it, `NAME-DIGEST.SUFFIX`: `.model.txt` and `.model.npz` (the
arrays of a model), `.ir` (a program), `.ll` (LLVM IR), `.s` (assembly of the optimised tier) or `.ptx`.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kinema.foundation import KinemaError
from kinema.trace import ENTRY, LOOP

from .compilers import FOREGROUND, Level

DUMP_VARIABLE = "KINEMA_DUMP"
_DEFINED = re.compile(r"^define [^@]*@(\w+)\(", re.MULTILINE)
_SHORT = 8
"""Digits of a digest in the name of a file."""
_SHOWN = 1000
"""Numbers of an array that are written as text; the others are in the archive beside it."""


def dump_folder() -> Path | None:
    """The folder that `KINEMA_DUMP` names; None where nothing is to be written."""
    named = os.environ.get(DUMP_VARIABLE)
    return Path(named) if named else None


def dump_file(name: str, content: str | bytes) -> None:
    """Write one file into the folder, if there is one."""
    folder = dump_folder()
    if folder is None:
        return
    plain = content if isinstance(content, bytes) else content.encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(plain)
    except OSError as error:
        raise KinemaError(f"{DUMP_VARIABLE}: {folder / name} cannot be written: {error.strerror}") from None


def dump_arrays(name: str, digest: str, arrays: Mapping[str, np.ndarray]) -> None:
    """The arrays of a model: as an archive for `numpy.load`, and as text."""
    if dump_folder() is None:
        return
    stem = f"{name}-{digest[:_SHORT]}.model"
    archive = io.BytesIO()
    np.savez_compressed(archive, allow_pickle=False, **arrays)
    dump_file(f"{stem}.npz", archive.getvalue())
    dump_file(f"{stem}.txt", "\n".join(_array_text(word, array) for word, array in arrays.items()))


def _array_text(name: str, array: np.ndarray) -> str:
    head = f"{name}: {array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}"
    if not array.size:
        return head
    text = np.array2string(array, separator=", ", threshold=_SHOWN, max_line_width=120, precision=9)
    lines = text.splitlines()
    return "\n".join([head, *(f"  {line}" for line in lines)])


def dump_program(name: str, digest: str, text: str) -> None:
    """The IR of a program, after its passes."""
    dump_file(f"{name}-{digest[:_SHORT]}.ir", text)


def dump_modules(name: str, digest: str, texts: Sequence[str], ptx: bytes | None = None) -> None:
    """LLVM modules, and the assembly or PTX that they are compiled to; those of loops are called after these."""
    for text in texts:
        found = _DEFINED.search(text)
        symbol = ENTRY if found is None else found[1]
        stem = f"{name}-{digest[:_SHORT]}" + ("" if symbol == ENTRY else f".{symbol.removeprefix(LOOP)}")
        dump_file(f"{stem}.ll", text)
        if ptx is None:
            dump_file(f"{stem}.s", FOREGROUND.compile(text, Level.OPTIMISED, assembly=True))
        else:
            dump_file(f"{stem}.ptx", ptx)
