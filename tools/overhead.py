"""What playing episodes on a node costs, beside a loop over the plain scene that plays the very same episodes.

    python tools/scale.py --overhead

Both have all cores of this machine: the loop by the threads of its scene, the node by one worker with as many
threads, which is what is judged, and, to compare, by a worker per core, as it is by default. What counts is a group of
episodes while workers are at work, without their start. Rounds alternate, so that whatever else the machine does meets
both; seconds of processor time are told beside those of the clock, of all processes together: of the driver, the
workers and Ray's own.
"""

from __future__ import annotations

import importlib
import os
import statistics
import tempfile
import threading
import time
import zlib
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km
from kinema.apps.cluster import EnvSpec, EpisodeDataset, EpisodeRunner, RayExecutor, WorkerResources
from kinema.apps.cluster.episode_runner import EpisodeDistribution, episode_uniforms
from kinema.runtime import n_threads

MOST_OVERHEAD = 0.05
NAMES = ("obs", "action", "broken")


@dataclass(frozen=True, slots=True)
class Cost:
    """Of a group [s]."""

    clock: float
    processor: float


def measure_overhead(recipe: EnvSpec, policy: Any, group: int, groups: int, rounds: int = 3) -> float:
    """How much longer a group takes on a node with one worker, with all that becomes of it; the median of rounds."""
    stage = EpisodeRunner(recipe, group)
    first = by_hand(stage, policy, range(1), None)[1]  # compiles
    costs: dict[str, list[Cost]] = {}
    with tempfile.TemporaryDirectory() as folder:
        for number in range(rounds):
            place = Path(folder) / str(number)
            place.mkdir()
            for name, saved in (("by hand", None), ("by hand, np.save", place)):
                costs.setdefault(name, []).append(by_hand(stage, policy, range(groups), saved)[0])
            for name, cpus in (("one worker", n_threads()), ("a worker per core", 1)):
                for kind in ("parquet", "arrow"):
                    out = place / f"{cpus} {kind}"
                    cost, data = on_a_node(recipe, policy, group, groups, WorkerResources(cpus=float(cpus)), out, kind)
                    costs.setdefault(f"{name}, {kind}", []).append(cost)
                    refuse_other_episodes(first, data, group)
    return told(recipe, group, costs)


def told(recipe: EnvSpec, group: int, costs: dict[str, list[Cost]]) -> float:
    """All of it in a table; what is beside the mark."""
    seconds = recipe.steps * recipe.decimation * recipe.scene["dt"]
    print(f"{group} episodes of {seconds:g} s, {n_threads()} threads; overhead over a loop by hand that writes nothing")
    plain = costs["by hand"]
    over: dict[str, float] = {}
    for name, found in costs.items():
        clock, processor = (statistics.median(getattr(c, k) for c in found) for k in ("clock", "processor"))
        parts = {}
        for kind in ("clock", "processor"):
            beside = [getattr(a, kind) / getattr(b, kind) - 1.0 for a, b in zip(found, plain, strict=True)]
            parts[kind] = statistics.median(beside)
        over[name] = parts["clock"]
        print(
            f"{name:28s} {clock:.3f} s {parts['clock']:+6.1%}   processor {processor:.3f} s {parts['processor']:+6.1%}"
        )
    return over["one worker, parquet"]


# ----------------------------------------------------------------------------------------------------------- by hand


def by_hand(stage: EpisodeRunner, policy: Any, groups: range, saved: Path | None) -> tuple[Cost, dict[str, np.ndarray]]:
    """A loop as anybody would write it, over a scene and nothing else; what the last group gave."""
    clock, processor = time.perf_counter(), time.process_time()
    kept: dict[str, np.ndarray] = {}
    for number in groups:
        kept = play(stage, policy, np.arange(number * stage.group_size, (number + 1) * stage.group_size))
        for name in NAMES if saved else ():
            np.save(f"{saved}/{number}-{name}.npy", kept[name])
    count = len(groups)
    return Cost((time.perf_counter() - clock) / count, (time.process_time() - processor) / count), kept


def play(stage: EpisodeRunner, policy: Any, episodes: np.ndarray) -> dict[str, np.ndarray]:
    """The same episodes as on a node, with the same robots, starts and commands."""
    recipe, scene, robot = stage.env_spec, stage.scene, stage.robot
    scene.reset(keyframe=recipe.keyframe)
    draws: dict[str, Any] = {
        n: EpisodeDistribution(d.kind, d.a, d.b, d.operation, d.sample_per, episodes)
        for n, d in recipe.randomize.items()
    }
    scene.randomize(seed=recipe.seed, **draws)
    n_joints = robot.n_dofs - 6  # of a robot on legs, whose base is free
    drawn = 2.0 * episode_uniforms(recipe.seed, episodes, zlib.crc32(b"start"), n_joints + robot.n_dofs) - 1.0
    qpos = np.array(robot.get_qpos(), np.float64)
    qpos[:, -n_joints:] += recipe.start_noise[0] * drawn[:, :n_joints]
    robot.set_qpos(qpos)
    robot.set_qvel(np.array(robot.get_qvel(), np.float64) + recipe.start_noise[1] * drawn[:, n_joints:])
    kept: dict[str, list[np.ndarray]] = {name: [] for name in NAMES}
    for _ in range(recipe.steps):
        obs = np.hstack([robot.get_qpos(), robot.get_qvel()])
        action = policy(obs)
        robot.control(action)
        scene.step(recipe.decimation)
        for name, row in zip(NAMES, (obs, action, np.array(scene.get_error_envs_mask())), strict=True):
            kept[name].append(row)
    return {name: np.stack(rows, axis=1) for name, rows in kept.items()}


def refuse_other_episodes(kept: dict[str, np.ndarray], data: EpisodeDataset, group: int) -> None:
    """Nothing is compared with anything else."""
    table = next(iter(data.iter_tables()))
    for name in ("obs", "action"):
        there = table.column(name).combine_chunks().flatten().to_numpy().reshape(group, -1, kept[name].shape[-1])
        assert np.array_equal(there, kept[name]), f"{name}: other episodes were played"


# --------------------------------------------------------------------------------------------------------- on a node


def on_a_node(
    recipe: EnvSpec, policy: Any, group: int, groups: int, needs: WorkerResources, out: Path, kind: str
) -> tuple[Cost, EpisodeDataset]:
    """What a group costs there, from when all workers have had some until the last but one of them is done."""
    with one_node(), RayExecutor(resources=needs) as executor:
        begin, end = 2 * executor.n_workers, 2 * executor.n_workers + groups
        total = end + executor.n_workers
        with watching(out / "records", (begin, end)) as marks:
            data = km.cluster.rollouts(
                recipe,
                policy,
                group * total,
                out=out,
                group_size=group,
                on=executor,
                format=kind,
                resources=needs,
                quiet=True,
            )
    written = sorted(p.stat().st_mtime for p in (out / "records").glob("*.json"))
    clock = (written[end - 1] - written[begin - 1]) / groups
    (count, processor), (last_count, last) = marks
    return Cost(clock, (last - processor) / (last_count - count)), data


@contextmanager
def one_node() -> Iterator[None]:
    """Ray on this machine, with all its cores."""
    ray: Any = importlib.import_module("ray")
    ray.init("local", num_cpus=n_threads(), include_dashboard=False, log_to_driver=False, logging_level=40)
    try:
        yield
    finally:
        ray.shutdown()


@contextmanager
def watching(folder: Path, counts: tuple[int, ...]) -> Iterator[list[tuple[int, float]]]:
    """How many files there were, and the processor time of all processes, when there were so many first."""
    marks: list[tuple[int, float]] = []
    over = threading.Event()
    thread = threading.Thread(target=_watch, args=(folder, counts, marks, over.wait))
    thread.start()
    try:
        yield marks
    finally:
        over.set()
        thread.join()


def _watch(
    folder: Path, counts: tuple[int, ...], marks: list[tuple[int, float]], over: Callable[[float], bool]
) -> None:
    for wanted in counts:
        while (count := n_records(folder)) < wanted and not over(0.1):
            continue
        marks.append((count, processor_time()))


def n_records(folder: Path) -> int:
    """How many there are; whoever watches should not be seen in what is measured."""
    try:
        with os.scandir(folder) as there:
            return sum(entry.name.endswith(".json") for entry in there)
    except FileNotFoundError:
        return 0


def processor_time() -> float:
    """Of this process and all that come from it, so far [s]."""
    parents: dict[int, int] = {}
    used: dict[int, int] = {}
    for file in Path("/proc").glob("[0-9]*/stat"):
        try:
            words = file.read_text().rpartition(")")[2].split()
        except OSError:  # it has ended
            continue
        number = int(file.parent.name)
        parents[number], used[number] = int(words[1]), int(words[11]) + int(words[12])
    return sum(t for n, t in used.items() if _is_ours(n, parents)) / os.sysconf("SC_CLK_TCK")


def _is_ours(number: int, parents: dict[int, int]) -> bool:
    while number not in (0, os.getpid()):
        number = parents.get(number, 0)
    return number != 0
