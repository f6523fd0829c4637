"""Nodes of any kind, by a Ray that is not there: who is hired, who is refused and why, what becomes of tasks."""

from __future__ import annotations

import functools
import itertools
from collections import Counter
from collections.abc import Callable
from typing import Any

import pytest

from kinema.apps.cluster import RayExecutor, TaskLimits, WorkerResources, as_worker_factory, ray_executor
from kinema.apps.cluster.executor_selection import select_executor
from kinema.core import KinemaError
from kit.misbehaviour import misbehave
from kit.pretend_ray import PretendRay, RayError, install

BIG = {"CPU": 16.0, "GPU": 4.0}
SMALL = {"CPU": 8.0}
ANY_DISK = {"disk": 2**50}


@pytest.fixture(autouse=True)
def quick(monkeypatch: pytest.MonkeyPatch) -> None:
    """A clock that goes on by a second whenever it is looked at; what a task prints is left where it goes.

    Workers are in this process, and may say how many threads it has.
    """
    monkeypatch.setenv("KINEMA_THREADS", "1")
    seconds = itertools.count()
    monkeypatch.setattr(ray_executor.time, "monotonic", lambda: float(next(seconds)))
    monkeypatch.setattr(ray_executor.time, "sleep", lambda _: None)
    monkeypatch.setattr(
        ray_executor, "OutputLog", lambda _: type("Quiet", (), {"clear": lambda _: None, "tail": lambda _: ""})()
    )


def made(monkeypatch: pytest.MonkeyPatch, nodes: dict[str, dict[str, float]], **more: Any) -> PretendRay:
    ray = PretendRay(nodes, {name: dict(ANY_DISK) for name in nodes}, **more)
    install(ray, monkeypatch)
    return ray


@pytest.mark.parametrize(
    ("needs", "hired"),
    [
        (WorkerResources(gpus=1.0), {"big": 4}),
        (WorkerResources(gpus=0.5), {"big": 8}),
        (WorkerResources(cpus=8.0, gpus=1.0), {"big": 2}),
        (WorkerResources(cpus=4.0), {"big": 4, "small": 2}),
    ],
)
def test_workers_per_gpu_or_group_of_cores(
    needs: WorkerResources, hired: dict[str, int], monkeypatch: pytest.MonkeyPatch
) -> None:
    """As many as there is room for, each asking for what it takes; nodes that have none of it say so."""
    ray = made(monkeypatch, {"big": BIG, "small": SMALL})
    executor = RayExecutor(resources=needs)
    outcomes = list(executor.run(as_worker_factory(str), range(20)))
    assert sorted(int(o.result or "") for o in outcomes) == list(range(20))
    assert Counter(h.node for h in ray.hired) == hired
    assert {tuple(h.asked.values()) for h in ray.hired} == {(needs.cpus, needs.gpus)}
    assert [s for s in executor.refused.values() if "no GPU" in s] == [
        f"{name} has no GPU that could be used, and one is asked for" for name in ("small",) if needs.gpus
    ]
    assert executor.n_workers == sum(hired.values())
    assert len(ray.killed) == len(ray.hired)


def test_a_scene_on_a_gpu_asks_for_one(monkeypatch: pytest.MonkeyPatch) -> None:
    """Ray hides the GPUs of a node from those who ask for none."""
    ray = made(monkeypatch, {"big": BIG})
    for gpu, needs, asked in (
        (True, None, (1.0, 1.0)),
        (False, None, (1.0, 0.0)),
        (True, WorkerResources(2.0), (2.0, 0.0)),
    ):
        executor, own = select_executor("auto", needs, gpu=gpu)
        assert own
        list(executor.run(as_worker_factory(str), [1]))
        assert tuple(ray.hired[-1].asked.values()) == asked


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        ({"kinema": "0.0.1"}, "has Kinema 0.0.1, not"),
        ({"disk": 10}, "has a full disk: 0 MiB are free"),
        ({"writable": False}, "set KINEMA_CACHE there"),
    ],
)
def test_an_unfit_node_is_refused_and_others_work(
    wrong: dict[str, Any], words: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """In one sentence; where no other is left, that is the error."""
    ray = made(monkeypatch, {"good": {"CPU": 1.0}, "bad": {"CPU": 1.0}})
    ray.facts["bad"] |= {"host": "bad", **wrong}
    executor = RayExecutor()
    outcomes = list(executor.run(as_worker_factory(misbehave), ["a", "b", "c"]))
    assert sorted(str(o.result) for o in outcomes) == ["a", "b", "c"]
    (sentence,) = executor.refused.values()
    assert sentence.startswith("bad ")
    assert words in sentence
    assert "\n" not in sentence
    del ray.resources["good"]
    with pytest.raises(KinemaError, match="no node can be used: bad "):
        list(RayExecutor().run(as_worker_factory(misbehave), ["a"]))


def test_a_node_on_which_nothing_starts_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    """Others may have taken it: it is waited for, but not for ever."""
    ray = made(monkeypatch, {"taken": {"CPU": 1.0}}, silent={"taken"})
    with pytest.raises(KinemaError, match="node taken has not started a worker in 300 s"):
        list(RayExecutor().run(as_worker_factory(misbehave), ["a"]))
    ray.resources.clear()
    with pytest.raises(KinemaError, match="there has been no node to work on for 60 s"):
        list(RayExecutor().run(as_worker_factory(misbehave), ["a"]))


def test_retries_are_bounded(monkeypatch: pytest.MonkeyPatch) -> None:
    """A task that kills its worker is begun so many times, and costs nobody else; one that hangs is stopped."""
    ray = made(monkeypatch, {"one": {"CPU": 1.0}})
    get = ray.get
    began: Counter[str] = Counter()

    def dying(answer: Any) -> Any:
        found = get(answer)
        task = found[0].result if isinstance(found, list) else ""
        began[task] += 1
        if task == "deadly":
            raise RayError("the worker is gone")
        return found

    monkeypatch.setattr("ray.get", dying)
    outcomes = {
        o.task: o for o in RayExecutor().run(as_worker_factory(misbehave), ["a", "deadly", "b"], TaskLimits(retries=2))
    }
    assert outcomes["deadly"].failure == "its worker died (RayError) (3 times)"
    assert outcomes["deadly"].died
    assert (began["deadly"], outcomes["a"].result, outcomes["b"].result) == (3, "a", "b")
    waits = ray.wait
    monkeypatch.setattr("ray.wait", lambda answers, **_: waits(answers) if not began["slow"] else ([], answers))
    began["slow"] = 0

    def slow_once_known(answer: Any) -> Any:
        began["slow"] = 1  # the node has said what it is; from now on it says nothing
        return get(answer)

    monkeypatch.setattr("ray.get", slow_once_known)
    (late,) = RayExecutor().run(as_worker_factory(misbehave), ["slow"], TaskLimits(timeout=30.0, retries=5))
    assert late.failure == "it took more than 30 s"
    assert late.died


def test_workers_have_their_next_task_while_there_are_enough_for_all(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two each; at the end one each, so that nobody waits behind another. Where nothing may be repeated, one each."""
    ray = made(monkeypatch, {"one": {"CPU": 1.0}, "two": {"CPU": 1.0}})
    waits, due = ray.wait, []

    def wait(answers: list[Any], **_: Any) -> tuple[list[Any], list[Any]]:
        due.append(len(answers))
        return waits([answers[len(due) % len(answers)]])

    monkeypatch.setattr("ray.wait", wait)
    outcomes = list(RayExecutor().run(as_worker_factory(str), range(12), TaskLimits(retries=1, n_prefetched=1)))
    assert sorted(int(o.result or "") for o in outcomes) == list(range(12))
    assert due[3:] == [4] * 7 + [3, 3, 2, 1]
    due.clear()
    list(RayExecutor().run(as_worker_factory(str), range(6), TaskLimits(n_prefetched=1)))
    assert max(due) == 2


@pytest.mark.parametrize("place", [0, 1, 2])
def test_a_task_that_kills_its_worker_costs_no_other(place: int, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither the one before it nor the one behind it, which the worker had as well."""
    ray = made(monkeypatch, {"one": {"CPU": 1.0}})
    get = ray.get
    dead: set[int] = set()

    def dying(answer: Any) -> Any:
        if id(answer.handle) in dead:
            raise RayError("the worker is gone")
        found = get(answer)
        if isinstance(found, list) and found[0].result == "deadly":
            dead.add(id(answer.handle))
            raise RayError("the worker is gone")
        return found

    monkeypatch.setattr("ray.get", dying)
    tasks = ["a", "b", "c", "d", "e"]
    tasks.insert(place, "deadly")
    outcomes = {
        o.task: o for o in RayExecutor().run(as_worker_factory(misbehave), tasks, TaskLimits(retries=1, n_prefetched=1))
    }
    assert [str(outcomes[t].result) for t in "abcde"] == list("abcde")
    assert outcomes["deadly"].failure == "its worker died (RayError) (2 times)"
    assert len(outcomes) == 6


class InTwo:
    """Work that leaves something to do: what was begun, and what was done with it, in order."""

    def __init__(self, story: list[str]) -> None:
        self.story = story

    def begin(self, task: str) -> Callable[[], str]:
        self.story.append(f"begin {task}")
        return functools.partial(self.end, task)

    def end(self, task: str) -> str:
        if task == "bad":
            raise ValueError("no room")
        return task

    def __call__(self, task: str) -> str:
        self.story.append(f"all of {task}")
        return self.end(task)


def test_what_is_left_of_a_task_is_done_while_the_next_is_begun(monkeypatch: pytest.MonkeyPatch) -> None:
    """It is said with that one, or when asked for; what goes wrong in it is the outcome of its own task."""
    made(monkeypatch, {"one": {"CPU": 1.0}, "two": {"CPU": 1.0}})
    story: list[str] = []
    tasks = ["a", "b", "bad", "c", "d"]
    outcomes = {
        o.task: o for o in RayExecutor().run(lambda: InTwo(story), tasks, TaskLimits(retries=1, n_prefetched=1))
    }
    assert sorted(story) == sorted(f"begin {t}" for t in tasks)
    assert {t: o.result for t, o in outcomes.items()} == {**{t: t for t in "abcd"}, "bad": None}
    assert outcomes["bad"].failure == "ValueError: no room"
    story.clear()
    assert len(list(RayExecutor().run(lambda: InTwo(story), ["a", "b"], TaskLimits(n_prefetched=1)))) == 2
    assert sorted(story) == ["all of a", "all of b"]  # where nothing may be repeated, nobody is ahead


def test_what_a_dead_worker_had_only_to_say_is_done_again(monkeypatch: pytest.MonkeyPatch) -> None:
    """Once more, and it is not what the worker died of."""
    ray = made(monkeypatch, {"one": {"CPU": 1.0}})
    get, wait, deaths = ray.get, ray.wait, [3]
    story: list[str] = []

    def dying(answer: Any) -> Any:
        found = get(answer)
        deaths[0] -= isinstance(found, list)
        if deaths[0] == 0:
            deaths[0] = -1
            raise RayError("the worker is gone")
        return found

    monkeypatch.setattr("ray.get", dying)
    monkeypatch.setattr("ray.wait", lambda answers, **_: wait(answers[:1]))
    outcomes = {
        o.task: o for o in RayExecutor().run(lambda: InTwo(story), list("abcd"), TaskLimits(retries=1, n_prefetched=1))
    }
    assert {t: o.result for t, o in outcomes.items()} == {t: t for t in "abcd"}
    assert {t: o.attempts for t, o in outcomes.items()} == {"a": 1, "b": 1, "c": 2, "d": 1}
    assert [story.count(f"begin {t}") for t in "abcd"] == [1, 2, 2, 1]
