"""Tracer: records an algorithm on symbolic scalars as a program of basic blocks, loops and branches.

Control flow is expressed by higher-order functions, so that the same algorithm also runs on plain numbers: without a
tracer, `while_loop` is an ordinary Python loop. Values used in a later basic block than the one that computes them are
passed through a local array. Assembling the program eliminates dead code.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field

from .intrinsics import AtomicIncrement
from .memory import MemoryLocation
from .program import (
    BasicBlock,
    CountedLoop,
    If,
    Instruction,
    Program,
    Statement,
    Statements,
    Store,
    WarpRegion,
    WhileLoop,
)
from .symbolic import Scalar, Tape, Value, select

LIVE_OUT_ARRAY = "live out"
"""Name of the local array that passes values from one basic block to later ones."""
LoopState = Sequence[Value]
"""Values carried from one loop iteration to the next."""
LoopStep = Callable[[LoopState], "tuple[LoopState, Value, Value]"]
"""Body of a while loop: state -> (next state, a, b); the loop continues while a < b."""


@dataclass(slots=True, eq=False)
class _OpenBlock:
    """Basic block under construction: its tape and its stores."""

    tape: Tape
    stores: list[Store] = field(default_factory=list)


@dataclass(slots=True, eq=False)
class _OpenBody:
    """Body of a loop, branch or warp region under construction, and the constructor of the statement."""

    make_statement: Callable[[Statements], Statement]
    items: list[_OpenBlock | _OpenBody | Statement]


class Tracer:
    """Records the operations of an algorithm on the arrays of one environment as a program."""

    def __init__(self, prefix: str = "", *, differentiable: bool = False) -> None:
        self.prefix = prefix
        """Prefix of the names of local arrays, unique within a program."""
        self.differentiable = differentiable
        """Whether the program is traced to be differentiated (`without_derivative`, `with_derivative_of`)."""
        self.locals: dict[str, int] = {}
        self._body_stack: list[list[_OpenBlock | _OpenBody | Statement]] = [[]]
        self._live_out: dict[tuple[Tape, int], int] = {}
        self._region = 0
        """Number of the current warp region (code that a warp executes cooperatively), from 1, or 0 outside.

        Values cannot cross its boundary.
        """
        self._n_regions = 0
        self._region_of: dict[Tape, int] = {}
        self.new_basic_block()

    def new_basic_block(self) -> None:
        """Start a new basic block."""
        self.tape = Tape(owner=self)
        self._region_of[self.tape] = self._region
        self._open_block = _OpenBlock(self.tape)
        self._body_stack[-1].append(self._open_block)

    # ---------------------------------------------------------------------------------------------- loads and stores

    def read(self, array: str, element: int = 0, index: Value | None = None) -> Value:
        """Load an array element (plus an optional dynamic index) at its value before the current basic block."""
        return self.tape.input(array, element, index)

    def write(self, array: str, values: Sequence[Value], element: int = 0, index: Value | None = None) -> None:
        """Record stores to consecutive array elements from `element` (+ `index`) on, at the end of the basic block."""
        if isinstance(index, float | int):
            element, index = element + int(index), None
        index_value = None if index is None else self.tape.operand(index)
        assert index_value is None or isinstance(index_value, int)
        for i, value in enumerate(values):
            self._open_block.stores.append(
                Store(MemoryLocation(array, element + i, index_value), self.tape.operand(value))
            )

    def allocate_local(self, size: int) -> str:
        """Allocate a local array of `size` elements and return its name."""
        name = f"{self.prefix}local {len(self.locals)}"
        self.locals[name] = size
        return name

    def import_value(self, value: Scalar) -> Scalar:
        """Load a value of an earlier basic block in the current block; the earlier block stores it to a local array.

        The value must belong to this tracer and to the same warp region (or to none).
        """
        assert value.tape.owner is self, "the body of a table loop cannot use values computed outside the loop"
        assert self._region_of[value.tape] is self._region, (
            "a warp region and the code around it share memory, but no values"
        )
        key = (value.tape, value.value_number)
        position = self._live_out.setdefault(key, len(self._live_out))
        return self.tape.input(self._live_out_array(value.tape), position)

    def _live_out_array(self, tape: Tape) -> str:
        """Name of the local live-out array of a tape; each warp region has an array of its own."""
        region = self._region_of[tape]
        return f"{self.prefix}{LIVE_OUT_ARRAY}{f' of warp region {region}' if region else ''}"

    # ---------------------------------------------------------------------------------------------- loops and branches

    @contextmanager
    def _nested_body(self, make_statement: Callable[[Statements], Statement]) -> Iterator[None]:
        """Context manager: the statements recorded inside become the body of `make_statement(body)`."""
        body = _OpenBody(make_statement, [])
        self._body_stack[-1].append(body)
        self._body_stack.append(body.items)
        self.new_basic_block()
        yield
        self._body_stack.pop()
        self.new_basic_block()

    @property
    def in_warp_region(self) -> bool:
        """Whether a warp executes the current code cooperatively (warp region).

        More and smaller loop iterations run faster there.
        """
        return self._region > 0

    @contextmanager
    def warp_region(self, name: str, workload: Sequence[MemoryLocation] = ()) -> Iterator[None]:
        """Context manager: record code that a warp executes cooperatively (warp region).

        The sum of the `workload` locations estimates its amount of work.
        """
        assert not self._region, "warp regions cannot be nested"
        with self._nested_body(lambda statements: WarpRegion(name, statements, tuple(workload))):
            self._n_regions += 1
            self._region = self._n_regions
            self.new_basic_block()
            yield
            self._region = 0

    def while_loop(self, name: str, step: LoopStep, initial: LoopState, max_iterations: int) -> list[Value]:
        """Record a do-while loop: `step` maps the state to (next state, a, b) and is repeated while a < b.

        At most `max_iterations` iterations; below 1, the initial state is returned. The state is kept in a local array.
        Returns the final state.
        """
        if max_iterations < 1:
            return list(initial)
        state, n = self.allocate_local(len(initial) + 1), len(initial)
        self.write(state, initial)
        with self._nested_body(
            lambda statements: WhileLoop(name, MemoryLocation(state, n), statements, max_iterations)
        ):
            next_state, a, b = step([self.read(state, i) for i in range(n)])
            assert len(next_state) == n, "the loop state must keep its length"
            self.write(state, [*next_state, select(a, b, 1.0, 0.0)])
        return [self.read(state, i) for i in range(n)]

    def if_less(
        self,
        name: str,
        a: Value,
        b: Value,
        then: Callable[[], Sequence[Value]],
        otherwise: Sequence[Value],
        *,
        scalarize: bool = False,
        uniform: bool = False,
    ) -> list[Value]:
        """Record a branch: returns the values of `then()` where a < b, else `otherwise`; `then` runs only if needed.

        `scalarize` makes a CPU execute the branch one SIMD lane (environment) at a time. `uniform` states that all
        environments take the same branch.
        """
        state, n = self.allocate_local(len(otherwise) + 1), len(otherwise)
        self.write(state, [*otherwise, select(a, b, 1.0, 0.0)])
        with self._nested_body(lambda statements: If(name, MemoryLocation(state, n), statements, scalarize, uniform)):
            results = then()
            assert len(results) == n, "`then` must return as many values as `otherwise`"
            self.write(state, results)
        return [self.read(state, i) for i in range(n)]

    def counted_loop(
        self,
        name: str,
        count: Value,
        body: Callable[[Value], None],
        *,
        uniform: bool = False,
        max_iterations: int | None = None,
        reverse: bool = False,
    ) -> None:
        """Record a loop that calls `body(index)` for index 0 to `count` - 1; iterations pass data through arrays only.

        `uniform` states that the trip count is the same in all environments, `max_iterations` is a known upper bound
        (implied by a constant count), and with `reverse` the index counts down to 0.
        """
        max_iterations = int(count) if isinstance(count, float | int) else max_iterations
        count_array = self.allocate_local(1)
        self.write(count_array, [count])
        with self._nested_body(
            lambda statements: CountedLoop(
                name,
                MemoryLocation(count_array, 0),
                statements,
                uniform,
                max_iterations=max_iterations,
                reversed=reverse,
            )
        ):
            body(self.loop_index())

    def parallel_loop(
        self, name: str, count: Value, body: Callable[[Value], Sequence[Value]], n_sums: int = 0
    ) -> list[Value]:
        """Record a loop of `count` independent iterations with a sum reduction; returns the `n_sums` sums.

        `body(index)` returns the summands of one iteration. In a warp region, the iterations are distributed over the
        threads of the warp.
        """
        count_array, sums = self.allocate_local(1), self.allocate_local(max(n_sums, 1))
        self.write(count_array, [count])
        self.write(sums, [0.0] * n_sums)
        accumulators = tuple(MemoryLocation(sums, i) for i in range(n_sums))
        max_iterations = int(count) if isinstance(count, float | int) else None
        with self._nested_body(
            lambda statements: CountedLoop(
                name,
                MemoryLocation(count_array, 0),
                statements,
                parallel=True,
                max_iterations=max_iterations,
                reductions=accumulators,
            )
        ):
            summands = body(self.loop_index())
            assert len(summands) == n_sums, "each iteration must return n_sums values"
            self.write(sums, [self.read(sums, i) + x for i, x in enumerate(summands)])
        return [self.read(sums, i) for i in range(n_sums)]

    def atomic_increment(self, array: str, element: int = 0) -> Value:
        """Record an atomic increment of a counter in memory and return its previous value."""
        result = self.allocate_local(1)
        self.add_statement(
            AtomicIncrement("atomic increment", MemoryLocation(array, element), MemoryLocation(result, 0)), {}
        )
        return self.read(result)

    def loop_index(self) -> Value:
        """Index of the current iteration of the innermost counted loop."""
        return self.tape.record("loop_index")

    def add_statement(
        self,
        statement: Statement,
        local_arrays: Mapping[str, int],
    ) -> None:
        """Append a complete statement, declare its local arrays and start a new basic block."""
        self.locals.update(local_arrays)
        self._body_stack[-1].append(statement)
        self.new_basic_block()

    # ------------------------------------------------------------------------------------------------ program assembly

    def build(
        self,
        outputs: Mapping[str, Sequence[Value]] | None = None,
        n_scratch: int = 0,
        allocation_starts: Sequence[int] = (),
        oversized_lists: Collection[int] = (),
    ) -> Program:
        """Assemble the program from all recorded statements, without dead code; the tracer is empty afterwards.

        Args:
            outputs: values to store at the end, by array.
            n_scratch: size of the scratch memory in scalars.
            allocation_starts: start offsets of the scratch allocations.
            oversized_lists: start offsets of allocations with far more capacity than usually needed.
        """
        for array, values in (outputs or {}).items():
            self.write(array, values)
        live: set[int] = set()
        live_out: dict[Tape, list[tuple[int, int]]] = {}
        for (tape, value), position in self._live_out.items():
            live_out.setdefault(tape, []).append((value, position))
        statements = self._build_body(self._body_stack[0], live, live_out)
        for (tape, _), position in self._live_out.items():
            if position in live:
                name = self._live_out_array(tape)
                self.locals[name] = max(self.locals.get(name, 0), position + 1)
        program = Program(statements, dict(self.locals), n_scratch, allocation_starts, frozenset(oversized_lists))
        self._release_tapes()
        return program

    def _release_tapes(self) -> None:
        """Drop all recorded code. Tapes refer to their tracer: as cycles they would occupy memory until collected."""
        self.locals, self._body_stack, self._live_out, self._region_of = {}, [[]], {}, {}
        self.new_basic_block()

    def _build_body(
        self,
        items: Sequence[_OpenBlock | _OpenBody | Statement],
        live: set[int],
        live_out: Mapping[Tape, Sequence[tuple[int, int]]],
    ) -> Statements:
        """Assemble recorded elements into statements, from last to first, with dead-code elimination by live-out sets.

        `live` is the set of positions of the live-out array (values passed between basic blocks) that later code reads;
        it is extended by the positions that the assembled code reads. `live_out` maps each tape to its values passed on
        and their positions. Basic blocks store only live values, and blocks without stores are dropped.
        """
        statements: list[Statement] = []
        for element in reversed(items):
            if isinstance(element, _OpenBody):
                statements.append(element.make_statement(self._build_body(element.items, live, live_out)))
            elif isinstance(element, _OpenBlock):
                tape = element.tape
                live_out_stores = [
                    Store(MemoryLocation(self._live_out_array(tape), position), value)
                    for value, position in live_out.get(tape, ())
                    if position in live
                ]
                if not element.stores and not live_out_stores:
                    continue
                block = eliminate_dead_code(tape, [*element.stores, *live_out_stores])
                array = self.prefix + LIVE_OUT_ARRAY
                if any(location.array.startswith(array) for location in tape.locations.values()):
                    live.update(
                        i.location.element
                        for i in block.instructions
                        if i.location and i.location.array.startswith(array)
                    )
                if block.stores:
                    statements.append(block)
            else:
                statements.append(element)
        return tuple(reversed(statements))


def while_loop(
    tracer: Tracer | None, name: str, step: LoopStep, initial: LoopState, max_iterations: int
) -> list[Value]:
    """Do-while loop, recorded with a tracer, or executed at once on Python floats if `tracer` is None.

    `step` maps the state to (next state, a, b) and is repeated while a < b, at most `max_iterations` times. Returns the
    final state.
    """
    if tracer is not None:
        return tracer.while_loop(name, step, initial, max_iterations)
    state: LoopState = initial
    for _ in range(max_iterations):
        state, a, b = step(state)
        if not a < b:  # type: ignore[operator]  # ty: ignore[unsupported-operator]
            break
    return list(state)


def eliminate_dead_code(tape: Tape, stores: Sequence[Store]) -> BasicBlock:
    """Dead-code elimination: a basic block with `stores` and the instructions of a tape that the stores depend on."""
    ops, arguments, locations = tape.ops, tape.args, tape.locations
    needed = bytearray(len(ops))
    for store in stores:
        for used in store.uses:
            needed[used] = True
    kept: list[Instruction] = []
    new = tuple.__new__  # three times faster than calling the class
    value = needed.rfind(True)
    while value >= 0:  # operands have lower numbers
        location = locations.get(value)
        for argument in arguments[value]:
            if type(argument) is int:
                needed[argument] = True
        if location is not None and location.index is not None:
            needed[location.index] = True
        kept.append(new(Instruction, (value, ops[value], arguments[value], location)))
        value = needed.rfind(True, 0, value)
    instructions = tuple(reversed(kept))
    return BasicBlock(instructions, tuple(stores))


def program_from_tape(tape: Tape, outputs: Mapping[str, Sequence[Value]]) -> Program:
    """Build a program of one basic block that stores `outputs` (array -> values of the tape), without dead code."""
    stores = [
        Store(MemoryLocation(array, element), tape.operand(value))
        for array, values in outputs.items()
        for element, value in enumerate(values)
    ]
    return Program((eliminate_dead_code(tape, stores),))
