"""Control modes of the dofs (actuators, force, velocity, position), their commands, and default PD gains.

In position mode the control force is kp (command - q) - kv v, in velocity mode kv (command - v), in force mode the
command itself; in actuator mode the actuators of the file act on the dof. If neither file nor user gives gains, those
of a critically damped oscillator of 2 Hz are used.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array, Diagnostics, KinemaError
from kinema.dynamics import ControlMode, joint_inertias
from kinema.model import Model

from .arguments import IndexArray
from .arrays import SceneArrays

# ------------------------------------------------------------------------------------------- default gains

DEFAULT_NATURAL_FREQUENCY = 2.0
"""Natural frequency of the closed loop with default gains [Hz]."""
GAINS = ("kp", "kv")
FREE_JOINT_DOFS = 6
"""Number of dofs of a free joint."""
BoolArray = npt.NDArray[np.bool_]


class DefaultGains:
    """Default gains kp and kv of dofs for which neither file nor user gives gains: critical damping at 2 Hz.

    For joint-space inertia I (diagonal of the mass matrix in the initial configuration) and w = 2 pi f: kp = I w^2, kv
    = 2 I w. Each variant of a model has its own inertia and gains.
    """

    def __init__(
        self,
        arrays: SceneArrays,
        inertia: Array,
        user_set: BoolArray,
        variant_dofs: IndexArray,
        diagnostics: Diagnostics,
    ) -> None:
        """Store the inputs of the default gains; inertias of further variants are computed on first use.

        Args:
            arrays: arrays of the engine, to which gains are written.
            inertia: diagonal of the mass matrix of the first model in the initial configuration, (n_dofs,).
            user_set: whether the user set kp (row 0) and kv (row 1) before build, bool (2, n_dofs).
            variant_dofs: indices of the dofs of entities that have variants.
            diagnostics: receives notes about default gains.
        """
        self.arrays = arrays
        self.user_set = user_set
        """Whether the user set kp (row 0) and kv (row 1), bool (2, n_dofs)."""
        self.diagnostics = diagnostics
        self._first_inertia = inertia
        self._variant_dofs = variant_dofs
        """Dofs of entities that have variants."""
        self._inertia_table: Array | None = None

    @property
    def dof_inertia(self) -> Array:
        """Diagonal of the mass matrix in the initial configuration [kg, kg m2], (n_variants, n_dofs); cached."""
        if self._inertia_table is None:
            models = self.arrays.engine.variants.models
            self._inertia_table = (
                dof_inertia_per_variant(models, self._first_inertia)
                if len(self._variant_dofs)
                else np.tile(self._first_inertia, (len(models), 1))
            )
        return self._inertia_table

    def ensure(self, mode: ControlMode, dofs: IndexArray, *, quiet: bool = False) -> None:
        """Set default gains of the dofs that have none for a control mode.

        Notes in the diagnostics which dofs got default gains. Raises `KinemaError` if variants need different gains but
        kp and kv are shared by all environments. Modes other than position and velocity need no gains.

        Args:
            mode: control mode that is about to be used.
            dofs: indices of the dofs.
            quiet: neither raise nor report; dofs that would need per-environment gains are skipped.
        """
        if mode not in (ControlMode.POSITION, ControlMode.VELOCITY):
            return
        row = 0 if mode is ControlMode.POSITION else 1
        lacking = [self._dofs_without_gain(values, row, dofs) for values in self.arrays.dof_parameters[GAINS[row]]]
        unresolved = sorted(self._dofs_needing_per_env_gains({d for variant_dofs in lacking for d in variant_dofs}))
        if unresolved and not quiet:
            raise KinemaError(
                f"neither file nor user gives gains for {self._quoted_names(unresolved)}, and variants need different "
                'default gains: use set_dofs_kp and set_dofs_kv, or scene.build(per_env=("kp", "kv"))'
            )
        lacking = [[d for d in variant_dofs if d not in unresolved] for variant_dofs in lacking]
        for variant, variant_dofs in enumerate(lacking):
            self._set_default_gains(variant, row, variant_dofs)
        changed = sorted({d for variant_dofs in lacking for d in variant_dofs})
        if changed and not quiet:
            self.diagnostics.note(
                "scene.default-gains",
                f"neither file nor user gives gains for {self._quoted_names(changed)}: a critically damped "
                f"{DEFAULT_NATURAL_FREQUENCY:g} Hz in the initial configuration is assumed",
                hint="set_dofs_kp and set_dofs_kv before build",
            )

    def _quoted_names(self, dofs: Sequence[int]) -> str:
        return ", ".join(f'"{self.arrays.engine.model.dofs.names[d]}"' for d in dofs)

    def _dofs_without_gain(self, values: Array, gain_row: int, dofs: IndexArray) -> list[int]:
        """Dofs among `dofs` whose gain (row 0: kp, row 1: kv) is zero in `values` and was not set by the user."""
        return [int(d) for d in dofs if values[d] == 0.0 and not self.user_set[gain_row, d]]

    def _dofs_needing_per_env_gains(self, dofs: set[int]) -> set[int]:
        """Dofs whose default gains differ between variants while kp or kv is shared by all environments."""
        if not dofs & set(self._variant_dofs.tolist()) or not any(self.arrays.is_shared(name) for name in GAINS):
            return set()
        return {d for d in dofs if (self.dof_inertia[:, d] != self.dof_inertia[0, d]).any()}

    def _set_default_gains(self, variant: int, gain_row: int, dofs: list[int]) -> None:
        """Compute default gains of dofs of one variant; write them to the arrays of its environments.

        `gain_row` 0 sets kp, and kv if it is zero; row 1 sets kv. The inertia is 1 for acceleration drives.
        """
        variants = self.arrays.engine.variants
        info = variants.models[variant].dofs
        kp, kv = (self.arrays.dof_parameters[name][variant] for name in GAINS)
        changed: dict[str, list[int]] = {"kp": dofs if gain_row == 0 else [], "kv": []}
        for dof in dofs:
            inertia = 1.0 if info.acceleration_drive[dof] else float(self.dof_inertia[variant, dof])
            stiffness = inertia * (2 * math.pi * DEFAULT_NATURAL_FREQUENCY) ** 2
            if kv[dof] == 0.0 and not self.user_set[1, dof]:
                kv[dof] = 2 * math.sqrt(stiffness * inertia)
                changed["kv"].append(dof)
            if gain_row == 0:
                kp[dof] = stiffness
        for name, indices in ((name, indices) for name, indices in changed.items() if indices):
            values = self.arrays.dof_parameters[name][variant, indices][None]
            if self.arrays.is_shared(name) or len(variants.models) == 1:
                self.arrays.write(name, np.array(indices), values)
            else:
                envs = np.flatnonzero(variants.variant_of_env == variant)
                self.arrays.write(name, np.array(indices), np.repeat(values, len(envs), axis=0), envs)


def dof_inertia_per_variant(models: Sequence[Model], first_inertia: Array) -> Array:
    """Diagonal of the mass matrix in the initial configuration of each model, (n_models, n_dofs); row 0 is given."""
    return np.stack([first_inertia, *(np.array(joint_inertias(model)[0].diagonal) for model in models[1:])])


def need_per_env_gains(
    models: Sequence[Model], first_inertia: Array, user_set: BoolArray, variant_dofs: IndexArray
) -> bool:
    """Whether default gains of any dof differ between variants, so that kp and kv must be per-environment parameters.

    Only dofs in `variant_dofs` without gains from file or user count; dofs of free joints are ignored.

    Args:
        models: model of each variant combination.
        first_inertia: diagonal of the mass matrix of the first model, (n_dofs,).
        user_set: whether the user set kp and kv, (2, n_dofs).
        variant_dofs: indices of the dofs of entities with variants.
    """
    if any(model.n_dofs != models[0].n_dofs for model in models):
        return False  # inconsistent variants; reported as an error later
    lacking = ~user_set & np.array([np.any([getattr(m.dofs, name) == 0.0 for m in models], axis=0) for name in GAINS])
    joints = models[0].joints
    for start, end in zip(joints.dof_start.tolist(), joints.dof_end.tolist(), strict=True):
        if end - start == FREE_JOINT_DOFS:
            lacking[:, start:end] = False
    missing = np.intersect1d(variant_dofs, np.flatnonzero(lacking.any(axis=0)))
    if not len(missing):
        return False
    table = dof_inertia_per_variant(models, first_inertia)[:, missing]
    return bool((table != table[0]).any())


# ------------------------------------------------------------------------------------------- control modes

ModeArray = npt.NDArray[np.int8]


def default_control_modes(model: Model) -> ModeArray:
    """Initial control mode of each dof, int8 (n_dofs,), from the model.

    Actuator mode where an actuator has a nonzero moment arm, else position mode where kp != 0, else velocity mode where
    kv != 0, else force mode.
    """
    dofs = model.dofs
    modes = np.full(model.n_dofs, ControlMode.FORCE, dtype=np.int8)
    modes[dofs.kv != 0.0] = ControlMode.VELOCITY
    modes[(dofs.kp != 0.0) & (dofs.q_idx >= 0)] = ControlMode.POSITION
    modes[(model.actuators.moment != 0.0).any(axis=0)] = ControlMode.ACTUATOR
    return modes


class DofControl:
    """Control mode and command of each dof; modes are common to all environments unless set for some of them."""

    def __init__(self, model: Model, arrays: SceneArrays, gains: DefaultGains, diagnostics: Diagnostics) -> None:
        """Initialize control modes from the model, pass them to the engine and write the initial commands.

        Args:
            model: the model.
            arrays: arrays of the engine.
            gains: default gains of dofs without gains.
            diagnostics: receives notes about default gains and disabled actuators.
        """
        self.model = model
        self.arrays = arrays
        self.gains = gains
        self.diagnostics = diagnostics
        self.default_modes = default_control_modes(model)
        self._is_actuated = (model.actuators.moment != 0.0).any(axis=0)
        self.modes = self.default_modes.copy()
        self.modes_per_env: ModeArray | None = None
        """Modes (n_dofs, n_envs) if they differ between environments; None if they are equal."""
        self.version = 0
        """Incremented at every change of modes or gains; key of caches."""
        self.needs_prepare = True
        """Whether the step may have to be compiled again because the modes changed the engine's settings."""
        self._update_engine()
        self.reset(None)

    def reset(self, envs: IndexArray | None, qpos: Array | None = None, ctrl: Array | None = None) -> None:
        """Set commands and actuator controls to their initial values.

        Position mode: target position of the file's drive, else the initial coordinate; velocity mode: target velocity
        of the drive, else 0; force mode: 0.

        Args:
            envs: indices of the environments; None for all.
            qpos: initial coordinates, (n_qs,); None for those of the model.
            ctrl: actuator controls, (n_actuators,); None for zero.
        """
        n_envs = self.arrays.n_envs if envs is None else len(envs)
        for name, values in self.initial_commands(envs, qpos, ctrl).items():
            self.arrays.write(name, slice(None), np.broadcast_to(values.T, (n_envs, len(values))), envs)

    def initial_commands(
        self, envs: IndexArray | None = None, qpos: Array | None = None, ctrl: Array | None = None
    ) -> dict[str, np.ndarray]:
        """Initial values of the arrays `command` (n_dofs, 1 or environments) and `ctrl` (n_actuators, 1).

        Args:
            envs: indices of the environments; None for all. Matters only if modes differ between environments.
            qpos: initial coordinates, (n_qs,); None for those of the model.
            ctrl: actuator controls, (n_actuators,); None for zero.
        """
        modes = self.modes[:, None]
        if self.modes_per_env is not None:
            modes = self.modes_per_env if envs is None else self.modes_per_env[:, envs]
        dofs, initial_qpos = self.model.dofs, self.model.qpos0 if qpos is None else qpos
        controls = np.zeros(self.model.n_actuators) if ctrl is None else ctrl
        positions = np.array([initial_qpos[i] if i >= 0 else 0.0 for i in dofs.q_idx])
        targets = np.where(self.default_modes == ControlMode.POSITION, dofs.target_pos, positions)
        velocities = np.where(self.default_modes == ControlMode.VELOCITY, dofs.target_vel, 0.0)
        command = np.where(modes == ControlMode.POSITION, targets[:, None], 0.0)
        command = np.where(modes == ControlMode.VELOCITY, velocities[:, None], command)
        return {"command": command, "ctrl": controls[:, None]}

    def command(self, mode: ControlMode, dofs: IndexArray, values: Any, envs: Any) -> None:
        """Switch dofs to a control mode if necessary, and write their commands.

        Args:
            mode: control mode.
            dofs: indices of the dofs.
            values: commands, NumPy array or CUDA tensor, (environments or 1, dofs).
            envs: environment indices, array or tensor; None for all.
        """
        self._set_mode(mode, dofs, envs)
        if isinstance(values, np.ndarray):
            self.arrays.write("command", dofs, values, envs)
        else:
            self.arrays.write_tensor("command", dofs, values, envs)

    def _set_mode(self, mode: ControlMode, dofs: IndexArray, envs: Any) -> None:
        """Switch dofs to a control mode in the selected environments (None for all) unless they already have it."""
        if self.modes_per_env is None and self._has_mode(mode, dofs, None):
            return
        host_envs = envs.cpu().numpy() if hasattr(envs, "cpu") else envs  # modes are kept on the host
        if not self._has_mode(mode, dofs, host_envs):
            all_envs = host_envs is None or len(np.unique(host_envs)) == self.arrays.n_envs
            self._switch_mode(mode, dofs, None if all_envs else host_envs)

    def _has_mode(self, mode: ControlMode, dofs: IndexArray, envs: IndexArray | None) -> bool:
        """Whether all the dofs have a control mode in all the selected environments (None for all)."""
        value = int(mode)  # comparison with an enum is slow, and this runs before every step
        if self.modes_per_env is None:
            return bool((self.modes[dofs] == value).all())
        modes = self.modes_per_env[dofs] if envs is None else self.modes_per_env[dofs[:, None], envs]
        return bool((modes == value).all())

    def _switch_mode(self, mode: ControlMode, dofs: IndexArray, envs: IndexArray | None) -> None:
        """Change the control mode of dofs: set missing gains, report actuators that no longer act, update the engine.

        `envs` None changes all environments. Modes are stored per environment only while they differ.
        """
        if mode is ControlMode.POSITION:
            self._reject_quaternion_dofs(dofs)
        self.gains.ensure(mode, dofs)
        if envs is None:
            self.modes[dofs] = mode
            if self.modes_per_env is not None:
                self.modes_per_env[dofs] = mode
                if (self.modes_per_env == self.modes_per_env[:, :1]).all():
                    self.modes, self.modes_per_env = self.modes_per_env[:, 0].copy(), None
        else:
            self._switch_mode_in_envs(mode, dofs, envs)
        self._report_disabled_actuators(dofs)
        self._update_engine()

    def _report_disabled_actuators(self, dofs: IndexArray) -> None:
        """Note, once each, actuators that no longer act because some of the dofs they move left actuator mode.

        Args:
            dofs: dofs whose mode was changed; only actuators with a moment arm on one of them are checked.
        """
        has_moment = self.model.actuators.moment != 0.0
        in_actuator_mode = (
            self.modes[:, None] if self.modes_per_env is None else self.modes_per_env
        ) == ControlMode.ACTUATOR
        for a in np.flatnonzero(has_moment[:, dofs].any(axis=1)):
            dof_modes = in_actuator_mode[has_moment[a]]
            code, names = "scene.actuator-stopped", self.model.actuators.names
            message = f'actuator "{names[a]}" is disabled: one of the dofs that it acts on has another control mode'
            disabled = bool((dof_modes.any(axis=0) & ~dof_modes.all(axis=0)).any())
            if disabled and not any(d.code == code and d.message == message for d in self.diagnostics):
                self.diagnostics.note(code, message)

    def _switch_mode_in_envs(self, mode: ControlMode, dofs: IndexArray, envs: IndexArray) -> None:
        """Change the mode of dofs in some environments; from then on the step reads the mode from an array.

        The first call gives all dofs default gains of position and velocity control, so that later mode changes do not
        need another program.
        """
        if self.modes_per_env is None:
            self.modes_per_env = np.repeat(self.modes[:, None], self.arrays.n_envs, axis=1)
            for possible_mode in (ControlMode.POSITION, ControlMode.VELOCITY):  # later changes need no recompilation
                supported = (self.model.dofs.q_idx >= 0) | (possible_mode is ControlMode.VELOCITY)
                self.gains.ensure(possible_mode, np.flatnonzero(supported), quiet=True)
        self.modes_per_env[dofs[:, None], envs] = mode

    def _reject_quaternion_dofs(self, dofs: IndexArray) -> None:
        for dof in dofs[self.model.dofs.q_idx[dofs] < 0]:
            raise KinemaError(
                f'"{self.model.dofs.names[dof]}" belongs to a quaternion and has no position coordinate: control it by '
                "velocity or force"
            )

    def ensure_gains(self, mode: ControlMode, dofs: IndexArray) -> None:
        """Set default gains of position or velocity control for dofs without gains.

        Dofs of quaternions are skipped for kp.
        """
        supported = dofs[self.model.dofs.q_idx[dofs] >= 0] if mode is ControlMode.POSITION else dofs
        self.gains.ensure(mode, supported)
        self._update_engine()

    def on_parameter_set(self, name: str, dofs: slice | IndexArray) -> None:
        """Notify that the user set parameter `name` of dofs; kp and kv are then no longer replaced by default gains."""
        if name in GAINS:
            self.gains.user_set[GAINS.index(name), dofs] = True
            self._update_engine()

    def restore(self, modes: ModeArray, user_set: BoolArray) -> None:
        """Restore control modes and gain flags of a saved state.

        Args:
            modes: control modes, (n_dofs, 1), or (n_dofs, n_envs) if they differ between environments.
            user_set: whether the user set kp and kv, (2, n_dofs).
        """
        self.gains.user_set[:] = user_set
        self.modes = modes[:, 0].copy()
        self.modes_per_env = None if modes.shape[1] == 1 else modes.copy()
        self._update_engine()

    def _update_engine(self) -> None:
        """Pass the control modes to the engine; increment `version`; set `needs_prepare` if its settings changed."""
        engine = self.arrays.engine
        self.version += 1
        before = engine.settings
        engine.set_control_modes(
            [ControlMode(int(m)) for m in self.modes] if self.modes_per_env is None else self.modes_per_env
        )
        self.needs_prepare = self.needs_prepare or engine.settings != before

    def return_to_actuators(self, dofs: IndexArray, envs: Any = None) -> None:
        """Switch dofs that actuators act on back to actuator mode; other dofs among `dofs` are left unchanged."""
        actuated = dofs[self._is_actuated[dofs]]
        if len(actuated):
            self._set_mode(ControlMode.ACTUATOR, actuated, envs)
