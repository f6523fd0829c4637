"""Walk task: a quadruped tracks a commanded base velocity on flat or rough ground."""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from kinema.description import HeightField, Plane, Shape, World
from kinema.geometry import rough_terrain
from kinema.read import read
from kinema.scene import Entity, Scene

from .. import mdp
from ..builtin_terms import ActuatorAction, UniformVelocityCommand
from ..bundled_robots import robot_file
from ..task_env import Array, TaskEnv
from ..terms import DoneTerm, EventTerm, ObsGroup, ObsTerm, RewTerm, Task

LEGS = [f"{leg}_{part}_joint" for leg in ("FL", "FR", "RL", "RR") for part in ("hip", "thigh", "calf")]
STANCE = [0.0, 0.8, -1.6] * 4
"""Of these joints, as in the keyframe `home` [rad]."""
BUMP_HEIGHT, TERRAIN_SIZE, START_RANGE = 0.06, 48.0, 2.0
"""Height of bumps, extent of the rough ground, and how far from its middle episodes begin [m], far from its edge."""
SUCCESS_VELOCITY_ERROR = 0.25
"""How far off a velocity may be [m/s]."""


def walk() -> Task:
    """50 actions a second move the set points of twelve joints; velocities are asked for, and change on the way."""
    command = {"command_name": "velocity"}
    seen = {
        "speed": ObsTerm(func=mdp.base_lin_vel, noise=0.1, scale=2.0),
        "spin": ObsTerm(func=mdp.base_ang_vel, noise=0.2, scale=0.25),
        "down": ObsTerm(func=mdp.projected_gravity, noise=0.05),
        "command": ObsTerm(func=mdp.generated_commands, params=command, scale=(2.0, 2.0, 0.25)),
        "joints": ObsTerm(func=mdp.joint_pos_rel, params={"default": STANCE, "dofs": LEGS}, noise=0.01),
        "joint speeds": ObsTerm(func=mdp.joint_vel, params={"dofs": LEGS}, noise=1.5, scale=0.05),
        "action": ObsTerm(func=mdp.last_action),
    }
    return Task(
        name="walk",
        build=_build_flat_scene,
        scene={"dt": 0.005},
        keyframe="home",
        decimation=4,
        episode_length_s=20.0,
        actions={"legs": ActuatorAction(scale=0.25, offset=STANCE)},
        commands={"velocity": UniformVelocityCommand((-0.6, 1.0), (-0.4, 0.4), (-1.0, 1.0))},
        observations={"policy": ObsGroup(terms=seen, enable_corruption=True), "critic": ObsGroup(terms=seen)},
        rewards={
            "track speed": RewTerm(func=mdp.track_lin_vel_xy_exp, weight=1.5, params={**command, "std": 0.5}),
            "track spin": RewTerm(func=mdp.track_ang_vel_z_exp, weight=0.75, params={**command, "std": 0.5}),
            "bounce": RewTerm(func=mdp.lin_vel_z_l2, weight=-2.0),
            "wobble": RewTerm(func=mdp.ang_vel_xy_l2, weight=-0.05),
            "tilt": RewTerm(func=mdp.flat_orientation_l2, weight=-1.0),
            "upright": RewTerm(func=mdp.is_alive, weight=0.5),
            "stance": RewTerm(func=mdp.joint_deviation_l2, weight=-0.1, params={"default": STANCE, "dofs": LEGS}),
            "haste": RewTerm(func=mdp.joint_vel_l2, weight=-5e-4, params={"dofs": LEGS}),
            "jerky": RewTerm(func=mdp.action_rate_l2, weight=-0.02),
        },
        terminations={
            "time_out": DoneTerm(func=mdp.time_out, time_out=True),
            "fallen": DoneTerm(func=mdp.bad_orientation, params={"limit_angle": 1.0}),
            "collapsed": DoneTerm(func=mdp.root_height_below_minimum, params={"minimum_height": 0.15}),
        },
        events={
            "base": EventTerm(func=mdp.reset_root_uniform, params={"xy": 0.3, "yaw": np.pi, "velocity": 0.2}),
            "joints": EventTerm(func=mdp.reset_joints_by_offset, params={"position_range": (-0.1, 0.1), "dofs": LEGS}),
            "push": EventTerm(
                func=mdp.push_by_setting_velocity,
                mode="interval",
                interval_range_s=(5.0, 10.0),
                params={"velocity": 0.4},
            ),
        },
        success=tracks_velocity,
    )


def walk_rough() -> Task:
    """The same on bumps."""
    task = walk()
    events = dict(task.events)
    events["base"] = EventTerm(
        func=mdp.reset_root_uniform, params={"xy": START_RANGE, "yaw": np.pi, "velocity": 0.2, "height": BUMP_HEIGHT}
    )
    return replace(task, name="walk-rough", build=_build_rough_scene, events=events)


def tracks_velocity(env: TaskEnv) -> Array:
    """Whether the base goes as fast as it is asked to, within 0.25 m/s."""
    return velocity_error(env) < SUCCESS_VELOCITY_ERROR


def velocity_error(env: TaskEnv) -> Array:
    """How far off the velocity along x and y is [m/s], (n_envs,)."""
    off = env.commands["velocity"][:, :2] - mdp.base_lin_vel(env)[:, :2]
    return (off**2).sum(axis=1) ** 0.5


def _build_flat_scene(scene: Scene) -> dict[str, Entity]:
    ground = scene.add(World(name="floor", shapes=[Shape(name="floor", geometry=Plane())]))
    return {"ground": ground, "robot": _add_quadruped(scene)}


def _build_rough_scene(scene: Scene) -> dict[str, Entity]:
    bumps = rough_terrain((TERRAIN_SIZE, TERRAIN_SIZE), 0.2, BUMP_HEIGHT, seed=0, bump_width=0.4)
    shape = Shape(name="bumps", geometry=HeightField(heights=bumps.heights, size=bumps.size, base=bumps.base))
    ground = scene.add(World(name="bumps", shapes=[shape]))
    return {"ground": ground, "robot": _add_quadruped(scene)}


def _add_quadruped(scene: Scene) -> Entity:
    """The quadruped; its legs do not touch each other, which takes most pairs of shapes away."""
    robot = read(robot_file("quadruped/quadruped.xml"))
    robot.collision.self_collide = False
    return scene.add(robot)
