"""Rollouts with gradients: programs that are kept, earlier pullbacks, checkpoints, sensors, clipping and flags."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics.engine import adjoint
from kinema.runtime import Arena, ArenaLayout, ArraySeries, Device, find_device, row_filler, warp

CARTPOLE = Path(__file__).parents[2] / "examples/robots/cartpole/cartpole.xml"
H = 1e-7


def built(source: Any, n_envs: int = 1, **options: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(device="cpu", precision="double", quiet=True, **options)
    entity = scene.add(str(source))
    scene.build(n_envs=n_envs)
    return scene, entity


@pytest.fixture(scope="module")
def cartpole() -> tuple[km.Scene, km.Entity]:
    return built(CARTPOLE, 2)


START = {"qpos": [0.1, 0.3], "qvel": [0.2, -0.1]}
CONTROL = np.random.default_rng(0).uniform(-1.0, 1.0, (12, 2, 1))


def rolled(scene: km.Scene, control: Array = CONTROL, **options: Any) -> tuple[km.gradients.Trajectory, Any]:
    return km.gradients.rollout(scene, control=control, state=START, **options)


def assert_same(found: dict[str, Any], expected: dict[str, Any]) -> None:
    np.testing.assert_array_equal(found["control"], expected["control"])
    for name in ("qpos", "qvel"):
        np.testing.assert_array_equal(found["state"][name], expected["state"][name])


def test_programs_are_made_once(cartpole: tuple[km.Scene, km.Entity], monkeypatch: pytest.MonkeyPatch) -> None:
    scene, _ = cartpole
    trajectory, pullback = rolled(scene)
    pullback(qpos=np.ones_like(trajectory.qpos))
    monkeypatch.setattr(adjoint, "DerivativeProgram", lambda *_: pytest.fail("made again"))
    monkeypatch.setattr(adjoint, "SolvedStep", lambda *_: pytest.fail("made again"))
    again, pullback = rolled(scene)
    np.testing.assert_array_equal(again.qpos, trajectory.qpos)
    pullback(qpos=np.ones_like(trajectory.qpos))


def test_earlier_pullbacks_are_not_changed_by_later_rollouts(cartpole: tuple[km.Scene, km.Entity]) -> None:
    """Nor by other gravity, controls, states or lengths, with and without checkpoints."""
    scene, robot = cartpole
    for limit in (adjoint.MAX_RECORDED_BYTES, 0):
        with pytest.MonkeyPatch.context() as patch:
            patch.setattr(adjoint, "MAX_RECORDED_BYTES", limit)
            trajectory, pullback = rolled(scene)
            weights = np.ones_like(trajectory.qpos)
            expected = pullback(qpos=weights)
            scene.set_gravity([0.0, 0.0, -3.0])
            other, other_pullback = rolled(scene, -2.0 * CONTROL[:5], hold=3)
            assert not np.array_equal(other.qpos, trajectory.qpos[:5])
            other_pullback(qvel=np.ones_like(other.qvel))
            robot.set_qpos([1.0, 1.0])
            before = robot.get_qpos()
            assert_same(pullback(qpos=weights), expected)
            np.testing.assert_array_equal(robot.get_qpos(), before)
            scene.set_gravity([0.0, 0.0, -9.81])
            assert_same(rolled(scene)[1](qpos=weights), expected)


@pytest.mark.parametrize("hold", [1, 5])
def test_checkpoints_give_the_same_bits(
    cartpole: tuple[km.Scene, km.Entity], hold: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    scene, _ = cartpole
    results = []
    for limit in (adjoint.MAX_RECORDED_BYTES, 0):
        monkeypatch.setattr(adjoint, "MAX_RECORDED_BYTES", limit)
        trajectory, pullback = rolled(scene, hold=hold)
        results.append((trajectory, pullback(qpos=np.ones_like(trajectory.qpos))))
    np.testing.assert_array_equal(results[0][0].qvel, results[1][0].qvel)
    assert_same(results[0][1], results[1][1])


@pytest.mark.parametrize("by", ["force", "position"])
def test_forces_and_targets_change_from_step_to_step(by: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Recorded states belong to the control of their own step; gradients match differences of each control."""
    scene, robot = built(CARTPOLE, 2)
    robot.control_dofs_position([0.0, 0.0])
    control = np.random.default_rng(3).uniform(-9.0, 9.0, (4, 2, 2))
    for limit in (adjoint.MAX_RECORDED_BYTES, 0):
        monkeypatch.setattr(adjoint, "MAX_RECORDED_BYTES", limit)
        trajectory, pullback = rolled(scene, control, by=by, hold=2)
        weights = np.random.default_rng(4).normal(size=trajectory.qvel.shape)
        found = pullback(qvel=weights)["control"]
        for index in np.ndindex(4, 1, 2):
            change = np.zeros_like(control)
            change[index] = 1e-5
            costs = [(rolled(scene, control + x, by=by, hold=2)[0].qvel * weights).sum() for x in (change, -change)]
            assert abs(found[index] - (costs[0] - costs[1]) / 2e-5) < 1e-6 * np.abs(found).max()


SENSORS = """
<mujoco><option timestep="0.01"/><worldbody>
<body name="a"><joint name="x" type="slide" axis="1 0 0" damping="0.5"/>
<joint name="z" type="slide" axis="0.1 0 1" limited="true" range="0 1"/><geom size="0.1" mass="1"/>
<site name="s"/></body></worldbody><actuator><motor name="u" joint="x" gear="3"/></actuator><sensor>
<jointpos joint="z"/><accelerometer site="s"/><actuatorfrc actuator="u"/><jointlimitfrc joint="z"/></sensor></mujoco>"""


@pytest.fixture(scope="module")
def slider(tmp_path_factory: pytest.TempPathFactory) -> tuple[km.Scene, km.Entity]:
    path = tmp_path_factory.mktemp("slider") / "slider.xml"
    path.write_text(SENSORS)
    return built(path, 2)


def test_sensor_values_and_their_gradients(slider: tuple[km.Scene, km.Entity], monkeypatch: pytest.MonkeyPatch) -> None:
    """Of accelerations and forces at a joint limit too, in a rollout with checkpoints as well."""
    scene, _ = slider
    generator = np.random.default_rng(1)
    control = generator.uniform(-1.0, 1.0, (9, 2, 1))
    start = {"qpos": np.array([[0.0, -0.002], [0.1, -0.001]]), "qvel": np.array([[0.3, 0.0], [0.1, 0.01]])}
    trajectory, pullback = km.gradients.rollout(scene, control=control, state=start, sensors=True)
    weights = generator.normal(size=trajectory.sensors.shape)
    found = pullback(sensors=weights)
    monkeypatch.setattr(adjoint, "MAX_RECORDED_BYTES", 0)
    assert_same(km.gradients.rollout(scene, control=control, state=start)[1](sensors=weights), found)
    direction = {"control": generator.normal(size=control.shape)}
    direction |= {name: generator.normal(size=x.shape) for name, x in start.items()}
    costs = []
    for h in (H, -H):
        state = {name: x + h * direction[name] for name, x in start.items()}
        other, _ = km.gradients.rollout(scene, control=control + h * direction["control"], state=state, sensors=True)
        costs.append(float((other.sensors * weights).sum()))
    gradient = float((found["control"] * direction["control"]).sum())
    gradient += sum(float((found["state"][name] * direction[name]).sum()) for name in start)
    assert abs(gradient - (costs[0] - costs[1]) / (2.0 * H)) < 1e-6 * abs(gradient)


def test_sensor_values_are_those_of_steps(slider: tuple[km.Scene, km.Entity]) -> None:
    scene, robot = slider
    scene.reset()
    control = np.random.default_rng(2).uniform(-1.0, 1.0, (20, 2, 1))
    trajectory, _ = km.gradients.rollout(scene, control=control, hold=2, sensors=True)
    scene.reset()
    for t, value in enumerate(control):
        robot.control(value)
        scene.step(2)
        np.testing.assert_array_equal(trajectory.sensors[t], scene.sensors.data)
    assert (trajectory.sensors[-1, :, -1] > 0.0).all()  # at the limit


def test_scenes_without_sensors_have_no_values(cartpole: tuple[km.Scene, km.Entity]) -> None:
    trajectory, pullback = rolled(cartpole[0], sensors=True)
    assert trajectory.sensors.shape == (12, 2, 0)
    assert not pullback(sensors=trajectory.sensors)["control"].any()
    assert rolled(cartpole[0])[0].sensors is None


def test_clipping_bounds_the_gradient_of_each_environment(cartpole: tuple[km.Scene, km.Entity]) -> None:
    """Equals the chain of clipped single steps; a large bound changes nothing."""
    scene, _ = cartpole
    trajectory, pullback = rolled(scene)
    weights = np.zeros_like(trajectory.qpos)
    weights[-1, 0], weights[-1, 1] = [1.0, 2.0], [100.0, -40.0]
    free, clipped = pullback(qpos=weights), pullback(qpos=weights, max_norm=3.0)
    assert_same(pullback(qpos=weights, max_norm=1e9), free)
    states = [START | {}, *({"qpos": trajectory.qpos[t], "qvel": trajectory.qvel[t]} for t in range(11))]
    by_state = np.concatenate([weights[-1], np.zeros((2, 2))], axis=1)
    for t in reversed(range(12)):
        _, step_pullback = km.gradients.rollout(scene, control=CONTROL[t : t + 1], state=states[t])
        found = step_pullback(qpos=by_state[None, :, :2], qvel=by_state[None, :, 2:])
        np.testing.assert_allclose(found["control"][0], clipped["control"][t], rtol=1e-9, atol=1e-12)
        by_state = np.concatenate([found["state"]["qpos"], found["state"]["qvel"]], axis=1)
        norm = np.linalg.norm(by_state, axis=1, keepdims=True)
        by_state *= np.minimum(1.0, 3.0 / norm)
    assert (np.linalg.norm(by_state, axis=1) <= 3.0 + 1e-9).all()
    np.testing.assert_allclose(clipped["state"]["qvel"], by_state[:, 2:], rtol=1e-9)
    assert np.linalg.norm(free["state"]["qvel"][1]) > 3.0


def test_unconverged_and_infinite_gradients_are_not_valid(slider: tuple[km.Scene, km.Entity], tmp_path: Path) -> None:
    path = tmp_path / "slider.xml"
    path.write_text(SENSORS.replace('timestep="0.01"', 'timestep="0.01" iterations="1"'))
    scene, _ = built(path, 2)
    trajectory, pullback = km.gradients.rollout(
        scene, control=np.zeros((3, 2, 1)), state={"qpos": [[0.0, 0.5], [0.0, -0.02]], "qvel": [5.0, 0.0]}
    )
    weights = np.ones_like(trajectory.qpos)
    np.testing.assert_array_equal(pullback(qpos=weights)["valid"], [True, False])
    assert not pullback(qpos=np.full_like(weights, 1e308))["valid"].any()


def test_torch_rollouts_and_tensors(slider: tuple[km.Scene, km.Entity]) -> None:
    """Tensors of controls give tensors of their dtype; sensors and clipped gradients are those of NumPy arrays."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    scene, _ = slider
    control = np.random.default_rng(8).uniform(-0.4, 0.4, (4, 2, 1))
    start = {"qpos": np.array([[0.0, -0.002], [0.1, 0.2]]), "qvel": np.zeros((2, 2))}
    trajectory, pullback = km.gradients.rollout(scene, control=control, state=start, sensors=True)
    weights = np.random.default_rng(9).normal(size=trajectory.sensors.shape)
    expected = pullback(sensors=weights, max_norm=2.0)
    for dtype, tolerance in ((torch.float64, 0.0), (torch.float32, 1e-4)):
        tensor = torch.tensor(control, dtype=dtype, requires_grad=True)
        state = {name: torch.tensor(x, dtype=dtype, requires_grad=True) for name, x in start.items()}
        after = km.gradients.torch_rollout(scene, state, tensor, sensors=True, max_norm=2.0)
        assert after["qpos"].dtype == dtype
        (after["sensors"] * torch.tensor(weights)).sum().backward()
        found = [tensor.grad, *(x.grad for x in state.values())]
        for x, y in zip(found, [expected["control"], *expected["state"].values()], strict=False):
            assert y.any()
            np.testing.assert_allclose(x.numpy(), y, rtol=tolerance, atol=tolerance * np.abs(y).max(initial=0.0))
        tensors, tensor_pullback = km.gradients.rollout(scene, control=tensor, state=state)
        gradients = tensor_pullback(qpos=torch.ones_like(tensors.qpos))
        assert gradients["control"].dtype == dtype
        assert gradients["valid"].dtype == torch.bool
        assert gradients["valid"].all()


def test_series_of_device_arrays() -> None:
    """Copies between arrays of Warp, which hold the memory of GPUs, move the rows that they name and no others."""
    wp = warp()

    class WarpDevice(Device):
        """A device whose arrays are those of Warp, on the host."""

        def zeros(self, shape: tuple[int, ...], precision: str, purpose: str) -> Any:
            return wp.zeros(shape, dtype=wp.float64, device="cpu")

    arena = Arena(ArenaLayout.from_sizes("state", [("x", 10)]), 3, WarpDevice("cpu"), "double")
    series = ArraySeries(2, 4, arena, "test")
    values = np.random.default_rng(5).normal(size=(2, 3, 4))
    series.assign(values)
    series.load(1, arena.data, 5)
    rows = arena.view("x").numpy()
    np.testing.assert_array_equal(rows[5:9], values[1].T)
    assert not rows[:5].any()
    assert not rows[9].any()
    row_filler(arena.data, 6, 2)(2.5)
    series.store(0, arena.data, 5)
    np.testing.assert_array_equal(series.numpy()[0], [values[1].T[0], [2.5] * 3, [2.5] * 3, values[1].T[3]])
    np.testing.assert_array_equal(series.numpy()[1], values[1].T)


def test_gradients_on_a_gpu_are_those_of_a_cpu() -> None:
    """With NumPy arrays and, if PyTorch is installed, with tensors, which stay on the GPU."""
    try:
        find_device("cuda:0")
    except KinemaError:
        pytest.skip("there is no GPU here")
    scenes = []
    for device in ("cpu", "cuda"):
        scene = km.Scene(device=device, precision="double", quiet=True)
        scene.add(str(CARTPOLE))
        scene.build(n_envs=2)
        scenes.append(scene)
    expected, found = (rolled(scene)[1](qpos=np.ones((12, 2, 2)), max_norm=5.0) for scene in scenes)
    np.testing.assert_allclose(found["control"], expected["control"], rtol=1e-9, atol=1e-12)
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    control = torch.tensor(CONTROL, device="cuda")
    trajectory, pullback = rolled(scenes[1], control)
    gradient = pullback(qpos=torch.ones_like(trajectory.qpos), max_norm=5.0)["control"]
    assert trajectory.qpos.is_cuda
    np.testing.assert_array_equal(gradient.cpu().numpy(), found["control"])


def test_errors(cartpole: tuple[km.Scene, km.Entity]) -> None:
    scene, _ = cartpole
    trajectory, pullback = rolled(scene)
    with pytest.raises(KinemaError, match=r"pullback: sensors must have the trajectory's shape \(12, 2, 0\), not"):
        pullback(sensors=np.zeros((12, 2, 1)))
    with pytest.raises(KinemaError, match="max_norm: expected a positive number"):
        pullback(qpos=trajectory.qpos, max_norm=0.0)
    with pytest.raises(KinemaError, match="rollout: sensors: expected True or False, not 1"):
        rolled(scene, sensors=1)
