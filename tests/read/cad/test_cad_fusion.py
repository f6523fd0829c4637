"""From a Fusion design, by way of the add-in and its snapshot, to a robot that stands and moves as the design does."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from kinema.description import Base, JointKind, joint_transform
from kit.cad.addin import assembly_state, exported_robot
from kit.cad.assembly_checks import assert_as_in_design, coordinates, drive, metres
from kit.cad.fake_fusion import ComponentData, FakeDesign, LinkData, box_body
from kit.cad.fake_joints import DIRECTIONS, JointData, X, Z, make_joint, unit
from kit.cad.fake_math import shift, turn
from kit.diagnostics import ClaimedDiagnostics

MOVING = ["revolute", "slider", "cylindrical", "pin_slot", "planar", "ball"]
KINDS = {
    "rigid": JointKind.FIXED,
    "revolute": JointKind.REVOLUTE,
    "slider": JointKind.PRISMATIC,
    "cylindrical": JointKind.CYLINDRICAL,
    "pin_slot": JointKind.SIX_AXIS,
    "planar": JointKind.PLANAR,
    "ball": JointKind.SIX_AXIS,
}
PARKED = {
    "rotation": 0.7,
    "slide": 3.0,
    "primary_slide": -2.0,
    "secondary_slide": 1.5,
    "pitch": 0.4,
    "yaw": -0.3,
    "roll": 0.9,
}
LIMITS = {"rotation": (-1.0, 2.0), "slide": (None, 20.0), "pitch": (-1.0, None), "yaw": (-1.0, 1.0)}

A_POSE = shift([1, 2, 3]) @ turn(unit([1, 2, -1]), 0.8)
B_POSE = shift([-4, 6, 10]) @ turn(unit([-1, 0.5, 2]), 2.1)
JOINT_FRAME = shift([5, -3, 4]) @ turn(unit([0.3, 1, 0.2]), -1.2)


def part(design: FakeDesign, name: str, size: tuple[float, float, float] = (2, 3, 5)) -> ComponentData:
    """A component with one box that lies askew and off its origin."""
    at = shift([0.5, -1.0, 2.0]) @ turn(unit([1, 1, 0.3]), 0.6)
    return design.component(name, box_body(f"{name} body", size, at, density=0.0027))


def two_parts(type: str, *quirks: str, **settings: Any) -> tuple[FakeDesign, JointData]:
    """Part B joined to the grounded part A."""
    design = FakeDesign("robot v1", *quirks)
    a = design.root.add(part(design, "A"), A_POSE, grounded=True)
    b = design.root.add(part(design, "B", (1, 4, 2)), B_POSE)
    return design, make_joint(design.root, "J", type, b, a, JOINT_FRAME, **settings)


# -- one joint of each type -------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kind", ["joint", "as_built"])
@pytest.mark.parametrize("parked", [False, True], ids=["zero", "parked"])
@pytest.mark.parametrize("type", MOVING)
def test_every_joint_type_moves_as_in_the_design(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str, parked: bool, kind: str
) -> None:
    """At the assembly pose and along the joint's motion, both parts are where the design has them."""
    values = {m: PARKED[m] for m in DIRECTIONS[type]} if parked else {}
    limits = {m: LIMITS[m] for m in DIRECTIONS[type] if m in LIMITS}
    design, data = two_parts(type, values=values, limits=limits, kind=kind)
    before = {p: design.pose(p).copy() for p in design.paths()}
    robot = exported_robot(design, tmp_path, diagnostics)
    assert all(np.abs(design.pose(p) - m).max() < 1e-10 for p, m in before.items()), "the check put the joint back"
    assert [j.kind for j in robot.joints] == [KINDS[type]]
    assert robot.joints[0].parent == "A:1"
    assert robot.joints[0].child == "B:1"
    assert robot.root == "A:1"
    assert robot.base is Base.FIXED
    assert_as_in_design(robot, design, assembly_state(robot))
    for step in (0.0, 0.35, -0.6):
        target = {m: step * (7 if "slide" in m else 1) for m in DIRECTIONS[type]}
        drive(design, data, target)
        assert_as_in_design(robot, design, coordinates(robot, "J", target, data))


def test_limits_stay_in_the_coordinates_of_the_design(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Limits are not moved by where the joint is parked, may be one-sided, and are in metres and radians."""
    design, _ = two_parts("cylindrical", values=PARKED | {}, limits=LIMITS, rest={"slide": 5.0})
    joint = exported_robot(design, tmp_path, diagnostics).joints[0]
    assert joint.state is not None
    np.testing.assert_allclose(joint.state, [0.7, 0.03])
    assert [(a.lower, a.upper) for a in joint.axes] == [(-1.0, 2.0), (-math.inf, pytest.approx(0.2))]
    assert joint.attributes["cad:rest"] == {"slide": pytest.approx(0.05)}


def test_a_revolute_joint_without_limits_is_continuous(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """And a ball joint without limits is spherical, with a quaternion for its coordinate."""
    design, _ = two_parts("revolute")
    assert exported_robot(design, tmp_path, diagnostics).joints[0].kind is JointKind.CONTINUOUS
    design, data = two_parts("ball", values={m: PARKED[m] for m in DIRECTIONS["ball"]})
    robot = exported_robot(design, tmp_path, diagnostics)
    assert robot.joints[0].kind is JointKind.SPHERICAL
    assert_as_in_design(robot, design, assembly_state(robot))
    target = {"pitch": 1.1, "yaw": 0.6, "roll": -2.0}
    drive(design, data, target)
    assert_as_in_design(robot, design, coordinates(robot, "J", target, data))


@pytest.mark.parametrize("kind", ["joint", "as_built"])
def test_rigid_joints_are_fixed_joints(tmp_path: Path, diagnostics: ClaimedDiagnostics, kind: str) -> None:
    """Also where the API has no geometry for them, as for rigid as-built joints."""
    design, _ = two_parts("rigid", kind=kind)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [j.kind for j in robot.joints] == [JointKind.FIXED]
    assert len(robot.links) == 2
    assert_as_in_design(robot, design, {})


@pytest.mark.parametrize("type", MOVING)
def test_flipped_offset_and_turned_geometry(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str) -> None:
    """How the user laid the two geometries onto each other changes neither poses nor motion."""
    design, data = two_parts(type, flipped=True, offset=2.5, angle=0.4, values={m: PARKED[m] for m in DIRECTIONS[type]})
    if type == "ball":
        data.offset = 0.0  # a ball joint has no offset
        design, data = two_parts(type, flipped=True, angle=0.4, values={m: PARKED[m] for m in DIRECTIONS[type]})
    robot = exported_robot(design, tmp_path, diagnostics)
    assert_as_in_design(robot, design, assembly_state(robot))
    target = dict.fromkeys(DIRECTIONS[type], 0.2)
    drive(design, data, target)
    assert_as_in_design(robot, design, coordinates(robot, "J", target, data))


@pytest.mark.parametrize("quirk", ["", "old_api"])
def test_joint_origins(tmp_path: Path, diagnostics: ClaimedDiagnostics, quirk: str) -> None:
    """A joint origin has no `.origin`: its frame is its transform, or its geometry's and three offsets."""
    design, data = two_parts("revolute", quirk, origins="12", values={"rotation": 0.7})
    robot = exported_robot(design, tmp_path, diagnostics)
    expected = metres(design.pose(("A:1",)) @ data.frame2)
    found = robot.link("A:1").pose @ robot.joints[0].parent_pose  # type: ignore[operator]
    assert max(found.distance(expected)) < 1e-12
    drive(design, data, {"rotation": -0.4})
    assert_as_in_design(robot, design, coordinates(robot, "J", {"rotation": -0.4}, data))


def test_custom_directions(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """An axis that is not the frame's z; a slot that is not square to its pin becomes two joints that add up."""
    askew = unit([0.5, 0.2, 1.0])
    design, data = two_parts("pin_slot", values={"slide": 2.0, "rotation": 0.3}, directions={"slide": askew})
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [(j.name, j.kind, j.stacked) for j in robot.joints] == [
        ("J_slide", JointKind.PRISMATIC, False),
        ("J_rotation", JointKind.CONTINUOUS, True),
    ]
    assert_as_in_design(robot, design, assembly_state(robot))
    target = {"slide": -3.0, "rotation": 1.4}
    drive(design, data, target)
    assert_as_in_design(robot, design, coordinates(robot, "J", target, data))


def test_the_check_settles_where_the_axis_is(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Where the two geometries are apart across the axis, the measurements tell which of them it goes through."""
    design, data = two_parts("revolute", directions={"rotation": X}, offset=4.0)
    robot = exported_robot(design, tmp_path, diagnostics)
    drive(design, data, {"rotation": 0.9})
    assert_as_in_design(robot, design, coordinates(robot, "J", {"rotation": 0.9}, data))
    diagnostics.items.clear()
    design, _ = two_parts("revolute", directions={"rotation": X}, offset=4.0)
    exported_robot(design, tmp_path, diagnostics, probe=False)
    assert "0.04 m apart" in diagnostics.claim("cad.frames-apart").message


@pytest.mark.parametrize("type", ["pin_slot", "planar"])
def test_as_built_geometry_may_ride_on_the_child(tmp_path: Path, diagnostics: ClaimedDiagnostics, type: str) -> None:
    """A parked as-built joint has one frame, and the measurements tell which part it is on."""
    values = {m: PARKED[m] for m in DIRECTIONS[type]}
    design, data = two_parts(type, "as_built_on_child", kind="as_built", values=values)
    robot = exported_robot(design, tmp_path, diagnostics)
    target = dict.fromkeys(DIRECTIONS[type], 0.5)
    drive(design, data, target)
    assert_as_in_design(robot, design, coordinates(robot, "J", target, data))


@pytest.mark.parametrize("limits", [{}, {"yaw": (-2.0, 2.0)}], ids=["free", "limited"])
def test_the_check_settles_the_order_of_angles(
    tmp_path: Path, diagnostics: ClaimedDiagnostics, limits: dict[str, Any]
) -> None:
    """How a ball joint's angles are combined is not documented: the measurements tell."""
    values = {m: PARKED[m] for m in DIRECTIONS["ball"]}
    design, data = two_parts("ball", values=values, limits=limits, order=("roll", "pitch", "yaw"))
    robot = exported_robot(design, tmp_path, diagnostics)
    assert "cad.order-of-angles" in diagnostics.codes()
    assert_as_in_design(robot, design, assembly_state(robot))
    if limits:
        drive(design, data, {"pitch": 1.0, "yaw": -0.5, "roll": 0.3})
        assert_as_in_design(robot, design, {"J": (0.3, 1.0, -0.5)})


def test_hidden_sub_assemblies(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """What is nested in them is hidden too: it has mass, but no shape."""
    design = FakeDesign()
    box = design.component("box")
    box.add(part(design, "inside"), A_POSE)
    design.root.add(box, B_POSE, visible=False)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert robot.total_mass > 0
    assert robot.links[0].shapes == []
    assert "cad.hidden-body" in diagnostics.codes()


def test_a_wrong_axis_is_found_by_the_check(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Were the API's axes to point the other way, the snapshot's measurements would say so."""
    design, _ = two_parts("revolute", "axis_sign")
    exported_robot(design, tmp_path, diagnostics)
    found = diagnostics.claim("cad.probe-disagrees")
    assert "other way" in found.hint
    assert found.origin.path == "joints[0].probe[0]"


# -- joints that do not move ------------------------------------------------------------------------------------------


def test_inferred_joints_are_fixed(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They come without geometry and motion."""
    design, _ = two_parts("inferred")
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [j.kind for j in robot.joints] == [JointKind.FIXED]
    assert_as_in_design(robot, design, {})
    diagnostics.claim("cad.inferred-joint")


def test_locked_and_ailing_joints(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A locked joint is fixed, and is not driven; what the program complains of is passed on."""
    design, _ = two_parts("revolute", locked=True, message="its geometry is gone")
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [j.kind for j in robot.joints] == [JointKind.FIXED]
    assert design.drives == 0
    diagnostics.claim("cad.locked-joint")
    assert "its geometry is gone" in diagnostics.claim("cad.joint-problem").message


def test_suppressed_joints_are_left_out(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """And the part they held is loose."""
    design, _ = two_parts("revolute", suppressed=True)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert robot.joints == []
    assert "cad.suppressed" in diagnostics.codes()
    diagnostics.claim("cad.loose-link")


def test_a_joint_that_is_held_elsewhere(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """It does not move when it is driven, and the reader says that it was not checked."""
    design, _ = two_parts("revolute", "frozen")
    exported_robot(design, tmp_path, diagnostics)
    diagnostics.claim("cad.probe-stuck")
    design, _ = two_parts("revolute", "stuck")
    exported_robot(design, tmp_path, diagnostics)
    assert "did not move" in diagnostics.claim("cad.exporter-note").message


def test_a_joint_that_cannot_be_driven(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The export goes on, and the snapshot tells of it."""
    design, _ = two_parts("ball", "raises_when_driven")
    exported_robot(design, tmp_path, diagnostics)
    notes = [d.message for d in diagnostics.claim_all("cad.exporter-note")]
    assert any("could not be driven" in n for n in notes)


# -- the root component -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize("type", ["revolute", "slider", "cylindrical", "planar", "ball"])
@pytest.mark.parametrize("quirk", ["", "root_raises"])
@pytest.mark.parametrize("end", ["one", "two"])
def test_joints_to_the_root(tmp_path: Path, diagnostics: ClaimedDiagnostics, end: str, quirk: str, type: str) -> None:
    """The root component is no occurrence: the API gives null, or raises."""
    design = FakeDesign("robot", quirk)
    b = design.root.add(part(design, "B"), B_POSE)
    one, two = (None, b) if end == "one" else (b, None)
    values = {m: PARKED[m] for m in DIRECTIONS[type]}
    data = make_joint(design.root, "J", type, one, two, JOINT_FRAME, values=values)
    robot = exported_robot(design, tmp_path, diagnostics)
    joint = robot.joints[0]
    assert None in (joint.parent, joint.child)
    if end == "two" or type in ("revolute", "slider", "cylindrical"):
        assert (joint.parent, joint.child) == (None, "B:1")
    assert_as_in_design(robot, design, assembly_state(robot))
    target = dict.fromkeys(DIRECTIONS[type], 0.3)
    drive(design, data, target)
    assert_as_in_design(robot, design, coordinates(robot, "J", target, data))


def test_bodies_of_the_root_component(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """They are a link, fixed, and what is joined to the root component hangs on it."""
    design = FakeDesign("cell v3")
    design.root.bodies.append(box_body("floor", (50, 50, 2), shift([0, 0, -1])))
    b = design.root.add(part(design, "B"), B_POSE)
    c = design.root.add(part(design, "C"), A_POSE, grounded=True)
    data = make_joint(design.root, "J", "revolute", b, None, JOINT_FRAME)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [link.name for link in robot.links] == ["cell v3", "B:1", "C:1"]
    assert [(j.name, j.parent, j.child) for j in robot.joints] == [
        ("J", "cell v3", "B:1"),
        ("C:1_ground", "cell v3", "C:1"),
    ]
    assert robot.root == "cell v3"
    assert robot.base is Base.FIXED
    assert robot.link("cell v3").inertial is not None
    drive(design, data, {"rotation": 0.5})
    assert_as_in_design(robot, design, {"J": 0.5})
    assert c == ("C:1",)


def test_y_up_is_turned_upright(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The root frame's y points up in the world; inside the robot's frame nothing changes."""
    design, _ = two_parts("rigid")
    robot = exported_robot(design, tmp_path, diagnostics, up="y")
    np.testing.assert_array_equal(robot.pose.rotation @ (0, 1, 0), (0, 0, 1))
    assert_as_in_design(robot, design, {})


# -- nesting and repetition -------------------------------------------------------------------------------------------


def gripper(design: FakeDesign) -> tuple[ComponentData, JointData]:
    """A sub-assembly: a palm, a finger that slides on it, and a screw that no joint mentions."""
    grip = design.component("gripper")
    palm = grip.add(part(design, "palm"), A_POSE, rides=True)
    finger = grip.add(part(design, "finger", (1, 1, 4)), B_POSE)
    grip.find(palm).component.add(part(design, "screw", (0.5, 0.5, 0.5)), shift([0, 0, 3]), rides=True)
    slide = make_joint(grip, "grip", "slider", finger, palm, JOINT_FRAME, limits={"slide": (0.0, 4.0)})
    return grip, slide


@pytest.mark.parametrize(
    "quirk",
    ["", "proxies_not_lifted", "null_native_geometry", "native_paths", "no_proxies", "old_api"],
)
def test_a_sub_assembly_twice(tmp_path: Path, diagnostics: ClaimedDiagnostics, quirk: str) -> None:
    """The same component at two places is two sets of links and joints, however the API lifts what is nested."""
    design = FakeDesign("robot", quirk)
    arm = design.root.add(part(design, "arm"), A_POSE, grounded=True)
    grip, slide = gripper(design)
    left = design.root.add(grip, shift([20, 0, 5]) @ turn(unit([1, 2, 3]), 1.0))
    right = design.root.add(grip, shift([-20, 3, 5]) @ turn(unit([3, -1, 1]), 2.0))
    wrists = [
        make_joint(design.root, f"wrist{i}", "revolute", g, arm, JOINT_FRAME) for i, g in enumerate((left, right))
    ]
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [link.name for link in robot.links] == [
        "arm:1",
        "gripper:1",
        "gripper:1+finger:1",
        "gripper:2",
        "gripper:2+finger:1",
    ]
    assert robot.link("gripper:1").attributes["cad:occurrences"] == [
        "gripper:1",
        "gripper:1+palm:1",
        "gripper:1+palm:1+screw:1",
    ]
    if quirk == "no_proxies":  # driving the joint in its component would move it at the first place only
        assert len(diagnostics.claim_all("cad.exporter-note")) == 2
    names = [j.name for j in robot.joints]
    assert names == ["wrist0", "wrist1", "gripper:1+grip", "gripper:2+grip"]
    assert_as_in_design(robot, design, {})
    for data, context, motion, value, name in (
        (wrists[0], (), "rotation", 0.8, "wrist0"),
        (slide, right, "slide", 3.0, "gripper:2+grip"),
        (slide, left, "slide", 1.0, "gripper:1+grip"),
    ):
        drive(design, data, {motion: value}, context)
        moved = {"wrist0": 0.8} | ({"gripper:2+grip": 0.03} if name != "wrist0" else {})
        moved |= {"gripper:1+grip": 0.01} if name == "gripper:1+grip" else {}
        assert_as_in_design(robot, design, moved)


def test_joints_across_levels(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A joint of the root component between parts that are nested: the parts are links, what holds them is not."""
    design = FakeDesign()
    grip, slide = gripper(design)
    grip.find(("palm:1",)).rides = False
    held = design.root.add(grip, B_POSE)
    base = design.component("base assembly")
    foot = base.add(part(design, "foot"), A_POSE, grounded=True)
    stand = design.root.add(base, shift([3, 3, 3]))
    wrist = make_joint(design.root, "wrist", "ball", (*held, "palm:1"), (*stand, *foot), JOINT_FRAME)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [link.name for link in robot.links] == ["palm:1", "finger:1", "foot:1"]
    assert_as_in_design(robot, design, {})
    drive(design, wrist, {"pitch": 0.3, "yaw": 1.0, "roll": 0.2})
    drive(design, slide, {"slide": 2.0}, held)
    values = coordinates(robot, "wrist", {"pitch": 0.3, "yaw": 1.0, "roll": 0.2}, wrist)
    assert_as_in_design(robot, design, values | {"grip": 0.02})


def test_a_joint_inside_a_sub_assembly_to_that_sub_assembly(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Null is then not the root component, but the sub-assembly itself."""
    design = FakeDesign()
    box = part(design, "box")
    lid = box.add(part(design, "lid"), B_POSE)
    hinge = make_joint(box, "hinge", "revolute", lid, None, JOINT_FRAME)
    design.root.add(box, A_POSE)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [(j.parent, j.child) for j in robot.joints] == [("box:1", "lid:1")]
    drive(design, hinge, {"rotation": 0.6}, ("box:1",))
    assert_as_in_design(robot, design, {"hinge": 0.6})


def test_a_pinned_part_inside_a_moving_one(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Each is held already, by the ground and by a joint: the nesting does not hold them together."""
    design = FakeDesign()
    base = design.root.add(part(design, "base"), A_POSE, grounded=True)
    arm = part(design, "arm")
    arm.add(part(design, "post"), A_POSE, grounded=True)
    held = design.root.add(arm, B_POSE)
    data = make_joint(design.root, "J", "revolute", held, base, JOINT_FRAME)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [link.name for link in robot.links] == ["base:1", "arm:1", "post:1"]
    drive(design, data, {"rotation": 0.5})
    assert_as_in_design(robot, design, {"J": 0.5})


def test_parts_that_nothing_holds(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A part inside a sub-assembly goes with the jointed part beside it; one at the top stays by itself."""
    design = FakeDesign()
    base = design.root.add(part(design, "base"), A_POSE, grounded=True)
    hand = design.component("hand")
    palm = hand.add(part(design, "palm"), A_POSE)
    hand.add(part(design, "cover"), B_POSE)
    held = design.root.add(hand, B_POSE)
    make_joint(design.root, "wrist", "revolute", (*held, *palm), base, JOINT_FRAME)
    design.root.add(part(design, "coin"), B_POSE)
    table = design.component("table")
    for i in range(3):
        table.add(part(design, f"leg{i}"), shift([i, 0, 0]))
    design.root.add(table, A_POSE)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [link.name for link in robot.links] == ["base:1", "palm:1", "coin:1", "table:1"]
    assert robot.link("palm:1").attributes["cad:occurrences"] == ["hand:1+palm:1", "hand:1+cover:1"]
    assert len(robot.link("table:1").attributes["cad:occurrences"]) == 4
    assert '"cover:1"' in diagnostics.claim("cad.loose-part").message
    assert len(diagnostics.claim_all("cad.loose-link")) == 2


# -- rigid groups, loops, ground, motion links ------------------------------------------------------------------------


def test_rigid_groups_are_one_link(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """With the sum of all masses about the common centre; members keep their places as frames."""
    design = FakeDesign()
    a = design.root.add(part(design, "A"), A_POSE, grounded=True)
    b = design.root.add(part(design, "B"), B_POSE)
    c = design.root.add(part(design, "C", (4, 4, 1)), shift([9, 9, 9]) @ turn(X, 1.0))
    design.root.group("pair", b, c)
    design.root.group("off", a, b, suppressed=True)
    data = make_joint(design.root, "J", "revolute", c, a, JOINT_FRAME)
    make_joint(design.root, "inner", "rigid", c, b, JOINT_FRAME)
    make_joint(design.root, "held", "slider", b, c, JOINT_FRAME)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [d.severity.value for d in diagnostics.claim_all("cad.joint-inside-link")] == ["note", "warning"]
    assert [link.name for link in robot.links] == ["A:1", "B:1"]
    assert [j.name for j in robot.joints] == ["J"]
    assert [(f.name, f.link) for f in robot.frames] == [("C:1", "B:1")]
    drive(design, data, {"rotation": 1.0})
    assert_as_in_design(robot, design, {"J": 1.0})
    inertial = robot.link("B:1").inertial
    assert inertial is not None
    parts = [design.rootComponent.allOccurrences.item(i).getPhysicalProperties() for i in (1, 2)]
    assert inertial.mass == pytest.approx(sum(p.mass for p in parts))


def test_a_loop_stays_a_loop(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A four-bar linkage: four joints, one of them outside the tree, all closed at the assembly pose."""
    design = FakeDesign()
    poses = [np.eye(4), shift([0, 10, 0]) @ turn(Z, 0.3), shift([10, 10, 0]) @ turn(X, 0.2), shift([10, 0, 0])]
    bars = [design.root.add(part(design, f"bar{i}"), p, grounded=i == 0) for i, p in enumerate(poses)]
    for i in range(4):
        value = {"rotation": 0.1 * i}
        make_joint(
            design.root, f"j{i}", "revolute", bars[(i + 1) % 4], bars[i], poses[i] @ shift([1, 0, 0]), values=value
        )
    robot = exported_robot(design, tmp_path, diagnostics)
    assert len(robot.joints) == 4
    assert len(robot.tree().loops) == 1
    assert_as_in_design(robot, design, assembly_state(robot))
    poses_now = robot.link_poses(assembly_state(robot))
    for joint in robot.joints:
        assert joint.parent is not None
        assert joint.child is not None
        assert joint.state is not None
        closed = poses_now[joint.parent] @ joint.parent_pose @ joint_transform(joint, joint.state)
        assert max(closed.distance(poses_now[joint.child] @ joint.child_pose)) < 1e-12


def test_several_grounded_parts_are_fixed_to_the_base(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """By joints of the reader's own, since a joint between them must not move either."""
    design = FakeDesign()
    a = design.root.add(part(design, "A"), A_POSE, grounded=True)
    b = design.root.add(part(design, "B"), B_POSE, ground_to_parent=True)
    make_joint(design.root, "J", "revolute", b, a, JOINT_FRAME)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert [(j.name, j.parent, j.implicit) for j in robot.joints] == [
        ("J", "A:1", False),
        ("A:1_ground", None, True),
        ("B:1_ground", None, True),
    ]
    assert_as_in_design(robot, design, {})


@pytest.mark.parametrize("reversed", [False, True])
def test_motion_links_become_mimics(tmp_path: Path, diagnostics: ClaimedDiagnostics, reversed: bool) -> None:
    """Through where both joints are parked; a rack that follows a pinion is in metres for radians."""
    design = FakeDesign()
    a = design.root.add(part(design, "A"), A_POSE, grounded=True)
    b = design.root.add(part(design, "B"), B_POSE)
    c = design.root.add(part(design, "C"), shift([7, 7, 7]))
    pinion = make_joint(design.root, "pinion", "revolute", b, a, JOINT_FRAME, values={"rotation": 0.5})
    rack = make_joint(design.root, "rack", "slider", c, a, JOINT_FRAME, values={"slide": 2.0})
    design.root.links.append(LinkData("gear", pinion, 10, 2 * math.pi, rack, 11, 12.0, reversed))
    robot = exported_robot(design, tmp_path, diagnostics)
    mimic = robot.joint("rack").axes[0].mimic
    assert mimic is not None
    assert mimic.joint == "pinion"
    assert mimic.multiplier == pytest.approx((-1 if reversed else 1) * 0.12 / (2 * math.pi))
    drive(design, pinion, {"rotation": 1.3})
    assert_as_in_design(robot, design, {"pinion": 1.3})


def test_a_cylindrical_joint_linked_to_itself_is_a_screw(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Its slide follows its rotation; the limits of the slide bound the rotation."""
    values = {"rotation": 0.5, "slide": 2.0}
    design, data = two_parts("cylindrical", values=values, limits={"slide": (1.0, None), "rotation": (-50.0, 50.0)})
    design.root.links.append(LinkData("thread", data, 3, 2 * math.pi, None, 4, 0.5))
    robot = exported_robot(design, tmp_path, diagnostics, probe=False)
    joint = robot.joints[0]
    assert joint.kind is JointKind.SCREW
    assert joint.pitch == pytest.approx(0.005)
    assert joint.axes[0].lower == pytest.approx(0.5 - 2 * 2 * math.pi)
    assert joint.axes[0].upper == 50.0
    assert_as_in_design(robot, design, assembly_state(robot))
    design.drive(data, (), "rotation", 4.0)
    assert_as_in_design(robot, design, {"J": 4.0})


def test_a_planar_joint_linked_to_itself_is_a_chain(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A coordinate can follow only another joint's: each motion is then a joint of its own."""
    design, data = two_parts("planar", values={"primary_slide": 1.0, "secondary_slide": 2.0, "rotation": 0.3})
    design.root.links.append(LinkData("cam", data, 7, 1.0, None, 8, 3.0))
    robot = exported_robot(design, tmp_path, diagnostics, probe=False)
    assert [j.name for j in robot.joints] == ["J_primary_slide", "J_secondary_slide", "J_rotation"]
    assert_as_in_design(robot, design, assembly_state(robot))
    design.drive(data, (), "rotation", 1.1)
    assert_as_in_design(robot, design, {"J_rotation": 1.1, "J_secondary_slide": 0.02})


def test_versions_without_motion_links(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Fusion before November 2025 does not tell of them."""
    design, _ = two_parts("revolute", "old_api")
    assert exported_robot(design, tmp_path, diagnostics).joints[0].axes[0].mimic is None


# -- mass and shapes --------------------------------------------------------------------------------------------------


def test_masses_and_inertias(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Each link has the mass, centre and inertia of its solids, in its own frame, metres and kilograms."""
    design, _ = two_parts("rigid")
    robot = exported_robot(design, tmp_path, diagnostics)
    for link, name in ((robot.link("A:1"), "A"), (robot.link("B:1"), "B")):
        component = design.root.find((f"{name}:1",)).component
        exact = component.bodies[0].mass()
        assert link.inertial is not None
        assert link.inertial.mass == pytest.approx(exact.mass, rel=1e-12)
        np.testing.assert_allclose(link.inertial.center, exact.center / 100, atol=1e-12)
        np.testing.assert_allclose(link.inertial.inertia, exact.inertia / 1e4, atol=1e-9 * exact.inertia.max() / 1e4)


def test_products_of_inertia_of_the_other_sign_are_found(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The principal moments do not fit, and the hint says why."""
    design, _ = two_parts("rigid", "product_sign")
    exported_robot(design, tmp_path, diagnostics)
    assert all("opposite sign" in d.hint for d in diagnostics.claim_all("cad.principal-moments"))
    diagnostics.claim_all("cad.mass-disagrees")


def test_a_sub_assembly_does_not_count_twice(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """The API's mass of an occurrence holds that of the occurrences nested in it."""
    design = FakeDesign()
    outer = part(design, "outer")
    outer.add(part(design, "inner"), B_POSE, rides=True)
    design.root.add(outer, A_POSE, grounded=True)
    robot = exported_robot(design, tmp_path, diagnostics)
    assert len(robot.links) == 1
    assert robot.total_mass == pytest.approx(2 * outer.bodies[0].mass().mass)


def test_meshes_are_where_the_solids_are(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """In metres, in the world, for repeated components and members of rigid groups too; with their colours."""
    design = FakeDesign()
    same = part(design, "same")
    a = design.root.add(same, A_POSE, grounded=True)
    b = design.root.add(same, B_POSE)
    design.root.group("pair", a, b)
    same.bodies.append(box_body("hidden", (9, 9, 9), np.eye(4), visible=False))
    same.bodies.append(box_body("textured", (1, 1, 1), shift([5, 0, 0]), color=None))
    robot = exported_robot(design, tmp_path, diagnostics)
    meshes = robot.posed_meshes({}, kind="visual")
    assert [m.shape for m in meshes] == ["same body", "textured"] * 2
    expected = [(path, body) for path in (a, b) for body in (same.bodies[0], same.bodies[2])]
    for mesh, (path, body) in zip(meshes, expected, strict=True):
        m = design.pose(path)
        wanted = (body.mesh.vertices @ m[:3, :3].T + m[:3, 3]) / 100
        for vertex in wanted:
            assert np.abs(mesh.vertices - vertex).max(axis=1).min() < 1e-6
    colors = [s.material.color for s in robot.links[0].shapes if s.material is not None]
    assert colors == [(200 / 255, 100 / 255, 50 / 255, 1.0), None] * 2
    assert len(list((tmp_path / "robot_v1" / "meshes").iterdir())) == 3


def test_a_body_without_mass_is_reported(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """A surface has none."""
    design, _ = two_parts("rigid")
    design.root.find(("B:1",)).component.bodies.append(box_body("skin", (1, 1, 1), np.eye(4), solid=False))
    exported_robot(design, tmp_path, diagnostics)
    assert diagnostics.unclaimed() == [], "the occurrence has a mass, whatever of its bodies has none"
