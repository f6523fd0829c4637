"""Joint-space vectors of the constraint solver (one value per dof), stored per frame or contiguously."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from kinema.ir import SCRATCH, ArenaOffset, IterationContext, Value

from ..constraints.warp_contacts import LoadedVector
from ..tree.kinematic_tree import FrameNode, NodeType
from ..tree.node_values import NodeValues
from ..tree.per_tree import PerTreeArray, frame_rows
from ..tree.trace_context import TraceContext
from ..vector_math import dot

JointVector = NodeValues[list[Value]]


class TreeVectors:
    """Joint-space vectors stored per frame, processed by loops over the frames."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx

    def new(self, name: str) -> JointVector:
        """Allocate a vector on its first write."""
        return self.ctx.new_values(name)

    def set_zero(self, vector: JointVector, name: str = "clear vector") -> None:
        """Set all elements to zero."""
        self.ctx.for_each_frame(name, lambda node: vector.put(node.ref, [0.0] * len(node.dofs)))

    def set_sum(self, target: JointVector, a: JointVector, b: JointVector, sign: float) -> None:
        """Write target = a + sign * b."""

        def body(node: FrameNode) -> None:
            target.put(node.ref, [x + sign * y for x, y in zip(a[node.ref], b[node.ref], strict=True)])

        self.ctx.for_each_frame(target.name, body)

    def dot_products(self, name: str, pairs: Sequence[tuple[JointVector, JointVector]]) -> list[Value]:
        """Return the dot products of pairs of vectors."""

        def body(node: FrameNode) -> list[Value]:
            return [dot(a[node.ref], b[node.ref]) for a, b in pairs]

        return self.ctx.sum_over_nodes(name, NodeType.FRAMES, [0.0] * len(pairs), body)

    def axpy(self, vector: JointVector, direction: JointVector, step_length: ArenaOffset | PerTreeArray) -> None:
        """Add step length times direction to a vector in place, with one step length for all trees or one per tree."""
        ctx = self.ctx
        rows = frame_rows(ctx, ctx.nodes, {"length": step_length})

        def body(iteration: IterationContext) -> None:
            ref = ctx.frame_of_iteration(iteration).ref
            pairs = zip(vector[ref], direction[ref], strict=True)
            vector.put(ref, [x + iteration.read("length") * d for x, d in pairs])

        ctx.for_each("add step to vector", rows, body, ctx.active_nodes)


class WarpVectors:
    """Joint-space vectors in contiguous memory; threads share their elements."""

    def __init__(self, ctx: TraceContext) -> None:
        self.ctx = ctx
        self.size = sum(len(node.dofs) for node in ctx.nodes)
        """Number of elements."""

    def new(self, name: str) -> JointVector:
        """Allocate a vector."""
        return self.ctx.joint_vector(name)

    def load(self, vector: JointVector) -> LoadedVector:
        """Load all elements of a vector into registers."""
        start = self.ctx.start_offset(vector)
        return LoadedVector(start, [self.ctx.tracer.read(SCRATCH, start + i) for i in range(self.size)])

    def for_each_dof(self, name: str, body: Callable[[Value], Sequence[Value]], n_sums: int = 0) -> list[Value]:
        """Run `body` for each element, one thread per element; return the sums of the values that it returns."""
        return self.ctx.tracer.parallel_loop(name, float(self.size), body, n_sums)

    def read(self, vector: JointVector, dof: Value) -> Value:
        """Read the element of a dof."""
        return self.ctx.tracer.read(SCRATCH, self.ctx.start_offset(vector), dof)

    def write(self, vector: JointVector, dof: Value, value: Value) -> list[Value]:
        """Write the element of a dof; returns an empty list, as bodies of loops without sums do."""
        self.ctx.tracer.write(SCRATCH, [value], self.ctx.start_offset(vector), dof)
        return []

    def set_zero(self, vector: JointVector) -> None:
        """Set all elements to zero."""
        self.for_each_dof("clear vector", lambda dof: self.write(vector, dof, 0.0))

    def set_sum(self, target: JointVector, a: JointVector, b: JointVector, sign: float) -> None:
        """Write target = a + sign * b."""
        self.for_each_dof(
            target.name, lambda dof: self.write(target, dof, self.read(a, dof) + sign * self.read(b, dof))
        )

    def dot_products(self, name: str, pairs: Sequence[tuple[JointVector, JointVector]]) -> list[Value]:
        """Return the dot products of pairs of vectors."""
        return self.for_each_dof(
            name, lambda dof: [self.read(a, dof) * self.read(b, dof) for a, b in pairs], len(pairs)
        )
