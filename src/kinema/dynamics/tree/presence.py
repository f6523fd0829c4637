"""Presence of kinematic trees per environment: trees that are removed neither move, nor collide, nor exert forces.

The array `present` has a value per tree: 1, or 0 for a tree that is absent. The code of a step has no loops or tables
per environment, so it computes absent trees too, with zeros: without joint forces and velocities their accelerations
are zero, their constraint rows have no stiffness, and they have no contacts. Sums over all trees then have exact zeros
for them, so that the motion of the others is that of a model without them, bit for bit.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kinema import ir
from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    LoopIteration,
    OffsetColumn,
    Value,
)
from kinema.model import PrimitiveJointType

from ..arrays import PRESENT_ARRAY as PRESENT
from ..topology import WORLD, tree_index_of_frames
from ..vector_math import Vector, add, scale
from .kinematic_tree import FrameNode

if TYPE_CHECKING:
    from .loop_context import LoopContext


def presence_of_frames(ctx: LoopContext, frames: Iterable[int]) -> dict[str, ArenaOffset]:
    """Values of presence of the trees of two frames as arrays `present a` and `present b` of a loop iteration.

    Empty if all trees are always present. The world counts as the other frame.
    """
    if not ctx.settings.presence:
        return {}
    trees = tree_index_of_frames(ctx.model)
    offsets = [ctx.presence_offset(trees[frame]) for frame in frames if frame != WORLD and trees[frame] >= 0]
    return {f"{PRESENT} a": offsets[0], f"{PRESENT} b": offsets[-1]}


def both_present(iteration: IterationContext) -> Value:
    """1 if the trees of both frames of `presence_of_frames` are present, else 0; within a loop body."""
    return ir.minimum(iteration.read(f"{PRESENT} a"), iteration.read(f"{PRESENT} b"))


def zero_if_absent(ctx: LoopContext, values: Sequence[Value]) -> list[Value]:
    """Values of a frame, or of a link in a moving frame, in a loop body, or zeros if its tree is absent."""
    if not ctx.settings.presence:
        return list(values)
    present = ctx.iteration.read(PRESENT)
    return [ir.select(0.5, present, x, 0.0) for x in values]


def keep_if_absent(
    ctx: LoopContext, old: tuple[list[Value], list[Value]], q: Sequence[Value], v: Sequence[Value]
) -> tuple[list[Value], list[Value]]:
    """Next coordinates and velocities of a frame in a loop body, or the old ones if its tree is absent."""
    if not ctx.settings.presence:
        return list(q), list(v)
    present = ctx.iteration.read(PRESENT)
    pairs = ((q, old[0]), (v, old[1]))
    next_q, next_v = (
        [ir.select(0.5, present, new, before) for new, before in zip(x, kept, strict=True)] for x, kept in pairs
    )
    return next_q, next_v


def list_present(ctx: LoopContext, trees: Sequence[int]) -> ArenaOffset:
    """Trace the list of those of some trees that are present, by their position among them: its length, then entries.

    For programs that run one environment at a time.
    """
    numbers = np.array(trees)
    listed, present = ctx.allocate(len(trees) + 2), ctx.array_offsets[PRESENT]
    ctx.tracer.write(SCRATCH, [0.0], listed.row)
    ctx.tracer.new_basic_block()
    columns = {
        PRESENT: OffsetColumn(present.arena, present.row + numbers),
        "list": OffsetColumn.repeated(listed, len(trees)),
    }
    positions = np.arange(len(trees))
    group = ColumnarGroup("tree", positions, columns, {"position": positions[:, None].astype(np.float64)})

    def append(iteration: IterationContext) -> None:
        count = iteration.read("list")
        iteration.tracer.write("list", [iteration.constant("position")], 1, count)  # overwritten if absent
        iteration.write("list", [count + iteration.read(PRESENT)])

    with ctx.without_unrolling():
        ctx.for_each("list present trees", IterationTable([group]), append)
    return listed


# ------------------------------------------------------------------------------------------------------ shifted origin


def free_body_chains(nodes: Sequence[FrameNode]) -> list[tuple[FrameNode, FrameNode, FrameNode]]:
    """The three sliding frames of each free base, in the order of the frames."""
    chains = []
    for x, y, z in zip(nodes, nodes[1:], nodes[2:], strict=False):
        is_chain = (x.parent, y.parent, z.parent) == (WORLD, x.index, y.index)
        if is_chain and all(node.joint_type == PrimitiveJointType.SLIDE for node in (x, y, z)):
            chains.append((x, y, z))
    return chains


def origin_of_chain(chain: Sequence[FrameNode], coordinates: Sequence[Value]) -> Vector:
    """Position of a free base given its three sliding coordinates."""
    slides = zip(chain, coordinates, strict=True)
    return add(*(scale(q - node.reference, node.axis) for node, q in slides))


def origin_of_first_present(
    ctx: LoopContext, chains: Sequence[Sequence[FrameNode]], *, initial: bool = False
) -> ArenaOffset:
    """Trace a loop that finds the position of the first free base that is present; zero if there is none.

    If islands are solved separately, or with `initial`, its initial position. Returns the place of the position in
    scratch memory.
    """
    model, trees = ctx.model, tree_index_of_frames(ctx.model)
    target = ctx.allocate(3)
    ctx.tracer.write(SCRATCH, [0.0] * 3, target.row)
    ctx.tracer.new_basic_block()
    rows = []
    for chain in reversed(chains):  # the first one is written last
        qs = [node.qs.start for node in chain]
        constants = {
            "axes": [x for node in chain for x in node.axis],
            "references": [node.reference for node in chain],
            "initial": [float(model.qpos0[q]) for q in qs],
        }
        offsets = {
            f"q {i}": ArenaOffset(ctx.array_offsets["qpos"].arena, ctx.array_offsets["qpos"].row + q)
            for i, q in enumerate(qs)
        }
        offsets |= {"origin": target, PRESENT: ctx.presence_offset(trees[chain[0].index])}
        rows.append(LoopIteration("chain", offsets, constants))

    def body(iteration: IterationContext) -> None:
        axes, references = iteration.constants("axes"), iteration.constants("references")
        coordinates = [iteration.read(f"q {i}") for i in range(3)]
        if initial or ctx.idle_flags is not None:
            coordinates = iteration.constants("initial")
        place = add(*(scale(coordinates[i] - references[i], axes[3 * i : 3 * i + 3]) for i in range(3)))
        present, kept = iteration.read(PRESENT), iteration.read_array("origin", 3)
        iteration.write("origin", [ir.select(0.5, present, new, old) for new, old in zip(place, kept, strict=True)])

    with ctx.without_unrolling():
        ctx.for_each("origin of contacts", rows, body)
    return target
