"""Executor on a Ray cluster: node requirements, remote workers, scheduling, failure handling and health checks."""

from __future__ import annotations

import itertools
import logging
import os
import platform
import shutil
import sys
import tempfile
import time
from collections import Counter
from collections.abc import Callable, Generator, Iterable, Iterator
from concurrent.futures import Future, ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple

from kinema.core import THREADS_ENV_VARIABLE, KinemaError, cache_dir, import_optional

from .executor import (
    MAX_LOG_CHARS,
    Executor,
    Outcome,
    OutputLog,
    ResultT,
    TaskAttempt,
    TaskFunction,
    TaskLimits,
    TaskQueue,
    TaskT,
    run_task,
)

# ----------------------------------------------------------------------------------------------- requirements of a node

MIN_FREE_DISK = 2**30
"""Minimum free disk space for the cache of compiled programs [bytes]."""


@dataclass(frozen=True, slots=True)
class WorkerResources:
    """Resources that a worker requires on its node."""

    cpus: float = 1.0
    gpus: float = 0.0
    disk: int = MIN_FREE_DISK
    """Free disk space for the cache of compiled programs [bytes]."""


def kinema_version() -> str:
    """Version of the installed package."""
    return sys.modules["kinema"].__version__


def node_info() -> dict[str, Any]:
    """Host name, versions, cache folder, free disk space and process ID of this node; does not raise."""
    folder = cache_dir()
    standing = next((p for p in (folder, *folder.parents) if p.exists()), Path("/"))
    return {
        "host": platform.node(),
        "kinema": kinema_version(),
        "python": platform.python_version(),
        "machine": platform.machine(),
        "cache": str(folder),
        "writable": os.access(standing, os.W_OK),
        "disk": shutil.disk_usage(standing).free,
        "pid": os.getpid(),
    }


def unusable_reason(info: dict[str, Any], required: WorkerResources, version: str) -> str:
    """Reason why a node cannot be used (version, cache folder, disk space), in one sentence; empty if usable."""
    name = info["host"]
    if info["kinema"] != version:
        return f"{name} has Kinema {info['kinema']}, not {version} as here: install the same version on all nodes"
    if not info["writable"]:
        return f"{name} cannot write to {info['cache']}, where compiled programs are kept: set KINEMA_CACHE there"
    if info["disk"] < required.disk:
        free, wanted = (f"{n / 2**20:,.0f} MiB" for n in (info["disk"], required.disk))
        return f"{name} has a full disk: {free} are free for {info['cache']}, and {wanted} are needed"
    return ""


def missing_resources_reason(name: str, resources: dict[str, float], required: WorkerResources) -> str:
    """Reason why the CPUs or GPUs of a node are insufficient, in one sentence; empty if sufficient."""
    if resources.get("GPU", 0.0) < required.gpus:
        return f"{name} has no GPU that could be used, and one is asked for"
    if resources.get("CPU", 0.0) < required.cpus:
        return f"{name} offers {resources.get('CPU', 0.0):g} CPUs, and a worker takes {required.cpus:g}"
    return ""


def n_workers_fitting(resources: dict[str, float], required: WorkerResources) -> int:
    """Number of workers that the resources of a node allow."""
    counts = [resources.get("CPU", 0.0) / required.cpus] if required.cpus else []
    counts += [resources.get("GPU", 0.0) / required.gpus] if required.gpus else []
    return int(min(counts)) if counts else 1


# ------------------------------------------------------------------------------------------------------- remote workers


class TaskReply(NamedTuple):
    """Outcome of a task as returned by a remote worker."""

    task_number: int
    """Number of the task."""
    result: Any
    failure: str
    log: str
    is_factory_failure: bool = False
    """Whether the worker factory failed, rather than the task."""


class RemoteWorker:
    """Ray actor that reports the state of its node and processes tasks one by one.

    If the task function has a method `begin(task)`, the function that `begin` returns is executed in a background
    thread while the next task runs, and its outcome is returned with the next reply. A thread is used because Ray
    actors with concurrent calls poll for the interpreter lock a hundred times a second.

    Args:
        worker_factory: creates the task function.
        threads: number of threads for compiled programs; 0 for all cores of the node.
        overlaps_tasks: whether to reply before a task is completed; the caller must then call `rest`.
    """

    def __init__(
        self, worker_factory: Callable[[], TaskFunction[Any, Any]], threads: int = 0, overlaps_tasks: bool = False
    ) -> None:
        self._worker_factory, self._overlaps_tasks = worker_factory, overlaps_tasks
        self._function: Any = None
        self._log: OutputLog | None = None
        self._background = ThreadPoolExecutor(1, thread_name_prefix="kinema-rest")
        self._unfinished: list[tuple[int, Future[tuple[Any, str, str]]]] = []
        if threads:
            os.environ[THREADS_ENV_VARIABLE] = str(threads)  # the other cores of the node belong to other workers

    def hello(self) -> dict[str, Any]:
        """Information on the node; see `node_info`."""
        return node_info()

    def work(self, task_number: int, task: Any) -> list[TaskReply]:
        """Process a task; returns the outcomes of all completed tasks, with captured output on failure."""
        log = self._start_log()
        if self._function is None:
            self._function, failure, story = run_task(lambda _: self._worker_factory(), None)
            if self._function is None:
                return [TaskReply(task_number, None, failure, story, is_factory_failure=True)]
        is_divided = self._overlaps_tasks and hasattr(self._function, "begin")
        result: Any
        result, failure, story = run_task(self._function.begin if is_divided else self._function, task)
        if failure:
            story = "\n".join(part for part in (log.tail(), story) if part)
        replies = self.rest()
        if is_divided and not failure:
            pending = self._background.submit(run_task, lambda _, rest=result: rest(), None)  # ty: ignore[not-callable]
            self._unfinished.append((task_number, pending))
            return replies
        return [*replies, TaskReply(task_number, result, failure, story)]

    def rest(self) -> list[TaskReply]:
        """Wait for and return the outcomes of tasks that are still being completed in the background."""
        found = [TaskReply(number, *left.result()) for number, left in self._unfinished]
        self._unfinished.clear()
        return found

    def _start_log(self) -> OutputLog:
        """Redirect output to an empty log for a new task."""
        if self._log is None:
            with tempfile.NamedTemporaryFile(prefix="kinema-log-") as file:  # stays open after deletion
                self._log = OutputLog(Path(file.name))
        self._log.clear()
        return self._log


# ------------------------------------------------------------------------------------------------------------- executor

AUTO = "auto"
"""Address of the running cluster, or that of `RAY_ADDRESS`; without one, a temporary cluster on this machine."""
_NODE_POLL_INTERVAL = 1.0
"""Interval between updates of the list of nodes [s]."""
_PENDING_RESULTS = -1
_MAX_START_FAILURES = 3
"""Number of failed worker starts after which a node is refused."""
_NO_NODE_TIMEOUT = 60.0
"""Maximum time without any node [s]."""
_START_TIMEOUT = 300.0
"""Maximum start time of a worker [s]; it never starts on a node whose resources others have taken."""


def import_ray() -> Any:
    """Import Ray, or raise with the installation hint."""
    return import_optional("ray", purpose="working on a cluster", extra="cluster")


def node_affinity(node_id: str) -> Any:
    """Ray scheduling strategy that pins an actor to a node."""
    strategies: Any = import_optional("ray.util.scheduling_strategies", purpose="working on a cluster", extra="cluster")
    return strategies.NodeAffinitySchedulingStrategy(node_id, soft=False)


def usable_nodes(ray: Any) -> list[dict[str, Any]]:
    """Nodes of the cluster that are alive and have CPUs or GPUs."""
    return [n for n in ray.nodes() if n["Alive"] and (n["Resources"].get("CPU") or n["Resources"].get("GPU"))]


@dataclass(slots=True)
class _Actor:
    node: str
    handle: Any
    node_info_ref: Any
    """Object reference of the node information, the first reply."""
    deadline: float
    """Time by which the oldest task must be done [s]."""
    pending_calls: dict[Any, int] = field(default_factory=dict)
    """Object references of outstanding calls with task number; `_PENDING_RESULTS` for calls of `rest`."""
    attempts: dict[int, TaskAttempt] = field(default_factory=dict)
    """Assigned tasks without outcome, by number, in order of assignment."""
    n_done: int = 0
    is_accepted: bool = False
    """Whether the node satisfies the requirements."""

    @property
    def pending_refs(self) -> list[Any]:
        """Object references of all outstanding replies."""
        return [*self.pending_calls] if self.is_accepted else [self.node_info_ref]


class RayExecutor(Executor):
    """Executor on a Ray cluster, with as many workers on each node as its resources allow.

    Nodes that join later are used; the tasks of a node that dies are retried elsewhere.

    Args:
        address: of the cluster: `auto`, `host:port`, `ray://host:port`, or `local` for a new cluster on this machine.
        resources: resources of a worker.
    """

    name = "cluster"

    def __init__(self, address: str = AUTO, resources: WorkerResources | None = None) -> None:
        self._ray = import_ray()
        self._resources = resources or WorkerResources()
        self._owns_connection = connect_ray(self._ray, address)
        self._task_numbers = itertools.count()
        self._start_failures: Counter[str] = Counter()
        self.refused: dict[str, str] = {}
        """Nodes that cannot be used, by node ID, with the reason in one sentence."""

    @property
    def n_workers(self) -> int:
        """Number of workers that the current nodes allow; at least 1."""
        return sum(n_workers_fitting(n["Resources"], self._resources) for n in self._nodes()) or 1

    def close(self) -> None:
        """Disconnect from the cluster if this executor connected to it."""
        if self._owns_connection:
            self._ray.shutdown()

    def run(
        self,
        worker_factory: Callable[[], TaskFunction[TaskT, ResultT]],
        tasks: Iterable[TaskT],
        limits: TaskLimits | None = None,
    ) -> Generator[Outcome[TaskT, ResultT]]:
        """Run all tasks; see `Executor.run`."""
        limits = limits or TaskLimits()
        queue, factory_ref = TaskQueue(tasks, limits.retries), self._ray.put(worker_factory)
        actors: list[_Actor] = []
        last_poll, last_actor = -_NODE_POLL_INTERVAL, time.monotonic()
        try:
            while True:
                if time.monotonic() - last_poll > _NODE_POLL_INTERVAL:
                    self._start_actors(actors, factory_ref, limits.n_assigned_tasks > 1)
                    last_poll = time.monotonic()
                self._assign_tasks(actors, queue, limits)
                if queue.is_empty and not any(a.attempts for a in actors):
                    return
                last_actor = time.monotonic() if actors else last_actor
                if not actors:
                    self._fail_without_nodes(time.monotonic() - last_actor)
                outcomes = list(self._poll(actors, queue, limits))
                self._assign_tasks(actors, queue, limits)  # workers do not wait for the consumer
                yield from outcomes
        finally:
            for actor in actors:
                self._ray.kill(actor.handle)

    # ---------------------------------------------------------------------------------------------------- actors

    def _nodes(self) -> list[dict[str, Any]]:
        return [n for n in usable_nodes(self._ray) if n["NodeID"] not in self.refused]

    def _start_actors(self, actors: list[_Actor], worker_factory: Any, overlaps_tasks: bool) -> None:
        """Start workers on every usable node up to its capacity; nodes with insufficient resources are refused."""
        for node in self._nodes():
            number, resources = node["NodeID"], node["Resources"]
            problem = missing_resources_reason(node.get("NodeManagerHostname", number), resources, self._resources)
            if problem:
                self.refused[number] = problem
                continue
            there = sum(a.node == number for a in actors)
            for _ in range(n_workers_fitting(resources, self._resources) - there):
                kind = self._ray.remote(num_cpus=self._resources.cpus, num_gpus=self._resources.gpus)(RemoteWorker)
                placed = kind.options(scheduling_strategy=node_affinity(number))
                handle = placed.remote(worker_factory, max(1, int(self._resources.cpus)), overlaps_tasks)
                actors.append(_Actor(number, handle, handle.hello.remote(), time.monotonic() + _START_TIMEOUT))

    def _fail_without_nodes(self, seconds: float) -> None:
        """Raise `KinemaError` if all nodes are refused or there has been no node for too long."""
        if self.refused and not self._nodes():
            raise KinemaError("no node can be used: " + "; ".join(dict.fromkeys(self.refused.values())))
        if seconds > _NO_NODE_TIMEOUT:
            raise KinemaError(f"there has been no node to work on for {_NO_NODE_TIMEOUT:g} s")

    def _assign_tasks(self, actors: list[_Actor], queue: TaskQueue, limits: TaskLimits) -> None:
        """Assign a task to every idle worker, then prefetched tasks while enough tasks are available."""
        for actor in [a for a in actors if a.is_accepted and not a.attempts]:
            one = queue.next_attempt()
            if one is None:
                return
            self._assign(actor, one, limits)
        for size in range(1, limits.n_assigned_tasks):
            for actor in [
                a
                for a in actors
                if len(a.pending_calls) == size and not any(t.is_isolated for t in a.attempts.values())
            ]:
                if not queue.has_new_tasks(len(actors)):
                    break
                one = queue.next_attempt()
                assert one is not None
                self._assign(actor, one, limits)
        queue.peek()

    def _assign(self, actor: _Actor, attempt: TaskAttempt, limits: TaskLimits) -> None:
        if not actor.attempts:
            actor.deadline = time.monotonic() + limits.timeout
        number = next(self._task_numbers)
        actor.attempts[number] = attempt
        actor.pending_calls[actor.handle.work.remote(number, attempt.task)] = number

    # --------------------------------------------------------------------------------------------------- replies

    def _poll(self, actors: list[_Actor], queue: TaskQueue, limits: TaskLimits) -> Iterator[Outcome[Any, Any]]:
        """Wait for replies and yield outcomes; kill workers whose deadline has passed."""
        for actor in [a for a in actors if a.attempts and not a.pending_calls]:
            actor.pending_calls[actor.handle.rest.remote()] = _PENDING_RESULTS
        due = {answer: a for a in actors for answer in a.pending_refs}
        if not due:
            time.sleep(0.1)
        patience = min([_NODE_POLL_INTERVAL, *(a.deadline - time.monotonic() for a in actors if a.pending_refs)])
        ready = self._ray.wait(list(due), num_returns=1, timeout=max(0.05, patience))[0] if due else []
        for answer in ready:
            if due[answer] in actors:
                yield from self._receive(due[answer], answer, actors, queue, limits)
        for actor in [a for a in actors if time.monotonic() > a.deadline]:
            if not actor.is_accepted:
                self._kill_actor(actor, actors)
                self.refused[actor.node] = (
                    f"node {actor.node[:8]} has not started a worker in {_START_TIMEOUT:g} s: others may have taken it"
                )
            elif actor.attempts:
                one, *others = self._kill_actor(actor, actors)
                for other in others:
                    queue.put_back(other)
                yield Outcome(one.task, None, f"it took more than {limits.timeout:g} s", "", one.n_attempts, died=True)

    def _receive(
        self, actor: _Actor, ref: Any, actors: list[_Actor], queue: TaskQueue, limits: TaskLimits
    ) -> Iterator[Outcome[Any, Any]]:
        """Handle a reply of an actor: node information, outcomes of tasks, or the death of the actor."""
        try:
            said = self._ray.get(ref)
        except self._ray.exceptions.RayError as error:
            had = self._kill_actor(actor, actors)
            if not had:
                self._note_start_failure(actor, str(error))
                return
            for other in had[1:]:
                queue.put_back(other)
            outcome = queue.worker_died(
                had[0], f"its worker died ({type(error).__name__})", str(error)[-MAX_LOG_CHARS:]
            )
            if outcome is not None:
                yield outcome
            return
        if not actor.is_accepted:
            self._accept_or_refuse_node(actor, actors, said)
            return
        del actor.pending_calls[ref]
        actor.deadline = time.monotonic() + limits.timeout
        yield from list(self._outcomes(actor, said))
        if limits.max_tasks_per_worker and actor.n_done == limits.max_tasks_per_worker:
            self._kill_actor(actor, actors)

    @staticmethod
    def _outcomes(actor: _Actor, replies: list[TaskReply]) -> Iterator[Outcome[Any, Any]]:
        for one in replies:
            if one.is_factory_failure:
                raise KinemaError(one.failure)
            asked = actor.attempts.pop(one.task_number)
            actor.n_done += 1
            yield Outcome(asked.task, one.result, one.failure, one.log, asked.n_attempts)

    def _note_start_failure(self, actor: _Actor, error_text: str) -> None:
        """Count a worker that died before its first reply; refuse its node after `_MAX_START_FAILURES`."""
        self._start_failures[actor.node] += 1
        if self._start_failures[actor.node] >= _MAX_START_FAILURES and actor.node in {
            n["NodeID"] for n in self._nodes()
        }:
            lines = [line for line in error_text.strip().splitlines() if line.strip()] or ["no reason is given"]
            self.refused[actor.node] = f"node {actor.node[:8]} cannot start a worker: {lines[-1].strip():.200}"

    def _accept_or_refuse_node(self, actor: _Actor, actors: list[_Actor], info: dict[str, Any]) -> None:
        problem = unusable_reason(info, self._resources, kinema_version())
        if problem:
            self.refused[actor.node] = problem
            self._kill_actor(actor, actors)
        actor.is_accepted = not problem

    def _kill_actor(self, actor: _Actor, actors: list[_Actor]) -> list[TaskAttempt]:
        """Kill and remove an actor; returns its unfinished tasks, the running task first."""
        self._ray.kill(actor.handle)
        if actor in actors:
            actors.remove(actor)
        asked = [number for number in actor.pending_calls.values() if number != _PENDING_RESULTS]
        had = [actor.attempts[number] for number in (*asked, *(n for n in actor.attempts if n not in asked))]
        actor.attempts.clear()
        actor.pending_calls.clear()
        return had


def connect_ray(ray: Any, address: str) -> bool:
    """Connect to a Ray cluster; returns False if a connection existed before.

    Raises:
        KinemaError: there is no cluster at this address.
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


# --------------------------------------------------------------------------------------------------- node health checks

_NODE_ANSWER_TIMEOUT = 60.0
"""Timeout of a node query [s]."""


def list_nodes(address: str, required: WorkerResources | None = None) -> list[dict[str, Any]]:
    """Usable nodes of a cluster: ID, address, CPUs, GPUs, memory [bytes] and number of workers that fit."""
    ray = import_ray()
    joined = connect_ray(ray, address)
    try:
        return [_node_row(n, required or WorkerResources()) for n in usable_nodes(ray)]
    finally:
        if joined:
            ray.shutdown()


def _node_row(node: dict[str, Any], required: WorkerResources) -> dict[str, Any]:
    resources = node["Resources"]
    return {
        "node": node["NodeID"],
        "address": node["NodeManagerAddress"],
        "cpus": resources.get("CPU", 0.0),
        "gpus": resources.get("GPU", 0.0),
        "memory": int(resources.get("memory", 0.0)),
        "workers": n_workers_fitting(resources, required),
    }


def check_nodes(address: str, required: WorkerResources) -> list[dict[str, Any]]:
    """Nodes as in `list_nodes`, with the `node_info` of each and the reason why it is unusable in `problem`."""
    ray = import_ray()
    joined = connect_ray(ray, address)
    try:
        rows = []
        for node in list_nodes(address, required):
            resources = {"CPU": node["cpus"], "GPU": node["gpus"]}
            problem = missing_resources_reason(node["address"], resources, required)
            info = {} if problem else _query_node(ray, node["node"])
            if not problem:
                problem = info.pop("silent", "") or unusable_reason(info, required, kinema_version())
            rows.append({**node, **info, "problem": problem})
        return rows
    finally:
        if joined:
            ray.shutdown()


def _query_node(ray: Any, node_id: str) -> dict[str, Any]:
    """Result of `node_info` on a node, or the error text under the key `silent`."""
    answer = ray.remote(num_cpus=0)(node_info).options(scheduling_strategy=node_affinity(node_id)).remote()
    try:
        return ray.get(answer, timeout=_NODE_ANSWER_TIMEOUT)
    except ray.exceptions.GetTimeoutError:
        return {"silent": f"{node_id[:8]} says nothing for {_NODE_ANSWER_TIMEOUT:g} s"}
    except ray.exceptions.RayError as error:
        return {"silent": f"{node_id[:8]} cannot run Kinema: {str(error).strip().splitlines()[-1]}"}
    except KinemaError as error:
        return {"silent": f"{node_id[:8]}: {error}"}
