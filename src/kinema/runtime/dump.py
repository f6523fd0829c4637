"""`KINEMA_DUMP`: a folder into which models, programs, LLVM IR and machine code are written as they are compiled.

Files are named `NAME-DIGEST.SUFFIX` after the program and a digest of its code: `.model.txt` and `.model.npz` (the
arrays of a model), `.ir` (a program), `.ll` (LLVM IR), `.s` (assembly of the optimised tier) or `.ptx`.
"""

from __future__ import annotations

import io
import os
import re
from collections.abc import Mapping, Sequence
from pathlib import Path

import numpy as np

from kinema.codegen import ENTRY_FUNCTION, OUTLINED_PREFIX
from kinema.core import KinemaError

from .llvm_compiler import FOREGROUND, OptLevel

DUMP_VARIABLE = "KINEMA_DUMP"
_DEFINE_PATTERN = re.compile(r"^define [^@]*@(\w+)\(", re.MULTILINE)
_DIGEST_DIGITS = 8
"""Digits of the digest in file names."""
_MAX_PRINTED = 1000
"""Array elements that are written as text; larger arrays are abbreviated."""


def dump_folder() -> Path | None:
    """Folder named by `KINEMA_DUMP`; None if dumping is off."""
    path = os.environ.get(DUMP_VARIABLE)
    return Path(path) if path else None


def dump_file(name: str, content: str | bytes) -> None:
    """Write a file into the dump folder, if dumping is on; KinemaError if it cannot be written."""
    folder = dump_folder()
    if folder is None:
        return
    data = content if isinstance(content, bytes) else content.encode()
    try:
        folder.mkdir(parents=True, exist_ok=True)
        (folder / name).write_bytes(data)
    except OSError as error:
        raise KinemaError(f"{DUMP_VARIABLE}: {folder / name} cannot be written: {error.strerror}") from None


def dump_arrays(name: str, digest: str, arrays: Mapping[str, np.ndarray]) -> None:
    """Write the arrays of a model as a NumPy archive and as text, if dumping is on."""
    if dump_folder() is None:
        return
    stem = f"{name}-{digest[:_DIGEST_DIGITS]}.model"
    archive = io.BytesIO()
    np.savez_compressed(archive, allow_pickle=False, **arrays)
    dump_file(f"{stem}.npz", archive.getvalue())
    dump_file(f"{stem}.txt", "\n".join(_format_array(array_name, array) for array_name, array in arrays.items()))


def _format_array(name: str, array: np.ndarray) -> str:
    """Text of an array: name, dtype and shape, then its indented elements."""
    head = f"{name}: {array.dtype} {'x'.join(map(str, array.shape)) or 'scalar'}"
    if not array.size:
        return head
    text = np.array2string(array, separator=", ", threshold=_MAX_PRINTED, max_line_width=120, precision=9)
    lines = text.splitlines()
    return "\n".join([head, *(f"  {line}" for line in lines)])


def dump_program(name: str, digest: str, ir_text: str) -> None:
    """Write the intermediate representation of an optimised program, if dumping is on."""
    dump_file(f"{name}-{digest[:_DIGEST_DIGITS]}.ir", ir_text)


def dump_modules(name: str, digest: str, modules: Sequence[str], ptx: bytes | None = None) -> None:
    """Write the LLVM IR of modules and their optimised assembly (or `ptx`) to the dump folder, if dumping is on.

    Files are named by `name` and the start of `digest`; files of outlined functions also by the function.
    """
    for module in modules:
        match = _DEFINE_PATTERN.search(module)
        symbol = ENTRY_FUNCTION if match is None else match[1]
        stem = f"{name}-{digest[:_DIGEST_DIGITS]}" + (
            "" if symbol == ENTRY_FUNCTION else f".{symbol.removeprefix(OUTLINED_PREFIX)}"
        )
        dump_file(f"{stem}.ll", module)
        if ptx is None:
            dump_file(f"{stem}.s", FOREGROUND.compile(module, OptLevel.OPTIMISED, assembly=True))
        else:
            dump_file(f"{stem}.ptx", ptx)
