"""A field as users hold it."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from kinema.backend import Field


class Quantity:
    """A field: items by environments, and each a number, vector or matrix. It always shows the present state."""

    def __init__(self, rows: Field, shape: tuple[int, ...], batch: int, refresh: Callable[[], None]) -> None:
        self._rows = rows
        self._stored = shape
        """As it lies in memory, environments last."""
        self._batch = batch
        """Where the environments are among the axes."""
        self._refresh = refresh

    @property
    def shape(self) -> tuple[int, ...]:
        """Such as (n_links, n_envs, 3)."""
        inner = self._stored[:-1]
        return (*inner[: self._batch], self._stored[-1], *inner[self._batch :])

    def numpy(self) -> np.ndarray:
        """As NumPy: a view of the memory on a CPU, a copy from a GPU."""
        self._refresh()
        return np.moveaxis(self._rows.numpy().reshape(self._stored), -1, self._batch)

    def to_torch(self) -> Any:
        """As a PyTorch tensor on the same memory; it changes when the field is read again after a step."""
        self._refresh()
        return self._rows.to_torch().unflatten(0, (*self._stored[:-1], 1)).squeeze(-2).movedim(-1, self._batch)

    @property
    def warp(self) -> Any:
        """The rows that it lies in as a Warp array (numbers, environments), without a copy."""
        self._refresh()
        return self._rows.warp

    def __dlpack__(self, **how: Any) -> Any:
        """For whoever takes arrays by DLPack; from a GPU by way of PyTorch."""
        return self._shared().__dlpack__(**how)

    def __dlpack_device__(self) -> Any:
        """Where the memory is, for the same."""
        return self._shared().__dlpack_device__()

    def _shared(self) -> Any:
        return self.numpy() if self._rows.is_on_host else self.to_torch()

    def __repr__(self) -> str:
        return f"Quantity{self.shape}"
