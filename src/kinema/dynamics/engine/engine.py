"""The simulation engine: state and inputs of all environments on a device, compiled step, control modes and rollouts.

Memory consists of arenas of arrays (values, environments): `state` (state and per-environment parameters), `controls`
(inputs of a step) and `uniform` (parameters shared by all environments).
"""

from __future__ import annotations

import gc
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import fields, is_dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.core import Array, CyclicObjects, KinemaError, content_digest, to_identifier
from kinema.ir import UNIFORM
from kinema.model import Model, empty_geoms, empty_pairs
from kinema.runtime import (
    Arena,
    ArenaLayout,
    ArrayView,
    Device,
    Kernel,
    LaunchArguments,
    Partitioning,
    ProgramSource,
    capture_graph,
    dump_arrays,
    dump_folder,
    first_tier,
    padded_stride,
    start_gpu_compilers,
)

from ..arrays import (
    ARRAYS,
    ARRAYS_BY_NAME,
    CONTROL_GAINS,
    PER_ENV_PARAMETER_ARRAY,
    ArrayInfo,
    ArrayUse,
    arena_arrays,
    initial_values,
)
from ..extensions import program_key
from ..lowering.cached_analysis import StepTarget, choose_step_form, derive_constants
from ..model_variants import INVWEIGHT_PARAMETERS, ModelVariants, check_same_structure
from ..queries.fields import Fields
from ..settings import RK4_STAGES, ControlMode, InputMode, Integrator, Settings

if TYPE_CHECKING:
    from kinema.ir import Program


# -------------------------------------------------------------------------------------------------------- control modes


def command_gains(model: Model, modes: Array, kp: Array, kv: Array) -> tuple[Array, Array, Array]:
    """Gains (gain_command, gain_position, gain_velocity) of each dof for its control mode.

    The control force is gain_command * command - gain_position * q - gain_velocity * v. Position mode uses (kp, kp,
    kv), velocity mode (kv, 0, kv), force mode (1, 0, 0) and actuator mode zeros. Arrays are (n_dofs, 1) or (n_dofs,
    n_envs). Ball joints have no position control (kp = 0).
    """
    kp = np.where(model.dofs.q_idx[:, None] >= 0, kp, 0.0)  # no position control for components of a quaternion
    position, velocity = modes == ControlMode.POSITION, modes == ControlMode.VELOCITY
    by_command = np.where(position, kp, np.where(velocity, kv, np.where(modes == ControlMode.FORCE, 1.0, 0.0)))
    return by_command, np.where(position, kp, 0.0), np.where(position | velocity, kv, 0.0)


def actuator_enable_mask(model: Model, modes: Array) -> Array:
    """1 for enabled actuators, else 0, (n_actuators, 1 or n_envs).

    An actuator is disabled if any of its dofs is in another control mode than ACTUATOR.
    """
    moves_dof = (model.actuators.moment != 0.0).astype(np.float64)
    return (moves_dof @ (modes != ControlMode.ACTUATOR) == 0.0).astype(np.float64)


# ----------------------------------------------------------------------------------------- model dumps and memory check


def dump_model(name: str, digest: str, model: Model) -> None:
    """Write all arrays of a model to the folder named by the environment variable `KINEMA_DUMP`, if set."""
    if dump_folder() is not None:
        dump_arrays(name, digest, dict(flatten_model_arrays(model)))


def flatten_model_arrays(value: object, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Yield all values of a model as NumPy arrays with their path, such as `frames.parent_idx` or `entities.0.name`.

    Descends into dataclasses and lists of dataclasses or arrays; other objects are converted to text.
    """
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from flatten_model_arrays(getattr(value, field.name), f"{name}.{field.name}" if name else field.name)
    elif isinstance(value, list | tuple) and any(is_dataclass(x) or isinstance(x, np.ndarray) for x in value):
        for index, element in enumerate(value):
            yield from flatten_model_arrays(element, f"{name}.{index}")
    elif value is not None:
        is_plain = isinstance(value, np.ndarray | bool | int | float | str)
        array = np.asarray(value) if is_plain else _as_array(value)
        yield name, array if array.dtype != np.object_ else np.asarray([repr(x) for x in array.ravel()])


def _as_array(value: object) -> np.ndarray:
    """Array of a list of strings or numbers; the `repr` of any other object."""
    if isinstance(value, list | tuple) and all(isinstance(x, str | bool | int | float) for x in value):
        return np.asarray(value) if value else np.zeros(0)
    return np.asarray(repr(value))


def check_memory(n_envs: int, device: Device, precision: str, layouts: list[ArenaLayout]) -> None:
    """Raise `KinemaError` if the arenas of all environments do not fit into the free memory of the device."""
    per_env = sum(layout.n_rows for layout in layouts) * (4 if precision == "single" else 8)
    needed = per_env * padded_stride(n_envs, device)
    if needed > device.free_memory():
        gc.collect()  # scenes that were dropped
    if needed > (free := device.free_memory()):
        raise KinemaError(
            f"{n_envs:,} environments need {needed / 2**20:,.0f} MiB ({per_env:,} bytes each), and {device.name} has "
            f"{free / 2**20:,.0f} MiB free: room for about {free // per_env:,}"
        )


# --------------------------------------------------------------------------------------------------------------- engine

Progress = Callable[[str], AbstractContextManager[None]]
"""Called with a description of an activity; the context manager is active while the activity runs."""
SINGLE_PRECISION_TOLERANCE = 5e-6
"""Lower bound of the solver tolerance in single precision."""
ENGINES = CyclicObjects(max_dropped=8)
"""All engines: those of dropped scenes are freed before their memory adds up."""


def _no_progress(_: str) -> AbstractContextManager[None]:
    return nullcontext()


class Engine:
    """All environments of one model on one device."""

    def __init__(  # noqa: PLR0913  one parameter per option
        self,
        model: Model,
        settings: Settings,
        n_envs: int,
        device: Device,
        *,
        precision: str = "single",
        lanes: int | None = None,
        threads: int | None = None,
        codegen: str = "auto",
        n_partitions: int | None = None,
        use_warps: bool | None = None,
        control_modes: Sequence[ControlMode] | None = None,
        progress: Progress = _no_progress,
        variants: ModelVariants | None = None,
        wait_for_optimised: bool = False,
        digest: str | None = None,
    ) -> None:
        """Derive model constants, choose the form of the step, allocate all arenas and reset the state.

        Args:
            model: the model; the first of `variants`, if given.
            settings: settings of the step.
            n_envs: number of environments.
            device: CPU or GPU.
            precision: `single` or `double`.
            lanes: SIMD lanes of compiled CPU code; None for the device's choice.
            threads: maximum number of CPU threads; None for all cores.
            codegen: one of `CODEGEN_MODES`.
            n_partitions: GPU threads that share an environment; None to choose.
            use_warps: whether a warp solves the constraints of an environment; None to choose.
            control_modes: initial control mode of each dof; None for the actuators of the file.
            progress: called around tracing and compilation.
            variants: model variants of the environments; None if all environments have the same model.
            wait_for_optimised: whether to wait for the optimised tier of compiled code.
            digest: content digest of all models, if known.
        """
        if n_envs < 1:
            raise KinemaError(f"n_envs: a scene needs at least one environment, not {n_envs}")
        ENGINES.register(self)
        settings = replace(settings, contacts=settings.contacts and model.options.contact)
        self.variants = ModelVariants.uniform(model, n_envs) if variants is None else variants
        """Model variants and their assignment to environments."""
        digest = content_digest(self.variants.models) if digest is None else digest
        models, self.digest = _derive_model_constants(self.variants.models, settings, precision, digest, device)
        """Content digest of the models with derived constants: part of the cache keys of programs."""
        self.n_envs = n_envs
        self.device = device
        self.precision = precision
        self.threads = threads
        self.codegen = codegen
        self.wait_for_optimised = wait_for_optimised
        """Whether to wait for the optimised tier of compiled code."""
        self.lanes = 1 if model.has_pair_rules else lanes or device.lanes(precision, n_envs, threads)
        self.is_scalar = device.is_cpu and self.lanes == 1
        """Whether scalar code steps the environments."""
        limit_tolerance = precision == "single" and (settings.limits or settings.constraints or settings.contacts)
        settings = (
            replace(settings, tolerance=max(settings.tolerance, SINGLE_PRECISION_TOLERANCE))
            if limit_tolerance
            else settings
        )
        target = StepTarget(device.is_cpu, codegen, use_warps, n_partitions)
        settings, self.uses_loops, parameters = choose_step_form(models, settings, target, self.digest)
        """Whether programs use loops over tables instead of unrolled code."""
        self.settings = settings
        self._set_models([models[0].with_derived(per_env_parameters=parameters), *models[1:]])
        model = self.model
        dump_model(self.name, self.digest, model)
        if settings.n_partitions > 1 and (device.is_cpu or self.uses_loops):
            raise KinemaError(
                "n_partitions: several threads can share an environment only on a GPU and in unrolled code"
            )
        self.masses_changed = False
        """Whether masses were set since derived parameters (invweights) were computed."""
        self.dof_invweight: np.ndarray | None = None
        """Invweights of dofs per environment, (n_dofs, n_envs), once masses were set."""
        self.step_count = 0
        """Number of steps taken."""
        self.sim_time = 0.0
        """Simulated time [s]."""
        self._dt = settings.dt
        self._modification_count = 0
        self.progress = progress
        self._allocate_arenas()
        self._kernels: dict[Settings, Kernel] = {}
        self._invweight_programs: dict[Settings, Program] = {}
        self._compile_lock = threading.Lock()
        self._launches: dict[Settings, dict[int, Callable[[], None]]] = {}
        self._current_launches = (settings, self._launches.setdefault(settings, {}))
        """Settings used last and their launches: a lookup by hash of the settings takes longer than a launch."""
        self.fields = Fields(self)
        """Fields of the array contract, computed on demand."""
        for info in ARRAYS:
            if info.use is not ArrayUse.STATE and info.name in self._arenas:
                self.array_view(info.name).assign(self._initial_values(info))
        self.reset()
        self.set_control_modes(control_modes if control_modes is not None else [ControlMode.ACTUATOR] * model.n_dofs)

    def _allocate_arenas(self) -> None:
        """Allocate the arenas of state, controls and uniform values, and record the arena and offset of each array.

        Raises `KinemaError` if they do not fit into the free memory of the device.
        """
        layouts = {
            name: ArenaLayout.from_sizes(name, arena_arrays(name, self.model, self.settings))
            for name in ("state", "controls", UNIFORM)
        }
        check_memory(self.n_envs, self.device, self.precision, [layouts["state"], layouts["controls"]])
        arenas = {name: self.new_arena(layout, self.n_envs) for name, layout in layouts.items()}
        self.state, self.controls, self.uniform = arenas["state"], arenas["controls"], arenas[UNIFORM]
        self._arenas = {array: arena for arena in arenas.values() for array in arena.layout.rows}
        self._empty_output = Arena(ArenaLayout("out"), 1, self.device, self.precision)
        self.array_offsets = {
            array: offset for layout in layouts.values() for array, offset in layout.offsets().items()
        }

    def new_arena(self, layout: ArenaLayout, n_envs: int) -> Arena:
        """Arena for a number of environments, in the strides of the engine's programs."""
        return Arena(layout, n_envs, self.device, self.precision, is_scalar=self.is_scalar)

    def _set_models(self, models: Sequence[Model]) -> None:
        self.variants = replace(self.variants, models=models)
        self.model = models[0]
        """The first model variant, with derived constants."""

    def reset(self, envs: Any = None) -> None:
        """Set state arrays to their initial values and clear error flags, in all environments or in `envs`."""
        for info in ARRAYS:
            if info.use is ArrayUse.STATE and info.name in self._arenas and len(self.array_view(info.name).numpy()):
                self.array_view(info.name).assign(initial_values(info, self.model, self.settings), envs)

    def _initial_values(self, info: ArrayInfo) -> np.ndarray:
        """Initial values of an array: one column for all environments, or one each if model variants differ."""
        if len(self.variants.models) == 1 or not info.is_per_env(self.settings):
            return initial_values(info, self.model, self.settings)
        if info.name == PER_ENV_PARAMETER_ARRAY:
            assert self.model.derived.per_env_parameters is not None
            return self.model.derived.per_env_parameters.values[:, self.variants.variant_of_env]
        columns = [initial_values(info, model, self.settings) for model in self.variants.models]
        return np.concatenate(columns, axis=1)[:, self.variants.variant_of_env]

    def update_derived_parameters(self) -> None:
        """Recompute the invweights of constraints per environment if masses were set since the last call."""
        settings = self.settings
        if not self.masses_changed:
            return
        self.masses_changed = False
        if self.model.derived.per_env_parameters is None or not (
            settings.limits or settings.constraints or settings.contacts
        ):
            return
        from ..lowering.invweight import compute_per_env_invweights

        names = [
            name
            for name in (*sorted(settings.per_env & INVWEIGHT_PARAMETERS), PER_ENV_PARAMETER_ARRAY)
            if self._arenas[name].layout.rows[name][1]
        ]
        arrays = {name: self.array_view(name).numpy() for name in names}
        rows, values, self.dof_invweight = compute_per_env_invweights(
            self.model, settings, arrays, self._invweight_programs, self.precision
        )
        if len(rows):
            parameters = np.array(arrays[PER_ENV_PARAMETER_ARRAY])
            parameters[rows] = values
            self.array_view(PER_ENV_PARAMETER_ARRAY).assign(parameters)

    @property
    def version(self) -> tuple[object, ...]:
        """Value that changes with each step, settings change and access to a writable array."""
        return self.step_count, self._modification_count, self.settings

    def mark_modified(self) -> None:
        """Record that an array was written outside of a step, so that fields are recomputed."""
        self._modification_count += 1

    def array_view(self, name: str) -> ArrayView:
        """Readable and writable view of an array of the state, inputs or parameters; marks the state as modified."""
        self.mark_modified()
        return self._arenas[name].view(name)

    def has_array(self, name: str) -> bool:
        """Whether the engine has an array of the state, inputs or parameters."""
        return name in self._arenas

    def read_array(self, name: str) -> np.ndarray:
        """Current values of an array of the state, inputs or parameters, not to be modified: a copy from a GPU."""
        return self._arenas[name].view(name).numpy()

    @property
    def bytes_per_env(self) -> int:
        """Memory per environment [bytes]: state, inputs and, once the step is compiled, its scratch memory."""
        rows = self.state.layout.n_rows + self.controls.layout.n_rows
        kernel = self._kernels.get(self.settings)
        return rows * self.state.dtype.itemsize + (0 if kernel is None else kernel.bytes_per_env(self.n_envs))

    def set_contact_capacity(self, capacity: int) -> None:
        """Set the maximum number of contacts per frame pair and discard compiled programs."""
        with self._compile_lock:
            self._set_models(
                [model.with_derived(max_contacts_per_frame_pair=capacity) for model in self.variants.models]
            )
            self.digest = content_digest(self.digest, "room", capacity)
            self._kernels.clear()
            self._launches.clear()
            self._current_launches = (self.settings, self._launches.setdefault(self.settings, {}))
            self.fields.discard_compiled()
            self.mark_modified()

    def set_control_modes(self, modes: Sequence[ControlMode] | np.ndarray | None) -> None:
        """Set the control mode of each dof, (n_dofs,) or (n_dofs, n_envs).

        Writes `ctrl_mode`, the enable mask of actuators and, if commands are used, the control gains. The input mode of
        the step (actuators only, commands with gains, or mixed modes that differ between environments) selects the
        program that runs.
        """
        n_dofs = self.model.n_dofs
        mode_array = np.asarray(modes, dtype=np.float64).reshape(n_dofs, -1) if n_dofs else np.zeros((0, 1))
        self.mark_modified()
        if n_dofs:
            self.array_view("ctrl_mode").assign(mode_array)
            self.array_view("actuator_on").assign(actuator_enable_mask(self.model, mode_array))
        is_uniform = mode_array.shape[1] == 1
        input_mode = (
            InputMode.COMMANDS
            if is_uniform or ARRAYS_BY_NAME[CONTROL_GAINS[0]].is_per_env(self.settings)
            else InputMode.MIXED
        )
        if is_uniform and (mode_array == ControlMode.ACTUATOR).all() and self.model.n_actuators:
            input_mode = InputMode.ACTUATORS
        self.settings = replace(self.settings, input_mode=input_mode)
        if input_mode is InputMode.COMMANDS and self.model.n_dofs:
            self._set_gains(mode_array)

    def _set_gains(self, modes: np.ndarray) -> None:
        """Write the gain arrays for the given control modes and the current kp and kv."""
        kp, kv = (np.asarray(self.array_view(name).numpy(), np.float64) for name in ("kp", "kv"))
        for name, values in zip(CONTROL_GAINS, command_gains(self.model, modes, kp, kv), strict=True):
            self.array_view(name).assign(values)

    def compile_step(self, *, wait_for_optimised: bool | None = None) -> None:
        """Compile the step program or load it from the cache.

        Waits for the optimised tier if `wait_for_optimised`; None uses the option of the engine.
        """
        if self.model.n_dofs:
            kernel = self._step_kernel()
            if self.wait_for_optimised if wait_for_optimised is None else wait_for_optimised:
                kernel.wait_optimised()

    @property
    def tier(self) -> str:
        """Tier of the code that the step runs: `baseline` or `optimised`; empty if the step is not compiled."""
        kernel = self._kernels.get(self.settings)
        return "" if kernel is None else kernel.tier

    @property
    def tier_seconds(self) -> dict[str, float]:
        """Seconds from the request of the step until each of its tiers became active, by tier."""
        kernel = self._kernels.get(self.settings)
        return {} if kernel is None else kernel.tier_seconds

    def _step_kernel(self) -> Kernel:
        kernel = self._kernels.get(self.settings)
        return self._compile_kernel(self.settings, self.progress) if kernel is None else kernel

    def _compile_kernel(self, settings: Settings, progress: Progress) -> Kernel:
        """Compile the step for given settings or load it from the cache; thread-safe, each program is compiled once."""
        with self._compile_lock:  # waits for a compilation in another thread
            if settings in self._kernels:
                return self._kernels[settings]
            tier = first_tier(wait=self.wait_for_optimised) if self.device.is_cpu else "optimised"
            with progress(f"compiling the step for {self.device.name}, {tier} code"):
                self._kernels[settings] = Kernel(
                    self.step_source(settings, progress),
                    self.array_offsets,
                    self.device,
                    self.precision,
                    lanes=self.lanes,
                    partitioning=self.partitioning(settings.n_partitions),
                    runs_per_step=self.runs_per_step,
                    n_envs=self.n_envs,
                    wait=self.wait_for_optimised,
                )
            return self._kernels[settings]

    def step_source(self, settings: Settings | None = None, progress: Progress = _no_progress) -> ProgramSource:
        """Program of the step for given settings, by default the current ones; it is not traced yet."""
        chosen = self.settings if settings is None else settings
        min_copies = 2 if self.codegen == "loops" else 1

        def trace() -> Program:
            from ..lowering.step_program import trace_step  # not needed if the program is cached
            from ..tree.kinematic_tree import forget_large_trees

            with progress("tracing the step"):
                offsets = self.array_offsets
                program = trace_step(self.model, chosen, offsets, loops=self.uses_loops, min_copies=min_copies)
            forget_large_trees()
            return program

        key = program_key("step", self.digest, chosen, self.uses_loops, min_copies)
        return ProgramSource(trace, key, f"{self.name}_step")

    @property
    def runs_per_step(self) -> int:
        """Runs of the step program per step: the stages of the integrator."""
        return RK4_STAGES if self.settings.integrator is Integrator.RK4 else 1

    @property
    def name(self) -> str:
        """Name of the programs in profilers and dumps: the name of the first entity."""
        return to_identifier(self.model.entities[0].name) if self.model.entities else "scene"

    def partitioning(self, count: int) -> Partitioning | None:
        """Assignment of program memory locations to `count` threads; None for a single thread."""
        if count == 1:
            return None
        from ..lowering.partition import partition_tree
        from ..tree.kinematic_tree import build_tree

        return Partitioning(count, partition_tree(build_tree(self.model), count).location_partition(self.model))

    def step(self, count: int = 1) -> None:
        """Advance all environments by `count` steps, in one launch.

        If previous velocities are tracked, the last step is a launch of its own after the velocities are stored.
        """
        self.update_derived_parameters()
        if self.fields.tracks_previous_velocity:
            if count > 1:
                self._launch_steps(count - 1)
            self.fields.store_previous_velocity()
            count = 1
        self._launch_steps(count)

    def _launch_steps(self, count: int) -> None:
        """Launch `count` steps with the current settings, preparing the launch on first use, and advance the clock."""
        if self._current_launches[0] is not self.settings:
            self._current_launches = (self.settings, self._launches.setdefault(self.settings, {}))
        launches = self._current_launches[1]
        if count not in launches:
            launches[count] = self._step_kernel().prepare_launch(self._launch_arguments(self.controls.data, count))
        launches[count]()
        self.advance_clock(count)

    def advance_clock(self, steps: int) -> None:
        """Add steps to the step count and the simulated time, and update the `clock` parameter if used."""
        self.step_count += steps
        self.set_time(self.sim_time + steps * self._dt)

    def set_time(self, time: float) -> None:
        """Set the simulated time [s], and the `clock` parameter if used."""
        self.sim_time = time
        if self.uniform.layout.rows["clock"][1]:
            self.uniform.view("clock").assign(np.array([[self.sim_time]]))

    @property
    def dt(self) -> float:
        """Time step [s]."""
        return self._dt

    @dt.setter
    def dt(self, dt: float) -> None:
        self._dt = dt
        self.array_view("dt").assign(np.array([[dt]]))

    def allocate_control_sequence(self, steps: int) -> Arena:
        """Allocate an arena for the inputs of several steps: arrays `command 0`, `ctrl 0`, ..., `command 1`, ...

        Control modes and actuator enable masks are copied from the current inputs to every step.
        """
        sizes = arena_arrays("controls", self.model, self.settings)
        arrays = [(f"{name} {t}", n) for t in range(steps) for name, n in sizes]
        arena = self.new_arena(ArenaLayout.from_sizes("controls", arrays), self.n_envs)
        for name in ("ctrl_mode", "actuator_on"):
            current = self.controls.view(name).numpy()
            for t in range(steps if len(current) else 0):
                arena.view(f"{name} {t}").assign(current)
        return arena

    def rollout(self, control_sequence: Arena, *, single_launch: bool = True) -> Callable[[], None]:
        """Return a function that takes one step with each of the inputs (controls) of `control_sequence`.

        All steps run in one launch, or in one launch each (captured as a CUDA graph on a GPU) if `single_launch` is
        false.
        """
        rows = self.controls.layout.n_rows
        steps = control_sequence.layout.n_rows // rows
        if single_launch:
            launch = self._step_kernel().prepare_launch(self._launch_arguments(control_sequence.data, steps, rows))
        else:
            arguments = [self._launch_arguments(control_sequence.data[t * rows : (t + 1) * rows]) for t in range(steps)]
            launch = capture_graph(
                self.device, [self._step_kernel().prepare_launch(step_arguments) for step_arguments in arguments]
            )

        def run() -> None:
            self.update_derived_parameters()
            launch()
            self.advance_clock(steps)

        return run

    def _launch_arguments(self, controls: Any, steps: int = 1, input_rows_per_step: int = 0) -> LaunchArguments:
        return LaunchArguments(
            self.state, controls, self._empty_output, self.uniform, steps, input_rows_per_step, self.threads
        )


def _derive_model_constants(
    models: Sequence[Model], settings: Settings, precision: str, digest: str, device: Device
) -> tuple[list[Model], str]:
    """Check that model variants have equal structure, drop geoms if contacts are disabled, and derive constants.

    Starts the compilers of a GPU if the model is not in the cache, as its programs are probably not in it either.
    Returns the completed models and their digest.
    """
    check_same_structure(models)
    if not settings.contacts:
        models = [model.with_tables(geoms=empty_geoms(), pairs=empty_pairs()) for model in models]

    def on_miss() -> None:
        if not device.is_cpu:
            start_gpu_compilers(device)

    return derive_constants(models, settings, precision, digest, on_miss)


# ------------------------------------------------------------------------------------------------------- fused rollouts

RECORDED_ARRAYS = ("qpos", "vel")
"""State arrays that are recorded after each control."""


class FusedRollout:
    """Steps on a CPU with a sequence of controls in one launch, recording the state after each control.

    Each control is applied for a fixed number of steps. Threads are not synchronised between controls; Python code runs
    only to record the state. Prepared once, it can run many times.
    """

    def __init__(self, engine: Engine, n_controls: int, steps_per_control: int) -> None:
        """Allocate the control sequence and prepare one launch: `n_controls` controls of `steps_per_control` steps."""
        self.n_controls, self.steps_per_control = n_controls, steps_per_control
        self._engine = engine
        self._rows_per_control = engine.controls.layout.n_rows
        self.control_sequence: Arena = engine.allocate_control_sequence(n_controls)
        self.recorded: dict[str, np.ndarray] = {}
        """Array name -> recorded values of the last run, (n_controls, values, environments)."""
        controls = [
            self.control_sequence.data[t * self._rows_per_control : (t + 1) * self._rows_per_control]
            for t in range(n_controls)
        ]
        self._kernel = engine._step_kernel()
        self._launch = self._kernel.prepare_rollout(
            [engine._launch_arguments(control, steps_per_control) for control in controls], self._record_states
        )

    def matches(self, engine: Engine, n_controls: int, steps_per_control: int) -> bool:
        """Whether the rollout is for this engine, its current step program, and these numbers of controls and steps."""
        return (engine, engine._step_kernel(), n_controls, steps_per_control) == (
            self._engine,
            self._kernel,
            self.n_controls,
            self.steps_per_control,
        )

    def run(self, name: str, rows: np.ndarray, values: np.ndarray) -> None:
        """Run the rollout from the current state: apply each control for several steps, then record the state.

        `values` (n_controls, elements, n_envs) are written to `rows` of the input array `name`; all other inputs keep
        their current values. The recorded states are in `recorded`; the last inputs stay in the engine's controls.
        """
        engine = self._engine
        start, _ = engine.controls.layout.rows[name]
        controls = self.control_sequence.data.reshape(self.n_controls, self._rows_per_control, -1)
        controls[:] = engine.controls.data
        controls[:, start + rows, : engine.n_envs] = values
        self.recorded = {
            array: np.zeros((self.n_controls, *engine.array_view(array).shape), self.control_sequence.dtype)
            for array in RECORDED_ARRAYS
        }
        self._live_arrays = {array: engine.array_view(array).numpy() for array in RECORDED_ARRAYS}
        engine.update_derived_parameters()
        self._launch()
        engine.advance_clock(self.n_controls * self.steps_per_control)
        engine.controls.data[:] = controls[-1]
        engine.mark_modified()

    def _record_states(self, control_index: int, envs: slice) -> None:
        """Callback after a control: copy the state arrays of some environments to `recorded`."""
        for name, recorded in self.recorded.items():
            recorded[control_index, :, envs] = self._live_arrays[name][:, envs]
