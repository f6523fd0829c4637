"""A GPU takes the steps that the interpreter takes: with one thread to an environment or several, rolled or not."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.builder import EntitySpec, build_model
from kinema.dynamics import ARRAYS, ControlMode, Engine, Integrator, Settings, trace_unrolled_step
from kinema.ir import interpret
from kinema.model import Model
from kinema.runtime import find_device, synchronise
from kit.assets import ROOT

from .arrays_for_tests import runs_of

ARM, QUADRUPED = "arm/arm.urdf", "quadruped/quadruped.xml"
N_ENVS = 77  # neither whole warps nor whole vectors


@pytest.fixture(scope="module", autouse=True)
def _gpu() -> None:
    try:
        find_device("cuda:0")
    except km.KinemaError:
        pytest.skip("there is no GPU here")


def model_of(file: str) -> Model:
    return build_model([EntitySpec(name="robot", description=km.read(ROOT / "examples" / "robots" / file))])


def engine(model: Model, device: str, integrator: Integrator, precision: str, **how: Any) -> Engine:
    """An engine in a random state that depends on the environment alone."""
    control = [ControlMode.ACTUATOR if model.n_actuators else ControlMode.FORCE] * model.n_dofs
    settings = Settings(integrator=integrator)
    made = Engine(model, settings, N_ENVS, find_device(device), precision=precision, control_modes=control, **how)
    rng = np.random.default_rng(0)
    made.array_view("vel").assign(rng.uniform(-0.5, 0.5, (model.n_dofs, N_ENVS)))
    made.array_view("command").assign(rng.uniform(-0.1, 0.1, (model.n_dofs, N_ENVS)))
    if model.n_actuators:
        made.array_view("ctrl").assign(rng.uniform(-0.5, 0.5, (model.n_actuators, N_ENVS)))
    return made


def interpreted(made: Engine, steps: int) -> np.ndarray:
    """The state that the engine is in, some steps later, by NumPy in double precision."""
    settings = replace(made.settings, n_partitions=1)
    program = trace_unrolled_step(made.model, settings)
    held = [info for info in ARRAYS if info.arena(settings) and info.count(made.model, settings)]
    arrays = {info.name: made.array_view(info.name).numpy().astype(np.float64) for info in held}
    arrays["error"] = np.zeros((1, N_ENVS))
    for _ in range(steps * runs_of(settings)):
        arrays |= interpret(program, arrays)
    return np.vstack([arrays["qpos"], arrays["vel"]])


def after(made: Engine, steps: int) -> np.ndarray:
    made.step(steps)
    synchronise(made.device)
    return np.vstack([made.array_view("qpos").numpy(), made.array_view("vel").numpy()])


@pytest.mark.parametrize("precision", ["single", "double"])
@pytest.mark.parametrize("integrator", list(Integrator))
@pytest.mark.parametrize("file", [ARM, QUADRUPED])
def test_the_gpu_steps_like_the_interpreter(file: str, integrator: Integrator, precision: str) -> None:
    model = model_of(file)
    near = {"single": 3e-4, "double": 1e-10}[precision]
    expected = interpreted(engine(model, "cuda:0", integrator, precision), 20)
    ways: list[dict[str, Any]] = [{"n_partitions": 1}, {"codegen": "loops"}]
    if file == QUADRUPED:  # which has limbs to share out
        ways += [{"n_partitions": 2}, {"n_partitions": 4}]
    for how in ways:
        found = after(engine(model, "cuda:0", integrator, precision, **how), 20)
        assert found == pytest.approx(expected, rel=near, abs=near), how


def test_two_runs_give_the_same_bits() -> None:
    model = model_of(QUADRUPED)
    one, two = (after(engine(model, "cuda:0", Integrator.IMPLICITFAST, "single"), 50) for _ in range(2))
    assert np.array_equal(one, two)


def test_a_captured_graph_does_what_single_launches_do() -> None:
    model = model_of(ARM)
    single, graph = (engine(model, "cuda:0", Integrator.IMPLICITFAST, "single") for _ in range(2))
    commands = np.random.default_rng(1).uniform(-1, 1, (5, model.n_dofs, N_ENVS))
    sequence = graph.allocate_control_sequence(5)
    for t in range(5):
        sequence.view(f"command {t}").assign(commands[t])
    graph.rollout(sequence, single_launch=False)()
    for command in commands:
        single.array_view("command").assign(command)
        single.step()
    synchronise(graph.device)
    assert np.array_equal(single.array_view("qpos").numpy(), graph.array_view("qpos").numpy())


def test_torch_sees_the_memory_itself() -> None:
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    made = engine(model_of(ARM), "cuda:0", Integrator.IMPLICITFAST, "single")
    seen = made.array_view("vel").to_torch()
    assert seen.is_cuda
    assert seen.shape == (made.model.n_dofs, N_ENVS)
    seen.zero_()
    torch.cuda.synchronize()
    assert not made.array_view("vel").numpy().any()
