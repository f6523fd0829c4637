"""Plan of a reverse-mode derivative: which operations have adjoints, and which values are recorded for them.

The adjoint of a statement runs after the whole program. A value that was loaded from memory is loaded again if no later
statement overwrites the cell; other values are recorded on the tape.
"""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass, field

import numpy as np

from kinema.core import KinemaError

from .activity import CellRows, UsefulCells, VariedCells, find_scope
from .execution_order import Body, CellTimes, Node, execution_tree, nodes_of
from .memory import SCRATCH, ArenaOffset, MemoryLocation
from .program import (
    BasicBlock,
    CountedLoop,
    ForEachLoop,
    If,
    Instruction,
    Program,
    Statements,
    Store,
    WhileLoop,
    memory_accesses,
    walk,
)
from .tape_layout import Frame, TapeLayout
from .vjp_rules import RecordedValues, choose_recorded_values, needed_values


@dataclass(slots=True, eq=False)
class BlockPlan:
    """Adjoint of a basic block."""

    active: set[int] = field(default_factory=set)
    """Values that depend on the inputs and that the outputs depend on."""
    loads: list[Instruction] = field(default_factory=list)
    """Loads of active values: they add to adjoints in memory."""
    stores: list[int] = field(default_factory=list)
    """Positions of the stores to cells with adjoints."""
    values: RecordedValues = field(default_factory=RecordedValues)
    slots: dict[int, tuple[Frame, int]] = field(default_factory=dict)
    """Recorded value -> frame and slot."""
    recorded_outside: set[int] = field(default_factory=set)
    """Recorded values that are loaded and recorded before an enclosing loop, as the loop does not change them."""


@dataclass(slots=True, eq=False)
class ControlPlan:
    """Condition of a branch or trip count of a loop in the adjoint: recorded, constant or loaded from memory again."""

    slot: int | None = None
    """Slot in the frame of the statement sequence; None if nothing is recorded."""
    constant: float | MemoryLocation | None = None
    """Trip count, if it is a number or a constant of a row of an enclosing table."""


class ReversePlan:
    """Results of all analyses of a program that is differentiated."""

    def __init__(
        self,
        program: Program,
        inputs: Collection[tuple[str, int]],
        outputs: Collection[tuple[str, int]],
        array_offsets: Mapping[str, ArenaOffset],
        stack_capacity: int,
        *,
        keep_outputs: bool,
        clears_lists_in_reverse: bool = False,
    ) -> None:
        check_differentiable(program.body)
        self.program = program
        self.clears_lists_in_reverse = clears_lists_in_reverse
        """Whether adjoints of lists are set to zero between the sweeps, instead of by the forward sweep."""
        self.varied = VariedCells(program, array_offsets, inputs)
        self.rows: CellRows = self.varied.rows
        self.useful = UsefulCells(program, self.rows, outputs)
        self.root = execution_tree(program.body, self.rows)
        self.nodes = list(nodes_of(self.root))
        self._constant_counts = self._find_constant_counts()
        bounds = {id(node): self._max_iterations(node) for node in self.nodes}
        self.layout = TapeLayout(self.root, bounds, self._constant_counts.keys(), stack_capacity)
        self.blocks = {
            id(node): self._block_plan(node) for node in self.nodes if isinstance(node.statement, BasicBlock)
        }
        self.indexed_scratch = self._find_indexed_scratch()
        """Rows of scratch memory with adjoints that have stores at dynamic indices."""
        self.with_adjoint: set[int] = set()
        """Identities of the nodes that have an adjoint."""
        for node in self.nodes:
            if id(node) in self.blocks and self.blocks[id(node)].stores:
                self._mark_adjoint(node)
        self.discarded_stores = set[tuple[int, int]]() if keep_outputs else self._find_discarded_stores()
        """Stores (identity of the node, position) to outputs that no later statement loads."""
        self._last_writes = self._find_last_writes()
        self.zeroed_locals = self._place_zeroing()
        """Statement sequence (by identity) -> local arrays whose adjoints are zeroed before its adjoint runs."""
        self.inner_branches = self._find_inner_branches()
        """Branches that have an effect by other branches inside only, by identity of the node: the innermost ones.

        The adjoint of such a branch runs if one of these was taken: otherwise all adjoints that it propagates are zero.
        """
        self.controls: dict[int, ControlPlan] = {}
        """Branches and counted loops with an adjoint, by identity of the node."""
        self.recorded_before: dict[int, dict[MemoryLocation, int]] = defaultdict(dict)
        """Memory locations recorded before a loop with their slots, by identity of the node."""
        self._stored_cells: dict[int, dict[str, set[int]]] = {}
        for node in self.nodes:
            if id(node) in self.with_adjoint:
                self._plan_recording(node)
        self._first_accesses = self._find_first_accesses()

    # ------------------------------------------------------------------------------------------------------- activity

    def is_active(self, location: MemoryLocation, node: Node) -> bool:
        """Whether a memory reference may refer to cells with adjoints."""
        return self.varied.is_varied(location, node.scopes) and self.useful.is_useful(location, node.scopes)

    def active_rows(self, arena: str) -> list[int]:
        """Rows of an arena or local array with adjoints."""
        return sorted(self.varied.cells.get(arena, set()) & self.useful.cells.get(arena, set()))

    def is_indexed(self, location: MemoryLocation, node: Node) -> bool:
        """Whether a memory reference is to scratch memory with adjoints that has stores at dynamic indices."""
        arena, rows = self.rows.resolve(location, node.scopes)
        return arena == SCRATCH and not self.indexed_scratch.isdisjoint(rows)

    def indexed_stores(self, node: Node) -> list[MemoryLocation]:
        """References of the stores of a basic block to scratch memory with stores at dynamic indices and adjoints."""
        block = node.statement
        assert isinstance(block, BasicBlock)
        locations = [block.stores[i].location for i in self.blocks[id(node)].stores]
        return [location for location in locations if self.is_indexed(location, node)]

    def _find_indexed_scratch(self) -> set[int]:
        lists: dict[int, list[int]] = {}  # the same one for all references to an allocation
        for node in self.nodes:
            if id(node) in self.blocks and isinstance(node.statement, BasicBlock):
                for i in self.blocks[id(node)].stores:
                    location = node.statement.stores[i].location
                    if location.index is not None:
                        arena, rows = self.rows.resolve(location, node.scopes)
                        if arena == SCRATCH:
                            lists[id(rows)] = rows
        found = {row for rows in lists.values() for row in rows}
        if -1 in found:
            return set()
        return found.intersection(self.active_rows(SCRATCH))

    def _block_plan(self, node: Node) -> BlockPlan:
        """Activity of a basic block: active values, their loads, and stores to cells with adjoints."""
        block = node.statement
        assert isinstance(block, BasicBlock)
        stores = [i for i, store in enumerate(block.stores) if self.is_active(store.location, node)]
        if not stores:
            return BlockPlan()
        scopes = node.scopes
        active = self.varied.varied_values(block, scopes) & self.useful.useful_values(block, scopes)
        loads = [i for i in block.instructions if i.location is not None and i.result in active]
        return BlockPlan(active, loads, stores)

    def _mark_adjoint(self, node: Node) -> None:
        current: Node | None = node
        while current is not None and id(current) not in self.with_adjoint:
            self.with_adjoint.add(id(current))
            current = current.parent.owner

    def stored_arenas(self) -> set[str]:
        """Arenas and arrays outside of scratch memory that the program stores to."""
        return {
            self.rows.resolve(store.location, node.scopes)[0]
            for node in self.nodes
            if isinstance(node.statement, BasicBlock)
            for store in node.statement.stores
            if not self.is_transient(store.location, node)
        }

    # ---------------------------------------------------------------------------------------------- times of accesses

    def _find_discarded_stores(self) -> set[tuple[int, int]]:
        """Stores (node identity, position) to arenas other than scratch memory that no later statement loads."""
        last_loads = CellTimes(self.rows)
        for node in self.nodes:
            executions = node.parent.executions
            time = node.time if executions.loop_end is None else executions.loop_end
            if isinstance(node.statement, WhileLoop):  # loads its condition at the end
                time = node.bodies[0].executions.loop_end
                assert time is not None
            for location, is_write in memory_accesses(node.statement):
                if not is_write and not self._is_constant(location, node):
                    last_loads.add(location, executions, time)
        return {
            (id(node), i)
            for node in self.nodes
            if isinstance(node.statement, BasicBlock)
            for i, store in enumerate(node.statement.stores)
            if not self.is_transient(store.location, node)
            and not last_loads.after(store.location, node.parent.executions, node.time)
        }

    def _find_last_writes(self) -> CellTimes:
        """Latest time of a store to each memory cell, without discarded stores."""
        writes = CellTimes(self.rows)
        for node in self.nodes:
            if isinstance(node.statement, BasicBlock):
                executions = node.parent.executions
                time = node.time + 1 if executions.loop_end is None else executions.loop_end
                for i, store in enumerate(node.statement.stores):
                    if (id(node), i) not in self.discarded_stores:
                        writes.add(store.location, executions, time)
        return writes

    def _find_first_accesses(self) -> CellTimes:
        """Earliest time of an access to each cell with an adjoint."""
        accesses = CellTimes(self.rows, earliest=True)
        for node in self.nodes:
            plan = self.blocks.get(id(node))
            if plan is not None and isinstance(node.statement, BasicBlock):
                locations = [x.location for x in plan.loads if x.location is not None]
                for location in locations:
                    accesses.add(location, node.parent.executions, node.time)
                for i in plan.stores:
                    accesses.add(node.statement.stores[i].location, node.parent.executions, node.time + 1)
        return accesses

    def needs_zeroing(self, location: MemoryLocation, node: Node) -> bool:
        """Whether the adjoint of a store must leave zero, as the adjoint of an earlier statement adds to the cell."""
        if node.parent.executions.loop_end is not None or not self.is_transient(location, node):
            return True
        return self._first_accesses.after(location, node.parent.executions, node.time + 1)

    def is_transient(self, location: MemoryLocation, node: Node) -> bool:
        """Whether a memory reference is to scratch memory or a local array."""
        arena, _ = self.rows.resolve(location, node.scopes)
        return arena == SCRATCH or arena in self.program.locals

    def is_unchanged(self, location: MemoryLocation, node: Node) -> bool:
        """Whether memory that a statement loads has the same value at the end of the program."""
        return self._is_constant(location, node) or not self._last_writes.after(
            location, node.parent.executions, node.time
        )

    @staticmethod
    def _is_constant(location: MemoryLocation, node: Node) -> bool:
        """Whether a memory reference is to a constant of a row."""
        return any(location in scope.specialization.constant_columns for scope in node.scopes)

    # --------------------------------------------------------------------------------------------------- trip counts

    def _find_constant_counts(self) -> dict[int, float | MemoryLocation]:
        """Trip counts of counted loops that are numbers or constants of rows, by identity of the node.

        The trip count is loaded from a local array that has a single store: of a constant, by an earlier statement of
        the same sequence.
        """
        stores: dict[MemoryLocation, list[tuple[Node, Store]]] = defaultdict(list)
        excluded = {
            arena
            for loop in self.program.for_each_loops
            for specialization in loop.specializations
            for arena, _ in specialization.array_columns.values()
        }
        for node in self.nodes:
            if isinstance(node.statement, BasicBlock):
                for store in node.statement.stores:
                    stores[store.location._replace(index=None)].append((node, store))
                    if store.location.index is not None:
                        excluded.add(store.location.array)
        counts: dict[int, float | MemoryLocation] = {}
        for node in self.nodes:
            if isinstance(node.statement, CountedLoop):
                location, scopes = node.statement.count, node.scopes
                found = stores[location]
                if (
                    len(found) == 1
                    and location.array in self.program.locals.keys() - excluded
                    and find_scope(location.array, scopes) is None
                    and found[0][0].parent is node.parent
                    and (found[0][0].time < node.time).all()
                    and (constant := self._constant_value(*found[0])) is not None
                ):
                    counts[id(node)] = constant
        return counts

    def _constant_value(self, node: Node, store: Store) -> float | MemoryLocation | None:
        """The value of a store if it is a number or a constant of a row."""
        if type(store.value) is float:
            return store.value
        assert isinstance(node.statement, BasicBlock)
        location = next(i.location for i in node.statement.instructions if i.result == store.value)
        return location if location is not None and self._is_constant(location, node) else None

    def _max_iterations(self, node: Node) -> int | None:
        """Upper bound of the number of iterations of a counted loop or while loop; None if it is not known."""
        constant = self._constant_counts.get(id(node))
        match node.statement:
            case CountedLoop() if constant is None:
                return node.statement.max_iterations
            case CountedLoop() if isinstance(constant, MemoryLocation):
                scope = next(x for x in reversed(node.scopes) if constant in x.specialization.constant_columns)
                values = scope.floats[:, scope.specialization.constant_columns[constant]]
                return math.ceil(max(0.0, *values)) if scope.floats.dtype == np.float64 else None
            case CountedLoop():
                return math.ceil(constant) if type(constant) is float else None
            case WhileLoop():
                return node.statement.max_iterations
        return None

    # ------------------------------------------------------------------------------------------------------ recording

    def _plan_recording(self, node: Node) -> None:
        """Choose recording or recomputation of the values that the adjoint of a node needs; allocate tape slots.

        Sets the plan of a basic block, or the `ControlPlan` of a branch or loop.
        """
        statement, frame = node.statement, self.layout.frame(node.parent)
        match statement:
            case BasicBlock():
                plan = self.blocks[id(node)]
                needed = needed_values(statement, plan.active)
                locations = [x.location for x in plan.loads if x.location is not None]
                locations += [statement.stores[i].location for i in plan.stores]
                needed.update(x.index for x in locations if x.index is not None)
                plan.values = choose_recorded_values(
                    statement, needed, lambda i: i.location is not None and self.is_unchanged(i.location, node)
                )
                definitions = {i.result: i for i in statement.instructions}
                for value in plan.values.recorded:
                    outside = self._record_outside(node, definitions[value].location)
                    plan.slots[value] = outside or (frame, frame.allocate())
                    if outside is not None:
                        plan.recorded_outside.add(value)
            case If():
                unchanged = id(node) not in self.inner_branches and self.is_unchanged(statement.condition, node)
                self.controls[id(node)] = ControlPlan(None if unchanged else frame.allocate())
            case CountedLoop():
                constant = self._constant_counts.get(id(node))
                unchanged = constant is not None or self.is_unchanged(statement.count, node)
                self.controls[id(node)] = ControlPlan(None if unchanged else frame.allocate(), constant)
            case WhileLoop():
                self.controls[id(node)] = ControlPlan(frame.allocate())
            case _:
                pass
        loop = self.layout.loops.get(id(node))
        if loop is not None and loop.capacity is not None:
            loop.end_slot = frame.allocate()

    def _record_outside(self, node: Node, location: MemoryLocation | None) -> tuple[Frame, int] | None:
        """Plan the recording of a loop-invariant load before the outermost counted or while loop; None if it varies.

        Returns the frame and slot of the value.
        """
        if location is None or location.index is not None:
            return None
        arena, rows = self.rows.resolve(location, node.scopes)
        outermost, owner = None, node.parent.owner
        while owner is not None and isinstance(owner.statement, CountedLoop | WhileLoop | If):
            if id(owner) not in self._stored_cells:
                self._stored_cells[id(owner)] = self._cells_stored_in(owner)
            stored = self._stored_cells[id(owner)].get(arena, set())
            if -1 in stored or not stored.isdisjoint(rows):
                break
            outermost = owner if isinstance(owner.statement, CountedLoop | WhileLoop) else outermost
            owner = owner.parent.owner
        if outermost is None:
            return None
        frame, recorded = self.layout.frame(outermost.parent), self.recorded_before[id(outermost)]
        if location not in recorded:
            recorded[location] = frame.allocate()
        return frame, recorded[location]

    def _cells_stored_in(self, node: Node) -> dict[str, set[int]]:
        """Rows of each arena to which the statements inside a node may store; -1 for an unknown row."""
        lists: dict[int, tuple[str, list[int]]] = {}  # the same one for all references to an allocation
        for body in node.bodies:
            for inner in nodes_of(body):
                if isinstance(inner.statement, BasicBlock):
                    for store in inner.statement.stores:
                        found = self.rows.resolve(store.location, inner.scopes)
                        lists[id(found[1])] = found
        cells: dict[str, set[int]] = defaultdict(set)
        for arena, rows in lists.values():
            cells[arena].update(rows)
        return cells

    # ------------------------------------------------------------------------------------------------ effects by branch

    def _find_inner_branches(self) -> dict[int, list[Node]]:
        bodies = {name: body for body, names in self.zeroed_locals.items() for name in names}
        found: dict[int, list[Node]] = {}
        for node in reversed(self.nodes):  # inner branches first
            if isinstance(node.statement, If) and id(node) in self.with_adjoint:
                own = {id(body) for body in (*node.bodies, *(b for x in nodes_of(node.bodies[0]) for b in x.bodies))}
                local_arrays = {name for name, body in bodies.items() if body in own}
                branches = self._branches_with_effect(node.bodies[0], local_arrays)
                if branches:
                    found[id(node)] = [x for branch in branches for x in found.get(id(branch), [branch])]
        return found

    def _branches_with_effect(self, body: Body, local_arrays: Collection[str]) -> list[Node] | None:
        """Outermost branches in a sequence with stores to cells with adjoints other than those of some local arrays.

        None if the sequence has such stores outside of branches, or for-each loops.
        """
        branches: list[Node] = []
        for node in body.nodes:
            if id(node) not in self.with_adjoint:
                continue
            match node.statement:
                case If():
                    if self._has_effect(node, local_arrays):
                        branches.append(node)
                case CountedLoop() | WhileLoop():
                    inner = self._branches_with_effect(node.bodies[0], local_arrays)
                    if inner is None:
                        return None
                    branches += inner
                case _:
                    if isinstance(node.statement, ForEachLoop) or self._has_effect(node, local_arrays):
                        return None
        return branches

    def _has_effect(self, node: Node, local_arrays: Collection[str]) -> bool:
        """Whether a statement stores to cells with adjoints other than those of some local arrays."""
        nodes = [node, *(x for body in node.bodies for x in nodes_of(body))]
        return any(
            self.rows.resolve(x.statement.stores[i].location, x.scopes)[0] not in local_arrays
            for x in nodes
            if isinstance(x.statement, BasicBlock)
            for i in self.blocks[id(x)].stores
        )

    # --------------------------------------------------------------------------------------- adjoints of local arrays

    def _place_zeroing(self) -> dict[int, list[str]]:
        """Innermost statement sequence (by identity) that contains the lifetime of each local array with adjoints.

        The sequence contains all accesses to the array, and stores to each element before loading it: then no adjoint
        is carried from one execution of the sequence to another.
        """
        users: dict[str, list[Node]] = defaultdict(list)
        for node in self.nodes:
            for location, _ in memory_accesses(node.statement):
                if not self._is_constant(location, node):
                    arena, _ = self.rows.resolve(location, node.scopes)
                    if arena in self.program.locals:
                        users[arena].append(node)
        places: dict[int, list[str]] = defaultdict(list)
        for name, nodes in users.items():
            if not self.active_rows(name):
                continue
            around = set[int]()
            for user in nodes:
                node: Node | None = user
                while node is not None and id(node) not in around:
                    around.add(id(node))
                    node = node.parent.owner
            body = _common_body([user.parent for user in nodes])
            while body.owner is not None and self._is_exposed(body, name, around, set()):
                body = body.owner.parent
            places[id(body)].append(name)
        return places

    def _is_exposed(self, body: Body, name: str, users: Collection[int], stored: set[int]) -> bool:
        """Whether a statement sequence may load an element of a local array that it has not stored before.

        Elements that it stores in any case are added to `stored`. `users` are the nodes that access the array, and
        those around them, by identity.
        """
        for node in body.nodes:
            if id(node) not in users:
                continue
            accesses = list(memory_accesses(node.statement))
            if isinstance(node.statement, WhileLoop):
                if self._is_exposed(node.bodies[0], name, users, stored):
                    return True
            elif any(self._is_exposed(inner, name, users, set(stored)) for inner in node.bodies):
                return True
            for location, is_write in accesses:
                if not is_write and any(x not in stored for x in self._elements(location, node, name)):
                    return True
            for location, is_write in accesses:
                if is_write and location.index is None and find_scope(location.array, node.scopes) is None:
                    stored.update(self._elements(location, node, name))
        return False

    def _elements(self, location: MemoryLocation, node: Node, name: str) -> list[int]:
        """Elements of a local array that a memory reference may refer to."""
        if self._is_constant(location, node):
            return []
        arena, rows = self.rows.resolve(location, node.scopes)
        return rows if arena == name else []


def check_differentiable(statements: Statements) -> None:
    """Raise KinemaError for the first statement that has no derivative."""
    for statement in walk(statements):
        if not isinstance(statement, BasicBlock | ForEachLoop | CountedLoop | WhileLoop | If) or (
            isinstance(statement, ForEachLoop) and (statement.schedule or statement.reductions)
        ):
            raise KinemaError(f"there is no derivative of {type(statement).__name__} {statement.name!r}")


def _common_body(bodies: Collection[Body]) -> Body:
    """Innermost statement sequence that contains all given ones."""

    def path(body: Body) -> Iterator[Body]:
        yield body
        while body.owner is not None:
            body = body.owner.parent
            yield body

    first, *others = {id(body): list(path(body)) for body in bodies}.values()
    shared = set.intersection(*({id(x) for x in other} for other in (first, *others)))
    return next(body for body in first if id(body) in shared)
