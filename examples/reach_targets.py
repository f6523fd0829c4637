"""Bring the hand of an arm to 100,000 places at once, and see how many of them it reaches, and how fast.

    python examples/reach_targets.py [--targets 100000] [--device cpu]

The places are those of random joint angles, so that all of them can be reached; where the first start leads nowhere,
others follow. Then the hand is led along a straight line, with the least jerk.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import kinema as km

ARM = Path(__file__).parent / "robots" / "arm" / "arm.urdf"
HAND = "tool_frame"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--targets", type=int, default=100_000)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    arm = km.Kinematics(ARM, device=options.device)
    lower, upper = (np.clip(limit, -np.pi, np.pi) for limit in arm.limits)
    q = np.random.default_rng(0).uniform(lower, upper, (options.targets, arm.n_qs))
    hand = arm.link_names.index(HAND)
    pos, quat = (x[:, hand] for x in arm.forward_kinematics(q))
    arm.inverse_kinematics(HAND, pos[:1], quat[:1])  # compiles
    start = time.perf_counter()
    found = arm.inverse_kinematics(HAND, pos, quat)
    seconds = time.perf_counter() - start
    share, rate = 100 * found.solved.mean(), options.targets / seconds
    print(f"{options.targets:,} targets, {rate:,.0f} a second: {share:.2f} % reached")
    print(f"{found.attempts.mean():.2f} starts and {found.iterations.mean():.1f} steps for each, on the average")

    home = found.qpos[0]
    share = km.kinematics.min_jerk_trajectory([0.0, 1.0], duration=2.0, dt=0.01).position
    line, turned = km.kinematics.interpolate_pose([pos[0], pos[0] + [0.0, 0.0, -0.05]], [quat[0], quat[0]], share)
    way = arm.inverse_kinematics(HAND, line, turned, init_qpos=home)
    off = np.abs(arm.forward_kinematics(way.qpos)[0][:, hand] - line).max()
    print(f"a line of 50 mm in {len(line)} points: {way.solved.sum()} reached, off by {off * 1e3:.3f} mm at most")


if __name__ == "__main__":
    main()
