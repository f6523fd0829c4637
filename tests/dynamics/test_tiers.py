"""Two tiers of compiled code: which of them runs, and when it was replaced, changes not one bit."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
import textwrap
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from weakref import WeakValueDictionary

import numpy as np
import pytest

import kinema as km
from kinema.core import InternalError
from kinema.runtime import CACHE_ENV_VARIABLE, executables, host_jit, llvm_compiler
from kinema.runtime.host_jit import TIER_VARIABLE, wait_for_background
from kinema.runtime.llvm_compiler import BACKGROUND, WorkerPool
from kit.assets import EXAMPLES
from kit.choosing import alternating, representative_tuples
from kit.patience import HANG
from kit.robots.small_robots import reacher

from ..ir.arenas import kernel, launched, same_bits
from ..ir.random_programs import MEMORY, random_numbers, recorded, some_tree


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no code of other tests in this process."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(executables, "_host_executables", WeakValueDictionary())
    monkeypatch.setattr(host_jit, "_loaded_codes", WeakValueDictionary())
    return tmp_path / "cache"


def pile(scene: km.Scene) -> None:
    """Contacts, and a loop that is repeated as often as each environment likes."""
    scene.add(km.Plane())
    scene.add(km.Box((0.2, 0.2, 0.2)), pos=(0.0, 0.0, 0.11))
    scene.add(km.Sphere(0.1), pos=(0.02, 0.0, 0.31))


def arm(scene: km.Scene) -> None:
    """Servos and limits."""
    scene.add(EXAMPLES / "arm" / "arm.urdf")


def gripper(scene: km.Scene) -> None:
    """Loops that are closed by constraints."""
    scene.add(EXAMPLES / "gripper" / "gripper.sdf")


def small(scene: km.Scene) -> None:
    """Two hinges and a slide."""
    scene.add(reacher())


Fill = Callable[[km.Scene], None]
SCENES: dict[str, Fill] = {"pile": pile, "arm": arm, "gripper": gripper, "small": small}
CHOSEN = {("pile", 1, "single"), ("arm", 7, "double"), ("small", 1, "single")}


def made(fill: Fill, n_envs: int, *, wait: bool = False, precision: str = "single") -> km.Scene:
    """A scene in motion, every environment with speeds of its own."""
    scene = km.Scene(quiet=True, precision=precision, wait=wait, contacts=fill is pile)
    fill(scene)
    scene.build(n_envs)
    engine = scene.built.engine
    speeds = engine.array_view("vel")
    speeds.assign(0.3 * np.random.default_rng(0).normal(size=speeds.numpy().shape))
    return scene


def bits(scene: km.Scene) -> np.ndarray:
    """The whole state: coordinates, velocities, and what solvers start with."""
    return np.array(scene.built.engine.state.data).view(np.uint8)


def tier(scene: km.Scene) -> str:
    return scene.built.engine.tier


# ------------------------------------------------------------------------------------------------------------ same bits


@pytest.mark.parametrize(
    ("name", "n_envs", "precision"),
    representative_tuples(itertools.product(SCENES, [1, 7], ["single", "double"]), lambda case: case in CHOSEN),
)
def test_both_tiers_compute_the_same(name: str, n_envs: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """One environment, and vectors of them; steps and fields."""
    found = []
    for asked in ("baseline", "optimised"):
        monkeypatch.setenv(TIER_VARIABLE, asked)
        scene = made(SCENES[name], n_envs, precision=precision)
        scene.step(25)
        assert tier(scene) == asked
        poses = scene.entities[-1].get_links_pos()
        found.append((bits(scene), np.ascontiguousarray(poses).view(np.uint8)))
        del scene
    for baseline, optimised in zip(*found, strict=True):
        np.testing.assert_array_equal(baseline, optimised)


@pytest.mark.parametrize(("lanes", "precision"), alternating([1, 2, 8], ["single", "double"]))
def test_random_programs_compute_the_same(lanes: int, precision: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """All kinds of instructions and blocks."""
    for seed in range(4):
        program, numbers, found = recorded(some_tree(seed)), random_numbers(seed, 5, 2), []
        for asked in ("baseline", "optimised"):
            monkeypatch.setenv(TIER_VARIABLE, asked)
            own = kernel(program, MEMORY, lanes, precision)
            assert own.tier == asked
            found.append(launched(own, MEMORY, numbers, 5, 2))
        same_bits(*found)


# ------------------------------------------------------------------------------------------------------------ switching


class Gate(WorkerPool):
    """Processes that compile nothing before they are let, and may fail then."""

    def __init__(self) -> None:
        super().__init__()
        self.is_open, self.asked, self.fails = threading.Event(), threading.Event(), False

    def compile(
        self, module: str | bytes, level: int = llvm_compiler.OptLevel.OPTIMISED, *, assembly: bool = False
    ) -> bytes:
        self.asked.set()
        assert self.is_open.wait(HANG)
        if self.fails:
            raise InternalError("no memory left")
        return super().compile(module, level, assembly=assembly)


@pytest.fixture
def gate(monkeypatch: pytest.MonkeyPatch) -> Iterator[Gate]:
    """What compiles in the background waits until the test lets it."""
    monkeypatch.setenv(TIER_VARIABLE, "tiered")
    own = Gate()
    monkeypatch.setattr(host_jit, "BACKGROUND", own)
    yield own
    own.is_open.set()
    wait_for_background()
    own.close()


@pytest.mark.parametrize(("fill", "n_envs"), representative_tuples(itertools.product([small, pile], [300, 1]), 1))
def test_a_scene_switches_between_steps(fill: Fill, n_envs: int, gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """And goes on bit for bit as one that never does: launches that were recorded before run the new code."""
    scene = made(fill, n_envs)
    scene.step(5)
    assert tier(scene) == "baseline"
    early = bits(scene)
    gate.is_open.set()
    wait_for_background()
    assert tier(scene) == "optimised"
    for _ in range(3):
        scene.step(5)
    with monkeypatch.context() as patch:
        patch.setenv(TIER_VARIABLE, "baseline")
        patch.setattr(executables, "_host_executables", WeakValueDictionary())
        patch.setattr(host_jit, "_loaded_codes", WeakValueDictionary())
        other = made(fill, n_envs)
        other.step(5)
        np.testing.assert_array_equal(bits(other), early)
        for _ in range(3):
            other.step(5)
        assert tier(other) == "baseline"
    np.testing.assert_array_equal(bits(scene), bits(other))
    assert (bits(scene) != early).any()


def test_it_may_switch_in_the_middle_of_steps(gate: Gate, monkeypatch: pytest.MonkeyPatch) -> None:
    """While other threads run the code that is replaced."""
    scene = made(small, 64)
    scene.step()
    opener = threading.Timer(0.05, gate.is_open.set)
    opener.start()
    steps = 1
    while tier(scene) == "baseline":
        scene.step()
        steps += 1
    scene.step(3)
    opener.join()
    monkeypatch.setenv(TIER_VARIABLE, "optimised")
    other = made(small, 64)
    other.step(steps + 3)
    np.testing.assert_array_equal(bits(scene), bits(other))


@pytest.mark.parametrize("how", ["scene", "prepare"])
def test_who_waits_has_optimised_code_at_once(how: str, gate: Gate) -> None:
    """With or without code that is being compiled in the background."""
    if how == "scene":
        scene = made(small, 2, wait=True)
        scene.prepare()
        assert not gate.asked.is_set()
    else:
        scene = made(small, 2)
        scene.prepare()
        assert tier(scene) == "baseline"
        gate.is_open.set()
        scene.prepare(wait=True)
    assert tier(scene) == "optimised"
    scene.step()


def test_a_failure_in_the_background_leaves_the_baseline(gate: Gate) -> None:
    """Steps go on; whoever waits does not wait for ever."""
    scene = made(small, 2)
    scene.step(2)
    gate.fails = True
    gate.is_open.set()
    wait_for_background()
    assert tier(scene) == "baseline"
    scene.prepare(wait=True)
    scene.step(2)
    assert tier(scene) == "baseline"
    assert np.isfinite(scene.entities[0].get_qpos()).all()


def test_where_only_the_baseline_is_asked_for_nobody_waits_for_more(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIER_VARIABLE, "baseline")
    scene = made(small, 2, wait=True)
    scene.step()
    scene.prepare(wait=True)
    assert tier(scene) == "baseline"
    monkeypatch.setenv(TIER_VARIABLE, "tiered")
    scene.prepare(wait=True)  # nobody compiles it in the background, so it is compiled now
    assert tier(scene) == "optimised"


def test_another_tier_says_which_there_are(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv(TIER_VARIABLE, "fastest")
    scene = made(small, 1)
    with pytest.raises(km.KinemaError, match="KINEMA_TIER=fastest: expected tiered, baseline, optimised"):
        scene.step()


# ------------------------------------------------------------------------------------------------------------ processes

SCENE = """
import sys, time
import kinema as km
from kinema.runtime import executables, host_jit, llvm_compiler

scene = km.Scene(quiet=True, contacts=False, codegen="unrolled")
scene.add(sys.argv[1])
scene.build()
"""


CHAIN = """<mujoco><worldbody><body><joint axis="0 1 0"/><geom size=".1" pos=".2 0 0"/>
<body pos=".4 0 0"><joint axis="1 0 0"/><geom size=".1" pos="0 0 .2"/></body></body></worldbody></mujoco>"""


def run(script: str, *arguments: str, cache: Path, code: int = 0) -> list[str]:
    """What a process says that simulates two links."""
    robot = cache.parent / "chain.xml"
    robot.write_text(CHAIN, encoding="utf-8")
    done = subprocess.run(
        [sys.executable, "-c", SCENE + textwrap.dedent(script), str(robot), *arguments],
        env={**os.environ, CACHE_ENV_VARIABLE: str(cache), TIER_VARIABLE: "tiered"},
        capture_output=True,
        text=True,
        timeout=HANG,
        check=False,
    )
    assert done.returncode == code, done.stderr
    return done.stdout.split()


def gone(pid: str) -> bool:
    return not Path(f"/proc/{pid}").exists()


def test_whoever_ends_leaves_no_process_and_the_next_one_goes_on(cache: Path) -> None:
    """The background compilation ends with the process; the next one has the baseline, and compiles the rest."""
    ends = """
    compile_ = llvm_compiler.WorkerPool._spawn
    def started(pool):
        if pool is llvm_compiler.BACKGROUND:
            llvm_compiler._WORKER_SCRIPT = llvm_compiler.Path(sys.argv[2])
        return compile_(pool)
    llvm_compiler.FOREGROUND.start(2)
    llvm_compiler.WorkerPool._spawn = started
    scene.step()
    while not llvm_compiler.BACKGROUND._all:
        time.sleep(0.01)
    pools = (llvm_compiler.FOREGROUND, llvm_compiler.BACKGROUND)
    print(scene.built.engine.tier, *(x.pid for p in pools for x in p._all))
    """
    worker = cache.parent / "sleeps.py"
    worker.write_text("import time\ntime.sleep(600)\n", encoding="utf-8")
    first, *workers = run(ends, str(worker), cache=cache)
    assert first == "baseline"
    assert len(workers) > 2
    assert all(gone(pid) for pid in workers)
    goes_on = """
    def refuse(*_, **__):
        raise AssertionError("the baseline is in the cache")
    executables.emit_cpu_modules = llvm_compiler.FOREGROUND.compile = refuse
    scene.step()
    print(scene.built.engine.tier)
    scene.prepare(wait=True)
    print(scene.built.engine.tier)
    """
    assert run(goes_on, cache=cache) == ["baseline", "optimised"]
    done = """
    def refuse(*_, **__):
        raise AssertionError("all is in the cache")
    executables.emit_cpu_modules = llvm_compiler.FOREGROUND.compile = llvm_compiler.BACKGROUND.compile = refuse
    scene.step()
    print(scene.built.engine.tier)
    """
    assert run(done, cache=cache) == ["optimised"]


def test_no_compiler_is_started_while_python_ends(cache: Path) -> None:
    """A thread whose process was ended has more to compile: it does not."""
    script = """
    import atexit, threading
    llvm_compiler.BACKGROUND.close(final=True)
    try:
        llvm_compiler.BACKGROUND.compile("define void @kinema_run() {\\n ret void\\n}\\n")
    except km.KinemaError as error:
        print("refused", len(llvm_compiler.BACKGROUND._all))
    """
    assert run(script, cache=cache) == ["refused", "0"]


def test_a_fork_waits_for_nobody(cache: Path) -> None:
    """Threads of the parent are not there: the child compiles what it waits for."""
    script = """
    import os, threading, warnings
    warnings.simplefilter("ignore")
    stop = threading.Event()
    llvm_compiler.BACKGROUND.compile = lambda *_, **__: stop.wait() or b""
    scene.step()
    child = os.fork()
    if not child:
        scene.prepare(wait=True)
        os._exit(0 if scene.built.engine.tier == "optimised" else 3)
    _, status = os.waitpid(child, 0)
    print(os.waitstatus_to_exitcode(status), scene.built.engine.tier)
    sys.stdout.flush()
    os._exit(0)
    """
    assert run(script, cache=cache) == ["0", "baseline"]


def test_background_compilers_give_way(cache: Path) -> None:
    """They run at low priority."""
    assert BACKGROUND._niceness > 0
    pool = WorkerPool(BACKGROUND._niceness)
    try:
        pool.start()
        assert os.getpriority(os.PRIO_PROCESS, pool._all[0].pid) >= BACKGROUND._niceness
    finally:
        pool.close()
