"""One step, from state to state: the story on one screen.

Kinematics, then the forces on the joints, then the accelerations they cause, then the next state. Everything here runs
on floats as well as on symbols; `kinema.sim.programs` traces it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from kinema.trace import Value

from . import actuation
from .actuation import JointForces
from .dynamics import Factors, TreeMatrix, add_forces, bias_forces, factorise, joint_forces, mass_matrix
from .gyroscope import correct_lone_bodies
from .inputs import Inputs
from .integrate import advance
from .kinematics import Offset, Subspace, accelerations, offsets, subspaces, world_poses
from .settings import Integrator
from .tree import Tree


@dataclass(frozen=True, slots=True, eq=False)
class Dynamics:
    """Everything about one state that decides how it moves on."""

    tree: Tree
    q: Sequence[Value]
    v: Sequence[Value]
    where: dict[int, Offset]
    subspace: dict[int, Subspace]
    mass: TreeMatrix
    bias: list[Value]
    passive: JointForces
    tendon: JointForces
    control: JointForces
    actuator: JointForces
    pushed: list[Value]
    """Generalised forces of what pulls on frames: the user, thrusters, missing weight."""

    @property
    def force(self) -> list[Value]:
        """All that accelerates the joints."""
        parts = (self.passive.force, self.tendon.force, self.control.force, self.actuator.force, self.pushed)
        total: list[Value] = [-b for b in self.bias]
        for part in parts:
            total = [a + b for a, b in zip(total, part, strict=True)]
        return total


def step(inputs: Inputs) -> tuple[list[Value], list[Value]]:
    """The next coordinates and velocities, by one of the single-stage integrators."""
    state = dynamics(inputs, inputs.q, inputs.v)
    dt = inputs.settings.dt
    change = implicit_acceleration(inputs, state)
    v = [speed + dt * a for speed, a in zip(state.v, change, strict=True)]
    return advance(state.tree, state.q, v, dt), v


def dynamics(inputs: Inputs, q: Sequence[Value], v: Sequence[Value]) -> Dynamics:
    """Kinematics, inertia and forces of a state."""
    tree = inputs.tree()
    where = offsets(tree, q)
    subspace = subspaces(tree, where)
    mass = mass_matrix(tree, where, subspace, inputs.of_dofs("armature"))
    bias = bias_forces(tree, where, subspace, accelerations(tree, where, subspace, v, None, inputs.gravity))
    diagonal = [mass.at(i, i) for i in range(inputs.model.n_dofs)]
    actuator = actuation.actuators(inputs, q, v)
    frames = world_poses(tree, where)
    pulls = add_forces(actuator.frames, actuation.weightless(inputs, frames))
    pulls = add_forces(pulls, actuation.applied(inputs, frames))
    return Dynamics(
        tree=tree,
        q=q,
        v=v,
        where=where,
        subspace=subspace,
        mass=mass,
        bias=bias,
        passive=actuation.passive(inputs, q, v),
        tendon=actuation.tendons(inputs, q, v),
        control=actuation.control(inputs, q, v, diagonal),
        actuator=actuator,
        pushed=joint_forces(tree, where, subspace, pulls),
    )


def acceleration(state: Dynamics) -> list[Value]:
    """Forward dynamics: what the forces do to the coordinates."""
    return factorise(state.mass).solve(state.force)


def implicit_acceleration(inputs: Inputs, state: Dynamics) -> list[Value]:
    """The change of velocity per time over a step, with the slopes of forces taken at its end."""
    implicit = state.mass
    slopes = [state.passive]
    if inputs.settings.integrator is Integrator.IMPLICIT:
        slopes += [state.tendon, state.control, state.actuator]
    for forces in slopes:
        implicit = _with_slopes(implicit, forces, inputs.settings.dt)
    factors: Factors = factorise(implicit)
    change = factors.solve(state.force)
    if inputs.settings.integrator is Integrator.IMPLICIT:
        change = correct_lone_bodies(
            state.tree, implicit, state.where, state.v, state.force, change, inputs.settings.dt
        )
    return change


def _with_slopes(matrix: TreeMatrix, forces: JointForces, dt: float) -> TreeMatrix:
    """M - dt dF/dv; a coupling of two joints that do not move each other has no place in the tree, and is left out."""
    entries = dict(matrix.entries)
    for i, slope in enumerate(forces.slope):
        entries[i, i] = entries[i, i] - dt * slope
    for (i, j), slope in forces.coupling.items():
        for pair in ((i, j), (j, i)):
            if pair in entries:
                entries[pair] = entries[pair] - dt * slope
    return TreeMatrix(matrix.tree, entries)
