"""`kinema bench`: prints benchmark results with and without contacts as a table or as JSON."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table

from kinema.core import KinemaError
from kinema.runtime import find_device, synchronise

from ..bench import BenchmarkResult, bar_chart_svg, measure_single_environment, measure_startup_time, run_benchmark
from ..bench.contact import (
    ContactMeasurement,
    ContactScene,
    load_contact_case,
    measure_single_contact_environment,
    run_contact_benchmark,
)
from .input_output import output_console, report_error

# ------------------------------------------------------------------------------------------ benchmarks without contacts


def bench_without_contact(
    files: Sequence[Path],
    env_counts: Sequence[int],
    device: str,
    *,
    seconds: float,
    json: bool,
    plot: Path | None,
    startup: bool,
    unconstrained: bool = False,
) -> int:
    """Run the benchmark without contacts and print a table or JSON; returns the exit status."""
    console = Console(stderr=True)
    try:
        found = find_device(device)
        results, starts, singles = _run_measurements(
            console, files, env_counts, found.name, seconds, startup=startup, unconstrained=unconstrained
        )
    except KinemaError as error:
        return report_error(error, json)
    synchronise(found)
    if plot is not None:
        plot.write_text(bar_chart_svg(results, f"Environment-steps a second on {found.name}"), encoding="utf-8")
    if json:
        print(json_module.dumps(_results_json(results, starts, singles, found.name)))  # noqa: T201
    else:
        _print_results(output_console(), results, starts, singles, unconstrained=unconstrained)
    sound = all(r.figures.finite for r in results)
    return 0 if sound else 1


StartupTimes = dict[str, dict[str, float]]


def _run_measurements(
    console: Console,
    files: Sequence[Path],
    env_counts: Sequence[int],
    device: str,
    seconds: float,
    *,
    startup: bool,
    unconstrained: bool,
) -> tuple[list[BenchmarkResult], StartupTimes, StartupTimes]:
    results: list[BenchmarkResult] = []
    starts: StartupTimes = {}
    singles: StartupTimes = {}
    with console.status("reading") as status:
        results += run_benchmark(files, env_counts, device, seconds, status.update, unconstrained=unconstrained)
        for file in files:
            if startup:
                status.update(f"{file.stem}: first step of a new process, with and without a cache")
                starts[file.stem] = measure_startup_time(file, device, env_counts[0], unconstrained=unconstrained)
            if device == "cpu":
                status.update(f"{file.stem}: one environment")
                singles[file.stem] = measure_single_environment(file, seconds, unconstrained=unconstrained)
    return results, starts, singles


def _print_results(
    console: Console,
    results: Sequence[BenchmarkResult],
    startup_times: StartupTimes,
    single_env_rates: StartupTimes,
    *,
    unconstrained: bool,
) -> None:
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
    for name, rates in single_env_rates.items():
        told = ", ".join(f"{call} {rate:,.0f}" for call, rate in rates.items())
        console.print(f"{name}, one environment, steps a second: {told}")
    print_startup_times(console, startup_times)
    console.print(
        "error: the greatest difference of a coordinate from MuJoCo C in double precision, after 20 steps of random "
        f"commands.\nAll without contacts{' and constraints' if unconstrained else ''}, implicitfast, "
        "random commands at every "
        f"step{'' if unconstrained else ', which lean to one side, so that limits are reached'}."
    )


def print_startup_times(console: Console, startup_times: StartupTimes) -> None:
    """Print the time of new processes to their first step."""
    for name, start in startup_times.items():
        console.print(
            f"{name}, from the start of a process to its first step: {start['cold_s']:.1f} s without a cache, "
            f"{start['warm_s']:.1f} s with one; {start['peak_mib']:.0f} MiB at most"
        )


def _results_json(
    results: Sequence[BenchmarkResult], startup_times: StartupTimes, single_env_rates: StartupTimes, device: str
) -> dict[str, Any]:
    return {
        "device": device,
        "results": [asdict(r) for r in results],
        "first_step": startup_times,
        "one_environment": single_env_rates,
    }


# --------------------------------------------------------------------------------------------- benchmarks with contacts

NamedRates = dict[str, dict[str, float]]


def bench_with_contact(
    scene: str,
    files: Sequence[Path],
    env_counts: Sequence[int],
    device: str,
    *,
    seconds: float,
    json: bool,
    plot: Path | None,
    startup: bool,
) -> int:
    """Run the benchmark with contacts and print a table or JSON; returns the exit status."""
    robots: Sequence[Path | None] = files or [None]
    results: list[BenchmarkResult] = []
    starts: NamedRates = {}
    singles: NamedRates = {}
    try:
        name = find_device(device).name
        with Console(stderr=True).status("reading") as status:
            results += run_contact_benchmark(ContactScene(scene), robots, env_counts, name, seconds, status.update)
            for robot, case in zip(robots, dict.fromkeys(r.case for r in results), strict=True):
                if startup:
                    status.update(f"{case}: first step of a new process, with and without a cache")
                    starts[case] = measure_startup_time(robot, name, env_counts[0], contact_scene=scene)
                if name == "cpu":
                    status.update(f"{case}: one environment")
                    singles[case] = measure_single_contact_environment(
                        load_contact_case(ContactScene(scene), robot), seconds
                    )
    except KinemaError as error:
        return report_error(error, json)
    if plot is not None:
        plot.write_text(bar_chart_svg(results, f"Environment-steps a second with contact on {name}"), encoding="utf-8")
    if json:
        told = {"device": name, "place": scene, "results": [asdict(r) for r in results]}
        print(json_module.dumps({**told, "first_step": starts, "one_environment": singles}))  # noqa: T201
    else:
        _print_contact_results(output_console(), results, starts, singles)
    return 0 if all(r.figures.finite for r in results) else 1


def _print_contact_results(
    console: Console, results: Sequence[BenchmarkResult], startup_times: NamedRates, single_env_rates: NamedRates
) -> None:
    table = Table("scene", "dof", "simulator", "envs", "env-steps/s", "ratio", "contacts", "iterations")
    for heading in ("error", "99 %", "residual", "own error", "overflows", "B/env", "build s"):
        table.add_column(heading)
    for r in results:
        f = r.figures
        assert isinstance(f, ContactMeasurement)
        table.add_row(
            r.case,
            str(r.n_dofs),
            f.simulator if f.finite else f"[red]{f.simulator}: not finite[/red]",
            f"{f.n_envs:,}",
            f"{f.rate:,.0f}",
            f"{r.ratio:.2f}" if r.reference != f.simulator else "",
            f"{f.contacts:.1f}",
            f"{f.iterations:.1f}",
            *(f"{number:.0e}" for number in (f.error, f.error_99, f.residual)),
            "" if f.own_error is None else f"{f.own_error:.0e}",
            str(f.overflows),
            f"{f.bytes_per_env:,.0f}",
            f"{f.build_seconds:.1f}" if f.build_seconds else "",
        )
    console.print(table)
    for name, rates in single_env_rates.items():
        told = ", ".join(f"{call} {rate:,.0f}" for call, rate in rates.items())
        console.print(f"{name}, one environment, steps a second of CPU time: {told}")
    print_startup_times(console, startup_times)
    console.print(
        "Random commands at every step, from the same states after 0.8 s of them. Ratios are to the first "
        "simulator; on a CPU\nby CPU time of one core. error: of the velocities after one step, against their change, "
        "from MuJoCo C in double precision\nsolved to the end (median, and the worst hundredth). residual: forces "
        "missing in the equations of motion, against those of\nconstraints (median). own error: from Kinema in double "
        "precision (median), where shapes touch in other points by choice.\noverflows: environments with more contacts "
        "than there was room for."
    )
