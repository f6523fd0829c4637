"""Many tasks: outcomes as they come, failures as values, workers that die."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from kinema.apps.cluster import Executor, InProcess, Limits, LocalProcesses, always
from kinema.apps.cluster.executor import WAIT
from kinema.apps.cluster.nodes import Needs, facts, places, refusal, short_of
from kinema.foundation import KinemaError
from kit.misbehaviour import Counting, cannot_start, crash_once, misbehave, talk


@pytest.mark.parametrize("executor", [InProcess(), LocalProcesses(2)], ids=lambda e: e.name)
def test_what_a_task_raises_is_its_outcome(executor: Executor) -> None:
    """And no other's; it is not repeated."""
    tasks = ["fine", "raise", "well"]
    outcomes = {o.task: o for o in executor.run(always(misbehave), tasks, Limits(retries=5))}
    assert {t: outcomes[t].result for t in tasks} == {"fine": "fine", "raise": None, "well": "well"}
    assert outcomes["raise"].failure == "ValueError: no"
    assert "misbehaviour.py" in outcomes["raise"].log
    assert outcomes["raise"].attempts == 1
    assert not outcomes["raise"].died


def test_a_worker_that_dies_leaves_its_last_words() -> None:
    """What it printed itself, and what was printed below Python."""
    (outcome,) = LocalProcesses(1).run(always(talk), ["crash"], Limits(retries=1))
    assert outcome.failure == "its process ended with status 3 (2 times)"
    assert outcome.died
    assert outcome.log.split("\n")[:2] == ["first words", "last words"]
    (outcome,) = LocalProcesses(1).run(always(talk), ["raise"])
    assert outcome.log.startswith("first words\nlast words\n")
    assert "ValueError: no" in outcome.log


def test_what_a_dying_worker_did_is_done_again(tmp_path: Path) -> None:
    outcomes = list(LocalProcesses(2).run(always(crash_once), [str(tmp_path / "x")], Limits(retries=2)))
    assert [(o.failure, o.attempts) for o in outcomes] == [("", 2)]


def test_workers_are_made_once() -> None:
    """And stay for all tasks, unless they are told to make way."""
    found = [o.result for o in LocalProcesses(2).run(Counting, range(8))]
    by_worker = {pid: max(n for p, n in found if p == pid) for pid, _ in found if pid}  # type: ignore[misc]
    assert len(by_worker) <= 2
    assert sum(by_worker.values()) == 8
    alone = [o.result for o in LocalProcesses(1).run(Counting, range(2), Limits(per_worker=1))]
    assert len({pid for pid, _ in alone}) == 2  # type: ignore[misc]


@pytest.mark.parametrize("executor", [InProcess(), LocalProcesses(2)], ids=lambda e: e.name)
def test_tasks_are_taken_as_there_is_room(executor: Executor) -> None:
    """What is not asked for is not begun: memory does not grow with the number of tasks."""
    taken = 0

    def endless() -> Iterator[int]:
        nonlocal taken
        while True:
            taken += 1
            yield taken

    running = executor.run(always(str), endless())
    for count in range(1, 6):
        next(running)
        assert taken <= count + 2 * executor.workers
    running.close()  # type: ignore[attr-defined]


@pytest.mark.parametrize("executor", [InProcess(), LocalProcesses(2)], ids=lambda e: e.name)
def test_tasks_may_depend_on_outcomes(executor: Executor) -> None:
    """The next round is known when all of one have come."""
    back: list[str] = []

    def rounds() -> Iterator[object]:
        yield from ("a", "b")
        while len(back) < 2:
            yield WAIT
        yield "+".join(sorted(back))

    for outcome in executor.run(always(misbehave), rounds()):  # type: ignore[arg-type]
        back.append(outcome.result)  # type: ignore[arg-type]  # noqa: PERF401  rounds look at it meanwhile
    assert sorted(back) == ["a", "a+b", "b"]


@pytest.mark.parametrize("executor", [LocalProcesses(1)], ids=lambda e: e.name)
def test_what_cannot_begin_says_so_once(executor: Executor) -> None:
    with pytest.raises(KinemaError, match="nothing to work with"):
        list(executor.run(cannot_start, range(3)))  # type: ignore[arg-type]
    with pytest.raises(KinemaError, match="cannot be sent to another process"):
        list(executor.run(always(lambda x: x), range(3)))
    with pytest.raises(KinemaError, match="at least one process"):
        LocalProcesses(0)


def test_nodes_are_refused_with_one_sentence() -> None:
    """Another version, a full disk, nowhere to write, no GPU."""
    good = facts()
    assert refusal(good, Needs(disk=0), good["kinema"]) == ""
    for change, needs, words in (
        ({"kinema": "0.0.1"}, Needs(), "has Kinema 0.0.1, not"),
        ({"disk": 10}, Needs(), "has a full disk: 0 MiB are free"),
        ({"writable": False}, Needs(), "set KINEMA_CACHE"),
    ):
        sentence = refusal({**good, **change}, needs, good["kinema"])
        assert words in sentence
        assert "\n" not in sentence
    assert "has no GPU" in short_of("node", {"CPU": 8.0}, Needs(gpus=1.0))
    assert short_of("node", {"CPU": 8.0, "GPU": 2.0}, Needs(gpus=1.0)) == ""
    assert places({"CPU": 8.0, "GPU": 2.0}, Needs(gpus=1.0)) == 2
    assert places({"CPU": 8.0}, Needs(cpus=3.0)) == 2
