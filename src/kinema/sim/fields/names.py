"""Every field that can be asked for: its name, shape, unit and meaning.

All are those of the present state, told what it is told now. Lengths are in m, angles in rad, masses in kg, times in
s; rotations are radians, quaternions (w, x, y, z). Vectors are along the world's axes unless something else is said.
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kinema.model import Model

from ..arrays import Owner
from ..collide.planned import planned_sets
from ..settings import Settings


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field: of each link, degree of freedom or environment a number, vector or matrix."""

    name: str
    group: str
    """What is computed together. `zeros`: nothing that it stands for is simulated yet."""
    item: tuple[int, ...]
    """Shape of one item."""
    unit: str
    meaning: str
    of: Owner | None = None
    """What its items belong to, if not to what those of its namespace do."""


JACOBIAN = [f"jacobian {k}" for k in range(6)]
"""The rows of a link's Jacobian: three of linear, three of angular velocity; an array each."""
DOFS, ROWS = (-1,), (-2,)
"""Shapes of items that have a number for each degree of freedom, or for each row of constraints."""


def _fields(group: str, *rows: tuple[str, tuple[int, ...], str, str], of: Owner | None = None) -> list[FieldInfo]:
    return [FieldInfo(name, group, item, unit, meaning, of) for name, item, unit, meaning in rows]


LINKS_STATE = [
    *_fields(
        "poses",
        ("pos", (3,), "m", "position of the link's origin"),
        ("quat", (4,), "1", "orientation of the link"),
        ("j_pos", (3,), "m", "position of the frame that its last joint moves; its own where it sits on its parent"),
        ("j_quat", (4,), "1", "orientation of that frame"),
    ),
    *_fields(
        "inertia",
        ("i_pos", (3,), "m", "position of the link's centre of mass"),
        ("cinr_inertial", (3, 3), "kg m2", "inertia about root_COM (com-based, of this link alone)"),
        ("cinr_mass", (), "kg", "mass of this link"),
        ("cinr_pos", (3,), "m", "from root_COM to the link's centre of mass"),
        ("cinr_quat", (4,), "1", "orientation of the principal axes of its inertia"),
        ("root_COM", (3,), "m", "centre of mass of the whole tree that the link is in"),
    ),
    *_fields(
        "velocities",
        ("vel", (3,), "m/s", "velocity of the link's origin"),
        ("ang", (3,), "rad/s", "angular velocity"),
        ("cdd_vel", (3,), "m/s", "velocity of the link's point that is at root_COM (com-based)"),
        ("cdd_ang", (3,), "rad/s", "angular velocity (com-based)"),
        ("j_vel", (3,), "m/s", "velocity at j_pos, less that of the parent there: what its own joints add"),
        ("j_ang", (3,), "rad/s", "angular velocity, less that of the parent"),
    ),
    *_fields(
        "loads",
        ("acc", (3,), "m/s2", "acceleration of the link's origin: nothing at rest, gravity in free fall"),
        ("cacc_ang", (3,), "rad/s2", "angular acceleration"),
        ("cacc_lin", (3,), "m/s2", "change of cdd_vel at a resting point, less gravity: rest is -gravity (com-based)"),
        ("cfrc_ang", (3,), "N m", "torque about root_COM that the link gets from its parent (com-based)"),
        ("cfrc_vel", (3,), "N", "force that the link gets from its parent"),
    ),
    *_fields(
        "state",
        ("cfrc_applied_ang", (3,), "N m", "torque that the user applies; zeros unless asked for when built"),
        ("cfrc_applied_vel", (3,), "N", "force that the user applies at the centre of mass; zeros likewise"),
        ("mass_shift", (), "kg", "what the user added to the mass; zeros likewise"),
    ),
    *_fields(
        "zeros",
        ("cfrc_coupling_ang", (3,), "N m", "torque from other kinds of matter: none"),
        ("cfrc_coupling_vel", (3,), "N", "force from other kinds of matter: none"),
        ("contact_force", (3,), "N", "not kept: `Entity.get_links_net_contact_force` sums them up"),
    ),
    *_fields("sleep", ("hibernated", (), "1", "1 where it sleeps, else 0; see `Scene(sleep=...)`")),
]

DOFS_STATE = [
    *_fields(
        "coordinates",
        ("pos", (), "rad or m", "coordinate; the three of a quaternion are its rotation vector"),
    ),
    *_fields("state", ("vel", (), "rad/s or m/s", "velocity; of a quaternion's three the angular one in its frame")),
    *_fields(
        "previous",
        ("vel_prev", (), "rad/s or m/s", "velocity before the last step; kept from when it is first asked for"),
    ),
    *_fields("state", ("vel_next", (), "rad/s or m/s", "velocity after the last step: vel")),
    *_fields(
        "forces",
        ("acc", (), "rad/s2 or m/s2", "acceleration that the forces cause"),
        ("force", (), "N m or N", "sum of all forces: what mass_mat times acc is"),
        ("qf_bias", (), "N m or N", "what keeps it from accelerating: Coriolis, centrifugal and gravity forces"),
        ("qf_passive", (), "N m or N", "springs, dampers, and the weight that links are spared"),
        ("qf_actuator", (), "N m or N", "control and actuators"),
        ("qf_applied", (), "N m or N", "what the user's forces on links do to it"),
        ("qf_control", (), "N m or N", "control and actuators, but for thrusters on links"),
        ("qf_constraint", (), "N m or N", "limits, dry friction, couplings, ties and contacts"),
    ),
    *_fields(
        "control",
        ("ctrl_mode", (), "1", "what it is told: 0 force, 1 velocity, 2 position, 3 nothing (its actuators move it)"),
        ("ctrl_force", (), "N m or N", "the force it is told, else 0"),
        ("ctrl_vel", (), "rad/s or m/s", "the velocity it is told, else 0"),
        ("ctrl_pos", (), "rad or m", "the position it is told, else 0"),
    ),
    *_fields(
        "axes",
        ("cdof_ang", (3,), "1", "angular velocity of what it moves, at unit speed"),
        ("cdof_vel", (3,), "m or 1", "velocity at root_COM of what it moves, at unit speed (com-based)"),
        ("cdofvel_ang", (3,), "rad/s", "cdof_ang times vel"),
        ("cdofvel_vel", (3,), "m/s", "cdof_vel times vel"),
        ("cdofd_ang", (3,), "1/s", "change of cdof_ang as what it sits on moves"),
        ("cdofd_vel", (3,), "m/s or 1/s", "change of cdof_vel at a resting point, likewise"),
    ),
]

CONSTRAINTS = [
    *_fields(
        "mass",
        ("mass_mat", DOFS, "kg m2, kg m or kg", "joint-space inertia M, rotors included; (n_dofs, n_dofs, n_envs)"),
        ("mass_mat_L", DOFS, "1", "the L of M = L^T D L, ones on its diagonal; (n_dofs, n_dofs, n_envs)"),
        ("mass_mat_D_inv", (), "1/(kg m2) or 1/kg", "1 / D; (n_dofs, n_envs)"),
        ("mass_mat_mask", (), "1", "1 for degrees of freedom that are awake; (n_dofs, n_envs)"),
    ),
    *_fields(
        "solution",
        ("qacc", (), "rad/s2 or m/s2", "acceleration that forces, constraints and contacts agree on; (n_dofs, n_envs)"),
        ("qfrc_constraint", (), "N m or N", "what constraints and contacts do to it; (n_dofs, n_envs)"),
        ("Ma", (), "N m or N", "M qacc; (n_dofs, n_envs)"),
        ("Mgrad", (), "rad/s2 or m/s2", "M^-1 times the slope of the cost there, next to nothing; (n_dofs, n_envs)"),
    ),
    *_fields(
        "solution",
        ("cost", (), "N2/kg", "that the forces of constraints make least: gauss, and what each row and contact costs"),
        ("gauss", (), "N2/kg", "1/2 x^T M x of the change x from the accelerations without constraints"),
        ("gradient", (), "N m or N", "length of the slope of the cost, which the solver leaves"),
        ("n_iterations", (), "1", "steps that the solver takes"),
        ("n_rows", (), "1", "rows that act: those of constraints, and of each contact as MuJoCo counts them"),
        of=Owner.ENVIRONMENT,
    ),
    *_fields(
        "rows",
        ("jac", DOFS, "1 or m", "J: how what a row is about changes with each velocity; (n_rows, n_dofs, n_envs)"),
        ("efc_pos", (), "rad or m", "how far off a row is; of limits how far from them, less the margin"),
        ("efc_vel", (), "rad/s or m/s", "how fast that changes"),
        ("efc_D", (), "kg m2 or kg", "how hard it is; 0 of a row that does not act at all now, as a limit that is far"),
        ("efc_aref", (), "rad/s2 or m/s2", "the acceleration that it wants"),
        ("efc_b", (), "rad/s2 or m/s2", "J a - efc_aref of the accelerations a without constraints"),
        ("efc_force", (), "N m or N", "what it does along itself"),
        ("quad", (), "N2/kg", "what it costs at the solution"),
        of=Owner.ROW,
    ),
    *_fields(
        "rows against rows",
        ("efc_AR", ROWS, "1/(kg m2) or 1/kg", "J M^-1 J^T, and 1 / efc_D on the diagonal; (n_rows, n_rows, n_envs)"),
        of=Owner.ROW,
    ),
]

SYSTEM = [
    *_fields(
        "system",
        ("kinetic_energy", (), "J", "of all links, and of the rotors in joints"),
        ("potential_energy", (), "J", "of weight (zero at the world's origin) and springs"),
        ("mass", (), "kg", "of everything that moves"),
        ("com", (3,), "m", "centre of mass of everything that moves"),
        ("linear_momentum", (3,), "kg m/s", "of everything that moves, without rotors"),
        ("angular_momentum", (3,), "kg m2/s", "likewise, about the world's origin"),
    ),
]

TIES = [
    *_fields(
        "ties",
        ("gap", (), "m", "how far apart the points are that are to coincide, across what may slide"),
        ("turn", (), "1", "sine of how far the axes are off; of whole rotations, of half the angle"),
    ),
    *_fields("state", ("broken", (), "1", "1 where a joint that may break has let go; reset brings it back")),
]
CONTACTS = [
    *_fields(
        "contacts",
        ("active", (), "1", "1 where there is a contact: each place belongs to two links, and most are empty"),
        ("position", (3,), "m", "half-way between the surfaces"),
        ("normal", (3,), "1", "from the first shape to the second"),
        ("penetration", (), "m", "how deep the shapes are in each other; negative within a margin"),
        ("force", (3,), "N", "on the second shape; the first gets the opposite"),
        ("pair", (), "1", "which row of the pairs it is; -1 for none"),
    ),
    *_fields(
        "laws of contacts",
        ("frame", (3, 3), "1", "its normal, from the first shape to the second, and two directions across, by rows"),
        ("efc_D", (), "1", "how hard it is along the normal; of pyramids, along each edge"),
        ("efc_aref", (6,), "m/s2", "the acceleration it wants in each direction, turning last; 0 beyond its dimension"),
    ),
]
COUPLINGS = [*_fields("couplings", ("error", (), "rad or m", "how far the follower is from where it should be"))]
SENSORS = [
    *_fields("sensors", ("reading", (), "by sensor", "every number that sensors tell, in the order of MuJoCo's data")),
]

SPACES = {
    "links_state": LINKS_STATE,
    "dofs_state": DOFS_STATE,
    "constraints": CONSTRAINTS,
    "ties": TIES,
    "couplings": COUPLINGS,
    "contacts": CONTACTS,
    "sensors": SENSORS,
    "system": SYSTEM,
}
"""The namespaces, by name; of the last there is one item, of others one for each of what they are called after."""


OWNERS = {
    "links_state": Owner.LINK,
    "dofs_state": Owner.DOF,
    "constraints": Owner.DOF,
    "ties": Owner.TIE,
    "couplings": Owner.COUPLING,
    "contacts": Owner.CONTACT,
    "sensors": Owner.READING,
    "system": Owner.ENVIRONMENT,
}
"""What the items of each namespace belong to."""


def n_items(model: Model, owner: Owner, settings: Settings) -> int:
    """How many of them a model has; rows are those of constraints that are asked for."""
    sizes = {Owner.LINK: model.n_links, Owner.DOF: model.n_dofs, Owner.TIE: len(model.ties.names)}
    if owner is Owner.CONTACT:
        return sum(plan.capacity for plan in planned_sets(model))
    if owner is Owner.READING:
        return model.sensors.n_numbers
    if owner is Owner.ROW:
        from .rows import rows_info

        return len(rows_info(model, settings).kinds)
    return {**sizes, Owner.COUPLING: len(model.couplings.names)}.get(owner, 1)


def shape_of(item: tuple[int, ...], model: Model, settings: Settings) -> tuple[int, ...]:
    """The shape of a field's items in numbers."""
    if item == DOFS:
        return (model.n_dofs,)
    return (n_items(model, Owner.ROW, settings),) if item == ROWS else item


def outputs_of(group: str, model: Model, settings: Settings) -> dict[str, tuple[Owner, int]]:
    """Of each field of a group what its items belong to, and how many numbers each has."""
    return {
        info.name: (info.of or OWNERS[space], math.prod(shape_of(info.item, model, settings)))
        for space, infos in SPACES.items()
        for info in infos
        if info.group == group
    }


def describe_fields() -> str:
    """All fields, one line each."""
    rows = [(space, f) for space, fields in SPACES.items() for f in fields]
    return "\n".join(f"{space}.{f.name}: {f.meaning} [{f.unit}]" for space, f in rows)
