"""Assembly of the block-sparse Hessian H = M + J^T D J of the constraint cost for scenes with many kinematic trees.

Most pairs of trees are not in contact, so most 6 x 6 blocks of H are zero. The nonzero blocks are flagged at run time
from the active contact buffers, extended by the fill-in of the factorisation, and only these blocks are assembled. A
contact between two trees contributes a 6 x 6 spatial Hessian to each of its two frames, as if the other frame were
fixed, and dense blocks that couple the dofs of one tree with the dofs of the other one.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from kinema.ir import (
    SCRATCH,
    ColumnarGroup,
    IterationContext,
    IterationTable,
    LoopIteration,
    NestedIterations,
    OffsetColumn,
    Value,
)

from ..collision.contact_buffer_specs import ContactSpecialization
from ..collision.contact_buffers import ContactBuffer, ContactBufferColumns, ContactBufferFilter
from ..tree.block_sparse_matrix import BLOCK_SIZE, BlockSparseMatrix, DofBlocks
from ..tree.kinematic_tree import WORLD, Ints, frame_ref
from ..tree.loop_context import tree_index_of_frames
from ..tree.node_tables import NodeColumns
from ..tree.node_values import NodeValues
from ..tree.sparse_matrix import JointSpaceMatrix
from ..vector_math import dot, scale, sub
from .contact_jacobian import (
    apply_spatial_hessian_about,
    first_contact_point,
    read_local_array,
    shift_spatial_hessian,
    sum_spatial_hessians,
    unflatten_twist,
)
from .contacts import ContactConstraints
from .rows import ConstraintRows

MIN_TREES_FOR_BLOCKS = 4
"""Number of trees with contacts between moving frames from which on the block-sparse Hessian is used."""


def allocate_block_sparse_hessian(
    contacts: ContactConstraints, rows: ConstraintRows, mass_matrix: JointSpaceMatrix
) -> BlockSparseMatrix | None:
    """Allocate the block-sparse Hessian and find its nonzero blocks; None if fewer than 4 trees may collide.

    Flags the blocks of the mass matrix, of the constraint rows and of the active contact buffers between moving frames,
    adds the fill-in of the Cholesky factorisation and lists the flagged blocks. Values are written later by
    `assemble_block_sparse_hessian`.
    """
    ctx = contacts.ctx
    if not _has_many_contact_trees(contacts):
        return None
    with ctx.without_unrolling():
        matrix = BlockSparseMatrix(mass_matrix, "Hessian with contacts")
        matrix.clear_flags()
        matrix.flag_structural_blocks(block.dofs for block in rows.blocks if block.attachment_idx < 0)
        _flag_attachment_blocks(rows, matrix)
        _flag_contact_blocks(contacts, matrix)
        matrix.flag_fill_in()
        matrix.list_nonzero_blocks()
    return matrix


def assemble_block_sparse_hessian(
    matrix: BlockSparseMatrix, mass_matrix: JointSpaceMatrix, rows: ConstraintRows, contacts: ContactConstraints
) -> None:
    """Write the Hessian M + J^T D J into a block-sparse matrix.

    Copies the mass matrix M and adds the contributions of the active constraint rows, of contacts with the world and of
    contacts between moving frames. Only flagged (nonzero) blocks are written.
    """
    with contacts.ctx.without_unrolling():
        matrix.copy_from(mass_matrix)
        rows.add_hessian(matrix)
        contacts.add_world_contact_hessian(
            matrix, lambda hessians: _add_contact_hessian_blocks(contacts, matrix, hessians)
        )


def _has_many_contact_trees(contacts: ContactConstraints) -> bool:
    """Return whether at least `MIN_TREES_FOR_BLOCKS` trees take part in contact buffers between moving frames."""
    tree_of_frame, buffers = tree_index_of_frames(contacts.ctx.model), contacts.buffers_between_frames()
    return (
        len(
            {
                tree_of_frame[frame]
                for contact_buffer in buffers
                for frame in contact_buffer.spec.frames
                if frame != WORLD
            }
        )
        >= MIN_TREES_FOR_BLOCKS
    )


def _flag_attachment_blocks(rows: ConstraintRows, matrix: BlockSparseMatrix) -> None:
    """Set the nonzero flags of all Hessian blocks that active attachments contribute to."""
    attachments = [
        (
            block,
            [
                LoopIteration("flag", {"flag": matrix.flag_offset(a, b)})
                for a, b in matrix.blocks.block_pairs(block.dofs)
                if a != b
            ],
        )
        for block in rows.blocks
        if block.attachment_idx >= 0
    ]
    rows.for_each_active_attachment(
        "nonzero blocks of attachments", attachments, lambda iteration: iteration.write("flag", [1.0])
    )


def _flag_contact_blocks(contacts: ContactConstraints, matrix: BlockSparseMatrix) -> None:
    """Set the nonzero flags of all Hessian blocks that active contact buffers between moving frames contribute to."""

    def body(iteration: IterationContext, _: ContactSpecialization) -> None:
        iteration.nested_loop("flags", lambda inner: inner.write("flag", [1.0]))

    contact_blocks, rows = ContactBlocks(contacts, matrix.blocks), []
    for columns in contacts.listed_buffers.buffer_columns(ContactBufferFilter.BETWEEN_FRAMES):
        a, b, counts = contact_blocks.block_pairs(columns)
        flags = IterationTable([ColumnarGroup("flag", np.arange(len(a)), {"flag": matrix.flag_offset_column(a, b)})])
        rows.append(
            contacts.listed_buffers.table_columns_of(columns, nested_tables={"flags": NestedIterations(flags, counts)})
        )
    contacts.buffers.for_each_active_buffer(
        "nonzero blocks of contacts", body, rows, ContactBufferFilter.BETWEEN_FRAMES
    )


def _add_contact_hessian_blocks(
    contacts: ContactConstraints, matrix: BlockSparseMatrix, frame_hessians: NodeValues[list[Value]]
) -> None:
    """Add J^T D J of the contacts between moving frames to the block-sparse Hessian.

    For a contact buffer between two trees, the parts within each tree are added to `frame_hessians` (6 x 6 spatial
    Hessian of each frame about the reference point of its tree), as for contacts with the world; the dense blocks
    between the trees are added to `matrix`. For a contact buffer within one tree, all blocks of the relative dofs are
    added to `matrix`.
    """

    def body(iteration: IterationContext, specialization: ContactSpecialization) -> None:
        point = first_contact_point(iteration, specialization)
        hessian = sum_spatial_hessians(
            contacts.buffers,
            iteration,
            specialization,
            contacts.cost_model,
            lambda: read_local_array(iteration, point, 3),
        )
        for side in ("a", "b"):
            offset = sub(read_local_array(iteration, point, 3), iteration.read_array(f"reference point {side}", 3))
            shifted = shift_spatial_hessian(read_local_array(iteration, hessian), offset)
            frame_hessians.add(frame_ref(f"{side} "), list(scale(iteration.constant("is between trees"), shifted)))

        def add_block(inner: IterationContext) -> None:
            stiffness, reference = read_local_array(inner, hessian), read_local_array(inner, point, 3)
            wrenches = [
                apply_spatial_hessian_about(stiffness, reference, unflatten_twist(row_axis))
                for row_axis in _signed_axes(inner, "row axis")
            ]
            column_axes = _signed_axes(inner, "column axis")
            products = [
                dot(column_axis, [*wrench.torque, *wrench.force]) for wrench in wrenches for column_axis in column_axes
            ]
            old = inner.read_array("block", BLOCK_SIZE * BLOCK_SIZE)
            inner.write("block", [a + b for a, b in zip(old, products, strict=True)])

        iteration.nested_loop("blocks", add_block)

    rows: list[NodeColumns] = []
    contact_blocks, tree_of_frame = (
        ContactBlocks(contacts, matrix.blocks),
        np.array(tree_index_of_frames(contacts.ctx.model)),
    )
    for columns in contacts.listed_buffers.buffer_columns(ContactBufferFilter.BETWEEN_FRAMES):
        block_table, counts = contact_blocks.block_rows(matrix, columns)
        trees = [tree_of_frame[refs.index] for refs in columns.frames]
        constants = {"is between trees": (trees[0] != trees[1]).astype(np.float64)[:, None]}
        rows.append(
            contacts.listed_buffers.table_columns_of(
                columns, constants=constants, nested_tables={"blocks": NestedIterations(block_table, counts)}
            )
        )
        for side, side_trees in zip("ab", trees, strict=True):
            rows[-1].set_column(f"reference point {side}", contacts.reference_points.column_of(side_trees))
    contacts.buffers.for_each_active_buffer(
        "Hessian of contacts between trees", body, rows, ContactBufferFilter.BETWEEN_FRAMES
    )


class ContactBlocks:
    """Indices of the Hessian blocks that buffers contribute to, and the joint motion axes they are computed from.

    The blocks and axes of a frame are computed once and reused for all contact buffers of the frame.
    """

    def __init__(self, contacts: ContactConstraints, dof_blocks: DofBlocks) -> None:
        self._contacts, self._dof_blocks = contacts, dof_blocks
        self._trees = tree_index_of_frames(contacts.ctx.model)
        self._axes = {dof: offset.row for dof, offset in contacts.motion_axis_places().items()}
        self._frame_blocks: dict[int, _FrameBlocks] = {}

    def block_pairs(self, columns: ContactBufferColumns) -> tuple[Ints, Ints, Ints]:
        """Return row and column indices (lower triangle) of the blocks that buffers fill, and the count per buffer.

        The first two arrays are concatenated over the buffers.
        """
        pairs = [self._block_pairs_of_buffer(contact_buffer) for contact_buffer in columns.buffers]
        flat = np.array([pair for set_pairs in pairs for pair in set_pairs], np.int64).reshape(-1, 2)
        return flat[:, 0], flat[:, 1], np.array([len(set_pairs) for set_pairs in pairs], np.int64)

    def block_rows(self, matrix: BlockSparseMatrix, columns: ContactBufferColumns) -> tuple[IterationTable, Ints]:
        """Return a table with a row per 6 x 6 Hessian block that contacts fill, and the number of rows per buffer.

        A row has the offset of the block, the offsets of the six motion axes of its block row and of its block column,
        and their signs: -1 or +1 for dofs that move the first or second frame, 0 for padding and for dofs that move
        neither or both. Blocks within one tree are left out for a contact buffer between two trees.
        """
        rows, counts = [], []
        for contact_buffer in columns.buffers:
            set_rows = (
                list(self._blocks_between_trees(contact_buffer))
                if self._is_between_trees(contact_buffer)
                else list(self._blocks_within_tree(contact_buffer))
            )
            rows += set_rows
            counts.append(len(set_rows))
        flat = np.array(rows).reshape(len(rows), -1)
        axes, signs = flat[:, 2 : 2 + 2 * BLOCK_SIZE].astype(np.int64), flat[:, 2 + 2 * BLOCK_SIZE :]
        a, b = flat[:, :2].T.astype(np.int64)
        offsets = {"block": matrix.block_offset_column(a, b)}
        for i in range(2 * BLOCK_SIZE):
            offsets[f"{'row' if i < BLOCK_SIZE else 'column'} axis {i % BLOCK_SIZE}"] = OffsetColumn(
                SCRATCH, axes[:, i]
            )
        constants = {"row axis signs": signs[:, :BLOCK_SIZE], "column axis signs": signs[:, BLOCK_SIZE:]}
        groups = [ColumnarGroup("block", np.arange(len(flat)), offsets, constants)] if rows else []
        return IterationTable(groups), np.array(counts, np.int64)

    def _is_between_trees(self, contact_buffer: ContactBuffer) -> bool:
        a, b = contact_buffer.spec.frames
        return self._trees[a] != self._trees[b]

    def _block_pairs_of_buffer(self, contact_buffer: ContactBuffer) -> list[tuple[int, int]]:
        """Return the (row, column) indices of the lower-triangular Hessian blocks that one contact buffer fills."""
        if not self._is_between_trees(contact_buffer):
            return self._dof_blocks.block_pairs(dof for dof, _ in self._contacts.relative_dofs(contact_buffer))
        blocks = sorted(
            [
                *self._blocks_of_frame(contact_buffer.spec.frames[0]).axis_rows,
                *self._blocks_of_frame(contact_buffer.spec.frames[1]).axis_rows,
            ]
        )
        return [(a, b) for a in blocks for b in blocks if b <= a]

    def _blocks_of_frame(self, frame: int) -> _FrameBlocks:
        """Return the dof blocks of the ancestors of a frame with the offsets of their motion axes (cached)."""
        if frame not in self._frame_blocks:
            dofs = self._contacts.ancestor_dofs(frame)
            axis_rows = {
                block: _block_axes(self._dof_blocks.dofs_of_block[block], dofs, self._axes)
                for block in self._dof_blocks.blocks_of_dofs(dofs)
            }
            self._frame_blocks[frame] = _FrameBlocks(axis_rows, min(dofs))
        return self._frame_blocks[frame]

    def _blocks_between_trees(self, contact_buffer: ContactBuffer) -> Iterator[list[float]]:
        """Yield block row, block column, axis offsets and signs (12 each) of the blocks between two trees.

        One list per lower-triangular Hessian block that couples a dof block of one tree with a dof block of the other
        tree of a contact buffer. Axes of dofs that do not move the contact frame have sign 0 and an arbitrary offset.
        """
        first, second = (self._blocks_of_frame(frame) for frame in contact_buffer.spec.frames)
        any_axis = self._axes[min(first.first_dof, second.first_dof)]
        orientations = ((first, second), (-1.0, 1.0)), ((second, first), (1.0, -1.0))
        orientation_of_pair = {
            (a, b): orientation
            for orientation in orientations
            for a in orientation[0][0].axis_rows
            for b in orientation[0][1].axis_rows
            if b <= a
        }
        for a, b in sorted(orientation_of_pair):
            owners, signs = orientation_of_pair[a, b]
            axis_rows = [owner.axis_rows[block] for owner, block in zip(owners, (a, b), strict=True)]
            axes = [any_axis if axis is None else axis for side in axis_rows for axis in side]
            axis_signs = [
                0.0 if axis is None else sign for side, sign in zip(axis_rows, signs, strict=True) for axis in side
            ]
            yield [a, b, *axes, *axis_signs]

    def _blocks_within_tree(self, contact_buffer: ContactBuffer) -> Iterator[list[float]]:
        """Yield block row, block column, axis offsets and signs (12 each) of the blocks within one tree.

        One list per lower-triangular Hessian block of the dofs that move exactly one of the two frames of a contact
        buffer. Other axes have sign 0 and an arbitrary offset.
        """
        sign_of_dof = dict(self._contacts.relative_dofs(contact_buffer))
        any_axis = self._axes[next(iter(sign_of_dof))]
        for a, b in self._dof_blocks.block_pairs(sign_of_dof):
            axis_rows = [
                axis
                for block in (a, b)
                for axis in _block_axes(self._dof_blocks.dofs_of_block[block], sign_of_dof, self._axes)
            ]
            signs = [
                sign_of_dof.get(dof, 0.0)
                for block in (a, b)
                for dof in [*self._dof_blocks.dofs_of_block[block], *[-1] * BLOCK_SIZE][:BLOCK_SIZE]
            ]
            yield [a, b, *(any_axis if axis is None else axis for axis in axis_rows), *signs]


@dataclass(frozen=True, slots=True, eq=False)
class _FrameBlocks:
    """Dof blocks that move one frame."""

    axis_rows: Mapping[int, Sequence[int | None]]
    """Block index -> scratch offsets of the six motion axes of its dofs; None for dofs that do not move the frame."""
    first_dof: int
    """Smallest index of the dofs that move the frame."""


def _block_axes(dofs: Sequence[int], moving_dofs: Collection[int], axes: Mapping[int, int]) -> list[int | None]:
    """Scratch offsets of the motion axes of a block's dofs, padded to 6; None for dofs not in `moving_dofs`."""
    return [axes[dof] if dof in moving_dofs else None for dof in dofs] + [None] * (BLOCK_SIZE - len(dofs))


def _signed_axes(iteration: IterationContext, prefix: str) -> list[list[Value]]:
    signs = iteration.constants(f"{prefix} signs")
    return [list(scale(sign, iteration.read_array(f"{prefix} {i}", 6))) for i, sign in enumerate(signs)]
