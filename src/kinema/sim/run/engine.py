"""A model, running: its state in memory, its programs compiled, stepped as often as asked."""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from contextlib import AbstractContextManager, nullcontext
from dataclasses import replace
from typing import TYPE_CHECKING, Any

import numpy as np

from kinema.backend import Arena, Arguments, Device, Field, Kernel, Layout, Roles, Source, captured, first_tier
from kinema.foundation import KinemaError, clean_name, content_digest
from kinema.model import Model, no_geoms, no_pairs
from kinema.trace import UNIFORM

from ..arrays import ARRAYS, BY_NAME, GAINS, OWN, ArrayInfo, Use, arrays_of, start_of
from ..fields.fields import Fields
from ..lower.derived import derive
from ..lower.form import Target, form_of_step
from ..settings import RUNS, Control, Drive, Integrator, Settings
from ..variants import WEIGHING, Variants, refuse_other_forms
from .modes import left_to_actuators, meant_gains
from .preparation import dump_model, refuse_too_many

if TYPE_CHECKING:
    from kinema.trace import Program

Progress = Callable[[str], AbstractContextManager[None]]
"""Called with what is being done: entered before anything that takes its time, left after it."""
COARSE = 5e-6
"""The tolerance of what is solved in single precision, at least."""


def _silent(_: str) -> AbstractContextManager[None]:
    return nullcontext()


class Engine:
    """All environments of one model on one device."""

    def __init__(  # noqa: PLR0913  one for each choice there is
        self,
        model: Model,
        settings: Settings,
        n_envs: int,
        device: Device,
        *,
        precision: str = "single",
        lanes: int | None = None,
        threads: int | None = None,
        emission: str = "auto",
        roles: int | None = None,
        team: bool | None = None,
        control: Sequence[Control] | None = None,
        progress: Progress = _silent,
        variants: Variants | None = None,
        wait: bool = False,
        digest: str | None = None,
    ) -> None:
        """`digest` is that of the content of all models, where the caller knows it."""
        if n_envs < 1:
            raise KinemaError(f"a scene has at least one environment, not {n_envs}")
        settings = replace(settings, contacts=settings.contacts and model.options.contact)
        self.variants = Variants.of(model, n_envs) if variants is None else variants
        """The models of all environments, and which each has."""
        models = self.variants.models
        self.digest = _complete(models, settings, precision, content_digest(models) if digest is None else digest)
        """Of all that programs are traced from, but for the settings."""
        self.model = model
        self.n_envs = n_envs
        self.device = device
        self.precision = precision
        self.threads = threads
        self.emission = emission
        self.wait = wait
        """Whether to wait for the optimised tier of compiled code."""
        self.lanes = lanes or device.lanes(precision, n_envs, threads)
        coarse = precision == "single" and (settings.limits or settings.constraints or settings.contacts)
        settings = replace(settings, tolerance=max(settings.tolerance, COARSE)) if coarse else settings
        target = Target(device.is_cpu, device.is_cpu and self.lanes == 1, emission, team, roles)
        settings, self.is_rolled = form_of_step(self.variants.models, settings, target, self.digest)
        """Whether the step is loops over tables, because one straight line would take too long to compile."""
        self.settings = settings
        dump_model(self.name, self.digest, model)
        if settings.roles > 1 and (device.is_cpu or self.is_rolled):
            raise KinemaError("several threads share an environment only on a GPU, and only in unrolled programs")
        self.masses_changed = False
        """Whether what follows from them is still to be computed."""
        self.invweight: np.ndarray | None = None
        """Of degrees of freedom, as environments have them once masses were set, (n_dofs, n_envs)."""
        self.time = 0
        """Steps taken."""
        self.seconds = 0.0
        """Simulated time that they took [s]."""
        self._dt = settings.dt
        self._touched = 0
        self.progress = progress
        layouts = {name: Layout.of(name, arrays_of(name, model, settings)) for name in ("state", "told", UNIFORM)}
        refuse_too_many(n_envs, device, precision, [layouts["state"], layouts["told"]])
        arenas = {name: Arena(layout, n_envs, device, precision) for name, layout in layouts.items()}
        self.state, self.told, self.uniform = arenas["state"], arenas["told"], arenas[UNIFORM]
        self._arenas = {array: arena for arena in arenas.values() for array in arena.layout.rows}
        self._nothing = Arena(Layout("out"), 1, device, precision)
        self.places = {array: place for layout in layouts.values() for array, place in layout.places().items()}
        self._kernels: dict[Settings, Kernel] = {}
        self._weighing: dict[Settings, Program] = {}
        self._compiling = threading.Lock()
        self._launches: dict[Settings, dict[int, Callable[[], None]]] = {}
        self._now = (settings, self._launches.setdefault(settings, {}))
        """Those of the settings that were last used: finding these again by their value takes longer than a launch."""
        self.fields = Fields(self)
        """Everything else that can be asked for, computed when it is."""
        for info in ARRAYS:
            if info.use is not Use.STATE and info.name in self._arenas:
                self.field(info.name).assign(self._start(info))
        self.reset()
        self.set_control(control if control is not None else [Control.ACTUATOR] * model.n_dofs)

    def reset(self, envs: Any = None) -> None:
        """Back to the start, in all environments or some; flags of errors are taken back."""
        for info in ARRAYS:
            if info.use is Use.STATE and info.name in self._arenas and len(self.field(info.name).numpy()):
                self.field(info.name).assign(start_of(info, self.model, self.settings), envs)

    def _start(self, info: ArrayInfo) -> np.ndarray:
        """What an array holds to begin with: one column, or one for each environment where they differ."""
        if len(self.variants.models) == 1 or not info.differs(self.settings):
            return start_of(info, self.model, self.settings)
        if info.name == OWN:
            assert self.model.own is not None
            return self.model.own.values[:, self.variants.which]
        columns = [start_of(info, model, self.settings) for model in self.variants.models]
        return np.concatenate(columns, axis=1)[:, self.variants.which]

    def settle(self) -> None:
        """Let what follows from masses follow, where they were set: how hard constraints are."""
        settings = self.settings
        if not self.masses_changed:
            return
        self.masses_changed = False
        if self.model.own is None or not (settings.limits or settings.constraints or settings.contacts):
            return
        from ..lower.weights import own_weights

        known = [
            name for name in (*sorted(settings.per_env & WEIGHING), OWN) if self._arenas[name].layout.rows[name][1]
        ]
        arrays = {name: self.field(name).numpy() for name in known}
        rows, values, self.invweight = own_weights(self.model, settings, arrays, self._weighing, self.precision)
        if len(rows):
            every = np.array(arrays[OWN])
            every[rows] = values
            self.field(OWN).assign(every)

    @property
    def version(self) -> tuple[object, ...]:
        """Another one after every step, and after anything was handed out that might be written through."""
        return self.time, self._touched, self.settings

    def touch(self) -> None:
        """Say that something was written through an array that was handed out earlier, outside of a step."""
        self._touched += 1

    def field(self, name: str) -> Field:
        """An array of the state, of the commands or of the parameters, to be read or written."""
        self.touch()
        return self._arenas[name].field(name)

    @property
    def bytes_per_env(self) -> int:
        """What an environment takes: its state and commands, and what the step works in, once that is compiled."""
        rows = self.state.layout.n_rows + self.told.layout.n_rows
        kernel = self._kernels.get(self.settings)
        return rows * self.state.dtype.itemsize + (0 if kernel is None else kernel.bytes_per_env(self.n_envs))

    def make_room(self, contacts: int) -> None:
        """Room for so many contacts between any two frames from now on; programs are compiled anew."""
        with self._compiling:
            self.model.pairs.room = contacts
            self.digest = content_digest(self.digest, "room", contacts)
            self._kernels.clear()
            self._launches.clear()
            self._now = (self.settings, self._launches.setdefault(self.settings, {}))
            self.fields.forget()
            self.touch()

    def set_control(self, modes: Sequence[Control] | np.ndarray | None) -> None:
        """What commands mean from now on: one mode for each degree of freedom, or (dofs, environments) of them.

        That is in the gains, which are inputs; only what the step listens to decides which program runs.
        """
        n = self.model.n_dofs
        told = np.asarray(modes, dtype=np.float64).reshape(n, -1) if n else np.zeros((0, 1))
        self.touch()
        if n:
            self.field("ctrl_mode").assign(told)
            self.field("actuator_on").assign(left_to_actuators(self.model, told))
        alike = told.shape[1] == 1
        drive = Drive.COMMANDS if alike or BY_NAME[GAINS[0]].differs(self.settings) else Drive.MIXED
        if alike and (told == Control.ACTUATOR).all() and self.model.n_actuators:
            drive = Drive.ACTUATORS
        self.settings = replace(self.settings, drive=drive)
        if drive is Drive.COMMANDS and self.model.n_dofs:
            self._set_gains(told)

    def _set_gains(self, modes: np.ndarray) -> None:
        kp, kv = (np.asarray(self.field(name).numpy(), np.float64) for name in ("kp", "kv"))
        for name, values in zip(GAINS, meant_gains(self.model, modes, kp, kv), strict=True):
            self.field(name).assign(values)

    def prepare(self, *, wait: bool | None = None) -> None:
        """Compile the step, or take it from the cache; with `wait` at the optimised tier (else as the engine says)."""
        if self.model.n_dofs:
            kernel = self._kernel()
            if self.wait if wait is None else wait:
                kernel.wait()

    @property
    def tier(self) -> str:
        """Which code the step runs: `baseline`, then `optimised`; empty where it is not compiled yet."""
        kernel = self._kernels.get(self.settings)
        return "" if kernel is None else kernel.tier

    @property
    def tier_seconds(self) -> dict[str, float]:
        """Seconds from when the step was asked for until each of its tiers was active, of those that are or were."""
        kernel = self._kernels.get(self.settings)
        return {} if kernel is None else kernel.tier_seconds

    def _kernel(self) -> Kernel:
        kernel = self._kernels.get(self.settings)
        return self._compiled(self.settings, self.progress) if kernel is None else kernel

    def _compiled(self, settings: Settings, progress: Progress) -> Kernel:
        with self._compiling:  # what another thread is compiling already is waited for
            if settings in self._kernels:
                return self._kernels[settings]
            least = 2 if self.emission == "rolled" else 1

            def traced() -> Program:
                from ..lower.plan import make_step  # which a cached program needs nothing of

                with progress("tracing the step"):
                    return make_step(self.model, settings, self.places, rolled=self.is_rolled, least=least)

            tier = first_tier(wait=self.wait) if self.device.is_cpu else "optimised"
            with progress(f"compiling the step for {self.device.name}, {tier} code"):
                key = content_digest("step", self.digest, settings, self.is_rolled, least)
                self._kernels[settings] = Kernel(
                    Source(traced, key, f"{self.name}_step"),
                    self.places,
                    self.device,
                    self.precision,
                    lanes=self.lanes,
                    roles=self._roles(settings.roles),
                    runs_per_step=RUNS if settings.integrator is Integrator.RK4 else 1,
                    n_envs=self.n_envs,
                    wait=self.wait,
                )
            return self._kernels[settings]

    @property
    def name(self) -> str:
        """What profilers and dumps call its programs: after the first entity."""
        return clean_name(self.model.entities[0].name) if self.model.entities else "scene"

    def _roles(self, count: int) -> Roles | None:
        if count == 1:
            return None
        from ..lower.limbs import find_limbs
        from ..sweeps.tree import grow

        return Roles(count, find_limbs(grow(self.model), count).role_of(self.model))

    def step(self, count: int = 1) -> None:
        """Take some steps, in one launch."""
        self.settle()
        if self.fields.keeps_previous:
            if count > 1:
                self._advance(count - 1)
            self.fields.keep_previous()
            count = 1
        self._advance(count)

    def _advance(self, count: int) -> None:
        if self._now[0] is not self.settings:
            self._now = (self.settings, self._launches.setdefault(self.settings, {}))
        launches = self._now[1]
        if count not in launches:
            launches[count] = self._kernel().record(self._told(self.told.data, count))
        launches[count]()
        self.count(count)

    def count(self, steps: int) -> None:
        """Say that some steps were taken."""
        self.time += steps
        self.seconds += steps * self._dt
        if self.uniform.layout.rows["clock"][1]:
            self.uniform.field("clock").assign(np.array([[self.seconds]]))

    @property
    def dt(self) -> float:
        """The time of one step [s]."""
        return self._dt

    @dt.setter
    def dt(self, dt: float) -> None:
        self._dt = dt
        self.field("dt").assign(np.array([[dt]]))

    def sequence(self, steps: int) -> Arena:
        """Room for the commands of several steps: arrays `command 0`, `ctrl 0`, ..., `command 1`, ...

        Who moves what is as it is now.
        """
        own = arrays_of("told", self.model, self.settings)
        arrays = [(f"{name} {t}", n) for t in range(steps) for name, n in own]
        arena = Arena(Layout.of("told", arrays), self.n_envs, self.device, self.precision)
        for name in ("ctrl_mode", "actuator_on"):
            now = self.told.field(name).numpy()
            for t in range(steps if len(now) else 0):
                arena.field(f"{name} {t}").assign(now)
        return arena

    def rollout(self, sequence: Arena, *, one_launch: bool = True) -> Callable[[], None]:
        """A call that takes a step with each of the commands: in one launch, or in one each (captured on a GPU)."""
        rows = self.told.layout.n_rows
        steps = sequence.layout.n_rows // rows
        if one_launch:
            launch = self._kernel().record(self._told(sequence.data, steps, rows))
        else:
            parts = [self._told(sequence.data[t * rows : (t + 1) * rows]) for t in range(steps)]
            launch = captured(self.device, [self._kernel().record(part) for part in parts])

        def run() -> None:
            self.settle()
            launch()
            self.count(steps)

        return run

    def _told(self, commands: Any, steps: int = 1, advance: int = 0) -> Arguments:
        return Arguments(self.state, commands, self._nothing, self.uniform, steps, advance, self.threads)


def _complete(models: Sequence[Model], settings: Settings, precision: str, digest: str) -> str:
    """Add to models what follows from their numbers: rest lengths of tendons, inverse weights; the digest of that."""
    refuse_other_forms(models)
    for model in models:
        model.geoms, model.pairs = (model.geoms, model.pairs) if settings.contacts else (no_geoms(), no_pairs())
    return derive(models, settings, precision, digest)
