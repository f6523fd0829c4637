"""Values of model parameters of all environments in a simulation, and gradients by them.

Gradients by constants of the step become gradients by parameters through the Jacobian of the functions that compute the
constants, from central differences of fourth order in double precision. Their error is about 1e-11 of the largest
entry.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt

from kinema.core import Array, KinemaError
from kinema.model import Model
from kinema.runtime import Arena

from ..arrays import CONTROL_GAINS
from ..model_parameters import MODEL_PARAMETERS
from ..settings import InputMode
from .engine import command_gains
from .parameter_inputs import SHIFTS, TABLE_ARRAYS, ParameterInputs

if TYPE_CHECKING:
    from .engine import Engine

STEP = 2e-4
"""Step of the differences by a parameter, relative to its typical magnitude."""
STENCIL = ((1.0, 8.0 / 12.0), (-1.0, -8.0 / 12.0), (2.0, -1.0 / 12.0), (-2.0, 1.0 / 12.0))
"""Offsets and weights of the central difference of fourth order."""


@dataclass(slots=True, eq=False)
class _Group:
    """Environments with the same parameters."""

    envs: npt.NDArray[np.intp]
    base: Model
    """Model as built, with derived constants."""
    model: Model
    """Model with the values of the parameters in these environments, without derived constants."""
    values: dict[str, Array]
    """Values of the parameters by name."""
    jacobians: dict[str, Array] | None = None
    """Jacobian of the constants by each parameter, (n_constants, n_values), once computed."""


class ParameterValues:
    """Values of some model parameters in all environments of an engine."""

    def __init__(self, engine: Engine, inputs: ParameterInputs, given: Mapping[str, Array | None]) -> None:
        """Set the parameters.

        Args:
            engine: engine whose step is differentiated.
            inputs: the constants of the step that depend on the parameters.
            given: values by name, (n, ...) for all environments, or (n_envs, n, ...); None for the present values.

        Raises:
            KinemaError: a shape is wrong, or a value that cannot change differs from the present one.
        """
        self._engine, self.inputs, self._given = engine, inputs, given
        models = _present_models(engine)
        rows = [dict[str, Array]() for _ in models]
        for name, values in given.items():
            shape = MODEL_PARAMETERS[name].read(models[0]).shape
            if values is None:
                continue
            if values.shape not in (shape, (engine.n_envs, *shape)):
                raise KinemaError(
                    f"params[{name!r}] must have shape {shape}, or {(engine.n_envs, *shape)} for values per "
                    f"environment, not {values.shape}"
                )
            for env, row in enumerate(rows):
                row[name] = values if values.ndim == len(shape) else values[env]
        groups: dict[object, list[int]] = {}
        for env, (model, row) in enumerate(zip(models, rows, strict=True)):
            groups.setdefault((id(model), *(x.tobytes() for x in row.values())), []).append(env)
        self._groups = [self._group(envs, models[envs[0]], rows[envs[0]]) for envs in groups.values()]

    def _group(self, envs: list[int], present: Model, given: Mapping[str, Array]) -> _Group:
        """Group of environments with the same model and parameters."""
        values: dict[str, Array] = {}
        for name, parameter in self.inputs.parameters.items():
            now = parameter.read(present)
            values[name] = np.array(given.get(name, now), np.float64)
            is_wrong = ~parameter.variable_entries(present) & ~np.isclose(values[name], now, 1e-12, 0.0, equal_nan=True)
            if is_wrong.any():
                index = tuple(np.argwhere(is_wrong)[0].tolist())
                raise KinemaError(
                    f"params[{name!r}]: the value at {index} is {now[index]:g} and cannot change to "
                    f"{values[name][index]:g} without another program"
                )
        variants = self._engine.variants
        base, model = variants.models[variants.variant_of_env[envs[0]]], present
        for name, parameter in self.inputs.parameters.items():
            model = parameter.write(model, values[name].copy())
        return _Group(np.array(envs), base, model, values)

    # --------------------------------------------------------------------------------------------------------- values

    def assign(self, state: Arena) -> None:
        """Write the constants of the parameters to an arena of the state."""
        engine, inputs = self._engine, self.inputs
        for name in inputs.arrays:
            if name in SHIFTS:
                state.view(name).assign(0.0)
            elif name in engine.array_offsets and name not in inputs.outputs:
                state.view(name).assign(np.array(engine.read_array(name)))
        constants = np.zeros((sum(inputs.outputs.values()), engine.n_envs))
        for group, values in zip(self._groups, inputs.constants([x.model for x in self._groups]), strict=True):
            constants[:, group.envs] = values[:, None]
        start = 0
        for name, n in inputs.outputs.items():
            state.view(name).assign(constants[start : start + n])
            start += n
        self._assign_gains(state)

    @property
    def _has_gains(self) -> bool:
        """Whether the step reads gains of user commands that follow from kp and kv."""
        return CONTROL_GAINS[0] in self.inputs.arrays and self.inputs.settings.input_mode is InputMode.COMMANDS

    def _assign_gains(self, state: Arena) -> None:
        """Write the gains of user commands that follow from kp and kv, if they are read."""
        if not self._has_gains:
            return
        kp, kv = (
            np.asarray(
                state.view(name).numpy() if name in self.inputs.arrays else self._engine.read_array(name), np.float64
            )
            for name in ("kp", "kv")
        )
        modes = np.asarray(self._engine.read_array("ctrl_mode"))
        for name, values in zip(CONTROL_GAINS, command_gains(self._engine.model, modes, kp, kv), strict=True):
            state.view(name).assign(values)

    # ------------------------------------------------------------------------------------------------------ gradients

    def pull_back(self, adjoints: Mapping[str, Array]) -> dict[str, Array]:
        """Gradients by the parameters from those by the arrays of the state, (values, n_envs) each.

        Returns:
            By name, in the shape of the values that were set, summed over the environments that share them; per
            environment, (n_envs, n, ...), of present values.
        """
        adjoints, n_envs = self._pull_back_gains(adjoints), self._engine.n_envs
        outputs = np.concatenate([np.zeros((0, n_envs)), *(adjoints[name] for name in self.inputs.outputs)])
        result = {}
        for name, given in self._given.items():
            gradient = np.zeros((n_envs, *self._groups[0].values[name].shape))
            for group in self._groups:
                if not outputs[:, group.envs].any():  # a cost that does not depend on these environments
                    continue
                if group.jacobians is None:
                    group.jacobians = self._jacobians(group)
                found = outputs[:, group.envs].T @ group.jacobians[name]
                gradient[group.envs] = found.reshape(len(group.envs), *gradient.shape[1:])
            is_shared = given is not None and given.ndim < gradient.ndim
            result[name] = gradient.sum(axis=0) if is_shared else gradient
        return result

    def _pull_back_gains(self, adjoints: Mapping[str, Array]) -> dict[str, Array]:
        """Adjoints, with those of the gains of user commands added to those of kp and kv."""
        result = dict(adjoints)
        if not self._has_gains:
            return result
        model, modes = self._engine.model, np.asarray(self._engine.read_array("ctrl_mode"))
        zeros, ones = np.zeros((model.n_dofs, 1)), np.ones((model.n_dofs, 1))
        at_zero = command_gains(model, modes, zeros, zeros)
        for name, kp, kv in (("kp", ones, zeros), ("kv", zeros, ones)):
            if name not in adjoints:  # a gain that is no input of the programs
                continue
            gains = zip(CONTROL_GAINS, command_gains(model, modes, kp, kv), at_zero, strict=True)
            result[name] = adjoints[name] + sum((slope - constant) * adjoints[x] for x, slope, constant in gains)
        return result

    def _jacobians(self, group: _Group) -> dict[str, Array]:
        """Jacobians of the constants by all values of each parameter, by differences of fourth order."""
        inputs, result = self.inputs, {}
        base = inputs.derived(group.model)
        weights = np.array([weight for _, weight in STENCIL])
        for name in self._given:
            parameter, values = inputs.parameters[name], group.values[name]
            steps = (STEP * parameter.steps(group.base, values)).ravel()
            entries = np.flatnonzero(parameter.variable_entries(group.model))
            models = []
            for i in entries:
                for offset, _ in STENCIL:
                    moved = values.copy()
                    moved.flat[i] += offset * steps[i]
                    models.append(self._with_one(group, name, moved))
            jacobian = np.zeros((sum(inputs.outputs.values()), values.size))
            if models:
                constants = inputs.constants(models, name, base)
                constants = np.where(np.isfinite(constants), constants, 0.0)  # absent limits
                differences = np.einsum("eso,s->oe", constants.reshape(len(entries), len(STENCIL), -1), weights)
                jacobian[:, entries] = differences / steps[entries]
            result[name] = jacobian
        return result

    def _with_one(self, group: _Group, name: str, values: Array) -> Model:
        """Model of a group with other values of one parameter."""
        parameters = self.inputs.parameters
        model = parameters[name].write(group.model, values)
        for other in parameters[name].overridden_by:
            if other in parameters:
                model = parameters[other].write(model, group.values[other].copy())
        return model


# ------------------------------------------------------------------------------------------------------ present values


def _present_models(engine: Engine) -> list[Model]:
    """Model of each environment with the present values of all parameters that were set since the build."""
    columns: dict[str, Array] = {}
    for name in (*TABLE_ARRAYS, *SHIFTS, "gravity"):
        if name in engine.array_offsets and engine.array_view(name).shape[0]:
            values = np.asarray(engine.read_array(name), np.float64)
            columns[name] = np.broadcast_to(values, (len(values), engine.n_envs))
    variants = engine.variants.variant_of_env
    stacked = np.concatenate([variants[None].astype(np.float64), *columns.values()])
    _, first, inverse = np.unique(stacked, axis=1, return_index=True, return_inverse=True)
    distinct = [
        _with_arrays(engine.variants.models[int(variants[env])], {name: x[:, env] for name, x in columns.items()})
        for env in first
    ]
    return [distinct[i] for i in inverse.ravel()]


def _with_arrays(model: Model, arrays: Mapping[str, Array]) -> Model:
    """Model with the values of parameter arrays and shifts of masses and centres of mass in its tables."""
    columns: dict[str, dict[str, Array]] = {}
    for name, values in arrays.items():
        if name in TABLE_ARRAYS:
            table, column = TABLE_ARRAYS[name]
            columns.setdefault(table, {})[column] = values.reshape(getattr(getattr(model, table), column).shape)
    for table, values_by_name in columns.items():
        model = model.with_columns(table, **values_by_name)
    if "gravity" in arrays:
        model = model.with_tables(gravity=np.array(arrays["gravity"]))
    if "mass_shift" in arrays:
        mass = MODEL_PARAMETERS["mass"]
        model = mass.write(model, mass.read(model) + arrays["mass_shift"])
    if "com_shift" in arrays:
        com = MODEL_PARAMETERS["com"]
        model = com.write(model, com.read(model) + arrays["com_shift"].reshape(-1, 3))
    return model
