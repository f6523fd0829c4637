"""Images of textures as pixels."""

from __future__ import annotations

from collections.abc import Iterable

import numpy as np

from kinema.foundation import Diagnostics
from kinema.shapes import MeshError, image_pixels


def load_images(files: Iterable[str], diagnostics: Diagnostics) -> dict[str, np.ndarray]:
    """The pixels of images, each (rows, columns, 4) of 8 bits; those that cannot be read are white, with a warning."""
    result = {}
    for file in dict.fromkeys(files):
        try:
            result[file] = image_pixels(file)
        except MeshError as error:
            diagnostics.warning("render.image", f"the image {file} is not shown: {error}")
            result[file] = np.full((1, 1, 4), 255, np.uint8)
    return result
