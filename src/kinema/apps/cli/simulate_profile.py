"""`kinema simulate --profile`: time of each startup stage and of each phase of a step."""

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

from kinema.core import KinemaError
from kinema.scene import Scene

START_STAGES = {
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
N_COUNT_SAMPLES = 20
"""How often contacts, iterations and rows are counted in a run."""
MIN_BLOCK_FRACTION = 0.02
"""Of blocks that are listed below their phase."""


@dataclass(slots=True, eq=False)
class Profile:
    """Time of the startup stages and of the phases of a step."""

    start_times: dict[str, float]
    """Seconds by stage, in order; their sum is the time from the start of the process to the first step."""
    tier_activation_times: dict[str, float] = field(default_factory=dict)
    """Seconds from when the step was asked for until each tier was active."""
    step_times: dict[str, Any] = field(default_factory=dict)
    """Of one step: seconds, phases, blocks, and what was counted."""

    def to_json(self) -> dict[str, Any]:
        """Profile as JSON values."""
        return {"start": self.start_times, "tiers_active_after": self.tier_activation_times, "step": self.step_times}


def process_age() -> float | None:
    """Time since process start [s]; None if unavailable."""
    try:
        fields = Path("/proc/self/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
        return time.clock_gettime(time.CLOCK_BOOTTIME) - int(fields[19]) / os.sysconf("SC_CLK_TCK")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def start_stage_times(recorded: Mapping[str, float], import_seconds: float | None) -> dict[str, float]:
    """Seconds by stage of `STAGES`, those that took any time.

    From what was recorded after imports took `import_seconds`.
    """
    found = {} if import_seconds is None else {"import": import_seconds}
    left = dict(recorded)
    for name, (words, _) in START_STAGES.items():
        parts = [words] if words in left else words.split()
        seconds = sum(left.pop(part, 0.0) for part in parts)
        if seconds:
            found[name] = seconds
    if left:
        found["other"] = found.get("other", 0.0) + sum(left.values())
    return found


def profile_step(scene: Scene, rerun: Callable[[Callable[[], None] | None], float], steps: int) -> dict[str, Any]:
    """Run the simulation again: as it is on one thread, then with a clock between the blocks of the step.

    Args:
        scene: what is simulated.
        rerun: goes back to the start and takes all steps; gives the seconds that they took. What it is given is called
            now and then.
        steps: how many that are.
    """
    engine = scene.built.engine
    if not engine.model.n_dofs:
        return {}
    counted: dict[str, list[float]] = {"contacts": [], "iterations": [], "rows": []}
    if not engine.device.is_cpu:
        rerun(lambda: _sample_counts(scene, counted))
        return {"counts": _means(counted), "how": GPU_METHOD_TEXT}
    from kinema.dynamics import StepProfiler, single_threaded  # with all that traces, which other runs do without

    with single_threaded(engine):
        rerun(lambda: _sample_counts(scene, counted))
        plain = rerun(None)
    times = StepProfiler(engine)
    with times.profiling():
        timed = rerun(None)
    per_step = timed / steps / scene.n_envs
    return {
        "seconds": plain / steps / scene.n_envs,
        "seconds_timed": per_step,
        "phases": {name: fraction * per_step for name, fraction in times.phase_fractions().items()},
        "blocks": [{"phase": b.phase, "name": b.name, "seconds": b.fraction * per_step} for b in times.block_times()],
        "counts": _means(counted),
        "how": CPU_METHOD_TEXT.format(tier=engine.tier),
    }


CPU_METHOD_TEXT = (
    "the simulated steps again, per environment: {tier} code on one thread, with a clock between the blocks of the "
    "program"
)
GPU_METHOD_TEXT = "phases are not timed on a GPU, where they are kernels: `nsys profile` shows them by name"


def _sample_counts(scene: Scene, samples: dict[str, list[float]]) -> None:
    engine = scene.built.engine
    for name, array in (("contacts", "n_contacts"), ("iterations", "n_iterations")):
        if engine.state.layout.rows.get(array, (0, 0))[1]:
            samples[name].append(float(np.mean(engine.array_view(array).numpy())))
    if samples["iterations"]:
        try:
            samples["rows"].append(float(np.mean(engine.fields.constraints.n_rows.numpy())))
        except KinemaError:  # there are none
            return


def _means(samples: Mapping[str, list[float]]) -> dict[str, float]:
    return {name: float(np.mean(values)) for name, values in samples.items() if values}


def print_profile(console: Console, profile: Profile) -> None:
    """Print the tables of startup stages and step phases, with the measurement method."""
    total = sum(profile.start_times.values())
    table = Table("start", "time", "share", "what", box=None, padding=(0, 2, 0, 0), header_style="dim")
    for name, seconds in profile.start_times.items():
        table.add_row(
            name, _format_seconds(seconds), f"{seconds / total:.0%}", Text(START_STAGES[name][1], style="dim")
        )
    table.add_row(Text("total", style="bold"), Text(_format_seconds(total), style="bold"))
    for tier, seconds in profile.tier_activation_times.items():
        table.add_row(
            Text(f"{tier} code", style="dim"), Text(_format_seconds(seconds), style="dim"), "", TIER_ACTIVE_TEXT
        )
    console.print(table)
    if profile.step_times.get("phases"):
        _print_step_profile(console, profile.step_times)
    for name, mean in profile.step_times.get("counts", {}).items():
        console.print(Text(f"{COUNT_LABELS[name]}: {mean:.1f} on average", style="dim"))
    if profile.step_times:
        console.print(Text(f"measured: {profile.step_times['how']}", style="dim"))


TIER_ACTIVE_TEXT = Text("active so long after the step was asked for", style="dim")
COUNT_LABELS = {"contacts": "contacts", "iterations": "iterations of the solver", "rows": "active constraint rows"}


def _print_step_profile(console: Console, step: Mapping[str, Any]) -> None:
    table = Table("step", "time", "share", box=None, padding=(0, 2, 0, 0), header_style="dim")
    timed = step["seconds_timed"]
    for phase, seconds in step["phases"].items():
        table.add_row(phase, _format_seconds(seconds), f"{seconds / timed:.0%}")
        own: dict[str, float] = {}
        for block in step["blocks"]:
            if block["phase"] == phase:
                own[block["name"]] = own.get(block["name"], 0.0) + block["seconds"]
        listed = {name: x for name, x in own.items() if name and x > MIN_BLOCK_FRACTION * timed} if len(own) > 1 else {}
        for name, x in sorted(listed.items(), key=lambda item: -item[1]):
            table.add_row(*(Text(word, style="dim") for word in (f"  {name}", _format_seconds(x), f"{x / timed:.0%}")))
    table.add_row(
        Text("total", style="bold"),
        Text(_format_seconds(timed), style="bold"),
        f"{_format_seconds(step['seconds'])} untimed",
    )
    console.print(table)


def _format_seconds(seconds: float) -> str:
    for unit, name in ((1.0, "s"), (1e-3, "ms"), (1e-6, "µs")):
        if seconds >= unit:
            return f"{seconds / unit:.3g} {name}"
    return f"{seconds * 1e9:.3g} ns"
