"""Robots of all formats against MuJoCo: each is written as MJCF, and both sides are put in the same states."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.description import World
from kinema.dynamics import Settings
from kinema.dynamics.pipeline import compute
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.trace_context import TraceContext
from kinema.model import Model
from kit.assets import SHARED_ASSETS

from .arrays_for_tests import Found, computed, forced, gains_of

FILES = sorted(
    path
    for pattern in ("urdf/**/*.urdf", "sdf/**/*.sdf", "usd/**/*.usd*")
    for path in (SHARED_ASSETS.glob(pattern) if SHARED_ASSETS.is_dir() else ())
    if "Payload" not in path.parts and "Props" not in path.parts
)
STATES = 5
DIFFERENT = {
    "cassie_v2.sdf": "loops are opened by links that only the written file has",
    "double_pendulum.sdf": "MuJoCo's base floats, as nothing holds it; the kinematic link of ours does not",
    "demo_joint_types.sdf": "a gearbox and a screw are joints and constraints in MJCF",
    "joint_complete.sdf": "a gearbox and a screw are joints and constraints in MJCF",
    "mimic_fast_slow_pendulums_world.sdf": "several robots with links of one name, which MJCF has to rename",
    "diff_drive.sdf": "several robots with links of one name, which MJCF has to rename",
    "boxes_fourbar.usda": "loops are opened by links that only the written file has",
}


def both(file: Path, folder: Path) -> tuple[Model, Any]:
    described = km.read(file)
    for link in described.links:
        link.shapes = []
    if isinstance(described, World):
        described.shapes = []
    try:
        model = build_model([EntitySpec(name="robot", description=described)], gravity=(0.0, 0.0, -9.81))
    except km.KinemaError as error:
        pytest.skip(str(error))
    if model.n_dofs == 0:
        pytest.skip("nothing moves")
    losses = km.write(described, folder / "robot.xml")
    changed = [loss for loss in losses if loss.what in ("its inertia", "that it has no mass")]
    if changed:
        pytest.skip(f"MuJoCo takes no such inertia: {changed[0]}")
    peer = mujoco.MjModel.from_xml_path(str(folder / "robot.xml"))
    off = mujoco.mjtDisableBit
    peer.opt.disableflags |= int(off.mjDSBL_CONSTRAINT | off.mjDSBL_ACTUATION)
    peer.opt.gravity[:] = (0.0, 0.0, -9.81)
    return model, peer


def same_order(model: Model, peer: Any) -> tuple[np.ndarray, np.ndarray]:
    """Their index of each of our coordinates and degrees of freedom: the joints of a body come in the same order."""
    place = {name: i for i, name in enumerate(model.links.names)}
    bodies = {mujoco.mj_id2name(peer, mujoco.mjtObj.mjOBJ_BODY, b): b for b in range(peer.nbody)}
    q, dof = np.zeros(model.n_qs, int), np.zeros(model.n_dofs, int)
    for name, link in place.items():
        ours = [j for j in range(len(model.joints.names)) if model.joints.link_idx[j] == link]
        if not ours:
            continue
        body = bodies[name]
        theirs_q = int(peer.jnt_qposadr[peer.body_jntadr[body]])
        theirs_dof = int(peer.body_dofadr[body])
        for j in ours:
            n_q = int(model.joints.q_end[j] - model.joints.q_start[j])
            n_dof = int(model.joints.dof_end[j] - model.joints.dof_start[j])
            q[model.joints.q_start[j] : model.joints.q_end[j]] = range(theirs_q, theirs_q + n_q)
            dof[model.joints.dof_start[j] : model.joints.dof_end[j]] = range(theirs_dof, theirs_dof + n_dof)
            theirs_q, theirs_dof = theirs_q + n_q, theirs_dof + n_dof
    return q, dof


def _dynamics(ctx: TraceContext) -> Found:
    step = StepData(ctx)
    compute(step, "mass_matrix", "qfrc_bias", "constrained_acceleration")
    return {"mass": step.mass_matrix, "bias": step.qfrc_bias, "acceleration": step.constrained_acceleration}


@pytest.mark.wide
@pytest.mark.parametrize("file", FILES, ids=lambda p: "/".join(p.parts[-2:]))
def test_the_same_state_accelerates_alike(file: Path, tmp_path: Path) -> None:
    """Mass matrix, bias forces, springs and dampers, and what becomes of them."""
    if file.name in DIFFERENT:
        pytest.skip(DIFFERENT[file.name])
    model, peer = both(file, tmp_path)
    q_of, dof_of = same_order(model, peer)
    data = mujoco.MjData(peer)
    rng = np.random.default_rng(0)
    settings = Settings()
    no_force = gains_of(model, forced(model))
    for _ in range(STATES):
        mujoco.mj_resetData(peer, data)
        mujoco.mj_integratePos(peer, data.qpos, rng.uniform(-1, 1, peer.nv), 1.0)
        data.qvel[:] = rng.uniform(-1, 1, peer.nv)
        mujoco.mj_forward(peer, data)
        known = {"qpos": data.qpos[q_of], "vel": data.qvel[dof_of], **no_force}
        found = computed(model, settings, known, _dynamics)
        mass = np.zeros((peer.nv, peer.nv))
        mujoco.mj_fullM(peer, data, mass)
        mass = mass[np.ix_(dof_of, dof_of)]
        assert found["mass"] == pytest.approx(mass, rel=1e-7, abs=1e-7 * np.abs(mass).max())
        bias = data.qfrc_bias[dof_of]
        assert found["bias"] == pytest.approx(bias, rel=1e-7, abs=1e-7 * max(1.0, np.abs(bias).max()))
        if np.linalg.cond(mass) < 1e12:
            expected = data.qacc_smooth[dof_of]
            near = 1e-6 * max(1.0, np.abs(expected).max())
            assert found["acceleration"] == pytest.approx(expected, rel=1e-6, abs=near)
