"""What the arrays of a step hold: for tests that run programs, or the algorithms on plain numbers, by themselves."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np

from kinema.foundation import Array
from kinema.model import Model
from kinema.sim import ARRAYS, Control, Drive, Integrator, Settings
from kinema.sim.arrays import start_of
from kinema.sim.fields.groups import GROUPS, JACOBIAN, Situation, link_jacobian
from kinema.sim.rigid.integrate import RUNS
from kinema.sim.rigid.straight import Straight
from kinema.sim.rigid.sweeps import Quantity
from kinema.trace import Program, Recorder
from kit.mjcf_side import Pair

Arrays = dict[str, Array]
Modes = Sequence[Control]
"""One for each degree of freedom."""


def forced(model: Model) -> Modes:
    """Every degree of freedom told a force."""
    return [Control.FORCE] * model.n_dofs


def by_actuators(model: Model) -> Modes:
    """Every degree of freedom left to the actuators of its file."""
    return [Control.ACTUATOR] * model.n_dofs


def arrays_for(model: Model, settings: Settings, modes: Modes = (), n_envs: int = 1, **values: Any) -> Arrays:
    """All arrays of a step at its start, with some values: (items, environments), or (items, 1) where all share them.

    What the modes mean is put into gains, and into which actuators pull, as the user's manual has it; none at all leave
    every degree of freedom to its actuators. Values are numbers, (items,) or (items, environments).
    """
    result: Arrays = {}
    shared = set()
    for info in ARRAYS:
        where = info.arena(settings)
        if where is None:
            continue
        shared |= {info.name} if where == "uniform" else set()
        columns = 1 if where == "uniform" else n_envs
        result[info.name] = np.repeat(start_of(info, model, settings), columns, axis=1)
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
        Control.FORCE: lambda d: (1.0, 0.0, 0.0),
        Control.VELOCITY: lambda d: (kv[d], 0.0, kv[d]),
        Control.POSITION: lambda d: (kp[d], kp[d], kv[d]),
        Control.ACTUATOR: lambda d: (0.0, 0.0, 0.0),
    }
    rows = np.array([meanings[mode](d) for d, mode in enumerate(modes)], dtype=float).reshape(model.n_dofs, 3)
    taken = {d for d, mode in enumerate(modes) if mode is not Control.ACTUATOR}
    pulls = [not taken.intersection(moment.nonzero()[0].tolist()) for moment in model.actuators.moment]
    return {
        "gain_command": rows[:, 0],
        "gain_position": rows[:, 1],
        "gain_velocity": rows[:, 2],
        "actuator_on": np.array(pulls, dtype=float),
    }


def mjcf_settings(pair: Pair, integrator: Integrator = Integrator.IMPLICIT, **more: Any) -> Settings:
    """Those of a file, moved by its actuators alone."""
    return Settings(dt=pair.theirs.opt.timestep, integrator=integrator, drive=Drive.ACTUATORS, **more)


def mjcf_arrays(pair: Pair, settings: Settings, states: list[Any]) -> Arrays:
    """MuJoCo's states as inputs of our programs."""
    known = arrays_for(pair.ours, settings, n_envs=len(states))
    return {**known, **{name: values for name, values in pair.arrays(states).items() if name in known}}


def runs_of(settings: Settings) -> int:
    """Runs of the program that make a step."""
    return RUNS if settings.integrator is Integrator.RK4 else 1


def on_floats(model: Model, settings: Settings, arrays: Mapping[str, Any], env: int = 0) -> Straight:
    """The algorithms on the plain numbers of one environment; what is not there is at its start."""
    start = arrays_for(model, settings)

    def read(array: str, item: int) -> float:
        values = np.asarray(arrays.get(array, start[array]))
        if values.ndim == 1:
            return float(values[item])
        return float(values[item, env if values.shape[1] > 1 else 0])

    return Straight(model, settings, read)


def fields_on_floats(model: Model, settings: Settings, arrays: Mapping[str, Any], group: str, env: int = 0) -> Arrays:
    """The fields of a group, computed on plain numbers."""
    sweeps = on_floats(model, settings, arrays, env)
    GROUPS[group](Situation(sweeps))
    return {name: np.array(values, dtype=float) for name, values in sweeps.results().items()}


def fields_program(model: Model, settings: Settings, *groups: str, jacobian_of: int | None = None) -> Program:
    """The straight line of all fields of some groups, called `group.field`; and of the Jacobian of a link."""
    recorder = Recorder()
    outputs: dict[str, Sequence[Any]] = {}
    for group in groups:
        sweeps = Straight(model, settings, recorder.read)
        GROUPS[group](Situation(sweeps))
        outputs |= {f"{group}.{name}": values for name, values in sweeps.results().items()}
    if jacobian_of is not None:
        sweeps = Straight(model, settings, recorder.read)
        link_jacobian(jacobian_of)(Situation(sweeps))
        rows = sweeps.results(dict.fromkeys(JACOBIAN, model.n_dofs))
        outputs["jacobian"] = [x for name in JACOBIAN for x in rows.get(name, [0.0] * model.n_dofs)]
    return recorder.finish(outputs)


def by_dof(sweeps: Straight, quantity: Quantity[Any]) -> Array:
    """What frames have of a quantity of their degrees of freedom, in order."""
    result = np.zeros(sweeps.model.n_dofs)
    for node in sweeps.tree.nodes:
        result[list(node.dofs)] = quantity[node.here]
    return result


def dense(sweeps: Straight, matrix: Any) -> Array:
    """A matrix along the tree with all its zeros."""
    result = np.zeros((sweeps.model.n_dofs,) * 2)
    for (i, j), value in matrix.entries.items():
        result[i, j] = result[j, i] = value
    return result


def of_dofs(sweeps: Straight, values: Sequence[float] | Array) -> Quantity[list[Any]]:
    """Numbers of degrees of freedom as a quantity."""
    quantity: Quantity[list[Any]] = sweeps.quantity("given")
    for node in sweeps.tree.nodes:
        quantity.put(node.here, [float(values[dof]) for dof in node.dofs])
    return quantity
