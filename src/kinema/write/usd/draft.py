"""A layer in the making: prims with schemas, attributes, targets and poses.

The schema of UsdPhysics stores most numbers in single precision. Where that loses digits, the full number is kept
beside it in `kinema:exact:<attribute>`; readers that know it use it as long as the two agree. Most numbers that people
write, such as 0.1, need none: the stage says that its numbers stand for the shortest decimal that rounds to them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Node
from kinema.foundation import Array, ArrayLike, Pose, shortest_decimals
from kinema.words import ours, usd

from ..losing import put_on_record
from ..report import Action, LossReport
from . import pxr
from .values import to_usd

_LOST = 1e-12
"""Relative rounding that is not worth an exact value of its own: that of computing a pose."""
_FEW = 64
"""How many points of a list are looked at first: mostly all of them stand for decimals, or none."""
_LONG = 256
"""Numbers from which on a list is worth looking for others like it."""
_UPRIGHT = np.eye(3).tolist()
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
    long_lists: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Attributes with many numbers, by prim and name."""

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

    def finish(self) -> None:
        """Put the schemas into the layer: for each prim all of them at once."""
        for prim in self.prims.values():
            if prim.schemas:
                operation = pxr.Sdf.TokenListOp.Create(prependedItems=prim.schemas)
                prim.spec.SetInfo(usd.API_SCHEMAS, operation)

    def lose(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Put a loss on record: of a node, or of something called by kind and name."""
        put_on_record(self.report, action, node, what, how)


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
        """Apply API schemas, each once; the layer has them when the draft is finished."""
        new = [s for s in dict.fromkeys(schemas) if s not in self.schemas]
        if not new:
            return
        self.schemas += new

    def set(self, name: str, kind: str, value: Any, *, uniform: bool = False, custom: bool = False) -> None:
        """An attribute of a type, such as `float` or `token[]`, as it is."""
        attribute = self._attribute(name, kind, uniform=uniform, custom=custom)
        attribute.default = made = to_usd(kind, value)
        if kind.endswith("[]") and len(made) >= _LONG and hasattr(made, "FromNumpy"):
            self.draft.long_lists[self.path, name] = attribute

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
        meaning = str if self.draft.decimals else float
        off = max(abs(float(meaning(np.float32(v))) - v) for v in doubtful)
        return off > max(_LOST * max(map(abs, doubtful)), _NOISE if numbers.ndim else 0.0)

    def _list_loses(self, numbers: Array) -> bool:
        """The same for a list: it says by itself where its numbers stand for decimals."""
        single = numbers.astype(np.float32)
        if not _is_off(numbers, single.astype(np.float64), _NOISE):
            return False
        scale = _size(numbers)
        for part in (slice(_FEW), slice(_FEW, None)):
            if _is_off(numbers[part], shortest_decimals(single[part]), _NOISE, scale):
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
        if pose.rotation.tolist() != _UPRIGHT:
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


def _is_off(numbers: Array, read: Array, noise: float, scale: float | None = None) -> bool:
    return _size(read - numbers) > max(_LOST * (_size(numbers) if scale is None else scale), noise)


def _size(numbers: Array) -> float:
    """The largest of them."""
    return float(np.abs(numbers).max(initial=0.0))


def _twin(kind: str) -> str:
    return ours.TWINS[kind.removesuffix("[]")] + ("[]" if kind.endswith("[]") else "")
