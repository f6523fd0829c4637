"""From amounts of light to what a display takes."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array

_BRIGHT, _TARGET = 99.5, 0.9
"""The percentile of brightness that is shown as this much, where the exposure is chosen by the picture."""
_START = 0.76
"""From here on highlights are compressed instead of cut off."""
_FADING = 0.15
"""How much colour very bright highlights lose."""


def developed(light: Array, exposure: float | None = None) -> np.ndarray:
    """A picture of 8 bits for each colour.

    Args:
        light: in proportion to light, (..., 3).
        exposure: what it is multiplied by; chosen by the picture when not given.
    """
    if exposure is None:
        exposure = auto_exposure(light)
    scaled = _compressed(np.maximum(np.nan_to_num(light * exposure, posinf=1e4), 0.0))
    display = np.where(scaled <= 0.0031308, 12.92 * scaled, 1.055 * scaled ** (1 / 2.4) - 0.055)
    return np.round(255.0 * np.clip(display, 0.0, 1.0)).astype(np.uint8)


def auto_exposure(light: Array) -> float:
    """What makes the bright parts of a picture bright, within two stops."""
    bright = float(np.percentile(light @ np.array([0.2126, 0.7152, 0.0722]), _BRIGHT))
    return float(np.clip(_TARGET / max(bright, 1e-6), 0.25, 4.0))


def _compressed(light: Array) -> Array:
    """Colours stay as they are up to a point; beyond it, they approach white slowly."""
    peak = light.max(axis=-1, keepdims=True)
    room = 1.0 - _START
    new = np.where(peak > _START, 1.0 - room * room / (np.maximum(peak, _START) + room - _START), peak)
    scaled = light * (new / np.maximum(peak, 1e-9))
    fade = 1.0 - 1.0 / (_FADING * np.maximum(peak - new, 0.0) + 1.0)
    return scaled * (1.0 - fade) + new * fade
