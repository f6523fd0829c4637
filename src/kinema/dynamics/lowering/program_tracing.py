"""Tracing of the dynamics algorithms to programs, looped or unrolled, and their interpretation for one-off values."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence

import numpy as np

from kinema.core import Array, pause_garbage_collection
from kinema.ir import ArenaOffset, Program, Tracer, Value, interpret_batched, supports_batching, unroll
from kinema.model import Model

from ..arrays import ARRAYS, ElementKind, initial_kinematic_arrays
from ..pipeline import advance_rk4_phase, record_step
from ..settings import Integrator, Settings
from ..step import StepData
from ..tree.kinematic_tree import build_tree
from ..tree.trace_context import TraceContext
from .partition import partition_tree

TraceFunction = Callable[[TraceContext], None]
"""Traces an algorithm on the frames and links of a context."""
OutputSpecs = Mapping[str, tuple[ElementKind, int]]
"""Output array -> kind of its elements and values per element."""
MIN_BATCHED_FRAMES = 64
"""Number of frames from which on one-off evaluations use the batched interpreter (all iterations of a loop at once)."""


@pause_garbage_collection()
def trace_looped_program(
    model: Model,
    settings: Settings,
    trace_function: TraceFunction,
    array_offsets: Mapping[str, ArenaOffset],
    outputs: OutputSpecs | None = None,
    frames: Sequence[int] | None = None,
) -> Program:
    """Trace a function on a model as a program with loops over frames, links, transmissions and constraints.

    Args:
        model: the model.
        settings: settings of the program.
        trace_function: traces the algorithm.
        array_offsets: offset of each array in its arena.
        outputs: arrays that the function writes in addition to the arrays of a step.
        frames: frames of whole trees that the program is restricted to; None for all.
    """
    # the prefix keeps the names of local arrays distinct
    tracer = Tracer("table ", differentiable=settings.differentiable)
    ctx = TraceContext(model, settings, array_offsets, tracer, build_tree(model), frames, outputs=outputs)
    trace_function(ctx)
    return tracer.build(
        n_scratch=ctx.n_scratch, allocation_starts=ctx.allocation_starts, oversized_lists=ctx.oversized_lists
    )


@pause_garbage_collection()
def trace_unrolled_program(
    model: Model, settings: Settings, trace_function: TraceFunction, outputs: OutputSpecs | None = None
) -> Program:
    """Trace a function on a model as unrolled straight-line code that accesses arrays by name, without memory offsets.

    Loops that the function marks by `without_unrolling` stay loops; then the program has scratch memory.
    """
    tracer = Tracer()
    program = trace_looped_program(model, settings, trace_function, named_array_offsets(settings, outputs), outputs)
    values = unroll(program, tracer.read, tracer)
    for array, element in sorted(values):
        tracer.write(array, [values[array, element]], element)
    if not program.has_kept_loops:
        return tracer.build()
    return tracer.build(
        n_scratch=program.n_scratch,
        allocation_starts=program.allocation_starts,
        oversized_lists=program.oversized_lists,
    )


def interpret_outputs(
    model: Model,
    settings: Settings,
    trace_function: TraceFunction,
    outputs: OutputSpecs,
    *states: Mapping[str, Sequence[float] | Array],
    frames: Sequence[int] | None = None,
) -> list[dict[str, Array]]:
    """Trace a function and interpret the program in Python for each of some states; returns its output arrays by name.

    Outputs are truncated after the last value that was written. `frames` are frames of whole trees that the program is
    restricted to; None for all.
    """
    program = trace_looped_program(
        model, settings, trace_function, named_array_offsets(settings, outputs), outputs, frames
    )
    kinematic = initial_kinematic_arrays(model)
    return [_interpret_state(model, program, outputs, {**kinematic, **arrays}) for arrays in states]


def _interpret_state(
    model: Model, program: Program, outputs: OutputSpecs, arrays: Mapping[str, Sequence[float] | Array]
) -> dict[str, Array]:
    """Interpret a program for one state; returns the output arrays by name.

    Models of many frames use the batched (NumPy) interpreter, others unroll the program with plain floats.
    """
    if (
        model.n_frames >= MIN_BATCHED_FRAMES
        and (batched := _interpret_batched(model, program, outputs, arrays)) is not None
    ):
        return batched
    results: dict[str, dict[int, Value]] = {name: {} for name in outputs}
    for (array, element), value in unroll(program, lambda array, element: float(arrays[array][element])).items():
        results[array][element] = value
    return {
        name: np.array([values.get(i, 0.0) for i in range(max(values, default=-1) + 1)], np.float64)
        for name, values in results.items()
    }


def _interpret_batched(
    model: Model, program: Program, outputs: OutputSpecs, arrays: Mapping[str, Sequence[float] | Array]
) -> dict[str, Array] | None:
    """Interpret a program for one state with the batched (NumPy) interpreter; returns the output arrays by name.

    Returns None if the program or its outputs do not support batching, or if an output is not finite.
    """
    if not supports_batching(program):
        return None
    inputs = {name: np.array(x, np.float64)[:, None] for name, x in arrays.items()}
    n_elements = {ElementKind.DOF: model.n_dofs, ElementKind.LINK: model.n_links, ElementKind.ENVIRONMENT: 1}
    if any(element_kind not in n_elements for element_kind, _ in outputs.values()):
        return None
    inputs |= {name: np.zeros((n_elements[element_kind] * width, 1)) for name, (element_kind, width) in outputs.items()}
    written = interpret_batched(program, inputs, use_python_trig=True)
    ends = {name: int(np.flatnonzero(written[name]).max(initial=-1)) + 1 for name in outputs}
    results = {name: inputs[name][: ends[name], 0] for name in outputs}
    return results if all(np.isfinite(x).all() for x in results.values()) else None


def named_array_offsets(settings: Settings, outputs: OutputSpecs | None = None) -> dict[str, ArenaOffset]:
    """Offsets for programs that are going to be unrolled: each array is an arena of its own, at offset 0."""
    arrays = [info.name for info in ARRAYS if info.arena(settings) is not None]
    return {array: ArenaOffset(array, 0) for array in (*arrays, *(outputs or {}))}


def trace_unrolled_step(model: Model, settings: Settings) -> Program:
    """Trace the step as unrolled straight-line code, which writes the next state (`qpos`, `vel`, ...) and `error`.

    `error` is set if the new state is not finite. With several partitions, frames are assigned to threads; with RK4,
    the program is one stage.
    """
    partition_of_frame = (
        partition_tree(build_tree(model), settings.n_partitions).partition_of_frame if settings.n_partitions > 1 else {}
    )

    def trace(ctx: TraceContext) -> None:
        record_step(StepData(ctx, partition_of_frame=partition_of_frame))
        if settings.integrator is Integrator.RK4:
            advance_rk4_phase(ctx.tracer)

    return trace_unrolled_program(model, settings, trace)
