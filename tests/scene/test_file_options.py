"""`<option>` and `<flag>` of MJCF: followed as MuJoCo does, or said by the scene."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.description import FLAG_DEFAULTS, OPTION_DEFAULTS
from kinema.model import Model
from kinema.scene import options as options_module
from kinema.scene.options import SOLVER_SETTINGS
from kit.robots.small_robots import from_text, lift

TEXT = """<mujoco model="{name}"><option timestep="0.002" integrator="implicitfast" {option}><flag {flag}/></option>
<default><geom contype="0" conaffinity="0"/></default><worldbody>
<body name="upper"><joint name="a" axis="0 1 0" stiffness="3" springref="20" damping="2" range="-5 5" frictionloss="1"
 {joint}/><geom size=".1" pos=".3 0 0"/>
<body name="lower" gravcomp="0.75" pos=".4 0 0"><joint name="b" axis="0 1 0" armature=".1" {joint}/>
<geom size=".1" pos=".3 0 0"/><body name="tip" pos=".3 0 .1"><joint name="c" type="slide" axis="1 0 0" {joint}/>
<geom size=".05"/></body></body></body></worldbody>
<tendon><fixed name="t" stiffness="4" damping="1.5" springlength="0.1"><joint joint="a" coef="1"/>
<joint joint="c" coef="-2"/></fixed></tendon>
<equality><joint joint1="a" joint2="b"/></equality>
<actuator><motor name="m0" joint="a" ctrlrange="-1 1" ctrllimited="true" group="0"/>
<position name="m1" joint="b" kp="7" ctrlrange="-.5 .5" ctrllimited="true" group="1"/>
<motor name="m2" joint="c" gear="3" group="2"/></actuator></mujoco>"""

FOLLOWED = {
    "nothing": {},
    "spring": {"flag": 'spring="disable"'},
    "damper": {"flag": 'damper="disable"'},
    "spring and damper": {"flag": 'spring="disable" damper="disable"'},
    "gravity": {"flag": 'gravity="disable"'},
    "another gravity": {"option": 'gravity="1 -2 3"'},
    "clampctrl": {"flag": 'clampctrl="disable"'},
    "limit": {"flag": 'limit="disable"'},
    "frictionloss": {"flag": 'frictionloss="disable"'},
    "equality": {"flag": 'equality="disable"'},
    "constraint": {"flag": 'constraint="disable"'},
    "actuation": {"flag": 'actuation="disable"'},
    "groups": {"option": 'actuatorgroupdisable="0 2"'},
    "actuation and compensation": {"flag": 'actuation="disable"', "joint": 'actuatorgravcomp="true"'},
    "compensation by actuators": {"joint": 'actuatorgravcomp="true" actuatorfrcrange="-1 .5"'},
    "passive and compensation": {
        "flag": 'spring="disable" damper="disable"',
        "joint": 'actuatorgravcomp="true"',
    },
}


def _text(**settings: str) -> str:
    return TEXT.format(**{"name": "robot", "option": "", "flag": "", "joint": "", **settings})


def _peer(text: str) -> tuple[Any, Any]:
    model = mujoco.MjModel.from_xml_string(text)
    model.opt.disableflags |= mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.opt.tolerance, model.opt.iterations, model.opt.ls_tolerance = 0.0, 200, 1e-6
    data = mujoco.MjData(model)
    data.qpos[:] = (0.3, -0.4, 0.05)
    data.qvel[:] = (0.5, 1.0, -0.7)
    data.ctrl[:] = (3.0, -2.0, 0.6)
    return model, data


def _scene(text: str, folder: Path, **settings: Any) -> tuple[km.Scene, Any]:
    scene = km.Scene(**{"contacts": False, "precision": "double", "quiet": True, **settings})
    entity = scene.add(from_text(folder, text))
    scene.build(1)
    entity.set_qpos((0.3, -0.4, 0.05))
    entity.set_qvel((0.5, 1.0, -0.7))
    targets = {"m0": 3.0, "m1": -2.0, "m2": 0.6}
    if entity.n_actuators:
        entity.control([targets[name] for name in entity.actuator_names])
    return scene, entity


@pytest.mark.wide
@pytest.mark.parametrize("case", FOLLOWED)
def test_forces_are_mujocos(case: str, tmp_path: Path) -> None:
    """All that accelerates the joints, and what of it actuators do."""
    text = _text(**FOLLOWED[case])
    model, data = _peer(text)
    mujoco.mj_forward(model, data)
    _, entity = _scene(text, tmp_path)
    wanted = data.qfrc_passive + data.qfrc_actuator - data.qfrc_bias + data.qfrc_constraint
    np.testing.assert_allclose(entity.get_dofs_force()[0], wanted, atol=1e-9)
    np.testing.assert_allclose(entity.get_dofs_control_force()[0], data.qfrc_actuator, atol=1e-9)


@pytest.mark.parametrize("case", ["clampctrl", "spring and damper", "groups", "frictionloss", "equality"])
def test_steps_are_mujocos(case: str, tmp_path: Path) -> None:
    """The compiled program, a few steps on; accelerations first."""
    text = _text(**FOLLOWED[case])
    model, data = _peer(text)
    scene, entity = _scene(text, tmp_path)
    mujoco.mj_forward(model, data)
    before = entity.get_qvel()[0]
    scene.step()
    data_of_one = mujoco.MjData(model)
    data_of_one.qpos[:], data_of_one.qvel[:], data_of_one.ctrl[:] = data.qpos, data.qvel, data.ctrl
    mujoco.mj_step(model, data_of_one)
    np.testing.assert_allclose(
        (entity.get_qvel()[0] - before) / 0.002, (data_of_one.qvel - data.qvel) / 0.002, atol=1e-7
    )
    scene.step(19)
    mujoco.mj_step(model, data, 20)
    np.testing.assert_allclose(entity.get_qpos()[0], data.qpos, atol=1e-10)
    np.testing.assert_allclose(entity.get_qvel()[0], data.qvel, atol=1e-9)


def test_actuators_that_are_off_are_left_out_with_a_note(tmp_path: Path) -> None:
    """By name; the others keep their order."""
    scene, entity = _scene(_text(option='actuatorgroupdisable="0 2"'), tmp_path)
    assert entity.actuator_names == ["m1"]
    (note,) = [d for d in scene.diagnostics if d.code == "sim.actuators-off"]
    assert '"m0", "m2"' in note.message
    assert str(note.origin)
    scene, entity = _scene(_text(flag='actuation="disable"'), tmp_path)
    assert entity.actuator_names == []
    assert "sim.actuators-off" in scene.diagnostics.codes()


@pytest.mark.parametrize("flag", ["limit", "frictionloss", "equality", "contact", "constraint"])
def test_what_a_file_switches_off_is_not_there(flag: str, tmp_path: Path) -> None:
    """What a file switches off is not in the model."""
    text = _text(flag=f'{flag}="disable"').replace('contype="0" conaffinity="0"', "")
    scene, _ = _scene(text, tmp_path, contacts=True)
    model: Model = scene.built.model

    def off(*flags: str) -> bool:
        return flag in (*flags, "constraint")

    assert scene.built.engine.settings.contacts == (not off("contact"))
    assert np.isinf(model.dofs.upper).all() == off("limit")
    assert (model.dofs.frictionloss == 0.0).all() == off("frictionloss")
    assert (not model.couplings.names) == off("equality")
    assert model.options.contact == (not off("contact"))


def test_what_the_dynamics_needs_is_in_the_model(tmp_path: Path) -> None:
    """The flag `eulerdamp`, and which joints' actuators compensate gravity."""
    plain = build_model([EntitySpec(name="r", description=from_text(tmp_path, _text()))])
    assert plain.options.eulerdamp
    assert not plain.dofs.actuator_gravcomp.any()
    text = _text(flag='eulerdamp="disable"', joint='actuatorgravcomp="true"')
    asked = build_model([EntitySpec(name="r", description=from_text(tmp_path, text))])
    assert not asked.options.eulerdamp
    assert asked.dofs.actuator_gravcomp.all()
    np.testing.assert_allclose(asked.links.gravity_scale[[0, 1]], [1.0, 0.25])


# -- what the scene decides, or nobody follows ------------------------------------------------------------------------


def _codes(text: str, folder: Path, **settings: Any) -> set[str]:
    scene, _ = _scene(text, folder, **settings)
    for diagnostic in scene.diagnostics:
        if diagnostic.code in ("scene.timestep", "scene.integrator", "sim.sleep", "sim.solver-options"):
            assert str(diagnostic.origin)
    return set(scene.diagnostics.codes())


OTHER_STEPS = ('timestep="0.002" integrator="implicitfast"', 'timestep="0.005" integrator="RK4"')


def test_time_step_and_integrator_of_the_file_are_noted_if_they_differ(tmp_path: Path) -> None:
    """The scene's arguments decide; a substep may be what the file says."""
    said = {"scene.timestep", "scene.integrator"}
    assert not said & _codes(_text(), tmp_path)
    assert said <= _codes(_text(), tmp_path, dt=0.004, integrator="euler")
    assert not said & _codes(_text(), tmp_path, dt=0.004, substeps=2)
    other = _text().replace(*OTHER_STEPS)
    assert said <= _codes(other, tmp_path, dt=0.002, integrator="implicitfast")
    assert not said & _codes(other, tmp_path, substeps=2)


def test_time_step_and_integrator_of_the_file_are_adopted(tmp_path: Path) -> None:
    """Unless the scene has its own; the summary names the file, and files that give none leave the defaults."""
    other = _text().replace(*OTHER_STEPS)
    scene, _ = _scene(other, tmp_path)
    assert (scene.dt, scene.integrator) == (0.005, "rk4")
    assert scene.built.engine.dt == 0.005
    assert "dt 0.005 s (rk4, both as in the file of" in scene.summary()
    scene, _ = _scene(other, tmp_path, dt=0.001)
    assert (scene.dt, scene.integrator) == (0.001, "rk4")
    assert '(rk4, integrator as in the file of "' in scene.summary()
    scene, _ = _scene(_text().replace(OTHER_STEPS[0], 'integrator="Euler"'), tmp_path)
    assert (scene.dt, scene.integrator) == (0.002, "euler")
    scene, _ = _scene(_text().replace(OTHER_STEPS[0], ""), tmp_path)
    assert (scene.dt, scene.integrator) == (0.002, "implicitfast")
    assert "as in the file" not in scene.summary()


def test_files_that_differ_in_the_time_step_are_refused(tmp_path: Path) -> None:
    """One sentence names both; an explicit time step and a file without one are accepted."""
    one = from_text(tmp_path, _text())
    other = from_text(tmp_path, _text().replace(*OTHER_STEPS))
    silent = from_text(tmp_path, _text().replace(OTHER_STEPS[0], ""))
    scene = km.Scene(quiet=True)
    scene.add(one, name="one")
    scene.add(silent, name="silent")
    assert scene.dt == 0.002
    scene.add(other, name="other")
    message = r'the files of "one" and "other" differ in timestep, 0\.002 and 0\.005: choose'
    with pytest.raises(km.KinemaError, match=message):
        scene.build()
    scene = km.Scene(dt=0.001, integrator="euler", quiet=True)
    for description in (one, other):
        scene.add(description)
    scene.build()
    assert (scene.dt, scene.integrator) == (0.001, "euler")


@pytest.mark.parametrize(
    ("settings", "code", "words"),
    [
        ({"flag": 'sleep="enable"', "option": 'solver="CG"'}, "sim.sleep", ("sleep", "solver cg")),
        (
            {"option": 'solver="PGS"'},
            "sim.solver-options",
            ("the solver pgs", "newton is used, which converges to the same forces"),
        ),
        ({"option": 'jacobian="sparse"'}, "sim.solver-options", ("jacobian sparse",)),
        ({"flag": 'nativeccd="disable"'}, "sim.solver-options", ("the flag nativeccd",)),
        ({"option": 'o_margin="1"', "flag": 'override="enable"'}, "sim.solver-options", ("o_margin", "override")),
    ],
)
def test_what_nothing_follows_is_said(
    settings: dict[str, str], code: str, words: tuple[str, ...], tmp_path: Path
) -> None:
    """By name."""
    scene, _ = _scene(_text(**settings), tmp_path)
    (found,) = [d for d in scene.diagnostics if d.code == code]
    assert all(word in found.message for word in words)
    assert code not in _codes(_text(), tmp_path)


def test_one_gravity_for_all(tmp_path: Path) -> None:
    """That of the first file; a file that says another is warned of, unless the scene was told."""
    texts = [_text(name="one"), _text(name="two", option='gravity="0 0 -1"')]
    for gravity, warned in ((None, True), ((0.0, 0.0, -5.0), False)):
        scene = km.Scene(gravity=gravity, contacts=False, limits=False)
        for i, text in enumerate(texts):
            scene.add(from_text(tmp_path, text, f"{i}.xml"))
        scene.build()
        assert ("sim.gravity" in scene.diagnostics.codes()) == warned


def test_one_set_of_switches_for_all(tmp_path: Path) -> None:
    """What cannot differ between files is off for all where one switches it off."""
    scene = km.Scene(contacts=False, limits=False)
    scene.add(from_text(tmp_path, _text(flag='eulerdamp="disable"')))
    scene.add(lift())
    scene.build()
    assert not scene.built.model.options.eulerdamp
    (found,) = [d for d in scene.diagnostics if d.code == "sim.options-differ"]
    assert '"lift" enables eulerdamp' in found.message


STANDING = """<mujoco><option timestep="0.002"><flag multiccd="{multiccd}"/></option><worldbody>
<geom type="box" size="1 1 .1" pos="0 0 -.1"/><body pos="0 0 .199" euler="0 0 20"><freejoint/>
<geom type="cylinder" size=".1 .2"/></body></worldbody></mujoco>"""
"""A cylinder on a box: no formula tells where they touch."""


@pytest.mark.parametrize("asked", [None, True, False])
@pytest.mark.parametrize("said", [True, False])
def test_convex_shapes_touch_in_one_point_by_choice(said: bool, asked: bool | None, tmp_path: Path) -> None:
    """As the file says, unless the scene is asked; the one point is MuJoCo's, or as deep, and on its face as well."""
    text = STANDING.format(multiccd="enable" if said else "disable")
    scene = km.Scene(multiccd=asked, precision="double")
    scene.add(from_text(tmp_path, text))
    scene.build()
    found = scene.get_contacts()
    count = int(found["valid_mask"].sum())
    assert "sim.solver-options" not in scene.diagnostics.codes()
    if said if asked is None else asked:
        assert count == 8
        return
    assert count == 1
    model = mujoco.MjModel.from_xml_string(STANDING.format(multiccd="disable"))
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    assert data.ncon == 1
    assert found["penetration"].max() == pytest.approx(-data.contact.dist[0], abs=1e-6)
    np.testing.assert_allclose(np.abs(found["normal"][0][0]), [0.0, 0.0, 1.0], atol=1e-6)


def test_a_files_switches_are_its_own(tmp_path: Path) -> None:
    """Springs that one file switches off stay on in the others."""
    scene = km.Scene(contacts=False, limits=False)
    scene.add(from_text(tmp_path, _text(name="off", flag='spring="disable"'), "off.xml"))
    scene.add(from_text(tmp_path, _text(name="on"), "on.xml"))
    scene.build()
    assert scene.built.model.dofs.stiffness.tolist() == [0.0, 0.0, 0.0, 3.0, 0.0, 0.0]
    assert scene.built.model.tendons.stiffness.tolist() == [0.0, 4.0]


# -- completeness -----------------------------------------------------------------------------------------------------

FOLLOWED_OPTIONS = {"cone", "impratio", "gravity", "disableactuator", "density", "viscosity", "wind", *SOLVER_SETTINGS}
DECIDED_BY_THE_SCENE = {"timestep", "integrator"}
REPORTED = {"sleep", "sleep_tolerance"}
FOLLOWED_FLAGS = {
    *("constraint", "equality", "frictionloss", "limit", "contact", "spring", "damper", "gravity", "clampctrl"),
    *("actuation", "eulerdamp", "refsafe", "multiccd", "speculative"),
}


def test_every_setting_of_mujoco_is_followed_or_said() -> None:
    """Nothing that MuJoCo knows is without a decision here; a new one has to get one."""
    fields = {n for n in dir(mujoco.MjOption) if not n.startswith("_")} - {"disableflags", "enableflags"}
    decided = FOLLOWED_OPTIONS | DECIDED_BY_THE_SCENE | REPORTED
    decided |= {
        *options_module.UNUSED_SOLVER_OPTIONS,
        *options_module.CONTACT_OVERRIDE_OPTIONS,
        *options_module.FLAGS_WITHOUT_EFFECT_ON_MOTION,
    }
    assert {n for n in fields if not callable(getattr(mujoco.MjOption, n))} <= decided
    flags = [*mujoco.mjtDisableBit.__members__, *mujoco.mjtEnableBit.__members__]
    names = {n.split("_", 1)[1].lower() for n in flags if not n.startswith("mjN")}
    assert names <= FOLLOWED_FLAGS | REPORTED | {
        *options_module.UNUSED_CONSTRAINT_FLAGS,
        *options_module.FLAGS_WITHOUT_EFFECT_ON_MOTION,
    }
    assert names <= set(FLAG_DEFAULTS)


def test_defaults_are_mujocos() -> None:
    """What counts where a file says nothing."""
    options = mujoco.MjModel.from_xml_string("<mujoco/>").opt
    for name, default in OPTION_DEFAULTS.items():
        if not isinstance(default, str):
            np.testing.assert_allclose(getattr(options, name), default, err_msg=name)
    assert options.disableflags == 0
    assert options.enableflags == 0
