"""Cameras of a scene: images against closed forms, optical flow, stills as other programs read them, videos."""

from __future__ import annotations

import subprocess
from pathlib import Path

import numpy as np
import pytest

import kinema as km

FOCAL = 0.5 * 24 / np.tan(0.4)
"""Focal length of the cameras [pixels]: 24 rows and a field of view of 0.8 rad."""
PIXELS = np.stack(np.meshgrid(np.arange(32) + 0.5 - 16.0, np.arange(24) + 0.5 - 12.0), axis=-1)
"""Pixel centres from the centre of the image [pixels], right and down, (24, 32, 2)."""


@pytest.fixture(scope="module")
def scene() -> km.Scene:
    """A plate that slides on x and one that slides on z, without forces; cameras above and on the second plate."""
    made = km.Scene(dt=0.01, codegen="loops", contacts=False, gravity=(0, 0, 0), quiet=True)
    made.add(km.Box((4.0, 4.0, 0.2)), pos=(0, 0, -0.1), name="ground", color=(0.2, 0.4, 0.6))
    made.add(km.Box((0.2, 0.2, 0.2)), pos=(0, 0, 5.0), name="cart")
    made.add_camera(pos=(0, 0, 2.0), lookat=(0, 0, 0), up=(0, 1, 0), fov=0.8, res=(32, 24))
    made.build(n_envs=2)
    return made


def downwards(scene: km.Scene, **how: object) -> km.scene.SceneCamera:
    """A camera 2 m above the ground that looks down, its rows along -y."""
    return scene.add_camera(
        **{"pos": (0, 0, 2.0), "lookat": (0, 0, 0), "up": (0, 1, 0), "fov": 0.8, "res": (32, 24), **how}
    )


@pytest.mark.slow("Warp compiles the kernels first")
def test_images_of_a_plane(scene: km.Scene) -> None:
    """Depth, normal, segmentation of a plane that fills the image; environments, and one image at a time."""
    scene.reset()
    camera = downwards(scene)
    np.testing.assert_allclose(camera.read("depth"), np.full((2, 24, 32), 2.0), atol=1e-5)
    np.testing.assert_allclose(camera.read("normal", envs_idx=[1]), np.tile([0.0, 0.0, 1.0], (1, 24, 32, 1)), atol=1e-6)
    assert (camera.read("segmentation") == [0, 0, 0]).all()
    assert camera.read("rgb").dtype == np.uint8
    assert np.ptp(camera.read("rgb").reshape(-1, 3), axis=0).max() < 60
    first = camera.read("rgb")
    camera.set_pose((0, 0, 20.0), (0, 0, 30.0))
    assert np.isinf(camera.read("depth")).all()
    assert (camera.read("rgb") != first).any()


def test_all_images_by_name(scene: km.Scene) -> None:
    """`read()` is a mapping of the images of one state; what was not accessed before the next step is refused."""
    scene.reset()
    camera = downwards(scene)
    images = camera.read(envs_idx=[1])
    assert list(images) == ["rgb", "depth", "normal", "segmentation", "flow"]
    assert [images[name].shape[3:] for name in images] == [(3,), (), (3,), (3,), (2,)]
    np.testing.assert_array_equal(images["depth"], camera.read("depth")[1:])
    images = camera.read()
    depth = images["depth"]
    scene.step()
    assert images["depth"] is depth
    with pytest.raises(km.KinemaError, match="the state has changed"):
        _ = images["rgb"]
    moved = camera.read()
    camera.set_pose((0, 0, 3.0), (0, 0, 0))
    with pytest.raises(km.KinemaError, match="the state has changed"):
        _ = moved["rgb"]
    with pytest.raises(km.KinemaError, match="'heat' is none of rgb"):
        _ = camera.read()["heat"]


def test_flow_of_a_plane_that_translates(scene: km.Scene) -> None:
    """A plane at a distance z moves by d: the flow is f d / z, rows downwards."""
    scene.reset()
    camera = downwards(scene)
    np.testing.assert_allclose(camera.read("flow"), 0.0, atol=1e-4)
    move = np.array([[0.05, -0.02, 0.0], [-0.01, 0.03, 0.0]])
    scene.get_entity("ground").set_dofs_velocity(np.pad(move / 0.02, ((0, 0), (0, 3))))
    scene.step(2)
    expected = FOCAL / 2.0 * move[:, None, None, :2] * [1.0, -1.0]
    np.testing.assert_allclose(camera.read("flow"), np.broadcast_to(expected, (2, 24, 32, 2)), atol=2e-3)


def test_flow_of_a_camera_that_translates(scene: km.Scene) -> None:
    """A camera moves sideways, then towards a plane: the flow is -f d / z, then p (1 - z / z0) from the centre."""
    scene.reset()
    cart = scene.get_entity("cart")
    cart.set_pos((0.0, 0.0, 2.0))
    camera = downwards(scene, link=cart.get_link("box"), pos=(0, 0, -0.2), lookat=(0, 0, -1.0))
    camera.read("flow")
    cart.set_dofs_velocity([5.0, 0.0, 0.0, 0.0, 0.0, 0.0])
    scene.step()
    np.testing.assert_allclose(camera.read("flow")[..., 0], -FOCAL * 0.05 / 1.8, atol=2e-3)
    np.testing.assert_allclose(camera.read("flow")[..., 1], 0.0, atol=2e-3)
    camera.read("depth")  # another image of the camera: its motion is still known
    cart.set_dofs_velocity([0.0, 0.0, -10.0, 0.0, 0.0, 0.0])
    scene.step()
    np.testing.assert_allclose(camera.read("depth"), 1.7, atol=1e-4)
    np.testing.assert_allclose(camera.read("flow"), np.tile(PIXELS * (1.0 - 1.7 / 1.8), (2, 1, 1, 1)), atol=2e-3)


def test_flow_of_a_camera_that_is_moved(scene: km.Scene) -> None:
    scene.reset()
    camera = downwards(scene)
    camera.read("flow")
    camera.set_pose((0.1, 0.0, 2.0), (0.1, 0, 0), up=(0, 1, 0))
    np.testing.assert_allclose(camera.read("flow")[..., 0], -FOCAL * 0.1 / 2.0, atol=2e-3)


@pytest.mark.slow("Warp compiles the kernels first")
def test_stills_as_other_programs_read_them(scene: km.Scene, tmp_path: Path) -> None:
    """PNG and JPEG by Pillow, EXR by FFmpeg: linear colours, and depth in metres."""
    image = pytest.importorskip("PIL.Image", reason="this needs the extra render")
    ffmpeg = pytest.importorskip("imageio_ffmpeg", reason="this needs the extra render").get_ffmpeg_exe()
    scene.reset()
    camera = downwards(scene)
    for name in ("a.png", "a.jpg", "sub/a.exr"):
        camera.save(tmp_path / name, env=1)
    pixels = camera.read("rgb")[1]
    np.testing.assert_array_equal(np.asarray(image.open(tmp_path / "a.png")), pixels)
    assert np.abs(np.asarray(image.open(tmp_path / "a.jpg")).astype(int) - pixels).max() <= 6

    def exr(path: Path) -> np.ndarray:
        command = [ffmpeg, "-v", "error", "-i", str(path), "-f", "rawvideo", "-pix_fmt", "gbrpf32le", "-"]
        raw = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        return np.frombuffer(raw, "<f4").reshape(3, 24, 32)[[2, 0, 1]]

    colour = pixels / 255.0
    linear = np.where(colour <= 0.04045, colour / 12.92, ((colour + 0.055) / 1.055) ** 2.4)
    np.testing.assert_allclose(np.moveaxis(exr(tmp_path / "sub/a.exr"), 0, 2), linear, atol=1e-6)
    camera.save(tmp_path / "traced.exr", pathtrace=1)
    assert exr(tmp_path / "traced.exr").mean() > 0.01
    camera.save(tmp_path / "z.exr", "depth")
    stored = (tmp_path / "z.exr").read_bytes()
    np.testing.assert_allclose(np.frombuffer(stored[-32 * 4 :], "<f4"), 2.0, atol=1e-5)
    picture = scene.render(tmp_path / "whole.png", res=(40, 30))
    assert picture.shape == (30, 40, 3)
    np.testing.assert_array_equal(np.asarray(image.open(tmp_path / "whole.png")), picture)
    for wrong, message in (
        (lambda: camera.save(tmp_path / "z.png", "depth"), "saved as .exr"),
        (lambda: camera.save(tmp_path / "z.bmp"), "suffix of a picture"),
        (lambda: camera.read("heat"), "heat"),
        (lambda: camera.save(tmp_path / "z.png", env=2), "index 2 is out of range: there are 2 environments"),
        (lambda: scene.render(env=slice(None)), "expected the index of one environment"),  # type: ignore[arg-type]
        (lambda: scene.add_camera(res=64), "expected width and height in pixels, not 64"),  # type: ignore[arg-type]
        (lambda: scene.add_camera(pos=(0, 0, 1), fov=40), "the field of view must be between 0 and pi, got 40 rad"),
        (lambda: scene.add_camera(link="box"), "needs a position"),
        (lambda: scene.add_camera(pos=(0, 0, 1), link=("cart", "lid")), "lid"),
        (lambda: scene.add_camera("front").read("rgb"), "no camera 'front'"),
    ):
        with pytest.raises(km.KinemaError, match=message):
            wrong()


def test_videos(scene: km.Scene, tmp_path: Path) -> None:
    """30 frames per simulated second, or every n-th step; several environments side by side."""
    library = pytest.importorskip("imageio_ffmpeg", reason="this needs the extra render")
    scene.reset()
    camera = downwards(scene)
    with scene.record(tmp_path / "run.mp4", camera=camera) as recording:
        scene.step(10)
    assert not recording.is_open
    with scene.record(tmp_path / "both.mp4", every=5, envs_idx=[0, 1], camera=camera):
        scene.step(10)
    for name, width, count, rate in (("run", 32, 4, 30.0), ("both", 64, 3, 20.0)):  # at 0, 0.04, 0.07, 0.1 s
        file = str(tmp_path / f"{name}.mp4")
        command = [library.get_ffmpeg_exe(), "-v", "error", "-i", file, "-f", "rawvideo", "-pix_fmt", "rgb24", "-"]
        raw = subprocess.run(command, check=True, capture_output=True, timeout=60).stdout
        frames = np.frombuffer(raw, np.uint8).reshape(count, 24, width, 3)
        colours = [x[4:20, 4:28].mean(axis=(0, 1)) for x in (frames[0], camera.read("rgb")[0])]
        np.testing.assert_allclose(*colours, atol=12)
        n_frames, seconds = library.count_frames_and_secs(file)
        assert n_frames / seconds == pytest.approx(rate, rel=0.04)
