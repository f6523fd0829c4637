"""A Panda with a sponge in its hand at a table, with sensors of the sponge's motion and of the contact force."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np

import kinema as km
from kinema.core import Pose
from kinema.description import PhysicsMaterial, Shape, SolverParameters, Sphere

PANDA = Path(__file__).parents[2] / "shared/assets/mjcf/franka_emika_panda/panda.xml"
"""Where the MJCF of MuJoCo Menagerie is looked for."""
SPONGE, RADIUS = np.array([0.0, 0.0, 0.12]), 0.03
"""Centre of the spherical sponge in the hand, and its radius [m]."""
HEIGHT = 0.4
"""Height of the table [m]."""
MOTORS = slice(0, 7)
"""Dofs that are driven; the fingers are closed."""


def build_panda(panda: Path, n_envs: int, dt: float, friction: float) -> tuple[km.Scene, km.Entity]:
    """The sponge 1 cm above the table, in equilibrium; only the sponge touches.

    Sensor values: position (3), quaternion (4), velocity (3) and angular velocity (3) of the sponge, and normal force.
    """
    if not panda.exists():
        raise SystemExit(f"{panda}: not found; --panda names the panda.xml of MuJoCo Menagerie")
    robot, scene = km.read(panda), km.Scene(dt=dt, precision="double", cone="elliptic", wait=True, quiet=True)
    solver = SolverParameters(solref=(0.1, 1.0), solimp=(0.1, 0.1, 0.001, 0.5, 2.0))
    soft = PhysicsMaterial(dynamic_friction=friction, static_friction=friction, solver=solver)
    sponge = Shape(name="sponge", geometry=Sphere(RADIUS), pose=Pose.translation(SPONGE), surface=soft)
    links = [replace(link, shapes=[replace(s, collision=False) for s in link.shapes]) for link in robot.links]
    links = [replace(link, shapes=[*link.shapes, sponge]) if link.name == "hand" else link for link in links]
    arm = scene.add(replace(robot, links=links))
    middle = (0.55, 0, HEIGHT - 0.025)
    scene.add(km.Box((0.5, 0.8, 0.05)), fixed=True, pos=middle, material=soft, color=(0.75, 0.65, 0.5))
    hand = {"link": arm.get_link("hand"), "pos": SPONGE}
    scene.add_sensor(km.FrameSensor(**hand, quantities=("pos", "quat", "vel", "ang")))
    scene.add_sensor(km.TouchSensor(**hand, volume=km.Sphere(2 * RADIUS)))
    scene.build(n_envs)
    above, bent = [0.55, 0.0, HEIGHT + RADIUS + 0.01 + SPONGE[2]], [0, 0, 0, -1.6, 0, 1.6, 0.785, 0, 0]
    arm.set_qpos(arm.inverse_kinematics("hand", above, (0, 1, 0, 0), init_qpos=bent))
    arm.control_dofs_force(arm.get_dofs_bias_force()[:, MOTORS], MOTORS)
    return scene, arm
