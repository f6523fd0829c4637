"""The bytes of an image, wherever it is."""

from __future__ import annotations

import io
from pathlib import Path

import numpy as np

from kinema.foundation import KinemaError, require
from kinema.shapes.builtin_images import BUILTIN, draw_builtin
from kinema.shapes.channel_images import channels_name, is_made_of_channels, make_from_channels
from kinema.shapes.formats.gltf import read_image as image_in_gltf
from kinema.shapes.formats.png import PictureError, color_picture
from kinema.shapes.images import archived_image, bounded_bytes, image_suffix, split_reference
from kinema.shapes.limits import MeshLimits
from kinema.shapes.mesh_data import MeshError

MAX_PIXELS = 16_000_000
"""Of one image that is looked into."""


def read_image(reference: str) -> tuple[bytes, str]:
    """An image and the ending that files of its kind have; `MeshError` where it cannot be had.

    Args:
        reference: a file, or `file[part]`: a file of a .usdz, an image of a .glb or .gltf by its number; or one that is
            made of the channels of others (see `channel_images`).
    """
    if is_made_of_channels(reference):
        return make_from_channels(reference, image_pixels), ".png"
    file, part = split_reference(reference)
    path = Path(file)
    if not part:
        data = bounded_bytes(path)
    elif file == BUILTIN:
        data = draw_builtin(part)
    elif path.suffix.lower() == ".usdz":
        data = archived_image(path, part)
    elif path.suffix.lower() in (".glb", ".gltf") and part.isdecimal():
        try:
            data = image_in_gltf(bounded_bytes(path, MeshLimits().file_bytes), int(part), path.parent)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise error if isinstance(error, MeshError) else MeshError("The image could not be read.") from None
    else:
        raise MeshError("The image is inside of a file of an unknown kind.")
    return data, image_suffix(data, part or file)


def image_name(reference: str) -> str:
    """What a file with the image may be called, without its ending."""
    if is_made_of_channels(reference):
        return channels_name(reference, image_name)
    file, part = split_reference(reference)
    if not part:
        return Path(file).stem
    if file == BUILTIN:
        return part.split()[0]
    return f"{Path(file).stem}_{part}" if part.isdecimal() else Path(part).stem


def image_pixels(reference: str, most: int = MAX_PIXELS) -> np.ndarray:
    """The pixels of an image, shape (rows, columns, 4) of 8 bits, row 0 on top; `MeshError` where it cannot be had.

    Args:
        reference: the image, as for `read_image`.
        most: pixels; a larger image is made smaller.
    """
    data, suffix = read_image(reference)
    try:
        library = require("PIL.Image", extra="images", purpose=f"reading {suffix or 'images'}")
    except KinemaError as error:
        if suffix != ".png":
            raise MeshError(f"{error}.") from None
        try:
            return color_picture(data)
        except PictureError as reason:
            raise MeshError(str(reason)) from None
    try:
        with io.BytesIO(data) as source, library.open(source) as image:
            if image.width * image.height > most:
                scale = (most / (image.width * image.height)) ** 0.5
                image = image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
            return np.array(image.convert("RGBA"), dtype=np.uint8)
    except Exception as error:  # the library raises many types, warnings about huge images among them
        raise MeshError(f"The image cannot be read ({type(error).__name__}).") from None


def mean_color(reference: str) -> tuple[float, float, float]:
    """The colour of an image seen from far away, each 0 to 1; `MeshError` where it cannot be had."""
    red, green, blue, _ = (image_pixels(reference).mean(axis=(0, 1), dtype=np.float64) / 255.0).tolist()
    return red, green, blue


def to_png(data: bytes) -> bytes:
    """An image of any kind as a PNG; `MeshError` where that cannot be done, or the library for it is not there."""
    try:
        library = require("PIL.Image", extra="images", purpose="converting an image to PNG")
    except KinemaError as error:
        raise MeshError(f"{error}.") from None
    try:
        with io.BytesIO(data) as source, library.open(source) as image, io.BytesIO() as target:
            plain = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGB")
            plain.save(target, format="PNG")
            return target.getvalue()
    except Exception as error:  # the library raises many types, warnings about huge images among them
        raise MeshError(f"The image cannot be converted to PNG ({type(error).__name__}).") from None
