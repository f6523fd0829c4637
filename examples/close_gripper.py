"""Open and close a gripper of two four-bar linkages 4,096 times at once, and see how well its loops hold.

    python examples/close_gripper.py [--envs 4096] [--device cpu]

The gripper is an SDFormat file whose fingers are closed loops; the right one mimics the left one. Each copy is sent
somewhere else every quarter of a second, as fast as its drive can.
"""

from __future__ import annotations

import argparse
import time
from pathlib import Path

import numpy as np

import kinema as km

GRIPPER = Path(__file__).parent / "robots" / "gripper" / "gripper.sdf"
SECONDS, REDRAW = 2.0, 0.25


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=4096)
    parser.add_argument("--device", default="cpu")
    options = parser.parse_args()
    scene = km.Scene(device=options.device, contacts=False)
    gripper = scene.add(GRIPPER, fixed=True)
    scene.build(options.envs)
    driver = gripper.get_joint("left_driver_joint").dofs_idx
    gripper.set_dofs_kp([2.0], driver)
    gripper.set_dofs_kv([0.1], driver)
    scene.prepare()
    rng = np.random.default_rng(0)
    gap, off, start = 0.0, 0.0, time.perf_counter()
    for _ in range(round(SECONDS / REDRAW)):
        gripper.control_dofs_position(rng.uniform(0.0, 0.8, (options.envs, 1)), driver)
        for _ in range(5):
            scene.step(round(REDRAW / scene.dt / 5))
            gap = max(gap, float(scene.link_equalities.gap.numpy().max()))
            off = max(off, float(np.abs(scene.couplings.error.numpy()).max()))
    seconds = time.perf_counter() - start
    steps = options.envs * round(SECONDS / scene.dt)
    print(f"{options.envs:,} grippers for {SECONDS:g} s: {steps / seconds / 1e6:.2f} million steps a second")
    print(f"loops ({', '.join(scene.link_equality_names)}) opened by {gap * 1e3:.4f} mm at most")
    wrong = int(scene.get_error_envs_mask().sum())
    print(f"the mimic joint was off by {off:.1e} rad at most; {wrong} copies went wrong")


if __name__ == "__main__":
    main()
