"""Every field of a description, found generically, so that a new field is checked from the day it is added."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any, NamedTuple

import numpy as np

from kinema.description import CollisionPair, Node
from kinema.foundation import Origin

from .words import label

_FOREIGN = {"diagnostics", "extras", "attributes", "options", "settings", "origin"}
"""Fields that hold other people's data, in which NaN may well mean something."""
_OWN_LEVEL = {"robots"}
"""A world's robots are checked one by one."""
_PLAIN = (str, bool, int, type(None))


class Leaf(NamedTuple):
    """A number, an array, or some other single value, and where it is."""

    owner: Node | CollisionPair
    """The nearest node around it."""
    path: str
    """How to get to it from the owner: `parent_pose.position`."""
    holder: Any
    """The dataclass it is a field of."""
    field: str
    """Its field there; an item of a list or dict has the field of that."""
    value: Any

    @property
    def origin(self) -> Origin:
        """Where the owner stands in its file."""
        return self.owner.origin

    @property
    def label(self) -> str:
        """The owner, as messages call it."""
        return label(self.owner) if isinstance(self.owner, Node) else f'pair "{self.owner.a}", "{self.owner.b}"'


def walk(node: Node) -> Iterator[Leaf]:
    """All numbers and arrays in and below a node."""
    yield from _fields(node, node, "")


def _fields(thing: Any, owner: Node | CollisionPair, path: str) -> Iterator[Leaf]:
    for field in dataclasses.fields(thing):
        if field.name in _FOREIGN or field.name in _OWN_LEVEL:
            continue
        here = f"{path}.{field.name}" if path else field.name
        yield from _value(getattr(thing, field.name), owner, here, thing, field.name)


def _value(value: Any, owner: Node | CollisionPair, path: str, holder: Any, field: str) -> Iterator[Leaf]:
    if isinstance(value, float | np.ndarray | np.generic):
        yield Leaf(owner, path, holder, field, value)
    elif isinstance(value, _PLAIN):
        return
    elif isinstance(value, Node | CollisionPair):
        yield from _fields(value, value, "")
    elif dataclasses.is_dataclass(value):
        yield from _fields(value, owner, path)
    elif isinstance(value, list | tuple):
        for i, item in enumerate(value):
            yield from _value(item, owner, f"{path}[{i}]", holder, field)
    elif isinstance(value, dict):
        for key, item in value.items():
            yield from _value(item, owner, f"{path}[{key!r}]", holder, field)
