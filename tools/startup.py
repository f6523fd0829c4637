"""Measure how long a process takes to its first step, and whether starting again and again leaves anything behind.

Run as a script, it measures itself and prints one JSON object; `compile_time.py` starts it in fresh processes:

    python tools/startup.py FILE STARTED [--mujoco] [--wait] [--rebuild] [--steps N] [--device cuda:0 --envs N]

`STARTED` is the time at which the process was started, in seconds since the epoch.
"""

from __future__ import annotations

import argparse
import hashlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from itertools import pairwise
from pathlib import Path
from typing import Any

MIB = 2**20
Figures = dict[str, Any]


# ------------------------------------------------------------------------------------------------- in a fresh process


def environment(cache: Path) -> dict[str, str]:
    """The variables of a fresh process: a cache of its own, bytecode files as usual, default settings."""
    dropped = {"PYTHONDONTWRITEBYTECODE", "KINEMA_TIER", "KINEMA_DUMP", "KINEMA_PERF"}
    dropped |= {"KINEMA_THREADS", "KINEMA_VECTOR_BITS"}
    own = {"KINEMA_CACHE": str(cache), "CUDA_CACHE_DISABLE": "1"}  # the driver caches what it assembled, too
    return {k: v for k, v in os.environ.items() if k not in dropped} | own


def started(file: Path, cache: Path, *flags: str) -> subprocess.Popen[str]:
    """A process that measures its own start."""
    command = [sys.executable, __file__, str(file), str(time.time()), *flags]
    return subprocess.Popen(command, env=environment(cache), stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True)


def figures_of(process: subprocess.Popen[str]) -> Figures:
    """What it found, when it is done."""
    out, err = process.communicate()
    if process.returncode:
        raise RuntimeError(f"{' '.join(map(str, process.args))} failed:\n{err}")  # type: ignore[arg-type]
    found: Figures = json.loads(out.splitlines()[-1])
    return found


def measured(file: Path, cache: Path, *flags: str) -> Figures:
    """The figures of one fresh process."""
    return figures_of(started(file, cache, *flags))


def median(runs: Sequence[Figures]) -> Figures:
    """The median of each figure over some runs, as far as they have it."""
    return {
        name: statistics.median(run[name] for run in runs if name in run)
        for name in dict.fromkeys(name for run in runs for name in run)
        if isinstance(next(run[name] for run in runs if name in run), int | float)
    }


@dataclass(frozen=True, slots=True)
class Starts:
    """The starts of one robot."""

    name: str
    cold: Figures
    cached: Figures
    mujoco: Figures | None
    """MuJoCo C on the same file; None where it is not MJCF."""


def starts(file: Path, repeats: int, name: str = "", device: str = "cpu", n_envs: int = 1) -> Starts:
    """Medians of repeated starts of one robot, cold (each with an empty cache) and cached."""
    on = ("--device", device, "--envs", str(n_envs))
    with tempfile.TemporaryDirectory() as folder:
        first = Path(folder) / "0"
        cold = [measured(file, first, "--wait", "--rebuild", *on)]
        cold += [measured(file, Path(folder) / str(i), *on) for i in range(1, repeats)]
        cached = [measured(file, first, *on) for _ in range(repeats + 1)][1:]  # the first one reads files from the disk
        is_mjcf = file.suffix == ".xml" and device == "cpu"
        other = [measured(file, first, "--mujoco") for _ in range(repeats + 1)][1:] if is_mjcf else []
    return Starts(name or file.stem, median(cold), median(cached), median(other) if other else None)


# ------------------------------------------------------------------------------------------------------ in this process


def resident() -> float:
    """Memory of this process now [MiB]."""
    return _status("VmRSS")


def peak() -> float:
    """The most that it has had [MiB]."""
    return _status("VmHWM")


def _status(word: str) -> float:
    lines = Path("/proc/self/status").read_text(encoding="ascii", errors="replace").splitlines()
    return next(int(line.split()[1]) / 1024 for line in lines if line.startswith(f"{word}:"))


def measure(
    file: Path, since: float, *, wait: bool, rebuild: bool, steps: int, device: str = "cpu", n_envs: int = 1
) -> Figures:
    """Seconds from the start of this process to the first step of a robot, with contacts and default settings."""
    from kinema import Scene

    times = [since, time.time()]
    scene = Scene(quiet=True, device=device)
    entity = scene.add(file)
    times.append(time.time())
    scene.build(n_envs=n_envs)
    times.append(time.time())
    scene.step()
    entity.get_qpos()  # waits for the GPU
    times.append(time.time())
    found: Figures = dict(zip(("import", "read", "build", "first step"), _differences(times), strict=True))
    engine = scene.built.engine
    found |= {"total": times[-1] - since, "dofs": entity.n_dofs, "tier": engine.tier, "rss": resident()}
    if wait:
        scene.prepare(wait=True)
        found["optimised"] = times[-2] - since + engine.tier_seconds["optimised"]
    if rebuild:
        found["rebuild"] = min(_rebuilt(file, device, n_envs) for _ in range(3))
    if steps > 1:
        scene.step(steps - 1)
    found["state"] = hashlib.sha256(entity.get_qpos().tobytes() + entity.get_dofs_velocity().tobytes()).hexdigest()
    found["peak"] = peak()
    return found


def _differences(times: Sequence[float]) -> Iterator[float]:
    for before, after in pairwise(times):
        yield after - before


def _rebuilt(file: Path, device: str, n_envs: int) -> float:
    from kinema import Scene

    began = time.perf_counter()
    scene = Scene(quiet=True, device=device)
    entity = scene.add(file)
    scene.build(n_envs=n_envs)
    scene.step()
    entity.get_qpos()
    return time.perf_counter() - began


def measure_mujoco(file: Path, since: float) -> Figures:
    """Likewise with MuJoCo C."""
    import mujoco

    times = [since, time.time()]
    model = mujoco.MjModel.from_xml_path(str(file))
    data = mujoco.MjData(model)
    times.append(time.time())
    mujoco.mj_step(model, data)
    times.append(time.time())
    found: Figures = dict(zip(("import", "build", "first step"), _differences(times), strict=True))
    return found | {"total": times[-1] - since, "rss": resident()}


# ---------------------------------------------------------------------------------------------------------------- soaks


def rebuild_often(
    files: Sequence[Path], rounds: int, show: Callable[[int, float, float], None] = lambda *_: None
) -> list[float]:
    """Build and step all scenes in turn, over and over, in this process; its memory after each round [MiB]."""
    from kinema import Scene

    found = []
    for number in range(rounds):
        began = time.perf_counter()
        for file in files:
            scene = Scene(quiet=True, wait=True)
            scene.add(file)
            scene.build()
            scene.step(10)
            del scene
        found.append(resident())
        show(number, found[-1], time.perf_counter() - began)
    return found


def together(file: Path, count: int, cache: Path) -> tuple[list[str], list[str], list[str]]:
    """Start so many processes at once on one empty cache.

    Gives the digests of the states that they end in, the files of the cache that one process alone does not make, and
    those that only this one makes.
    """
    processes = [started(file, cache / "shared", "--wait", "--steps", "50") for _ in range(count)]
    states = [figures_of(process)["state"] for process in processes]
    states.append(measured(file, cache / "alone", "--wait", "--steps", "50")["state"])
    shared, alone = (
        {f.relative_to(cache / name).as_posix() for f in (cache / name).rglob("*") if f.is_file()}
        for name in ("shared", "alone")
    )
    return states, sorted(shared - alone), sorted(alone - shared)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("file", type=Path)
    parser.add_argument("started", type=float)
    parser.add_argument("--mujoco", action="store_true")
    parser.add_argument("--wait", action="store_true", help="also for the optimised tier")
    parser.add_argument("--rebuild", action="store_true", help="also build the same scene again")
    parser.add_argument("--steps", type=int, default=1)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--envs", type=int, default=1)
    o = parser.parse_args()
    if o.mujoco:
        found = measure_mujoco(o.file, o.started)
    else:
        found = measure(
            o.file, o.started, wait=o.wait, rebuild=o.rebuild, steps=o.steps, device=o.device, n_envs=o.envs
        )
    print(json.dumps(found))
    return 0


if __name__ == "__main__":
    sys.exit(main())
