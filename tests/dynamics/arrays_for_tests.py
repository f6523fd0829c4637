"""What the arrays of a step hold: for tests that run programs, or the algorithms on plain numbers, by themselves."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import Any

import numpy as np

from kinema.core import Array
from kinema.dynamics import ARRAYS, ControlMode, InputMode, Integrator, Settings
from kinema.dynamics.arrays import ElementKind, initial_values
from kinema.dynamics.lowering.program_tracing import (
    interpret_outputs,
    named_array_offsets,
    trace_looped_program,
    trace_unrolled_program,
)
from kinema.dynamics.queries.field_catalog import group_outputs, n_elements
from kinema.dynamics.queries.field_groups import FIELD_GROUPS, JACOBIAN_ARRAYS, link_jacobian_writer
from kinema.dynamics.settings import RK4_STAGES
from kinema.dynamics.step import StepData
from kinema.dynamics.tree.kinematic_tree import frame_ref
from kinema.dynamics.tree.loop_context import NodeValues
from kinema.dynamics.tree.sparse_matrix import JointSpaceMatrix
from kinema.dynamics.tree.trace_context import TraceContext
from kinema.ir import ArenaOffset, IterationContext, MemoryLocation, Program, Store, interpret_in_place
from kinema.model import Model
from kit.mjcf_side import Pair

Arrays = dict[str, Array]
Modes = Sequence[ControlMode]
"""One for each degree of freedom."""


def forced(model: Model) -> Modes:
    """Every degree of freedom told a force."""
    return [ControlMode.FORCE] * model.n_dofs


def by_actuators(model: Model) -> Modes:
    """Every degree of freedom left to the actuators of its file."""
    return [ControlMode.ACTUATOR] * model.n_dofs


def arrays_for(model: Model, settings: Settings, modes: Modes = (), n_envs: int = 1, **values: Any) -> Arrays:
    """All arrays of a step at its start, with some values: (elements, environments), or (elements, 1) if shared.

    What the modes mean is put into gains, and into which actuators pull, as the user's manual has it; none at all leave
    every degree of freedom to its actuators. Values are numbers, (elements,) or (elements, environments).
    """
    result: Arrays = {}
    shared = set()
    for info in ARRAYS:
        where = info.arena(settings)
        if where is None:
            continue
        shared |= {info.name} if where == "uniform" else set()
        columns = 1 if where == "uniform" else n_envs
        result[info.name] = np.repeat(initial_values(info, model, settings), columns, axis=1)
    for name, meant in gains_of(model, modes or by_actuators(model)).items():
        result[name][:] = meant[:, None]
    for name, given in values.items():
        array = np.asarray(given, dtype=float)
        array = array[:, None] if array.ndim == 1 else array
        if name in shared and array.ndim == 2:
            assert array.shape[1] == 1, f"environments share {name}"
        result[name] = np.array(np.broadcast_to(array, result[name].shape))
    return result


def gains_of(model: Model, modes: Modes) -> dict[str, Array]:
    """Force = by command - by position q - by velocity v; and whether each actuator pulls."""
    kp = np.where(model.dofs.q_idx >= 0, model.dofs.kp, 0.0)  # a quaternion has no coordinate to be sent to
    kv = model.dofs.kv
    meanings = {
        ControlMode.FORCE: lambda d: (1.0, 0.0, 0.0),
        ControlMode.VELOCITY: lambda d: (kv[d], 0.0, kv[d]),
        ControlMode.POSITION: lambda d: (kp[d], kp[d], kv[d]),
        ControlMode.ACTUATOR: lambda d: (0.0, 0.0, 0.0),
    }
    rows = np.array([meanings[mode](d) for d, mode in enumerate(modes)], dtype=float).reshape(model.n_dofs, 3)
    taken = {d for d, mode in enumerate(modes) if mode is not ControlMode.ACTUATOR}
    pulls = [not taken.intersection(moment.nonzero()[0].tolist()) for moment in model.actuators.moment]
    return {
        "gain_command": rows[:, 0],
        "gain_position": rows[:, 1],
        "gain_velocity": rows[:, 2],
        "actuator_on": np.array(pulls, dtype=float),
    }


def mjcf_settings(pair: Pair, integrator: Integrator = Integrator.IMPLICITFAST, **more: Any) -> Settings:
    """Those of a file, moved by its actuators alone."""
    return Settings(dt=pair.theirs.opt.timestep, integrator=integrator, input_mode=InputMode.ACTUATORS, **more)


def mjcf_arrays(pair: Pair, settings: Settings, states: list[Any]) -> Arrays:
    """MuJoCo's states as inputs of our programs."""
    known = arrays_for(pair.ours, settings, n_envs=len(states))
    return {**known, **{name: values for name, values in pair.arrays(states).items() if name in known}}


def runs_of(settings: Settings) -> int:
    """Runs of the program that make a step."""
    return RK4_STAGES if settings.integrator is Integrator.RK4 else 1


Found = Mapping[str, NodeValues[Any] | JointSpaceMatrix]


def computed(
    model: Model,
    settings: Settings,
    arrays: Mapping[str, Any],
    run: Callable[[TraceContext], Found],
    env: int = 0,
    given: Mapping[str, Sequence[float] | Array] | None = None,
) -> Arrays:
    """What an algorithm finds, on the plain numbers of one environment; what is not there is at its start.

    Quantities of degrees of freedom come as vectors, matrices with all their zeros. `given` are more numbers of degrees
    of freedom (see `given_quantity`).
    """
    found, matrices = {}, set()
    known = {**arrays_for(model, settings), **arrays, **(given or {})}
    plain = {name: _of_environment(values, env) for name, values in known.items()}
    write = _writing(run, found, matrices)
    (results,) = interpret_outputs(model, settings, write, _room(model, given), plain)
    whole = {name: _padded(results[array], model.n_dofs) for name, array in found.items()}
    return {name: values if name in matrices else np.diag(values) for name, values in whole.items()}


def computed_in_all(
    model: Model,
    settings: Settings,
    arrays: Mapping[str, Array],
    run: Callable[[TraceContext], Found],
    given: Mapping[str, Array] | None = None,
) -> list[Arrays]:
    """The same for all environments at once, by the interpreter: numbers are (elements, environments)."""
    found, matrices, n = {}, set(), model.n_dofs
    outputs = _room(model, given)
    program = trace_looped_program(
        model, settings, _writing(run, found, matrices), named_array_offsets(settings, outputs), outputs
    )
    n_envs = max(np.shape(values)[1] for values in (*arrays.values(), *(given or {}).values()))
    memory = {**arrays_for(model, settings, n_envs=n_envs), **arrays, **(given or {})}
    memory |= {name: np.zeros((n * n, n_envs)) for name in found.values()}
    interpret_in_place(program, memory, {})
    whole = {name: memory[array].T.reshape(n_envs, n, n) for name, array in found.items()}
    return [
        {name: values[e] if name in matrices else np.diag(values[e]) for name, values in whole.items()}
        for e in range(n_envs)
    ]


def _room(model: Model, given: Mapping[str, Any] | None) -> dict[str, tuple[ElementKind, int]]:
    """Arrays for what is found, and what is given."""
    return {f"found {i}": (ElementKind.DOF, model.n_dofs) for i in range(10)} | dict.fromkeys(
        given or {}, (ElementKind.DOF, 1)
    )


def _writing(
    run: Callable[[TraceContext], Found], found: dict[str, str], matrices: set[str]
) -> Callable[[TraceContext], None]:
    """An algorithm that writes what it finds, and notes where."""

    def write(ctx: TraceContext) -> None:
        for i, (name, what) in enumerate(run(ctx).items()):
            found[name] = f"found {i}"
            if isinstance(what, JointSpaceMatrix):
                matrices.add(name)
                what.store(f"found {i}")
            else:
                _write_vector(ctx, f"found {i}", what)

    return write


def _write_vector(ctx: TraceContext, array: str, quantity: NodeValues[Any]) -> None:
    """On the diagonal of a matrix: an element has room for a row of it."""
    rows = []
    for node in ctx.nodes:
        row = ctx.frame_iteration(node)
        n = ctx.model.n_dofs
        row.offsets.update({f"to {k}": ArenaOffset(array, dof * n + dof) for k, dof in enumerate(node.dofs)})
        rows.append(row)

    def body(code: IterationContext) -> None:
        for k, value in enumerate(quantity[frame_ref("")]):
            code.write(f"to {k}", [value])

    ctx.for_each("results", rows, body)


def _padded(values: Array, n: int) -> Array:
    result = np.zeros(n * n)
    result[: len(values)] = values
    return result.reshape(n, n)


def _of_environment(values: Any, env: int) -> Array:
    values = np.asarray(values, dtype=float)
    return values if values.ndim == 1 else values[:, env if values.shape[1] > 1 else 0]


def input_quantity(ctx: TraceContext, array: str) -> NodeValues[list[Any]]:
    """Numbers of degrees of freedom that were given, as a quantity."""
    quantity: NodeValues[list[Any]] = ctx.new_values("given")
    ctx.for_each_frame("given", lambda node: quantity.put(node.ref, ctx.iteration.read_array(array, len(node.dofs))))
    return quantity


def fields_on_floats(model: Model, settings: Settings, arrays: Mapping[str, Any], group: str, env: int = 0) -> Arrays:
    """The fields of a group, computed on plain numbers."""
    known = {**arrays_for(model, settings), **arrays}
    plain = {name: _of_environment(values, env) for name, values in known.items()}
    outputs = {f"{group}.{name}": size for name, size in group_outputs(group, model, settings).items()}
    (found,) = interpret_outputs(model, settings, lambda ctx: _write_group(ctx, group), outputs, plain)
    return {name.removeprefix(f"{group}."): values for name, values in found.items()}


def _write_group(ctx: TraceContext, group: str) -> None:
    ctx.output_prefix = f"{group}."
    FIELD_GROUPS[group](StepData(ctx))


def fields_program(model: Model, settings: Settings, *groups: str, jacobian_of: int | None = None) -> Program:
    """The straight line of all fields of some groups, called `group.field`; and of the `jacobian` of a link."""
    outputs = {
        f"{group}.{name}": size for group in groups for name, size in group_outputs(group, model, settings).items()
    }
    outputs |= dict.fromkeys(JACOBIAN_ARRAYS, (ElementKind.DOF, 1))

    def run(ctx: TraceContext) -> None:
        for group in groups:
            _write_group(ctx, group)
        ctx.output_prefix = ""
        if jacobian_of is not None:
            link_jacobian_writer(jacobian_of)(StepData(ctx))

    line = trace_unrolled_program(model, settings, run, outputs).basic_block
    n = model.n_dofs
    zeros = [Store(MemoryLocation("jacobian", i), 0.0) for i in range(6 * n if jacobian_of is not None else 0)]
    zeros += [
        Store(MemoryLocation(name, i), 0.0)
        for name, (element_kind, width) in outputs.items()
        if name not in JACOBIAN_ARRAYS
        for i in range(n_elements(model, element_kind, settings) * width)
    ]
    start = {name: k * n for k, name in enumerate(JACOBIAN_ARRAYS)}
    stores = [
        s._replace(location=MemoryLocation("jacobian", start[s.location.array] + s.location.element))
        if s.location.array in start
        else s
        for s in line.stores
    ]
    return Program((replace(line, stores=(*zeros, *stores)),))


def noting(lines: list[str]) -> Callable[[str], AbstractContextManager[None]]:
    """A progress that notes what is done."""

    def progress(line: str) -> AbstractContextManager[None]:
        lines.append(line)
        return nullcontext()

    return progress
