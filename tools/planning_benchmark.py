"""Motion planning benchmark: random shelf-and-table problems of a 7-dof arm on one core, solutions verified by coal.

    python -m tools.planning_benchmark PANDA.urdf [--problems 100] [--seed 0] [--json FILE]

Start and goal are random configurations without collisions: one with the hand above a table with boxes, the other with
the hand in a compartment of a shelf. Measured is the processor time from the request to the timed trajectory; a first
problem that is not counted compiles the programs. Configurations of the trajectory, 2 ms apart, are verified with the
kinematics of Pinocchio and the distances of coal.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
import time
from pathlib import Path

import numpy as np
from tests.kinematics.shelf_problems import (
    ARM_DOFS,
    CoalVerifier,
    build_scene,
    link_pairs,
    random_configurations,
    random_problem,
)

import kinema as km

TIME_LIMIT = 1.0


def main(arguments: argparse.Namespace) -> int:
    """Solve the problems and print a table of the results."""
    if hasattr(os, "sched_setaffinity"):
        os.sched_setaffinity(0, {sorted(os.sched_getaffinity(0))[0]})
    robot = km.read(arguments.robot)
    assert isinstance(robot, km.Robot)
    rng = np.random.default_rng(arguments.seed)
    rows, verifier = [], None
    while len(rows) <= arguments.problems:
        problem = random_problem(rng)
        _, arm = build_scene(robot, problem)
        ends = random_configurations(arm, problem, rng)
        if ends is None:
            continue
        verifier = verifier or CoalVerifier(arguments.robot, robot, link_pairs(arm))
        arm.set_qpos(ends[0])
        row = {"seconds": np.nan, "distance": np.nan}
        began = time.process_time()
        try:
            plan = arm.plan_path(ends[1], dofs_idx=range(ARM_DOFS), timeout=10.0, dt=0.002, return_plans=True)[0]
        except km.kinematics.PlanningError as error:
            print(f"{len(rows):4} {error}")
        else:
            row["seconds"] = time.process_time() - began
            row["distance"] = verifier.smallest_distance(problem, plan.trajectory.position)
            row |= {
                "configurations": plan.n_configurations,
                "waypoints": len(plan.waypoints),
                "length": float(np.linalg.norm(np.diff(plan.waypoints, axis=0), axis=1).sum()),
                "straight": float(np.linalg.norm(ends[1] - ends[0])),
                "duration": float(plan.trajectory.time[-1]),
            }
            print(f"{len(rows):4}", *(f"{name} {value:.4g}" for name, value in row.items()), flush=True)
        rows.append(row)
    rows = rows[1:]
    seconds, distance = (np.array([row[name] for row in rows]) for name in ("seconds", "distance"))
    is_solved = (seconds <= TIME_LIMIT) & (distance > 0.0)
    print(f"{is_solved.sum()} of {len(rows)} solved in {TIME_LIMIT:g} s without collisions")
    print(f"collisions found by coal: {(distance <= 0.0).sum()}; no path: {np.isnan(seconds).sum()}")
    print("seconds, percentiles 50, 90, 95, 100:", *np.nanpercentile(seconds, [50, 90, 95, 100]).round(3))
    print("smallest distance [m]:", np.nanmin(distance))
    if arguments.json:
        arguments.json.write_text(json.dumps(rows, indent=1))
    return 0 if is_solved.mean() >= 0.95 and not (distance <= 0.0).any() else 1


if __name__ == "__main__":
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("robot", type=Path, help="URDF of a Franka Panda")
    parser.add_argument("--problems", type=int, default=100)
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--json", type=Path)
    sys.exit(main(parser.parse_args()))
