"""`kinema convert` of a whole folder: every robot in it, several at a time, and a table at the end."""

from __future__ import annotations

import json
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from kinema.foundation import KinemaError, Severity, WriteError

from .convert import WriteSettings, format_named
from .diagnostics_table import output_console
from .find_robots import find_robots
from .processes import Outcome, default_jobs, work_on_all
from .reading import FINE, HAS_ERRORS, UNREADABLE, read_file

MOST_SECONDS = 600.0
"""How long one file may take."""
_PRELOAD = ("kinema.apps.cli.convert_batch",)


@dataclass(frozen=True, slots=True)
class Job:
    """One file to convert."""

    source: Path
    target: Path
    format: str
    read_as: str | None
    search_paths: tuple[Path, ...]
    settings: WriteSettings


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of it."""

    n_errors: int
    """Errors of the input, which was converted all the same."""
    losses: dict[str, object]
    """The loss report, as JSON values."""
    seconds: float

    @property
    def n_losses(self) -> dict[str, int]:
        """How many losses there are of each kind."""
        counts = self.losses["counts"]
        return dict(counts) if isinstance(counts, dict) else {}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    to: str | None = None
    """What to write, as format or as suffix."""
    jobs: int | None = None
    format: str | None = None
    """What to read all files as; found out where not given."""
    search_paths: Sequence[Path] = ()
    report: Path | None = None
    settings: WriteSettings = field(default_factory=WriteSettings)


def run(folder: Path, out: Path, options: Options) -> int:
    """Convert every robot of a folder; the exit status, which is the worst of all."""
    try:
        outcomes = _convert_all(plan(folder, out, options), options.jobs or default_jobs())
        if options.report is not None:
            _save(outcomes, folder, options.report)
    except KinemaError as error:
        Console(stderr=True, soft_wrap=True).print(Text.assemble(("error: ", "bold red"), str(error)))
        return UNREADABLE
    print_table(output_console(), outcomes, folder, out)
    return max((_status(o) for o in outcomes), default=FINE)


def plan(folder: Path, out: Path, options: Options) -> list[Job]:
    """What to convert, and where to: the folders are kept, the suffix is the new one."""
    if options.to is None:
        raise WriteError(f"{folder}: this is a folder; say what its robots are to become, as in --to usda")
    format, suffix = format_named(options.to)
    if out.exists() and not out.is_dir():
        raise WriteError(f"{out}: this is a file; the robots of a folder need a folder to go to")
    inside = out.resolve() if out.resolve() != folder.resolve() else None
    files = [f for f in find_robots(folder) if inside is None or inside not in f.resolve().parents]
    if not files:
        raise WriteError(f"{folder}: there are no robot files in this folder")
    targets = target_names([f.relative_to(folder) for f in files], suffix, apart=format != "usd")
    sources = {f.resolve() for f in files}
    for target in targets:
        if (out / target).resolve() in sources:
            raise WriteError(f"{out / target}: this would be written over a file that is to be read")
    paths = tuple(options.search_paths)
    return [
        Job(file, out / target, format, options.format, paths, options.settings)
        for file, target in zip(files, targets, strict=True)
    ]


def target_names(files: Sequence[Path], suffix: str, *, apart: bool) -> list[Path]:
    """Where each file goes, all different.

    Files that differ by their suffix alone keep it in their name. `apart` gives a folder of its own to each robot that
    would share one with others: the mesh files of their formats lie beside them and may have equal names.
    """
    plain = [f.with_name(f.name.removesuffix(f.suffix).removesuffix(".urdf") + suffix) for f in files]
    counts = Counter(plain)
    names = [
        p if counts[p] == 1 else p.with_name(f"{p.stem}_{f.suffix[1:]}{suffix}")
        for p, f in zip(plain, files, strict=True)
    ]
    crowded = {folder for folder, n in Counter(p.parent for p in names).items() if n > 1}
    return [p.parent / p.stem / p.name if apart and p.parent in crowded else p for p in names]


def convert_one(job: Job) -> Converted:
    """Convert one file, in a process of its own."""
    begin = time.perf_counter()
    described = read_file(job.source, job.read_as, job.search_paths)
    job.target.parent.mkdir(parents=True, exist_ok=True)
    losses = job.settings.write(described, job.target, job.format)
    n_errors = sum(d.severity is Severity.ERROR for d in described.diagnostics)
    return Converted(n_errors, losses.to_json(), time.perf_counter() - begin)


def _convert_all(work: Sequence[Job], jobs: int) -> list[Outcome[Job, Converted]]:
    columns = (TextColumn("converting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    outcomes: list[Outcome[Job, Converted]] = []
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("converting", total=len(work))
        for outcome in work_on_all(convert_one, work, jobs=jobs, seconds=MOST_SECONDS, preload=_PRELOAD):
            outcomes.append(outcome)
            progress.advance(bar)
    place = {job: i for i, job in enumerate(work)}
    return sorted(outcomes, key=lambda o: place[o.task])


def _status(outcome: Outcome[Job, Converted]) -> int:
    if outcome.result is None:
        return UNREADABLE
    return HAS_ERRORS if outcome.result.n_errors else FINE


def print_table(console: Console, outcomes: Sequence[Outcome[Job, Converted]], folder: Path, out: Path) -> None:
    """A line for each file, and the sum."""
    table = Table("file", "status", "losses", "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[3].justify = "right"
    for outcome in outcomes:
        name = str(outcome.task.source.relative_to(folder))
        result = outcome.result
        if result is None:
            why = outcome.failure
            for place in (outcome.task.source, outcome.task.target):
                why = why.replace(str(place), place.name)
            table.add_row(Text(name), Text.assemble(("✗ ", "bold red"), why), "", "")
            continue
        counts = ", ".join(f"{n} {action}" for action, n in result.n_losses.items() if n)
        status = Text("✓ written", style="green")
        if result.n_errors:
            status = Text(f"! written; the input has {result.n_errors} errors", style="yellow")
        table.add_row(Text(name), status, counts or "none", f"{result.seconds:.2f}")
    console.print(table)
    tally = Counter(map(_status, outcomes))
    words = [f"{tally[FINE] + tally[HAS_ERRORS]} of {len(outcomes)} files are in {out}"]
    words += [f"{tally[HAS_ERRORS]} of them from input with errors"] * bool(tally[HAS_ERRORS])
    words += [f"{tally[UNREADABLE]} failed"] * bool(tally[UNREADABLE])
    sign = ("✗ ", "bold red") if tally[UNREADABLE] else ("✓ ", "bold green")
    console.print(Text.assemble(sign, ", ".join(words)))


def _save(outcomes: Sequence[Outcome[Job, Converted]], folder: Path, report: Path) -> None:
    entries = [
        {
            "file": str(o.task.source.relative_to(folder)),
            "output": str(o.task.target) if o.result else None,
            "failure": o.failure or None,
            "errors": o.result.n_errors if o.result else None,
            "report": o.result.losses if o.result else None,
        }
        for o in outcomes
    ]
    try:
        report.write_text(json.dumps(entries, indent=1, ensure_ascii=False) + "\n", encoding="utf-8")
    except OSError as error:
        raise WriteError(f"{report}: {error.strerror or error}") from None
