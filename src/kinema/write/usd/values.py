"""Plain values as OpenUSD's types."""

from __future__ import annotations

import functools
from collections.abc import Callable, Mapping
from typing import Any

import numpy as np

from . import pxr


def to_usd(kind: str, value: Any) -> Any:
    """A plain value as the type that USD calls `kind`; quaternions are given as (w, x, y, z)."""
    return _maker(kind)(value)


@functools.cache
def _maker(kind: str) -> Callable[[Any], Any]:
    """What makes values of a type."""
    if kind.endswith("[]"):
        return _list_maker(kind.removesuffix("[]"))
    if kind in _PLAIN:
        return _PLAIN[kind]
    if kind == "asset":
        return lambda value: pxr.Sdf.AssetPath(str(value))
    if kind not in _GF:
        return lambda value: value
    make = getattr(pxr.Gf, _GF[kind])
    if kind in ("quatf", "quath"):  # rounded once, not number by number
        exact = pxr.Gf.Quatd
        return lambda value: make(exact(*_floats(value)))
    return lambda value: make(*_floats(value))


def _list_maker(kind: str) -> Callable[[Any], Any]:
    if kind in ("token", "string"):
        make = pxr.Vt.TokenArray if kind == "token" else pxr.Vt.StringArray
        return lambda value: make([str(v) for v in value])
    if kind not in _LISTS:
        return lambda value: value
    name, dtype, shape = _LISTS[kind]
    from_numpy = getattr(pxr.Vt, name).FromNumpy
    return lambda value: from_numpy(np.ascontiguousarray(value, dtype=dtype).reshape(shape))


def _floats(value: Any) -> list[float]:
    return [float(v) for v in value]


_PLAIN: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("float", "double", "half"), float),
    **dict.fromkeys(("int", "uint", "int64", "uint64", "uchar"), int),
    **dict.fromkeys(("string", "token"), str),
    "bool": bool,
}
_GF: Mapping[str, str] = {
    "float2": "Vec2f",
    "float3": "Vec3f",
    "float4": "Vec4f",
    "double2": "Vec2d",
    "double3": "Vec3d",
    "double4": "Vec4d",
    "point3f": "Vec3f",
    "point3d": "Vec3d",
    "vector3f": "Vec3f",
    "vector3d": "Vec3d",
    "normal3f": "Vec3f",
    "color3f": "Vec3f",
    "color4f": "Vec4f",
    "color4d": "Vec4d",
    "color3d": "Vec3d",
    "quatf": "Quatf",
    "quatd": "Quatd",
    "quath": "Quath",
}
_LISTS: Mapping[str, tuple[str, type, tuple[int, ...]]] = {
    "float": ("FloatArray", np.float32, (-1,)),
    "double": ("DoubleArray", np.float64, (-1,)),
    "int": ("IntArray", np.int32, (-1,)),
    **dict.fromkeys(("point3f", "float3", "vector3f", "color3f", "normal3f"), ("Vec3fArray", np.float32, (-1, 3))),
    **dict.fromkeys(("texCoord2f", "float2"), ("Vec2fArray", np.float32, (-1, 2))),
    **dict.fromkeys(("point3d", "double3", "vector3d"), ("Vec3dArray", np.float64, (-1, 3))),
}
