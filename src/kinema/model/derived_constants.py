"""`DerivedConstants`: model constants computed from the tables at qpos0 (MuJoCo's `mj_setConst`), contact capacity."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

import numpy as np

from kinema.core import Array

from .table import Table


@dataclass(frozen=True, slots=True)
class PerEnvParameterEntry:
    """Location of the values of one parameter of one element in the array of per-environment parameters."""

    start: int
    """Index of the first value in the parameter array."""
    folded: tuple[float | None, ...]
    """Value of each constant that is folded into the code (0, 1 or -1); None for values read from memory."""


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class PerEnvParameterTable(Table):
    """All per-environment parameters of a model: locations and initial values."""

    entries: Mapping[tuple[str, int | str, str], PerEnvParameterEntry] = field(default_factory=dict)
    """(table, element, parameter name) -> entry."""
    values: Array = field(default_factory=lambda: np.zeros((0, 1)))
    """Initial values, (n_values, n_variants)."""


def _empty() -> Array:
    return np.zeros(0)


@dataclass(frozen=True, kw_only=True, slots=True, eq=False)
class DerivedConstants(Table):
    """Quantities that `dynamics.lowering` computes from the tables of a model.

    A new model has inverse weights of 1 and the lengths, stiffnesses and forces of its tables.
    """

    dof_invweight: Array = field(default_factory=_empty)
    """Inverse inertia at qpos0 [1/(kg m2) or 1/kg], (n_dofs,)."""
    equality_invweight: Array = field(default_factory=_empty)
    """Inverse inertia at qpos0 along translation and rotation, (n_equalities, 2)."""
    coupling_invweight: Array = field(default_factory=_empty)
    """Inverse inertia at qpos0, (n_couplings,)."""
    pair_invweight: Array = field(default_factory=_empty)
    """Inverse inertia of the two links at qpos0 along translation and rotation, (n_pairs, 2)."""
    geom_invweight: Array = field(default_factory=_empty)
    """Inverse inertia of the link at qpos0 along translation and rotation, with rules of collision, (n_geoms, 2)."""
    tendon_invweight: Array = field(default_factory=_empty)
    """Inverse inertia along the length at qpos0, (n_tendons,)."""
    tendon_stiffness: Array = field(default_factory=_empty)
    tendon_damping: Array = field(default_factory=_empty)
    """Stiffness and damping; of an acceleration drive times the effective inertia at qpos0, (n_tendons,) each."""
    tendon_rest_lower: Array = field(default_factory=_empty)
    tendon_rest_upper: Array = field(default_factory=_empty)
    """Dead band of the spring: no force between these lengths [m or rad], (n_tendons,) each."""
    coupling_reference_a: Array = field(default_factory=_empty)
    coupling_reference_b: Array = field(default_factory=_empty)
    """Reference lengths of follower (a) and leader (b), (n_couplings,) each."""
    actuator_peak_force: Array = field(default_factory=_empty)
    """Peak force of the active and the passive muscle force [N], (n_actuators, 2)."""
    max_contacts_per_frame_pair: int | None = None
    """Maximum number of contacts between two moving frames; None for the default capacity."""
    per_env_parameters: PerEnvParameterTable | None = None
    """Constants that programs read from memory instead of folding them."""

    def columns(self, element: str) -> dict[str, Array]:
        """Columns of one kind of element (`dof`, `tendon`, ...) by their names without the prefix."""
        prefix = f"{element}_"
        names = [name for name in type(self).__dataclass_fields__ if name.startswith(prefix)]
        return {name.removeprefix(prefix): getattr(self, name) for name in names}
