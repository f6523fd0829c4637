"""How bad a finding is depends on what it does to the robot, and on what its format allows."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.check import check
from kinema.check.hulls import FastWindingNumber
from kinema.core import Pose, Severity
from kinema.description import (
    Approximation,
    Base,
    Drive,
    Inertial,
    Joint,
    JointKind,
    Keyframe,
    Link,
    Mesh,
    Plane,
    Robot,
    Shape,
    World,
    free_axes,
)
from kinema.geometry import Appearance, MeshData, box, merge_meshes
from kinema.geometry.texture_projection import subdivide_faces

from .robots_to_check import (
    arm,
    box_link,
    box_mesh_data,
    fixed,
    hinge,
    mesh_of,
    placed,
    with_axis,
    with_inertial,
    with_mesh,
)


def severities(described: Robot | World, code: str) -> list[Severity]:
    """The severity of each finding with a code."""
    return [d.severity for d in check(described) if d.code == code]


ERROR, WARNING, NOTE = [Severity.ERROR], [Severity.WARNING], [Severity.NOTE]


# -- graph -------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("format", "expected"),
    [("urdf", ERROR), ("cad", WARNING), ("", WARNING), ("sdf", NOTE), ("mjcf", NOTE), ("usd", NOTE)],
)
def test_several_roots_are_as_bad_as_the_format_finds_them(format: str, expected: list[Severity]) -> None:
    """ROS refuses a URDF with two roots; other formats have free bodies."""
    robot = arm(format=format)
    robot.links.append(box_link("apart", center=(1, 0, 0)))
    assert severities(robot, "graph.several-roots") == expected


def test_static_scenery_may_be_in_parts() -> None:
    """What never moves needs no joints."""
    robot = Robot(name="walls", static=True, links=[box_link("a"), box_link("b", center=(1, 0, 0))])
    assert check(robot) == []


def test_a_circle_of_joints_in_a_urdf_is_an_error() -> None:
    """Where each link has one parent and there is no root, nothing else would say it."""
    robot = Robot(name="ring", format="urdf", links=[box_link(n, center=(i, 0, 0)) for i, n in enumerate("abc")])
    robot.joints = [hinge(f"j{p}{c}", p, c, (0, 0, 0)) for p, c in ("ab", "bc", "ca")]
    assert severities(robot, "graph.loop") == ERROR
    robot.format = "sdf"
    assert severities(robot, "graph.loop") == NOTE


# -- mass --------------------------------------------------------------------------------------------------------------


def chain_with_ghost(ghost: Inertial | None, armature: float = 0.0) -> Robot:
    """A massless link between two hinges, as in a ball joint made of hinges."""
    robot = arm()
    robot.links.append(Link(name="ghost", inertial=ghost))
    robot.joints.append(hinge("extra", "base", "ghost", armature=armature))
    robot.joint("shoulder").parent = "ghost"
    robot.joint("shoulder").parent_pose = Pose()
    return robot


def test_a_massless_link_between_joints_is_milder_than_a_massless_end() -> None:
    """With mass beyond it the mass matrix is regular, though some simulators refuse it; zero on purpose is wrong."""
    assert severities(chain_with_ghost(None), "inertia.no-mass") == WARNING
    assert severities(chain_with_ghost(None, armature=0.1), "inertia.no-mass") == NOTE
    assert severities(chain_with_ghost(Inertial(0.0, np.zeros(3), np.zeros((3, 3)))), "inertia.no-mass") == ERROR


def test_what_does_not_move_needs_no_mass() -> None:
    """Bases, kinematic links and frames fixed to massive links may be massless; a free base may not."""
    fixed_base = arm()
    fixed_base.link("base").inertial = None
    assert check(fixed_base) == []
    driven = arm()
    driven.link("fore").inertial = None
    driven.link("fore").kinematic = True
    assert severities(driven, "inertia.no-mass") == []
    free = Robot(name="drone", base=Base.FREE, links=[Link(name="ghost"), box_link("arm")])
    free.joints = [hinge("tilt", "ghost", "arm", (0, 0, 0.05))]
    free.links[0].inertial = Inertial(0.0, np.zeros(3), np.zeros((3, 3)))
    assert severities(free, "inertia.no-mass") == ERROR


def test_an_impossible_inertia_is_milder_by_rounding_or_where_it_does_no_harm() -> None:
    """One percent is rounding; what stands still, or is fixed to something heavy, does no harm."""
    impossible = (1e-3, 1e-3, 2.5e-3)
    assert severities(with_inertial(inertia=impossible), "inertia.triangle") == ERROR
    assert severities(with_inertial(inertia=(1e-3, 1e-3, 2.01e-3)), "inertia.triangle") == WARNING
    assert severities(with_inertial(inertia=(1e-3, 1e-3, 2e-3 + 1e-12)), "inertia.triangle") == []
    on_base = arm()
    on_base.base = Base.FIXED
    own = on_base.link("base").inertial
    assert own is not None
    on_base.link("base").inertial = Inertial(own.mass, own.center, np.diag([0.01, 0.01, 0.03]))
    assert severities(on_base, "inertia.triangle") == WARNING
    fused = arm()
    fused.link("tool").inertial = Inertial(0.001, np.zeros(3), np.diag([1e-7, 1e-7, 1e-6]))
    assert severities(fused, "inertia.triangle") == WARNING


def test_an_inertia_of_zero_is_milder_where_something_fixed_brings_some() -> None:
    """A point mass on a flange is common."""
    robot = arm()
    robot.link("tool").inertial = Inertial(0.1, np.zeros(3), np.zeros((3, 3)))
    assert severities(robot, "inertia.zero") == WARNING


def test_the_inertia_that_sdformat_assumes_is_a_note() -> None:
    """A link without <inertial> has 1 kg and 1 kg m2 there."""
    robot = with_inertial(mass=1.0, inertia=(1, 1, 1))
    assert severities(robot, "inertia.placeholder") == WARNING
    robot.format = "sdf"
    assert severities(robot, "inertia.placeholder") == NOTE


# -- limits ------------------------------------------------------------------------------------------------------------


def test_a_huge_limit_is_a_way_of_writing_none() -> None:
    """1e16 is no mistake of units."""
    assert severities(with_axis(lower=-1e16, upper=1e16), "limits.absurd") == NOTE


def test_urdf_demands_limits() -> None:
    """Elsewhere a hinge without limits is common."""
    robot = with_axis(lower=-np.inf, upper=np.inf)
    assert severities(robot, "limits.missing") == []
    robot.format = "urdf"
    assert severities(robot, "limits.missing") == WARNING


def test_a_drive_without_gains_is_worse_with_a_target() -> None:
    """Without one it may be meant for force control."""
    code = "actuation.drive-without-gains"
    assert severities(with_axis(drive=Drive()), code) == NOTE
    assert severities(with_axis(drive=Drive(target_position=0.5)), code) == WARNING


# -- meshes ------------------------------------------------------------------------------------------------------------


def test_a_missing_mesh_is_an_error_only_where_it_collides() -> None:
    """What cannot be seen can still be simulated."""
    assert severities(with_mesh(Mesh(uri="a.stl")), "meshes.missing") == ERROR
    assert severities(with_mesh(Mesh(uri="a.stl"), collision=False), "meshes.missing") == WARNING


def test_an_open_mesh_is_a_warning_where_its_volume_is_needed() -> None:
    """An inertia computed from it, or a signed distance field, would be wrong."""
    data = box_mesh_data()
    torn = MeshData(data.vertices, data.faces[1:])
    robot = with_mesh(mesh_of(torn))
    assert severities(robot, "meshes.open") == NOTE
    robot.link("upper").inertial_is_computed = True
    assert severities(robot, "meshes.open") == WARNING
    assert severities(with_mesh(mesh_of(torn, approximation=Approximation.SDF)), "meshes.open") == WARNING


# -- frames ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("gap", "expected"), [(1e-7, []), (1e-5, NOTE), (5e-4, WARNING), (0.01, ERROR)])
def test_frames_that_disagree_are_as_bad_as_the_gap(gap: float, expected: list[Severity]) -> None:
    """From rounding to a robot that falls apart."""
    robot = placed(arm())
    tool = robot.link("tool")
    assert tool.pose is not None
    tool.pose = tool.pose @ Pose.translation((gap, 0, 0))
    assert severities(robot, "frames.disagree") == expected


def test_a_joint_may_stand_anywhere_along_its_freedom() -> None:
    """A free joint, a hinge at an angle and a slider at a length contradict nothing."""
    robot = arm()
    poses = robot.link_poses({"shoulder": 1.2, "elbow": 0.07})
    for name, pose in poses.items():
        robot.link(name).pose = Pose.from_rpy((1, 2, 3), (0.3, 0.2, 0.1)) @ pose
    robot.joints.append(Joint(name="loose", kind=JointKind.FREE, parent=None, child="base", axes=free_axes()))
    assert severities(robot, "frames.disagree") == []


# -- overlaps ----------------------------------------------------------------------------------------------------------


def nested(outer: Mesh, format: str = "") -> Robot:
    """A small cube in the middle of a mesh, two joints apart."""
    links = [
        Link(name="outer", shapes=[Shape(geometry=outer)], inertial=box_link("x", (0.5, 0.5, 0.5), (0, 0, 0)).inertial),
        box_link("between", (0.02, 0.02, 0.02), (0, 0, 2)),
        box_link("inner", (0.05, 0.05, 0.05), (0, 0, 0)),
    ]
    joints = [hinge("a", "outer", "between", (0, 0, 0)), hinge("b", "between", "inner", (0, 0, 0))]
    return Robot(name="nest", format=format, links=links, joints=joints)


def hollow_box() -> MeshData:
    """Four walls around nothing."""
    walls = [((0.6, 0.1, 0.6), (0, 0.25, 0)), ((0.6, 0.1, 0.6), (0, -0.25, 0)), ((0.1, 0.4, 0.6), (0.25, 0, 0))]
    parts = [MeshData(box(size).vertices + np.array(at), box(size).faces) for size, at in walls]
    return merge_meshes(parts)


def test_hulls_that_overlap_around_a_hollow_are_a_note() -> None:
    """The cube touches nothing, but many simulators collide convex hulls."""
    assert severities(nested(mesh_of(hollow_box())), "overlap.at-rest") == NOTE
    assert severities(nested(mesh_of(box((0.6, 0.6, 0.6)))), "overlap.at-rest") == WARNING
    asked = mesh_of(hollow_box(), approximation=Approximation.CONVEX_HULL)
    assert severities(nested(asked), "overlap.at-rest") == WARNING
    assert severities(nested(mesh_of(hollow_box()), format="mjcf"), "overlap.at-rest") == WARNING


def test_fine_meshes_are_not_looked_at_point_by_point(monkeypatch: pytest.MonkeyPatch) -> None:
    """However many triangles two meshes have whose hulls overlap, few points of them are looked at in full."""
    asked: list[int] = []
    evaluate = FastWindingNumber.evaluate
    monkeypatch.setattr(FastWindingNumber, "evaluate", lambda self, point: asked.append(1) or evaluate(self, point))
    mesh = hollow_box()
    for _ in range(3):
        mesh = subdivide_faces(mesh, Appearance(), np.full(mesh.n_faces, True))[0]
    robot = nested(mesh_of(mesh))
    robot.links[2].shapes = [Shape(geometry=mesh_of(MeshData(0.3 * mesh.vertices, mesh.faces)))]
    assert severities(robot, "overlap.at-rest") == NOTE
    assert mesh.n_vertices > 1000
    assert 0 < len(asked) <= 400


def test_a_mesh_in_a_wall_is_a_warning() -> None:
    """Hollow as it is, the cube is inside its wall."""
    robot = nested(mesh_of(hollow_box()))
    robot.joint("b").parent_pose = Pose.translation((0.25, 0, 0))
    assert severities(robot, "overlap.at-rest") == WARNING


def test_a_robot_below_the_floor_is_a_note_where_it_starts_elsewhere() -> None:
    """A keyframe may be where it stands."""
    robot = arm()
    robot.base = Base.FREE
    robot.pose = Pose.translation((0, 0, -0.01))
    world = World(name="room", robots=[robot], shapes=[Shape(name="floor", geometry=Plane())])
    assert severities(world, "overlap.at-rest") == WARNING
    world.keyframes = [Keyframe(name="home", positions={"elbow": np.zeros(1)})]
    assert severities(world, "overlap.at-rest") == NOTE
    robot.pose = Pose.translation((0, 0, 0.001))
    assert severities(world, "overlap.at-rest") == []


def test_neighbours_and_rigid_groups_do_not_overlap() -> None:
    """What is fixed to a link is part of it."""
    robot = arm()
    robot.links.append(box_link("bracket", (0.1, 0.1, 0.1), (0, 0, 0)))
    robot.joints.append(fixed("screws", "upper", "bracket", (0, 0, 0)))
    assert severities(robot, "overlap.at-rest") == []
