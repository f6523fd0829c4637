"""What the host's processor has."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from kinema.foundation import threads_asked

_VECTORS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse2", 128), ("asimd", 128), ("neon", 128))
USUAL = 256
"""Bits of a vector for few environments. Where there are wider ones there are twice as many registers too, and
compilers make two such vectors of each: a tenth to two fifths faster, where there are enough environments for it."""


@cache
def processor_text() -> str:
    """What the system tells of its processor; empty where it does not."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def vector_bits() -> int | None:
    """The width of the processor's vectors; None where that is not known."""
    words = set(processor_text().lower().split())
    return next((bits for flag, bits in _VECTORS if flag in words), None)


def lanes(number_bits: int, n_envs: int | None = None, threads: int | None = None) -> int:
    """How many environments to take at a time.

    One by itself is no vector, which would read and write as much as for many: a humanoid and a heap of balls take
    twice as long then.

    Args:
        number_bits: the size of a number.
        n_envs: how many there are; None for any number.
        threads: that share them; None for as many as there are cores.
    """
    if n_envs == 1:
        return 1
    widest = (vector_bits() or 128) // number_bits
    usual = min(widest, USUAL // number_bits)
    enough = n_envs is not None and n_envs > usual * (threads or n_threads())
    return widest if enough else usual


def has_fused_multiply_add() -> bool:
    """Whether a product and a sum are one instruction: not on x86 processors of before 2013."""
    text = processor_text().lower()
    return "fma" in text.split() or platform.machine().lower() in ("aarch64", "arm64")


def is_x86() -> bool:
    """Whether the code of x86 processors runs here."""
    return platform.machine().lower() in ("x86_64", "amd64")


@cache
def processor_key() -> str:
    """What code that is compiled for this processor must not be run without."""
    words = sorted(set(" ".join(line for line in processor_text().splitlines() if _tells(line)).split()))
    return f"{platform.system()} {platform.machine()} {' '.join(words)}"


def _tells(line: str) -> bool:
    return line.lower().startswith(("flags", "features", "cpu part", "cpu implementer", "model name", "cpu family"))


def n_threads() -> int:
    """How many cores this process may use: all it has been given, or as many as `KINEMA_THREADS` says."""
    asked = threads_asked()
    if asked:
        return asked
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        return os.cpu_count() or 1


def available_memory() -> int:
    """What processes of this machine can still have: free, or given back by caches when asked [bytes]."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):  # another system, or an old one
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
