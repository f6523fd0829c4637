"""Panels on the display: render quality and layers; image files."""

from __future__ import annotations

import io
from collections.abc import Callable, Sequence
from html import escape
from typing import Any

import numpy as np

from kinema.core import KinemaError, import_optional

from ..layers import Layers
from ..render_quality import CHOICES, FULL, RenderQuality

# ------------------------------------------------------------------------------------------------------- render quality

_QUALITY_HINT = "fast: no shadows, no mirrored light, floor as lines, coarse crowds"


class QualityPanel:
    """Panel with the choice of render quality and the current state."""

    def __init__(self, gui: Any, quality: RenderQuality) -> None:
        self._quality = quality
        choice = gui.add_dropdown("Drawing", CHOICES, initial_value=quality.choice, hint=_QUALITY_HINT)
        self._text = gui.add_html("")
        self.update_text()

        def chosen(_: Any) -> None:
            quality.choose(choice.value)
            self.update_text()

        choice.on_update(chosen)

    def update_text(self) -> None:
        """Show the current render quality and its reason."""
        text = "Drawn fast" if self._quality.is_fast else "Drawn with shadows and mirrored light"
        text += f": {self._quality.reason}." if self._quality.reason else "."
        if self._quality.choice == FULL:
            text += " Without a GPU, edges are smooth when the page is loaded again."
        self._text.content = f"<div style='padding:0 .8em;opacity:.75;font-size:.85em'>{escape(text)}</div>"


# --------------------------------------------------------------------------------------------------------------- layers

_LAYER_HINTS = {
    "Contacts": "while it plays; arrows are forces, and may be inside of links: switch Visual off to see them"
}


def add_layers_panel(gui: Any, layers: Layers, set_layer: Callable[[str, bool], None]) -> None:
    """Add a checkbox for each layer."""
    for name in layers.names():
        _add_checkbox(gui, name, name in layers.enabled, set_layer)


def _add_checkbox(gui: Any, name: str, on: bool, set_layer: Callable[[str, bool], None]) -> None:
    box = gui.add_checkbox(name, initial_value=on, hint=_LAYER_HINTS.get(name))
    box.on_update(lambda _: set_layer(name, box.value))


# ---------------------------------------------------------------------------------------------------------- image files

IMAGE_SIZE = (720, 1280)
"""Rows and columns."""


def encode_png(pixels: np.ndarray) -> bytes:
    """PNG file of an image, (rows, columns, 3 or 4), on a white background."""
    images = import_optional("PIL.Image", purpose="a picture", extra="viewer")
    if pixels.shape[2] == 4:
        opacity = pixels[..., 3:].astype(np.float64) / 255.0
        pixels = (pixels[..., :3] * opacity + 255.0 * (1.0 - opacity)).astype(np.uint8)
    with io.BytesIO() as file:
        images.fromarray(pixels).save(file, format="PNG")
        return file.getvalue()


def encode_video(frames: Sequence[np.ndarray], frame_rate: float) -> tuple[str, bytes]:
    """File name and content of a video: H.264 if imageio-ffmpeg is installed, otherwise an animated GIF.

    Args:
        frames: images of equal size, (rows, columns, 3).
        frame_rate: frames per second.
    """
    imageio = import_optional("imageio.v3", purpose="a video", extra="viewer")
    stack = np.stack([frame[..., :3] for frame in frames])
    try:
        import_optional("imageio_ffmpeg", purpose="a video", extra="viewer")
    except KinemaError:
        return "kinema.gif", imageio.imwrite("<bytes>", stack, extension=".gif", duration=1000.0 / frame_rate, loop=0)
    return "kinema.mp4", imageio.imwrite(
        "<bytes>", stack, extension=".mp4", fps=frame_rate, macro_block_size=2, ffmpeg_log_level="error"
    )
