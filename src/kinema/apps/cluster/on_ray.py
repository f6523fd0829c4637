"""The nodes of a Ray cluster: actors on each, and what becomes of their tasks when one of them dies."""

from __future__ import annotations

import itertools
import logging
import time
from collections import Counter
from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass, field
from typing import Any

from kinema.foundation import KinemaError, require

from .executor import LOG, Executor, Limits, Outcome, Queue, Result, Task, Try, Work
from .nodes import Needs, own_version, places, refusal, short_of
from .remote import RemoteWorker, Said

AUTO = "auto"
"""The cluster that runs here, or that `RAY_ADDRESS` names; else one of this machine alone, made for the occasion."""
_LOOK = 1.0
"""How often the list of nodes is looked at [s]."""
_REST = -1
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


@dataclass(slots=True)
class _Actor:
    node: str
    handle: Any
    hello: Any
    """The answer that is due first: what its node is like."""
    until: float
    """When whatever it has longest has to be done."""
    calls: dict[Any, int] = field(default_factory=dict)
    """Answers that are due of what it was asked to do, with the task's number: `_REST` for what is left of others."""
    tasks: dict[int, Try] = field(default_factory=dict)
    """What it was asked to do and has not said the outcome of, by number, in the order in which it was asked."""
    done: int = 0
    is_known: bool = False
    """Whether its node was looked at, and found fit."""

    @property
    def due(self) -> list[Any]:
        """All answers that are."""
        return [*self.calls] if self.is_known else [self.hello]


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
        self._numbers = itertools.count()
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
                    self._hire(crew, made, limits.at_once > 1)
                    looked = time.monotonic()
                self._give_out(crew, queue, limits)
                if queue.is_empty and not any(a.tasks for a in crew):
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

    def _hire(self, crew: list[_Actor], start: Any, is_ahead: bool) -> None:
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
                placed = kind.options(scheduling_strategy=on_node(number))
                handle = placed.remote(start, max(1, int(self._needs.cpus)), is_ahead)
                crew.append(_Actor(number, handle, handle.hello.remote(), time.monotonic() + _FIRST_WORD))

    def _despair(self, seconds: float) -> None:
        """There is nobody, and nobody is going to come."""
        if self.refused and not self._nodes():
            raise KinemaError("no node can be used: " + "; ".join(dict.fromkeys(self.refused.values())))
        if seconds > _PATIENCE:
            raise KinemaError(f"there has been no node to work on for {_PATIENCE:g} s")

    def _give_out(self, crew: list[_Actor], queue: Queue, limits: Limits) -> None:
        """A task for everybody who has none; then another for everybody, as long as there are enough for all."""
        for actor in [a for a in crew if a.is_known and not a.tasks]:
            one = queue.take()
            if one is None:
                return
            self._give(actor, one, limits)
        for size in range(1, limits.at_once):
            for actor in [a for a in crew if len(a.calls) == size and not any(t.alone for t in a.tasks.values())]:
                if not queue.has(len(crew)):
                    break
                one = queue.take()
                assert one is not None
                self._give(actor, one, limits)
        queue.peek()

    def _give(self, actor: _Actor, one: Try, limits: Limits) -> None:
        if not actor.tasks:
            actor.until = time.monotonic() + limits.seconds
        number = next(self._numbers)
        actor.tasks[number] = one
        actor.calls[actor.handle.work.remote(number, one.task)] = number

    # ------------------------------------------------------------------------------------------------ what comes back

    def _look(self, crew: list[_Actor], queue: Queue, limits: Limits) -> Iterator[Outcome[Any, Any]]:
        for actor in [a for a in crew if a.tasks and not a.calls]:
            actor.calls[actor.handle.rest.remote()] = _REST
        due = {answer: a for a in crew for answer in a.due}
        if not due:
            time.sleep(0.1)
        patience = min([_LOOK, *(a.until - time.monotonic() for a in crew if a.due)])
        ready = self._ray.wait(list(due), num_returns=1, timeout=max(0.05, patience))[0] if due else []
        for answer in ready:
            if due[answer] in crew:
                yield from self._hear(due[answer], answer, crew, queue, limits)
        for actor in [a for a in crew if time.monotonic() > a.until]:
            if not actor.is_known:
                self._dismiss(actor, crew)
                self.refused[actor.node] = (
                    f"node {actor.node[:8]} has not started a worker in {_FIRST_WORD:g} s: others may have taken it"
                )
            elif actor.tasks:
                one, *others = self._dismiss(actor, crew)
                for other in others:
                    queue.back(other)
                yield Outcome(one.task, None, f"it took more than {limits.seconds:g} s", "", one.count, died=True)

    def _hear(
        self, actor: _Actor, answer: Any, crew: list[_Actor], queue: Queue, limits: Limits
    ) -> Iterator[Outcome[Any, Any]]:
        """What an actor says: how its node is, or what came of a task; or that it is dead."""
        try:
            said = self._ray.get(answer)
        except self._ray.exceptions.RayError as error:
            had = self._dismiss(actor, crew)
            if not had:
                self._note_stillborn(actor, str(error))
                return
            for other in had[1:]:
                queue.back(other)
            outcome = queue.lost(had[0], f"its worker died ({type(error).__name__})", str(error)[-LOG:])
            if outcome is not None:
                yield outcome
            return
        if not actor.is_known:
            self._judge(actor, crew, said)
            return
        del actor.calls[answer]
        actor.until = time.monotonic() + limits.seconds
        yield from list(self._outcomes(actor, said))
        if limits.per_worker and actor.done == limits.per_worker:
            self._dismiss(actor, crew)

    @staticmethod
    def _outcomes(actor: _Actor, said: list[Said]) -> Iterator[Outcome[Any, Any]]:
        for one in said:
            if one.is_start:
                raise KinemaError(one.failure)
            asked = actor.tasks.pop(one.number)
            actor.done += 1
            yield Outcome(asked.task, one.result, one.failure, one.story, asked.count)

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

    def _dismiss(self, actor: _Actor, crew: list[_Actor]) -> list[Try]:
        """An actor is no more; what it had: first what it was at, last what it had only to say the outcome of."""
        self._ray.kill(actor.handle)
        if actor in crew:
            crew.remove(actor)
        asked = [number for number in actor.calls.values() if number != _REST]
        had = [actor.tasks[number] for number in (*asked, *(n for n in actor.tasks if n not in asked))]
        actor.tasks.clear()
        actor.calls.clear()
        return had


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
