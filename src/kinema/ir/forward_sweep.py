"""Forward sweep of a reverse-mode derivative: the original program, which records values on the tape."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from .execution_order import Body, Node
from .memory import MemoryLocation
from .program import BasicBlock, CountedLoop, ForEachLoop, If, Statement, Statements, Store, WhileLoop
from .reverse_plan import ReversePlan
from .sweep import COUNT, END, INDEX, POSITION, Sweep, innermost_loop, location_at
from .symbolic import Tape, Value, add, maximum, minimum, select
from .tape_layout import TapedLoop
from .tracer import eliminate_dead_code


class ForwardSweep(Sweep):
    """Statements of the original program with stores to the tape."""

    loop_prefix = "tape loop"

    def __init__(self, plan: ReversePlan, shifts: Mapping[str, int], overflow_flag: MemoryLocation | None) -> None:
        super().__init__(plan, shifts)
        self.overflow_flag = overflow_flag
        self.overflow = MemoryLocation("tape overflow", 0)
        """Local array with the flag that a loop has had more iterations than its stack holds."""

    def program_body(self) -> Statements:
        """Return the original program with recording of values; also resets stacks and sets the overflow flag."""
        stacks = [
            loop
            for loop in self.plan.layout.loops.values()
            if loop.capacity is not None and id(loop.node) in self.plan.with_adjoint
        ]
        body = self.body(self.plan.root)
        if not stacks:
            return body
        self.local_arrays[self.overflow.array] = 1
        starts = [MemoryLocation(self.loop_array(loop), END) for loop in stacks]
        first = BasicBlock((), tuple(Store(location, 0.0) for location in (self.overflow, *starts)))
        assert self.overflow_flag is not None
        tape = Tape()
        result = maximum(tape.input(*self.overflow_flag[:2]), tape.input(*self.overflow[:2]))
        last = eliminate_dead_code(tape, [Store(self.overflow_flag, tape.operand(result))])
        return (first, *body, last)

    def body(self, body: Body) -> Statements:
        """The sweep over a sequence of statements."""
        return tuple(statement for node in body.nodes for statement in self.statements(node))

    def statements(self, node: Node) -> Statements:
        """Return a statement whose nested blocks record values, with blocks before and after it that record conditions.

        Trip counts of loops are recorded likewise.
        """
        statement = node.statement
        bodies = [self.body(body) for body in node.bodies]
        match statement:
            case BasicBlock():
                return (self.basic_block(node, statement),)
            case ForEachLoop():
                if id(node) in self.plan.with_adjoint:  # values of all rows are recorded
                    statement = replace(statement, active_iterations=None)
                columns = [self.adjoint_columns(body.executions.scopes[-1]) for body in node.bodies]
                loop = self.extended_loop(node, bodies, columns)
                return (replace(loop, active_iterations=statement.active_iterations),)
            case If():
                branch = replace(statement, body=(*self._record_effect(node), *bodies[0]), uniform=False)
                control = self.plan.controls.get(id(node))
                recorded = None if control is None else control.slot
                if id(node) in self.plan.inner_branches:  # none of these is taken so far
                    return (self._store_slots(node.parent, [node], 0.0), branch)
                return (*self._record_location(node, statement.condition, recorded), branch)
            case CountedLoop() | WhileLoop():
                return self._loop(node, statement, bodies[0])
        raise AssertionError

    def basic_block(self, node: Node, block: BasicBlock) -> BasicBlock:
        """Return a basic block that also stores the values needed by its adjoint on the tape.

        Discarded stores are left out. Stores to scratch memory that has stores at dynamic indices also set the adjoints
        of their cells to zero: of lists with room for many elements, those that are in use.
        """
        plan = self.plan.blocks[id(node)]
        slots = {value: slot for value, slot in plan.slots.items() if value not in plan.recorded_outside}
        discarded = {i for i in range(len(block.stores)) if (id(node), i) in self.plan.discarded_stores}
        cleared = [] if self.plan.clears_lists_in_reverse else self.plan.indexed_stores(node)
        if (
            not slots
            and not discarded
            and not cleared
            and all(i.op not in ("detach", "attach") for i in block.instructions)
        ):
            return block
        tape = Tape()
        values: dict[int, Value] = {}
        for result, op, args, location in block.instructions:
            if location is not None:
                index = None if location.index is None else values[location.index]
                values[result] = tape.input(location.array, location.element, index)
            elif op in ("detach", "attach"):
                first = args[0]
                values[result] = values[first] if type(first) is int else first
            else:
                values[result] = tape.record(op, *[tape.operand(values[a]) if type(a) is int else a for a in args])
        stores = []
        for i, (location, value) in enumerate(block.stores):
            if i not in discarded:
                place = (location.array, location.element, None if location.index is None else values[location.index])
                operand = tape.operand(values[value]) if type(value) is int else value
                stores.append(Store(location_at(tape, place), operand))
        for location in dict.fromkeys(cleared):
            index = None if location.index is None else values[location.index]
            stores.append(Store(location_at(tape, (*self.adjoint_of(location, node), index)), 0.0))
        for value, (frame, slot) in slots.items():
            place = self.slot(tape, node.parent, frame, slot)
            stores.append(Store(location_at(tape, place), tape.operand(values[value])))
        return eliminate_dead_code(tape, stores)

    def loop_index(self, tape: Tape, body: Body, loop: TapedLoop) -> Value:
        """Index of the current iteration of an enclosing loop."""
        if loop is innermost_loop(self.plan, body, counted=True):
            return tape.record("loop_index")
        return tape.input(self.loop_array(loop), INDEX)

    def _record_effect(self, node: Node) -> Statements:
        """Basic block that records in a branch that the branches around it have an effect."""
        outer, current = list[Node](), node.parent.owner
        while current is not None:
            if any(x is node for x in self.plan.inner_branches.get(id(current), ())):
                outer.append(current)
            current = current.parent.owner
        return (self._store_slots(node.bodies[0], outer, 1.0),) if outer else ()

    def _store_slots(self, body: Body, branches: Sequence[Node], value: float) -> BasicBlock:
        """Basic block in a sequence that stores a value to the slots of the conditions of branches around it."""
        tape, stores = Tape(), list[Store]()
        for node in branches:
            slot = self.plan.controls[id(node)].slot
            assert slot is not None
            place = self.slot(tape, body, self.plan.layout.frame(node.parent), slot)
            stores.append(Store(location_at(tape, place), value))
        return eliminate_dead_code(tape, stores)

    def _record_location(self, node: Node, location: MemoryLocation, slot: int | None) -> Statements:
        """Basic block that records a memory location in a slot of the sequence that contains a node."""
        if slot is None:
            return ()
        tape = Tape()
        place = self.slot(tape, node.parent, self.plan.layout.frame(node.parent), slot)
        value = tape.input(location.array, location.element)
        return (eliminate_dead_code(tape, [Store(location_at(tape, place), tape.operand(value))]),)

    def _loop(self, node: Node, statement: CountedLoop | WhileLoop, body: Statements) -> Statements:
        """Return a counted or while loop that keeps iteration index and tape position, and records its trip count.

        Values that the loop does not change are recorded before the loop.
        """
        if id(node) not in self.plan.with_adjoint:
            return (replace(statement, body=body),)
        loop, control = self.plan.layout.loops[id(node)], self.plan.controls[id(node)]
        array = self.loop_array(loop)
        recorded = self.plan.recorded_before.get(id(node), {})
        before: list[Statement] = [x for key, slot in recorded.items() for x in self._record_location(node, key, slot)]
        after: list[Statement] = []
        if isinstance(statement, WhileLoop):
            before.append(BasicBlock((), (Store(MemoryLocation(array, COUNT), 0.0),)))
            after += self._record_location(node, MemoryLocation(array, COUNT), control.slot)
        else:
            before += self._record_location(node, statement.count, control.slot)
        after += self._record_location(node, MemoryLocation(array, END), loop.end_slot)
        first = self._start_of_iteration(loop, array)
        return (*before, replace(statement, body=(first, *body)), *after)

    def _start_of_iteration(self, loop: TapedLoop, array: str) -> BasicBlock:
        """Return the basic block at the start of an iteration, which updates loop index, count and stack position.

        Also sets the overflow flag if the stack is full.
        """
        tape = Tape()
        count = tape.record("loop_index") if loop.is_counted else tape.input(array, COUNT)
        values: dict[int, Value] = {INDEX: count}
        if not loop.is_counted:
            values[COUNT] = add(count, 1.0)
        stores = []
        if loop.capacity is not None:
            end = tape.input(array, END)
            values |= {POSITION: minimum(end, loop.capacity - 1.0), END: add(end, 1.0)}
            overflow = select(end, loop.capacity - 0.5, tape.input(*self.overflow[:2]), 1.0)
            stores.append(Store(self.overflow, tape.operand(overflow)))
        stores += [Store(MemoryLocation(array, i), tape.operand(value)) for i, value in values.items()]
        return eliminate_dead_code(tape, stores)
