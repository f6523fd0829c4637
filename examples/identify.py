"""Find a robot's parameters from a recorded trajectory: 1,024 guesses are simulated at once, the best breed the next.

    python examples/identify.py [--envs 1024] [--short] [--picture identified.svg]

A cart-pole with a heavier pole and more friction than its file says is recorded, as a real one would be. Guesses for
the mass of the pole and the damping of both joints, drawn by the cross-entropy method, are run against the recording.
"""

from __future__ import annotations

import argparse
import tempfile
from pathlib import Path

import numpy as np
from photos import plot

import kinema as km

CARTPOLE = Path(__file__).parent / "robots" / "cartpole" / "cartpole.xml"
TRUTH = np.array([1.6, 0.35, 0.02])
"""Mass of the pole against the file's, damping of cart [N s/m] and pole [N m s]."""


def built(n_envs: int) -> tuple[km.Scene, km.Entity]:
    scene = km.Scene(dt=0.01, contacts=False, limits=False, quiet=True)
    robot = scene.add(CARTPOLE)
    scene.build(n_envs, per_env=("mass_shift", "damping"))
    return scene, robot


def prepare(scene: km.Scene, robot: km.Entity, guesses: np.ndarray) -> None:
    """Give each environment the parameters of its guess, and start anew."""
    scene.reset()
    robot.set_mass_shift(robot.links[-1].mass * (guesses[:, :1] - 1.0), [robot.n_links - 1])
    robot.set_dofs_damping(guesses[:, 1:])
    robot.set_qpos([0.0, np.pi - 0.6])


def record(path: Path, forces: np.ndarray) -> None:
    """What the real one does, with a sensor's noise of a milliradian."""
    scene, robot = built(1)
    prepare(scene, robot, TRUTH[None])
    with scene.record(path):
        for force in forces:
            robot.control_dofs_force([force, 0.0])
            scene.step()
    with np.load(path) as file:
        arrays = dict(file)
    arrays["qpos"] = arrays["qpos"] + np.random.default_rng(1).normal(0.0, 1e-3, arrays["qpos"].shape)
    np.savez(path, **arrays)


def identify(recorded: np.ndarray, forces: np.ndarray, n_envs: int, rounds: int) -> tuple[np.ndarray, np.ndarray]:
    """The parameters that explain a recording best, and the trajectory they lead to."""
    scene, robot = built(n_envs)
    rng = np.random.default_rng(0)
    mean, spread = np.array([1.0, 0.2, 0.05]), np.array([0.5, 0.2, 0.05])
    for _ in range(rounds):
        guesses = np.maximum(rng.normal(mean, spread, (n_envs, 3)), [0.1, 0.0, 0.0])
        guesses[0] = mean
        prepare(scene, robot, guesses)
        error = np.zeros(n_envs)
        for force, there in zip(forces, recorded[1:], strict=True):
            robot.control_dofs_force([force, 0.0])
            scene.step()
            error += ((robot.get_qpos() - there) ** 2).sum(axis=1)
        best = guesses[np.argsort(error)[: max(4, n_envs // 16)]]
        mean, spread = best.mean(axis=0), best.std(axis=0) + 1e-4
    return mean, np.sqrt(error / len(forces) / 2)


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=1024)
    parser.add_argument("--short", action="store_true", help="fewer guesses")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    n_envs, rounds = (256, 8) if options.short else (options.envs, 14)
    forces = 4.0 * np.sin(np.cumsum(np.random.default_rng(2).uniform(0.0, 0.2, 150)))
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "real.npz"
        record(path, forces)
        with np.load(path) as file:
            recorded = file["qpos"][:, 0]
    found, errors = identify(recorded, forces, n_envs, rounds)
    for name, value, truth in zip(
        ("pole mass, against the file's", "cart damping", "pole damping"), found, TRUTH, strict=True
    ):
        print(f"{name}: {value:.4f}, in truth {truth:g}")
    print(f"what it explains the recording to: {errors[0] * 1e3:.2f} mrad or mm")
    if options.picture:
        time = 0.01 * np.arange(len(recorded))
        scene, robot = built(2)
        prepare(scene, robot, np.stack([found, [1.0, 0.0, 0.0]]))
        ways = [robot.get_qpos()[:, 1]]
        for force in forces:
            robot.control_dofs_force([force, 0.0])
            scene.step()
            ways.append(robot.get_qpos()[:, 1])
        found_way, files = np.array(ways).T
        curves = {"recorded": recorded[:, 1], "identified": found_way, "as the file says": files}
        plot(options.picture, {k: (time, v) for k, v in curves.items()}, "time [s]", "angle of the pole [rad]")
    np.testing.assert_allclose(found, TRUTH, rtol=0.05, atol=5e-3)


if __name__ == "__main__":
    main()
