"""Stepping and resetting a built scene: step observers, automatic resets, CUDA graph capture, open-loop rollouts.

Step observers (timed sensors, recordings) force one launch per step; without them all steps of a call are one launch.
Rollouts apply a sequence of commands, fused into one launch on a CPU, or step by step on a GPU and if observers or
automatic resets need every step.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple, Protocol

import numpy as np

from kinema.core import KinemaError
from kinema.dynamics import Engine, FusedRollout
from kinema.runtime import share_torch_stream, torch_module

from .arguments import Selection, as_array, boolean, check_finite, positive_int, resolve_envs
from .arrays import stack
from .built_scene import BuiltScene
from .console import ProgressBar
from .contacts import ContactMonitor, MonitoredScene
from .entity import Entity
from .kinematic_bodies import motion_segments
from .sensors import AddedErrorModel, Sensor, Sensors
from .state import SceneState, keyframe_state, reset_on_gpu

ON_ERROR = ("flag", "freeze", "reset")
"""Handling of environments with non-finite values."""


class SteppedScene(MonitoredScene, Protocol):
    """Interface of `Scene` for its stepper."""

    substeps: int
    on_error: str
    progress: ProgressBar


class StepRecording(Protocol):
    """Interface of recordings: they observe every step until they are closed."""

    is_open: bool

    def on_step(self) -> None:
        """Record the state after a step."""
        ...


class StepObservers:
    """Sensors and recordings of a scene, which observe every step."""

    def __init__(self, scene: SteppedScene) -> None:
        self._scene = scene
        self._sensors: Sensors | None = None
        self._added_error_models: list[AddedErrorModel] = []
        self._recordings: list[StepRecording] = []

    @property
    def sensors(self) -> Sensors:
        """Sensors of all files and added sensors, created at first use."""
        if self._sensors is None:
            self._sensors = Sensors(self._scene, self._added_error_models)
        return self._sensors

    @property
    def is_built(self) -> bool:
        """Whether the scene is built."""
        return self._scene.is_built

    def add_sensor(self, error_model: AddedErrorModel) -> Sensor:
        """Handle of a sensor that is added to the scene, with its error parameters.

        If the scene is built, it contains the sensor already.
        """
        self._added_error_models.append(error_model)
        if self._sensors is not None:
            self._sensors.extend([error_model])
        return Sensor(self, len(self._added_error_models) - 1, is_added=True)

    def add_recording(self, recording: StepRecording) -> None:
        """Register a recording as observer of every step until it is closed."""
        self._recordings = [r for r in self._recordings if r.is_open] + [recording]

    @property
    def has_timed_sensors(self) -> bool:
        """Whether any sensor has a rate or delay, and so a history of measurements."""
        is_used = self._sensors is not None or bool(self._added_error_models)
        return is_used and self.sensors.has_rate_or_delay

    def callbacks(self) -> list[Callable[[], None]]:
        """Functions to call after each step: sampling of timed sensors, and open recordings."""
        timed = [self.sensors.sample] if self.has_timed_sensors else []
        return timed + [r.on_step for r in self._recordings if r.is_open]

    def restart_sensors(self, envs: np.ndarray | None) -> None:
        """Replace the history of timed sensors by the current measurement, in the given environments (None for all)."""
        if self.has_timed_sensors:
            self.sensors.sample(restart=envs is None, envs=envs)


class Stepper:
    """Compiles, takes and captures the steps of a scene, and resets its environments."""

    def __init__(self, scene: SteppedScene, contacts: ContactMonitor) -> None:
        self._scene = scene
        self._contacts = contacts
        self.observers = StepObservers(scene)
        self._is_capturing = False
        """Whether a CUDA graph is being captured, during which the host must not synchronize with the GPU."""

    # ----------------------------------------------------------------------------------------------------- steps

    def prepare(self, *, wait: bool | None = None) -> None:
        """Compile the step program, or load it from the cache; `wait` for the optimised code (None: scene option)."""
        built = self._scene.built
        if built.model.n_frames:
            with self._scene.progress.display(2):
                built.engine.compile_step(wait_for_optimised=wait)
        built.controls.needs_prepare = False

    def step(self, n: int) -> None:
        """Advance the simulation by n steps: one launch, or one per step if sensors or recordings observe every step.

        Compiles the step if the control modes changed; with `on_error="reset"` failed environments are reset first.
        Contact overflow is reported afterwards.
        """
        n = positive_int(n, "step", "step")
        if self._scene.built.controls.needs_prepare:
            self.prepare()
        if self._scene.on_error == "reset":
            failed = self.failed_envs()
            if failed.any():
                self.reset(failed)
        callbacks = self.observers.callbacks()
        for _ in range(n) if callbacks else range(1):
            self._launch(1 if callbacks else n)
            for callback in callbacks:
                callback()
        self.check_overflow()

    def _launch(self, n_steps: int) -> None:
        """Launch steps (with substeps) of the engine; only advance the clock if nothing in the scene can move."""
        built, n_substeps = self._scene.built, n_steps * self._scene.substeps
        if built.model.n_frames:
            for n in motion_segments(built, n_substeps):
                built.engine.step(n)
        else:
            built.engine.advance_clock(n_substeps)

    def check_overflow(self) -> None:
        """Report contact overflow after steps, except during graph capture."""
        if not self._is_capturing:
            self._contacts.check_after_step()

    @property
    def needs_every_step(self) -> bool:
        """Whether the host has work after every step: observers, previous velocities, automatic resets."""
        tracks_velocity = self._scene.built.engine.fields.tracks_previous_velocity
        has_motions = bool(self._scene.built.motions)
        return bool(self.observers.callbacks()) or tracks_velocity or has_motions or self._scene.on_error == "reset"

    # ----------------------------------------------------------------------------------------------------- reset

    def failed_envs(self) -> Any:
        """Mask of the environments whose state became non-finite since their last reset, bool (n_envs,)."""
        built = self._scene.built
        if built.outputs.on_gpu:
            return (built.arrays.source("error").to_torch() != 0.0).any(dim=0)
        return (built.arrays.get("error") != 0.0).any(axis=0)

    def reset(self, envs_idx: Selection, keyframe: str | int | None = None, *, grow: bool = False) -> None:
        """Reset environments to the initial state or to a keyframe: state, commands, external forces, error flags.

        `grow` also raises the contact capacity to the largest required capacity so far. With a CUDA tensor `envs_idx`
        nothing is transferred to the host, unless sensors with a rate or delay, or `grow`, need it.
        """
        if isinstance(envs_idx, SceneState):
            raise KinemaError("reset: this is a state: use scene.set_state(state)")
        built, grow = self._scene.built, boolean(grow, "grow")
        state = None if keyframe is None else keyframe_state(built.model, keyframe)
        unsupported = [] if state is None else state.unsupported
        self._note_once("scene.keyframe-unsupported", [f"{text} are not simulated" for text in unsupported])
        on_gpu = built.outputs.on_gpu and built.outputs.is_gpu_tensor(envs_idx)
        if on_gpu and not grow and not self.observers.has_timed_sensors:
            reset_on_gpu(built, envs_idx, state, keyframe)
            return
        self._contacts.report_overflow()
        if grow:
            self._contacts.grow_to_required_capacity()
        envs = resolve_envs(envs_idx, built.n_envs)
        count = built.n_envs if envs is None else len(envs)
        if built.model.n_frames:
            built.engine.reset(envs)
        if envs is None:
            built.engine.set_time(0.0)
        if state is None:
            built.controls.reset(envs)
        else:
            act = state.act if built.model.actuators.has_activation.any() else state.act[:0]
            poses = [(name, state.kinematic_pose) for name in ("kinematic_pose", "kinematic_target")]
            if any(built.model.actuators.servo_states):
                poses.append(("servo_state", state.servo_state))
            for name, row in (("qpos", state.qpos), ("vel", state.qvel), ("act", act), *poses):
                built.arrays.write(name, slice(None), np.broadcast_to(row, (count, len(row))), envs)
            built.controls.reset(envs, state.qpos, state.ctrl)
        for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
            if built.engine.settings.external_forces:
                rows = 3 * built.model.n_links
                built.arrays.write(name, slice(None), np.zeros((count, rows)), envs)
        self.observers.restart_sensors(envs)

    def _note_once(self, code: str, messages: Sequence[str]) -> None:
        """Add notes to the diagnostics that they do not contain yet."""
        diagnostics = self._scene.diagnostics
        known = {d.message for d in diagnostics if d.code == code}
        for message in (m for m in messages if m not in known):
            diagnostics.note(code, message)

    # ---------------------------------------------------------------------------------------- CUDA graph capture

    def capture(self, function: Callable[[], Any], warm_up: int) -> Callable[[], None]:
        """Capture the GPU work of a function as a CUDA graph after `warm_up` calls; returns a function that replays it.

        On a CPU the returned function just calls `function`. The replay raises `KinemaError` if the scene's program has
        changed since.
        """
        built, warm_up = self._scene.built, positive_int(warm_up, "capture: warm_up", "call")
        if built.engine.device.is_cpu:
            return partial(_call_without_result, function)
        self._check_capturable()
        graph, steps = self._capture_graph(built, function, warm_up)
        settings, capacity = built.engine.settings, built.contact_capacity

        def replay() -> None:
            current = built.engine.settings
            is_same = (current is settings or current == settings) and built.contact_capacity == capacity
            if self._scene.built is not built or not is_same:
                raise KinemaError("capture: the program of the scene has changed: capture again")
            graph.replay()
            built.engine.advance_clock(steps)
            built.engine.mark_modified()
            self.check_overflow()

        return replay

    def _check_capturable(self) -> None:
        """Raise `KinemaError` if steps cannot be captured as a CUDA graph because the host has work in every step.

        Host work in every step is due to NumPy output, step observers, automatic resets and clock sensors.
        """
        built = self._scene.built
        if not built.outputs.on_gpu:
            raise KinemaError('capture: tensors are required on a GPU: use Scene(out="torch")')
        if built.motions:
            raise KinemaError("capture: motions of kinematic bodies given by a file need the host")
        if self.observers.callbacks():
            raise KinemaError("capture: recordings and sensors with a rate or delay need the host after every step")
        if self._scene.on_error == "reset":
            raise KinemaError(
                'capture: Scene(on_error="reset") needs the host: use reset(get_error_envs_mask()) instead'
            )
        if built.engine.uniform.layout.rows["clock"][1]:
            raise KinemaError("capture: clock sensors need the host at every step")

    def _capture_graph(self, built: BuiltScene, function: Callable[[], Any], warm_up: int) -> tuple[Any, int]:
        """Call a function `warm_up` times, then capture its GPU work as a CUDA graph, on a separate stream.

        Returns the graph and the number of substeps that it takes.
        """
        torch, engine = torch_module(), built.engine
        current_stream = torch.cuda.current_stream(engine.device.name)
        stream = torch.cuda.Stream(engine.device.name)
        stream.wait_stream(current_stream)
        with torch.cuda.stream(stream):
            share_torch_stream(engine.device)  # Warp launches to the capture stream
            for _ in range(warm_up):
                function()
            graph = torch.cuda.CUDAGraph()
            steps = self._capture_launches(torch.cuda.graph(graph, stream=stream), function, engine)
        current_stream.wait_stream(stream)
        share_torch_stream(engine.device)
        return graph, steps

    def _capture_launches(self, capture_context: Any, function: Callable[[], Any], engine: Engine) -> int:
        """Call a function while a CUDA graph is being captured (context manager `capture_context`).

        Returns the number of captured substeps; the engine's step count and time are not changed.
        """
        before, self._is_capturing = engine.step_count, True
        try:
            with capture_context:
                function()
        finally:
            self._is_capturing = False
        steps = engine.step_count - before
        engine.advance_clock(-steps)  # recorded, not executed
        return steps


def _call_without_result(function: Callable[[], Any]) -> None:
    """Call a function and discard its result, like a graph replay."""
    function()


# ------------------------------------------------------------------------------------------- open-loop rollouts

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
        """Open-loop rollout: apply commands (n_commands, n_envs, n) or (n_commands, n), each for `hold` steps.

        On a CPU as one fused program, unless the host has work after every step.

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
        array = check_finite(as_array(values, built.arrays.dtype, f"rollout: {kind}"), f"rollout: {kind}")
        name, rows = _command_rows(entity, kind, idx)
        _check_shape(array, kind, built.n_envs, len(rows))
        command(array[0], idx)
        if built.controls.needs_prepare:
            self._stepper.prepare()
        array = array[:, None] if array.ndim == 2 else array
        fused = self._get_fused_rollout(len(array), hold * self._scene.substeps)
        fused.run(name, rows, np.swapaxes(array, 1, 2))
        self._stepper.check_overflow()
        info, outputs = entity.info, built.outputs
        own = {"qpos": slice(info.q_start, info.q_end), "vel": slice(info.dof_start, info.dof_end)}
        return Rollout(
            *(outputs.convert_owned(np.swapaxes(fused.recorded[key][:, part], 1, 2)) for key, part in own.items())
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
        """Open-loop rollout with separate launches: apply each command, take `hold` steps, record the entity's state.

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


def _check_shape(array: np.ndarray, kind: str, n_envs: int, n: int) -> None:
    """Raise `KinemaError` unless commands have shape (n_commands, n) or (n_commands, n_envs or 1, n)."""
    is_batch = array.ndim == 2 or (array.ndim == 3 and array.shape[1] in (1, n_envs))
    if not is_batch or not len(array) or array.shape[-1] != n:
        shapes = f"(n_commands, {n}) or (n_commands, {n_envs}, {n})"
        raise KinemaError(f"rollout: {kind}: expected values of shape {shapes}, not {array.shape}")


def _command_rows(entity: Entity, kind: str, idx: Selection) -> tuple[str, np.ndarray]:
    """Name of the engine array of a command kind (`ctrl` or `command`), and rows of the selected actuators or dofs."""
    if kind == "ctrl":
        return "ctrl", entity._index.actuator_rows(idx, "rollout: idx")
    return "command", entity._index.dof_rows(idx, "rollout: idx")
