"""Constraint rows of tendons: length limits and dry friction, whose Jacobian is the tendon's moment-arm vector.

A tendon's length is the length of a transmission path or, for a fixed tendon, the sum of moment arm times joint
position.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import Model

from ..tree.kinematic_tree import FrameNode
from .joint_constraints import count_within_margin, limit_distance_and_sign
from .rows import ConstraintBlock, ConstraintRows, KinematicState, RowType


def tendon_limit_blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return the limit constraints of one row each: one per limited tendon, or two where both limits may be active.

    A tendon whose range is wider than twice the margin has one row for the nearer limit.
    """
    info, blocks = model.tendons, []
    for i, dofs in _tendons_acting_on(model, nodes):
        lower, upper, margin = (float(x[i]) for x in (info.lower, info.upper, info.limit_margin))
        if not (np.isfinite(lower) or np.isfinite(upper)):
            continue
        solref_and_solimp = info.limit_solref[i].tolist(), info.limit_solimp[i].tolist()
        for side in ("lower", "upper") if upper - lower <= 2.0 * margin else ("nearer",):
            source, equality_idx = {"tendon limit": i, "side": side}, int(info.equality_idx[i])
            options = {
                "spring_damper": info.limit_spring[i].tolist(),
                "equality_idx": equality_idx,
                "limits_correction_speed": bool(info.limits_correction_speed[i]),
            }
            blocks.append(
                ConstraintBlock(
                    RowType.LIMIT,
                    dofs,
                    1,
                    [float(model.derived.tendon_invweight[i])],
                    *solref_and_solimp,
                    margin,
                    **options,
                    source=source,
                )
            )
    return blocks


def tendon_friction_blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return a list of friction constraints of one row each, one per tendon with dry friction (frictionloss != 0)."""
    info = model.tendons
    return [
        ConstraintBlock(
            RowType.FRICTION,
            dofs,
            1,
            [float(model.derived.tendon_invweight[i])],
            info.friction_solref[i].tolist(),
            info.friction_solimp[i].tolist(),
            friction_bound=float(info.frictionloss[i]),
            equality_idx=int(info.equality_idx[i]),
            source={"tendon friction": i},
        )
        for i, dofs in _tendons_acting_on(model, nodes)
        if info.frictionloss[i] != 0.0
    ]


def _tendons_acting_on(model: Model, nodes: list[FrameNode]) -> list[tuple[int, list[int]]]:
    """Return index and dofs (nonzero moment arms) of each tendon whose dofs all belong to the given frames."""
    frame_dofs = {d for node in nodes for d in node.dofs}
    tendons_and_dofs = [(i, [int(d) for d in moment.nonzero()[0]]) for i, moment in enumerate(model.tendons.moment)]
    return [(i, dofs) for i, dofs in tendons_and_dofs if dofs and frame_dofs.issuperset(dofs)]


def fill_tendon_limits(kinematic_state: KinematicState, rows: ConstraintRows) -> None:
    """Trace stores of the signed distance to the limit, its sign and the Jacobian row of each tendon limit.

    The sign is +1 at a lower and -1 at an upper limit and multiplies the tendon's moment arms in the Jacobian.
    """
    blocks_and_tendons = _blocks_from_source(rows, "tendon limit")
    lengths = _tendon_lengths(kinematic_state, [rows.blocks[i] for i, _ in blocks_and_tendons])
    signs = {i: kinematic_state.ctx.allocate(1) for i, _ in blocks_and_tendons}
    table = []
    for i, tendon in blocks_and_tendons:
        row = _limit_distance_iteration(kinematic_state, rows.blocks[i], lengths[tendon])
        rows.block_arrays[i]["sign"] = signs[i]
        row.offsets.update({"position": rows.block_arrays[i]["position"], "sign": signs[i]})
        table.append(row)

    def body(iteration: IterationContext) -> None:
        distance, sign = _limit_distance_and_sign(iteration)
        iteration.write("position", [distance])
        iteration.write("sign", [sign])

    kinematic_state.ctx.for_each("tendon limits", table, body)
    _fill_tendon_jacobian(kinematic_state, rows, blocks_and_tendons, signs)


def fill_tendon_friction(kinematic_state: KinematicState, rows: ConstraintRows) -> None:
    """Write the rows of dry tendon friction: position error 0, and the moment arms as Jacobian."""
    blocks_and_tendons = _blocks_from_source(rows, "tendon friction")
    table = [LoopIteration("tendon", {"position": rows.block_arrays[i]["position"]}) for i, _ in blocks_and_tendons]
    kinematic_state.ctx.for_each("dry tendon friction", table, lambda iteration: iteration.write("position", [0.0]))
    _fill_tendon_jacobian(kinematic_state, rows, blocks_and_tendons, {})


def count_tendon_limits_within_margin(kinematic_state: KinematicState, blocks: list[ConstraintBlock]) -> Value:
    """Trace the number of tendon limits whose distance is below their margin (active limits), summed at run time."""
    lengths = _tendon_lengths(kinematic_state, blocks)
    table = [
        _limit_distance_iteration(kinematic_state, block, lengths[int(block.source["tendon limit"])])  # type: ignore[call-overload]
        for block in blocks
    ]
    return count_within_margin(
        kinematic_state.ctx,
        "tendon limits within their margin",
        table,
        lambda iteration: (_limit_distance_and_sign(iteration)[0], iteration.constant("margin")),
    )


def _blocks_from_source(rows: ConstraintRows, key: str) -> list[tuple[int, int]]:
    """Return constraint index and tendon index of all constraints whose source has the given key."""
    return [(i, int(b.source[key])) for i, b in enumerate(rows.blocks) if key in b.source]  # type: ignore[call-overload]


def _tendon_lengths(kinematic_state: KinematicState, blocks: Sequence[ConstraintBlock]) -> dict[int, ArenaOffset]:
    """Return the scratch offset of the length of each tendon of the given limit constraints.

    Lengths of spatial tendons are those of their paths; lengths of fixed tendons are computed here from joint
    positions.
    """
    ctx, info, path_lengths = (
        kinematic_state.ctx,
        kinematic_state.ctx.model.tendons,
        kinematic_state.path_lengths.lengths,
    )
    tendons = sorted({int(b.source["tendon limit"]) for b in blocks})  # type: ignore[call-overload]
    lengths = {i: path_lengths[int(info.path_idx[i])] for i in tendons if info.path_idx[i] >= 0}
    sums = {i: ctx.allocate(1) for i in tendons if i not in lengths}
    ctx.for_each(
        "clear tendon lengths",
        [LoopIteration("sum", {"to": x}) for x in sums.values()],
        lambda iteration: iteration.write("to", [0.0]),
    )
    tendons_and_dofs = [(i, int(d)) for i in sums for d in info.moment[i].nonzero()[0]]
    table = [
        LoopIteration(
            "moment arm", {"to": sums[i], "qpos": ctx.dof_arrays(d)["qpos"]}, {"moment arm": [float(info.moment[i, d])]}
        )
        for i, d in tendons_and_dofs
    ]

    def add_joint_position(iteration: IterationContext) -> None:
        iteration.write("to", [iteration.read("to") + iteration.constant("moment arm") * iteration.read("qpos")])

    ctx.for_each("lengths of limited tendons", table, add_joint_position)
    return lengths | sums


def _limit_distance_iteration(
    kinematic_state: KinematicState, block: ConstraintBlock, length: ArenaOffset
) -> LoopIteration:
    """Return the loop row that computes a tendon's distance to its limits; the side is the specialization."""
    info, i = kinematic_state.ctx.model.tendons, int(block.source["tendon limit"])  # type: ignore[call-overload]
    constants = {name: [float(getattr(info, name)[i])] for name in ("lower", "upper")}
    return LoopIteration(str(block.source["side"]), {"length": length}, {**constants, "margin": [block.margin]})


def _limit_distance_and_sign(iteration: IterationContext) -> tuple[Value, Value]:
    limits = iteration.constant("lower"), iteration.constant("upper")
    return limit_distance_and_sign(iteration.read("length"), *limits, str(iteration.specialization))


def _fill_tendon_jacobian(
    kinematic_state: KinematicState,
    rows: ConstraintRows,
    blocks_and_tendons: list[tuple[int, int]],
    signs: dict[int, ArenaOffset],
) -> None:
    """Trace stores of the Jacobian rows of tendons: products of moment arm, path moment (if any) and sign.

    Args:
        kinematic_state: transmission path moments.
        rows: constraint rows to be written.
        blocks_and_tendons: constraint index and tendon index of each row.
        signs: constraint index -> offset of the sign of the row; no entry for +1.
    """
    info, moments, table = kinematic_state.ctx.model.tendons, kinematic_state.path_lengths.moments, []
    for i, tendon in blocks_and_tendons:
        for dof in rows.blocks[i].dofs:
            offsets = {"entry": rows.jacobian_entry(i, 0, dof)}
            if i in signs:
                offsets["sign"] = signs[i]
            if info.path_idx[tendon] >= 0:
                offsets["moment"] = moments[int(info.path_idx[tendon])][dof]
            table.append(
                LoopIteration(tuple(sorted(offsets)), offsets, {"moment arm": [float(info.moment[tendon, dof])]})
            )

    def body(iteration: IterationContext) -> None:
        value = iteration.constant("moment arm")
        for name in ("moment", "sign"):
            if name in iteration.specialization:  # type: ignore[operator]
                value = value * iteration.read(name)
        iteration.write("entry", [value])

    kinematic_state.ctx.for_each("Jacobian of tendons", table, body)
