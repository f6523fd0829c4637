"""The state of a scene as plain arrays: kept in memory or in a file, and refused where it does not belong."""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .batches import Index, environments
from .running import Running

FORMAT = "kinema state 2"
SHARED = "shared "
"""Before the names of arrays that all environments have in common."""
CONTROL = "control "
"""Before those that say who moves what."""
OF_MODEL = ("kp", "kv", "lower", "upper")
"""What setters change in the models as well, because others start from there: (variants, n_dofs)."""


@dataclass(frozen=True, slots=True, eq=False)
class SceneState:
    """Everything that a scene goes on from, bit for bit: what it is in, what it is told, and its parameters."""

    key: str
    """Of the model that it is a state of."""
    n_envs: int
    time: int
    """Steps taken, substeps counted."""
    seconds: float
    """Simulated time [s]."""
    dt: float
    """The time of one substep [s]."""
    arrays: Mapping[str, np.ndarray]
    """(items, n_envs); those that environments share (items, 1)."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write it to a file of plain arrays (`.npz`, no pickles), whole or not at all."""
        about = np.array([FORMAT, self.key, str(self.n_envs), str(self.time), self.seconds.hex(), self.dt.hex()])  # ty: ignore[missing-union-attribute]
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **{"about": about, **self.arrays})  # type: ignore[arg-type]
        target = Path(path)
        try:
            handle, name = tempfile.mkstemp(dir=target.parent)
        except OSError as error:
            raise KinemaError(f"{target}: cannot be written: {error.strerror}") from None
        try:
            with os.fdopen(handle, "wb") as file:
                file.write(stream.getvalue())
            Path(name).replace(target)
        except OSError as error:
            Path(name).unlink(missing_ok=True)
            raise KinemaError(f"{target}: cannot be written: {error.strerror}") from None

    @classmethod
    def load(cls, path: str | os.PathLike[str]) -> SceneState:
        """Read one back; a file that is cut off, changed or something else is refused."""
        try:
            file = np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise KinemaError(f'{path}: this array is no "{FORMAT}"')
            with file:
                arrays = {name: file[name] for name in file.files}
        except OSError as error:
            raise KinemaError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
            raise KinemaError(f"{path}: this is no state, or only part of one: {error}") from None
        about = [str(x) for x in np.atleast_1d(arrays.pop("about", np.zeros(0)))]
        if len(about) != 6 or about[0] != FORMAT:
            raise KinemaError(f'{path}: these arrays are no "{FORMAT}"')
        n_envs, time, seconds, dt = int(about[2]), int(about[3]), float.fromhex(about[4]), float.fromhex(about[5])
        return cls(about[1], n_envs, time, seconds, dt, arrays)


def state_of_scene(running: Running, envs_idx: Any = None) -> SceneState:
    """What the scene is in now, in all environments or some."""
    envs = environments(envs_idx, running.n_envs)
    engine, controls = running.engine, running.controls
    engine.settle()
    arrays: dict[str, np.ndarray] = {}
    for name, array, shared in _arrays(running):
        arrays[f"{SHARED}{name}" if shared else name] = np.array(array if shared or envs is None else array[:, envs])
    arrays[f"{CONTROL}modes"] = np.array(_modes(running, envs))
    arrays[f"{CONTROL}given"] = controls.gains.given.copy()
    for name in OF_MODEL:
        arrays[f"{CONTROL}{name}"] = np.stack([getattr(model.dofs, name) for model in engine.variants.models])
    count = running.n_envs if envs is None else len(envs)
    return SceneState(running.key, count, engine.time, engine.seconds, engine.dt, arrays)


def restore(running: Running, state: SceneState, envs_idx: Any = None) -> None:
    """Go on from a state: as a whole, or some environments from those of the state (one of which serves all)."""
    if not isinstance(state, SceneState):
        raise KinemaError(f"set_state: expected what get_state gave, not {type(state).__name__}")
    envs = environments(envs_idx, running.n_envs)
    whole = envs is None and state.n_envs == running.n_envs
    _refuse_foreign(running, state, running.n_envs if envs is None else len(envs))
    if whole:
        _restore_controls(running, state)
    elif (_modes(running, envs) != state.arrays[f"{CONTROL}modes"]).any():
        raise KinemaError("set_state: joints were controlled in another way in that state: restore all environments")
    running.engine.masses_changed = False  # what follows from them is in the state as well
    for name, array, shared in _arrays(running):
        if shared and whole:
            array[:] = state.arrays[f"{SHARED}{name}"]
        elif not shared:
            array[:, slice(None) if envs is None else envs] = state.arrays[name]
        if not running.engine.device.is_cpu and array.size:
            running.engine.field(name).assign(array)
    if whole:
        _set_clock(running, state)
    running.engine.touch()


def transfer(running: Running, state: SceneState) -> None:
    """Go on from a state of the same scene whose program had other inputs: those that both have are taken over."""
    _restore_controls(running, state)
    for name, array, shared in _arrays(running):
        found = state.arrays.get(f"{SHARED}{name}", state.arrays.get(name))
        if found is not None and len(found) == len(array) and array.size:
            array[:] = found if not shared else found[:, :1]
            if not running.engine.device.is_cpu:
                running.engine.field(name).assign(array)
    _set_clock(running, state)
    running.engine.masses_changed = True
    running.engine.touch()


def _arrays(running: Running) -> list[tuple[str, np.ndarray, bool]]:
    """All arrays that a step reads: name, memory (a copy of it on a GPU), whether environments share it."""
    engine = running.engine
    return [
        (name, running.memory.all(name), arena is engine.uniform)
        for arena in (engine.state, engine.told, engine.uniform)
        for name in arena.layout.rows
    ]


def _set_clock(running: Running, state: SceneState) -> None:
    engine = running.engine
    engine.dt, engine.time, engine.seconds = state.dt, state.time, state.seconds


def _modes(running: Running, envs: Index | None = None) -> np.ndarray:
    """Who moves what: (n_dofs, 1), or (n_dofs, environments) where these differ."""
    controls = running.controls
    if controls.mixed is None:
        return controls.modes[:, None]
    return controls.mixed if envs is None else controls.mixed[:, envs]


def _restore_controls(running: Running, state: SceneState) -> None:
    for name in OF_MODEL:
        for model, own in zip(running.engine.variants.models, state.arrays[f"{CONTROL}{name}"], strict=True):
            getattr(model.dofs, name)[:] = own
    running.controls.restore(state.arrays[f"{CONTROL}modes"], state.arrays[f"{CONTROL}given"])


def _refuse_foreign(running: Running, state: SceneState, count: int) -> None:
    """Raise with the reason where a state is not one of this scene."""
    if state.key != running.key:
        raise KinemaError(
            "set_state: this is the state of another model: robots, integrator, precision or constraints differ "
            f"(key {state.key[:12]}, this scene's is {running.key[:12]})"
        )
    if state.n_envs not in (1, count):
        raise KinemaError(f"set_state: the state has {state.n_envs} environments, to be put into {count}")
    here = {f"{SHARED}{name}" if shared else name: array for name, array, shared in _arrays(running)}
    there = {name: array for name, array in state.arrays.items() if not name.startswith(CONTROL)}
    for name in sorted(here.keys() ^ there.keys()):
        which = "this scene" if name in here else "the state"
        plain = name.removeprefix(SHARED)
        raise KinemaError(
            f"set_state: only {which} has its own {plain} in each environment, or a place for it: build both alike "
            "(per_env, external_forces)"
        )
    for name, array in here.items():
        found = there[name]
        if found.shape[:1] != array.shape[:1] or found.dtype != array.dtype or found.ndim != 2:
            raise KinemaError(f"set_state: {name} has the shape {found.shape}, not {array.shape}")
