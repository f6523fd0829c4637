"""Functions that terms are made of: what is seen, what is rewarded, what ends an episode, what happens.

They are called with the running task; `entity` is the name of what they look at. Names are those of Isaac Lab and mjlab
where there are any. All of them compute with NumPy's arrays or PyTorch's, as the task does, and leave what they are
given as it is: it may be the memory of the scene.
"""

from __future__ import annotations

import math
from typing import Any

from .running import Array, TaskEnv

Range = tuple[float, float]


def rotated_back(env: TaskEnv, quat: Array, vector: Array) -> Array:
    """Vectors of the world, (n, 3), along the axes of what is turned by quaternions, (n, 4)."""
    w, xyz = quat[:, :1], quat[:, 1:]
    twice = 2.0 * _cross(env, xyz, vector)
    return vector - w * twice + _cross(env, xyz, twice)


def _cross(env: TaskEnv, a: Array, b: Array) -> Array:
    (ax, ay, az), (bx, by, bz) = ([v[:, i] for i in range(3)] for v in (a, b))
    return env.arrays.xp.stack([ay * bz - az * by, az * bx - ax * bz, ax * by - ay * bx], axis=1)


# ------------------------------------------------------------------------------------------------------- what is seen


def joint_pos(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Positions of joints [m, rad]."""
    return env.entities[entity].get_dofs_position(dofs)


def joint_pos_rel(env: TaskEnv, default: Any, dofs: Any = None, entity: str = "robot") -> Array:
    """Positions of joints, less where they are by default [m, rad]."""
    return env.entities[entity].get_dofs_position(dofs) - env.arrays.floats(default)


def joint_vel(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Velocities of joints [m/s, rad/s]."""
    return env.entities[entity].get_dofs_velocity(dofs)


def joint_sin_cos(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Sines, then cosines of angles, which do not jump."""
    q, xp = env.entities[entity].get_dofs_position(dofs), env.arrays.xp
    return xp.concatenate([xp.sin(q), xp.cos(q)], axis=1)


def link_pos(env: TaskEnv, link: str, entity: str = "robot") -> Array:
    """Where a link's origin is [m]."""
    return env.entities[entity].get_link(link).get_pos()


def base_lin_vel(env: TaskEnv, entity: str = "robot") -> Array:
    """Velocity of the base along its own axes [m/s]."""
    base = env.entities[entity]
    return env.once(("base_lin_vel", entity), lambda: rotated_back(env, base.get_quat(), base.get_vel()))


def base_ang_vel(env: TaskEnv, entity: str = "robot") -> Array:
    """Angular velocity of the base along its own axes [rad/s]."""
    base = env.entities[entity]
    return env.once(("base_ang_vel", entity), lambda: rotated_back(env, base.get_quat(), base.get_ang()))


def projected_gravity(env: TaskEnv, entity: str = "robot") -> Array:
    """Which way is down, along the axes of the base."""
    base, down = env.entities[entity], env.arrays.floats([[0.0, 0.0, -1.0]])
    return env.once(("projected_gravity", entity), lambda: rotated_back(env, base.get_quat(), down))


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
    return 0.5 + 0.5 * env.arrays.xp.cos(env.entities[entity].get_dofs_position(dofs)[:, 0])


def joint_pos_l2(env: TaskEnv, dofs: Any, entity: str = "robot") -> Array:
    """Squares of positions [m2, rad2], summed."""
    return _squares(env.entities[entity].get_dofs_position(dofs))


def joint_deviation_l2(env: TaskEnv, default: Any, dofs: Any = None, entity: str = "robot") -> Array:
    """Squares of how far joints are from where they are by default [m2, rad2], summed."""
    return _squares(joint_pos_rel(env, default, dofs, entity))


def joint_vel_l2(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Squares of velocities, summed."""
    return _squares(env.entities[entity].get_dofs_velocity(dofs))


def joint_torques_l2(env: TaskEnv, dofs: Any = None, entity: str = "robot") -> Array:
    """Squares of what control and actuators do, summed."""
    return _squares(env.entities[entity].get_dofs_control_force(dofs))


def action_l2(env: TaskEnv) -> Array:
    """Squares of the action, summed."""
    return _squares(env.action)


def action_rate_l2(env: TaskEnv) -> Array:
    """Squares of how the action changes, summed."""
    return _squares(env.action - env.last_action)


def position_error(env: TaskEnv, command_name: str, link: str, entity: str = "robot") -> Array:
    """How far a link is from the place that is asked for [m]."""
    return _squares(to_command(env, command_name, link, entity)) ** 0.5


def position_error_tanh(env: TaskEnv, command_name: str, link: str, std: float, entity: str = "robot") -> Array:
    """From 0 far away to 1 at the place that is asked for."""
    return 1.0 - env.arrays.xp.tanh(position_error(env, command_name, link, entity) / std)


def track_lin_vel_xy_exp(env: TaskEnv, command_name: str, std: float, entity: str = "robot") -> Array:
    """1 where the base goes as fast along x and y as it is asked to."""
    off = env.commands[command_name][:, :2] - base_lin_vel(env, entity)[:, :2]
    return env.arrays.xp.exp(-_squares(off) / std**2)


def track_ang_vel_z_exp(env: TaskEnv, command_name: str, std: float, entity: str = "robot") -> Array:
    """1 where the base turns as fast as it is asked to."""
    off = env.commands[command_name][:, 2] - base_ang_vel(env, entity)[:, 2]
    return env.arrays.xp.exp(-(off**2) / std**2)


def lin_vel_z_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """The square of how fast the base rises or falls."""
    return base_lin_vel(env, entity)[:, 2] ** 2


def ang_vel_xy_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """Squares of how fast the base rolls and pitches, summed."""
    return _squares(base_ang_vel(env, entity)[:, :2])


def flat_orientation_l2(env: TaskEnv, entity: str = "robot") -> Array:
    """0 for a level base, growing with its tilt."""
    return _squares(projected_gravity(env, entity)[:, :2])


def is_alive(env: TaskEnv) -> Array:
    """1 for everybody."""
    return env.arrays.floats(env.every)


# -------------------------------------------------------------------------------------------- what ends an episode


def time_out(env: TaskEnv) -> Array:
    """The time of the episode is over."""
    return env.episode_length >= env.max_episode_length


def bad_orientation(env: TaskEnv, limit_angle: float, entity: str = "robot") -> Array:
    """The base is tilted by more than an angle [rad]."""
    return projected_gravity(env, entity)[:, 2] > -math.cos(limit_angle)


def root_height_below_minimum(env: TaskEnv, minimum_height: float, entity: str = "robot") -> Array:
    """The base is lower than that, in the world [m]."""
    return env.entities[entity].get_pos()[:, 2] < minimum_height


def joint_pos_out_of(env: TaskEnv, dofs: Any, bounds: Range, entity: str = "robot") -> Array:
    """A joint has left its bounds."""
    q = env.entities[entity].get_dofs_position(dofs)
    return ((q < bounds[0]) | (q > bounds[1])).any(axis=1)


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
    """A free base somewhere about where it is [m], turned about the vertical [rad], with some speed [m/s]."""
    robot, xp, uniform = env.entities[entity], env.arrays.xp, env.arrays.uniform
    q, v = robot.get_qpos(), robot.get_qvel()
    half = 0.5 * uniform(-yaw, yaw, (env.n_envs,))
    c, s, w, x, y, z = xp.cos(half), xp.sin(half), *(q[:, i] for i in range(3, 7))
    turned = xp.stack([c * w - s * z, c * x - s * y, c * y + s * x, c * z + s * w], axis=1)
    place = q[:, :2] + uniform(-xy, xy, (env.n_envs, 2))
    put = xp.concatenate([place, q[:, 2:3] + height, turned, q[:, 7:]], axis=1)
    robot.set_qpos(_where(env, envs, put, q))
    robot.set_qvel(_where(env, envs, _pushed(env, v, velocity, 6), v))


def push_by_setting_velocity(env: TaskEnv, envs: Array, velocity: float, entity: str = "robot") -> None:
    """A free base is pushed sideways: its velocity changes at random [m/s]."""
    robot = env.entities[entity]
    v = robot.get_qvel()
    robot.set_qvel(_where(env, envs, _pushed(env, v, velocity, 2), v))


def hold(env: TaskEnv, envs: Array, dofs: Any, entity: str = "robot") -> None:
    """Joints are kept where they start, by position control: at the startup of tasks."""
    robot = env.entities[entity]
    robot.control_dofs_position(robot.get_dofs_position(dofs), dofs)


def set_gains(env: TaskEnv, envs: Array, kp: Any, kv: Any, dofs: Any = None, entity: str = "robot") -> None:
    """Gains of position control, for all environments: at the startup of tasks."""
    env.entities[entity].set_dofs_kp(kp, dofs)
    env.entities[entity].set_dofs_kv(kv, dofs)


# ----------------------------------------------------------------------------------------------------- what others need


def _squares(values: Array) -> Array:
    return (values**2).sum(axis=1)


def _where(env: TaskEnv, envs: Array, new: Array, old: Array) -> Array:
    return env.arrays.xp.where(envs[:, None], new, old)


def _pushed(env: TaskEnv, v: Array, most: float, count: int) -> Array:
    """Velocities, the first so many of which change at random."""
    more = env.arrays.uniform(-most, most, (env.n_envs, count))
    return env.arrays.xp.concatenate([v[:, :count] + more, v[:, count:]], axis=1)
