"""Links instead of frames: where they are, how they move and what they bear, in the world's axes.

Quantities that are called *com-based* are those of motion and force vectors taken at one point for a whole tree: the
centre of mass of everything that hangs on the tree's root link, at rest for the moment. That is MuJoCo's convention.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from kinema.model import Model
from kinema.trace import Value

from .inputs import Inputs
from .kinematics import Moving, Offset, Subspace, link_pose
from .maths import ZERO, Matrix, Vector, add, cross, matrix_sum, product, rotate, scale, sub, transpose
from .tree import WORLD, Tree, point_inertia


@dataclass(frozen=True, slots=True, eq=False)
class LinkBody:
    """A link as a rigid body in the world."""

    link: int
    frame: int
    """The moving frame it sits in."""
    pose: Offset
    mass: Value
    center: Vector
    """Its centre of mass [m]."""
    inertia: Matrix
    """About that centre [kg m2]."""


def link_bodies(inputs: Inputs, tree: Tree, frames: dict[int, Offset]) -> list[LinkBody]:
    """All links, with the masses of this environment."""
    links = inputs.model.links
    result = []
    for link in range(inputs.model.n_links):
        pose = link_pose(tree, frames, link)
        own = float(links.inertial_mass[link])
        mass = inputs.mass(link)
        about_center = [scale(1.0 if own == 0.0 else mass * (1.0 / own), r) for r in links.inertial_i[link].tolist()]
        result.append(
            LinkBody(
                link=link,
                frame=int(links.frame_idx[link]),
                pose=pose,
                mass=mass,
                center=add(pose.position, rotate(pose.rotation, inputs.center(link))),
                inertia=product(product(pose.rotation, about_center), transpose(pose.rotation)),
            )
        )
    return result


def root_links(model: Model) -> list[int]:
    """Of each link the one that holds its whole tree."""
    result = []
    for link in range(model.n_links):
        while model.links.parent_idx[link] >= 0:
            link = int(model.links.parent_idx[link])
        result.append(link)
    return result


def common_center(bodies: Sequence[LinkBody]) -> tuple[Value, Vector]:
    """The mass of some links and their centre of mass; that of the first where they have no mass."""
    mass: Value = 0.0
    moment: Vector = ZERO
    for body in bodies:
        mass = mass + body.mass
        moment = add(moment, scale(body.mass, body.center))
    if isinstance(mass, float) and mass == 0.0:
        return mass, bodies[0].center
    return mass, scale(1.0 / mass, moment)


def root_centers(model: Model, bodies: Sequence[LinkBody]) -> list[Vector]:
    """Of each link the centre of mass of its whole tree."""
    roots = root_links(model)
    centers: dict[int, Vector] = {}
    for root in sorted(set(roots)):
        members = [bodies[root], *(bodies[i] for i, r in enumerate(roots) if r == root and i != root)]
        centers[root] = common_center(members)[1]
    return [centers[root] for root in roots]


def inertia_at(body: LinkBody, point: Vector) -> Matrix:
    """A link's inertia about a point of the world."""
    return matrix_sum(body.inertia, point_inertia(body.mass, sub(body.center, point)))


def motion_at(at: Offset, motion: Moving | Subspace, point: Vector) -> Moving:
    """A frame's velocity as that of its point that is now somewhere in the world, along the world's axes."""
    angular = rotate(at.rotation, motion.angular)
    linear = rotate(at.rotation, motion.linear)
    return Moving(angular, add(linear, cross(angular, sub(point, at.position))))


def acceleration_at(at: Offset, acceleration: Moving, spin: Vector, point: Vector) -> Moving:
    """The acceleration of a frame's point that is now somewhere in the world, along the world's axes."""
    angular, linear = rotate(at.rotation, acceleration.angular), rotate(at.rotation, acceleration.linear)
    arm, w = sub(point, at.position), rotate(at.rotation, spin)
    return Moving(angular, add(linear, cross(angular, arm), cross(w, cross(w, arm))))


def spatial_acceleration(of_point: Moving, velocity: Moving) -> Moving:
    """How the velocity vector at a point that stays where it is changes, from how the body's point there moves."""
    return Moving(of_point.angular, sub(of_point.linear, cross(velocity.angular, velocity.linear)))


def motion_change(velocity: Moving, motion: Moving) -> Moving:
    """How a motion vector changes that moves along with a body (the spatial cross product), all at one point."""
    return Moving(
        cross(velocity.angular, motion.angular),
        add(cross(velocity.angular, motion.linear), cross(velocity.linear, motion.angular)),
    )


def newton_euler(body: LinkBody, acceleration: Moving, spin: Vector, point: Vector) -> tuple[Vector, Vector]:
    """The torque about a point and the force that move a link so; the acceleration is that of its centre of mass."""
    force = scale(body.mass, acceleration.linear)
    turning = add(rotate(body.inertia, acceleration.angular), cross(spin, rotate(body.inertia, spin)))
    return moved_force(sub(body.center, point), turning, force)


def carried(model: Model, own: Mapping[int, tuple[Vector, Vector]]) -> list[tuple[Vector, Vector]]:
    """Of each link the sum of what it and all links that hang on it have."""
    total = [own[link] for link in range(model.n_links)]
    for link in sorted(range(model.n_links), key=lambda i: -_depth(model, i)):
        parent = int(model.links.parent_idx[link])
        if parent >= 0:
            total[parent] = (add(total[parent][0], total[link][0]), add(total[parent][1], total[link][1]))
    return total


def _depth(model: Model, link: int) -> int:
    depth = 0
    while model.links.parent_idx[link] >= 0:
        link = int(model.links.parent_idx[link])
        depth += 1
    return depth


def weight_energy(inputs: Inputs, bodies: Sequence[LinkBody]) -> Value:
    """The potential energy of all links' weight, zero at the world's origin; links that gravity spares have less."""
    energy: Value = 0.0
    for body, share in zip(bodies, inputs.model.links.gravity_scale.tolist(), strict=True):
        for pull, height in zip(inputs.gravity, body.center, strict=True):
            energy = energy - (share * body.mass) * (pull * height)
    return energy


def own_joint(model: Model, link: int) -> int | None:
    """The moving frame that a link's own joints end in; None where it sits rigidly on its parent."""
    frame, parent = int(model.links.frame_idx[link]), int(model.links.parent_idx[link])
    above = WORLD if parent < 0 else int(model.links.frame_idx[parent])
    return None if frame == above else frame


def moved_force(arm: Vector, torque: Vector, force: Vector) -> tuple[Vector, Vector]:
    """The torque about another point, from which the force's point is an arm away; and the force."""
    return add(torque, cross(arm, force)), force
