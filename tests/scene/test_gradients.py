"""Gradients of trajectories, against differences along random directions and against the Jacobians of a step."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import numpy as np
import pytest

import kinema as km
from kinema.core import Array, KinemaError
from kinema.dynamics.engine.tangent_space import TangentSpace
from kit.choosing import representatives

FEATURES = Path(__file__).parents[1] / "dynamics/features.xml"
ROBOTS = Path(__file__).parents[2] / "examples/robots"
H = 1e-6


def built(source: Path, n_envs: int = 1, **options: Any) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(device="cpu", precision="double", quiet=True, **options)
    entity = scene.add(str(source))
    scene.build(n_envs=n_envs)
    return scene, entity


def parts(scene: km.Scene) -> dict[str, Array]:
    engine = scene.built.engine
    names = {"qpos": "qpos", "qvel": "vel"}
    return {name: np.array(engine.read_array(array).T, np.float64) for name, array in names.items()}


def assert_gradients_match_differences(
    scene: km.Scene, control: Array, seed: int, tolerance: float = 1e-6, **options: Any
) -> None:
    """<dy, y(x + h dx) - y(x - h dx)> / 2 h equals <gradient, dx> for a random direction of states and controls.

    Directions of quaternions are tangents, as those of the coordinates of states that are reached.
    """
    generator, start = np.random.default_rng(seed), parts(scene)
    trajectory, pullback = km.gradients.rollout(scene, control=control, state=start, **options)
    weights = {name: generator.normal(size=getattr(trajectory, name).shape) for name in ("qpos", "qvel")}
    found = pullback(**weights)
    assert found["valid"].all()
    velocity = generator.normal(size=start["qvel"].shape)
    direction = generator.normal(size=control.shape)
    step = {"qpos": np.zeros_like(start["qpos"]), "qvel": generator.normal(size=start["qvel"].shape)}
    for sign in (0.5, -0.5):  # the tangent of the coordinates is a velocity
        engine = scene.built.engine
        engine.array_view("qpos").assign(start["qpos"].T)
        step["qpos"] += np.sign(sign) * move(scene, start["qpos"], sign * H * velocity) / H
    costs = []
    for sign in (1.0, -1.0):
        moved = {
            "qpos": move(scene, start["qpos"], sign * H * velocity),
            "qvel": start["qvel"] + sign * H * step["qvel"],
        }
        other, _ = km.gradients.rollout(scene, control=control + sign * H * direction, state=moved, **options)
        costs.append(sum(float((getattr(other, name) * w).sum()) for name, w in weights.items()))
    expected = (costs[0] - costs[1]) / (2.0 * H)
    state = found["state"]
    terms = [state["qpos"] * step["qpos"], state["qvel"] * step["qvel"], found["control"] * direction]
    gradient = sum(float(x.sum()) for x in terms)
    assert abs(gradient - expected) <= tolerance * sum(float(np.abs(x).sum()) for x in terms)


def move(scene: km.Scene, qpos: Array, displacement: Array) -> Array:
    return TangentSpace(scene.built.model).move(qpos.T, displacement.T).T


@pytest.mark.parametrize("integrator", representatives(["rk4", "implicitfast", "implicit", "euler"], 2))
def test_joints_actuators_and_tendons(integrator: str) -> None:
    scene, robot = built(FEATURES, 2, integrator=integrator)
    generator = np.random.default_rng(1)
    robot.set_qvel(generator.uniform(-1.0, 1.0, (2, robot.n_dofs)))
    control = generator.uniform(-0.4, 0.4, (7, 2, robot.n_actuators))
    assert_gradients_match_differences(scene, control, 2)


def test_a_hundred_steps_of_an_arm() -> None:
    scene, arm = built(ROBOTS / "arm/arm.urdf", contacts=False)
    home = np.array([0.1, 0.2, -0.1, 0.3, 0.1, 0.2, 0.02, 0.02])
    arm.set_qpos(home)
    arm.control_dofs_position(home)
    control = home + np.random.default_rng(3).uniform(-1.0, 1.0, (25, 1, 8)) * [*[0.2] * 6, 0.002, 0.002]
    assert_gradients_match_differences(scene, control, 4, 1e-5, by="position", hold=4)


BALL = """<mujoco><option cone="elliptic"/><worldbody><geom type="plane" size="2 2 .1"/>
<body pos="0 0 0.0995"><freejoint/><geom size="0.1" condim="4" friction="0.6 0.02"/></body></worldbody></mujoco>"""


def test_a_ball_that_slides_and_rolls(tmp_path: Path) -> None:
    """With friction of the contact, and without controls."""
    (tmp_path / "ball.xml").write_text(BALL)
    scene, ball = built(tmp_path / "ball.xml", 2)
    ball.set_qvel([[1.0, 0.2, 0.0, 0.1, 0.3, 0.5], [0.1, 0.0, 0.0, 0.0, 1.0, 0.2]])
    scene.step(3)
    assert (scene.get_contacts().n == 1).all()
    assert_gradients_match_differences(scene, np.zeros((8, 2, 0)), 8, 1e-5, hold=2)


@pytest.mark.exhaustive
def test_a_quadruped_on_the_floor() -> None:
    """Contacts with friction begin, slide and end."""
    scene, robot = built(ROBOTS / "quadruped/scene.xml", 2)
    scene.reset(keyframe="home")
    generator = np.random.default_rng(5)
    scene.step(60)
    home = np.array(robot.get_qpos()[:, 7:])
    assert (scene.get_contacts().n > 0).all()
    control = home + generator.uniform(-0.1, 0.1, (6, 2, robot.n_actuators))
    assert_gradients_match_differences(scene, control, 6, 1e-5, hold=2)


def test_one_step_equals_the_jacobians() -> None:
    scene, robot = built(ROBOTS / "cartpole/cartpole.xml", 2)
    robot.set_qpos([[0.1, 0.3], [-0.2, 2.0]])
    jacobians = scene.linearize()
    control = np.array([[[0.5], [-0.3]]])
    robot.control(control[0])
    jacobians = scene.linearize()
    _, pullback = km.gradients.rollout(scene, control=control)
    for i in range(2):
        weights = {name: np.zeros((1, 2, 2)) for name in ("qpos", "qvel")}
        weights["qvel"][0, :, i] = 1.0
        found = pullback(**weights)
        np.testing.assert_allclose(found["state"]["qpos"], jacobians.A[:, 2 + i, :2], atol=1e-12)
        np.testing.assert_allclose(found["state"]["qvel"], jacobians.A[:, 2 + i, 2:], atol=1e-12)
        np.testing.assert_allclose(found["control"][0], jacobians.B[:, 2 + i], atol=1e-12)


def test_trajectories_are_those_of_steps() -> None:
    """Bit for bit, with the scene in the final state; pullbacks repeat exactly."""
    scenes = [built(ROBOTS / "cartpole/cartpole.xml", 3) for _ in range(2)]
    control = np.random.default_rng(7).uniform(-1.0, 1.0, (10, 3, 1))
    trajectory, pullback = km.gradients.rollout(scenes[0][0], control=control, hold=2)
    for t, value in enumerate(control):
        scenes[1][1].control(value)
        scenes[1][0].step(2)
        np.testing.assert_array_equal(trajectory.qpos[t], scenes[1][1].get_qpos())
    np.testing.assert_array_equal(scenes[0][1].get_qvel(), scenes[1][1].get_qvel())
    assert scenes[0][0].time == scenes[1][0].time
    weights = np.ones_like(trajectory.qpos)
    first, second = pullback(qpos=weights), pullback(qpos=weights)
    np.testing.assert_array_equal(first["control"], second["control"])


def test_torch(tmp_path: Path) -> None:
    """PyTorch's own check in double precision, and the same gradients by its optimisers' functions."""
    torch = pytest.importorskip("torch", reason="PyTorch is not installed")
    scene, _ = built(ROBOTS / "cartpole/cartpole.xml", 2)
    state = {
        "qpos": torch.tensor([[0.1, 0.2], [0.3, -0.4]], dtype=torch.float64, requires_grad=True),
        "qvel": torch.zeros((2, 2), dtype=torch.float64, requires_grad=True),
    }
    control = torch.full((3, 2, 1), 0.2, dtype=torch.float64, requires_grad=True)

    def simulate(qpos: Any, qvel: Any, control: Any) -> Any:
        after = km.gradients.torch_rollout(scene, {"qpos": qpos, "qvel": qvel}, control)
        return after["qpos"], after["qvel"]

    assert torch.autograd.gradcheck(simulate, (state["qpos"], state["qvel"], control))
    after = km.gradients.torch_step(scene, state, control[0])
    after["qpos"].square().sum().backward()
    assert state["qvel"].grad.abs().sum() > 0


def test_errors() -> None:
    scene, _ = built(ROBOTS / "cartpole/cartpole.xml", 2)
    with pytest.raises(KinemaError, match=r"control must have shape \(n_controls, 2, 1\) or \(n_controls, 1\)"):
        km.gradients.rollout(scene, control=np.zeros((3, 2, 2)))
    with pytest.raises(KinemaError, match="state has qpos, qvel, act, not 'velocity'"):
        km.gradients.rollout(scene, control=np.zeros((3, 1)), state={"velocity": [0.0, 0.0]})
    with pytest.raises(KinemaError, match="expected finite numbers, not nan"):
        km.gradients.rollout(scene, control=np.full((3, 1), np.nan))
    _, pullback = km.gradients.rollout(scene, control=np.zeros((3, 1)))
    with pytest.raises(KinemaError, match=r"qpos must have the trajectory's shape \(3, 2, 2\), not \(2, 2\)"):
        pullback(qpos=np.zeros((2, 2)))
