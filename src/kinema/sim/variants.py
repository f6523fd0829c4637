"""Models of one form, of which each environment has one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields, is_dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.foundation import KinemaError
from kinema.model import Model

WEIGHING = frozenset({"mass_shift", "com_shift", "armature"})
"""Parameters that decide how hard constraints are."""
IN_ROWS = ("links.", "frames.", "dofs.", "geoms.", "pairs.", "ties.weight", "couplings.weight", "tendons.weight")
"""Numbers that are told by rows of tables, and may differ for that reason."""


@dataclass(frozen=True, slots=True, eq=False)
class Variants:
    """Models of one form, and which of them each environment has."""

    models: list[Model]
    which: npt.NDArray[np.intp]
    """(n_envs,)"""

    @classmethod
    def of(cls, model: Model, n_envs: int) -> Variants:
        """The same model everywhere."""
        return cls([model], np.zeros(n_envs, np.intp))


def refuse_other_forms(models: Sequence[Model]) -> None:
    """Raise where models are not of one form, or differ in what no row of a table says."""
    for other in models[1:]:
        _compare(models[0], other, "")


def _compare(a: Any, b: Any, path: str) -> None:
    if is_dataclass(a):
        if type(a) is not type(b):
            raise KinemaError(other_form(path))
        for field in fields(a):
            if field.name not in ("own", "names_of_frames"):
                _compare(getattr(a, field.name), getattr(b, field.name), f"{path}.{field.name}".strip("."))
        return
    if isinstance(a, np.ndarray) and a.dtype == np.float64 and path.startswith(IN_ROWS):
        same = a.shape == b.shape
    elif isinstance(a, np.ndarray):
        same = bool(np.array_equal(a, b, equal_nan=a.dtype == np.float64)) or path in MAY_DIFFER
    elif isinstance(a, list | tuple) and any(is_dataclass(x) for x in a):
        same = len(a) == len(b)
        for x, y in zip(a, b, strict=False):
            _compare(x, y, path)
    else:
        same = a == b
    if not same:
        raise KinemaError(other_form(path))


MAY_DIFFER = ("geoms.first_number", "geoms.counts")
"""Whole numbers that rows tell all the same."""


def other_form(where: str) -> str:
    """What to say of models that differ in something that environments cannot have their own of."""
    return (
        "variants: all have the same links, joints and shapes by name and kind, and may differ in sizes, masses, "
        f"places, surfaces and what joints are like; these differ in {where}"
    )
