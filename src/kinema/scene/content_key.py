"""What a model is known by: the same key for the same content, whatever it was read from, and another for any other."""

from __future__ import annotations

import dataclasses
import enum
import hashlib
from collections.abc import Sequence
from typing import Any

import numpy as np

from kinema.model import Model
from kinema.sim import Settings

NOT_THE_STEP = ("dt", "drive", "per_env", "roles", "external_forces")
"""Settings that change neither what a state is nor where it leads, or that are among the arrays of a state."""


def content_key(model: Model, settings: Settings, precision: str, others: Sequence[Model] = ()) -> str:
    """A digest of all that decides how a state goes on."""
    digest = hashlib.sha256(precision.encode())
    for one in (model, *others):
        _take(digest, one)
    for field in dataclasses.fields(settings):
        if field.name not in NOT_THE_STEP:
            _take(digest, (field.name, getattr(settings, field.name)))
    return digest.hexdigest()


def _take(digest: Any, value: Any) -> None:
    """One value, with its kind and size, so that no two different ones read alike."""
    if isinstance(value, np.ndarray):
        plain = np.ascontiguousarray(value)
        digest.update(f"{plain.dtype.str}{plain.shape}".encode())
        digest.update(plain.tobytes())
    elif dataclasses.is_dataclass(value):
        for field in dataclasses.fields(value):
            digest.update(field.name.encode())
            _take(digest, getattr(value, field.name))
    elif isinstance(value, list | tuple):
        digest.update(f"[{len(value)}".encode())
        for item in value:
            _take(digest, item)
    elif isinstance(value, enum.Enum):
        _take(digest, value.value)
    else:
        digest.update(f"{type(value).__name__} {value!r};".encode())
