"""Kinema's own settings on a stage that it wrote. Anybody can write such a stage: types and numbers are checked."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np

from . import pxr

if TYPE_CHECKING:
    from .stage_index import StageIndex

_TYPES: dict[str, tuple[str, ...]] = {
    "string": ("name", "robot", "freeJoint", "mimicIsConstraint", "base", "kind", "constraint", "solid"),
    "bool": (
        *("nameIsGenerated", "implicit", "coneIsTotal", "massless", "inertiaIsComputed", "referenceIsFolded"),
        *("staticLink", "noMarker", "isSelfCollision", "freeJoint:collisionEnabled"),
    ),
    "int": ("order", "freeJoint:order"),
    "double": ("gravityScale", "pitch", "massless:mass", "verticalFov", "dynamicFriction2"),
    "double2": ("resolution", "limit:*"),
    "double3": ("massless:center", "freeJoint:localPos0", "freeJoint:localPos1"),
    "quatd": ("frame", "freeJoint:localRot0", "freeJoint:localRot1"),
    "double[]": ("massless:inertia", "reference", "state", "solid:numbers", "axis:*"),
    "double3[]": ("directions",),
    "token[]": ("axes", "implied", "unset"),
    "asset": ("texture",),
}
_TYPE_OF = {name: kind for kind, names in _TYPES.items() for name in names}
"""Setting -> its type; `limit:*` stands for all that begin so."""


def own(index: StageIndex, prim: pxr.Prim, name: str) -> Any:
    """One of Kinema's own settings.

    None where the stage is not Kinema's, does not say it, or says it with a wrong type or with a number that is none.
    """
    if index.values.stamp is None:
        return None
    value = index.authored(prim, f"kinema:{name}")
    if value is None:
        return None
    kind = _TYPE_OF.get(name)
    if kind is not None:
        return value if _has_type(value, kind) and _is_finite(value) else None
    # what is said of one axis may be infinite
    return value if _has_type(value, _TYPE_OF[f"{name.partition(':')[0]}:*"]) else None


def _is_finite(value: Any) -> bool:
    if isinstance(value, pxr.Gf.Quatd):
        value = [value.GetReal(), *value.GetImaginary()]
    elif isinstance(value, str | pxr.Sdf.AssetPath | pxr.Vt.TokenArray):
        return True
    return bool(np.isfinite(np.array(value)).all())


def _has_type(value: Any, kind: str) -> bool:
    gf, vt = pxr.Gf, pxr.Vt
    match kind:
        case "string":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "double":
            return isinstance(value, float)
        case "double2" | "double3":
            return isinstance(value, gf.Vec2d if kind == "double2" else gf.Vec3d)
        case "quatd":
            return isinstance(value, gf.Quatd)
        case "double[]" | "double3[]":
            return isinstance(value, vt.DoubleArray if kind == "double[]" else vt.Vec3dArray)
        case "token[]":
            return isinstance(value, vt.TokenArray)
    return isinstance(value, pxr.Sdf.AssetPath)
