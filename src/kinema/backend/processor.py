"""What the host's processor has."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from kinema.foundation import threads_asked

_VECTORS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse2", 128), ("asimd", 128), ("neon", 128))
WIDEST = 256
"""Wider vectors slow some processors down more than they bring."""


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


def lanes(number_bits: int) -> int:
    """How many numbers of that size a vector holds."""
    return min(vector_bits() or 128, WIDEST) // number_bits


def has_fused_multiply_add() -> bool:
    """Whether a product and a sum are one instruction: not on x86 processors of before 2013."""
    text = processor_text().lower()
    return "fma" in text.split() or platform.machine().lower() in ("aarch64", "arm64")


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
