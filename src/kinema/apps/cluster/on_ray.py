"""The nodes of a Ray cluster: actors on each, and what becomes of their tasks when one of them dies."""

from __future__ import annotations

import logging
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from kinema.foundation import KinemaError, require

from .capturing import Log
from .executor import LOG, Executor, Limits, Outcome, Queue, Result, Task, Try, Work, attempt
from .nodes import Needs, facts, own_version, places, refusal, short_of

AUTO = "auto"
"""The cluster that runs here, or that `RAY_ADDRESS` names; else one of this machine alone, made for the occasion."""
_LOOK = 1.0
"""How often the list of nodes is looked at [s]."""
_CHANCES = 3
"""How many workers may die on a node before they have said a word."""
_PATIENCE = 60.0
"""How long to wait for a node where there is none [s]."""
_FIRST_WORD = 300.0
"""How long a worker may take to start: on a busy node that is long, on one that others have taken for ever [s]."""


def ray_library() -> Any:
    """Ray, which a plain install does not bring."""
    return require("ray", purpose="working on a cluster", extra="cluster")


def on_node(number: str) -> Any:
    """Ray's word for: there and nowhere else."""
    strategies: Any = require("ray.util.scheduling_strategies", purpose="working on a cluster", extra="cluster")
    return strategies.NodeAffinitySchedulingStrategy(number, soft=False)


def workplaces(ray: Any) -> list[dict[str, Any]]:
    """The nodes that are up and offer something: a head without CPUs is there for others."""
    return [n for n in ray.nodes() if n["Alive"] and (n["Resources"].get("CPU") or n["Resources"].get("GPU"))]


class RemoteWorker:
    """What runs on a node: it says what the node is like, then works on tasks."""

    def __init__(self, start: Callable[[], Work[Any, Any]]) -> None:
        self._start = start
        self._work: Work[Any, Any] | None = None
        self._log: Log | None = None

    def hello(self) -> dict[str, Any]:
        """What the node is like."""
        return facts()

    def work(self, task: Any) -> tuple[str, Any, str, str]:
        """The outcome of one task, with what was printed where it failed."""
        if self._log is None:
            with tempfile.NamedTemporaryFile(prefix="kinema-log-") as file:  # it stays open, but leaves no name behind
                self._log = Log(Path(file.name))
        self._log.begin()
        if self._work is None:
            self._work, failure, story = attempt(lambda _: self._start(), None)
            if self._work is None:
                return "start", None, failure, story
        result, failure, story = attempt(self._work, task)
        if failure:
            story = "\n".join(part for part in (self._log.tail(), story) if part)
        return "task", result, failure, story


@dataclass(slots=True)
class _Actor:
    node: str
    handle: Any
    waits_for: Any
    """The answer that is due."""
    one: Try | None = None
    until: float = 0.0
    done: int = 0
    is_known: bool = False
    """Whether its node was looked at, and found fit."""


class OnRay(Executor):
    """The nodes of a Ray cluster, as many workers on each as it has room for.

    Nodes that come later are used too; the tasks of one that dies are begun again elsewhere.

    Args:
        address: of the cluster: `auto`, `host:port`, `ray://host:port`, or `local` for a new one on this machine.
        needs: what a worker takes of its node, and asks of it.
    """

    name = "cluster"

    def __init__(self, address: str = AUTO, needs: Needs | None = None) -> None:
        self._ray = ray_library()
        self._needs = needs or Needs()
        self._began = connect(self._ray, address)
        self._stillborn: Counter[str] = Counter()
        self.refused: dict[str, str] = {}
        """Nodes that cannot be used, by their number, and why in one sentence."""

    @property
    def workers(self) -> int:
        """For how many there is room now."""
        return sum(places(n["Resources"], self._needs) for n in self._nodes()) or 1

    def close(self) -> None:
        """Leave the cluster, if it was joined by this."""
        if self._began:
            self._ray.shutdown()

    def run(
        self, start: Callable[[], Work[Task, Result]], tasks: Iterable[Task], limits: Limits | None = None
    ) -> Iterator[Outcome[Task, Result]]:
        """Do all tasks; see `Executor.run`."""
        limits = limits or Limits()
        queue, made = Queue(tasks, limits.retries), self._ray.put(start)
        crew: list[_Actor] = []
        looked, seen = -_LOOK, time.monotonic()
        try:
            while True:
                if time.monotonic() - looked > _LOOK:
                    self._hire(crew, made)
                    looked = time.monotonic()
                self._give_out(crew, queue, limits)
                if queue.is_empty and not any(a.one for a in crew):
                    return
                seen = time.monotonic() if crew else seen
                if not crew:
                    self._despair(time.monotonic() - seen)
                heard = list(self._look(crew, queue, limits))
                self._give_out(crew, queue, limits)  # nobody waits for whoever takes the outcomes
                yield from heard
        finally:
            for actor in crew:
                self._ray.kill(actor.handle)

    # ------------------------------------------------------------------------------------------------ who works

    def _nodes(self) -> list[dict[str, Any]]:
        return [n for n in workplaces(self._ray) if n["NodeID"] not in self.refused]

    def _hire(self, crew: list[_Actor], start: Any) -> None:
        """Fill every node that can be used."""
        for node in self._nodes():
            number, resources = node["NodeID"], node["Resources"]
            problem = short_of(node.get("NodeManagerHostname", number), resources, self._needs)
            if problem:
                self.refused[number] = problem
                continue
            there = sum(a.node == number for a in crew)
            for _ in range(places(resources, self._needs) - there):
                kind = self._ray.remote(num_cpus=self._needs.cpus, num_gpus=self._needs.gpus)(RemoteWorker)
                handle = kind.options(scheduling_strategy=on_node(number)).remote(start)
                crew.append(_Actor(number, handle, handle.hello.remote(), until=time.monotonic() + _FIRST_WORD))

    def _despair(self, seconds: float) -> None:
        """There is nobody, and nobody is going to come."""
        if self.refused and not self._nodes():
            raise KinemaError("no node can be used: " + "; ".join(dict.fromkeys(self.refused.values())))
        if seconds > _PATIENCE:
            raise KinemaError(f"there has been no node to work on for {_PATIENCE:g} s")

    def _give_out(self, crew: list[_Actor], queue: Queue, limits: Limits) -> None:
        for actor in crew:
            if actor.is_known and actor.one is None:
                one = queue.take()
                if one is None:
                    return
                actor.one, actor.until = one, time.monotonic() + limits.seconds
                actor.waits_for = actor.handle.work.remote(one.task)
        queue.peek()

    # ------------------------------------------------------------------------------------------------ what comes back

    def _look(self, crew: list[_Actor], queue: Queue, limits: Limits) -> Iterator[Outcome[Any, Any]]:
        due = {a.waits_for: a for a in crew if a.waits_for is not None}
        if not due:
            time.sleep(0.1)
        ready = self._ray.wait(list(due), num_returns=1, timeout=0.2)[0] if due else []
        for answer in ready:
            outcome = self._hear(due[answer], crew, queue, limits)
            if outcome is not None:
                yield outcome
        for actor in [a for a in crew if time.monotonic() > a.until]:
            if not actor.is_known:
                self._dismiss(actor, crew)
                self.refused[actor.node] = (
                    f"node {actor.node[:8]} has not started a worker in {_FIRST_WORD:g} s: others may have taken it"
                )
            elif actor.one is not None:
                one = self._dismiss(actor, crew)
                yield Outcome(one.task, None, f"it took more than {limits.seconds:g} s", "", one.count, died=True)

    def _hear(self, actor: _Actor, crew: list[_Actor], queue: Queue, limits: Limits) -> Outcome[Any, Any] | None:
        """What an actor says: how its node is, or what came of its task; or that it is dead."""
        try:
            answer = self._ray.get(actor.waits_for)
        except self._ray.exceptions.RayError as error:
            one = self._dismiss(actor, crew)
            if one is None:
                self._note_stillborn(actor, str(error))
                return None
            return queue.lost(one, f"its worker died ({type(error).__name__})", str(error)[-LOG:])
        actor.waits_for = None
        if not actor.is_known:
            self._judge(actor, crew, answer)
            return None
        kind, result, failure, log = answer
        if kind == "start":
            raise KinemaError(failure)
        one, actor.one, actor.done = actor.one, None, actor.done + 1
        if actor.done == limits.per_worker:
            self._dismiss(actor, crew)
        assert one is not None
        return Outcome(one.task, result, failure, log, one.count)

    def _note_stillborn(self, actor: _Actor, story: str) -> None:
        """An actor died before it said a word: a node on which that happens again and again cannot be used."""
        self._stillborn[actor.node] += 1
        if self._stillborn[actor.node] >= _CHANCES and actor.node in {n["NodeID"] for n in self._nodes()}:
            lines = [line for line in story.strip().splitlines() if line.strip()] or ["no reason is given"]
            self.refused[actor.node] = f"node {actor.node[:8]} cannot start a worker: {lines[-1].strip():.200}"

    def _judge(self, actor: _Actor, crew: list[_Actor], found: dict[str, Any]) -> None:
        problem = refusal(found, self._needs, own_version())
        if problem:
            self.refused[actor.node] = problem
            self._dismiss(actor, crew)
        actor.is_known = not problem

    def _dismiss(self, actor: _Actor, crew: list[_Actor]) -> Any:
        """An actor is no more; what it worked on."""
        self._ray.kill(actor.handle)
        if actor in crew:
            crew.remove(actor)
        one, actor.one = actor.one, None
        return one


def connect(ray: Any, address: str) -> bool:
    """Join a cluster; whether that was not done before.

    Raises:
        KinemaError: there is none at this address.
    """
    if ray.is_initialized():
        return False
    quiet = {"log_to_driver": False, "logging_level": logging.ERROR, "configure_logging": True}
    if address == AUTO:
        try:
            ray.init(address=AUTO, **quiet)
        except ConnectionError:
            ray.init(include_dashboard=False, **quiet)
        return True
    try:
        ray.init(address=address, **quiet)
    except Exception as error:
        raise KinemaError(f"{address}: there is no Ray cluster to be reached: {error}") from None
    return True
