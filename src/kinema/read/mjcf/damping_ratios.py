"""Damping of position actuators that is given as a damping ratio of the inertia they act on.

MuJoCo's compiler replaces the ratio by the damping; as all that it computes, that differs in the last bits on other
processors, so it is computed here and MuJoCo's value is taken where the two disagree.
"""

from __future__ import annotations

import math
from itertools import takewhile

import numpy as np

from kinema.core import Array, reproducible_product, reproducible_solve, rotate_tensor

from .model_reader import ModelReader, to_floats
from .mujoco_compiler import mujoco

_TOLERANCE = 1e-9
"""Largest relative difference from MuJoCo's damping."""
MAX_DOFS = 200
"""Degrees of freedom of a kinematic tree above which the damping is left to MuJoCo."""


def actuator_bias(reader: ModelReader, index: int, output: int) -> tuple[float, ...]:
    """Bias parameters of an actuator, the third of which is minus the damping of a position actuator.

    Args:
        reader: the model, after its inertials have been read.
        index: MuJoCo's index of the actuator.
        output: index of its gear.
    """
    compiled = to_floats(reader.model.actuator_biasprm[index])
    spec = reader.spec_element("actuators", index)
    ratio = 0.0 if spec is None else float(spec.biasprm[2])
    stiffness = float(reader.model.actuator_gainprm[index][0])
    if not (ratio > 0.0 and compiled[2] < 0.0 and stiffness == -compiled[1]):
        return compiled
    damping = ratio * 2.0 * math.sqrt(stiffness * _reflected_inertia(reader, index, output))
    if abs(damping + compiled[2]) <= -_TOLERANCE * compiled[2]:
        return (*compiled[:2], -damping, *compiled[3:])
    reader.placements.n_differences += 1
    return compiled


def _reflected_inertia(reader: ModelReader, index: int, output: int) -> float:
    """Inertia that an actuator on a hinge or slide joint moves: 1 / (m^T M^-1 m) with moment arm m; zero for others."""
    model, kinds = reader.model, mujoco().mjtTrn
    if int(model.actuator_trntype[index]) not in (kinds.mjTRN_JOINT, kinds.mjTRN_JOINTINPARENT):
        return 0.0
    joint, gear = int(model.actuator_trnid[index][0]), float(model.actuator_gear[output][0])
    body, dof = int(model.jnt_bodyid[joint]), int(model.jnt_dofadr[joint])
    inverse = _inverse_inertias(reader, int(model.body_rootid[body])).get(dof, 0.0)
    return 1.0 / (gear * gear * inverse) if gear and inverse > 0.0 else 0.0


def _inverse_inertias(reader: ModelReader, root: int) -> dict[int, float]:
    """Diagonal entries of the inverse mass matrix of a kinematic tree by degree of freedom; none if it is singular."""
    if root not in reader.inverse_inertias:
        dofs, matrix = _mass_matrix(reader, root)
        usable = 0 < len(dofs) <= MAX_DOFS
        inverse = reproducible_solve(matrix, np.eye(len(dofs))) if usable else np.full((len(dofs), len(dofs)), np.nan)
        values = {dof: float(inverse[i, i]) for i, dof in enumerate(dofs)}
        reader.inverse_inertias[root] = values if np.isfinite(inverse).all() else {}
    return reader.inverse_inertias[root]


def _mass_matrix(reader: ModelReader, root: int) -> tuple[list[int], Array]:
    """Degrees of freedom of a kinematic tree and its mass matrix with armature, in the reference configuration.

    The sum of the kinetic energies of its bodies, with their Jacobians in world axes.
    """
    model = reader.model
    bodies = list(takewhile(lambda body: int(model.body_rootid[body]) == root, range(root, model.nbody)))
    screws: dict[int, list[tuple[int, Array, Array]]] = {int(model.body_parentid[root]): []}
    dofs: list[int] = []
    for body in bodies:
        own = _dof_screws(reader, body)
        dofs += [dof for dof, _, _ in own]
        screws[body] = [*screws[int(model.body_parentid[body])], *own]
    matrix = np.diag([float(model.dof_armature[dof]) for dof in dofs])
    position = {dof: i for i, dof in enumerate(dofs)}
    for body in bodies if len(dofs) <= MAX_DOFS else []:
        inertial = reader.inertials.get(body)
        if inertial is None or not screws[body]:
            continue
        pose = reader.placements.body_in_world(body).pose
        center = pose.apply(inertial.center)
        angular = np.array([axis for _, axis, _ in screws[body]])
        linear = np.array([moment + np.cross(axis, center) for _, axis, moment in screws[body]])
        inertia = rotate_tensor(pose.rotation, inertial.inertia)
        energy = inertial.mass * reproducible_product(linear, linear.T)
        energy += reproducible_product(reproducible_product(angular, inertia), angular.T)
        rows = [position[dof] for dof, _, _ in screws[body]]
        matrix[np.ix_(rows, rows)] += energy
    return dofs, matrix


def _dof_screws(reader: ModelReader, body: int) -> list[tuple[int, Array, Array]]:
    """Degrees of freedom of the joints of a body: index, angular velocity and velocity of the world's origin."""
    model, kinds = reader.model, mujoco().mjtJoint
    world = reader.placements.body_in_world(body).pose
    first, result, zero = int(model.body_jntadr[body]), [], np.zeros(3)
    for joint in range(first, first + int(model.body_jntnum[body])):
        dof, kind = int(model.jnt_dofadr[joint]), int(model.jnt_type[joint])
        position, direction = reader.placements.joint_anchor_and_axis(joint)
        axis = reproducible_product(world.rotation, direction)
        anchor = world.position if kind == kinds.mjJNT_FREE else world.apply(position)
        if kind == kinds.mjJNT_SLIDE:
            result.append((dof, zero, axis))
            continue
        axes = [axis] if kind == kinds.mjJNT_HINGE else list(world.rotation.T)
        if kind == kinds.mjJNT_FREE:
            result += [(dof + i, zero, unit) for i, unit in enumerate(np.eye(3))]
            dof += 3
        result += [(dof + i, turn, np.cross(anchor, turn)) for i, turn in enumerate(axes)]
    return result
