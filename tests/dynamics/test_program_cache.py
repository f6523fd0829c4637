"""Compiled programs in the cache: found again by everything they were made from, and by nothing less."""

from __future__ import annotations

import copy
import dataclasses
import enum
import gc
import os
import subprocess
import sys
import weakref
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import content_digest
from kinema.dynamics import Settings
from kinema.dynamics.lowering import step_program
from kinema.runtime import CACHE_ENV_VARIABLE, Kernel, ProgramSource, executables, find_device, host_jit
from kinema.runtime.executables import CompileOptions, program_key
from kit.assets import EXAMPLES
from kit.choosing import combinations
from kit.patience import HANG
from kit.robots.small_robots import pendulum, reacher


@pytest.fixture(autouse=True)
def cache(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """An empty cache, and no code of other tests in this process."""
    monkeypatch.setenv(CACHE_ENV_VARIABLE, str(tmp_path / "cache"))
    monkeypatch.setattr(executables, "_host_executables", weakref.WeakValueDictionary())
    monkeypatch.setattr(host_jit, "_loaded_codes", weakref.WeakValueDictionary())
    return tmp_path / "cache"


@pytest.fixture
def traced(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """Grows with every program that is traced."""
    found: list[str] = []
    for name in ("trace_step", "trace_field_program"):
        plain = getattr(step_program, name)
        monkeypatch.setattr(
            step_program, name, lambda *a, plain=plain, name=name, **k: found.append(name) or plain(*a, **k)
        )
    return found


def scene_of(*, n_envs: int = 2, robot: Any = None, **options: Any) -> km.Scene:
    scene = km.Scene(quiet=True, **options)
    scene.add(robot or reacher())
    scene.build(n_envs)
    return scene


def run(scene: km.Scene) -> np.ndarray:
    """The bits of the state and of a field after some steps."""
    scene.step(10)
    place = np.ascontiguousarray(scene.entities[0].get_links_pos())
    executables.finish_storing()
    return np.concatenate(
        [np.array(scene.built.engine.state.data).view(np.uint8).ravel(), place.view(np.uint8).ravel()]
    )


# --------------------------------------------------------------------------------------------------------------- hits

SECOND = """
import sys
import numpy as np
import kinema as km
from kinema.runtime import compilation, llvm_compiler
from kinema.dynamics.lowering import step_program

def refuse(*_, **__):
    raise AssertionError("this is in the cache")

if sys.argv[2] == "second":
    step_program.trace_step = step_program.trace_field_program = refuse
    compilation.emit_cpu_modules = compilation.optimise = refuse
    llvm_compiler.FOREGROUND.compile = llvm_compiler.BACKGROUND.compile = llvm_compiler.FOREGROUND._spawn = refuse
scene = km.Scene(quiet=True)
scene.add(km.Plane())
robot = scene.add(sys.argv[1])
scene.build(3)
scene.step(20)
for x in (robot.get_qpos(), robot.get_qvel(), robot.get_links_pos(), robot.get_links_vel()):
    print(np.ascontiguousarray(x).tobytes().hex())
"""


HOPPER = """<mujoco><worldbody><body pos="0 0 .4"><freejoint/><geom size=".1"/>
<body pos="0 0 -.1"><joint name="knee" axis="0 1 0" range="-1 1" limited="true"/>
<geom type="capsule" size=".02" fromto="0 0 0 0 0 -.2"/></body></body></worldbody>
<actuator><position joint="knee" kp="5"/></actuator></mujoco>"""

SWING = """<mujoco><worldbody><body><joint axis="0 1 0"/><geom size=".1" pos=".2 0 0"/></body></worldbody></mujoco>"""


def test_another_process_neither_traces_nor_compiles(cache: Path, tmp_path: Path) -> None:
    """And computes the same bits: a robot with contacts, and fields of it."""
    said, robot = [], tmp_path / "hopper.xml"
    robot.write_text(HOPPER, encoding="utf-8")
    for which in ("first", "second"):
        done = subprocess.run(
            [sys.executable, "-c", SECOND, str(robot), which],
            capture_output=True,
            text=True,
            timeout=HANG,
            check=False,
            env={**os.environ, CACHE_ENV_VARIABLE: str(cache), "PYTHONHASHSEED": str(len(which))},
        )
        assert done.returncode == 0, done.stderr
        said.append(done.stdout)
    assert len(said[0].split()) == 4
    assert said[0] == said[1]


def test_another_scene_of_this_process_traces_nothing(traced: list[str]) -> None:
    first = run(scene_of())
    assert traced == ["trace_step", "trace_field_program"]
    gc.collect()
    np.testing.assert_array_equal(run(scene_of()), first)
    assert len(traced) == 2


def test_more_environments_take_the_same_program(traced: list[str]) -> None:
    """As many as make vectors of the same width."""
    run(scene_of(n_envs=64))
    count = len(traced)
    run(scene_of(n_envs=128))
    assert len(traced) == count


# -------------------------------------------------------------------------------------------------------------- misses


@pytest.mark.parametrize(
    "other",
    [
        {"precision": "double"},
        {"n_envs": 1},
        {"integrator": "rk4"},
        {"codegen": "loops"},
        {"robot": pendulum()},
        {"energy_limiter": True},
    ],
    ids=lambda other: next(iter(other)),
)
def test_other_choices_are_other_programs(other: dict[str, Any], traced: list[str]) -> None:
    """Precision, lanes, settings, robots; what was compiled before is found again after."""
    first = run(scene_of())
    count = len(traced)
    run(scene_of(**other))
    assert len(traced) > count
    count = len(traced)
    np.testing.assert_array_equal(run(scene_of()), first)
    assert len(traced) == count


def places(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """All arrays, numbers, names and flags within records and lists."""
    if dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            yield from places(getattr(value, field.name), f"{path}.{field.name}")
    elif isinstance(value, tuple):
        for i, element in enumerate(value):
            yield from places(element, f"{path}[{i}]")
    elif isinstance(value, np.ndarray) and value.size:
        yield path, value


def test_any_number_of_a_model_is_part_of_its_digest() -> None:
    """Each array of the quadruped on a floor: with another number somewhere it is another program."""
    scene = km.Scene(quiet=True)
    scene.add(km.Plane())
    scene.add(EXAMPLES / "quadruped" / "quadruped.xml")
    scene.build()
    model = scene.built.engine.model
    own = {field.name: copy.copy(getattr(model.derived, field.name)) for field in dataclasses.fields(model.derived)}
    model = copy.deepcopy(model.with_derived(**own))  # shares no arrays with the tables
    plain, seen = content_digest(model), set()
    for path, array in places(model):
        at = (array.size // 2,) if array.ndim == 1 else np.unravel_index(array.size // 2, array.shape)
        before = array[at].copy() if isinstance(array[at], np.ndarray) else array[at]
        array.setflags(write=True)
        array[at] = not before if array.dtype == bool else before + 1 if np.isfinite(before) else 0
        digest = content_digest(model)
        assert digest != plain, path
        assert digest not in seen, path
        seen.add(digest)
        array[at] = before
    assert content_digest(model) == plain
    assert len(seen) > 60


def test_any_setting_is_part_of_its_digest() -> None:
    others: dict[str, Any] = {"per_env": frozenset({"kp"}), "ls_iterations": 3, "reserved": (1,)}
    found = {content_digest(Settings())}
    for field in dataclasses.fields(Settings):
        value = getattr(Settings(), field.name)
        if field.name in others:
            other = others[field.name]
        elif isinstance(value, enum.Enum):
            other = next(x for x in type(value) if x is not value)
        else:
            other = not value if isinstance(value, bool) else value + 1
        digest = content_digest(dataclasses.replace(Settings(), **{field.name: other}))
        assert digest not in found, field.name
        found.add(digest)


def test_the_key_says_what_a_program_is_compiled_for() -> None:
    def no_program() -> Any:
        raise AssertionError

    cpu = find_device("cpu")
    source, options = ProgramSource(no_program, "key"), CompileOptions(cpu, "single", 4, 1, None)
    keys = {
        program_key(source, options, None),
        program_key(source, options, 2),
        program_key(dataclasses.replace(source, key="other"), options, None),
        *(
            program_key(source, dataclasses.replace(options, **other), None)
            for other in ({"precision": "double"}, {"lanes": 8}, {"runs_per_step": 4})
        ),
    }
    assert len(keys) == 6
    assert program_key(ProgramSource(no_program), options, None) is None, "not known by what it is made from"
    for_any = dataclasses.replace(options, n_envs=100)
    assert program_key(source, for_any, None) == program_key(source, options, None), "on a CPU all run the same"


def test_other_sources_are_other_programs(monkeypatch: pytest.MonkeyPatch, traced: list[str]) -> None:
    """Whoever changes the code generator gets what it generates."""
    run(scene_of())
    monkeypatch.setattr(executables, "source_digest", lambda *_: "of another version")
    count = len(traced)
    run(scene_of())
    assert len(traced) > count


# -------------------------------------------------------------------------------------------------------------- damage


@pytest.mark.parametrize(
    ("kind", "damage"), combinations(["programs", "code", "derived"], ["half", "one bit", "gone"], strength=1)
)
def test_what_is_damaged_is_made_again(kind: str, damage: str, cache: Path) -> None:
    expected = run(scene_of())
    gc.collect()
    files = {file: file.read_bytes() for file in (cache / kind).iterdir()}
    assert files
    for file, whole in files.items():
        if damage == "gone":
            file.unlink()
        else:
            middle = len(whole) // 2
            flipped = whole[:middle] + bytes([whole[middle] ^ 4]) + whole[middle + 1 :]
            file.write_bytes(whole[:middle] if damage == "half" else flipped)
    np.testing.assert_array_equal(run(scene_of()), expected)
    assert {file: file.read_bytes() for file in (cache / kind).iterdir()} == files


# ------------------------------------------------------------------------------------------------------------- sharing


def code_of(scene: km.Scene) -> host_jit.HostCode:
    (kernel,) = scene.built.engine._kernels.values()
    assert isinstance(kernel, Kernel)
    return kernel._code


def test_equal_scenes_share_code_until_the_last_is_gone() -> None:
    first, second, other = scene_of(), scene_of(n_envs=2), scene_of(precision="double")
    for scene in (first, second, other):
        scene.step()
    assert code_of(first) is code_of(second)
    assert code_of(other) is not code_of(first)
    shared, own = weakref.ref(code_of(first)), weakref.ref(code_of(other))
    del scene, first
    gc.collect()
    assert shared() is not None
    second.step()
    del second
    gc.collect()
    assert shared() is None
    assert own() is not None
    other.step()
    del other
    gc.collect()
    assert own() is None
    assert not host_jit._loaded_codes
    assert not executables._host_executables


def test_scenes_that_share_code_do_not_share_state() -> None:
    first, second = scene_of(), scene_of()
    first.step(10)
    still = second.entities[0].get_qpos().copy()
    first.step(10)
    np.testing.assert_array_equal(second.entities[0].get_qpos(), still)
    second.step(20)
    np.testing.assert_array_equal(second.entities[0].get_qpos(), first.entities[0].get_qpos())


REBUILDS = """
import gc, os, sys
import kinema as km
from kinema.runtime import host_jit

def built():
    scenes = []
    for robot, precision in zip(sys.argv[1:], ("single", "double", "single")):
        scene = km.Scene(quiet=True, contacts=False, precision=precision)
        scene.add(robot)
        scene.build(16)
        scene.step(2)
        scene.entities[0].get_links_pos()
        scenes.append(scene)
    return scenes

def resident():
    with open("/proc/self/statm") as file:
        return int(file.read().split()[1]) * os.sysconf("SC_PAGE_SIZE")

for _ in range(8):  # until freed memory is reused
    scenes = built()
before = resident()
for _ in range(8):
    scenes = built()
grown = resident() - before
del scenes
gc.collect()
print(grown / 2**20, len(host_jit._loaded_codes))
"""


@pytest.mark.skipif(not Path("/proc/self/statm").exists(), reason="the system does not say how much memory there is")
def test_scenes_that_are_built_again_and_again_take_no_more_memory(tmp_path: Path) -> None:
    """Eight times three scenes, which nobody collects: a few MB at most, and no code is left in the end."""
    robots = [tmp_path / "hopper.xml", tmp_path / "hopper.xml", tmp_path / "swing.xml"]
    robots[0].write_text(HOPPER, encoding="utf-8")
    robots[2].write_text(SWING, encoding="utf-8")
    command = [sys.executable, "-c", REBUILDS, *map(str, robots)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=HANG, check=False)
    assert done.returncode == 0, done.stderr
    grown, left = done.stdout.split()
    assert float(grown) < 4.0
    assert int(left) == 0
