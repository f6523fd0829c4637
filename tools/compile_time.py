"""Measure how long it takes from the start of a process to the first step, and write docs/compile-time.md.

    python tools/compile_time.py [--repeats 3] [--no-page] [--only go2,panda] [--no-sizes]
    python tools/compile_time.py --gpu cuda:0
    python tools/compile_time.py --soak

`--gpu` measures starts on a GPU and writes them to tools/gpu_starts.json, from where they enter the page. Every figure
is taken in a fresh process with a cache of its own. Measure on an idle machine. With `--soak`, 200 scenes
are built in one process, whose memory may not grow, and eight processes start at once on one empty cache.
"""

from __future__ import annotations

import argparse
import json
import os
import platform
import resource
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

from startup import Starts, environment, rebuild_often, starts, together
from startup_models import world, write_robot

from kit.assets import EXAMPLES, SHARED_ASSETS

PAGE = Path(__file__).parents[1] / "docs" / "compile-time.md"
GPU_STARTS = Path(__file__).with_name("gpu_starts.json")
GPU_ENVS = 4096
MJCF = Path(os.environ.get("KINEMA_MJCF", SHARED_ASSETS / "mjcf"))
ROBOTS = {
    "arm": EXAMPLES / "arm" / "arm.urdf",
    "go2": MJCF / "unitree_go2" / "go2_scene.xml",
    "panda": MJCF / "franka_emika_panda" / "panda.xml",
    "humanoid": MJCF / "mujoco_humanoid" / "humanoid.xml",
    "G1": MJCF / "unitree_g1" / "g1_mjx.xml",
    "Cassie": MJCF / "agility_cassie" / "cassie.xml",
}
MESHES = "42 joints with meshes"
SIZES = (("chain", 10), ("chain", 30), ("chain", 200), ("tree", 31), ("tree", 255), ("arms", 4), ("arms", 100))
UNROLLED = 35
"""Degrees of freedom up to which sizes are measured unrolled as well."""
DOFS = {"chain": 1, "tree": 1, "arms": 7}
ROUNDS, SCENES, PROCESSES = 20, 10, 8
"""Of the soak."""
MOST_GROWTH = 10.0
"""Memory that may be added after the first round [MiB]."""
IDLE = 0.5
"""Load average of an idle machine."""
REPEATS = 8
SHORTEST = 0.1
"""Of measuring steps [s]."""


# ----------------------------------------------------------------------------------------------------------- soaking


def soak() -> int:
    """Whether nothing grows, and processes that start together do not disturb each other; the exit status."""
    faults = []
    with tempfile.TemporaryDirectory() as folder:
        os.environ["KINEMA_CACHE"] = str(Path(folder) / "cache")
        files = _scenes(Path(folder))
        memory = rebuild_often(files, ROUNDS, _show_round)
        growth = max(memory[1:]) - memory[0]
        print(f"{ROUNDS * len(files)} scenes in one process: {growth:+.1f} MiB after the first round")
        faults += [f"memory grew by {growth:.1f} MiB"] if growth > MOST_GROWTH else []
        states, more, less = together(files[0], PROCESSES, Path(folder) / "together")
        left = [name for name in more if name.endswith(".tmp")]
        same = "equal" if len(set(states)) == 1 else "different"
        print(f"{PROCESSES} processes on one empty cache: {same} results, {len(left)} temporary files left")
        faults += ["results differ between processes"] if len(set(states)) > 1 else []
        faults += [f"the cache of all has files that one alone has not: {', '.join(more)}"] if more else []
        faults += [f"the cache of all lacks files: {', '.join(less)}"] if less else []
    print("\n".join(faults) or "nothing is wrong")
    return 1 if faults else 0


def _scenes(folder: Path) -> list[Path]:
    """Ten different scenes."""
    files = [ROBOTS["arm"], EXAMPLES / "quadruped" / "scene.xml", EXAMPLES / "gripper" / "gripper.sdf"]
    files.append(EXAMPLES / "cartpole" / "cartpole.xml")
    made = [("heap", 3), ("heap", 5), ("chain", 6), ("chain", 40), ("tree", 9), ("bodies", 8)]
    for kind, n in made[: SCENES - len(files)]:
        files.append(folder / f"{kind}{n}.xml")
        files[-1].write_text(world(kind, n), encoding="utf-8")
    return files


def _show_round(number: int, memory: float, seconds: float) -> None:
    print(f"round {number + 1}: {memory:.1f} MiB, {seconds:.1f} s", flush=True)


# ------------------------------------------------------------------------------------------------------------- sizes


@dataclass(frozen=True)
class Figure:
    """One model, one emission."""

    model: str
    dofs: int
    emission: str
    instructions: int
    """That the compiler gets to see."""
    operations: int
    """Of one step."""
    tracing: float
    """Seconds to make the program and its LLVM IR."""
    baseline: float
    """Seconds to compile its baseline tier."""
    optimised: float
    """Seconds from when the step was asked for until the optimised tier was active."""
    processor: float
    """Seconds of the processor of this process until the baseline tier was active."""
    rate: float
    """Steps a second on one thread, all environments together."""


def measure(kind: str, n: int, emission: str, n_envs: int) -> Figure:
    """In this process: the cache has to be empty already."""
    from kinema.builder import EntitySpec, build_model
    from kinema.core import Diagnostics, collect, record_stages
    from kinema.dynamics import Engine, Settings
    from kinema.read import read
    from kinema.runtime import find_device, synchronise

    def engine_of(text: str, emission: str) -> Engine:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.xml"
            file.write_text(text, encoding="utf-8")
            model = build_model(
                [EntitySpec(name="it", description=read(file, policy=collect))], diagnostics=Diagnostics()
            )
        return Engine(model, Settings(), n_envs, find_device("cpu"), threads=1, codegen=emission)

    engine_of(world("chain", 1), "unrolled").compile_step(
        wait_for_optimised=True
    )  # what the first compilation of a process takes more
    engine = engine_of(world(kind, n), emission)
    before = _processor()
    with record_stages() as stages:
        engine.compile_step()
    processor = _processor() - before
    engine.compile_step(wait_for_optimised=True)
    kernel = engine._step_kernel()
    return Figure(
        model=f"{kind} {n}",
        dofs=engine.model.n_dofs,
        emission=emission,
        instructions=kernel.n_instructions,
        operations=kernel.n_operations,
        tracing=sum(stages.get(stage, 0.0) for stage in ("trace", "emit")),
        baseline=stages.get("compile baseline", 0.0) + stages.get("load", 0.0),
        optimised=engine.tier_seconds["optimised"],
        processor=processor,
        rate=_rate(engine, synchronise),
    )


def _rate(engine: Any, synchronise: Callable[[Any], None]) -> float:
    """The best of some launches that take long enough to be timed: other programs run beside this one."""
    steps, best = 1, 0.0
    for _ in range(REPEATS):
        seconds = 0.0
        while seconds < SHORTEST:
            start = time.perf_counter()
            engine.step(steps)
            synchronise(engine.device)
            seconds = time.perf_counter() - start
            steps = steps * 2 if seconds < SHORTEST else steps
        best = max(best, engine.n_envs * steps / seconds)
    return best


def _processor() -> float:
    used = resource.getrusage(resource.RUSAGE_SELF)
    return used.ru_utime + used.ru_stime


def measure_apart(kind: str, n: int, emission: str, n_envs: int) -> Figure:
    """The same in another process, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--one", kind, str(n), emission, "--envs", str(n_envs)]
        done = subprocess.run(command, env=environment(Path(cache)), capture_output=True, text=True, check=True)
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


# --------------------------------------------------------------------------------------------------------------- page


HEAD = """# Start-up and compile time

Kinema compiles a program for each scene: some seconds the first time, a fraction of a second from the cache on disk.
The figures on this page are measured and the page is written by `python tools/compile_time.py`.

## Cache

Everything that takes long to compute is stored under a digest of its inputs (arrays of the model, settings, sources of
Kinema, processor): compiled programs, machine code, derived quantities of models, processed meshes and images. A second
start with the same robot traces and compiles nothing. Entries have checksums; damaged ones are recomputed. Reading an
entry executes none of its content. Any number of processes can share a folder.

`kinema cache` shows the folder, its limit and entries; `kinema cache clear` deletes them, `kinema cache limit 2GB` sets
the limit (default 4 GB, least recently used entries are deleted first), `kinema cache path` prints the folder: that of
`KINEMA_CACHE`, or `kinema` in the user's cache folder (`~/.cache`, on macOS `~/Library/Caches`). It may be deleted at
any time. If it cannot be written, results are recomputed at every start; `kinema doctor` reports that.

## Compilation tiers

On a CPU code that is not in the cache is first compiled at the *baseline* tier: LLVM without optimisations, in about a
tenth of the time. Steps start with this code and switch to the *optimised* tier when a background process has compiled
it. Every floating-point operation is one instruction in both tiers, so results are bitwise equal. `Scene(wait=True)` or
`scene.prepare(wait=True)` waits for the optimised tier, as measurements should. `KINEMA_TIER=baseline` or
`KINEMA_TIER=optimised` selects one tier; the former also compiles kernels of images faster. On a GPU kernels of more
than 150 kB of PTX start at the baseline tier, long kernels of several threads per environment as several kernels.

## Inspecting generated code

`kinema simulate ROBOT --profile` shows the time of each stage of the start and, on a CPU, of each phase of a step.
`KINEMA_DUMP=folder` writes the arrays of each model (`.model.npz`, `.model.txt`), each program (`.ir`), its LLVM IR
(`.ll`) and its assembly or PTX (`.s`, `.ptx`); programs are recompiled for that. `KINEMA_PERF=1` lists compiled
functions in `/tmp/perf-PID.map` for Linux `perf`:

```sh
KINEMA_PERF=1 perf record -g kinema simulate go2.xml --steps 100000
perf report  # go2_step [optimised], go2_step_narrowphase [optimised], ...
```

On a GPU `nsys` and `ncu` show kernels by similar names: `go2_step_thread`, `go2_step_narrowphase`, `go2_step_warp`.
"""

STARTS = """
## Time to the first step

Seconds from the start of a Python process to the end of the first step of one environment on the CPU, with contacts and
default settings (single precision). *Cold*: empty cache. *Cached*: with the entries of an earlier start, divided into
*import* (Python and packages), *read* (file and `add`), *build* (`scene.build()`) and *first step*. *Optimised*: when
the optimised tier was active after a cold start. *Rebuild*: the same scene again in the same process. *Memory*:
resident set after the first step [MiB]. MuJoCo C: `import mujoco`, `MjModel.from_xml_path`, `mj_step` with the same
MJCF file. Medians of {repeats}, each in a process of its own, on {machine}{load}.

| robot | dofs | cached | import | read | build | first step | cold | optimised | rebuild | memory | MuJoCo C | memory |
|---|---|---|---|---|---|---|---|---|---|---|---|---|
"""

COLD = """
Cold starts by stage:

| robot | import | read | build | first step | total | peak memory |
|---|---|---|---|---|---|---|
"""

GPU = """
## Time to the first step on a GPU

The same with {n_envs:,} environments on an {gpu} (host: {host}), without the driver's cache of assembled modules. The
CUDA context is created while files are read. Medians of {repeats}.

| robot | cached | import | read | build | first step | cold | optimised | rebuild |
|---|---|---|---|---|---|---|---|---|
"""

SIZED = """
## Compile time and model size

Without contacts, {n_envs} environments on one thread, each row in a process of its own with an empty cache, after the
first compilation of the process. *Chain*: hinges in series. *Tree*: each hinge carries two others. *Arms*: independent
arms of seven hinges. *Unrolled*: straight-line code for this model. *Loops*: loops over tables, whose code does not
grow with the model; `Scene(codegen="auto")` uses them beyond {budget:,} operations, with straight-line code for
repeated parts that are small enough. *Optimised*: seconds from the request of the step. *Steps/s*: environment
steps per second.

| model | dofs | code | instructions | operations | trace and emit [s] | baseline [s] | optimised [s] | steps/s |
|---|---|---|---|---|---|---|---|---|
"""


def page(found: Sequence[Starts], figures: Sequence[Figure], repeats: int, n_envs: int, load: float) -> str:
    """The whole page."""
    from kinema.dynamics.lowering.components import MAX_UNROLLED_OPERATIONS

    busy = "" if load < IDLE else f", not idle (load average {load:.1f})"
    text = HEAD + STARTS.format(repeats=repeats, machine=_machine(), load=busy)
    text += "".join(map(_start_row, found)) + COLD + "".join(map(_cold_row, found))
    if GPU_STARTS.exists():
        gpu = json.loads(GPU_STARTS.read_text(encoding="utf-8"))
        text += GPU.format(**gpu) + "".join(gpu["rows"])
    if figures:
        text += SIZED.format(n_envs=n_envs, budget=MAX_UNROLLED_OPERATIONS) + "".join(map(_size_row, figures))
    return text


def _machine() -> str:
    from llvmlite.binding import get_host_cpu_name

    from kinema.apps.cli.doctor import system_info

    facts = system_info()
    return f"{facts['cores']} cores of {get_host_cpu_name()} ({platform.machine()}), Python {facts['python']}"


def _start_row(one: Starts) -> str:
    cached, cold, other = one.cached, one.cold, one.mujoco
    stages = [f"{cached[name]:.2f}" for name in ("import", "read", "build", "first step")]
    more = [f"{cold['total']:.2f}", f"{cold['optimised']:.1f}", f"{cold['rebuild']:.2f}", f"{cached['rss']:.0f}"]
    peer = ["", ""] if other is None else [f"{other['total']:.2f}", f"{other['rss']:.0f}"]
    row = [one.name, f"{cached['dofs']:.0f}", f"**{cached['total']:.2f}**", *stages, *more, *peer]
    return f"| {' | '.join(row)} |\n"


def _gpu_row(one: Starts) -> str:
    cached, cold = one.cached, one.cold
    stages = [f"{cached[name]:.2f}" for name in ("import", "read", "build", "first step")]
    row = [one.name, f"**{cached['total']:.2f}**", *stages]
    row += [f"{cold['total']:.2f}", f"{cold['optimised']:.1f}", f"{cold['rebuild']:.2f}"]
    return f"| {' | '.join(row)} |\n"


def write_gpu_starts(device: str, only: Sequence[str], repeats: int, folder: Path) -> None:
    """Measure the starts of all robots on a GPU and write the rows of their table."""
    from kinema.runtime import list_devices

    name = next(d.description for d in list_devices() if d.name == device)
    found = all_starts(only, repeats, folder, device, GPU_ENVS, _gpu_row)
    table = {"gpu": name, "host": _machine(), "n_envs": GPU_ENVS, "repeats": repeats, "rows": [*map(_gpu_row, found)]}
    if not only:
        GPU_STARTS.write_text(json.dumps(table, indent=1) + "\n", encoding="utf-8")


def _cold_row(one: Starts) -> str:
    stages = [f"{one.cold[name]:.2f}" for name in ("import", "read", "build", "first step", "total")]
    row = [one.name, *stages, f"{one.cold['peak']:.0f}"]
    return f"| {' | '.join(row)} |\n"


def _size_row(f: Figure) -> str:
    return (
        f"| {f.model} | {f.dofs} | {f.emission} | {f.instructions:,} | {f.operations:,} | {f.tracing:.2f} "
        f"| {f.baseline:.2f} | {f.optimised:.2f} | {f.rate:,.0f} |\n"
    )


def all_starts(
    only: Sequence[str],
    repeats: int,
    folder: Path,
    device: str = "cpu",
    n_envs: int = 1,
    row: Callable[[Starts], str] = _start_row,
) -> list[Starts]:
    """Starts of all robots whose files exist, printed as rows while they are measured."""
    robots = {name: file for name, file in ROBOTS.items() if file.exists()}
    robots[MESHES] = write_robot(folder / "robot")
    found = []
    for name, file in robots.items():
        if not only or name in only:
            found.append(starts(file, repeats, name, device, n_envs))
            print(row(found[-1]), end="", flush=True)
    return found


def all_sizes(n_envs: int) -> list[Figure]:
    """Models of all sizes."""
    found = []
    for kind, n in SIZES:
        for emission in ("unrolled", "loops") if n * DOFS[kind] <= UNROLLED else ("loops",):
            found.append(measure_apart(kind, n, emission, n_envs))
            print(_size_row(found[-1]), end="", flush=True)
    return found


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=3, help="starts of which the median is taken")
    parser.add_argument("--envs", type=int, default=64, help="environments of models of all sizes")
    parser.add_argument("--only", default="", help="names of robots, separated by commas; no page is written")
    parser.add_argument("--no-sizes", action="store_true", help="without models of all sizes")
    parser.add_argument("--no-page", action="store_true", help="print only")
    parser.add_argument("--soak", action="store_true", help="build scenes over and over instead")
    parser.add_argument("--gpu", metavar="DEVICE", help="measure starts on this GPU instead, such as cuda:0")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "N", "EMISSION"), help="one figure, in this process")
    o = parser.parse_args()
    if o.one:
        kind, n, emission = o.one
        print(json.dumps(asdict(measure(kind, int(n), emission, o.envs))))
        return 0
    if o.soak:
        return soak()
    load = os.getloadavg()[0]
    only = [name for name in o.only.split(",") if name]
    with tempfile.TemporaryDirectory() as folder:
        if o.gpu:
            write_gpu_starts(o.gpu, only, o.repeats, Path(folder))
            return 0
        found = all_starts(only, o.repeats, Path(folder))
    figures = [] if o.no_sizes or only else all_sizes(o.envs)
    if not o.no_page and not only:
        PAGE.write_text(page(found, figures, o.repeats, o.envs, load), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
