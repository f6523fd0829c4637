"""TraceContext: passes over the kinematic tree, sums over frames and links, control flow of the traced program.

The body of a pass is a pure function of a frame or link, traced once per specialization; every pass becomes a loop over
a table. Where straight-line code is wanted, the loops are unrolled afterwards.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from typing import Any, TypeVar

import numpy as np

from kinema.ir import SCRATCH, ArenaOffset, IterationContext, IterationTable, MemoryLocation, OffsetColumn, Value
from kinema.model import Model, PrimitiveJointType

from ..vector_math import Vector, sum_values
from .kinematic_tree import (
    WORLD,
    FrameNode,
    LinkNode,
    NodeRefs,
    NodeType,
    SpatialInertia,
    frame_ref,
    inertia_about_origin,
    transform_inertia,
)
from .loop_context import LoopContext
from .node_tables import NodeColumns
from .node_values import NodeValues, flatten, node_iterations, unflatten
from .sparse_matrix import JointSpaceMatrix, branch_sparsity
from .transmissions import NO_PATH_LENGTHS, ForceTerm, PathLengths, Transmission, Transmissions

R = TypeVar("R")


class TraceContext(LoopContext):
    """Tracing context for the frames and links of whole trees, with tree traversals, reductions and control flow.

    If masses differ between environments, construction traces the loops that sum the link inertias of each frame.
    """

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        if self.settings.per_env & {"mass_shift", "com_shift"}:
            with self.including_idle_trees():  # the idle flags are not set yet
                self._sum_link_inertias()

    @property
    def gravity(self) -> Vector:
        """Gravitational acceleration in world axes [m/s2], (3,)."""
        return [self.read("gravity", i) for i in range(3)]

    @property
    def dt(self) -> Value:
        """Time step [s]."""
        return self.read("dt")

    def _sum_link_inertias(self) -> None:
        """Trace loops that sum the link inertias of each frame, for masses that differ between environments.

        Sets `frame_inertias`.
        """
        inertias = self.new_values("frame inertia")
        zero = SpatialInertia(0.0, (0.0, 0.0, 0.0), ((0.0,) * 3,) * 3)
        self.for_each_frame("clear frame inertias", lambda node: inertias.put(node.ref, zero))

        def body(link: LinkNode) -> None:
            if link.in_moving_frame:
                inertia = inertia_about_origin(link.mass, link.com, link.inertia)
                inertias.add(link.frame_ref, transform_inertia(inertia, link.rotation, link.position))

        self.for_each_link("sum link inertias", body)
        self.frame_inertias = inertias

    def for_each_frame(
        self,
        name: str,
        body: Callable[[FrameNode], None],
        only: Sequence[int] | None = None,
        target_link: int | None = None,
    ) -> None:
        """Trace a loop over the moving frames, parents first, or over the frames listed in `only`.

        `target_link` is an additional link that the body can read through `node.target_link_ref`.
        """
        nodes = self.nodes if only is None else [self.tree.nodes[i] for i in only]
        self.for_each(
            name,
            self.frame_iterations(nodes, target_link),
            lambda iteration: body(self.frame_of_iteration(iteration)),
            self.active_nodes if only is None else None,
        )

    @property
    def body_nodes(self) -> list[FrameNode]:
        """Nodes that stand for free bodies, which come before those of articulated trees."""
        n_articulated = 0 if self.articulated is None else len(self.articulated.nodes)
        return self.nodes[: len(self.nodes) - n_articulated]

    def for_each_body(self, name: str, body: Callable[[FrameNode], None]) -> None:
        """Trace a loop over the free bodies, in a context whose nodes are free bodies and articulated trees."""
        nodes = self.body_nodes
        if nodes:
            rows = self.frame_iterations(nodes)
            self.for_each(name, rows, lambda x: body(self.frame_of_iteration(x)), self.active_bodies)

    def for_each_kinematic_body(self, name: str, body: Callable[[FrameNode], None]) -> None:
        """Trace a loop over the frames of kinematic bodies, which reads their arrays by name from `iteration`."""
        if self.kinematic_nodes:
            self.for_each_frame(name, body, only=[node.index for node in self.kinematic_nodes])

    def for_each_link(self, name: str, body: Callable[[LinkNode], None], only: Sequence[int] | None = None) -> None:
        """Trace a loop over the links of the context, or over the links listed in `only`."""
        links = self.links if only is None else only
        self.for_each(
            name, [self.link_iteration(i) for i in links], lambda iteration: body(self.link_of_iteration(iteration))
        )

    def forward_pass(
        self,
        name: str,
        world_value: R,
        body: Callable[[FrameNode, R], R],
        kinematic_body: Callable[[FrameNode, R], R] = lambda _, world: world,
    ) -> NodeValues[R]:
        """Trace a pass from the root to the leaves: value(frame) = body(frame, value(parent frame)).

        `world_value` is the value of the world; `kinematic_body` takes the place of `body` for kinematic bodies, and by
        default gives them the value of the world. Returns the value of every frame.
        """
        result: NodeValues[R] = self.new_values(name)
        world = result.allocate(frame_ref(WORLD), world_value, fixed=True)
        for nodes in (self.nodes, self.kinematic_nodes):
            if nodes:
                refs = NodeRefs(NodeType.FRAMES, np.array([node.index for node in nodes]))
                result.allocate_columns(refs, world_value)
        self.tracer.write(SCRATCH, flatten(world_value), world.row)
        self.for_each_kinematic_body(
            f"{name} of kinematic bodies",
            lambda node: result.put(node.ref, kinematic_body(node, result[node.parent_ref])),
        )
        self.for_each_frame(name, lambda node: result.put(node.ref, body(node, result[node.parent_ref])))
        return result

    def backward_pass(
        self, name: str, initial: Callable[[FrameNode], R], body: Callable[[FrameNode, R], R]
    ) -> NodeValues[R]:
        """Trace a pass from the leaves to the root that accumulates values of children in their parents.

        value(frame) = initial(frame) + the sum over its children of body(child, value(child)).

        Returns the value of every frame.
        """
        total: NodeValues[R] = self.new_values(name)
        self.for_each_frame(f"{name}, initial values", lambda node: total.put(node.ref, initial(node)))
        self.accumulate_to_parents(name, total, body)
        return total

    def accumulate_to_parents(
        self, name: str, total: NodeValues[R], body: Callable[[FrameNode, R], R] = lambda _, value: value
    ) -> None:
        """Trace a backward pass (leaves to root) that adds body(frame, total(frame)) to the total of the parent frame.

        Without `body` the total itself is added. Updates `total` in place.
        """
        if self.make_frame_table is not None:  # nodes are whole bodies, but for those of the articulated trees
            if self.articulated is not None:
                self.articulated.accumulate_to_parents(name, total, body)
            return

        def add_to_parent(iteration: IterationContext) -> None:
            node = self.frame_of_iteration(iteration)
            contribution = body(node, total[node.ref])
            if not iteration.specialization.is_root:  # type: ignore[attr-defined]
                total.add(node.parent_ref, contribution)

        self.for_each(name, self.frame_iterations(self.nodes[::-1]), add_to_parent)

    def sum_over_subtrees(self, name: str, initial: Callable[[LinkNode], R]) -> NodeValues[R]:
        """Trace the sum of `initial(link)` over the subtree of each link, the link itself included."""
        total: NodeValues[R] = self.new_values(name)
        self.for_each_link(f"{name}, initial values", lambda link: total.put(link.ref, initial(link)))

        def add_to_parent(link: LinkNode) -> None:
            if link.parent_ref is not None:
                total.add(link.parent_ref, total[link.ref])

        order = [i for i in reversed(links_parent_first(self.model)) if i in set(self.links)]
        self.for_each_link(name, add_to_parent, order)
        return total

    def sum_over_link_trees(self, name: str, initial: Callable[[LinkNode], R]) -> NodeValues[R]:
        """Trace the sum of `initial(link)` over all links of each tree, stored for the root links."""
        total: NodeValues[R] = self.new_values(name)
        roots = [i for i in self.links if self.model.links.parent_idx[i] < 0]
        others = [i for i in self.links if self.model.links.parent_idx[i] >= 0]
        self.for_each_link(f"{name}, root links", lambda link: total.put(link.ref, initial(link)), roots)
        self.for_each_link(name, lambda link: total.add(link.root_ref, initial(link)), others)
        return total

    def sum_over_nodes(self, name: str, node_type: NodeType, zero: R, body: Callable[[Any], R]) -> R:
        """Trace the sum of `body(node)` over all frames or links of the context; `zero` if there are none."""
        total, count = f"total of {name} {len(self.node_values)}", len(flatten(zero))
        offset = self.allocate_fixed(count)
        self.tracer.write(SCRATCH, flatten(zero), offset.row)
        over_frames = node_type is NodeType.FRAMES
        rows = self.frame_iterations(self.nodes) if over_frames else [self.link_iteration(i) for i in self.links]
        for group in rows.groups if isinstance(rows, IterationTable) else ():
            group.set_offset(total, offset)
        for row in () if isinstance(rows, IterationTable) else rows:
            row.offsets[total] = offset

        def run(iteration: IterationContext) -> None:
            node = self.frame_of_iteration(iteration) if over_frames else self.link_of_iteration(iteration)
            terms = flatten(body(node))
            iteration.write(total, [a + b for a, b in zip(iteration.read_array(total, count), terms, strict=True)])

        self.for_each(name, rows, run, self.active_nodes if over_frames else None)
        return unflatten(zero, [self.tracer.read(SCRATCH, offset.row + i) for i in range(count)])

    def transmissions(
        self,
        table_name: str,
        indices: Sequence[int],
        force_law: Callable[[Transmission], ForceTerm],
        path_lengths: PathLengths = NO_PATH_LENGTHS,
        name: str = "",
        adjust_forces: Callable[[Transmissions], None] | None = None,
    ) -> Transmissions:
        """Trace lengths, velocities and forces of some actuators or tendons, and the resulting joint forces.

        Registers the result, so that loops over frames traced later can read the joint forces.

        Args:
            table_name: table of the model, "actuators" or "tendons".
            indices: rows of the table.
            force_law: scalar force along a transmission and its derivative by velocity.
            path_lengths: lengths and moment arms of transmissions along paths.
            name: label, if other quantities of the same table are computed elsewhere.
            adjust_forces: called after the forces are traced and before they are mapped to joints.
        """
        group = Transmissions(self, table_name, indices, force_law, path_lengths, name, adjust_forces)
        self.frame_extensions.append(group)
        return group

    def finite_check(self, partition_of_frame: Mapping[int, int | None]) -> FiniteStateCheck:
        """Start a check that the next state is finite, with one accumulator per partition."""
        return FiniteStateCheck(self, partition_of_frame)

    def joint_space_matrix(
        self,
        name: str,
        diagonal_block: Callable[[FrameNode], tuple[Any, list[list[Value]]]],
        ancestor_block: Callable[[FrameNode, FrameNode, Any], tuple[Any, list[list[Value]]]],
    ) -> JointSpaceMatrix:
        """Trace a symmetric matrix over the degrees of freedom with branch-induced sparsity.

        `diagonal_block(node)` returns a value to carry towards the root and the rows of the frame's dofs up to the
        diagonal; `ancestor_block(child, ancestor, carried)` returns the value carried on and the block of entries with
        the dofs of `ancestor`.
        """
        matrix = JointSpaceMatrix(self, name, branch_sparsity(self))
        self.frame_extensions.append(matrix)
        matrix.compute(diagonal_block, ancestor_block)
        return matrix

    def while_loop(self, name: str, step: Callable[[], tuple[Value, Value]], max_iterations: int) -> None:
        """Trace a do-while loop on values in memory: `step` returns two values, and repeats while the first is less.

        At most `max_iterations` iterations run.
        """

        def run(state: Sequence[Value]) -> tuple[Sequence[Value], Value, Value]:
            return (state, *step())

        self.tracer.while_loop(name, run, [], max_iterations)  # no state in registers: all of it is in memory

    @property
    def skips_sleeping_trees(self) -> bool:
        """Whether sleeping trees are skipped; False in programs that only evaluate a state."""
        return self.idle_flags is not None and self.settings.sleep_tolerance > 0.0

    def including_idle_trees(self) -> AbstractContextManager[None]:
        """Context manager: loops traced inside run for all trees, idle or not."""
        return nullcontext() if self.idle_flags is None else self.idle_flags.including_idle_trees()

    def warp_region(self, name: str, workload: Sequence[ArenaOffset] = ()) -> AbstractContextManager[None]:
        """Context manager: code traced inside is executed by a warp per environment, if the settings enable warps.

        `workload` lists scratch values that tell how much work the region has.
        """
        locations = [MemoryLocation(SCRATCH, offset.row) for offset in workload]
        return self.tracer.warp_region(name, locations) if self.settings.use_warps else nullcontext()

    def if_nonzero(self, name: str, count: Value, body: Callable[[], object]) -> None:
        """Trace a branch that runs `body` if a count is not zero."""

        def then() -> list[Value]:
            body()
            return []

        self.tracer.if_less(name, 0.5, count, then, [])


class FiniteStateCheck:
    """Sums of the next coordinates and velocities per partition, which become NaN or huge if a value is not finite."""

    def __init__(self, ctx: TraceContext, partition_of_frame: Mapping[int, int | None]) -> None:
        self.ctx = ctx
        self.partition_of_frame = partition_of_frame
        self.sum_offsets = [ctx.allocate_fixed(1) for _ in range(ctx.settings.n_partitions)]
        for offset in self.sum_offsets:
            ctx.tracer.write(SCRATCH, [0.0], offset.row)

    def accumulate(self, node: FrameNode, q: Sequence[Value], v: Sequence[Value]) -> None:
        """Add a frame's next coordinates and velocities to the sum whose NaN or huge value reveals an invalid state.

        One sum per partition, inside a loop body. Coordinates are added only for slides and root frames: an invalid
        rotation of any other joint shows up in the velocities.
        """
        iteration = self.ctx.iteration
        if isinstance(iteration.group, NodeColumns):
            partitions = [self._partition(frame) for frame in iteration.group.bindings[""].index.tolist()]
            iteration.group.set_column(
                "state sum", OffsetColumn.from_offsets([self.sum_offsets[partition] for partition in partitions])
            )
            iteration.group.set_column(
                "error flag", OffsetColumn.from_offsets([self._error_offset(partition) for partition in partitions])
            )
        else:
            for row in node_iterations(iteration):
                partition = self._partition(int(row.bindings[""].index))
                row.offsets["state sum"], row.offsets["error flag"] = (
                    self.sum_offsets[partition],
                    self._error_offset(partition),
                )
        add_coordinates = node.joint_type == PrimitiveJointType.SLIDE or iteration.specialization.is_root  # type: ignore[attr-defined]
        values = [*(q if add_coordinates else ()), *v]
        if values:
            iteration.write("state sum", [iteration.read("state sum") + sum_values(values)])

    def error_flag(self) -> Value:
        """Error flag of the partition from before this step: 1 if the environment already was invalid."""
        return self.ctx.iteration.read("error flag")

    def _partition(self, frame: int) -> int:
        return self.partition_of_frame.get(frame) or 0

    def _error_offset(self, partition: int) -> ArenaOffset:
        error = self.ctx.array_offsets[self.ctx.output_prefix + "error"]
        return ArenaOffset(error.arena, error.row + partition)

    def totals(self) -> list[Value]:
        """The sums, one per partition, read outside of loops."""
        return [self.ctx.tracer.read(SCRATCH, offset.row) for offset in self.sum_offsets]


def links_parent_first(model: Model) -> list[int]:
    """Link indices in topological order: sorted by depth in the kinematic tree, parents before children."""
    depth: dict[int, int] = {}

    def depth_of(link: int) -> int:
        parent = int(model.links.parent_idx[link])
        if link not in depth:
            depth[link] = 0 if parent < 0 else depth_of(parent) + 1
        return depth[link]

    return sorted(range(model.n_links), key=depth_of)
