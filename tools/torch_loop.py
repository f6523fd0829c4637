"""Show on a GPU that a policy which lives there never sends anything through the host, and what it costs.

    python tools/torch_loop.py [--robot FILE] [--envs 16384] [--steps 300] [--device cuda:0] [--json FILE]

A small network in PyTorch reads joint positions and velocities, and says joint targets; environments are reset by a
mask on the GPU. Two loops are timed: one that only steps, and one with the policy. In the second, CUDA's own profiler
counts copies between host and device. It runs on a CPU too (`--device cpu`), where there is nothing to count.
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from pathlib import Path
from typing import Any

import kinema as km

ROOT = Path(__file__).parent.parent
ARM = ROOT / "examples" / "robots" / "arm" / "arm.urdf"
EPISODE = 100
"""Steps after which an environment starts again; each begins at another time."""


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
    scene = km.Scene(device=options.device, quiet=True, out="torch")
    robot = scene.add(options.robot, fixed=True)
    scene.build(options.envs)
    loop = Loop(torch, scene, robot)
    loop.run(20)
    found = {
        "robot": options.robot.name,
        "environments": options.envs,
        "steps per second without a policy": _rate(torch, scene, options, scene.step),
        "steps per second with a policy": _rate(torch, scene, options, loop.once),
        "copies between host and device": _copies(torch, loop, options),
    }
    slower = found["steps per second with a policy"] / found["steps per second without a policy"]
    found["speed with a policy against without"] = round(slower, 3)
    text = json.dumps(found, indent=2)
    if options.json:
        Path(options.json).write_text(text + "\n", encoding="utf-8")
    print(text)
    copied = found["copies between host and device"]
    return 1 if copied or slower < 0.5 else 0


class Loop:
    """A policy that looks, decides, steps and resets, all on the scene's device."""

    def __init__(self, torch: Any, scene: km.Scene, robot: km.Entity) -> None:
        self.torch, self.scene, self.robot = torch, scene, robot
        device = scene.running.engine.device.name
        layers = torch.nn
        self.policy = layers.Sequential(
            layers.Linear(2 * robot.n_dofs, 64), layers.Tanh(), layers.Linear(64, robot.n_dofs), layers.Tanh()
        ).to(device)
        self.age = torch.arange(scene.n_envs, device=device) % EPISODE

    def once(self) -> None:
        """One step."""
        with self.torch.no_grad():
            seen = self.torch.cat([self.robot.get_dofs_position(), self.robot.get_dofs_velocity()], dim=1)
            self.robot.control_dofs_position(self.policy(seen))
            self.scene.step()
            self.age += 1
            done = self.age >= EPISODE
            self.scene.reset(done)
            self.age.masked_fill_(done, 0)

    def run(self, steps: int) -> None:
        """Several."""
        for _ in range(steps):
            self.once()


def _rate(torch: Any, scene: km.Scene, options: Any, once: Any) -> float:
    """Steps of environments in a second."""
    _wait(torch, options)
    since = time.perf_counter()
    for _ in range(options.steps):
        once()
    _wait(torch, options)
    return round(options.steps * scene.n_envs / (time.perf_counter() - since))


def _copies(torch: Any, loop: Loop, options: Any) -> dict[str, int]:
    """What CUDA's profiler saw go through the host in 20 steps, by kind."""
    if options.device == "cpu":
        return {}
    with torch.profiler.profile(activities=[torch.profiler.ProfilerActivity.CUDA]) as seen:
        loop.run(20)
        torch.cuda.synchronize()
    return {e.key: e.count for e in seen.key_averages() if "HtoD" in e.key or "DtoH" in e.key}


def _wait(torch: Any, options: Any) -> None:
    if options.device != "cpu":
        torch.cuda.synchronize()


def _options() -> Any:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--robot", type=Path, default=ARM)
    parser.add_argument("--envs", type=int, default=16384)
    parser.add_argument("--steps", type=int, default=300)
    parser.add_argument("--device", default="cuda:0")
    parser.add_argument("--json", default="")
    return parser.parse_args()


if __name__ == "__main__":
    sys.exit(main())
