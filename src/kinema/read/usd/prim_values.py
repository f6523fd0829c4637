"""Attribute values, read fast and checked: most attributes are not authored, and a stranger's may have any type.

Asking OpenUSD for a value costs microseconds even where only the schema's fallback comes back. So what a prim authors
is listed once, and fallbacks are kept for each combination of type and applied schemas.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.foundation import Diagnostics, Origin
from kinema.words import ours, physics, usd

from . import pxr
from .layers import first_message
from .own_numbers import exact_number, read_stamp
from .schemas import applied

_SMALL = frozenset({usd.RADIUS, usd.HEIGHT, usd.AXIS, usd.SIZE, usd.ORIENTATION, usd.RADIUS_TOP, usd.RADIUS_BOTTOM})
_TARGETS = frozenset({*physics.BODIES, physics.SIMULATION_OWNER})
_SMALL_PREFIXES = physics.PROPERTIES
"""Attributes that hold a number or two and are always asked for; points and the like are read when they are needed."""


@dataclass(slots=True, eq=False)
class PrimKind:
    """What prims of one type with the same applied schemas have in common."""

    type: str
    schemas: frozenset[str]
    """The applied API schemas, multiple-apply ones with their instance's name."""
    is_xformable: bool
    is_gprim: bool
    is_joint: bool
    is_instancer: bool
    is_light: bool
    fallbacks: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    """Attribute -> an instance of the type its schema gives it; None where no schema knows it."""


@dataclass(slots=True, eq=False)
class PrimFacts:
    """What is looked up again and again about a prim."""

    prim: pxr.Prim
    path: str
    schemas: frozenset[str]
    authored: frozenset[str]
    """Names of the properties that some layer says something about."""
    kind: PrimKind
    read: dict[str, Any] = field(default_factory=dict)
    """Authored values that were read ahead."""


class PrimValues:
    """Values of attributes at one time."""

    def __init__(self, stage: pxr.Stage, file: str, time: Any, diagnostics: Diagnostics) -> None:
        self.time = time
        self.animated: dict[str, None] = {}
        """Paths of what was read and changes over time, in order."""
        self._file = file
        self._diagnostics = diagnostics
        self._facts: dict[pxr.Prim, PrimFacts] = {}
        self._by_id: dict[int, PrimFacts] = {}
        # the same, by the identity of the Python objects that the facts hold: hashing a prim costs microseconds
        self._kinds: dict[tuple[str, tuple[str, ...]], PrimKind] = {}
        self._hiding: set[str] = set()
        """Paths of the prims that were looked at and say a purpose or a visibility."""
        self.stamp = read_stamp(stage)
        """What Kinema left in a stage that it wrote; None in all others."""
        self._complained: set[tuple[str, str]] = set()
        self._may_be_animated = any(layer.ListAllTimeSamples() for layer in stage.GetUsedLayers(True))
        self._moving: dict[str, bool] = {}

    @property
    def says_world(self) -> bool:
        """Whether the stage says that it is a world, however few robots there are in it."""
        return self.stamp is not None and self.stamp.world

    def facts(self, prim: pxr.Prim) -> PrimFacts:
        """The prim's schemas and authored properties."""
        facts = self._by_id.get(id(prim))
        if facts is None:
            facts = self._facts.get(prim)
        if facts is None:
            facts = self._facts[prim] = self._by_id[id(prim)] = self._gather(prim)
        return facts

    def look_at(self, prims: Sequence[pxr.Prim]) -> None:
        """Gather the facts of many prims: the same call for all of them, then the next, keeps it in the cache."""
        infos = [prim.GetPrimTypeInfo() for prim in prims]
        types = [info.GetTypeName() for info in infos]
        schemas = [info.GetAppliedAPISchemas() for info in infos]
        names = [prim.GetAuthoredPropertyNames() for prim in prims]
        paths = [prim.GetPath() for prim in prims]
        for prim, *gathered in zip(prims, types, schemas, names, paths, strict=True):
            self._facts[prim] = self._by_id[id(prim)] = self._facts_of(prim, *gathered)

    def _gather(self, prim: pxr.Prim) -> PrimFacts:
        info = prim.GetPrimTypeInfo()
        names = prim.GetAuthoredPropertyNames()
        return self._facts_of(prim, info.GetTypeName(), info.GetAppliedAPISchemas(), names, prim.GetPath())

    def _facts_of(self, prim: pxr.Prim, type_name: Any, schemas: Any, names: Any, path: Any) -> PrimFacts:
        key = (str(type_name), tuple(schemas))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _kind(prim)
        authored = frozenset(names)
        if usd.PURPOSE in authored or usd.VISIBILITY in authored:
            self._hiding.add(str(path))
        return PrimFacts(prim, str(path), kind.schemas, authored, kind)

    def may_be_hidden(self, prim: pxr.Prim) -> bool:
        """Whether a prim, or one above it, says a purpose or a visibility."""
        path = self.facts(prim).path if self._hiding else ""
        while path and path not in self._hiding:
            path = path.rpartition("/")[0]
        return bool(path)

    def value(self, prim: pxr.Prim, name: str) -> Any:
        """An attribute's value, its fallback, or None."""
        facts = self._by_id.get(id(prim)) or self.facts(prim)
        if name in facts.authored:
            read = facts.read
            value = read[name] if name in read else self._authored_value(prim, name, facts)
            if value is not None:
                return value
        fallbacks = facts.kind.fallbacks
        if name not in fallbacks:
            fallbacks[name] = prim.GetPrimDefinition().GetAttributeFallbackValue(name)
        return fallbacks[name]

    def authored(self, prim: pxr.Prim, name: str) -> Any:
        """An attribute's value where the stage says it, else None."""
        facts = self._by_id.get(id(prim)) or self.facts(prim)
        if name not in facts.authored or not prim.GetAttribute(name).HasAuthoredValue():
            return None
        return self._authored_value(prim, name, facts)

    def read_ahead(self, prims: Iterable[pxr.Prim]) -> None:
        """Read the small attributes that prims author, name by name: in tight loops this takes a third of the time."""
        having: dict[str, list[PrimFacts]] = {}
        for prim in prims:
            facts = self.facts(prim)
            for name in facts.authored:
                having.setdefault(name, []).append(facts)
        for name, group in having.items():
            if name in _TARGETS:
                for facts in group:
                    facts.read[name] = self.targets(facts.prim, name)
            elif name in _SMALL or name.startswith(_SMALL_PREFIXES):
                for facts in group:
                    facts.read[name] = self._authored_value(facts.prim, name, facts)

    def targets(self, prim: pxr.Prim, name: str) -> list[Any]:
        """The paths that an authored relationship names."""
        relationship = prim.GetRelationship(name)
        try:
            return list(relationship.GetTargets()) if relationship else []
        except RuntimeError as error:
            self._cannot_be_read(prim, name, error)
            return []

    def _authored_value(self, prim: pxr.Prim, name: str, facts: PrimFacts) -> Any:
        attribute = prim.GetAttribute(name)
        try:
            value = attribute.Get(self.time)
        except RuntimeError as error:
            if not prim.GetRelationship(name):
                self._cannot_be_read(prim, name, error)
            return None
        if self._may_be_animated and attribute.ValueMightBeTimeVarying():
            self.animated[f"{prim.GetPath()}.{name}"] = None
        expected = facts.kind.expected
        if name not in expected:
            known = name in prim.GetPrimDefinition().GetPropertyNames()
            expected[name] = attribute.GetTypeName().defaultValue if known else None
        sample = expected[name]
        if sample is None or value is None or type(value) is type(sample):
            return value if self.stamp is None or value is None else self._exact(prim, name, facts, attribute, value)
        fitting = _as_type_of(sample, value)
        if fitting is None:
            self._complain(prim, name, attribute, value)
        return fitting

    def _exact(self, prim: pxr.Prim, name: str, facts: PrimFacts, attribute: Any, value: Any) -> Any:
        twin = prim.GetAttribute(ours.EXACT + name).Get(self.time) if ours.EXACT + name in facts.authored else None
        decimals = ours.DECIMALS.name in facts.authored
        return value if self.stamp is None else exact_number(self.stamp, attribute, value, twin, decimals)

    def _cannot_be_read(self, prim: pxr.Prim, name: str, error: Exception) -> None:
        path = str(prim.GetPath())
        if (path, name) not in self._complained:
            self._complained.add((path, name))
            message = f"{name} of {prim.GetName()!r} cannot be read: {first_message(error)}"
            self._diagnostics.error("usd.unreadable", message, origin=Origin(self._file, None, path))

    def _complain(self, prim: pxr.Prim, name: str, attribute: Any, value: Any) -> None:
        key = (str(prim.GetPath()), name)
        if key not in self._complained:
            self._complained.add(key)
            self._diagnostics.error(
                "usd.wrong-type",
                f"{name} of {prim.GetName()!r} is a {type(value).__name__}, where a {attribute.GetTypeName()} belongs;"
                " it is taken as not given",
                origin=Origin(self._file, None, key[0]),
            )

    def note_motion(self, prim: pxr.Prim) -> None:
        """Remember where a transform that was read changes over time: on the prim or above it."""
        if not self._may_be_animated:
            return
        while prim and not prim.IsPseudoRoot():
            path = str(prim.GetPath())
            if path in self._moving:
                return
            xformable = pxr.UsdGeom.Xformable(prim)
            self._moving[path] = bool(xformable) and xformable.TransformMightBeTimeVarying()
            if self._moving[path]:
                self.animated[path] = None
            if xformable and xformable.GetResetXformStack():
                return
            prim = prim.GetParent()


def _kind(prim: pxr.Prim) -> PrimKind:
    geom = pxr.UsdGeom
    return PrimKind(
        type=str(prim.GetTypeName()),
        schemas=frozenset(applied(prim)),
        is_xformable=prim.IsA(geom.Xformable),
        is_gprim=prim.IsA(geom.Gprim),
        is_joint=prim.IsA(pxr.UsdPhysics.Joint),
        is_instancer=prim.IsA(geom.PointInstancer),
        is_light=prim.HasAPI(pxr.UsdLux.LightAPI),
    )


def _as_type_of(sample: Any, value: Any) -> Any:
    """The value as the schema's type, or None: another precision will do, another kind of thing will not."""
    if isinstance(sample, str) or isinstance(value, str):
        return None
    if isinstance(value, bool | int | float):
        return type(sample)(value) if isinstance(sample, bool | int | float) else None
    if type(sample).__name__.endswith("Array"):
        return value if _same_elements(np.asarray(sample), np.asarray(value)) else None
    try:
        return type(sample)(value)
    except Exception:  # OpenUSD raises many types, one of them its own
        return None


def _same_elements(wanted: np.ndarray, given: np.ndarray) -> bool:
    return given.dtype.kind in "biuf" and given.ndim == wanted.ndim and given.shape[1:] == wanted.shape[1:]
