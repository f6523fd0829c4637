"""`kinema bench --contact` and the soak: the same scenes for all, judged alike."""

from __future__ import annotations

import json
from pathlib import Path

import mujoco
import numpy as np
import pytest
from typer.testing import CliRunner

from kinema.apps.bench import ContactScene, KinemaSimulator, load_case, simulators as measuring, step_accuracy
from kinema.apps.bench.scenes import load_mujoco_model, scene_file
from kinema.apps.cli import app
from kinema.apps.cli.options import ContactSceneName
from kinema.description import World
from kinema.read import read
from kit.assets import assets
from kit.soak import Soaked, soak

LEG = """<mujoco><option cone="elliptic"/><worldbody><body pos="0 0 0.3">
<joint name="up" type="slide" axis="0 0 1"/><geom type="box" size="0.05 0.05 0.05" mass="1"/>
<body pos="0 0 -0.05"><joint name="knee" axis="0 1 0" range="-60 60"/><geom size="0.02" fromto="0 0 0 0.05 0 -0.15"
type="capsule" mass="0.2"/></body></body></worldbody>
<actuator><motor joint="knee" ctrlrange="-1 1"/></actuator></mujoco>"""
"""A leg that hops on a floor its file does not have."""


@pytest.fixture(scope="module")
def leg(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("leg") / "leg.xml"
    file.write_text(LEG, encoding="utf-8")
    return file


def bench(*arguments: str) -> tuple[int, str]:
    result = CliRunner().invoke(app, ["bench", *arguments, "--seconds", "0.02", "--device", "cpu", "--no-startup"])
    return result.exit_code, result.output


def test_all_simulators_are_judged_alike(leg: Path) -> None:
    status, output = bench(str(leg), "--contact", "floor", "--envs", "16", "--json")
    assert status == 0, output
    report = json.loads(output.splitlines()[-1])
    theirs, *ours = [r["figures"] for r in report["results"]]
    assert theirs["simulator"] == "MuJoCo C, one core"
    assert [f["simulator"] for f in ours] == ["Kinema, rollout, one core", "Kinema, step by step, one core"]
    for figures in (theirs, *ours):
        assert figures["rate"] > 0
        assert figures["finite"]
        assert figures["overflows"] == 0
        assert 0 < figures["contacts"] < 3
        assert figures["error"] < 1e-4
        assert figures["error_99"] < 1e-2  # of velocities that hardly change
        assert figures["residual"] < 1e-3
        assert figures["own_error"] is None  # points are the same
    assert ours[0]["contacts"] == pytest.approx(theirs["contacts"], rel=0.2)
    assert set(report["one_environment"]["leg"]) == {"step", "step(10)", "mj_step", "mj_step(10)"}


def test_a_soak_finds_nothing_wrong_with_a_leg_and_would_say_so(leg: Path) -> None:
    found = soak(load_case(leg, ContactScene.FLOOR), 16, 16 * 200, "cpu")
    assert found.env_steps == 3200
    assert found.faults == []
    assert found.ours.depth > 0
    bad = Soaked("bad", broken=1, growth=100.0)
    bad.ours.beyond_limits, bad.ours.depth = 0.2, 0.1
    assert len(bad.faults) == 4


def test_memory_of_simulators_that_are_gone_does_not_count(monkeypatch: pytest.MonkeyPatch) -> None:
    """One that nobody holds, but itself: what it gives back later would make the next one's negative."""
    in_use = [0]

    class Simulator:
        def __init__(self, n_bytes: int) -> None:
            self.myself, self.n_bytes = self, n_bytes
            in_use[0] += n_bytes

        def __del__(self) -> None:
            in_use[0] -= self.n_bytes

    monkeypatch.setattr(measuring, "_mempool_bytes_in_use", lambda _: float(in_use[0]))
    Simulator(5000)
    before = measuring.device_memory_in_use("cuda:0")
    kept = Simulator(300)
    assert measuring.device_memory_in_use("cuda:0") - before == kept.n_bytes


def test_error_and_residual_see_what_is_wrong(leg: Path) -> None:
    """Both nothing for the step that MuJoCo solves to the end, and large for one without contact."""
    case = load_case(leg, ContactScene.FLOOR)
    report = case.random_controls(case.n_initial_states)[0]
    for solved in (True, False):
        model = case.converged_mujoco_model()
        model.opt.disableflags = int(model.opt.disableflags) & ~1 | (0 if solved else 1)  # 1: no constraints at all
        data, after = mujoco.MjData(model), []
        for i in range(case.n_initial_states):
            mujoco.mj_resetData(model, data)
            data.qpos[:], data.qvel[:], data.ctrl[:] = case.qpos[i], case.qvel[i], report[:, i]
            mujoco.mj_step(model, data)
            after.append(data.qvel.copy())
        model.opt.disableflags = int(model.opt.disableflags) & ~1
        found = step_accuracy(case, np.array(after), report)
        if solved:
            assert max(found.error_99, found.residual) < 1e-9
        else:
            assert min(found.error_99, found.residual) > 0.1


def test_own_error_sees_what_is_wrong(leg: Path) -> None:
    """Little beside double precision; and large where velocities are those of nothing that touches."""
    ours = KinemaSimulator(load_case(leg, ContactScene.FLOOR), 16, "cpu")
    assert ours.error_vs_double_precision < 1e-4
    other = KinemaSimulator(ours.case, 16, "cpu")
    other.statistics.first_step_velocities = other.statistics.first_step_velocities + 1.0
    assert other.error_vs_double_precision > 0.1


@pytest.mark.parametrize(("place", "bodies"), [(ContactScene.TOWER, 20), (ContactScene.CLUTTER, 50)])
def test_both_sides_read_the_same_scene(place: ContactScene, bodies: int) -> None:
    with scene_file(place, None) as file:
        assert load_mujoco_model(file).nv == 6 * bodies
        world = read(file)
    assert isinstance(world, World)
    assert sum(len(r.links) for r in world.robots) == bodies


def test_terrain_is_above_the_floor_and_under_the_robot(leg: Path) -> None:
    with scene_file(ContactScene.TERRAIN, leg) as file:
        model = load_mujoco_model(file)
    assert model.nhfield == 1
    assert float(model.hfield_data.min()) == 0.0
    case = load_case(leg, ContactScene.TERRAIN)
    assert (case.qpos[:, 0] > -0.3).all()


def test_a_hand_holds_its_cube() -> None:
    """Where it is let go, it stays above the floor while the hand keeps still."""
    with scene_file(ContactScene.CUBE, assets("mjcf/shadow_hand/right_hand.xml")) as file:
        model = load_mujoco_model(file)
    data = mujoco.MjData(model)
    mujoco.mj_step(model, data, 300)
    floor = float(model.geom_pos[model.geom_type == 0][0, 2])
    assert data.qpos[-5] > floor + 0.05


def test_places_of_the_command_line_are_all_there_are() -> None:
    assert [p.value for p in ContactSceneName if p is not ContactSceneName.HEAP] == [p.value for p in ContactScene]


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("--contact", "tower", "robot.xml"), "no robot in it"),
        (("--contact", "heap", "robot.xml"), "no robot in it"),
        (("--contact", "heap", "--bodies", "0"), "not a list of numbers"),
        (("--contact", "floor"), "which robots"),
        ((), "which robots"),
        (("robot.xml", "--contact", "floor", "--free"), "nothing is free"),
        (("nowhere.xml", "--contact", "floor"), "no such file"),
    ],
)
def test_what_cannot_be_measured_gives_one_clear_error(arguments: tuple[str, ...], said: str) -> None:
    status, output = bench(*arguments)
    assert status == 2
    assert said in " ".join(output.split())
    assert "Traceback" not in output
