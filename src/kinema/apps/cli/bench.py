"""`kinema bench`: this simulator beside its peers, in one run."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kinema.apps.bench import Result, chart, first_step, run, single_environment
from kinema.backend import find_device, synchronise
from kinema.foundation import KinemaError

from .diagnostics_table import output_console
from .reading import report_error


def bench(
    files: Sequence[Path],
    envs: Sequence[int],
    device: str,
    *,
    seconds: float,
    json: bool,
    plot: Path | None,
    startup: bool,
    free: bool = False,
) -> int:
    """Measure, and print a table or one JSON object; the exit status."""
    console = Console(stderr=True)
    try:
        found = find_device(device)
        results, starts, singles = _measure(console, files, envs, found.name, seconds, startup=startup, free=free)
    except KinemaError as error:
        return report_error(error, json)
    synchronise(found)
    if plot is not None:
        plot.write_text(chart(results, f"Environment-steps a second on {found.name}"), encoding="utf-8")
    if json:
        print(json_module.dumps(_as_json(results, starts, singles, found.name)))  # noqa: T201
    else:
        _print(output_console(), results, starts, singles, free=free)
    sound = all(r.figures.finite for r in results)
    return 0 if sound else 1


Starts = dict[str, dict[str, float]]


def _measure(
    console: Console,
    files: Sequence[Path],
    envs: Sequence[int],
    device: str,
    seconds: float,
    *,
    startup: bool,
    free: bool,
) -> tuple[list[Result], Starts, Starts]:
    results: list[Result] = []
    starts: Starts = {}
    singles: Starts = {}
    with console.status("reading") as status:
        results += run(files, envs, device, seconds, status.update, free=free)
        for file in files:
            if startup:
                status.update(f"{file.stem}: first step of a new process, with and without a cache")
                starts[file.stem] = first_step(file, device, envs[0], free=free)
            if device == "cpu":
                status.update(f"{file.stem}: one environment")
                singles[file.stem] = single_environment(file, seconds, free=free)
    return results, starts, singles


def _print(console: Console, results: Sequence[Result], starts: Starts, singles: Starts, *, free: bool) -> None:
    table = Table("robot", "dof", "simulator", "envs", "env-steps/s", "ratio", "to", "error", "B/env", "build s")
    for r in results:
        f = r.figures
        known = f.simulator.startswith("Kinema")
        table.add_row(
            r.case,
            str(r.n_dofs),
            f.simulator if f.finite else f"[red]{f.simulator}: not finite[/red]",
            f"{f.n_envs:,}",
            f"{f.rate:,.0f}",
            f"{r.ratio:.1f}" if r.reference != f.simulator else "",
            r.reference if r.reference != f.simulator else "",
            f"{f.error:.0e}" if known else "",
            f"{f.bytes_per_env:,.0f}" if known else "",
            f"{f.build_seconds:.1f}" if f.build_seconds else "",
        )
    console.print(table)
    for name, rates in singles.items():
        told = ", ".join(f"{call} {rate:,.0f}" for call, rate in rates.items())
        console.print(f"{name}, one environment, steps a second: {told}")
    print_starts(console, starts)
    console.print(
        "error: the greatest difference of a coordinate from MuJoCo C in double precision, after 20 steps of random "
        f"commands.\nAll without contacts{' and constraints' if free else ''}, implicitfast, random commands at every "
        f"step{'' if free else ', which lean to one side, so that limits are reached'}."
    )


def print_starts(console: Console, starts: Starts) -> None:
    """How long new processes take to their first step."""
    for name, start in starts.items():
        console.print(
            f"{name}, from the start of a process to its first step: {start['cold_s']:.1f} s without a cache, "
            f"{start['warm_s']:.1f} s with one; {start['peak_mib']:.0f} MiB at most"
        )


def _as_json(results: Sequence[Result], starts: Starts, singles: Starts, device: str) -> dict[str, Any]:
    return {"device": device, "results": [asdict(r) for r in results], "first_step": starts, "one_environment": singles}
