"""Cameras: each environment's own lens, what is out of focus, what moves while the shutter is open; whose memory."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.core import Pose
from kinema.render import (
    Camera,
    DeviceScene,
    Geometry,
    GeometryKind,
    Image,
    Instance,
    PathTracer,
    Renderer,
    RenderScene,
    Sky,
    Surface,
    look_at,
)
from kinema.runtime import find_device
from kinema.scene import link_pose_arrays

DARK = (0.0, 0.0, 0.0)
EDGE = 32


def lamp(link: int = -1) -> RenderScene:
    """A ball that shines, in the dark."""
    glow = Surface(color=(0, 0, 0, 1), specular=0.0, emission=(1.0, 1.0, 1.0))
    thing = Instance(geometry=Geometry(GeometryKind.SPHERE, (0.1, 0.0, 0.0)), surface=glow, link=link)
    return RenderScene(instances=[thing], sky=Sky(zenith=DARK, horizon=DARK, ground=DARK), n_links=link + 1)


def test_each_environment_has_its_own_lens_and_place() -> None:
    """What a camera of one environment sees is what a camera that is built so sees."""
    stage = lamp()
    one, other = (Camera(pose=look_at((1.0, y, 0.0), (0.0, 0.1, 0.0)), fov=f) for y, f in ((0.0, 0.4), (0.3, 0.9)))
    placed = DeviceScene(stage, 2, find_device("cpu"))
    placed.update_poses()
    alone = Renderer(placed, [one, other], (EDGE, EDGE), images=("depth",)).render()["depth"].numpy()
    renderer = Renderer(placed, [one], (EDGE, EDGE), images=("depth",), per_env=True)
    lens = renderer.camera_batch.intrinsics.numpy()
    lens[1, 0] = other.pixel_intrinsics(EDGE, EDGE)
    renderer.camera_batch.intrinsics.assign(lens)
    renderer.camera_batch.set_first_camera_poses([one.pose, other.pose])
    own = renderer.render()["depth"].numpy()
    assert np.isfinite(own).any(axis=(1, 2, 3)).all()
    np.testing.assert_allclose(own[0, 0], alone[0, 0], atol=1e-6)
    np.testing.assert_allclose(own[1, 0], alone[1, 1], atol=1e-6)


def traced(stage: RenderScene, camera: Camera, *places: float) -> np.ndarray:
    """The light of a picture whose shutter was open from the first place of the link to the second."""
    placed = DeviceScene(stage, 1, find_device("cpu"))
    for place in places or (0.0,):
        rows = link_pose_arrays([[Pose.translation([0.0, place, 0.0])]], "cpu") if stage.n_links else (None, None)
        placed.update_poses(*rows, motion_blur=True)
    return PathTracer(placed, [camera], (EDGE, EDGE), max_bounces=1).trace(256, denoise=False).radiance[0, 0, ..., 0]


def test_what_is_out_of_focus_is_as_wide_as_the_lens_makes_it() -> None:
    """The blur of a ball is that of the lens, by similar triangles; what is in focus stays sharp; no light is lost."""
    pose = look_at((2.0, 0.0, 0.0), (0.0, 0.0, 0.0))
    sharp = traced(lamp(), Camera(pose=pose, fov=0.4))
    focused = traced(lamp(), Camera(pose=pose, fov=0.4, aperture=0.1, focus_distance=2.0))
    blurred = traced(lamp(), Camera(pose=pose, fov=0.4, aperture=0.1, focus_distance=1.0))

    def half_width(light: np.ndarray) -> float:
        lit = light[EDGE // 2 - 1 : EDGE // 2 + 1].mean(axis=0) > 1e-3
        return 0.5 * float(lit.sum()) * 2.0 * np.tan(0.2) / EDGE  # as a tangent

    assert half_width(sharp) == pytest.approx(0.1 / 2.0, abs=0.015)
    assert half_width(focused) == pytest.approx(0.1 / 2.0, abs=0.015)
    # seen from the edge of the lens, at the distance in focus, the ball at twice that is shifted by half the lens
    assert half_width(blurred) == pytest.approx(0.1 / 2.0 + 0.1 * (1.0 / 1.0 - 1.0 / 2.0), abs=0.02)
    assert blurred.sum() == pytest.approx(sharp.sum(), rel=0.03)


def test_what_moves_while_the_shutter_is_open_is_smeared_along_its_way() -> None:
    camera = Camera(pose=look_at((2.0, 0.0, 0.0), (0.0, 0.0, 0.0)), fov=0.4)
    still, moved = traced(lamp(0), camera, 0.0, 0.0), traced(lamp(0), camera, -0.1, 0.1)
    assert moved.sum() == pytest.approx(still.sum(), rel=0.03)
    assert (moved > 1e-3).any(axis=0).sum() == pytest.approx(2 * (still > 1e-3).any(axis=0).sum(), abs=3)
    assert (moved > 1e-3).any(axis=1).sum() == pytest.approx((still > 1e-3).any(axis=1).sum(), abs=1)


def small_image() -> Image:
    placed = DeviceScene(lamp(), 1, find_device("cpu"))
    placed.update_poses()
    camera = Camera(pose=look_at((2.0, 0.0, 0.0), (0.0, 0.0, 0.0)))
    return Renderer(placed, [camera], (8, 8), images=("depth",)).render()["depth"]


def test_images_are_handed_on_without_a_copy() -> None:
    image = small_image()
    taken = np.from_dlpack(image)
    assert taken.shape == (1, 1, 8, 8)
    assert np.shares_memory(taken, image.numpy())


def test_images_are_tensors_without_a_copy() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    image = small_image()
    tensor = image.to_torch()
    assert isinstance(tensor, torch.Tensor)
    assert tensor.data_ptr() == image.numpy().__array_interface__["data"][0]
