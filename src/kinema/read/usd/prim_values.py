"""Cached, type-checked attribute values and API schemas of prims.

Reading a value from OpenUSD takes microseconds even for an unauthored attribute, so the authored attributes of a prim
are listed once, and fallbacks are cached per combination of type and applied schemas. Beside a single-precision
attribute that cannot hold a number, Kinema writes `kinema:exact:<attribute>` in double precision; its value is used as
long as it rounds to the value of the attribute.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Diagnostics, Origin, shortest_decimals
from kinema.tokens import kinema_usd, newton, usd, usd_physics

from . import pxr
from .layers import first_message

# -- vectors -----------------------------------------------------------------------------------------------------------


def to_floats(vector: Any) -> list[float]:
    """Components of a Gf vector as floats.

    A Python loop over a Gf vector ends with a C++ exception and is twenty times slower.
    """
    return np.array(vector, dtype=np.float64).tolist()


# -- API schemas -------------------------------------------------------------------------------------------------------

IMPLIED_SCHEMAS = {
    newton.ARTICULATION_ROOT_API: (usd_physics.ARTICULATION_ROOT_API,),
    newton.MASS_API: (usd_physics.MASS_API,),
    newton.MATERIAL_API: (usd_physics.MATERIAL_API,),
    newton.COLLISION_API: (usd_physics.COLLISION_API,),
    newton.SDF_COLLISION_API: (usd_physics.COLLISION_API,),
    newton.MESH_COLLISION_API: (usd_physics.COLLISION_API, usd_physics.MESH_COLLISION_API),
}
"""Vendor schema -> UsdPhysics schemas that it applies implicitly."""


def applied_schemas(prim: pxr.Prim) -> set[str]:
    """Names of the API schemas of a prim, including implied ones and those of vendors without installed plugin."""
    authored = prim.GetPrimTypeInfo().GetAppliedAPISchemas()
    names = {*prim.GetAppliedSchemas(), *authored}
    for name in authored:
        names.update(IMPLIED_SCHEMAS.get(name, ()))
    return names


def schema_instances(schemas: Iterable[str], schema: str) -> list[str]:
    """Sorted instance names of a multiple-apply schema."""
    prefix = schema + ":"
    return sorted(name.removeprefix(prefix) for name in schemas if name.startswith(prefix))


# -- double-precision values -------------------------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class KinemaLayerData:
    """Custom layer data of a stage written by Kinema."""

    decimals: bool
    """Whether single-precision numbers represent the shortest decimal that rounds to them."""
    is_world: bool = False
    """Whether the stage is a world, regardless of the number of robots."""


def read_kinema_layer_data(stage: pxr.Stage) -> KinemaLayerData | None:
    """Kinema's custom layer data of the stage or one of its layers; None if there is none."""
    entries = [layer.customLayerData.get(kinema_usd.CUSTOM_DATA_KEY) for layer in stage.GetUsedLayers(True)]
    found = [s for s in entries if isinstance(s, dict)]
    if not found:
        return None
    root = stage.GetRootLayer().customLayerData.get(kinema_usd.CUSTOM_DATA_KEY)
    is_world = isinstance(root, dict) and bool(root.get(kinema_usd.CUSTOM_DATA_WORLD))
    return KinemaLayerData(any(bool(s.get(kinema_usd.CUSTOM_DATA_DECIMALS)) for s in found), is_world)


def exact_value(layer_data: KinemaLayerData, attribute: Any, value: Any, exact: Any, decimals: bool) -> Any:
    """Double-precision value of an attribute of a stage written by Kinema.

    Args:
        layer_data: custom layer data of the stage.
        attribute: the attribute, for its type.
        value: the authored value.
        exact: value of the `kinema:exact:` attribute, or None.
        decimals: whether arrays on the prim represent shortest decimals.
    """
    if exact is not None and _rounds_to(exact, value):
        return exact
    if decimals and isinstance(value, pxr.Vt.Vec3fArray):
        return pxr.Vt.Vec3dArray.FromNumpy(shortest_decimals(np.array(value, dtype=np.float32)))
    return (
        _shortest_decimals(value)
        if layer_data.decimals and str(attribute.GetTypeName()) in kinema_usd.EXACT_TYPES
        else value
    )


def _rounds_to(twin: Any, value: Any) -> bool:
    """Whether a double-precision value rounds to a single-precision value of the corresponding type."""
    gf, vt = pxr.Gf, pxr.Vt
    doubles = {float: float, gf.Vec3f: gf.Vec3d, gf.Quatf: gf.Quatd, vt.Vec3fArray: vt.Vec3dArray}
    if type(twin) is not doubles.get(type(value)):
        return False
    given, exact = flatten_value(value), flatten_value(twin)
    with np.errstate(all="ignore"):
        return given.shape == exact.shape and np.array_equal(exact.astype(np.float32), given.astype(np.float32))


def flatten_value(value: Any) -> np.ndarray:
    """Numbers of a USD value as a float64 array; quaternions as (w, x, y, z)."""
    if hasattr(value, "GetReal"):
        return np.array([value.GetReal(), *to_floats(value.GetImaginary())], dtype=np.float64)
    return np.array(value, dtype=np.float64)


def _shortest_decimals(value: Any) -> Any:
    gf = pxr.Gf
    if isinstance(value, float):
        return _float32_to_decimal(value)
    if isinstance(value, gf.Quatf):
        return gf.Quatd(
            _float32_to_decimal(value.GetReal()), gf.Vec3d(*map(_float32_to_decimal, to_floats(value.GetImaginary())))
        )
    return gf.Vec3d(*map(_float32_to_decimal, to_floats(value))) if isinstance(value, gf.Vec3f) else value


def _float32_to_decimal(value: float) -> float:
    if value == 0.0 or value in (1.0, -1.0):
        return value
    return float(str(np.float32(value)))


# -- attribute values --------------------------------------------------------------------------------------------------

_PREFETCHED_ATTRIBUTES = frozenset(
    {usd.RADIUS, usd.HEIGHT, usd.AXIS, usd.SIZE, usd.ORIENTATION, usd.RADIUS_TOP, usd.RADIUS_BOTTOM}
)
_PREFETCHED_RELATIONSHIPS = frozenset({*usd_physics.BODIES, usd_physics.SIMULATION_OWNER})
_PREFETCHED_PREFIXES = usd_physics.PROPERTY_PREFIXES
"""Prefixes of small attributes that are always read; large arrays are read on demand."""


@dataclass(slots=True, eq=False)
class PrimKind:
    """Properties common to prims with the same type and applied schemas."""

    type: str
    schemas: frozenset[str]
    """Applied API schemas, multiple-apply ones with their instance name."""
    is_xformable: bool
    is_gprim: bool
    is_joint: bool
    is_instancer: bool
    is_light: bool
    fallbacks: dict[str, Any] = field(default_factory=dict)
    expected: dict[str, Any] = field(default_factory=dict)
    """Attribute -> a value of the type given by its schema; None if no schema defines it."""


@dataclass(slots=True, eq=False)
class PrimFacts:
    """Cached properties of a prim."""

    prim: pxr.Prim
    path: str
    schemas: frozenset[str]
    authored: frozenset[str]
    """Names of authored properties."""
    kind: PrimKind
    prefetched: dict[str, Any] = field(default_factory=dict)
    """Authored values read in advance."""


class PrimValues:
    """Cached attribute values of a stage at one time code."""

    def __init__(self, stage: pxr.Stage, file: str, time: Any, diagnostics: Diagnostics) -> None:
        self.time = time
        self.animated: dict[str, None] = {}
        """Paths of animated attributes and transforms that were read, in order."""
        self._file = file
        self._diagnostics = diagnostics
        self._facts: dict[pxr.Prim, PrimFacts] = {}
        self._by_id: dict[int, PrimFacts] = {}
        # by the id of the prim objects in the facts: hashing a prim takes microseconds
        self._kinds: dict[tuple[str, tuple[str, ...]], PrimKind] = {}
        self._hiding: set[str] = set()
        """Paths of prims that author purpose or visibility."""
        self.kinema_layer_data = read_kinema_layer_data(stage)
        """Custom layer data of Kinema; None for other stages."""
        self._reported: set[tuple[str, str]] = set()
        self._may_be_animated = any(layer.ListAllTimeSamples() for layer in stage.GetUsedLayers(True))
        self._moving: dict[str, bool] = {}

    @property
    def is_world(self) -> bool:
        """Whether the custom layer data declares the stage as a world."""
        return self.kinema_layer_data is not None and self.kinema_layer_data.is_world

    def facts(self, prim: pxr.Prim) -> PrimFacts:
        """Cached properties of a prim."""
        facts = self._by_id.get(id(prim))
        if facts is None:
            facts = self._facts.get(prim)
        if facts is None:
            facts = self._facts[prim] = self._by_id[id(prim)] = self._gather_facts(prim)
        return facts

    def gather_facts(self, prims: Sequence[pxr.Prim]) -> None:
        """Cache the properties of many prims, one OpenUSD call at a time for cache locality."""
        infos = [prim.GetPrimTypeInfo() for prim in prims]
        types = [info.GetTypeName() for info in infos]
        schemas = [info.GetAppliedAPISchemas() for info in infos]
        names = [prim.GetAuthoredPropertyNames() for prim in prims]
        paths = [prim.GetPath() for prim in prims]
        for prim, *gathered in zip(prims, types, schemas, names, paths, strict=True):
            self._facts[prim] = self._by_id[id(prim)] = self._facts_of(prim, *gathered)

    def _gather_facts(self, prim: pxr.Prim) -> PrimFacts:
        info = prim.GetPrimTypeInfo()
        names = prim.GetAuthoredPropertyNames()
        return self._facts_of(prim, info.GetTypeName(), info.GetAppliedAPISchemas(), names, prim.GetPath())

    def _facts_of(self, prim: pxr.Prim, type_name: Any, schemas: Any, names: Any, path: Any) -> PrimFacts:
        key = (str(type_name), tuple(schemas))
        kind = self._kinds.get(key)
        if kind is None:
            kind = self._kinds[key] = _prim_kind(prim)
        authored = frozenset(names)
        if usd.PURPOSE in authored or usd.VISIBILITY in authored:
            self._hiding.add(str(path))
        return PrimFacts(prim, str(path), kind.schemas, authored, kind)

    def may_be_hidden(self, prim: pxr.Prim) -> bool:
        """Whether a prim or an ancestor authors purpose or visibility."""
        path = self.facts(prim).path if self._hiding else ""
        while path and path not in self._hiding:
            path = path.rpartition("/")[0]
        return bool(path)

    def value(self, prim: pxr.Prim, name: str) -> Any:
        """Value of an attribute, its schema fallback, or None."""
        facts = self._by_id.get(id(prim)) or self.facts(prim)
        if name in facts.authored:
            read = facts.prefetched
            value = read[name] if name in read else self._authored_value(prim, name, facts)
            if value is not None:
                return value
        fallbacks = facts.kind.fallbacks
        if name not in fallbacks:
            fallbacks[name] = prim.GetPrimDefinition().GetAttributeFallbackValue(name)
        return fallbacks[name]

    def authored(self, prim: pxr.Prim, name: str) -> Any:
        """Authored value of an attribute, or None."""
        facts = self._by_id.get(id(prim)) or self.facts(prim)
        if name not in facts.authored or not prim.GetAttribute(name).HasAuthoredValue():
            return None
        return self._authored_value(prim, name, facts)

    def prefetch(self, prims: Iterable[pxr.Prim]) -> None:
        """Read the small authored attributes of prims by name; tight loops take a third of the time."""
        facts_by_name: dict[str, list[PrimFacts]] = {}
        for prim in prims:
            facts = self.facts(prim)
            for name in facts.authored:
                facts_by_name.setdefault(name, []).append(facts)
        for name, group in facts_by_name.items():
            if name in _PREFETCHED_RELATIONSHIPS:
                for facts in group:
                    facts.prefetched[name] = self.targets(facts.prim, name)
            elif name in _PREFETCHED_ATTRIBUTES or name.startswith(_PREFETCHED_PREFIXES):
                for facts in group:
                    facts.prefetched[name] = self._authored_value(facts.prim, name, facts)

    def targets(self, prim: pxr.Prim, name: str) -> list[Any]:
        """Target paths of a relationship; empty with an error if unreadable."""
        relationship = prim.GetRelationship(name)
        try:
            return list(relationship.GetTargets()) if relationship else []
        except RuntimeError as error:
            self._report_unreadable(prim, name, error)
            return []

    def _authored_value(self, prim: pxr.Prim, name: str, facts: PrimFacts) -> Any:
        """Authored value, converted to the schema's type; None with an error if unreadable or of the wrong type."""
        attribute = prim.GetAttribute(name)
        try:
            value = attribute.Get(self.time)
        except RuntimeError as error:
            if not prim.GetRelationship(name):
                self._report_unreadable(prim, name, error)
            return None
        if self._may_be_animated and attribute.ValueMightBeTimeVarying():
            self.animated[f"{prim.GetPath()}.{name}"] = None
        expected = facts.kind.expected
        if name not in expected:
            known = name in prim.GetPrimDefinition().GetPropertyNames()
            expected[name] = attribute.GetTypeName().defaultValue if known else None
        sample = expected[name]
        if sample is None or value is None or type(value) is type(sample):
            return (
                value
                if self.kinema_layer_data is None or value is None
                else self._exact_value(prim, name, facts, attribute, value)
            )
        converted = _convert_to_type_of(sample, value)
        if converted is None:
            self._report_wrong_type(prim, name, attribute, value)
        return converted

    def _exact_value(self, prim: pxr.Prim, name: str, facts: PrimFacts, attribute: Any, value: Any) -> Any:
        """Value with the double-precision attribute of Kinema taken into account."""
        exact = (
            prim.GetAttribute(kinema_usd.EXACT_PREFIX + name).Get(self.time)
            if kinema_usd.EXACT_PREFIX + name in facts.authored
            else None
        )
        decimals = kinema_usd.DECIMALS.name in facts.authored
        return (
            value
            if self.kinema_layer_data is None
            else exact_value(self.kinema_layer_data, attribute, value, exact, decimals)
        )

    def _report_unreadable(self, prim: pxr.Prim, name: str, error: Exception) -> None:
        path = str(prim.GetPath())
        if (path, name) not in self._reported:
            self._reported.add((path, name))
            message = f"{name} of {prim.GetName()!r} cannot be read: {first_message(error)}"
            self._diagnostics.error("usd.unreadable", message, origin=Origin(self._file, None, path))

    def _report_wrong_type(self, prim: pxr.Prim, name: str, attribute: Any, value: Any) -> None:
        key = (str(prim.GetPath()), name)
        if key not in self._reported:
            self._reported.add(key)
            self._diagnostics.error(
                "usd.wrong-type",
                f"{name} of {prim.GetName()!r} is a {type(value).__name__}, where a {attribute.GetTypeName()} belongs;"
                " it is taken as not given",
                origin=Origin(self._file, None, key[0]),
            )

    def note_time_samples(self, prim: pxr.Prim) -> None:
        """Record animated transforms of a prim and its ancestors in `animated`."""
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


def _prim_kind(prim: pxr.Prim) -> PrimKind:
    geom = pxr.UsdGeom
    return PrimKind(
        type=str(prim.GetTypeName()),
        schemas=frozenset(applied_schemas(prim)),
        is_xformable=prim.IsA(geom.Xformable),
        is_gprim=prim.IsA(geom.Gprim),
        is_joint=prim.IsA(pxr.UsdPhysics.Joint),
        is_instancer=prim.IsA(geom.PointInstancer),
        is_light=prim.HasAPI(pxr.UsdLux.LightAPI),
    )


def _convert_to_type_of(sample: Any, value: Any) -> Any:
    """Value converted to the type of `sample`; None unless they differ only in precision."""
    if isinstance(sample, str) or isinstance(value, str):
        return None
    if isinstance(value, bool | int | float):
        return type(sample)(value) if isinstance(sample, bool | int | float) else None
    if type(sample).__name__.endswith("Array"):
        return value if _same_elements(np.asarray(sample), np.asarray(value)) else None
    try:
        return type(sample)(value)
    except Exception:  # OpenUSD raises many exception types
        return None


def _same_elements(wanted: np.ndarray, given: np.ndarray) -> bool:
    return given.dtype.kind in "biuf" and given.ndim == wanted.ndim and given.shape[1:] == wanted.shape[1:]
