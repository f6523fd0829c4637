"""Registries of the simulator: entries from outside of Kinema, and messages for names that a registry does not have.

Cache keys contain the source code of Kinema, not of other packages. Results that depend on functions from elsewhere
(those of a test, for example) are therefore neither stored in the cache nor loaded from it.
"""

from __future__ import annotations

import operator
import sys
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import partial
from typing import Any, TypeVar

from kinema.core import InternalError, content_digest

T = TypeVar("T")
REGISTRIES = {
    "dynamics.pipeline": "STAGES",
    "dynamics.constraints.constraint_kinds": "CONSTRAINT_KINDS",
    "dynamics.rigid.kinematics": "JOINT_MODELS",
    "dynamics.forces.transmission_forces": "ACTUATOR_FORCE_LAWS TENDON_FORCE_LAWS",
    "dynamics.forces.transmission_paths": "SEGMENT_KINDS",
    "dynamics.forces.fluid": "FLUID_LAWS",
    "dynamics.collision.analytic_pairs": "ANALYTIC_COLLISION_TABLE",
    "dynamics.queries.field_groups": "FIELD_GROUPS",
    "model.sensor_kinds": "SENSOR_KINDS",
    "dynamics.sensors.registry": "SENSOR_FAMILIES",
    "dynamics.sensors.ray_intersection": "PRIMITIVE_INTERSECTIONS",
}
"""Module -> names of the registries in it."""


def has_external_extensions() -> bool:
    """Whether any registry has a function that is not part of Kinema.

    Modules that are not imported yet cannot have any; they are not imported for this check.
    """
    root = __name__.partition(".")[0]
    modules = ((sys.modules.get(f"{root}.{name}"), names.split()) for name, names in REGISTRIES.items())
    registries = [getattr(module, name) for module, names in modules if module is not None for name in names]
    entries = [*registries, *(entry for registry in registries for entry in _entries_of(registry))]
    if len(entries) != len(_checked.entries) or not all(map(operator.is_, entries, _checked.entries)):
        _checked.has_external = any(
            module.partition(".")[0] != root for registry in registries for module in _modules_of(registry)
        )
        _checked.entries = entries
    return _checked.has_external


@dataclass(slots=True, eq=False)
class _CheckedRegistries:
    """Registries and entries that were checked last, and the result: the check is repeated when any entry changes."""

    entries: list[Any] = field(default_factory=list)
    has_external: bool = False


_checked = _CheckedRegistries()


def _entries_of(container: Any) -> Iterator[Any]:
    """All entries of a registry, with those of containers in it; other entries are functions and immutable records."""
    for entry in container.values() if type(container) is dict else container:
        yield entry
        if type(entry) in (dict, list, tuple):
            yield from _entries_of(entry)


def _modules_of(entry: Any) -> Iterator[str]:
    """Names of the modules of all functions in a registry or in one of its entries."""
    if isinstance(entry, partial):
        entry = entry.func
    if isinstance(entry, Mapping):
        entry = entry.values()
    if is_dataclass(entry):
        yield from _modules_of([getattr(entry, x.name) for x in fields(entry)])
    elif isinstance(entry, Iterable) and not isinstance(entry, str):
        for element in entry:
            yield from _modules_of(element)
    elif callable(entry):
        yield str(getattr(entry, "__module__", type(entry).__module__))


def look_up(registry: Mapping[str, T], name: str, description: str) -> T:
    """Entry of a registry; `InternalError` with the names that there are if it is missing.

    Args:
        registry: the registry.
        name: name of the entry.
        description: what the entry is, with the name of the registry, for the message.
    """
    if name not in registry:
        raise InternalError(f"there is no {description} for {name!r}; there are {', '.join(map(repr, registry))}")
    return registry[name]


def program_key(*values: object) -> str | None:
    """Cache key of a program from everything that determines it; None if functions from outside of Kinema do."""
    return None if has_external_extensions() else content_digest(*values)
