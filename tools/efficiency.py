"""What a cluster costs: episodes on one node beside the plain scene, files on two nodes beside one.

    python tools/scale.py --efficiency

Two cores that have nothing else to do are needed, and a quarter of an hour. It fails where playing on a node takes
more than 5 % longer than a loop that is written by hand (`overhead.py`), or two nodes are not 1.7 times as fast as one.
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

from overhead import MOST_OVERHEAD, measure_overhead

from kinema.apps.cli.batch import ExecutionOptions, find_robots
from kinema.apps.cli.convert import BatchOptions, convert_many
from kinema.apps.cluster import EnvSpec
from kinema.apps.learn import robot_file
from kit.assets import SHARED_ASSETS

LEAST_SPEED_UP = 1.7
N_FILES = 300
N_ROUNDS = 3
PACKAGE = "package.xml"
ROBOTS = ("arm/arm.urdf", "quadruped/quadruped.xml")
"""What fills up the shared robots, or stands for them where they are not: a tenth of a second each."""


def of_episodes(recipe: EnvSpec, policy: Any, group: int, groups: int) -> int:
    """Measure what playing costs, and say whether that is good enough: the exit status."""
    overhead = measure_overhead(recipe, policy, group, groups)
    print("good enough" if overhead <= MOST_OVERHEAD else f"not good enough: {MOST_OVERHEAD:.0%} are wanted")
    return 0 if overhead <= MOST_OVERHEAD else 1


def main(recipe: EnvSpec, policy: Any, group: int, groups: int) -> int:
    """Measure both, and say whether they are good enough: the exit status."""
    overhead = measure_overhead(recipe, policy, group, groups)
    speed_up = measure_speed_up()
    fine = overhead <= MOST_OVERHEAD and speed_up >= LEAST_SPEED_UP
    print("good enough" if fine else f"not good enough: {MOST_OVERHEAD:.0%} and {LEAST_SPEED_UP:g} are wanted")
    return 0 if fine else 1


# ------------------------------------------------------------------------------------------------------------- files


def measure_speed_up() -> float:
    """How much faster files are converted on two nodes than on one: the whole command, with the start of workers."""
    speed_ups = []
    with tempfile.TemporaryDirectory() as folder:
        library = Path(folder) / "in"
        fill(library)
        for number in range(N_ROUNDS):
            # two first: what is slower the first time, as files are not in memory yet, is not to their advantage
            outs = {count: Path(folder) / f"out {number} {count}" for count in (2, 1)}
            times = {count: convert(library, out, count) for count, out in outs.items()}
            first, second = ({p.relative_to(out) for p in out.rglob("*.usda")} for out in outs.values())
            assert first == second
            speed_ups.append(times[1] / times[2])
            told = f"{times[1]:.1f} s on one node, {times[2]:.1f} s on two: {speed_ups[-1]:.2f} times as fast"
            print(f"{N_FILES} files: {told}")
    speed_up = statistics.median(speed_ups)
    print(f"the median is {speed_up:.2f} (at least {LEAST_SPEED_UP:g})")
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
        convert_many(
            library, out, BatchOptions("usda", ExecutionOptions(cluster="auto"))
        )  # some of the shared ones have errors
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
