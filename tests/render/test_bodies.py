"""What rays are tested against is a matter of speed: however bodies are joined and searched, images are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinema.core import Pose, rpy_to_matrix
from kinema.geometry import box, sphere
from kinema.render import (
    IMAGES,
    Camera,
    DeviceScene,
    Geometry,
    GeometryKind,
    Instance,
    PathTracer,
    Renderer,
    RenderScene,
    Surface,
    look_at,
    mesh_geometry,
    tables as bodies_module,
)
from kinema.render.kernel_launch import KernelFeatures
from kinema.render.kernels.path_tracing import path_tracing_kernel
from kinema.render.kernels.ray_casting import ray_casting_kernel
from kinema.runtime import find_device
from kinema.scene import link_pose_arrays
from kit.choosing import representatives

CAMERA = Camera(pose=look_at((1.6, -1.4, 1.2), (0.0, 0.0, 0.2)), fov=0.8)
EDGE = 32


def some(n: int, n_links: int) -> RenderScene:
    """Meshes and primitive shapes here and there, several on a link, on a floor."""
    draw = np.random.default_rng(3)
    meshes = [
        mesh_geometry(box([0.2, 0.1, 0.15])),
        mesh_geometry(sphere(0.08, 6)),
        Geometry(GeometryKind.CAPSULE, (0.05, 0.1, 0.0)),
    ]
    stage = RenderScene(n_links=n_links)
    for k in range(n):
        pose = Pose(draw.uniform(-0.5, 0.5, 3), rpy_to_matrix(draw.uniform(-3, 3, 3)))
        color = (*draw.uniform(0.2, 1.0, 3), 1.0)
        thing = Instance(geometry=meshes[k % 3], surface=Surface(color=color), link=k % n_links, pose=pose, shape=k)
        stage.instances.append(thing)
    stage.instances.append(
        Instance(geometry=Geometry(GeometryKind.PLANE), pose=Pose.translation([0, 0, -0.5]), shape=n)
    )
    return stage


def images_of(stage: RenderScene, kernel: Any = None) -> dict[str, np.ndarray]:
    """Of two environments, the second after a motion, for the flow."""
    placed = DeviceScene(stage, 2, find_device("cpu"))
    renderer = Renderer(placed, [CAMERA], (EDGE, EDGE), images=IMAGES)
    if kernel is not None:
        renderer.kernel = kernel
    for shift in (0.0, 0.03):
        poses = [
            [Pose(np.array([shift, 0.1 * env, 0.0]), rpy_to_matrix([0.0, 0.0, shift + link])) for link in range(2)]
            for env in range(2)
        ]
        placed.update_poses(*link_pose_arrays(poses, "cpu"))
        made = renderer.render()
    return {name: image.numpy().copy() for name, image in made.items()}


def assert_same(a: dict[str, np.ndarray], b: dict[str, np.ndarray]) -> None:
    assert np.isfinite(a["depth"]).mean() > 0.5
    same = (a["segmentation"] == b["segmentation"]).all(axis=-1)
    assert (~same).sum() <= 2  # a ray through an edge may meet either side
    for name, near in (("depth", 1e-4), ("normal", 1e-3), ("flow", 1e-2), ("rgb", 1)):
        off = np.abs(a[name][same].astype(float) - b[name][same].astype(float))
        assert np.nanpercentile(off, 99.8) <= near, name


def test_meshes_of_a_link_joined_look_as_each_by_itself(monkeypatch: pytest.MonkeyPatch) -> None:
    stage = some(12, 2)
    joined = images_of(stage)
    assert len(bodies_module.body_table(stage, starts(stage)).bodies) == 2 + 4 + 1
    monkeypatch.setattr(bodies_module, "MAX_MERGED_FACES", 0)
    assert len(bodies_module.body_table(stage, starts(stage)).bodies) == 13
    assert_same(joined, images_of(stage))


def starts(stage: RenderScene) -> dict[int, tuple[int, int]]:
    return {id(i.geometry.triangles): (0, 0) for i in stage.instances}


def many() -> RenderScene:
    """So many boxes that rays go through a tree of them; primitive shapes are not joined."""
    stage = some(90, 2)
    for instance in stage.instances[:-1]:
        instance.geometry = Geometry(GeometryKind.BOX, (0.04, 0.03, 0.02))
    return stage


def only_meshes() -> RenderScene:
    stage = some(12, 2)
    stage.instances = [i for i in stage.instances if i.geometry.kind in (GeometryKind.MESH, GeometryKind.PLANE)]
    return stage


@pytest.mark.slow("Warp compiles two kernels first")
@pytest.mark.parametrize("make", representatives([many, only_meshes], 1))
def test_kernels_that_are_compiled_for_less_give_the_same_images(make: Callable[[], RenderScene]) -> None:
    """Opaque bodies of one kind, without images, against the list of anything that any kernel can go through."""
    stage = make()
    placed = DeviceScene(stage, 1, find_device("cpu"))
    less = placed.scene_features
    assert (less.bvh, less.primitives, less.meshes) == ((True, True, False) if make is many else (False, False, True))
    assert {less.textures, less.glass, less.clearcoat, less.emitters} == {False}
    whole = images_of(stage, ray_casting_kernel(KernelFeatures(), single_opaque_ray=False))
    assert_same(whole, images_of(stage, ray_casting_kernel(less, single_opaque_ray=True)))


@pytest.mark.slow("Warp compiles two kernels first")
def test_paths_of_a_kernel_that_is_compiled_for_less_bring_the_same_light() -> None:
    stage = only_meshes()
    light = []
    for whole in (True, False):
        placed = DeviceScene(stage, 1, find_device("cpu"))
        placed.update_poses(*link_pose_arrays([[Pose(), Pose()]], "cpu"))
        tracer = PathTracer(placed, [CAMERA], (16, 16), max_bounces=3)
        tracer.kernel = path_tracing_kernel(KernelFeatures() if whole else placed.scene_features)
        light.append(tracer.trace(32, denoise=False).radiance)
    assert light[0].mean() > 0.1
    # the same numbers are drawn, so that only rounding differs: of a few paths, which surface they met
    assert np.median(np.abs(light[0] - light[1])) < 1e-5
    assert np.abs(light[0].mean() - light[1].mean()) < 2e-3


def test_a_stage_tells_what_kernels_have_to_know_of() -> None:
    def traits(surface: Surface, *per_env: str) -> KernelFeatures:
        stage = only_meshes()
        stage.instances[0].surface = surface
        return DeviceScene(stage, 2, find_device("cpu"), per_env).scene_features

    assert traits(Surface(ior=1.5)).glass
    assert traits(Surface(), "finish").glass
    assert traits(Surface(clearcoat=0.5)).clearcoat
    assert traits(Surface(emission=(1.0, 1.0, 1.0))).emitters
    assert not any(
        getattr(traits(Surface()), name) for name in ("glass", "clearcoat", "emitters", "textures", "primitives")
    )
