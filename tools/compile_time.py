"""Measure how long a step takes to compile, and write the figures to docs/compile-time.md.

    python tools/compile_time.py [--device cpu] [--largest-unrolled 35] [--no-table]

Chains and trees of hinges, arms of seven joints side by side, and bodies that fly alone; rolled and, up to some size,
unrolled. Every figure is taken in a process of its own with an empty cache.
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
from collections.abc import Callable
from contextlib import AbstractContextManager, nullcontext
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parent.parent
TABLE = ROOT / "docs" / "compile-time.md"
EXAMPLES = [
    ROOT / "examples" / "robots" / x for x in ("arm/arm.urdf", "quadruped/quadruped.xml", "gripper/gripper.sdf")
]
CHAINS = (7, 10, 20, 30, 50, 100, 200, 400)
TREES = (15, 31, 63, 127, 255)
ARMS = (1, 2, 4, 30, 100)
BODIES = (2, 10, 100)
REPEATS = 8
SHORTEST = 0.1
"""Seconds."""
AXES = ("0 1 0", "1 0 0", "0 0 1")
JOINT = "damping='0.01' armature='0.002'"
INERTIA = "<inertial pos='0.01 0.01 -0.05' mass='0.1' diaginertia='0.001 0.001 0.0005'/>"


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
    """Seconds to make the program."""
    compiling: float
    """Seconds in the compiler."""
    processor: float
    """Seconds of the processor for both."""
    rate: float
    """Steps a second on one thread, all environments together."""


def hinge(name: str, axis: str, inside: str, z: float = -0.1, x: float = 0.0) -> str:
    """A link on a hinge, with others inside."""
    return f"<body name='{name}' pos='{x} 0 {z}'><joint name='j{name}' axis='{axis}' {JOINT}/>{INERTIA}{inside}</body>"


def chain(n: int, prefix: str = "") -> str:
    """Hinges one after the other, their axes in turn."""
    text = ""
    for i in reversed(range(n)):
        text = hinge(f"{prefix}{i}", AXES[i % 3], text)
    return text


def tree(n: int, at: int = 0) -> str:
    """Hinges that each carry two others."""
    if at >= n:
        return ""
    inside = tree(n, 2 * at + 1) + tree(n, 2 * at + 2)
    return hinge(str(at), AXES[at % 3], inside, x=0.1 * (-1) ** at)


def bodies(n: int) -> str:
    """Bodies of different mass that fly alone."""
    return "".join(
        f"<body name='b{i}' pos='{i} 0 1'><freejoint/><inertial pos='0 0.01 0' mass='{1 + i % 7}' "
        f"diaginertia='{0.01 + 0.0001 * (i % 50)} 0.012 0.015'/></body>"
        for i in range(n)
    )


def humanoid() -> str:
    """A robot with legs of six joints, arms of seven, and hands of five fingers with four joints each: 72 dofs."""

    def fingers(side: str) -> str:
        return "".join(chain(4, f"{side}f{i}_") for i in range(5))

    def limb(side: str, n: int, tip: str = "") -> str:
        text = tip
        for i in reversed(range(n)):
            text = hinge(f"{side}{i}", AXES[i % 3], text)
        return text

    inside = limb("ll", 6) + limb("lr", 6) + limb("al", 7, fingers("al")) + limb("ar", 7, fingers("ar"))
    return (
        "<mujoco><worldbody><body name='trunk' pos='0 0 1'><freejoint/>"
        f"<inertial pos='0 0 0' mass='20' diaginertia='1 1 0.5'/>{inside}</body></worldbody></mujoco>"
    )


def cold_starts(robots: list[Path], device: str) -> str:
    """From the start of a process to its first step, with an empty cache and with a full one."""
    from kinema.apps.bench.case import load_ours
    from kinema.apps.bench.first_step import first_step

    text = COLD
    with tempfile.TemporaryDirectory() as folder:
        made = Path(folder) / "humanoid with hands.xml"
        made.write_text(humanoid(), encoding="utf-8")
        for robot in [*robots, made]:
            _, model, _ = load_ours(robot)
            seconds = [first_step(robot, device, 64, free=free) for free in (True, False)]
            cold, warm = ([f"{s[name]:.1f}" for s in seconds] for name in ("cold_s", "warm_s"))
            text += f"| {robot.stem} | {model.n_dofs} | {' | '.join((*cold, *warm))} |\n"
            print(text.splitlines()[-1], flush=True)
    return text


COLD = """
From the start of a process to its first step, reading and imports included, 64 environments [s]; *held* is with
limits, friction and what else constrains:

| robot | dofs | free, nothing cached | held, nothing cached | free, cached | held, cached |
|---|---|---|---|---|---|
"""


def world(kind: str, n: int) -> str:
    """The MJCF text of one of the models."""
    inside = {
        "chain": lambda: chain(n),
        "tree": lambda: tree(n),
        "arms": lambda: "".join(chain(7, f"{i}_") for i in range(n)),
        "bodies": lambda: bodies(n),
    }[kind]()
    return f"<mujoco><option timestep='0.002'/><worldbody>{inside}</worldbody></mujoco>"


def measure(kind: str, n: int, emission: str, device: str, n_envs: int) -> Figure:
    """In this process: the cache has to be empty already."""
    from kinema.backend import find_device, synchronise
    from kinema.compile import Part, compile_model
    from kinema.foundation import Diagnostics, collect
    from kinema.read import read
    from kinema.sim import Engine, Settings

    def engine_of(text: str, emission: str) -> Engine:
        with tempfile.TemporaryDirectory() as folder:
            file = Path(folder) / "model.xml"
            file.write_text(text, encoding="utf-8")
            model = compile_model([Part(name="it", description=read(file, policy=collect))], diagnostics=Diagnostics())
        return Engine(model, Settings(), n_envs, find_device(device), threads=1, emission=emission)

    engine_of(world("chain", 1), "unrolled").prepare()  # what the first compilation of a process takes in addition
    engine = engine_of(world(kind, n), emission)
    messages: list[tuple[float, str]] = []

    def note(message: str) -> AbstractContextManager[None]:
        messages.append((time.perf_counter(), message))
        return nullcontext()

    engine.progress = note
    before = _processor()
    engine.prepare()
    end = time.perf_counter()
    processor = _processor() - before
    rate = _rate(engine, synchronise)
    kernel = engine._kernel()
    instructions = int(messages[-1][1].split()[1].replace(",", ""))
    return Figure(
        model=f"{kind} {n}",
        dofs=engine.model.n_dofs,
        emission=emission,
        instructions=instructions,
        operations=kernel.n_operations,
        tracing=messages[-1][0] - messages[0][0],
        compiling=end - messages[-1][0],
        processor=processor,
        rate=rate,
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


def measure_apart(kind: str, n: int, emission: str, device: str, n_envs: int) -> Figure:
    """The same in another process, with an empty cache."""
    with tempfile.TemporaryDirectory() as cache:
        command = [sys.executable, __file__, "--one", kind, str(n), emission, "--device", device]
        done = subprocess.run(
            [*command, "--envs", str(n_envs)],
            env={**os.environ, "KINEMA_CACHE": cache},
            capture_output=True,
            text=True,
            check=True,
        )
    return Figure(**json.loads(done.stdout.splitlines()[-1]))


HEAD = """# How long a step takes to compile

Measured by `python tools/compile_time.py` (generated, not edited) on {machine}, single precision, {n_envs} environments
on one thread, each line in a process of its own with an empty cache, after the first compilation of the process
(which takes some seconds more, whatever it compiles). Seconds on the clock include waiting for other programs that ran
then (load average {load:.1f}); those of the processor do not. A second start finds the program in the cache, and a
rolled program is found there by every model with the same kinds of joints.

*Chain*: hinges one after the other. *Tree*: hinges that carry two others each. *Arms*: seven hinges each, side by side.
*Bodies*: each flies alone and has its own mass. *Rolled* is what models beyond {budget:,} operations get by themselves
(`Engine(emission="auto")`), and chains whose straight line takes more operations (from about 27 hinges on): copies of
a part are stepped by the straight line of one of them in a loop, parts that are too long for that joint by joint.
Their programs do not grow with the model. On a CPU copies are stepped in a loop in any case, as that costs nothing.

| model | dofs | emission | instructions | operations a step | tracing [s] | compiling [s] | processor [s] | steps/s |
|---|---|---|---|---|---|---|---|---|
"""


TAIL = """
On one NVIDIA H200 (single precision, position control, ten steps to a launch; taken by hand with models like these, and
not by this tool):

| model | dofs | emission | build [s] | environments | million steps/s |
|---|---|---|---|---|---|
| chain of 200 | 200 | rolled, by joint | 0.45 | 4,096 / 16,384 / 65,536 | 5.0 / 15.7 / 30.4 |
| chain of 30 | 30 | rolled, by joint | 0.02 (has the code of the chain of 200) | 4,096 / 65,536 | 55 / 204 |
| chain of 30 | 30 | unrolled | 74 | 65,536 | 151 |
| 100 bodies | 600 | rolled, by copy | 0.2 | 4,096 / 65,536 | 52 / 241 |
| 20 quadrupeds | 360 | rolled, by copy | 0.8 | 4,096 / 65,536 | 41 / 243 |
| quadruped | 18 | rolled, by joint | 1.2 | 4,096 / 65,536 | 116 / 351 |
| quadruped | 18 | unrolled | 1.3 | 4,096 / 65,536 | 479 / 3,584 |
"""


def table(figures: list[Figure], n_envs: int, starts: str) -> str:
    """The page."""
    from kinema.sim.lower.components import LARGEST_UNROLLED

    machine = f"one of {os.cpu_count()} cores of {platform.machine()}"
    text = HEAD.format(machine=machine, n_envs=n_envs, load=os.getloadavg()[0], budget=LARGEST_UNROLLED)
    for f in figures:
        text += (
            f"| {f.model} | {f.dofs} | {f.emission} | {f.instructions:,} | {f.operations:,} | {f.tracing:.2f} "
            f"| {f.compiling:.2f} | {f.processor:.2f} | {f.rate:,.0f} |\n"
        )
    return text + starts + TAIL


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cpu")
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--largest-unrolled", type=int, default=35, help="degrees of freedom")
    parser.add_argument("--no-table", action="store_true", help="print only")
    parser.add_argument("--robots", nargs="*", type=Path, default=EXAMPLES, help="whose cold start is measured")
    parser.add_argument("--only-starts", action="store_true", help="print cold starts alone")
    parser.add_argument("--one", nargs=3, metavar=("KIND", "N", "EMISSION"), help="one figure, in this process")
    options = parser.parse_args()
    if options.one:
        kind, n, emission = options.one
        print(json.dumps(asdict(measure(kind, int(n), emission, options.device, options.envs))))
        return 0
    if options.only_starts:
        cold_starts(options.robots, options.device)
        return 0
    figures: list[Figure] = []
    dofs_each = {"chain": 1, "tree": 1, "arms": 7, "bodies": 6}
    for kind, sizes in (("chain", CHAINS), ("tree", TREES), ("arms", ARMS), ("bodies", BODIES)):
        for n in sizes:
            small = n * dofs_each[kind] <= options.largest_unrolled
            for emission in ("unrolled", "rolled") if small else ("rolled",):
                figures.append(measure_apart(kind, n, emission, options.device, options.envs))
                print(figures[-1], flush=True)
    if not options.no_table:
        starts = cold_starts(options.robots, options.device)
        TABLE.write_text(table(figures, options.envs, starts), encoding="utf-8")
    return 0


if __name__ == "__main__":
    sys.exit(main())
