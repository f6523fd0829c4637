"""Derivatives of the programs of a step and of sensors: traced with implicit differentiation, then differentiated.

A tangent program (forward mode) propagates one tangent per environment: the derivative of the state along one
direction. An adjoint program (reverse mode) propagates the gradient of a function of the next state to the state
before. Both are traced like the step, or one Runge-Kutta stage, with one thread per environment. They read the solution
of the constraint solver from the array `warm_start`, where a step with the settings of `solution_settings` stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import replace
from functools import partial

from kinema.core import KinemaError, pause_garbage_collection
from kinema.ir import (
    ADJOINT_PREFIX,
    TANGENT_PREFIX,
    ArenaOffset,
    MemoryLocation,
    Program,
    Tracer,
    jvp,
    unroll,
    vjp,
)
from kinema.model import Model

from ..arrays import ARRAYS, ElementKind, arena_arrays
from ..pipeline import advance_rk4_phase, record_step
from ..sensors.registry import evaluate_sensors
from ..sensors.sensor_outputs import SENSOR_OUTPUT_ARRAY
from ..settings import Integrator, Settings
from ..step import StepData
from ..tree.trace_context import TraceContext
from .program_tracing import OutputSpecs, named_array_offsets, trace_looped_program

STATE_TANGENTS = ("qpos", "vel", "act", "history", "spring_rest", "rest_lower", "rest_upper")
"""State arrays that have derivatives between steps."""
STAGE_TANGENTS = tuple(f"stage_{x}" for x in ("qpos", "vel", "shift", "sum_vel", "sum_acc", "act", "sum_act"))
"""State arrays that have derivatives between the stages of a Runge-Kutta step."""
INPUT_TANGENTS = ("ctrl", "command", "dof_force_applied")
"""Inputs of a step that have derivatives."""
OVERFLOW_ARRAY = "adjoint overflow"
"""Output array of adjoint programs: 1 in environments in which a loop had more iterations than can be recorded."""
Cells = Collection[tuple[str, int]]
"""Memory cells: (arena, row)."""
SENSOR_OUTPUTS: OutputSpecs = {SENSOR_OUTPUT_ARRAY: (ElementKind.SENSOR_VALUE, 1)}


def solution_settings(settings: Settings, *, external_forces: bool = False) -> Settings:
    """Settings of the step that stores the solution of the constraint solver, to be differentiated implicitly.

    One thread per environment: no warps, partitions, islands or sleeping.

    Args:
        settings: settings of the scene.
        external_forces: whether user-applied joint forces are inputs, even if they are not in the scene.

    Raises:
        KinemaError: the step has no derivative.
    """
    if settings.noslip_iterations:
        raise KinemaError("there is no derivative of a step with no-slip iterations (noslip_iterations)")
    return replace(
        settings,
        external_forces=settings.external_forces or external_forces,
        stores_solution=True,
        n_partitions=1,
        use_warps=False,
        islands=False,
        sleep_tolerance=0.0,
    )


def needs_solution(settings: Settings) -> bool:
    """Whether steps with these settings may solve constraints."""
    return settings.contacts or settings.limits or settings.constraints


def derivative_arena_arrays(arena: str, model: Model, settings: Settings) -> list[tuple[str, int]]:
    """Names and sizes of the arrays of an arena of a tangent program: all arrays, then their tangents in order."""
    return _with_derivatives(TANGENT_PREFIX, arena_arrays(arena, model, settings))


def adjoint_arena_arrays(arena: str, model: Model, settings: Settings) -> list[tuple[str, int]]:
    """Names and sizes of the arrays of an arena of an adjoint program: all arrays, then their adjoints in order."""
    return _with_derivatives(ADJOINT_PREFIX, arena_arrays(arena, model, settings))


def sensor_arena_arrays(model: Model) -> list[tuple[str, int]]:
    """Names and sizes of the output arrays of the tangent program of sensors: values, then tangents."""
    return _with_derivatives(TANGENT_PREFIX, [(SENSOR_OUTPUT_ARRAY, model.sensors.n_values)])


def _with_derivatives(prefix: str, arrays: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [*arrays, *((prefix + name, n) for name, n in arrays)]


def trace_step_tangents(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> Program:
    """Trace a step, or one stage of a Runge-Kutta step, and return its tangent program (JVP by state and controls).

    Args:
        model: the model.
        settings: `solution_settings` of the scene.
        array_offsets: offsets of the arrays and their tangents (`derivative_arena_arrays`).
        loops: whether to use loops over tables instead of unrolled code.
    """
    return _trace_derivative(model, settings, array_offsets, partial(_trace_step, settings), jvp, {}, loops=loops)


def trace_step_adjoint(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> Program:
    """Trace the adjoint program of a step, or of one stage of a Runge-Kutta step.

    Before it runs, the adjoint arrays hold the gradient by the state after the step; afterwards that by the state
    before, and the gradient by the inputs is added to their adjoint arrays. Arguments as those of
    `trace_step_tangents`, with the arrays of `adjoint_arena_arrays`.
    """

    def differentiate(
        program: Program, inputs: Cells, offsets: Mapping[str, ArenaOffset], rows: Mapping[str, int]
    ) -> Program:
        names = _differentiated_arrays(model, settings, {*STATE_TANGENTS, *STAGE_TANGENTS})
        flag = MemoryLocation(OVERFLOW_ARRAY, 0)
        return vjp(program, inputs, _cells(names, offsets), offsets, rows, overflow_flag=flag)

    return _trace_derivative(
        model, settings, array_offsets, partial(_trace_step, settings), differentiate, {}, loops=loops
    )


def trace_sensor_tangents(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> Program:
    """Trace all sensor values and return their tangent program (JVP); arguments as those of `trace_step_tangents`."""
    return _trace_derivative(
        model, settings, array_offsets, lambda ctx: evaluate_sensors(StepData(ctx)), jvp, SENSOR_OUTPUTS, loops=loops
    )


def _trace_step(settings: Settings, ctx: TraceContext) -> None:
    """Trace a step, or one stage of a Runge-Kutta step."""
    record_step(StepData(ctx))
    if settings.integrator is Integrator.RK4:
        advance_rk4_phase(ctx.tracer)


@pause_garbage_collection()
def _trace_derivative(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    trace: Callable[[TraceContext], None],
    differentiate: Callable[[Program, Cells, Mapping[str, ArenaOffset], Mapping[str, int]], Program],
    outputs: OutputSpecs,
    *,
    loops: bool,
) -> Program:
    """Trace a function, and return its derivative by state and inputs (JVP or VJP), by `differentiate`.

    Straight-line code from the unrolled derivative program, unless `loops` is set.
    """
    traced = replace(settings, differentiable=True)
    inputs = _differentiated_arrays(model, settings, {*STATE_TANGENTS, *STAGE_TANGENTS, *INPUT_TANGENTS})
    if loops:
        rows = {arena: sum(n for _, n in arena_arrays(arena, model, settings)) for arena in ("state", "controls")}
        if outputs:
            rows["out"] = model.sensors.n_values
        program = trace_looped_program(model, traced, trace, array_offsets, outputs)
        return differentiate(program, _cells(inputs, array_offsets), array_offsets, rows)
    offsets = named_array_offsets(traced, outputs)
    program = trace_looped_program(model, traced, trace, offsets, outputs)
    derivative = differentiate(program, _cells(inputs, offsets), offsets, {})
    tracer = Tracer()
    values = unroll(derivative, tracer.read, tracer)
    for array, element in sorted(values):
        tracer.write(array, [values[array, element]], element)
    return tracer.build(
        n_scratch=derivative.n_scratch,
        allocation_starts=derivative.allocation_starts,
        oversized_lists=derivative.oversized_lists,
    )


def _differentiated_arrays(model: Model, settings: Settings, names: Collection[str]) -> dict[str, int]:
    """Sizes of the named arrays that a program has, by name."""
    infos = [info for info in ARRAYS if info.name in names and info.arena(settings) is not None]
    sizes = {info.name: info.width * info.count(model, settings) for info in infos}
    return {name: n for name, n in sizes.items() if n}


def _cells(arrays: Mapping[str, int], offsets: Mapping[str, ArenaOffset]) -> Cells:
    """All cells of arrays, from their sizes."""
    return [(offsets[name].arena, offsets[name].row + i) for name, n in arrays.items() for i in range(n)]
