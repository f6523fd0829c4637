"""Tracing context of free bodies: a node with six degrees of freedom per body, and tables that are built by columns.

Stands in for the frames of free joints (three slides and a ball) where the kinematics within a body does not matter: in
the constraint solver. The node of a body has the index of its last frame, which its geoms are attached to.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import partial

import numpy as np
import numpy.typing as npt

from kinema.ir import ArenaOffset, IterationTable, OffsetColumn, Tracer, Value
from kinema.model import Model, PrimitiveJointType

from ..arrays import ElementKind
from ..settings import Settings
from .kinematic_tree import WORLD, FrameNode, KinematicTree, NodeRefs, NodeType, frame_ref
from .node_constants import FrameSpecialization
from .node_tables import NodeColumns
from .node_values import NodeValues
from .per_tree import PerTreeArray
from .sparse_matrix import JointSpaceMatrix, LDLFactors
from .trace_context import TraceContext

BODY_DOFS, BODY_QS = 6, 7
"""Degrees of freedom and coordinates of a free body."""
LOWER_TRIANGLE = [(i, j) for i in range(BODY_DOFS) for j in range(i + 1)]
"""Entries of a packed symmetric matrix of a body."""


def body_context(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    tracer: Tracer,
    frames: Sequence[int],
    first_dofs: Sequence[int],
    outputs: Mapping[str, tuple[ElementKind, int]] | None = None,
    articulated: TraceContext | None = None,
) -> TraceContext:
    """Tracing context whose nodes are free bodies, given the last frame and the first dof of each, and frames.

    Args:
        model: the model.
        settings: settings of the program.
        array_offsets: offset of each array in its arena.
        tracer: traces the program.
        frames: last frame of each free body.
        first_dofs: first degree of freedom of each free body.
        outputs: arrays that the program writes in addition to the arrays of a step.
        articulated: context of the articulated trees, whose frames follow the free bodies; None without any.
    """
    of_trees = [] if articulated is None else [node.index for node in articulated.nodes]
    nodes = {
        frame: FrameNode(
            ref=frame_ref(frame),
            parent_ref=frame_ref(WORLD),
            joint_type=PrimitiveJointType.BALL,
            position=(0.0,) * 3,
            rotation=((0.0,) * 3,) * 3,
            axis=(0.0,) * 3,
            pitch=0.0,
            reference=0.0,
            inverted=False,
            qs=range(BODY_QS * i, BODY_QS * (i + 1)),
            dofs=range(first, first + BODY_DOFS),
        )
        for i, (frame, first) in enumerate(zip(frames, first_dofs, strict=True))
    }
    if articulated is not None:
        nodes |= {node.index: node for node in articulated.nodes}
    any_node = next(iter(nodes.values()))
    tree = KinematicTree([nodes.get(i, any_node) for i in range(model.n_frames)], model)
    ctx = TraceContext(model, settings, array_offsets, tracer, tree, [*frames, *of_trees], outputs=outputs)
    if articulated is not None:
        articulated.share_memory(ctx)
        ctx.articulated = articulated
    first_dof_of_frame = np.full(model.n_frames, -1, np.int64)
    first_dof_of_frame[[*frames]] = first_dofs
    ctx.make_frame_table = partial(_body_table, ctx, first_dof_of_frame)
    return ctx


def _body_table(
    ctx: TraceContext, first_dof_of_frame: npt.NDArray[np.int64], nodes: Sequence[FrameNode]
) -> IterationTable:
    """Iterations over bodies, built by columns, and over the frames of articulated trees among the nodes."""
    of_trees = set() if ctx.articulated is None else {node.index for node in ctx.articulated.nodes}
    is_body = np.array([node.index not in of_trees for node in nodes])
    positions, groups = np.flatnonzero(~is_body), list[NodeColumns]()
    if len(positions):
        table = ctx.articulated.frame_iterations([nodes[i] for i in positions.tolist()])
        for group in table.groups:
            group.iteration_indices = positions[group.iteration_indices]
            groups.append(group)
    if not is_body.any():
        return IterationTable(groups)
    nodes = [node for node, x in zip(nodes, is_body.tolist(), strict=True) if x]
    frames = np.array([node.index for node in nodes])
    columns = {
        name: OffsetColumn(offset.arena, offset.row + width * first_dof_of_frame[frames])
        for name, offset, width in ctx.arrays_of_kind(ElementKind.DOF)
    }
    n = len(frames)
    constants = {name: np.zeros((n, width)) for name, width in UNUSED_CONSTANTS.items()}
    bindings = {
        "": NodeRefs(NodeType.FRAMES, frames),
        "parent ": NodeRefs(NodeType.FRAMES, np.full(n, WORLD)),
    }
    specialization = FrameSpecialization.from_node(nodes[0])
    bodies = ctx.node_columns(specialization, np.flatnonzero(is_body), bindings, columns, constants=constants)
    return IterationTable([bodies, *groups])


UNUSED_CONSTANTS = {"position": 3, "rotation": 9, "pitch": 1, "reference": 1}
"""Constants of frames without meaning for the node of a body, and their widths."""


def node_values_in(
    ctx: TraceContext, name: str, array: PerTreeArray, template: object, trees: Sequence[int]
) -> NodeValues:
    """Node values of free bodies in an array of their trees; `template` is a record of the structure of an element."""
    values: NodeValues = ctx.new_values(name)
    refs = NodeRefs(NodeType.FRAMES, np.array([node.index for node in ctx.body_nodes], np.int64))
    values.assign_columns(refs, array.column_of(np.array(trees)), template)
    return values


class BodyMassMatrix:
    """Mass matrix of free bodies, a packed symmetric block per body, and of articulated trees."""

    def __init__(
        self,
        ctx: TraceContext,
        entries: PerTreeArray,
        blocks: NodeValues[list[Value]],
        articulated: JointSpaceMatrix | None = None,
    ) -> None:
        self.ctx, self.entries, self.blocks, self.articulated = ctx, entries, blocks, articulated

    def multiply(self, name: str, vector: NodeValues[list[Value]]) -> NodeValues[list[Value]]:
        """Trace the product with a joint vector."""
        result: NodeValues[list[Value]] = self.ctx.new_values(name)

        def body(node: FrameNode) -> None:
            result.put(node.ref, multiply_packed(self.blocks[node.ref], vector[node.ref]))

        self.ctx.for_each_body(name, body)
        if self.articulated is not None:
            product = self.articulated.multiply(name, vector)
            self.ctx.articulated.for_each_frame(name, lambda node: result.put(node.ref, product[node.ref]))
        return result


@dataclass(frozen=True, slots=True, eq=False)
class BodyFactors:
    """Factors of the mass matrix of free bodies, as far as the constraint solver needs them, and of other trees."""

    inverse_pivots: PerTreeArray
    """Inverse pivots of each body."""
    articulated: LDLFactors | None = None
    """Factors of the articulated trees; None without any."""


def multiply_packed(packed: Sequence[Value], vector: Sequence[Value]) -> list[Value]:
    """Product of a packed symmetric 6 x 6 matrix with a vector."""
    entry = dict(zip(LOWER_TRIANGLE, packed, strict=True))
    result = []
    for i in range(BODY_DOFS):
        total: Value = 0.0
        for j in range(BODY_DOFS):
            total = total + entry[max(i, j), min(i, j)] * vector[j]
        result.append(total)
    return result
