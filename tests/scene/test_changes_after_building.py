"""What commands mean, gains, bounds, gravity and the step may change at any time: nothing is compiled again."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.dynamics.engine import engine as engine_module
from kinema.dynamics.queries import fields as fields_module
from kinema.runtime import Kernel
from kinema.scene.recording import Recording
from kit.robots.small_robots import SERVO, ball, from_text, reacher

N_ENVS = 3
Tell = Callable[[Any], None]


@pytest.fixture
def compiled(monkeypatch: pytest.MonkeyPatch) -> list[object]:
    """Grows with every program that is compiled, of steps and of fields."""
    made: list[object] = []

    def counted(program: object, *arguments: Any, **more: Any) -> Kernel:
        made.append(program)
        return Kernel(program, *arguments, **more)  # type: ignore[arg-type]

    for module in (engine_module, fields_module):
        monkeypatch.setattr(module, "Kernel", counted)
    return made


@dataclass(frozen=True)
class Change:
    """How a scene is built with some values, how it is told them later, and what it is commanded then."""

    tell: Tell
    before: Tell = lambda arm: None
    after: Tell = lambda arm: None
    made_with: dict[str, Any] = field(default_factory=dict)


def gains(arm: Any) -> None:
    arm.set_dofs_kp([31.0, 22.0, 53.0])
    arm.set_dofs_kv([3.5, 2.5, 5.5])


def other_gains(arm: Any) -> None:
    arm.set_dofs_kp([60.0, 10.0, 70.0])
    arm.set_dofs_kv(4.0, ["elbow", 0])


def bounds(arm: Any) -> None:
    arm.set_dofs_force_range([-1.0, -2.0, -0.5], [2.0, 0.5, 1.0])


def gains_and_bounds(arm: Any) -> None:
    other_gains(arm)
    bounds(arm)


def finer(arm: Any) -> None:
    arm.scene.dt = 0.0005


def sideways(arm: Any) -> None:
    arm.scene.set_gravity(SIDEWAYS)


def everything(arm: Any) -> None:
    for change in (other_gains, bounds, finer, sideways):
        change(arm)


def by_force(arm: Any) -> None:
    arm.control_dofs_force(TARGET)


def by_velocity(arm: Any) -> None:
    arm.control_dofs_velocity(TARGET)


def by_position(arm: Any) -> None:
    arm.control_dofs_position(TARGET)


def in_turn(arm: Any) -> None:
    arm.control_dofs_position(0.4, "shoulder")
    arm.control_dofs_velocity(-0.7, "elbow")
    arm.control_dofs_force(1.5, "push")


SIDEWAYS = (1.0, 2.0, -3.0)
TARGET = [0.3, -0.4, 0.2]
CHANGES = {
    "force": Change(by_force),
    "velocity": Change(by_velocity),
    "position": Change(by_position),
    "a mode each": Change(in_turn),
    "gains": Change(by_position, other_gains, other_gains),
    "gains of velocity control": Change(by_velocity, other_gains, other_gains),
    "bounds": Change(by_position, bounds, bounds),
    "gravity": Change(by_force, after=sideways, made_with={"gravity": SIDEWAYS}),
    "dt": Change(by_position, after=finer, made_with={"dt": 0.0005}),
    "all of it": Change(in_turn, gains_and_bounds, everything, {"dt": 0.0005, "gravity": SIDEWAYS}),
}
how_it_is_stepped = pytest.mark.parametrize("codegen", ["unrolled", "loops"])


def scene_with(codegen: str, before: Tell, **made_with: Any) -> tuple[km.Scene, Any]:
    scene = km.Scene(precision="double", quiet=True, codegen=codegen, **made_with)
    arm = scene.add(reacher())
    gains(arm)
    before(arm)
    scene.build(N_ENVS)
    return scene, arm


def started(arm: Any) -> None:
    rng = np.random.default_rng(5)
    arm.set_qpos(rng.normal(size=(N_ENVS, 3)))
    arm.set_qvel(rng.normal(size=(N_ENVS, 3)))


def seen(scene: km.Scene, arm: Any) -> dict[str, np.ndarray]:
    """Everything that depends on what was changed: state, forces, energies and other fields."""
    kinetic, potential = scene.get_energy()
    return {
        "coordinates": arm.get_qpos(),
        "velocities": arm.get_qvel(),
        "forces": arm.get_dofs_force(),
        "control": arm.get_dofs_control_force(),
        "links": arm.get_links_pos(),
        "accelerations": scene.dofs.acc.numpy().copy(),
        "loads": scene.links.cfrc_vel.numpy().copy(),
        "kinetic energy": kinetic,
        "potential energy": potential,
    }


@pytest.mark.wide
@how_it_is_stepped
@pytest.mark.parametrize("name", CHANGES)
def test_nothing_is_compiled_again(name: str, codegen: str, compiled: list[object]) -> None:
    """And it goes on as a scene does that was built with those values, to the bit."""
    change = CHANGES[name]
    scene, arm = scene_with(codegen, lambda arm: None)
    for tell in (by_position, by_force):
        tell(arm)
        scene.step(2)
        seen(scene, arm)
    enough = len(compiled)
    assert enough > 0
    change.after(arm)
    scene.reset()
    started(arm)
    change.tell(arm)
    scene.step(25)
    found = seen(scene, arm)
    assert len(compiled) == enough
    other, twin = scene_with(codegen, change.before, **change.made_with)
    started(twin)
    change.tell(twin)
    other.step(25)
    assert len(compiled) > enough, "the count sees what is compiled"
    for what, expected in seen(other, twin).items():
        np.testing.assert_array_equal(found[what], expected, err_msg=what)
    assert np.isfinite(found["coordinates"]).all()


@pytest.mark.parametrize("name", [n for n in CHANGES if n not in ("force", "velocity")])
def test_the_changes_change_something(name: str) -> None:
    """Else the test above would see nothing."""
    ends = []
    for after in (CHANGES[name].after, lambda arm: None):
        scene, arm = scene_with("unrolled", lambda arm: None)
        after(arm)
        started(arm)
        (CHANGES[name].tell if after is CHANGES[name].after else by_force)(arm)
        scene.step(25)
        ends.append(arm.get_qvel())
    assert np.abs(ends[0] - ends[1]).max() > 1e-3


def test_time_goes_on_by_the_steps_that_were_taken() -> None:
    """Whatever their length; substeps divide the new one too."""
    scene = km.Scene(dt=0.01, substeps=4, quiet=True)
    scene.add(reacher())
    scene.build()
    scene.step(3)
    scene.dt = 0.002
    assert scene.dt == 0.002
    scene.step(5)
    assert scene.time == pytest.approx(3 * 0.01 + 5 * 0.002)
    for wrong in (0.0, -1.0, "x", None, float("nan")):
        with pytest.raises(km.KinemaError, match="dt: "):
            scene.dt = wrong  # type: ignore[assignment]
    assert scene.dt == 0.002


def test_substeps_divide_a_new_step_too() -> None:
    """Ten substeps of a tenth of it each."""
    ends = []
    for substeps, dt in ((1, 0.0002), (10, 0.002)):
        scene = km.Scene(dt=0.01, substeps=substeps, precision="double", quiet=True)
        arm = scene.add(reacher())
        scene.build()
        scene.step()
        scene.reset()
        scene.dt = dt
        arm.set_qvel([1.0, 2.0, 3.0])
        scene.step(20 if substeps == 10 else 200)
        ends.append(arm.get_qpos())
    np.testing.assert_array_equal(*ends)


def test_two_programs_serve_a_robot_with_actuators(tmp_path: Path, compiled: list[object]) -> None:
    """One for its actuators alone, one for commands as well; back and forth between them, and among all modes."""
    scene = km.Scene(precision="double", quiet=True)
    arm = scene.add(from_text(tmp_path, SERVO))
    scene.build(N_ENVS)
    tells: list[Tell] = [
        lambda arm: arm.control([0.3, 0.2]),
        lambda arm: arm.control_dofs_position([0.1, 0.2]),
        lambda arm: arm.control_dofs_force([0.1], "wrist"),
        lambda arm: arm.control([0.3], ["servo"]),
        lambda arm: arm.control_dofs_velocity([0.1, 0.2]),
        lambda arm: arm.control([0.3, 0.2]),
    ]
    for tell in tells:
        tell(arm)
        scene.step()
    assert len(compiled) == 2
    for tell in (*tells, *reversed(tells)):
        tell(arm)
        scene.step()
    assert len(compiled) == 2


def test_gains_of_some_environments_need_to_be_asked_for(compiled: list[object]) -> None:
    """Then they differ, and nothing is compiled for that either."""
    scene = km.Scene(precision="double", quiet=True)
    arm = scene.add(reacher())
    gains(arm)
    scene.build(N_ENVS, per_env=("kp", "kv", "gravity"))
    by_position(arm)
    scene.step()
    enough = len(compiled)
    arm.set_dofs_kp([1.0, 2.0, 3.0], envs_idx=[1])
    scene.set_gravity(SIDEWAYS, envs_idx=[1])
    scene.reset()
    started(arm)
    by_position(arm)
    scene.step(25)
    assert len(compiled) == enough
    for env, (kp, gravity) in enumerate([(None, None), ([1.0, 2.0, 3.0], SIDEWAYS), (None, None)]):
        other = km.Scene(precision="double", quiet=True, gravity=gravity)
        twin = other.add(reacher())
        gains(twin)
        if kp is not None:
            twin.set_dofs_kp(kp)
        other.build(N_ENVS)
        started(twin)
        by_position(twin)
        other.step(25)
        np.testing.assert_allclose(arm.get_qpos()[env], twin.get_qpos()[env], rtol=1e-12)


def test_what_all_environments_share_may_be_said_of_all_of_them() -> None:
    """By a number each that is the same, by all of their numbers, or by a slice or mask of all."""
    scene, arm = scene_with("unrolled", lambda arm: None)
    arm.set_dofs_kp(np.full((N_ENVS, 3), 7.0))
    arm.set_dofs_kv(8.0, envs_idx=[2, 0, 1])
    arm.set_dofs_kv(9.0, "elbow", envs_idx=slice(None))
    scene.set_gravity(SIDEWAYS, envs_idx=np.ones(N_ENVS, bool))
    memory = scene.built.arrays
    assert memory.read("kp", slice(None)).tolist() == [[7.0] * 3] * N_ENVS
    assert memory.read("kv", slice(None)).tolist() == [[8.0, 9.0, 8.0]] * N_ENVS
    assert memory.read("gravity", slice(None)).tolist() == [list(SIDEWAYS)] * N_ENVS


def test_one_environment_named_several_times_is_not_all_of_them() -> None:
    """However often it is named."""
    _, arm = scene_with("unrolled", lambda arm: None)
    with pytest.raises(km.KinemaError, match="environments share this"):
        arm.set_dofs_kp(1.0, envs_idx=[0] * N_ENVS)


def test_gains_that_nobody_gave_are_not_in_the_way() -> None:
    """Set after they were assumed, they count; what was set before a mode is asked for is not replaced."""
    scene = km.Scene(precision="double", quiet=True)
    arm, thing = scene.add(reacher()), scene.add(ball())
    scene.build()
    arm.set_dofs_kp([5.0, 6.0, 7.0])
    arm.control_dofs_position(0.0)
    thing.control_dofs_velocity(0.0)
    memory = scene.built.arrays
    assert memory.read("kp", slice(None))[0, :3].tolist() == [5.0, 6.0, 7.0]
    assert memory.read("gain_position", slice(None))[0, :3].tolist() == [5.0, 6.0, 7.0]
    arm.set_dofs_kv(0.25)
    assert memory.read("gain_velocity", slice(None))[0, :3].tolist() == [0.25] * 3


def test_damping_that_environments_have_of_their_own_stays_when_a_stiffness_is_assumed() -> None:
    scene = km.Scene(quiet=True)
    arm = scene.add(reacher())
    scene.build(2, per_env=("kv",))
    arm.set_dofs_kv([[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    arm.control_dofs_position(0.0)
    np.testing.assert_array_equal(arm.get_dofs_kv(), [[1.0, 2.0, 3.0], [4.0, 5.0, 6.0]])
    assert (arm.get_dofs_kp() > 0.0).all()


def test_sensors_and_recordings_follow_a_scene_that_is_built_again(tmp_path: Path) -> None:
    """`allow_per_env` replaces the engine: sensors and recordings that exist already read the new one."""
    file = tmp_path / "pendulum.xml"
    file.write_text(
        "<mujoco><worldbody><body><joint name='hinge' damping='0.1'/><geom size='0.1' pos='0 0 -0.5'/></body>"
        "</worldbody><sensor><jointpos name='angle' joint='hinge'/></sensor></mujoco>"
    )
    scene = km.Scene(quiet=True)
    pendulum = scene.add(file, fixed=True)
    scene.build(2)
    angle = scene.sensors["angle"]
    assert not angle.read().any()
    with scene.record(tmp_path / "motion.npz") as recording:
        scene.allow_per_env("damping")
        pendulum.set_qpos([0.7])
        scene.step()
    assert (angle.read() == pendulum.get_qpos()).all()
    assert isinstance(recording, Recording)
    assert (recording.frames.arrays["qpos"][-1] == pendulum.get_qpos()).all()
    assert pendulum.get_qpos().any()
