"""MJCF to USD to MJCF: what UsdPhysics has no word for comes back as MuJoCo compiled it at first."""

from __future__ import annotations

import re
from pathlib import Path

import numpy as np
import pytest

from kinema.core import Severity, collect
from kinema.description import Camera, Frame, Inertial, Keyframe, Light, Link, Robot, Sensor, World
from kinema.read import read
from kinema.write import write
from kit.mjcf_several import PART, WHOLE
from kit.mujoco_models import load

KEPT = ("sensor_", "key_", "eq_", "tendon_", "wrap_", "actuator_", "jnt_range", "site_", "nsensordata", "nu", "na")
"""Fields of `MjModel`, by their beginnings."""
MUSCLE = """
<mujoco model="muscle">
  <worldbody>
    <body name="upper" pos="0 0 1">
      <joint name="shoulder" axis="0 1 0" range="-60 60"/><geom type="capsule" size=".05 .2"/>
      <site name="origin" pos=".06 0 .2"/>
      <body name="lower" pos="0 0 -.4">
        <joint name="elbow" axis="0 1 0" range="-90 0"/><joint name="twist" axis="0 0 1"/>
        <geom type="capsule" size=".04 .2" pos="0 0 -.2"/>
        <geom name="wrap" type="cylinder" size=".06 .1" euler="90 0 0" contype="0" conaffinity="0" group="4"/>
        <site name="side" pos=".1 0 0"/><site name="insertion" pos=".05 0 -.2"/>
      </body>
    </body>
  </worldbody>
  <tendon>
    <spatial name="biceps" width=".01" springlength=".1"><site site="origin"/><geom geom="wrap" sidesite="side"/>
      <site site="insertion"/></spatial>
    <fixed name="sum"><joint joint="shoulder" coef="1"/><joint joint="elbow" coef="-.5"/></fixed>
  </tendon>
  <actuator>
    <muscle name="pull" tendon="biceps" lengthrange=".1 .9" ctrlrange="0 1" timeconst=".02 .05"/>
    <position name="servo" joint="shoulder" kp="20" kv="2" ctrllimited="false" ctrlrange="-1 2"/>
  </actuator>
  <sensor>
    <tendonpos name="length" tendon="biceps" noise=".1"/><actuatorfrc name="force" actuator="pull" cutoff="50"/>
    <framelinvel name="speed" objtype="body" objname="lower" reftype="site" refname="origin"/><clock/>
  </sensor>
  <equality>
    <tendon name="tie" tendon1="sum" polycoef=".1 0 0 0 0" solref=".05 1"/>
    <joint name="curve" joint1="elbow" joint2="shoulder" polycoef="0 .5 .1 0 0"/>
    <joint name="line" joint1="twist" joint2="shoulder" polycoef="0 .5 0 0 0" solimp=".8 .9 .01 .5 2"/>
    <connect name="pin" body1="lower" anchor="0 0 -.4" active="false" solref=".03 1"/>
  </equality>
  <keyframe><key name="bent" time="2" qpos=".1 -.5 .2" qvel="0 1 0" act=".3" ctrl=".5 .25"/></keyframe>
</mujoco>
"""


def _file(folder: Path, text: str) -> Path:
    (folder / "part.xml").write_text(PART, encoding="utf-8")
    (folder / "model.xml").write_text(text, encoding="utf-8")
    return folder / "model.xml"


def _through_usd(file: Path, layout: str) -> tuple[Robot | World, Path]:
    folder = file.parent
    write(read(file, policy=collect), folder / "stage.usda", layout=layout)
    between = read(folder / "stage.usda", policy=collect)
    (folder / "out").mkdir()
    write(between, folder / "out" / "model.xml")
    return between, folder / "out" / "model.xml"


@pytest.mark.parametrize("text", [WHOLE, MUSCLE], ids=["several robots", "muscle"])
@pytest.mark.parametrize("layout", ["nested", "flat"])
def test_tendons_actuators_sensors_keyframes_and_equalities(text: str, layout: str, tmp_path: Path) -> None:
    """MuJoCo makes of them what it made of the file, in the same order."""
    file = _file(tmp_path, text)
    _, written = _through_usd(file, layout)
    before, after = load(file), load(written)
    for field in (n for n in dir(before) if n.startswith(KEPT)):
        one, other = getattr(before, field), getattr(after, field)
        if isinstance(one, np.ndarray) and one.dtype.kind in "fiub":
            np.testing.assert_allclose(other, one, rtol=1e-6, atol=1e-9, err_msg=field)
        elif isinstance(one, int):
            assert other == one, field


def test_nothing_of_it_is_dropped(tmp_path: Path) -> None:
    """The report tells that other programs do not know these prims, and drops none."""
    report = write(read(_file(tmp_path, MUSCLE), policy=collect), tmp_path / "stage.usda")
    dropped = {(x.kind, x.name) for x in report.dropped}
    assert not {kind for kind, _ in dropped} & {"sensor", "keyframe", "tendon", "actuator", "constraint", "shape"}
    preserved = {(x.kind, x.name) for x in report.extensions}
    assert {("sensor", "length"), ("keyframe", "bent"), ("tendon", "biceps"), ("constraint", "tie")} <= preserved


@pytest.mark.parametrize(
    ("field", "kind", "value"),
    [("kinema:sensor:noise", "string", '"loud"'), ("kinema:keyframe:positions", "string", '"[1, 2"')],
)
def test_a_record_that_somebody_broke(field: str, kind: str, value: str, tmp_path: Path) -> None:
    """A field that holds something else is left out with a warning; the rest of the record stands."""
    write(read(_file(tmp_path, MUSCLE), policy=collect), tmp_path / "stage.usda")
    lines = (tmp_path / "stage.usda").read_text(encoding="utf-8").splitlines()
    for i, line in enumerate(lines):
        if f" {field} =" in line:
            lines[i] = f"custom {kind} {field} = {value}"
    (tmp_path / "stage.usda").write_text("\n".join(lines), encoding="utf-8")
    robot = read(tmp_path / "stage.usda", policy=collect)
    assert [d.code for d in robot.diagnostics if d.code == "usd.own-record"] == ["usd.own-record"]
    nodes: list[Sensor | Keyframe] = [*robot.sensors, *robot.keyframes]
    assert [n.name for n in nodes][:2] == ["length", "force"]
    assert [n.name for n in nodes][-1] == "bent"


def test_settings_that_somebody_broke(tmp_path: Path) -> None:
    """What is not of its kind is left out, so that whoever writes or simulates the robot does not stumble over it."""
    write(read(_file(tmp_path, MUSCLE), policy=collect), tmp_path / "stage.usda")
    text = (tmp_path / "stage.usda").read_text(encoding="utf-8")
    broken = re.sub(
        r"string kinema:settings = '.*'",
        """string kinema:settings = '{"flags": "none", "group": [1], "user": "x", "wind": 3, "shortcut": 4}'""",
        text,
    )
    assert broken != text
    (tmp_path / "stage.usda").write_text(broken, encoding="utf-8")
    robot = read(tmp_path / "stage.usda", policy=collect)
    assert not {"flags", "wind"} & robot.options.keys()
    assert all(not a.settings.keys() & {"group", "user", "shortcut"} for a in robot.actuators)
    write(robot, tmp_path / "again.xml")


def test_order_and_settings_of_placed_elements(tmp_path: Path) -> None:
    """Generated names, file order and MJCF settings of links, sites, cameras and lights come back."""
    places: list[Frame | Camera | Light] = [
        Frame(name="tip", link=None, order=3),
        Camera(name="eye", link=None, order=5, attributes={"mjcf:user": (1.0, 2.0)}),
        Light(name="", kind="point", link=None, order=1, name_is_generated=True, attributes={"mjcf:class": "lamp"}),
    ]
    link = Link(name="base", order=2, inertial=Inertial(1.0, np.zeros(3), np.eye(3)))
    robot = Robot(name="r", links=[link], frames=places[:1], cameras=places[1:2], lights=places[2:])  # type: ignore[arg-type]
    write(robot, tmp_path / "stage.usda")
    back = read(tmp_path / "stage.usda", policy=collect)
    assert isinstance(back, Robot)
    for before, after in zip([link, *places], [*back.links, *back.frames, *back.cameras, *back.lights], strict=True):
        assert (after.order, after.name_is_generated) == (before.order, before.name_is_generated)
        assert after.attributes.items() >= before.attributes.items()


def test_a_table_with_unknown_entries(tmp_path: Path) -> None:
    """Solver parameters under unknown names are left out with a warning."""
    write(read(_file(tmp_path, MUSCLE), policy=collect), tmp_path / "stage.usda")
    text = (tmp_path / "stage.usda").read_text(encoding="utf-8").replace('"solref"', '"stiffness"')
    (tmp_path / "stage.usda").write_text(text, encoding="utf-8")
    back = read(tmp_path / "stage.usda", policy=collect)
    assert {d.code for d in back.diagnostics if d.severity is Severity.WARNING} == {"usd.own-record"}
    assert all(c.solver.solref is None for c in back.constraints)
