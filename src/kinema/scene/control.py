"""Control modes of the dofs (actuators, force, velocity, position), their commands, and default PD gains.

In position mode the control force is kp (command - q) - kv v, in velocity mode kv (command - v), in force mode the
command itself; in actuator mode the actuators of the file act on the dof. If neither file nor user gives gains, default
gains are used (`default_gains`).
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array, Diagnostics, KinemaError
from kinema.dynamics import ControlMode
from kinema.model import Model

from .arguments import IndexArray
from .arrays import SceneArrays
from .default_gains import TINY, GainTable

# ------------------------------------------------------------------------------------------- default gains

GAINS = ("kp", "kv")
FREE_JOINT_DOFS = 6
"""Number of dofs of a free joint."""
BoolArray = npt.NDArray[np.bool_]
ModeArray = npt.NDArray[np.int8]


class DefaultGains:
    """Gains kp and kv of dofs for which neither file nor user gives both gains (`default_gains`), in the arrays.

    Dofs of joints other than free and spherical ones have default gains from the start, others from their first
    command. kv of velocity mode is larger than that of position mode. If the user sets one gain of a dof, the other
    default gain is adapted to it such that the damping is critical. Each variant of a model has its own gains.
    """

    def __init__(
        self,
        arrays: SceneArrays,
        tables: Sequence[GainTable],
        user_set: BoolArray,
        variant_dofs: IndexArray,
        diagnostics: Diagnostics,
    ) -> None:
        """Set default gains of the dofs of all joints but free and spherical ones.

        Args:
            arrays: arrays of the engine, to which gains are written.
            tables: default gains of each variant.
            user_set: whether the user set kp (row 0) and kv (row 1) before build, bool (2, n_dofs).
            variant_dofs: indices of the dofs of entities that have variants.
            diagnostics: receives notes about default gains.
        """
        self.arrays = arrays
        self.tables = tables
        self.user_set = user_set
        """Whether the user set kp (row 0) and kv (row 1), bool (2, n_dofs)."""
        self.diagnostics = diagnostics
        self._reported_limits = False
        """Whether the diagnostics tell that the integrator limits default gains."""
        self._variant_dofs = variant_dofs
        """Dofs of entities that have variants."""
        model = arrays.engine.model
        self._derivable = np.zeros((2, model.n_dofs), np.bool_)
        """Whether the file gives no kp (row 0) and kv (row 1), so that those not set by the user are default gains."""
        dofs = np.flatnonzero(dofs_without_gains(arrays.engine.variants.models, user_set))
        dofs = np.setdiff1d(dofs, sorted(self._dofs_needing_per_env_gains(set(dofs.tolist()))))
        self._derivable[:, dofs] = True
        self.update(dofs, np.zeros((model.n_dofs, 1), np.int8))

    @property
    def derived(self) -> BoolArray:
        """Whether kp (row 0) and kv (row 1) are default gains, bool (2, n_dofs)."""
        return self._derivable & ~self.user_set

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
        if mode is ControlMode.POSITION and not quiet:
            self._report_limits(dofs)
        without = {name: (self.arrays.dof_parameters[name] == 0.0).all(axis=0) for name in GAINS}
        lacking = dofs[(without[GAINS[row]] & ~self.user_set[row] & ~self._derivable[row])[dofs]]
        unresolved = sorted(self._dofs_needing_per_env_gains(set(lacking.tolist())))
        if unresolved and not quiet:
            raise KinemaError(
                f"neither file nor user gives gains for {self._quoted_names(unresolved)}, and variants need different "
                'default gains: use set_dofs_kp and set_dofs_kv, or scene.build(per_env=("kp", "kv"))'
            )
        lacking = np.setdiff1d(lacking, unresolved)
        self._derivable[row, lacking] = True
        self._derivable[1, lacking] |= without["kv"][lacking]
        if len(lacking) and not quiet:
            self.diagnostics.note(
                "scene.default-gains",
                f"neither file nor user gives gains for {self._quoted_names(lacking)}: default gains are used",
                hint="set_dofs_kp and set_dofs_kv before build",
            )

    def _report_limits(self, dofs: IndexArray) -> None:
        """Warn once if the integrator limits the default gains of dofs so much that loads move them from the target."""
        limited = dofs[self.derived[0][dofs]]
        deviation = np.max([table.limited_deviation[limited] for table in self.tables], axis=0, initial=0.0)
        if self._reported_limits or not deviation.any():
            return
        self._reported_limits = True
        engine, worst = self.arrays.engine, int(limited[deviation.argmax()])
        self.diagnostics.warning(
            "scene.limited-gains",
            f"the integrator {engine.settings.integrator.value} limits default gains: gravity may move "
            f'"{engine.model.dofs.names[worst]}" by {deviation.max():.2g} from its target [rad or m]',
            hint='use Scene(integrator="implicitfast"), a smaller time step, or set_dofs_kp and set_dofs_kv',
        )

    def _quoted_names(self, dofs: Sequence[int] | IndexArray) -> str:
        return ", ".join(f'"{self.arrays.engine.model.dofs.names[d]}"' for d in dofs)

    def _dofs_needing_per_env_gains(self, dofs: set[int]) -> set[int]:
        """Dofs whose default gains differ between variants while kp or kv is shared by all environments."""
        if not dofs & set(self._variant_dofs.tolist()) or not any(self.arrays.is_shared(name) for name in GAINS):
            return set()
        return dofs & set(differing_dofs(self.tables).tolist())

    def update(self, dofs: IndexArray, modes: ModeArray) -> None:
        """Write the default gains of dofs for their control modes; dofs without default gains are left unchanged.

        kv is larger in velocity mode. If only some environments are in velocity mode, kv is that of velocity mode and
        kp is larger by the same factor.

        Args:
            dofs: indices of the dofs.
            modes: control modes, (n_dofs, 1 or n_envs).
        """
        derives_kp, derives_kv = self.derived
        self._write("clamp_slope", dofs, derives_kv[dofs, None].astype(np.float64), None)
        with_kp, with_kv = dofs[derives_kp[dofs]], dofs[derives_kv[dofs]]
        fast, mixed = (modes == ControlMode.VELOCITY).any(axis=1), (modes != modes[:, :1]).any(axis=1)
        engine = self.arrays.engine
        for variant, table in enumerate(self.tables):
            envs = None if len(self.tables) == 1 else np.flatnonzero(engine.variants.variant_of_env == variant)
            kp, kv = (self.arrays.dof_parameters[name][variant] for name in GAINS)
            kp[with_kp] = np.where(derives_kv[with_kp], table.kp[with_kp], table.kp_for(with_kp, kv[with_kp]))
            given = table.kp[with_kv, None]
            if not derives_kp[with_kv].all():
                present = np.asarray(self.arrays.get(GAINS[0])[with_kv], np.float64)
                present = present if envs is None or present.shape[1] == 1 else present[:, envs]
                present = present.max(axis=1, keepdims=True) if self.arrays.is_shared("kv") else present
                given = np.where(derives_kp[with_kv, None] | (present == 0.0), given, present)
            values = table.kv(with_kv, given, engine.dt)
            faster = np.where(fast[with_kv, None], np.maximum(values, table.velocity_kv[with_kv, None]), values)
            scaled = with_kv[(fast & mixed & derives_kp)[with_kv]]
            kp[scaled] *= (faster / np.maximum(values, TINY))[np.isin(with_kv, scaled), 0]
            kv[with_kv] = faster[:, 0]
            for name, rows, written in zip(GAINS, (with_kp, with_kv), (kp[with_kp, None], faster), strict=True):
                self._write(name, rows, written, envs)

    def _write(self, name: str, dofs: IndexArray, values: Array, envs: IndexArray | None) -> None:
        """Write gains of dofs (n, 1 or environments) to the arrays of some environments, or of all (None)."""
        if not len(dofs):
            return
        if self.arrays.is_shared(name):
            self.arrays.write(name, dofs, values[:, :1].T)
        else:
            count = self.arrays.n_envs if envs is None else len(envs)
            self.arrays.write(name, dofs, np.broadcast_to(values.T, (count, len(dofs))), envs)


def dofs_without_gains(models: Sequence[Model], user_set: BoolArray) -> BoolArray:
    """Dofs of joints other than free and spherical ones whose gains the file does not give, (n_dofs,).

    Gains that the user set before build (`user_set`, (2, n_dofs)) count as not given by the file.
    """
    lacking = np.ones(models[0].n_dofs, np.bool_)
    for row, name in enumerate(GAINS):
        lacking &= user_set[row] | np.all([getattr(m.dofs, name) == 0.0 for m in models], axis=0)
    joints = models[0].joints
    for start, end in zip(joints.dof_start.tolist(), joints.dof_end.tolist(), strict=True):
        if end - start == FREE_JOINT_DOFS:
            lacking[start:end] = False
    return lacking & (models[0].dofs.q_idx >= 0)


def differing_dofs(tables: Sequence[GainTable]) -> IndexArray:
    """Dofs whose default gains differ between variants."""
    columns = [np.stack([getattr(table, name) for table in tables]) for name in ("kp", "velocity_kv", "inertia")]
    return np.flatnonzero(np.any([(column != column[0]).any(axis=0) for column in columns], axis=0))


def need_per_env_gains(
    models: Sequence[Model], tables: Sequence[GainTable], user_set: BoolArray, variant_dofs: IndexArray
) -> bool:
    """Whether default gains of any dof differ between variants, so that kp and kv must be per-environment parameters.

    Only dofs in `variant_dofs` without gains from file or user count; dofs of free joints are ignored.

    Args:
        models: model of each variant combination.
        tables: default gains of each model.
        user_set: whether the user set kp and kv, (2, n_dofs).
        variant_dofs: indices of the dofs of entities with variants.
    """
    if any(model.n_dofs != models[0].n_dofs for model in models):
        return False  # inconsistent variants; reported as an error later
    missing = np.intersect1d(variant_dofs, np.flatnonzero(dofs_without_gains(models, user_set)))
    return bool(np.isin(missing, differing_dofs(tables)).any())


# ------------------------------------------------------------------------------------------- control modes


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
        self.update_gains()

    def _report_disabled_actuators(self, dofs: IndexArray) -> None:
        """Note, once each, actuators that no longer act because some of the dofs they move left actuator mode.

        Args:
            dofs: dofs whose mode was changed; only actuators with a moment arm on one of them are checked.
        """
        has_moment = self.model.actuators.moment != 0.0
        in_actuator_mode = (
            self.modes[:, None] if self.modes_per_env is None else self.modes_per_env
        ) == ControlMode.ACTUATOR
        for a in np.flatnonzero(has_moment[:, dofs].any(axis=1)).tolist():
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
        self.update_gains()

    def keep_gains(self, dofs: IndexArray) -> None:
        """Treat the current gains of dofs as set by the user, so that no default gains replace or adapt them."""
        self.gains.user_set[:, dofs] = True
        self.update_gains(dofs)

    def update_gains(self, dofs: IndexArray | None = None) -> None:
        """Write default gains of dofs (None for all) for the current control modes and time step; update the engine."""
        modes = self.modes[:, None] if self.modes_per_env is None else self.modes_per_env
        self.gains.update(np.arange(self.model.n_dofs) if dofs is None else dofs, modes)
        self._update_engine()

    def on_parameter_set(self, name: str, dofs: slice | IndexArray) -> None:
        """Notify that the user set parameter `name` of dofs; kp and kv are then no longer replaced by default gains."""
        if name in GAINS:
            self.gains.user_set[GAINS.index(name), dofs] = True
            self.update_gains(np.arange(self.model.n_dofs)[dofs])

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
