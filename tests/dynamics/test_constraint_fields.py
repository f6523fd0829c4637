"""The fields of constraints and of their solution, name by name beside MuJoCo's `mjData`."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics import Integrator, Solver
from kit.constraint_parity import matching_rows
from kit.mujoco_models import quiet

from .constrained import beside_mujoco, loaded_text
from .test_constraints_mujoco import CASES, STOP, TEXT, chain, equality, hinge, slide

SMALL = (
    chain(hinge(0, f'{STOP} frictionloss="0.1"'), hinge(1, axis="1 0 0"), slide(2, STOP)),
    equality('<connect body1="b2" anchor="0.05 0 -0.1"/><joint joint1="j0" joint2="j1"/>'),
)
"""Rows of all laws, in little: a hinge and a slide that stop, dry friction, two that follow each other, and a tie."""
CHOSEN = ["small", *(pytest.param(case, marks=pytest.mark.benchmark) for case in CASES)]


def solved(folder: Path, case: str, codegen: str = "loops", **settings: Any) -> SimpleNamespace:
    """Three states on both sides, with MuJoCo's solution."""
    bodies, rest = {**CASES, "small": SMALL}[case]
    pair = loaded_text(folder, TEXT.format(dt=0.001, default="", bodies=bodies, rest=rest))
    rng = np.random.default_rng(1)
    states = [mujoco.MjData(pair.theirs) for _ in range(3)]
    for k, data in enumerate(states):
        mujoco.mj_integratePos(pair.theirs, data.qpos, 0.3 * k * rng.uniform(-1, 1, pair.theirs.nv), 1.0)
        data.qvel[:] = k * rng.uniform(-1, 1, pair.theirs.nv)
    engine = beside_mujoco(pair, states, codegen, Integrator.EULER, **settings)
    with quiet():
        for data in states:
            mujoco.mj_forward(pair.theirs, data)
    return SimpleNamespace(pair=pair, states=states, engine=engine, fields=engine.fields.constraints)


def check(ours: Array, theirs: Array, what: str, tolerance: float = 1e-9) -> None:
    """Relative to the largest of them."""
    error = np.abs(ours - theirs).max(initial=0.0) / max(1.0, np.abs(theirs).max(initial=0.0))
    print(f"{what}: {error:.1e}")
    assert error < tolerance, what


@pytest.mark.parametrize("case", CHOSEN)
def test_rows(tmp_path: Path, case: str) -> None:
    """`jac`, `efc_*` and `efc_AR` of all rows that act; there are as many of them as in MuJoCo."""
    side = solved(tmp_path, case)
    dof, fields = side.pair.dof, side.fields
    for env, data in enumerate(side.states):
        hard = fields.efc_D.numpy()[:, env]
        own = np.flatnonzero(hard > 0.0)
        jacobian = data.efc_J.reshape(-1, side.pair.theirs.nv)[: data.nefc]
        assert len(own) == data.nefc
        ours = np.column_stack([fields.jac.numpy()[own, :, env], 1e-3 * fields.efc_aref.numpy()[own, env]])
        own = own[matching_rows(ours, np.column_stack([jacobian[:, dof], 1e-3 * data.efc_aref]), 0)[0]]
        check(fields.jac.numpy()[own, :, env], jacobian[:, dof], "jac")
        for name in ("efc_pos", "efc_vel", "efc_D", "efc_aref", "efc_b", "efc_force"):
            check(getattr(fields, name).numpy()[own, env], getattr(data, name), name)
        expected = jacobian @ np.linalg.solve(full_inertia(side.pair.theirs, data), jacobian.T) + np.diag(data.efc_R)
        check(fields.efc_AR.numpy()[np.ix_(own, own)][:, :, env], expected, "efc_AR")


def test_equality_rows_are_matched_up_to_their_sign() -> None:
    """Rows of equalities in another order and negated are the same constraints; a negated limit is another one."""
    rng = np.random.default_rng(0)
    theirs = rng.normal(size=(4, 5))
    rows, sign = matching_rows(np.array([-theirs[2], theirs[0], theirs[3], -theirs[1]]), theirs, n_equalities=3)
    assert rows == [1, 3, 0, 2]
    assert sign.tolist() == [1.0, -1.0, -1.0, 1.0]
    assert matching_rows(-theirs, theirs, n_equalities=0)[1].tolist() == [1.0] * 4


def full_inertia(model: Any, data: Any) -> Array:
    """The joint-space inertia of MuJoCo, column by column."""
    columns = np.zeros((model.nv, model.nv))
    for k in range(model.nv):
        unit = np.zeros(model.nv)
        unit[k] = 1.0
        mujoco.mj_mulM(model, data, columns[k], unit)
    return columns.T


@pytest.mark.parametrize("solver", Solver)
def test_solution(tmp_path: Path, solver: Solver) -> None:
    """`qacc`, `qfrc_constraint`, `Ma`, and the costs that MuJoCo's own function gives; both solvers arrive there."""
    steps = {Solver.NEWTON: 30, Solver.CG: 400}[solver]
    side = solved(tmp_path, "small", solver=solver, iterations=steps)
    dof, fields, model = side.pair.dof, side.fields, side.pair.theirs
    assert (fields.n_iterations.numpy() > 0).all()
    assert (fields.n_iterations.numpy() < steps).all()
    for env, data in enumerate(side.states):
        check(fields.qacc.numpy()[:, env], data.qacc[dof], "qacc")
        check(fields.qfrc_constraint.numpy()[:, env], data.qfrc_constraint[dof], "qfrc_constraint")
        heavy, change = np.zeros(model.nv), data.qacc - data.qacc_smooth
        mujoco.mj_mulM(model, data, heavy, data.qacc)
        check(fields.Ma.numpy()[:, env], heavy[dof], "Ma")
        check(fields.Mgrad.numpy()[:, env], np.zeros(model.nv), "Mgrad", 1e-6)
        assert fields.gradient.numpy()[env] < 1e-6
        mujoco.mj_mulM(model, data, heavy, change)
        cost, missing = np.zeros(1), data.efc_J.reshape(-1, model.nv) @ data.qacc - data.efc_aref
        mujoco.mj_constraintUpdate(model, data, missing, cost, 0)
        check(fields.gauss.numpy()[env], 0.5 * heavy @ change, "gauss", 1e-8)
        assert fields.n_rows.numpy()[env] == data.nefc
        if solver is Solver.NEWTON:
            check(fields.quad.numpy()[:, env].sum(), cost[0], "quad", 1e-8)
        check(fields.cost.numpy()[env], cost[0] + 0.5 * heavy @ change, "cost", 1e-8)


def test_rows_are_named(tmp_path: Path) -> None:
    """Each row says what it belongs to: equalities first, then friction, then limits."""
    info = solved(tmp_path, "small").engine.fields.constraints_info
    assert info.laws == ["equality"] * 4 + ["friction"] + ["limit"] * 2
    assert info.kinds == ["couplings", "equalities", "equalities", "equalities", "friction", "limits", "limits"]
    assert info.names[-3:] == ["j0", "j0", "j2"]


def test_names_of_the_contract(tmp_path: Path) -> None:
    """A user finds them where the array contract says; contacts count among the rows, each as MuJoCo counts it."""
    text = """<mujoco><worldbody><geom type="plane" size="1 1 1"/><body pos="0 0 0.099"><freejoint/>
    <geom size="0.1"/></body></worldbody></mujoco>"""
    scene = km.Scene(precision="double")
    scene.add(_written(tmp_path, text))
    scene.build()
    fields = scene.sim.rigid_solver.constraints
    data = _mujoco(text)
    assert fields.n_rows.numpy().tolist() == [data.nefc] == [4]
    np.testing.assert_allclose(fields.qacc.numpy()[:, 0], data.qacc, atol=1e-7)
    np.testing.assert_allclose(fields.qfrc_constraint.numpy()[:, 0], data.qfrc_constraint, atol=1e-6)
    np.testing.assert_allclose(fields.jac[..., 0], data.efc_J.reshape(4, 6), atol=1e-7)
    with pytest.raises(KinemaError, match="the model has no constraint rows"):
        _ = scene.built.engine.fields.constraints.jac


def _written(folder: Path, text: str) -> Path:
    file = folder / "ball.xml"
    file.write_text(text, encoding="utf-8")
    return file


def _mujoco(text: str) -> Any:
    model = mujoco.MjModel.from_xml_string(text)
    data = mujoco.MjData(model)
    mujoco.mj_forward(model, data)
    return data
