"""What users write down, as arrays of the right shape: environments first, then items."""

from __future__ import annotations

import fnmatch
import re
from collections.abc import Sequence
from typing import Any

import numpy as np
import numpy.typing as npt

from kinema.foundation import KinemaError

Index = npt.NDArray[np.intp]


def as_array(values: Any, dtype: npt.DTypeLike, what: str) -> np.ndarray:
    """Numbers of any kind (lists, NumPy, PyTorch on any device) as a NumPy array."""
    try:
        if hasattr(values, "detach"):  # a PyTorch tensor, perhaps on a GPU and with a gradient
            values = values.detach().cpu()
        return np.asarray(values, dtype=dtype)
    except (TypeError, ValueError) as error:
        raise KinemaError(f"{what}: these are not numbers: {error}") from None


def batched(values: Any, n_envs: int, item: tuple[int, ...], dtype: npt.DTypeLike, what: str) -> np.ndarray:
    """The values of all environments, shape (n_envs, *item), or (1, *item) where those of one serve all."""
    array = as_array(values, dtype, what)
    shape = (n_envs, *item)
    if array.shape in (shape, (1, *item)):
        return array
    if array.shape == item:
        return array[None]
    if array.shape == ():
        return np.full((1, *item), array)
    raise KinemaError(f"{what}: expected values of shape {item} or {shape}, not {array.shape}")


def environments(envs_idx: Any, n_envs: int) -> Index | None:
    """Numbers of the environments meant; None for all."""
    if envs_idx is None:
        return None
    return _index(envs_idx, n_envs, "envs_idx", "environments", None)


def items(wanted: Any, names: Sequence[str], what: str, noun: str) -> Index:
    """Numbers of the items meant: by number, name or pattern, one or several, a slice or a mask; None for all."""
    if wanted is None:
        return np.arange(len(names))
    return _index(wanted, len(names), what, noun, names)


def _index(wanted: Any, count: int, what: str, noun: str, names: Sequence[str] | None) -> Index:
    if isinstance(wanted, slice):
        return np.arange(count)[wanted]
    if isinstance(wanted, str):
        wanted = [wanted]
    if names is not None and isinstance(wanted, list | tuple):
        found = [by_pattern(x, names, what, noun) if isinstance(x, str) else [x] for x in wanted]
        wanted = [item for group in found for item in group]
    if hasattr(wanted, "detach"):
        wanted = wanted.detach().cpu()  # ty: ignore[not-callable]
    array = np.atleast_1d(np.asarray(wanted))
    if array.dtype == np.bool_:
        if array.shape != (count,):
            raise KinemaError(f"{what}: a mask has shape ({count},), not {array.shape}")
        return np.flatnonzero(array)
    if array.size == 0:
        return np.zeros(0, dtype=np.intp)
    if array.ndim != 1 or not np.issubdtype(array.dtype, np.integer):
        raise KinemaError(f"{what}: expected numbers of {noun}, not {wanted!r}")
    if array.min() < -count or array.max() >= count:
        raise KinemaError(f"{what}: there are {count} {noun}, so that {_beyond(array, count)} is none of them")
    return (array % count).astype(np.intp)


def _beyond(array: np.ndarray, count: int) -> int:
    return int(array[(array < -count) | (array >= count)][0])


def by_pattern(pattern: str, names: Sequence[str], what: str, noun: str) -> list[int]:
    """Numbers of the items that a name or pattern means, in their own order.

    A name means itself. Anything else is a regular expression for the whole name (`joint[1-4]`, `.*_hip`), or, where
    none is like that, what shells write (`*_hip`, `finger?`).
    """
    found = _like(pattern, names)
    if not found:
        raise KinemaError(f"{what}: there is no {pattern!r}; the {noun} are: {', '.join(names) or 'none'}")
    return found


def any_like(pattern: str, names: Sequence[str]) -> bool:
    """Whether a name or pattern means any of the items."""
    return bool(_like(pattern, names))


def _like(pattern: str, names: Sequence[str]) -> list[int]:
    exact = [i for i, name in enumerate(names) if name == pattern]
    if exact:
        return exact[:1]
    try:
        found = [i for i, name in enumerate(names) if re.fullmatch(pattern, name)]
    except (re.error, RecursionError, OverflowError):
        found = []
    return found or [i for i, name in enumerate(names) if fnmatch.fnmatchcase(name, pattern)]


def by_name(name: Any, names: Sequence[str], what: str, noun: str) -> int:
    """The number of the one item of that name."""
    if name not in list(names):
        raise KinemaError(f"{what}: there is no {name!r}; the {noun} are: {', '.join(names) or 'none'}")
    return list(names).index(name)
