"""A scene that runs: its steps, and back to the start."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.foundation import KinemaError

from .arguments import flag, whole
from .batches import environments
from .health import Health
from .keyframes import state_of
from .progress import Progress
from .resetting import reset_on_device
from .states import SceneState


class Stepping(Health):
    """The part of a scene that takes steps."""

    progress: Progress

    def prepare(self, *, wait: bool | None = None) -> None:
        """Compile the step, or take it from the cache, so that the first one is as fast as the next.

        With `wait` until its optimised tier is compiled; None for what `Scene(wait=...)` says.
        """
        running = self.running
        if running.model.n_dofs:
            with self.progress.showing(2):
                running.engine.prepare(wait=wait)
        running.controls.changed = False

    def step(self, n: int = 1) -> None:
        """Take steps of `dt`; all of them in one launch."""
        running = self.running
        n = whole(n, "step", "step")
        if running.controls.changed:
            self.prepare()
        if self.on_error == "reset":
            self._reset_broken()
        self._advance(n)
        self._after_steps()

    def reset(self, envs_idx: Any = None, keyframe: str | int | None = None, *, grow: bool = False) -> None:
        """Back to the start, in all environments or some: state, commands, forces; flags of errors are taken back.

        Args:
            envs_idx: which environments; None for all.
            keyframe: a state that a file names, by its name or number there: entities whose file has it go to its
                coordinates, velocities, controls and activations (`Entity.keyframe_names`), all others to their start.
            grow: whether to make room, from now on, for all contacts that there were (`max_contacts`).
        """
        if isinstance(envs_idx, SceneState):
            raise KinemaError("reset: this is a state, and scene.set_state(state) goes back to it")
        running, grow = self.running, flag(grow, "grow")
        state = None if keyframe is None else state_of(running.model, keyframe)
        left_out = [] if state is None else state.left_out
        self._note_once("scene.keyframe-part", [f"{text} are not simulated" for text in left_out])
        there = running.outputs.on_device and running.outputs.is_there(envs_idx)
        if there and not grow and not self._is_timed:
            reset_on_device(running, envs_idx, state, keyframe)
            return
        self._note_overflow()
        if grow:
            self._grow()
        envs = environments(envs_idx, running.n_envs)
        count = running.n_envs if envs is None else len(envs)
        if running.model.n_dofs:
            running.engine.reset(envs)
        if state is None:
            running.controls.reset(envs)
        else:
            act = state.act if running.model.actuators.has_activation.any() else state.act[:0]
            for name, row in (("qpos", state.qpos), ("vel", state.qvel), ("act", act)):
                running.memory.write(name, slice(None), np.broadcast_to(row, (count, len(row))), envs)
            running.controls.reset(envs, state.qpos, state.ctrl)
        for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
            if running.engine.settings.external_forces:
                rows = 3 * running.model.n_links
                running.memory.write(name, slice(None), np.zeros((count, rows)), envs)
        self._was_reset(envs)

    def _reset_broken(self) -> None:
        """What broke in the steps before."""
        broken = self.get_error_envs_mask()
        if broken.any():
            self.reset(envs_idx=broken)

    def _note_once(self, code: str, messages: Sequence[str]) -> None:
        said = {d.message for d in self.diagnostics if d.code == code}
        for message in (m for m in messages if m not in said):
            self.diagnostics.note(code, message)
