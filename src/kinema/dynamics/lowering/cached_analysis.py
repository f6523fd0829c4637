"""Analyses of a model cached on disk: derived constants (rest lengths, invweights), joint inertias, form of the step.

The code that computes an analysis is imported only if the result is not in the cache.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kinema.core import content_digest, load_entry, load_or_compute, source_digest, store_entry, timed_stage
from kinema.model import Model, PerEnvParameterEntry, PerEnvParameterTable

from ..extensions import has_external_extensions
from ..free_bodies import articulated_frames
from ..settings import BroadPhase, Settings
from .inertia_check import MassMatrixConditioning

# ---------------------------------------------------------------------------------------------------- derived constants

SOURCE_PACKAGES = ("core", "ir", "model", "dynamics")
"""Packages whose source decides the results; their digest is part of the cache keys."""
TABLES_WITHOUT_INERTIA = frozenset({"geoms", "pairs", "sensors", "keyframes", "entities", "frame_names", "derived"})
"""Model tables without influence on joint inertias."""


def derive_constants(
    models: Sequence[Model],
    settings: Settings,
    precision: str,
    digest: str,
    on_miss: Callable[[], None] = lambda: None,
) -> tuple[list[Model], str]:
    """Models with constants derived at the initial configuration (`DerivedConstants`), from the disk cache if possible.

    Derived are rest lengths of tendons and couplings, constraint invweights (if constraints, limits or contacts are
    enabled) and peak forces of muscles.

    Args:
        models: model variants of equal structure.
        settings: settings of the step.
        precision: `single` or `double`.
        digest: content digest of the models.
        on_miss: called before the constants are computed if they are not in the cache.

    Returns:
        The completed models, and their digest, which is the cache key.
    """
    has_constraints = settings.limits or settings.constraints or settings.contacts
    key = content_digest("derived", source_digest(*SOURCE_PACKAGES), precision, has_constraints, digest)
    with timed_stage("derived"):
        is_cacheable = not has_external_extensions()
        values = load_entry("derived", key) if is_cacheable else None
        if values is None:
            on_miss()
            models = _compute_constants(models, precision, has_constraints=has_constraints)
            if is_cacheable:
                store_entry(
                    "derived",
                    key,
                    {f"{i} {name}": array for i, model in enumerate(models) for name, array in _derived_arrays(model)},
                )
            return list(models), key
    return [
        model.with_derived(**{name: values[f"{i} {name}"] for name, _ in _derived_arrays(model)})
        for i, model in enumerate(models)
    ], key


def _compute_constants(models: Sequence[Model], precision: str, *, has_constraints: bool) -> list[Model]:
    """Models with rest lengths, constraint invweights and muscle peak forces, computed without the cache."""
    from .invweight import with_constraint_invweights
    from .reference_configuration import with_muscle_peak_forces, with_rest_lengths

    models = [with_rest_lengths(model) for model in models]
    if has_constraints and models[0].n_dofs:
        models = with_constraint_invweights(models, precision)
    return [with_muscle_peak_forces(model) for model in models]


def _derived_arrays(model: Model) -> list[tuple[str, np.ndarray]]:
    values = [(field.name, getattr(model.derived, field.name)) for field in fields(model.derived)]
    return [(name, value) for name, value in values if isinstance(value, np.ndarray)]


def mass_matrix_conditioning(model: Model) -> list[MassMatrixConditioning]:
    """Diagonal and pivots of the mass matrix at two configurations: qpos0 and a perturbed one; cached on disk.

    The perturbed configuration avoids joint axes that are parallel only at qpos0.
    """
    inputs = [(name, getattr(model, name)) for name in model.__dataclass_fields__ if name not in TABLES_WITHOUT_INERTIA]
    key = content_digest("joint inertias", source_digest(*SOURCE_PACKAGES), inputs)

    def compute() -> dict[str, np.ndarray]:
        if model.has_pair_rules and model.n_dofs:
            from .free_body_inertia import free_body_conditioning

            initial = free_body_conditioning(model, model.qpos0)
            if initial is not None:  # the pivots of free bodies depend little on the configuration
                found = {field: np.array([getattr(initial, field)] * 2) for field in ("diagonal", "pivots")}
                frames = articulated_frames(model)
                if frames:
                    dofs = np.isin(model.dofs.frame_idx, frames)
                    of_trees = of_frames(frames)
                    found = {field: np.where(dofs, of_trees[field], values) for field, values in found.items()}
                return found
        return of_frames(None)

    def of_frames(frames: list[int] | None) -> dict[str, np.ndarray]:
        from .reference_configuration import compute_mass_matrix_conditioning, perturbed_configuration

        configurations = model.qpos0, perturbed_configuration(model, frames)
        inertias = compute_mass_matrix_conditioning(model, *configurations, frames=frames)
        rows = {field: [getattr(inertia, field) for inertia in inertias] for field in ("diagonal", "pivots")}
        padded = {field: [[*x, *[0.0] * (model.n_dofs - len(x))] for x in values] for field, values in rows.items()}
        return {field: np.array(values if frames is None else padded[field]) for field, values in rows.items()}

    with timed_stage("derived"):
        values = compute() if has_external_extensions() else load_or_compute("derived", key, compute)
    return [
        MassMatrixConditioning(*pair)
        for pair in zip(values["diagonal"].tolist(), values["pivots"].tolist(), strict=True)
    ]


# --------------------------------------------------------------------------------------------- form of the step program


@dataclass(frozen=True, slots=True)
class StepTarget:
    """Device properties and user choices that determine the form of a step program; None to choose by the model."""

    is_cpu: bool
    codegen: str
    """One of `CODEGEN_MODES`."""
    use_warps: bool | None
    """Whether a warp of threads solves the constraints of an environment."""
    n_partitions: int | None
    """Number of threads that share an environment (warp specialization)."""


def choose_step_form(
    models: Sequence[Model], settings: Settings, target: StepTarget, digest: str
) -> tuple[Settings, bool, PerEnvParameterTable | None]:
    """Choose how the step program is compiled (loops or unrolled code) and resolve all settings left open.

    Resolved are the constants read from memory per environment, broad phase, use of warps for the solver and number of
    partitions (threads per environment). The decision is cached on disk.

    Args:
        models: model variants of equal structure.
        settings: settings of the step.
        target: device properties and user choices.
        digest: content digest of the completed models.

    Returns:
        The completed settings; whether the step uses loops over frames, links, ... instead of unrolled code; the table
        of constants that are read from memory.
    """
    key = content_digest("form", source_digest(*SOURCE_PACKAGES), digest, settings, target)
    if has_external_extensions():
        form = _compute_step_form(models, settings, target)
    else:
        form = load_or_compute("derived", key, lambda: _compute_step_form(models, settings, target))
    table = _load_per_env_parameters(form)
    settings = replace(
        settings,
        per_env=frozenset(form["per_env"]),
        per_env_parameters=table is not None,
        broad_phase=BroadPhase(form["broad_phase"]),
        use_warps=form["use_warps"],
        uses_superwords=target.is_cpu and models[0].has_pair_rules,
        n_partitions=form["n_partitions"],
    )
    return settings, form["loops"], table


def _compute_step_form(models: Sequence[Model], settings: Settings, target: StepTarget) -> dict[str, Any]:
    """Decide how the step program is compiled, without the cache: the decisions of `choose_step_form`.

    Warps, loops or unrolled code, partitions, per-environment parameters and broad phase. Returns a dict of plain
    values and arrays that can be stored in the cache.
    """
    from ..collision.broad_phase import resolve_broad_phase
    from ..tree.kinematic_tree import build_tree
    from .partition import choose_partition_count
    from .per_env_parameters import select_per_env_parameters
    from .step_program import should_use_loops, should_use_warps

    model, use_warps, n_partitions = models[0], target.use_warps, target.n_partitions
    if use_warps is None:
        use_warps = not target.is_cpu and should_use_warps(model, settings)
    loops = should_use_loops(model, replace(settings, use_warps=use_warps), target.codegen, allow_copies=target.is_cpu)
    if n_partitions is None:
        single_partition = target.is_cpu or loops or settings.freeze_on_error or (settings.contacts and not use_warps)
        n_partitions = 1 if single_partition else choose_partition_count(build_tree(model))
    settings = replace(settings, n_partitions=n_partitions, use_warps=use_warps)
    table = None
    if not model.has_pair_rules:
        settings, table = select_per_env_parameters(models, settings)
    settings = resolve_broad_phase(model, settings)
    form: dict[str, Any] = {"use_warps": use_warps, "loops": loops, "n_partitions": n_partitions}
    form |= {"per_env": sorted(settings.per_env), "broad_phase": settings.broad_phase.value}
    if table is not None:
        form["per_env_entries"] = [[*key, entry.start, entry.folded] for key, entry in table.entries.items()]
        form["per_env_values"] = table.values
    return form


def _load_per_env_parameters(cached: Mapping[str, Any]) -> PerEnvParameterTable | None:
    """Rebuild the per-environment parameter table from a cached step form; None if there is none."""
    if "per_env_entries" not in cached:
        return None
    entries = {
        (table, element, parameter): PerEnvParameterEntry(start, tuple(folded))
        for table, element, parameter, start, folded in cached["per_env_entries"]
    }
    return PerEnvParameterTable(entries=entries, values=cached["per_env_values"])
