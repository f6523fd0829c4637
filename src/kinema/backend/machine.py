"""What there is to run on, for those who want to know."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from .devices import warp


@dataclass(frozen=True, slots=True)
class DeviceFacts:
    """A device that programs can run on."""

    name: str
    """`cpu`, `cuda:0`, ..."""
    description: str
    memory: int
    """Of a GPU [bytes]; 0 for the host's own."""
    free: int
    architecture: str
    """Of a GPU, such as `sm_90`."""


def all_devices() -> list[DeviceFacts]:
    """Everything that Warp finds, the CPU first."""
    result = []
    for device in warp().get_devices():
        if device.is_cpu:
            result.append(DeviceFacts(str(device), device.name or "host", 0, 0, ""))
        else:
            arch = f"sm_{device.arch}"
            result.append(DeviceFacts(str(device), device.name, device.total_memory, device.free_memory, arch))
    return result


def cache_folder() -> Path:
    """Where compiled programs are kept from one start to the next."""
    return Path(warp().config.kernel_cache_dir)
