"""Batch processing of a folder of robot files: discovery, parallel execution, completion records and progress bar."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from kinema.core import ReadError, cache_dir
from kinema.description import Robot, World
from kinema.read import FORMATS, detect_format
from kinema.write import source_files

from ..cluster import (
    Ledger,
    Outcome,
    Store,
    TaskLimits,
    as_worker_factory,
    file_digest,
    files_unchanged,
    mirror_to_cache,
    remote_url,
    repr_digest,
)
from .options import ExecutionOptions

# ---------------------------------------------------------------------------------------------- robot files of a folder

_USD_SUFFIXES = {".usd", ".usda", ".usdc", ".usdz"}
ROBOT_SUFFIXES = {".urdf", ".xacro", ".sdf", ".world", ".xml", ".mjcf", *_USD_SUFFIXES}
"""Of the files that are looked into."""
_NOT_ROBOTS = {"package.xml"}


def find_robots(folder: Path) -> list[Path]:
    """Sorted robot description files in a folder and its subfolders.

    Other XML files, USD layers that another stage in the folder loads, and hidden folders are skipped.
    """
    found = [file for file in sorted(folder.rglob("*")) if _is_robot(file) and not _is_hidden(file, folder)]
    parts = _loaded_layers(file for file in found if file.suffix.lower() in _USD_SUFFIXES)
    return [file for file in found if file.resolve() not in parts]


def _is_robot(file: Path) -> bool:
    if file.suffix.lower() not in ROBOT_SUFFIXES or file.name in _NOT_ROBOTS or not file.is_file():
        return False
    try:
        return detect_format(file.read_bytes(), file) in FORMATS
    except (ReadError, OSError):
        return False


def _is_hidden(file: Path, folder: Path) -> bool:
    return any(part.startswith(".") for part in file.relative_to(folder).parts)


def _loaded_layers(stages: Iterable[Path]) -> set[Path]:
    """Files that USD stages load directly; none for a stage that cannot be opened."""
    result: set[Path] = set()
    for stage in stages:
        place = stage.resolve()
        loaded = {(place.parent / reference).resolve() for reference in _referenced_assets(stage)}
        result |= loaded - {place}
    return result


def _referenced_assets(stage: Path) -> list[str]:
    try:
        from pxr import Sdf, Tf
    except ImportError:  # there are platforms without it; the reader will say so of each stage
        return []
    try:
        layer = Sdf.Layer.OpenAsAnonymous(str(stage))
        return [] if layer is None else [r for r in layer.GetCompositionAssetDependencies() if r]
    except Tf.ErrorException:
        return []


# ------------------------------------------------------------------------------------------------------ batch execution

MAX_SECONDS_PER_FILE = 600.0
"""How long one file may take."""
_RETRIES = 2
"""How often a file is begun again on a cluster where its worker died: nodes do, and files that kill them are few."""
_PRELOADED_MODULES = ("mujoco", "pxr.UsdPhysics", "pxr.UsdShade", "scipy.spatial")
_PRELOAD_THRESHOLD = 4
"""So many files are done before the libraries that others may need are loaded for all."""
_MAX_LOG_LINES = 20
"""Maximum number of log lines shown."""
RECORDS_FOLDER = ".kinema"
"""Folder of completion records in a library."""


class FileTask(Protocol):
    """Task on one file; its `repr` contains everything that the result depends on, except file contents."""

    @property
    def source(self) -> Path:
        """The file; relative to the library if that is remote."""
        ...

    @property
    def library_url(self) -> str:
        """URL of a remote library; empty for local folders."""
        ...


class FileResult(Protocol):
    """Result of a file task: a dataclass of plain values."""

    @property
    def sources(self) -> dict[str, str]:
        """Digests of the source files by path."""
        ...


FileTaskT = TypeVar("FileTaskT", bound=FileTask)
FileResultT = TypeVar("FileResultT", bound=FileResult)


@dataclass(frozen=True, slots=True)
class RobotLibrary:
    """Local or remote folder of robots."""

    folder: Path
    """Local folder, or local copy of a remote folder."""
    url: str = ""
    """URL of a remote library; empty for a local folder."""

    @classmethod
    def from_path(cls, path_or_url: Path) -> RobotLibrary:
        """Library of a path or URL; a remote folder is mirrored to the cache."""
        home = remote_url(path_or_url)
        return cls(mirror_to_cache(home), home) if home else cls(path_or_url)

    def task_path(self, file: Path) -> Path:
        """Path of a file in tasks: relative to the library if that is remote."""
        return file.relative_to(self.folder) if self.url else file

    def list_robots(self) -> list[Path]:
        """All robot files of the library, as task paths."""
        found = [self.task_path(f) for f in find_robots(self.folder)]
        if not found:
            raise ReadError(f"{self.url or self.folder}: there are no robot files in this folder")
        return found


def is_folder_or_url(path: Path) -> bool:
    """Whether a path is a folder or a URL."""
    return bool(remote_url(path)) or path.is_dir()


def local_file(task: FileTask) -> Path:
    """File of a task on this machine."""
    return _local_root(task) / task.source


def _local_root(task: FileTask) -> Path:
    return mirror_to_cache(task.library_url) if task.library_url else Path()


def source_digests(task: FileTask, description: Robot | World) -> dict[str, str]:
    """Digests of the source files of a description by path, relative to a remote library."""
    root = _local_root(task).resolve() if task.library_url else None
    inside = {
        p if root is None else p.relative_to(root) if p.is_relative_to(root) else p: p
        for p in _existing_sources(description)
    }
    return {str(name): file_digest(file) for name, file in sorted(inside.items())}


def _existing_sources(description: Robot | World) -> list[Path]:
    return [p for p in source_files(description) if p.is_file()]


class CompletionRecords:
    """Completion records of a library, keyed by task and file content."""

    def __init__(
        self, store: Store, result_type: type[Any], is_complete: Callable[[Any, Any], bool] = lambda *_: True
    ) -> None:
        self._ledger = Ledger(store, f"{RECORDS_FOLDER}/ledger")
        self._result_type, self._is_complete = result_type, is_complete

    def key(self, task: FileTask) -> str:
        """Digest of version, task and file content."""
        from kinema import __version__

        return repr_digest(__version__, task, file_digest(local_file(task)))

    def find_result(self, task: FileTask) -> Any:
        """Recorded result of a task, if all source files are unchanged and the output is complete; otherwise None."""
        record = self._ledger.get(self.key(task))
        if record is None:
            return None
        result = self._result_type(**record)
        root = _local_root(task)
        sources = {str(root / name): digest for name, digest in result.sources.items()}
        return result if files_unchanged(sources) and self._is_complete(task, result) else None

    def record(self, task: FileTask, result: Any) -> None:
        """Record the result of a completed task."""
        self._ledger.record(self.key(task), dataclasses.asdict(result))


def open_records(
    execution: ExecutionOptions,
    result_type: type[Any],
    output_folder: str | Path | None = None,
    is_complete: Any = None,
) -> CompletionRecords | None:
    """Completion records of an output folder, or of the cache without one; None if no records are kept."""
    if not execution.keeps_records:
        return None
    return CompletionRecords(
        Store(output_folder if output_folder is not None else cache_dir()),
        result_type,
        is_complete or (lambda *_: True),
    )


def process_all(
    verb: str,
    function: Callable[[FileTaskT], FileResultT],
    tasks: Sequence[FileTaskT],
    execution: ExecutionOptions,
    records: CompletionRecords | None = None,
) -> list[Outcome[FileTaskT, FileResultT]]:
    """Call a function with every task in parallel, skipping tasks with a recorded result; outcomes in task order."""
    outcomes = [Outcome(t, r) for t in tasks if records is not None and (r := records.find_result(t)) is not None]
    known = {id(o.task) for o in outcomes}
    left = [t for t in tasks if id(t) not in known]
    console = Console(stderr=True)
    if outcomes:
        console.print(Text(f"{len(outcomes)} of {len(tasks)} files are done already, and are as they were"))
    # closing stops the workers, also of an interrupted loop
    with closing(_run_with_progress(verb, function, left, len(outcomes), execution, console)) as running:
        for outcome in running:
            if records is not None and outcome.result is not None:
                records.record(outcome.task, outcome.result)
            outcomes.append(outcome)
    place = {id(task): i for i, task in enumerate(tasks)}
    return sorted(outcomes, key=lambda o: place[id(o.task)])


def _run_with_progress(
    verb: str,
    function: Callable[[Any], Any],
    tasks: Sequence[Any],
    n_done: int,
    execution: ExecutionOptions,
    console: Console,
) -> Generator[Outcome[Any, Any]]:
    """Run tasks on the selected executor with a progress bar; prints the reasons of refused nodes."""
    if not tasks:
        return
    own = getattr(function, "__module__", "")
    preload = (own, *_PRELOADED_MODULES) if len(tasks) > _PRELOAD_THRESHOLD else (own,)
    limits = (
        TaskLimits(MAX_SECONDS_PER_FILE, retries=_RETRIES, n_prefetched=1)
        if execution.cluster
        else TaskLimits(MAX_SECONDS_PER_FILE, max_tasks_per_worker=1)
    )
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with execution.make_executor(preload) as crew, Progress(*columns, console=console, transient=True) as progress:
        where = f", {crew.name} of {crew.n_workers}" if execution.cluster else ""
        bar = progress.add_task(f"{verb}{where}", total=len(tasks) + n_done, completed=n_done)
        with closing(crew.run(as_worker_factory(function), tasks, limits)) as running:
            for outcome in running:
                yield outcome
                progress.advance(bar)
        for sentence in getattr(crew, "refused", {}).values():
            console.print(Text.assemble(("· ", "yellow"), sentence), soft_wrap=True)


def print_worker_logs(outcomes: Sequence[Outcome[Any, Any]]) -> None:
    """Print the last output of workers that died or were stopped."""
    console = Console(stderr=True, highlight=False)
    for outcome in outcomes:
        lines = outcome.log.strip().splitlines() if outcome.died else []
        if lines:
            console.print(Text(f"{outcome.task.source}: what its worker printed last:", style="bold"), soft_wrap=True)
            console.print(Text("\n".join(lines[-_MAX_LOG_LINES:]), style="dim"), soft_wrap=True)
