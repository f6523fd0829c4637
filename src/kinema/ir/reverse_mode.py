"""Reverse-mode automatic differentiation (vector-Jacobian products) of programs with loops and branches.

Each cell of memory gets an adjoint, the derivative of a scalar cost by the cell: for an array x, the array `d x`. The
adjoint program executes the original program, and then the adjoint of each statement in reverse order: rows of for-each
loops from last to first, as many iterations of counted and while loops as there were, branches where they were taken.
At points where the executed branch changes, the derivative is that of the branch that is executed.

*Stored or recomputed.* The adjoint of a basic block needs some of the values that the block computed. A value is
recomputed from memory where this costs less floating-point operations than storing and loading it
(`vjp_rules.RECORDING_COST`), and memory still has the values that the block loaded (`execution_order.CellTimes`);
otherwise it is stored on the tape (`tape_layout.py`). Unrolling turns the tape into values: applied to the adjoint
program of a program with loops, it yields straight-line code that computes nothing twice.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Mapping
from dataclasses import replace

from kinema.core import KinemaError

from .adjoint_sweep import AdjointSweep, ClearingSweep
from .dead_stores import eliminate_dead_stores
from .forward_sweep import ForwardSweep
from .memory import SCRATCH, UNIFORM, ArenaOffset, MemoryLocation
from .program import Program, memory_accesses, walk
from .reverse_plan import ReversePlan
from .sweep import ADJOINT_PREFIX

STACK_CAPACITY = 1024
"""Default number of iterations of a loop that the tape can hold."""


def vjp(  # noqa: PLR0913  options
    program: Program,
    inputs: Collection[tuple[str, int]],
    outputs: Collection[tuple[str, int]],
    array_offsets: Mapping[str, ArenaOffset] | None = None,
    arena_rows: Mapping[str, int] | None = None,
    *,
    stack_capacity: int = STACK_CAPACITY,
    overflow_flag: MemoryLocation | None = None,
    keep_outputs: bool = False,
    clears_lists_in_reverse: bool = False,
) -> Program:
    """Vector-Jacobian product of a program by reverse-mode automatic differentiation, as a new program.

    For each array x with a derivative there is an array `d x` of adjoints, at the same offset in the arena `d a` of its
    arena a. Adjoints of scratch memory, and of the arenas in `arena_rows`, are stored in the same arena, behind its own
    rows. Before the new program runs, the adjoints of `outputs` hold the derivatives of a cost by memory after the
    original program; afterwards those of `inputs` hold its derivatives by memory before. The program adds to the
    adjoints of cells that it only reads. Adjoints of other cells must be zero before, and are undefined afterwards.

    Args:
        program: program without cooperative statements (warp regions, work queues, intrinsics).
        inputs: cells (arena, row) that derivatives are computed by; all others are constant.
        outputs: cells (arena, row) that the cost depends on.
        array_offsets: array -> arena and first row, for arrays that are named outside of loops; an array that is not
            listed is an arena of its own.
        arena_rows: number of rows of the arenas that store adjoints behind their own rows.
        stack_capacity: number of iterations that can be recorded of a while loop or counted loop, in all of its
            executions together, unless its trip counts are constants.
        overflow_flag: memory that is set to 1 in environments in which a loop has more iterations than can be recorded;
            their adjoints are wrong. Not changed in others.
        keep_outputs: whether the new program also leaves the results of the original program in memory. Otherwise
            arrays that the original program writes are undefined afterwards.
        clears_lists_in_reverse: whether the forward sweep accesses no adjoints: those of lists are set to zero by loops
            of their own before the reverse sweep.

    Raises:
        KinemaError: the program has statements without a derivative, or a loop may exceed the stack and there is no
            overflow flag.
    """
    arena_rows = dict(arena_rows or {})
    names = {location.array for statement in walk(program.body) for location, _ in memory_accesses(statement)}
    if any(name.startswith(ADJOINT_PREFIX) for name in names):
        raise KinemaError("the program has adjoints already: second derivatives are the jvp of a vjp, or the reverse")
    if UNIFORM in arena_rows and any(arena == UNIFORM for arena, _ in inputs):
        raise KinemaError(f"adjoints of the arena {UNIFORM!r} need an arena with a column for each environment")
    options = {"keep_outputs": keep_outputs, "clears_lists_in_reverse": clears_lists_in_reverse}
    plan = ReversePlan(program, inputs, outputs, array_offsets or {}, stack_capacity, **options)
    if overflow_flag is None:
        for loop in plan.layout.loops.values():
            if loop.capacity is not None and id(loop.node) in plan.with_adjoint:
                name = getattr(loop.node.statement, "name", "")
                raise KinemaError(
                    f"the tape of loop {name!r} holds {loop.capacity} iterations, which may be exceeded: "
                    "an overflow flag is needed"
                )
    n_scratch, tape_arrays, tape_starts = plan.layout.assign_memory(2 * program.n_scratch)
    shifts = {**arena_rows, SCRATCH: program.n_scratch}
    forward, adjoint = ForwardSweep(plan, shifts, overflow_flag), AdjointSweep(plan, shifts)
    sweeps = [forward, ClearingSweep(plan, shifts), adjoint] if clears_lists_in_reverse else [forward, adjoint]
    body = tuple(statement for sweep in sweeps for statement in sweep.program_body())
    sweep_locals = {name: size for sweep in sweeps for name, size in sweep.local_arrays.items()}
    starts = program.allocation_starts or [0]
    result = replace(
        program,
        body=body,
        locals={**program.locals, **tape_arrays, **sweep_locals},
        n_scratch=n_scratch,
        allocation_starts=[*starts, *(start + program.n_scratch for start in starts), *tape_starts],
        oversized_lists=frozenset(),
        outlined={},
    )
    places = {name: offset for name, offset in (array_offsets or {}).items() if not name.startswith(ADJOINT_PREFIX)}
    if keep_outputs:
        return eliminate_dead_stores(result, places)
    unused = {arena: arena_rows.get(arena, math.inf) for arena in plan.stored_arenas()}
    kept = []
    if overflow_flag is not None:
        arena, rows = plan.rows.resolve(overflow_flag, ())
        kept = [(arena, row) for row in rows]
    return eliminate_dead_stores(result, places, unused, kept)
