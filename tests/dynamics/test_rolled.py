"""The rolled step gives what the unrolled one gives: by joint, by copies, on every feature."""

from __future__ import annotations

import itertools
from dataclasses import replace
from functools import cache
from itertools import cycle
from typing import Any

import numpy as np
import pytest

from kinema.codegen import Target, emit_cpu_modules
from kinema.core import Array, KinemaError
from kinema.dynamics import PER_ENV_PARAMETERS, ControlMode, Engine, InputMode, Integrator, Settings
from kinema.dynamics.lowering.components import (
    MAX_UNROLLED_OPERATIONS,
    connected_components,
    estimate_unrolled_operations,
)
from kinema.dynamics.lowering.step_program import needs_mass_matrix, plan_lowering, should_use_loops, trace_looped_step
from kinema.dynamics.tree.kinematic_tree import build_tree
from kinema.model import Model
from kinema.runtime import Kernel, find_device
from kit.choosing import combinations, representative_tuples, representatives

from .rolling import Both, Build, bodies, chain, model_of_text, quadruped, zoo

BY_JOINT = 0
"""A budget that leaves nothing to be copied."""
BY_COPY = 10**9
WAYS = (BY_JOINT, BY_COPY)
CLOSE = 1e-9
MODELS: dict[str, Build] = {
    "zoo": zoo,
    "each joint one way": lambda: zoo(both_ways=False),
    "bipeds": lambda: model_of_text(quadruped(n_legs=2), 2),
    "bodies": lambda: model_of_text(bodies(4)),
    "quadrupeds": lambda: model_of_text(quadruped(), 2),
}
LARGE = ("zoo", "each joint one way", "quadrupeds")
FEW_JOINTS: Build = cache(lambda: zoo(("planar", "free_between_links")))
SMALL_ZOO: Build = cache(lambda: zoo(("stacked",)))
"""Few kinds of rows: what is compiled."""


@cache
def model(name: str) -> Model:
    return MODELS[name]()


def robots_and_drives() -> list[Any]:
    """Each integrator and drive; of the zoo, which is large, one of them, and none of two quadrupeds."""
    found = [
        pytest.param(
            name,
            i,
            d,
            id=f"{name}-{i.value}-{d.value}",
            marks=() if name != "zoo" and d is InputMode.MIXED else pytest.mark.exhaustive,
        )
        for name in ("zoo", "each joint one way")
        for i, d in zip(Integrator, cycle(InputMode), strict=False)
    ]
    found += combinations([name for name in MODELS if name not in LARGE], Integrator, InputMode, strength=1)
    every = itertools.product(["quadrupeds"], Integrator, InputMode)
    return found + [pytest.param(*case, marks=pytest.mark.exhaustive) for case in every]


@pytest.mark.parametrize(("name", "integrator", "drive"), robots_and_drives())
def test_equal_to_unrolled(name: str, integrator: Integrator, drive: InputMode) -> None:
    """Every kind of joint, integrator and drive; commands of all meanings, some joints left to their actuators."""
    settings = Settings(integrator=integrator, input_mode=drive)
    assert Both(model(name), settings).difference(*WAYS) < CLOSE


@pytest.mark.parametrize(
    "which",
    [
        PER_ENV_PARAMETERS,
        *(pytest.param(few, marks=pytest.mark.benchmark) for few in (("gravity", "kp"), ("mass_shift",))),
    ],
    ids="+".join,
)
@pytest.mark.parametrize("large", representatives((False, True), 1))
def test_parameters_of_environments_and_forces_on_links(which: tuple[str, ...], large: bool) -> None:
    """All parameters may differ between environments, and links may be pushed."""
    settings = Settings(per_env=frozenset(which), external_forces=True)
    zoo, legged = (model("zoo"), model("quadrupeds")) if large else (FEW_JOINTS(), model("bipeds"))
    for own in (zoo, model("bodies")):
        assert Both(own, settings).difference(*WAYS) < CLOSE
    for drive in (settings.input_mode, InputMode.MIXED):
        assert Both(legged, replace(settings, input_mode=drive)).difference(*WAYS) < CLOSE


@pytest.mark.parametrize("large", representatives((False, True), 1))
def test_links_that_gravity_spares_and_drives_per_inertia(large: bool) -> None:
    """Weight taken off some links, gains per unit of inertia on some joints, sprung balls, bounded actuators."""
    own = model("zoo") if large else FEW_JOINTS()
    scale, dofs = own.links.gravity_scale.copy(), np.arange(own.n_dofs)
    scale[::3] = 0.25
    own = own.with_columns("links", gravity_scale=scale).with_columns(
        "dofs",
        acceleration_drive=own.dofs.acceleration_drive | (dofs % 2 == 0),
        stiffness=np.where(dofs % 2 == 1, 0.8, own.dofs.stiffness),
        force_lower=np.where(dofs % 3 == 0, -0.4, own.dofs.force_lower),
        force_upper=np.where(dofs % 3 == 0, 0.3, own.dofs.force_upper),
    )
    for drive in (InputMode.COMMANDS, InputMode.MIXED):
        assert Both(own, Settings(input_mode=drive)).difference(*WAYS) < CLOSE


def test_tendons_and_thrusters() -> None:
    """A spring and a servo on a sum of joints of different legs, and an actuator that pulls on a frame."""
    tendons = (
        '<tendon><fixed name="t" stiffness="4" damping="0.5" springlength="0.1"><joint joint="c0" coef="1"/>'
        '<joint joint="c3" coef="-0.7"/></fixed></tendon>'
    )
    own = model_of_text(quadruped(tendons))
    names = ("frame_idx", "moment", "frame_torque", "frame_force")
    columns = {name: getattr(own.actuators, name).copy() for name in names}
    columns["frame_idx"][0] = 5
    columns["moment"][0] = 0.0
    columns["frame_torque"][0], columns["frame_force"][0] = (0.1, 0.2, 0.3), (1.0, -2.0, 0.5)
    columns["moment"][1, own.n_dofs - 4] = 0.4  # two legs
    own = own.with_columns("actuators", **columns)
    settings = Settings(input_mode=InputMode.ACTUATORS)
    assert Both(own, settings).difference(*WAYS) < CLOSE


ALONG_A_LEG = (
    '<tendon><fixed name="t" damping="0.5"><joint joint="b0" coef="1"/><joint joint="c0" coef="-0.7"/></fixed></tendon>'
)


SLOPED = (Integrator.IMPLICIT, Integrator.IMPLICITFAST)


@pytest.mark.parametrize(
    ("integrator", "drive"),
    representative_tuples(
        itertools.product(Integrator, [InputMode.ACTUATORS, InputMode.COMMANDS]),
        lambda case: (
            case in {(Integrator.IMPLICIT, InputMode.ACTUATORS), (Integrator.IMPLICITFAST, InputMode.COMMANDS)}
        ),
    ),
)
def test_slopes_between_joints_that_move_each_other(drive: InputMode, integrator: Integrator) -> None:
    """A damper and a servo along a leg couple two of its joints: their slopes are in the implicit matrix, both ways."""
    own = model_of_text(quadruped(ALONG_A_LEG, 2))
    number = own.dofs.names.index("a1")
    moment = own.actuators.moment.copy()
    moment[moment[:, number].nonzero()[0][0], number + 2] = 0.4
    own = own.with_columns("actuators", moment=moment)
    settings = Settings(integrator=integrator, input_mode=drive, dt=0.01)
    assert needs_mass_matrix(own, build_tree(own), settings) == integrator.is_implicit_in_velocity
    modes = [ControlMode.ACTUATOR] * (own.n_dofs - 3) + [ControlMode.POSITION] * 3
    assert Both(own, settings, modes=modes).difference(*WAYS) < CLOSE


def test_slopes_between_joints_matter() -> None:
    """Without the coupling the step would be another one: the test above would see it."""
    with_both = model_of_text(quadruped(ALONG_A_LEG, 2))
    settings = Settings(dt=0.01, input_mode=InputMode.ACTUATORS)
    ends = []
    for integrator in (Integrator.IMPLICITFAST, Integrator.EULER):
        both = Both(with_both, replace(settings, integrator=integrator))
        both.difference(BY_JOINT)
        ends.append(both.arrays()["vel"].copy())
    assert np.abs(ends[0] - ends[1]).max() > 1e6 * CLOSE


def test_copies_share_one_code() -> None:
    """Ten quadrupeds have the code of one; bodies of different mass have one code too, and a table."""
    for text, n in ((quadruped(), 10), (bodies(1), 5)):
        programs = [Both(model_of_text(text, count), Settings(), 1).rolled(BY_COPY) for count in (1, n)]
        assert programs[0].n_instructions == programs[1].n_instructions
        assert len(programs[1].for_each_loops[0].ints) == n
    different = Both(model_of_text(bodies(20)), Settings(), 1).rolled(BY_COPY)
    assert len(different.for_each_loops) == 1
    assert len(different.for_each_loops[0].ints) == 20


def test_code_does_not_grow_with_the_chain() -> None:
    """Chains of different length are the same code with other tables, and each further joint costs the same."""
    chains = [Both(model_of_text(chain(n, ("0 1 0", "1 0 0"))), Settings(), 1) for n in (6, 16, 26)]
    programs = [both.rolled(BY_JOINT) for both in chains]
    texts = {emit_cpu_modules(program, both.places, Target()) for program, both in zip(programs, chains, strict=True)}
    assert len({program.n_instructions for program in programs}) == 1
    assert len(texts) == 1
    few, more, many = (program.n_operations for program in programs)
    assert many - more == more - few


def test_which_parts_are_copied() -> None:
    """Bodies that fly alone always; big parts only while the budget lasts."""
    own = model_of_text(
        bodies(3).replace(
            "</worldbody>",
            chain(8).split("<worldbody>")[1].split("</worldbody>")[0].replace("'b", "'c") + "</worldbody>",
        )
    )
    tree = build_tree(own)
    assert sorted(len(part.frames) for part in connected_components(own)) == [4, 4, 4, 8]
    none, all_ = plan_lowering(own, Settings(), tree, BY_JOINT), plan_lowering(own, Settings(), tree, BY_COPY)
    assert [len(group) for group in none.copied_components] == [3]
    assert [len(part.frames) for part in none.looped_components] == [8]
    assert sorted(len(group) for group in all_.copied_components) == [1, 3]
    assert not all_.looped_components


def test_emission_is_chosen_by_size() -> None:
    """Long chains are rolled, robots are not, and either can be asked for."""
    small, large = model_of_text(quadruped()), model_of_text(chain(80))
    assert estimate_unrolled_operations(small) < MAX_UNROLLED_OPERATIONS < estimate_unrolled_operations(large)
    assert [should_use_loops(m, Settings(), e) for m in (small, large) for e in ("auto", "loops", "unrolled")] == [
        *(False, True, False),
        *(True, True, False),
    ]
    with pytest.raises(KinemaError, match="unknown codegen mode 'curled'; expected one of: auto, loops, unrolled"):
        should_use_loops(small, Settings(), "curled")


def test_copies_are_rolled_where_that_saves_code() -> None:
    """Two quadrupeds share their code, whatever their commands mean; two that differ in their springs cannot."""
    twice = model("quadrupeds")
    assert should_use_loops(twice, Settings())
    assert not should_use_loops(twice, Settings(), allow_copies=False)
    other = model_of_text(quadruped(), 2)
    first = np.arange(other.n_dofs) < other.n_dofs // 2
    other = other.with_columns("dofs", kp=np.where(first, 7.0, other.dofs.kp))
    assert should_use_loops(other, Settings())
    other = other.with_columns("dofs", stiffness=np.where(first, 7.0, other.dofs.stiffness))
    assert not should_use_loops(other, Settings())


KINDS = "by joint", "by copy"
N_ENVS = 11
"""Fills no vector."""


@cache
def compiled(kind: str, precision: str, lanes: int, n_envs: int = N_ENVS, threads: int = 1) -> tuple[Array, Array]:
    """Coordinates and velocities after some steps."""
    own, settings = SMALL_ZOO(), Settings()
    engine = Engine(own, settings, n_envs, find_device("cpu"), precision=precision, lanes=lanes, codegen="loops")
    assert engine.settings == settings
    budget = BY_JOINT if kind == "by joint" else BY_COPY
    program = trace_looped_step(own, settings, engine.array_offsets, budget)
    engine._kernels[settings] = Kernel(program, engine.array_offsets, engine.device, precision, lanes=lanes)
    start = Both(own, settings, N_ENVS, seed=3).arrays()  # the same however many of them are taken
    for name, values in start.items():
        if values.size:
            engine.array_view(name).assign(values[:, :n_envs])
    engine.threads = threads
    engine.step(5)
    assert not engine.array_view("error").numpy().any()
    return engine.array_view("qpos").numpy().copy(), engine.array_view("vel").numpy().copy()


@cache
def interpreted() -> dict[str, Array]:
    """Coordinates and velocities after the same steps, by the unrolled program and the interpreter."""
    own = Both(SMALL_ZOO(), Settings(), N_ENVS, seed=3)
    assert own.difference(BY_COPY, steps=5) < CLOSE
    return {name: own.arrays()[name].copy() for name in ("qpos", "vel")}


@pytest.mark.parametrize(("kind", "precision", "lanes"), combinations(KINDS, ["double", "single"], [1, 4], strength=1))
def test_compiled(kind: str, precision: str, lanes: int) -> None:
    """The compiled loops give what the interpreter gives for the unrolled program."""
    close = CLOSE if precision == "double" else 2e-4
    for found, name in zip(compiled(kind, precision, lanes), ("qpos", "vel"), strict=True):
        np.testing.assert_allclose(found, interpreted()[name], rtol=0, atol=close)


@pytest.mark.parametrize("kind", KINDS)
def test_environments_are_independent(kind: str) -> None:
    """Any number of environments, on any number of threads, gives the same bits."""
    whole = compiled(kind, "double", 4)
    for n_envs, threads in ((1, 1), (5, 2), (N_ENVS, 2)):
        for part, full in zip(compiled(kind, "double", 4, n_envs, threads), whole, strict=True):
            np.testing.assert_array_equal(part, full[:, :n_envs])


def test_a_robot_by_itself_is_stepped_by_joint_where_rolling_is_forced() -> None:
    """Copying pays where there are copies; bodies that fly alone are copied all the same."""
    own = model_of_text(quadruped())
    assert plan_lowering(own, Settings(), build_tree(own), min_copies=2).looped_components
    assert not plan_lowering(own, Settings(), build_tree(own)).looped_components
    assert not plan_lowering(model("bodies"), Settings(), build_tree(model("bodies")), BY_JOINT, 10).looped_components


def test_not_a_number_stays_in_its_environment() -> None:
    """It is flagged, and the other environments give the same bits as without it."""
    own, settings = model_of_text(chain(30, ("0 1 0", "1 0 0"))), Settings()
    engine = Engine(own, settings, 6, find_device("cpu"))
    assert engine.uses_loops
    runs = []
    for bad in (0.0, np.nan):
        engine.reset()
        command = np.full((own.n_dofs, 6), 0.1)
        command[3, 2] += bad
        engine.array_view("command").assign(command)
        engine.step(4)
        runs.append((engine.array_view("vel").numpy().copy(), engine.array_view("error").numpy()[0].tolist()))
    (clean, no_flags), (spoiled, flags) = runs
    assert not any(no_flags)
    assert flags == [0, 0, 1, 0, 0, 0]
    others = [0, 1, 3, 4, 5]
    np.testing.assert_array_equal(clean[:, others], spoiled[:, others])
