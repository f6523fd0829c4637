"""Functions that terms are made of: what is seen, what is rewarded, what ends an episode, what happens.

They are called with the running task; `entity` is the name of what they look at. Names are those of Isaac Lab and mjlab
where there are any.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from .running import TaskEnv

Array = np.ndarray
Range = tuple[float, float]


def rotated_back(quat: Array, vector: Array) -> Array:
    """Vectors of the world, (n, 3), along the axes of what is turned by quaternions, (n, 4)."""
    w, xyz = quat[:, :1], quat[:, 1:]
    twice = 2.0 * np.cross(xyz, vector)
    return vector - w * twice + np.cross(xyz, twice)


# ------------------------------------------------------------------------------------------------------- what is seen


def joint_pos(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Positions of joints [m, rad]."""
    return env.entities[entity].get_dofs_position(dofs)


def joint_pos_rel(env: TaskEnv, default: Any, dofs: Any = None, entity: str = "robot") -> Array:
    """Positions of joints, less where they are by default [m, rad]."""
    return env.entities[entity].get_dofs_position(dofs) - np.asarray(default)


def joint_vel(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Velocities of joints [m/s, rad/s]."""
    return env.entities[entity].get_dofs_velocity(dofs)


def joint_sin_cos(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Sines, then cosines of angles, which do not jump."""
    q = env.entities[entity].get_dofs_position(dofs)
    return np.concatenate([np.sin(q), np.cos(q)], axis=1)


def link_pos(env: TaskEnv, link: str, entity: str = "robot") -> Array:
    """Where a link's origin is [m]."""
    return env.entities[entity].get_link(link).get_pos()


def base_lin_vel(env: TaskEnv, entity: str = "robot") -> Array:
    """Velocity of the base along its own axes [m/s]."""
    base = env.entities[entity]
    return rotated_back(base.get_quat(), base.get_vel())


def base_ang_vel(env: TaskEnv, entity: str = "robot") -> Array:
    """Angular velocity of the base along its own axes [rad/s]."""
    base = env.entities[entity]
    return rotated_back(base.get_quat(), base.get_ang())


def projected_gravity(env: TaskEnv, entity: str = "robot") -> Array:
    """Which way is down, along the axes of the base."""
    quat = env.entities[entity].get_quat()
    return rotated_back(quat, np.tile(np.array([0.0, 0.0, -1.0], quat.dtype), (len(quat), 1)))


def last_action(env: TaskEnv) -> Array:
    """What was done last."""
    return env.action


def generated_commands(env: TaskEnv, command_name: str) -> Array:
    """What is asked for."""
    return env.commands[command_name]


def to_command(env: TaskEnv, command_name: str, link: str, entity: str = "robot") -> Array:
    """From a link to the place that is asked for [m]."""
    return env.commands[command_name] - link_pos(env, link, entity)


# ---------------------------------------------------------------------------------------------------- what is rewarded


def upright(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """From 0 where a pole hangs to 1 where it stands."""
    return 0.5 + 0.5 * np.cos(env.entities[entity].get_dofs_position(dofs)[:, 0])


def joint_pos_l2(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Squares of positions [m2, rad2], summed."""
    return np.square(env.entities[entity].get_dofs_position(dofs)).sum(axis=1)


def joint_vel_l2(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Squares of velocities, summed."""
    return np.square(env.entities[entity].get_dofs_velocity(dofs)).sum(axis=1)


def joint_torques_l2(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Squares of what control and actuators do, summed."""
    return np.square(env.entities[entity].get_dofs_control_force(dofs)).sum(axis=1)


def action_l2(env: TaskEnv) -> Array:
    """Squares of the action, summed."""
    return np.square(env.action).sum(axis=1)


def action_rate_l2(env: TaskEnv) -> Array:
    """Squares of how the action changes, summed."""
    return np.square(env.action - env.last_action).sum(axis=1)


def position_error(env: TaskEnv, command_name: str, link: str, entity: str = "robot") -> Array:
    """How far a link is from the place that is asked for [m]."""
    return np.linalg.norm(to_command(env, command_name, link, entity), axis=1)


def position_error_tanh(env: TaskEnv, command_name: str, link: str, std: float, entity: str = "robot") -> Array:
    """From 0 far away to 1 at the place that is asked for."""
    return 1.0 - np.tanh(position_error(env, command_name, link, entity) / std)


def track_lin_vel_xy_exp(env: TaskEnv, command_name: str, std: float, entity: str = "robot") -> Array:
    """1 where the base goes as fast along x and y as it is asked to."""
    off = env.commands[command_name][:, :2] - base_lin_vel(env, entity)[:, :2]
    return np.exp(-np.square(off).sum(axis=1) / std**2)


def track_ang_vel_z_exp(env: TaskEnv, command_name: str, std: float, entity: str = "robot") -> Array:
    """1 where the base turns as fast as it is asked to."""
    off = env.commands[command_name][:, 2] - base_ang_vel(env, entity)[:, 2]
    return np.exp(-np.square(off) / std**2)


def lin_vel_z_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """The square of how fast the base rises or falls."""
    return np.square(base_lin_vel(env, entity)[:, 2])


def ang_vel_xy_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """Squares of how fast the base rolls and pitches, summed."""
    return np.square(base_ang_vel(env, entity)[:, :2]).sum(axis=1)


def flat_orientation_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """0 for a level base, growing with its tilt."""
    return np.square(projected_gravity(env, entity)[:, :2]).sum(axis=1)


def is_alive(env: TaskEnv) -> Array:
    """1 for everybody."""
    return np.ones(env.n_envs)


# -------------------------------------------------------------------------------------------- what ends an episode


def time_out(env: TaskEnv) -> Array:
    """The time of the episode is over."""
    return env.episode_length >= env.max_episode_length


def bad_orientation(env: TaskEnv, limit_angle: float, entity: str = "robot") -> Array:
    """The base is tilted by more than an angle [rad]."""
    return np.asarray(projected_gravity(env, entity)[:, 2] > -np.cos(limit_angle))


def joint_pos_out_of(env: TaskEnv, dofs: Any, bounds: Range, entity: str = "robot") -> Array:
    """A joint has left its bounds."""
    q = env.entities[entity].get_dofs_position(dofs)
    return np.asarray(((q < bounds[0]) | (q > bounds[1])).any(axis=1))


# ------------------------------------------------------------------------------------------------------- what happens


def reset_joints_by_offset(
    env: TaskEnv,
    envs: Array,
    position_range: Range,
    velocity_range: Range = (0.0, 0.0),
    dofs: Any = None,
    entity: str = "robot",
) -> None:
    """Joints somewhere about where they are, with some speed; they stay within their limits."""
    robot = env.entities[entity]
    names = robot.dof_names if dofs is None else dofs
    joints = [robot.get_joint(name) for name in ([names] if isinstance(names, str) else names)]
    at, moves = [j.qs_idx[0] for j in joints], [j.dof_idx for j in joints]
    q, v = robot.get_qpos(envs), robot.get_qvel(envs)
    lower, upper = robot.get_dofs_limit(moves)
    q[:, at] = np.clip(q[:, at] + env.rng.uniform(*position_range, (len(envs), len(at))), lower, upper)
    v[:, moves] += env.rng.uniform(*velocity_range, (len(envs), len(moves)))
    robot.set_qpos(q, envs)
    robot.set_qvel(v, envs)


def reset_root_uniform(
    env: TaskEnv,
    envs: Array,
    xy: float = 0.0,
    yaw: float = np.pi,
    velocity: float = 0.0,
    height: float = 0.0,
    entity: str = "robot",
) -> None:
    """A free base somewhere about where it is [m], turned about the vertical [rad], with some speed [m/s]."""
    robot, n = env.entities[entity], len(envs)
    q, v = robot.get_qpos(envs), robot.get_qvel(envs)
    q[:, :2] += env.rng.uniform(-xy, xy, (n, 2))
    q[:, 2] += height
    half = 0.5 * env.rng.uniform(-yaw, yaw, n)
    c, s, (w, x, y, z) = np.cos(half), np.sin(half), q[:, 3:7].T.copy()
    q[:, 3:7] = np.stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w], axis=1)
    v[:, :6] += env.rng.uniform(-velocity, velocity, (n, 6))
    robot.set_qpos(q, envs)
    robot.set_qvel(v, envs)


def push_by_setting_velocity(env: TaskEnv, envs: Array, velocity: float, entity: str = "robot") -> None:
    """A free base is pushed sideways: its velocity changes at random [m/s]."""
    robot = env.entities[entity]
    v = robot.get_qvel(envs)
    v[:, :2] += env.rng.uniform(-velocity, velocity, (len(envs), 2))
    robot.set_qvel(v, envs)


def hold(env: TaskEnv, envs: Array, dofs: Any, entity: str = "robot") -> None:
    """Joints are kept where they start, by position control: at the startup of tasks."""
    robot = env.entities[entity]
    robot.control_dofs_position(robot.get_dofs_position(dofs), dofs)


def set_gains(env: TaskEnv, envs: Array, kp: Any, kv: Any, dofs: Any = None, entity: str = "robot") -> None:
    """Gains of position control, for all environments: at the startup of tasks."""
    env.entities[entity].set_dofs_kp(kp, dofs)
    env.entities[entity].set_dofs_kv(kv, dofs)
