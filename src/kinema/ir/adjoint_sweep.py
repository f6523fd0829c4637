"""Reverse sweep of a reverse-mode derivative: the adjoint of each statement, in reverse order.

The adjoint of a store takes the adjoint of its cell, which becomes zero, and the adjoint of a load adds to the adjoint
of its cell. As a basic block loads all its values before it stores any, both are one update of a cell that is loaded
and stored. References to cells that may be the same, such as array elements at two dynamic indices, are updated in
consecutive basic blocks.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from .execution_order import Body, Node, cells_of, nested_row_ranges
from .memory import FIRST_ITERATION_PREFIX, SCRATCH, MemoryLocation
from .program import BasicBlock, CountedLoop, ForEachLoop, If, LoopSpecialization, Statements, Store, WhileLoop
from .reverse_plan import BlockPlan, ControlPlan, ReversePlan
from .sweep import ADJOINT_PREFIX, END, INDEX, POSITION, Sweep, innermost_loop
from .symbolic import (
    OP_FUNCTIONS,
    Scalar,
    Tape,
    Value,
    add,
    floor,
    is_same_value,
    maximum,
    minimum,
    multiply,
    negate,
    subtract,
)
from .tape_layout import TapedLoop
from .tracer import Tracer, eliminate_dead_code
from .vjp_rules import VJP_RULES, factor, trigonometric_partners, values_that_may_overflow

ZEROED_WIDTHS = (16, 4, 1)
"""Numbers of consecutive rows that a row of the loop that zeroes adjoints covers."""


class AdjointSweep(Sweep):
    """Statements that propagate adjoints from the end of the program to its start."""

    loop_prefix = "adjoint loop"
    array_prefix = "adjoint"
    """Prefix of the names of other local arrays."""

    def __init__(self, plan: ReversePlan, shifts: Mapping[str, int]) -> None:
        super().__init__(plan, shifts)
        self._n_blocks = 0
        locals_ = plan.program.locals
        self.local_arrays |= {ADJOINT_PREFIX + name: size for name, size in locals_.items() if plan.active_rows(name)}

    def program_body(self) -> Statements:
        """The sweep over the whole program."""
        return (*self._zero_scratch(), *self.body(self.plan.root))

    def body(self, body: Body) -> Statements:
        """Return the adjoints of the statements of a sequence, from last to first, after zeroing of local adjoints.

        Statements without an adjoint are left out.
        """
        if not any(id(node) in self.plan.with_adjoint for node in body.nodes):
            return ()
        zeroed = [
            Store(MemoryLocation(ADJOINT_PREFIX + name, row), 0.0)
            for name in self.plan.zeroed_locals.get(id(body), ())
            for row in self.plan.active_rows(name)
        ]
        first = (BasicBlock((), tuple(zeroed)),) if zeroed else ()
        nodes = [node for node in reversed(body.nodes) if id(node) in self.plan.with_adjoint]
        return (*first, *(statement for node in nodes for statement in self.statements(node)))

    def statements(self, node: Node) -> Statements:
        """Return the statements of the adjoint (reverse sweep) of a block, branch or loop."""
        statement = node.statement
        match statement:
            case BasicBlock():
                return _BlockAdjoint(self, node, statement).build()
            case ForEachLoop():
                return (self._for_each_loop(node, statement),)
            case If():
                return self._branch(node, statement)
            case CountedLoop() | WhileLoop():
                return self._loop(node, statement)
        raise AssertionError

    def next_prefix(self) -> str:
        """Prefix of the local arrays of the adjoint of a basic block."""
        self._n_blocks += 1
        return f"{self.array_prefix} {self._n_blocks} "

    # ------------------------------------------------------------------------------------------------ loops, branches

    def loop_index(self, tape: Tape, body: Body, loop: TapedLoop) -> Value:
        """Index of the current iteration of an enclosing loop, counted from the first one of the original loop."""
        if loop is not innermost_loop(self.plan, body, counted=False):
            return tape.input(self.loop_array(loop), INDEX)
        return tape.record("loop_index")

    def count_array(self, loop: TapedLoop) -> str:
        """Local array with the number of iterations of a loop, and with nothing else.

        Stores to the trip count of a uniform loop also overwrite lanes that are not active.
        """
        name = f"{self.array_prefix} count {loop.number}"
        self.local_arrays[name] = 1
        return name

    def _load_slot(self, node: Node, tape: Tape, slot: int) -> Value:
        array, element, index = self.slot(tape, node.parent, self.plan.layout.frame(node.parent), slot)
        return tape.input(array, element, index)

    def _branch(self, node: Node, branch: If) -> Statements:
        """Return the adjoint of a branch: a branch on the recorded or unchanged condition, with the adjoint body."""
        slot, body = self.plan.controls[id(node)].slot, self.body(node.bodies[0])
        if slot is None:
            return (replace(branch, body=body, uniform=False),)
        name, tape = f"{self.next_prefix()}condition", Tape()
        self.local_arrays[name] = 1
        condition = MemoryLocation(name, 0)
        value = self._load_slot(node, tape, slot)
        load = eliminate_dead_code(tape, [Store(condition, tape.operand(value))])
        return (load, replace(branch, condition=condition, body=body, uniform=False))

    def _loop(self, node: Node, statement: CountedLoop | WhileLoop) -> Statements:
        """Return the adjoint of a counted or while loop: a reversed counted loop over its iterations.

        The trip count is a constant, recorded on the tape, or loaded again from memory.
        """
        loop, control = self.plan.layout.loops[id(node)], self.plan.controls[id(node)]
        array, count = self.loop_array(loop), MemoryLocation(self.count_array(loop), 0)
        tape = Tape()
        if control.slot is not None:
            number = self._load_slot(node, tape, control.slot)
        elif control.constant is not None:
            number = _constant(tape, control)
        else:
            assert isinstance(statement, CountedLoop)
            number = tape.input(*statement.count[:2])
        stores = [Store(count, tape.operand(negate(floor(negate(number)))))]  # rounded up
        if loop.end_slot is not None:
            end = self._load_slot(node, tape, loop.end_slot)
            stores.append(Store(MemoryLocation(array, END), tape.operand(end)))
        before = eliminate_dead_code(tape, stores)
        body = (self._start_of_iteration(loop, array), *self.body(node.bodies[0]))
        is_uniform = isinstance(statement, CountedLoop) and statement.uniform and control.slot is None
        counted = CountedLoop(
            statement.name, count, body, uniform=is_uniform, max_iterations=statement.max_iterations, reversed=True
        )
        return (before, counted)

    def _start_of_iteration(self, loop: TapedLoop, array: str) -> BasicBlock:
        """Basic block at the start of an iteration: index of the original iteration, position on the stack."""
        tape = Tape()
        values: dict[int, Value] = {INDEX: tape.record("loop_index")}
        if loop.capacity is not None:
            passed = subtract(tape.input(self.count_array(loop), 0), tape.record("loop_index"))
            position = subtract(tape.input(array, END), passed)
            values[POSITION] = maximum(0.0, minimum(position, loop.capacity - 1.0))
        stores = [Store(MemoryLocation(array, i), tape.operand(value)) for i, value in values.items()]
        return eliminate_dead_code(tape, stores)

    def _for_each_loop(self, node: Node, loop: ForEachLoop) -> ForEachLoop:
        """Return the adjoint of a for-each loop: adjoint bodies, executed over the rows of its table in reverse order.

        Columns with the offsets of adjoints and of the tape are added, and ranges of nested rows are reversed.
        """
        bodies = [self.body(body) for body in node.bodies]
        columns = [self.adjoint_columns(body.executions.scopes[-1]) for body in node.bodies]
        adjoint = self.extended_loop(node, bodies, columns)
        ints = adjoint.ints.copy()
        for i, body in enumerate(node.bodies):
            rows, scope = loop.specialization_indices() == i, body.executions.scopes[-1]
            for nested in {x.range_name: x for x in _nested_loops(body) if x.range_name}.values():
                first, count = nested_row_ranges(nested, scope)
                _, column = scope.specialization.array_columns[FIRST_ITERATION_PREFIX + nested.range_name]
                ints[rows, column] = len(nested.ints) - first - count
        return replace(adjoint, ints=ints[::-1].copy(), floats=adjoint.floats[::-1].copy(), active_iterations=None)

    # -------------------------------------------------------------------------------------------------------- zeroing

    def _zero_scratch(self) -> Statements:
        """Return a for-each loop that sets the adjoints of active scratch memory to zero; empty if there are none.

        The forward sweep does so for memory with stores at dynamic indices.
        """
        cleared = self.plan.indexed_scratch
        rows = [row + self.shifts[SCRATCH] for row in self.plan.active_rows(SCRATCH) if row not in cleared]
        if not rows:
            return ()
        runs = np.split(np.array(rows), np.flatnonzero(np.diff(rows) != 1) + 1)
        table: list[tuple[int, int]] = []
        for run in runs:
            start, left = int(run[0]), len(run)
            for i, width in enumerate(ZEROED_WIDTHS):
                table += [(i, start + k * width) for k in range(left // width)]
                start, left = start + left // width * width, left % width
        specializations = []
        for width in ZEROED_WIDTHS:
            block = BasicBlock((), tuple(Store(MemoryLocation("adjoints", i), 0.0) for i in range(width)))
            specializations.append(LoopSpecialization(str(width), (block,), {"adjoints": (SCRATCH, 1)}, {}))
        ints = np.array(table, np.int32)
        return (ForEachLoop("zero adjoints", tuple(specializations), ints, np.zeros((len(ints), 0))),)


class ClearingSweep(AdjointSweep):
    """Statements that set the adjoints of lists to zero: of the elements that the forward sweep has stored."""

    loop_prefix = "clearing loop"
    array_prefix = "clearing"

    def __init__(self, plan: ReversePlan, shifts: Mapping[str, int]) -> None:
        super().__init__(plan, shifts)
        self._clearing: set[int] = set()
        """Identities of the blocks that store elements of lists, and of the statements around them."""
        for node in plan.nodes:
            current: Node | None = node
            if id(node) in plan.blocks and plan.indexed_stores(node):
                while current is not None:
                    self._clearing.add(id(current))
                    current = current.parent.owner

    def program_body(self) -> Statements:
        """The sweep over the whole program."""
        return self.body(self.plan.root)

    def body(self, body: Body) -> Statements:
        """Return the statements that clear what a sequence of statements stores, in reverse order."""
        nodes = [node for node in reversed(body.nodes) if id(node) in self._clearing]
        return tuple(statement for node in nodes for statement in self.statements(node))

    def statements(self, node: Node) -> Statements:
        """Return the statements that clear what a block, branch or loop stores."""
        if isinstance(node.statement, BasicBlock):
            return _BlockAdjoint(self, node, node.statement).build_clearing()
        return super().statements(node)


def _constant(tape: Tape, control: ControlPlan) -> Value:
    """Trip count that is a number or a constant of a row."""
    constant = control.constant
    assert constant is not None
    return tape.input(*constant[:2]) if isinstance(constant, MemoryLocation) else constant


def _nested_loops(body: Body) -> list[ForEachLoop]:
    """For-each loops directly inside a statement sequence, except loops nested in another for-each loop."""
    loops: list[ForEachLoop] = []
    for node in body.nodes:
        if isinstance(node.statement, ForEachLoop):
            loops.append(node.statement)
        else:
            loops += [loop for inner in node.bodies for loop in _nested_loops(inner)]
    return loops


class _BlockAdjoint:
    """Adjoint of one basic block."""

    def __init__(self, sweep: AdjointSweep, node: Node, block: BasicBlock) -> None:
        self.sweep, self.node, self.block = sweep, node, block
        self.plan: BlockPlan = sweep.plan.blocks[id(node)]
        self.tracer = Tracer(sweep.next_prefix())
        self.values: dict[int, Value] = {}
        """Values of the block that have been loaded or computed again."""
        self.adjoints: dict[int, Value] = {}

    def build(self) -> Statements:
        """Return the adjoint of the basic block: one basic block, or several if memory references may alias."""
        stores, loads = self._updates()
        store_phases, load_phases = self._phases(stores, loads)
        self._compute_values()
        last = max(store_phases.values(), default=0)
        for phase in range(max([last, *load_phases.values()]) + 1):
            if phase:
                self.tracer.new_basic_block()
            current = [key for key in stores if store_phases[key] == phase]
            taken = {key: self._read(key) for key in current}
            for key, value in taken.items():
                for operand in stores[key]:
                    self._add(operand, value)
            updated = {key: loads[key] for key in loads if load_phases[key] == phase}
            before = self._start_sums(updated.keys() - taken.keys(), loads) if phase == last else {}
            if phase == last:
                self._propagate()
            self._write(taken, updated, before)
        program = self.tracer.build()
        self.sweep.local_arrays.update(program.locals)
        return program.body

    def build_clearing(self) -> Statements:
        """Return a basic block that sets the adjoints of the elements of lists that the block stores to zero."""
        self._compute_values()
        for location in dict.fromkeys(self.sweep.plan.indexed_stores(self.node)):
            array, element, index = self._place(location)
            self.tracer.write(array, [0.0], element, index)
        program = self.tracer.build()
        self.sweep.local_arrays.update(program.locals)
        return program.body

    def _updates(self) -> tuple[dict[MemoryLocation, list[int]], dict[MemoryLocation, list[int]]]:
        """Active memory references: last stores in reverse order with their values, and loads with loaded values."""
        stores: dict[MemoryLocation, list[int]] = {}
        for i in reversed(self.plan.stores):
            location, value = self.block.stores[i]
            if location not in stores:
                stores[location] = [value] if type(value) is int and value in self.plan.active else []
        loads: dict[MemoryLocation, list[int]] = defaultdict(list)
        for instruction in self.plan.loads:
            assert instruction.location is not None
            loads[instruction.location].append(instruction.result)
        return stores, dict(loads)

    def _compute_values(self) -> None:
        """Record code for the primal values that the adjoint uses: read from the tape or memory, or recomputed."""
        available, slots = self.plan.values.available, self.plan.slots
        tracer, node = self.tracer, self.node
        for result, op, args, location in self.block.instructions:
            if result not in available:
                continue
            if result in slots:
                self.values[result] = tracer.read(*self.sweep.slot(tracer.tape, node.parent, *slots[result]))
            elif location is not None:
                index = None if location.index is None else self.values[location.index]
                self.values[result] = tracer.read(location.array, location.element, index)
            elif op == "loop_index":
                loop = innermost_loop(self.sweep.plan, node.parent, counted=True)
                assert loop is not None
                self.values[result] = self.sweep.loop_index(tracer.tape, node.parent, loop)
            elif op in ("detach", "attach"):
                self.values[result] = self._operand(args[0])
            else:
                self.values[result] = OP_FUNCTIONS[op](*map(self._operand, args))

    def _operand(self, operand: float) -> Value:
        return self.values[operand] if type(operand) is int else operand

    def _propagate(self) -> None:
        """Apply the VJP rules of the active operations in reverse: add adjoints of results to those of operands."""
        overflows, partners = values_that_may_overflow(self.block), trigonometric_partners(self.block)
        active = self.plan.active
        for result, op, args, location in reversed(self.block.instructions):
            d = self.adjoints.get(result, 0.0)
            if location is not None or result not in active or (type(d) is not Scalar and d == 0.0):
                continue
            if result in partners:
                product = multiply(d, self.values[partners[result]])
                self._add(args[0], negate(product) if op == "cos" else product)
                continue
            for a, rule in zip(args, VJP_RULES[op], strict=True):
                if type(a) is int and a in active:
                    operands: list[Value | None] = [None] * len(args)
                    for i in rule.operands:
                        b = args[i]
                        is_factor = op in ("mul", "fma", "fms", "fnma")
                        operands[i] = factor(self._operand(b), may_overflow=is_factor and b in overflows)
                    self._add(a, rule.contribution(d, self.values[result] if rule.needs_result else None, *operands))

    def _add(self, value: float, contribution: Value) -> None:
        if type(value) is int and value in self.plan.active:
            self.adjoints[value] = add(self.adjoints.get(value, 0.0), contribution)

    # --------------------------------------------------------------------------------------------------------- memory

    def _place(self, location: MemoryLocation) -> tuple[str, int, Value | None]:
        """Array, element and dynamic index of the adjoint of a reference."""
        array, element = self.sweep.adjoint_of(location, self.node)
        return array, element, None if location.index is None else self.values[location.index]

    def _read(self, location: MemoryLocation) -> Value:
        return self.tracer.read(*self._place(location))

    def _start_sums(
        self, keys: Collection[MemoryLocation], loads: Mapping[MemoryLocation, Sequence[int]]
    ) -> dict[MemoryLocation, Value]:
        """Initial adjoints of loads: the adjoints of their cells, so that products are added to these.

        Returns the adjoints of the cells.
        """
        before = {key: self._read(key) for key in loads if key in keys}
        for key, value in before.items():
            self._add(loads[key][0], value)
        return before

    def _write(
        self,
        taken: Mapping[MemoryLocation, Value],
        loads: Mapping[MemoryLocation, Sequence[int]],
        before: Mapping[MemoryLocation, Value],
    ) -> None:
        """Record stores of the new adjoints of the cells that the block loads or stores.

        Args:
            taken: adjoints of stored cells, whose contents before the block are overwritten.
            loads: loads of the cells to update.
            before: adjoints of cells that those of their loads already contain.
        """
        for key in dict.fromkeys([*taken, *loads]):
            total: Value = 0.0
            for value in loads.get(key, ()):
                total = add(total, self.adjoints.get(value, 0.0))
            is_zero = type(total) is not Scalar and total == 0.0
            if key in taken:
                if is_zero and not self.sweep.plan.needs_zeroing(key, self.node):
                    continue
            elif key in before:
                if is_same_value(total, before[key]):
                    continue
            elif is_zero:
                continue
            else:
                total = add(self._read(key), total)
            array, element, index = self._place(key)
            self.tracer.write(array, [total], element, index)

    def _phases(
        self, stores: Mapping[MemoryLocation, object], loads: Mapping[MemoryLocation, object]
    ) -> tuple[dict[MemoryLocation, int], dict[MemoryLocation, int]]:
        """For stores and for loads, the basic block (by number) of the adjoint that updates each reference's adjoint.

        The adjoint of a store follows the adjoints of later stores that may be to the same cell, and precedes the
        adjoints of loads. All stores are taken before adjoints are propagated.
        """
        conflicts = self._conflicts([*dict.fromkeys([*stores, *loads])])
        store_phases: dict[MemoryLocation, int] = {}
        for key in stores:
            store_phases[key] = 1 + max((store_phases[x] for x in conflicts[key] if x in store_phases), default=-1)
        last = max(store_phases.values(), default=0)
        load_phases: dict[MemoryLocation, int] = {}
        for key in loads:
            earlier = [store_phases[x] for x in conflicts[key] if x in store_phases]
            earlier += [load_phases[x] for x in conflicts[key] if x in load_phases]
            load_phases[key] = max([last, *(1 + phase for phase in earlier)])
        return store_phases, load_phases

    def _conflicts(self, locations: Sequence[MemoryLocation]) -> dict[MemoryLocation, set[MemoryLocation]]:
        """Alias analysis: for each reference of the block, the other references that may be to the same cell."""
        conflicts: dict[MemoryLocation, set[MemoryLocation]] = {location: set() for location in locations}
        rows, executions = self.sweep.plan.rows, self.node.parent.executions
        static = [location for location in locations if location.index is None]
        by_arena: dict[str, list[tuple[MemoryLocation, np.ndarray]]] = defaultdict(list)
        for location in static:
            arena, cells = cells_of(location, executions, rows)
            by_arena[arena].append((location, cells))
        for members in by_arena.values():
            for i, j in _equal_pairs([cells for _, cells in members], len(executions.start)):
                conflicts[members[i][0]].add(members[j][0])
                conflicts[members[j][0]].add(members[i][0])
        if len(static) < len(locations):
            for a, b in combinations(locations, 2):
                if (a.index is not None or b.index is not None) and self._may_alias(a, b):
                    conflicts[a].add(b)
                    conflicts[b].add(a)
        return conflicts

    def _may_alias(self, a: MemoryLocation, b: MemoryLocation) -> bool:
        """Whether two references, at least one of them at a dynamic index, may be to the same cell."""
        if a.array == b.array and a.index == b.index:
            return False  # different elements at the same index
        (arena, rows), (other_arena, other_rows) = (self.sweep.plan.rows.resolve(x, self.node.scopes) for x in (a, b))
        if arena != other_arena:
            return False
        return rows == [-1] or other_rows == [-1] or not set(rows).isdisjoint(other_rows)


def _equal_pairs(cells: Sequence[np.ndarray], n_executions: int) -> set[tuple[int, int]]:
    """Pairs (i, j), i < j, of references that access the same cell in at least one execution.

    `cells` has the cell indices of each reference, one per execution.
    """
    matrix = np.stack([np.broadcast_to(x, n_executions) for x in cells])
    order = np.argsort(matrix, axis=0, kind="stable")
    ordered = np.take_along_axis(matrix, order, axis=0)
    equal = ordered[1:] == ordered[:-1]
    pairs: set[tuple[int, int]] = set()
    for execution in np.flatnonzero(equal.any(axis=0)).tolist():
        groups: dict[int, list[int]] = defaultdict(list)
        for i, cell in enumerate(matrix[:, execution].tolist()):
            groups[cell].append(i)
        pairs.update(pair for group in groups.values() for pair in combinations(group, 2))
    return pairs
