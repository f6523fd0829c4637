"""Kinds of geom pairs of a model with rules of collision: geom types, contact dimension, force law."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache

import numpy as np

from kinema.core import Array
from kinema.model import GEOM_TYPES, Model, PairRulesInfo

from ..constraints.impedance_power import integer_power
from ..topology import dynamic_frames
from .contact_buffer_specs import ContactSpecialization, max_contacts_by_types

N_GEOM_FIELDS, N_CLASS_FIELDS = 3, 3
"""Values per geom (index, class, frame) and per two classes (kind or -1, row of parameters, order of the geoms) in the
arrays that the broad phase reads."""
FRAME_FIELD = 2
"""Position of the frame among the values of a geom."""
FIRST_LOWER, FIRST_OWN, FIRST_OTHER = 0.0, 1.0, 2.0
"""Order of two geoms in a pair: the lower index first, that of the first class first, or that of the second class."""


@dataclass(frozen=True, slots=True)
class PairKind:
    """Pairs of geoms that the same code of the narrow phase processes."""

    geom_types: tuple[str, str]
    contacts: ContactSpecialization
    solimp_power: int
    has_solref_friction: bool


@dataclass(frozen=True, slots=True, eq=False)
class PairKinds:
    """All kinds of a model, and the tables from which the broad phase finds the kind of a pair."""

    kinds: tuple[PairKind, ...]
    classes: Array
    """Values of every two classes, (n_classes, n_classes, `N_CLASS_FIELDS`)."""
    kind_of_row: Mapping[tuple[int, str, str], int]
    """Index of the kind of a row of contact parameters and two geom types in order."""


def find_pair_kinds(model: Model) -> PairKinds:
    """Kinds of the pairs of geoms of a model with rules of collision."""
    return _find_pair_kinds(model.pair_rules, model.geoms.types, model.options.elliptic, model.options.multiccd)


@lru_cache(8)
def _find_pair_kinds(rules: PairRulesInfo, types: tuple[str, ...], elliptic: bool, multiccd: bool) -> PairKinds:
    supported = max_contacts_by_types(multiccd=multiccd)
    n = len(rules.row_of_classes)
    type_of_class = [""] * n
    for geom_class, geom_type in zip(rules.class_of_geom.tolist(), types, strict=True):
        type_of_class[geom_class] = geom_type
    kinds: dict[PairKind, int] = {}
    kind_of_row: dict[tuple[int, str, str], int] = {}
    classes = np.full((n, n, N_CLASS_FIELDS), -1.0)

    def kind_of(row: int, a: str, b: str) -> int:
        parameters = rules.parameters
        condim = int(parameters.condim[row])
        contacts = ContactSpecialization(
            condim, elliptic and condim > 1, involves_world=False, has_restitution_or_stiction=False
        )
        power = integer_power(parameters.solimp[row].tolist())
        has_solref_friction = bool(parameters.solref_friction[row].any() and contacts.elliptic)
        return kinds.setdefault(PairKind((a, b), contacts, power, has_solref_friction), len(kinds))

    for i, a in enumerate(type_of_class):
        for j, b in enumerate(type_of_class):
            first, second = sorted((a, b), key=lambda x: GEOM_TYPES.index(x) if x else -1)
            row = int(rules.row_of_classes[i, j])
            if row >= 0 and (first, second) in supported:
                kind_of_row[row, first, second] = kind_of(row, first, second)
                order = FIRST_LOWER if a == b else FIRST_OWN if first == a else FIRST_OTHER
                classes[i, j] = kind_of_row[row, first, second], row, order
    for a, b, row in rules.explicit.tolist():
        first, second = sorted((types[a], types[b]), key=GEOM_TYPES.index)
        if (first, second) in supported:
            kind_of_row[row, first, second] = kind_of(row, first, second)
    return PairKinds(tuple(kinds), classes, kind_of_row)


def pool_specializations(model: Model) -> list[ContactSpecialization]:
    """Contact dimensions and friction cones of a model with rules of collision; each has a pool of contacts."""
    return list(dict.fromkeys(kind.contacts for kind in find_pair_kinds(model).kinds))


def geom_values(model: Model, order: list[int]) -> Array:
    """Index, class and moving frame of each geom in the order of the broad phase, flat (n_geoms * `N_GEOM_FIELDS`,)."""
    frames = dynamic_frames(model, model.geoms.frame_idx)[order]
    return np.column_stack([order, model.pair_rules.class_of_geom[order], frames]).astype(np.float64).ravel()
