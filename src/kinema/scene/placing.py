"""Where an entity is and how it moves: coordinates and velocities, read and set."""

from __future__ import annotations

from typing import Any

import numpy as np

from kinema.foundation import KinemaError, quaternion_products, quaternions_of, rotation_vectors
from kinema.model import Model, Motion

from .arguments import flag
from .batches import Index, batched, environments, items
from .parameters import Parameters
from .running import Running


class Placing(Parameters):
    """The part of an entity that has a state."""

    joints: list[Any]

    @property
    def actuator_names(self) -> list[str]:
        """In the order of `control`."""
        return list(self._alone.actuators.names)

    # ---------------------------------------------------------------------------------------------- coordinates

    def get_qpos(self, envs_idx: Any = None, qs_idx: Any = None) -> Any:
        """Coordinates [m, rad], (n_envs, n_qs)."""
        rows = self.info.q_start + self._qs(qs_idx, "get_qpos") if qs_idx is not None else self._all_qs
        return self._state("qpos", rows, envs_idx)

    def get_qvel(self, envs_idx: Any = None) -> Any:
        """Velocities [m/s, rad/s], (n_envs, n_dofs)."""
        return self._state("vel", slice(self.info.dof_start, self.info.dof_end), envs_idx)

    def set_qpos(self, qpos: Any, envs_idx: Any = None, qs_idx: Any = None, *, zero_velocity: bool = False) -> None:
        """Put it there; quaternions are normalised. Numbers that are none are taken, and flagged by the next step.

        Args:
            qpos: coordinates [m, rad], (n_envs, n_qs), or of those that `qs_idx` names.
            envs_idx: which environments; None for all.
            qs_idx: which coordinates, by number; whole quaternions only.
            zero_velocity: whether it is at rest then.
        """
        own = self._qs(qs_idx, "set_qpos")
        running, envs = self._running, self._running.outputs.envs(envs_idx)
        places = _quaternions(self._alone, own)
        rows = self.info.q_start + own
        if running.outputs.is_there(qpos):
            running.memory.on_device("qpos", rows, _normalised_there(qpos, places), envs)
        else:
            q, envs = self._batch(qpos, len(own), envs_idx, "set_qpos")
            running.memory.write("qpos", rows, _normalised(q, places), envs)
        if flag(zero_velocity, "zero_velocity"):
            self.zero_all_dofs_velocity(envs_idx)

    def set_qvel(self, qvel: Any, envs_idx: Any = None) -> None:
        """Move it so fast [m/s, rad/s], (n_envs, n_dofs)."""
        self._set_velocity(qvel, None, envs_idx, "set_qvel")

    def get_dofs_position(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Position of each degree of freedom, (n_envs, n); those of a quaternion are its rotation vector [rad]."""
        own = self._dofs(dofs_idx, "get_dofs_position")
        running, coordinates = self._running, self._alone.dofs.q_idx[own].astype(np.intp)
        if (coordinates >= 0).all():
            return self._state("qpos", self.info.q_start + coordinates, envs_idx)
        if not running.outputs.copies:
            source = running.engine.fields.dofs_state.pos
            return running.outputs.pick(source, self.info.dof_start + own, running.outputs.envs(envs_idx))
        return positions_of(self._alone, self.get_qpos(envs_idx))[:, own]

    def get_dofs_velocity(self, dofs_idx: Any = None, envs_idx: Any = None) -> Any:
        """Velocity of each degree of freedom [m/s, rad/s], (n_envs, n)."""
        return self._state("vel", self.info.dof_start + self._dofs(dofs_idx, "get_dofs_velocity"), envs_idx)

    def set_dofs_position(
        self, position: Any, dofs_idx: Any = None, envs_idx: Any = None, *, zero_velocity: bool = False
    ) -> None:
        """Put degrees of freedom there at once [m, rad], (n_envs, n); those of a quaternion as its rotation vector."""
        what = "set_dofs_position"
        own = self._dofs(dofs_idx, what)
        coordinates, running = self._alone.dofs.q_idx[own].astype(np.intp), self._running
        plain = coordinates >= 0
        if running.outputs.is_there(position) and plain.all():
            envs = running.outputs.envs(envs_idx)
            running.memory.on_device("qpos", self.info.q_start + coordinates, position, envs)
        else:
            values, envs = self._batch(position, len(own), envs_idx, what)
            running.memory.write("qpos", self.info.q_start + coordinates[plain], values[:, plain], envs)
            for rows, columns in _balls(self._alone, own, what):
                running.memory.write("qpos", self.info.q_start + rows, quaternions_of(values[:, columns]), envs)
        if flag(zero_velocity, "zero_velocity"):
            self.zero_all_dofs_velocity(envs_idx)

    def set_dofs_velocity(self, velocity: Any, dofs_idx: Any = None, envs_idx: Any = None) -> None:
        """Move degrees of freedom so fast at once [m/s, rad/s], (n_envs, n)."""
        self._set_velocity(velocity, dofs_idx, envs_idx, "set_dofs_velocity")

    def zero_all_dofs_velocity(self, envs_idx: Any = None) -> None:
        """Bring it to rest."""
        self._set_velocity(0.0, None, envs_idx, "zero_all_dofs_velocity")

    def _set_velocity(self, velocity: Any, dofs_idx: Any, envs_idx: Any, what: str) -> None:
        own, running = self._dofs(dofs_idx, what), self._running
        rows = self.info.dof_start + own
        if running.outputs.is_there(velocity):
            running.memory.on_device("vel", rows, velocity, running.outputs.envs(envs_idx))
        else:
            values, envs = self._batch(velocity, len(own), envs_idx, what)
            running.memory.write("vel", rows, values, envs)

    # ------------------------------------------------------------------------------------------------- the base

    def set_pos(self, pos: Any, envs_idx: Any = None, *, zero_velocity: bool = False, relative: bool = False) -> None:
        """Put a base that is free there [m], (n_envs, 3); `relative` counts from where it was added."""
        self._set_base(pos, slice(0, 3), envs_idx, zero_velocity, relative, "set_pos")

    def set_quat(self, quat: Any, envs_idx: Any = None, *, zero_velocity: bool = False, relative: bool = False) -> None:
        """Turn a base that is free (w, x, y, z), (n_envs, 4); `relative` counts from how it was added."""
        self._set_base(quat, slice(3, 7), envs_idx, zero_velocity, relative, "set_quat")

    def _set_base(self, given: Any, part: slice, envs_idx: Any, rest: bool, relative: bool, what: str) -> None:
        joint = next((j for j in self.joints if j.kind == "free"), None)
        if joint is None:
            raise KinemaError(f'{what}: the base of "{self.name}" is held: only one that is free can be put elsewhere')
        own = np.arange(*part.indices(7)) + joint.qs_idx[0]
        if flag(relative, "relative"):
            values, _ = self._batch(given, len(own), envs_idx, what)
            start = self._running.model.qpos0[self.info.q_start + own]
            given = start + values if len(own) == 3 else quaternion_products(values, start)
        self.set_qpos(given, envs_idx, own, zero_velocity=rest)

    # ------------------------------------------------------------------------------------------- actuators' state

    def get_activations(self, actuators_idx: Any = None, envs_idx: Any = None) -> np.ndarray:
        """Activations of the file's actuators, in the order of `control`, (n_envs, n); 0 for those that have none."""
        own = self._actuators(actuators_idx, "get_activations")
        running = self._running
        envs = environments(envs_idx, running.n_envs)
        if not running.model.actuators.has_activation.any():
            return np.zeros((running.n_envs if envs is None else len(envs), len(own)), running.memory.dtype)
        return running.memory.read("act", self.info.actuator_start + own, envs)

    def set_activations(self, activations: Any, actuators_idx: Any = None, envs_idx: Any = None) -> None:
        """Let actuators be so active now, whatever they are told; those that have no activation stay without."""
        own = self._actuators(actuators_idx, "set_activations")
        values, envs = self._batch(activations, len(own), envs_idx, "set_activations")
        has = self._alone.actuators.has_activation[own]
        if has.any():
            rows = self.info.actuator_start + own[has]
            self._running.memory.write("act", rows, values[:, has], envs)

    def get_control(self, actuators_idx: Any = None, envs_idx: Any = None) -> Any:
        """What the file's actuators are told (`control`), (n_envs, n)."""
        own = self._actuators(actuators_idx, "get_control")
        return self._state("ctrl", self.info.actuator_start + own, envs_idx)

    def get_control_range(self, actuators_idx: Any = None) -> tuple[np.ndarray, np.ndarray]:
        """What the file's actuators can be told at least and at most, (n,) each; what is beyond is clamped."""
        own, info = self._actuators(actuators_idx, "get_control_range"), self._alone.actuators
        return info.ctrl_lower[own].copy(), info.ctrl_upper[own].copy()

    # ------------------------------------------------------------------------------------------- what others need

    def _actuators(self, actuators_idx: Any, what: str) -> Index:
        return items(actuators_idx, self.actuator_names, f"{what}: actuators_idx", "actuators")

    @property
    def _all_qs(self) -> slice:
        return slice(self.info.q_start, self.info.q_end)

    def _qs(self, qs_idx: Any, what: str) -> Index:
        names = [str(i) for i in range(self._alone.n_qs)]
        return items(qs_idx, names, f"{what}: qs_idx", "coordinates")

    def _state(self, name: str, rows: slice | Index, envs_idx: Any) -> Any:
        running: Running = self._running
        if not running.outputs.copies:
            running.engine.touch()  # whoever has the memory may write to it
        return running.outputs.pick(running.memory.source(name), rows, running.outputs.envs(envs_idx))

    def _batch(self, values: Any, count: int, envs_idx: Any, what: str) -> tuple[np.ndarray, Index | None]:
        running = self._running
        envs = environments(envs_idx, running.n_envs)
        n_envs = running.n_envs if envs is None else len(envs)
        return batched(values, n_envs, (count,), running.memory.dtype, what), envs


def _quaternions(model: Model, own: Index) -> list[Index]:
    """Where the quaternions are among some coordinates, all of each."""
    frames, places = model.frames, []
    for start in frames.q_start[frames.motion == Motion.BALL]:
        found = np.flatnonzero((own >= start) & (own < start + 4))
        if len(found) not in (0, 4):
            raise KinemaError(f"set_qpos: coordinates {start} to {start + 3} are a quaternion: set all four or none")
        if len(found):
            places.append(found[np.argsort(own[found])])
    return places


def _normalised(q: np.ndarray, places: list[Index]) -> np.ndarray:
    if not places:
        return q
    q = np.array(q)
    for place in places:
        with np.errstate(all="ignore"):  # numbers that are none are taken
            length = np.linalg.norm(q[:, place].astype(np.float64), axis=1, keepdims=True)
        if (length == 0.0).any():
            raise KinemaError(f"set_qpos: coordinates {place[0]} to {place[-1]} are a quaternion of length 0")
        with np.errstate(all="ignore"):
            q[:, place] = q[:, place] / length
    return q


def _normalised_there(q: Any, places: list[Index]) -> Any:
    """The same of a tensor, which is not looked at."""
    q = q.clone() if places else q
    for place in places:
        part = q[:, int(place[0]) : int(place[0]) + 4]
        q[:, int(place[0]) : int(place[0]) + 4] = part / part.norm(dim=1, keepdim=True)
    return q


def _balls(model: Model, own: Index, what: str) -> list[tuple[Index, Index]]:
    """Of each ball among some degrees of freedom its coordinates, and which of the degrees of freedom are its own."""
    frames, found = model.frames, []
    for frame in np.flatnonzero(frames.motion == Motion.BALL):
        first = int(frames.dof_start[frame])
        columns = np.flatnonzero((own >= first) & (own < first + 3))
        if len(columns) not in (0, 3):
            raise KinemaError(f'{what}: "{model.dofs.names[first]}" is one of three that turn together: set all three')
        if len(columns):
            found.append((int(frames.q_start[frame]) + np.arange(4), columns[np.argsort(own[columns])]))
    return found


@np.errstate(all="ignore")
def positions_of(model: Model, qpos: np.ndarray) -> np.ndarray:
    """Coordinates by degree of freedom, quaternions as rotation vectors."""
    frames, dofs = model.frames, model.dofs
    result = np.zeros((len(qpos), model.n_dofs), qpos.dtype)
    plain = dofs.q_idx >= 0
    result[:, plain] = qpos[:, dofs.q_idx[plain]]
    for frame in np.flatnonzero(frames.motion == Motion.BALL):
        q, dof = int(frames.q_start[frame]), int(frames.dof_start[frame])
        result[:, dof : dof + 3] = rotation_vectors(qpos[:, q : q + 4])
    return result
