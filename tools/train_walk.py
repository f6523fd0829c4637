"""Train the quadruped to walk with rsl_rl's PPO, and write its policy as plain arrays and its learning curve.

    python tools/train_walk.py [--task walk] [--envs 4096] [--device cuda:0] [--seconds 240] [--policy FILE.npz]

It counts as learnt where, under the policy without its noise, the velocity is off by less than 0.25 m/s on the average
and fewer than 2 % of all episodes of 20 s end by a fall; pushes, noise of observations and changes of the command are
all in it. Time is that of the wall, compiling included. Needs `pip install rsl-rl-lib`.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from dataclasses import dataclass
from pathlib import Path
from typing import Any

try:
    import torch  # pyright: ignore[reportMissingImports]
    from rsl_rl.runners import OnPolicyRunner  # pyright: ignore[reportMissingImports]
except ImportError as missing:
    sys.exit(f"{missing}: pip install rsl-rl-lib")

from curves import write_curve, write_picture

from kinema.apps import learn
from kinema.apps.learn.tasks.walk import velocity_error

ROOT = Path(__file__).parent.parent
POLICY = ROOT / "examples" / "robots" / "quadruped" / "walk.npz"
ERROR, FALLS = 0.25, 0.02
"""What has to be undercut: how far off the velocity is [m/s], and the share of episodes that end by a fall."""
CHUNK = 10
"""Updates between two rows of the curve."""
N_STEPS = 24


def recipe(seed: int) -> dict[str, Any]:
    """What rsl_rl is told."""
    network = {"class_name": "MLPModel", "hidden_dims": [128, 128, 64], "activation": "elu"}
    return {
        "seed": seed,
        "num_steps_per_env": N_STEPS,
        "save_interval": 1 << 30,
        "check_for_nan": False,
        "obs_groups": {"actor": ["policy"], "critic": ["critic"]},
        "actor": {**network, "distribution_cfg": {"class_name": "GaussianDistribution", "init_std": 0.7}},
        "critic": network,
        "algorithm": {
            "class_name": "PPO",
            "num_learning_epochs": 5,
            "num_mini_batches": 4,
            "learning_rate": 1e-3,
            "schedule": "adaptive",
            "desired_kl": 0.01,
            "entropy_coef": 0.005,
            "gamma": 0.99,
            "lam": 0.95,
        },
    }


@dataclass
class Tally:
    """What happened in some steps, on the device until it is asked for."""

    error: Any = 0.0
    ended: Any = 0.0
    fell: Any = 0.0
    steps: int = 0

    def count(self, env: learn.TaskEnv, done: Any, time_outs: Any) -> None:
        """One more step."""
        self.error = self.error + velocity_error(env).mean()
        self.ended = self.ended + done.sum()
        self.fell = self.fell + (done.bool() & ~time_outs).sum()
        self.steps += 1

    def found(self) -> tuple[float, float]:
        """How far off velocities were, and the share of episodes that ended by a fall."""
        return float(self.error) / max(self.steps, 1), float(self.fell) / max(float(self.ended), 1.0)


class Counted(learn.RslTask):
    """The task, with a tally of its steps."""

    tally = Tally()

    def step(self, actions: Any) -> Any:
        obs, reward, done, extras = super().step(actions)
        self.tally.count(self.env, done, extras["time_outs"])
        return obs, reward, done, extras


def tried(env: Counted, policy: Any, seed: int = 1) -> tuple[float, float]:
    """One episode in every environment, without the policy's noise; those that fall begin anew."""
    env.env.reset(seed=seed)
    env.tally = Tally()
    with torch.inference_mode():
        obs = env.get_observations()
        for _ in range(env.max_episode_length):
            obs, *_ = env.step(policy(obs))
    return env.tally.found()


def train(options: Any) -> dict[str, Any]:
    """Until the time is over."""
    began = time.perf_counter()
    torch.manual_seed(options.seed)
    env = Counted(learn.make_env(options.task, options.envs, options.device, options.seed, "torch"), options.device)
    runner = OnPolicyRunner(env, recipe(options.seed), None, options.device)
    if options.start:
        _begin_with(runner, learn.Policy.load(options.start))
    env.step(torch.zeros(env.num_envs, env.num_actions, device=options.device))  # compiles
    built = time.perf_counter() - began
    rows: list[tuple[float, ...]] = []
    reached, last = None, 0.0
    while time.perf_counter() - began < options.seconds - last:
        since = time.perf_counter()
        env.tally = Tally()
        runner.learn(CHUNK, init_at_random_ep_len=not rows)
        error, falls = env.tally.found()
        rows.append((time.perf_counter() - began, (len(rows) + 1) * CHUNK * N_STEPS * options.envs, error, falls))
        print(f"{rows[-1][0]:6.1f} s {rows[-1][1]:11,} steps  off by {error:.3f} m/s  falls {falls:.3f}", flush=True)
        last = time.perf_counter() - since
        if reached is None and error < ERROR and falls < FALLS:
            reached = rows[-1][0]
            learn.Policy.from_torch(runner.alg.get_policy().mlp).save(options.policy)
    policy = runner.get_inference_policy(options.device)
    learn.Policy.from_torch(policy.mlp).save(options.policy)
    seconds = time.perf_counter() - began
    error, falls = tried(env, policy)
    return {
        "task": options.task,
        "environments": options.envs,
        "steps": int(rows[-1][1]) if rows else 0,
        "seconds": round(seconds, 1),
        "seconds of building": round(built, 1),
        "seconds until the noisy policy was good enough": reached and round(reached, 1),
        "velocity error": round(error, 4),
        "falls": round(falls, 5),
        "curve": rows,
    }


def _begin_with(runner: Any, policy: learn.Policy) -> None:
    """Go on from a policy that was learnt before, with less noise."""
    layers = [x for x in runner.alg.actor.mlp if hasattr(x, "weight")]
    with torch.no_grad():
        for layer, weight, bias in zip(layers, policy.weights, policy.biases, strict=True):
            layer.weight.copy_(torch.as_tensor(weight))
            layer.bias.copy_(torch.as_tensor(bias))
        for name, value in runner.alg.actor.distribution.named_parameters():
            if "std" in name:
                value.fill_(0.3)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--task", default="walk")
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--seconds", type=float, default=240.0)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--policy", type=Path, default=POLICY)
    parser.add_argument("--start", type=Path, help="a policy to go on from; with --seconds 0 it is only tried")
    parser.add_argument("--json", type=Path)
    parser.add_argument("--no-curve", action="store_true")
    options = parser.parse_args()
    if options.device == "cpu":
        torch.set_num_threads(1)
    found = train(options)
    rows = found.pop("curve")
    print(json.dumps(found, indent=2))
    if options.json:
        options.json.write_text(json.dumps({**found, "curve": rows}, indent=1) + "\n", encoding="utf-8")
    if rows and not options.no_curve:
        write_curve(options.task, ["seconds", "steps", "velocity_error", "falls"], rows)
        title = f"{options.task}: off by {found['velocity error']:.2f} m/s after {found['seconds']:.0f} s"
        write_picture(options.task, title, [(x[1], x[2]) for x in rows], ERROR, (0.8, "0.8"))
    return 0 if found["velocity error"] < ERROR and found["falls"] < FALLS else 1


if __name__ == "__main__":
    sys.exit(main())
