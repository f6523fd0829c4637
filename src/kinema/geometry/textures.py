"""Texture images by reference: files, embedded images, MuJoCo builtin textures, single and packed channels.

Reference syntax:
- `FILE`: an image file.
- `FILE[PART]`: a member of a .usdz by name, or an image of a .glb or .gltf by index.
- `builtin[kind width height rgb1 rgb2 mark markrgb]`: a procedural texture of MuJoCo, colours as `r,g,b`.
- `channel[g FILE]`: one channel of an image as a greyscale image.
- `packed[FILE|FILE|FILE]`: the red channels of three images as red, green and blue.

Generated images are drawn when they are read.
"""

from __future__ import annotations

import io
from collections.abc import Callable
from functools import lru_cache
from pathlib import Path

import numpy as np

from kinema.core import KinemaError, import_optional

from .formats.gltf import read_gltf_image as image_in_gltf
from .formats.image_files import (
    ImageError,
    decode_png_rgba,
    detect_image_suffix,
    encode_png,
    read_bounded_bytes,
    read_usdz_member,
    split_image_reference,
)
from .mesh import MeshError, MeshLimits

# MuJoCo builtin textures ----------------------------------------------------------------------------------------------

BUILTIN_PREFIX = "builtin"
MAX_BUILTIN_EDGE = 512
"""Maximum width and height [pixels]; builtin textures are smooth or flat and lose nothing by downscaling."""
_BUILTIN_FIELD_COUNT = 7


def builtin_texture_reference(
    kind: str,
    size: tuple[int, int],
    rgb1: tuple[float, ...],
    rgb2: tuple[float, ...],
    mark: str = "none",
    mark_rgb: tuple[float, ...] = (0.0, 0.0, 0.0),
) -> str:
    """Image reference of a procedural MuJoCo texture, drawn on demand.

    Args:
        kind: MuJoCo `builtin` type (`flat`, `gradient`, `checker`).
        size: width and height [pixels], clamped to `MAX_BUILTIN_EDGE`.
        rgb1: first colour.
        rgb2: second colour.
        mark: MuJoCo `mark` type (`none`, `edge`, `cross`).
        mark_rgb: colour of the mark.
    """
    width, height = (min(max(edge, 1), MAX_BUILTIN_EDGE) for edge in size)
    colors = [",".join(f"{value:.6g}" for value in color[:3]) for color in (rgb1, rgb2, mark_rgb)]
    return f"{BUILTIN_PREFIX}[{kind} {width} {height} {colors[0]} {colors[1]} {mark} {colors[2]}]"


@lru_cache(maxsize=8)  # displaying and saving read the same texture
def draw_builtin_texture(parameters: str) -> bytes:
    """PNG of a procedural MuJoCo texture; `MeshError` if `parameters` are malformed.

    `parameters` is the bracket content of a builtin reference: kind, width, height, two colours, mark and mark colour.
    """
    parts = parameters.split()
    if len(parts) != _BUILTIN_FIELD_COUNT:
        raise MeshError("The reference of the builtin texture is incomplete.")
    kind, width, height, *rest = parts
    columns, rows = int(width), int(height)
    if not (0 < columns <= MAX_BUILTIN_EDGE and 0 < rows <= MAX_BUILTIN_EDGE):
        raise MeshError("The builtin texture is too large.")
    first, second, mark_rgb = (_parse_color(text) for text in (rest[0], rest[1], rest[3]))
    weights = _second_color_weights(kind, rows, columns)[:, :, None]
    pixels = first * (1.0 - weights) + second * weights
    _draw_mark(pixels, rest[2], mark_rgb)
    return encode_png((255.0 * np.clip(pixels, 0.0, 1.0)).astype(np.uint8))


def _parse_color(text: str) -> np.ndarray:
    return np.array([float(value) for value in text.split(",")], dtype=np.float64)


def _second_color_weights(kind: str, rows: int, columns: int) -> np.ndarray:
    """Blending weight of the second colour at each pixel of a builtin texture, shape (rows, columns).

    Checker: 0 in the upper left and lower right quadrant, 1 in the others. Gradient: radial sigmoid as in MuJoCo. Other
    kinds: zero.
    """
    y, x = np.mgrid[:rows, :columns]
    if kind == "checker":
        return ((y < rows // 2) != (x < columns // 2)).astype(np.float64)
    if kind == "gradient":
        u = 2.0 * x / max(columns - 1, 1) - 1.0
        v = 2.0 * y / max(rows - 1, 1) - 1.0
        radius = 2.0 * np.hypot(u, v) - 1.0
        return np.clip(0.5 * (1.0 + np.sqrt(2.0) * radius / np.sqrt(1.0 + radius**2)), 0.0, 1.0)
    return np.zeros((rows, columns))


def _draw_mark(pixels: np.ndarray, mark: str, color: np.ndarray) -> None:
    """Draw the mark of a MuJoCo texture in place: the image border (`edge`) or a centred `cross`."""
    if mark == "edge":
        pixels[[0, -1]] = color
        pixels[:, [0, -1]] = color
    elif mark == "cross":
        pixels[pixels.shape[0] // 2] = color
        pixels[:, pixels.shape[1] // 2] = color


# Channel images -------------------------------------------------------------------------------------------------------

_CHANNEL_PREFIX, _PACKED_PREFIX = "channel[", "packed["
_CHANNEL_LETTERS = "rgba"
_MISSING_CHANNEL_VALUE = 255
"""Value of a packed channel without source image: a factor of one."""
PixelReader = Callable[[str], np.ndarray]
"""Reads the RGBA pixels of an image reference, uint8 (rows, columns, 4)."""


def channel_image_reference(image: str, channel: str) -> str:
    """Image reference of one channel (`r`, `g`, `b` or `a`) of another image as greyscale."""
    return f"{_CHANNEL_PREFIX}{channel} {image}]"


def packed_image_reference(red: str, green: str, blue: str) -> str:
    """Image reference that packs the red channels of three images as RGB; an empty reference means all 255."""
    return f"{_PACKED_PREFIX}{red}|{green}|{blue}]"


def is_channel_reference(reference: str) -> bool:
    """Whether an image reference is a single-channel or packed image."""
    return reference.startswith((_CHANNEL_PREFIX, _PACKED_PREFIX)) and reference.endswith("]")


def channel_image_name(reference: str, name_of: Callable[[str], str]) -> str:
    """File name stem for a single-channel or packed image; `name_of` gives the stem of a source image."""
    if reference.startswith(_CHANNEL_PREFIX):
        letter, _, image = _bracket_content(reference).partition(" ")
        return f"{name_of(image)}_{letter}"
    return "_".join(dict.fromkeys(name_of(image) for image in _bracket_content(reference).split("|") if image))


def compose_channel_image(reference: str, read_pixels: PixelReader) -> bytes:
    """PNG of one channel of an image as greyscale (`channel[...]`) or of three red channels as RGB (`packed[...]`).

    Raises `MeshError` if the reference is malformed or the sizes of the images differ.
    """
    content = _bracket_content(reference)
    if reference.startswith(_CHANNEL_PREFIX):
        letter, _, image = content.partition(" ")
        if letter not in _CHANNEL_LETTERS or not letter or not image:
            raise MeshError("The reference of the channel image is incomplete.")
        return encode_png(read_pixels(image)[:, :, _CHANNEL_LETTERS.index(letter), None])
    channels = [read_pixels(image)[:, :, 0] if image else None for image in content.split("|")]
    sizes = {channel.shape for channel in channels if channel is not None}
    if len(channels) != 3 or len(sizes) != 1:
        raise MeshError("Channels of images of different sizes cannot be packed.")
    size = sizes.pop()
    return encode_png(
        np.stack(
            [np.full(size, _MISSING_CHANNEL_VALUE, np.uint8) if values is None else values for values in channels],
            axis=-1,
        )
    )


def _bracket_content(reference: str) -> str:
    return reference[reference.index("[") + 1 : -1]


# Reading --------------------------------------------------------------------------------------------------------------

MAX_PIXELS = 16_000_000
"""Maximum number of pixels of a decoded image; larger images are downscaled."""


def read_image(reference: str) -> tuple[bytes, str]:
    """Encoded bytes of an image and its file name suffix; `MeshError` if it cannot be read.

    Args:
        reference: image file, `file[part]` (member of a .usdz, image index of a .glb or .gltf), builtin texture
            (`builtin[...]`) or composed image (`channel[...]`, `packed[...]`).
    """
    if is_channel_reference(reference):
        return compose_channel_image(reference, read_image_pixels), ".png"
    file, part = split_image_reference(reference)
    path = Path(file)
    if not part:
        data = read_bounded_bytes(path)
    elif file == BUILTIN_PREFIX:
        data = draw_builtin_texture(part)
    elif path.suffix.lower() == ".usdz":
        data = read_usdz_member(path, part)
    elif path.suffix.lower() in (".glb", ".gltf") and part.isdecimal():
        try:
            data = image_in_gltf(read_bounded_bytes(path, MeshLimits().file_bytes), int(part), path.parent)
        except (ValueError, TypeError, LookupError, AttributeError) as error:
            raise error if isinstance(error, MeshError) else MeshError("The image could not be read.") from None
    else:
        raise MeshError("The image is embedded in a file of an unsupported type.")
    return data, detect_image_suffix(data, part or file)


def image_name(reference: str) -> str:
    """File name stem (without suffix) for a copy of an image, derived from its reference."""
    if is_channel_reference(reference):
        return channel_image_name(reference, image_name)
    file, part = split_image_reference(reference)
    if not part:
        return Path(file).stem
    if file == BUILTIN_PREFIX:
        return part.split()[0]
    return f"{Path(file).stem}_{part}" if part.isdecimal() else Path(part).stem


def read_image_pixels(reference: str, max_pixels: int = MAX_PIXELS) -> np.ndarray:
    """RGBA pixels of an image, uint8 (rows, columns, 4), row 0 on top; `MeshError` if it cannot be read.

    Decodes with Pillow, or, if Pillow is not installed, with the built-in decoder for PNG only.

    Args:
        reference: image reference, as for `read_image`.
        max_pixels: maximum number of pixels; larger images are downscaled (with Pillow).
    """
    data, suffix = read_image(reference)
    try:
        library = import_optional("PIL.Image", extra="images", purpose=f"reading {suffix or 'images'}")
    except KinemaError as error:
        if suffix != ".png":
            raise MeshError(f"{error}.") from None
        try:
            return decode_png_rgba(data)
        except ImageError as reason:
            raise MeshError(str(reason)) from None
    try:
        with io.BytesIO(data) as source, library.open(source) as image:
            if image.width * image.height > max_pixels:
                scale = (max_pixels / (image.width * image.height)) ** 0.5
                image = image.resize((max(1, int(image.width * scale)), max(1, int(image.height * scale))))
            return np.array(image.convert("RGBA"), dtype=np.uint8)
    except Exception as error:  # Pillow raises many types, including warnings about huge images
        raise MeshError(f"The image cannot be read ({type(error).__name__}).") from None


def mean_image_color(reference: str) -> tuple[float, float, float]:
    """Mean colour (red, green, blue) of an image, each 0 to 1; `MeshError` if it cannot be read."""
    red, green, blue, _ = (read_image_pixels(reference).mean(axis=(0, 1), dtype=np.float64) / 255.0).tolist()
    return red, green, blue


def convert_to_png(data: bytes) -> bytes:
    """Convert an encoded image of any format to PNG with Pillow; `MeshError` if that fails or Pillow is missing."""
    try:
        library = import_optional("PIL.Image", extra="images", purpose="converting an image to PNG")
    except KinemaError as error:
        raise MeshError(f"{error}.") from None
    try:
        with io.BytesIO(data) as source, library.open(source) as image, io.BytesIO() as target:
            converted = image if image.mode in ("L", "RGB", "RGBA") else image.convert("RGB")
            converted.save(target, format="PNG")
            return target.getvalue()
    except Exception as error:  # Pillow raises many types, including warnings about huge images
        raise MeshError(f"The image cannot be converted to PNG ({type(error).__name__}).") from None
