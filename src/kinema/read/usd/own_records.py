"""Sensors, keyframes and constraints that USD has no type for, from the prims that Kinema wrote for them."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import Any

from kinema.description import Constraint, ConstraintKind, Keyframe, Node, Sensor
from kinema.words import ours

from . import own_values as values, pxr
from .own_names import mark_generated
from .own_settings import own
from .stage_index import StageIndex

Readers = Mapping[str, Callable[[Any], Any]]
"""Field -> what makes a value of the attribute that keeps it."""

_SENSOR: Readers = {
    **dict.fromkeys(("kind", "target_kind", "target", "reference_kind", "reference"), values.text),
    **dict.fromkeys(("noise", "cutoff", "update_rate"), values.number),
    "pose": values.pose,
    "settings": values.plain_table,
}
_KEYFRAME: Readers = {
    "time": values.number,
    **dict.fromkeys(("positions", "velocities", "activations"), values.table_of(values.array)),
    "controls": values.table_of(values.number),
    "kinematic_poses": values.table_of(values.pose),
}
_CONSTRAINT: Readers = {
    "kind": lambda value: ConstraintKind(values.text(value)),
    **dict.fromkeys(("a", "b", "reference"), values.text),
    **dict.fromkeys(("pose_a", "pose_b"), values.pose),
    "polynomial": values.numbers(5),
    **dict.fromkeys(("axis_a", "axis_b"), values.whole),
    **dict.fromkeys(("distance", "ratio", "torque_scale"), values.number),
    **dict.fromkeys(("gear_axis_a", "gear_axis_b"), values.axis),
    "active": values.flag,
    "solver": values.solver,
}
_KINDS: dict[str, tuple[type[Node], Readers]] = {
    ours.RECORD_SENSOR: (Sensor, _SENSOR),
    ours.RECORD_KEYFRAME: (Keyframe, _KEYFRAME),
    ours.RECORD_CONSTRAINT: (Constraint, _CONSTRAINT),
}


def read_records(index: StageIndex) -> list[Node]:
    """What the stage's records stand for, in the order that they keep."""
    found: list[Node] = []
    for prim in index.records:
        record = str(own(index, prim, ours.RECORD) or "")
        if record not in _KINDS:
            continue
        kind, _ = _KINDS[record]
        fields = kept_fields(index, prim, record)
        if kind is not Keyframe and "kind" not in fields:
            message = f"{prim.GetName()!r} is left out: it does not say what kind of {record} it is"
            index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
            continue
        name = own(index, prim, ours.NAME)
        node = kind(name=prim.GetName() if name is None else str(name), origin=index.origin(prim), **fields)
        mark_generated(index, prim, node)
        found.append(node)
    return sorted(found, key=lambda node: -1 if node.order is None else node.order)


def kept_fields(index: StageIndex, prim: pxr.Prim, record: str) -> dict[str, Any]:
    """The fields that a prim keeps of a record; those that hold something wrong are left out, with a warning."""
    result: dict[str, Any] = {}
    if index.values.stamp is None:
        return result
    for field, read in _KINDS[record][1].items():
        value = index.authored(prim, ours.field(record, field))
        if value is None:
            continue
        try:
            result[field] = read(value)
        except ValueError:
            message = f"{ours.field(record, field)} of {prim.GetName()!r} is not what it should be; it is left out"
            index.diagnostics.warning("usd.own-record", message, origin=index.origin(prim))
    return result
