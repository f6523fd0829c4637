"""Sensors, keyframes and constraints that USD has no type for: prims of our own, an attribute for each field."""

from __future__ import annotations

import dataclasses
from collections.abc import Collection
from typing import Any

import numpy as np

from kinema.description import Assembly, Constraint, Keyframe, Node, Sensor
from kinema.words import ours, usd

from ..report import Action
from .draft import PrimDraft
from .names import author_name, give_back
from .record_values import as_usd
from .writing import Writing

_SCOPES = {
    ours.RECORD_SENSOR: "Sensors",
    ours.RECORD_KEYFRAME: "Keyframes",
    ours.RECORD_CONSTRAINT: "Constraints",
}
_OF_NODES = {field.name for field in dataclasses.fields(Node)}


def author_records(writing: Writing, assembly: Assembly, home: str) -> None:
    """The sensors and keyframes of a robot or world, below its prim."""
    for sensor in assembly.sensors:
        author_record(writing, sensor, ours.RECORD_SENSOR, home)
    for keyframe in assembly.keyframes:
        author_record(writing, keyframe, ours.RECORD_KEYFRAME, home)


def author_record(writing: Writing, node: Sensor | Keyframe | Constraint, record: str, home: str) -> None:
    """A prim that stands for something that USD has not."""
    scope = writing.draft.scope(f"{home}/{_SCOPES[record]}")
    prim = writing.draft.prim(writing.plan.names.child(scope, node.name, record), usd.SCOPE)
    author_name(writing, prim, node)
    prim.keep(ours.RECORD, record)
    author_fields(writing, prim, node, record)
    give_back(writing, prim, node)
    writing.lose(Action.EXTENSION, node, f"the {record}", "USD has none; it is kept for Kinema alone")


def author_fields(writing: Writing, prim: PrimDraft, node: Node, record: str, *, said: Collection[str] = ()) -> None:
    """The fields of a node that are not at their default, but for those that the prim says otherwise."""
    if node.order is not None:
        prim.keep(ours.PLACE, node.order)
    for field in dataclasses.fields(node):
        value = getattr(node, field.name)
        if field.name in _OF_NODES or field.name in said or _is_default(field, value):
            continue
        kept = as_usd(value)
        if kept is None:
            writing.lose(Action.DROPPED, node, f"its {field.name}", "USD has no place for it")
        else:
            prim.set(ours.field(record, field.name), *kept, custom=True)


def _is_default(field: dataclasses.Field[Any], value: Any) -> bool:
    if field.default_factory is not dataclasses.MISSING:
        default: Any = field.default_factory()
    else:
        default = field.default
    if isinstance(value, np.ndarray):
        return bool(np.array_equal(value, default))
    if hasattr(value, "is_close"):
        return value.is_close(default, 0.0)
    return value is None or bool(value == default)
