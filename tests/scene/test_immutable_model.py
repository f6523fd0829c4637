"""A model is immutable: no array, list or table of it can be written, and nothing that a scene does changes it."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from pathlib import Path
from types import MappingProxyType
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.core import content_digest
from kinema.dynamics import Engine, Settings
from kinema.model import Model
from kinema.runtime import find_device
from kit.assets import EXAMPLES
from kit.robots.small_robots import from_text

HOPPER = """<mujoco><worldbody><geom type="plane" size="5 5 .1"/><body name="trunk" pos="0 0 .45"><freejoint/>
<geom size=".1" mass="2"/><body name="leg" pos="0 0 -.1"><joint name="hip" axis="0 1 0" range="-40 40" damping=".1"/>
<geom type="capsule" size=".02" fromto="0 0 -.05 0 .02 -.3" mass=".5"/></body></body></worldbody>
<actuator><position joint="hip" kp="20"/></actuator></mujoco>"""
PER_ENV = ("mass_shift", "com_shift", "kp", "kv", "armature", "damping", "limit", "gravity", "geom_friction")


def parts(value: Any, path: str = "model") -> Iterator[tuple[str, Any]]:
    """A value and everything within it, with its path."""
    yield path, value
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from parts(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple):
        for i, item in enumerate(value):
            yield from parts(item, f"{path}[{i}]")
    elif isinstance(value, MappingProxyType):
        for key, item in value.items():
            yield from parts(item, f"{path}[{key}]")


def assert_immutable(model: Model) -> None:
    for path, value in parts(model):
        if dataclasses.is_dataclass(value):
            name = dataclasses.fields(value)[0].name
            with pytest.raises(dataclasses.FrozenInstanceError):
                setattr(value, name, getattr(value, name))
        elif isinstance(value, np.ndarray):
            assert not value.flags.writeable, path
        else:
            assert not isinstance(value, list | dict | set), path


def hopper(folder: Path) -> Model:
    described = from_text(folder, HOPPER)
    return build_model([EntitySpec(name="it", description=described)], with_contacts=True, sensors=())


def test_nothing_of_a_model_can_be_written(tmp_path: Path) -> None:
    """Tables, their arrays and their lists, as built and with derived constants."""
    model = hopper(tmp_path)
    assert_immutable(model)
    assert_immutable(Engine(model, Settings(contacts=True), 2, find_device("cpu")).model)
    with pytest.raises(ValueError, match="read-only"):
        model.dofs.armature[0] = 1.0


def test_nothing_of_the_models_of_variants_can_be_written() -> None:
    """Geoms that are absent, shared mesh data and parameters per environment included."""
    scene = km.Scene(quiet=True)
    scene.add([km.Box((0.1, 0.2, 0.3)), km.Sphere(0.1)], pos=(0, 0, 1))
    scene.add(km.Plane())
    scene.build(4)
    assert len(scene.built.engine.variants.models) == 2
    assert scene.built.model.derived.per_env_parameters is not None
    for model in scene.built.engine.variants.models:
        assert_immutable(model)


def test_the_given_arrays_of_the_user_stay_writable() -> None:
    """Gravity and wind are copied into the model."""
    gravity, wind = np.array([0.0, 0.0, -5.0]), np.array([1.0, 0.0, 0.0])
    scene = km.Scene(quiet=True, gravity=gravity, density=1.0, wind=wind)
    scene.add(km.Sphere(0.1))
    scene.build()
    gravity[2], wind[0] = 0.0, 0.0
    assert scene.built.model.gravity[2] == -5.0
    assert scene.built.model.fluid.wind[0] == 1.0


def test_an_engine_leaves_its_model_as_it_is(tmp_path: Path) -> None:
    """Derived constants and contact capacity are in other models with the same tables."""
    model = hopper(tmp_path)
    digest = content_digest(model)
    engine = Engine(model, Settings(contacts=True), 2, find_device("cpu"))
    derived = engine.model
    assert content_digest(model) == digest != content_digest(derived)
    assert (derived.derived.dof_invweight != model.derived.dof_invweight).any()
    derived_digest = content_digest(derived)
    engine.step(2)
    engine.set_contact_capacity(7)
    assert engine.model.derived.max_contacts_per_frame_pair == 7
    assert engine.model.dofs is derived.dofs
    engine.step(2)
    assert (content_digest(model), content_digest(derived)) == (digest, derived_digest)
    fresh = Engine(model, Settings(contacts=True), 2, find_device("cpu"))
    assert content_digest(fresh.model) == derived_digest


def test_a_scene_leaves_its_model_as_it_is(tmp_path: Path) -> None:
    """Steps, masses, parameters, random values, states and a reset."""
    scene = km.Scene(quiet=True)
    robot = scene.add(from_text(tmp_path, HOPPER))
    scene.build(3, per_env=PER_ENV)
    model = scene.built.model
    digest = content_digest(model)
    scene.step(2)
    robot.set_mass(2.0 * robot.get_mass())
    robot.set_dofs_armature(0.05)
    scene.randomize(robot, mass=km.uniform(0.5, 2.0), friction=km.uniform(0.5, 1.5), seed=1)
    scene.step(2)
    scene.reset()
    assert scene.built.model is model
    assert content_digest(model) == digest


def test_other_columns_start_with_constants_of_their_own(tmp_path: Path) -> None:
    """Changed tables give a new model, without the constants derived from the old ones, with the same capacity."""
    model = Engine(hopper(tmp_path), Settings(contacts=True), 1, find_device("cpu")).model
    model = model.with_derived(max_contacts_per_frame_pair=5)
    other = model.with_columns("dofs", armature=model.dofs.armature + 1.0)
    assert other.links is model.links
    assert (other.derived.dof_invweight == 1.0).all()
    assert other.derived.max_contacts_per_frame_pair == 5


def test_gains_limits_and_states_do_not_change_the_model() -> None:
    """Default gains, gains and limits of the user, and their restoration with a state."""
    scene = km.Scene(quiet=True)
    robot = scene.add(EXAMPLES / "arm" / "arm.urdf", fixed=True)
    scene.build()
    model = scene.built.model
    digest, state = content_digest(model), scene.get_state()
    before, gains = robot.get_dofs_limit(), robot.get_dofs_kp()
    robot.control_dofs_position(np.zeros(robot.n_dofs))
    robot.set_dofs_kp(7.0)
    assert (robot.get_dofs_kp() == 7.0).all()
    scene.set_state(state)
    np.testing.assert_array_equal(robot.get_dofs_kp(), gains)
    np.testing.assert_array_equal(robot.get_dofs_limit(), before)
    before[0][:] = -9.0
    assert (robot.get_dofs_limit()[0] != -9.0).all()
    assert content_digest(model) == digest
