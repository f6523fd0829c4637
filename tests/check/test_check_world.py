"""Checking worlds, and what a diagnostic carries."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kinema.check import RULES, check, hulls as solids_module
from kinema.core import Origin, Pose, Severity
from kinema.description import Actuator, Box, Constraint, ConstraintKind, Mesh, Robot, Shape, Transmission, World

from .robots_to_check import arm, box_link, codes, with_axis


def two_arms(distance: float = 2.0) -> World:
    """Two clean robots and a floor."""
    second = arm("second")
    second.pose = Pose.translation((distance, 0, 0))
    floor = Shape(name="floor", geometry=Box(np.array([200.0, 200.0, 0.1])), pose=Pose.translation((0, 0, -0.06)))
    return World(name="lab", robots=[arm("first"), second], shapes=[floor])


def test_a_clean_world_has_no_findings() -> None:
    """Scenery may be as large as it likes."""
    assert check(two_arms()) == []


def test_an_empty_world_is_a_warning() -> None:
    """There is nothing in it to be wrong."""
    assert [(d.code, d.severity) for d in check(World(name="void"))] == [("graph.empty", Severity.WARNING)]


def test_messages_name_the_robot_where_there_are_several() -> None:
    """Two robots may have links of one name."""
    world = two_arms()
    world.robots[1].joint("shoulder").axes[0].upper = -2.0
    (found,) = check(world)
    assert found.code == "limits.reversed"
    assert found.message.startswith('robot "second": joint "shoulder"')
    assert not check(with_axis(upper=-2.0))[0].message.startswith("robot")


def test_robots_inside_each_other_are_found_once() -> None:
    """Overlaps are looked for in the whole world, not in each robot."""
    (found,) = check(two_arms(distance=0.1))
    assert found.code == "overlap.at-rest"
    assert 'link "base" of robot "first" and link "base" of robot "second" are about 100 mm inside' in found.message


def test_worlds_may_refer_to_the_parts_of_robots_by_scoped_names() -> None:
    """An actuator of the world finds a joint of a robot, by its own or by its scoped name."""
    world = two_arms()
    world.actuators = [
        Actuator(name="a", transmission=Transmission.JOINT, target="second::elbow"),
        Actuator(name="b", transmission=Transmission.JOINT, target="elbow"),
    ]
    assert check(world) == []
    world.actuators[0].target = "third::elbow"
    assert codes(world) == {"references.actuator"}


def test_a_constraint_between_robots_is_measured() -> None:
    """Links are found by scoped names, and the robots' poses count."""
    world = two_arms(distance=1.5)
    tie = Constraint(name="tie", kind=ConstraintKind.DISTANCE, a="first::fore", b="second::fore", distance=1.5)
    world.constraints = [tie]
    assert check(world) == []
    tie.distance = 1.0
    assert codes(world) == {"frames.open-constraint"}


def test_a_finding_has_the_place_of_its_element_or_of_the_file() -> None:
    """Elements made without a place inherit the file."""
    robot = with_axis(upper=-2.0)
    robot.source = "arm.urdf"
    assert check(robot)[0].origin == Origin(file="arm.urdf")
    robot.joint("shoulder").origin = Origin("arm.urdf", 12)
    assert check(robot)[0].origin == Origin("arm.urdf", 12)


def test_a_mesh_is_loaded_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """However many shapes and robots use it."""
    file = tmp_path / "broken.stl"
    file.write_bytes(b"not a mesh")
    loads: list[str] = []
    original = solids_module.mesh_data
    monkeypatch.setattr(solids_module, "mesh_data", lambda mesh: (loads.append(mesh.path), original(mesh))[1])
    world = two_arms()
    for robot in world.robots:
        for link in robot.links:
            link.shapes.append(Shape(geometry=Mesh(path=str(file), uri="broken.stl"), collision=False))
    found = [d for d in check(world) if d.code == "meshes.unreadable"]
    assert loads == [str(file)]
    assert len(found) == 2  # one for each robot
    assert "and 3 other shapes" in found[0].message


def test_a_failing_rule_is_reported_and_the_others_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    """A defect of ours is not hidden, and hides nothing."""
    robot = with_axis(upper=-2.0)
    monkeypatch.setattr(type(robot.links[0]), "collisions", property(lambda _: 1 / 0))
    found = codes(robot)
    assert "check.failed" in found
    assert "limits.reversed" in found


def test_malformed_arrays_stop_the_other_rules() -> None:
    """Nothing can be computed from them, so one message says it all."""
    robot = with_axis(upper=-2.0)
    robot.link("base").shapes[0].pose = Pose(np.zeros(2), np.zeros((3, 3)))
    assert codes(robot) == {"structure.array"}


def test_the_package_is_the_verb() -> None:
    """`km.check(robot)` and `from kinema.check import check` are the same."""
    assert km.check(with_axis(upper=-2.0)) == check(with_axis(upper=-2.0)) != []  # type: ignore[operator]
    assert [r.code for r in RULES[:2]] == ["structure.array", "numbers.nan"]


def test_importing_the_rules_does_not_import_heavy_libraries() -> None:
    """`kinema check --help` must be quick."""
    program = "import sys, kinema.check; print([m for m in ('scipy', 'trimesh', 'mujoco') if m in sys.modules])"
    done = subprocess.run([sys.executable, "-c", program], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


def test_thousands_of_shapes_are_cut_short_with_a_note() -> None:
    """A heap of a hundred boxes has more pairs than are compared; it says so, and does not take for ever."""
    robots = [Robot(name=f"r{i}", links=[box_link("box")]) for i in range(100)]
    for i, robot in enumerate(robots):
        robot.pose = Pose.translation((0.0001 * i, 0, 0))
    found = [d for d in check(World(name="heap", robots=robots)) if "too many" in d.message]
    assert [d.severity for d in found] == [Severity.NOTE]
