"""What rays are tested against is a matter of speed: however bodies are joined and searched, images are the same."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from kinema.backend import find_device
from kinema.foundation import Pose, rpy_to_matrix
from kinema.render import (
    IMAGES,
    Camera,
    Geometry,
    Instance,
    Kind,
    PathTracer,
    Placed,
    Renderer,
    Stage,
    Surface,
    bodies as bodies_module,
    look_at,
    triangles,
)
from kinema.render.kernels.cast import cast_kernel
from kinema.render.kernels.paths import path_kernel
from kinema.render.traits import Traits
from kinema.scene import link_rows
from kinema.shapes import box, sphere
from kit.choosing import representatives

CAMERA = Camera(pose=look_at((1.6, -1.4, 1.2), (0.0, 0.0, 0.2)), fov=0.8)
EDGE = 32


def some(n: int, n_links: int) -> Stage:
    """Meshes and primitive shapes here and there, several on a link, on a floor."""
    draw = np.random.default_rng(3)
    meshes = [triangles(box([0.2, 0.1, 0.15])), triangles(sphere(0.08, 6)), Geometry(Kind.CAPSULE, (0.05, 0.1, 0.0))]
    stage = Stage(n_links=n_links)
    for k in range(n):
        pose = Pose(draw.uniform(-0.5, 0.5, 3), rpy_to_matrix(draw.uniform(-3, 3, 3)))
        color = (*draw.uniform(0.2, 1.0, 3), 1.0)
        thing = Instance(geometry=meshes[k % 3], surface=Surface(color=color), link=k % n_links, pose=pose, shape=k)
        stage.instances.append(thing)
    stage.instances.append(Instance(geometry=Geometry(Kind.PLANE), pose=Pose.translation([0, 0, -0.5]), shape=n))
    return stage


def images_of(stage: Stage, kernel: Any = None) -> dict[str, np.ndarray]:
    """Of two environments, the second after a motion, for the flow."""
    placed = Placed(stage, 2, find_device("cpu"))
    renderer = Renderer(placed, [CAMERA], (EDGE, EDGE), images=IMAGES)
    if kernel is not None:
        renderer.kernel = kernel
    for shift in (0.0, 0.03):
        poses = [
            [Pose(np.array([shift, 0.1 * env, 0.0]), rpy_to_matrix([0.0, 0.0, shift + link])) for link in range(2)]
            for env in range(2)
        ]
        placed.place(*link_rows(poses, "cpu"))
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
    monkeypatch.setattr(bodies_module, "LARGE", 0)
    assert len(bodies_module.body_table(stage, starts(stage)).bodies) == 13
    assert_same(joined, images_of(stage))


def starts(stage: Stage) -> dict[int, tuple[int, int]]:
    return {id(i.geometry.triangles): (0, 0) for i in stage.instances}


def many() -> Stage:
    """So many boxes that rays go through a tree of them; primitive shapes are not joined."""
    stage = some(90, 2)
    for instance in stage.instances[:-1]:
        instance.geometry = Geometry(Kind.BOX, (0.04, 0.03, 0.02))
    return stage


def only_meshes() -> Stage:
    stage = some(12, 2)
    stage.instances = [i for i in stage.instances if i.geometry.kind in (Kind.MESH, Kind.PLANE)]
    return stage


@pytest.mark.parametrize("make", representatives([many, only_meshes], 1))
def test_kernels_that_are_compiled_for_less_give_the_same_images(make: Callable[[], Stage]) -> None:
    """Opaque bodies of one kind, without images, against the list of anything that any kernel can go through."""
    stage = make()
    placed = Placed(stage, 1, find_device("cpu"))
    less = placed.own_traits
    assert (less.tree, less.solids, less.meshes) == ((True, True, False) if make is many else (False, False, True))
    assert {less.images, less.glass, less.varnish, less.glow} == {False}
    whole = images_of(stage, cast_kernel(Traits(), plain=False))
    assert_same(whole, images_of(stage, cast_kernel(less, plain=True)))


def test_paths_of_a_kernel_that_is_compiled_for_less_bring_the_same_light() -> None:
    stage = only_meshes()
    light = []
    for whole in (True, False):
        placed = Placed(stage, 1, find_device("cpu"))
        placed.place(*link_rows([[Pose(), Pose()]], "cpu"))
        tracer = PathTracer(placed, [CAMERA], (16, 16), bounces=3)
        tracer.kernel = path_kernel(Traits() if whole else placed.own_traits)
        light.append(tracer.trace(32, denoise=False).light)
    assert light[0].mean() > 0.1
    # the same numbers are drawn, so that only rounding differs: of a few paths, which surface they met
    assert np.median(np.abs(light[0] - light[1])) < 1e-5
    assert np.abs(light[0].mean() - light[1].mean()) < 2e-3


def test_a_stage_tells_what_kernels_have_to_know_of() -> None:
    def traits(surface: Surface, *per_env: str) -> Traits:
        stage = only_meshes()
        stage.instances[0].surface = surface
        return Placed(stage, 2, find_device("cpu"), per_env).own_traits

    assert traits(Surface(glass=1.5)).glass
    assert traits(Surface(), "finish").glass
    assert traits(Surface(clearcoat=0.5)).varnish
    assert traits(Surface(emission=(1.0, 1.0, 1.0))).glow
    assert not any(getattr(traits(Surface()), name) for name in ("glass", "varnish", "glow", "images", "solids"))
