"""Throughput of Kinema, MuJoCo C and MuJoCo Warp on robots without contacts, in environment-steps per second."""

from __future__ import annotations

import importlib.util
import math
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from kinema.builder import EntitySpec, build_model
from kinema.core import KinemaError
from kinema.description import Actuator, Robot, Transmission, World
from kinema.dynamics import Engine, Integrator, Settings, compute_joint_inertias
from kinema.model import Model
from kinema.read import read
from kinema.runtime import find_device, n_threads, synchronise
from kinema.write import write

# ------------------------------------------------------------------------------------------------------ benchmark cases

ROLLOUT_STEPS = 20
"""Steps of a rollout; each has its own random controls."""


@dataclass(slots=True, eq=False)
class BenchmarkCase:
    """A robot with the models of Kinema and MuJoCo."""

    name: str
    model: Model
    settings: Settings
    mujoco_model: Any
    """The same robot as an `mjModel`."""
    unconstrained: bool = False
    """Whether joint limits and constraints are disabled."""

    def random_controls(self, n_envs: int, seed: int = 0) -> np.ndarray:
        """Random controls of each step, actuator and environment, shape (steps, actuators, environments)."""
        rng = np.random.default_rng(seed)
        lower, upper = self.model.actuators.ctrl_lower, self.model.actuators.ctrl_upper
        bounded = np.isfinite(lower) & np.isfinite(upper)
        middle = np.where(bounded, 0.5 * (np.where(bounded, lower, 0) + np.where(bounded, upper, 0)), 0.0)
        reach = np.where(bounded, 0.25 * (np.where(bounded, upper, 0) - np.where(bounded, lower, 0)), 0.5)
        shape = (ROLLOUT_STEPS, self.model.n_actuators, n_envs)
        if self.unconstrained:
            return (middle[:, None] + np.minimum(reach, 0.5)[:, None] * rng.uniform(-1, 1, shape)).astype(np.float32)
        lean = 1.5 * rng.uniform(-1, 1, shape[1:])  # a constant offset, so that joint limits are reached
        whole = np.clip(lean + 0.5 * rng.uniform(-1, 1, shape), -1, 1)
        return (middle[:, None] + 1.2 * reach[:, None] * whole).astype(np.float32)


def load_case(file: Path, dt: float = 0.002, *, unconstrained: bool = False) -> BenchmarkCase:
    """Read a robot file as a benchmark case, with a Kinema model and an mjModel."""
    described = _read_without_shapes(file)
    peer = _build_mujoco_model(described, unconstrained)
    peer.opt.timestep = dt
    name, model, settings = _build_kinema_model(file, described, dt, unconstrained)
    peer.opt.gravity[:] = model.gravity
    if (model.n_qs, model.n_dofs, model.n_actuators) != (peer.nq, peer.nv, peer.nu):
        raise KinemaError(f"{file}: the two models differ: {model.n_dofs} and {peer.nv} degrees of freedom")
    return BenchmarkCase(name, model, settings, peer, unconstrained)


def load_kinema_model(file: Path, dt: float = 0.002, *, unconstrained: bool = False) -> tuple[str, Model, Settings]:
    """Name, Kinema model and settings of a robot file, without the mjModel."""
    return _build_kinema_model(file, _read_without_shapes(file), dt, unconstrained)


def _read_without_shapes(file: Path) -> Robot | World:
    """Read a robot without shapes and simulation options; position servos are added if it has no actuators."""
    described = read(file)
    robots = described.robots if isinstance(described, World) else [described]
    described.options = {}
    for robot in robots:
        robot.options = {}
        for link in robot.links:
            link.shapes = []
    if isinstance(described, World):
        described.shapes = []
    if not _all_actuators(described):
        for robot in robots:
            robot.actuators = _position_servos(robot)
    return described


def _build_kinema_model(
    file: Path, description: Robot | World, dt: float, unconstrained: bool
) -> tuple[str, Model, Settings]:
    """Name, model and settings for Kinema; raises `KinemaError` for dofs without inertia."""
    model = build_model([EntitySpec(name=description.name, description=description)])
    impossible = compute_joint_inertias(model, model.qpos0)[0].singular_dofs()
    if impossible:
        raise KinemaError(
            f"{file}: {model.dofs.names[impossible[0]]!r} has no inertia to move, and cannot be simulated"
        )
    for table in (model.equalities, model.couplings):  # MuJoCo's default compliance, for equal models
        table.solref[table.is_rigid], table.solimp[table.is_rigid] = (0.02, 1.0), (0.9, 0.95, 0.001, 0.5, 2.0)
        table.is_rigid[:] = False
    held = not unconstrained
    return file.stem, model, Settings(dt=dt, integrator=Integrator.IMPLICIT, limits=held, constraints=held)


def _all_actuators(description: Robot | World) -> list[Actuator]:
    own = list(description.actuators)
    return own + [a for r in description.robots for a in r.actuators] if isinstance(description, World) else own


def _position_servos(robot: Robot) -> list[Actuator]:
    """A position servo for every joint of one degree of freedom."""
    return [
        Actuator(
            name=f"{joint.name}_servo",
            transmission=Transmission.JOINT,
            target=joint.name,
            gain=(100.0,),
            bias_type="affine",
            bias=(0.0, -100.0, -10.0),
            control_range=(max(joint.moving_axes[0].lower, -math.pi), min(joint.moving_axes[0].upper, math.pi)),
        )
        for joint in robot.joints
        if joint.n_dofs == 1
    ]


def _build_mujoco_model(description: Robot | World, unconstrained: bool) -> Any:
    """Compile the robot with MuJoCo, with contacts disabled, and all constraints if `unconstrained`."""
    import mujoco

    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "robot.xml"
        write(description, path)
        model = mujoco.MjModel.from_xml_path(str(path))
    off = mujoco.mjtDisableBit.mjDSBL_CONSTRAINT if unconstrained else mujoco.mjtDisableBit.mjDSBL_CONTACT
    model.opt.disableflags |= int(off)
    model.opt.integrator = mujoco.mjtIntegrator.mjINT_IMPLICITFAST
    return model


# --------------------------------------------------------------------------------------------------------------- Kinema


@dataclass(frozen=True, slots=True)
class Measurement:
    """Measurement of one simulator on one case."""

    simulator: str
    n_envs: int
    rate: float
    """Environment-steps per second."""
    error: float
    """Maximum position error relative to MuJoCo C in float64 after one rollout."""
    finite: bool
    bytes_per_env: float
    build_seconds: float
    """Time of tracing and compilation, or of loading from the cache [s]."""


def shortest_call_time(call: Callable[[], None], synchronize: Callable[[], None], seconds: float) -> float:
    """Shortest time of a call [s], from calls repeated for about `seconds`."""
    best = float("inf")
    end = time.perf_counter() + seconds
    while time.perf_counter() < end:
        start = time.perf_counter()
        call()
        synchronize()
        best = min(best, time.perf_counter() - start)
    return best


def measure_kinema(
    case: BenchmarkCase,
    n_envs: int,
    device: str,
    *,
    single_launch: bool,
    threads: int | None = None,
    precision: str = "single",
    n_partitions: int | None = None,
    seconds: float = 1.0,
) -> Measurement:
    """Measure Kinema rollouts with random controls: all steps in one launch, or one launch per step.

    On a GPU, the launches of single steps are recorded in a CUDA graph.
    """
    start = time.perf_counter()
    engine = Engine(
        case.model,
        case.settings,
        n_envs,
        find_device(device),
        precision=precision,
        threads=threads,
        n_partitions=n_partitions,
    )
    engine.compile_step()
    build_seconds = time.perf_counter() - start
    commands = case.random_controls(n_envs)
    sequence = engine.allocate_control_sequence(ROLLOUT_STEPS)
    for t in range(ROLLOUT_STEPS):
        sequence.view(f"ctrl {t}").assign(commands[t])
    call = engine.rollout(sequence, single_launch=single_launch)

    def finish() -> None:
        synchronise(engine.device)

    engine.reset()
    call()
    finish()
    error = _max_position_error(case, engine, commands)
    best = shortest_call_time(call, finish, seconds)
    finite = bool(np.isfinite(engine.array_view("qpos").numpy()).all() and not engine.array_view("error").numpy().any())
    size = 4 if precision == "single" else 8
    rows = engine.state.layout.n_rows + engine.controls.layout.n_rows
    name = "Kinema, rollout" if single_launch else "Kinema, step by step"
    if engine.device.is_cpu:
        name += f", {threads or n_threads()} cores" if threads != 1 else ", one core"
    return Measurement(name, n_envs, n_envs * ROLLOUT_STEPS / best, error, finite, rows * size, build_seconds)


def _max_position_error(case: BenchmarkCase, engine: Engine, commands: np.ndarray) -> float:
    """Maximum position error relative to MuJoCo C in float64, on three environments."""
    import mujoco

    ours = engine.array_view("qpos").numpy()
    data = mujoco.MjData(case.mujoco_model)
    worst = 0.0
    for env in {0, engine.n_envs // 2, engine.n_envs - 1}:
        mujoco.mj_resetData(case.mujoco_model, data)
        data.qpos[:] = case.model.qpos0
        for t in range(ROLLOUT_STEPS):
            data.ctrl[:] = commands[t, :, env]
            mujoco.mj_step(case.mujoco_model, data)
        worst = max(worst, float(np.abs(data.qpos - ours[:, env]).max()))
    return worst


def measure_single_environment(file: Path, seconds: float = 1.0, *, unconstrained: bool = False) -> dict[str, float]:
    """Steps per second of one environment on a CPU, by Kinema and MuJoCo C, with 1 and 10 steps per call."""
    import mujoco

    case = load_case(file, unconstrained=unconstrained)
    engine = Engine(case.model, case.settings, 1, find_device("cpu"), lanes=1)
    engine.compile_step()
    data = mujoco.MjData(case.mujoco_model)
    loops = 500

    def repeat(call: Callable[[], None]) -> Callable[[], None]:
        def run() -> None:
            for _ in range(loops):
                call()

        return run

    def nothing() -> None:
        pass

    return {
        "step": loops / shortest_call_time(repeat(engine.step), nothing, seconds),
        "step(10)": 10 * loops / shortest_call_time(repeat(lambda: engine.step(10)), nothing, seconds),
        "mj_step": loops
        / shortest_call_time(repeat(lambda: mujoco.mj_step(case.mujoco_model, data)), nothing, seconds),
        "mj_step(10)": 10
        * loops
        / shortest_call_time(repeat(lambda: mujoco.mj_step(case.mujoco_model, data, 10)), nothing, seconds),
    }


# --------------------------------------------------------------------------------------------- MuJoCo C and MuJoCo Warp

MUJOCO_ENVS_PER_THREAD = 256
"""Environments per thread of MuJoCo C; its rate does not depend on the number."""


def measure_mujoco_c(case: BenchmarkCase, threads: int, seconds: float = 1.0) -> Measurement:
    """Measure MuJoCo C with its `rollout` module on one or several cores."""
    import mujoco
    from mujoco import rollout

    n_envs = MUJOCO_ENVS_PER_THREAD * threads
    commands = np.ascontiguousarray(case.random_controls(n_envs).transpose(2, 0, 1), dtype=np.float64)
    datas = [mujoco.MjData(case.mujoco_model) for _ in range(threads)]
    start = mujoco.mj_stateSize(case.mujoco_model, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    state = np.zeros(start)
    mujoco.mj_getState(case.mujoco_model, datas[0], state, mujoco.mjtState.mjSTATE_FULLPHYSICS)
    states = np.tile(state, (n_envs, 1))
    out = np.zeros((n_envs, ROLLOUT_STEPS, start))
    with rollout.Rollout(nthread=threads if threads > 1 else 0) as runner:
        best = shortest_call_time(
            lambda: runner.rollout([case.mujoco_model] * n_envs, datas, states, commands, state=out) and None,
            lambda: None,
            seconds,
        )
    finite = bool(np.isfinite(out).all())
    name = "MuJoCo C, one core" if threads == 1 else f"MuJoCo C, {threads} cores"
    return Measurement(name, n_envs, n_envs * ROLLOUT_STEPS / best, 0.0, finite, start * 8, 0.0)


def n_available_cores() -> int:
    """Number of cores for MuJoCo C."""
    return n_threads()


def has_mujoco_warp() -> bool:
    """Whether MuJoCo Warp is installed."""
    return importlib.util.find_spec("mujoco_warp") is not None


def measure_mujoco_warp(case: BenchmarkCase, n_envs: int, device: str, seconds: float = 1.0) -> Measurement:
    """Measure MuJoCo Warp with all steps of a rollout, each with its own controls, in one CUDA graph."""
    import mujoco
    import mujoco_warp as mjw  # pyright: ignore[reportMissingImports]
    import warp as wp

    commands = case.random_controls(n_envs)
    with wp.ScopedDevice(device):
        start = time.perf_counter()
        data = mujoco.MjData(case.mujoco_model)
        mujoco.mj_forward(case.mujoco_model, data)
        model = mjw.put_model(case.mujoco_model)
        most = 6 * case.mujoco_model.neq + 3 * case.mujoco_model.nv + 2 * case.mujoco_model.ntendon + 1
        batch = mjw.put_data(case.mujoco_model, data, nworld=n_envs, njmax=1 if case.unconstrained else most, nconmax=1)
        step_controls = [wp.array(np.ascontiguousarray(c.T), dtype=wp.float32) for c in commands]

        def rollout() -> None:
            for ctrl in step_controls:
                wp.copy(batch.ctrl, ctrl)
                mjw.step(model, batch)

        wp.copy(batch.ctrl, step_controls[0])
        mjw.step(model, batch)
        wp.synchronize()
        build_seconds = time.perf_counter() - start
        if not wp.get_device().is_cuda:
            best = shortest_call_time(rollout, wp.synchronize, seconds)
        else:
            with wp.ScopedCapture() as capture:
                rollout()
            graph: Any = capture.graph
            best = shortest_call_time(lambda: wp.capture_launch(graph), wp.synchronize, seconds)
        finite = bool(np.isfinite(batch.qpos.numpy()).all())
    return Measurement(
        "MuJoCo Warp", n_envs, n_envs * ROLLOUT_STEPS / best, float("nan"), finite, float("nan"), build_seconds
    )


# ------------------------------------------------------------------------------------- running all cases and simulators

ProgressCallback = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class BenchmarkResult:
    """Measurement of one simulator, compared with the reference simulator on the same hardware."""

    case: str
    n_dofs: int
    figures: Measurement
    reference: str
    ratio: float
    """Rate relative to the reference."""


def run_benchmark(
    files: Sequence[Path],
    env_counts: Sequence[int],
    device: str,
    seconds: float = 1.0,
    progress: ProgressCallback = lambda _: None,
    *,
    unconstrained: bool = False,
) -> Iterator[BenchmarkResult]:
    """Yield benchmark results of all robot files and simulators."""
    for file in files:
        case = load_case(file, unconstrained=unconstrained)
        progress(f"{case.name}: MuJoCo C")
        single = measure_mujoco_c(case, 1, seconds)
        yield _make_result(case, single, single)
        several = measure_mujoco_c(case, n_available_cores(), seconds) if n_available_cores() > 1 else None
        if several is not None:
            yield _make_result(case, several, single)
        for n_envs in env_counts:
            if device == "cpu":
                yield from _run_on_cpu(case, n_envs, seconds, single, several, progress)
            else:
                yield from _run_on_gpu(case, n_envs, device, seconds, single, progress)


def _run_on_cpu(
    case: BenchmarkCase,
    n_envs: int,
    seconds: float,
    one_core_reference: Measurement,
    all_cores_reference: Measurement | None,
    progress: ProgressCallback,
) -> Iterator[BenchmarkResult]:
    progress(f"{case.name}: Kinema, {n_envs} environments")
    for one_launch in (True, False):
        yield _make_result(
            case,
            measure_kinema(case, n_envs, "cpu", single_launch=one_launch, threads=1, seconds=seconds),
            one_core_reference,
        )
    if all_cores_reference is not None:
        yield _make_result(
            case, measure_kinema(case, n_envs, "cpu", single_launch=False, seconds=seconds), all_cores_reference
        )


def _run_on_gpu(
    case: BenchmarkCase,
    n_envs: int,
    device: str,
    seconds: float,
    one_core_reference: Measurement,
    progress: ProgressCallback,
) -> Iterator[BenchmarkResult]:
    reference = one_core_reference
    if has_mujoco_warp():
        progress(f"{case.name}: MuJoCo Warp, {n_envs} environments")
        reference = measure_mujoco_warp(case, n_envs, device, seconds)
        yield _make_result(case, reference, one_core_reference)
    progress(f"{case.name}: Kinema, {n_envs} environments")
    for one_launch in (True, False):
        yield _make_result(
            case, measure_kinema(case, n_envs, device, single_launch=one_launch, seconds=seconds), reference
        )


def _make_result(case: BenchmarkCase, measurement: Measurement, reference: Measurement) -> BenchmarkResult:
    return BenchmarkResult(
        case=case.name,
        n_dofs=case.model.n_dofs,
        figures=measurement,
        reference=reference.simulator,
        ratio=measurement.rate / reference.rate,
    )
