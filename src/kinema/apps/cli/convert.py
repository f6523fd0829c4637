"""`kinema convert`: conversion of one file or a folder to other formats, with tables of losses."""

from __future__ import annotations

import dataclasses
import json
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path

from rich.console import Console
from rich.status import Status
from rich.table import Table
from rich.text import Text

from kinema.core import KinemaError, ReadError, Severity, WriteError, to_identifier, unique_name, write_file
from kinema.description import Robot, World
from kinema.tokens import WriteOptions
from kinema.write import FORMATS, Action, Loss, LossCategory, LossReport, remove_staging_folders, resolve_format, write

from ..cluster import Outcome, Store, remote_url
from .batch import (
    RobotLibrary,
    is_folder_or_url,
    local_file,
    open_records,
    print_worker_logs,
    process_all,
    source_digests,
)
from .input_output import (
    EXIT_FAILED,
    EXIT_HAS_ERRORS,
    EXIT_OK,
    STANDARD_STREAM,
    exit_status,
    mask_stdin_copy,
    open_input,
    output_console,
    print_diagnostics,
    print_json,
    read_file,
    report_error,
)
from .options import ExecutionOptions, ReadSettings

# ---------------------------------------------------------------------------------------------------------- loss tables

_CATEGORY_TITLES = {
    LossCategory.MOTION: "change how it moves",
    LossCategory.APPEARANCE: "change how it looks",
    LossCategory.METADATA: "change neither",
}
_ACTION_STYLE = {Action.DROPPED: "bold red", Action.APPROXIMATED: "yellow", Action.EXTENSION: "cyan"}
_ACTION_MEANING = {
    Action.DROPPED: "not in the file",
    Action.APPROXIMATED: "close to what was meant",
    Action.EXTENSION: "for readers that know it",
}
_MAX_NAMES = 6
"""How many names of a row are shown; the report file has all of them."""
_MAX_ROWS = {LossCategory.MOTION: 40, LossCategory.APPEARANCE: 12, LossCategory.METADATA: 6}
"""How many rows of a matter are shown; likewise."""


def print_losses(console: Console, losses: LossReport) -> None:
    """Print a table of losses per category; equal losses of several elements are one row."""
    folded = losses.grouped()
    for matter in LossCategory:
        rows = [(first, members) for first, members in folded if first.category is matter]
        if not rows:
            continue
        count = sum(len(members) for _, members in rows)
        console.print(_loss_table(f"{count} {_CATEGORY_TITLES[matter]}", rows[: _MAX_ROWS[matter]]))
        if len(rows) > _MAX_ROWS[matter]:
            console.print(Text(f"  and {len(rows) - _MAX_ROWS[matter]} more rows: see --report or --json", style="dim"))


def _loss_table(title: str, rows: Sequence[tuple[Loss, list[Loss]]]) -> Table:
    table = Table(title=title, title_justify="left", title_style="bold", box=None, padding=(0, 2, 0, 0))
    table.add_column("")
    table.add_column("of", overflow="fold", max_width=44)
    table.add_column("what", overflow="fold", ratio=1)
    for first, members in rows:
        text = Text(first.what)
        if first.how:
            text.append(f"\n→ {first.how}", style="italic dim")
        action = Text(f"{first.action.value}\n({_ACTION_MEANING[first.action]})", style=_ACTION_STYLE[first.action])
        table.add_row(action, Text(_element_names(first.kind, members)), text)
    return table


def _element_names(kind: str, members: Sequence[Loss]) -> str:
    named = list(dict.fromkeys(loss.name for loss in members if loss.name))
    noun = kind if len(members) == 1 else f"{len(members)} {kind}s"
    if not named:
        return noun
    more = f" and {len(named) - _MAX_NAMES} more" if len(named) > _MAX_NAMES else ""
    return f"{noun} {', '.join(named[:_MAX_NAMES])}{more}"


# ------------------------------------------------------------------------------------------------------------- one file

ALL_FORMATS = "all"
"""What `--to` calls every format there is."""


@dataclass(frozen=True, slots=True)
class ReportOptions:
    """Options for the printed and saved reports."""

    report: Path | None = None
    """The file for all losses."""
    json: bool = False


def parse_target_formats(to: str) -> dict[str, tuple[str, str]]:
    """Parse the comma-separated value of `--to` into format and suffix of each item."""
    words = list(FORMATS) if to.strip().lower() == ALL_FORMATS else to.split(",")
    return {word.strip().lower().removeprefix("."): parse_target_format(word) for word in words}


def parse_target_format(to: str) -> tuple[str, str]:
    """Format and suffix of a name such as `usd`, `.usda`, `mjcf` or `xml`; raises `WriteError` if unknown."""
    word = to.strip().lower().removeprefix(".")
    if word in FORMATS:
        return word, FORMATS[word][0]
    for format, suffixes in FORMATS.items():
        if f".{word}" in suffixes:
            return format, f".{word}"
    words = dict.fromkeys(w for f, suffixes in FORMATS.items() for w in (f, *(s.removeprefix(".") for s in suffixes)))
    raise WriteError(f"--to {to}: this cannot be written; these can: {', '.join(words)}, or {ALL_FORMATS} of them")


def convert_file(
    source: Path,
    target: Path,
    read_settings: ReadSettings,
    *,
    write_options: WriteOptions,
    to: str | None = None,
    report_options: ReportOptions | None = None,
) -> int:
    """Convert a file; returns the exit status."""
    report_options = report_options or ReportOptions()
    try:
        file, chosen = _resolve_target(source, target, to)
        with (
            open_input(source, read_settings) as (name, settings),
            Status("reading", console=Console(stderr=True)) as progress,
        ):
            described = read_file(name, settings)
            progress.update("writing")
            if file.parent == target:
                target.mkdir(parents=True, exist_ok=True)
            if target == STANDARD_STREAM:
                losses = _write_to_stdout(described, file, chosen, write_options)
            else:
                losses = write(described, file, format=chosen, options=write_options)
        if report_options.report is not None:
            save_report(losses.to_json(), report_options.report)
    except KinemaError as error:
        return report_error(error, report_options.json)
    if report_options.json:
        _print_conversion_json(source, target if target == STANDARD_STREAM else file, described, losses)
    else:
        console = Console(stderr=True, highlight=False) if target == STANDARD_STREAM else output_console()
        _print_conversion(console, str(file) if target != STANDARD_STREAM else "standard output", described, losses)
    return exit_status(described.diagnostics.items)


def _resolve_target(source: Path, target: Path, to: str | None) -> tuple[Path, str]:
    """Output file and its format; in a folder, the file is named as the source."""
    if target == STANDARD_STREAM:
        if to is None:
            raise WriteError("-: say what to write to the standard output, as in --to urdf")
        format, suffix = parse_target_format(to)
        return Path(f"robot{suffix}"), format
    # with a format, a name without an ending that is no file is that of a folder to be made
    is_new_folder = to is not None and not target.suffix and not target.exists()
    if not target.is_dir() and not is_new_folder:
        return target, resolve_format(target) if to is None else parse_target_format(to)[0]
    if to is None:
        raise WriteError(f"{target}: this is a folder; say what to write into it, as in --to usda")
    format, suffix = parse_target_format(to)
    stem = "robot" if source == STANDARD_STREAM else source.name.removesuffix(source.suffix).removesuffix(".urdf")
    return target / f"{stem}{suffix}", format


def _write_to_stdout(
    description: Robot | World, file_name: Path, format: str, write_options: WriteOptions
) -> LossReport:
    """Write one file to the standard output; raises `WriteError` if further files would be needed beside it.

    Except for USD, meshes that would be embedded are referenced at their original location instead.
    """
    if format != "usd" and write_options.meshes == "embed":
        write_options = dataclasses.replace(write_options, meshes="reference")
    with tempfile.TemporaryDirectory(prefix="kinema-") as folder:
        file = Path(folder) / file_name
        losses = write(description, file, format=format, options=write_options)
        beside = sorted(str(p.relative_to(folder)) for p in Path(folder).rglob("*") if p.is_file() and p != file)
        if beside:
            raise WriteError(
                f"-: {beside[0]} would have to lie beside it, which the standard output cannot have; write to a file, "
                "or what holds everything (--to usdz)"
            )
        sys.stdout.flush()
        sys.stdout.buffer.write(file.read_bytes())
        sys.stdout.buffer.flush()
    losses.path = str(STANDARD_STREAM)
    return losses


def save_report(report: object, file: Path) -> None:
    """Write a report as JSON."""
    write_file(file, mask_stdin_copy(json.dumps(report, indent=1, ensure_ascii=False)) + "\n")


def _print_conversion_json(source: Path, target: Path, description: Robot | World, losses: LossReport) -> None:
    diagnostics: Sequence[object] = [d.to_json() for d in description.diagnostics]
    print_json({"file": str(source), "output": str(target), "report": losses.to_json(), "diagnostics": diagnostics})


def _print_conversion(console: Console, target: str, description: Robot | World, losses: LossReport) -> None:
    print_diagnostics(console, description.diagnostics.items, brief=True)
    print_losses(console, losses)
    n_links, n_joints = len(description.links), len(description.joints)
    words = f"{target}: {n_links} links, {n_joints} joints, {losses.summary()}"
    console.print(Text.assemble(("✓ ", "bold green"), words))


# ------------------------------------------------------------------------------------------ folders and several formats


@dataclass(frozen=True, slots=True)
class ConversionTask:
    """Task to convert one file to one format."""

    source: Path
    """In a library elsewhere, its place in there."""
    target: Path
    """Likewise."""
    to: str
    """The format as it was asked for: `usda`, say."""
    format: str
    read_settings: ReadSettings
    write_options: WriteOptions
    library_url: str = ""
    """The address of the library that it is read from, if that is elsewhere."""
    output_url: str = ""
    """That of the folder that it is written to."""


@dataclass(frozen=True, slots=True)
class ConversionResult:
    """Result of converting one file."""

    n_errors: int
    """Errors of the input, which was converted all the same."""
    losses: dict[str, object]
    """The loss report, as JSON values."""
    seconds: float
    written_files: Sequence[str] = ()
    """Several files where the format holds one robot only, and the input has more."""
    sources: dict[str, str] = field(default_factory=dict)
    """The files that it was made of, and their digests."""

    @property
    def n_losses(self) -> dict[str, int]:
        """Number of losses by category."""
        counts = self.losses["counts"]
        return dict(counts) if isinstance(counts, dict) else {}


@dataclass(frozen=True, slots=True)
class BatchOptions:
    """Options for converting a folder or to several formats."""

    to: str | None = None
    """What to write, as formats or suffixes with commas between."""
    execution: ExecutionOptions = field(default_factory=ExecutionOptions)
    read_settings: ReadSettings = field(default_factory=ReadSettings)
    report_options: ReportOptions = field(default_factory=ReportOptions)
    write_options: WriteOptions = field(default_factory=WriteOptions)


def convert_many(source: Path, output_folder: Path, options: BatchOptions) -> int:
    """Convert every robot of a folder, or one robot to several formats; returns the worst exit status."""
    source, output_folder = options.execution.absolute_path(source), options.execution.absolute_path(output_folder)
    try:
        library = RobotLibrary.from_path(source) if is_folder_or_url(source) else RobotLibrary(source.parent)
        work = plan_conversions(source, output_folder, options, library)
        book = open_records(
            options.execution, ConversionResult, remote_url(output_folder) or output_folder, _outputs_exist
        )
        try:
            outcomes = process_all("converting", convert_task, work, options.execution, book)
        except KeyboardInterrupt:
            _remove_drafts_of_targets(work)
            raise
        if options.execution.keeps_records:
            _remove_stale_drafts(outcomes)
        entries = _conversions_json(outcomes, library)
        if options.report_options.report is not None:
            save_report(entries, options.report_options.report)
    except KinemaError as error:
        return report_error(error, options.report_options.json)
    if options.report_options.json:
        print_json(
            {
                "file": library.url or str(source),
                "output": remote_url(output_folder) or str(output_folder),
                "conversions": entries,
            }
        )
    else:
        print_conversions(output_console(), outcomes, library, remote_url(output_folder) or str(output_folder))
        print_worker_logs(outcomes)
    return max(map(_conversion_status, outcomes), default=EXIT_OK)


def _remove_stale_drafts(outcomes: Sequence[Outcome[ConversionTask, ConversionResult]]) -> None:
    """Remove temporary files of workers that were killed, in this or an earlier run."""
    for outcome in outcomes:
        if not outcome.task.output_url and outcome.result is not None:
            for name in outcome.result.written_files:
                remove_staging_folders(Path(name))


def _remove_drafts_of_targets(tasks: Sequence[ConversionTask]) -> None:
    """Remove the temporary files of all tasks, whose workers have ended, some of them in the midst of writing."""
    for task in tasks:
        if not task.output_url:
            remove_staging_folders(task.target, one_per_robot=task.format == "urdf")


def _outputs_exist(task: ConversionTask, result: ConversionResult) -> bool:
    """Whether the recorded output files still exist."""
    if not task.output_url:
        return all(Path(name).is_file() for name in result.written_files)
    store = Store(task.output_url)
    return all(store.size(name.removeprefix(f"{task.output_url.rstrip('/')}/")) >= 0 for name in result.written_files)


def plan_conversions(
    source: Path, output_folder: Path, options: BatchOptions, library: RobotLibrary
) -> list[ConversionTask]:
    """Conversion tasks: the folder structure is kept and suffixes are replaced.

    With several formats, each has a folder of its name.
    """
    if options.to is None:
        raise WriteError(f"{source}: this is a folder; say what its robots are to become, as in --to usda or --to all")
    formats, url = parse_target_formats(options.to), remote_url(output_folder)
    if not url and output_folder.exists() and not output_folder.is_dir():
        raise WriteError(f"{output_folder}: this is a file; several files need a folder to go to")
    folder = Path() if library.url else library.folder
    files = _robots_to_convert(library, output_folder) if is_folder_or_url(source) else [source]
    sources = {f.resolve() for f in files}
    work: list[ConversionTask] = []
    home = Path() if url else output_folder
    for to, (format, suffix) in formats.items():
        place = home if len(formats) == 1 else home / to
        targets = target_names([f.relative_to(folder) for f in files], suffix, separate_folders=format != "usd")
        for file, target in zip(files, targets, strict=True):
            if not url and (place / target).resolve() in sources and not options.write_options.force:
                raise WriteError(
                    f"{place / target}: this would be written over a file that is to be read; --force does so"
                )
            job = ConversionTask(
                file, place / target, to, format, options.read_settings, options.write_options, library.url, url
            )
            work.append(job)
    work.sort(key=lambda job: files.index(job.source))
    return work


def _robots_to_convert(library: RobotLibrary, output_folder: Path) -> list[Path]:
    """Robots of a library, except those in the output folder."""
    inside = (
        output_folder.resolve()
        if not remote_url(output_folder) and output_folder.resolve() != library.folder.resolve()
        else None
    )
    files = [f for f in library.list_robots() if inside is None or inside not in f.resolve().parents]
    if not files:
        raise ReadError(f"{library.folder}: there are no robot files in this folder")
    return files


def target_names(files: Sequence[Path], suffix: str, *, separate_folders: bool) -> list[Path]:
    """Unique output file names.

    Files that differ only by suffix keep it in their name. `separate_folders` gives each robot that would share a
    folder with others its own folder, because mesh files beside the robots may have equal names.
    """
    plain = [f.with_name(f.name.removesuffix(f.suffix).removesuffix(".urdf") + suffix) for f in files]
    counts = Counter(plain)
    names = [
        p if counts[p] == 1 else p.with_name(f"{p.stem}_{f.suffix[1:]}{suffix}")
        for p, f in zip(plain, files, strict=True)
    ]
    crowded = {folder for folder, n in Counter(p.parent for p in names).items() if n > 1}
    return [p.parent / p.stem / p.name if separate_folders and p.parent in crowded else p for p in names]


def convert_task(task: ConversionTask) -> ConversionResult:
    """Convert one file, in a separate process."""
    begin = time.perf_counter()
    described = read_file(local_file(task), task.read_settings)
    n_errors = sum(d.severity is Severity.ERROR for d in described.diagnostics)
    if task.output_url:
        with tempfile.TemporaryDirectory(prefix="kinema-") as folder:
            reports = _write_outputs(task, described, Path(folder))
            Store(task.output_url).upload_folder(Path(folder), last=reports[-1][0])
            written = [
                f"{task.output_url.rstrip('/')}/{target.relative_to(folder).as_posix()}" for target, _ in reports
            ]
    else:
        reports = _write_outputs(task, described, Path())
        written = [str(target) for target, _ in reports]
    losses = LossReport(task.format, str(task.target), [loss for _, report in reports for loss in report])
    sources = source_digests(task, described)
    return ConversionResult(n_errors, losses.to_json(), time.perf_counter() - begin, written, sources)


def _write_outputs(task: ConversionTask, description: Robot | World, folder: Path) -> list[tuple[Path, LossReport]]:
    """Write the outputs of a task to a folder; returns the files and the losses."""
    (folder / task.target).parent.mkdir(parents=True, exist_ok=True)
    files = [(folder / target, robot) for target, robot in _output_files(task, description)]
    how = {"format": task.format, "options": task.write_options}
    return [(file, write(description, file, **how, robot=robot)) for file, robot in files]


def _output_files(task: ConversionTask, description: Robot | World) -> list[tuple[Path, str]]:
    """Output files with the robot written to each: one file per robot for URDF, which holds a single robot."""
    moving = [r.name for r in description.robots if not r.static] if isinstance(description, World) else []
    if task.format != "urdf" or task.write_options.robot or len(moving) < 2:
        return [(task.target, task.write_options.robot)]
    taken: set[str] = set()
    stem, suffix = task.target.stem, task.target.suffix
    return [
        (task.target.with_name(f"{stem}_{unique_name(to_identifier(name), taken)}{suffix}"), name) for name in moving
    ]


def _conversion_status(outcome: Outcome[ConversionTask, ConversionResult]) -> int:
    if outcome.result is None:
        return EXIT_FAILED
    return EXIT_HAS_ERRORS if outcome.result.n_errors else EXIT_OK


def print_conversions(
    console: Console,
    outcomes: Sequence[Outcome[ConversionTask, ConversionResult]],
    library: RobotLibrary,
    output_folder: str,
) -> None:
    """Print one table of all files with totals."""
    formats = list(dict.fromkeys(o.task.to for o in outcomes))
    if len(formats) == 1:
        console.print(_table_of_files(outcomes, library))
    else:
        console.print(_table_of_formats(outcomes, library, formats))
        for outcome in outcomes:
            if outcome.result is None:
                name = f"{_source_name(outcome, library)} to {outcome.task.to}: "
                console.print(Text.assemble(("✗ ", "bold red"), name, _failure_text(outcome)), soft_wrap=True)
    tally = Counter(map(_conversion_status, outcomes))
    done = tally[EXIT_OK] + tally[EXIT_HAS_ERRORS]
    more = sum(len(o.result.written_files) - 1 for o in outcomes if o.result is not None)
    words = [f"{done} of {len(outcomes)} {'files' if len(formats) == 1 else 'conversions'} are in {output_folder}"]
    words += [f"with {more} more files, as URDF holds one robot each"] * bool(more)
    words += [f"{tally[EXIT_HAS_ERRORS]} of them from input with errors"] * bool(tally[EXIT_HAS_ERRORS])
    words += [f"{tally[EXIT_FAILED]} failed"] * bool(tally[EXIT_FAILED])
    sign = ("✗ ", "bold red") if tally[EXIT_FAILED] else ("✓ ", "bold green")
    console.print(Text.assemble(sign, ", ".join(words)))


def _table_of_files(outcomes: Sequence[Outcome[ConversionTask, ConversionResult]], library: RobotLibrary) -> Table:
    """Table with one row per file."""
    table = Table("file", "status", "losses", "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[3].justify = "right"
    for outcome in outcomes:
        result = outcome.result
        if result is None:
            table.add_row(
                Text(_source_name(outcome, library)), Text.assemble(("✗ ", "bold red"), _failure_text(outcome)), "", ""
            )
            continue
        counts = ", ".join(f"{n} {action}" for action, n in result.n_losses.items() if n)
        status = Text("✓ written", style="green")
        if result.n_errors:
            status = Text(f"! written; the input has {result.n_errors} errors", style="yellow")
        table.add_row(Text(_source_name(outcome, library)), status, counts or "none", f"{result.seconds:.2f}")
    return table


def _table_of_formats(
    outcomes: Sequence[Outcome[ConversionTask, ConversionResult]], library: RobotLibrary, formats: Sequence[str]
) -> Table:
    """Table with one row per file and one column per format with the numbers of losses."""
    table = Table("file", *formats, "seconds", box=None, padding=(0, 2, 0, 0))
    table.columns[-1].justify = "right"
    table.caption = "✓ dropped / approximated / in an extension   ! the same, the input has errors   ✗ failed"
    table.caption_justify = "left"
    rows: dict[str, dict[str, Outcome[ConversionTask, ConversionResult]]] = {}
    for outcome in outcomes:
        rows.setdefault(_source_name(outcome, library), {})[outcome.task.to] = outcome
    for name, by_format in rows.items():
        seconds = sum(o.result.seconds for o in by_format.values() if o.result is not None)
        table.add_row(Text(name), *(_losses_cell(by_format[to]) for to in formats), f"{seconds:.2f}")
    return table


def _losses_cell(outcome: Outcome[ConversionTask, ConversionResult]) -> Text:
    result = outcome.result
    if result is None:
        return Text("✗", style="bold red")
    counts = " / ".join(map(str, result.n_losses.values())) if any(result.n_losses.values()) else ""
    return Text(f"! {counts}", style="yellow") if result.n_errors else Text(f"✓ {counts}", style="green")


def _source_name(outcome: Outcome[ConversionTask, ConversionResult], library: RobotLibrary) -> str:
    return str(outcome.task.source if library.url else outcome.task.source.relative_to(library.folder))


def _failure_text(outcome: Outcome[ConversionTask, ConversionResult]) -> str:
    why = outcome.failure
    for place in (outcome.task.source, outcome.task.target):
        why = why.replace(str(place), place.name)
    return why


def _conversions_json(
    outcomes: Sequence[Outcome[ConversionTask, ConversionResult]], library: RobotLibrary
) -> list[dict[str, object]]:
    """JSON values of all conversions."""
    return [
        {
            "file": _source_name(o, library),
            "to": o.task.to,
            "output": list(o.result.written_files) if o.result else None,
            "failure": o.failure or None,
            "errors": o.result.n_errors if o.result else None,
            "report": o.result.losses if o.result else None,
        }
        for o in outcomes
    ]
