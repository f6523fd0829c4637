"""Cartpole task: swing the pole up and balance it."""

from __future__ import annotations

import numpy as np

from kinema.scene import Entity, Scene

from .. import mdp
from ..builtin_terms import ActuatorAction
from ..bundled_robots import robot_file
from ..task_env import Array, TaskEnv
from ..terms import DoneTerm, EventTerm, ObsGroup, ObsTerm, RewTerm, Task

CART, POLE = ["slider"], ["hinge"]


def cartpole() -> Task:
    """In every other episode it hangs to begin with, else it is anywhere; 25 actions a second push the cart."""
    return Task(
        name="cartpole",
        build=_build_scene,
        scene={"dt": 0.01, "contacts": False},
        keyframe="hanging",
        decimation=4,
        episode_length_s=10.0,
        actions={"push": ActuatorAction(["slide"])},
        observations={
            "policy": ObsGroup(
                terms={
                    "cart": ObsTerm(func=mdp.joint_pos, params={"dofs": CART}, scale=0.5),
                    "pole": ObsTerm(func=mdp.joint_sin_cos, params={"dofs": POLE}),
                    "cart speed": ObsTerm(func=mdp.joint_vel, params={"dofs": CART}, scale=0.3),
                    "pole speed": ObsTerm(func=mdp.joint_vel, params={"dofs": POLE}, scale=0.1),
                }
            )
        },
        rewards={
            "upright": RewTerm(func=mdp.pole_upright, weight=1.0, params={"dofs": POLE}),
            "standing": RewTerm(func=is_standing, weight=1.0),
            "centred": RewTerm(func=mdp.joint_pos_l2, weight=-0.1, params={"dofs": CART}),
            "effort": RewTerm(func=mdp.action_l2, weight=-0.02),
        },
        terminations={"time_out": DoneTerm(func=mdp.time_out, time_out=True)},
        events={
            "shaken": EventTerm(
                func=mdp.reset_joints_by_offset,
                params={"position_range": (-0.3, 0.3), "velocity_range": (-0.3, 0.3), "dofs": [*CART, *POLE]},
            ),
            "anywhere": EventTerm(func=randomize_pole_angle, params={"share": 0.5}),
        },
        success=is_standing,
    )


def is_standing(env: TaskEnv) -> Array:
    """Whether the pole stands, within 0.2 rad, almost at rest, less than a metre from the middle."""
    (x, angle), (_, spin) = env.robot.get_dofs_position().T, env.robot.get_dofs_velocity().T
    tilt = abs((angle + np.pi) % (2 * np.pi) - np.pi)
    return (tilt < 0.2) & (abs(spin) < 1.0) & (abs(x) < 1.0)


def randomize_pole_angle(env: TaskEnv, envs: Array, share: float) -> None:
    """In a share of episodes the pole begins at any angle: what standing is worth is seen before it is swung up."""
    chosen = envs & (env.arrays.uniform(0.0, 1.0, (env.n_envs,)) < share)
    mdp.reset_joints_by_offset(env, chosen, (-np.pi, np.pi), dofs=POLE)


def _build_scene(scene: Scene) -> dict[str, Entity]:
    return {"robot": scene.add(robot_file("cartpole/cartpole.xml"))}
