"""Table of the pairs of geom types with analytic contact functions, which are imported when they are first called.

Contact buffers are planned by the maximum numbers of contacts in this table, without importing the contact functions.
"""

from __future__ import annotations

import importlib
from dataclasses import dataclass
from typing import TYPE_CHECKING

from kinema.core import InternalError
from kinema.model import GEOM_TYPES

if TYPE_CHECKING:
    from .collision_types import CollisionFunction


@dataclass(frozen=True, slots=True)
class AnalyticPair:
    """Analytic contact function of a pair of geom types."""

    function: CollisionFunction | str
    """The function, or its `module:name` in this package."""
    max_contacts: int
    """Maximum number of contacts that the function emits."""

    @property
    def collide(self) -> CollisionFunction:
        """The contact function."""
        if not isinstance(self.function, str):
            return self.function
        module, _, name = self.function.partition(":")
        return getattr(importlib.import_module(f".{module}", __package__), name)


ANALYTIC_COLLISION_TABLE: dict[tuple[str, str], AnalyticPair] = {
    ("plane", "sphere"): AnalyticPair("plane_pairs:collide_plane_sphere", 1),
    ("plane", "capsule"): AnalyticPair("plane_pairs:collide_plane_capsule", 2),
    ("plane", "ellipsoid"): AnalyticPair("plane_pairs:collide_plane_ellipsoid", 1),
    ("plane", "cylinder"): AnalyticPair("plane_pairs:collide_plane_cylinder", 4),
    ("plane", "cone"): AnalyticPair("plane_pairs:collide_plane_cone", 4),
    ("plane", "box"): AnalyticPair("plane_pairs:collide_plane_box", 4),
    ("sphere", "sphere"): AnalyticPair("sphere_capsule_pairs:collide_sphere_sphere", 1),
    ("sphere", "capsule"): AnalyticPair("sphere_capsule_pairs:collide_sphere_capsule", 1),
    ("sphere", "ellipsoid"): AnalyticPair("sphere_capsule_pairs:collide_sphere_ellipsoid", 1),
    ("sphere", "cylinder"): AnalyticPair("sphere_capsule_pairs:collide_sphere_cylinder", 1),
    ("sphere", "cone"): AnalyticPair("sphere_capsule_pairs:collide_sphere_cone", 1),
    ("sphere", "box"): AnalyticPair("sphere_capsule_pairs:collide_sphere_box", 1),
    ("capsule", "capsule"): AnalyticPair("sphere_capsule_pairs:collide_capsule_capsule", 2),
    ("capsule", "box"): AnalyticPair("capsule_box:collide_capsule_box", 2),
    ("box", "box"): AnalyticPair("box_box:collide_box_box", 8),
}
"""Analytic contact function and maximum number of contacts, by two geom types ordered as in `GEOM_TYPES`."""


def check_analytic_collision_table() -> None:
    """Raise `InternalError` for an entry whose key is not two geom types ordered as in `GEOM_TYPES`."""
    for pair in ANALYTIC_COLLISION_TABLE:
        if not set(pair) <= set(GEOM_TYPES) or [*pair] != sorted(pair, key=GEOM_TYPES.index):
            raise InternalError(f"collision pair {pair}: not two geom types in the order {', '.join(GEOM_TYPES)}")
