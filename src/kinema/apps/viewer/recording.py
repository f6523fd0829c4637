"""Pictures as files."""

from __future__ import annotations

import io
from collections.abc import Sequence

import numpy as np

from kinema.foundation import KinemaError, require

SIZE = (720, 1280)
"""Rows and columns."""


def png(pixels: np.ndarray) -> bytes:
    """A picture, (rows, columns, 3 or 4), on white where it is transparent."""
    images = require("PIL.Image", purpose="a picture", extra="viewer")
    if pixels.shape[2] == 4:
        opacity = pixels[..., 3:].astype(np.float64) / 255.0
        pixels = (pixels[..., :3] * opacity + 255.0 * (1.0 - opacity)).astype(np.uint8)
    with io.BytesIO() as file:
        images.fromarray(pixels).save(file, format="PNG")
        return file.getvalue()


def video(frames: Sequence[np.ndarray], rate: float) -> tuple[str, bytes]:
    """A file's name and content: H.264 where imageio-ffmpeg is installed, else an animated GIF.

    Args:
        frames: pictures of one size, (rows, columns, 3).
        rate: how many there are in a second.
    """
    imageio = require("imageio.v3", purpose="a video", extra="viewer")
    stack = np.stack([frame[..., :3] for frame in frames])
    try:
        require("imageio_ffmpeg", purpose="a video", extra="viewer")
    except KinemaError:
        return "kinema.gif", imageio.imwrite("<bytes>", stack, extension=".gif", duration=1000.0 / rate, loop=0)
    return "kinema.mp4", imageio.imwrite("<bytes>", stack, extension=".mp4", fps=rate, macro_block_size=2)
