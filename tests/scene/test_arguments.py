"""Arguments that cannot be meant are refused at once, in one sentence."""

from __future__ import annotations

import math
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kit.robots.small_robots import ball, lift


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": "x"}, "dt: expected a time in seconds, not 'x'"),
        ({"dt": True}, "dt: expected a time in seconds, not True"),
        ({"dt": -0.1}, "dt: expected a finite positive time in seconds, not -0.1"),
        ({"dt": math.inf}, "dt: expected a finite positive time"),
        ({"device": "tpu"}, "device: 'tpu' is none of cpu, cuda, cuda:0, cuda:1, ..., auto"),
        ({"device": "cuda:x"}, "device: 'cuda:x' is none of"),
        ({"device": "cpu "}, "device: 'cpu ' is none of"),
        ({"device": 0}, "device: 0 is none of"),
        ({"precision": 32}, "precision: 32 is none of single, double"),
        ({"integrator": ["rk4"]}, "integrator: .* is none of euler, implicitfast, implicit, rk4"),
        ({"substeps": 1.5}, "substeps: expected a whole number, at least one substep, not 1.5"),
        ({"substeps": True}, "substeps: expected a whole number"),
        ({"substeps": "2"}, "substeps: expected a whole number"),
        ({"codegen": "foo"}, "codegen: 'foo' is none of auto, loops, unrolled"),
        ({"gravity": "down"}, "gravity: the values are not numeric"),
        ({"gravity": (0, 0, math.nan)}, "gravity: expected three finite numbers"),
        ({"contacts": "no"}, "contacts: expected True or False, not 'no'"),
        ({"limits": 1}, "limits: expected True or False, not 1"),
    ],
)
def test_scenes(arguments: dict[str, Any], message: str) -> None:
    """When the scene is made, not when it is built or stepped."""
    with pytest.raises(km.KinemaError, match=message):
        km.Scene(**arguments)


@pytest.mark.parametrize("name", ["cpu", "cuda", "cuda:0", "cuda:17", "auto"])
def test_words_that_can_be_a_device(name: str) -> None:
    """Whether it is there is asked when the scene is built."""
    assert km.Scene(device=name).device == name


@pytest.mark.parametrize("n_envs", [2.5, 2.0, 0, -1, True, "3", None, np.bool_(True), np.float32(2)])
def test_numbers_of_environments(n_envs: Any) -> None:
    """Not even a float that is a whole number."""
    scene = km.Scene()
    scene.add(lift())
    with pytest.raises(km.KinemaError, match="build: expected a whole number, at least one environment, not "):
        scene.build(n_envs)


@pytest.mark.parametrize("n", [1.5, "a", True, 0, -3, None, [1], np.float64(1)])
def test_numbers_of_steps(n: Any) -> None:
    """Before anything is compiled."""
    scene = km.Scene()
    scene.add(lift())
    scene.build()
    with pytest.raises(km.KinemaError, match="step: expected a whole number, at least one step, not "):
        scene.step(n)
    assert scene.time == 0.0


def test_numbers_of_numpy_are_numbers() -> None:
    """Integers and floats of any width."""
    scene = km.Scene(dt=np.float32(0.002), substeps=np.int8(2), gravity=np.zeros(3), contacts=np.bool_(False))  # type: ignore[arg-type]
    scene.add(lift())
    three: Any = np.int64(3)
    two: Any = np.uint16(2)
    scene.build(three)
    scene.step(two)
    assert scene.n_envs == 3
    assert scene.time == pytest.approx(0.004)


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"robot": 7}, "add: expected a robot, a world, a body or the path of a file, not 7"),
        ({"robot": None}, "add: expected a robot"),
        ({"fixed": "yes"}, "fixed: expected True or False, not 'yes'"),
        ({"pos": "here"}, "pos: the values are not numeric"),
        ({"pos": (1, 2)}, "pos: expected three finite numbers"),
        ({"quat": (0, 0, 0, 0)}, "quat: expected four numbers"),
        ({"quat": (1, 0, 0)}, "quat: expected four finite numbers"),
    ],
)
def test_what_is_added(arguments: dict[str, Any], message: str) -> None:
    """A robot, and where it goes."""
    with pytest.raises(km.KinemaError, match=message):
        km.Scene().add(**{"robot": lift(), **arguments})


def test_what_is_built() -> None:
    """Switches are True or False."""
    scene = km.Scene()
    scene.add(lift())
    with pytest.raises(km.KinemaError, match="external_forces: expected True or False"):
        scene.build(external_forces="no")  # type: ignore[arg-type]


# -- parameters -------------------------------------------------------------------------------------------------------

PER_ENV = ("kp", "kv", "armature", "damping", "mass_shift", "com_shift", "gravity")
BAD = [
    *((f"set_dofs_{name}", (bad,)) for name in ("kp", "kv", "armature", "damping") for bad in (math.nan, math.inf, -1)),
    *(
        ("set_dofs_force_range", bounds)
        for bounds in ((math.nan, 1), (-1, math.nan), (math.inf,) * 2, (-math.inf,) * 2)
    ),
]
BAD_LATER = [
    *(("set_gravity", ((0, 0, bad),)) for bad in (math.nan, -math.inf)),
    *(("set_com_shift", (bad,)) for bad in (math.nan, math.inf)),
    *(("set_mass_shift", (bad,)) for bad in (math.nan, math.inf)),
]


@pytest.mark.parametrize("per_env", [None, (), PER_ENV], ids=["before", "shared", "each its own"])
def test_parameters_that_no_simulation_can_have(per_env: tuple[str, ...] | None) -> None:
    """Refused by one sentence before building and after it, and nothing is set; bounds may be open."""
    scene = km.Scene(contacts=False, limits=False)
    arm = scene.add(lift())
    if per_env is not None:
        scene.build(2, per_env=per_env)
    for name, values in [*BAD, *(BAD_LATER if per_env else ())]:
        if per_env == () and name in ("set_dofs_armature", "set_dofs_damping"):
            continue  # constants by now: refused whatever they are
        with pytest.raises(km.KinemaError, match=rf"^{name}: expected [a-z ]+, not (nan|-?inf|-1)$"):
            getattr(arm, name)(*values)
    arm.set_dofs_force_range(-math.inf, math.inf)
    if per_env is not None:
        scene.step()
        assert not scene.get_error_envs_mask().any()


SETTERS = [
    *("set_qpos", "set_qvel", "set_dofs_position", "set_dofs_velocity"),
    *("control_dofs_position", "control_dofs_velocity", "control_dofs_force"),
    *("apply_dofs_external_force", "apply_links_external_force", "apply_links_external_torque"),
]


@pytest.fixture(scope="module")
def floating() -> tuple[km.Scene, km.Entity]:
    """Two environments of a ball."""
    scene = km.Scene(contacts=False, quiet=True)
    entity = scene.add(ball())
    scene.build(2, external_forces=True, per_env=("mass_shift", "com_shift"))
    return scene, entity


@pytest.mark.parametrize("bad", [math.nan, math.inf, -math.inf])
def test_states_and_commands_are_finite(floating: Any, bad: float) -> None:
    """A wrong number is refused by the setter that was called, and nothing is set."""
    scene, entity = floating
    before = scene.get_state()
    for name in SETTERS:
        if name == "control_dofs_position":  # of a quaternion: no positions
            continue
        with pytest.raises(km.KinemaError, match=f"^{name}: expected finite numbers, not {bad:g}$"):
            getattr(entity, name)(bad)
    for name, values in (("set_pos", [0, 0, bad]), ("set_quat", [1, 0, 0, bad])):
        for relative in (False, True):
            with pytest.raises(km.KinemaError, match=f"^{name}: expected finite numbers, not {bad:g}$"):
                getattr(entity, name)(values, relative=relative)
    with pytest.raises(km.KinemaError, match=f"^rollout: force: expected finite numbers, not {bad:g}$"):
        scene.rollout(entity, force=np.full((2, 6), bad))
    after = scene.get_state()
    assert all(np.array_equal(after.arrays[name], values) for name, values in before.arrays.items())


def test_nan_in_memory_is_flagged(tmp_path: Path) -> None:
    """Tensors are not checked: the step flags NaN, which no range hides; infinity is the limit of the range."""
    file = tmp_path / "servo.xml"
    file.write_text(
        """<mujoco><worldbody><body><joint name="j" axis="0 1 0"/><geom size=".1" pos="0 0 .3"/></body></worldbody>
        <actuator><position joint="j" kp="10" ctrlrange="-1 1" forcerange="-5 5"/></actuator></mujoco>""",
        encoding="utf-8",
    )
    scene = km.Scene(quiet=True)
    servo = scene.add(file)
    scene.build(3)
    scene.built.arrays.write("ctrl", np.arange(1), np.array([[0.5], [math.inf], [math.nan]]))
    scene.step()
    assert scene.get_error_envs_mask().tolist() == [False, False, True]
    assert servo.get_control()[0, 0] == 0.5


def test_setters_name_themselves(floating: Any) -> None:
    """Also those that call another one."""
    scene, entity = floating
    with pytest.raises(km.KinemaError, match=r"^rollout: force: expected values of shape \(n_commands, 6\)"):
        scene.rollout(entity, force=np.zeros((3, 5)))
    for name, arguments in (
        ("set_pos", ([1.0, 2.0],)),
        ("set_quat", ([0.0, 0.0, 0.0, 0.0],)),
        ("set_mass", (-1.0,)),
        ("set_mass", ("heavy",)),
        ("set_links_inertial_mass", (-1.0,)),
        ("set_com_shift", ([1.0, 2.0],)),
    ):
        with pytest.raises(km.KinemaError, match=f"^{name}: "):
            getattr(entity, name)(*arguments)


def test_one_vector_for_one_link(floating: Any) -> None:
    """A force, torque or displacement of one link is a vector, or one for each environment."""
    scene, entity = floating
    rows = scene.built.arrays.get
    entity.apply_links_external_force([0, 0, 100], links_idx=entity.links[0].name)
    entity.apply_links_external_torque([[0, 1, 2], [3, 4, 5]])
    entity.set_com_shift([0.0, 0.0, 0.01])
    assert rows("cfrc_applied_vel").T.tolist() == [[0, 0, 100]] * 2
    assert rows("cfrc_applied_ang").T.tolist() == [[0, 1, 2], [3, 4, 5]]
    np.testing.assert_allclose(rows("com_shift").T, [[0, 0, 0.01]] * 2)
    with pytest.raises(km.KinemaError, match=r"^apply_links_external_force: expected values of shape"):
        entity.apply_links_external_force([1.0, 2.0])


def test_links_do_not_lose_more_than_their_mass() -> None:
    """The link is named; all of its mass is not more."""
    scene = km.Scene(contacts=False, limits=False)
    arm = scene.add(lift())
    scene.build(2, per_env=("mass_shift",))
    heavy = arm.links[-1]
    with pytest.raises(km.KinemaError, match=f'set_mass_shift: the mass of link "{heavy.name}" would be negative'):
        arm.set_mass_shift([[-0.5 * heavy.mass], [-1.5 * heavy.mass]], [heavy.idx])
    arm.set_mass_shift([[-0.5 * heavy.mass], [-heavy.mass]], [heavy.idx])
