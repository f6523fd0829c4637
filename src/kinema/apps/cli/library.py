"""Work on a folder of robots: who does it, what is done already, one bar for all of it."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeRemainingColumn
from rich.text import Text

from kinema.apps.cluster import (
    Executor,
    Ledger,
    Limits,
    LocalProcesses,
    OnRay,
    Outcome,
    Store,
    always,
    digest_of,
    key_of,
    mirrored,
    unchanged,
    url_of,
)
from kinema.description import Robot, World
from kinema.foundation import ReadError, cache_dir
from kinema.write import sources_of

from .find_robots import find_robots

MOST_SECONDS = 600.0
"""How long one file may take."""
_RETRIES = 2
"""How often a file is begun again on a cluster where its worker died: nodes do, and files that kill them are few."""
_HEAVY = ("mujoco", "pxr.UsdPhysics", "pxr.UsdShade", "scipy.spatial")
_FEW = 4
"""So many files are done before the libraries that others may need are loaded for all."""
_LINES = 20
"""How many lines of a log are shown."""
BOOK = ".kinema"
"""The folder of a library's records."""


class Task(Protocol):
    """One file to work on; its `repr` says everything that its result depends on, but the content of files."""

    @property
    def source(self) -> Path:
        """The file; in a library elsewhere, its place in there."""
        ...

    @property
    def home(self) -> str:
        """The address of that library; empty for folders of this machine."""
        ...


class Result(Protocol):
    """What came of it: a dataclass of plain values."""

    @property
    def sources(self) -> dict[str, str]:
        """The files that it was made of, and their digests."""
        ...


OneTask = TypeVar("OneTask", bound=Task)
OneResult = TypeVar("OneResult", bound=Result)


@dataclass(frozen=True, slots=True)
class Doing:
    """Who works, as the command line says it."""

    jobs: int | None = None
    """Processes of this machine; None for one per CPU."""
    cluster: str | None = None
    """The address of a Ray cluster; None for none."""
    resume: bool | None = None
    """Whether what is done already is left out; None for doing so on a cluster only."""

    @property
    def resumes(self) -> bool:
        """Whether records are kept."""
        return self.cluster is not None if self.resume is None else self.resume

    def placed(self, path: Path) -> Path:
        """A path that others understand as well: those on other nodes are in other folders."""
        return path.absolute() if self.cluster is not None and not url_of(path) else path

    def executor(self, preload: Sequence[str]) -> Executor:
        """Who it is."""
        return LocalProcesses(self.jobs, preload) if self.cluster is None else OnRay(self.cluster)


@dataclass(frozen=True, slots=True)
class Library:
    """A folder of robots, here or elsewhere."""

    folder: Path
    """Where it is on this machine, if only as a copy."""
    home: str = ""
    """Its address, if it is elsewhere."""

    @classmethod
    def at(cls, place: Path) -> Library:
        """That of a path or an address."""
        home = url_of(place)
        return cls(mirrored(home), home) if home else cls(place)

    def named(self, file: Path) -> Path:
        """What tasks call a file in it."""
        return file.relative_to(self.folder) if self.home else file

    def robots(self) -> list[Path]:
        """All robots in it, as tasks call them."""
        found = [self.named(f) for f in find_robots(self.folder)]
        if not found:
            raise ReadError(f"{self.home or self.folder}: there are no robot files in this folder")
        return found


def is_library(place: Path) -> bool:
    """Whether this is a folder, here or elsewhere."""
    return bool(url_of(place)) or place.is_dir()


def file_of(task: Task) -> Path:
    """The file of a task on the machine that this runs on."""
    return _root(task) / task.source


def _root(task: Task) -> Path:
    return mirrored(task.home) if task.home else Path()


def stamps(task: Task, described: Robot | World) -> dict[str, str]:
    """The files that a description was made of, and their digests."""
    root = _root(task).resolve() if task.home else None
    inside = {p if root is None else p.relative_to(root) if p.is_relative_to(root) else p: p for p in _files(described)}
    return {str(name): digest_of(file) for name, file in sorted(inside.items())}


def _files(described: Robot | World) -> list[Path]:
    return [p for p in sources_of(described) if p.is_file()]


class Book:
    """What of a library is done already, by content."""

    def __init__(self, store: Store, kind: type[Any], complete: Callable[[Any, Any], bool] = lambda *_: True) -> None:
        self._ledger = Ledger(store, f"{BOOK}/ledger")
        self._kind, self._complete = kind, complete

    def key(self, task: Task) -> str:
        """What a task is known by."""
        from kinema import __version__

        return key_of(__version__, task, digest_of(file_of(task)))

    def result(self, task: Task) -> Any:
        """What came of it last time, if everything is as it was."""
        record = self._ledger.get(self.key(task))
        if record is None:
            return None
        result = self._kind(**record)
        root = _root(task)
        sources = {str(root / name): digest for name, digest in result.sources.items()}
        return result if unchanged(sources) and self._complete(task, result) else None

    def note(self, task: Task, result: Any) -> None:
        """It is done."""
        self._ledger.note(self.key(task), dataclasses.asdict(result))


def book_of(doing: Doing, kind: type[Any], out: str | Path | None = None, complete: Any = None) -> Book | None:
    """The book of what goes to a folder, or of what goes nowhere; None where none is kept."""
    if not doing.resumes:
        return None
    return Book(Store(out if out is not None else cache_dir()), kind, complete or (lambda *_: True))


def do_all(
    verb: str,
    function: Callable[[OneTask], OneResult],
    tasks: Sequence[OneTask],
    doing: Doing,
    book: Book | None = None,
) -> list[Outcome[OneTask, OneResult]]:
    """Call a function with every task; what the book has is not done again. In the order of the tasks."""
    outcomes = [Outcome(t, r) for t in tasks if book is not None and (r := book.result(t)) is not None]
    known = {id(o.task) for o in outcomes}
    left = [t for t in tasks if id(t) not in known]
    console = Console(stderr=True)
    if outcomes:
        console.print(Text(f"{len(outcomes)} of {len(tasks)} files are done already, and are as they were"))
    for outcome in _in_a_bar(verb, function, left, len(outcomes), doing, console):
        if book is not None and outcome.result is not None:
            book.note(outcome.task, outcome.result)
        outcomes.append(outcome)
    place = {id(task): i for i, task in enumerate(tasks)}
    return sorted(outcomes, key=lambda o: place[id(o.task)])


def _in_a_bar(
    verb: str, function: Callable[[Any], Any], tasks: Sequence[Any], done: int, doing: Doing, console: Console
) -> Iterator[Outcome[Any, Any]]:
    if not tasks:
        return
    own = getattr(function, "__module__", "")
    preload = (own, *_HEAVY) if len(tasks) > _FEW else (own,)
    limits = Limits(MOST_SECONDS, retries=_RETRIES, ahead=1) if doing.cluster else Limits(MOST_SECONDS, per_worker=1)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeRemainingColumn())
    with doing.executor(preload) as crew, Progress(*columns, console=console, transient=True) as progress:
        where = f", {crew.name} of {crew.workers}" if doing.cluster else ""
        bar = progress.add_task(f"{verb}{where}", total=len(tasks) + done, completed=done)
        for outcome in crew.run(always(function), tasks, limits):
            yield outcome
            progress.advance(bar)
        for sentence in getattr(crew, "refused", {}).values():
            console.print(Text.assemble(("· ", "yellow"), sentence), soft_wrap=True)


def print_logs(outcomes: Sequence[Outcome[Any, Any]]) -> None:
    """What workers printed last that died or were stopped: of errors in files, one sentence says it all."""
    console = Console(stderr=True, highlight=False)
    for outcome in outcomes:
        lines = outcome.log.strip().splitlines() if outcome.died else []
        if lines:
            console.print(Text(f"{outcome.task.source}: what its worker printed last:", style="bold"), soft_wrap=True)
            console.print(Text("\n".join(lines[-_LINES:]), style="dim"), soft_wrap=True)
