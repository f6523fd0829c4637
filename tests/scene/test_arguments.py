"""Arguments that cannot be meant are refused at once, in one sentence."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest

import kinema as km
from kit.robots.small_robots import lift


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        ({"dt": "x"}, "dt: expected a time in seconds, not 'x'"),
        ({"dt": True}, "dt: expected a time in seconds, not True"),
        ({"dt": -0.1}, "dt: expected a finite positive time in seconds, not -0.1"),
        ({"dt": math.inf}, "dt: expected a finite positive time"),
        ({"dt": None}, "dt: expected a time"),
        ({"device": "tpu"}, "device: 'tpu' is none of cpu, cuda, cuda:0, cuda:1, ..., auto"),
        ({"device": "cuda:x"}, "device: 'cuda:x' is none of"),
        ({"device": "cpu "}, "device: 'cpu ' is none of"),
        ({"device": 0}, "device: 0 is none of"),
        ({"precision": 32}, "precision: 32 is none of single, double"),
        ({"integrator": ["rk4"]}, "integrator: .* is none of euler, implicitfast, rk4"),
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


def test_links_do_not_lose_more_than_their_mass() -> None:
    """The link is named; all of its mass is not more."""
    scene = km.Scene(contacts=False, limits=False)
    arm = scene.add(lift())
    scene.build(2, per_env=("mass_shift",))
    heavy = arm.links[-1]
    with pytest.raises(km.KinemaError, match=f'set_mass_shift: the mass of link "{heavy.name}" would be negative'):
        arm.set_mass_shift([[-0.5 * heavy.mass], [-1.5 * heavy.mass]], [heavy.idx])
    arm.set_mass_shift([[-0.5 * heavy.mass], [-heavy.mass]], [heavy.idx])
