"""What the fields are computed by: one function for each group, which writes its fields."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema import trace
from kinema.model import Motion
from kinema.trace import Value

from ..force import cords
from ..force.fluid import fluid_forces
from ..force.links import applied, no_wrenches, spare_weight
from ..rigid import links
from ..rigid.kinematics import Pose, Twist, link_pose, twist_at, twists
from ..rigid.rnea import Wrench, joint_forces
from ..sense.kinds import sense
from ..settings import Control
from ..sweeps.cords import Pull
from ..sweeps.factors import factorised
from ..sweeps.maths import (
    ZERO,
    Vector,
    add,
    matrix_quaternion,
    product,
    rotation_vector,
    scale,
    sub,
    sum_of,
)
from ..sweeps.quantities import Quantity
from ..sweeps.sweeps import Sweeps
from ..sweeps.tree import WORLD, Link, Node, Ref
from .contacts import contacts, laws_of_contacts
from .held import couplings, ties
from .names import JACOBIAN
from .rows import rows, rows_against_rows
from .situation import Situation
from .sleeping import sleep, write_awake
from .solution import solution
from .sums import kinetic_energy, potential_energy, sums_of


def _flat(rows: Sequence[Sequence[Value]]) -> list[Value]:
    return [x for row in rows for x in row]


def poses(now: Situation) -> None:
    """Where links and their joints are."""
    s, frames = now.s, now.frames

    def body(link: Link) -> None:
        own = link_pose(link, frames)
        joint = own if link.moved_by is None else frames[link.moved_by]
        for prefix, pose in (("", own), ("j_", joint)):
            s.write(f"{prefix}pos", link, pose.position)
            s.write(f"{prefix}quat", link, matrix_quaternion(pose.rotation))

    s.each_link("poses of links", body)


def inertia(now: Situation) -> None:
    """Masses and where they are."""
    s, bodies, centers = now.s, now.bodies, now.centers

    def body(link: Link) -> None:
        own, center = bodies[link.here], centers[link.root]
        s.write("i_pos", link, own.center)
        s.write("cinr_inertial", link, _flat(links.inertia_at(own, center)))
        s.write("cinr_mass", link, [own.mass])
        s.write("cinr_pos", link, sub(own.center, center))
        s.write("cinr_quat", link, matrix_quaternion(product(own.pose.rotation, link.principal)))
        s.write("root_COM", link, center)

    s.each_link("inertias of links", body)


def link_velocities(now: Situation) -> None:
    """How links move."""
    s, frames, centers, _ = now.s, now.frames, now.centers, now.velocity

    def body(link: Link) -> None:
        at_origin = now.twist(link.frame, link_pose(link, frames).position)
        com_based = now.twist(link.frame, centers[link.root])
        of_joint = Twist(ZERO, ZERO)
        if link.moved_by is not None:
            anchor = frames[link.moved_by].position
            above, own = now.twist(link.above_frame, anchor), now.twist(link.moved_by, anchor)
            of_joint = Twist(sub(own.angular, above.angular), sub(own.linear, above.linear))
        for prefix, twist in (("", at_origin), ("cdd_", com_based), ("j_", of_joint)):
            s.write(f"{prefix}vel", link, twist.linear)
            s.write(f"{prefix}ang", link, twist.angular)

    s.each_link("velocities of links", body)


def loads(now: Situation) -> None:
    """How links accelerate, and what their parents have to bear for it."""
    s, frames, centers, felt, _ = now.s, now.frames, now.centers, now.felt, now.velocity

    def own(link: Link) -> Wrench:
        center = centers[link.root]
        there = links.acceleration_at(frames[link.frame], felt[link.frame], center)
        com_based = links.spatial_acceleration(there, now.twist(link.frame, center))
        s.write("cacc_ang", link, com_based.angular)
        s.write("cacc_lin", link, com_based.linear)
        origin = links.acceleration_at(frames[link.frame], felt[link.frame], link_pose(link, frames).position)
        s.write("acc", link, add(origin.linear, s.gravity))
        return now.load(link)

    borne = s.links_inward("loads", own)

    def body(link: Link) -> None:
        s.write("cfrc_ang", link, borne[link.here].torque)
        s.write("cfrc_vel", link, borne[link.here].force)

    s.each_link("loads of links", body)


def coordinates(now: Situation) -> None:
    """A coordinate for each degree of freedom."""
    s = now.s

    def body(node: Node) -> None:
        q = s.of("qpos", node)
        s.write("pos", node, list(rotation_vector(q)) if node.motion == Motion.BALL else q)

    s.each_frame("coordinates", body)


def forces(now: Situation) -> None:
    """What acts on each degree of freedom."""
    s = now.s
    wrenches = {name: no_wrenches(s, name) for name in ("passive wrenches", "thrust", "the user's wrenches")}
    passively, thrust, user = wrenches.values()
    if now.borne_weight is None:  # otherwise it is among what is passive, and what actuators do
        spare_weight(s, now.frames, passively)
    fluid_forces(now, passively)
    applied(s, now.frames, user)
    cords.actuators(now, thrust)
    lifted, pushed, moved = (
        joint_forces(s, name, now.where, lambda node, of=of: of[node.here]) for name, of in wrenches.items()
    )
    acceleration, force, bias, parts, held = now.acceleration, now.force, now.bias, now.forces, now.constraint_force

    def body(node: Node) -> None:
        passive, tendons, control_, actuators, *told = parts[node.here]
        s.write("acc", node, acceleration[node.here])
        constraint = [0.0] * len(node.dofs) if held is None else held[node.here]
        s.write("force", node, [a + b for a, b in zip(force[node.here], constraint, strict=True)])
        s.write("qf_constraint", node, constraint)
        s.write("qf_bias", node, bias[node.here])
        s.write("qf_passive", node, _sums(passive, tendons, lifted[node.here]))
        s.write("qf_actuator", node, _sums(control_, actuators, pushed[node.here]))
        more = [sum_of([own[k].force for own in told]) for k in range(len(node.dofs))]
        s.write("qf_applied", node, [a + b for a, b in zip(moved[node.here], more, strict=True)])
        s.write("qf_control", node, _sums(control_, actuators, [0.0] * len(node.dofs)))

    s.each_frame("forces of joints", body)


def _sums(a: Sequence[Pull], b: Sequence[Pull], c: Sequence[Value]) -> list[Value]:
    return [x.force + y.force + z for x, y, z in zip(a, b, c, strict=True)]


def control(now: Situation) -> None:
    """What each degree of freedom is told."""
    s = now.s

    def body(node: Node) -> None:
        modes, told = s.of("ctrl_mode", node), s.of("command", node)
        s.write("ctrl_mode", node, modes)
        for name, kind in (("force", Control.FORCE), ("vel", Control.VELOCITY), ("pos", Control.POSITION)):
            near = (trace.absolute(mode - float(kind)) for mode in modes)
            s.write(f"ctrl_{name}", node, [trace.select(x, 0.5, y, 0.0) for x, y in zip(near, told, strict=True)])

    s.each_frame("control", body)


def axes(now: Situation) -> None:
    """Each degree of freedom as a motion at the centre of mass of its tree."""
    s, where, centers, frames, _ = now.s, now.where, now.centers, now.frames, now.velocity

    def body(node: Node) -> None:
        center, v = centers[node.root], s.of("vel", node)
        own = [twist_at(frames[node.here], twist, center) for twist in twists(node, where[node.here])]
        carried = now.twist(node.above, center)
        changes = [links.motion_change(carried, twist) for twist in own]
        moving = [Twist(scale(x, t.angular), scale(x, t.linear)) for x, t in zip(v, own, strict=True)]
        for name, twists_ in (("cdof", own), ("cdofvel", moving), ("cdofd", changes)):
            s.write(f"{name}_ang", node, _flat([t.angular for t in twists_]))
            s.write(f"{name}_vel", node, _flat([t.linear for t in twists_]))

    s.each_frame("axes", body)


def mass(now: Situation) -> None:
    """The joint-space inertia and its factors."""
    matrix = now.mass
    matrix.store("mass_mat")
    factorised(matrix).store("mass_mat_L", "mass_mat_D_inv")
    write_awake(now)


def system(now: Situation) -> None:
    """Energies, momenta and the centre of mass."""
    s, sums = now.s, sums_of(now)
    potential = potential_energy(now, sums)
    some = trace.select(0.0, sums.mass, sums.mass, 1.0)
    s.write("kinetic_energy", None, [kinetic_energy(now, sums)])
    s.write("potential_energy", None, [potential])
    s.write("mass", None, [sums.mass])
    s.write("com", None, scale(1.0 / some, sums.moment))
    s.write("linear_momentum", None, sums.linear)
    s.write("angular_momentum", None, sums.angular)


def link_jacobian(link: int) -> Callable[[Situation], None]:
    """What writes one link's Jacobian, at its origin."""

    def run(now: Situation) -> None:
        s, frames = now.s, now.frames
        places: Quantity[Vector] = s.quantity("origins of links")
        s.each_link("origins of links", lambda x: places.put(x.here, link_pose(x, frames).position))
        write_jacobian(s, now.where, frames, [link], lambda ref: places[ref])

    return run


def write_jacobian(
    s: Sweeps,
    where: Quantity[Pose],
    frames: Quantity[Pose],
    links: Sequence[int],
    point_of: Callable[[Ref], Vector],
    prefix: str = "",
) -> None:
    """A link's Jacobian at one of its points, into six arrays of degrees of freedom; those of more in other trees."""
    rows = []
    for link in links:
        path, frame = [], int(s.model.links.frame_idx[link])
        while frame != WORLD:
            path.insert(0, frame)
            frame = int(s.model.frames.parent_idx[frame])
        rows += [s.frame_row(s.tree.nodes[i], link) for i in path]

    def body(node: Node) -> None:
        assert node.beside is not None
        at, point = frames[node.here], point_of(node.beside)
        columns = [twist_at(at, twist, point) for twist in twists(node, where[node.here])]
        for k, name in enumerate(JACOBIAN):
            s.write(prefix + name, node, [(*c.linear, *c.angular)[k] for c in columns])

    s.loop("jacobian", rows, lambda code: body(s.node(code)))


GROUPS: dict[str, Callable[[Situation], None]] = {
    "poses": poses,
    "inertia": inertia,
    "velocities": link_velocities,
    "loads": loads,
    "coordinates": coordinates,
    "forces": forces,
    "control": control,
    "axes": axes,
    "mass": mass,
    "sleep": sleep,
    "ties": ties,
    "couplings": couplings,
    "contacts": contacts,
    "laws of contacts": laws_of_contacts,
    "solution": solution,
    "rows": rows,
    "rows against rows": rows_against_rows,
    "system": system,
    "sensors": sense,
}
"""By the name that the list of fields gives them."""
