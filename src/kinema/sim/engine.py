"""A model, running: its state in memory, its programs compiled, stepped as often as asked."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from typing import Any

import numpy as np

from kinema.backend import (
    Arena,
    Arguments,
    Device,
    Field,
    Kernel,
    Layout,
    RolledKernel,
    captured,
    fits_exchange,
    padded,
)
from kinema.foundation import KinemaError
from kinema.model import Model
from kinema.trace import Program, Rolled, Split

from .fields import Fields
from .limbs import best_roles
from .programs import STAGES, split_step_program, step_program
from .rolled import rolled_step, wants_rolling
from .settings import Control, Integrator, Settings
from .tree import grow

Progress = Callable[[str], None]
"""Called with what is being done, before anything that takes its time."""


def _silent(_: str) -> None:
    pass


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
        progress: Progress = _silent,
    ) -> None:
        if n_envs < 1:
            raise KinemaError(f"a scene has at least one environment, not {n_envs}")
        self.model = model
        self.n_envs = n_envs
        self.device = device
        self.precision = precision
        self.lanes = lanes
        self.threads = threads
        self.emission = emission
        self.is_rolled = wants_rolling(model, settings, emission, copies=device.is_cpu)
        """Whether the step is loops over tables, because one straight line would take too long to compile."""
        if roles is None:
            roles = 1 if device.is_cpu or self.is_rolled else best_roles(grow(model))
        if roles > 1 and (device.is_cpu or self.is_rolled):
            raise KinemaError("several threads share an environment only on a GPU, and only in unrolled programs")
        self.settings = settings = replace(settings, roles=roles)
        self.time = 0
        """Steps taken."""
        self._touched = 0
        self.progress = progress
        state, told = Layout.of("state", state_arrays(model, settings)), Layout.of("told", told_arrays(model))
        refuse_too_many(n_envs, device, precision, [state, told])
        self.state = Arena(state, n_envs, device, precision)
        self.told = Arena(told, n_envs, device, precision)
        self._nothing = Arena(Layout("out"), 1, device, precision)
        self.places = {**self.state.layout.places(), **self.told.layout.places()}
        self._kernels: dict[Settings, Kernel | RolledKernel] = {}
        self._launches: dict[tuple[Settings, int], Callable[[], None]] = {}
        self.fields = Fields(self)
        """Everything else that can be asked for, computed when it is."""
        self._fill()

    def _fill(self) -> None:
        """Parameters at the model's values, coordinates at the start."""
        for name in self.settings.per_env:
            values = self.model.gravity if name == "gravity" else getattr(self.model.dofs, name, None)
            if values is not None:
                self.state.field(name).assign(np.repeat(values[:, None], self.n_envs, axis=1))
        self.reset()

    def reset(self, envs: Any = None) -> None:
        """Back to the start, in all environments or some; flags of errors are taken back."""
        start = self.model.qpos0[:, None]
        self.field("qpos").assign(np.broadcast_to(start, (self.model.n_qs, self._count(envs))), envs)
        for name in ("vel", "error", *(n for n in self.state.layout.rows if n == "phase" or n.startswith("stage"))):
            self.field(name).assign(np.zeros((self.state.layout.rows[name][1], self._count(envs))), envs)

    def _count(self, envs: Any) -> int:
        if envs is None:
            return self.n_envs
        return len(np.arange(self.n_envs)[envs])

    @property
    def version(self) -> tuple[object, ...]:
        """Another one after every step, and after anything was handed out that might be written through."""
        return self.time, self._touched, self.settings

    def touch(self) -> None:
        """Say that something was written through an array that was handed out earlier, outside of a step."""
        self._touched += 1

    def field(self, name: str) -> Field:
        """An array of the state or of the commands, to be read or written."""
        self.touch()
        arena = self.state if name in self.state.layout.rows else self.told
        return arena.field(name)

    def set_control(self, control: tuple[Control, ...] | None, *, actuators: bool = True) -> None:
        """What commands mean from now on: another program, compiled when it is first needed."""
        if control != self.settings.control or actuators != self.settings.actuators:
            self.settings = replace(self.settings, control=control, actuators=actuators)

    def forget(self) -> None:
        """Say that constants of the model have changed: programs are made anew when they are next needed."""
        self._kernels.clear()
        self._launches.clear()
        self.fields = Fields(self)

    def prepare(self) -> None:
        """Trace and compile the step, so that the first one is as fast as the next."""
        self._kernel()

    def _kernel(self) -> Kernel | RolledKernel:
        kernel = self._kernels.get(self.settings)
        if kernel is None:
            self.progress("tracing the step")
            program = self._program()
            self.progress(f"compiling {program.n_instructions:,} instructions for {self.device.name}")
            runs = STAGES if self.settings.integrator is Integrator.RK4 else 1
            if isinstance(program, Rolled):
                kernel = RolledKernel(program, self.device, self.precision, self.lanes, runs)
            else:
                kernel = Kernel(program, self.places, self.device, self.precision, self.lanes, runs)
            kernel.compile()
            self._kernels[self.settings] = kernel
        return kernel

    def _program(self) -> Program | Split | Rolled:
        if self.is_rolled:
            least = 2 if self.emission == "rolled" else 1
            return rolled_step(self.model, self.settings, self.places, least=least)
        if self.settings.roles > 1:
            divided = split_step_program(self.model, self.settings)
            if fits_exchange(divided.n_exchanged, self.precision):
                return divided
        return step_program(self.model, replace(self.settings, roles=1))

    def step(self, count: int = 1) -> None:
        """Take some steps, in one launch."""
        if self.fields.keeps_previous:
            if count > 1:
                self._advance(count - 1)
            self.fields.keep_previous()
            count = 1
        self._advance(count)

    def _advance(self, count: int) -> None:
        key = (self.settings, count)
        launch = self._launches.get(key)
        if launch is None:
            launch = self._launches[key] = self._kernel().record(self._told(self.told.data, count))
        launch()
        self.time += count

    def sequence(self, steps: int) -> Arena:
        """Room for the commands of several steps: arrays `command 0`, `ctrl 0`, ..., `command 1`, ..."""
        arrays = [(f"{name} {t}", n) for t in range(steps) for name, n in told_arrays(self.model)]
        return Arena(Layout.of("told", arrays), self.n_envs, self.device, self.precision)

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
            launch()
            self.time += steps

        return run

    def _told(self, commands: Any, steps: int = 1, advance: int = 0) -> Arguments:
        return Arguments(self.state, commands, self._nothing, steps, advance, self.threads)


def refuse_too_many(n_envs: int, device: Device, precision: str, layouts: list[Layout]) -> None:
    """Raise before anything is allocated, if all of it together is too much."""
    per_env = sum(layout.n_rows for layout in layouts) * (4 if precision == "single" else 8)
    needed, free = per_env * padded(n_envs, device), device.free_memory()
    if needed > free:
        raise KinemaError(
            f"{n_envs:,} environments need {needed / 2**20:,.0f} MiB ({per_env:,} bytes each), and {device.name} has "
            f"{free / 2**20:,.0f} MiB free: room for about {free // per_env:,}"
        )


def state_arrays(model: Model, settings: Settings) -> list[tuple[str, int]]:
    """What is carried from step to step, and what may differ between environments."""
    arrays = [("qpos", model.n_qs), ("vel", model.n_dofs), ("error", settings.roles)]
    if settings.integrator is Integrator.RK4:
        arrays += [("phase", 1), ("stage_qpos", model.n_qs), ("stage_vel", model.n_dofs)]
        arrays += [("stage_shift", model.n_dofs), ("stage_sum_vel", model.n_dofs), ("stage_sum_acc", model.n_dofs)]
    sizes = {"gravity": 3, "mass_shift": model.n_links, "com_shift": 3 * model.n_links}
    arrays += [(name, sizes.get(name, model.n_dofs)) for name in sorted(settings.per_env)]
    if settings.external_forces:
        arrays += [("cfrc_applied_ang", 3 * model.n_links), ("cfrc_applied_vel", 3 * model.n_links)]
    return arrays


def told_arrays(model: Model) -> list[tuple[str, int]]:
    """What a step may be told anew: a command for each degree of freedom, a control for each actuator."""
    return [("command", model.n_dofs), ("ctrl", model.n_actuators), ("ctrl_mode", model.n_dofs)]
