"""Which API schemas a prim has; OpenUSD forgets those of vendors where their plugin is not installed."""

from __future__ import annotations

from collections.abc import Iterable

from kinema.words import newton, physics

from . import pxr

BRINGS = {
    newton.ARTICULATION_ROOT_API: (physics.ARTICULATION_ROOT_API,),
    newton.MASS_API: (physics.MASS_API,),
    newton.MATERIAL_API: (physics.MATERIAL_API,),
    newton.COLLISION_API: (physics.COLLISION_API,),
    newton.SDF_COLLISION_API: (physics.COLLISION_API,),
    newton.MESH_COLLISION_API: (physics.COLLISION_API, physics.MESH_COLLISION_API),
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
