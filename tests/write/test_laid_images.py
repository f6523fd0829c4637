"""Images on what has no texture coordinates: laid as MuJoCo's renderer lays them, or stood for by their mean colour."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.core import collect
from kinema.description import Mesh, Robot
from kinema.geometry import encode_png
from kinema.read import read
from kinema.write import LossReport, write as write_file
from kit.choosing import representatives

ROOF = "0 0 0  .4 0 0  .4 .2 0  0 .2 0  .1 .1 .25"
"""A lopsided pyramid: its centre and principal axes are not those of its vertices."""
COORDINATES = 'texcoord="0 0  .9 .1  1 .8  .1 1  .4 .55"'
FACES = "0 2 1  0 3 2  0 1 4  1 2 4  2 3 4  3 0 4"


def write(robot: Any, file: Path, **options: Any) -> LossReport:
    file.parent.mkdir(exist_ok=True)
    return write_file(robot, file, **options)


COLORS = 'rgb1=".9 .2 .1" rgb2=".1 .3 .8" width="32" height="32" mark="edge" markrgb="1 1 0"'


def scene(texture: str = f'builtin="checker" {COLORS}', material: str = "", mesh: str = "", kind: str = "2d") -> str:
    return f"""<mujoco model="roof"><asset>
      <texture name="t" type="{kind}" {texture}/>
      <material name="m" texture="t" rgba=".8 1 .9 1" specular="0" {material}/>
      <mesh name="roof" vertex="{ROOF}" face="{FACES}" {mesh}/></asset>
      <worldbody><body name="b"><freejoint/>
        <geom name="g" type="mesh" mesh="roof" material="m"/></body></worldbody></mujoco>"""


DRAW = """
import sys
import mujoco, numpy as np
for file in sys.argv[1:]:
    model = mujoco.MjModel.from_xml_path(file)
    model.vis.headlight.ambient[:], model.vis.headlight.diffuse[:] = 1.0, 0.0
    model.vis.quality.shadowsize, model.vis.quality.offsamples = 0, 0  # nothing casts shadows; software draws slowly
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    camera = mujoco.MjvCamera()
    camera.lookat[:], camera.distance, camera.azimuth, camera.elevation = (0.2, 0.1, 0.1), 0.8, 70.0, -55.0
    with mujoco.Renderer(model, 160, 160) as renderer:
        renderer.update_scene(data, camera)
        np.save(file + ".npy", renderer.render())
"""


def pictures(*files: Path) -> list[np.ndarray]:
    """What MuJoCo draws of files, from above; in a process of its own, which alone is told what to draw with."""
    pytest.importorskip("mujoco")
    environment = {**os.environ, "MUJOCO_GL": os.environ.get("MUJOCO_GL", "egl")}
    command = [sys.executable, "-c", DRAW, *map(str, files)]
    done = subprocess.run(command, env=environment, capture_output=True, text=True, check=False)
    if done.returncode:
        pytest.skip(f"MuJoCo cannot draw here: {done.stderr.strip().splitlines()[-1:]}")
    return [np.load(f"{file}.npy").astype(int) for file in files]


def differ(one: np.ndarray, other: np.ndarray) -> float:
    return float((np.abs(one - other).max(axis=-1) > 16).mean())


CASES: dict[str, dict[str, str]] = {
    "coordinates": {"mesh": COORDINATES, "material": 'texrepeat="3 2"'},
    "coordinates flipped": {
        "mesh": COORDINATES,
        "material": 'texrepeat="8 9" texuniform="true"',
        "texture": 'file="i.png" vflip="true"',
    },
    "uniform": {"material": 'texrepeat="5 4" texuniform="true"'},
    "mirrored": {"mesh": 'scale="1 -1.5 .7"', "material": 'texrepeat="2 3"'},
    "moved": {"mesh": 'refpos=".1 .05 0" refquat=".9 .3 .1 .2"'},
    "flipped": {"texture": 'file="i.png" hflip="true"', "material": 'texrepeat=".7 .6"'},
    "cube": {"kind": "cube"},
    "cube mirrored": {
        "kind": "cube",
        "material": 'texuniform="true"',
        "mesh": 'scale="1 -1.5 .7"',
        "texture": 'file="i.png"',
    },
    "cube of a grid": {"kind": "cube", "texture": 'file="grid.png" gridsize="2 3" gridlayout="RLUDFB"'},
}


EVERY_RUN = ("coordinates flipped", "mirrored", "cube of a grid")


@pytest.fixture(scope="module")
def drawn(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> dict[str, list[np.ndarray]]:
    """What MuJoCo draws of each case that is run, and of what it is after every other format; all in one go."""
    asked = [
        item for item in request.session.items if isinstance(item, pytest.Function) and "drawn" in item.fixturenames
    ]
    cases = {name: CASES[name] for name in {str(item.callspec.params["name"]) for item in asked}}
    slopes = np.linspace(0, 255, 16).astype(np.uint8)
    pixels = np.stack([*np.meshgrid(slopes, slopes), np.full((16, 16), 90, np.uint8)], axis=-1)
    sides = [np.roll(pixels, number, axis=-1) // (1 + number // 3) for number in range(6)]
    grid = np.concatenate([np.concatenate(sides[:3], axis=1), np.concatenate(sides[3:], axis=1)])
    files: dict[str, list[Path]] = {}
    for name, given in cases.items():
        home = tmp_path_factory.mktemp(name.replace(" ", "_"))
        (home / "i.png").write_bytes(encode_png(pixels))
        (home / "grid.png").write_bytes(encode_png(grid))
        (home / "r.xml").write_text(scene(**given), encoding="utf-8")
        files[name] = [home / "r.xml"]
        robot = read(home / "r.xml")
        for target in ("r.usda", "r.sdf", "r.urdf"):
            folder = home / target.replace(".", "_")
            write(robot, folder / target, mesh_format="glb")
            write(read(folder / target, policy=collect), folder / "back.xml")
            files[name].append(folder / "back.xml")
        write(robot, home / "same" / "r.xml")
        files[name].append(home / "same" / "r.xml")
    images = iter(pictures(*(file for group in files.values() for file in group)))
    return {name: [next(images) for _ in group] for name, group in files.items()}


@pytest.mark.slow("MuJoCo draws 15 models without a GPU, 45 of all cases")
@pytest.mark.parametrize("name", representatives(CASES, lambda name: name in EVERY_RUN))
def test_other_formats_show_what_mujoco_shows(name: str, drawn: dict[str, list[np.ndarray]]) -> None:
    """MuJoCo draws the same of its own file and of one that came back with texture coordinates in it."""
    wanted, *found = drawn[name]
    assert len(np.unique(wanted.reshape(-1, 3), axis=0)) > 3  # the image is there to be seen
    assert [differ(wanted, other) for other in found] == pytest.approx([0.0] * 4, abs=0.005)


def test_a_cube_comes_back_from_usd(tmp_path: Path) -> None:
    """As the texture that it was, unless somebody moved the image that a stage has in its place."""
    (tmp_path / "r.xml").write_text(scene(kind="cube", mesh='scale="1 -1.5 .7"'), encoding="utf-8")
    robot, stage = read(tmp_path / "r.xml"), tmp_path / "o" / "r.usda"
    report = write(robot, stage, meshes="embed")
    assert [loss.action.value for loss in report if loss.what == "the texture around it"] == ["approximated"]
    write(read(stage), tmp_path / "back" / "r.xml")
    text = (tmp_path / "back" / "r.xml").read_text(encoding="utf-8")
    assert 'type="cube"' in text
    assert "vt " not in next((tmp_path / "back").rglob("*.obj")).read_text(encoding="utf-8")
    moved = re.sub(r"(texCoord2f\[\] primvars:st = \[\()[^,]*", r"\g<1>0.123", stage.read_text(encoding="utf-8"))
    stage.write_text(moved, encoding="utf-8")
    write(read(stage, policy=collect), tmp_path / "else" / "r.xml")
    text = (tmp_path / "else" / "r.xml").read_text(encoding="utf-8")
    assert re.search('<texture[^>]*type="2d"', text)
    assert not re.search('<material[^>]*texture="t"', text)


def material_of(robot: Any) -> Any:
    return robot.links[0].visuals[0].material


@pytest.mark.parametrize("target", ["r.usda", "r.urdf", "r.sdf"])
def test_cubes_of_images_leave_their_mean_colour(target: str, tmp_path: Path) -> None:
    """What MuJoCo compiles is the oracle for the pixels."""
    text = scene(kind="cube", texture=f'builtin="flat" {COLORS}').replace('type="mesh" mesh="roof"', 'size=".1 .2 .3"')
    (tmp_path / "r.xml").write_text(text.replace('name="g"', 'name="g" type="box"'), encoding="utf-8")
    mujoco: Any = pytest.importorskip("mujoco")
    pixels = mujoco.MjModel.from_xml_path(str(tmp_path / "r.xml")).tex_data.reshape(-1, 3)
    robot = read(tmp_path / "r.xml")
    report = write(robot, tmp_path / "o" / target)
    assert any(loss.what == "the texture around it" and loss.action.value == "approximated" for loss in report)
    wanted = np.array([0.8, 1.0, 0.9]) * pixels.mean(axis=0) / 255
    text = (tmp_path / "o" / target).read_text(encoding="utf-8")
    back = read(tmp_path / "o" / target, policy=collect)
    if target == "r.usda":  # for other readers; for ours the colour is what it was, and the texture is kept
        shown = text.partition("color3f inputs:diffuseColor = (")[2].partition(")")[0]
        np.testing.assert_allclose([float(x) for x in shown.split(",")], wanted, atol=4e-3)
        np.testing.assert_allclose(material_of(back).color, (0.8, 1.0, 0.9, 1.0), rtol=0, atol=1e-12)
        np.testing.assert_allclose(material_of(back).mean_texture_color, pixels.mean(axis=0) / 255, atol=4e-3)
    else:
        np.testing.assert_allclose(material_of(back).color[:3], wanted, atol=4e-3)


def textured_urdf(folder: Path) -> Robot:
    """A mesh without texture coordinates whose material has an image."""
    pixels = np.zeros((2, 4, 3), np.uint8)
    pixels[:, :2] = (200, 100, 0)
    (folder / "i.png").write_bytes(encode_png(pixels))
    corners = ROOF.split("  ")
    faces = [" ".join(str(int(i) + 1) for i in face.split()) for face in FACES.split("  ")]
    text = "".join(f"v {c}\n" for c in corners) + "".join(f"f {f}\n" for f in faces)
    (folder / "m.obj").write_text(text, encoding="utf-8")
    (folder / "r.urdf").write_text(
        '<robot name="r"><link name="a"><visual><geometry><mesh filename="m.obj"/></geometry><material name="m">'
        '<color rgba="1 .5 1 1"/><texture filename="i.png"/></material></visual></link></robot>',
        encoding="utf-8",
    )
    robot = read(folder / "r.urdf", policy=collect)
    assert isinstance(robot, Robot)
    return robot


MEAN = (100 / 255, 0.5 * 50 / 255, 0.0)


def test_the_mean_colour_stands_for_an_image_without_coordinates(tmp_path: Path) -> None:
    """In USD: for its readers a colour; the way back is as it was, unless somebody changed the colour meanwhile."""
    stage = tmp_path / "o" / "r.usda"
    report = write(textured_urdf(tmp_path), stage)
    assert any(loss.what == "the texture" and loss.action.value == "approximated" for loss in report)
    text = stage.read_text(encoding="utf-8")
    shown = text.partition("color3f inputs:diffuseColor = (")[2].partition(")")[0]
    np.testing.assert_allclose([float(x) for x in shown.split(",")], MEAN, atol=1e-6)
    back = material_of(read(stage, policy=collect))
    assert back.color == (1.0, 0.5, 1.0, 1.0)
    assert Path(back.texture).read_bytes() == (tmp_path / "i.png").read_bytes()
    stage.write_text(text.replace(shown, "0, 0, 1"), encoding="utf-8")
    assert material_of(read(stage, policy=collect)).color == (0.0, 0.0, 1.0, 1.0)


@pytest.mark.parametrize("kind", ["obj", "dae", "glb"])
def test_mesh_files_have_the_mean_colour_too(kind: str, tmp_path: Path) -> None:
    robot = textured_urdf(tmp_path)
    shape = robot.links[0].shapes[0]
    assert isinstance(shape.geometry, Mesh)
    shape.geometry = Mesh(vertices=np.array([[0, 0, 0], [1, 0, 0], [0, 1, 0.0]]), faces=np.array([[0, 1, 2]]))
    report = write(robot, tmp_path / "o" / "r.sdf", mesh_format=kind)
    assert any(loss.what == "its images" and loss.action.value == "approximated" for loss in report)
    trimesh: Any = pytest.importorskip("trimesh")
    (file,) = (tmp_path / "o").glob(f"meshes/*.{kind}")
    material = trimesh.load(file, force="mesh").visual.material
    factor = material.baseColorFactor if kind == "glb" else material.diffuse if kind == "obj" else material.main_color
    np.testing.assert_allclose(np.asarray(factor)[:3], np.round(np.array(MEAN) * 255), atol=1)
