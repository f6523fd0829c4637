"""Show on a GPU that a policy which lives there never sends anything through the host, and what it costs.

    python tools/torch_loop.py [--robot FILE] [--no-contacts] [--decimation 1] [--graph] [--envs 16384]
    python tools/torch_loop.py --task walk [--envs 4096]

A small network in PyTorch reads coordinates and velocities, and tells actuators or joints what to do for one or several
steps; environments are reset by a mask on the GPU. With `--graph` all of that is one CUDA graph (`Scene.capture`). With
`--task` it is a task of `kinema.apps.learn`, with all its observations, rewards, events and commands.
Two loops are timed: one that only steps, and one with the policy. In the second, CUDA's own profiler counts copies
between host and device. It runs on a CPU too (`--device cpu`), where there is nothing to count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import kinema as km
from kinema.apps import learn

ROOT = Path(__file__).parent.parent
ARM = ROOT / "examples" / "robots" / "arm" / "arm.urdf"
EPISODE = 100
"""Steps after which an environment starts again; each begins at another time."""
COUNTED = 20
"""Steps in which copies are counted."""


@dataclass
class Loop:
    """Two ways to go on."""

    name: str
    n_envs: int
    decimation: int
    step: Callable[[], None]
    """Without a policy."""
    once: Callable[[], None]
    """With one that looks and decides, and with environments that begin anew."""
    settle: Callable[[], None]
    """Wait for what is compiled ahead: its tables would be among the copies."""


def main() -> int:
    """Build, time both loops, count copies."""
    options = _options()
    try:
        import torch  # pyright: ignore[reportMissingImports]
    except ImportError:
        print("PyTorch is not installed here: nothing to show")
        return 0
    if options.device != "cpu" and not torch.cuda.is_available():
        print("there is no GPU that PyTorch could use here: nothing to show")
        return 0
    loop = task_loop(torch, options) if options.task else robot_loop(torch, options)
    for _ in range(COUNTED):
        loop.once()
    loop.settle()
    without, with_policy = (_rate(torch, loop, do, options) for do in (loop.step, loop.once))
    copied = _copies(torch, loop, options)
    found = {
        "of": loop.name,
        "environments": loop.n_envs,
        "steps to an action": loop.decimation,
        "steps per second without a policy": without,
        "steps per second with a policy": with_policy,
        "speed with a policy against without": round(with_policy / without, 3),
        f"copies between host and device in {COUNTED} steps": copied,
    }
    text = json.dumps(found, indent=2)
    if options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    print(text)
    good = not copied and with_policy >= 0.5 * without
    print(
        "nothing goes through the host, at half the speed or more" if good else "that is NOT the mark: half, no copies"
    )
    return 0 if good else 1


def policy_of(torch: Any, n_seen: int, n_actions: int, device: str) -> Any:
    """A small network."""
    layers = torch.nn
    return layers.Sequential(layers.Linear(n_seen, 64), layers.Tanh(), layers.Linear(64, n_actions), layers.Tanh()).to(
        device
    )


def robot_loop(torch: Any, options: Any) -> Loop:
    """A robot from a file: a policy looks, decides, steps and resets, all on the scene's device."""
    scene = km.Scene(device=options.device, quiet=True, out="torch", contacts=not options.no_contacts)
    robot = scene.add(options.robot)
    scene.build(options.envs)
    device = scene.built.engine.device.name
    acts = robot.n_actuators > 0
    policy = policy_of(torch, robot.n_qs + robot.n_dofs, robot.n_actuators if acts else robot.n_dofs, device)
    tell = robot.control if acts else robot.control_dofs_position
    age = torch.arange(scene.n_envs, device=device) % EPISODE

    def step() -> None:
        scene.step(options.decimation)

    def once() -> None:
        with torch.no_grad():
            tell(policy(torch.cat([robot.get_qpos(), robot.get_qvel()], dim=1)))
            step()
            age.add_(1)
            done = age >= EPISODE
            scene.reset(done)
            age.masked_fill_(done, 0)

    if options.graph:
        once = scene.capture(once)
    return Loop(options.robot.name, scene.n_envs, options.decimation, step, once, _settled(scene))


def task_loop(torch: Any, options: Any) -> Loop:
    """A task, in steps of the simulation: what a learner does, less learning."""
    env = learn.make_env(options.task, options.envs, options.device, arrays="torch")
    env.keeps_final_obs = False
    seen = [env.observe()["policy"]]
    policy = policy_of(torch, seen[0].shape[1], env.n_actions, env.scene.built.engine.device.name)

    def once() -> None:
        with torch.no_grad():
            seen[0] = env.step(policy(seen[0])).obs["policy"]

    def step() -> None:
        env.scene.step(env.task.decimation)

    return Loop(options.task, env.n_envs, env.task.decimation, step, once, _settled(env.scene))


def _settled(scene: km.Scene) -> Callable[[], None]:
    return lambda: scene.prepare(wait=True)


def _rate(torch: Any, loop: Loop, once: Callable[[], None], options: Any) -> float:
    """Steps of the simulation in a second, of all environments."""
    _wait(torch, options)
    since = time.perf_counter()
    for _ in range(options.steps):
        once()
    _wait(torch, options)
    return round(options.steps * loop.decimation * loop.n_envs / (time.perf_counter() - since))


def _copies(torch: Any, loop: Loop, options: Any) -> dict[str, int]:
    """Copies through the host that CUDA's profiler counts, by kind, without asynchronous ones to pinned memory."""
    if options.device == "cpu":
        return {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        for _ in range(COUNTED):
            loop.once()
        torch.cuda.synchronize()
    keys = {e.key: e.count for e in seen.key_averages() if "HtoD" in e.key or "DtoH" in e.key}
    return {key: count for key, count in keys.items() if "Pinned" not in key}  # asynchronous overflow counters


def _wait(torch: Any, options: Any) -> None:
    if options.device != "cpu":
        torch.cuda.synchronize()


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", type=Path, default=ARM)
    parser.add_argument("--task", default="", help="a task instead")
    parser.add_argument("--no-contacts", action="store_true")
    parser.add_argument("--decimation", type=int, default=1, help="steps to each action")
    parser.add_argument("--graph", action="store_true", help="record the loop as a CUDA graph")
    parser.add_argument("--envs", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
