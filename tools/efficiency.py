"""What a cluster costs: episodes on one node beside the plain scene, files on two nodes beside one.

    python tools/scale.py --efficiency

Two cores that have nothing else to do are needed, and two to three minutes. It fails where playing on a node takes more
than 5 % longer than a loop that is written by hand, or two nodes are not 1.7 times as fast as one.
"""

from __future__ import annotations

import importlib
import io
import itertools
import shutil
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager, redirect_stdout
from pathlib import Path
from typing import Any

import numpy as np

import kinema as km
from kinema.apps.cli.convert_batch import Options, run
from kinema.apps.cli.find_robots import find_robots
from kinema.apps.cli.library import Doing
from kinema.apps.cluster import DataSet, OnRay, Recipe, Stage
from kinema.apps.learn import robot_file
from kit.assets import SHARED_ASSETS

MOST_OVERHEAD = 0.05
LEAST_SPEED_UP = 1.7
N_FILES = 300
PACKAGE = "package.xml"
ROBOTS = ("arm/arm.urdf", "quadruped/quadruped.xml")
"""What fills up the shared robots, or stands for them where they are not: a tenth of a second each."""


def main(recipe: Recipe, policy: Any, group: int, groups: int) -> int:
    """Measure both, and say whether they are good enough: the exit status."""
    overhead = measure_overhead(recipe, policy, group, groups)
    speed_up = measure_speed_up()
    fine = overhead <= MOST_OVERHEAD and speed_up >= LEAST_SPEED_UP
    print("good enough" if fine else f"not good enough: {MOST_OVERHEAD:.0%} and {LEAST_SPEED_UP:g} are wanted")
    return 0 if fine else 1


# ---------------------------------------------------------------------------------------------------------- episodes


def measure_overhead(recipe: Recipe, policy: Any, group: int, groups: int) -> float:
    """How much longer a group of episodes takes on a node, with all that becomes of it."""
    stage = Stage(recipe, group)
    play_by_hand(stage, policy, 0, group)  # compiles
    by_hand = statistics.median(play_by_hand(stage, policy, k * group, group) for k in range(groups))
    del stage
    with nodes(1), tempfile.TemporaryDirectory() as folder, OnRay() as executor:
        data = km.cluster.rollouts(recipe, policy, group * (groups + 2), out=folder, group=group, on=executor)
        there = statistics.median(seconds_apart(Path(folder), data))
    seconds = recipe.steps * recipe.decimation * recipe.scene["dt"]
    print(
        f"{group} episodes of {seconds:g} s: {by_hand:.3f} s by hand, {there:.3f} s on a node: "
        f"{there / by_hand - 1.0:+.1%} (at most {MOST_OVERHEAD:.0%})"
    )
    return there / by_hand - 1.0


def play_by_hand(stage: Stage, policy: Any, first: int, group: int) -> float:
    """The seconds of a loop as anybody would write it, which keeps what was seen and done."""
    recipe, scene, robot = stage.recipe, stage.scene, stage.robot
    draws: dict[str, Any] = dict(recipe.randomize)
    begin = time.perf_counter()
    scene.reset(keyframe=recipe.keyframe)
    scene.randomize(seed=first, **draws)
    generator = np.random.default_rng(first)
    robot.set_qvel(np.array(robot.get_qvel()) + generator.uniform(-0.1, 0.1, (group, robot.n_dofs)))
    kept = []
    for _ in range(recipe.steps):
        obs = np.hstack([robot.get_qpos(), robot.get_qvel()])
        action = policy(obs)
        robot.control(action)
        scene.step(recipe.decimation)
        kept.append((obs, action, np.array(scene.get_error_envs_mask())))
    return time.perf_counter() - begin


def seconds_apart(folder: Path, data: DataSet) -> Iterator[float]:
    """Between one group's record and the next, once workers are at work."""
    written = sorted(p.stat().st_mtime for p in (folder / "records").glob("*.json"))
    assert len(written) == len(data.parts)
    return (b - a for a, b in itertools.pairwise(written[1:]))


# ------------------------------------------------------------------------------------------------------------- files


def measure_speed_up() -> float:
    """How much faster files are converted on two nodes than on one: the whole command, with the start of workers."""
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "in"
        fill(library)
        times = {count: convert(library, Path(folder) / f"out{count}", count) for count in (1, 2)}
        first, second = ({p.relative_to(o) for p in o.rglob("*.usda")} for o in sorted(Path(folder).glob("out*")))
        assert first == second
    speed_up = times[1] / times[2]
    print(
        f"{N_FILES} files: {times[1]:.1f} s on one node, {times[2]:.1f} s on two: "
        f"{speed_up:.2f} times as fast (at least {LEAST_SPEED_UP:g})"
    )
    return speed_up


def fill(library: Path) -> None:
    """Put so many files there: all shared robots, several times, and some examples."""
    shared = list(find_robots(SHARED_ASSETS)) if SHARED_ASSETS.exists() else []
    copies = N_FILES // len(shared) if shared else 0
    for number in range(copies):
        shutil.copytree(SHARED_ASSETS, library / f"shared {number}")
    for number, name in zip(range(N_FILES - copies * len(shared)), itertools.cycle(ROBOTS), strict=False):
        file = robot_file(name)
        shutil.copytree(file.parent, library / f"{number:03d}", ignore=without_others(file))
    assert len(list(find_robots(library))) == N_FILES


def without_others(file: Path) -> Any:
    """What to leave out of a robot's folder."""
    return lambda _, names: [n for n in names if Path(n).suffix in (".urdf", ".xml") and n not in (file.name, PACKAGE)]


def convert(library: Path, out: Path, count: int) -> float:
    with nodes(count), redirect_stdout(io.StringIO()):  # of a long table
        begin = time.perf_counter()
        run(library, out, Options("usda", Doing(cluster="auto")))  # some of the shared ones have errors
        return time.perf_counter() - begin


@contextmanager
def nodes(count: int) -> Iterator[None]:
    """A cluster of so many nodes of one CPU each, beside a head that works on nothing."""
    ray, utilities = (importlib.import_module(name) for name in ("ray", "ray.cluster_utils"))
    cluster = utilities.Cluster(initialize_head=True, head_node_args={"num_cpus": 0, "include_dashboard": False})
    try:
        for _ in range(count):
            cluster.add_node(num_cpus=1)
        ray.init(address=cluster.address, log_to_driver=False, logging_level=40)
        yield
    finally:
        ray.shutdown()
        cluster.shutdown()


if __name__ == "__main__":
    sys.exit("python tools/scale.py --efficiency")
