"""Train the small tasks with stable-baselines3, and write their learning curves to docs/learning.

    python tools/train.py [cartpole reach] [--seed 0] [--no-files]

Each has to reach its threshold within five minutes of the processor, on one core: the share of 256 episodes that end as
they should, under the policy without its noise, in environments that it was not trained in. Time is that of the
processor, so that a busy machine gives the same figures. Needs `pip install 'kinema[rl]'`.
"""

from __future__ import annotations

import argparse
import sys
import time
from dataclasses import dataclass, field
from typing import Any

import numpy as np

try:
    import torch  # pyright: ignore[reportMissingImports]
    from stable_baselines3 import PPO  # pyright: ignore[reportMissingImports]
except ImportError as missing:
    sys.exit(f"{missing}: pip install 'kinema[rl]'")

from curves import write_curve, write_picture

from kinema.apps import learn

SECONDS = 300.0
N_TRIED = 256


@dataclass(frozen=True)
class Recipe:
    """How a task is trained, and when it counts as learnt."""

    threshold: float
    n_envs: int = 256
    n_steps: int = 32
    batch_size: int = 2048
    n_epochs: int = 5
    learning_rate: float = 1e-3
    gamma: float = 0.99
    ent_coef: float = 0.0
    net: tuple[int, ...] = (64, 64)
    chunk: int = 10
    """Updates between two looks at the policy."""
    more: dict[str, Any] = field(default_factory=dict)


RECIPES = {
    "cartpole": Recipe(threshold=0.95, n_envs=128, gamma=0.98, batch_size=1024, n_epochs=6, chunk=20),
    "reach": Recipe(threshold=0.95, gamma=0.95, ent_coef=0.0, net=(128, 128), n_epochs=5),
}


@dataclass
class Look:
    """The policy, at one time."""

    seconds: float
    steps: int
    success: float
    reward: float
    """Of an episode, on the average."""


def tried(model: Any, env: learn.TaskEnv) -> tuple[float, float]:
    """The share of episodes that end as they should, and the reward of one."""
    obs, total, good = env.reset(seed=1)["policy"], 0.0, np.zeros(env.n_envs)
    for i in range(env.max_episode_length):
        action, _ = model.predict(obs, deterministic=True)
        if i == env.max_episode_length - 1:
            good = env.success()
        out = env.step(np.clip(action, -1.0, 1.0))
        obs, total = out.obs["policy"], total + float(out.reward.mean())
    return float(good.mean()), total


def train(task: str, seed: int) -> list[Look]:
    """Until the threshold is reached, or the time is over."""
    recipe = RECIPES[task]
    torch.manual_seed(seed)
    torch.set_num_threads(1)
    began = time.process_time()
    env = learn.Sb3Task(learn.make_env(task, recipe.n_envs, seed=seed))
    others = learn.make_env(task, N_TRIED, seed=seed + 1)
    model = PPO(
        "MlpPolicy",
        env,
        n_steps=recipe.n_steps,
        batch_size=recipe.batch_size,
        n_epochs=recipe.n_epochs,
        learning_rate=recipe.learning_rate,
        gamma=recipe.gamma,
        ent_coef=recipe.ent_coef,
        policy_kwargs={"net_arch": list(recipe.net)},
        seed=seed,
        device="cpu",
        **recipe.more,
    )
    looks: list[Look] = []
    while time.process_time() - began < SECONDS:
        model.learn(recipe.chunk * recipe.n_envs * recipe.n_steps, reset_num_timesteps=False)
        success, reward = tried(model, others)
        looks.append(Look(time.process_time() - began, int(model.num_timesteps), success, reward))
        print(
            f"{task}: {looks[-1].seconds:6.1f} s {looks[-1].steps:9,} steps  success {success:.3f}  reward {reward:.2f}"
        )
        if success >= recipe.threshold:
            break
    return looks


def write(task: str, looks: list[Look], seed: int) -> None:
    """The curve as numbers, and as a picture."""
    write_curve(
        task, ["seconds", "steps", "success", "reward"], [(x.seconds, x.steps, x.success, x.reward) for x in looks]
    )
    title = f"{task}, seed {seed}: success {looks[-1].success:.2f} after {looks[-1].seconds:.0f} s"
    points = [(0.0, 0.0), *((x.steps, x.success) for x in looks)]
    write_picture(task, title, points, RECIPES[task].threshold, (1.0, "100 %"))


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("tasks", nargs="*", default=list(RECIPES), metavar="task")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--no-files", action="store_true")
    options = parser.parse_args()
    failed = []
    for task in options.tasks or list(RECIPES):
        looks = train(task, options.seed)
        if not options.no_files:
            write(task, looks, options.seed)
        if looks[-1].success < RECIPES[task].threshold:
            failed.append(task)
    for task in failed:
        print(f"{task}: not learnt within {SECONDS:.0f} s", file=sys.stderr)
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
