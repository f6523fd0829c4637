"""Kinema's custom attributes (`kinema:*`) on prims of stages written by Kinema.

Names, order, preserved settings, records of sensors, keyframes and constraints, and original geometry. The attributes
are untrusted input: types and values are validated.
"""

from __future__ import annotations

import dataclasses
import json
import re
import types
from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kinema.core import Array, Pose
from kinema.description import (
    FLAG_DEFAULTS,
    OPTION_DEFAULTS,
    Constraint,
    Ellipsoid,
    Extra,
    Geometry,
    HeightField,
    Inertial,
    Keyframe,
    Node,
    PhysicsMaterial,
    Plane,
    Sensor,
)
from kinema.tokens import kinema_usd, mjcf, usd

from . import pxr
from .stage_index import StageIndex
from .transforms import Affine, is_reflection, polar_decomposition
from .value_parsers import BadValueError, field_types, is_valid, parse_attribute, parse_table, parse_value

T = TypeVar("T")

# -- fields of nodes ---------------------------------------------------------------------------------------------------


def stored_fields(index: StageIndex, prim: pxr.Prim, kind: type[Any]) -> dict[str, Any]:
    """Fields of a class of the description that are stored in custom attributes of their own on a prim."""
    attributes = {f: a for base in kind.__mro__ for f, a in kinema_usd.field_attributes(base.__name__).items()}
    values = {field: index.custom_value(prim, attribute) for field, attribute in attributes.items()}
    return {field: value for field, value in values.items() if value is not None}


def read_kinema_attributes(index: StageIndex, prim: pxr.Prim, node: Node) -> None:
    """Restore the stored fields and the preserved attributes of other formats of a node."""
    for field, value in stored_fields(index, prim, type(node)).items():
        setattr(node, field, value)
    node.attributes |= preserved_attributes(index, prim)


_RECORD_CLASSES: dict[str, type[Node]] = {
    kinema_usd.RECORD_SENSOR: Sensor,
    kinema_usd.RECORD_KEYFRAME: Keyframe,
    kinema_usd.RECORD_CONSTRAINT: Constraint,
}


def read_records(index: StageIndex) -> list[Node]:
    """Sensors, keyframes and constraints of the record prims, in stored order."""
    nodes: list[Node] = []
    for prim in index.records:
        record = index.custom_value(prim, kinema_usd.RECORD)
        if record not in _RECORD_CLASSES:
            continue
        fields = record_fields(index, prim, record)
        if record != kinema_usd.RECORD_KEYFRAME and "kind" not in fields:
            message = f"{prim.GetName()!r} is left out: it does not say what kind of {record} it is"
            index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
            continue
        name = index.custom_value(prim, kinema_usd.NAME)
        name = prim.GetName() if name is None else name
        node = _RECORD_CLASSES[record](name=name, origin=index.origin(prim), **fields)
        read_kinema_attributes(index, prim, node)
        nodes.append(node)
    return sorted(nodes, key=lambda node: -1 if node.order is None else node.order)


def record_fields(index: StageIndex, prim: pxr.Prim, record: str) -> dict[str, Any]:
    """Fields of a sensor, keyframe or constraint stored on a prim; malformed ones are omitted with a warning."""
    result: dict[str, Any] = {}
    for field, kind in field_types(_RECORD_CLASSES[record]).items() if index.values.kinema_layer_data else ():
        name = kinema_usd.record_attribute(record, field)
        value = index.authored(prim, name)
        if value is not None:
            try:
                result[field] = parse_attribute(kind, value)
            except ValueError:
                _warn_malformed(index, prim, name)
    return result


def _warn_malformed(index: StageIndex, prim: pxr.Prim, attribute: str) -> None:
    message = f"{attribute} of {prim.GetName()!r} is not what it should be; it is left out"
    index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))


def massless_inertial(index: StageIndex, prim: pxr.Prim) -> Inertial | None:
    """Inertial stored for a link without mass in USD; None if there is none."""
    center, tensor = (index.custom_value(prim, a) for a in (kinema_usd.MASSLESS_CENTER, kinema_usd.MASSLESS_INERTIA))
    if center is None or tensor is None or len(tensor) != 6:
        return None
    mass = index.custom_value(prim, kinema_usd.MASSLESS_MASS)
    return Inertial(mass or 0.0, np.array(center), tensor[[[0, 3, 4], [3, 1, 5], [4, 5, 2]]])


def restore_physics_material(index: StageIndex, prim: pxr.Prim, material: PhysicsMaterial) -> PhysicsMaterial:
    """Physics material without the values that the writer filled in for USD."""
    unset = index.custom_value(prim, kinema_usd.UNSET_PROPERTIES) or ()
    name = index.custom_value(prim, kinema_usd.NAME)
    return dataclasses.replace(
        material,
        **{field: None for token, field in kinema_usd.UNSET_FIELDS.items() if token in unset},
        **stored_fields(index, prim, PhysicsMaterial),
        name=material.name if name is None else name,
    )


# -- names and order ---------------------------------------------------------------------------------------------------


def restored_names(index: StageIndex, prims: Mapping[str, pxr.Prim], derived: dict[str, str]) -> dict[str, str]:
    """Path -> name: the name stored on the prim if unique, otherwise the derived one."""
    wanted = {path: index.custom_value(prim, kinema_usd.NAME) or derived[path] for path, prim in prims.items()}
    counts = Counter(wanted.values())
    result = {path: name if counts[name] == 1 else derived[path] for path, name in wanted.items()}
    return result if len(set(result.values())) == len(result) else derived


def restored_order(index: StageIndex, items: Sequence[T], prims: Sequence[pxr.Prim]) -> list[T]:
    """Items in the order stored on their prims; items without stored order come last."""
    positions = [index.custom_value(prim, kinema_usd.ORDER) for prim in prims]
    keyed = zip((len(items) if p is None else p for p in positions), items, strict=True)
    return [item for _, item in sorted(keyed, key=lambda pair: pair[0])]


def declared_articulation_roots(index: StageIndex, articulations: Sequence[pxr.Prim]) -> list[pxr.Prim]:
    """Articulation roots except those that the writer added for the layout of the stage."""
    implied = kinema_usd.IMPLIED_ARTICULATION_ROOT
    return [p for p in articulations if implied not in (index.custom_value(p, kinema_usd.IMPLIED) or ())]


# -- preserved MJCF settings -------------------------------------------------------------------------------------------

_FLOATS, _RANGE = tuple[float, ...], tuple[float, float]
_SETTING_TYPES: dict[str, Any] = {
    **dict.fromkeys((mjcf.CLASS, mjcf.CHILDCLASS, mjcf.ASSET_NAME, mjcf.MESH_INERTIA, mjcf.FITTED_MESH), str),
    **dict.fromkeys((mjcf.SHORTCUT, mjcf.MATERIAL, mjcf.MESH_PLUGIN), str),
    **dict.fromkeys((mjcf.GROUP, mjcf.N_ACTIVATIONS, mjcf.N_CONTROLS, mjcf.INPUT), int),
    **dict.fromkeys((mjcf.DAMPING, mjcf.ARMATURE, mjcf.DELAY, mjcf.SPRINGYIELD), float),
    **dict.fromkeys((mjcf.ACTEARLY, mjcf.PLUGIN, mjcf.ACTUATORGRAVCOMP, mjcf.SHELLINERTIA, mjcf.TEXUNIFORM), bool),
    **dict.fromkeys((mjcf.CASTSHADOW, mjcf.UNREADABLE_MESH, mjcf.SIMPLE_SLIDER_BODY), bool),
    **dict.fromkeys((mjcf.USER, mjcf.HISTORY, mjcf.DAMPINGPOLY, mjcf.STIFFNESSPOLY, mjcf.PLASTIC), _FLOATS),
    **dict.fromkeys((mjcf.FLUID, mjcf.SURFACEVEL, mjcf.SIZE), _FLOATS),
    **dict.fromkeys((mjcf.UNUSED_RANGE, mjcf.ACTUATORFRCRANGE, mjcf.TEXREPEAT), _RANGE),
    mjcf.TEXTURES: dict[str, str],
    mjcf.UNUSED_CONTACT_PARAMETERS: PhysicsMaterial,
}


def preserved_table(index: StageIndex, prim: pxr.Prim, attribute: kinema_usd.CustomAttribute) -> dict[str, Any]:
    """Table stored on a prim as JSON; empty with a warning if malformed."""
    text = index.custom_value(prim, attribute)
    try:
        return {} if text is None else parse_table(text)
    except BadValueError:
        _warn_malformed(index, prim, attribute.name)
        return {}


def preserved_attributes(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Validated attributes of other formats stored on a prim."""
    settings = valid_settings(preserved_table(index, prim, kinema_usd.ATTRIBUTES), mjcf.attribute_key(""))
    unused = mjcf.attribute_key(mjcf.UNUSED_CONTACT_PARAMETERS)
    if unused in settings:
        settings[unused] = parse_value(PhysicsMaterial, settings[unused])
    return settings


def valid_settings(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Entries of a table that pass validation; only names starting with `prefix` are checked."""
    kinds = {name: _SETTING_TYPES.get(name.removeprefix(prefix), Any) for name in table if name.startswith(prefix)}
    return {name: value for name, value in table.items() if is_valid(kinds.get(name, Any), value)}


def valid_options(table: Mapping[str, Any]) -> dict[str, Any]:
    """Simulation options that pass validation."""
    return {name: value for name, value in table.items() if _is_valid_option(name, value)}


def _is_valid_option(name: str, value: Any) -> bool:
    if name == mjcf.FLAGS:
        return is_valid(dict[str, bool], value) and value.keys() <= FLAG_DEFAULTS.keys()
    default = 0 if name == mjcf.DISABLEACTUATOR else OPTION_DEFAULTS.get(name)
    if isinstance(default, tuple):
        return is_valid(types.GenericAlias(tuple, (float,) * len(default)), value)
    return default is None or is_valid(type(default), value)


# -- preserved MJCF assets ---------------------------------------------------------------------------------------------

_MAX_ASSET_TEXT = 4_000_000
_ASSET_TAGS = (mjcf.TEXTURE, mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD)
_FILE_ATTRIBUTE = re.compile(r"""\b(?:file\w*|content_type)\s*=\s*["']([^"']*)["']""")
_TEXTURE_PATH = re.compile(r"textures/[\w-]+(\.\w+)?")


def preserved_assets(index: StageIndex, prim: pxr.Prim) -> list[Extra]:
    """MJCF assets stored on a prim; invalid ones, or ones with disallowed files, are omitted with a warning."""
    text = index.custom_value(prim, kinema_usd.ASSETS)
    if text is None:
        return []
    found = _parse_asset_list(text)
    valid = [(tag, asset) for tag, asset in found if _is_safe_asset(tag, asset)]
    if not found or len(valid) < len(found):
        _warn_malformed(index, prim, kinema_usd.ASSETS.name)
    return [Extra(mjcf.FORMAT, tag, asset, index.origin(prim)) for tag, asset in valid]


def _parse_asset_list(text: str) -> list[tuple[str, str]]:
    try:
        items = json.loads(text) if len(text) <= _MAX_ASSET_TEXT else []
    except (ValueError, RecursionError):
        return []
    if not isinstance(items, list):
        return []
    pairs = [item for item in items if isinstance(item, list) and len(item) == 2]
    return [(tag, asset) for tag, asset in pairs if isinstance(tag, str) and isinstance(asset, str)]


def _is_safe_asset(tag: str, asset: str) -> bool:
    """Whether a text is one element of a known tag whose files are textures beside the stage."""
    is_element = asset.startswith(f"<{tag}") and "&" not in asset and "<!" not in asset
    return (
        tag in _ASSET_TAGS
        and is_element
        and all(_TEXTURE_PATH.fullmatch(file) for file in _FILE_ATTRIBUTE.findall(asset))
    )


# -- original shapes ---------------------------------------------------------------------------------------------------

_EXTENT_TOLERANCE = 1e-5
"""Relative tolerance of extents for recognising a substitute mesh."""


def original_geometry(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> tuple[Geometry, Pose] | None:
    """Geometry that a substitute mesh or slab represents; None if unmarked, modified or not uniformly scaled."""
    kind = index.custom_value(prim, kinema_usd.PRIMITIVE)
    values = index.custom_value(prim, kinema_usd.PRIMITIVE_PARAMETERS)
    if kind is None or values is None:
        return None
    if kind == kinema_usd.PRIMITIVE_PLANE:
        return _plane_from_slab(values, into_link)
    rotation, scale = polar_decomposition(into_link.linear)
    size = float(np.trace(scale)) / 3
    extent = _extent(index, prim)
    if size <= 0 or np.abs(scale - size * np.eye(3)).max() > _EXTENT_TOLERANCE * size or extent is None:
        return None
    pose = Pose(into_link.offset, rotation)
    size = 1.0 if abs(size - 1.0) < 1e-12 else size  # rounding of composed transforms
    if kind == kinema_usd.PRIMITIVE_ELLIPSOID and len(values) == 3 and np.allclose(extent, 2 * values, rtol=0.05):
        return Ellipsoid(values * size), pose
    if kind == kinema_usd.PRIMITIVE_HEIGHT_FIELD and len(values) > 5:
        return _height_field_from_mesh(values, extent, size, pose)
    return None


def _extent(index: StageIndex, prim: pxr.Prim) -> Array | None:
    points = np.asarray(index.value(prim, usd.POINTS) or (), dtype=np.float64).reshape(-1, 3)
    return points.max(axis=0) - points.min(axis=0) if len(points) else None


def _plane_from_slab(values: Array, into_link: Affine) -> tuple[Geometry, Pose] | None:
    """Plane at the upper face of a slab; None if the slab is sheared or mirrored."""
    lengths = np.linalg.norm(into_link.linear, axis=0)
    if not lengths.all():
        return None
    turn = into_link.linear / lengths
    if is_reflection(turn) or np.abs(turn.T @ turn - np.eye(3)).max() > _EXTENT_TOLERANCE:
        return None
    surface = Pose(into_link.offset, turn) @ Pose.translation([0.0, 0.0, lengths[2] / 2])
    size = (float(lengths[0]), float(lengths[1])) if len(values) == 2 else None
    return Plane(size), surface


def _height_field_from_mesh(values: Array, extent: Array, size: float, pose: Pose) -> tuple[Geometry, Pose] | None:
    """Height field from its stored parameters; None if they do not fit the extent of the mesh."""
    width, length, base = (float(v) for v in values[:3])
    rows, columns = (int(v) for v in values[3:5])
    if len(values) != 5 + rows * columns or not np.allclose(extent[:2], (width, length), rtol=_EXTENT_TOLERANCE):
        return None
    heights = values[5:].reshape(rows, columns)
    return HeightField(heights=heights * size, size=(width * size, length * size), base=base * size), pose
