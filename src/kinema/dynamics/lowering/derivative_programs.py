"""Derivatives of the programs of a step and of sensors: traced with implicit differentiation, then differentiated.

A tangent program (forward mode) propagates one tangent per environment: the derivative of the state along one
direction. An adjoint program (reverse mode) propagates the gradient of a function of the next state to the state
before. Both are traced like the step, or one Runge-Kutta stage, with one thread per environment. They read the solution
of the constraint solver from the array `warm_start`, where a step with the settings of `solution_settings` stores it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import replace
from functools import partial

import numpy as np

from kinema import ir
from kinema.core import KinemaError, pause_garbage_collection
from kinema.ir import (
    ADJOINT_PREFIX,
    TANGENT_PREFIX,
    ArenaOffset,
    MemoryLocation,
    NotSplittableError,
    Program,
    SplitProgram,
    Tracer,
    Value,
    eliminate_dead_stores,
    jvp,
    split_uniform,
    unroll,
    vjp,
)
from kinema.model import Model

from ..arrays import ARRAYS, ElementKind, arena_arrays
from ..engine.tangent_space import QUATERNION_BASIS_GENERATORS, TangentSpace
from ..pipeline import advance_rk4_phase, record_step
from ..queries.fields import OUTPUT_PREFIX
from ..sensors.registry import KINEMATIC_KINDS, evaluate_sensors
from ..sensors.sensor_outputs import SENSOR_OUTPUT_ARRAY
from ..settings import BroadPhase, Integrator, Settings
from ..step import StepData
from ..tree.trace_context import TraceContext
from .program_tracing import OutputSpecs, named_array_offsets, trace_looped_program

STATE_TANGENTS = (
    *("qpos", "vel", "act", "servo_state", "history", "spring_rest", "rest_lower", "rest_upper"),
    *("attachment_point", "attachment_pose", "attachment_length"),
)
"""State arrays that have derivatives between steps."""
STAGE_TANGENTS = tuple(
    f"stage_{x}"
    for x in (
        *("qpos", "vel", "shift", "sum_vel", "sum_acc", "act", "sum_act"),
        *("servo_state", "sum_servo_state", "servo_velocity"),
    )
)
"""State arrays that have derivatives between the stages of a Runge-Kutta step."""
INPUT_TANGENTS = ("ctrl", "command", "dof_force_applied")
"""Inputs of a step that have derivatives."""
OVERFLOW_ARRAY = "adjoint overflow"
"""Output array of adjoint programs: 1 in environments in which a loop had more iterations than can be recorded."""
UNCONVERGED_ARRAY = "unconverged"
"""Output array of the adjoint program of a step: 1 in environments in which the constraint solver did not converge."""
STATE_ADJOINTS = "adjoints of the state"
"""Output array of the varying part of the adjoint program of a step."""
COTANGENT_PREFIX = "cotangent "
"""Prefix of the arrays of gradients that are added to the adjoints of the state."""
MAX_NORM_ARRAY = "largest norm"
"""Input array of the program that clips adjoints: the largest norm of the adjoint of the state."""
Cells = Collection[tuple[str, int]]
"""Memory cells: (arena, row)."""
SENSOR_OUTPUTS: OutputSpecs = {SENSOR_OUTPUT_ARRAY: (ElementKind.SENSOR_VALUE, 1)}


def solution_settings(settings: Settings, *, external_forces: bool = False) -> Settings:
    """Settings of the step that stores the solution of the constraint solver, to be differentiated implicitly.

    One thread per environment: no warps, partitions, islands or sleeping. On a GPU, without a list of candidate pairs,
    whose loops would visit all pairs. The step itself, unlike its derivatives, is executed as `launch_settings` says.

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
        broad_phase=BroadPhase.ALL if settings.use_warps else settings.broad_phase,
        islands=False,
        sleep_tolerance=0.0,
        always_solve=settings.use_warps,
    )


def launch_settings(settings: Settings, of_scene: Settings) -> Settings:
    """Settings with which the step of `solution_settings` is executed: on a GPU by warps, as the step of the scene."""
    return replace(
        settings,
        n_partitions=of_scene.n_partitions,
        use_warps=of_scene.use_warps,
        broad_phase=of_scene.broad_phase,
        always_solve=False,
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


def sensor_adjoint_arrays(model: Model) -> list[tuple[str, int]]:
    """Names and sizes of the output arrays of the adjoint program of sensors: values, adjoints, overflow flag."""
    return [*_with_derivatives(ADJOINT_PREFIX, [(SENSOR_OUTPUT_ARRAY, model.sensors.n_values)]), (OVERFLOW_ARRAY, 1)]


def needs_solution_of_sensors(model: Model, settings: Settings) -> bool:
    """Whether the sensors depend on the accelerations, and the step with these settings may solve constraints."""
    return needs_solution(settings) and not set(model.sensors.outputs.kinds) <= KINEMATIC_KINDS


def differentiated_state(model: Model, settings: Settings) -> dict[str, int]:
    """Sizes of the state arrays that have derivatives between steps, by name."""
    return _differentiated_arrays(model, settings, STATE_TANGENTS)


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


def trace_before_differentiation(model: Model, settings: Settings, *, sensors: bool) -> Program:
    """Trace the step, or one Runge-Kutta stage, or all sensor values, as they are differentiated: with loops."""
    traced, outputs = replace(settings, differentiable=True), SENSOR_OUTPUTS if sensors else {}
    trace = _trace_sensors if sensors else partial(_trace_step, settings)
    return trace_looped_program(model, traced, trace, named_array_offsets(traced, outputs), outputs)


def _trace_sensors(ctx: TraceContext) -> None:
    evaluate_sensors(StepData(ctx))


def trace_step_adjoint(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    parameters: Collection[str] = (),
    *,
    loops: bool,
    clears_lists_in_reverse: bool = False,
) -> Program:
    """Trace the adjoint program of a step, or of one stage of a Runge-Kutta step.

    Before it runs, the adjoint arrays hold the gradient by the state after the step; afterwards that by the state
    before, and the gradient by the inputs is added to their adjoint arrays, among them arrays of `parameters`. Other
    arguments as those of `trace_step_tangents`, with the arrays of `adjoint_arena_arrays`.
    """

    def differentiate(
        program: Program, inputs: Cells, offsets: Mapping[str, ArenaOffset], rows: Mapping[str, int]
    ) -> Program:
        names = _differentiated_arrays(model, settings, {*STATE_TANGENTS, *STAGE_TANGENTS})
        flag = MemoryLocation(OVERFLOW_ARRAY, 0)
        return vjp(
            program,
            inputs,
            _cells(names, offsets),
            offsets,
            rows,
            overflow_flag=flag,
            clears_lists_in_reverse=clears_lists_in_reverse,
        )

    if settings.contact_smoothing:
        model = _with_wider_margins(model, settings.contact_smoothing)
    trace = partial(_trace_step, settings)
    program = _trace_derivative(model, settings, array_offsets, trace, differentiate, {}, parameters, loops=loops)
    return _flag_if_unconverged(program, settings) if needs_solution(settings) else program


def trace_step_adjoint_split(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> SplitProgram:
    """Trace the adjoint program of a step as a uniform and a varying part: lanes differ in adjoints only.

    The array `STATE_ADJOINTS` of the varying part gets the adjoints of the state (positions in the tangent space,
    velocities, activations).

    Both parts are empty if the program cannot be split. Arguments as those of `trace_step_adjoint`.
    """
    sizes = {
        ADJOINT_PREFIX + name: n for arena in ("state", "controls") for name, n in arena_arrays(arena, model, settings)
    }
    sizes[STATE_ADJOINTS] = 2 * model.n_dofs + int(np.count_nonzero(model.actuators.has_activation))
    cells = _cells(sizes, array_offsets)
    program = trace_step_adjoint(model, settings, array_offsets, loops=loops, clears_lists_in_reverse=True)
    try:
        return split_uniform(_with_state_adjoints(program, model), array_offsets, cells)
    except NotSplittableError:
        return SplitProgram(Program(()), Program(()))


def _with_state_adjoints(program: Program, model: Model) -> Program:
    """Adjoint program that also stores the adjoints of the state in the tangent space to `STATE_ADJOINTS`."""
    space = TangentSpace(model)
    before, after, adjoints = Tracer("coordinates before "), Tracer("adjoints of the state "), ADJOINT_PREFIX + "qpos"
    quaternions = before.allocate_local(max(space.ball_qs.size, 1))
    by_dof: dict[int, Value] = {
        dof: after.read(adjoints, q)
        for dof, q in zip(space.scalar_dofs.tolist(), space.scalar_qs.tolist(), strict=True)
    }
    for i, (qs, dofs) in enumerate(zip(space.ball_qs.tolist(), space.ball_dofs.tolist(), strict=True)):
        before.write(quaternions, [before.read("qpos", q) for q in qs], 4 * i)
        quaternion = [after.read(quaternions, 4 * i + k) for k in range(4)]
        for column, dof in enumerate(dofs):
            by_dof[dof] = sum_products(
                [float(x) * component, after.read(adjoints, q)]
                for component, generator in zip(quaternion, QUATERNION_BASIS_GENERATORS, strict=True)
                for x, q in zip(generator[:, column], qs, strict=True)
                if x
            )
    values = [by_dof[dof] for dof in range(model.n_dofs)]
    values += [after.read(ADJOINT_PREFIX + "vel", dof) for dof in range(model.n_dofs)]
    values += [after.read(ADJOINT_PREFIX + "act", i) for i in np.flatnonzero(model.actuators.has_activation).tolist()]
    after.write(STATE_ADJOINTS, values)
    first, last = before.build(), after.build()
    locals_ = {**program.locals, **first.locals}
    return replace(program, body=(*first.body, *program.body, *last.body), locals=locals_)


def sum_products(factors: Iterable[Sequence[Value]]) -> Value:
    """Sum of the products of pairs."""
    total: Value = 0.0
    for a, b in factors:
        total = total + a * b
    return total


def _with_wider_margins(model: Model, distance: float) -> Model:
    """Model whose contacts are found at a larger distance [m], where they exert no force without smoothing."""
    pairs = model.pairs
    return replace(model, pairs=replace(pairs, margin=pairs.margin + distance, gap=pairs.gap + distance))


def _flag_if_unconverged(program: Program, settings: Settings) -> Program:
    """Program preceded by a test of `n_iterations`: sets `UNCONVERGED_ARRAY` to 1 if the solver used all iterations."""
    tracer = Tracer("convergence ")
    is_at_limit = ir.select(settings.iterations - 0.5, tracer.read("n_iterations"), 1.0, 0.0)
    tracer.write(UNCONVERGED_ARRAY, [ir.maximum(tracer.read(UNCONVERGED_ARRAY), is_at_limit)])
    test = tracer.build()
    return replace(program, body=(*test.body, *program.body), locals={**test.locals, **program.locals})


def trace_cotangent_sum(sizes: Mapping[str, int]) -> Program:
    """Trace the sum of adjoints and cotangents of arrays, from their sizes by name."""
    tracer = Tracer()
    for name, n in sizes.items():

        def add(i: Value, adjoint: str = ADJOINT_PREFIX + name, cotangent: str = COTANGENT_PREFIX + name) -> None:
            tracer.write(adjoint, [tracer.read(adjoint, 0, i) + tracer.read(cotangent, 0, i)], 0, i)

        tracer.counted_loop(f"add cotangents of {name}", float(n), add, uniform=True)
    return tracer.build()


def trace_clipping(sizes: Mapping[str, int]) -> Program:
    """Trace the clipping of adjoints of arrays, from their sizes by name, to the Euclidean norm `MAX_NORM_ARRAY`."""
    tracer, total = Tracer(), 0.0
    for name, n in sizes.items():

        def square(i: Value, adjoint: str = ADJOINT_PREFIX + name) -> list[Value]:
            value = tracer.read(adjoint, 0, i)
            return [value * value]

        total = total + tracer.parallel_loop(f"squares of {name}", float(n), square, 1)[0]
    norm, bound = ir.sqrt(total), tracer.read(MAX_NORM_ARRAY)
    factor = tracer.allocate_local(1)
    tracer.write(factor, [ir.select(bound, norm, bound / norm, 1.0)])
    tracer.new_basic_block()
    for name, n in sizes.items():

        def scale(i: Value, adjoint: str = ADJOINT_PREFIX + name) -> None:
            tracer.write(adjoint, [tracer.read(adjoint, 0, i) * tracer.read(factor)], 0, i)

        tracer.counted_loop(f"scale adjoints of {name}", float(n), scale, uniform=True)
    return tracer.build()


def trace_sensor_values(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> Program:
    """Trace all sensor values as the program of the readings of a scene; arguments as of `trace_step_tangents`."""
    from .step_program import trace_field_program

    return trace_field_program(
        model,
        settings,
        array_offsets,
        lambda ctx, use_aba: evaluate_sensors(StepData(ctx, use_aba)),
        {OUTPUT_PREFIX + name: spec for name, spec in SENSOR_OUTPUTS.items()},
        loops=loops,
        output_prefix=OUTPUT_PREFIX,
    )


def trace_sensor_adjoint(
    model: Model,
    settings: Settings,
    array_offsets: Mapping[str, ArenaOffset],
    parameters: Collection[str] = (),
    *,
    loops: bool,
) -> Program:
    """Trace all sensor values and return their adjoint program (VJP), which adds to the adjoints of state and inputs.

    Arguments as those of `trace_step_adjoint`, with the arrays of `adjoint_arena_arrays` and `sensor_adjoint_arrays`.
    """

    def differentiate(
        program: Program, inputs: Cells, offsets: Mapping[str, ArenaOffset], rows: Mapping[str, int]
    ) -> Program:
        outputs = _cells({SENSOR_OUTPUT_ARRAY: model.sensors.n_values}, offsets)
        return vjp(program, inputs, outputs, offsets, rows, overflow_flag=MemoryLocation(OVERFLOW_ARRAY, 0))

    return _trace_derivative(
        model,
        settings,
        array_offsets,
        _trace_sensors,
        differentiate,
        SENSOR_OUTPUTS,
        parameters,
        loops=loops,
    )


def trace_sensor_tangents(
    model: Model, settings: Settings, array_offsets: Mapping[str, ArenaOffset], *, loops: bool
) -> Program:
    """Trace all sensor values and return their tangent program (JVP); arguments as those of `trace_step_tangents`."""
    return _trace_derivative(model, settings, array_offsets, _trace_sensors, jvp, SENSOR_OUTPUTS, loops=loops)


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
    parameters: Collection[str] = (),
    *,
    loops: bool,
) -> Program:
    """Trace a function, and return its derivative by state and inputs (JVP or VJP), by `differentiate`.

    `parameters` are further arrays of the state that the derivative is taken by.

    Straight-line code from the unrolled derivative program, unless `loops` is set.
    """
    traced = replace(settings, differentiable=True)
    inputs = _differentiated_arrays(model, settings, {*STATE_TANGENTS, *STAGE_TANGENTS, *INPUT_TANGENTS, *parameters})
    if loops:
        rows = {arena: sum(n for _, n in arena_arrays(arena, model, settings)) for arena in ("state", "controls")}
        if outputs:
            rows["out"] = model.sensors.n_values
        program = trace_looped_program(model, traced, trace, array_offsets, outputs)
        derivative = differentiate(program, _cells(inputs, array_offsets), array_offsets, rows)
        return replace(derivative, has_short_blocks=True)
    offsets = named_array_offsets(traced, outputs)
    program = trace_looped_program(model, traced, trace, offsets, outputs)
    derivative = differentiate(program, _cells(inputs, offsets), offsets, {})
    tracer = Tracer()
    values = unroll(derivative, tracer.read, tracer)
    for array, element in sorted(values):
        tracer.write(array, [values[array, element]], element)
    unrolled = tracer.build(
        n_scratch=derivative.n_scratch,
        allocation_starts=derivative.allocation_starts,
        oversized_lists=derivative.oversized_lists,
    )
    # without values that branches leave, and nobody reads
    return replace(eliminate_dead_stores(unrolled), has_short_blocks=True)


def _differentiated_arrays(model: Model, settings: Settings, names: Collection[str]) -> dict[str, int]:
    """Sizes of the named arrays that a program has, by name."""
    infos = [info for info in ARRAYS if info.name in names and info.arena(settings) is not None]
    sizes = {info.name: info.width * info.count(model, settings) for info in infos}
    return {name: n for name, n in sizes.items() if n}


def _cells(arrays: Mapping[str, int], offsets: Mapping[str, ArenaOffset]) -> Cells:
    """All cells of arrays, from their sizes."""
    return [(offsets[name].arena, offsets[name].row + i) for name, n in arrays.items() for i in range(n)]
