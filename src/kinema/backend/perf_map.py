"""Names of generated code for profilers: the map file of Linux `perf`, written where `KINEMA_PERF` is set."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kinema.trace import ENTRY, LOOP

PERF_VARIABLE = "KINEMA_PERF"
FOLDER = Path("/tmp")
"""Where `perf` looks for maps."""
_SYMBOL = struct.Struct("<IBBHQQ")
_SYMBOL_TABLE, _FUNCTION = 2, 2
"""SHT_SYMTAB and STT_FUNC."""


def note_symbols(name: str, tier: str, engine: Any, objects: Sequence[bytes]) -> None:
    """Add the functions of linked object files to `/tmp/perf-PID.map`, named after a program and its tier."""
    if not os.environ.get(PERF_VARIABLE):
        return
    with (FOLDER / f"perf-{os.getpid()}.map").open("a", encoding="utf-8") as stream:
        for code in objects:
            for symbol, size in functions_of(code):
                address = engine.get_function_address(symbol)
                stream.write(f"{address:x} {size:x} {named(symbol, name)} [{tier}]\n")


def named(symbol: str, program: str) -> str:
    """What profilers show of a function of a program: `kinema_run` is the program, others are loops of it."""
    return program if symbol == ENTRY else f"{program}_{symbol.removeprefix(LOOP)}"


def functions_of(code: bytes) -> Iterator[tuple[str, int]]:
    """Names and sizes [bytes] of the functions that an ELF object file defines; none for other formats."""
    if code[:5] != b"\x7fELF\x02":
        return
    (sections,) = struct.unpack_from("<Q", code, 40)
    size, count = struct.unpack_from("<HH", code, 58)
    headers = [struct.unpack_from("<IIQQQQIIQQ", code, sections + i * size) for i in range(count)]
    for _, kind, _, _, offset, length, link, _, _, _ in headers:
        if kind != _SYMBOL_TABLE:
            continue
        names = headers[link][4]
        for at in range(offset, offset + length, _SYMBOL.size):
            name, info, _, section, _, extent = _SYMBOL.unpack_from(code, at)
            if info & 15 == _FUNCTION and section:
                start = names + name
                yield code[start : code.index(b"\0", start)].decode(), extent
