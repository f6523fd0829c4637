"""`kinema check` and `kinema info` of a whole folder: a line for each robot in one table."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.apps.cluster import Outcome
from kinema.foundation import KinemaError, Severity

from .check import all_problems, openusd_problems
from .convert import save
from .diagnostics_table import output_console, speaker
from .info_json import describe
from .library import Doing, Library, book_of, do_all, file_of, print_logs, stamps
from .reading import FINE, HAS_ERRORS, UNREADABLE, ReadSettings, print_json, read_file, report_error, status


@dataclass(frozen=True, slots=True)
class Asked:
    """What the command line asks for."""

    command: str
    """`check` or `info`."""
    reading: ReadSettings
    json: bool = False
    report: Path | None = None
    openusd: bool = False


@dataclass(frozen=True, slots=True)
class Look:
    """One file to look at."""

    source: Path
    command: str
    reading: ReadSettings
    openusd: bool = False
    home: str = ""
    """The address of the library that it is in, if that is elsewhere."""


@dataclass(frozen=True, slots=True)
class Seen:
    """What was seen."""

    status: int
    found: dict[str, Any]
    """What the command says of a single file with `--json`."""
    seconds: float
    sources: dict[str, str] = field(default_factory=dict)
    """The files that it was made of, and their digests."""


def run(place: Path, asked: Asked, doing: Doing) -> int:
    """Look at every robot of a folder; the exit status is the worst of all."""
    try:
        library = Library.at(doing.placed(place))
        looks = [Look(f, asked.command, asked.reading, asked.openusd, library.home) for f in library.robots()]
        verb = "checking" if asked.command == "check" else "reading"
        outcomes = do_all(verb, look_at, looks, doing, book_of(doing, Seen))
        entries = [_entry(o, library) for o in outcomes]
        if asked.report is not None:
            save(entries, asked.report)
    except KinemaError as error:
        return report_error(error, asked.json)
    if asked.json:
        print_json({"file": library.home or str(place), "files": entries})
    else:
        _print(output_console(), outcomes, library, asked.command)
        print_logs(outcomes)
    return max(map(_status, outcomes), default=FINE)


def look_at(look: Look) -> Seen:
    """Look at one file, in a process of its own."""
    begin = time.perf_counter()
    file = file_of(look)
    described = read_file(file, look.reading)
    if look.command == "info":
        found, problems = describe(described), list(described.diagnostics)
    else:
        problems = all_problems(described)
        if look.openusd:
            problems += openusd_problems(file, described, look.reading)
        listed = [{**d.to_json(), "by": speaker(d)} for d in problems]
        found = {"format": described.format, "name": described.name, "diagnostics": listed}
    return Seen(status(problems), found, time.perf_counter() - begin, stamps(look, described))


def _status(outcome: Outcome[Look, Seen]) -> int:
    return UNREADABLE if outcome.result is None else outcome.result.status


def _name(outcome: Outcome[Look, Seen], library: Library) -> str:
    return str(outcome.task.source if library.home else outcome.task.source.relative_to(library.folder))


def _entry(outcome: Outcome[Look, Seen], library: Library) -> dict[str, Any]:
    found = outcome.result.found if outcome.result else {}
    return {"file": _name(outcome, library), "failure": outcome.failure or None, **found}


def _print(console: Console, outcomes: Sequence[Outcome[Look, Seen]], library: Library, command: str) -> None:
    columns = _CHECKED if command == "check" else _SHOWN
    table = Table("file", "", *columns, "seconds", box=None, padding=(0, 2, 0, 0))
    for column in table.columns[2:]:
        column.justify = "right"
    failures: list[Text] = []
    for outcome in outcomes:
        name, result = _name(outcome, library), outcome.result
        if result is None:
            table.add_row(Text(name), Text("✗", style="bold red"), *[""] * (len(columns) + 1))
            why = outcome.failure.replace(str(outcome.task.source), outcome.task.source.name)
            failures.append(Text.assemble(("✗ ", "bold red"), f"{name}: {why}"))
            continue
        sign = Text("!", style="yellow") if result.status == HAS_ERRORS else Text("✓", style="green")
        cells = _problems(result.found) if command == "check" else _contents(result.found)
        table.add_row(Text(name), sign, *cells, f"{result.seconds:.2f}")
    console.print(table)
    for failure in failures:
        console.print(failure, soft_wrap=True)
    tally = Counter(map(_status, outcomes))
    words = [f"{len(outcomes)} files", f"{tally[FINE]} without errors"]
    words += [f"{tally[HAS_ERRORS]} with errors"] * bool(tally[HAS_ERRORS])
    words += [f"{tally[UNREADABLE]} cannot be read"] * bool(tally[UNREADABLE])
    sign = ("✓ ", "bold green") if tally[FINE] == len(outcomes) else ("✗ ", "bold red")
    console.print(Text.assemble(sign, ", ".join(words)))


_CHECKED = ("errors", "warnings", "notes")
_SHOWN = ("format", "links", "joints", "dof", "mass \\[kg]")


def _problems(found: dict[str, Any]) -> list[str]:
    counts = Counter(d["severity"] for d in found["diagnostics"])
    return [str(counts[s.value] or "") for s in Severity]


def _contents(found: dict[str, Any]) -> list[str]:
    mass = found["total_mass"]
    counts = [str(found[name]) for name in ("n_links", "n_joints", "n_dofs")]
    return [found["format"], *counts, f"{mass:.5g}" if isinstance(mass, float | int) else str(mass)]
