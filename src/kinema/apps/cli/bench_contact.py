"""`kinema bench --contact`: things that touch, beside the peers."""

from __future__ import annotations

import json as json_module
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kinema.apps.bench import Result, chart, first_step
from kinema.apps.bench.contact import Place, TouchFigures, load_touching, run_touching, single_touching
from kinema.backend import find_device
from kinema.foundation import KinemaError

from .bench import print_starts
from .diagnostics_table import output_console
from .reading import report_error

Rates = dict[str, dict[str, float]]


def bench_contact(
    place: str,
    files: Sequence[Path],
    envs: Sequence[int],
    device: str,
    *,
    seconds: float,
    json: bool,
    plot: Path | None,
    startup: bool,
) -> int:
    """Measure, and print a table or one JSON object; the exit status."""
    robots: Sequence[Path | None] = files or [None]
    results: list[Result] = []
    starts: Rates = {}
    singles: Rates = {}
    try:
        name = find_device(device).name
        with Console(stderr=True).status("reading") as status:
            results += run_touching(Place(place), robots, envs, name, seconds, status.update)
            for robot, case in zip(robots, dict.fromkeys(r.case for r in results), strict=True):
                if startup:
                    status.update(f"{case}: first step of a new process, with and without a cache")
                    starts[case] = first_step(robot, name, envs[0], place=place)
                if name == "cpu":
                    status.update(f"{case}: one environment")
                    singles[case] = single_touching(load_touching(Place(place), robot), seconds)
    except KinemaError as error:
        return report_error(error, json)
    if plot is not None:
        plot.write_text(chart(results, f"Environment-steps a second with contact on {name}"), encoding="utf-8")
    if json:
        told = {"device": name, "place": place, "results": [asdict(r) for r in results]}
        print(json_module.dumps({**told, "first_step": starts, "one_environment": singles}))  # noqa: T201
    else:
        _print(output_console(), results, starts, singles)
    return 0 if all(r.figures.finite for r in results) else 1


def _print(console: Console, results: Sequence[Result], starts: Rates, singles: Rates) -> None:
    table = Table("scene", "dof", "simulator", "envs", "env-steps/s", "ratio", "contacts", "iterations")
    for heading in ("error", "99 %", "residual", "own error", "overflows", "B/env", "build s"):
        table.add_column(heading)
    for r in results:
        f = r.figures
        assert isinstance(f, TouchFigures)
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
    for name, rates in singles.items():
        told = ", ".join(f"{call} {rate:,.0f}" for call, rate in rates.items())
        console.print(f"{name}, one environment, steps a second of CPU time: {told}")
    print_starts(console, starts)
    console.print(
        "Random commands at every step, from the same states after 0.8 s of them. Ratios are to the first "
        "simulator; on a CPU\nby CPU time of one core. error: of the velocities after one step, against their change, "
        "from MuJoCo C in double precision\nsolved to the end (median, and the worst hundredth). residual: forces "
        "missing in the equations of motion, against those of\nconstraints (median). own error: from Kinema in double "
        "precision (median), where shapes touch in other points by choice.\noverflows: environments with more contacts "
        "than there was room for."
    )
