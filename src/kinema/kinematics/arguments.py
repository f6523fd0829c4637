"""Validation of user arguments: finite arrays of a given width, unit vectors, indices by name."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.core import Array, KinemaError


def validate_rows(values: Any, width: int, label: str, n_rows: int | None = None) -> Array:
    """Convert user values to a finite float64 array of shape (n, width), or raise `KinemaError`.

    A single row (width,) becomes (1, width). With `n_rows`, the array must have 1 or `n_rows` rows and is broadcast to
    (n_rows, width).

    Args:
        values: array-like or PyTorch tensor.
        width: required length of a row.
        label: name of the argument in error messages.
        n_rows: required number of rows; None for any.
    """
    try:
        if hasattr(values, "detach"):
            values = values.detach().cpu()
        array = np.asarray(values, np.float64)
    except (TypeError, ValueError) as error:
        raise KinemaError(f"{label}: the values are not numeric: {error}") from None
    if array.ndim == 1:
        array = array[None]
    if array.ndim != 2 or array.shape[1] != width or (n_rows is not None and len(array) not in (1, n_rows)):
        wanted = f"({width},) or ({'n' if n_rows is None else n_rows}, {width})"
        raise KinemaError(f"{label}: expected values of shape {wanted}, not {np.asarray(values).shape}")
    if not np.isfinite(array).all():
        raise KinemaError(f"{label}: expected finite numbers")
    return array if n_rows is None else np.broadcast_to(array, (n_rows, width))


def validate_unit_rows(values: Any, width: int, label: str, n_rows: int | None = None) -> Array:
    """Convert user values to rows normalised to unit length (vectors or quaternions); zero rows raise `KinemaError`."""
    array = validate_rows(values, width, label, n_rows)
    length = np.linalg.norm(array, axis=1, keepdims=True)
    if (length < 1e-12).any():
        raise KinemaError(f"{label}: expected {width} values that are not all zero")
    return array / length


def resolve_index(reference: Any, names: Sequence[str], label: str, noun: str) -> int:
    """Index of an element given by index, name or an object with attribute `idx`; negative indices count from the end.

    Raises `KinemaError` with `label` and the plural `noun` of the elements if there is no such element.
    """
    if isinstance(reference, str):
        if reference not in names:
            raise KinemaError(f"{label}: there is no {reference!r}; the {noun} are: {', '.join(names) or 'none'}")
        return list(names).index(reference)
    reference = getattr(reference, "idx", reference)
    if isinstance(reference, bool | np.bool_) or not isinstance(reference, int | np.integer):
        raise KinemaError(f"{label}: expected the name or index of one of the {noun}, not {reference!r}")
    if not -len(names) <= reference < len(names):
        raise KinemaError(f"{label}: index {reference} is out of range: there are {len(names)} {noun}")
    return int(reference) % len(names)


def broadcast_length(arrays: Sequence[Array], label: str) -> int:
    """Common number of rows of arrays, where arrays of one row broadcast; raises `KinemaError` if they differ."""
    lengths = {len(a) for a in arrays} - {1}
    if len(lengths) > 1:
        raise KinemaError(
            f"{label}: arrays of {' and '.join(map(str, sorted(lengths)))} rows cannot be broadcast together"
        )
    return lengths.pop() if lengths else 1
