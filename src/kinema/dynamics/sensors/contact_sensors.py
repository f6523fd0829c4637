"""Touch sensors and MuJoCo contact sensors (found, force, torque, dist, pos, normal, tangent).

Contact sensors report the first contacts in MuJoCo's order of geoms (`none`), of smallest distance (`mindist`) or of
largest force (`maxforce`), or the net wrench of all matching contacts (`netforce`). Stored contact points are relative
to the shifted world origin, the position of the first free body, which keeps precision far from the world origin.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import cast

from kinema import ir
from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_records import Contact, for_each_contact
from ..collision.contact_slots import ContactSlots
from ..collision.vector_math import if_less
from ..constraints.contact_jacobian import spatial_contact_jacobian
from ..constraints.friction_cone import contact_cost_derivatives
from ..pipeline import compute
from ..rigid.kinematics import IDENTITY_POSE, Pose, shifted_world_origin
from ..step import StepData
from ..tree.node_values import NodeValues, flatten, unflatten
from ..vector_math import Vector, add, cross, dot, scale, sub
from .contact_weights import pair_weights, weight_offset
from .frame_sensors import to_local_point
from .ray_intersection import HIT_THRESHOLD, PRIMITIVE_INTERSECTIONS, Ray, contains_point
from .sensor_outputs import (
    OBJECT_FRAME,
    SensorOutputs,
    SensorOutputSpecialization,
    attachment_pose,
    write_sensor_output,
)

# ------------------------------------------------------------------------------------------------ contacts of an output

CONTACT_WEIGHTS = "contact_weights"
OBJECT_POSE = "object pose"
"""Array with the world pose of the mounting of an output, in loops over pairs of a model with rules of collision."""


@dataclass(frozen=True, slots=True)
class SensedOutput:
    """The sensor output that a contact is visited for."""

    specialization: SensorOutputSpecialization
    params: Callable[[], Sequence[Value]]
    pose: Callable[[NodeValues[Pose]], Pose]
    """Pose of the mounting, given the poses of the frames about the shifted world origin."""


ContactVisitor = Callable[[IterationContext, Contact, Value, SensedOutput], None]
"""Traced callback (iteration, contact, weight, output): weight is the sign of the contact in the output."""


def visit_contacts(
    data: StepData,
    outputs: SensorOutputs,
    output_indices: Sequence[int],
    sums: Mapping[int, ArenaOffset],
    visitor: ContactVisitor,
) -> None:
    """Trace a loop over all contacts that enter the given sensor outputs, and call `visitor` for each contact.

    The constraint solver runs first, so that contact forces are known. Contacts of geom pairs with weight 0 for an
    output (`pair_weights`) are skipped.

    Args:
        data: the state.
        outputs: all sensor outputs of the model.
        output_indices: the outputs for which contacts are visited.
        sums: output index -> accumulator in scratch memory, which the traced code accesses as the array `sum`.
        visitor: traced callback for one contact of one output.
    """
    compute(data, "contact_buffers", "qfrc_constraint")
    ctx, buffers = data.ctx, data.contact_buffers
    if buffers is None:
        return
    if isinstance(buffers, ContactSlots):
        _visit_contacts_of_pools(data, buffers, outputs, output_indices, sums, visitor)
        return
    model, rows = ctx.model, []
    for i in output_indices:
        weights = pair_weights(model, i)
        for contact_buffer in buffers.buffers:
            if not weights[contact_buffer.spec.pairs].any():
                continue
            set_row = buffers.loop_iteration(contact_buffer)
            extra = {"sum": sums[i], CONTACT_WEIGHTS: ctx.array_offsets[CONTACT_WEIGHTS]}
            row = outputs.frame_iteration(
                i, {**set_row.offsets, **extra}, set_row.bindings, {"weight offset": [float(weight_offset(model, i))]}
            )
            rows.append(
                ctx.node_iteration(
                    (row.specialization, contact_buffer.specialization), row.bindings, row.offsets, row.constants
                )
            )

    def body(iteration: IterationContext) -> None:
        output, set_specialization = iteration.specialization  # type: ignore[misc]
        sensed = SensedOutput(
            output,
            lambda: iteration.constants("params"),
            lambda poses: attachment_pose(iteration, poses, OBJECT_FRAME),
        )

        def visit(contact: Contact) -> None:
            pair = ir.absolute(contact.scalar("signed_pair")) - 1.0
            weight = iteration.tracer.read(CONTACT_WEIGHTS, 0, pair + iteration.constant("weight offset"))
            if_less(
                iteration.tracer,
                "nonzero weight",
                0.5,
                ir.absolute(weight),
                lambda: visitor(iteration, contact, weight, sensed),
            )

        if_less(
            iteration.tracer,
            "has contacts",
            0.5,
            iteration.read("count"),
            lambda: for_each_contact(iteration, set_specialization, visit),
        )

    with ctx.without_unrolling():
        ctx.for_each("contacts of sensors", rows, body)


def _visit_contacts_of_pools(
    data: StepData,
    slots: ContactSlots,
    outputs: SensorOutputs,
    output_indices: Sequence[int],
    sums: Mapping[int, ArenaOffset],
    visitor: ContactVisitor,
) -> None:
    """Trace loops over all pairs in contact for each output of a model with rules of collision; as `visit_contacts`."""
    ctx, model = data.ctx, data.ctx.model
    compute(data, "shifted_world_poses")
    poses = data.shifted_world_poses
    places = {i: ctx.allocate(len(flatten(IDENTITY_POSE))) for i in output_indices}
    rows = [outputs.frame_iteration(i, {OBJECT_POSE: places[i]}) for i in output_indices]
    ctx.for_each(
        "mountings of sensors",
        rows,
        lambda iteration: iteration.write(OBJECT_POSE, flatten(attachment_pose(iteration, poses, OBJECT_FRAME))),
    )
    for i in output_indices:
        arrays = {"sum": sums[i], OBJECT_POSE: places[i], CONTACT_WEIGHTS: ctx.array_offsets[CONTACT_WEIGHTS]}
        is_pair_kind = outputs.info.kinds[i] in CONTACT_KINDS
        offset, params = float(weight_offset(model, i)), list(outputs.info.params[i])

        def body(
            iteration: IterationContext,
            specialization: ContactSpecialization,
            i: int = i,
            is_pair_kind: bool = is_pair_kind,
            offset: float = offset,
            params: Sequence[Value] = params,
        ) -> None:
            def pose(_: NodeValues[Pose]) -> Pose:
                return unflatten(IDENTITY_POSE, iteration.read_array(OBJECT_POSE, len(flatten(IDENTITY_POSE))))

            sensed = SensedOutput(outputs.specialization_of(i), lambda: params, pose)
            weights = [iteration.tracer.read(CONTACT_WEIGHTS, 0, iteration.read(f"geom {x}") + offset) for x in "ab"]
            weight = (_orientation if is_pair_kind else _side)(*weights)

            def visit(contact: Contact) -> None:
                signed = ir.select(contact.scalar("signed_pair"), 0.0, -weight, weight)
                visitor(iteration, contact, signed, sensed)

            if_less(
                iteration.tracer,
                "nonzero weight",
                0.5,
                ir.absolute(weight),
                lambda: slots.for_each_contact(iteration, specialization, visit),
            )

        slots.for_each_active_buffer("contacts of sensors", body, slots.loops(extra=arrays))


def _side(a: Value, b: Value) -> Value:
    """+1 if only the second geom of a pair is measured, -1 if only the first one is, else 0."""
    return b - a


def _orientation(a: Value, b: Value) -> Value:
    """+1 if the geoms of a pair match the first and second object of a contact sensor, -1 if swapped, else 0."""
    second_a, second_b = (ir.select(1.5, x, 1.0, 0.0) for x in (a, b))
    first_a, first_b = a - 2.0 * second_a, b - 2.0 * second_b
    return ir.select(0.5, first_a * second_b, 1.0, -first_b * second_a)


def allocate_zero_sums(data: StepData, output_indices: Sequence[int], width: int) -> dict[int, ArenaOffset]:
    """Allocate an accumulator of `width` values in scratch memory per sensor output, and trace code that zeroes it."""
    ctx = data.ctx
    sums = {i: ctx.allocate(width) for i in output_indices}
    ctx.for_each(
        "clear sensor sums",
        [LoopIteration("sum", {"sum": offset}) for offset in sums.values()],
        lambda iteration: iteration.write("sum", [0.0] * width),
    )
    return sums


def contact_wrench(contact: Contact) -> list[Value]:
    """Wrench of a contact on the second body of its contact buffer: torque, then force (6 values), in world axes.

    The torque is about the shifted world origin (position of the first free body). Computed as -J^T times the gradient
    of the contact cost at the solver's residual.
    """
    gradient = contact_cost_derivatives(contact.residual, *contact.stiffness_and_mu, elliptic=contact.elliptic).gradient
    return [-dot(gradient, column) for column in zip(*spatial_contact_jacobian(contact), strict=True)]


# -------------------------------------------------------------------------------------------------------- touch sensors


def measure_touch(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace touch sensors: sum of the normal forces [N] of a link's contacts whose normal ray meets the sensor volume.

    As in MuJoCo: a ray from the contact point along the outward normal is tested against the primitive shape of the
    sensor.
    """
    compute(data, "shifted_world_poses")
    ctx, poses = data.ctx, data.shifted_world_poses
    sums = allocate_zero_sums(data, output_indices, 1)

    def visit(iteration: IterationContext, contact: Contact, weight: Value, sensed: SensedOutput) -> None:
        normal: Vector = contact.read("axes", 0, 3)
        force = dot(contact_wrench(contact)[3:], normal)
        pose = sensed.pose(poses)
        ray = Ray.in_frame(pose, contact.read("point"), scale(-weight, normal))
        distance = PRIMITIVE_INTERSECTIONS[str(sensed.specialization.options[0])](ray, sensed.params())
        counted = ir.select(distance, HIT_THRESHOLD, ir.maximum(force, 0.0), 0.0)
        iteration.write("sum", [iteration.read("sum") + counted])

    visit_contacts(data, outputs, output_indices, sums, visit)
    rows = [outputs.value_iteration(i, {"sum": sums[i]}) for i in output_indices]
    ctx.for_each("touch sensors", rows, lambda iteration: write_sensor_output(iteration, [iteration.read("sum")]))


# ----------------------------------------------------------------------------------------------- MuJoCo contact sensors

CONTACT_KINDS = ("contact",)
RECORD_FIELDS = {"force": 3, "torque": 3, "dist": 1, "pos": 3, "normal": 3, "tangent": 3}
"""Fields of a contact record after `found` -> number of values, in output order."""
RECORD_WIDTH = sum(RECORD_FIELDS.values())
COUNT_OFFSET, ENTRIES_OFFSET = 0, 1
"""Offsets in the accumulator: number of contacts, entries."""
ENTRY_WIDTH = 1 + RECORD_WIDTH
"""Values of an entry: sort key, contact record. Entries are in ascending order of their keys."""
NET_WEIGHT_OFFSET, NET_POSITION_OFFSET, NET_FORCE_OFFSET, NET_TORQUE_OFFSET = 1, 2, 5, 8
"""Offsets for `netforce`: sums of force magnitudes, of positions weighted by them, of forces and of torques."""
NET_WIDTH = 11
MIN_NET_FORCE = 1e-15
"""Lower bound of the sum of force magnitudes by which positions are divided [N] (MuJoCo's mjMINVAL)."""
UNBOUNDED = 1e15
"""Sort key of an unused entry."""


def measure_contacts(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace contact sensors: accumulate the matching contacts by the sensor's reduction, and write requested fields.

    If the sensor has a volume (site), only contacts whose point is inside the volume count.
    """
    compute(data, "shifted_world_poses")
    ctx = data.ctx
    max_entries = max(int(outputs.info.params[i][0]) for i in output_indices)
    sums = allocate_zero_sums(data, output_indices, max(ENTRIES_OFFSET + max_entries * ENTRY_WIDTH, NET_WIDTH))
    _clear_entries(data, outputs, sums)
    poses = data.shifted_world_poses

    def visit(iteration: IterationContext, contact: Contact, weight: Value, sensed: SensedOutput) -> None:
        reduce, volume = (str(sensed.specialization.options[i]) for i in (1, 2))
        count = sensed.params
        if not volume:
            _accumulate_contact(iteration, contact, weight, reduce, count)
            return
        local_point = to_local_point(sensed.pose(poses), contact.read("point"))
        is_inside = contains_point(volume, local_point, sensed.params()[1:])
        if_less(
            iteration.tracer,
            "inside sensor volume",
            0.5,
            is_inside,
            lambda: _accumulate_contact(iteration, contact, weight, reduce, count),
        )

    visit_contacts(data, outputs, output_indices, sums, visit)
    origin = ctx.allocate_fixed(3)
    ctx.tracer.write(SCRATCH, shifted_world_origin(ctx), origin.row)
    extra = {"origin": origin}
    counts = {i: int(outputs.info.params[i][0]) for i in output_indices}
    rows = [outputs.frame_iteration(i, {**extra, "sum": sums[i]}, None, None, counts[i]) for i in output_indices]
    ctx.for_each("contact sensors", rows, _write_contact_output)


def _clear_entries(data: StepData, outputs: SensorOutputs, sums: Mapping[int, ArenaOffset]) -> None:
    """Trace code that marks all entries of the accumulators as unused."""
    rows = [
        LoopIteration("entry", {"entry": ArenaOffset(sums[i].arena, sums[i].row + ENTRIES_OFFSET + k * ENTRY_WIDTH)})
        for i in sums
        if outputs.info.options[i][1] != "netforce"
        for k in range(int(outputs.info.params[i][0]))
    ]
    data.ctx.for_each("clear contact entries", rows, lambda iteration: iteration.write("entry", [UNBOUNDED]))


def _accumulate_contact(
    iteration: IterationContext, contact: Contact, weight: Value, reduce: str, params: Callable[[], Sequence[Value]]
) -> None:
    """Traced code: add one matching contact to the accumulator of an MJCF contact sensor, by the sensor's reduction.

    A record has force and torque in the contact frame, distance, position relative to the shifted world origin, normal
    and tangent.

    Args:
        iteration: loop iteration (sensor output and contact buffer) whose array `sum` is the accumulator.
        contact: the contact.
        weight: positive if the stored normal points from the first to the second object of the sensor, else negative;
            the absolute value is the rank of the contact's geom pair in MuJoCo's order.
        params: parameters of the output; the first one is the number of entries.
        reduce: `netforce` (sum up), or the sort key of the entries: `none` (rank), `mindist` or `maxforce`.
    """
    point, normal_sign = contact.read("point"), ir.select(0.0, weight, 1.0, -1.0)
    wrench = contact_wrench(contact)
    force, torque = wrench[3:], sub(wrench[:3], cross(point, wrench[3:]))
    magnitude = ir.sqrt(dot(force, force))
    count = iteration.read("sum", COUNT_OFFSET)
    if reduce == "netforce":
        terms = [1.0, magnitude, *scale(magnitude, point), *scale(normal_sign, force), *scale(normal_sign, wrench[:3])]
        iteration.write("sum", add(iteration.read_array("sum", NET_WIDTH), terms))
        return
    normal, tangent = contact.read("axes", 0, 3), contact.read("axes", 3, 3)
    binormal = cross(normal, tangent)
    distance = contact.scalar("distance")
    record = [
        *(dot(force, normal), dot(force, tangent), normal_sign * dot(force, binormal)),
        *(dot(torque, normal), dot(torque, tangent), normal_sign * dot(torque, binormal)),
        distance,
        *point,
        *scale(normal_sign, normal),
        *scale(normal_sign, tangent),
    ]
    iteration.write("sum", [count + 1.0])
    key = {"none": ir.absolute(weight), "mindist": distance, "maxforce": -magnitude}[reduce]
    _insert_entry(iteration, [key, *record], params()[0])


def _insert_entry(iteration: IterationContext, entry: Sequence[Value], n_entries: Value) -> None:
    """Traced code: stable insertion of an entry into the sorted entries; the last entry is dropped."""
    tracer = iteration.tracer
    carried = tracer.allocate_local(1 + ENTRY_WIDTH)  # key to compare with, entry
    tracer.write(carried, [entry[0], *entry])
    tracer.new_basic_block()

    def visit(index: Value) -> None:
        offset = index * float(ENTRY_WIDTH)
        stored = [tracer.read("sum", ENTRIES_OFFSET + k, offset) for k in range(ENTRY_WIDTH)]

        def swap() -> None:
            moved = [tracer.read(carried, 1 + k) for k in range(ENTRY_WIDTH)]
            tracer.write("sum", moved, ENTRIES_OFFSET, offset)
            tracer.write(carried, [-UNBOUNDED, *stored])  # all further entries move by one

        if_less(tracer, "earlier entry", tracer.read(carried), stored[0], swap)

    tracer.counted_loop("contact entries", n_entries, visit)


def _write_contact_output(iteration: IterationContext) -> None:
    """Traced loop body: write the requested fields of the stored contacts, or the net wrench, of a contact sensor."""
    specialization = iteration.specialization
    assert isinstance(specialization, SensorOutputSpecialization)
    requested, reduce, n_entries = (
        set(str(specialization.options[0]).split()),
        str(specialization.options[1]),
        int(cast("int", specialization.options[-1])),
    )
    n_found = iteration.read("sum", COUNT_OFFSET)
    values: list[Value] = []
    for entry in range(n_entries):
        record = _net_wrench_record(iteration) if reduce == "netforce" else _stored_record(iteration, entry)
        n_records = ir.minimum(n_found, 1.0) if reduce == "netforce" else n_found
        values += _select_fields(requested, n_found, n_records, record, float(entry))
    write_sensor_output(iteration, values)


def _stored_record(iteration: IterationContext, entry: int) -> list[Value]:
    """Contact record of an entry of the accumulator, with its position relative to the world origin."""
    start = ENTRIES_OFFSET + entry * ENTRY_WIDTH + 1
    record = [iteration.read("sum", start + k) for k in range(RECORD_WIDTH)]
    return [*record[:7], *add(record[7:10], iteration.read_array("origin", 3)), *record[10:]]


def _select_fields(
    requested: set[str], found: Value, n_records: Value, record: Sequence[Value], entry: float
) -> list[Value]:
    """Requested values of one contact record, starting with the contact count if `found` is requested.

    All values are zero if the entry index is not below the number of records.
    """
    values: list[Value] = [found] if "found" in requested else []
    start = 0
    for name, width in RECORD_FIELDS.items():
        values += record[start : start + width] if name in requested else []
        start += width
    return [ir.select(entry, n_records, x, 0.0) for x in values]


def _net_wrench_record(iteration: IterationContext) -> list[Value]:
    """Contact record of the net wrench: force and torque in world axes at the force-weighted mean position.

    As in MuJoCo, the position is zero if all forces are.
    """
    sums = iteration.read_array("sum", NET_WIDTH)
    weight = sums[NET_WEIGHT_OFFSET]
    divisor = ir.maximum(weight, MIN_NET_FORCE)
    position = scale(1.0 / divisor, sums[NET_POSITION_OFFSET:NET_FORCE_OFFSET])
    force = sums[NET_FORCE_OFFSET:NET_TORQUE_OFFSET]
    torque = sub(sums[NET_TORQUE_OFFSET:], cross(position, force))
    origin = scale(weight / divisor, iteration.read_array("origin", 3))
    return [*force, *torque, 0.0, *add(position, origin), 1.0, 0.0, 0.0, 0.0, 1.0, 0.0]
