"""Partition of the dofs into branches and a border: block-arrowhead structure of the Newton system solved by a warp.

The Hessian has the sparsity of the kinematic tree except for entries of contacts and constraint rows. Branches are
subtrees that couple only with the border, so that they are eliminated in parallel (Schur complement on the border).
Couplings by constraint rows are known before tracing; whether contacts couple two branches is determined at run time,
and then the dense solve is used.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from kinema import ir
from kinema.codegen import BlockArrowhead
from kinema.ir import SCRATCH, MemoryLocation, Value

from ..collision.contact_lists import ContactLists, last_descendant_indices, preorder_indices
from ..constraints.warp_contact_records import ContactGroup, contact_record
from ..constraints.warp_contacts import WarpContacts
from ..tree.kinematic_tree import WORLD, FrameNode
from ..tree.trace_context import TraceContext

WARP_SIZE = 32
"""Threads per warp."""
TYPICAL_CONTACT_ROWS = 12
"""Active contact rows assumed in cost estimates; typical of a robot in a fast motion with contacts."""
FREE_BODY_DOFS = 6
"""Dofs of a free body; its first frame has more than one of them."""
FrameRange = tuple[int, int]
"""First and last preorder index of the frames of a subtree."""


@dataclass(frozen=True, slots=True)
class ArrowheadPartition:
    """Block-arrowhead structure of the Hessian: diagonal blocks of branches and a dense border."""

    structure: BlockArrowhead
    branch_frames: Sequence[FrameRange]
    """Preorder range of the frames of each branch."""

    @property
    def estimated_cost(self) -> float:
        """Estimated number of instructions of one block-arrowhead factorisation and solve."""
        n_border, max_block, n_branch_dofs = (
            len(self.structure.border),
            self.structure.max_block_size,
            self.structure.n_block_unknowns,
        )
        border_passes = 0 if n_branch_dofs + n_border <= WARP_SIZE else n_border
        schur_cost = 5 + 1.25 * self.structure.schur_tiling(WARP_SIZE)[1]
        branch_cost = max_block * (28 + 1.3 * n_border + 0.7 * max_block) + n_branch_dofs * schur_cost
        return (
            30
            + branch_cost
            + n_border * (24 + 0.6 * n_border)
            + TYPICAL_CONTACT_ROWS * (2 * max_block + 1.3 * n_border + border_passes)
        )


def dense_solve_cost(n_dofs: int) -> float:
    """Estimate the number of instructions of one dense factorisation and solve with `n_dofs` unknowns."""
    rows_per_thread = -(-n_dofs // WARP_SIZE)
    return n_dofs * (24 + 0.6 * n_dofs) + TYPICAL_CONTACT_ROWS * n_dofs * (rows_per_thread + 0.25)


def find_arrowhead_partition(ctx: TraceContext, coupled_dofs: Iterable[Iterable[int]]) -> ArrowheadPartition | None:
    """Find the cheapest block-arrowhead partition of the dofs; None if the dense solve is estimated to be cheaper.

    Greedy search: starting with all root subtrees as branches, the root frame of the largest branch is moved to the
    border again and again, and the partition of least estimated cost is kept. Free bodies are in the border from the
    start, as other trees touch them.

    Args:
        ctx: tracing context.
        coupled_dofs: groups of dofs that constraint rows couple; no group may span two branches.
    """
    tree = _DofTree(ctx, [set(dofs) for dofs in coupled_dofs])
    roots = tree.children.get(WORLD, [])
    free_bodies = [node for node in roots if tree.is_free_body(node)]
    border = [node for root in free_bodies for node in tree.subtree(root)] if len(free_bodies) < len(roots) else []
    branches = [node for node in roots if node not in border]
    best, least_cost = None, dense_solve_cost(tree.n_dofs)
    while branches:
        candidate = tree.partition(border, branches)
        if candidate is not None and candidate.estimated_cost < least_cost:
            best, least_cost = candidate, candidate.estimated_cost
        largest = max(branches, key=lambda node: len(tree.subtree_dofs(node)))
        border = [*border, largest]
        branches = [*(node for node in branches if node is not largest), *tree.children.get(largest.index, [])]
    return best


class _DofTree:
    """Kinematic tree with the positions of its dofs in the vector of unknowns."""

    def __init__(self, ctx: TraceContext, coupled_dofs: Sequence[set[int]]) -> None:
        self.frame_order, self.last_descendant = preorder_indices(ctx), last_descendant_indices(ctx)
        self.children: dict[int, list[FrameNode]] = {}
        self.nodes = ctx.nodes
        for node in ctx.nodes:
            self.children.setdefault(node.parent, []).append(node)
        self.position_of_dof = {dof: i for i, dof in enumerate(dof for node in ctx.nodes for dof in node.dofs)}
        self.n_dofs = len(self.position_of_dof)
        self.coupled_dofs = [
            {self.position_of_dof[dof] for dof in dofs if dof in self.position_of_dof} for dofs in coupled_dofs
        ]

    def subtree(self, node: FrameNode) -> list[FrameNode]:
        """Return a frame and all its descendants."""
        first, last = self.frame_order[node.index], self.last_descendant[node.index]
        return [other for other in self.nodes if first <= self.frame_order[other.index] <= last]

    def subtree_dofs(self, node: FrameNode) -> list[int]:
        """Return the sorted dof positions of a frame and all its descendants."""
        return sorted(self.position_of_dof[dof] for member in self.subtree(node) for dof in member.dofs)

    def is_free_body(self, root: FrameNode) -> bool:
        """Return whether a root frame carries a single free body: 6 dofs, more than one of them in one frame."""
        sizes = [len(node.dofs) for node in self.subtree(root)]
        return sum(sizes) == FREE_BODY_DOFS and max(sizes) > 1

    def partition(
        self, border_nodes: Sequence[FrameNode], branch_roots: Sequence[FrameNode]
    ) -> ArrowheadPartition | None:
        """Return the partition with the given border and branches; None if it is not a valid block-arrowhead structure.

        Invalid are an empty border or no branches, branches whose dofs are not contiguous, constraint rows that couple
        two branches, and more branch or border dofs than threads in a warp.
        """
        branches = [(node, positions) for node in branch_roots if (positions := self.subtree_dofs(node))]
        branches.sort(key=lambda branch: branch[1][0])
        if any(positions != list(range(positions[0], positions[-1] + 1)) for _, positions in branches):
            return None
        if any(sum(not group.isdisjoint(positions) for _, positions in branches) > 1 for group in self.coupled_dofs):
            return None
        border = tuple(sorted(self.position_of_dof[dof] for node in border_nodes for dof in node.dofs))
        structure = BlockArrowhead(tuple((positions[0], len(positions)) for _, positions in branches), border, None)
        frames = [(self.frame_order[node.index], self.last_descendant[node.index]) for node, _ in branches]
        return ArrowheadPartition(structure, frames) if structure.fits(WARP_SIZE) else None


def with_contact_coupling(
    partition: ArrowheadPartition,
    ctx: TraceContext,
    contact_lists: ContactLists | None,
    warp_contacts: WarpContacts | None,
) -> BlockArrowhead:
    """Return the block-arrowhead structure with a run-time flag that no contact couples two branches.

    The flag is omitted if no contact buffer connects two branches. Otherwise one thread per contact compares the
    branches of its frames, and the flag is written to scratch memory; where it is 0, the dense solve is used.
    """
    if contact_lists is None or warp_contacts is None:
        return partition.structure

    def branch_of(frame: int) -> int:
        preorder = contact_lists.frame_order[frame]
        return next((i for i, (first, last) in enumerate(partition.branch_frames) if first <= preorder <= last), -1)

    branch_pairs = [[branch_of(frame) for frame in spec.frames] for spec in contact_lists.specs]
    if not any(a >= 0 and b >= 0 and a != b for a, b in branch_pairs):
        return partition.structure
    total: Value = 0.0
    for group in warp_contacts.groups:

        def differs(index: Value, group: ContactGroup = group) -> list[Value]:
            a, b = contact_record(ctx, group, index).read("frames")
            return [_in_different_branches(partition.branch_frames, a, b)]

        total = total + ctx.tracer.parallel_loop("contacts between branches", warp_contacts.count(group), differs, 1)[0]
    flag = ctx.allocate_fixed(1)
    ctx.tracer.write(SCRATCH, [ir.select(total, 0.5, 1.0, 0.0)], flag.row)
    ctx.tracer.new_basic_block()
    return BlockArrowhead(
        partition.structure.diagonal_blocks, partition.structure.border, MemoryLocation(SCRATCH, flag.row)
    )


def _in_different_branches(branch_frames: Sequence[FrameRange], frame_a: Value, frame_b: Value) -> Value:
    """Return 1 if two frames, given by preorder index, are in different branches, else 0.

    Frames in the border or the world belong to no branch.
    """

    def branch_of(frame: Value) -> Value:
        branch: Value = 0.0
        for i, (first, last) in enumerate(branch_frames):
            inside = ir.select(first - 0.5, frame, ir.select(frame, last + 0.5, 1.0, 0.0), 0.0)
            branch = branch + (i + 1.0) * inside
        return branch

    first, second = branch_of(frame_a), branch_of(frame_b)
    differs = ir.select(0.5, ir.absolute(first - second), 1.0, 0.0)
    return ir.select(0.5, ir.minimum(first, second), differs, 0.0)
