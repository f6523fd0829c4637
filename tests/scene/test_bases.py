"""What a scene makes of a base of which nothing is said."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from kinema.core import KinemaError, Severity
from kinema.read import read
from kinema.scene import Scene
from kit.assets import EXAMPLES

INERTIAL = '<inertial><mass value="1"/><inertia ixx="1" iyy="1" izz="1" ixy="0" ixz="0" iyz="0"/></inertial>'


def _limb(name: str, place: str, kind: str, axis: str = "0 1 0") -> str:
    limit = '<limit lower="-1" upper="1" effort="1" velocity="1"/>'
    return (
        f'<link name="{name}">{INERTIAL}</link><joint name="{name}_joint" type="{kind}"><parent link="base"/>'
        f'<child link="{name}"/><origin xyz="{place}"/><axis xyz="{axis}"/>{limit}</joint>'
    )


MOBILE = {
    "by name": _limb("left_wheel", "0 .2 0", "revolute") + _limb("right_wheel", "0 -.2 0", "revolute"),
    "wheels": _limb("a", "0 .2 0", "continuous") + _limb("b", "0 -.2 0", "continuous"),
    "legs": _limb("a", "0 .2 -.5", "revolute") + _limb("b", "0 -.2 -.5", "revolute") + _limb("c", "0 0 .4", "revolute"),
}
STANDING = {
    "an arm": _limb("a", "0 0 .3", "continuous", "0 0 1"),
    "a hand": _limb("a", "0 .1 .1", "revolute") + _limb("b", "0 -.1 .1", "revolute"),
}


def _scene(limbs: str, folder: Path, fixed: bool | None = None) -> Scene:
    file = folder / "robot.urdf"
    file.write_text(f'<robot name="robot"><link name="base">{INERTIAL}</link>{limbs}</robot>', encoding="utf-8")
    scene = Scene(quiet=True)
    scene.add(file, fixed=fixed)
    scene.build()
    return scene


def _said(scene: Scene) -> list[Severity]:
    return [d.severity for d in scene.diagnostics if d.code == "sim.base-held"]


@pytest.mark.parametrize("limbs", MOBILE.values(), ids=MOBILE)
def test_a_mobile_robot_that_is_bolted_down_deserves_a_warning(limbs: str, tmp_path: Path) -> None:
    assert _said(_scene(limbs, tmp_path)) == [Severity.WARNING]


@pytest.mark.parametrize("limbs", STANDING.values(), ids=STANDING)
def test_others_are_bolted_down_with_a_note(limbs: str, tmp_path: Path) -> None:
    assert _said(_scene(limbs, tmp_path)) == [Severity.NOTE]


@pytest.mark.parametrize("fixed", [True, False])
def test_who_decides_hears_nothing(fixed: bool, tmp_path: Path) -> None:
    assert _said(_scene(MOBILE["wheels"], tmp_path, fixed=fixed)) == []


def test_nor_does_a_file_that_says_it() -> None:
    scene = Scene(quiet=True)
    scene.add(EXAMPLES / "quadruped" / "quadruped.xml")
    scene.build()
    assert _said(scene) == []


def test_only_the_base_is_placed(tmp_path: Path) -> None:
    """`set_pos` refuses a fixed base instead of moving another body of the file."""
    file = tmp_path / "bodies.xml"
    fixed, free = '<body name="hand"><geom size=".1"/></body>', "<freejoint name='f'/><geom size='.1'/>"
    file.write_text(f"<mujoco><worldbody>{fixed}<body name='ball' pos='1 0 1'>{free}</body></worldbody></mujoco>")
    scene = Scene(quiet=True, contacts=False)
    entity = scene.add(file)
    scene.build()
    before = entity.get_links_pos()
    for name, value in (("set_pos", [5.0, 5.0, 5.0]), ("set_quat", [0.0, 1.0, 0.0, 0.0])):
        with pytest.raises(KinemaError, match=f'^{name}: the base of "bodies", link "hand", is fixed.*get_joint'):
            getattr(entity, name)(value)
    np.testing.assert_array_equal(entity.get_links_pos(), before)
    entity.set_qpos([5, 5, 5, 1, 0, 0, 0], qs_idx=entity.get_joint("f").qs_idx)
    np.testing.assert_array_equal(entity.get_links_pos()[0], [before[0, 0], [5, 5, 5]])


def test_a_description_with_errors_is_not_added(tmp_path: Path) -> None:
    """A joint to a link that does not exist is no silent loss: it is listed, or kept out on request."""
    file, inertia = tmp_path / "gap.urdf", "<inertia ixx='1' iyy='1' izz='1' ixy='0' ixz='0' iyz='0'/>"
    links = "".join(f"<link name='{x}'><inertial><mass value='1'/>{inertia}</inertial></link>" for x in "ab")
    joints = "".join(
        f"<joint name='{a}{b}' type='continuous'><parent link='{a}'/><child link='{b}'/></joint>"
        for a, b in ("ab", "bc")
    )
    file.write_text(f"<robot name='gap'>{links}{joints}</robot>")
    for source in (file, read(file)):
        scene = Scene(quiet=True)
        with pytest.raises(KinemaError, match=r'(?s)errors="keep".*gap.urdf:1: error: joint "bc"') as raised:
            scene.add(source)
        assert [x.code for x in raised.value.diagnostics] == ["sim.dangling-joint"]
        assert not scene.entities
        assert not scene.diagnostics
    entity = scene.add(file, errors="keep", fixed=True)
    assert entity.name == "gap"
    scene.build()
    assert [joint.name for joint in entity.joints] == ["ab"]
    assert scene.diagnostics.codes() == ["sim.dangling-joint"]
    with pytest.raises(KinemaError, match="errors: 'ignore' is none of raise, keep"):
        Scene().add(file, errors="ignore")
