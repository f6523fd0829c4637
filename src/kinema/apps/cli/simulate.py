"""`kinema simulate`: simulates copies of a robot, and prints throughput, energy and final joint positions."""

from __future__ import annotations

import time
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import dataclass, field, replace
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kinema.core import Diagnostic, KinemaError, StageTimes, record_stages, timed_stage
from kinema.description import Base, JointKind, Robot, World
from kinema.model import PrimitiveJointType
from kinema.runtime import is_tiered, synchronise
from kinema.scene import Entity, Scene, SceneState

from .input_output import (
    EXIT_HAS_ERRORS,
    exit_status,
    open_input,
    output_console,
    print_diagnostics,
    print_json,
    read_file,
    report_failure,
)
from .options import ReadSettings
from .simulate_profile import N_COUNT_SAMPLES, Profile, print_profile, process_age, profile_step, start_stage_times

# --------------------------------------------------------------------------------------------------- request and result


@dataclass(frozen=True, kw_only=True, slots=True)
class SimulateOptions:
    """Options of `kinema simulate`."""

    envs: int
    steps: int
    dt: float | None
    """Time step [s]; None for that of an MJCF file, else the default of scenes."""
    device: str
    integrator: str | None
    precision: str
    control: str
    seed: int
    contacts: bool
    limits: bool
    json: bool
    profile: bool = False


@dataclass(slots=True, eq=False)
class CodeTiers:
    """Compilation tiers (baseline, optimised) that executed the steps."""

    steps: dict[str, int] = field(default_factory=dict)
    """Number of steps by the tier that was active when their call started."""

    def describe(self, active_after: dict[str, float], *, is_compiling: bool) -> str:
        """Text on the tiers used; `active_after` is the activation time of each tier [s].

        `is_compiling` tells whether the optimised tier is still being compiled.
        """
        if set(self.steps) == {"baseline", "optimised"}:
            return (
                f"baseline for {self.steps['baseline']:,} steps, optimised after "
                f"{active_after.get('optimised', 0.0):.1f} s"
            )
        tier = next(iter(self.steps), "")
        more = " (the optimised tier was still being compiled in the background)" if is_compiling else ""
        return f"{tier or 'none'}{more}"


@dataclass(frozen=True, slots=True)
class HeldPose:
    """Largest deviation of a joint from the pose that `--control hold` commands, over all environments."""

    joint: str
    deviation: float
    """[rad or m]; NaN if positions are not finite."""
    unit: str
    tolerance: float
    """Deviation up to which the pose counts as held."""
    effort: float
    """Share of the effort limit that the joint uses, or NaN without a limit."""
    n_deviating: int
    """Number of joints that deviate by more than their tolerance."""

    def describe(self) -> str:
        """Sentence on the deviation."""
        if not self.n_deviating:
            return f"the pose is held: at most {self.deviation:.2g} {self.unit} (joint {self.joint})"
        effort = "" if np.isnan(self.effort) else f", using {self.effort:.0%} of its effort limit"
        return (
            f"the pose is not held: {self.n_deviating} joints deviate by more than {self.tolerance:g} {self.unit}, "
            f'"{self.joint}" by {self.deviation:.3g} {self.unit}{effort}'
        )


@dataclass(slots=True, eq=False)
class SimulateResult:
    """Result of a simulation."""

    scene: Scene
    entity: Entity
    stages: StageTimes
    """Seconds from reading the file to the first step."""
    step_seconds: float
    energy: tuple[float, float] | None
    """Kinetic and potential together, on average over environments, before and after.

    Where nothing but weight and springs act.
    """
    code: CodeTiers
    held: HeldPose | None = None
    """How well the pose is held, with `--control hold`."""
    initial_state: SceneState | None = None
    """Where it began, if it is to be profiled."""
    profile: Profile | None = None

    @property
    def diagnostics(self) -> list[Diagnostic]:
        """Diagnostics of file and scene."""
        return [*self.entity.description.diagnostics.items, *self.scene.diagnostics.items]


# --------------------------------------------------------------------------------------------------------------- output

MAX_JOINT_ROWS = 12
"""Joints in the table; JSON has all."""
BUILD_STAGES = ("add", "modelling", "checking", "derived", "allocating")
TRACE_STAGES = ("trace", "tracing")
COMPILE_STAGES = ("compiling", "look up", "emit", "compile", "compile baseline", "compile optimised", "load")
"""Recorded stages of the start."""


def summary_json(
    file: Path, options: SimulateOptions, result: SimulateResult, error_envs: np.ndarray
) -> dict[str, Any]:
    """Summary as JSON values."""
    scene, entity = result.scene, result.entity
    spent = result.stages
    rate = options.envs * options.steps / max(result.step_seconds, 1e-9)
    first = [0]
    return {
        "file": str(file),
        "robot": entity.name,
        "n_links": entity.n_links,
        "n_dofs": entity.n_dofs,
        "n_envs": options.envs,
        "steps": options.steps,
        "dt": scene.dt,
        "integrator": scene.integrator.value,
        "precision": options.precision,
        "base": base_types(entity.description),
        "control": options.control,
        "device": scene.built.engine.device.name,
        "sim_time": scene.time,
        "seconds": {
            "read": spent.get("read", 0.0),
            "build": sum(spent.get(stage, 0.0) for stage in BUILD_STAGES),
            "trace": sum(spent.get(stage, 0.0) for stage in TRACE_STAGES),
            "compile": sum(spent.get(stage, 0.0) for stage in COMPILE_STAGES),
            "step": result.step_seconds,
        },
        "code": {"steps": result.code.steps, "active_after": scene.built.engine.tier_seconds},
        "env_steps_per_second": rate,
        "realtime_factor": rate * scene.dt,
        "energy": None
        if result.energy is None
        else dict(zip(("start", "end"), _finite_or_none(result.energy), strict=True)),
        "n_error_envs": len(error_envs),
        "error_envs": error_envs[:100].tolist(),
        "hold": None
        if result.held is None
        else {
            "held": not result.held.n_deviating,
            "joint": result.held.joint,
            "deviation": _finite_or_none((result.held.deviation,))[0],
            "n_deviating": result.held.n_deviating,
        },
        "final": {
            "qpos": _finite_or_none(entity.get_qpos(first)[0]),
            "qvel": _finite_or_none(entity.get_qvel(first)[0]),
            "links": {
                x.name: _finite_or_none(p)
                for x, p in zip(entity.links, entity.get_links_pos(envs_idx=first)[0], strict=True)
            },
        },
        "diagnostics": [d.to_json() for d in result.diagnostics],
        **({} if result.profile is None else {"profile": result.profile.to_json()}),
    }


def base_types(description: Robot | World) -> dict[str, str]:
    """Base fixation of each movable robot: `fixed`, `free`, `joints` or `assumed fixed`."""
    robots = description.robots if isinstance(description, World) else [description]
    return {robot.name: _base_type(robot) for robot in robots if not robot.static}


def _base_type(robot: Robot) -> str:
    tree = robot.tree()
    to_world = [joint for edge in tree.edges if edge.parent is None for joint in edge.joints]
    if not tree.roots:
        if any(joint.kind is JointKind.FREE for joint in to_world):
            return "free"
        return "joints" if any(joint.n_dofs for joint in to_world) else "fixed"
    return "assumed fixed" if robot.base is Base.UNSPECIFIED else robot.base.value


def _base_text(bases: dict[str, str]) -> str:
    words = sorted(set(bases.values()))
    text = ", ".join(words) or "nothing moves"
    unsaid = "assumed fixed" in words
    return f"{text}: the file does not say; --base fixed or free decides" if unsaid else text


def _finite_or_none(values: np.ndarray | tuple[float, ...]) -> list[float | None]:
    """Values as a list with None for NaN and infinity, which JSON lacks."""
    return [float(x) if np.isfinite(x) else None for x in values]


def print_summary(file: Path, options: SimulateOptions, result: SimulateResult, error_envs: np.ndarray) -> None:
    """Print the summary as tables."""
    console = output_console()
    print_diagnostics(console, result.diagnostics, brief=True)
    data = summary_json(file, options, result, error_envs)
    seconds, engine = data["seconds"], result.scene.built.engine
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = {
        "robot": f"{data['robot']}: {data['n_links']} links, {data['n_dofs']} degrees of freedom",
        "base": _base_text(data["base"]),
        "environments": f"{options.envs:,} on {data['device']}, {options.precision} precision",
        "steps": f"{options.steps:,} of {data['dt']:g} s ({data['integrator']}), control: {options.control}",
        "simulated": f"{data['sim_time']:.4g} s in each environment",
        "build": f"{seconds['read'] + seconds['build']:.2f} s, tracing {seconds['trace']:.2f} s, "
        f"compiling {seconds['compile']:.2f} s",
        "code": result.code.describe(engine.tier_seconds, is_compiling=engine.tier == "baseline" and is_tiered()),
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
    if result.profile is not None:
        print_profile(console, result.profile)
    if result.held is not None:
        mark = ("✗ ", "bold red") if result.held.n_deviating else ("✓ ", "bold green")
        console.print(Text.assemble(mark, result.held.describe()))
    if len(error_envs):
        some = ", ".join(map(str, error_envs[:8].tolist())) + (", ..." if len(error_envs) > 8 else "")
        console.print(
            Text.assemble(("✗ ", "bold red"), f"{len(error_envs)} environments went wrong (not finite): {some}")
        )
    else:
        console.print(Text.assemble(("✓ ", "bold green"), "all environments are fine"))


def _format_number(value: float) -> str:
    text = f"{value:.4f}"
    return text.removeprefix("-") if float(text) == 0.0 else text


def _print_joints(console: Console, entity: Entity) -> None:
    """Print final joint positions: in the first environment, and the range over all environments."""
    if not entity.n_dofs:
        return
    position, velocity = entity.get_dofs_position(), entity.get_dofs_velocity()
    many = len(position) > 1
    heads = ["joint", "position", "velocity", *(["over all environments"] if many else [])]
    table = Table(*heads, box=None, padding=(0, 2, 0, 0), header_style="dim")
    for i, name in enumerate(entity.dof_names[:MAX_JOINT_ROWS]):
        row = [Text(name), _format_number(position[0, i]), _format_number(velocity[0, i])]
        over_all = f"{_format_number(position[:, i].min())} to {_format_number(position[:, i].max())}"
        table.add_row(*row, *([over_all] if many else []))
    console.print(table)
    if entity.n_dofs > MAX_JOINT_ROWS:
        console.print(Text(f"  and {entity.n_dofs - MAX_JOINT_ROWS} more: see --json", style="dim"))


# ----------------------------------------------------------------------------------------------------------- simulation

RANDOM_TARGET_PERIOD = 0.5
"""Seconds between random targets."""
HOLD_TOLERANCE = (0.02, 0.001)
"""Deviations up to which `--control hold` holds the pose [rad], [m]."""
UNLIMITED_TARGET_RANGE = 1.0
"""How far random targets of joints without limits are from the start [rad or m]."""


def simulate_file(file: Path, options: SimulateOptions, read_settings: ReadSettings) -> int:
    """Simulate a file and print a summary; returns the exit status."""
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
        with record_stages() as stages:
            shown = Status("reading", console=Console(stderr=True))
            with open_input(file, read_settings) as (name, settings), shown, timed_stage("read"):
                described = read_file(name, settings)
            entity, driver = _build_scene(scene, described, options)
        result = _run_and_measure(scene, entity, driver, options, stages)
        if options.profile:
            result.profile = _profile_run(result, options, start_stage_times(stages, age))
    except KinemaError as error:
        return report_failure(error, options.json)
    broken = np.flatnonzero(result.scene.get_error_envs_mask())
    if options.json:
        print_json(summary_json(file, options, result, broken))
    else:
        print_summary(file, options, result, broken)
    sags = result.held is not None and result.held.n_deviating > 0
    return EXIT_HAS_ERRORS if len(broken) or sags else exit_status(result.diagnostics)


def _build_scene(scene: Scene, description: Robot | World, options: SimulateOptions) -> tuple[Entity, _JointController]:
    with timed_stage("add"):
        entity = scene.add(description, errors="keep")
    scene.build(options.envs)
    driver = _JointController(entity, options)
    driver.send_initial_commands()
    scene.prepare()
    return entity, driver


def _run_and_measure(
    scene: Scene, entity: Entity, controller: _JointController, options: SimulateOptions, stages: StageTimes
) -> SimulateResult:
    before = _mean_energy(scene) if controller.is_passive else None
    start = scene.get_state() if options.profile else None
    code = CodeTiers()
    seconds = _run_steps(scene, controller, options, code)
    after = _mean_energy(scene) if controller.is_passive else None
    energy = None if before is None or after is None else (before, after)
    return SimulateResult(scene, entity, stages, seconds, energy, code, controller.held_pose(), start)


def _profile_run(result: SimulateResult, options: SimulateOptions, start_times: dict[str, float]) -> Profile:
    """Profile of startup and steps; the scene ends in the same state as before."""
    scene = result.scene

    def again(count: Callable[[], None] | None) -> float:
        assert result.initial_state is not None
        scene.set_state(result.initial_state)
        driver = _JointController(result.entity, options)
        driver.send_initial_commands()
        return _run_steps(scene, driver, replace(options, json=True), CodeTiers(), count)

    step = profile_step(scene, again, options.steps)
    return Profile(start_times, scene.built.engine.tier_seconds, step)


def _mean_energy(scene: Scene) -> float:
    kinetic, potential = scene.get_energy()
    with np.errstate(all="ignore"):  # environments that went wrong are reported elsewhere
        return float(np.mean(kinetic.astype(np.float64) + potential))


class _JointController:
    """Sends commands to the joints according to the control strategy."""

    def __init__(self, entity: Entity, options: SimulateOptions) -> None:
        self.entity = entity
        self.control = options.control
        self.rng = np.random.default_rng(options.seed)
        info = entity.scene.built.model.dofs
        by_joint = [d for j in entity.joints if j.kind not in ("free", "spherical") for d in j.dofs_idx]
        self.controlled_dofs = np.array(sorted(by_joint), dtype=np.intp)
        """What a robot could have motors for: not its floating base, nor anything that turns a quaternion."""
        lower, upper = info.lower[self.controlled_dofs], info.upper[self.controlled_dofs]
        initial = entity.get_dofs_position(envs_idx=[0])[0][self.controlled_dofs]
        self.initial_positions = np.clip(initial, lower, upper) if options.limits else initial
        """Positions that `hold` commands: those of the file, within the joint limits."""
        self.lower = np.where(np.isfinite(lower), lower, self.initial_positions - UNLIMITED_TARGET_RANGE)
        self.upper = np.where(np.isfinite(upper), upper, self.initial_positions + UNLIMITED_TARGET_RANGE)
        damped = info.damping.any() or entity.scene.built.model.tendons.damping.any()
        self.is_passive = self.control == "zero" and not damped and not entity.n_actuators
        self.steps_per_command = (
            max(1, round(RANDOM_TARGET_PERIOD / entity.scene.dt))
            if self.control == "random"
            else max(1, options.steps // 100)
        )

    def send_initial_commands(self) -> None:
        """Send the commands of the first steps."""
        if self.entity.n_dofs:
            self.entity.control_dofs_force(0.0)
        if self.control != "zero" and len(self.controlled_dofs):
            self._send_position_targets()

    def update_random_targets(self) -> None:
        """Send new random targets if the strategy is random."""
        if self.control == "random" and len(self.controlled_dofs):
            self._send_position_targets()

    def held_pose(self) -> HeldPose | None:
        """Worst deviation from the commanded pose; None for other strategies and without controlled joints."""
        dofs = self.controlled_dofs
        if self.control != "hold" or not len(dofs):
            return None
        model, rows = self.entity.scene.built.model, self.entity.info.dof_start + dofs
        is_slide = model.frames.joint_type[model.dofs.frame_idx[rows]] == PrimitiveJointType.SLIDE
        tolerance = np.where(is_slide, HOLD_TOLERANCE[1], HOLD_TOLERANCE[0])
        with np.errstate(invalid="ignore"):
            deviation = np.abs(self.entity.get_dofs_position()[:, dofs] - self.initial_positions)
            deviation = np.where(np.isfinite(deviation), deviation, np.inf).max(axis=0)
        worst = int(np.argmax(deviation / tolerance))
        _, upper = self.entity.get_dofs_force_range()
        limit = float(np.ravel(upper)[dofs[worst]])
        force = float(np.abs(self.entity.get_dofs_control_force()[:, dofs[worst]]).max())
        return HeldPose(
            self.entity.dof_names[dofs[worst]],
            float(deviation[worst]),
            "m" if is_slide[worst] else "rad",
            float(tolerance[worst]),
            force / limit if 0.0 < limit < np.inf else np.nan,
            int(np.count_nonzero(deviation > tolerance)),
        )

    def _send_position_targets(self) -> None:
        targets = self.initial_positions
        if self.control == "random":
            n_envs = self.entity.scene.n_envs
            targets = self.rng.uniform(self.lower, self.upper, size=(n_envs, len(self.controlled_dofs)))
        self.entity.control_dofs_position(targets, self.controlled_dofs)


def _run_steps(
    scene: Scene,
    controller: _JointController,
    options: SimulateOptions,
    tiers: CodeTiers,
    sample_counts: Callable[[], None] | None = None,
) -> float:
    """Take all steps; the seconds they took, without those for drawing targets and bars, and for what is counted."""
    engine = scene.built.engine
    console = Console(stderr=True)
    shown = console.is_terminal and not options.json
    columns = (TextColumn("{task.description}"), BarColumn(bar_width=32), TimeElapsedColumn(), TimeRemainingColumn())
    seconds, done = 0.0, 0
    with Progress(*columns, console=console, transient=True) if shown else nullcontext() as bar:
        task = bar.add_task("stepping", total=options.steps) if bar is not None else None
        while done < options.steps:
            now, tier = min(controller.steps_per_command, options.steps - done), engine.tier
            tiers.steps[tier] = tiers.steps.get(tier, 0) + now
            began = time.perf_counter()
            scene.step(now)
            synchronise(engine.device)
            seconds += time.perf_counter() - began
            done += now
            if done < options.steps:
                controller.update_random_targets()
            if (
                sample_counts is not None
                and done * N_COUNT_SAMPLES // options.steps > (done - now) * N_COUNT_SAMPLES // options.steps
            ):
                sample_counts()
            if bar is not None and task is not None:
                bar.update(task, completed=done, description=f"stepping, {tier} code" if tier else "stepping")
    return seconds
