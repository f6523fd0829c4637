"""Work on many tasks at once: what whoever has work says, and what those who do it have in common.

There are three who do it: this process (`in_process`), processes of this machine (`processes`), and the nodes of a Ray
cluster (`on_ray`). Tasks are taken as there is room for them, and outcomes come as they are ready: what nobody has
asked for yet is not begun, so that memory does not grow with the number of tasks.
"""

from __future__ import annotations

import traceback
from abc import ABC, abstractmethod
from collections import deque
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from functools import partial
from typing import Any, Generic, Self, TypeVar

from kinema.foundation import KinemaError

Task = TypeVar("Task")
Result = TypeVar("Result")
Work = Callable[[Task], Result]
"""What is done with one task."""
WAIT = object()
"""Among tasks: the next one depends on outcomes that are still to come."""
LOG = 4000
"""How much of what a failing task printed is kept: the last characters."""


@dataclass(frozen=True, slots=True)
class Outcome(Generic[Task, Result]):
    """What came of one task."""

    task: Task
    result: Result | None
    failure: str = ""
    """Why there is no result, in one sentence; empty where there is one."""
    log: str = ""
    """Of a failure: the traceback, and what was printed last."""
    attempts: int = 1
    """How often it was begun: more than once where a worker died."""
    died: bool = False
    """Whether its worker died over it, or was stopped because it took too long."""


@dataclass(frozen=True, slots=True)
class Limits:
    """What a task may cost."""

    seconds: float = 600.0
    """How long it may take, with the making of its worker; it is stopped then. Nothing stops this process itself."""
    retries: int = 0
    """How often it is begun again where its worker died. What a task raises is its outcome: that is not repeated."""
    per_worker: int = 0
    """After how many tasks a process makes way for a new one, 0 for never: 1 lets nothing pass from task to task."""
    ahead: int = 0
    """How many tasks more a worker of a cluster has, while there are enough for all: then it never waits for the next.
    What `begin(task)` of what works on them leaves to do is done while the next is begun."""

    @property
    def at_once(self) -> int:
        """How many tasks a worker has; where none may be repeated, nobody else's death may cost one."""
        return 1 + self.ahead if self.retries and not self.per_worker else 1


class Executor(ABC):
    """Somebody who works on tasks."""

    name = ""
    """What it is called in progress bars."""

    @property
    @abstractmethod
    def workers(self) -> int:
        """How many tasks are worked on at the same time, as far as is known."""

    @abstractmethod
    def run(
        self, start: Callable[[], Work[Task, Result]], tasks: Iterable[Task], limits: Limits | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Do all tasks; outcomes come as they are ready, in any order.

        Args:
            start: makes what does the work, once in every worker: `always(function)` where there is nothing to make.
                It must be importable, and it, tasks and results picklable.
            tasks: what to call it with, taken one by one as there is room. `WAIT` among them says that there is none
                at the moment; there has to be one, or an end, once all outcomes were taken.
            limits: what a task may cost.

        Raises:
            KinemaError: a worker cannot be made, or there is nobody left to work.
        """

    def close(self) -> None:  # noqa: B027  most hold nothing
        """Let go of what it holds."""

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


class InProcess(Executor):
    """This process works, on one task after another."""

    name = "here"

    @property
    def workers(self) -> int:
        """One."""
        return 1

    def run(
        self, start: Callable[[], Work[Task, Result]], tasks: Iterable[Task], limits: Limits | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Do all tasks; see `Executor.run`. Nothing stops one that takes too long."""
        work = start()
        for task in tasks:
            if task is WAIT:
                continue
            result, failure, log = attempt(work, task)
            yield Outcome(task, result, failure, log)


def always(function: Work[Task, Result]) -> Callable[[], Work[Task, Result]]:
    """A start that makes nothing: the same function everywhere."""
    return partial(_itself, function)


def _itself(function: Work[Task, Result]) -> Work[Task, Result]:
    return function


def attempt(work: Work[Task, Result], task: Task) -> tuple[Result | None, str, str]:
    """The result, or why there is none in one sentence, and the whole story of that."""
    try:
        return work(task), "", ""
    except KinemaError as error:
        return None, str(error), traceback.format_exc()[-LOG:]
    except Exception as error:  # whatever went wrong is the outcome of this task alone
        return None, f"{type(error).__name__}: {error}", traceback.format_exc()[-LOG:]


@dataclass(slots=True)
class Try:
    """A task, and how often it was begun."""

    task: Any
    count: int = 0
    alone: bool = False
    """Whether a worker died while it had this: nobody else is to suffer from it again."""


class Queue:
    """Tasks that wait to be begun, first of all those whose worker died."""

    def __init__(self, tasks: Iterable[Any], retries: int) -> None:
        self._new = iter(tasks)
        self._again: deque[Try] = deque()
        self._seen: deque[Any] = deque()
        self._retries = retries
        self.is_empty = False
        """Whether there was none when one was last asked for."""

    def take(self) -> Try | None:
        """The next one, if there is one."""
        if self._again:
            found = self._again.popleft()
        elif self._seen:
            found = Try(self._seen.popleft())
        else:
            found = next((Try(task) for task in self._new), None)
        self.is_empty = found is None
        if found is not None and found.task is WAIT:
            return None
        if found is not None:
            found.count += 1
        return found

    def peek(self) -> None:
        """Find out whether there is one, without beginning it."""
        if not self._again and not self._seen:
            found = next((Try(task) for task in self._new), None)
            self.is_empty = found is None
            if found is not None and found.task is not WAIT:
                self._seen.append(found.task)

    def has(self, count: int) -> bool:
        """Whether so many wait that no worker has had; one that died over its task gets it by itself."""
        while not self._again and len(self._seen) < count:
            found = next(self._new, WAIT)
            if found is WAIT:
                return False
            self._seen.append(found)
        return not self._again

    def back(self, one: Try) -> None:
        """It was not begun after all, as its worker died over another."""
        one.count, one.alone, self.is_empty = one.count - 1, True, False
        self._again.append(one)

    def lost(self, one: Try, why: str, log: str = "") -> Outcome[Any, Any] | None:
        """A worker died over it: it is to be begun again, or this is the end of it."""
        if one.count <= self._retries:
            self._again.append(one)
            self.is_empty, one.alone = False, True
            return None
        more = f" ({one.count} times)" if one.count > 1 else ""
        return Outcome(one.task, None, why + more, log, one.count, died=True)
