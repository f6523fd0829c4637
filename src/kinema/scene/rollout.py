"""Open-loop rollouts: many steps with a sequence of commands, fused into one launch on a CPU.

On a GPU, or if sensors, recordings or automatic resets need every step, the commands are applied step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import FusedRollout

from .arguments import as_array, positive_int, resolve_indices
from .arrays import stack
from .entity import Entity
from .stepping import SteppingMixin

COMMAND_KINDS = ("position", "velocity", "force", "ctrl")
"""Kinds of commands of a rollout: dof position, velocity or force, or actuator controls."""


class Rollout(NamedTuple):
    """Trajectory of one entity: its state after each command of a rollout."""

    qpos: Any
    """Generalized coordinates [m, rad], (n_commands, n_envs, n_qs)."""
    qvel: Any
    """Generalized velocities [m/s, rad/s], (n_commands, n_envs, n_dofs)."""


class RolloutMixin(SteppingMixin):
    """Part of `Scene`: open-loop rollouts."""

    _fused_rollout: FusedRollout | None = None

    def rollout(
        self,
        entity: Entity,
        *,
        position: Any = None,
        velocity: Any = None,
        force: Any = None,
        ctrl: Any = None,
        idx: Any = None,
        hold: int = 1,
    ) -> Rollout:
        """Apply a sequence of commands to an entity, each for `hold` steps, and return its trajectory.

        Equal bit for bit to calls of `control_dofs_position` (`_velocity`, `_force`, or `control`), `step(hold)` and
        the getters, without their overhead. Commands of other entities and dofs stay in effect. Exactly one of
        `position`, `velocity`, `force` and `ctrl` is given.

        Args:
            entity: entity of this scene.
            position: position targets [m, rad], (n_commands, n_envs, n), or (n_commands, n) for all environments.
            velocity: velocity targets [m/s, rad/s], same shapes.
            force: forces [N, N m], same shapes.
            ctrl: actuator controls, same shapes.
            idx: dofs, or with `ctrl` actuators, by index, name, pattern, slice or mask; None for all.
            hold: number of steps per command; default 1.

        Returns:
            Coordinates and velocities of the entity after each command.
        """
        given = {k: v for k, v in zip(COMMAND_KINDS, (position, velocity, force, ctrl), strict=True) if v is not None}
        if len(given) != 1:
            raise KinemaError(f"rollout: expected one of {', '.join(COMMAND_KINDS)}, not {len(given)} of them")
        if not any(entity is own for own in self.entities):
            raise KinemaError(f"rollout: expected an entity of this scene, not {entity!r}")
        ((kind, values),) = given.items()
        built, hold = self.built, positive_int(hold, "rollout: hold", "step")
        command = entity.control if kind == "ctrl" else getattr(entity, f"control_dofs_{kind}")
        if not self._can_fuse or built.outputs.is_gpu_tensor(values):
            return self._rollout_step_by_step(entity, command, values, idx, hold)
        array = as_array(values, built.arrays.dtype, f"rollout: {kind}")
        self._check_shape(array, kind)
        command(array[0], idx)
        if built.controls.needs_prepare:
            self.prepare()
        array = array[:, None] if array.ndim == 2 else array
        fused = self._get_fused_rollout(len(array), hold * self.substeps)
        fused.run(*_command_rows(entity, kind, idx), np.swapaxes(array, 1, 2))
        self._check_overflow_after_steps()
        info, outputs = entity.info, built.outputs
        own = {"qpos": slice(info.q_start, info.q_end), "vel": slice(info.dof_start, info.dof_end)}
        return Rollout(
            *(outputs.convert_owned(np.swapaxes(fused.recorded[name][:, rows], 1, 2)) for name, rows in own.items())
        )

    @property
    def _can_fuse(self) -> bool:
        """Whether the steps run on a CPU and nothing has to be done between them, so that one launch suffices."""
        built = self.built
        needs_every_step = (
            bool(self._step_callbacks()) or built.engine.fields.tracks_previous_velocity or self.on_error == "reset"
        )
        return built.engine.device.is_cpu and built.model.n_dofs > 0 and not needs_every_step

    def _get_fused_rollout(self, n_controls: int, steps: int) -> FusedRollout:
        """Cached fused rollout program for a number of commands and of steps per command.

        Created again if the engine's program changed.
        """
        engine, rollout = self.built.engine, self._fused_rollout
        if rollout is None or not rollout.matches(engine, n_controls, steps):
            rollout = self._fused_rollout = FusedRollout(engine, n_controls, steps)
        return rollout

    def _rollout_step_by_step(
        self, entity: Entity, command: Callable[..., None], commands: Any, idx: Any, hold: int
    ) -> Rollout:
        """Apply the commands one after the other with separate launches, and stack the states.

        Args:
            entity: the entity.
            command: its control method.
            commands: sequence of commands.
            idx: dofs or actuators; None for all.
            hold: number of steps per command.
        """
        states: list[tuple[Any, Any]] = []
        for value in commands:
            command(value, idx)
            self.step(hold)
            states.append((entity.get_qpos(), entity.get_qvel()))
        return Rollout(*(stack(rows) for rows in zip(*states, strict=True)))

    def _check_shape(self, array: np.ndarray, kind: str) -> None:
        """Raise `KinemaError` unless commands have shape (n_commands, n) or (n_commands, n_envs or 1, n)."""
        n_envs = self.built.n_envs
        if array.ndim not in (2, 3) or not len(array) or (array.ndim == 3 and array.shape[1] not in (1, n_envs)):
            raise KinemaError(
                f"rollout: {kind}: expected values of shape (n_commands, n) or (n_commands, {n_envs}, n), "
                f"not {array.shape}"
            )


def _command_rows(entity: Entity, kind: str, idx: Any) -> tuple[str, np.ndarray]:
    """Name of the engine array of a command kind (`ctrl` or `command`), and rows of the selected actuators or dofs."""
    if kind == "ctrl":
        names = entity._entity_model.actuators.names
        return "ctrl", entity.info.actuator_start + resolve_indices(idx, names, "rollout: idx", "actuators")
    return "command", entity.info.dof_start + entity._dof_indices(idx, "rollout: idx")
