"""`kinema bench`: prints benchmark results with and without contacts as a table or as JSON."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kinema.core import KinemaError, write_file
from kinema.runtime import find_device, synchronise

from ..bench import (
    BenchmarkResult,
    ContactMeasurement,
    ContactScene,
    bar_chart_svg,
    load_case,
    measure_startup_time,
    run_benchmark,
    single_environment_rates,
)
from .input_output import output_console, report_error

NamedRates = dict[str, dict[str, float]]

FREE_NOTES = (
    "error: the greatest difference of a coordinate from MuJoCo C in double precision, after 20 steps of random "
    "commands.\nAll without contacts, implicitfast, random commands at every step, which lean to one side so that "
    "limits are reached\n(without limits and other constraints with --free). Ratios are to the first simulator; on one "
    "core by CPU time."
)
CONTACT_NOTES = (
    "Random commands at every step, from the same states after 0.8 s of them. Ratios are to the first "
    "simulator; on a CPU\nby CPU time of one core. error: of the velocities after one step, against their change, "
    "from MuJoCo C in double precision\nsolved to the end (median, and the worst hundredth). residual: forces "
    "missing in the equations of motion, against those of\nconstraints (median). own error: from Kinema in double "
    "precision (median), where shapes touch in other points by choice.\noverflows: environments with more contacts "
    "than there was room for."
)


def run_bench(  # noqa: PLR0913
    files: Sequence[Path],
    env_counts: Sequence[int],
    device: str,
    *,
    scene: ContactScene | None,
    seconds: float,
    json: bool,
    plot: Path | None,
    startup: bool,
    unconstrained: bool = False,
) -> int:
    """Run the benchmark, with contacts if a scene is given, and print a table or JSON; returns the exit status."""
    robots: Sequence[Path | None] = files or [None]
    results: list[BenchmarkResult] = []
    starts: NamedRates = {}
    singles: NamedRates = {}
    try:
        found = find_device(device)
        with Console(stderr=True).status("reading") as status:
            for robot in robots:
                results += run_benchmark(
                    [robot], env_counts, found.name, seconds, status.update, scene=scene, unconstrained=unconstrained
                )
                case = results[-1].case
                if startup:
                    status.update(f"{case}: first step of a new process, with and without a cache")
                    starts[case] = measure_startup_time(
                        robot, found.name, env_counts[0], unconstrained=unconstrained, contact_scene=scene or ""
                    )
                if found.is_cpu:
                    status.update(f"{case}: one environment")
                    loaded = load_case(robot, scene, unconstrained=unconstrained)
                    singles[case] = single_environment_rates(loaded, seconds)
    except KinemaError as error:
        return report_error(error, json)
    synchronise(found)
    if plot is not None:
        title = f"Environment-steps a second{' with contact' if scene else ''} on {found.name}"
        write_file(plot, bar_chart_svg(results, title))
    if json:
        report = {"device": found.name, **({"place": scene} if scene else {}), "results": [asdict(r) for r in results]}
        print(json_module.dumps({**report, "first_step": starts, "one_environment": singles}))  # noqa: T201
    else:
        _print_results(output_console(), results, starts, singles, CONTACT_NOTES if scene else FREE_NOTES)
    return 0 if all(r.figures.finite for r in results) else 1


def _print_results(
    console: Console, results: Sequence[BenchmarkResult], starts: NamedRates, singles: NamedRates, notes: str
) -> None:
    """Print the table of results, the rates of single environments, the start-up times and notes."""
    rows = [_cells(result) for result in results]
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    for name, rates in singles.items():
        report = ", ".join(f"{call} {rate:,.0f}" for call, rate in rates.items())
        console.print(f"{name}, one environment, steps a second of CPU time: {report}")
    for name, start in starts.items():
        console.print(
            f"{name}, from the start of a process to its first step: {start['cold_s']:.1f} s without a cache, "
            f"{start['warm_s']:.1f} s with one; {start['peak_mib']:.0f} MiB at most"
        )
    console.print(notes)


def _cells(result: BenchmarkResult) -> dict[str, str]:
    """Table row of a result: cells by heading."""
    f, is_reference = result.figures, result.reference == result.figures.simulator
    has_contacts = isinstance(f, ContactMeasurement)
    cells = {
        "scene" if has_contacts else "robot": result.case,
        "dof": str(result.n_dofs),
        "simulator": f.simulator if f.finite else f"[red]{f.simulator}: not finite[/red]",
        "envs": f"{f.n_envs:,}",
        "env-steps/s": f"{f.rate:,.0f}",
        "ratio": "" if is_reference else f"{result.ratio:.2f}",
    }
    if isinstance(f, ContactMeasurement):
        cells |= {
            "contacts": f"{f.contacts:.1f}",
            "iterations": f"{f.iterations:.1f}",
            "error": f"{f.error:.0e}",
            "99 %": f"{f.error_99:.0e}",
            "residual": f"{f.residual:.0e}",
            "own error": "" if f.own_error is None else f"{f.own_error:.0e}",
            "overflows": str(f.overflows),
        }
    else:
        cells |= {"to": "" if is_reference else result.reference, "error": f"{f.error:.0e}"}
    return cells | {"B/env": f"{f.bytes_per_env:,.0f}", "build s": f"{f.build_seconds:.1f}" if f.build_seconds else ""}
