"""Catalog of all fields of the array contract: name, element shape, unit, meaning and the group computing it.

Fields describe the current state with the current control inputs. Units are m, rad, kg and s; quaternions are (w, x, y,
z). Vectors are in world axes unless stated otherwise. Quantities called com-based refer to the centre of mass of the
link's kinematic tree, `root_COM` (MuJoCo's convention).
"""

from __future__ import annotations

import math
from dataclasses import dataclass

from kinema.model import Model

from ..arrays import ElementKind
from ..collision.contact_buffer_specs import contact_capacity, plan_contact_buffers
from ..collision.pair_kinds import pool_specializations
from ..settings import Settings


@dataclass(frozen=True, slots=True)
class FieldInfo:
    """One field: a scalar, vector or matrix for each link, dof, constraint row, ... or environment."""

    name: str
    group: str
    """Fields of a group are computed by one program; `zeros`: the quantity is not simulated and always zero."""
    element_shape: tuple[int, ...]
    """Shape of one element; `PER_DOF_SHAPE` and `PER_ROW_SHAPE` stand for sizes that depend on the model."""
    unit: str
    meaning: str
    element_kind: ElementKind | None = None
    """Kind of object that has one element each; None for that of the namespace (`NAMESPACE_ELEMENT_KINDS`)."""

    @property
    def dtype(self) -> str:
        """NumPy type of the values: `int32` or `bool` for modes and flags; `float` for the precision of the engine."""
        return INTEGER_FIELDS.get(self.name, "float")


INTEGER_FIELDS = {"hibernated": "int32", "ctrl_mode": "int32", "mass_mat_mask": "bool"}
"""Fields that are read as integers or flags; programs compute them as floating-point numbers."""

JACOBIAN_ARRAYS = [f"jacobian {k}" for k in range(6)]
"""Arrays of the rows of a link Jacobian: three of linear, three of angular velocity."""
PER_DOF_SHAPE, PER_ROW_SHAPE = (-1,), (-2,)
"""Item shapes that stand for (n_dofs,) and (n_rows,): one value per dof, or per constraint row."""


def _field_infos(
    group: str, *specs: tuple[str, tuple[int, ...], str, str], element_kind: ElementKind | None = None
) -> list[FieldInfo]:
    return [FieldInfo(name, group, element, unit, meaning, element_kind) for name, element, unit, meaning in specs]


LINK_FIELDS = [
    *_field_infos(
        "poses",
        ("pos", (3,), "m", "position of the link's origin"),
        ("quat", (4,), "1", "orientation of the link"),
        (
            "j_pos",
            (3,),
            "m",
            "position of the frame moved by the link's last joint; of the link itself if it has no joint",
        ),
        ("j_quat", (4,), "1", "orientation of the frame of j_pos"),
    ),
    *_field_infos(
        "inertia",
        ("i_pos", (3,), "m", "position of the link's centre of mass"),
        ("cinr_inertial", (3, 3), "kg m2", "inertia of the link about root_COM (com-based)"),
        ("cinr_mass", (), "kg", "mass of the link"),
        ("cinr_pos", (3,), "m", "vector from root_COM to the link's centre of mass"),
        ("cinr_quat", (4,), "1", "orientation of the principal axes of inertia"),
        ("root_COM", (3,), "m", "centre of mass of the link's kinematic tree"),
    ),
    *_field_infos(
        "velocities",
        ("vel", (3,), "m/s", "velocity of the link's origin"),
        ("ang", (3,), "rad/s", "angular velocity"),
        ("cdd_vel", (3,), "m/s", "velocity of the link's material point at root_COM (com-based)"),
        ("cdd_ang", (3,), "rad/s", "angular velocity (com-based)"),
        ("j_vel", (3,), "m/s", "velocity at j_pos relative to the parent: contribution of the link's own joints"),
        ("j_ang", (3,), "rad/s", "angular velocity relative to the parent"),
    ),
    *_field_infos(
        "loads",
        ("acc", (3,), "m/s2", "acceleration of the link's origin: zero at rest, gravity in free fall"),
        ("cacc_ang", (3,), "rad/s2", "angular acceleration"),
        ("cacc_lin", (3,), "m/s2", "spatial acceleration minus gravity, linear part: -gravity at rest (com-based)"),
        (
            "cfrc_ang",
            (3,),
            "N m",
            "torque about root_COM exerted by the parent and by constraints on the subtree of the link (com-based)",
        ),
        ("cfrc_vel", (3,), "N", "force exerted by the parent and by constraints on the subtree of the link"),
    ),
    *_field_infos(
        "state",
        (
            "cfrc_applied_ang",
            (3,),
            "N m",
            "user-applied torque; zero unless external forces are enabled when the scene is built",
        ),
        (
            "cfrc_applied_vel",
            (3,),
            "N",
            "user-applied force at the centre of mass; zero unless external forces are enabled",
        ),
        ("mass_shift", (), "kg", "mass added by the user; zero unless it is a per-environment parameter"),
    ),
    *_field_infos(
        "zeros",
        ("cfrc_coupling_ang", (3,), "N m", "torque from other physics solvers: always zero"),
        ("cfrc_coupling_vel", (3,), "N", "force from other physics solvers: always zero"),
    ),
    *_field_infos("sleep", ("hibernated", (), "1", "1 if the link is asleep, else 0; see `Scene(sleep=...)`")),
]

DOF_FIELDS = [
    *_field_infos(
        "coordinates",
        ("pos", (), "rad or m", "joint coordinate; of a ball joint the components of its rotation vector"),
    ),
    *_field_infos(
        "state", ("vel", (), "rad/s or m/s", "joint velocity; of a ball joint the angular velocity in the moved frame")
    ),
    *_field_infos(
        "previous",
        ("vel_prev", (), "rad/s or m/s", "velocity before the last step; recorded from the first access on"),
    ),
    *_field_infos("state", ("vel_next", (), "rad/s or m/s", "velocity after the last step (equal to vel)")),
    *_field_infos(
        "forces",
        ("acc", (), "rad/s2 or m/s2", "joint acceleration of the constrained forward dynamics"),
        ("force", (), "N m or N", "sum of all generalised forces: mass_mat times acc"),
    ),
    *_field_infos(
        "bias forces",
        ("qf_bias", (), "N m or N", "bias force: Coriolis, centrifugal and gravity forces (qfrc_bias)"),
    ),
    *_field_infos(
        "smooth forces",
        ("qf_passive", (), "N m or N", "passive forces: springs, dampers, tendons, fluid, gravity compensation"),
        ("qf_actuator", (), "N m or N", "actuation: user commands and all actuators"),
        ("qf_applied", (), "N m or N", "user-applied forces and torques on links and joints, as generalised forces"),
        ("qf_control", (), "N m or N", "user commands and actuators, except actuators on sites"),
    ),
    *_field_infos(
        "forces",
        (
            "qf_constraint",
            (),
            "N m or N",
            "constraint force: limits, dry friction, couplings, equality constraints and contacts",
        ),
    ),
    *_field_infos(
        "control",
        ("ctrl_mode", (), "1", "control mode: 0 force, 1 velocity, 2 position, 3 actuators of the file"),
        ("ctrl_force", (), "N m or N", "commanded force in force mode, else 0"),
        ("ctrl_vel", (), "rad/s or m/s", "commanded velocity in velocity mode, else 0"),
        ("ctrl_pos", (), "rad or m", "commanded position in position mode, else 0"),
    ),
    *_field_infos(
        "axes",
        ("cdof_ang", (3,), "1", "motion subspace, angular part: angular velocity at unit joint velocity"),
        (
            "cdof_vel",
            (3,),
            "m or 1",
            "motion subspace, linear part: velocity at root_COM at unit joint velocity (com-based)",
        ),
        ("cdofvel_ang", (3,), "rad/s", "cdof_ang times vel"),
        ("cdofvel_vel", (3,), "m/s", "cdof_vel times vel"),
        ("cdofd_ang", (3,), "1/s", "time derivative of cdof_ang due to the motion of the parent frame"),
        (
            "cdofd_vel",
            (3,),
            "m/s or 1/s",
            "time derivative of cdof_vel due to the motion of the parent frame, at a fixed point",
        ),
    ),
]

CONSTRAINT_FIELDS = [
    *_field_infos(
        "mass",
        (
            "mass_mat",
            PER_DOF_SHAPE,
            "kg m2, kg m or kg",
            "mass matrix M (joint-space inertia) with armature; (n_dofs, n_dofs, n_envs)",
        ),
        ("mass_mat_L", PER_DOF_SHAPE, "1", "factor L of M = L^T D L, with unit diagonal; (n_dofs, n_dofs, n_envs)"),
        ("mass_mat_D_inv", (), "1/(kg m2) or 1/kg", "inverse of the diagonal factor D; (n_dofs, n_envs)"),
        ("mass_mat_mask", (), "1", "1 for dofs of awake trees, else 0; (n_dofs, n_envs)"),
    ),
    *_field_infos(
        "solution",
        ("qacc", (), "rad/s2 or m/s2", "joint acceleration at the solution of the constraint solver; (n_dofs, n_envs)"),
        ("qfrc_constraint", (), "N m or N", "generalised force of constraints and contacts; (n_dofs, n_envs)"),
        ("Ma", (), "N m or N", "M qacc; (n_dofs, n_envs)"),
        ("Mgrad", (), "rad/s2 or m/s2", "M^-1 times the gradient of the cost at the solution; (n_dofs, n_envs)"),
    ),
    *_field_infos(
        "solution",
        ("cost", (), "N2/kg", "cost minimised by the constraint solver: gauss plus the costs of rows and contacts"),
        ("gauss", (), "N2/kg", "Gauss cost 1/2 x^T M x with x = qacc - qacc_smooth"),
        ("gradient", (), "N m or N", "norm of the gradient of the cost at the solution"),
        ("n_iterations", (), "1", "iterations of the solver"),
        ("n_rows", (), "1", "active constraint rows, those of contacts as counted by MuJoCo included"),
        element_kind=ElementKind.ENVIRONMENT,
    ),
    *_field_infos(
        "rows",
        (
            "jac",
            PER_DOF_SHAPE,
            "1 or m",
            "constraint Jacobian J; (n_rows, n_dofs, n_envs)",
        ),
        ("efc_pos", (), "rad or m", "constraint residual; of limits the distance to the limit"),
        ("efc_vel", (), "rad/s or m/s", "constraint velocity J vel"),
        (
            "efc_D",
            (),
            "kg m2 or kg",
            "constraint stiffness D; 0 for inactive rows, such as limits that are not reached",
        ),
        ("efc_aref", (), "rad/s2 or m/s2", "reference acceleration"),
        ("efc_b", (), "rad/s2 or m/s2", "J qacc_smooth - efc_aref"),
        ("efc_force", (), "N m or N", "constraint force along the row"),
        ("quad", (), "N2/kg", "cost of the row at the solution"),
        element_kind=ElementKind.CONSTRAINT_ROW,
    ),
    *_field_infos(
        "rows against rows",
        (
            "efc_AR",
            PER_ROW_SHAPE,
            "1/(kg m2) or 1/kg",
            "regularised Delassus matrix J M^-1 J^T + diag(1 / efc_D); (n_rows, n_rows, n_envs)",
        ),
        element_kind=ElementKind.CONSTRAINT_ROW,
    ),
]

SYSTEM_FIELDS = [
    *_field_infos(
        "system",
        ("kinetic_energy", (), "J", "kinetic energy of links and armatures"),
        ("potential_energy", (), "J", "potential energy of gravity (zero at the world origin) and springs"),
        ("mass", (), "kg", "mass of all moving links"),
        ("com", (3,), "m", "centre of mass of all moving links"),
        ("linear_momentum", (3,), "kg m/s", "linear momentum of all moving links, without armatures"),
        ("angular_momentum", (3,), "kg m2/s", "angular momentum about the world origin, without armatures"),
    ),
]

EQUALITY_FIELDS = [
    *_field_infos(
        "equalities",
        ("gap", (), "m", "distance between the constrained points, along the constrained directions"),
        ("turn", (), "1", "rotation error: sine of the angle between axes, or of half the angle of a full rotation"),
    ),
    *_field_infos(
        "equality wrenches",
        ("wrench_a", (6,), "N m and N", "torque about `wrench_point` and force of the constraint on its first link"),
        ("wrench_b", (6,), "N m and N", "torque about `wrench_point` and force of the constraint on its second link"),
        ("wrench_point", (3,), "m", "reference point of the torques, in the world"),
    ),
    *_field_infos("state", ("broken", (), "1", "1 if a breakable joint has broken; cleared by reset")),
]
CONTACT_FIELDS = [
    *_field_infos(
        "contacts",
        ("active", (), "1", "1 if the slot holds a contact; each slot belongs to one pair of frames"),
        ("position", (3,), "m", "contact point, midway between the surfaces"),
        ("normal", (3,), "1", "contact normal from the first geom to the second"),
        ("penetration", (), "m", "penetration depth; negative if the geoms are separated (within the margin)"),
        ("force", (3,), "N", "contact force on the second geom; the first gets the opposite force"),
        ("pair", (), "1", "index of the geom pair; -1 for an unused slot"),
        ("geoms", (2,), "1", "indices of both geoms, in scenes with rules of collision instead of geom pairs"),
    ),
    *_field_infos(
        "laws of contacts",
        ("frame", (3, 3), "1", "contact frame: normal from the first geom to the second and two tangents, as rows"),
        ("efc_D", (), "1", "constraint stiffness along the normal; of a pyramidal cone along each edge"),
        ("efc_aref", (6,), "m/s2", "reference acceleration in each direction, rotations last; 0 beyond condim"),
        (
            "row_scales",
            (6,),
            "1 or m",
            "factors of the rows of the Jacobian in the solver: friction coefficients; for the normal 1 or, with an "
            "elliptic cone, the regularised friction coefficient; 0 beyond condim",
        ),
        (
            "efc_vel",
            (6,),
            "m/s or rad/s",
            "velocity of the second geom relative to the first along the axes of the contact frame, then about them, "
            "with surface velocities; 0 beyond condim",
        ),
        ("efc_force", (6,), "N or N m", "contact force along the axes of the contact frame, then torque about them"),
    ),
]
COUPLING_FIELDS = [
    *_field_infos(
        "couplings", ("error", (), "rad or m", "coordinate of the follower minus the polynomial of its leader")
    )
]
SENSOR_FIELDS = [
    *_field_infos("sensors", ("sensordata", (), "by sensor", "all sensor values, in the order of MuJoCo's sensordata")),
]

NAMESPACES = {
    "links_state": LINK_FIELDS,
    "dofs_state": DOF_FIELDS,
    "constraints": CONSTRAINT_FIELDS,
    "equalities": EQUALITY_FIELDS,
    "couplings": COUPLING_FIELDS,
    "contacts": CONTACT_FIELDS,
    "sensors": SENSOR_FIELDS,
    "system": SYSTEM_FIELDS,
}
"""Namespace -> its fields. `system` has one element per environment, the others one per object (link, dof, ...)."""


NAMESPACE_ELEMENT_KINDS = {
    "links_state": ElementKind.LINK,
    "dofs_state": ElementKind.DOF,
    "constraints": ElementKind.DOF,
    "equalities": ElementKind.EQUALITY,
    "couplings": ElementKind.COUPLING,
    "contacts": ElementKind.CONTACT,
    "sensors": ElementKind.SENSOR_VALUE,
    "system": ElementKind.ENVIRONMENT,
}
"""Namespace -> kind of object that has one element each."""


def n_elements(model: Model, element_kind: ElementKind, settings: Settings) -> int:
    """Number of model objects of one kind: links, dofs, equality constraints, couplings, contact entries, ...

    Constraint rows are those of the constraint kinds enabled in `settings`. Fields of the whole environment have 1.
    """
    sizes = {
        ElementKind.LINK: model.n_links,
        ElementKind.DOF: model.n_dofs,
        ElementKind.EQUALITY: len(model.equalities.names),
    }
    if element_kind is ElementKind.CONTACT:
        if model.has_pair_rules:
            return contact_capacity(model) * len(model.geoms.names) * len(pool_specializations(model))
        return sum(spec.capacity for spec in plan_contact_buffers(model))
    if element_kind is ElementKind.SENSOR_VALUE:
        return model.sensors.n_values
    if element_kind is ElementKind.CONSTRAINT_ROW:
        from .constraint_fields import constraint_rows_info

        return len(constraint_rows_info(model, settings).kinds)
    return {**sizes, ElementKind.COUPLING: len(model.couplings.names)}.get(element_kind, 1)


def resolve_element_shape(element_shape: tuple[int, ...], model: Model, settings: Settings) -> tuple[int, ...]:
    """Item shape of a field with `PER_DOF_SHAPE` and `PER_ROW_SHAPE` replaced by (n_dofs,) and (n_rows,)."""
    if element_shape == PER_DOF_SHAPE:
        return (model.n_dofs,)
    return (
        (n_elements(model, ElementKind.CONSTRAINT_ROW, settings),) if element_shape == PER_ROW_SHAPE else element_shape
    )


def group_outputs(group: str, model: Model, settings: Settings) -> dict[str, tuple[ElementKind, int]]:
    """Kind of model element and number of values per element of each field of a group, by field name.

    Fields of a group are computed by the same program. `model` and `settings` only determine sizes of element shapes
    that are given by name.
    """
    return {
        info.name: (
            info.element_kind or NAMESPACE_ELEMENT_KINDS[namespace],
            math.prod(resolve_element_shape(info.element_shape, model, settings)),
        )
        for namespace, infos in NAMESPACES.items()
        for info in infos
        if info.group == group and (info.name != "geoms" or model.has_pair_rules)
    }


AXIS_NAMES = {
    ElementKind.LINK: "n_links",
    ElementKind.DOF: "n_dofs",
    ElementKind.EQUALITY: "n_equalities",
    ElementKind.COUPLING: "n_couplings",
    ElementKind.CONTACT: "max_contacts",
    ElementKind.SENSOR_VALUE: "n_sensor_values",
    ElementKind.CONSTRAINT_ROW: "n_constraints",
}
"""Names of the numbers of elements, as in docs/arrays.md."""


def axis_names(namespace: str, info: FieldInfo) -> tuple[str | int, ...]:
    """Axis sizes of a field as numbers or names: elements, environments, then the axes of one element."""
    element_kind = info.element_kind or NAMESPACE_ELEMENT_KINDS[namespace]
    if element_kind is ElementKind.ENVIRONMENT:
        return (*info.element_shape, "n_envs")
    if info.element_shape in (PER_DOF_SHAPE, PER_ROW_SHAPE):
        columns = ElementKind.DOF if info.element_shape == PER_DOF_SHAPE else ElementKind.CONSTRAINT_ROW
        return AXIS_NAMES[element_kind], AXIS_NAMES[columns], "n_envs"
    return (AXIS_NAMES[element_kind], "n_envs", *info.element_shape)


def describe_fields() -> str:
    """All fields as text, one line each: namespace.name: meaning [unit]."""
    rows = [(namespace, info) for namespace, fields in NAMESPACES.items() for info in fields]
    return "\n".join(f"{namespace}.{info.name}: {info.meaning} [{info.unit}]" for namespace, info in rows)
