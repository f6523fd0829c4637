"""Measure what docs/scale.md is made of: bytes of a state, seconds of a start, bytes of a step, round trips of tasks.

    python tools/scale.py [--group 256] [--groups 8] [--seconds 1] [--cluster | --efficiency | --overhead]

Measure on an otherwise idle machine. With `--cluster` a Ray cluster of one node is started, for its round trip and what
playing on it costs over playing here. With `--efficiency` nothing else is measured than what nodes cost, and it fails
where that is too much: see `efficiency.py`, and `overhead.py` for episodes alone.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from typing import Any

import efficiency
import numpy as np

import kinema as km
from kinema.apps.cluster import (
    EpisodeRunner,
    Executor,
    InProcessExecutor,
    LocalProcessExecutor,
    RayExecutor,
    as_worker_factory,
)
from kinema.apps.cluster.dataset import episode_columns, to_parquet
from kinema.apps.learn import robot_file

STANCE = np.array([0.0, 0.8, -1.6] * 4, np.float32)


class Stand:
    """Legs are told to stay."""

    def __call__(self, obs: np.ndarray) -> np.ndarray:
        return np.broadcast_to(STANCE, (len(obs), 12))


def recipe(seconds: float = 1.0) -> Any:
    """Quadrupeds that differ, for a second each."""
    return km.cluster.make_env_spec(
        robot_file("quadruped/scene.xml"),
        scene={"dt": 0.005},
        keyframe="home",
        randomize={"mass": km.uniform(0.8, 1.2), "friction": km.uniform(0.6, 1.2), "kp": km.uniform(0.9, 1.1)},
        start_noise=(0.1, 0.1),
        steps=round(seconds / 0.02),
        decimation=4,
    )


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--group", type=int, default=256)
    parser.add_argument("--groups", type=int, default=8)
    parser.add_argument("--cluster", action="store_true")
    parser.add_argument("--efficiency", action="store_true")
    parser.add_argument("--overhead", action="store_true")
    parser.add_argument("--seconds", type=float, default=1.0, help="of an episode")
    options = parser.parse_args()
    if options.efficiency or options.overhead:
        measure = efficiency.main if options.efficiency else efficiency.of_episodes
        sys.exit(measure(recipe(options.seconds), Stand(), options.group, options.groups))
    stage = measure_stage(options.group)
    executors: list[Executor] = [InProcessExecutor(), LocalProcessExecutor(1)]
    if options.cluster:
        executors.append(RayExecutor("local"))
    for executor in executors:
        with executor:
            measure_round_trip(executor)
            if not isinstance(executor, LocalProcessExecutor):
                measure_overhead(executor, options.group, options.groups)
    del stage


def measure_stage(group: int) -> EpisodeRunner:
    began = time.perf_counter()
    stage = EpisodeRunner(recipe(), group)
    built = time.perf_counter()
    stage.run_episodes(np.arange(1), Stand(), max_steps=1)
    first = time.perf_counter()
    played = stage.run_episodes(np.arange(group), Stand())
    seconds = time.perf_counter() - first
    steps = group * stage.env_spec.steps * stage.env_spec.decimation
    state = stage.scene.get_state()
    size = sum(a.nbytes for a in state.arrays.values()) / group
    rows = episode_columns(played, "steps")
    content = to_parquet(rows)
    print(f"build {built - began:.2f} s, first step {first - built:.2f} s")
    print(f"a group of {group}: {seconds:.2f} s, {steps / seconds:,.0f} steps/s")
    print(f"state {size:,.0f} bytes an environment")
    print(f"Parquet {len(content) / len(rows['episode']):.0f} bytes a row of {rows['obs'].shape[1]} + 12 numbers")
    return stage


def measure_round_trip(executor: Executor) -> None:
    times: list[float] = []
    running = executor.run(as_worker_factory(str), range(200))
    next(running)
    last = time.perf_counter()
    for _ in running:
        now = time.perf_counter()
        times.append(now - last)
        last = now
    workers = executor.n_workers
    print(f"{executor.name}: a task in {statistics.median(times) * 1e3:.2f} ms, {workers} workers")


def measure_overhead(executor: Executor, group: int, groups: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        began = time.perf_counter()
        data = km.cluster.rollouts(recipe(), Stand(), group * groups, out=folder, group_size=group, on=executor)
        wall = time.perf_counter() - began
    later = [part["seconds"] for part in data.parts[1:]]
    print(f"{executor.name}: {groups} groups in {wall:.2f} s with the start; {statistics.median(later):.3f} s a group")


if __name__ == "__main__":
    main()
