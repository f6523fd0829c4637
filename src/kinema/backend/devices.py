"""What a program runs on."""

from __future__ import annotations

import importlib
import os
import sys
from dataclasses import dataclass
from functools import cache
from typing import Any

from kinema.foundation import KinemaError

from .processor import available_memory, lanes


@cache
def warp() -> Any:
    """NVIDIA Warp, started; quietly, because the caller shows progress."""
    wp: Any = importlib.import_module("warp")
    wp.config.quiet = True
    wp.config.log_level = getattr(wp, "LOG_ERROR", 40)
    with _stderr_silenced():  # its complaint about a missing CUDA driver is no news on a CPU
        wp.init()
    return wp


class _stderr_silenced:
    """Nothing reaches the terminal from C code meanwhile."""

    def __enter__(self) -> None:
        sys.stderr.flush()
        self.saved = os.dup(2)
        nowhere = os.open(os.devnull, os.O_WRONLY)
        os.dup2(nowhere, 2)
        os.close(nowhere)

    def __exit__(self, *_: object) -> None:
        sys.stderr.flush()
        os.dup2(self.saved, 2)
        os.close(self.saved)


@dataclass(frozen=True, slots=True)
class Device:
    """A device by Warp's name, `cpu` or `cuda:0`."""

    name: str

    @property
    def is_cpu(self) -> bool:
        """Whether programs run on the host."""
        return self.name == "cpu"

    def lanes(self, precision: str) -> int:
        """How many environments a program takes at a time."""
        return lanes(32 if precision == "single" else 64) if self.is_cpu else 1

    def free_memory(self) -> int:
        """Bytes that can be allocated."""
        if self.is_cpu:
            return available_memory()
        return int(warp().get_device(self.name).free_memory)


def find_device(name: str) -> Device:
    """The device of that name: `cpu`, `cuda`, `cuda:1`, or `auto` for a GPU where there is one."""
    wp = warp()
    if name == "auto":
        name = "cuda:0" if wp.is_cuda_available() else "cpu"
    if name == "cuda":
        name = "cuda:0"
    known = [str(d) for d in wp.get_devices()]
    if name not in known:
        raise KinemaError(f"there is no device {name!r} here; there are: {', '.join(known)}")
    return Device(name)


def synchronise(device: Device) -> None:
    """Wait until the device has done all it was told."""
    if not device.is_cpu:
        warp().synchronize_device(device.name)
