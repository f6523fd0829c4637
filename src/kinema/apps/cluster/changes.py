"""Parameters by path: `link[forearm].mass`, `joint[elbow].damping`, `scene.dt`, `gains.kp[elbow]`, ..."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from kinema.description import Axis, Inertial, Robot, World
from kinema.foundation import KinemaError

_PARTS = {
    kind: f"{kind}s"
    for kind in (
        *("link", "joint", "actuator", "tendon", "sensor"),
        *("constraint", "frame", "camera", "light", "keyframe", "shape"),
    )
}
"""Parts of robots and worlds that are called by name, and the lists they are in."""
_HOME = "robot"
"""A robot or world itself."""
_WHOLE = ("scene", "gains", "controller")
_PATH = re.compile(r"^(\w+)(?:\[([^\]]+)\])?\.(.+)$")
_FIELD = re.compile(r"^(\w+)(?:\[([^\]]+)\])?$")
_STEP = re.compile(r"\.(?![^\[]*\])")
"""A dot that is not in brackets."""


@dataclass(frozen=True, slots=True)
class Path:
    """Where a parameter is."""

    text: str
    kind: str
    """`link`, `joint`, ..., or `scene`, `gains`, `controller`."""
    name: str
    """Of the part, where it has one."""
    fields: tuple[tuple[str, str], ...]
    """Names, each with what stands in brackets behind it."""


@dataclass(slots=True)
class Sorted:
    """Changes by whom they concern."""

    parts: list[tuple[Path, Any]] = field(default_factory=list)
    scene: dict[str, Any] = field(default_factory=dict)
    gains: list[tuple[str, str, Any]] = field(default_factory=list)
    """`kp` or `kv`, of which joint (empty for all), and how much."""
    controller: dict[str, Any] = field(default_factory=dict)


def parsed(text: str) -> Path:
    """A path, or one sentence on what is wrong with it."""
    found = _PATH.match(text)
    kinds = (*_PARTS, _HOME, *_WHOLE)
    steps = [_FIELD.match(step) for step in _STEP.split(found[3])] if found else [None]
    if found is None or found[1] not in kinds or None in steps or (found[1] not in _WHOLE) != bool(found[2]):
        examples = "link[forearm].mass, joint[elbow].damping, scene.dt, gains.kp[elbow], controller.speed"
        raise KinemaError(f"{text!r} is no parameter; these are: {examples}")
    return Path(text, found[1], found[2] or "", tuple((step[1], step[2] or "") for step in steps if step))


def sort(changes: Mapping[str, Any]) -> Sorted:
    """Changes by whom they concern."""
    result = Sorted()
    for text, value in changes.items():
        path = parsed(text)
        first, where = path.fields[0]
        if path.kind not in _WHOLE:
            result.parts.append((path, value))
        elif len(path.fields) > 1:
            raise KinemaError(f"{text!r}: there is nothing below {path.kind}.{first}")
        elif path.kind == "scene":
            result.scene[first] = value
        elif path.kind == "controller":
            result.controller[first] = value
        elif first in ("kp", "kv"):
            result.gains.append((first, where, value))
        else:
            raise KinemaError(f"{text!r}: gains are kp and kv")
    return result


def apply_to_parts(changes: Iterable[tuple[Path, Any]], descriptions: Sequence[Robot | World]) -> None:
    """Change parts of descriptions, in place."""
    for path, value in changes:
        owner = _part(path, descriptions)
        (first, _), *rest = path.fields
        if path.kind == "link" and first == "mass" and not rest:
            owner.inertial = _heavier(path, owner.inertial, float(value))
        elif path.kind == "joint" and not rest and first in _names(Axis):
            for axis in owner.axes:
                setattr(axis, first, value)
        else:
            _set(path, owner, path.fields, value)


def _part(path: Path, descriptions: Sequence[Robot | World]) -> Any:
    homes: list[Any] = [home for d in descriptions for home in ([d, *d.robots] if isinstance(d, World) else [d])]
    if path.kind == _HOME:
        there = homes
    else:  # a world's links and joints are those of its robots
        lists = [(_PARTS[path.kind], home) for home in homes]
        there = [part for name, home in lists if name in _names(type(home)) for part in getattr(home, name)]
    found = [part for part in there if part.name == path.name]
    if len(found) == 1:
        return found[0]
    if found:
        raise KinemaError(f"{path.text!r}: there are {len(found)} of that name")
    names = ", ".join(part.name for part in there) or "none"
    raise KinemaError(f"{path.text!r}: there is no such {path.kind}; there are: {names}")


def _heavier(path: Path, old: Inertial | None, mass: float) -> Inertial:
    """Another mass of the same stuff: the inertia follows."""
    if old is None or old.mass <= 0.0:
        raise KinemaError(f"{path.text!r}: this link has no mass that could be changed")
    return dataclasses.replace(old, mass=mass, inertia=old.inertia * (mass / old.mass))


def _set(path: Path, owner: Any, fields: Sequence[tuple[str, str]], value: Any) -> Any:
    """The owner with one of its fields, or one of theirs, changed."""
    (name, index), *rest = fields
    if name not in _names(type(owner)):
        raise KinemaError(f"{path.text!r}: there is no {name!r}; there are: {', '.join(_names(type(owner)))}")
    old = getattr(owner, name)
    if index:
        many, key = _opened(path, old, name, index)
        many[key] = _set(path, many[key], rest, value) if rest else value
        new: Any = np.array(many) if isinstance(old, np.ndarray) else type(old)(many)
    elif rest:
        new = _set(path, old, rest, value)
    else:
        is_array = isinstance(old, np.ndarray) or (old is None and isinstance(value, list))
        new = np.asarray(value, np.float64) if is_array else value
    if dataclasses.is_dataclass(owner) and getattr(type(owner), "__dataclass_params__").frozen:  # noqa: B009
        return dataclasses.replace(owner, **{name: new})  # type: ignore[type-var]
    setattr(owner, name, new)
    return owner


def _opened(path: Path, old: Any, name: str, index: str) -> tuple[Any, Any]:
    """A copy of what has several, and what is called so in it: by number, or by name."""
    if isinstance(old, dict) and index in old:
        return dict(old), index
    if isinstance(old, list | tuple | np.ndarray):
        called = [k for k, one in enumerate(old) if getattr(one, "name", None) == index]
        if len(called) == 1 or (index.isdigit() and int(index) < len(old)):
            return list(old), called[0] if len(called) == 1 else int(index)
    raise KinemaError(f"{path.text!r}: {name} has no [{index}]")


def _names(kind: type) -> list[str]:
    return [f.name for f in dataclasses.fields(kind)] if dataclasses.is_dataclass(kind) else []
