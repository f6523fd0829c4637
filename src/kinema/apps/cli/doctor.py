"""`kinema doctor`: Python, packages, devices and cache of this machine, with a pendulum self-test of each device."""

from __future__ import annotations

import importlib.metadata
import importlib.util
import json as json_module
import math
import os
import platform
import shutil
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kinema.runtime import cpuinfo, simd_width_bits

from .cache import format_bytes
from .input_output import EXIT_HAS_ERRORS, EXIT_OK, output_console

# --------------------------------------------------------------------- examination of the machine (nothing here raises)

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
OPTIONAL_PACKAGES = {"torch", "xacro", "build123d", "ray", "mitsuba-oidn", "mujoco-warp"}
MIN_FREE_DISK = 2**30


@dataclass(frozen=True, slots=True)
class Package:
    """Installed or missing package."""

    name: str
    version: str | None
    """None where it is missing."""
    purpose: str
    required: bool
    how: str

    @property
    def missing(self) -> bool:
        """Whether the package is not installed."""
        return self.version is None


def find_packages() -> list[Package]:
    """Packages that Kinema uses, with versions, found without importing them."""
    result = []
    for name, module, purpose, how in PACKAGES:
        version = None
        if importlib.util.find_spec(module) is not None:
            try:
                version = importlib.metadata.version(name)
            except importlib.metadata.PackageNotFoundError:
                version = "unknown"
        result.append(Package(name, version, purpose, name not in OPTIONAL_PACKAGES, how))
    return result


def system_info() -> dict[str, Any]:
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
        "vector_bits": simd_width_bits(),
        "memory": _meminfo_bytes("MemTotal"),
        "memory_available": _meminfo_bytes("MemAvailable"),
    }


def _cpu_name() -> str:
    for line in cpuinfo().splitlines():
        if line.lower().startswith(("model name", "hardware")):
            return line.partition(":")[2].strip()
    return platform.processor() or platform.machine()


def _meminfo_bytes(field: str) -> int | None:
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        return next((int(line.split()[1]) * 1024 for line in lines if line.startswith(f"{field}:")), None)
    except (OSError, ValueError):
        return None


def device_info() -> list[dict[str, Any]]:
    """Devices that programs can run on."""
    from kinema.runtime import list_devices

    return [
        {
            "name": device.name,
            "description": device.description,
            "memory": device.total_memory,
            "free": device.free_memory,
            "architecture": device.architecture,
        }
        for device in list_devices()
    ]


def cache_info() -> dict[str, Any]:
    """Cache folder, its size, and whether it is writable."""
    from kinema.core import cache_dir, cache_limit, cache_usage

    folder = cache_dir()
    found = cache_usage()
    standing = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    return {
        "folder": str(folder),
        "entries": sum(usage.n_files for usage in found),
        "bytes": sum(usage.n_bytes for usage in found),
        "limit": cache_limit(),
        "writable": os.access(standing, os.W_OK),
        "disk_free": shutil.disk_usage(standing).free,
    }


def pendulum_self_test(device: str) -> dict[str, Any]:
    """Simulate a pendulum for two seconds from 2 rad and compare with the exact solution (elliptic functions)."""
    began = time.perf_counter()
    try:
        error = abs(_simulate_pendulum(device) - _exact_pendulum_angle(2.0))
    except Exception as problem:
        return {"device": device, "ok": False, "error": None, "seconds": 0.0, "problem": str(problem) or repr(problem)}
    seconds = time.perf_counter() - began
    ok = math.isfinite(error) and error < 1e-6
    return {"device": device, "ok": ok, "error": error, "seconds": seconds, "problem": "" if ok else "a wrong result"}


_PENDULUM_START = 2.0
_PENDULUM_LENGTH = 0.5
_PENDULUM_GRAVITY = 9.81


def _simulate_pendulum(device: str) -> float:
    """Simulated angle of the pendulum after two seconds [rad]."""
    import numpy as np

    from kinema.description import Inertial, Joint, JointKind, Link, Robot, rotation
    from kinema.scene import Scene

    bob = Link(name="bob", inertial=Inertial(1.0, np.array([0.0, 0.0, -_PENDULUM_LENGTH]), np.zeros((3, 3))))
    hinge = Joint(name="hinge", kind=JointKind.CONTINUOUS, parent=None, child="bob", axes=[rotation((0.0, 1.0, 0.0))])
    scene = Scene(
        dt=0.002, device=device, precision="double", integrator="rk4", gravity=(0, 0, -_PENDULUM_GRAVITY), quiet=True
    )
    pendulum = scene.add(Robot(name="pendulum", links=[bob], joints=[hinge]))
    scene.build(1)
    pendulum.set_qpos([_PENDULUM_START])
    scene.step(1000)
    return float(pendulum.get_qpos()[0, 0])


def _exact_pendulum_angle(seconds: float) -> float:
    from scipy.special import ellipj, ellipk

    k = math.sin(_PENDULUM_START / 2)
    sn = ellipj(ellipk(k * k) + math.sqrt(_PENDULUM_GRAVITY / _PENDULUM_LENGTH) * seconds, k * k)[0]
    return 2 * math.asin(k * float(sn))


# --------------------------------------------------------------------------------------------------------------- report


def run_doctor(*, json: bool) -> int:
    """Print the findings; the exit status is 1 if a requirement of simulation is missing."""
    with Status("looking around", console=Console(stderr=True)) as progress:
        libraries = find_packages()
        facts: dict[str, Any] = {"system": system_info(), "devices": [], "cache": None, "tests": []}
        problems = [f"{p.name} is missing ({p.purpose}): {p.how}" for p in libraries if p.missing and p.required]
        if not any(p.missing for p in libraries if p.name in ("warp-lang", "numpy", "scipy")):
            try:
                facts["devices"], facts["cache"] = device_info(), cache_info()
            except Exception as error:
                problems.append(f"warp-lang does not start: {error}")
            for device in facts["devices"]:
                progress.update(f"testing {device['name']}")
                facts["tests"].append(pendulum_self_test(device["name"]))
    problems += [f"the test on {t['device']} failed: {t['problem']}" for t in facts["tests"] if not t["ok"]]
    problems += _cache_problems(facts["cache"])
    hints = [f"{p.name} is not installed ({p.purpose}): {p.how}" for p in libraries if p.missing and not p.required]
    if facts["devices"] and all(d["name"] == "cpu" for d in facts["devices"]):
        hints.append("there is no NVIDIA GPU, or its driver is too old: simulation runs on the CPU")
    if json:
        listed = [{k: getattr(p, k) for k in ("name", "version", "purpose", "required", "how")} for p in libraries]
        whole = {**facts, "packages": listed, "problems": problems, "hints": hints}
        print(json_module.dumps(whole, ensure_ascii=False))  # noqa: T201
    else:
        _print_report(facts, libraries, problems, hints)
    return EXIT_HAS_ERRORS if problems else EXIT_OK


def _cache_problems(info: dict[str, Any] | None) -> list[str]:
    if info is None:
        return []
    result = []
    if not info["writable"]:
        result.append(f"{info['folder']} cannot be written, so that every start compiles anew: set KINEMA_CACHE")
    if info["disk_free"] < MIN_FREE_DISK:
        result.append(f"the disk of {info['folder']} has only {_format_binary_size(info['disk_free'])} left")
    return result


def _format_binary_size(n_bytes: int | None) -> str:
    if n_bytes is None:
        return "unknown"
    return f"{n_bytes / 2**30:.1f} GiB" if n_bytes >= 2**30 else f"{n_bytes / 2**20:.0f} MiB"


def _print_report(facts: dict[str, Any], libraries: list[Package], problems: list[str], hints: list[str]) -> None:
    console = output_console()
    machine = facts["system"]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    bits = machine["vector_bits"]
    rows = [
        ("kinema", machine["kinema"]),
        ("python", f"{machine['python']} ({machine['executable']})"),
        ("system", machine["os"]),
        ("processor", f"{machine['cpu']}, {machine['cores']} cores, vectors of {bits or 'unknown'} bits"),
        (
            "memory",
            f"{_format_binary_size(machine['memory'])}, {_format_binary_size(machine['memory_available'])} available",
        ),
    ]
    for device in facts["devices"]:
        if device["name"] != "cpu":
            size = f"{_format_binary_size(device['memory'])}, {_format_binary_size(device['free'])} free"
            rows.append((device["name"], f"{device['description']} ({device['architecture']}), {size}"))
    if facts["cache"] is not None:
        found = facts["cache"]
        of_limit = f"{format_bytes(found['bytes'])} of {format_bytes(found['limit'])}"
        rows.append(("cache", f"{found['folder']}: {found['entries']:,} entries, {of_limit}"))
    for test in facts["tests"]:
        text = f"a pendulum is {test['error']:.1e} rad off after 2 s" if test["error"] is not None else test["problem"]
        rows.append((f"test on {test['device']}", f"{'✓' if test['ok'] else '✗'} {text}, {test['seconds']:.1f} s"))
    for name, value in rows:
        table.add_row(Text(name, style="dim"), Text(str(value)))
    console.print(table)
    _print_packages(console, libraries)
    for hint in hints:
        console.print(Text.assemble(("· ", "cyan"), hint), soft_wrap=True)
    for problem in problems:
        console.print(Text.assemble(("✗ ", "bold red"), problem), soft_wrap=True)
    if not problems:
        console.print(Text.assemble(("✓ ", "bold green"), "ready"))


def _print_packages(console: Console, libraries: list[Package]) -> None:
    table = Table("package", "version", "for", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for p in libraries:
        style = "" if not p.missing else ("bold red" if p.required else "dim")
        table.add_row(
            Text(p.name, style=style), Text(p.version or "-", style=style), Text(p.purpose, style=style or "dim")
        )
    console.print(table)
