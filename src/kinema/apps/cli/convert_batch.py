"""`kinema convert` of a whole folder, or to several formats: many files at a time, and a table at the end."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.table import Table
from rich.text import Text

from kinema.description import Robot, World
from kinema.foundation import KinemaError, Severity, WriteError, clean_name, unique_name
from kinema.write import LossReport

from .convert import Showing, WriteSettings, formats_named, save
from .diagnostics_table import output_console
from .find_robots import find_robots
from .processes import Outcome, default_jobs, work_on_all
from .reading import FINE, HAS_ERRORS, UNREADABLE, ReadSettings, print_json, read_file, report_error

MOST_SECONDS = 600.0
"""How long one file may take."""
_PRELOAD = ("kinema.apps.cli.convert_batch",)
_HEAVY = ("mujoco", "pxr.UsdPhysics", "pxr.UsdShade", "scipy.spatial")
_FEW = 4
"""So many conversions are done before the libraries that others may need are loaded for all."""


@dataclass(frozen=True, slots=True)
class Job:
    """One file to convert to one format."""

    source: Path
    target: Path
    to: str
    """The format as it was asked for: `usda`, say."""
    format: str
    reading: ReadSettings
    settings: WriteSettings


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of it."""

    n_errors: int
    """Errors of the input, which was converted all the same."""
    losses: dict[str, object]
    """The loss report, as JSON values."""
    seconds: float
    written: tuple[Path, ...] = ()
    """Several files where the format holds one robot only, and the input has more."""

    @property
    def n_losses(self) -> dict[str, int]:
        """How many losses there are of each kind."""
        counts = self.losses["counts"]
        return dict(counts) if isinstance(counts, dict) else {}


@dataclass(frozen=True, slots=True)
class Options:
    """What the command line asks for."""

    to: str | None = None
    """What to write, as formats or suffixes with commas between."""
    jobs: int | None = None
    reading: ReadSettings = field(default_factory=ReadSettings)
    showing: Showing = field(default_factory=Showing)
    settings: WriteSettings = field(default_factory=WriteSettings)


def run(source: Path, out: Path, options: Options) -> int:
    """Convert every robot of a folder, or a single one to several formats; the exit status is the worst of all."""
    folder = source if source.is_dir() else source.parent
    try:
        outcomes = _convert_all(plan(source, out, options), options.jobs or default_jobs())
        entries = _entries(outcomes, folder)
        if options.showing.report is not None:
            save(entries, options.showing.report)
    except KinemaError as error:
        return report_error(error, options.showing.json)
    if options.showing.json:
        print_json({"file": str(source), "output": str(out), "conversions": entries})
    else:
        print_outcomes(output_console(), outcomes, folder, out)
    return max(map(_status, outcomes), default=FINE)


def plan(source: Path, out: Path, options: Options) -> list[Job]:
    """What to convert, and where to: the folders are kept, the suffix is the new one.

    Of several formats, each has a folder of its name.
    """
    if options.to is None:
        raise WriteError(f"{source}: this is a folder; say what its robots are to become, as in --to usda or --to all")
    formats = formats_named(options.to)
    if out.exists() and not out.is_dir():
        raise WriteError(f"{out}: this is a file; several files need a folder to go to")
    folder, files = (source, _robots(source, out)) if source.is_dir() else (source.parent, [source])
    sources = {f.resolve() for f in files}
    work: list[Job] = []
    for to, (format, suffix) in formats.items():
        place = out if len(formats) == 1 else out / to
        targets = target_names([f.relative_to(folder) for f in files], suffix, apart=format != "usd")
        for file, target in zip(files, targets, strict=True):
            if (place / target).resolve() in sources and not options.settings.force:
                raise WriteError(
                    f"{place / target}: this would be written over a file that is to be read; --force does so"
                )
            work.append(Job(file, place / target, to, format, options.reading, options.settings))
    work.sort(key=lambda job: files.index(job.source))
    return work


def _robots(folder: Path, out: Path) -> list[Path]:
    inside = out.resolve() if out.resolve() != folder.resolve() else None
    files = [f for f in find_robots(folder) if inside is None or inside not in f.resolve().parents]
    if not files:
        raise WriteError(f"{folder}: there are no robot files in this folder")
    return files


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
    described = read_file(job.source, job.reading)
    job.target.parent.mkdir(parents=True, exist_ok=True)
    reports = [
        (target, job.settings.write(described, target, job.format, robot)) for target, robot in _outputs(job, described)
    ]
    losses = LossReport(job.format, str(job.target), [loss for _, report in reports for loss in report])
    n_errors = sum(d.severity is Severity.ERROR for d in described.diagnostics)
    written = tuple(target for target, _ in reports)
    return Converted(n_errors, losses.to_json(), time.perf_counter() - begin, written)


def _outputs(job: Job, described: Robot | World) -> list[tuple[Path, str]]:
    """The files to write, each with the robot that is to be in it: URDF holds one, so that each has a file."""
    moving = [r.name for r in described.robots if not r.static] if isinstance(described, World) else []
    if job.format != "urdf" or job.settings.robot or len(moving) < 2:
        return [(job.target, "")]
    taken: set[str] = set()
    stem, suffix = job.target.stem, job.target.suffix
    return [(job.target.with_name(f"{stem}_{unique_name(clean_name(name), taken)}{suffix}"), name) for name in moving]


def _convert_all(work: Sequence[Job], jobs: int) -> list[Outcome[Job, Converted]]:
    columns = (TextColumn("converting"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    outcomes: list[Outcome[Job, Converted]] = []
    preload = (*_PRELOAD, *_HEAVY) if len(work) > _FEW else _PRELOAD
    with Progress(*columns, console=Console(stderr=True), transient=True) as progress:
        bar = progress.add_task("converting", total=len(work))
        for outcome in work_on_all(convert_one, work, jobs=jobs, seconds=MOST_SECONDS, preload=preload):
            outcomes.append(outcome)
            progress.advance(bar)
    place = {job: i for i, job in enumerate(work)}
    return sorted(outcomes, key=lambda o: place[o.task])


def _status(outcome: Outcome[Job, Converted]) -> int:
    if outcome.result is None:
        return UNREADABLE
    return HAS_ERRORS if outcome.result.n_errors else FINE


def print_outcomes(console: Console, outcomes: Sequence[Outcome[Job, Converted]], folder: Path, out: Path) -> None:
    """One table of all files, and the sum."""
    formats = list(dict.fromkeys(o.task.to for o in outcomes))
    if len(formats) == 1:
        console.print(_table_of_files(outcomes, folder))
    else:
        console.print(_table_of_formats(outcomes, folder, formats))
        for outcome in outcomes:
            if outcome.result is None:
                name = f"{_name(outcome, folder)} to {outcome.task.to}: "
                console.print(Text.assemble(("✗ ", "bold red"), name, _why(outcome)), soft_wrap=True)
    tally = Counter(map(_status, outcomes))
    done = tally[FINE] + tally[HAS_ERRORS]
    more = sum(len(o.result.written) - 1 for o in outcomes if o.result is not None)
    words = [f"{done} of {len(outcomes)} {'files' if len(formats) == 1 else 'conversions'} are in {out}"]
    words += [f"with {more} more files, as URDF holds one robot each"] * bool(more)
    words += [f"{tally[HAS_ERRORS]} of them from input with errors"] * bool(tally[HAS_ERRORS])
    words += [f"{tally[UNREADABLE]} failed"] * bool(tally[UNREADABLE])
    sign = ("✗ ", "bold red") if tally[UNREADABLE] else ("✓ ", "bold green")
    console.print(Text.assemble(sign, ", ".join(words)))


def _table_of_files(outcomes: Sequence[Outcome[Job, Converted]], folder: Path) -> Table:
    """A line for each file."""
    table = Table("file", "status", "losses", "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[3].justify = "right"
    for outcome in outcomes:
        result = outcome.result
        if result is None:
            table.add_row(Text(_name(outcome, folder)), Text.assemble(("✗ ", "bold red"), _why(outcome)), "", "")
            continue
        counts = ", ".join(f"{n} {action}" for action, n in result.n_losses.items() if n)
        status = Text("✓ written", style="green")
        if result.n_errors:
            status = Text(f"! written; the input has {result.n_errors} errors", style="yellow")
        table.add_row(Text(_name(outcome, folder)), status, counts or "none", f"{result.seconds:.2f}")
    return table


def _table_of_formats(outcomes: Sequence[Outcome[Job, Converted]], folder: Path, formats: Sequence[str]) -> Table:
    """A line for each file, a column for each format with the numbers of losses."""
    table = Table("file", *formats, "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[-1].justify = "right"
    table.caption = "✓ dropped / approximated / in an extension   ! the same, the input has errors   ✗ failed"
    table.caption_justify = "left"
    rows: dict[str, dict[str, Outcome[Job, Converted]]] = {}
    for outcome in outcomes:
        rows.setdefault(_name(outcome, folder), {})[outcome.task.to] = outcome
    for name, by_format in rows.items():
        seconds = sum(o.result.seconds for o in by_format.values() if o.result is not None)
        table.add_row(Text(name), *(_cell(by_format[to]) for to in formats), f"{seconds:.2f}")
    return table


def _cell(outcome: Outcome[Job, Converted]) -> Text:
    result = outcome.result
    if result is None:
        return Text("✗", style="bold red")
    counts = " / ".join(map(str, result.n_losses.values())) if any(result.n_losses.values()) else ""
    return Text(f"! {counts}", style="yellow") if result.n_errors else Text(f"✓ {counts}", style="green")


def _name(outcome: Outcome[Job, Converted], folder: Path) -> str:
    return str(outcome.task.source.relative_to(folder))


def _why(outcome: Outcome[Job, Converted]) -> str:
    why = outcome.failure
    for place in (outcome.task.source, outcome.task.target):
        why = why.replace(str(place), place.name)
    return why


def _entries(outcomes: Sequence[Outcome[Job, Converted]], folder: Path) -> list[dict[str, object]]:
    """All that is known of each conversion, as JSON values."""
    return [
        {
            "file": _name(o, folder),
            "to": o.task.to,
            "output": [str(p) for p in o.result.written] if o.result else None,
            "failure": o.failure or None,
            "errors": o.result.n_errors if o.result else None,
            "report": o.result.losses if o.result else None,
        }
        for o in outcomes
    ]
