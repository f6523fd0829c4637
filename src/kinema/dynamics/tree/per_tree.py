"""Values per kinematic tree, loops over trees, and joint vectors padded to equal length per tree."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kinema.ir import (
    SCRATCH,
    ArenaOffset,
    IterationContext,
    IterationTable,
    LoopIteration,
    LoopIterations,
    OffsetColumn,
    Value,
)

from .kinematic_tree import WORLD, FrameNode, Ints
from .loop_context import IDLE_FLAG, LoopContext, tree_index_of_frames
from .node_tables import NodeColumns
from .node_values import NodeValues
from .trace_context import TraceContext


class PerTreeArray:
    """`width` scalars for each kinematic tree of a model, in scratch memory."""

    def __init__(self, ctx: LoopContext, width: int = 1) -> None:
        self.width = width
        self.start = ctx.allocate(width * (max(ctx.trees, default=-1) + 1))

    def offset_of(self, tree: int, element: int = 0) -> ArenaOffset:
        """Scratch offset of value `element` of a tree."""
        return ArenaOffset(SCRATCH, self.start.row + self.width * tree + element)

    def column_of(self, trees: Ints) -> OffsetColumn:
        """Scratch offsets of the values of many trees as a table column."""
        return OffsetColumn(SCRATCH, self.start.row + self.width * trees)


class PerFrameArray:
    """`width` scalars for each row, in scratch memory; `row_of_frame` is the row of each frame, -1 for none."""

    def __init__(self, ctx: LoopContext, width: int, row_of_frame: Ints, n_rows: int) -> None:
        self.width, self.row_of_frame = width, row_of_frame
        self.start = ctx.allocate(width * n_rows)

    def column_of(self, frames: Ints) -> OffsetColumn:
        """Scratch offsets of the values of many frames as a table column."""
        return OffsetColumn(SCRATCH, self.start.row + self.width * self.row_of_frame[frames])

    def offset_of(self, frame: int) -> ArenaOffset:
        """Scratch offset of the values of a frame."""
        return ArenaOffset(SCRATCH, self.start.row + self.width * int(self.row_of_frame[frame]))


class StatePerTree:
    """Values of each tree in an array of the state."""

    def __init__(self, start: ArenaOffset) -> None:
        self.start = start

    def column_of(self, trees: Ints) -> OffsetColumn:
        """Offsets of the values of many trees as a table column."""
        return OffsetColumn(self.start.arena, self.start.row + trees)


OffsetsPerTree = Mapping[str, ArenaOffset | PerTreeArray]
"""Arena offsets of the arrays bound by loop iterations: one offset for all iterations, or one per tree."""


def offsets_of_tree(tree: int, offsets: OffsetsPerTree) -> dict[str, ArenaOffset]:
    """Arena offsets of the arrays that the loop iterations of one tree bind."""
    return {
        name: offset.offset_of(tree) if isinstance(offset, PerTreeArray) else offset for name, offset in offsets.items()
    }


def frame_rows(
    ctx: LoopContext, nodes: Sequence[FrameNode], offsets: Mapping[str, ArenaOffset | PerTreeArray | PerFrameArray]
) -> LoopIterations:
    """Iterations over frames (`LoopContext.frame_iterations`) that bind additional arrays."""
    rows, trees = ctx.frame_iterations(nodes), np.array(tree_index_of_frames(ctx.model))
    if not isinstance(rows, IterationTable):
        for row, node in zip(rows, nodes, strict=True):
            of_frame = {n: x.offset_of(node.index) for n, x in offsets.items() if isinstance(x, PerFrameArray)}
            others = {n: x for n, x in offsets.items() if not isinstance(x, PerFrameArray)}
            row.offsets.update({**offsets_of_tree(int(trees[node.index]), others), **of_frame})
        return rows
    for group in rows.groups:
        assert isinstance(group, NodeColumns)
        for name, offset in offsets.items():
            frames = group.bindings[""].index
            if isinstance(offset, PerTreeArray | PerFrameArray):
                group.set_column(name, offset.column_of(trees[frames] if isinstance(offset, PerTreeArray) else frames))
            else:
                group.set_offset(name, offset)
    return rows


def for_each_tree(
    ctx: LoopContext,
    name: str,
    offsets: Callable[[int], Mapping[str, ArenaOffset]],
    body: Callable[[IterationContext], None],
) -> None:
    """Trace a loop over the trees of the context; loop iterations hold the tree index as constant `tree`.

    `offsets` maps a tree index to the arena offsets of the arrays that its iteration binds. The loop is never unrolled.
    """
    rows = [LoopIteration("tree", dict(offsets(tree)), {"tree": [float(tree)]}) for tree in ctx.trees]
    with ctx.without_unrolling():
        ctx.for_each(name, rows, body)


def for_each_active_tree(
    ctx: LoopContext, name: str, offsets: OffsetsPerTree, body: Callable[[IterationContext], None]
) -> None:
    """Trace a loop over the trees that are not idle (asleep or already solved); requires idle flags."""
    idle = ctx.idle_flags
    assert idle is not None
    for_each_tree(ctx, name, lambda tree: {**offsets_of_tree(tree, offsets), IDLE_FLAG: idle.of_tree(tree)}, body)


def sum_frames_per_tree(
    ctx: LoopContext, name: str, totals: PerTreeArray, body: Callable[[FrameNode], Sequence[Value]]
) -> None:
    """Trace loops that sum `body(frame)` over the frames of each tree that is not idle into `totals`."""
    for_each_active_tree(
        ctx, f"{name}, clear", {"total": totals}, lambda iteration: iteration.write("total", [0.0] * totals.width)
    )
    rows = frame_rows(ctx, ctx.nodes, {"total": totals})

    def add(iteration: IterationContext) -> None:
        values = body(ctx.frame_of_iteration(iteration))
        iteration.write(
            "total", [a + b for a, b in zip(iteration.read_array("total", totals.width), values, strict=True)]
        )

    ctx.for_each(name, rows, add)


# ------------------------------------------------------------------------------------------------- padded joint vectors


class PaddedTreeLayout:
    """Layout of joint vectors in which every tree has the same number of elements; unused elements stay zero.

    Used on a GPU for scenes of many small trees. The stride is the largest number of dofs of a tree.
    """

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.tree_of: dict[int, int] = {}
        """For each frame the index of its tree among the trees of the context."""
        dofs: list[list[int]] = []
        for node in ctx.nodes:
            if node.parent == WORLD:
                dofs.append([])
            self.tree_of[node.index] = len(dofs) - 1 if node.parent == WORLD else self.tree_of[node.parent]
            dofs[self.tree_of[node.index]] += node.dofs
        self.n_trees = len(dofs)
        self.stride = max_dofs_per_tree(dofs)
        self.size = self.n_trees * self.stride
        """Length of a padded vector."""
        self.position_of_dof = {
            dof: t * self.stride + i for t, tree_dofs in enumerate(dofs) for i, dof in enumerate(tree_dofs)
        }
        """Index of each degree of freedom in a padded vector."""
        self.padding = sorted(set(range(self.size)) - set(self.position_of_dof.values()))
        """Elements without a degree of freedom."""

    @property
    def is_unpadded(self) -> bool:
        """Whether padded vectors have the same layout as ordinary joint vectors."""
        return list(self.position_of_dof.values()) == list(range(self.size)) and [*self.position_of_dof] == self._dofs

    @property
    def _dofs(self) -> list[int]:
        return [dof for node in self.ctx.nodes for dof in node.dofs]

    def joint_vector(self, name: str) -> NodeValues[list[Value]]:
        """Allocate a joint vector in padded layout: every tree has the same number of entries."""
        values: NodeValues[list[Value]] = self.ctx.new_values(name)
        start = self.ctx.allocate(self.size).row

        def offset_of(node: FrameNode) -> ArenaOffset:
            return ArenaOffset(SCRATCH, start + self.position_of_dof[node.dofs[0]])

        values.assign_offsets(
            {node.ref: offset_of(node) for node in self.ctx.nodes},
            {node.ref: [0.0] * len(node.dofs) for node in self.ctx.nodes},
        )
        return values


def max_dofs_per_tree(dofs_of_trees: list[list[int]]) -> int:
    """Largest number of degrees of freedom of a tree."""
    return max((len(own) for own in dofs_of_trees), default=0)
