"""The 15 hardest cases that importers are known to get wrong, each by name and against a truth worked out here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Array, axis_angle_to_matrix
from kinema.description import Joint, JointKind, Link, Mesh, Robot, World, colliding_pairs
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import BODY, COLLIDER, EIGHTH_Z, MASS, OTHER, SI, body, placed, prim, write_stage

HALF = math.sqrt(0.5)
QUARTER_Z = (HALF, 0.0, 0.0, HALF)
"""A quarter turn about z."""


def joint(
    name: str, body0: str, body1: str, *lines: str, kind: str = "PhysicsRevoluteJoint", apis: tuple[str, ...] = ()
) -> str:
    ends = [f"rel physics:body{i} = <{path}>" for i, path in enumerate((body0, body1)) if path]
    return prim(f'{kind} "{name}"', *ends, *lines, apis=apis)


def at(number: int, x: float, y: float = 0.0, z: float = 0.0) -> str:
    return f"point3f physics:localPos{number} = ({x}, {y}, {z})"


def read(folder: Path, diagnostics: ClaimedDiagnostics, *prims: str, units: str = SI) -> Robot | World:
    return read_usd(write_stage(folder, *prims, units=units), diagnostics=diagnostics)


def link_of(described: Robot | World, name: str) -> Link:
    return next(link for link in described.links if link.name == name)


def joint_of(described: Robot | World, name: str = "j") -> Joint:
    return next(j for j in described.joints if j.name == name)


def world_anchor(described: Robot | World, name: str = "j") -> Array:
    """Where a joint's frame on its child, or on its parent, is in the world."""
    found = joint_of(described, name)
    end, pose = (found.child, found.child_pose) if found.child is not None else (found.parent, found.parent_pose)
    assert end is not None
    link = link_of(described, end)
    assert link.pose is not None
    return (link.pose @ pose).position


def tree_of(described: Robot | World) -> dict[str, str | None]:
    assert isinstance(described, Robot)
    tree = described.tree()
    return {**dict.fromkeys(tree.roots), **{edge.child: edge.parent for edge in tree.edges}}


def test_hard_case_01_nested_bodies(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A nested chain of four keeps four links, three joints, and each link its own shape."""
    text = ""
    for i in reversed(range(4)):
        above = "/b" + "/b".join(str(k) for k in range(i))
        held = joint(f"j{i}", above, f"{above}/b{i}", at(0, 0, 0, 1)) if i else ""
        shape = prim(f'Cube "c{i}"', "double size = 0.5", apis=[COLLIDER])
        text = body(f"b{i}", placed((0, 0, 1) if i else (0, 0, 0)), shape, held, text)
    robot = read(tmp_path, diagnostics, text)
    assert tree_of(robot) == {"b0": None, "b1": "b0", "b2": "b1", "b3": "b2"}
    assert [[s.name for s in link.shapes] for link in robot.links] == [["c0"], ["c1"], ["c2"], ["c3"]]
    for i, pose in enumerate(robot.link_poses().values()):
        np.testing.assert_allclose(pose.position, (0, 0, i), atol=1e-12)


def test_hard_case_02_shear(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Scale (1, 3, 1) above a body turned by 45 degrees: T = Q S with the full S, for anchors, axes, meshes, boxes."""
    points = "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]"
    mesh = prim(
        'Mesh "mesh"',
        "int[] faceVertexCounts = [3, 3, 3, 3]",
        "int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]",
        points,
        apis=[COLLIDER],
    )
    cube = prim('Cube "cube"', "double size = 1", apis=[COLLIDER])
    ball = prim('Sphere "ball"', "double radius = 1", apis=[COLLIDER])
    inner = body("b", placed(orient=EIGHTH_Z), mesh, cube, ball)
    held = joint(
        *("j", "/above/b", "", at(0, 1), at(1, HALF, 3 * HALF), "bool physics:jointEnabled = false"),
        kind="PhysicsSphericalJoint",
    )
    stage = prim('Xform "above"', placed(scale=(1, 3, 1)), inner, held)
    world = read(tmp_path, diagnostics, stage)
    true = np.diag([1.0, 3.0, 1.0]) @ axis_angle_to_matrix((0, 0, 1), math.pi / 4)
    # the anchor (1, 0, 0) of the body is at (0.707, 2.121, 0), not at (2.121, 2.121, 0)
    np.testing.assert_allclose(world_anchor(world), true @ (1, 0, 0), atol=1e-9)
    np.testing.assert_allclose(world_anchor(world), (HALF, 3 * HALF, 0), atol=1e-9)
    # the x axis of the joint goes where the map takes it
    found, link = joint_of(world), link_of(world, "b")
    assert link.pose is not None
    direction = (link.pose @ found.parent_pose).rotation @ found.axes[0].direction
    np.testing.assert_allclose(direction, true[:, 0] / np.linalg.norm(true[:, 0]), atol=1e-9)
    vertices = {m.shape: m.vertices for m in world.posed_meshes()}
    np.testing.assert_allclose(vertices["mesh"], [true @ p for p in ((0, 0, 0), *np.eye(3))], atol=1e-9)
    assert np.ptp(vertices["mesh"][:, 1]) == pytest.approx(3 * HALF)
    # a sheared box is no box, a sheared ball is an ellipsoid
    assert {s.name: s.kind for s in link.shapes} == {"mesh": "mesh", "cube": "mesh", "ball": "ellipsoid"}
    assert np.ptp(vertices["cube"][:, 1]) == pytest.approx(3 * math.sqrt(2))
    axes = sorted(s.geometry.radii for s in link.shapes if s.kind == "ellipsoid")[0]  # type: ignore[union-attr]
    np.testing.assert_allclose(sorted(axes), sorted(np.linalg.svd(true, compute_uv=False)), rtol=1e-12)


@pytest.mark.parametrize("scale", [(-0.001, 0.001, 0.001), (0.001, 0.001, -0.001), (-0.001, -0.001, -0.001)])
def test_hard_case_03_mirrored_cad(
    scale: tuple[float, float, float], tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """A mirror above a body: vertices where the stage shows them, faces outward, a proper rotation, no tilt."""
    mesh = prim(
        'Mesh "part"',
        "int[] faceVertexCounts = [3, 3, 3, 3]",
        "int[] faceVertexIndices = [0, 2, 1, 0, 1, 3, 1, 2, 3, 2, 0, 3]",
        "point3f[] points = [(0, 0, 0), (1000, 0, 0), (0, 2000, 0), (0, 0, 3000)]",
        apis=[COLLIDER],
    )
    turned = prim('Xform "b"', placed((100, 200, 300), QUARTER_Z), mesh, apis=[BODY])
    world = read(tmp_path, diagnostics, prim('Xform "above"', placed(scale=scale), turned))
    link = link_of(world, "b")
    assert link.pose is not None
    assert np.linalg.det(link.pose.rotation) == pytest.approx(1.0)
    true = np.diag(scale) @ axis_angle_to_matrix((0, 0, 1), math.pi / 2)
    offset = np.diag(scale) @ (100, 200, 300)
    corners = np.array([(0, 0, 0), (1000, 0, 0), (0, 2000, 0), (0, 0, 3000)], dtype=float)
    (posed,) = world.posed_meshes()
    np.testing.assert_allclose(posed.vertices, corners @ true.T + offset, atol=1e-9)
    assert link.inertial is not None
    assert link.inertial.mass == pytest.approx(1000 * 1 * 2 * 3 / 6)
    # the frame differs from the stage's axes by a mirror of all three, not by some tilt
    np.testing.assert_allclose(np.abs(link.pose.rotation), np.abs(true) / 0.001, atol=1e-12)


@pytest.mark.parametrize("kind", ["PhysicsRevoluteJoint", "PhysicsPrismaticJoint"])
def test_hard_case_04_reversed_joint(kind: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Naming the bodies the other way round turns the joint, not the robot: the same poses at the opposite angle."""
    links = body("base", apis=("PhysicsArticulationRootAPI",)), body("arm", placed((1, 0, 0)))
    axis = 'uniform token physics:axis = "Z"'
    limits = "float physics:lowerLimit = -10\nfloat physics:upperLimit = 45"
    forward = read(tmp_path, diagnostics, *links, joint("j", "/base", "/arm", at(0, 1), axis, limits, kind=kind))
    backward = read(tmp_path, diagnostics, *links, joint("j", "/arm", "/base", at(1, 1), axis, limits, kind=kind))
    assert tree_of(forward) == tree_of(backward) == {"base": None, "arm": "base"}
    edge = backward.tree().edges[0] if isinstance(backward, Robot) else None
    assert edge is not None
    assert edge.reversed
    for q in (0.0, 0.4):
        one = forward.link_poses({"j": q})["arm"]
        other = backward.link_poses({"j": -q})["arm"]
        assert one.is_close(other, 1e-12)
    assert joint_of(backward).axes[0].upper == joint_of(forward).axes[0].upper  # as authored, of the joint as authored


@pytest.mark.parametrize("excluded", [None, "ab", "cd"])
def test_hard_case_05_closed_loop(excluded: str | None, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A four-bar: one joint closes the loop, the excluded one where the stage says, and the rest is a tree."""
    corner = {"a": (0, 0, 0), "b": (1, 0, 0), "c": (1, 1, 0), "d": (0, 1, 0)}
    links = [body(n, placed(p)) for n, p in corner.items()]
    joints = []
    for pair in ("ab", "bc", "cd", "da"):
        offset = np.subtract(corner[pair[1]], corner[pair[0]])
        flag = "uniform bool physics:excludeFromArticulation = true" if pair == excluded else ""
        axis = 'uniform token physics:axis = "Z"'
        joints.append(joint(pair, f"/{pair[0]}", f"/{pair[1]}", at(0, *map(float, offset)), axis, flag))
    robot = read(tmp_path, diagnostics, *links, *joints)
    assert isinstance(robot, Robot)
    tree = robot.tree()
    assert len(tree.edges) == 3
    assert len(tree.loops) == 1
    if excluded:
        assert [j.name for j in tree.loops] == [excluded]
    for name, pose in robot.link_poses().items():
        np.testing.assert_allclose(pose.position, corner[name], atol=1e-12)


TARGETS = {
    "body1 only": ("", "/b", (None, "b"), ()),
    "body0 only": ("/b", "", ("b", None), ()),
    "a plain Xform of the world": ("/place", "/b", (None, "b"), ()),
    "a static collider": ("/wall", "/b", (None, "b"), ()),
    "a collider of a body": ("/a/shape", "/b", ("a", "b"), ()),
    "a site inside a body": ("/a/site", "/b", ("a", "b"), ()),
    "a disabled body": ("/off", "/b", (None, "b"), ("usd.joint-to-disabled-body",)),
    "nothing that exists": ("/nowhere", "/b", None, ("usd.joint-target",)),
    "an inactive body": ("/gone", "/b", None, ("usd.joint-target",)),
    "one body twice": ("/b", "/b/shape", None, ("usd.joint-to-itself",)),
}


@pytest.mark.parametrize("case", TARGETS)
def test_hard_case_06_what_a_joint_may_name(case: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The owning body and the pose re-expressed on it; never the world by accident, and never silently."""
    body0, body1, ends, claims = TARGETS[case]
    marker = prim('Sphere "site"', placed((0, 0, 1)), apis=["MjcSiteAPI"])
    stage = [
        body("a", placed((1, 0, 0)), prim('Cube "shape"', placed((0, 0, 1)), apis=[COLLIDER]), marker),
        body("b", placed((1, 0, 1)), prim('Cube "shape"', apis=[COLLIDER])),
        prim('Xform "place"', placed((1, 0, 1))),
        prim('Cube "wall"', placed((1, 0, 1)), apis=[COLLIDER]),
        body("off", placed((1, 0, 1)), "bool physics:rigidBodyEnabled = false"),
        body("gone").replace('def Xform "gone" (', 'def Xform "gone" (\n    active = false'),
        joint("j", body0, body1, at(0, 1, 0, 1) if case == "body1 only" else "", at(1, 1, 0, 1) if not body1 else ""),
    ]
    world = read(tmp_path, diagnostics, *stage)
    for code in claims:
        diagnostics.claim(code)
    assert [(j.parent, j.child) for j in world.joints] == ([] if ends is None else [ends])
    if ends is not None:
        # whatever the joint names is at the same place in the world: (1, 0, 1)
        found = joint_of(world)
        for end, pose in ((found.parent, found.parent_pose), (found.child, found.child_pose)):
            place = pose if end is None else (link_of(world, end).pose or pose) @ pose
            np.testing.assert_allclose(place.position, (1, 0, 1), atol=1e-12)


def test_hard_case_07_frames_disagree(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """2.6 mm between the two frames are reported with their size; a gap along the joint's own axis is its state."""
    links = body("a"), body("b", placed((1, 0, 0)))
    read(tmp_path, diagnostics, *links, joint("j", "/a", "/b", at(0, 1.0, 0.0026)))
    assert "0.0026 m" in diagnostics.claim("usd.joint-frames-apart").message
    slid = joint("j", "/a", "/b", at(0, 0.25), kind="PhysicsPrismaticJoint")
    robot = read(tmp_path, diagnostics, *links, slid)
    found = joint_of(robot)
    assert found.state is not None
    np.testing.assert_allclose(found.state, [0.75], atol=1e-7)
    np.testing.assert_allclose(robot.link_poses({"j": found.state})["b"].position, (1, 0, 0), atol=1e-7)


def test_hard_case_08_units(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One pendulum in metres, kilograms and Z up, and in centimetres, grams and Y up: the same description."""

    def stage(length: float, mass: float, up: str) -> list[str]:
        def force(newtons: float) -> float:
            return newtons / (mass * length)

        def torque(newton_metres: float) -> float:
            return newton_metres / (mass * length**2)

        height = {"Z": (0, 0, 2 / length), "Y": (0, 2 / length, 0)}[up]
        moments = f"float3 physics:diagonalInertia = ({torque(1)}, {torque(2)}, {torque(3)})"
        weight = f"float physics:mass = {4 / mass}\n{moments}\npoint3f physics:centerOfMass = ({1 / length}, 0, 0)"
        arm = prim('Xform "arm"', placed(height), weight, apis=[BODY, MASS])
        cart = prim('Xform "cart"', placed(height), weight, apis=[BODY, MASS])
        hinge = joint(
            *("hinge", "/cart", "/arm", f'uniform token physics:axis = "{up}"'),
            *("float physics:lowerLimit = -90", f"float physics:breakTorque = {torque(7)}"),
            *(
                f"float drive:angular:physics:stiffness = {torque(3)}",
                "float drive:angular:physics:targetPosition = 30",
            ),
            apis=("PhysicsDriveAPI:angular",),
        )
        rail = joint(
            *("rail", "", "/cart", at(0, *height), f"float physics:upperLimit = {5 / length}"),
            *(f"float physics:breakForce = {force(11)}", f"float drive:linear:physics:damping = {2 / mass}"),
            f"float drive:linear:physics:maxForce = {force(13)}",
            kind="PhysicsPrismaticJoint",
            apis=("PhysicsDriveAPI:linear",),
        )
        return [prim('PhysicsScene "scene"'), arm, cart, hinge, rail]

    def numbers(described: Robot | World) -> list[float]:
        hinge, rail, arm = joint_of(described, "hinge"), joint_of(described, "rail"), link_of(described, "arm")
        turn, slide = hinge.axes[0].drive, rail.axes[0].drive
        assert turn is not None
        assert slide is not None
        assert arm.inertial is not None
        assert described.gravity is not None
        assert arm.pose is not None
        return [
            *(hinge.axes[0].lower, hinge.break_torque, turn.stiffness, turn.target_position),
            *(rail.axes[0].upper, rail.break_force, slide.damping, slide.max_force),
            *(arm.inertial.mass, *arm.inertial.center, *np.diag(arm.inertial.inertia)),
            *described.gravity,
            *arm.pose.position,
        ]

    plain = numbers(read(tmp_path, diagnostics, *stage(1.0, 1.0, "Z")))
    other = numbers(read(tmp_path, diagnostics, *stage(0.01, 0.001, "Y"), units=OTHER))
    np.testing.assert_allclose(other, plain, rtol=1e-6, atol=1e-9)
    by_hand = [-math.pi / 2, 7, 3 * 180 / math.pi, math.pi / 6, 5, 11, 2, 13, 4, 1, 0, 0, 1, 2, 3, 0, 0, -9.81, 0, 0, 2]
    np.testing.assert_allclose(plain, by_hand, rtol=1e-6, atol=1e-9)


def test_hard_case_09_inertia_conventions(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The principal axes are columns in the body's frame: I = R diag R^T, turned neither backwards nor twice."""
    turn = axis_angle_to_matrix((0, 0, 1), 0.5)
    w, z = math.cos(0.25), math.sin(0.25)
    lines = [
        "float physics:mass = 1",
        "float3 physics:diagonalInertia = (1, 2, 2.5)",
        f"quatf physics:principalAxes = ({w}, 0, 0, {z})",
        "point3f physics:centerOfMass = (0, 0, 0)",
    ]
    turned = prim('Xform "b"', placed(orient=QUARTER_Z), *lines, apis=[BODY, MASS])
    link = link_of(read(tmp_path, diagnostics, turned), "b")
    assert link.inertial is not None
    np.testing.assert_allclose(link.inertial.inertia, turn @ np.diag([1, 2, 2.5]) @ turn.T, atol=1e-6)
    assert link.inertial.inertia[0, 1] < 0  # R^T diag R would be positive here
    # a mass without an inertia has that of its shapes, scaled; without shapes a stand-in, and a warning
    box = prim('Cube "box"', "double size = 2", apis=[COLLIDER])
    with_shape = prim('Xform "b"', "float physics:mass = 6", box, apis=[BODY, MASS])
    link = link_of(read(tmp_path, diagnostics, with_shape), "b")
    assert link.inertial is not None
    np.testing.assert_allclose(link.inertial.inertia, 4 * np.eye(3), atol=1e-9)
    read(tmp_path, diagnostics, prim('Xform "b"', "float physics:mass = 6", apis=[BODY, MASS]))
    diagnostics.claim("usd.no-inertia")


def test_hard_case_10_instances(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Bodies and joints inside instances, what an instance overrides, and the bodies of a point instancer."""
    arm = prim(
        'Xform "arm"',
        body("base", prim('Cube "c"', "double size = 1", apis=[COLLIDER])),
        body("tip", placed((0, 0, 1))),
        joint("j", "/proto/arm/base", "/proto/arm/tip", at(0, 0, 0, 1)),
    )
    proto = prim('Xform "proto"', arm).replace('def Xform "proto"', 'class Xform "proto"')
    copies = [
        f'def Xform "{name}" (\n    instanceable = true\n    references = </proto>\n)\n{{\n{placed((x, 0, 0))}\n}}'
        for name, x in (("left", -2), ("right", 2))
    ]
    balls = prim(
        'PointInstancer "balls"',
        "rel prototypes = </balls/ball>",
        "int[] protoIndices = [0, 0, 0]",
        "point3f[] positions = [(0, 5, 0), (0, 6, 0), (0, 7, 0)]",
        prim('Sphere "ball"', "double radius = 0.25", apis=[BODY, COLLIDER]),
    )
    world = read(tmp_path, diagnostics, proto, *copies, balls)
    assert {link.origin.path for link in world.links if "balls" not in link.origin.path} == {
        "/left/arm/base", "/left/arm/tip", "/right/arm/base", "/right/arm/tip",
    }  # fmt: skip
    assert {(j.origin.path, j.n_dofs) for j in world.joints} == {("/left/arm/j", 1), ("/right/arm/j", 1)}
    poses = {link.origin.path: link.pose for link in world.links}
    assert poses["/left/arm/tip"] is not None
    np.testing.assert_allclose(poses["/left/arm/tip"].position, (-2, 0, 1), atol=1e-12)
    spheres = [link for link in world.links if "balls" in link.origin.path]
    places = sorted(float(link.pose.position[1]) for link in spheres if link.pose is not None)
    assert places == [5.0, 6.0, 7.0]
    assert [s.kind for link in spheres for s in link.shapes] == ["sphere"] * 3
    masses = [link.inertial.mass for link in spheres if link.inertial is not None]
    assert masses == pytest.approx([1000 * 4 / 3 * math.pi * 0.25**3] * 3)


def test_hard_case_11_collision_filtering(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Groups filter what they name and nothing else; a body's filter does not reach the bodies written inside it."""

    def ball(name: str, *inside: str, apis: tuple[str, ...] = ()) -> str:
        return prim(f'Sphere "{name}"', *inside, apis=[BODY, COLLIDER, *apis])

    def group(name: str, members: str, *lines: str) -> str:
        return prim(f'PhysicsCollisionGroup "{name}"', f"rel collection:colliders:includes = [{members}]", *lines)

    pairs = "rel physics:filteredPairs = </d>"
    stage = [
        *(ball(n) for n in "abcd"),
        prim('Xform "outer"', pairs, prim('Sphere "e"', apis=[COLLIDER]), ball("f"),
             apis=[BODY, "PhysicsFilteredPairsAPI"]),
        group("ab", "</a>, </b>", "rel physics:filteredGroups = </c_only>"),
        group("c_only", "</c>"),
    ]  # fmt: skip
    world = read(tmp_path, diagnostics, *stage)
    found = {"".join(sorted((x.shape.name, y.shape.name))) for x, y in colliding_pairs(world)}
    every = {x + y for x in "abcdef" for y in "abcdef" if x < y}
    assert every - found == {"ac", "bc", "de"}


@pytest.mark.parametrize("vendor", ["newton", "physx"])
def test_hard_case_12_mimic(vendor: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Newton: q = c0 + c1 q', in degrees. PhysX: q + gearing q' + offset = 0. Both are one rule in the description."""
    said = {
        "newton": "rel newton:mimicJoint = </lead>\nfloat newton:mimicCoef0 = 30\nfloat newton:mimicCoef1 = -2",
        "physx": "rel physxMimicJoint:rotZ:referenceJoint = </lead>\n"
        "float physxMimicJoint:rotZ:gearing = 2\nfloat physxMimicJoint:rotZ:offset = -30",
    }[vendor]
    stage = [
        *(body(n) for n in "abc"),
        joint("lead", "/a", "/b"),
        joint("follow", "/a", "/c", said, apis=("NewtonMimicAPI",) if vendor == "newton" else ()),
    ]
    robot = read(tmp_path, diagnostics, *stage)
    mimic = joint_of(robot, "follow").axes[0].mimic
    assert mimic is not None
    assert (mimic.joint, mimic.multiplier) == ("lead", -2.0)
    assert mimic.offset == pytest.approx(math.pi / 6)
    pose = robot.link_poses({"lead": 0.1})["c"]
    np.testing.assert_allclose(pose.rotation, axis_angle_to_matrix((1, 0, 0), math.pi / 6 - 0.2), atol=1e-9)


SIX = ("transX", "transY", "transZ", "rotX", "rotY", "rotZ")


def test_hard_case_13_six_axes(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Limits on five axes leave the sixth free: a universal joint is two free axes, four locked ones."""
    locked = [t for t in SIX if t not in ("rotX", "rotY")]
    lines = [f"float limit:{t}:physics:low = 1\nfloat limit:{t}:physics:high = -1" for t in locked]
    apis = tuple(f"PhysicsLimitAPI:{t}" for t in locked)
    robot = read(
        tmp_path, diagnostics, body("a"), body("b"), joint("j", "/a", "/b", *lines, kind="PhysicsJoint", apis=apis)
    )
    found = joint_of(robot)
    assert [a.state.value for a in found.axes] == ["locked"] * 3 + ["free", "free", "locked"]
    turn = axis_angle_to_matrix((1, 0, 0), 0.3) @ axis_angle_to_matrix((0, 1, 0), 0.4)
    np.testing.assert_allclose(robot.link_poses({"j": [0.3, 0.4]})["b"].rotation, turn, atol=1e-12)


@pytest.mark.parametrize(
    ("said", "stacked"),
    [
        ("nothing", False),
        ("jointsAddMobility", True),
        ("MuJoCo settings", True),
        ("MuJoCo settings, but no mobility", False),
        ("the user", True),
    ],
)
def test_hard_case_13_stacked_joints(said: str, stacked: bool, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Two joints between two bodies constrain each other, or add their motion where the stage or the user says so."""
    setting = "uniform double mjc:damping = 1" if "MuJoCo" in said else ""
    mobility = {"jointsAddMobility": "true", "MuJoCo settings, but no mobility": "false"}.get(said)
    root = f"uniform bool newton:jointsAddMobility = {mobility}" if mobility else ""
    file = write_stage(
        tmp_path,
        body("a", root, apis=("PhysicsArticulationRootAPI",)),
        body("b", placed((0, 0, 1))),
        joint("x", "/a", "/b", at(0, 0, 0, 1), setting),
        joint("y", "/a", "/b", at(0, 0, 0, 1), setting, 'uniform token physics:axis = "Y"'),
    )
    robot = read_usd(file, diagnostics=diagnostics, stack_joints=True if said == "the user" else None)
    assert isinstance(robot, Robot)
    assert joint_of(robot, "y").stacked is stacked
    assert robot.n_dofs == (2 if stacked else 1)
    assert [j.name for j in robot.tree().loops] == ([] if stacked else ["y"])
    assert ("usd.stacked-joints" in diagnostics.codes()) == (said == "MuJoCo settings")
    if stacked:
        turn = axis_angle_to_matrix((1, 0, 0), 0.3) @ axis_angle_to_matrix((0, 1, 0), 0.4)
        np.testing.assert_allclose(robot.link_poses({"x": 0.3, "y": 0.4})["b"].rotation, turn, atol=1e-12)


def test_hard_case_13_stacked_joints_in_any_order(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A joint that names its bodies the other way round adds its motion all the same; a ball joint cannot."""
    stage = [
        body("a", "uniform bool newton:jointsAddMobility = true", apis=("PhysicsArticulationRootAPI",)),
        body("b", placed((0, 0, 1))),
        joint("x", "/a", "/b", at(0, 0, 0, 1)),
    ]
    back = joint("y", "/b", "/a", at(1, 0, 0, 1), 'uniform token physics:axis = "Y"', "float physics:upperLimit = 30")
    robot = read(tmp_path, diagnostics, *stage, back)
    assert isinstance(robot, Robot)
    assert [j.name for j in robot.tree().loops] == []
    turn = axis_angle_to_matrix((1, 0, 0), 0.3) @ axis_angle_to_matrix((0, 1, 0), -0.4)
    np.testing.assert_allclose(robot.link_poses({"x": 0.3, "y": 0.4})["b"].rotation, turn, atol=1e-12)
    assert joint_of(robot, "y").axes[0].upper == pytest.approx(math.pi / 6)
    ball = joint("ball", "/b", "/a", at(1, 0, 0, 1), kind="PhysicsSphericalJoint")
    robot = read(tmp_path, diagnostics, *stage, ball)
    assert isinstance(robot, Robot)
    diagnostics.claim("usd.stacked-backwards")
    assert [j.name for j in robot.tree().loops] == ["ball"]


def test_hard_case_14_articulation_scope(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """One stray fixed joint holds only its own body; loose bodies stay loose; a flat chain keeps its declared root."""
    chain = [body(f"l{i}", placed((i, 0, 0))) for i in range(5)]
    joints = [joint(f"j{i}", f"/robot/l{i}", f"/robot/l{i + 1}", at(0, 1)) for i in range(4)]
    robot_prim = prim('Xform "robot"', *chain, *joints, apis=["PhysicsArticulationRootAPI"])
    stray = joint("stray", "", "/crate", at(0, 0, 9), kind="PhysicsFixedJoint")
    world = read(tmp_path, diagnostics, robot_prim, body("crate", placed((0, 9, 0))), body("ball"), stray)
    assert isinstance(world, World)
    robots = {robot.links[0].name: robot for robot in world.robots}
    assert set(robots) == {"l0", "crate", "ball"}
    assert robots["l0"].tree().roots == ("l0",)  # not l2, the middle of the graph
    assert robots["ball"].tree().roots == ("ball",)
    assert [edge.joints[0].kind for edge in robots["crate"].tree().edges] == [JointKind.FIXED]
    # disabling a body in the chain takes its joints away, and nothing else
    off = chain[2].replace("float physics:mass = 1", "float physics:mass = 1\nbool physics:rigidBodyEnabled = false")
    parts = read(tmp_path, diagnostics, prim('Xform "robot"', *chain[:2], off, *chain[3:], *joints))
    assert len(diagnostics.claim_all("usd.joint-to-disabled-body")) == 2
    assert {j.name: (j.parent, j.child) for j in parts.joints} == {
        "j0": ("l0", "l1"), "j1": ("l1", None), "j2": (None, "l3"), "j3": ("l3", "l4"),
    }  # fmt: skip
    assert all(j.kind is JointKind.CONTINUOUS for j in parts.joints)


def test_hard_case_15_vendor_drift(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Each vendor's name and unit for one setting, no vendor's defaults, and what is unknown kept as it stands."""

    def axis_with(*lines: str):
        robot = read(tmp_path, diagnostics, body("a"), body("b"), joint("j", "/a", "/b", *lines))
        found = joint_of(robot)
        return found.axes[0], {extra.tag: extra.text for extra in found.extras}

    plain, kept = axis_with()
    assert (plain.damping, plain.friction, plain.armature, plain.effort, plain.velocity) == (
        0,
        0,
        0,
        math.inf,
        math.inf,
    )
    assert not kept
    for line in ("float newton:damping = 0.5", f"uniform double mjc:damping = {0.5 * 180 / math.pi}"):
        assert axis_with(line)[0].damping == pytest.approx(0.5 * 180 / math.pi)  # per degree, and per radian
    assert axis_with("float urdf:dynamics:damping = 0.5")[0].damping == 0.5
    for line in ("float newton:velocityLimit = 90", "float physxJoint:maxJointVelocity = 90"):
        assert axis_with(line)[0].velocity == pytest.approx(math.pi / 2)
    axis, kept = axis_with("float physxJoint:jointFriction = 0.3", "float newton:friction = 2")
    diagnostics.claim("usd.joint-friction")  # a share of the load, not a torque
    assert axis.friction == 2.0
    assert kept == {"physxJoint:jointFriction": "0.30000001192092896"}
    assert axis_with("float physxLimit:angular:stiffness = 7")[1] == {"physxLimit:angular:stiffness": "7.0"}


def test_hard_case_15_a_scene_outside_the_default_prim(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A physics scene beside the default prim still gives its gravity, and mesh faces are outward either way."""
    mesh = [
        "int[] faceVertexCounts = [3, 3, 3, 3]",
        "int[] faceVertexIndices = [0, 1, 2, 0, 3, 1, 1, 3, 2, 2, 3, 0]",
        "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]",
        'uniform token orientation = "leftHanded"',
    ]
    robot = prim('Xform "robot"', prim('Mesh "part"', *mesh, apis=[COLLIDER]), apis=[BODY])
    scene = prim('PhysicsScene "scene"', "float physics:gravityMagnitude = 1.62")
    described = read_usd(write_stage(tmp_path, robot, scene, default="robot"), diagnostics=diagnostics)
    assert described.gravity is not None
    np.testing.assert_allclose(described.gravity, (0, 0, -1.62), rtol=1e-6)
    (shape,) = described.links[0].shapes
    assert isinstance(shape.geometry, Mesh)
    assert described.links[0].inertial is not None
    assert described.links[0].inertial.mass == pytest.approx(1000 / 6)
