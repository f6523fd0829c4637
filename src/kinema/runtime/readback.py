"""Asynchronous copies of GPU arrays to the host, for conditions that are checked without stopping the GPU."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Protocol

import numpy as np

from .arrays import ArrayView
from .devices import Device, warp


class PendingCopy(Protocol):
    """A copy to the host that may be in progress."""

    def is_complete(self) -> bool:
        """Whether the copy has completed."""
        ...

    def wait(self) -> np.ndarray:
        """Wait for the copy and return it."""
        ...


class HostCopy:
    """Copy of a GPU array to page-locked host memory, in order with the work submitted to the current stream."""

    def __init__(self, view: ArrayView, device: Device) -> None:
        wp = warp()
        source: Any = view.warp.contiguous()
        self._host = wp.empty(source.shape, dtype=source.dtype, device="cpu", pinned=True)
        wp.copy(self._host, source)
        self._source = source  # kept until the copy has completed
        self._event = wp.Event(device.name)
        wp.get_stream(device.name).record_event(self._event)

    def is_complete(self) -> bool:
        """Whether the copy has completed."""
        return self._event.is_complete

    def wait(self) -> np.ndarray:
        """Wait for the copy and return it."""
        warp().synchronize_event(self._event)
        return self._host.numpy()


class PeriodicReadback:
    """Values of a GPU array, copied every `interval` calls and returned at most `interval` calls later.

    A copy is waited for only when the next one is due, so that the host may run `interval` calls ahead of the GPU.
    """

    def __init__(self, start_copy: Callable[[], PendingCopy], interval: int) -> None:
        self._start_copy, self._interval = start_copy, interval
        self._pending: PendingCopy | None = None
        self._n_calls = 0

    def poll(self) -> np.ndarray | None:
        """Values of a completed copy, once each; None if there are none. To be called regularly."""
        self._n_calls += 1
        is_due, values = self._n_calls % self._interval == 0, None
        if self._pending is not None and (is_due or self._pending.is_complete()):
            values, self._pending = self._pending.wait(), None
        if is_due:
            self._pending = self._start_copy()
        return values
