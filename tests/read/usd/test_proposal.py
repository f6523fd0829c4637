"""The nested-bodies proposal: its example in three forms is one robot, and bodies inside bodies keep what is theirs."""

from __future__ import annotations

from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from kinema.description import Base, JointKind, Robot
from kinema.read.mjcf import read_mjcf
from kinema.read.usd import read_usd
from kit.diagnostics import ClaimedDiagnostics
from kit.usd_stages import open_fresh, placed, prim, write_stage

from .finger import EXACT, PROPOSAL, Segment, flat, mjcf, nested, world_poses

NAMES = [s.name for s in PROPOSAL]
FORMS = ("flat", "nested", "nested with resetXformStack", "mjcf")
CONFIGURATIONS = ({}, {"metacarpophalangeal": 0.3, "rotational": -0.2, "proximal_interphalangeal": 1.1},
                  {"distal_interphalangeal": 0.7, "rotational": 0.4})  # fmt: skip


def read_form(form: str, segments: tuple[Segment, ...], folder: Path, *, fixed: bool = True) -> Robot:
    if form == "mjcf":
        file = folder / "finger.xml"
        file.write_text(mjcf(segments, floating=not fixed))
        described = read_mjcf(file)
    else:
        text = flat(segments, fixed=fixed) if form == "flat" else nested(segments, fixed=fixed, reset="reset" in form)
        described = read_usd(write_stage(folder, text, name=f"{form.replace(' ', '_')}.usda"))
    assert isinstance(described, Robot)
    assert not described.diagnostics.errors()
    return described


def parents(robot: Robot) -> dict[str, str | None]:
    """Link -> the link it hangs on."""
    tree = robot.tree()
    return {**dict.fromkeys(tree.roots), **{edge.child: edge.parent for edge in tree.edges}}


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("fixed", [True, False], ids=["held", "floating"])
def test_the_three_forms_have_one_tree(form: str, fixed: bool, tmp_path: Path) -> None:
    """Palm, base, proximal, middle, distal: each hangs on the one before, by the joint that the proposal names."""
    robot = read_form(form, PROPOSAL, tmp_path, fixed=fixed)
    assert [link.name for link in robot.links] == NAMES
    assert parents(robot) == dict(zip(NAMES, [None, *NAMES], strict=False))
    moving = [j for j in robot.joints if j.kind is JointKind.REVOLUTE]
    assert [(j.name, j.parent, j.child) for j in moving] == [
        (s.joint, before.name, s.name) for before, s in pairwise(PROPOSAL)
    ]
    free = [j for j in robot.joints if j.kind is JointKind.FREE]
    assert bool(free) or (robot.base is Base.FREE and robot.tree().roots == ("palm",)) or fixed
    assert robot.n_dofs == 4 + 6 * len(free)


@pytest.mark.parametrize("form", FORMS)
@pytest.mark.parametrize("segments", [PROPOSAL, EXACT], ids=["proposal", "exact"])
def test_the_three_forms_have_the_same_masses_and_poses(
    form: str, segments: tuple[Segment, ...], tmp_path: Path
) -> None:
    """Masses, centres, inertias and the links' frames in the world, against numbers composed here."""
    robot = read_form(form, segments, tmp_path)
    poses = robot.link_poses()
    for segment, world in zip(segments, world_poses(segments), strict=True):
        link = robot.link(segment.name)
        assert link.inertial is not None
        np.testing.assert_allclose(link.inertial.mass, segment.mass, rtol=1e-12)
        np.testing.assert_allclose(link.inertial.center, segment.center, atol=1e-12)
        np.testing.assert_allclose(link.inertial.inertia, np.diag(segment.inertia), atol=1e-12)
        # a joint's frame on the parent is in single precision, and so is a pose that joints lead to
        tolerance = 1e-9 if segments is EXACT or form == "mjcf" else 2e-7
        assert poses[segment.name].is_close(world, tolerance)
        if link.pose is not None:
            assert link.pose.is_close(world, 1e-9)


@pytest.mark.parametrize("form", FORMS[1:])
def test_the_three_forms_move_alike(form: str, tmp_path: Path) -> None:
    """Joint frames, axes and limits: forward kinematics is the same to 1e-9 at any configuration."""
    reference, robot = read_form("flat", EXACT, tmp_path), read_form(form, EXACT, tmp_path)
    for configuration in CONFIGURATIONS:
        wanted, found = (r.link_poses(configuration) for r in (reference, robot))
        assert wanted.keys() == found.keys()
        for name, pose in wanted.items():
            assert pose.is_close(found[name], 1e-9), name
    for segment in EXACT[1:]:
        a, b = reference.joint(segment.joint), robot.joint(segment.joint)
        np.testing.assert_allclose([b.axes[0].lower, b.axes[0].upper], np.radians(segment.limits), atol=1e-9)
        # MJCF gives the axis as a direction, USD as one of three: compare them on the child
        for joint in (a, b):
            joint_frame = joint.child_pose
            np.testing.assert_allclose(joint_frame.position, 0, atol=1e-9)
            direction = joint_frame.rotation @ joint.axes[0].direction
            np.testing.assert_allclose(direction, np.eye(3)["XYZ".index(segment.axis)], atol=1e-9)


def test_flat_and_nested_are_one_description(tmp_path: Path) -> None:
    """The two USD forms agree on every frame to 1e-9 with the proposal's own numbers, single precision or not."""
    a, b = (read_form(form, PROPOSAL, tmp_path) for form in ("flat", "nested"))
    assert a.root == b.root == "palm"
    for one, other in zip(a.joints, b.joints, strict=True):
        twin = b.joint(one.name)
        assert (one.kind, one.parent, one.child) == (twin.kind, twin.parent, twin.child)
        assert one.parent_pose.is_close(twin.parent_pose, 1e-9)
        assert one.child_pose.is_close(twin.child_pose, 1e-9)
        assert other.name
    for one in a.links:
        twin = b.link(one.name)
        assert one.pose is not None
        assert twin.pose is not None
        assert one.pose.is_close(twin.pose, 1e-9)
    assert [link.nested_in for link in a.links] == [None] * 5
    assert [link.nested_in for link in b.links] == [None, *NAMES[:-1]]


def test_the_proposals_own_relative_paths_lead_nowhere(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Its text has <../../palm> where USD would need <../..>: every joint is an error that says what was meant."""
    world = read_usd(write_stage(tmp_path, nested(EXACT, fixed=False, literal=True)), diagnostics=diagnostics)
    errors = diagnostics.claim_all("usd.joint-target")
    assert len(errors) == 4
    assert "/World/palm/palm, which does not exist" in errors[0].message
    assert "was /World/palm meant?" in errors[0].message
    assert len(world.links) == 5


@pytest.mark.parametrize("form", [nested, flat], ids=["nested", "flat"])
@pytest.mark.parametrize("root_on", ["body", "ancestor", "joint", "nothing"])
def test_the_articulation_root_is_the_top_most_body(
    form, root_on: str, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """Wherever the schema sits, the palm is the root; OpenUSD's parser takes the middle of a flat chain."""
    robot = read_usd(write_stage(tmp_path, form(EXACT, root_on=root_on)), diagnostics=diagnostics)
    assert isinstance(robot, Robot)
    assert parents(robot) == dict(zip(NAMES, [None, *NAMES], strict=False))
    assert robot.tree().edges[0].child == "palm"
    assert not any(edge.reversed for edge in robot.tree().edges)


@pytest.mark.parametrize("form", [nested, flat], ids=["nested", "flat"])
def test_a_floating_articulation_on_an_ancestor_starts_at_the_palm(
    form, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """Without a joint to the world too: the top of the nesting, or the only body that is nobody's child."""
    robot = read_usd(write_stage(tmp_path, form(EXACT, fixed=False, root_on="ancestor")), diagnostics=diagnostics)
    assert isinstance(robot, Robot)
    assert robot.tree().roots == ("palm",)


def test_kinematic_bodies_run_down_from_the_root(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A partly animated articulation: each body says for itself whether it is moved by the user."""
    text = nested(EXACT)
    for name in NAMES[:2]:
        place = text.index("{", text.index(f'def Xform "{name}"')) + 1
        text = f"{text[:place]}\nbool physics:kinematicEnabled = true{text[place:]}"
    robot = read_usd(write_stage(tmp_path, text), diagnostics=diagnostics)
    assert [link.kinematic for link in robot.links] == [True, True, False, False, False]


# -- bodies inside bodies ---------------------------------------------------------------------------------------------

BODY = ["PhysicsRigidBodyAPI", "PhysicsMassAPI"]


def cube(name: str, *lines: str) -> str:
    return prim(f'Cube "{name}"', "double size = 1", *lines, apis=["PhysicsCollisionAPI"])


def three_bodies(middle: str = "", outer: str = "") -> str:
    """A / b / c, each with a cube of 1 m3."""
    c = prim('Xform "c"', placed((0, 0, 2)), cube("cube_c"), apis=BODY)
    b = prim('Xform "b"', placed((0, 0, 2)), middle, cube("cube_b"), c, apis=BODY)
    return prim('Xform "a"', outer, cube("cube_a"), b, apis=BODY)


def test_a_body_inside_another_does_not_weigh_on_it(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Masses end at the next body down, and so does a density: 7 kg, then 1000 kg each."""
    file = write_stage(tmp_path, three_bodies(outer="float physics:density = 7"))
    world = read_usd(file, diagnostics=diagnostics)
    masses = {link.name: link.inertial.mass for link in world.links if link.inertial is not None}
    assert masses == pytest.approx({"a": 7.0, "b": 1000.0, "c": 1000.0})
    assert openusd_masses(file, ["/a", "/a/b", "/a/b/c"]) == pytest.approx([7.0, 1000.0, 1000.0])


def openusd_masses(file: Path, paths: list[str]) -> list[float]:
    from pxr import Gf, UsdPhysics

    def unit_cube(_: object) -> object:
        information = UsdPhysics.RigidBodyAPI.MassInformation()
        information.volume, information.inertia = 1.0, Gf.Matrix3f(1 / 6)
        information.centerOfMass, information.localPos = Gf.Vec3f(0), Gf.Vec3f(0)
        information.localRot = Gf.Quatf(1)
        return information

    stage = open_fresh(file)
    return [UsdPhysics.RigidBodyAPI(stage.GetPrimAtPath(p)).ComputeMassProperties(unit_cube)[0] for p in paths]


@pytest.mark.parametrize("reset", [False, True])
def test_a_nested_body_stands_where_the_stage_shows_it(
    reset: bool, tmp_path: Path, diagnostics: ClaimedDiagnostics
) -> None:
    """In its parent's space, or in the world after resetXformStack; which body it is written in is kept either way."""
    inner = prim('Xform "inner"', placed((1, 0, 0), reset=reset), cube("x"), apis=BODY)
    outer = prim('Xform "outer"', placed((0, 5, 0)), cube("y"), inner, apis=BODY)
    world = read_usd(write_stage(tmp_path, outer), diagnostics=diagnostics)
    link = next(x for x in world.links if x.name == "inner")
    assert link.pose is not None
    np.testing.assert_allclose(link.pose.position, (1, 0 if reset else 5, 0), atol=1e-12)
    assert link.nested_in == "outer"


def test_a_disabled_body_in_between_is_part_of_the_one_above(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Its shapes and their mass go up to the closest enabled body; the bodies below it are nested in that one."""
    text = three_bodies(middle="bool physics:rigidBodyEnabled = false")
    world = read_usd(write_stage(tmp_path, text), diagnostics=diagnostics)
    a, c = world.links
    assert [s.name for s in a.shapes] == ["cube_a", "cube_b"]
    assert c.nested_in == "a"
    assert a.inertial is not None
    assert a.inertial.mass == pytest.approx(2000.0)
    np.testing.assert_allclose(a.inertial.center, (0, 0, 1), atol=1e-12)
    np.testing.assert_allclose(a.shapes[1].pose.position, (0, 0, 2), atol=1e-12)


def test_joints_to_a_disabled_body_hold_the_one_it_is_part_of(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A joint between the two is none any more; one from it to the next body starts at the enabled body above it."""
    text = nested(EXACT)
    place = text.index("{", text.index('def Xform "proximal"')) + 1
    text = f"{text[:place]}\nbool physics:rigidBodyEnabled = false{text[place:]}"
    robot = read_usd(write_stage(tmp_path, text), diagnostics=diagnostics)
    assert "rotational" in diagnostics.claim("usd.joint-to-itself").message
    assert isinstance(robot, Robot)
    assert parents(robot) == {"palm": None, "index_finger_base": "palm", "middle": "index_finger_base",
                              "distal": "middle"}  # fmt: skip
    before = read_form("nested", EXACT, tmp_path).link_poses()
    for name, pose in robot.link_poses().items():
        assert pose.is_close(before[name], 1e-9)
