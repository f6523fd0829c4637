"""Building a scene: model of each variant combination, checks, allocation of engine, arrays and controls.

Entities with variants give one model per combination of variants that occurs in an environment. The models differ in
values only; the step is compiled from the first one.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from functools import partial

import numpy as np

from kinema.builder import (
    MIN_RULED_GEOMS,
    MIN_RULED_GEOMS_OF_LANES,
    AddedSensor,
    AttachmentSpec,
    EntitySpec,
    GeometryCache,
    Medium,
    SuctionCupSpec,
    build_model,
    disabled_equalities,
)
from kinema.core import Array, Diagnostics, content_digest
from kinema.dynamics import BroadPhase, Engine, ModelVariants, Settings, supports_pair_rules
from kinema.model import DofsInfo, Model
from kinema.runtime import find_device

from .arrays import OutputConverter, SceneArrays
from .built_scene import BuiltScene
from .console import ProgressBar
from .control import GAINS, DefaultGains, DofControl, need_per_env_gains
from .default_gains import derive_gains
from .entity import Entity
from .kinematic_bodies import find_motions
from .model_checks import check_dof_inertia, report_unsupported, without_unsupported_sweeps
from .options import SolverOptions, report_unused_options
from .variants import VariantIndices, variant_combinations, with_shared_geometry_data

SETTINGS_NOT_IN_KEY = ("dt", "input_mode", "per_env", "n_partitions", "external_forces", "presence", "reserved")
"""Settings left out of the compatibility key of states: they change neither the meaning of a state nor the dynamics, or
their effect is visible in the arrays of the state."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class BuildInputs:
    """Arguments of `build_scene` that stay the same when a scene is built again with other settings."""

    specs: Sequence[EntitySpec]
    """Entities in the order of `entities`."""
    entities: Sequence[Entity]
    gravity: Array | None
    """[m/s2], (3,); None for the gravity of the files."""
    medium: Medium
    """Density, viscosity and wind given by the user."""
    solver_options: SolverOptions
    dt: float
    """Time step of the scene [s]."""
    attachments: Sequence[AttachmentSpec]
    """Reserved attachments."""
    suction_cups: Sequence[SuctionCupSpec]
    max_contacts: int | None
    """Contact capacity per pair of bodies; None for the default."""
    device: str
    precision: str
    codegen: str
    wait: bool
    """Whether the first step waits for the optimised code."""
    out: str
    """Return type of getters (`OUTPUT_KINDS`)."""
    sensors: Sequence[AddedSensor]
    """Sensors in addition to those of the files."""


def build_scene(
    inputs: BuildInputs, settings: Settings, n_envs: int, diagnostics: Diagnostics, progress: ProgressBar
) -> BuiltScene:
    """Build the models of all entities, check them, and allocate the engine for `n_envs` environments.

    Also creates the access to its arrays, the control modes and the output conversion. Each entity gets its index
    ranges in the flat arrays (`Entity.info`). If variants need different default gains, kp and kv become
    per-environment parameters.

    Args:
        inputs: entities, medium, solver options and execution options.
        settings: simulation settings of the engine.
        n_envs: number of environments.
        diagnostics: receives unsupported features, singular inertia and unused options.
        progress: progress bar for the stages modelling, checking and allocating.
    """
    descriptions = [p.description for p in inputs.specs]
    with progress("modelling"):
        models, variant_of_env, user_set = _compile_models(inputs, settings, n_envs, diagnostics)
        model = models[0]
        digest = content_digest(models)
        key_settings = [
            (f.name, getattr(settings, f.name)) for f in fields(settings) if f.name not in SETTINGS_NOT_IN_KEY
        ]
        key = content_digest(inputs.precision, digest, key_settings)
    with progress("checking"):
        report_unsupported(model, descriptions, diagnostics, contacts=settings.contacts)
        for spec in inputs.specs:
            integrator = settings.integrator.value
            report_unused_options(spec, diagnostics, dt=inputs.dt, substep=settings.dt, integrator=integrator)
        adjustable = bool(settings.per_env & {"armature", "mass_shift"})
        inertia = check_dof_inertia(model, descriptions, diagnostics, precision=inputs.precision, adjustable=adjustable)
    gains = [derive_gains(m, settings, np.array(inertia.pivots)) for m in models]
    variant_dofs = _dofs_with_variants(inputs, model)
    if len(models) > 1 and need_per_env_gains(models, gains, user_set, variant_dofs):
        settings = replace(settings, per_env=settings.per_env | {*GAINS})
    with progress("allocating"):
        engine = Engine(
            model,
            settings,
            n_envs,
            find_device(inputs.device),
            precision=inputs.precision,
            codegen=inputs.codegen,
            wait_for_optimised=inputs.wait,
            progress=progress,
            variants=ModelVariants(models, variant_of_env),
            digest=digest,
        )
        arrays = SceneArrays(engine)
        controls = DofControl(
            model, arrays, DefaultGains(arrays, gains, user_set, variant_dofs, diagnostics), diagnostics
        )
    for number, (entity, info) in enumerate(zip(inputs.entities, model.entities, strict=True)):
        entity._index.set_built(number, info)
    switchable = "equality" in settings.per_env
    disabled = [] if switchable else [x for description in descriptions for x in disabled_equalities(description)]
    built = BuiltScene(engine, arrays, controls, OutputConverter(arrays, inputs.out), key, disabled)
    built.motions = find_motions(built, [entity._index for entity in inputs.entities])
    return built


def _compile_models(
    inputs: BuildInputs, settings: Settings, n_envs: int, diagnostics: Diagnostics
) -> tuple[list[Model], VariantIndices, np.ndarray]:
    """Build a model for each combination of entity variants that occurs in an environment.

    Solver options and the dof parameters that the user set before build are applied.

    Returns:
        The models; the index of the model of each environment, (n_envs,); whether the user set kp and kv before build,
            bool (2, n_dofs).
    """
    variants_by_entity = {
        j: entity._index.variants for j, entity in enumerate(inputs.entities) if entity._index.variants is not None
    }
    combinations, variant_of_env = variant_combinations(variants_by_entity, n_envs)
    options = {
        "with_contacts": settings.contacts,
        "switchable_equalities": "equality" in settings.per_env,
        "sensors": inputs.sensors,
        "kinematic_bodies": True,
        "movable_surfaces": "surface_velocity" in settings.per_env,
        "attachments": inputs.attachments,
        "suction_cups": inputs.suction_cups,
    }
    geometry_cache = GeometryCache()
    min_ruled_geoms = {BroadPhase.AUTO: MIN_RULED_GEOMS, BroadPhase.CELLS: 0}.get(settings.broad_phase)
    device = find_device(inputs.device)
    if min_ruled_geoms and device.is_cpu and device.lanes(inputs.precision, n_envs, None) > 1:
        min_ruled_geoms = MIN_RULED_GEOMS_OF_LANES
    models, user_set = [], np.zeros((2, 0), dtype=np.bool_)
    for i, combination in enumerate(combinations):
        specs = [
            spec if j not in combination else variants_by_entity[j].specs[combination[j]]
            for j, spec in enumerate(inputs.specs)
        ]
        messages = Diagnostics() if i else diagnostics
        build = partial(
            build_model, specs, inputs.gravity, messages, inputs.medium, **options, geometry_cache=geometry_cache
        )
        model = build(min_ruled_geoms=min_ruled_geoms if len(combinations) == 1 else None)
        if model.has_pair_rules and not supports_pair_rules(
            model, settings, is_cpu=device.is_cpu, n_envs=n_envs, min_free_geoms=min_ruled_geoms or 0
        ):
            model = build()
        dofs, user_set = _with_dof_parameters(model, inputs.entities)
        model = model.with_tables(options=inputs.solver_options.apply_to(model.options), dofs=dofs)
        model = without_unsupported_sweeps(model, settings, messages)
        model = model.with_derived(max_contacts_per_frame_pair=inputs.max_contacts)
        for entity, variant in combination.items():
            model = variants_by_entity[entity].without_absent_geoms(model, entity, variant)
        models.append(model)
    if len(models) > 1:
        models = with_shared_geometry_data(models)
    return models, variant_of_env, user_set


def _dofs_with_variants(inputs: BuildInputs, model: Model) -> np.ndarray:
    """Indices of the dofs of all entities that have variants, whose inertia may differ between environments."""
    infos = [x for entity, x in zip(inputs.entities, model.entities, strict=True) if entity._index.variants is not None]
    return np.concatenate([np.zeros(0, np.intp), *(np.arange(x.dof_start, x.dof_end) for x in infos)])


def _with_dof_parameters(model: Model, entities: Sequence[Entity]) -> tuple[DofsInfo, np.ndarray]:
    """Dof table of a model with the parameters that users set before build, and whether they set kp and kv.

    The flags have shape (2, n_dofs).
    """
    columns: dict[str, np.ndarray] = {}
    user_set = np.zeros((2, model.n_dofs), dtype=np.bool_)
    for entity, info in zip(entities, model.entities, strict=True):
        for name, values in entity._parameters.before_build.items():
            column = columns.setdefault(name, getattr(model.dofs, name).copy())
            for dof, value in values.items():
                column[info.dof_start + dof] = value
                if name in GAINS:
                    user_set[GAINS.index(name), info.dof_start + dof] = True
    return replace(model.dofs, **columns), user_set
