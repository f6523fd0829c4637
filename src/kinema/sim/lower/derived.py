"""Quantities that follow from the arrays of a model, such as inverse weights; cached on disk."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from kinema.foundation import content_digest, load_entry, load_or_make, source_digest, stage, store_entry
from kinema.model import Model

from ..settings import Settings
from .inertias import Inertias

SOURCES = ("foundation", "trace", "model", "sim")
"""Packages that compute them."""
DERIVED = {
    "dofs": ("invweight",),
    "ties": ("weight",),
    "pairs": ("weight",),
    "tendons": ("rest_lower", "rest_upper", "weight", "stiffness", "damping", "per_inertia"),
    "couplings": ("reference_a", "reference_b", "weight"),
    "actuators": ("peak_force", "per_acceleration"),
}
"""Arrays of a model that `derive` completes, by table."""
IRRELEVANT = frozenset({"geoms", "pairs", "sensors", "keyframes", "entities", "names_of_frames"})
"""Tables that the inertia of joints does not depend on."""


def derive(models: Sequence[Model], settings: Settings, precision: str, digest: str) -> str:
    """Complete models of one form: rest lengths of tendons, inverse weights of constraints, peak forces of muscles.

    `digest` is that of the models; the result is that of the completed ones.
    """
    holds = settings.limits or settings.constraints or settings.contacts
    key = content_digest("derived", source_digest(*SOURCES), precision, holds, digest)
    with stage("derived"):
        values = load_entry("derived", key)
        if values is None:
            _compute(models, precision, holds=holds)
            store_entry("derived", key, dict(_arrays(models)))
            return key
    for number, model in enumerate(models):
        for table, names in DERIVED.items():
            for name in names:
                setattr(getattr(model, table), name, np.array(values[f"{number} {table}.{name}"]))
    return key


def _compute(models: Sequence[Model], precision: str, *, holds: bool) -> None:
    from .condition import find_rest_lengths, weigh_muscles
    from .weights import weigh_constraints

    for model in models:
        find_rest_lengths(model)
    if holds and models[0].n_dofs:
        weigh_constraints(*models, precision=precision)
    for model in models:
        weigh_muscles(model)


def _arrays(models: Sequence[Model]) -> list[tuple[str, np.ndarray]]:
    return [
        (f"{number} {table}.{name}", getattr(getattr(model, table), name))
        for number, model in enumerate(models)
        for table, names in DERIVED.items()
        for name in names
    ]


def joint_inertias(model: Model) -> list[Inertias]:
    """The diagonal of the joint-space inertia, and what elimination leaves of each entry.

    At the start, and at a configuration near it in which no two axes are parallel by chance.
    """
    own = [(name, getattr(model, name)) for name in model.__dataclass_fields__ if name not in IRRELEVANT]
    key = content_digest("joint inertias", source_digest(*SOURCES), own)

    def make() -> dict[str, np.ndarray]:
        from .condition import dof_inertias, perturbed

        found = dof_inertias(model, model.qpos0, perturbed(model))
        return {word: np.array([getattr(own, word) for own in found]) for word in ("diagonal", "remaining")}

    with stage("derived"):
        values = load_or_make("derived", key, make)
    return [Inertias(*own) for own in zip(values["diagonal"].tolist(), values["remaining"].tolist(), strict=True)]
