"""`kinema convert` of a whole folder, or to several formats: many files at a time, and a table at the end."""

from __future__ import annotations

import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.table import Table
from rich.text import Text

from kinema.apps.cluster import Outcome, Store, url_of
from kinema.description import Robot, World
from kinema.foundation import KinemaError, ReadError, Severity, WriteError, clean_name, unique_name
from kinema.write import LossReport, remove_drafts

from .convert import Showing, WriteSettings, formats_named, save
from .diagnostics_table import output_console
from .library import Doing, Library, book_of, do_all, file_of, is_library, print_logs, stamps
from .reading import FINE, HAS_ERRORS, UNREADABLE, ReadSettings, print_json, read_file, report_error


@dataclass(frozen=True, slots=True)
class Job:
    """One file to convert to one format."""

    source: Path
    """In a library elsewhere, its place in there."""
    target: Path
    """Likewise."""
    to: str
    """The format as it was asked for: `usda`, say."""
    format: str
    reading: ReadSettings
    settings: WriteSettings
    home: str = ""
    """The address of the library that it is read from, if that is elsewhere."""
    out: str = ""
    """That of the folder that it is written to."""


@dataclass(frozen=True, slots=True)
class Converted:
    """What came of it."""

    n_errors: int
    """Errors of the input, which was converted all the same."""
    losses: dict[str, object]
    """The loss report, as JSON values."""
    seconds: float
    written: Sequence[str] = ()
    """Several files where the format holds one robot only, and the input has more."""
    sources: dict[str, str] = field(default_factory=dict)
    """The files that it was made of, and their digests."""

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
    doing: Doing = field(default_factory=Doing)
    reading: ReadSettings = field(default_factory=ReadSettings)
    showing: Showing = field(default_factory=Showing)
    settings: WriteSettings = field(default_factory=WriteSettings)


def run(source: Path, out: Path, options: Options) -> int:
    """Convert every robot of a folder, or a single one to several formats; the exit status is the worst of all."""
    source, out = options.doing.placed(source), options.doing.placed(out)
    try:
        library = Library.at(source) if is_library(source) else Library(source.parent)
        work = plan(source, out, options, library)
        book = book_of(options.doing, Converted, url_of(out) or out, _is_there)
        outcomes = do_all("converting", convert_one, work, options.doing, book)
        if options.doing.resumes:
            _clear(outcomes)
        entries = _entries(outcomes, library)
        if options.showing.report is not None:
            save(entries, options.showing.report)
    except KinemaError as error:
        return report_error(error, options.showing.json)
    if options.showing.json:
        print_json({"file": library.home or str(source), "output": url_of(out) or str(out), "conversions": entries})
    else:
        print_outcomes(output_console(), outcomes, library, url_of(out) or str(out))
        print_logs(outcomes)
    return max(map(_status, outcomes), default=FINE)


def _clear(outcomes: Sequence[Outcome[Job, Converted]]) -> None:
    """Remove drafts of workers that were killed, now that nobody writes: of this time, and of a time before."""
    for outcome in outcomes:
        if not outcome.task.out and outcome.result is not None:
            for name in outcome.result.written:
                remove_drafts(Path(name))


def _is_there(job: Job, result: Converted) -> bool:
    """Whether what was written is still there."""
    if not job.out:
        return all(Path(name).is_file() for name in result.written)
    store = Store(job.out)
    return all(store.size(name.removeprefix(f"{job.out.rstrip('/')}/")) >= 0 for name in result.written)


def plan(source: Path, out: Path, options: Options, library: Library) -> list[Job]:
    """What to convert, and where to: the folders are kept, the suffix is the new one.

    Of several formats, each has a folder of its name.
    """
    if options.to is None:
        raise WriteError(f"{source}: this is a folder; say what its robots are to become, as in --to usda or --to all")
    formats, url = formats_named(options.to), url_of(out)
    if not url and out.exists() and not out.is_dir():
        raise WriteError(f"{out}: this is a file; several files need a folder to go to")
    folder = Path() if library.home else library.folder
    files = _robots(library, out) if is_library(source) else [source]
    sources = {f.resolve() for f in files}
    work: list[Job] = []
    home = Path() if url else out
    for to, (format, suffix) in formats.items():
        place = home if len(formats) == 1 else home / to
        targets = target_names([f.relative_to(folder) for f in files], suffix, apart=format != "usd")
        for file, target in zip(files, targets, strict=True):
            if not url and (place / target).resolve() in sources and not options.settings.force:
                raise WriteError(
                    f"{place / target}: this would be written over a file that is to be read; --force does so"
                )
            job = Job(file, place / target, to, format, options.reading, options.settings, library.home, url)
            work.append(job)
    work.sort(key=lambda job: files.index(job.source))
    return work


def _robots(library: Library, out: Path) -> list[Path]:
    """The robots of a library; of those in the folder to write to, none."""
    inside = out.resolve() if not url_of(out) and out.resolve() != library.folder.resolve() else None
    files = [f for f in library.robots() if inside is None or inside not in f.resolve().parents]
    if not files:
        raise ReadError(f"{library.folder}: there are no robot files in this folder")
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
    described = read_file(file_of(job), job.reading)
    n_errors = sum(d.severity is Severity.ERROR for d in described.diagnostics)
    if job.out:
        with tempfile.TemporaryDirectory(prefix="kinema-") as folder:
            reports = _write(job, described, Path(folder))
            Store(job.out).put(Path(folder), last=reports[-1][0])
            written = [f"{job.out.rstrip('/')}/{target.relative_to(folder).as_posix()}" for target, _ in reports]
    else:
        reports = _write(job, described, Path())
        written = [str(target) for target, _ in reports]
    losses = LossReport(job.format, str(job.target), [loss for _, report in reports for loss in report])
    sources = stamps(job, described)
    return Converted(n_errors, losses.to_json(), time.perf_counter() - begin, written, sources)


def _write(job: Job, described: Robot | World, folder: Path) -> list[tuple[Path, LossReport]]:
    """What is written to a folder, and what was lost."""
    (folder / job.target).parent.mkdir(parents=True, exist_ok=True)
    return [
        (folder / target, job.settings.write(described, folder / target, job.format, robot))
        for target, robot in _outputs(job, described)
    ]


def _outputs(job: Job, described: Robot | World) -> list[tuple[Path, str]]:
    """The files to write, each with the robot that is to be in it: URDF holds one, so that each has a file."""
    moving = [r.name for r in described.robots if not r.static] if isinstance(described, World) else []
    if job.format != "urdf" or job.settings.robot or len(moving) < 2:
        return [(job.target, "")]
    taken: set[str] = set()
    stem, suffix = job.target.stem, job.target.suffix
    return [(job.target.with_name(f"{stem}_{unique_name(clean_name(name), taken)}{suffix}"), name) for name in moving]


def _status(outcome: Outcome[Job, Converted]) -> int:
    if outcome.result is None:
        return UNREADABLE
    return HAS_ERRORS if outcome.result.n_errors else FINE


def print_outcomes(console: Console, outcomes: Sequence[Outcome[Job, Converted]], library: Library, out: str) -> None:
    """One table of all files, and the sum."""
    formats = list(dict.fromkeys(o.task.to for o in outcomes))
    if len(formats) == 1:
        console.print(_table_of_files(outcomes, library))
    else:
        console.print(_table_of_formats(outcomes, library, formats))
        for outcome in outcomes:
            if outcome.result is None:
                name = f"{_name(outcome, library)} to {outcome.task.to}: "
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


def _table_of_files(outcomes: Sequence[Outcome[Job, Converted]], library: Library) -> Table:
    """A line for each file."""
    table = Table("file", "status", "losses", "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[3].justify = "right"
    for outcome in outcomes:
        result = outcome.result
        if result is None:
            table.add_row(Text(_name(outcome, library)), Text.assemble(("✗ ", "bold red"), _why(outcome)), "", "")
            continue
        counts = ", ".join(f"{n} {action}" for action, n in result.n_losses.items() if n)
        status = Text("✓ written", style="green")
        if result.n_errors:
            status = Text(f"! written; the input has {result.n_errors} errors", style="yellow")
        table.add_row(Text(_name(outcome, library)), status, counts or "none", f"{result.seconds:.2f}")
    return table


def _table_of_formats(outcomes: Sequence[Outcome[Job, Converted]], library: Library, formats: Sequence[str]) -> Table:
    """A line for each file, a column for each format with the numbers of losses."""
    table = Table("file", *formats, "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[-1].justify = "right"
    table.caption = "✓ dropped / approximated / in an extension   ! the same, the input has errors   ✗ failed"
    table.caption_justify = "left"
    rows: dict[str, dict[str, Outcome[Job, Converted]]] = {}
    for outcome in outcomes:
        rows.setdefault(_name(outcome, library), {})[outcome.task.to] = outcome
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


def _name(outcome: Outcome[Job, Converted], library: Library) -> str:
    return str(outcome.task.source if library.home else outcome.task.source.relative_to(library.folder))


def _why(outcome: Outcome[Job, Converted]) -> str:
    why = outcome.failure
    for place in (outcome.task.source, outcome.task.target):
        why = why.replace(str(place), place.name)
    return why


def _entries(outcomes: Sequence[Outcome[Job, Converted]], library: Library) -> list[dict[str, object]]:
    """All that is known of each conversion, as JSON values."""
    return [
        {
            "file": _name(o, library),
            "to": o.task.to,
            "output": list(o.result.written) if o.result else None,
            "failure": o.failure or None,
            "errors": o.result.n_errors if o.result else None,
            "report": o.result.losses if o.result else None,
        }
        for o in outcomes
    ]
