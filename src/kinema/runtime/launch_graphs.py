"""Composition of GPU launches: sequences, concurrent streams, CUDA graphs, and the order of work-queue kernels."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

from .compiled_program import CompiledKernel
from .cuda_driver import is_capturing
from .devices import Device, warp

Launch = Callable[[], None]


def launch_in_sequence(launches: Sequence[Launch]) -> Launch:
    """One launch that runs several launches in sequence."""

    def run() -> None:
        for launch in launches:
            launch()

    return run


def capture_graph(device: Device, launches: Sequence[Launch]) -> Launch:
    """One launch that runs several launches in sequence: a captured CUDA graph on a GPU, a loop on a CPU."""
    if device.is_cpu:
        return launch_in_sequence(launches)
    wp = warp()
    # a stream of its own: the current one may be PyTorch's default stream, which cannot be captured
    stream = wp.Stream(device.name)
    with wp.ScopedStream(stream), wp.ScopedCapture(device=device.name, stream=stream) as capture:
        for launch in launches:
            launch()
    # the graph only holds addresses; the launches keep the arrays alive
    return lambda keep_alive=(stream, *launches): wp.capture_launch(capture.graph)


def repeat_launches(device: Device, launches: Sequence[Launch], count: int) -> Launch:
    """One launch that runs a sequence of launches `count` times, as a CUDA graph captured on first use.

    If a graph is being captured at the call, the launches become part of that graph instead.
    """
    graphs: list[Launch] = []

    def run() -> None:
        """Launch the graph `count` times, or the single launches while another graph is being captured."""
        if is_capturing(device):
            for _ in range(count):
                for launch in launches:
                    launch()
            return
        if not graphs:
            graphs.append(capture_graph(device, launches))
        for _ in range(count):
            graphs[0]()

    return run


def launch_concurrently(device: Device, launches: Sequence[Launch]) -> Launch:
    """One launch that runs several launches concurrently: the first on the current stream, the others on own streams.

    Later work on the current stream waits for all of them. The GPU starts with the first; the others fill the remaining
    multiprocessors.
    """
    if len(launches) < 2:
        return launches[0]
    wp = warp()
    streams = [wp.Stream(device.name) for _ in launches[1:]]
    begin, *ends = (wp.Event(device.name) for _ in launches)

    def run() -> None:
        """Launch on all streams, with events that fork from and join the current stream."""
        current: Any = wp.get_device(device.name).stream
        current.record_event(begin)
        launches[0]()
        for stream, launch, end in zip(streams, launches[1:], ends, strict=True):
            stream.wait_event(begin)
            with wp.ScopedStream(stream, sync_enter=False):
                launch()
            stream.record_event(end)
        for end in ends:
            current.wait_event(end)

    return run


# --------------------------------------------------------------------------------------------------- work-queue kernels


def group_by_queues(kernels: Sequence[CompiledKernel]) -> list[list[CompiledKernel]]:
    """Group kernels for concurrent launch: kernels of the same work queues, and kernels that may overlap with them.

    Consecutive kernels only, in order; every other kernel is a group by itself.
    """
    groups: list[list[CompiledKernel]] = []
    for kernel in kernels:
        queues = groups[-1][0].queues if groups else None
        shares_queues = (
            kernel.queues is not None and queues is not None and kernel.queues.part_index == queues.part_index
        )
        if shares_queues or (kernel.can_overlap and queues is not None):
            groups[-1].append(kernel)
        else:
            groups.append([kernel])
    return groups


def equalise_carveouts(kernels: Sequence[CompiledKernel]) -> None:
    """Set equal shared-memory carve-outs for kernels that run concurrently.

    A multiprocessor must be idle to change its carve-out, so that different values would serialise the kernels.
    """
    for group in group_by_queues(kernels):
        for kernel in group if len(group) > 1 else ():
            kernel.function.set_carveout(max(other.function.carveout_percent for other in group))


def order_queue_launches(
    device: Device, kernels: Sequence[CompiledKernel], launches: Sequence[Launch], following: Sequence[Launch]
) -> Launch:
    """One launch of the kernels of a group of work queues, ordered by their dependencies.

    First the filter kernel that fills the queues, then concurrently the kernels that process the queues and the other
    filter kernel, then `following`. Kernels without queues run concurrently with all of these.

    Args:
        device: GPU.
        kernels: kernels of the group.
        launches: launch of each kernel.
        following: launches that depend on all work-queue kernels (environment binning).
    """
    filters, queue_work, independent = list[Launch](), list[Launch](), list[Launch]()
    for kernel, launch in zip(kernels, launches, strict=True):
        (independent if kernel.queues is None else queue_work if kernel.queues.n_blocks else filters).append(launch)
    filling, inline = (filters[:1], filters[1:]) if queue_work else ([], filters)
    queue_launch = launch_in_sequence([*filling, launch_concurrently(device, [*queue_work, *inline]), *following])
    return launch_concurrently(device, [queue_launch, *independent])
