"""Layout of the tape of a reverse-mode derivative: memory for values recorded in each execution of a statement.

A frame holds the values of one sequence of statements. The position of an execution in its frame is known at compile
time for code in for-each loops, where it is an offset column of the table; in counted and while loops it is a linear
function of the indices of the enclosing loops. Where the bounds of the loops would need too much memory, a loop gets a
stack instead: the position is the number of iterations of this loop that have run so far, up to the capacity.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field, replace

import numpy as np

from .activity import Scope
from .execution_order import Body, Ints, Node
from .memory import CONSTANT_PREFIX, SCRATCH, MemoryLocation
from .program import CountedLoop, ForEachLoop, WhileLoop

MAX_INDEXED_ITERATIONS = 4096
"""Maximum number of iterations of a counted loop, in all of its executions together, whose positions follow from the
loop indices, if the trip count varies. Unlike positions on stacks, these are the same in all environments."""
MAX_LOCAL_TAPE = 4096
"""Maximum number of elements of local arrays for tapes that are accessed at dynamic indices, as they are on the stack
of a thread; further tapes are in scratch memory. Code that accesses these cannot be unrolled."""


@dataclass(slots=True, eq=False)
class TapedLoop:
    """Counted loop or while loop with the state that recording its iterations needs."""

    number: int
    node: Node
    frame: Frame | None = None
    """Frame of the body."""
    capacity: int | None = None
    """Capacity of the stack in iterations; None if the position follows from the loop indices."""
    count_slot: int | None = None
    """Slot of the number of iterations, in the frame of the sequence that contains the loop."""
    end_slot: int | None = None
    """Slot of the end of the stack after the loop, in the same frame."""

    @property
    def is_counted(self) -> bool:
        """Whether the loop is a counted loop."""
        return isinstance(self.node.statement, CountedLoop)


@dataclass(frozen=True, slots=True, eq=False)
class RowPosition:
    """Number of the row of an enclosing for-each loop in its specialization, a constant of its table."""

    scope: Scope
    name: str

    @property
    def location(self) -> MemoryLocation:
        """Location of the constant."""
        return MemoryLocation(CONSTANT_PREFIX + self.name, 0)


@dataclass(frozen=True, slots=True)
class Term:
    """Summand of a position that is known at run time only."""

    factor: int
    source: TapedLoop | RowPosition
    """Loop, for its index or its position on the stack, or row of an enclosing for-each loop."""


@dataclass(slots=True, eq=False)
class Frame:
    """Memory for the values that a sequence of statements records; each value has a position for each execution.

    The position is row * n_inner + inner + n_rows * n_inner * outer: the row of the innermost for-each loop, the
    iteration of loops inside of it, and the execution of the for-each loop.
    """

    column_array: str
    """Name of the array of the frame in the code of `scope`."""
    scope: Scope | None = None
    """Innermost for-each loop; None outside of for-each loops, and for stacks."""
    n_inner: int = 1
    inner: tuple[Term, ...] = ()
    n_outer: int = 1
    outer: tuple[Term, ...] = ()
    n_slots: int = 0
    first_row: int = 0
    arena: str = SCRATCH

    @property
    def n_rows(self) -> int:
        """Number of rows of the innermost for-each loop."""
        return 1 if self.scope is None else len(self.scope.ints)

    @property
    def n_positions(self) -> int:
        """Number of positions, for one value each."""
        return self.n_rows * self.n_inner * self.n_outer

    @property
    def terms(self) -> tuple[Term, ...]:
        """Summands of the position without the row of the innermost for-each loop."""
        return (*self.inner, *_scaled(self.outer, self.n_rows * self.n_inner))

    @property
    def size(self) -> int:
        """Number of rows of memory."""
        return self.n_slots * self.n_positions

    def allocate(self) -> int:
        """Allocate a slot: memory for one value in all executions."""
        self.n_slots += 1
        return self.n_slots - 1

    def static_location(self, slot: int) -> MemoryLocation:
        """Memory reference of a slot without the part of the position that is known at run time only."""
        if self.scope is None:
            return MemoryLocation(self.arena, self.first_row + slot * self.n_positions)
        return MemoryLocation(self.column_array, slot * self.n_positions)

    def column(self) -> Ints:
        """Offset column: first row of the frame for each row of `scope`."""
        assert self.scope is not None
        return self.first_row + self.n_inner * np.arange(self.n_rows)


@dataclass(slots=True, eq=False)
class TapeLayout:
    """Frames of all statement sequences of a program."""

    root: Body
    max_iterations: Mapping[int, int | None]
    """Upper bounds of the numbers of iterations of loops, by identity of the node; None if unknown."""
    constant_loops: Collection[int]
    """Identities of the nodes of loops whose trip counts are constants."""
    stack_capacity: int
    """Number of iterations of a loop that its tape can hold, in all executions of the loop together; more if the trip
    counts are constants."""
    frames: list[Frame] = field(default_factory=list)
    frame_of: dict[int, Frame] = field(default_factory=dict)
    """Frame by identity of the statement sequence; branches share the frame of the code around them."""
    loops: dict[int, TapedLoop] = field(default_factory=dict)
    """Counted loops and while loops, by identity of the node."""
    row_positions: dict[int, RowPosition] = field(default_factory=dict)
    """Positions of rows by identity of the scope."""

    def __post_init__(self) -> None:
        self._add_body(self.root, self._add_frame(Frame(self._next_name())))

    def frame(self, body: Body) -> Frame:
        """Frame of a sequence of statements."""
        return self.frame_of[id(body)]

    def frames_of_scope(self, scope: Scope) -> list[Frame]:
        """Frames whose static positions follow from the rows of a loop specialization."""
        return [frame for frame in self.frames if frame.scope is scope]

    def assign_memory(self, n_scratch: int) -> tuple[int, dict[str, int], list[int]]:
        """Assign each frame of the tape to a local array or to scratch memory behind `n_scratch`.

        Small frames with positions that are known at run time only go to local arrays.

        Args:
            n_scratch: rows of scratch memory that are in use.

        Returns:
            Total rows of scratch memory, local arrays with their sizes, and the first rows of the frames in scratch
            memory: a frame is one allocation, as table columns have the offset of its first slot only.
        """
        local_arrays: dict[str, int] = {}
        starts: list[int] = []
        for frame in self.frames:
            if not frame.n_slots:
                continue
            loops = [term.source.node for term in frame.terms if isinstance(term.source, TapedLoop)]
            has_dynamic_index = any(id(node) not in self.constant_loops for node in loops)
            if has_dynamic_index and sum(local_arrays.values()) + frame.size <= MAX_LOCAL_TAPE:
                frame.arena, frame.first_row = f"memory of {frame.column_array}", 0
                local_arrays[frame.arena] = frame.size
            else:
                frame.first_row = n_scratch
                starts.append(n_scratch)
                n_scratch += frame.size
        return n_scratch, local_arrays, starts

    def _next_name(self) -> str:
        return f"tape {len(self.frames)}"

    def _add_frame(self, frame: Frame) -> Frame:
        self.frames.append(frame)
        return frame

    def _add_body(self, body: Body, frame: Frame) -> None:
        """Assign `frame` to a statement sequence, and make the frames of the loops inside of it."""
        self.frame_of[id(body)] = frame
        for node in body.nodes:
            match node.statement:
                case ForEachLoop():
                    for inner in node.bodies:
                        self._add_body(inner, self._add_frame(self._row_frame(frame, node.statement, inner)))
                case CountedLoop() | WhileLoop():
                    loop = self.loops[id(node)] = TapedLoop(len(self.loops), node)
                    loop.frame = self._add_frame(self._loop_frame(frame, loop))
                    self._add_body(node.bodies[0], loop.frame)
                case _:
                    for inner in node.bodies:
                        self._add_body(inner, frame)

    def _row_frame(self, outer: Frame, loop: ForEachLoop, body: Body) -> Frame:
        """Make the tape frame of the body of one for-each loop specialization, with a position for each of its rows.

        The outer frame is shared if each row belongs to one row of the enclosing loop.
        """
        executions, name = body.executions, self._next_name()
        scope, rows = executions.scopes[-1], executions.rows[-1]
        if loop.range_name and outer.scope is executions.scopes[-2]:
            pairs = np.stack([rows, executions.rows[-2]], axis=1)
            if len(np.unique(rows)) == len(np.unique(pairs, axis=0)):  # each row belongs to one row of the outer loop
                return replace(outer, column_array=name, scope=scope)
        terms = outer.terms
        if outer.scope is not None:
            terms = (*terms, Term(outer.n_inner, self._row_position(outer.scope)))
        return Frame(name, scope, n_outer=outer.n_positions, outer=terms)

    def _row_position(self, scope: Scope) -> RowPosition:
        if id(scope) not in self.row_positions:
            self.row_positions[id(scope)] = RowPosition(scope, f"tape position {len(self.row_positions)}")
        return self.row_positions[id(scope)]

    def _loop_frame(self, outer: Frame, loop: TapedLoop) -> Frame:
        """Make the tape frame of a counted or while loop body: indexed if all iterations fit, otherwise a stack."""
        name, capacity, node = self._next_name(), self.stack_capacity, loop.node
        max_iterations = self.max_iterations[id(node)]
        most = max(capacity, MAX_INDEXED_ITERATIONS) if loop.is_counted else capacity
        fits = max_iterations is not None and (
            outer.n_positions * max_iterations <= most or max_iterations <= 1 or id(node) in self.constant_loops
        )
        if not fits:
            loop.capacity = capacity
            return Frame(name, n_inner=capacity, inner=(Term(1, loop),))
        n = max(max_iterations or 0, 1)
        inner = (*_scaled(outer.inner, n), Term(1, loop))
        return replace(outer, column_array=name, n_inner=outer.n_inner * n, inner=inner)


def _scaled(terms: tuple[Term, ...], factor: int) -> tuple[Term, ...]:
    return tuple(Term(term.factor * factor, term.source) for term in terms)
