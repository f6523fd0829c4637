"""Descriptions and models shared by entities that are added with equal arguments.

A body or file that is added many times is described, read and checked once: its entities differ by name and base pose.
"""

from __future__ import annotations

import copy
import os
from collections.abc import Hashable, Sequence
from dataclasses import fields
from enum import Enum
from pathlib import Path
from typing import Any

import numpy as np

from kinema import geometry
from kinema.builder import EntityModels, EntitySpec
from kinema.core import ArrayLike, Diagnostic, Diagnostics, Origin, content_digest
from kinema.description import PhysicsMaterial, Robot, SolverParameters, World

from . import morphs
from .morphs import (
    Addable,
    Box,
    Capsule,
    Cylinder,
    Ellipsoid,
    MaterialOverrides,
    Mesh,
    Plane,
    Sphere,
    description_to_add,
    with_fast_links,
    with_kinematic_base,
)


class DescriptionArguments:
    """Arguments of `Scene.add` on which the description of an entity depends, besides the object to add."""

    def __init__(
        self,
        overrides: MaterialOverrides,
        scale: ArrayLike,
        fixed: bool | None,
        kinematic: bool,
        fast: bool | str | Sequence[str] | None,
    ) -> None:
        self.overrides, self.scale, self.fixed, self.kinematic, self.fast = overrides, scale, fixed, kinematic, fast

    def describe(self, source: Addable, messages: Diagnostics) -> Robot | World:
        """Description of an object, with the arguments applied; reads files."""
        description = description_to_add(source, self.overrides, self.scale, self.fixed, messages)
        if self.kinematic:
            description = with_kinematic_base(description)
        return with_fast_links(description, self.fast)


class SharedDescription:
    """A description, and the models of the entities that have it.

    Args:
        description: the description.
        messages: messages about its file, which every entity reports.
        is_kept: whether later entities may have it too.
        identities: objects of the user that the description refers to; a copy refers to them too.
    """

    def __init__(
        self,
        description: Robot | World,
        messages: tuple[Diagnostic, ...],
        is_kept: bool,
        identities: tuple[object, ...] = (),
    ) -> None:
        self.description, self.messages, self.is_kept = description, messages, is_kept
        self._identities = identities
        self._models: dict[Hashable, EntityModels] = {}

    def models_of(self, spec: EntitySpec) -> EntityModels:
        """Models of the entities that have this description and the settings of an entity."""
        key = spec.fixed, spec.nonconvex, spec.self_collision
        if key not in self._models:
            self._models[key] = EntityModels(spec)
        return self._models[key]

    def private_copy(self) -> Robot | World:
        """Copy of the description for one entity, whose user may change it."""
        return copy.deepcopy(self.description, {id(x): x for x in self._identities})


class SharedDescriptions:
    """Descriptions of the bodies and files that were added to a scene."""

    def __init__(self) -> None:
        self._by_key: dict[Hashable, SharedDescription] = {}

    def describe(self, source: Addable, arguments: DescriptionArguments) -> SharedDescription:
        """Description of an object with arguments; that of an earlier entity if it is an equal body or file.

        Descriptions that the user adds are not shared: they may change at any time.
        """
        key = _sharing_key(source, arguments)
        shared = None if key is None else self._by_key.get(key)
        if shared is not None:
            return shared
        messages, material = Diagnostics(), arguments.overrides.material
        description = arguments.describe(source, messages)
        key = _sharing_key(source, arguments)  # a file is known only after it is read
        identities = () if material is None else (material,)
        shared = SharedDescription(description, tuple(messages.items), key is not None, identities)
        if key is not None:
            self._by_key[key] = shared
        return shared


def _sharing_key(source: Any, arguments: DescriptionArguments) -> Hashable | None:
    """Values on which a description depends; None for an unknown or changed file and for unknown types of values."""
    try:
        material = arguments.overrides.material
        values = map(_value_key, vars(arguments).values())
        return (_source_key(source), *values, None if material is None else id(material))
    except (TypeError, OSError):
        return None


def _source_key(source: Any) -> Hashable:
    """Hashable equivalent of an object to add; raises TypeError for descriptions, and for unknown or changed files."""
    if isinstance(source, str | os.PathLike):
        if Path(source).suffix.lower() in geometry.MESH_SUFFIXES:
            return _value_key(Mesh(source))
        from kinema.read import kept_reading

        reading = kept_reading(source)
        if reading is not None:
            return reading
    if type(source) in BODY_TYPES:
        return _value_key(source)
    raise TypeError(f"descriptions of {type(source)} are not shared")


BODY_TYPES = (Box, Sphere, Ellipsoid, Capsule, Cylinder, Plane, Mesh, morphs.Terrain, geometry.Terrain)
COMPARED_TYPES = (*BODY_TYPES, MaterialOverrides, PhysicsMaterial, SolverParameters, Origin)
"""Dataclasses that are equal if their fields are."""
MAX_NUMBERS = 64
"""Longest array whose values are compared directly; of longer ones the digest is compared."""


def _value_key(value: Any) -> Hashable:
    """Hashable equivalent of an argument; raises TypeError for unknown types, `OSError` for missing files."""
    if type(value) is float:
        return value
    if value is None or isinstance(value, float | int | str | Enum):
        return type(value), value
    if isinstance(value, list | tuple):
        return tuple(map(_value_key, value))
    if isinstance(value, np.ndarray | np.generic):
        if value.dtype.kind not in "biuf":
            raise TypeError(f"arrays of {value.dtype} are not compared")
        content = value.tobytes() if value.size <= MAX_NUMBERS else content_digest(np.asarray(value))
        return value.dtype.str, value.shape, content
    if isinstance(value, dict):
        return tuple((key, _value_key(x)) for key, x in value.items())
    if isinstance(value, os.PathLike):
        return os.fspath(value)
    if type(value) in COMPARED_TYPES:
        state: tuple[Hashable, ...] = ()
        if isinstance(value, Mesh) and value.vertices is None:
            found = Path(value.file).stat()
            state = (str(Path.cwd()), found.st_mtime_ns, found.st_ctime_ns, found.st_size, found.st_ino)
        return type(value), state, *(_value_key(getattr(value, f.name)) for f in fields(value))
    raise TypeError(f"values of {type(value)} are not compared")
