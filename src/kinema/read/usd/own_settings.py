"""Kinema's own settings on a stage that it wrote. Anybody can write such a stage: types and numbers are checked."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.words import ours

from . import pxr
from .gf_values import floats
from .stage_index import StageIndex


def own(index: StageIndex, prim: pxr.Prim, setting: ours.Setting) -> Any:
    """One of Kinema's own settings.

    None where the stage is not Kinema's, does not say it, or says it with a wrong type or with a number that is none.
    """
    if index.values.stamp is None:
        return None
    value = index.authored(prim, setting.name)
    if value is None or not _has_type(value, setting.type):
        return None
    return value if setting.may_be_infinite or _is_finite(value) else None


def _is_finite(value: Any) -> bool:
    if isinstance(value, pxr.Gf.Quatd):
        value = [value.GetReal(), *floats(value.GetImaginary())]
    elif isinstance(value, str | pxr.Sdf.AssetPath | pxr.Vt.TokenArray):
        return True
    return bool(np.isfinite(np.array(value)).all())


def _has_type(value: Any, kind: str) -> bool:
    gf, vt = pxr.Gf, pxr.Vt
    match kind:
        case "string" | "token":
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
