"""Denoisers of path-traced images: edge-avoiding a-trous wavelet filter (any device) and Open Image Denoise."""

from __future__ import annotations

import importlib.util
import subprocess
import sys
import warnings
from functools import cache
from typing import Any

import numpy as np

from kinema.core import Array, import_optional
from kinema.runtime import Device, warp

from .kernel_launch import launch_over_items

# A-trous wavelet filter -----------------------------------------------------------------------------------------------

ATROUS_PASSES = 5
"""Number of filter passes, with strides 1, 2, 4, ... pixels."""
LUMINANCE_SIGMAS = 3.0
"""Scale of luminance differences between neighbours, in standard deviations of the noise."""
_MIN_ALBEDO = 0.25
"""Lower bound of the albedo used for demodulation, since reflections on dark surfaces do not scale with it."""


def denoise_atrous(
    radiance: Array,
    variance: Array,
    albedo: Array,
    normal: Array,
    depth: Array,
    shape: tuple[int, int, int, int],
    device: Device,
) -> Array:
    """Denoise radiance (n, 3) with an edge-avoiding a-trous wavelet filter; images are stored one after the other.

    The radiance is divided by the albedo (demodulated), filtered in `ATROUS_PASSES` passes guided by albedo, normal and
    depth, and multiplied by the albedo again.

    Args:
        radiance: linear RGB of all pixels, shape (n, 3).
        variance: variance of the demodulated luminance of each pixel, shape (n,).
        albedo: albedo of the first hit, shape (n, 3).
        normal: normal of the first hit, shape (n, 3).
        depth: distance of the first hit [m], shape (n,).
        shape: environments, cameras, rows and columns.
        device: device that runs the filter.
    """
    from .kernels.denoising import atrous_filter_pass

    wp = warp()
    albedo = np.maximum(albedo, _MIN_ALBEDO)

    def array(values: Array, dtype: Any) -> Any:
        return wp.array(np.ascontiguousarray(values, np.float32), dtype=dtype, device=device.name)

    current, current_variance = array(radiance / albedo, wp.vec3), array(variance, wp.float32)
    guides = [array(albedo, wp.vec3), array(normal, wp.vec3), array(depth, wp.float32)]
    filtered, filtered_variance = wp.zeros_like(current), wp.zeros_like(current_variance)
    for level in range(ATROUS_PASSES):
        inputs = [
            shape[3],
            shape[2],
            2**level,
            LUMINANCE_SIGMAS,
            current,
            current_variance,
            *guides,
            filtered,
            filtered_variance,
        ]
        launch_over_items(atrous_filter_pass, len(radiance), inputs, device)
        current, filtered, current_variance, filtered_variance = filtered, current, filtered_variance, current_variance
    return current.numpy() * albedo


# Open Image Denoise ---------------------------------------------------------------------------------------------------

OIDN_PACKAGE = "mitsuba-oidn"
"""Package that provides Open Image Denoise, with wheels for Linux (x86_64 and aarch64), macOS and Windows."""
_OIDN_MODULE = "mitsuba_oidn"


@cache
def oidn_available() -> bool:
    """Whether Open Image Denoise is installed and runs on this machine.

    Tested in a separate process first, since its wheels may use instructions that the processor does not support, which
    would abort this process. Warns if it is installed but does not run.
    """
    if importlib.util.find_spec(_OIDN_MODULE) is None:
        return False
    script = f"import numpy, {_OIDN_MODULE} as oidn; oidn.denoise(numpy.ones((32, 32, 3), numpy.float32), hdr=True)"
    completed = subprocess.run([sys.executable, "-c", script], capture_output=True, check=False)
    if completed.returncode != 0:
        warnings.warn(
            f"{OIDN_PACKAGE} is installed but does not run on this machine; the built-in denoiser is used", stacklevel=2
        )
    return completed.returncode == 0


def denoise_oidn(radiance: Array, albedo: Array, normal: Array, shape: tuple[int, int, int, int]) -> Array:
    """Denoise radiance (n, 3) with Open Image Denoise.

    Args:
        radiance: linear RGB of all pixels, images one after the other, shape (n, 3).
        albedo: albedo of the first hit, shape (n, 3).
        normal: normal of the first hit, shape (n, 3); zero for the sky.
        shape: environments, cameras, rows and columns.
    """
    oidn: Any = import_optional(_OIDN_MODULE, purpose="Open Image Denoise", extra="denoise")

    def images(values: Array, low: float, high: float) -> np.ndarray:
        return np.clip(values, low, high).astype(np.float32).reshape(-1, shape[2], shape[3], 3)

    noisy, guides = images(radiance, 0.0, np.inf), (images(albedo, 0.0, 1.0), images(normal, -1.0, 1.0))
    denoised = [
        oidn.denoise(image, image_albedo, image_normal, hdr=True)
        for image, image_albedo, image_normal in zip(noisy, *guides, strict=True)
    ]
    return np.concatenate([np.asarray(image).reshape(-1, 3) for image in denoised]).astype(np.float64)
