"""Tangent programs of a step and of sensors: traced with implicit differentiation, then differentiated in forward mode.

A tangent program propagates one tangent per environment: the derivative of the state along one direction. It is traced
like the step, or one Runge-Kutta stage, with one thread per environment. It reads the solution of the constraint solver
from the array `warm_start`, where a step with the settings of `solution_settings` stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace

from kinema.core import KinemaError, pause_garbage_collection
from kinema.ir import TANGENT_PREFIX, ArenaOffset, Program, Tracer, jvp, unroll
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
    return _with_tangents(arena_arrays(arena, model, settings))


def sensor_arena_arrays(model: Model) -> list[tuple[str, int]]:
    """Names and sizes of the output arrays of the tangent program of sensors: values, then tangents."""
    return _with_tangents([(SENSOR_OUTPUT_ARRAY, model.sensors.n_values)])


def _with_tangents(arrays: list[tuple[str, int]]) -> list[tuple[str, int]]:
    return [*arrays, *((TANGENT_PREFIX + name, n) for name, n in arrays)]


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

    def trace(ctx: TraceContext) -> None:
        record_step(StepData(ctx))
        if settings.integrator is Integrator.RK4:
            advance_rk4_phase(ctx.tracer)

    return _trace_tangents(model, settings, array_offsets, trace, {}, loops=loops)


def trace_sensor_tangents(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> Program:
    """Trace all sensor values and return their tangent program (JVP); arguments as those of `trace_step_tangents`."""
    return _trace_tangents(
        model, settings, array_offsets, lambda ctx: evaluate_sensors(StepData(ctx)), SENSOR_OUTPUTS, loops=loops
    )


@pause_garbage_collection()
def _trace_tangents(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    trace: Callable[[TraceContext], None],
    outputs: OutputSpecs,
    *,
    loops: bool,
) -> Program:
    """Trace a function, and return its tangent program: its Jacobian-vector product by state and inputs.

    Straight-line code from the unrolled tangent program, unless `loops` is set.
    """
    traced = replace(settings, differentiable=True)
    inputs = _differentiated_inputs(model, settings)
    if loops:
        starts = {name: array_offsets[name] for name in inputs}
        cells = [(starts[name].arena, starts[name].row + i) for name, n in inputs.items() for i in range(n)]
        rows = {arena: sum(n for _, n in arena_arrays(arena, model, settings)) for arena in ("state", "controls")}
        if outputs:
            rows["out"] = model.sensors.n_values
        program = trace_looped_program(model, traced, trace, array_offsets, outputs)
        return jvp(program, cells, array_offsets, rows)
    program = trace_looped_program(model, traced, trace, named_array_offsets(traced, outputs), outputs)
    derivative = jvp(program, [(name, i) for name, n in inputs.items() for i in range(n)])
    tracer = Tracer()
    values = unroll(derivative, tracer.read, tracer)
    for array, element in sorted(values):
        tracer.write(array, [values[array, element]], element)
    return tracer.build(
        n_scratch=derivative.n_scratch,
        allocation_starts=derivative.allocation_starts,
        oversized_lists=derivative.oversized_lists,
    )


def _differentiated_inputs(model: Model, settings: Settings) -> dict[str, int]:
    """Arrays with tangents before a step, and their sizes."""
    names = {*STATE_TANGENTS, *STAGE_TANGENTS, *INPUT_TANGENTS}
    infos = [info for info in ARRAYS if info.name in names and info.arena(settings) is not None]
    sizes = {info.name: info.width * info.count(model, settings) for info in infos}
    return {name: n for name, n in sizes.items() if n}
