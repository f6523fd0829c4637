"""Symbol names of generated code for profilers: the map file of Linux `perf`, written if `KINEMA_PERF` is set."""

from __future__ import annotations

import os
import struct
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

from kinema.codegen import ENTRY_FUNCTION, OUTLINED_PREFIX

PERF_VARIABLE = "KINEMA_PERF"
PERF_MAP_FOLDER = Path("/tmp")
"""Folder in which `perf` looks for map files."""
_ELF_SYMBOL = struct.Struct("<IBBHQQ")
"""ELF64 symbol: name, info, other, section, value, size."""
_SHT_SYMTAB, _STT_FUNC = 2, 2
"""SHT_SYMTAB and STT_FUNC."""


def write_perf_map(name: str, tier: str, engine: Any, objects: Sequence[bytes]) -> None:
    """Append the functions of linked object files to `/tmp/perf-PID.map`, named after the program and its tier."""
    if not os.environ.get(PERF_VARIABLE):
        return
    with (PERF_MAP_FOLDER / f"perf-{os.getpid()}.map").open("a", encoding="utf-8") as stream:
        for code in objects:
            for symbol, size in elf_functions(code):
                address = engine.get_function_address(symbol)
                stream.write(f"{address:x} {size:x} {profile_name(symbol, name)} [{tier}]\n")


def profile_name(symbol: str, program: str) -> str:
    """Name of a function in profilers: the program for its entry function, program and loop for outlined ones."""
    return program if symbol == ENTRY_FUNCTION else f"{program}_{symbol.removeprefix(OUTLINED_PREFIX)}"


def elf_functions(object_file: bytes) -> Iterator[tuple[str, int]]:
    """Names and sizes [bytes] of the functions that an ELF64 object file defines; none for other formats."""
    if object_file[:5] != b"\x7fELF\x02":
        return
    (headers_start,) = struct.unpack_from("<Q", object_file, 40)
    header_size, n_sections = struct.unpack_from("<HH", object_file, 58)
    headers = [
        struct.unpack_from("<IIQQQQIIQQ", object_file, headers_start + i * header_size) for i in range(n_sections)
    ]
    for _, section_type, _, _, offset, section_size, strings, _, _, _ in headers:
        if section_type != _SHT_SYMTAB:
            continue
        names = headers[strings][4]
        for position in range(offset, offset + section_size, _ELF_SYMBOL.size):
            name, info, _, section, _, n_bytes = _ELF_SYMBOL.unpack_from(object_file, position)
            if info & 15 == _STT_FUNC and section:
                start = names + name
                yield object_file[start : object_file.index(b"\0", start)].decode(), n_bytes
