"""Benchmark of large scenes: objects of one kind dropped into a bin, by Kinema and MuJoCo C, each in its own process.

A process reads the scene, steps it until the objects rest, and measures CPU times and memory (`heap_process.py`). Its
states are checked here: finite, inside the bin, at rest, and the residual forces by MuJoCo's inverse dynamics. Of
thousands of objects, MuJoCo starts from the resting state that Kinema reached: it would take minutes to settle.
"""

from __future__ import annotations

import enum
import json
import math
import os
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from dataclasses import asdict, dataclass, replace
from pathlib import Path
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError

from .heap_process import COMPILED_SUFFIX, PROGRESS_PREFIX, RESTING_SPEED, SIMULATORS, TIME_STEP
from .scenes import load_mujoco_model
from .startup_time import CACHE_VARIABLE


class HeapKind(enum.StrEnum):
    """Objects of a heap."""

    BOXES = "boxes"
    SPHERES = "spheres"
    CAPSULES = "capsules"
    MIXED = "mixed"
    """Boxes, spheres, capsules, cylinders and ellipsoids."""
    HULLS = "hulls"
    """Convex hulls of 20 points."""


# ---------------------------------------------------------------------------------------------------------------- scene

SPACING = 0.26
"""Distance of neighbouring objects at the start [m]."""
N_HULL_SHAPES, N_HULL_POINTS, HULL_RADIUS = 5, 20, 0.1
MIN_SIZED_BODIES, MUJOCO_MEMORY_PER_BODY = 3_000, 2**18
"""Number of bodies from which on the file sets MuJoCo's memory, and its size for each [B]: the default grows with the
square of their number."""
MIN_SHARED_STATE_BODIES = 3_000
"""Number of bodies from which on MuJoCo starts from Kinema's resting state."""
WALL_THICKNESS = 0.1
"""Half thickness of the walls of the bin [m]."""
PRIMITIVES = {
    HeapKind.BOXES: ('type="box" size="0.1 0.08 0.06"',),
    HeapKind.SPHERES: ('type="sphere" size="0.1"',),
    HeapKind.CAPSULES: ('type="capsule" size="0.05 0.06"',),
    HeapKind.MIXED: (
        'type="box" size="0.1 0.08 0.06"',
        'type="sphere" size="0.08"',
        'type="capsule" size="0.05 0.06"',
        'type="cylinder" size="0.08 0.06"',
        'type="ellipsoid" size="0.1 0.08 0.06"',
    ),
}


def heap_mjcf(n_bodies: int, kind: HeapKind, layers: int = 4) -> str:
    """MJCF of `n_bodies` objects in `layers` layers above a bin whose floor one layer covers; deterministic."""
    rng = np.random.default_rng(0)
    columns = _n_columns(n_bodies, layers)
    half_width, height = 0.5 * SPACING * columns, SPACING * (layers + 1)
    assets = ""
    if kind is HeapKind.HULLS:
        assets = "".join(_hull_asset(rng, i) for i in range(N_HULL_SHAPES))
        geoms: tuple[str, ...] = tuple(f'type="mesh" mesh="hull{i}"' for i in range(N_HULL_SHAPES))
    else:
        geoms = PRIMITIVES[kind]
    walls = ""
    for side in (-1, 1):
        offset, length = side * (half_width + WALL_THICKNESS), half_width + 2 * WALL_THICKNESS
        for size, position in (
            ((WALL_THICKNESS, length), (offset, 0.0)),
            ((length, WALL_THICKNESS), (0.0, offset)),
        ):
            walls += (
                f'<geom type="box" size="{size[0]:g} {size[1]:g} {height:g}" '
                f'pos="{position[0]:g} {position[1]:g} {height:g}"/>'
            )
    bodies = []
    for i in range(n_bodies):
        layer, place = divmod(i, columns * columns)
        x, y = (SPACING * (at - 0.5 * (columns - 1)) + rng.uniform(-0.01, 0.01) for at in divmod(place, columns))
        turn = rng.normal(size=4) * (1.0, 0.1, 0.1, 0.1) + (2.0, 0.0, 0.0, 0.0)
        quaternion = " ".join(f"{v:.5f}" for v in turn / np.linalg.norm(turn))
        bodies.append(
            f'<body pos="{x:.5f} {y:.5f} {0.15 + SPACING * layer:g}" quat="{quaternion}"><freejoint/>'
            f'<geom {geoms[i % len(geoms)]} mass="1"/></body>'
        )
    memory = f'<size memory="{n_bodies * MUJOCO_MEMORY_PER_BODY // 1024}K"/>' if n_bodies >= MIN_SIZED_BODIES else ""
    return (
        f'<mujoco model="heap">{memory}<option timestep="{TIME_STEP}" integrator="implicitfast"/>'
        f"<asset>{assets}</asset>"
        f'<worldbody><geom type="plane" size="0 0 1"/>{walls}{"".join(bodies)}</worldbody></mujoco>'
    )


def _n_columns(n_bodies: int, layers: int) -> int:
    """Objects side by side along a side of the bin."""
    return max(math.ceil(math.sqrt(n_bodies / layers)), 1)


def inside_bin(positions: Array, layers: int) -> bool:
    """Whether all objects, at positions (n, 3), are above the floor and between the walls of their bin."""
    half_width = 0.5 * SPACING * _n_columns(len(positions), layers)
    return bool((np.abs(positions[:, :2]) < half_width).all() and (positions[:, 2] > 0.0).all())


def _hull_asset(rng: np.random.Generator, index: int) -> str:
    """MJCF mesh of points on a sphere that is flattened at random."""
    points = rng.normal(size=(N_HULL_POINTS, 3))
    points *= HULL_RADIUS * rng.uniform(0.7, 1.0, 3) / np.linalg.norm(points, axis=1)[:, None]
    return f'<mesh name="hull{index}" vertex="{" ".join(f"{v:.5f}" for v in points.ravel())}"/>'


# --------------------------------------------------------------------------------------------------- both, side by side


@dataclass(frozen=True, slots=True)
class HeapMeasurement:
    """Figures of one simulator on one heap; times are CPU times of one core."""

    simulator: str
    kind: str
    n_bodies: int
    build: float
    """CPU time from the start of the process to the built scene [s]."""
    first_step: float
    """CPU time from the start of the process to the end of the first step, without a cache [s]."""
    first_step_cached: float
    """The same with a cache, of a simulator that has one."""
    falling: float
    """Time of a step while the objects fall [s]."""
    resting: float
    """Time of a step when they have settled [s]."""
    sleeping: float
    """Time of a step when they sleep [s]; NaN if not measured."""
    asleep: float
    """Fraction of the objects that sleep; NaN if not measured."""
    memory: float
    """Peak resident memory [MiB]."""
    contacts: int
    moving: int
    """Number of objects faster than `RESTING_SPEED` at the end."""
    settled_s: float
    """Simulated time until the end [s]."""
    residual: float
    """Residual forces of the equations of motion in the last step, relative to the constraint forces."""
    residual_median: float
    """Median over the objects of the residual force, relative to the constraint force on the object: unlike `residual`
    it does not depend on the few objects whose contact points differ from MuJoCo's."""
    is_sound: bool
    """Whether the state is finite, no contact was lost for lack of memory, and no object left the bin."""


def measure_heaps(
    counts: Sequence[int],
    kind: HeapKind,
    *,
    layers: int = 4,
    budget: float = 120.0,
    sleep: bool = True,
    progress: Callable[[str], None] = lambda _: None,
) -> Iterator[HeapMeasurement]:
    """Yield the measurements of MuJoCo C and Kinema on heaps of several sizes.

    `budget` bounds settling and falling asleep [CPU s]. From `MIN_SHARED_STATE_BODIES` bodies on, Kinema is first, and
    MuJoCo starts from its resting state.
    """
    for n_bodies in counts:
        with tempfile.TemporaryDirectory() as name:
            file = Path(name) / f"{n_bodies} {kind.value}.xml"
            file.write_text(heap_mjcf(n_bodies, kind, layers), encoding="utf-8")
            ours, theirs = (_EngineRun(engine, file, budget, progress) for engine in SIMULATORS)
            if n_bodies < MIN_SHARED_STATE_BODIES:
                yield _measure_engine(theirs, n_bodies, kind, layers, sleep=sleep)
                yield _measure_engine(ours, n_bodies, kind, layers, sleep=sleep)
                continue
            with tempfile.TemporaryDirectory() as cache:
                compiled = _run_process(theirs, "start", cache)  # the residual needs the compiled model, too
            yield _measure_engine(ours, n_bodies, kind, layers, sleep=sleep)
            settled = _measure_engine(replace(theirs, start=ours.states), n_bodies, kind, layers, sleep=sleep)
            began = {name: compiled[name] for name in ("build", "first_step")}
            yield replace(
                settled,
                **began,
                first_step_cached=compiled["first_step"],
                memory=max(compiled["memory"], settled.memory),
            )


@dataclass(frozen=True, slots=True)
class _EngineRun:
    """A simulator and the files of a scene."""

    engine: str
    file: Path
    budget: float
    progress: Callable[[str], None]
    start: Path | None = None
    """Resting states from which on the objects settle; None to let them fall until they rest."""

    @property
    def states(self) -> Path:
        """File of the states at the end."""
        return self.file.with_name(f"states of {self.engine}.npz")


def _measure_engine(run: _EngineRun, n_bodies: int, kind: HeapKind, layers: int, *, sleep: bool) -> HeapMeasurement:
    with tempfile.TemporaryDirectory() as cache:
        cold = _run_process(run, "steps", cache)
        warm = _run_process(run, "start", cache) if run.engine == "Kinema" else cold
        asleep = _run_process(run, "sleep", cache) if sleep else {}
        loaded = np.load(run.states)
        qpos, qvel, next_qvel = (loaded[x] for x in ("qpos", "qvel", "next_qvel"))
    positions = qpos.reshape(-1, 7)[:, :3]
    finite = bool(np.isfinite(qpos).all() and np.isfinite(next_qvel).all())
    result = HeapMeasurement(
        simulator=run.engine,
        kind=kind.value,
        n_bodies=n_bodies,
        build=cold["build"],
        first_step=cold["first_step"],
        first_step_cached=warm["first_step"],
        falling=cold["falling"],
        resting=cold["resting"],
        sleeping=asleep.get("sleeping", math.nan),
        asleep=asleep.get("asleep", math.nan),
        memory=cold["memory"],
        contacts=cold["contacts"],
        moving=int((np.abs(qvel.reshape(-1, 6)).max(axis=1) > RESTING_SPEED).sum()),
        settled_s=cold["settled_s"],
        residual=math.nan,
        residual_median=math.nan,
        is_sound=finite and inside_bin(positions, layers) and not cold["overflowed"],
    )
    if not finite:
        return result
    total, median = residual_force(run.file, qpos, qvel, next_qvel)
    return replace(result, residual=total, residual_median=median)


def _run_process(run: _EngineRun, mode: str, cache: str) -> dict[str, Any]:
    """Run a simulator in a process of its own, and return the figures that it prints."""
    script = Path(__file__).with_name("heap_process.py")
    names = [run.engine, str(run.file), str(run.states), mode, str(run.budget), str(run.start or "")]
    environment, errors = {**os.environ, CACHE_VARIABLE: cache}, []
    with subprocess.Popen(
        [sys.executable, str(script), *names],
        env=environment,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    ) as process:
        assert process.stdout is not None
        assert process.stderr is not None
        for line in process.stderr:
            if line.startswith(PROGRESS_PREFIX):
                run.progress(f"{run.file.stem}: {run.engine}, {mode}: {line.removeprefix(PROGRESS_PREFIX).strip()}")
            elif line.strip():
                errors.append(line.strip())
        printed = process.stdout.read()
    if process.returncode != 0:
        last = [f"exit status {process.returncode}", *errors][-1]
        raise KinemaError(f"{run.engine} did not simulate {run.file.name}: {last}")
    return json.loads(printed.splitlines()[-1])


def residual_force(file: Path, qpos: Array, qvel: Array, next_qvel: Array) -> tuple[float, float]:
    """Residual of the equations of motion of one step by MuJoCo's inverse dynamics, relative to constraint forces.

    Returns the norm over all objects, and the median over the objects of the norm for each.
    """
    import mujoco

    compiled = file.with_suffix(COMPILED_SUFFIX)
    model = mujoco.MjModel.from_binary_path(str(compiled)) if compiled.exists() else load_mujoco_model(file)
    model.opt.enableflags |= int(mujoco.mjtEnableBit.mjENBL_INVDISCRETE)
    model.opt.iterations = 1  # the forces of the forward step are needed for scale only
    data = mujoco.MjData(model)
    data.qpos[:], data.qvel[:] = qpos, qvel
    data.qacc[:] = (next_qvel - qvel) / model.opt.timestep
    mujoco.mj_inverse(model, data)
    residuals, forces = (x.reshape(-1, 6) for x in (data.qfrc_inverse, data.qfrc_constraint))
    by_object = np.linalg.norm(residuals, axis=1) / np.maximum(np.linalg.norm(forces, axis=1), 1e-9)
    return float(np.linalg.norm(residuals) / max(np.linalg.norm(forces), 1e-9)), float(np.median(by_object))


def growth_exponents(results: Sequence[HeapMeasurement], simulator: str) -> dict[str, float]:
    """Exponents of power laws fitted to the figures of a simulator by the number of objects."""
    ours = [asdict(r) for r in results if r.simulator == simulator]
    if len({r["n_bodies"] for r in ours}) < 2:
        return {}
    sizes = np.log([r["n_bodies"] for r in ours])
    fitted = {}
    for name in ("build", "first_step", "falling", "resting", "memory"):
        values = np.array([r[name] for r in ours])
        if (values > 0).all():
            fitted[name] = float(np.polyfit(sizes, np.log(values), 1)[0])
    return fitted
