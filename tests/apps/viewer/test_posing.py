"""Joints moved by sliders: mimics follow, loops stay closed; parts are found by name, diagnostics lead to parts."""

from __future__ import annotations

import time
from pathlib import Path

import numpy as np
import pytest

from kinema.apps.viewer import ElementRef, make_displayed_models
from kinema.apps.viewer.displayed_model import (
    WORLD,
    DisplayedModel,
    bounding_box,
    element_details_html,
    find_diagnosed_element,
    find_differences,
)
from kinema.apps.viewer.mechanism import from_slider_values, to_slider_values
from kinema.apps.viewer.open_viewer import FileWatcher, watched_files
from kinema.check import check
from kinema.core import Pose
from kinema.description import Joint, JointKind, Robot, free_axes, spherical_axes
from kinema.read import read
from kinema.write import write
from kit.assets import EXAMPLES
from kit.shown import LEVER


@pytest.fixture
def lever(tmp_path: Path) -> Robot:
    (tmp_path / "lever.urdf").write_text(LEVER)
    robot = read(tmp_path / "lever.urdf")
    assert isinstance(robot, Robot)
    return robot


def test_a_moved_joint_is_where_forward_kinematics_says() -> None:
    robot = read(EXAMPLES / "arm" / "arm.urdf")
    exhibit = DisplayedModel(0, "arm", robot, world_pose=Pose.translation([1.0, 2.0, 0.0]))
    asked = {"shoulder_pan_joint": 0.4, "elbow_joint": -0.7}
    assert exhibit.set_slider_values({name: np.array([q]) for name, q in asked.items()})
    for name, pose in robot.link_poses(asked).items():
        assert exhibit.link_poses()[name].is_close(exhibit.world_pose @ pose)
    exhibit.reset_joints()
    assert exhibit.link_poses()["forearm_link"].is_close(exhibit.world_pose @ robot.link_poses()["forearm_link"])


@pytest.mark.parametrize("angle", [0.1, 0.35, -0.1])
def test_loops_stay_closed(angle: float) -> None:
    """The other joints of a gripper with closed loops go where the loops' joints still hold."""
    exhibit = DisplayedModel(0, "gripper", read(EXAMPLES / "gripper" / "gripper.sdf"))
    (mechanism,) = exhibit.mechanisms
    start = exhibit.slider_values()["left_driver_joint"][0]
    assert exhibit.set_slider_values({"left_driver_joint": np.array([start + angle])})
    assert exhibit.slider_values()["left_driver_joint"][0] == pytest.approx(start + angle)
    poses = exhibit.link_poses()
    for joint in mechanism.tree.loops:
        assert joint.parent is not None
        assert joint.child is not None
        a, b = poses[joint.parent] @ joint.parent_pose, poses[joint.child] @ joint.child_pose
        assert np.linalg.norm(a.position - b.position) < 1e-6
        axis = joint.axes[0].direction
        assert np.linalg.norm(a.rotation @ axis - b.rotation @ axis) < 1e-6


def test_where_loops_cannot_close_nothing_moves() -> None:
    exhibit = DisplayedModel(0, "gripper", read(EXAMPLES / "gripper" / "gripper.sdf"))
    before = exhibit.link_poses()
    (mechanism,) = exhibit.mechanisms
    mechanism.residuals.append(lambda *_: np.array([1.0]))  # which nothing can mend
    assert not exhibit.set_slider_values({"left_driver_joint": np.array([0.2])})
    assert all(pose.is_close(before[name]) for name, pose in exhibit.link_poses().items())


def test_sliders_have_the_limits_of_their_joints(lever: Robot) -> None:
    (slide,) = DisplayedModel(0, "lever", lever).sliders()
    assert (slide.label, slide.lower, slide.upper, slide.is_angle) == ("turn", -1.5, 1.5, True)


@pytest.mark.parametrize(("kind", "axes"), [(JointKind.SPHERICAL, spherical_axes()), (JointKind.FREE, free_axes())])
def test_quaternions_are_rotation_vectors_and_back(kind: JointKind, axes: list) -> None:
    joint = Joint(name="j", kind=kind, parent=None, child="a", axes=axes)
    values = np.linspace(-0.9, 0.8, joint.n_dofs)
    np.testing.assert_allclose(to_slider_values(joint, from_slider_values(joint, values)), values, atol=1e-12)


def test_a_diagnostic_leads_to_its_part(lever: Robot) -> None:
    exhibit = make_displayed_models([lever])[0]
    found = [find_diagnosed_element(exhibit, d) for d in check(lever) if "heavy" in d.message]
    assert ElementRef(0, "link", "heavy") in found
    assert all(part is None or part.name in (*exhibit.links, *exhibit.joints, WORLD) for part in found)


def test_what_a_file_says_is_text_and_never_markup(lever: Robot) -> None:
    lever.links[0].name = "<img src=x onerror=alert(1)>"
    text = element_details_html(DisplayedModel(0, "x", lever), ElementRef(0, "link", lever.links[0].name))
    assert "<img" not in text
    assert "&lt;img" in text


def test_conversions_have_no_differences_and_changes_are_found(lever: Robot, tmp_path: Path) -> None:
    write(lever, tmp_path / "again.urdf")
    again = read(tmp_path / "again.urdf")
    same = make_displayed_models([lever, again])
    assert [d.text for d in find_differences(*same)] == []
    low, high = bounding_box(same[0]), bounding_box(same[1])
    assert low is not None
    assert high is not None
    assert high[0][1] > low[1][1], "they stand beside each other"
    assert again.joints[0].axes
    again.joints[0].axes[0].upper = 1.0
    arm = again.link("arm") if isinstance(again, Robot) else next(x for x in again.links if x.name == "arm")
    arm.shapes.clear()
    changed = find_differences(*same)
    assert {d.element for d in changed} == {
        ElementRef(i, k, n) for i in (0, 1) for k, n in (("joint", "turn"), ("link", "arm"))
    }
    assert any("limits -1.5 to 1.5 against -1.5 to 1" in d.text for d in changed)


def test_a_changed_file_is_noticed(lever: Robot, tmp_path: Path) -> None:
    file = tmp_path / "lever.urdf"
    assert watched_files(lever) == {file}
    calls: list[int] = []
    watch = FileWatcher([file], lambda: calls.append(1))
    try:
        file.write_text(LEVER + "\n")
        end = time.monotonic() + 20.0
        while not calls and time.monotonic() < end:
            time.sleep(0.05)
        assert calls
    finally:
        watch.close()
