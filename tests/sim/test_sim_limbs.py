"""Robots divided into limbs: the step of all threads together is the step of one."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest

import kinema as km
from kinema.backend import find_device, fits_exchange
from kinema.compile import Part, compile_model
from kinema.model import Model
from kinema.sim import Control, Engine, Integrator, Settings
from kinema.sim.limbs import best_roles, find_limbs
from kinema.sim.programs import split_step_program, step_program
from kinema.sim.tree import grow
from kinema.trace import interpret, interpret_split
from kit.assets import ROOT, assets

ROBOTS = ["mjcf/unitree_go2/go2_scene.xml", "mjcf/mujoco_humanoid/humanoid.xml", "mjcf/shadow_hand/right_hand.xml"]


def model_of(file: str) -> Model:
    path = ROOT / file if file.startswith("examples") else assets(file)
    return compile_model([Part(name="robot", description=km.read(path))])


QUADRUPED = "examples/robots/quadruped/quadruped.xml"


@pytest.mark.parametrize(
    ("file", "integrator"),
    [*((QUADRUPED, integrator) for integrator in Integrator), *((file, Integrator.IMPLICIT) for file in ROBOTS)],
)
def test_several_threads_take_the_same_step(file: str, integrator: Integrator) -> None:
    model = model_of(file)
    settings = Settings(integrator=integrator, control=(Control.ACTUATOR,) * model.n_dofs)
    program = step_program(model, settings)
    rng = np.random.default_rng(0)
    arrays = {name: rng.uniform(-0.5, 0.5, (count, 3)) for name, count in program.inputs.items()}
    for phase in (0, 3) if integrator is Integrator.RK4 else (0,):
        if "phase" in arrays:
            arrays["phase"][:] = phase
        whole = interpret(program, arrays)
        for roles in (2, 4):
            divided = split_step_program(model, replace(settings, roles=roles))
            arrays["error"] = np.zeros((roles, 3))
            for (array, item), values in interpret_split(divided, arrays).items():
                if array != "error":
                    assert values == pytest.approx(whole[array][item], rel=1e-9, abs=1e-9)


def test_limbs_meet_in_the_trunk_only() -> None:
    """A frame of one limb never moves a frame of another."""
    tree = grow(model_of(ROBOTS[1]))
    limbs = find_limbs(tree, 4).role_of_frame
    for node in tree.nodes:
        above = node.parent
        while above != -1:
            assert limbs[above] in (None, limbs[node.index])
            above = tree.nodes[above].parent


def test_a_chain_is_not_divided_and_a_humanoid_is() -> None:
    assert best_roles(grow(model_of("examples/robots/arm/arm.urdf"))) == 1
    assert best_roles(grow(model_of(ROBOTS[1]))) == 2


def test_an_exchange_has_to_fit_into_what_threads_share() -> None:
    assert fits_exchange(384, "single")
    assert not fits_exchange(385, "single")
    assert not fits_exchange(193, "double")


def test_threads_share_environments_on_a_gpu_only() -> None:
    model = model_of(QUADRUPED)
    with pytest.raises(km.KinemaError, match="only on a GPU"):
        Engine(model, Settings(control=(Control.FORCE,) * model.n_dofs), 1, find_device("cpu"), roles=2)
