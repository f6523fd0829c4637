"""Point instancers: every instance is a copy of its prototype with all that is in it."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.check import check
from kinema.core import Array
from kinema.description import Robot, World, colliding_pairs
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import BODY, COLLIDER, ROOT, open_fresh, placed, prim, write_stage

HINGE = (
    "rel physics:body0 = </proto/box>",
    "rel physics:body1 = </proto/box/lid>",
    "point3f physics:localPos0 = (0, 0, 0.5)",
)
TETRAHEDRON = (
    "int[] faceVertexCounts = [3, 3, 3, 3]",
    "int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]",
    "point3f[] points = [(0, 0, 0), (0.125, 0, 0), (0, 0.25, 0), (0, 0, 0.375)]",
)


def box_with_lid() -> str:
    """A prototype: a body, one inside it, a joint between them."""
    lid = prim(
        'Xform "lid"',
        placed((0, 0, 0.5)),
        prim('Mesh "cover"', *TETRAHEDRON, apis=[COLLIDER]),
        prim('PhysicsRevoluteJoint "hinge"', *HINGE),
        apis=[BODY],
    )
    return prim('Xform "box"', prim('Cube "hull"', "double size = 0.2", apis=[COLLIDER]), lid, apis=[BODY, ROOT])


def instancer(name: str, prototype: str, positions: str, *lines: str) -> str:
    n = positions.count("(")
    numbers = ", ".join("0" * n)
    values = (
        f"rel prototypes = <{prototype}>",
        f"int[] protoIndices = [{numbers}]",
        f"point3f[] positions = [{positions}]",
    )
    return prim(f'PointInstancer "{name}"', *values, *lines)


def positions_of(described: Robot | World) -> dict[str, list[float]]:
    return {link.origin.path: np.round(link.pose.position, 9).tolist() for link in described.links if link.pose}


@pytest.mark.parametrize("specifier", ["def", "class", "over"])
def test_joints_and_articulations_come_along(specifier: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Each instance is a robot of its own, whether the prototype is shown itself or not."""
    proto = prim('Xform "proto"', box_with_lid()).replace("def", specifier, 1)
    many = instancer("many", "/proto/box", "(0, 3, 0), (0, 6, 0)", "float3[] scales = [(1, 1, 1), (2, 2, 2)]")
    world = read_usd(write_stage(tmp_path, proto, many), diagnostics=diagnostics)
    assert isinstance(world, World)
    copies = {path: place for path, place in positions_of(world).items() if path.startswith("/many")}
    assert copies == {
        "/many/instances/instance_0": [0, 3, 0],
        "/many/instances/instance_0/lid": [0, 3, 0.5],
        "/many/instances/instance_1": [0, 6, 0],
        "/many/instances/instance_1/lid": [0, 6, 1],
    }
    robots = [robot for robot in world.robots if robot.links[0].origin.path.startswith("/many")]
    assert [(len(r.links), len(r.joints), r.root == r.links[0].name) for r in robots] == [(2, 1, True)] * 2
    assert [r.joints[0].parent_pose.position[2] for r in robots] == [0.5, 1.0]
    assert not [d for d in check(world) if d.code.startswith("articulation")]
    if specifier != "def":
        assert len(world.robots) == 2


def test_copies_are_where_openusd_puts_them(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Turned, mirrored and sheared instances of an instancer that is turned itself: every vertex to 1e-9."""
    from pxr import Usd, UsdGeom

    proto = prim('Xform "proto"', box_with_lid()).replace("def", "class", 1)
    many = instancer(
        "many",
        "/proto/box",
        "(0, 3, 0), (4, 6, 0), (9, 0, 1)",
        placed((1, 2, 3), (0.8, 0, 0.6, 0), (1, 2, 1)),
        "quath[] orientations = [(1, 0, 0, 0), (0.6, 0.8, 0, 0), (0.8, 0, 0, 0.6)]",
        "float3[] scales = [(1, 1, 1), (2, 2, 2), (-1, 1, 3)]",
    )
    file = write_stage(tmp_path, proto, many)
    world = read_usd(file, diagnostics=diagnostics)
    stage = open_fresh(file)
    now = Usd.TimeCode.Default()
    prims = UsdGeom.PointInstancer(stage.GetPrimAtPath("/many"))
    matrices = prims.ComputeInstanceTransformsAtTime(now, now)
    outer = np.array(prims.ComputeLocalToWorldTransform(now))
    corners = np.array([(0, 0, 0.5, 1), (0.125, 0, 0.5, 1), (0, 0.25, 0.5, 1), (0, 0, 0.875, 1)])
    for number, matrix in enumerate(matrices):
        true: Array = corners @ np.array(matrix) @ outer
        link = next(x for x in world.links if x.origin.path == f"/many/instances/instance_{number}/lid")
        assert link.pose is not None
        vertices = link.pose.apply(link.shapes[0].pose.apply(link.shapes[0].geometry.vertices))  # type: ignore[union-attr]
        np.testing.assert_allclose(vertices, true[:, :3], atol=1e-9)


def test_instances_share_their_meshes(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A thousand copies of a mesh do not take a thousand times its memory."""
    proto = prim('Xform "proto"', box_with_lid()).replace("def", "class", 1)
    many = instancer("many", "/proto/box", "(0, 3, 0), (0, 6, 0), (0, 9, 0)")
    world = read_usd(write_stage(tmp_path, proto, many), diagnostics=diagnostics)
    meshes = [s.geometry for link in world.links for s in link.shapes if s.kind == "mesh"]
    assert len(meshes) == 3
    assert len({id(m.vertices) for m in meshes}) == 1  # type: ignore[union-attr]


def test_an_instancer_in_a_prototype_and_in_instances(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Instancers multiply: two kits, each with a row of two balls; a masked ball is not there."""
    ball = prim('Sphere "ball"', "double radius = 0.1", apis=[BODY, COLLIDER])
    masked = ("int64[] ids = [4, 5, 6]", "int64[] invisibleIds = [5]")
    row = instancer("row", "/kit/row/ball", "(0, 0, 1), (0, 0, 2), (0, 0, 3)", *masked, ball)
    kit = prim('Xform "kit"', row).replace("def", "class", 1)
    kits = instancer("kits", "/kit", "(5, 0, 0), (6, 0, 0)")
    instances = [
        f'def "{name}" (\n    instanceable = true\n    references = </kit>\n)\n{{\n{placed((x, 0, 0))}\n}}'
        for name, x in (("left", -1), ("right", 1))
    ]
    world = read_usd(write_stage(tmp_path, kit, kits, *instances), diagnostics=diagnostics)
    found = sorted(positions_of(world).values())
    assert found == [[x, 0, z] for x in (-1, 1, 5, 6) for z in (1, 3)]


def test_initial_velocities(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The instancer's own velocities count, in its space; else the prototype's, which turns with each instance."""
    body = prim(
        'Sphere "ball"', "vector3f physics:velocity = (1, 0, 0)", "vector3f physics:angularVelocity = (90, 0, 0)",
        apis=[BODY, COLLIDER],
    )  # fmt: skip
    turned = "quath[] orientations = [(1, 0, 0, 0), (0, 0, 0, 1)]"
    quarter = placed((0, 0, 0), (np.sqrt(0.5), 0, 0, np.sqrt(0.5)))
    plain = instancer("plain", "/plain/ball", "(0, 5, 0), (0, 9, 0)", turned, quarter, body)
    given = "vector3f[] velocities = [(0, 0, 1), (2, 0, 0)]"
    moving = instancer("moving", "/moving/ball", "(5, 5, 0), (5, 9, 0)", turned, quarter, given, body)
    world = read_usd(write_stage(tmp_path, plain, moving), diagnostics=diagnostics)
    velocities = {link.origin.path: np.round(link.linear_velocity, 6).tolist() for link in world.links}
    assert velocities["/plain/instances/instance_0"] == [0, 1, 0]
    assert velocities["/plain/instances/instance_1"] == [0, -1, 0]
    assert velocities["/moving/instances/instance_0"] == [0, 0, 1]
    assert velocities["/moving/instances/instance_1"] == [0, 2, 0]
    spins = {link.origin.path: link.angular_velocity for link in world.links}
    np.testing.assert_allclose(spins["/plain/instances/instance_1"], (0, -np.pi / 2, 0), atol=1e-6)


def test_a_joint_may_name_an_instance_but_not_a_prototype(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The prototype is nowhere; its instances are."""
    ball = prim('Sphere "ball"', apis=[BODY, COLLIDER])
    balls = instancer("balls", "/balls/ball", "(0, 5, 0), (0, 9, 0)", ball)
    fixed = [
        prim(f'PhysicsFixedJoint "{name}"', f"rel physics:body1 = <{target}>", "point3f physics:localPos0 = (0, 5, 0)")
        for name, target in (("held", "/balls/instances/instance_0"), ("lost", "/balls/ball"))
    ]
    world = read_usd(write_stage(tmp_path, balls, *fixed), diagnostics=diagnostics)
    assert [j.name for j in world.joints] == ["held"]
    assert "a prototype" in diagnostics.claim("usd.joint-target").message


def test_who_names_a_prototype_means_its_instances(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A collision group that holds the prototype keeps all of its instances apart."""
    ball = prim('Sphere "ball"', apis=[BODY, COLLIDER])
    balls = instancer("balls", "/balls/ball", "(0, 5, 0), (0, 9, 0)", ball)
    group = prim(
        'PhysicsCollisionGroup "same"',
        "rel collection:colliders:includes = </balls/ball>",
        "rel physics:filteredGroups = </same>",
    )
    world = read_usd(write_stage(tmp_path, balls, prim('Sphere "other"', apis=[BODY, COLLIDER]), group))
    pairs = {frozenset(c.shape.origin.path for c in pair) for pair in colliding_pairs(world)}
    assert pairs == {frozenset({"/other", f"/balls/instances/instance_{i}"}) for i in (0, 1)}


def test_an_instance_of_no_size(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It is an error of that instance; the others are read."""
    ball = prim('Sphere "ball"', apis=[BODY, COLLIDER])
    scales = "float3[] scales = [(1, 1, 1), (0, 1, 1)]"
    world = read_usd(
        write_stage(tmp_path, instancer("balls", "/balls/ball", "(0, 5, 0), (0, 9, 0)", scales, ball)),
        diagnostics=diagnostics,
    )
    assert {d.origin.path for d in diagnostics.claim_all("usd.zero-scale")} == {"/balls/instances/instance_1"}
    diagnostics.claim("usd.no-mass")
    assert len(world.links) == 2


def test_instancers_that_hold_each_other(tmp_path: Path) -> None:
    """What would never end is cut off, with an error."""
    ball = prim('Sphere "ball"', apis=[BODY, COLLIDER])
    first = prim('Xform "first"', ball, instancer("inner", "/second", "(0, 1, 0), (0, 2, 0)"))
    second = prim('Xform "second"', instancer("inner", "/first", "(1, 0, 0), (2, 0, 0)"))
    diagnostics = ClaimedDiagnostics()
    world = read_usd(write_stage(tmp_path, first, second), diagnostics=diagnostics)
    assert diagnostics.claim_all("usd.bad-instancer")
    assert "/first/ball" in positions_of(world)
