"""From what was added to what runs: the model, what it cannot do, and room for its environments."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, replace
from typing import Any

import numpy as np

from kinema.backend import find_device
from kinema.compile import Medium, Part, compile_model
from kinema.foundation import Array, Diagnostics, content_digest
from kinema.model import Model
from kinema.sim import Engine, Settings, Variants

from .controls import Controls
from .entity import Entity
from .file_options import report_options
from .gains import GAINS, DefaultGains, need_own_gains
from .memory import Memory
from .mixing import Which, combinations, share_numbers
from .outputs import Outputs
from .progress import Progress
from .running import Running
from .solving import Solving
from .unsupported import refuse_impossible, report_missing

NOT_THE_STEP = ("dt", "drive", "per_env", "roles", "external_forces")
"""Settings that change neither what a state is nor where it leads, or that are among the arrays of a state."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class Plan:
    """What a scene is built from, as often as that is needed."""

    parts: Sequence[Part]
    entities: Sequence[Entity]
    gravity: Array | None
    medium: Medium
    solving: Solving
    max_contacts: int | None
    device: str
    precision: str
    emission: str
    wait: bool
    out: str


def build(plan: Plan, settings: Settings, n_envs: int, diagnostics: Diagnostics, progress: Progress) -> Running:
    """Compile the model and allocate what it needs; entities learn their places."""
    descriptions = [p.description for p in plan.parts]
    with progress("modelling"):
        models, which, given = _models(plan, settings, n_envs, diagnostics)
        model = models[0]
        digest = content_digest(models)
        decide = [(f.name, getattr(settings, f.name)) for f in fields(settings) if f.name not in NOT_THE_STEP]
        key = content_digest(plan.precision, digest, decide)
    with progress("checking"):
        report_missing(model, descriptions, diagnostics, contacts=settings.contacts)
        for part in plan.parts:
            report_options(part, diagnostics, dt=settings.dt, integrator=settings.integrator.value)
        adjustable = bool(settings.per_env & {"armature", "mass_shift"})
        inertia = refuse_impossible(model, descriptions, diagnostics, precision=plan.precision, adjustable=adjustable)
    first, mixed = np.array(inertia.diagonal), _mixed_dofs(plan, model)
    if len(models) > 1 and need_own_gains(models, first, given, mixed):
        settings = replace(settings, per_env=settings.per_env | {*GAINS})
    with progress("allocating"):
        engine = Engine(
            model,
            settings,
            n_envs,
            find_device(plan.device),
            precision=plan.precision,
            emission=plan.emission,
            wait=plan.wait,
            progress=progress,
            variants=Variants(models, which),
            digest=digest,
        )
        memory = Memory(engine)
        controls = Controls(model, memory, DefaultGains(memory, first, given, mixed, diagnostics), diagnostics)
    for entity, info in zip(plan.entities, model.entities, strict=True):
        entity._info = info
    return Running(model, engine, memory, controls, Outputs(memory, plan.out), key)


def _models(
    plan: Plan, settings: Settings, n_envs: int, diagnostics: Diagnostics
) -> tuple[list[Model], Which, np.ndarray]:
    """The model of each kind of environment, which each has, and which gains were given."""
    mixed = {i: entity._mixed for i, entity in enumerate(plan.entities) if entity._mixed is not None}
    chosen, which = combinations(mixed, n_envs)
    asked = {"contacts": settings.contacts, "switchable": "equality" in settings.per_env, "measures": True}
    solids: dict[tuple[int, str | None], Any] = {}
    models, given = [], np.zeros((2, 0), dtype=np.bool_)
    for number, variants in enumerate(chosen):
        parts = [p if i not in variants else mixed[i].parts[variants[i]] for i, p in enumerate(plan.parts)]
        said = Diagnostics() if number else diagnostics
        model = compile_model(parts, plan.gravity, said, plan.medium, **asked, solids=solids)
        model.options = plan.solving.over(model.options)
        given = _set_constants(model, plan.entities)
        model.pairs.room = plan.max_contacts
        for entity, variant in variants.items():
            mixed[entity].hide(model, entity, variant)
        models.append(model)
    if len(models) > 1:
        share_numbers(models)
    return models, which, given


def _mixed_dofs(plan: Plan, model: Model) -> np.ndarray:
    """Degrees of freedom of entities that are not the same in all environments."""
    own = [x for entity, x in zip(plan.entities, model.entities, strict=True) if entity._mixed is not None]
    return np.concatenate([np.zeros(0, np.intp), *(np.arange(x.dof_start, x.dof_end) for x in own)])


def _set_constants(model: Model, entities: Sequence[Entity]) -> np.ndarray:
    """What entities were given before building, into the model; whether kp and kv were among it, (2, n_dofs)."""
    given = np.zeros((2, model.n_dofs), dtype=np.bool_)
    for entity, info in zip(entities, model.entities, strict=True):
        for name, values in entity._constants.items():
            for dof, value in values.items():
                getattr(model.dofs, name)[info.dof_start + dof] = value
                if name in GAINS:
                    given[GAINS.index(name), info.dof_start + dof] = True
    return given
