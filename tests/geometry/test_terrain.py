"""Terrain: MuJoCo's conventions for height fields, and the generators."""

from __future__ import annotations

import struct
import zlib

import mujoco
import numpy as np
import pytest
from hypothesis import given, settings, strategies as st

from kinema.geometry import (
    GeometryError,
    ImageError,
    Terrain,
    flat_terrain,
    measure_mesh_quality,
    rough_terrain,
    slope_terrain,
    stairs_terrain,
    terrain_from_image,
)
from kinema.geometry.formats.image_files import decode_png_gray

WORLD = """<mujoco><asset><hfield name="h" {how} size="{size}"/></asset>
<worldbody><geom type="hfield" hfield="h" pos="0 0 {up}"/></worldbody></mujoco>"""


def compiled(how: str, size: str, up: float = 0.0, files: dict[str, bytes] | None = None) -> mujoco.MjModel:
    return mujoco.MjModel.from_xml_string(WORLD.format(how=how, size=size, up=up), files or {})


def of_model(model: mujoco.MjModel) -> Terrain:
    return Terrain.from_mujoco(
        model.hfield_data, int(model.hfield_nrow[0]), int(model.hfield_ncol[0]), model.hfield_size[0]
    )


def chunk(kind: bytes, content: bytes) -> bytes:
    return struct.pack(">I", len(content)) + kind + content + struct.pack(">I", zlib.crc32(kind + content))


def png(rows: list[bytes], width: int, depth: int, color: int, extra: bytes = b"") -> bytes:
    """A picture from rows that begin with their filter."""
    header = chunk(b"IHDR", struct.pack(">IIBBBBB", width, len(rows), depth, color, 0, 0, 0))
    return b"\x89PNG\r\n\x1a\n" + header + extra + chunk(b"IDAT", zlib.compress(b"".join(rows))) + chunk(b"IEND", b"")


def grey_png(pixels: np.ndarray) -> bytes:
    return png([b"\0" + row.tobytes() for row in pixels.astype(np.uint8)], pixels.shape[1], 8, 0)


def ray_heights(model: mujoco.MjModel, points: np.ndarray) -> np.ndarray:
    """Where rays from above meet the ground."""
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    hit, normal = np.zeros(1, dtype=np.int32), np.zeros(3)
    down = np.array([0.0, 0.0, -1.0])
    return np.array(
        [10.0 - mujoco.mj_ray(model, data, np.array([x, y, 10.0]), down, None, 1, -1, hit, normal) for x, y in points]
    )


def test_rows_columns_and_heights_are_as_in_mujoco() -> None:
    """The first row of a file is at +y, heights are stretched from the lowest to the highest, sizes are halves."""
    model = compiled('nrow="3" ncol="4" elevation="1 2 3 4  5 6 7 8  9 10 11 21"', "2 1 0.5 0.1")
    terrain = of_model(model)
    np.testing.assert_allclose(terrain.heights[0], 0.5 * np.array([8, 9, 10, 20]) / 20, atol=1e-7)
    np.testing.assert_allclose(terrain.heights[-1], 0.5 * np.array([0, 1, 2, 3]) / 20, atol=1e-7)
    assert terrain.size == (4.0, 2.0)
    assert terrain.base == 0.1
    assert terrain.spacing == pytest.approx((4 / 3, 1.0))
    points = np.random.default_rng(0).uniform(-1, 1, (200, 2)) * [1.99, 0.99]
    np.testing.assert_allclose(terrain.height_at(*points.T), ray_heights(model, points), atol=1e-7)


def test_a_terrain_goes_to_mujoco_and_back() -> None:
    terrain = rough_terrain((3.0, 2.0), 0.25, 0.4, seed=1, bump_width=0.5)
    terrain = Terrain(terrain.heights - 0.3, terrain.size, 0.5)
    share, size, up = terrain.to_mujoco()
    assert (share.min(), share.max()) == (0.0, 1.0)
    rows, columns = terrain.heights.shape
    model = compiled(f'nrow="{rows}" ncol="{columns}"', " ".join(map(str, size)), up)
    model.hfield_data[:] = share
    np.testing.assert_allclose(of_model(model).heights + up, terrain.heights, atol=1e-7)
    points = np.random.default_rng(0).uniform(-1, 1, (100, 2)) * [1.49, 0.99]
    np.testing.assert_allclose(terrain.height_at(*points.T), ray_heights(model, points), atol=1e-6)


def test_a_picture_is_the_terrain_that_mujoco_makes_of_it() -> None:
    """MuJoCo stretches its brightness; a picture with black and white in it needs none."""
    pixels = np.random.default_rng(2).integers(0, 256, (5, 7))
    pixels[0, 0], pixels[4, 3] = 0, 255
    picture = grey_png(pixels)
    model = compiled('file="h.png"', "1 2 0.3 0.1", files={"h.png": picture})
    mine = terrain_from_image(picture, (2.0, 4.0), 0.3, base=0.1)
    np.testing.assert_allclose(mine.heights, of_model(model).heights, atol=1e-7)
    assert mine.size == of_model(model).size


@settings(max_examples=25)
@given(
    seed=st.integers(0, 10**6),
    kind=st.sampled_from([(0, 1), (0, 2), (0, 4), (0, 8), (0, 16), (2, 8), (2, 16), (3, 4), (3, 8), (4, 8), (6, 16)]),
    width=st.integers(1, 9),
    height=st.integers(1, 6),
)
def test_pictures_of_all_kinds_are_read_as_pillow_does(
    seed: int, kind: tuple[int, int], width: int, height: int
) -> None:
    """Random bytes with random filters are a picture of any kind."""
    image = pytest.importorskip("PIL.Image")
    color, depth = kind
    random = np.random.default_rng(seed)
    channels = {0: 1, 2: 3, 3: 1, 4: 2, 6: 4}[color]
    length = (width * channels * depth + 7) // 8
    rows = [bytes([random.integers(5)]) + random.bytes(length) for _ in range(height)]
    palette = random.integers(0, 256, (2**depth if color == 3 else 0, 3))
    extra = chunk(b"PLTE", palette.astype(np.uint8).tobytes()) if color == 3 else b""
    data = png(rows, width, depth, color, extra)
    found = decode_png_gray(data)
    import io

    with image.open(io.BytesIO(data)) as theirs:
        if color == 0 and depth == 16:
            expected = np.asarray(theirs).astype(float) / 65535
        elif color == 0 and depth < 8:
            expected = np.asarray(theirs.convert("L")).astype(float) / 255
        elif depth == 16:  # Pillow keeps the higher half of colours
            expected = np.asarray(theirs.convert("RGB")).astype(float).mean(axis=2) / 255
        else:
            expected = np.asarray(theirs.convert("RGB")).astype(float).mean(axis=2) / 255
    np.testing.assert_allclose(found, expected, atol=1.01 / 255 if depth == 16 and color else 1e-9)


@pytest.mark.parametrize(
    ("reason", "data"),
    [
        ("not a PNG", b"GIF89a"),
        ("truncated", grey_png(np.zeros((4, 4)))[:-30]),
        ("no header", b"\x89PNG\r\n\x1a\n" + chunk(b"IEND", b"")),
        ("filter type 7", png([b"\7aa"], 2, 8, 0)),
        ("pixel format", png([b"\0aa"], 2, 3, 0)),
        ("truncated", png([b"\0a"], 2, 8, 0)),
        ("palette", png([b"\0\xff"], 1, 8, 3, chunk(b"PLTE", b"abc"))),
        ("pixels", png([b"\0"], 10**7, 8, 0)),
    ],
)
def test_what_is_no_picture_is_refused_in_one_sentence(reason: str, data: bytes) -> None:
    with pytest.raises(ImageError, match=reason):
        decode_png_gray(data)


def test_generated_terrain() -> None:
    """Each is what it is called, and a closed solid with ground below its lowest point."""
    size, spacing = (4.0, 2.0), 0.1
    made = {
        "flat": flat_terrain(size, spacing),
        "slope": slope_terrain(size, spacing, 0.2),
        "up": stairs_terrain(size, spacing, 0.5, 0.15),
        "down": stairs_terrain(size, spacing, 0.5, -0.15),
        "rough": rough_terrain(size, spacing, 0.3, seed=4),
    }
    for name, terrain in made.items():
        quality = measure_mesh_quality(terrain.to_mesh())
        assert quality.is_closed, name
        assert quality.volume > 0, name
        np.testing.assert_allclose(quality.extents[:2], size)
        assert terrain.spacing == pytest.approx((spacing, spacing))
    x = np.array([-1.9, -0.3, 0.72, 2.0])
    np.testing.assert_array_equal(made["flat"].height_at(x, 0 * x), 0)
    np.testing.assert_allclose(made["slope"].height_at(x, 0.3 + 0 * x), x * np.tan(0.2), atol=1e-12)
    treads = np.array([-1.75, -1.25, 0.25, 1.75])
    np.testing.assert_allclose(made["up"].height_at(treads, 0 * x), 0.15 * np.array([0, 1, 4, 7]), atol=1e-12)
    np.testing.assert_allclose(made["down"].heights, -made["up"].heights)
    rough = made["rough"].heights
    assert rough.min() >= 0
    assert 0.2 < rough.max() <= 0.3
    assert np.abs(np.diff(rough, axis=0)).max() < 0.3 * 1.5 * spacing / 0.5 * 1.2
    np.testing.assert_array_equal(rough, rough_terrain(size, spacing, 0.3, seed=4).heights)
    assert not np.array_equal(rough, rough_terrain(size, spacing, 0.3, seed=5).heights)


def test_beside_the_terrain_there_is_no_height_and_bad_numbers_are_refused() -> None:
    ground = flat_terrain((1.0, 1.0), 0.5)
    np.testing.assert_array_equal(np.isnan(ground.height_at([0.5, 0.51, 0, np.nan], [0.5, 0, -0.6, 0])), [0, 1, 1, 1])
    with pytest.raises(GeometryError, match="2 rows"):
        Terrain(np.zeros((1, 5)), (1.0, 1.0))
    with pytest.raises(GeometryError, match="finite"):
        Terrain(np.full((2, 2), np.nan), (1.0, 1.0))
    with pytest.raises(GeometryError, match="heights"):
        flat_terrain((1e6, 1e6), 0.01)
    with pytest.raises(GeometryError, match="angle of a slope"):
        slope_terrain((1.0, 1.0), 0.1, 2.0)
    with pytest.raises(GeometryError, match="positive"):
        stairs_terrain((1.0, 1.0), 0.1, 0.0, 0.1)
