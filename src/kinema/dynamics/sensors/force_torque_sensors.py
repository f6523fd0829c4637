"""Force and torque sensors: the wrench transmitted to a link's subtree by its parent.

The wrench is the sum of the Newton-Euler wrenches of the subtree minus the external wrenches on the subtree: contacts,
equality constraints and spatial tendons that connect the subtree to other links, and user-applied wrenches.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import partial

import numpy as np

from kinema.ir import SCRATCH, ArenaOffset, IterationContext, LoopIteration, Value

from ..collision.contact_records import Contact
from ..constraints.equalities import equality_blocks, fill_equalities
from ..constraints.rows import BlockSpecialization, ConstraintBlock, ConstraintRows, row_forces_and_stiffness
from ..constraints.tendon_constraints import (
    fill_tendon_friction,
    fill_tendon_limits,
    tendon_friction_blocks,
    tendon_limit_blocks,
)
from ..forces.transmission_paths import END_PREFIXES, N_LOADED_ENDS, SEGMENT_KINDS
from ..pipeline import compute
from ..queries.body_quantities import NEWTON_EULER_QUANTITIES, newton_euler_wrench
from ..rigid.kinematics import shifted_world_origin
from ..rigid.link_dynamics import shift_wrench
from ..step import KINEMATIC_STATE_QUANTITIES, StepData
from ..topology import dynamic_frames
from ..tree.kinematic_tree import link_ref, root_link
from ..vector_math import add, cross, rotate_inverse, scale, sub
from .contact_sensors import SensedOutput, allocate_zero_sums, contact_wrench, visit_contacts
from .contact_weights import subtree_mask
from .sensor_outputs import (
    OBJECT_FRAME,
    REFERENCE_FRAME,
    SensorOutputs,
    SensorOutputSpecialization,
    attachment_pose,
    write_sensor_output,
)

# ------------------------------------------------------------------------------------------------- equality constraints


def add_equality_wrenches(
    data: StepData,
    outputs: SensorOutputs,
    output_indices: Sequence[int],
    sums: Mapping[int, ArenaOffset],
    origin: ArenaOffset,
) -> None:
    """Trace loops that add the wrenches of equality constraints on the subtree of each sensor output to `sums`.

    For each constraint (connect, weld, loop joint) between the subtree of the output's link and another link, adds the
    torque about the point `origin` and the force, in world axes (6 values), at the constrained acceleration.
    """
    ctx, crossing = data.ctx, _equalities_across_subtree(data, outputs, output_indices)
    if not crossing:
        return
    equality_indices = {equality for _, equality, _ in crossing}
    blocks = [b for b in equality_blocks(ctx.model, ctx.nodes) if b.source["equality"] in equality_indices]
    compute(data, "constrained_acceleration", *KINEMATIC_STATE_QUANTITIES)
    acceleration = data.constrained_acceleration
    rows = ConstraintRows(ctx, blocks)
    fill_equalities(data.kinematic_state, rows)
    rows.compute_stiffness_and_aref()
    rows.multiply_jacobian(acceleration, "residual")
    rows.for_each_block("equality forces of sensors", compute_row_forces)
    block_of_equality = {b.source["equality"]: i for i, b in enumerate(blocks)}
    table = []
    for i, equality, side in crossing:
        if equality in block_of_equality:
            arrays = rows.block_arrays[block_of_equality[equality]]
            offsets = {"sum": sums[i], "origin": origin, "wrench": arrays[f"on {side}"]}
            offsets |= {name: arrays[name] for name in ("about", "force")}
            table.append(ctx.node_iteration(blocks[block_of_equality[equality]].n_rows, {}, offsets, {}))
    ctx.for_each("equality wrenches of sensors", table, _accumulate_row_wrenches)


def _equalities_across_subtree(
    data: StepData, outputs: SensorOutputs, output_indices: Sequence[int]
) -> list[tuple[int, int, str]]:
    """Triples (output, equality constraint, side `a` or `b` in the subtree) for constraints that leave the subtree.

    A constraint counts if exactly one of its two links is in the subtree of the output's link.
    """
    ctx, info, equalities = data.ctx, outputs.info, data.ctx.model.equalities
    if not ctx.settings.constraints:
        return []
    result = []
    for i in (i for i in output_indices if info.target_idx[i] >= 0):
        in_subtree = subtree_mask(ctx.model, int(info.target_idx[i]))
        for equality, (a, b) in enumerate(zip(equalities.link_a.tolist(), equalities.link_b.tolist(), strict=True)):
            has_a, has_b = a >= 0 and bool(in_subtree[a]), b >= 0 and bool(in_subtree[b])
            if has_a != has_b:
                result.append((i, equality, "a" if has_a else "b"))
    return result


def compute_row_forces(iteration: IterationContext) -> None:
    """Traced loop body: write `force` of a constraint's rows from `residual` = J a and the reference acceleration."""
    specialization = iteration.specialization
    assert isinstance(specialization, BlockSpecialization)
    pairs = zip(
        iteration.read_array("residual", specialization.n_rows),
        iteration.read_array("aref", specialization.n_rows),
        strict=True,
    )
    iteration.write("force", [force for force, _ in row_forces_and_stiffness(iteration, [a - b for a, b in pairs])])


def _accumulate_row_wrenches(iteration: IterationContext) -> None:
    """Traced loop body: add the wrench of an equality constraint about the origin to the accumulator `sum`.

    The wrench is the sum over its constraint rows of row force times unit wrench, shifted from the reference point.
    """
    n_rows = int(iteration.specialization)  # type: ignore[call-overload]
    total = iteration.read_array("sum", 6)
    arm = sub(iteration.read_array("about", 3), iteration.read_array("origin", 3))
    for r, force in enumerate(iteration.read_array("force", n_rows)):
        wrench = [iteration.read("wrench", 6 * r + k) for k in range(6)]
        shifted = [*add(wrench[:3], cross(arm, wrench[3:])), *wrench[3:]]
        total = add(total, scale(force, shifted))
    iteration.write("sum", total)


# ------------------------------------------------------------------------------------------------------ spatial tendons

PULLING_SEGMENT_KINDS = ("straight", "sphere", "cylinder")
"""Prefixes of the transmission path segment kinds that exert tendon forces on their ends."""


def add_tendon_wrenches(
    data: StepData,
    outputs: SensorOutputs,
    output_indices: Sequence[int],
    sums: Mapping[int, ArenaOffset],
    origin: ArenaOffset,
) -> None:
    """Trace loops that add the wrenches of spatial tendons on the subtree of each sensor output to `sums`.

    Torque about the point `origin`, then force: for each end of a transmission path segment on the subtree, the wrench
    at unit tension times the force along the path.
    """
    ctx, info, ends = data.ctx, data.ctx.model.path_segments, _segment_ends_on_subtree(data, outputs, output_indices)
    if not ends:
        return
    compute(data, "path_lengths")
    lengths = data.path_lengths
    forces = _path_forces(data, sorted({int(info.path_idx[segment]) for _, segment, _ in ends}))
    table = []
    for i, segment, end in ends:
        end_wrenches = lengths.end_wrenches[segment]
        offsets = {"sum": sums[i], "origin": origin, "about": end_wrenches["about"], "unit wrench": end_wrenches[end]}
        table.append(LoopIteration("end", {**offsets, "force": forces[int(info.path_idx[segment])]}))
    ctx.for_each("tendon wrenches of sensors", table, _accumulate_end_wrench)


def _segment_ends_on_subtree(
    data: StepData, outputs: SensorOutputs, output_indices: Sequence[int]
) -> list[tuple[int, int, str]]:
    """Triples (sensor output, tendon path segment, end) of the loaded ends on the subtree of the output's link.

    Only segments that pull on their ends are considered.
    """
    model, info = data.ctx.model, data.ctx.model.path_segments
    result = []
    for i in (i for i in output_indices if outputs.info.target_idx[i] >= 0):
        frames = subtree_frames(data, int(outputs.info.target_idx[i]))
        for segment, kind in enumerate(info.kinds):
            if kind.startswith(PULLING_SEGMENT_KINDS):
                for k in range(min(N_LOADED_ENDS, SEGMENT_KINDS[kind][0])):
                    if int(info.frame_idx[segment, k]) in frames:
                        result.append((i, segment, END_PREFIXES[k]))  # noqa: PERF401  a comprehension of four loops is hard to read
    return result if len(model.path_segments.kinds) else []


def subtree_frames(data: StepData, link: int) -> set[int]:
    """Moving frames of the subtree of a link; empty if the link is rigidly attached to its parent (shared frame)."""
    links = data.ctx.model.links
    parent = int(links.parent_idx[link])
    if parent >= 0 and links.frame_idx[link] == links.frame_idx[parent]:
        return set()
    frames = dynamic_frames(data.ctx.model, links.frame_idx)
    return {int(f) for f in frames[np.flatnonzero(subtree_mask(data.ctx.model, link))]} - {-1}


def _path_forces(data: StepData, paths: Sequence[int]) -> dict[int, ArenaOffset]:
    """Trace the force along each tendon path [N]: springs, dampers, actuators, limits and friction of its tendons.

    Returns path index -> offset in scratch memory.
    """
    ctx, model = data.ctx, data.ctx.model
    sums = {path: ctx.allocate(1) for path in paths}
    ctx.for_each(
        "clear path forces",
        [LoopIteration("sum", {"sum": x}) for x in sums.values()],
        lambda iteration: iteration.write("sum", [0.0]),
    )
    table = []
    compute(data, "tendons", "actuators")
    for pairs, info in ((data.tendons.pair_offsets, model.tendons), (data.actuators.pair_offsets, model.actuators)):
        for i, pair in pairs.items():
            if int(info.path_idx[i]) in sums:
                moment_arm = float(next(x for x in info.moment[i] if x))
                table.append(
                    LoopIteration(
                        "unsigned", {"sum": sums[int(info.path_idx[i])], "force": pair}, {"moment arm": [moment_arm]}
                    )
                )
    table += _constraint_force_iterations(data, sums)
    ctx.for_each("path forces of sensors", table, _accumulate_path_force)
    return sums


def _constraint_force_iterations(data: StepData, sums: Mapping[int, ArenaOffset]) -> list[LoopIteration]:
    """Loop iterations that add the limit and friction forces of tendons to the forces `sums` of their paths.

    Traces the constraint forces of tendon limits and tendon friction at the constrained acceleration; the sign of a
    limit force depends on its side.
    """
    ctx, tendons, table = data.ctx, data.ctx.model.tendons, []

    def on_paths(blocks: list[ConstraintBlock], source_key: str) -> list[ConstraintBlock]:
        return [b for b in blocks if int(tendons.path_idx[int(b.source[source_key])]) in sums]  # type: ignore[call-overload]

    for source_key, is_enabled, make_blocks, fill_rows in (
        ("tendon limit", ctx.settings.limits, tendon_limit_blocks, fill_tendon_limits),
        ("tendon friction", ctx.settings.constraints, tendon_friction_blocks, fill_tendon_friction),
    ):
        blocks = on_paths(make_blocks(ctx.model, ctx.nodes), source_key) if is_enabled else []
        if not blocks:
            continue
        compute(data, "constrained_acceleration", *KINEMATIC_STATE_QUANTITIES)
        acceleration = data.constrained_acceleration
        rows = ConstraintRows(ctx, blocks)
        fill_rows(data.kinematic_state, rows)
        rows.compute_stiffness_and_aref()
        rows.multiply_jacobian(acceleration, "residual")
        rows.for_each_block(f"{source_key} forces of sensors", compute_row_forces)
        for block, arrays in zip(blocks, rows.block_arrays, strict=True):
            path = int(tendons.path_idx[int(block.source[source_key])])  # type: ignore[call-overload]
            offsets = {"sum": sums[path], "force": arrays["force"]}
            offsets |= {"sign": arrays["sign"]} if "sign" in arrays else {}
            table.append(LoopIteration("signed" if "sign" in arrays else "unsigned", offsets, {"moment arm": [1.0]}))
    return table


def _accumulate_path_force(iteration: IterationContext) -> None:
    """Traced loop body: add moment arm times force, with the sign of a limit, to the force along a path."""
    force = iteration.constant("moment arm") * iteration.read("force")
    iteration.write(
        "sum",
        [iteration.read("sum") + (force * iteration.read("sign") if iteration.specialization == "signed" else force)],
    )


def _accumulate_end_wrench(iteration: IterationContext) -> None:
    """Traced loop body: add force times the unit-tension wrench of a segment end, shifted to the origin, to `sum`."""
    unit_wrench, arm = (
        iteration.read_array("unit wrench", 6),
        sub(iteration.read_array("about", 3), iteration.read_array("origin", 3)),
    )
    shifted = [*add(unit_wrench[:3], cross(arm, unit_wrench[3:])), *unit_wrench[3:]]
    iteration.write("sum", add(iteration.read_array("sum", 6), scale(iteration.read("force"), shifted)))


# --------------------------------------------------------------------------------------------- force and torque sensors

SENSOR_LINK, ROOT_LINK = link_ref("link "), link_ref("root ")


def measure_force_torque(data: StepData, outputs: SensorOutputs, output_indices: list[int]) -> None:
    """Trace force and torque sensors: force [N] or torque [N m] between a link and its parent at the sensor's mounting.

    The Newton-Euler wrench of the subtree minus its contact, equality, tendon and user-applied wrenches, shifted to the
    mounting point and expressed in the mounting axes, or in the reference frame if there is one; multiplied by the sign
    in the output's parameters. Outputs of the world are not written.
    """
    compute(data, *NEWTON_EULER_QUANTITIES)
    ctx, info, poses, tree_coms = data.ctx, outputs.info, data.world_poses, data.tree_coms
    subtree_wrenches = ctx.sum_over_subtrees("subtree wrenches", partial(newton_euler_wrench, data))
    sums = allocate_zero_sums(data, output_indices, 6)

    def add_contact(iteration: IterationContext, contact: Contact, weight: Value, _: SensedOutput) -> None:
        iteration.write("sum", add(iteration.read_array("sum", 6), scale(weight, contact_wrench(contact))))

    visit_contacts(data, outputs, output_indices, sums, add_contact)
    origin = ctx.allocate_fixed(3)
    ctx.tracer.write(SCRATCH, shifted_world_origin(ctx), origin.row)
    add_equality_wrenches(data, outputs, output_indices, sums, origin)
    add_tendon_wrenches(data, outputs, output_indices, sums, origin)
    rows = []
    for i in (i for i in output_indices if info.target_idx[i] >= 0):
        link = int(info.target_idx[i])
        bindings = {"link ": link_ref(link), "root ": link_ref(root_link(ctx.model, link))}
        rows.append(outputs.frame_iteration(i, {"sum": sums[i], "origin": origin}, bindings))

    def body(iteration: IterationContext) -> None:
        specialization = iteration.specialization
        assert isinstance(specialization, SensorOutputSpecialization)
        mounting, total = attachment_pose(iteration, poses, OBJECT_FRAME), subtree_wrenches[SENSOR_LINK]
        transmitted = shift_wrench(sub(tree_coms[ROOT_LINK], mounting.position), total.torque, total.force)
        external_sum = iteration.read_array("sum", 6)
        external = shift_wrench(
            sub(iteration.read_array("origin", 3), mounting.position), external_sum[:3], external_sum[3:]
        )
        vector = (
            sub(transmitted.force, external.force)
            if specialization.name == "force"
            else sub(transmitted.torque, external.torque)
        )
        axes = (
            attachment_pose(iteration, poses, REFERENCE_FRAME).rotation
            if specialization.has_reference
            else mounting.rotation
        )
        sign = iteration.constants("params")
        local = rotate_inverse(axes, vector)
        write_sensor_output(iteration, scale(sign[0], local) if sign else local)

    ctx.for_each("force and torque sensors", rows, body)
