"""Dead-store elimination: removal of stores whose cells are never loaded, and of all code that only they need.

The analysis is flow-insensitive and precise to the rows of tables: a store is live if it writes a cell that live code
loads, or memory that outlives the run. After differentiation, results of the original program and values that only
derivatives depend on are often dead.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .activity import CellRows, CellSet, Scopes
from .memory import SCRATCH, ArenaOffset, MemoryLocation
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Instruction,
    Program,
    Statement,
    Statements,
    WarpRegion,
    WhileLoop,
    WorkQueueLoop,
    map_bodies,
    memory_accesses,
    nested_bodies,
    walk,
)


def eliminate_dead_stores(
    program: Program,
    array_offsets: Mapping[str, ArenaOffset] | None = None,
    unused_rows: Mapping[str, float] | None = None,
    kept_cells: Collection[tuple[str, int]] = (),
) -> Program:
    """Dead-store elimination: the program without stores that no output depends on, and without code for these.

    Empty loops and branches are removed, too.

    Args:
        program: the program; cooperative statements are kept as they are.
        array_offsets: array -> arena and first row, for arrays that are named outside of loops.
        unused_rows: arena -> number of first rows whose contents after the run are not needed (`math.inf` for all of
            them). Scratch memory and local arrays are never needed.
        kept_cells: cells (arena, row) that are needed although they are among `unused_rows`.
    """
    analysis = _Liveness(program, CellRows(program, array_offsets or {}), unused_rows or {}, kept_cells)
    body = analysis.live_statements(program.body)
    used = {
        name
        for statement in walk(body)
        for name in (
            *(location.array for location, _ in memory_accesses(statement)),
            *(_column_arenas(statement) if isinstance(statement, ForEachLoop) else ()),
        )
    }
    return replace(program, body=body, locals={k: n for k, n in program.locals.items() if k in used}, outlined={})


def _column_arenas(loop: ForEachLoop) -> Iterator[str]:
    for specialization in loop.specializations:
        yield from (arena for arena, _ in specialization.array_columns.values())


@dataclass(slots=True, eq=False)
class _BlockState:
    """Live stores and values of a basic block."""

    scopes: Scopes
    pending: list[tuple[int, str, list[int]]]
    """Position, arena and rows of each store that is not known to be live."""
    definitions: dict[int, Instruction]
    """Value -> instruction."""
    version: int = -1
    """Version of the set of cells that live code may load, at the last visit."""
    live_stores: set[int] = field(default_factory=set)
    live_values: set[int] = field(default_factory=set)


class _Liveness:
    """Fixed-point iteration that marks live stores, starting from stores to memory that outlives the run."""

    def __init__(
        self,
        program: Program,
        rows: CellRows,
        unused_rows: Mapping[str, float],
        kept_cells: Collection[tuple[str, int]],
    ) -> None:
        self.program, self.rows, self.unused_rows = program, rows, unused_rows
        self.kept_cells = frozenset(kept_cells)
        self._loaded = CellSet()
        """Cells that live code may load."""
        self.blocks: dict[int, _BlockState] = {}
        """States of basic blocks, by identity."""
        self._changed = True
        while self._changed:
            self._changed = False
            self._visit(program.body, (), keep=False)

    # ----------------------------------------------------------------------------------------------------------- cells

    def _outlives_run(self, arena: str, rows: list[int]) -> bool:
        """Whether any of some cells is needed after the run."""
        if arena == SCRATCH or arena in self.program.locals:
            return False
        if arena not in self.unused_rows or -1 in rows or max(rows, default=-1) >= self.unused_rows[arena]:
            return True
        return any(cell_arena == arena and row in rows for cell_arena, row in self.kept_cells)

    def _mark_loaded(self, location: MemoryLocation, scopes: Scopes) -> None:
        """Mark all cells that a memory reference may access as loaded by live code."""
        for scope in scopes:
            if location in scope.specialization.constant_columns:
                return
        self._changed |= self._loaded.add(*self.rows.resolve(location, scopes))

    # -------------------------------------------------------------------------------------------------------- marking

    def _visit(self, statements: Statements, scopes: Scopes, *, keep: bool) -> bool:
        """Mark the live parts of some statements, or all of them; returns whether there are any."""
        live = [self._visit_statement(statement, scopes, keep=keep) for statement in reversed(statements)]
        return any(live)

    def _visit_statement(self, statement: Statement, scopes: Scopes, *, keep: bool) -> bool:
        """Mark the live stores and loads of a statement (all of them with `keep`); return whether it is live."""
        match statement:
            case BasicBlock():
                return self._visit_block(statement, scopes, keep=keep)
            case ForEachLoop():
                keep = keep or bool(statement.reductions)
                is_live = False
                for scope in self.rows.scopes_of(statement):
                    is_live |= self._visit(scope.specialization.body, (*scopes, scope), keep=keep)
                if is_live and statement.active_iterations is not None:
                    self._mark_loaded(MemoryLocation(*statement.active_iterations, 0), ())
                for location in statement.joined_rows if is_live else ():
                    self._mark_loaded(location, scopes)
                for accumulator, total in statement.reductions:
                    self._mark_loaded(accumulator, scopes)
                    self._mark_loaded(total, scopes)
                return is_live
            case CountedLoop() | WhileLoop() | If() | WarpRegion():
                is_live = self._visit(statement.body, scopes, keep=keep)
                locations = [location for location, is_write in memory_accesses(statement) if not is_write]
                locations += statement.reductions if isinstance(statement, CountedLoop) else ()
                locations += statement.workload if isinstance(statement, WarpRegion) else ()
            case WorkQueueLoop():
                is_live, locations = True, [statement.condition]
                self._visit(statement.stages, scopes, keep=True)
            case _:
                is_live = True
                locations = [location for location, is_write in memory_accesses(statement) if not is_write]
        if is_live:
            for location in locations:
                self._mark_loaded(location, scopes)
        return is_live

    def _visit_block(self, block: BasicBlock, scopes: Scopes, *, keep: bool) -> bool:
        """Mark the stores of a basic block to live cells, and the values and loads that the stores depend on.

        All stores with `keep`. Returns whether the block has live stores.
        """
        state, is_new = self.blocks.get(id(block)), False
        if state is None:
            pending = [(i, *self.rows.resolve(store.location, scopes)) for i, store in enumerate(block.stores)]
            state = _BlockState(scopes, pending, {i.result: i for i in block.instructions})
            self.blocks[id(block)], is_new = state, True
        keep = keep or state.scopes != scopes  # the same block in two places
        if not state.pending or (state.version == self._loaded.version and not keep):
            return bool(state.live_stores)
        includes_any, rest, state.version = self._loaded.includes_any, [], self._loaded.version
        for store in state.pending:
            i, arena, rows = store
            if not (keep or includes_any(arena, rows) or (is_new and self._outlives_run(arena, rows))):
                rest.append(store)
                continue
            state.live_stores.add(i)
            self._changed = True
            self._mark_values(state, block.stores[i].uses)
        state.pending = rest
        return bool(state.live_stores)

    def _mark_values(self, state: _BlockState, values: list[int]) -> None:
        """Mark values of a block as live, with all values and loads that they depend on."""
        live, definitions, pending = state.live_values, state.definitions, list(values)
        while pending:
            value = pending.pop()
            if value in live:
                continue
            live.add(value)
            _, _, args, location = definitions[value]
            pending += [a for a in args if type(a) is int and a not in live]
            if location is not None:
                if location.index is not None:
                    pending.append(location.index)
                self._mark_loaded(location, state.scopes)

    # ------------------------------------------------------------------------------------------------------ live code

    def live_statements(self, statements: Statements) -> Statements:
        """Return statements without dead stores, dead instructions, and loops and branches that become empty."""
        result: list[Statement] = []
        for statement in statements:
            if isinstance(statement, BasicBlock):
                block = self._live_block(statement)
                if block.stores:
                    result.append(block)
                continue
            new = map_bodies(statement, self.live_statements)
            is_empty = isinstance(new, ForEachLoop | CountedLoop | WhileLoop | If) and not any(nested_bodies(new))
            if not is_empty:
                result.append(without_empty_rows(new) if isinstance(new, ForEachLoop) else new)
        return tuple(result)

    def _live_block(self, block: BasicBlock) -> BasicBlock:
        state = self.blocks[id(block)]
        if len(state.live_stores) == len(block.stores):
            return block
        stores = tuple(store for i, store in enumerate(block.stores) if i in state.live_stores)
        return BasicBlock(tuple(i for i in block.instructions if i.result in state.live_values), stores)


def without_empty_rows(loop: ForEachLoop) -> ForEachLoop:
    """Copy of a for-each loop without the specializations that have empty bodies, and without their rows.

    Returns the loop itself if rows are referred to by their index.
    """
    kept = [i for i, specialization in enumerate(loop.specializations) if specialization.body]
    if (
        len(kept) == len(loop.specializations)
        or loop.range_name
        or loop.active_iterations
        or loop.schedule
        or loop.joined_rows
    ):
        return loop
    indices = loop.specialization_indices()
    rows = np.isin(indices, kept)
    ints = loop.ints[rows].copy()
    ints[:, 0] = np.searchsorted(kept, indices[rows])  # ignored if a single specialization is left
    return replace(
        loop, specializations=tuple(loop.specializations[i] for i in kept), ints=ints, floats=loop.floats[rows]
    )
