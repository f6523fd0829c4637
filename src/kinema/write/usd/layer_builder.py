"""Builders of USD layers and prims: typed attributes, double-precision values, relationships, transforms, JSON values.

UsdPhysics stores most numbers in single precision. Where digits are lost, the double-precision value is stored in
`kinema:exact:<attribute>`; readers that know the attribute use it as long as the two values agree. Numbers such as 0.1
need no such attribute: a stage attribute declares that single-precision numbers stand for their shortest decimal.
"""

from __future__ import annotations

import dataclasses
import functools
import json
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.core import Array, ArrayLike, Pose, shortest_decimals
from kinema.description import Node, PhysicsMaterial, SolverParameters
from kinema.tokens import kinema_usd, usd

from ..loss_report import Action, LossReport, record_loss
from . import pxr

# ---------------------------------------------------------------------------------------------- conversion to USD types


def to_usd_value(type_name: str, value: Any) -> Any:
    """Value of the USD type `type_name`; quaternions are given as (w, x, y, z)."""
    return _value_constructor(type_name)(value)


@functools.cache
def _value_constructor(type_name: str) -> Callable[[Any], Any]:
    """Function that converts a Python value to a USD type."""
    if type_name.endswith("[]"):
        return _array_constructor(type_name.removesuffix("[]"))
    if type_name in _PYTHON_TYPES:
        return _PYTHON_TYPES[type_name]
    if type_name == "asset":
        return lambda value: pxr.Sdf.AssetPath(str(value))
    if type_name not in _GF_TYPES:
        return lambda value: value
    make = getattr(pxr.Gf, _GF_TYPES[type_name])
    if type_name in ("quatf", "quath"):  # rounded once, not number by number
        exact = pxr.Gf.Quatd
        return lambda value: make(exact(*_floats(value)))
    return lambda value: make(*_floats(value))


def _array_constructor(type_name: str) -> Callable[[Any], Any]:
    """Function that converts a sequence or NumPy array to a USD array of `type_name`."""
    if type_name in ("token", "string"):
        make = pxr.Vt.TokenArray if type_name == "token" else pxr.Vt.StringArray
        return lambda value: make([str(v) for v in value])
    if type_name not in _VT_ARRAYS:
        return lambda value: value
    name, dtype, shape = _VT_ARRAYS[type_name]
    from_numpy = getattr(pxr.Vt, name).FromNumpy
    return lambda value: from_numpy(np.ascontiguousarray(value, dtype=dtype).reshape(shape))


def _floats(value: Any) -> list[float]:
    return [float(v) for v in value]


_PYTHON_TYPES: Mapping[str, Callable[[Any], Any]] = {
    **dict.fromkeys(("float", "double", "half"), float),
    **dict.fromkeys(("int", "uint", "int64", "uint64", "uchar"), int),
    **dict.fromkeys(("string", "token"), str),
    "bool": bool,
}
_GF_TYPES: Mapping[str, str] = {
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
_VT_ARRAYS: Mapping[str, tuple[str, type, tuple[int, ...]]] = {
    "float": ("FloatArray", np.float32, (-1,)),
    "double": ("DoubleArray", np.float64, (-1,)),
    "int": ("IntArray", np.int32, (-1,)),
    **dict.fromkeys(("point3f", "float3", "vector3f", "color3f", "normal3f"), ("Vec3fArray", np.float32, (-1, 3))),
    **dict.fromkeys(("texCoord2f", "float2"), ("Vec2fArray", np.float32, (-1, 2))),
    **dict.fromkeys(("point3d", "double3", "vector3d"), ("Vec3dArray", np.float64, (-1, 3))),
}


# ----------------------------------------------------------------------------------------------------- layers and prims

_EXACT_TOLERANCE = 1e-12
"""Relative error (that of pose computations) up to which no double-precision value is stored."""
_SAMPLE_SIZE = 64
"""Number of array entries tested first for short decimals."""
_LONG_ARRAY_LENGTH = 256
"""Array length from which fast text export is used."""
_IDENTITY_ROTATION = np.eye(3).tolist()
_ROUNDING_NOISE = 1e-15
"""Vector components [m] below this magnitude are rounded zeros."""


@dataclass(slots=True, eq=False)
class LayerBuilder:
    """Builder of a USD layer with its prims."""

    layer: pxr.Layer
    report: LossReport
    exact: bool = True
    decimals: bool = True
    """Whether single-precision numbers stand for the shortest decimal that rounds to them."""
    prims: dict[str, PrimBuilder] = field(default_factory=dict)
    relative_targets: list[tuple[str, str, str]] = field(default_factory=list)
    """Prim, relationship and target that are written as relative paths in text."""
    long_arrays: dict[tuple[str, str], Any] = field(default_factory=dict)
    """Attributes with long arrays, by prim path and name."""

    def define_prim(self, path: str, prim_type: str = usd.XFORM) -> PrimBuilder:
        """Define a new prim; its parents must exist."""
        spec = pxr.Sdf.CreatePrimInLayer(self.layer, path)
        spec.specifier = pxr.Sdf.SpecifierDef
        spec.typeName = prim_type
        prim = PrimBuilder(path, spec, self)
        self.prims[path] = prim
        return prim

    def define_scope(self, path: str) -> str:
        """Path of a scope prim, defined on first use."""
        if path not in self.prims:
            self.define_prim(path, usd.SCOPE)
        return path

    def write_schemas(self) -> None:
        """Write the applied API schemas of all prims to the layer."""
        for prim in self.prims.values():
            if prim.schemas:
                operation = pxr.Sdf.TokenListOp.Create(prependedItems=prim.schemas)
                prim.spec.SetInfo(usd.API_SCHEMAS, operation)

    def report_loss(self, action: Action, node: Node | tuple[str, str], what: str, how: str = "") -> None:
        """Add a loss of a node, or of an element given by kind and name, to the report."""
        record_loss(self.report, action, node, what, how)


@dataclass(slots=True, eq=False)
class PrimBuilder:
    """Builder of a prim."""

    path: str
    spec: pxr.PrimSpec
    builder: LayerBuilder
    schemas: list[str] = field(default_factory=list)
    attributes: dict[str, Any] = field(default_factory=dict)
    """Attribute specs defined here, cached because lookups in OpenUSD are slow."""
    relationships: dict[str, Any] = field(default_factory=dict)

    @property
    def name(self) -> str:
        """Last component of the path."""
        return self.path.rpartition("/")[2]

    def apply_schemas(self, *schemas: str) -> None:
        """Record API schemas, each once; `LayerBuilder.write_schemas` writes them."""
        new = [s for s in dict.fromkeys(schemas) if s not in self.schemas]
        if not new:
            return
        self.schemas += new

    def set_attribute(
        self, name: str, type_name: str, value: Any, *, uniform: bool = False, custom: bool = False
    ) -> None:
        """Set an attribute of a USD type such as `float` or `token[]`."""
        attribute = self._define_attribute(name, type_name, uniform=uniform, custom=custom)
        attribute.default = made = to_usd_value(type_name, value)
        if type_name.endswith("[]") and len(made) >= _LONG_ARRAY_LENGTH and hasattr(made, "FromNumpy"):
            self.builder.long_arrays[self.path, name] = attribute

    def declare_attribute(self, name: str, type_name: str, *, source: str = "") -> None:
        """Define an attribute without value: an output, or an input connected to a source."""
        attribute = self._define_attribute(name, type_name)
        if source:
            attribute.connectionPathList.explicitItems = [source]

    def _define_attribute(self, name: str, type_name: str, *, uniform: bool = False, custom: bool = False) -> Any:
        found = self.attributes.get(name)
        if found is None:
            sdf = pxr.Sdf
            variability = sdf.VariabilityUniform if uniform else sdf.VariabilityVarying
            found = self.attributes[name] = sdf.AttributeSpec(
                self.spec, name, _value_type(type_name), variability, custom
            )
        return found

    def set_primvar(self, name: str, type_name: str, values: Any, interpolation: str, indices: Any = None) -> None:
        """Set a primvar with interpolation and optional indices."""
        self.set_attribute(name, type_name, values)
        self.attributes[name].SetInfo(usd.INTERPOLATION, interpolation)
        if indices is not None:
            self.set_attribute(name + usd.INDICES_SUFFIX, "int[]", indices)

    def set_custom(self, attribute: kinema_usd.CustomAttribute, value: Any) -> None:
        """Set a Kinema attribute, which only Kinema's reader knows."""
        self.set_attribute(attribute.name, attribute.type, value, custom=True)

    def set_single_precision(self, name: str, type_name: str, value: ArrayLike) -> None:
        """Set a single-precision attribute, and store the double-precision value if digits are lost."""
        self.set_attribute(name, type_name, value)
        if self.builder.exact and self._loses_precision(type_name, np.asarray(value, dtype=np.float64)):
            self.set_attribute(kinema_usd.EXACT_PREFIX + name, _exact_type(type_name), value, custom=True)

    def _loses_precision(self, type_name: str, values: Array) -> bool:
        """Whether values read back from single precision differ from the originals beyond rounding."""
        if type_name.endswith("[]"):
            return self._array_loses_precision(values)
        doubtful = [v for v in values.reshape(-1).tolist() if not _is_exact_in_single(v)]
        if not doubtful:
            return False
        meaning = str if self.builder.decimals else float
        off = max(abs(float(meaning(np.float32(v))) - v) for v in doubtful)
        return off > max(_EXACT_TOLERANCE * max(map(abs, doubtful)), _ROUNDING_NOISE if values.ndim else 0.0)

    def _array_loses_precision(self, values: Array) -> bool:
        """Whether an array loses precision; marks the prim if its numbers are exact as shortest decimals."""
        single = values.astype(np.float32)
        if not _differs(values, single.astype(np.float64), _ROUNDING_NOISE):
            return False
        scale = _max_abs(values)
        for part in (slice(_SAMPLE_SIZE), slice(_SAMPLE_SIZE, None)):
            if _differs(values[part], shortest_decimals(single[part]), _ROUNDING_NOISE, scale):
                return True
        self.set_custom(kinema_usd.DECIMALS, True)
        return False

    def set_relationship(
        self, name: str, targets: Iterable[str], *, custom: bool = False, relative: bool = False
    ) -> None:
        """Set a relationship; `relative` writes its single target as a relative path in text."""
        listed = list(targets)
        relationship = self.relationships.get(name)
        if relationship is None:
            relationship = self.relationships[name] = pxr.Sdf.RelationshipSpec(self.spec, name, custom)
        relationship.targetPathList.explicitItems = listed
        if relative:
            self.builder.relative_targets.append((self.path, name, listed[0]))

    def set_transform(self, pose: Pose, scale: Sequence[float] | Array | None = None) -> None:
        """Set translate, orient and scale operations in double precision; identities are omitted."""
        order: list[str] = []
        if pose.position.any():
            self.set_attribute(usd.TRANSLATE, "double3", pose.position)
            order.append(usd.TRANSLATE)
        if pose.rotation.tolist() != _IDENTITY_ROTATION:
            self.set_attribute(usd.ORIENT, "quatd", pose.quaternion)
            order.append(usd.ORIENT)
        if scale is not None and any(s != 1 for s in scale):
            self.set_attribute(usd.SCALE, "double3", scale)
            order.append(usd.SCALE)
        if order:
            self.set_attribute(usd.XFORM_OP_ORDER, "token[]", order, uniform=True)

    def set_metadata(self, **metadata: Any) -> None:
        """Set metadata such as `kind` and `displayName`."""
        for key, value in metadata.items():
            self.spec.SetInfo(key, value)


@functools.cache
def _value_type(type_name: str) -> Any:
    return pxr.Sdf.ValueTypeNames.Find(type_name)


def _is_exact_in_single(value: float) -> bool:
    """Whether a number is a small integer or not finite, hence exact in single precision."""
    return not math.isfinite(value) or (value == int(value) and abs(value) < 1e6)


def _differs(values: Array, read_back: Array, noise: float, scale: float | None = None) -> bool:
    return _max_abs(read_back - values) > max(_EXACT_TOLERANCE * (_max_abs(values) if scale is None else scale), noise)


def _max_abs(values: Array) -> float:
    """Largest absolute value; 0 for an empty array."""
    return float(np.abs(values).max(initial=0.0))


def _exact_type(type_name: str) -> str:
    return kinema_usd.EXACT_TYPES[type_name.removesuffix("[]")] + ("[]" if type_name.endswith("[]") else "")


# ------------------------------------------------------------------------------------------ values of custom attributes

NODE_FIELDS = {field.name for field in dataclasses.fields(Node)}


def write_kinema_attributes(prim: PrimBuilder, node: Any) -> list[kinema_usd.CustomAttribute]:
    """Store the non-default fields of a node that have a Kinema attribute of their own; returns the attributes."""
    written = []
    for base in type(node).__mro__:
        for field_name, attribute in kinema_usd.field_attributes(base.__name__).items():
            if not is_default(node, field_name):
                prim.set_custom(attribute, getattr(node, field_name))
                written.append(attribute)
    return written


def is_default(owner: Any, name: str) -> bool:
    """Whether a field of a dataclass is None or has its default value."""
    declared, value = type(owner).__dataclass_fields__[name], getattr(owner, name)
    is_made = declared.default_factory is not dataclasses.MISSING
    default = declared.default_factory() if is_made else declared.default
    if isinstance(value, np.ndarray):
        return bool(np.array_equal(value, default))
    if isinstance(value, Pose):
        return value.is_close(default, 0.0)
    return value is None or bool(value == default)


def to_json_text(value: Any) -> str | None:
    """JSON text of a value; None if not representable."""
    try:
        return json.dumps(value, default=_to_jsonable, ensure_ascii=False)
    except (TypeError, ValueError):
        return None


def set_custom_json(prim: PrimBuilder, attribute: kinema_usd.CustomAttribute, table: Mapping[str, Any]) -> list[str]:
    """Store the representable entries of a table as JSON in a Kinema attribute; returns their names."""
    plain = {name: text for name, value in table.items() if (text := to_json_text(value)) is not None}
    if plain:
        prim.set_custom(attribute, "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in plain.items()) + "}")
    return list(plain)


def usd_type_and_value(value: Any) -> tuple[str, Any] | None:
    """USD type and value of a field (JSON text for compound values); None if not representable."""
    match value:
        case bool():
            return "bool", value
        case int():
            return "int", value
        case float():
            return "double", value
        case str():
            return "string", str(value)
        case Pose():
            return "double[]", _to_jsonable(value)
        case np.ndarray() if value.ndim == 1:
            return "double[]", value.tolist()
        case tuple() | list() if value and all(isinstance(v, int | float) for v in value):
            return "double[]", list(value)
    text = to_json_text(value)
    return None if text is None else ("string", text)


def _to_jsonable(value: Any) -> Any:
    """JSON-compatible form of poses, solver parameters, physics materials and arrays; raises `TypeError` for others."""
    if isinstance(value, Pose):
        return [*value.position.tolist(), *value.quaternion.tolist()]
    if isinstance(value, SolverParameters):
        return dataclasses.asdict(value)
    if isinstance(value, PhysicsMaterial):
        names = [field.name for field in dataclasses.fields(value) if field.name not in NODE_FIELDS]
        plain = PhysicsMaterial()
        return {name: getattr(value, name) for name in names if getattr(value, name) != getattr(plain, name)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(type(value).__name__)
