"""References to what does not exist, and names that a format keeps for itself: put on record, and never a crash."""

from __future__ import annotations

from functools import partial
from pathlib import Path

import pytest

from kinema.core import collect
from kinema.description import (
    Actuator,
    Camera,
    CollisionPair,
    Constraint,
    ConstraintKind,
    Frame,
    Joint,
    JointKind,
    Light,
    Mimic,
    Robot,
    Sensor,
    Tendon,
    TendonPathItem,
    TendonPathKind,
    Transmission,
    World,
    rotation,
)
from kinema.read import read
from kinema.write import FORMATS, write
from kit.robots.small_robots import body

SUFFIX = {format: suffixes[0] for format, suffixes in FORMATS.items()}

link = partial(body, inertia=1.0)


def hinge(name: str, parent: str | None, child: str | None) -> Joint:
    return Joint(name=name, kind=JointKind.REVOLUTE, parent=parent, child=child, axes=[rotation((0, 0, 1))])


def robot() -> Robot:
    """A robot whose parts name things that are not there."""
    follower = hinge("follower", "base", "arm")
    follower.axes[0].mimic = Mimic(joint="no_joint")
    return Robot(
        name="robot",
        links=[link("base"), link("arm")],
        joints=[
            follower,
            hinge("to_nothing", "base", "no_link"),
            hinge("from_nothing", "no_link", "arm"),
            hinge("to_itself", "arm", "arm"),
            hinge("world_to_world", None, None),
        ],
        constraints=[
            Constraint(name="weld", kind=ConstraintKind.WELD, a="base", b="no_link"),
            Constraint(name="connect", kind=ConstraintKind.CONNECT, a="no_link", b="arm"),
            Constraint(name="couple", kind=ConstraintKind.JOINT, a="follower", b="no_joint"),
            Constraint(name="couple_axis", kind=ConstraintKind.JOINT, a="follower", b="follower", axis_b=7),
            Constraint(name="gear", kind=ConstraintKind.GEAR, a="no_link", b="arm", reference="no_link"),
            Constraint(name="pull", kind=ConstraintKind.TENDON, a="no_tendon"),
        ],
        actuators=[Actuator(name="motor", transmission=Transmission.JOINT, target="no_joint")],
        tendons=[Tendon(name="tendon", path=[TendonPathItem(kind=TendonPathKind.JOINT, target="no_joint")])],
        sensors=[Sensor(name="sensor", kind="imu", target_kind="link", target="no_link")],
        frames=[Frame(name="frame", link="no_link")],
        cameras=[Camera(name="camera", link="no_link")],
        lights=[Light(name="light", kind="point", link="no_link")],
    )


@pytest.mark.parametrize("whole", ["robot", "world"])
@pytest.mark.parametrize("format", FORMATS)
def test_what_does_not_exist_is_put_on_record(format: str, whole: str, tmp_path: Path) -> None:
    """The file is written without it, the report names whatever referred to it, and the rest comes back."""
    made = robot()
    made.collision.pairs.append(CollisionPair(a="base", b="no_link"))
    file = tmp_path / f"robot{SUFFIX[format]}"
    report = write(made if whole == "robot" else World(name="world", robots=[made]), file)
    named = {loss.name for loss in report}
    assert {"to_nothing", "from_nothing", "to_itself", "world_to_world", "follower"} <= named
    assert {"weld", "connect", "couple", "couple_axis", "gear", "pull"} <= named
    assert {"motor", "tendon", "frame", "sensor", "camera", "light"} <= named
    again = read(file, policy=collect)
    assert {link.name for link in again.links} >= {"base", "arm"}
    assert [j.name for j in again.joints if j.n_dofs and j.kind is not JointKind.FREE] == ["follower"]


@pytest.mark.parametrize("format", ["usd", "urdf", "sdf", "mjcf"])
def test_a_joint_of_a_missing_link_alone(format: str, tmp_path: Path) -> None:
    """In both layouts of USD too, where the path of a joint's prim depends on its links."""
    made = Robot(name="robot", links=[link("base")], joints=[hinge("joint", "base", "no_link")])
    for layout in ("nested", "flat"):
        report = write(made, tmp_path / f"{layout}{SUFFIX[format]}", layout=layout)
        (loss,) = (x for x in report if x.name == "joint")
        assert loss.action.value == "dropped"


@pytest.mark.parametrize("format", ["sdf", "mjcf"])
def test_the_reserved_name_of_the_world_is_changed_and_reported(format: str, tmp_path: Path) -> None:
    """SDFormat and MJCF keep the name `world` for themselves."""
    made = Robot(name="robot", links=[link("world"), link("arm")], joints=[hinge("joint", "world", "arm")])
    file = tmp_path / f"robot{SUFFIX[format]}"
    report = write(made, file)
    (loss,) = (x for x in report if (x.kind, x.name, x.what) == ("link", "world", "its name"))
    assert "world_1" in loss.how
    again = read(file, policy=collect)
    assert [link.name for link in again.links] == ["world_1", "arm"]
    assert [(j.parent, j.child) for j in again.joints if j.name == "joint"] == [("world_1", "arm")]
