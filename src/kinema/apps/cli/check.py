"""`kinema check` of one file, and `kinema check` and `kinema info` of a folder as one table."""

from __future__ import annotations

import inspect
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kinema.check import RULES, Rule, check
from kinema.core import Diagnostic, KinemaError, Origin, Severity
from kinema.description import Robot, World
from kinema.read import openusd_validation

from ..cluster import Outcome
from .batch import (
    RobotLibrary,
    local_file,
    open_records,
    print_worker_logs,
    process_all,
    source_digests,
)
from .convert import save_report
from .info import description_to_json
from .input_output import (
    EXIT_FAILED,
    EXIT_HAS_ERRORS,
    EXIT_OK,
    diagnostic_source,
    diagnostics_summary,
    exit_status,
    open_input,
    output_console,
    parse_variants,
    print_diagnostics,
    print_json,
    read_file,
    report_error,
)
from .options import ExecutionOptions, ReadSettings

# ------------------------------------------------------------------------------------------------------------- one file


def check_file(file: Path, read_settings: ReadSettings, *, json: bool, openusd: bool = False) -> int:
    """Print diagnostics of the reader and the rules, optionally of OpenUSD's validators; returns the exit status."""
    console = output_console()
    try:
        with (
            open_input(file, read_settings) as (name, settings),
            Status("reading", console=Console(stderr=True)) as progress,
        ):
            described = read_file(name, settings)
            progress.update("checking")
            found = collect_problems(described)
            if openusd:
                found += openusd_problems(name, described, settings)
    except KinemaError as error:
        return report_error(error, json)
    if json:
        result = {
            "file": str(file),
            "format": described.format,
            "name": described.name,
            "diagnostics": [{**d.to_json(), "by": diagnostic_source(d)} for d in found],
        }
        print_json(result)
    else:
        print_diagnostics(console, found, show_source=openusd)
        console.print(diagnostics_summary(found))
    return exit_status(found)


_RULE_OF_READER_CODE = {"usd.joint-frames-apart": "frames.disagree"}
"""What the reader of a format says -> the rule that says the same of the same place, of every format alike."""


def collect_problems(description: Robot | World) -> list[Diagnostic]:
    """Diagnostics of the reader and the rules without duplicates."""
    said, found = list(description.diagnostics), check(description)
    reader_missed_meshes = any(d.code.endswith(".missing-mesh") for d in said)
    known = {(d.code, str(d.origin)) for d in found}
    said = [d for d in said if (_RULE_OF_READER_CODE.get(d.code), str(d.origin)) not in known]
    return said + [d for d in found if not (reader_missed_meshes and d.code == "meshes.missing")]


def openusd_problems(file: Path, description: Robot | World, read_settings: ReadSettings) -> list[Diagnostic]:
    """Diagnostics of OpenUSD's validators; a note if the file is not a USD stage."""
    if description.format == "usd":
        paths, variants = read_settings.search_paths or [], parse_variants(read_settings.variants or [])
        return openusd_validation(file, search_paths=paths, variants=variants)
    message = f"OpenUSD's validators are for USD stages; this file is {description.format.upper()}"
    return [Diagnostic(Severity.NOTE, "openusd.not-a-stage", message, origin=Origin(str(file)))]


def list_rules(*, json: bool = False) -> int:
    """Print a table of all rules."""
    if json:
        print_json(
            {"rules": [{"code": r.code, "severity": r.severity.value, "finds": _rule_summary(r)} for r in RULES]}
        )
        return 0
    table = Table("code", "severity", "what it finds", box=None, padding=(0, 2, 0, 0))
    for rule in RULES:
        table.add_row(rule.code, rule.severity.value, _rule_summary(rule))
    output_console().print(table)
    return 0


def _rule_summary(rule: Rule) -> str:
    return (inspect.getdoc(rule.function) or "").split("\n")[0]


# -------------------------------------------------------------------------------------------------------------- folders


@dataclass(frozen=True, slots=True)
class InspectOptions:
    """Options of `kinema check` and `kinema info` for a folder."""

    command: str
    """`check` or `info`."""
    read_settings: ReadSettings
    json: bool = False
    report: Path | None = None
    openusd: bool = False


@dataclass(frozen=True, slots=True)
class InspectTask:
    """Task to inspect one file."""

    source: Path
    command: str
    read_settings: ReadSettings
    openusd: bool = False
    library_url: str = ""
    """The address of the library that it is in, if that is elsewhere."""


@dataclass(frozen=True, slots=True)
class InspectResult:
    """Result of inspecting one file."""

    status: int
    report: dict[str, Any]
    """What the command says of a single file with `--json`."""
    seconds: float
    sources: dict[str, str] = field(default_factory=dict)
    """The files that it was made of, and their digests."""


def inspect_folder(folder: Path, options: InspectOptions, execution: ExecutionOptions) -> int:
    """Inspect every robot of a folder; returns the worst exit status."""
    try:
        library = RobotLibrary.from_path(execution.absolute_path(folder))
        looks = [
            InspectTask(f, options.command, options.read_settings, options.openusd, library.url)
            for f in library.list_robots()
        ]
        verb = "checking" if options.command == "check" else "reading"
        outcomes = process_all(verb, inspect_file, looks, execution, open_records(execution, InspectResult))
        entries = [_inspection_json(o, library) for o in outcomes]
        if options.report is not None:
            save_report(entries, options.report)
    except KinemaError as error:
        return report_error(error, options.json)
    if options.json:
        print_json({"file": library.url or str(folder), "files": entries})
    else:
        _print_inspection(output_console(), outcomes, library, options.command)
        print_worker_logs(outcomes)
    return max(map(_inspection_status, outcomes), default=EXIT_OK)


def inspect_file(task: InspectTask) -> InspectResult:
    """Inspect one file, in a separate process."""
    begin = time.perf_counter()
    file = local_file(task)
    described = read_file(file, task.read_settings)
    if task.command == "info":
        found, problems = description_to_json(described), list(described.diagnostics)
    else:
        problems = collect_problems(described)
        if task.openusd:
            problems += openusd_problems(file, described, task.read_settings)
        listed = [{**d.to_json(), "by": diagnostic_source(d)} for d in problems]
        found = {"format": described.format, "name": described.name, "diagnostics": listed}
    return InspectResult(exit_status(problems), found, time.perf_counter() - begin, source_digests(task, described))


def _inspection_status(outcome: Outcome[InspectTask, InspectResult]) -> int:
    return EXIT_FAILED if outcome.result is None else outcome.result.status


def _inspected_name(outcome: Outcome[InspectTask, InspectResult], library: RobotLibrary) -> str:
    return str(outcome.task.source if library.url else outcome.task.source.relative_to(library.folder))


def _inspection_json(outcome: Outcome[InspectTask, InspectResult], library: RobotLibrary) -> dict[str, Any]:
    found = outcome.result.report if outcome.result else {}
    return {"file": _inspected_name(outcome, library), "failure": outcome.failure or None, **found}


def _print_inspection(
    console: Console, outcomes: Sequence[Outcome[InspectTask, InspectResult]], library: RobotLibrary, command: str
) -> None:
    columns = _CHECK_COLUMNS if command == "check" else _INFO_COLUMNS
    table = Table("file", "", *columns, "seconds", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[2:]:
        column.justify = "right"
    failures: list[Text] = []
    for outcome in outcomes:
        name, result = _inspected_name(outcome, library), outcome.result
        if result is None:
            table.add_row(Text(name), Text("✗", style="bold red"), *[""] * (len(columns) + 1))
            why = outcome.failure.replace(str(outcome.task.source), outcome.task.source.name)
            failures.append(Text.assemble(("✗ ", "bold red"), f"{name}: {why}"))
            continue
        sign = Text("!", style="yellow") if result.status == EXIT_HAS_ERRORS else Text("✓", style="green")
        cells = _severity_counts(result.report) if command == "check" else _info_cells(result.report)
        table.add_row(Text(name), sign, *cells, f"{result.seconds:.2f}")
    console.print(table)
    for failure in failures:
        console.print(failure, soft_wrap=True)
    tally = Counter(map(_inspection_status, outcomes))
    words = [f"{len(outcomes)} files", f"{tally[EXIT_OK]} without errors"]
    words += [f"{tally[EXIT_HAS_ERRORS]} with errors"] * bool(tally[EXIT_HAS_ERRORS])
    words += [f"{tally[EXIT_FAILED]} cannot be read"] * bool(tally[EXIT_FAILED])
    sign = ("✓ ", "bold green") if tally[EXIT_OK] == len(outcomes) else ("✗ ", "bold red")
    console.print(Text.assemble(sign, ", ".join(words)))


_CHECK_COLUMNS = ("errors", "warnings", "notes")
_INFO_COLUMNS = ("format", "links", "joints", "dof", "mass \\[kg]")


def _severity_counts(report: dict[str, Any]) -> list[str]:
    counts = Counter(d["severity"] for d in report["diagnostics"])
    return [str(counts[s.value] or "") for s in Severity]


def _info_cells(report: dict[str, Any]) -> list[str]:
    mass = report["total_mass"]
    counts = [str(report[name]) for name in ("n_links", "n_joints", "n_dofs")]
    return [report["format"], *counts, f"{mass:.5g}" if isinstance(mass, float | int) else str(mass)]
