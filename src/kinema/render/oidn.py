"""Open Image Denoise, where it is installed: a denoiser that has learnt from pictures."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import numpy as np

from kinema.foundation import Array, require

PACKAGE = "mitsuba-oidn"
"""What brings it: wheels for Linux (x86_64 and aarch64), macOS and Windows."""
_MODULE = "mitsuba_oidn"


@cache
def has_oidn() -> bool:
    """Whether it is installed and runs here.

    It is tried in a process of its own first: there are processors that its wheels have instructions for that they do
    not know, which would end this one.
    """
    if importlib.util.find_spec(_MODULE) is None:
        return False
    trial = f"import numpy, {_MODULE} as oidn; oidn.denoise(numpy.ones((32, 32, 3), numpy.float32), hdr=True)"
    ended = subprocess.run([sys.executable, "-c", trial], capture_output=True, check=False)
    if ended.returncode != 0:
        warnings.warn(
            f"{PACKAGE} is installed but does not run on this machine: our own denoiser is used", stacklevel=2
        )
    return ended.returncode == 0


def oidn_denoised(light: Array, color: Array, normal: Array, shape: tuple[int, int, int, int]) -> Array:
    """The light of all pixels, (n, 3), with less noise.

    Args:
        light: red, green, blue of all pixels, images one after the other, in proportion to light.
        color: of the surface that is seen, likewise.
        normal: of it, likewise; zero for the sky.
        shape: environments, cameras, rows and columns.
    """
    oidn: Any = require(_MODULE, purpose="Open Image Denoise", extra="denoise")

    def images(values: Array, low: float, high: float) -> np.ndarray:
        return np.clip(values, low, high).astype(np.float32).reshape(-1, shape[2], shape[3], 3)

    noisy, guides = images(light, 0.0, np.inf), (images(color, 0.0, 1.0), images(normal, -1.0, 1.0))
    clean = [oidn.denoise(one, paint, turned, hdr=True) for one, paint, turned in zip(noisy, *guides, strict=True)]
    return np.concatenate([np.asarray(one).reshape(-1, 3) for one in clean]).astype(np.float64)
