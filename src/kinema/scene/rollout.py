"""Open-loop rollouts: many steps with a sequence of commands, fused into one launch on a CPU.

On a GPU, or if sensors, recordings or automatic resets need every step, the commands are applied step by step.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import FusedRollout

from .arguments import Selection, as_array, positive_int
from .arrays import stack
from .entity import Entity
from .stepping import SteppedScene, Stepper

COMMAND_KINDS = ("position", "velocity", "force", "ctrl")
"""Kinds of commands of a rollout: dof position, velocity or force, or actuator controls."""


class Rollout(NamedTuple):
    """Trajectory of one entity: its state after each command of a rollout."""

    qpos: Any
    """Generalized coordinates [m, rad], (n_commands, n_envs, n_qs)."""
    qvel: Any
    """Generalized velocities [m/s, rad/s], (n_commands, n_envs, n_dofs)."""


class RolloutRunner:
    """Applies sequences of commands to entities of a scene; caches the fused rollout program.

    Args:
        scene: the scene.
        stepper: stepper of the scene, for rollouts that cannot be fused.
    """

    def __init__(self, scene: SteppedScene, stepper: Stepper) -> None:
        self._scene, self._stepper = scene, stepper
        self._fused_rollout: FusedRollout | None = None

    def run(self, entity: Entity, commands: dict[str, Any], idx: Selection, hold: int) -> Rollout:
        """Apply commands of one kind, (n_commands, n_envs, n) or (n_commands, n), each for `hold` steps.

        Args:
            entity: the entity.
            commands: values by kind (`COMMAND_KINDS`); exactly one is not None.
            idx: dofs, or for `ctrl` actuators; None for all.
            hold: number of steps per command.

        Returns:
            Coordinates and velocities of the entity after each command.
        """
        given = {kind: values for kind, values in commands.items() if values is not None}
        if len(given) != 1:
            raise KinemaError(f"rollout: expected one of {', '.join(COMMAND_KINDS)}, not {len(given)} of them")
        ((kind, values),) = given.items()
        built, hold = self._scene.built, positive_int(hold, "rollout: hold", "step")
        command = entity.control if kind == "ctrl" else getattr(entity, f"control_dofs_{kind}")
        can_fuse = built.engine.device.is_cpu and built.model.n_dofs > 0 and not self._stepper.needs_every_step
        if not can_fuse or built.outputs.is_gpu_tensor(values):
            return self._run_step_by_step(entity, command, values, idx, hold)
        array = as_array(values, built.arrays.dtype, f"rollout: {kind}")
        _check_shape(array, kind, built.n_envs)
        command(array[0], idx)
        if built.controls.needs_prepare:
            self._stepper.prepare()
        array = array[:, None] if array.ndim == 2 else array
        fused = self._get_fused_rollout(len(array), hold * self._scene.substeps)
        fused.run(*_command_rows(entity, kind, idx), np.swapaxes(array, 1, 2))
        self._stepper.check_overflow()
        info, outputs = entity.info, built.outputs
        own = {"qpos": slice(info.q_start, info.q_end), "vel": slice(info.dof_start, info.dof_end)}
        return Rollout(
            *(outputs.convert_owned(np.swapaxes(fused.recorded[name][:, rows], 1, 2)) for name, rows in own.items())
        )

    def _get_fused_rollout(self, n_controls: int, steps: int) -> FusedRollout:
        """Cached fused rollout program for a number of commands and of steps per command.

        Created again if the engine's program changed.
        """
        engine, rollout = self._scene.built.engine, self._fused_rollout
        if rollout is None or not rollout.matches(engine, n_controls, steps):
            rollout = self._fused_rollout = FusedRollout(engine, n_controls, steps)
        return rollout

    def _run_step_by_step(
        self, entity: Entity, command: Callable[..., None], commands: Any, idx: Selection, hold: int
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
            self._stepper.step(hold)
            states.append((entity.get_qpos(), entity.get_qvel()))
        return Rollout(*(stack(rows) for rows in zip(*states, strict=True)))


def _check_shape(array: np.ndarray, kind: str, n_envs: int) -> None:
    """Raise `KinemaError` unless commands have shape (n_commands, n) or (n_commands, n_envs or 1, n)."""
    if array.ndim not in (2, 3) or not len(array) or (array.ndim == 3 and array.shape[1] not in (1, n_envs)):
        raise KinemaError(
            f"rollout: {kind}: expected values of shape (n_commands, n) or (n_commands, {n_envs}, n), not {array.shape}"
        )


def _command_rows(entity: Entity, kind: str, idx: Selection) -> tuple[str, np.ndarray]:
    """Name of the engine array of a command kind (`ctrl` or `command`), and rows of the selected actuators or dofs."""
    if kind == "ctrl":
        return "ctrl", entity._index.actuator_rows(idx, "rollout: idx")
    return "command", entity._index.dof_rows(idx, "rollout: idx")
