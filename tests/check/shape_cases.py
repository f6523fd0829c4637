"""The cases of rules about shapes, meshes, units and overlaps."""

from __future__ import annotations

from pathlib import Path

import numpy as np

from kinema.core import Pose
from kinema.description import (
    Box,
    Capsule,
    CollisionPair,
    Cylinder,
    HeightField,
    Mesh,
    PhysicsMaterial,
    Robot,
    Shape,
    Sphere,
    World,
)
from kinema.geometry import MeshData, plane

from .robots_to_check import (
    arm,
    box_link,
    box_mesh_data,
    codes,
    fixed,
    mesh_of,
    with_inertial,
    with_mesh,
)
from .rule_cases import case


def _shaped(geometry: object, **settings: object) -> Robot:
    """The clean robot with the tool frame given a shape."""
    robot = arm()
    shape = Shape(name="extra", geometry=geometry, **settings)  # type: ignore[arg-type]
    robot.link("tool").shapes.append(shape)
    return robot


@case("shapes.size")
def _size() -> tuple[Robot, Robot]:
    return _shaped(Cylinder(0.01, 0.0)), _shaped(Capsule(0.01, 0.0))


@case("shapes.terrain")
def _terrain() -> tuple[World, World]:
    def world(*heights: float) -> World:
        field = HeightField(heights=np.array([heights, heights]), size=(2.0, 2.0), base=0.1)
        return World(name="hills", shapes=[Shape(name="ground", geometry=field)])

    return world(0.0), world(0.0, 0.1)


@case("shapes.no-collision")
def _no_collision() -> tuple[Robot, Robot]:
    bad, good = arm(), arm()
    bad.link("fore").shapes[0].collision = False
    good.link("fore").shapes[0].collision = False
    good.link("tool").shapes.append(Shape(geometry=Box(np.full(3, 0.02))))
    return bad, good


@case("shapes.visual-only")
def _visual_only() -> tuple[Robot, Robot]:
    bad, good = arm(), arm()
    for link in bad.links:
        for shape in link.shapes:
            shape.collision = False
    good.link("upper").shapes[0].collision = False
    return bad, good


@case("shapes.friction")
def _friction() -> tuple[Robot, Robot]:
    def robot(restitution: float) -> Robot:
        result = arm()
        result.link("base").shapes[0].surface = PhysicsMaterial(restitution=restitution)
        return result

    return robot(1.5), robot(1.0)


@case("meshes.missing")
def _missing() -> tuple[Robot, Robot]:
    return with_mesh(Mesh(uri="package://arm/upper.stl")), with_mesh(mesh_of(box_mesh_data()))


@case("meshes.unreadable")
def _unreadable() -> tuple[Robot, Robot]:
    return with_mesh(Mesh(uri="this", path=str(Path(__file__)))), with_mesh(mesh_of(box_mesh_data()))


@case("meshes.flat", "meshes.open")
def _flat() -> tuple[Robot, Robot]:
    return with_mesh(mesh_of(plane(0.2, 0.2))), with_mesh(mesh_of(box_mesh_data((0.2, 0.2, 1e-3))))


def _with_slivers(count: int) -> MeshData:
    data = box_mesh_data()
    slivers = np.array([[0, 1, 1]] * count, dtype=np.int64).reshape(-1, 3)
    return MeshData(data.vertices, np.concatenate([data.faces, slivers]))


@case("meshes.degenerate")
def _degenerate() -> tuple[Robot, Robot]:
    return with_mesh(mesh_of(_with_slivers(1))), with_mesh(mesh_of(_with_slivers(0)))


@case("meshes.inside-out")
def _inside_out() -> tuple[Robot, Robot]:
    data = box_mesh_data()
    turned = MeshData(data.vertices, data.faces[:, ::-1])
    # a mirrored scale turns a mesh without turning it inside out
    return with_mesh(mesh_of(turned)), with_mesh(mesh_of(data, scale=np.array([-1.0, 1.0, 1.0])))


@case("meshes.open")
def _open() -> tuple[Robot, Robot]:
    data = box_mesh_data()
    torn = MeshData(data.vertices, data.faces[1:])
    return with_mesh(mesh_of(torn)), with_mesh(mesh_of(torn), collision=False)


@case("meshes.size", "inertia.implausible", "units.density", "shapes.no-collision")
def _mesh_size() -> tuple[Robot, Robot]:
    return (
        with_mesh(mesh_of(box_mesh_data((50, 50, 60))), collision=False),
        with_mesh(mesh_of(box_mesh_data((50, 50, 60)), scale=np.full(3, 1e-3)), collision=False),
    )


@case("units.robot-size")
def _robot_size() -> tuple[Robot, Robot]:
    def robot(away: float) -> Robot:
        result = arm()
        result.links.append(box_link("far"))
        result.joints.append(fixed("bridge", "base", "far", (away, 0, 0)))
        return result

    return robot(150.0), robot(90.0)


@case("units.mass", "units.density")
def _mass() -> tuple[Robot, Robot]:
    def robot(mass: float) -> Robot:
        result = with_inertial()
        own = result.link("upper").inertial
        assert own is not None
        return with_inertial(mass=mass, inertia=own.inertia * (mass / own.mass))

    return robot(5e-7), robot(0.4)


@case("units.density")
def _density() -> tuple[Robot, Robot]:
    def robot(mass: float) -> Robot:
        result = with_inertial()
        own = result.link("upper").inertial
        assert own is not None
        return with_inertial(mass=mass, inertia=own.inertia * (mass / own.mass))

    return robot(500.0), robot(10.0)


@case("units.gravity")
def _gravity() -> tuple[Robot, Robot]:
    bad, good = arm(), arm()
    bad.gravity = np.array([0.0, 0.0, -981.0])
    good.gravity = np.array([0.0, 0.0, -24.8])
    return bad, good


@case("overlap.at-rest")
def _overlap() -> tuple[Robot, Robot]:
    # beside the arm, from the tool down to the base
    def robot(down: float) -> Robot:
        return _shaped(Sphere(0.03), pose=Pose.translation((0.07, 0, -down)))

    excluded = robot(0.38)
    excluded.collision.pairs.append(CollisionPair(a="base", b="tool"))
    assert "overlap.at-rest" not in codes(excluded)
    return robot(0.38), robot(0.3695)
