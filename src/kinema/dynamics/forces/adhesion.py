"""Adhesion actuators: a force shared evenly over all contacts of a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBuffer, ContactBuffers
from ..collision.contact_records import Contact, for_each_contact
from ..collision.vector_math import if_less
from ..rigid.kinematics import Pose
from ..rigid.rnea import Wrench
from ..tree.kinematic_tree import frame_ref
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..tree.transmissions import Transmissions
from ..vector_math import Vector, cross, rotate_inverse, scale, sub


@dataclass(frozen=True, slots=True)
class AdhesionSpecialization:
    """Specialization key of a loop iteration: a contact buffer for one adhesion actuator."""

    contact_buffer: ContactSpecialization
    all_contacts: bool
    """Whether all contacts of the buffer involve the link."""


def add_adhesion_wrenches(
    ctx: TraceContext,
    actuators: Transmissions,
    contact_buffers: ContactBuffers | None,
    poses: NodeValues[Pose],
    wrenches: NodeValues[Wrench] | None,
) -> None:
    """Trace loops that add the wrenches of adhesion actuators to `wrenches` on frames.

    The force of an actuator is divided evenly among the contacts of its link and pulls the two bodies of each contact
    together along the normal. `poses` are relative to the origin of the contact positions.
    """
    adhesion_actuators = [a for a in actuators.moments if ctx.model.actuators.link_idx[a] >= 0]
    if contact_buffers is None or wrenches is None or not adhesion_actuators:
        return
    counts = {a: ctx.allocate(1) for a in adhesion_actuators}
    rows = [
        row
        for a in adhesion_actuators
        for contact_buffer in contact_buffers.buffers
        for row in _adhesion_iterations(ctx, contact_buffers, contact_buffer, a, counts[a], actuators)
    ]
    with ctx.without_unrolling():
        ctx.for_each(
            "clear adhesion counts", [LoopIteration("count", {"count": x}) for x in counts.values()], _clear_count
        )
        ctx.for_each("count adhesion contacts", rows, _count_contacts)
        ctx.for_each("adhesion wrenches", rows, lambda iteration: _apply_adhesion(iteration, poses, wrenches))


def _adhesion_iterations(
    ctx: TraceContext,
    contact_buffers: ContactBuffers,
    contact_buffer: ContactBuffer,
    actuator: int,
    count: ArenaOffset,
    actuators: Transmissions,
) -> list[NodeIteration]:
    """Loop iterations of an adhesion actuator over a contact buffer; none if no geom pair involves its link.

    `contact_buffer` is the buffer of all contacts between two bodies (moving frames). The iteration has the contact
    count and the actuator force, and nested iterations with the indices of the link's geom pairs.
    """
    geoms, pairs, link = ctx.model.geoms, ctx.model.pairs, ctx.model.actuators.link_idx[actuator]
    link_pairs = [
        p
        for p in contact_buffer.spec.pairs
        if link in (geoms.link_idx[pairs.geom_a[p]], geoms.link_idx[pairs.geom_b[p]])
    ]
    if not link_pairs:
        return []
    extra = {"n contacts": count, "force": actuators.pair_offsets[actuator]}
    row = contact_buffers.loop_iteration(contact_buffer, extra)
    specialization = AdhesionSpecialization(
        contact_buffer.specialization, len(link_pairs) == len(contact_buffer.spec.pairs)
    )
    return [
        replace(
            row,
            specialization=specialization,
            nested_iterations={"pairs": [LoopIteration("pair", {}, {"pair": [float(p + 1)]}) for p in link_pairs]},
        )
    ]


def _clear_count(iteration: IterationContext) -> None:
    iteration.write("count", [0.0])


def _count_contacts(iteration: IterationContext) -> None:
    def count(contact: Contact) -> None:
        iteration.write("n contacts", [iteration.read("n contacts") + _is_link_contact(iteration, contact)])

    for_each_contact(iteration, _adhesion_specialization(iteration).contact_buffer, count)


def _is_link_contact(iteration: IterationContext, contact: Contact) -> Value:
    """1 if a contact belongs to one of the adhesion actuator's geom pairs (or if all contacts do), else 0."""
    if _adhesion_specialization(iteration).all_contacts:
        return 1.0
    pair = ir.absolute(contact.scalar("signed_pair"))
    local = iteration.tracer.allocate_local(2)
    iteration.tracer.write(local, [0.0, pair])

    def compare(inner: IterationContext) -> None:
        found, contact_pair = (inner.tracer.read(local, i) for i in range(2))
        same = ir.select(ir.absolute(contact_pair - inner.constant("pair")), 0.5, 1.0, 0.0)
        inner.tracer.write(local, [found + same])

    iteration.nested_loop("pairs", compare)
    return iteration.tracer.read(local)


def _apply_adhesion(iteration: IterationContext, poses: NodeValues[Pose], wrenches: NodeValues[Wrench]) -> None:
    """Loop body: add the adhesion force of each contact of the link to the wrenches of both bodies."""
    specialization = _adhesion_specialization(iteration).contact_buffer

    def apply(contact: Contact) -> None:
        magnitude = iteration.read("force") * _is_link_contact(iteration, contact) / iteration.read("n contacts")
        force = scale(-magnitude, contact.read("axes", 0, 3))
        point = contact.read("point")
        ends: Sequence[tuple[str, float]] = (
            (("b ", 1.0),) if specialization.involves_world else (("b ", 1.0), ("a ", -1.0))
        )
        for prefix, sign in ends:
            wrenches.add(frame_ref(prefix), _wrench_of_point_force(poses[frame_ref(prefix)], point, scale(sign, force)))

    def apply_all() -> None:
        for_each_contact(iteration, specialization, apply)

    if_less(iteration.tracer, "has adhesion contacts", 0.5, iteration.read("n contacts"), apply_all)


def _wrench_of_point_force(pose: Pose, point: Vector, force: Vector) -> Wrench:
    """Wrench about a frame origin, in frame axes, of a force at a point, both given in world axes."""
    local_force = rotate_inverse(pose.rotation, force)
    return Wrench(cross(rotate_inverse(pose.rotation, sub(point, pose.position)), local_force), local_force)


def _adhesion_specialization(iteration: IterationContext) -> AdhesionSpecialization:
    assert isinstance(iteration.specialization, AdhesionSpecialization)
    return iteration.specialization
