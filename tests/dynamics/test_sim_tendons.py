"""Tendons and transmissions against MuJoCo: lengths, moments, limits, friction, and whole trajectories."""

from __future__ import annotations

import itertools
from dataclasses import replace
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.dynamics import Integrator, Settings
from kinema.dynamics.lowering.invweight import with_constraint_invweights
from kinema.dynamics.lowering.reference_configuration import with_rest_lengths
from kinema.dynamics.queries.field_groups import FIELD_GROUPS
from kinema.ir import interpret
from kit.choosing import representatives
from kit.mjcf_side import Disable

from .arrays_for_tests import fields_program, mjcf_arrays, mjcf_settings
from .cord_models import MODELS, error_of_trajectory, errors_of_lengths, pair_of
from .mujoco_checks import OF_MOTION, energy_momentum_and_jacobian, states_of
from .rolling import Both, model_of_text

N_STEPS = 200
MOMENTS = {"inside": 2e-8}
"""MuJoCo looks for the point that a tendon touches from inside no further than that; others: to rounding."""
TRAJECTORIES = {"fixed": 1e-9}
ROWS = {"heavy": 1, "fixed": 4, "through": 1, "around": 1, "inside": 0, "transmissions": 0}
"""How many constraints there are at least at some time."""
by_name = pytest.mark.parametrize("name", list(MODELS))
some = pytest.mark.parametrize("name", representatives(MODELS, lambda name: name in ("around", "transmissions")))
"""Paths around shapes, and what acts on joints, sites and links."""


@by_name
@pytest.mark.parametrize("n_states", representatives([12, 60], 1))
def test_lengths_and_moments(name: str, n_states: int) -> None:
    """At random states, for each of which the program is traced: lengths to 1e-12."""
    found = errors_of_lengths(pair_of(name), n_states)
    print(f"lengths to {found.length:.1e}, moments to {found.moment:.1e}")
    assert found.length < 1e-12
    assert found.moment < MOMENTS.get(name, 1e-12)


@by_name
def test_weights_and_rest_lengths(name: str) -> None:
    """What is found out before the first step."""
    pair = pair_of(name)
    (ours,) = with_constraint_invweights([with_rest_lengths(pair.ours)])
    theirs = [pair.theirs.tendon(n).id for n in pair.ours.tendons.names]
    rest = np.stack([ours.derived.tendon_rest_lower, ours.derived.tendon_rest_upper], axis=1)
    np.testing.assert_allclose(ours.derived.tendon_invweight, pair.theirs.tendon_invweight0[theirs], rtol=1e-7)
    sprung = pair.ours.tendons.stiffness > 0
    np.testing.assert_allclose(rest[sprung], pair.theirs.tendon_lengthspring[theirs][sprung], rtol=0, atol=1e-12)


def trajectories() -> list[Any]:
    """Each model with the usual integrator, one with each of them; the rest only as a benchmark."""
    found = []
    for name, integrator in itertools.product(MODELS, Integrator):
        is_usual = integrator is Integrator.IMPLICITFAST or name == "transmissions"
        marks = () if is_usual else pytest.mark.benchmark
        found.append(pytest.param(name, integrator, id=f"{integrator.value}-{name}", marks=marks))
    return found


@pytest.mark.parametrize(("name", "integrator"), trajectories())
def test_trajectory(name: str, integrator: Integrator) -> None:
    """200 steps by a straight line."""
    error, rows = error_of_trajectory(pair_of(name), integrator, "unrolled", N_STEPS)
    print(f"error {error:.1e}, {rows} rows")
    assert error < TRAJECTORIES.get(name, 1e-8)
    assert rows >= ROWS[name]


@some
def test_rolled_trajectory(name: str) -> None:
    """The same by loops over tables."""
    error, _ = error_of_trajectory(pair_of(name), Integrator.IMPLICITFAST, "loops", N_STEPS)
    print(f"error {error:.1e}")
    assert error < TRAJECTORIES.get(name, 1e-8)


@pytest.mark.parametrize("name", representatives(["heavy", "transmissions", "through"], 1))
def test_fields(name: str) -> None:
    """Forces, accelerations, the mass matrix and energies at random states, without constraints."""
    pair = pair_of(name)
    pair = replace(pair, ours=with_rest_lengths(pair.ours))
    settings = mjcf_settings(pair, external_forces=True)
    known = pair.theirs.opt.disableflags
    try:
        pair.theirs.opt.disableflags |= int(Disable.mjDSBL_CONSTRAINT)
        states = states_of(pair, 20, seed=1)
        program = fields_program(pair.ours, settings, *FIELD_GROUPS, jacobian_of=pair.ours.n_links - 1)
        fields = interpret(program, mjcf_arrays(pair, settings, states))
        for check in OF_MOTION:
            if (name, check) != ("heavy", energy_momentum_and_jacobian):  # MuJoCo's inertia leaves out other branches
                check(pair, fields, states)
    finally:
        pair.theirs.opt.disableflags = known


@some
def test_single_precision(name: str) -> None:
    """100 steps in float32 to 1e-4."""
    error, _ = error_of_trajectory(pair_of(name), Integrator.IMPLICITFAST, "unrolled", 100, "single")
    print(f"error {error:.1e}")
    assert error < 1e-4


def test_servos_of_angles_go_the_shorter_way() -> None:
    """Where they are told to go further than a half turn from where they are, as MuJoCo has it."""
    pair, generator = pair_of("transmissions"), np.random.default_rng(4)
    states = [pair.random_state(generator) for _ in range(20)]
    for data in states:
        data.ctrl[:] *= 8.0
        mujoco.mj_forward(pair.theirs, data)
    settings = mjcf_settings(pair)
    found = interpret(fields_program(pair.ours, settings, "smooth forces"), mjcf_arrays(pair, settings, states))
    theirs = np.array([data.qfrc_actuator[pair.dof] for data in states])
    np.testing.assert_allclose(found["smooth forces.qf_actuator"].T, theirs, rtol=0, atol=1e-10)


@pytest.mark.parametrize("name", representatives(["around", "transmissions", "heavy"], 1))
def test_copies(name: str) -> None:
    """Two of the same kind, joint by joint and by a straight line each, as in one straight line."""
    model = model_of_text(MODELS[name], copies=2)
    assert Both(with_rest_lengths(model), Settings()).difference(0, 100_000) < 1e-12
