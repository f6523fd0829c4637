"""Every kind of joint, forwards and backwards: kinematics, inertia, bias forces, energy and momentum."""

from __future__ import annotations

from functools import cache

import numpy as np
import pytest

from kinema.core import Array, axis_angle_to_matrix, matrix_to_quaternion, quaternion_to_matrix
from kinema.description import Base, JointKind, Robot
from kinema.dynamics import Integrator, Settings, trace_unrolled_step
from kinema.model import Model
from kit.mass_matrix import link_velocities, mass_matrix, moves
from kit.robots.configurations import by_joint, model_coordinates
from kit.robots.each_joint import CASES, Case, model_of, robot

from .arrays_for_tests import arrays_for, forced, runs_of
from .interpreted import fields
from .straight import function_of, roll

N_STATES = 6
each_kind = pytest.mark.parametrize("case", CASES, ids=str)


@cache
def built(case: Case, base: Base = Base.FIXED) -> tuple[Robot, Model]:
    described = robot(case, base)
    return described, model_of(described)


def states(
    model: Model, settings: Settings | None = None, seed: int = 3, count: int = N_STATES, **values: Array
) -> dict[str, Array]:
    """Random ones, told forces."""
    generator = np.random.default_rng(seed)
    v = generator.uniform(-1.5, 1.5, (model.n_dofs, count))
    q = model_coordinates(model, generator, count)
    return arrays_for(model, settings or Settings(), forced(model), count, qpos=q, vel=v, **values)


@each_kind
def test_forward_kinematics(case: Case) -> None:
    """Links are where the description puts them."""
    described, model = built(case)
    arrays = states(model)
    found = fields(model, Settings(), arrays, "poses")
    for e in range(N_STATES):
        poses = described.forward_kinematics(by_joint(model, arrays["qpos"][:, e]))
        for i, name in enumerate(model.links.names):
            np.testing.assert_allclose(found["pos"][3 * i : 3 * i + 3, e], poses[name][:3, 3], atol=1e-13)
            turn = quaternion_to_matrix(found["quat"][4 * i : 4 * i + 4, e])
            np.testing.assert_allclose(turn, poses[name][:3, :3], atol=1e-13)


@each_kind
def test_mass_matrix(case: Case) -> None:
    """M is that of the links' velocities, which differences of their poses give; and the kinetic energy's Hessian."""
    described, model = built(case)
    arrays = states(model)
    found = fields(model, Settings(), arrays, "mass", "system")
    n = model.n_dofs
    for e in range(N_STATES):
        ours = found["mass_mat"][:, e].reshape(n, n)
        expected = mass_matrix(described, model.joints.names, by_joint(model, arrays["qpos"][:, e]))
        np.testing.assert_allclose(ours, expected, atol=1e-9 * np.abs(expected).max())
        v = arrays["vel"][:, e]
        assert found["kinetic_energy"][0, e] == pytest.approx(0.5 * v @ ours @ v, rel=1e-12)


SECOND = ((-2, -1 / 12), (-1, 4 / 3), (0, -5 / 2), (1, 4 / 3), (2, -1 / 12))
FIRST = ((-2, 1 / 12), (-1, -2 / 3), (1, 2 / 3), (2, -1 / 12))
H = 2e-3


def along(model: Model, q: Array, v: Array, t: float) -> Array:
    """The coordinates a time later on a path of constant velocities: no coordinate accelerates at its start."""
    result = q.copy()
    for kind, start, end, dof in zip(
        model.joints.kinds, model.joints.q_start, model.joints.q_end, model.joints.dof_start, strict=True
    ):
        n = end - start
        if kind in (JointKind.FREE.value, JointKind.SPHERICAL.value):
            n -= 4
            w = v[dof + n : dof + n + 3]
            angle = float(np.linalg.norm(w)) * t
            turned = quaternion_to_matrix(q[end - 4 : end]) @ axis_angle_to_matrix(w / np.linalg.norm(w), angle)
            result[end - 4 : end] = matrix_to_quaternion(turned)
        result[start : start + n] += t * v[dof : dof + n]
    return result


def bias_by_differences(described: Robot, model: Model, q: Array, v: Array) -> Array:
    """What it takes that no coordinate accelerates: forces of all links, from how they move along such a path."""
    poses = {k: described.link_poses(by_joint(model, along(model, q, v, k * H))) for k in range(-2, 3)}
    joints = {j.name: j for j in described.joints}
    columns = [
        link_velocities(described, name, move, by_joint(model, q), poses[0])
        for name in model.joints.names
        for move in moves(joints[name])
    ]
    result = np.zeros(model.n_dofs)
    for link in described.links:
        assert link.inertial is not None
        turn = poses[0][link.name].rotation
        acceleration = sum(w / H**2 * poses[k][link.name].apply(link.inertial.center) for k, w in SECOND)
        rate = np.asarray(sum(w / H * poses[k][link.name].rotation for k, w in FIRST))
        change = np.asarray(sum(w / H**2 * poses[k][link.name].rotation for k, w in SECOND))
        spin, spun = _axial(rate @ turn.T), _axial(change @ turn.T + rate @ rate.T)
        inertia = turn @ link.inertial.inertia @ turn.T
        force = link.inertial.mass * (acceleration - model.gravity)
        torque = inertia @ spun + np.cross(spin, inertia @ spin)
        for i, column in enumerate(columns):
            linear, angular = column.get(link.name, (np.zeros(3), np.zeros(3)))
            result[i] += linear @ force + angular @ torque
    return result


def _axial(m: Array) -> Array:
    return np.array([m[2, 1] - m[1, 2], m[0, 2] - m[2, 0], m[1, 0] - m[0, 1]]) / 2


@each_kind
def test_bias_forces(case: Case) -> None:
    """Newton and Euler of all links along paths without joint acceleration."""
    described, model = built(case)
    arrays = states(model)
    found = fields(model, Settings(), arrays, "bias forces")
    for e in range(2):
        expected = bias_by_differences(described, model, arrays["qpos"][:, e], arrays["vel"][:, e])
        np.testing.assert_allclose(found["qf_bias"][:, e], expected, atol=1e-7 * np.abs(expected).max())


def stepped(model: Model, settings: Settings, arrays: dict[str, Array], steps: int) -> dict[str, Array]:
    """A state some steps later, in double precision."""
    start = {name: values[:, 0].tolist() for name, values in arrays.items()}
    end = roll(function_of(trace_unrolled_step(model, settings)), start, steps * runs_of(settings))[-1]
    return {name: np.array(values, dtype=float)[:, None] for name, values in end.items()}


def energy(model: Model, settings: Settings, state: dict[str, Array]) -> float:
    found = fields(model, settings, state, "system")
    return float(found["kinetic_energy"][0, 0] + found["potential_energy"][0, 0])


@pytest.mark.wide
@each_kind
def test_energy_balance(case: Case) -> None:
    """The energy changes by what forces and dampers do: d/dt (T + V) = power, on an exact trajectory."""
    _, model = built(case)
    dt = 1e-3
    settings = Settings(dt=dt, integrator=Integrator.RK4)
    command = np.random.default_rng(1).uniform(-1, 1, (model.n_dofs, 1))
    before = states(model, settings, seed=8, count=1, command=command)
    middle, after = (stepped(model, settings, before, n) for n in (1, 2))
    v = np.array([s["vel"][:, 0] for s in (before, middle, after)])
    powers = v @ command[:, 0] - (v * v) @ model.dofs.damping
    work = 2 * dt * (powers @ [1, 4, 1]) / 6
    gained = energy(model, settings, after) - energy(model, settings, before)
    assert gained == pytest.approx(work, abs=1e-9)


@pytest.mark.wide
@pytest.mark.parametrize("case", [c for c in CASES if c.kind != "free"], ids=str)
def test_momentum_is_conserved(case: Case) -> None:
    """A robot that flies without gravity keeps its momentum, whatever its joints do."""
    described, _ = built(case, Base.FREE)
    model = model_of(described, gravity=(0, 0, 0))
    model = model.with_columns("dofs", stiffness=0.7 * (model.dofs.stiffness > 0))
    settings = Settings(dt=1e-3, integrator=Integrator.RK4)
    arrays = states(model, settings, seed=4, count=1)
    start = fields(model, settings, arrays, "system")
    now = fields(model, settings, stepped(model, settings, arrays, 20), "system")
    for name in ("linear_momentum", "angular_momentum"):
        assert np.abs(start[name]).max() > 0.1
        np.testing.assert_allclose(now[name], start[name], atol=1e-8)
