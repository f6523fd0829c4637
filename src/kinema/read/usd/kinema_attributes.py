"""Kinema's custom attributes (`kinema:*`) on prims of stages written by Kinema.

Names, order, preserved settings, records of sensors, keyframes and constraints, and original geometry. The attributes
are untrusted input: types and values are validated.
"""

from __future__ import annotations

import dataclasses
import json
import re
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from typing import Any, TypeVar

import numpy as np

from kinema.core import Array, Pose, float64_array
from kinema.description import (
    FLAG_DEFAULTS,
    OPTION_DEFAULTS,
    Constraint,
    ConstraintKind,
    Ellipsoid,
    Extra,
    Geometry,
    HeightField,
    Inertial,
    Keyframe,
    Link,
    Node,
    PhysicsMaterial,
    Plane,
    Sensor,
)
from kinema.tokens import kinema_usd, mjcf, usd

from . import pxr, value_parsers as values
from .prim_values import to_floats
from .stage_index import StageIndex
from .transforms import Affine, polar_decomposition
from .value_parsers import BadValueError, parse_physics_material, parse_table

# -- attributes and layer data -----------------------------------------------------------------------------------------


def kinema_attribute(index: StageIndex, prim: pxr.Prim, attribute: kinema_usd.CustomAttribute) -> Any:
    """Value of a custom attribute of Kinema on a prim.

    None if the stage was not written by Kinema, or the attribute is absent, of the wrong type or not finite.
    """
    if index.values.kinema_layer_data is None:
        return None
    value = index.authored(prim, attribute.name)
    if value is None or not _has_type(value, attribute.type):
        return None
    return value if attribute.may_be_infinite or _is_finite(value) else None


def _is_finite(value: Any) -> bool:
    if isinstance(value, pxr.Gf.Quatd):
        value = [value.GetReal(), *to_floats(value.GetImaginary())]
    elif isinstance(value, str | pxr.Sdf.AssetPath | pxr.Vt.TokenArray):
        return True
    return bool(np.isfinite(np.array(value)).all())


def _has_type(value: Any, type_name: str) -> bool:
    gf, vt = pxr.Gf, pxr.Vt
    match type_name:
        case "string" | "token":
            return isinstance(value, str)
        case "bool":
            return isinstance(value, bool)
        case "int":
            return isinstance(value, int) and not isinstance(value, bool)
        case "double":
            return isinstance(value, float)
        case "double2" | "double3":
            return isinstance(value, gf.Vec2d if type_name == "double2" else gf.Vec3d)
        case "quatd":
            return isinstance(value, gf.Quatd)
        case "double[]" | "double3[]":
            return isinstance(value, vt.DoubleArray if type_name == "double[]" else vt.Vec3dArray)
        case "token[]":
            return isinstance(value, vt.TokenArray)
    return isinstance(value, pxr.Sdf.AssetPath)


# -- preserved MJCF settings -------------------------------------------------------------------------------------------

_FLOATS = values.floats_parser()
_SETTING_PARSERS: dict[str, Callable[[Any], Any]] = {
    **dict.fromkeys(
        (mjcf.CLASS, mjcf.CHILDCLASS, mjcf.ASSET_NAME, mjcf.MESH_INERTIA, mjcf.FITTED_MESH), values.parse_text
    ),
    **dict.fromkeys((mjcf.SHORTCUT, mjcf.MATERIAL, mjcf.MESH_PLUGIN), values.parse_text),
    **dict.fromkeys((mjcf.GROUP, mjcf.N_ACTIVATIONS, mjcf.N_CONTROLS, mjcf.INPUT), values.parse_int),
    **dict.fromkeys((mjcf.DAMPING, mjcf.ARMATURE, mjcf.DELAY, mjcf.SPRINGYIELD), values.parse_float),
    **dict.fromkeys((mjcf.ACTEARLY, mjcf.PLUGIN, mjcf.ACTUATORGRAVCOMP, mjcf.SHELLINERTIA), values.parse_flag),
    **dict.fromkeys((mjcf.CASTSHADOW, mjcf.UNREADABLE_MESH, mjcf.SIMPLE_SLIDER_BODY), values.parse_flag),
    **dict.fromkeys((mjcf.USER, mjcf.HISTORY, mjcf.DAMPINGPOLY, mjcf.STIFFNESSPOLY, mjcf.PLASTIC), _FLOATS),
    **dict.fromkeys((mjcf.FLUID, mjcf.SURFACEVEL, mjcf.SIZE), _FLOATS),
    **dict.fromkeys((mjcf.UNUSED_RANGE, mjcf.ACTUATORFRCRANGE, mjcf.TEXREPEAT), values.floats_parser(2)),
    mjcf.TEXUNIFORM: values.parse_flag,
    mjcf.TEXTURES: values.parse_text_table,
    mjcf.UNUSED_CONTACT_PARAMETERS: values.parse_physics_material,
}


def valid_settings(table: Mapping[str, Any], prefix: str = "") -> dict[str, Any]:
    """Entries of a table that pass validation; only names starting with `prefix` are checked."""
    return {
        name: value
        for name, value in table.items()
        if _is_valid_setting(name.removeprefix(prefix), value, name, prefix)
    }


def _is_valid_setting(name: str, value: Any, whole_name: str, prefix: str) -> bool:
    if not whole_name.startswith(prefix) or name not in _SETTING_PARSERS:
        return True
    return _parses(_SETTING_PARSERS[name], value)


def _parses(parse: Callable[[Any], Any], value: Any) -> bool:
    try:
        parse(value)
    except ValueError:
        return False
    return True


def valid_options(table: Mapping[str, Any]) -> dict[str, Any]:
    """Simulation options that pass validation."""
    return {name: value for name, value in table.items() if _is_valid_option(name, value)}


def _is_valid_option(name: str, value: Any) -> bool:
    if name == mjcf.FLAGS:
        return isinstance(value, dict) and all(k in FLAG_DEFAULTS and isinstance(v, bool) for k, v in value.items())
    if name == mjcf.DISABLEACTUATOR:
        return _parses(values.parse_int, value)
    default = OPTION_DEFAULTS.get(name)
    if isinstance(default, tuple):
        return _parses(values.floats_parser(len(default)), value)
    if isinstance(default, str):
        return isinstance(value, str)
    return default is None or _parses(values.parse_int if isinstance(default, int) else values.parse_float, value)


# -- names and order ---------------------------------------------------------------------------------------------------

T = TypeVar("T")


def restored_names(index: StageIndex, prims: Mapping[str, pxr.Prim], derived: dict[str, str]) -> dict[str, str]:
    """Path -> name: the name stored on the prim if unique, otherwise the derived one."""
    if index.values.kinema_layer_data is None:
        return derived
    stored = {path: kinema_attribute(index, prim, kinema_usd.NAME) for path, prim in prims.items()}
    wanted = {path: stored[path] or derived[path] for path in prims}
    counts = Counter(wanted.values())
    taken = set(derived.values())
    result: dict[str, str] = {}
    for path, name in wanted.items():
        others = name in taken and derived[path] != name and counts[name] > 1
        result[path] = name if counts[name] == 1 and not others else derived[path]
    return result if len(set(result.values())) == len(result) else derived


def restored_order(index: StageIndex, items: Sequence[T], prims: Sequence[pxr.Prim]) -> list[T]:
    """Items in the order stored on their prims; items without stored order come last."""
    if index.values.kinema_layer_data is None:
        return list(items)
    positions = [kinema_attribute(index, prim, kinema_usd.ORDER) for prim in prims]
    last = len(items)
    return [
        item for _, item in sorted(zip(positions, items, strict=True), key=lambda p: last if p[0] is None else p[0])
    ]


def restore_node_metadata(index: StageIndex, prim: pxr.Prim, node: Node) -> None:
    """Restore the generated-name flag, order and preserved attributes of a node."""
    node.name_is_generated = bool(kinema_attribute(index, prim, kinema_usd.NAME_IS_GENERATED))
    node.order = kinema_attribute(index, prim, kinema_usd.GLOBAL_ORDER)
    node.attributes |= preserved_attributes(index, prim)


def preserved_attributes(index: StageIndex, prim: pxr.Prim) -> dict[str, Any]:
    """Validated attributes of other formats stored on a prim."""
    table = preserved_table(index, prim, kinema_usd.ATTRIBUTES)
    if not table:
        return {}
    settings = valid_settings(table, mjcf.attribute_key(""))
    unused = mjcf.attribute_key(mjcf.UNUSED_CONTACT_PARAMETERS)
    if unused in settings:
        settings[unused] = parse_physics_material(settings[unused])
    return settings


def preserved_table(index: StageIndex, prim: pxr.Prim, attribute: kinema_usd.CustomAttribute) -> dict[str, Any]:
    """Table stored on a prim as JSON; empty with a warning if malformed."""
    text = kinema_attribute(index, prim, attribute)
    if text is None:
        return {}
    try:
        return parse_table(text)
    except BadValueError:
        message = f"{attribute.name} of {prim.GetName()!r} is not what it should be; it is left out"
        index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
        return {}


def restore_link(index: StageIndex, prim: pxr.Prim, link: Link) -> None:
    """Restore metadata and gravity scale of a link."""
    restore_node_metadata(index, prim, link)
    scale = kinema_attribute(index, prim, kinema_usd.GRAVITY_SCALE)
    if scale is not None:
        link.gravity_scale = float(scale)


def declared_articulation_roots(index: StageIndex, articulations: Sequence[pxr.Prim]) -> list[pxr.Prim]:
    """Articulation roots except those that the writer added for the layout of the stage."""
    return [
        p
        for p in articulations
        if kinema_usd.IMPLIED_ARTICULATION_ROOT not in (kinema_attribute(index, p, kinema_usd.IMPLIED) or ())
    ]


def massless_inertial(index: StageIndex, prim: pxr.Prim) -> Inertial | None:
    """Inertial stored for a link without mass in USD; None if there is none."""
    center, tensor = (
        kinema_attribute(index, prim, kinema_usd.MASSLESS_CENTER),
        kinema_attribute(index, prim, kinema_usd.MASSLESS_INERTIA),
    )
    if center is None or tensor is None or len(tensor) != 6:
        return None
    xx, yy, zz, xy, xz, yz = (float(v) for v in tensor)
    return Inertial(
        float(kinema_attribute(index, prim, kinema_usd.MASSLESS_MASS) or 0.0),
        float64_array(list(center)),
        np.array([[xx, xy, xz], [xy, yy, yz], [xz, yz, zz]]),
    )


# -- sensors, keyframes and constraints --------------------------------------------------------------------------------

FieldParsers = Mapping[str, Callable[[Any], Any]]
"""Field -> parser of its attribute value."""

_SENSOR_FIELDS: FieldParsers = {
    **dict.fromkeys(("kind", "target_kind", "target", "reference_kind", "reference"), values.parse_text),
    **dict.fromkeys(("noise", "cutoff", "update_rate"), values.parse_float),
    "pose": values.parse_pose,
    "settings": values.parse_table,
}
_KEYFRAME_FIELDS: FieldParsers = {
    "time": values.parse_float,
    **dict.fromkeys(("positions", "velocities", "activations"), values.table_parser(values.parse_array)),
    "controls": values.table_parser(values.parse_float),
    "kinematic_poses": values.table_parser(values.parse_pose),
}
_CONSTRAINT_FIELDS: FieldParsers = {
    "kind": lambda value: ConstraintKind(values.parse_text(value)),
    **dict.fromkeys(("a", "b", "reference"), values.parse_text),
    **dict.fromkeys(("pose_a", "pose_b"), values.parse_pose),
    "polynomial": values.floats_parser(5),
    **dict.fromkeys(("axis_a", "axis_b"), values.parse_int),
    **dict.fromkeys(("distance", "ratio", "torque_scale"), values.parse_float),
    **dict.fromkeys(("gear_axis_a", "gear_axis_b"), values.parse_axis),
    "active": values.parse_flag,
    "solver": values.parse_solver_parameters,
}
_RECORD_TYPES: dict[str, tuple[type[Node], FieldParsers]] = {
    kinema_usd.RECORD_SENSOR: (Sensor, _SENSOR_FIELDS),
    kinema_usd.RECORD_KEYFRAME: (Keyframe, _KEYFRAME_FIELDS),
    kinema_usd.RECORD_CONSTRAINT: (Constraint, _CONSTRAINT_FIELDS),
}


def read_records(index: StageIndex) -> list[Node]:
    """Sensors, keyframes and constraints of the record prims, in stored order."""
    nodes: list[Node] = []
    for prim in index.records:
        record = str(kinema_attribute(index, prim, kinema_usd.RECORD) or "")
        if record not in _RECORD_TYPES:
            continue
        kind, _ = _RECORD_TYPES[record]
        fields = record_fields(index, prim, record)
        if kind is not Keyframe and "kind" not in fields:
            message = f"{prim.GetName()!r} is left out: it does not say what kind of {record} it is"
            index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
            continue
        name = kinema_attribute(index, prim, kinema_usd.NAME)
        node = kind(name=prim.GetName() if name is None else str(name), origin=index.origin(prim), **fields)
        restore_node_metadata(index, prim, node)
        nodes.append(node)
    return sorted(nodes, key=lambda node: -1 if node.order is None else node.order)


def record_fields(index: StageIndex, prim: pxr.Prim, record: str) -> dict[str, Any]:
    """Parsed fields of a record prim; malformed ones are omitted with a warning."""
    result: dict[str, Any] = {}
    if index.values.kinema_layer_data is None:
        return result
    for field, read in _RECORD_TYPES[record][1].items():
        value = index.authored(prim, kinema_usd.record_attribute(record, field))
        if value is None:
            continue
        try:
            result[field] = read(value)
        except ValueError:
            message = (
                f"{kinema_usd.record_attribute(record, field)} of {prim.GetName()!r} is not what it should be; "
                "it is left out"
            )
            index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
    return result


# -- preserved MJCF assets ---------------------------------------------------------------------------------------------

_MAX_ASSET_TEXT = 4_000_000
_ASSET_TAGS = (mjcf.TEXTURE, mjcf.MATERIAL, mjcf.MESH, mjcf.HFIELD)
_FILE_ATTRIBUTE = re.compile(r"""\b(?:file\w*|content_type)\s*=\s*["']([^"']*)["']""")
_TEXTURE_PATH = re.compile(r"textures/[\w-]+(\.\w+)?")


def preserved_assets(index: StageIndex, prim: pxr.Prim) -> list[Extra]:
    """MJCF assets stored on a prim; invalid ones, or ones with disallowed files, are omitted with a warning."""
    text = kinema_attribute(index, prim, kinema_usd.ASSETS)
    if text is None:
        return []
    found = _parse_asset_list(text)
    valid = [(tag, asset) for tag, asset in found if _is_safe_asset(tag, asset)]
    if not found or len(valid) < len(found):
        message = f"{kinema_usd.ASSETS.name} of {prim.GetName()!r} is not what it should be; it is left out"
        index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
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


# -- original shapes and materials -------------------------------------------------------------------------------------

_EXTENT_TOLERANCE = 1e-5
"""Relative tolerance of extents for recognising a substitute mesh."""


def original_geometry(index: StageIndex, prim: pxr.Prim, into_link: Affine) -> tuple[Geometry, Pose] | None:
    """Geometry that a substitute mesh or slab represents; None if unmarked, modified or not uniformly scaled."""
    if index.values.kinema_layer_data is None:
        return None
    kind = kinema_attribute(index, prim, kinema_usd.PRIMITIVE)
    parameters = kinema_attribute(index, prim, kinema_usd.PRIMITIVE_PARAMETERS)
    if kind is None or parameters is None:
        return None
    values = np.array(parameters, dtype=np.float64)
    if str(kind) == kinema_usd.PRIMITIVE_PLANE:
        return _plane_from_slab(values, into_link)
    rotation, scale = polar_decomposition(into_link.linear)
    size = float(np.trace(scale)) / 3
    extent = _extent(index, prim)
    if size <= 0 or np.abs(scale - size * np.eye(3)).max() > _EXTENT_TOLERANCE * size or extent is None:
        return None
    pose = Pose(into_link.offset, rotation)
    size = 1.0 if abs(size - 1.0) < 1e-12 else size  # rounding of composed transforms
    if str(kind) == kinema_usd.PRIMITIVE_ELLIPSOID and len(values) == 3 and np.allclose(extent, 2 * values, rtol=0.05):
        return Ellipsoid(values * size), pose
    if str(kind) == kinema_usd.PRIMITIVE_HEIGHT_FIELD and len(values) > 5:
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
    if np.linalg.det(turn) < 0 or np.abs(turn.T @ turn - np.eye(3)).max() > _EXTENT_TOLERANCE:
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


def restore_physics_material(index: StageIndex, prim: pxr.Prim, material: PhysicsMaterial) -> PhysicsMaterial:
    """Physics material without the values that the writer filled in for USD."""
    if index.values.kinema_layer_data is None:
        return material
    fields = kinema_usd.UNSET_FIELDS
    unset = {
        fields[str(t)]: None
        for t in kinema_attribute(index, prim, kinema_usd.UNSET_PROPERTIES) or ()
        if str(t) in fields
    }
    second = kinema_attribute(index, prim, kinema_usd.DYNAMIC_FRICTION_2)
    name = kinema_attribute(index, prim, kinema_usd.NAME)
    return dataclasses.replace(
        material,
        **unset,
        name=material.name if name is None else str(name),
        dynamic_friction2=None if second is None else float(second),
    )
