"""Before a model runs: it is dumped where that is asked for, and there has to be room for it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields, is_dataclass

import numpy as np

from kinema.backend import Device, Layout, dump_arrays, dump_folder, padded
from kinema.foundation import KinemaError
from kinema.model import Model


def dump_model(name: str, digest: str, model: Model) -> None:
    """Write all arrays of a model to the folder that `KINEMA_DUMP` names, if it names one."""
    if dump_folder() is not None:
        dump_arrays(name, digest, dict(model_arrays(model)))


def model_arrays(value: object, name: str = "") -> Iterator[tuple[str, np.ndarray]]:
    """Everything that is in a model as arrays, by where it is: `frames.parent_idx`, `entities.0.name`."""
    if is_dataclass(value) and not isinstance(value, type):
        for field in fields(value):
            yield from model_arrays(getattr(value, field.name), f"{name}.{field.name}" if name else field.name)
    elif isinstance(value, list | tuple) and any(is_dataclass(x) or isinstance(x, np.ndarray) for x in value):
        for number, item in enumerate(value):
            yield from model_arrays(item, f"{name}.{number}")
    elif value is not None:
        plain = isinstance(value, np.ndarray | bool | int | float | str)
        array = np.asarray(value) if plain else _listed(value)
        yield name, array if array.dtype != np.object_ else np.asarray([repr(x) for x in array.ravel()])


def _listed(value: object) -> np.ndarray:
    """A list of names or numbers; anything else as it would be printed."""
    if isinstance(value, list | tuple) and all(isinstance(x, str | bool | int | float) for x in value):
        return np.asarray(value) if value else np.zeros(0)
    return np.asarray(repr(value))


def refuse_too_many(n_envs: int, device: Device, precision: str, layouts: list[Layout]) -> None:
    """Raise before anything is allocated, if all of it together is too much."""
    per_env = sum(layout.n_rows for layout in layouts) * (4 if precision == "single" else 8)
    needed, free = per_env * padded(n_envs, device), device.free_memory()
    if needed > free:
        raise KinemaError(
            f"{n_envs:,} environments need {needed / 2**20:,.0f} MiB ({per_env:,} bytes each), and {device.name} has "
            f"{free / 2**20:,.0f} MiB free: room for about {free // per_env:,}"
        )
