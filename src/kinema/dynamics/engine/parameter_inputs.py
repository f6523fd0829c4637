"""Model parameters as inputs of a step: the constants of its programs that depend on them.

Constants of a program that depend on the parameters are read from arrays of the state, like those in which model
variants differ (`lowering/per_env_parameters.py`). They are found by comparing models with other values. The constants
of given values are computed by the functions that make a model: tables, then inverse weights and rest lengths at qpos0.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import TYPE_CHECKING

import numpy as np

from kinema.core import Array, KinemaError, content_digest
from kinema.ir import UNIFORM, Program
from kinema.model import Model, PerEnvParameterTable

from ..arrays import ARRAYS, ARRAYS_BY_NAME, PER_ENV_PARAMETER_ARRAY, ArrayUse, initial_values
from ..lowering.derivative_programs import trace_before_differentiation
from ..lowering.invweight import ConstraintInvweights, InverseInertias, compute_inverse_inertias, with_invweights
from ..lowering.per_env_parameters import TableValues, find_per_env_parameters, select_per_env_parameters
from ..lowering.reference_configuration import with_muscle_peak_forces, with_rest_lengths
from ..model_parameters import MODEL_PARAMETERS, ModelParameter, find_parameter
from ..settings import Settings

if TYPE_CHECKING:
    from .engine import Engine

DOF_ARRAYS = (
    *("kp", "kv", "force_lower", "force_upper", "lower", "upper", "armature", "damping", "frictionloss"),
    *(f"{kind}_{name}" for kind in ("limit", "friction") for name in ("solref", "solimp")),
)
"""Parameter arrays that are columns of the table of dofs."""
TABLE_ARRAYS = {
    **{name: ("dofs", name) for name in DOF_ARRAYS},
    **{f"pair_{name}": ("pairs", name) for name in ("friction", "solref", "solimp")},
    **{f"geom_{name}": ("geoms", name) for name in ("size", "radius")},
    **{f"equality_{name}": ("equalities", name) for name in ("solref", "solimp")},
    **{f"coupling_{name}": ("couplings", name) for name in ("solref", "solimp")},
}
"""Parameter array of an engine -> table and column of the model."""
SHIFTS = {"mass_shift": "mass", "com_shift": "com"}
"""Array of shifts per environment -> parameter: these shifts are part of the tables of a model here, and zero."""
REST_LENGTHS = ("tendon_rest_lower", "tendon_rest_upper", "coupling_reference_a", "coupling_reference_b")
"""Derived constants that depend on the lengths of paths at a reference configuration."""
SEEDS = range(3)
"""Seeds of the random values by comparison of which dependent constants are found."""


class ParameterInputs:
    """Constants of a step that depend on some parameters, as arrays of the state of derivative programs."""

    def __init__(self, engine: Engine, settings: Settings, names: Collection[str]) -> None:
        """Find the constants.

        Args:
            engine: engine whose step is differentiated.
            settings: settings of the step that stores its solution (`solution_settings`).
            names: names of the parameters (`MODEL_PARAMETERS`).
        """
        for name in names:
            find_parameter(name)
        shifted = {name for shift, name in SHIFTS.items() if shift in settings.per_env}
        self.parameters = {name: x for name, x in MODEL_PARAMETERS.items() if name in {*names, *shifted}}
        """Parameters by name, in the order in which they are applied; with those that are shifted per environment."""
        self._precision = engine.precision
        models = engine.variants.models
        self._has_variants = len(models) > 1
        self._needs_invweights = models[0].n_dofs > 0 and (settings.limits or settings.constraints or settings.contacts)
        probes = [self._perturbed(model, seed, self.parameters) for model in models for seed in SEEDS]
        inertia_table: PerEnvParameterTable | None = None
        if len(models) > 1 or any(x.changes_inertia for x in self.parameters.values()):
            inertia_table = find_per_env_parameters(probes, Settings())
        self._inertia_settings = Settings(per_env_parameters=inertia_table is not None)
        self._inertia_model = probes[0].with_derived(per_env_parameters=inertia_table)
        self._inertia_values = TableValues(inertia_table, self._inertia_settings) if inertia_table else None
        self._inertia_programs: dict[Settings, Program] = {}
        self._probes = self._derive(probes)
        self.settings, table = select_per_env_parameters(self._probes, settings)
        """Settings of the step with the parameters as inputs."""
        self._table = TableValues(table or PerEnvParameterTable(), self.settings)
        """Constants of elements that depend on the parameters."""
        self.model = self._probes[0].with_derived(per_env_parameters=table)
        """Model that programs are traced for: all constants that depend on the parameters are in its table."""
        self.arrays = [
            info.name
            for info in ARRAYS
            if info.use in (ArrayUse.PARAMETER, ArrayUse.CONSTANT)
            and info.arena(self.settings) == "state"
            and info.count(self.model, self.settings)
        ]
        """Names of the arrays of the state that hold parameters and constants."""
        outputs = [x for x in self.arrays if x in TABLE_ARRAYS or x in (PER_ENV_PARAMETER_ARRAY, "gravity")]
        infos = [ARRAYS_BY_NAME[name] for name in outputs]
        self.outputs = {info.name: info.width * info.count(self.model, self.settings) for info in infos}
        """Arrays that are functions of the tables of a model: sizes by name."""
        self._check_uniform_arrays()
        self.kinds = {name: self._find_kinds(probes[0], name) for name in self.parameters}
        """Kinds of elements of the table of constants that depend on each parameter, by its name."""

    @property
    def key(self) -> object:
        """Part of the cache key of programs that read the parameters."""
        entries = [[*source, entry.start, entry.folded] for source, entry in self._table.table.entries.items()]
        return content_digest(list(self.parameters), entries)

    # --------------------------------------------------------------------------------------------------- dependencies

    def _perturbed(self, model: Model, seed: int, names: Collection[str]) -> Model:
        """Model with random values of parameters."""
        generator = np.random.default_rng(seed)
        for name in names:
            model = MODEL_PARAMETERS[name].perturbed(model, generator)
        return model

    def _find_kinds(self, model: Model, name: str) -> frozenset[str]:
        """Kinds of elements of the table of constants that depend on a parameter."""
        first, second = self.constants([model, self._perturbed(model, SEEDS.stop, [name])])
        start, size = self._table_rows
        differs = ~np.isclose(first, second, rtol=0.0, atol=0.0, equal_nan=True)[start : start + size]
        return frozenset(
            kind
            for (kind, _, _), entry in self._table.table.entries.items()
            if differs[entry.start : entry.start + len(entry.folded)].any()
        )

    @property
    def _table_rows(self) -> tuple[int, int]:
        """First row and number of rows of the table among the constants."""
        names = list(self.outputs)
        if PER_ENV_PARAMETER_ARRAY not in names:
            return 0, 0
        i = names.index(PER_ENV_PARAMETER_ARRAY)
        return sum(list(self.outputs.values())[:i]), self.outputs[PER_ENV_PARAMETER_ARRAY]

    def _check_uniform_arrays(self) -> None:
        """Raise `KinemaError` if arrays that all environments share depend on a parameter."""
        first, second = self._probes[:2]
        for info in ARRAYS:
            if info.arena(self.settings) == UNIFORM and info.count(first, self.settings):
                a, b = (initial_values(info, model, self.settings) for model in (first, second))
                if not np.array_equal(a, b, equal_nan=True):
                    raise KinemaError(self._message(f"the array {info.name}"))

    def check_program(self, *, sensors: bool) -> None:
        """Raise `KinemaError` if the step depends on the parameters otherwise than through the arrays of the state.

        Traces the step, or all sensor values, for two values of the parameters.
        """
        table = self.model.derived.per_env_parameters
        models = [model.with_derived(per_env_parameters=table) for model in self._probes[:2]]
        digests = {
            content_digest(trace_before_differentiation(model, self.settings, sensors=sensors).body) for model in models
        }
        if len(digests) > 1:
            raise KinemaError(self._message(f"a constant of the {'sensors' if sensors else 'step'}"))

    def _message(self, dependent: str) -> str:
        return f"params: {dependent} depends on {' or '.join(self.parameters)} in this scene, and has no gradient"

    # ------------------------------------------------------------------------------------------------------ constants

    def constants(self, models: Sequence[Model], name: str = "", base: Model | None = None) -> Array:
        """Constants of models, (n_models, n_constants), by the order of `outputs`.

        Args:
            models: models with any values of the parameters, without derived constants.
            name: the only parameter in which the models differ from `base`; constants in the table that do not depend
                on it are zero. Empty for all.
            base: model with derived constants (`derived`).
        """
        kinds = self.kinds[name] if name else None
        rows = []
        for derived in self._derive(models, self.parameters[name] if name else None, base):
            derived = self._with_friction_rows(derived)
            parts = [
                self._table.of_model(derived, kinds)
                if array == PER_ENV_PARAMETER_ARRAY
                else initial_values(ARRAYS_BY_NAME[array], derived, self.settings)[:, 0]
                for array in self.outputs
            ]
            rows.append(np.concatenate([np.zeros(0), *parts]))
        return np.array(rows)

    def _with_friction_rows(self, model: Model) -> Model:
        """Model in which the rows of dry friction that programs have exist also where the friction is zero."""
        for table in ("dofs", "tendons"):
            friction = getattr(model, table).frictionloss
            is_missing = (friction == 0.0) & (getattr(self.model, table).frictionloss != 0.0)
            if is_missing.any():
                tiny = np.where(is_missing, np.finfo(np.float64).tiny, friction)
                model = model.with_columns(table, frictionloss=tiny)
        return model

    def derived(self, model: Model) -> Model:
        """Model with derived constants."""
        return self._derive([model])[0]

    def _derive(
        self, models: Sequence[Model], parameter: ModelParameter | None = None, base: Model | None = None
    ) -> list[Model]:
        """Models with derived constants; those that do not depend on `parameter` are the constants of `base`."""
        varying = self.parameters.values() if parameter is None else [parameter]
        keeps_geometry = not self._has_variants and not any(x.changes_geometry for x in varying)
        rest = [with_rest_lengths(model) for model in (models[:1] if keeps_geometry else models)]
        if keeps_geometry:
            lengths = {name: getattr(rest[0].derived, name) for name in REST_LENGTHS}
            rest += [model.with_derived(**lengths) for model in models[1:]]
        if self._needs_invweights:
            if parameter is None or base is None or parameter.changes_inertia or parameter.changes_geometry:
                rest = self._with_invweights(rest, keeps_geometry=keeps_geometry)
            else:
                rest = [with_invweights(model, ConstraintInvweights.of_model(base), 0) for model in rest]
        return [with_muscle_peak_forces(model) for model in rest]

    def _with_invweights(self, models: Sequence[Model], *, keeps_geometry: bool) -> list[Model]:
        """Models with derived invweights; `keeps_geometry` states that all have the same paths and geoms."""
        inertias, compute = self._inverse_inertias(models), ConstraintInvweights.from_inverse_inertias
        if keeps_geometry:
            shared = compute(models[0], inertias, self._precision)
            return [with_invweights(model, shared, i) for i, model in enumerate(models)]
        return [
            with_invweights(model, compute(model, inertias.of_column(i), self._precision), 0)
            for i, model in enumerate(models)
        ]

    def _inverse_inertias(self, models: Sequence[Model]) -> InverseInertias:
        """Inverse inertias at qpos0, one column for each model."""
        arrays = {"qpos": np.stack([model.qpos0 for model in models], axis=1)}
        if self._inertia_values is not None:
            arrays[PER_ENV_PARAMETER_ARRAY] = np.stack([self._inertia_values.of_model(x) for x in models], axis=1)
        return compute_inverse_inertias(self._inertia_model, self._inertia_settings, arrays, self._inertia_programs)
