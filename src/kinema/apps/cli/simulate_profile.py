"""`kinema simulate --profile`: where the time of the start and of a step goes."""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import numpy as np
from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.foundation import KinemaError
from kinema.scene import Scene

STAGES = {
    "import": ("import", "process start to reading: Python and all packages"),
    "read": ("read", "the file"),
    "add": ("add", "meshes and collision shapes"),
    "model": ("modelling", "descriptions to arrays"),
    "check": ("checking", "whether it can be simulated"),
    "derived quantities": ("derived", "inverse weights, rest lengths, joint inertias"),
    "allocate": ("allocating", "memory of all environments"),
    "look up": ("look up", "cache entries of programs and machine code"),
    "trace": ("tracing trace", "the step to a program"),
    "emit": ("emit", "the program to LLVM IR"),
    "compile": ("compile", "LLVM IR to PTX"),
    "compile baseline": ("compile baseline", "LLVM IR to machine code, baseline tier"),
    "compile optimised": ("compile optimised", "LLVM IR to machine code, optimised tier"),
    "load": ("load", "linking"),
    "other": ("other compiling", "digests, commands and what is in no other stage"),
}
"""The stages of a start, in order: which recorded stages each is, with spaces or as a whole, and what is done."""
SAMPLES = 20
"""How often contacts, iterations and rows are counted in a run."""
LEAST_SHARE = 0.02
"""Of blocks that are listed below their phase."""


@dataclass(slots=True, eq=False)
class Profile:
    """Where the time went."""

    start: dict[str, float]
    """Seconds by stage, in order; their sum is the time from the start of the process to the first step."""
    tiers: dict[str, float] = field(default_factory=dict)
    """Seconds from when the step was asked for until each tier was active."""
    step: dict[str, Any] = field(default_factory=dict)
    """Of one step: seconds, phases, blocks, and what was counted."""

    def to_json(self) -> dict[str, Any]:
        """All of it."""
        return {"start": self.start, "tiers_active_after": self.tiers, "step": self.step}


def process_age() -> float | None:
    """Seconds since this process was started; None where the system does not say."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def stages_of_start(recorded: Mapping[str, float], age: float | None) -> dict[str, float]:
    """Seconds by stage of `STAGES`, those that took any time, from what was recorded after imports took `age`."""
    found = {} if age is None else {"import": age}
    left = dict(recorded)
    for name, (words, _) in STAGES.items():
        parts = [words] if words in left else words.split()
        seconds = sum(left.pop(part, 0.0) for part in parts)
        if seconds:
            found[name] = seconds
    if left:
        found["other"] = found.get("other", 0.0) + sum(left.values())
    return found


def profile_step(scene: Scene, again: Callable[[Callable[[], None] | None], float], steps: int) -> dict[str, Any]:
    """Run the simulation again: as it is on one thread, then with a clock between the blocks of the step.

    Args:
        scene: what is simulated.
        again: goes back to the start and takes all steps; gives the seconds that they took. What it is given is called
            now and then.
        steps: how many that are.
    """
    engine = scene.running.engine
    if not engine.model.n_dofs:
        return {}
    counted: dict[str, list[float]] = {"contacts": [], "iterations": [], "rows": []}
    if not engine.device.is_cpu:
        again(lambda: _count(scene, counted))
        return {"counts": _means(counted), "how": GPU}
    from kinema.sim import StepTimes, on_one_thread  # with all that traces, which other runs do without

    with on_one_thread(engine):
        again(lambda: _count(scene, counted))
        plain = again(None)
    times = StepTimes(engine)
    with times.running():
        timed = again(None)
    per_step = timed / steps / scene.n_envs
    return {
        "seconds": plain / steps / scene.n_envs,
        "seconds_timed": per_step,
        "phases": {name: share * per_step for name, share in times.phases().items()},
        "blocks": [{"phase": b.phase, "name": b.name, "seconds": b.share * per_step} for b in times.blocks()],
        "counts": _means(counted),
        "how": HOW.format(tier=engine.tier),
    }


HOW = (
    "the simulated steps again, per environment: {tier} code on one thread, with a clock between the blocks of the "
    "program"
)
GPU = "phases are not timed on a GPU, where they are kernels: `nsys profile` shows them by name"


def _count(scene: Scene, counted: dict[str, list[float]]) -> None:
    engine = scene.running.engine
    for name, array in (("contacts", "n_contacts"), ("iterations", "n_iterations")):
        if engine.state.layout.rows.get(array, (0, 0))[1]:
            counted[name].append(float(np.mean(engine.field(array).numpy())))
    if counted["iterations"]:
        try:
            counted["rows"].append(float(np.mean(engine.fields.constraints.n_rows.numpy())))
        except KinemaError:  # there are none
            return


def _means(counted: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in counted.items() if values}


def print_profile(console: Console, profile: Profile) -> None:
    """Two tables, and how it was measured."""
    total = sum(profile.start.values())
    table = Table("start", "time", "share", "what", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name, seconds in profile.start.items():
        table.add_row(name, _time(seconds), f"{seconds / total:.0%}", Text(STAGES[name][1], style="dim"))
    table.add_row(Text("total", style="bold"), Text(_time(total), style="bold"))
    for tier, seconds in profile.tiers.items():
        table.add_row(Text(f"{tier} code", style="dim"), Text(_time(seconds), style="dim"), "", ACTIVE)
    console.print(table)
    if profile.step.get("phases"):
        _print_step(console, profile.step)
    for name, mean in profile.step.get("counts", {}).items():
        console.print(Text(f"{COUNTED[name]}: {mean:.1f} on average", style="dim"))
    if profile.step:
        console.print(Text(f"measured: {profile.step['how']}", style="dim"))


ACTIVE = Text("active so long after the step was asked for", style="dim")
COUNTED = {"contacts": "contacts", "iterations": "iterations of the solver", "rows": "active constraint rows"}


def _print_step(console: Console, step: Mapping[str, Any]) -> None:
    table = Table("step", "time", "share", box=None, padding=(0, 2, 0, 0), header_style="dim")
    timed = step["seconds_timed"]
    for phase, seconds in step["phases"].items():
        table.add_row(phase, _time(seconds), f"{seconds / timed:.0%}")
        own: dict[str, float] = {}
        for block in step["blocks"]:
            if block["phase"] == phase:
                own[block["name"]] = own.get(block["name"], 0.0) + block["seconds"]
        listed = {name: x for name, x in own.items() if name and x > LEAST_SHARE * timed} if len(own) > 1 else {}
        for name, x in sorted(listed.items(), key=lambda item: -item[1]):
            table.add_row(*(Text(word, style="dim") for word in (f"  {name}", _time(x), f"{x / timed:.0%}")))
    table.add_row(Text("total", style="bold"), Text(_time(timed), style="bold"), f"{_time(step['seconds'])} untimed")
    console.print(table)


def _time(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
