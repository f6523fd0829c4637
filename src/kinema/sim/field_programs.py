"""What the fields are computed by: one function for each group, over symbols or floats."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from functools import cached_property

from kinema import trace
from kinema.trace import Value

from . import actuation, links
from .dynamics import Force, factorise, joint_forces, kinetic_energy, momentum
from .info import principal_axes
from .inputs import Inputs
from .kinematics import (
    Moving,
    Offset,
    Subspace,
    accelerations,
    center_of_mass,
    jacobian,
    link_pose,
    offsets,
    subspaces,
    velocities,
    world_poses,
)
from .maths import ZERO, Vector, matrix_quaternion, product, rotation_vector, scale, sub
from .settings import Control
from .step import Dynamics, acceleration, dynamics
from .tree import WORLD, Tree

Outputs = dict[str, list[Value]]


@dataclass(eq=False)
class Situation:
    """One state, and what several fields need of it, each computed at most once."""

    inputs: Inputs

    @cached_property
    def tree(self) -> Tree:
        """The moving frames."""
        return self.inputs.tree()

    @cached_property
    def where(self) -> dict[int, Offset]:
        """Where each is in its parent."""
        return offsets(self.tree, self.inputs.q)

    @cached_property
    def subspace(self) -> dict[int, Subspace]:
        """What each degree of freedom does."""
        return subspaces(self.tree, self.where)

    @cached_property
    def frames(self) -> dict[int, Offset]:
        """Where each frame is in the world."""
        return world_poses(self.tree, self.where)

    @cached_property
    def velocity(self) -> dict[int, Moving]:
        """How each moves, in its own axes."""
        return velocities(self.tree, self.where, self.subspace, self.inputs.v)

    @cached_property
    def bodies(self) -> list[links.LinkBody]:
        """The links."""
        return links.link_bodies(self.inputs, self.tree, self.frames)

    @cached_property
    def centers(self) -> list[Vector]:
        """The point of each link's com-based quantities."""
        return links.root_centers(self.inputs.model, self.bodies)

    @cached_property
    def dynamics(self) -> Dynamics:
        """Inertia and forces."""
        return dynamics(self.inputs, self.inputs.q, self.inputs.v)

    def frame_centers(self) -> dict[int, Vector]:
        """The same point, by moving frame: that of the link which the frame's joint moves."""
        model = self.inputs.model
        result: dict[int, Vector] = {}
        for link in range(model.n_links):
            frame = int(model.links.frame_idx[link])
            while frame != WORLD and frame not in result:
                result[frame] = self.centers[link]
                frame = self.tree.nodes[frame].parent
        return result

    def motion(self, frame: int, point: Vector) -> Moving:
        """The velocity of a frame at a point of the world."""
        return links.motion_at(self.frames[frame], self.velocity[frame], point)


def _flat(vectors: list[Vector]) -> list[Value]:
    return [x for v in vectors for x in v]


def poses(inputs: Inputs) -> Outputs:
    """Where links and their joints are."""
    now = Situation(inputs)
    own = [link_pose(now.tree, now.frames, link) for link in range(inputs.model.n_links)]
    joints = []
    for link, pose in enumerate(own):
        frame = links.own_joint(inputs.model, link)
        joints.append(pose if frame is None else now.frames[frame])
    return {
        "pos": _flat([p.position for p in own]),
        "quat": _flat([matrix_quaternion(p.rotation) for p in own]),
        "j_pos": _flat([p.position for p in joints]),
        "j_quat": _flat([matrix_quaternion(p.rotation) for p in joints]),
    }


def inertia(inputs: Inputs) -> Outputs:
    """Masses and where they are."""
    now = Situation(inputs)
    pairs = list(zip(now.bodies, now.centers, strict=True))
    axes = [principal_axes(i).tolist() for i in inputs.model.links.inertial_i]
    return {
        "i_pos": _flat([b.center for b in now.bodies]),
        "cinr_inertial": _flat([row for b, c in pairs for row in links.inertia_at(b, c)]),
        "cinr_mass": [b.mass for b in now.bodies],
        "cinr_pos": _flat([sub(b.center, c) for b, c in pairs]),
        "cinr_quat": _flat([matrix_quaternion(product(b.pose.rotation, axes[b.link])) for b in now.bodies]),
        "root_COM": _flat(now.centers),
    }


def link_velocities(inputs: Inputs) -> Outputs:
    """How links move."""
    now = Situation(inputs)
    model = inputs.model
    at_origin, com_based, of_joint = [], [], []
    for link in range(model.n_links):
        frame, parent = int(model.links.frame_idx[link]), int(model.links.parent_idx[link])
        at_origin.append(now.motion(frame, link_pose(now.tree, now.frames, link).position))
        com_based.append(now.motion(frame, now.centers[link]))
        joint = links.own_joint(model, link)
        if joint is None:
            of_joint.append(Moving(ZERO, ZERO))
            continue
        anchor = now.frames[joint].position
        above = now.motion(WORLD if parent < 0 else int(model.links.frame_idx[parent]), anchor)
        own = now.motion(joint, anchor)
        of_joint.append(Moving(sub(own.angular, above.angular), sub(own.linear, above.linear)))
    return {
        "vel": _flat([m.linear for m in at_origin]),
        "ang": _flat([m.angular for m in at_origin]),
        "cdd_vel": _flat([m.linear for m in com_based]),
        "cdd_ang": _flat([m.angular for m in com_based]),
        "j_vel": _flat([m.linear for m in of_joint]),
        "j_ang": _flat([m.angular for m in of_joint]),
    }


def loads(inputs: Inputs) -> Outputs:
    """How links accelerate, and what their parents have to bear for it."""
    now = Situation(inputs)
    qdd = acceleration(now.dynamics)
    felt, spin = accelerations(now.tree, now.where, now.subspace, inputs.v, qdd, inputs.gravity)
    com_based: list[Moving] = []
    own: dict[int, tuple[Vector, Vector]] = {}
    for body, center in zip(now.bodies, now.centers, strict=True):
        at, frame = now.frames[body.frame], body.frame
        there = links.acceleration_at(at, felt[frame], spin[frame], center)
        com_based.append(links.spatial_acceleration(there, now.motion(frame, center)))
        of_mass = links.acceleration_at(at, felt[frame], spin[frame], body.center)
        w = now.motion(frame, body.center).angular
        torque, force = links.newton_euler(body, of_mass, w, center)
        if inputs.settings.external_forces:
            given = [[inputs.read(name, 3 * body.link + i) for i in range(3)] for name in APPLIED]
            moved = links.moved_force(sub(body.center, center), given[0], given[1])
            torque, force = sub(torque, moved[0]), sub(force, moved[1])
        own[body.link] = (torque, force)
    borne = links.carried(inputs.model, own)
    return {
        "cacc_ang": _flat([m.angular for m in com_based]),
        "cacc_lin": _flat([m.linear for m in com_based]),
        "cfrc_ang": _flat([torque for torque, _ in borne]),
        "cfrc_vel": _flat([force for _, force in borne]),
    }


APPLIED = ("cfrc_applied_ang", "cfrc_applied_vel")


def coordinates(inputs: Inputs) -> Outputs:
    """A coordinate for each degree of freedom."""
    q = inputs.q
    result: list[Value] = [0.0] * inputs.model.n_dofs
    for node in inputs.tree().outward():
        own = [q[i] for i in node.qs]
        for dof, value in zip(node.dofs, rotation_vector(own) if len(own) > 1 else own, strict=True):
            result[dof] = value
    return {"pos": result}


def forces(inputs: Inputs) -> Outputs:
    """What acts on each degree of freedom."""
    state = dynamics(inputs, inputs.q, inputs.v)
    frames = world_poses(state.tree, state.where)

    def pulled(pulls: dict[int, Force]) -> list[Value]:
        return joint_forces(state.tree, state.where, state.subspace, pulls)

    spared = pulled(actuation.weightless(inputs, frames))
    thrust = pulled(state.actuator.frames)
    return {
        "acc": acceleration(state),
        "force": state.force,
        "qf_bias": state.bias,
        "qf_passive": _sum(state.passive.force, state.tendon.force, spared),
        "qf_actuator": _sum(state.control.force, state.actuator.force, thrust),
        "qf_applied": pulled(actuation.applied(inputs, frames)),
    }


def _sum(*parts: list[Value]) -> list[Value]:
    total = parts[0]
    for part in parts[1:]:
        total = [a + b for a, b in zip(total, part, strict=True)]
    return total


def control(inputs: Inputs) -> Outputs:
    """What each degree of freedom is told."""
    modes: list[Value] = []
    told: dict[Control, list[Value]] = {Control.FORCE: [], Control.VELOCITY: [], Control.POSITION: []}
    fixed = inputs.settings.control
    for i in range(inputs.model.n_dofs):
        mode: Value = inputs.read("ctrl_mode", i) if fixed is None else float(fixed[i])
        modes.append(mode)
        for kind, values in told.items():
            if fixed is None:
                near = trace.absolute(mode - float(kind))
                values.append(trace.select(near, 0.5, inputs.read("command", i), 0.0))
            else:
                values.append(inputs.read("command", i) if fixed[i] is kind else 0.0)
    return {
        "ctrl_mode": modes,
        "ctrl_force": told[Control.FORCE],
        "ctrl_vel": told[Control.VELOCITY],
        "ctrl_pos": told[Control.POSITION],
    }


def axes(inputs: Inputs) -> Outputs:
    """Each degree of freedom as a motion at the centre of mass of its tree."""
    now = Situation(inputs)
    v = inputs.v
    centers = now.frame_centers()
    n = inputs.model.n_dofs
    own, changes = [Moving(ZERO, ZERO)] * n, [Moving(ZERO, ZERO)] * n
    for node in now.tree.outward():
        center = centers[node.index]
        for dof in node.dofs:
            own[dof] = links.motion_at(now.frames[node.index], now.subspace[dof], center)
            changes[dof] = links.motion_change(now.motion(node.parent, center), own[dof])
    return {
        "cdof_ang": _flat([m.angular for m in own]),
        "cdof_vel": _flat([m.linear for m in own]),
        "cdofvel_ang": _flat([scale(v[i], m.angular) for i, m in enumerate(own)]),
        "cdofvel_vel": _flat([scale(v[i], m.linear) for i, m in enumerate(own)]),
        "cdofd_ang": _flat([m.angular for m in changes]),
        "cdofd_vel": _flat([m.linear for m in changes]),
    }


def mass(inputs: Inputs) -> Outputs:
    """The joint-space inertia and its factors."""
    matrix = dynamics(inputs, inputs.q, inputs.v).mass
    factors = factorise(matrix)
    n = inputs.model.n_dofs
    lower: list[Value] = [0.0] * (n * n)
    for i in range(n):
        lower[i * n + i] = 1.0
    for (i, j), value in factors.lower.items():
        lower[i * n + j] = value
    return {
        "mass_mat": _flat(list(matrix.dense())),
        "mass_mat_L": lower,
        "mass_mat_D_inv": [factors.inverse_diagonal[i] for i in range(n)],
        "mass_mat_mask": [1.0] * n,
    }


def system(inputs: Inputs) -> Outputs:
    """What is conserved where nothing acts."""
    now = Situation(inputs)
    total, center = 0.0, ZERO
    if now.tree.nodes:
        total, center = center_of_mass(now.tree, now.frames, now.tree.nodes)
    angular, linear = momentum(now.tree, now.frames, now.velocity)
    springs = actuation.spring_energy(inputs, inputs.q)
    return {
        "kinetic_energy": [kinetic_energy(now.tree, now.velocity, inputs.of_dofs("armature"), inputs.v)],
        "potential_energy": [links.weight_energy(inputs, now.bodies) + springs],
        "mass": [total],
        "com": list(center),
        "linear_momentum": list(linear),
        "angular_momentum": list(angular),
    }


def link_jacobian(link: int) -> Callable[[Inputs], Outputs]:
    """The program of one link's Jacobian, at its origin: three rows of linear, three of angular velocity."""

    def outputs(inputs: Inputs) -> Outputs:
        now = Situation(inputs)
        n = inputs.model.n_dofs
        at = link_pose(now.tree, now.frames, link).position
        frame = int(inputs.model.links.frame_idx[link])
        columns = jacobian(now.tree, now.frames, now.subspace, frame, at)
        rows: list[Value] = [0.0] * (6 * n)
        for dof, (angular, linear) in columns.items():
            for k, value in enumerate((*linear, *angular)):
                rows[k * n + dof] = value
        return {"jacobian": rows}

    return outputs


GROUPS: dict[str, Callable[[Inputs], Outputs]] = {
    "poses": poses,
    "inertia": inertia,
    "velocities": link_velocities,
    "loads": loads,
    "coordinates": coordinates,
    "forces": forces,
    "control": control,
    "axes": axes,
    "mass": mass,
    "system": system,
}
"""By the name that the list of fields gives them."""

CONTROLLED = {"loads", "forces", "control"}
"""Groups that depend on what commands mean."""
