"""`kinema simulate`: many copies of a robot for some time, and how that went."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.status import Status

from kinema.backend import synchronise
from kinema.description import Robot, World
from kinema.foundation import KinemaError, ReadError, StageSeconds, recorded_stages, stage
from kinema.scene import Entity, Scene

from .diagnostics_table import output_console, print_diagnostics
from .reading import (
    HAS_ERRORS,
    UNREADABLE,
    ReadSettings,
    named_input,
    print_json,
    read_file,
    report_error,
    status,
)
from .simulate_profile import SAMPLES, Profile, process_age, profile_step, stages_of_start
from .simulate_result import Code, Options, Result
from .simulate_table import print_summary, summary

REDRAW = 0.5
"""Seconds between random targets."""
REACH = 1.0
"""How far random targets of joints without limits are from the start [rad or m]."""


def run(file: Path, options: Options, how: ReadSettings) -> int:
    """Simulate a file and print a summary; the exit status."""
    age = process_age() if options.profile else None
    try:
        scene = Scene(
            dt=options.dt,
            device=options.device,
            precision=options.precision,
            integrator=options.integrator,
            contacts=options.contacts,
            limits=options.limits,
            quiet=options.json,
        )
        with recorded_stages() as stages:
            shown = Status("reading", console=Console(stderr=True))
            with named_input(file, how) as (name, reading), shown, stage("read"):
                described = read_file(name, reading)
            entity, driver = _start(scene, described, options)
        result = _simulate(scene, entity, driver, options, stages)
        if options.profile:
            result.profile = _profile(result, options, stages_of_start(stages, age))
    except ReadError as error:
        return report_error(error, options.json)
    except KinemaError as error:
        return _report_refusal(error, options.json)
    broken = np.flatnonzero(result.scene.get_error_envs_mask())
    if options.json:
        print_json(summary(file, options, result, broken))
    else:
        print_summary(file, options, result, broken)
    return HAS_ERRORS if len(broken) else status(result.diagnostics)


def _report_refusal(error: KinemaError, as_json: bool) -> int:
    """A model that cannot be simulated is the file's fault; anything else, the command's."""
    if not as_json:
        print_diagnostics(output_console(), error.diagnostics)
    report_error(error, as_json)
    return HAS_ERRORS if error.diagnostics else UNREADABLE


def _start(scene: Scene, described: Robot | World, options: Options) -> tuple[Entity, _Driver]:
    with stage("add"):
        entity = scene.add(described)
    scene.build(options.envs)
    driver = _Driver(entity, options)
    driver.tell()
    scene.prepare()
    return entity, driver


def _simulate(scene: Scene, entity: Entity, driver: _Driver, options: Options, stages: StageSeconds) -> Result:
    before = _energy(scene) if driver.is_passive else None
    start = scene.get_state() if options.profile else None
    code = Code()
    seconds = _run_steps(scene, driver, options, code)
    after = _energy(scene) if driver.is_passive else None
    energy = None if before is None or after is None else (before, after)
    return Result(scene, entity, stages, seconds, energy, code, start)


def _profile(result: Result, options: Options, start: dict[str, float]) -> Profile:
    """Where the time went; the scene ends in the same state as before."""
    scene = result.scene

    def again(count: Callable[[], None] | None) -> float:
        assert result.start is not None
        scene.set_state(result.start)
        driver = _Driver(result.entity, options)
        driver.tell()
        return _run_steps(scene, driver, replace(options, json=True), Code(), count)

    step = profile_step(scene, again, options.steps)
    return Profile(start, scene.running.engine.tier_seconds, step)


def _energy(scene: Scene) -> float:
    kinetic, potential = scene.get_energy()
    with np.errstate(all="ignore"):  # environments that went wrong are reported elsewhere
        return float(np.mean(kinetic.astype(np.float64) + potential))


class _Driver:
    """Tells the joints what to do."""

    def __init__(self, entity: Entity, options: Options) -> None:
        self.entity = entity
        self.control = options.control
        self.rng = np.random.default_rng(options.seed)
        info = entity.scene.running.model.dofs
        by_joint = [d for j in entity.joints if j.kind not in ("free", "spherical") for d in j.dofs_idx]
        self.driven = np.array(sorted(by_joint), dtype=np.intp)
        """What a robot could have motors for: not its floating base, nor anything that turns a quaternion."""
        self.start = entity.get_dofs_position(envs_idx=[0])[0][self.driven]
        lower, upper = info.lower[self.driven], info.upper[self.driven]
        self.lower = np.where(np.isfinite(lower), lower, self.start - REACH)
        self.upper = np.where(np.isfinite(upper), upper, self.start + REACH)
        damped = info.damping.any() or entity.scene.running.model.tendons.damping.any()
        self.is_passive = self.control == "zero" and not damped and not entity.n_actuators
        self.every = max(1, round(REDRAW / options.dt)) if self.control == "random" else max(1, options.steps // 100)

    def tell(self) -> None:
        """The commands for the next steps."""
        if self.entity.n_dofs:
            self.entity.control_dofs_force(0.0)
        if self.control != "zero" and len(self.driven):
            self._position()

    def again(self) -> None:
        """New ones, where there are any."""
        if self.control == "random" and len(self.driven):
            self._position()

    def _position(self) -> None:
        targets = self.start
        if self.control == "random":
            n_envs = self.entity.scene.n_envs
            targets = self.rng.uniform(self.lower, self.upper, size=(n_envs, len(self.driven)))
        self.entity.control_dofs_position(targets, self.driven)


def _run_steps(
    scene: Scene, driver: _Driver, options: Options, code: Code, count: Callable[[], None] | None = None
) -> float:
    """Take all steps; the seconds they took, without those for drawing targets and bars, and for what is counted."""
    engine = scene.running.engine
    console = Console(stderr=True)
    shown = console.is_terminal and not options.json
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=32), TimeElapsedColumn(), TimeRemainingColumn())
    seconds, done = 0.0, 0
    with Progress(*columns, console=console, transient=True) if shown else nullcontext() as bar:
        task = bar.add_task("stepping", total=options.steps) if bar is not None else None
        while done < options.steps:
            now, tier = min(driver.every, options.steps - done), engine.tier
            code.steps[tier] = code.steps.get(tier, 0) + now
            began = time.perf_counter()
            scene.step(now)
            synchronise(engine.device)
            seconds += time.perf_counter() - began
            done += now
            if done < options.steps:
                driver.again()
            if count is not None and done * SAMPLES // options.steps > (done - now) * SAMPLES // options.steps:
                count()
            if bar is not None and task is not None:
                bar.update(task, completed=done, description=f"stepping, {tier} code" if tier else "stepping")
    return seconds
