"""Reference interpreter in NumPy: executes a program for all environments at once, statement by statement."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from typing import Any

import numpy as np

from .cooperative import (
    AtomicIncrement,
    DenseSolve,
    HessianTerm,
    MinimumDegreeOrdering,
    SharedMemoryStaging,
    cone_weight_size,
    round_up_to_4,
)
from .memory import FIRST_ROW_PREFIX, ROW_COUNT_PREFIX, SCRATCH, ArenaOffset, Slot
from .program import (
    BasicBlock,
    CountedLoop,
    If,
    Instruction,
    LoopVariant,
    Program,
    Statements,
    TableLoop,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
)

BlockPair = tuple[int, int]
"""Indices of two blocks of unknowns."""


def minimum_degree_order(
    n_blocks: int, max_tiles: int, edges: Iterable[BlockPair]
) -> tuple[np.ndarray, list[BlockPair], dict[BlockPair, int], bool]:
    """Minimum-degree elimination order of a graph of blocks, as specified by `MinimumDegreeOrdering`.

    Returns the (n_blocks, 4) block information, the tiles (later block, eliminated block), the tile index of each such
    pair, and whether more than `max_tiles` tiles were needed (the tiles of the affected blocks are then missing).
    """
    neighbours = {i: set[int]() for i in range(n_blocks)}
    for a, b in edges:
        neighbours[a].add(b)
        neighbours[b].add(a)
    remaining = set(range(n_blocks))
    block_info = np.zeros((n_blocks, 4))
    tiles: list[BlockPair] = []
    tile_of_pair: dict[BlockPair, int] = {}
    overflow = False
    for step in range(n_blocks):
        pivot = min(remaining, key=lambda i: (len((neighbours[i] & remaining) - {i}), i))
        remaining.remove(pivot)
        fill = sorted(neighbours[pivot] & remaining)
        if len(tiles) + len(fill) > max_tiles:
            fill, overflow = [], True
        block_info[step, 0] = pivot
        block_info[pivot, 1:] = step, len(tiles), len(fill)
        for other in fill:
            neighbours[other] |= set(fill)
            tile_of_pair[other, pivot] = len(tiles)
            tiles.append((other, pivot))
    return block_info, tiles, tile_of_pair, overflow


NUMPY_OPS: dict[str, Callable[..., Any]] = {
    "add": lambda a, b: a + b,
    "sub": lambda a, b: a - b,
    "mul": lambda a, b: a * b,
    "neg": lambda a: -a,
    "reciprocal": lambda a: 1.0 / a,
    "sqrt": np.sqrt,
    "sin": np.sin,
    "cos": np.cos,
    "abs": np.abs,
    "floor": np.floor,
    "min": lambda a, b: np.where(b < a, b, a),  # not np.minimum: NaN as in emitted code
    "max": lambda a, b: np.where(a < b, b, a),
    "select": lambda a, b, below, otherwise: np.where(a < b, below, otherwise),
    "any": lambda a: np.full_like(a, (a > 0.5).any()),
    "fma": lambda a, b, c: a * b + c,
    "fms": lambda a, b, c: a * b - c,
    "fnma": lambda a, b, c: c - a * b,
}
"""Operation of an instruction -> NumPy function."""


def interpret(program: Program, arrays: Mapping[str, np.ndarray]) -> dict[str, np.ndarray]:
    """Outputs of a program, each (n_items, n_envs), from inputs (n_items, n_envs), which are not modified."""
    sample = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
    outputs = program.outputs
    memory = dict(arrays)
    for name, count in outputs.items():
        memory[name] = np.zeros((max(count, len(arrays.get(name, ()))), sample.shape[1]), sample.dtype)
        memory[name][: len(arrays.get(name, ()))] = arrays.get(name, 0.0)
    _Interpreter(program, memory, {}).run(program.body)
    return {name: memory[name][:count] for name, count in outputs.items()}


def interpret_in_place(
    program: Program, arenas: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset], n_runs: int = 1
) -> None:
    """Run a program `n_runs` times on arenas of shape (n_rows, n_envs), which are modified in place."""
    for _ in range(n_runs):
        _Interpreter(program, arenas, array_offsets).run(program.body)


def interpret_kernel_part(
    program: Program, arenas: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset]
) -> None:
    """Run one kernel of a split program on arenas including scratch memory, which are modified in place."""
    interpreter = _Interpreter(program, {name: x for name, x in arenas.items() if name != SCRATCH}, array_offsets)
    interpreter.arrays[SCRATCH] = arenas[SCRATCH]
    interpreter.run(program.body)


class _Interpreter:
    """Executes statements on NumPy arrays of shape (n_rows, n_envs), with a mask of active environments."""

    def __init__(
        self, program: Program, arrays: Mapping[str, np.ndarray], array_offsets: Mapping[str, ArenaOffset]
    ) -> None:
        sample = next(iter(arrays.values())) if arrays else np.zeros((1, 1))
        self.dtype, self.n_envs = sample.dtype, sample.shape[1]
        sizes = {**program.locals, SCRATCH: program.n_scratch}
        self.arrays = {**arrays, **{name: np.zeros((n, self.n_envs), self.dtype) for name, n in sizes.items()}}
        self.array_offsets = array_offsets
        self.row_stack: list[tuple[LoopVariant, np.ndarray, np.ndarray]] = []
        """Enclosing table rows: loop variant, integers and floats of each."""
        self.loop_indices: list[int] = []
        self.active_mask: np.ndarray | None = None
        """(n_envs,) environments that execute the current statement; None for all."""

    def run(self, statements: Statements) -> None:
        """Execute statements one after the other for the active environments."""
        for block in statements:
            match block:
                case BasicBlock():
                    self.run_basic_block(block)
                case TableLoop():
                    self.run_table_loop(block)
                case CountedLoop():
                    self.run_counted_loop(block)
                case WhileLoop():
                    self.run_while_loop(block)
                case WarpRegion():
                    self.run(block.body)
                case DenseSolve():
                    self.run_dense_solve(block)
                case MinimumDegreeOrdering():
                    self.run_ordering(block)
                case SharedMemoryStaging():
                    pass  # there is only one memory
                case AtomicIncrement():
                    count = np.array(self.load(block.counter))
                    self.store(block.result, count, {})
                    self.store(block.counter, count + 1.0, {})
                case WorkQueueLoop():
                    self.run_work_queue_loop(block)
                case If():
                    outer_mask = self.active_mask
                    if self._restrict(self.load(block.condition) > 0.5):
                        self.run(block.body)
                    self.active_mask = outer_mask

    def run_table_loop(self, loop: TableLoop) -> None:
        """Execute a table loop row by row, then add the thread-private accumulators of its reductions to the totals."""
        variant_indices = loop.variant_indices()
        for accumulator, _ in loop.reductions:
            self.store(accumulator, np.zeros(self.n_envs), {})
        for i in self._rows_of(loop):
            variant = loop.variants[int(variant_indices[i])]
            self.row_stack.append((variant, loop.ints[i], loop.floats[i]))
            self.run(variant.body)
            self.row_stack.pop()
        for accumulator, total in loop.reductions:
            self.store(total, self.load(total) + self.load(accumulator), {})

    def run_work_queue_loop(self, queue_loop: WorkQueueLoop) -> None:
        """Execute a work-queue loop row by row; each filter restricts the active environments of the next stage."""
        outer_mask = self.active_mask
        for i in range(len(queue_loop.work.ints)):
            for loop in queue_loop.stages:
                variant = loop.variants[int(loop.variant_indices()[i])]
                self.row_stack.append((variant, loop.ints[i], loop.floats[i]))
                self.run(variant.body)
                self.row_stack.pop()
                if loop is not queue_loop.work and not self._restrict(self.load(queue_loop.condition) > 0.5):
                    break
            self.active_mask = outer_mask

    def _rows_of(self, loop: TableLoop) -> Sequence[int]:
        """Rows of a table loop to execute: those of its schedule, all, or the range of the enclosing row."""
        if not loop.row_range_name:
            return [batch.first_row + i for batch in loop.schedule for i in range(batch.n_rows)] or range(
                len(loop.ints)
            )
        variant, ints, _ = self.row_stack[-1]
        first, count = (
            int(ints[variant.array_columns[prefix + loop.row_range_name][1]])
            for prefix in (FIRST_ROW_PREFIX, ROW_COUNT_PREFIX)
        )
        return range(first, first + count)

    def _restrict(self, mask: np.ndarray) -> bool:
        """Intersect the active environments with a mask; returns whether any remain."""
        self.active_mask = mask if self.active_mask is None else self.active_mask & mask
        return bool(self.active_mask.any())

    def run_counted_loop(self, loop: CountedLoop) -> None:
        """Execute a counted loop; an environment becomes inactive when its trip count is reached."""
        outer_mask, counts = self.active_mask, np.array(self.load(loop.count))
        self.loop_indices.append(0)
        while self._restrict(self.loop_indices[-1] < counts):
            self.run(loop.body)
            self.loop_indices[-1] += 1
        self.loop_indices.pop()
        self.active_mask = outer_mask

    def run_while_loop(self, loop: WhileLoop) -> None:
        """Execute a do-while loop; an environment becomes inactive when its condition is false."""
        outer_mask = self.active_mask
        for _ in range(loop.max_iterations):
            self.run(loop.body)
            if not self._restrict(self.load(loop.condition) > 0.5):
                break
        self.active_mask = outer_mask

    def run_dense_solve(self, solve: DenseSolve) -> None:
        """Assemble and solve the symmetric linear system of a dense solve, one environment at a time.

        The matrix is A + diag(diagonal) + sum of J^T W J, masked by the block-arrowhead sparsity while blocks are
        decoupled.
        """
        n, result = solve.size, np.zeros((solve.size, self.n_envs), self.dtype)
        memory = {
            name: self._memory_from(getattr(solve, name)) for name in ("matrix", "diagonal", "max_inverse_pivot", "rhs")
        }
        for env in range(self.n_envs):
            if self.active_mask is not None and not self.active_mask[env]:
                continue
            matrix = np.array(
                [memory["matrix"][i * solve.row_stride : i * solve.row_stride + n, env] for i in range(n)]
            )
            matrix = np.tril(matrix) + np.tril(matrix, -1).T if solve.lower_only else matrix
            matrix += np.diag(memory["diagonal"][:n, env])
            for term in solve.terms:
                for record in range(int(self.load(term.count)[env])):
                    record_memory = self._memory_from(term.records)[record * term.record_stride :, env]
                    matrix += _hessian_contribution(record_memory, term, n)
            if solve.arrowhead is not None and (
                solve.arrowhead.decoupled is None or self.load(solve.arrowhead.decoupled)[env] > 0.5
            ):
                matrix *= solve.arrowhead.sparsity_mask(n)  # other entries are not used
            result[:, env] = _solve_symmetric(matrix, memory["rhs"][:n, env], memory["max_inverse_pivot"][:n, env])
        for i in range(n):
            self.store(solve.result._replace(item=solve.result.item + i), result[i], {})

    def run_ordering(self, ordering: MinimumDegreeOrdering) -> None:
        """Compute a minimum-degree ordering for each active environment and write its outputs to memory."""
        for env in range(self.n_envs):
            if self.active_mask is not None and not self.active_mask[env]:
                continue
            pairs = list[tuple[int, int]]()
            for edges in ordering.edges:
                records = self._memory_from(edges.records)[:, env]
                starts = (i * edges.record_stride + edges.pair_offset for i in range(int(self.load(edges.count)[env])))
                pairs += [(int(records[start]), int(records[start + 1])) for start in starts]
            block_info, tiles, tile_of_pair, overflow = minimum_degree_order(
                ordering.n_blocks, ordering.max_tiles, pairs
            )
            self._memory_from(ordering.block_info)[: block_info.size, env] = block_info.ravel()
            self._memory_from(ordering.tiles)[: 2 * len(tiles), env] = np.array(tiles, float).ravel()
            for (a, b), tile in tile_of_pair.items():
                self._memory_from(ordering.tile_of_pair)[
                    [a * ordering.n_blocks + b, b * ordering.n_blocks + a], env
                ] = tile
            self._memory_from(ordering.status)[:2, env] = len(tiles), overflow

    def _memory_from(self, slot: Slot) -> np.ndarray:
        array, row = self._resolve(slot)
        return array[row:]

    def run_basic_block(self, block: BasicBlock) -> None:
        """Evaluate the instructions of a basic block, then store the results."""
        values: dict[int, Any] = {}
        self.evaluate(block.instructions, values)
        # copies: loaded values are views of memory that a store may change
        results = [np.array(values[s.value] if isinstance(s.value, int) else s.value) for s in block.stores]
        for store, result in zip(block.stores, results, strict=True):
            self.store(store.slot, result, values)

    def evaluate(self, instructions: Iterable[Instruction], values: dict[int, Any]) -> None:
        """Evaluate instructions and add their results to `values`, by value number."""
        for i in instructions:
            if i.slot is not None:
                values[i.result] = np.array(self.load(i.slot, values))  # not a view: a store may change it
            elif i.op == "loop_index":
                values[i.result] = self.dtype.type(self.loop_indices[-1])
            else:
                values[i.result] = NUMPY_OPS[i.op](
                    *(values[a] if isinstance(a, int) else self.dtype.type(a) for a in i.args)
                )

    def _resolve(self, slot: Slot) -> tuple[np.ndarray, int]:
        """NumPy array and row of a slot, without its dynamic index.

        Looks up row constants and array offsets of the enclosing table rows first, then the array offsets of the
        program.
        """
        for variant, ints, floats in reversed(self.row_stack):
            if slot in variant.constant_columns:
                return floats[:, None], variant.constant_columns[slot]
            if slot.array in variant.array_columns:
                arena, column = variant.array_columns[slot.array]
                start = self.array_offsets.get(arena, ArenaOffset(arena, 0))  # an array or an arena
                return self.arrays[start.arena], start.row + int(ints[column]) + slot.item
        if slot.array in self.array_offsets:
            offset = self.array_offsets[slot.array]
            return self.arrays[offset.arena], offset.row + slot.item
        return self.arrays[slot.array], slot.item

    def load(self, slot: Slot, values: Mapping[int, Any] | None = None) -> Any:
        """Value of a slot for all environments, shape (n_envs,), or a scalar for uniform arrays and row constants."""
        array, row = self._resolve(slot)
        uniform = (array.shape[1] == 1 and self.n_envs > 1) or array.dtype != self.dtype
        if slot.index is None:
            return self.dtype.type(array[row, 0]) if uniform else array[row]
        rows = row + self._dynamic_index(slot, values, len(array) - row)
        return array[rows, 0 if uniform else np.arange(self.n_envs)]

    def _dynamic_index(self, slot: Slot, values: Mapping[int, Any] | None, count: int) -> np.ndarray:
        """Dynamic index of a slot for each environment, clipped to the array in case of inactive environments."""
        index = np.broadcast_to(np.asarray((values or {})[slot.index or 0], np.int64), (self.n_envs,))
        return index if self.active_mask is None else np.clip(index, 0, count - 1)

    def store(self, slot: Slot, result: np.ndarray, values: Mapping[int, Any]) -> None:
        """Store values to a slot for the active environments."""
        array, row = self._resolve(slot)
        envs = np.arange(self.n_envs)
        rows = row if slot.index is None else row + self._dynamic_index(slot, values, len(array) - row)
        if self.active_mask is not None:
            result = np.where(self.active_mask, result, array[rows, envs])
        array[rows, envs] = result


def _hessian_contribution(record: np.ndarray, term: HessianTerm, n_unknowns: int) -> np.ndarray:
    """Term J^T W J of one record, shape (n_unknowns, n_unknowns), with dense W or the packed W of a friction cone."""
    n_rows = int(record[term.row_count_offset])
    jacobian = np.array(
        [record[term.jacobian_offset + i * term.jacobian_row_stride :][:n_unknowns] for i in range(n_rows)]
    ).reshape(n_rows, n_unknowns)
    if term.is_cone:
        weight = _cone_weight(record[term.weight_offset :][: cone_weight_size(term.max_rows)])[:n_rows, :n_rows]
    else:
        weight = np.array(
            [record[term.weight_offset + i * round_up_to_4(term.max_rows) :][:n_rows] for i in range(n_rows)]
        ).reshape(n_rows, n_rows)
    return jacobian.T @ weight @ jacobian


def _cone_weight(packed: np.ndarray) -> np.ndarray:
    """Weight matrix W of a friction cone from its packed form (see `HessianTerm.is_cone`)."""
    normal, tangential, along_edge, radial, mu = packed[:5]
    direction = np.array([0.0, *packed[5:]])
    edge = np.array([1.0, *(-mu * packed[5:])])
    diagonal = np.diag([normal, *[tangential] * (len(packed) - 5)])
    return diagonal + along_edge * np.outer(edge, edge) - radial * np.outer(direction, direction)


def _solve_symmetric(a: np.ndarray, rhs: np.ndarray, max_inverse_pivot: np.ndarray) -> np.ndarray:
    """Solve a symmetric linear system by elimination from the last unknown to the first.

    The inverse of pivot k is limited to `max_inverse_pivot[k]`.
    """
    a, x, n = a.copy(), rhs.copy(), len(rhs)
    inverse = np.zeros_like(rhs)
    for k in reversed(range(n)):
        inverse[k] = 1.0 / a[k, k] if max_inverse_pivot[k] * a[k, k] > 1.0 else max_inverse_pivot[k]
        factors = a[:k, k] * inverse[k]
        a[:k, :k] -= np.outer(factors, a[k, :k])
        x[:k] -= factors * x[k]
    for k in range(n):
        x[k] = (x[k] - a[k, :k] @ x[:k]) * inverse[k]
    return x
