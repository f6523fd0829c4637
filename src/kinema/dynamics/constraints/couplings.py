"""Coupling constraints: the length of one joint or tendon follows a polynomial of another one.

Covers mimic joints and MuJoCo's joint and tendon equalities. With follower length x and leader length y, both relative
to their reference, the constraint is x - p(y) = 0 with a polynomial p of degree 4. A length is a sum of moment arm
times joint position, or the length of a transmission path.
"""

from __future__ import annotations

from kinema.ir import ArenaOffset, IterationContext, LoopIteration, Value
from kinema.model import Model

from ..arrays import ElementKind
from ..tree.kinematic_tree import FrameNode
from ..tree.trace_context import TraceContext
from .rows import ConstraintBlock, ConstraintRows, KinematicState, RowType


def coupling_blocks(model: Model, nodes: list[FrameNode]) -> list[ConstraintBlock]:
    """Return one single-row equality constraint per joint coupling (x = polynomial of y) with all dofs in `nodes`."""
    info, frame_dofs = model.couplings, {d for node in nodes for d in node.dofs}
    blocks = []
    for i in range(len(info.names)):
        dofs = [int(d) for d in (info.moment_a[i] != 0.0).nonzero()[0]]
        dofs = sorted({*dofs, *(int(d) for d in (info.moment_b[i] != 0.0).nonzero()[0])})
        if dofs and frame_dofs.issuperset(dofs):
            solref_and_solimp, is_rigid = (info.solref[i].tolist(), info.solimp[i].tolist()), bool(info.is_rigid[i])
            options = {
                "element": (ElementKind.COUPLING, i),
                "parameter_group": "coupling",
                "equality_idx": int(info.equality_idx[i]),
            }
            invweights, source = [float(model.derived.coupling_invweight[i])], {"coupling": i}
            blocks.append(
                ConstraintBlock(
                    RowType.EQUALITY,
                    dofs,
                    1,
                    invweights,
                    *solref_and_solimp,
                    is_rigid=is_rigid,
                    source=source,
                    **options,
                )
            )
    return blocks


def fill_couplings(kinematic_state: KinematicState, rows: ConstraintRows) -> None:
    """Trace stores of position error x - p(y) and Jacobian dx/dq - p'(y) dy/dq of the coupling rows.

    x is the length of the follower, y that of the leader and p the coupling polynomial. Computes both lengths from
    joint positions or transmission path lengths, evaluates the polynomial and its derivative, and combines the moment
    arms of both sides.
    """
    ctx = kinematic_state.ctx
    blocks_and_couplings = [(i, int(b.source["coupling"])) for i, b in enumerate(rows.blocks) if "coupling" in b.source]  # type: ignore[call-overload]
    info = ctx.model.couplings
    lengths = {i: ctx.allocate(3) for i, _ in blocks_and_couplings}
    """Per constraint: follower length, leader length and derivative of the polynomial."""
    ctx.for_each(
        "initial lengths of couplings",
        [_initial_lengths_iteration(kinematic_state, coupling, lengths[i]) for i, coupling in blocks_and_couplings],
        _write_initial_lengths,
    )
    moment_arm_rows = [
        _moment_arm_iteration(kinematic_state, coupling, dof, rows.jacobian_entry(i, 0, dof), lengths[i])
        for i, coupling in blocks_and_couplings
        for dof in rows.blocks[i].dofs
    ]
    ctx.for_each("lengths of couplings", [row for row in moment_arm_rows if "qpos" in row.offsets], _add_joint_position)
    table = [
        LoopIteration(
            "coupling",
            {**rows.block_arrays[i], "lengths": lengths[i]},
            {"polynomial": info.polynomial[coupling].tolist()},
        )
        for i, coupling in blocks_and_couplings
    ]
    ctx.for_each("couplings", table, _write_position)
    ctx.for_each("jacobian of couplings", moment_arm_rows, _write_jacobian_entry)


def _initial_lengths_iteration(kinematic_state: KinematicState, coupling: int, lengths: ArenaOffset) -> LoopIteration:
    """Loop iteration that initialises follower and leader length of a coupling: path length minus reference.

    Sides without a path start at minus the reference; joint positions are added later.
    """
    info, path_lengths = kinematic_state.ctx.model.couplings, kinematic_state.path_lengths.lengths
    paths = {"a": int(info.path_a[coupling]), "b": int(info.path_b[coupling])}
    offsets = {side: path_lengths[path] for side, path in paths.items() if path >= 0}
    derived = kinematic_state.ctx.model.derived
    references = [float(derived.coupling_reference_a[coupling]), float(derived.coupling_reference_b[coupling])]
    return LoopIteration("".join(offsets), {"lengths": lengths, **offsets}, {"reference": references})


def _write_initial_lengths(iteration: IterationContext) -> None:
    """Write follower and leader length before joint positions are added, and a zero polynomial derivative."""
    sides = zip("ab", iteration.constants("reference"), strict=True)
    iteration.write(
        "lengths",
        [
            (iteration.read(side) if side in str(iteration.specialization) else 0.0) - reference
            for side, reference in sides
        ]
        + [0.0],
    )


def _moment_arm_iteration(
    kinematic_state: KinematicState, coupling: int, dof: int, entry: ArenaOffset, lengths: ArenaOffset
) -> LoopIteration:
    """Return the loop iteration of one joint coupling and one dof, with the moment arm of the dof on both sides.

    Moment arms are constants, or transmission path moments (derivatives of a transmission path length). The row is used
    to add moment arm times joint position to the lengths, where a side is a sum over joints, and to write the Jacobian
    entry.
    """
    ctx, info, moments = kinematic_state.ctx, kinematic_state.ctx.model.couplings, kinematic_state.path_lengths.moments
    offsets, moment_arms = {"entry": entry, "lengths": lengths}, []
    for side, path, moment in (("a", info.path_a, info.moment_a), ("b", info.path_b, info.moment_b)):
        moment_arms.append(float(moment[coupling, dof]))
        if path[coupling] >= 0 and moment_arms[-1]:
            offsets[side] = moments[int(path[coupling])][dof]
    summed = [x for x, path in zip("ab", (info.path_a, info.path_b), strict=True) if path[coupling] < 0]
    if ctx.model.dofs.q_idx[dof] >= 0 and any(moment_arms["ab".index(x)] for x in summed):
        offsets["qpos"] = ctx.dof_arrays(dof)["qpos"]
    return LoopIteration(
        ("".join(x for x in "ab" if x in offsets), "".join(summed)), offsets, {"moment arms": moment_arms}
    )


def _add_joint_position(iteration: IterationContext) -> None:
    """Add moment arm times joint position to the follower and leader lengths that are sums over joints."""
    _, summed = iteration.specialization  # type: ignore[misc]
    sides = zip("ab", iteration.read_array("lengths", 2), iteration.constants("moment arms"), strict=True)
    iteration.write(
        "lengths", [x + moment_arm * iteration.read("qpos") if side in summed else x for side, x, moment_arm in sides]
    )


def _write_jacobian_entry(iteration: IterationContext) -> None:
    """Write the Jacobian entry dx/dq - p'(y) dy/dq of one dof."""
    path_sides, _ = iteration.specialization  # type: ignore[misc]
    sides = zip("ab", iteration.constants("moment arms"), strict=True)
    a, b = (moment_arm * iteration.read(side) if side in path_sides else moment_arm for side, moment_arm in sides)
    iteration.write("entry", [a - iteration.read("lengths", 2) * b])


def _write_position(iteration: IterationContext) -> None:
    """Write the position error x - p(y) and the polynomial derivative p'(y), evaluated by Horner's scheme.

    x is the length of the follower and y the length of the leader, read from `lengths`.
    """
    follower, leader = iteration.read_array("lengths", 2)
    coefficients = iteration.constants("polynomial")
    value: Value = 0.0
    derivative: Value = 0.0
    for power in reversed(range(5)):
        value, derivative = value * leader + coefficients[power], derivative * leader + value
    iteration.write("position", [follower - value])
    iteration.write("lengths", [derivative], 2)


def write_coupling_errors(ctx: TraceContext, rows: ConstraintRows) -> None:
    """Copy the position error of each coupling into the output array `error`."""
    start = ctx.array_offsets[ctx.output_prefix + "error"]
    table = []
    for block, offsets in zip(rows.blocks, rows.block_arrays, strict=True):
        coupling = int(block.source["coupling"])  # type: ignore[call-overload]
        table.append(LoopIteration("coupling", {**offsets, "out": ArenaOffset(start.arena, start.row + coupling)}))
    ctx.for_each("errors of couplings", table, lambda iteration: iteration.write("out", [iteration.read("position")]))
