"""Stepping and resetting a built scene: step callbacks, CUDA graph capture, contact overflow and error handling.

Step callbacks (timed sensors, recordings) force one launch per step; without them all steps of a call are one launch.
"""

from __future__ import annotations

import os
import warnings
from collections.abc import Callable, Sequence
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np

from kinema.builder import EntitySpec
from kinema.core import Diagnostics, KinemaError
from kinema.dynamics import DEFAULT_CONTACTS_PER_FRAME_PAIR, Engine
from kinema.runtime import share_torch_stream, torch_module

from .arguments import boolean, nonnegative_float, positive_int, resolve_envs
from .built_scene import BuiltMixin, BuiltScene
from .console import ProgressBar
from .contacts import collect_contacts
from .entity import Entity
from .recording import Recording, Replay
from .recording_formats import RecordedScene
from .sensors import Sensors
from .state import SceneState, keyframe_state, reset_on_gpu, restore_state, snapshot_state

# -------------------------------------------------------------------------------------- sensors and recordings


class StepObserversMixin(BuiltMixin):
    """Part of `Scene`: sensors and recordings, which observe every step."""

    substeps: int
    entities: list[Entity]
    _entity_specs: list[EntitySpec]
    _sensors: Sensors | None = None
    _recordings: tuple[Recording, ...] | list[Recording] = ()

    @property
    def sensors(self) -> Sensors:
        """Sensors of all files by name: `scene.sensors["imu"].read()`; see `docs/sensors.md`."""
        if self._sensors is None:
            self._sensors = Sensors(self.built)
        return self._sensors

    def record(
        self,
        path: str | os.PathLike[str],
        *,
        every: int = 1,
        envs_idx: Any = None,
        sensors: bool = False,
        env_spacing: float = 2.0,
    ) -> Recording:
        """Start recording; the current state is the first frame.

        `close()`, or the end of a `with` block, writes the file.

        Args:
            path: file whose suffix selects the format: `.npz` (arrays), `.parquet` (table), `.mcap` (Foxglove; extra
                `record` for both), or `.usda`, `.usdc`, `.usd` (geometry with animated link poses).
            every: number of steps between frames; default 1.
            envs_idx: environments by index, slice or mask; None for all.
            sensors: whether sensor readings are recorded too (not in USD); default False.
            env_spacing: distance of the environments in USD [m]; default 2.

        Returns:
            The open recording.
        """
        options = {
            "every": positive_int(every, "record", "step"),
            "envs_idx": envs_idx,
            "sensors": boolean(sensors, "sensors"),
        }
        variants = [
            ((e.description,) if e._variants is None else e._variants.descriptions, e.variant_idx)
            for e in self.entities
        ]
        entities = [(p.description, p.pose) for p in self._entity_specs]
        recorded = RecordedScene(self.built, entities, lambda: self.sensors.data, variants)
        recording = Recording(recorded, Path(path), **options, spacing=nonnegative_float(env_spacing, "env_spacing"))  # type: ignore[arg-type]
        self._recordings = [r for r in self._recordings if r.is_open] + [recording]
        return recording

    def replay(self, path: str | os.PathLike[str]) -> Replay:
        """Open a recording of the same entities for replay.

        Example: `for time in scene.replay(path)` sets the state of each frame and yields its time [s].

        Args:
            path: path of the recording, `.npz`, `.parquet` or `.mcap`.
        """
        return Replay(self.built, Path(path))

    def _step_callbacks(self) -> list[Callable[[], None]]:
        """Functions to call after each step: sampling of timed sensors, and open recordings."""
        sensors = self._sensors
        timed = [sensors._error_model.sample] if sensors is not None and sensors.has_rate_or_delay else []
        return timed + [r.on_step for r in self._recordings if r.is_open]

    def _advance_steps(self, n_steps: int) -> None:
        """Take steps: one launch for all, or one launch per step followed by the step callbacks if there are any."""
        callbacks = self._step_callbacks()
        for _ in range(n_steps) if callbacks else range(1):
            self._launch_steps(1 if callbacks else n_steps)
            for callback in callbacks:
                callback()

    def _launch_steps(self, n_steps: int) -> None:
        """Launch steps (with substeps) of the engine; only advance the clock if the scene has no dofs."""
        built = self.built
        if built.model.n_dofs:
            built.engine.step(n_steps * self.substeps)
        else:
            built.engine.advance_clock(n_steps * self.substeps)

    @property
    def _has_timed_sensors(self) -> bool:
        """Whether any sensor has a rate or delay, and so a history of measurements."""
        return self._sensors is not None and self._sensors.has_rate_or_delay

    def _reset_sensor_history(self, envs: np.ndarray | None) -> None:
        """Replace the history of timed sensors by the current measurement, in the given environments (None for all)."""
        if self._sensors is not None and self._sensors.has_rate_or_delay:
            self._sensors._error_model.sample(restart=envs is None, envs=envs)


# ------------------------------------------------------------------------------------------ CUDA graph capture


class CudaGraphMixin(StepObserversMixin):
    """Part of `Scene`: capture of steps and PyTorch operations as a CUDA graph."""

    on_error: str
    _is_capturing: bool = False
    """Whether a CUDA graph is being captured, during which the host must not synchronize with the GPU."""

    def capture(self, function: Callable[[], Any], *, warm_up: int = 3) -> Callable[[], None]:
        """Capture the GPU work of a function as a CUDA graph, and return a function that replays the graph.

        The function may call getters, setters, `step`, and `reset` with masks, and use PyTorch operations on tensors of
        the scene's GPU; results must be written to existing tensors, and no tensor may be created from host values. It
        is called `warm_up` times first, with effect, so that everything is compiled. Replaying advances the simulated
        time. On a CPU the returned function calls `function`.

        Args:
            function: function to capture.
            warm_up: number of calls before the capture; default 3.

        Returns:
            A function that repeats the captured work.
        """
        built, warm_up = self.built, positive_int(warm_up, "capture: warm_up", "call")
        if built.engine.device.is_cpu:
            return partial(_call_without_result, function)
        self._check_capturable()
        graph, steps = self._capture_graph(built, function, warm_up)
        settings = built.engine.settings

        def replay() -> None:
            current = built.engine.settings
            if self._built_scene is not built or (current is not settings and current != settings):
                raise KinemaError("capture: the program of the scene has changed: capture again")
            graph.replay()
            built.engine.advance_clock(steps)
            built.engine.mark_modified()

        return replay

    def _check_capturable(self) -> None:
        """Raise `KinemaError` if steps need the host: NumPy output, step callbacks, automatic resets, clock sensors."""
        built = self.built
        if not built.outputs.on_gpu:
            raise KinemaError('capture: tensors are required on a GPU: use Scene(out="torch")')
        if self._step_callbacks():
            raise KinemaError("capture: recordings and sensors with a rate or delay need the host after every step")
        if self.on_error == "reset":
            raise KinemaError(
                'capture: Scene(on_error="reset") needs the host: use reset(get_error_envs_mask()) instead'
            )
        if built.engine.uniform.layout.rows["clock"][1]:
            raise KinemaError("capture: clock sensors need the host at every step")

    def _capture_graph(self, built: BuiltScene, function: Callable[[], Any], warm_up: int) -> tuple[Any, int]:
        """Warm up and capture a function on a separate CUDA stream.

        Return the graph and the number of substeps it takes.

        Args:
            built: the built scene.
            function: function to capture.
            warm_up: number of calls before the capture.
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
        """Call a function inside the capture context.

        Return the number of substeps recorded, which are not counted as taken.
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


# ------------------------------------------------------------------------------ contacts, overflow and errors

ON_ERROR = ("flag", "freeze", "reset")
"""Handling of environments with non-finite values."""
ON_OVERFLOW = ("keep", "grow")
"""Reactions to a contact overflow."""
CAPACITY_MARGIN = 1.5
"""Ratio of the contact capacity to the largest demand found by `calibrate_max_contacts`."""
OVERFLOW_CHECK_INTERVAL = 64
"""Number of `step` calls on a GPU between checks for contact overflow, which synchronize; with PyTorch output on a GPU
the interval doubles after each check."""


class ContactMonitorMixin(CudaGraphMixin):
    """Part of `Scene`: contacts, contact capacity, overflow and error flags."""

    diagnostics: Diagnostics
    on_overflow: str
    _max_contacts: int | None
    _n_step_calls: int = 0

    @property
    def max_contacts(self) -> int:
        """Contact capacity per pair of bodies.

        May be changed at any time, which recompiles the programs when next needed. If it was not set and each
        environment is solved by one warp (GPU), it is the capacity per environment. If the contacts exceed the
        capacity, the deepest are kept; see `get_overflow_envs_mask`.
        """
        if self._max_contacts is not None:
            return self._max_contacts
        return DEFAULT_CONTACTS_PER_FRAME_PAIR if self._built_scene is None else self._built_scene.contact_capacity

    @max_contacts.setter
    def max_contacts(self, count: int) -> None:
        capacity = positive_int(count, "max_contacts", "contact")
        if self._built_scene is None:
            self._max_contacts = capacity
        elif capacity != self.max_contacts:
            self._max_contacts = capacity
            self._built_scene.engine.set_contact_capacity(capacity)

    def calibrate_max_contacts(self, n_steps: int = 200, seed: int = 0) -> int:
        """Determine the contact capacity by a trial simulation, and set `max_contacts`; returns the new value.

        All environments take steps from the current state; all but the first get random velocities (standard deviation
        1 m/s, 1 rad/s) added. Then the state is restored bit for bit. If the demand exceeded the capacity, it is set to
        1.5 times the demand. Nothing is simulated if the capacity covers every possible contact.

        Args:
            n_steps: number of substeps of the trial; default 200.
            seed: random seed of the velocities; default 0.
        """
        self._contact_counter("most_wanted")
        n_steps, built = positive_int(n_steps, "calibrate_max_contacts", "step"), self.built
        if not built.contacts_may_overflow:
            return self.max_contacts
        snapshot, engine = snapshot_state(built), built.engine
        velocities = np.array(engine.array_view("vel").numpy())
        velocities[:, 1:] += np.random.default_rng(seed).normal(size=velocities[:, 1:].shape)
        engine.array_view("vel").assign(velocities)
        engine.step(n_steps)
        demand = int(self.get_required_max_contacts().max(initial=0))
        restore_state(built, snapshot)
        if demand > self.max_contacts:
            self.max_contacts = int(np.ceil(CAPACITY_MARGIN * demand))
            message = f"two bodies had {demand} contacts in a trial of {n_steps} steps: the capacity is"
            self.diagnostics.note("scene.room", f"{message} {self.max_contacts} now")
        return self.max_contacts

    def get_error_envs_mask(self) -> Any:
        """Mask of the environments whose state became non-finite since their last reset, bool (n_envs,)."""
        built = self.built
        if built.outputs.on_gpu:
            return (built.arrays.source("error").to_torch() != 0.0).any(dim=0)
        return (built.arrays.get("error") != 0.0).any(axis=0)

    def get_overflow_envs_mask(self) -> np.ndarray:
        """Mask of the environments whose contacts exceeded the capacity since their last reset, bool (n_envs,)."""
        return self._contact_counter("most_wanted") > 0.0

    def get_peak_contacts(self) -> np.ndarray:
        """Largest number of simultaneous contacts since the last reset, dropped contacts included, (n_envs,)."""
        return self._contact_counter("most_contacts").astype(np.int64)

    def get_required_max_contacts(self) -> np.ndarray:
        """Sufficient `max_contacts` since the last reset, (n_envs,); 0 if the capacity was not exceeded."""
        return self._contact_counter("most_wanted").astype(np.int64)

    @property
    def bytes_per_env(self) -> int:
        """Memory per environment [bytes]: state, commands and, on a GPU, the working memory of a step.

        The working memory is known once the step is compiled (`prepare`); it grows with `max_contacts`.
        """
        return self.built.engine.bytes_per_env

    def get_contacts(self, envs_idx: Any = None) -> dict[str, np.ndarray]:
        """Current contacts as arrays by name, (n_envs, n, ...), n the largest number of contacts in one environment.

        Args:
            envs_idx: environments by index, slice or mask; None for all.

        Returns:
            `position` (3,) [m], `normal` (3,) from a to b, `penetration` [m], `force_a`, `force_b` (3,), the forces on
                a and b [N], `geom_a`, `geom_b`, `link_a`, `link_b` (indices in the scene; link -1 is the world), and
                `valid_mask` (n_envs, n), which marks the valid rows.
        """
        self._report_overflow()
        return collect_contacts(self.built, envs_idx)

    def get_energy(self) -> tuple[np.ndarray, np.ndarray]:
        """Kinetic energy, and potential energy of gravity and joint springs, of the whole scene [J], (n_envs,) each."""
        system = self.built.engine.fields.system
        return np.array(system.kinetic_energy.numpy()), np.array(system.potential_energy.numpy())

    def _contact_counter(self, name: str) -> np.ndarray:
        """Contact statistic of each environment, (n_envs,); raises `KinemaError` if contacts are disabled."""
        built = self.built
        if not built.engine.settings.contacts:
            raise KinemaError(
                "contacts are disabled in this scene: it was created with contacts=False, or its file disables them"
            )
        return np.array(built.arrays.get(name)[0])

    def _grow_contact_capacity(self) -> None:
        """Raise the contact capacity to the largest demand since the last reset."""
        demand = int(self.get_required_max_contacts().max(initial=0)) if self.built.engine.settings.contacts else 0
        self.max_contacts = max(self.max_contacts, demand)

    def _check_overflow_after_steps(self) -> None:
        """Check for contact overflow after a call of `step`.

        On a GPU only now and then, because reading the counters synchronizes. Skipped during graph capture and if the
        contacts cannot exceed the capacity.
        """
        built = self.built
        if self._is_capturing or not built.contacts_may_overflow:
            return
        self._n_step_calls += 1
        due = self._n_step_calls % OVERFLOW_CHECK_INTERVAL == 0
        if built.outputs.on_gpu:
            due = due and (self._n_step_calls & (self._n_step_calls - 1)) == 0
        if built.engine.device.is_cpu or due:
            self._report_overflow()

    def _report_overflow(self) -> None:
        """Warn of a contact overflow with the required capacity, once.

        With `on_overflow="grow"` raise the capacity each time.
        """
        if not self.built.contacts_may_overflow:
            return
        demand = self._contact_counter("most_wanted")
        max_demand = int(demand.max(initial=0))
        grows = self.on_overflow == "grow"
        if max_demand <= self.max_contacts or (not grows and any(d.code == "scene.overflow" for d in self.diagnostics)):
            return
        count = int(np.count_nonzero(demand))
        scope = "" if self.built.engine.settings.use_warps else f" between two bodies ({self.max_contacts})"
        environments = f"{count} of {len(demand)} environments"
        message = f"{environments} had more contacts than the capacity{scope}: the deepest are kept"
        if grows:
            self.max_contacts = max(2 * self.max_contacts, max_demand)
            hint = f"the capacity is {self.max_contacts} now; Scene(max_contacts={max_demand}) sets it from the start"
        else:
            hint = f"use Scene(max_contacts={max_demand}), or scene.reset(grow=True)"
        self.diagnostics.warning("scene.overflow", message, hint=hint)
        warnings.warn(f"{message}; {hint}", RuntimeWarning, stacklevel=4)


# ------------------------------------------------------------------------------------------- step and reset


class SteppingMixin(ContactMonitorMixin):
    """Part of `Scene`: compilation, steps and resets."""

    progress: ProgressBar

    def prepare(self, *, wait: bool | None = None) -> None:
        """Compile the step, or load it from the cache, so that the first step is as fast as later ones.

        Args:
            wait: whether to wait until the optimised code is compiled; None for the setting `Scene(wait=...)`.
        """
        built = self.built
        if built.model.n_dofs:
            with self.progress.display(2):
                built.engine.compile_step(wait_for_optimised=wait)
        built.controls.needs_prepare = False

    def step(self, n: int = 1) -> None:
        """Take steps of duration `dt`, all in one launch unless sensors or recordings observe every step.

        Compiles the step if necessary. With `on_error="reset"` failed environments are reset first.

        Args:
            n: number of steps; default 1.
        """
        built = self.built
        n = positive_int(n, "step", "step")
        if built.controls.needs_prepare:
            self.prepare()
        if self.on_error == "reset":
            self._reset_failed_envs()
        self._advance_steps(n)
        self._check_overflow_after_steps()

    def reset(self, envs_idx: Any = None, keyframe: str | int | None = None, *, grow: bool = False) -> None:
        """Reset environments to the initial state or to a keyframe: state, commands, external forces and error flags.

        Args:
            envs_idx: environments by index, slice or mask; a CUDA tensor is used without synchronization. None for all.
            keyframe: name or index of a keyframe (`Entity.keyframe_names`): entities that have it take its coordinates,
                velocities, controls and activations, all others their initial state. None for the initial state.
            grow: whether to raise `max_contacts` to the largest demand since the last reset; default False.
        """
        if isinstance(envs_idx, SceneState):
            raise KinemaError("reset: this is a state: use scene.set_state(state)")
        built, grow = self.built, boolean(grow, "grow")
        state = None if keyframe is None else keyframe_state(built.model, keyframe)
        unsupported = [] if state is None else state.unsupported
        self._note_once("scene.keyframe-part", [f"{text} are not simulated" for text in unsupported])
        on_gpu = built.outputs.on_gpu and built.outputs.is_gpu_tensor(envs_idx)
        if on_gpu and not grow and not self._has_timed_sensors:
            reset_on_gpu(built, envs_idx, state, keyframe)
            return
        self._report_overflow()
        if grow:
            self._grow_contact_capacity()
        envs = resolve_envs(envs_idx, built.n_envs)
        count = built.n_envs if envs is None else len(envs)
        if built.model.n_dofs:
            built.engine.reset(envs)
        if state is None:
            built.controls.reset(envs)
        else:
            act = state.act if built.model.actuators.has_activation.any() else state.act[:0]
            for name, row in (("qpos", state.qpos), ("vel", state.qvel), ("act", act)):
                built.arrays.write(name, slice(None), np.broadcast_to(row, (count, len(row))), envs)
            built.controls.reset(envs, state.qpos, state.ctrl)
        for name in ("cfrc_applied_ang", "cfrc_applied_vel"):
            if built.engine.settings.external_forces:
                rows = 3 * built.model.n_links
                built.arrays.write(name, slice(None), np.zeros((count, rows)), envs)
        self._reset_sensor_history(envs)

    def _reset_failed_envs(self) -> None:
        """Reset the environments whose state became non-finite."""
        failed = self.get_error_envs_mask()
        if failed.any():
            self.reset(envs_idx=failed)

    def _note_once(self, code: str, messages: Sequence[str]) -> None:
        """Add notes to the diagnostics that they do not contain yet."""
        known = {d.message for d in self.diagnostics if d.code == code}
        for message in (m for m in messages if m not in known):
            self.diagnostics.note(code, message)
