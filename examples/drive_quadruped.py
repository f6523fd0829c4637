"""Drive a walking quadruped in the browser, by keyboard, gamepad or mouse.

    python examples/drive_quadruped.py [--port 8080] [--speed 0.8] [--seconds 60]

The policy (`robots/quadruped/walk.npz`, learnt with `tools/train_walk.py`) follows the velocity that the page commands:
W and S walk, A and D turn, Q and E step sideways. A link that is dragged with Ctrl held pulls the robot.
"""

from __future__ import annotations

import argparse
import time
from dataclasses import replace

import numpy as np

from kinema.apps import learn

POLICY = "quadruped/walk.npz"


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--port", type=int, default=8080)
    parser.add_argument("--speed", type=float, default=0.8, help="at full deflection [m/s]")
    parser.add_argument("--seconds", type=float, default=np.inf, help="simulated time; default until Ctrl-C")
    options = parser.parse_args()
    task = learn.TASKS["walk"]()
    events = {name: event for name, event in task.events.items() if name != "push"}
    task = replace(task, build_options={"external_forces": True}, events=events)
    env = learn.make_env(task, 1, "cpu", arrays="numpy")
    policy = learn.Policy.load(learn.robot_file(POLICY))
    obs = env.reset(seed=1)
    viewer = env.scene.show(port=options.port)
    viewer.drive("program")
    viewer.follow()
    viewer.set_max_velocity(options.speed, 1.0)
    print(f"Open {viewer.address} and press W; Ctrl-C ends it.")
    due = time.monotonic()
    steps = 0
    try:
        while steps * env.step_dt < options.seconds:
            forward, left, _, yaw_rate = viewer.velocity_command
            env.commands["velocity"][:] = forward, left, yaw_rate
            obs = env.step(policy(obs["policy"])).obs
            viewer.update()
            steps += 1
            due = max(due + env.step_dt, time.monotonic())  # in real time, or as fast as it goes
            time.sleep(max(0.0, due - time.monotonic()))
    except KeyboardInterrupt:
        pass
    finally:
        viewer.close()
    x, y, _ = env.robot.get_pos()[0]
    print(f"after {steps * env.step_dt:g} s it is at ({x:.2f}, {y:.2f}) m")


if __name__ == "__main__":
    main()
