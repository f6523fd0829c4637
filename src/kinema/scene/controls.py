"""Who moves each degree of freedom: its file's actuators, or the user by force, velocity or position."""

from __future__ import annotations

from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.foundation import Array, Diagnostics, KinemaError
from kinema.model import Model
from kinema.sim import Control

from .batches import Index
from .gains import GAINS, DefaultGains, Mask
from .memory import Memory

Modes = npt.NDArray[np.int8]


def first_modes(model: Model) -> Modes:
    """What the files say: their actuators where these pull, drives where there are any, else no force."""
    dofs = model.dofs
    modes = np.full(model.n_dofs, Control.FORCE, dtype=np.int8)
    modes[dofs.kv != 0.0] = Control.VELOCITY
    modes[(dofs.kp != 0.0) & (dofs.q_idx >= 0)] = Control.POSITION
    modes[(model.actuators.moment != 0.0).any(axis=0)] = Control.ACTUATOR
    return modes


class Controls:
    """The mode of each degree of freedom, the same in all environments as long as that is so, and its command."""

    def __init__(self, model: Model, memory: Memory, gains: DefaultGains, diagnostics: Diagnostics) -> None:
        self.model = model
        self.memory = memory
        self.gains = gains
        self.diagnostics = diagnostics
        self.start = first_modes(model)
        self._pulled = (model.actuators.moment != 0.0).any(axis=0)
        self.modes = self.start.copy()
        self.mixed: Modes | None = None
        """(n_dofs, n_envs) where environments differ."""
        self.version = 0
        """Another one after each change of who moves what."""
        self.changed = True
        """Whether another program may be needed than the last one: from actuators to commands, or to environments
        that differ in what commands mean."""
        self._apply()
        self.reset(None)

    def reset(self, envs: Index | None, qpos: Array | None = None, ctrl: Array | None = None) -> None:
        """Commands as they were at the start: the file's targets, else no force, no speed, the start position.

        Args:
            envs: which environments; None for all.
            qpos: the coordinates that are the start position; None for the model's.
            ctrl: what actuators are told; None for zero.
        """
        n_envs = self.memory.n_envs if envs is None else len(envs)
        for name, values in self.first_commands(envs, qpos, ctrl).items():
            self.memory.write(name, slice(None), np.broadcast_to(values.T, (n_envs, len(values))), envs)

    def first_commands(
        self, envs: Index | None = None, qpos: Array | None = None, ctrl: Array | None = None
    ) -> dict[str, np.ndarray]:
        """What `reset` tells: arrays (items, 1), or (items, environments) where these differ."""
        modes = self.modes[:, None]
        if self.mixed is not None:
            modes = self.mixed if envs is None else self.mixed[:, envs]
        dofs, q0 = self.model.dofs, self.model.qpos0 if qpos is None else qpos
        told = np.zeros(self.model.n_actuators) if ctrl is None else ctrl
        place = np.array([q0[i] if i >= 0 else 0.0 for i in dofs.q_idx])
        targets = np.where(self.start == Control.POSITION, dofs.target_pos, place)
        speeds = np.where(self.start == Control.VELOCITY, dofs.target_vel, 0.0)
        command = np.where(modes == Control.POSITION, targets[:, None], 0.0)
        command = np.where(modes == Control.VELOCITY, speeds[:, None], command)
        return {"command": command, "ctrl": told[:, None]}

    def tell(self, mode: Control, dofs: Index, values: Any, envs: Any) -> None:
        """Command some degrees of freedom, in all environments or some: values (environments, degrees of freedom)."""
        self._become(mode, dofs, envs)
        if isinstance(values, np.ndarray):
            self.memory.write("command", dofs, values, envs)
        else:
            self.memory.on_device("command", dofs, values, envs)

    def _become(self, mode: Control, dofs: Index, envs: Any) -> None:
        """Have degrees of freedom controlled so, everywhere or in some environments, as far as they are not already."""
        if self.mixed is None and self._is(mode, dofs, None):
            return
        known = envs.cpu().numpy() if hasattr(envs, "cpu") else envs  # who moves what is known here, not on a GPU
        if not self._is(mode, dofs, known):
            every = known is None or len(np.unique(known)) == self.memory.n_envs
            self._switch(mode, dofs, None if every else known)

    def _is(self, mode: Control, dofs: Index, envs: Index | None) -> bool:
        number = int(mode)  # comparing with an enumeration is slow, and this is asked before every step
        if self.mixed is None:
            return bool((self.modes[dofs] == number).all())
        now = self.mixed[dofs] if envs is None else self.mixed[dofs[:, None], envs]
        return bool((now == number).all())

    def _switch(self, mode: Control, dofs: Index, envs: Index | None) -> None:
        if mode is Control.POSITION:
            self._refuse_quaternions(dofs)
        self.gains.ensure(mode, dofs)
        if envs is None:
            self.modes[dofs] = mode
            if self.mixed is not None:
                self.mixed[dofs] = mode
                if (self.mixed == self.mixed[:, :1]).all():
                    self.modes, self.mixed = self.mixed[:, 0].copy(), None
        else:
            self._switch_some(mode, dofs, envs)
        self._note_silenced(dofs)
        self._apply()

    def _note_silenced(self, dofs: Index) -> None:
        """An actuator that pulls on several joints stops when one of them is taken over."""
        pulls = self.model.actuators.moment != 0.0
        left = (self.modes[:, None] if self.mixed is None else self.mixed) == Control.ACTUATOR
        for a in np.flatnonzero(pulls[:, dofs].any(axis=1)):
            own = left[pulls[a]]
            code, names = "scene.actuator-stopped", self.model.actuators.names
            message = f'actuator "{names[a]}" no longer pulls: one of the joints that it moves is controlled otherwise'
            stopped = bool((own.any(axis=0) & ~own.all(axis=0)).any())
            if stopped and not any(d.code == code and d.message == message for d in self.diagnostics):
                self.diagnostics.note(code, message)

    def _switch_some(self, mode: Control, dofs: Index, envs: Index) -> None:
        """From now on environments may differ, and the mode is read from an array."""
        if self.mixed is None:
            self.mixed = np.repeat(self.modes[:, None], self.memory.n_envs, axis=1)
            for asked in (Control.POSITION, Control.VELOCITY):  # any may be asked for without another program
                able = (self.model.dofs.q_idx >= 0) | (asked is Control.VELOCITY)
                self.gains.ensure(asked, np.flatnonzero(able), silently=True)
        self.mixed[dofs[:, None], envs] = mode

    def _refuse_quaternions(self, dofs: Index) -> None:
        for dof in dofs[self.model.dofs.q_idx[dofs] < 0]:
            raise KinemaError(
                f'"{self.model.dofs.names[dof]}" turns a quaternion and has no position of its own: control it by '
                "velocity or force"
            )

    def ensure_gains(self, mode: Control, dofs: Index) -> None:
        """Gains for control to come: where neither file nor user gave any, those that it would begin with."""
        able = dofs[self.model.dofs.q_idx[dofs] >= 0] if mode is Control.POSITION else dofs
        self.gains.ensure(mode, able)
        self._apply()

    def was_set(self, name: str, dofs: slice | Index) -> None:
        """Say that the user has set a parameter of degrees of freedom."""
        if name in GAINS:
            self.gains.given[GAINS.index(name), dofs] = True
            self._apply()

    def restore(self, modes: Modes, given: Mask) -> None:
        """Control as it was: modes (n_dofs, 1), or (n_dofs, n_envs) where environments differ."""
        self.gains.given[:] = given
        self.modes = modes[:, 0].copy()
        self.mixed = None if modes.shape[1] == 1 else modes.copy()
        self._apply()

    def _apply(self) -> None:
        """Tell the engine."""
        engine = self.memory.engine
        self.version += 1
        before = engine.settings
        engine.set_control([Control(int(m)) for m in self.modes] if self.mixed is None else self.mixed)
        self.changed = self.changed or engine.settings != before

    def to_actuators(self, dofs: Index, envs: Any = None) -> None:
        """Give degrees of freedom back to the actuators of their file that pull on them, everywhere or somewhere."""
        own = dofs[self._pulled[dofs]]
        if len(own):
            self._become(Control.ACTUATOR, own, envs)
