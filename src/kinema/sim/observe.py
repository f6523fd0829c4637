"""What users look at, as programs: poses and velocities of links, energies, forces. Run by NumPy when asked for.

They need no compiler, so that looking at something once costs milliseconds; arrays that are wanted after every step of
many environments are what compiled fields are for.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema.foundation import KinemaError
from kinema.model import Model
from kinema.trace import Program, Value

from .actuation import spring_energy
from .dynamics import kinetic_energy
from .inputs import Inputs
from .kinematics import link_pose, offsets, point_velocity, subspaces, velocities, world_poses
from .links import link_bodies, weight_energy
from .maths import matrix_quaternion
from .programs import traced
from .settings import Settings
from .step import dynamics

Observable = Callable[[Inputs, Sequence[int]], list[Value]]


def observing_program(model: Model, settings: Settings, what: str, links: Sequence[int] = ()) -> Program:
    """The program of one of `OBSERVABLES`, of some links where it is about links; its output is called `out`."""
    if what not in OBSERVABLES:
        raise KinemaError(f"{what!r} cannot be observed; these can: {', '.join(OBSERVABLES)}")
    return traced(model, settings, lambda inputs: {"out": OBSERVABLES[what](inputs, links)})


def _positions(inputs: Inputs, links: Sequence[int]) -> list[Value]:
    tree = inputs.tree()
    frames = world_poses(tree, offsets(tree, inputs.q))
    return [x for link in links for x in link_pose(tree, frames, link).position]


def _quaternions(inputs: Inputs, links: Sequence[int]) -> list[Value]:
    tree = inputs.tree()
    frames = world_poses(tree, offsets(tree, inputs.q))
    return [x for link in links for x in matrix_quaternion(link_pose(tree, frames, link).rotation)]


def _velocities(inputs: Inputs, links: Sequence[int], part: int) -> list[Value]:
    tree = inputs.tree()
    where = offsets(tree, inputs.q)
    frames = world_poses(tree, where)
    moving = velocities(tree, where, subspaces(tree, where), inputs.v)
    result: list[Value] = []
    for link in links:
        frame = int(inputs.model.links.frame_idx[link])
        result += point_velocity(moving[frame], frames[frame], inputs.model.links.pos[link].tolist())[part]
    return result


def _energy(inputs: Inputs, _: Sequence[int]) -> list[Value]:
    """Kinetic, and that of weight and of springs."""
    tree = inputs.tree()
    where = offsets(tree, inputs.q)
    moving = velocities(tree, where, subspaces(tree, where), inputs.v)
    kinetic = kinetic_energy(tree, moving, inputs.of_dofs("armature"), inputs.v)
    potential = weight_energy(inputs, link_bodies(inputs, tree, world_poses(tree, where)))
    return [kinetic, potential + spring_energy(inputs, inputs.q)]


def _total_force(inputs: Inputs, _: Sequence[int]) -> list[Value]:
    return dynamics(inputs, inputs.q, inputs.v).force


def _control_force(inputs: Inputs, _: Sequence[int]) -> list[Value]:
    state = dynamics(inputs, inputs.q, inputs.v)
    return [a + b for a, b in zip(state.control.force, state.actuator.force, strict=True)]


OBSERVABLES: dict[str, Observable] = {
    "links_pos": _positions,
    "links_quat": _quaternions,
    "links_vel": lambda inputs, links: _velocities(inputs, links, 1),
    "links_ang": lambda inputs, links: _velocities(inputs, links, 0),
    "energy": _energy,
    "dofs_force": _total_force,
    "dofs_control_force": _control_force,
}
"""By name: positions (3 numbers for each link) and quaternions (4) of links in the world, velocities of their origins
and angular velocities along the world's axes (3 each); kinetic and potential energy; the generalised force that
accelerates each degree of freedom, and what control and actuators do of it."""
