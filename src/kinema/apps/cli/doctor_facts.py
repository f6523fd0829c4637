"""What `kinema doctor` finds out about a machine; nothing here raises."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import math
import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.backend import processor_text, vector_bits

PACKAGES = (
    # distribution, module, what it is for, how to get it; required ones first
    ("numpy", "numpy", "arrays", "pip install kinema"),
    ("scipy", "scipy", "convex hulls", "pip install kinema"),
    ("warp-lang", "warp", "simulation on CPU and GPU", "pip install warp-lang"),
    ("mujoco", "mujoco", "MJCF files and comparisons", "pip install kinema"),
    ("usd-core", "pxr", "USD files", "pip install kinema"),
    ("rich", "rich", "tables and progress bars", "pip install kinema"),
    ("typer", "typer", "this command", "pip install kinema"),
    ("torch", "torch", "to_torch(), tensors as commands", "pip install torch"),
    ("xacro", "xacro", ".xacro files", "pip install 'kinema[xacro]'"),
    ("build123d", "build123d", "CAD files", "pip install 'kinema[cad]'"),
    ("ray", "ray", "work on a cluster", "pip install 'kinema[cluster]'"),
    ("mitsuba-oidn", "mitsuba_oidn", "denoising of pictures", "pip install 'kinema[denoise]'"),
    ("mujoco-warp", "mujoco_warp", "benchmarks against it", "pip install mujoco-warp"),
)
OPTIONAL = {"torch", "xacro", "build123d", "ray", "mitsuba-oidn", "mujoco-warp"}
ENOUGH_DISK = 2**30


@dataclass(frozen=True, slots=True)
class Package:
    """One library."""

    name: str
    version: str | None
    """None where it is missing."""
    purpose: str
    required: bool
    how: str

    @property
    def missing(self) -> bool:
        """Whether it is not there."""
        return self.version is None


def packages() -> list[Package]:
    """Those that Kinema uses, with versions, found without importing them."""
    result = []
    for name, module, purpose, how in PACKAGES:
        version = None
        if importlib.util.find_spec(module) is not None:
            try:
                version = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                version = "unknown"
        result.append(Package(name, version, purpose, name not in OPTIONAL, how))
    return result


def system() -> dict[str, Any]:
    """The interpreter, the operating system and the processor."""
    from kinema import __version__

    try:
        usable = len(os.sched_getaffinity(0))
    except AttributeError:  # not on every system
        usable = os.cpu_count() or 1
    return {
        "kinema": __version__,
        "python": platform.python_version(),
        "executable": sys.executable,
        "os": platform.platform(),
        "machine": platform.machine(),
        "cpu": _cpu_name(),
        "cores": usable,
        "vector_bits": vector_bits(),
        "memory": _memory("MemTotal"),
        "memory_available": _memory("MemAvailable"),
    }


def _cpu_name() -> str:
    for line in processor_text().splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _memory(name: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{name}:")), None)
    except (OSError, ValueError):
        return None


def devices() -> list[dict[str, Any]]:
    """What programs can run on."""
    from kinema.backend import all_devices

    keys = ("name", "description", "memory", "free", "architecture")
    return [{key: getattr(device, key) for key in keys} for device in all_devices()]


def cache() -> dict[str, Any]:
    """Where results are cached on disk, how much there is, and whether it can be written."""
    from kinema.foundation import cache_dir, cache_limit, cache_usage

    folder = cache_dir()
    found = cache_usage()
    standing = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    return {
        "folder": str(folder),
        "entries": sum(usage.files for usage in found),
        "bytes": sum(usage.bytes for usage in found),
        "limit": cache_limit(),
        "writable": os.access(standing, os.W_OK),
        "disk_free": shutil.disk_usage(standing).free,
    }


def self_test(device: str) -> dict[str, Any]:
    """A pendulum swings for two seconds, from 2 radians; the exact solution has elliptic functions in it."""
    began = time.perf_counter()
    try:
        error = abs(_swing(device) - _exact(2.0))
    except Exception as problem:
        return {"device": device, "ok": False, "error": None, "seconds": 0.0, "problem": str(problem) or repr(problem)}
    seconds = time.perf_counter() - began
    ok = math.isfinite(error) and error < 1e-6
    return {"device": device, "ok": ok, "error": error, "seconds": seconds, "problem": "" if ok else "a wrong result"}


_START = 2.0
_LENGTH = 0.5
_GRAVITY = 9.81


def _swing(device: str) -> float:
    """The angle after two seconds, as simulated."""
    import numpy as np

    from kinema.description import Inertial, Joint, JointKind, Link, Robot, rotation
    from kinema.scene import Scene

    bob = Link(name="bob", inertial=Inertial(1.0, np.array([0.0, 0.0, -_LENGTH]), np.zeros((3, 3))))
    hinge = Joint(name="hinge", kind=JointKind.CONTINUOUS, parent=None, child="bob", axes=[rotation((0.0, 1.0, 0.0))])
    scene = Scene(dt=0.002, device=device, precision="double", integrator="rk4", gravity=(0, 0, -_GRAVITY), quiet=True)
    pendulum = scene.add(Robot(name="pendulum", links=[bob], joints=[hinge]))
    scene.build(1)
    pendulum.set_qpos([_START])
    scene.step(1000)
    return float(pendulum.get_qpos()[0, 0])


def _exact(seconds: float) -> float:
    from scipy.special import ellipj, ellipk

    k = math.sin(_START / 2)
    sn = ellipj(ellipk(k * k) + math.sqrt(_GRAVITY / _LENGTH) * seconds, k * k)[0]
    return 2 * math.asin(k * float(sn))
