"""Many steps at once, with commands that change on the way: what sampling planners need."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np

from kinema.foundation import KinemaError
from kinema.sim import InTurn

from .arguments import whole
from .batches import as_array, items
from .entity import Entity
from .outputs import stacked
from .stepping import Stepping

COMMANDS = ("position", "velocity", "force", "ctrl")
"""What an entity can be told: its degrees of freedom, or the actuators of its file."""


class Rollout(NamedTuple):
    """What came of each turn of a rollout, for one entity."""

    qpos: Any
    """Coordinates [m, rad], (turns, n_envs, n_qs)."""
    qvel: Any
    """Velocities [m/s, rad/s], (turns, n_envs, n_dofs)."""


class Rolling(Stepping):
    """The part of a scene that takes many steps at once."""

    _in_turn: InTurn | None = None

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
        """Take steps from where the scene is, with commands that change after every `hold` steps; all in one launch.

        The same as `control_dofs_position` (`_velocity`, `_force`, or `control`), `step(hold)` and getters in turn, bit
        for bit, without what each of these calls costs. Everything else goes on with what it was told.

        Args:
            entity: whom to tell.
            position: [m, rad], (turns, n_envs, n), or (turns, n) for all environments; or instead of it
            velocity: [m/s, rad/s], or
            force: [N, N m], or
            ctrl: what actuators of its file are told, likewise.
            idx: which degrees of freedom, or with `ctrl` which actuators; None for all.
            hold: steps to each turn.
        """
        given = {k: v for k, v in zip(COMMANDS, (position, velocity, force, ctrl), strict=True) if v is not None}
        if len(given) != 1:
            raise KinemaError(f"rollout: expected one of {', '.join(COMMANDS)}, not {len(given)} of them")
        if not any(entity is own for own in self.entities):
            raise KinemaError(f"rollout: expected an entity of this scene, not {entity!r}")
        ((kind, values),) = given.items()
        running, hold = self.running, whole(hold, "rollout: hold", "step")
        tell = entity.control if kind == "ctrl" else getattr(entity, f"control_dofs_{kind}")
        if not self._is_plain or running.outputs.is_there(values):
            return self._one_by_one(entity, tell, values, idx, hold)
        array = as_array(values, running.memory.dtype, f"rollout: {kind}")
        self._refuse_shapes(array, kind)
        tell(array[0], idx)
        if running.controls.changed:
            self.prepare()
        array = array[:, None] if array.ndim == 2 else array
        turns = self._turns(len(array), hold * self.substeps)
        turns.run(*_rows(entity, kind, idx), np.swapaxes(array, 1, 2))
        self._after_steps()
        info, outputs = entity.info, running.outputs
        own = {"qpos": slice(info.q_start, info.q_end), "vel": slice(info.dof_start, info.dof_end)}
        return Rollout(*(outputs.new(np.swapaxes(turns.seen[name][:, rows], 1, 2)) for name, rows in own.items()))

    @property
    def _is_plain(self) -> bool:
        """Whether nothing has to be done between steps, and they are taken on a CPU."""
        running = self.running
        watched = bool(self._listeners()) or running.engine.fields.keeps_previous or self.on_error == "reset"
        return running.engine.device.is_cpu and running.model.n_dofs > 0 and not watched

    def _turns(self, turns: int, steps: int) -> InTurn:
        """Made anew where it is another number of them, or another program."""
        engine, made = self.running.engine, self._in_turn
        if made is None or not made.fits(engine, turns, steps):
            made = self._in_turn = InTurn(engine, turns, steps)
        return made

    def _one_by_one(self, entity: Entity, tell: Callable[..., None], values: Any, idx: Any, hold: int) -> Rollout:
        seen: list[tuple[Any, Any]] = []
        for value in values:
            tell(value, idx)
            self.step(hold)
            seen.append((entity.get_qpos(), entity.get_qvel()))
        return Rollout(*(stacked(parts) for parts in zip(*seen, strict=True)))

    def _refuse_shapes(self, array: np.ndarray, kind: str) -> None:
        n_envs = self.running.n_envs
        if array.ndim not in (2, 3) or not len(array) or (array.ndim == 3 and array.shape[1] not in (1, n_envs)):
            raise KinemaError(
                f"rollout: {kind}: expected values of shape (turns, n) or (turns, {n_envs}, n), not {array.shape}"
            )


def _rows(entity: Entity, kind: str, idx: Any) -> tuple[str, np.ndarray]:
    """The array that is told, and where in it."""
    if kind == "ctrl":
        names = entity._alone.actuators.names
        return "ctrl", entity.info.actuator_start + items(idx, names, "rollout: idx", "actuators")
    return "command", entity.info.dof_start + entity._dofs(idx, "rollout: idx")
