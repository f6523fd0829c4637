"""Many tasks: outcomes as they come, failures as values, workers that die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kinema.apps.cluster import Executor, InProcessExecutor, LocalProcessExecutor, TaskLimits, as_worker_factory
from kinema.apps.cluster.executor import WAIT_FOR_RESULTS
from kinema.apps.cluster.ray_executor import (
    WorkerResources,
    missing_resources_reason,
    n_workers_fitting,
    node_info,
    unusable_reason,
)
from kinema.core import KinemaError
from kit.misbehaviour import Counting, cannot_start, crash_once, misbehave, talk


@pytest.mark.parametrize("executor", [InProcessExecutor(), LocalProcessExecutor(2)], ids=lambda e: e.name)
def test_what_a_task_raises_is_its_outcome(executor: Executor) -> None:
    """And no other's; it is not repeated."""
    tasks = ["fine", "raise", "well"]
    outcomes = {o.task: o for o in executor.run(as_worker_factory(misbehave), tasks, TaskLimits(retries=5))}
    assert {t: outcomes[t].result for t in tasks} == {"fine": "fine", "raise": None, "well": "well"}
    assert outcomes["raise"].failure == "ValueError: no"
    assert "misbehaviour.py" in outcomes["raise"].log
    assert outcomes["raise"].attempts == 1
    assert not outcomes["raise"].died


def test_a_worker_that_dies_leaves_its_last_words() -> None:
    """What it printed itself, and what was printed below Python."""
    (outcome,) = LocalProcessExecutor(1).run(as_worker_factory(talk), ["crash"], TaskLimits(retries=1))
    assert outcome.failure == "its process ended with status 3 (2 times)"
    assert outcome.died
    assert outcome.log.split("\n")[:2] == ["first words", "last words"]
    (outcome,) = LocalProcessExecutor(1).run(as_worker_factory(talk), ["raise"])
    assert outcome.log.startswith("first words\nlast words\n")
    assert "ValueError: no" in outcome.log


def test_what_a_dying_worker_did_is_done_again(tmp_path: Path) -> None:
    outcomes = list(
        LocalProcessExecutor(2).run(as_worker_factory(crash_once), [str(tmp_path / "x")], TaskLimits(retries=2))
    )
    assert [(o.failure, o.attempts) for o in outcomes] == [("", 2)]


def test_workers_are_made_once() -> None:
    """And stay for all tasks, unless they are told to make way."""
    found = [o.result for o in LocalProcessExecutor(2).run(Counting, range(8))]
    by_worker = {pid: max(n for p, n in found if p == pid) for pid, _ in found if pid}  # type: ignore[misc]
    assert len(by_worker) <= 2
    assert sum(by_worker.values()) == 8
    alone = [o.result for o in LocalProcessExecutor(1).run(Counting, range(2), TaskLimits(max_tasks_per_worker=1))]
    assert len({pid for pid, _ in alone}) == 2  # type: ignore[misc]


@pytest.mark.parametrize("executor", [InProcessExecutor(), LocalProcessExecutor(2)], ids=lambda e: e.name)
def test_tasks_are_taken_as_there_is_room(executor: Executor) -> None:
    """What is not asked for is not begun: memory does not grow with the number of tasks."""
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    running = executor.run(as_worker_factory(str), endless())
    for count in range(1, 6):
        next(running)
        assert taken <= count + 2 * executor.n_workers
    running.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("executor", [InProcessExecutor(), LocalProcessExecutor(2)], ids=lambda e: e.name)
def test_tasks_may_depend_on_outcomes(executor: Executor) -> None:
    """The next round is known when all of one have come."""
    back: list[str] = []

    def rounds() -> Iterator[object]:
        yield from ("a", "b")
        while len(back) < 2:
            yield WAIT_FOR_RESULTS
        yield "+".join(sorted(back))

    for outcome in executor.run(as_worker_factory(misbehave), rounds()):  # type: ignore[arg-type]
        back.append(outcome.result)  # type: ignore[arg-type]  # noqa: PERF401  rounds look at it meanwhile
    assert sorted(back) == ["a", "a+b", "b"]


@pytest.mark.parametrize("executor", [LocalProcessExecutor(1)], ids=lambda e: e.name)
def test_what_cannot_begin_says_so_once(executor: Executor) -> None:
    with pytest.raises(KinemaError, match="nothing to work with"):
        list(executor.run(cannot_start, range(3)))  # type: ignore[arg-type]
    with pytest.raises(KinemaError, match="cannot be sent to another process"):
        list(executor.run(as_worker_factory(lambda x: x), range(3)))
    with pytest.raises(KinemaError, match="at least one process"):
        LocalProcessExecutor(0)


def test_nodes_are_refused_with_one_sentence() -> None:
    """Another version, a full disk, nowhere to write, no GPU."""
    good = node_info()
    assert unusable_reason(good, WorkerResources(disk=0), good["kinema"]) == ""
    for change, needs, words in (
        ({"kinema": "0.0.1"}, WorkerResources(), "has Kinema 0.0.1, not"),
        ({"disk": 10}, WorkerResources(), "has a full disk: 0 MiB are free"),
        ({"writable": False}, WorkerResources(), "set KINEMA_CACHE"),
    ):
        sentence = unusable_reason({**good, **change}, needs, good["kinema"])
        assert words in sentence
        assert "\n" not in sentence
    assert "has no GPU" in missing_resources_reason("node", {"CPU": 8.0}, WorkerResources(gpus=1.0))
    assert missing_resources_reason("node", {"CPU": 8.0, "GPU": 2.0}, WorkerResources(gpus=1.0)) == ""
    assert n_workers_fitting({"CPU": 8.0, "GPU": 2.0}, WorkerResources(gpus=1.0)) == 2
    assert n_workers_fitting({"CPU": 8.0}, WorkerResources(cpus=3.0)) == 2
