"""Insert a peg that is held a little beside its slot: soft in the hand's sideways motion, and stiff.

    python examples/compliant_insertion.py [--envs 64] [--short] [--picture inserted.png]

The gripper of closed loops holds a peg over a slot with a chamfer on each side, up to 4 mm off. Half of the
environments hold their course sideways with a hundredth of the stiffness of the others: the chamfer leads the peg in,
and how hard it is pushed aside is seen in the force on the slot.
"""

from __future__ import annotations

import argparse
from pathlib import Path

import numpy as np
from holding import GRASP, close, on_slides
from photos import photograph

import kinema as km

WIDTH, CLEARANCE, DEPTH = 0.03, 0.001, 0.06
"""Of the peg; between it and the slot on each side; of the slot [m]."""
WALL, CHAMFER = 0.02, 0.008
SOFT, STIFF = 200.0, 20_000.0
"""Stiffness of the slide across [N/m]."""


def slot(scene: km.Scene) -> list[km.Entity]:
    """Two walls, and a slope before each."""
    made = []
    for side in (-1.0, 1.0):
        wall = side * (WIDTH / 2 + CLEARANCE + WALL / 2)
        slope = side * (WIDTH / 2 + CLEARANCE + CHAMFER / 2 + WALL / 8**0.5)
        grey = {"fixed": True, "color": (0.6, 0.6, 0.65), "friction": 0.2}
        made.append(scene.add(km.Box((WALL, 0.06, DEPTH)), pos=(wall, 0, DEPTH / 2), **grey))
        top = DEPTH + CHAMFER / 2 - WALL / 8**0.5
        tilt = -side * np.pi / 4
        made.append(scene.add(km.Box((CHAMFER * 2**0.5, 0.06, WALL)), pos=(slope, 0, top), euler=(0, tilt, 0), **grey))
    return made


def insert(n_envs: int, picture: Path | None = None) -> tuple[np.ndarray, np.ndarray]:
    """How deep pegs got [m], and how hard slots were pushed sideways at most [N]; soft ones first."""
    scene = km.Scene(quiet=True)
    walls = slot(scene)
    robot = scene.add(on_slides(), fixed=True, pos=(0, 0, DEPTH + 0.12 + GRASP))
    peg = scene.add(km.Box((WIDTH, 0.024, 0.1)), density=1500, friction=1.0, color=(0.85, 0.4, 0.2), name="peg")
    scene.build(n_envs, per_env=("kp", "kv"))
    across, up = robot.dofs_of("across"), robot.dofs_of("up")
    soft = np.arange(n_envs) < n_envs // 2
    robot.set_dofs_kp(np.where(soft, SOFT, STIFF)[:, None], across)
    robot.set_dofs_kv(np.where(soft, 20.0, 200.0)[:, None], across)
    robot.set_dofs_kp(20_000.0, up)
    robot.set_dofs_kv(300.0, up)
    off = np.tile(np.linspace(0.002, 0.004, n_envs // 2), 2)
    start = np.zeros((n_envs, robot.n_qs))
    start[:, across[0]] = off
    robot.set_qpos(start)
    peg.set_pos(np.stack([off, 0 * off, 0 * off + DEPTH + 0.095], axis=1))
    robot.control_dofs_position(off[:, None], across)
    robot.control_dofs_position(np.zeros((n_envs, 1)), up)
    robot.set_gravity([0.0, 0.0, 0.0])  # until it is held
    close(scene, robot)
    robot.set_gravity([0.0, 0.0, -9.81])
    push = np.zeros(n_envs)
    for down in np.linspace(0.0, 0.075, 40):
        robot.control_dofs_position(np.full((n_envs, 1), -down), up)
        scene.step(15)
        felt = sum(np.abs(wall.get_links_net_contact_force()[:, 0, 0]) for wall in walls)
        push = np.maximum(push, felt)
    if picture:
        photograph(scene, picture, (0.12, -0.42, 0.25), (0.0, 0.0, 0.11), envs=[0, n_envs - 1])
    return DEPTH + 0.05 - peg.get_pos()[:, 2], push


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--envs", type=int, default=64)
    parser.add_argument("--short", action="store_true", help="two pegs, one of them soft")
    parser.add_argument("--picture", type=Path)
    options = parser.parse_args()
    n_envs = 2 if options.short else options.envs
    depth, push = insert(n_envs, options.picture)
    half = n_envs // 2
    for name, own in (("soft", slice(0, half)), ("stiff", slice(half, None))):
        print(f"{name}: {depth[own].min() * 1e3:.1f} mm deep at least, pushed aside by {push[own].mean():.1f} N")
    assert (depth[:half] > 0.02).all(), "what gives way goes in"
    assert push[:half].mean() < push[half:].mean() / 2, "and is pushed less"


if __name__ == "__main__":
    main()
