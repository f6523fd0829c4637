"""A robot that is written to USD and read back is the same robot, in either layout."""

from __future__ import annotations

import math
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings

from kinema.core import Pose, ReadError, Severity, collect
from kinema.description import (
    Approximation,
    Base,
    Box,
    Camera,
    Capsule,
    ConeLimit,
    Constraint,
    ConstraintKind,
    Frame,
    HeightField,
    Inertial,
    Joint,
    JointKind,
    Light,
    Link,
    Mesh,
    Plane,
    Robot,
    Shape,
    Sphere,
    World,
    rotation,
    spherical_axes,
    translation,
)
from kinema.geometry import box
from kinema.read import openusd_validation, read
from kinema.write import write
from kit.assets import all_assets, asset_id
from kit.diagnostics import ClaimedDiagnostics
from kit.robots.parts import random_joint
from kit.robots.random_robots import random_robot
from kit.robots.same import assert_same_motion, colliding_links
from kit.robots.seeds import seeds
from kit.robots.variety import USD

from .usd_same_robot import assert_same_robot

LAYOUTS = ("nested", "flat")


def rewritten(described: Robot | World, folder: Path, layout: str = "nested", suffix: str = "usda") -> Robot | World:
    """Written and read back, without a warning."""
    file = folder / f"robot_{layout}.{suffix}"
    write(described, file, layout=layout)
    result = read(file, policy=collect)
    said = [str(d) for d in result.diagnostics if d.severity is not Severity.NOTE]
    assert not said, said
    return result


def rewritten_robot(robot: Robot, folder: Path, layout: str = "nested", suffix: str = "usda") -> Robot:
    result = rewritten(robot, folder, layout, suffix)
    assert isinstance(result, Robot)
    return result


@settings(max_examples=40)
@given(seed=seeds)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_random_robots_come_back(tmp_path: Path, seed: int, layout: str) -> None:
    """Tree, frames, motion, limits, drives, masses, shapes and colliding pairs, to 1e-9; OpenUSD has no complaint."""
    robot = random_robot(seed, USD)
    assert_same_robot(robot, rewritten_robot(robot, tmp_path, layout))
    assert openusd_validation(tmp_path / f"robot_{layout}.usda") == []


@settings(max_examples=15)
@given(seed=seeds)
def test_flat_to_nested_to_flat_is_the_identity(tmp_path: Path, seed: int) -> None:
    """What is read from a flat stage, from its nested form and from that one's flat form is the same to 1e-9."""
    flat = rewritten_robot(random_robot(seed, USD), tmp_path, "flat")
    nested = rewritten_robot(flat, tmp_path, "nested")
    again = rewritten_robot(nested, tmp_path, "flat")
    assert_same_robot(flat, nested)
    assert_same_robot(flat, again)
    assert all(link.nested_in is None for link in again.links)
    inside = {e.child: e.parent for e in flat.tree().edges}
    assert {link.name: link.nested_in for link in nested.links} == {x.name: inside.get(x.name) for x in flat.links}


@settings(max_examples=10)
@given(seed=seeds)
def test_without_exact_numbers_the_schema_rounds(tmp_path: Path, seed: int) -> None:
    """Without exact numbers motion is right to single precision, and the file has none of them."""
    robot = random_robot(seed, USD)
    file = tmp_path / "plain.usda"
    write(robot, file, exact=False)
    assert "kinema:exact" not in file.read_text()
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    assert_same_motion(robot, back, 2e-5, 3)


@pytest.mark.wide
@pytest.mark.parametrize("path", all_assets("usd/*/*.usda", "usd/*/*.usdc", "usd/**/joints/*.usda"), ids=asset_id)
def test_shared_stages_survive_both_layouts(tmp_path: Path, path: Path) -> None:
    """Real stages: nested and flat forms read to the same robots, and pass OpenUSD's validators without an error."""
    original = read(path, policy=collect)
    for layout in LAYOUTS:
        file = tmp_path / f"{layout}.usdc"
        write(original, file, layout=layout)
        back = read(file, policy=collect)
        assert type(back) is type(original)
        assert_same_described(original, back)
        assert [d for d in openusd_validation(file) if d.severity is Severity.ERROR] == []


@pytest.mark.wide
@pytest.mark.parametrize("path", all_assets("urdf/*/*.urdf", "sdf/*/*.sdf", "mjcf/*/*.xml"), ids=asset_id)
def test_robots_of_other_formats_come_back(tmp_path: Path, path: Path) -> None:
    """Real robots of other formats: same motion, masses and colliding pairs; OpenUSD has no complaint."""
    try:
        original = read(path, policy=collect)
    except ReadError as error:
        pytest.skip(str(error))
    file = tmp_path / "robot.usdc"
    report = write(original, file)
    back = read(file, policy=collect)
    lost = {loss.kind for loss in report.dropped if "mesh" in loss.what or loss.what == "the shape"}
    if not lost:
        assert_same_described(original, back)
    assert back.total_mass == pytest.approx(original.total_mass, rel=1e-9)
    assert openusd_validation(file) == []


def assert_same_described(a: Robot | World, b: Robot | World) -> None:
    """Robot by robot; rules may stand on the world or on a robot."""
    robots_a = a.robots if isinstance(a, World) else [a]
    robots_b = b.robots if isinstance(b, World) else [b]
    assert [r.name for r in robots_b] == [r.name for r in robots_a]
    for one, other in zip(robots_a, robots_b, strict=True):
        assert_same_robot(one, other, collisions=False, shape_names=False)
    assert colliding_links(b) == colliding_links(a)


# -- single kinds -----------------------------------------------------------------------------------------------------


def two_links(joint: Joint, **settings: object) -> Robot:
    links = [solid("a"), solid("b")]
    return Robot(name="pair", links=links, joints=[joint], base=Base.FREE, **settings)  # type: ignore[arg-type]


def solid(name: str) -> Link:
    shape = Shape(name=f"{name} box", geometry=Box(np.array([0.1, 0.2, 0.3])))
    return Link(name=name, inertial=Inertial(1.5, np.zeros(3), np.diag([0.1, 0.2, 0.25])), shapes=[shape])


@pytest.mark.wide
@pytest.mark.parametrize("kind", [k for k in JointKind if k is not JointKind.DISTANCE], ids=lambda k: k.value)
@pytest.mark.parametrize("layout", LAYOUTS)
def test_every_kind_of_joint_comes_back(tmp_path: Path, kind: JointKind, layout: str) -> None:
    """Eight random joints of each kind, with frames and axes in any direction."""
    for seed in range(8):
        rng = np.random.default_rng(seed)
        robot = two_links(random_joint(rng, "joint", kind, "a", "b", USD))
        if kind is JointKind.FREE:
            robot.joints[0].initial = np.array([1.0, 2.0, 3.0, 1.0, 0.0, 0.0, 0.0])
        assert_same_robot(robot, rewritten_robot(robot, tmp_path, layout))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_stacked_joints_add_their_motion(tmp_path: Path, layout: str) -> None:
    """Three hinges between two links, as MJCF has them, stay three hinges that add up."""
    joints = [
        Joint(
            name=f"hinge {i}",
            kind=JointKind.REVOLUTE,
            parent="a",
            child="b",
            parent_pose=Pose.translation([0, 0, 1]) @ Pose.translation([0.1 * i, 0, 0]),
            child_pose=Pose.translation([0.1 * i, 0, 0]),
            axes=[rotation(np.eye(3)[i], lower=-1, upper=1)],
            stacked=i > 0,
        )
        for i in range(3)
    ]
    robot = two_links(joints[0])
    robot.joints = joints
    back = rewritten_robot(robot, tmp_path, layout)
    assert [j.stacked for j in back.joints] == [False, True, True]
    assert_same_robot(robot, back)


def test_stacked_joints_to_the_world(tmp_path: Path) -> None:
    """A base on two slides, which nothing hangs on."""
    slides = [
        Joint(name=f"slide {i}", kind=JointKind.PRISMATIC, parent=None, child="a", axes=[translation(e)], stacked=i > 0)
        for i, e in enumerate(np.eye(3)[:2])
    ]
    robot = Robot(name="r", links=[solid("a")], joints=slides, base=Base.FREE)
    assert_same_robot(robot, rewritten_robot(robot, tmp_path))


def test_a_kinematic_link_fixed_to_the_world_can_be_moved(tmp_path: Path) -> None:
    """What the user moves is held by no joint in the stage (MJCF's mocap bodies)."""
    hold = Joint(name="hold", kind=JointKind.FIXED, parent=None, child="a", implicit=True)
    robot = Robot(name="r", links=[solid("a")], joints=[hold], base=Base.FREE)
    robot.links[0].kinematic = True
    assert_same_robot(robot, rewritten_robot(robot, tmp_path))
    assert "physics:jointEnabled = 0" in (tmp_path / "robot_nested.usda").read_text()


def test_a_base_that_is_left_open_can_be_fixed(tmp_path: Path) -> None:
    """URDF does not say what holds a robot; who writes may."""
    robot = Robot(name="r", links=[solid("a")], base=Base.UNSPECIFIED)
    report = write(robot, tmp_path / "r.usda", base="world")
    assert list(report) == []
    back = read(tmp_path / "r.usda", policy=collect)
    assert isinstance(back, Robot)
    assert back.base is Base.FIXED


def test_numbers_that_are_none_do_not_stop_the_writer(tmp_path: Path) -> None:
    """NaN and infinity are written as they are; reading complains of them."""
    robot = two_links(Joint(name="j", kind=JointKind.REVOLUTE, parent="a", child="b", axes=[rotation([0, 0, 1])]))
    robot.joints[0].axes[0].direction = np.zeros(3)
    robot.joints[0].axes[0].lower = math.nan
    robot.links[1].inertial = Inertial(math.nan, np.full(3, math.inf), np.full((3, 3), math.nan))
    robot.links[1].shapes[0].pose = Pose(np.full(3, math.nan))
    robot.links[0].shapes[0].geometry = Box(np.array([0.0, math.nan, 1.0]))
    for layout in LAYOUTS:
        report = write(robot, tmp_path / "r.usda", layout=layout)
        assert report
        read(tmp_path / "r.usda", policy=collect)


def test_a_ball_joint_limited_as_a_whole(tmp_path: Path) -> None:
    """MuJoCo's limit of the whole rotation is approximated for others, and kept."""
    cone = ConeLimit(angle_y=1.0, angle_z=1.0, total=True)
    robot = two_links(
        Joint(name="ball", kind=JointKind.SPHERICAL, parent="a", child="b", axes=spherical_axes(), cone=cone)
    )
    report = write(robot, tmp_path / "ball.usda")
    assert [loss.what for loss in report.approximated] == ["the limit of its whole rotation"]
    assert_same_robot(robot, rewritten_robot(robot, tmp_path))


@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE, Base.UNSPECIFIED])
def test_the_base_comes_back(tmp_path: Path, base: Base) -> None:
    """A fixed base has a joint in the stage, and none in the description that is read back."""
    robot = Robot(name="one", links=[solid("a")], base=base, pose=Pose.from_rpy([1, 2, 3], [0.1, 0.2, 0.3]))
    back = rewritten_robot(robot, tmp_path)
    assert back.base is base
    assert back.joints == []
    assert back.pose.is_close(robot.pose, 1e-12)
    assert_same_robot(robot, back)


@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_declared_root_that_a_joint_runs_against_comes_back(tmp_path: Path, layout: str, base: Base) -> None:
    """Also where it is the base's own joint to the world that is marked as the articulation's root."""
    hinge = Joint(name="hinge", kind=JointKind.REVOLUTE, parent="b", child="a", axes=[rotation([0, 0, 1])])
    hinge.parent_pose = Pose.from_rpy([1, 2, 3], [0.1, 0.2, 0.3])
    robot = Robot(name="two", links=[solid("a"), solid("b")], joints=[hinge], root="a", base=base)
    back = rewritten_robot(robot, tmp_path, layout)
    assert back.root == "a"
    assert back.tree().roots == ("a",)
    assert_same_robot(robot, back)


@pytest.mark.parametrize("layout", LAYOUTS)
def test_a_world_with_robots_of_the_same_link_names(tmp_path: Path, layout: str) -> None:
    """Two robots whose links share names, a static one with a link that has nothing on it, and scenery."""
    joint = Joint(name="hinge", kind=JointKind.REVOLUTE, parent="a", child="b", axes=[rotation([0, 0, 1])])
    robots = [two_links(joint) for _ in range(2)]
    robots[0].name, robots[1].name = "left", "right"
    robots[1].pose = Pose.translation([0, 2, 0])
    house = Robot(name="house", links=[solid("wall"), Link(name="bare")], static=True, base=Base.FIXED)
    ground = Shape(name="ground", geometry=Plane())
    world = World(
        name="my world", robots=[robots[0], house, robots[1]], shapes=[ground], gravity=np.array([0, 0, -1.6])
    )
    back = rewritten(world, tmp_path, layout)
    assert isinstance(back, World)
    assert back.name == "my world"
    assert [r.static for r in back.robots] == [False, True, False]
    assert_same_described(world, back)
    assert isinstance(back.shapes[0].geometry, Plane)
    assert back.shapes[0].geometry.size is None
    np.testing.assert_allclose(np.array(back.gravity), [0, 0, -1.6])
    first, second = world.forward_kinematics({"left::hinge": 0.5}), back.forward_kinematics({"left::hinge": 0.5})
    for name, pose in first.items():
        np.testing.assert_allclose(second[name], pose, atol=1e-9)


def test_a_world_of_one_robot_stays_a_world(tmp_path: Path) -> None:
    """The stage says that it is a world; nothing else would tell."""
    world = World(name="w", robots=[Robot(name="r", links=[solid("a")], base=Base.FREE)])
    assert isinstance(rewritten(world, tmp_path), World)


def test_shapes_that_usd_does_not_have(tmp_path: Path) -> None:
    """A plane on a body and a height field are written as stand-ins, and read as what they were."""
    heights = np.random.default_rng(0).random((4, 5))
    link = solid("a")
    link.shapes = [
        Shape(name="plane", geometry=Plane((2.0, 3.0)), pose=Pose.from_rpy([0, 0, 1], [0.3, 0, 0]), visual=False),
        Shape(name="terrain", geometry=HeightField(heights=heights, size=(2.0, 3.0), base=0.5)),
    ]
    robot = Robot(name="r", links=[link], base=Base.FREE)
    report = write(robot, tmp_path / "r.usda")
    assert {loss.name for loss in report.approximated} == {"plane", "terrain"}
    back = read(tmp_path / "r.usda", policy=collect)
    assert isinstance(back, Robot)
    assert {d.code for d in back.diagnostics} == {"usd.plane-on-body"}
    assert_same_robot(robot, back)
    plane, terrain = (s.geometry for s in back.links[0].shapes)
    assert isinstance(plane, Plane)
    assert plane.size == pytest.approx((2.0, 3.0))
    assert isinstance(terrain, HeightField)
    np.testing.assert_allclose(terrain.heights, heights, atol=1e-12)


def test_meshes_keep_scale_approximation_and_hull_limit(tmp_path: Path) -> None:
    """A mesh given in place, scaled, with what it asks for as a collider."""
    data = box([1, 1, 1])
    mesh = Mesh(
        vertices=data.vertices,
        faces=data.faces,
        scale=np.array([0.001, 0.002, 0.003]),
        approximation=Approximation.CONVEX_DECOMPOSITION,
        max_hull_vertices=32,
    )
    link = solid("a")
    link.shapes = [Shape(name="mesh", geometry=mesh)]
    robot = Robot(name="r", links=[link], base=Base.FREE)
    back = rewritten_robot(robot, tmp_path)
    assert_same_robot(robot, back)
    geometry = back.links[0].shapes[0].geometry
    assert isinstance(geometry, Mesh)
    assert (geometry.approximation, geometry.max_hull_vertices) == (Approximation.CONVEX_DECOMPOSITION, 32)


def test_constraints_cameras_lights_and_frames(tmp_path: Path) -> None:
    """What stands beside links and joints comes back where it was."""
    joint = Joint(name="hinge", kind=JointKind.REVOLUTE, parent="a", child="b", axes=[rotation([0, 0, 1])])
    robot = two_links(joint)
    place = Pose.from_rpy([0.1, 0.2, 0.3], [0.4, 0.5, 0.6])
    robot.cameras = [Camera(name="eye", link="b", pose=place, vertical_fov=1.1, resolution=(64, 48), clip=(0.5, 8.0))]
    robot.lights = [Light(name="sun", kind="directional", link=None, pose=place, color=(1.0, 0.5, 0.25))]
    robot.frames = [Frame(name="tip", link="b", pose=place), Frame(name="mark", link="a", marker=Capsule(0.1, 0.2))]
    robot.constraints = [
        Constraint(name="pin", kind=ConstraintKind.CONNECT, a="a", b="b", pose_a=place, pose_b=place),
        Constraint(name="glue", kind=ConstraintKind.WELD, a="b", b=None, pose_a=place, pose_b=place),
        Constraint(name="rod", kind=ConstraintKind.DISTANCE, a="a", b="b", distance=0.5, active=False),
    ]
    file = tmp_path / "r.usda"
    write(robot, file)
    back = read(file, policy=collect)
    assert isinstance(back, Robot)
    assert [c.name for c in back.constraints] == ["pin", "glue", "rod"]
    for one, other in zip(robot.constraints, back.constraints, strict=True):
        assert (other.kind, other.a, other.b, other.active) == (one.kind, one.a, one.b, one.active)
        assert other.pose_a.is_close(one.pose_a, 1e-9)
        assert other.pose_b.is_close(one.pose_b, 1e-9)
    camera, light = back.cameras[0], back.lights[0]
    assert (camera.name, camera.link, camera.resolution) == ("eye", "b", (64, 48))
    assert camera.vertical_fov == pytest.approx(1.1, rel=1e-12)
    assert camera.pose.is_close(place, 1e-9)
    assert (light.kind, light.link, light.color) == ("directional", None, (1.0, 0.5, 0.25))
    assert [(f.name, f.link) for f in back.frames] == [("tip", "b"), ("mark", "a")]
    assert back.frames[0].marker is None
    assert isinstance(back.frames[1].marker, Capsule)
    assert back.frames[0].pose.is_close(place, 1e-9)


def test_names_that_are_no_identifiers(tmp_path: Path) -> None:
    """Names with spaces, slashes and emoji become identifiers, are shown as they were, and come back."""
    names = ["arm link", "arm/link", "arm_link", "🤖", "9"]
    robot = Robot(name="🤖 robot", links=[solid(n) for n in names], base=Base.FREE)
    robot.joints = [Joint(name=f"joint {n}", kind=JointKind.FIXED, parent="arm link", child=n) for n in names[1:]]
    assert_same_robot(robot, rewritten_robot(robot, tmp_path))
    text = (tmp_path / "robot_nested.usda").read_text()
    assert 'displayName = "arm link"' in text


def test_edited_numbers_have_the_last_word(tmp_path: Path, diagnostics: ClaimedDiagnostics) -> None:
    """Whoever edits an attribute is believed, not the exact number that was kept beside it."""
    link = Link(name="a", inertial=Inertial(1 / 3, np.zeros(3), np.eye(3)), shapes=[Shape(geometry=Sphere(0.1))])
    file = tmp_path / "r.usda"
    write(Robot(name="r", links=[link], base=Base.FREE), file)
    text = file.read_text()
    assert "kinema:exact:physics:mass" in text
    file.write_text(text.replace("float physics:mass = 0.33333334", "float physics:mass = 2.5"))
    assert read(file, policy=diagnostics.report).total_mass == 2.5
