"""Every MJCF robot: all fields at random states, and whole trajectories, against MuJoCo."""

from __future__ import annotations

from functools import cache
from pathlib import Path
from typing import Any

import mujoco
import numpy as np
import pytest

from kinema.backend import find_device
from kinema.foundation import Array, Diagnostics
from kinema.sim import Engine, Integrator
from kinema.sim.fields.groups import GROUPS
from kinema.trace import interpret
from kit.assets import EXAMPLES, SHARED_ASSETS, all_assets, asset_id
from kit.mjcf_side import INTEGRATORS, Pair, load
from kit.mujoco_models import full_mass_matrix

from .arrays_for_tests import fields_program, mjcf_arrays, mjcf_settings

FRAGMENTS = {"talos.xml"}
"""Files that are only meant to be included."""
OWN = [Path(__file__).parent / "features.xml", *(EXAMPLES / "quadruped" / n for n in ("quadruped.xml", "scene.xml"))]
ROBOTS = [f for f in (*OWN, *all_assets("mjcf/**/*.xml")) if f.name not in FRAGMENTS]
N_STATES = 50
N_STEPS = 200
ACTUATORS_NOT_SIMULATED = {"slider_crank.xml"}
"""Files with actuators of a kind that Kinema warns about, and that are disabled in MuJoCo."""


@cache
def pair_of(file: Path) -> Pair:
    diagnostics = Diagnostics()
    pair = load(file, diagnostics)
    assert {d.code for d in diagnostics if d.code.startswith("sim.")} <= {"sim.actuator", "sim.loop", "sim.tendon"}
    assert bool(pair.left_out) == (file.name in ACTUATORS_NOT_SIMULATED)
    assert len(pair.left_out) == sum(d.code == "sim.actuator" for d in diagnostics)
    return pair


@cache
def compared(file: Path) -> tuple[Pair, dict[str, Array], list[Any]]:
    """All fields from one program of all groups, and MuJoCo's data, at random states."""
    pair = pair_of(file)
    settings = mjcf_settings(pair, external_forces=True)
    program = fields_program(pair.ours, settings, *GROUPS, jacobian_of=pair.ours.n_links - 1)
    generator = np.random.default_rng(1)
    states = [pair.random_state(generator) for _ in range(N_STATES)]
    for data in states:
        pair.push(data, generator)
    fields = interpret(program, mjcf_arrays(pair, settings, states))
    for data in states:
        mujoco.mj_forward(pair.theirs, data)
        mujoco.mj_rnePostConstraint(pair.theirs, data)
        mujoco.mj_subtreeVel(pair.theirs, data)
    return pair, fields, states


robot = pytest.mark.parametrize("file", ROBOTS, ids=asset_id)


def test_there_are_robots_to_compare() -> None:
    assert len(ROBOTS) > (20 if SHARED_ASSETS.exists() else 0)


def close(ours: Array, theirs: Any, tolerance: float, floor: float = 1e-6) -> None:
    """Within a tolerance, relative to the largest number of each state, or to a floor."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    scale = np.abs(theirs).reshape(len(theirs), -1).max(axis=1, initial=floor)
    scale = scale.reshape(-1, *([1] * (theirs.ndim - 1)))
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=tolerance)


def of_links(fields: dict[str, Array], name: str, *item: int) -> Array:
    """(states, links, ...)."""
    rows = fields[name].T
    return rows.reshape(len(rows), -1, *item)


@robot
def test_link_poses_and_velocities(file: Path) -> None:
    """Where links and their centres of mass are, and how they move: to 1e-10."""
    pair, fields, states = compared(file)
    body, root = pair.body, pair.theirs.body_rootid[pair.body]
    close(of_links(fields, "poses.pos", 3), [d.xpos[body] for d in states], 1e-10, floor=1.0)
    quat, theirs = of_links(fields, "poses.quat", 4), np.array([d.xquat[body] for d in states])
    close(quat * np.sign(np.sum(quat * theirs, axis=-1, keepdims=True)), theirs, 1e-10, floor=1.0)
    heavy = pair.ours.links.inertial_mass > 0  # MuJoCo has a centre for bodies without mass too
    centers = [d.xipos[body][heavy] for d in states]
    close(of_links(fields, "inertia.i_pos", 3)[:, heavy], centers, 1e-10, floor=1.0)
    close(of_links(fields, "inertia.root_COM", 3), [d.subtree_com[root] for d in states], 1e-10, floor=1.0)
    close(of_links(fields, "velocities.cdd_ang", 3), [d.cvel[body, :3] for d in states], 1e-10)
    close(of_links(fields, "velocities.cdd_vel", 3), [d.cvel[body, 3:] for d in states], 1e-10)
    arms = [d.xpos[body] - d.subtree_com[root] for d in states]
    vel = [d.cvel[body, 3:] + np.cross(d.cvel[body, :3], arm) for d, arm in zip(states, arms, strict=True)]
    close(of_links(fields, "velocities.vel", 3), vel, 1e-10)
    close(of_links(fields, "velocities.ang", 3), [d.cvel[body, :3] for d in states], 1e-10)


@robot
def test_link_inertias(file: Path) -> None:
    """Masses, inertias about the tree's centre of mass, and principal axes."""
    pair, fields, states = compared(file)
    cinert = np.array([d.cinert[pair.body] for d in states])
    order = [[0, 3, 4], [3, 1, 5], [4, 5, 2]]
    close(of_links(fields, "inertia.cinr_inertial", 3, 3), cinert[:, :, order], 1e-10)
    mass = of_links(fields, "inertia.cinr_mass")
    close(mass, cinert[:, :, 9], 1e-12)
    close(of_links(fields, "inertia.cinr_pos", 3) * mass[:, :, None], cinert[:, :, 6:9], 1e-10, floor=float(mass.max()))
    quat = of_links(fields, "inertia.cinr_quat", 4)[0]
    inertia = of_links(fields, "inertia.cinr_inertial", 3, 3)[0]
    for q, i, m, at in zip(quat, inertia, mass[0], of_links(fields, "inertia.cinr_pos", 3)[0], strict=True):
        axes = np.zeros(9)
        mujoco.mju_quat2Mat(axes, q)
        about_center = i - m * (at @ at * np.eye(3) - np.outer(at, at))
        principal = axes.reshape(3, 3).T @ about_center @ axes.reshape(3, 3)
        assert np.abs(principal - np.diag(np.diag(principal))).max() <= 1e-9 * max(np.abs(i).max(), 1e-9)


@robot
def test_axes_of_degrees_of_freedom(file: Path) -> None:
    """Motion vectors of all degrees of freedom, and how they change."""
    pair, fields, states = compared(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    for name, part in (("ang", slice(3)), ("vel", slice(3, 6))):
        close(of_links(fields, f"axes.cdof_{name}", 3), [d.cdof[pair.dof, part] for d in states], 1e-10, floor=1.0)
        close(of_links(fields, f"axes.cdofd_{name}", 3), [d.cdof_dot[pair.dof, part] for d in states], 1e-10, floor=1.0)
        moving = [d.cdof[pair.dof, part] * d.qvel[pair.dof, None] for d in states]
        close(of_links(fields, f"axes.cdofvel_{name}", 3), moving, 1e-10, floor=1.0)


@robot
def test_joints(file: Path) -> None:
    """Where the last joint of each link is and what its joints add to its velocity; coordinates of rotations."""
    pair, fields, states = compared(file)
    links, theirs = pair.ours.links, pair.theirs
    parents = [None if p < 0 else int(pair.body[p]) for p in links.parent_idx]
    for link, (body, parent) in enumerate(zip(pair.body, parents, strict=True)):
        ang = of_links(fields, "velocities.j_ang", 3)[:, link]
        expected = [d.cvel[body, :3] - (0.0 if parent is None else d.cvel[parent, :3]) for d in states]
        close(ang, expected, 1e-9, floor=1.0)
        if theirs.body_jntnum[body] == 0:
            np.testing.assert_array_equal(
                of_links(fields, "poses.j_pos", 3)[:, link], of_links(fields, "poses.pos", 3)[:, link]
            )
            continue
        last = theirs.body_jntadr[body] + theirs.body_jntnum[body] - 1
        if int(theirs.jnt_type[last]) != int(mujoco.mjtJoint.mjJNT_SLIDE):  # MuJoCo's does not move along
            anchors = [d.xanchor[last] for d in states]
            close(of_links(fields, "poses.j_pos", 3)[:, link], anchors, 1e-10, floor=1.0)
    for joint, kind in enumerate(theirs.jnt_type):
        at, dof = int(theirs.jnt_qposadr[joint]), int(theirs.jnt_dofadr[joint])
        if int(kind) == int(mujoco.mjtJoint.mjJNT_FREE):
            at, dof = at + 3, dof + 3
        rows = [int(np.flatnonzero(pair.dof == dof + i)[0]) for i in range(3 if int(kind) <= 1 else 1)]
        for e, d in enumerate(states):
            turn = d.qpos[at : at + 1].copy()
            if len(rows) == 3:
                turn = np.zeros(3)
                mujoco.mju_quat2Vel(turn, d.qpos[at : at + 4], 1.0)
            np.testing.assert_allclose(fields["coordinates.pos"][rows, e], turn, atol=1e-10)


@robot
def test_mass_matrix(file: Path) -> None:
    """M to 1e-9, and the factors give it back."""
    pair, fields, states = compared(file)
    n = pair.ours.n_dofs
    if n == 0:
        pytest.skip("nothing moves")
    theirs = np.array([full_mass_matrix(pair.theirs, d) for d in states])[:, pair.dof][:, :, pair.dof]
    close(of_links(fields, "mass.mass_mat", n), theirs, 1e-9)
    lower = of_links(fields, "mass.mass_mat_L", n)
    diagonal = 1.0 / of_links(fields, "mass.mass_mat_D_inv")
    close(np.einsum("sji,sj,sjk->sik", lower, diagonal, lower), theirs, 1e-9)
    assert (fields["mass.mass_mat_mask"] == 1).all()


@robot
def test_forces_and_acceleration(file: Path) -> None:
    """Bias, passive and actuator forces to 1e-9, acceleration to 1e-8."""
    pair, fields, states = compared(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    for ours, name, tolerance in (
        ("qf_bias", "qfrc_bias", 1e-9),
        ("qf_passive", "qfrc_passive", 1e-9),
        ("qf_actuator", "qfrc_actuator", 1e-9),
        ("force", "qfrc_smooth", 1e-9),
        ("acc", "qacc", 1e-8),
    ):
        close(of_links(fields, f"forces.{ours}"), [getattr(d, name)[pair.dof] for d in states], tolerance)
    applied = [d.qfrc_smooth - d.qfrc_passive + d.qfrc_bias - d.qfrc_actuator for d in states]
    close(of_links(fields, "forces.qf_applied"), [a[pair.dof] for a in applied], 1e-9, floor=1.0)


@robot
def test_loads(file: Path) -> None:
    """Com-based accelerations, and the forces between links."""
    pair, fields, states = compared(file)
    for name, part in (("ang", slice(3)), ("lin", slice(3, 6))):
        close(of_links(fields, f"loads.cacc_{name}", 3), [d.cacc[pair.body, part] for d in states], 1e-8, 1.0)
    for name, part in (("ang", slice(3)), ("vel", slice(3, 6))):
        close(of_links(fields, f"loads.cfrc_{name}", 3), [d.cfrc_int[pair.body, part] for d in states], 1e-8, 1.0)


@robot
def test_energy_momentum_and_jacobian(file: Path) -> None:
    """What is conserved, and the velocity of the last link by joint velocities."""
    pair, fields, states = compared(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    energy = np.array([d.energy for d in states])
    close(fields["system.kinetic_energy"].T, energy[:, 1:], 1e-10)
    if (pair.ours.links.gravity_scale == 1.0).all():  # MuJoCo counts weight that is compensated as well
        close(fields["system.potential_energy"].T, energy[:, :1], 1e-9)
    if not pair.ours.links.is_fixed.any():
        close(fields["system.com"].T, [d.subtree_com[0] for d in states], 1e-10, floor=1.0)
        momentum = [d.subtree_linvel[0] * pair.theirs.body_mass.sum() for d in states]
        close(fields["system.linear_momentum"].T, momentum, 1e-9)
    linear, angular = np.zeros((3, pair.theirs.nv)), np.zeros((3, pair.theirs.nv))
    rows = of_links(fields, "jacobian", pair.ours.n_dofs)
    for ours, d in zip(rows, states, strict=True):
        mujoco.mj_jacBody(pair.theirs, d, linear, angular, pair.body[-1])
        np.testing.assert_allclose(ours, np.vstack([linear, angular])[:, pair.dof], rtol=0, atol=1e-10)


def started(pair: Pair, seed: int, speed: float) -> Any:
    """A state of MuJoCo near the start, at low speed."""
    data = pair.random_state(np.random.default_rng(seed), speed)
    data.qpos[:] = pair.theirs.qpos0
    data.ctrl[:] *= 0.1
    return data


def trajectory(pair: Pair, data: Any, steps: int, disturbance: float = 0.0) -> Array:
    """MuJoCo's coordinates and velocities in our order, (steps, n)."""
    own = mujoco.MjData(pair.theirs)
    own.qpos[:], own.qvel[:], own.ctrl[:] = data.qpos, data.qvel, data.ctrl
    own.qvel[:] += disturbance
    rows = []
    for _ in range(steps):
        mujoco.mj_step(pair.theirs, own)
        rows.append(np.concatenate([own.qpos[pair.q], own.qvel[pair.dof]]))
    return np.array(rows)


def ours_after(pair: Pair, data: Any, integrator: Integrator, steps: int, precision: str) -> Array:
    """Ours from the same state, by the compiled straight line."""
    settings = mjcf_settings(pair, integrator)
    engine = Engine(pair.ours, settings, 1, find_device("cpu"), precision=precision, emission="unrolled")
    assert engine.settings.drive is settings.drive or not pair.ours.n_actuators
    for name in ("qpos", "vel", "ctrl"):
        values = pair.arrays([data])[name]
        if values.size:
            engine.field(name).assign(values)
    rows = []
    for _ in range(steps):
        engine.step()
        rows.append(np.concatenate([engine.field(name).numpy()[:, 0] for name in ("qpos", "vel")]))
    return np.array(rows, dtype=float)


DISTURBANCE = 1e-12
GROWN = 1e5
"""Where MuJoCo itself lets a disturbance of its velocities grow by this much, no comparison to 1e-6 means anything."""
SHORTER = {
    ("panda.xml", Integrator.EULER): 4,
    ("panda.xml", Integrator.RK4): 4,
    ("iiwa14.xml", Integrator.EULER): 256,
    ("iiwa14.xml", Integrator.RK4): 256,
    ("talos_position.xml", Integrator.EULER): 2,
    ("talos_position.xml", Integrator.RK4): 64,
    ("mjx_2f85.xml", Integrator.RK4): 2,
    ("right_hand.xml", Integrator.RK4): 64,
}
"""Stiff servos that need an implicit step at the file's own: what its step is divided by for the others."""


@robot
@pytest.mark.parametrize("integrator", list(Integrator), ids=lambda i: i.value)
def test_trajectory(file: Path, integrator: Integrator) -> None:
    """200 steps to 1e-6, of a length at which MuJoCo's own trajectory can be told from a neighbour's."""
    pair = pair_of(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    own = pair.theirs.opt.timestep
    try:
        pair.theirs.opt.timestep = own / SHORTER.get((file.name, integrator), 1)
        pair.theirs.opt.integrator = INTEGRATORS[integrator]
        data = started(pair, seed=2, speed=0.1)
        theirs = trajectory(pair, data, N_STEPS)
        neighbour = trajectory(pair, data, N_STEPS, DISTURBANCE)
        growth = float(np.abs(neighbour - theirs).max() / DISTURBANCE)
        assert growth < GROWN, f"MuJoCo lets a disturbance grow {growth:g} times"
        ours = ours_after(pair, data, integrator, N_STEPS, "double")
    finally:
        pair.theirs.opt.timestep = own
    scale = np.maximum(1.0, np.abs(theirs).max(axis=1, keepdims=True))
    error = float(np.abs((ours - theirs) / scale).max())
    print(f"error {error:.1e}, growth of a disturbance in MuJoCo {growth:.1e}")
    assert error < 1e-6


@robot
def test_single_precision(file: Path) -> None:
    """100 steps in float32 to 1e-4."""
    pair = pair_of(file)
    if pair.ours.n_dofs == 0:
        pytest.skip("nothing moves")
    pair.theirs.opt.integrator = INTEGRATORS[Integrator.IMPLICIT]
    data = started(pair, seed=3, speed=0.1)
    theirs = trajectory(pair, data, 100)
    ours = ours_after(pair, data, Integrator.IMPLICIT, 100, "single")
    scale = np.maximum(1.0, np.abs(theirs).max(axis=1, keepdims=True))
    error = float(np.abs((ours - theirs) / scale).max())
    print(f"error {error:.1e}")
    assert error < 1e-4
