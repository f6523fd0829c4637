"""Where OpenUSD's own utilities are wrong or silent: both answers, and the truth worked out here."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest

from kinema.core import axis_angle_to_matrix
from kinema.description import Box, Ellipsoid, Joint, Link, Mesh, Robot, World, colliding_pairs
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import BODY, COLLIDER, EIGHTH_Z, MASS, body, open_fresh, placed, prim, write_stage

from .openusd_oracle import mass_properties, parse, validate

HALF = math.sqrt(0.5)


def joint(name: str, *lines: str, kind: str = "PhysicsRevoluteJoint", apis: tuple[str, ...] = ()) -> str:
    return prim(f'{kind} "{name}"', *lines, apis=apis)


def ends(body0: str, body1: str) -> str:
    return f"rel physics:body0 = </World/{body0}>\nrel physics:body1 = </World/{body1}>"


def stage(folder: Path, *prims: str, apis: tuple[str, ...] = ()) -> Path:
    return write_stage(folder, prim('Xform "World"', *prims, apis=apis))


def link_of(described: Robot | World, name: str) -> Link:
    return next(link for link in described.links if link.name == name)


def joint_of(described: Robot | World, name: str = "j") -> Joint:
    return next(j for j in described.joints if j.name == name)


# -- fact 3: articulations --------------------------------------------------------------------------------------------


def chain(n: int, *extra: str) -> list[str]:
    links = [body(f"l{i}", placed((i, 0, 0))) for i in range(n)]
    step = "point3f physics:localPos0 = (1, 0, 0)"
    return [*links, *(joint(f"j{i}", ends(f"l{i}", f"l{i + 1}"), step) for i in range(n - 1)), *extra]


def test_the_root_of_a_flat_chain(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD takes the middle of the graph; every joint of the chain points away from the first link."""
    file = stage(tmp_path, *chain(5), apis=("PhysicsArticulationRootAPI",))
    (articulation,) = parse(file)["Articulation"].values()
    assert [str(p) for p in articulation.rootPrims] == ["/World/l2"]
    robot = read_usd(file, diagnostics=diagnostics)
    assert isinstance(robot, Robot)
    assert robot.tree().roots == ("l0",)
    assert not any(edge.reversed for edge in robot.tree().edges)


def test_excluded_joints_are_not_in_the_articulation(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD lists the joint that excludes itself among the articulated ones."""
    out = joint(
        "out", ends("l0", "l2"), "point3f physics:localPos0 = (2, 0, 0)",
        "uniform bool physics:excludeFromArticulation = true",
    )  # fmt: skip
    file = stage(tmp_path, *chain(3, out), apis=("PhysicsArticulationRootAPI",))
    (articulation,) = parse(file)["Articulation"].values()
    assert "/World/out" in {str(p) for p in articulation.articulatedJoints}
    robot = read_usd(file, diagnostics=diagnostics)
    assert isinstance(robot, Robot)
    assert [j.name for j in robot.tree().loops] == ["out"]


def test_an_articulation_root_on_an_inner_joint(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD gives an articulation without any root; here the joint is named in a warning and the tree stands."""
    inner = joint("j", ends("l0", "l1"), "point3f physics:localPos0 = (1, 0, 0)", apis=("PhysicsArticulationRootAPI",))
    file = stage(tmp_path, *chain(2)[:2], inner)
    (articulation,) = parse(file)["Articulation"].values()
    assert not articulation.rootPrims
    robot = read_usd(file, diagnostics=diagnostics)
    assert "'j'" in diagnostics.claim("usd.articulation-on-inner-joint").message
    assert isinstance(robot, Robot)
    assert robot.tree().roots == ("l0",)


# -- fact 4: limits and drives ----------------------------------------------------------------------------------------


def test_a_limit_on_one_side_is_a_limit(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD says that a joint with only a lower limit is not limited."""
    file = stage(
        tmp_path, *chain(2)[:2],
        joint("j", ends("l0", "l1"), "point3f physics:localPos0 = (1, 0, 0)", "float physics:lowerLimit = -10"),
    )  # fmt: skip
    assert parse(file)["RevoluteJoint"]["/World/j"].limit.enabled is False
    axis = joint_of(read_usd(file, diagnostics=diagnostics)).axes[0]
    assert axis.state.value == "limited"
    assert axis.lower == pytest.approx(math.radians(-10))


def test_limits_and_drives_of_axes_that_a_joint_does_not_have(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD drops them without a word, a drive of the joint's very axis included."""
    apis = ("PhysicsDriveAPI:rotX", "PhysicsDriveAPI:linear", "PhysicsLimitAPI:rotX")
    drives = "float drive:rotX:physics:stiffness = 1\nfloat drive:linear:physics:stiffness = 2"
    file = stage(tmp_path, body("a"), body("b"), joint("j", ends("a", "b"), drives, apis=apis))
    assert parse(file)["RevoluteJoint"]["/World/j"].drive.enabled is False
    found = joint_of(read_usd(file, diagnostics=diagnostics))
    assert [d.message.split(" on ")[0] for d in diagnostics.claim_all("usd.no-such-axis")] == [
        "PhysicsDriveAPI:linear",
        "PhysicsLimitAPI:rotX",
    ]
    assert found.axes[0].drive is not None  # rotX is the axis of this joint
    assert found.axes[0].drive.stiffness == pytest.approx(180 / math.pi)


# -- fact 6: what joints are attached to ------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("target", "code"),
    [("nobody", "usd.joint-target"), ("off", "usd.joint-to-disabled-body"), ("a", "usd.joint-to-itself")],
)
def test_a_joint_to_nowhere(target: str, code: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A missing or disabled body becomes the world for OpenUSD, and one body twice is fine; here each is reported."""
    off = body("off", "bool physics:rigidBodyEnabled = false")
    file = stage(tmp_path, body("a"), off, joint("j", ends("a", target)))
    descriptor = parse(file)["RevoluteJoint"]["/World/j"]
    assert descriptor.isValid
    assert str(descriptor.body1) == ("/World/a" if target == "a" else "")
    described = read_usd(file, diagnostics=diagnostics)
    diagnostics.claim(code)
    # a disabled body still stands somewhere: what is jointed to it is held there
    assert len(described.joints) == (1 if target == "off" else 0)


# -- fact 7: materials ------------------------------------------------------------------------------------------------


def test_an_inherited_material(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD's parser finds a material only where it is bound on the collider itself; its mass code knows better."""
    rubber = prim(
        'Material "rubber"', "float physics:dynamicFriction = 0.3", "float physics:density = 3",
        apis=["PhysicsMaterialAPI"],
    )  # fmt: skip
    cube = prim('Cube "cube"', "double size = 1", apis=[COLLIDER])
    bound = prim('Xform "b"', "rel material:binding:physics = </World/rubber>", cube, apis=[BODY, "MaterialBindingAPI"])
    file = stage(tmp_path, rubber, bound)
    assert parse(file)["CubeShape"]["/World/b/cube"].materials == []
    assert mass_properties(file, "/World/b").mass == pytest.approx(3.0)
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    surface = link.shapes[0].surface
    assert surface is not None
    assert surface.dynamic_friction == pytest.approx(0.3)
    assert link.inertial is not None
    assert link.inertial.mass == pytest.approx(3.0)


# -- fact 8: memory nobody has written --------------------------------------------------------------------------------


def test_inverting_groups_has_no_fallback(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Unauthored, the attribute has no value at all, and OpenUSD's descriptor whatever was in memory; it means no."""
    file = stage(tmp_path, prim('PhysicsCollisionGroup "g"'))
    opened = open_fresh(file)
    assert opened.GetPrimAtPath("/World/g").GetAttribute("physics:invertFilteredGroups").Get() is None
    described = read_usd(file, diagnostics=diagnostics)
    assert described.collision.groups[0].invert is False


def test_merged_groups(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD's table mixes its groups up: the second filters only itself, so the third and fourth do collide."""
    from pxr import UsdPhysics

    def group(name: str, *lines: str) -> str:
        return prim(
            f'PhysicsCollisionGroup "group_{name}"', f"rel collection:colliders:includes = </World/{name}>", *lines
        )

    balls = [prim(f'Sphere "{name}"', placed((5 * i, 0, 0)), apis=[BODY, COLLIDER]) for i, name in enumerate("abcd")]
    merge, itself = 'string physics:mergeGroup = "y"', "rel physics:filteredGroups = </World/group_b>"
    groups = [group("a", merge), group("b", itself), group("c"), group("d", merge)]
    file = stage(tmp_path, *balls, *groups)
    opened = open_fresh(file)
    table = UsdPhysics.CollisionGroup.ComputeCollisionGroupTable(opened)
    assert not table.IsCollisionEnabled("/World/group_c", "/World/group_d")
    world = read_usd(file, diagnostics=diagnostics)
    touching = {"".join(sorted((x.shape.name, y.shape.name))) for x, y in colliding_pairs(world)}
    assert touching == {"ab", "ac", "ad", "bc", "bd", "cd"}


def test_a_body_without_volume(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD answers with a mass of -1 and axes from uninitialised memory; there is no mass to give, so we warn."""
    file = stage(tmp_path, prim('Xform "b"', apis=[BODY]))
    answer = mass_properties(file, "/World/b")
    assert (answer.mass, answer.asked) == (-1.0, [])
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    assert link.inertial is None
    diagnostics.claim("usd.no-mass")


def test_a_mass_without_volume(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD takes the inertia of a ball of 0.1 m, with axes from uninitialised memory; we take the ball."""
    file = stage(tmp_path, prim('Xform "b"', "float physics:mass = 2", apis=[BODY, MASS]))
    assert mass_properties(file, "/World/b").mass == 2.0
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    diagnostics.claim("usd.no-inertia")
    assert link.inertial is not None
    np.testing.assert_allclose(link.inertial.inertia, 0.4 * 2 * 0.1**2 * np.eye(3))


# -- fact 9: scale and shear ------------------------------------------------------------------------------------------


def sheared(folder: Path, *inside: str) -> tuple[Path, np.ndarray]:
    """A body turned by 45 degrees under a scale of (1, 3, 1), jointed at its (1, 0, 0); and its true linear map."""
    held = joint(
        "j", "rel physics:body0 = </World/above/b>", "point3f physics:localPos0 = (1, 0, 0)",
        f"point3f physics:localPos1 = ({HALF}, {3 * HALF}, 0)", kind="PhysicsSphericalJoint",
    )  # fmt: skip
    turned = body("b", placed(orient=EIGHTH_Z), *inside)
    file = stage(folder, prim('Xform "above"', placed(scale=(1, 3, 1)), turned), held)
    return file, np.diag([1.0, 3.0, 1.0]) @ axis_angle_to_matrix((0, 0, 1), math.pi / 4)


def test_anchor_under_shear(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD drops the orientation of the scale: its anchor is 1.41 m off, and valid."""
    file, true = sheared(tmp_path)
    parsed = parse(file)
    descriptor, frame = parsed["SphericalJoint"]["/World/j"], parsed["RigidBody"]["/World/above/b"]
    assert descriptor.isValid
    w, imaginary = frame.rotation.GetReal(), frame.rotation.GetImaginary()
    turn = axis_angle_to_matrix((0, 0, 1), 2 * math.atan2(imaginary[2], w))
    theirs = turn @ np.array(descriptor.localPose0Position, dtype=float)
    assert np.linalg.norm(theirs - true[:, 0]) == pytest.approx(math.sqrt(2), abs=1e-5)
    world = read_usd(file, diagnostics=diagnostics)
    link = link_of(world, "b")
    assert link.pose is not None
    np.testing.assert_allclose((link.pose @ joint_of(world).parent_pose).position, true[:, 0], atol=1e-9)


def test_box_under_shear(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """For OpenUSD the sheared cube is still a box; it is a parallelepiped, of the same volume but another inertia."""
    file, true = sheared(tmp_path, prim('Cube "c"', "double size = 2", apis=[COLLIDER]))
    assert parse(file)["CubeShape"]["/World/above/b/c"].isValid
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    (shape,) = link.shapes
    assert isinstance(shape.geometry, Mesh)
    corners = np.array([[x, y, z] for x in (-1, 1) for y in (-1, 1) for z in (-1, 1)]) @ true.T
    assert link.pose is not None
    assert shape.geometry.vertices is not None
    posed = (link.pose @ shape.pose).apply(shape.geometry.vertices)
    assert {tuple(np.round(v, 9) + 0.0) for v in posed} == {tuple(np.round(v, 9) + 0.0) for v in corners}


def test_mirrored_box(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD gives a mirrored box half extents below zero."""
    cube = prim('Cube "c"', "double size = 2", placed(scale=(-1, 2, 3)), apis=[COLLIDER])
    file = stage(tmp_path, body("b", cube))
    assert min(parse(file)["CubeShape"]["/World/b/c"].halfExtents) < 0
    (shape,) = link_of(read_usd(file, diagnostics=diagnostics), "b").shapes
    assert isinstance(shape.geometry, Box)
    assert sorted(shape.geometry.size) == [2.0, 4.0, 6.0]


def test_stretched_ball(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD makes a ball of the greatest radius; it is an ellipsoid."""
    ball = prim('Sphere "c"', "double radius = 1", placed(scale=(1, 2, 3)), apis=[COLLIDER])
    file = stage(tmp_path, body("b", ball))
    assert parse(file)["SphereShape"]["/World/b/c"].radius == pytest.approx(3.0)
    (shape,) = link_of(read_usd(file, diagnostics=diagnostics), "b").shapes
    assert isinstance(shape.geometry, Ellipsoid)
    np.testing.assert_allclose(shape.geometry.radii, (1, 2, 3))


def test_flattened_cylinder(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD takes the greater of the two radii; an elliptic cylinder has half that volume here."""
    can = prim(
        *('Cylinder "c"', "double radius = 1", "double height = 2", 'uniform token axis = "Z"'),
        placed(scale=(1, 2, 1)),
        apis=[COLLIDER],
    )
    file = stage(tmp_path, prim('Xform "b"', can, apis=[BODY]))
    assert parse(file)["CylinderShape"]["/World/b/c"].radius == pytest.approx(2.0)
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    assert isinstance(link.shapes[0].geometry, Mesh)
    assert link.inertial is not None
    assert link.inertial.mass == pytest.approx(1000 * math.pi * 1 * 2 * 2, rel=0.01)  # a polygon of 32 sides


# -- fact 10: masses --------------------------------------------------------------------------------------------------


def test_a_small_inertia_counts(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD takes an inertia below 1e-5 for unset: that of a fingertip becomes 2,000 times what is authored."""
    lines = ["float physics:mass = 0.01", "float3 physics:diagonalInertia = (5e-6, 5e-6, 5e-6)"]
    cube = prim('Cube "c"', "double size = 2.5", apis=[COLLIDER])
    file = stage(tmp_path, prim('Xform "b"', *lines, cube, apis=[BODY, MASS]))
    assert mass_properties(file, "/World/b").inertia[0, 0] > 2000 * 5e-6
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    assert link.inertial is not None
    np.testing.assert_allclose(link.inertial.inertia, 5e-6 * np.eye(3), rtol=1e-6, atol=1e-12)


def test_an_inertia_without_axes(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Unauthored axes are the body's own; OpenUSD takes the colliders', but not if mass and centre are given."""
    bar = prim('Cube "c"', "double size = 1", placed(orient=EIGHTH_Z, scale=(4, 1, 1)), apis=[COLLIDER])
    moments = "float3 physics:diagonalInertia = (1, 2, 2.5)"
    rest = "float physics:mass = 1\npoint3f physics:centerOfMass = (0, 0, 0)"
    for lines, turned in ((moments, True), (f"{moments}\n{rest}", False)):
        file = stage(tmp_path, prim('Xform "b"', lines, bar, apis=[BODY, MASS]))
        assert (abs(mass_properties(file, "/World/b").inertia[0, 1]) > 0.1) == turned
        link = link_of(read_usd(file, diagnostics=diagnostics), "b")
        assert link.inertial is not None
        np.testing.assert_allclose(link.inertial.inertia, np.diag([1, 2, 2.5]), atol=1e-12)


def test_principal_axes_without_an_inertia(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD turns the computed inertia to the authored axes, so that the long side of a bar moves; it is ignored."""
    bar = prim('Cube "c"', "double size = 1", placed(scale=(4, 1, 1)), apis=[COLLIDER])
    quarter = f"quatf physics:principalAxes = ({HALF}, 0, 0, {HALF})"
    file = stage(tmp_path, prim('Xform "b"', quarter, bar, apis=[BODY, MASS]))
    theirs = mass_properties(file, "/World/b").inertia
    true = 4000 / 12 * np.diag([2, 17, 17])  # of the bar, which lies along x
    np.testing.assert_allclose(theirs, 4000 / 12 * np.diag([17, 2, 17]), atol=0.01)
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    diagnostics.claim("usd.axes-without-inertia")
    assert link.inertial is not None
    np.testing.assert_allclose(link.inertial.inertia, true, rtol=1e-12)


def test_a_mass_schema_that_cannot_count(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """On a prim that is neither body nor collider the mass schema has no effect; OpenUSD does not say so."""
    cube = prim('Cube "c"', "double size = 1", apis=[COLLIDER])
    between = prim('Xform "between"', "float physics:density = 7", cube, apis=[MASS])
    file = stage(tmp_path, prim('Xform "b"', between, apis=[BODY]))
    assert mass_properties(file, "/World/b").mass == pytest.approx(1000.0)
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    diagnostics.claim("usd.mass-on-neither")
    assert link.inertial is not None
    assert link.inertial.mass == pytest.approx(1000.0)


# -- facts 11 and 12: what the parser does not look at ----------------------------------------------------------------


def test_point_instancers(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD skips everything below a point instancer; its two bodies are two links."""
    balls = prim(
        'PointInstancer "balls"',
        "rel prototypes = </World/balls/ball>",
        "int[] protoIndices = [0, 0]",
        "point3f[] positions = [(0, 5, 0), (0, 6, 0)]",
        prim('Sphere "ball"', apis=[BODY, COLLIDER]),
    )
    file = stage(tmp_path, balls)
    assert "RigidBody" not in parse(file)
    assert len(read_usd(file, diagnostics=diagnostics).links) == 2


def test_animated_bodies(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD reads at the default time, at which a body with time samples only stands at the origin."""
    moving = body(
        "b",
        "double3 xformOp:translate.timeSamples = {1: (1, 2, 3), 2: (4, 5, 6)}",
        'uniform token[] xformOpOrder = ["xformOp:translate"]',
    )
    file = stage(tmp_path, moving)
    assert tuple(parse(file)["RigidBody"]["/World/b"].position) == (0, 0, 0)
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    assert link.pose is not None
    np.testing.assert_allclose(link.pose.position, (1, 2, 3))
    assert "usd.time-samples" in diagnostics.codes()


def test_left_handed_meshes(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD's descriptor does not say which way a mesh is wound; read as written this one would be inside out."""
    mesh = prim(
        'Mesh "m"',
        "int[] faceVertexCounts = [3, 3, 3, 3]",
        "int[] faceVertexIndices = [0, 1, 2, 0, 3, 1, 1, 3, 2, 2, 3, 0]",
        "point3f[] points = [(0, 0, 0), (1, 0, 0), (0, 1, 0), (0, 0, 1)]",
        'uniform token orientation = "leftHanded"',
        apis=[COLLIDER],
    )
    file = stage(tmp_path, prim('Xform "b"', mesh, apis=[BODY]))
    assert not hasattr(parse(file)["MeshShape"]["/World/b/m"], "orientation")
    link = link_of(read_usd(file, diagnostics=diagnostics), "b")
    assert link.inertial is not None
    assert link.inertial.mass == pytest.approx(1000 / 6)


def test_filtered_pairs_on_a_plain_xform(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """OpenUSD reports them nowhere; they hold for all colliders below."""

    def ball(name: str) -> str:
        return prim(f'Sphere "{name}"', apis=[BODY, COLLIDER])

    around = prim(
        'Xform "around"', "rel physics:filteredPairs = </World/a>", ball("b"), ball("c"),
        apis=["PhysicsFilteredPairsAPI"],
    )  # fmt: skip
    file = stage(tmp_path, ball("a"), around)
    parsed = parse(file)
    assert all(not d.filteredCollisions for kind in ("SphereShape", "RigidBody") for d in parsed[kind].values())
    world = read_usd(file, diagnostics=diagnostics)
    assert {"".join(sorted((a.shape.name, b.shape.name))) for a, b in colliding_pairs(world)} == {"bc"}


# -- fact 13: what the validators do not check ------------------------------------------------------------------------

UNSEEN = {
    "frames that do not meet": (
        joint("j", ends("a", "b"), "point3f physics:localPos0 = (0, 7, 0)"),
        "usd.joint-frames-apart",
    ),
    "a lower limit above the upper one": (
        joint("j", ends("a", "b"), "float physics:lowerLimit = 5\nfloat physics:upperLimit = -5"),
        "usd.limits-lock",
    ),
    "one body on both sides": (joint("j", ends("a", "a")), "usd.joint-to-itself"),
    "a drive that moves nothing": (
        joint("j", ends("a", "b"), apis=("PhysicsDriveAPI:transY",)),
        "usd.no-such-axis",
    ),
    "a collision schema without a shape": (
        prim('Xform "nothing"', apis=[COLLIDER]),
        "usd.collider-without-shape",
    ),
}


@pytest.mark.parametrize("case", UNSEEN)
def test_what_openusd_validators_do_not_see(case: str, tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Its validators find nothing; reading reports it."""
    text, code = UNSEEN[case]
    file = stage(tmp_path, body("a"), body("b"), text)
    assert validate(file) == set()
    read_usd(file, diagnostics=diagnostics)
    diagnostics.claim(code)
