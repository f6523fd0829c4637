"""`kinema simulate`: many copies of a robot for some time, and how that went."""

from __future__ import annotations

import time
from contextlib import nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kinema.backend import synchronise
from kinema.description import Base, JointKind, Robot, World
from kinema.foundation import Diagnostic, KinemaError, ReadError
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

REDRAW = 0.5
"""Seconds between random targets."""
REACH = 1.0
"""How far random targets of joints without limits are from the start [rad or m]."""
SHOWN = 12
"""Joints in the table; JSON has all."""


@dataclass(frozen=True, kw_only=True, slots=True)
class Options:
    """What is asked for."""

    envs: int
    steps: int
    dt: float
    device: str
    integrator: str
    precision: str
    control: str
    seed: int
    contacts: bool
    limits: bool
    json: bool


@dataclass(frozen=True, slots=True, eq=False)
class Result:
    """What came of it."""

    scene: Scene
    entity: Entity
    read_seconds: float
    step_seconds: float
    energy: tuple[float, float] | None
    """Kinetic and potential together, on average over environments, before and after; where nothing but weight and
    springs act."""

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Of the file and of the scene."""
        return [*self.entity.description.diagnostics.items, *self.scene.diagnostics.items]


def run(file: Path, options: Options, how: ReadSettings) -> int:
    """Simulate a file and print a summary; the exit status."""
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
        began = time.perf_counter()
        with named_input(file, how) as (name, reading), Status("reading", console=Console(stderr=True)):
            described = read_file(name, reading)
        result = _simulate(scene, described, options, time.perf_counter() - began)
    except ReadError as error:
        return report_error(error, options.json)
    except KinemaError as error:
        return _report_refusal(error, options.json)
    broken = np.flatnonzero(result.scene.get_error_envs_mask())
    if options.json:
        print_json(_summary(file, options, result, broken))
    else:
        _print(file, options, result, broken)
    return HAS_ERRORS if len(broken) else status(result.diagnostics)


def _report_refusal(error: KinemaError, as_json: bool) -> int:
    """A model that cannot be simulated is the file's fault; anything else, the command's."""
    if not as_json:
        print_diagnostics(output_console(), error.diagnostics)
    report_error(error, as_json)
    return HAS_ERRORS if error.diagnostics else UNREADABLE


def _simulate(scene: Scene, described: Robot | World, options: Options, read_seconds: float) -> Result:
    entity = scene.add(described)
    scene.build(options.envs)
    driver = _Driver(entity, options)
    driver.tell()
    scene.prepare()
    before = _energy(scene) if driver.is_passive else None
    seconds = _run_steps(scene, driver, options)
    after = _energy(scene) if driver.is_passive else None
    energy = None if before is None or after is None else (before, after)
    return Result(scene, entity, read_seconds, seconds, energy)


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


def _run_steps(scene: Scene, driver: _Driver, options: Options) -> float:
    """Take all steps; the seconds they took, without those for drawing targets and bars."""
    device = scene.running.engine.device
    console = Console(stderr=True)
    shown = console.is_terminal and not options.json
    columns = (TextColumn("stepping"), BarColumn(bar_width=32), TimeElapsedColumn(), TimeRemainingColumn())
    seconds, done = 0.0, 0
    with Progress(*columns, console=console, transient=True) if shown else nullcontext() as bar:
        task = bar.add_task("", total=options.steps) if bar is not None else None
        while done < options.steps:
            count = min(driver.every, options.steps - done)
            began = time.perf_counter()
            scene.step(count)
            synchronise(device)
            seconds += time.perf_counter() - began
            done += count
            if done < options.steps:
                driver.again()
            if bar is not None and task is not None:
                bar.update(task, completed=done)
    return seconds


def _summary(file: Path, options: Options, result: Result, broken: np.ndarray) -> dict[str, Any]:
    scene, entity = result.scene, result.entity
    spent = scene.progress.seconds
    rate = options.envs * options.steps / max(result.step_seconds, 1e-9)
    first = [0]
    return {
        "file": str(file),
        "robot": entity.name,
        "n_links": entity.n_links,
        "n_dofs": entity.n_dofs,
        "n_envs": options.envs,
        "steps": options.steps,
        "dt": options.dt,
        "integrator": options.integrator,
        "precision": options.precision,
        "base": base_of(entity.description),
        "control": options.control,
        "device": scene.running.engine.device.name,
        "sim_time": scene.time,
        "seconds": {
            "read": result.read_seconds,
            "build": sum(spent.get(stage, 0.0) for stage in ("modelling", "checking", "allocating")),
            "trace": spent.get("tracing", 0.0),
            "compile": spent.get("compiling", 0.0),
            "step": result.step_seconds,
        },
        "env_steps_per_second": rate,
        "realtime_factor": rate * options.dt,
        "energy": None if result.energy is None else dict(zip(("start", "end"), _finite(result.energy), strict=True)),
        "n_error_envs": len(broken),
        "error_envs": broken[:100].tolist(),
        "final": {
            "qpos": _finite(entity.get_qpos(first)[0]),
            "qvel": _finite(entity.get_qvel(first)[0]),
            "links": {
                x.name: _finite(p) for x, p in zip(entity.links, entity.get_links_pos(envs_idx=first)[0], strict=True)
            },
        },
        "diagnostics": [d.to_json() for d in result.diagnostics],
    }


def base_of(described: Robot | World) -> dict[str, str]:
    """What holds each robot that can move: `fixed`, `free`, `joints` of its own, or `assumed fixed`."""
    robots = described.robots if isinstance(described, World) else [described]
    return {robot.name: _held(robot) for robot in robots if not robot.static}


def _held(robot: Robot) -> str:
    tree = robot.tree()
    to_world = [joint for edge in tree.edges if edge.parent is None for joint in edge.joints]
    if not tree.roots:
        if any(joint.kind is JointKind.FREE for joint in to_world):
            return "free"
        return "joints" if any(joint.n_dofs for joint in to_world) else "fixed"
    return "assumed fixed" if robot.base is Base.UNSPECIFIED else robot.base.value


def _base_words(bases: dict[str, str]) -> str:
    words = sorted(set(bases.values()))
    text = ", ".join(words) or "nothing moves"
    unsaid = "assumed fixed" in words
    return f"{text}: the file does not say; --base fixed or free decides" if unsaid else text


def _finite(values: np.ndarray | tuple[float, ...]) -> list[float | None]:
    """JSON has no NaN."""
    return [float(x) if np.isfinite(x) else None for x in values]


def _print(file: Path, options: Options, result: Result, broken: np.ndarray) -> None:
    console = output_console()
    print_diagnostics(console, result.diagnostics, brief=True)
    data = _summary(file, options, result, broken)
    seconds = data["seconds"]
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = {
        "robot": f"{data['robot']}: {data['n_links']} links, {data['n_dofs']} degrees of freedom",
        "base": _base_words(data["base"]),
        "environments": f"{options.envs:,} on {data['device']}, {options.precision} precision",
        "steps": f"{options.steps:,} of {options.dt:g} s ({options.integrator}), control: {options.control}",
        "simulated": f"{data['sim_time']:.4g} s in each environment",
        "build": f"{seconds['read'] + seconds['build']:.2f} s, tracing {seconds['trace']:.2f} s, "
        f"compiling {seconds['compile']:.2f} s",
        "stepping": f"{seconds['step']:.3g} s",
        "speed": f"{data['env_steps_per_second']:,.0f} environment-steps/s, "
        f"{data['realtime_factor']:,.1f} times real time",
    }
    if result.energy is not None:
        before, after = result.energy
        rows["energy"] = f"{before:.6g} J at the start, {after:.6g} J at the end: a drift of {after - before:+.2g} J"
    for name, text in rows.items():
        table.add_row(Text(name, style="dim"), Text(text))
    console.print(table)
    _print_joints(console, result.entity)
    if len(broken):
        some = ", ".join(map(str, broken[:8].tolist())) + (", ..." if len(broken) > 8 else "")
        console.print(Text.assemble(("✗ ", "bold red"), f"{len(broken)} environments went wrong (not finite): {some}"))
    else:
        console.print(Text.assemble(("✓ ", "bold green"), "all environments are fine"))


def _number(value: float) -> str:
    text = f"{value:.4f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def _print_joints(console: Console, entity: Entity) -> None:
    """Where the joints ended up: in the first environment, and the range over all."""
    if not entity.n_dofs:
        return
    position, velocity = entity.get_dofs_position(), entity.get_dofs_velocity()
    many = len(position) > 1
    heads = ["joint", "position", "velocity", *(["over all environments"] if many else [])]
    table = Table(*heads, box=None, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(entity.dof_names[:SHOWN]):
        row = [Text(name), _number(position[0, i]), _number(velocity[0, i])]
        over_all = f"{_number(position[:, i].min())} to {_number(position[:, i].max())}"
        table.add_row(*row, *([over_all] if many else []))
    console.print(table)
    if entity.n_dofs > SHOWN:
        console.print(Text(f"  and {entity.n_dofs - SHOWN} more: see --json", style="dim"))
