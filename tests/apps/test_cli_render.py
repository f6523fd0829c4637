"""`kinema render`: pictures of files, and one clear sentence for what cannot be made."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from PIL import Image

from kinema.scene import Scene, SceneCameras
from kit.assets import EXAMPLES
from kit.command_line import run

ARM = EXAMPLES / "arm" / "arm.urdf"
QUADRUPED = EXAMPLES / "quadruped" / "quadruped.xml"


def picture(path: Path) -> np.ndarray:
    with Image.open(path) as image:
        return np.array(image)


def test_a_picture_shows_the_robot_in_the_middle(tmp_path: Path) -> None:
    """The image is of the size asked for, the robot is in it and not cut off, and the file's colours are seen."""
    target = tmp_path / "arm.png"
    words = ["--out", target, "--size", "80x60", "--samples", 4, "--device", "cpu", "--json"]
    code, output, problem = run("render", ARM, *words)
    assert code == 0, problem
    assert json.loads(output)["written"] == [{"file": str(target), "width": 80, "height": 60, "pictures": 1}]
    pixels = picture(target).astype(int)
    assert pixels.shape == (60, 80, 3)
    blue = (pixels[..., 2] - pixels[..., 0]) > 60
    assert blue.sum() > 20
    assert not blue[:2].any()
    assert not blue[:, :2].any()
    assert 30 < np.argwhere(blue)[:, 1].mean() < 50


def test_a_film_moves(tmp_path: Path) -> None:
    target = tmp_path / "arm.apng"
    words = ["--video", target, "--seconds", 0.5, "--fps", 8, "--size", "32x24", "--samples", 1]
    code, _, problem = run("render", ARM, *words, "--device", "cpu")
    assert code == 0, problem
    with Image.open(target) as film:
        assert film.n_frames == 4  # type: ignore[attr-defined]
        frames = []
        for number in range(4):
            film.seek(number)
            frames.append(np.array(film.convert("RGB")))
    assert (frames[0] != frames[1]).any()
    assert (frames[0] != frames[3]).any()


def test_a_camera_and_a_keyframe_of_the_file_path_traced(tmp_path: Path) -> None:
    """The robot in its keyframe is seen by its own camera; in another posture the picture is another."""
    pictures = []
    for number, more in enumerate((["--keyframe", "home"], [])):
        target = tmp_path / f"{number}.png"
        words = ["--camera", "track", "--pathtrace", "--samples", 2, "--size", "32x24", *more]
        code, _, problem = run("render", QUADRUPED, "--out", target, *words, "--device", "cpu")
        assert code == 0, problem
        pictures.append(picture(target).astype(int))
    assert pictures[0].shape == (24, 32, 3)
    assert (np.abs(pictures[0] - pictures[1]).max(axis=-1) > 40).mean() > 0.02


def test_a_turntable_goes_around_once(tmp_path: Path) -> None:
    """The camera sees the robot from all sides, and is back where it was."""
    target = tmp_path / "arm.apng"
    words = ["--turntable", "--video", target, "--seconds", 1, "--fps", 4, "--size", "32x24", "--samples", 1]
    code, _, problem = run("render", ARM, *words, "--device", "cpu")
    assert code == 0, problem
    with Image.open(target) as film:
        frames = []
        for number in range(film.n_frames):  # type: ignore[attr-defined]
            film.seek(number)
            frames.append(np.array(film.convert("RGB")).astype(int))
    assert len(frames) == 4
    for frame in frames:
        assert ((frame[..., 2] - frame[..., 0]) > 60).sum() > 1
    assert (frames[0] != frames[2]).any()


@pytest.mark.parametrize(
    ("words", "message"),
    [
        ([], "--out"),
        (["--out", "a.jpg"], ".png"),
        (["--video", "a.avi"], ".mp4"),
        (["--out", "a.png", "--camera", "none"], "no camera 'none'"),
        (["--out", "a.png", "--keyframe", "none"], "no keyframe 'none'"),
        (["--out", "a.png", "--size", "big"], "960x720"),
    ],
)
def test_what_cannot_be_made_is_said(words: list[str], message: str) -> None:
    code, _, problem = run("render", ARM, *words, "--device", "cpu")
    assert code == 2
    assert message in " ".join(problem.replace("│", " ").split())


def test_cameras_of_a_scene_see_where_its_links_are() -> None:
    """Each environment shows its own robot; segmentation names the link, and depth is the way to it."""
    from kinema.render import Camera, look_at

    scene = Scene(contacts=False, quiet=True)
    robot = scene.add(QUADRUPED)
    scene.build(2)
    places = robot.get_qpos()
    places[1, 0] += 0.7
    robot.set_qpos(places)
    above = Camera(pose=look_at((0.7, 0.0, 3.0), (0.7, 0.0, 0.0)), projection="orthographic", orthographic_height=1.2)
    cameras = SceneCameras(scene, [above], (24, 24), images=("depth", "segmentation"))
    images = {name: image.numpy()[:, 0] for name, image in cameras.render().items()}
    body = [link.name for link in robot.links].index("trunk")
    middle = images["segmentation"][1, 12, 12]
    assert middle[0] == 0
    assert middle[1] == body
    assert cameras.render_scene.instances[middle[2]].link == middle[1]
    assert (images["segmentation"][0, 12, 12] != middle).any()
    top = 3.0 - images["depth"][1, 12, 12]
    assert top == pytest.approx(places[1, 2], abs=0.15)
