"""Who moves degrees of freedom, in numbers that a step reads: modes are (dofs, 1), or (dofs, environments)."""

from __future__ import annotations

import numpy as np

from kinema.foundation import Array
from kinema.model import Model

from ..settings import Control


def meant_gains(model: Model, modes: Array, kp: Array, kv: Array) -> tuple[Array, Array, Array]:
    """What commands mean: the force is gain_command command - gain_position q - gain_velocity v, in this order."""
    kp = np.where(model.dofs.q_idx[:, None] >= 0, kp, 0.0)  # part of a quaternion cannot be sent anywhere
    position, velocity = modes == Control.POSITION, modes == Control.VELOCITY
    by_command = np.where(position, kp, np.where(velocity, kv, np.where(modes == Control.FORCE, 1.0, 0.0)))
    return by_command, np.where(position, kp, 0.0), np.where(position | velocity, kv, 0.0)


def left_to_actuators(model: Model, modes: Array) -> Array:
    """One where an actuator pulls, (actuators, 1 or environments): it stops when any of its joints is taken over."""
    moved = (model.actuators.moment != 0.0).astype(np.float64)
    return (moved @ (modes != Control.ACTUATOR) == 0.0).astype(np.float64)
