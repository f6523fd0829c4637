"""What rays are tested against is a matter of speed: however bodies are joined and searched, images are the same."""

from __future__ import annotations

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
    Placed,
    Renderer,
    Stage,
    Surface,
    bodies as bodies_module,
    look_at,
    triangles,
)
from kinema.render.kernels.cast import cast_kernel
from kinema.scene import link_rows
from kinema.shapes import box, sphere

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


def images_of(stage: Stage, **traits: bool) -> dict[str, np.ndarray]:
    """Of two environments, the second after a motion, for the flow."""
    placed = Placed(stage, 2, find_device("cpu"))
    renderer = Renderer(placed, [CAMERA], (EDGE, EDGE), images=IMAGES)
    if traits:
        renderer.kernel = cast_kernel(**traits)
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


def test_kernels_that_are_compiled_for_less_give_the_same_images() -> None:
    """A tree of many bodies, opaque ones without images, against the list that any kernel can go through."""
    stage = some(90, 2)
    for instance in stage.instances[:-1]:  # primitive shapes are not joined
        instance.geometry = Geometry(Kind.BOX, (0.04, 0.03, 0.02))
    assert Placed(stage, 1, find_device("cpu")).has_tree
    lists = images_of(stage, tree=False, images=True, plain=False)
    assert_same(lists, images_of(stage, tree=True, images=False, plain=True))
