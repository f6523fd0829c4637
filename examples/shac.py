"""Train a policy by the gradient of the simulation: short-horizon actor-critic (SHAC, Xu et al. 2022), with NumPy only.

    python examples/shac.py [--task cartpole|hopper] [--iterations 400] [--short] [--picture policy.png]

The gradient of the rewards of a short horizon, and of the value that a critic gives the last state, goes back through
simulation and policy in turn: `km.gradients.rollout` simulates one control, and the pullbacks are called in reverse
order. They clip gradients per environment (`max_norm`). The critic learns TD(lambda) targets of the same horizon.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np
from networks import Network, lambda_returns
from photos import photograph
from shac_tasks import TASKS, Task, build, play

import kinema as km

N_ENVS, HORIZON, LENGTH = 64, 32, 192
"""Environments, controls of a horizon, and of an episode."""
GAMMA, LAMBDA, NOISE, MAX_NORM, SCALE = 0.99, 0.95, 0.2, 100.0, 0.05
"""Discount, decay of traces, noise of controls before saturation, bound of gradients, scale of rewards."""


def train(task: Task, iterations: int) -> Network:
    """The policy after some iterations."""
    rng, (scene, robot), (n, m) = np.random.default_rng(0), build(task, N_ENVS), task.sizes
    actor, critic, n_qs = Network((n, 64, 64, m), rng, 0.1), Network((n, 64, 64, 1), rng), robot.n_qs
    target, x, age = critic.copy(), task.initial(N_ENVS, rng), HORIZON * rng.integers(0, 6, N_ENVS)

    def simulate(x: np.ndarray, u: np.ndarray) -> tuple:
        state = {"qpos": x[:, :n_qs], "qvel": x[:, n_qs:]}
        trajectory, pullback = km.gradients.rollout(scene, control=u[None], state=state, hold=task.hold)
        return np.column_stack([trajectory.qpos[0], trajectory.qvel[0]]), pullback

    simulate(x, np.zeros((N_ENVS, m)))[1](qpos=np.zeros((1, N_ENVS, n_qs)), max_norm=MAX_NORM)  # compiles
    start = time.process_time()
    for iteration in range(iterations):
        tape, over, rate = [], age >= LENGTH, 1.0 - 0.9 * iteration / iterations
        for _ in range(HORIZON):
            x, age = np.where(over[:, None], task.initial(N_ENVS, rng), x), np.where(over, 0, age)
            layers = actor.forward(task.observe(x))
            u = np.tanh(layers[-1] + NOISE * rng.normal(size=(N_ENVS, m)))
            after, pullback = simulate(x, u)
            over = task.is_over(after)
            tape.append((x, u, layers, pullback, [SCALE * r for r in task.reward(after, u)], over))
            x = after
        age += HORIZON
        value = target.forward(task.observe(x))
        by_x = task.pull_back(x, target.backward(value, np.ones((N_ENVS, 1))))
        for before, u, layers, pullback, (_, by_reward_x, by_reward_u), ended in reversed(tape):
            by_x = GAMMA * np.where(ended[:, None], 0.0, by_x) + by_reward_x
            found = pullback(qpos=by_x[None, :, :n_qs], qvel=by_x[None, :, n_qs:], max_norm=MAX_NORM)
            valid = found["valid"][:, None]
            by_u = np.where(valid, found["control"][0], 0.0) + by_reward_u
            by_observation = actor.backward(layers, -by_u * (1.0 - u**2))
            by_x = np.where(valid, np.column_stack([found["state"]["qpos"], found["state"]["qvel"]]), 0.0)
            by_x -= task.pull_back(before, by_observation)
        actor.update(1e-2 * rate)
        observations, rewards = (np.array(a) for a in zip(*((task.observe(s[0]), s[4][0]) for s in tape), strict=True))
        values = np.vstack([target(observations)[..., 0], value[-1].T])
        returns = lambda_returns(rewards, values, np.array([step[5] for step in tape]), GAMMA, LAMBDA)
        critic.fit(observations.reshape(-1, n), returns.reshape(-1, 1), 2e-3 * rate, rng)
        for slow, fast in zip(target.parameters, critic.parameters, strict=True):
            slow += 0.5 * (fast - slow)
        if iteration % 50 == 49:
            seconds, mean = time.process_time() - start, rewards.mean() / SCALE
            print(f"iteration {iteration + 1}: reward {mean:.2f}, {seconds:.0f} s of one core")
    return actor


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", choices=TASKS, default="cartpole")
    parser.add_argument("--iterations", type=int, default=400)
    parser.add_argument("--short", action="store_true", help="five iterations")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    task = TASKS[options.task]
    actor = train(task, 5 if options.short else options.iterations)
    states = play(task, N_ENVS, lambda observations: np.tanh(actor(observations)))
    text, share = task.success(states)
    print(f"{text}; {100 * share:.0f} % of {N_ENVS} succeed")
    if options.picture:
        moments = states[: len(states) // 2 : len(states) // 25, 0]
        scene, _ = build(task, 1, len(moments))
        for copy, moment in zip(scene.entities, moments, strict=True):
            copy.set_qpos(moment[: copy.n_qs])
        middle = moments[:, 0].mean()
        photograph(scene, options.picture, (middle, -6.0, 1.6), (middle, 0.0, 0.9), width=640)
    assert options.short or share > 0.8, "most environments succeed"


if __name__ == "__main__":
    main()
