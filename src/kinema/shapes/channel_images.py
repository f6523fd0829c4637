"""Images made of the channels of others, for formats that want one number from an image, or several from one.

`channel[g FILE]` is one channel of an image as a grey one; `packed[FILE|FILE|FILE]` has the red channels of three
images as its red, green and blue. Both name images as others are named, and are made when somebody asks for them.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from kinema.shapes.images import png_bytes
from kinema.shapes.mesh_data import MeshError

_CHANNEL, _PACKED = "channel[", "packed["
_LETTERS = "rgba"
_OTHERWISE = 255
"""What a packed image has where there is no image to take it from: a factor of one."""
Pixels = Callable[[str], np.ndarray]
"""Gives the pixels of an image, shape (rows, columns, 4)."""


def channel_reference(image: str, channel: str) -> str:
    """What an image is called that has one channel (`r`, `g`, `b` or `a`) of another."""
    return f"{_CHANNEL}{channel} {image}]"


def packed_reference(red: str, green: str, blue: str) -> str:
    """What an image is called whose channels are the red ones of others; an empty name stands for all white."""
    return f"{_PACKED}{red}|{green}|{blue}]"


def is_made_of_channels(reference: str) -> bool:
    """Whether an image is one of these."""
    return reference.startswith((_CHANNEL, _PACKED)) and reference.endswith("]")


def channels_name(reference: str, name_of: Callable[[str], str]) -> str:
    """What a file with such an image may be called."""
    if reference.startswith(_CHANNEL):
        letter, _, image = _inside(reference).partition(" ")
        return f"{name_of(image)}_{letter}"
    return "_".join(dict.fromkeys(name_of(image) for image in _inside(reference).split("|") if image))


def make_from_channels(reference: str, pixels: Pixels) -> bytes:
    """Such an image as a PNG; `MeshError` where it cannot be made."""
    inside = _inside(reference)
    if reference.startswith(_CHANNEL):
        letter, _, image = inside.partition(" ")
        if letter not in _LETTERS or not letter or not image:
            raise MeshError("The channel of the image is not said in full.")
        return png_bytes(pixels(image)[:, :, _LETTERS.index(letter), None])
    parts = [pixels(image)[:, :, 0] if image else None for image in inside.split("|")]
    sizes = {part.shape for part in parts if part is not None}
    if len(parts) != 3 or len(sizes) != 1:
        raise MeshError("Images of different sizes cannot become one.")
    size = sizes.pop()
    return png_bytes(np.stack([np.full(size, _OTHERWISE, np.uint8) if p is None else p for p in parts], axis=-1))


def _inside(reference: str) -> str:
    return reference[reference.index("[") + 1 : -1]
