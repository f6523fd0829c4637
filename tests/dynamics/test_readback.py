"""Periodic copies of GPU arrays to the host: how old values may be, and when the host waits."""

from __future__ import annotations

import numpy as np
import pytest

from kinema.runtime import PeriodicReadback

INTERVAL = 32


class Gpu:
    """A counter on a device that lags behind the host."""

    def __init__(self, latency: float) -> None:
        self.latency, self.call, self.counter, self.n_waits = latency, 0, 0, 0


class Copy:
    """A copy of a counter that completes a number of calls after its start; waiting is counted."""

    def __init__(self, gpu: Gpu) -> None:
        self.gpu, self.values, self.done_at = gpu, np.array([gpu.counter]), gpu.call + gpu.latency

    def is_complete(self) -> bool:
        return self.gpu.call >= self.done_at

    def wait(self) -> np.ndarray:
        self.gpu.n_waits += not self.is_complete()
        return self.values


@pytest.mark.parametrize("latency", [0, 1, 31, 32, float("inf")])
@pytest.mark.parametrize("first", [1, 31, 32, 33, 64, 100, 1000, 1023])
def test_a_change_is_seen_within_two_intervals(latency: float, first: int) -> None:
    """Whenever it happens, also late in a run, and however far the device is behind."""
    gpu = Gpu(latency)
    readback = PeriodicReadback(lambda: Copy(gpu), INTERVAL)
    for gpu.call in range(1, first + 2 * INTERVAL):
        gpu.counter = int(gpu.call >= first)
        values = readback.poll()
        if values is not None and values[0]:
            break
    else:
        pytest.fail("the change was not seen")
    assert gpu.n_waits <= (gpu.call // INTERVAL if latency > INTERVAL else 0)


def test_values_are_returned_once() -> None:
    gpu = Gpu(latency=3)
    readback = PeriodicReadback(lambda: Copy(gpu), INTERVAL)
    returned = []
    for gpu.call in range(1, 10 * INTERVAL + 1):
        if readback.poll() is not None:
            returned.append(gpu.call)
    assert returned == [INTERVAL * k + 3 for k in range(1, 10)]
