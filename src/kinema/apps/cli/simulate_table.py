"""What `kinema simulate` prints: a summary as tables, or all of it as JSON."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.backend import is_tiered
from kinema.description import Base, JointKind, Robot, World
from kinema.scene import Entity

from .diagnostics_table import output_console, print_diagnostics
from .simulate_profile import print_profile
from .simulate_result import Options, Result

SHOWN = 12
"""Joints in the table; JSON has all."""
BUILDING = ("add", "modelling", "checking", "derived", "allocating")
TRACING = ("trace", "tracing")
COMPILING = ("compiling", "look up", "emit", "compile", "compile baseline", "compile optimised", "load")
"""Recorded stages of the start."""


def summary(file: Path, options: Options, result: Result, broken: np.ndarray) -> dict[str, Any]:
    """Everything, for JSON."""
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
        "dt": options.dt,
        "integrator": options.integrator,
        "precision": options.precision,
        "base": base_of(entity.description),
        "control": options.control,
        "device": scene.running.engine.device.name,
        "sim_time": scene.time,
        "seconds": {
            "read": spent.get("read", 0.0),
            "build": sum(spent.get(stage, 0.0) for stage in BUILDING),
            "trace": sum(spent.get(stage, 0.0) for stage in TRACING),
            "compile": sum(spent.get(stage, 0.0) for stage in COMPILING),
            "step": result.step_seconds,
        },
        "code": {"steps": result.code.steps, "active_after": scene.running.engine.tier_seconds},
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
        **({} if result.profile is None else {"profile": result.profile.to_json()}),
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


def print_summary(file: Path, options: Options, result: Result, broken: np.ndarray) -> None:
    """The same in tables."""
    console = output_console()
    print_diagnostics(console, result.diagnostics, brief=True)
    data = summary(file, options, result, broken)
    seconds, engine = data["seconds"], result.scene.running.engine
    table = Table(box=None, show_header=False, padding=(0, 2, 0, 0))
    rows = {
        "robot": f"{data['robot']}: {data['n_links']} links, {data['n_dofs']} degrees of freedom",
        "base": _base_words(data["base"]),
        "environments": f"{options.envs:,} on {data['device']}, {options.precision} precision",
        "steps": f"{options.steps:,} of {options.dt:g} s ({options.integrator}), control: {options.control}",
        "simulated": f"{data['sim_time']:.4g} s in each environment",
        "build": f"{seconds['read'] + seconds['build']:.2f} s, tracing {seconds['trace']:.2f} s, "
        f"compiling {seconds['compile']:.2f} s",
        "code": result.code.words(engine.tier_seconds, waits=engine.tier == "baseline" and is_tiered()),
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
