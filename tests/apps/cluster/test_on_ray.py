"""On Ray nodes of this machine, some of which die: `make cluster`. Everything is as it is without them."""

from __future__ import annotations

import importlib.util
import os
import resource
import shutil
import sys
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.apps.cluster import RayExecutor, TaskLimits, WorkerResources, as_worker_factory
from kinema.apps.learn import robot_file
from kinema.core import KinemaError
from kit.assets import EXAMPLES
from kit.command_line import run
from kit.misbehaviour import cannot_start, crash_once, misbehave, seen_gpus, talk
from kit.played import Push, parabola, swinging
from kit.ray_nodes import contents, killed_driver, killed_process, meanwhile, nodes

pytestmark = [
    pytest.mark.cluster,
    pytest.mark.filterwarnings("ignore"),  # of Ray's own
    pytest.mark.skipif(importlib.util.find_spec("ray") is None, reason="needs Ray: kinema[cluster]"),
]
EPISODES = int(os.environ.get("KINEMA_CLUSTER_EPISODES", "10000"))
STANCE = np.array([0.0, 0.8, -1.6] * 4, np.float32)


# ------------------------------------------------------------------------------------------------------------- tasks


def test_tasks_on_nodes(tmp_path: Path) -> None:
    """Results, failures, workers that die and hang, starts that fail; a node that dies, and one that comes."""
    with nodes(2) as (cluster, added), RayExecutor() as executor:
        assert executor.n_workers == 2
        outcomes = {
            o.task: o
            for o in executor.run(as_worker_factory(misbehave), ["a", "crash", "hang", "raise"], TaskLimits(10, 1))
        }
        assert outcomes["a"].result == "a"
        assert outcomes["crash"].failure == "its worker died (ActorDiedError) (2 times)"
        assert outcomes["hang"].failure == "it took more than 10 s"
        assert outcomes["raise"].failure == "ValueError: no"
        (said,) = executor.run(as_worker_factory(talk), ["raise"])
        assert said.log.startswith("first words\nlast words\n")
        (again,) = executor.run(as_worker_factory(crash_once), [str(tmp_path / "x")], TaskLimits(retries=2))
        assert (again.failure, again.attempts) == ("", 2)
        with pytest.raises(KinemaError, match="nothing to work with"):
            list(executor.run(cannot_start, range(3)))  # type: ignore[arg-type]
        running = executor.run(as_worker_factory(time.sleep), [0.2] * 20, TaskLimits(retries=3))
        first = [next(running) for _ in range(4)]
        cluster.remove_node(added[0])
        cluster.add_node(num_cpus=2)
        rest = list(running)
        assert len(first + rest) == 20
        assert not [o for o in rest if o.failure]


def test_nodes_that_cannot_be_used_are_refused() -> None:
    """One sentence each; where none is left, that is the error."""
    with nodes(1):
        code, printed, _ = run("cluster", "status")
        assert code == 0
        assert "room for 1 workers" in printed
        code, printed, _ = run("cluster", "doctor")
        assert code == 0
        assert "1 of 1 nodes can be used" in printed  # the head offers nothing
        for needs, words in (
            (WorkerResources(gpus=1.0), "has no GPU"),
            (WorkerResources(disk=2**60), "has a full disk"),
        ):
            with RayExecutor(resources=needs) as executor, pytest.raises(KinemaError, match=words):
                list(executor.run(as_worker_factory(misbehave), ["a"]))


def test_each_worker_has_a_gpu_of_its_own() -> None:
    """On nodes that are said to have some: Ray shows each worker its own; a node without any is refused."""
    with nodes(1, num_cpus=4, num_gpus=2) as (cluster, _), RayExecutor(resources=WorkerResources(gpus=1.0)) as executor:
        cluster.add_node(num_cpus=1)
        outcomes = list(executor.run(as_worker_factory(seen_gpus), [0.5] * 4))
        assert executor.n_workers == 2
        assert sorted({str(o.result) for o in outcomes}) == ["0 1", "1 1"]  # which GPU, how many threads
        (sentence,) = executor.refused.values()
        assert "has no GPU that could be used" in sentence


# ------------------------------------------------------------------------------------------------------------- files


@pytest.fixture(scope="module")
def library(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """All example robots, several times, and a file that cannot be read."""
    folder = tmp_path_factory.mktemp("library")
    for i in range(6):
        shutil.copytree(EXAMPLES, folder / str(i))
    (folder / "broken.urdf").write_text("<robot")
    return folder


@pytest.fixture(scope="module")
def local(library: Path, tmp_path_factory: pytest.TempPathFactory) -> dict[str, bytes]:
    """What conversion without a cluster gives."""
    out = tmp_path_factory.mktemp("local")
    assert run("convert", library, out, "--to", "usda")[0] == 2
    return contents(out)


@pytest.mark.parametrize(("count", "kill"), [(2, False), (4, False), (2, True)])
def test_conversion_is_the_same(library: Path, local: dict[str, bytes], tmp_path: Path, count: int, kill: bool) -> None:
    """File by file, with two or four nodes, and when one is killed in the middle."""
    out = tmp_path / "out"
    with (
        nodes(count) as (cluster, added),
        meanwhile(
            lambda: kill and len(list(out.rglob("*.usda"))) >= len(local) // 3,
            lambda: cluster.remove_node(added[0], allow_graceful=False),
        ) as killed,
    ):
        code, printed, _ = run("convert", library, out, "--to", "usda", "--cluster")
    assert code == 2
    assert bool(killed) == kill
    assert "1 failed" in printed
    assert contents(out) == local


def test_a_driver_that_is_killed_does_not_begin_anew(library: Path, local: dict[str, bytes], tmp_path: Path) -> None:
    out = tmp_path / "out"
    with nodes(2) as (cluster, _):
        words = ["convert", str(library), str(out), "--to", "usda", "--cluster", cluster.address]
        records = out / ".kinema" / "ledger"
        killed_driver(words, lambda: len(list(records.glob("*.json"))) >= 5)
        done = len(list(records.glob("*.json")))
        _, _, said = run(*words[:5], "--cluster")
    assert done >= 5
    assert f"{done} of " in said
    assert contents(out) == local


# ---------------------------------------------------------------------------------------------------------- episodes


class Stand:
    """Legs are told to stay, with noise of each episode's own."""

    def begin(self, episodes: np.ndarray, seed: int) -> None:
        generators = km.cluster.episode_generators(seed, episodes, stream=1)
        self.offset = np.array([g.uniform(-0.2, 0.2, 12) for g in generators], np.float32)

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return STANCE + self.offset


def quadrupeds() -> Any:
    return km.cluster.make_env_spec(
        robot_file("quadruped/scene.xml"),
        scene={"dt": 0.005},
        keyframe="home",
        randomize={"mass": km.uniform(0.8, 1.2), "friction": km.uniform(0.6, 1.2), "kp": km.uniform(0.9, 1.1)},
        start_noise=(0.1, 0.1),
        steps=10,
        decimation=4,
    )


def test_episodes_are_the_same_bits(tmp_path: Path) -> None:
    """In one process, on two nodes, on four, and with one killed half-way; the driver's memory stays as it is."""
    pytest.importorskip("pyarrow")
    groups = -(-EPISODES // 250)
    found = {"one": km.cluster.rollouts(quadrupeds(), Stand(), EPISODES, out=tmp_path / "one", group_size=250)}
    for name, count in (("two", 2), ("four", 4), ("killed", 2)):
        out = tmp_path / name
        half = lambda out=out, name=name: name == "killed" and len(list(out.glob("part-*"))) >= groups // 2  # noqa: E731
        before = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
        with (
            nodes(count) as (cluster, added),
            meanwhile(half, lambda c=cluster, a=added: c.remove_node(a[0], allow_graceful=False)) as killed,
        ):
            found[name] = km.cluster.rollouts(quadrupeds(), Stand(), EPISODES, out=out, group_size=250, on="auto")
        assert bool(killed) == (name == "killed")
        assert resource.getrusage(resource.RUSAGE_SELF).ru_maxrss - before < 100_000  # [KiB]
    assert len({data.content_digest for data in found.values()}) == 1
    for data in found.values():
        episodes = np.concatenate([t.column("episode").to_numpy() for t in data.iter_tables()])
        counted = np.bincount(episodes)
        assert len(counted) == EPISODES
        assert (counted == 10).all()


def test_a_driver_of_episodes_that_is_killed_goes_on(tmp_path: Path) -> None:
    """From what is there; nothing is left of those who were writing, and nothing is played twice."""
    pytest.importorskip("pyarrow")
    here = km.cluster.rollouts(swinging(), Push(), 200, out=tmp_path / "here", group_size=8)
    out = tmp_path / "there"
    with nodes(2) as (cluster, _):
        program = (
            "import kinema as km; from kit.played import Push, swinging; "
            f"km.cluster.rollouts(swinging(), Push(), 200, out={str(out)!r}, group_size=8, on={cluster.address!r})"
        )
        killed_process([sys.executable, "-c", program], lambda: len(list(out.glob("records/*.json"))) >= 3)
        before = {p: p.stat().st_mtime_ns for p in out.glob("records/*.json")}
        assert 3 <= len(before) < 25
        there = km.cluster.rollouts(swinging(), Push(), 200, out=out, group_size=8, on="auto")
    assert {p: p.stat().st_mtime_ns for p in before} == before
    assert there.content_digest == here.content_digest
    assert not [p for p in out.iterdir() if p.name.startswith(".")]


def test_sweeps_are_the_same(tmp_path: Path) -> None:
    """And so is a small data set, with processes of this machine as well."""
    pytest.importorskip("pyarrow")
    space = {"controller.x": km.uniform(-10.0, 10.0)}
    here = km.cluster.sweep(parabola, space, method="sobol", samples=16)
    with nodes(2):
        there = km.cluster.sweep(parabola, space, method="sobol", samples=16, on="auto")
        a = km.cluster.rollouts(swinging(), Push(), 50, out=tmp_path / "a", group_size=8, on="auto")
    b = km.cluster.rollouts(swinging(), Push(), 50, out=tmp_path / "b", group_size=8, on=2)
    assert [r.values for r in there.rows] == [r.values for r in here.rows]
    assert a.content_digest == b.content_digest


def test_ray_tune_searches_with_the_same_objective(tmp_path: Path) -> None:
    tune = pytest.importorskip("ray.tune", reason="needs ray[tune]", exc_type=ImportError)
    with nodes(2):
        found = tune.Tuner(
            km.cluster.trainable(parabola),
            param_space={"controller.x": tune.grid_search([0.0, 3.0, 5.0])},
            tune_config=tune.TuneConfig(metric="objective", mode="min"),
            run_config=tune.RunConfig(storage_path=str(tmp_path), verbose=0),
        ).fit()
        assert found.get_best_result().config["controller.x"] == 3.0
