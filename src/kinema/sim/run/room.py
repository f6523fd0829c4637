"""Room for all environments of a model."""

from __future__ import annotations

from kinema.backend import Device, Layout, padded
from kinema.foundation import KinemaError


def refuse_too_many(n_envs: int, device: Device, precision: str, layouts: list[Layout]) -> None:
    """Raise before anything is allocated, if all of it together is too much."""
    per_env = sum(layout.n_rows for layout in layouts) * (4 if precision == "single" else 8)
    needed, free = per_env * padded(n_envs, device), device.free_memory()
    if needed > free:
        raise KinemaError(
            f"{n_envs:,} environments need {needed / 2**20:,.0f} MiB ({per_env:,} bytes each), and {device.name} has "
            f"{free / 2**20:,.0f} MiB free: room for about {free // per_env:,}"
        )
