"""State of a scene: snapshots and their files, keyframes, and resetting environments on the GPU.

A snapshot contains all arrays that a step reads (state, controls, parameters), control modes and gains, so that the
simulation continues bit for bit. Files are `.npz` archives without pickled objects.
"""

from __future__ import annotations

import io
import os
import tempfile
import zipfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from numbers import Integral
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError, make_parent_folder, matrix_to_quaternion
from kinema.dynamics import ARRAYS, ATTACHMENT_ARRAYS, INVWEIGHT_PARAMETERS, ArrayUse, initial_values
from kinema.model import SERVO_STATES, KeyframesInfo, Model
from kinema.runtime import Arena, torch_module

from .arguments import IndexArray, resolve_envs
from .built_scene import BuiltScene

# -------------------------------------------------------------------------------------------------- snapshots

STATE_FORMAT = "kinema state 2"
"""Format identifier of state files."""
SHARED_PREFIX = "shared "
"""Prefix of the names of arrays that all environments share."""
GROWING_ARRAYS = frozenset(info.name for info in ATTACHMENT_ARRAYS)
"""Arrays to which a rebuilt scene may append elements."""
CONTROL_PREFIX = "control "
"""Prefix of the names of arrays of control modes and gains."""


@dataclass(frozen=True, slots=True, eq=False)
class SceneState:
    """Snapshot of a scene from which the simulation continues bit for bit: state, controls and parameters."""

    model_key: str
    """Digest of the model and settings; must equal that of the scene it is restored to."""
    n_envs: int
    """Number of environments in the snapshot."""
    step_count: int
    """Number of substeps taken."""
    sim_time: float
    """Simulated time [s]."""
    dt: float
    """Duration of one substep [s]."""
    arrays: Mapping[str, np.ndarray]
    """Arrays by name, (elements, n_envs); (elements, 1) if shared by all environments."""

    def save(self, path: str | os.PathLike[str]) -> None:
        """Write the snapshot to an `.npz` file atomically (temporary file and rename); its folder is created.

        Args:
            path: path of the file.
        """
        times = [float(self.sim_time).hex(), float(self.dt).hex()]
        header = np.array([STATE_FORMAT, self.model_key, str(self.n_envs), str(self.step_count), *times])
        stream = io.BytesIO()
        np.savez(stream, allow_pickle=False, **{"about": header, **self.arrays})  # type: ignore[arg-type]
        target = Path(path)
        make_parent_folder(target)
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
        """Read a snapshot; raises `KinemaError` if the file is missing, truncated or not a state file.

        Args:
            path: path of the file.
        """
        try:
            file = np.load(io.BytesIO(Path(path).read_bytes()), allow_pickle=False)
            if not isinstance(file, np.lib.npyio.NpzFile):
                raise KinemaError(f'{path}: the array is no "{STATE_FORMAT}"')
            with file:
                arrays = {name: file[name] for name in file.files}
        except OSError as error:
            raise KinemaError(f"{path}: cannot be read: {error.strerror or error}") from None
        except (ValueError, KeyError, EOFError, zipfile.BadZipFile, NotImplementedError) as error:
            raise KinemaError(f"{path}: not a state file, or incomplete: {error}") from None
        header = [str(x) for x in np.atleast_1d(arrays.pop("about", np.zeros(0)))]
        if len(header) != 6 or header[0] != STATE_FORMAT:
            raise KinemaError(f'{path}: the arrays are no "{STATE_FORMAT}"')
        n_envs, step_count, sim_time, dt = (
            int(header[2]),
            int(header[3]),
            float.fromhex(header[4]),
            float.fromhex(header[5]),
        )
        return cls(header[1], n_envs, step_count, sim_time, dt, arrays)


def snapshot_state(built: BuiltScene, envs_idx: Any = None) -> SceneState:
    """Snapshot of the current state of a built scene, of all environments (envs_idx None) or some."""
    envs = resolve_envs(envs_idx, built.n_envs)
    engine, controls = built.engine, built.controls
    engine.update_derived_parameters()
    arrays: dict[str, np.ndarray] = {}
    for name, array, shared in _engine_arrays(built):
        arrays[f"{SHARED_PREFIX}{name}" if shared else name] = np.array(
            array if shared or envs is None else array[:, envs]
        )
    arrays[f"{CONTROL_PREFIX}modes"] = np.array(_control_modes(built, envs))
    arrays[f"{CONTROL_PREFIX}given"] = controls.gains.user_set.copy()
    arrays |= {f"{CONTROL_PREFIX}{name}": values.copy() for name, values in built.arrays.dof_parameters.items()}
    count = built.n_envs if envs is None else len(envs)
    return SceneState(built.model_key, count, engine.step_count, engine.sim_time, engine.dt, arrays)


def restore_state(built: BuiltScene, state: SceneState, envs_idx: Any = None) -> None:
    """Restore a snapshot in all environments (None) or some.

    Shared parameters, control modes and the time are restored only if all environments are; otherwise the control modes
    must already be equal. Raises `KinemaError` if the snapshot is incompatible.

    Args:
        built: the built scene.
        state: the snapshot; that of one environment is copied to all selected ones.
        envs_idx: environments; None for all.
    """
    if not isinstance(state, SceneState):
        raise KinemaError(f"set_state: expected a SceneState of get_state, not {type(state).__name__}")
    envs = resolve_envs(envs_idx, built.n_envs)
    restores_all = envs is None and state.n_envs == built.n_envs
    _check_compatible(built, state, built.n_envs if envs is None else len(envs))
    if restores_all:
        _restore_controls(built, state)
    elif (_control_modes(built, envs) != state.arrays[f"{CONTROL_PREFIX}modes"]).any():
        raise KinemaError("set_state: the state has other control modes: restore all environments")
    built.engine.masses_changed = False  # derived parameters are part of the state
    for name, array, shared in _engine_arrays(built):
        if shared and restores_all:
            array[:] = state.arrays[f"{SHARED_PREFIX}{name}"]
        elif not shared:
            array[:, slice(None) if envs is None else envs] = state.arrays[name]
        if not built.engine.device.is_cpu and array.size:
            built.engine.array_view(name).assign(array)
    if restores_all:
        _set_clock(built, state)
    built.engine.mark_modified()


def transfer_state(built: BuiltScene, state: SceneState) -> None:
    """Restore a snapshot in a rebuilt scene, with other parameters per environment than the scene of the snapshot.

    Arrays that both have are copied; parameters that became per-environment are copied to all environments. Arrays of
    attachments and suction cups may have grown at their end.
    """
    _restore_controls(built, state)
    for name, array, shared in _engine_arrays(built):
        values = state.arrays.get(f"{SHARED_PREFIX}{name}", state.arrays.get(name))
        count = len(values) if values is not None and name in GROWING_ARRAYS else len(array)
        if values is not None and len(values) == count and array.size:
            array[:count] = values if not shared else values[:, :1]
            if not built.engine.device.is_cpu:
                built.engine.array_view(name).assign(array)
    _set_clock(built, state)
    built.engine.masses_changed = bool(INVWEIGHT_PARAMETERS & built.engine.settings.per_env)
    built.engine.mark_modified()


def _engine_arrays(built: BuiltScene) -> list[tuple[str, np.ndarray, bool]]:
    """All arrays that a step reads: name, array (elements, n_envs or 1), and whether environments share it.

    The array is a view on a CPU and a host copy on a GPU.
    """
    engine = built.engine
    return [
        (name, built.arrays.get(name), arena is engine.uniform)
        for arena in (engine.state, engine.controls, engine.uniform)
        for name in arena.layout.rows
    ]


def _set_clock(built: BuiltScene, state: SceneState) -> None:
    engine = built.engine
    engine.dt, engine.step_count = state.dt, state.step_count
    engine.set_time(state.sim_time)


def _control_modes(built: BuiltScene, envs: IndexArray | None = None) -> np.ndarray:
    """Control modes, (n_dofs, 1), or (n_dofs, environments) if they differ between environments."""
    controls = built.controls
    if controls.modes_per_env is None:
        return controls.modes[:, None]
    return controls.modes_per_env if envs is None else controls.modes_per_env[:, envs]


def _restore_controls(built: BuiltScene, state: SceneState) -> None:
    """Restore dof parameters, control modes and gain flags of a snapshot."""
    for name, values in built.arrays.dof_parameters.items():
        values[:] = state.arrays[f"{CONTROL_PREFIX}{name}"]
    built.controls.restore(state.arrays[f"{CONTROL_PREFIX}modes"], state.arrays[f"{CONTROL_PREFIX}given"])


def _check_compatible(built: BuiltScene, state: SceneState, n_envs: int) -> None:
    """Raise `KinemaError` if a snapshot cannot be restored: other model, environment count, arrays, shapes or types.

    Args:
        built: the built scene.
        state: the snapshot.
        n_envs: number of environments to restore.
    """
    if state.model_key != built.model_key:
        raise KinemaError(
            "set_state: this is the state of another model: robots, integrator, precision or constraints differ "
            f"(key {state.model_key[:12]}, this scene's is {built.model_key[:12]})"
        )
    if state.n_envs not in (1, n_envs):
        raise KinemaError(f"set_state: the state has {state.n_envs} environments, but {n_envs} are selected")
    own_arrays = {f"{SHARED_PREFIX}{name}" if shared else name: array for name, array, shared in _engine_arrays(built)}
    state_arrays = {name: array for name, array in state.arrays.items() if not name.startswith(CONTROL_PREFIX)}
    for name in sorted(own_arrays.keys() ^ state_arrays.keys()):
        owner = "this scene" if name in own_arrays else "the state"
        parameter = name.removeprefix(SHARED_PREFIX)
        raise KinemaError(
            f"set_state: only {owner} has {parameter} per environment, or as an input: build both with the same "
            "per_env and external_forces"
        )
    for name, array in own_arrays.items():
        values = state_arrays[name]
        if values.shape[:1] != array.shape[:1] or values.dtype != array.dtype or values.ndim != 2:
            raise KinemaError(f"set_state: {name} has the shape {values.shape}, not {array.shape}")


# ---------------------------------------------------------------------------------------------------- keyframes


@dataclass(frozen=True, slots=True, eq=False)
class KeyframeState:
    """State of one environment from keyframes: coordinates, velocities, controls and activations of all entities."""

    qpos: Array
    """(n_qs,)"""
    qvel: Array
    """(n_dofs,)"""
    ctrl: Array
    """(n_actuators,)"""
    act: Array
    """(n_actuators,)"""
    servo_state: Array
    """States of PID controllers and DC motors, flat, (5 n_actuators,)."""
    kinematic_pose: Array
    """Positions and quaternions of the kinematic bodies, flat, (7 n_bodies,)."""
    unsupported: list[str]
    """Messages about unsupported content of the keyframes."""


def keyframe_state(model: Model, keyframe: Any) -> KeyframeState:
    """State of one environment: entities that have the keyframe take its values, all others their initial state.

    Args:
        model: the model.
        keyframe: name of a keyframe, or its index within each entity.
    """
    keyframes = model.keyframes
    selected = _keyframe_rows(keyframes, keyframe, [e.name for e in model.entities])
    qpos, qvel = model.qpos0.copy(), np.zeros(model.n_dofs)
    ctrl, act = np.zeros(model.n_actuators), np.zeros(model.n_actuators)
    servo_state = np.zeros((model.n_actuators, len(SERVO_STATES)))
    frames = model.frames
    initial = [[*frames.pos[f], *matrix_to_quaternion(frames.rot[f])] for f in model.kinematic_frames]
    kinematic_pose = np.array(initial).reshape(-1, 7)
    unsupported: list[str] = []
    for row in selected:
        entity = model.entities[int(keyframes.entity_idx[row])]
        for values, rows, (start, end) in (
            (qpos, keyframes.qpos, (entity.q_start, entity.q_end)),
            (qvel, keyframes.qvel, (entity.dof_start, entity.dof_end)),
            (ctrl, keyframes.ctrl, (entity.actuator_start, entity.actuator_end)),
            (act, keyframes.act, (entity.actuator_start, entity.actuator_end)),
            (servo_state, keyframes.servo_state, (entity.actuator_start, entity.actuator_end)),
        ):
            values[start:end] = rows[row, start:end]
        frames_of_entity = set(model.links.frame_idx[entity.link_start : entity.link_end].tolist())
        for body, frame in enumerate(model.kinematic_frames):
            if frame in frames_of_entity:
                kinematic_pose[body] = keyframes.kinematic_pose[row, body]
        if keyframes.unsupported[row]:
            unsupported.append(f'keyframe "{keyframes.names[row]}" of "{entity.name}": {keyframes.unsupported[row]}')
    return KeyframeState(qpos, qvel, ctrl, act, servo_state.ravel(), kinematic_pose.ravel(), unsupported)


def _keyframe_rows(keyframes: KeyframesInfo, keyframe: Any, entity_names: Sequence[str]) -> list[int]:
    """Rows of the keyframe table selected by name, or by index within each entity; at most one per entity.

    Raises `KinemaError` listing the keyframes if no entity has it.
    """
    if isinstance(keyframe, bool | np.bool_) or not isinstance(keyframe, str | Integral):
        raise KinemaError(f"reset: a keyframe is selected by name or index, not {keyframe!r}")
    row_of_entity: dict[int, int] = {}
    n_keyframes = dict.fromkeys(range(len(entity_names)), 0)
    for row, (name, entity) in enumerate(zip(keyframes.names, keyframes.entity_idx.tolist(), strict=True)):
        if name == keyframe if isinstance(keyframe, str) else n_keyframes[entity] == keyframe:
            row_of_entity.setdefault(entity, row)
        n_keyframes[entity] += 1
    if not row_of_entity:
        listed = [
            f"{', '.join(n for n, e in zip(keyframes.names, keyframes.entity_idx, strict=True) if e == i)} ({name!r})"
            for i, name in enumerate(entity_names)
            if n_keyframes[i]
        ]
        raise KinemaError(f"reset: there is no keyframe {keyframe!r}; the keyframes are: {'; '.join(listed) or 'none'}")
    return list(row_of_entity.values())


# ---------------------------------------------------------------------------------------------- reset on a GPU

ArrayRows = tuple[Arena, int, int, str]
"""Location of an array: arena, first row, number of rows, name."""


def reset_on_gpu(built: BuiltScene, envs_idx: Any, state: KeyframeState | None = None, keyframe: object = None) -> None:
    """Reset state and commands of environments to their initial values, or to a keyframe, without transfer to the host.

    The initial values are kept on the GPU, by keyframe and version of the control modes.

    Args:
        built: the built scene.
        envs_idx: CUDA tensor of environment indices, or a boolean mask (n_envs,); the mask needs no synchronization.
        state: keyframe state; None for the initial state.
        keyframe: name or index of the keyframe, key of the cache.
    """
    built.engine.mark_modified()
    key = (keyframe, built.controls.version)
    if key not in built.reset_tensors:
        built.reset_tensors = {k: v for k, v in built.reset_tensors.items() if k[1] == built.controls.version}
        built.reset_tensors[key] = list(_reset_blocks(built, _initial_arrays(built, state)))
    for target, initial in built.reset_tensors[key]:
        _reset_columns(target, initial, envs_idx)


def _reset_blocks(built: BuiltScene, initial: Mapping[str, np.ndarray]) -> Iterator[tuple[Any, Any]]:
    """Pairs of a target tensor in device memory and the initial values (rows, 1 or n_envs) to copy to it.

    Arrays adjacent in memory are merged into one pair.

    Args:
        built: the built scene.
        initial: initial values by array name, (elements, 1 or n_envs).
    """
    arrays, arenas = built.arrays, (built.engine.state, built.engine.controls)
    locations = [
        (arena, *arena.layout.rows[name], name) for arena in arenas for name in initial if name in arena.layout.rows
    ]
    locations.sort(key=lambda location: (location[0].layout.name, location[1]))
    for run in _contiguous_runs(locations, lambda name: initial[name].shape[1]):
        arena, start = run[0][:2]
        target = arena.rows(start, sum(count for _, _, count, _ in run)).to_torch()
        yield target, arrays.device_constant(np.concatenate([initial[name] for *_, name in run]))


def _contiguous_runs(arrays: Sequence[ArrayRows], n_columns: Callable[[str], int]) -> Iterator[list[ArrayRows]]:
    """Split sorted arrays into runs that are contiguous in one arena and whose initial values have as many columns.

    Args:
        arrays: locations, sorted by arena and first row.
        n_columns: number of columns of the initial values of an array, by name.
    """
    run: list[ArrayRows] = []
    for location in arrays:
        arena, start, _, name = location
        if run:
            last_arena, last_start, count, other = run[-1]
            if last_arena is not arena or last_start + count != start or n_columns(other) != n_columns(name):
                yield run
                run = []
        run.append(location)
    if run:
        yield run


def _initial_arrays(built: BuiltScene, state: KeyframeState | None) -> dict[str, np.ndarray]:
    """Initial values of all state and command arrays by name, (elements, 1), or (elements, n_envs).

    Args:
        built: the built scene.
        state: keyframe state; None for the initial state of the model.
    """
    model, settings = built.model, built.engine.settings
    initial = {info.name: initial_values(info, model, settings) for info in ARRAYS if info.use is ArrayUse.STATE}
    if state is None:
        initial |= built.controls.initial_commands()
    else:
        initial |= {"qpos": state.qpos[:, None], "vel": state.qvel[:, None], "act": state.act[:, None]}
        initial |= {"servo_state": state.servo_state[:, None]}
        initial |= dict.fromkeys(("kinematic_pose", "kinematic_target"), state.kinematic_pose[:, None])
        initial |= built.controls.initial_commands(None, state.qpos, state.ctrl)
    if settings.external_forces:
        initial |= {name: np.zeros((3 * model.n_links, 1)) for name in ("cfrc_applied_ang", "cfrc_applied_vel")}
    return {name: values.astype(built.arrays.dtype) for name, values in initial.items() if built.arrays.has(name)}


def _reset_columns(target: Any, initial: Any, envs_idx: Any) -> None:
    """Copy initial values to the columns of the selected environments (CUDA index tensor or boolean mask), in place."""
    torch = torch_module()
    if envs_idx.dtype == torch.bool:
        torch.where(envs_idx, initial, target, out=target)
    elif initial.shape[1] == 1:
        target[:, envs_idx] = initial.expand(-1, len(envs_idx))
    else:
        target[:, envs_idx] = initial[:, envs_idx]
