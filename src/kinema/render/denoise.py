"""A denoiser for any machine: what light there is on each surface is smoothed, then coloured again."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.backend import Device, warp
from kinema.foundation import Array

from .launching import launch

PASSES = 5
STRENGTH = 3.0
"""How many standard deviations two pixels may differ by and still be taken for the same."""
_LEAST = 0.25
"""Darker surfaces are not divided by their colour in full: what shines on them does not depend on it."""


def denoised(
    light: Array,
    variance: Array,
    color: Array,
    normal: Array,
    depth: Array,
    shape: tuple[int, int, int, int],
    device: Device,
) -> Array:
    """The light of all pixels, (n, 3), with less noise; images one after the other.

    The variance is that of the brightness of the light on what is seen, without its colour.
    """
    from .kernels.denoise import smooth

    wp = warp()
    color = np.maximum(color, _LEAST)

    def array(values: Array, dtype: Any) -> Any:
        return wp.array(np.ascontiguousarray(values, np.float32), dtype=dtype, device=device.name)

    now, spread = array(light / color, wp.vec3), array(variance, wp.float32)
    guides = [array(color, wp.vec3), array(normal, wp.vec3), array(depth, wp.float32)]
    new, new_spread = wp.zeros_like(now), wp.zeros_like(spread)
    for k in range(PASSES):
        inputs = [shape[3], shape[2], 2**k, STRENGTH, now, spread, *guides, new, new_spread]
        launch(smooth, len(light), inputs, device)
        now, new, spread, new_spread = new, now, new_spread, spread
    return now.numpy() * color
