"""What is played, as a value: everything that episodes depend on, to be sent to whoever plays them."""

from __future__ import annotations

import copy
import dataclasses
import hashlib
import os
import pickle
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from kinema.description import HeightField, Mesh, Robot, Shape, World
from kinema.foundation import KinemaError, ReadError, cache_dir, write_atomically
from kinema.read import read
from kinema.scene import RANDOM_KINDS, Draw, Mesh as MeshBody, Morph

CONTROLS = ("actuators", "position", "velocity", "force")
"""What the numbers of an action are: controls of the file's actuators, or targets and forces of joints."""
Function = Callable[..., Any] | str
"""A function, or where it is: `package.module:name`."""


@dataclass(frozen=True, slots=True)
class Thing:
    """Something in a scene, and how it is put there. `thing` makes one."""

    what: Any
    """A description, or a body such as `km.Box`."""
    options: dict[str, Any]


def thing(what: Any, **options: Any) -> Thing:
    """Something to be put into a scene.

    Args:
        what: a file, a description, or a body: all that `Scene.add` takes.
        **options: likewise: `fixed`, `pos` [m], `name`, ...
    """
    if isinstance(what, str | os.PathLike):
        what = read(Path(what))
    if not isinstance(what, Robot | World | Morph):
        raise KinemaError(f"thing: expected a file, a robot, a world or a body, not {what!r}")
    return Thing(what, options)


@dataclass(frozen=True, slots=True, kw_only=True)
class Recipe:
    """A scene and its episodes. `recipe` makes one; `changed` makes another of it."""

    things: tuple[Thing, ...]
    files: Mapping[str, bytes] = field(default_factory=dict, repr=False)
    """The mesh files of robots, by their content: nodes need not have them."""
    scene: Mapping[str, Any] = field(default_factory=dict)
    randomize: Mapping[str, Draw] = field(default_factory=dict)
    start: tuple[float, float] = (0.0, 0.0)
    keyframe: str | int | None = None
    steps: int = 500
    decimation: int = 1
    control: str = "actuators"
    dofs: tuple[str, ...] | None = None
    observe: Function | None = None
    reward: Function | None = None
    until: Function | None = None
    changes: Mapping[str, Any] = field(default_factory=dict)
    """Parameters by path; see `kinema.apps.cluster.changes`."""
    seed: int = 0

    def changed(self, changes: Mapping[str, Any]) -> Recipe:
        """The same with other values of some parameters: `{"link[forearm].mass": 1.2}`."""
        return dataclasses.replace(self, changes={**self.changes, **changes})

    @property
    def wants_gpu(self) -> bool:
        """Whether it is to be played on a GPU."""
        return str(self.scene.get("device", "cpu")).startswith("cuda")

    def about(self) -> str:
        """Everything but the things themselves, in words: two recipes that differ there differ here."""
        plain = {f.name: getattr(self, f.name) for f in dataclasses.fields(self) if f.name not in ("things", "files")}
        for name in ("observe", "reward", "until"):
            plain[name] = function_name(plain[name])
        return repr(sorted((name, _plain(value)) for name, value in plain.items()))

    def descriptions(self) -> list[Any]:
        """What is put into the scene, ready to be changed, with mesh files that are there."""
        copies = [copy.deepcopy(t.what) for t in self.things]
        for shape in _shapes(copies):
            geometry: Any = shape.geometry
            if geometry.path in self.files:
                place = str(_unpacked(geometry.path, self.files[geometry.path]))
                shape.geometry = dataclasses.replace(geometry, path=place)
        return copies


def recipe(
    *things: Thing | Any,
    scene: Mapping[str, Any] | None = None,
    randomize: Mapping[str, Draw] | None = None,
    start: tuple[float, float] = (0.0, 0.0),
    keyframe: str | int | None = None,
    steps: int = 500,
    seed: int = 0,
    **others: Any,
) -> Recipe:
    """Describe a scene and its episodes.

    Args:
        *things: files, descriptions or bodies, or `thing(...)` of them; policies act on the first one.
        scene: what `kinema.Scene` is made with: `dt`, `device`, `precision`, ...
        randomize: what `Scene.randomize` draws for each episode: `{"mass": km.uniform(0.8, 1.2)}`.
        start: how far joints are moved from where they start, and how fast they are, at most [rad, m; rad/s, m/s].
        keyframe: the state of the file that episodes begin with; None for where the file shows the robot.
        steps: how many actions an episode has at most.
        seed: of all that is drawn; episode k draws the same whoever plays it.
        **others: `decimation`: steps of the simulation to an action. `control`: what actions are: `actuators`,
            `position`, `velocity` or `force`, the last three of `dofs` (None for all). `observe`, `reward` and `until`:
            functions of the running `Stage` that give a row or a number for each environment: what the policy sees
            (positions and velocities when not given), what a step earns, and whether the episode ends.

    Raises:
        KinemaError: something is asked for that there is not.
    """
    known = {f.name for f in dataclasses.fields(Recipe)} - {"things", "files"}
    wrong = [name for name in others if name not in known]
    if wrong:
        raise KinemaError(f"recipe: there is no {wrong[0]!r}; there are: {', '.join(sorted(known))}")
    if not things:
        raise KinemaError("recipe: there is nothing in the scene")
    if others.get("control", CONTROLS[0]) not in CONTROLS:
        raise KinemaError(f"recipe: control {others['control']!r} is none of {', '.join(CONTROLS)}")
    for name, draw in (randomize or {}).items():
        if name not in RANDOM_KINDS or not isinstance(draw, Draw):
            known_draws = ", ".join(RANDOM_KINDS)
            raise KinemaError(f"recipe: randomize {name!r}: expected km.uniform(...) or its like of: {known_draws}")
    if steps < 1 or others.get("decimation", 1) < 1:
        raise KinemaError("recipe: at least one step to an episode, and one of the simulation to an action")
    if others.get("dofs") is not None:
        others["dofs"] = tuple(others["dofs"])
    put = tuple(t if isinstance(t, Thing) else thing(t) for t in things)
    return Recipe(
        things=put,
        files=_files([t.what for t in put]),
        scene=dict(scene or {}),
        randomize=dict(randomize or {}),
        start=start,
        keyframe=keyframe,
        steps=steps,
        seed=seed,
        **others,
    )


def function_name(function: Function | None) -> str:
    """What a function is called: the same for the same function in any process."""
    if function is None or isinstance(function, str):
        return function or ""
    name = getattr(function, "__qualname__", "")
    if name:
        return f"{function.__module__}:{name}"
    return hashlib.sha256(pickle.dumps(function)).hexdigest()[:16]  # an object with numbers of its own, such as a net


def _plain(value: Any) -> Any:
    """Values in an order that does not depend on how they were given."""
    return sorted((k, _plain(v)) for k, v in value.items()) if isinstance(value, Mapping) else value


def _shapes(descriptions: Sequence[Any]) -> Iterator[Shape]:
    """Those with a mesh file."""
    for described in descriptions:
        robots = described.robots if isinstance(described, World) else [described]
        shapes = list(described.shapes) if isinstance(described, World) else []
        shapes += [s for robot in robots if isinstance(robot, Robot) for link in robot.links for s in link.shapes]
        yield from (s for s in shapes if isinstance(s.geometry, Mesh | HeightField) and s.geometry.path)


def _files(descriptions: Sequence[Any]) -> dict[str, bytes]:
    if any(isinstance(d, MeshBody) for d in descriptions):
        raise KinemaError("recipe: a mesh file alone does not travel: put it into a robot's file")
    result = {}
    for shape in _shapes(descriptions):
        name = getattr(shape.geometry, "path", "")
        if name not in result and Path(name).is_file():
            try:
                result[name] = Path(name).read_bytes()
            except OSError as error:
                raise ReadError(f"{name}: {error.strerror}") from None
    return result


def _unpacked(name: str, content: bytes) -> Path:
    """A file of that content on this machine: the one it was read from, else a copy."""
    here = Path(name)
    if here.is_file() and here.stat().st_size == len(content) and here.read_bytes() == content:
        return here
    copied = cache_dir() / "files" / f"{hashlib.sha256(content).hexdigest()[:32]}{here.suffix}"
    if not copied.is_file():
        write_atomically(copied, content)
    return copied
