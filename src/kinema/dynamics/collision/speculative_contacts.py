"""Speculative contacts of fast geoms: their time of impact within a step, and contacts that keep them from tunnelling.

Geoms that move by more than their thickness in a step can pass through each other between two steps. For pairs with a
fast geom (`fast_pair_mask`), conservative advancement moves both geoms along their velocities until they touch, and
their contacts are those of the poses at that time. Such a contact exists before the geoms touch: its reference
acceleration lets them approach, within the step, up to `allowed_depth` below the surface and not farther. The same
limit holds for geoms in contact, and for the core of a fast geom, a sphere around its centre, which the spin after an
impact cannot carry through a surface. Slower motion has the contacts, and the forces, of any other pair.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace

from kinema import ir
from kinema.ir import IterationContext, Value

from ..arrays import MAX_RADIUS
from ..constraints.impedance import max_stiffness
from ..rigid.kinematics import Twist
from ..vector_math import (
    Vector,
    add,
    cross,
    dot,
    matmul,
    quaternion_exp,
    quaternion_to_matrix,
    rotate,
    scale,
    sub,
)
from .analytic_pairs import ANALYTIC_COLLISION_TABLE
from .collision_table import convex_collision_table, get_collision_table
from .collision_types import CollisionGeom, ContactQuery
from .pair_geoms import GEOM_POSE_SIZE, pair_specialization, pair_values, read_geom_pair
from .pair_parameters import NarrowPhaseSpecialization
from .vector_math import TINY, norm, select_vector

# ------------------------------------------------------------------------------------------------- motion within a step

MAX_ROTATION = 2.0
"""Largest rotation in a step [rad] along which poses are advanced; faster rotation counts as approach speed only."""


@dataclass(frozen=True, slots=True)
class Sweep:
    """Motion of one geom of a pair in a step."""

    origin: Vector
    """Position of the geom at the start of the step [m]."""
    velocity: Twist
    """Velocity of the geom at its origin, along world axes [m/s, rad/s]."""
    dt: Value
    """Length of the step [s]."""
    turning_radius: Value
    """Largest distance of a point that rotation moves from the origin [m]."""

    @property
    def displacement(self) -> Vector:
        """Displacement of the origin in the step [m]."""
        return scale(self.dt, self.velocity.linear)

    @property
    def rotational_travel(self) -> Value:
        """Upper bound of the distance that rotation moves any point of the geom in the step [m]."""
        return self.dt * norm(self.velocity.angular) * self.turning_radius

    @property
    def travel(self) -> Value:
        """Upper bound of the distance that any point of the geom moves in the step [m]."""
        return norm(self.displacement) + self.rotational_travel

    def velocity_at(self, point: Vector) -> Vector:
        """Velocity of the point of the geom that is at a world position at the start of the step [m/s]."""
        return add(self.velocity.linear, cross(self.velocity.angular, sub(point, self.origin)))

    def geom_at(self, geom: CollisionGeom, time: Value, *, rotates: bool) -> CollisionGeom:
        """The geom at a time, as a fraction of the step; `rotates` is False for spheres, whose rotation is unknown."""
        position = add(geom.position, scale(time, self.displacement))
        if not rotates:
            return replace(geom, position=position)
        speed = self.dt * norm(self.velocity.angular)
        half_angle = 0.5 * time * self.dt * ir.minimum(1.0, MAX_ROTATION / ir.maximum(speed, TINY))
        rotation = quaternion_to_matrix(quaternion_exp(scale(half_angle, self.velocity.angular)))
        return replace(geom, position=position, rotation=matmul(rotation, geom.rotation))


@dataclass(frozen=True, slots=True)
class SweptPair:
    """Two geoms with their types, ordered as in `GEOM_TYPES`, and motions."""

    types: tuple[str, str]
    geoms: tuple[CollisionGeom, CollisionGeom]
    sweeps: tuple[Sweep, Sweep]

    def geoms_at(self, time: Value) -> list[CollisionGeom]:
        """Both geoms at a time, as a fraction of the step."""
        parts = zip(self.sweeps, self.geoms, self.types, strict=True)
        return [sweep.geom_at(geom, time, rotates=geom_type != "sphere") for sweep, geom, geom_type in parts]

    @property
    def turning(self) -> Value:
        """Largest distance [m] that rotation brings two points of both geoms closer to each other in a step."""
        return self.sweeps[0].rotational_travel + self.sweeps[1].rotational_travel

    @property
    def closing(self) -> Vector:
        """Displacement of the first geom's origin relative to that of the second in the step [m]."""
        return sub(self.sweeps[0].displacement, self.sweeps[1].displacement)


def _read_sweeps(iteration: IterationContext) -> tuple[Sweep, Sweep]:
    """Read the rigid motions of both geoms of the current pair in a step: origin, twist and radius for rotation."""
    specialization, dt = pair_specialization(iteration), iteration.read("dt")
    sweeps = []
    for prefix, geom_type in zip(("a", "b"), specialization.geom_types, strict=True):
        first = GEOM_POSE_SIZE + 6 * len(specialization.surface_velocities)
        values = [iteration.read(prefix, first + i) for i in range(6)]
        radius = pair_values(iteration, f"{prefix} radius", 1)[0]
        if geom_type == "mesh":
            radius = iteration.constants(f"{prefix} data")[3]
        velocity = Twist(values[3:], values[:3])
        radius = 0.0 if geom_type == "sphere" else radius
        sweeps.append(Sweep(iteration.read_array(prefix, 3), velocity, dt, radius))
    return sweeps[0], sweeps[1]


def _fast_travel(iteration: IterationContext, sweeps: tuple[Sweep, Sweep]) -> Value:
    """Upper bound of the distance that both geoms approach in a step [m]; 0 for motion within the allowed depth."""
    a, b = sweeps
    travel = norm(sub(b.displacement, a.displacement)) + a.rotational_travel + b.rotational_travel
    return ir.select(iteration.constant("allowed depth"), travel, travel, 0.0)


def detection_margin(iteration: IterationContext) -> Value:
    """Distance [m] below which the current pair of geoms can have contacts: margin plus travel of fast geoms."""
    margin = iteration.constant("margin")
    if not pair_specialization(iteration).is_fast:
        return margin
    return margin + _fast_travel(iteration, _read_sweeps(iteration))


# ------------------------------------------------------------------------------------------------------- time of impact

MAX_ADVANCES = 24
"""Maximum number of steps of conservative advancement; geoms that are not in contact then count as in contact, which
restrains them only if their predicted motion does."""
CLEARANCE_SHARE = 0.1
"""Distance beyond the margin at which advanced geoms count as touching, relative to the allowed depth; half of it
remains when the advancement ends."""
CLOSED_FORM_DISTANCES = (
    *(("plane", x) for x in ("sphere", "capsule", "ellipsoid", "cylinder", "cone", "box")),
    *(("sphere", x) for x in ("sphere", "capsule", "box", "cylinder")),
    ("capsule", "capsule"),
)
"""Pairs whose contact function gives the exact distance of separated geoms; others use GJK."""
_DISTANCE_TABLE = convex_collision_table(multiccd=False)


def time_of_impact(iteration: IterationContext, pair: SweptPair, travel: Value, near: Value) -> list[Value]:
    """Time of impact of two geoms within a step, by conservative advancement at constant velocities.

    In each iteration the geoms advance by the time that their distance takes at least to vanish at the largest closing
    speed of any two points along the normal, rotation included.

    Args:
        iteration: iteration context of the pair.
        pair: the two geoms and their motions.
        travel: distance that they approach at most [m].
        near: distance [m] at the start of the step below which geoms that do not touch count as touching then.

    Returns:
        The time as a fraction of the step, and 1 if they touch within the step, else 0.
    """
    margin, clearance = iteration.constant("margin"), CLEARANCE_SHARE * iteration.constant("allowed depth")

    def advance(state: Sequence[Value]) -> tuple[list[Value], Value, Value]:
        time, _, first_distance = state
        distance, normal = _closest_distance(iteration, pair, time, margin + travel)
        closing = dot(normal, pair.closing) + pair.turning
        next_time = time + (distance - margin - 0.5 * clearance) / ir.maximum(closing, TINY)
        touches = ir.select(distance, margin + clearance, 1.0, 0.0)
        misses = ir.select(TINY, closing, ir.select(next_time, 1.0, 0.0, 1.0), 1.0) * (1.0 - touches)
        continues = (1.0 - touches) * (1.0 - misses)
        first_distance = ir.select(0.0, time, first_distance, distance)
        return [ir.select(0.5, continues, next_time, time), 1.0 - misses, first_distance], 0.5, continues

    time, touches, first_distance = iteration.tracer.while_loop(
        "conservative advancement", advance, [0.0, 1.0, 0.0], MAX_ADVANCES
    )
    is_near = ir.select(first_distance, near, 1.0, 0.0)
    return [time * touches, ir.maximum(touches, is_near)]


def _closest_distance(iteration: IterationContext, pair: SweptPair, time: Value, reach: Value) -> tuple[Value, Vector]:
    """Distance [m] of two geoms moved to a time in the step, and the normal from first to second.

    The distance is `MAX_RADIUS` if it exceeds `reach`. By closed forms where these are exact, else by GJK.
    """
    tracer = iteration.tracer
    closest = tracer.allocate_local(4)
    tracer.write(closest, [MAX_RADIUS, 0.0, 0.0, 1.0])
    tracer.new_basic_block()

    def record(distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        del point, tangent
        stored = [tracer.read(closest, i) for i in range(4)]
        tracer.write(closest, select_vector(distance, stored[0], [distance, *normal], stored))
        tracer.new_basic_block()

    table = ANALYTIC_COLLISION_TABLE if pair.types in CLOSED_FORM_DISTANCES else _DISTANCE_TABLE
    refines = pair_specialization(iteration).refines
    query = ContactQuery(tracer, reach, record, needs_depth=False, refines=refines)
    table[pair.types].collide(query, *pair.geoms_at(time))
    values = [tracer.read(closest, i) for i in range(4)]
    return values[0], values[1:]


# ------------------------------------------------------------------------------------------------- speculative contacts


@dataclass(frozen=True, slots=True)
class Approach:
    """Motion along the normal of one contact of a fast pair."""

    is_fast: Value
    """1 if the pair moves by more than the allowed depth in a step, else 0."""
    normal_velocity: Value
    """Velocity of the second geom relative to the first along the normal [m/s]."""


EmitApproach = Callable[[Value, Vector, Vector, "Vector | None", Approach], None]
"""Receives distance, point, normal and tangent of a contact at the start of the step, and its motion."""


def emit_speculative_contacts(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, emit: EmitApproach
) -> None:
    """Trace the contacts of the current geom pair at its time of impact within the step, passed to `emit`.

    If the geoms approach by less than the allowed depth, contacts are found at the start of the step. Otherwise the
    core of each fast geom, a sphere at its centre, has contacts too: a linear prediction of the points of a geom that
    starts to spin does not bound their motion, but bounds that of the core.
    """
    tracer, sweeps = iteration.tracer, _read_sweeps(iteration)
    geoms, travel = read_geom_pair(iteration, specialization), _fast_travel(iteration, sweeps)
    pair = SweptPair(specialization.geom_types, geoms, sweeps)
    _emit_at_impact(iteration, pair, travel, 0.0, emit)

    def emit_of_cores() -> list[Value]:
        for side in specialization.cores:
            swept, is_flipped = _core_pair(iteration, pair, side)

            def emit_flipped(
                distance: Value, point: Vector, normal: Vector, tangent: Vector | None, approach: Approach
            ) -> None:
                emit(distance, point, scale(-1.0, normal), tangent, approach)

            near = sweeps["ab".index(side)].turning_radius
            _emit_at_impact(iteration, swept, travel, near, emit_flipped if is_flipped else emit)
        return []

    if specialization.cores:
        tracer.if_less("fast cores", 0.0, travel, emit_of_cores, [])


def _core_pair(iteration: IterationContext, pair: SweptPair, side: str) -> tuple[SweptPair, bool]:
    """Swept pair of a sphere in one geom (its core) and the other geom, and whether its normals are reversed.

    `side` selects the geom, `a` or `b`, whose core is used.
    """
    k = "ab".index(side)
    geom, sweep, other_type = pair.geoms[k], pair.sweeps[k], pair.types[1 - k]
    *centre, radius = iteration.constants(f"{side} core")
    position = add(geom.position, rotate(geom.rotation, centre))
    velocity = Twist(sweep.velocity.angular, sweep.velocity_at(position))
    core = replace(geom, position=position, size=[radius, 0.0, 0.0], hull=None)
    parts = [("sphere", core, Sweep(position, velocity, sweep.dt, 0.0))]
    parts.insert(0 if other_type == "plane" else 1, (other_type, pair.geoms[1 - k], pair.sweeps[1 - k]))
    types, geoms, sweeps = zip(*parts, strict=True)
    return SweptPair(types, geoms, sweeps), (types[0] == "sphere") != (k == 0)


def _emit_at_impact(
    iteration: IterationContext, pair: SweptPair, travel: Value, near: Value, emit: EmitApproach
) -> None:
    """Trace the contacts of two geoms at their time of impact (start of the step if `travel` is 0) and emit them.

    Nothing is emitted if there is no impact; but geoms that are closer than `near` at the start of the step have their
    contacts of that time.

    The point of a contact is moved back with the geom that travels farther, which keeps its moment arm, and the
    distance is increased by the approach of the geoms until then, at the velocity of their contact.
    """
    tracer, (a, b) = iteration.tracer, pair.sweeps
    margin, allowed_depth = iteration.constant("margin"), iteration.constant("allowed depth")
    time, touches = tracer.if_less(
        "fast", 0.0, travel, lambda: time_of_impact(iteration, pair, travel, near), [0.0, 1.0]
    )
    is_fast = ir.select(0.0, travel, 1.0, 0.0)
    travels = ir.maximum(a.travel, TINY), ir.maximum(b.travel, TINY)
    imbalance = is_fast * ((travels[1] - travels[0]) / (travels[0] + travels[1]))

    def collide() -> list[Value]:
        remaining = ir.maximum(travel * (1.0 - time), 1.5 * CLEARANCE_SHARE * allowed_depth)
        reach = margin + is_fast * remaining

        def record(distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
            def store() -> list[Value]:
                shift = add(scale(0.5 - 0.5 * imbalance, a.displacement), scale(0.5 + 0.5 * imbalance, b.displacement))
                start = sub(add(point, scale(0.5 * imbalance * distance, normal)), scale(time, shift))
                normal_velocity = dot(normal, sub(b.velocity_at(start), a.velocity_at(start)))
                gap = distance + time * a.dt * ir.maximum(-normal_velocity, 0.0)
                emit(gap, start, normal, tangent, Approach(is_fast, normal_velocity))
                return []

            tracer.if_less("within reach", distance, reach, store, [])

        table = get_collision_table(multiccd=pair_specialization(iteration).multiccd)
        query = ContactQuery(tracer, reach, record, refines=pair_specialization(iteration).refines)
        table[pair.types].collide(query, *pair.geoms_at(time))
        return []

    tracer.if_less("touches", 0.5, touches, collide, [])


def with_speculative_force(
    iteration: IterationContext,
    fields: Mapping[str, Sequence[Value]],
    approach: Approach,
    violation: Value,
    invweight: Value,
) -> dict[str, Sequence[Value]]:
    """Contact record fields, modified so that the force limits the penetration at the end of the step.

    The reference acceleration is -(v_n + (r + d) / h) / h with the step h, the violation r at its start and the allowed
    depth d; 0 instead of r + d for a deeper violation. It replaces the reference acceleration of `solref`, with
    a nearly rigid impedance, if it is larger than the acceleration achieved by `solref` at its impedance, or if a fast
    pair is not in contact yet. It is increased by the share that regularization takes from a rigid contact, which
    matters in single precision.

    Args:
        iteration: iteration context of the pair.
        fields: fields of the contact with the reference acceleration of `solref`.
        approach: motion of the contact.
        violation: distance minus the force margin [m].
        invweight: approximate inverse inertia of the contact's rows.
    """
    inverse_dt = 1.0 / iteration.read("dt")
    normal_scale = fields["row_scales"][0]
    remaining = ir.maximum(violation + iteration.constant("allowed depth"), 0.0)
    feedback = inverse_dt * inverse_dt * remaining
    speculative = -(inverse_dt * approach.normal_velocity + feedback)
    (damping,), (own_feedback,), (stiffness,) = (fields[x] for x in ("damping", "position_feedback", "stiffness"))
    soft = -(damping * approach.normal_velocity + own_feedback / normal_scale)
    relative_stiffness = stiffness * invweight
    achieved = soft * (relative_stiffness / (1.0 + relative_stiffness))
    replaces = ir.select(0.0, violation, approach.is_fast, ir.select(achieved, speculative, 1.0, 0.0))
    rigid = ir.minimum(max_stiffness(invweight), iteration.constant("hardest"))
    gain = 1.0 + 1.0 / (rigid * invweight)
    chosen = {
        "damping": gain * inverse_dt,
        "position_feedback": gain * normal_scale * feedback,
        "stiffness": rigid,
    }
    own = {"damping": damping, "position_feedback": own_feedback, "stiffness": stiffness}
    return {**fields, **{name: [ir.select(0.5, replaces, chosen[name], own[name])] for name in own}}
