"""How the path tracer draws its paths: evenly, towards glass where lamps shine through it, and no light is made up."""

from __future__ import annotations

import math

import numpy as np
import pytest

from kinema.core import Array, Pose, rpy_to_matrix
from kinema.render import (
    Camera,
    DeviceScene,
    Geometry,
    GeometryKind,
    Instance,
    PathTracer,
    RenderScene,
    Sky,
    Surface,
    look_at,
)
from kinema.render.sampling_tables import LATTICE_GENERATOR, lattice_points, lattice_squared_error
from kinema.runtime import find_device

DARK = Sky(zenith=(0.0, 0.0, 0.0), horizon=(0.0, 0.0, 0.0), ground=(0.0, 0.0, 0.0))
LAMP = Surface(color=(0, 0, 0, 1), specular=0.0, emission=(10.0, 10.0, 10.0))


@pytest.mark.parametrize("first", [0, 2, 12, 22])
@pytest.mark.parametrize("n", [64, 1024, 4096])
def test_the_first_points_of_the_lattice_cover_more_evenly_than_chance(first: int, n: int) -> None:
    """Of the pixel and of each of the first surfaces, for every power of two."""
    near = slice(first, first + 3)
    chance = lattice_squared_error(np.zeros((1, 3))) / n  # what independent points are off, on average
    assert lattice_squared_error(lattice_points(n, near)) < 0.25 * chance
    assert len(np.unique(lattice_points(n, near)[:, 0])) == n
    assert (LATTICE_GENERATOR % 2 == 1).all()  # else some coordinates would come twice


def lit(*instances: Instance) -> DeviceScene:
    """A floor under a lamp, and more."""
    down = rpy_to_matrix([math.pi, 0.0, 0.0])
    floor = Instance(geometry=Geometry(GeometryKind.PLANE), surface=Surface(specular=0.0))
    lamp = Instance(
        geometry=Geometry(GeometryKind.PLANE, (0.3, 0.3, 0.0)), surface=LAMP, pose=Pose(np.array([0.0, 0.0, 2.0]), down)
    )
    placed = DeviceScene(RenderScene(instances=[floor, lamp, *instances], sky=DARK), 1, find_device("cpu"))
    placed.update_poses()
    return placed


def pictures(placed: DeviceScene, samples: int, count: int) -> Array:
    camera = Camera(pose=look_at((0.0, -2.0, 1.0), (0.0, -1.1, 0.0)), fov=0.5)
    made = [
        PathTracer(placed, [camera], (8, 8), indirect_clamp=0.0, seed=k)
        .trace(samples, denoise=False)
        .radiance[0, 0, ..., 0]
        for k in range(count)
    ]
    return np.array(made, dtype=np.float64)


def test_light_through_glass_is_found_sooner_and_is_the_same() -> None:
    """Directions towards glass make neither more nor less light, and less noise."""
    ball = Instance(
        geometry=Geometry(GeometryKind.SPHERE, (0.3, 0.0, 0.0)),
        surface=Surface(color=(1, 1, 1, 1), ior=1.5),
        pose=Pose.translation([0.0, 0.0, 0.9]),
    )
    placed = lit(ball)
    assert placed.lights.glass_bodies.shape[0] == 1
    aimed = pictures(placed, 512, 8)
    placed.lights.glass_bodies = placed.zeros(0, int)
    unaimed = pictures(placed, 512, 8)
    assert aimed.mean() == pytest.approx(unaimed.mean(), rel=0.004)
    assert aimed.std(axis=0).mean() < 0.8 * unaimed.std(axis=0).mean()


def test_only_bodies_of_glass_are_aimed_at_and_only_under_lamps() -> None:
    ball = Instance(geometry=Geometry(GeometryKind.SPHERE, (0.3, 0.0, 0.0)), surface=Surface(ior=1.5))
    assert lit().lights.glass_bodies.shape[0] == 0
    assert DeviceScene(RenderScene(instances=[ball], sky=DARK), 1, find_device("cpu")).lights.glass_bodies.shape[0] == 0


def test_pictures_differ_between_seeds_and_agree_in_the_mean() -> None:
    """Four times the samples of a lattice leave less than half of the noise, which is what chance would leave."""
    placed = lit()
    few, many = (pictures(placed, n, 6) for n in (16, 64))
    assert few.std(axis=0).mean() > 0.0
    assert few.mean() == pytest.approx(many.mean(), rel=0.01)
    assert many.std(axis=0).mean() < 0.4 * few.std(axis=0).mean()
