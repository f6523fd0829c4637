"""What holds a robot's base: one rule for all writers."""

from __future__ import annotations

from pathlib import Path

import pytest

from kinema.core import WriteError, collect
from kinema.description import Base, JointKind, Robot
from kinema.read import read
from kinema.write import write
from kit.assets import EXAMPLES

ARM = EXAMPLES / "arm" / "arm.urdf"
FILES = ["arm.xml", "arm.usda", "arm.sdf", "arm.urdf"]


def _robot(file: Path) -> Robot:
    robot = read(file, policy=collect)
    assert isinstance(robot, Robot)
    return robot


def _held(robot: Robot) -> str:
    """What holds the root, however the format says it."""
    edges = [e for e in robot.tree().edges if e.parent is None]
    if robot.tree().roots == ("world",) or any(not j.n_dofs for e in edges for j in e.joints):
        return "fixed"
    if any(j.kind is JointKind.FREE for e in edges for j in e.joints):
        return "free"
    return robot.base.value


@pytest.mark.parametrize("name", FILES)
def test_what_nobody_says_stays_unsaid(name: str, tmp_path: Path) -> None:
    """A base of which nothing is said comes back so from every format; one line tells what the format makes of it."""
    report = write(_robot(ARM), tmp_path / name)
    assert _held(_robot(tmp_path / name)) == "unspecified"
    said = [x.how for x in report if x.what == "what holds its base"]
    assert len(said) == (0 if name.endswith(".urdf") else 1)
    assert all("--base" in how for how in said)
    again = _robot(tmp_path / name)
    write(again, tmp_path / f"again_{name}")
    assert _held(_robot(tmp_path / f"again_{name}")) == "unspecified"
    poses = [r.forward_kinematics({})["tool_frame"] for r in (_robot(ARM), again)]
    assert poses[0] == pytest.approx(poses[1], abs=1e-9)


@pytest.mark.parametrize("name", FILES)
@pytest.mark.parametrize("base", ["fixed", "free"])
def test_the_user_decides(base: str, name: str, tmp_path: Path) -> None:
    report = write(_robot(ARM), tmp_path / name, base=base)
    held = _held(_robot(tmp_path / name))
    if (base, name) == ("free", "arm.urdf"):  # which has no word for it, and says so
        assert held == "unspecified"
        assert [x.what for x in report if "base" in x.what] == ["that its base is free"]
    else:
        assert held == base


@pytest.mark.parametrize("base", [Base.FIXED, Base.FREE])
def test_a_joint_that_only_holds_the_base_gives_way(base: Base, tmp_path: Path) -> None:
    """The quadruped floats by a free joint: it can be bolted down where it stands, and let go again."""
    dog = _robot(EXAMPLES / "quadruped" / "quadruped.xml")
    write(dog, tmp_path / "dog.xml", base=base.value)
    again = _robot(tmp_path / "dog.xml")
    assert _held(again) == base.value
    assert again.n_dofs == dog.n_dofs - (6 if base is Base.FIXED else 0)
    root = dog.links[0].name
    assert again.forward_kinematics({})[root] == pytest.approx(dog.forward_kinematics({})[root], abs=1e-9)


def test_another_word_is_refused(tmp_path: Path) -> None:
    with pytest.raises(WriteError, match=r"'floating'.*'fixed', 'free'"):
        write(_robot(ARM), tmp_path / "arm.usda", base="floating")
