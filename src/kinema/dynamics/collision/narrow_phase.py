"""Narrow phase: geom poses, bounding-volume tests per pair, contact generation, contact frames and contact records.

Positions are relative to a shifted world origin at the first free robot, so that precision does not degrade far from
the world origin.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, Value

from ..arrays import MAX_RADIUS
from ..constraints.impedance import (
    impedance,
    max_stiffness,
    reference_stiffness_and_damping,
    smoothed_violation,
    valid_solref,
)
from ..rigid.kinematics import Pose, Twist
from ..tree.node_values import NodeValues
from ..tree.presence import both_present, presence_of_frames
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, cross, dot, rotate, scale, sub
from .analytic_pairs import ANALYTIC_COLLISION_TABLE
from .broad_phase import cull_frame_pairs, list_overlapping_pairs
from .collision_table import get_collision_table
from .collision_types import CollisionGeom, ContactQuery
from .contact_buffers import ContactBuffers
from .contact_lists import ContactLists
from .contact_records import Contact, buffer_layout, inactive_record, list_layout
from .geom_poses import compute_geom_poses
from .initial_directions import PairDirection
from .local_aabbs import geom_half_extents
from .obb import OBB_ROUNDING, obb_separation, uses_obb_test
from .pair_geoms import GEOM_POSE_SIZE, pair_specialization, pair_values, read_geom, read_geom_pair
from .pair_parameters import ContactBufferInputs, NarrowPhaseSpecialization, build_pair_iterations
from .speculative_contacts import (
    Approach,
    detection_margin,
    emit_speculative_contacts,
    with_speculative_force,
)
from .vector_math import if_less, select_vector

# -------------------------------------------------------------------------------------------------------- contact frame

PARALLEL_SINE_SQUARED = 1e-13
"""Squared sine below which a direction counts as parallel to the normal; in single precision its tangential part is
mostly rounding error."""


def contact_tangents(normal: Vector, tangent_hint: Vector | None = None) -> tuple[Vector, Vector]:
    """Two unit tangents that complete a unit contact normal to a right-handed frame, chosen as in MuJoCo.

    The first tangent is the projection of `tangent_hint` on the tangent plane. Without a hint, the world y axis is
    projected, or the z axis if |n_y| > 0.5. If the hint is parallel to the normal, the x axis is projected, or the y
    axis. The second tangent is the cross product of normal and first tangent.
    """
    y_slack = 0.25 - normal[1] * normal[1]
    first = select_vector(y_slack, 0.0, (0.0, 0.0, 1.0), (0.0, 1.0, 0.0)) if tangent_hint is None else tangent_hint
    projected = _project_onto_tangent_plane(first, normal)
    if tangent_hint is not None:
        fallback = select_vector(0.5, normal[0] * normal[0], (0.0, 1.0, 0.0), (1.0, 0.0, 0.0))
        projected = select_vector(
            dot(projected, projected), PARALLEL_SINE_SQUARED, _project_onto_tangent_plane(fallback, normal), projected
        )
        # project again: rounding leaves a normal component if the hint is nearly parallel to the normal
        projected = _project_onto_tangent_plane(_normalize_nonzero(projected), normal)
    first = _normalize_nonzero(projected)
    return first, cross(normal, first)


def _project_onto_tangent_plane(vector: Vector, normal: Vector) -> Vector:
    return sub(vector, scale(dot(vector, normal), normal))


def _normalize_nonzero(vector: Vector) -> Vector:
    return scale(1.0 / ir.sqrt(ir.maximum(dot(vector, vector), 1e-30)), vector)


# ---------------------------------------------------------------------------------- bounding-volume tests of geom pairs


def bounding_volume_test(iteration: IterationContext) -> tuple[Value, Value]:
    """Bounding-sphere test of a geom pair, followed by the OBB test where it is worthwhile.

    Returns:
        Two values a and b; the bounding volumes, inflated by the margin, overlap if a < b.
    """
    lhs, rhs = bounding_sphere_test(iteration)
    if not uses_obb_test(pair_specialization(iteration).geom_types):
        return lhs, rhs
    gap = iteration.tracer.if_less("boxes", lhs, rhs, lambda: [_obb_gap(iteration)], [1.0])
    return gap[0], 0.0


def bounding_sphere_test(iteration: IterationContext) -> tuple[Value, Value]:
    """Bounding-sphere test of the current iteration's geom pair, including the contact margin.

    For a plane, the signed distance of the other geom's centre is compared with its radius plus margin; otherwise
    squared distance and squared sum of radii.

    Returns:
        Two values a and b; the spheres overlap if a < b.
    """
    geom_types, margin = pair_specialization(iteration).geom_types, detection_margin(iteration)
    centers = [
        _bounding_sphere_center(iteration, prefix, geom_type)
        for prefix, geom_type in zip(("a", "b"), geom_types, strict=True)
    ]
    offset, radius = sub(centers[1], centers[0]), pair_values(iteration, "b radius", 1)[0]
    if geom_types[0] == "plane":
        normal = [iteration.read("a", 5), iteration.read("a", 8), iteration.read("a", 11)]
        return dot(offset, normal), radius + margin
    max_distance = pair_values(iteration, "a radius", 1)[0] + radius + margin
    return dot(offset, offset), max_distance * ir.absolute(max_distance)


def analytic_or_obb_test(iteration: IterationContext) -> tuple[Value, Value]:
    """Second culling test of a geom pair: OBB separation, or smallest distance by its analytic contact function.

    Pairs without either test, and fast pairs of such types, always pass.

    Returns:
        Two values a and b; the pair is passed to contact generation if a < b.
    """
    specialization, tracer, margin = pair_specialization(iteration), iteration.tracer, iteration.constant("margin")
    if uses_obb_test(specialization.geom_types):
        return _obb_gap(iteration), 0.0
    if specialization.geom_types not in ANALYTIC_COLLISION_TABLE or specialization.is_fast:
        return 0.0, 1.0
    min_distance = tracer.allocate_local(1)

    def store(distance: Value) -> None:
        tracer.write(min_distance, [distance])
        tracer.new_basic_block()  # reads see only the stores of earlier basic blocks

    def record_distance(distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        del point, normal, tangent
        store(ir.minimum(tracer.read(min_distance), distance))

    store(MAX_RADIUS)

    ANALYTIC_COLLISION_TABLE[specialization.geom_types].collide(
        ContactQuery(tracer, margin, record_distance), *read_geom_pair(iteration, specialization)
    )
    return tracer.read(min_distance), margin


def _obb_gap(iteration: IterationContext) -> Value:
    """Separation [m] of the OBBs of both geoms, minus margin and rounding bound; negative if contact is possible."""
    margin = detection_margin(iteration)
    max_distance = pair_values(iteration, "a radius", 1)[0] + pair_values(iteration, "b radius", 1)[0] + margin
    sides = zip(("a", "b"), pair_specialization(iteration).geom_types, strict=True)
    return obb_separation(*(_read_obb(iteration, *x) for x in sides)) - (margin + OBB_ROUNDING * max_distance)


def _read_obb(iteration: IterationContext, prefix: str, geom_type: str) -> CollisionGeom:
    """OBB of a geom of the current iteration, as a `CollisionGeom` whose `size` are the half extents."""
    geom = read_geom(iteration, prefix, geom_type)
    if geom_type != "mesh":
        return replace(geom, size=geom_half_extents(geom_type, geom.size))
    aabb = iteration.constants(f"{prefix} aabb")
    centre = add(geom.position, rotate(geom.rotation, aabb[:3]))
    return replace(geom, position=centre, size=aabb[3:])


def _bounding_sphere_center(iteration: IterationContext, prefix: str, geom_type: str) -> Vector:
    """World position of the bounding sphere's centre of a geom of the current iteration."""
    position = iteration.read_array(prefix, 3)
    if geom_type not in ("mesh", "height field", "distance field"):
        return position
    return add(
        position, rotate(read_geom(iteration, prefix, geom_type).rotation, iteration.constants(f"{prefix} center"))
    )


# ---------------------------------------------------------------------------------------------------- contact detection

MAX_UNROLLED_GEOMS = 64
"""Number of geoms up to which their poses are computed in straight-line code; a loop would be executed by one
thread."""


def detect_contacts(
    ctx: TraceContext,
    contact_buffers: ContactBuffers,
    frame_poses: NodeValues[Pose],
    frame_velocities: NodeValues[Twist] | None,
) -> ArenaOffset | None:
    """Trace the complete collision detection: geom poses, broad phase and narrow phase, into the contact buffers.

    Args:
        ctx: tracing context.
        contact_buffers: contact buffers (contacts per pair of bodies and condim) to be filled; their contact and lost
            counts are reset.
        frame_poses: poses of frames relative to the shifted world origin.
        frame_velocities: velocities of frames, along which contacts of fast geoms are found; None without fast geoms.

    Returns:
        Offset of the candidate list of geom pairs (`list_overlapping_pairs`), or None if all pairs were tested.
    """
    for counter in (contact_buffers.lost_count, contact_buffers.required_capacity):
        ctx.tracer.write(SCRATCH, [0.0], counter.row)
    with ctx.without_unrolling():
        geom_poses = compute_geom_poses(ctx, frame_poses, frame_velocities)
        cull_frame_pairs(ctx, contact_buffers, frame_poses)
        candidates = list_overlapping_pairs(
            ctx, [contact_buffer.spec for contact_buffer in contact_buffers.buffers], geom_poses
        )
        buffer_inputs = [
            ContactBufferInputs(
                contact_buffer.spec,
                {
                    **{
                        "contacts": contact_buffer.contacts,
                        "count": contact_buffer.count,
                        "near": contact_buffer.overlap_flag,
                        "buffer lost count": contact_buffer.lost_count,
                    },
                    **{
                        "lost count": contact_buffers.lost_count,
                        "required capacity": contact_buffers.required_capacity,
                    },
                },
                {"capacity": [float(contact_buffer.spec.capacity)]},
            )
            for contact_buffer in contact_buffers.buffers
        ]
        ctx.for_each(
            "narrowphase", build_pair_iterations(ctx, buffer_inputs, geom_poses), _collide_if_overlapping, candidates
        )
    return candidates


def detect_contacts_into_lists(
    ctx: TraceContext,
    contact_lists: ContactLists,
    frame_poses: NodeValues[Pose],
    frame_velocities: NodeValues[Twist] | None,
) -> None:
    """Trace collision detection on the GPU by a compacted work queue, appending contacts to lists in undefined order.

    Geom pairs pass the bounding-sphere test and the analytic or OBB test before contacts are generated. Poses are
    relative to the shifted world origin, velocities None without fast geoms.
    """
    with ctx.without_unrolling(len(ctx.model.geoms.names) > MAX_UNROLLED_GEOMS):
        geom_poses = compute_geom_poses(ctx, frame_poses, frame_velocities)
    buffer_inputs = [
        ContactBufferInputs(
            spec,
            {**contact_lists.loop_offsets(spec), **presence_of_frames(ctx, spec.frames)},
            contact_lists.loop_constants(spec),
        )
        for spec in contact_lists.specs
    ]
    rows = build_pair_iterations(ctx, buffer_inputs, geom_poses, uses_lists=True)
    ctx.work_queue_loop(
        "narrowphase",
        rows,
        [*([_presence_test] if ctx.settings.presence else []), bounding_sphere_test, analytic_or_obb_test],
        lambda iteration: collide_pair(iteration, pair_specialization(iteration)),
    )


def _presence_test(iteration: IterationContext) -> tuple[Value, Value]:
    """Two values a and b; both bodies of the current geom pair are present if a < b."""
    return 0.5, both_present(iteration)


def _scaled_invweight(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, friction: Value, regularized_mu: Value
) -> Value:
    """Approximate inverse inertia (MuJoCo's diagApprox) of a contact's rows, scaled for its friction cone.

    invweight w for condim 1; w mu^2 for elliptic cones; 2 w mu^2 (1 + friction^2) for pyramidal cones, where mu is the
    regularized friction.
    """
    invweight = iteration.constant("weight")
    if specialization.condim == 1:
        return invweight
    elliptic_invweight = invweight * regularized_mu * regularized_mu
    return elliptic_invweight if specialization.elliptic else 2.0 * elliptic_invweight * (1.0 + friction * friction)


def _collide_if_overlapping(iteration: IterationContext) -> None:
    """Generate the contacts of the current geom pair if the bounding volumes of its bodies and of both geoms overlap.

    Fast pairs, and pairs without an analytic contact function, are executed environment by environment (scalarized),
    because few environments reach the iterative algorithms and their control flow diverges.
    """
    specialization, tracer = pair_specialization(iteration), iteration.tracer

    def test_bounding_volumes() -> None:
        if_less(
            tracer,
            "near",
            *bounding_volume_test(iteration),
            lambda: collide_pair(iteration, specialization),
            scalarize=specialization.geom_types not in ANALYTIC_COLLISION_TABLE or specialization.is_fast,
        )

    if_less(tracer, "near frames", 0.5, iteration.read("near"), test_bounding_volumes)


def collide_pair(iteration: IterationContext, specialization: NarrowPhaseSpecialization) -> None:
    """Call the contact function of a geom pair and store the contacts closer than the margin.

    Contacts are appended to the unordered list, inserted with overflow handling (the deepest are kept), or appended to
    the contact buffer, depending on the specialization.
    """
    tracer, margin = iteration.tracer, iteration.constant("margin")

    def store(
        distance: Value, point: Vector, normal: Vector, tangent: Vector | None, approach: Approach | None = None
    ) -> None:
        fields = _contact_fields(iteration, specialization, distance, point, normal, tangent, approach)
        if specialization.uses_lists:
            _append_to_list(iteration, specialization, fields)
            return
        record = buffer_layout(specialization).pack(fields)
        if specialization.uses_pool:
            _append_to_pool(iteration, specialization, record)
            return
        if specialization.may_overflow:
            _insert_keeping_deepest(iteration, specialization, distance, record)
        else:
            _append_contact(iteration, specialization, record)

    def emit(distance: Value, point: Vector, normal: Vector, tangent: Vector | None = None) -> None:
        if_less(tracer, "within margin", distance, margin, lambda: store(distance, point, normal, tangent))

    if specialization.is_fast:
        emit_speculative_contacts(iteration, specialization, store)
        return

    query = ContactQuery(tracer, margin, emit, refines=specialization.refines)
    if specialization.directions:
        query = replace(query, initial_direction=PairDirection.find(iteration, specialization.directions))
    get_collision_table(multiccd=specialization.multiccd)[specialization.geom_types].collide(
        query, *read_geom_pair(iteration, specialization)
    )


def _contact_fields(
    iteration: IterationContext,
    specialization: NarrowPhaseSpecialization,
    distance: Value,
    point: Vector,
    normal: Vector,
    tangent_hint: Vector | None,
    approach: Approach | None,
) -> Mapping[str, Sequence[Value]]:
    """Values of the fields of a contact record: geometry and parameters of the contact force (see `CONTACT_FIELDS`).

    Point, contact frame (normal from the first to the second body of the contact buffer), distance, signed pair index,
    constraint stiffness D = d / ((1 - d) w) (0 beyond the force margin), regularized friction mu, reference feedback k
    d r, damping, friction damping and friction scaling; with restitution or stiction also maximum stiffness,
    restitution, bounce speed and stiction ratio. `approach` is the motion of a contact of a fast pair, else None.
    """
    sign = iteration.constant("sign")
    axes = [scale(sign, axis) for axis in (normal, *contact_tangents(normal, tangent_hint))]
    solimp = [*pair_values(iteration, "solimp", 5)[:4], iteration.constants("solimp")[4]]
    friction = pair_values(iteration, "friction", 5)
    mu = friction[0] * iteration.constant("inverse sqrt impratio")
    invweight = _scaled_invweight(iteration, specialization, friction[0], mu)
    violation, activation = distance - iteration.constant("force margin"), None
    if specialization.smoothing and approach is None:
        violation, activation = smoothed_violation(violation, specialization.smoothing)
    imp = impedance(solimp, specialization.solimp_power, violation)
    stiffness_ref, damping = reference_stiffness_and_damping(
        valid_solref(pair_values(iteration, "solref", 2)),
        solimp[1],
        iteration.read("dt"),
        refsafe=specialization.refsafe,
    )
    friction_damping = damping
    if specialization.has_solref_friction:
        _, friction_damping = reference_stiffness_and_damping(
            iteration.constants("solref friction"), solimp[1], iteration.read("dt"), refsafe=specialization.refsafe
        )
    normal_scale = mu if specialization.elliptic else 1.0
    stiffness = ir.minimum(imp / ((1.0 - imp) * invweight), iteration.constant("hardest"))
    stiffness = ir.select(violation, 0.0, stiffness, 0.0) if activation is None else activation * stiffness
    fields: dict[str, Sequence[Value]] = {
        "point": point,
        "axes": [x for axis in axes for x in axis],
        "distance": [distance],
        "signed_pair": [sign * iteration.constant("pair")],
        "stiffness": [stiffness],
        "regularized_mu": [mu],
        "position_feedback": [normal_scale * stiffness_ref * imp * violation],
        "damping": [damping],
        "friction_damping": [friction_damping],
        "row_scales": [normal_scale, *friction[: specialization.condim - 1]],
    }
    if approach is not None:
        fields = with_speculative_force(iteration, fields, approach, violation, invweight)
    if specialization.has_surface_velocity:
        if specialization.uses_lists:  # which leave out the second tangent
            axes[2] = cross(axes[0], axes[1])
        fields["surface_velocity"] = _relative_surface_velocity(iteration, specialization, point, axes)
    if specialization.has_restitution_or_stiction:
        max_rigid = ir.minimum(max_stiffness(invweight), iteration.constant("hardest"))
        fields["restitution"] = [max_rigid, *iteration.constants("restitution and stiction")]
    return fields


def _relative_surface_velocity(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, point: Vector, axes: Sequence[Vector]
) -> list[Value]:
    """Prescribed velocity of the second body's surface relative to the first's at a contact, without J v, (condim,).

    In contact coordinates [m/s, rad/s]: the sum of the velocities of kinematic bodies with all components, and of the
    surface velocities of the geoms (conveyor belts). The latter are, as in MuJoCo, projected onto the tangent plane
    and have no rolling components.

    Args:
        iteration: iteration of a geom pair.
        specialization: selects which of both velocities exist, and the condim.
        point: contact point.
        axes: normal from the first to the second body (moving frame) of the contact buffer, and two tangents.
    """
    rows: list[Value] = [0.0] * 6
    sign = iteration.constant("sign")
    for k, name in enumerate(specialization.surface_velocities):
        first = GEOM_POSE_SIZE + 6 * k
        linear: list[Vector] = []
        angular: list[Vector] = []
        for prefix in ("a", "b"):
            origin = iteration.read_array(prefix, 3)
            values = [iteration.read(prefix, first + i) for i in range(6)]
            angular.append(values[3:])
            linear.append(add(values[:3], cross(values[3:], sub(point, origin))))
        velocity, spin = (scale(sign, sub(b, a)) for a, b in (linear, angular))
        components = [dot(axis, velocity) for axis in axes] + [dot(axis, spin) for axis in axes]
        if name == "own":
            components = [0.0, *components[1:4], 0.0, 0.0]
        rows = [a + b for a, b in zip(rows, components, strict=True)]
    return rows[: specialization.condim]


def _append_contact(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, record: list[Value]
) -> None:
    """Append a contact record to the contact buffer of the current iteration and increment its contact count."""
    count = iteration.read("count")
    iteration.tracer.write("contacts", record, 0, count * float(buffer_layout(specialization).record_size))
    iteration.tracer.write("count", [count + 1.0])


def _append_to_pool(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, record: list[Value]
) -> None:
    """Append a contact record to the pool of contacts, or count it as lost if the pool is full."""
    tracer, layout = iteration.tracer, buffer_layout(specialization)
    count, index = iteration.read("pool count"), iteration.read("record count")
    room = iteration.constant("capacity") - count
    if layout.group_size > 1:
        room = ir.minimum(room, iteration.constant("record capacity") - index)

    def append() -> None:
        Contact(tracer, layout, index).write_record(record)
        tracer.write("pool count", [count + 1.0])
        if layout.group_size > 1:
            tracer.write("record count", [index + 1.0])

    if_less(tracer, "has capacity", 0.5, room, append)
    if_less(
        tracer,
        "pool is full",
        room,
        0.5,
        lambda: iteration.write("lost count", [iteration.read("lost count") + 1.0]),
    )


def complete_group(iteration: IterationContext, specialization: NarrowPhaseSpecialization) -> None:
    """Append inactive contacts up to the end of a group of records, so that each pair begins with a group."""
    tracer, layout = iteration.tracer, buffer_layout(specialization)
    if layout.group_size == 1:
        return
    n, index = float(layout.group_size), iteration.read("record count")
    end = n * ir.floor((index + (n - 0.5)) * (1.0 / n))
    record = inactive_record(specialization)
    tracer.counted_loop(
        "inactive contacts", end - index, lambda i: Contact(tracer, layout, index + i).write_record(record)
    )
    tracer.write("record count", [end])
    tracer.new_basic_block()


def _append_to_list(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, fields: Mapping[str, Sequence[Value]]
) -> None:
    """Append a contact to the environment's unordered contact list, by an atomic increment.

    The entry has the indices of the two bodies (moving frames).

    The record is dropped if the list is full, but counted.
    """
    tracer, layout = iteration.tracer, list_layout(specialization)
    entry = tracer.atomic_increment("count")

    def store() -> None:
        offset = entry * float(layout.record_size)
        tracer.write("contacts", layout.pack(fields), 0, offset)
        tracer.write("contacts", iteration.constants("frames"), layout.offsets["frames"], offset)

    if_less(tracer, "has capacity", entry, iteration.constant("capacity"), store)


def _insert_keeping_deepest(
    iteration: IterationContext, specialization: NarrowPhaseSpecialization, distance: Value, record: list[Value]
) -> None:
    """Append a contact to its buffer; in a full buffer, replace the shallowest contact if the new contact is deeper.

    Contacts that do not fit are counted in the lost counts of the buffer and of all buffers, and the required capacity
    is updated.
    """
    tracer, layout, capacity = iteration.tracer, buffer_layout(specialization), iteration.constant("capacity")
    record_size = float(layout.record_size)
    is_full = ir.select(iteration.read("count"), capacity, 0.0, 1.0)
    if_less(tracer, "has capacity", is_full, 0.5, lambda: _append_contact(iteration, specialization, record))

    def replace_shallowest() -> None:
        shallowest = tracer.allocate_local(2)  # entry and distance
        tracer.write(shallowest, [0.0, -MAX_RADIUS])

        def visit(entry: Value) -> None:
            stored, largest = (
                tracer.read("contacts", layout.offsets["distance"], entry * record_size),
                tracer.read(shallowest, 1),
            )
            replaced = [
                ir.select(largest, stored, x, tracer.read(shallowest, i)) for i, x in enumerate((entry, stored))
            ]
            tracer.write(shallowest, replaced)

        tracer.counted_loop("shallowest", capacity, visit, uniform=True)
        buffer_lost = iteration.read("buffer lost count") + 1.0
        iteration.write("buffer lost count", [buffer_lost])
        iteration.write("lost count", [iteration.read("lost count") + 1.0])
        iteration.write("required capacity", [ir.maximum(iteration.read("required capacity"), capacity + buffer_lost)])
        offset = tracer.read(shallowest, 0) * record_size
        if_less(
            tracer, "deeper", distance, tracer.read(shallowest, 1), lambda: tracer.write("contacts", record, 0, offset)
        )

    if_less(tracer, "buffer is full", 0.5, is_full, replace_shallowest)
