"""Parameters by path."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.apps.cluster.env_spec import apply_to_descriptions, group_changes, parse_parameter_path
from kinema.core import KinemaError
from kinema.description import Actuator, Camera, Shape, Sphere, Transmission, World
from kit.played import pendulum


def test_fields_are_set_wherever_they_are() -> None:
    """Masses take inertias along; what a joint has no word for is its axes'; frozen records are made anew."""
    robot = pendulum()
    robot.actuators.append(Actuator(name="motor", transmission=Transmission.JOINT, target="hinge"))
    changes = {
        "link[bob].mass": 2.0,
        "link[bob].inertial.center": [0.0, 0.0, -0.25],
        "joint[hinge].damping": 0.3,
        "joint[hinge].axes[0].armature": 0.1,
        "actuator[motor].gear[0]": 5.0,
    }
    apply_to_descriptions(group_changes(changes).elements, [robot])
    bob = robot.links[0].inertial
    assert bob is not None
    assert bob.mass == 2.0
    np.testing.assert_array_equal(bob.inertia, np.eye(3) * 0.02)
    np.testing.assert_array_equal(bob.center, [0.0, 0.0, -0.25])
    axis = robot.joints[0].axes[0]
    assert (axis.damping, axis.armature) == (0.3, 0.1)
    assert robot.actuators[0].gear == (5.0, 0.0, 0.0, 0.0, 0.0, 0.0)


def test_any_part_of_a_robot_or_world() -> None:
    """Parts of all lists, robots and worlds themselves; in brackets numbers, names, and keys."""
    robot = pendulum()
    robot.links[0].shapes.append(Shape(name="ball 1.5", geometry=Sphere(0.1)))
    robot.options["timestep"] = 0.002
    world = World(name="all", robots=[robot], cameras=[Camera(name="eye", link=None)])
    changes = {
        "link[bob].shapes[ball 1.5].geometry.radius": 0.2,
        "robot[pendulum].options[timestep]": 0.001,
        "robot[all].gravity": [0.0, 0.0, -1.6],
        "camera[eye].vertical_fov": 0.5,
    }
    apply_to_descriptions(group_changes(changes).elements, [world])
    assert robot.links[0].shapes[0].geometry.radius == 0.2  # type: ignore[union-attr]
    assert robot.options["timestep"] == 0.001
    np.testing.assert_array_equal(np.asarray(world.gravity), [0.0, 0.0, -1.6])
    assert world.cameras[0].vertical_fov == 0.5


def test_changes_are_sorted_by_whom_they_concern() -> None:
    found = group_changes({"scene.dt": 0.01, "gains.kp[hinge]": 5.0, "gains.kv": 1.0, "controller.speed": 2.0})
    assert found.scene == {"dt": 0.01}
    assert found.gains == [("kp", "hinge", 5.0), ("kv", "", 1.0)]
    assert found.controller == {"speed": 2.0}


@pytest.mark.parametrize(
    ("path", "words"),
    [
        ("mass", "is no parameter"),
        ("link.mass", "is no parameter"),
        ("wheel[a].mass", "is no parameter"),
        ("link[arm].mass", "no such link; there are: bob"),
        ("link[bob].weight", "there is no 'weight'; there are: "),
        ("joint[hinge].axes[3].damping", "axes has no [3]"),
        ("robot[pendulum].options[speed]", "options has no [speed]"),
        ("robot[other].gravity", "no such robot; there are: pendulum"),
        ("gains.kd", "gains are kp and kv"),
        ("scene.dt.x", "nothing below scene.dt"),
    ],
)
def test_what_there_is_not_is_said_in_one_sentence(path: str, words: str) -> None:
    with pytest.raises(KinemaError) as caught:
        apply_to_descriptions(group_changes({path: 1.0}).elements, [pendulum()])
    assert words in str(caught.value)
    assert "\n" not in str(caught.value)


def test_names_may_have_dots_and_spaces() -> None:
    assert parse_parameter_path("link[a.b c].mass").name == "a.b c"
