"""Which API schemas a prim has; OpenUSD forgets those of vendors where their plugin is not installed."""

from __future__ import annotations

from collections.abc import Iterable

from . import pxr

BRINGS = {
    "NewtonArticulationRootAPI": ("PhysicsArticulationRootAPI",),
    "NewtonMassAPI": ("PhysicsMassAPI",),
    "NewtonMaterialAPI": ("PhysicsMaterialAPI",),
    "NewtonCollisionAPI": ("PhysicsCollisionAPI",),
    "NewtonSDFCollisionAPI": ("PhysicsCollisionAPI",),
    "NewtonMeshCollisionAPI": ("PhysicsCollisionAPI", "PhysicsMeshCollisionAPI"),
}
"""Vendor schema -> the schemas it applies along with itself."""


def applied(prim: pxr.Prim) -> set[str]:
    """The names of the API schemas on a prim."""
    authored = prim.GetPrimTypeInfo().GetAppliedAPISchemas()
    names = {*prim.GetAppliedSchemas(), *authored}
    for name in authored:
        names.update(BRINGS.get(name, ()))
    return names


def instances(schemas: Iterable[str], schema: str) -> list[str]:
    """The instance names of a multiple-apply schema among applied ones, in alphabetical order."""
    prefix = schema + ":"
    return sorted(name.removeprefix(prefix) for name in schemas if name.startswith(prefix))
