"""Model variants: models of equal structure, one assigned to each environment, and the check of equal structure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import KinemaError
from kinema.model import Model

INVWEIGHT_PARAMETERS = frozenset({"mass_shift", "com_shift", "armature"})
"""Per-environment parameters that change the inverse weights (effective inertia) of constraints."""
TABLE_FIELDS = (
    "links.",
    "frames.",
    "dofs.",
    "geoms.",
    "pairs.",
    *(f"sensors.ray_geoms.{name}" for name in ("pos", "rot", "size", "center", "radius")),
)
"""Float fields of a model that are constants of loop iterations and may therefore differ between variants."""


@dataclass(frozen=True, slots=True, eq=False)
class ModelVariants:
    """Models of equal structure, and the variant of each environment."""

    models: Sequence[Model]
    variant_of_env: npt.NDArray[np.intp]
    """Index into `models`, (n_envs,)."""

    @classmethod
    def uniform(cls, model: Model, n_envs: int) -> ModelVariants:
        """The same model for all environments."""
        return cls([model], np.zeros(n_envs, np.intp))


def check_same_structure(models: Sequence[Model]) -> None:
    """Raise `KinemaError` if models differ in structure or in fields that cannot differ between environments."""
    for other in models[1:]:
        _compare_structure(models[0], other, "")


def _compare_structure(a: Any, b: Any, path: str) -> None:
    """Compare two model values recursively; raise `KinemaError` with the field path at a forbidden difference.

    Float arrays of `TABLE_FIELDS` may differ in values, `VARIABLE_INDEX_FIELDS` in values too; all else must be equal.
    """
    if is_dataclass(a):
        if type(a) is not type(b):
            raise KinemaError(structure_mismatch_message(path))
        for field in fields(a):
            if field.name not in ("derived", "frame_names"):
                _compare_structure(getattr(a, field.name), getattr(b, field.name), f"{path}.{field.name}".strip("."))
        return
    if isinstance(a, np.ndarray) and a.dtype == np.float64 and path.startswith(TABLE_FIELDS):
        same = a.shape == b.shape
    elif isinstance(a, np.ndarray):
        same = bool(np.array_equal(a, b, equal_nan=a.dtype == np.float64)) or path in VARIABLE_INDEX_FIELDS
    elif isinstance(a, list | tuple) and any(is_dataclass(x) for x in a):
        same = len(a) == len(b)
        for x, y in zip(a, b, strict=False):
            _compare_structure(x, y, path)
    else:
        same = a == b
    if not same:
        raise KinemaError(structure_mismatch_message(path))


VARIABLE_INDEX_FIELDS = ("geoms.data_start", "geoms.data_counts")
"""Integer fields that are constants of loop iterations and may differ between variants."""


def structure_mismatch_message(path: str) -> str:
    """Error message for models that differ in a field that cannot differ between environments."""
    return (
        "variants: all have the same links, joints and geoms by name and type, and may differ in sizes, masses, "
        f"poses, surfaces and joint parameters; these differ in {path}"
    )
