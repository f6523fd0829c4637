"""Robots divided into limbs: the step of all threads together is the step of one."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.core import Array
from kinema.dynamics import Engine, InputMode, Integrator, Settings, trace_unrolled_step
from kinema.dynamics.lowering.partition import choose_partition_count, partition_tree
from kinema.dynamics.tree.kinematic_tree import build_tree
from kinema.ir import (
    EXCHANGE,
    MemoryLocation,
    Program,
    Tape,
    exchange_size,
    interpret,
    partition_basic_block,
    program_from_tape,
)
from kinema.model import Model
from kinema.runtime import Device, Partitioning, find_device
from kinema.runtime.compilation import GpuCompiler
from kinema.runtime.compiled_program import CompileOptions
from kit.assets import ROOT, assets
from kit.choosing import covering, representatives

from .arrays_for_tests import arrays_for, forced

ROBOTS = ["mjcf/unitree_go2/go2_scene.xml", "mjcf/mujoco_humanoid/humanoid.xml", "mjcf/shadow_hand/right_hand.xml"]
DRIVES = (InputMode.ACTUATORS, InputMode.COMMANDS)
N_THREADS = (2, 4)


def model_of(file: str) -> Model:
    path = ROOT / file if file.startswith("examples") else assets(file)
    return build_model([EntitySpec(name="robot", description=km.read(path))])


QUADRUPED = "examples/robots/quadruped/quadruped.xml"


def interpreted(roles: tuple[Program, ...], arrays: dict[str, Array]) -> dict[tuple[str, int], Array]:
    """What all roles write together: their first lines, the exchange, their second ones."""
    firsts, seconds = zip(*(role.body for role in roles), strict=True)
    given = [interpret(Program((line,)), arrays) for line in firsts]
    exchange = np.zeros((max(exchange_size(roles), 1), 3))
    written: set[int] = set()
    for role, line in zip(given, firsts, strict=True):
        own = {store.location.element for store in line.stores if store.location.array == EXCHANGE}  # type: ignore[union-attr]
        assert written.isdisjoint(own), "two roles give the same value"
        written |= own
        for element in own:
            exchange[element] = role[EXCHANGE][element]
    found: dict[tuple[str, int], Array] = {}
    for role, line in zip(given, seconds, strict=True):
        results = interpret(Program((line,)), {**arrays, **role, EXCHANGE: exchange})
        for store in line.stores:  # type: ignore[union-attr]
            location = store.location
            assert (location.array, location.element) not in found, "two roles write the same number"
            found[location.array, location.element] = results[location.array][location.element]
    return found


def robots_and_drives() -> list[Any]:
    """The quadruped with every integrator and drive, another with one of them, for one number of threads."""
    chosen = covering([list(Integrator), DRIVES, N_THREADS], 1)
    found: list[Any] = [
        (QUADRUPED, *case, () if case in chosen else pytest.mark.exhaustive)
        for case in itertools.product(Integrator, DRIVES, N_THREADS)
    ]
    for i, (file, count) in enumerate(itertools.product(ROBOTS, N_THREADS)):
        is_chosen = i // len(N_THREADS) == 1 and count == N_THREADS[0]
        found += [(file, Integrator.IMPLICITFAST, DRIVES[0], count, () if is_chosen else pytest.mark.exhaustive)]
        found += [(file, Integrator.IMPLICITFAST, DRIVES[1], count, pytest.mark.benchmark)]
    return [
        pytest.param(file, integrator, drive, count, id=f"{drive.value}-{file}-{integrator.value}-{count}", marks=marks)
        for file, integrator, drive, count, marks in found
    ]


@pytest.mark.parametrize(("file", "integrator", "drive", "count"), robots_and_drives())
def test_several_threads_take_the_same_step(file: str, integrator: Integrator, drive: InputMode, count: int) -> None:
    """Each number of the state is written by one of them, and is that of one thread alone."""
    same_step(model_of(file), Settings(integrator=integrator, input_mode=drive), count)


@pytest.mark.parametrize(
    "integrator", representatives([Integrator.RK4, Integrator.IMPLICITFAST], 1), ids=lambda i: i.value
)
def test_several_threads_advance_activations(integrator: Integrator) -> None:
    """Those of an actuator by the thread whose limb it pulls on."""
    model = model_of(QUADRUPED)
    time_constants = model.actuators.time_constants * (0.0, 1.0, 1.0) + (0.01, 0.0, 0.0)
    dynamics = ["filterexact"] * model.n_actuators
    model = model.with_columns("actuators", dynamics=dynamics, time_constants=time_constants)
    same_step(model, Settings(integrator=integrator, input_mode=InputMode.ACTUATORS), 4)


def same_step(model: Model, settings: Settings, roles: int) -> None:
    """The step of several threads, and that of one."""
    integrator = settings.integrator
    program = trace_unrolled_step(model, settings)
    shared = trace_unrolled_step(model, replace(settings, n_partitions=roles))
    partition = partition_tree(build_tree(model), roles).location_partition(model)
    divided = partition_basic_block(shared.basic_block, partition, roles)
    assert len(divided) == roles
    rng = np.random.default_rng(0)
    state = {name for name in program.inputs if name not in ("dt", "force_lower", "force_upper", "actuator_on")}
    arrays = arrays_for(model, settings, forced(model), 3)
    for name in sorted(state):
        # gains that feed motion may leave nothing of an inertia, and of that only rounding would be left
        high = 0.0 if name in ("gain_position", "gain_velocity") else 0.5
        arrays[name] = rng.uniform(-0.5, high, arrays[name].shape)
    for phase in (0, 3) if integrator is Integrator.RK4 else (0,):
        if "phase" in arrays:
            arrays["phase"][:] = phase
        whole = interpret(program, arrays)
        found = interpreted(divided, {**arrays, "error": np.zeros((roles, 3))})
        assert {key for key in found if key[0] != "error"} == {
            (name, element) for name, values in whole.items() for element in range(len(values)) if name != "error"
        }
        for (array, element), values in found.items():
            if array != "error":
                assert values == pytest.approx(whole[array][element], rel=1e-9, abs=1e-9)


def test_limbs_meet_in_the_trunk_only() -> None:
    """A frame of one limb never moves a frame of another."""
    tree = build_tree(model_of(ROBOTS[1]))
    limbs = partition_tree(tree, 4).partition_of_frame
    for node in tree.nodes:
        above = node.parent
        while above != -1:
            assert limbs[above] in (None, limbs[node.index])
            above = tree.nodes[above].parent


def test_a_chain_is_not_divided_and_a_humanoid_is() -> None:
    assert choose_partition_count(build_tree(model_of("examples/robots/arm/arm.urdf"))) == 1
    assert choose_partition_count(build_tree(model_of(ROBOTS[1]))) == 2


@pytest.mark.parametrize(("precision", "most"), [("single", 384), ("double", 192)])
def test_an_exchange_has_to_fit_into_what_threads_share(precision: str, most: int) -> None:
    """Else one thread takes all of an environment."""

    def role_of(location: MemoryLocation) -> int:
        return int(location.array == "b")

    shared = Partitioning(2, role_of)
    compiler = GpuCompiler({}, CompileOptions(Device("cuda:0"), precision, 1, 1, None), shared, wait=True)
    compiler._part_partitioning = shared
    for count, roles in ((most, 2), (most + 1, 1)):
        tape = Tape()
        products = [tape.input("a", i) * 2.0 for i in range(count)]
        program = program_from_tape(tape, {"b": [x + tape.input("b", i) for i, x in enumerate(products)]})
        assert len(compiler._partition(program)) == roles


@pytest.mark.parametrize(("count", "n_parts"), [(384, 1), (500, 3)])
def test_long_code_that_exchanges_too_much_is_divided_first(count: int, n_parts: int) -> None:
    """Then its pieces are of several threads each."""
    shared = Partitioning(2, lambda location: int(location.array == "b"))
    compiler = GpuCompiler({}, CompileOptions(Device("cuda:0"), "single", 1, 1, None), shared, wait=True)
    tape = Tape()
    products = [tape.input("a", i % count) * (2.0 + i) for i in range(count)]
    values = {"b": [x + tape.input("b", i) for i, x in enumerate(products)]}
    for _ in range(24):  # long enough
        values["b"] = [x * x for x in values["b"]]
    parts = compiler._split(program_from_tape(tape, values))
    assert len(parts) >= n_parts
    assert (len(parts) > 1) == (n_parts > 1)


def test_threads_share_environments_on_a_gpu_only() -> None:
    model = model_of(QUADRUPED)
    with pytest.raises(km.KinemaError, match="only on a GPU"):
        Engine(model, Settings(), 1, find_device("cpu"), n_partitions=2)
