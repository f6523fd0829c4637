"""Questions about an arm, against MuJoCo: where links are, what moves them, and what motions take."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

import kinema as km
from kit.robots.small_robots import from_text

from .small_arm import ARM, Judge

N = 5


@pytest.fixture(scope="module")
def kin(tmp_path_factory: pytest.TempPathFactory) -> km.Kinematics:
    folder: Path = tmp_path_factory.mktemp("arm")
    return km.Kinematics(from_text(folder, ARM), precision="double")


@pytest.fixture(scope="module")
def judge() -> Judge:
    return Judge()


def test_where_links_are_and_what_moves_them(kin: km.Kinematics, judge: Judge) -> None:
    q = judge.drawn(N)
    pos, quat = kin.forward_kinematics(q)
    jacobian, center = kin.jacobian(q, "hand"), kin.center_of_mass(q)
    assert jacobian.shape == (N, 6, 6)
    for i in range(N):
        data = judge.at(q[i])
        for k, name in enumerate(kin.link_names):
            body = judge.model.body(name).id
            np.testing.assert_allclose(pos[i, k], data.xpos[body], atol=1e-13)
            assert abs(quat[i, k] @ data.xquat[body]) == pytest.approx(1.0, abs=1e-13)
        np.testing.assert_allclose(jacobian[i], judge.jacobian("hand"), atol=1e-13)
        np.testing.assert_allclose(center[i], data.subtree_com[0], atol=1e-13)


def test_what_motions_take(kin: km.Kinematics, judge: Judge) -> None:
    rng = np.random.default_rng(1)
    q, (v, a) = judge.drawn(N), rng.normal(size=(2, N, 6))
    taken, held, mass = kin.inverse_dynamics(q, v, a), kin.gravity_compensation(q), kin.mass_matrix(q)
    for i in range(N):
        data = judge.at(q[i], v[i], a[i])
        np.testing.assert_allclose(taken[i], data.qfrc_inverse, atol=1e-11)
        whole = np.zeros((6, 6))
        judge.mujoco.mj_fullM(judge.model, data, whole)
        np.testing.assert_allclose(mass[i], whole, atol=1e-12)
        data = judge.at(q[i])
        np.testing.assert_allclose(held[i], data.qfrc_bias - data.qfrc_gravcomp, atol=1e-11)


def test_a_link_is_accelerated_as_wished(kin: km.Kinematics, judge: Judge) -> None:
    """By MuJoCo's own forward dynamics: the velocity of the hand changes so."""
    rng, h = np.random.default_rng(2), 1e-6
    q = np.array([0.3, 0.5, -1.0, 0.4, 0.9, 0.2])
    v, wished, extra = 0.3 * rng.normal(size=6), rng.normal(size=6), rng.normal(size=6)
    for mask in ((True,) * 6, (True, True, True, False, False, False)):
        force = kin.operational_space(q, v, "hand", wished, mask=mask, posture_force=extra)[0]
        data = judge.at(q, v)
        whole = np.zeros((6, 6))
        judge.mujoco.mj_fullM(judge.model, data, whole)
        qacc = np.linalg.solve(whole, force - data.qfrc_bias + data.qfrc_gravcomp)
        speeds = []
        for s in (-h, h):
            judge.at(q + s * v + 0.5 * s * s * qacc)
            speeds.append(judge.jacobian("hand") @ (v + s * qacc))
        found = (speeds[1] - speeds[0]) / (2 * h)
        np.testing.assert_allclose(found[list(mask)], wished[list(mask)], atol=1e-6)


def test_one_row_or_many(kin: km.Kinematics, judge: Judge) -> None:
    q = judge.drawn(7)
    together = kin.forward_kinematics(q)[0]
    np.testing.assert_array_equal(kin.forward_kinematics(q[3])[0][0], together[3])


def test_what_cannot_be_answered_is_said(kin: km.Kinematics) -> None:
    with pytest.raises(km.KinemaError, match=r"qpos: expected values of shape \(6,\) or \(n, 6\), not \(5,\)"):
        kin.forward_kinematics(np.zeros(5))
    with pytest.raises(km.KinemaError, match="no 'foot'; the links are: base, a, b"):
        kin.jacobian(np.zeros(6), "foot")
    with pytest.raises(km.KinemaError, match="2 and 3 rows cannot be broadcast together"):
        kin.inverse_dynamics(np.zeros((2, 6)), np.zeros((3, 6)), np.zeros(6))
    with pytest.raises(km.KinemaError, match="precision: 'half' is none of single, double"):
        km.Kinematics("nowhere.urdf", precision="half")
