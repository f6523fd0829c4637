"""Object files of compiled libraries: targets, compilation of an LLVM module for a target, and symbols of ELF files."""

from __future__ import annotations

import json
import re
import struct
import subprocess
import sys
from collections.abc import Mapping
from dataclasses import dataclass
from importlib.metadata import version
from pathlib import Path

from kinema.core import InternalError, KinemaError, content_digest, load_entry, store_entry

from .cpu_features import has_fma, is_x86

_WORKER_SCRIPT = Path(__file__).with_name("llvm_worker.py")

# ------------------------------------------------------------------------------------------------------------- targets


@dataclass(frozen=True, slots=True)
class LibraryTarget:
    """Processor and binary interface that a library is compiled for."""

    name: str
    triple: str
    cpu: str
    features: str = ""
    abi: str = ""
    """Name of the floating-point calling convention, where the triple does not determine it."""
    reloc: str = "pic"
    """Relocation model of LLVM: `pic` for shared libraries, else `static`."""
    has_fma: bool = True
    """Whether the processor has a fused multiply-add instruction."""
    flush_subnormals: bool = False
    """Whether functions flush subnormal numbers to zero while they run, as programs of a scene do on x86."""
    precisions: tuple[str, ...] = ("double", "single")
    """Precisions that the processor has instructions for."""
    has_index_conversion: bool = True
    """Whether floating-point numbers are converted to 64-bit integers without a library, as computed indices are."""
    pointer_bytes: int = 8
    compiler: str = ""
    """Command of the C compiler that links shared libraries; empty for that of the host."""

    @property
    def is_elf(self) -> bool:
        """Whether object files have the format ELF."""
        return "wasm" not in self.triple and "darwin" not in self.triple and "windows" not in self.triple


CROSS_TARGETS = (
    LibraryTarget(
        "x86-64-v3", "x86_64-unknown-linux-gnu", "x86-64-v3", flush_subnormals=True, compiler="x86_64-linux-gnu-gcc"
    ),
    LibraryTarget("aarch64", "aarch64-unknown-linux-gnu", "generic", compiler="aarch64-linux-gnu-gcc"),
    LibraryTarget(
        "thumbv7em",
        "thumbv7em-none-unknown-eabihf",
        "cortex-m4",
        reloc="static",
        precisions=("single",),
        has_index_conversion=False,
        pointer_bytes=4,
        compiler="arm-none-eabi-gcc",
    ),
    LibraryTarget(
        "riscv64",
        "riscv64-unknown-linux-gnu",
        "generic-rv64",
        "+m,+a,+f,+d,+c",
        "lp64d",
        compiler="riscv64-linux-gnu-gcc",
    ),
    LibraryTarget(
        "wasm32",
        "wasm32-unknown-unknown",
        "generic",
        "+simd128,+bulk-memory,+sign-ext,+nontrapping-fptoint",
        reloc="static",
        has_fma=False,
        pointer_bytes=4,
    ),
)
"""Targets besides `native`. Their code depends on their name only, not on the machine that compiles it."""
TARGET_NAMES = ("native", *(target.name for target in CROSS_TARGETS))


def library_target(name: str) -> LibraryTarget:
    """Target by name; `native` is the host with all features of its CPU. KinemaError for unknown names."""
    if name == "native":
        import llvmlite.binding as llvm

        features = llvm.get_host_cpu_features().flatten()
        return LibraryTarget(
            "native",
            llvm.get_default_triple(),
            llvm.get_host_cpu_name(),
            features,
            has_fma=has_fma(),
            flush_subnormals=is_x86(),
        )
    for target in CROSS_TARGETS:
        if target.name == name:
            return target
    raise KinemaError(f"target: {name!r} is none of {', '.join(TARGET_NAMES)}")


# --------------------------------------------------------------------------------------------------------- compilation


@dataclass(frozen=True, slots=True, eq=False)
class ObjectFile:
    """Machine code of a module for a target."""

    code: bytes
    """Content of the object file."""
    frame_sizes: Mapping[str, int]
    """Stack frame of each function [bytes], without return address."""


_FRAME_SIZE = re.compile(r"stack frame size \((\d+)\) exceeds limit \(\d+\) in function '([^']+)'")


def compile_object(llvm_ir: str, target: LibraryTarget) -> ObjectFile:
    """Compile an LLVM module to an object file for a target, in a process of its own, or load it from the cache."""
    request = json.dumps(
        {
            "triple": target.triple,
            "cpu": target.cpu,
            "features": target.features,
            "reloc": target.reloc,
            "abi": target.abi,
        }
    )
    key = content_digest(request, llvm_ir, _WORKER_SCRIPT.read_text(encoding="utf-8"), version("llvmlite"))
    entry = load_entry("objects", key)
    if entry is None:
        process = subprocess.run(
            [sys.executable, str(_WORKER_SCRIPT), request], input=llvm_ir.encode(), capture_output=True, check=False
        )
        messages = process.stderr.decode(errors="replace")
        if process.returncode or not process.stdout:
            raise InternalError(f"LLVM rejected a module for {target.name}: {messages[-2000:]}")
        frame_sizes = {name: int(size) for size, name in _FRAME_SIZE.findall(messages)}
        entry = {"code": process.stdout, "frame_sizes": frame_sizes}
        store_entry("objects", key, entry)
    return ObjectFile(entry["code"], entry["frame_sizes"])


# ------------------------------------------------------------------------------------------------------------------ ELF

_SHT_SYMTAB, _SHN_UNDEF, _STB_GLOBAL = 2, 0, 1
_SHF_ALLOC, _SHT_NOBITS = 2, 8


@dataclass(frozen=True, slots=True)
class ElfSummary:
    """Global symbols and sizes of an ELF object file."""

    defined: list[str]
    undefined: list[str]
    """Names of the global symbols that the file defines, and of those that it needs, in the order of the file."""
    allocated_bytes: int
    """Size of the code and constants that are loaded [bytes]."""


def summarise_elf(code: bytes) -> ElfSummary:
    """Read the symbol table and section sizes of a little-endian ELF object file of 32 or 64 bits."""
    is_64 = code[4] == 2
    if is_64:
        (section_offset,), (entry_size, count) = struct.unpack_from("<Q", code, 40), struct.unpack_from("<HH", code, 58)
        section_format, symbol_format = "<IIQQQQIIQQ", "<IBBHQQ"
    else:
        (section_offset,), (entry_size, count) = struct.unpack_from("<I", code, 32), struct.unpack_from("<HH", code, 46)
        section_format, symbol_format = "<IIIIIIIIII", "<IIIBBH"
    sections = [struct.unpack_from(section_format, code, section_offset + i * entry_size) for i in range(count)]
    defined, undefined, n_bytes = list[str](), list[str](), 0
    for _, kind, flags, _, offset, size, link, *_ in sections:
        n_bytes += size if flags & _SHF_ALLOC and kind != _SHT_NOBITS else 0
        if kind != _SHT_SYMTAB:
            continue
        names = sections[link][4]
        for symbol in struct.iter_unpack(symbol_format, code[offset : offset + size]):
            name_offset, info, section = (symbol[0], *((symbol[1], symbol[3]) if is_64 else (symbol[3], symbol[5])))
            name = code[names + name_offset : code.index(b"\0", names + name_offset)].decode()
            if name and info >> 4 >= _STB_GLOBAL:
                (undefined if section == _SHN_UNDEF else defined).append(name)
    return ElfSummary(defined, undefined, n_bytes)


# -------------------------------------------------------------------------------------------------------------- archive

_ARCHIVE_MAGIC = b"!<arch>\n"
_NAME_BYTES = 15
"""Longest name of a member in its header."""


def static_library(member: str, code: bytes, symbols: list[str]) -> bytes:
    """Archive (`ar`, GNU format) of one object file, with the index of its global symbols and without time stamps."""
    long_names = b"" if len(member) <= _NAME_BYTES else f"{member}/\n".encode()
    table = _archive_member("//", long_names) if long_names else b""
    names = b"".join(symbol.encode() + b"\0" for symbol in symbols)
    index_bytes = 4 + 4 * len(symbols) + len(names)
    header_bytes = len(_archive_member("/", b""))
    start = len(_ARCHIVE_MAGIC) + header_bytes + index_bytes + index_bytes % 2 + len(table)
    index = struct.pack(f">I{len(symbols)}I", len(symbols), *[start] * len(symbols)) + names
    content = _archive_member("/0" if long_names else f"{member}/", code)
    return _ARCHIVE_MAGIC + _archive_member("/", index) + table + content


def _archive_member(name: str, content: bytes) -> bytes:
    """Header (no owner, no time) and content of an archive member, padded to an even length."""
    header = f"{name:<16}{0:<12}{0:<6}{0:<6}{'100644':<8}{len(content):<10}`\n".encode()
    return header + content + b"\n" * (len(content) % 2)
