"""Values of a description as USD can hold them: numbers, texts and lists of numbers, and JSON for the rest."""

from __future__ import annotations

import dataclasses
import json
from collections.abc import Mapping
from typing import Any

import numpy as np

from kinema.description import Node, PhysicsMaterial, SolverParameters
from kinema.foundation import Pose
from kinema.words import ours

from .draft import PrimDraft

_OF_NODES = {field.name for field in dataclasses.fields(Node)}


def as_json(value: Any) -> str | None:
    """The text of a value; None for one that JSON cannot say."""
    try:
        return json.dumps(value, default=_plain, ensure_ascii=False)
    except (TypeError, ValueError):
        return None


def keep_table(prim: PrimDraft, setting: ours.Setting, table: Mapping[str, Any]) -> list[str]:
    """Keep what JSON can say of a table; the names of that."""
    plain = {name: text for name, value in table.items() if (text := as_json(value)) is not None}
    if plain:
        prim.keep(setting, "{" + ", ".join(f"{json.dumps(name)}: {text}" for name, text in plain.items()) + "}")
    return list(plain)


def as_usd(value: Any) -> tuple[str, Any] | None:
    """The type and value of an attribute for a value; None for one that cannot be kept."""
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
            return "double[]", _plain(value)
        case np.ndarray() if value.ndim == 1:
            return "double[]", value.tolist()
        case tuple() | list() if value and all(isinstance(v, int | float) for v in value):
            return "double[]", list(value)
    text = as_json(value)
    return None if text is None else ("string", text)


def _plain(value: Any) -> Any:
    if isinstance(value, Pose):
        return [*value.position.tolist(), *value.quaternion.tolist()]
    if isinstance(value, SolverParameters):
        return dataclasses.asdict(value)
    if isinstance(value, PhysicsMaterial):
        names = [field.name for field in dataclasses.fields(value) if field.name not in _OF_NODES]
        plain = PhysicsMaterial()
        return {name: getattr(value, name) for name in names if getattr(value, name) != getattr(plain, name)}
    if isinstance(value, np.ndarray | np.generic):
        return value.tolist()
    raise TypeError(type(value).__name__)
