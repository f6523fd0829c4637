"""Where OpenUSD's own utilities are right, they agree with the reader to the single precision they have."""

from __future__ import annotations

import math
from itertools import combinations_with_replacement
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Pose
from kinema.description import Link, Robot, World, colliding_pairs
from kinema.read.usd import read_usd
from kit.usd_stages import BODY, COLLIDER, MASS, OTHER, SI, open_fresh, placed, prim, write_stage

from .openusd_oracle import mass_properties, parse

SEEDS = range(12)


class Dice:
    """Random numbers and prims, the same for the same seed."""

    def __init__(self, seed: int) -> None:
        self.rng = np.random.default_rng(seed)

    def number(self, low: float, high: float) -> float:
        return float(np.float32(self.rng.uniform(low, high)))

    def one_in(self, n: int) -> bool:
        return self.rng.integers(n) == 0

    def position(self) -> list[float]:
        return [self.number(-2, 2) for _ in range(3)]

    def quaternion(self) -> list[float]:
        q = self.rng.normal(size=4)
        return (q / np.linalg.norm(q)).tolist()

    def moments(self) -> list[float]:
        """A diagonal inertia that a body can have."""
        a, b, c = (self.number(1, 5) for _ in range(3))
        return [a + b, b + c, a + c]

    def mass_lines(self, *, often: int) -> list[str]:
        """Some of the mass schema's attributes."""
        lines = []
        if self.one_in(often):
            lines.append(f"float physics:mass = {self.number(1, 9)}")
        if self.one_in(often):
            lines.append(f"float physics:density = {self.number(1, 9)}")
        if self.one_in(often):
            lines.append(f"point3f physics:centerOfMass = {tuple(self.position())}")
        if self.one_in(often):
            lines.append(f"float3 physics:diagonalInertia = {tuple(self.moments())}")
            lines.append(f"quatf physics:principalAxes = {tuple(self.quaternion())}")
        return lines

    def collider(self, name: str) -> str:
        axis = f'uniform token axis = "{"XYZ"[self.rng.integers(3)]}"'
        radius, height = f"double radius = {self.number(0.2, 1)}", f"double height = {self.number(0.5, 2)}"
        kinds = {
            "Cube": [f"double size = {self.number(0.5, 2)}"],
            "Sphere": [radius],
            "Cylinder": [radius, height, axis],
            "Capsule": [radius, height, axis],
        }
        kind = list(kinds)[self.rng.integers(len(kinds))]
        scale = [self.number(0.5, 2) for _ in range(3)] if kind == "Cube" else [self.number(0.5, 2)] * 3
        lines = [*kinds[kind], *self.mass_lines(often=3)]
        if self.one_in(4):
            lines.append("bool physics:collisionEnabled = false")
        if self.one_in(3):
            lines.append("rel material:binding:physics = </World/heavy>")
        apis = [COLLIDER, MASS, "MaterialBindingAPI"]
        return prim(f'{kind} "{name}"', *lines, placed(self.position(), self.quaternion(), scale), apis=apis)


HEAVY = prim('Material "heavy"', "float physics:density = 11", apis=["PhysicsMaterialAPI"])


def link_of(described: Robot | World, path: str) -> Link:
    return next(link for link in described.links if link.origin.path == path)


@pytest.mark.parametrize("units", [SI, OTHER], ids=["si", "other units"])
@pytest.mark.parametrize("seed", SEEDS)
def test_mass_properties(seed: int, units: str, tmp_path: Path) -> None:
    """Mass, centre and inertia of a body with colliders that override each other in every way the schema has."""
    dice = Dice(seed)
    size = dice.number(0.5, 2)
    colliders = [dice.collider(f"c{i}") for i in range(3)]
    lines = [*dice.mass_lines(often=3), placed(dice.position(), dice.quaternion(), [size] * 3)]
    always = prim('Cube "always"', apis=[COLLIDER])
    body = prim('Xform "b"', *lines, *colliders, always, apis=[BODY, MASS])
    file = write_stage(tmp_path, prim('Xform "World"', HEAVY, body), units=units)
    theirs = mass_properties(file, "/World/b")
    ours = link_of(read_usd(file), "/World/b").inertial
    assert ours is not None
    length, mass = (1.0, 1.0) if units == SI else (0.01, 0.001)
    inertia = theirs.inertia * mass * length**2
    assert ours.mass == pytest.approx(theirs.mass * mass, rel=1e-5)
    np.testing.assert_allclose(ours.center, theirs.center * length, atol=1e-5 * length)
    np.testing.assert_allclose(ours.inertia, inertia, atol=1e-5 * np.abs(inertia).max())


@pytest.mark.parametrize("seed", SEEDS)
def test_bodies_shapes_and_joints(seed: int, tmp_path: Path) -> None:
    """The parser's poses of bodies and shapes, and its joint frames, on nested bodies under uniform scale."""
    dice = Dice(100 + seed)
    shapes = [
        prim(f'Cube "c{i}"', f"double size = {dice.number(1, 2)}", placed(dice.position(), dice.quaternion()),
             apis=[COLLIDER])
        for i in range(3)
    ]  # fmt: skip
    inner = prim('Xform "inner"', placed(dice.position(), dice.quaternion()), shapes[0], apis=[BODY])
    size = dice.number(0.5, 2)
    outer = prim('Xform "outer"', placed(dice.position(), dice.quaternion(), [size] * 3), shapes[1], inner, apis=[BODY])
    ball = prim(
        'PhysicsJoint "j"',
        "rel physics:body0 = </World/outer>",
        "rel physics:body1 = </World/outer/inner/c0>",
        f"point3f physics:localPos0 = {tuple(dice.position())}",
        f"quatf physics:localRot0 = {tuple(dice.quaternion())}",
        f"point3f physics:localPos1 = {tuple(dice.position())}",
        f"quatf physics:localRot1 = {tuple(dice.quaternion())}",
        f"float physics:breakForce = {dice.number(1, 9)}",
    )
    file = write_stage(tmp_path, prim('Xform "World"', outer, shapes[2], ball))
    parsed, world = parse(file), read_usd(file)
    for path, descriptor in parsed["RigidBody"].items():
        link = link_of(world, path)
        assert link.pose is not None
        assert link.pose.is_close(_pose(descriptor.position, descriptor.rotation), 2e-6)
        assert {s.origin.path for s in link.shapes} == {str(p) for p in descriptor.collisions}
    of_shapes = {s.origin.path: s for s in _shapes(world)}
    for path, descriptor in parsed["CubeShape"].items():
        shape = of_shapes[path]
        assert shape.pose.is_close(_pose(descriptor.localPos, descriptor.localRot), 2e-6)
        np.testing.assert_allclose(shape.geometry.size, 2 * np.array(descriptor.halfExtents), rtol=1e-6)  # type: ignore[union-attr]
    (found,), theirs = world.joints, parsed["D6Joint"]["/World/j"]
    assert (found.parent, found.child) == ("outer", "inner")
    assert (str(theirs.body0), str(theirs.body1)) == ("/World/outer", "/World/outer/inner")
    assert found.parent_pose.is_close(_pose(theirs.localPose0Position, theirs.localPose0Orientation), 3e-6)
    assert found.child_pose.is_close(_pose(theirs.localPose1Position, theirs.localPose1Orientation), 3e-6)
    assert found.break_force == pytest.approx(theirs.breakForce)


def _pose(position: object, rotation: object) -> Pose:
    real, imaginary = rotation.GetReal(), rotation.GetImaginary()  # type: ignore[attr-defined]
    return Pose.from_quaternion(np.array(position, dtype=float), [real, *imaginary])


def _shapes(described: Robot | World):
    yield from described.shapes if isinstance(described, World) else ()
    for link in described.links:
        yield from link.shapes


@pytest.mark.parametrize("units", [SI, OTHER], ids=["si", "other units"])
@pytest.mark.parametrize(
    "lines", ["", "vector3f physics:gravityDirection = (1, 2, 2)", "float physics:gravityMagnitude = 3"]
)
def test_gravity(lines: str, units: str, tmp_path: Path) -> None:
    """A scene's gravity, in the stage's units and axes."""
    file = write_stage(tmp_path, prim('Xform "World"', prim('PhysicsScene "s"', lines)), units=units)
    theirs = parse(file)["Scene"]["/World/s"]
    x, y, z = np.array(theirs.gravityDirection, dtype=float) * theirs.gravityMagnitude
    expected = (x, y, z) if units == SI else (0.01 * x, -0.01 * z, 0.01 * y)
    np.testing.assert_allclose(read_usd(file).gravity, expected, rtol=1e-6, atol=1e-9)  # type: ignore[arg-type]


@pytest.mark.parametrize("seed", range(20))
def test_collision_groups(seed: int, tmp_path: Path) -> None:
    """Which groups collide, with filters, merging and inversion, as OpenUSD's table has it for three groups."""
    from pxr import UsdPhysics

    dice = Dice(seed)
    names = ("g0", "g1", "g2")
    balls, groups = [], []
    for i, name in enumerate(names):
        # two balls to a group, so that a group can meet itself
        for k in range(2):
            ball = f"{name}_{k}"
            balls.append(prim(f'Sphere "{ball}"', placed((5 * i, 5 * k, 0)), apis=[BODY, COLLIDER]))
        filtered = ", ".join(f"</World/{n}>" for n in names if dice.one_in(3))
        lines = [
            f"rel collection:colliders:includes = [</World/{name}_0>, </World/{name}_1>]",
            f"rel physics:filteredGroups = [{filtered}]",
            f'string physics:mergeGroup = "{"xy"[dice.rng.integers(2)]}"' if dice.one_in(2) else "",
            "bool physics:invertFilteredGroups = true" if dice.one_in(3) else "",
        ]
        groups.append(prim(f'PhysicsCollisionGroup "{name}"', *lines))
    file = write_stage(tmp_path, prim('Xform "World"', *balls, *groups))
    stage = open_fresh(file)
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(stage)
    touching = {frozenset((a.shape.name, b.shape.name)) for a, b in colliding_pairs(read_usd(file))}
    for a, b in combinations_with_replacement(names, 2):
        assert (frozenset((f"{a}_0", f"{b}_1")) in touching) == table.IsCollisionEnabled(f"/World/{a}", f"/World/{b}")


def test_limits_and_drives(tmp_path: Path) -> None:
    """The parser gives what is authored, in degrees; the reader gives it in radians."""
    lines = [
        "rel physics:body1 = </World/b>",
        "float physics:lowerLimit = -20",
        "float physics:upperLimit = 70",
        "float drive:angular:physics:stiffness = 3",
        "float drive:angular:physics:targetPosition = 15",
        "float drive:angular:physics:maxForce = 8",
    ]
    hinge = prim('PhysicsRevoluteJoint "j"', *lines, apis=["PhysicsDriveAPI:angular"])
    ball = prim('Sphere "b"', apis=[BODY, COLLIDER])
    file = write_stage(tmp_path, prim('Xform "World"', ball, hinge))
    theirs, axis = parse(file)["RevoluteJoint"]["/World/j"], read_usd(file).joints[0].axes[0]
    degree = math.pi / 180
    assert (axis.lower, axis.upper) == pytest.approx((theirs.limit.lower * degree, theirs.limit.upper * degree))
    assert axis.drive is not None
    assert axis.drive.stiffness == pytest.approx(theirs.drive.stiffness / degree)
    assert axis.drive.target_position == pytest.approx(theirs.drive.targetPosition * degree)
    assert axis.drive.max_force == pytest.approx(theirs.drive.forceLimit)
