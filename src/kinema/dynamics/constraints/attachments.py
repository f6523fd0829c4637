"""Attachments of links at run time (switchable equality constraints): wrenches, breaking under load, suction cups.

An attachment is an equality constraint between links whose activity and frames are state (`ATTACHMENT_ARRAYS`). A
suction cup (vacuum gripper) casts a ray along its axis at the collision shapes of its target links, and activates the
attachment to the nearest hit link at the current relative pose.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema import ir
from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value

from ..arrays import ElementKind
from ..rigid.kinematics import Pose
from ..sensors.ray_casting import compute_geom_poses, intersect_geom, ray_geom_iteration
from ..sensors.ray_intersection import NO_HIT
from ..tree.kinematic_tree import frame_ref
from ..tree.node_tables import NodeIteration
from ..tree.node_values import NodeValues
from ..tree.trace_context import TraceContext
from ..vector_math import Vector, add, dot, matmul, rotate, rotate_inverse, scale, sub, transpose
from .rows import ConstraintRows

# --------------------------------------------------------------------------------------------------------------- forces


def update_attachments(ctx: TraceContext, rows: ConstraintRows, world_poses: NodeValues[Pose]) -> None:
    """Trace a loop that stores the constraint wrench of each attachment and deactivates overloaded attachments.

    An attachment is overloaded if its force exceeds its breaking force.

    The wrench acts on link a (the anchor), about the anchor, in world axes. Of a suction cup, the compressive part of
    the force along the axis is not counted; the vacuum of an overloaded cup is switched off.
    """
    cups, table = ctx.model.suction_cups, []
    idle_flags = ctx.idle_flags_of_dofs()
    for block, arrays in zip(rows.blocks, rows.block_arrays, strict=True):
        if block.attachment_idx < 0:
            continue
        cup = int(ctx.model.attachments.cup_idx[block.attachment_idx])
        offsets = {"force": arrays["force"], "row wrenches": arrays["on a"]}
        offsets |= ctx.element_arrays(ElementKind.ATTACHMENT, block.attachment_idx) | idle_flags[block.dofs[0]]
        bindings, constants = {}, {}
        if cup >= 0:
            offsets |= ctx.element_arrays(ElementKind.SUCTION_CUP, cup)
            bindings, constants = {"cup ": frame_ref(int(cups.frame_idx[cup]))}, {"axis": cups.axis[cup].tolist()}
        table.append(ctx.node_iteration((block.n_rows, cup >= 0), bindings, offsets, constants))

    def body(iteration: IterationContext) -> None:
        n_rows, is_suction = iteration.specialization  # type: ignore[misc]
        forces = iteration.read_array("force", n_rows)
        wrench = [dot(forces, [iteration.read("row wrenches", 6 * r + i) for r in range(n_rows)]) for i in range(6)]
        force = wrench[3:]
        iteration.write("attachment_wrench", [*force, *wrench[:3]])
        if is_suction:
            axis = rotate(world_poses[frame_ref("cup ")].rotation, iteration.constants("axis"))
            force = sub(force, scale(ir.maximum(dot(force, axis), 0.0), axis))
        load, strength = ir.sqrt(dot(force, force)), iteration.read("attachment_break_force")
        for name in ("attachment_on", *(["suction_on"] if is_suction else [])):
            iteration.write(name, [ir.select(strength, load, 0.0, iteration.read(name))])

    ctx.for_each("forces of attachments", table, body)


# --------------------------------------------------------------------------------------------------------- suction cups


def update_suction_cups(ctx: TraceContext, world_poses: NodeValues[Pose]) -> None:
    """Trace the state changes of suction cups: detach links from cups that are off, attach the nearest link to others.

    A cup that is on and has no attached link attaches a link if the ray along its axis hits a collision shape of the
    link within the range of the cup, in front of its contact point or behind it (a shape that is pressed into the cup).
    """
    info, geoms, equalities = ctx.model.attachments, ctx.model.sensors.ray_geoms, ctx.model.equalities
    target_frames, frames = equalities.frame_a[info.equality_idx], [node.index for node in ctx.nodes]
    attachments = np.flatnonzero((info.cup_idx >= 0) & np.isin(target_frames, frames)).tolist()
    memory = {int(info.cup_idx[k]): {"cup": ctx.allocate(3)} for k in attachments}
    attachment_rows = [_attachment_iteration(ctx, k, memory[int(info.cup_idx[k])]) for k in attachments]
    target_links = equalities.link_a[info.equality_idx[attachments]]
    with ctx.without_unrolling():
        geom_indices = np.flatnonzero(geoms.collision & np.isin(geoms.link_idx, target_links)).tolist()
        pose_offsets = compute_geom_poses(ctx, world_poses, geom_indices)
        cup_rows = [_suction_cup_iteration(ctx, cup, attachments, memory[cup], pose_offsets) for cup in memory]
        ctx.for_each("rays of suction cups", cup_rows, lambda iteration: _cast_suction_ray(iteration, world_poses))
        ctx.for_each("detach from suction cups", attachment_rows, _detach_if_off)
        ctx.for_each(
            "attach to suction cups", attachment_rows, lambda iteration: _attach_hit_link(iteration, world_poses)
        )


DISTANCE, NEAREST, IS_ATTACHED = range(3)
"""Elements of the array `cup`: distance of the nearest hit along the ray, attachment of the hit link, and whether a
link is attached."""


def _attachment_iteration(ctx: TraceContext, attachment: int, memory: dict[str, ArenaOffset]) -> NodeIteration:
    """Loop iteration of an attachment of a suction cup: arrays of both, moving frames of cup and target link."""
    equalities, cups, cup = (
        ctx.model.equalities,
        ctx.model.suction_cups,
        int(ctx.model.attachments.cup_idx[attachment]),
    )
    equality = int(ctx.model.attachments.equality_idx[attachment])
    offsets = {**memory, **ctx.element_arrays(ElementKind.ATTACHMENT, attachment)}
    offsets |= ctx.element_arrays(ElementKind.SUCTION_CUP, cup)
    constants = {
        "attachment": [float(attachment)],
        "pos": cups.pos[cup].tolist(),
        "reach": [float(cups.reach[cup])],
        "link rotation": equalities.rot_a[equality].ravel().tolist(),
    }
    bindings = {
        "cup ": frame_ref(int(cups.frame_idx[cup])),
        "link ": frame_ref(int(equalities.frame_a[equality])),
    }
    return ctx.node_iteration("attachment", bindings, offsets, constants)


def _suction_cup_iteration(
    ctx: TraceContext,
    cup: int,
    attachments: Sequence[int],
    memory: dict[str, ArenaOffset],
    pose_offsets: Mapping[int, ArenaOffset],
) -> NodeIteration:
    """Loop iteration of a suction cup, with the collision geoms of its target links as nested iterations."""
    cups, geoms, info = ctx.model.suction_cups, ctx.model.sensors.ray_geoms, ctx.model.attachments
    target_links = ctx.model.equalities.link_a[info.equality_idx]
    geom_rows = []
    for attachment in (k for k in attachments if info.cup_idx[k] == cup):
        for geom in (g for g in pose_offsets if geoms.link_idx[g] == target_links[attachment]):
            row = ray_geom_iteration(ctx, geom, pose_offsets[geom])
            constants: dict[str, Any] = {**row.constants, "attachment": [float(attachment)]}
            geom_rows.append(LoopIteration(row.specialization, {**row.offsets, **memory}, constants))
    constants = {
        "pos": cups.pos[cup].tolist(),
        "axis": cups.axis[cup].tolist(),
        "reach": [float(cups.reach[cup])],
    }
    node_iteration = ctx.node_iteration(
        bool(geom_rows), {"cup ": frame_ref(int(cups.frame_idx[cup]))}, memory, constants
    )
    return NodeIteration(
        node_iteration.specialization,
        node_iteration.offsets,
        node_iteration.constants,
        {"geoms": geom_rows},
        node_iteration.bindings,
    )


def _cast_suction_ray(iteration: IterationContext, world_poses: NodeValues[Pose]) -> None:
    """Trace the ray cast of a suction cup against its target geoms; stores distance and attachment of the nearest hit.

    The ray starts `reach` behind the contact point. Also clears the flag that a link is attached.
    """
    tracer, pose, reach = iteration.tracer, world_poses[frame_ref("cup ")], iteration.constant("reach")
    axis = rotate(pose.rotation, iteration.constants("axis"))
    point = add(pose.position, rotate(pose.rotation, iteration.constants("pos")))
    ray, best, previous = tracer.allocate_local(6), tracer.allocate_local(1), tracer.allocate_local(1)
    tracer.write(ray, [*sub(point, scale(reach, axis)), *axis])
    tracer.write(best, [NO_HIT])
    iteration.write("cup", [NO_HIT, -1.0, 0.0])
    tracer.new_basic_block()

    def intersect(inner: IterationContext) -> None:
        inner.tracer.write(previous, [inner.tracer.read(best)])
        intersect_geom(inner, ray, best)
        inner.tracer.new_basic_block()
        is_nearer = ir.select(inner.tracer.read(best), inner.tracer.read(previous), 1.0, 0.0)
        nearest = ir.select(0.5, is_nearer, inner.constant("attachment"), inner.read("cup", NEAREST))
        inner.write("cup", [inner.tracer.read(best), nearest])

    if iteration.specialization:
        iteration.nested_loop("geoms", intersect)


def _detach_if_off(iteration: IterationContext) -> None:
    """Trace the release of an attachment whose cup is off, and the flag whether a link is attached to the cup."""
    active = ir.select(0.5, iteration.read("suction_on"), iteration.read("attachment_on"), 0.0)
    iteration.write("attachment_on", [active])
    iteration.write("cup", [ir.maximum(active, iteration.read("cup", IS_ATTACHED))], IS_ATTACHED)


def _attach_hit_link(iteration: IterationContext, world_poses: NodeValues[Pose]) -> None:
    """Trace the activation of an attachment if its link was hit within range by a cup that is on and has no link.

    The link is attached at its current relative pose, anchored at the contact point.
    """
    distance, nearest, is_attached = iteration.read_array("cup", 3)
    is_hit = ir.select(ir.absolute(nearest - iteration.constant("attachment")), 0.5, 1.0, 0.0)
    is_near = ir.select(distance, 2.0 * iteration.constant("reach"), is_hit, 0.0)
    attaches: Value = ir.select(0.5, is_attached, 0.0, ir.select(0.5, iteration.read("suction_on"), is_near, 0.0))
    cup, link = world_poses[frame_ref("cup ")], world_poses[frame_ref("link ")]
    pos, flat = iteration.constants("pos"), iteration.constants("link rotation")
    contact_point = add(cup.position, rotate(cup.rotation, pos))
    point: Vector = rotate_inverse(link.rotation, sub(contact_point, link.position))
    link_rotation = matmul(link.rotation, [flat[3 * i : 3 * i + 3] for i in range(3)])
    rotation = matmul(transpose(cup.rotation), link_rotation)
    new = {"attachment_point": point, "attachment_pose": [*pos, *(x for row in rotation for x in row)]}
    for name, values in new.items():
        old = iteration.read_array(name, len(values))
        iteration.write(name, [ir.select(0.5, attaches, x, y) for x, y in zip(values, old, strict=True)])
    iteration.write("attachment_on", [ir.maximum(attaches, iteration.read("attachment_on"))])
