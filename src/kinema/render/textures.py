"""Images of textures as pixels."""

from __future__ import annotations

import io
from collections.abc import Iterable

import numpy as np

from kinema.foundation import Diagnostics, KinemaError, require
from kinema.shapes import MeshError, PictureError, color_picture, read_image

MAX_PIXELS = 16_000_000
"""Of one image; larger ones are made smaller."""


def load_images(files: Iterable[str], diagnostics: Diagnostics) -> dict[str, np.ndarray]:
    """The pixels of images, each (rows, columns, 4) of 8 bits; those that cannot be read are white, with a warning."""
    result = {}
    for file in dict.fromkeys(files):
        try:
            result[file] = _pixels(file)
        except (MeshError, PictureError, KinemaError) as error:
            diagnostics.warning("render.image", f"the image {file} is not shown: {error}")
            result[file] = np.full((1, 1, 4), 255, np.uint8)
    return result


def _pixels(file: str) -> np.ndarray:
    data, suffix = read_image(file)
    try:
        library = require("PIL.Image", extra="images", purpose=f"reading {suffix or 'images'}")
    except KinemaError:
        if suffix != ".png":
            raise
        return color_picture(data)
    try:
        with io.BytesIO(data) as source, library.open(source) as image:
            if image.width * image.height > MAX_PIXELS:
                scale = (MAX_PIXELS / (image.width * image.height)) ** 0.5
                image = image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
            return np.array(image.convert("RGBA"), dtype=np.uint8)
    except Exception as error:  # the library raises many types, warnings about huge images among them
        raise MeshError(f"The image cannot be read ({type(error).__name__}).") from None
