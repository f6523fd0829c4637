"""Arrays without copies: NumPy on the scene's own memory, DLPack, Warp, and PyTorch where it is installed."""

from __future__ import annotations

import numpy as np
import pytest

import kinema as km
from kinema.scene.arrays import OutputConverter
from kit.robots.small_robots import ball, reacher


def scene_with(out: str) -> tuple[km.Scene, km.Entity, km.Entity]:
    scene = km.Scene(precision="double", quiet=True, out=out)
    arm, flying = scene.add(reacher()), scene.add(ball())
    scene.build(3)
    return scene, arm, flying


def test_views_are_the_memory_itself() -> None:
    scene, arm, flying = scene_with("view")
    for value in (arm.get_qpos(), arm.get_dofs_velocity(), arm.get_links_pos(), flying.get_pos(), arm.get_mass_mat()):
        assert not value.flags.owndata
    q, place = arm.get_qpos(), arm.get_link("tip").get_pos()
    assert np.shares_memory(q, scene.built.arrays.get("qpos"))
    before = place.copy()
    q[:, 2] = 0.3  # a view is written through
    scene.mark_modified()
    np.testing.assert_array_equal(scene.built.arrays.get("qpos")[2], 0.3)
    np.testing.assert_allclose(arm.get_link("tip").get_pos() - before, [[0.3, 0, 0]] * 3, atol=1e-12)
    np.testing.assert_allclose(place - before, [[0.3, 0, 0]] * 3, atol=1e-12)
    arm.control_dofs_force([1.0, 0.0, 0.0])
    scene.step()
    np.testing.assert_array_equal(q, arm.get_qpos())
    assert arm.get_dofs_position().shape == (3, 3)
    flying.set_qpos([0, 0, 0, 1, 1, 0, 0])
    np.testing.assert_allclose(flying.get_dofs_position()[0, 3:], [np.pi / 2, 0, 0], atol=1e-12)


def test_views_and_copies_say_the_same() -> None:
    scene, arm, flying = scene_with("numpy")
    arm.set_qpos(np.arange(9.0).reshape(3, 3) / 10)
    copies = [arm.get_qpos([0, 2]), arm.get_links_quat("tip"), flying.get_dofs_position(), arm.get_dofs_bias_force()]
    scene.built.outputs.set_kind("view")
    views = [arm.get_qpos([0, 2]), arm.get_links_quat("tip"), flying.get_dofs_position(), arm.get_dofs_bias_force()]
    for a, b in zip(copies, views, strict=True):
        np.testing.assert_array_equal(a, b)
    scene.numpy()
    held = arm.get_qpos()
    arm.set_qpos(0.0)
    assert held.any()


def test_dlpack_and_warp_share_the_memory() -> None:
    scene, arm, _ = scene_with("numpy")
    field = scene.built.engine.array_view("qpos")
    memory = scene.built.arrays.get("qpos")
    assert np.shares_memory(np.from_dlpack(field), memory)
    assert np.shares_memory(np.asarray(field), memory)
    assert not hasattr(field, "__cuda_array_interface__")
    links = scene.links.pos
    shared = np.from_dlpack(links)
    assert shared.shape == (5, 3, 3)
    np.testing.assert_array_equal(shared[3], arm.get_link("tip").get_pos())
    warp = pytest.importorskip("warp", reason="Warp is not installed")
    warp.init()
    there = warp.from_dlpack(np.from_dlpack(field))
    assert there.ptr == memory.ctypes.data


def test_torch_shares_the_memory() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    scene, arm, _ = scene_with("torch")
    q = arm.get_qpos()
    assert isinstance(q, torch.Tensor)
    q[:, 2] = 0.3
    np.testing.assert_array_equal(scene.built.arrays.get("qpos")[2], 0.3)
    arm.set_qpos(torch.zeros(3))
    assert not q.any()


def test_without_torch_it_is_said() -> None:
    try:
        import torch  # noqa: F401  # pyright: ignore[reportMissingImports]
    except ImportError:
        pass
    else:
        pytest.skip("PyTorch is installed")
    scene, *_ = scene_with("numpy")
    with pytest.raises(km.KinemaError, match="needs PyTorch: pip install torch"):
        scene.torch()
    assert scene.out == "numpy"
    with pytest.raises(km.KinemaError, match="out: 'jax' is none of numpy, view, torch"):
        km.Scene(out="jax")


def test_what_happens_on_a_gpu_with_tensors_of_the_host_in_their_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """The ways that never go through the host do the same as those that do."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    other, arm, flying = scene_with("numpy")
    scene, there, aloft = scene_with("torch")
    monkeypatch.setattr(OutputConverter, "on_gpu", property(lambda self: self.kind == "torch"))
    monkeypatch.setattr(OutputConverter, "_is_cuda", staticmethod(lambda x: isinstance(x, torch.Tensor)))
    some = np.array([[0.1, 0.2], [0.3, 0.4]])
    place = np.array([[0.0, 0.0, 1.0, 1.0, 1.0, 0.0, 0.0]])
    for one, robot, ball_, as_ in ((other, arm, flying, np.asarray), (scene, there, aloft, torch.as_tensor)):
        robot.control_dofs_force(as_(np.array([[0.5, 0.1], [0.2, 0.3], [0.0, -0.1]])), ["shoulder", "push"])
        robot.set_dofs_velocity(as_(some), ["push", "shoulder"], as_(np.array([2, 0])))
        robot.set_dofs_position(as_(np.array([0.3])), "elbow")
        ball_.set_qpos(as_(place))
        ball_.set_qvel(as_(np.arange(6.0)))
        one.step(3)
        one.reset(as_(np.array([False, True, False])))
        one.reset(as_(np.array([2])))
    pairs = [
        (arm.get_qpos(), there.get_qpos()),
        (arm.get_qvel(np.array([0, 1])), there.get_qvel(torch.tensor([True, True, False]))),
        (arm.get_links_pos(["tip", "base"]), there.get_links_pos(["tip", "base"])),
        (arm.get_mass_mat(), there.get_mass_mat()),
        (flying.get_dofs_position(), aloft.get_dofs_position()),
    ]
    for expected, found in pairs:
        np.testing.assert_allclose(found.numpy(), expected, atol=1e-14)
    for name in ("qpos", "vel", "command"):
        np.testing.assert_array_equal(scene.built.arrays.get(name), other.built.arrays.get(name))
