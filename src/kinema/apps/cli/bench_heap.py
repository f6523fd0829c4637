"""`kinema bench --contact heap`: prints figures of large scenes as a table or as JSON."""

from __future__ import annotations

import json as json_module
import math
from collections.abc import Sequence
from dataclasses import asdict
from pathlib import Path

from rich.console import Console
from rich.table import Table

from kinema.core import KinemaError, write_file

from ..bench import HeapKind, HeapMeasurement, growth_exponents, measure_heaps, scaling_chart_svg
from .input_output import output_console, report_error

NOTES = (
    "One environment on one core, CPU times, each simulator in a process of its own. build, first step: from the start "
    "of\nthe process; cached: with a filled cache. falling, resting, sleeping: one step. residual: forces missing in "
    "the\nequations of motion by MuJoCo's inverse dynamics, against those of constraints; median: over the objects.\n"
    "moving: objects not at rest at the end."
)


def run_heap_bench(counts: Sequence[int], kind: HeapKind, layers: int, *, json: bool, plot: Path | None = None) -> int:
    """Measure heaps, print a table or JSON and draw a chart; returns the exit status."""
    try:
        with Console(stderr=True).status("heap") as status:
            results = list(measure_heaps(counts, kind, layers=layers, progress=status.update))
    except KinemaError as error:
        return report_error(error, json)
    exponents = {name: growth_exponents(results, name) for name in dict.fromkeys(r.simulator for r in results)}
    if plot is not None:
        write_file(plot, scaling_chart_svg(results, f"Heaps of {kind.value} in a bin, one environment on one core"))
    if json:
        rows = [{k: None if v != v else v for k, v in asdict(r).items()} for r in results]  # noqa: PLR0124  NaN
        print(json_module.dumps({"results": rows, "growth_exponents": exponents}))  # noqa: T201
    else:
        _print_table(output_console(), results, exponents)
    return 0 if all(r.is_sound for r in results) else 1


def _print_table(console: Console, results: Sequence[HeapMeasurement], exponents: dict[str, dict[str, float]]) -> None:
    rows = [_cells(r) for r in results]
    table = Table(*rows[0])
    for row in rows:
        table.add_row(*row.values())
    console.print(table)
    for name, fitted in exponents.items():
        if fitted:
            growth = ", ".join(f"{key} {value:.2f}" for key, value in fitted.items())
            console.print(f"{name}, exponents of growth by number of objects: {growth}")
    console.print(NOTES)


def _cells(r: HeapMeasurement) -> dict[str, str]:
    """Table row of a measurement: cells by heading."""

    def milliseconds(seconds: float) -> str:
        return "" if math.isnan(seconds) else f"{seconds * 1e3:.3g}"

    return {
        "heap": f"{r.n_bodies:,} {r.kind}",
        "simulator": r.simulator if r.is_sound else f"[red]{r.simulator}: not sound[/red]",
        "build s": f"{r.build:.1f}",
        "first step s": f"{r.first_step:.1f}",
        "cached s": f"{r.first_step_cached:.1f}",
        "falling ms": milliseconds(r.falling),
        "resting ms": milliseconds(r.resting),
        "sleeping ms": milliseconds(r.sleeping),
        "asleep": "" if math.isnan(r.asleep) else f"{r.asleep:.0%}",
        "MiB": f"{r.memory:.0f}",
        "contacts": f"{r.contacts:,}",
        "moving": f"{r.moving:,}",
        "residual": f"{r.residual:.0e}",
        "median": f"{r.residual_median:.0e}",
    }
