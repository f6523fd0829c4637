"""Picklable specification of an environment and its episodes, with parameter overrides and policies.

Parameters are addressed by path: `link[forearm].mass`, `joint[elbow].damping`, `scene.dt`, `gains.kp[elbow]`. Policies
are functions, or names of functions that workers import.
"""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import importlib
import os
import pickle
import re
import sys
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import KinemaError, ReadError, cache_dir, write_atomically
from kinema.description import Axis, HeightField, Inertial, Mesh, Robot, Shape, World
from kinema.read import read
from kinema.scene import RANDOMIZABLE_PARAMETERS, Distribution, Mesh as MeshBody, Morph

# ------------------------------------------------------------------------------------------------------ parameter paths

_ELEMENT_LISTS = {
    kind: f"{kind}s"
    for kind in (
        *("link", "joint", "actuator", "tendon", "sensor"),
        *("constraint", "frame", "camera", "light", "keyframe", "shape"),
    )
}
"""Element kinds of parameter paths, each with the name of the list field of robots and worlds that holds them."""
_ROOT_KIND = "robot"
"""Kind of a path to a field of a robot or world itself."""
_NON_ELEMENT_KINDS = ("scene", "gains", "controller")
_PATH_PATTERN = re.compile(r"^(\w+)(?:\[([^\]]+)\])?\.(.+)$")
_FIELD_PATTERN = re.compile(r"^(\w+)(?:\[([^\]]+)\])?$")
_FIELD_SEPARATOR = re.compile(r"\.(?![^\[]*\])")
"""A dot outside brackets."""


@dataclass(frozen=True, slots=True)
class ParameterPath:
    """Parsed path of a parameter: element kind, element name and field names."""

    text: str
    kind: str
    """`link`, `joint`, ..., or `scene`, `gains`, `controller`."""
    name: str
    """Name of the element; empty for `scene`, `gains` and `controller`."""
    fields: tuple[tuple[str, str], ...]
    """Field names from the element downwards, each with its index in brackets (empty without)."""


@dataclass(slots=True)
class GroupedChanges:
    """Parameter changes grouped by target: description elements, scene options, joint gains, policy parameters."""

    elements: list[tuple[ParameterPath, Any]] = field(default_factory=list)
    scene: dict[str, Any] = field(default_factory=dict)
    gains: list[tuple[str, str, Any]] = field(default_factory=list)
    """Gain (`kp` or `kv`), joint name (empty for all joints) and value."""
    controller: dict[str, Any] = field(default_factory=dict)


def parse_parameter_path(text: str) -> ParameterPath:
    """Parse a parameter path such as `link[forearm].mass`.

    Raises:
        KinemaError: the path has no valid syntax or an unknown element kind.
    """
    match = _PATH_PATTERN.match(text)
    kinds = (*_ELEMENT_LISTS, _ROOT_KIND, *_NON_ELEMENT_KINDS)
    steps = [_FIELD_PATTERN.match(step) for step in _FIELD_SEPARATOR.split(match[3])] if match else [None]
    if (
        match is None
        or match[1] not in kinds
        or None in steps
        or (match[1] not in _NON_ELEMENT_KINDS) != bool(match[2])
    ):
        examples = "link[forearm].mass, joint[elbow].damping, scene.dt, gains.kp[elbow], controller.speed"
        raise KinemaError(f"{text!r} is no parameter; these are: {examples}")
    return ParameterPath(text, match[1], match[2] or "", tuple((step[1], step[2] or "") for step in steps if step))


def group_changes(changes: Mapping[str, Any]) -> GroupedChanges:
    """Group parameter changes, given by path, into description elements, scene options, gains and policy parameters."""
    result = GroupedChanges()
    for text, value in changes.items():
        path = parse_parameter_path(text)
        first, where = path.fields[0]
        if path.kind not in _NON_ELEMENT_KINDS:
            result.elements.append((path, value))
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


def apply_to_descriptions(changes: Iterable[tuple[ParameterPath, Any]], descriptions: Sequence[Robot | World]) -> None:
    """Set parameters of description elements, in place.

    Changing `link[...].mass` scales the inertia tensor with the mass; an axis field of `joint[...]` is set on all axes.
    """
    for path, value in changes:
        owner = _find_element(path, descriptions)
        (first, _), *rest = path.fields
        if path.kind == "link" and first == "mass" and not rest:
            owner.inertial = _with_mass(path, owner.inertial, float(value))
        elif path.kind == "joint" and not rest and first in _field_names(Axis):
            for axis in owner.axes:
                setattr(axis, first, value)
        else:
            _set_field(path, owner, path.fields, value)


def _find_element(path: ParameterPath, descriptions: Sequence[Robot | World]) -> Any:
    """Element of the descriptions that a path names; raises `KinemaError` unless there is exactly one."""
    owners: list[Any] = [owner for d in descriptions for owner in ([d, *d.robots] if isinstance(d, World) else [d])]
    if path.kind == _ROOT_KIND:
        candidates = owners
    else:  # a world's links and joints are those of its robots
        lists = [(_ELEMENT_LISTS[path.kind], owner) for owner in owners]
        candidates = [e for name, owner in lists if name in _field_names(type(owner)) for e in getattr(owner, name)]
    found = [element for element in candidates if element.name == path.name]
    if len(found) == 1:
        return found[0]
    if found:
        raise KinemaError(f"{path.text!r}: there are {len(found)} of that name")
    names = ", ".join(element.name for element in candidates) or "none"
    raise KinemaError(f"{path.text!r}: there is no such {path.kind}; there are: {names}")


def _with_mass(path: ParameterPath, old: Inertial | None, mass: float) -> Inertial:
    """Inertial with another mass and the inertia tensor scaled in proportion."""
    if old is None or old.mass <= 0.0:
        raise KinemaError(f"{path.text!r}: this link has no mass that could be changed")
    return dataclasses.replace(old, mass=mass, inertia=old.inertia * (mass / old.mass))


def _set_field(path: ParameterPath, owner: Any, fields: Sequence[tuple[str, str]], value: Any) -> Any:
    """Set a possibly nested field of a description element; frozen dataclasses are replaced. Returns the owner."""
    (name, index), *rest = fields
    if name not in _field_names(type(owner)):
        raise KinemaError(f"{path.text!r}: there is no {name!r}; there are: {', '.join(_field_names(type(owner)))}")
    old = getattr(owner, name)
    if index:
        many, key = _copy_container(path, old, name, index)
        many[key] = _set_field(path, many[key], rest, value) if rest else value
        new: Any = np.array(many) if isinstance(old, np.ndarray) else type(old)(many)
    elif rest:
        new = _set_field(path, old, rest, value)
    else:
        is_array = isinstance(old, np.ndarray) or (old is None and isinstance(value, list))
        new = np.asarray(value, np.float64) if is_array else value
    if dataclasses.is_dataclass(owner) and getattr(type(owner), "__dataclass_params__").frozen:  # noqa: B009
        return dataclasses.replace(owner, **{name: new})  # type: ignore[type-var]
    setattr(owner, name, new)
    return owner


def _copy_container(path: ParameterPath, container: Any, name: str, index: str) -> tuple[Any, Any]:
    """Mutable copy of a dict, list, tuple or array, and the key of the item that `index` names or numbers."""
    if isinstance(container, dict) and index in container:
        return dict(container), index
    if isinstance(container, list | tuple | np.ndarray):
        matches = [k for k, item in enumerate(container) if getattr(item, "name", None) == index]
        if len(matches) == 1 or (index.isdigit() and int(index) < len(container)):
            return list(container), matches[0] if len(matches) == 1 else int(index)
    raise KinemaError(f"{path.text!r}: {name} has no [{index}]")


def _field_names(cls: type) -> list[str]:
    return [f.name for f in dataclasses.fields(cls)] if dataclasses.is_dataclass(cls) else []


# ------------------------------------------------------------------------------------------------------------- policies

Policy = Callable[..., Any] | str | None


def resolve_function(function: Callable[..., Any] | str, role: str) -> Callable[..., Any]:
    """Return a callable, imported if given as `package.module:name`, and instantiated if it is a class."""
    if isinstance(function, str):
        module, colon, name = function.partition(":")
        try:
            function = getattr(importlib.import_module(module), name)
        except (ImportError, AttributeError, ValueError) as error:
            raise KinemaError(f"{role} {module}{colon}{name}: {error}") from None
    if isinstance(function, type):
        function = function()
    if not callable(function):
        raise KinemaError(f"{role}: expected a function or the name of one, not {function!r}")
    return function


def as_numpy_policy(function: Callable[..., Any]) -> Callable[..., Any]:
    """Policy as a function of NumPy arrays; a `torch.nn.Module` is set to evaluation mode and wrapped."""
    torch: Any = sys.modules.get("torch")  # imported if the policy is a torch.nn.Module
    if torch is None or not isinstance(function, torch.nn.Module):
        return function
    net: Any = function
    net.eval()
    weights = next(iter(net.parameters()), None)

    def act(obs: np.ndarray, **controller: Any) -> np.ndarray:
        inputs = torch.from_numpy(obs)
        with torch.no_grad():
            return net(inputs if weights is None else inputs.to(weights.device), **controller).cpu().numpy()

    return act


# -------------------------------------------------------------------------------------------- environment specification

CONTROL_MODES = ("actuators", "position", "velocity", "force")
"""Meaning of an action: actuator controls, joint position targets, joint velocity targets or joint forces."""
FunctionOrName = Callable[..., Any] | str
"""A function, or its import path `package.module:name`."""


@dataclass(frozen=True, slots=True)
class SceneEntity:
    """Entity of a scene and its `Scene.add` options; made by `scene_entity`."""

    source: Any
    """A description, or a body such as `km.Box`."""
    options: dict[str, Any]


def scene_entity(source: Any, **options: Any) -> SceneEntity:
    """Specify an entity of the scene.

    Args:
        source: a file, a description, or a body: all that `Scene.add` accepts.
        **options: keyword arguments of `Scene.add`: `fixed`, `pos` [m], `name`, ...
    """
    if isinstance(source, str | os.PathLike):
        source = read(Path(source))
    if not isinstance(source, Robot | World | Morph):
        raise KinemaError(f"thing: expected a file, a robot, a world or a body, not {source!r}")
    return SceneEntity(source, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class EnvSpec:
    """Specification of a scene and its episodes: made by `make_env_spec`, modified by `with_parameters`."""

    entities: tuple[SceneEntity, ...]
    mesh_files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """Content of the mesh files by path, so that worker nodes need not have the files."""
    scene: Mapping[str, Any] = field(default_factory=dict)
    randomize: Mapping[str, Distribution] = field(default_factory=dict)
    start_noise: tuple[float, float] = (0.0, 0.0)
    keyframe: str | int | None = None
    steps: int = 500
    decimation: int = 1
    control: str = "actuators"
    dofs: tuple[str, ...] | None = None
    observe: FunctionOrName | None = None
    reward: FunctionOrName | None = None
    until: FunctionOrName | None = None
    parameter_overrides: Mapping[str, Any] = field(default_factory=dict)
    """Parameter values by path; see the module docstring."""
    seed: int = 0

    def with_parameters(self, overrides: Mapping[str, Any]) -> EnvSpec:
        """Copy with other values of some parameters, by path: `{"link[forearm].mass": 1.2}`."""
        return dataclasses.replace(self, parameter_overrides={**self.parameter_overrides, **overrides})

    @property
    def wants_gpu(self) -> bool:
        """Whether the scene is simulated on a GPU."""
        return str(self.scene.get("device", "cpu")).startswith("cuda")

    def settings_repr(self) -> str:
        """Canonical text of all fields except entities and mesh files: equal exactly if the settings are equal."""
        plain = {
            f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("entities", "mesh_files")
        }
        for name in ("observe", "reward", "until"):
            plain[name] = function_name(plain[name])
        return repr(sorted((name, _sorted_items(value)) for name, value in plain.items()))

    def load_descriptions(self) -> list[Any]:
        """Deep copies of the entities' descriptions, with mesh paths that exist on this machine."""
        copies = [copy.deepcopy(t.source) for t in self.entities]
        for shape in _shapes_with_files(copies):
            geometry: Any = shape.geometry
            if geometry.path in self.mesh_files:
                local_path = str(_local_mesh_file(geometry.path, self.mesh_files[geometry.path]))
                shape.geometry = dataclasses.replace(geometry, path=local_path)
        return copies


def make_env_spec(
    *entities: SceneEntity | Any,
    scene: Mapping[str, Any] | None = None,
    randomize: Mapping[str, Distribution] | None = None,
    start_noise: tuple[float, float] = (0.0, 0.0),
    keyframe: str | int | None = None,
    steps: int = 500,
    seed: int = 0,
    **options: Any,
) -> EnvSpec:
    """Specify a scene and its episodes.

    Args:
        *entities: files, descriptions, bodies, or `scene_entity(...)` of them; policies act on the first entity.
        scene: arguments of `kinema.Scene`: `dt`, `device`, `precision`, ...
        randomize: distributions that `Scene.randomize` samples for each episode: `{"mass": km.uniform(0.8, 1.2)}`.
        start_noise: maximum deviation of initial joint positions and velocities [rad, m; rad/s, m/s].
        keyframe: keyframe of the file that episodes start from; None for the initial configuration of the file.
        steps: maximum number of actions of an episode.
        seed: seed of all random numbers; the samples of episode k depend on the seed and k only.
        **options: `decimation`: simulation steps per action. `control`: meaning of actions: `actuators`,
            `position`, `velocity` or `force`, the last three for `dofs` (None for all). `observe`, `reward`, `until`:
            functions of the running `EpisodeRunner` that return one row or value per environment: the observation
            (joint positions and velocities by default), the reward of a step, and whether the episode terminates.

    Raises:
        KinemaError: an argument is invalid or unknown.
    """
    known = {f.name for f in dataclasses.fields(EnvSpec)} - {"entities", "mesh_files"}
    wrong = [name for name in options if name not in known]
    if wrong:
        raise KinemaError(f"recipe: there is no {wrong[0]!r}; there are: {', '.join(sorted(known))}")
    if not entities:
        raise KinemaError("recipe: there is nothing in the scene")
    if options.get("control", CONTROL_MODES[0]) not in CONTROL_MODES:
        raise KinemaError(f"recipe: control {options['control']!r} is none of {', '.join(CONTROL_MODES)}")
    for name, draw in (randomize or {}).items():
        if name not in RANDOMIZABLE_PARAMETERS or not isinstance(draw, Distribution):
            known_draws = ", ".join(RANDOMIZABLE_PARAMETERS)
            raise KinemaError(f"recipe: randomize {name!r}: expected km.uniform(...) or its like of: {known_draws}")
    if steps < 1 or options.get("decimation", 1) < 1:
        raise KinemaError("recipe: at least one step to an episode, and one of the simulation to an action")
    if options.get("dofs") is not None:
        options["dofs"] = tuple(options["dofs"])
    scene_entities = tuple(t if isinstance(t, SceneEntity) else scene_entity(t) for t in entities)
    return EnvSpec(
        entities=scene_entities,
        mesh_files=_read_mesh_files([t.source for t in scene_entities]),
        scene=dict(scene or {}),
        randomize=dict(randomize or {}),
        start_noise=start_noise,
        keyframe=keyframe,
        steps=steps,
        seed=seed,
        **options,
    )


def function_name(function: FunctionOrName | None) -> str:
    """Name of a function, equal in every process: its import path, or a digest of a pickled callable object."""
    if function is None or isinstance(function, str):
        return function or ""
    name = getattr(function, "__qualname__", "")
    if name:
        return f"{function.__module__}:{name}"
    return hashlib.sha256(pickle.dumps(function)).hexdigest()[:16]  # an object with state, such as a neural network


def _sorted_items(value: Any) -> Any:
    """Mappings as sorted lists of items, recursively, so that the result does not depend on insertion order."""
    return sorted((k, _sorted_items(v)) for k, v in value.items()) if isinstance(value, Mapping) else value


def _shapes_with_files(descriptions: Sequence[Any]) -> Iterator[Shape]:
    """Shapes of descriptions whose geometry is a mesh or height-field file."""
    for described in descriptions:
        robots = described.robots if isinstance(described, World) else [described]
        shapes = list(described.shapes) if isinstance(described, World) else []
        shapes += [s for robot in robots if isinstance(robot, Robot) for link in robot.links for s in link.shapes]
        yield from (s for s in shapes if isinstance(s.geometry, Mesh | HeightField) and s.geometry.path)


def _read_mesh_files(descriptions: Sequence[Any]) -> dict[str, bytes]:
    """Content of all mesh and height-field files of descriptions, by path."""
    if any(isinstance(d, MeshBody) for d in descriptions):
        raise KinemaError("recipe: a mesh file alone does not travel: put it into a robot's file")
    result = {}
    for shape in _shapes_with_files(descriptions):
        name = getattr(shape.geometry, "path", "")
        if name not in result and Path(name).is_file():
            try:
                result[name] = Path(name).read_bytes()
            except OSError as error:
                raise ReadError(f"{name}: {error.strerror}") from None
    return result


def _local_mesh_file(name: str, content: bytes) -> Path:
    """Path of a file with this content on this machine: the original if unchanged, otherwise a cached copy."""
    here = Path(name)
    if here.is_file() and here.stat().st_size == len(content) and here.read_bytes() == content:
        return here
    copied = cache_dir() / "files" / f"{hashlib.sha256(content).hexdigest()[:32]}{here.suffix}"
    if not copied.is_file():
        write_atomically(copied, content)
    return copied
