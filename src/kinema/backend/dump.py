"""`KINEMA_DUMP`: a folder into which models, programs, LLVM IR and machine code are written as they are compiled."""

from __future__ import annotations

import os
from collections.abc import Sequence
from pathlib import Path

from .compilers import FOREGROUND, Level

DUMP_VARIABLE = "KINEMA_DUMP"


def dump_folder() -> Path | None:
    """The folder that `KINEMA_DUMP` names; None where nothing is to be written."""
    named = os.environ.get(DUMP_VARIABLE)
    return Path(named) if named else None


def dump_text(name: str, text: str | bytes) -> None:
    """Write one file into the folder."""
    folder = dump_folder()
    if folder is None:
        return
    folder.mkdir(parents=True, exist_ok=True)
    file = folder / name
    if isinstance(text, bytes):
        file.write_bytes(text)
    else:
        file.write_text(text, encoding="utf-8")


def dump_program(name: str, digest: str, text: str) -> None:
    """The IR of a program, after its passes."""
    dump_text(f"{name}-{digest[:8]}.ir", text)


def dump_modules(name: str, digest: str, texts: Sequence[str], ptx: bytes | None = None) -> None:
    """LLVM modules, and the assembly or PTX that they are compiled to."""
    for number, text in enumerate(texts):
        stem = f"{name}-{digest[:8]}" + (f".{number}" if len(texts) > 1 else "")
        dump_text(f"{stem}.ll", text)
        if ptx is None:
            dump_text(f"{stem}.s", FOREGROUND.compile(text, Level.OPTIMISED, assembly=True))
        else:
            dump_text(f"{stem}.ptx", ptx)
