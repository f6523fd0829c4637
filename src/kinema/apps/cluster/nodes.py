"""What a node has to be to work for us, and how to say why it is not."""

from __future__ import annotations

import os
import platform
import shutil
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.foundation import cache_dir

ENOUGH_DISK = 2**30
"""How much has to be free where compiled programs are kept [bytes]."""


@dataclass(frozen=True, slots=True)
class Needs:
    """What a worker asks of its node."""

    cpus: float = 1.0
    gpus: float = 0.0
    disk: int = ENOUGH_DISK
    """Free space where compiled programs are kept [bytes]."""


def own_version() -> str:
    """Kinema's own."""
    return sys.modules["kinema"].__version__


def facts() -> dict[str, Any]:
    """What counts of the node that this runs on; nothing here raises."""
    folder = cache_dir()
    standing = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    return {
        "host": platform.node(),
        "kinema": own_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cache": str(folder),
        "writable": os.access(standing, os.W_OK),
        "disk": shutil.disk_usage(standing).free,
        "pid": os.getpid(),
    }


def refusal(found: dict[str, Any], needs: Needs, version: str) -> str:
    """Why a node cannot be used, in one sentence; empty where it can."""
    name = found["host"]
    if found["kinema"] != version:
        return f"{name} has Kinema {found['kinema']}, not {version} as here: install the same version on all nodes"
    if not found["writable"]:
        return f"{name} cannot write to {found['cache']}, where compiled programs are kept: set KINEMA_CACHE there"
    if found["disk"] < needs.disk:
        free, wanted = (f"{n / 2**20:,.0f} MiB" for n in (found["disk"], needs.disk))
        return f"{name} has a full disk: {free} are free for {found['cache']}, and {wanted} are needed"
    return ""


def short_of(name: str, resources: dict[str, float], needs: Needs) -> str:
    """Why a node's own resources are not enough, in one sentence; empty where they are."""
    if resources.get("GPU", 0.0) < needs.gpus:
        return f"{name} has no GPU that could be used, and one is asked for"
    if resources.get("CPU", 0.0) < needs.cpus:
        return f"{name} offers {resources.get('CPU', 0.0):g} CPUs, and a worker takes {needs.cpus:g}"
    return ""


def places(resources: dict[str, float], needs: Needs) -> int:
    """How many workers there is room for."""
    counts = [resources.get("CPU", 0.0) / needs.cpus] if needs.cpus else []
    counts += [resources.get("GPU", 0.0) / needs.gpus] if needs.gpus else []
    return int(min(counts)) if counts else 1
