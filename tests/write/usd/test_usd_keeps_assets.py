"""MJCF through USD and back: assets that nothing shows, and contact settings of what does not collide."""

from __future__ import annotations

import importlib
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema
from kinema.core import collect
from kit.dressed_meshes import picture

mujoco: Any = importlib.import_module("mujoco")

TEXT = """<mujoco><asset>
  <texture name="sky" type="skybox" builtin="gradient" rgb1="0 0 0" rgb2="1 1 1" width="8" height="48"/>
  <texture name="around" type="cube" builtin="flat" rgb1="1 0 0" rgb2="0 0 1" width="8" height="48"/>
  <texture name="idle" type="2d" file="idle.png"/>
  <texture name="shown" type="2d" file="shown.png"/>
  <material name="idle" rgba="1 0 0 1" texture="idle" texrepeat="2 3"/>
  <material name="around" texture="around" rgba="0.5 0.5 1 1"/>
  <material name="shown" texture="shown" texrepeat="4 5" texuniform="true"/>
  <mesh name="idle" vertex="0 0 0 1 0 0 0 1 0 0 0 1"/>
  <hfield name="idle" nrow="3" ncol="3" size="1 1 1 0.1"/>
</asset><worldbody><body name="b"><joint name="j" type="hinge"/>
  <geom name="c" type="box" size=".1 .1 .1" material="around"/><geom name="d" size=".1" material="shown"/>
  <geom name="ghost" size="0.1" contype="0" conaffinity="0" friction="0.3 0.02 0.003" condim="4" solref="0.03 0.9"
    solimp="0.8 0.9 0.002 0.4 3" margin="0.01" gap="0.005" priority="2" solmix="0.7" mass="0"/>
</body></worldbody></mujoco>"""
CONTACT = ("condim", "friction", "solref", "solimp", "margin", "gap", "priority", "solmix", "contype", "conaffinity")


def stage(folder: Path, name: str = "m.usda") -> tuple[Path, Any]:
    """The file as a stage, and the loss report."""
    folder.mkdir()
    picture(folder / "idle.png", (200, 40, 30), (10, 60, 220))
    picture(folder / "shown.png", (1, 2, 3), (4, 5, 6))
    (folder / "m.xml").write_text(TEXT)
    (folder / "out").mkdir()
    report = kinema.write(kinema.read(folder / "m.xml"), folder / "out" / name)
    return folder / "out" / name, report


def names(model: Any, kind: str) -> set[str]:
    count = {"TEXTURE": model.ntex, "MATERIAL": model.nmat, "MESH": model.nmesh, "HFIELD": model.nhfield}[kind]
    return {mujoco.mj_id2name(model, getattr(mujoco.mjtObj, f"mjOBJ_{kind}"), i) for i in range(count)}


def test_they_come_back(tmp_path: Path) -> None:
    """MuJoCo compiles the same assets and contact settings, also where the stage was moved to."""
    file, report = stage(tmp_path / "here")
    assert not any("texture" in str(loss) and "dropped" in str(loss) for loss in report)
    before = mujoco.MjModel.from_xml_path(str(tmp_path / "here" / "m.xml"))
    file.parent.rename(tmp_path / "there")
    (tmp_path / "here" / "idle.png").unlink()
    kinema.write(kinema.read(tmp_path / "there" / "m.usda"), tmp_path / "again.xml")
    after = mujoco.MjModel.from_xml_path(str(tmp_path / "again.xml"))
    for kind in ("TEXTURE", "MATERIAL", "MESH", "HFIELD"):
        assert names(after, kind) == names(before, kind)
    for field in CONTACT:
        np.testing.assert_allclose(getattr(after, f"geom_{field}"), getattr(before, f"geom_{field}"), err_msg=field)
    np.testing.assert_allclose(after.mat_texrepeat, before.mat_texrepeat)
    np.testing.assert_array_equal(after.mat_texuniform, before.mat_texuniform)
    np.testing.assert_array_equal(np.sort(after.tex_data), np.sort(before.tex_data))


def test_a_package_has_no_room_for_their_files(tmp_path: Path) -> None:
    """It holds what the stage refers to; the report says so."""
    _, report = stage(tmp_path / "here", "m.usdz")
    assert any("dropped" in str(loss) and "mjcf texture" in str(loss) for loss in report)


@pytest.mark.parametrize("place", ["../m.xml", "/etc/hostname", "textures/../../m.xml"])
def test_files_elsewhere_are_not_taken(place: str, tmp_path: Path) -> None:
    """Anybody can write a stage: what it asks for is beside it, or left out with a warning."""
    file, _ = stage(tmp_path / "here")
    text = file.read_text()
    assert "textures/idle.png" in text
    file.write_text(text.replace("textures/idle.png", place))
    robot = kinema.read(file, policy=collect)
    assert "usd.own-record" in [d.code for d in robot.diagnostics]
    assert not any(place in extra.text for extra in robot.extras)


@pytest.mark.parametrize(
    "broken", ["[", "{}", '[["texture"]]', '[["include", "<include/>"]]', '[["mesh", "<!DOCTYPE x>"]]']
)
def test_what_is_something_else(broken: str, tmp_path: Path) -> None:
    file, _ = stage(tmp_path / "here")
    lines = file.read_text().splitlines()
    (number,) = [i for i, line in enumerate(lines) if "kinema:assets" in line]
    lines[number] = f"    custom string kinema:assets = '{broken}'"
    file.write_text("\n".join(lines))
    robot = kinema.read(file, policy=collect)
    assert "usd.own-record" in [d.code for d in robot.diagnostics]
    assert robot.extras == []
