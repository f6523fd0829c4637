"""All arrays that a step reads or writes: kind of elements, width, arena, initial values and enabling settings."""

from __future__ import annotations

import enum
from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from kinema.core import Array, matrix_to_quaternion
from kinema.ir import UNIFORM
from kinema.model import SERVO_STATES, Model, PrimitiveJointType

from .collision.grid_plan import CLASS_ARRAY, EXCLUDED_ARRAY, GEOM_ARRAY, broad_phase_order, excluded_values
from .collision.pair_kinds import N_CLASS_FIELDS, N_GEOM_FIELDS, find_pair_kinds, geom_values
from .sensors.contact_weights import contact_weight_table
from .settings import ControlMode, Integrator, Settings
from .sleep.policy import initially_asleep, n_trees
from .topology import trees_of_entity


class ElementKind(enum.Enum):
    """Kind of model object for which an array has values: one element of the array per link, dof, geom, ..."""

    ENVIRONMENT = "environment"
    COORDINATE = "coordinate"
    DOF = "degree of freedom"
    LINK = "link"
    ACTUATOR = "actuator"
    TENDON = "tendon"
    DELAY_SAMPLE = "delay sample"
    """A past control stored for an actuator with control delay."""
    EQUALITY = "equality"
    COUPLING = "coupling"
    GEOM = "geom"
    PAIR = "geom pair"
    CONTACT = "contact"
    CONSTRAINT_ROW = "constraint row"
    GEOM_DATA = "geom data"
    """Vertices and other data shared by all geoms."""
    RULED_GEOM = "geom with rules"
    """A geom whose collisions rules decide, in the order of the broad phase."""
    CLASS_PAIR = "pair of classes"
    """Two classes of geoms in the rules of collision."""
    EXCLUDED_PAIR = "excluded pair"
    """Values of the list of pairs of geoms that rules of collision exclude."""
    SENSOR_VALUE = "sensor value"
    """A scalar of a sensor output."""
    SENSOR_PAIR = "sensor pair"
    """A geom pair as seen by a contact-dependent sensor output."""
    RAY_DATA = "ray data"
    """Data of the geoms that rangefinders can hit."""
    KINEMATIC_BODY = "kinematic body"
    DISTANCE_DATA = "distance data"
    """Data of the geoms between which distance sensors measure."""
    TREE = "tree"
    """A kinematic tree: a root frame with all its descendants."""
    ATTACHMENT = "attachment"
    SUCTION_CUP = "suction cup"
    PARTITION = "partition"
    """A thread that computes part of an environment."""
    PER_ENV_PARAMETER = "per-environment parameter"
    """A model parameter that is read from memory instead of being compiled in."""


class ArrayUse(enum.Enum):
    """Use of an array, which determines its arena."""

    STATE = "state"
    """State, carried from step to step."""
    CONTROL = "control"
    """Control input of a step."""
    PARAMETER = "parameter"
    """May change at any time; one value for all environments, unless declared per environment."""
    CONSTANT = "constant"
    """Model parameter folded into the program, unless declared per environment."""


PER_ENV_PARAMETER_ARRAY = "per_env_parameters"
"""Name of the array of model parameters that differ between environments and are not compiled in."""
MAX_RADIUS = 1e15
"""Stands for the infinite radius of a plane in arithmetic."""
InitialValues = Callable[[Model, Settings], "Array | float"]


@dataclass(frozen=True, slots=True)
class ArrayInfo:
    """Declaration of one array."""

    name: str
    element_kind: ElementKind
    use: ArrayUse
    width: int = 1
    """Scalars per element."""
    initial: InitialValues = lambda model, settings: 0.0
    """Initial values, a scalar or an array of all scalars."""
    is_enabled: Callable[[Settings], bool] = lambda settings: True
    """Whether the array exists with the given settings."""
    is_needed: Callable[[Model], bool] = lambda model: True
    """Whether the array has elements for the given model."""
    per_env_names: tuple[str, ...] = ()
    """Per-environment parameters that make the array differ between environments; its own name if empty."""

    def is_per_env(self, settings: Settings) -> bool:
        """Whether the array has separate values for each environment."""
        return bool(settings.per_env & set(self.per_env_names or (self.name,)))

    def arena(self, settings: Settings) -> str | None:
        """Name of the memory arena that holds the array: `state`, `controls` or the arena shared by all environments.

        None for disabled arrays and for constants that are compiled into the code.
        """
        if not self.is_enabled(settings):
            return None
        match self.use:
            case ArrayUse.STATE:
                return "state"
            case ArrayUse.CONTROL:
                return "controls"
            case ArrayUse.PARAMETER:
                return "state" if self.is_per_env(settings) else UNIFORM
            case ArrayUse.CONSTANT:
                return "state" if self.is_per_env(settings) else None

    def count(self, model: Model, settings: Settings) -> int:
        """Number of elements (one per dof, link, geom, ...) of the array; 0 if the model does not need the array."""
        if not self.is_needed(model):
            return 0
        return _COUNTS[self.element_kind](model, settings)


def _n_per_env_parameters(model: Model) -> int:
    table = model.derived.per_env_parameters
    return 0 if table is None else len(table.values)


_COUNTS: dict[ElementKind, Callable[[Model, Settings], int]] = {
    ElementKind.ENVIRONMENT: lambda *_: 1,
    ElementKind.COORDINATE: lambda model, _: model.n_qs,
    ElementKind.DOF: lambda model, _: model.n_dofs,
    ElementKind.LINK: lambda model, _: model.n_links,
    ElementKind.ACTUATOR: lambda model, _: model.n_actuators,
    ElementKind.TENDON: lambda model, _: len(model.tendons.names),
    ElementKind.DELAY_SAMPLE: lambda model, _: int(model.actuators.n_delay_samples.sum()),
    ElementKind.EQUALITY: lambda model, _: len(model.equalities.names),
    ElementKind.COUPLING: lambda model, _: len(model.couplings.names),
    ElementKind.GEOM: lambda model, _: len(model.geoms.names),
    ElementKind.PAIR: lambda model, _: len(model.pairs.geom_a),
    ElementKind.GEOM_DATA: lambda model, _: len(model.geoms.data),
    ElementKind.KINEMATIC_BODY: lambda model, _: len(model.kinematic_frames),
    ElementKind.RULED_GEOM: lambda model, _: len(model.pair_rules.class_of_geom),
    ElementKind.CLASS_PAIR: lambda model, _: model.pair_rules.row_of_classes.size,
    ElementKind.EXCLUDED_PAIR: lambda model, _: len(excluded_values(model)) if model.has_pair_rules else 0,
    ElementKind.SENSOR_VALUE: lambda model, _: model.sensors.n_values,
    ElementKind.SENSOR_PAIR: lambda model, _: len(contact_weight_table(model)),
    ElementKind.RAY_DATA: lambda model, _: len(model.sensors.ray_geoms.data),
    ElementKind.DISTANCE_DATA: lambda model, _: len(model.sensors.distance_geoms.data),
    ElementKind.TREE: lambda model, _: n_trees(model),
    ElementKind.ATTACHMENT: lambda model, _: len(model.attachments.names),
    ElementKind.SUCTION_CUP: lambda model, _: len(model.suction_cups.names),
    ElementKind.PARTITION: lambda _, settings: settings.n_partitions,
    ElementKind.PER_ENV_PARAMETER: lambda model, _: _n_per_env_parameters(model),
}
"""Number of elements of each kind."""


def _initial_from_dofs(name: str) -> InitialValues:
    return lambda model, _: getattr(model.dofs, name)


def _initial_from_tendons(name: str) -> InitialValues:
    return lambda model, _: model.derived.columns("tendon")[name]


def _has_yielding_springs(table: str) -> Callable[[Model], bool]:
    return lambda model: bool(np.isfinite(getattr(model, table).spring_yield).any())


def _initial_from_contact_table(table: str, name: str) -> InitialValues:
    return lambda model, _: np.minimum(getattr(getattr(model, table), name), MAX_RADIUS)


def _initial_from_fluid(name: str) -> InitialValues:
    return lambda model, _: getattr(model.fluid, name)


def _has_fluid(model: Model) -> bool:
    return bool(model.fluid.kinds)


def _spring_rest_coordinates(model: Model, _: Settings) -> Array:
    """Initial rest coordinates of the joint springs, (n_qs,), with quaternions for ball joints."""
    q, frames, single = np.zeros(model.n_qs), model.frames, model.dofs.q_idx >= 0
    q[model.dofs.q_idx[single]] = model.dofs.spring_ref[single]
    for frame in np.flatnonzero(frames.joint_type == PrimitiveJointType.BALL):
        q[frames.q_start[frame] + np.arange(4)] = frames.spring_quat[frame]
    return q


def _initial_control_history(model: Model, _: Settings) -> Array:
    """Initial control history of delayed actuators: zeros, and 1 for the scalar part of quaternion controls."""
    info = model.actuators
    is_scalar_part = (info.orientation_servo_idx >= 0) & ~info.moment.any(axis=1)
    return np.repeat(is_scalar_part.astype(float), info.n_delay_samples)


def _uses_rk4(settings: Settings) -> bool:
    return settings.integrator is Integrator.RK4


def _has_activation(model: Model) -> bool:
    return bool(model.actuators.has_activation.any())


def _has_servo_states(model: Model) -> bool:
    return any(model.actuators.servo_states)


def _has_limits(settings: Settings) -> bool:
    return settings.limits


def _has_contacts(settings: Settings) -> bool:
    return settings.contacts


def _stores_solution(settings: Settings) -> bool:
    return settings.contacts or settings.stores_solution


def _has_constraints(settings: Settings) -> bool:
    return settings.constraints


def _has_sleep(settings: Settings) -> bool:
    return settings.sleep_tolerance > 0.0


def _has_presence(settings: Settings) -> bool:
    return settings.presence


def _initial_presence(model: Model, settings: Settings) -> Array:
    """Initial presence of each tree: 0 for the trees of reserved entities."""
    present = np.ones(n_trees(model))
    for entity in settings.reserved:
        present[trees_of_entity(model, entity)] = 0.0
    return present


def _has_external_forces(settings: Settings) -> bool:
    return settings.external_forces


def _initial_from_constraints(element_kind: ElementKind, name: str) -> InitialValues:
    tables = {ElementKind.EQUALITY: "equalities", ElementKind.COUPLING: "couplings"}
    return lambda model, _: np.asarray(getattr(getattr(model, tables[element_kind]), name), np.float64)


def _initial_kinematic_poses(model: Model, _: Settings) -> Array:
    """Initial positions and quaternions of the kinematic bodies, (n, 7)."""
    frames, bodies = model.frames, model.kinematic_frames
    return np.array([[*frames.pos[f], *matrix_to_quaternion(frames.rot[f])] for f in bodies]).reshape(-1, 7)


def _initial_equality_poses(model: Model, _: Settings) -> Array:
    """Position and rotation matrix of the constraint frame on link b, (n_equalities, 12)."""
    info = model.equalities
    return np.concatenate([info.pos_b, info.rot_b.reshape(-1, 9)], axis=1)


UNBREAKABLE_FORCE = 1e30
"""Force [N] or torque [N m] bound that stands for infinite strength."""


def _initial_attachment_poses(model: Model, settings: Settings) -> Array:
    return _initial_equality_poses(model, settings)[model.attachments.equality_idx]


ATTACHMENT_ARRAYS = [
    ArrayInfo("attachment_on", ElementKind.ATTACHMENT, ArrayUse.STATE, is_enabled=_has_constraints),
    ArrayInfo(
        "attachment_point",
        ElementKind.ATTACHMENT,
        ArrayUse.STATE,
        3,
        initial=lambda model, _: model.equalities.pos_a[model.attachments.equality_idx],
        is_enabled=_has_constraints,
    ),
    ArrayInfo(
        "attachment_pose",
        ElementKind.ATTACHMENT,
        ArrayUse.STATE,
        12,
        initial=_initial_attachment_poses,
        is_enabled=_has_constraints,
    ),
    ArrayInfo("attachment_length", ElementKind.ATTACHMENT, ArrayUse.STATE, is_enabled=_has_constraints),
    ArrayInfo(
        "attachment_break_force",
        ElementKind.ATTACHMENT,
        ArrayUse.STATE,
        initial=lambda model, _: np.minimum(model.attachments.break_force, UNBREAKABLE_FORCE),
        is_enabled=_has_constraints,
    ),
    ArrayInfo("attachment_wrench", ElementKind.ATTACHMENT, ArrayUse.STATE, 6, is_enabled=_has_constraints),
    ArrayInfo("suction_on", ElementKind.SUCTION_CUP, ArrayUse.STATE, is_enabled=_has_constraints),
]
"""State of attachments: whether they hold; anchor on link a; position and rotation matrix of the constraint frame on
link b; length of rods and ropes [m]; breaking force [N]; force [N] and torque [N m] on link a in the last step. And
whether the vacuum of suction cups is on."""

SOFT_CONSTRAINTS: list[tuple[str, ElementKind, Callable[[str], InitialValues]]] = [
    ("limit", ElementKind.DOF, lambda name: _initial_from_dofs(f"limit_{name}")),
    ("friction", ElementKind.DOF, lambda name: _initial_from_dofs(f"friction_{name}")),
    ("equality", ElementKind.EQUALITY, lambda name: _initial_from_constraints(ElementKind.EQUALITY, name)),
    ("coupling", ElementKind.COUPLING, lambda name: _initial_from_constraints(ElementKind.COUPLING, name)),
]
"""Array prefixes of soft constraints with solref and solimp, their element kinds, and their initial values by parameter
name."""
CONTROL_GAINS = ("gain_command", "gain_position", "gain_velocity")
"""Gains of user commands: force = gain_command command - gain_position position - gain_velocity velocity."""
CLAMP_SLOPE = "clamp_slope"
"""Whether a dof has default gains, 0 or 1: then clamped control forces have the secant slope of the clamp as velocity
derivative, instead of zero as in MuJoCo, and the integrator EULER is implicit in control forces."""

CONTACT_PARAMETERS: list[tuple[ElementKind, str, str, int, tuple[str, ...]]] = [
    (ElementKind.PAIR, "pairs", "friction", 5, ("geom_friction",)),
    (ElementKind.PAIR, "pairs", "solref", 2, ("geom_sol_params",)),
    (ElementKind.PAIR, "pairs", "solimp", 5, ("geom_sol_params",)),
    (ElementKind.GEOM, "geoms", "size", 3, ("geom_size",)),
    (ElementKind.GEOM, "geoms", "radius", 1, ("geom_size",)),
]
"""Contact parameters that may differ between environments: kind of elements, model table, field, width, enabling
parameter names."""

KINEMATIC_ARRAYS = [
    ArrayInfo(name, ElementKind.KINEMATIC_BODY, ArrayUse.STATE, 7, initial=_initial_kinematic_poses)
    for name in ("kinematic_pose", "kinematic_target")
] + [
    ArrayInfo(name, ElementKind.KINEMATIC_BODY, ArrayUse.STATE, width)
    for name, width in (("kinematic_velocity", 6), ("kinematic_steps", 1))
]
"""Motion of kinematic bodies in world axes: pose and target pose (position, quaternion), linear velocity of the origin
and angular velocity, and the number of steps after which the target is reached and the body stops."""

STEP_COUNTERS = [
    ArrayInfo("n_contacts", ElementKind.ENVIRONMENT, ArrayUse.STATE, is_enabled=_has_contacts),
    ArrayInfo("n_lost_contacts", ElementKind.ENVIRONMENT, ArrayUse.STATE, is_enabled=_has_contacts),
    ArrayInfo("n_iterations", ElementKind.ENVIRONMENT, ArrayUse.STATE, is_enabled=_stores_solution),
    ArrayInfo("max_n_contacts", ElementKind.ENVIRONMENT, ArrayUse.STATE, is_enabled=_has_contacts),
    ArrayInfo("max_required_capacity", ElementKind.ENVIRONMENT, ArrayUse.STATE, is_enabled=_has_contacts),
]
"""Counters of a step: contacts, contacts lost for lack of capacity, and solver iterations; then the maxima since the
last reset of the number of contacts and of the contacts wanted between two frames where some were lost (0 if none were
lost)."""

DIRECTION_ARRAY, DIRECTION_STEP_ARRAY = "contact_directions", "contact_direction_step"
"""Arrays of the directions between pairs of convex geoms in the last step, by geom, and of the number of the step
(`collision/initial_directions.py`)."""
DIRECTIONS_PER_GEOM = 41
"""Scalars of the directions of a geom."""
ITERATIVE_GEOM_TYPES = {"mesh", "ellipsoid", "cylinder", "cone"}
"""Types of geoms of which some pairs have no formula."""


def _has_iterative_pairs(model: Model) -> bool:
    return model.has_pair_rules and not ITERATIVE_GEOM_TYPES.isdisjoint(model.geoms.types)


DIRECTION_ARRAYS = [
    ArrayInfo(name, element_kind, ArrayUse.STATE, width, is_enabled=_has_contacts, is_needed=_has_iterative_pairs)
    for name, element_kind, width in (
        (DIRECTION_ARRAY, ElementKind.GEOM, DIRECTIONS_PER_GEOM),
        (DIRECTION_STEP_ARRAY, ElementKind.ENVIRONMENT, 1),
    )
]

PRESENT_ARRAY = "present"
"""Array of the presence of trees: 1, or 0 for a tree that is absent in an environment (`tree/presence.py`)."""

SLEEP_ARRAYS = [
    ArrayInfo(
        "asleep",
        ElementKind.TREE,
        ArrayUse.STATE,
        initial=lambda model, _: initially_asleep(model),
        is_enabled=_has_sleep,
    ),
    ArrayInfo("still", ElementKind.TREE, ArrayUse.STATE, is_enabled=_has_sleep),
    ArrayInfo(
        "slept_qpos",
        ElementKind.COORDINATE,
        ArrayUse.STATE,
        initial=lambda model, _: model.qpos0,
        is_enabled=_has_sleep,
    ),
    ArrayInfo("slept_command", ElementKind.DOF, ArrayUse.STATE, is_enabled=_has_sleep),
    ArrayInfo("slept_ctrl", ElementKind.ACTUATOR, ArrayUse.STATE, is_enabled=_has_sleep),
    ArrayInfo(
        "slept_gravity",
        ElementKind.ENVIRONMENT,
        ArrayUse.STATE,
        3,
        initial=lambda model, _: model.gravity,
        is_enabled=_has_sleep,
    ),
]
"""Sleep state of trees: `asleep` is 0 while awake, else one plus the index of the first tree of the island that fell
asleep together; `still` counts steps below the sleep tolerance. The others are inputs at the time of falling asleep: a
change wakes the tree."""

ARRAYS = [
    ArrayInfo("error", ElementKind.PARTITION, ArrayUse.STATE),
    ArrayInfo("phase", ElementKind.ENVIRONMENT, ArrayUse.STATE, is_enabled=_uses_rk4),
    ArrayInfo("qpos", ElementKind.COORDINATE, ArrayUse.STATE, initial=lambda model, _: model.qpos0),
    ArrayInfo("vel", ElementKind.DOF, ArrayUse.STATE),
    ArrayInfo("stage_qpos", ElementKind.COORDINATE, ArrayUse.STATE, is_enabled=_uses_rk4),
    *(
        ArrayInfo(f"stage_{x}", ElementKind.DOF, ArrayUse.STATE, is_enabled=_uses_rk4)
        for x in ("vel", "shift", "sum_vel", "sum_acc")
    ),
    ArrayInfo(
        "broken",
        ElementKind.EQUALITY,
        ArrayUse.STATE,
        is_enabled=_has_constraints,
        is_needed=lambda model: bool(model.equalities.breakable.any()),
    ),
    ArrayInfo("act", ElementKind.ACTUATOR, ArrayUse.STATE, is_needed=_has_activation),
    *(
        ArrayInfo(f"stage_{x}", ElementKind.ACTUATOR, ArrayUse.STATE, is_enabled=_uses_rk4, is_needed=_has_activation)
        for x in ("act", "sum_act")
    ),
    ArrayInfo("servo_state", ElementKind.ACTUATOR, ArrayUse.STATE, len(SERVO_STATES), is_needed=_has_servo_states),
    *(
        ArrayInfo(
            f"stage_{x}",
            ElementKind.ACTUATOR,
            ArrayUse.STATE,
            len(SERVO_STATES),
            is_enabled=_uses_rk4,
            is_needed=_has_servo_states,
        )
        for x in ("servo_state", "sum_servo_state")
    ),
    ArrayInfo(
        "stage_servo_velocity",
        ElementKind.ACTUATOR,
        ArrayUse.STATE,
        is_enabled=_uses_rk4,
        is_needed=_has_servo_states,
    ),
    *KINEMATIC_ARRAYS,
    ArrayInfo("warm_start", ElementKind.DOF, ArrayUse.STATE, is_enabled=_stores_solution),
    *STEP_COUNTERS,
    *DIRECTION_ARRAYS,
    *SLEEP_ARRAYS,
    ArrayInfo(PRESENT_ARRAY, ElementKind.TREE, ArrayUse.STATE, initial=_initial_presence, is_enabled=_has_presence),
    *ATTACHMENT_ARRAYS,
    ArrayInfo("history", ElementKind.DELAY_SAMPLE, ArrayUse.STATE, initial=_initial_control_history),
    ArrayInfo(
        "spring_rest",
        ElementKind.COORDINATE,
        ArrayUse.STATE,
        initial=_spring_rest_coordinates,
        is_needed=_has_yielding_springs("dofs"),
    ),
    *(
        ArrayInfo(
            name,
            ElementKind.TENDON,
            ArrayUse.STATE,
            initial=_initial_from_tendons(name),
            is_needed=_has_yielding_springs("tendons"),
        )
        for name in ("rest_lower", "rest_upper")
    ),
    ArrayInfo("command", ElementKind.DOF, ArrayUse.CONTROL),
    ArrayInfo("ctrl", ElementKind.ACTUATOR, ArrayUse.CONTROL),
    ArrayInfo("ctrl_mode", ElementKind.DOF, ArrayUse.CONTROL, initial=lambda model, _: float(ControlMode.FORCE)),
    ArrayInfo("actuator_on", ElementKind.ACTUATOR, ArrayUse.CONTROL, initial=lambda *_: 1.0),
    ArrayInfo(
        "surface_velocity",
        ElementKind.GEOM,
        ArrayUse.CONTROL,
        6,
        initial=lambda model, _: model.geoms.surface_velocity,
        is_enabled=_has_contacts,
        is_needed=lambda model: bool(len(model.geoms.surface_velocity)),
    ),
    ArrayInfo(
        "geom_data",
        ElementKind.GEOM_DATA,
        ArrayUse.PARAMETER,
        initial=lambda model, _: model.geoms.data,
        is_enabled=_has_contacts,
    ),
    ArrayInfo(
        GEOM_ARRAY,
        ElementKind.RULED_GEOM,
        ArrayUse.PARAMETER,
        N_GEOM_FIELDS,
        initial=lambda model, _: geom_values(model, broad_phase_order(model)[0]),
        is_enabled=_has_contacts,
        is_needed=lambda model: model.has_pair_rules,
    ),
    ArrayInfo(
        CLASS_ARRAY,
        ElementKind.CLASS_PAIR,
        ArrayUse.PARAMETER,
        N_CLASS_FIELDS,
        initial=lambda model, _: find_pair_kinds(model).classes.ravel(),
        is_enabled=_has_contacts,
        is_needed=lambda model: model.has_pair_rules,
    ),
    ArrayInfo(
        EXCLUDED_ARRAY,
        ElementKind.EXCLUDED_PAIR,
        ArrayUse.PARAMETER,
        initial=lambda model, _: excluded_values(model),
        is_enabled=_has_contacts,
        is_needed=lambda model: bool(len(model.pair_rules.excluded)),
    ),
    ArrayInfo("dt", ElementKind.ENVIRONMENT, ArrayUse.PARAMETER, initial=lambda _, settings: settings.dt),
    ArrayInfo("gravity", ElementKind.ENVIRONMENT, ArrayUse.PARAMETER, 3, initial=lambda model, _: model.gravity),
    *(
        ArrayInfo(
            name,
            ElementKind.ENVIRONMENT,
            ArrayUse.PARAMETER,
            width,
            initial=_initial_from_fluid(name),
            is_needed=_has_fluid,
        )
        for name, width in (("wind", 3), ("density", 1), ("viscosity", 1))
    ),
    *(ArrayInfo(name, ElementKind.DOF, ArrayUse.PARAMETER, initial=_initial_from_dofs(name)) for name in ("kp", "kv")),
    *(ArrayInfo(name, ElementKind.DOF, ArrayUse.PARAMETER, per_env_names=("kp", "kv")) for name in CONTROL_GAINS),
    *(
        ArrayInfo(name, ElementKind.DOF, ArrayUse.PARAMETER, initial=_initial_from_dofs(name))
        for name in ("force_lower", "force_upper")
    ),
    *(
        ArrayInfo(
            name,
            ElementKind.DOF,
            ArrayUse.PARAMETER,
            initial=_initial_from_dofs(name),
            is_enabled=_has_limits,
            per_env_names=("limit",),
        )
        for name in ("lower", "upper")
    ),
    *(
        ArrayInfo(name, ElementKind.DOF, ArrayUse.CONSTANT, initial=_initial_from_dofs(name))
        for name in ("armature", "damping")
    ),
    ArrayInfo(
        "frictionloss",
        ElementKind.DOF,
        ArrayUse.CONSTANT,
        initial=_initial_from_dofs("frictionloss"),
        is_enabled=_has_constraints,
    ),
    *(
        ArrayInfo(
            f"{element_kind.value}_on",
            element_kind,
            ArrayUse.CONSTANT,
            initial=_initial_from_constraints(element_kind, "active"),
            per_env_names=("equality",),
        )
        for element_kind in (ElementKind.EQUALITY, ElementKind.COUPLING)
    ),
    ArrayInfo(
        "equality_pose",
        ElementKind.EQUALITY,
        ArrayUse.CONSTANT,
        12,
        initial=_initial_equality_poses,
        per_env_names=("equality",),
    ),
    *(
        ArrayInfo(
            f"{kind}_{name}", element_kind, ArrayUse.CONSTANT, width, initial=start(name), per_env_names=("sol_params",)
        )
        for kind, element_kind, start in SOFT_CONSTRAINTS
        for name, width in (("solref", 2), ("solimp", 5))
    ),
    *(
        ArrayInfo(
            f"{table[:-1]}_{name}",
            element_kind,
            ArrayUse.CONSTANT,
            width,
            _initial_from_contact_table(table, name),
            _has_contacts,
            per_env_names=asked,
        )
        for element_kind, table, name, width, asked in CONTACT_PARAMETERS
    ),
    ArrayInfo(
        PER_ENV_PARAMETER_ARRAY,
        ElementKind.PER_ENV_PARAMETER,
        ArrayUse.PARAMETER,
        initial=lambda model, _: (
            np.zeros(0) if model.derived.per_env_parameters is None else model.derived.per_env_parameters.values[:, 0]
        ),
        is_enabled=lambda settings: settings.per_env_parameters,
        per_env_names=("variants", "mass_shift", "com_shift", "armature"),
    ),
    ArrayInfo("mass_shift", ElementKind.LINK, ArrayUse.CONSTANT),
    ArrayInfo("com_shift", ElementKind.LINK, ArrayUse.CONSTANT, 3),
    *(
        ArrayInfo(f"cfrc_applied_{x}", ElementKind.LINK, ArrayUse.STATE, 3, is_enabled=_has_external_forces)
        for x in ("ang", "vel")
    ),
    ArrayInfo("dof_force_applied", ElementKind.DOF, ArrayUse.STATE, is_enabled=_has_external_forces),
    ArrayInfo(CLAMP_SLOPE, ElementKind.DOF, ArrayUse.PARAMETER),
    ArrayInfo(
        "contact_weights",
        ElementKind.SENSOR_PAIR,
        ArrayUse.PARAMETER,
        initial=lambda model, _: contact_weight_table(model),
        is_enabled=_has_contacts,
    ),
    ArrayInfo(
        "ray_data", ElementKind.RAY_DATA, ArrayUse.PARAMETER, initial=lambda model, _: model.sensors.ray_geoms.data
    ),
    ArrayInfo(
        "distance_geom_data",
        ElementKind.DISTANCE_DATA,
        ArrayUse.PARAMETER,
        initial=lambda model, _: model.sensors.distance_geoms.data,
    ),
    ArrayInfo(
        "clock",
        ElementKind.ENVIRONMENT,
        ArrayUse.PARAMETER,
        is_needed=lambda model: "clock" in model.sensors.outputs.kinds,
    ),
]
"""All arrays in memory order. Arrays of the environment come first, so that their offsets are the same for all models,
which then share the compiled code that accesses them."""

ARRAYS_BY_NAME = {info.name: info for info in ARRAYS}


def initial_kinematic_arrays(model: Model) -> dict[str, Array]:
    """Initial values of `KINEMATIC_ARRAYS` by name, (n_scalars,); empty without kinematic bodies."""
    infos = KINEMATIC_ARRAYS if model.kinematic_frames else []
    return {info.name: initial_values(info, model, Settings())[:, 0] for info in infos}


def arena_arrays(arena: str, model: Model, settings: Settings) -> list[tuple[str, int]]:
    """Names and sizes (in scalars) of the arrays of an arena, in memory order."""
    infos = (info for info in ARRAYS if info.arena(settings) == arena)
    return [(info.name, info.width * info.count(model, settings)) for info in infos]


def initial_values(info: ArrayInfo, model: Model, settings: Settings) -> Array:
    """Initial values of an array, (n_scalars, 1)."""
    count = info.width * info.count(model, settings)
    if not count:
        return np.zeros((0, 1))
    return np.broadcast_to(np.asarray(info.initial(model, settings), dtype=np.float64).reshape(-1), (count,))[:, None]
