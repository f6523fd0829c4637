"""The loss report: what a format cannot say, for people and for programs."""

from __future__ import annotations

import inspect
import json
from dataclasses import fields
from pathlib import Path
from typing import get_type_hints

import numpy as np
import pytest

import kinema as km
from kinema.core import Origin
from kinema.description import (
    Actuator,
    Base,
    Ellipsoid,
    Extra,
    Inertial,
    Joint,
    JointKind,
    Keyframe,
    Link,
    Mesh,
    Robot,
    Sensor,
    Shape,
    Transmission,
    rotation,
)
from kinema.tokens import WriteKeywords, WriteOptions
from kinema.write import Loss, LossReport
from kinema.write.loss_report import Action


def test_a_report_counts_and_lists() -> None:
    """It is a sequence of losses, with counts by what was done."""
    report = LossReport("usd", "robot.usda")
    assert not report
    first = Loss(Action.DROPPED, "sensor", "imu", "the sensor", "USD has none", Origin("robot.xml", 7))
    report.add(first)
    report.add(Loss(Action.EXTENSION, "joint", "elbow", "damping"))
    assert (len(report), report[0], report.dropped) == (2, first, [first])
    assert [x.name for x in report.extensions] == ["elbow"]
    assert report.approximated == []
    assert str(first) == 'robot.xml:7: dropped: sensor "imu": the sensor: USD has none'


def test_a_report_is_read_by_people() -> None:
    """Printed: the summary, and one line for losses that are equal but for the name; in a list: one line."""
    report = LossReport("usd", "robot.usda")
    for name in ("one", "two"):
        report.add(Loss(Action.DROPPED, "sensor", name, "the sensor", "USD has none", Origin("robot.xml", 7)))
    assert str(report).splitlines() == [
        f"robot.usda: {report.summary()}",
        '  dropped: sensor "one" and 1 more: the sensor: USD has none',
    ]
    assert repr(report) == f"<LossReport of robot.usda: {report.summary()}>"
    for i in range(50):
        report.add(Loss(Action.DROPPED, "sensor", "other", f"number {i}"))
    assert len(str(report).splitlines()) == 22
    assert str(report).endswith("and 31 more groups: see to_json()")
    assert str(LossReport("usd", "robot.usda")) == "robot.usda: nothing lost"


def test_write_shows_its_arguments() -> None:
    """In its signature, for people and editors, and to type checkers."""
    parameters = inspect.signature(km.write).parameters
    assert [*parameters] == [
        *("description", "path", "format", "options"),
        *(field.name for field in fields(WriteOptions)),
    ]
    assert get_type_hints(WriteKeywords) == get_type_hints(WriteOptions)
    assert next(iter(inspect.signature(km.read).parameters)) == "source"
    assert [*inspect.signature(km.check).parameters] == ["description"]


def test_a_report_is_plain_json() -> None:
    """Programs read the counts and each loss with its place."""
    report = LossReport("usd", "robot.usda")
    report.add(Loss(Action.DROPPED, "sensor", "imu", "the sensor", "USD has none", Origin("robot.xml", 7)))
    data = json.loads(json.dumps(report.to_json()))
    assert data["counts"] == {"dropped": 1, "approximated": 0, "extension": 0}
    assert data["losses"][0] == {
        "action": "dropped",
        "matter": "bookkeeping",
        "kind": "sensor",
        "name": "imu",
        "what": "the sensor",
        "how": "USD has none",
        "file": "robot.xml",
        "line": 7,
        "path": None,
    }


def test_what_matters_most_comes_first() -> None:
    """Motion, looks, bookkeeping; and what is said of several elements alike is said once."""
    report = LossReport("urdf", "robot.urdf")
    report.add(Loss(Action.DROPPED, "joint", "a", "its name"))
    report.add(Loss(Action.DROPPED, "shape", "s", "its colour"))
    report.add(Loss(Action.EXTENSION, "joint", "a", "damping"))
    for name in ("a", "b", "a"):
        report.add(Loss(Action.DROPPED, "joint", name, "its spring"))
    folded = [(first.what, [x.name for x in members]) for first, members in report.grouped()]
    assert folded == [("its spring", ["a", "b"]), ("damping", ["a"]), ("its colour", ["s"]), ("its name", ["a"])]
    assert report.summary() == "2 that change motion, 1 that change looks, 1 of bookkeeping, 1 in extensions"
    assert LossReport().summary() == "nothing lost"
    assert report.to_json()["matters"] == {"motion": 3, "looks": 1, "bookkeeping": 1}


def test_what_nobody_wrote_is_no_loss(tmp_path: Path) -> None:
    """Defaults of MuJoCo's options, its flags, gravity on earth and versions are not told; what differs is."""
    plain = "<worldbody><body><freejoint/><geom size='.1'/></body></worldbody>"
    (tmp_path / "plain.xml").write_text(f"<mujoco>{plain}</mujoco>", encoding="utf-8")
    option = '<option timestep="0.005" wind="1 0 0" gravity="0 0 -1.6"><flag contact="disable"/></option>'
    (tmp_path / "own.xml").write_text(f"<mujoco>{option}{plain}</mujoco>", encoding="utf-8")
    for suffix, names in ((".usda", {"timestep", "wind", "flag contact"}), (".urdf", {"plain"}), (".sdf", {"plain"})):
        of_plain, of_own = (
            {x.name for x in km.write(km.read(tmp_path / name), tmp_path / f"out{suffix}") if _is_setting(x)}
            for name in ("plain.xml", "own.xml")
        )
        assert of_plain == set()
        assert of_own == (names if suffix == ".usda" else {"own"})
    sdf = km.read(tmp_path / "out.sdf")
    assert not [x for x in km.write(sdf, tmp_path / "again.usda") if "version" in x.what]


def _is_setting(loss: Loss) -> bool:
    return loss.kind == "option" or "simulation settings" in loss.what or loss.what == "gravity"


def test_nothing_is_lost_without_a_word(tmp_path: Path) -> None:
    """Everything that USD has no word for is on record, with the element it belongs to."""
    links = [
        Link(name="a", inertial=Inertial(1.0, np.zeros(3), np.eye(3))),
        Link(
            name="b",
            inertial=Inertial(1.0, np.zeros(3), np.eye(3)),
            gravity_scale=0.5,
            extras=[Extra("urdf", "gazebo", "<gazebo/>")],
            shapes=[
                Shape(name="egg", geometry=Ellipsoid(np.array([0.1, 0.2, 0.3]))),
                Shape(name="gone", geometry=Mesh(uri="package://nowhere/x.stl")),
                Shape(name="ghost", geometry=Ellipsoid(np.ones(3)), visual=False, collision=False),
            ],
        ),
    ]
    axis = rotation([0, 0, 1], damping=0.1, velocity=2.0)
    screw = Joint(name="screw", kind=JointKind.SCREW, parent="a", child="b", axes=[axis], pitch=0.1)
    robot = Robot(name="r", links=links, joints=[screw], base=Base.UNSPECIFIED)
    robot.sensors = [Sensor(name="imu", kind="imu")]
    robot.keyframes = [Keyframe(name="home")]
    robot.actuators = [Actuator(name="motor", transmission=Transmission.JOINT, target="nowhere")]
    robot.options = {"wind": 3.0}
    report = km.write(robot, tmp_path / "r.usda")
    lost = {(x.action.value, x.kind, x.name) for x in report}
    assert lost >= {
        ("approximated", "robot", "r"),
        ("extension", "link", "b"),
        ("dropped", "link", "b"),
        ("approximated", "shape", "egg"),
        ("dropped", "shape", "gone"),
        ("extension", "shape", "ghost"),
        ("approximated", "joint", "screw"),
        ("extension", "joint", "screw"),
        ("extension", "sensor", "imu"),
        ("extension", "keyframe", "home"),
        ("dropped", "actuator", "motor"),
        ("extension", "option", "wind"),
    }


def test_a_plain_robot_loses_nothing(tmp_path: Path) -> None:
    """What UsdPhysics can say in full needs no report."""
    link = Link(name="a", inertial=Inertial(1.0, np.zeros(3), np.eye(3)))
    assert list(km.write(Robot(name="r", links=[link], base=Base.FREE), tmp_path / "r.usda")) == []


@pytest.mark.parametrize("ending", ["usda", "xml", "sdf"])
def test_a_mesh_that_is_only_seen_changes_looks(ending: str, tmp_path: Path) -> None:
    """One that is touched changes motion."""
    file = tmp_path / "robot.urdf"
    shape = '<{0}><geometry><mesh filename="package://nowhere/{0}.dae"/></geometry></{0}>'
    for use, matter in (("visual", "looks"), ("collision", "motion")):
        link = f'<link name="a">{shape.format(use)}<inertial><mass value="1"/>'
        inertia = '<inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial></link>'
        file.write_text(f'<robot name="r">{link}{inertia}</robot>')
        report = km.write(km.read(file), tmp_path / f"out.{ending}")
        assert [loss.category for loss in report if loss.what in ("the mesh", "the shape")] == [matter]


@pytest.mark.parametrize("suffix", [".usda", ".xml", ".urdf", ".sdf"])
def test_a_shape_without_a_name_is_called_by_its_link(tmp_path: Path, suffix: str) -> None:
    """Of a mesh that is missing one wants to know whose it is."""
    missing = Shape(geometry=Mesh(uri="package://nowhere/palm.stl"), collision=True)
    ball = Shape(geometry=Ellipsoid(np.array([0.1, 0.2, 0.3])))
    hand = Link(name="hand", inertial=Inertial(1.0, np.zeros(3), np.eye(3)), shapes=[ball, missing])
    losses = km.write(Robot(name="r", links=[hand]), tmp_path / f"r{suffix}")
    assert "mesh 2 of hand" in {loss.name for loss in losses if loss.kind == "shape"}
    assert losses.unnamed_elements == {}
