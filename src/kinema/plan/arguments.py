"""What users hand over, as arrays of the right shape, or one sentence that says what is wrong."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.foundation import Array, KinemaError


def rows(values: Any, width: int, what: str, n: int | None = None) -> Array:
    """Finite numbers as (n, width): one row serves all."""
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise KinemaError(f"{what}: these are not numbers: {error}") from None
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] != width or (n is not None and len(array) not in (1, n)):
        wanted = f"({width},) or ({'n' if n is None else n}, {width})"
        raise KinemaError(f"{what}: expected values of shape {wanted}, not {np.asarray(values).shape}")
    if not np.isfinite(array).all():
        raise KinemaError(f"{what}: expected finite numbers")
    return array if n is None else np.broadcast_to(array, (n, width))


def unit_rows(values: Any, width: int, what: str, n: int | None = None) -> Array:
    """Vectors or quaternions of length one."""
    array = rows(values, width, what, n)
    length = np.linalg.norm(array, axis=1, keepdims=True)
    if (length < 1e-12).any():
        raise KinemaError(f"{what}: expected {width} numbers that are not all zero")
    return array / length


def index(wanted: Any, names: Sequence[str], what: str, noun: str) -> int:
    """The number of one item, by number or name."""
    if isinstance(wanted, str):
        if wanted not in names:
            raise KinemaError(f"{what}: there is no {wanted!r}; the {noun} are: {', '.join(names) or 'none'}")
        return list(names).index(wanted)
    wanted = getattr(wanted, "idx", wanted)
    if isinstance(wanted, bool | np.bool_) or not isinstance(wanted, int | np.integer):
        raise KinemaError(f"{what}: expected the name or number of one of the {noun}, not {wanted!r}")
    if not -len(names) <= wanted < len(names):
        raise KinemaError(f"{what}: there are {len(names)} {noun}, so that {wanted} is none of them")
    return int(wanted) % len(names)


def common_length(arrays: Sequence[Array], what: str) -> int:
    """How many rows there are, where those with one row serve all."""
    lengths = {len(a) for a in arrays} - {1}
    if len(lengths) > 1:
        raise KinemaError(f"{what}: arrays of {' and '.join(map(str, sorted(lengths)))} rows do not go together")
    return lengths.pop() if lengths else 1
