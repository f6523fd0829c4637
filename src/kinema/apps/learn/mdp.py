"""Functions for terms: observations, rewards, terminations and events, named as in Isaac Lab and mjlab.

The first argument is the running `TaskEnv`; `entity` is the name of the entity concerned. All functions compute with
NumPy or PyTorch arrays, as the task does, and must not modify their inputs, which may be views of the scene's memory.
"""

from __future__ import annotations

import math
from typing import Any

from .task_env import Array, TaskEnv

Range = tuple[float, float]


def rotate_inverse(env: TaskEnv, quat: Array, vector: Array) -> Array:
    """Rotate world vectors, (n, 3), into the frames given by quaternions (w, x, y, z), (n, 4)."""
    w, xyz = quat[:, :1], quat[:, 1:]
    twice = 2.0 * _cross(env, xyz, vector)
    return vector - w * twice + _cross(env, xyz, twice)


def _cross(env: TaskEnv, a: Array, b: Array) -> Array:
    (ax, ay, az), (bx, by, bz) = ([v[:, i] for i in range(3)] for v in (a, b))
    return env.arrays.xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


# --------------------------------------------------------------------------------------------------------- observations


def joint_pos(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Positions of joints [m, rad]."""
    return env.entities[entity].get_dofs_position(dofs)


def joint_pos_rel(env: TaskEnv, default: Any, dofs: Any = None, entity: str = "robot") -> Array:
    """Joint positions relative to default positions [m, rad]."""
    return env.entities[entity].get_dofs_position(dofs) - env.arrays.floats(default)


def joint_vel(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Velocities of joints [m/s, rad/s]."""
    return env.entities[entity].get_dofs_velocity(dofs)


def joint_sin_cos(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Sines, then cosines of joint angles: a representation without wrap-around."""
    q, xp = env.entities[entity].get_dofs_position(dofs), env.arrays.xp
    return xp.concatenate([xp.sin(q), xp.cos(q)], axis=1)


def link_pos(env: TaskEnv, link: str, entity: str = "robot") -> Array:
    """World position of a link frame [m]."""
    return env.entities[entity].get_link(link).get_pos()


def base_lin_vel(env: TaskEnv, entity: str = "robot") -> Array:
    """Linear velocity of the base in the base frame [m/s]."""
    base = env.entities[entity]
    return env.cached(("base_lin_vel", entity), lambda: rotate_inverse(env, base.get_quat(), base.get_vel()))


def base_ang_vel(env: TaskEnv, entity: str = "robot") -> Array:
    """Angular velocity of the base in the base frame [rad/s]."""
    base = env.entities[entity]
    return env.cached(("base_ang_vel", entity), lambda: rotate_inverse(env, base.get_quat(), base.get_ang()))


def projected_gravity(env: TaskEnv, entity: str = "robot") -> Array:
    """Unit vector of gravity in the base frame."""
    base, down = env.entities[entity], env.arrays.floats([[0.0, 0.0, -1.0]])
    return env.cached(("projected_gravity", entity), lambda: rotate_inverse(env, base.get_quat(), down))


def last_action(env: TaskEnv) -> Array:
    """Last action."""
    return env.action


def generated_commands(env: TaskEnv, command_name: str) -> Array:
    """Current command of a command term."""
    return env.commands[command_name]


def position_to_command(env: TaskEnv, command_name: str, link: str, entity: str = "robot") -> Array:
    """Vector from a link to the commanded position [m]."""
    return env.commands[command_name] - link_pos(env, link, entity)


# -------------------------------------------------------------------------------------------------------------- rewards


def pole_upright(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Pole height from 0 (hanging) to 1 (upright): (1 + cos q) / 2."""
    return 0.5 + 0.5 * env.arrays.xp.cos(env.entities[entity].get_dofs_position(dofs)[:, 0])


def joint_pos_l2(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Sum of squared joint positions [m2, rad2]."""
    return _sum_squares(env.entities[entity].get_dofs_position(dofs))


def joint_deviation_l2(env: TaskEnv, default: Any, dofs: Any = None, entity: str = "robot") -> Array:
    """Sum of squared deviations of joints from default positions [m2, rad2]."""
    return _sum_squares(joint_pos_rel(env, default, dofs, entity))


def joint_vel_l2(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Sum of squared joint velocities."""
    return _sum_squares(env.entities[entity].get_dofs_velocity(dofs))


def joint_torques_l2(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Sum of squared joint forces of position control and actuators."""
    return _sum_squares(env.entities[entity].get_dofs_control_force(dofs))


def action_l2(env: TaskEnv) -> Array:
    """Sum of squared actions."""
    return _sum_squares(env.action)


def action_rate_l2(env: TaskEnv) -> Array:
    """Sum of squared changes of the action."""
    return _sum_squares(env.action - env.last_action)


def position_error(env: TaskEnv, command_name: str, link: str, entity: str = "robot") -> Array:
    """Distance of a link from the commanded position [m]."""
    return _sum_squares(position_to_command(env, command_name, link, entity)) ** 0.5


def position_error_tanh(env: TaskEnv, command_name: str, link: str, std: float, entity: str = "robot") -> Array:
    """Tracking reward 1 - tanh(distance / std): 1 at the commanded position, 0 far away."""
    return 1.0 - env.arrays.xp.tanh(position_error(env, command_name, link, entity) / std)


def track_lin_vel_xy_exp(env: TaskEnv, command_name: str, std: float, entity: str = "robot") -> Array:
    """Tracking reward exp(-error^2 / std^2) of the commanded base velocity along x and y."""
    off = env.commands[command_name][:, :2] - base_lin_vel(env, entity)[:, :2]
    return env.arrays.xp.exp(-_sum_squares(off) / std**2)


def track_ang_vel_z_exp(env: TaskEnv, command_name: str, std: float, entity: str = "robot") -> Array:
    """Tracking reward exp(-error^2 / std^2) of the commanded yaw rate of the base."""
    off = env.commands[command_name][:, 2] - base_ang_vel(env, entity)[:, 2]
    return env.arrays.xp.exp(-(off**2) / std**2)


def lin_vel_z_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """Squared vertical velocity of the base, in the base frame."""
    return base_lin_vel(env, entity)[:, 2] ** 2


def ang_vel_xy_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """Sum of squared roll and pitch rates of the base."""
    return _sum_squares(base_ang_vel(env, entity)[:, :2])


def flat_orientation_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """Sum of squared x and y components of projected gravity: 0 for a level base."""
    return _sum_squares(projected_gravity(env, entity)[:, :2])


def is_alive(env: TaskEnv) -> Array:
    """Constant reward of 1."""
    return env.arrays.floats(env.all_envs)


# --------------------------------------------------------------------------------------------------------- terminations


def time_out(env: TaskEnv) -> Array:
    """Whether the episode has reached its maximum length."""
    return env.episode_length >= env.max_episode_length


def bad_orientation(env: TaskEnv, limit_angle: float, entity: str = "robot") -> Array:
    """Whether the base is tilted by more than an angle [rad]."""
    return projected_gravity(env, entity)[:, 2] > -math.cos(limit_angle)


def root_height_below_minimum(env: TaskEnv, minimum_height: float, entity: str = "robot") -> Array:
    """Whether the world height of the base is below a minimum [m]."""
    return env.entities[entity].get_pos()[:, 2] < minimum_height


def joint_pos_out_of_bounds(env: TaskEnv, dofs: Any, bounds: Range, entity: str = "robot") -> Array:
    """Whether any of the joints is outside bounds [m, rad]."""
    q = env.entities[entity].get_dofs_position(dofs)
    return ((q < bounds[0]) | (q > bounds[1])).any(axis=1)


# --------------------------------------------------------------------------------------------------------------- events


def reset_joints_by_offset(
    env: TaskEnv,
    envs: Array,
    position_range: Range,
    velocity_range: Range = (0.0, 0.0),
    dofs: Any = None,
    entity: str = "robot",
) -> None:
    """Add uniform random offsets to joint positions, clipped to the joint limits, and to joint velocities."""
    robot = env.entities[entity]
    dofs = robot.dof_names if dofs is None else dofs
    lower, upper = (env.arrays.floats(limit) for limit in robot.get_dofs_limit(dofs))
    q, v = robot.get_dofs_position(dofs), robot.get_dofs_velocity(dofs)
    position = env.arrays.xp.clip(q + env.arrays.uniform(*position_range, tuple(q.shape)), lower, upper)
    velocity = v + env.arrays.uniform(*velocity_range, tuple(v.shape))
    robot.set_dofs_position(_where(env, envs, position, q), dofs)
    robot.set_dofs_velocity(_where(env, envs, velocity, v), dofs)


def reset_root_uniform(
    env: TaskEnv,
    envs: Array,
    xy: float = 0.0,
    yaw: float = math.pi,
    velocity: float = 0.0,
    height: float = 0.0,
    entity: str = "robot",
) -> None:
    """Randomize a floating base: position in x and y [m], yaw [rad] and all velocities; `height` [m] is added to z."""
    robot, xp, uniform = env.entities[entity], env.arrays.xp, env.arrays.uniform
    q, v = robot.get_qpos(), robot.get_qvel()
    half = 0.5 * uniform(-yaw, yaw, (env.n_envs,))
    c, s, w, x, y, z = xp.cos(half), xp.sin(half), *(q[:, i] for i in range(3, 7))
    turned = xp.stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w], axis=1)
    place = q[:, :2] + uniform(-xy, xy, (env.n_envs, 2))
    put = xp.concatenate([place, q[:, 2:3] + height, turned, q[:, 7:]], axis=1)
    robot.set_qpos(_where(env, envs, put, q))
    robot.set_qvel(_where(env, envs, _with_random_velocity(env, v, velocity, 6), v))


def push_by_setting_velocity(env: TaskEnv, envs: Array, velocity: float, entity: str = "robot") -> None:
    """Push a floating base sideways: add a uniform random change to its velocity along x and y [m/s]."""
    robot = env.entities[entity]
    v = robot.get_qvel()
    robot.set_qvel(_where(env, envs, _with_random_velocity(env, v, velocity, 2), v))


def hold_joint_positions(env: TaskEnv, envs: Array, dofs: Any, entity: str = "robot") -> None:
    """Position control of joints with their current positions as targets; a startup event."""
    robot = env.entities[entity]
    robot.control_dofs_position(robot.get_dofs_position(dofs), dofs)


def set_gains(env: TaskEnv, envs: Array, kp: Any, kv: Any, dofs: Any = None, entity: str = "robot") -> None:
    """Set the gains of position control in all environments; a startup event."""
    env.entities[entity].set_dofs_kp(kp, dofs)
    env.entities[entity].set_dofs_kv(kv, dofs)


# -------------------------------------------------------------------------------------------------------------- helpers


def _sum_squares(values: Array) -> Array:
    return (values**2).sum(axis=1)


def _where(env: TaskEnv, envs: Array, new: Array, old: Array) -> Array:
    return env.arrays.xp.where(envs[:, None], new, old)


def _with_random_velocity(env: TaskEnv, v: Array, max_change: float, count: int) -> Array:
    """Velocities with a uniform random change of the first `count` components."""
    more = env.arrays.uniform(-max_change, max_change, (env.n_envs, count))
    return env.arrays.xp.concatenate([v[:, :count] + more, v[:, count:]], axis=1)
