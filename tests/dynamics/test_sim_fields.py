"""Fields on demand: right, up to date, without copies, and at no cost where nobody reads them."""

from __future__ import annotations

from pathlib import Path

import mujoco
import numpy as np
import pytest

from kinema.core import Array, KinemaError, quaternion_to_matrix
from kinema.dynamics import ControlMode, Engine, InputMode, Settings, describe_fields
from kinema.dynamics.queries.field_catalog import NAMESPACES
from kinema.dynamics.queries.field_groups import FIELD_GROUPS
from kinema.ir import interpret
from kinema.model import Model
from kinema.runtime import find_device
from kit.mjcf_side import load
from kit.robots.each_joint import Case, model_of, robot

from .arrays_for_tests import fields_program, mjcf_settings, noting

N_ENVS = 5
"""Not a multiple of anything."""
LACKING = {
    "equalities",
    "equality wrenches",
    "couplings",
    "contacts",
    "laws of contacts",
    "sensors",
    "rows",
    "rows against rows",
    "sleep",
}
"""What the robot has none of."""


class Running:
    """An engine that counts what it compiles."""

    def __init__(self, device: str = "cpu", codegen: str = "unrolled") -> None:
        self.compiled: list[str] = []
        self.on_cpu = device == "cpu"
        self.model: Model = model_of(robot(Case("spherical", backwards=False)))
        settings = Settings(external_forces=True, per_env=frozenset({"mass_shift"}))
        self.engine = Engine(
            self.model,
            settings,
            N_ENVS,
            find_device(device),
            precision="double",
            codegen=codegen,
            progress=noting(self.compiled),
        )

    def scatter(self, seed: int) -> None:
        """Another state, other commands, which mean something else in each environment."""
        generator = np.random.default_rng(seed)
        n = self.model.n_dofs
        q = generator.normal(size=(self.model.n_qs, N_ENVS))
        q[:4] /= np.linalg.norm(q[:4], axis=0)
        self.engine.array_view("qpos").assign(q)
        for name, count in (("vel", n), ("command", n), ("mass_shift", 3)):
            self.engine.array_view(name).assign(generator.uniform(0.1, 1, (count, N_ENVS)))
        for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
            self.engine.array_view(name).assign(generator.uniform(-1, 1, (9, N_ENVS)))
        for name in ("kp", "kv"):
            self.engine.array_view(name).assign(generator.uniform(0.1, 1, (n, 1)))
        self.engine.set_control_modes(generator.integers(0, 3, (n, N_ENVS)))
        assert self.engine.settings.input_mode is InputMode.MIXED

    def expected(self, group: str) -> dict[str, Array]:
        """The group's fields by the interpreter, at the present state."""
        engine = self.engine
        arrays = {
            name: arena.view(name).numpy().copy()
            for arena in (engine.state, engine.controls, engine.uniform)
            for name, (_, count) in arena.layout.rows.items()
            if count
        }
        if group == "jacobian":
            return interpret(fields_program(self.model, engine.settings, jacobian_of=2), arrays)
        found = interpret(fields_program(self.model, engine.settings, group), arrays)
        return {name.removeprefix(f"{group}."): values for name, values in found.items()}


@pytest.fixture(scope="module", params=["cpu unrolled", "cpu loops", "cuda:0 unrolled", "cuda:0 loops"])
def running(request: pytest.FixtureRequest) -> Running:
    try:
        return Running(*request.param.split())
    except KinemaError as reason:
        pytest.skip(str(reason))


def test_nothing_is_compiled_unasked(running: Running) -> None:
    """Not even by making an engine, setting a state, or naming a field."""
    running.scatter(0)
    quantity = running.engine.fields.links_state
    assert "pos" in dir(quantity)
    assert not running.compiled


@pytest.mark.wide
@pytest.mark.parametrize("group", sorted(set(FIELD_GROUPS) - LACKING))
def test_fields_of_a_group(running: Running, group: str) -> None:
    """Compiled, each is what the interpreter computes, now and after the state has changed."""
    held = {}
    for seed in (1, 2):
        running.scatter(seed)
        expected = running.expected(group)
        found = {}
        for space, infos in NAMESPACES.items():
            for info in infos:
                if info.group == group:
                    held.setdefault(info.name, getattr(getattr(running.engine.fields, space), info.name))
                    found[info.name] = held[info.name].numpy()
                    assert found[info.name].shape == held[info.name].shape
        assert set(found) == set(expected)
        for name, values in found.items():
            rows = np.moveaxis(values, next(i for i, n in enumerate(values.shape) if n == N_ENVS), -1)
            np.testing.assert_allclose(rows.reshape(-1, N_ENVS), expected[name], rtol=1e-11, atol=1e-12)
    assert sum(group in line for line in running.compiled) == 1


def test_shapes(running: Running) -> None:
    """Items, environments, then vectors; matrices over degrees of freedom have the environments last."""
    fields = running.engine.fields
    assert fields.links_state.pos.numpy().shape == (3, N_ENVS, 3)
    assert fields.links_state.cinr_inertial.shape == (3, N_ENVS, 3, 3)
    assert fields.links_state.hibernated.shape == (3, N_ENVS)
    assert fields.dofs_state.vel.shape == (4, N_ENVS)
    assert fields.constraints.mass_mat.shape == (4, 4, N_ENVS)
    assert fields.system.com.shape == (3, N_ENVS)
    assert fields.system.kinetic_energy.shape == (N_ENVS,)


def test_no_copies(running: Running) -> None:
    """Reading twice gives the same memory, and the state's own arrays are the state."""
    if not running.on_cpu:
        pytest.skip("NumPy sees a copy of a GPU's memory")
    fields = running.engine.fields
    first = fields.links_state.pos.numpy()
    assert np.shares_memory(first, fields.links_state.pos.numpy())
    running.engine.array_view("vel").numpy()[:] = 7.0
    assert (fields.dofs_state.vel.numpy() == 7.0).all()
    assert np.shares_memory(fields.dofs_state.vel.numpy(), fields.dofs_state.vel_next.numpy())
    applied = fields.links_state.cfrc_applied_vel.numpy()
    assert applied.shape == (3, N_ENVS, 3)
    assert np.shares_memory(applied, running.engine.state.view("cfrc_applied_vel").numpy())


def test_computed_once_for_each_state(running: Running, monkeypatch: pytest.MonkeyPatch) -> None:
    """Programs run when something changed, and not otherwise."""
    running.scatter(3)
    fields = running.engine.fields
    fields.links_state.pos.numpy()
    group = fields._groups["poses"]
    runs = 0

    def counted() -> None:
        nonlocal runs
        runs += 1

    monkeypatch.setitem(group._launches, None, counted)
    fields.links_state.quat.numpy()
    fields.links_state.j_pos.numpy()
    assert runs == 0
    running.engine.step()
    fields.links_state.pos.numpy()
    fields.links_state.quat.numpy()
    assert runs == 1
    running.engine.mark_modified()
    fields.links_state.pos.numpy()
    assert runs == 2


def test_what_does_not_exist_yet_is_zero(running: Running) -> None:
    fields = running.engine.fields
    for name in ("cfrc_coupling_vel", "hibernated", "cfrc_coupling_ang"):
        assert not getattr(fields.links_state, name).numpy().any()
    assert not fields.dofs_state.qf_constraint.numpy().any()


def test_previous_velocity(running: Running) -> None:
    """That before the last of some steps."""
    running.scatter(4)
    engine = running.engine
    engine.fields.dofs_state.vel_prev.numpy()
    engine.step(2)
    before = engine.array_view("vel").numpy().copy()
    engine.step(1)
    np.testing.assert_array_equal(engine.fields.dofs_state.vel_prev.numpy(), before)
    running.scatter(4)
    engine.step(3)
    np.testing.assert_array_equal(engine.fields.dofs_state.vel_prev.numpy(), before)


def test_meaning_of_commands_may_change(running: Running) -> None:
    """Groups that depend on it follow, in the same arrays."""
    engine = running.engine
    running.scatter(5)
    held, pushed = engine.fields.dofs_state.ctrl_force, engine.fields.dofs_state.qf_control
    command = engine.controls.view("command").numpy()
    assert not (held.numpy() == command).all()
    assert not (pushed.numpy() == command).all()
    engine.set_control_modes([ControlMode.FORCE] * 4)
    np.testing.assert_array_equal(held.numpy(), command)
    np.testing.assert_array_equal(pushed.numpy(), command)
    assert not engine.fields.dofs_state.ctrl_pos.numpy().any()
    engine.set_control_modes([ControlMode.POSITION] * 4)
    np.testing.assert_array_equal(engine.fields.dofs_state.ctrl_pos.numpy(), command)
    assert not held.numpy().any()
    running.scatter(5)
    assert not (held.numpy() == command).all()
    assert not (pushed.numpy() == command).all()


def test_jacobian(running: Running) -> None:
    """Of a link, by its number."""
    running.scatter(6)
    found = running.engine.fields.jacobian(2)
    assert found.shape == (6, 4, N_ENVS)
    np.testing.assert_allclose(found.numpy().reshape(-1, N_ENVS), running.expected("jacobian")["jacobian"], atol=1e-13)
    fields = running.engine.fields
    moving = np.einsum("ijk,jk->ik", found.numpy(), fields.dofs_state.vel.numpy())
    np.testing.assert_allclose(moving[:3].T, fields.links_state.vel.numpy()[2], atol=1e-13)
    np.testing.assert_allclose(moving[3:].T, fields.links_state.ang.numpy()[2], atol=1e-13)
    with pytest.raises(KinemaError, match="there is no link 3"):
        fields.jacobian(3)


def test_torch(running: Running) -> None:
    """The same memory as a tensor."""
    pytest.importorskip("torch")
    pos = running.engine.fields.links_state.pos
    tensor = pos.to_torch()
    assert tuple(tensor.shape) == pos.shape
    np.testing.assert_array_equal(tensor.cpu().numpy(), pos.numpy())
    if running.on_cpu:
        assert np.shares_memory(tensor.numpy(), pos.numpy())
    assert tuple(running.engine.fields.system.kinetic_energy.to_torch().shape) == (N_ENVS,)


def test_constants(running: Running) -> None:
    """Principal axes of inertia, and the model's own arrays under their names."""
    info = running.engine.fields.links_info
    for axes, inertia in zip(info.inertial_quat, info.inertial_i, strict=True):
        turned = quaternion_to_matrix(axes).T @ inertia @ quaternion_to_matrix(axes)
        np.testing.assert_allclose(turned, np.diag(np.diag(turned)), atol=1e-14)
    assert info.parent_idx.tolist() == [-1, 0, 1]
    assert running.engine.fields.dofs_info.armature.shape == (4,)


def test_unknown_fields_are_named() -> None:
    running = Running()
    with pytest.raises(AttributeError, match="links_state has no field 'position'; it has: pos, quat"):
        _ = running.engine.fields.links_state.position


def test_every_field_is_described() -> None:
    """One line each, with a unit; and none of the contract's is missing."""
    text = describe_fields()
    contract = {
        "links_state": "pos quat i_pos cinr_inertial cinr_mass cinr_pos cinr_quat cdd_vel cdd_ang j_pos j_quat j_vel "
        "j_ang cacc_ang cacc_lin cfrc_ang cfrc_vel cfrc_applied_ang cfrc_applied_vel cfrc_coupling_ang "
        "cfrc_coupling_vel hibernated mass_shift root_COM",
        "dofs_state": "pos vel vel_prev vel_next acc force qf_bias qf_passive qf_actuator qf_applied qf_constraint "
        "ctrl_force ctrl_pos ctrl_vel ctrl_mode cdof_ang cdof_vel cdofvel_ang cdofvel_vel cdofd_ang cdofd_vel",
        "constraints": "mass_mat mass_mat_L mass_mat_D_inv mass_mat_mask",
    }
    for space, names in contract.items():
        for name in names.split():
            assert f"{space}.{name}: " in text
    assert all(line.endswith("]") for line in text.splitlines())


def test_energies_that_users_see_are_those_of_mujoco() -> None:
    """Of weight and of all springs: in hinges, in a ball, in tendons."""
    pair = load(Path(__file__).parent / "features.xml")
    generator = np.random.default_rng(3)
    states = [pair.random_state(generator) for _ in range(5)]
    for data in states:
        mujoco.mj_forward(pair.theirs, data)
    engine = Engine(pair.ours, mjcf_settings(pair), len(states), find_device("cpu"), precision="double")
    for name in ("qpos", "vel"):
        engine.array_view(name).assign(pair.arrays(states)[name])
    kinetic, potential = engine.fields.system.kinetic_energy.numpy(), engine.fields.system.potential_energy.numpy()
    spared = (1.0 - pair.ours.links.gravity_scale) * pair.ours.links.inertial_mass  # weight that MuJoCo counts
    counted = [spared @ (d.xipos[pair.body] @ pair.theirs.opt.gravity) for d in states]
    assert potential == pytest.approx([d.energy[0] + c for d, c in zip(states, counted, strict=True)], rel=1e-10)
    assert kinetic == pytest.approx([d.energy[1] for d in states], rel=1e-10)
