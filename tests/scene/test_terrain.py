"""Terrain that things stand on: made by the generators, or from the picture of an SDFormat `<heightmap>`."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema import geometry
from kinema.description import HeightField
from kinema.geometry.formats.image_files import encode_png

BALL = """<sdf version="1.9"><model name="ball"><pose>0 0 1 0 0 0</pose><link name="l"><inertial><mass>1</mass>
<inertia><ixx>.004</ixx><iyy>.004</iyy><izz>.004</izz></inertia></inertial><collision name="c">
<geometry><sphere><radius>.1</radius></sphere></geometry></collision></link></model></sdf>"""
HILLS = """<sdf version="1.9"><model name="hills"><static>true</static><link name="l"><collision name="c"><geometry>
<heightmap><uri>{uri}</uri><size>4 3 0.5</size><pos>1 0 0.25</pos>{more}</heightmap>
</geometry></collision></link></model></sdf>"""
LEVELS = np.array([0.0, 0.2, 0.6, 1.0])


def picture(folder: Path) -> str:
    """Four levels from left to right, three pixels each, in 13 rows; half as bright as could be."""
    row = np.repeat(127 * LEVELS, 3).astype(np.uint8)
    (folder / "levels.png").write_bytes(encode_png(np.tile(row, (13, 1))[:, :, None]))
    return "levels.png"


@pytest.mark.benchmark
def test_balls_rest_where_terrain_is_level(tmp_path: Path) -> None:
    """On stairs, and on what a picture shows: a radius above the height that is said there, to a millimetre."""
    (tmp_path / "ball.sdf").write_text(BALL, encoding="utf-8")
    (tmp_path / "hills.sdf").write_text(HILLS.format(uri=picture(tmp_path), more=""), encoding="utf-8")
    stairs = geometry.stairs_terrain((4.0, 3.0), 4 / 11, 12 / 11, 0.15)
    hills = km.read(tmp_path / "hills.sdf")
    field = hills.links[0].shapes[0].geometry
    assert isinstance(field, HeightField)
    shown = geometry.Terrain(field.heights, field.size, field.base)
    for ground, terrain, shift in ((stairs, stairs, np.zeros(3)), (hills, shown, np.array([1.0, 0.0, 0.25]))):
        scene = km.Scene(quiet=True, codegen="loops")
        scene.add(ground)
        ball = scene.add(tmp_path / "ball.sdf", fixed=False)
        x = (np.array([1, 4, 7, 10]) / 11 - 0.5) * 4.0  # in the middle of each level
        scene.build(n_envs=len(x))
        height = terrain.height_at(x, np.zeros(4)) + shift[2]
        q = np.zeros((4, 7))
        q[:, 0], q[:, 2], q[:, 3] = x + shift[0], height + 0.11, 1.0
        ball.set_qpos(q)
        scene.step(500)
        np.testing.assert_allclose(ball.get_qpos()[:, 2], height + 0.1, atol=1e-3)
        assert np.abs(ball.get_qvel()).max() < 1e-2


def test_what_a_height_map_has_beside_its_heights(tmp_path: Path) -> None:
    """Heights are read, textures are kept; pictures that are none are said, and the text of the shape is kept."""
    more = "<texture><size>1</size><diffuse>d.png</diffuse><normal>n.png</normal></texture>"
    file = tmp_path / "hills.sdf"
    file.write_text(HILLS.format(uri=picture(tmp_path), more=more), encoding="utf-8")
    shape = km.read(file).links[0].shapes[0]
    field = shape.geometry
    assert isinstance(field, HeightField)
    np.testing.assert_allclose(field.heights[0], 0.5 * np.repeat((127 * LEVELS).astype(int) / 127, 3), atol=1e-12)
    assert [e.tag for e in shape.extras] == ["texture"]
    np.testing.assert_allclose(shape.pose.position, [1.0, 0.0, 0.25])
    (tmp_path / "bad.png").write_bytes(b"\x89PNG\r\n\x1a\n damaged")
    file.write_text(HILLS.format(uri="bad.png", more=""), encoding="utf-8")
    robot = km.read(file)
    assert not robot.links[0].shapes
    assert any(d.code == "sdf.heightmap" and "bad.png" in d.message for d in robot.diagnostics)


@pytest.mark.parametrize("kind", ["rough", "slope", "flat"])
def test_generators_make_worlds(kind: str) -> None:
    """All of them can be added; their heights are what the scene's shapes have."""
    makers = {
        "rough": lambda: geometry.rough_terrain((4.0, 4.0), 0.5, 0.2, seed=1),
        "slope": lambda: geometry.slope_terrain((4.0, 4.0), 1.0, 0.3),
        "flat": lambda: geometry.flat_terrain((4.0, 4.0), 1.0),
    }
    terrain = makers[kind]()
    entity = km.Scene(quiet=True).add(terrain, name=kind)
    assert isinstance(entity.description, km.World)
    field = entity.description.shapes[0].geometry
    assert isinstance(field, HeightField)
    np.testing.assert_array_equal(field.heights, terrain.heights)
