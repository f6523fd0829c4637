"""A layer in the making: prims with schemas, attributes, targets and poses.

The schema of UsdPhysics stores most numbers in single precision. Where that loses digits, the full number is kept
beside it in `kinema:exact:<attribute>`; readers that know it use it as long as the two agree. Most numbers that people
write, such as 0.1, need none: the stage says that its numbers stand for the shortest decimal that rounds to them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Node
from kinema.foundation import Array, ArrayLike, Pose
from kinema.words import ours, usd

from ..losing import loss_of
from ..report import Action, LossReport
from . import pxr

_LOST = 1e-12
"""Relative rounding that is not worth an exact value of its own: that of computing a pose."""
_LONG = 15_000
"""How many numbers of a list are looked at one by one."""
_NOISE = 1e-15
"""Parts of a vector [m] below this are what is left of a zero, not a number to be kept exactly."""


@dataclass(slots=True, eq=False)
class Draft:
    """The layer, and what is told about it."""

    layer: pxr.Layer
    report: LossReport
    exact: bool = True
    decimals: bool = True
    """Whether numbers in single precision stand for the shortest decimal that rounds to them."""
    prims: dict[str, PrimDraft] = field(default_factory=dict)
    relative_targets: list[tuple[str, str, str]] = field(default_factory=list)
    """Prim, relationship and target of what reads better as a relative path."""

    def prim(self, path: str, kind: str = usd.XFORM) -> PrimDraft:
        """A new prim of a type; its parents must have been made before."""
        spec = pxr.Sdf.CreatePrimInLayer(self.layer, path)
        spec.specifier = pxr.Sdf.SpecifierDef
        spec.typeName = kind
        prim = PrimDraft(path, spec, self)
        self.prims[path] = prim
        return prim

    def scope(self, path: str) -> str:
        """The path of a scope, made when it is first asked for."""
        if path not in self.prims:
            self.prim(path, usd.SCOPE)
        return path

    def lose(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Put a loss on record: of a node, or of something called by kind and name."""
        self.report.add(loss_of(action, node, what, how))


@dataclass(slots=True, eq=False)
class PrimDraft:
    """A prim in the making."""

    path: str
    spec: pxr.PrimSpec
    draft: Draft
    schemas: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    """Those that were made here; asking OpenUSD for them takes longer than making them."""
    relationships: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """The last part of its path."""
        return self.path.rpartition("/")[2]

    def apply(self, *schemas: str) -> None:
        """Apply API schemas, each once."""
        new = [s for s in dict.fromkeys(schemas) if s not in self.schemas]
        if not new:
            return
        self.schemas += new
        operation = pxr.Sdf.TokenListOp.Create(prependedItems=self.schemas)
        self.spec.SetInfo(usd.API_SCHEMAS, operation)

    def set(self, name: str, kind: str, value: Any, *, uniform: bool = False, custom: bool = False) -> None:
        """An attribute of a type, such as `float` or `token[]`, as it is."""
        self._attribute(name, kind, uniform=uniform, custom=custom).default = to_usd(kind, value)

    def declare(self, name: str, kind: str, *, source: str = "") -> None:
        """An attribute without a value: an output, or an input that is connected to a source."""
        attribute = self._attribute(name, kind)
        if source:
            attribute.connectionPathList.explicitItems = [source]

    def _attribute(self, name: str, kind: str, *, uniform: bool = False, custom: bool = False) -> Any:
        found = self.attributes.get(name)
        if found is None:
            sdf = pxr.Sdf
            variability = sdf.VariabilityUniform if uniform else sdf.VariabilityVarying
            found = self.attributes[name] = sdf.AttributeSpec(self.spec, name, _type(kind), variability, custom)
        return found

    def primvar(self, name: str, kind: str, values: Any, interpolation: str, indices: Any = None) -> None:
        """Values that belong to points, corners or the whole of a prim, and where each finds its own."""
        self.set(name, kind, values)
        self.attributes[name].SetInfo(usd.INTERPOLATION, interpolation)
        if indices is not None:
            self.set(name + usd.INDICES, "int[]", indices)

    def keep(self, setting: ours.Setting, value: Any) -> None:
        """One of Kinema's own settings, which only its reader knows."""
        self.set(setting.name, setting.type, value, custom=True)

    def number(self, name: str, kind: str, value: ArrayLike) -> None:
        """An attribute in single precision, with the exact value beside it where that says more."""
        self.set(name, kind, value)
        if self.draft.exact and self._loses(kind, np.asarray(value, dtype=np.float64)):
            self.set(ours.EXACT + name, _twin(kind), value, custom=True)

    def _loses(self, kind: str, numbers: Array) -> bool:
        """Whether what a reader makes of the single-precision numbers is not what was meant."""
        if kind.endswith("[]"):
            return self._list_loses(numbers)
        doubtful = [v for v in numbers.reshape(-1).tolist() if not _is_short(v)]
        if not doubtful:
            return False
        single = [np.float32(v) for v in doubtful]
        read = [float(str(v)) if self.draft.decimals else float(v) for v in single]
        return _is_off(np.array(doubtful), np.array(read), _NOISE if numbers.ndim else 0.0)

    def _list_loses(self, numbers: Array) -> bool:
        """The same for a list: it says by itself where its numbers stand for decimals."""
        single = numbers.astype(np.float32)
        if not _is_off(numbers, single.astype(np.float64), _NOISE):
            return False
        if numbers.size > _LONG:
            return True
        decimals = np.array([float(str(v)) for v in single.reshape(-1)]).reshape(numbers.shape)
        if _is_off(numbers, decimals, _NOISE):
            return True
        self.keep(ours.DECIMALS, True)
        return False

    def relate(self, name: str, targets: Iterable[str], *, custom: bool = False, relative: bool = False) -> None:
        """A relationship; `relative` where its one target reads better as a path from this prim."""
        listed = list(targets)
        relationship = self.relationships.get(name)
        if relationship is None:
            relationship = self.relationships[name] = pxr.Sdf.RelationshipSpec(self.spec, name, custom)
        relationship.targetPathList.explicitItems = listed
        if relative:
            self.draft.relative_targets.append((self.path, name, listed[0]))

    def place(self, pose: Pose, scale: Sequence[float] | Array | None = None) -> None:
        """Its transform in its parent, in double precision; what is the identity is left out."""
        order: list[str] = []
        if pose.position.any():
            self.set(usd.TRANSLATE, "double3", pose.position)
            order.append(usd.TRANSLATE)
        if not np.array_equal(pose.rotation, np.eye(3)):
            self.set(usd.ORIENT, "quatd", pose.quaternion)
            order.append(usd.ORIENT)
        if scale is not None and any(s != 1 for s in scale):
            self.set(usd.SCALE, "double3", scale)
            order.append(usd.SCALE)
        if order:
            self.set(usd.XFORM_OP_ORDER, "token[]", order, uniform=True)

    def tell(self, **metadata: Any) -> None:
        """Metadata such as `kind` and `displayName`."""
        for key, value in metadata.items():
            self.spec.SetInfo(key, value)


@functools.cache
def _type(kind: str) -> Any:
    return pxr.Sdf.ValueTypeNames.Find(kind)


def _is_short(value: float) -> bool:
    """Whether a number is the same in any precision: a small whole one, or none at all."""
    return not math.isfinite(value) or (value == int(value) and abs(value) < 1e6)


def _is_off(numbers: Array, read: Array, noise: float) -> bool:
    if numbers.size == 0:
        return False
    scale, off = float(np.abs(numbers).max()), float(np.abs(read - numbers).max())
    return off > max(_LOST * scale, noise)


def _twin(kind: str) -> str:
    return ours.TWINS[kind.removesuffix("[]")] + ("[]" if kind.endswith("[]") else "")


def to_usd(kind: str, value: Any) -> Any:
    """A plain value as OpenUSD's type; quaternions are given as (w, x, y, z)."""
    gf = pxr.Gf
    if kind.endswith("[]"):
        return _array(kind.removesuffix("[]"), value)
    if kind in ("quatf", "quatd", "quath"):
        w, x, y, z = (float(v) for v in value)
        made = gf.Quatd(w, x, y, z)
        return made if kind == "quatd" else (gf.Quatf if kind == "quatf" else gf.Quath)(made)
    if kind in ("float", "double", "half"):
        return float(value)
    if kind == "bool":
        return bool(value)
    if kind in ("int", "uint", "int64", "uint64", "uchar"):
        return int(value)
    if kind in ("string", "token"):
        return str(value)
    if kind == "asset":
        return pxr.Sdf.AssetPath(str(value))
    maker = _VECTORS.get(kind)
    return value if maker is None else getattr(gf, maker)(*(float(v) for v in value))


_VECTORS: Mapping[str, str] = {
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
}


def _array(kind: str, value: Any) -> Any:
    vt = pxr.Vt
    if kind in ("token", "string"):
        maker = vt.TokenArray if kind == "token" else vt.StringArray
        return maker([str(v) for v in value])
    if kind in ("float", "double"):
        dtype, maker = (np.float32, vt.FloatArray) if kind == "float" else (np.float64, vt.DoubleArray)
        return maker.FromNumpy(np.ascontiguousarray(value, dtype=dtype))
    if kind == "int":
        return vt.IntArray.FromNumpy(np.ascontiguousarray(value, dtype=np.int32))
    if kind in ("point3f", "float3", "vector3f", "color3f", "normal3f"):
        return vt.Vec3fArray.FromNumpy(np.ascontiguousarray(value, dtype=np.float32).reshape(-1, 3))
    if kind in ("texCoord2f", "float2"):
        return vt.Vec2fArray.FromNumpy(np.ascontiguousarray(value, dtype=np.float32).reshape(-1, 2))
    if kind in ("point3d", "double3", "vector3d"):
        return vt.Vec3dArray.FromNumpy(np.ascontiguousarray(value, dtype=np.float64).reshape(-1, 3))
    return value
