"""Launches of a GPU put together: side by side where none needs another, and in graphs that start with one call."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .devices import Device, warp
from .gpu_code import is_capturing

Launch = Callable[[], None]


def one_by_one(launches: Sequence[Launch]) -> Launch:
    """Several launches as one."""

    def run() -> None:
        for launch in launches:
            launch()

    return run


def captured(device: Device, launches: Sequence[Launch]) -> Launch:
    """Several launches as one: a CUDA graph on a GPU, a loop on a CPU."""
    if device.is_cpu:
        return one_by_one(launches)
    wp = warp()
    # not on the stream that is Warp's now: it may be one of PyTorch's, which need not be able to
    own = wp.Stream(device.name)
    with wp.ScopedStream(own), wp.ScopedCapture(device=device.name, stream=own) as capture:
        for launch in launches:
            launch()
    # the graph knows addresses; the launches keep the arrays there
    return lambda kept=(own, *launches): wp.capture_launch(capture.graph)


def repeated(device: Device, launches: Sequence[Launch], count: int) -> Launch:
    """All launches, so many times: a graph from the first time on, unless somebody captures one just then."""
    graphs: list[Launch] = []

    def run() -> None:
        if is_capturing(device):
            for _ in range(count):
                for launch in launches:
                    launch()
            return
        if not graphs:
            graphs.append(captured(device, launches))
        for _ in range(count):
            graphs[0]()

    return run


def side_by_side(device: Device, launches: Sequence[Launch]) -> Launch:
    """Launches that may run at the same time: each but the first on a stream of its own, from here to its end.

    A GPU begins with the first, and others fill what that leaves.
    """
    if len(launches) < 2:
        return launches[0]
    wp = warp()
    streams = [wp.Stream(device.name) for _ in launches[1:]]
    begin, *ends = (wp.Event(device.name) for _ in launches)

    def run() -> None:
        here: Any = wp.get_device(device.name).stream
        here.record_event(begin)
        launches[0]()
        for stream, launch, end in zip(streams, launches[1:], ends, strict=True):
            stream.wait_event(begin)
            with wp.ScopedStream(stream, sync_enter=False):
                launch()
            stream.record_event(end)
        for end in ends:
            here.wait_event(end)

    return run
