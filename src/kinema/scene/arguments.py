"""Validation and conversion of user arguments of the scene API.

Scalars, string choices, vectors, index selections (by index, name, pattern, slice or mask) and arrays batched over
environments. Batched arrays have the environment axis first, (n_envs, *element_shape). Every function raises
`KinemaError` with a message that begins with `label`, the name of the argument or of the called method.
"""

from __future__ import annotations

import fnmatch
import math
import re
from collections.abc import Iterable, Sequence
from numbers import Integral, Real
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.core import Array, ArrayLike, KinemaError, Pose
from kinema.description import Robot, World

IndexArray = npt.NDArray[np.intp]
Selection = Any
"""User selection of elements or environments: index, name, name pattern, list, slice or boolean mask; None selects all.

Environments have no names. On a GPU, PyTorch tensors of environment indices and masks are accepted too."""

# ------------------------------------------------------------------------------------- arrays and index selections


def as_array(values: Any, dtype: npt.DTypeLike, label: str) -> np.ndarray:
    """Convert a list, NumPy array or PyTorch tensor (any device, detached) to a NumPy array of `dtype`.

    Raises `KinemaError`, prefixed with `label`, if the values are not numeric.
    """
    try:
        if hasattr(values, "detach"):  # a PyTorch tensor, possibly on a GPU and with a gradient
            values = values.detach().cpu()
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise KinemaError(f"{label}: the values are not numeric: {error}") from None


def as_batch(values: Any, n_envs: int, element_shape: tuple[int, ...], dtype: npt.DTypeLike, label: str) -> np.ndarray:
    """Convert values to a batched array (n_envs, *element_shape), or (1, *element_shape) if environments share them.

    Accepts values of shape (n_envs, *element_shape), (1, *element_shape), element_shape or a scalar; an array of shape
    element_shape or a scalar becomes (1, *element_shape), to be broadcast to all environments. Any other shape raises
    `KinemaError`.
    """
    array = as_array(values, dtype, label)
    shape = (n_envs, *element_shape)
    if array.shape in (shape, (1, *element_shape)):
        return array
    if array.shape == element_shape:
        return array[None]
    if array.shape == ():
        return np.full((1, *element_shape), array)
    raise KinemaError(f"{label}: expected values of shape {element_shape} or {shape}, not {array.shape}")


MAX_PRODUCT_SIZE = 1000
"""Size of arrays up to which a scalar product is the quickest test of finite values: BLAS uses threads beyond."""


def check_finite(values: np.ndarray, label: str) -> np.ndarray:
    """Validate that all values are finite and return them unchanged; `KinemaError` names the first that is not."""
    if values.size < MAX_PRODUCT_SIZE and math.isfinite(np.vdot(values, values)):  # it may overflow
        return values
    finite = np.isfinite(values)
    if not finite.all():
        raise KinemaError(f"{label}: expected finite numbers, not {values[~finite].flat[0]:g}")
    return values


def link_vectors(vectors: Any, n_links: int, label: str) -> np.ndarray:
    """Vectors of links as an array that `as_batch` accepts.

    One vector (3,) is repeated for all links, and (n_envs, 3) gets the axis of a single link.
    """
    array = as_array(vectors, np.float64, label)
    if array.shape == (3,):
        return np.broadcast_to(array, (n_links, 3))
    return array[:, None] if array.ndim == 2 and n_links == 1 and array.shape != (1, 3) else array


def resolve_envs(envs_idx: Any, n_envs: int) -> IndexArray | None:
    """Environment indices of a selection by index, list, slice or boolean mask; None for all environments."""
    if envs_idx is None:
        return None
    return _to_index_array(envs_idx, n_envs, "envs_idx", "environments", None)


def resolve_indices(selection: Any, names: Sequence[str], label: str, noun: str) -> IndexArray:
    """Indices of the elements selected by index, name, name pattern, list, slice or boolean mask; None selects all.

    Args:
        selection: the user's selection.
        names: names of all elements, in index order.
        label: prefix of error messages.
        noun: plural noun of the elements in error messages, such as `links`.
    """
    if selection is None:
        return np.arange(len(names))
    return _to_index_array(selection, len(names), label, noun, names)


def _to_index_array(selection: Any, count: int, label: str, noun: str, names: Sequence[str] | None) -> IndexArray:
    """Convert a selection of `count` elements to a 1-D array of non-negative indices.

    The selection may be a slice, boolean mask of shape (count,), integer or list of integers (negative ones count from
    the end) and, if `names` is given, names and name patterns. Raises `KinemaError` for an index out of range, a mask
    of wrong shape or values that are not integers.
    """
    if isinstance(selection, slice):
        return np.arange(count)[selection]
    if isinstance(selection, str):
        selection = [selection]
    if names is not None and isinstance(selection, list | tuple):
        groups = [indices_matching(x, names, label, noun) if isinstance(x, str) else [x] for x in selection]
        selection = [item for group in groups for item in group]
    if hasattr(selection, "detach"):
        selection = selection.detach().cpu()  # ty: ignore[not-callable]
    array = np.atleast_1d(np.asarray(selection))
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise KinemaError(f"{label}: a mask has shape ({count},), not {array.shape}")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.intp)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise KinemaError(f"{label}: expected indices of {noun}, not {selection!r}")
    if array.min() < -count or array.max() >= count:
        raise KinemaError(
            f"{label}: index {_first_out_of_range(array, count)} is out of range: there are {count} {noun}"
        )
    return (array % count).astype(np.intp)


def _first_out_of_range(indices: np.ndarray, count: int) -> int:
    return int(indices[(indices < -count) | (indices >= count)][0])


def indices_matching(pattern: str, names: Sequence[str], label: str, noun: str) -> list[int]:
    """Indices of the names that match a name or pattern, in ascending order; raises `KinemaError` if there is none.

    An exact name matches only itself. Any other string is a regular expression for the full name (`joint[1-4]`,
    `.*_hip`); if no name matches it, or if it is no valid expression, it is used as a shell pattern (`*_hip`,
    `finger?`).
    """
    indices = _matching_indices(pattern, names)
    if not indices:
        raise KinemaError(f"{label}: there is no {pattern!r}; the {noun} are: {', '.join(names) or 'none'}")
    return indices


def matches_any(pattern: str, names: Sequence[str]) -> bool:
    """Whether a name, regular expression or shell pattern matches at least one of the names."""
    return bool(_matching_indices(pattern, names))


def _matching_indices(pattern: str, names: Sequence[str]) -> list[int]:
    """Indices of the names that a pattern matches: by equality, else as regular expression, else as shell pattern.

    If several names equal the pattern, the first one only; an invalid regular expression matches nothing.
    """
    exact = [i for i, name in enumerate(names) if name == pattern]
    if exact:
        return exact[:1]
    try:
        indices = [i for i, name in enumerate(names) if re.fullmatch(pattern, name)]
    except (re.error, RecursionError, OverflowError):
        indices = []
    return indices or [i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, pattern)]


def index_of_name(name: Any, names: Sequence[str], label: str, noun: str) -> int:
    """Index of the element with exactly this name (no patterns).

    Raises `KinemaError` listing the names if there is none.
    """
    if name not in list(names):
        raise KinemaError(f"{label}: there is no {name!r}; the {noun} are: {', '.join(names) or 'none'}")
    return list(names).index(name)


# ------------------------------------------------------------------------------------ scalars, choices and vectors

NONNEGATIVE_PARAMETERS = ("kp", "kv", "armature", "damping", "frictionloss", "density", "viscosity")
"""Parameters that must be >= 0: negative values would inject energy."""
INVALID_BOUNDS = {"force_lower": math.inf, "force_upper": -math.inf, "lower": math.inf, "upper": -math.inf}
"""Infinite value that is invalid for each bound: lower bounds may be -inf but not +inf, upper bounds +inf but not
-inf."""
_DEVICE_PATTERN = re.compile(r"cpu|auto|cuda(:\d+)?")


def positive_int(value: Any, label: str, noun: str) -> int:
    """Validate an integer >= 1 (Python or NumPy, not bool) and return it as int.

    `noun` names the counted element in the error.
    """
    if isinstance(value, bool | np.bool_) or not isinstance(value, Integral) or value < 1:
        raise KinemaError(f"{label}: expected a whole number, at least one {noun}, not {value!r}")
    return int(value)


def positive_duration(value: Any, label: str) -> float:
    """Validate a finite time step > 0 [s] and return it as float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real):
        raise KinemaError(f"{label}: expected a time in seconds, not {value!r}")
    seconds = float(value)
    if not (math.isfinite(seconds) and seconds > 0.0):
        raise KinemaError(f"{label}: expected a finite positive time in seconds, not {value!r}")
    return seconds


def finite_float(value: Any, label: str) -> float:
    """Validate a finite number and return it as float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not math.isfinite(float(value)):
        raise KinemaError(f"{label}: expected a finite number, not {value!r}")
    return float(value)


def nonnegative_float(value: Any, label: str) -> float:
    """Validate a finite number >= 0 and return it as float."""
    if isinstance(value, bool | np.bool_) or not isinstance(value, Real) or not 0.0 <= float(value) < math.inf:
        raise KinemaError(f"{label}: expected a finite number that is not negative, not {value!r}")
    return float(value)


def positive_float(value: Any, label: str) -> float:
    """Validate a finite number > 0 and return it as float."""
    if nonnegative_float(value, label) == 0.0:
        raise KinemaError(f"{label}: expected a positive number, not {value!r}")
    return float(value)


def one_of(value: Any, label: str, choices: Iterable[str]) -> str:
    """Validate that a string (or string enum member) is one of `choices` and return it as a plain str."""
    names = list(choices)
    if not isinstance(value, str) or value not in names:
        raise KinemaError(f"{label}: {value!r} is none of {', '.join(names)}")
    return str(getattr(value, "value", value))


def one_of_or_none(value: Any, label: str, choices: Iterable[str]) -> str | None:
    """Validate that a value is None or one of the strings `choices`; return None or the string."""
    return None if value is None else one_of(value, label, choices)


def parse_device_name(value: Any) -> str:
    """Validate the form of a device name (`cpu`, `cuda`, `cuda:<index>`, `auto`).

    The existence of the device is not checked.
    """
    if not isinstance(value, str) or _DEVICE_PATTERN.fullmatch(value) is None:
        raise KinemaError(f"device: {value!r} is none of cpu, cuda, cuda:0, cuda:1, ..., auto")
    return value


def boolean(value: Any, label: str) -> bool:
    """Validate a Python or NumPy bool and return it as bool."""
    if not isinstance(value, bool | np.bool_):
        raise KinemaError(f"{label}: expected True or False, not {value!r}")
    return bool(value)


def finite_vector(value: Any, label: str, length_word: str) -> Array:
    """Validate a vector of finite numbers; `length_word` is its length (`two`, `three`, `four`). Returns float64."""
    array = as_array(value, np.float64, label)
    if array.shape != ({"two": 2, "three": 3, "four": 4}[length_word],) or not np.isfinite(array).all():
        raise KinemaError(f"{label}: expected {length_word} finite numbers, not {value!r}")
    return array


def check_parameter_values(name: str, values: np.ndarray, label: str) -> np.ndarray:
    """Validate values of a physical parameter and return them unchanged; `KinemaError` with the first invalid value.

    Force and position bounds must not be NaN nor infinite on the wrong side (`INVALID_BOUNDS`), parameters in
    `NONNEGATIVE_PARAMETERS` must be finite and >= 0, all others finite. `label` is the prefix of the message.
    """
    if name in INVALID_BOUNDS:
        invalid, expected = np.isnan(values) | (values == INVALID_BOUNDS[name]), "bounds that contain a finite value"
    elif name in NONNEGATIVE_PARAMETERS:
        invalid, expected = ~np.isfinite(values) | (values < 0.0), "finite numbers that are not negative"
    else:
        invalid, expected = ~np.isfinite(values), "finite numbers"
    if invalid.any():
        raise KinemaError(f"{label}: expected {expected}, not {values[invalid].flat[0]:g}")
    return values


def parse_sol_params(params: Any, n_envs: int, n_constraints: int, label: str) -> np.ndarray:
    """Convert soft-constraint parameters solref (2) and solimp (5) to an array (n_envs or 1, n_constraints, 7).

    Accepts seven numbers for all constraints, (n_constraints, 7) or (n_envs, n_constraints, 7). Raises `KinemaError`
    unless all are finite and the two numbers of solref are both positive or both non-positive (MuJoCo's two formats).
    """
    values = as_array(params, np.float64, label)
    array = as_batch(
        np.broadcast_to(values, (n_constraints, 7)) if values.shape == (7,) else values,
        n_envs,
        (n_constraints, 7),
        float,
        label,
    )
    mixed_signs = (array[..., 0] > 0.0) != (array[..., 1] > 0.0)
    if not np.isfinite(array).all() or mixed_signs.any():
        raise KinemaError(
            f"{label}: expected seven finite numbers, solref (two positive or two non-positive numbers) and solimp, "
            f"not {params!r}"
        )
    return array


def axis_scales(value: Any, label: str) -> Array:
    """Convert a scale factor, one positive number or one per axis x, y, z, to an array of shape (3,)."""
    array = as_array(value, np.float64, label)
    if array.shape not in ((), (3,)) or not (np.isfinite(array) & (array > 0.0)).all():
        raise KinemaError(f"{label}: expected one positive number or three, not {value!r}")
    return np.broadcast_to(array, (3,)).copy()


def environment_offsets(n_envs: int, spacing: Array) -> Array:
    """Display offsets of the environments [m], (n_envs, 3): a square grid in the xy plane, centred at the origin.

    Args:
        n_envs: number of environments.
        spacing: distance of neighbouring environments along x and y [m], (2,).
    """
    side = math.isqrt(n_envs - 1) + 1
    row, column = np.divmod(np.arange(n_envs), side)
    grid = np.stack([column - (side - 1) / 2, row - (-(-n_envs // side) - 1) / 2], axis=1)
    return np.concatenate([grid * spacing, np.zeros((n_envs, 1))], axis=1)


def base_pose(
    description: Robot | World, pos: ArrayLike, quat: ArrayLike | None, euler: ArrayLike | None
) -> Pose | None:
    """World pose of the base frame of a description from the user's position and orientation.

    None if these are zero and the identity: the description then stays where it is.

    Args:
        description: robot or world; the authored pose of a robot is kept and transformed by the user's pose.
        pos: position [m], (3,).
        quat: orientation (w, x, y, z), not necessarily normalised; None for the identity.
        euler: roll, pitch, yaw about the fixed x, y, z axes [rad], instead of `quat`.
    """
    pose = pose_from_arguments(pos, quat, euler)
    if not pose.position.any() and np.array_equal(pose.rotation, np.eye(3)):
        return None
    return pose @ description.pose if isinstance(description, Robot) else pose


def pose_from_arguments(pos: ArrayLike, quat: ArrayLike | None, euler: ArrayLike | None) -> Pose:
    """Pose of a position [m] and a quaternion (w, x, y, z) or angles about the fixed x, y, z axes [rad].

    Raises `KinemaError` if both orientations are given, or for a zero quaternion.
    """
    p = finite_vector(pos, "pos", "three")
    if euler is not None:
        if quat is not None:
            raise KinemaError("quat, euler: give one of the two orientations, not both")
        return Pose.from_rpy(p, finite_vector(euler, "euler", "three"))
    q = finite_vector((1.0, 0.0, 0.0, 0.0) if quat is None else quat, "quat", "four")
    if not q.any():
        raise KinemaError(f"quat: expected four numbers (w, x, y, z) that are not all zero, not {quat!r}")
    return Pose.from_quaternion(p, q)
