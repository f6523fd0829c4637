"""All fields beside MuJoCo's numbers at the same states: one function for each kind of field.

Fields are called `group.field`, and are (numbers, states).
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import mujoco
import numpy as np

from kinema.core import Array
from kit.mjcf_side import Pair
from kit.mujoco_models import full_mass_matrix

Fields = dict[str, Array]
Check = Callable[[Pair, Fields, list[Any]], None]


def states_of(pair: Pair, count: int, seed: int) -> list[Any]:
    """MuJoCo's data at random states, pushed at random, with everything that the checks need."""
    generator = np.random.default_rng(seed)
    states = [pair.random_state(generator) for _ in range(count)]
    for data in states:
        pair.push(data, generator)
    for data in states:
        mujoco.mj_forward(pair.theirs, data)
        mujoco.mj_rnePostConstraint(pair.theirs, data)
        mujoco.mj_subtreeVel(pair.theirs, data)
    return states


def close(ours: Array, theirs: Any, tolerance: float, floor: float = 1e-6) -> None:
    """Within a tolerance, relative to the largest number of each state, or to a floor."""
    theirs = np.asarray(theirs)
    assert ours.shape == theirs.shape
    scale = np.abs(theirs).reshape(len(theirs), -1).max(axis=1, initial=floor)
    scale = scale.reshape(-1, *([1] * (theirs.ndim - 1)))
    np.testing.assert_allclose(ours / scale, theirs / scale, rtol=0, atol=tolerance)


def of_links(fields: Fields, name: str, *element: int) -> Array:
    """(states, links, ...)."""
    rows = fields[name].T
    return rows.reshape(len(rows), -1, *element)


def link_poses_and_velocities(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """Where links and their centres of mass are, and how they move: to 1e-10."""
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


def link_inertias(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """Masses, inertias about the tree's centre of mass, and principal axes."""
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


def axes_of_degrees_of_freedom(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """Motion vectors of all degrees of freedom, and how they change."""
    for name, part in (("ang", slice(3)), ("vel", slice(3, 6))):
        close(of_links(fields, f"axes.cdof_{name}", 3), [d.cdof[pair.dof, part] for d in states], 1e-10, floor=1.0)
        close(of_links(fields, f"axes.cdofd_{name}", 3), [d.cdof_dot[pair.dof, part] for d in states], 1e-10, floor=1.0)
        moving = [d.cdof[pair.dof, part] * d.qvel[pair.dof, None] for d in states]
        close(of_links(fields, f"axes.cdofvel_{name}", 3), moving, 1e-10, floor=1.0)


def joints(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """Where the last joint of each link is and what its joints add to its velocity; coordinates of rotations."""
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


def mass_matrix(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """M to 1e-9, and the factors give it back."""
    n = pair.ours.n_dofs
    theirs = np.array([full_mass_matrix(pair.theirs, d) for d in states])[:, pair.dof][:, :, pair.dof]
    close(of_links(fields, "mass.mass_mat", n), theirs, 1e-9)
    lower = of_links(fields, "mass.mass_mat_L", n)
    diagonal = 1.0 / of_links(fields, "mass.mass_mat_D_inv")
    close(np.einsum("sji,sj,sjk->sik", lower, diagonal, lower), theirs, 1e-9)
    assert (fields["mass.mass_mat_mask"] == 1).all()


def forces_and_acceleration(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """Bias, passive and actuator forces to 1e-9, acceleration to 1e-8."""
    for ours, name, tolerance in (
        ("bias forces.qf_bias", "qfrc_bias", 1e-9),
        ("smooth forces.qf_passive", "qfrc_passive", 1e-9),
        ("smooth forces.qf_actuator", "qfrc_actuator", 1e-9),
        ("forces.force", "qfrc_smooth", 1e-9),
        ("forces.acc", "qacc", 1e-8),
    ):
        close(of_links(fields, ours), [getattr(d, name)[pair.dof] for d in states], tolerance)
    applied = [d.qfrc_smooth - d.qfrc_passive + d.qfrc_bias - d.qfrc_actuator for d in states]
    close(of_links(fields, "smooth forces.qf_applied"), [a[pair.dof] for a in applied], 1e-9, floor=1.0)


def loads(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """Com-based accelerations, and the forces between links."""
    for name, part in (("ang", slice(3)), ("lin", slice(3, 6))):
        close(of_links(fields, f"loads.cacc_{name}", 3), [d.cacc[pair.body, part] for d in states], 1e-8, 1.0)
    for name, part in (("ang", slice(3)), ("vel", slice(3, 6))):
        close(of_links(fields, f"loads.cfrc_{name}", 3), [d.cfrc_int[pair.body, part] for d in states], 1e-8, 1.0)


def energy_momentum_and_jacobian(pair: Pair, fields: Fields, states: list[Any]) -> None:
    """What is conserved, and the velocity of the last link by joint velocities."""
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


OF_LINKS: list[Check] = [link_poses_and_velocities, link_inertias, joints, loads]
OF_MOTION: list[Check] = [
    axes_of_degrees_of_freedom,
    mass_matrix,
    forces_and_acceleration,
    energy_momentum_and_jacobian,
]
"""Where something moves."""
