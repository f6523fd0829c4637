"""Features of the host CPU: SIMD width, FMA, number of threads, available memory, and a fingerprint."""

from __future__ import annotations

import os
import platform
from functools import cache
from pathlib import Path

from kinema.core import KinemaError, requested_thread_count

_SIMD_FLAGS = (("avx512f", 512), ("avx2", 256), ("avx", 256), ("sse2", 128), ("asimd", 128), ("neon", 128))
"""CPU flag -> SIMD register width [bits], widest first."""
TIER_VARIABLE = "KINEMA_TIER"
"""Environment variable with the only tier of compiled code to use, `baseline` or `optimised`."""
VECTOR_BITS_VARIABLE = "KINEMA_VECTOR_BITS"
"""Environment variable with the largest SIMD vector width [bits]."""
_VECTOR_BITS = ("128", "256", "512")
DEFAULT_VECTOR_BITS = 256
"""SIMD vector width [bits] for few environments. Wider vectors (AVX-512) are 10 to 40 % faster if there are enough
environments to fill them."""


@cache
def cpuinfo() -> str:
    """Content of /proc/cpuinfo; empty on other systems."""
    try:
        return Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""


def simd_width_bits() -> int | None:
    """SIMD register width of the host CPU [bits], at most that of `KINEMA_VECTOR_BITS`; None if unknown."""
    flags = set(cpuinfo().lower().split())
    width = next((bits for flag, bits in _SIMD_FLAGS if flag in flags), None)
    requested = os.environ.get(VECTOR_BITS_VARIABLE, "")
    if requested and requested not in _VECTOR_BITS:
        raise KinemaError(f"{VECTOR_BITS_VARIABLE}: expected {', '.join(_VECTOR_BITS)}, not {requested!r}")
    return min(width, int(requested)) if width is not None and requested else width


def choose_lanes(scalar_bits: int, n_envs: int | None = None, threads: int | None = None) -> int:
    """Number of environments per SIMD vector on the host CPU.

    A single environment uses scalar code, as vector code would move as much memory as for a full vector.

    Args:
        scalar_bits: size of a scalar, 32 or 64.
        n_envs: number of environments; None for any number.
        threads: number of CPU threads that share the environments; None for the number of cores.
    """
    if n_envs == 1:
        return 1
    widest = (simd_width_bits() or 128) // scalar_bits
    default = min(widest, DEFAULT_VECTOR_BITS // scalar_bits)
    fills_widest = n_envs is not None and n_envs > default * (threads or n_threads())
    return widest if fills_widest else default


def has_fma() -> bool:
    """Whether the host CPU has fused multiply-add instructions."""
    text = cpuinfo().lower()
    return "fma" in text.split() or platform.machine().lower() in ("aarch64", "arm64")


def has_scatter() -> bool:
    """Whether the host CPU has gather and scatter instructions, with masks, for all vectors that programs use."""
    is_wide = (simd_width_bits() or 0) >= DEFAULT_VECTOR_BITS
    return is_wide and {"avx512f", "avx512vl", "avx512dq"} <= set(cpuinfo().lower().split())


def is_x86() -> bool:
    """Whether the host CPU is an x86-64."""
    return platform.machine().lower() in ("x86_64", "amd64")


@cache
def cpu_fingerprint() -> str:
    """Operating system, architecture and feature flags of the host CPU, as text.

    Cached machine code is valid for an equal fingerprint only.
    """
    features = sorted(set(" ".join(line for line in cpuinfo().splitlines() if _is_feature_line(line)).split()))
    return f"{platform.system()} {platform.machine()} {' '.join(features)}"


def _is_feature_line(line: str) -> bool:
    return line.lower().startswith(("flags", "features", "cpu part", "cpu implementer", "model name", "cpu family"))


def n_threads() -> int:
    """Number of CPU threads to use: `KINEMA_THREADS`, else the cores available to this process."""
    requested = requested_thread_count()
    if requested:
        return requested
    try:
        return len(os.sched_getaffinity(0))
    except AttributeError:  # not available on every system
        return os.cpu_count() or 1


def available_memory() -> int:
    """Host memory available to processes without swapping [bytes]."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next(int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable:"))
    except (OSError, StopIteration, ValueError):  # not Linux, or an old kernel
        return os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
