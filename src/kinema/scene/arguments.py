"""What users hand to a scene: numbers and words that can be meant, or one sentence that says what is wrong."""

from __future__ import annotations

import math
import re
from collections.abc import Iterable
from numbers import Integral, Real
from typing import Any

import numpy as np

from kinema.description import Robot, World
from kinema.foundation import Array, ArrayLike, KinemaError, Pose

from .batches import as_array, batched

NEVER_NEGATIVE = ("kp", "kv", "armature", "damping", "frictionloss", "density", "viscosity")
"""Parameters of which less than none would make something run away by itself."""
NO_FORCE_LEFT = {"force_lower": math.inf, "force_upper": -math.inf, "lower": math.inf, "upper": -math.inf}
"""Bounds may be open, but not so."""
_DEVICE = re.compile(r"cpu|auto|cuda(:\d+)?")


def whole(value: Any, what: str, noun: str) -> int:
    """How many of something there are: at least one; NumPy's integers are fine."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < 1:
        raise KinemaError(f"{what}: expected a whole number, at least one {noun}, not {value!r}")
    return int(value)


def duration(value: Any, what: str) -> float:
    """A time that is more than none [s]."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise KinemaError(f"{what}: expected a time in seconds, not {value!r}")
    seconds = float(value)
    if not (math.isfinite(seconds) and seconds > 0.0):
        raise KinemaError(f"{what}: a step takes some time, not {value!r} s")
    return seconds


def amount(value: Any, what: str) -> float:
    """A number that is not negative."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
        raise KinemaError(f"{what}: expected a finite number that is not negative, not {value!r}")
    return float(value)


def choice(value: Any, what: str, words: Iterable[str]) -> str:
    """One of some words."""
    known = list(words)
    if not isinstance(value, str) or value not in known:
        raise KinemaError(f"{what}: {value!r} is none of {', '.join(known)}")
    return str(getattr(value, "value", value))


def one_of_or_none(value: Any, what: str, words: Iterable[str]) -> str | None:
    """One of some words, or nothing."""
    return None if value is None else choice(value, what, words)


def device_name(value: Any) -> str:
    """The name of a device; whether there is one is another question."""
    if not isinstance(value, str) or _DEVICE.fullmatch(value) is None:
        raise KinemaError(f"device: {value!r} is none of cpu, cuda, cuda:0, cuda:1, ..., auto")
    return value


def flag(value: Any, what: str) -> bool:
    """Yes or no."""
    if not isinstance(value, bool | np.bool_):
        raise KinemaError(f"{what}: expected True or False, not {value!r}")
    return bool(value)


def numbers(value: Any, what: str, count: str) -> Array:
    """Some finite numbers: `count` says how many in words, two to four of them."""
    array = as_array(value, np.float64, what)
    if array.shape != ({"two": 2, "three": 3, "four": 4}[count],) or not np.isfinite(array).all():
        raise KinemaError(f"{what}: expected {count} finite numbers, not {value!r}")
    return array


def parameter(name: str, array: np.ndarray, what: str) -> np.ndarray:
    """Values that a parameter of the simulation can have, before building as after it."""
    if name in NO_FORCE_LEFT:
        wrong, wanted = np.isnan(array) | (array == NO_FORCE_LEFT[name]), "bounds that something can be within"
    elif name in NEVER_NEGATIVE:
        wrong, wanted = ~np.isfinite(array) | (array < 0.0), "finite numbers that are not negative"
    else:
        wrong, wanted = ~np.isfinite(array), "finite numbers"
    if wrong.any():
        raise KinemaError(f"{what}: expected {wanted}, not {array[wrong].flat[0]:g}")
    return array


def sol_params(params: Any, n_envs: int, count: int, what: str) -> np.ndarray:
    """MuJoCo's `solref` and `solimp` of some constraints, one after the other, (n_envs or 1, count, 7)."""
    given = as_array(params, np.float64, what)
    array = batched(
        np.broadcast_to(given, (count, 7)) if given.shape == (7,) else given, n_envs, (count, 7), float, what
    )
    mixed = (array[..., 0] > 0.0) != (array[..., 1] > 0.0)
    if not np.isfinite(array).all() or mixed.any():
        raise KinemaError(
            f"{what}: expected seven finite numbers, the first two of them both positive or both not, not {params!r}"
        )
    return array


def three_scales(value: Any, what: str) -> Array:
    """How much larger along x, y and z: one number for all three, or each its own."""
    array = as_array(value, np.float64, what)
    if array.shape not in ((), (3,)) or not (np.isfinite(array) & (array > 0.0)).all():
        raise KinemaError(f"{what}: expected a number that is more than zero, or three of them, not {value!r}")
    return np.broadcast_to(array, (3,)).copy()


def offsets(n_envs: int, apart: Array) -> Array:
    """Where environments are shown, (n_envs, 3): on a square about the origin, so far apart in x and y [m]."""
    side = math.isqrt(n_envs - 1) + 1
    row, column = np.divmod(np.arange(n_envs), side)
    grid = np.stack([column - (side - 1) / 2, row - (-(-n_envs // side) - 1) / 2], axis=1)
    return np.concatenate([grid * apart, np.zeros((n_envs, 1))], axis=1)


def placed(description: Robot | World, pos: ArrayLike, quat: ArrayLike | None, euler: ArrayLike | None) -> Pose | None:
    """Where a description's base frame goes; None for where its file puts it."""
    p = numbers(pos, "pos", "three")
    if euler is not None:
        if quat is not None:
            raise KinemaError("quat, euler: either says how it is turned, not both")
        pose = Pose.from_rpy(p, numbers(euler, "euler", "three"))
    else:
        q = numbers((1.0, 0.0, 0.0, 0.0) if quat is None else quat, "quat", "four")
        if not q.any():
            raise KinemaError(f"quat: expected four numbers (w, x, y, z) that are not all zero, not {quat!r}")
        pose = Pose.from_quaternion(p, q)
    if not p.any() and np.array_equal(pose.rotation, np.eye(3)):
        return None
    return pose @ description.pose if isinstance(description, Robot) else pose
